"""What a caller reads about arguments: their names, timeouts, lists without an element, and numbers in lists."""

from __future__ import annotations

import inspect
import math
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from wasm_module import get, module

from accelerd import AccelerdError, Client, Collection, DeadlineError, InvalidArgumentError, Wasm
from accelerd._argument_names import ARGUMENTS, argument
from accelerd._input_types import of_module
from accelerd._proto import embed_pb2, kernel_pb2, similarity_pb2, tensor_pb2, verify_pb2
from accelerd._timeout import MAX_TIMEOUT, seconds

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def scaled(x: float, by: float) -> float:
    return x * by


# Names.

REQUESTS: dict[str, type[Message]] = {
    "FindSimilar": similarity_pb2.FindSimilarRequest,
    "Cluster": similarity_pb2.ClusterRequest,
    "CreateCollection": similarity_pb2.CreateCollectionRequest,
    "Upsert": similarity_pb2.UpsertRequest,
    "UpsertStream": similarity_pb2.UpsertStreamRequest,
    "Search": similarity_pb2.SearchRequest,
    "GetPoints": similarity_pb2.GetPointsRequest,
    "ScrollPoints": similarity_pb2.ScrollPointsRequest,
    "CountPoints": similarity_pb2.CountPointsRequest,
    "DeletePoints": similarity_pb2.DeletePointsRequest,
    "Embed": embed_pb2.EmbedRequest,
    "EmbedStream": embed_pb2.EmbedRequest,
    "Rerank": embed_pb2.RerankRequest,
    "Tokenize": embed_pb2.TokenizeRequest,
    "Translate": kernel_pb2.TranslateRequest,
    "Compile": kernel_pb2.CompileRequest,
    "Launch": kernel_pb2.LaunchRequest,
    "EvictKernel": kernel_pb2.EvictKernelRequest,
    "Benchmark": kernel_pb2.BenchmarkRequest,
    "Evaluate": kernel_pb2.EvaluateRequest,
    "GenerateDataset": kernel_pb2.GenerateDatasetRequest,
    "UploadTensor": tensor_pb2.UploadTensorRequest,
    "Verify": verify_pb2.VerifyRequest,
}


def has_path(message: Descriptor, path: list[str]) -> bool:
    """Whether a message has a field, or a `oneof` at the end."""
    name, *rest = path
    if name in message.oneofs_by_name and not rest:
        return True
    field: FieldDescriptor | None = message.fields_by_name.get(name)
    return field is not None and (not rest or (field.message_type is not None and has_path(field.message_type, rest)))


def test_every_field_with_the_name_of_an_argument_exists() -> None:
    assert REQUESTS.keys() == ARGUMENTS.keys()
    missing = []
    for method, names in ARGUMENTS.items():
        descriptor = REQUESTS[method].DESCRIPTOR
        headers = [one.message_type for one in descriptor.fields if one.name in ("header", "upsert")]
        missing += [
            (method, path)
            for path in names
            if not any(has_path(one, path.split(".")) for one in [descriptor, *headers])
        ]
    assert missing == []


def test_paths_of_fields_become_names_of_arguments() -> None:
    search = {**ARGUMENTS["Search"], "filter.must[1]": "where['line']"}
    assert argument("limit", search) == "k"
    assert argument("limits", search) == "limits"
    assert argument("texts.values[3]", search) == "texts[3]"
    assert argument("filter.must[1].range", search) == "where['line']"
    assert argument("filter.ids.numbers[2]", search) == "ids[2]"
    verify = ARGUMENTS["Verify"]
    assert argument("header.generator.case_count", verify) == "count"
    assert argument("header.policy.tolerances[0].ulp.max_distance", verify) == "max_ulps"
    assert argument("header.output_policies[y].tolerances[1].close.rtol", verify) == "policies['y'].rtol"
    assert argument("output_policies[y]", {}) == "policies['y']"


