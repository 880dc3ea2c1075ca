"""Compilations and launches: what is sent and decoded, against a daemon that runs functions as Python does."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import numpy as np
import pytest
from fake_daemon import FakeDaemon, component, param, serving

from accelerd import (
    Client,
    CompiledKernel,
    InvalidArgumentError,
    KernelFault,
    MessageTooLargeError,
    NotFoundError,
    ResidentTensor,
    TranslationError,
)
from accelerd import kernel as kernel_of
from accelerd._kernel_arguments import element_type, typed_value
from accelerd._kernel_fault import fault
from accelerd._proto import kernel_pb2 as pb
from accelerd._proto import tensor_pb2
from accelerd._tensor import to_array
from accelerd.aio import AsyncClient

GAIN = 2.0


def scaled(x: float, n: int) -> float:
    return GAIN * x + n


def divided(x: float, y: float) -> tuple[float, int]:
    return (x / y, int(x // y))


def total(values: list[float], start: float) -> float:
    return start + sum(values)


def constant() -> float:
    return GAIN


@pytest.fixture(scope="module")
def shared() -> Iterator[FakeDaemon]:
    with serving() as daemon:
        yield daemon


@pytest.fixture
def daemon(shared: FakeDaemon) -> FakeDaemon:
    shared.kernels.__init__()  # type: ignore[misc]
    return shared


@pytest.fixture
def local(daemon: FakeDaemon) -> Iterator[Client]:
    with Client(daemon.target, timeout=10) as client:
        yield client


def warp(daemon: FakeDaemon, local: Client, *params: pb.KernelParam, written: list[str], run: Any) -> CompiledKernel:
    """A kernel with parameters of any type, which a function on its arrays computes."""
    kernel = pb.Kernel(name="k", dialect=pb.KERNEL_DIALECT_WARP, grid_dims=1, params=params, written_arrays=written)
    daemon.kernels.warp["k"] = kernel, run
    return local.compile("# text", name="k")


def resident(shape: tuple[int, ...] = (3,)) -> ResidentTensor:
    now = datetime.now()
    return ResidentTensor("h7", np.dtype("f8"), shape, 24, "cpu", now, now, now)


def argument(daemon: FakeDaemon, name: str) -> Any:
    [found] = [one for one in daemon.kernels.launches[-1].arguments if one.name == name]
    return found


def sent(daemon: FakeDaemon, name: str) -> Any:
    return to_array(argument(daemon, name).value)


def test_a_function_is_compiled_with_what_it_captures(daemon: FakeDaemon, local: Client) -> None:
    kernel = local.compile(scaled, dialect="python", constants={"OTHER": 1})
    [program] = daemon.kernels.compilations
    assert program.source.splitlines()[1:] == inspect.getsource(scaled).splitlines()
    assert program.dialect == pb.KERNEL_DIALECT_PYTHON and program.name == "scaled"
    assert (program.constants["GAIN"].number, program.constants["OTHER"].integer) == (2.0, 1)
    assert (kernel.name, kernel.dialect, kernel.grid_dims, kernel.bit_exact) == ("scaled", "python", 1, True)
    assert [one.name for one in kernel.params] == ["x", "n", "result"] and kernel.written_arrays == ("result",)
    assert len(kernel.id) == 64 and repr(kernel) == f"<CompiledKernel scaled(x, n, result) {kernel.id[:12]}>"
    assert local.compile(scaled, dialect="python", constants={"OTHER": 1}) == kernel
    copy = pickle.loads(pickle.dumps(kernel))
    assert copy == kernel and copy.launch(1.5, 2) == 5.0


def test_rows_are_mapped_and_numbers_are_broadcast(daemon: FakeDaemon, local: Client) -> None:
    kernel = local.compile(scaled)
    x = np.arange(6.0).reshape(2, 3)
    result = local.launch(kernel, x, n=3)
    assert result.shape == (2, 3) and not result.flags["W"]
    np.testing.assert_array_equal(result, 2 * x + 3)
    assert (sent(daemon, "x").shape, sent(daemon, "n").tolist()) == ((6,), 3)
    np.testing.assert_array_equal(kernel.launch(x, np.array([[1], [2]])), 2 * x + [[1], [2]])
    assert sent(daemon, "n").tolist() == [1, 1, 1, 2, 2, 2]
    assert daemon.kernels.launches[-1].kernel_id == kernel.id
    with pytest.raises(ValueError, match=r"shapes that can be broadcast, got x \(2, 3\), n \(2,\)"):
        kernel.launch(x, np.array([1, 2]))


def test_numbers_give_python_numbers(local: Client) -> None:
    result = local.launch(local.compile(scaled), 1.5, 2)
    assert type(result) is float and result == 5.0
    assert local.launch(local.compile(divided), 7.0, 2.0) == {"result0": 3.5, "result1": 3}
    assert local.launch(local.compile(constant)) == 2.0
    assert local.launch(local.compile(constant), grid=3).tolist() == [2.0] * 3


def test_lists_are_the_last_dimension(daemon: FakeDaemon, local: Client) -> None:
    kernel = local.compile(total)
    values = np.arange(12.0).reshape(2, 2, 3)
    np.testing.assert_array_equal(kernel.launch(values, 0.5), values.sum(axis=-1) + 0.5)
    assert sent(daemon, "values").shape == (4, 3)
    assert kernel.launch([1.0, 2], 3) == 6.0
    with pytest.raises(ValueError, match="values: expected a list of f64, got a number"):
        kernel.launch(1.0, 2.0)


def test_outputs_are_selected_and_have_shapes(daemon: FakeDaemon, local: Client) -> None:
    kernel = local.compile(divided)
    x = np.array([4.0, 9.0])
    both = kernel.launch(x, 2.0)
    assert list(both) == ["result0", "result1"] and both["result1"].dtype == np.int64
    assert kernel.launch(x, 2.0, outputs=["result1"]).tolist() == [2, 4]
    # The daemon computes all results of a row.
    assert [one.name for one in daemon.kernels.launches[-1].outputs] == ["result1", "result0"]
    kernel.launch(x, 2.0, outputs={"result0": (2,), "result1": None}, grid=(2,), loop_budget=9)
    request = daemon.kernels.launches[-1]
    assert [tuple(one.shape) for one in request.outputs] == [(2,), ()]
    assert (list(request.grid), request.loop_budget, request.device) == ([2], 9, 0)
    with pytest.raises(TypeError, match=r"outputs: .* got a str; did you mean \['result0'\]"):
        kernel.launch(x, 2.0, outputs="result0")


def test_a_launch_says_where_it_runs(daemon: FakeDaemon, local: Client) -> None:
    kernel = local.compile(divided)
    for device, number in (("cpu", 1), ("cuda", 2)):
        kernel.launch(4.0, 2.0, device=device)
        assert daemon.kernels.launches[-1].device == number
    with pytest.raises(ValueError, match=r"device: expected .* got 'gpu'"):
        kernel.launch(4.0, 2.0, device="gpu")  # type: ignore[arg-type]
    function = kernel_of(divided, client=local, device="cuda")
    function(4.0, 2.0)
    assert daemon.kernels.launches[-1].device == 2
    function(4.0, 2.0, device="cpu")
    assert daemon.kernels.launches[-1].device == 1


@pytest.mark.parametrize(
    ("arguments", "named", "message"),
    [
        ((1.0,), {}, r"scaled\(x, n\): expected a value of 'n'"),
        ((), {}, "expected a value of 'x', 'n'"),
        ((1.0, 2), {"x": 3.0}, "got two values of 'x'"),
        ((1.0, 2), {"y": 3.0}, "got an unexpected argument 'y'"),
        ((1.0, 2, 3), {}, "expected at most 2 arguments, got 3"),
        ((1.0, 2), {"result": 3.0}, "got an unexpected argument 'result'"),
    ],
)
def test_arguments_that_are_not_those_of_the_parameters_are_refused(
    daemon: FakeDaemon, local: Client, arguments: tuple[Any, ...], named: dict[str, Any], message: str
) -> None:
    kernel = local.compile(scaled)
    with pytest.raises(TypeError, match=message):
        kernel.launch(*arguments, **named)
    assert daemon.kernels.launches == []


def test_numbers_that_are_defaults_take_the_place_of_missing_arguments(daemon: FakeDaemon, local: Client) -> None:
    def shifted(x: float, by: float = 2, sign: int = -1) -> float:
        return sign * x + by

    kernel = local.compile(shifted)
    for launched in (kernel, pickle.loads(pickle.dumps(kernel))):
        assert launched.launch(3.0) == -1.0
        assert launched.launch(3.0, 5.0) == 2.0
        assert launched.launch(3.0, sign=1) == 5.0
    function = kernel_of(shifted, client=local)
    assert function(3.0) == -1.0
    np.testing.assert_array_equal(function(np.array([1.0, 2.0]), 0.0), [-1.0, -2.0])
    with pytest.raises(TypeError, match=r"shifted\(x, by, sign\): expected a value of 'x'"):
        function(by=1.0)
    with pytest.raises(TypeError, match=r"shifted\(x, by, sign\): expected at most 3 arguments, got 4"):
        function(1.0, 2.0, 3, 4.0)


def test_masked_arguments_are_refused(daemon: FakeDaemon, local: Client) -> None:
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    kernel = local.compile(scaled)
    for given in (masked, [masked, masked]):
        with pytest.raises(TypeError, match=r"^x: expected an array without a mask, got MaskedArray"):
            kernel.launch(given, 1)
    assert daemon.kernels.launches == []


WRONG_VALUES = [
    (1.5, "i32", TypeError, "x: expected i32, got float 1.5"),
    (True, "f32", None, 1.0),
    (1, "bool", TypeError, "x: expected bool, got int 1"),
    (re.RegexFlag.MULTILINE | re.RegexFlag.DOTALL, "bool", None, True),
    (re.RegexFlag(0), "bool", None, False),
    ("1", "f64", TypeError, "x: expected f64, got str '1'"),
    (300, "u8", ValueError, "x: expected a value of u8, from 0 to 255, got 300"),
    (-1, "u64", ValueError, r"x: expected a value of u64"),
    (2**63, "i64", ValueError, "x: expected a value of i64"),
    (10**400, "f64", ValueError, "x: expected a value of f64, got an int beyond its range"),
    (2**63, "u64", None, 2**63),
    (2**53 + 1, "f64", ValueError, "x: expected a value of f64, got 9007199254740993"),
    (2**24 + 1, "f32", ValueError, "x: expected a value of f32, got 16777217"),
    (0.1, "f32", None, float(np.float32(0.1))),
    (1e39, "f32", ValueError, r"x: expected a value of f32, got 1e\+39"),
    (float("inf"), "f16", None, float("inf")),
    (1 + 2**-9, "bf16", None, 1.0),
    (1 + 3 * 2**-8, "bf16", None, 1.015625),
    (np.float64(2.5), "f32", None, 2.5),
    (np.int8(-3), "i64", None, -3),
    ([1, 2.5], "f64", None, [1.0, 2.5]),
    ([[1], [2, 3]], "f64", TypeError, r"x: expected f64, got list \[1\]"),
    (np.float32([1.5]), "f64", None, [1.5]),
    (np.int32([7]), "f64", None, [7.0]),
    (np.array([7]), "f64", TypeError, "x: expected f64, got an array of i64; convert it"),
    (np.array([1.0]), "f32", TypeError, "x: expected f32, got an array of f64"),
    (np.array([1.0]), "i64", TypeError, "x: expected i64, got an array of f64"),
    (memoryview(np.array([1.0])), "f64", None, [1.0]),
]


@pytest.mark.parametrize(("given", "dtype", "error", "expected"), WRONG_VALUES)
def test_values_are_converted_exactly_or_refused(given: Any, dtype: str, error: Any, expected: Any) -> None:
    if error is not None:
        with pytest.raises(error, match=expected):
            typed_value("x", given, dtype)
        return
    value = typed_value("x", given, dtype)
    assert tensor_pb2.Dtype.Name(value.number) == f"DTYPE_{dtype.upper()}"
    assert value.numpy().tolist() == expected


def test_nan_is_a_value_of_each_floating_point_type() -> None:
    for dtype in ("f16", "bf16", "f32", "f64"):
        assert np.isnan(typed_value("x", float("nan"), dtype).numpy())


def test_arrays_are_sent_without_a_copy() -> None:
    array = np.arange(8.0)
    assert np.shares_memory(typed_value("x", array, "f64").array, array)


def test_components_are_trailing_dimensions(daemon: FakeDaemon, local: Client) -> None:
    vector = [component("f32", name, 4 * nth) for nth, name in enumerate("xyz")]
    matrix = [component("f64", f"m{nth // 2}{nth % 2}", 8 * nth) for nth in range(6)]
    received: dict[str, Any] = {}

    def run(v: Any, m: Any, a: Any, out: Any) -> None:
        received.update(v=v.tolist(), m=m.shape, a=a.tolist())
        out[:] = 2 * v

    kernel = warp(
        daemon,
        local,
        param("v", 1, *vector),
        param("m", 0, *matrix),
        param("a", 0, component("i32")),
        param("out", 1, *vector),
        written=["out"],
        run=run,
    )
    assert element_type(kernel.params[1]) == ("f64", (3, 2))
    v = np.float32([[1, 2, 3], [4, 5, 6]])
    result = kernel.launch(v, np.ones((3, 2)), 7, outputs={"out": (2, 3)}, grid=2)
    np.testing.assert_array_equal(result, 2 * v)
    assert received == {"v": v.tolist(), "m": (3, 2), "a": 7}
    kernel.launch([[1, 2, 3]], [[1, 2], [3, 4], [5, 6]], 7, out=np.zeros((1, 3), np.float32), grid=[1])
    with pytest.raises(ValueError, match=r"v: expected an array of f32 of shape \[..., 3\], got .* \(3,\)"):
        kernel.launch(v[0], np.ones((3, 2)), 7, v, grid=2)
    with pytest.raises(ValueError, match=r"m: expected an array of f64 of shape \[3, 2\], got .* \(6,\)"):
        kernel.launch(v, np.ones(6), 7, v, grid=2)
    with pytest.raises(ValueError, match=r"a: expected a number of i32, got an array of shape \(1,\)"):
        kernel.launch(v, np.ones((3, 2)), [7], v, grid=2)
    with pytest.raises(TypeError, match=r"a: expected i32, got float 7\.5"):
        kernel.launch(v, np.ones((3, 2)), 7.5, v, grid=2)


def test_numbers_are_truths_of_a_kernel_of_warp(daemon: FakeDaemon, local: Client) -> None:
    params = [param("x", 1, component("f64")), param("is_on", 0, component("bool"))]
    kernel = warp(daemon, local, *params, written=["x"], run=lambda x, is_on: None)
    for given, expected in ((4, True), (0, False), (False, False), (np.int32(2), True)):
        kernel.launch(np.zeros(1), given, grid=1)
        assert sent(daemon, "is_on").item() is expected
    with pytest.raises(TypeError, match=r"is_on: expected bool, got float 1\.0"):
        kernel.launch(np.zeros(1), 1.0, grid=1)


def test_a_table_of_geometry_that_a_kernel_does_not_need_is_left_out(daemon: FakeDaemon, local: Client) -> None:
    tables = {"geometry_ints": np.zeros(3, np.int32), "geometry_vectors": np.zeros((2, 3), np.float32)}
    params = [param("x", 1, component("f64")), param("geometry_ints", 1, component("i32"))]
    kernel = warp(daemon, local, *params, written=["x"], run=lambda x, ints: None)
    kernel.launch(np.zeros(1), grid=1, **tables)
    assert [one.name for one in daemon.kernels.launches[-1].arguments] == ["x", "geometry_ints"]
    with pytest.raises(TypeError, match="got an unexpected argument 'geometry_ints'"):
        adding(daemon, local).launch(np.zeros(1), np.zeros(1), np.zeros(1), grid=1, **tables)


def test_matrices_beyond_ten_columns_have_their_shape() -> None:
    def shape(rows: int, columns: int) -> Any:
        names = [f"m{row}{'_' if columns > 9 else ''}{column}" for row in range(rows) for column in range(columns)]
        parts = [component("f32", name, 4 * nth) for nth, name in enumerate(names)]
        from accelerd._kernel import received_param

        return element_type(received_param(param("m", 0, *parts)))[1]

    assert [shape(2, 2), shape(12, 3), shape(3, 12), shape(11, 11)] == [(2, 2), (12, 3), (3, 12), (11, 11)]


def test_structs_are_bytes(daemon: FakeDaemon, local: Client) -> None:
    parts = [component("f32", "position.x", 0), component("f32", "position.y", 4), component("u8", "is_on", 8)]

    def run(s: Any, out: Any) -> None:
        out[:] = s

    structs_of = [param(name, 1, *parts, size=12) for name in ("s", "out")]
    kernel = warp(daemon, local, *structs_of, written=["out"], run=run)
    assert element_type(kernel.params[0]) == ("u8", (12,))
    dtype = np.dtype([("position", "<f4", 2), ("is_on", "u1")], align=True)
    structs = np.zeros(2, dtype)
    structs["position"] = [[1, 2], [3, 4]]
    result = kernel.launch(structs, np.zeros(2, dtype), grid=2)
    assert sent(daemon, "s").shape == (2, 12) and result.dtype == dtype
    np.testing.assert_array_equal(result, structs)
    with pytest.raises(TypeError, match=r"s: expected structs of 12 bytes with position.x f32 at 0, .*, got \[\('a'"):
        kernel.launch(np.zeros(2, [("a", "<f4", 3)]), structs, grid=2)
    with pytest.raises(ValueError, match=r"s: expected 1 dimensions, got an array of shape \(2, 1\)"):
        kernel.launch(structs[:, None], structs, grid=2)


def adding(daemon: FakeDaemon, local: Client) -> CompiledKernel:
    """A kernel that adds `x` to `y`, and `y` to `z`."""

    def run(x: Any, y: Any, z: Any) -> None:
        for i in range(len(y)):
            y[i] += x[i]
            z[i] += y[i]

    arrays = [param(name, 1, component("f64")) for name in "xyz"]
    return warp(daemon, local, *arrays, written=["y", "z"], run=run)


def test_arrays_that_share_memory_are_views_of_one(daemon: FakeDaemon, local: Client) -> None:
    kernel = adding(daemon, local)
    a = np.arange(1.0, 7.0)
    both = kernel.launch(a, a, a.copy(), grid=6)
    request = daemon.kernels.launches[-1]
    assert [one.name for one in request.arguments] == ["x", "z"]
    assert [(one.name, one.argument, one.offset_bytes, list(one.shape)) for one in request.views] == [
        ("y", "x", 0, [6])
    ]
    assert [one.name for one in request.outputs] == ["x", "z"]
    assert (
        list(both) == ["y", "z"] and both["y"].tolist() == (2 * a).tolist() and both["z"].tolist() == (3 * a).tolist()
    )
    assert a.tolist() == [1, 2, 3, 4, 5, 6]
    # An array that is only read is sent again.
    kernel.launch(a, np.zeros(6), np.zeros(6), grid=6)
    assert not daemon.kernels.launches[-1].views
    of_whole = kernel.launch(a[1::2], a[::2], a, grid=3, outputs=["y", "z"])
    assert of_whole["z"].tolist() == [6, 9, 18, 4, 11, 6] and of_whole["y"].tolist() == [6, 18, 11]
    views = {
        one.name: (one.argument, one.offset_bytes, *one.strides_bytes) for one in daemon.kernels.launches[-1].views
    }
    assert views == {"x": ("z", 8, 16), "y": ("z", 0, 16)}
    # Halves share no element, nor do even and odd ones.
    kernel.launch(a[:3], a[3:], np.zeros(3), grid=3)
    kernel.launch(a[::2], a[1::2], np.zeros(3), grid=3)
    assert not any(one.views for one in daemon.kernels.launches[-2:])


def test_one_strided_array_is_sent_once(daemon: FakeDaemon, local: Client) -> None:
    even = np.arange(6.0)[::2]
    assert adding(daemon, local).launch(even, even, np.zeros(3), grid=3)["y"].tolist() == [0, 4, 8]
    [view] = daemon.kernels.launches[-1].views
    assert (view.name, view.argument, list(view.shape)) == ("y", "x", [])
    tensor = resident()
    with pytest.raises(Exception, match="Exception calling application"):
        adding(daemon, local).launch(tensor, tensor, np.zeros(3), grid=3)
    assert [(one.name, one.argument) for one in daemon.kernels.launches[-1].views] == [("y", "x")]


def test_arrays_that_overlap_without_one_that_contains_them_are_refused(daemon: FakeDaemon, local: Client) -> None:
    kernel = adding(daemon, local)
    a = np.arange(6.0)
    with pytest.raises(ValueError, match="x: expected an array that contains y, or is contained in one of them"):
        kernel.launch(a[:4], a[2:], np.zeros(4), grid=4)
    with pytest.raises(ValueError, match=r"x: expected contiguous elements in ascending order, .* strides of \(-8,\)"):
        kernel.launch(a[::-1], a, np.zeros(6), grid=6)
    whole = np.arange(6, dtype=np.int32)
    with pytest.raises(TypeError, match="x: expected float64, because it shares memory with another argument"):
        kernel.launch(whole, whole, np.zeros(6), grid=6)
    assert not daemon.kernels.launches


def test_structs_that_share_memory_keep_their_fields(daemon: FakeDaemon, local: Client) -> None:
    parts = [component("f32", "x", 0), component("u8", "is_on", 4)]
    params = [param("s", 1, *parts, size=8), param("out", 1, *parts, size=8)]
    kernel = warp(daemon, local, *params, written=["out"], run=lambda s, out: None)
    structs = np.zeros(3, np.dtype([("x", "<f4"), ("is_on", "u1")], align=True))
    structs["x"] = [1, 2, 3]
    result = kernel.launch(structs, structs[1:], grid=2)
    assert result.dtype == structs.dtype and result["x"].tolist() == [2, 3]
    [view] = daemon.kernels.launches[-1].views
    assert (view.name, view.offset_bytes, list(view.shape), list(view.strides_bytes)) == ("out", 8, [2], [8])


def test_resident_tensors_are_named_by_their_handles(daemon: FakeDaemon, local: Client) -> None:
    vector = [component("f64")]
    kernel = warp(daemon, local, param("x", 1, *vector), param("y", 1, *vector), written=["y"], run=lambda x, y: None)
    tensor = local.resident(resident())
    with pytest.raises(Exception, match="Exception calling application"):
        kernel.launch(tensor, np.zeros(3), grid=3)
    assert argument(daemon, "x").handle == "h7"
    with pytest.raises(ValueError, match="argument: expected a tensor that is computed, got an operation"):
        kernel.launch(tensor + 1, np.zeros(3), grid=3)


def test_resident_tensors_have_one_row_for_each_element(daemon: FakeDaemon, local: Client) -> None:
    kernel = local.compile(scaled)
    with pytest.raises(ValueError, match="x: expected a resident tensor with one dimension of rows, as all arguments"):
        kernel.launch(resident(), np.ones((2, 3), np.int64))
    with pytest.raises(Exception, match="Exception calling application"):
        kernel.launch(resident(), 2)
    assert argument(daemon, "x").handle == "h7" and sent(daemon, "n").tolist() == 2


def test_a_fault_names_the_thread_and_the_line_of_the_file(daemon: FakeDaemon, local: Client) -> None:
    kernel = local.compile(divided)
    with pytest.raises(KernelFault) as raised:
        kernel.launch(1.0, np.array([2.0, 0.0]))
    fault = raised.value
    line = inspect.getsourcelines(divided)[1] + 1
    assert (fault.kind, fault.kernel, fault.thread) == ("division_by_zero", "divided", 1)
    assert (fault.filename, fault.line, fault.column) == (__file__, line, 12)
    assert str(fault).splitlines() == [
        "divided: division by zero, in thread 1",
        f'  File "{__file__}", line {line}',
        "    return (x / y, int(x // y))",
        "            ^",
    ]
    copy = pickle.loads(pickle.dumps(fault))
    assert (str(copy), copy.thread, copy.filename) == (str(fault), 1, __file__)


def test_an_access_out_of_bounds_names_array_index_and_extent(daemon: FakeDaemon, local: Client) -> None:
    text = "def f(values: list[float]) -> float:\n    return values[5]\n"
    with pytest.raises(KernelFault) as raised:
        local.compile(text).launch([1.0, 2.0, 3.0])
    fault = raised.value
    assert (fault.array, fault.dimension, fault.index, fault.extent) == ("values", 0, 5, 3)
    assert (fault.filename, fault.line) == (None, 2)
    expected = "f: index 5 is out of bounds for dimension 0 of 'values' with extent 3, in thread 0"
    assert str(fault).splitlines()[:2] == [expected, "  line 2"]


def test_a_fault_names_the_variable_that_is_not_assigned() -> None:
    unassigned = pb.KernelFault(kind=pb.KERNEL_FAULT_KIND_INVALID_VALUE, thread=2, line=4, variable="y")
    found = fault(unassigned, "f", None)
    assert str(found).splitlines()[0] == "f: variable 'y' is read before it is assigned, in thread 2"
    assert pickle.loads(pickle.dumps(found)).variable == "y"
    other = fault(pb.KernelFault(kind=pb.KERNEL_FAULT_KIND_INVALID_VALUE), "f", None)
    assert str(other) == "f: a value for which the dialect defines no result, in thread 0"


def test_an_index_outside_of_a_vector_names_no_array() -> None:
    found = fault(pb.KernelFault(kind=pb.KERNEL_FAULT_KIND_OUT_OF_BOUNDS, thread=1), "f", None)
    assert str(found) == "f: an index is out of bounds, in thread 1"


def test_a_kernel_that_was_evicted_is_compiled_again(daemon: FakeDaemon, local: Client) -> None:
    kernel = local.compile(scaled)
    local.evict_kernel(kernel)
    assert local.list_kernels() == []
    assert kernel.launch(1.0, 2) == 4.0 and len(daemon.kernels.compilations) == 2
    assert kernel.launch(1.0, 2) == 4.0 and len(daemon.kernels.compilations) == 2
    with pytest.raises(NotFoundError):
        local.evict_kernel("0")


def test_listed_kernels_are_launched_but_not_compiled_again(daemon: FakeDaemon, local: Client) -> None:
    first, second = local.compile(scaled), local.compile(total)
    listed = local.list_kernels()
    assert listed == [second, first] and listed[1].program is None
    assert listed[1].launch(1.0, 2) == 4.0
    local.evict_kernel(listed[1].id)
    with pytest.raises(NotFoundError):
        listed[1].launch(1.0, 2)


def test_an_error_of_the_source_names_the_file_of_the_function(daemon: FakeDaemon, local: Client) -> None:
    daemon.kernels.refusal = ("program.source", "line 3, column 11: unknown name `z` (unknown_name)")
    with pytest.raises(TranslationError) as raised:
        local.compile(scaled)
    [one] = raised.value.diagnostics
    line = inspect.getsourcelines(scaled)[1] + 1
    assert (one.kernel, one.code, one.message) == ("scaled", "unknown_name", "unknown name `z`")
    assert (one.filename, one.line, one.column) == (__file__, line, 11)
    assert isinstance(raised.value.__cause__, InvalidArgumentError)
    daemon.kernels.refusal = ("program.name", "expected the name of a kernel")
    with pytest.raises(InvalidArgumentError):
        local.compile(scaled)


TOO_LARGE = r"a launch of {} cannot be split: the request message has {} bytes, .*; upload\(\) sends an array in chunks"


def test_what_exceeds_a_message_is_not_sent(daemon: FakeDaemon) -> None:
    with Client(daemon.target, max_message_bytes=1000) as narrow:
        kernel = narrow.compile(scaled)
        with pytest.raises(MessageTooLargeError, match=TOO_LARGE.format("scaled", 8000)):
            kernel.launch(np.zeros(1000), 1)
        # They are not copied, which would exceed the memory.
        big = np.broadcast_to(1.0, (100_000, 100_000))
        with pytest.raises(MessageTooLargeError, match=TOO_LARGE.format("scaled", 80_000_000_000)):
            kernel.launch(big, 1)
        with pytest.raises(MessageTooLargeError, match=TOO_LARGE.format("scaled", 6_400)):
            kernel.launch(np.zeros((20, 1)), np.zeros((1, 20), np.int64))
        assert daemon.kernels.launches == []
        with pytest.raises(MessageTooLargeError, match="a module of kernels"):
            narrow.compile("def f() -> float:\n    return 1.0\n" + "#" * 1000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grid": 4.0}, "grid: expected an int or a sequence of int, got float"),
        ({"grid": "4"}, "grid: expected an int or a sequence of int, got str"),
        ({"grid": [4, 2.0]}, "grid: expected an int or a sequence of int, got a list with float"),
        ({"outputs": {"result": 4.0}}, r"outputs\['result'\]: expected an int or a sequence of int, got float"),
    ],
)
def test_wrong_extents_are_named(daemon: FakeDaemon, local: Client, options: dict[str, Any], message: str) -> None:
    kernel = local.compile(constant)
    with pytest.raises(TypeError, match=message):
        kernel.launch(**options)
    assert daemon.kernels.launches == []
    assert kernel.launch(grid=np.int64(2)).tolist() == [2.0, 2.0]


def test_wrong_kernels_are_refused(local: Client) -> None:
    with pytest.raises(TypeError, match=r"kernel: expected a kernel of compile\(\), got function"):
        local.launch(scaled, 1.0, 2)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="kernel: expected a str, got int"):
        local.evict_kernel(5)  # type: ignore[arg-type]


def test_the_asyncio_client_launches_as_well(daemon: FakeDaemon) -> None:
    async def run() -> None:
        async with AsyncClient(daemon.target, timeout=10) as client:
            kernel = await client.compile(scaled)
            assert await kernel.launch(np.array([1.0, 2.0]), n=1) is not None
            assert await client.launch(kernel, 1.5, 2) == 5.0
            assert await client.list_kernels() == [kernel]
            await client.evict_kernel(kernel)
            assert await kernel.launch(1.5, 2) == 5.0
            divides = await client.compile(divided)
            with pytest.raises(KernelFault, match="division by zero"):
                await divides.launch(1.0, 0.0)
            daemon.kernels.refusal = ("program.source", "line 2, column 0: no (unsupported_type)")
            with pytest.raises(TranslationError):
                await client.compile(scaled)

    asyncio.run(run())
