"""Functions to verify: in Python, and of WebAssembly modules."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ._input_types import InputType, InputTypes, of_function, of_module, of_text
from ._kernel_captures import Constant
from ._kernel_program import KernelDialect, Program
from ._kernel_source import KernelSource
from ._launch import KernelInfo
from ._message import choice, message
from ._proto import kernel_pb2
from ._proto import verify_pb2 as pb
from ._tensor import Dtype, dtype_name, dtype_number
from ._verify import Compared

_BUFFER_KINDS: dict[Any, pb.WasmParamKind] = {
    "input": pb.WASM_PARAM_KIND_INPUT,
    "output": pb.WASM_PARAM_KIND_OUTPUT,
    "in_out": pb.WASM_PARAM_KIND_IN_OUT,
}
_DEF = re.compile(r"^def (\w+)", re.MULTILINE)
_WARP_DECORATOR = re.compile(r"^@\w*\.?(kernel|func)\b", re.MULTILINE)


@dataclass(frozen=True)
class WasmBuffer:
    """A buffer in the memory of a module, which a function gets as its address and its number of elements.

    If it writes the buffer and the other function returns that many numbers, each element is compared with one of them.
    """

    #: Type of its elements, such as "f64".
    dtype: Dtype
    #: Number of its elements.
    length: int
    #: Whether the function reads it, writes it (it is zero to begin with), or both.
    kind: Literal["input", "output", "in_out"] = "input"
    #: Whether the function gets the address alone, as `double *out` in C.
    address_only: bool = False


@dataclass(frozen=True)
class Wasm:
    """A function of a WebAssembly module."""

    #: The module in the binary format, or the path of its file.
    module: bytes | str | os.PathLike[str] = field(repr=False)
    #: Name of the exported function; empty if the module exports one only, besides an allocator.
    function: str = ""
    #: Its parameters by name, in order: the type of a value, or a buffer. Empty means those of the other side by
    #: position, or scalars of the types of the export, named `arg0`, `arg1` and so on.
    params: Mapping[str, Dtype | WasmBuffer] = field(default_factory=dict)
    #: Types of what it returns by name, in order. Empty means the results of the other side, or those of the export.
    results: Mapping[str, Dtype] = field(default_factory=dict)
    #: Run the cases of a chunk in one instance, so that memory and globals keep what earlier cases wrote.
    share_instance: bool = False

    def message(self) -> pb.WasmFunction:
        """Return the message, with the content of the file.

        Raises:
            OSError: The file cannot be read.
        """
        module = self.module
        if not isinstance(module, (str, os.PathLike, bytes, bytearray, memoryview)):
            raise TypeError(f"module: expected bytes or a path, got {type(module).__name__}")
        return message(
            pb.WasmFunction,
            module=Path(module).read_bytes() if isinstance(module, (str, os.PathLike)) else bytes(module),
            function=self.function,
            params=[_param(name, one) for name, one in self.params.items()],
            results=[
                pb.WasmResult(name=name, dtype=_dtype("results", name, one)) for name, one in self.results.items()
            ],
            share_instance=self.share_instance,
        )


def _param(name: str, param: Dtype | WasmBuffer) -> pb.WasmParam:
    if not isinstance(param, WasmBuffer):
        return pb.WasmParam(name=name, dtype=_dtype("params", name, param), kind=pb.WASM_PARAM_KIND_VALUE)
    kind = choice(f"params[{name!r}].kind", param.kind, _BUFFER_KINDS)
    dtype = _dtype("params", name, param.dtype)
    return message(
        pb.WasmParam, name=name, dtype=dtype, kind=kind, length=param.length, address_only=param.address_only
    )


def _dtype(argument: str, name: str, dtype: Dtype) -> Any:
    return dtype_number(dtype, f"{argument}[{name!r}]")


@dataclass(frozen=True)
class KernelProgram:
    """A function in Python, with its name and the values of what it captures."""

    #: The text of a module, a function, or several functions.
    source: KernelSource
    #: Name of the function; None if the source has one only.
    name: str | None = None
    #: What operators and functions mean.
    dialect: KernelDialect | None = None
    #: Values of names that the source uses and does not define, in place of captured ones.
    constants: Mapping[str, Constant] = field(default_factory=dict)


#: A function: in Python, or of a WebAssembly module, also as its bytes or the path of its file.
Function: TypeAlias = "KernelSource | KernelProgram | KernelInfo | Wasm | bytes | os.PathLike[str]"
#: What computes outputs: a function, or the outputs themselves.
Computed: TypeAlias = "Function | Compared"


@dataclass(frozen=True)
class Side:
    """A side of a verification: a function, or outputs."""

    #: Name in texts.
    name: str
    #: The function; None if the outputs are given.
    function: pb.WasmFunction | Program | None
    #: The outputs that are given.
    outputs: Any = None
    #: Parameters, as far as they are known.
    params: InputTypes = ()

    @classmethod
    def of(cls, argument: str, given: Any) -> Side:
        """Return the side that an argument stands for."""
        if is_module_path(given):
            given = Wasm(given)
        elif isinstance(given, (bytes, bytearray, memoryview)):
            given = Wasm(bytes(given))
        if isinstance(given, Wasm):
            found = given.message()
            return cls(given.function or "f", found, params=_module_params(given, found.module))
        if isinstance(given, KernelInfo):
            if given.program is None:
                raise ValueError(f"{argument}: expected a kernel of compile(), got one of list_kernels()")
            text = given.program.module.text
            return cls(given.name, given.program, params=of_text(text, given.name, _is_warp(given.program)))
        if given is None:
            raise TypeError(f"{argument}: expected a function, a module of WebAssembly or outputs, got None")
        _check_text(argument, given)
        if _is_source(given):
            given = KernelProgram(given)
        if isinstance(given, KernelProgram):
            return _program(given)
        return cls(argument, None, given)


def is_module_path(given: Any) -> bool:
    """Return whether an argument is the path of a WebAssembly module, not the text of a module in Python."""
    is_named = isinstance(given, str) and given.endswith(".wasm") and "\n" not in given
    return is_named or isinstance(given, os.PathLike)


def _check_text(argument: str, given: Any) -> None:
    """Refuse the path of a file that is taken for the text of a function."""
    if isinstance(given, str) and "\n" not in given and "def" not in given.split() and os.path.exists(given):
        expected = "expected the text of a function, or the path of a WebAssembly module as a pathlib.Path"
        raise ValueError(f"{argument}: {expected}, got the path {given!r}")


def _is_source(given: Any) -> bool:
    """Return whether an argument is a function, several functions, or text."""
    if isinstance(given, Sequence) and not isinstance(given, str):
        return bool(given) and all(_is_source(one) for one in given)
    return isinstance(given, str) or callable(given) or callable(getattr(given, "func", None))


def _program(given: KernelProgram) -> Side:
    program = Program.of(given.source, given.name, given.dialect, given.constants)
    functions: dict[str, Any] = {}
    if not isinstance(given.source, str):
        several: Sequence[Any] = given.source if isinstance(given.source, Sequence) else [given.source]
        functions = {one.__name__: one for one in (getattr(one, "func", one) for one in several)}
    names = [given.name] if given.name else list(functions) or _DEF.findall(program.module.text)
    # Without a name, the daemon takes the only kernel.
    name = names[0] if len(names) == 1 else "f"
    if name in functions:
        return Side(name, program, params=of_function(functions[name], _is_warp(program)))
    return Side(name, program, params=of_text(program.module.text, name, _is_warp(program)))


def _is_warp(program: Program) -> bool:
    dialect = program.message.dialect
    is_decorated = _WARP_DECORATOR.search(program.module.text) is not None
    return dialect == kernel_pb2.KERNEL_DIALECT_WARP or (not dialect and is_decorated)


def _module_params(wasm: Wasm, module: bytes) -> InputTypes:
    if not wasm.params:
        return of_module(module, wasm.function)
    dtypes = {name: one.dtype if isinstance(one, WasmBuffer) else one for name, one in wasm.params.items()}
    return tuple(InputType(name, dtype_name(dtype)) for name, dtype in dtypes.items())
