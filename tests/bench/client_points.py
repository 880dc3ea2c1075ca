"""Measures bulk writes and decoding of hits in the Python client.

    python3 tests/bench/client_points.py [--points 1000000] [--dimensions 768]

The rows are views of one random block, so that generating them takes no time and little memory.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

import client_daemon as daemon
import numpy as np

from accelerd import Client, UpsertStep

STEP = 8192


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--dimensions", type=int, default=768)
    parser.add_argument("--payloads", choices=["none", "dicts", "columns"], default="none")
    daemon.add_arguments(parser)
    arguments = parser.parse_args()
    block = np.random.default_rng(1).standard_normal((STEP, arguments.dimensions), dtype=np.float32)
    with daemon.served(arguments) as target, Client(target, timeout=600) as client:
        for _ in range(arguments.runs):
            collection = client.create_collection("benchmark", dimensions=arguments.dimensions)
            try:
                before, start = daemon.peak_memory_mib(), time.perf_counter()
                written = sum(collection.upsert_many(steps(arguments.points, block, arguments.payloads)))
                seconds = time.perf_counter() - start
                assert written == arguments.points
                grown = daemon.peak_memory_mib() - before
                rate = written * block.shape[1] * 4 / seconds / 1e6
                print(f"upsert_many: {written} points in {seconds:.2f} s, {rate:.0f} MB/s, {grown:.0f} MiB more held")
                search(collection, block)
            finally:
                collection.delete()


def steps(points: int, block: np.ndarray[Any, Any], payloads: str) -> Iterator[UpsertStep]:
    """Generate the steps of a bulk write."""
    for start in range(0, points, STEP):
        count = min(STEP, points - start)
        step: UpsertStep = {"ids": np.arange(start, start + count), "vectors": block[:count]}
        if payloads == "columns":
            step["payloads"] = {"path": [f"src/{n % 997}.py" for n in range(count)], "line": np.arange(count)}
        elif payloads == "dicts":
            step["payloads"] = [{"path": f"src/{n % 997}.py", "line": n} for n in range(count)]
        yield step


def search(collection: Any, block: np.ndarray[Any, Any]) -> None:
    """Measure the CPU time of this process for 1,024 queries with 10 hits each."""
    for name in ("search", "search_columns"):
        call = getattr(collection, name)
        call(vectors=block[:2], k=10)
        cpu = time.process_time()
        call(vectors=block[:1024], k=10)
        print(f"{name}: {(time.process_time() - cpu) * 1e3:.1f} ms of the caller's CPU for 1,024 queries x 10 hits")


if __name__ == "__main__":
    main()
