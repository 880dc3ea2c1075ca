"""Types of results, inferred from operands and attributes as the daemon does.

The daemon decides: where an operation is unknown here, nothing is inferred.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

from ._operation import Operation
from ._operations import OPERATIONS
from ._types import (
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


class _Call(NamedTuple):
    """An operation applied to operands."""

    operation: Operation
    operands: Sequence[TensorType]
    attributes: Mapping[str, Any]

    def only(self) -> TensorType:
        """Return the only operand."""
        (x,) = self.operands
        return x


def infer(op: str, operands: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType] | None:
    """Return the types of the results of an operation; None if they are not known here.

    Raises:
        OperandError: The operands or attributes do not fit the operation.
    """
    operation = OPERATIONS.get(op)
    if operation is None or not operation.results:
        return None
    call = _Call(operation, operands, attributes)
    rules = [(_DTYPES[dtype], _SHAPES[shape]) for shape, dtype in operation.results]
    try:
        count = operation.result_count(attributes)
        return [TensorType(dtype(call), tuple(shape(call))) for dtype, shape in rules[:count]]
    except OperandError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return None


# Rules of element types.


def _common(call: _Call) -> str:
    dtypes = [one.dtype for nth, one in enumerate(call.operands) if nth != call.operation.condition]
    return common(
        dtypes, [scalar_kind(call.attributes[name]) for name in call.operation.scalars if name in call.attributes]
    )


def _float(call: _Call) -> str:
    return _or_f32(_common(call))


def _or_f32(dtype: str) -> str:
    return dtype if kind(dtype) == FLOAT else "f32"


def _quotient(call: _Call) -> str:
    is_rounded = call.attributes.get("rounding_mode") not in (None, "none")
    return _common(call) if is_rounded else _float(call)


def _comparison(call: _Call) -> str:
    _common(call)
    return "bool"


def _sum(call: _Call) -> str:
    dtype = call.only().dtype
    return _given(call, dtype if kind(dtype) == FLOAT or dtype == "u64" else "i64")


def _mean(call: _Call) -> str:
    return _floating(_given(call, call.only().dtype))


def _spread(call: _Call) -> str:
    return _floating(_given(call, _floating(call.only().dtype)))


def _float_spread(call: _Call) -> str:
    return _floating(_given(call, _or_f32(call.only().dtype)))


def _floating(dtype: str) -> str:
    if kind(dtype) != FLOAT:
        raise DtypeError(f"expected a floating-point type, got {dtype}")
    return dtype


def _equal(call: _Call) -> str:
    a, b = call.operands
    if a.dtype != b.dtype:
        raise DtypeError(f"expected equal element types, got {a.dtype} and {b.dtype}")
    return a.dtype


def _of_value(call: _Call) -> str:
    return _given(call, ("bool", "i64", "f32")[scalar_kind(call.attributes["value"])])


def _of_range(call: _Call) -> str:
    is_whole = max(map(scalar_kind, _range_numbers(call))) == INTEGER
    return _given(call, "i64" if is_whole else "f32")


def _given(call: _Call, default: str) -> str:
    """Return the attribute `dtype`, by default another type."""
    found: str = call.attributes.get("dtype") or default
    return found


_DTYPES: dict[str, Callable[[_Call], str]] = {
    "bool": lambda _: "bool",
    "common": _common,
    "comparison": _comparison,
    "equal": _equal,
    "first": lambda call: call.operands[0].dtype,
    "float": _float,
    "float_spread": _float_spread,
    "given": lambda call: call.attributes["dtype"],
    "given_or_f32": lambda call: _given(call, "f32"),
    "given_or_i64": lambda call: _given(call, "i64"),
    "i64": lambda _: "i64",
    "mean": _mean,
    "of_range": _of_range,
    "of_value": _of_value,
    "promoted": lambda call: reduce(promote, (one.dtype for one in call.operands)),
    "quotient": _quotient,
    "second": lambda call: call.operands[1].dtype,
    "spread": _spread,
    "sum": _sum,
    "third": lambda call: call.operands[2].dtype,
}


# Rules of shapes.


def _listed(value: Any) -> list[int]:
    return list(value) if isinstance(value, list) else [value]


def _reshape(call: _Call) -> Sequence[int]:
    shape, wanted = call.only().shape, _listed(call.attributes["shape"])
    count = math.prod(shape)
    if -1 in wanted:
        free = wanted.index(-1)
        wanted[free] = count // math.prod(wanted[:free] + wanted[free + 1 :])
    if math.prod(wanted) != count or min(wanted, default=0) < 0:
        raise ShapeError(f"shape: expected extents of {count} elements, got {call.attributes['shape']}")
    return wanted


def _flatten(call: _Call) -> Sequence[int]:
    shape = call.only().shape
    if not shape:
        return [1]
    bounds = (call.attributes.get("start_dim", 0), call.attributes.get("end_dim", -1))
    first, last = (axis_of(bound, len(shape)) for bound in bounds)
    return [*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]]


def _squeeze(call: _Call) -> Sequence[int]:
    shape, chosen = call.only().shape, call.attributes.get("dim")
    dims = [] if chosen == [] else _axes(chosen, len(shape))
    return [extent for dim, extent in enumerate(shape) if extent != 1 or dim not in dims]


def _unsqueeze(call: _Call) -> Sequence[int]:
    shape = call.only().shape
    dim = axis_of(call.attributes["dim"], len(shape) + 1)
    return [*shape[:dim], 1, *shape[dim:]]


def _permute(call: _Call) -> Sequence[int]:
    shape = call.only().shape
    dims = [axis_of(dim, len(shape)) for dim in _listed(call.attributes["dims"])]
    if sorted(dims) != list(range(len(shape))):
        raise ShapeError(f"dims: expected each dimension of {shape} once, got {call.attributes['dims']}")
    return [shape[dim] for dim in dims]


def _transpose(call: _Call) -> Sequence[int]:
    shape = list(call.only().shape)
    a, b = (axis_of(call.attributes[name], len(shape)) for name in ("dim0", "dim1"))
    shape[a], shape[b] = shape[b], shape[a]
    return shape


def _expand(call: _Call) -> Sequence[int]:
    shape, wanted = call.only().shape, _listed(call.attributes["shape"])
    missing = len(wanted) - len(shape)
    found = [shape[dim - missing] if extent == -1 else extent for dim, extent in enumerate(wanted)]
    if not broadcasts(shape, tuple(found)):
        raise ShapeError(f"shape: expected one that {shape} broadcasts to, got {wanted}")
    return found


def _slice(call: _Call) -> Sequence[int]:
    shape = call.only().shape
    dim = axis_of(call.attributes.get("dim", 0), len(shape))
    chosen = slice(*(call.attributes.get(name) for name in ("start", "end", "step")))
    return [*shape[:dim], len(range(*chosen.indices(shape[dim]))), *shape[dim + 1 :]]


def _select(call: _Call) -> Sequence[int]:
    shape, index = call.only().shape, call.attributes["index"]
    dim = axis_of(call.attributes["dim"], len(shape))
    if not -shape[dim] <= index < shape[dim]:
        raise OperandIndexError(out_of_range(index, shape[dim], dim))
    return [*shape[:dim], *shape[dim + 1 :]]


def _concat(call: _Call) -> Sequence[int]:
    shapes = [one.shape for one in call.operands]
    found = list(shapes[0])
    dim = axis_of(call.attributes.get("dim", 0), len(found))
    if len({(shape[:dim], shape[dim + 1 :]) for shape in shapes}) > 1:
        got = ", ".join(map(str, shapes))
        raise ShapeError(f"expected shapes that differ in dimension {dim} alone, got {got}")
    found[dim] = sum(shape[dim] for shape in shapes)
    return found


def _axes(dim: Any, rank: int) -> list[int]:
    """Return the dimensions of an attribute, by default all."""
    return list(range(rank)) if dim in (None, []) else [axis_of(one, rank) for one in _listed(dim)]


def _reduced(call: _Call) -> Sequence[int]:
    shape = call.only().shape
    dims = _axes(call.attributes.get("dim"), len(shape))
    kept = 1 if call.attributes.get("keepdim") else None
    extents = [kept if dim in dims else extent for dim, extent in enumerate(shape)]
    return [extent for extent in extents if extent is not None]


def _topk(call: _Call) -> Sequence[int]:
    shape = list(call.only().shape)
    if shape:
        shape[axis_of(call.attributes.get("dim", -1), len(shape))] = call.attributes["k"]
    return shape


def _matmul(call: _Call) -> Sequence[int]:
    a, b = call.operands
    left = _transposed(a.shape, call.attributes.get("transpose_a"))
    right = _transposed(b.shape, call.attributes.get("transpose_b"))
    inner = right[-2] if len(right) > 1 else right[0]
    if left[-1] != inner:
        raise ShapeError(f"expected as many columns as rows, got shapes {left} and {right}")
    rows, columns = left[-2:-1], right[-1:] if len(right) > 1 else ()
    return [*broadcast([left[:-2], right[:-2]]), *rows, *columns]


def _transposed(shape: tuple[int, ...], is_transposed: Any) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if is_transposed else shape


def _linear(call: _Call) -> Sequence[int]:
    x, weight = call.operands[:2]
    return [*x.shape[:-1], weight.shape[0]]


def _range_numbers(call: _Call) -> tuple[float, float, float]:
    """Return start, end and step of `arange`."""
    return call.attributes.get("start", 0), call.attributes["end"], call.attributes.get("step", 1)


def _range(call: _Call) -> Sequence[int]:
    start, end, step = map(float, _range_numbers(call))
    return [max(math.ceil((end - start) / step), 0)]


def _index_select(call: _Call) -> Sequence[int]:
    x, index = call.operands
    shape = list(x.shape)
    if shape:
        shape[axis_of(call.attributes["dim"], len(shape))] = math.prod(index.shape)
    return shape


def _take_along_dim(call: _Call) -> Sequence[int]:
    x, index = call.operands
    if "dim" not in call.attributes:
        return [math.prod(index.shape)]
    dim = axis_of(call.attributes["dim"], len(x.shape)) if x.shape else 0
    around = broadcast([(*shape[:dim], 1, *shape[dim + 1 :]) for shape in (x.shape, index.shape) if shape])
    return [*around[:dim], *index.shape[dim : dim + 1], *around[dim + 1 :]]


def _embedding(call: _Call) -> Sequence[int]:
    weight, indices = call.operands
    return [*indices.shape, weight.shape[1]]


_SHAPES: dict[str, Callable[[_Call], Sequence[int]]] = {
    "broadcast": lambda call: broadcast(one.shape for one in call.operands),
    "concat": _concat,
    "embedding": _embedding,
    "expand": _expand,
    "first": lambda call: call.operands[0].shape,
    "flatten": _flatten,
    "given": lambda call: _listed(call.attributes["shape"]),
    "index_select": _index_select,
    "linear": _linear,
    "matmul": _matmul,
    "one_hot": lambda call: [*call.operands[0].shape, call.attributes["num_classes"]],
    "permute": _permute,
    "range": _range,
    "reduced": _reduced,
    "reshape": _reshape,
    "second": lambda call: call.operands[1].shape,
    "select": _select,
    "slice": _slice,
    "squeeze": _squeeze,
    "steps": lambda call: [call.attributes["steps"]],
    "take_along_dim": _take_along_dim,
    "third": lambda call: call.operands[2].shape,
    "topk": _topk,
    "transpose": _transpose,
    "unsqueeze": _unsqueeze,
}
