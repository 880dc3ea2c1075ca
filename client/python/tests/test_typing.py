"""Tests that user code passes `mypy --strict` with the documented types."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CLIENT = Path(__file__).resolve().parents[1]

RIGHT = """
import ast
import asyncio
from pathlib import Path
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

from accelerd import (
    Client, CollectionInfo, CompiledKernel, Counterexample, KernelFault, KernelFunction, KernelProgram, VerifyReport,
    Wasm, WasmBuffer, kernel, Hit, Hits, Model, Parsed, ParseOutcome, Point, Quantized, Snapshot, Stats, Tokens,
    record_timings, EmbedOutcome, PointList, SearchResult, Tensor, Tls, Translation, UpsertStep, __version__,
)
from accelerd.aio import AsyncClient, AsyncCompiledKernel, AsyncTensor
from accelerd.testing import booleans, equivalent, floats, integers, lists


def blocking(client: Client) -> None:
    assert_type(client.embed(["a"]), NDArray[np.float32])
    assert_type(client.embed(["a"], model="m", timeout=1.0, output="f16"), NDArray[np.float16])
    assert_type(client.embed(["a"], output="int8"), Quantized)
    assert_type(client.embed_tokens([[1, 2]], output="binary"), NDArray[np.uint8])
    for outcome in client.embed_stream([["a"]], output="int8"):
        assert_type(outcome, EmbedOutcome[Quantized])
        assert_type(outcome.vectors, Quantized | None)
    assert_type(client.tokenize(["a"]), Tokens)
    assert_type(client.models(), list[Model])
    assert_type(client.stats(timeout=3), Stats)
    assert_type(client.parse(["x"]), list[Parsed[ast.Module]])
    assert_type(client.parse([b"x", bytearray(), memoryview(b"")], mode="eval")[0].to_ast(), ast.Expression)
    for parsed in client.parse_stream([["x"]], mode="single", outputs=["tree", "tokens"]):
        assert_type(parsed, ParseOutcome[ast.Interactive])
    similar = client.find_similar([[1.0]], np.zeros((3, 1)), 1)
    assert_type(similar.indices, NDArray[np.int32])
    collection = client.create_collection("a", dimensions=2)
    client.create_collection("b", model="e5", document_prompt_name="passage", query_prompt="query: ")
    assert_type(collection.describe().document_prompt, str | None)
    assert_type(collection.search(texts=["a"], prompt_name="query"), SearchResult)
    assert_type(collection.search(texts=["a"], hybrid=True, fusion="reciprocal_rank")[0][0], Hit)
    again = client.create_collection("c", metric=collection.describe().metric, storage="i8")
    assert_type(again.get([1]), PointList)
    client.embed(["a"], pooling="weighted_mean", long_input="chunk", truncation_side="left")
    client.load_model("a", "b", precision=client.models()[0].precision)
    steps: list[UpsertStep] = [{"ids": [1], "vectors": [[1.0, 2.0]]}]
    assert_type([*collection.upsert_many(steps)], list[int])
    assert_type(collection.upsert([1], texts=["a"], payloads=[{"n": 1, "s": "x"}]), int)
    collection.upsert(np.arange(2), vectors=np.zeros((2, 2)), payloads={"n": np.arange(2), "s": ["a", None]})
    assert_type(collection.search(texts=["a"], where=[("n", slice(0, 3)), ("n", 1)]), SearchResult)
    assert_type(collection.search_columns(ids=[1], k=3), Hits)
    assert_type([*collection.scroll(vectors=True)], list[Point])
    assert_type(collection.count(where={"n": 1}), int)
    assert_type(collection.describe(), CollectionInfo)
    assert_type(collection.snapshot(), Snapshot)
    x = client.tensor(np.zeros((2, 3)), dtype=np.float32)
    assert_type(x + 1, Tensor)
    assert_type(1 - x @ x.T, Tensor)
    assert_type(-x[..., None, ::2].mean(axis=(0, 1), keepdims=True), Tensor)
    assert_type(x > 0.5, Tensor)
    assert_type(client.xp.gelu(x, approximate="tanh"), Tensor)
    assert_type(client.xp.maximum(x, 0).sum(), Tensor)
    assert_type(client.op("sum", x, dim=[0], dtype=np.float64), Tensor)
    assert_type(client.xp.sum(x, axis=0, dtype=client.xp.float64), Tensor)
    assert_type(x[np.array([0, 2]), ..., client.xp.arange(2)], Tensor)
    assert_type(client.xp.meshgrid(x[0], x[1]), list[Tensor])
    assert_type(client.xp.from_dlpack(memoryview(b"")), Tensor)
    assert_type(client.xp.finfo(client.xp.float32).eps, float)
    x[0, 1:] = 2.5
    assert_type(client.op("topk", x, k=3, largest=True), tuple[Tensor, ...])
    assert_type(x.to("bf16").numpy(timeout=3), NDArray[Any])
    assert_type(client.execute(x, x), tuple[NDArray[Any], ...])
    with client.graph() as graph:
        assert_type(graph.output(x.reshape(-1, 2)), Tensor)
    def scaled(x: float) -> float:
        return 2.0 * x
    assert_type(client.translate(scaled, dialect="python"), Translation)
    client.translate([scaled], constants={"n": 1, "x": 1.5, "on": True}, names=["scaled"], targets=["wasm"])
    assert_type(client.translate("")["scaled"].cuda, str | None)
    compiled = client.compile(scaled, dialect="python", constants={"n": 1})
    assert_type(compiled, CompiledKernel)
    assert_type(client.list_kernels(), list[CompiledKernel])
    try:
        print(compiled.launch(np.zeros(3)), client.launch(compiled, x=1.0, grid=3, outputs={"result": (3,)}))
    except KernelFault as fault:
        print(fault.kind, fault.thread, fault.line)
    client.evict_kernel(compiled)
    report = client.verify(scaled, Path("f.wasm"), count=10, domains={"x": floats(0, 1)}, rtol=1e-3, shrink=False)
    assert_type(report, VerifyReport)
    assert_type(client.verify(scaled, scaled, device="cuda").gpu_decided_count, int)
    assert_type(report.counterexamples, tuple[Counterexample, ...])
    wasm = Wasm(b"", "f", {"x": "f64", "y": WasmBuffer(np.float32, 3, "output")}, {"result": np.int32})
    client.verify(wasm, KernelProgram("", "f", constants={"n": 1}), cases={"x": np.zeros(3)}, progress=print)
    client.assert_equivalent([1.0], {"result": np.zeros(1)}, policies={"result": {"exact": True}})
    assert_type(len(x), int)
    for row in x:
        assert_type(row, Tensor)
    assert_type(x.item(), bool | int | float)
    assert_type(x.flatten().clip(0, 1).squeeze().transpose(), Tensor)
    print(1.0 in x, f"{x:.3f}", x.tolist())
    print(float(x), int(x), bool(x), np.asarray(x), x.shape, x.dtype)
    with record_timings() as timings:
        client.cluster(collection, 3)
    print(__version__, [timing.stages["total"] for timing in timings])


