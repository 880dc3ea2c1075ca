"""Writes names.txt and tables.bin from the running CPython's codecs; --check compares them instead.

    python3.13 kernels/parser/codecs/generate.py [--check]

Any CPython from 3.10 on will do. `src/text/codecs/tables.rs` reads what this writes.
"""

from __future__ import annotations

import codecs
import encodings
import encodings.aliases
import pkgutil
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent

# An unmapped entry.
NONE = 0xFFFE
# The first of 2,048 entries that are indices into a list of characters or pairs of characters.
LISTED = 0xD800

# Codecs that decode by a table of pairs of bytes.
PAIRS = (
    "big5 big5hkscs cp932 cp949 cp950 euc_jis_2004 euc_jisx0213 euc_jp euc_kr gb18030 gb2312 gbk johab shift_jis "
    "shift_jis_2004 shift_jisx0213"
).split()
# Character sets of 94 x 94 that ISO 2022 switches between: the escape sequence, and a codec that knows it.
SETS = {
    "jisx0208": (b"\x1b$B", "iso2022_jp"),
    "jisx0212": (b"\x1b$(D", "iso2022_jp_1"),
    "gb2312_set": (b"\x1b$A", "iso2022_jp_2"),
    "ksx1001": (b"\x1b$(C", "iso2022_jp_2"),
    "jisx0213_2000_1": (b"\x1b$(O", "iso2022_jp_3"),
    "jisx0213_2004_1": (b"\x1b$(Q", "iso2022_jp_2004"),
    "jisx0213_2": (b"\x1b$(P", "iso2022_jp_2004"),
}
# Three bytes, the first of which is 0x8F.
TRIPLES = ("euc_jp", "euc_jis_2004", "euc_jisx0213")
# Codecs implemented in Rust.
OTHERS = (
    "ascii latin_1 charmap utf_8 utf_8_sig utf_7 utf_16 utf_16_le utf_16_be utf_32 utf_32_le utf_32_be idna punycode "
    "raw_unicode_escape unicode_escape undefined hz iso2022_jp iso2022_jp_1 iso2022_jp_2 iso2022_jp_2004 iso2022_jp_3 "
    "iso2022_jp_ext iso2022_kr"
).split()


# Newer aliases: the codec and the first minor version of Python 3.
LATE = {
    "windows_31j": ("cp932", 13),
    "874": ("cp874", 14),
    "ms874": ("cp874", 14),
    "windows_874": ("cp874", 14),
    "cseuckr": ("euc_kr", 14),
    "iso_8859_8_e": ("iso8859_8", 14),
    "iso_8859_8_i": ("iso8859_8", 14),
}
# Fixed in 3.14; the tables have the older mappings.
BEFORE_3_14 = {("palmos", 0x9B): "\x9b"}


def modules() -> Iterator[str]:
    """The codecs of this platform, by the names of their modules."""
    for module in pkgutil.iter_modules(encodings.__path__):
        try:
            codecs.lookup(module.name)
        except LookupError:
            continue
        yield module.name


def names() -> str:
    """One line per codec: module, kind, and aliases, newer ones with their versions."""
    known = dict(encodings.aliases.aliases)
    for alias, (target, since) in LATE.items():
        assert known.pop(alias, target) == target
        known[f"{alias}>={since}"] = target
    lines = []
    for module in sorted(modules()):
        aliases = sorted(alias for alias, target in known.items() if target == module)
        text = codecs.lookup(module)._is_text_encoding
        kind = "binary" if not text else module if module in OTHERS else "pairs" if module in PAIRS else "charmap"
        lines.append(" ".join([module, kind, *aliases]))
    return "\n".join(lines) + "\n"


def decoded(data: bytes, codec: str) -> str | None:
    try:
        return codecs.decode(data, codec)
    except UnicodeError:
        return None


