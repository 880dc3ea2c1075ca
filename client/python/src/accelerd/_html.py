"""What notebooks show: compact tables, escaped, with a bounded number of rows, in the colours of the page."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

MAX_ROWS = 20
_MAX_COLUMNS = 12
_MAX_CHARACTERS = 120
_LINE = "border-bottom:1px solid rgba(128,128,128,.35)"
_CELL = f"padding:.15em .6em;text-align:left;vertical-align:top;{_LINE}"
# The colours of the page, which may be dark.
_TABLE = "border-collapse:collapse;color:inherit;background:transparent"


def escaped(value: Any) -> str:
    """Return a value as escaped text, without the end of a long one."""
    if isinstance(value, (float, np.floating)):
        text = f"{value:.6g}"
    elif isinstance(value, (datetime, timedelta)) or (isinstance(value, str) and value):
        text = str(value)
    elif isinstance(value, tuple) and all(isinstance(one, str) for one in value):
        text = ", ".join(value)
    elif isinstance(value, np.ndarray):
        first = ", ".join(f"{one:.4g}" for one in value.reshape(-1)[:4].tolist())
        text = f"[{first}{', …' if value.size > 4 else ''}]"
    else:
        text = "" if value is None else repr(value)
    if len(text) > _MAX_CHARACTERS:
        text = f"{text[:_MAX_CHARACTERS]}…"
    # A lone surrogate has no encoding.
    return html.escape(text.encode(errors="backslashreplace").decode())


def table(caption: str, names: Sequence[str], rows: Iterable[Sequence[Any]], count: int, limit: int = MAX_ROWS) -> str:
    """Return a table of the first rows; the caption says how many of `count` these are, if not all."""
    columns = names[:_MAX_COLUMNS]
    head = "".join(f'<th style="{_CELL}">{escaped(name)}</th>' for name in columns)
    more = "<td>…</td>" if len(names) > _MAX_COLUMNS else ""
    lines = []
    for row in islice(rows, limit):
        cells = "".join(f'<td style="{_CELL}">{escaped(value)}</td>' for value in row[:_MAX_COLUMNS])
        lines.append(f"<tr>{cells}{more}</tr>")
    shown = f", of which {len(lines)} are shown" if len(lines) < count else ""
    title = f'<caption style="text-align:left;color:inherit">{html.escape(caption)}{shown}</caption>'
    return f'<table style="{_TABLE}">{title}<thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>'


def fields(value: Any) -> str:
    """Return a table of the fields of a dataclass."""
    rows = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    return table(type(value).__name__, ("field", "value"), rows, len(rows), len(rows))


def text(value: str) -> str:
    """Return the first lines of a text."""
    lines = value.splitlines()
    more = "" if len(lines) <= MAX_ROWS else f"\n… ({len(lines):,} lines)"
    shown = "\n".join(f"{line[:200]}…" if len(line) > 200 else line for line in lines[:MAX_ROWS])
    body = html.escape((shown + more).encode(errors="backslashreplace").decode())
    return f'<pre style="color:inherit;background:transparent;margin:0">{body}</pre>'


def heading(value: str) -> str:
    """Return a line of text."""
    return f'<div style="color:inherit">{html.escape(value)}</div>'


class Shown:
    """A dataclass that a notebook shows as a table of its fields."""

    def _repr_html_(self) -> str:
        return fields(self)


class ResultList(list[T]):
    """A list of dataclasses that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        if not self:
            return table("0 results", (), (), 0)
        first: Any = self[0]
        names = [field.name for field in dataclasses.fields(first)]
        rows = ([getattr(one, name) for name in names] for one in self)
        return table(f"{len(self):,} {type(first).__name__}", names, rows, len(self))
