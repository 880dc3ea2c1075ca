"""Where calls spend their time: what the daemon says of it in `server-timing` metadata."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

_STAGE = re.compile(r"\s*([^\s;,]+)[^,]*?;\s*dur=([0-9.eE+]+)")


@dataclass(frozen=True)
class Timing:
    """The time of one call."""

    #: The method, such as `Embed`.
    method: str
    #: Seconds until the answer was there, at the caller, retries included.
    seconds: float
    #: Seconds of each stage at the daemon: `queue`, `execute`, `total`.
    stages: Mapping[str, float]


_recorded: ContextVar[list[Timing] | None] = ContextVar("accelerd_timings", default=None)


@contextmanager
def record_timings() -> Iterator[list[Timing]]:
    """Asks the daemon for the timings of all calls made inside, and collects them in a list as they finish.

    Holds for the running thread or asyncio task alone. A stream counts once, by the first of its answers.
    """
    timings: list[Timing] = []
    token = _recorded.set(timings)
    try:
        yield timings
    finally:
        _recorded.reset(token)


def metadata() -> tuple[tuple[str, str], ...] | None:
    """Metadata that asks for timings, where they are recorded."""
    return None if _recorded.get() is None else (("accelerd-timing", "1"),)


def record(method: str, seconds: float, initial_metadata: Any) -> None:
    """Keeps the timing of a call that has finished."""
    timings = _recorded.get()
    if timings is not None:
        timings.append(Timing(method, seconds, parse(initial_metadata)))


def parse(initial_metadata: Any) -> dict[str, float]:
    """Seconds by stage, of entries `name;dur=milliseconds` as in W3C Server Timing."""
    stages: dict[str, float] = {}
    for key, value in initial_metadata or ():
        if key == "server-timing":
            stages.update((name, float(duration) / 1e3) for name, duration in _STAGE.findall(value))
    return stages
