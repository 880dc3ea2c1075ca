"""Lazy tensors: what they send, what they keep and what they refuse, against a daemon that computes with numpy."""

from __future__ import annotations

import asyncio
import gc
import pickle
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tensor_reference import Reference, serve

from accelerd import Client, InvalidArgumentError, MessageTooLargeError, Tensor
from accelerd._operations import OPERATIONS
from accelerd._proto import tensor_pb2 as pb
from accelerd._tensor import Value, dtype_name
from accelerd.aio import AsyncClient

CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.fixture(scope="module")
def reference() -> Iterator[tuple[Reference, Client]]:
    with serve() as (servicer, target), Client(target, timeout=10) as client:
        yield servicer, client


@pytest.fixture
def local(reference: tuple[Reference, Client]) -> Client:
    reference[0].requests.clear()
    return reference[1]


@pytest.fixture
def requests(reference: tuple[Reference, Client], local: Client) -> list[pb.ExecuteRequest]:
    return reference[0].requests


def request_of(*outputs: Tensor) -> pb.ExecuteRequest:
    client = outputs[0]._client
    operation = client._graph_call(outputs).operation(client._caller.settings)
    return pb.ExecuteRequest.FromString(operation.request)


def shown(request: pb.ExecuteRequest) -> list[str]:
    """Each node as `name(inputs; attributes)`."""
    found = []
    for node in request.nodes:
        attributes = sorted(f"{name}={value.WhichOneof('value')}" for name, value in node.attributes.items())
        found.append(f"{node.name}({', '.join([*node.inputs, *attributes])})")
    return found


def test_a_graph_holds_each_operation_and_array_once() -> None:
    client = Client("nowhere:1")
    x = client.tensor(CUBE)
    shared = x @ CUBE.swapaxes(1, 2)
    request = request_of(shared.sum(axis=-1) + shared, shared, shared)
    assert shown(request) == ["matmul_2(input_0, input_1)", "sum_3(matmul_2, dim=integer)", "add_4(sum_3, matmul_2)"]
    assert [output.name for output in request.outputs] == ["add_4", "matmul_2"]
    assert [list(one.value.shape) for one in request.inputs] == [[2, 3, 4], [2, 4, 3]]
    square = CUBE.reshape(6, 4)[:4]
    assert len(request_of(client.xp.matmul(square, square)).inputs) == 1
    assert len(request_of(client.tensor(CUBE[0]) + CUBE[1]).inputs) == 2


def test_a_python_number_is_an_attribute_and_a_numpy_number_an_input() -> None:
    x = Client("nowhere:1").tensor(CUBE)
    assert shown(request_of(x + 1)) == ["add_1(input_0, other=integer)"]
    assert shown(request_of(2.5 - x)) == ["sub_1(input_0, input=number)"]
    assert shown(request_of(x == True)) == ["eq_1(input_0, other=boolean)"]  # noqa: E712
    assert shown(request_of(x * np.float64(2))) == ["mul_2(input_0, input_1)"]
    assert shown(request_of(np.float64(2) ** x)) == ["pow_2(input_0, input_1)"]
    assert shown(request_of(CUBE / x)) == ["div_2(input_0, input_0)"]


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (True, "boolean", True),
        (np.bool_(False), "boolean", False),
        (3, "integer", 3),
        (np.uint8(3), "integer", 3),
        (0.5, "number", 0.5),
        (np.float32(0.5), "number", 0.5),
        ("tanh", "text", "tanh"),
        (np.float32, "text", "f32"),
        (np.dtype(">u2"), "text", "u16"),
        (bool, "text", "bool"),
        ((1, np.int64(-2)), "integers", [1, -2]),
        (range(2), "integers", [0, 1]),
        ([], "integers", []),
    ],
)
def test_the_kind_of_an_attribute_is_that_of_its_python_type(value: Any, kind: str, expected: Any) -> None:
    (node,) = request_of(Client("nowhere:1").op("any_op", CUBE, name=value, unset=None)).nodes
    (attribute,) = node.attributes.values()
    assert attribute.WhichOneof("value") == kind
    found = getattr(attribute, kind)
    assert (list(found.values) if kind == "integers" else found) == expected


