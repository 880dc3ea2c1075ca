"""Evaluations of kernels in CUDA C++."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from google.protobuf.duration_pb2 import Duration

from . import _wire
from ._call import Operation, Settings
from ._errors import malformed, too_large
from ._kernel_program import Program
from ._message import by_name, duration, extents, message
from ._methods import KernelService
from ._proto import kernel_pb2 as pb
from ._resident import ResidentTensor, tensor_input
from ._small_output import SmallOutput, received_small_outputs
from ._tensor import Dtype, Value, dtype_number
from ._timing import seconds
from ._wire import Chunk

EvaluationVerdict: TypeAlias = Literal[
    "passed",
    "compile_error",
    "not_launched",
    "fault",
    "timeout",
    "mismatch",
    "out_of_bounds_write",
    "input_changed",
    "nondeterministic",
    "implausible_time",
]
_VERDICTS = get_args(EvaluationVerdict)

#: Extents of a grid or a block, in up to three dimensions.
Extents: TypeAlias = "int | Sequence[int]"


@dataclass(frozen=True)
class CudaOutput:
    """A parameter of a kernel in CUDA C++ that is a pointer to an array which is only written."""

    shape: int | Sequence[int]
    dtype: Dtype = "f32"


@dataclass(frozen=True)
class CudaInputOutput:
    """A parameter of a kernel in CUDA C++ that is a pointer to an array which is read and written."""

    array: Any


@dataclass(frozen=True)
class CudaResources:
    """What a kernel in CUDA C++ needs."""

    #: Registers of a thread.
    registers: int
    #: Static shared memory of a block.
    shared_memory_bytes: int
    #: Stack of a thread, in local memory.
    stack_bytes: int
    #: Bytes of the instructions that write registers to the stack, and that read them back.
    spill_store_bytes: int
    spill_load_bytes: int
    #: The most threads of a block, by the number of registers.
    max_block_threads: int


@dataclass(frozen=True)
class EvaluationMismatch:
    """An array that differs from what was expected."""

    output: str
    #: The run, counted from the first warm-up.
    run: int
    #: Elements that differ by more than the tolerance.
    failed_count: int
    #: Index of the first of them, in row-major order.
    index: int
    actual: float
    expected: float


@dataclass(frozen=True)
class Evaluation:
    """What is true of a kernel in CUDA C++."""

    verdict: EvaluationVerdict
    #: What the check that failed has found.
    message: str
    #: What the compiler says, if the source does not compile.
    compiler_log: str
    #: The run in which the check failed, counted from the first warm-up.
    run: int | None
    #: The parameter that the failed check is about; empty if it is about none.
    param: str
    #: None if the source does not compile.
    resources: CudaResources | None
    #: Seconds of each timed run.
    times: tuple[float, ...]
    #: Seconds of the median, of the 10th and the 90th percentile, and the least that are believed; None without times.
    median: float | None
    p10: float | None
    p90: float | None
    min_time: float | None
    mismatches: tuple[EvaluationMismatch, ...]
    #: Whether a run was repeated on the same arguments, with results of the same bits.
    bit_exact_repeat: bool
    #: Bytes of all arrays.
    array_bytes: int
    #: The architecture, such as "sm_90".
    arch: str
    #: Arrays whose expected results are mostly smaller than `atol`.
    small_outputs: tuple[SmallOutput, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether all checks passed."""
        return self.verdict == "passed"


@dataclass(frozen=True)
class EvaluationOptions:
    """What an evaluation has besides its kernel and its parameters."""

    grid: Extents
    block: Extents
    shared_memory: int
    reference: Program | None
    reference_grid: Extents | None
    expected: Mapping[str, Any]
    fixed: Sequence[str]
    runs: int | None
    warm_up: int | None
    atol: float | None
    rtol: float | None
    launch_timeout: float | None


