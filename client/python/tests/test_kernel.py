"""Translations of kernels: what is sent and decoded, against a server that answers as it is told, and by a daemon."""

from __future__ import annotations

import asyncio
import enum
import functools
import inspect
import math
import math as m
import pickle
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from math import hypot as length
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import grpc
import numpy
import pytest

from accelerd import (
    AccelerdError,
    Client,
    InvalidArgumentError,
    KernelComponent,
    KernelDiagnostic,
    KernelParam,
    MessageTooLargeError,
    TranslatedKernel,
    Translation,
    TranslationError,
)
from accelerd._proto import kernel_pb2 as pb
from accelerd._proto import kernel_pb2_grpc, tensor_pb2
from accelerd.aio import AsyncClient

TEXT = "def f(x: float) -> float:\n    return x * SCALE\n"
SCALE = 2.5
COUNT = 3
IS_ON = True
NAMES = ["not a constant"]


class Member(enum.IntEnum):
    TWO = 2


class Answering(kernel_pb2_grpc.KernelServiceServicer):
    """Answers with a response, and keeps the requests."""

    def __init__(self) -> None:
        self.requests: list[pb.TranslateRequest] = []
        self.response = pb.TranslateResponse()

    def Translate(self, request, context):  # noqa: N802
        self.requests.append(request)
        return self.response


@pytest.fixture
def served() -> Iterator[tuple[Answering, str]]:
    servicer, server = Answering(), grpc.server(ThreadPoolExecutor(2))
    kernel_pb2_grpc.add_KernelServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield servicer, f"127.0.0.1:{port}"
    server.stop(None)


@pytest.fixture
def answering(served: tuple[Answering, str]) -> Answering:
    return served[0]


@pytest.fixture
def local(served: tuple[Answering, str]) -> Iterator[Client]:
    with Client(served[1], timeout=10) as client:
        yield client


def saxpy_response() -> pb.TranslateResponse:
    scalar = pb.KernelComponent(dtype=tensor_pb2.DTYPE_F32)
    pair = [
        pb.KernelComponent(name=name, dtype=tensor_pb2.DTYPE_F64, offset_bytes=8 * n) for n, name in enumerate("xy")
    ]
    kernel = pb.TranslatedKernel(
        name="saxpy",
        grid_dims=1,
        bit_exact=True,
        params=[
            pb.KernelParam(name="a", components=[scalar], element_size_bytes=4),
            pb.KernelParam(name="x", dims=2, components=pair, element_size_bytes=16),
        ],
        files=[
            pb.KernelFile(name="saxpy.cu", content="// Ä\n".encode()),
            pb.KernelFile(name="Makefile", content=b"all:\n"),
            pb.KernelFile(name="saxpy.wasm", content=b"\0asm"),
        ],
    )
    diagnostic = pb.KernelDiagnostic(kernel="other", code="unknown_name", message="unknown name `y`", line=11, column=4)
    return pb.TranslateResponse(kernels=[kernel], diagnostics=[diagnostic])


def constants(request: pb.TranslateRequest) -> dict[str, Any]:
    return {name: getattr(one, one.WhichOneof("value")) for name, one in request.constants.items()}


def test_a_module_is_sent_with_its_options(answering: Answering, local: Client) -> None:
    given = {"SCALE": 2.5, "N": -(2**63), "ON": True}
    translation = local.translate(TEXT, dialect="python", constants=given, names=["f"], targets=["wasm"], arch="sm_90")
    [request] = answering.requests
    assert (list(request.targets), request.cuda_arch) == ([pb.KERNEL_TARGET_WASM], "sm_90")
    assert (request.source, translation.source) == (TEXT, TEXT)
    assert request.dialect == pb.KERNEL_DIALECT_PYTHON
    assert {name: one.WhichOneof("value") for name, one in request.constants.items()} == {
        "SCALE": "number",
        "N": "integer",
        "ON": "boolean",
    }
    assert constants(request) == given
    assert (list(request.names), list(request.targets)) == (["f"], [pb.KERNEL_TARGET_WASM])
    local.translate(TEXT)
    request = answering.requests[-1]
    assert (request.dialect, list(request.names), constants(request)) == (0, [], {})
    assert list(request.targets) == [pb.KERNEL_TARGET_CUDA, pb.KERNEL_TARGET_WASM]


