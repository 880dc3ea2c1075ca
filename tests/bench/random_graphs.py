"""Compares random graphs of tensor operations with PyTorch, which runs them one operation at a time.

    python3 random_graphs.py --target localhost:7433 [--graphs 1000] [--seed 0]

Needs a daemon, PyTorch and the Python client. Ends with the number of graphs that agree, and fails if one does not.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable

import numpy as np
import torch
from accelerd import Client

Pair = tuple[object, torch.Tensor]
DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i32": torch.int32, "i64": torch.int64}
SHAPE = (6, 33, 20)


class Graph:
    """Values of both sides, built by the same random choices. All have the shape (6, 33, 20)."""

    def __init__(self, client: Client, seed: int) -> None:
        self.client, self.random = client, random.Random(seed)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.dtype = self.random.choice(["f32", "f32", "f64", "f16", "bf16", "i32", "i64"])
        noise = np.random.default_rng(seed)
        self.values: list[Pair] = []
        for _ in range(3):
            made = noise.integers(-9, 9, SHAPE) if self.dtype[0] == "i" else noise.standard_normal(SHAPE)
            theirs = torch.from_numpy(made).to(self.device, DTYPES[self.dtype])
            self.values.append((client.tensor(made).to(self.dtype), theirs))
        for _ in range(self.random.randrange(2, 25)):
            self.values.append(self.step())

    def step(self) -> Pair:
        """One more value."""
        (a, x), (b, y) = self.random.choice(self.values), self.random.choice(self.values)
        op = self.client.op
        integer = self.dtype[0] == "i"
        dim = self.random.randrange(3)
        wide = torch.float64 if self.dtype == "f64" else torch.float32
        any_type: list[Callable[[], Pair]] = [
            lambda: (op("add", a, b), x + y),
            lambda: (op("sub", a, b, alpha=2), torch.sub(x, y, alpha=2)),
            lambda: (op("maximum", a, b), torch.maximum(x, y)),
            lambda: (op("where", op("lt", a, b), a, b), torch.where(x < y, x, y)),
            lambda: (op("clamp", a, min=-3, max=5), torch.clamp(x, -3, 5)),
            lambda: (op("flip", a, dims=[dim]), torch.flip(x, [dim])),
            lambda: (op("add", a, op("amax", b, dim=dim, keepdim=True)), x + torch.amax(y, dim, keepdim=True)),
            lambda: (op("add", a, op("select", b, dim=0, index=2)), x + y.select(0, 2)),
            lambda: (
                op("reshape", op("permute", a, dims=[2, 0, 1]), shape=list(SHAPE)),
                x.permute(2, 0, 1).reshape(SHAPE),
            ),
            lambda: (
                op("concat", op("slice", a, dim=dim, end=3), op("slice", b, dim=dim, start=3), dim=dim),
                torch.cat([x.narrow(dim, 0, 3), y.narrow(dim, 3, SHAPE[dim] - 3)], dim),
            ),
            lambda: (op("neg", a), -x),
        ]
        integers: list[Callable[[], Pair]] = [
            lambda: (op("bitwise_xor", a, b), x ^ y),
            lambda: (op("remainder", a, other=7), torch.remainder(x, 7)),
            lambda: (op("floor_divide", a, other=-3), torch.floor_divide(x, -3)),
            lambda: (op("mul", a, other=3), x * 3),
        ]
        floats: list[Callable[[], Pair]] = [
            lambda: (op("tanh", a), torch.tanh(x)),
            lambda: (op("mul", op("sigmoid", a), b), torch.sigmoid(x) * y),
            lambda: (op("gelu", a), torch.nn.functional.gelu(x)),
            lambda: (op("softmax", a, dim=dim), torch.softmax(x, dim)),
            lambda: (op("layer_norm", a, eps=0.5), torch.nn.functional.layer_norm(x, (SHAPE[2],), eps=0.5)),
            lambda: (op("sub", a, op("mean", b, dim=dim, keepdim=True)), x - torch.mean(y, dim, keepdim=True)),
            lambda: (
                op("mul", op("matmul", op("matmul", a, b, transpose_b=True), a), other=1 / 256),
                ((x.to(wide) @ y.to(wide).mT).to(x.dtype).to(wide) @ x.to(wide)).to(x.dtype) * (1 / 256),
            ),
            lambda: (op("exp", op("clamp", a, max=2)), torch.exp(torch.clamp(x, max=2))),
        ]
        mine, theirs = self.random.choice(any_type + (integers if integer else floats))()
        if not integer:
            # Numbers stay where both sides are accurate.
            return op("clamp", mine, min=-8, max=8), torch.clamp(theirs, -8, 8)
        return mine, theirs

    def check(self) -> str | None:
        """Compare some values; return what differs."""
        chosen = self.random.sample(self.values, min(3, len(self.values))) + self.values[-1:]
        results = self.client.execute(*[mine for mine, _ in chosen])
        for nth, (result, (_, theirs)) in enumerate(zip(results, chosen, strict=True)):
            got = torch.from_numpy(np.array(result)).to(theirs.device)
            expected = theirs.float() if theirs.dtype in (torch.bfloat16, torch.float16) else theirs
            # Errors of one operation pass through those after it: several times the tolerance of one.
            relative = {"f16": 2e-2, "bf16": 1.2e-1, "f32": 1e-4, "f64": 1e-10}.get(self.dtype, 0)
            absolute = {"f16": 5e-2, "bf16": 3e-1, "f32": 1e-4, "f64": 1e-10}.get(self.dtype, 0)
            try:
                torch.testing.assert_close(got.to(expected.dtype), expected, rtol=relative, atol=absolute)
            except AssertionError as differs:
                return f"output {nth} of type {self.dtype}: {differs}"
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--target", default="localhost:7433")
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    client, failed = Client(given.target), 0
    for seed in range(given.seed, given.seed + given.graphs):
        graph = Graph(client, seed)
        if differs := graph.check():
            failed += 1
            print(f"graph {seed}: {differs}", flush=True)
    print(f"{given.graphs - failed} passed, {failed} failed, 0 skipped")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