@kernel
def bare(x: float) -> float:
    return x


@kernel(dialect="python", constants={"n": 1}, device="cuda")
def dressed(x: float) -> float:
    return x


@equivalent(reference=bare, wasm="f.wasm", x=floats(-1), n=integers(0, 3), b=booleans(), y=lists(floats(), length=3))
def test_bare(report: VerifyReport) -> None:
    assert_type(report.passed, bool)


assert_type(dressed, KernelFunction)


async def awaited() -> None:
    async with AsyncClient() as client:
        assert_type(await client.embed(["a"], output="int8"), Quantized)
        assert_type((await client.parse(["x"]))[0].to_ast(), ast.Module)
        async for outcome in client.parse_stream([["x"]]):
            assert_type(outcome, ParseOutcome[ast.Module])
        async for one in client.embed_stream([["a"]]):
            assert_type(one.vectors, NDArray[np.float32] | None)
        collection = client.collection("a")
        assert_type(await collection.search(texts=["a"]), SearchResult)
        assert_type(await collection.upsert_table(object(), texts="text"), int)
        async for point in collection.scroll():
            assert_type(point, Point)
        x = client.xp.exp(np.zeros(3)) + 1
        assert_type(x, AsyncTensor)
        assert_type(await x, NDArray[Any])
        assert_type(await client.execute(x.sum()), tuple[NDArray[Any], ...])
        async with client.graph() as graph:
            graph.output(x)
        assert_type(await client.translate(""), Translation)
        compiled = await client.compile("")
        assert_type(compiled, AsyncCompiledKernel)
        print(await compiled.launch(1.0))
        assert_type(await client.verify("", ""), VerifyReport)


