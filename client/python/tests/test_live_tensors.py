"""Lazy tensors computed by a daemon, compared with numpy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from accelerd import Client, DataParallel, InvalidArgumentError, NotFoundError
from accelerd.aio import AsyncClient

RANDOM = np.random.default_rng(11)
X = RANDOM.standard_normal((5, 33)).astype(np.float32)
Y = RANDOM.standard_normal((5, 33)).astype(np.float32)
POSITIVE = np.abs(X) + np.float32(0.1)
UNIT = np.tanh(X)
# Odd, so that none is 0; they fit into 8 bits.
INTEGERS = (2 * RANDOM.integers(-50, 50, (5, 33)) + 1).astype(np.int32)
SHIFTS = RANDOM.integers(0, 8, 33).astype(np.int32)


def close(found: Any, expected: Any) -> None:
    """Compare within the tolerances of torch.testing, with equal types and shapes."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
        return
    rtol, atol = {2: (1e-3, 1e-5), 4: (1.3e-6, 1e-5), 8: (1e-7, 1e-7)}[expected.dtype.itemsize]
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


UNARY: list[tuple[str, Any, Callable[[Any], Any]]] = [
    ("abs", X, np.abs),
    ("acos", UNIT, np.arccos),
    ("acosh", POSITIVE + 1, np.arccosh),
    ("asin", UNIT, np.arcsin),
    ("asinh", X, np.arcsinh),
    ("atan", X, np.arctan),
    ("atanh", UNIT / 2, np.arctanh),
    ("bitwise_invert", INTEGERS, np.invert),
    ("bitwise_invert", X > 0, np.invert),
    ("ceil", X, np.ceil),
    ("cos", X, np.cos),
    ("cosh", X, np.cosh),
    ("exp", X, np.exp),
    ("exp2", X, np.exp2),
    ("expm1", X, np.expm1),
    ("floor", X, np.floor),
    ("isfinite", POSITIVE * np.float32(np.inf), np.isfinite),
    ("isinf", POSITIVE * np.float32(np.inf), np.isinf),
    ("isnan", X * np.float32(np.nan), np.isnan),
    ("log", POSITIVE, np.log),
    ("log10", POSITIVE, np.log10),
    ("log1p", POSITIVE, np.log1p),
    ("log2", POSITIVE, np.log2),
    ("logical_not", X > 0, np.logical_not),
    ("negative", INTEGERS, np.negative),
    ("positive", X, np.positive),
    ("reciprocal", POSITIVE, np.reciprocal),
    ("relu", X, lambda x: np.maximum(x, 0)),
    ("round", X * 3, np.round),
    ("rsqrt", POSITIVE, lambda x: 1 / np.sqrt(x)),
    ("sigmoid", X, lambda x: 1 / (1 + np.exp(-x))),
    ("sign", INTEGERS, np.sign),
    ("signbit", X, np.signbit),
    ("silu", X, lambda x: x / (1 + np.exp(-x))),
    ("sin", X, np.sin),
    ("sinh", X, np.sinh),
    ("sqrt", POSITIVE, np.sqrt),
    ("square", X, np.square),
    ("tan", UNIT, np.tan),
    ("tanh", X, np.tanh),
    ("trunc", X * 3, np.trunc),
]


@pytest.mark.parametrize(("name", "x", "expected"), UNARY, ids=lambda value: value if isinstance(value, str) else "")
def test_functions_of_one_operand(client: Client, name: str, x: Any, expected: Callable[[Any], Any]) -> None:
    close(getattr(client.xp, name)(x).numpy(), expected(x))


