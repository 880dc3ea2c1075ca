"""Kernels of the asyncio client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from . import _dataset, _evaluate, _kernel, _kernel_benchmark, _launch
from ._aio_call import AsyncCaller
from ._aio_runtime import mapped
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
from ._methods import KernelService
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
        """Run the kernel. Takes the arguments of `AsyncClient.launch`."""
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
        """Translate kernels in Python to CUDA C++ and WebAssembly.

        A kernel outside the language has a diagnostic in place of its files; the call succeeds.

        Args:
            source: The text of a module, a function, or several functions, whose source is taken. A function may have
                the decorators of NVIDIA Warp. Functions of its module, and of Warp, that it calls are sent as well.
                Globals and variables of enclosing functions that it uses are passed with their current values if they
                are int, float or bool, and imported if they are modules or names of other modules.
            dialect: What operators and functions mean: "warp" or "python". None means "warp" if a function has a
                decorator of Warp, else "python".
            constants: Values of names that the source uses and does not define, in place of captured ones.
            names: The kernels to translate; empty means all of a text, and the functions that are given.
            targets: What to translate them to: "cuda", "wasm" and "ptx", which needs the CUDA compiler on the daemon.
                Empty means the first two.
            arch: The architecture of PTX, such as "sm_90"; None means that of the daemon's GPU, or else "sm_75".
            timeout: Seconds for the whole call, retries included.

        Returns:
            The translated kernels with their files, and the diagnostics of the others.
        """
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
        """Compile a kernel in Python, and keep it on the daemon. Equal programs have one id and are compiled once.

        Args:
            source: As in `translate()`.
            name: Name of the kernel; None if the source is a function, or has a single kernel.
            dialect: As in `translate()`.
            constants: As in `translate()`.
            timeout: Seconds for the whole call, retries included.

        Returns:
            The kernel, with its parameters and a method `launch()`.

        Raises:
            TranslationError: The kernel is outside the language; the text has the place and the reason.
            InvalidArgumentError: There is no kernel of the name, or there are several and no name is given.
        """
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
        """Run a kernel, once for each thread of a grid.

        An array has the dimensions of the parameter, followed by those of its components: `array2d[vec3]` is float32 of
        shape [n, m, 3]. An array of structs is a numpy array with fields, or bytes. An array of another type is
        converted only if the parameter's type represents all values of that type. Python integers must be in the range
        of the parameter's type, and Python floats are rounded to it.

        In the dialect "python", arguments are broadcast against each other, as by numpy, and the kernel maps over the
        rows. Results have the shape of the rows; if all arguments are numbers, results are Python numbers.

        Args:
            kernel: What `compile()` returned. A kernel that the daemon has dropped is compiled again.
            *arguments: Arrays, Python numbers and resident tensors, in the order of the parameters.
            grid: Extents of the grid of threads. In the dialect "python", the default is a thread for each row.
            outputs: Names of the arrays to return; by default all that the kernel writes. A dict has the shapes of the
                arrays that are not arguments, whose elements are initially zero.
            loop_budget: Maximum iterations of all loops of a thread; None means the daemon's default.
            device: "cpu", or "cuda" for a GPU of the daemon. None means "cpu".
            timeout: Seconds for the whole call, retries included.
            **named: Arguments by name. An argument that is named as an option is passed by position.

        Returns:
            The array, or a dict of several arrays by name, all read-only. Arguments do not change.

        Raises:
            KernelFault: The kernel did what its dialect forbids, such as an access out of bounds.
            TypeError: An argument is missing, unknown or of another type.
            ValueError: An argument has another shape, or a number is out of the range of its type.
        """
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
        """Measure a kernel: launch it many times, with other elements in its arrays each time, and compare its results.

        A wrong result, a fault or an implausibly short time is the verdict, not an exception.

        Args:
            kernel: As in `launch()`.
            *arguments: As in `launch()`. Each run rotates the elements of an array by a different offset.
            grid: As in `launch()`.
            outputs: As in `launch()`. The initial elements of an array that is not an argument differ from run to run.
            reference: A kernel that computes the expected results on the CPU, as in `translate()`; None means the
                kernel itself.
            reference_name: Name of the reference; None if it is a function, or the only kernel of a text.
            fixed: Names of arrays whose elements are the same in each run, such as sorted offsets.
            runs: Number of timed runs; None means 20.
            warm_up: Number of runs before the timed ones; None means 3.
            atol: Absolute tolerance; None means the one of torch.testing for the element type.
            rtol: Relative tolerance; None means the one of torch.testing for the element type.
            loop_budget: As in `launch()`.
            device: As in `launch()`.
            timeout: Seconds for the whole call, retries included.
            **named: As in `launch()`.

        Returns:
            The verdict, and the times of the runs in seconds.
        """
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
        """Evaluate an untrusted kernel in CUDA C++ against a kernel in Python or expected results.

        The daemon compiles the kernel, launches it many times on a GPU, in a process of its own, and compares what it
        computes. An error of the kernel is the verdict, not an exception. The call requires the daemon's setting
        `sandbox.cuda_source`.

        Args:
            source: The source, with an `extern "C" __global__` function.
            entry: Name of that function.
            params: The parameters in order, under the names of the reference's parameters: an array that is read, a
                `CudaOutput` for one that is written, a `CudaInputOutput` for both, and a numpy scalar such as
                `numpy.int32(3)` for a value.
            grid: Blocks of the grid, in up to three dimensions.
            block: Threads of a block, in up to three dimensions.
            shared_memory: Dynamic shared memory of a block, in bytes.
            reference: A kernel that computes the expected results on the CPU, as in `translate()`. With a reference,
                each run rotates the elements of arrays by a different offset.
            reference_name: Name of the reference; None if it is a function, or the only kernel of a text.
            reference_grid: Extents of the reference's grid of threads.
            expected: The expected arrays by name, in place of a reference.
            fixed: Names of arrays whose elements are the same in each run, such as sorted offsets.
            runs: Number of timed runs; None means 20.
            warm_up: Number of runs before the timed ones; None means 3.
            atol: Absolute tolerance; None means the one of torch.testing for the element type.
            rtol: Relative tolerance; None means the one of torch.testing for the element type.
            launch_timeout: Maximum seconds of a launch; None means 1.
            timeout: Seconds for the whole call, retries included.

        Returns:
            The verdict, the times of the runs in seconds, and the resources that the kernel uses.
        """
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

    def generate_dataset(
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
        """Generate pairs of Python kernels and their translations, which the daemon runs on an example.

        Pairs are generated as they are read. Equal arguments give equal pairs. After a lost connection, or the drain of
        a daemon, the iterator continues with the next pair. To continue after an iterator that ended early, pass the
        index after that of the last pair as `first_index`, and drop pairs whose `id` you have.

        Args:
            count: Number of pairs, at most 100,000 in a call.
            seed: Seed of the kernels.
            categories: Categories of the kernels; empty means all.
            dialects: Dialects of the kernels; empty means both.
            targets: Targets of the translations; empty means CUDA C++ and WebAssembly.
            first_index: Index of the first kernel in the sequence.
            validation_percent: Percentage of kernels in the validation split; None means 10.
            test_percent: Percentage of kernels in the test split; None means 10.
            device: "cpu" runs the translations on the CPU only, "cuda" on a GPU too; None means a GPU if there is one.
            timeout: Seconds for all pairs; None means no limit.

        Returns:
            An iterator over the pairs, in order of their indices.
        """
        request = _dataset.request(
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
        progress = _dataset.Progress(request)
        responses = self._caller.continued_stream(KernelService.GENERATE_DATASET, progress, timeout)
        return mapped(_dataset.pair, responses)

    async def list_kernels(self, *, timeout: float | None = None) -> list[AsyncCompiledKernel]:
        """Return the kernels that the daemon keeps, most recently used first."""
        return [self._compiled(fields) for fields in await self._caller.run(_launch.list_kernels(), timeout)]

    async def evict_kernel(self, kernel: KernelInfo | str, *, timeout: float | None = None) -> None:
        """Drop a kernel that the daemon keeps. Raises a NotFoundError if it keeps none of this id."""
        await self._caller.run(_launch.evict_kernel(kernel), timeout)

    def _compiled(self, fields: Mapping[str, Any]) -> AsyncCompiledKernel:
        return AsyncCompiledKernel(**fields, _client=self)