NAN = float("nan")
REFUSED: list[tuple[Callable[[Client, Collection], Any], str]] = [
    (lambda c, k: c.find_similar(X, X, 5), "k: expected 1 to 2, the corpus's rows, got 5"),
    (lambda c, k: c.find_similar(X, X, 1, threshold=NAN), "threshold: expected a number, got NaN"),
    (lambda c, k: c.cluster(X, 5), "clusters: expected 1 to the 2 rows, got 5"),
    (lambda c, k: c.cluster(X, 1, n_init=10**9), "n_init: expected at most 1000"),
    (lambda c, k: c.cluster(np.ones((0, 3)), 1), "source: expected at least one row"),
    (lambda c, k: k.search(vectors=[[1.0, 2.0]], k=0), "k: expected at least 1, got 0"),
    (lambda c, k: k.search(vectors=[[1.0, 2.0]], k=10**6), r"k: expected offset \+ k of at most"),
    (lambda c, k: k.search(vectors=[[1.0, 2.0]], threshold=NAN), "threshold: expected a number"),
    (lambda c, k: k.upsert([1, 1], vectors=[[1.0, 2.0]] * 2), r"ids\[1\]: expected distinct ids"),
    (lambda c, k: list(k.scroll(page_size=10**8)), "page_size: expected at most"),
    (lambda c, k: k.count(where={"a": 1, "line": slice(0, NAN)}), r"where\['line'\]: expected a number, got NaN"),
    (lambda c, k: k.count(where_not={"line": slice(NAN, None)}), r"where_not\['line'\]: expected a number, got NaN"),
    (lambda c, k: k.search(vectors=[[1.0, 2.0]], where={"line": slice(NAN, 1)}), r"where\['line'\]: expected a number"),
    (lambda c, k: list(k.scroll(where={"line": slice(NAN, 1)})), r"where\['line'\]: expected a number"),
    (lambda c, k: k.delete_points(where={"line": slice(NAN, 1)}), r"where\['line'\]: expected a number"),
    (lambda c, k: k.delete_points(), "where: expected ids or conditions"),
    (lambda c, k: c.compare(X, X, rtol=-1), "rtol: expected a finite number"),
    (lambda c, k: c.compare({"a": X}, {"a": X}, policies={"a": {"atol": -1}}), r"policies\['a'\]\.atol: expected"),
    (lambda c, k: c.verify(scaled, scaled, count=10**13), "count: expected at most"),
    (lambda c, k: c.verify(scaled, scaled, case_timeout=1e4), "case_timeout: expected"),
    (lambda c, k: c.verify(scaled, scaled, max_counterexamples=10**9), "max_counterexamples: expected at most"),
    (lambda c, k: c.verify(scaled, scaled, cases={"x": [1.0]}), "cases: expected the input by: f64"),
    (lambda c, k: list(c.generate_dataset(0)), "count: expected 1 to 100000 pairs, got 0"),
    (lambda c, k: c.translate("def f(): pass", targets=("ptx",), arch="sm_1"), "arch: expected an architecture"),
    (lambda c, k: c.benchmark(c.compile(scaled), 1.0, 2.0, runs=0), "runs: expected a number from 1 to"),
    (lambda c, k: c.upload(X, device="cuda:99"), "device: expected a device in use"),
    (lambda c, k: c.upload(X, ttl=1e9), "ttl: expected more than 0s"),
]


@pytest.fixture(scope="module")
def collection(server: str) -> Any:
    with Client(server, timeout=30) as client:
        made = client.create_collection(f"arguments-{uuid.uuid4().hex}", dimensions=2)
        yield made
        made.delete()


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_an_error_of_the_daemon_names_the_argument(
    call: Callable[[Client, Collection], Any], message: str, client: Client, collection: Collection
) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^INVALID_ARGUMENT: {message}") as refused:
        call(client, collection)
    (violation,) = refused.value.violations
    assert f"INVALID_ARGUMENT: {violation.argument}: " in str(refused.value)


