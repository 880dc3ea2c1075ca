"""The Array API namespace against array-api-strict: equal calls have equal values, element types and shapes."""

from __future__ import annotations

import asyncio
import copy
import pickle
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import numpy as np
import pytest
from array_api_cases import ABSENT, ALL, CASES, COMPLEX, INDICES, LATER, SHAPES, UNORDERED, Call, X, array

from accelerd import Client, InvalidArgumentError, Tensor
from accelerd.aio import AsyncClient

strict: Any = pytest.importorskip("array_api_strict")
#: Results that one call computes.
BATCH = 500


@pytest.fixture(scope="module", autouse=True)
def version() -> Iterator[None]:
    strict.set_array_api_strict_flags(api_version="2024.12")
    yield
    strict.reset_array_api_strict_flags()


def strictly(argument: Any) -> Any:
    """An argument of numpy as one of array-api-strict."""
    if isinstance(argument, np.dtype):
        return getattr(strict, argument.name)
    if isinstance(argument, (list, tuple)):
        return type(argument)(strictly(one) for one in argument)
    if isinstance(argument, dict):
        return {name: strictly(one) for name, one in argument.items()}
    return strict.asarray(argument) if isinstance(argument, (np.ndarray, np.generic)) else argument


def lazily(client: Client, argument: Any) -> Any:
    """An argument of numpy with lazy tensors."""
    if isinstance(argument, (list, tuple)):
        return type(argument)(lazily(client, one) for one in argument)
    if isinstance(argument, dict):
        return {name: lazily(client, one) for name, one in argument.items()}
    return client.tensor(argument) if isinstance(argument, (np.ndarray, np.generic)) else argument


def flat(result: Any) -> list[Any]:
    """The results of a function that may have several."""
    return list(result) if isinstance(result, (list, tuple)) else [result]


def plain(result: Any) -> Any:
    """A result of a function that does not return tensors: attributes for an object that has them."""
    if hasattr(result, "bits"):
        names = ("bits", "eps", "max", "min", "smallest_normal")
        return {name: float(getattr(result, name)) for name in names if hasattr(result, name)}
    return str(getattr(result, "_np_dtype", result))


def described(call: Call) -> str:
    def one(value: Any) -> str:
        return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)

    return ", ".join([*map(one, call.args), *(f"{name}={one(value)}" for name, value in call.kwargs.items())])


def close(found: Any, expected: Any) -> None:
    """Compare within the tolerances of torch.testing; NaN is equal to itself."""
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(found, expected)
        return
    rtol, atol = {2: (1e-3, 1e-5), 4: (1.3e-6, 1e-5), 8: (1e-7, 1e-7)}[expected.dtype.itemsize]
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


def differences(client: Client, pairs: list[tuple[str, Any, Any]]) -> list[str]:
    """What differs between tensors and arrays of array-api-strict: types before the computation, then values."""
    found = []
    for what, ours, theirs in pairs:
        expected = np.asarray(theirs)
        if (ours.shape, ours.dtype) != (expected.shape, expected.dtype):
            found.append(f"{what}: {ours.dtype}{ours.shape}, expected {expected.dtype}{expected.shape}")
    for start in range(0, len(pairs), BATCH):
        batch = pairs[start : start + BATCH]
        for (what, _, theirs), value in zip(batch, client.execute(*(ours for _, ours, _ in batch)), strict=True):
            expected = np.asarray(theirs)
            try:
                assert (value.shape, value.dtype) == (expected.shape, expected.dtype)
                close(value, expected)
            except AssertionError as wrong:
                found.append(f"{what}: {wrong}")
    return found


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value")
@pytest.mark.parametrize("name", sorted(CASES))
def test_a_function_does_what_array_api_strict_does(client: Client, name: str) -> None:
    pairs: list[tuple[str, Any, Any]] = []
    for call in CASES[name]():
        what = f"{name}({described(call)})"
        with np.errstate(all="ignore"):
            theirs = getattr(strict, name)(*strictly(call.args), **strictly(call.kwargs))
        ours = getattr(client.xp, name)(*lazily(client, call.args), **lazily(client, call.kwargs))
        if not any(isinstance(one, Tensor) for one in flat(ours)):
            assert flat(plain(ours)) == flat(plain(theirs)) or ours == [] == list(theirs), what
            continue
        assert len(flat(ours)) == len(flat(theirs)), what
        is_like_empty = name.startswith("empty")
        for one, other in zip(flat(ours), flat(theirs), strict=True):
            pairs.append((what, one, strict.zeros_like(other) if is_like_empty else other))
    assert not differences(client, pairs)


