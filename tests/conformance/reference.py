"""Makes columns from CPython's tree, to test the harness and the client without the parser.

Rows without a position in CPython's tree have their parent's, and all names and values are in `extra`.
"""

from __future__ import annotations

import ast
import struct
from typing import Any

from accelerd._kinds import FIELDS, KINDS, OPERATORS

NONE = (1 << 32) - 1
_KIND = {name: number for number, name in enumerate(KINDS)}
_FIELD = {name: number for number, name in enumerate(FIELDS)}
_OPERATOR = {name: number for number, name in enumerate(OPERATORS)}
_CONTEXT = {ast.Load: 0, ast.Store: 1, ast.Del: 2}
_PLAIN = {None: NONE, False: NONE - 1, True: NONE - 2, ...: NONE - 3}
_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")
_NAMED = {"keyword": "arg", "arg": "arg", "MatchMapping": "rest"}


def columns_of(tree: ast.Module, text: bytes) -> dict[str, bytes]:
    """The columns of a tree, as bytes."""
    writer = _Writer(text)
    for statement in tree.body:
        writer.add(statement, "body")
    return writer.columns()


class _Writer:
    def __init__(self, text: bytes) -> None:
        self.line_starts = [3 if text.startswith(b"\xef\xbb\xbf") else 0]
        rest = text.replace(b"\r\n", b" \n").replace(b"\r", b"\n")
        self.line_starts += [at + 1 for at, byte in enumerate(rest) if byte == 10]
        self.extra, self.origin = bytearray(), len(text)
        self.rows: list[list[int]] = []
        self.names: dict[str, int] = {}
        self.slices: dict[str, list[tuple[int, int, int]]] = {"name": [], "value": []}
        self.place = 0, 0

    def add(self, node: Any, field: str) -> int:
        """Adds a node's children, then itself, then the statements of its blocks; returns its row."""
        place, outer = self._place(node), self.place
        self.place = place
        children = self._children(node)
        blocks = _BLOCKS if isinstance(node, _OPENERS) else ()
        rows = [self._add_child(*child) for child in children if child[0] not in blocks]
        own = self._row(type(node).__name__, field, self._aux(node))
        for row in rows:
            self.rows[row][2] = own
        for name, child in children:
            if name in blocks:
                self.rows[self.add(child, name)][2] = own
        self.place = outer
        return own

    def _add_child(self, field: str, child: Any) -> int:
        if isinstance(child, str):
            return self._row("Identifier", field, self._name(child))
        if isinstance(child, ast.cmpop):
            return self._row("CompareOp", field, _OPERATOR[type(child).__name__])
        return self.add(child, field)

    def _row(self, kind: str, field: str, aux: int) -> int:
        self.rows.append([_KIND[kind], _FIELD[field], NONE, *self.place, aux])
        return len(self.rows) - 1

    def _place(self, node: Any) -> tuple[int, int]:
        if not hasattr(node, "end_lineno"):
            return self.place
        start = self.line_starts[node.lineno - 1] + node.col_offset
        return start, self.line_starts[node.end_lineno - 1] + node.end_col_offset

    def _children(self, node: Any) -> list[tuple[str, Any]]:
        """The children of a node with their fields; the order within a field is kept."""
        special = _CHILDREN.get(type(node))
        if special is not None:
            return special(node)
        named = _NAMED.get(type(node).__name__, "name")
        return [
            (name, child)
            for name, value in ast.iter_fields(node)
            for child in (value if isinstance(value, list) else [value])
            if isinstance(child, (ast.AST, str))
            and not isinstance(child, _IN_AUX)
            and (name != named or not isinstance(child, str))
        ]

    def _aux(self, node: Any) -> int:
        kind = type(node).__name__
        if isinstance(node, (ast.Constant, getattr(ast, "MatchSingleton", ast.Constant))):
            return self._value(node)
        if isinstance(node, (ast.Name, ast.Attribute)):
            name = node.id if isinstance(node, ast.Name) else node.attr
            return 4 * self._name(name) + _CONTEXT[type(node.ctx)]
        if isinstance(node, (ast.FormattedValue, getattr(ast, "Interpolation", ast.FormattedValue))):
            return NONE if node.conversion == -1 else node.conversion
        if hasattr(node, "ctx"):
            return _CONTEXT[type(node.ctx)]
        if hasattr(node, "op"):
            return _OPERATOR[type(node.op).__name__]
        name = getattr(node, _NAMED.get(kind, "name"), 0)
        if kind != "alias" and (name is None or isinstance(name, str)):
            return NONE if name is None else self._name(name)
        return next((int(getattr(node, one)) for one in ("level", "simple", "is_async") if hasattr(node, one)), 0)

    def _name(self, name: str) -> int:
        if name not in self.names:
            self.names[name] = len(self.names)
            self._slice("name", 0, name.encode())
        return self.names[name]

    def _value(self, node: Any) -> int:
        value = node.value
        if value is None or value is ... or isinstance(value, bool):
            return _PLAIN[value]
        if isinstance(value, (str, bytes)):
            tag = 6 if isinstance(value, bytes) else 5 if node.kind == "u" else 4
            written = value if tag == 6 else value.encode("utf-8", "surrogatepass")
        else:
            tag = {int: 1, float: 2, complex: 3}[type(value)]
            written = (hex(value) if tag == 1 else repr(value).replace("inf", "1e999")).encode()
        self._slice("value", tag, written)
        return len(self.slices["value"]) - 1

    def _slice(self, table: str, tag: int, written: bytes) -> None:
        start = self.origin + len(self.extra)
        self.extra += written
        self.slices[table].append((tag, start, start + len(written)))

    def columns(self) -> dict[str, bytes]:
        names = ("kinds", "fields", "parents", "starts", "ends", "aux")
        columns = {name: _packed(name, [row[at] for row in self.rows]) for at, name in enumerate(names)}
        for table, rows in self.slices.items():
            for at, part in enumerate(("tags", "starts", "ends")):
                columns[f"{table}_{part}"] = _packed(f"{table}_{part}", [row[at] for row in rows])
        del columns["name_tags"]
        return {**columns, "extra": bytes(self.extra)}


