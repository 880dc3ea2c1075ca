"""Measurements of kernels, with checks of what they compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from . import _wire
from ._call import Operation, Settings
from ._errors import malformed, too_large
from ._kernel_fault import KernelFault, fault
from ._kernel_program import Program
from ._launch import DEVICE_NAMES, KernelDevice, Launch
from ._message import message
from ._methods import KernelService
from ._proto import kernel_pb2 as pb
from ._small_output import SmallOutput, received_small_outputs
from ._timing import seconds
from ._wire import Chunk

BenchmarkVerdict: TypeAlias = Literal["passed", "fault", "mismatch", "implausible_time"]
_VERDICTS = get_args(BenchmarkVerdict)


@dataclass(frozen=True)
class BenchmarkOptions:
    """What a kernel is compared with, and how often it runs."""

    reference: Program | None
    fixed: Sequence[str]
    runs: int | None
    warm_up: int | None
    atol: float | None
    rtol: float | None


@dataclass(frozen=True)
class BenchmarkMismatch:
    """An array that differs from what was expected."""

    output: str
    #: The timed run, from 0.
    run: int
    #: Elements that differ by more than the tolerance.
    failed_count: int
    #: Index of the first of them, in row-major order.
    index: int
    actual: float
    expected: float


@dataclass(frozen=True, repr=False)
class KernelBenchmark:
    """What a kernel takes, and whether that can be believed."""

    verdict: BenchmarkVerdict
    #: Where it ran.
    device: KernelDevice
    #: Seconds of each timed run.
    times: tuple[float, ...]
    #: Seconds of the median, of the 10th and the 90th percentile.
    median: float
    p10: float
    p90: float
    #: The least seconds that are believed: the time that the memory takes at least for what a run writes.
    min_time: float
    thread_count: int
    #: Bytes of the arrays that are passed, and of those that the kernel writes.
    array_bytes: int
    #: By the median.
    threads_per_second: float
    bytes_per_second: float
    mismatches: tuple[BenchmarkMismatch, ...]
    #: Why a run ended early.
    fault: KernelFault | None
    #: Arrays whose expected results are mostly smaller than `atol`.
    small_outputs: tuple[SmallOutput, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the times are those of a kernel that works."""
        return self.verdict == "passed"

    def __repr__(self) -> str:
        return f"<KernelBenchmark on {self.device}: {self.verdict}, {self.median:.3g} s, {len(self.times)} runs>"


def benchmark(
    launch: Launch, options: BenchmarkOptions, settings: Settings, with_program: bool
) -> Operation[KernelBenchmark]:
    """Return the call that measures a launch."""
    request = message(
        pb.BenchmarkRequest,
        {"fixed_arguments": "fixed", "run_count": "runs", "warm_up_count": "warm_up"},
        reference=None if options.reference is None else options.reference.message,
        fixed_arguments=list(options.fixed),
        run_count=options.runs,
        warm_up_count=options.warm_up,
        atol=options.atol,
        rtol=options.rtol,
    )
    chunks: list[Chunk] = [request.SerializeToString()]
    chunks += _wire.field(pb.BenchmarkRequest.LAUNCH_FIELD_NUMBER, launch.chunks(with_program))
    if (size := _wire.size(chunks)) > settings.max_message_bytes:
        what, hint = f"a benchmark of {launch.kernel.name}", "; upload() sends an array in chunks"
        raise too_large(what, size, settings.max_message_bytes, hint)
    return Operation(KernelService.BENCHMARK, b"".join(chunks), lambda response: _decoded(response, launch))


def _decoded(response: pb.BenchmarkResponse, launch: Launch) -> KernelBenchmark:
    if not 1 <= response.verdict <= len(_VERDICTS):
        raise malformed(f"verdict {response.verdict}")
    if response.device not in DEVICE_NAMES:
        raise malformed(f"device {response.device}")
    kernel = launch.kernel
    return KernelBenchmark(
        verdict=_VERDICTS[response.verdict - 1],
        device=DEVICE_NAMES[response.device],
        times=tuple(seconds(time) for time in response.run_times),
        median=seconds(response.median_time),
        p10=seconds(response.p10_time),
        p90=seconds(response.p90_time),
        min_time=seconds(response.min_time),
        thread_count=response.thread_count,
        array_bytes=response.array_bytes,
        threads_per_second=response.threads_per_second,
        bytes_per_second=response.bytes_per_second,
        mismatches=tuple(
            BenchmarkMismatch(one.output, one.run, one.failed_count, one.index, one.actual, one.expected)
            for one in response.mismatches
        ),
        fault=fault(response.fault, kernel.name, kernel.program) if response.HasField("fault") else None,
        small_outputs=received_small_outputs(response.small_outputs),
    )
