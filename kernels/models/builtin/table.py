"""The file format of a table model, little-endian, as the Rust crate reads it.

    offset  content
    0       magic, the eight bytes "ACCTABLE"
    8       u32 version, 1
    12      u32 rows
    16      u32 columns
    20      u32 count of offered dimensions, then each as u32, largest first
    ..      u32 bytes of the vocabulary, then its pieces in the order of their ids, each ended by a line feed
    ..      u32 bytes of the character map, then its entries, each a character, its replacement, a line feed
    ..      f32 scale of each row
    ..      i8 values, row after row; a row of the table is its scale times its values
    end-32  SHA-256 of everything before it
"""

import hashlib
import struct

import numpy as np

MAGIC = b"ACCTABLE"


def quantize(rows):
    """f32 [V, D] -> int8 [V, D] and one scale per row."""
    scales = np.maximum(np.abs(rows).max(axis=1), 1e-12).astype(np.float32) / np.float32(127)
    return np.clip(np.rint(rows / scales[:, None]), -127, 127).astype(np.int8), scales


def write(path, pieces, folded, offered, rows):
    """Writes a table; returns its size."""
    values, scales = quantize(rows)
    vocabulary = "".join(f"{piece}\n" for piece in pieces).encode()
    characters = "".join(f"{char}{plain}\n" for char, plain in folded.items()).encode()
    body = b"".join([
        MAGIC, struct.pack(f"<4I{len(offered)}I", 1, *rows.shape, len(offered), *offered),
        struct.pack("<I", len(vocabulary)), vocabulary, struct.pack("<I", len(characters)), characters,
        scales.astype("<f4").tobytes(), values.tobytes(),
    ])
    path.write_bytes(body + hashlib.sha256(body).digest())
    return len(body) + 32


def read(path):
    """The pieces, the character map, the offered dimensions and the f32 rows of a table."""
    data = path.read_bytes()
    body = data[:-32]
    if body[:8] != MAGIC or hashlib.sha256(body).digest() != data[-32:]:
        raise ValueError(f"{path} is no table, or is damaged")
    _version, rows, dim, offers = struct.unpack_from("<4I", body, 8)
    offered = struct.unpack_from(f"<{offers}I", body, 24)
    at = 24 + 4 * offers
    texts = []
    for _ in range(2):
        (size,) = struct.unpack_from("<I", body, at)
        texts.append(body[at + 4:at + 4 + size].decode().split("\n")[:-1])
        at += 4 + size
    scales = np.frombuffer(body, "<f4", rows, at)
    values = np.frombuffer(body, np.int8, rows * dim, at + 4 * rows).reshape(rows, dim)
    folded = {entry[0]: entry[1:] for entry in texts[1]}
    return texts[0], folded, offered, scales[:, None] * values.astype(np.float32)
