"""Compilations and launches by a daemon."""

from __future__ import annotations

import asyncio
import inspect
import math
import sys
import threading
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import accelerd
from accelerd import (
    Client,
    CompiledKernel,
    DeadlineError,
    InvalidArgumentError,
    KernelFault,
    KernelFunction,
    NotFoundError,
    TranslationError,
)
from accelerd.aio import AsyncClient

GAIN = 0.5


class Scaled:
    scale = 3.0


class Derived(Scaled):
    pass


WARP = """
import warp as wp

@wp.struct
class Particle:
    position: wp.vec2
    is_on: wp.uint8

@wp.kernel
def saxpy(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
    i = wp.tid()
    y[i] += a * x[i]

@wp.kernel
def turned(v: wp.array2d(dtype=wp.vec3), m: wp.mat33, out: wp.array2d(dtype=wp.vec3)):
    i, j = wp.tid()
    out[i, j] = m * v[i, j]

@wp.kernel
def moved(p: wp.array(dtype=Particle), by: wp.vec2):
    i = wp.tid()
    if p[i].is_on == wp.uint8(1):
        p[i].position = p[i].position + by

@wp.kernel
def counted(x: wp.array(dtype=int), total: wp.array(dtype=wp.int64), n: wp.int16):
    i = wp.tid()
    if x[i] > int(n):
        wp.atomic_add(total, 0, wp.int64(1))

@wp.kernel
def endless(x: wp.array(dtype=int)):
    i = wp.tid()
    while True:
        x[i] += 1

@wp.kernel
def shifted(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i + 2]
"""


def norm(x: float, y: float) -> float:
    return math.sqrt(x * x + y * y) * GAIN