def test_every_function_of_the_standard_is_compared_or_absent_for_a_reason(client: Client) -> None:
    constants = {"e", "inf", "nan", "newaxis", "pi"}
    types = {name for name in strict.__all__ if isinstance(getattr(strict, name), type(strict.float32))}
    extensions = {"fft", "linalg"}
    functions = {name for name in strict.__all__ if not name.startswith("_") and "flags" not in name.lower()}
    functions -= constants | types | extensions | COMPLEX | LATER | UNORDERED | {"Device"}
    assert functions - set(CASES) - set(ABSENT) == set()
    assert [name for name in ABSENT if hasattr(client.xp, name)] == []
    for name in constants:
        np.testing.assert_equal(getattr(client.xp, name), getattr(strict, name))
    assert {name for name in types if not hasattr(client.xp, name)} == {"complex64", "complex128"}


def test_real_numbers_have_no_imaginary_part(client: Client) -> None:
    xp, x = client.xp, client.tensor(np.array([1.5, -np.inf, np.nan], np.float32))
    pairs = [("conj", xp.conj(x), x.numpy()), ("real", xp.real(x), x.numpy())]
    assert not differences(client, [*pairs, ("imag", xp.imag(x), np.zeros(3, np.float32))])


@pytest.mark.parametrize("index", INDICES, ids=lambda index: described(Call((index,))))
def test_an_index_selects_what_numpy_selects(client: Client, index: Any) -> None:
    tensor = client.tensor(X)
    assert not differences(client, [("given", tensor[index], X[index])])
    lazy = lazily(client, index)
    assert not differences(client, [("tensor", tensor[lazy], X[index])])


@pytest.mark.parametrize(
    "index", [*INDICES[:6], X[:, 0, 0] > 0, X > 0, ...], ids=lambda index: described(Call((index,)))
)
def test_an_assignment_changes_what_numpy_changes(client: Client, index: Any) -> None:
    tensor, before, expected = client.tensor(X), client.tensor(X), X.copy()
    shared = tensor + 0
    alias = tensor * 1
    values: list[Any] = [7, 2.5]
    if not isinstance(index, np.ndarray):
        values += [np.arange(X[index].size, dtype=np.float64).reshape(X[index].shape)]
    for value in values:
        tensor[index] = value
        expected[index] = value
        assert not differences(client, [("assigned", tensor, expected)])
    assert not differences(client, [("shared", shared, X), ("alias", alias, X), ("before", before, X)])


def test_the_namespace_says_what_it_has(client: Client) -> None:
    x = client.tensor(X)
    xp = x.__array_namespace__(api_version="2024.12")
    info = xp.__array_namespace_info__()
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}
    assert (info.default_device(), info.devices(), x.device) == ("default", ["default"], "default")
    assert info.default_dtypes() == {"real floating": np.float32, "integral": np.int64, "indexing": np.int64}
    assert set(info.dtypes(kind="signed integer")) == {"int8", "int16", "int32", "int64"}
    assert set(info.dtypes(kind=("bool", "real floating"))) == {"bool", "float32", "float64"}
    with pytest.raises(ValueError, match=r"api_version: expected '2023.12' or '2024.12', got '2020'"):
        x.__array_namespace__(api_version="2020")
    with pytest.raises(ValueError, match="device: expected None or 'default', got 'cuda:0'"):
        xp.zeros(3, device="cuda:0")


def test_the_standards_defaults_are_float32_and_int64(client: Client) -> None:
    xp = client.xp
    types = [xp.asarray(1.5), xp.asarray([[1.0]]), xp.ones(2), xp.linspace(0, 1, 3), xp.full(2, 0.5), xp.eye(2)]
    assert {one.dtype for one in types} == {np.dtype(np.float32)}
    assert {one.dtype for one in (xp.asarray(1), xp.arange(3), xp.full(2, 3))} == {np.dtype(np.int64)}
    assert xp.asarray(np.ones(2)).dtype == xp.asarray([1.0], dtype="f64").dtype == np.float64
    assert (xp.asarray([2**63]).dtype, int(xp.full((), 2**63, dtype=xp.uint64))) == (np.uint64, 2**63)
    assert int(client.tensor(np.uint64(1)) + 2**63) == 2**63 + 1
    assert (xp.finfo("bf16").eps, xp.finfo(xp.float16).max, xp.iinfo("u64").max) == (2**-7, 65504.0, 2**64 - 1)
    assert xp.result_type("bf16", xp.float16) == np.float32
    for wrong in (lambda: xp.result_type(xp.int64, xp.uint64), lambda: xp.finfo("i32"), lambda: xp.iinfo("f32")):
        with pytest.raises(TypeError):
            wrong()
    assert not xp.can_cast(xp.int64, xp.uint64) and not xp.can_cast(xp.int8, xp.float32)


