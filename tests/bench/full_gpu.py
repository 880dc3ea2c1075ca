"""Checks that the daemon answers while another process holds the memory of its GPU, and uses the GPU again afterwards.

    python3 full_gpu.py --bin FOLDER [--client FOLDER] [--free-mib 100 3072] [--rows 1000000] [--json FILE]

--bin is the folder of accelerd, a release build. For each --free-mib another process takes all memory of the GPU but so much, and whatever
becomes free: before the daemon starts, if it can start in the rest, and else afterwards. Callers of every family then get the answers that
they got on an idle GPU: parse, embed, find_similar, k-means, searches in a small and a large collection, tensors that are sent, resident
and uploaded, and comparisons. What has no memory on the GPU runs on the CPU: GetStats and the metrics count it, and the log says it once a
minute. Once the memory is free, the GPU answers all calls and the counts stand still.

--plain runs the same calls without a GPU, and checks nothing but the answers. The last line counts passed, failed and skipped checks.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import ctypes
import json
import os
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
from typing import Any

HERE = Path(__file__).resolve().parent
MIB = 1 << 20
START_TIMEOUT = 180.0
CALL_TIMEOUT = 120.0
LOG_LINE = "a GPU has no memory for requests, which run on the CPU"
# Time from the release of the memory until the GPU answers all calls: cuda.memory_retry, and some calls.
RECOVERY_TIMEOUT = 30.0
# The holder allocates pieces, from the largest to the smallest.
PIECES = [1024 * MIB, 64 * MIB, 2 * MIB]
TOP_UP_EVERY = 0.05
LARGE_DIM, SMALL_ROWS, SMALL_DIM = 768, 100_000, 256
CONCURRENT_CALLERS = 4
# A daemon can start in this much free memory, but the large collection does not fit in what the daemon leaves.
START_MIB = 2048


# The process that holds memory.


def driver() -> Callable[..., None]:
    """A function that calls the CUDA driver, and fails with the name of the call."""
    library = ctypes.CDLL("libcuda.so.1")

    def call(name: str, *arguments: object) -> None:
        code = getattr(library, name)(*arguments)
        if code:
            raise OSError(code, f"{name} returned {code}")

    return call


def hold(free: int) -> None:
    """Holds all memory of the first GPU but `free` bytes, until the standard input ends. Tells when it does."""
    cuda, device, context = driver(), ctypes.c_int(), ctypes.c_void_p()
    cuda("cuInit", 0)
    cuda("cuDeviceGet", ctypes.byref(device), 0)
    cuda("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    cuda("cuCtxSetCurrent", context)
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()

    def available() -> int:
        now, total = ctypes.c_size_t(), ctypes.c_size_t()
        cuda("cuMemGetInfo_v2", ctypes.byref(now), ctypes.byref(total))
        return now.value

    def take() -> int:
        taken = 0
        for piece in PIECES:
            while available() >= free + piece:
                at = ctypes.c_uint64()
                try:
                    cuda("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(piece))
                except OSError:
                    break
                taken += piece
        return taken

    held = take()
    print(json.dumps({"held_mib": held // MIB, "free_mib": available() // MIB}), flush=True)
    more = 0
    while not over.wait(TOP_UP_EVERY):
        more += take()
    print(json.dumps({"more_mib": more // MIB, "free_mib": available() // MIB}), flush=True)


@contextlib.contextmanager
def held(free_mib: int) -> Iterator[None]:
    command = [sys.executable, __file__, "--hold", str(free_mib)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        try:
            first = holder.stdout.readline()
            if not first:
                sys.exit("the holder of the memory has failed")
            print(f"  holding: {first.strip()}", flush=True)
            yield
        finally:
            rest, _ = holder.communicate("")
            print(f"  released: {rest.strip()}", flush=True)


# The daemon.


class Daemon:
    """A daemon with a data folder."""

    def __init__(self, binaries: Path, folder: Path, name: str, is_plain: bool) -> None:
        taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
        self.address, self.admin, self.health = (f"127.0.0.1:{one.getsockname()[1]}" for one in taken)
        for one in taken:
            one.close()
        settings = {"server.admin_listen": self.admin, "server.health_listen": self.health, "drain.endpoint_delay": "0s",
                    "store.data_dir": folder / "data", "telemetry.log_format": "json"}
        if is_plain:
            settings["backend.kind"] = "cpu"
        flags = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        self.binaries, self.log = binaries, folder / f"log-{name}"
        with self.log.open("w") as log:
            command = [binaries / "accelerd", "serve", "--listen", self.address, *flags]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        until = time.monotonic() + START_TIMEOUT
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > until:
                sys.exit(f"the daemon does not start:\n{self.log.read_text()[-5000:]}")
            time.sleep(0.1)

    def is_ready(self) -> bool:
        ask = [self.binaries / "accelerd", "health", "--address", self.health, "--service", "readiness"]
        return subprocess.run(ask, capture_output=True).returncode == 0

    def fallbacks_of_metrics(self) -> dict[str, int]:
        """Requests that fell back for lack of memory, by lane."""
        text = urllib.request.urlopen(f"http://{self.admin}/metrics", timeout=CALL_TIMEOUT).read().decode()
        found: collections.Counter[str] = collections.Counter()
        for labels, value in re.findall(r"^accelerd_cpu_fallback_requests\w*\{(.*)\} (\S+)$", text, re.MULTILINE):
            pairs = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            if pairs.get("reason") == "out_of_memory":
                found[pairs["lane"]] += int(float(value))
        return dict(found)

    def lines(self) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if LOG_LINE in line]

    def end(self) -> int:
        self.process.terminate()
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


# The calls.


class Calls:
    """Calls of every family, each of which returns what is compared between two runs."""

    def __init__(self, client: Any, rows: int) -> None:
        import numpy

        self.client, self.numpy, self.rows = client, numpy, rows
        random = numpy.random.default_rng(5)
        library = Path(sysconfig.get_path("stdlib"))
        self.sources = [path.read_bytes() for path in sorted(library.rglob("*.py"))[:1500]]
        self.texts = [source.decode(errors="replace")[:2000] for source in self.sources[:500]]
        self.corpus = random.standard_normal((60_000, 256), dtype=numpy.float32)
        self.matrix = random.standard_normal((1024, 1024), dtype=numpy.float32)
        self.resident = None

    def vectors(self, rows: int, dim: int, seed: int) -> Any:
        """Rows around 16 centres."""
        random = self.numpy.random.default_rng(seed)
        centres = 4 * self.numpy.random.default_rng(1).standard_normal((16, dim), dtype=self.numpy.float32)
        noise = random.standard_normal((rows, dim), dtype=self.numpy.float32)
        return centres[self.numpy.arange(rows) % 16] + noise

    def fill(self) -> None:
        """Creates the collections."""
        for name, rows, dim in (("large", self.rows, LARGE_DIM), ("small", min(self.rows, SMALL_ROWS), SMALL_DIM)):
            made = self.client.create_collection(name, dimensions=dim, durable=True)
            step = 20_000
            parts = ({"ids": self.numpy.arange(at, min(at + step, rows)),
                      "vectors": self.vectors(min(step, rows - at), dim, at)} for at in range(0, rows, step))
            stored = sum(made.upsert_many(parts))
            print(f"  {name}: {stored} points of {dim} dimensions", flush=True)

    def make_resident(self) -> None:
        """A tensor on the GPU, before its memory is taken."""
        self.resident = self.client.upload(self.matrix)

    def search(self, name: str, dim: int) -> Any:
        found = self.client.collection(name).search_columns(vectors=self.vectors(20, dim, 1 << 40), k=10, payload=False)
        return found.ids, found.scores

    def search_large(self) -> Any:
        return self.search("large", LARGE_DIM)

    def search_small(self) -> Any:
        return self.search("small", SMALL_DIM)

    def k_means_large(self) -> Any:
        return self.k_means(self.client.collection("large"))

    def k_means_sent(self) -> Any:
        return self.k_means(self.corpus[:20_000] + 0)

    def k_means(self, source: Any) -> Any:
        found = self.client.cluster(source, 16, max_iterations=5, seed=3)
        return (float(found.inertia),)

    def find_similar(self) -> Any:
        found = self.client.find_similar(self.corpus[:20] * 1.5, self.corpus, 10)
        return found.indices, found.scores

    def parse(self) -> Any:
        parsed = self.client.parse(self.sources, outputs=["outline"])
        return ([[(row.kind, row.qualified_name) for row in one.outline] for one in parsed],)

    def embed(self) -> Any:
        return (self.client.embed(self.texts),)

    def scans(self, operand: Any) -> Any:
        """Needs 256 MiB of intermediate values."""
        xp = self.client.xp
        scanned = xp.cumulative_sum(xp.broadcast_to(operand, (64, 1024, 1024)) * 0.5, axis=0)
        return self.client.execute(xp.max(scanned, axis=0)[:8, :], xp.sum(operand * operand))

    def tensors_sent(self) -> Any:
        return self.scans(self.client.tensor(self.matrix))

    def tensors_resident(self) -> Any:
        return self.scans(self.resident)

    def upload(self) -> Any:
        """Uploads 192 MiB, keeps a result, and downloads it."""
        rows = self.numpy.tile(self.matrix, (48, 1))
        with self.client.upload(rows) as uploaded, (uploaded[:1024, :] + 1.0).keep() as kept:
            return (kept.numpy(),)

    def compare(self) -> Any:
        report = self.client.compare(self.resident, self.matrix)
        return (bool(report),)

    def all(self) -> dict[str, Callable[[], Any]]:
        names = ("parse", "embed", "find_similar", "search_small", "search_large", "k_means_sent", "k_means_large",
                 "tensors_sent", "tensors_resident", "upload", "compare")
        return {name: getattr(self, name) for name in names}

    def is_equal(self, name: str, found: Any, expected: Any) -> bool:
        """Equal values: searches exactly, sums but for rounding."""
        numpy = self.numpy
        exact = name.startswith("search") or name == "find_similar"
        tolerance = 0.0 if exact else 1e-3 if name.startswith("k_means") else 2e-5

        def equal(a: Any, b: Any) -> bool:
            if isinstance(a, float) or (isinstance(a, numpy.ndarray) and a.dtype.kind == "f"):
                return numpy.shape(a) == numpy.shape(b) and numpy.allclose(a, b, rtol=tolerance, atol=tolerance)
            return numpy.array_equal(a, b) if isinstance(a, numpy.ndarray) else a == b

        return len(found) == len(expected) and all(equal(a, b) for a, b in zip(found, expected, strict=True))


# The checks.


class Checks:
    """Passed, failed and skipped checks."""

    def __init__(self) -> None:
        self.passed, self.failed, self.skipped = 0, 0, 0
        self.lock = threading.Lock()

    def check(self, holds: bool, what: str) -> None:
        with self.lock:
            self.passed += holds
            self.failed += not holds
        print(f"  {'ok    ' if holds else 'FAILED'} {what}", flush=True)

    def skip(self, what: str) -> None:
        self.skipped += 1
        print(f"  skipped {what}", flush=True)


def run_all(calls: Calls, expected: dict[str, Any], checks: Checks, when: str) -> None:
    """Makes each call, and compares its answer."""
    for name, call in calls.all().items():
        began = time.monotonic()
        try:
            found = call()
        except Exception as error:  # Whatever it is, it is what this looks for.
            checks.check(False, f"{when}: {name}: {type(error).__name__}: {str(error)[:500]}")
            continue
        took = time.monotonic() - began
        checks.check(calls.is_equal(name, found, expected[name]), f"{when}: {name} answers as before, {took:.2f} s")


def run_together(calls: Calls, expected: dict[str, Any], checks: Checks) -> None:
    """The small calls from several threads at once."""
    names = ["parse", "embed", "find_similar", "search_small", "k_means_sent", "tensors_sent", "compare"]
    wrong: list[str] = []

    def caller(seed: int) -> None:
        for at in range(len(names)):
            name = names[(seed + at) % len(names)]
            try:
                if not calls.is_equal(name, calls.all()[name](), expected[name]):
                    wrong.append(f"{name}: another answer")
            except Exception as error:
                wrong.append(f"{name}: {type(error).__name__}: {str(error)[:300]}")

    threads = [threading.Thread(target=caller, args=(seed,)) for seed in range(CONCURRENT_CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    checks.check(not wrong, f"{CONCURRENT_CALLERS} callers at once: {wrong[:5] or 'all answers as before'}")


def fallbacks(client: Any) -> dict[str, int]:
    found: collections.Counter[str] = collections.Counter()
    for one in client.stats().cpu_fallbacks:
        found[one.lane] += one.request_count
    return dict(found)


def launches(client: Any) -> int:
    """Launches on GPUs since the start."""
    return sum(kernel.call_count for kernel in client.stats().kernels if kernel.device.startswith("cuda"))


def is_held_first(free_mib: int) -> bool:
    """Whether the daemon starts in what memory is left, or copies its collections to the GPU before the rest is taken."""
    return free_mib >= START_MIB


def check_full(daemon: Daemon, calls: Calls, expected: dict[str, Any], checks: Checks, free_mib: int) -> None:
    """Everything is answered while the memory is held."""
    client, when, began = calls.client, f"{free_mib} MiB free", time.monotonic()
    run_all(calls, expected, checks, when)
    run_together(calls, expected, checks)
    checks.check(daemon.is_ready(), f"{when}: the daemon is ready")
    counted = fallbacks(client)
    checks.check(daemon.fallbacks_of_metrics() == counted, f"{when}: metrics count as GetStats does: {counted}")
    wanted = {"search"} if is_held_first(free_mib) else set()
    checks.check(bool(counted) and wanted <= counted.keys(), f"{when}: calls fall back: {counted}")
    lines, most = daemon.lines(), 1 + int((time.monotonic() - began) / 60)
    checks.check(1 <= len(lines) <= most, f"{when}: {len(lines)} lines in the log, of at most {most}")
    print("\n".join(f"    {line}" for line in lines[:3]), flush=True)


def check_recovery(calls: Calls, expected: dict[str, Any], checks: Checks, when: str) -> None:
    """The GPU answers everything again."""
    until = time.monotonic() + RECOVERY_TIMEOUT
    while True:
        before, on_gpu = fallbacks(calls.client), launches(calls.client)
        attempt = Checks()
        with contextlib.redirect_stdout(None):
            run_all(calls, expected, attempt, "")
        after, more = fallbacks(calls.client), launches(calls.client) - on_gpu
        if (after == before and not attempt.failed) or time.monotonic() > until:
            break
    run_all(calls, expected, checks, f"{when}, released")
    checks.check(fallbacks(calls.client) == before, f"{when}, released: the counts stand still at {before}")
    checks.check(more > 0, f"{when}, released: {more} launches on the GPU for one run of all calls")


def run(given: argparse.Namespace, folder: Path, checks: Checks) -> None:
    from accelerd import Client

    def connect(daemon: Daemon) -> Client:
        return Client(daemon.address, timeout=CALL_TIMEOUT, connections=4)

    print("on an idle GPU", flush=True)
    daemon = Daemon(given.bin, folder, "idle", given.plain)
    calls = Calls(connect(daemon), given.rows)
    calls.fill()
    calls.make_resident()
    expected = {name: call() for name, call in calls.all().items()}
    checks.check(fallbacks(calls.client) == {}, "idle: nothing falls back")
    run_all(calls, expected, checks, "idle, again")
    checks.check(daemon.end() == 0, "idle: the daemon ends")
    for free_mib in given.free_mib:
        print(f"{free_mib} MiB free", flush=True)
        if given.plain:
            checks.skip(f"{free_mib} MiB free: there is no GPU")
            continue
        with contextlib.ExitStack() as stack:
            if is_held_first(free_mib):
                stack.enter_context(held(free_mib))
            daemon = Daemon(given.bin, folder, str(free_mib), given.plain)
            calls.client = connect(daemon)
            calls.make_resident()
            if not is_held_first(free_mib):
                stack.enter_context(held(free_mib))
            check_full(daemon, calls, expected, checks, free_mib)
        check_recovery(calls, expected, checks, f"{free_mib} MiB free")
        checks.check(daemon.end() == 0, f"{free_mib} MiB free: the daemon ends")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--bin", type=Path, help="folder of accelerd")
    parser.add_argument("--client", type=Path, help="folder of the Python client [default: that next to this file]")
    parser.add_argument("--free-mib", type=int, nargs="+", default=[100, 3072])
    parser.add_argument("--rows", type=int, default=1_000_000, help="points of the large collection, of 768 dimensions")
    parser.add_argument("--plain", action="store_true", help="without a GPU")
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--hold", type=int, metavar="MIB", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.hold is not None:
        hold(given.hold * MIB)
        return
    for folder in (given.client, HERE / "client", HERE / "../../client/python/src"):
        if folder and folder.exists():
            sys.path.insert(0, str(folder))
            break
    checks, began = Checks(), time.monotonic()
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        try:
            run(given, Path(folder), checks)
        except BaseException:
            for log in sorted(Path(folder).glob("log-*")):
                print(f"{log.name}:\n{log.read_text()[-5000:]}")
            raise
    if given.json:
        given.json.write_text(json.dumps({"passed": checks.passed, "failed": checks.failed, "skipped": checks.skipped}))
    print(f"{time.monotonic() - began:.0f} s")
    print(f"{checks.passed} passed, {checks.failed} failed, {checks.skipped} skipped")
    sys.exit(checks.failed > 0)


if __name__ == "__main__":
    main()