def test_an_error_of_a_batch_names_the_argument(client: Client) -> None:
    (outcome,) = client.embed_stream([["a"]], prompt_name="none")
    assert str(outcome.error).startswith("INVALID_ARGUMENT: prompt_name: ")
    (outcome,) = client.embed_stream([["a" * (2 << 20)]])
    assert "INVALID_ARGUMENT: texts[0]: " in str(outcome.error)


UNHASHABLE: list[tuple[Callable[[Client], Any], str]] = [
    (lambda c: c.find_similar(X, X, 1, metric=["dot"]), "metric"),
    (lambda c: c.create_collection("a", storage=["f32"]), "storage"),
    (lambda c: c.collection("a").search(texts=["a"], hybrid=True, fusion=[]), "fusion"),
    (lambda c: c.embed(["a"], output=["f32"]), "output"),
    (lambda c: c.embed(["a"], pooling=["mean"]), "pooling"),
    (lambda c: c.parse(["a"], mode=["exec"]), "mode"),
    (lambda c: c.parse(["a"], outputs=[["tree"]]), "outputs"),
    (lambda c: c.compare(X, X, require=["any"]), "require"),
    (lambda c: c.compile(scaled, dialect=["python"]), "dialect"),
]


@pytest.mark.parametrize(("call", "name"), UNHASHABLE, ids=[name for _, name in UNHASHABLE])
def test_a_list_in_place_of_a_choice_is_named(call: Callable[[Client], Any], name: str) -> None:
    with (
        Client("localhost:1") as client,
        pytest.raises(ValueError, match=f"^{name}: expected (one|a list) of"),
    ):
        call(client)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"normalize": "yes"}, "normalize: expected a bool or None, got str"),
        ({"spans": [(0, 5)]}, r"spans\[0\]: expected the index of a text, a start and an end"),
    ],
)
def test_options_of_another_form_are_named(options: dict[str, Any], message: str) -> None:
    with Client("localhost:1") as client, pytest.raises((TypeError, ValueError), match=message):
        client.embed(["a"], **options)


# Timeouts.


def test_a_timeout_is_a_number_that_is_not_negative() -> None:
    assert seconds(2) == 2.0 and seconds(np.float32(0.5)) == 0.5 and seconds(0) == 0.0
    for endless in (math.inf, MAX_TIMEOUT * 1.01, 1e300, 10**400):
        assert seconds(endless) == math.inf
    assert seconds(365 * 86_400) == 365 * 86_400
    for wrong in (math.nan, -1, -0.001, -math.inf, -(10**400)):
        with pytest.raises(ValueError, match="timeout: expected a number of seconds of at least 0"):
            seconds(wrong)
    for other in ("5", True, [1], b"1"):
        with pytest.raises(TypeError, match="timeout: expected a number of seconds or None, got"):
            seconds(other)


def test_none_means_the_timeout_of_the_client() -> None:
    with Client("localhost:1", timeout=7) as client:
        assert client._caller.settings.seconds(None) == 7.0
    with Client("localhost:1", timeout=None) as client:
        assert client._caller.settings.seconds(None) == 60.0
    with Client("localhost:1", timeout=math.inf) as client:
        assert client._caller.settings.seconds(None) == math.inf
    with pytest.raises(ValueError, match="timeout: expected a positive number of seconds, got 0"):
        Client("localhost:1", timeout=0)
    for wrong in (math.nan, -1.0):
        with pytest.raises(ValueError, match="timeout: expected"):
            Client("localhost:1", timeout=wrong)


@pytest.mark.parametrize("timeout", [math.inf, 1e12, 10**400])
def test_a_call_and_a_stream_without_a_deadline_are_answered(server: str, timeout: float) -> None:
    with Client(server, timeout=timeout) as client:
        assert client.embed(["a"]).shape == (1, 256)
        with client.upload(X) as kept:
            np.testing.assert_array_equal(kept.numpy(), X)
    with Client(server, timeout=1e-9) as client:
        assert client.embed(["a"], timeout=timeout).shape == (1, 256)
        (outcome,) = client.embed_stream([["a"]], timeout=timeout)
        assert outcome.error is None
        assert client.verify(scaled, scaled, count=10, timeout=timeout)


