"""The decorator `kernel`: calls and launches against a daemon that runs functions as Python does."""

from __future__ import annotations

import functools
import inspect
import pickle
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_daemon import FakeDaemon, component, param, serving

import accelerd
from accelerd import Client, KernelFault, KernelFunction
from accelerd._proto import kernel_pb2 as pb

SCALE = 2.0


@accelerd.kernel
def bare(x: float, n: int) -> float:
    """Scale."""
    return SCALE * x + n


@accelerd.kernel(
    dialect="python",
    constants={"SCALE": 3.0},
)
def with_options(x: float) -> float:
    return SCALE * x


def double(x: float) -> float:
    return 2.0 * x


@accelerd.kernel
def both(x: float) -> tuple[float, float]:
    return (x, double(x))


on_daemon = accelerd.kernel(dialect="python")


@on_daemon
def inverse(x: float) -> float:
    return 1.0 / x


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDaemon]:
    with serving() as daemon:
        monkeypatch.setenv("ACCELERD_SERVER", daemon.target)
        accelerd._default_client._client_of.cache_clear()
        for function in (bare, with_options, both, inverse):
            function._compiled = None
        yield daemon
        accelerd._default_client.default_client().close()


def test_a_call_maps_over_arrays_and_numbers_as_the_function_does(daemon: FakeDaemon) -> None:
    assert bare.__wrapped__(1.5, 2) == 5.0  # type: ignore[attr-defined]
    assert bare(1.5, 2) == 5.0 and type(bare(1.5, 2)) is float
    x = np.arange(4.0).reshape(2, 2)
    np.testing.assert_array_equal(bare(x, n=1), 2 * x + 1)
    # It calls another function of this module.
    assert both(1.5) == (1.5, 3.0)
    assert [one.tolist() for one in both(np.array([1.0, 2.0]))] == [[1, 2], [2, 4]]
    assert (bare.__name__, bare.__doc__, repr(bare)) == ("bare", "Scale.", "<KernelFunction bare>")
    assert str(inspect.signature(bare)) == "(x: 'float', n: 'int') -> 'float'"


def test_the_function_is_compiled_once_without_the_decorator(daemon: FakeDaemon) -> None:
    for _ in range(3):
        assert with_options(1.5) == 4.5
    [program] = daemon.kernels.compilations
    # The lines of the decorator are empty, so that later ones keep their numbers.
    assert program.source.splitlines() == [
        "",
        *[""] * 4,
        "def with_options(x: float) -> float:",
        "    return SCALE * x",
    ]
    assert (program.name, program.dialect) == ("with_options", pb.KERNEL_DIALECT_PYTHON)
    assert {name: one.number for name, one in program.constants.items()} == {"SCALE": 3.0}


def test_a_kernel_that_the_daemon_dropped_is_compiled_again(daemon: FakeDaemon) -> None:
    assert bare(1.5, 2) == 5.0
    daemon.kernels.kept.clear()
    assert bare(1.5, 2) == 5.0 and len(daemon.kernels.compilations) == 2


def test_a_fault_names_the_line_of_the_decorated_function(daemon: FakeDaemon) -> None:
    with pytest.raises(KernelFault) as raised:
        inverse(np.array([1.0, 0.0]))
    assert (raised.value.filename, raised.value.thread) == (__file__, 1)
    assert raised.value.line == inspect.getsourcelines(inverse)[1] + 2
    assert raised.value.text == "    return 1.0 / x"


