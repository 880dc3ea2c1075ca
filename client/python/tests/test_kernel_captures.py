"""What functions of Warp use, as it is sent. A module stands in for Warp, whose objects have the same attributes."""

from __future__ import annotations

import enum
import functools
import math
import re
import sys
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from accelerd import kernel as kernel_of
from accelerd._kernel_source import kernel_module


class Flags(enum.IntFlag):
    """Numbers that its source does not have."""

    A = enum.auto()
    B = enum.auto()


class Settings:
    given = 1.0
    computed = math.sqrt(16.0)
    changed = 3.0
    single: Any = 1.0
    absent = 1.0

    class Inner:
        depth = 1


class Derived(Settings):
    pass


class Function:
    """A function of Warp: those of one name, in the order in which they are tried."""

    def __init__(self, func: Any, key: str = "", overloads: dict[str, Any] | None = None) -> None:
        self.func, self.key = func, key or func.__name__
        self.user_overloads = {"": self} if overloads is None else overloads
        self.user_templates: dict[str, Any] = {}


class Kernel:
    """A kernel of Warp, whose arguments have types if it is not generic."""

    def __init__(self, func: Any, types: dict[str, Any] | None = None) -> None:
        self.func, self.is_generic, self.overloads, self.generic_parent = func, types is None, {}, None
        self.adj = SimpleNamespace(
            arg_types=types or {}, args=[SimpleNamespace(type=one) for one in (types or {}).values()]
        )


class Struct:
    def __init__(self, cls: type, **fields: Any) -> None:
        self.cls, self.vars = cls, {name: SimpleNamespace(type=one) for name, one in fields.items()}


@pytest.fixture(autouse=True)
def wp(monkeypatch: pytest.MonkeyPatch) -> Any:
    module: Any = ModuleType("warp")
    for one in (Function, Kernel, Struct):
        monkeypatch.setattr(one, "__module__", "warp._src")
    module.float32 = type("float32", (), {"__module__": "warp._src.types", "_type_": "f"})
    vector = {"__module__": "warp._src.types", "_wp_generic_type_str_": "vec_t", "_shape_": (2,)}
    module.vec2 = type("vec2f", (list,), {**vector, "_wp_scalar_type_": module.float32})
    annotation = type("_ArrayAnnotation", (), {"__module__": "warp._src.types"})
    module.annotation = annotation
    module.func = module.kernel = lambda function: function

    def static(value: Any) -> Any:
        return value

    static.__module__ = "warp._src.builtins"
    module.static = static
    monkeypatch.setitem(sys.modules, "warp", module)
    return module


def text(source: Any) -> str:
    return kernel_module(source, {}).text


def executed(source: Any) -> dict[str, Any]:
    module = kernel_module(source, {})
    scope: dict[str, Any] = dict(module.constants)
    exec(module.text, scope)
    return scope


def numbered(number: int) -> Any:
    def f(x):
        return x + number

    return f


def test_functions_of_one_name_have_names_of_their_own() -> None:
    first, second = Function(numbered(1)), Function(numbered(2))
    other = SimpleNamespace(f=Function(numbered(3)))

    def k(x):
        return first(x) + second(x) + other.f(x)

    scope = executed(Kernel(k, {"x": int}))
    assert scope["k"](10) == 11 + 12 + 13


def test_overloads_are_sent_together_in_their_order() -> None:
    def f(x):
        return 1

    first = Function(f)

    def f(x, y):  # type: ignore[no-redef]
        return f(x)

    both = Function(f, overloads={"x": first, "xy": Function(f)})
    made = Function(f)
    made.generic_parent = first  # type: ignore[attr-defined]
    both.user_overloads["made"] = made

    def k(x):
        return both(x) + both(x, x)

    source = text(Kernel(k, {"x": int}))
    signatures = [line.partition(":")[0] for line in source.splitlines() if line.startswith("def f")]
    assert signatures == ["def f(x)", "def f(x, y)"]
    assert "both = f\n" in source