Timed = Callable[[Client, dict[str, float]], Any]
CALLS: dict[str, Timed] = {
    "assert_close": lambda c, t: c.assert_close(X, X, **t),
    "assert_equivalent": lambda c, t: c.assert_equivalent(scaled, scaled, count=1, **t),
    "benchmark": lambda c, t: c.benchmark(c.compile(scaled), 1.0, 2.0, **t),
    "cluster": lambda c, t: c.cluster(X, 1, **t),
    "collections": lambda c, t: c.collections(**t),
    "compare": lambda c, t: c.compare(X, X, **t),
    "compile": lambda c, t: c.compile(scaled, **t),
    "copy": lambda c, t: c.copy(c.upload(X), "cpu", **t),
    "create_collection": lambda c, t: c.create_collection("timed", dimensions=1, **t),
    "devices": lambda c, t: c.devices(**t),
    "embed": lambda c, t: c.embed(["a"], **t),
    "embed_stream": lambda c, t: list(c.embed_stream([["a"]], **t)),
    "embed_tokens": lambda c, t: c.embed_tokens([[1]], **t),
    "evaluate_cuda": lambda c, t: c.evaluate_cuda("", "f", {"x": X}, grid=1, block=1, expected={"x": X}, **t),
    "evict_kernel": lambda c, t: c.evict_kernel("a", **t),
    "execute": lambda c, t: c.execute(c.tensor(X) + 1, **t),
    "find_similar": lambda c, t: c.find_similar(X, X, 1, **t),
    "free": lambda c, t: c.free(c.upload(X), **t),
    "generate_dataset": lambda c, t: list(c.generate_dataset(1, **t)),
    "keep": lambda c, t: c.keep(c.tensor(X) + 1, **t),
    "launch": lambda c, t: c.launch(c.compile(scaled), 1.0, 2.0, **t),
    "list_kernels": lambda c, t: c.list_kernels(**t),
    "list_tensors": lambda c, t: c.list_tensors(**t),
    "load_model": lambda c, t: c.load_model("a", "b", **t),
    "models": lambda c, t: c.models(**t),
    "parse": lambda c, t: c.parse(["a"], **t),
    "parse_stream": lambda c, t: list(c.parse_stream([["a"]], **t)),
    "rerank": lambda c, t: c.rerank("a", ["b"], model="c", **t),
    "restore_collection": lambda c, t: c.restore_collection("file:///a", **t),
    "stats": lambda c, t: c.stats(**t),
    "token_spans": lambda c, t: c.token_spans(["a"], **t),
    "tokenize": lambda c, t: c.tokenize(["a"], **t),
    "translate": lambda c, t: c.translate(scaled, **t),
    "unload_model": lambda c, t: c.unload_model("a", **t),
    "upload": lambda c, t: c.upload(X, **t),
    "verify": lambda c, t: c.verify(scaled, scaled, count=1, **t),
}


class Frame:
    """What `upsert_table` reads of a data frame of pandas with one column of texts."""

    __module__ = "pandas"
    columns = ("text",)

    def __getitem__(self, name: str) -> Any:
        return np.array(["a"])


