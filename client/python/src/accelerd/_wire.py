"""Hand-written encoding of large fields, which the generated code would copy several times.

Concatenated serialized messages merge. So the generated code serializes a message without its large fields, and those
are appended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

Chunk: TypeAlias = "bytes | memoryview"

_LENGTH_DELIMITED = 2


def varint(number: int) -> bytes:
    """Encode a varint."""
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def size(chunks: Sequence[Chunk]) -> int:
    """Return the total size of chunks in bytes."""
    return sum(len(chunk) for chunk in chunks)


def field(number: int, chunks: Sequence[Chunk]) -> list[Chunk]:
    """Encode a length-delimited field: bytes, a string or a message."""
    return [varint(number << 3 | _LENGTH_DELIMITED) + varint(size(chunks)), *chunks]
