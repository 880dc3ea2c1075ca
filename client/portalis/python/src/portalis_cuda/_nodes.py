"""The nodes of a syntax tree as a sequence of dicts, which are made when they are read."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypedDict, overload

import numpy as np
from accelerd import NO_ROW, NODE_KINDS, Parsed
from numpy.typing import NDArray


class Node(TypedDict):
    """A node of a tree. Rows are indices in the sequence of nodes."""

    #: Index in `accelerd.NODE_KINDS`, and the name there: the class of CPython's `ast`.
    type: int
    kind: str
    #: Rows; None if there is none. Statements of the module have no parent.
    parent: int | None
    first_child: int | None
    next_sibling: int | None
    #: Index of its first token, and of the token after its last.
    token_range: tuple[int, int]
    #: Line from 1, and column from 0 in bytes, as in `ast`.
    location: tuple[int, int]
    #: 1.0: the parser does not guess.
    confidence: float


class Nodes(Sequence[Node]):
    """The nodes of a tree, children before their parents in a line."""

    def __init__(self, parsed: Parsed[Any]) -> None:
        self._parsed = parsed

    def __len__(self) -> int:
        return len(self._parsed.nodes.kinds)

    @overload
    def __getitem__(self, index: int) -> Node: ...
    @overload
    def __getitem__(self, index: slice) -> list[Node]: ...
    def __getitem__(self, index: int | slice) -> Node | list[Node]:
        rows = range(len(self))[index]
        return self._node(rows) if isinstance(rows, int) else [self._node(row) for row in rows]

    def __repr__(self) -> str:
        return f"Nodes({len(self)})"

    @property
    def depth(self) -> int:
        """Number of nodes from the root to the deepest one."""
        depths, up = np.ones(len(self) + 1, np.int64), self._parents
        depths[-1] = 0
        # Each round doubles the number of ancestors that are counted.
        while (up != len(self)).any():
            depths = depths + depths[up]
            up = up[up]
        return int(depths.max())

    def _node(self, row: int) -> Node:
        nodes = self._parsed.nodes
        first_child, next_sibling = self._links
        start, end = int(nodes.starts[row]), int(nodes.ends[row])
        starts, lines = self._parsed.token_columns.starts, self._parsed.line_starts
        line = int(np.searchsorted(lines, start, "right"))
        # CPython's columns do not count a byte order mark.
        mark = len(BOM_UTF8) if line == 1 and self._parsed.text.startswith(BOM_UTF8) else 0
        return Node(
            type=int(nodes.kinds[row]),
            kind=NODE_KINDS[nodes.kinds[row]],
            parent=self._row(self._parents[row]),
            first_child=self._row(first_child[row]),
            next_sibling=self._row(next_sibling[row]),
            token_range=(int(np.searchsorted(starts, start)), int(np.searchsorted(starts, end))),
            location=(line, start - int(lines[line - 1]) - mark),
            confidence=1.0,
        )

    def _row(self, row: np.int64) -> int | None:
        return None if row == len(self) else int(row)

    @cached_property
    def _parents(self) -> NDArray[np.int64]:
        """The parent of each row and, last, of the module. The row of the module is the number of nodes."""
        module = len(self)
        parents = self._parsed.nodes.parents
        return np.append(np.where(parents == NO_ROW, module, parents), module).astype(np.int64)

    @cached_property
    def _links(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First child and next sibling of each row and of the module."""
        module, parents = len(self), self._parents[:-1]
        first_child = np.full(module + 1, module)
        next_sibling = np.full(module + 1, module)
        # Siblings are in source order.
        rows = np.argsort(parents, kind="stable")
        are_siblings = parents[rows[1:]] == parents[rows[:-1]]
        next_sibling[rows[:-1][are_siblings]] = rows[1:][are_siblings]
        first_child[parents[rows[::-1]]] = rows[::-1]
        return first_child, next_sibling