def test_an_element_type_has_many_names() -> None:
    for name in ("f32", "float32", np.float32, np.dtype("<f4"), "single"):
        assert dtype_name(name) == "f32"
    assert (dtype_name("bf16"), dtype_name("bfloat16"), dtype_name(int)) == ("bf16", "bf16", "i64")
    for wrong in ("f31", "complex64", None, 5):
        with pytest.raises(TypeError, match="dtype: expected one of f16, bf16, f32"):
            dtype_name(wrong)


ALL_DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]


@pytest.mark.parametrize("dtype", ALL_DTYPES)
def test_arrays_of_every_type_and_layout_survive_the_wire(local: Client, dtype: str) -> None:
    array = (np.arange(-6, 6) % 5).reshape(3, 4).astype(dtype)
    layouts = [array, array.T, array[::-1, ::2], array[:0], array[0, 0], array.astype(array.dtype.newbyteorder(">"))]
    for given in [*layouts, np.broadcast_to(array[0], (2, 4))]:
        tensor = local.tensor(given)
        assert (tensor.shape, tensor.ndim, tensor.dtype) == (given.shape, given.ndim, array.dtype)
        found = tensor.reshape(given.shape).numpy()
        np.testing.assert_array_equal(found, given)
        assert found.dtype == array.dtype and found.shape == given.shape and not found.flags["W"]


def test_contiguous_arrays_are_sent_without_a_copy() -> None:
    for array in (CUBE, CUBE[1], np.array(5.0), CUBE > 3):
        value = Value.of(array)
        assert np.shares_memory(value.array, array)
        *_, data = value.encode()
        assert np.shares_memory(np.frombuffer(data, np.uint8), array)
    assert not np.shares_memory(Value.of(CUBE.T).array, CUBE)


def test_bfloat16_is_converted_to_by_the_daemon_and_comes_back_as_float32() -> None:
    client = Client("nowhere:1")
    for made in (client.tensor(CUBE, dtype="bf16"), client.tensor(CUBE).to("bf16"), client.xp.astype(CUBE, "bf16")):
        (node,) = request_of(made).nodes
        assert (node.op, node.attributes["dtype"].text) == ("to", "bf16")
    received = Value.received(pb.Tensor(dtype=pb.DTYPE_BF16, data=np.array(0xC000, "<u2").tobytes()))
    assert (received.type.dtype, received.numpy().item(), received.numpy().dtype) == ("bf16", -2.0, np.float32)
    assert pb.Tensor.FromString(b"".join(received.encode())).dtype == pb.DTYPE_BF16


def test_truth_values_other_than_1_are_true() -> None:
    received = Value.received(pb.Tensor(dtype=pb.DTYPE_BOOL, shape=[3], data=b"\x00\x01\x07"))
    assert received.numpy().tolist() == [False, True, True]
    assert received.numpy().view(np.uint8).tolist() == [0, 1, 1]


INDICES: list[Any] = [
    0,
    -1,
    np.int64(1),
    slice(None),
    slice(1, None),
    slice(None, None, -1),
    slice(5, 0, -2),
    slice(-(1 << 70), 1 << 70),
    ...,
    None,
    (),
    (0, 1),
    (0, 1, 2),
    (slice(None), 1),
    (slice(None), slice(None), slice(1, 3)),
    (slice(None), slice(None), slice(None)),
    (..., 0),
    (..., 0, slice(None)),
    (..., slice(None), 1),
    (1, ..., 2),
    (slice(0, 1), ..., slice(1, 3)),
    (None, 0, None, ..., None, slice(None, None, 2), None),
    (..., None, None),
    (None, ..., None),
    (0, None, slice(1, None), -1),
    (0, ..., 1, 2),
]


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_indexing_is_that_of_numpy(local: Client, index: Any) -> None:
    np.testing.assert_array_equal(local.tensor(CUBE)[index].numpy(), CUBE[index], strict=True)


