"""Functions that change shapes, join tensors and take them apart."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._dlpack import host_array
from .._expression import Result
from .._lazy import Array, LazyTensor, T
from .._tensor import Value
from .._types import axis_of
from ._creation import Creation
from ._namespace import listed


class Manipulation(Creation[T]):
    """Functions that move elements and compute none."""

    __slots__ = ()

    def reshape(self, x: Array, /, shape: int | Sequence[int], *, copy: builtins.bool | None = None) -> T:
        """Return the same elements in another shape. An extent of -1 is what is left."""
        return self._client.op("reshape", x, shape=listed(shape))

    def permute_dims(self, x: Array, /, axes: Sequence[int]) -> T:
        """Reorder the dimensions."""
        return self._client.op("permute", x, dims=listed(axes))

    def moveaxis(self, x: Array, source: int | Sequence[int], destination: int | Sequence[int], /) -> T:
        """Move dimensions to other positions; the others keep their order."""
        rank = len(self._shape(x))
        origins = [axis_of(one, rank, "source") for one in listed(source)]
        targets = [axis_of(one, rank, "destination") for one in listed(destination)]
        if not len(set(origins)) == len(set(targets)) == len(origins) == len(targets):
            raise ValueError(
                f"destination: expected as many positions as source {source}, each once, got {destination}"
            )
        axes = [axis for axis in range(rank) if axis not in origins]
        for target, origin in sorted(zip(targets, origins, strict=True)):
            axes.insert(target, origin)
        return self.permute_dims(x, axes)

    def swapaxes(self, x: Array, axis1: int, axis2: int, /) -> T:
        """Swap two dimensions."""
        return self._client.op("transpose", x, dim0=axis1, dim1=axis2)

    def matrix_transpose(self, x: Array, /) -> T:
        """Swap the last two dimensions."""
        return self.swapaxes(x, -2, -1)

    def expand_dims(self, x: Array, /, axis: int = 0) -> T:
        """Insert a dimension of extent 1."""
        known = self._known(x)
        if known is not None and not -len(known.shape) - 1 <= axis <= len(known.shape):
            rank = len(known.shape)
            raise IndexError(f"axis: expected {-rank - 1} to {rank}, got {axis}")
        return self._client.op("unsqueeze", x, dim=axis)

    def squeeze(self, x: Array, /, axis: int | Sequence[int]) -> T:
        """Drop dimensions of extent 1."""
        known = self._known(x)
        for one in listed(axis):
            extent = 1 if known is None else known.shape[axis_of(one, len(known.shape))]
            if extent != 1:
                raise ValueError(f"axis: expected dimensions of extent 1, got dimension {one} of extent {extent}")
        return self._client.op("squeeze", x, dim=axis)

    def flip(self, x: Array, /, *, axis: int | Sequence[int] | None = None) -> T:
        """Reverse the order along dimensions, by default all."""
        axes = range(len(self._shape(x))) if axis is None else listed(axis)
        return self._client.op("flip", x, dims=list(axes))

    def roll(self, x: Array, /, shift: int | Sequence[int], *, axis: int | Sequence[int] | None = None) -> T:
        """Shift elements along dimensions, cyclically; without a dimension in row-major order."""
        shape = self._shape(x)
        if axis is None:
            (steps,) = listed(shift)
            return self.reshape(self.roll(self.reshape(x, -1), steps, axis=0), shape)
        axes, shifts = listed(axis), listed(shift)
        shifts = shifts * len(axes) if len(shifts) == 1 else shifts
        tensor = self._client.tensor(x)
        for one, steps in zip(axes, shifts, strict=True):
            dim = axis_of(one, len(shape))
            start = -steps % shape[dim] if shape[dim] else 0
            if start:
                before = (slice(None),) * dim
                tail, head = tensor._view((*before, slice(start, None))), tensor._view((*before, slice(start)))
                tensor = self.concat([tail, head], axis=dim)
        return tensor

    def concat(self, arrays: Sequence[Array], /, *, axis: int | None = 0) -> T:
        """Join arrays along a dimension; flattened if it is None. Element types are promoted."""
        flat = arrays if axis is not None else [self.reshape(one, -1) for one in arrays]
        return self._client.op("concat", *flat, dim=axis or 0)

    def stack(self, arrays: Sequence[Array], /, *, axis: int = 0) -> T:
        """Join arrays of equal shape along a new dimension."""
        return self.concat([self.expand_dims(one, axis=axis) for one in arrays], axis=axis)

    def unstack(self, x: Array, /, *, axis: int = 0) -> tuple[T, ...]:
        """Return the slices of a dimension, without it."""
        shape = self._shape(x)
        extent = shape[axis_of(axis, len(shape))]
        return tuple(self._client.op("select", x, dim=axis, index=at) for at in range(extent))

    def tile(self, x: Array, repetitions: Sequence[int], /) -> T:
        """Repeat a tensor as a whole along each dimension."""
        shape = self._shape(x)
        rank = builtins.max(len(shape), len(repetitions))
        extents = (1,) * (rank - len(shape)) + shape
        counts = (1,) * (rank - len(repetitions)) + tuple(repetitions)
        tensor = self.reshape(x, extents)
        for dim, count in enumerate(counts):
            tensor = tensor if count == 1 else self._repeated(tensor, dim, count, is_whole=True)
        return tensor

    def repeat(self, x: Array, repeats: int | Array, /, *, axis: int | None = None) -> T:
        """Repeat each element along a dimension; without a dimension of the flattened tensor.

        `repeats` is a number, or an array with a number for each element. A tensor is computed now: the shape of the
        result depends on it.
        """
        if axis is None:
            return self.repeat(self.reshape(x, -1), repeats, axis=0)
        shape = self._shape(x)
        dim = axis_of(axis, len(shape))
        if isinstance(repeats, (int, np.integer)):
            return self._repeated(x, dim, int(repeats), is_whole=False)
        counts = np.broadcast_to(host_values(repeats, "repeats"), shape[dim])
        return self._client.op("index_select", x, np.repeat(np.arange(shape[dim]), counts), dim=dim)

    def _repeated(self, x: Array, dim: int, count: int, is_whole: builtins.bool) -> T:
        """Repeat a dimension as a whole, or each of its elements: as a broadcast of a new dimension."""
        shape = self._shape(x)
        outer, inner = math.prod(shape[:dim]), math.prod(shape[dim + 1 :])
        apart = [outer, 1, shape[dim], inner] if is_whole else [outer, shape[dim], 1, inner]
        spread = [count if at == (1 if is_whole else 2) else extent for at, extent in enumerate(apart)]
        repeated = self.broadcast_to(self.reshape(x, apart), spread)
        return self.reshape(repeated, [*shape[:dim], shape[dim] * count, *shape[dim + 1 :]])


def host_values(array: Array, what: str) -> np.ndarray[tuple[int, ...], np.dtype[Any]]:
    """Return the elements of an array or of a tensor, which is computed first if its client can do so here."""
    if not isinstance(array, LazyTensor):
        return host_array(array, what)
    if array._computes_on_demand:
        computed: Any = array
        return computed.numpy()  # type: ignore[no-any-return]
    content = array._expression.content
    if isinstance(content, Value):
        return content.numpy()
    state = "is not computed" if isinstance(content, Result) else "is resident"
    raise ValueError(
        f"{what}: expected an array, or a tensor whose elements are here, got one that {state}; `await` it first: "
        f"{array!r}"
    )
