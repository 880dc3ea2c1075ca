"""Prints the model card's table: MRR@10 of finding a function by its docstring among 2,000 that training did not see.

`python3 kernels/models/builtin/evaluate.py` (numpy and scipy; downloads what is missing through pip).
"""

import argparse
import ast
import os
import random
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy import sparse

import pairs
import table
from tokenizer import Tokenizer

FUNCTIONS = 2000
WINDOW = 40
STDLIB_QUERIES = {
    "parse command line arguments": {"argparse", "optparse", "getopt"},
    "compress a file with gzip": {"gzip", "zlib"},
    "open a tcp socket": {"socket", "socketserver", "asyncio/streams", "asyncio/base_events"},
    "read and write csv files": {"csv"},
    "send an email over smtp": {"smtplib"},
    "escape html characters": {"html/__init__", "cgi", "html/parser"},
    "parse a json string into an object": {"json/__init__", "json/decoder", "json/scanner"},
    "create a temporary directory": {"tempfile"},
    "walk a directory tree and copy it": {"shutil", "os"},
    "match file names with wildcards": {"fnmatch", "glob"},
    "start a new thread": {"threading", "_threading_local", "concurrent/futures/thread"},
    "priority queue heap": {"heapq", "queue"},
    "binary search in a sorted list": {"bisect"},
    "format a date as iso string": {"datetime", "_pydatetime", "_strptime"},
    "mean and standard deviation": {"statistics"},
    "fetch a url over http": {"urllib/request", "http/client"},
    "extract a zip archive": {"zipfile", "zipimport"},
    "encode bytes as base64": {"base64"},
    "compare two sequences of lines and show a diff": {"difflib"},
    "generate random numbers from a normal distribution": {"random"},
    "unit test assertion": {"unittest/case"},
    "wrap long lines of text": {"textwrap"},
    "sqlite database connection": {"sqlite3/dbapi2", "sqlite3/dump", "dbm/sqlite3"},
    "profile the execution time of a program": {"cProfile", "profile", "timeit", "pstats"},
}


def bags(tokenizer, texts):
    """Texts -> f32 CSR [texts, V]: each row averages the tokens of a text."""
    ids = [tokenizer.encode(text) for text in texts]
    starts = np.cumsum([0, *map(len, ids)])
    lengths = np.diff(starts)
    weights = np.repeat(1.0 / np.maximum(lengths, 1), lengths).astype(np.float32)
    flat = np.fromiter((i for text in ids for i in text), np.int32, starts[-1])
    bag = sparse.csr_matrix((weights, flat, starts), shape=(len(texts), len(tokenizer.starts) + len(tokenizer.inner)))
    bag.sum_duplicates()
    return bag


def unit(vectors):
    """Vectors scaled to unit length, and their norms."""
    lengths = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return vectors / lengths, lengths


def embed(tokenizer, rows, texts):
    """The unit vectors of texts."""
    return unit(bags(tokenizer, texts) @ rows)[0]


def bm25(queries, codes, k1=1.2, b=0.75):
    """BM25 of every query with every code, over whole words. (Robertson and Zaragoza, 2009.)"""
    words = sorted({word for text in [*queries, *codes] for word in text})
    number = {word: i for i, word in enumerate(words)}
    def counts(texts):
        starts = np.cumsum([0, *map(len, texts)])
        flat = [number[word] for text in texts for word in text]
        found = sparse.csr_matrix((np.ones(len(flat)), flat, starts), shape=(len(texts), len(words)))
        found.sum_duplicates()
        return found
    found = counts(codes)
    holds = np.bincount(found.indices, minlength=len(words))
    rarity = np.log(1 + (len(codes) - holds + 0.5) / (holds + 0.5))
    length = np.asarray(found.sum(axis=1)).ravel()
    floor = np.repeat(k1 * (1 - b + b * length / length.mean()), np.diff(found.indptr))
    found.data = found.data * (k1 + 1) / (found.data + floor) * rarity[found.indices]
    return (counts(queries) @ found.T).toarray()


