"""Reports: RESULTS.md for the repository, and a list of differences with examples."""

from __future__ import annotations

import json
from collections import Counter
from datetime import date
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from judge import Tally
from tools import HERE, Oracle, cache_folder

RESULTS = HERE / "RESULTS.md"
KNOWN_DIFFERENCES = HERE / "known_differences.json"
COLUMNS = [
    "corpus",
    "judge",
    "cases",
    "same tree",
    "both reject",
    "same line",
    "same class",
    "same message",
    "too deep",
    "different",
]
COUNTS = ["cases", "equal", "refused", "same_line", "same_class", "same_message", "exhausted", "different"]
ERRORS = "\n## Errors\n"
ERRORS_OPENING = """Of the sources that both reject: the errors that have CPython's exception, message, line and column, and those that also
have its end. *Python 2 releases* are the modules of {releases} old releases from PyPI; *mutations* are snippets of the
standard library, its tests and doctests, and of ruff's fixtures where available, with one to three tokens changed;
*token_fuzz* are random token sequences. [MESSAGES.md](MESSAGES.md) lists all messages of CPython's parser.
"""
MAX_CAUSES = 80
OPENING = """# Conformance

Written by `just conformance`: accelerd and CPython parse each source. *Same tree*: the trees of `to_ast()` and `ast.parse`
are equal in all nodes, fields, values and positions (before 3.12 except positions inside f-strings, which CPython counts
from the string). Of the sources that *both reject*, the next columns count equal lines, exceptions and messages. *Too deep*:
CPython exhausts its own stack or memory. *Different*: all other cases.
"""


def save(corpus: str, oracle: Oracle, tally: Tally) -> None:
    """Saves a row, so that a run of one corpus keeps the rows of the others."""
    rows = {(row["corpus"], row["judge"]): row for row in _rows()}
    row = {
        "corpus": corpus,
        "judge": oracle.name,
        "version": oracle.version,
        "date": date.today().isoformat(),
        "counts": dict(tally.counts),
        "causes": {name: cause.count for name, cause in tally.causes.items() if not name.startswith("soft")},
    }
    rows.pop((corpus, oracle.name), None)
    rows[corpus, oracle.name] = row
    _saved().write_text("\n".join(json.dumps(row) for row in rows.values()) + "\n")


def write_results() -> None:
    """Writes RESULTS.md from the saved rows."""
    lines = [OPENING, _line(COLUMNS), _line(["---", "---", *["---:"] * len(COUNTS)])]
    rows = sorted(_rows(), key=lambda row: (row["judge"], row["corpus"]))
    lines += [
        _line([row["corpus"], row["judge"], *(f"{row['counts'].get(one, 0):,}" for one in COUNTS)]) for row in rows
    ]
    causes: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        for cause, count in row["causes"].items():
            causes[row["judge"], cause, reason(cause, row["version"])] += count
    if causes:
        lines += [
            "\n## Differences\n",
            _line(["cases", "judge", "what differs", "reason"]),
            "| ---: | --- | --- | --- |",
        ]
        for (name, cause, why), count in causes.most_common():
            lines.append(_line([f"{count:,}", name, f"`{cause}`".replace("|", "\\|"), why]))
    kept = RESULTS.read_text() if RESULTS.exists() else ""
    errors = kept.partition(ERRORS)[2]
    RESULTS.write_text("\n".join(lines) + "\n" + (ERRORS + errors if errors else ""))


def write_errors(releases: int) -> None:
    """Writes the section of RESULTS.md about errors."""
    lines = [
        ERRORS_OPENING.format(releases=releases),
        "| corpus | judge | both reject | same error | share | same end | share |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in sorted(_rows(), key=lambda row: (row["judge"], row["corpus"])):
        refused = row["counts"].get("refused", 0)
        if "same_all" not in row["counts"] or not refused:
            continue
        cells = [row["corpus"], row["judge"], f"{refused:,}"]
        for one in ("same_all", "same_end"):
            count = row["counts"].get(one, 0)
            # Rounded down, so that 100% means all.
            cells += [f"{count:,}", f"{count * 10_000 // refused / 100:.2f}%"]
        lines.append(_line(cells))
    before = RESULTS.read_text().partition(ERRORS)[0]
    RESULTS.write_text(before.rstrip("\n") + "\n" + ERRORS + "\n" + "\n".join(lines) + "\n")


def reason(cause: str, version: str) -> str:
    """The reason of a known difference from a version of Python, or an empty string."""
    known = json.loads(KNOWN_DIFFERENCES.read_text())
    fitting = (
        one for one in known if version in one["versions"] and any(fnmatch(cause, name) for name in one["causes"])
    )
    return next((one["reason"] for one in fitting), "")


def write_differences(file: Path, found: dict[str, tuple[int, str, str, bytes, dict[str, Any]]]) -> None:
    """Writes all causes with their counts and smallest examples."""
    hard = [one for one in found.items() if not one[0].startswith("soft")]
    soft = [one for one in found.items() if one[0].startswith("soft")]
    lines = [f"{len(hard)} causes, and {len(soft)} where only the errors differ\n"]
    for group in (hard, soft):
        for cause, example in sorted(group, key=lambda one: -one[1][0])[:MAX_CAUSES]:
            lines += _difference(cause, *example)
    file.write_text("\n".join(lines) + "\n")


def _difference(cause: str, count: int, where: str, why: str, source: bytes, outcome: dict[str, Any]) -> list[str]:
    shown = ("detail", "line", "path", "theirs", "ours")
    return [
        f"=== {count} x {cause}",
        f"    in {where}; reason: {why or 'none given'}",
        *(f"    {name}: {outcome[name]}" for name in shown if name in outcome),
        *(f"    | {line}" for line in repr(source)[2:-1].replace("\\n", "\\n\n").splitlines()[:25]),
    ]


def _saved() -> Path:
    return cache_folder() / "rows.jsonl"


def _rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in _saved().open()] if _saved().exists() else []


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