BINARY: list[tuple[str, Any, Any, str]] = [
    ("add", X, Y[0], "add"),
    ("atan2", X, Y, "arctan2"),
    ("bitwise_and", INTEGERS, SHIFTS, "bitwise_and"),
    ("bitwise_left_shift", INTEGERS, SHIFTS, "left_shift"),
    ("bitwise_or", INTEGERS, SHIFTS, "bitwise_or"),
    ("bitwise_right_shift", INTEGERS, SHIFTS, "right_shift"),
    ("bitwise_xor", X > 0, Y > 0, "bitwise_xor"),
    ("copysign", X, Y, "copysign"),
    ("divide", X, POSITIVE, "divide"),
    ("equal", INTEGERS, SHIFTS, "equal"),
    ("floor_divide", INTEGERS, SHIFTS + 1, "floor_divide"),
    ("floor_divide", X, POSITIVE, "floor_divide"),
    ("fmod", INTEGERS, SHIFTS + 1, "fmod"),
    ("greater", X, Y, "greater"),
    ("greater_equal", INTEGERS, SHIFTS, "greater_equal"),
    ("hypot", X, Y, "hypot"),
    ("less", X, Y[:, :1], "less"),
    ("less_equal", INTEGERS, SHIFTS, "less_equal"),
    ("logaddexp", X, Y, "logaddexp"),
    ("logical_and", X > 0, Y > 0, "logical_and"),
    ("logical_or", X > 0, Y > 0, "logical_or"),
    ("logical_xor", X > 0, Y > 0, "logical_xor"),
    ("maximum", X, Y, "maximum"),
    ("minimum", INTEGERS, SHIFTS, "minimum"),
    ("multiply", X[:, None], Y, "multiply"),
    ("not_equal", INTEGERS, SHIFTS, "not_equal"),
    ("pow", POSITIVE, Y, "power"),
    ("remainder", INTEGERS, SHIFTS + 1, "remainder"),
    ("subtract", INTEGERS, SHIFTS, "subtract"),
]


@pytest.mark.parametrize(("name", "x", "y", "expected"), BINARY)
def test_functions_of_two_operands_that_broadcast(client: Client, name: str, x: Any, y: Any, expected: str) -> None:
    close(getattr(client.xp, name)(x, y).numpy(), getattr(np, expected)(x, y))


OPERATORS: list[Callable[[Any], Any]] = [
    lambda x: x + 2,
    lambda x: 2 - x,
    lambda x: x * 3,
    lambda x: x // 3,
    lambda x: 100 // x,
    lambda x: x % 7,
    lambda x: -x,
    lambda x: abs(x),
    lambda x: +x,
    lambda x: x == 3,
    lambda x: x != 3,
    lambda x: x < 3,
    lambda x: 3 <= x,  # noqa: SIM300
    lambda x: x > 3,
    lambda x: x >= 3,
]


@pytest.mark.parametrize("array", [INTEGERS, INTEGERS.astype(np.int8), X, X.astype(np.float16), X.astype(np.float64)])
@pytest.mark.parametrize("expression", OPERATORS)
def test_operators_with_a_python_number_keep_the_type(
    client: Client, array: Any, expression: Callable[[Any], Any]
) -> None:
    with np.errstate(over="ignore"):
        close(expression(client.tensor(array)).numpy(), expression(array))


def test_integers_have_bits_and_floats_powers(client: Client) -> None:
    i, x = client.tensor(INTEGERS), client.tensor(X)
    for found, expected in [
        (i & 12, INTEGERS & 12),
        (i | 3, INTEGERS | 3),
        (i ^ 5, INTEGERS ^ 5),
        (~i, ~INTEGERS),
        (i << 2, INTEGERS << 2),
        (i >> 2, INTEGERS >> 2),
        (1 << client.tensor(SHIFTS), 1 << SHIFTS),
        (x / 3, X / 3),
        (1 / client.tensor(POSITIVE), 1 / POSITIVE),
        (x**2, X**2),
        (2**x, 2**X),
        (x + 0.5, X + np.float32(0.5)),
        (i + np.int64(1), INTEGERS + np.int64(1)),
        (X - x, X - X),
        ((x > 0) & (x < 1) | ~(x == x), (X > 0) & (X < 1)),
    ]:
        close(found.numpy(), expected)


@pytest.mark.parametrize(
    ("a", "b"),
    [("i1", "i4"), ("u1", "i1"), ("u4", "i4"), ("?", "u2"), ("f2", "f4"), ("f4", "f8"), ("u8", "u4"), ("?", "f2")],
)
def test_types_promote_as_in_numpy(client: Client, a: str, b: str) -> None:
    one, other = np.arange(5).astype(a), np.arange(5, 0, -1).astype(b)
    close((client.tensor(one) * other).numpy(), one * other)


