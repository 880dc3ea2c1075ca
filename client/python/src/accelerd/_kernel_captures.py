"""What kernels use: constants, imported names, and the functions and classes that are sent with them."""

from __future__ import annotations

import ast
import builtins
import enum
import inspect
import keyword
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType, ModuleType
from typing import Any, TypeAlias, cast

from ._kernel_text import Text, enclosing_variables, free_names, outside, place
from ._kernel_values import (
    Writer,
    builtin_key,
    instances_of,
    is_composite,
    is_of,
    is_struct,
    made_by_warp,
    native_snippet,
    number_text,
    overloads_of,
    parameter_types,
    source_of,
    transformed_tree,
)

Constant: TypeAlias = "int | float | bool"

# Modules whose numbers the daemon knows.
_KNOWN_MODULES = ("math", "warp")
_WARP = "_warp_"
# Items of a sequence that is written where a kernel takes items of it.
_MAX_TABLE = 256
_PACKAGE = __name__.partition(".")[0]


def unwrapped(given: Any, what: str) -> FunctionType | None:
    """Return the function that decorators of Warp and this package were applied to; None if it has no source.

    Raises:
        TypeError: Another decorator wraps the function. What its wrapper does is not in the source of the function.
    """
    # The arguments of a partial function are not in its source.
    if isinstance(given, (partial, type)) or inspect.ismethod(given):
        return None
    if not isinstance(given, FunctionType):
        function = getattr(given, "func", None)
        if callable(given) and isinstance(function, FunctionType) and not _is_known_wrapper(given):
            raise _wrapped_error(what, function, f"an object of {type(given).__name__}")
        given = function
    while isinstance(given, FunctionType) and hasattr(given, "__wrapped__"):
        if not _is_known_wrapper(given):
            code = given.__code__
            raise _wrapped_error(what, given, f"{code.co_name!r} ({code.co_filename}:{code.co_firstlineno})")
        given = given.__wrapped__
    return given if isinstance(given, FunctionType) else None


def _is_known_wrapper(wrapper: Any) -> bool:
    """Return whether Warp or this package made a wrapper, which adds nothing to what the function computes."""
    if isinstance(wrapper, FunctionType):
        # `functools.wraps` replaces the wrapper's own `__module__`.
        module = wrapper.__globals__.get("__name__", "")
        return module.partition(".")[0] in ("warp", _PACKAGE)
    return any(is_of(package, one) for package in ("warp", _PACKAGE) for one in type(wrapper).__mro__)


def _wrapped_error(what: str, function: FunctionType, wrapper: str) -> TypeError:
    return TypeError(
        f"{what}: expected a function without a wrapper, got {function.__name__!r}, which a decorator wraps in "
        f"{wrapper}; the wrapper cannot be sent: remove the decorator, or pass the function that it wraps"
    )


@dataclass(frozen=True)
class _Import:
    """What binds a name to a module, or to a name of one: `import module` or `from module import name`, before `as`."""

    binding: str
    module: str


@dataclass(frozen=True)
class User:
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
    def of_function(cls, function: FunctionType) -> User:
        hidden = enclosing_variables(function) - set(function.__code__.co_freevars)
        scope = {**vars(builtins), **function.__globals__, **_closure(function)}
        code = function.__code__
        variables = {*code.co_varnames, *code.co_cellvars}
        return cls(function.__qualname__, function.__module__, code.co_filename, scope, hidden, variables)

    @classmethod
    def of_class(cls, one: type) -> User:
        scope = {**vars(builtins), **vars(sys.modules[one.__module__])}
        return cls(one.__qualname__, one.__module__, _source_file(one), scope, set(), set())

    def is_static(self, call: ast.Call) -> bool:
        """Return whether a call is one of `warp.static` with an expression."""
        function = self.value(call.func)
        is_static = getattr(function, "__name__", "") == "static" and is_of("warp", function)
        return is_static and len(call.args) == 1 and not call.keywords

    def is_decorator(self, expression: ast.expr, name: str) -> bool:
        """Return whether a decorator is that of Warp with a name, or a call of it."""
        value = self.value(expression.func if isinstance(expression, ast.Call) else expression)
        return value is not None and getattr(sys.modules.get("warp"), name, None) is value

    def value(self, expression: ast.expr) -> Any:
        """Return the value of a dotted name; None if it is unknown."""
        if isinstance(expression, ast.Name):
            return self.scope.get(expression.id)
        if isinstance(expression, ast.Attribute):
            return getattr(self.value(expression.value), expression.attr, None)
        return None


