"""Functions that sort, search and take elements by index."""

from __future__ import annotations

import builtins
from typing import Literal

import numpy as np

from .._dlpack import host_array
from .._lazy import Array, T
from .._types import axis_of
from ._manipulation import host_values
from ._statistics import Statistics


class Searching(Statistics[T]):
    """Functions about order and indices. NaN is greater than any number; equal elements keep their order."""

    __slots__ = ()

    def sort(
        self, x: Array, /, *, axis: int = -1, descending: builtins.bool = False, stable: builtins.bool = True
    ) -> T:
        """Return the elements in order along a dimension; NaN is greater than any number."""
        return self._client.op("sort", x, dim=axis, descending=descending, stable=stable)[0]

    def argsort(
        self, x: Array, /, *, axis: int = -1, descending: builtins.bool = False, stable: builtins.bool = True
    ) -> T:
        """Return the indices of the elements in order along a dimension. Equal elements keep their order."""
        return self._client.op("argsort", x, dim=axis, descending=descending, stable=stable)

    def searchsorted(
        self,
        x1: Array,
        x2: Array,
        /,
        *,
        side: Literal["left", "right"] = "left",
        sorter: Array | None = None,
    ) -> T:
        """Return for each element of `x2` the index in the ascending vector `x1` before which it keeps the order.

        Of equal elements it is before the first one, or after the last one if `side` is "right". Each element is
        compared with all of `x1`.
        """
        if side not in ("left", "right"):
            raise ValueError(f"side: expected 'left' or 'right', got {side!r}")
        ordered = self._client.tensor(x1) if sorter is None else self.take(x1, sorter)
        values = self.expand_dims(x2, axis=-1)
        # A NaN is after all numbers, and before or after all other NaN.
        is_before = self.less(ordered, values) if side == "left" else self.less_equal(ordered, values)
        before_nan = self.not_equal(values, values)
        if side == "left":
            before_nan = self.logical_and(before_nan, self.equal(ordered, ordered))
        return self.sum(self.logical_or(is_before, before_nan), axis=-1)

    def nonzero(self, x: Array, /) -> tuple[T, ...]:
        """Return the indices of the elements other than 0, a vector for each dimension, in row-major order.

        Computes `x`: the shape of the result depends on it.
        """
        given = host_values(x, "x")
        if not given.ndim:
            raise ValueError("x: expected at least 1 dimension, got a scalar")
        return tuple(self._client.tensor(one, dtype=self.int64) for one in np.nonzero(given))

    def take(self, x: Array, indices: Array, /, *, axis: int = 0) -> T:
        """Choose elements along a dimension by a vector of indices.

        Negative indices count from the end. Others out of range fail the execution.
        """
        shape = self._shape(x)
        dim = axis_of(axis, len(shape))
        return self._client.op("index_select", x, self._indices(indices, shape[dim]), dim=dim)

    def take_along_axis(self, x: Array, indices: Array, /, *, axis: int = -1) -> T:
        """Choose an element along a dimension for each index. Other dimensions broadcast."""
        if self._type(indices, "indices").dtype not in ("i32", "i64"):
            indices = self.astype(indices, self.int64)
        return self._client.op("take_along_dim", x, indices, dim=axis)

    def _indices(self, indices: Array, extent: int) -> Array:
        """Return indices of which none counts from the end, of a type that operations take."""
        if isinstance(indices, (np.ndarray, np.generic)):
            given = host_array(indices, "indices")
            return np.where(given < 0, given + extent, given).astype(np.int64)
        dtype = self._type(indices, "indices").dtype
        wide = indices if dtype in ("i32", "i64") else self.astype(indices, self.int64)
        return wide if dtype.startswith("u") else self.where(self.less(wide, 0), self.add(wide, extent), wide)
