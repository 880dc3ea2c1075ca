"""The columns of a source's tree, and the `ast` nodes built from them.

The C extension `_node_builder` builds the nodes if it is installed, a loop in Python otherwise.
`kernels/parser/src/columns.rs` defines the columns. This module imports only the standard library, so that any Python
can rebuild a tree.
"""

from __future__ import annotations

import ast
import gc
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from ._kinds import FIELDS, KINDS, OPERATORS

try:
    from . import _node_builder  # type: ignore[attr-defined, unused-ignore]
except ImportError:  # A pure wheel, or a checkout without a run of `build_extension.py`.
    _node_builder = None

_INT, _FLOAT, _IMAGINARY, _STR, _UNICODE_STR, _BYTES = range(1, 7)


@dataclass(frozen=True)
class Tree:
    """The columns of a source's tree. `numpy.asarray` of a column is a view."""

    text: bytes
    """The source as UTF-8."""
    extra: bytes
    """Text of names and values that differs from the source. Positions beyond the end of `text` refer to it."""
    kinds: memoryview
    fields: memoryview
    parents: memoryview
    starts: memoryview
    ends: memoryview
    aux: memoryview
    name_starts: memoryview
    name_ends: memoryview
    value_tags: memoryview
    value_starts: memoryview
    value_ends: memoryview

    @classmethod
    def from_bytes(cls, text: bytes, columns: Mapping[str, bytes | memoryview]) -> Tree:
        """Return the tree of columns in wire format: bytes, and little-endian 32-bit numbers."""
        small = ("kinds", "fields", "value_tags")
        views = {
            name: memoryview(data) if name in small else _numbers(data)
            for name, data in columns.items()
            if name != "extra"
        }
        return cls(text=text, extra=bytes(columns.get("extra", b"")), **views)

    def line_starts(self) -> list[int]:
        """Return the start of each line in `text`."""
        # CPython skips a byte order mark.
        first = 3 if self.text.startswith(b"\xef\xbb\xbf") else 0
        return [first, *(newline.end() for newline in re.finditer(rb"\r\n?|\n", self.text))]

    def names(self) -> list[str]:
        """Return the distinct names."""
        text = self.text + self.extra
        spans = zip(self.name_starts.tolist(), self.name_ends.tolist(), strict=True)
        if text.isascii():
            # Decoding once and slicing is faster than decoding each name.
            decoded = text.decode("ascii")
            return [sys.intern(decoded[start:end]) for start, end in spans]
        return [sys.intern(text[start:end].decode()) for start, end in spans]

    def values(self) -> list[Any]:
        """Return the values of the constants except None, False, True and `...`."""
        text = self.text + self.extra
        rows = zip(self.value_tags.tolist(), self.value_starts.tolist(), self.value_ends.tolist(), strict=True)
        if not text.isascii():
            return [_value(tag, text[start:end]) for tag, start, end in rows]
        decoded = text.decode("ascii")
        return [decoded[start:end] if tag == _STR else _value(tag, text[start:end]) for tag, start, end in rows]

    def value_prefixes(self) -> list[str | None]:
        """Return the `kind` of each value's constant: "u" or None."""
        return ["u" if tag == _UNICODE_STR else None for tag in self.value_tags.tolist()]

    def to_ast(self, mode: str = "exec") -> ast.mod:
        """Return the tree that `ast.parse` builds in a mode, of the running Python's classes.

        Pauses the garbage collector, which would traverse all new nodes repeatedly and free none.
        """
        return _build(self, mode)


def _numbers(data: bytes | memoryview) -> memoryview:
    if sys.byteorder == "little":
        return memoryview(data).cast("I")
    swapped = bytearray(len(data))
    for byte in range(4):
        swapped[byte::4] = data[3 - byte :: 4]
    return memoryview(swapped).cast("I")


def _value(tag: int, written: bytes) -> Any:
    if tag in (_STR, _UNICODE_STR):
        return written.decode("utf-8", "surrogatepass")
    if tag == _BYTES:
        return written
    if tag == _INT:
        return int(written, 0)
    return float(written) if tag == _FLOAT else complex(0, float(written[:-1]))


