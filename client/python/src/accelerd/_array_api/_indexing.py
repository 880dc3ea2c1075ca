"""Indexing by arrays, and assignment to elements: made of views, operations by index and `where`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._errors import AccelerdError
from .._indexing import checked, expanded, has_arrays, is_array, is_mask
from .._lazy import Array, LazyTensor, T
from .._types import broadcast, broadcasts
from ._linalg import Linalg
from ._manipulation import host_values


class Indexing(Linalg[T]):
    """What `tensor[index]` and `tensor[index] = value` do beyond views."""

    __slots__ = ()

    def _taken(self, x: T, index: Any) -> T:
        """Return the elements of an index that has masks, or arrays of integers; negative ones count from the end.

        As in numpy, arrays and integers broadcast. The dimensions of the broadcast indices take the place of those that
        they index if these are neighbours, or else come first.
        """
        if is_mask(index) and not index.ndim:
            # Whether there is one of the whole tensor, in a new dimension.
            return x._view(None)._view(slice(int(_mask_values(index, 0))))
        items = expanded(self._without_masks(x.shape, index), len(x.shape))
        is_chosen = [item is not None and not isinstance(item, slice) for item in items]
        viewed = x._view(tuple(slice(None) if chosen else item for item, chosen in zip(items, is_chosen, strict=True)))
        dims = [dim for dim, chosen in enumerate(is_chosen) if chosen]
        rest = [dim for dim, chosen in enumerate(is_chosen) if not chosen]
        shape = viewed.shape
        index_shape, flat = self._flat_indices([items[dim] for dim in dims], [shape[dim] for dim in dims])
        others = [shape[dim] for dim in rest]
        rows = viewed if not dims[0] and len(dims) == 1 else self.permute_dims(viewed, dims + rest)
        rows = rows if len(dims) == 1 else self.reshape(rows, [math.prod(shape[dim] for dim in dims), *others])
        found = self._client.op("index_select", rows, flat, dim=0)
        found = found if len(index_shape) == 1 else self.reshape(found, [*index_shape, *others])
        first = dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0
        if not first:
            return found
        moved = len(index_shape)
        before, after = range(moved, moved + first), range(moved + first, moved + len(rest))
        return self.permute_dims(found, [*before, *range(moved), *after])

    def _without_masks(self, shape: tuple[int, ...], index: Any) -> list[Any]:
        """Return the items of an index with the indices of the true elements in place of each mask."""
        items = list[Any]()
        for at, item in enumerate(_items(shape, index)):
            items += np.nonzero(_mask_values(item, at)) if is_mask(item) else [item]
        return items

    def _flat_indices(self, items: Sequence[Any], extents: Sequence[int]) -> tuple[tuple[int, ...], Array]:
        """Return the shape of the broadcast indices, and as a vector their positions in row-major order."""
        if not any(isinstance(item, LazyTensor) for item in items):
            given = [_within(np.asarray(item), extent) for item, extent in zip(items, extents, strict=True)]
            positions = np.asarray(
                np.ravel_multi_index(np.broadcast_arrays(*given), extents) if math.prod(extents) else 0
            )
            shape = np.broadcast_shapes(*(one.shape for one in given))
            return shape, np.broadcast_to(positions, shape).reshape(-1).astype(np.int64)
        arrays = [item if isinstance(item, LazyTensor) else np.asarray(item) for item in items]
        shape = broadcast(self._shape(one) for one in arrays)
        flat: Any = None
        for one, extent in zip(arrays, extents, strict=True):
            positive = self._indices(one, extent)
            if len(items) > 1:
                # One that is out of range becomes a position that is, and fails the execution.
                is_within = self.logical_and(self.greater_equal(positive, 0), self.less(positive, extent))
                positive = self.where(is_within, positive, math.prod(extents))
            flat = positive if flat is None else self.add(self.multiply(flat, extent), positive)
        return shape, self.reshape(self.broadcast_to(flat, shape), -1)

    def _assigned(self, x: T, index: Any, value: Any) -> T:
        """Return the tensor with other elements at an index."""
        given = self._of_type(value, x)
        if is_mask(index):
            return self._masked(x, index, given)
        if has_arrays(index):
            return self._put(x, index, given)
        target = x._view(index).shape
        values = self._broadcast_value(given, target)
        items = [item for item in expanded(_items(x.shape, index), len(x.shape)) if item is not None]
        ranges = [
            range(*item.indices(extent)) if isinstance(item, slice) else range(item % extent, item % extent + 1)
            for item, extent in zip(items, x.shape, strict=True)
        ]
        return self._scattered(x, ranges, self.reshape(values, [len(one) for one in ranges]))

    def _scattered(self, x: T, ranges: Sequence[range], given: T) -> T:
        """Return the tensor with other elements at the indices of each dimension."""
        mask: Any = None
        for dim, (chosen, extent) in enumerate(zip(ranges, x.shape, strict=True)):
            if chosen == range(extent):
                continue
            if not chosen:
                return x
            source, is_chosen = np.zeros(extent, np.int64), np.zeros(extent, np.bool_)
            source[list(chosen)], is_chosen[list(chosen)] = np.arange(len(chosen)), True
            given = given if len(chosen) == 1 else self._client.op("index_select", given, source, dim=dim)
            along = is_chosen.reshape(-1, *(1 for _ in x.shape[dim + 1 :]))
            mask = along if mask is None else self.logical_and(mask, along)
        return given if mask is None else self.where(mask, given, x)

    def _masked(self, x: T, mask: Array, given: T) -> T:
        """Return the tensor with other elements where a mask of leading dimensions is true.

        The mask is not computed if the values are the same wherever it is true.
        """
        _items(x.shape, mask)
        rest = x.shape[mask.ndim :]
        shape = self._shape(given, "value")
        least = _without_leading_ones(shape, len(rest))
        if not broadcasts(least, rest):
            return self._put(x, mask, given)
        wide = self.reshape(mask, [*mask.shape, *(1 for _ in rest)])
        return self.where(wide, given if least == shape else self.reshape(given, least), x)

    def _put(self, x: T, index: Any, given: T) -> T:
        """Return the tensor with other elements at an index that has arrays, whose elements are computed.

        As in numpy, of several elements that are assigned to the same place the last one stays.
        """
        items = _items(x.shape, index)
        here = tuple(
            _mask_values(item, at) if is_mask(item) else host_values(item, f"index {at}") if is_array(item) else item
            for at, item in enumerate(items)
        )
        # Trailing dimensions that the index does not name are assigned as rows.
        named = len(x.shape) if any(item is ... for item in items) else _consumed(items)
        if named > len(x.shape):
            raise IndexError(f"index: expected at most {len(x.shape)} items, got {named}")
        leading, rest = x.shape[:named], x.shape[named:]
        places = np.arange(math.prod(leading)).reshape(leading)
        try:
            chosen = places[here]
        except IndexError as wrong:
            raise IndexError(f"index: {wrong}") from None
        target = (*chosen.shape, *rest)
        values = self._broadcast_value(given, target)
        if not math.prod(target):
            return x
        rows = self.reshape(values, [chosen.size, *rest])
        source, is_chosen = np.zeros(places.size, np.int64), np.zeros(places.size, np.bool_)
        source[chosen.reshape(-1)], is_chosen[chosen.reshape(-1)] = np.arange(chosen.size), True
        spread = self.reshape(self._client.op("index_select", rows, source, dim=0), x.shape)
        return self.where(is_chosen.reshape(*leading, *(1 for _ in rest)), spread, x)

    def _broadcast_value(self, given: T, target: tuple[int, ...]) -> T:
        """Return the values of an assignment in the shape of what is assigned to."""
        shape = self._shape(given, "value")
        least = _without_leading_ones(shape, len(target))
        if not broadcasts(least, target):
            raise ValueError(f"value: expected a shape that broadcasts to {target}, got {shape}")
        return self.broadcast_to(given if least == shape else self.reshape(given, least), target)

    def _of_type(self, value: Any, x: T) -> T:
        is_tensor = isinstance(value, (LazyTensor, np.ndarray, np.generic))
        # A number that is out of range is refused by numpy; bfloat16 is rounded to by the daemon.
        return self.astype(value, x.dtype) if is_tensor else self._client.tensor(value, dtype=x.dtype)


def _consumed(items: Sequence[Any]) -> int:
    """Return how many dimensions items of an index name."""
    named = [item for item in items if item is not None and item is not ...]
    return sum(item.ndim if is_mask(item) else 1 for item in named)


def _items(shape: tuple[int, ...], index: Any) -> list[Any]:
    """Return the items of an index of a tensor, with integers as int."""
    given = index if isinstance(index, tuple) else (index,)
    for at, item in enumerate(given):
        if not is_mask(item):
            continue
        follows_ellipsis = any(one is ... for one in given[:at])
        first = len(shape) - _consumed(given[at:]) if follows_ellipsis else _consumed(given[:at])
        if item.shape != shape[first : first + item.ndim]:
            raise IndexError(f"index {at}: expected a mask of extents of {shape}, got {item.shape}")
        if not item.ndim and len(given) > 1:
            raise IndexError(f"index {at}: expected a mask that has dimensions among several items, got a scalar")
    return [item if is_mask(item) else checked(at, item) for at, item in enumerate(given)]


def _mask_values(mask: Array, at: int) -> np.ndarray[Any, Any]:
    """Return the elements of a mask."""
    try:
        return host_values(mask, f"index {at}")
    except AccelerdError:
        raise
    except ValueError as unknown:
        hint = "the shape of the result depends on it; where() does not need it"
        raise IndexError(f"{unknown}, got {type(mask).__name__}; {hint}") from None


def _without_leading_ones(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return a shape less the leading dimensions of extent 1 that exceed a rank, which an assignment ignores."""
    while len(shape) > rank and shape[0] == 1:
        shape = shape[1:]
    return shape


def _within(indices: np.ndarray[Any, Any], extent: int) -> np.ndarray[Any, Any]:
    """Return indices of which none counts from the end."""
    wrong = (indices < -extent) | (indices >= extent)
    if wrong.any():
        raise IndexError(f"index: expected {-extent} to {extent - 1}, got {indices[wrong].flat[0]}")
    return np.where(indices < 0, indices + extent, indices)