@pytest.mark.parametrize("index", [(0, 0), (slice(None), slice(None)), (slice(0, 1), ..., slice(0, 1)), (..., 0, 0)])
def test_an_index_of_more_dimensions_than_the_tensor_has_is_refused(
    local: Client, index: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = local.tensor(np.arange(3.0))
    with pytest.raises(IndexError, match="index: expected at most 1 items, got 2"):
        x[index]
    # Where the shape is unknown, the daemon refuses it.
    monkeypatch.delitem(OPERATIONS, "neg")
    for one in (index, (..., slice(None), 0)):
        with pytest.raises(InvalidArgumentError):
            (-x)[one].numpy()


def assign(tensor: Any, index: Any) -> None:
    tensor[index] = 5


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: x[0, 0, 0], IndexError, "index: expected at most 2 items, got 3"),
        (lambda x: x[2], IndexError, "index: expected -2 to 1 in dimension 0 of extent 2, got 2"),
        (lambda x: x[..., None, -4], IndexError, "index: expected -3 to 2 in dimension 1 of extent 3, got -4"),
        (lambda x: x[:0][0], IndexError, "index: expected none in dimension 0 of extent 0, got 0"),
        (lambda x: x[:, ::0], ValueError, "index 1: expected a slice with a step other than 0, got 0"),
        (lambda x: assign(x, 9), IndexError, "index: expected -2 to 1 in dimension 0 of extent 2, got 9"),
        (lambda x: assign(x + np.ones(4), 0), ValueError, r"add: expected a shape that broadcasts with \(2, 3\), got"),
        (lambda x: x[None].T, ValueError, r"T: expected a matrix, got a tensor of shape \(1, 2, 3\); mT transposes"),
        (
            lambda x: (x + np.ones(4)).shape,
            ValueError,
            r"add: expected a shape that broadcasts with \(2, 3\), got \(4,\)",
        ),
        (lambda x: ((x + np.ones(4)) * 2).sum().dtype, ValueError, "^add: expected a shape that broadcasts"),
        (lambda x: x._client.xp.flip(x + np.ones(4)), ValueError, "^add: expected a shape that broadcasts"),
        (lambda x: x.reshape(7).ndim, ValueError, r"reshape: shape: expected extents of 6 elements, got \[7\]"),
        (lambda x: x.sum(axis=2).shape, ValueError, "sum: axis: expected -2 to 1, got 2"),
        (lambda x: x._client.op("matmul", x, x).shape, ValueError, "matmul: expected as many columns as rows"),
        (lambda x: x._client.op("select", x, dim=1, index=3).shape, IndexError, "select: index: expected -3 to 2 in"),
        (lambda x: x.to("i32").mean().dtype, TypeError, "mean: expected a floating-point type, got i32"),
    ],
)
def test_what_does_not_fit_is_told_where_the_shape_is_known(call: Any, error: type[Exception], message: str) -> None:
    x = Client("nowhere:1").tensor(CUBE[:, :, 0].copy())
    for _ in range(2):
        with pytest.raises(error, match=message):
            call(x)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([0, 1], "index 0: expected an int, a slice, None, Ellipsis, or an array of integers or bool, got list"),
        ((0, np.array([0.5])), "index 1: expected .*, got ndarray of float64"),
        ((np.array([2]), 0), "index: expected -2 to 1, got 2"),
        ((0, 0, 0, np.array([0])), "index: expected at most 3 items, got 4"),
        (True, "index 0: expected .*, got bool"),
        (1.0, "index 0: expected .*, got float"),
        ((..., 0, ...), "index: expected at most one Ellipsis, got 2"),
        (slice(0.5, None), "index: expected slices of int, got one of float"),
    ],
)
def test_other_indices_are_refused_before_a_call(index: Any, message: str) -> None:
    x = Client("nowhere:1").tensor(CUBE)
    with pytest.raises(IndexError, match=message):
        x[index]