OF_COLLECTIONS: dict[str, Callable[[Collection, dict[str, float]], Any]] = {
    "count": lambda k, t: k.count(**t),
    "delete": lambda k, t: k.delete(**t),
    "delete_points": lambda k, t: k.delete_points([1], **t),
    "describe": lambda k, t: k.describe(**t),
    "get": lambda k, t: k.get([1], **t),
    "scroll": lambda k, t: list(k.scroll(**t)),
    "scroll_columns": lambda k, t: list(k.scroll_columns(**t)),
    "search": lambda k, t: k.search(ids=[1], **t),
    "search_columns": lambda k, t: k.search_columns(ids=[1], **t),
    "snapshot": lambda k, t: k.snapshot("file:///a", **t),
    "to_arrow": lambda k, t: k.to_arrow(**t),
    "to_pandas": lambda k, t: k.to_pandas(**t),
    "upsert_table": lambda k, t: k.upsert_table(Frame(), ids=[1], texts="text", **t),
    "upsert": lambda k, t: k.upsert([1], texts=["a"], **t),
    "upsert_many": lambda k, t: list(k.upsert_many([{"ids": [1], "texts": ["a"]}], **t)),
}


def with_timeout(cls: type) -> set[str]:
    methods = inspect.getmembers(cls, inspect.isfunction)
    return {name for name, one in methods if name[0] != "_" and "timeout" in inspect.signature(one).parameters}


def test_every_call_with_a_timeout_is_tested() -> None:
    # A graph makes its call at the end of its block.
    assert with_timeout(Client) - {"graph"} == CALLS.keys()
    assert with_timeout(Collection) == OF_COLLECTIONS.keys()


# The others first make a call with the default timeout.
@pytest.mark.parametrize(
    "name",
    [
        *sorted(CALLS.keys() - {"benchmark", "copy", "free", "launch"}),
        *(f"collection.{name}" for name in OF_COLLECTIONS),
    ],
)
def test_a_call_without_time_is_not_sent(name: str) -> None:
    with (
        Client("localhost:1") as away,
        pytest.raises(DeadlineError, match="the timeout was over before the call was sent"),
    ):
        if name in CALLS:
            CALLS[name](away, {"timeout": 0})
        else:
            OF_COLLECTIONS[name.removeprefix("collection.")](away.collection("a"), {"timeout": 0})


@pytest.mark.parametrize("name", CALLS)
def test_a_timeout_that_is_no_time_is_refused_by_every_call(name: str, client: Client) -> None:
    for wrong in (math.nan, -1.0):
        with pytest.raises(ValueError, match="timeout: expected a number of seconds of at least 0"):
            CALLS[name](client, {"timeout": wrong})


@pytest.mark.parametrize("name", OF_COLLECTIONS)
def test_a_timeout_that_is_no_time_is_refused_by_every_call_of_a_collection(name: str) -> None:
    with Client("localhost:1") as client:
        for wrong in (math.nan, -1.0):
            with pytest.raises(ValueError, match="timeout: expected a number of seconds of at least 0"):
                OF_COLLECTIONS[name](client.collection("a"), {"timeout": wrong})


def test_a_graph_with_a_timeout_that_is_no_time_is_refused_at_its_end(client: Client) -> None:
    with pytest.raises(ValueError, match="timeout: expected"), client.graph(timeout=math.nan) as graph:
        graph.output(client.tensor(X) + 1)


# Addresses.


@pytest.mark.parametrize("target", ["", "http://", "ftp://host:1", "host:99999", "127.0.0.1:0", "[::1]:65536"])
def test_an_address_that_gRPC_would_take_for_another_is_refused(target: str) -> None:  # noqa: N802
    with pytest.raises(ValueError, match="target: expected host:port, https://host:port or unix:///path"):
        Client(target)


@pytest.mark.parametrize(
    "target", ["host", "host:65535", "[::1]:1", "::1", "unix:///a", "dns:///host:1", "https://host/"]
)
def test_addresses_of_other_forms_are_accepted(target: str) -> None:
    with Client(target) as client:
        assert client.target


# Lists without an element.


