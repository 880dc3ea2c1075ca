"""Mutates tokens, characters and indentation of snippets, deterministically by seed."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

MAX_SNIPPET = 1200
_BLOCK = re.compile(rb"^( *)(?=(?:async |def |class |if |for |while |with |try:|match |@|[A-Za-z_]))", re.M)
_TOKEN = re.compile(
    rb"""[A-Za-z_]\w*|\d[\w.]*|\n[ \t]*|[ \t\f]+|\#[^\n]*|\'\'\'|\"\"\"|\*\*=|//=|<<=|>>=|\.\.\.|"""
    rb"""[-+*/%@&|^=<>!:]=|->|\*\*|//|<<|>>|\\\n|[\s\S]"""
)
_WORDS = r"""
False None True and as assert async await break class continue def del elif else except finally for from global if
import in is lambda nonlocal not or pass raise return try while with yield match case type _ print exec x y f
0 1 0x1F 1_000 1.5e3 2j 0777 1__0 '' 'a' "b" b'c' f'{x}' f'{x!r:>{y}}' rb'\d' u'u' t'{x}' f" '
( ) [ ] { } , : . ; @ = -> += -= *= /= //= %= @= &= |= ^= >>= <<= **= := == != < <= > >= << >> + - * / // % ** & | ^ ~
... ! $ ? \ # ` <> *a **k *, /, a=1 (yield) (x:=1)
"""
# An accented letter, one that NFKC changes, and characters that are no letters.
_SPECIAL = ["\xe9", "\u210c", "\u20ac", "\xa0", "\ufeff", "\x0c", "\x00", "\r", "\n", "\n    ", "\n\t", " ", "\\\n", "\r\n"]
_VOCABULARY = [word.encode() for word in [*_WORDS.split(), "'''", '"""', *_SPECIAL]]
_INDENTS = [b"", b" ", b"  ", b"    ", b"        ", b"\t", b" \t", b"\t ", b"\x0c", b"   \x0c "]


def snippets(source: bytes) -> list[bytes]:
    """A short source itself, or the dedented blocks of a longer one that are short enough."""
    if len(source) <= MAX_SNIPPET:
        return [source]
    found, end = [], 0
    for start in _BLOCK.finditer(source):
        indent = len(start[1])
        if start.start() < end or indent > 8:
            continue
        # A block ends at a line that is indented no deeper than its first.
        stop = re.compile(rb"^ {0,%d}[^ \n#)\]}]" % indent, re.M).search(source, start.end() + 1)
        end = stop.start() if stop else len(source)
        if 20 <= end - start.start() <= MAX_SNIPPET:
            found.append(re.sub(rb"^ {%d}" % indent, b"", source[start.start() : end], flags=re.M))
        else:
            # Too long: its inner blocks may fit.
            end = start.end()
    return found


def tokens_of(source: bytes) -> list[bytes]:
    """Approximate tokens of a source, which concatenate to it."""
    return _TOKEN.findall(source)


def mutated(groups: list[list[bytes]], count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Generates `count` snippets, evenly from all groups, each with one to three mutations."""
    for number in range(count):
        chance = random.Random(seed * 1_000_003 + number)
        tokens = tokens_of(chance.choice(chance.choice(groups)))
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            if tokens:
                chance.choice(_CHANGES)(tokens, chance)
        yield f"mutation {seed}/{number}", b"".join(tokens)


def _delete(tokens: list[bytes], chance: random.Random) -> None:
    del tokens[chance.randrange(len(tokens))]


def _delete_run(tokens: list[bytes], chance: random.Random) -> None:
    at = chance.randrange(len(tokens))
    del tokens[at : at + chance.randint(2, 8)]


def _duplicate(tokens: list[bytes], chance: random.Random) -> None:
    at = chance.randrange(len(tokens))
    tokens.insert(at, tokens[at])


def _swap(tokens: list[bytes], chance: random.Random) -> None:
    one = chance.randrange(len(tokens))
    other = min(one + chance.randint(1, 4), len(tokens) - 1)
    tokens[one], tokens[other] = tokens[other], tokens[one]


def _replace(tokens: list[bytes], chance: random.Random) -> None:
    tokens[chance.randrange(len(tokens))] = chance.choice(_VOCABULARY)


def _borrow(tokens: list[bytes], chance: random.Random) -> None:
    tokens[chance.randrange(len(tokens))] = chance.choice(tokens)


def _insert(tokens: list[bytes], chance: random.Random) -> None:
    tokens.insert(chance.randrange(len(tokens) + 1), chance.choice(_VOCABULARY))


def _character(tokens: list[bytes], chance: random.Random) -> None:
    at = chance.randrange(len(tokens))
    token, place = tokens[at], chance.randrange(len(tokens[at]) + 1)
    new = bytes([chance.choice(b"\"'()[]{}:,.\\#\n \t=!*0aAeEjJuUbBrRfFtTxX_;@<>-+%&|^~$?`\r\x00\x0c\x80")])
    tokens[at] = token[:place] + chance.choice((b"", new)) + token[place + chance.randint(0, 1) :]


def _indent(tokens: list[bytes], chance: random.Random) -> None:
    lines = [at for at, token in enumerate(tokens) if token.startswith(b"\n")]
    if lines:
        at = chance.choice(lines)
        indent = tokens[at][1:] + chance.choice(_INDENTS) if chance.random() < 0.3 else chance.choice(_INDENTS)
        tokens[at] = b"\n" + indent


_CHANGES = [_delete, _delete_run, _duplicate, _swap, _replace, _replace, _borrow, _insert, _insert, _character, _indent]
