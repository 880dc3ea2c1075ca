"""Retries and errors, against a server that fails on demand."""

from __future__ import annotations

import os
import pickle
import socket
import threading
from collections.abc import Iterator

import embedding_server
import grpc
import numpy as np
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

import accelerd
from accelerd import BusyError, Client, DeadlineError, InvalidArgumentError, UnavailableError, record_timings
from accelerd._proto import embed_pb2, embed_pb2_grpc, similarity_pb2, similarity_pb2_grpc


class Failing(embed_pb2_grpc.EmbedServiceServicer, similarity_pb2_grpc.SimilarityServiceServicer):
    """Answers with the failures it was given, then well."""

    def __init__(self) -> None:
        self.failures: list[tuple[grpc.StatusCode, list[object]]] = []
        self.calls = 0
        self.peers: list[str] = []

    def _enter(self, context: grpc.ServicerContext) -> None:
        self.calls += 1
        self.peers.append(context.peer())
        if not self.failures:
            return
        code, details = self.failures.pop(0)
        packed = []
        for detail in details:
            one = any_pb2.Any()
            one.Pack(detail)
            packed.append(one)
        status = status_pb2.Status(code=code.value[0], message="no", details=packed)
        context.set_trailing_metadata([("grpc-status-details-bin", status.SerializeToString())])
        context.abort(code, "no")

    def ListModels(self, request, context):  # noqa: N802
        self._enter(context)
        if ("accelerd-timing", "1") in context.invocation_metadata():
            stages = "queue;dur=0.5, execute;desc=gpu;dur=12,;dur=1,total, copy;dur=x, total;dur=13"
            context.send_initial_metadata([("server-timing", stages)])
        return embed_pb2.ListModelsResponse(models=[embed_pb2.Model(name="toy")])

    def CreateCollection(self, request, context):  # noqa: N802
        self._enter(context)
        return similarity_pb2.CreateCollectionResponse()


@pytest.fixture
def failing() -> Iterator[tuple[Failing, Client]]:
    servicer = Failing()
    with embedding_server.serve(servicer) as address, Client(address, timeout=10, attempts=3) as client:
        yield servicer, client


def retry_in(seconds: int) -> error_details_pb2.RetryInfo:
    return error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=seconds))


def test_an_exception_of_the_requests_is_raised_though_the_responses_end_well(monkeypatch: pytest.MonkeyPatch) -> None:
    class EndedCall:
        """A call that ends without an error while its requests raise."""

        def __init__(self, requests: Iterator[bytes], **_: object) -> None:
            with pytest.raises(LookupError):
                list(requests)

        def __iter__(self) -> Iterator[object]:
            return iter([])

        def cancel(self) -> None:
            pass

    def batches() -> Iterator[list[str]]:
        yield ["a"]
        raise LookupError("no more texts")

    client = Client("localhost:1")
    monkeypatch.setattr(client._caller._connections, "stream", lambda method: EndedCall)
    with pytest.raises(LookupError, match="no more texts"):
        list(client.embed_stream(batches()))


def test_a_busy_daemon_is_asked_again_when_it_says_so(failing: tuple[Failing, Client]) -> None:
    servicer, client = failing
    servicer.failures = [(grpc.StatusCode.UNAVAILABLE, []), (grpc.StatusCode.RESOURCE_EXHAUSTED, [retry_in(0)])]
    assert client.models()[0].name == "toy"
    assert servicer.calls == 3


def test_attempts_are_bounded(failing: tuple[Failing, Client]) -> None:
    servicer, client = failing
    servicer.failures = [(grpc.StatusCode.UNAVAILABLE, [])] * 9
    with pytest.raises(UnavailableError):
        client.models()
    assert servicer.calls == 3


def test_a_hint_past_the_deadline_is_not_waited_for(failing: tuple[Failing, Client]) -> None:
    servicer, client = failing
    servicer.failures = [(grpc.StatusCode.RESOURCE_EXHAUSTED, [retry_in(3600)])]
    with pytest.raises(BusyError) as refused:
        client.models()
    assert refused.value.retry_after == 3600 and servicer.calls == 1


def test_what_must_not_run_twice_is_not_repeated(failing: tuple[Failing, Client]) -> None:
    servicer, client = failing
    servicer.failures = [(grpc.StatusCode.UNAVAILABLE, [])]
    with pytest.raises(UnavailableError):
        client.create_collection("code", dimensions=2)
    assert servicer.calls == 1


