"""Arrays to tensors and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._call import malformed
from ._proto import tensor_pb2 as pb

_DTYPES: dict[int, np.dtype[Any]] = {
    pb.DTYPE_F16: np.dtype("<f2"),
    pb.DTYPE_F32: np.dtype("<f4"),
    pb.DTYPE_F64: np.dtype("<f8"),
    pb.DTYPE_I8: np.dtype("i1"),
    pb.DTYPE_I32: np.dtype("<i4"),
    pb.DTYPE_I64: np.dtype("<i8"),
    pb.DTYPE_U8: np.dtype("u1"),
}


def to_tensor(rows: ArrayLike) -> pb.Tensor:
    """Rows of floats; one vector counts as one row. Copies once, onto the wire."""
    array = np.ascontiguousarray(rows, dtype="<f4")
    if array.ndim == 1:
        array = array[np.newaxis, :]
    if array.ndim != 2:
        raise ValueError(f"expected rows of numbers, got shape {array.shape}")
    return pb.Tensor(dtype=pb.DTYPE_F32, shape=array.shape, data=array.tobytes())


def to_array(tensor: pb.Tensor) -> NDArray[Any]:
    """A read-only view of the tensor's numbers."""
    dtype = _DTYPES.get(tensor.dtype)
    if dtype is None:
        raise malformed(f"dtype {tensor.dtype}")
    shape = tuple(tensor.shape)
    count = int(np.prod(shape, dtype=object)) if shape else 1
    if any(extent < 0 for extent in shape) or count * dtype.itemsize != len(tensor.data):
        raise malformed(f"shape {shape} with {len(tensor.data)} bytes")
    return np.frombuffer(tensor.data, dtype=dtype).reshape(shape)
