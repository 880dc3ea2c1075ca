"""Extracts the doctests and string constants of a folder's modules.

python3.13 extract.py FOLDER OUT
"""

from __future__ import annotations

import ast
import doctest
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from frames import write_blocks

MAX_LENGTH = 20_000


def doctests(text: str) -> Iterator[str]:
    try:
        examples = doctest.DocTestParser().get_examples(text)
    except ValueError:
        return
    yield from (example.source for example in examples)


def texts(file: Path) -> Iterator[str]:
    """Possible sources in a module: doctests, and strings with more than words."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and 3 <= len(node.value) <= MAX_LENGTH:
            if ">>>" in node.value:
                yield from doctests(node.value)
            if re.search(r"[^\w\s.,-]", node.value):
                yield node.value


def main(folder: str, out: str) -> None:
    warnings.simplefilter("ignore")
    found: dict[str, None] = {}
    for file in sorted(Path(folder).rglob("*.py")):
        found.update(dict.fromkeys(texts(file)))
    for file in sorted(Path(folder).rglob("*.txt")):
        found.update(dict.fromkeys(doctests(file.read_text(encoding="utf-8", errors="replace"))))
    Path(out).write_bytes(write_blocks(text.encode("utf-8", "surrogatepass") for text in found))


if __name__ == "__main__":
    main(*sys.argv[1:])
