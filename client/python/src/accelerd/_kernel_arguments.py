"""Arguments of kernels: arrays and Python numbers as values of the parameters' types."""

from __future__ import annotations

import enum
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._dlpack import refuse_masked
from ._kernel import KernelParam
from ._proto import tensor_pb2
from ._tensor import NUMPY_DTYPES, Value, dtype_name, dtype_number

_BF16 = tensor_pb2.DTYPE_BF16
_MATRIX = re.compile(r"m(\d+?)(?:_(\d+)|(\d))")
#: Conversions that numpy calls safe, and that round.
_ROUNDING = {("i64", "f64"), ("u64", "f64")}


def element_type(param: KernelParam) -> tuple[str, tuple[int, ...]]:
    """Return the type of an element's components, and the extents of the dimensions that they have in an array.

    Elements with components of several types, or with space between them, are bytes.
    """
    dtypes = {component.dtype for component in param.components}
    size = NUMPY_DTYPES[dtype_number(min(dtypes))].itemsize if len(dtypes) == 1 else 0
    offsets = [component.offset_bytes for component in param.components]
    if offsets != [size * nth for nth in range(len(offsets))] or size * len(offsets) != param.element_size_bytes:
        return "u8", (param.element_size_bytes,)
    return min(dtypes), _extents([component.name for component in param.components])


def _extents(names: list[str]) -> tuple[int, ...]:
    if names == [""]:
        return ()
    # Components of matrices are named `m01`, and with more than ten columns `m0_1`.
    last = _MATRIX.fullmatch(names[-1]) if _MATRIX.fullmatch(names[0]) else None
    return (len(names),) if last is None else (int(last[1]) + 1, int(last[2] or last[3]) + 1)


def typed_value(what: str, given: Any, dtype: str) -> Value:
    """Return an array or Python numbers as a tensor of a type.

    Arrays of other types are converted if every value of their type is one of the other. Python integers must be values
    of the type; Python floats are rounded to it.

    Raises:
        TypeError: The type of the array or of a number is another one.
        ValueError: A number is outside of the type's range.
    """
    number = dtype_number(dtype)
    if isinstance(given, np.generic):
        given = given.item()
    if isinstance(given, (bool, int, float, str, list, tuple)):
        return _of_numbers(what, given, number)
    found = Value.of(given, what)
    if found.number == number:
        return found
    got = dtype_name(found.array.dtype) if found.number != _BF16 else "bf16"
    target = NUMPY_DTYPES[number]
    is_exact = _BF16 not in (number, found.number) and np.can_cast(found.array.dtype, target, "safe")
    if not is_exact or (got, dtype) in _ROUNDING:
        raise TypeError(f"{what}: expected {dtype}, got an array of {got}; convert it, as by astype")
    return Value(number, found.array.astype(target))


def _of_numbers(what: str, given: Any, number: tensor_pb2.Dtype) -> Value:
    dtype = NUMPY_DTYPES[number]
    kind = "f" if number == _BF16 else dtype.kind
    name = "bf16" if number == _BF16 else dtype_name(dtype)
    refuse_masked(given, what)
    try:
        objects = np.asarray(given, dtype=object)
    except ValueError as ragged:
        raise ValueError(f"{what}: expected rows of equal length: {ragged}") from None
    for one in objects.flat:
        _check_number(what, one, kind, name)
    # An overflow becomes infinite, which is checked below.
    with np.errstate(over="ignore"):
        try:
            array = _bfloat16(objects) if number == _BF16 else objects.astype(dtype)
        except OverflowError:
            raise ValueError(f"{what}: expected a value of {name}, got an int beyond its range") from None
    value = Value(number, array)
    if kind == "f":
        _check_rounding(what, objects, value.numpy(), name)
    return value


