"""Measures ten callers with one call in flight each, alone and with another caller that has a thousand in flight.

    python3 overload_fairness.py --bin FOLDER [--seconds 15]

All search the same collection, about 10 ms a search. A daemon that knows callers by their address tells them apart: each has a
loopback address of its own (Linux). Prints the rate and p50 / p99 of the ten with and without the large caller, and its own rate.
"""

from __future__ import annotations

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


def main() -> None:
    parser = load_daemon.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=15, help="of each phase")
    parser.add_argument("--in-flight", type=int, default=1000, help="calls of the large caller")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dim", type=int, default=128)
    given = parser.parse_args()
    with load_daemon.daemon(given) as daemon:
        collection = daemon.keep(given.rows, given.dim)
        alone, _ = ten(daemon, collection, given.seconds)
        bulk = ["search", "--collection", collection, "--concurrency", given.in_flight, "--connections", 4]
        large_alone = daemon.bench(*bulk, "--local-addresses", LARGE_ADDRESS, "--duration", f"{given.seconds}s")
        running = daemon.start("bench", *bulk, "--local-addresses", LARGE_ADDRESS, "--duration", FOREVER)
        wait_for_queue(daemon, given.in_flight)
        both, large = ten(daemon, collection, given.seconds)
        running.stop()
        results = {"scenario": "fairness", "machine": load_daemon.machine(daemon), "alone": alone, "large_alone": large_alone,
                   "both": both, "large_calls_per_second": large}
        load_daemon.save(given, results)
    rate = alone["calls_per_second"]
    print()
    load_daemon.table(["callers", "the ten, calls/s", "the ten, p50 / p99", f"the one with {given.in_flight} in flight, calls/s"], [
        ["the ten alone", f"{rate:.1f}", spread(alone), ""],
        ["the one alone", "", "", f"{large_alone['calls_per_second']:.1f}"],
        ["all", f"{both['calls_per_second']:.1f} ({100 * both['calls_per_second'] / rate:.0f}%)", spread(both),
         f"{results['large_calls_per_second']:.1f}"],
    ])


def wait_for_queue(daemon: Daemon, in_flight: int) -> None:
    """Waits until the large caller has completed as many calls as it has in flight."""
    before = daemon.lane(LANE)["requests"]
    while daemon.lane(LANE)["requests"] < before + in_flight:
        time.sleep(0.1)


if __name__ == "__main__":
    main()
