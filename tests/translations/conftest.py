"""Fixtures of the Python client's tests: a daemon, and a client of it."""

import importlib.util
import sys
from pathlib import Path

CLIENT = Path(__file__).resolve().parents[2] / "client" / "python"

sys.path[:0] = [str(CLIENT / "src"), str(CLIENT / "tests")]
_spec = importlib.util.spec_from_file_location("client_fixtures", CLIENT / "tests" / "conftest.py")
assert _spec is not None and _spec.loader is not None
_fixtures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_fixtures)

client, server = _fixtures.client, _fixtures.server
