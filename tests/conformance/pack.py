"""Packs all corpora into one file, for a machine without the corpora and without CPython.

python3 tests/conformance/pack.py [--mutations N] [--token-fuzz N] [OUT]

`tests/conformance/main.rs` reads it: for each corpus its name, its number of sources and the sources, as length-prefixed blocks,
compressed with xz. A source of several corpora is only in the first of them.
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
# Covers everything, so that a second version of a library and mutated snippets compress well.
DICTIONARY = 256 << 20


def distinct(cases: Iterable[corpora.Case], seen: set[bytes]) -> Iterator[bytes]:
    """The sources that are not in `seen`."""
    for _, source in cases:
        digest = hashlib.blake2b(source, digest_size=16).digest()
        if digest not in seen:
            seen.add(digest)
            yield source


def sections(every: Iterable[corpora.Corpus]) -> Iterator[bytes]:
    """The packed corpora."""
    seen: set[bytes] = set()
    for corpus in every:
        sources = list(distinct(corpus.cases(), seen))
        print(f"{corpus.name}: {len(sources)} sources, {sum(map(len, sources))} bytes", flush=True)
        yield write_blocks([corpus.name.encode(), struct.pack("<I", len(sources)), *sources])


def chosen(mutations: int, token_fuzz: int) -> list[corpora.Corpus]:
    """All corpora, with these numbers of generated sources."""
    counts = {"mutations": mutations, "token_fuzz": token_fuzz}
    return [
        next(one for one in corpora.corpora(counts.get(corpus.name, 0), SEED) if one.name == corpus.name)
        for corpus in corpora.corpora(0, SEED)
    ]


def pack(out: Path, every: Iterable[corpora.Corpus]) -> None:
    """Writes corpora to a file atomically."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": DICTIONARY}]
    part = out.with_suffix(".part")
    with lzma.open(part, "wb", format=lzma.FORMAT_XZ, filters=filters) as packed:
        for section in sections(every):
            packed.write(section)
    part.rename(out)
    print(f"{out}: {out.stat().st_size} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutations", type=int, default=200_000, help="number of mutated snippets")
    parser.add_argument("--token-fuzz", type=int, default=50_000, help="number of random token sequences")
    parser.add_argument("out", type=Path, nargs="?", help="default: target/conformance/corpora.xz")
    options = parser.parse_args()
    pack(options.out or tools.cache_folder() / "corpora.xz", chosen(options.mutations, options.token_fuzz))


if __name__ == "__main__":
    main()
