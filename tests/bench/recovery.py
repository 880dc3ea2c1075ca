"""Measures how fast a daemon recovers a durable collection, and asks for its health meanwhile.

    python3 recovery.py --bin FOLDER [--client FOLDER] [--points 4000000] [--dimensions 384] [--runs 3] [--folder FOLDER]

--bin is the folder of accelerd, a release build. Each run starts the daemon again on the checkpoint and the log that the points are in.
The health port must answer while it recovers: not ready, but live. The last line counts passed, failed and skipped checks.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from full_gpu import Checks, Daemon

STEP = 20_000


class Starting(Daemon):
    """A daemon whose health is asked for while it starts."""

    def __init__(self, binaries: Path, folder: Path, name: str) -> None:
        self.answers: list[tuple[bool, bool]] = []
        self.progress: list[float] = []
        super().__init__(binaries, folder, name, is_plain=True)

    def is_ready(self) -> bool:
        ready, live = (self.ask(service) for service in ("readiness", "liveness"))
        # Before the port is open there is no answer.
        if ready is not None and live is not None:
            self.answers.append((ready, live))
            self.progress.append(self.metric("accelerd_recovery_done_bytes"))
        return bool(ready)

    def ask(self, service: str) -> bool | None:
        """Whether a service is served; None if the port gave no answer."""
        command = [self.binaries / "accelerd", "health", "--address", self.health, "--service", service]
        asked = subprocess.run(command, capture_output=True, text=True, timeout=10)
        if asked.returncode == 0:
            return True
        return False if "NOT_SERVING" in asked.stdout + asked.stderr else None

    def metric(self, name: str) -> float:
        text = urllib.request.urlopen(f"http://{self.admin}/metrics", timeout=10).read().decode()
        found = re.search(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    def recovered(self) -> tuple[int, float] | None:
        """Points and seconds of the recovery, as the log has them."""
        for line in self.log.read_text().splitlines():
            event = json.loads(line) if line.startswith("{") else {}
            fields = event.get("fields", event)
            if fields.get("message") == "recovered":
                value, unit = re.fullmatch(r"([\d.]+)(\D+)", fields["elapsed"]).groups()
                return int(fields["points"]), float(value) * {"s": 1.0, "ms": 1e-3, "µs": 1e-6}[unit]
        return None


def fill(daemon: Daemon, points: int, dimensions: int) -> None:
    import numpy
    from accelerd import Client

    random = numpy.random.default_rng(7)
    rows = random.standard_normal((STEP, dimensions), dtype=numpy.float32)
    with Client(daemon.address) as client:
        made = client.create_collection("points", dimensions=dimensions, durable=True)
        steps = ({"ids": numpy.arange(at, min(at + STEP, points)), "vectors": rows[: min(STEP, points - at)] + numpy.float32(at)}
                 for at in range(0, points, STEP))
        began = time.monotonic()
        stored = sum(made.upsert_many(steps))
        print(f"wrote {stored} points of {dimensions} dimensions in {time.monotonic() - began:.1f} s", flush=True)


def check(daemon: Starting, points: int, checks: Checks) -> None:
    from accelerd import Client

    waiting = daemon.answers[:-1]
    checks.check(bool(waiting) and all(answer == (False, True) for answer in waiting),
                 f"{len(waiting)} answers while it recovers: not ready, but live")
    checks.check(daemon.answers[-1] == (True, True), "then ready and live")
    checks.check(daemon.progress == sorted(daemon.progress) and len(set(daemon.progress)) > 1, "its progress is in a metric")
    with Client(daemon.address) as client:
        count = client.collection("points").count()
    checks.check(count == points, f"{count} points are served")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=Path, required=True)
    parser.add_argument("--client", type=Path)
    parser.add_argument("--points", type=int, default=4_000_000)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    if arguments.client:
        sys.path.insert(0, str(arguments.client))
    checks = Checks()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        daemon = Daemon(arguments.bin, Path(folder), "fill", is_plain=True)
        fill(daemon, arguments.points, arguments.dimensions)
        checks.check(daemon.end() == 0, "the daemon ends")
        for run in range(arguments.runs):
            daemon = Starting(arguments.bin, Path(folder), f"run-{run}")
            points, seconds = daemon.recovered()
            rate = points / seconds
            print(f"run {run}: {points} points in {seconds:.2f} s, {rate:,.0f} points/s on {os.cpu_count()} cores", flush=True)
            check(daemon, arguments.points, checks)
            code = daemon.end()
            checks.check(code == 0, f"the daemon ends with {code}")
            if code:
                print(daemon.log.read_text()[-3000:], flush=True)
    print(f"{checks.passed} passed, {checks.failed} failed, {checks.skipped} skipped")
    sys.exit(checks.failed > 0)


if __name__ == "__main__":
    main()