def test_wrong_fields_reach_the_caller_at_once(failing: tuple[Failing, Client]) -> None:
    servicer, client = failing
    bad = error_details_pb2.BadRequest()
    bad.field_violations.add(field="queries.shape", description="expected 2 extents, got 3")
    servicer.failures = [(grpc.StatusCode.INVALID_ARGUMENT, [bad])]
    with pytest.raises(InvalidArgumentError) as refused:
        client.models()
    assert refused.value.violations[0].field == "queries.shape"
    assert servicer.calls == 1


WRONG_ARGUMENTS = [
    (lambda c: c.find_similar([[1.0]], [[1.0]], -1), ValueError, r"k: expected an int from 0 to 2\*\*32 - 1, got -1"),
    (lambda c: c.find_similar([[1.0]], [[1.0]], "3"), TypeError, "k: expected an int from 0 to .*, got str"),
    (lambda c: c.cluster([[1.0]], -2), ValueError, "clusters: expected an int from 0 to .*, got -2"),
    (lambda c: c.embed(["a"], model=5), TypeError, "model: expected a str, got int"),
    (lambda c: c.embed(["a"], dimensions=-1), ValueError, "dimensions: expected an int from 0 to .*, got -1"),
    (lambda c: c.create_collection(5), TypeError, "name: expected a str, got int"),
    (lambda c: c.create_collection("a", document_prompt=5), TypeError, "document_prompt: expected a str, got int"),
    (lambda c: c.collection("a").upsert([1], texts=["a"], prompt_name=5), TypeError, "prompt_name: expected a str"),
    (lambda c: c.collection("a").search(texts=["a"], prompt=5), TypeError, "prompt: expected a str, got int"),
    (lambda c: c.collection("a").search(ids=[1], k=-1), ValueError, "k: expected an int from 0 to .*, got -1"),
    (lambda c: c.collection("a").search(ids=[1], threshold="x"), TypeError, "threshold: expected a number, got str"),
    (lambda c: list(c.collection("a").scroll(page_size=-1)), ValueError, "page_size: expected an int from 0 to"),
    (lambda c: c.embed("one text"), TypeError, "texts: expected a list of texts, got str"),
    (lambda c: c.embed(5), TypeError, "texts: expected a list of texts, got int"),
    (lambda c: c.embed(["a", 5]), TypeError, r"texts\[1\]: expected str, got int"),
    (lambda c: c.embed(["a"], poling="mean"), TypeError, "unknown options: poling"),
    (lambda c: c.embed(["a"], output="f64"), ValueError, "output: expected one of f32, .*, got 'f64'"),
    (lambda c: c.embed(["a"], spans=[(1, 0, 1)]), ValueError, "spans: expected texts from 0 to 0, got"),
    (lambda c: c.embed_tokens([1, 2]), TypeError, "tokens: expected Tokens or a list of lists of ids, got list"),
    (lambda c: c.embed_tokens([[-1]]), ValueError, "tokens: expected ids from 0 to"),
    (lambda c: c.rerank("q", "one", model="m"), TypeError, "documents: expected a list of texts, got str"),
    (lambda c: c.load_model("a", "b", aliases="c"), TypeError, "aliases: expected a list of names, got str"),
    (lambda c: c.find_similar([[1.0]], [[1.0]], 1, metric="angle"), ValueError, "metric: expected one of cosine, dot"),
    (lambda c: c.find_similar([["a"]], [[1.0]], 1), ValueError, "queries: expected rows of numbers"),
    (
        lambda c: c.cluster([[[1.0]]], 1),
        ValueError,
        r"source: expected rows of numbers, got an array of shape \(1, 1, 1\)",
    ),
    (lambda c: c.create_collection("a", storage="f64"), ValueError, "storage: expected one of f32, f16, bf16, i8"),
    (lambda c: c.collection("a").get([1, "a"]), ValueError, "ids: expected numbers or UUIDs, got both"),
    (lambda c: c.collection("a").get("abc"), TypeError, "ids: expected a list of int, UUID or str, got str"),
    (lambda c: c.collection("a").get(5), TypeError, "ids: expected a list of int, UUID or str, got int"),
    (lambda c: c.collection("a").get([True]), TypeError, r"ids\[0\]: expected int, UUID or str, got bool"),
    (lambda c: c.collection("a").get([-1]), ValueError, r"ids: expected numbers from 0 to 2\*\*64 - 1, got -1"),
    (lambda c: c.collection("\ud800").get([1]), ValueError, "^collection: lone surrogate at index 0"),
    (lambda c: c.collection("\ud800").count(), ValueError, "^collection: lone surrogate at index 0"),
    (lambda c: c.collection("\ud800").delete_points([1]), ValueError, "^collection: lone surrogate at index 0"),
    (lambda c: c.cluster(c.collection("\ud800"), 2), ValueError, "^collection: lone surrogate at index 0"),
    (lambda c: c.collection("a").get(["a", "\ud800"]), ValueError, r"^ids\[1\]: lone surrogate at index 0"),
    (lambda c: c.translate("", constants={"\ud800": 1}), ValueError, r"^constants\[.*\]: name: lone surrogate"),
    (lambda c: c.translate("", arch="\ud800"), ValueError, "^arch: lone surrogate at index 0"),
    (lambda c: c.compare({"\ud800": [1]}, [1]), ValueError, r"^actual\[.*\]: name: lone surrogate at index 0"),
    (lambda c: c.compare([1], [1], policies={"\ud800": {}}), ValueError, r"^policies\[.*\]: name: lone surrogate"),
    (lambda c: c.verify([1], [1], expect=["\ud800"]), ValueError, r"^expect\[0\]: lone surrogate at index 0"),
    (lambda c: c.upload([1], device="\ud800"), ValueError, "^device: lone surrogate at index 0"),
    (lambda c: c.embed(["a"], spans=[(0, 0, 1 << 64)]), ValueError, r"^spans\[0\]: expected an int from 0 to 2\*\*32"),
    (lambda c: list(c.generate_dataset(1 << 64)), ValueError, r"^count: expected an int from 0 to 2\*\*64 - 1"),
    (lambda c: c.find_similar([[1.0]], np.ones((0, 1)), 1), ValueError, "^corpus: expected at least one row, got none"),
    (lambda c: c.collection("a").get([1 << 64]), ValueError, r"ids: expected numbers from 0 to 2\*\*64 - 1"),
    (lambda c: c.collection("a").upsert([1]), ValueError, "expected either texts or vectors, got neither"),
    (lambda c: c.collection("a").upsert([1], texts=["a"], vectors=[[1]]), ValueError, "got both"),
    (
        lambda c: c.collection("a").upsert([1, 2], vectors=[[1.0]]),
        ValueError,
        "vectors: expected 2, one per id, got 1",
    ),
    (lambda c: c.collection("a").upsert([1], texts=["a"], payloads=[]), ValueError, "payloads: expected 1, .* got 0"),
    (
        lambda c: c.collection("a").upsert([1], texts=["a"], payloads=[5]),
        TypeError,
        r"payloads\[0\]: expected a dict, got int",
    ),
    (
        lambda c: c.collection("a").upsert([1], texts=["a"], payloads=[{"x": [1]}]),
        TypeError,
        r"payloads\[0\]\['x'\]: expected str, int, float or bool, got list",
    ),
    (
        lambda c: c.collection("a").upsert([1], texts=["a"], payloads={"x": [1, 2]}),
        ValueError,
        r"payloads\['x'\]: expected 1 values, one per id, got 2",
    ),
    (
        lambda c: c.collection("a").upsert([1], texts=["a"], payloads=[{"x": 1 << 63}]),
        ValueError,
        r"payloads\['x'\]: expected signed 64-bit integers",
    ),
    (lambda c: c.collection("a").search(), ValueError, "expected one of texts, vectors and ids, got none"),
    (lambda c: c.collection("a").search(texts=["a"], ids=[1]), ValueError, "got texts and ids"),
    (lambda c: c.collection("a").search(text=["a"]), TypeError, "unknown options: text"),
    (lambda c: c.collection("a").search(ids=[1], where={"x": range(3)}), ValueError, r"where\['x'\]: expected slice"),
    (lambda c: c.collection("a").search(ids=[1], where={"x": slice(0, 9, 2)}), ValueError, "got a step of 2"),
    (lambda c: c.collection("a").search(ids=[1], where={"x": None}), TypeError, r"where\['x'\]: expected a value"),
    (
        lambda c: c.collection("a").search(ids=[1], where=["x"]),
        TypeError,
        "where: expected a dict of field to condition, or a list of pairs of these, got list",
    ),
]


