"""Conversion between arrays and tensors."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ._dlpack import host_array, refuse_masked
from ._errors import malformed
from ._optional import optional_module
from ._proto import tensor_pb2 as pb
from ._types import TensorType
from ._wire import Chunk, field

#: The type of the array in wire form; numpy lacks bfloat16.
NUMPY_DTYPES: dict[pb.Dtype, np.dtype[Any]] = {
    pb.DTYPE_F16: np.dtype("<f2"),
    pb.DTYPE_BF16: np.dtype("<u2"),
    pb.DTYPE_F32: np.dtype("<f4"),
    pb.DTYPE_F64: np.dtype("<f8"),
    pb.DTYPE_I8: np.dtype("i1"),
    pb.DTYPE_I32: np.dtype("<i4"),
    pb.DTYPE_I64: np.dtype("<i8"),
    pb.DTYPE_U8: np.dtype("u1"),
    pb.DTYPE_I16: np.dtype("<i2"),
    pb.DTYPE_U16: np.dtype("<u2"),
    pb.DTYPE_U32: np.dtype("<u4"),
    pb.DTYPE_U64: np.dtype("<u8"),
    pb.DTYPE_BOOL: np.dtype("?"),
}
_NAMES: dict[pb.Dtype, str] = {number: pb.Dtype.Name(number).removeprefix("DTYPE_").lower() for number in NUMPY_DTYPES}
_BY_NAME: dict[str, pb.Dtype] = {name: number for number, name in _NAMES.items()}
# numpy has several types of equal size, so kind and size are the key.
_BY_KIND: dict[tuple[str, int], pb.Dtype] = {
    (dtype.kind, dtype.itemsize): number for number, dtype in NUMPY_DTYPES.items() if number != pb.DTYPE_BF16
}
#: The name that numpy's extension types give to bfloat16.
_BFLOAT16 = "bfloat16"

#: An element type: a numpy type, or a name such as "f32" or "bf16".
Dtype: TypeAlias = "DTypeLike | str"


def to_rows(rows: ArrayLike, what: str = "vectors") -> NDArray[np.float32]:
    """Return a contiguous float32 matrix; a vector becomes one row."""
    got = type(rows).__name__
    refuse_masked(rows, what)
    try:
        given = np.asarray(rows)
    except ValueError as wrong:
        raise ValueError(f"{what}: expected rows of numbers of equal length, got {got}: {wrong}") from None
    if given.dtype.name == _BFLOAT16:
        given = given.astype(np.float32)
    if given.dtype.kind not in "fiub":
        raise ValueError(f"{what}: expected rows of numbers, got {got} of {given.dtype}")
    array = np.ascontiguousarray(given, dtype="<f4")
    if array.ndim == 1:
        array = array[np.newaxis, :]
    if array.ndim != 2:
        raise ValueError(f"{what}: expected rows of numbers, got an array of shape {array.shape}")
    return array


def dtype_number(dtype: Dtype, what: str = "dtype") -> pb.Dtype:
    """Return the enum value of an element type."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", "")
    if isinstance(dtype, str) and dtype in _BY_NAME:
        return _BY_NAME[dtype]
    if name == _BFLOAT16:
        return pb.DTYPE_BF16
    try:
        # numpy takes None for float64.
        found = None if dtype is None else np.dtype(dtype)
    except TypeError:
        found = None
    if found is not None and found.name == _BFLOAT16:
        return pb.DTYPE_BF16
    if found is None or (found.kind, found.itemsize) not in _BY_KIND:
        raise TypeError(f"{what}: expected one of {', '.join(_BY_NAME)}, got {dtype if found is None else found}")
    return _BY_KIND[found.kind, found.itemsize]


