"""The source of kernels: text, or Python functions with what they capture."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Protocol, TypeAlias

from ._kernel_captures import Captures, Constant, unwrapped


class DecoratedFunction(Protocol):
    """What a decorator made of a function, such as a kernel of Warp."""

    @property
    def func(self) -> Callable[..., Any]:
        """The function."""


#: A module of Python, a function, or several functions.
KernelSource: TypeAlias = (
    "str | Callable[..., Any] | DecoratedFunction | Sequence[Callable[..., Any] | DecoratedFunction]"
)


@dataclass(frozen=True)
class Excerpt:
    """The lines of a function in a module that consists of functions."""

    name: str
    #: Where they are from: the file and its line of the first.
    filename: str
    file_line: int
    #: Line of the first in the module.
    line: int
    #: How far each was indented.
    indents: tuple[int, ...]


@dataclass(frozen=True)
class KernelModule:
    """A module and the constants that it uses."""

    text: str
    constants: Mapping[str, Constant]
    #: Its functions, if it is not of text: those that were given, then those that they call.
    excerpts: tuple[Excerpt, ...] = ()
    #: Names of the functions that were given.
    given: tuple[str, ...] = ()
    #: Numbers that are defaults of parameters, by the names of given functions.
    defaults: Mapping[str, Mapping[str, Constant]] = field(default_factory=dict)

    def line(self, number: int) -> str:
        """Return the text of a line, from 1, as it is in the module; empty if there is no such line."""
        lines = self.text.splitlines()
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def place(self, kernel: str, line: int, column: int) -> tuple[str | None, int, int]:
        """Return the file, line and column of a place in the module; the module's own if it is of text."""
        for one in self.excerpts:
            if 0 <= (nth := line - one.line) < len(one.indents):
                return one.filename, one.file_line + nth, column + one.indents[nth]
        # A reason that concerns a kernel as a whole.
        whole = next((one for one in self.excerpts if one.name == kernel), None)
        return (None, line, column) if whole is None else (whole.filename, whole.file_line, 0)


def kernel_module(source: KernelSource, constants: Mapping[str, Constant]) -> KernelModule:
    """Return the module of a source. Given constants take precedence over captured ones."""
    if isinstance(source, str):
        return KernelModule(source, constants)
    functions = _functions(source)
    captures = Captures(functions, constants)
    definitions = captures.definitions()
    # The first line belongs to no function: the daemon reports there what concerns a kernel as a whole.
    lines = [f"{statement}\n" for statement in captures.imports] or ["\n"]
    excerpts = []
    for one in definitions:
        lines += one.decorators
        excerpts.append(Excerpt(one.name, one.filename, one.text.first, len(lines) + 1, one.text.indents))
        lines += one.text.lines + one.statements
    names = tuple(function.__code__.co_name for _, function in functions)
    defaults = {function.__code__.co_name: _defaults(function) for _, function in functions}
    return KernelModule("".join(lines), captures.constants, tuple(excerpts), names, defaults)


def _defaults(function: FunctionType) -> dict[str, Constant]:
    params = inspect.signature(function).parameters.values()
    return {param.name: param.default for param in params if isinstance(param.default, (bool, int, float))}


def _functions(source: Any) -> list[tuple[Any, FunctionType]]:
    """Return what is given, and its functions."""
    expected = "expected a str, a function or a sequence of functions"
    if isinstance(source, Sequence) and not isinstance(source, (bytes, bytearray, memoryview)):
        if not source:
            raise ValueError(f"source: {expected}, got an empty {type(source).__name__}")
        return [(one, _function(f"source[{nth}]", one, "expected a function")) for nth, one in enumerate(source)]
    return [(source, _function("source", source, expected))]


def _function(argument: str, given: Any, expected: str) -> FunctionType:
    function = unwrapped(given, argument)
    if function is None:
        raise TypeError(f"{argument}: {expected}, got {type(given).__name__}")
    if not function.__code__.co_name.isidentifier():
        raise TypeError(f"{argument}: {expected} made by def, got {function.__code__.co_name}")
    return function