def test_kernels_and_diagnostics_are_decoded(answering: Answering, local: Client) -> None:
    answering.response = saxpy_response()
    translation = local.translate(TEXT)
    [kernel] = translation.kernels
    assert (kernel.name, kernel.grid_dims, kernel.bit_exact) == ("saxpy", 1, True)
    pair = (KernelComponent("x", "f64", 0), KernelComponent("y", "f64", 8))
    assert kernel.params == (
        KernelParam("a", 0, (KernelComponent("", "f32", 0),), 4),
        KernelParam("x", 2, pair, 16),
    )
    assert (kernel.cuda, kernel.wasm, kernel.file("Makefile")) == ("// Ä\n", b"\0asm", b"all:\n")
    with pytest.raises(KeyError, match=r"'saxpy\.c' is not one of the files saxpy\.cu, Makefile, saxpy\.wasm"):
        kernel.file("saxpy.c")
    assert repr(kernel) == "<TranslatedKernel saxpy(a, x): saxpy.cu, Makefile, saxpy.wasm>"
    assert translation["saxpy"] is kernel
    with pytest.raises(KeyError, match="other"):
        translation["other"]
    assert translation.diagnostics == (KernelDiagnostic("other", "unknown_name", "unknown name `y`", 11, 4),)
    assert len({kernel, *translation.diagnostics}) == 2
    assert pickle.loads(pickle.dumps(translation)) == translation


def test_a_kernel_without_a_file_has_none(answering: Answering, local: Client) -> None:
    answering.response.kernels.add(name="f")
    kernel = local.translate(TEXT)["f"]
    assert (kernel.cuda, kernel.wasm, dict(kernel.files)) == (None, None, {})


def test_an_error_of_diagnostics_names_places_and_reasons() -> None:
    Translation((), (), "").raise_for_diagnostics()
    first = KernelDiagnostic("f", "unknown_name", "unknown name `y`", 11, 4)
    module = KernelDiagnostic("", "syntax", "invalid syntax", 1, 0, "a.py")
    with pytest.raises(TranslationError) as raised:
        Translation((), (first, module), "").raise_for_diagnostics()
    assert str(raised.value).splitlines() == [
        "kernel f: line 11, column 4: unknown name `y` (unknown_name)",
        "module: a.py, line 1, column 0: invalid syntax (syntax)",
    ]
    assert isinstance(raised.value, ValueError) and raised.value.diagnostics == (first, module)
    copy = pickle.loads(pickle.dumps(raised.value))
    assert (str(copy), copy.diagnostics) == (str(raised.value), raised.value.diagnostics)
    assert str(TranslationError((first,) * 25)).splitlines()[19:] == [str(first), "and 5 more"]


def test_files_are_saved_in_a_folder_of_each_kernel(answering: Answering, local: Client, tmp_path: Path) -> None:
    answering.response = saxpy_response()
    translation = local.translate(TEXT)
    for _ in range(2):
        paths = translation.save(tmp_path / "out")
        names = [path.relative_to(tmp_path).as_posix() for path in paths]
        assert names == ["out/saxpy/saxpy.cu", "out/saxpy/Makefile", "out/saxpy/saxpy.wasm"]
        assert [path.read_bytes() for path in paths] == list(translation["saxpy"].files.values())


