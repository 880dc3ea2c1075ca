"""The source of kernels: text, or Python functions with what they capture."""

from __future__ import annotations

import ast
import builtins
import inspect
import keyword
import math
import symtable
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import FunctionType, ModuleType
from typing import Any, Protocol, TypeAlias


class DecoratedFunction(Protocol):
    """What a decorator made of a function, such as a kernel of Warp."""

    @property
    def func(self) -> Callable[..., Any]:
        """The function."""


#: A module of Python, a function, or several functions.
KernelSource: TypeAlias = (
    "str | Callable[..., Any] | DecoratedFunction | Sequence[Callable[..., Any] | DecoratedFunction]"
)
Constant: TypeAlias = "int | float | bool"


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
    captures = _Captures(_functions(source), constants)
    names = tuple(function.__code__.co_name for _, function in captures.functions)
    sources: list[tuple[FunctionType | type, str, _Source]] = []
    # Adding a function appends those that it calls, and the classes that it names.
    for given, function in captures.functions:
        user = _User.of_function(function)
        one = _with_static_values(user, _without_own_decorators(given, function, _source(function)))
        one = _with_numbers(one, captures.add(user, "".join(one.lines)))
        sources.append((function, function.__code__.co_filename, one))
    for cls in captures.classes:
        one = _source(cls)
        captures.add(_User.of_class(cls), "".join(one.lines))
        sources.append((cls, inspect.getsourcefile(cls) or "", one))
    # The first line belongs to no function: the daemon reports there what concerns a kernel as a whole.
    lines = [f"{statement}\n" for statement in captures.imports] or ["\n"]
    excerpts = []
    for defined, filename, one in sources:
        name = defined.__name__ if isinstance(defined, type) else defined.__code__.co_name
        excerpts.append(Excerpt(name, filename, one.first, len(lines) + 1, one.indents))
        lines += one.lines
        # A name stands for the function that is defined before it; others may have the same name.
        others = [alias for alias, function in captures.aliases.items() if function is defined]
        lines += [f"{alias} = {name}\n" for alias in others]
    return KernelModule("".join(lines), captures.constants, tuple(excerpts), names)


def _functions(source: Any) -> list[tuple[Any, FunctionType]]:
    """Return what is given, and its functions."""
    expected = "expected a str, a function or a sequence of functions"
    if isinstance(source, Sequence) and not isinstance(source, (bytes, bytearray, memoryview)):
        if not source:
            raise ValueError(f"source: {expected}, got an empty {type(source).__name__}")
        return [(one, _function(f"source[{nth}]", one, "expected a function")) for nth, one in enumerate(source)]
    return [(source, _function("source", source, expected))]


def _function(argument: str, given: Any, expected: str) -> FunctionType:
    function = unwrapped(given)
    if function is None:
        raise TypeError(f"{argument}: {expected}, got {type(given).__name__}")
    if not function.__code__.co_name.isidentifier():
        raise TypeError(f"{argument}: {expected} made by def, got {function.__code__.co_name}")
    return function


def unwrapped(given: Any) -> FunctionType | None:
    """Return the function that decorators were applied to; None if there is none that has a source."""
    # The arguments of a partial function are not in its source.
    if isinstance(given, (partial, type)) or inspect.ismethod(given):
        return None
    if not isinstance(given, FunctionType):
        given = getattr(given, "func", None)
    function = inspect.unwrap(given) if isinstance(given, FunctionType) else None
    return function if isinstance(function, FunctionType) else None


@dataclass(frozen=True)
class _Source:
    """The lines of a function, without the indentation of the first."""

    lines: list[str]
    #: Line of the first in its file.
    first: int
    #: What each lost of its indentation.
    indents: tuple[int, ...]


def _source(defined: FunctionType | type) -> _Source:
    try:
        lines, first = inspect.getsourcelines(defined)
    except (OSError, TypeError) as missing:
        message = f"source: there is no source of {defined.__qualname__}, pass it as text: {missing}"
        raise ValueError(message) from None
    indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    if not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    # Lines within a string or parentheses may be indented less, so this is not `textwrap.dedent`.
    indents = tuple(len(indent) * line.startswith(indent) for line in lines)
    return _Source([line.removeprefix(indent) for line in lines], first, indents)