@dataclass
class Definition:
    """A function or class that is sent."""

    #: Its name where it is sent.
    name: str
    filename: str
    text: Text
    is_class: bool
    #: Lines that precede it.
    decorators: list[str] = field(default_factory=list)
    #: Statements that follow it.
    statements: list[str] = field(default_factory=list)


class Captures:
    """What functions use."""

    def __init__(self, functions: list[tuple[Any, FunctionType]], given: Mapping[str, Constant]) -> None:
        self._given = given
        self._writer = Writer(self._warp, self._struct_name)
        #: The functions of each name, and the name of each group of functions.
        self._defined: dict[str, list[FunctionType]] = {}
        self._names: dict[tuple[int, ...], str] = {}
        self._classes: dict[str, Any] = {}
        #: What each name stands for, and the first function that uses it.
        self._bindings: dict[str, tuple[Constant | _Import | None, str]] = {}
        self._imports: list[str] = []
        #: Names that no source has, and the words of the sources.
        self._made: set[str] = set()
        self._words: set[str] = set()
        #: Names of sources that stand for nothing that is sent.
        self._unknown: set[str] = set()
        #: Names in the source that is being resolved, which stand for what it means by them.
        self._avoided: set[str] = set()
        #: The definition of each struct.
        self._structs: dict[int, Definition] = {}
        self._pending: list[tuple[Any, FunctionType | type, str]] = []
        self._generated: list[Definition] = []
        self._last: dict[tuple[int, ...], Definition] = {}
        self._aliases: list[tuple[str, tuple[int, ...]]] = []
        #: Functions of one source that Warp has transformed in several ways, and what stands for each.
        self._copies: dict[int, tuple[Any, FunctionType]] = {}
        for value, function in functions:
            own = function.__code__.co_name
            self._defined.setdefault(own, []).append(function)
            self._pending.append((value, function, own))
        for _, function in functions:
            own = function.__code__.co_name
            if len(self._defined[own]) == 1:
                self._names[(id(function),)] = own

    @property
    def constants(self) -> dict[str, Constant]:
        """Values by name."""
        found = {name: one for name, (one, _) in self._bindings.items() if isinstance(one, (int, float))}
        return {**found, **self._given}

    @property
    def imports(self) -> list[str]:
        """Import statements."""
        found = {name: one for name, (one, _) in self._bindings.items() if isinstance(one, _Import)}
        return [f"{one.binding} as {name}" for name, one in found.items()] + self._imports

    def definitions(self) -> list[Definition]:
        """Return the functions that were given, those that they call, and the classes that they name."""
        found = []
        done: dict[tuple[int, str], Definition] = {}
        # Adding one appends those that it uses.
        for value, defined, name in _growing(self._pending):
            one = self._class(defined, name) if isinstance(defined, type) else self._function(value, defined, name)
            done[id(defined), name] = one
            found.append(one)
        for alias, key in self._aliases:
            # A name stands for the function that is defined before it; others may have the same name.
            last = next(one for (identity, _), one in done.items() if identity == key[-1])
            last.statements.append(f"{alias} = {last.name}\n")
        clashing = self._made & self._words | self._unknown & {*self._defined, *self._classes}
        if clashing:
            raise ValueError(f"source: rename {min(clashing)!r}, which is the name of something that is sent as well")
        return sorted([*found, *self._generated], key=lambda one: one.is_class)

    def _class(self, one: type, name: str) -> Definition:
        text = self._own_text(one, one)
        user = User.of_class(one)
        return Definition(name, user.filename, self._resolved(user, text, []), True)

    def _function(self, value: Any, function: FunctionType, name: str) -> Definition:
        user = User.of_function(function)
        own = without_own_decorators(value, user, self._own_text(value, function))
        text, decorators = self._decorated(value, user, own)
        # Names are resolved once, as the source means them: a substitute may be the name of another thing in it.
        found: list[tuple[ast.expr, str]] = []
        self._avoided = text.names()
        for replacements in (self._known_annotations, self._static_values, self._paths):
            found += outside(found, replacements(value, user, text))
        text = self._resolved(user, text, found).renamed(function.__code__.co_name, name)
        definition = Definition(name, user.filename, text, False, decorators)
        for types in instances_of(value):
            texts = [self._writer.type(one) for one in types]
            if None not in texts:
                definition.statements.append(f"{self._warp()}.overload({name}, [{', '.join(map(str, texts))}])\n")
        return definition

    def _decorated(self, value: Any, user: User, text: Text) -> tuple[Text, list[str]]:
        """Return the text of a function, and the line before it with the decorator that made what Warp has."""
        made, definition = made_by_warp(value), text.definition()
        decorators = list(getattr(definition, "decorator_list", ()))
        snippet = native_snippet(value)
        is_known = snippet is None and decorators and all(user.is_decorator(one, str(made)) for one in decorators)
        if made is None or is_known:
            return text, []
        numbers = {number for one in decorators for number in range(one.lineno, (one.end_lineno or one.lineno) + 1)}
        # The snippet may be any expression of the module in which it was made.
        arguments = "" if snippet is None else f"({snippet!r})"
        return text.without_lines(numbers), [f"@{self._warp()}.{made}{arguments}\n"]

    def _resolved(self, user: User, text: Text, found: list[tuple[ast.expr, str]]) -> Text:
        """Return a text in which others stand for some expressions, and for names that are others' already."""
        try:
            free = free_names(text.whole, user.filename)
        except SyntaxError as wrong:
            raise ValueError(f"source: the source of {user.name} is not a statement: {wrong}") from None
        nodes = [node for node in ast.walk(text.tree()) if isinstance(node, ast.Name)]
        left = outside(found, [(node, node.id) for node in nodes])
        self._avoided = text.names()
        names = {name for _, name in left}
        texts = self._add(user, [name for name in free if name in names])
        self._avoided = set()
        return text.replaced(found + [(node, texts[name]) for node, name in left if name in texts])

    def _own_text(self, value: Any, defined: FunctionType | type) -> Text:
        text = Text.of(defined, source_of(value))
        if (tree := transformed_tree(value)) is not None:
            text = text.rewritten(tree)
        self._words |= text.words()
        return text

    def _known_annotations(self, value: Any, user: User, text: Text) -> list[tuple[ast.expr, str]]:
        """Return types that Warp knows, in place of annotations with names that the function itself does not have."""
        types, definition = parameter_types(value), text.definition()
        if not isinstance(definition, ast.FunctionDef):
            return []
        found = []
        for argument in definition.args.args:
            annotation = argument.annotation
            if annotation and (transformed_tree(value) is not None or self._is_unknown(user, annotation)):
                type_ = self._writer.type(types.get(argument.arg))
                found += [(annotation, type_)] if type_ else []
        return found

    @staticmethod
    def _is_unknown(user: User, annotation: ast.expr) -> bool:
        """Return whether the daemon cannot tell the type that an annotation is."""
        names = {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}
        # Names of functions and classes around it, which only annotations use.
        if any(name in user.hidden or name not in user.scope for name in names):
            return True
        # A type that an expression chooses.
        return any(isinstance(node, ast.IfExp) for node in ast.walk(annotation))

    def _static_values(self, _: Any, user: User, text: Text) -> list[tuple[ast.expr, str]]:
        """Return values in place of the calls of `warp.static` that do not depend on variables."""
        if "static" not in text.whole:
            return []
        calls = [node for node in ast.walk(text.tree()) if isinstance(node, ast.Call)]
        found: list[tuple[ast.expr, str]] = []
        end = (0, 0)
        # In the order of the source, as they may have effects; what is within another is part of its value.
        for call in sorted(filter(user.is_static, calls), key=place):
            value = self._static_value(call.args[0], user) if place(call) >= end else None
            if value is not None:
                found.append((call, value))
                end = (call.end_lineno or call.lineno, call.end_col_offset or 0)
        for call in filter(user.is_static, calls):
            found += outside(found, self._tables(call, user))
        return found

    def _tables(self, call: ast.Call, user: User) -> list[tuple[ast.expr, str]]:
        """Return tuples in place of the names of sequences, of which a call of `warp.static` takes items."""
        items = [node.value for node in ast.walk(call) if isinstance(node, ast.Subscript)]
        names = [node for node in items if isinstance(node, ast.Name) and node.id not in user.variables]
        texts = [(node, self._table(user, user.scope.get(node.id))) for node in names]
        return [(node, text) for node, text in texts if text is not None]

    def _table(self, user: User, value: Any) -> str | None:
        """Return a sequence of numbers, functions and sequences as it is written; None if it cannot be."""
        if not isinstance(value, (list, tuple)):
            return number_text(value) or self._text(user, value)
        texts = [self._table(user, one) for one in value] if len(value) <= _MAX_TABLE else [None]
        return None if None in texts else f"({''.join(f'{text}, ' for text in texts)})"

    def _static_value(self, expression: ast.expr, user: User) -> str | None:
        """Return the value of an expression as it is written; None if it cannot be, or depends on variables."""
        names = {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}
        if names & user.variables:
            return None
        try:
            value = eval(compile(ast.Expression(expression), user.filename, "eval"), dict(user.scope))
        except Exception:  # The daemon says what it does not support.
            return None
        return self._text(user, value) if number_text(value) is None else number_text(value)

    def _paths(self, _: Any, user: User, text: Text) -> list[tuple[ast.expr, str]]:
        """Return names and values in place of attributes of modules, classes and other objects."""
        try:
            free = {name for name in free_names(text.whole, user.filename) if name not in self._given}
        except SyntaxError:  # Reported where its names are captured.
            return []
        tree = text.tree()
        inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        found: list[tuple[ast.expr, str]] = []
        for node in ast.walk(tree):
            # What a kernel assigns to is not a value.
            if not isinstance(node, ast.Attribute) or id(node) in inner or not isinstance(node.ctx, ast.Load):
                continue
            root = _root(node)
            if root in free - user.hidden and root in user.scope:
                found += self._path_texts(user, user.scope[root], node)
        return found

    def _path_texts(self, user: User, root: Any, node: ast.Attribute) -> list[tuple[ast.expr, str]]:
        """Return the longest path of an attribute that has a value to write, and its text; empty if none has."""
        for path in _prefixes(node):
            replacement = self._path_text(user, root, path)
            if replacement is not None:
                return [(path, replacement)]
        if isinstance(root, type) and self._is_sent_class(user, root):
            _check_class_attribute(user, path)
        return []

    def _path_text(self, user: User, root: Any, path: ast.Attribute) -> str | None:
        value = user.value(path)
        is_public = not any(isinstance(node, ast.Attribute) and node.attr == "_src" for node in ast.walk(path))
        is_known = isinstance(root, ModuleType) and root.__name__ in _KNOWN_MODULES and is_public
        return None if value is None or is_known else self._text(user, value)

    def _text(self, user: User, value: Any) -> str | None:
        """Return what stands for a value that has no name: a number, vector, struct, type or function."""
        key = builtin_key(value)
        if key is not None:
            return f"{self._warp()}.{key}"
        if not isinstance(value, FunctionType) and (group := self._group(user, value)):
            return self._group_name(group, "")
        return self._writer.value(value) or self._writer.type(value)

    def _warp(self) -> str:
        """Return a name that stands for Warp."""
        statement = f"import warp as {_WARP}"
        if statement not in self._imports:
            self._imports.append(statement)
            self._made.add(_WARP)
        return _WARP

    def _add(self, user: User, names: list[str]) -> dict[str, str]:
        """Add what the names of a function or class stand for; return texts for names which are others' already."""
        texts = {}
        for name in names:
            if name not in user.scope:
                self._unknown.add(name)
                continue
            if name in self._given or name == _WARP:
                continue
            if name in user.hidden:
                message = f"{name!r} of {user.name} is of an enclosing function, and only annotations use it; rename it"
                raise ValueError(f"source: {message}")
            if (found := self._add_name(user, name, user.scope[name])) is not None:
                texts[name] = found
        return texts

    def _add_name(self, user: User, name: str, value: Any) -> str | None:
        if group := self._group(user, value):
            replacement = self._group_name(group, name)
            return None if replacement == name else replacement
        if is_struct(value) and (struct := self._struct_name(value, name)) is not None:
            return None if struct == name else struct
        if name in self._defined or (name in self._classes and self._classes[name] is not value):
            text = number_text(value) or self._captured_text(user, name, value)
            if text is None:
                raise ValueError(f"source: the function or class {name!r} is not what {user.name} calls {name!r}")
            return text
        is_sent_class = self._is_sent_class(user, value) and not is_composite(value)
        if is_sent_class and value.__name__ == name:
            if name not in self._classes:
                self._classes[name] = value
                self._pending.append((value, value, name))
            return None
        return self._captured_text(user, name, value) or self._bind(user, name, value)

    def _captured_text(self, user: User, name: str, value: Any) -> str | None:
        """Return what stands for a value of Warp that no import from a module which the daemon knows binds."""
        is_plain = isinstance(value, (int, float)) or getattr(builtins, name, None) is value
        imported = _import(user.module, name, value)
        if is_plain or (imported is not None and imported.module in _KNOWN_MODULES):
            return None
        if (key := builtin_key(value)) is not None:
            return f"{self._warp()}.{key}"
        return self._writer.value(value) or self._writer.type(value)

    def _bind(self, user: User, name: str, value: Any) -> str | None:
        binding = value if isinstance(value, (int, float)) else _import(user.module, name, value)
        # The daemon takes a name without a binding for Python's.
        if binding is None and getattr(builtins, name, value) is not value:
            raise ValueError(f"source: {name!r} of {user.name} is not that of Python; rename it, or pass text")
        known, first = self._bindings.setdefault(name, (binding, user.name))
        # repr() tells 1 from True, and has NaN equal to itself.
        if repr(known) == repr(binding):
            return None
        # A name without a binding is unknown to the daemon, which refuses a kernel that uses it.
        if not isinstance(known, (int, float)) and not isinstance(binding, (int, float)):
            alias = self._unique(name)
            self._bindings[alias] = binding, user.name
            return alias
        number = number_text(binding)
        if number is None:
            message = f"{name!r} of {user.name} is not that of {first}; rename it, or pass it in `constants`"
            raise ValueError(f"source: {message}")
        return number

    def _group(self, user: User, value: Any) -> list[tuple[Any, FunctionType]]:
        """Return the functions that a value stands for, if they are sent: Warp's, and those of the same module."""
        if _is_elsewhere(user, value):
            return []
        what = f"source of {user.name}"
        function = unwrapped(value, what)
        if function is None or not function.__code__.co_name.isidentifier():
            return []
        if is_of("warp", type(value)):
            # The daemon knows what Warp itself exports.
            if getattr(sys.modules.get("warp"), getattr(value, "key", ""), None) is value:
                return []
            pairs = [(one, self._copy(one, unwrapped(one, what))) for one in overloads_of(value)]
            return [(one, called) for one, called in pairs if called is not None]
        if function.__module__ != user.module or hasattr(builtins, function.__code__.co_name):
            return []
        return [(value, function)]

    def _copy(self, value: Any, function: FunctionType | None) -> FunctionType | None:
        """Return a function of its own for one that Warp has transformed."""
        if function is None or transformed_tree(value) is None:
            return function
        if id(value) not in self._copies:
            copy = FunctionType(function.__code__, function.__globals__, function.__name__, None, function.__closure__)
            copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
            self._copies[id(value)] = value, copy
        return self._copies[id(value)][1]

    def _group_name(self, group: Sequence[tuple[Any, FunctionType]], name: str) -> str:
        """Return the name of functions where they are sent: a wanted one if it is free, else one that no source has."""
        key = tuple(id(function) for _, function in group)
        functions = [function for _, function in group]
        known = self._names.get(key)
        own = functions[0].__code__.co_name
        if known is None and not self._is_given(functions):
            known = own if self._is_free(own) and (own == name or own not in self._avoided) else self._unique(own)
            self._names[key] = known
            self._defined[known] = functions
            self._pending += [(value, function, known) for value, function in group]
        if known == name or (name and self._defined.get(name) == functions and name not in self._own_names()):
            return name
        if name and self._is_free(name):
            alias = name
        elif known is not None and known not in self._avoided:
            return known
        else:
            alias = self._alias(key) or self._unique(name or own)
        self._defined[alias] = functions
        self._names.setdefault(key, alias)
        self._aliases.append((alias, key))
        return alias

    def _alias(self, key: tuple[int, ...]) -> str | None:
        """Return another name of functions that the source does not have."""
        return next((alias for alias, other in self._aliases if other == key and alias not in self._avoided), None)

    def _own_names(self) -> set[str]:
        """Return names that several given functions have."""
        return {name for name, functions in self._defined.items() if len({*map(id, functions)}) > 1}

    def _is_given(self, functions: list[FunctionType]) -> bool:
        """Return whether one function was given that has its name in common with another one."""
        own = functions[0].__code__.co_name
        return len(functions) == 1 and any(one is functions[0] for one in self._defined.get(own, ()))

    def _is_sent_class(self, user: User, value: Any) -> bool:
        """Return whether a value is a class of the user's module with a source."""
        if not isinstance(value, type) or value.__module__ != user.module or hasattr(builtins, value.__name__):
            return False
        name = value.__name__
        if getattr(sys.modules[value.__module__], name, None) is not value:
            return False
        # `inspect` finds the first class of a name.
        lines, _ = inspect.findsource(cast("type", value))
        return len(re.findall(rf"^\s*class\s+{name}\b", "".join(lines), re.MULTILINE)) == 1

    def _struct_name(self, struct: Any, wanted: str = "") -> str | None:
        """Return the name of a struct, which is written from its fields; a wanted name if that is its own."""
        names = [name for name, one in self._classes.items() if one is struct]
        known = next((name for name in names if name == wanted or name not in self._avoided), None)
        if known is not None:
            return known
        if names:
            return self._struct_alias(struct, names[0])
        fields = {name: self._writer.type(variable.type) for name, variable in struct.vars.items()}
        if None in fields.values():
            return None
        own = struct.cls.__name__
        is_own = self._is_free(own) and (own == wanted or own not in self._words)
        name = own if is_own else self._unique(own)
        self._classes[name] = struct
        lines = [f"@{self._warp()}.struct\n", f"class {name}:\n"]
        lines += [f"    {one}: {type_}\n" for one, type_ in fields.items()] or ["    pass\n"]
        text = Text(lines, 1, (0,) * len(lines))
        self._structs[id(struct)] = Definition(name, _source_file(struct.cls), text, True)
        self._generated.append(self._structs[id(struct)])
        return name

    def _struct_alias(self, struct: Any, name: str) -> str:
        """Return another name of a struct, which no source has."""
        alias = self._unique(name)
        self._classes[alias] = struct
        self._structs[id(struct)].statements.append(f"{alias} = {name}\n")
        return alias

    def _is_free(self, name: str) -> bool:
        taken = (self._defined, self._classes, self._bindings, self._given, vars(builtins), self._made)
        return name != _WARP and not any(name in names for names in taken)

    def _unique(self, own: str) -> str:
        """Return a name that nothing else has."""
        number = 2
        while not self._is_free(f"{own}_{number}_") or f"{own}_{number}_" in self._words:
            number += 1
        self._made.add(f"{own}_{number}_")
        return f"{own}_{number}_"


