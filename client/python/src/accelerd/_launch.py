"""Compilations and launches of kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from . import _wire
from ._call import Operation, Settings
from ._errors import malformed, too_large
from ._geometry import TABLES, with_tables
from ._kernel import KernelParam, received_param
from ._kernel_arguments import array_of, element_type, struct_type
from ._kernel_fault import fault
from ._kernel_program import KernelDialect, Program
from ._message import choice, extents, message
from ._methods import KernelService
from ._proto import kernel_pb2 as pb
from ._resident import ResidentTensor, tensor_input
from ._rows import Rows
from ._tensor import Value
from ._views import View, shared_arguments
from ._visible import visible
from ._wire import Chunk

#: Extents of a grid of threads.
Grid: TypeAlias = "int | Sequence[int]"
#: Names of the arrays to return, or their shapes by name; None for the shape of an argument.
Outputs: TypeAlias = "Sequence[str] | Mapping[str, Sequence[int] | int | None]"

#: Where a kernel runs.
KernelDevice: TypeAlias = Literal["cpu", "cuda"]

DEVICES: dict[Any, pb.KernelDevice] = {
    None: pb.KERNEL_DEVICE_UNSPECIFIED,
    "cpu": pb.KERNEL_DEVICE_CPU,
    "cuda": pb.KERNEL_DEVICE_CUDA,
}
DEVICE_NAMES: dict[int, KernelDevice] = {pb.KERNEL_DEVICE_CPU: "cpu", pb.KERNEL_DEVICE_CUDA: "cuda"}
_DIALECT_NAMES: dict[int, KernelDialect] = {pb.KERNEL_DIALECT_WARP: "warp", pb.KERNEL_DIALECT_PYTHON: "python"}


@dataclass(frozen=True, repr=False)
class KernelInfo:
    """A kernel that the daemon keeps in its compiled form."""

    #: SHA-256 of its program, in hexadecimal digits.
    id: str
    #: Name of its function.
    name: str
    dialect: KernelDialect
    #: Dimensions of the grid of threads.
    grid_dims: int
    params: tuple[KernelParam, ...]
    #: Names of the arrays that it writes.
    written_arrays: tuple[str, ...]
    #: Whether launches compute the same bits on every device: there is no elementary function of float64 and no
    #: atomic sum of floating-point numbers.
    bit_exact: bool
    #: Bytes of its WebAssembly module.
    size_bytes: int
    #: Its program; None if it was not compiled by this call but listed.
    program: Program | None = field(compare=False)

    def __repr__(self) -> str:
        params = ", ".join(param.name for param in self.params)
        return visible(f"<{type(self).__name__} {self.name}({params}) {self.id[:12]}>")


def compile_kernel(program: Program, settings: Settings) -> Operation[Mapping[str, Any]]:
    """Return the call that compiles a kernel. Its result has the fields of a `KernelInfo`."""
    request = pb.CompileRequest(program=program.message).SerializeToString()
    if len(request) > settings.max_message_bytes:
        raise too_large("a module of kernels", len(request), settings.max_message_bytes)
    return Operation(KernelService.COMPILE, request, lambda response: _fields(response.kernel, program))


def list_kernels() -> Operation[list[Mapping[str, Any]]]:
    """Return the call that lists kernels."""
    return Operation(
        KernelService.LIST_KERNELS, pb.ListKernelsRequest(), lambda found: [_fields(one, None) for one in found.kernels]
    )


def evict_kernel(kernel: KernelInfo | str) -> Operation[None]:
    """Return the call that drops a kernel."""
    kernel_id = kernel.id if isinstance(kernel, KernelInfo) else kernel
    request = message(pb.EvictKernelRequest, {"kernel_id": "kernel"}, kernel_id=kernel_id)
    return Operation(KernelService.EVICT_KERNEL, request, lambda _: None)


def _fields(kernel: pb.Kernel, program: Program | None) -> Mapping[str, Any]:
    if kernel.dialect not in _DIALECT_NAMES:
        raise malformed(f"dialect {kernel.dialect}")
    return {
        "id": kernel.id,
        "name": kernel.name,
        "dialect": _DIALECT_NAMES[kernel.dialect],
        "grid_dims": kernel.grid_dims,
        "params": tuple(received_param(param) for param in kernel.params),
        "written_arrays": tuple(kernel.written_arrays),
        "bit_exact": kernel.bit_exact,
        "size_bytes": kernel.size_bytes,
        "program": program,
    }


class Launch:
    """A launch: its arguments, which are bound to parameters, and the decoder of its results."""

    def __init__(
        self,
        kernel: KernelInfo,
        arguments: Sequence[Any],
        named: Mapping[str, Any],
        grid: Grid | None,
        outputs: Outputs | None,
        loop_budget: int | None,
        device: KernelDevice | None,
        settings: Settings,
    ) -> None:
        if not isinstance(kernel, KernelInfo):
            raise TypeError(f"kernel: expected a kernel of compile(), got {type(kernel).__name__}")
        self.kernel = kernel
        bound = _bound(kernel, arguments, named)
        #: Parameters that share the memory of an argument. A function in Python writes to none.
        self._views: dict[str, View] = {}
        if kernel.dialect != "python":
            self._views = shared_arguments(kernel.params, kernel.written_arrays, bound)
        limit = settings.max_message_bytes
        # Arrays are checked before they are copied: a broadcast one can exceed the memory.
        self._check_size(sum(one.nbytes for one in bound.values() if isinstance(one, np.ndarray)), limit)
        #: How the dialect Python maps arguments to rows; None for other dialects.
        self._rows = Rows(kernel.params, bound) if kernel.dialect == "python" else None
        if self._rows is not None:
            self._check_size(self._rows.size_bytes, limit)
            self._arguments = self._rows.arguments()
        else:
            by_name = {param.name: param for param in kernel.params}
            own = {name: one for name, one in bound.items() if name not in self._views}
            self._arguments = {name: _argument(by_name[name], one) for name, one in own.items()}
        #: The types of arguments that are arrays of structs, which are sent as bytes.
        self._structs = {name: dtype for name, one in bound.items() if (dtype := struct_type(one)) is not None}
        shapes = _shapes(outputs)
        if self._views and not shapes:
            shapes = dict.fromkeys(kernel.written_arrays)
        #: The outputs to return; empty means all.
        self._selected = tuple(shapes)
        if self._rows is not None and shapes:
            # All results of a row are computed.
            shapes = {**shapes, **dict.fromkeys(name for name in kernel.written_arrays if name not in shapes)}
        # The argument has the elements of a view.
        shapes = {self._views[name].argument if name in self._views else name: shape for name, shape in shapes.items()}
        self._options = message(
            pb.LaunchRequest,
            grid=[] if grid is None else extents("grid", grid),
            outputs=[_output(name, shape) for name, shape in shapes.items()],
            loop_budget=loop_budget,
            device=choice("device", device, DEVICES),
            views=[view.message(name) for name, view in self._views.items()],
        ).SerializeToString()

    def operation(self, settings: Settings, with_program: bool = False) -> Operation[Any]:
        """Return the call, by the kernel's id or with its program, which compiles it if that is necessary."""
        chunks = self.chunks(with_program)
        self._check_size(_wire.size(chunks), settings.max_message_bytes)
        return Operation(KernelService.LAUNCH, b"".join(chunks), self._decoded)

    def _check_size(self, size: int, limit: int) -> None:
        if size > limit:
            raise too_large(f"a launch of {self.kernel.name}", size, limit, "; upload() sends an array in chunks")

    def chunks(self, with_program: bool) -> list[Chunk]:
        """Return the request, by the kernel's id or with its program."""
        kernel = self.kernel
        named = (
            pb.LaunchRequest(program=kernel.program.message)
            if with_program and kernel.program is not None
            else pb.LaunchRequest(kernel_id=kernel.id)
        )
        chunks: list[Chunk] = [named.SerializeToString(), self._options]
        for name, value in self._arguments.items():
            chunks += _wire.field(pb.LaunchRequest.ARGUMENTS_FIELD_NUMBER, tensor_input(name, value))
        return chunks

    def _decoded(self, response: pb.LaunchResponse) -> Any:
        if response.HasField("fault"):
            raise fault(response.fault, self.kernel.name, self.kernel.program)
        if len({one.name for one in response.outputs}) < len(response.outputs):
            raise malformed("two outputs of one name")
        received = {one.name: Value.received(one.value) for one in response.outputs}
        params = {param.name: param for param in self.kernel.params}
        for name, view in self._views.items():
            if name in self._selected and view.argument in received:
                received[name] = view.of(received[view.argument], params[name])
        names = [name for name in self._selected if name in received] if self._views else received
        results: dict[str, Any] = {
            name: received[name].numpy() for name in names if not self._selected or name in self._selected
        }
        for name in results.keys() & self._structs.keys():
            results[name] = results[name].view(self._structs[name])[..., 0]
        if self._rows is not None:
            results = {name: self._rows.result(array) for name, array in results.items()}
        return next(iter(results.values())) if len(results) == 1 else results


