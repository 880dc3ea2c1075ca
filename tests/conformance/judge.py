"""Runs a corpus through the parser and an oracle in batches, and counts outcomes."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corpora import Case
from fuzz import tokens_of
from tools import Oracle, Parser, cache_folder

BATCH_SOURCES = 20_000
BATCH_BYTES = 8 << 20
# The initial number of parts for delta debugging.
MAX_PARTS = 64
# The batch factor for node, which takes seconds to start.
LARGE_BATCH = 3


@dataclass
class Tally:
    """The outcomes of a corpus."""

    counts: Counter[str] = field(default_factory=Counter)
    # Count and smallest sources of each cause.
    causes: dict[str, Cause] = field(default_factory=dict)

    def add(self, case: Case, outcome: dict[str, Any]) -> None:
        """Counts one case."""
        self.counts["cases"] += 1
        self.counts[outcome["outcome"]] += 1
        for one in ("same_line", "same_class", "same_message", "same_all", "same_end"):
            self.counts[one] += bool(outcome.get(one))
        cause = _error_difference(outcome) if outcome["outcome"] == "refused" else outcome.get("cause")
        if cause:
            self.causes.setdefault(cause, Cause()).add(case, outcome)


def _error_difference(outcome: dict[str, Any]) -> str | None:
    """The difference between two errors."""
    for one in ("line", "class", "message", "column"):
        if not outcome[f"same_{one}"]:
            theirs, ours = (
                re.sub(r"'[^']*'|\d+", "_", outcome[side].split(":", 3)[3])[:80] for side in ("theirs", "ours")
            )
            return f"soft: {one}: {theirs} |{ours}"
    return None


@dataclass
class Cause:
    """Similar differences."""

    count: int = 0
    smallest: list[tuple[Case, dict[str, Any]]] = field(default_factory=list)

    def add(self, case: Case, outcome: dict[str, Any]) -> None:
        """Counts a case, and keeps the three smallest."""
        self.count += 1
        self.smallest.append((case, outcome))
        self.smallest.sort(key=lambda one: len(one[0][1]))
        del self.smallest[3:]


def batches(cases: Iterable[Case], size: int = 1) -> Iterator[list[Case]]:
    """Splits cases into batches of bounded size."""
    batch, length = [], 0
    for case in cases:
        batch.append(case)
        length += len(case[1])
        if len(batch) >= BATCH_SOURCES * size or length >= BATCH_BYTES * size:
            yield batch
            batch, length = [], 0
    if batch:
        yield batch


def judge_all(parser: Parser, oracle: Oracle, sources: Sequence[bytes]) -> list[dict[str, Any]]:
    """The outcome of each source."""
    with tempfile.TemporaryDirectory(dir=cache_folder()) as scratch:
        from frames import write_blocks

        folder = Path(scratch)
        (folder / "sources").write_bytes(write_blocks(sources))
        answers = parser.answer(oracle.version, sources, folder / "answers")
        outcomes = oracle.judge(folder / "sources", answers, folder / "outcomes")
    if len(outcomes) != len(sources):
        raise RuntimeError(f"expected {len(sources)} outcomes, got {len(outcomes)}")
    return outcomes


def run(parser: Parser, oracle: Oracle, cases: Iterable[Case]) -> Tally:
    """Judges all cases."""
    tally = Tally()
    for batch in batches(cases, LARGE_BATCH if oracle.command[0] == "node" else 1):
        for case, outcome in zip(batch, judge_all(parser, oracle, [source for _, source in batch]), strict=True):
            tally.add(case, outcome)
    return tally


def reduced(parser: Parser, oracle: Oracle, source: bytes, cause: str) -> bytes:
    """Delta debugging: removes lines, then tokens, while the cause remains."""
    for split in (lambda text: text.splitlines(keepends=True), tokens_of):
        parts, finest = split(source), MAX_PARTS
        while len(parts) > 1:
            shorter = _shorter(parts, finest)
            outcomes = judge_all(parser, oracle, [b"".join(one) for one in shorter])
            same = [one for one, outcome in zip(shorter, outcomes, strict=True) if outcome.get("cause") == cause]
            if same:
                parts = min(same, key=len)
            elif finest < len(parts):
                finest *= 4
            else:
                break
        source = b"".join(parts)
    return source


def _shorter(parts: list[bytes], finest: int) -> list[list[bytes]]:
    """The parts without one half, one quarter and so on, in one batch, since an oracle starts slowly."""
    widths = {max(len(parts) >> level, 1) for level in range(1, finest.bit_length())}
    return [parts[:at] + parts[at + width :] for width in widths for at in range(0, len(parts), width)]
