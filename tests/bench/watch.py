"""Measures `accelctl index --watch` on a tree of Python files.

    python3 tests/bench/watch.py [--daemon FILE] [--accelctl FILE] [--files 20000] [--switched 5000] [--edits 100]

Prints the first pass, the CPU time of accelctl at rest, the time after a `git checkout` until its files are indexed
compared with indexing these files alone, and the time from an edit until a search finds it. Needs git.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import client_daemon as daemon

from accelerd import Client, Collection

FOLDERS = 400
WORDS = [
    "open",
    "read",
    "write",
    "parse",
    "send",
    "close",
    "retry",
    "merge",
    "split",
    "socket",
    "buffer",
    "matrix",
    "token",
]
COLLECTION = "watched"
#: Seconds after the summary of the first pass, until accelctl has freed what it needed.
SETTLED = 2


class Watching:
    """A running `accelctl index --watch`."""

    def __init__(self, accelctl: Path, target: str, root: Path) -> None:
        words = [accelctl, "index", root, "-c", COLLECTION, "--name", "t", "--watch", "--json"]
        environment = {**os.environ, "ACCELERD_SERVER": f"http://{target}"}
        self.process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)

    def line(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, "accelctl ended"
        document: dict[str, Any] = json.loads(line)
        return document

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def function(name: str, seed: random.Random) -> str:
    body = "\n".join(f"    {seed.choice(WORDS)}_{n} = {seed.choice(WORDS)}({n})" for n in range(8))
    return f"def {name}(value):\n{body}\n    return value\n"


def source(seed: random.Random) -> str:
    names = ["_".join(seed.sample(WORDS, 2)) for _ in range(4)]
    return "import os\n\n\n" + "\n\n".join(function(name, seed) for name in names)


def path_of(root: Path, number: int) -> Path:
    return root / f"package_{number % FOLDERS}" / f"module_{number}.py"


def git(root: Path, *words: str) -> None:
    identity = ["-c", "user.name=benchmark", "-c", "user.email=benchmark@example.org", "-c", "gc.auto=0"]
    subprocess.run(["git", "-C", root, *identity, *words, "--quiet"], check=True)


def make_tree(root: Path, files: int, switched: int, seed: random.Random) -> list[Path]:
    """Make a repository whose branch `other` has other contents of some files. Returns these."""
    for number in range(files):
        path_of(root, number).parent.mkdir(parents=True, exist_ok=True)
        path_of(root, number).write_text(source(seed))
    git(root, "init", "--initial-branch=main")
    subprocess.run(["git", "-C", root, "add", "."], check=True)
    git(root, "commit", "-m", "main")
    git(root, "checkout", "-b", "other")
    changed = [path_of(root, number) for number in seed.sample(range(files), switched)]
    for path in changed:
        path.write_text(source(seed))
    git(root, "commit", "-a", "-m", "other")
    git(root, "checkout", "main")
    return changed


def edit_to_searchable(collection: Collection, root: Path, files: int, edits: int, seed: random.Random) -> list[float]:
    seconds = []
    for number in range(edits):
        name = f"unique{number}edit"
        path = path_of(root, seed.randrange(files))
        text = path.read_text() + "\n\n" + function(name, seed)
        start = time.perf_counter()
        path.write_text(text)
        while not collection.search(texts=[name], k=1, where={"name": name})[0]:
            pass
        seconds.append(time.perf_counter() - start)
    return seconds


def switch(watching: Watching, root: Path, count: int) -> tuple[float, float, int]:
    """Return the seconds of the checkout, those until all of its files are indexed, and the passes."""
    start = time.perf_counter()
    git(root, "checkout", "other")
    checkout = time.perf_counter() - start
    indexed = passes = 0
    while indexed < count:
        indexed += watching.line()["indexed"]
        passes += 1
    return checkout, time.perf_counter() - start, passes


def index_alone(accelctl: Path, target: str, changed: list[Path], root: Path, base: Path) -> float:
    """Return the seconds of a plain `index` of copies of the changed files into an empty collection."""
    for path in changed:
        to = base / path.relative_to(root)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)
    environment = {**os.environ, "ACCELERD_SERVER": f"http://{target}"}
    start = time.perf_counter()
    subprocess.run([accelctl, "index", base, "-c", "alone", "--name", "t", "-q"], env=environment, check=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    daemon.add_arguments(parser)
    release = daemon.ROOT / "target" / "release" / "accelctl"
    parser.add_argument("--accelctl", type=Path, default=release, help="what watches")
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--switched", type=int, default=5_000)
    parser.add_argument("--edits", type=int, default=100)
    parser.add_argument("--rest", type=float, default=60, help="seconds for which nothing changes")
    arguments = parser.parse_args()
    seed = random.Random(1)
    with tempfile.TemporaryDirectory() as base, daemon.served(arguments) as target, Client(target) as client:
        root = Path(base, "tree")
        changed = make_tree(root, arguments.files, arguments.switched, seed)
        watching = Watching(arguments.accelctl, target, root)
        try:
            first = watching.line()
            print(f"first pass: {first['indexed']} files, {first['chunks']} chunks in {first['seconds']:.2f} s")
            time.sleep(SETTLED)
            cpu = watching.cpu_seconds()
            time.sleep(arguments.rest)
            print(f"at rest: {watching.cpu_seconds() - cpu:.2f} s of CPU time in {arguments.rest:.0f} s")
            checkout, switched, passes = switch(watching, root, arguments.switched)
            alone = index_alone(arguments.accelctl, target, changed, root, Path(base, "alone"))
            print(f"git checkout of {arguments.switched} files: {checkout:.2f} s")
            print(f"  indexed {switched - checkout:.2f} s later in {passes} passes")
            print(f"  `index` of these files alone: {alone:.2f} s")
            collection = client.collection(COLLECTION)
            seconds = sorted(edit_to_searchable(collection, root, arguments.files, arguments.edits, seed))
            p99 = seconds[math.ceil(0.99 * len(seconds)) - 1]
            figures = [1e3 * value for value in (statistics.median(seconds), p99, seconds[-1])]
            print("edit to searchable: median {:.0f} ms, p99 {:.0f} ms, maximum {:.0f} ms".format(*figures))
        finally:
            watching.stop()


if __name__ == "__main__":
    main()