def _without_own_decorators(given: Any, function: FunctionType, source: _Source) -> _Source:
    """Return a source in which the lines of this package's decorators are empty, such as `@accelerd.kernel`."""
    try:
        [tree] = ast.parse("".join(source.lines)).body
    except (SyntaxError, ValueError):  # Reported where its names are captured.
        return source
    scope = {**function.__globals__, **_closure(function)}
    lines = list(source.lines)
    for nth, decorator in enumerate(getattr(tree, "decorator_list", ())):
        value = _value(decorator.func if isinstance(decorator, ast.Call) else decorator, scope)
        # The outermost decorator of a function that a decorator of this package returned, by a name of its own.
        is_outermost = value is None and nth == 0 and _is_own(type(given))
        if _is_own(value) or is_outermost:
            for at in range(decorator.lineno - 1, decorator.end_lineno or decorator.lineno):
                lines[at] = "\n"
    return _Source(lines, source.first, source.indents)


def _with_static_values(user: _User, source: _Source) -> _Source:
    """Return a source in which numbers stand for the calls of `warp.static` that have one as their value."""
    text = "".join(source.lines)
    if "static" not in text:
        return source
    try:
        calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    except (SyntaxError, ValueError):  # Reported where its names are captured.
        return source
    found: list[tuple[ast.expr, str]] = []
    end = (0, 0)
    # In the order of the source, as they may have effects; what is within another is part of its value.
    for call in sorted(filter(user.is_static, calls), key=_place):
        number = _static_number(call.args[0], user) if _place(call) >= end else None
        if number is not None:
            found.append((call, number))
            end = (call.lineno, call.end_col_offset or 0)
    return _replaced(source, found)