def test_an_integer_takes_the_type_of_a_float(client: Client) -> None:
    close((client.tensor(INTEGERS) * X).numpy(), (INTEGERS * X).astype(np.float32))
    close((client.tensor(INTEGERS) + 0.5).numpy(), (INTEGERS + 0.5).astype(np.float32))
    with pytest.raises(InvalidArgumentError, match="add_2"):
        (client.tensor(np.arange(3, dtype=np.uint64)) + np.arange(3)).numpy()


VIEWS: list[Callable[[Any], Any]] = [
    lambda x: x[1],
    lambda x: x[-1, ..., ::-1],
    lambda x: x[:, 1:, None, ::2],
    lambda x: x[..., 5:2:-1],
    lambda x: x[1:1],
    lambda x: x.mT if not isinstance(x, np.ndarray) else np.swapaxes(x, -1, -2),
    lambda x: x[0].T,
    lambda x: x.reshape(-1, 4),
    lambda x: x.reshape((2, 12)),
    lambda x: x[..., :2].reshape(-1),
]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", ["?", "i2", "f8"])
def test_views_are_those_of_numpy(client: Client, view: Callable[[Any], Any], dtype: str) -> None:
    cube = np.arange(24).reshape(2, 3, 4).astype(dtype)
    close(view(client.tensor(cube)).numpy(), view(cube))


def test_functions_that_move_elements(client: Client) -> None:
    xp, cube = client.xp, X[:4, :6].reshape(2, 3, 4)
    for found, expected in [
        (xp.permute_dims(cube, (2, 0, 1)), cube.transpose(2, 0, 1)),
        (xp.swapaxes(cube, 0, -1), cube.swapaxes(0, -1)),
        (xp.matrix_transpose(cube), cube.swapaxes(-1, -2)),
        (xp.expand_dims(cube, axis=-1), cube[..., None]),
        (xp.squeeze(cube[:, :1], axis=1), cube[:, 0]),
        (xp.flip(cube, axis=(0, 2)), cube[::-1, :, ::-1]),
        (xp.broadcast_to(cube[0, 0], (5, 4)), np.broadcast_to(cube[0, 0], (5, 4))),
        (xp.concat([cube, cube[:1]]), np.concatenate([cube, cube[:1]])),
        (xp.take(cube, np.array([1, 0, 1])), cube[[1, 0, 1]]),
        (xp.take_along_axis(cube, cube.argsort(1), axis=1), np.sort(cube, 1)),
        (xp.sort(cube, axis=0, descending=True), np.sort(cube, 0)[::-1]),
        (xp.argsort(cube, axis=1), cube.argsort(1, kind="stable")),
        (xp.cumulative_sum(cube, axis=2, dtype="f64"), cube.cumsum(2, np.float64)),
        (xp.concat([cube, cube[0]], axis=None), np.concatenate([cube, cube[0]], axis=None)),
        (xp.stack([cube[0], cube[1]], axis=-1), np.stack([cube[0], cube[1]], axis=-1)),
        (xp.where(cube > 0, cube, 0), np.where(cube > 0, cube, np.float32(0))),
        (xp.where(cube > 0, -1.0, cube), np.where(cube > 0, np.float32(-1), cube)),
        (xp.where(cube > 0, cube, cube[0]), np.where(cube > 0, cube, cube[0])),
        (xp.clip(cube, -0.5, 0.5), np.clip(cube, -0.5, 0.5)),
        (xp.clip(cube), cube),
        (xp.clip(cube, max=0), np.minimum(cube, 0)),
        (xp.clip(cube, -1, cube[0]), np.minimum(np.maximum(cube, -1), cube[0])),
        (xp.clip(cube, max=cube[0]), np.minimum(cube, cube[0])),
    ]:
        close(found.numpy(), expected)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), [1]])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "min", "std", "var"])
