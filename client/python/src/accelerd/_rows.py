"""The rows that a kernel of the dialect Python maps over: its arguments are broadcast, as by numpy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._kernel import KernelParam
from ._kernel_arguments import typed_value
from ._resident import ResidentTensor
from ._tensor import Value


class Rows:
    """Arguments as columns of rows.

    A parameter that is a number has an array of any shape, or a Python number; one that is a list has an array whose
    last dimension is the list. A row is a place in what the other dimensions are broadcast to.
    """

    def __init__(self, params: Sequence[KernelParam], bound: Mapping[str, Any]) -> None:
        columns: dict[str, Value | ResidentTensor] = {}
        self._columns = columns
        #: Dimensions of a row's value: 1 for a list, 0 for a number.
        self._dims = {param.name: param.dims - 1 for param in params}
        for param in params:
            if param.name in bound:
                columns[param.name] = _column(param, bound[param.name])
        #: What the dimensions of rows are broadcast to.
        self.shape = self._broadcast(columns)

    @property
    def size_bytes(self) -> int:
        """Bytes of the elements of `arguments()`, which broadcasting can make many times those that were given."""
        values = [(name, one) for name, one in self._columns.items() if isinstance(one, Value)]
        return sum(math.prod(self._flat_shape(name, one)) * one.array.itemsize for name, one in values)

    def arguments(self) -> dict[str, Value | ResidentTensor]:
        """Return the columns as they are sent."""
        return {name: self._flat(name, column) for name, column in self._columns.items()}

    def result(self, array: NDArray[Any]) -> Any:
        """Return a result in the shape of the rows; a Python number if the arguments have no dimensions of rows."""
        # A result has as many rows as the grid, which need not be those of the arguments.
        if array.size != math.prod(self.shape):
            return array
        return array.reshape(self.shape) if self.shape else array.item()

    def _leading(self, name: str, column: Value | ResidentTensor) -> tuple[int, ...]:
        shape = column.array.shape if isinstance(column, Value) else column.shape
        return shape[: len(shape) - self._dims[name]]

    def _broadcast(self, columns: Mapping[str, Value | ResidentTensor]) -> tuple[int, ...]:
        shapes = {name: self._leading(name, column) for name, column in columns.items()}
        try:
            shape = np.broadcast_shapes(*shapes.values())
        except ValueError:
            got = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
            raise ValueError(f"expected arguments of shapes that can be broadcast, got {got}") from None
        for name, column in columns.items():
            if isinstance(column, ResidentTensor) and (shapes[name] != shape or len(shape) != 1):
                raise ValueError(
                    f"{name}: expected a resident tensor with one dimension of rows, as all arguments, got {column!r}"
                )
        return shape

    def _flat(self, name: str, column: Value | ResidentTensor) -> Value | ResidentTensor:
        if isinstance(column, ResidentTensor) or self._leading(name, column) == ():
            return column
        own = column.array.shape[column.array.ndim - self._dims[name] :]
        rows = np.broadcast_to(column.array, self.shape + own).reshape(self._flat_shape(name, column))
        return Value(column.number, np.ascontiguousarray(rows))

    def _flat_shape(self, name: str, column: Value) -> tuple[int, ...]:
        shape = column.array.shape
        # The daemon repeats a single row.
        if self._leading(name, column) == ():
            return shape
        return (math.prod(self.shape), *shape[len(shape) - self._dims[name] :])


def _column(param: KernelParam, given: Any) -> Value | ResidentTensor:
    if isinstance(given, ResidentTensor):
        return given
    value = typed_value(param.name, given, param.components[0].dtype)
    if value.array.ndim < param.dims - 1:
        raise ValueError(f"{param.name}: expected a list of {param.components[0].dtype}, got a number")
    return value
