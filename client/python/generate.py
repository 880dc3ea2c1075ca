"""Generates messages, stubs and the table of methods from the .proto files, and the blocking client.

With --check verifies that they are current. Requires the version of grpcio-tools in pyproject.toml: the output differs
between versions.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

import generate_blocking
import generate_methods

HERE = Path(__file__).resolve().parent
OUTPUT = HERE / "src" / "accelerd" / "_proto"
OPENING = '"""Messages and stubs of accelerd.v1, written by generate.py."""\n'


def generate(folder: Path) -> None:
    """Generate modules and type stubs in a folder, with imports of `accelerd._proto`."""
    with tempfile.TemporaryDirectory() as scratch:
        generate_methods.protoc(*(f"--{kind}_out={scratch}" for kind in ("python", "pyi", "grpc_python")))
        for file in sorted(Path(scratch, "accelerd", "v1").iterdir()):
            # Skip the empty gRPC modules of files without a service.
            if file.name.endswith("_pb2_grpc.py") and "Stub" not in file.read_text():
                continue
            (folder / file.name).write_text(
                re.sub(r"\baccelerd\.v1 import", "accelerd._proto import", file.read_text())
            )
    (folder / "__init__.py").write_text(OPENING)


def drift() -> list[str]:
    """Return the names of the files that are out of date."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        generate(folder)
        fresh = {file.name: file.read_text() for file in folder.iterdir()}
    there = {file.name: file.read_text() for file in OUTPUT.glob("*.py*") if file.is_file()}
    return sorted(name for name in fresh | there if fresh.get(name) != there.get(name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is out of date")
    if not parser.parse_args().check:
        OUTPUT.mkdir(parents=True, exist_ok=True)
        generate(OUTPUT)
        generate_methods.generate(generate_blocking.SOURCES)
        generate_blocking.generate(generate_blocking.SOURCES)
    elif differing := drift() + generate_methods.drift() + generate_blocking.drift():
        sys.exit(f"out of date: {', '.join(differing)}; run python generate.py")


if __name__ == "__main__":
    main()
