"""Values of the inputs of generated cases."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ._message import message
from ._proto import verify_pb2 as pb


@dataclass(frozen=True)
class Domain:
    """The values of an input: made by `floats`, `integers`, `booleans` and `lists` of `accelerd.testing`."""

    #: The smallest and the largest value; None means those of the input's type.
    min_value: float | int | None = None
    max_value: float | int | None = None
    allow_nan: bool = False
    allow_infinity: bool = False
    #: Elements of a list; None means the daemon's default for a list.
    length: int | None = None

    def message(self, name: str) -> pb.InputDomain:
        """Return the message of the domain of an input."""
        bounds = {}
        for bound, value in (("min", self.min_value), ("max", self.max_value)):
            if value is not None:
                bounds[bound if isinstance(value, float) else f"{bound}_integer"] = value
        return message(
            pb.InputDomain,
            {"min_integer": f"domains[{name!r}].min_value", "max_integer": f"domains[{name!r}].max_value"},
            allow_nan=self.allow_nan,
            allow_infinity=self.allow_infinity,
            length=self.length,
            **bounds,
        )


def floats(
    min_value: float | None = None,
    max_value: float | None = None,
    *,
    allow_nan: bool = False,
    allow_infinity: bool = False,
) -> Domain:
    """Return a domain of floating-point numbers.

    Args:
        min_value: The smallest number; None means that of the input's type.
        max_value: The largest number; None means that of the input's type.
        allow_nan: Whether NaN is a value.
        allow_infinity: Whether infinities are values.
    """
    low, high = _float("min_value", min_value), _float("max_value", max_value)
    _check_order(low, high)
    return Domain(low, high, allow_nan, allow_infinity)


def integers(min_value: int | None = None, max_value: int | None = None) -> Domain:
    """Return a domain of integers from `min_value` to `max_value`, both included; None means those of the type."""
    for name, value in (("min_value", min_value), ("max_value", max_value)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise TypeError(f"{name}: expected an int, got {type(value).__name__}")
    _check_order(min_value, max_value)
    return Domain(min_value, max_value)


def booleans() -> Domain:
    """Return a domain of both truth values."""
    return Domain()


def lists(elements: Domain, *, length: int) -> Domain:
    """Return a domain of lists of a number of elements, each from a domain."""
    if not isinstance(elements, Domain) or elements.length is not None:
        raise TypeError(f"elements: expected floats(), integers() or booleans(), got {elements!r}")
    return replace(elements, length=length)


def _float(name: str, value: float | None) -> float | None:
    if value is not None and (not isinstance(value, (int, float)) or isinstance(value, bool)):
        raise TypeError(f"{name}: expected a number, got {type(value).__name__}")
    return None if value is None else float(value)


def _check_order(low: float | None, high: float | None) -> None:
    if low is not None and high is not None and not low <= high:
        raise ValueError(f"max_value: expected at least min_value = {low!r}, got {high!r}")
