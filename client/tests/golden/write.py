"""Writes what the daemon answers about each file here, and how CPython 3.13 dumps it. Run it by Python 3.13."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.append(str(ROOT / "tests" / "conformance"))
# The client's package without what it imports: only its tables of kinds are needed.
client = sys.modules["accelerd"] = ModuleType("accelerd")
client.__path__ = [str(ROOT / "client" / "python" / "src" / "accelerd")]

# Fields of ParseResponse, of the messages in it, and of SourceResult.
TABLES = {
    2: ("kinds", "fields", "parents", "starts", "ends", "aux"),
    3: ("name_starts", "name_ends"),
    4: ("value_tags", "value_starts", "value_ends"),
}
COUNTS = {2: ("kinds", 1), 3: ("name_starts", 4), 4: ("value_tags", 1), 5: ("extra", 1)}


def varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def delimited(field: int, data: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(data)) + data


def response(columns: dict[str, bytes]) -> bytes:
    """A ParseResponse about one source."""
    counts = [varint(field << 3) + varint(len(columns[name]) // size) for field, (name, size) in COUNTS.items()]
    tables = [
        delimited(field, b"".join(delimited(at, columns[name]) for at, name in enumerate(names, 1)))
        for field, names in TABLES.items()
    ]
    return delimited(1, b"".join(counts)) + b"".join(tables) + delimited(5, columns["extra"])


def main() -> None:
    from reference import columns_of

    assert sys.version_info[:2] == (3, 13), "Python 3.13 is the one to compare with"
    for file in sorted(HERE.glob("*.py")):
        if file.name == Path(__file__).name:
            continue
        source = file.read_bytes()
        tree = ast.parse(source)
        file.with_suffix(".response").write_bytes(response(columns_of(tree, source)))
        dumps = ast.dump(tree), ast.dump(tree, include_attributes=True, indent=2)
        file.with_suffix(".dump").write_text("\n".join(dumps) + "\n", encoding="utf-8", errors="surrogatepass")


main()
