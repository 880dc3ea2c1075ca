"""Times NumPy on the cases of `tensor_cpu_bench`, and prints both as a Markdown table. Needs NumPy.

    cargo bench -p accelerd-kernels --bench tensor_cpu_bench --no-run
    python3 baseline_tensor_cpu.py --bench target/release/deps/tensor_cpu_bench-HASH

Both allocate their results in each run. NumPy uses one thread, and that of its BLAS for products.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SAMPLES = 9
Array = NDArray[np.float32]


def numbers(*shape: int) -> Array:
    """Random numbers from 0.25 to 2."""
    random: Array = np.random.default_rng(0).random(shape, dtype=np.float32)
    return random * np.float32(1.75) + np.float32(0.25)


def chain(x: Array) -> Array:
    """Ten elementwise operations one after the other."""
    y = np.tanh(np.sqrt(np.abs(x * np.float32(1.5) + np.float32(0.25))) * np.float32(0.75) - np.float32(0.5))
    result: Array = np.maximum(y * np.float32(2) + np.float32(1), np.float32(0))
    return result


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    result: Array = e / e.sum(axis=1, keepdims=True)
    return result


def cases() -> dict[str, Callable[[], object]]:
    """The cases of the benchmark, by the same names."""
    a, b, x, v, small = numbers(1 << 24), numbers(1 << 24), numbers(4096, 4096), numbers(4096), numbers(100)
    sides = {side: numbers(side, side) for side in (128, 512, 1024, 2048)}
    batched = numbers(64, 128, 128)
    made: dict[str, Callable[[], object]] = {
        "add": lambda: a + b,
        "mul": lambda: a * b,
        "div": lambda: a / b,
        "maximum": lambda: np.maximum(a, b),
        "pow": lambda: a**b,
        "lt": lambda: a < b,
        "abs": lambda: np.abs(a),
        "sqrt": lambda: np.sqrt(a),
        "exp": lambda: np.exp(a),
        "log": lambda: np.log(a),
        "tanh": lambda: np.tanh(a),
        "sin": lambda: np.sin(a),
        "floor": lambda: np.floor(a),
        "chain of ten": lambda: chain(a),
        "to f64": lambda: a.astype(np.float64),
        "sum": lambda: a.sum(),
        "sum of rows": lambda: x.sum(axis=1),
        "sum of columns": lambda: x.sum(axis=0),
        "var of rows": lambda: x.var(axis=1, ddof=1),
        "amax of rows": lambda: x.max(axis=1),
        "argmax of rows": lambda: x.argmax(axis=1),
        "cumsum of rows": lambda: x.cumsum(axis=1),
        "softmax of rows": lambda: softmax(x),
        "transpose": lambda: np.ascontiguousarray(x.T),
        "flip": lambda: np.ascontiguousarray(a[::-1]),
        "concat": lambda: np.concatenate([x, x]),
        "sort of columns": lambda: np.sort(sides[1024], axis=0),
        "small add": lambda: small + np.float32(1),
        "matmul 64 x 128": lambda: batched @ batched,
        "matrix times vector": lambda: x @ v,
    }
    return made | {f"matmul {side}": (lambda y=y: y @ y) for side, y in sides.items()}


def measure(run: Callable[[], object]) -> dict[str, float]:
    """Median, least and most milliseconds of a run."""
    run()
    times = []
    for _ in range(SAMPLES):
        start = time.perf_counter()
        result = run()
        times.append((time.perf_counter() - start) * 1e3)
        del result
    return {"median_ms": statistics.median(times), "least_ms": min(times), "most_ms": max(times)}


def shown(times: dict[str, float]) -> str:
    return f"{times['median_ms']:.3g} ({times['least_ms']:.3g} to {times['most_ms']:.3g})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--bench", type=Path, required=True, help="the executable of tensor_cpu_bench")
    given = parser.parse_args()
    lines = subprocess.run([given.bench], check=True, capture_output=True, text=True).stdout.splitlines()
    ours = {line["name"]: line for line in map(json.loads, lines)}
    print(f"NumPy {np.__version__}\n\n| case | accelerd, ms | NumPy, ms | NumPy / accelerd |\n|---|---|---|---|")
    for name, run in cases().items():
        theirs = measure(run)
        print(f"| {name} | {shown(ours[name])} | {shown(theirs)} | {theirs['median_ms'] / ours[name]['median_ms']:.2f} |", flush=True)


if __name__ == "__main__":
    main()
