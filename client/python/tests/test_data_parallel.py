"""Data-parallel calls: what they say of operands and outputs, and what they refuse before they are sent."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from tensor_reference import Reference

from accelerd import Client, DataParallel
from accelerd._proto import tensor_pb2 as pb
from accelerd.aio import AsyncClient

X = np.arange(6, dtype=np.float32).reshape(2, 3)
W = np.ones((3, 4), np.float32)


def options(request: pb.ExecuteRequest) -> dict[str, Any]:
    """Return the options of a request, with the operands as their shapes and the outputs as their operations."""
    shapes = {one.name: tuple(one.value.shape) for one in request.inputs}
    ops = {one.name: one.op for one in request.nodes}
    found = request.data_parallel
    return {
        "devices": list(found.devices),
        "inputs": [(shapes[one.name], one.dim) for one in found.inputs],
        "outputs": [(ops[one.name], one.combination, one.dim) for one in found.outputs],
    }


def test_operands_and_outputs_are_named_in_the_request(reference: tuple[Reference, str], local: Client) -> None:
    x, w = local.tensor(X), local.tensor(W)
    product = x @ w
    loss, total, turned = product.mean(), product.sum(), product.T
    parallel = DataParallel([x, (w, -1)], ["cuda:0", "cuda:1"], mean=[loss], sum=[total], concat=[(turned, 1)])
    found = local.execute(product, loss, total, turned, data_parallel=parallel)
    np.testing.assert_array_equal(found[0], X @ W)
    assert options(reference[0].requests[-1]) == {
        "devices": ["cuda:0", "cuda:1"],
        "inputs": [((2, 3), 0), ((3, 4), -1)],
        "outputs": [
            ("sum", pb.SHARD_COMBINATION_SUM, 0),
            ("mean", pb.SHARD_COMBINATION_MEAN, 0),
            ("permute", pb.SHARD_COMBINATION_CONCAT, 1),
        ],
    }
    # What is computed is no output any more, and without outputs there is no call.
    calls = len(reference[0].requests)
    local.execute(loss, data_parallel=parallel)
    assert len(reference[0].requests) == calls


def test_arrays_of_expressions_are_split_without_a_tensor_of_their_own(
    reference: tuple[Reference, str], local: Client
) -> None:
    local.execute(X @ local.tensor(W), data_parallel=DataParallel([X]))
    assert options(reference[0].requests[-1]) == {"devices": [], "inputs": [((2, 3), 0)], "outputs": []}


def test_results_are_kept_and_graphs_are_split_as_well(reference: tuple[Reference, str], local: Client) -> None:
    x = local.upload(X)
    total = (x * 2.0).sum()
    local.keep(total, data_parallel=DataParallel([x], ["cpu"] * 2, sum=[total]))
    request = reference[0].requests[-1]
    assert ([one.keep for one in request.outputs], len(request.data_parallel.inputs)) == ([True], 1)
    with local.graph(data_parallel=DataParallel([x])) as graph:
        mean = graph.output((x + 1.0).mean())
        graph.data_parallel = DataParallel([x], mean=[mean])
    assert options(reference[0].requests[-1])["outputs"] == [("mean", pb.SHARD_COMBINATION_MEAN, 0)]
    (x + 2.0).numpy()
    assert not reference[0].requests[-1].HasField("data_parallel")


def test_asyncio_calls_are_split(reference: tuple[Reference, str]) -> None:
    async def run() -> None:
        async with AsyncClient(reference[1], timeout=10) as client:
            x = client.tensor(X)
            total = x.sum()
            parallel = DataParallel([x], sum=[total])
            assert await client.execute(total, data_parallel=parallel) == (X.sum(),)
            assert reference[0].requests[-1].HasField("data_parallel")
            kept = (x * 2.0).sum()
            await client.keep(kept, data_parallel=DataParallel([x], sum=[kept]))
            assert reference[0].requests[-1].HasField("data_parallel")
            async with client.graph(data_parallel=DataParallel([x])) as graph:
                graph.output(x + 1.0)
            assert reference[0].requests[-1].HasField("data_parallel")

    asyncio.run(run())


def test_what_is_no_operand_or_output_is_refused(reference: tuple[Reference, str], local: Client) -> None:
    x, w = local.tensor(X), local.tensor(W)
    product = x @ w
    cases: list[tuple[DataParallel, type[Exception], str]] = [
        (DataParallel([w * 2.0]), ValueError, r"split\[0\]: expected an array or a resident tensor, got mul"),
        (DataParallel([x, local.tensor(X + 1)]), ValueError, r"split\[1\]: expected an operand of the outputs, got <T"),
        (DataParallel([x], sum=[product.sum()]), ValueError, r"sum\[0\]: expected an output of the call, got sum"),
        (DataParallel([x], "cuda:0"), TypeError, "devices: expected a sequence of str, got 'cuda:0'"),
        (DataParallel([3]), TypeError, r"split\[0\]: expected a tensor or an array, got int"),  # type: ignore[list-item]
    ]
    for parallel, kind, message in cases:
        with pytest.raises(kind, match=message):
            local.execute(product, data_parallel=parallel)
    assert not reference[0].requests
