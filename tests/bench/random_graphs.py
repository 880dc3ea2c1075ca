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
from torch.nn import functional

attention = torch.nn.functional.scaled_dot_product_attention
Pair = tuple[object, torch.Tensor]
DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i32": torch.int32, "i64": torch.int64}
SHAPE = (6, 33, 20)


def filters(op: Callable[..., object], values: object) -> object:
    """Six filters of 6 x 3 x 3 of the first of the values."""
    return op("reshape", op("slice", op("flatten", values), end=324), shape=[6, 6, 3, 3])


def their_filters(values: torch.Tensor) -> torch.Tensor:
    """The same of PyTorch, in f64."""
    return values.flatten()[:324].reshape(6, 6, 3, 3).double()


class Graph:
    """Values of both sides, built by the same random choices. All have the shape (6, 33, 20)."""

    def __init__(self, client: Client, seed: int) -> None:
        self.client, self.random = client, random.Random(seed)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.dtype = self.random.choice(["f32", "f32", "f64", "f16", "bf16", "i32", "i64"])
        noise = np.random.default_rng(seed)
        self.values: list[Pair] = []
        self.classes = noise.integers(0, SHAPE[1], (SHAPE[0], SHAPE[2]))
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
        # Its order is the same on both sides: it was not computed.
        exact, exact_torch = self.random.choice(self.values[:3])
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
            lambda: (op("sort", a, dim=dim, descending=True)[0], torch.sort(x, dim, descending=True).values),
            lambda: (
                op("take_along_dim", a, op("argsort", exact, dim=dim), dim=dim),
                torch.take_along_dim(x, torch.sort(exact_torch, dim=dim, stable=True).indices, dim),
            ),
            lambda: (op("add", a, op("median", b, dim=dim, keepdim=True)[0]), x + y.median(dim, keepdim=True).values),
            lambda: (op("masked_fill", a, op("lt", exact, other=0), value=1), x.masked_fill(exact_torch < 0, 1)),
        ]
        integers: list[Callable[[], Pair]] = [
            lambda: (op("bitwise_xor", a, b), x ^ y),
            lambda: (op("remainder", a, other=7), torch.remainder(x, 7)),
            lambda: (op("floor_divide", a, other=-3), torch.floor_divide(x, -3)),
            lambda: (op("mul", a, other=3), x * 3),
            lambda: (op("to", op("cumsum", a, dim=dim), dtype=self.dtype), x.cumsum(dim).to(x.dtype)),
        ]
        floats: list[Callable[[], Pair]] = [
            lambda: (op("tanh", a), torch.tanh(x)),
            lambda: (op("mul", op("sigmoid", a), b), torch.sigmoid(x) * y),
            lambda: (op("gelu", a), torch.nn.functional.gelu(x)),
            lambda: (op("softmax", a, dim=dim), torch.softmax(x, dim)),
            lambda: (op("mul", op("cumsum", a, dim=dim), other=1 / 8), (x.to(wide).cumsum(dim) * (1 / 8)).to(x.dtype)),
            lambda: (op("layer_norm", a, eps=0.5), torch.nn.functional.layer_norm(x, (SHAPE[2],), eps=0.5)),
            lambda: (op("sub", a, op("mean", b, dim=dim, keepdim=True)), x - torch.mean(y, dim, keepdim=True)),
            lambda: (
                op("mul", op("matmul", op("matmul", a, b, transpose_b=True), a), other=1 / 256),
                ((x.to(wide) @ y.to(wide).mT).to(x.dtype).to(wide) @ x.to(wide)).to(x.dtype) * (1 / 256),
            ),
            lambda: (
                op("scaled_dot_product_attention", a, b, a, is_causal=dim == 0),
                attention(x.to(wide), y.to(wide), x.to(wide), is_causal=dim == 0).to(x.dtype),
            ),
            lambda: (
                op("scaled_dot_product_attention", a, a, b, op("transpose", op("slice", b, dim=2, end=1), dim0=1, dim1=2)),
                attention(x.to(wide), x.to(wide), y.to(wide), y[..., :1].mT.to(wide)).to(x.dtype),
            ),
            lambda: (op("exp", op("clamp", a, max=2)), torch.exp(torch.clamp(x, max=2))),
            *self.composites((a, x), (b, y), dim),
            lambda: (
                op("mul", op("conv2d", a, filters(op, b), padding=1), other=1 / 64),
                functional.conv2d(x.double(), their_filters(y), padding=1).to(x.dtype) * (1 / 64),
            ),
            lambda: (
                op("conv2d", a, op("slice", filters(op, b), dim=1, end=1), padding="same", dilation=2, groups=6),
                functional.conv2d(x.double(), their_filters(y)[:, :1], padding="same", dilation=2, groups=6).to(x.dtype),
            ),
            lambda: (
                op("max_pool2d", a, kernel_size=[3, 5], stride=1, padding=[1, 2]),
                functional.max_pool2d(x, (3, 5), 1, (1, 2)),
            ),
            lambda: (
                op("avg_pool2d", a, kernel_size=3, stride=1, padding=1, count_include_pad=False),
                functional.avg_pool2d(x.to(wide), 3, 1, 1, count_include_pad=False).to(x.dtype),
            ),
            lambda: (
                op("adaptive_avg_pool2d", op("slice", a, dim=2, end=13), output_size=list(SHAPE[1:])),
                functional.adaptive_avg_pool2d(x[:, :, :13].to(wide), SHAPE[1:]).to(x.dtype),
            ),
        ]
        mine, theirs = self.random.choice(any_type + (integers if integer else floats))()
        if not integer:
            # Numbers stay where both sides are accurate.
            return op("clamp", mine, min=-8, max=8), torch.clamp(theirs, -8, 8)
        return mine, theirs

    def composites(self, left: Pair, right: Pair, dim: int) -> list[Callable[[], Pair]]:
        """Operations that are made of others."""
        (a, x), (b, y), op, theirs = left, right, self.client.op, torch.nn.functional
        none = {"reduction": "none"}
        classes = torch.from_numpy(self.classes).to(self.device)

        def spread() -> Pair:
            var, mean = op("var_mean", b, dim=dim, keepdim=True)
            their_var, their_mean = torch.var_mean(y, dim, keepdim=True)
            return op("add", op("sub", a, mean), var), x - their_mean + their_var

        def updated() -> Pair:
            squares = op("add", op("square", b), other=0.5)
            nth = self.random.randrange(3)
            mine = op("adamw", a, b, a, squares, step=3, lr=0.5)[nth]
            param = torch.nn.Parameter(x.clone())
            param.grad = y.clone()
            optimizer = torch.optim.AdamW([param], lr=0.5)
            state = {"step": torch.tensor(2.0), "exp_avg": x.clone(), "exp_avg_sq": y * y + 0.5}
            optimizer.state[param] = state
            optimizer.step()
            return mine, (param.detach(), state["exp_avg"], state["exp_avg_sq"])[nth]

        return [
            spread,
            updated,
            lambda: (op("group_norm", a, num_groups=3, eps=0.5), theirs.group_norm(x, 3, eps=0.5)),
            lambda: (op("instance_norm", a, eps=0.5), theirs.instance_norm(x, eps=0.5)),
            lambda: (
                op("batch_norm", a, training=True, track_running_stats=False, eps=0.5),
                theirs.batch_norm(x, None, None, training=True, eps=0.5),
            ),
            lambda: (op("normalize", a, dim=dim, p=1, eps=0.5), theirs.normalize(x, dim=dim, p=1, eps=0.5)),
            lambda: (
                op("add", a, op("unsqueeze", op("cosine_similarity", a, b, dim=dim, eps=0.5), dim=dim)),
                x + theirs.cosine_similarity(x, y, dim=dim, eps=0.5).unsqueeze(dim),
            ),
            lambda: (op("add", a, op("mse_loss", a, b)), x + theirs.mse_loss(x, y)),
            lambda: (op("smooth_l1_loss", a, b, beta=0.5, **none), theirs.smooth_l1_loss(x, y, beta=0.5, **none)),
            lambda: (op("huber_loss", a, b, delta=0.5, **none), theirs.huber_loss(x, y, delta=0.5, **none)),
            lambda: (
                op("binary_cross_entropy_with_logits", a, op("sigmoid", b), **none),
                theirs.binary_cross_entropy_with_logits(x, torch.sigmoid(y), **none),
            ),
            lambda: (
                op("kl_div", op("log_softmax", a, dim=dim), op("softmax", b, dim=dim), **none),
                theirs.kl_div(torch.log_softmax(x, dim), torch.softmax(y, dim), **none),
            ),
            lambda: (
                op("add", a, op("cross_entropy", b, self.classes, label_smoothing=0.1, ignore_index=7)),
                x + theirs.cross_entropy(y, classes, label_smoothing=0.1, ignore_index=7),
            ),
        ]

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
        if (seed + 1) % 100 == 0:
            print(f"{seed + 1 - given.seed} graphs, {failed} failed", flush=True)
    print(f"{given.graphs - failed} passed, {failed} failed, 0 skipped")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
