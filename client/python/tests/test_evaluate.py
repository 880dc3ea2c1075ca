"""Evaluations of CUDA C++: what is sent and decoded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fake_daemon import FakeDaemon, serving
from google.protobuf.duration_pb2 import Duration

from accelerd import (
    AccelerdError,
    Client,
    CudaInputOutput,
    CudaOutput,
    CudaResources,
    EvaluationMismatch,
    SmallOutput,
)
from accelerd._proto import kernel_pb2 as pb
from accelerd._proto import tensor_pb2
from accelerd._tensor import to_array
from accelerd.aio import AsyncClient

SOURCE = 'extern "C" __global__ void k(const float* x, float* y, double* z, int n) {}'


def doubled(x: float) -> float:
    return 2.0 * x


@pytest.fixture
def daemon() -> Iterator[FakeDaemon]:
    with serving() as daemon:
        yield daemon


@pytest.fixture
def local(daemon: FakeDaemon) -> Iterator[Client]:
    with Client(daemon.target, timeout=10) as client:
        yield client


def params() -> dict[str, Any]:
    return {
        "x": np.arange(4, dtype=np.float32),
        "y": CudaOutput((2, 2)),
        "z": CudaInputOutput(np.zeros(3)),
        "n": np.int32(4),
    }


def test_parameters_are_sent_in_order_with_their_arguments(daemon: FakeDaemon, local: Client) -> None:
    evaluated = local.evaluate_cuda(
        SOURCE, "k", params(), grid=(1, 2), block=32, shared_memory=64, reference=doubled, runs=5, launch_timeout=0.5
    )
    assert evaluated.passed
    [sent] = daemon.kernels.evaluations
    kinds = [(one.name, one.kind, one.dtype) for one in sent.subject.params]
    assert kinds == [
        ("x", pb.CUDA_PARAM_KIND_INPUT, tensor_pb2.DTYPE_F32),
        ("y", pb.CUDA_PARAM_KIND_OUTPUT, tensor_pb2.DTYPE_F32),
        ("z", pb.CUDA_PARAM_KIND_INPUT_OUTPUT, tensor_pb2.DTYPE_F64),
        ("n", pb.CUDA_PARAM_KIND_VALUE, tensor_pb2.DTYPE_I32),
    ]
    assert list(sent.subject.params[1].shape) == [2, 2]
    assert [one.name for one in sent.arguments] == ["x", "z", "n"]
    assert to_array(sent.arguments[2].value) == 4
    assert (list(sent.subject.grid), list(sent.subject.block)) == ([1, 2], [32])
    assert "def doubled" in sent.reference.program.source
    assert (sent.run_count, sent.HasField("warm_up_count")) == (5, False)
    assert sent.launch_timeout == Duration(nanos=500_000_000)


def test_a_response_is_decoded(daemon: FakeDaemon, local: Client) -> None:
    mismatch = {"output": "y", "run": 3, "failed_count": 2, "index": 1, "actual": 1.5, "expected": 2.0}
    daemon.kernels.evaluated = pb.EvaluateResponse(
        verdict=pb.EVALUATION_VERDICT_MISMATCH,
        message="it differs",
        run=3,
        param="y",
        resources=pb.CudaResources(registers=16, spill_load_bytes=8),
        run_times=[Duration(nanos=1_000), Duration(seconds=1)],
        median_time=Duration(nanos=1_000),
        mismatches=[pb.BenchmarkMismatch(**mismatch)],
        arch="sm_90",
        small_outputs=[pb.SmallOutput(output="y", atol=0.5, max_norm=0.25)],
    )
    found = local.evaluate_cuda(SOURCE, "k", params(), grid=1, block=1, expected={"y": np.ones((2, 2), np.float32)})
    assert (found.verdict, found.passed, found.run, found.param) == ("mismatch", False, 3, "y")
    assert found.resources == CudaResources(16, 0, 0, 0, 8, 0)
    assert (found.times, found.median, found.p90) == ((1e-6, 1.0), 1e-6, None)
    assert found.mismatches == (EvaluationMismatch("y", 3, 2, 1, 1.5, 2.0),)
    assert found.small_outputs == (SmallOutput("y", 0.5, 0.25, None),)
    [output] = daemon.kernels.evaluations[-1].expected.outputs
    assert output.name == "y"
    assert to_array(output.value).tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_the_asyncio_client_evaluates(daemon: FakeDaemon) -> None:
    daemon.kernels.evaluated = pb.EvaluateResponse(verdict=pb.EVALUATION_VERDICT_COMPILE_ERROR, compiler_log="no")

    async def call() -> tuple[str, str, object]:
        async with AsyncClient(daemon.target, timeout=10) as client:
            found = await client.evaluate_cuda(SOURCE, "k", params(), grid=1, block=1, reference=doubled)
            return found.verdict, found.compiler_log, found.resources

    assert asyncio.run(call()) == ("compile_error", "no", None)


def test_what_cannot_be_sent_is_refused(daemon: FakeDaemon, local: Client) -> None:
    def evaluate(**changed: Any) -> None:
        arguments: dict[str, Any] = {"params": params(), "grid": 1, "block": 1, "reference": doubled, **changed}
        local.evaluate_cuda(SOURCE, "k", **arguments)

    with pytest.raises(TypeError, match=r"reference, expected: expected one of the two"):
        evaluate(reference=None)
    with pytest.raises(TypeError, match=r"params\['n'\]: expected a value with a type, such as numpy.int32\(3\)"):
        evaluate(params={"n": 3})
    with pytest.raises(ValueError, match=r"launch_timeout: expected a positive number"):
        evaluate(launch_timeout=0)
    with pytest.raises(ValueError, match=r"shared_memory: expected an int"):
        evaluate(shared_memory=-1)
    daemon.kernels.evaluated = pb.EvaluateResponse()
    with pytest.raises(AccelerdError, match="verdict 0"):
        evaluate()