def _check_number(what: str, given: object, kind: str, name: str) -> None:
    # A flag of an enumeration is a truth, as in `if`.
    accepted: dict[str, tuple[type, ...]] = {
        "b": (bool, np.bool_, enum.Flag),
        "i": (int, np.integer),
        "u": (int, np.integer),
    }
    if not isinstance(given, accepted.get(kind, (int, float, np.integer, np.floating))):
        raise TypeError(f"{what}: expected {name}, got {type(given).__name__} {given!r}"[:200])
    if kind in "iu":
        limits = np.iinfo(NUMPY_DTYPES[dtype_number(name)])
        if not limits.min <= given <= limits.max:  # type: ignore[operator]
            raise ValueError(f"{what}: expected a value of {name}, from {limits.min} to {limits.max}, got {given}")


def _check_rounding(what: str, objects: NDArray[Any], floats: NDArray[Any], name: str) -> None:
    """Check that no integer was rounded, and that nothing finite became infinite."""
    for given, found in zip(objects.flat, floats.flat, strict=True):
        is_exact = isinstance(given, (int, np.integer)) or np.isinf(found)
        if is_exact and float(found) != given:
            raise ValueError(f"{what}: expected a value of {name}, got {given!r}")


def _bfloat16(objects: NDArray[Any]) -> NDArray[Any]:
    """Return numbers rounded to bfloat16, ties to even."""
    bits = np.asarray(objects.astype(np.float32)).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16
    is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return np.where(is_nan, (bits >> 16) | 0x40, rounded).astype(np.uint16)


def struct_type(given: Any) -> np.dtype[Any] | None:
    """Return the type of a struct, or of an array of structs."""
    return given.dtype if isinstance(given, (np.ndarray, np.void)) and given.dtype.fields is not None else None


def array_of(param: KernelParam, given: Any) -> Value:
    """Return an argument in the form in which it is sent: its dimensions, then those of its components."""
    dtype, extents = element_type(param)
    if struct_type(given) is not None:
        refuse_masked(given, param.name)
        return _structs(param, np.asarray(given))
    value = typed_value(param.name, given, dtype)
    shape = value.array.shape
    if len(shape) != param.dims + len(extents) or shape[param.dims :] != extents:
        raise ValueError(f"{param.name}: expected {_expected(param)}, got an array of shape {shape}")
    return value


def _expected(param: KernelParam) -> str:
    dtype, extents = element_type(param)
    shape = ", ".join(["..."] * param.dims + [str(extent) for extent in extents])
    if not param.dims and not extents:
        return f"a number of {dtype}"
    return f"an array of {dtype} of shape [{shape}]"


def _structs(param: KernelParam, array: NDArray[Any]) -> Value:
    """Return an array with a structured type as bytes."""
    expected = [(component.offset_bytes, component.dtype) for component in param.components]
    if array.dtype.itemsize != param.element_size_bytes or _fields(array.dtype, 0) != expected:
        fields = ", ".join(f"{one.name} {one.dtype} at {one.offset_bytes}" for one in param.components)
        raise TypeError(
            f"{param.name}: expected structs of {param.element_size_bytes} bytes with {fields}, got {array.dtype}"
        )
    if array.ndim != param.dims:
        raise ValueError(f"{param.name}: expected {param.dims} dimensions, got an array of shape {array.shape}")
    contiguous = np.asarray(array, order="C")
    data = contiguous.reshape(-1).view(np.uint8).reshape(*array.shape, param.element_size_bytes)
    return Value(tensor_pb2.DTYPE_U8, data)


def _fields(dtype: np.dtype[Any], offset: int) -> list[tuple[int, str]]:
    """Return offset and type of each scalar."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        count = int(np.prod(shape))
        return [one for nth in range(count) for one in _fields(base, offset + nth * base.itemsize)]
    if dtype.fields is None:
        return [(offset, dtype_name(dtype))]
    return [one for name in dtype.names or () for one in _fields(dtype.fields[name][0], offset + dtype.fields[name][1])]
