"""Every kind of node that CPython's trees have, and values that are hard to write."""
from __future__ import annotations

import os.path as p, sys
from . import *
from ..pkg.mod import a as b, c

type Pair[T: int, *Ts, **P] = tuple[T, *Ts]


class Empty[T = int]: ...


@decorated(1, *args, key=2, **more)
class Named(Base, metaclass=Meta):
    'doc'
    x: int = 0xFF
    (y): "str"


def every(a, b=1, /, c: int = 2, *rest: int, d, e=3, f, **kwargs) -> None:
    global g, h
    for i, *j in (1, 2), [3]:
        continue
    else:
        pass
    while not a or b and c:
        break
    if a < b <= c is not d not in e:
        del a.b, a[1:2:3, ...], (x)
    elif (n := 10) > 5:
        raise ValueError(a) from b
    else:
        raise
    with open(a) as f, (b):
        assert a, "why"
    try:
        return a if b else lambda *, k=1, m: k
    except (A, B) as error:
        return
    except:
        pass
    else:
        x += -1 @ ~2 // +3 ** 4 << 5 >> 6 & 7 | 8 ^ 9 % 10
    finally:
        x = y = {**a, 1: 2, 'k': None}, {1, 2}, {}


async def waits():
    nonlocal_ = [x async for x in y if a if b], {k: v for k, v in z}, {s for s in t}, (g for g in h)
    async with a as b: await c
    async for i in j: yield
    yield i; yield from j
    try: ...
    except* E: ...

    def inner():
        nonlocal nonlocal_


match subject, 1:
    case [1, -2.5 + 3j, *rest] | (None | True) if guard:
        pass
    case {"k": v, **others}:
        pass
    case Point(x, y=0, z=_) as whole:
        pass
    case {} | a.b | [*_] | "s" "t":
        pass

f"a{x!r:>{width}}b{{}}{y=}" f'{z:%Y}' "tail"
("it's", 'both \' and "', u"kind", b"\x00'\xff", "\ud800é\u00ad\U0001d4b3\U000e0001", "\t\n\r\\\x7f", r"\d", """a
b""")
(1_000, 0o17, 0b1, 123456789012345678901234567890123456789012345, 1e16, 1.5e-7, .5, 1e999, 2j, 1.5e300J, 0xffffffffffffffffffffffffffffffffffffffff)
ä, ﬁ = é.ß[ü], not_ascii  # é
