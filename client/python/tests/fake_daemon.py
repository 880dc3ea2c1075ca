"""A daemon in this process that runs functions as Python does, for tests of what the client sends and decodes."""

from __future__ import annotations

import hashlib
import inspect
import random
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import numpy as np
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from accelerd._proto import device_pb2, device_pb2_grpc, kernel_pb2_grpc, tensor_pb2, verify_pb2_grpc
from accelerd._proto import kernel_pb2 as pb
from accelerd._proto import verify_pb2 as vpb
from accelerd._tensor import NUMPY_DTYPES, dtype_number, to_array

TYPES: dict[Any, str] = {float: "f64", int: "i64", bool: "bool"}


def fail(context: grpc.ServicerContext, code: grpc.StatusCode, field: str = "", description: str = "no") -> None:
    """End a call with a status, and the violation of a field if one is named."""
    details = []
    if field:
        bad = error_details_pb2.BadRequest()
        bad.field_violations.add(field=field, description=description)
        details.append(any_pb2.Any())
        details[0].Pack(bad)
    status = status_pb2.Status(code=code.value[0], message=description, details=details)
    context.set_trailing_metadata([("grpc-status-details-bin", status.SerializeToString())])
    context.abort(code, description)


def tensor(array: Any, dtype: str) -> tensor_pb2.Tensor:
    number = dtype_number(dtype)
    content = np.asarray(array, NUMPY_DTYPES[number])
    return tensor_pb2.Tensor(dtype=number, shape=content.shape, data=content.tobytes())


def component(dtype: str, name: str = "", offset: int = 0) -> pb.KernelComponent:
    return pb.KernelComponent(name=name, dtype=dtype_number(dtype), offset_bytes=offset)


def param(name: str, dims: int, *components: pb.KernelComponent, size: int | None = None) -> pb.KernelParam:
    sizes = [NUMPY_DTYPES[one.dtype].itemsize for one in components]
    return pb.KernelParam(
        name=name, dims=dims, components=components, element_size_bytes=sum(sizes) if size is None else size
    )


def function_of(program: pb.KernelProgram) -> Callable[..., Any]:
    """The function of a program."""
    scope: dict[str, Any] = {name: getattr(one, one.WhichOneof("value")) for name, one in program.constants.items()}
    exec(compile(program.source, "<program>", "exec"), scope)
    functions = [one for one in scope.values() if inspect.isfunction(one) and one.__code__.co_filename == "<program>"]
    if program.name:
        return next(one for one in functions if one.__name__ == program.name)
    assert len(functions) == 1, functions
    return functions[0]


def python_kernel(program: pb.KernelProgram) -> pb.Kernel:
    """The kernel of an annotated function."""
    function = function_of(program)
    annotations = dict(inspect.get_annotations(function, eval_str=True))
    returned = annotations.pop("return")
    params = []
    for name, annotation in annotations.items():
        is_list = annotation not in TYPES
        params.append(param(name, 1 + is_list, component(TYPES[annotation.__args__[0] if is_list else annotation])))
    results = {"result": returned}
    if returned not in TYPES:
        results = {f"result{nth}": one for nth, one in enumerate(returned.__args__)}
    params += [param(name, 1, component(TYPES[one])) for name, one in results.items()]
    return pb.Kernel(
        name=function.__name__,
        dialect=pb.KERNEL_DIALECT_PYTHON,
        grid_dims=1,
        params=params,
        written_arrays=results,
        bit_exact=True,
        size_bytes=len(program.source),
    )


