"""Parsed sources: verdicts, trees, outlines, tokens, comments."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ._call import malformed
from ._kinds import KINDS
from ._proto import parse_pb2 as pb
from ._tree import Tree

OUTPUTS: dict[str, pb.ParseOutput] = {
    "tree": pb.PARSE_OUTPUT_TREE,
    "tokens": pb.PARSE_OUTPUT_TOKENS,
    "comments": pb.PARSE_OUTPUT_COMMENTS,
    "outline": pb.PARSE_OUTPUT_OUTLINE,
    "line_starts": pb.PARSE_OUTPUT_LINE_STARTS,
}

# Each column: its message, its field there, bytes a number, and the result's field with its rows.
_COLUMNS = {
    **{name: ("nodes", name, 1, "node_count") for name in ("kinds", "fields")},
    **{name: ("nodes", name, 4, "node_count") for name in ("parents", "starts", "ends", "aux")},
    **{f"name_{name}": ("names", name, 4, "name_count") for name in ("starts", "ends")},
    "value_tags": ("values", "tags", 1, "value_count"),
    **{f"value_{name}": ("values", name, 4, "value_count") for name in ("starts", "ends")},
    "extra": ("", "extra", 1, "extra_size"),
    "token_kinds": ("tokens", "kinds", 1, "token_count"),
    **{f"token_{name}": ("tokens", name, 4, "token_count") for name in ("starts", "ends")},
    **{f"comment_{name}": ("comments", name, 4, "comment_count") for name in ("starts", "ends")},
}
_TREE = tuple(name for name in _COLUMNS if not name.startswith(("token_", "comment_")))
_CLASSES: dict[int, type[Exception]] = {
    pb.DIAGNOSTIC_CLASS_SYNTAX_ERROR: SyntaxError,
    pb.DIAGNOSTIC_CLASS_INDENTATION_ERROR: IndentationError,
    pb.DIAGNOSTIC_CLASS_TAB_ERROR: TabError,
    pb.DIAGNOSTIC_CLASS_VALUE_ERROR: ValueError,
}


@dataclass(frozen=True)
class Diagnostic:
    """The first error of a source, as CPython reports it."""

    #: The exception that CPython would raise: SyntaxError, IndentationError, TabError or ValueError.
    cls: type[Exception]
    message: str
    #: From 1.
    line: int
    #: In characters, from 1.
    column: int
    #: Bytes of the text where it starts and ends.
    start: int
    end: int

    def error(self, filename: str = "<unknown>", text: bytes = b"") -> Exception:
        """The exception; with the line where it is, given the text."""
        if not issubclass(self.cls, SyntaxError):
            return self.cls(self.message)
        lines = text.splitlines()
        line = lines[self.line - 1].decode(errors="replace") if 0 < self.line <= len(lines) else None
        return self.cls(self.message, (filename, self.line, self.column, line))


@dataclass(frozen=True)
class OutlineItem:
    """A function, class or import."""

    #: FunctionDef, AsyncFunctionDef, ClassDef, Import or ImportFrom.
    kind: str
    #: Of an import what is imported, as in `os.path as p` or `.x import a, b`.
    name: str
    #: The name behind those of the functions and classes around it, as in `Client.connect`.
    qualified_name: str
    #: Bytes of the text, decorators included.
    start: int
    end: int
    #: Lines, from 1.
    line: int
    end_line: int
    #: Index in the outline of the function or class around it.
    parent: int | None
    #: Where the docstring's literal starts and ends.
    docstring: tuple[int, int] | None


class Token(NamedTuple):
    """A token; `text[start:end]` of its source is what stands there."""

    #: `name`, `number`, `string`, `left_paren`, ...
    kind: str
    start: int
    end: int


class Parsed:
    """What became of one source. What was not asked for is empty."""

    def __init__(self, text: bytes, result: pb.SourceResult, columns: dict[str, memoryview], has_tree: bool) -> None:
        #: The source as UTF-8; all places are bytes of it.
        self.text = text
        self._result = result
        self._columns = columns
        self._has_tree = has_tree

    def __repr__(self) -> str:
        verdict = f"line {self._result.diagnostic.line}: {self._result.diagnostic.message}"
        return f"Parsed({len(self.text)} bytes, {'valid' if self.is_valid else verdict})"

    @property
    def is_valid(self) -> bool:
        """Whether it is Python."""
        return not self._result.HasField("diagnostic")

    @cached_property
    def diagnostic(self) -> Diagnostic | None:
        """Why it is not Python."""
        if self.is_valid:
            return None
        told = self._result.diagnostic
        cls = _CLASSES.get(getattr(told, "class"), SyntaxError)
        return Diagnostic(cls, told.message, told.line, told.column, told.start, told.end)

    @cached_property
    def tree(self) -> Tree:
        """The columns of its tree. Raises what CPython would raise where it is not Python."""
        if self.diagnostic is not None:
            raise self.diagnostic.error(text=self.text)
        if not self._has_tree:
            raise ValueError('its tree was not asked for: outputs=["tree"]')
        columns = {name: self._columns[name] for name in _TREE}
        return Tree.from_bytes(self.text, columns)

    def to_ast(self) -> ast.Module:
        """What `ast.parse` makes of it, in the running Python's classes. Raises what CPython would raise."""
        return self.tree.to_ast()

    @cached_property
    def outline(self) -> list[OutlineItem]:
        """Functions, classes and imports, in the order of the source."""
        items: list[OutlineItem] = []
        for item in self._result.outline:
            parent = item.parent if item.HasField("parent") and item.parent < len(items) else None
            around = "" if parent is None else items[parent].qualified_name + "."
            docstring = item.docstring_start, item.docstring_end
            items.append(
                OutlineItem(
                    kind=KINDS[item.kind] if item.kind < len(KINDS) else "",
                    name=item.name,
                    qualified_name=around + item.name,
                    start=item.start,
                    end=item.end,
                    line=item.line,
                    end_line=item.end_line,
                    parent=parent,
                    docstring=docstring if any(docstring) else None,
                )
            )
        return items

    @cached_property
    def tokens(self) -> list[Token]:
        """Tokens that are neither comment nor newline nor indentation; of a source with an error those before it."""
        kinds = (_token_kind(kind) for kind in self._columns["token_kinds"])
        return [Token(*row) for row in zip(kinds, *self._spans("token"), strict=True)]

    @cached_property
    def comments(self) -> list[tuple[int, int]]:
        """Where each comment starts and ends, from `#` to the end of the line."""
        return list(zip(*self._spans("comment"), strict=True))

    def _spans(self, table: str) -> tuple[list[int], list[int]]:
        return _numbers(self._columns[f"{table}_starts"]), _numbers(self._columns[f"{table}_ends"])


