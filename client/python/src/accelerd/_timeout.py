"""Timeouts in seconds, and the deadlines of the monotonic clock that they mean."""

from __future__ import annotations

import math
from numbers import Real
from time import monotonic
from typing import Any

#: A timeout above a year means no deadline. Clocks and timers of the system overflow at some larger one.
MAX_TIMEOUT = 366 * 86_400.0


def seconds(timeout: Any) -> float:
    """Return a timeout; infinity means no deadline.

    Raises:
        TypeError: It is no number.
        ValueError: It is NaN or negative.
    """
    if not isinstance(timeout, Real) or isinstance(timeout, bool):
        raise TypeError(f"timeout: expected a number of seconds or None, got {type(timeout).__name__}")
    try:
        found = float(timeout)
    except OverflowError:  # An int beyond the range of floats.
        found = math.inf if timeout > -timeout else -math.inf  # type: ignore[operator]
    if not found >= 0:
        raise ValueError(f"timeout: expected a number of seconds of at least 0, got {found}")
    return math.inf if found > MAX_TIMEOUT else found


def now() -> float:
    """Return the time of the monotonic clock."""
    return monotonic()


def left(deadline: float) -> float:
    """Return the seconds until a deadline, at least 0."""
    return max(deadline - now(), 0.0)
