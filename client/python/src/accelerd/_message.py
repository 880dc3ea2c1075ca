"""Request messages, with errors that name the argument, the expected type and the actual value."""

from __future__ import annotations

import operator
from collections.abc import Container, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

Built = TypeVar("Built", bound=Message)

_EXPECTED = {
    FieldDescriptor.TYPE_STRING: "a str",
    FieldDescriptor.TYPE_BOOL: "a bool",
    FieldDescriptor.TYPE_FLOAT: "a number",
    FieldDescriptor.TYPE_DOUBLE: "a number",
    FieldDescriptor.TYPE_INT64: "an int from -2**63 to 2**63 - 1",
    FieldDescriptor.TYPE_SINT64: "an int from -2**63 to 2**63 - 1",
    FieldDescriptor.TYPE_UINT32: "an int from 0 to 2**32 - 1",
    FieldDescriptor.TYPE_UINT64: "an int from 0 to 2**64 - 1",
}


def message(cls: type[Built], arguments: dict[str, str] | None = None, /, **fields: Any) -> Built:
    """Build a message. `arguments` maps fields to the names of their arguments, where they differ."""
    try:
        return cls(**fields)
    except (TypeError, ValueError):
        for name, value in fields.items():
            _check(cls, (arguments or {}).get(name, name), name, value)
        raise


def choice(argument: str, value: Any, choices: Mapping[Any, Any]) -> Any:
    """Return the number of a choice."""
    if not is_among(value, choices):
        raise ValueError(f"{argument}: expected one of {', '.join(map(repr, choices))}, got {value!r}")
    return choices[value]


def check_encodable(what: str, text: str) -> None:
    """Refuse a text with a lone surrogate, which has no UTF-8 encoding."""
    try:
        text.encode()
    except UnicodeEncodeError as wrong:
        raise ValueError(f"{what}: lone surrogate at index {wrong.start}") from None


def is_among(value: Any, choices: Container[Any]) -> bool:
    """Return whether a value is one of the choices. One that cannot be hashed, such as a list, is none."""
    try:
        return value in choices
    except TypeError:
        return False


def duration(argument: str, seconds: Any, limit: float = 1e10) -> Duration:
    """Return a positive number of seconds as a message."""
    if not isinstance(seconds, (int, float, np.number)):
        raise TypeError(f"{argument}: expected a number of seconds, got {type(seconds).__name__}")
    if not 0 < seconds < limit:
        raise ValueError(f"{argument}: expected a positive number of seconds below {limit:g}, got {seconds}")
    found = Duration()
    found.FromNanoseconds(int(seconds * 1e9))
    return found


def extents(argument: str, given: Any) -> list[int]:
    """Return an extent, or several, as a list."""
    several = given if isinstance(given, Sequence) and not isinstance(given, (str, bytes)) else [given]
    try:
        return [operator.index(one) for one in several]
    except TypeError:
        wrong = next(type(one).__name__ for one in several if not hasattr(one, "__index__"))
        got = wrong if several is not given else f"a {type(given).__name__} with {wrong}"
        raise TypeError(f"{argument}: expected an int or a sequence of int, got {got}") from None


def by_name(argument: str, given: Any, expected: str) -> Mapping[str, Any]:
    """Return a mapping whose keys are names."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{argument}: expected a dict of {expected}, got {type(given).__name__}")
    for name in given:
        if not isinstance(name, str):
            raise TypeError(f"{argument}: expected names of type str, got {type(name).__name__} {name!r}")
        check_encodable(f"{argument}[{name!r}]: name", name)
    return given


def _check(cls: type[Message], argument: str, name: str, value: Any) -> None:
    expected = _EXPECTED.get(cls.DESCRIPTOR.fields_by_name[name].type)
    if expected is None:
        return
    try:
        cls(**{name: value})
    except TypeError:
        raise TypeError(f"{argument}: expected {expected}, got {type(value).__name__}") from None
    except UnicodeEncodeError as wrong:
        raise ValueError(f"{argument}: lone surrogate at index {wrong.start}") from None
    except ValueError:
        raise ValueError(f"{argument}: expected {expected}, got {value!r}") from None