_CONTEXTS = [ast.Load(), ast.Store(), ast.Del()]
_OPERATORS = [getattr(ast, name)() if name else None for name in OPERATORS]

# Fields that are initialised to empty lists. Dotted names are lists of their parts until they are joined.
_LISTS = """
body decorator_list type_params bases keywords targets items orelse cases handlers finalbody names values generators
keys ops comparators args elts ifs patterns kwd_attrs kwd_patterns posonlyargs kwonlyargs kw_defaults defaults
"""
_NO_LISTS = {"IfExp": ("body", "orelse"), "Lambda": ("body",)}
_PARTS = {"alias": "name", "ImportFrom": "module"}

# Tables that `aux` indexes, in the order of the C extension. `_NUMBER` stands for the number itself.
_TABLES = ("names", "values", "prefixes", "_CONTEXTS", "_OPERATORS")
_NUMBER = "aux"


class _Aux(NamedTuple):
    """A field that `aux`, read as a signed number, determines: `table[(aux >> shift) & mask]`.

    -1 means None. The singleton values are at the end of `values`.
    """

    table: str
    shift: int = 0
    mask: int = -1

    def expression(self) -> str:
        if self.table == _NUMBER:
            return _NUMBER
        index = f"aux >> {self.shift}" if self.shift else "aux"
        return f"{self.table}[{index}]" if self.mask == -1 else f"{self.table}[({index}) & {self.mask}]"


_NAME, _CONTEXT, _OPERATOR, _AS_NUMBER = _Aux("names"), _Aux("_CONTEXTS"), _Aux("_OPERATORS"), _Aux(_NUMBER)
_NAME_OF_TWO, _CONTEXT_OF_TWO = _Aux("names", shift=2), _Aux("_CONTEXTS", mask=3)
_NAMED = "FunctionDef AsyncFunctionDef ClassDef TypeVar ParamSpec TypeVarTuple ExceptHandler MatchStar MatchAs"
_AUX: dict[str, dict[str, _Aux]] = {
    "Name": {"id": _NAME_OF_TWO, "ctx": _CONTEXT_OF_TWO},
    "Attribute": {"attr": _NAME_OF_TWO, "ctx": _CONTEXT_OF_TWO},
    "Constant": {"value": _Aux("values"), "kind": _Aux("prefixes")},
    "MatchSingleton": {"value": _Aux("values")},
    "AnnAssign": {"simple": _AS_NUMBER},
    "ImportFrom": {"level": _AS_NUMBER},
    "comprehension": {"is_async": _AS_NUMBER},
    "FormattedValue": {"conversion": _AS_NUMBER},
    "Interpolation": {"conversion": _AS_NUMBER},
    "MatchMapping": {"rest": _NAME},
    **{kind: {"arg": _NAME} for kind in ("arg", "keyword")},
    **{kind: {"ctx": _CONTEXT} for kind in ("Subscript", "Starred", "List", "Tuple")},
    **{kind: {"op": _OPERATOR} for kind in ("BoolOp", "BinOp", "UnaryOp", "AugAssign")},
    **{kind: {"name": _NAME} for kind in _NAMED.split()},
}
# Kinds whose rows are a value of their parent instead of a node.
_LEAVES = {"Identifier": _NAME, "CompareOp": _OPERATOR}
_POSITIONS = {
    "lineno": "line",
    "col_offset": "column",
    "end_lineno": "end_line",
    "end_col_offset": "end_column",
}

_ARGUMENTS = "aux, names, values, prefixes, line, column, end_line, end_column"

# No class has the fields `kw_default` and `unpacked`: `_attach_special` attaches their nodes.
_SLOTS = ["kw_default" if field == "kw_defaults" else field for field in FIELDS]

_Attributes = dict[str, Any]
_Finish = Callable[[_Attributes], None]


class _Tables(NamedTuple):
    """The tables of a tree that `aux` indexes."""

    names: list[str | None]
    values: list[Any]
    prefixes: list[str | None]


def _root(mode: str) -> tuple[type[ast.mod], _Attributes]:
    if mode == "eval":
        return ast.Expression, {"body": None}
    return (ast.Interactive, {"body": []}) if mode == "single" else (ast.Module, {"body": [], "type_ignores": []})