def test_python_gets_numbers_of_scalars(client: Client) -> None:
    scalar = client.xp.asarray(3)
    assert (int(scalar), float(scalar), complex(scalar), bool(scalar), [1, 2, 3, 4][scalar]) == (
        3,
        3.0,
        3 + 0j,
        True,
        4,
    )
    scalar += 1
    scalar *= 2
    assert (int(scalar), scalar.size, scalar.dtype) == (8, 1, np.int64)
    with pytest.raises(TypeError):
        [1, 2][client.xp.asarray(0.5)]


def test_shapes_and_types_are_known_before_the_computation(client: Client) -> None:
    x = client.tensor(X)
    for found in [
        *client.op("topk", x, k=2, dim=1),
        *client.op("var_mean", x, dim=[0, 2], keepdim=True),
        client.op("flatten", x, start_dim=1),
        client.op("div", x, x, rounding_mode="floor"),
        client.op("embedding", x[0], np.array([[0, 2]])),
        client.op("one_hot", np.array([0, 1]), num_classes=5),
        client.op("linear", x, X[0]),
        client.op("matmul", x, x, transpose_b=True),
        client.op("randint", high=5, shape=[2, 3], seed=1),
        client.op("gather", x, np.zeros((2, 1, 4), np.int64), dim=1),
        client.op("logsumexp", np.arange(3), dim=0),
        client.op("lerp", x, x, weight=0.5),
        client.xp.softmax(x).to("bf16"),
        client.xp.layer_norm(x),
    ]:
        expected = (found.shape, found.dtype)
        client.keep(found)
        assert (found.shape, found.dtype) == expected
        found.free()
    unknown = client.op("mse_loss", x, x)
    with pytest.raises(AttributeError, match=r"shape: known once the tensor is computed, .*: mse_loss"):
        unknown.shape  # noqa: B018
    with pytest.raises(ValueError, match="x: expected a tensor of known shape"):
        client.xp.flip(unknown)
    assert client.xp.flip(client.tensor(unknown.numpy())).shape == ()


REDUCTIONS = [
    *(lambda x, f=f: f(x) for f in (np.sum, np.prod, np.mean, np.std, np.var, np.max, np.min, np.argmax)),
    lambda x: np.sum(x, axis=(0, 2), dtype=np.float64, keepdims=True),
    lambda x: np.prod(x, axis=1, out=None),
    lambda x: np.std(x, axis=0, ddof=1),
    lambda x: np.var(x, ddof=1.5, keepdims=True),
    lambda x: x.std(ddof=1),
    lambda x: x.sum(out=None),
]


@pytest.mark.parametrize("reduced", REDUCTIONS)
def test_the_reductions_of_numpy_take_tensors(client: Client, reduced: Any) -> None:
    x = X.astype(np.float64) / 10
    np.testing.assert_allclose(reduced(client.tensor(x)).numpy(), reduced(x), rtol=1e-12)


def test_what_numpy_passes_to_reductions_and_tensors_lack_is_refused(client: Client) -> None:
    x = client.tensor(X)
    for reduction in (np.sum, np.mean, np.var):
        with pytest.raises(TypeError, match="out: expected None, got ndarray; a reduction returns a tensor of its own"):
            reduction(x, out=np.zeros(()))
    with pytest.raises(ValueError, match="ddof: expected None with a correction, got 1"):
        client.xp.var(x, correction=1.0, ddof=1)


def test_what_depends_on_values_computes_them(client: Client) -> None:
    xp, x = client.xp, client.tensor(X)
    assert not differences(client, [("mask", x[x > 0], X[X > 0]), ("row", x[1][x[0] > x[1]], X[1][X[0] > X[1]])])
    counts = client.tensor(np.array([1, 2])) + 1
    assert not differences(client, [("repeat", xp.repeat(x, counts, axis=0), np.repeat(X, [2, 3], axis=0))])
    with client.upload(X > 0) as kept:
        assert not differences(client, [("resident", x[kept], X[X > 0])])
        assert kept.resident is not None