class FakeKernels(kernel_pb2_grpc.KernelServiceServicer):
    """Compiles annotated functions, and runs them. Other kernels are registered by name in `warp`."""

    def __init__(self) -> None:
        #: Kernels and functions on their arrays, by name.
        self.warp: dict[str, tuple[pb.Kernel, Callable[..., None]]] = {}
        self.kept: dict[str, tuple[pb.Kernel, Callable[..., Any], pb.KernelProgram]] = {}
        self.compilations: list[pb.KernelProgram] = []
        self.launches: list[pb.LaunchRequest] = []
        self.benchmarks: list[pb.BenchmarkRequest] = []
        #: What a benchmark finds.
        self.measured = pb.BenchmarkResponse(
            verdict=pb.BENCHMARK_VERDICT_PASSED, device=pb.KERNEL_DEVICE_CPU, thread_count=4, array_bytes=64
        )
        self.datasets: list[pb.GenerateDatasetRequest] = []
        self.evaluations: list[pb.EvaluateRequest] = []
        #: The response to the next evaluations.
        self.evaluated = pb.EvaluateResponse(verdict=pb.EVALUATION_VERDICT_PASSED)
        #: The field and the description of an error of the next compilation.
        self.refusal: tuple[str, str] | None = None

    def _compiled(self, program: pb.KernelProgram) -> pb.Kernel:
        self.compilations.append(program)
        kernel_id = hashlib.sha256(program.SerializeToString(deterministic=True)).hexdigest()
        if program.name in self.warp:
            kernel, function = self.warp[program.name]
        else:
            kernel, function = python_kernel(program), function_of(program)
        kernel.id = kernel_id
        self.kept.pop(kernel_id, None)
        self.kept[kernel_id] = kernel, function, program
        return kernel

    def Compile(self, request, context):  # noqa: N802
        if self.refusal is not None:
            fail(context, grpc.StatusCode.INVALID_ARGUMENT, *self.refusal)
        return pb.CompileResponse(kernel=self._compiled(request.program))

    def ListKernels(self, request, context):  # noqa: N802
        return pb.ListKernelsResponse(kernels=[kernel for kernel, _, _ in reversed(self.kept.values())])

    def EvictKernel(self, request, context):  # noqa: N802
        if self.kept.pop(request.kernel_id, None) is None:
            fail(context, grpc.StatusCode.NOT_FOUND)
        return pb.EvictKernelResponse()

    def Benchmark(self, request, context):  # noqa: N802
        self.benchmarks.append(request)
        if request.launch.HasField("program"):
            self._compiled(request.launch.program)
        elif request.launch.kernel_id not in self.kept:
            fail(context, grpc.StatusCode.NOT_FOUND)
        return self.measured

    def GenerateDataset(self, request, context):  # noqa: N802
        self.datasets.append(request)
        for index in range(request.first_index, request.first_index + request.pair_count):
            run = pb.DatasetRun(
                device=pb.KERNEL_DEVICE_CPU,
                agreement=pb.DATASET_AGREEMENT_CLOSE,
                element_count=64,
                different_count=2,
                max_ulp_error=1,
            )
            run.execution_time.FromMicroseconds(3)
            pair = pb.DatasetPair(
                index=index,
                id=f"{index:064x}",
                structure_id="0" * 64,
                split=pb.DATASET_SPLIT_TEST,
                category=pb.DATASET_CATEGORY_NESTED_LOOP,
                dialect=pb.KERNEL_DIALECT_WARP,
                name=f"nested_loop_{index}",
                source="import warp as wp\n",
                files=[pb.KernelFile(name="nested_loop.wasm", content=b"\0asm")],
                runs=[run],
            )
            yield pb.GenerateDatasetResponse(pair=pair)

    def Evaluate(self, request, context):  # noqa: N802
        self.evaluations.append(request)
        return self.evaluated

    def Launch(self, request, context):  # noqa: N802
        self.launches.append(request)
        kernel_id = request.kernel_id
        if request.HasField("program"):
            kernel_id = self._compiled(request.program).id
        if kernel_id not in self.kept:
            fail(context, grpc.StatusCode.NOT_FOUND)
        kernel, function, program = self.kept[kernel_id]
        if kernel.dialect == pb.KERNEL_DIALECT_PYTHON:
            return self._mapped(request, kernel, function, program)
        arrays = {one.name: to_array(one.value).copy() for one in request.arguments if one.HasField("value")}
        for one in request.outputs:
            if one.shape:
                [dtype] = {c.dtype for p in kernel.params if p.name == one.name for c in p.components}
                arrays[one.name] = np.zeros(tuple(one.shape), NUMPY_DTYPES[dtype])
        for one in request.views:
            array = arrays[one.argument]
            shape = tuple(one.shape) or array.shape
            arrays[one.name] = np.ndarray(shape, array.dtype, array.data, one.offset_bytes, one.strides_bytes or None)
        function(*(arrays[one.name] for one in kernel.params))
        names = [one.name for one in request.outputs] or kernel.written_arrays
        outputs = [pb.NamedTensor(name=name, value=tensor(arrays[name], arrays[name].dtype)) for name in names]
        return pb.LaunchResponse(outputs=outputs)

    def _mapped(self, request, kernel, function, program) -> pb.LaunchResponse:
        dims = {one.name: one.dims for one in kernel.params}
        arrays = {one.name: to_array(one.value) for one in request.arguments}
        whole = [one for name, one in arrays.items() if one.ndim == dims[name]]
        rows = request.grid[0] if request.grid else len(whole[0]) if whole else 1
        columns = {
            name: one.tolist() if one.ndim == dims[name] else [one.tolist()] * rows for name, one in arrays.items()
        }
        results = []
        for row in range(rows):
            try:
                result = function(**{name: column[row] for name, column in columns.items()})
            except (ZeroDivisionError, IndexError, AssertionError) as problem:
                return pb.LaunchResponse(fault=fault_of(problem, row))
            results.append(result if isinstance(result, tuple) else (result,))
        requested = [one.name for one in request.outputs] or list(kernel.written_arrays)
        types = {one.name: tensor_pb2.Dtype.Name(one.components[0].dtype)[6:].lower() for one in kernel.params}
        outputs = []
        for nth, name in enumerate(kernel.written_arrays):
            if name in requested:
                value = tensor([row[nth] for row in results], types[name])
                outputs.append(pb.NamedTensor(name=name, value=value))
        return pb.LaunchResponse(outputs=outputs)


