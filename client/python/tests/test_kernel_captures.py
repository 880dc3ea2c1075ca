"""What functions of Warp use, as it is sent. A module stands in for Warp, whose objects have the same attributes."""

from __future__ import annotations

import ast
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
    assert source.splitlines()[3:] == ["    y = (3", "", "", "", ") + 4", "    return x + y"]


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


def scaled_by(number: float) -> Any:
    def scale(x):
        return x * number

    return scale


class Operators:
    """Functions as attributes, of which one has the name of a function of this module."""

    scale = Function(scaled_by(3.0))


scale = Function(scaled_by(100.0))


def test_a_function_of_another_module_is_not_the_own_one_of_its_name(wp: Any) -> None:
    helper: Any = ModuleType("helper")
    helper.scale, first = Function(scaled_by(2.0)), Function(lambda x: x)

    def scale_of_two(x, y):  # An overload, whose function has the name of another one.
        return x * y

    scale_of_two.__code__ = scale_of_two.__code__.replace(co_name="scale")
    helper.both = Function(scaled_by(5.0))

    def by_path(x):
        return helper.scale(x)

    def by_value(x):
        return wp.static(helper.scale)(x)

    def of_class(x):
        return Operators.scale(x)

    def of_all(x):
        return helper.scale(x) + Operators.scale(x) + scale(x) + helper.both(x) + wp.static(helper.both)(x)

    assert first.func(1.0) == 1.0
    for function, expected in ((by_path, 2.0), (by_value, 2.0), (of_class, 3.0), (of_all, 115.0)):
        assert executed(Kernel(function, {"x": int}))[function.__name__](1.0) == expected
    # The given kernels are sent together, in any order.
    kernels = [Kernel(one, {"x": int}) for one in (of_all, of_class, by_path, by_value)]
    for given in (kernels, kernels[::-1]):
        scope = executed(given)
        assert [scope[name](1.0) for name in ("by_path", "by_value", "of_class", "of_all")] == [2.0, 2.0, 3.0, 115.0]


def test_a_variable_with_the_name_of_a_function_of_another_module_does_not_hide_it() -> None:
    helper: Any = ModuleType("helper")
    helper.norm = helper.alias = Function(scaled_by(7.0))
    norm = helper.norm

    def k(x):
        scale = helper.norm(x)
        scale = helper.norm(scale) + scale
        return scale

    def by_argument(scale):
        return helper.norm(scale)

    def by_alias(x):
        scale = helper.alias(x)
        return scale + norm(x)

    scope = executed([Kernel(one, {"x": int}) for one in (k, by_argument, by_alias)])
    assert [scope["k"](1.0), scope["by_argument"](2.0), scope["by_alias"](3.0)] == [56.0, 14.0, 42.0]


def test_overloads_of_another_module_are_not_the_own_ones_of_their_name() -> None:
    def scale(x):
        return 2 * x

    first = Function(scale)

    def scale(x, y):  # type: ignore[no-redef]
        return 2 * x * y

    helper: Any = ModuleType("helper")
    helper.scale = Function(scale, overloads={"x": first, "xy": Function(scale)})
    own = globals()["scale"]

    def k(x):
        return helper.scale(x) + own(x)

    source = text(Kernel(k, {"x": int}))
    names = re.findall(r"^def (\w+)", source, re.MULTILINE)
    of_helper = [name for name in names if names.count(name) == 2]
    assert len(of_helper) == 2 and "k" in names
    used = re.search(r"return (\w+)\(x\) \+ (\w+)\(x\)", source)
    assert used is not None and used[1] == of_helper[0] and used[2] != used[1]