def test_a_mask_without_dimensions_selects_all_or_nothing(client: Client) -> None:
    for value, chosen in product((np.float32(2.5), X), (True, False)):
        x, mask = client.tensor(value), client.tensor(np.array([0, chosen])).max() > 0
        assert not differences(client, [("read", x[mask], np.asarray(value)[np.array(chosen)])])
        expected = np.array(value)
        for given in (7, np.full((1, *np.shape(value)), 3.5), np.ones((int(chosen), *np.shape(value)))):
            x[mask] = given
            expected[np.array(chosen)] = given
        assert not differences(client, [("assigned", x, expected)])
    with pytest.raises(IndexError, match="index 1: expected a mask that has dimensions among several items"):
        client.tensor(X)[0, np.array(True)]


ASSIGNED = [X > 0, X < 0, X > 9, X[:, 0, 0] > -9, X[:, :, 0] > 0, *INDICES[6:15], *INDICES[16:17], *INDICES[18:]]


@pytest.mark.parametrize("index", ASSIGNED, ids=lambda index: described(Call((index,))))
def test_an_assignment_under_masks_and_indices_is_numpys(client: Client, index: Any) -> None:
    target = X[index].shape
    for at, shape in enumerate([target, target[-1:], (1, 1, *target), (1,) * len(target), ()]):
        value = np.random.default_rng(at).standard_normal(shape)
        for lazy in (False, True):
            x, expected = client.tensor(X), X.copy()
            x[lazily(client, index) if lazy else index] = client.tensor(value) + 0 if lazy else value
            # numpy ignores leading dimensions of extent 1, except under a mask of all dimensions.
            expected[index] = value.reshape(shape[max(0, len(shape) - len(target)) :])
            assert not differences(client, [("assigned", x, expected)])


def test_a_value_for_all_elements_under_a_mask_needs_no_mask(client: Client) -> None:
    x, before = client.tensor(X), client.stats()
    x[x > 0] = 0.0
    x[x[:, 0, 0] < 0] = np.arange(4.0)
    expected = np.where(X > 0, 0.0, X)
    expected[expected[:, 0, 0] < 0] = np.arange(4.0)
    assert not differences(client, [("assigned", x, expected.astype(np.float32))])
    counts = [sum(lane.request_count for lane in stats.lanes) for stats in (before, client.stats())]
    assert counts[1] - counts[0] == 1


@pytest.mark.parametrize("dtype", [*ALL, "f2"])
def test_distinct_elements_are_those_of_the_standard(client: Client, dtype: str) -> None:
    for at, shape in enumerate(SHAPES):
        given = array(dtype, shape, at, -3, 3)
        x = client.tensor(given) if at % 2 else client.tensor(given) + client.tensor(np.zeros((), dtype))
        with np.errstate(all="ignore"):
            values, indices, inverse, counts = np.unique(given, True, True, True, equal_nan=False)
        integers = [one.astype(np.int64) for one in (indices, inverse.reshape(shape), counts)]
        found = client.xp.unique_all(x)
        assert found._fields == ("values", "indices", "inverse_indices", "counts")
        by_name = dict(zip(found._fields, [values, *integers], strict=True))
        for few in (client.xp.unique_counts(x), client.xp.unique_inverse(x)):
            pairs = [(name, one, by_name[name]) for name, one in few._asdict().items()]
            assert not differences(client, [*pairs, *((name, getattr(found, name), by_name[name]) for name in by_name)])
        assert not differences(client, [("values", client.xp.unique_values(x), values)])
        np.testing.assert_array_equal(found.values.numpy()[found.inverse_indices.numpy()], given)


def test_distinct_elements_have_the_names_and_types_of_array_api_strict(client: Client) -> None:
    given = np.array([[np.nan, 2.0, -0.0], [0.0, np.nan, 2.0]], np.float32)
    for name in UNORDERED:
        ours, theirs = getattr(client.xp, name)(client.tensor(given)), getattr(strict, name)(strict.asarray(given))
        if name != "unique_values":
            assert ours._fields == theirs._fields
        types = [[(one.shape, str(one.dtype).split(".")[-1]) for one in flat(both)] for both in (ours, theirs)]
        assert types[0] == types[1]
    brain = client.tensor(np.array([1.5, 0.5, 1.5], np.float32)).to("bf16")
    assert client.xp.unique_values(brain).dtype == "bf16"
    assert client.xp.unique_counts(brain).counts.numpy().tolist() == [1, 2]


