"""Arrays of bfloat16, the type that ml_dtypes gives numpy."""

from __future__ import annotations

import asyncio
import sys
import uuid
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from accelerd import Client, MissingPackageError
from accelerd.aio import AsyncClient
from conftest import Daemon

BF16 = ml_dtypes.bfloat16
X = np.array([[1, 1 + 2**-7, -3], [np.inf, -0.0, 2**-130]], BF16)


def bits(array: Any) -> Any:
    return np.ascontiguousarray(array).view(np.uint16).tolist()


def test_elements_of_bfloat16_are_sent_as_they_are(client: Client) -> None:
    for given in (X, np.asfortranarray(X), X[:, ::-1], X[0], X[0, 0], np.zeros((0, 3), BF16)):
        tensor = client.tensor(given)
        assert tensor.dtype == "bf16" and tensor.nbytes == given.size * 2
        array = (tensor * 1).numpy(bfloat16=True)
        assert array.dtype == BF16 and not array.flags["W"] and bits(array) == bits(given)
        assert tensor.numpy().dtype == np.float32 and bits(tensor.numpy().astype(BF16)) == bits(given)
    (total, plain) = client.execute(client.tensor(X[0]) + X[0], client.tensor(np.zeros(1)), bfloat16=True)
    assert (total.dtype, plain.dtype) == (BF16, np.float64) and bits(total) == bits(X[0] + X[0])


def test_bfloat16_names_the_type_wherever_one_is_given(client: Client) -> None:
    x = client.tensor(np.array([1 + 2**-9, 1 + 3 * 2**-8], np.float32))
    for dtype in (BF16, np.dtype(BF16), "bf16", "bfloat16"):
        converted = x.to(dtype)
        assert converted.dtype == "bf16" and bits(converted.numpy(bfloat16=True)) == bits(x.numpy().astype(BF16))
        assert client.tensor(x.numpy(), dtype=dtype).dtype == "bf16"
    array = np.asarray(x.to("bf16"), dtype=BF16)
    assert array.dtype == BF16 and bits(array) == bits(x.numpy().astype(BF16))
    assert np.asarray(x, dtype=BF16).dtype == BF16
    assert [*x.to("bf16")][0].dtype == "bf16"


def test_resident_tensors_and_comparisons(client: Client) -> None:
    with client.upload(X) as kept:
        assert kept.dtype == "bf16" and bits(kept.numpy(bfloat16=True)) == bits(X)
        assert client.compare(kept, X, exact=True).passed
    assert not client.compare(X[0], X[0] + np.array(1, BF16)).passed


def test_vectors_of_bfloat16(client: Client) -> None:
    rows = np.eye(3).astype(BF16)
    collection = client.create_collection(f"t-{uuid.uuid4()}", dimensions=3)
    collection.upsert([1, 2, 3], vectors=rows)
    assert collection.search(vectors=rows[1], k=1)[0][0].id == 2
    assert client.find_similar(rows, rows, 1).indices.tolist() == [[0], [1], [2]]
    assert len(client.cluster(rows, 2).centers) == 2
    collection.delete()


def test_the_asyncio_client_has_the_same(daemon: Daemon) -> None:
    async def run() -> Any:
        async with AsyncClient(daemon.grpc) as client:
            return await (client.tensor(X) * 1).numpy(bfloat16=True)

    assert bits(asyncio.run(run())) == bits(X)


def test_without_ml_dtypes_the_error_names_it(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    x = client.tensor(np.float32([1])).to("bf16")
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    assert x.numpy().dtype == np.float32
    with pytest.raises(MissingPackageError, match=r"bfloat16 needs ml_dtypes, .*: pip install 'accelerd\[bfloat16\]'"):
        x.numpy(bfloat16=True)


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.int4])
def test_other_types_of_ml_dtypes_are_refused_by_name(client: Client, dtype: Any) -> None:
    with pytest.raises(TypeError, match=f"array: expected one of f16, bf16, .*, got {np.dtype(dtype).name}"):
        client.tensor(np.zeros(3, dtype))
