"""Indices of tensors. Integers, slices, None and Ellipsis are views that need not know the number of dimensions."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from ._dlpack import refuse_masked
from ._expression import Attribute
from ._types import out_of_range

#: An operation of one operand and its attributes.
View: TypeAlias = "tuple[str, dict[str, Attribute]]"


def views(index: Any, shape: tuple[int, ...] | None) -> list[View]:
    """Return the views that an index consists of, in order of application. The shape is None if it is unknown."""
    items = [checked(at, item) for at, item in enumerate(index if isinstance(index, tuple) else (index,))]
    ellipses = [at for at, item in enumerate(items) if item is ...]
    if len(ellipses) > 1:
        raise IndexError(f"index: expected at most one Ellipsis, got {len(ellipses)}")
    if shape is not None:
        _check_extents(items, shape)
    split = ellipses[0] if ellipses else len(items)
    front, back = items[:split], items[split + 1 :]
    return [*_least_rank(front, back), *_front(front), *_back(back)]


def is_array(item: Any) -> bool:
    """Whether an item of an index is a tensor or an array. Numbers of numpy are integers."""
    return hasattr(item, "dtype") and not isinstance(item, np.generic)


def is_mask(item: Any) -> bool:
    """Whether an item of an index is a tensor or an array of truth values."""
    return is_array(item) and bool(item.dtype == np.bool_)


def has_arrays(index: Any) -> bool:
    """Whether an index consists of more than views."""
    return any(map(is_array, index)) if isinstance(index, tuple) else is_array(index)


def checked(at: int, item: Any) -> Any:
    """Return an item of an index, with integers as int."""
    if isinstance(item, slice) and item.step is not None and item.step == 0:
        raise ValueError(f"index {at}: expected a slice with a step other than 0, got 0")
    if item is None or item is ... or isinstance(item, slice):
        return item
    refuse_masked(item, f"index {at}")
    if is_array(item) and item.dtype != "bf16" and item.dtype.kind in "iu":
        return item
    try:
        if isinstance(item, bool) or is_array(item):
            raise TypeError
        return operator.index(item)
    except TypeError:
        kind = f"{type(item).__name__} of {item.dtype}" if is_array(item) else type(item).__name__
        raise IndexError(
            f"index {at}: expected an int, a slice, None, Ellipsis, or an array of integers or bool, got {kind}"
        ) from None


def expanded(items: Sequence[Any], rank: int) -> list[Any]:
    """Return the items of an index with a slice for each dimension that it does not name."""
    ellipses = [at for at, item in enumerate(items) if item is ...]
    named = sum(item is not None and item is not ... for item in items)
    if len(ellipses) > 1:
        raise IndexError(f"index: expected at most one Ellipsis, got {len(ellipses)}")
    if named > rank:
        raise IndexError(f"index: expected at most {rank} items, got {named}")
    split = ellipses[0] if ellipses else len(items)
    return [*items[:split], *[slice(None)] * (rank - named), *items[split + 1 :]]


def _check_extents(items: Sequence[Any], shape: tuple[int, ...]) -> None:
    """Refuse an index with more items than the tensor has dimensions, or with an integer that is out of range."""
    named = (item for item in expanded(items, len(shape)) if item is not None)
    for dim, (item, extent) in enumerate(zip(named, shape, strict=True)):
        if isinstance(item, int) and not -extent <= item < extent:
            raise IndexError(out_of_range(item, extent, dim))


def _least_rank(front: Sequence[Any], back: Sequence[Any]) -> Iterator[View]:
    """Refuse tensors of fewer dimensions than the index names.

    Views from the front and from the back might otherwise meet in the same dimension. A slice of everything fails if
    there is no such dimension, and costs nothing.
    """
    leading = [item for item in front if item is not None]
    trailing = [item for item in back if item is not None]
    innermost = trailing[:1] or leading[-1:]
    if (leading and trailing) or innermost == [slice(None)]:
        yield "slice", {"dim": len(leading) + len(trailing) - 1}


def _front(items: Sequence[Any]) -> Iterator[View]:
    """Views of leading dimensions, first to last."""
    dim = 0
    for item in items:
        yield from _one(item, dim)
        dim += not isinstance(item, int)


def _back(items: Sequence[Any]) -> Iterator[View]:
    """Views of trailing dimensions, last to first."""
    dim = -1
    for item in reversed(items):
        yield from _one(item, dim)
        dim -= not isinstance(item, int)


def _one(item: Any, dim: int) -> Iterator[View]:
    if item is None:
        yield "unsqueeze", {"dim": dim}
    elif isinstance(item, int):
        yield "select", {"dim": dim, "index": item}
    elif item != slice(None):
        yield "slice", {"dim": dim, **{name: _bound(bound) for name, bound in _bounds(item).items()}}


def _bounds(item: slice) -> dict[str, Any]:
    # A name that is absent and one that is None mean the same.
    return {"start": item.start, "end": item.stop, "step": item.step}


def _bound(bound: Any) -> int | None:
    if bound is None:
        return None
    try:
        # Bounds beyond any extent are clamped, as Python does.
        return max(-(1 << 63), min(operator.index(bound), (1 << 63) - 1))
    except TypeError:
        raise IndexError(f"index: expected slices of int, got one of {type(bound).__name__}") from None
