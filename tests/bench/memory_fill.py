"""Fills the daemon's memory from several sides under a memory limit of a cgroup, and checks that it refuses work by name,
loses nothing that it accepted and stays within the limit. On a GPU (--set backend.kind=cuda --set cuda.pool_limit=1GiB) its memory
is filled as well.

    python3 memory_fill.py --bin FOLDER --tokenizer TOKENIZER_JSON [--client FOLDER] [--limit-mib 512] [--seconds 600] [--json FILE]

--bin is the folder of accelerd, a release build. Callers write vectors, texts and durable points, load models, embed, parse, search
and cluster. The cgroup is made under /sys/fs/cgroup, v1 or v2; where that is not permitted, --host-limit-mib sets
memory.host_limit in its place, and resident memory is compared with --limit-mib. Exits with 1 if a call failed other than by a
refusal, if an accepted point is missing, if the daemon ended, or if its resident memory exceeded the limit.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import random
import re
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from embed_calls import random_model

HERE = Path(__file__).resolve().parent
START_TIMEOUT = 60.0
CALL_TIMEOUT = 60.0
SAMPLE_EVERY = 0.1
TELL_EVERY = 30.0
# Time from the end of the load until memory counts as at rest.
REST = 15.0
# Pause of a caller after a refusal, unless the refusal names one.
PAUSE = 0.2
# Refusals of a writer until it deletes its collection.
FULL_FOR = 10
DIM = 256
ROWS = 2048
SIDES = "vectors,texts,durable,search,load,embed,parse,cluster"
WORDS = [f"word{at}" for at in range(20_000)]
GROUPS = (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max"))
SAMPLE = re.compile(r'^(accelerd_memory_\w+)\{(.*)\} (\S+)$', re.MULTILINE)


@contextlib.contextmanager
def group(limit: int) -> Iterator[Path | None]:
    """A cgroup with a memory limit; None without the permission to make one."""
    for top, file in GROUPS:
        path = Path(top) / f"accelerd-memory-fill-{os.getpid()}"
        try:
            path.mkdir()
        except OSError:
            continue
        try:
            (path / file).write_text(str(limit))
        except OSError:
            path.rmdir()
            continue
        try:
            yield path
        finally:
            path.rmdir()
        return
    yield None


class Daemon:
    """A daemon in a cgroup, and the highest memory that was seen of it."""

    def __init__(self, given: argparse.Namespace, folder: Path, cgroup: Path | None) -> None:
        held = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
        self.address, self.admin, self.health = (f"127.0.0.1:{one.getsockname()[1]}" for one in held)
        for one in held:
            one.close()
        settings = {"server.admin_listen": self.admin, "server.health_listen": self.health, "backend.kind": "cpu",
                    "drain.endpoint_delay": "0s", "store.data_dir": folder / "data", "store.wal_limit": "8MiB"}
        if cgroup is None:
            settings["memory.host_limit"] = f"{given.host_limit_mib}MiB"
        (folder / "accelerd.toml").write_text(f"[models]\nfolders = [{json.dumps(str(folder / 'models'))}]\n")
        flags = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        flags += [word for pair in given.set for word in ("--set", pair)]
        command = [given.bin / "accelerd", "serve", "--config", folder / "accelerd.toml", "--listen", self.address, *flags]
        enter = (lambda: (cgroup / "cgroup.procs").write_text(str(os.getpid()))) if cgroup else None
        self.log = folder / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=enter)
        self.peak = collections.Counter()
        self.wait_until_ready(given.bin)

    def wait_until_ready(self, binaries: Path) -> None:
        ask = [binaries / "accelerd", "health", "--address", self.health, "--service", "readiness"]
        until = time.monotonic() + START_TIMEOUT
        while subprocess.run(ask, capture_output=True).returncode:
            if self.process.poll() is not None or time.monotonic() > until:
                sys.exit(f"the daemon does not start:\n{self.log.read_text()}")
            time.sleep(0.05)

    def resident(self) -> dict[str, int]:
        """Resident memory in bytes: all of it, and the anonymous part, which the kernel cannot drop."""
        lines = dict(line.split(":", 1) for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines())
        return {key: int(lines[key].split()[0]) * 1024 for key in ("VmRSS", "RssAnon", "VmHWM")}

    def sample(self) -> dict[str, int]:
        now = self.resident()
        self.peak |= collections.Counter(now)
        return now

    def metrics(self, place: str = "host") -> dict[str, dict[str, float]]:
        """The ledger's metrics of a place, by metric and kind."""
        text = urllib.request.urlopen(f"http://{self.admin}/metrics", timeout=CALL_TIMEOUT).read().decode()
        found: dict[str, dict[str, float]] = collections.defaultdict(dict)
        for name, labels, value in SAMPLE.findall(text):
            pairs = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            if pairs.get("place") == place:
                found[name][pairs.get("kind", "")] = float(value)
        return found

    def end(self) -> int:
        self.process.terminate()
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


