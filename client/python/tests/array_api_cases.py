"""Calls of the functions of the Array API standard: arguments over element types and edge shapes, as numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

BOOL, FLOATS = ["?"], ["f4", "f8"]
SIGNED, UNSIGNED = ["i1", "i2", "i4", "i8"], ["u1", "u2", "u4", "u8"]
INTEGERS = SIGNED + UNSIGNED
NUMBERS = INTEGERS + FLOATS
ALL = BOOL + NUMBERS
#: Scalars, empty, odd, and beyond a row of a block.
SHAPES = [(), (0,), (1,), (7,), (33,), (0, 3), (2, 0, 3), (1, 129), (2, 3, 4)]
#: Pairs that broadcast.
PAIRS = [((7,), (7,)), ((3, 1), (4,)), ((), (33,)), ((0,), (1,)), ((2, 0), (1, 0)), ((2, 3, 4), (3, 1))]
#: Pairs of element types of one kind that are promoted.
MIXED = [("i1", "u1"), ("u4", "i8"), ("i2", "i4"), ("u1", "u8"), ("f4", "f8"), ("u2", "i1")]
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1.5, 1e-3, 88.0, -1e4, 3.25]


class Call(NamedTuple):
    """Arguments of a call; arrays are numpy's."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = {}  # noqa: RUF012


Cases = Callable[[], Iterator[Call]]


def array(dtype: str, shape: tuple[int, ...], seed: int = 0, low: int = -100, high: int = 100) -> Any:
    """Values of an element type: small integers, or numbers among which are NaN and infinities."""
    random = np.random.default_rng([seed, *shape])
    if dtype == "?":
        return random.integers(0, 2, shape).astype(bool)
    if np.dtype(dtype).kind == "f":
        values = random.standard_normal(shape) * 3
        return np.where(random.random(shape) < 0.3, random.choice(SPECIAL, shape), values).astype(dtype)
    return random.integers(max(low, 0) if dtype[0] == "u" else low, high, shape).astype(dtype)


def finite(dtype: str, shape: tuple[int, ...], seed: int = 0) -> Any:
    """Values without NaN and infinities."""
    random = np.random.default_rng([seed, *shape])
    return random.standard_normal(shape).astype(dtype) if np.dtype(dtype).kind == "f" else array(dtype, shape, seed)


def unary(dtypes: list[str]) -> Cases:
    def calls() -> Iterator[Call]:
        for dtype, shape in product(dtypes, SHAPES):
            yield Call((array(dtype, shape),))

    return calls


def binary(dtypes: list[str], low: int = -100, high: int = 100) -> Cases:
    """Pairs of equal types and of promoted ones, and a Python number on either side."""

    def calls() -> Iterator[Call]:
        for dtype, (left, right) in product(dtypes, PAIRS):
            yield Call((array(dtype, left), array(dtype, right, 1, low, high)))
        for a, b in MIXED:
            if a in dtypes and b in dtypes:
                yield Call((array(a, (3, 1)), array(b, (4,), 1, low, high)))
        for dtype in dtypes:
            scalar: Any = {"b": True, "f": 1.5}.get(np.dtype(dtype).kind, 3)
            yield Call((array(dtype, (5,), 2), scalar))
            if low < 0 or dtype in FLOATS:
                yield Call((scalar, array(dtype, (5,), 3)))

    return calls


