"""Retries and errors, against a server that fails on demand."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

from accelerd import BusyError, Client, InvalidArgumentError, UnavailableError
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
        return embed_pb2.ListModelsResponse(models=[embed_pb2.Model(name="toy")])

    def CreateCollection(self, request, context):  # noqa: N802
        self._enter(context)
        return similarity_pb2.CreateCollectionResponse()


@pytest.fixture
def failing() -> Iterator[tuple[Failing, Client]]:
    servicer = Failing()
    server = grpc.server(ThreadPoolExecutor(2))
    embed_pb2_grpc.add_EmbedServiceServicer_to_server(servicer, server)
    similarity_pb2_grpc.add_SimilarityServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with Client(f"127.0.0.1:{port}", timeout=10, attempts=3) as client:
        yield servicer, client
    server.stop(None)


def retry_in(seconds: int) -> error_details_pb2.RetryInfo:
    return error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=seconds))


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


def test_arguments_that_make_no_sense_are_refused_here(failing: tuple[Failing, Client]) -> None:
    _, client = failing
    with pytest.raises(TypeError):
        client.embed("one text")
    with pytest.raises(TypeError, match="poling"):
        client.embed(["one text"], poling="mean")
    with pytest.raises(ValueError, match="cosine, dot"):
        client.find_similar([[1.0]], [[1.0]], 1, metric="angle")
    with pytest.raises(ValueError, match="got both"):
        client.collection("code").get([1, "a"])
    with pytest.raises(ValueError, match="either"):
        client.collection("code").upsert([1])


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
    with pytest.raises(ValueError, match="connections: expected 1 or more, got 0"):
        Client(target, connections=0)
