"""Prints results of the suite as a table in Markdown, from the document that `accelctl --json verify run` prints."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from library import LIBRARY

HEAD = ["functions", "number", "passed", "exactly equal", "cases", "without a result", "seconds"]
Check = dict[str, Any]


def module_of(check: Check) -> str:
    """The module of the library whose function is translated, or the file of another function."""
    if check["name"] not in LIBRARY:
        return f"others of `{check['reference']['source'].partition(':')[0]}`"
    module = LIBRARY[check["name"]].name.partition(".")[0]
    return f"`{module if module in sys.stdlib_module_names else 'builtins'}`"


def row(title: str, checks: list[Check]) -> list[str]:
    """A row of the table."""
    passed = [check for check in checks if check["status"] == "passed"]
    exact = [check for check in passed if check["outputs"][0]["tolerances"] == ["exact"]]
    cases, seconds = (sum(check[key] for check in checks) for key in ("cases", "seconds"))
    without = cases - sum(check["reference"]["outcomes"].get("ok", 0) for check in checks)
    counts = [len(checks), len(passed), len(exact), cases, without]
    return [title, *(f"{count:,}" for count in counts), f"{seconds:.1f}"]


def main(report: Path) -> None:
    """Prints the table: a row for each module, and sums."""
    checks: list[Check] = json.loads(report.read_text())["checks"]
    rows: dict[str, list[Check]] = defaultdict(list)
    for check in sorted(checks, key=lambda check: (check["name"] not in LIBRARY, module_of(check))):
        rows[module_of(check)].append(check)
    rows["functions of Python's standard library"] = [check for check in checks if check["name"] in LIBRARY]
    rows["all functions"] = checks
    for cells in (HEAD, ["---"] * len(HEAD), *(row(title, found) for title, found in rows.items())):
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
