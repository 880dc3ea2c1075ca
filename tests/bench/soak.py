"""Runs callers of every kind concurrently, some with deadlines that expire, while a model is loaded and unloaded.

    python3 soak.py --bin FOLDER --tokenizer TOKENIZER_JSON [--client FOLDER] [--seconds 60]

--bin is the folder of accelerd. A text must keep its vector bit by bit under any load, and a source its outline; a call may fail
only as its caller expects. Prints memory and open files of the daemon during the run: both must level off. The last line counts
passed and failed calls.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from embed_calls import random_model
from baseline_texts import daemon

HERE = Path(__file__).resolve().parent
TELL_EVERY = 10.0
SHORT = 0.02
CALLERS_OF_EMBED = 4
PIECE = 3000
# Calls between loading and unloading a model.
STAY = 20


class Soak:
    """State that all callers share."""

    def __init__(self, address: str, model: Path) -> None:
        from accelerd import Client

        self.client = Client(address, connections=4)
        self.hasty = Client(address, timeout=SHORT, attempts=1)
        self.model = model
        library = Path(sysconfig.get_path("stdlib"))
        self.sources = [path.read_bytes() for path in sorted(library.glob("*.py"))]
        texts = [source.decode(errors="replace") for source in self.sources]
        self.pieces = [text[at : at + PIECE] for text in texts for at in range(0, len(text), PIECE)]
        self.lock = threading.Lock()
        self.known: dict[tuple, bytes] = {}
        self.calls: collections.Counter[str] = collections.Counter()
        self.wrong: list[str] = []
        self.over = threading.Event()

    def expect_same(self, key: tuple, found: bytes) -> None:
        with self.lock:
            if self.known.setdefault(key, found) != found:
                self.wrong.append(f"another answer for {key}")

    def embed(self, rng: random.Random) -> str:
        """Embeds texts with a permanent model, the built-in one, or the one that is loaded and unloaded."""
        from accelerd import BusyError, DeadlineError, NotFoundError

        model, client = rng.choice(["model", "builtin", "guest"]), rng.choice([self.client] * 3 + [self.hasty])
        some = rng.sample(range(len(self.pieces)), rng.choice([1, 1, 2, 8, 64]))
        try:
            vectors = client.embed([self.pieces[at] for at in some], model=model)
        except (BusyError, DeadlineError) as error:
            # A call that would miss its deadline is refused at once.
            late = isinstance(error, DeadlineError) or error.reason == "WOULD_MISS_DEADLINE"
            if client is self.hasty and late:
                return "embed, out of time"
            raise
        except NotFoundError:
            if model == "guest":
                return "embed, no guest"
            raise
        for at, vector in zip(some, vectors, strict=True):
            self.expect_same((model, at), vector.tobytes())
        return f"embed, {model}"

    def parse(self, rng: random.Random) -> str:
        some = rng.sample(range(len(self.sources)), rng.choice([1, 4, 20]))
        parsed = self.client.parse([self.sources[at] for at in some], outputs=["tree", "outline"])
        for at, one in zip(some, parsed, strict=True):
            names = json.dumps([row.qualified_name for row in one.outline] + [one.diagnostic and str(one.diagnostic)])
            self.expect_same(("outline", at), names.encode())
        return "parse"

    def similar(self, rng: random.Random) -> str:
        import numpy

        seed, queries, rows = rng.randrange(50), rng.choice([1, 5, 50]), rng.choice([10, 1000, 20_000])
        numbers = numpy.random.default_rng(seed).standard_normal((queries + rows, 64), dtype=numpy.float32)
        found = self.client.find_similar(numbers[:queries], numbers[queries:], k=5)
        self.expect_same(("similar", seed, queries, rows), found.indices.tobytes() + found.scores.tobytes())
        return "find_similar"

    def collect(self, rng: random.Random) -> str:
        """The life of a collection, from creation to deletion."""
        collection = self.client.create_collection(f"c{rng.randrange(1 << 60)}", model="builtin", text_field="body")
        for _ in range(3):
            some = rng.sample(self.pieces, 10)
            collection.upsert(range(10), texts=some, payloads=[{"body": text} for text in some])
        hits = collection.search(texts=[some[0]], k=3, hybrid=True)
        collection.delete()
        if len(hits[0]) != 3:
            raise ValueError(f"3 hits of 10 points were asked for: {hits}")
        return "collection"

    def come_and_go(self, _rng: random.Random) -> str:
        self.client.load_model("guest", str(self.model))
        for _ in range(STAY):
            self.client.embed(["a guest"], model="guest")
        self.client.unload_model("guest")
        return "load and unload"

    def run(self, call: Callable[[random.Random], str], seed: int) -> None:
        rng = random.Random(seed)
        while not self.over.is_set():
            try:
                done = call(rng)
            except Exception as error:  # Whatever it is, it is what this looks for.
                with self.lock:
                    self.wrong.append(f"{call.__name__}: {type(error).__name__}: {error}")
                continue
            with self.lock:
                self.calls[done] += 1


def state_of(process: int) -> str:
    """Resident memory and open files of a process."""
    status = Path(f"/proc/{process}/status").read_text().splitlines()
    resident = next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmRSS"))
    return f"{resident} MB, {len(os.listdir(f'/proc/{process}/fd'))} files open"


def child() -> int:
    """The daemon, which is the only child process."""
    (only,) = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return int(only)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bin", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--client", type=Path, default=HERE / "client", help="folder of the Python package accelerd")
    parser.add_argument("--seconds", type=float, default=60)
    given = parser.parse_args()
    sys.path.insert(0, str(given.client))
    with tempfile.TemporaryDirectory() as folder:
        model = random_model(Path(folder) / "guest", given.tokenizer, "minilm")
        with daemon(given.bin, model, "bf16") as address:
            soak = Soak(address, model)
            kinds = [soak.embed] * CALLERS_OF_EMBED + [soak.parse, soak.similar, soak.collect, soak.come_and_go]
            callers = [threading.Thread(target=soak.run, args=(kind, seed)) for seed, kind in enumerate(kinds)]
            for caller in callers:
                caller.start()
            begin = time.monotonic()
            while (left := begin + given.seconds - time.monotonic()) > 0:
                soak.over.wait(min(left, TELL_EVERY))
                print(f"{time.monotonic() - begin:5.0f} s: {state_of(child())}", flush=True)
            soak.over.set()
            for caller in callers:
                caller.join()
            print(f"at rest: {state_of(child())}")
    print(json.dumps(soak.calls, indent=1))
    for wrong in soak.wrong[:20]:
        print(wrong)
    print(f"{sum(soak.calls.values())} passed, {len(soak.wrong)} failed, 0 skipped")
    sys.exit(bool(soak.wrong))


if __name__ == "__main__":
    main()