def test_reductions(client: Client, name: str, axis: Any, keepdims: bool) -> None:
    cube = X[:4, :30].reshape(4, 5, 6)
    expected = getattr(cube.astype(np.float64), name)(
        tuple(axis) if isinstance(axis, list) else axis, keepdims=keepdims
    )
    close(getattr(client.tensor(cube), name)(axis, keepdims=keepdims).numpy(), expected.astype(np.float32))


def test_reductions_of_other_types(client: Client) -> None:
    i, b = client.tensor(INTEGERS), client.tensor(X > 0)
    for found, expected in [
        (i.sum(axis=0), INTEGERS.sum(axis=0, dtype=np.int64)),
        (i.max(), INTEGERS.max()),
        (i.argmax(axis=1), INTEGERS.argmax(axis=1)),
        (client.tensor(X).argmin(), X.argmin()),
        (b.all(axis=1), (X > 0).all(axis=1)),
        (b.any(), (X > 0).any()),
        (b.sum(), (X > 0).sum()),
        (i.sum(dtype="f64"), INTEGERS.sum(dtype=np.float64)),
        (client.tensor(X).var(correction=1), X.astype(np.float64).var(ddof=1).astype(np.float32)),
        (client.xp.norm(X, axis=1), np.linalg.norm(X.astype(np.float64), axis=1).astype(np.float32)),
        (client.xp.logsumexp(X, axis=1), np.log(np.exp(X.astype(np.float64)).sum(axis=1)).astype(np.float32)),
        (client.xp.sum(np.zeros((0, 3), np.float32), axis=0), np.zeros(3, np.float32)),
    ]:
        close(found.numpy(), expected)
    with pytest.raises(InvalidArgumentError, match=r"amax_1 is amax\(f32\[0\]\)"):
        client.xp.max(np.zeros(0, np.float32)).numpy()


@pytest.mark.parametrize(
    ("a", "b"),
    [((3, 4), (4, 5)), ((4,), (4,)), ((4,), (4, 5)), ((2, 3, 4), (4,)), ((2, 1, 3, 4), (6, 4, 1)), ((0, 4), (4, 5))],
)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
def test_products_of_matrices(client: Client, a: Any, b: Any, dtype: str) -> None:
    left, right = (RANDOM.integers(-9, 9, shape).astype(dtype) for shape in (a, b))
    close((client.tensor(left) @ right).numpy(), left @ right)


def test_layers_of_neural_networks(client: Client) -> None:
    xp, rows = client.xp, X.astype(np.float64)
    weight, bias, scale = Y[:3].astype(np.float64), np.arange(3.0), POSITIVE[0].astype(np.float64)
    powers = np.exp(rows - rows.max(-1, keepdims=True))
    softmax = powers / powers.sum(-1, keepdims=True)
    centered = rows - rows.mean(-1, keepdims=True)
    normalized = centered / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
    root = np.sqrt(np.square(rows).mean(-1, keepdims=True) + 1e-6)
    for found, expected in [
        (xp.softmax(rows), softmax),
        (xp.log_softmax(rows, axis=-1), np.log(softmax)),
        (xp.linear(rows, weight), rows @ weight.T),
        (xp.linear(rows, weight, bias, activation="relu"), np.maximum(rows @ weight.T + bias, 0)),
        (xp.matmul(rows, weight, transpose_b=True), rows @ weight.T),
        (xp.layer_norm(rows), normalized),
        (xp.layer_norm(rows, scale, scale), normalized * scale + scale),
        (xp.rms_norm(rows, scale, eps=1e-6), rows / root * scale),
        (xp.leaky_relu(rows, negative_slope=0.25), np.where(rows > 0, rows, rows / 4)),
    ]:
        close(found.numpy(), expected)
    close((xp.erf(rows) + xp.erfc(rows)).numpy(), np.ones_like(rows))
    exact, tanh = client.execute(xp.gelu(X), client.op("gelu", X, approximate="tanh"))
    np.testing.assert_allclose(exact, tanh, atol=2e-3)
    assert (exact != tanh).any()


