"""Conversion between arrays and tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._errors import malformed
from ._proto import tensor_pb2 as pb
from ._wire import Chunk, field

_DTYPES: dict[int, np.dtype[Any]] = {
    pb.DTYPE_F16: np.dtype("<f2"),
    pb.DTYPE_BF16: np.dtype("<u2"),
    pb.DTYPE_F32: np.dtype("<f4"),
    pb.DTYPE_F64: np.dtype("<f8"),
    pb.DTYPE_I8: np.dtype("i1"),
    pb.DTYPE_I32: np.dtype("<i4"),
    pb.DTYPE_I64: np.dtype("<i8"),
    pb.DTYPE_U8: np.dtype("u1"),
}


def to_rows(rows: ArrayLike, what: str = "vectors") -> NDArray[np.float32]:
    """Return a contiguous float32 matrix; a vector becomes one row."""
    got = type(rows).__name__
    try:
        given = np.asarray(rows)
    except ValueError as wrong:
        raise ValueError(f"{what}: expected rows of numbers of equal length, got {got}: {wrong}") from None
    if given.dtype.kind not in "fiub":
        raise ValueError(f"{what}: expected rows of numbers, got {got} of {given.dtype}")
    array = np.ascontiguousarray(given, dtype="<f4")
    if array.ndim == 1:
        array = array[np.newaxis, :]
    if array.ndim != 2:
        raise ValueError(f"{what}: expected rows of numbers, got an array of shape {array.shape}")
    return array


def encode(rows: NDArray[np.float32]) -> list[Chunk]:
    """Serialize contiguous rows as a Tensor. The last chunk is a view of the rows."""
    header = pb.Tensor(dtype=pb.DTYPE_F32, shape=rows.shape).SerializeToString()
    data = rows.reshape(-1).view(np.uint8).data if rows.size else b""
    return [header, *field(3, [data])]


def to_array(tensor: pb.Tensor) -> NDArray[Any]:
    """Return a read-only view of a tensor; bfloat16, which numpy lacks, becomes float32."""
    dtype = _DTYPES.get(tensor.dtype)
    if dtype is None:
        raise malformed(f"dtype {tensor.dtype}")
    shape, data = tuple(tensor.shape), tensor.data
    count = int(np.prod(shape, dtype=object)) if shape else 1
    if any(extent < 0 for extent in shape) or count * dtype.itemsize != len(data):
        raise malformed(f"shape {shape} with {len(data)} bytes")
    array = np.frombuffer(data, dtype=dtype).reshape(shape)
    if tensor.dtype == pb.DTYPE_BF16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array
