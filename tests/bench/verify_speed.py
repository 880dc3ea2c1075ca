"""Measures verifications of functions, and searches beside one.

    python3 verify_speed.py --bin FOLDER [--processes 1,2,4] [--rounds 30] [--cases 1000000] [--gpu-cases 100000000,1000000000]

Functions are those of tests/translations: a module of rustc, which is committed, against its originals in Python. `gcd` writes to its
stack in memory, so that its cases are isolated from each other; cases of `fahrenheit` cannot change their instance. The daemon starts anew for each number of
child processes. Prints the time of 1,000 cases from end to end, cases per second, and p50 / p99 of searches alone and beside a
verification that uses all processes. With --gpu-cases it measures instead verifications of Python against Python whose cases a GPU screens,
and the same functions on the CPU. Needs only Python's standard library.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from pathlib import Path

import load_daemon
from load_daemon import Daemon, ms, spread

TRANSLATIONS = (load_daemon.HERE / "../translations").resolve()
SMALL = 1000
# name, function, file of its original, and whether the subject is the module's.
CHECKS = [
    ("isolated", "gcd", "integers.py", True),
    ("shared", "fahrenheit", "floats.py", True),
    ("python", "fahrenheit", "floats.py", False),
]
# What a check measures, in the words of the tables.
WORDS = {
    "isolated": "a module against Python, isolated cases",
    "shared": "a module against Python, cases share an instance",
    "python": "Python against Python",
}
# Functions whose cases a GPU screens, with keys of their checks.
SCREENED = [
    ("fahrenheit", "floats.py", ""),
    ("gcd", "integers.py", ""),
]
WARM_UP = 3
# More than run in any measurement: the verification is stopped.
ENDLESS = 10**9


def suite(folder: Path, rounds: int) -> Path:
    """Writes a suite with `rounds` checks of each kind, after those that warm up."""
    lines = []
    for kind, function, original, is_module in CHECKS:
        reference = f'{{ python = "{TRANSLATIONS / original}", function = "{function}" }}'
        module = f'{{ wasm = "{TRANSLATIONS / "functions.wasm"}", function = "{function}" }}'
        lines += [f'[[check]]\nname = "{kind}-{nth}"\nsubject = {module if is_module else reference}\nreference = {reference}\n'
                  'exact = true\nnan = "equal"\n' for nth in range(rounds + WARM_UP)]
    path = folder / "suite.toml"
    path.write_text("\n".join(lines))
    return path


def seconds(daemon: Daemon, checks: Path, kind: str, cases: int) -> list[float]:
    """The times of the checks of a kind. All of them must pass."""
    report = daemon.call("verify", "run", checks, "--filter", f"{kind}-", "--count", cases)
    failed = [check["name"] for check in report["checks"] if check["status"] != "passed"]
    if failed:
        raise SystemExit(f"failed checks: {', '.join(failed)}")
    return [check["seconds"] for check in report["checks"][WARM_UP:]]


def measure(given: argparse.Namespace, processes: int, folder: Path) -> dict:
    given.set.append(f"sandbox.processes={processes}")
    try:
        with load_daemon.daemon(given) as daemon:
            small, large = suite(folder, given.rounds), folder / "large"
            large.mkdir(exist_ok=True)
            large = suite(large, given.large_rounds)
            times = {kind: {"small": seconds(daemon, small, kind, SMALL), "large": seconds(daemon, large, kind, given.cases)}
                     for kind, *_ in CHECKS}
            return {"processes": processes, "times": times, "search": searches(daemon, given, large)}
    finally:
        given.set.pop()


def measure_screens(given: argparse.Namespace, numbers: list[int], folder: Path) -> list[dict]:
    """Verifications on a GPU, and of the first number of cases on the CPU."""
    results = []
    with load_daemon.daemon(given) as daemon:
        for function, original, keys in SCREENED:
            side = f'{{ python = "{TRANSLATIONS / original}", function = "{function}" }}'
            for device, counts in (("cuda", numbers), ("cpu", numbers[:1])):
                path = folder / f"{function}-{device}.toml"
                path.write_text(f'device = "{device}"\nexact = true\nnan = "equal"\n{keys}' + "".join(
                    f'[[check]]\nname = "{nth}"\nsubject = {side}\nreference = {side}\n' for nth in range(given.large_rounds)))
                for cases in counts:
                    checks = daemon.call("verify", "run", path, "--count", cases, "--timeout", "10m")["checks"]
                    if any(check["status"] != "passed" for check in checks):
                        raise SystemExit(f"{function} failed on {device}")
                    decided = checks[0]["gpu_decided_count"] / cases
                    results.append({"function": function, "device": device, "cases": cases, "decided": decided,
                                    "seconds": [check["seconds"] for check in checks]})
    return results


def print_screens(results: list[dict]) -> None:
    load_daemon.table(["function", "device", "cases", "decided on the GPU", "seconds, median and range", "cases/s"], [
        [one["function"], one["device"], f"{one['cases']:,}", f"{100 * one['decided']:.2f}%",
         f"{statistics.median(one['seconds']):.3f} ({min(one['seconds']):.3f} to {max(one['seconds']):.3f})",
         rate(one["seconds"], one["cases"])] for one in results
    ])


def searches(daemon: Daemon, given: argparse.Namespace, checks: Path) -> dict:
    """Searches alone, beside a verification, and alone again, since the machine's speed varies."""
    collection = daemon.keep(given.rows, given.dim)
    words = ["search", "--collection", collection, "--concurrency", given.searchers, "--duration", f"{given.seconds}s"]
    levels = {"before": daemon.bench(*words)}
    for kind in ("isolated", "shared"):
        running = daemon.start("verify", "run", checks, "--filter", f"{kind}-0", "--count", given.endless)
        levels[kind] = daemon.bench(*words)
        running.stop()
    levels["after"] = daemon.bench(*words)
    return levels