def is_bfloat16(dtype: Dtype) -> bool:
    """Whether an element type is bfloat16."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", getattr(dtype, "__name__", ""))
    return name in ("bf16", _BFLOAT16)


def dtype_name(dtype: Dtype, what: str = "dtype") -> str:
    """Return the name of an element type, such as "f32"."""
    return _NAMES[dtype_number(dtype, what)]


def element_bytes(name: str) -> int:
    """Return the bytes of an element of a type of a name."""
    return NUMPY_DTYPES[_BY_NAME[name]].itemsize


def public_dtype(name: str) -> np.dtype[Any] | Literal["bf16"]:
    """Return the element type of a name; bfloat16, which numpy lacks, is its name."""
    return "bf16" if name == "bf16" else NUMPY_DTYPES[_BY_NAME[name]]


def encode(array: NDArray[Any], dtype: pb.Dtype = pb.DTYPE_F32) -> list[Chunk]:
    """Serialize a contiguous array in wire form as a Tensor. The last chunk is a view of the array."""
    header = pb.Tensor(dtype=dtype, shape=array.shape).SerializeToString()
    data = array.reshape(-1).view(np.uint8).data if array.size else b""
    return [header, *field(3, [data])]


class Value:
    """A tensor in wire form: row-major and little-endian, with bfloat16 as uint16."""

    def __init__(self, dtype: pb.Dtype, array: NDArray[Any]) -> None:
        self.number = dtype
        self.array = array

    @classmethod
    def of(cls, array: ArrayLike, what: str = "array") -> Value:
        """Return an array in wire form, without a copy where it is contiguous and little-endian."""
        given = host_array(array, what)
        number = dtype_number(given.dtype, what)
        if number == pb.DTYPE_BF16:
            return cls(number, np.asarray(given, order="C").view(NUMPY_DTYPES[number]))
        return cls(number, given.astype(NUMPY_DTYPES[number], order="C", copy=False))

    @classmethod
    def received(cls, tensor: pb.Tensor) -> Value:
        """Return a view of a tensor, which is validated."""
        dtype = NUMPY_DTYPES.get(tensor.dtype)
        if dtype is None:
            raise malformed(f"dtype {tensor.dtype}")
        shape, data = tuple(tensor.shape), tensor.data
        count = int(np.prod(shape, dtype=object)) if shape else 1
        if any(extent < 0 for extent in shape) or count * dtype.itemsize != len(data):
            raise malformed(f"shape {shape} with {len(data)} bytes")
        return cls(tensor.dtype, np.frombuffer(data, dtype=dtype).reshape(shape))

    def __repr__(self) -> str:
        return f"{_NAMES[self.number]}{list(self.array.shape)}"

    @property
    def type(self) -> TensorType:
        """Element type and shape."""
        return TensorType(_NAMES[self.number], self.array.shape)

    @property
    def location(self) -> tuple[Any, ...]:
        """Where in memory the elements are, equal for views of the same elements."""
        return self.array.__array_interface__["data"][0], self.array.shape, self.number

    def encode(self) -> list[Chunk]:
        """Serialize as a Tensor. The last chunk is a view of the elements."""
        return encode(self.array, self.number)

    def numpy(self, bfloat16: bool = False) -> NDArray[Any]:
        """Return a read-only array. Elements of bfloat16 become float32, or with `bfloat16` stay those of ml_dtypes.

        Raises:
            MissingPackageError: ml_dtypes, which gives numpy bfloat16, is asked for and not installed.
        """
        array = self.array.view()
        if self.number == pb.DTYPE_BF16 and bfloat16:
            array = array.view(optional_module("ml_dtypes", "bfloat16", "bfloat16").bfloat16)
        elif self.number == pb.DTYPE_BF16:
            array = np.asarray(array.astype(np.uint32) << 16).view(np.float32)
        elif self.number == pb.DTYPE_BOOL:
            # Any byte but 0 is true on the wire; numpy needs 1.
            array = np.asarray(array.view(np.uint8) != 0)
        array.setflags(write=False)
        return array


def to_array(tensor: pb.Tensor) -> NDArray[Any]:
    """Return a read-only view of a tensor; bfloat16, which numpy lacks, becomes float32."""
    return Value.received(tensor).numpy()