@pytest.mark.parametrize("name", ["", ".", "..", "../a", "a/b", "/a", "a\\b", "C:a", "a\0"])
def test_names_that_lead_out_of_the_folder_are_not_written(tmp_path: Path, name: str) -> None:
    good = TranslatedKernel("f", 1, (), True, {"f.cu": b""})
    for bad in (TranslatedKernel(name, 1, (), True, {"f.cu": b""}), TranslatedKernel("g", 1, (), True, {name: b""})):
        with pytest.raises(AccelerdError, match="malformed response: file name"):
            Translation((good, bad), (), "").save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_kernels_of_one_name_are_not_saved_over_each_other(tmp_path: Path) -> None:
    kernel = TranslatedKernel("f", 1, (), True, {"f.cu": b""})
    with pytest.raises(AccelerdError, match=r"two files f/f\.cu"):
        Translation((kernel, kernel), (), "").save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_malformed_responses_are_errors(answering: Answering, local: Client) -> None:
    answering.response = saxpy_response()
    answering.response.kernels[0].files.add(name="Makefile")
    with pytest.raises(AccelerdError, match="malformed response: two files of one name in kernel 'saxpy'"):
        local.translate(TEXT)
    answering.response = saxpy_response()
    answering.response.kernels[0].params[0].components[0].dtype = 99
    with pytest.raises(AccelerdError, match="malformed response: dtype 99"):
        local.translate(TEXT)


def scaled(x: float, n: int) -> float:
    COUNT = n  # noqa: N806
    return m.sin(x) * SCALE * COUNT + length(x, math.pi) if IS_ON else abs(float(NAMES))  # type: ignore[arg-type]


def counted(n: int) -> int:
    return n * COUNT


def test_a_function_is_sent_with_what_it_captures(answering: Answering, local: Client) -> None:
    assert local.translate(scaled).source == answering.requests[0].source
    [request] = answering.requests
    imports = ["import math as math", "from math import hypot as length", "import math as m"]
    assert sorted(request.source.splitlines()[:3]) == sorted(imports)
    assert request.source.splitlines()[3:] == inspect.getsource(scaled).splitlines()
    # `COUNT` is a variable of the function; `NAMES` is not a number.
    assert constants(request) == {"SCALE": 2.5, "IS_ON": True}
    assert request.constants["IS_ON"].WhichOneof("value") == "boolean"


def doubled(n: int) -> int:
    return n * COUNT


def quadrupled(n: int) -> int:
    return doubled(doubled(n))


def test_functions_that_a_kernel_calls_are_sent_as_well(answering: Answering, local: Client) -> None:
    def outer(n: int) -> int:
        return inner(n) + counted(n)

    def inner(n: int) -> int:
        return quadrupled(n) - OFFSET

    OFFSET = 5  # noqa: N806
    local.translate(outer)
    [request] = answering.requests
    defined = [line for line in request.source.splitlines() if line.startswith("def ")]
    names = ["outer", "counted", "inner", "quadrupled", "doubled"]
    assert defined == [f"def {name}(n: int) -> int:" for name in names]
    # Only the given function is to be translated.
    assert (list(request.names), constants(request)) == (["outer"], {"COUNT": 3, "OFFSET": 5})
    local.translate(counted)
    assert list(answering.requests[-1].names) == []


twice = doubled


class Level(enum.Enum):
    """What a kernel names: its members are no numbers."""

    LOW = COUNT


def test_other_names_of_functions_and_classes_are_sent_as_well(answering: Answering, local: Client) -> None:
    def leveled(n: int) -> int:
        return twice(n) + doubled(n) + Level.LOW

    local.translate(leveled)
    [request] = answering.requests
    lines = request.source.splitlines()
    assert [line for line in lines if line.startswith("class ")] == ["class Level(enum.Enum):"]
    assert [line for line in lines if line.startswith("def ")] == [
        "def leveled(n: int) -> int:",
        "def doubled(n: int) -> int:",
    ]
    # It stands for the function that is defined before it.
    assert lines[lines.index("    return n * COUNT") + 1] == "twice = doubled"
    assert constants(request) == {"COUNT": 3}


def same(value: int) -> Callable[[int], int]:
    if value == 1:

        def f(n: int) -> int:
            return n + 1
    else:

        def f(n: int) -> int:
            return n + 2

    return f


one, two = same(1), same(2)


def test_each_name_stands_for_its_own_function(answering: Answering, local: Client) -> None:
    def both(n: int) -> int:
        return one(n) * two(n)

    local.translate([both, one, two])
    names = [
        line
        for line in answering.requests[0].source.splitlines()
        if line.startswith(("def f", "one", "two", "    return n"))
    ]
    assert names == [
        "def f(n: int) -> int:",
        "    return n + 1",
        "one = f",
        "def f(n: int) -> int:",
        "    return n + 2",
        "two = f",
    ]
    # Functions of one name that are called have names of their own.
    local.translate(both)
    text = answering.requests[-1].source
    scope: dict[str, Any] = {}
    exec(text, scope)
    assert scope["both"](5) == 6 * 7
    assert text.count("def f(") == 1