def test_a_result_is_kept_and_later_operations_start_from_it(local: Client, requests: list[Any]) -> None:
    big = np.ones((100, 100), np.float32)
    tensor = local.tensor(big)
    total = tensor.sum()
    assert (total.numpy(), total.numpy(), len(requests)) == (10_000, 10_000, 1)
    assert (total.shape, total.ndim, total.dtype) == ((), 0, np.float32)
    assert float(total / 2) == 5_000
    (constant,) = requests[1].inputs
    assert list(constant.value.shape) == [] and shown(requests[1]) == ["div_1(input_0, other=integer)"]
    np.testing.assert_array_equal(local.tensor(CUBE).numpy(), CUBE)
    assert len(requests) == 2


def test_a_computed_tensor_lets_go_of_its_operands(local: Client) -> None:
    array = np.ones(3)
    freed = weakref.ref(array)
    total = local.tensor(array).sum()
    del array
    gc.collect()
    assert freed() is not None
    total.numpy()
    gc.collect()
    assert freed() is None


def test_several_outputs_are_computed_in_one_call(local: Client, requests: list[Any]) -> None:
    x = local.tensor(CUBE)
    shared = x + 1
    mean, top = local.execute(shared.mean(), shared.max(axis=0))
    np.testing.assert_allclose(mean, (CUBE + 1).mean())
    np.testing.assert_array_equal(top, (CUBE + 1).max(axis=0))
    assert len(requests) == 1 and len(requests[0].nodes) == 3
    same = shared * 2
    first, second, third = local.execute(same, x, same)
    np.testing.assert_array_equal(first, third)
    np.testing.assert_array_equal(second, CUBE)
    assert len(requests[1].outputs) == 1 and local.execute() == () and len(requests) == 2
    with local.graph() as graph:
        low = graph.output(x.min())
        high = graph.output(x.max())
        assert len(requests) == 2
    assert (float(low), int(high), bool(high > 3), len(requests)) == (0.0, 23, True, 4)
    with pytest.raises(ZeroDivisionError), local.graph() as graph:
        graph.output(x.mean())
        raise ZeroDivisionError
    assert len(requests) == 4


def test_deep_graphs_are_sent_without_recursion(local: Client) -> None:
    tensor = local.tensor(np.zeros(2, np.float32))
    for _ in range(5_000):
        tensor = tensor + 1
    assert tensor.numpy().tolist() == [5_000, 5_000]
    assert len(repr(tensor + 1 + 1 + 1 + 1 + 1)) < 200


def test_an_error_names_the_expression_and_the_line(local: Client) -> None:
    product = local.tensor(CUBE) @ np.ones((4, 5), np.float32)
    wrong = product + np.ones(3, np.float32)
    with pytest.raises(InvalidArgumentError) as refused:
        (wrong * 2).numpy()
    message = str(refused.value)
    assert "add_4 is add(matmul(f32[2, 3, 4], f32[4, 5]), f32[3])" in message and f"{__file__}:" in message
    assert refused.value.violations[0].field == "nodes.add_4"
    with pytest.raises(InvalidArgumentError, match=r"tanhh_1 is tanhh\(f32\[2, 3, 4\], approximate='no'\) at "):
        local.op("tanhh", CUBE, approximate="no").numpy()


def test_a_graph_that_no_message_holds_is_refused_before_it_is_sent() -> None:
    client = Client("nowhere:1", max_message_bytes=1000)
    tensor = client.tensor(np.zeros(3, np.float32))
    for _ in range(100):
        tensor = tensor + 1
    with pytest.raises(MessageTooLargeError, match=r"a graph of 100 operations cannot be split") as refused:
        tensor.numpy()
    assert refused.value.limit == 1000 and refused.value.size is not None and refused.value.size > 1000
    assert "keep() computes a part of it" in str(refused.value)


