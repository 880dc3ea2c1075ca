"""The columns of one source's tree.

`kernels/parser/src/columns.rs` defines them. This module and `_build` need the standard library alone, so that any
Python can rebuild a tree.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_INT, _FLOAT, _IMAGINARY, _STR, _UNICODE_STR, _BYTES = range(1, 7)


@dataclass(frozen=True)
class Tree:
    """The columns of one source's tree; `numpy.asarray` of a column is a view of it."""

    text: bytes
    """The source as UTF-8."""
    extra: bytes
    """Names and values that the text has in another form; offsets past the end of the text point here."""
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
        """A tree of columns as they come over the wire: bytes, and little-endian numbers of 32 bits."""
        small = ("kinds", "fields", "value_tags")
        views = {
            name: memoryview(data) if name in small else _numbers(data)
            for name, data in columns.items()
            if name != "extra"
        }
        return cls(text=text, extra=bytes(columns.get("extra", b"")), **views)

    def line_starts(self) -> list[int]:
        """Byte of the text where each line starts."""
        # CPython does not count a byte order mark.
        first = 3 if self.text.startswith(b"\xef\xbb\xbf") else 0
        return [first, *(newline.end() for newline in re.finditer(rb"\r\n?|\n", self.text))]

    def names(self) -> list[str]:
        """Every name once."""
        text = self.text + self.extra
        spans = zip(self.name_starts.tolist(), self.name_ends.tolist(), strict=True)
        if text.isascii():
            # One decode and slices of it are faster than a decode for each name.
            decoded = text.decode("ascii")
            return [sys.intern(decoded[start:end]) for start, end in spans]
        return [sys.intern(text[start:end].decode()) for start, end in spans]

    def values(self) -> list[Any]:
        """The value of each constant other than None, False, True and `...`."""
        text = self.text + self.extra
        rows = zip(self.value_tags.tolist(), self.value_starts.tolist(), self.value_ends.tolist(), strict=True)
        if not text.isascii():
            return [_value(tag, text[start:end]) for tag, start, end in rows]
        decoded = text.decode("ascii")
        return [decoded[start:end] if tag == _STR else _value(tag, text[start:end]) for tag, start, end in rows]

    def value_prefixes(self) -> list[str | None]:
        """The `kind` of the constant of each value: "u", or None."""
        return ["u" if tag == _UNICODE_STR else None for tag in self.value_tags.tolist()]

    def to_ast(self, mode: str = "exec") -> ast.mod:
        """The tree that `ast.parse` builds of the source in this mode, in the running Python's classes and fields.

        The garbage collector is paused meanwhile: it would traverse all new nodes again and again, and free none.
        """
        from ._build import build

        return build(self, mode)


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
