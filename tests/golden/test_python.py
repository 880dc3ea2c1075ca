"""The golden suite in Python."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from accelerd import AccelerdError, Client, KernelFault, Tls
from generate import FILE, cases, failure

CASES = json.loads(FILE.read_text())


@pytest.fixture
def client(golden: dict[str, str]) -> Iterator[Client]:
    with Client(golden["ACCELERD_GOLDEN_TARGET"]) as client:
        yield client


def array(values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def is_embedding(vectors: np.ndarray) -> bool:
    case = CASES["embed"]
    expected = case["first_components"]
    is_close = np.allclose(vectors[:, : len(expected[0])], expected, rtol=0, atol=case["tolerance"])
    return vectors.shape == (len(expected), case["dimensions"]) and is_close


def test_the_file_is_current(client: Client) -> None:
    assert cases(client) == CASES


def test_embed(client: Client) -> None:
    assert is_embedding(client.embed(CASES["embed"]["texts"]))


def test_search(client: Client) -> None:
    case = CASES["search"]
    collection = client.create_collection("golden-python", dimensions=len(case["query"]))
    try:
        collection.upsert(case["ids"], vectors=array(case["vectors"]), payloads=case["payloads"])
        assert collection.count(where=case["where"]) == case["count_where"]
        for expected in ("hits", "hits_after_delete"):
            (hits,) = collection.search(vectors=array([case["query"]]), k=case["k"], where=case["where"])
            assert [hit.id for hit in hits] == [hit["id"] for hit in case[expected]]
            scores = [hit["score"] for hit in case[expected]]
            assert np.allclose([hit.score for hit in hits], scores, rtol=0, atol=case["tolerance"])
            collection.delete_points(case["deleted"])
    finally:
        collection.delete()


def test_parse(client: Client) -> None:
    case = CASES["parse"]
    parsed, broken = client.parse([case["source"], case["broken"]], outputs=["tree", "outline"])
    assert len(parsed.nodes.kinds) == case["node_count"]
    outline = [{"qualified_name": item.qualified_name, "line": item.line} for item in parsed.outline]
    assert outline == case["outline"]
    found = broken.diagnostic
    assert found is not None
    assert {"message": found.message, "line": found.lineno, "offset": found.offset} == case["diagnostic"]


def test_tensor(client: Client) -> None:
    case = CASES["tensor"]
    product = client.tensor(array(case["a"])) @ client.tensor(array(case["b"]))
    computed = client.xp.softmax(product, axis=-1).numpy()
    assert np.allclose(computed, case["softmax_of_product"], rtol=0, atol=case["tolerance"])


def test_kernel(client: Client) -> None:
    case = CASES["kernel"]
    compiled = client.compile(case["source"], name=case["name"], dialect="warp")
    arguments = (case["a"], array(case["x"]), array(case["y"]))
    assert compiled.launch(*arguments, grid=case["grid"]).tolist() == case["written_y"]
    with pytest.raises(KernelFault) as raised:
        compiled.launch(*arguments, grid=case["faulting_grid"])
    fault, expected = raised.value, case["fault"]
    assert f"KERNEL_FAULT_KIND_{fault.kind.upper()}" == expected["kind"]
    assert (fault.thread, fault.line, fault.index, fault.extent) == tuple(expected[name] for name in ("thread", "line", "index", "extent"))


def test_verify(client: Client) -> None:
    case = CASES["verify"]
    actual, expected = array(case["actual"]), array(case["expected"])
    report = client.compare(actual, expected, atol=case["atol"], rtol=case["rtol"])
    assert bool(report) == case["passed"]
    (output,) = report.outputs
    (mismatch,) = output.mismatches
    assert output.failed == case["failed_count"]
    found = {"index": mismatch.index[0], "actual": mismatch.actual, "expected": mismatch.expected}
    assert found == case["mismatch"]
    assert client.compare(actual, expected, atol=case["atol"], rtol=case["passing_rtol"])


def test_tls(golden: dict[str, str]) -> None:
    target, tls = golden["ACCELERD_GOLDEN_TLS_TARGET"], Tls(ca=golden["ACCELERD_GOLDEN_CA"])
    with Client(target, tls=tls, token=golden["ACCELERD_GOLDEN_TOKEN"]) as client:
        assert is_embedding(client.embed(CASES["embed"]["texts"]))
    with Client(target, tls=tls) as client:
        refused = failure(lambda: client.embed(["x"]))
    assert {name: refused[name] for name in ("code", "reason")} == CASES["without_token"]


def test_a_deadline_ends_a_call(client: Client) -> None:
    case = CASES["slow_kernel"]
    compiled = client.compile(case["source"], name=case["name"], dialect="warp")
    with pytest.raises(AccelerdError) as raised:
        compiled.launch(array(case["y"]), grid=case["grid"], timeout=case["deadline_ms"] / 1000)
    assert raised.value.code.name == case["code"]


def test_a_cancelled_stream_ends(client: Client) -> None:
    is_closed = threading.Event()

    def batches() -> Iterator[list[str]]:
        yield CASES["embed"]["texts"]
        is_closed.wait()

    responses = client.embed_stream(batches())
    assert is_embedding(next(responses).vectors)
    responses.close()
    is_closed.set()


def test_a_call_survives_a_restart(client: Client, golden: dict[str, str]) -> None:
    texts = CASES["embed"]["texts"]
    assert is_embedding(client.embed(texts))
    subprocess.run(["bash", "-c", golden["ACCELERD_GOLDEN_RESTART"]], env=os.environ, check=True)
    assert is_embedding(client.embed(texts))
