"""Arguments that share memory: what a kernel writes to one of them it reads from the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._dlpack import host_array
from ._kernel import KernelParam
from ._kernel_arguments import array_of, element_type
from ._lazy import LazyTensor
from ._proto import kernel_pb2 as pb
from ._resident import ResidentTensor
from ._tensor import NUMPY_DTYPES, Value, dtype_number


@dataclass(frozen=True)
class View:
    """The elements of an argument that another parameter has."""

    #: The argument.
    argument: str
    offset_bytes: int = 0
    #: Empty for that of the argument.
    shape: tuple[int, ...] = ()
    strides_bytes: tuple[int, ...] = ()

    def message(self, name: str) -> pb.KernelView:
        """Return the view that a parameter is."""
        return pb.KernelView(
            name=name,
            argument=self.argument,
            offset_bytes=self.offset_bytes,
            shape=self.shape,
            strides_bytes=self.strides_bytes,
        )

    def of(self, argument: Value, param: KernelParam) -> Value:
        """Return the elements from those of the argument."""
        dtype, extents = element_type(param)
        number = dtype_number(dtype)
        if not self.shape:
            shape = argument.array.shape[: param.dims] + extents
            return Value(number, argument.array.reshape(-1).view(NUMPY_DTYPES[number]).reshape(shape))
        components = np.empty(extents, NUMPY_DTYPES[number])
        found = np.ndarray(
            self.shape + extents,
            components.dtype,
            np.asarray(argument.array).reshape(-1).view(np.uint8).data,
            self.offset_bytes,
            self.strides_bytes + components.strides,
        )
        return Value(number, found)


def shared_arguments(
    params: Sequence[KernelParam], written: Sequence[str], bound: Mapping[str, Any]
) -> dict[str, View]:
    """Return the parameters whose arguments lie in the memory of another one, if the kernel writes there.

    Raises:
        ValueError: No argument contains the others that share memory with it.
    """
    by_name = {param.name: param for param in params if param.dims and param.name in bound}
    views: dict[str, View] = {}
    resident = {name: bound[name].handle for name in by_name if isinstance(bound[name], ResidentTensor)}
    for handle in {resident[name] for name in written if name in resident}:
        first, *others = (name for name, one in resident.items() if one == handle)
        views.update(dict.fromkeys(others, View(first)))
    arrays = {name: array for name in by_name if (array := _memory(bound[name], name)) is not None and array.size}
    for group in _groups(arrays, written):
        views.update(_views({name: arrays[name] for name in arrays if name in group}, by_name, bound))
    return views


def _memory(given: Any, name: str) -> NDArray[Any] | None:
    # A lazy tensor would be computed, and shares no memory with arrays that change.
    is_array = hasattr(given, "__array__") or hasattr(given, "__dlpack__")
    return host_array(given, name) if is_array and not isinstance(given, (LazyTensor, ResidentTensor)) else None


def _groups(arrays: Mapping[str, NDArray[Any]], written: Sequence[str]) -> list[Set[str]]:
    """Return the names of arrays that share memory with one that is written."""
    groups: list[Set[str]] = []
    for name in written:
        if name not in arrays:
            continue
        group: Set[str] = {other for other, array in arrays.items() if np.shares_memory(arrays[name], array)}
        for known in [one for one in groups if one & group]:
            groups.remove(known)
            group |= known
        groups.append(group)
    return [group for group in groups if len(group) > 1]


def _views(
    arrays: Mapping[str, NDArray[Any]], params: Mapping[str, KernelParam], bound: Mapping[str, Any]
) -> dict[str, View]:
    bounds = {name: _bounds(array) for name, array in arrays.items()}
    start = min(low for low, _ in bounds.values())
    whole = (start, max(high for _, high in bounds.values()))
    names = list(arrays)
    contains = (name for name in names if bounds[name] == whole and arrays[name].flags["C"])
    base = next(contains, None)
    if base is None and len({_place(array) for array in arrays.values()}) == 1:
        # It is sent as contiguous elements.
        base = names[0]
        return dict.fromkeys(names[1:], View(base))
    if base is None:
        others = ", ".join(names[1:])
        raise ValueError(
            f"{names[0]}: expected an array that contains {others}, or is contained in one of them, got one that "
            "overlaps"
        )
    for name in names:
        _check_sent_as_is(params[name], bound[name], arrays[name])
    return {
        name: View(base, _first(array) - start, *_layout(params[name], array))
        for name, array in arrays.items()
        if name != base
    }


def _place(array: NDArray[Any]) -> tuple[Any, ...]:
    return _first(array), array.shape, array.strides, array.dtype


def _first(array: NDArray[Any]) -> int:
    """Return the address of the first element."""
    address: int = array.__array_interface__["data"][0]
    return address


def _bounds(array: NDArray[Any]) -> tuple[int, int]:
    """Return the addresses of the first byte and of the one after the last."""
    steps = [(extent - 1) * stride for extent, stride in zip(array.shape, array.strides, strict=True)]
    first = _first(array)
    return first + sum(min(step, 0) for step in steps), first + sum(max(step, 0) for step in steps) + array.itemsize


def _check_sent_as_is(param: KernelParam, given: Any, array: NDArray[Any]) -> None:
    sent = array_of(param, given).array
    if sent.nbytes != array.nbytes:
        raise TypeError(f"{param.name}: expected {sent.dtype}, because it shares memory with another argument")


def _layout(param: KernelParam, array: NDArray[Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return extents and strides without those of components."""
    dims = param.dims
    strides = array.strides
    if strides[dims:] != np.empty(array.shape[dims:], array.dtype).strides or any(one < 0 for one in strides):
        raise ValueError(
            f"{param.name}: expected contiguous elements in ascending order, because it shares memory with another "
            f"argument, got strides of {strides} bytes"
        )
    return array.shape[:dims], strides[:dims]