def _build(tree: Tree, mode: str) -> ast.mod:
    cls, attributes = _root(mode)
    with _collector_paused():
        try:
            tables = _Tables(
                [*tree.names(), None],
                [*tree.values(), ..., True, False, None],
                [*tree.value_prefixes(), None, None, None, None],
            )
            (_build_in_python if _node_builder is None else _build_in_c)(tree, tables, attributes)
        except (LookupError, AttributeError, TypeError) as wrong:
            raise ValueError(f"invalid columns: {type(wrong).__name__}: {wrong}") from wrong
    root: ast.mod = _node(cls, attributes)
    return root


def is_compiled() -> bool:
    """Whether the C extension builds the trees."""
    return _node_builder is not None


@contextmanager
def _collector_paused() -> Iterator[None]:
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _build_in_c(tree: Tree, tables: _Tables, root: _Attributes) -> None:
    columns = tree.kinds, tree.fields, tree.parents, tree.starts, tree.ends, tree.aux
    _node_builder.build(
        root,
        tree.text,
        columns,
        (*tables, _CONTEXTS, _OPERATORS),
        tuple(_POSITIONS),
        _SLOTS,
        _specs(),
        _attach_special,
        _missing,
    )


def _build_in_python(tree: Tree, tables: _Tables, root: _Attributes) -> None:
    owners, nodes, unfinished = _make_nodes(tree, tables)
    # NO_ROW, read as a signed number, is -1: the last owner.
    owners.append(root)
    for field, parent, node in zip(tree.fields.tolist(), tree.parents.cast("B").cast("i").tolist(), nodes, strict=True):
        owner = owners[parent]
        name = _SLOTS[field]
        if name not in owner:
            _attach_special(owner, name, node)
        elif (slot := owner[name]).__class__ is list:
            slot.append(node)
        else:
            owner[name] = node
    for finish, attributes in unfinished:
        finish(attributes)


def _make_nodes(tree: Tree, tables: _Tables) -> tuple[list[Any], list[Any], list[tuple[_Finish, _Attributes]]]:
    """Return each row's attributes without child nodes, each row's node, and the callbacks to run at the end."""
    makers = _makers()
    names, values, prefixes = tables
    line_starts = tree.line_starts()
    owners: list[Any] = []
    nodes: list[Any] = []
    unfinished: list[tuple[_Finish, _Attributes]] = []
    new = ast.AST.__new__
    line, low, high = 1, 0, 0
    columns = tree.kinds, tree.starts, tree.ends, tree.aux.cast("B").cast("i")
    for kind, start, end, aux in zip(*(column.tolist() for column in columns), strict=True):
        if not low <= start < high:
            line = bisect_right(line_starts, start)
            low = line_starts[line - 1]
            high = line_starts[line] if line < len(line_starts) else sys.maxsize
        end_line, end_low = line, low
        if end >= high:
            end_line = bisect_right(line_starts, end)
            end_low = line_starts[end_line - 1]
        cls, make, finish = makers[kind]
        attributes = make(aux, names, values, prefixes, line, start - low, end_line, end - end_low)
        owners.append(attributes)
        if cls is None:
            nodes.append(attributes)
            continue
        node = new(cls)
        node.__dict__ = attributes
        nodes.append(node)
        if finish is not None:
            unfinished.append((finish, attributes))
    return owners, nodes, unfinished


def _node(cls: Any, attributes: _Attributes) -> Any:
    # Bypasses `__init__`, which would check each argument.
    node = ast.AST.__new__(cls)
    node.__dict__ = attributes
    return node


def _attach_special(owner: _Attributes, name: str, node: Any) -> None:
    """Attach a node to a field that its parent's class does not have."""
    if name == "unpacked" and "keys" in owner:
        owner["keys"].append(None)
        owner["values"].append(node)
    elif name == "kw_default" and "kw_defaults" in owner:
        # Preceding parameters without a default have None.
        defaults = owner["kw_defaults"]
        defaults += [None] * (len(owner["kwonlyargs"]) - 1 - len(defaults))
        defaults.append(node)
    else:
        raise ValueError(f"{_python()} has no field {name} here")