def _place(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _static_number(expression: ast.expr, user: _User) -> str | None:
    """Return the number that an expression is, as it is written; None if it is none, or depends on variables."""
    names = {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}
    if names & user.variables:
        return None
    try:
        value = eval(compile(ast.Expression(expression), user.filename, "eval"), dict(user.scope))
    except Exception:  # The daemon says what it does not support.
        return None
    return _number(value)


def _with_numbers(source: _Source, numbers: Mapping[str, str]) -> _Source:
    """Return a source in which numbers stand for names."""
    if not numbers:
        return source
    nodes = [node for node in ast.walk(ast.parse("".join(source.lines))) if isinstance(node, ast.Name)]
    return _replaced(source, [(node, numbers[node.id]) for node in nodes if node.id in numbers])


def _replaced(source: _Source, found: list[tuple[ast.expr, str]]) -> _Source:
    """Return a source in which texts stand for expressions, each on one line."""
    lines = [line.encode() for line in source.lines]
    # From the last one on, so that the places of the others stay.
    for node, text in sorted(found, key=lambda one: _place(one[0]), reverse=True):
        line = lines[node.lineno - 1]
        lines[node.lineno - 1] = line[: node.col_offset] + text.encode() + line[node.end_col_offset :]
    return _Source([line.decode() for line in lines], source.first, source.indents)


def _number(value: Any) -> str | None:
    """Return a number as it is written; None for other values."""
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    # Members of enumerations and scalars of NumPy are written in another way.
    kind = next(kind for kind in (bool, int, float) if isinstance(value, kind))
    return f"({kind(value)!r})" if value < 0 else repr(kind(value))


def _is_own(value: Any) -> bool:
    return _is_of(__name__.partition(".")[0], value)


def _is_of(package: str, value: Any) -> bool:
    return (getattr(value, "__module__", None) or "").partition(".")[0] == package


def _value(expression: ast.expr, scope: Mapping[str, Any]) -> Any:
    """Return the value of a dotted name; None if it is unknown."""
    if isinstance(expression, ast.Name):
        return scope.get(expression.id)
    if isinstance(expression, ast.Attribute):
        return getattr(_value(expression.value, scope), expression.attr, None)
    return None


@dataclass(frozen=True)
class _Import:
    """A statement that binds a name to a module, or to a name of one."""

    statement: str


@dataclass(frozen=True)
class _User:
    """A function or class, and what its names stand for."""

    name: str
    module: str
    filename: str
    scope: Mapping[str, Any]
    #: Variables of the functions around it that it does not capture.
    hidden: set[str]
    #: Its own variables.
    variables: set[str]

    @classmethod
    def of_function(cls, function: FunctionType) -> _User:
        hidden = _enclosing_variables(function) - set(function.__code__.co_freevars)
        scope = {**vars(builtins), **function.__globals__, **_closure(function)}
        code = function.__code__
        variables = {*code.co_varnames, *code.co_cellvars}
        return cls(function.__qualname__, function.__module__, code.co_filename, scope, hidden, variables)

    @classmethod
    def of_class(cls, one: type) -> _User:
        scope = {**vars(builtins), **vars(sys.modules[one.__module__])}
        return cls(one.__qualname__, one.__module__, inspect.getsourcefile(one) or "", scope, set(), set())

    def is_static(self, call: ast.Call) -> bool:
        """Return whether a call on one line is one of `warp.static` with an expression."""
        function = _value(call.func, self.scope)
        is_static = getattr(function, "__name__", "") == "static" and _is_of("warp", function)
        return is_static and len(call.args) == 1 and not call.keywords and call.end_lineno == call.lineno


class _Captures:
    """What functions use: constants, imported modules and names, and functions and classes of their module."""

    def __init__(self, functions: list[tuple[Any, FunctionType]], given: Mapping[str, Constant]) -> None:
        self._given = given
        #: What was given or called, and its function. Those that are called follow.
        self.functions = functions
        #: Classes that they name.
        self.classes: list[type] = []
        #: Other names of functions that are sent.
        self.aliases: dict[str, FunctionType] = {}
        self._defined: dict[str, list[FunctionType]] = {}
        for _, function in functions:
            self._defined.setdefault(function.__code__.co_name, []).append(function)
        #: What each name stands for, and the first function that uses it.
        self._bindings: dict[str, tuple[Constant | _Import | None, str]] = {}

    @property
    def constants(self) -> dict[str, Constant]:
        """Values by name."""
        found = {name: one for name, (one, _) in self._bindings.items() if isinstance(one, (int, float))}
        return {**found, **self._given}

    @property
    def imports(self) -> list[str]:
        """Import statements."""
        return [one.statement for one, _ in self._bindings.values() if isinstance(one, _Import)]

    def add(self, user: _User, text: str) -> dict[str, str]:
        """Add what a function or class uses; return numbers, as they are written, by names that are others' already."""
        try:
            names = sorted(set(_free_names(symtable.symtable(text, user.filename, "exec"))))
        except SyntaxError as wrong:
            raise ValueError(f"source: the source of {user.name} is not a statement: {wrong}") from None
        numbers = {}
        for name in names:
            if name not in user.scope or name in self._given:
                continue
            if name in user.hidden:
                message = f"{name!r} of {user.name} is of an enclosing function, and only annotations use it; rename it"
                raise ValueError(f"source: {message}")
            number = self._add(user, name, user.scope[name])
            if number is not None:
                numbers[name] = number
        return numbers

    def _add(self, using: _User, name: str, value: Any) -> str | None:
        user = using.name
        if name in self._defined:
            if unwrapped(value) not in self._defined[name]:
                raise ValueError(f"source: the function {name!r} is not what {user} calls {name!r}")
            return None
        if name not in self._bindings and (
            self._send_function(using, name, value) or self._send_class(using, name, value)
        ):
            return None
        binding = value if isinstance(value, (int, float)) else _import(using.module, name, value)
        # The daemon takes a name without a binding for Python's.
        if binding is None and getattr(builtins, name, value) is not value:
            raise ValueError(f"source: {name!r} of {user} is not that of Python; rename it, or pass text")
        known, first = self._bindings.setdefault(name, (binding, user))
        # repr() tells 1 from True, and has NaN equal to itself.
        if repr(known) == repr(binding):
            return None
        number = _number(binding)
        if number is None:
            raise ValueError(f"source: {name!r} of {user} is not that of {first}; rename it, or pass it in `constants`")
        return number

    def _send_function(self, user: _User, name: str, value: Any) -> bool:
        """Send a function of the same module with those that use it, under any name; return whether it is one."""
        called = unwrapped(value)
        if called is None or called.__module__ != user.module or hasattr(builtins, name):
            return False
        own = called.__code__.co_name
        if own != name and (not own.isidentifier() or own in self._bindings or hasattr(builtins, own)):
            return False
        if called not in self._defined.get(own, [called]):
            raise ValueError(f"source: the function {own!r} is not what {user.name} calls {name!r}")
        if own not in self._defined:
            self._defined[own] = [called]
            self.functions.append((value, called))
        if own != name:
            self._defined[name] = [called]
            self.aliases[name] = called
        return True

    def _send_class(self, user: _User, name: str, value: Any) -> bool:
        """Send a class of the same module, such as what a struct of Warp is made of; return whether it is one."""
        one = value if isinstance(value, type) else getattr(value, "cls", None)
        if not isinstance(one, type) or one.__module__ != user.module or "<locals>" in one.__qualname__:
            return False
        if one.__name__ != name or hasattr(builtins, name):
            return False
        if one not in self.classes:
            self.classes.append(one)
        return True


def _free_names(table: symtable.SymbolTable) -> Iterator[str]:
    for symbol in table.get_symbols():
        if symbol.is_referenced() and symbol.is_global():
            yield symbol.get_name()
    for child in table.get_children():
        yield from _free_names(child)


def _enclosing_variables(function: FunctionType) -> set[str]:
    """Return the variables of the functions around a function. It has no closure of those that only annotations use."""
    if "<locals>" not in function.__qualname__:
        return set()
    code = function.__code__
    lines, _ = inspect.findsource(function)
    around = _around(symtable.symtable("".join(lines), code.co_filename, "exec"), code.co_name, set())
    # The first line of the code may be that of a decorator.
    found = min(((line, names) for line, names in around if line >= code.co_firstlineno), default=(0, set()), key=_line)
    return found[1]


def _line(place: tuple[int, set[str]]) -> int:
    return place[0]


def _around(table: symtable.SymbolTable, name: str, outer: set[str]) -> Iterator[tuple[int, set[str]]]:
    """Yield the line of each function of a name, and the variables of the functions around it."""
    inner = outer | set(table.get_locals()) if isinstance(table, symtable.Function) else outer
    for child in table.get_children():
        if isinstance(child, symtable.Function) and child.get_name() == name:
            yield child.get_lineno(), inner
        yield from _around(child, name, inner)


def _closure(function: FunctionType) -> dict[str, Any]:
    held = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            held[name] = cell.cell_contents
        except ValueError:  # It is not assigned yet.
            continue
    return held


def _import(user_module: str, name: str, value: Any) -> _Import | None:
    """Return the import of a value, if it can be imported."""
    if isinstance(value, ModuleType):
        return _Import(f"import {value.__name__} as {name}") if _is_dotted(value.__name__) else None
    # Functions of Warp have their names as keys.
    path, own = getattr(value, "__module__", None), getattr(value, "__name__", getattr(value, "key", None))
    if not isinstance(path, str) or path in ("builtins", user_module):
        return None
    # `warp.float32` is defined in a module within `warp`; its public path is known to the daemon.
    for module in (path.partition(".")[0], path):
        exports = vars(sys.modules[module]) if module in sys.modules else {}
        for exported in (own, name) if isinstance(own, str) else (name,):
            if _is_dotted(f"{module}.{exported}") and exports.get(exported) is value:
                return _Import(f"from {module} import {exported} as {name}")
    return None


def _is_dotted(path: str) -> bool:
    return all(part.isidentifier() and not keyword.iskeyword(part) for part in path.split("."))