def evaluate(
    source: str, entry: str, params: Mapping[str, Any], options: EvaluationOptions, settings: Settings
) -> Operation[Evaluation]:
    """Return the call that judges a kernel."""
    if (options.reference is None) == (not options.expected):
        raise TypeError("reference, expected: expected one of the two")
    described, arguments = [], []
    for name, given in by_name("params", params, "parameters").items():
        param, value = _param(name, given)
        described.append(param)
        if value is not None:
            arguments.append((name, value))
    subject = message(
        pb.CudaSubject,
        {"dynamic_shared_memory_bytes": "shared_memory"},
        source=source,
        entry=entry,
        params=described,
        grid=extents("grid", options.grid),
        block=extents("block", options.block),
        dynamic_shared_memory_bytes=options.shared_memory,
    )
    chunks: list[Chunk] = [_request(subject, options).SerializeToString()]
    for name, value in arguments:
        chunks += _wire.field(pb.EvaluateRequest.ARGUMENTS_FIELD_NUMBER, tensor_input(name, value))
    if (size := _wire.size(chunks)) > settings.max_message_bytes:
        raise too_large(
            f"an evaluation of {entry}", size, settings.max_message_bytes, "; upload() sends an array in chunks"
        )
    return Operation(KernelService.EVALUATE, b"".join(chunks), _decoded)


def _request(subject: pb.CudaSubject, options: EvaluationOptions) -> pb.EvaluateRequest:
    request = message(
        pb.EvaluateRequest,
        {"fixed_arguments": "fixed", "run_count": "runs", "warm_up_count": "warm_up"},
        subject=subject,
        fixed_arguments=list(options.fixed),
        run_count=options.runs,
        warm_up_count=options.warm_up,
        atol=options.atol,
        rtol=options.rtol,
        launch_timeout=_timeout(options.launch_timeout),
    )
    if options.reference is not None:
        grid = [] if options.reference_grid is None else extents("reference_grid", options.reference_grid)
        request.reference.CopyFrom(pb.EvaluationReference(program=options.reference.message, grid=grid))
    for name, array in by_name("expected", options.expected, "arrays").items():
        value = b"".join(Value.of(array, f"expected[{name!r}]").encode())
        output = request.expected.outputs.add(name=name)
        output.value.ParseFromString(value)
    return request


def _timeout(seconds: float | None) -> Duration | None:
    return None if seconds is None else duration("launch_timeout", seconds, limit=1e6)


def _param(name: str, given: Any) -> tuple[pb.CudaParam, Value | ResidentTensor | None]:
    what = f"params[{name!r}]"
    if isinstance(given, CudaOutput):
        dtype = dtype_number(given.dtype, what)
        return pb.CudaParam(
            name=name, dtype=dtype, kind=pb.CUDA_PARAM_KIND_OUTPUT, shape=extents(f"{what}.shape", given.shape)
        ), None
    if isinstance(given, CudaInputOutput):
        kind, given = pb.CUDA_PARAM_KIND_INPUT_OUTPUT, given.array
    elif isinstance(given, np.generic):
        kind = pb.CUDA_PARAM_KIND_VALUE
    else:
        kind = pb.CUDA_PARAM_KIND_INPUT
    if isinstance(given, (bool, int, float)):
        raise TypeError(
            f"{what}: expected a value with a type, such as numpy.int32({given}), got {type(given).__name__}"
        )
    if isinstance(given, ResidentTensor):
        return pb.CudaParam(name=name, dtype=dtype_number(given.dtype, what), kind=kind), given
    value = Value.of(given, what)
    return pb.CudaParam(name=name, dtype=value.number, kind=kind), value


def _decoded(response: pb.EvaluateResponse) -> Evaluation:
    if not 1 <= response.verdict <= len(_VERDICTS):
        raise malformed(f"verdict {response.verdict}")
    needs = response.resources

    def optional(name: str) -> float | None:
        return seconds(getattr(response, name)) if response.HasField(name) else None

    return Evaluation(
        verdict=_VERDICTS[response.verdict - 1],
        message=response.message,
        compiler_log=response.compiler_log,
        run=response.run if response.HasField("run") else None,
        param=response.param,
        resources=CudaResources(
            needs.registers,
            needs.shared_memory_bytes,
            needs.stack_bytes,
            needs.spill_store_bytes,
            needs.spill_load_bytes,
            needs.max_block_threads,
        )
        if response.HasField("resources")
        else None,
        times=tuple(seconds(time) for time in response.run_times),
        median=optional("median_time"),
        p10=optional("p10_time"),
        p90=optional("p90_time"),
        min_time=optional("min_time"),
        mismatches=tuple(
            EvaluationMismatch(one.output, one.run, one.failed_count, one.index, one.actual, one.expected)
            for one in response.mismatches
        ),
        bit_exact_repeat=response.bit_exact_repeat,
        array_bytes=response.array_bytes,
        arch=response.arch,
        small_outputs=received_small_outputs(response.small_outputs),
    )