def reduction(dtypes: list[str], is_total: bool = True, **more: Any) -> Cases:
    """Over all dimensions and some; the empty ones only if the reduction of nothing has a value."""

    def calls() -> Iterator[Call]:
        for dtype, shape in product(dtypes, SHAPES):
            axes: list[Any] = [None, *range(-len(shape), len(shape)), (0, -1) if len(shape) > 1 else (), ()]
            for axis, keepdims in product(axes, [False, True]):
                dims = range(len(shape)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
                if is_total or all(shape[dim] for dim in dims):
                    yield Call((finite(dtype, shape),), {"axis": axis, "keepdims": keepdims, **more})
        if dtypes[-1] in FLOATS and is_total:
            yield Call((array(dtypes[-1], (33,)),))

    return calls


def along(dtypes: list[str], values: Callable[..., Any] = array, **options: list[Any]) -> Cases:
    """Along each dimension, with every combination of the options."""

    def calls() -> Iterator[Call]:
        for dtype, shape in product(dtypes, SHAPES):
            for axis, *chosen in product(range(-len(shape), len(shape)), *options.values()):
                yield Call((values(dtype, shape),), {"axis": axis, **dict(zip(options, chosen, strict=True))})

    return calls


def listed(*calls: Any) -> Cases:
    """Calls given as tuples of arguments, of which the last one may be a dict of keywords."""

    def found() -> Iterator[Call]:
        for one in calls:
            yield Call(one[:-1], one[-1]) if one and isinstance(one[-1], dict) else Call(one)

    return found


def chain(*parts: Cases) -> Cases:
    def calls() -> Iterator[Call]:
        for part in parts:
            yield from part()

    return calls


X = finite("f4", (2, 3, 4))
N = array("i4", (3, 4))
V = finite("f8", (5,))
E = np.zeros((0, 3), np.float32)
SORTED = np.array([-2.0, 0.5, 0.5, 0.5, 3.0, 8.0, np.inf])
TYPES = [np.dtype(one) for one in ALL]


def creation(*shape: Any) -> Cases:
    def calls() -> Iterator[Call]:
        for dtype, extents in product(TYPES, [(), 0, 3, (2, 0), (5, 7)]):
            yield Call((extents, *shape), {"dtype": dtype})

    return calls


def like(*more: Any) -> Cases:
    return listed(
        *[(array(dtype, shape), *more) for dtype, shape in product(ALL, SHAPES)], (N, *more, {"dtype": TYPES[-1]})
    )


CASES: dict[str, Cases] = {
    **dict.fromkeys(("abs", "negative", "sign", "square", "positive"), unary(SIGNED + FLOATS)),
    **dict.fromkeys(("ceil", "floor", "round", "trunc", "isfinite", "isinf", "isnan"), unary(NUMBERS)),
    **dict.fromkeys(("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh"), unary(FLOATS)),
    **dict.fromkeys(("exp", "expm1", "log", "log10", "log1p", "log2", "reciprocal"), unary(FLOATS)),
    **dict.fromkeys(("signbit", "sin", "sinh", "sqrt", "tan", "tanh"), unary(FLOATS)),
    "bitwise_invert": unary(BOOL + INTEGERS),
    "logical_not": unary(BOOL),
    **dict.fromkeys(("add", "multiply", "subtract", "maximum", "minimum"), binary(NUMBERS)),
    **dict.fromkeys(("greater", "greater_equal", "less", "less_equal"), binary(NUMBERS)),
    **dict.fromkeys(("equal", "not_equal"), binary(ALL)),
    **dict.fromkeys(("atan2", "copysign", "divide", "hypot", "logaddexp"), binary(FLOATS)),
    **dict.fromkeys(("floor_divide", "remainder"), binary(NUMBERS, 1)),
    "pow": chain(binary(FLOATS), binary(INTEGERS, 0, 4)),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), binary(BOOL + INTEGERS)),
    **dict.fromkeys(("bitwise_left_shift", "bitwise_right_shift"), binary(INTEGERS, 0, 7)),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), binary(BOOL)),
    "clip": listed(
        *[(array(dtype, shape), 1, 5) for dtype, shape in product(NUMBERS, SHAPES)],
        (X, {"min": -0.5}),
        (X, {"max": np.float32(0.25) * X[0]}),
        (X, X[0], X[0] + 1),
        (X,),
        (V, {"max": np.inf}),
    ),
    "where": listed(
        *[(array("?", a), array(dtype, b), array(dtype, a, 1)) for dtype, (a, b) in product(ALL, PAIRS)],
        (X > 0, X, 0.0),
        (N > 0, 1, N),
        (N > 0, N, array("i8", (4,))),
    ),
    "sum": chain(reduction(NUMBERS), listed((N, {"dtype": TYPES[-1]}), (N, {"dtype": TYPES[8]}))),
    "prod": chain(reduction(FLOATS), listed((N % 3, {"axis": 0}), (array("u1", (3,), 0, 0, 4),))),
    **dict.fromkeys(("all", "any"), reduction(ALL)),
    **dict.fromkeys(("max", "min"), chain(reduction(NUMBERS, False), listed((array("f4", (33,)),)))),
    "mean": reduction(FLOATS),
    **dict.fromkeys(("std", "var"), chain(reduction(FLOATS, False), reduction(["f8"], False, correction=0.5))),
    "count_nonzero": chain(reduction(ALL), listed((array("f4", (33,)),))),
    **dict.fromkeys(
        ("cumulative_sum", "cumulative_prod"),
        chain(
            along(["f8"], finite, include_initial=[False, True]),
            listed(*[(array(dtype, (4,), 0, 0, 3), {"include_initial": True}) for dtype in INTEGERS], (V,)),
            listed((N % 3, {"axis": 1, "dtype": TYPES[-1]})),
        ),
    ),
    "diff": chain(
        along(["i4", "f8"], n=[0, 1, 2]),
        listed((X, {"axis": 1, "prepend": X[:, :1], "append": X[:, :2]}), (V, {"append": V})),
    ),
    **dict.fromkeys(
        ("argmax", "argmin"),
        chain(
            *[listed(*[(finite(t, (3, 33)), {"axis": a}) for a in (None, 0, -1)]) for t in NUMBERS],
            listed((X, {"axis": 1, "keepdims": True}), (array("f4", (33,)),), (E, {"axis": 1})),
        ),
    ),
    "sort": chain(along(NUMBERS), along(["f4", "i8"], descending=[True])),
    "argsort": along(NUMBERS),
    "searchsorted": listed(
        *[
            (SORTED.astype(t), finite(t, shape), {"side": side})
            for t, shape, side in product(FLOATS, SHAPES, ["left", "right"])
        ],
        (np.array([3, 1, 2]), np.array([2, 0, 9]), {"sorter": np.array([1, 2, 0])}),
        (SORTED[:0], V),
    ),
    "take": listed(
        *[(X, np.array([1, 0, -1, 1]), {"axis": axis}) for axis in (0, 1, 2, -1)],
        (V, np.array([], np.int64)),
        (V, np.array([4, -5], np.int8)),
        (E, np.array([2, 0]), {"axis": 1}),
    ),
    "take_along_axis": listed(
        *[(X, np.argsort(X, axis), {"axis": axis}) for axis in (0, 1, 2, -1)],
        (N, np.array([[1], [-1], [0]]), {"axis": 1}),
    ),
    "astype": listed(*[(array(a, (7,), 0, 0), np.dtype(b)) for a, b in product(BOOL + INTEGERS, ALL)], (V, TYPES[-2])),
    "broadcast_arrays": listed((X, X[0], V[:4].astype("f4")), (N,), (E, E[:1]), (np.float32(3) * E, N[:1, :1])),
    "broadcast_to": listed((X[0], (5, 3, 4)), (V[:1], (0,)), (E, (2, 0, 3)), (np.asarray(1.0), (3, 2))),
    "concat": listed(
        *[([X, X[:, :, :4]], {"axis": axis}) for axis in (0, 1, -1, None)],
        ([N, N.astype("i8")], {"axis": 1}),
        ([E, finite("f4", (2, 3))],),
    ),
    "expand_dims": listed(*[(X, {"axis": axis}) for axis in (-4, 0, 2, 3)], (np.asarray(1.0), {"axis": 0})),
    "flip": listed((X,), (E,), (np.asarray(2),), *[(X, {"axis": axis}) for axis in (0, -1, (0, 2))]),
    "moveaxis": listed((X, 0, -1), (X, (0, 1), (2, 0)), (X, -1, 1), (E, 1, 0)),
    "permute_dims": listed((X, (2, 0, 1)), (E, (1, 0)), (np.asarray(1.0), ())),
    "repeat": listed(
        (X, 3),
        (X, 2, {"axis": 1}),
        (X, np.array([2, 0, 1]), {"axis": 1}),
        (V, np.array([0, 1, 2, 3, 0])),
        (E, 2, {"axis": 0}),
        (V, 0),
    ),
    "reshape": listed((X, (4, -1)), (E, (3, 0)), (np.asarray(1.0), (1, 1)), (X, (-1,))),
    "roll": listed(
        *[(X, shift, {"axis": axis}) for shift, axis in product((0, 1, -5, 100), (None, 0, -1))],
        (X, (1, -2), {"axis": (0, 2)}),
        (E, 1, {"axis": 0}),
    ),
    "squeeze": listed((X[:, :1], {"axis": 1}), (X[:1], {"axis": ()}), (X[:1, :, :1], {"axis": (0, 2)})),
    "stack": listed(*[([X, X + 1], {"axis": axis}) for axis in (0, 1, -1)], ([E, E],), ([N, N.astype("i8")],)),
    "tile": listed((X, (2,)), (X, (2, 1, 3)), (N, (2, 1, 2)), (E, (2, 2)), (X, (0, 1, 1)), (np.asarray(2.0), (3,))),
    "unstack": listed((X,), (X, {"axis": -1}), (E, {"axis": 1}), (E,)),
    "arange": listed(
        *[(*bounds, {"dtype": t}) for bounds, t in product([(5,), (2, 9), (9, 2, -2), (3, 3)], TYPES[1:])]
    ),
    "eye": listed(*[(3, columns, {"k": k, "dtype": t}) for columns, k, t in product((None, 5), (-1, 0, 2), TYPES)]),
    "linspace": listed(
        *[(-1.5, 4.0, n, {"endpoint": e, "dtype": t}) for n, e, t in product((0, 1, 2, 33), (True, False), TYPES[-2:])]
    ),
    "meshgrid": listed((V, N[0].astype("f8")), (V,), (), (V, V[:2], V[:3]), (V, V[:0], {"indexing": "ij"})),
    **dict.fromkeys(
        ("tril", "triu"), listed(*[(x, {"k": k}) for x, k in product((X, N, E, N > 0), (-1, 0, 2, 1 << 40))])
    ),
    **dict.fromkeys(("empty", "zeros", "ones"), creation()),
    "full": creation(True),
    **dict.fromkeys(("empty_like", "zeros_like", "ones_like"), like()),
    "full_like": like(True),
    "asarray": listed((X,), ([1, 2],), (3,), (True,), ([[1.5], [2.5]], {"dtype": TYPES[-1]}), (X, {"copy": True})),
    "from_dlpack": listed((X,), (N,), (E,)),
    "matmul": listed(
        *[
            (finite(t, a), finite(t, b))
            for t in ("f4", "f8", "i4")
            for a, b in [((3, 4), (4, 5)), ((4,), (4,)), ((2, 3, 4), (4,))]
        ],
        (finite("f4", (3, 0)), finite("f4", (0, 2))),
        (finite("f4", (2, 1, 3, 4)), finite("f8", (5, 4, 33))),
    ),
    "matrix_transpose": listed((X,), (E,)),
    "tensordot": listed(
        (X, X[0].T, {"axes": 1}),
        (X, X[0]),
        (X, X, {"axes": ((0, 2), (0, 2))}),
        (V, V, {"axes": 0}),
        (N, N.T, {"axes": 1}),
    ),
    "vecdot": listed((X, X[0]), (X, X, {"axis": -2}), (E, E), (N, N), (V, V.astype("f4"))),
    "nonzero": chain(
        listed(*[(np.where(array("?", s, 1), array(t, s), np.zeros((), t)),) for t, s in product(ALL, SHAPES[1:])]),
        listed((np.array([np.nan, 0.0, -0.0, np.inf]),)),
    ),
    "isdtype": listed(*[(t, kind) for t in TYPES for kind in ("bool", "integral", "real floating", ("numeric", t))]),
    "can_cast": listed(*[(a, b) for a, b in product(TYPES, TYPES)]),
    "result_type": listed(*[(np.dtype(a), np.dtype(b)) for a, b in MIXED], (N, N), (X, 1.0), (X, V, 2)),
    "finfo": listed((TYPES[-1],), (TYPES[-2],)),
    "iinfo": listed(*[(t,) for t in TYPES[1:9]]),
}

