"""Compares a bulk upsert by the clients of all languages, each by its example `upsert`, against one daemon in one run.

    python3 upsert_clients.py --bin FOLDER [--rounds 5] [--points 100000] [--dimensions 256] [--batch 1000]

FOLDER has accelerd and, as they were built, the examples `upsert-rust`, `upsert-go` and `upsert-cpp`. Java's is started from the classes
that `client/java/test` leaves, TypeScript's from the folder that `client/typescript/build` prints. A language that is not there is named and
left out. Python's upsert is in this file; needs `PYTHONPATH=client/python/src:tests`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from accelerd import Client, UpsertStep
from loopback import serve

ROOT = Path(__file__).parents[2]


def commands(folder: Path) -> dict[str, list[str]]:
    """Return how the example of each language starts."""
    java = ROOT / "client/java/target"
    typescript = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "typescript/dist/examples/upsert.js"
    classes = f"{java}/classes:{java}/test-classes:{java}/example-classes:{java}/dependency/*"
    found = {
        "rust": [str(folder / "upsert-rust")],
        "go": [str(folder / "upsert-go")],
        "cpp": [str(folder / "upsert-cpp")],
        "java": ["java", "-cp", classes, "Upsert"],
        "typescript": ["node", str(typescript)],
        "python": [sys.executable, __file__, "--upsert"],
    }
    there = {"java": (java / "dependency").exists(), "typescript": typescript.exists(), "python": True}
    missing = [name for name, command in found.items() if not there.get(name, Path(command[0]).exists())]
    for name in missing:
        print(f"{name}: left out, its example is not built", file=sys.stderr)
    return {name: command for name, command in found.items() if name not in missing}


def upsert(arguments: argparse.Namespace) -> None:
    """Upsert with the Python client, and print a line of JSON as the other examples do."""
    vectors = np.random.default_rng(1).random((arguments.points, arguments.dimensions), np.float32)
    ids = np.arange(arguments.points)
    cuts = range(0, arguments.points, arguments.batch)
    steps = [UpsertStep(ids=ids[at : at + arguments.batch], vectors=vectors[at : at + arguments.batch]) for at in cuts]
    with Client(arguments.target) as client:
        collection = client.create_collection("upsert-python", dimensions=arguments.dimensions)
        start = time.perf_counter()
        for _ in collection.upsert_many(steps):
            pass
        seconds = time.perf_counter() - start
        collection.delete()
    print(json.dumps({"points": arguments.points, "seconds": round(seconds, 3)}))


def rates(arguments: argparse.Namespace, target: str) -> dict[str, list[float]]:
    """Return the points a second of each language, one a round; the languages take turns."""
    flags = {"target": target} | {name: getattr(arguments, name) for name in ("points", "dimensions", "batch")}
    given = [text for name, value in flags.items() for text in (f"--{name}", str(value))]
    found: dict[str, list[float]] = {}
    for _ in range(arguments.rounds):
        for name, command in commands(arguments.bin).items():
            done = subprocess.run([*command, *given], check=False, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"{name}: {done.stdout}{done.stderr}")
            result = json.loads(done.stdout.splitlines()[-1])
            found.setdefault(name, []).append(result["points"] / result["seconds"])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--dimensions", type=int, default=256)
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--upsert", action="store_true", help="upsert with the Python client")
    parser.add_argument("--target", default="http://localhost:7433")
    arguments = parser.parse_args()
    if arguments.upsert:
        upsert(arguments)
        return
    os.environ["ACCELERD_BIN"] = str(arguments.bin / "accelerd")
    with serve({}) as served:
        found = rates(arguments, f"http://{served['SERVER__LISTEN']}")
    rust = statistics.median(found["rust"])
    for name, measured in found.items():
        median = statistics.median(measured)
        spread = f"{min(measured):,.0f} to {max(measured):,.0f}"
        print(f"{name:11} {median:10,.0f} points/s ({spread}), {median / rust:.0%} of rust")


if __name__ == "__main__":
    main()
