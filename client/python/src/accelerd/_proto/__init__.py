"""Messages and stubs of accelerd.v1, written by generate.py."""
