"""Prints the ten units of cargo's last timed build that took longest. Run as `python3 tests/build_times.py REPORT`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

UNITS = 10
BEGIN = "const UNIT_DATA = "


def units(report: str) -> list[tuple[float, str]]:
    """Return the time and the name of each unit of a report of `cargo --timings`, the longest first."""
    if BEGIN not in report:
        raise ValueError(f"expected a report of cargo --timings with {BEGIN.strip()!r}, got {report[:40]!r}")
    data, _end = json.JSONDecoder().raw_decode(report.split(BEGIN, 1)[1])
    found = [(unit["duration"], f"{unit['name']} {unit['version']}{unit['target']}") for unit in data]
    return sorted(found, reverse=True)


def main() -> None:
    """Print the table."""
    found = units(Path(sys.argv[1]).read_text(encoding="utf-8"))
    print(f"{len(found)} units took {sum(seconds for seconds, _ in found):.0f} s; the longest:")
    for seconds, name in found[:UNITS]:
        print(f"{seconds:7.1f} s  {name}")


if __name__ == "__main__":
    main()
