"""Finds the first difference between two trees."""

from __future__ import annotations

import ast
import sys
from typing import Any, NamedTuple

_MISSING = object()
_POSITIONS = frozenset(("lineno", "col_offset", "end_lineno", "end_col_offset"))
# Before 3.12 the nodes inside an f-string have positions relative to the string.
_POSITIONS_IN_STRINGS = sys.version_info >= (3, 12)


class Difference(NamedTuple):
    """A node or field that differs."""

    path: str
    theirs: str
    ours: str


def first_difference(theirs: ast.AST, ours: ast.AST) -> Difference | None:
    """The first node or field that differs, from the root down; positions and value types included.

    Walks without recursion, since a tree may be deeper than the stack.
    """
    # Two values, their path, and whether to compare positions.
    stack: list[tuple[Any, Any, Any, bool]] = [(theirs, ours, None, True)]
    while stack:
        left, right, path, places = stack.pop()
        if left.__class__ is not right.__class__:
            return Difference(_text(path), _short(left), _short(right))
        if left.__class__ is list:
            if len(left) != len(right):
                return Difference(_text(path), f"{len(left)} items", f"{len(right)} items")
            pairs = [
                (one, other, (path, f"[{at}]"), places) for at, (one, other) in enumerate(zip(left, right, strict=True))
            ]
        elif isinstance(left, ast.AST):
            found, pairs = _compare_nodes(left, right, path, places)
            if found is not None:
                return found
        elif left == right:
            continue
        else:
            return Difference(_text(path), _short(left), _short(right))
        pairs.reverse()
        stack += pairs
    return None


def _compare_nodes(left: Any, right: Any, path: Any, places: bool) -> tuple[Difference | None, list[Any]]:
    """The difference in plain fields of two nodes of one class, and the pairs of values in its other fields."""
    others = right.__dict__
    inside = places and (_POSITIONS_IN_STRINGS or left.__class__ is not ast.JoinedStr)
    pairs = []
    for name, one in left.__dict__.items():
        other = others.get(name, _MISSING)
        if one is other:
            continue
        if one.__class__ is not other.__class__ or not isinstance(one, (list, ast.AST)):
            if (one == other and one.__class__ is other.__class__) or (name in _POSITIONS and not places):
                continue
            return Difference(_text((path, f".{name}")), _short(one), _short(other)), []
        pairs.append((one, other, (path, f".{name}"), inside))
    if len(others) != len(left.__dict__):
        extra = ", ".join(sorted(others.keys() - left.__dict__.keys()))
        return Difference(_text(path), "no more fields", extra), []
    return None, pairs


def _text(path: Any) -> str:
    parts = []
    while path is not None:
        path, part = path
        parts.append(part)
    return "".join(reversed(parts)) or "."


def _short(value: Any) -> str:
    if value is _MISSING:
        return "nothing"
    text = type(value).__name__ if isinstance(value, ast.AST) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
