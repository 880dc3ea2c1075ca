"""Translations of kernels."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ._call import Operation, Settings
from ._errors import InvalidArgumentError, malformed, too_large
from ._kernel_captures import Constant
from ._kernel_program import KernelDialect, Program
from ._kernel_source import KernelModule, KernelSource
from ._message import choice, message
from ._methods import KernelService
from ._proto import kernel_pb2 as pb
from ._proto import tensor_pb2
from ._tensor import NUMPY_DTYPES, dtype_name
from ._visible import visible

KernelTarget: TypeAlias = Literal["cuda", "wasm", "ptx"]

TARGETS: dict[Any, pb.KernelTarget] = {
    "cuda": pb.KERNEL_TARGET_CUDA,
    "wasm": pb.KERNEL_TARGET_WASM,
    "ptx": pb.KERNEL_TARGET_PTX,
}
#: How an error of the daemon describes a diagnostic.
_DIAGNOSTIC = re.compile(r"line (\d+), column (\d+): (.*) \((\w+)\)", re.DOTALL)
#: The most diagnostics in the text of an error.
_MAX_SHOWN = 20


@dataclass(frozen=True)
class KernelComponent:
    """A scalar within an element of a parameter."""

    #: Its path in the element, such as "x"; empty for a scalar.
    name: str
    #: Name of its type, such as "f32".
    dtype: str
    offset_bytes: int


@dataclass(frozen=True)
class KernelParam:
    """A parameter of a kernel."""

    name: str
    #: Number of dimensions of an array; 0 for a value.
    dims: int
    #: The components of an element, or of the value, in the order of their offsets.
    components: tuple[KernelComponent, ...]
    #: Bytes from one element to the next in a contiguous array.
    element_size_bytes: int


@dataclass(frozen=True)
class KernelDiagnostic:
    """Why a kernel, or the module, is not translated."""

    #: The kernel; empty for the module.
    kernel: str
    #: A stable name of the reason, such as "unsupported_statement".
    code: str
    #: What was expected, and what there is.
    message: str
    #: Line from 1, and column in characters from 0.
    line: int
    column: int
    #: The file of the function; None for a source of text, whose lines are its own.
    filename: str | None = None

    def __str__(self) -> str:
        what = f"kernel {self.kernel}" if self.kernel else "module"
        file = "" if self.filename is None else f"{self.filename}, "
        return visible(f"{what}: {file}line {self.line}, column {self.column}: {self.message} ({self.code})")


class TranslationError(ValueError):
    """Kernels that are not translated. Its text has the place and the reason of each diagnostic."""

    def __init__(self, diagnostics: tuple[KernelDiagnostic, ...]) -> None:
        lines = [str(one) for one in diagnostics[:_MAX_SHOWN]]
        if left := len(diagnostics) - len(lines):
            lines.append(f"and {left} more")
        super().__init__("\n".join(lines))
        self.diagnostics = diagnostics

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.diagnostics,)


@dataclass(frozen=True, repr=False)
class TranslatedKernel:
    """A kernel and the files of its translations."""

    name: str
    #: Dimensions of the grid of threads.
    grid_dims: int
    params: tuple[KernelParam, ...]
    #: Whether launches compute the same bits on every device: there is no elementary function of float64 and no
    #: atomic sum of floating-point numbers.
    bit_exact: bool
    #: Contents of the files by name.
    files: Mapping[str, bytes] = field(hash=False)

    def __repr__(self) -> str:
        params = ", ".join(param.name for param in self.params)
        return visible(f"<TranslatedKernel {self.name}({params}): {', '.join(self.files)}>")

    def file(self, name: str) -> bytes:
        """Return the content of a file."""
        if name not in self.files:
            raise KeyError(f"{name!r} is not one of the files {', '.join(self.files)}")
        return self.files[name]

    @property
    def cuda(self) -> str | None:
        """The program in CUDA C++; None if there is none."""
        content = self._with_suffix(".cu")
        return None if content is None else content.decode()

    @property
    def wasm(self) -> bytes | None:
        """The module of WebAssembly; None if there is none."""
        return self._with_suffix(".wasm")

    @property
    def ptx(self) -> str | None:
        """The PTX; None if there is none."""
        content = self._with_suffix(".ptx")
        return None if content is None else content.decode()

    def _with_suffix(self, suffix: str) -> bytes | None:
        return next((content for name, content in self.files.items() if name.endswith(suffix)), None)


@dataclass(frozen=True)
class Translation:
    """The translations of the kernels of a module."""

    #: The kernels that were translated, in the order of the source.
    kernels: tuple[TranslatedKernel, ...]
    #: What is wrong with the others, or with the module, in the order of the source.
    diagnostics: tuple[KernelDiagnostic, ...]
    #: The module that was sent.
    source: str = field(repr=False)

    def __getitem__(self, name: str) -> TranslatedKernel:
        """Return a translated kernel."""
        found = next((kernel for kernel in self.kernels if kernel.name == name), None)
        if found is None:
            raise KeyError(name)
        return found

    def raise_for_diagnostics(self) -> None:
        """Raise a `TranslationError` with places and reasons if there are diagnostics."""
        if self.diagnostics:
            raise TranslationError(self.diagnostics)

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write the files of each kernel to a folder of its name within a folder, which is made if it is missing.

        Returns:
            The paths of the files.

        Raises:
            AccelerdError: A name is not that of a file, such as `../kernel`, or two kernels have one name. Nothing is
                written then.
        """
        contents: dict[Path, bytes] = {}
        for kernel in self.kernels:
            for name, content in kernel.files.items():
                path = Path(folder, _file_name(kernel.name), _file_name(name))
                if path in contents:
                    raise malformed(f"two files {kernel.name}/{name}")
                contents[path] = content
        for path, content in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return list(contents)


