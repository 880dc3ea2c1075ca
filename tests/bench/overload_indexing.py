"""Measures a caller of small calls while two others index a large project with an encoder.

    python3 overload_indexing.py --bin FOLDER [--seconds 30]

Two `accelctl index` send Python's standard library through an encoder in the shape of MiniLM-L6 with random weights. A third
caller searches 2,900 rows and embeds single texts with the built-in model, ten calls per second each in an open loop. Prints p50
and p99 of the third caller before, during and after, and the throughput of the indexing alone and with the third caller.
"""

from __future__ import annotations

import argparse
import subprocess
import sysconfig
import threading
import time

import load_daemon
from load_daemon import Daemon, Throughput, spread

INDEXERS = 2
LANE = "encode"
DEADLINE = "60s"


class Indexer:
    """Indexes a folder into new collections, one after another, until it is stopped."""

    def __init__(self, daemon: Daemon, folder: str, name: str) -> None:
        self.daemon, self.folder, self.name = daemon, folder, name
        self.over = threading.Event()
        self.current: load_daemon.Running | None = None
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        pass_number = 0
        while not self.over.is_set():
            collection = f"{self.name}-{pass_number}"
            with self.lock:
                if self.over.is_set():
                    return
                words = ("index", self.folder, "--collection", collection, "--model", "minilm", "--quiet")
                self.current = self.daemon.start(*words)
            self.current.process.communicate()
            subprocess.run(self.daemon.line(("collections", "delete", collection)), capture_output=True)
            pass_number += 1

    def stop(self) -> None:
        with self.lock:
            self.over.set()
            if self.current:
                self.current.process.terminate()
        self.thread.join()


def small_calls(daemon: Daemon, given: argparse.Namespace, collection: str) -> dict[str, dict]:
    """Levels of the third caller, whose searches and embeddings run at the same time."""
    load = ["--rate", given.rate, "--deadline", DEADLINE, "--duration", f"{given.seconds}s", "--connections", 1, "--warm-up", 0]
    calls = {"search": ["search", "--collection", collection], "embed": ["embed"]}
    measured: dict[str, dict] = {}

    def measure(name: str, words: list[object]) -> None:
        measured[name] = daemon.bench(*words, *load)

    threads = [threading.Thread(target=measure, args=one) for one in calls.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return measured


def main() -> None:
    parser = load_daemon.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=30, help="of each phase")
    parser.add_argument("--rate", type=float, default=10, help="searches, and embeddings, per second")
    parser.add_argument("--rows", type=int, default=2900)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--project", default=sysconfig.get_path("stdlib"), help="folder to index")
    given = parser.parse_args()
    with load_daemon.daemon(given, ("minilm",)) as daemon:
        collection = daemon.keep(given.rows, given.dim)
        results = {"scenario": "indexing", "machine": load_daemon.machine(daemon), "seconds": given.seconds}
        results["before"] = small_calls(daemon, given, collection)
        indexers = [Indexer(daemon, given.project, f"bulk-{at}") for at in range(INDEXERS)]
        try:
            alone = Throughput(daemon, LANE)
            time.sleep(given.seconds)
            results["texts_per_second_alone"] = alone.of("items")
            both = Throughput(daemon, LANE)
            results["during"] = small_calls(daemon, given, collection)
            results["texts_per_second_with_small_calls"] = both.of("items")
        finally:
            for indexer in indexers:
                indexer.stop()
        results["after"] = small_calls(daemon, given, collection)
        load_daemon.save(given, results)
    phases = ("before", "during", "after")
    print()
    load_daemon.table(["small call, p50 / p99", *phases],
                      [[name, *(spread(results[phase][name]) for phase in phases)] for name in ("search", "embed")])
    alone, both = (results[f"texts_per_second_{name}"] for name in ("alone", "with_small_calls"))
    print(f"\nindexing: {alone:.1f} texts/s alone, {both:.1f} with the small calls ({100 * both / max(alone, 1e-9):.0f}%)")


if __name__ == "__main__":
    main()
