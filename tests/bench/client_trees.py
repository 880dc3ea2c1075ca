"""Compares `ast.parse` on one core with the daemon and `to_ast()` on one core each.

    python3 tests/bench/client_trees.py FOLDER...

`kept` holds all trees until the end, as an analysis of a project does; `dropped` frees each at once. `parse` makes one
call and then builds all trees; `parse_stream` builds the trees of a batch while the daemon parses the next.
"""

from __future__ import annotations

import argparse
import ast
import gc
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import client_daemon as daemon

from accelerd import Client, _tree


def readable(folders: list[Path]) -> Iterator[bytes]:
    """Iterate over the files that are valid for the running Python."""
    for folder in folders:
        for file in sorted(folder.rglob("*.py")):
            source = file.read_bytes()
            try:
                ast.parse(source)
            except (SyntaxError, ValueError):
                continue
            yield source


def batches(sources: list[bytes], size: int) -> Iterator[list[bytes]]:
    """Split files into batches."""
    rest = iter(sources)
    while batch := list(islice(rest, size)):
        yield batch


def run(make: Callable[[], Iterator[ast.AST]], consume: Callable[[Iterator[ast.AST]], object]) -> None:
    """Build and consume all trees."""
    consume(make())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--batch", type=int, default=16, help="files in a batch of parse_stream")
    daemon.add_arguments(parser)
    arguments = parser.parse_args()
    sources = list(readable(arguments.folders))
    with daemon.served(arguments) as target, Client(target) as client:

        def theirs() -> Iterator[ast.AST]:
            return (ast.parse(source) for source in sources)

        def unary() -> Iterator[ast.AST]:
            return (parsed.to_ast() for parsed in client.parse(sources))

        def stream() -> Iterator[ast.AST]:
            for outcome in client.parse_stream(batches(sources, arguments.batch)):
                assert outcome.parsed is not None, outcome.error
                for parsed in outcome.parsed:
                    yield parsed.to_ast()

        size = sum(map(len, sources))
        extension = "with" if _tree.is_compiled() else "without"
        print(f"{len(sources)} files, {size / 1e6:.2f} MB, {extension} the C extension")
        ways: dict[str, Callable[[], Iterator[ast.AST]]] = {"ast.parse": theirs, "parse": unary, "parse_stream": stream}
        for use, consume in (("kept", list), ("dropped", lambda trees: [None for _ in trees])):
            base = 0.0
            for name, make in ways.items():
                gc.collect()
                middle, least, most = daemon.median(arguments.runs, partial(run, make, consume))
                base = base or middle
                spread = f"{least * 1e3:.1f} to {most * 1e3:.1f}"
                print(f"{use:8} {name:13} {middle * 1e3:8.1f} ms ({spread}), {base / middle:.2f} times as fast")


if __name__ == "__main__":
    main()
