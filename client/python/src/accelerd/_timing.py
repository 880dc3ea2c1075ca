"""Timings of calls, from `server-timing` metadata."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from google.protobuf.duration_pb2 import Duration

_STAGE = re.compile(r"\s*([^\s;,]+)[^,]*?;\s*dur=([0-9.eE+]+)")


@dataclass(frozen=True)
class Timing:
    """Timing of one call."""

    #: The method, such as `Embed`.
    method: str
    #: Latency at the caller in seconds, retries included.
    seconds: float
    #: Seconds of each stage in the daemon: `queue`, `execute`, `total`.
    stages: Mapping[str, float]


_recorded: ContextVar[list[Timing] | None] = ContextVar("accelerd_timings", default=None)


@contextmanager
def record_timings() -> Iterator[list[Timing]]:
    """Record the timings of all calls in the context.

    Applies to the current thread or asyncio task. A stream has one timing, that of its first response.

    Yields:
        A list that grows as calls complete.
    """
    timings: list[Timing] = []
    token = _recorded.set(timings)
    try:
        yield timings
    finally:
        _recorded.reset(token)


def metadata() -> tuple[tuple[str, str], ...]:
    """Return the metadata that requests timings; empty if they are not recorded."""
    return () if _recorded.get() is None else (("accelerd-timing", "1"),)


def record(method: str, seconds: float, initial_metadata: Any) -> None:
    """Record the timing of a completed call."""
    timings = _recorded.get()
    if timings is not None:
        timings.append(Timing(method, seconds, parse(initial_metadata)))


def parse(initial_metadata: Any) -> dict[str, float]:
    """Parse entries `name;dur=milliseconds` of W3C Server Timing into seconds by stage."""
    stages: dict[str, float] = {}
    for key, value in initial_metadata or ():
        if key == "server-timing":
            stages.update((name, float(duration) / 1e3) for name, duration in _STAGE.findall(value))
    return stages


def seconds(time: Duration) -> float:
    """Return a duration in seconds."""
    return time.seconds + time.nanos / 1e9