@pytest.mark.parametrize(("call", "cls", "message"), WRONG_ARGUMENTS)
def test_arguments_that_make_no_sense_are_refused_here(failing, call, cls, message) -> None:
    servicer, client = failing
    with pytest.raises(cls, match=message):
        call(client)
    assert servicer.calls == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": 5}, "target: expected an address such as"),
        ({"connections": 0}, "connections: expected at least 1, got 0"),
        ({"attempts": 0}, "attempts: expected at least 1, got 0"),
        ({"timeout": 0}, "timeout: expected a positive number of seconds, got 0"),
        ({"max_message_bytes": 0}, "max_message_bytes: expected at least 1, got 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(arguments: dict, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        Client(**arguments)


def test_the_target_comes_from_the_environment_unless_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELERD_SERVER", "elsewhere:1")
    assert Client().target == "elsewhere:1" and Client("http://here:2/").target == "here:2"
    monkeypatch.delenv("ACCELERD_SERVER")
    assert Client().target == "localhost:7433"
    assert isinstance(accelerd.__version__, str)


def test_every_call_takes_a_timeout(failing: tuple[Failing, Client]) -> None:
    servicer, client = failing
    servicer.failures = [(grpc.StatusCode.UNAVAILABLE, [retry_in(30)])]
    with pytest.raises((UnavailableError, DeadlineError)):
        client.models(timeout=1)
    assert servicer.calls == 1


def test_timings_are_recorded_where_they_are_asked_for(failing: tuple[Failing, Client]) -> None:
    _, client = failing
    client.models()
    with record_timings() as timings:
        client.models()
        with record_timings() as inner:
            client.models()
    client.models()
    (timing,) = timings
    assert len(inner) == 1 and timing.method == "ListModels" and timing.seconds > 0
    assert timing.stages == {"queue": 0.0005, "execute": 0.012, "total": 0.013}


def test_timings_of_other_threads_are_theirs(failing: tuple[Failing, Client]) -> None:
    _, client = failing
    with record_timings() as timings:
        thread = threading.Thread(target=client.models)
        thread.start()
        thread.join()
    assert timings == []


def test_a_client_is_pickled_as_its_settings(failing: tuple[Failing, Client]) -> None:
    _, client = failing
    client.models()
    again = pickle.loads(pickle.dumps(client))
    assert again.target == client.target and again.models()[0].name == "toy"
    collection = pickle.loads(pickle.dumps(client.collection("code")))
    assert collection.name == "code"
    again.close()


def test_errors_are_pickled_whole(failing: tuple[Failing, Client]) -> None:
    servicer, client = failing
    bad = error_details_pb2.BadRequest()
    bad.field_violations.add(field="k", description="expected 1")
    info = error_details_pb2.ErrorInfo(reason="TOO_OLD", domain="accelerd", metadata={"a": "b"})
    servicer.failures = [(grpc.StatusCode.INVALID_ARGUMENT, [bad, info])]
    with pytest.raises(InvalidArgumentError) as refused:
        client.models()
    again = pickle.loads(pickle.dumps(refused.value))
    assert type(again) is InvalidArgumentError and str(again) == str(refused.value)
    assert (again.violations, again.reason) == (refused.value.violations, "TOO_OLD")


def test_a_client_that_has_called_says_so_in_a_forked_child(failing, monkeypatch: pytest.MonkeyPatch) -> None:
    _, client = failing
    client.models()
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    with pytest.raises(RuntimeError, match="create a client in the child"):
        client.models()


def test_a_closed_client_says_so() -> None:
    client = Client("127.0.0.1:1")
    client.close()
    with pytest.raises(ValueError, match="the client is closed"):
        client.models()


def headers_of_a_call(call) -> bytes:
    """What a channel sends up to its first call's headers, to a server that never answers."""
    settings = b"\0\0\0\4\0\0\0\0\0"
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=call, args=(f"127.0.0.1:{server.getsockname()[1]}",), daemon=True)
        thread.start()
        connection, _ = server.accept()
        with connection:
            connection.settimeout(20)
            connection.sendall(settings)
            received = b""
            while b"ListModels" not in received or b"grpc-accept-encoding" not in received:
                received += connection.recv(65536)
            return received


def test_no_compression_is_offered() -> None:
    def ours(target: str) -> None:
        with Client(target, timeout=2, attempts=1) as client, pytest.raises(accelerd.AccelerdError):
            client.models()

    def plain(target: str) -> None:
        with grpc.insecure_channel(target) as channel, pytest.raises(grpc.RpcError):
            embed_pb2_grpc.EmbedServiceStub(channel).ListModels(embed_pb2.ListModelsRequest(), timeout=2)

    assert b"gzip" in headers_of_a_call(plain)
    assert b"gzip" not in headers_of_a_call(ours)


def test_calls_go_over_each_connection_in_turn(failing: tuple[Failing, Client]) -> None:
    servicer, one = failing
    target = one.target
    for _ in range(4):
        one.models()
    assert len(set(servicer.peers)) == 1
    servicer.peers.clear()
    with Client(target, connections=3) as three:
        for _ in range(9):
            three.models()
    peers = servicer.peers
    assert len(set(peers[:3])) == 3
    assert peers == peers[:3] * 3
    with pytest.raises(ValueError, match="connections: expected at least 1, got 0"):
        Client(target, connections=0)