def without_own_decorators(given: Any, user: User, text: Text) -> Text:
    """Return a text in which the lines of this package's decorators are empty, such as `@accelerd.kernel`."""
    numbers: set[int] = set()
    for nth, decorator in enumerate(getattr(text.definition(), "decorator_list", ())):
        value = user.value(decorator.func if isinstance(decorator, ast.Call) else decorator)
        # The outermost decorator of a function that a decorator of this package returned, by a name of its own.
        is_outermost = value is None and nth == 0 and _is_own(type(given))
        if _is_own(value) or is_outermost:
            numbers |= {*range(decorator.lineno, (decorator.end_lineno or decorator.lineno) + 1)}
    return text.without_lines(numbers)


def _source_file(one: type) -> str:
    """Return the file of a class; empty if its module has none or is gone."""
    try:
        return inspect.getsourcefile(one) or ""
    except TypeError:
        return ""


def _is_own(value: Any) -> bool:
    return is_of(_PACKAGE, value)


def _is_elsewhere(user: User, value: Any) -> bool:
    """Return whether a value is a function of another module, which is not sent unless it is one of Warp."""
    function = value if isinstance(value, FunctionType) else getattr(value, "func", None)
    is_other = isinstance(function, FunctionType) and function.__module__ != user.module
    return is_other and not is_of("warp", type(value))


