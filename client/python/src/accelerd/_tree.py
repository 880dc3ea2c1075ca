"""A parsed source: the columns of its tree, and `ast` objects made of them.

`kernels/parser/src/columns.rs` says what the columns hold. This module needs nothing but Python's own library, so that
a tree can be rebuilt by any Python.
"""

from __future__ import annotations

import ast
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from ._kinds import FIELDS, KINDS, OPERATORS

_INT, _FLOAT, _IMAGINARY, _STR, _UNICODE_STR, _BYTES = range(1, 7)
_CONTEXTS = (ast.Load(), ast.Store(), ast.Del())
_OPERATORS = tuple(getattr(ast, name)() if name else None for name in OPERATORS)

# Fields that are lists, for now lists of parts where they are dotted names in the end.
_LISTS = """
body decorator_list type_params bases keywords targets items orelse cases handlers finalbody names values generators
keys ops comparators args elts ifs patterns kwd_attrs kwd_patterns posonlyargs kwonlyargs kw_defaults defaults
"""
_NO_LISTS = {"IfExp": ("body", "orelse"), "Lambda": ("body",)}
_PARTS = {"alias": "name", "ImportFrom": "module"}

# What `aux` says, as an expression for each field. It is read as a signed number: -1 is none, and the values without a
# row are the last ones of `values`.
_NAME, _CONTEXT, _OPERATOR = "names[aux]", "_CONTEXTS[aux]", "_OPERATORS[aux]"
_NAMED = "FunctionDef AsyncFunctionDef ClassDef TypeVar ParamSpec TypeVarTuple ExceptHandler MatchStar MatchAs"
_AUX: dict[str, dict[str, str]] = {
    "Name": {"id": "names[aux >> 2]", "ctx": "_CONTEXTS[aux & 3]"},
    "Attribute": {"attr": "names[aux >> 2]", "ctx": "_CONTEXTS[aux & 3]"},
    "Constant": {"value": "values[aux]", "kind": "prefixes[aux]"},
    "MatchSingleton": {"value": "values[aux]"},
    "AnnAssign": {"simple": "aux"},
    "ImportFrom": {"level": "aux"},
    "comprehension": {"is_async": "aux"},
    "FormattedValue": {"conversion": "aux"},
    "Interpolation": {"conversion": "aux"},
    "MatchMapping": {"rest": _NAME},
    **{kind: {"arg": _NAME} for kind in ("arg", "keyword")},
    **{kind: {"ctx": _CONTEXT} for kind in ("Subscript", "Starred", "List", "Tuple")},
    **{kind: {"op": _OPERATOR} for kind in ("BoolOp", "BinOp", "UnaryOp", "AugAssign")},
    **{kind: {"name": _NAME} for kind in _NAMED.split()},
}
_POSITIONS = {
    "lineno": "line",
    "col_offset": "column",
    "end_lineno": "end_line",
    "end_col_offset": "end_column",
}

_ARGUMENTS = "aux, names, values, prefixes, line, column, end_line, end_column"

# Two fields that no class has: their nodes are attached otherwise.
_SLOTS = ["kw_default" if field == "kw_defaults" else field for field in FIELDS]

_Attributes = dict[str, Any]
_Finish = Callable[[_Attributes], None]


