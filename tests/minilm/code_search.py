"""Benchmarks code search: MRR@10 of finding a function by its docstring among 2,000 that the built-in model was not trained on.

Compares the built-in model and all-MiniLM-L6-v2 with vector, full-text and hybrid search, through `accelctl index` and `accelctl
search`; then the same with queries of a word that is unique to a function.

`python3 tests/minilm/code_search.py` after `just minilm` (needs numpy; downloads packages through pip). `--held-out` uses 2,000
other functions of the same packages, to choose settings.
"""

from __future__ import annotations

import collections
import random
import re
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
RANKS = ("--fusion", "reciprocal-rank")
MODES = {
    "vectors": ("--no-hybrid",),
    "words": ("--hybrid", "--text-weight", "1"),
    "both, by relative score": ("--hybrid", "--text-weight", "0.5"),
    "both, by relative score, words a quarter": ("--hybrid", "--text-weight", "0.25"),
    "both, by relative score, words three quarters": ("--hybrid", "--text-weight", "0.75"),
    "both, by reciprocal rank": ("--hybrid", *RANKS, "--text-weight", "0.5"),
    "both, by reciprocal rank, words a quarter": ("--hybrid", *RANKS, "--text-weight", "0.25"),
}


def test_pairs(held_out: bool) -> list[tuple[str, str]]:
    """(docstring, function) pairs: those of the built-in model's card, or as many held-out ones."""
    found = pairs.load("unseen")
    random.Random(11).shuffle(found)
    first = FUNCTIONS if held_out else 0
    return [(pair[2], pair[3]) for pair in found[first : first + FUNCTIONS]]


def unique_words(codes: list[str]) -> dict[int, str]:
    """A word unique to each function, where there is one."""
    words = [sorted({word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", code)}) for code in codes]
    holding = collections.Counter(word for found in words for word in found)
    own = {number: [w for w in found if holding[w] == 1 and len(w) > 3] for number, found in enumerate(words)}
    return {number: random.Random(number).choice(found) for number, found in own.items() if found}


def write(folder: Path, codes: list[str]) -> None:
    """Writes one file per function. They are text files, so that each is one chunk."""
    for number, code in enumerate(codes):
        (folder / f"{number}.txt").write_text(code)


def ranks(ctl: Ctl, collection: str, queries: dict[int, str], *flags: str) -> list[int]:
    """The rank of each query's function, or 0 below the tenth."""
    found, numbers = [], list(queries)
    for at in range(0, len(numbers), QUERIES_A_CALL):
        part = numbers[at : at + QUERIES_A_CALL]
        words = ["search", "-k", str(TOP), "--context", "0", "--collection", collection, *flags, "--"]
        answers = ctl(*words, *(queries[number] for number in part))["queries"]
        for number, answer in zip(part, answers, strict=True):
            names = [Path(hit["path"]).stem for hit in answer["hits"]]
            found.append(names.index(str(number)) + 1 if str(number) in names else 0)
    return found


def mrr(ranks: list[int]) -> float:
    """Mean reciprocal rank."""
    return sum(1 / rank for rank in ranks if rank) / len(ranks)


def main() -> None:
    """Prints the table."""
    found = test_pairs("--held-out" in sys.argv[1:])
    codes = [code for _, code in found]
    described, named = {number: query for number, (query, _) in enumerate(found)}, unique_words(codes)
    with tempfile.TemporaryDirectory() as folder, running() as ctl:
        write(Path(folder), codes)
        for model in ("builtin", "minilm"):
            begin = time.monotonic()
            done = ctl("index", folder, "--collection", model, "--model", model, "--hybrid", "--lines", "100")
            assert done["chunks"] == len(found), done
            print(f"{model}: {len(found)} functions indexed in {time.monotonic() - begin:.1f} s")
            print(f"  of {len(described)} docstrings, of {len(named)} words")
            for mode, flags in MODES.items():
                scores = (mrr(ranks(ctl, model, queries, *flags)) for queries in (described, named))
                print("  {:.3f}  {:.3f}  ".format(*scores), mode, flush=True)


if __name__ == "__main__":
    main()