def _check_class_attribute(user: User, path: ast.Attribute) -> None:
    """Refuse an attribute whose value cannot be written: the source of its class may have another one."""
    value = user.value(path)
    if not isinstance(value, (type, FunctionType, enum.Enum)):
        expected = "expected an int, a float, a bool or a value of Warp"
        raise ValueError(f"source: {ast.unparse(path)} of {user.name}: {expected}, got {type(value).__name__}")


def _growing(items: list[Any]) -> Iterator[Any]:
    nth = 0
    while nth < len(items):
        yield items[nth]
        nth += 1


def _prefixes(node: ast.expr) -> Iterator[ast.Attribute]:
    """Yield an attribute and those that it is of, the longest first."""
    while isinstance(node, ast.Attribute):
        yield node
        node = node.value


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


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
        module = value.__name__
        return _Import(f"import {module}", module) if _is_dotted(module) else None
    # Functions of Warp have their names as keys.
    path, own = getattr(value, "__module__", None), getattr(value, "__name__", getattr(value, "key", None))
    if not isinstance(path, str) or path in ("builtins", user_module):
        return None
    # `warp.float32` is defined in a module within `warp`; its public path is known to the daemon.
    for module in (path.partition(".")[0], path):
        exports = vars(sys.modules[module]) if module in sys.modules else {}
        for exported in (own, name) if isinstance(own, str) else (name,):
            if _is_dotted(f"{module}.{exported}") and exports.get(exported) is value:
                return _Import(f"from {module} import {exported}", module)
    return None


def _is_dotted(path: str) -> bool:
    return all(part.isidentifier() and not keyword.iskeyword(part) for part in path.split("."))
