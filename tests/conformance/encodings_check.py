"""Compares the parser's codecs with those of the running Python: all names, and all sequences of one and two bytes.

    python3.13 tests/conformance/encodings_check.py COLUMNS [CODEC ...]

COLUMNS is the example `columns` of the parser's crate. Runs on any CPython from 3.10 on, without packages. Longer sequences,
for multibyte and stateful codecs, are random combinations of sequences that are special to them.
"""

from __future__ import annotations

import ast
import codecs
import encodings.aliases
import itertools
import pkgutil
import random
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from frames import read_answers, write_blocks

# The parts of longer sequences.
_PIECES = {
    "hz": [b"~", b"~{", b"~}", b"~~", b"~\n", b"VP", b"ND", b"a", b"\x80", b"{", b"}", b"!!"],
    "iso2022": [
        *(b"\x1b" + rest for rest in b"$B $@ $A $(D $(C $)C $(O $(Q $(P (J (I (B .A .F N (A $ &@ ( [0m )B .B".split()),
        b"\x1b&@\x1b$B", b"\x1b", b"\x0e", b"\x0f", b"\n", b"a", b"0!", b"$\"", b"!!", b"~~", b"\\", b"\xa4", b"\x7f", b"Oq", b"t!",
    ],
    "utf_7": [b"+", b"-", b"AOk", b"2D3c", b"AGE", b"a", b"/", b"+-", b"+AOk-", b"\xe9", b" ", b"2D0", b"3gA", b"\n", b"A"],
    "escape": [b"\\", b"\\x4", b"\\x41", b"\\u00e9", b"\\U0001F600", b"\\U00110000", b"\\ud800", b"\\N{BULLET}", b"\\N{", b"}",
               b"\\N{w}", b"\\N{}", b"\\Nx", b"\\101", b"\\8", b"\\n", b"\n", b"a", b"\xe9", b"\\u", b"\\U00", b"\\\n", b"'"],
    "punycode": [b"-", b"a", b"bcher", b"kva", b"9", b"Z", b"\xe9", b"xn--", b".", b"XN--", b"bcher-kva", b" ", b"k3h"],
    "utf_16": [b"\xff\xfe", b"\xfe\xff", b"a", b"\xd8", b"\xdc", b"\x01", b"ab", b"\xd8\x01", b"\x01\xdc", b"\x20\x20"],
    "gb18030": [b"\x81", b"0", b"\x81\x30\x81\x30", b"\x90\x30\x81\x30", b"\xe3\x32\x9a\x35", b"\xe3\x32\x9a\x36", b"\xfe", b"9",
                b"\x84\x31\xa4\x37", b"\x84\x31\xa4\x39", b"\x95\x32\x82\x36", b"a", b"\xff", b"\x80", b"\xa1", b"\xfd9\xfe9"],
    "euc": [b"\x8f", b"\xa1", b"\xb0\xa1", b"\x8e\xb1", b"\x8f\xb0\xa1", b"\xfe", b"a", b"\x8e", b"\xff", b"\x8f\xa2\xaf", b"\x8f\xaa\xa1"],
}
_DRAWN = 3000


def names() -> list[str]:
    """All names of `encodings`, modules and aliases, in several spellings, and some unknown names."""
    known = sorted({module.name for module in pkgutil.iter_modules(encodings.__path__)} | set(encodings.aliases.aliases))
    spelled = [name.replace("_", "-") for name in known] + [name.upper() for name in known]
    return known + spelled + ["__".join(name.split("_")) for name in known] + [f"-{name}." for name in known] + [
        name.replace("_", ".") for name in known
    ] + ["nothing", "utf-9", "latin.1", "x"]


def modules() -> list[str]:
    """All text codecs."""
    found = []
    for module in sorted(module.name for module in pkgutil.iter_modules(encodings.__path__)):
        try:
            if codecs.lookup(module)._is_text_encoding:
                found.append(module)
        except LookupError:
            continue
    return found


