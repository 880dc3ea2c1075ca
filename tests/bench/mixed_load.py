"""Measures small calls while other callers send bulk work: a table of p50 / p99 for each small call and each bulk load.

    python3 mixed_load.py --bin FOLDER [--sizes gpu|cpu] [--seconds 5] [--json FILE]

Runs on a machine without registries: it needs the two binaries and Python's standard library. The sizes are those of a GPU where
the daemon has one. A small call is measured in a closed loop with one call in flight, or with --rate in an open loop.
"""

from __future__ import annotations

import argparse
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path

import load_daemon
from load_daemon import Daemon, Throughput, spread

# Longer than any run: it is stopped.
FOREVER = "10h"
DEADLINE = "60s"


@dataclass(frozen=True)
class Sizes:
    """Sizes of the small calls and of the bulk work."""

    encoder: str
    rows: int
    dim: int
    bulk_texts: int
    bulk_tokens: int
    kmeans_rows: int
    kmeans_dim: int
    clusters: int


SIZES = {
    "gpu": Sizes("bert", 100_000, 256, 4096, 128, 1_000_000, 128, 1024),
    "cpu": Sizes("minilm", 20_000, 256, 64, 128, 100_000, 64, 256),
}


def small_calls(daemon: Daemon, sizes: Sizes) -> dict[str, list[object]]:
    file = Path(sysconfig.get_path("stdlib")) / "argparse.py"
    return {
        f"search {sizes.rows:,} x {sizes.dim}": ["search", "--collection", daemon.keep(sizes.rows, sizes.dim)],
        "built-in embed": ["embed"],
        f"{sizes.encoder} embed": ["embed", "--model", sizes.encoder, "--tokens", 32],
        "parse one file": ["parse", file, "--lines", 1],
    }


def bulk_loads(daemon: Daemon, sizes: Sizes) -> dict[str, tuple[str, list[object]]]:
    """The lane and the command of each bulk load."""
    texts, tokens, clusters = sizes.bulk_texts, sizes.bulk_tokens, sizes.clusters
    embed = ["embed", "--model", sizes.encoder, "--batch", texts, "--tokens", tokens]
    kmeans = ["cluster", "--collection", daemon.keep(sizes.kmeans_rows, sizes.kmeans_dim), "--clusters", clusters]
    rows = f"{sizes.kmeans_rows:,} x {sizes.kmeans_dim}"
    loads = {f"{sizes.encoder} {texts:,} x {tokens}, {n} in flight": ("encode", [*embed, "--concurrency", n]) for n in (2, 8)}
    return loads | {f"k-means of {rows}, {clusters:,} clusters": ("cluster", [*kmeans, "--concurrency", 1])}


def measure(daemon: Daemon, given: argparse.Namespace, small: dict[str, list[object]]) -> dict[str, dict]:
    loop = ["--rate", given.rate, "--connections", 1] if given.rate else ["--concurrency", 1]
    flags = [*loop, "--duration", f"{given.seconds}s", "--deadline", DEADLINE, "--warm-up", 2]
    return {name: daemon.bench(*words, *flags) for name, words in small.items()}


def with_bulk(
    daemon: Daemon, given: argparse.Namespace, small: dict, alone: dict[str, dict], name: str, lane: str, words: list[object]
) -> dict:
    """Levels of the small calls during a bulk load, and its throughput alone and with them."""
    running = daemon.start("bench", *words, "--warm-up", 0, "--duration", FOREVER, "--timeout", "10m")
    bulk_alone = Throughput(daemon, lane)
    time.sleep(given.seconds)
    alone_rate = bulk_alone.of("items")
    both = Throughput(daemon, lane)
    calls = measure(daemon, given, small)
    both_rate = both.of("items")
    running.stop()
    recovery = sum(daemon.recovery(alone[call]["p50_ms"], *small[call]) for call in small)
    return {"load": name, "calls": calls, "items_per_second_alone": alone_rate, "items_per_second_with_small_calls": both_rate,
            "recovery_seconds": recovery}


def main() -> None:
    parser = load_daemon.parser(__doc__)
    parser.add_argument("--sizes", choices=SIZES, help="[default: those of the daemon's device]")
    parser.add_argument("--seconds", type=float, default=5, help="of each cell")
    parser.add_argument("--rate", type=float, help="small calls per second of an open loop [default: a closed loop of one]")
    given = parser.parse_args()
    encoders = (SIZES[given.sizes].encoder,) if given.sizes else ("minilm", "bert")
    with load_daemon.daemon(given, encoders) as daemon:
        sizes = SIZES[given.sizes or ("gpu" if daemon.has_gpu() else "cpu")]
        small, bulk = small_calls(daemon, sizes), bulk_loads(daemon, sizes)
        results = {"scenario": "mixed", "machine": load_daemon.machine(daemon), "seconds": given.seconds, "rows": []}
        results["rows"].append({"load": "nothing", "calls": measure(daemon, given, small)})
        for name, (lane, words) in bulk.items():
            results["rows"].append(with_bulk(daemon, given, small, results["rows"][0]["calls"], name, lane, words))
            load_daemon.save(given, results)
    print(f"small calls, p50 / p99, on {', '.join(results['machine']['devices'])}\n")
    load_daemon.table(["with", *small, "bulk items/s alone", "with small calls"], [
        [row["load"], *(spread(row["calls"][name]) for name in small), *throughput(row)] for row in results["rows"]
    ])


def throughput(row: dict) -> list[str]:
    if "items_per_second_alone" not in row:
        return ["", ""]
    alone, both = row["items_per_second_alone"], row["items_per_second_with_small_calls"]
    return [f"{alone:,.0f}", f"{both:,.0f} ({100 * both / max(alone, 1e-9):.0f}%)"]


if __name__ == "__main__":
    main()
