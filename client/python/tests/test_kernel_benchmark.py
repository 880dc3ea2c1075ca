"""Measurements of kernels: what is sent and decoded, and those of a daemon."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest
from fake_daemon import FakeDaemon, serving
from google.protobuf.duration_pb2 import Duration

from accelerd import BenchmarkMismatch, Client, InvalidArgumentError, KernelFault, SmallOutput
from accelerd._proto import kernel_pb2 as pb
from accelerd.aio import AsyncClient


def doubled(x: float) -> float:
    return 2.0 * x


def added(x: float) -> float:
    return x + x


def tripled(x: float) -> float:
    return 3.0 * x


@pytest.fixture
def daemon() -> Iterator[FakeDaemon]:
    with serving() as daemon:
        yield daemon


@pytest.fixture
def local(daemon: FakeDaemon) -> Iterator[Client]:
    with Client(daemon.target, timeout=10) as client:
        yield client


def test_a_launch_is_sent_with_its_reference(daemon: FakeDaemon, local: Client) -> None:
    daemon.kernels.measured.MergeFrom(
        pb.BenchmarkResponse(
            run_times=[Duration(nanos=2_000)], median_time=Duration(nanos=2_000), threads_per_second=5.0
        )
    )
    kernel = local.compile(doubled)
    found = local.benchmark(
        kernel, np.arange(4.0), reference=added, fixed=["x"], runs=7, warm_up=0, rtol=0.5, device="cpu"
    )
    assert found.passed
    assert (found.device, found.times, found.median, found.thread_count) == ("cpu", (2e-6,), 2e-6, 4)
    [sent] = daemon.kernels.benchmarks
    assert (sent.launch.kernel_id, len(sent.launch.arguments), sent.launch.device) == (
        kernel.id,
        1,
        pb.KERNEL_DEVICE_CPU,
    )
    assert "def added" in sent.reference.source
    assert (list(sent.fixed_arguments), sent.run_count, sent.warm_up_count, sent.rtol) == (["x"], 7, 0, 0.5)
    assert not sent.HasField("atol")


def test_what_is_wrong_is_the_verdict(daemon: FakeDaemon, local: Client) -> None:
    wrong = pb.BenchmarkMismatch(output="result", run=6, failed_count=2, index=1, actual=4.0, expected=6.0)
    daemon.kernels.measured = pb.BenchmarkResponse(
        verdict=pb.BENCHMARK_VERDICT_MISMATCH, device=pb.KERNEL_DEVICE_CUDA, mismatches=[wrong]
    )
    found = local.benchmark(local.compile(doubled), 1.0)
    assert (found.passed, found.verdict, found.device, found.fault) == (False, "mismatch", "cuda", None)
    assert found.mismatches == (BenchmarkMismatch("result", 6, 2, 1, 4.0, 6.0),)
    fault = pb.KernelFault(kind=pb.KERNEL_FAULT_KIND_LOOP_BUDGET, thread=3)
    daemon.kernels.measured = pb.BenchmarkResponse(
        verdict=pb.BENCHMARK_VERDICT_FAULT, device=pb.KERNEL_DEVICE_CPU, fault=fault
    )
    found = local.benchmark(local.compile(doubled), 1.0)
    assert isinstance(found.fault, KernelFault) and (found.fault.kind, found.fault.thread) == ("loop_budget", 3)
    assert found.small_outputs == ()


def test_results_of_which_the_tolerance_says_little_are_listed(daemon: FakeDaemon, local: Client) -> None:
    small = [pb.SmallOutput(output="y", atol=1e-5, max_norm=2e-7, max_norm_rtol=1e-5), pb.SmallOutput(output="z")]
    daemon.kernels.measured = pb.BenchmarkResponse(
        verdict=pb.BENCHMARK_VERDICT_PASSED, device=pb.KERNEL_DEVICE_CPU, small_outputs=small
    )
    found = local.benchmark(local.compile(doubled), 1.0)
    assert found.small_outputs == (SmallOutput("y", 1e-5, 2e-7, 1e-5), SmallOutput("z", 0.0, 0.0, None))
    assert "errors must be at most 1e-05 of the largest, 2e-07" in str(found.small_outputs[0])
    assert str(found.small_outputs[1]).endswith("which accepts zeros instead")


def test_a_kernel_that_was_dropped_is_sent_again(daemon: FakeDaemon) -> None:
    async def measured() -> None:
        async with AsyncClient(daemon.target, timeout=10) as client:
            kernel = await client.compile(doubled)
            daemon.kernels.kept.clear()
            assert (await client.benchmark(kernel, 1.0)).passed

    asyncio.run(measured())
    assert [sent.launch.WhichOneof("kernel") for sent in daemon.kernels.benchmarks] == ["kernel_id", "program"]


def test_a_daemon_measures_and_compares(client: Client) -> None:
    kernel, x = client.compile(doubled), np.linspace(-1.0, 1.0, 100_000)
    found = client.benchmark(kernel, x, reference=added, runs=5)
    assert found.verdict == "passed" and len(found.times) == 5
    assert (found.thread_count, found.array_bytes, found.device) == (100_000, 1_600_000, "cpu")
    assert 0.0 < found.min_time < found.p10 <= found.median <= found.p90
    wrong = client.benchmark(kernel, x, reference=tripled, runs=2)
    assert wrong.verdict == "mismatch" and wrong.mismatches[0].failed_count > 99_000
    with pytest.raises(InvalidArgumentError, match=r"fixed\[0\]: expected the name"):
        client.benchmark(kernel, x, fixed=["y"])