def rate(times: list[float], cases: int) -> str:
    low, median, high = (cases / time for time in (max(times), statistics.median(times), min(times)))
    return f"{median:,.0f} ({low:,.0f} to {high:,.0f})"


def main() -> None:
    parser = load_daemon.parser(__doc__)
    parser.add_argument("--processes", help="numbers of child processes, as in 1,2,4 [default: powers of 2 up to half of the cores]")
    parser.add_argument("--rounds", type=int, default=30, help="verifications of 1,000 cases")
    parser.add_argument("--large-rounds", type=int, default=5, help="verifications of --cases")
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--endless", type=int, default=ENDLESS, help="cases of the verification beside searches")
    parser.add_argument("--gpu-cases", help="numbers of cases that a GPU screens, as in 100000000,1000000000")
    parser.add_argument("--seconds", type=float, default=5, help="of each phase of searches")
    parser.add_argument("--searchers", type=int, default=4, help="searches in flight")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dim", type=int, default=128)
    given = parser.parse_args()
    if given.gpu_cases:
        with tempfile.TemporaryDirectory() as folder:
            results = measure_screens(given, [int(one) for one in given.gpu_cases.split(",")], Path(folder))
        load_daemon.save(given, {"scenario": "verify on a GPU", "results": results})
        print_screens(results)
        return
    half = max((os.cpu_count() or 1) // 2, 1)
    numbers = [int(one) for one in given.processes.split(",")] if given.processes else [n for n in (1, 2, 4, 8, 16, 32) if n <= half]
    with tempfile.TemporaryDirectory() as folder:
        results = [measure(given, number, Path(folder)) for number in numbers]
    load_daemon.save(given, {"scenario": "verify", "results": results})
    print()
    rows = []
    for one in results:
        for kind, times in one["times"].items():
            small = [1000 * time for time in times["small"]]
            rows.append([WORDS[kind], one["processes"], f"{ms(statistics.median(small))} ({ms(min(small))} to {ms(max(small))})",
                         rate(times["large"], given.cases), f"{given.cases / statistics.median(times['large']) / one['processes']:,.0f}"])
    load_daemon.table(["verification", "processes", "1,000 cases", f"cases/s of {given.cases:,}", "cases/s a process"], rows)
    print()
    load_daemon.table(["processes", "searches alone, p50 / p99", "beside isolated cases", "beside cases that share", "alone again"], [
        [one["processes"], *(spread(one["search"][phase]) for phase in ("before", "isolated", "shared", "after"))] for one in results
    ])


if __name__ == "__main__":
    main()
