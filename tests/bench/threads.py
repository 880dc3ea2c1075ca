"""Runs a benchmark against a daemon on this machine and reports the CPU time of each kind of thread.

    python3 threads.py DAEMON_PID accelctl --json bench embed --concurrency 500 --duration 3s

Takes one concurrency level for each run. Samples the middle of the run: LENGTH seconds from START. Linux only.
"""

import json
import re
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

START, LENGTH = 0.8, 1.6
TICKS = 100.0


def threads(process: int) -> dict[str, tuple[str, float, float]]:
    """The name, user seconds and kernel seconds of each thread."""
    found = {}
    for task in Path(f"/proc/{process}/task").iterdir():
        try:
            text = (task / "stat").read_text()
        except OSError:
            continue
        name, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
        found[task.name] = (name, int(rest[11]) / TICKS, int(rest[12]) / TICKS)
    return found


def show(title: str, before: dict, after: dict, seconds: float, calls: float) -> None:
    kinds = defaultdict(list)
    for task, (name, user, kernel) in after.items():
        _, user_before, kernel_before = before.get(task, (name, 0.0, 0.0))
        kinds[re.sub(r"-?\d+$", "", name)].append((user - user_before, kernel - kernel_before))
    print(f"{title}: threads, cores in user mode, cores in the kernel, share of one core of the busiest, us per call")
    for name, times in sorted(kinds.items()):
        user, kernel = (sum(part) for part in zip(*times, strict=True))
        busiest = max(map(sum, times)) / seconds
        each = 1e6 * (user + kernel) / calls
        print(f"  {name:12} {len(times):4} {user / seconds:7.2f} {kernel / seconds:7.2f} {busiest:7.2f} {each:8.1f}")


def main() -> None:
    daemon, command = int(sys.argv[1]), sys.argv[2:]
    bench = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    time.sleep(START)
    before, begin = (threads(daemon), threads(bench.pid)), time.monotonic()
    time.sleep(LENGTH)
    after, seconds = (threads(daemon), threads(bench.pid)), time.monotonic() - begin
    level = json.loads(bench.communicate()[0].splitlines()[0])["levels"][0]
    print(json.dumps(level))
    for title, *samples in zip(("daemon", "client"), before, after, strict=True):
        show(title, *samples, seconds, level["calls_per_second"] * seconds)


main()