def test_attention(client: Client) -> None:
    attend = client.xp.scaled_dot_product_attention
    query, key, value = (RANDOM.standard_normal((2, 3, rows, 4)) for rows in (5, 7, 7))
    mask = RANDOM.random((5, 7)) < 0.7
    mask[3] = False
    by_key = np.arange(7) < np.array([4, 0])[:, None, None, None]
    causal = np.tril(np.ones((5, 7), bool))
    for found, scale, takes_part in [
        (attend(query, key, value), 0.5, True),
        (attend(query, key, value, mask, scale=0.25), 0.25, mask),
        (attend(query, key, value, np.where(mask, 0.0, -np.inf)), 0.5, mask),
        (attend(query, key, value, is_causal=True), 0.5, causal),
        (attend(query, key, value, mask, lengths=np.array([4, 0])), 0.5, mask & by_key),
    ]:
        powers = np.where(takes_part, np.exp(query @ np.swapaxes(key, -1, -2) * scale), 0)
        sums = powers.sum(-1, keepdims=True)
        close(found.numpy(), powers / np.where(sums == 0, 1, sums) @ value)
    with pytest.raises(InvalidArgumentError, match="a last extent of 4"):
        attend(query, key[..., :3], value).numpy()


def test_generators(client: Client) -> None:
    xp = client.xp
    for found, expected in [
        (xp.arange(5), np.arange(5)),
        (xp.arange(2, 9, 3, dtype="i32"), np.arange(2, 9, 3, dtype=np.int32)),
        (xp.arange(0, 1, 0.25), np.arange(0, 1, 0.25, dtype=np.float32)),
        (xp.linspace(0, 1, 5), np.linspace(0, 1, 5, dtype=np.float32)),
        (xp.full((2, 3), 7), np.full((2, 3), 7)),
        (xp.full(2, True), np.full(2, True)),
        (xp.zeros((2, 0)), np.zeros((2, 0), np.float32)),
        (xp.ones((), dtype=xp.uint8), np.ones((), np.uint8)),
    ]:
        close(found.numpy(), expected)


def test_conversions(client: Client) -> None:
    numbers = np.array([-1.5, 0.0, 2.75, 100.0], np.float32)
    x = client.tensor(numbers)
    for name, dtype in [("f64", "f8"), ("f16", "f2"), ("i32", "i4"), ("bool", "?"), ("float32", "f4")]:
        close(x.to(name).numpy(), numbers.astype(dtype))
    brief = client.tensor(np.float32(1) + np.float32(2) ** -np.arange(5, 10), dtype="bf16")
    found = brief.numpy()
    # bfloat16 has 8 bits of precision; ties go to the even neighbour.
    np.testing.assert_array_equal(found, np.float32([1.03125, 1.015625, 1.0078125, 1, 1]))
    assert (found.dtype, brief.dtype) == (np.float32, "bf16")
    np.testing.assert_array_equal((brief + brief).to("f32").numpy(), 2 * found)


def test_a_chain_of_operations_is_one_call(client: Client) -> None:
    x = client.tensor(X)
    normal = (x - x.mean(axis=0)) / x.std(axis=0)
    with client.graph() as graph:
        covariance = graph.output(normal.T @ normal / len(X))
        top = graph.output(normal.max(axis=0))
    expected = (X - X.mean(axis=0)) / X.std(axis=0)
    np.testing.assert_allclose(covariance, expected.T @ expected / len(X), atol=1e-4)
    np.testing.assert_allclose(top, expected.max(axis=0), rtol=1e-4)