class Fill:
    """The callers, and what they saw."""

    def __init__(self, address: str, model: Path) -> None:
        from accelerd import Client

        # Each caller has a connection of its own, and sees each refusal.
        self.connect = lambda: Client(address, timeout=CALL_TIMEOUT, attempts=1)
        self.model = model
        library = Path(sysconfig.get_path("stdlib"))
        self.sources = [path.read_bytes() for path in sorted(library.glob("*.py"))]
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.calls: collections.Counter[str] = collections.Counter()
        self.refusals: collections.Counter[tuple[str, str, str]] = collections.Counter()
        self.figures: dict[tuple[str, str, str], str] = {}
        self.wrong: list[str] = []
        # Points of each collection that were accepted, by name.
        self.accepted: dict[str, int] = {}

    def write(self, kind: str, points: Callable[[int], dict], **options: object) -> Callable[[], None]:
        """A caller that fills a collection, and deletes it when writes have been refused for a while."""
        client, state = self.connect(), {"count": 0, "refused": 0, "at": 0}
        state["collection"] = client.create_collection(f"{kind}-0", **options)

        def step() -> None:
            collection = state["collection"]
            if state["refused"] >= FULL_FOR:
                self.check(collection, state["count"])
                collection.delete()
                state.update(at=state["at"] + 1, count=0, refused=0)
                with self.lock:
                    self.accepted.pop(collection.name, None)
                state["collection"] = collection = client.create_collection(f"{kind}-{state['at']}", **options)
            state["refused"] += 1
            first = state["count"]
            collection.upsert(range(first, first + ROWS), **points(first))
            state.update(count=first + ROWS, refused=0)
            with self.lock:
                self.accepted[collection.name] = first + ROWS

        with self.lock:
            self.accepted[f"{kind}-0"] = 0
        return step

    def check(self, collection: object, expected: int) -> None:
        """Whether all accepted points are there. A call that failed without a refusal may have been applied, too."""
        count = collection.count()
        if count != expected:
            with self.lock:
                self.wrong.append(f"{collection.name} has {count} points, {expected} were accepted")

    def vectors(self) -> Callable[[], None]:
        import numpy

        rows = numpy.random.default_rng(0).standard_normal((ROWS, DIM), dtype=numpy.float32)
        tags = lambda first: {"vectors": rows, "payloads": {"tag": [at % 97 for at in range(first, first + ROWS)]}}
        return self.write("vectors", tags, dimensions=DIM)

    def texts(self) -> Callable[[], None]:
        import numpy

        rng, rows = random.Random(1), numpy.ones((ROWS, 4), dtype=numpy.float32)
        body = lambda _: {"vectors": rows, "payloads": {"body": [" ".join(rng.choices(WORDS, k=30)) for _ in range(ROWS)]}}
        return self.write("texts", body, dimensions=4, text_field="body")

    def durable(self) -> Callable[[], None]:
        import numpy

        rows = numpy.random.default_rng(2).standard_normal((ROWS, DIM), dtype=numpy.float32)
        return self.write("durable", lambda _: {"vectors": rows}, dimensions=DIM, durable=True)

    def search(self) -> Callable[[], None]:
        import numpy
        from accelerd import NotFoundError

        client, queries = self.connect(), numpy.random.default_rng(3).standard_normal((64, DIM), dtype=numpy.float32)

        def step() -> None:
            with self.lock:
                name = next((name for name in self.accepted if name.startswith("vectors")), "vectors-0")
            with contextlib.suppress(NotFoundError):
                client.collection(name).search(vectors=queries, k=100, where={"tag": random.randrange(97)})

        return step

    def load(self) -> Callable[[], None]:
        from accelerd import AlreadyExistsError, NotFoundError

        client, at = self.connect(), [0]

        def step() -> None:
            at[0] += 1
            name = f"model-{at[0] % 8}"
            # A model may be evicted between two calls, and may still be there from the last round.
            with contextlib.suppress(AlreadyExistsError):
                client.load_model(name, str(self.model))
            with contextlib.suppress(NotFoundError):
                client.embed(["a text of few words"] * 4, model=name)

        return step

    def embed(self) -> Callable[[], None]:
        client, texts = self.connect(), [" ".join(WORDS[at : at + 100]) for at in range(2048)]
        return lambda: client.embed(texts)

    def parse(self) -> Callable[[], None]:
        client, rng = self.connect(), random.Random(4)
        return lambda: client.parse(rng.sample(self.sources, 8), outputs=["tree"])

    def cluster(self) -> Callable[[], None]:
        import numpy

        client = self.connect()
        rows = numpy.random.default_rng(5).standard_normal((20_000, 64), dtype=numpy.float32)
        return lambda: client.cluster(rows, 16, max_iterations=4)

    def run(self, kind: str, step: Callable[[], None]) -> None:
        from accelerd import AccelerdError, MessageTooLargeError

        while not self.over.is_set():
            try:
                step()
            except AccelerdError as error:
                refused = error.code.name == "RESOURCE_EXHAUSTED" and not isinstance(error, MessageTooLargeError)
                with self.lock:
                    if refused:
                        self.refuse(kind, error)
                    else:
                        self.wrong.append(f"{kind}: {error}")
                self.over.wait(error.details.retry_after or PAUSE)
                continue
            with self.lock:
                self.calls[kind] += 1

    def refuse(self, kind: str, error: Exception) -> None:
        figures = error.details.metadata or {}
        key = (kind, error.reason or "no reason", figures.get("setting", ""))
        self.refusals[key] += 1
        self.figures[key] = error.message
        if error.reason == "MEMORY_LIMIT":
            asked, held, limit = (int(figures[name]) for name in ("asked_bytes", "held_bytes", "limit_bytes"))
            if asked + held <= limit:
                self.wrong.append(f"{kind}: refused although it fits: {error}")

    def start(self, sides: list[str]) -> list[threading.Thread]:
        callers = [threading.Thread(target=self.run, args=(side, getattr(self, side)())) for side in sides]
        for caller in callers:
            caller.start()
        return callers


