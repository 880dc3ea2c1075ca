"""Programs of kernels: a module, the kernel's name, and the values of what the module captures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ._kernel_captures import Constant
from ._kernel_source import KernelModule, KernelSource, kernel_module
from ._message import check_encodable, choice, message
from ._proto import kernel_pb2 as pb

KernelDialect: TypeAlias = Literal["warp", "python"]

DIALECTS: dict[Any, pb.KernelDialect] = {
    None: pb.KERNEL_DIALECT_UNSPECIFIED,
    "warp": pb.KERNEL_DIALECT_WARP,
    "python": pb.KERNEL_DIALECT_PYTHON,
}


@dataclass(frozen=True)
class Program:
    """A program as it is sent, and where its lines are from."""

    module: KernelModule
    message: pb.KernelProgram

    @classmethod
    def of(
        cls,
        source: KernelSource,
        name: str | None,
        dialect: KernelDialect | None,
        constants: Mapping[str, Constant],
    ) -> Program:
        """Return the program of a source. Given constants take precedence over captured ones."""
        module = kernel_module(source, constants)
        try:
            module.text.encode()
        except UnicodeEncodeError as wrong:
            raise ValueError(f"source: expected text that UTF-8 can encode: {wrong.reason} at {wrong.start}") from None
        program = message(
            pb.KernelProgram,
            source=module.text,
            dialect=choice("dialect", dialect, DIALECTS),
            constants={name: _constant(name, value) for name, value in module.constants.items()},
            name=(module.given[0] if len(module.given) == 1 else "") if name is None else name,
        )
        return cls(module, program)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.module, self.message.SerializeToString())


def _unpickled(module: KernelModule, serialized: bytes) -> Program:
    return Program(module, pb.KernelProgram.FromString(serialized))


def _constant(name: str, value: Constant) -> pb.KernelConstant:
    if not isinstance(name, str):
        raise TypeError(f"constants: expected names of type str, got {type(name).__name__}")
    check_encodable(f"constants[{name!r}]: name", name)
    if isinstance(value, bool):
        return pb.KernelConstant(boolean=value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            bits = value.bit_length()
            raise ValueError(f"constants[{name!r}]: expected an int from -2**63 to 2**63 - 1, got one of {bits} bits")
        return pb.KernelConstant(integer=value)
    if isinstance(value, float):
        return pb.KernelConstant(number=value)
    raise TypeError(f"constants[{name!r}]: expected an int, a float or a bool, got {type(value).__name__}")
