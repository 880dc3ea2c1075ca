"""Kernels of the asyncio client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from . import _dataset, _evaluate, _kernel, _kernel_benchmark, _launch
from ._aio_call import AsyncCaller
from ._aio_tensor import AsyncTensor
from ._call import Operation
from ._dataset import DatasetCategory, DatasetPair
from ._errors import NotFoundError
from ._evaluate import Evaluation, EvaluationOptions, Extents
from ._kernel import KernelTarget, Translation
from ._kernel_benchmark import BenchmarkOptions, KernelBenchmark
from ._kernel_program import KernelDialect, Program
from ._kernel_source import KernelSource
from ._launch import Grid, KernelDevice, KernelInfo, Outputs
from ._tensor_factory import TensorFactory

T = TypeVar("T")


@dataclass(frozen=True, repr=False)
class AsyncCompiledKernel(KernelInfo):
    """A compiled kernel that a daemon keeps and can launch."""

    _client: AsyncKernelCalls = field(compare=False)

    async def launch(
        self,
        *arguments: Any,
        grid: Grid | None = None,
        outputs: Outputs | None = None,
        loop_budget: int | None = None,
        device: KernelDevice | None = None,
        timeout: float | None = None,
        **named: Any,
    ) -> Any:
        """Run the kernel. Takes the arguments of `Client.launch`."""
        return await self._client.launch(
            self,
            *arguments,
            grid=grid,
            outputs=outputs,
            loop_budget=loop_budget,
            device=device,
            timeout=timeout,
            **named,
        )


class AsyncKernelCalls(TensorFactory[AsyncTensor]):
    """The calls of the asyncio client that translate, compile and launch kernels."""

    _caller: AsyncCaller

    async def translate(
        self,
        source: KernelSource,
        *,
        dialect: KernelDialect | None = None,
        constants: Mapping[str, int | float | bool] | None = None,
        names: Sequence[str] = (),
        targets: Sequence[KernelTarget] = ("cuda", "wasm"),
        arch: str | None = None,
        timeout: float | None = None,
    ) -> Translation:
        """Translate kernels in Python to CUDA C++ and WebAssembly. Takes the arguments of `Client.translate`."""
        call = _kernel.translate(source, dialect, constants or {}, names, targets, arch, self._caller.settings)
        return await self._caller.run(call, timeout)

    async def compile(
        self,
        source: KernelSource,
        *,
        name: str | None = None,
        dialect: KernelDialect | None = None,
        constants: Mapping[str, int | float | bool] | None = None,
        timeout: float | None = None,
    ) -> AsyncCompiledKernel:
        """Compile a kernel in Python, and keep it on the daemon. Takes the arguments of `Client.compile`."""
        program = Program.of(source, name, dialect, constants or {})
        with _kernel.explained(program=program):
            call = _launch.compile_kernel(program, self._caller.settings)
            return self._compiled(await self._caller.run(call, timeout))

    async def launch(
        self,
        kernel: KernelInfo,
        /,
        *arguments: Any,
        grid: Grid | None = None,
        outputs: Outputs | None = None,
        loop_budget: int | None = None,
        device: KernelDevice | None = None,
        timeout: float | None = None,
        **named: Any,
    ) -> Any:
        """Run a kernel, once for each thread of a grid. Takes the arguments of `Client.launch`."""
        inputs, settings = self._launch_inputs(arguments, named), self._caller.settings
        launch = _launch.Launch(kernel, *inputs, grid, outputs, loop_budget, device, settings)
        return await self._until_kept(kernel, lambda with_program: launch.operation(settings, with_program), timeout)

    async def _until_kept(self, kernel: KernelInfo, call: Callable[[bool], Operation[T]], timeout: float | None) -> T:
        """Make a call with the id of a kernel, and with its program if the daemon does not keep it any more."""
        deadline = self._caller.settings.deadline(timeout)
        try:
            return await self._caller.until(call(False), deadline)
        except NotFoundError:
            if kernel.program is None:
                raise
        return await self._caller.until(call(True), deadline)

    async def benchmark(
        self,
        kernel: KernelInfo,
        /,
        *arguments: Any,
        grid: Grid | None = None,
        outputs: Outputs | None = None,
        reference: KernelSource | None = None,
        reference_name: str | None = None,
        fixed: Sequence[str] = (),
        runs: int | None = None,
        warm_up: int | None = None,
        atol: float | None = None,
        rtol: float | None = None,
        loop_budget: int | None = None,
        device: KernelDevice | None = None,
        timeout: float | None = None,
        **named: Any,
    ) -> KernelBenchmark:
        """Measure a kernel, and compare what it computes. Takes the arguments of `Client.benchmark`."""
        inputs = self._launch_inputs(arguments, named)
        launch = _launch.Launch(kernel, *inputs, grid, outputs, loop_budget, device, self._caller.settings)
        program = None if reference is None else Program.of(reference, reference_name, None, {})
        options = BenchmarkOptions(program, fixed, runs, warm_up, atol, rtol)

        def call(with_program: bool) -> Operation[KernelBenchmark]:
            return _kernel_benchmark.benchmark(launch, options, self._caller.settings, with_program)

        return await self._until_kept(kernel, call, timeout)

    async def evaluate_cuda(
        self,
        source: str,
        entry: str,
        params: Mapping[str, Any],
        *,
        grid: Extents,
        block: Extents,
        shared_memory: int = 0,
        reference: KernelSource | None = None,
        reference_name: str | None = None,
        reference_grid: Extents | None = None,
        expected: Mapping[str, Any] | None = None,
        fixed: Sequence[str] = (),
        runs: int | None = None,
        warm_up: int | None = None,
        atol: float | None = None,
        rtol: float | None = None,
        launch_timeout: float | None = None,
        timeout: float | None = None,
    ) -> Evaluation:
        """Evaluate an untrusted kernel in CUDA C++. Takes the arguments of `Client.evaluate_cuda`."""
        program = None if reference is None else Program.of(reference, reference_name, None, {})
        options = EvaluationOptions(
            grid,
            block,
            shared_memory,
            program,
            reference_grid,
            expected or {},
            fixed,
            runs,
            warm_up,
            atol,
            rtol,
            launch_timeout,
        )
        inputs = {name: self._launch_input(given) for name, given in params.items()}
        call = _evaluate.evaluate(source, entry, inputs, options, self._caller.settings)
        return await self._caller.run(call, timeout)

    async def generate_dataset(
        self,
        count: int,
        *,
        seed: int = 0,
        categories: Sequence[DatasetCategory] = (),
        dialects: Sequence[KernelDialect] = (),
        targets: Sequence[KernelTarget] = (),
        first_index: int = 0,
        validation_percent: int | None = None,
        test_percent: int | None = None,
        device: KernelDevice | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[DatasetPair]:
        """Generate pairs of Python kernels and their translations. Takes the arguments of `Client.generate_dataset`."""
        requests = _dataset.requests(
            count,
            seed,
            categories,
            dialects,
            targets,
            first_index,
            validation_percent,
            test_percent,
            device,
        )
        async for response in self._caller.stream(_dataset.GENERATE, requests, timeout):
            yield _dataset.pair(response)

    async def list_kernels(self, *, timeout: float | None = None) -> list[AsyncCompiledKernel]:
        """Return the kernels that the daemon keeps, most recently used first."""
        return [self._compiled(fields) for fields in await self._caller.run(_launch.list_kernels(), timeout)]

    async def evict_kernel(self, kernel: KernelInfo | str, *, timeout: float | None = None) -> None:
        """Drop a kernel that the daemon keeps. Raises a NotFoundError if it keeps none of this id."""
        await self._caller.run(_launch.evict_kernel(kernel), timeout)

    def _compiled(self, fields: Mapping[str, Any]) -> AsyncCompiledKernel:
        return AsyncCompiledKernel(**fields, _client=self)