def test_numpy_gets_arrays_and_leaves_operators_to_tensors(local: Client) -> None:
    x = local.tensor(CUBE)
    np.testing.assert_array_equal(np.asarray(x * 2), CUBE * 2)
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    copied = np.array(x)
    copied[:] = 0
    assert CUBE.any() and isinstance(CUBE + x, Tensor) and isinstance(CUBE[0].T @ x[0], Tensor)
    np.testing.assert_array_equal((CUBE > x).numpy(), np.zeros_like(CUBE, bool))  # noqa: SIM300
    with pytest.raises(TypeError):
        np.exp(x)
    for misuse in (lambda: {x}, lambda: x @ 2, lambda: x + "a", lambda: x < [1]):
        with pytest.raises(TypeError):
            misuse()
    assert (x == None) is False and (x != "a") is True  # noqa: E711
    with pytest.raises(TypeError, match="only"):
        float(x)


def test_a_tensor_is_a_sequence_of_its_first_dimension(local: Client, requests: list[pb.ExecuteRequest]) -> None:
    x = local.tensor(CUBE) * 2
    assert (len(x), x.nbytes, x.itemsize, len(requests)) == (2, 96, 4, 0)
    rows = [*x]
    assert [type(row) for row in rows] == [Tensor, Tensor] and len(requests) == 1
    for row, expected in zip(rows, CUBE * 2, strict=True):
        np.testing.assert_array_equal(row.numpy(), expected)
    first, second = x[0, 0, :2]
    assert (float(first), second.shape, second.item()) == (0.0, (), 2.0)
    assert 46.0 in x and 47 not in x and first in x and [*local.tensor(np.zeros((0, 3)))] == []
    assert [float(one) for one in reversed(x[0, 0])] == [6, 4, 2, 0]
    assert (x.tolist(), x.item(5), x.item(1, 2, 3)) == ((CUBE * 2).tolist(), 10.0, 46.0)
    assert (x.sum().item(), type(x.sum().item()), local.tensor([True]).item()) == (552.0, float, True)
    for misuse in (lambda: len(x.sum()), lambda: iter(x.sum()).__next__()):
        with pytest.raises(TypeError, match="a tensor without dimensions has no length"):
            misuse()
    with pytest.raises(ValueError, match="size 1"):
        x.item()


def test_a_tensor_without_dimensions_is_formatted_as_its_number(local: Client) -> None:
    x = local.tensor(CUBE)
    assert f"{x.mean():.2f} {x.max():>6.1f} {local.tensor(np.int32(255)):#x}" == "11.50   23.0 0xff"
    assert f"{x}" == str(x) == repr(x)
    with pytest.raises(TypeError, match=r"format '.2f': expected a tensor without dimensions, got one of shape"):
        f"{x:.2f}"


def test_shapes_are_changed_by_the_methods_of_numpy(local: Client) -> None:
    x, ones = local.tensor(CUBE), local.tensor(np.zeros((1, 3, 1)))
    for found, expected in (
        (x.flatten(), CUBE.flatten()),
        (x.ravel(), CUBE.ravel()),
        (x.transpose(), CUBE.transpose()),
        (x.transpose(1, 0, 2), CUBE.transpose(1, 0, 2)),
        (x.transpose((2, 0, 1)), CUBE.transpose((2, 0, 1))),
        (x.clip(3, 5.5), CUBE.clip(3, 5.5)),
        (x.clip(max=2), CUBE.clip(max=2)),
        (ones.squeeze(), np.zeros(3)),
        (ones.squeeze(0), np.zeros((3, 1))),
    ):
        np.testing.assert_array_equal(found.numpy(), expected)