def fault_of(problem: Exception, row: int) -> pb.KernelFault:
    frame = traceback.extract_tb(problem.__traceback__)[-1]
    fault = pb.KernelFault(thread=row, line=frame.lineno, column=frame.colno)
    if isinstance(problem, ZeroDivisionError):
        fault.kind = pb.KERNEL_FAULT_KIND_DIVISION_BY_ZERO
    elif isinstance(problem, AssertionError):
        fault.kind = pb.KERNEL_FAULT_KIND_ASSERTION
    else:
        fault.kind = pb.KERNEL_FAULT_KIND_OUT_OF_BOUNDS
        fault.array, fault.index, fault.extent = "values", 5, 3
    return fault


Outcome = tuple[str, dict[str, Any]]


class FakeVerify(verify_pb2_grpc.VerifyServiceServicer):
    """Verifies functions of floats, element by element and exactly. WebAssembly modules are functions in `modules`.

    If a call asks for a GPU, all cases that pass count as decided there.
    """

    def __init__(self) -> None:
        self.modules: dict[bytes, Callable[..., Any]] = {}
        self.headers: list[vpb.VerifyHeader] = []
        self.chunks: list[vpb.VerifyCases] = []
        #: The field and the description of an error of the next call.
        self.refusal: tuple[str, str] | None = None

    def Verify(self, requests, context):  # noqa: N802
        header = next(requests).header
        self.headers.append(header)
        if self.refusal is not None:
            fail(context, grpc.StatusCode.INVALID_ARGUMENT, *self.refusal)
        run = _Run(self, header)
        if header.HasField("generator"):
            yield run.cases(list(_generated(header.generator, run.types)))
        for request in requests:
            self.chunks.append(request.cases)
            columns = {one.name: to_array(one.value).tolist() for one in request.cases.inputs}
            rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
            yield run.cases(rows, request.cases)
        yield run.summary()