def test_functions_and_numbers_of_other_modules_take_the_place_of_their_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("others")
    module.f, module.COUNT, module.inner = Function(numbered(5)), 7, SimpleNamespace(f=Function(numbered(6)))

    def k(x):
        return module.f(x) * module.COUNT + module.inner.f(x) + Flags.B

    kernel = Kernel(k, {"x": int})
    assert executed(kernel)["k"](1) == 6 * 7 + 7 + 2
    assert "module" not in text(kernel)


def test_structs_are_written_from_their_fields(wp: Any) -> None:
    array = wp.annotation()
    array.dtype, array.ndim = wp.vec2, 2
    inner = Struct(type("S", (), {}), x=wp.float32)
    outer = Struct(type("S", (), {}), inner=inner, values=array, count=int)
    unknown = Struct(type("S", (), {}), handle=object)

    def k(s: outer, t: inner):  # type: ignore[valid-type]
        return s.inner.x + inner().x + outer().count

    source = text(Kernel(k, {"s": outer, "t": inner}))
    vec2 = "_warp_.types.vector(length=2, dtype=_warp_.float32)"
    assert f"class S:\n    inner: S_2_\n    values: _warp_.array(dtype={vec2}, ndim=2)\n    count: int\n" in source or (
        f"    values: _warp_.array(dtype={vec2}, ndim=2)\n    count: int\n" in source
    )
    assert source.count("@_warp_.struct\n") == 2
    assert "outer" not in source and "inner()" not in source

    def other(x):
        return unknown(x)

    assert "class" not in text(Kernel(other, {"x": int}))


def test_values_of_warp_are_written(wp: Any) -> None:
    class Instance:
        _cls = Struct(type("S", (), {}), at=wp.vec2, count=int)
        at, count = wp.vec2([1.0, -2.5]), 3

    corner, instance, vector = wp.vec2([0.5, float("inf")]), Instance(), wp.vec2

    def k(x: vector):
        return corner + wp.static(instance) + x

    source = text(Kernel(k, {"x": wp.vec2}))
    vec2 = "_warp_.types.vector(length=2, dtype=_warp_.float32)"
    assert f"return {vec2}(0.5, _warp_.inf) + S({vec2}(1.0, (-2.5)), 3) + x" in source.replace("S_2_", "S")


def test_lines_after_a_value_keep_their_numbers(wp: Any) -> None:
    def k(x):
        y = wp.static(
            sum(
                (1, 2),
            )
        ) + wp.static(4)
        return x + y

    source = text(Kernel(k, {"x": int}))
    assert source.splitlines()[2:] == ["    y = (3", "", "", "", ") + 4", "    return x + y"]


def test_overloads_of_generic_kernels_are_stated(wp: Any) -> None:
    def k(x, y):
        return x + y

    generic = Kernel(k)
    assert "overload" not in text(generic)
    first, second = Kernel(k, {"x": wp.vec2, "y": int}), Kernel(k, {"x": wp.float32, "y": bool})
    first.generic_parent = second.generic_parent = generic
    generic.overloads = {"a": first, "b": second}
    lines = text(generic).splitlines()[-2:]
    assert lines == [
        "_warp_.overload(k, [_warp_.types.vector(length=2, dtype=_warp_.float32), int])",
        "_warp_.overload(k, [_warp_.float32, bool])",
    ]
    assert text(second).splitlines()[-1] == lines[1]
    # One that cannot be written is left out.
    generic.overloads["c"] = Kernel(k, {"x": object, "y": int})
    assert text(generic).splitlines()[-2:] == lines


def test_types_that_only_annotations_name_are_those_of_warp(wp: Any) -> None:
    def made(dtype: Any) -> Any:
        def k(x: dtype):
            return x

        return k

    kernel = Kernel(made(wp.vec2), {"x": wp.vec2})
    assert "def k(x: _warp_.types.vector(length=2, dtype=_warp_.float32)):" in text(kernel)
    assert "def k(x: dtype):" in text(made(wp.vec2))


