"""Writes cases.json: calls that every client makes, with the answers that they expect.

    python3 tests/golden/cases.py localhost:7433

The answers are those of NumPy and CPython. A daemon gives those that it alone knows: the first components of embeddings, and messages
of errors.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from accelerd import AccelerdError, Client

FILE = Path(__file__).with_name("cases.json")
COMPONENTS = 8
SAXPY = """import warp as wp


@wp.kernel
def saxpy(a: float, x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = a * x[i] + y[i]
"""
SPIN = """import warp as wp


@wp.kernel
def spin(y: wp.array(dtype=float)):
    for step in range(2000000000):
        y[0] = y[0] + 1.0
"""
MODULE = "import os\n\n\nclass Parser:\n    def parse(self, text):\n        return text.split()\n"


def embed(client: Client) -> dict[str, Any]:
    """Return texts, and the first components of their vectors."""
    texts = ["parse a date", "def parse_date(s): ...", "grüße, 世界"]
    vectors = client.embed(texts)
    return {
        "texts": texts,
        "dimensions": vectors.shape[1],
        "first_components": vectors[:, :COMPONENTS].tolist(),
        "tolerance": 1e-6,
    }


def search() -> dict[str, Any]:
    """Return points of a collection, a filtered search by cosine, a count, and the search after one point is deleted."""
    languages = ["python", "rust", "rust", "go", "rust"]
    vectors = np.array([[1, 0, 0], [0, 1, 0], [0, 1, 1], [0, 0, 1], [-1, 0.5, 0]], np.float32)
    query = np.array([1, 2, 1], np.float32)
    cosines = vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
    ids = [10, 20, 30, 40, 50]
    found = sorted(
        ({"id": point, "score": float(score)} for point, score, name in zip(ids, cosines, languages, strict=True) if name == "rust"),
        key=lambda hit: -hit["score"],
    )
    return {
        "ids": ids,
        "vectors": vectors.tolist(),
        "payloads": [{"language": name, "line": line} for line, name in enumerate(languages)],
        "query": query.tolist(),
        "k": 2,
        "where": {"language": "rust"},
        "hits": found[:2],
        "count_where": 3,
        "deleted": [found[0]["id"]],
        "hits_after_delete": found[1:3],
        "tolerance": 1e-6,
    }


def parse() -> dict[str, Any]:
    """Return a source with CPython's count of nodes and its outline, and one with an error."""
    tree = ast.parse(MODULE)
    # In the protocol, contexts and operators are properties of other nodes, and the module has no row.
    without_row = (ast.expr_context, ast.operator, ast.Module)
    nodes = [node for node in ast.walk(tree) if not isinstance(node, without_row)]
    broken = "x +=\n"
    try:
        ast.parse(broken)
        raise AssertionError(broken)
    except SyntaxError as error:
        diagnostic = {"message": error.msg, "line": error.lineno, "offset": error.offset}
    return {
        "source": MODULE,
        "node_count": len(nodes),
        "outline": [
            {"qualified_name": "os", "line": 1},
            {"qualified_name": "Parser", "line": 4},
            {"qualified_name": "Parser.parse", "line": 5},
        ],
        "broken": broken,
        "diagnostic": diagnostic,
    }


def tensor() -> dict[str, Any]:
    """Return two matrices and the softmax of their product along the last axis, f32."""
    a = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    b = np.array([[0.5, -1], [0.25, 0], [-0.5, 0.75]], np.float32)
    product = (a @ b).astype(np.float64)
    exponentials = np.exp(product - product.max(axis=-1, keepdims=True))
    return {
        "a": a.tolist(),
        "b": b.tolist(),
        "softmax_of_product": (exponentials / exponentials.sum(axis=-1, keepdims=True)).tolist(),
        "tolerance": 1e-6,
    }


def kernel() -> dict[str, Any]:
    """Return a kernel with its arguments and the array that it writes, and one that reads out of bounds."""
    x = np.arange(8, dtype=np.float32)
    y = np.full(8, 0.5, np.float32)
    return {
        "source": SAXPY,
        "name": "saxpy",
        "grid": [8],
        "a": 2.0,
        "x": x.tolist(),
        "y": y.tolist(),
        "written_y": (np.float32(2) * x + y).tolist(),
        "faulting_grid": [9],
        "fault": {"kind": "KERNEL_FAULT_KIND_OUT_OF_BOUNDS", "thread": 8, "line": 7, "index": 8, "extent": 8},
    }


def verify() -> dict[str, Any]:
    """Return outputs that differ in one element."""
    return {
        "actual": [1.0, 2.0, 3.5, 4.0],
        "expected": [1.0, 2.0, 3.0, 4.0],
        "atol": 0.0,
        "rtol": 0.01,
        "passed": False,
        "failed_count": 1,
        "mismatch": {"index": 2, "actual": 3.5, "expected": 3.0},
        "passing_rtol": 0.2,
    }


def errors(client: Client) -> list[dict[str, Any]]:
    """Return calls that fail: with a field, with a resource, and with a reason."""
    row = np.ones((1, 3), np.float32)
    return [
        {"call": "find_similar", "k": 0, "rows": row.tolist(), **failure(lambda: client.find_similar(row, row, k=0))},
        {"call": "count", "collection": "absent", **failure(lambda: client.collection("absent").count())},
        {"call": "embed", "texts": ["x"], "model": "absent", **failure(lambda: client.embed(["x"], model="absent"))},
    ]


def failure(call: Callable[[], object]) -> dict[str, Any]:
    """Return code, message, reason and fields of a call's error, as the daemon names them."""
    try:
        call()
    except AccelerdError as error:
        fields = [violation.field for violation in error.violations]
        return {"code": error.code.name, "message": error.message, "reason": error.reason, "fields": fields}
    raise AssertionError("the call succeeded")


def cases(client: Client) -> dict[str, Any]:
    """Return all cases."""
    return {
        "embed": embed(client),
        "search": search(),
        "parse": parse(),
        "tensor": tensor(),
        "kernel": kernel(),
        "verify": verify(),
        "errors": errors(client),
        "without_token": {"code": "UNAUTHENTICATED", "reason": "NO_CREDENTIALS"},
        "slow_kernel": {"source": SPIN, "name": "spin", "grid": [1], "y": [0.0], "deadline_ms": 300, "code": "DEADLINE_EXCEEDED"},
    }


if __name__ == "__main__":
    with Client(sys.argv[1]) as client:
        FILE.write_text(json.dumps(cases(client), indent=2, ensure_ascii=False) + "\n")
