"""Starts a daemon for a load benchmark and runs `accelctl` against it. Needs only Python's standard library.

--bin is the folder of accelerd and accelctl. --accelctl names another accelctl, so that one tool measures several builds of the
daemon.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
START_TIMEOUT = 180.0
# Longest time between two completed calls of bulk work.
CALL_TIMEOUT = 300.0
# A daemon has recovered from a load when a lone call takes at most so many times as long as before, and so many milliseconds.
SLOWER_ALONE = 3.0
NOISE_MS = 20.0
CALLS_ALONE = 20
RECOVERY_TIMEOUT = 300.0
# Encoders in the shapes of MiniLM-L6 and BERT-base: layers and hidden size.
SHAPES = {"minilm": (6, 384), "bert": (12, 768)}
# The folder of the encoders' tokeniser in the repository, and in `dist/`.
TOKENIZERS = (HERE / "../../kernels/models/tests/encoders/bert/tokenizer.json", HERE / "encoders/bert/tokenizer.json")


def parser(description: str | None) -> argparse.ArgumentParser:
    """The arguments of all load benchmarks."""
    made = argparse.ArgumentParser(description=(description or "").split("\n\n")[0])
    made.add_argument("--bin", type=Path, required=True, help="folder of accelerd and accelctl")
    made.add_argument("--accelctl", type=Path, help="another accelctl than that of --bin")
    made.add_argument("--tokenizer", type=Path, help="tokenizer.json of the encoders [default: that of the tests' BERT]")
    made.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="setting of the daemon")
    made.add_argument("--daemon-cores", help="cores of the daemon, as in 0-3")
    made.add_argument("--client-cores", help="cores of the clients")
    made.add_argument("--client-nice", type=int, help="nice value of the clients; one below 0 needs root, and keeps them punctual "
                      "where the daemon takes all cores")
    made.add_argument("--json", type=Path, help="file for the results")
    return made


def pinned(cores: str | None, nice: int | None = None) -> list[str]:
    """The start of a command line that sets cores and nice value."""
    cores_set = ["taskset", "-c", cores] if cores else []
    return cores_set if nice is None else [*cores_set, "nice", "-n", str(nice)]


class Daemon:
    """A running daemon and the command line that calls it."""

    def __init__(self, given: argparse.Namespace, address: str) -> None:
        accelctl = given.accelctl or given.bin / "accelctl"
        self.command = [*pinned(given.client_cores, given.client_nice), str(accelctl), "--server", f"http://{address}", "--json"]

    def call(self, *words: object) -> dict:
        """The JSON output of a command. A benchmark with failed calls prints it, too."""
        done = subprocess.run(self.line(words), capture_output=True, text=True)
        if done.returncode not in (0, 1) or not done.stdout:
            sys.exit(f"{' '.join(map(str, words))}: {done.stderr}")
        return json.loads(done.stdout)

    def bench(self, *words: object) -> dict:
        """The first level of a benchmark."""
        return self.levels(*words)[0]

    def levels(self, *words: object) -> list[dict]:
        return self.call("bench", *words)["levels"]

    def keep(self, rows: int, dim: int) -> str:
        """Makes a collection of random vectors and returns its name."""
        words = ("--rows", rows, "--dim", dim, "--concurrency", 1, "--requests", 1, "--warm-up", 0, "--keep")
        return self.call("bench", "search", *words)["collection"]

    def start(self, *words: object) -> Running:
        """Starts a command in the background."""
        return Running(subprocess.Popen(self.line(words), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))

    def lane(self, name: str) -> dict[str, float]:
        """Requests and items of a lane since the start of the daemon."""
        lanes = [lane for lane in self.call("stats")["lanes"] if lane["name"] == name]
        return {key: sum(lane[key] for lane in lanes) for key in ("requests", "items")}

    def devices(self) -> list[str]:
        """The devices in use, the GPUs first."""
        return [device["product"] or device["name"] for device in self.call("stats")["devices"]]

    def has_gpu(self) -> bool:
        return any(device["kind"] != "cpu" for device in self.call("stats")["devices"])

    def alone(self, *words: object) -> float:
        """The p50 in milliseconds of one call at a time, while nothing else runs."""
        return self.bench(*words, "--concurrency", 1, "--requests", CALLS_ALONE, "--warm-up", 2)["p50_ms"]

    def recovery(self, alone_ms: float, *words: object) -> float:
        """Waits until a lone call is about as fast as before a load, and returns the seconds it took."""
        begin = time.monotonic()
        while time.monotonic() < begin + RECOVERY_TIMEOUT:
            call = self.bench(*words, "--concurrency", 1, "--requests", 1, "--warm-up", 0)
            if call["calls"] and call["p50_ms"] <= SLOWER_ALONE * alone_ms + NOISE_MS:
                return time.monotonic() - begin
        sys.exit(f"calls are still slow {RECOVERY_TIMEOUT:.0f} s after a load")

    def line(self, words: tuple[object, ...]) -> list[str]:
        return [*self.command, *map(str, words)]


class Running:
    """A command in the background."""

    def __init__(self, process: subprocess.Popen) -> None:
        self.process = process

    def check(self) -> None:
        """Ends this program if the command failed."""
        if self.process.poll() not in (None, 0):
            sys.exit(f"{' '.join(self.process.args)}: {self.process.stderr.read()}")

    def stop(self) -> None:
        self.check()
        self.process.terminate()
        self.process.communicate()


class Throughput:
    """Items per second of a lane, from a completed call to a later one. A call of bulk work can take seconds."""

    def __init__(self, daemon: Daemon, lane: str) -> None:
        self.daemon, self.name = daemon, lane
        self.before, self.begin = self.completion()

    def completion(self) -> tuple[dict[str, float], float]:
        """Waits for the next completed call; returns the totals of the lane, and the time."""
        before, until = self.daemon.lane(self.name), time.monotonic() + CALL_TIMEOUT
        while (now := self.daemon.lane(self.name))["requests"] == before["requests"]:
            if time.monotonic() > until:
                sys.exit(f"no call of {self.name} has completed for {CALL_TIMEOUT:.0f} s")
            time.sleep(0.02)
        return now, time.monotonic()

    def of(self, key: str) -> float:
        now, end = self.completion()
        return (now[key] - self.before[key]) / (end - self.begin)


@contextlib.contextmanager
def daemon(given: argparse.Namespace, encoders: tuple[str, ...] = ()) -> Iterator[Daemon]:
    """A daemon with these encoders of SHAPES, with random weights."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    main, admin, health = (f"127.0.0.1:{one.getsockname()[1]}" for one in held)
    for one in held:
        one.close()
    with tempfile.TemporaryDirectory() as folder:
        settings, log = Path(folder) / "accelerd.toml", Path(folder) / "log"
        models = ", ".join(random_model(Path(folder) / "models" / name, given.tokenizer, name) for name in encoders)
        (Path(folder) / "models").mkdir(exist_ok=True)
        settings.write_text(f"[models]\nfolders = [{json.dumps(folder + '/models')}]\npreload = [{models}]\n"
                            '[drain]\nendpoint_delay = "0s"\n')
        sets = [f"server.admin_listen={admin}", f"server.health_listen={health}", *given.set]
        flags = ["--config", settings, "--listen", main, *(word for one in sets for word in ("--set", one))]
        with open(log, "w") as written:
            command = [*pinned(given.daemon_cores), given.bin / "accelerd", "serve", *flags]
            running = subprocess.Popen(command, stdout=written, stderr=written)
            try:
                wait_until_ready(given.bin, health, running, log)
                yield Daemon(given, main)
                if running.poll() is not None:
                    sys.exit(f"the daemon ended:\n{log.read_text()}")
            finally:
                running.send_signal(signal.SIGTERM)
                end(running)


