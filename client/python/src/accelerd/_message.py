"""Request messages, with errors that name the argument, the expected type and the actual value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
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
    if value not in choices:
        raise ValueError(f"{argument}: expected one of {', '.join(map(repr, choices))}, got {value!r}")
    return choices[value]


def _check(cls: type[Message], argument: str, name: str, value: Any) -> None:
    expected = _EXPECTED.get(cls.DESCRIPTOR.fields_by_name[name].type)
    if expected is None:
        return
    try:
        cls(**{name: value})
    except TypeError:
        raise TypeError(f"{argument}: expected {expected}, got {type(value).__name__}") from None
    except ValueError:
        raise ValueError(f"{argument}: expected {expected}, got {value!r}") from None