def test_given_constants_take_precedence_over_captured_ones(answering: Answering, local: Client) -> None:
    local.translate([scaled, counted], constants={"SCALE": 4, "OTHER": 1.5})
    assert constants(answering.requests[0]) == {"SCALE": 4, "OTHER": 1.5, "IS_ON": True, "COUNT": 3}


def closure(offset: int, later: bool = False) -> tuple[Callable[[int], int], int]:
    def moved(n: int) -> int:
        if later:
            text = """
not indented"""
            return len(text) + undefined
        return n + offset

    line = inspect.getsourcelines(moved)[1]
    if later is None:
        undefined = 1
    return moved, line


def test_variables_of_enclosing_functions_are_captured(answering: Answering, local: Client) -> None:
    moved, _ = closure(7)
    local.translate(moved)
    [request] = answering.requests
    assert constants(request) == {"offset": 7, "later": False}
    # Its indentation is removed, except within strings.
    lines = request.source.splitlines()
    assert lines[:2] == ["", "def moved(n: int) -> int:"] and 'not indented"""' in lines
    compile(request.source, "moved", "exec")


def test_an_annotation_does_not_take_a_global_for_a_variable_of_an_enclosing_function(
    answering: Answering, local: Client
) -> None:
    def around(COUNT: object) -> Any:  # noqa: N803
        def hidden(x: COUNT) -> int:  # type: ignore[valid-type]
            return int(x)

        def known(x: int) -> int:
            return x

        return hidden, known

    hidden, known = around(float)
    with pytest.raises(ValueError, match=r"'COUNT' of .*hidden is of an enclosing function, and only annotations use"):
        local.translate(hidden)
    local.translate(hidden, constants={"COUNT": 1})
    local.translate(known)
    assert len(answering.requests) == 2


def test_diagnostics_of_functions_have_the_places_in_their_files(answering: Answering, local: Client) -> None:
    moved, line = closure(1)
    add = answering.response.diagnostics.add
    # The module: a line for imports, the 6 of `moved`, and those of `counted`.
    add(kernel="moved", line=3, column=4)
    add(kernel="moved", line=5, column=0)
    add(kernel="counted", line=9, column=4)
    add(kernel="counted", line=1)
    add(line=1)
    found = local.translate([moved, counted]).diagnostics
    assert answering.requests[0].source.splitlines()[8] == "    return n * COUNT"
    own = inspect.getsourcelines(counted)[1]
    places = [(line + 1, 8), (line + 3, 0), (own + 1, 4), (own, 0)]
    assert [(one.filename, one.line, one.column) for one in found] == [
        *((__file__, *place) for place in places),
        (None, 1, 0),
    ]


