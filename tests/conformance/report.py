"""What was found: RESULTS.md for the repository, and a list of the differences with an example each."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

from judge import Tally
from tools import HERE, Oracle, cache_folder

RESULTS = HERE / "RESULTS.md"
REASONS = HERE / "reasons.json"
COLUMNS = [
    "corpus",
    "judge",
    "cases",
    "same tree",
    "both refuse",
    "same line",
    "same class",
    "same message",
    "too deep",
    "different",
]
COUNTS = ["cases", "equal", "refused", "same_line", "same_class", "same_message", "exhausted", "different"]
MOST_CAUSES = 80
OPENING = """# Conformance

Written by `just conformance`: each source is parsed by accelerd and by CPython. *Same tree*: what `to_ast()` builds
equals what `ast.parse` builds in every node, field, value and place (before 3.12: but for places inside f-strings,
which CPython counts from the string). Of the sources that *both refuse*, those are counted whose line, class or
message agrees. *Too deep* is what exhausts CPython's own stack or memory. *Different* is every other case.
"""


def save(corpus: str, oracle: Oracle, tally: Tally) -> None:
    """Keeps a row, so that a run of one corpus leaves the others' rows in place."""
    rows = {(row["corpus"], row["judge"]): row for row in _rows()}
    row = {
        "corpus": corpus,
        "judge": oracle.name,
        "date": date.today().isoformat(),
        "counts": dict(tally.counts),
        "causes": {name: cause.count for name, cause in tally.causes.items() if not name.startswith("soft")},
    }
    rows.pop((corpus, oracle.name), None)
    rows[corpus, oracle.name] = row
    _kept().write_text("\n".join(json.dumps(row) for row in rows.values()) + "\n")


def write_results() -> None:
    """Writes RESULTS.md from the kept rows."""
    lines = [OPENING, _line(COLUMNS), _line(["---", "---", *["---:"] * len(COUNTS)])]
    rows = sorted(_rows(), key=lambda row: (row["judge"], row["corpus"]))
    lines += [
        _line([row["corpus"], row["judge"], *(f"{row['counts'].get(one, 0):,}" for one in COUNTS)]) for row in rows
    ]
    causes: dict[str, int] = {}
    for row in rows:
        for cause, count in row["causes"].items():
            causes[cause] = causes.get(cause, 0) + count
    if causes:
        lines += ["\n## Differences\n", _line(["cases", "what differs", "reason"]), _line(["---:", "---", "---"])]
        known = reasons()
        ordered = sorted(causes.items(), key=lambda one: -one[1])
        lines += [
            _line([f"{count:,}", f"`{cause}`".replace("|", "\\|"), known.get(cause, "")]) for cause, count in ordered
        ]
    RESULTS.write_text("\n".join(lines) + "\n")


def reasons() -> dict[str, str]:
    """Why a difference stays, by its cause."""
    return json.loads(REASONS.read_text()) if REASONS.exists() else {}


def write_differences(file: Path, found: dict[str, tuple[int, str, bytes, dict[str, Any]]]) -> None:
    """Every cause with how often it was found and its smallest example."""
    hard = [one for one in found.items() if not one[0].startswith("soft")]
    soft = [one for one in found.items() if one[0].startswith("soft")]
    lines = [f"{len(hard)} causes, and {len(soft)} where only the refusals differ\n"]
    for group in (hard, soft):
        for cause, example in sorted(group, key=lambda one: -one[1][0])[:MOST_CAUSES]:
            lines += _difference(cause, *example)
    file.write_text("\n".join(lines) + "\n")


def _difference(cause: str, count: int, where: str, source: bytes, outcome: dict[str, Any]) -> list[str]:
    told = ("detail", "line", "path", "theirs", "ours")
    return [
        f"=== {count} x {cause}",
        f"    in {where}; reason: {reasons().get(cause, 'none given')}",
        *(f"    {name}: {outcome[name]}" for name in told if name in outcome),
        *(f"    | {line}" for line in repr(source)[2:-1].replace("\\n", "\\n\n").splitlines()[:25]),
    ]


def _kept() -> Path:
    return cache_folder() / "results.jsonl"


def _rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in _kept().open()] if _kept().exists() else []


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
