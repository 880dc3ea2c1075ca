"""What the parts of the namespace share: the client, types of operands, and functions that are one operation each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import MethodType
from typing import Any, Generic, Protocol, cast

import numpy as np

from .._expression import Attribute, Expression, known_type, type_of
from .._lazy import DEFAULT_DEVICE, Array, Axis, Operand, T, T_co
from .._tensor import Dtype, dtype_name
from .._tensor_factory import TensorFactory
from .._types import TensorType


class UnaryFunction(Protocol[T_co]):
    """A function of one operand. Keyword arguments are attributes of the operation."""

    def __call__(self, x: Array, /, **attributes: Attribute) -> T_co: ...


class BinaryFunction(Protocol[T_co]):
    """A function of two operands, of which one may be a number."""

    def __call__(self, x1: Operand, x2: Operand, /, **attributes: Attribute) -> T_co: ...


class TensorFunction(Protocol[T_co]):
    """A function of tensors. Keyword arguments are attributes of the operation."""

    def __call__(self, *operands: Array, **attributes: Attribute) -> T_co: ...


class ReductionFunction(Protocol[T_co]):
    """A reduction over some dimensions, by default all."""

    def __call__(self, x: Array, /, axis: Axis = None, *, keepdims: bool = False, **attributes: Attribute) -> T_co: ...


class Namespace(Generic[T]):
    """The client whose tensors the functions take and return."""

    __slots__ = ("__weakref__", "_client")

    def __init__(self, client: TensorFactory[T]) -> None:
        self._client = client

    def _type(self, x: Array, what: str = "x") -> TensorType:
        """Return the type of an operand, on whose shape or element type the operations depend."""
        found = self._known(x, what, known_type)
        if found is None:
            raise ValueError(f"{what}: expected a tensor of known shape, got {x!r}; keep() or numpy() computes it")
        return found

    def _known(
        self, x: Array, what: str = "x", of: Callable[[Expression], TensorType | None] = type_of
    ) -> TensorType | None:
        """Return the type of an operand; None if only the daemon knows it."""
        if isinstance(x, (np.ndarray, np.generic)):
            return TensorType(dtype_name(x.dtype, what), x.shape)
        return of(self._client._operand(what, x))

    def _shape(self, x: Array, what: str = "x") -> tuple[int, ...]:
        return self._type(x, what).shape


class Unary:
    """A function of the namespace that is an operation of one operand."""

    def __init__(self, op: str) -> None:
        self._op = op

    def __set_name__(self, owner: type, name: str) -> None:
        def function(xp: Namespace[Any], x: Array, /, **attributes: Attribute) -> Any:
            return xp._client.op(self._op, x, **attributes)

        self._function = _named(function, name)

    def __get__(self, xp: Namespace[T], owner: object) -> UnaryFunction[T]:
        return cast("UnaryFunction[T]", MethodType(self._function, xp))


class Binary:
    """A function of the namespace that is an operation of two operands."""

    def __init__(self, op: str) -> None:
        self._op = op

    def __set_name__(self, owner: type, name: str) -> None:
        def function(xp: Namespace[Any], x1: Operand, x2: Operand, /, **attributes: Attribute) -> Any:
            return xp._client._binary(self._op, x1, x2, **attributes)

        self._function = _named(function, name)

    def __get__(self, xp: Namespace[T], owner: object) -> BinaryFunction[T]:
        return cast("BinaryFunction[T]", MethodType(self._function, xp))


class Function:
    """A function of the namespace that is an operation of any operands."""

    def __init__(self, op: str) -> None:
        self._op = op

    def __get__(self, xp: Namespace[T], owner: object) -> TensorFunction[T]:
        return partial(xp._client.op, self._op)


class Reduction:
    """A function of the namespace that is a reduction."""

    def __init__(self, op: str) -> None:
        self._op = op

    def __set_name__(self, owner: type, name: str) -> None:
        def function(
            xp: Namespace[Any],
            x: Array,
            /,
            axis: Axis = None,
            *,
            keepdims: bool = False,
            out: None = None,
            **attributes: Attribute,
        ) -> Any:
            return reduced(xp, self._op, x, axis, keepdims, out, **attributes)

        self._function = _named(function, name)

    def __get__(self, xp: Namespace[T], owner: object) -> ReductionFunction[T]:
        return cast("ReductionFunction[T]", MethodType(self._function, xp))


def _named(function: Any, name: str) -> Any:
    function.__name__ = function.__qualname__ = name
    return function


def reduced(
    xp: Namespace[T], op: str, x: Array, axis: Axis, keepdims: bool, out: None = None, /, **attributes: Attribute
) -> T:
    """Return the reduction over some dimensions. numpy's functions of the same names pass `out`."""
    if out is not None:
        raise TypeError(f"out: expected None, got {type(out).__name__}; a reduction returns a tensor of its own")
    if isinstance(axis, Sequence) and not axis:
        # The operation takes no dimensions for all of them. Over none, each element is one of its own.
        x, axis, keepdims = xp._client.op("unsqueeze", x, dim=-1), -1, False
    return xp._client.op(op, x, **{"dim": axis, "keepdim": keepdims or None, **attributes})


def listed(value: int | Sequence[int]) -> list[int]:
    """Return a number or numbers as a list."""
    return list(value) if isinstance(value, Sequence) else [value]


def typed(dtype: Dtype | None) -> dict[str, Any]:
    """Return the attribute of an element type, if there is one."""
    return {} if dtype is None else {"dtype": dtype}


def present(*operands: Array | None) -> list[Array]:
    """Return the operands that are there."""
    return [one for one in operands if one is not None]


def expect_default(device: str | None) -> None:
    """Refuse devices that a lazy tensor cannot be on."""
    if device not in (None, DEFAULT_DEVICE):
        raise ValueError(
            f"device: expected None or {DEFAULT_DEVICE!r}, got {device!r}; "
            "to_device(), keep() and upload() place tensors"
        )
