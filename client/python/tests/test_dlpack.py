"""Exchange of arrays with other libraries: DLPack, the buffer protocol and `__array__`, without copies."""

from __future__ import annotations

import array
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tensor_reference import serve

from accelerd import Client
from accelerd._tensor import Value
from accelerd.aio import AsyncClient

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module")
def local() -> Iterator[Client]:
    with serve() as (_, target), Client(target, timeout=10) as client:
        yield client


class Producer:
    """An array of another library, on some device, that numpy knows by DLPack alone."""

    def __init__(self, values: Any, device: int = 1) -> None:
        self._values = values
        self._device = device

    def __dlpack__(self, **options: Any) -> Any:
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self._device, 0)


class OnGpu(Producer):
    """One that also says how CUDA libraries find it, and refuses to become an array of numpy."""

    __cuda_array_interface__: Any = {}  # noqa: RUF012

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError("implicit conversion to a host array")


class OnlyCuda:
    __cuda_array_interface__: Any = {}  # noqa: RUF012


def elements(tensor: Any) -> Any:
    """The elements that a call would send."""
    content = tensor._expression.content
    assert isinstance(content, Value)
    return content.array


@pytest.mark.parametrize("dtype", ["?", "i1", "i4", "u2", "u8", "f2", "f4", "f8"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_arrays_of_other_libraries_are_read_without_a_copy(dtype: str, shape: tuple[int, ...]) -> None:
    client = Client("nowhere:1")
    given = np.ones(shape, dtype)
    for tensor in (client.tensor(Producer(given)), client.xp.from_dlpack(Producer(given)), client.xp.asarray(given)):
        assert (tensor.shape, tensor.dtype) == (shape, np.dtype(dtype))
        assert np.shares_memory(elements(tensor), given) or not given.size
    assert not np.shares_memory(elements(client.xp.from_dlpack(Producer(given), copy=True)), given)
    assert client.tensor(Producer(given), dtype="f64").dtype == np.float64


def test_buffers_are_read_without_a_copy() -> None:
    client = Client("nowhere:1")
    numbers, text = array.array("d", [1.5, 2.5]), bytearray(b"\x01\x02")
    for given, dtype in ((numbers, "f8"), (memoryview(numbers), "f8"), (text, "u1"), (memoryview(X), "f4")):
        tensor = client.tensor(given)
        assert tensor.dtype == np.dtype(dtype) and np.shares_memory(elements(tensor), np.asarray(given))
        assert client.xp.asarray(given, copy=False).dtype == np.dtype(dtype)


def test_what_is_not_contiguous_is_copied(local: Client) -> None:
    np.testing.assert_array_equal(local.tensor(Producer(X.T)).numpy(), X.T)
    for given, dtype in ((X.T, None), ([1.0], None), (X, "f64")):
        with pytest.raises(ValueError, match="copy: expected None or True"):
            local.xp.asarray(given, dtype=dtype, copy=False)


def test_arrays_of_array_api_strict_go_there_and_back(local: Client) -> None:
    import array_api_strict as strict

    given = strict.asarray(X)
    tensor = local.tensor(given) + given.__array__()
    np.testing.assert_array_equal(np.asarray(strict.from_dlpack(tensor)), 2 * X)


def test_uploads_take_arrays_of_other_libraries(local: Client) -> None:
    with local.upload(Producer(X)) as tensor:
        np.testing.assert_array_equal(tensor.numpy(), X)
    with local.upload(Producer(X), dtype="f64") as tensor:
        assert tensor.dtype == np.float64


@pytest.mark.parametrize(
    ("given", "device"),
    [(Producer(X, 2), "CUDA"), (OnGpu(X, 10), "ROCm"), (OnlyCuda(), "CUDA"), (Producer(X, 99), "99")],
)
def test_arrays_on_a_gpu_are_refused(local: Client, given: Any, device: str) -> None:
    kind = type(given).__name__
    message = rf"expected an array in the memory of the host, got {kind} on .*{device}.*; copy it .*x\.cpu\(\)"
    for refused in (local.tensor, local.upload, local.xp.asarray, AsyncClient("nowhere:1").tensor):
        with pytest.raises(BufferError, match=message):
            refused(given)


def test_other_objects_are_refused(local: Client) -> None:
    with pytest.raises(TypeError, match="x: expected an object with __dlpack__, got list"):
        local.xp.from_dlpack([1])
    with pytest.raises(TypeError, match="array: expected one of f16"):
        local.tensor(object())


def test_a_tensor_is_exported_without_a_copy(local: Client) -> None:
    tensor = local.tensor(X) * 2
    assert tensor.__dlpack_device__() == (1, 0)
    found = np.from_dlpack(tensor)
    np.testing.assert_array_equal(found, X * 2)
    assert np.shares_memory(found, tensor.numpy()) and not found.flags["W"]
    assert np.asarray(np.from_dlpack(local.tensor(X), copy=True)).flags["W"]
    # A consumer that does not know read-only arrays gets a copy, as it could write.
    assert tensor.__dlpack__() is not None
    with pytest.raises(BufferError, match=r"copy: expected None or True, got False: the array is read-only"):
        tensor.__dlpack__(copy=False)


def test_a_tensor_is_exported_to_the_host_only(local: Client) -> None:
    tensor = local.tensor(X)
    assert tensor.__dlpack__(dl_device=(1, 0), max_version=(1, 0)) is not None
    with pytest.raises(BufferError, match=r"dl_device: expected \(1, 0\), the memory of the host, got \(2, 0\)"):
        tensor.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="stream: expected None"):
        tensor.__dlpack__(stream=1)
    assert not hasattr(AsyncClient("nowhere:1").tensor(X), "__dlpack__")


def test_a_tensor_of_another_client_comes_by_the_host(local: Client) -> None:
    with serve() as (_, target), Client(target, timeout=10) as other:
        np.testing.assert_array_equal(other.xp.from_dlpack(local.tensor(X) + 1).numpy(), X + 1)
    tensor = local.tensor(X) + 1
    assert local.xp.from_dlpack(tensor)._expression is tensor._expression


def test_bfloat16_is_exported_as_float32(local: Client) -> None:
    tensor = local.tensor(X[0])
    tensor._expression.content = Value(2, (X[0].view(np.uint32) >> 16).astype("<u2"))
    assert (tensor.dtype, np.from_dlpack(tensor).dtype) == ("bf16", np.float32)
    np.testing.assert_array_equal(np.from_dlpack(tensor), X[0])


def test_tensors_move_between_devices(local: Client) -> None:
    tensor = local.tensor(X) + 1
    assert tensor.device == "default" and tensor.to_device("default") is tensor
    there = tensor.to_device("cuda:1")
    assert (there.device, tensor.device) == ("cuda:1", "default")
    assert there.to_device("cpu").device == "cpu" and there.to_device("cuda:1") is there
    np.testing.assert_array_equal(there.to_device("default").numpy(), X + 1)
    with pytest.raises(ValueError, match="stream: expected None, got 3"):
        tensor.to_device("cpu", stream=3)


@pytest.mark.parametrize(
    ("given", "dtype", "error", "expected"),
    [
        ([[1, 2], [3]], None, ValueError, "an array, or numbers in rows of equal length"),
        ("abc", "f32", ValueError, "numbers of float32"),
        ([300], "u8", OverflowError, "numbers of uint8"),
    ],
)
def test_lists_that_are_no_arrays_are_named(
    local: Client, given: Any, dtype: Any, error: type[Exception], expected: str
) -> None:
    with pytest.raises(error, match=f"^array: expected {expected}, got {type(given).__name__}: "):
        local.tensor(given, dtype=dtype)


MASKED = np.ma.array([1.0, 2.0], mask=[False, True])
INDICES = np.ma.array([1, 2], mask=[False, True])


def scaled(x: float) -> float:
    return 2.0 * x


@pytest.mark.parametrize(
    ("what", "call"),
    [
        ("array", lambda client, masked: client.tensor(masked)),
        ("array", lambda client, masked: client.tensor(masked, dtype="f32")),
        ("array", lambda client, masked: client.tensor([[1.0, 2.0], masked])),
        ("array", lambda client, masked: client.tensor([1.0, np.ma.masked])),
        ("obj", lambda client, masked: client.xp.asarray(masked)),
        ("operand 1", lambda client, masked: client.tensor(X[0, :2]) + masked),
        ("fill_value", lambda client, masked: client.xp.full(2, masked)),
        ("index 0", lambda client, masked: client.tensor(X)[INDICES]),
        ("index 0", lambda client, masked: client.tensor(X)[masked > 1.0]),
        ("output", lambda client, masked: client.compare(masked, masked)),
        ("result", lambda client, masked: client.verify(masked, scaled, cases={"x": [1.0, 2.0]})),
        (r"cases\['x'\]", lambda client, masked: client.verify(scaled, scaled, cases={"x": masked})),
        (r"cases\['x'\]", lambda client, masked: client.verify(scaled, scaled, cases={"x": [masked]})),
        ("vectors", lambda client, masked: client.collection("c").search(vectors=masked)),
        ("vectors", lambda client, masked: client.collection("c").upsert([1, 2], vectors=[masked, masked])),
        ("ids", lambda client, masked: client.collection("c").upsert(INDICES, vectors=X)),
        (
            r"payloads\['p'\]",
            lambda client, masked: client.collection("c").upsert([1, 2], vectors=X, payloads={"p": masked}),
        ),
    ],
)
def test_masked_arrays_are_refused(local: Client, what: str, call: Any) -> None:
    message = rf"^{what}: expected an array without a mask, got Masked\w+; x\.filled\(value\) gives"
    with pytest.raises(TypeError, match=message):
        call(local, MASKED)