def test_what_is_not_computed_is_awaited(reference: tuple[Reference, Client]) -> None:
    async def run() -> None:
        async with AsyncClient(reference[1].target) as client:
            x = client.tensor(CUBE) + 1
            assert len(x) == 2 and [row.shape for row in x] == [(3, 4), (3, 4)]
            assert (await x.sum().item(), await x[0, 0].tolist()) == (300.0, [1, 2, 3, 4])
            assert f"{x.sum()}".startswith("<AsyncTensor sum")
            for misuse in (lambda: 3 in x, lambda: f"{x.sum():.2f}"):
                with pytest.raises(TypeError, match="await tensor"):
                    misuse()
            total = x.sum()
            await total
            assert f"{total:.1f}" == "300.0"
            with pytest.raises(TypeError, match="the length of a tensor of unknown shape"):
                len(client.op("conv1d", x, x))

    asyncio.run(run())


def test_operands_that_make_no_sense_are_refused_before_a_call() -> None:
    client, other = Client("nowhere:1"), Client("elsewhere:2")
    x = client.tensor(CUBE)
    for call, cls, message in [
        (lambda: x + other.tensor(CUBE), ValueError, "operand 1: expected a tensor of .*nowhere.*, got .*elsewhere"),
        (lambda: other.execute(x), ValueError, r"outputs\[0\]: expected a tensor of .*elsewhere"),
        (lambda: other.tensor(x), ValueError, "array: expected a tensor of .*elsewhere"),
        (lambda: client.execute(CUBE), TypeError, r"outputs\[0\]: expected Tensor, got ndarray"),
        (lambda: AsyncClient("nowhere:1").tensor(x), TypeError, "array: expected AsyncTensor, got Tensor"),
        (lambda: client.op("add", x, 2), TypeError, "operand 1: expected .*, got int; a number is an attribute"),
        (lambda: client.xp.exp([1.0]), TypeError, "operand 0: expected a tensor or an array, got list$"),
        (lambda: client.op(5), TypeError, "op: expected a str such as 'add', got int"),
        (lambda: client.xp.add(1, 2), TypeError, "add: expected a tensor or an array, got only numbers"),
        (lambda: client.tensor([1j]), TypeError, "array: expected one of f16, .*, got complex128"),
        (lambda: client.tensor(["a"]), TypeError, "array: expected one of f16, .*, got <U1"),
        (lambda: client.op("sum", x, dim="a", k=[1, "b"]), TypeError, "k: expected a bool, .*, got a list of int, str"),
        (lambda: client.op("sum", x, dim=1 << 63), ValueError, r"dim: expected an int from -2\*\*63 to"),
        (lambda: x + (1 << 64), ValueError, r"other: expected an int from -2\*\*63 to"),
        (lambda: x.to("f31"), TypeError, "dtype: expected one of f16, .*, got f31"),
        (lambda: client.xp.layer_norm(x, None, x), ValueError, "bias: expected a weight before it"),
        (lambda: x @ CUBE[0], ValueError, r"x2: expected a shape that can be .* with \(2, 3, 4\), got \(3, 4\)"),
        (lambda: client.xp.expand_dims(x, axis=4), IndexError, "axis: expected -4 to 3, got 4"),
        (lambda: client.xp.squeeze(x, axis=0), ValueError, "axis: expected dimensions of extent 1, got dimension 0 of"),
    ]:
        with pytest.raises(cls, match=message):
            call()


def test_tensors_are_pickled_with_their_client(local: Client) -> None:
    tensor = pickle.loads(pickle.dumps(local.tensor(CUBE) + 1))
    np.testing.assert_array_equal(tensor.numpy(), CUBE + 1)