def _file_name(name: str) -> str:
    # `:` separates drives and streams on Windows.
    if name in ("", ".", "..") or any(separator in name for separator in "/\\:\0"):
        raise malformed(f"file name {name!r}")
    return name


def translate(
    source: KernelSource,
    dialect: KernelDialect | None,
    constants: Mapping[str, Constant],
    names: Sequence[str],
    targets: Sequence[KernelTarget],
    arch: str | None,
    settings: Settings,
) -> Operation[Translation]:
    """Return the call that translates kernels."""
    program = Program.of(source, None, dialect, constants)
    module = program.module
    # Functions that the given ones call are no kernels that the caller wants.
    has_called = len(module.excerpts) > len(module.given)
    request = message(
        pb.TranslateRequest,
        {"cuda_arch": "arch"},
        source=program.message.source,
        dialect=program.message.dialect,
        constants=program.message.constants,
        names=_names(names) or (module.given if has_called else ()),
        targets=[choice("targets", target, TARGETS) for target in _items("targets", targets)],
        cuda_arch=arch,
    ).SerializeToString()
    if len(request) > settings.max_message_bytes:
        raise too_large("a module of kernels", len(request), settings.max_message_bytes)
    return Operation(KernelService.TRANSLATE, request, lambda response: _translation(response, module))


def _items(argument: str, values: Sequence[Any]) -> Sequence[Any]:
    if isinstance(values, str):
        raise TypeError(f"{argument}: expected a sequence of str, got a str; did you mean [{values!r}]?")
    return values


@contextmanager
def explained(**programs: Program | None) -> Iterator[None]:
    """Raise a `TranslationError` in place of an error of the daemon about the source of a program.

    Args:
        **programs: By the names of the fields that have them.
    """
    try:
        yield
    except InvalidArgumentError as problem:
        for violation in problem.violations:
            path = violation.field.split(".")
            program = programs.get(path[-2]) if path[-1] == "source" and len(path) > 1 else None
            if program is not None and (found := _DIAGNOSTIC.fullmatch(violation.description)):
                line, column, text, code = found.groups()
                one = pb.KernelDiagnostic(line=int(line), column=int(column), message=text, code=code)
                one.kernel = program.message.name
                raise TranslationError((_diagnostic(one, program.module),)) from problem
        raise


def _names(names: Sequence[str]) -> list[str]:
    for nth, name in enumerate(_items("names", names)):
        if not isinstance(name, str):
            raise TypeError(f"names[{nth}]: expected a str, got {type(name).__name__}")
    return list(names)


def _translation(response: pb.TranslateResponse, module: KernelModule) -> Translation:
    kernels = tuple(_kernel(one) for one in response.kernels)
    return Translation(kernels, tuple(_diagnostic(one, module) for one in response.diagnostics), module.text)


def _kernel(kernel: pb.TranslatedKernel) -> TranslatedKernel:
    files = {file.name: file.content for file in kernel.files}
    if len(files) < len(kernel.files):
        raise malformed(f"two files of one name in kernel {kernel.name!r}")
    params = tuple(received_param(param) for param in kernel.params)
    return TranslatedKernel(kernel.name, kernel.grid_dims, params, kernel.bit_exact, files)


def received_param(param: pb.KernelParam) -> KernelParam:
    """Return the parameter of a message."""
    components = tuple(KernelComponent(one.name, _dtype(one.dtype), one.offset_bytes) for one in param.components)
    return KernelParam(param.name, param.dims, components, param.element_size_bytes)


def _dtype(number: tensor_pb2.Dtype) -> str:
    if number not in NUMPY_DTYPES:
        raise malformed(f"dtype {number}")
    return "bf16" if number == tensor_pb2.DTYPE_BF16 else dtype_name(NUMPY_DTYPES[number])


def _diagnostic(one: pb.KernelDiagnostic, module: KernelModule) -> KernelDiagnostic:
    filename, line, column = module.place(one.kernel, one.line, one.column)
    return KernelDiagnostic(one.kernel, one.code, one.message, line, column, filename)
