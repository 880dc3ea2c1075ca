"""The decorator `kernel`: functions that run on a daemon."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from ._blocking_client import Client
from ._blocking_kernel import CompiledKernel
from ._default_client import default_client
from ._dlpack import host_array, refuse_masked
from ._kernel_captures import unwrapped
from ._kernel_program import KernelDialect
from ._launch import Grid, KernelDevice


class KernelFunction:
    """A function that runs on a daemon, which compiles it on the first call.

    Of the dialect "python", `f(x, y)` maps over arrays, and Python numbers give Python numbers. Of the dialect "warp",
    `f.launch(dim, inputs=[...])` runs it as `warp.launch` does. `f.__wrapped__` is the function itself.
    """

    def __init__(
        self,
        function: Any,
        client: Client | None = None,
        *,
        dialect: KernelDialect | None = None,
        constants: Mapping[str, int | float | bool] | None = None,
        device: KernelDevice | None = None,
    ) -> None:
        func = unwrapped(function, "function")
        if func is None:
            raise TypeError(f"function: expected a function or a Client, got {type(function).__name__}")
        functools.update_wrapper(self, function if callable(function) else func)
        #: The function.
        self.func: Callable[..., Any] = func
        #: What was given: the function, or a kernel of Warp.
        self.decorated = function
        self._client = client
        self._name, self._dialect, self._constants = func.__code__.co_name, dialect, constants
        self._device = device
        self._compiled: CompiledKernel | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<KernelFunction {self._name}>"

    def __reduce__(self) -> str:
        # As functions, it is pickled by its name.
        return self.func.__qualname__

    @property
    def client(self) -> Client:
        """The client that it was given, or the default one: `Client()`, which ACCELERD_SERVER names the daemon of."""
        return self._client or default_client()

    def compile(self, *, timeout: float | None = None) -> CompiledKernel:
        """Compile the function, unless that is done already, with the values that its captured names have now."""
        with self._lock:
            if self._compiled is None:
                self._compiled = self.client.compile(
                    self, name=self._name, dialect=self._dialect, constants=self._constants, timeout=timeout
                )
        return self._compiled

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Map the function over arrays, which are broadcast against each other; `client.launch()` has options.

        Returns:
            An array, or a tuple of arrays if the function returns a tuple; Python numbers if all arguments are numbers.

        Raises:
            KernelFault: Where CPython raises an exception.
        """
        compiled = self.compile()
        if compiled.dialect != "python":
            raise TypeError(
                f"{self._name}: a kernel of the dialect {compiled.dialect!r} is run by launch(dim, inputs=[...])"
            )
        result = compiled.launch(*arguments, **{"device": self._device, **named})
        return tuple(result.values()) if isinstance(result, dict) else result

    def launch(
        self,
        dim: Grid,
        inputs: Sequence[Any] = (),
        outputs: Sequence[Any] = (),
        *,
        loop_budget: int | None = None,
        timeout: float | None = None,
    ) -> None:
        """Run the function once for each thread of a grid, as `warp.launch`, and change arrays that it writes.

        Args:
            dim: Extents of the grid of threads.
            inputs: Arguments in the order of the parameters. Those that the function writes are numpy arrays, or other
                arrays in the memory of the host, such as those of Warp on the CPU.
            outputs: The arguments after `inputs`.
            loop_budget: The most iterations of all loops of a thread; None means the daemon's default.
            timeout: Seconds for the whole call, retries included.

        Raises:
            KernelFault: The function did what its dialect forbids. No array is changed.
            TypeError: An argument is missing or of another type, or an array that is written cannot be.
            ValueError: An array that is written shares memory with another argument, and none contains the other.
        """
        compiled = self.compile(timeout=timeout)
        arguments = [*inputs, *outputs]
        names = [param.name for param in compiled.params]
        given = dict(zip(names, arguments, strict=False))
        written = {name: _writable(name, given[name]) for name in compiled.written_arrays if name in given}
        if not written:
            raise TypeError(f"{self._name}: expected arrays for {', '.join(compiled.written_arrays)}, which it writes")
        results = compiled.launch(
            *arguments,
            grid=dim,
            outputs=list(written),
            loop_budget=loop_budget,
            device=self._device,
            timeout=timeout,
        )
        results = results if isinstance(results, dict) else dict.fromkeys(written, results)
        for name, array in written.items():
            # Values of bfloat16 come as float32.
            np.copyto(array, results[name].reshape(array.shape), casting="unsafe")


def _writable(name: str, given: Any) -> np.ndarray[Any, Any]:
    expected = f"{name}: expected an array that the kernel can write, got"
    if isinstance(given, (list, tuple, int, float)):
        raise TypeError(f"{expected} {type(given).__name__}")
    refuse_masked(given, name)
    # Arrays that numpy imports by DLPack are read-only.
    array = np.asarray(given) if hasattr(given, "__array_interface__") else host_array(given, name)
    if not array.flags["W"]:
        raise TypeError(f"{expected} one that is read-only")
    return array


@overload
def kernel(
    function: Client | None = None,
    /,
    *,
    client: Client | None = None,
    dialect: KernelDialect | None = None,
    constants: Mapping[str, int | float | bool] | None = None,
    device: KernelDevice | None = None,
) -> Callable[[Any], KernelFunction]: ...
@overload
def kernel(
    function: Any,
    /,
    *,
    client: Client | None = None,
    dialect: KernelDialect | None = None,
    constants: Mapping[str, int | float | bool] | None = None,
    device: KernelDevice | None = None,
) -> KernelFunction: ...
def kernel(
    function: Any = None,
    /,
    *,
    client: Client | None = None,
    dialect: KernelDialect | None = None,
    constants: Mapping[str, int | float | bool] | None = None,
    device: KernelDevice | None = None,
) -> Any:
    """Make a function run on a daemon: `@accelerd.kernel`, `@accelerd.kernel(client)`, `@accelerd.kernel(client=x)`.

    The function is sent as its source when it is called first, with the values that names which it captures have then.
    `accelerd.kernel(f)` does the same with a function that exists, or a kernel of Warp.

    Args:
        function: The function, or a client.
        client: The client that runs it. By default one for all functions, `Client()`: the environment variable
            ACCELERD_SERVER names its daemon, else it is at localhost:7433.
        dialect: "warp" or "python"; None means "warp" if the function has a decorator of Warp, else "python".
        constants: Values of names that the function uses, in place of captured ones.
        device: Where it runs: "cpu" or "cuda", a GPU of the daemon. None means "cpu".
    """
    if function is None or isinstance(function, Client):
        given = client if function is None else function

        def decorate(function: Any) -> KernelFunction:
            return KernelFunction(function, given, dialect=dialect, constants=constants, device=device)

        return decorate
    return KernelFunction(function, client, dialect=dialect, constants=constants, device=device)
