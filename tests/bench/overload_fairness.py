"""Measures ten callers with one call in flight each, alone and with another caller that has a thousand in flight.

    python3 overload_fairness.py --bin FOLDER [--rounds 6] [--seconds 3]

All search the same collection, about 10 ms a search. A daemon that knows callers by their address tells them apart: each has a
loopback address of its own (Linux). Prints the rate and p50 / p99 of the ten with and without the large caller, its own rate, and
which part of their rate the ten keep.
"""

from __future__ import annotations

import argparse
import statistics
import time

import load_daemon
from load_daemon import Daemon, spread

CALLERS = 10
LARGE_ADDRESS = "127.0.0.2"
ADDRESSES = ",".join(f"127.0.0.{11 + at}" for at in range(CALLERS))
LANE = "search"
# Longer than any run: it is stopped.
FOREVER = "10h"


def ten(daemon: Daemon, collection: str, seconds: float) -> tuple[dict, float]:
    """The level of the ten callers, and the searches per second of others meanwhile."""
    words = ["search", "--collection", collection, "--concurrency", CALLERS, "--connections", CALLERS, "--duration", f"{seconds}s"]
    before, begin = daemon.lane(LANE)["requests"], time.monotonic()
    level = daemon.bench(*words, "--local-addresses", ADDRESSES, "--deadline", "60s", "--warm-up", CALLERS)
    others = daemon.lane(LANE)["requests"] - before - level["sent"] - CALLERS
    return level, max(others, 0) / (time.monotonic() - begin)


def measure(daemon: Daemon, collection: str, given: argparse.Namespace) -> dict:
    """A round: the ten alone, with the large caller, and alone again, since the machine's speed varies."""
    bulk = ["search", "--collection", collection, "--concurrency", given.in_flight, "--connections", 4]
    before, _ = ten(daemon, collection, given.seconds)
    running = daemon.start("bench", *bulk, "--local-addresses", LARGE_ADDRESS, "--duration", FOREVER)
    wait_for_queue(daemon, given.in_flight)
    both, large = ten(daemon, collection, given.seconds)
    running.stop()
    after, _ = ten(daemon, collection, given.seconds)
    alone = (before["calls_per_second"] + after["calls_per_second"]) / 2
    return {"before": before, "both": both, "after": after, "large_calls_per_second": large,
            "kept": both["calls_per_second"] / alone}


def main() -> None:
    parser = load_daemon.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=3, help="of each phase")
    parser.add_argument("--in-flight", type=int, default=1000, help="calls of the large caller")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dim", type=int, default=128)
    given = parser.parse_args()
    with load_daemon.daemon(given) as daemon:
        collection = daemon.keep(given.rows, given.dim)
        ten(daemon, collection, given.seconds)
        rounds = [measure(daemon, collection, given) for _ in range(given.rounds)]
        results = {"scenario": "fairness", "machine": load_daemon.machine(daemon), "rounds": rounds}
        load_daemon.save(given, results)
    print()
    rate = "{calls_per_second:.0f}".format_map
    load_daemon.table(["the ten alone, calls/s", "with the large caller", "alone again", "p50 / p99 alone", "with the large caller",
                       "the large caller, calls/s", "kept"], [
        [rate(one["before"]), rate(one["both"]), rate(one["after"]), spread(one["before"]), spread(one["both"]),
         f"{one['large_calls_per_second']:.0f}", f"{100 * one['kept']:.0f}%"] for one in rounds
    ])
    kept = sorted(one["kept"] for one in rounds)
    print(f"\nThe ten keep {100 * statistics.median(kept):.0f}% of their rate ({100 * kept[0]:.0f} to {100 * kept[-1]:.0f}%).")


def wait_for_queue(daemon: Daemon, in_flight: int) -> None:
    """Waits until the large caller has completed as many calls as it has in flight."""
    before = daemon.lane(LANE)["requests"]
    while daemon.lane(LANE)["requests"] < before + in_flight:
        time.sleep(0.1)


if __name__ == "__main__":
    main()