def test_a_struct_of_another_module_is_not_the_own_one_of_its_name(wp: Any) -> None:
    helper: Any = ModuleType("helper")
    helper.Params = Struct(type("Params", (), {}), x=wp.float32)
    Params = Struct(type("Params", (), {}), y=int)  # noqa: N806

    def k(p: Params):  # type: ignore[valid-type]
        q = helper.Params()
        return q.x + p.y

    source = text(Kernel(k, {"p": Params}))
    signature = re.search(r"def k\(p: (\w+)\)", source)
    made = re.search(r"q = (\w+)\(\)", source)
    assert signature is not None and made is not None
    assert f"class {signature[1]}:\n    y: int\n" in source
    assert f"class {made[1]}:\n    x: _warp_.float32\n" in source

    def hidden(p: Params):  # type: ignore[valid-type]
        Params = wp.static(helper.Params)()  # noqa: N806
        return Params.x + p.y

    kernels = [Kernel(hidden, {"p": Params}), Kernel(k, {"p": Params})]
    for given in (kernels, kernels[::-1]):
        source = text(given)
        made = re.search(r"Params = (\w+)\(\)", source)
        assert made is not None and made[1] != "Params"
        assert f"class {made[1]}:\n    x:" in source or f"{made[1]} = " in source


def test_a_type_is_not_the_missing_one_of_another_function(wp: Any) -> None:
    def made(dtype: Any) -> Any:
        def f(x):
            return x if dtype is None else dtype(x)

        return Function(f)

    nothing, first, second = made(None), made(wp.float32), made(wp.vec2)
    wp.float32.__name__ = "float32"

    def k(x):
        return nothing(x) + first(x) + second(x)

    source = text(Kernel(k, {"x": int}))
    called = re.findall(r"x if .+ is None else (.+)\(x\)", source)
    assert sorted(called) == ["_warp_.types.vector(length=2, dtype=_warp_.float32)", "dtype", "dtype_2_"]
    assert "from warp import float32 as dtype" in source


def test_modules_of_one_name_are_imported_by_names_of_their_own() -> None:
    import math as numbers

    def f(x):
        return numbers.sqrt(x)

    def made() -> Any:
        import cmath as numbers

        def g(x):
            return numbers.sqrt(x)

        return g

    scope = executed([f, made()])
    assert scope["f"](4.0) == 2.0
    assert scope["g"](-4.0) == 2.0j


def test_a_name_that_nothing_defines_is_not_that_of_something_sent() -> None:
    helper: Any = ModuleType("helper")
    helper.scale = Function(scaled_by(2.0))

    def k(x):
        return helper.scale(x) + other(x)

    def other(x):
        return length(x)  # type: ignore[name-defined]  # noqa: F821

    def length(x):
        return x

    helper.length, other = Function(length), Function(other)
    del length

    def both(x):
        return helper.length(x) + other(x)

    assert "length(x)" in text(Kernel(k, {"x": int}))
    with pytest.raises(ValueError, match="source: rename 'length'"):
        text(Kernel(both, {"x": int}))


def test_a_function_has_the_decorator_of_what_warp_made_of_it(wp: Any) -> None:
    def decorate(function: Any) -> Any:
        return Kernel(function, {"x": int})

    @decorate
    def decorated(x):
        return inner(x)

    def f(x):
        return x + 1

    inner = Function(f)
    made = Kernel(f, {"x": int})

    @wp.kernel
    def known(x):
        return x

    source = text(decorated)
    assert "@decorate" not in source
    assert source.splitlines()[1:4] == ["@_warp_.kernel", "", "def decorated(x):"]
    assert "@_warp_.func\ndef f(x):" in source
    assert "@_warp_.kernel\ndef f(x):" in text(made)
    assert "@_warp_.kernel\ndef f(x):" in text(kernel_of(made))
    assert "@_warp_.kernel\n\ndef known(x):" in text(Kernel(known, {"x": int}))
    module = kernel_module(decorated, {})
    line = module.text.splitlines().index("def decorated(x):") + 1
    assert module.place("decorated", line, 4) == (__file__, decorated.func.__code__.co_firstlineno + 1, 8)
    inner.native_snippet = "return x;\n"  # type: ignore[attr-defined]
    assert "@_warp_.func_native('return x;\\n')\ndef f(x):" in text(decorated)


def test_types_derived_from_those_of_warp_are_the_same_types(wp: Any) -> None:
    derived = type("vec_of_two", (wp.vec2,), {"__module__": "elsewhere"})
    twice = type("derived_twice", (derived,), {"__module__": __name__})
    value = twice([1.0, 2.0])

    def k(x: derived, y: twice):  # type: ignore[valid-type]
        return x + twice(1.0, 2.0) + wp.static(value) + y

    source = text(Kernel(k, {"x": derived, "y": twice}))
    vec2 = "_warp_.types.vector(length=2, dtype=_warp_.float32)"
    assert f"def k(x: {vec2}, y: {vec2}):" in source
    assert f"    return x + {vec2}(1.0, 2.0) + {vec2}(1.0, 2.0) + y\n" in source