def test_an_error_says_which_expression_is_meant(client: Client) -> None:
    x = client.tensor(X)
    for wrong, pattern in [
        (lambda: x + np.ones(7), r"add_2 is add\(f32\[5, 33\], f64\[7\]\) at .*test_live_tensors.py:\d+"),
        (lambda: (x * 2).sum(axis=5), r"sum_2 is sum\(mul\(f32\[5, 33\], other=2\), dim=5\)"),
        (lambda: client.op("select", x, dim=0, index=99) + 1, r"select_1 is select\(f32\[5, 33\], dim=0, index=99\)"),
        (lambda: client.op("select", x[0, 0], dim=0, index=0), "select_3 is select"),
        (lambda: client.op("tanhh", x), r"tanhh_1 is tanhh\(f32\[5, 33\]\)"),
        (lambda: client.op("exp", x, base=2), r"exp_1 is exp\(f32\[5, 33\], base=2\)"),
        (lambda: client.op("sum", x, keepdim=3), r"attributes.keepdim.*sum_1 is sum"),
        (lambda: x.reshape(7), r"reshape_1 is reshape\(f32\[5, 33\], shape=\[7\]\)"),
    ]:
        with pytest.raises(InvalidArgumentError, match=pattern) as refused:
            wrong().numpy()
        assert refused.value.violations


def test_graphs_above_the_message_limit_are_uploaded_and_freed(server: str) -> None:
    with Client(server, timeout=30, max_message_bytes=20_000) as small:
        before = {tensor.handle for tensor in small.list_tensors()}
        assert small.tensor(np.ones(4_000, np.float32)).sum().numpy() == 4_000
        assert small.tensor(np.ones(400_000, np.float32)).sum().numpy() == 400_000
        assert {tensor.handle for tensor in small.list_tensors()} <= before


def test_the_asyncio_client_computes_the_same(server: str) -> None:
    async def run() -> None:
        async with AsyncClient(server, timeout=30) as client:
            x = client.tensor(X)
            found = await asyncio.gather(x.sum().numpy(), (x @ x.mT).numpy())
            np.testing.assert_allclose(found[0], X.sum(), rtol=1e-4)
            np.testing.assert_allclose(found[1], X @ X.T, rtol=1e-4, atol=1e-4)
            with pytest.raises(InvalidArgumentError, match="add_2 is add"):
                await (x + np.ones(7))

    asyncio.run(run())