def warp(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module that decorates as Warp does."""
    module: Any = ModuleType("warp")
    module.kernel = module.func = lambda function: SimpleNamespace(func=function)
    module.float32 = type("float32", (), {"__module__": "warp._src.types"})
    module.array = lambda dtype: dtype

    def static(value: Any) -> Any:
        return value

    static.__module__ = "warp._src.builtins"
    module.static = static
    monkeypatch.setitem(sys.modules, "warp", module)
    return module


def test_functions_with_the_decorators_of_warp_are_taken(
    answering: Answering, local: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    wp = warp(monkeypatch)
    scalar = wp.float32

    @wp.func
    def double(x: scalar):
        return x + x

    @wp.kernel
    def saxpy(x: wp.array(dtype=scalar)):
        i = wp.tid()
        x[i] = double(scalar(x[i]))

    local.translate([double, saxpy])
    lines = answering.requests[0].source.splitlines()
    assert sorted(lines[:2]) == ["from warp import float32 as scalar", "import warp as wp"]
    functions = [line for line in lines[2:] if not line.startswith(" ")]
    assert functions == ["@wp.func", "def double(x: scalar):", "@wp.kernel", "def saxpy(x: wp.array(dtype=scalar)):"]


def test_values_of_static_expressions_are_sent(
    answering: Answering, local: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    wp = warp(monkeypatch)
    table = {"é": -2, "n": numpy.float64(-0.5), "m": Member.TWO}

    @wp.kernel
    def k(x: wp.array(dtype=wp.float32)):
        IS_ON = 2  # noqa: N806
        x[2] = wp.static(IS_ON)
        x[0] = wp.static(COUNT * 2.5) + wp.static(table["é"]) * wp.static(COUNT)
        for i in range(3):
            x[i] = wp.static(i + 1)
        x[1] = wp.static(NAMES)
        x[3] = wp.static(wp.static(COUNT) + 1) + x[4]
        x[5] = wp.static(table["n"]) + wp.static(table["m"]) + wp.static(COUNT > 5)

    local.translate(k)
    [request] = answering.requests
    body = [line.strip() for line in request.source.splitlines() if "x[" in line]
    # A variable hides the global of its name.
    assert body == [
        "x[2] = wp.static(IS_ON)",
        "x[0] = 7.5 + (-2) * 3",
        "x[i] = wp.static(i + 1)",
        "x[1] = wp.static(NAMES)",
        "x[3] = 4 + x[4]",
        "x[5] = (-0.5) + 2 + False",
    ]
    assert constants(request) == {}


def test_functions_that_mean_different_things_by_a_name_are_refused(answering: Answering, local: Client) -> None:
    def defined(text: str, **scope: Any) -> Callable[..., Any]:
        # `inspect` reads the source of a name such as this from `linecache`.
        import linecache

        filename = f"<{len(linecache.cache)} {text}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
        exec(compile(text, filename, "exec"), scope)
        return scope["f" if "def f" in text else "g"]

    uses = "def {}(x: int) -> int:\n    return {} * x\n"
    three, four = defined(uses.format("f", "N"), N=3), defined(uses.format("g", "N"), N=4)
    # Numbers are told apart.
    local.translate([three, four])
    assert constants(answering.requests[-1]) == {"N": 3}
    returned = [line.strip() for line in answering.requests[-1].source.splitlines() if "return" in line]
    assert returned == ["return N * x", "return 4 * x"]
    local.translate([three, four], constants={"N": 5})
    assert "return N * x" in answering.requests[-1].source.splitlines()[-1]
    with pytest.raises(ValueError, match=r"source: 'N' of g is not that of f; .*`constants`"):
        local.translate([three, defined(uses.format("g", "N"), N=math)])
    for other in ("3", math):
        with pytest.raises(ValueError, match="'N' of g is not that of f"):
            local.translate([three, defined(uses.format("g", "N"), N=other)])
    # Names of Python's functions.
    call = "def {}(x: int) -> int:\n    return abs(x)\n"
    with pytest.raises(ValueError, match="source: 'abs' of f is not that of Python"):
        local.translate(defined(call.format("f"), abs=lambda x: x))
    with pytest.raises(ValueError, match="'abs' of g is not that of f"):
        local.translate([defined(uses.format("f", "abs"), abs=3), defined(call.format("g"))])
    # Names of functions of the source.
    calls = "def g(x: int) -> int:\n    return f(x)\n"
    local.translate([three, defined(calls, f=three)])
    local.translate([three, defined(calls, f=SimpleNamespace(func=three))])
    with pytest.raises(ValueError, match="source: the function or class 'f' is not what g calls 'f'"):
        local.translate([three, defined(calls, f="4")])
    # Another function of the name, and a number, have texts of their own.
    scope: dict[str, Any] = {}
    local.translate([three, defined(calls, f=defined(uses.format("f", "2")))])
    exec(answering.requests[-1].source, scope)
    assert scope["g"](7) == 14
    local.translate([three, defined(calls.replace("f(x)", "f * x"), f=4)])
    assert "return 4 * x" in answering.requests[-1].source


def test_what_has_no_source_is_refused(local: Client) -> None:
    scope: dict[str, Any] = {}
    exec("def f(x: int) -> int:\n    return x\n", scope)
    with pytest.raises(ValueError, match="source: there is no source of f, pass it as text"):
        local.translate(scope["f"])
    with pytest.raises(TypeError, match=r"source: expected a str, a function .*, got bytes"):
        local.translate(b"def f(): pass")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"source: expected a str, .*, got an empty list"):
        local.translate([])
    with pytest.raises(TypeError, match=r"source\[1\]: expected a function, got str"):
        local.translate([scaled, TEXT])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="made by def, got <lambda>"):
        local.translate(lambda x: x)
    # Their arguments and their `self` are not in the source.
    for bound in (functools.partial(scaled, n=1), "".join, Path("a").exists, math.sin, Path):
        with pytest.raises(TypeError, match="source: expected a str, a function or a sequence of functions, got "):
            local.translate(bound)


def test_wrong_arguments_are_named(local: Client) -> None:
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"dialect": "numba"}, ValueError, "dialect: expected one of None, 'warp', 'python', got 'numba'"),
        ({"targets": ["sass"]}, ValueError, "targets: expected one of 'cuda', 'wasm', 'ptx', got 'sass'"),
        ({"targets": "wasm"}, TypeError, r"targets: expected a sequence of str, got a str; did you mean \['wasm'\]"),
        ({"names": "f"}, TypeError, r"names: expected a sequence of str, got a str; did you mean \['f'\]"),
        ({"names": ["f", 1]}, TypeError, r"names\[1\]: expected a str, got int"),
        ({"constants": {"N": "3"}}, TypeError, r"constants\['N'\]: expected an int, a float or a bool, got str"),
        ({"constants": {"N": 2**63}}, ValueError, r"constants\['N'\]: .* 2\*\*63 - 1, got one of 64 bits"),
        ({"constants": {1: 1}}, TypeError, "constants: expected names of type str, got int"),
        ({"source": "x = '\ud800'"}, ValueError, "source: expected text that UTF-8 can encode: .* at 5"),
        ({"source": 5}, TypeError, "source: expected a str, a function or a sequence of functions, got int"),
    ]
    for arguments, error, match in wrong:
        with pytest.raises(error, match=match):
            local.translate(**{"source": TEXT, **arguments})


def test_a_module_beyond_a_message_is_not_sent(served: tuple[Answering, str]) -> None:
    with Client(served[1], max_message_bytes=100) as narrow:
        with pytest.raises(MessageTooLargeError) as refused:
            narrow.translate(TEXT * 3)
        assert refused.value.limit == 100 and served[0].requests == []
        narrow.translate(TEXT)


def test_the_asyncio_client_translates_as_well(served: tuple[Answering, str]) -> None:
    served[0].response = saxpy_response()

    async def run() -> Translation:
        async with AsyncClient(served[1], timeout=10) as client:
            return await client.translate(counted, dialect="python", names=("counted",), targets=["cuda"])

    translation = asyncio.run(run())
    assert translation["saxpy"].wasm == b"\0asm"
    [request] = served[0].requests
    assert (constants(request), list(request.names), list(request.targets)) == ({"COUNT": 3}, ["counted"], [1])


def test_a_daemon_translates_functions(client: Client) -> None:
    translation = client.translate(counted)
    translation.raise_for_diagnostics()
    kernel = translation["counted"]
    assert (kernel.params[0].name, kernel.params[0].dims) == ("n", 1)
    assert kernel.cuda is not None and "__global__" in kernel.cuda
    assert kernel.wasm is not None and kernel.wasm.startswith(b"\0asm")
    assert client.translate(counted, targets=["wasm"])["counted"].cuda is None


def test_a_daemon_says_where_a_function_is_outside_the_language(client: Client) -> None:
    def reads(x: float) -> float:
        with open("f") as file:
            return x + len(file.name)

    [diagnostic] = client.translate([counted, reads]).diagnostics
    assert (diagnostic.kernel, diagnostic.filename) == ("reads", __file__)
    assert (diagnostic.line, diagnostic.column) == (inspect.getsourcelines(reads)[1] + 1, 8)
    with pytest.raises(InvalidArgumentError) as refused:
        client.translate(counted, names=["counted", "missing"])
    assert refused.value.violations[0].field == "names[1]"
