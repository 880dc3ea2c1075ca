"""Tests of the conversion between arrays and tensors."""

from __future__ import annotations

import numpy as np
import pytest

from accelerd import AccelerdError
from accelerd._proto import tensor_pb2 as pb
from accelerd._tensor import encode, to_array, to_rows


def to_tensor(rows: object) -> pb.Tensor:
    return pb.Tensor.FromString(b"".join(encode(to_rows(rows))))


def test_rows_survive_the_wire_whatever_their_layout() -> None:
    rows = np.arange(12, dtype=np.float64).reshape(3, 4)
    for given in (rows, rows.tolist(), np.asfortranarray(rows), rows.astype(">f4"), rows[:, ::-1][:, ::-1]):
        np.testing.assert_array_equal(to_array(to_tensor(given)), rows)


def test_a_vector_is_one_row_and_more_dimensions_are_refused() -> None:
    assert list(to_tensor([1.0, 2.0]).shape) == [1, 2]
    assert list(to_tensor(np.zeros((0, 3))).shape) == [0, 3]
    with pytest.raises(ValueError, match=r"vectors: expected rows of numbers, got an array of shape \(1, 2, 3\)"):
        to_tensor(np.zeros((1, 2, 3)))
    for wrong in ([[1.0], [1.0, 2.0]], "text", [["a"]], None):
        with pytest.raises(ValueError, match="vectors: expected rows of numbers"):
            to_tensor(wrong)


def test_bfloat16_is_widened() -> None:
    tensor = pb.Tensor(dtype=pb.DTYPE_BF16, shape=[3], data=np.array([0x3F80, 0xC000, 0x7F80], "<u2").tobytes())
    np.testing.assert_array_equal(to_array(tensor), np.array([1.0, -2.0, np.inf], np.float32))


@pytest.mark.parametrize(
    "lie",
    [
        pb.Tensor(dtype=pb.DTYPE_F32, shape=[2, 2], data=bytes(4)),
        pb.Tensor(dtype=pb.DTYPE_F32, shape=[-1, -1], data=bytes(4)),
        pb.Tensor(dtype=pb.DTYPE_F32, shape=[1 << 62, 1 << 62], data=bytes(4)),
        pb.Tensor(dtype=99, shape=[1], data=bytes(4)),
    ],
)
def test_tensors_that_lie_are_refused(lie: pb.Tensor) -> None:
    with pytest.raises(AccelerdError):
        to_array(lie)
