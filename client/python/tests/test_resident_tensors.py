"""Resident tensors: what is uploaded, kept, downloaded and freed, against a daemon that computes with numpy."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from tensor_reference import Reference

from accelerd import Client, NotFoundError
from accelerd._proto import tensor_pb2 as pb
from accelerd.aio import AsyncClient

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_an_uploaded_array_is_an_operand_that_is_not_sent_again(
    reference: tuple[Reference, str], local: Client
) -> None:
    x = local.upload(X, device="cuda:1", ttl=2.5)
    assert (x.shape, x.ndim, x.dtype) == ((2, 3), 2, np.float32)
    assert x.resident is not None
    assert (x.resident.device, x.resident.size_bytes) == ("cuda:1", 24)
    assert x.resident.expires.timestamp() == 2.5
    np.testing.assert_array_equal((x + X).numpy(), X + X)
    sources = [one.WhichOneof("source") for one in reference[0].requests[-1].inputs]
    assert sorted(sources, key=str) == ["handle", "value"]
    np.testing.assert_array_equal(x.numpy(), X)
    assert repr(x) == "<Tensor f32[2, 3] on cuda:1>"


def test_kept_results_stay_on_the_daemon(reference: tuple[Reference, str], local: Client) -> None:
    servicer = reference[0]
    weights = local.upload(X)
    for _ in range(3):
        before, weights = weights, (weights - weights * 0.5).keep(ttl=9)
        before.free()
    request = servicer.requests[-1]
    assert (request.keep_ttl.seconds, [output.keep for output in request.outputs]) == (9, [True])
    assert len(servicer.resident) == 1
    np.testing.assert_array_equal(weights.numpy(), X / 8)
    # One call computes several; arrays are uploaded, and what is resident already stays.
    total, array = weights.sum(), local.tensor(X)
    calls = len(servicer.requests)
    assert local.keep(total, array, weights) == (total, array, weights)
    assert (len(servicer.requests), len(servicer.uploads), len(servicer.resident)) == (calls + 1, 2, 3)
    assert float(total) == X.sum() / 8


def test_a_large_array_is_uploaded_in_parts(reference: tuple[Reference, str], local: Client) -> None:
    large = np.arange(1_500_000, dtype=np.int16)
    x = local.upload(large[::-1])
    parts = reference[0].uploads[0]
    assert [len(part.data) for part in parts] == [1 << 20, 1 << 20, 3_000_000 - (2 << 20)]
    assert [part.HasField("header") for part in parts] == [True, False, False]
    np.testing.assert_array_equal(x.numpy(), large[::-1])
    with Client(reference[1], max_message_bytes=1000) as narrow:
        np.testing.assert_array_equal(narrow.upload(large[:900]).numpy(), large[:900])
    assert max(len(part.data) for part in reference[0].uploads[1]) == 500


@pytest.mark.parametrize("array", [np.float64(1.5), np.zeros((0,), np.uint8), np.zeros((3, 0), np.int64), X > 2])
def test_scalars_and_empty_arrays_come_back(local: Client, array: np.ndarray) -> None:
    found = local.upload(array).numpy()
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(found, array)


def test_a_block_frees_its_tensor(local: Client) -> None:
    with local.upload(X) as x:
        assert [one.handle for one in local.list_tensors()] == [x.resident and x.resident.handle]
        copy = local.copy(x, "cpu")
    assert [one.device for one in local.list_tensors()] == ["cpu"]
    with pytest.raises(NotFoundError):
        x.numpy()
    with local.resident(local.list_tensors()[0]) as same:
        np.testing.assert_array_equal(same.numpy(), X)
    assert local.list_tensors() == []
    with pytest.raises(NotFoundError):
        copy.free()


def test_only_resident_tensors_can_be_freed_and_copied(local: Client) -> None:
    with pytest.raises(ValueError, match=r"tensors\[0\]: expected a resident tensor, .* got an array"):
        local.free(local.tensor(X))
    with pytest.raises(ValueError, match=r"tensors\[0\]: .* got an operation that is not computed"):
        local.copy(local.tensor(X) + 1, "cpu")
    for ttl in (0, -1, float("nan"), 1e11):
        with pytest.raises(ValueError, match=r"ttl: expected a positive number of seconds below 1e\+10, got"):
            local.upload(X, ttl=ttl)
    with pytest.raises(TypeError, match="ttl: expected a number of seconds, got str"):
        local.upload(X, ttl="x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected an array of bfloat16"):
        local.upload(X, dtype="bf16")


def test_a_call_that_keeps_is_not_idempotent() -> None:
    from accelerd._graph import EXECUTE
    from accelerd._methods import TensorService

    assert (EXECUTE.is_idempotent, TensorService.EXECUTE.is_idempotent) == (True, False)
    assert EXECUTE.path == TensorService.EXECUTE.path


def test_the_asyncio_client_does_the_same(reference: tuple[Reference, str]) -> None:
    async def run() -> None:
        async with AsyncClient(reference[1], timeout=10) as client:
            async with await client.upload(X) as x:
                total = await (x + X).sum().keep()
                np.testing.assert_array_equal(await x, X)
                copy = await client.copy(x, "cpu")
            assert await total == 2 * X.sum()
            assert [one.device for one in await client.list_tensors()] == ["cuda:0", "cpu"]
            await client.free(total, copy)
            assert await client.list_tensors() == []
            with pytest.raises(NotFoundError):
                await x

    asyncio.run(run())


def test_a_download_that_is_cut_short_is_malformed(reference: tuple[Reference, str], local: Client) -> None:
    x = local.upload(X)
    kept, tensor = next(iter(reference[0].resident.values()))
    for data in (tensor.data[:-1], tensor.data + b"1"):
        reference[0].resident[kept.handle] = (kept, pb.Tensor(data=data))
        with pytest.raises(Exception, match="malformed response: a download of"):
            x.numpy()