def end(running: subprocess.Popen) -> None:
    """Waits for a daemon that drains; ends one that does not."""
    try:
        running.wait(30)
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait()
        print("the daemon did not drain within 30 s of SIGTERM and was killed", file=sys.stderr)


def random_model(folder: Path, tokenizer: Path | None, name: str) -> str:
    """Writes an encoder and returns its entry in the settings."""
    tokenizer = tokenizer or next(path for path in TOKENIZERS if path.exists())
    layers, hidden = SHAPES[name]
    made = [HERE / "random_bert.py", folder, tokenizer, "--layers", str(layers), "--hidden", str(hidden)]
    subprocess.run([sys.executable, *made], check=True)
    return f'{{ name = "{name}", path = {json.dumps(str(folder))} }}'


def wait_until_ready(binaries: Path, health: str, running: subprocess.Popen, log: Path) -> None:
    ask = [binaries / "accelerd", "health", "--address", health, "--service", "readiness"]
    until = time.monotonic() + START_TIMEOUT
    while subprocess.run(ask, capture_output=True).returncode != 0:
        if running.poll() is not None or time.monotonic() > until:
            sys.exit(f"the daemon does not start:\n{log.read_text()}")
        time.sleep(0.05)


def machine(running: Daemon) -> dict:
    """What a reader needs to know about where figures come from."""
    return {"cores": os.cpu_count(), "system": platform.platform(), "devices": running.devices(),
            "load_average": os.getloadavg()[0], "version": running.call("stats")["version"]}


def table(heads: list[str], rows: list[list[object]]) -> None:
    """Prints a Markdown table."""
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |")
    sys.stdout.flush()


def ms(milliseconds: float) -> str:
    """A time with two or three digits."""
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.2f} s"
    digits = 0 if milliseconds >= 100 else 1 if milliseconds >= 10 else 2
    return f"{milliseconds:.{digits}f} ms"


def spread(level: dict) -> str:
    """p50 / p99 of the successful calls, and the failed ones."""
    if not level["calls"]:
        return f"none answered, {failures(level)}"
    times = f"{ms(level['p50_ms'])} / {ms(level['p99_ms'])}"
    return f"{times}, {failures(level)}" if level["failed"] else times


def failures(level: dict) -> str:
    counts = {kind: level[kind] for kind in ("refused", "expired", "errors") if level[kind]}
    return ", ".join(f"{count} {kind}" for kind, count in counts.items()) or "none failed"


def save(given: argparse.Namespace, results: dict) -> None:
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n")
