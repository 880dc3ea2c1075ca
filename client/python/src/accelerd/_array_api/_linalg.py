"""Products of vectors and matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .._expression import Attribute
from .._lazy import Array, T
from .._types import axis_of
from ._sets import Sets


class Linalg(Sets[T]):
    """Products of vectors and matrices. Element types are promoted."""

    __slots__ = ()

    def matmul(self, x1: Array, x2: Array, /, **attributes: Attribute) -> T:
        """Multiply matrices; leading dimensions broadcast.

        Attributes are `transpose_a`, `transpose_b`, and `precision`: "high" permits TF32 for float32.
        """
        a, b = self._known(x1, "x1"), self._known(x2, "x2")
        if a is not None and b is not None and a.dtype != b.dtype:
            dtype = self.result_type(x1, x2)
            x1, x2 = self.astype(x1, dtype), self.astype(x2, dtype)
        product = self._client.op("matmul", x1, x2, **attributes)
        if a is not None and b is not None and self._known(product) is None:
            raise ValueError(f"x2: expected a shape that can be multiplied with {a.shape}, got {b.shape}")
        return product

    def vecdot(self, x1: Array, x2: Array, /, *, axis: int = -1) -> T:
        """Return the products of vectors along a dimension, counted from the end; the others broadcast."""
        rank = min(len(self._shape(x1)), len(self._shape(x2)))
        if not -rank <= axis < 0:
            raise ValueError(f"axis: expected {-rank} to -1, got {axis}")
        rows = self.expand_dims(self.moveaxis(x1, axis, -1), axis=-2)
        columns = self.expand_dims(self.moveaxis(x2, axis, -1), axis=-1)
        return self.matmul(rows, columns)._view((..., 0, 0))

    def tensordot(self, x1: Array, x2: Array, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> T:
        """Return the sums of products over dimensions: the last of `x1` and the first of `x2`, or pairs of both."""
        a, b = self._shape(x1, "x1"), self._shape(x2, "x2")
        if isinstance(axes, int):
            axes = (range(len(a) - axes, len(a)), range(axes))
        left, right = (
            [axis_of(one, len(a), "axes") for one in axes[0]],
            [axis_of(one, len(b), "axes") for one in axes[1]],
        )
        if [a[one] for one in left] != [b[one] for one in right]:
            raise ValueError(f"axes: expected dimensions of equal extents, got {left} of {a} and {right} of {b}")
        rows = [one for one in range(len(a)) if one not in left]
        columns = [one for one in range(len(b)) if one not in right]
        summed = math.prod(a[one] for one in left)
        matrix = self.reshape(self.permute_dims(x1, rows + left), [math.prod(a[one] for one in rows), summed])
        other = self.reshape(self.permute_dims(x2, right + columns), [summed, math.prod(b[one] for one in columns)])
        return self.reshape(self.matmul(matrix, other), [*(a[one] for one in rows), *(b[one] for one in columns)])

    def linear(self, x: Array, weight: Array, bias: Array | None = None, /, **attributes: Attribute) -> T:
        """Return `x @ weight.T + bias`, with the `activation` of that name, such as "gelu", in the same kernel."""
        operands = [x, weight] if bias is None else [x, weight, bias]
        return self._client.op("linear", *operands, **attributes)