def _generated(generator: vpb.CaseGenerator, types: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    chance = random.Random(generator.seed)
    for _ in range(generator.case_count):
        row: dict[str, Any] = {}
        for name, dtype in types.items():
            domain = generator.domains[name]
            if dtype == "f64":
                has_bounds = domain.HasField("min") and domain.HasField("max")
                low, high = (domain.min, domain.max) if has_bounds else (-1e6, 1e6)
                row[name] = chance.uniform(low, high)
            else:
                low, high = (domain.min_integer, domain.max_integer) if domain.HasField("min_integer") else (-99, 99)
                row[name] = chance.randint(low, high)
        yield row


class _Run:
    def __init__(self, fake: FakeVerify, header: vpb.VerifyHeader) -> None:
        self.header = header
        self.sides = [
            _callable(fake, header, header.WhichOneof("subject")),
            _callable(fake, header, header.WhichOneof("reference")),
        ]
        self.types: dict[str, str] = {}
        for program in (header.reference_kernel, header.kernel):
            if program.source:
                annotations = inspect.get_annotations(function_of(program), eval_str=True)
                self.types = {name: TYPES[one] for name, one in annotations.items() if name != "return"}
        self.count = self.failed = 0
        self.outcomes: list[dict[str, int]] = [{}, {}]
        self.counterexamples: list[vpb.Counterexample] = []

    def cases(self, rows: list[dict[str, Any]], given: vpb.VerifyCases | None = None) -> vpb.VerifyResponse:
        first, verdicts = self.count, []
        columns = [_columns(given.actual), _columns(given.expected)] if given is not None else [{}, {}]
        count = len(rows) or max((len(one) for side in columns for one in side.values()), default=0)
        for nth in range(count):
            row = rows[nth] if rows else {}
            results = [self.result(side, row, columns, nth) for side in (0, 1)]
            for side, (outcome, _) in enumerate(results):
                self.outcomes[side][outcome] = self.outcomes[side].get(outcome, 0) + 1
            fails = not _equal(*results)
            verdicts.append(fails)
            limit = self.header.max_counterexamples if self.header.HasField("max_counterexamples") else 5
            if fails and len(self.counterexamples) < limit:
                self.counterexamples.append(self.counterexample(first + nth, row, results))
        self.count += count
        self.failed += sum(verdicts)
        bits = np.packbits(np.array(verdicts, bool), bitorder="little").tobytes() if self.header.case_verdicts else b""
        part = vpb.CaseVerdicts(first_case=first, case_count=count, failed_count=sum(verdicts), failed_cases=bits)
        return vpb.VerifyResponse(cases=part)

    def result(self, side: int, row: dict[str, Any], columns: list[dict[str, list[Any]]], nth: int) -> Outcome:
        function = self.sides[side]
        if function is None:
            return "ok", {name: column[nth] for name, column in columns[side].items()}
        try:
            result = function(*row.values())
        except ZeroDivisionError:
            return "division_by_zero", {}
        return "ok", {"result": result}

    def counterexample(self, index: int, row: dict[str, Any], results: list[Outcome]) -> vpb.Counterexample:
        one = vpb.Counterexample(case_index=index, found=self.case(row, results))
        if not self.header.skip_shrinking and None not in self.sides:
            simpler = dict(row)
            for name in row:
                for value in (0, 1, 2, 10, 100, 1000):
                    tried = {**simpler, name: type(row[name])(value)}
                    if not _equal(*(self.result(side, tried, [{}, {}], 0) for side in (0, 1))):
                        simpler = tried
                        break
            if repr(simpler) != repr(row):
                one.shrunk.CopyFrom(self.case(simpler, [self.result(side, simpler, [{}, {}], 0) for side in (0, 1)]))
        return one

    def case(self, row: dict[str, Any], results: list[Outcome]) -> vpb.CaseResult:
        return vpb.CaseResult(
            inputs=[_named(name, value) for name, value in row.items()],
            actual=[_named(name, value) for name, value in results[0][1].items()],
            expected=[_named(name, value) for name, value in results[1][1].items()],
            subject_outcome=results[0][0],
            reference_outcome=results[1][0],
        )

    def summary(self) -> vpb.VerifyResponse:
        summary = vpb.VerifySummary(passed=not self.failed, case_count=self.count, failed_count=self.failed)
        output = summary.outputs.add(name="result", actual_dtype=4, expected_dtype=4)
        output.verdict = vpb.OUTPUT_VERDICT_MISMATCH if self.failed else vpb.OUTPUT_VERDICT_PASSED
        output.actual_shape.append(self.count)
        output.expected_shape.append(self.count)
        output.differences.element_count, output.differences.failed_count = self.count, self.failed
        if self.failed:
            first = self.counterexamples[0].case_index if self.counterexamples else 0
            for largest, value in ((output.differences.max_absolute, 0.5), (output.differences.max_ulps, 12)):
                largest.value, largest.index = value, first
            output.differences.sufficient.atol, output.differences.sufficient.rtol = 0.5, 0.25
        summary.functions.subject_outcomes.update(self.outcomes[0])
        summary.functions.reference_outcomes.update(self.outcomes[1])
        summary.functions.counterexamples.extend(self.counterexamples)
        summary.functions.subject_hash = b"\1\2"
        if self.header.device == pb.KERNEL_DEVICE_CUDA:
            summary.functions.gpu_decided_count = self.count - self.failed
        return vpb.VerifyResponse(summary=summary)


def _callable(fake: FakeVerify, header: vpb.VerifyHeader, name: str) -> Callable[..., Any] | None:
    given = getattr(header, name)
    if isinstance(given, pb.KernelProgram):
        return function_of(given)
    return fake.modules[given.module] if isinstance(given, vpb.WasmFunction) else None


def _columns(inputs: Any) -> dict[str, list[Any]]:
    return {one.name: to_array(one.value).tolist() for one in inputs}


def _named(name: str, value: Any) -> pb.NamedTensor:
    return pb.NamedTensor(name=name, value=tensor(value, TYPES[type(value)]))


def _equal(left: Outcome, right: Outcome) -> bool:
    return left[0] == right[0] and repr(left[1]) == repr(right[1])


class FakeDevices(device_pb2_grpc.DeviceServiceServicer):
    def ListDevices(self, request, context):  # noqa: N802
        return device_pb2.ListDevicesResponse()


class FakeDaemon:
    """All services, and the address."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.kernels = FakeKernels()
        self.verify = FakeVerify()


@contextmanager
def serving() -> Iterator[FakeDaemon]:
    server = grpc.server(ThreadPoolExecutor(4))
    daemon = FakeDaemon(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
    kernel_pb2_grpc.add_KernelServiceServicer_to_server(daemon.kernels, server)
    verify_pb2_grpc.add_VerifyServiceServicer_to_server(daemon.verify, server)
    device_pb2_grpc.add_DeviceServiceServicer_to_server(FakeDevices(), server)
    server.start()
    try:
        yield daemon
    finally:
        server.stop(None)
