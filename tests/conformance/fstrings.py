"""Generates f- and t-strings from a grammar: escapes in format specifications, raw prefixes, nested fields, `=`."""

from __future__ import annotations

import random
from collections.abc import Iterator

_ESCAPES = [r"\N{BULLET}", r"\N{DIGIT ONE}", r"\n", r"\x41", r"\u2022", r"\101", r"\\", r"\1", r"\'", r"\{", r"\N", r"\d"]
_RAW_ESCAPES = [r"\1", r"\N{w}", r"\N", r"\n", r"\\", r"\{", r"\N{x}"]
_TEXT = ["", "a", "b ", "{{", "}}", "é", "•", "'", '"', " ", "#", ":", "!", "=", "%", "\t"]
_EXPRESSIONS = ["x", "1", "a.b", "f(1)", "'s'", "x, y", "*a, b", "(y)", "x if y else z", "[1]", "{1: 2}['k']", "x!=y", "x == y", "-x",
                "lambda_", "x  ", " x", "(lambda: 1)", "{x for x in y}", "yield_", "not x", "a\n", "(x:=1)", "x #c\n", '"s"']
_PREFIXES = ["f", "f", "f", "F", "rf", "fr", "Rf", "fR", "RF"]


def fstrings(count: int, seed: int, newest: bool = False) -> Iterator[tuple[str, bytes]]:
    """Generates `count` sources; with `newest`, t-strings too."""
    for number in range(count):
        chance = random.Random(seed * 1_000_003 + number)
        prefixes = [*_PREFIXES, "t", "rt"] if newest else _PREFIXES
        strings = [_string(chance, chance.choice(prefixes), 0) for _ in range(chance.choice((1, 1, 1, 2, 3)))]
        if chance.random() < 0.2:
            strings.insert(chance.randint(0, len(strings)), chance.choice(("'p'", 'u"é"', "r'\\d'", "'''\n'''", "'\\x41'")))
        source = chance.choice(("{}", "x = {}\n", "({}\n )", "f({})")).format(chance.choice((" ", "", "\\\n")).join(strings))
        yield f"f-string {seed}/{number}", source.encode()


def _string(chance: random.Random, prefix: str, depth: int) -> str:
    quote = chance.choice(("'", '"', "'''", '"""'))
    return prefix + quote + _pieces(chance, "r" in prefix.lower(), depth, False) + quote


def _pieces(chance: random.Random, raw: bool, depth: int, in_spec: bool) -> str:
    parts = []
    for _ in range(chance.randint(0, 3)):
        kind = chance.random()
        if kind < 0.45 and depth < 3:
            parts.append(_field(chance, raw, depth))
        elif kind < 0.7:
            parts.append(chance.choice(_RAW_ESCAPES if raw else _ESCAPES))
        else:
            text = chance.choice(_TEXT)
            parts.append(chance.choice((">", "d", " ", "")) if in_spec and text in ("{{", "}}") else text)
    return "".join(parts)


def _field(chance: random.Random, raw: bool, depth: int) -> str:
    # No specifications or comments inside specifications: CPython's source text of a field after one is irregular.
    expression = chance.choice([one for one in _EXPRESSIONS if depth == 0 or "#" not in one])
    if chance.random() < 0.1:
        expression = _string(chance, chance.choice(("", "f", "rf", "b")), depth + 1)
    equal = chance.choice(("", "", "", "=", " = "))
    conversion = chance.choice(("", "", "!r", "!s", "!a"))
    spec = ":" + _pieces(chance, raw, depth + 1, True) if depth == 0 and chance.random() < 0.6 else ""
    # Likewise for fields directly after a character name.
    spec = spec.replace("}{", "} {") if r"\N{" in spec else spec
    if depth == 0 and "{" in spec:
        # CPython 3.13 is irregular for nested fields in the specification of a field with `=`, too.
        equal = ""
    return "{" + expression + equal + conversion + spec + "}"