def test_indices_and_values_that_do_not_fit_are_refused(client: Client) -> None:
    xp, x = client.xp, client.tensor(X)
    for wrong in (np.ones(3, bool), (..., np.ones((2, 3), bool)), (0, np.ones((2, 3), bool))):
        with pytest.raises(IndexError, match=r"index \d: expected a mask of extents of \(2, 3, 4\), got"):
            x[wrong]
        with pytest.raises(IndexError, match=r"index \d: expected a mask of extents of \(2, 3, 4\), got"):
            x[wrong] = np.ones(5)
    with pytest.raises(ValueError, match="x: expected at least 1 dimension, got a scalar"):
        xp.nonzero(client.tensor(np.float32(1)))
    for index, value, message in [
        (np.array([2]), 1, "index: index 2 is out of bounds"),
        ((np.array([0]), 0, 0, 0), 1, "index: expected at most 3 items, got 4"),
        ((0, 0, 0, 0), 1, "index"),
    ]:
        with pytest.raises((IndexError, AttributeError, InvalidArgumentError), match=message):
            x[index] = value
    failing = client.op("index_select", np.ones(3), client.tensor(np.array([7])), dim=0) > 0
    with pytest.raises(InvalidArgumentError, match="index_select"):
        x[0, 0, :1][failing]
    count = int((X > 0).sum())
    with pytest.raises(ValueError, match=rf"value: expected a shape that broadcasts to \({count},\), got \(3,\)"):
        x[x > 0] = np.ones(3)
    with pytest.raises(ValueError, match=r"value: expected a shape that broadcasts to \(3, 4\), got \(2,\)"):
        x[0] = np.ones(2)
    with client.upload(X) as kept, pytest.raises(TypeError, match="a resident tensor never changes"):
        kept[0] = 1
    with pytest.raises(InvalidArgumentError):
        x[client.tensor(np.array([5])), client.tensor(np.array([0]))].numpy()


async def refused(server: str) -> None:
    async with AsyncClient(server) as client:
        x, xp = client.tensor(X), client.xp
        assert not any(xp.__array_namespace_info__().capabilities()[name] for name in ("boolean indexing",))
        with pytest.raises(IndexError, match=r"index 0: .* is not computed; `await` it first: .*got AsyncTensor"):
            x[x > 0]
        for function in (xp.nonzero, xp.unique_values, xp.unique_all):
            with pytest.raises(ValueError, match="x: expected an array, or a tensor whose elements are here"):
                function(x + 1)
        mask = x > 0
        await mask
        x[mask] = np.arange((X > 0).sum())
        expected = X.copy()
        expected[X > 0] = np.arange((X > 0).sum())
        np.testing.assert_array_equal(await x, expected)
        np.testing.assert_array_equal(await xp.unique_values(client.tensor(np.array([3, 1, 3]))), [1, 3])


def test_the_asyncio_client_refuses_what_is_not_computed(server: str) -> None:
    asyncio.run(refused(server))


def test_a_chain_of_the_namespace_is_one_call(client: Client) -> None:
    xp, before = client.xp, client.stats()
    x = xp.roll(xp.asarray(X), 1, axis=0)
    x[..., 0] = xp.mean(x, axis=-1)
    total = xp.sum(xp.tile(xp.stack([x, xp.flip(x)]), (2, 1, 1, 1)), axis=tuple(range(x.ndim + 1)))
    total.numpy()
    counts = [sum(lane.request_count for lane in stats.lanes) for stats in (before, client.stats())]
    assert counts[1] - counts[0] == 1


def test_a_client_has_one_namespace(client: Client, server: str) -> None:
    x = client.tensor(X)
    xp = client.xp
    assert xp is client.xp is x.__array_namespace__() is (x + 1).__array_namespace__(api_version="2024.12")
    assert len({client.xp, x.__array_namespace__(), client.tensor(X[0]).__array_namespace__()}) == 1
    assert pickle.loads(pickle.dumps(xp)) is not xp
    with Client(server) as other:
        assert other.xp is other.xp is not xp
        copied = copy.copy(other)
        assert copied.xp._client is copied and copied.xp is not other.xp
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: client.xp, range(64)))
    assert set(found) == {xp}


def test_a_namespace_does_not_outlive_its_users(server: str) -> None:
    other = Client(server)
    xp = other.xp
    kept = weakref.ref(other)
    del other
    assert xp is kept().xp  # type: ignore[union-attr]
    del xp
    assert kept() is None
