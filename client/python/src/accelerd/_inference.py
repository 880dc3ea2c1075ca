"""Types of results, inferred from operands and attributes as the daemon does.

The daemon decides: where an operation is unknown here, nothing is inferred.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, TypeAlias

from ._types import (
    BOOL,
    FLOAT,
    INTEGER,
    DtypeError,
    OperandError,
    OperandIndexError,
    ShapeError,
    TensorType,
    axis_of,
    broadcast,
    broadcasts,
    common,
    kind,
    out_of_range,
    promote,
    scalar_kind,
)

Operands: TypeAlias = "Sequence[TensorType]"
Attributes: TypeAlias = "Mapping[str, Any]"
Rule: TypeAlias = "Callable[[Operands, Attributes], Sequence[TensorType]]"

_FLOAT_OPS = """
acos acosh addcdiv asin asinh atan atan2 atanh copysign cos cosh div elu erf erfc exp exp2 expm1 gelu hypot leaky_relu
lerp log log10 log1p log2 logaddexp logit reciprocal rsqrt sigmoid silu sin sinh softplus softsign sqrt tan tanh
true_divide xlogy
"""
_SAME_OPS = """
abs add addcmul bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil clamp floor
floor_divide fmax fmin fmod hardtanh heaviside masked_fill maximum minimum mul nan_to_num neg positive pow relu relu6
remainder round sign square sub threshold trunc where
"""
_BOOL_OPS = """
eq ge gt isfinite isinf isnan le logical_and logical_not logical_or logical_xor lt ne signbit
"""
#: Numbers in these attributes are operands.
_SCALARS = {"clamp": ("min", "max"), "heaviside": ("values",), "lerp": ("weight",)}
#: The operand that is a condition, and has no part in the common type.
_CONDITIONS = {"where": 0, "masked_fill": 1}


def infer(op: str, operands: Operands, attributes: Attributes) -> Sequence[TensorType] | None:
    """Return the types of the results of an operation; None if they are not known here.

    Raises:
        OperandError: The operands or attributes do not fit the operation.
    """
    rule = _RULES.get(op)
    if rule is None:
        return None
    try:
        return rule(operands, attributes)
    except OperandError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return None


def _elementwise(op: str, result: Callable[[str], str]) -> Rule:
    names = _SCALARS.get(op, ("input", "other"))
    condition = _CONDITIONS.get(op)

    def rule(operands: Operands, attributes: Attributes) -> Sequence[TensorType]:
        dtypes = [one.dtype for nth, one in enumerate(operands) if nth != condition]
        scalars = [scalar_kind(attributes[name]) for name in names if name in attributes]
        found = result(common(dtypes, scalars))
        if attributes.get("rounding_mode") not in (None, "none"):
            found = common(dtypes, scalars)
        return [TensorType(found, broadcast(one.shape for one in operands))]

    return rule


def _float(dtype: str) -> str:
    return dtype if kind(dtype) == FLOAT else "f32"


def _to(operands: Operands, attributes: Attributes) -> Sequence[TensorType]:
    return [TensorType(attributes["dtype"], operands[0].shape)]


def _first(operands: Operands, attributes: Attributes) -> Sequence[TensorType]:
    return [operands[0]]


def _reshaped(shape: Callable[[tuple[int, ...], Attributes], Sequence[int]]) -> Rule:
    """Return the rule of an operation that changes the shape alone."""

    def rule(operands: Operands, attributes: Attributes) -> Sequence[TensorType]:
        (x,) = operands
        return [TensorType(x.dtype, tuple(shape(x.shape, attributes)))]

    return rule


def _listed(value: Any) -> list[int]:
    return list(value) if isinstance(value, list) else [value]


def _reshape(shape: tuple[int, ...], attributes: Attributes) -> Sequence[int]:
    wanted, count = _listed(attributes["shape"]), math.prod(shape)
    if -1 in wanted:
        at = wanted.index(-1)
        wanted[at] = count // math.prod(wanted[:at] + wanted[at + 1 :])
    if math.prod(wanted) != count or min(wanted, default=0) < 0:
        raise ShapeError(f"shape: expected extents of {count} elements, got {attributes['shape']}")
    return wanted


def _flatten(shape: tuple[int, ...], attributes: Attributes) -> Sequence[int]:
    if not shape:
        return [1]
    first, last = (axis_of(attributes.get(name, at), len(shape)) for name, at in (("start_dim", 0), ("end_dim", -1)))
    return [*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]]


def _squeeze(shape: tuple[int, ...], attributes: Attributes) -> Sequence[int]:
    chosen = attributes.get("dim")
    dims = [] if chosen == [] else _axes(chosen, len(shape))
    return [extent for dim, extent in enumerate(shape) if extent != 1 or dim not in dims]


def _unsqueeze(shape: tuple[int, ...], attributes: Attributes) -> Sequence[int]:
    dim = axis_of(attributes["dim"], len(shape) + 1)
    return [*shape[:dim], 1, *shape[dim:]]


def _permute(shape: tuple[int, ...], attributes: Attributes) -> Sequence[int]:
    dims = [axis_of(dim, len(shape)) for dim in _listed(attributes["dims"])]
    if sorted(dims) != list(range(len(shape))):
        raise ShapeError(f"dims: expected each dimension of {shape} once, got {attributes['dims']}")
    return [shape[dim] for dim in dims]


def _transpose(shape: tuple[int, ...], attributes: Attributes) -> Sequence[int]:
    a, b = (axis_of(attributes[name], len(shape)) for name in ("dim0", "dim1"))
    found = list(shape)
    found[a], found[b] = found[b], found[a]
    return found


def _expand(shape: tuple[int, ...], attributes: Attributes) -> Sequence[int]:
    wanted = _listed(attributes["shape"])
    missing = len(wanted) - len(shape)
    found = [shape[dim - missing] if extent == -1 else extent for dim, extent in enumerate(wanted)]
    if not broadcasts(shape, tuple(found)):
        raise ShapeError(f"shape: expected one that {shape} broadcasts to, got {wanted}")
    return found


def _slice(shape: tuple[int, ...], attributes: Attributes) -> Sequence[int]:
    dim = axis_of(attributes.get("dim", 0), len(shape))
    chosen = slice(*(attributes.get(name) for name in ("start", "end", "step")))
    return [*shape[:dim], len(range(*chosen.indices(shape[dim]))), *shape[dim + 1 :]]


def _select(shape: tuple[int, ...], attributes: Attributes) -> Sequence[int]:
    dim = axis_of(attributes["dim"], len(shape))
    if not -shape[dim] <= attributes["index"] < shape[dim]:
        raise OperandIndexError(out_of_range(attributes["index"], shape[dim], dim))
    return [*shape[:dim], *shape[dim + 1 :]]


def _concat(operands: Operands, attributes: Attributes) -> Sequence[TensorType]:
    shape = list(operands[0].shape)
    dim = axis_of(attributes.get("dim", 0), len(shape))
    if len({(one.shape[:dim], one.shape[dim + 1 :]) for one in operands}) > 1:
        got = ", ".join(str(one.shape) for one in operands)
        raise ShapeError(f"expected shapes that differ in dimension {dim} alone, got {got}")
    shape[dim] = sum(one.shape[dim] for one in operands)
    return [TensorType(reduce(promote, (one.dtype for one in operands)), tuple(shape))]


def _axes(dim: Any, rank: int) -> list[int]:
    """Return the dimensions of an attribute, by default all."""
    return list(range(rank)) if dim in (None, []) else [axis_of(one, rank) for one in _listed(dim)]


def _reduced(shape: tuple[int, ...], attributes: Attributes) -> tuple[int, ...]:
    dims = _axes(attributes.get("dim"), len(shape))
    kept = 1 if attributes.get("keepdim") else None
    extents = [kept if dim in dims else extent for dim, extent in enumerate(shape)]
    return tuple(extent for extent in extents if extent is not None)


def _reduction(result: Callable[[str, Attributes], str], count: int = 1) -> Rule:
    def rule(operands: Operands, attributes: Attributes) -> Sequence[TensorType]:
        (x,) = operands
        return [TensorType(result(x.dtype, attributes), _reduced(x.shape, attributes))] * count

    return rule


def _accumulated(dtype: str, attributes: Attributes) -> str:
    found: str = attributes.get("dtype") or (dtype if kind(dtype) == FLOAT or dtype == "u64" else "i64")
    return found


def _averaged(dtype: str, attributes: Attributes) -> str:
    found: str = attributes.get("dtype") or dtype
    if kind(found) != FLOAT:
        raise DtypeError(f"expected a floating-point type, got {found}")
    return found


def _log_sum(dtype: str, attributes: Attributes) -> str:
    return _averaged(_float(dtype), attributes)


def _scan(operands: Operands, attributes: Attributes) -> Sequence[TensorType]:
    (x,) = operands
    return [TensorType(_accumulated(x.dtype, attributes), x.shape)]


def _sort(operands: Operands, attributes: Attributes) -> Sequence[TensorType]:
    (x,) = operands
    return [x, TensorType("i64", x.shape)]


def _argsort(operands: Operands, attributes: Attributes) -> Sequence[TensorType]:
    return _sort(operands, attributes)[1:]


def _topk(operands: Operands, attributes: Attributes) -> Sequence[TensorType]:
    (x,) = operands
    shape = list(x.shape)
    if shape:
        shape[axis_of(attributes.get("dim", -1), len(shape))] = attributes["k"]
    return [TensorType(x.dtype, tuple(shape)), TensorType("i64", tuple(shape))]


def _matmul(operands: Operands, attributes: Attributes) -> Sequence[TensorType]:
    a, b = operands
    left = _transposed(a.shape, attributes.get("transpose_a"))
    right = _transposed(b.shape, attributes.get("transpose_b"))
    inner = right[-2] if len(right) > 1 else right[0]
    if a.dtype != b.dtype:
        raise DtypeError(f"expected equal element types, got {a.dtype} and {b.dtype}")
    if left[-1] != inner:
        raise ShapeError(f"expected as many columns as rows, got shapes {left} and {right}")
    rows, columns = left[-2:-1], right[-1:] if len(right) > 1 else ()
    return [TensorType(a.dtype, (*broadcast([left[:-2], right[:-2]]), *rows, *columns))]


def _transposed(shape: tuple[int, ...], is_transposed: Any) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if is_transposed else shape


def _linear(operands: Operands, attributes: Attributes) -> Sequence[TensorType]:
    x, weight = operands[:2]
    return [TensorType(x.dtype, (*x.shape[:-1], weight.shape[0]))]


def _full(operands: Operands, attributes: Attributes) -> Sequence[TensorType]:
    by_kind = {BOOL: "bool", INTEGER: "i64", FLOAT: "f32"}[scalar_kind(attributes["value"])]
    return [TensorType(attributes.get("dtype", by_kind), tuple(_listed(attributes["shape"])))]


def _arange(operands: Operands, attributes: Attributes) -> Sequence[TensorType]:
    start, end, step = attributes.get("start", 0), attributes["end"], attributes.get("step", 1)
    is_whole = max(map(scalar_kind, (start, end, step))) == INTEGER
    count = max(math.ceil((float(end) - float(start)) / float(step)), 0)
    return [TensorType(attributes.get("dtype", "i64" if is_whole else "f32"), (count,))]


def _linspace(operands: Operands, attributes: Attributes) -> Sequence[TensorType]:
    return [TensorType(attributes.get("dtype", "f32"), (attributes["steps"],))]


def _random(dtype: str) -> Rule:
    def rule(operands: Operands, attributes: Attributes) -> Sequence[TensorType]:
        return [TensorType(attributes.get("dtype", dtype), tuple(_listed(attributes["shape"])))]

    return rule


def _gather(operands: Operands, attributes: Attributes) -> Sequence[TensorType]:
    x, index = operands
    return [TensorType(x.dtype, index.shape)]


def _index_select(operands: Operands, attributes: Attributes) -> Sequence[TensorType]:
    x, index = operands
    shape = list(x.shape)
    if shape:
        shape[axis_of(attributes["dim"], len(shape))] = math.prod(index.shape)
    return [TensorType(x.dtype, tuple(shape))]


def _take_along_dim(operands: Operands, attributes: Attributes) -> Sequence[TensorType]:
    x, index = operands
    if "dim" not in attributes:
        return [TensorType(x.dtype, (math.prod(index.shape),))]
    dim = axis_of(attributes["dim"], len(x.shape)) if x.shape else 0
    around = broadcast([(*shape[:dim], 1, *shape[dim + 1 :]) for shape in (x.shape, index.shape) if shape])
    return [TensorType(x.dtype, (*around[:dim], *index.shape[dim : dim + 1], *around[dim + 1 :]))]


def _embedding(operands: Operands, attributes: Attributes) -> Sequence[TensorType]:
    weight, indices = operands
    return [TensorType(weight.dtype, (*indices.shape, weight.shape[1]))]


def _one_hot(operands: Operands, attributes: Attributes) -> Sequence[TensorType]:
    return [TensorType("i64", (*operands[0].shape, attributes["num_classes"]))]


def _unchanged(dtype: str, attributes: Attributes) -> str:
    return dtype


_RULES: dict[str, Rule] = {
    **{op: _elementwise(op, _float) for op in _FLOAT_OPS.split()},
    **{op: _elementwise(op, lambda dtype: dtype) for op in _SAME_OPS.split()},
    **{op: _elementwise(op, lambda _: "bool") for op in _BOOL_OPS.split()},
    **dict.fromkeys(("batch_norm", "dropout", "group_norm", "instance_norm", "layer_norm", "normalize"), _first),
    **dict.fromkeys(("bernoulli", "flip", "log_softmax", "msort", "rms_norm", "softmax"), _first),
    **dict.fromkeys(("amax", "amin", "max", "min"), _reduction(_unchanged)),
    **dict.fromkeys(("prod", "sum"), _reduction(_accumulated)),
    **dict.fromkeys(("mean", "norm", "std", "var"), _reduction(_averaged)),
    **dict.fromkeys(("std_mean", "var_mean"), _reduction(_averaged, 2)),
    **dict.fromkeys(("all", "any"), _reduction(lambda *_: "bool")),
    **dict.fromkeys(("argmax", "argmin"), _reduction(lambda *_: "i64")),
    **dict.fromkeys(("cumprod", "cumsum"), _scan),
    **dict.fromkeys(("broadcast_to", "expand"), _reshaped(_expand)),
    **dict.fromkeys(("cat", "concat"), _concat),
    **dict.fromkeys(("reshape", "view"), _reshaped(_reshape)),
    **dict.fromkeys(("rand", "randn"), _random("f32")),
    "arange": _arange,
    "argsort": _argsort,
    "embedding": _embedding,
    "flatten": _reshaped(_flatten),
    "full": _full,
    "gather": _gather,
    "index_select": _index_select,
    "linear": _linear,
    "linspace": _linspace,
    "logsumexp": _reduction(_log_sum),
    "matmul": _matmul,
    "one_hot": _one_hot,
    "permute": _reshaped(_permute),
    "randint": _random("i64"),
    "select": _reshaped(_select),
    "slice": _reshaped(_slice),
    **dict.fromkeys(("cummax", "cummin", "sort"), _sort),
    "squeeze": _reshaped(_squeeze),
    "take_along_dim": _take_along_dim,
    "to": _to,
    "topk": _topk,
    "transpose": _reshaped(_transpose),
    "unsqueeze": _reshaped(_unsqueeze),
}