def test_the_asyncio_client_has_the_same_tensors(local: Client, requests: list[Any]) -> None:
    async def run() -> None:
        async with AsyncClient(local.target, timeout=10) as client:
            x = client.tensor(CUBE)
            np.testing.assert_array_equal(await (x @ CUBE[0].T), CUBE @ CUBE[0].T)
            low, high = await client.execute(x.min(), client.xp.max(x))
            assert (low, high) == (0, 23)
            async with client.graph() as graph:
                mean = graph.output(x.mean())
            before = len(requests)
            assert await mean.numpy(timeout=5) == CUBE.mean() and len(requests) == before
            with pytest.raises(TypeError, match="await tensor"):
                if x > 3:
                    raise AssertionError
            with pytest.raises(TypeError, match="await tensor"):
                np.asarray(x)
            with pytest.raises(InvalidArgumentError, match=r"nothing_1 is nothing\(f32\[2, 3, 4\]\) at "):
                await client.op("nothing", x)

    asyncio.run(run())


def test_an_operation_of_several_results_is_one_node(local: Client, requests: list[pb.ExecuteRequest]) -> None:
    var, mean = local.op("var_mean", CUBE, dim=1)
    assert repr(mean).endswith("var_mean(f32[2, 3, 4], dim=1)[1]>")
    normalized = (local.tensor(CUBE)[:, 0] - mean) / var
    np.testing.assert_allclose(normalized.numpy(), (CUBE[:, 0] - CUBE.mean(1)) / CUBE.var(1, ddof=1), rtol=1e-6)
    (request,) = requests
    (node,) = [node for node in request.nodes if node.op == "var_mean"]
    assert any(f"{node.name}:1" in other.inputs for other in request.nodes)
    assert any(node.name in other.inputs for other in request.nodes)
    # A result that is there already does not take the others with it.
    np.testing.assert_allclose(var.numpy(), CUBE.var(1, ddof=1), rtol=1e-6)
    np.testing.assert_allclose(mean.numpy(), CUBE.mean(1))


def test_further_results_alone_are_outputs(local: Client, requests: list[pb.ExecuteRequest]) -> None:
    _, mean = local.op("var_mean", CUBE)
    assert mean.numpy() == CUBE.mean()
    (request,) = requests
    assert [output.name for output in request.outputs] == [f"{request.nodes[0].name}:1"]


def test_indexing_scans_and_sorts_are_those_of_numpy(local: Client) -> None:
    xp, rows = local.xp, np.array([[2.0, -1.0, 7.0, 2.0], [0.5, 9.0, 0.5, -3.0]], np.float32)
    x, chosen = local.tensor(rows), np.array([3, 0, 3])
    order = np.argsort(-rows, 1, kind="stable")
    for found, expected in [
        (xp.take(x, chosen, axis=1), rows[:, chosen]),
        (xp.take_along_axis(x, order), np.take_along_axis(rows, order, 1)),
        (xp.argsort(x, descending=True), order),
        (xp.sort(x), np.sort(rows, 1)),
        (xp.sort(x, axis=0, descending=True), -np.sort(-rows, 0)),
        (xp.cumulative_sum(x, axis=1), rows.cumsum(1)),
        (xp.cumulative_prod(x, axis=1, dtype="f64"), rows.cumprod(1, np.float64)),
    ]:
        np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize(
    ("op", "attributes", "count"),
    [
        ("median", {}, 1),
        ("median", {"dim": 0}, 2),
        ("sort", {}, 2),
        ("topk", {"k": 1}, 2),
        ("batch_norm", {}, 1),
        ("batch_norm", {"training": True}, 3),
        ("batch_norm", {"training": True, "track_running_stats": False}, 1),
        ("sgd", {}, 1),
        ("sgd", {"momentum": 0.9}, 2),
        ("adamw", {"step": 1}, 3),
        ("adam", {"step": 1, "amsgrad": True}, 4),
    ],
)
def test_attributes_decide_on_the_number_of_results(op: str, attributes: dict[str, Any], count: int) -> None:
    found = Client("nowhere:1").op(op, CUBE, **attributes)
    assert (len(found) if isinstance(found, tuple) else 1) == count
