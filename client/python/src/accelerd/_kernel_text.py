"""The text of functions and classes, and expressions in it that others take the place of."""

from __future__ import annotations

import ast
import inspect
import re
import symtable
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any


@dataclass(frozen=True)
class Text:
    """The lines of a function or class, without the indentation of the first."""

    lines: list[str]
    #: Line of the first in its file.
    first: int
    #: What each lost of its indentation.
    indents: tuple[int, ...]

    @classmethod
    def of(cls, defined: FunctionType | type, source: str | None = None) -> Text:
        """Return the text of a function or class, which is `source` if it is in no file."""
        try:
            lines, first = inspect.getsourcelines(defined)
        except (OSError, TypeError) as missing:
            if not source:
                message = f"source: there is no source of {defined.__qualname__}, pass it as text: {missing}"
                raise ValueError(message) from None
            lines, first = source.splitlines(keepends=True), 1
        indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
        if not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        # Lines within a string or parentheses may be indented less, so this is not `textwrap.dedent`.
        indents = tuple(len(indent) * line.startswith(indent) for line in lines)
        return cls([line.removeprefix(indent) for line in lines], first, indents)

    def rewritten(self, tree: ast.Module) -> Text:
        """Return the text of another syntax tree of the function."""
        lines = ast.unparse(tree).splitlines(keepends=True)
        lines[-1] += "\n"
        return Text(lines, self.first, (0,) * len(lines))

    @property
    def whole(self) -> str:
        return "".join(self.lines)

    def tree(self) -> ast.Module:
        """Return its syntax tree; an empty one of a text that is no statement, which is reported later."""
        try:
            return ast.parse(self.whole)
        except (SyntaxError, ValueError):
            return ast.Module([], [])

    def definition(self) -> Any:
        """Return the function or class; None if there is none."""
        return next(iter(self.tree().body), None)

    def without_lines(self, numbers: set[int]) -> Text:
        """Return a text in which lines, from 1, are empty."""
        lines = ["\n" if nth in numbers else line for nth, line in enumerate(self.lines, 1)]
        return Text(lines, self.first, self.indents)

    def replaced(self, found: list[tuple[ast.expr, str]]) -> Text:
        """Return a text in which others stand for expressions."""
        lines = [line.encode() for line in self.lines]
        # From the last one on, so that the places of the others stay.
        for node, text in sorted(found, key=lambda one: place(one[0]), reverse=True):
            first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
            before, after = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
            # The lines that follow keep their numbers.
            texts = [text.encode()] if first == last else [f"({text}\n".encode(), *[b"\n"] * (last - first - 1), b")"]
            lines[first : last + 1] = [before + texts[0], *texts[1:]]
            lines[last] += after
        return Text([line.decode() for line in lines], self.first, self.indents)

    def names(self) -> set[str]:
        """Return the names that it uses or defines."""
        names = (
            getattr(node, "id", getattr(node, "arg", getattr(node, "name", None))) for node in ast.walk(self.tree())
        )
        return {name for name in names if isinstance(name, str)}

    def renamed(self, own: str, name: str) -> Text:
        """Return a text that defines another name."""
        definition = self.definition()
        if own == name or definition is None:
            return self
        lines = list(self.lines)
        at = definition.lineno - 1
        pattern = rf"\b(def|class)(\s+){re.escape(own)}\b"
        lines[at] = re.sub(pattern, lambda found: f"{found[1]}{found[2]}{name}", lines[at], count=1)
        return Text(lines, self.first, self.indents)

    def words(self) -> set[str]:
        """Return all words in it, names among them."""
        return set(re.findall(r"\w+", self.whole))


def outside(
    found: Sequence[tuple[ast.expr, str]], others: Sequence[tuple[ast.expr, str]]
) -> list[tuple[ast.expr, str]]:
    """Return those of other expressions of a text that are not within ones that were found."""
    within = {_span(node) for one, _ in found for node in ast.walk(one) if isinstance(node, ast.expr)}
    return [one for one in others if _span(one[0]) not in within]


def _span(node: ast.expr) -> tuple[object, ...]:
    return type(node), *place(node), node.end_lineno, node.end_col_offset


def place(node: ast.expr) -> tuple[int, int]:
    """Return where an expression starts."""
    return node.lineno, node.col_offset


def free_names(text: str, filename: str) -> list[str]:
    """Return the global names that a statement uses, in order."""
    return sorted(set(_free_names(symtable.symtable(text, filename, "exec"))))


def _free_names(table: symtable.SymbolTable) -> Iterator[str]:
    for symbol in table.get_symbols():
        if symbol.is_referenced() and symbol.is_global():
            yield symbol.get_name()
    for child in table.get_children():
        yield from _free_names(child)


def enclosing_variables(function: FunctionType) -> set[str]:
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