def sequences(module: str) -> Iterator[bytes]:
    """All sequences of one and two bytes, and some longer ones."""
    for one in range(1, 256):
        yield bytes([one])
    stateless = is_charmap(module)
    for one in range(0x80 if stateless else 1, 256):
        for two in range(0xF0 if stateless else 1, 256):
            yield bytes([one, two])
    chance = random.Random(module)
    pieces = next((pieces for key, pieces in _PIECES.items() if key in module), None)
    for _ in range(_DRAWN if pieces else 0):
        yield b"".join(chance.choices(pieces, k=chance.randint(1, 7)))
    # Syllables of eight bytes, complete and truncated.
    for letters in itertools.product(range(0xA0, 0xC0), range(0xBE, 0xD6), range(0xA0, 0xD5)) if module == "euc_kr" else ():
        yield bytes([0xA4, 0xD4, *(byte for letter in letters for byte in (0xA4, letter))])
    for length in range(3, 8) if module == "euc_kr" else ():
        yield b"\xa4\xd4\xa4\xa1\xa4\xbf\xa4"[:length]
    for one in range(0xA1, 0xFF) if "euc_j" in module else ():
        yield from (bytes([0x8F, one, two]) for two in range(0xA1, 0xFF))


def is_charmap(module: str) -> bool:
    """Whether every byte is a character."""
    return hasattr(__import__(f"encodings.{module}", fromlist=["x"]), "decoding_table") or module in ("ascii", "latin_1")


def expected(source: bytes) -> tuple[str, str]:
    """The text or the error of a source, by the rules of CPython's `decode_str`."""
    name = source[len(b"# coding: ") : source.index(b"\n")].decode()
    data = source.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    data += b"" if data.endswith(b"\n") else b"\n"
    try:
        text = data.decode(name)
        text.encode()
        return "text", lines(text)
    except (LookupError, ValueError) as error:
        message = str(error)
        if isinstance(error, LookupError) and "not a text" not in message:
            message = f"unknown encoding: {name}"
        return "error", message


def batches(columns: str, only: tuple[str, ...]) -> Iterator[tuple[bytes, tuple[str, str], tuple[str, str]]]:
    """Each source with CPython's and the parser's result."""
    heads = [f"# coding: {name}\n".encode() for name in names()]
    every = [module for module in modules() if not only or module in only]
    lists = ([b"# coding: %s\n# " % module.encode() + one + b"\n" for one in sequences(module)] for module in every)
    version = f"3.{sys.version_info.minor}"
    for sources in itertools.chain([heads], lists):
        run = subprocess.run([columns, version], input=write_blocks(sources), capture_output=True, check=True)
        for source, answer in zip(sources, read_answers(run.stdout), strict=True):
            yield source, expected(source), found(source, answer)


def found(source: bytes, answer) -> tuple[str, str]:  # type: ignore[no-untyped-def]
    """The parser's result for a source."""
    error = answer.error
    if error is not None and error.position[0] == 0:
        return "error", error.message
    return "text", lines((answer.text or source).decode("utf-8", "replace"))


def lines(text: str) -> str:
    """A text with normalised newlines and one at its end, which the parser does not add."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text if text.endswith("\n") else text + "\n"


def matches_cpython(source: bytes) -> bool:
    """Whether CPython decodes the source as `expected` says: a test of the test."""
    try:
        ast.parse(source)
    except SyntaxError as error:
        return error.lineno != 0 or expected(source) == ("error", error.msg)
    return expected(source)[0] == "text"


def special(source: bytes, theirs: tuple[str, str]) -> bool:
    """Whether a source depends on more than codecs: names of UTF-8, which is checked later; a null byte, which ends the source; and
    a final `\\r\\n`, to which CPython before 3.12 adds a newline."""
    if source.endswith(b"\r\n") and sys.version_info < (3, 12):
        return True
    name = source[len(b"# coding: ") : source.index(b"\n")].decode().lower().replace("_", "-")
    return name == "utf-8" or name.startswith("utf-8-") or "\0" in theirs[1]


def main(columns: str, *only: str) -> int:
    """Compares all sources and prints differences."""
    warnings.simplefilter("ignore")
    count, wrong, mismatched = 0, {}, 0
    for source, theirs, ours in batches(columns, only):
        if special(source, theirs):
            continue
        count += 1
        if theirs != ours:
            wrong.setdefault(source[: source.index(b"\n")], []).append((source, theirs, ours))
        if count % 97 == 0 and not matches_cpython(source):
            mismatched += 1
            print("the running Python differs:", source, theirs)
    for name, cases in wrong.items():
        print(name, len(cases), *min(cases, key=lambda case: len(case[0])), sep="\n    ")
    print(f"{count} sources, {sum(map(len, wrong.values()))} differ; {mismatched} not as the running Python decodes them")
    return int(bool(wrong) or mismatched > 0 or count < 10_000)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