@dataclass(frozen=True)
class Tree:
    """The columns of one source's tree; `numpy.asarray` of a column is a view of it."""

    text: bytes
    """The source as UTF-8."""
    extra: bytes
    """What follows the text: names and values that it has in another form."""
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
    def from_bytes(cls, text: bytes, columns: Mapping[str, bytes]) -> Tree:
        """A tree of columns as they come over the wire: bytes, and little-endian numbers of 32 bits."""
        small = ("kinds", "fields", "value_tags")
        views = {
            name: memoryview(data) if name in small else _numbers(data)
            for name, data in columns.items()
            if name != "extra"
        }
        return cls(text=text, extra=columns.get("extra", b""), **views)

    def line_starts(self) -> list[int]:
        """Byte of the text where each line starts."""
        # CPython does not count a byte order mark.
        first = 3 if self.text.startswith(b"\xef\xbb\xbf") else 0
        return [first, *(newline.end() for newline in re.finditer(rb"\r\n?|\n", self.text))]

    def names(self) -> list[str]:
        """Every name once."""
        text = self.text + self.extra
        return [
            text[start:end].decode()
            for start, end in zip(self.name_starts.tolist(), self.name_ends.tolist(), strict=True)
        ]

    def values(self) -> list[Any]:
        """The value of each constant that is none of None, False, True and ..."""
        text = self.text + self.extra
        rows = zip(self.value_tags.tolist(), self.value_starts.tolist(), self.value_ends.tolist(), strict=True)
        return [_value(tag, text[start:end]) for tag, start, end in rows]

    def to_ast(self) -> ast.Module:
        """What `ast.parse` makes of the source, in the running Python's classes and fields."""
        owners, nodes, unfinished = _make_nodes(self)
        module: _Attributes = {"body": [], "type_ignores": []}
        # A parent of none, read as a signed number, is the last owner.
        owners.append(module)
        for field, parent, node in zip(
            self.fields.tolist(), self.parents.cast("B").cast("i").tolist(), nodes, strict=True
        ):
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
        root: ast.Module = _node(ast.Module, module)
        return root


def _numbers(data: bytes) -> memoryview:
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


def _node(cls: Any, attributes: _Attributes) -> Any:
    # Past `__init__`, which would look at each argument again.
    node = ast.AST.__new__(cls)
    node.__dict__ = attributes
    return node


def _make_nodes(tree: Tree) -> tuple[list[Any], list[Any], list[tuple[_Finish, _Attributes]]]:
    """Each row's attributes, without what other rows are in, and its node; and what to do at the end."""
    makers = _makers()
    names = [*tree.names(), None]
    values = [*tree.values(), ..., True, False, None]
    prefixes = [*("u" if tag == _UNICODE_STR else None for tag in tree.value_tags), None, None, None, None]
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


def _attach_special(owner: _Attributes, name: str, node: Any) -> None:
    """Puts a node into a field that is none of its parent's class."""
    if name == "unpacked" and "keys" in owner:
        owner["keys"].append(None)
        owner["values"].append(node)
    elif name == "kw_default" and "kw_defaults" in owner:
        # The parameters before this one's have none.
        defaults = owner["kw_defaults"]
        defaults += [None] * (len(owner["kwonlyargs"]) - 1 - len(defaults))
        defaults.append(node)
    else:
        raise ValueError(f"Python {sys.version_info[0]}.{sys.version_info[1]} has no field {name} here")


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


@cache
def _makers() -> list[tuple[Any, Callable[..., Any], _Finish | None]]:
    """What makes each kind: its class, if it is one, a function for its attributes, and what finishes them."""
    return [_maker(kind) for kind in KINDS]


def _maker(kind: str) -> tuple[Any, Callable[..., Any], _Finish | None]:
    if kind == "Identifier":
        return None, _compiled(_NAME), None
    if kind == "CompareOp":
        return None, _compiled(_OPERATOR), None
    cls = getattr(ast, kind, None)
    if cls is None:
        return None, _missing(kind), None
    fields = dict.fromkeys(cls._fields, "None")
    if "args" in fields and kind != "Call":
        fields.update(dict.fromkeys(ast.arguments._fields, "None"))
    lists = {*_LISTS.split()} - {*_NO_LISTS.get(kind, ())} | {_PARTS.get(kind, "")}
    fields.update({field: "[]" for field in fields if field in lists})
    fields.update(_AUX.get(kind, {}))
    fields.update({field: name for field, name in _POSITIONS.items() if field in cls._attributes})
    return (
        cls,
        _compiled("{" + ", ".join(f"{field!r}: {value}" for field, value in fields.items()) + "}"),
        _FINISH.get(kind),
    )


def _compiled(result: str) -> Callable[..., Any]:
    # One function for each class, written out: reading a table field by field takes several times as long.
    function: Callable[..., Any] = eval(f"lambda {_ARGUMENTS}: {result}", globals())
    return function


def _missing(kind: str) -> Callable[..., Any]:
    def make(*_: Any) -> Any:
        raise ValueError(f"Python {sys.version_info[0]}.{sys.version_info[1]} has no ast.{kind}")

    return make
