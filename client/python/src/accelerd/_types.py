"""Types of tensors, an element type and a shape each, and how they combine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

#: Size of an element in bytes by the name of its type.
_INTEGERS = {"u8": 1, "i8": 1, "u16": 2, "i16": 2, "u32": 4, "i32": 4, "u64": 8, "i64": 8}
_FLOATS = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}
#: Kinds of element types. Promotion between kinds goes upwards.
BOOL, INTEGER, FLOAT = range(3)


class OperandError(Exception):
    """Operands or attributes that do not fit an operation; the text says which."""


class ShapeError(OperandError, ValueError):
    """Operands whose shapes or dimensions do not fit."""


class OperandIndexError(OperandError, IndexError):
    """An index beyond the extent of its dimension."""


class DtypeError(OperandError, TypeError):
    """Operands whose element types do not fit."""


class TensorType(NamedTuple):
    """An element type by its name, such as "f32", and a shape."""

    dtype: str
    shape: tuple[int, ...]


def kind(dtype: str) -> int:
    """Return the kind of an element type."""
    return BOOL if dtype == "bool" else INTEGER if dtype in _INTEGERS else FLOAT


def is_unsigned(dtype: str) -> bool:
    """Whether an element type is one of unsigned integers."""
    return dtype.startswith("u")


def scalar_kind(scalar: bool | int | float) -> int:
    """Return the kind of a Python number."""
    return BOOL if isinstance(scalar, bool) else INTEGER if isinstance(scalar, int) else FLOAT


def promote(a: str, b: str) -> str:
    """Return the common type of two element types.

    Raises:
        TypeError: They have none: u64 and a signed integer.
    """
    if a == b or kind(a) > kind(b):
        return a
    if kind(a) < kind(b):
        return b
    if kind(a) == FLOAT:
        return "f32" if _FLOATS[a] == _FLOATS[b] else max(a, b, key=_FLOATS.__getitem__)
    if is_unsigned(a) == is_unsigned(b):
        return max(a, b, key=_INTEGERS.__getitem__)
    signed, unsigned = (b, a) if is_unsigned(a) else (a, b)
    if _INTEGERS[signed] > _INTEGERS[unsigned]:
        return signed
    if unsigned == "u64":
        raise DtypeError(f"{a} and {b} have no common type")
    return f"i{16 * _INTEGERS[unsigned]}"


def common(dtypes: Iterable[str], scalars: Iterable[int] = ()) -> str:
    """Return the common type of tensors and of numbers of these kinds, which count only if theirs is the highest.

    Raises:
        TypeError: There is none.
    """
    known = list(dtypes)
    highest = max(map(kind, known), default=BOOL)
    leading = [one for one in known if kind(one) == highest]
    weak = max(scalars, default=BOOL)
    if leading and highest >= weak:
        found = leading[0]
        for one in leading[1:]:
            found = promote(found, one)
        return found
    return ("bool", "i64", "f32")[weak]


def broadcast(shapes: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape to which shapes broadcast.

    Raises:
        ValueError: They do not.
    """
    result: tuple[int, ...] = ()
    for shape in shapes:
        rank = max(len(result), len(shape))
        pairs = zip((1,) * (rank - len(result)) + result, (1,) * (rank - len(shape)) + shape, strict=True)
        merged = []
        for a, b in pairs:
            if a != b and 1 not in (a, b):
                raise ShapeError(f"expected a shape that broadcasts with {result}, got {shape}")
            merged.append(b if a == 1 else a)
        result = tuple(merged)
    return result


def broadcasts(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether a shape broadcasts to another one."""
    pairs = zip(reversed(shape), reversed(target), strict=False)
    return len(shape) <= len(target) and all(own in (1, extent) for own, extent in pairs)


def axis_of(axis: int, rank: int, what: str = "axis") -> int:
    """Return a dimension counted from the front.

    Raises:
        ValueError: There is no such dimension.
    """
    if not -rank <= axis < rank:
        raise ShapeError(f"{what}: expected {-rank} to {rank - 1}, got {axis}" if rank else f"{what}: got a scalar")
    return axis % rank


def out_of_range(index: int, extent: int, dim: int) -> str:
    """Return the text about an index beyond the extent of a dimension."""
    expected = f"expected {-extent} to {extent - 1}" if extent else "expected none"
    return f"index: {expected} in dimension {dim} of extent {extent}, got {index}"