def both(x: float, n: int) -> tuple[float, int, bool]:
    return (x * n, n // 3, x > 0.0)


def total(values: list[float], start: float) -> float:
    for i in range(len(values)):
        start += values[i]
    return start


def quotient(x: float, n: int) -> float:
    if n > 5:
        return 0.0
    return x / n


def warp_kernel(client: Client, name: str) -> CompiledKernel:
    return client.compile(WARP, name=name)


def test_a_function_maps_over_rows_as_python_does(client: Client) -> None:
    kernel = client.compile(norm)
    assert (kernel.name, kernel.dialect, kernel.grid_dims) == ("norm", "python", 1)
    assert [one.name for one in kernel.params] == ["x", "y", "result"] and kernel.written_arrays == ("result",)
    x, y = np.random.default_rng(3).standard_normal((2, 1000))
    expected = [norm(float(a), float(b)) for a, b in zip(x, y, strict=True)]
    np.testing.assert_array_equal(kernel.launch(x, y), expected)
    np.testing.assert_array_equal(kernel.launch(y=y.reshape(10, 100), x=x.reshape(10, 100)).ravel(), expected)


def test_numbers_are_broadcast_and_give_numbers(client: Client) -> None:
    kernel = client.compile(both)
    assert kernel.launch(2.5, 7) == {"result0": 17.5, "result1": 2, "result2": True}
    result = kernel.launch(np.array([[1.5], [-1.0]]), np.array([1, 2, 3]))
    assert result["result0"].tolist() == [[1.5, 3.0, 4.5], [-1.0, -2.0, -3.0]]
    assert result["result1"].tolist() == [[0, 0, 1]] * 2 and result["result2"].tolist() == [[True] * 3, [False] * 3]
    assert kernel.launch(np.array([1.0, 2.0]), 4)["result0"].tolist() == [4.0, 8.0]
    assert kernel.launch(np.array([1.0, 2.0]), 4, outputs=["result1"]).tolist() == [1, 1]
    assert kernel.launch(np.zeros(0), 4)["result0"].shape == (0,)


def test_lists_are_the_last_dimension(client: Client) -> None:
    kernel = client.compile(total)
    values = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(kernel.launch(values, 0.5), values.sum(axis=-1) + 0.5)
    assert kernel.launch([1.0, 2.0], 3) == 6.0


def test_a_function_without_parameters_has_one_row(client: Client) -> None:
    def constant() -> float:
        return GAIN

    kernel = client.compile(constant)
    assert kernel.launch() == 0.5
    assert kernel.launch(grid=3).tolist() == [0.5] * 3


def test_a_kernel_of_warp_returns_what_it_writes(client: Client) -> None:
    kernel = warp_kernel(client, "saxpy")
    assert kernel.dialect == "warp" and kernel.written_arrays == ("y",)
    x, y = np.arange(5, dtype=np.float32), np.ones(5, np.float32)
    np.testing.assert_array_equal(client.launch(kernel, x, y, 2.0, grid=5), 2 * x + 1)
    assert y.tolist() == [1] * 5
    # Without the argument, the array is zero to begin with.
    np.testing.assert_array_equal(kernel.launch(x, a=2, grid=5, outputs={"y": 5}), 2 * x)
    with pytest.raises(InvalidArgumentError, match="y"):
        kernel.launch(x, a=2, grid=5)
    with pytest.raises(InvalidArgumentError) as refused:
        kernel.launch(x, y, 2.0, grid=(5, 5))
    assert refused.value.violations[0].field == "grid"


def test_vectors_and_matrices_are_trailing_dimensions(client: Client) -> None:
    kernel = warp_kernel(client, "turned")
    v = np.random.default_rng(1).integers(-9, 9, (2, 4, 3)).astype(np.float32)
    m = np.float32([[0, -1, 0], [1, 0, 0], [0, 0, 2]])
    result = kernel.launch(v, m, grid=(2, 4), outputs={"out": (2, 4)})
    np.testing.assert_array_equal(result, np.einsum("ij,abj->abi", m, v))
    np.testing.assert_array_equal(kernel.launch(v, m.tolist(), np.zeros_like(v), grid=(2, 4)), result)


def test_one_array_that_is_passed_twice_is_one(client: Client) -> None:
    shifted, turned = warp_kernel(client, "shifted"), warp_kernel(client, "turned")
    x = np.arange(8, dtype=np.float32)
    assert shifted.launch(x, x, grid=6).tolist() == [2, 3, 4, 5, 6, 7, 6, 7]
    v = np.random.default_rng(1).integers(-9, 9, (2, 4, 3)).astype(np.float32)
    m = np.float32([[0, -1, 0], [1, 0, 0], [0, 0, 2]])
    expected = np.einsum("ij,abj->abi", m, v)
    np.testing.assert_array_equal(turned.launch(v, m, v, grid=(2, 4)), expected)
    part = turned.launch(v, m, v[1:, ::2], grid=(1, 2), outputs=["v", "out"])
    np.testing.assert_array_equal(part["out"], expected[:1, :2])
    np.testing.assert_array_equal(part["v"][1, ::2], expected[0, :2])
    np.testing.assert_array_equal(part["v"][0], v[0])
    with client.upload(x) as kept:
        assert shifted.launch(kept, kept, grid=6).tolist() == [2, 3, 4, 5, 6, 7, 6, 7]


def test_structs_are_arrays_with_fields(client: Client) -> None:
    dtype = np.dtype([("position", "<f4", 2), ("is_on", "u1")], align=True)
    particles = np.zeros(3, dtype)
    particles["position"], particles["is_on"] = [[1, 2], [3, 4], [5, 6]], [1, 0, 1]
    result = warp_kernel(client, "moved").launch(particles, [0.5, 1], grid=3)
    assert result.dtype == dtype and result["position"].tolist() == [[1.5, 3], [3, 4], [5.5, 7]]


def test_threads_add_to_one_element(client: Client) -> None:
    x = np.arange(1000, dtype=np.int32)
    kernel = warp_kernel(client, "counted")
    assert kernel.launch(x, np.int64([5]), 499, grid=1000).tolist() == [505]
    with pytest.raises(ValueError, match="n: expected a value of i16, from -32768 to 32767, got 40000"):
        kernel.launch(x, np.int64([5]), 40_000, grid=1000)


def test_resident_tensors_are_arguments(client: Client) -> None:
    x = np.arange(6.0)
    with client.upload(x) as kept:
        kernel = client.compile(norm)
        np.testing.assert_array_equal(kernel.launch(kept, 0.0), GAIN * x)
        np.testing.assert_array_equal(kernel.launch(kept, np.zeros(6)), GAIN * x)
        assert kept.resident is not None
        np.testing.assert_array_equal(kernel.launch(kept.resident, 0.0), GAIN * x)
    with pytest.raises(NotFoundError):
        kernel.launch(kept, 0.0)


def test_a_fault_names_the_row_and_the_line(client: Client) -> None:
    kernel = client.compile(quotient)
    with pytest.raises(KernelFault) as raised:
        kernel.launch(np.ones(9), np.arange(8, -1, -1))
    fault = raised.value
    line = inspect.getsourcelines(quotient)[1] + 3
    assert (fault.kind, fault.thread, fault.filename, fault.line) == ("division_by_zero", 8, __file__, line)
    assert "    return x / n\n" in str(fault)


def test_an_access_out_of_bounds_names_the_element(client: Client) -> None:
    x = np.zeros(5, np.float32)
    with pytest.raises(KernelFault) as raised:
        warp_kernel(client, "shifted").launch(x, x, grid=5)
    fault = raised.value
    assert (fault.kind, fault.thread, fault.array, fault.dimension) == ("out_of_bounds", 3, "x", 0)
    assert (fault.index, fault.extent, fault.filename) == (5, 5, None)
    assert WARP.splitlines()[fault.line - 1] == "    y[i] = x[i + 2]"


def test_faults_name_the_index_and_the_variable_of_the_source(client: Client) -> None:
    source = (
        "def f(x: list[float], n: int) -> float:\n    if n > 0:\n        y = 1.0\n    z = x[n - 4]\n    return y + z\n"
    )
    kernel = client.compile(source)
    with pytest.raises(KernelFault, match=r"^f: index -4 is out of bounds for dimension 1 of 'x' with extent 3, in"):
        kernel.launch(np.ones((1, 3)), 0)
    with pytest.raises(KernelFault, match=r"^f: variable 'y' is read before it is assigned, in thread 0"):
        kernel.launch(np.ones((1, 5)), 0)
    vector = (
        "import warp as wp\n\n@wp.kernel\ndef k(out: wp.array(dtype=float), n: int):\n    out[0] = wp.vec3(1.0)[n]\n"
    )
    with pytest.raises(KernelFault, match=r"^k: an index is out of bounds, in thread 0"):
        client.compile(vector).launch(np.zeros(1, np.float32), -4, grid=1)


def test_loops_end_with_their_budget_and_calls_with_their_deadline(client: Client) -> None:
    kernel = warp_kernel(client, "endless")
    with pytest.raises(KernelFault) as raised:
        kernel.launch(np.zeros(1, np.int32), grid=1, loop_budget=1000)
    assert raised.value.kind == "loop_budget"
    with pytest.raises(DeadlineError):
        kernel.launch(np.zeros(1, np.int32), grid=1, loop_budget=2**63, timeout=0.5)
    assert client.compile(norm).launch(3.0, 4.0) == 2.5


def test_a_source_outside_of_the_language_names_the_file(client: Client) -> None:
    def reads(x: float) -> float:
        with open("f") as file:
            return x + len(file.name)

    with pytest.raises(TranslationError) as raised:
        client.compile(reads)
    [one] = raised.value.diagnostics
    assert (one.kernel, one.filename) == ("reads", __file__)
    assert (one.line, one.column) == (inspect.getsourcelines(reads)[1] + 1, 8)
    with pytest.raises(InvalidArgumentError) as refused:
        client.compile(WARP)
    assert refused.value.violations[0].field == "program.name"
    with pytest.raises(InvalidArgumentError) as refused:
        client.compile(norm, name="missing")
    assert refused.value.violations[0].field == "program.name"


def test_kernels_are_kept_until_they_are_evicted(client: Client) -> None:
    kernel = client.compile(norm, constants={"GAIN": 4.0})
    assert client.compile(norm, constants={"GAIN": 4.0}) == kernel
    assert client.list_kernels()[0] == kernel
    assert client.list_kernels()[0].launch(3.0, 4.0) == 20.0
    client.evict_kernel(kernel)
    assert kernel.id not in [one.id for one in client.list_kernels()]
    with pytest.raises(NotFoundError):
        client.evict_kernel(kernel.id)
    assert kernel.launch(3.0, 4.0) == 20.0 and client.list_kernels()[0] == kernel


def test_calls_of_several_threads_have_their_own_results(client: Client) -> None:
    kernel = client.compile(norm)
    results: dict[int, Any] = {}

    def launch(nth: int) -> None:
        results[nth] = [kernel.launch(float(nth), 0.0) for _ in range(10)]

    threads = [threading.Thread(target=launch, args=(nth,)) for nth in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert results == {nth: [GAIN * nth] * 10 for nth in range(4)}


def test_a_decorated_function_runs_on_the_daemon(client: Client) -> None:
    def double(x: float) -> float:
        return 2.0 * x

    @accelerd.kernel(client=client)
    def scaled(x: float, n: int) -> float:
        return GAIN * double(x) + n

    x = np.linspace(-1, 1, 7)
    np.testing.assert_array_equal(scaled(x, 3), x + 3)
    assert scaled(2.0, n=1) == 3.0 and type(scaled(2.0, 1)) is float
    client.evict_kernel(scaled.compile())
    assert scaled(2.0, 1) == 3.0
    # A kernel of its own captures the value of now.
    assert scaled.__wrapped__(2.0, 1) == 3.0  # type: ignore[attr-defined]


def test_class_attributes_have_their_current_values_on_the_daemon(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scaled(x: float) -> float:
        return Derived.scale * x

    for scale in (9.0, math.inf):
        monkeypatch.setattr(Scaled, "scale", scale)
        assert accelerd.kernel(scaled, client=client)(2.0) == scaled(2.0)


@pytest.fixture
def saxpy(client: Client, monkeypatch: pytest.MonkeyPatch) -> Iterator[KernelFunction]:
    # Decorates as Warp does: kernels are not callable.
    wp: Any = ModuleType("warp")
    wp.kernel = lambda function: SimpleNamespace(func=function)
    wp.array = lambda dtype: dtype
    monkeypatch.setitem(sys.modules, "warp", wp)

    @accelerd.kernel(client)
    @wp.kernel
    def saxpy(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
        i = wp.tid()
        y[i] += a * x[i]

    yield saxpy


def test_a_launch_in_the_manner_of_warp_changes_arrays_in_place(client: Client, saxpy: KernelFunction) -> None:
    x, y = np.arange(4, dtype=np.float32), np.full(4, 10, np.float32)
    saxpy.launch(dim=4, inputs=[x, y, 0.5])
    assert y.tolist() == [10, 10.5, 11, 11.5]
    with client.upload(x) as kept:
        saxpy.launch(dim=4, inputs=[kept, y, -0.5])
    assert y.tolist() == [10, 10, 10, 10]
    with pytest.raises(KernelFault) as raised:
        saxpy.launch(5, [x, y, 0.5])
    assert raised.value.filename == __file__ and raised.value.text.strip() == "y[i] += a * x[i]"
    assert y.tolist() == [10, 10, 10, 10]


def test_native_functions_and_tiles_of_warp_have_the_values_of_numpy(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    wp: Any = ModuleType("warp")
    for name in ("Function", "Kernel"):
        setattr(wp, name, type(name, (SimpleNamespace,), {"__module__": "warp"}))
    wp.func_native = lambda snippet: lambda function: wp.Function(func=function, native_snippet=snippet)
    wp.kernel = lambda function: wp.Kernel(func=function)
    wp.array = lambda dtype: dtype
    wp.uint32 = np.uint32
    monkeypatch.setitem(sys.modules, "warp", wp)
    mask = f"(uint32_t)(-(int)(i >> 31)) | {1 << 31:#x}"

    @wp.func_native(f"uint32_t i = reinterpret_cast<uint32_t&>(f);\nreturn i ^ ({mask}); // ordered")
    def flipped(f: float) -> wp.uint32: ...

    @wp.kernel
    def ordered(x: wp.array(dtype=float), out: wp.array(dtype=wp.uint32)):
        i = wp.tid()
        out[i] = flipped(wp.tile_sum(wp.tile(x[i]))[0])

    x = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, 1e-45], np.float32)
    bits = x.view(np.uint32)
    expected = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31))
    kernel = client.compile(ordered)
    assert client.launch(kernel, x, np.zeros(x.size, np.uint32), grid=x.size).tolist() == expected.tolist()


def test_the_asyncio_client_launches_as_well(server: str) -> None:
    async def run() -> None:
        async with AsyncClient(server, timeout=30) as client:
            kernel = await client.compile(norm)
            assert await kernel.launch(3.0, 4.0) == 2.5
            results = await asyncio.gather(*(client.launch(kernel, float(n), 0.0) for n in range(8)))
            assert results == [GAIN * n for n in range(8)]
            await client.evict_kernel(kernel)
            assert await kernel.launch(3.0, 4.0) == 2.5

    asyncio.run(run())