def watch(daemon: Daemon, fill: Fill, seconds: float) -> float:
    """Samples memory until the time is over or the daemon has ended. Returns the most bytes in the ledger."""
    begin, told, most = time.monotonic(), 0.0, 0.0
    while (elapsed := time.monotonic() - begin) < seconds and daemon.process.poll() is None:
        with contextlib.suppress(OSError, KeyError):
            now = daemon.sample()
            if elapsed >= told:
                told += TELL_EVERY
                held = sum(daemon.metrics()["accelerd_memory_bytes"].values())
                most = max(most, held)
                print(f"{elapsed:5.0f} s: {mib(now['VmRSS'])} MiB resident, {mib(held)} in the ledger", flush=True)
        time.sleep(SAMPLE_EVERY)
    return most


def mib(size: float) -> int:
    return round(size / (1 << 20))


def clear(fill: Fill) -> None:
    """Checks what was accepted, and deletes everything."""
    client = fill.connect()
    for name, expected in fill.accepted.items():
        fill.check(client.collection(name), expected)
        client.collection(name).delete()
    for model in client.models():
        if model.name != "builtin":
            client.unload_model(model.name)


def gpu_memory(daemon: Daemon) -> dict[str, dict[str, int]]:
    """MiB in the memory of the first GPU, by metric and kind."""
    found = daemon.metrics("cuda:0")
    return {name: {kind: mib(size) for kind, size in kinds.items() if size} for name, kinds in found.items()}