def mrr(scores, top=10):
    """Mean reciprocal rank of the diagonal, 0 past the first ten; of equal scores the diagonal is the last."""
    ranks = (scores >= np.diag(scores)[:, None]).sum(axis=1)
    return float(np.where(ranks <= top, 1 / ranks, 0).mean())


def standardized(scores):
    """Scores of each query with mean 0 and deviation 1."""
    return (scores - scores.mean(axis=1, keepdims=True)) / (scores.std(axis=1, keepdims=True) + 1e-9)


def unseen():
    """The evaluation queries and codes."""
    found = pairs.load("unseen")
    random.Random(11).shuffle(found)
    return [pair[2] for pair in found[:FUNCTIONS]], [pair[3] for pair in found[:FUNCTIONS]]


def measure(tokenizer, rows, offered):
    """Rows of (name, MRR@10)."""
    queries, codes = unseen()
    q, c = bags(tokenizer, queries) @ rows, bags(tokenizer, codes) @ rows
    results = [(f"builtin, {dim} dimensions", mrr(unit(q[:, :dim])[0] @ unit(c[:, :dim])[0].T)) for dim in offered]
    words = [list(tokenizer.words(text)) for text in queries], [list(tokenizer.words(text)) for text in codes]
    lexical = bm25(*words)
    results.append(("BM25", mrr(lexical)))
    mixed = standardized(lexical) + standardized(unit(q)[0] @ unit(c)[0].T)
    results.append(("BM25 and builtin, standardised and added", mrr(mixed)))
    source_rows, pieces = pairs.minilm()
    keep = [i for i, piece in enumerate(pieces) if piece.removeprefix("##").isascii()
            and (piece.removeprefix("##").isalpha() or piece.removeprefix("##").isdigit())]
    raw = Tokenizer([pieces[i] for i in keep])
    results.append(("MiniLM's word embeddings, averaged",
                    mrr(embed(raw, source_rows[keep], queries) @ embed(raw, source_rows[keep], codes).T)))
    return results


def stdlib_windows():
    """(module, text) of the standard library in windows of 40 lines, each after the words of its path."""
    root = Path(ast.__file__).parent
    for path in sorted(root.rglob("*.py")):
        module = path.relative_to(root).with_suffix("").as_posix()
        if any(part in module for part in ("test", "idlelib", "lib2to3", "site-packages", "encodings/", "ensurepip")):
            continue
        lines = path.read_text(errors="replace").splitlines()
        for at in range(0, len(lines), WINDOW):
            yield module, f"{module.replace('/', ' ')}\n" + "\n".join(lines[at:at + WINDOW])


def measure_stdlib(tokenizer, rows, show=False):
    """The number of queries whose module is first, and among the first five windows."""
    windows = list(stdlib_windows())
    vectors = embed(tokenizer, rows, [text for _, text in windows])
    first = five = 0
    for query, modules in STDLIB_QUERIES.items():
        best = np.argsort(-(vectors @ embed(tokenizer, rows, [query])[0]))[:5]
        found = [windows[i][0] for i in best]
        first += found[0] in modules
        five += bool(modules.intersection(found))
        if show:
            print(f"  {'yes' if modules.intersection(found) else ' no'}  {query}: {', '.join(found)}")
    return first, five, len(windows)


def main():
    """Prints the table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("table", type=Path, nargs="?", default=pairs.HERE / "table.bin")
    arguments = arguments.parse_args()
    pieces, folded, offered, rows = table.read(arguments.table)
    tokenizer = Tokenizer(pieces, folded)
    for name, value in measure(tokenizer, rows, offered):
        print(f"{value:.3f}  {name}")
    first, five, count = measure_stdlib(tokenizer, rows, show=True)
    print(f"{first} first and {five} among five of {len(STDLIB_QUERIES)} queries, {count} windows of Python "
          f"{sys.version_info.major}.{sys.version_info.minor}'s library")


if __name__ == "__main__":
    main()