class Entries:
    """A table, and the list of characters that do not fit into an entry."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.listed: list[str] = []

    def add(self, text: str | None) -> None:
        """Appends an entry."""
        if text is None:
            self.numbers.append(NONE)
        elif len(text) == 1 and ord(text) < 0x10000:
            assert not LISTED <= ord(text) < LISTED + 2048 and ord(text) != NONE
            self.numbers.append(ord(text))
        else:
            assert 1 <= len(text) <= 2, text
            if text not in self.listed:
                self.listed.append(text)
            self.numbers.append(LISTED + self.listed.index(text))

    def packed(self) -> bytes:
        """The compressed table: deltas of the entries, low bytes first, then the list."""
        assert len(self.listed) <= 2048
        before, deltas = 0, []
        for number in self.numbers:
            deltas.append((number - before) & 0xFFFF)
            before = number
        planes = bytes(one & 255 for one in deltas) + bytes(one >> 8 for one in deltas)
        listed = b"".join(struct.pack("<II", ord(one[0]), ord(one[1:] or "\0")) for one in self.listed)
        return zlib.compress(struct.pack("<I", len(self.numbers)) + planes + listed, 9)


def charmaps() -> bytes:
    """256 entries per codec, in the order of their names."""
    entries = Entries()
    for line in names().splitlines():
        module, kind, *_ = line.split()
        for byte in range(256) if kind == "charmap" else ():
            entries.add(BEFORE_3_14.get((module, byte), decoded(bytes([byte]), module)))
    return entries.packed()


def pairs(codec: str) -> bytes:
    """256 entries of single bytes, then 256 for each first byte from 0x80 on."""
    entries = Entries()
    singles = [decoded(bytes([byte]), codec) for byte in range(256)]
    for single in singles:
        entries.add(single)
    for first in range(0x80, 256):
        for second in range(256):
            entries.add(None if singles[first] is not None else decoded(bytes([first, second]), codec))
    return entries.packed()


def triples(codec: str) -> bytes:
    """The sequences after 0x8F: 94 x 94 from 0xA1A1 on."""
    return grid(lambda one, two: decoded(bytes([0x8F, one | 0x80, two | 0x80]), codec))


def charset(escape: bytes, codec: str) -> bytes:
    """94 x 94 characters of a set of ISO 2022."""
    return grid(lambda one, two: decoded(escape + bytes([one, two]) + b"\x1b(B", codec))


def grid(character) -> bytes:  # type: ignore[no-untyped-def]
    entries = Entries()
    for one in range(0x21, 0x7F):
        for two in range(0x21, 0x7F):
            entries.add(character(one, two))
    return entries.packed()


def ranges() -> bytes:
    """The four-byte codes of gb18030 as runs: first code, its character, length."""
    runs: list[list[int]] = []
    for number in range(50400):
        data = bytes([0x81 + number // 12600, 0x30 + number // 1260 % 10, 0x81 + number // 10 % 126, 0x30 + number % 10])
        text = decoded(data, "gb18030")
        if text is None:
            continue
        if runs and number == runs[-1][0] + runs[-1][2] and ord(text) == runs[-1][1] + runs[-1][2]:
            runs[-1][2] += 1
        else:
            runs.append([number, ord(text), 1])
    return zlib.compress(b"".join(struct.pack("<III", *run) for run in runs), 9)


def tables() -> dict[str, bytes]:
    """All tables by name."""
    return {
        "charmap": charmaps(),
        **{codec: pairs(codec) for codec in PAIRS},
        **{f"{codec}_triples": triples(codec) for codec in TRIPLES},
        **{name: charset(*of) for name, of in SETS.items()},
        "gb18030_ranges": ranges(),
    }


def blob(parts: dict[str, bytes]) -> bytes:
    """The tables one after another, each after its name and both lengths."""
    return b"".join(
        bytes([len(name)]) + name.encode() + struct.pack("<II", len(data), len(zlib.decompress(data))) + data
        for name, data in parts.items()
    )


def main() -> None:
    """Writes or checks."""
    files = {"names.txt": names().encode(), "tables.bin": blob(tables())}
    for file, data in files.items():
        if "--check" not in sys.argv:
            (HERE / file).write_bytes(data)
        elif contents((HERE / file).read_bytes()) != contents(data):
            sys.exit(f"{file} is not what this Python's codecs are: run {Path(__file__).name}")


def contents(data: bytes) -> object:
    """The decompressed contents of a file."""
    if not data.startswith(b"\x07charmap"):
        return data
    parts, at = {}, 0
    while at < len(data):
        name = data[at + 1 : at + 1 + data[at]]
        at += 1 + data[at]
        length = int.from_bytes(data[at : at + 4], "little")
        parts[name] = zlib.decompress(data[at + 8 : at + 8 + length])
        at += 8 + length
    return parts


if __name__ == "__main__":
    main()
