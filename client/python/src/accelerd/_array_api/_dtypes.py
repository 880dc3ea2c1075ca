"""Element types of the namespace: their objects, what they hold and how they are promoted; constants."""

from __future__ import annotations

import builtins
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from .._lazy import DEFAULT_DEVICE, Array, LazyTensor, T, is_array, is_scalar
from .._tensor import Dtype, dtype_name, public_dtype
from .._types import BOOL, FLOAT, INTEGER, common, is_unsigned, kind, promote, scalar_kind
from ._namespace import Namespace, expect_default

#: An element type as the namespace returns it.
PublicDtype: TypeAlias = "np.dtype[Any] | Literal['bf16']"

_KINDS = {
    "bool": lambda dtype: kind(dtype) == BOOL,
    "signed integer": lambda dtype: kind(dtype) == INTEGER and not is_unsigned(dtype),
    "unsigned integer": is_unsigned,
    "integral": lambda dtype: kind(dtype) == INTEGER,
    "real floating": lambda dtype: kind(dtype) == FLOAT,
    "complex floating": lambda dtype: False,
    "numeric": lambda dtype: kind(dtype) != BOOL,
}
#: Bits of an exponent and of a fraction.
_FORMATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}


@dataclass(frozen=True)
class FInfo:
    """What a floating-point type holds."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: PublicDtype


@dataclass(frozen=True)
class IInfo:
    """What an integer type holds."""

    bits: int
    max: int
    min: int
    dtype: PublicDtype


class Info:
    """What the namespace offers, for programs that ask."""

    def __init__(self, computes_on_demand: bool) -> None:
        self._computes_on_demand = computes_on_demand

    def capabilities(self) -> dict[str, Any]:
        """Return what is optional in the standard. Shapes depend on values if these can be computed at any time."""
        depends = self._computes_on_demand
        return {"boolean indexing": depends, "data-dependent shapes": depends, "max dimensions": 8}

    def default_device(self) -> str:
        """Return the device of tensors that are not resident."""
        return DEFAULT_DEVICE

    def devices(self) -> list[str]:
        """Return the devices of lazy tensors. `Client.devices()` has those of the daemon, for resident ones."""
        return [DEFAULT_DEVICE]

    def default_dtypes(self, *, device: str | None = None) -> dict[str, PublicDtype]:
        """Return the element types of results for which none is given."""
        expect_default(device)
        integers = public_dtype("i64")
        return {"real floating": public_dtype("f32"), "integral": integers, "indexing": integers}

    def dtypes(self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None) -> dict[str, PublicDtype]:
        """Return the element types of the standard by name, of some kinds only if `kind` is given."""
        expect_default(device)
        found = {name: getattr(Dtypes, name) for name in _STANDARD}
        return {name: dtype for name, dtype in found.items() if kind is None or is_of_kind(dtype, kind)}


class Dtypes(Namespace[T]):
    """Element types, constants and questions about them."""

    __slots__ = ()

    bool: ClassVar[np.dtype[Any]] = np.dtype(np.bool_)
    int8, int16, int32, int64 = (np.dtype(f"i{size}") for size in (1, 2, 4, 8))
    uint8, uint16, uint32, uint64 = (np.dtype(f"u{size}") for size in (1, 2, 4, 8))
    float16, float32, float64 = (np.dtype(f"f{size}") for size in (2, 4, 8))
    bfloat16 = "bf16"
    e, inf, nan, newaxis, pi = math.e, math.inf, math.nan, None, math.pi

    def __array_namespace_info__(self) -> Info:
        return Info(self._client._tensor_class._computes_on_demand)

    def isdtype(self, dtype: Dtype, kind: Dtype | tuple[Dtype, ...]) -> builtins.bool:
        """Whether an element type is another one, or of a kind such as "integral"; or one of several."""
        return is_of_kind(dtype, kind)

    def can_cast(self, from_: Dtype | Array, to: Dtype, /) -> builtins.bool:
        """Whether promotion takes an element type, or that of a tensor, to another one."""
        source = self._type(from_, "from_").dtype if is_array(from_) else dtype_name(from_, "from_")  # type: ignore[arg-type]
        target = dtype_name(to, "to")
        try:
            return kind(source) == kind(target) and promote(source, target) == target
        except TypeError:
            return False

    def result_type(self, *arrays_and_dtypes: Array | Dtype | builtins.bool | float) -> PublicDtype:
        """Return the type that promotion gives to tensors, element types and Python numbers."""
        return public_dtype(self._common(*arrays_and_dtypes))

    def _common(self, *operands: Any) -> str:
        if not operands or all(map(is_scalar, operands)):
            raise TypeError("result_type: expected at least one tensor or element type")
        typed = [one for one in operands if not is_scalar(one)]
        names = [self._type(one).dtype if is_array(one) else dtype_name(one) for one in typed]
        return common(names, [scalar_kind(one) for one in operands if is_scalar(one)])

    def finfo(self, type: Dtype | Array, /) -> FInfo:
        """Return what a floating-point type, or that of a tensor, holds."""
        name = self._name(type)
        if name not in _FORMATS:
            raise TypeError(f"type: expected a floating-point type, got {name}")
        exponent, fraction = _FORMATS[name]
        bias = (1 << (exponent - 1)) - 1
        greatest = (2 - 2.0**-fraction) * 2.0**bias
        smallest = 2.0 ** (1 - bias)
        return FInfo(1 + exponent + fraction, 2.0**-fraction, greatest, -greatest, smallest, public_dtype(name))

    def iinfo(self, type: Dtype | Array, /) -> IInfo:
        """Return what an integer type, or that of a tensor, holds."""
        name = self._name(type)
        if kind(name) != INTEGER:
            raise TypeError(f"type: expected a type of integers, got {name}")
        found = np.iinfo(public_dtype(name))
        return IInfo(found.bits, int(found.max), int(found.min), public_dtype(name))

    def _name(self, type: Any) -> str:
        return (
            self._type(type, "type").dtype if isinstance(type, (LazyTensor, np.ndarray)) else dtype_name(type, "type")
        )


_STANDARD = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
]


def is_of_kind(dtype: Dtype, kind: Any) -> bool:
    """Whether an element type is another one, or of a kind such as "integral"; or one of several."""
    if isinstance(kind, tuple):
        return any(is_of_kind(dtype, one) for one in kind)
    name = dtype_name(dtype)
    found = _KINDS.get(kind) if isinstance(kind, str) else None
    return found(name) if found is not None else name == dtype_name(kind, "kind")