#: Functions of the standard that the namespace lacks, and why.
ABSENT = {
    "nextafter": "no operation reads the bits of floating-point numbers",
}

#: Functions whose results may be in any order: a test of their own.
UNORDERED = {"unique_all", "unique_counts", "unique_inverse", "unique_values"}
#: Functions of complex numbers, which there are none of: tests of their own.
COMPLEX = {"conj", "imag", "real"}
#: Functions of later versions of the standard.
LATER = {"broadcast_shapes", "isin"}

#: Indices of a tensor of shape [2, 3, 4].
INDICES: list[Any] = [
    0,
    (1, -1),
    (slice(None), slice(None, None, -1)),
    (..., slice(3, 0, -2)),
    (None, 0, ..., None),
    (slice(5, 1), 0),
    np.array([1, 0, -1]),
    np.array([[0], [1]], np.int8),
    (slice(None), np.array([2, -3])),
    (np.array([0, 1]), np.array([2, 0]), np.array([3, -4])),
    (np.array([[0], [1]]), np.array([2, 0])),
    (np.array([0, 1]), slice(1, None), np.array([3, 0])),
    (slice(None), 1, np.array([0, 2])),
    (0, slice(None), np.array([0, 2])),
    (..., np.array([], np.int64)),
    X[:, 0, 0] > 0,
    (slice(None), np.array([True, False, True])),
    X > 0,
    (..., X[0] > 0),
    (None, slice(None), 0, X[0, 0] > 0),
]
