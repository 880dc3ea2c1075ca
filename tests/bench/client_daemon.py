"""Provides the daemon of a benchmark: a running one, or a release build pinned to a core."""

from __future__ import annotations

import os
import re
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from accelerd import AccelerdError, Client

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT = 60.0


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of all benchmarks."""
    parser.add_argument("--server", help="a daemon that runs already; left out, one is started")
    parser.add_argument("--daemon", type=Path, default=ROOT / "target" / "release" / "accelerd", help="what is started")
    parser.add_argument("--daemon-core", type=int, default=0, help="the core of a daemon that is started")
    parser.add_argument("--client-core", type=int, default=1, help="the core of this process")
    parser.add_argument("--runs", type=int, default=7)


@contextmanager
def served(arguments: object) -> Iterator[str]:
    """Yield the daemon's address, with this process pinned to its own core."""
    options = vars(arguments)
    os.sched_setaffinity(0, {options["client_core"]})
    if options["server"]:
        yield options["server"]
        return
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    listen, admin, health = (f"127.0.0.1:{one.getsockname()[1]}" for one in held)
    for one in held:
        one.close()
    command = ["taskset", "-c", str(options["daemon_core"]), options["daemon"], "serve", "--listen", listen]
    sets = [f"server.admin_listen={admin}", f"server.health_listen={health}", "drain.endpoint_delay=0s"]
    folder = tempfile.mkdtemp(prefix="accelerd-benchmark-")
    with open(Path(folder, "log"), "w") as log:
        extra = [word for value in sets for word in ("--set", value)]
        daemon = subprocess.Popen([*command, *extra], stdout=log, stderr=log)
    try:
        wait_for(listen)
        yield listen
    finally:
        daemon.terminate()
        daemon.wait()
        shutil.rmtree(folder)


def wait_for(target: str) -> None:
    """Wait until the daemon responds."""
    until = time.monotonic() + START_TIMEOUT
    with Client(target, timeout=1) as client:
        while True:
            try:
                client.stats()
                return
            except AccelerdError:
                if time.monotonic() > until:
                    raise


def peak_memory_mib() -> float:
    """Return the peak resident memory of this process."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found else float("nan")


def median(runs: int, measured: Callable[[], object]) -> tuple[float, float, float]:
    """Return median, minimum and maximum seconds of several runs, after a warm-up run."""
    seconds = []
    for at in range(runs + 1):
        start = time.perf_counter()
        measured()
        if at:
            seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), min(seconds), max(seconds)
