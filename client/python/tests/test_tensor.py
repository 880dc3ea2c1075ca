"""Arrays on the wire."""

from __future__ import annotations

import numpy as np
import pytest

from accelerd import AccelerdError
from accelerd._proto import tensor_pb2 as pb
from accelerd._tensor import to_array, to_tensor


def test_rows_survive_the_wire_whatever_their_layout() -> None:
    rows = np.arange(12, dtype=np.float64).reshape(3, 4)
    for given in (rows, rows.tolist(), np.asfortranarray(rows), rows.astype(">f4"), rows[:, ::-1][:, ::-1]):
        np.testing.assert_array_equal(to_array(to_tensor(given)), rows)


def test_a_vector_is_one_row_and_more_dimensions_are_refused() -> None:
    assert list(to_tensor([1.0, 2.0]).shape) == [1, 2]
    with pytest.raises(ValueError):
        to_tensor(np.zeros((1, 2, 3)))


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