def test_scalars_of_warp_that_hold_those_of_numpy_are_written(wp: Any) -> None:
    eps = wp.float32()
    eps.value = np.float32(np.finfo(np.float32).eps)

    def k(x):
        return x + eps

    assert "return x + _warp_.float32(1.1920928955078125e-07)\n" in text(Kernel(k, {"x": int}))


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


def test_structs_without_fields_are_written(wp: Any) -> None:
    empty = Struct(type("Empty", (), {}))

    def k(s: empty):  # type: ignore[valid-type]
        return empty()

    source = text(Kernel(k, {"s": empty}))
    assert "@_warp_.struct\nclass Empty:\n    pass\n" in source
    assert "empty" not in source


def test_types_that_a_class_around_a_function_names_are_those_of_warp(wp: Any) -> None:
    class Space:
        Arg = Struct(type("Arg", (), {}), count=int)

        # The name is one of the class's own body.
        def k(s: Arg):  # noqa: N805
            return s.count

    source = text(Kernel(Space.__dict__["k"], {"s": Space.Arg}))
    assert "class Arg_2_:\n    count: int\n" in source
    assert "def k(s: Arg_2_):" in source


def test_types_that_an_expression_chooses_are_those_of_warp(wp: Any) -> None:
    def k(x: int, y: int if wp is None else float):  # type: ignore[valid-type]
        return x + y

    assert "def k(x: int, y: float):" in text(Kernel(k, {"x": int, "y": float}))


def test_sequences_that_warp_static_takes_items_of_are_written(wp: Any) -> None:
    def twice(x):
        return 2 * x

    corners, functions, other = [(0, 1), (2.5, -3)], (Function(twice), Function(twice)), [object()]

    def k(x):
        for i in range(2):
            x += wp.static(corners[i][0] + wp.static(len(corners))) + wp.static(functions[i])(x)
            x += wp.static(other[i])
        return x

    source = text(Kernel(k, {"x": float}))
    corner = "wp.static(((0, 1, ), (2.5, (-3), ), )[i][0] + 2)"
    assert f"x += {corner} + wp.static((twice, twice, )[i])(x)\n" in source
    assert "x += wp.static(other[i])\n" in source


def test_a_kernel_in_no_file_has_the_source_that_warp_has(wp: Any) -> None:
    scope: dict[str, Any] = {"wp": wp}
    source = "def k(x: wp._src.vec2):\n    return x\n"
    exec(source, scope)
    wp._src = SimpleNamespace(vec2=wp.vec2)
    kernel = Kernel(scope["k"], {"x": wp.vec2})
    with pytest.raises(ValueError, match="there is no source of k"):
        text(kernel)
    kernel.adj.source = source
    assert "def k(x: _warp_.types.vector(length=2, dtype=_warp_.float32)):\n    return x\n" in text(kernel)


def test_functions_that_warp_transforms_are_sent_as_they_are_then(wp: Any) -> None:
    def evaluated(u: Settings, x):
        return u(x)

    def transformed(body: str) -> Function:
        tree = ast.parse(f"def evaluated(u: Settings, x):\n    return {body}\n")
        function: Any = Function(evaluated)
        function.adj = SimpleNamespace(transformers=[object()], tree=tree, arg_types={"u": wp.float32}, source="")
        return function

    doubled, added = transformed("2 * u * x"), transformed("u + x")

    def k(x):
        return doubled(5, x) + added(7, x)

    kernel = Kernel(k, {"x": int})
    assert executed(kernel)["k"](3) == 2 * 5 * 3 + 7 + 3
    assert "u: _warp_.float32" in text(kernel) and "Settings" not in text(kernel)
    kernel.adj.transformers, kernel.adj.tree = [object()], ast.parse("def k(x):\n    return x\n")
    assert text(kernel).endswith("def k(x):\n    return x\n")