def test_no_text_has_no_vector(client: Client) -> None:
    assert client.embed([]).shape == (0, 256) and client.embed([]).dtype == np.float32
    assert client.embed([], dimensions=64, output="f16").shape == (0, 64)
    assert client.embed([], output="binary").shape == (0, 32)
    quantized = client.embed([], output="int8")
    assert quantized.values.shape == (0, 256) and quantized.scales.shape == (0,)
    assert client.embed_tokens([]).shape == (0, 256)
    assert np.concatenate([client.embed([]), client.embed(["a"])]).shape == (1, 256)
    with pytest.raises(AccelerdError, match="nowhere"):
        client.embed([], model="nowhere")
    with pytest.raises(ValueError, match="spans: expected none without texts, got"):
        client.embed([], spans=[(0, 0, 1)])


def test_other_calls_with_no_element_have_no_result(client: Client, collection: Collection) -> None:
    assert client.parse([]) == [] and client.rerank("query", [], model="any") == []
    tokens = client.tokenize([])
    assert (tokens.ids.tolist(), tokens.offsets.tolist()) == ([], [0])
    assert collection.upsert([], vectors=np.zeros((0, 2))) == 0 and collection.get([]) == []
    many = [{"ids": [], "texts": []}, {"ids": [7], "vectors": [[1.0, 2.0]]}, {"ids": [], "vectors": np.zeros((0, 2))}]
    assert list(collection.upsert_many(many)) == [0, 1, 0]  # type: ignore[arg-type]
    assert collection.delete_points([7]) == 1 and collection.delete_points([]) == 0
    for none in ({"texts": []}, {"vectors": np.zeros((0, 2))}, {"ids": []}):
        assert collection.search(**none) == []
        hits = collection.search_columns(**none)
        assert (hits.offsets.tolist(), hits.ids, len(hits.scores), hits.payloads) == ([0], [], 0, {})
    assert client.find_similar(np.zeros((0, 3)), X, 1).indices.shape == (0, 1)


# Numbers in lists.


def identity(dtype: str) -> bytes:
    return module("f", [dtype], [dtype], get(0))


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("i32", [4, 6]),
        ("i32", range(3)),
        ("f32", [4, 6]),
        ("f32", [0.1, 0.2]),
        ("f64", [4, 6]),
        ("f64", [0.1, 2.0**40]),
        ("i64", [4, 2**40]),
    ],
)
def test_lists_have_the_type_of_the_parameter(client: Client, dtype: str, values: list[Any]) -> None:
    wasm = identity(dtype)
    assert client.verify(wasm, wasm, cases={"arg0": values}).cases == len(values)
    named = Wasm(wasm, params={"x": dtype})
    assert client.verify(named, named, cases={"x": values})


def test_lists_have_the_narrower_type_of_two_functions(client: Client) -> None:
    def same(x: float) -> float:
        return x

    def whole(x: int) -> int:
        return x

    assert client.verify(identity("f32"), same, cases={"x": [0.5, 0.1]}, rtol=1e-6)
    assert client.verify(identity("i32"), whole, cases={"x": [4, 6]})
    text = "def g(x: float, n: int) -> float:\n    return x * n\n"
    assert client.verify(text, text, cases={"x": [1, 2], "n": [3, 4]})
    with pytest.raises(ValueError, match=r"cases\['x'\]: expected a value of i32, .*got 1099511627776"):
        client.verify(identity("i32"), whole, cases={"x": [4, 2**40]})
    with pytest.raises(TypeError, match=r"cases\['x'\]: expected i32, got float 0.5"):
        client.verify(identity("i32"), whole, cases={"x": [0.5]})


def test_the_parameters_of_a_module_are_read() -> None:
    made = module("f", ["i32", "f32", "i64", "f64"], ["i32"], get(0))
    assert [one.dtype for one in of_module(made, "f")] == ["i32", "f32", "i64", "f64"]
    assert of_module(made, "") == of_module(made, "f")
    assert of_module(made, "g") == ()
    for wrong in (b"", b"\0asm", b"text", *(made[:end] for end in range(0, len(made) - 1, 7))):
        assert isinstance(of_module(wrong, "f"), tuple)
