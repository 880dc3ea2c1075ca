"""Generates random token sequences, each from the vocabulary of one theme.

They are unlike real sources, and close to what a rule forbids.
"""

from __future__ import annotations

import random
from collections.abc import Iterator


def _split(pieces: str) -> list[str]:
    return pieces.split()


_NUMBER = [*"0123456789_.eEjJxXoObBaf+- ", *_split("1 0 0x 0b 0o 1e 1_0 .5 if or and in is")]
_STRING = _split(
    r"""
' ' " " ''' { } {{ }} {x} {x!r} {x:>{y}} {x=} ! !r !s : = , ( ) [ ] \ \\ \n \N{DIGIT} \x41 \x4 \u0041 \8 a b x
f rf F b rb u U t rt Rb # lambda yield * ** := -> \N { \{ }' {x!=y=} {x!=y:} {"#"=} {x:{y:{z=}}}
"""
)
_SPACES = ['"""', " ", " ", "\n", "\\\n", "\t", "\xe9", "\r\n"]
_PATTERN = _split(
    """
x y _ _.x _() x.y x._ 1 -1 1+2j -1-2j 1+2 1j "a" b"a" f"a" "a" None True False * ** | | ( ) [ ] { } , , : = as as _ C C( D. k=
**r *_ *r -x +1 1.5 "a""b" "a"b"b" not x (x) [x] if ... _(
"""
)
_PARAMETER = _split(
    """
a b c a=1 b=2 *a *b * ** **k **m / / , , , , : :x =1 = ( ) None *: *a:*x *a=1 **k=1 (a) lambda
"""
)
_TARGET = _split(
    """
x y z x.y x[1] x[1:2] (x) [x] (x,) x, *x *x, (*x) 1 "a" f() x+y -x not x lambda:x (yield) yield await x None True
__debug__ = = = += : :int in for del := ( ) [ ] , , if else (x:=1) {x} {**x} x<y f"a" ... ;
"""
)
_ARGUMENT = _split(
    """
a 1 x=1 y=2 *a **k , , , ( ) x:=1 a=b=c 1=2 (x)=1 f.x=1 None=1 True=2 for x in if async await yield *a,b **k, = lambda
lambda:
"""
)
_STATEMENT = _split(
    """
import from __future__ as a b a.b . .. ... * ( ) , , ; global nonlocal x pass return raise yield del assert with with( as x async
async def for while in : = type T [T] [T:int] [*T] [**P] [T=int] class class A def f (): except except* finally try:
match case print exec _ match( case( type( @ @d -> None else: elif x: if x: lambda await
"""
)
_LINES = r"""
if x:|else:|elif y:|for x in y:|while x:|try:|except:|except A:|except* A:|finally:|with x:|def f():|class A:|@d|pass|x
return|match x:|case 1:|case _:|async def g():|async with x:|x = (|)|"|'''|'''a|\|# c|#|x; y|if x: pass|else: pass
try: pass|class B: x; y;|x \|"a"|x = 1;|match x|case|case: int = 1|
"""
_LINE = _LINES.strip("\n").replace("\n", "|").split("|")
_INDENT = ["", "", "", " ", "  ", "    ", "    ", "        ", "\t", "\t\t", "    \t", " \t", "\t "]
_UNUSUAL_INDENT = ["\x0c", "  \x0c", "\x0c  ", "\\\n", "  \\\n  "]
_END = ["\n"] * 12 + ["\r\n", "\r", "", "\n\n", "\n#\n", "\x0c\n"]


def sources(count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Generates `count` sources."""
    for number in range(count):
        chance = random.Random(seed * 1_000_003 + number)
        theme = chance.choice(_THEMES)
        yield f"token_fuzz {seed}/{number}", theme(chance).encode()


def _pieces(chance: random.Random, pieces: list[str], most: int, between: str = "") -> str:
    return between.join(chance.choices(pieces, k=chance.randint(1, most)))


def _number(chance: random.Random) -> str:
    return _pieces(chance, _NUMBER, 7)


def _string(chance: random.Random) -> str:
    quote, start = (
        chance.choice(("'", '"', "'''", '"""')),
        chance.choice(("f", "f", "rf", "b", "", "u", "t", "fr", "Rb")),
    )
    inside = _pieces(chance, _STRING + _SPACES, 8)
    return chance.choice((start + quote + inside + quote, start + quote + inside + quote + inside, inside))


def _pattern(chance: random.Random) -> str:
    return f"match x:\n case {_pieces(chance, _PATTERN, 7, chance.choice(('', ' ')))}: pass"


def _parameter(chance: random.Random) -> str:
    inside = _pieces(chance, _PARAMETER, 8)
    return chance.choice((f"def f({inside}): pass", f"lambda {inside}: 1", f"(lambda {inside}: x)"))


def _target(chance: random.Random) -> str:
    line = _pieces(chance, _TARGET, 6, " ")
    return chance.choice(
        (line, line, f"for {line}: pass", f"with x as {line}: pass", f"[x for {line}]", f"del {line}", f"({line})")
    )


def _argument(chance: random.Random) -> str:
    return (
        chance.choice(("f(", "class A(", "@f(", "f[", "print("))
        + _pieces(chance, _ARGUMENT, 6, " ")
        + chance.choice((")", "]", "): x"))
    )


def _statement(chance: random.Random) -> str:
    return _pieces(chance, _STATEMENT, 7, " ")


def _lines(chance: random.Random) -> str:
    lines = range(chance.randint(2, 9))
    return "".join(chance.choice(_INDENT + _UNUSUAL_INDENT) + chance.choice(_LINE) + chance.choice(_END) for _ in lines)


def _depths(chance: random.Random) -> str:
    """Mostly valid blocks: each line is as deep as an earlier one, or one level deeper after a colon."""
    depths, lines, opened = [""], [], False
    for _ in range(chance.randint(3, 10)):
        if opened:
            depths.append(depths[-1] + chance.choice((" ", "  ", "    ", "\t")))
        elif chance.random() < 0.4:
            del depths[chance.randint(1, len(depths)) :]
        line = chance.choice(_LINE)
        opened = line.endswith(":")
        lines.append(depths[-1] + line + chance.choice(_END[:13]))
    return "".join(lines)


_THEMES = [_number, _string, _string, _pattern, _parameter, _target, _argument, _statement, _lines, _depths, _depths]