with Client("localhost:7433", timeout=3, connections=2) as made:
    blocking(made)
mutual = Tls(ca=b"", certificate=Path("client.pem"), key="client.key", server_name="accelerd.example.com")
Client("accelerd.example.com:7433", tls=mutual, token="secret")
AsyncClient("https://accelerd.example.com:7433", tls=True, token=None, allow_plaintext_token=True)
asyncio.run(awaited())
"""

WRONG = [
    "client.embed('one text', output='f64')",
    "client.embed(['a'], poling='mean')",
    "client.parse([1])",
    "client.find_similar([[1.0]], [[1.0]], 1, metric='angle')",
    "client.create_collection('a', metric='l2')",
    "client.create_collection('a', storage='f64')",
    "client.embed(['a'], pooling='first')",
    "client.embed(['a'], long_input='fail')",
    "client.embed(['a'], truncation_side='both')",
    "client.load_model('a', 'b', precision='f64')",
    "client.collection('a').search(texts=['a'], hybrid=True, fusion='sum')",
    "client.parse(['x'], outputs=['trees'])",
    "client.parse(['x'], mode='func_type')",
    "client.collection('a').search(text=['a'])",
    "client.collection('a').upsert([1], payloads=[{'a': [1]}])",
    "client.collection('a').upsert_many([{'id': [1]}])",
    "client.embed(['a'], output='int8').shape",
    "Client(tls='ca.pem')",
    "client.tensor([1]) + 'a'",
    "client.tensor([1])[[0, 1]]",
    "client.op('sum', client.tensor([1]), dim=1j)",
    "client.execute([1])",
    "client.translate('', targets=['sass'])",
    "client.launch(client.compile(''), device='gpu')",
    "client.translate('', constants={'n': '1'})",
    "client.translate(1)",
    "client.compile('', dialect='numba')",
    "client.launch('', 1.0)",
    "client.verify('', '', tolerance=1)",
    "client.verify('', '', outcome_policy='any')",
    "client.verify('', '', device='gpu')",
    "client.verify('', '', domains={'x': (0, 1)})",
]


def mypy(file: Path) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--python-version", "3.12", "--no-error-summary"]
    cache = ["--cache-dir", str(CLIENT / ".mypy_cache" / "user")]
    # As of a package that is installed, errors inside it are not shown.
    config = file.with_suffix(".ini")
    config.write_text("[mypy]\nfollow_imports = silent\n[mypy-accelerd._proto.*]\nignore_errors = True\n")
    return subprocess.run(
        [*command, *cache, "--config-file", str(config), str(file)],
        capture_output=True,
        text=True,
        env={"MYPYPATH": str(CLIENT / "src"), "PATH": ""},
    )


def test_right_code_of_a_user_passes_strict_mypy(tmp_path: Path) -> None:
    file = tmp_path / "user.py"
    file.write_text(RIGHT)
    done = mypy(file)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_wrong_code_of_a_user_does_not(tmp_path: Path) -> None:
    file = tmp_path / "user.py"
    file.write_text("from accelerd import Client\n\nclient = Client()\n" + "\n".join(WRONG) + "\n")
    lines = {int(line.split(":")[1]) for line in mypy(file).stdout.splitlines() if line.startswith(str(file))}
    assert lines == set(range(4, 4 + len(WRONG)))
