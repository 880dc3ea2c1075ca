"""Measures goodput against offered load: answers within the deadline per second, from half the capacity to ten times.

    python3 overload_goodput.py --bin FOLDER [--subjects search,embed,parse,execute] [--deadlines 200ms,1s,5s] [--loads 0.5,1,2,5,10]

The capacity is the throughput of a closed loop with 32 calls in flight. Then an open loop offers multiples of it, at first with
one priority, then with a tenth of high and a tenth of low priority. The calls of one deadline before and one after a level load
the daemon and do not count, so that a level shows a lasting load. After it, the recovery is the time until a lone call is fast
again. Prints a Markdown table. A level that the load generator does not keep up with is marked: its figures do not describe the
daemon.
"""

from __future__ import annotations

import argparse
import json
import sysconfig
import tempfile
from pathlib import Path

import load_daemon
from load_daemon import Daemon, ms

PRIORITIES = "high=1,normal=8,low=1"
IN_FLIGHT = 32
HEADS = ["calls", "priority", "deadline", "offered", "offered/s", "goodput/s", "of capacity", "refused", "refusal p50 / p99",
         "expired", "answers p50 / p99", "recovery", "note"]


def graph(folder: Path, products: int) -> Path:
    """A file of a graph whose work is large next to its one input: a chain of products, whose numbers stay small."""
    nodes = []
    for nth in range(products):
        value = f"y{nth - 1}" if nth else "x"
        nodes += [{"name": f"p{nth}", "op": "matmul", "inputs": [value, "x"]}, {"name": f"y{nth}", "op": "tanh", "inputs": [f"p{nth}"]}]
    path = folder / "graph.json"
    path.write_text(json.dumps({"inputs": ["x"], "nodes": nodes, "outputs": [f"y{products - 1}"]}))
    return path


def subjects(daemon: Daemon, given: argparse.Namespace, folder: Path) -> dict[str, list[object]]:
    """The calls by name. Each takes milliseconds, so that ten times the capacity is within reach of one client machine."""
    rows, dim = given.rows, given.dim
    made = {
        "search": lambda: ["search", "--collection", daemon.keep(rows, dim), "--batch", given.queries],
        "embed": lambda: ["embed", "--model", "minilm", "--tokens", given.tokens],
        "parse": lambda: ["parse", sysconfig.get_path("stdlib"), "--lines", given.lines],
        "execute": lambda: ["execute", graph(folder, given.products), "--shape", "128x128"],
    }
    return {name: made[name]() for name in given.subjects.split(",")}


def measure(daemon: Daemon, given: argparse.Namespace, name: str, words: list[object]) -> dict:
    """Capacity, and the levels of every deadline and mix of priorities."""
    closed = daemon.bench(*words, "--concurrency", IN_FLIGHT, "--duration", f"{given.seconds}s")
    capacity = closed["calls_per_second"]
    print(f"\n{name}: capacity {capacity:.0f} calls/s, p50 {ms(closed['p50_ms'])} at {IN_FLIGHT} in flight\n", flush=True)
    loads = given.parse_loads if name == "parse" else given.loads
    alone_ms = daemon.alone(*words)
    runs = []
    for mix in given.mixes.split(";"):
        for deadline in given.deadlines.split(","):
            flags = ["--deadline", deadline, "--ramp", deadline, "--duration", f"{given.seconds:g}s", "--priorities", mix]
            levels = []
            for load in loads.split(","):
                level = daemon.bench(*words, *flags, "--rate", f"{capacity * float(load):.3f}")
                levels.append(level | {"recovery_seconds": daemon.recovery(alone_ms, *words)})
            runs.append({"deadline": deadline, "priorities": mix, "levels": levels})
            load_daemon.table(HEADS, [row for level in levels for row in rows_of(name, capacity, runs[-1], level)])
            print(flush=True)
    return {"subject": name, "words": [str(word) for word in words], "capacity": capacity, "closed": closed, "runs": runs}


def rows_of(name: str, capacity: float, run: dict, level: dict) -> list[list[object]]:
    """The rows of a level: all calls, then each priority of a mix."""
    late = level["generator"]["late_sends"]
    note = "" if level["generator"]["kept_up"] else f"generator late with {late} of {level['sent']}"
    parts = [("all", level)]
    if len(level["priorities"]) > 1:
        parts += [(name, level["priorities"][name]) for name in ("high", "normal", "low")]
    rows = []
    for priority, part in parts:
        sent = max(part["sent"], 1)
        answered = part["codes"].get("Ok", 0)
        rows.append([
            name, priority, run["deadline"], f"{level['rate'] / capacity:.1f}x", f"{part['sent'] / level['seconds']:.0f}",
            f"{part['goodput_per_second']:.0f}", f"{100 * part['goodput_per_second'] / capacity:.0f}%",
            f"{100 * part['refused'] / sent:.0f}%",
            f"{ms(part['refused_p50_ms'])} / {ms(part['refused_p99_ms'])}" if part["refused"] else "",
            f"{100 * part['expired'] / sent:.0f}%",
            f"{ms(part['p50_ms'])} / {ms(part['p99_ms'])}" if answered else "",
            f"{level['recovery_seconds']:.1f} s" if part is level else "",
            ", ".join(filter(None, [note if part is level else "", f"{part['errors']} errors" if part["errors"] else ""])),
        ])
    return rows


def main() -> None:
    parser = load_daemon.parser(__doc__)
    parser.add_argument("--subjects", default="search,embed,parse")
    parser.add_argument("--deadlines", default="200ms,1s,5s")
    parser.add_argument("--loads", default="0.5,1,2,5,10", help="multiples of the capacity")
    parser.add_argument("--parse-loads", default="0.5,1,2", help="the same for parse, whose sources are large: ten times its capacity "
                        "is gigabytes per second")
    parser.add_argument("--mixes", default=f"normal;{PRIORITIES}", help="mixes of priorities, separated by semicolons")
    parser.add_argument("--seconds", type=float, default=10, help="of each level")
    parser.add_argument("--rows", type=int, default=200_000, help="of the collection that is searched")
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--queries", type=int, default=16, help="of a search")
    parser.add_argument("--tokens", type=int, default=32, help="of a text, for an encoder in the shape of MiniLM-L6")
    parser.add_argument("--lines", type=int, default=10_000, help="of Python, of a parse")
    parser.add_argument("--products", type=int, default=30, help="matrix products of a graph")
    given = parser.parse_args()
    encoders = ("minilm",) if "embed" in given.subjects.split(",") else ()
    with tempfile.TemporaryDirectory() as folder, load_daemon.daemon(given, encoders) as daemon:
        results = {"scenario": "goodput", "machine": load_daemon.machine(daemon), "seconds": given.seconds, "subjects": []}
        for name, words in subjects(daemon, given, Path(folder)).items():
            results["subjects"].append(measure(daemon, given, name, words))
            load_daemon.save(given, results)


if __name__ == "__main__":
    main()
