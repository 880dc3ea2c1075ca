"""Types that the client infers, compared with those of the daemon over all operations."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from accelerd import Client, InvalidArgumentError, Tensor, _inference
from accelerd._expression import Result, type_of
from accelerd._operation import Operation
from accelerd._operations import OPERATIONS
from accelerd._types import BOOL, FLOAT, INTEGER, TensorType, common, kind

DTYPES = ["bool", "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64"]
#: Of each kind, and such that some have no common type.
FEW_DTYPES = ["bool", "i8", "u64", "i64", "bf16", "f64"]
#: Kinds of common types by what an operation accepts.
ACCEPTED = {"any": {BOOL, INTEGER, FLOAT}, "numbers": {INTEGER, FLOAT}, "bits": {BOOL, INTEGER}, "integers": {INTEGER}}
SHAPES: list[tuple[tuple[int, ...], ...]] = [
    ((2, 3), (2, 3), (2, 3)),
    ((2, 1), (3,), ()),
    ((), (1, 4), (4,)),
    ((0, 3), (1, 3), (3,)),
    ((2, 3), (2, 4), (3,)),
]
SCALARS: list[Any] = [True, 2, 0.5]
BATCH = 256


class Call(NamedTuple):
    """An operation by name, the types of its operands, and attributes."""

    op: str
    operands: tuple[TensorType, ...]
    attributes: dict[str, Any]

    def results(self, client: Client) -> tuple[Tensor, ...]:
        found = client.op(self.op, *(zeros(client, one) for one in self.operands), **self.attributes)
        return found if isinstance(found, tuple) else (found,)


def zeros(client: Client, of: TensorType) -> Tensor:
    array = np.zeros(of.shape, np.float32)
    return client.tensor(array) if of.dtype == "f32" else client.tensor(array).to(of.dtype)


def inferred(results: tuple[Tensor, ...]) -> list[TensorType | None] | None:
    """The types of results, as far as they are known; None if operands do not fit."""
    types = [type_of(one._expression) for one in results]
    content = results[0]._expression.content
    assert isinstance(content, Result)
    if content.of.error is not None:
        return None
    return types


def refused(client: Client, calls: list[Call]) -> list[Call]:
    """The calls that the daemon refuses. The results of all others are inferred."""
    if not calls:
        return []
    results = [call.results(client) for call in calls]
    expected = [inferred(one) for one in results]
    tensors = [tensor for one in results for tensor in one]
    try:
        client.keep(*tensors)
    except InvalidArgumentError:
        middle = len(calls) // 2
        return calls if not middle else refused(client, calls[:middle]) + refused(client, calls[middle:])
    try:
        for call, kept, types in zip(calls, results, expected, strict=True):
            assert types is not None and None not in types, call
            assert [type_of(one._expression) for one in kept] == types, call
    finally:
        client.free(*tensors)
    return []


def refused_in_batches(client: Client, calls: list[Call]) -> list[Call]:
    return [one for start in range(0, len(calls), BATCH) for one in refused(client, calls[start : start + BATCH])]


# Elementwise operations.

#: Attributes that an operation needs besides its operands.
NEEDED: dict[str, dict[str, Any]] = {
    "cast": {"dtype": "f16"},
    "masked_fill": {"value": 1},
    "threshold": {"threshold": 1, "value": 2},
    "to": {"dtype": "u8"},
}


def elementwise_calls(name: str, operation: Operation) -> Iterator[Call]:
    assert operation.operands is not None
    needed = NEEDED.get(name, {})
    dtypes = DTYPES if operation.operands < 3 else FEW_DTYPES
    for nth, types in enumerate(itertools.product(dtypes, repeat=operation.operands)):
        shapes = SHAPES[nth % len(SHAPES)]
        yield Call(name, tuple(map(TensorType, types, shapes)), needed)
    for scalar, value, dtype in itertools.product(operation.scalars, SCALARS, DTYPES):
        types = (dtype,) * (operation.operands - 1)
        if operation.condition is not None:
            types = ("bool", *types[1:])
        yield Call(name, tuple(TensorType(one, (2, 3)) for one in types), {**needed, scalar: value})
    if name in ("div", "divide"):
        for mode, dtype in itertools.product(("none", "trunc", "floor"), DTYPES):
            yield Call(name, (TensorType(dtype, (3,)), TensorType(dtype, ())), {"rounding_mode": mode})


def is_accepted(call: Call, types: list[TensorType | None] | None) -> bool:
    """Whether the table says that an elementwise operation takes operands of these types and shapes."""
    operation = OPERATIONS[call.op]
    if types is None:
        return False
    promoted = [one.dtype for nth, one in enumerate(call.operands) if nth != operation.condition]
    if operation.condition is not None and call.operands[operation.condition].dtype != "bool":
        return False
    accepts = operation.accepts
    if call.attributes.get("rounding_mode", "none") != "none":
        accepts = "numbers"
    if accepts == "any":
        return True
    scalars = [call.attributes[name] for name in operation.scalars if name in call.attributes]
    kinds = [BOOL if isinstance(one, bool) else INTEGER if isinstance(one, int) else FLOAT for one in scalars]
    return kind(common(promoted, kinds)) in ACCEPTED[accepts]


ELEMENTWISE = sorted(name for name, operation in OPERATIONS.items() if operation.operands is not None)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_an_elementwise_operation_is_accepted_and_typed_as_the_table_says(client: Client, name: str) -> None:
    accepted, others = [], []
    for call in elementwise_calls(name, OPERATIONS[name]):
        (accepted if is_accepted(call, inferred(call.results(client))) else others).append(call)
    assert accepted and refused_in_batches(client, accepted) == []
    assert refused_in_batches(client, others) == others


# Other operations: cases by the rule of the shape of their first result.

#: Attributes that an operation needs.
REQUIRED: dict[str, dict[str, Any]] = {
    "bernoulli": {"seed": 1},
    "cummax": {"dim": 1},
    "cummin": {"dim": 1},
    "cumprod": {"dim": 1},
    "cumsum": {"dim": 1},
    "dropout": {"seed": 1},
    "flip": {"dims": [0, 2]},
    "full": {"value": 1},
    "group_norm": {"num_groups": 2},
    "log_softmax": {"dim": 1},
    "rand": {"seed": 1},
    "randint": {"seed": 1, "high": 5},
    "randn": {"seed": 1},
    "softmax": {"dim": 1},
}
#: Shapes of operands and attributes. Operands after the first have its element type unless theirs is given.
CASES: dict[str, list[tuple[list[Any], dict[str, Any]]]] = {
    "concat": [
        ([(2, 3), (4, 3)], {}),
        ([(2, 3), (2, 1), (2, 0)], {"dim": -1}),
        ([(2, 3), ((2, 3), "u64")], {"dim": 1}),
        ([(2, 3), ((2, 3), "i8")], {"dim": 1}),
        ([(2, 3), (4, 2)], {}),
    ],
    "embedding": [([(5, 2), ((3, 1), "i64")], {})],
    "expand": [
        ([(1, 3)], {"shape": [2, 3]}),
        ([(3,)], {"shape": [4, 2, -1]}),
        ([()], {"shape": 5}),
        ([(2, 3)], {"shape": [4, 3]}),
    ],
    "first": [([(2, 4, 3)], {}), ([(2, 4, 3)], {"dtype": "f16"}), ([()], {})],
    "flatten": [([(2, 3, 4)], {}), ([(2, 3, 4)], {"start_dim": 1}), ([(2, 3, 4)], {"end_dim": -2}), ([()], {})],
    "given": [
        ([], {"shape": [2, 3]}),
        ([], {"shape": 4, "dtype": "f64"}),
        ([], {"shape": [], "dtype": "i32"}),
        *(([], {"shape": [2], "value": value}) for value in SCALARS),
    ],
    "index_select": [
        ([(2, 3), ((4,), "i64")], {"dim": 1}),
        ([(2, 3), ((), "i32")], {"dim": -2}),
        ([(), ((1,), "i64")], {"dim": 0}),
        ([(2, 3), ((4,), "i64")], {"dim": 2}),
    ],
    "linear": [([(5, 2, 3), (4, 3)], {}), ([(3,), (4, 3), (4,)], {})],
    "matmul": [
        ([(2, 3), (3, 4)], {}),
        ([(5, 2, 3), (3,)], {}),
        ([(3,), (7, 3, 2)], {}),
        ([(3,), (3,)], {}),
        ([(5, 3, 2), (1, 4, 3)], {"transpose_a": True, "transpose_b": True}),
        ([(2, 3), ((3, 4), "f32")], {}),
        ([(2, 3), (4, 3)], {}),
    ],
    "one_hot": [([(3, 1)], {"num_classes": 4})],
    "permute": [([(2, 3, 4)], {"dims": [2, 0, -2]}), ([(2, 3, 4)], {"dims": [0, 0, 1]})],
    "range": [
        ([], {"end": 5}),
        ([], {"start": 1, "end": 10, "step": 4}),
        ([], {"start": 3, "end": -1, "step": -1}),
        ([], {"start": 0.5, "end": 3}),
        ([], {"start": 4, "end": 3}),
        ([], {"end": 4, "dtype": "u8"}),
    ],
    "reduced": [
        ([(2, 3, 4)], {}),
        ([(2, 3, 4)], {"dim": 1}),
        ([(2, 3, 4)], {"dim": -1, "keepdim": True}),
        ([(2, 3, 4)], {"dim": [0, 2]}),
        ([(2, 3, 4)], {"dim": []}),
        ([(2, 3, 4)], {"dtype": "f64"}),
        ([(2, 3, 4)], {"dtype": "i16", "dim": 0}),
        ([(2, 3, 4)], {"dim": 3}),
        ([()], {"keepdim": True}),
    ],
    "reshape": [
        ([(2, 3)], {"shape": [3, 2]}),
        ([(2, 3)], {"shape": -1}),
        ([(2, 3)], {"shape": [1, 6, -1]}),
        ([()], {"shape": []}),
        ([(2, 3)], {"shape": 7}),
        ([(2, 3)], {"shape": [4, -1]}),
    ],
    "second": [([(2, 3), ((1, 3), "i64")], {"dim": 0}), ([(2, 3), ((2, 5), "i32")], {"dim": -1})],
    "select": [
        ([(2, 3)], {"dim": 0, "index": 1}),
        ([(2, 3)], {"dim": -1, "index": -3}),
        ([(2, 3)], {"dim": 1, "index": 3}),
    ],
    "slice": [
        ([(7, 3)], {}),
        ([(7, 3)], {"start": 1, "end": -1, "step": 2}),
        ([(7, 3)], {"start": -1, "end": 0, "step": -3}),
        ([(7, 3)], {"dim": -1, "start": 9}),
        ([(7, 3)], {"dim": 2}),
    ],
    "squeeze": [
        ([(1, 3, 1)], {}),
        ([(1, 3, 1)], {"dim": 0}),
        ([(1, 3, 1)], {"dim": [1, 2]}),
        ([(1, 3, 1)], {"dim": []}),
        ([(1, 3, 1)], {"dim": 3}),
    ],
    "steps": [([], {"start": 0, "end": 1, "steps": 5}), ([], {"start": 0.0, "end": 1, "steps": 0, "dtype": "f16"})],
    "take_along_dim": [
        ([(2, 3), ((2, 5), "i64")], {"dim": 1}),
        ([(2, 3), ((4, 1), "i32")], {"dim": 0}),
        ([(2, 3), ((4, 5), "i64")], {}),
        ([(), ((), "i64")], {"dim": 0}),
    ],
    "topk": [([(2, 3)], {"k": 2}), ([(2, 3)], {"k": 1, "dim": 0, "largest": False}), ([()], {"k": 1})],
    "transpose": [([(2, 3, 4)], {"dim0": 0, "dim1": -1}), ([(2, 3, 4)], {"dim0": 0, "dim1": 3})],
    "unsqueeze": [([(2, 3)], {"dim": 0}), ([(2, 3)], {"dim": -1}), ([(2, 3)], {"dim": 3})],
}
STATISTICS: list[tuple[list[Any], dict[str, Any]]] = [
    ([(2, 4, 3), (4,), (4,)], {}),
    ([(2, 4, 3), ((4,), "f64"), ((4,), "f32")], {"training": True}),
    ([(2, 4, 3)], {"training": True, "track_running_stats": False}),
]


def other_calls(name: str, operation: Operation) -> Iterator[Call]:
    cases = STATISTICS if name == "batch_norm" else CASES[operation.results[0][0]]
    for (operands, attributes), dtype in itertools.product(cases, DTYPES):
        if not operands and dtype != DTYPES[0]:
            continue
        typed = [one if one and isinstance(one[-1], str) else (one, dtype) for one in operands]
        types = tuple(TensorType(of, shape) for shape, of in typed)
        yield Call(name, types, {**REQUIRED.get(name, {}), **attributes})


OTHERS = sorted(name for name, operation in OPERATIONS.items() if operation.operands is None and operation.results)


@pytest.mark.parametrize("name", OTHERS)
def test_another_operation_is_typed_as_the_daemon_types_it(client: Client, name: str) -> None:
    calls = list(other_calls(name, OPERATIONS[name]))
    found = refused_in_batches(client, calls)
    assert [call for call in calls if inferred(call.results(client)) is None and call not in found] == []
    assert len(found) < len(calls)


def test_each_rule_of_the_table_is_one_of_the_client() -> None:
    shapes = {shape for operation in OPERATIONS.values() for shape, _ in operation.results}
    dtypes = {dtype for operation in OPERATIONS.values() for _, dtype in operation.results}
    assert (shapes, dtypes) == (_inference._SHAPES.keys(), _inference._DTYPES.keys())
    assert {operation.accepts for operation in OPERATIONS.values()} == ACCEPTED.keys()


@pytest.mark.parametrize(
    ("op", "attributes", "count"),
    [
        ("add", {}, 1),
        ("unknown", {}, 1),
        ("sort", {}, 2),
        ("median", {}, 1),
        ("median", {"dim": 0}, 2),
        ("batch_norm", {}, 1),
        ("batch_norm", {"training": True}, 3),
        ("batch_norm", {"training": True, "track_running_stats": False}, 1),
        ("sgd", {"momentum": 0.0}, 1),
        ("sgd", {"momentum": 0.9}, 2),
        ("adam", {}, 3),
        ("adamw", {"amsgrad": True}, 4),
    ],
)
def test_an_operation_has_as_many_results_as_its_attributes_say(
    op: str, attributes: dict[str, Any], count: int
) -> None:
    assert OPERATIONS.get(op, Operation()).result_count(attributes) == count
