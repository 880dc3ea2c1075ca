"""Expressions of tensors: what the operations of a graph are before they are computed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ._inference import infer
from ._operations import OPERATIONS
from ._proto import tensor_pb2 as pb
from ._resident import ResidentTensor
from ._tensor import Value, dtype_name
from ._types import OperandError, TensorType

#: An attribute of an operation; None leaves it unset. Element types are numpy's or names.
Attribute: TypeAlias = "bool | int | float | str | Sequence[int] | np.dtype[Any] | type[Any] | None"
Plain: TypeAlias = "bool | int | float | str | list[int]"
#: What an expression is: elements here, elements on a device of the daemon, or a result of an operation.
Content: TypeAlias = "Value | ResidentTensor | Result"

_PACKAGE = str(Path(__file__).parent) + os.sep
# How much of an expression is shown: levels of operations, and operands of each.
_SHOWN_DEPTH = 3
_SHOWN_OPERANDS = 4
_INT64 = range(-(1 << 63), 1 << 63)


@dataclass(eq=False, slots=True)
class Application:
    """An operation applied to operands. Its results share it. What it is does not change."""

    op: str
    operands: tuple[Expression, ...]
    attributes: Mapping[str, Plain]
    #: File and line of the caller.
    place: tuple[str, int]
    #: Types of the results, once they are asked for; empty if they are not known here.
    types: Sequence[TensorType] | None = field(default=None, repr=False)
    #: Why there are none: operands that do not fit, of this operation or of one that it depends on.
    error: OperandError | None = field(default=None, repr=False)


class Result(NamedTuple):
    """A result of an operation."""

    of: Application
    nth: int


class Expression:
    """An input of a graph, or a result of an operation on other expressions."""

    __slots__ = ("content",)

    def __init__(self, content: Content) -> None:
        #: A result replaces the operation, and so releases the operands. Threads read this once and see either.
        self.content = content

    def __repr__(self) -> str:
        return describe(self)


def apply(op: str, operands: Iterable[Expression], attributes: Mapping[str, Attribute]) -> list[Expression]:
    """Apply an operation to operands, and return its results."""
    if not isinstance(op, str):
        raise TypeError(f"op: expected a str such as 'add', got {type(op).__name__}")
    plain = {name: attribute(name, value) for name, value in attributes.items() if value is not None}
    application = Application(op, tuple(operands), plain, _caller())
    operation = OPERATIONS.get(op)
    count = 1 if operation is None else operation.result_count(plain)
    return [Expression(Result(application, nth)) for nth in range(count)]


def type_of(expression: Expression) -> TensorType | None:
    """Return the type of an expression; None if only the daemon knows it."""
    content = expression.content
    if not isinstance(content, Result):
        return content.type
    # Deep graphs are walked without recursion; an application is inferred once.
    stack = [content.of]
    while stack:
        application = stack[-1]
        if application.types is None:
            contents = [operand.content for operand in application.operands]
            unknown = [one.of for one in contents if isinstance(one, Result) and one.of.types is None]
            if unknown:
                stack += unknown
                continue
            application.types = _inferred(application, contents)
        stack.pop()
    return content.of.types[content.nth] if content.of.types else None


def known_type(expression: Expression) -> TensorType | None:
    """Return the type of an expression, as `type_of`.

    Raises:
        OperandError: Operands of an operation do not fit, so that the daemon will refuse it.
    """
    found, content = type_of(expression), expression.content
    if isinstance(content, Result) and (error := content.of.error) is not None:
        # One that is raised twice would have both tracebacks.
        raise type(error)(*error.args)
    return found


def _inferred(application: Application, contents: Iterable[Content]) -> Sequence[TensorType]:
    operands = []
    for content in contents:
        if not isinstance(content, Result):
            operands.append(content.type)
        elif content.of.types:
            operands.append(content.of.types[content.nth])
        else:
            application.error = content.of.error
            return ()
    try:
        return infer(application.op, operands, application.attributes) or ()
    except OperandError as error:
        application.error = type(error)(f"{application.op}: {error}")
        return ()


def attribute(name: str, value: Any) -> Plain:
    """Return an attribute as a plain value of the kind that its Python type means."""
    if name == "dtype" or isinstance(value, (np.dtype, type)):
        return dtype_name(value, name)
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return _int64(name, value)
    if isinstance(value, (float, np.floating)):
        return float(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (list, tuple, range)) and all(_is_int(one) for one in value):
        return [_int64(name, one) for one in value]
    raise TypeError(
        f"{name}: expected a bool, an int, a float, a str, a list of int or an element type, got {_kind(value)}"
    )


def encode_attribute(value: Plain) -> pb.TensorAttribute:
    """Return the message of a plain value."""
    if isinstance(value, bool):
        return pb.TensorAttribute(boolean=value)
    if isinstance(value, int):
        return pb.TensorAttribute(integer=value)
    if isinstance(value, float):
        return pb.TensorAttribute(number=value)
    if isinstance(value, str):
        return pb.TensorAttribute(text=value)
    return pb.TensorAttribute(integers=pb.TensorIntegers(values=value))


def _is_int(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _int64(name: str, value: Any) -> int:
    if int(value) not in _INT64:
        raise ValueError(f"{name}: expected an int from -2**63 to 2**63 - 1, got {value}")
    return int(value)


def _kind(value: Any) -> str:
    kind = type(value).__name__
    if isinstance(value, (list, tuple)):
        kinds = dict.fromkeys(type(one).__name__ for one in value)
        return f"a {kind} of {', '.join(kinds)}"
    return kind


def _caller() -> tuple[str, int]:
    """Return the file and line outside of this package that called it."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def describe(expression: Expression, depth: int = _SHOWN_DEPTH) -> str:
    """Return an expression as text, such as `add(matmul(f32[2, 3], f32[3]), other=1)`. Deep operands are left out."""
    content = expression.content
    if not isinstance(content, Result):
        return repr(content)
    application, nth = content
    suffix = f"[{nth}]" if nth else ""
    if depth == 0:
        return f"{application.op}(...){suffix}"
    shown = [describe(operand, depth - 1) for operand in application.operands[:_SHOWN_OPERANDS]]
    if len(application.operands) > _SHOWN_OPERANDS:
        shown.append("...")
    shown += [f"{name}={value!r}" for name, value in application.attributes.items()]
    return f"{application.op}({', '.join(shown)}){suffix}"