def _finish_function(attributes: _Attributes) -> None:
    arguments = {field: attributes.pop(field) for field in ast.arguments._fields}
    arguments["kw_defaults"] += [None] * (len(arguments["kwonlyargs"]) - len(arguments["kw_defaults"]))
    attributes["args"] = _node(ast.arguments, arguments)


def _finish_alias(attributes: _Attributes) -> None:
    attributes["name"] = ".".join(attributes["name"]) or "*"


def _finish_import_from(attributes: _Attributes) -> None:
    attributes["module"] = ".".join(attributes["module"]) or None


def _finish_interpolation(attributes: _Attributes) -> None:
    attributes["str"] = attributes["str"].value


_FINISH: dict[str, _Finish] = {
    **dict.fromkeys(("FunctionDef", "AsyncFunctionDef", "Lambda"), _finish_function),
    "alias": _finish_alias,
    "ImportFrom": _finish_import_from,
    "Interpolation": _finish_interpolation,
}


def _fields(cls: Any, kind: str) -> list[str]:
    """Return the fields of a class and of its `arguments`, which the columns store as fields of the function."""
    has_arguments = "args" in cls._fields and kind != "Call"
    return list(dict.fromkeys([*cls._fields, *(ast.arguments._fields if has_arguments else ())]))


def _list_fields(kind: str, fields: list[str]) -> list[str]:
    lists = {*_LISTS.split()} - {*_NO_LISTS.get(kind, ())} | {_PARTS.get(kind, "")}
    return [field for field in fields if field in lists]


@cache
def _makers() -> list[tuple[Any, Callable[..., Any], _Finish | None]]:
    """Return each kind's class or None, a function that creates its attributes, and a callback that finishes them."""
    return [_maker(kind) for kind in KINDS]


def _maker(kind: str) -> tuple[Any, Callable[..., Any], _Finish | None]:
    if kind in _LEAVES:
        return None, _compiled(_LEAVES[kind].expression()), None
    cls = getattr(ast, kind, None)
    if cls is None:
        return None, lambda *_: _missing(kind), None
    names = _fields(cls, kind)
    fields = dict.fromkeys(names, "None")
    fields.update(dict.fromkeys(_list_fields(kind, names), "[]"))
    fields.update({field: aux.expression() for field, aux in _AUX.get(kind, {}).items()})
    fields.update({field: name for field, name in _POSITIONS.items() if field in cls._attributes})
    written = ", ".join(f"{field!r}: {value}" for field, value in fields.items())
    return cls, _compiled("{" + written + "}"), _FINISH.get(kind)


def _compiled(result: str) -> Callable[..., Any]:
    # Generated code for each class is several times as fast as a loop over a table of fields.
    function: Callable[..., Any] = eval(f"lambda {_ARGUMENTS}: {result}", globals())
    return function


@cache
def _specs() -> list[tuple[Any, ...]]:
    """Return the specification of each kind for the C extension (`Spec` in its source)."""
    return [_spec(kind) for kind in KINDS]


def _spec(kind: str) -> tuple[Any, ...]:
    cls = getattr(ast, kind, None)
    if kind in _LEAVES:
        return None, {}, (), _aux_fields({"": _LEAVES[kind]}), False, None, kind
    if cls is None:
        return None, {}, (), (), False, None, kind
    names = _fields(cls, kind)
    positions = [field for field in _POSITIONS if field in cls._attributes]
    lists = tuple(_list_fields(kind, names))
    template = dict.fromkeys([*names, *positions])
    return cls, template, lists, _aux_fields(_AUX.get(kind, {})), bool(positions), _FINISH.get(kind), kind


def _aux_fields(fields: dict[str, _Aux]) -> tuple[tuple[str, int, int, int], ...]:
    tables = (*_TABLES, _NUMBER)
    return tuple((field, tables.index(aux.table), aux.shift, aux.mask) for field, aux in fields.items())


def _missing(kind: str) -> Any:
    raise ValueError(f"{_python()} has no ast.{kind}")


def _python() -> str:
    return f"Python {sys.version_info[0]}.{sys.version_info[1]}"