def measure(given: argparse.Namespace, daemon: Daemon, model: Path) -> dict:
    start = daemon.sample()
    fill = Fill(daemon.address, model)
    callers = fill.start(given.sides.split(","))
    most = watch(daemon, fill, given.seconds)
    fill.over.set()
    for caller in callers:
        caller.join()
    if daemon.process.poll() is not None:
        sys.exit(f"the daemon ended with {daemon.process.returncode}: {fill.wrong[:5]}\n{daemon.log.read_text()[-4000:]}")
    metrics, gpu = daemon.metrics(), gpu_memory(daemon)
    clear(fill)
    time.sleep(REST)
    return {
        "limit_mib": given.limit_mib,
        "host_limit_mib": mib(metrics["accelerd_memory_limit_bytes"].get("", 0)),
        "most_in_ledger_mib": mib(most),
        "resident_mib": {"start": mib(start["VmRSS"]), "peak": mib(daemon.peak["VmHWM"]), "peak_anonymous": mib(daemon.peak["RssAnon"]),
                         "rest": mib(daemon.resident()["VmRSS"])},
        "answered": dict(fill.calls),
        "refused": [{"caller": key[0], "reason": key[1], "setting": key[2], "count": count, "last": fill.figures[key]}
                    for key, count in fill.refusals.most_common()],
        "evicted_mib": {kind: mib(size) for kind, size in metrics["accelerd_memory_evicted_bytes_total"].items() if size},
        "in_ledger_at_rest_mib": {kind: mib(size) for kind, size in daemon.metrics()["accelerd_memory_bytes"].items()},
        "gpu": {"loaded": gpu, "rest": gpu_memory(daemon)},
        "wrong": fill.wrong,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bin", type=Path, required=True, help="folder of accelerd")
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json of the models")
    parser.add_argument("--client", type=Path, default=HERE / "client", help="folder of the Python package accelerd")
    parser.add_argument("--limit-mib", type=int, default=512, help="memory limit of the daemon's cgroup")
    parser.add_argument("--host-limit-mib", type=int, help="memory.host_limit where no cgroup can be made")
    parser.add_argument("--sides", default=SIDES, help="callers [default: all]")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="setting of the daemon")
    parser.add_argument("--json", type=Path, help="file for the results")
    given = parser.parse_args()
    sys.path.insert(0, str(given.client))
    with tempfile.TemporaryDirectory() as folder, group(given.limit_mib << 20) as cgroup:
        if cgroup is None and given.host_limit_mib is None:
            sys.exit("no cgroup can be made here: expected --host-limit-mib")
        model = random_model(Path(folder) / "models" / "minilm", given.tokenizer, "minilm")
        daemon = Daemon(given, Path(folder), cgroup)
        try:
            results = measure(given, daemon, model)
        finally:
            code = daemon.end()
    results |= {"cgroup": cgroup is not None, "exit_code": code}
    text = json.dumps(results, indent=1)
    print(text)
    if given.json:
        given.json.write_text(text + "\n")
    sys.exit(bool(results["wrong"] or code or results["resident_mib"]["peak"] > given.limit_mib))


if __name__ == "__main__":
    main()
