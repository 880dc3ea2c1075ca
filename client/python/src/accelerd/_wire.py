"""Protocol buffers encoded by hand where the generated code would copy bulk data several times.

Serialized messages may be concatenated: fields of the second are added to the first. So a message is serialized by the
generated code without its large fields, and those follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

Chunk: TypeAlias = "bytes | memoryview"

_LENGTH_DELIMITED = 2


def varint(number: int) -> bytes:
    """A number in base 128, least significant group first."""
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def size(chunks: Sequence[Chunk]) -> int:
    """Bytes of all chunks."""
    return sum(len(chunk) for chunk in chunks)


def field(number: int, chunks: Sequence[Chunk]) -> list[Chunk]:
    """A field that holds bytes, a text or a message."""
    return [varint(number << 3 | _LENGTH_DELIMITED) + varint(size(chunks)), *chunks]
