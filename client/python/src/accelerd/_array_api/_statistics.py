"""Reductions and scans."""

from __future__ import annotations

import builtins
from typing import Any

from .._expression import Attribute
from .._lazy import Array, Axis, T
from .._tensor import Dtype
from .._types import is_unsigned
from ._manipulation import Manipulation
from ._namespace import reduced, typed


class Statistics(Manipulation[T]):
    """Reductions over some dimensions, by default all, and scans along one."""

    __slots__ = ()

    def sum(
        self,
        x: Array,
        /,
        axis: Axis = None,
        *,
        dtype: Dtype | None = None,
        keepdims: builtins.bool = False,
        out: None = None,
    ) -> T:
        """Add up elements. Sums of integers are int64, of unsigned ones uint64, unless `dtype` says otherwise."""
        return reduced(self, "sum", x, axis, keepdims, out, **self._sum_type(x, dtype))

    def prod(
        self,
        x: Array,
        /,
        axis: Axis = None,
        *,
        dtype: Dtype | None = None,
        keepdims: builtins.bool = False,
        out: None = None,
    ) -> T:
        """Multiply elements. Element types are as in `sum`."""
        return reduced(self, "prod", x, axis, keepdims, out, **self._sum_type(x, dtype))

    def var(
        self,
        x: Array,
        /,
        axis: Axis = None,
        *,
        correction: float = 0.0,
        ddof: float | None = None,
        keepdims: builtins.bool = False,
        out: None = None,
        **attributes: Attribute,
    ) -> T:
        """Return the variance; `correction` is subtracted from the number of elements. numpy calls it `ddof`."""
        return reduced(self, "var", x, axis, keepdims, out, correction=_correction(correction, ddof), **attributes)

    def std(
        self,
        x: Array,
        /,
        axis: Axis = None,
        *,
        correction: float = 0.0,
        ddof: float | None = None,
        keepdims: builtins.bool = False,
        out: None = None,
        **attributes: Attribute,
    ) -> T:
        """Return the root of the variance."""
        return reduced(self, "std", x, axis, keepdims, out, correction=_correction(correction, ddof), **attributes)

    def cumulative_sum(
        self,
        x: Array,
        /,
        *,
        axis: int | None = None,
        dtype: Dtype | None = None,
        include_initial: builtins.bool = False,
    ) -> T:
        """Return the sums of the elements up to each one along a dimension, which a vector need not name.

        With `include_initial` the sum of no element comes first. Element types are as in `sum`.
        """
        return self._scan("cumsum", 0, x, axis, dtype, include_initial)

    def cumulative_prod(
        self,
        x: Array,
        /,
        *,
        axis: int | None = None,
        dtype: Dtype | None = None,
        include_initial: builtins.bool = False,
    ) -> T:
        """Return the products of the elements up to each one. Arguments are those of `cumulative_sum`."""
        return self._scan("cumprod", 1, x, axis, dtype, include_initial)

    def _scan(
        self, op: str, initial: int, x: Array, axis: int | None, dtype: Dtype | None, include_initial: builtins.bool
    ) -> T:
        dim = self._only_axis(x) if axis is None else axis
        scanned = self._client.op(op, x, dim=dim, **self._sum_type(x, dtype))
        if not include_initial:
            return scanned
        found = self._type(scanned)
        shape = list(found.shape)
        shape[dim] = 1
        return self.concat([self.full(shape, initial, dtype=found.dtype), scanned], axis=dim)

    def _sum_type(self, x: Array, dtype: Dtype | None) -> dict[str, Any]:
        """Return the attribute `dtype` of sums and products, which keep unsigned integers unsigned."""
        known = self._known(x)
        widens = dtype is None and known is not None and is_unsigned(known.dtype)
        return {"dtype": "u64"} if widens else typed(dtype)

    def _only_axis(self, x: Array) -> int:
        """Return the dimension of a vector."""
        rank = len(self._shape(x))
        if rank > 1:
            raise ValueError(f"axis: expected a dimension of a tensor that has {rank}, got None")
        return 0

    def cummax(self, x: Array, /, *, axis: int) -> tuple[T, T]:
        """Return the greatest of the elements up to each one along a dimension, and the index of its last occurrence.

        From the first NaN on the values are NaN. The standard does not have this function.
        """
        values, indices = self._client.op("cummax", x, dim=axis)
        return values, indices

    def cummin(self, x: Array, /, *, axis: int) -> tuple[T, T]:
        """Return the least of the elements up to each one along a dimension. As `cummax`."""
        values, indices = self._client.op("cummin", x, dim=axis)
        return values, indices

    def diff(
        self,
        x: Array,
        /,
        *,
        axis: int = -1,
        n: int = 1,
        prepend: Array | None = None,
        append: Array | None = None,
    ) -> T:
        """Return the differences of neighbours along a dimension, `n` times over."""
        around = [one for one in (prepend, x, append) if one is not None]
        tensor = self._client.tensor(x) if len(around) == 1 else self.concat(around, axis=axis)
        op = "ne" if self._type(tensor).dtype == "bool" else "sub"
        for _ in range(n):
            later = self._client.op("slice", tensor, dim=axis, start=1)
            tensor = self._client.op(op, later, self._client.op("slice", tensor, dim=axis, end=-1))
        return tensor

    def count_nonzero(self, x: Array, /, *, axis: Axis = None, keepdims: builtins.bool = False) -> T:
        """Count the elements other than 0."""
        return self.sum(self.not_equal(x, 0), axis=axis, keepdims=keepdims)

    def softmax(self, x: Array, /, *, axis: int = -1) -> T:
        """Exponentials that sum to 1 along a dimension."""
        return self._client.op("softmax", x, dim=axis)

    def log_softmax(self, x: Array, /, *, axis: int = -1) -> T:
        """Logarithms of `softmax`."""
        return self._client.op("log_softmax", x, dim=axis)


def _correction(correction: float, ddof: float | None) -> float:
    if ddof is not None and correction:
        raise ValueError(f"ddof: expected None with a correction, got {ddof}")
    return correction if ddof is None else ddof
