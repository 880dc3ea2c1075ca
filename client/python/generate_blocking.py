"""Generates the blocking client, `accelerd._blocking_*`, from the asyncio client, `accelerd._aio_*`.

What differs in more than words is in pairs of modules that are written by hand, with the same names in both.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "src" / "accelerd"
#: The pairs of modules that are written by hand.
HAND_WRITTEN = {"conversions", "runtime"}
#: Regular expressions and what replaces them, in this order, in code and docstrings alike.
RULES = {
    # Prose.
    r"\basyncio client\b": "blocking client",
    r"\bbelongs to one event loop\b": "is thread-safe",
    r"\bin its own task\b": "on its own thread",
    r"\ban `async with`": "a `with`",
    r"\ban `AsyncClient`": "a `Client`",
    r"`await` downloads it": "`numpy()` downloads it",
    r"`await tensor`, or `await tensor\.numpy\(\)`, computes it and returns an array:": (
        "`numpy()`, `float()`, `int()`, `bool()` and `numpy.asarray()` compute it:"
    ),
    # Imports.
    r"\bgrpc\.aio\b": "grpc",
    r"^(from \._aio_runtime import .*)\bBatches, ": r"from collections.abc import Iterable\n\1",
    r"\b_aio_(?=[a-z])": "_blocking_",
    # Syntax and names.
    r"\b(async|await) ": "",
    r"\b__a(?=(enter|exit)__)": "__",
    r"\bAsync(?=[A-Z])": "",
    r"\bBatches\b": "Iterable",
}


def generate(output: Path, sources: Path = SOURCES) -> None:
    """Write the blocking client to a folder, formatted as all sources are."""
    unused = set(RULES)
    written = []
    for source in sorted(sources.glob("_aio_*.py")):
        module = source.stem.removeprefix("_aio_")
        if module in HAND_WRITTEN:
            continue
        text = source.read_text()
        for pattern, replacement in RULES.items():
            text, count = re.subn(pattern, replacement, text, flags=re.MULTILINE)
            if count:
                unused.discard(pattern)
        written.append(output / f"_blocking_{module}.py")
        written[-1].write_text(f"# Generated from {source.name} by generate.py; do not edit.\n{text}")
    if unused:
        sys.exit(f"rules of generate_blocking.py that match nothing: {', '.join(sorted(unused))}")
    # Imports are sorted by other names than before, and a loop of `yield` that was asynchronous is a `yield from`.
    ruff("check", "--select=I,UP028", "--fix", "--unsafe-fixes", *written)
    ruff("format", *written)


def drift(sources: Path = SOURCES) -> list[str]:
    """Return the names of the modules in a folder that are out of date."""
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch), sources)
        fresh = {file.name: file.read_text() for file in Path(scratch).iterdir()}
    by_hand = {f"_blocking_{module}.py" for module in HAND_WRITTEN}
    there = {file.name: file.read_text() for file in sources.glob("_blocking_*.py") if file.name not in by_hand}
    return sorted(name for name in fresh | there if fresh.get(name) != there.get(name))


def ruff(command: str, *arguments: str | Path) -> None:
    """Run ruff with the settings of all sources."""
    options = ["--quiet", "--no-cache", f"--config={HERE / 'pyproject.toml'}"]
    subprocess.run([sys.executable, "-m", "ruff", command, *options, *arguments], check=True)
