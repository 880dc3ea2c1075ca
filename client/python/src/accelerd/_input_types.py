"""Element types of the parameters of functions, for cases that are Python numbers.

The daemon decides which functions it runs. What is not recognised here has no type, and the daemon names the type that
it expects.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

_ANNOTATIONS = {"float": "f64", "int": "i64", "bool": "bool"}
_LISTS = {f"list[{name}]": dtype for name, dtype in _ANNOTATIONS.items()}
#: Names of types of NVIDIA Warp, in which Python's have 32 bits.
_WARP = {
    "float32": "f32",
    "float64": "f64",
    "int32": "i32",
    "int64": "i64",
    "bool": "bool",
    "float": "f32",
    "int": "i32",
}
_VALUE_TYPES = {0x7F: "i32", 0x7E: "i64", 0x7D: "f32", 0x7C: "f64"}
#: The narrower types come first.
_WIDTHS = {dtype: width for width, dtype in enumerate(("bool", "i32", "i64", "f32", "f64"))}
_TYPES, _IMPORTS, _FUNCTIONS, _EXPORTS = 1, 2, 3, 7
_ALLOCATOR = "alloc"


class InputType(NamedTuple):
    """A parameter, as far as it is known: its name and element type, or an empty text."""

    name: str
    dtype: str
    is_list: bool = False


InputTypes: TypeAlias = "tuple[InputType, ...]"


def of_function(function: Callable[..., Any], is_warp: bool) -> InputTypes:
    """Return the parameters of a function."""
    params = inspect.signature(function).parameters.items()
    return tuple(_annotated(name, _text_of(param.annotation), is_warp) for name, param in params)


def _text_of(annotation: Any) -> str:
    return annotation.__name__ if type(annotation) is type else str(annotation)


def of_text(source: str, name: str, is_warp: bool) -> InputTypes:
    """Return the parameters of the function of a name in the text of a module."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return ()
    found = next((one for one in body if isinstance(one, ast.FunctionDef) and one.name == name), None)
    if found is None:
        return ()
    annotations = [(one.arg, one.annotation) for one in found.args.args]
    return tuple(_annotated(name, "" if of is None else ast.unparse(of), is_warp) for name, of in annotations)


def _annotated(name: str, annotation: str, is_warp: bool) -> InputType:
    if is_warp:
        return InputType(name, _WARP.get(annotation.rpartition(".")[2], ""))
    if annotation in _LISTS:
        return InputType(name, _LISTS[annotation], is_list=True)
    return InputType(name, _ANNOTATIONS.get(annotation, ""))


def of_module(module: bytes, function: str) -> InputTypes:
    """Return the parameters of an exported function of a WebAssembly module; empty if the module is not understood."""
    try:
        return tuple(InputType("", dtype) for dtype in _signature(module, function))
    except (IndexError, StopIteration, UnicodeDecodeError):
        return ()


def _signature(module: bytes, function: str) -> list[str]:
    sections = _sections(module)
    imported = 0 if _IMPORTS not in sections else sum(_imports(_Reader(sections[_IMPORTS])))
    exported = dict(_exports(_Reader(sections.get(_EXPORTS, b"\0"))))
    if not function:
        # As the daemon chooses it.
        choices = [name for name in exported if name != _ALLOCATOR]
        function = choices[0] if len(choices) == 1 else ""
    if function not in exported or exported[function] < imported:
        return []
    functions = _Reader(sections.get(_FUNCTIONS, b"\0"))
    types = [functions.number() for _ in range(functions.number())]
    return _params(_Reader(sections.get(_TYPES, b"\0")))[types[exported[function] - imported]]


class _Reader:
    """Reads the binary format from its start. An IndexError says that it ends early."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def is_done(self) -> bool:
        return self._at == len(self._data)

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def number(self) -> int:
        found = shift = 0
        while True:
            byte = self.byte()
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found
            shift += 7

    def take(self, count: int) -> bytes:
        if self._at + count > len(self._data):
            raise IndexError
        self._at += count
        return self._data[self._at - count : self._at]

    def name(self) -> str:
        return self.take(self.number()).decode()


def _sections(module: bytes) -> dict[int, bytes]:
    reader, found = _Reader(module), {}
    if reader.take(4) != b"\0asm":
        return {}
    reader.take(4)
    while not reader.is_done:
        number = reader.byte()
        found[number] = reader.take(reader.number())
    return found


def _imports(reader: _Reader) -> Iterable[bool]:
    """Yield for each import whether it is a function."""
    for _ in range(reader.number()):
        reader.name(), reader.name()
        kind = reader.byte()
        if kind == 0:
            reader.number()
        elif kind == 3:
            reader.take(2)
        else:
            if kind == 1:
                reader.byte()
            limits = reader.byte()
            reader.number()
            if limits & 1:
                reader.number()
        yield kind == 0


def _exports(reader: _Reader) -> Iterable[tuple[str, int]]:
    """Yield name and index of each function."""
    for _ in range(reader.number()):
        name, kind, index = reader.name(), reader.byte(), reader.number()
        if kind == 0:
            yield name, index


def _params(reader: _Reader) -> list[list[str]]:
    found = []
    for _ in range(reader.number()):
        if reader.byte() != 0x60:
            raise IndexError
        found.append([_VALUE_TYPES.get(reader.byte(), "") for _ in range(reader.number())])
        reader.take(reader.number())
    return found


def by_name(sides: Sequence[InputTypes]) -> dict[str, str]:
    """Return the element types of the inputs of two sides: the narrower one, if they differ."""
    found: dict[str, str] = {}
    for side, other in zip(sides, reversed(sides), strict=True):
        for name, dtype in zip(_names(side, other), (param.dtype for param in side), strict=False):
            if dtype:
                found[name] = min(found.get(name, dtype), dtype, key=lambda one: _WIDTHS.get(one, -1))
    return found


def _names(side: InputTypes, other: InputTypes) -> list[str]:
    """Return the names of the parameters of a side. Those of a module are the other side's, by position."""
    if any(param.name for param in side):
        return [param.name for param in side]
    if not any(param.name for param in other):
        return [f"arg{nth}" for nth in range(len(side))]
    # A list is an address and a length in a module.
    has_lists = len(side) != len(other) or any(param.is_list for param in other)
    return [] if has_lists else [param.name for param in other]
