"""A minimal encoder of WebAssembly modules with one exported function."""

from __future__ import annotations

import struct
from collections.abc import Sequence

TYPES = {"i32": b"\x7f", "i64": b"\x7e", "f32": b"\x7d", "f64": b"\x7c"}

LOCAL_GET, LOCAL_SET, GLOBAL_GET, GLOBAL_SET = b"\x20", b"\x21", b"\x23", b"\x24"
F64_CONST, I64_CONST, I32_CONST = b"\x44", b"\x42", b"\x41"
F64_ADD, F64_MUL, F64_GT, F64_LOAD, F64_STORE = b"\xa0", b"\xa2", b"\x64", b"\x2b\x03\x00", b"\x39\x03\x00"
I64_DIV_S, UNREACHABLE, END = b"\x7f", b"\x00", b"\x0b"
IF_VOID, LOOP_VOID, BRANCH = b"\x04\x40", b"\x03\x40", b"\x0c"


def leb(number: int) -> bytes:
    """Encode an unsigned number."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def f64(number: float) -> bytes:
    """Push a constant."""
    return F64_CONST + struct.pack("<d", number)


def get(index: int) -> bytes:
    """Push a parameter."""
    return LOCAL_GET + leb(index)


def module(name: str, params: Sequence[str], results: Sequence[str], code: bytes, has_memory: bool = False) -> bytes:
    """Return a module that exports a function, and a global number 0 of type f64 that is 0 to begin with."""

    def section(number: int, *entries: bytes) -> bytes:
        content = leb(len(entries)) + b"".join(entries)
        return bytes([number]) + leb(len(content)) + content

    signature = b"\x60" + b"".join(
        leb(len(types)) + b"".join(TYPES[one] for one in types) for types in (params, results)
    )
    exports = [leb(len(name)) + name.encode() + b"\x00\x00"]
    if has_memory:
        exports.append(leb(6) + b"memory" + b"\x02\x00")
    body = b"\x00" + code + END
    return b"".join(
        [
            b"\0asm\x01\0\0\0",
            section(1, signature),
            section(3, b"\x00"),
            section(5, b"\x00\x01") if has_memory else b"",
            section(6, TYPES["f64"] + b"\x01" + f64(0.0) + END),
            section(7, *exports),
            section(10, leb(len(body)) + body),
        ]
    )
