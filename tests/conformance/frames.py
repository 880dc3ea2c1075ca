"""The binary protocol of `kernels/parser/examples/columns.rs`: sources in, columns out."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

_NAMES = "kinds fields parents starts ends aux name_starts name_ends value_tags value_starts value_ends extra"
COLUMNS = _NAMES.split()
PANIC = 99
CLASSES = {
    1: "SyntaxError",
    2: "IndentationError",
    3: "TabError",
    4: "ValueError",
    5: "UnicodeDecodeError",
    6: "UnicodeEncodeError",
    PANIC: "panic",
}
_NO_POSITION = (None, None, None, None)
# Encodes `None` in a position.
_NONE = -2


class ParseError(NamedTuple):
    """The parser's error for an invalid source."""

    kind: str
    start: int
    end: int
    message: str
    # `lineno`, `offset`, `end_lineno` and `end_offset`, as `SyntaxError` has them.
    position: tuple[int | None, ...] = _NO_POSITION


class Answer(NamedTuple):
    """The parser's result for one source: columns or an error."""

    text: bytes
    columns: dict[str, bytes] | None
    error: ParseError | None


def write_blocks(blocks: Iterable[bytes]) -> bytes:
    """Concatenated blocks, each after its length."""
    return b"".join(part for block in blocks for part in (struct.pack("<I", len(block)), block))


def write_answer(answer: Answer) -> bytes:
    """Encodes an answer."""
    if answer.columns is not None:
        return bytes(4) + write_blocks([answer.text, *(answer.columns[name] for name in COLUMNS)])
    kind, start, end, message, position = answer.error
    number = next(number for number, name in CLASSES.items() if name == kind)
    places = struct.pack("<II", start, end)
    numbers = struct.pack("<4i", *(_NONE if one is None else one for one in position))
    return struct.pack("<I", number) + write_blocks([answer.text]) + places + write_blocks([message.encode()]) + numbers


def read_blocks(data: bytes) -> Iterator[bytes]:
    """Decodes the blocks of `write_blocks`."""
    reader = _Reader(data)
    while reader.at < len(data):
        yield reader.block()


def read_answers(data: bytes) -> Iterator[Answer]:
    """Decodes the answers of a batch."""
    reader = _Reader(data)
    while reader.at < len(data):
        number, text = reader.number(), reader.block()
        if number:
            place = reader.number(), reader.number()
            message = reader.block().decode(errors="replace")
            yield Answer(text, None, ParseError(CLASSES[number], *place, message, reader.position()))
        else:
            yield Answer(text, {name: reader.block() for name in COLUMNS}, None)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data: Any = data
        self.at = 0

    def number(self) -> int:
        (number,) = struct.unpack_from("<I", self.data, self.at)
        self.at += 4
        return number

    def position(self) -> tuple[int | None, ...]:
        numbers = struct.unpack_from("<4i", self.data, self.at)
        self.at += 16
        return tuple(None if one == _NONE else one for one in numbers)

    def block(self) -> bytes:
        length = self.number()
        block = self.data[self.at : self.at + length]
        if len(block) != length:
            raise ValueError(f"expected a block of {length} bytes, got {len(block)}")
        self.at += length
        return block