def _packed(name: str, numbers: list[int]) -> bytes:
    return (
        bytes(numbers)
        if name in ("kinds", "fields", "value_tags", "name_tags")
        else struct.pack(f"<{len(numbers)}I", *numbers)
    )


def _function(node: Any) -> list[tuple[str, Any]]:
    arguments = node.args
    children = [("decorator_list", one) for one in getattr(node, "decorator_list", ())]
    children += [("type_params", one) for one in getattr(node, "type_params", ())]
    children += [(name, one) for name in ("posonlyargs", "args", "defaults") for one in getattr(arguments, name)]
    for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        children += [("kwonlyargs", one)] + ([("kw_defaults", default)] if default else [])
    single = [("vararg", arguments.vararg), ("kwarg", arguments.kwarg), ("returns", getattr(node, "returns", None))]
    children += [child for child in single if child[1] is not None]
    body = node.body if isinstance(node.body, list) else [node.body]
    return children + [("body", one) for one in body]


def _dict(node: ast.Dict) -> list[tuple[str, Any]]:
    pairs = zip(node.keys, node.values, strict=True)
    return [
        child
        for key, value in pairs
        for child in ([("unpacked", value)] if key is None else [("keys", key), ("values", value)])
    ]


def _alias(node: ast.alias) -> list[tuple[str, Any]]:
    parts = [] if node.name == "*" else node.name.split(".")
    return [("name", part) for part in parts] + ([("asname", node.asname)] if node.asname else [])


def _import_from(node: ast.ImportFrom) -> list[tuple[str, Any]]:
    return [("module", part) for part in (node.module or "").split(".") if part] + [
        ("names", one) for one in node.names
    ]


def _interpolation(node: Any) -> list[tuple[str, Any]]:
    text = ast.Constant(node.str, kind=None)
    return [("value", node.value), ("str", text)] + ([("format_spec", node.format_spec)] if node.format_spec else [])


_OPENERS = (ast.stmt, ast.ExceptHandler, getattr(ast, "match_case", ast.stmt))
_IN_AUX = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop)
_CHILDREN: dict[Any, Any] = {
    **{kind: _function for kind in (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)},
    ast.Dict: _dict,
    ast.alias: _alias,
    ast.ImportFrom: _import_from,
    ast.Constant: lambda node: [],
    ast.Attribute: lambda node: [("value", node.value)],
    ast.Name: lambda node: [],
    getattr(ast, "MatchSingleton", None): lambda node: [],
    getattr(ast, "Interpolation", None): _interpolation,
}