@pytest.mark.parametrize("dtype", ["?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (5, 33)])
def test_uploaded_arrays_come_back(client: Client, dtype: str, shape: tuple[int, ...]) -> None:
    array = np.resize(X * 10, shape).astype(dtype)
    with client.upload(array, ttl=60) as tensor:
        assert (tensor.shape, tensor.dtype) == (array.shape, array.dtype)
        close(tensor.numpy(), array)


def test_an_optimiser_keeps_its_state_on_the_daemon(client: Client) -> None:
    before = {one.handle for one in client.list_tensors()}
    weights, momentum = client.upload(X), client.upload(np.zeros_like(X))
    expected, velocity = X.copy(), np.zeros_like(X)
    for _ in range(3):
        next_momentum = momentum * 0.9 + weights
        next_weights = weights - next_momentum * 0.125
        client.keep(next_weights, next_momentum, ttl=60)
        client.free(weights, momentum)
        weights, momentum = next_weights, next_momentum
        velocity = velocity * np.float32(0.9) + expected
        expected = expected - velocity * np.float32(0.125)
    close(weights.numpy(), expected)
    close(((weights - momentum) * Y).numpy(), (expected - velocity) * Y)
    assert len([one for one in client.list_tensors() if one.handle not in before]) == 2
    client.free(weights, momentum)
    with pytest.raises(NotFoundError, match="does not exist"):
        weights.numpy()


def test_an_array_above_the_message_limit_is_uploaded(server: str) -> None:
    with Client(server, timeout=60, max_message_bytes=100_000) as small:
        array = np.arange(1_000_000, dtype=np.int64)
        with small.upload(array) as tensor:
            assert int(tensor.sum()) == array.sum()
            np.testing.assert_array_equal(tensor.numpy(), array)


def test_data_parallel_calls_compute_what_one_device_does(client: Client) -> None:
    before = {one.handle for one in client.list_tensors()}
    rows, weights = client.upload(X), client.upload(Y.T.copy())
    expected = client.xp.softmax(rows @ weights, axis=-1).numpy()
    scores = client.xp.softmax(rows @ weights, axis=-1)
    mean, columns = (rows * rows).mean(), client.tensor(X) + 1
    parallel = DataParallel([rows], ["cpu"] * 3, mean=[mean])
    found = client.execute(scores, mean, data_parallel=parallel)
    np.testing.assert_array_equal(found[0], expected)
    close(found[1], (X * X).mean())
    by_columns = DataParallel([(X, 1)], ["cpu"] * 2, concat=[(columns, 1)])
    np.testing.assert_array_equal(client.execute(columns, data_parallel=by_columns)[0], X + 1)
    total = (rows @ weights).sum()
    client.keep(total, data_parallel=DataParallel([rows], ["cpu"] * 2, sum=[total]))
    assert total.resident is not None and total.resident.device == "cpu"
    np.testing.assert_allclose(float(total), (X @ Y.T).sum(), rtol=1e-4)
    client.free(total, rows, weights)
    assert {one.handle for one in client.list_tensors()} <= before
    with pytest.raises(InvalidArgumentError, match=r"shard 0 of 2, on cpu: .*softmax"):
        wrong = client.op("softmax", client.tensor(X), dim=2)
        client.execute(wrong, data_parallel=DataParallel([X], ["cpu"] * 2))


def running_extremes(row: Any, is_max: bool) -> tuple[list[Any], list[int]]:
    """PyTorch's rule: a later element wins if it is NaN, or if no NaN came before and it is not exceeded."""
    values, indices = [], []
    best, at = row[0], 0
    for nth, x in enumerate(row):
        if np.isnan(x) or (not np.isnan(best) and (x >= best if is_max else x <= best)):
            best, at = x, nth
        values.append(best)
        indices.append(at)
    return values, indices


@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_cumulative_extremes_have_the_last_index_of_equal_values(client: Client, name: str) -> None:
    nan, inf = np.nan, np.inf
    rows = [[3, 1, 3, 5, 5, 2, 5, -1], [2, 2, nan, 7, nan, -inf, 0, inf], [-inf, -inf, 0, -0.0, 0, -inf, inf, inf]]
    for dtype, of in [
        ("f4", rows),
        ("f2", rows),
        ("f8", rows),
        ("i1", rows[:1]),
        ("u8", [[3, 1, 3, 5]]),
        ("?", [[0, 1, 0, 1]]),
    ]:
        given = np.array(of).astype(dtype)
        expected = [running_extremes(row, name == "cummax") for row in given]
        for axis, array in ((1, given), (0, given.T), (-2, np.repeat(given[:, :, None], 20, 2))):
            values, indices = (one.numpy() for one in getattr(client.xp, name)(array, axis=axis))
            assert (values.dtype, indices.dtype) == (given.dtype, np.int64)
            for found, nth in ((values, 0), (indices, 1)):
                rows_found = found if axis == 1 else found.T if axis == 0 else found[:, :, 7]
                np.testing.assert_array_equal(rows_found, [one[nth] for one in expected])
    values, indices = client.op("cummax", np.float32(2.5), dim=0)
    assert (float(values), int(indices), indices.shape) == (2.5, 0, ())


def test_sums_over_concatenations_of_computed_arrays_are_numpys(client: Client) -> None:
    """Rank statistics of scipy join two samples, and read the parts, their order and their sums in one graph."""

    def statistic(xp: Any, x: Any, y: Any) -> Any:
        x, y = xp.abs(x - xp.mean(x)), xp.abs(y - xp.mean(y))
        joined = xp.concat((x, y))
        order = xp.argsort(joined, stable=True)
        ranked = xp.take(joined, order)
        steps = xp.cumulative_sum(xp.where(order < x.shape[0], 1.0 / x.shape[0], -1.0 / y.shape[0]))
        return xp.stack((xp.sum(x * ranked[: x.shape[0]]), xp.sum(ranked * joined), xp.max(xp.abs(steps)), xp.sum(y)))

    random = np.random.default_rng(40)
    for x_size, y_size in ((40, 40), (40, 33), (7, 200)):
        x, y = random.normal(size=x_size), random.normal(size=y_size)
        got = statistic(client.xp, client.xp.asarray(x), client.xp.asarray(y)).numpy()
        np.testing.assert_allclose(got, statistic(np, x, y), rtol=1e-6)
