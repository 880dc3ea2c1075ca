"""Tests of trees of hand-written columns; `tests/conformance` tests those of whole libraries."""

from __future__ import annotations

import ast
import gc
import re
import struct
from pathlib import Path

import pytest

from accelerd import _tree
from accelerd._kinds import FIELDS, KINDS, OPERATORS
from accelerd._tree import Tree

DEFINED = Path(__file__).resolve().parents[3] / "kernels" / "grammar" / "src" / "kinds.rs"
NONE = (1 << 32) - 1
COLUMNS = ("kinds", "fields", "parents", "starts", "ends", "aux")
LOAD, STORE = 0, 1


@pytest.fixture(autouse=True, params=["python", "c"])
def builder(request: pytest.FixtureRequest, node_builder: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs every test with the builders in Python and in C."""
    monkeypatch.setattr(_tree, "_node_builder", node_builder if request.param == "c" else None)


def tree(text: str, rows: list[tuple[str, str, int, int, int, int]], names: str = "", values: str = "") -> Tree:
    """A tree of rows; names and values are letters and digits, each at its last place in the text."""
    numbered = [(KINDS.index(kind), FIELDS.index(field), *rest) for kind, field, *rest in rows]
    columns = {name: [row[at] for row in numbered] for at, name in enumerate(COLUMNS)}
    for table, words in (("name", names), ("value", values)):
        columns[f"{table}_starts"] = [text.rindex(letter) for letter in words]
        columns[f"{table}_ends"] = [text.rindex(letter) + 1 for letter in words]
    columns["value_tags"] = [1] * len(values)
    small = ("kinds", "fields", "value_tags")
    return Tree.from_bytes(
        text.encode(),
        {name: bytes(one) if name in small else struct.pack(f"<{len(one)}I", *one) for name, one in columns.items()},
    )


def same(text: str, made: Tree) -> None:
    expected, got = (ast.dump(one, include_attributes=True) for one in (ast.parse(text.encode()), made.to_ast()))
    assert got == expected


def test_the_worked_example() -> None:
    rows = [
        ("Name", "target", 4, 0, 1, 4 * 0 + STORE),
        ("Name", "func", 3, 5, 6, 4 * 1 + LOAD),
        ("Constant", "args", 3, 7, 8, 0),
        ("Call", "value", 4, 5, 9, 0),
        ("AugAssign", "body", NONE, 0, 9, OPERATORS.index("Add")),
    ]
    same("x += f(1)", tree("x += f(1)", rows, names="xf", values="1"))


def test_parameters_without_a_default_have_none() -> None:
    text = "lambda *, a, b=1, c: a"
    rows = [
        ("arg", "kwonlyargs", 5, 10, 11, 0),
        ("arg", "kwonlyargs", 5, 13, 14, 1),
        ("Constant", "kw_defaults", 5, 15, 16, 0),
        ("arg", "kwonlyargs", 5, 18, 19, 2),
        ("Name", "body", 5, 21, 22, 4 * 0 + LOAD),
        ("Lambda", "value", 6, 0, 22, 0),
        ("Expr", "body", NONE, 0, 22, 0),
    ]
    same(text, tree(text, rows, names="abc", values="1"))


def test_a_field_that_this_python_lacks_is_named() -> None:
    rows = [("Pass", "cases", 1, 0, 4, 0), ("Pass", "body", NONE, 0, 4, 0)]
    with pytest.raises(ValueError, match="no field cases"):
        tree("pass", rows).to_ast()


def test_a_kind_that_this_python_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(ast, "Pass")
    for cached in (_tree._makers, _tree._specs):
        cached.cache_clear()
    with pytest.raises(ValueError, match=r"has no ast\.Pass"):
        tree("pass", [("Pass", "body", NONE, 0, 4, 0)]).to_ast()
    for cached in (_tree._makers, _tree._specs):
        cached.cache_clear()


@pytest.mark.parametrize(
    "rows",
    [
        [("Pass", "body", 7, 0, 4, 0)],
        [("Name", "value", 1, 0, 4, 4 * 9), ("Expr", "body", NONE, 0, 4, 0)],
        [("Constant", "value", 1, 0, 4, 9), ("Expr", "body", NONE, 0, 4, 0)],
        [("Name", "value", 1, 0, 4, 3), ("Expr", "body", NONE, 0, 4, 0)],
        [("Identifier", "names", 1, 0, 4, 0), ("Pass", "body", 0, 0, 4, 0)],
    ],
    ids=["parent", "name", "value", "context", "parent that is no node"],
)
def test_columns_that_lie_are_refused(rows: list[tuple[str, str, int, int, int, int]]) -> None:
    with pytest.raises(ValueError):
        tree("pass", rows, names="p").to_ast()


def test_kinds_past_the_last_and_columns_of_unequal_length_are_refused() -> None:
    one = tree("pass", [("Pass", "body", NONE, 0, 4, 0)])
    for wrong in ({"kinds": memoryview(b"\xff")}, {"fields": memoryview(b"\xff")}, {"starts": one.starts[:0]}):
        with pytest.raises(ValueError):
            Tree(**{**vars(one), **wrong}).to_ast()


@pytest.mark.parametrize("text", ["a\r\na\ra\na", "\ufeffa\na", "a;a\n\n \n\r\r\na", "#é\na;a"])
def test_lines_and_columns_are_cpythons_at_every_line_end(text: str) -> None:
    rows: list[tuple[str, str, int, int, int, int]] = []
    for found in re.finditer(b"a", text.encode()):
        rows.append(("Name", "value", len(rows) + 1, *found.span(), 0))
        rows.append(("Expr", "body", NONE, *found.span(), 0))
    made = tree(text.replace("\ufeff", "+++").replace("é", "++"), rows, names="a")
    same(text, Tree(**{**vars(made), "text": text.encode()}))


@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_garbage_collector_is_left_as_it_was(is_enabled: bool) -> None:
    was_enabled = gc.isenabled()
    (gc.enable if is_enabled else gc.disable)()
    try:
        tree("pass", [("Pass", "body", NONE, 0, 4, 0)]).to_ast()
        assert gc.isenabled() == is_enabled
        with pytest.raises(ValueError):
            tree("pass", [("Pass", "body", 7, 0, 4, 0)]).to_ast()
        assert gc.isenabled() == is_enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()


@pytest.mark.parametrize(("enum", "names"), [("Kind", KINDS), ("Field", FIELDS), ("Operator", OPERATORS)])
def test_the_numbers_are_those_of_the_parser(enum: str, names: list[str]) -> None:
    (body,) = re.findall(rf"^    {enum} \{{(.*?)\n    \}}", DEFINED.read_text(), re.S | re.M)
    assert names == ["", *re.findall(r'^        \w+ = "(\w+)",', body, re.M)]