def _bound(kernel: KernelInfo, arguments: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments by name, in the order of the parameters."""
    is_python = kernel.dialect == "python"
    # What a function in Python returns is no parameter of it.
    names = [param.name for param in kernel.params if not is_python or param.name not in kernel.written_arrays]
    signature = f"{kernel.name}({', '.join(names)})"
    if len(arguments) > len(names):
        raise TypeError(f"{signature}: expected at most {len(names)} arguments, got {len(arguments)}")
    bound = dict(zip(names, arguments, strict=False))
    for name, value in named.items():
        if name not in names and name in TABLES and not {*TABLES}.isdisjoint(names):
            # Not every kernel with queries needs both tables.
            continue
        if name not in names:
            raise TypeError(f"{signature}: got an unexpected argument {name!r}")
        if name in bound:
            raise TypeError(f"{signature}: got two values of {name!r}")
        bound[name] = value
    if is_python and kernel.program is not None:
        bound = {**kernel.program.module.defaults.get(kernel.name, {}), **bound}
    if not is_python:
        bound = with_tables(signature, names, bound)
    missing = [name for name in names if name not in bound and name not in kernel.written_arrays]
    if missing:
        raise TypeError(f"{signature}: expected a value of {', '.join(map(repr, missing))}")
    return {name: bound[name] for name in names if name in bound}


def _argument(param: KernelParam, given: Any) -> Value | ResidentTensor:
    if isinstance(given, (int, np.integer)) and not param.dims and element_type(param) == ("bool", ()):
        # As Warp does, such as for the bits of a mask.
        given = bool(given)
    return given if isinstance(given, ResidentTensor) else array_of(param, given)


def _shapes(outputs: Outputs | None) -> dict[str, Sequence[int] | int | None]:
    if isinstance(outputs, str):
        raise TypeError(
            f"outputs: expected a sequence of names or a dict of shapes, got a str; did you mean [{outputs!r}]?"
        )
    return dict(outputs) if isinstance(outputs, Mapping) else dict.fromkeys(outputs or ())


def _output(name: str, shape: Sequence[int] | int | None) -> pb.KernelOutput:
    found = [] if shape is None else extents(f"outputs[{name!r}]", shape)
    return message(pb.KernelOutput, {"name": "outputs", "shape": "outputs"}, name=name, shape=found)
