"""Packs every corpus into one file for a machine that has neither the corpora nor CPython's verdicts.

python3 tests/conformance/pack.py [--mutations N] [--soup N] [OUT]

`tests/conformance/main.rs` reads it: of each corpus its name, how many sources it has, and these, each a block behind its
length; all of it compressed as xz. A source that several corpora have is in the first of them alone.
"""

from __future__ import annotations

import argparse
import hashlib
import lzma
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import corpora
import tools
from frames import write_blocks

SEED = 1
# The whole of it, so that the second of two versions of a library and a mutated snippet cost little.
DICTIONARY = 256 << 20


def distinct(cases: Iterable[corpora.Case], seen: set[bytes]) -> Iterator[bytes]:
    """The sources that were not seen before."""
    for _, source in cases:
        digest = hashlib.blake2b(source, digest_size=16).digest()
        if digest not in seen:
            seen.add(digest)
            yield source


def sections(every: Iterable[corpora.Corpus]) -> Iterator[bytes]:
    """A corpus after the other, as it is packed."""
    seen: set[bytes] = set()
    for corpus in every:
        sources = list(distinct(corpus.cases(), seen))
        print(f"{corpus.name}: {len(sources)} sources, {sum(map(len, sources))} bytes", flush=True)
        yield write_blocks([corpus.name.encode(), struct.pack("<I", len(sources)), *sources])


def chosen(mutations: int, soup: int) -> list[corpora.Corpus]:
    """All corpora, with so many of those that are made."""
    counts = {"mutations": mutations, "soup": soup}
    return [
        next(one for one in corpora.corpora(counts.get(corpus.name, 0), SEED) if one.name == corpus.name)
        for corpus in corpora.corpora(0, SEED)
    ]


def pack(out: Path, every: Iterable[corpora.Corpus]) -> None:
    """Writes corpora to a file, which is whole once it is there."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": DICTIONARY}]
    part = out.with_suffix(".part")
    with lzma.open(part, "wb", format=lzma.FORMAT_XZ, filters=filters) as packed:
        for section in sections(every):
            packed.write(section)
    part.rename(out)
    print(f"{out}: {out.stat().st_size} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutations", type=int, default=200_000, help="how many mutated snippets")
    parser.add_argument("--soup", type=int, default=50_000, help="how many sources drawn at random")
    parser.add_argument("out", type=Path, nargs="?", help="target/conformance/corpora.xz unless given")
    options = parser.parse_args()
    pack(options.out or tools.cache_folder() / "corpora.xz", chosen(options.mutations, options.soup))


if __name__ == "__main__":
    main()