def test_functions_of_warp_by_other_names_are_known(wp: Any) -> None:
    tid = Function(None, "tid")
    names = SimpleNamespace(tid=tid)

    def k(x):
        return tid() + names.tid()

    assert "return _warp_.tid() + _warp_.tid()" in text(Kernel(k, {"x": int}))


def test_a_name_that_a_source_has_is_no_other_name() -> None:
    first, second = Function(numbered(1)), Function(numbered(2))

    def k(x):
        f_2_ = 3
        return first(x) + second(f_2_)

    assert executed(Kernel(k, {"x": int}))["k"](10) == 11 + 5

    def f(x):
        f_4_ = x
        return third(f_4_)

    third, called = Function(numbered(3)), Function(f)

    def later(x):
        return first(x) + second(x) + third(x) + called(x)

    with pytest.raises(ValueError, match="source: rename 'f_4_'"):
        text(Kernel(later, {"x": int}))


def plain(x: float) -> float:
    return 2.0 * x


def plus(function: Any) -> Any:
    @functools.wraps(function)
    def w(x: float) -> float:
        return function(x) + 1.0

    return w


class Plus:
    def __init__(self, func: Any) -> None:
        self.func = func

    def __call__(self, x: float) -> float:
        return self.func(x) + 1.0


WRAPPED = [(plus(plain), r"'w' \("), (plus(plus(plain)), r"'w' \("), (Plus(plain), "an object of Plus")]


@pytest.mark.parametrize(("wrapped", "wrapper"), WRAPPED)
def test_a_function_that_a_decorator_wraps_is_refused(wrapped: Any, wrapper: str) -> None:
    message = f"expected a function without a wrapper, got 'plain', which a decorator wraps in {wrapper}"

    def k(x: float) -> float:
        return wrapped(x)

    places = [
        ("source", wrapped),
        (re.escape("source[1]"), [numbered(1), wrapped]),
        ("source of .*<locals>.k", k),
    ]
    for what, source in places:
        with pytest.raises(TypeError, match=f"^{what}: {message}"):
            text(source)
    with pytest.raises(TypeError, match=f"^function: {message}"):
        kernel_of(wrapped)


def test_wrappers_of_warp_and_of_the_client_are_removed(wp: Any) -> None:
    of_warp = FunctionType(plus(plain).__code__, {"__name__": "warp._src"}, closure=plus(plain).__closure__)
    functools.update_wrapper(of_warp, plain)

    def k(x: float) -> float:
        return of_warp(x)

    assert executed(of_warp)["plain"](3.0) == 6.0
    assert executed(k)["k"](3.0) == 6.0
    assert executed(kernel_of(plain))["plain"](3.0) == 6.0


def test_attributes_of_classes_have_their_current_values(monkeypatch: pytest.MonkeyPatch) -> None:
    def k(x: float) -> float:
        return x * Settings.given + Settings.computed + Settings.changed + Derived.changed + Settings.Inner.depth

    for changed, depth in ((9.0, 7), (-2.5, True)):
        monkeypatch.setattr(Settings, "changed", changed)
        monkeypatch.setattr(Settings.Inner, "depth", depth)
        assert executed(k)["k"](2.0) == k(2.0)
    monkeypatch.setattr(Derived, "changed", 20.0, raising=False)
    assert executed(k)["k"](2.0) == k(2.0)
    assert "class" not in text(k)


def test_attributes_of_classes_that_cannot_be_written_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def single(x: float) -> float:
        return x * Settings.single

    def absent(x: float) -> float:
        return x * Settings.absent

    monkeypatch.setattr(Settings, "single", np.float32(2.0))
    monkeypatch.delattr(Settings, "absent")
    for function, got in ((single, "float32"), (absent, "NoneType")):
        name = function.__name__
        message = rf"source: Settings\.{name} of .*{name}: expected an int, a float, a bool or .*, got {got}"
        with pytest.raises(ValueError, match=message):
            text(function)


def test_attributes_that_a_kernel_assigns_keep_their_names() -> None:
    def k(x: float) -> float:
        Settings.given = x
        return x

    assert "    Settings.given = x\n" in text(k)