def _numbers(column: memoryview) -> list[int]:
    numbers: list[int] = np.frombuffer(column, dtype="<u4").tolist()
    return numbers


def _token_kind(kind: int) -> str:
    names = pb.TokenKind.DESCRIPTOR.values_by_number
    return names[kind].name.removeprefix("TOKEN_KIND_").lower() if kind in names else ""


def request(sources: Sequence[bytes | str], outputs: Sequence[str], feature_version: int) -> pb.ParseRequest:
    """What to send."""
    if isinstance(sources, (bytes, str)):
        raise TypeError("sources is a list of sources, not one source")
    if isinstance(outputs, str) or (unknown := [name for name in outputs if name not in OUTPUTS]):
        got = outputs if isinstance(outputs, str) else unknown[0]
        raise ValueError(f"expected a list of {', '.join(OUTPUTS)}, got {got!r}")
    return pb.ParseRequest(
        sources=[encoded(source) for source in sources],
        outputs=[OUTPUTS[name] for name in outputs],
        feature_version=feature_version,
    )


def encoded(source: bytes | str) -> bytes:
    """A file's bytes as they are, a text as UTF-8."""
    return source.encode() if isinstance(source, str) else source


def parsed(asked: pb.ParseRequest, answer: pb.ParseResponse) -> list[Parsed]:
    """What became of each source."""
    if len(answer.results) != len(asked.sources):
        raise malformed(f"{len(answer.results)} results of {len(asked.sources)} sources")
    parts = {name: _parts(name, answer) for name in _COLUMNS}
    has_tree = not asked.outputs or pb.PARSE_OUTPUT_TREE in asked.outputs
    found = []
    for source, result in zip(asked.sources, answer.results, strict=True):
        text = result.text if result.HasField("text") else source
        found.append(Parsed(text, result, {name: next(part) for name, part in parts.items()}, has_tree))
    return found


def _parts(name: str, answer: pb.ParseResponse) -> Iterator[memoryview]:
    """A column, taken apart by source."""
    table, field, size, count = _COLUMNS[name]
    owner: Any = getattr(answer, table) if table else answer
    column = memoryview(getattr(owner, field))
    counts = [getattr(result, count) * size for result in answer.results]
    if sum(counts) != len(column):
        raise malformed(f"{name}: {len(column)} bytes, the results say {sum(counts)}")
    return _slices(column, counts)


def _slices(column: memoryview, sizes: list[int]) -> Iterator[memoryview]:
    at = 0
    for size in sizes:
        yield column[at : at + size]
        at += size


__all__ = ["Diagnostic", "OutlineItem", "Parsed", "Token", "Tree"]
