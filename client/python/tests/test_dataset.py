"""Data sets: what is sent and decoded, and pairs of a daemon compared with CPython."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from fake_daemon import serving

from accelerd import Client, DatasetPair, KernelFault
from accelerd._proto import kernel_pb2 as pb
from accelerd.aio import AsyncClient

ROWS = 8
COLUMNS = 12


def test_a_request_is_sent_and_its_pairs_are_decoded() -> None:
    with serving() as daemon, Client(daemon.target, timeout=10) as client:
        [first, second] = client.generate_dataset(
            2,
            seed=5,
            categories=["math", "nested_loop"],
            dialects=["warp"],
            targets=["wasm"],
            first_index=7,
            validation_percent=0,
            device="cpu",
        )
        [sent] = daemon.kernels.datasets
    assert (first.index, second.index, first.name) == (7, 8, "nested_loop_7")
    assert (first.category, first.dialect, first.split) == ("nested_loop", "warp", "test")
    assert first.files == {"nested_loop.wasm": b"\0asm"}
    [run] = first.runs
    assert (run.device, run.agreement, run.max_ulp_error, run.execution_time) == ("cpu", "close", 1, 3e-6)
    assert list(sent.categories) == [pb.DATASET_CATEGORY_MATH, pb.DATASET_CATEGORY_NESTED_LOOP]
    assert (sent.pair_count, sent.seed, sent.validation_percent, sent.HasField("test_percent")) == (2, 5, 0, False)
    assert (list(sent.dialects), list(sent.targets)) == ([pb.KERNEL_DIALECT_WARP], [pb.KERNEL_TARGET_WASM])
    assert sent.device == pb.KERNEL_DEVICE_CPU


def test_the_asyncio_client_streams_pairs() -> None:
    async def indices(target: str) -> list[int]:
        async with AsyncClient(target, timeout=10) as client:
            return [pair.index async for pair in client.generate_dataset(3)]

    with serving() as daemon:
        assert asyncio.run(indices(daemon.target)) == [0, 1, 2]


def test_unknown_names_are_refused(client: Client) -> None:
    unknown: Any = "poetry"
    with pytest.raises(ValueError, match=r"categories: expected one of 'arithmetic'.*got 'poetry'"):
        client.generate_dataset(1, categories=[unknown])


def test_pairs_in_python_compute_what_cpython_computes(client: Client) -> None:
    pairs = list(client.generate_dataset(40, seed=2, dialects=["python"]))
    assert len(pairs) == 40
    random = np.random.default_rng(1)
    for pair in pairs:
        check(client, pair, random)


def check(client: Client, pair: DatasetPair, random: np.random.Generator) -> None:
    """Launch a kernel on random rows, and call its function in CPython for each."""
    kernel = client.compile(pair.source)
    inputs = [param for param in kernel.params if param.name not in kernel.written_arrays]
    arguments = {param.name: drawn(param.components[0].dtype, param.dims, random) for param in inputs}
    namespace: dict[str, Any] = {}
    exec(pair.source, namespace)
    rows = [tuple(arguments[param.name][row].tolist() for param in inputs) for row in range(ROWS)]
    try:
        expected = np.array([namespace[pair.name](*row) for row in rows], dtype=float)
    except (ArithmeticError, ValueError):
        with pytest.raises(KernelFault):
            client.launch(kernel, **arguments)
        return
    results = client.launch(kernel, **arguments)
    columns = results.values() if isinstance(results, dict) else [results]
    actual = np.stack([np.asarray(column, dtype=float) for column in columns], axis=-1).reshape(expected.shape)
    tolerance = 0.0 if pair.bit_exact else 1e-12
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=0.0, err_msg=pair.source)


def drawn(dtype: str, dims: int, random: np.random.Generator) -> np.ndarray[Any, Any]:
    shape = (ROWS, COLUMNS)[:dims]
    if dtype == "i64":
        return random.integers(0, 1000, shape)
    return random.uniform(-2.0, 2.0, shape)