def test_a_client_is_given_by_position_or_by_name(daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELERD_SERVER", "127.0.0.1:1")
    with Client(daemon.target, timeout=10) as client:
        on = accelerd.kernel(client)

        @on
        def local(x: float) -> float:
            return x + 1.0

        @accelerd.kernel(client=client)
        def named(x: float) -> float:
            return x + 2.0

        assert isinstance(local, KernelFunction) and local.client is client
        assert local(1.0) == 2.0
        assert accelerd.kernel(double, client=client)(2.0) == 4.0
        assert named(1.0) == 3.0
    assert daemon.kernels.compilations[0].source.splitlines()[:3] == ["", "", "def local(x: float) -> float:"]


def test_a_decorated_function_is_translated_and_verified_as_the_function(daemon: FakeDaemon) -> None:
    with Client(daemon.target, timeout=10) as client:
        assert client.compile(bare).launch(1.0, 1) == 3.0
        assert client.verify(bare, bare.func, count=10).passed


def test_a_decorated_function_is_pickled_by_its_name(daemon: FakeDaemon) -> None:
    assert bare(1.0, 1) == 3.0
    assert pickle.loads(pickle.dumps(bare)) is bare


def test_what_is_no_function_is_refused() -> None:
    for wrong, name in ((5, "int"), (functools.partial(double), "partial"), (len, "builtin")):
        with pytest.raises(TypeError, match=f"function: expected a function or a Client, got {name}"):
            accelerd.kernel(wrong)


def warp_module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module that decorates as Warp does: kernels are not callable."""
    module: Any = ModuleType("warp")
    module.kernel = lambda function: SimpleNamespace(func=function)
    monkeypatch.setitem(sys.modules, "warp", module)
    return module


@pytest.fixture
def saxpy(daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> KernelFunction:
    def run(x: Any, y: Any, a: Any) -> None:
        y += a * x

    vector = component("f32")
    kernel = pb.Kernel(
        name="saxpy",
        dialect=pb.KERNEL_DIALECT_WARP,
        grid_dims=1,
        params=[param("x", 1, vector), param("y", 1, vector), param("a", 0, vector)],
        written_arrays=["y"],
    )
    daemon.kernels.warp["saxpy"] = kernel, run
    wp = warp_module(monkeypatch)

    @accelerd.kernel
    @wp.kernel
    def saxpy(x: Any, y: Any, a: Any):
        i = wp.tid()
        y[i] += a * x[i]

    return saxpy


def test_a_launch_changes_the_arrays_that_the_kernel_writes(daemon: FakeDaemon, saxpy: KernelFunction) -> None:
    x, y = np.float32([1, 2, 3]), np.float32([10, 20, 30])
    saxpy.launch(3, inputs=[x, y, 0.5])
    assert y.tolist() == [10.5, 21, 31.5] and x.tolist() == [1, 2, 3]
    assert list(daemon.kernels.launches[-1].grid) == [3]
    lines = daemon.kernels.compilations[0].source.splitlines()
    assert "@wp.kernel" in [line.strip() for line in lines] and "accelerd" not in "".join(lines)
    every_second = np.zeros(6, np.float32)[::2]
    saxpy.launch(dim=(3,), inputs=[x], outputs=[every_second, 2])
    assert every_second.base.tolist() == [2, 0, 4, 0, 6, 0]  # type: ignore[union-attr]


def test_an_array_that_is_passed_twice_is_changed_in_place(daemon: FakeDaemon, saxpy: KernelFunction) -> None:
    y = np.float32([1, 2, 3, 4])
    saxpy.launch(4, [y, y, 1])
    assert y.tolist() == [2, 4, 6, 8] and len(daemon.kernels.launches[-1].views) == 1
    saxpy.launch(2, [y[:2], y[2:], 1])
    assert y.tolist() == [2, 4, 8, 12] and not daemon.kernels.launches[-1].views


def test_arrays_of_other_libraries_are_changed_in_place(daemon: FakeDaemon, saxpy: KernelFunction) -> None:
    class Foreign:
        """As the arrays of Warp: numpy imports them by DLPack as read-only, and by this interface not."""

        def __init__(self, array: Any) -> None:
            self.array = array
            self.__array_interface__ = array.__array_interface__

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    y = np.float32([10, 20])
    saxpy.launch(2, [Foreign(np.float32([1, 2])), Foreign(y), 1])
    assert y.tolist() == [11, 22]


def test_arrays_that_cannot_be_written_are_refused(daemon: FakeDaemon, saxpy: KernelFunction) -> None:
    x = np.float32([1, 2])
    read_only = np.float32([1, 2])
    read_only.setflags(write=False)
    with pytest.raises(TypeError, match="y: expected an array that the kernel can write, got one that is read-only"):
        saxpy.launch(2, [x, read_only, 1])
    with pytest.raises(TypeError, match="y: expected an array that the kernel can write, got list"):
        saxpy.launch(2, [x, [1.0, 2.0], 1])
    with pytest.raises(TypeError, match="y: expected an array without a mask, got MaskedArray"):
        saxpy.launch(2, [x, np.ma.array(x, mask=[True, False]), 1])
    with pytest.raises(TypeError, match="y: expected f32, got an array of f64"):
        saxpy.launch(2, [x, np.zeros(2), 1])
    both = np.zeros(4, np.float32)
    with pytest.raises(ValueError, match="x: expected an array that contains y"):
        saxpy.launch(2, [both[:2], both[1:3], 1])
    with pytest.raises(TypeError, match="saxpy: expected arrays for y, which it writes"):
        saxpy.launch(2, [x])
    assert daemon.kernels.launches == []


def test_each_dialect_says_how_it_is_run(daemon: FakeDaemon, saxpy: KernelFunction) -> None:
    with pytest.raises(TypeError, match=r"saxpy: a kernel of the dialect 'warp' is run by launch\(dim, inputs"):
        saxpy(np.zeros(3, np.float32))
