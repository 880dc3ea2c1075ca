"""Streams that a daemon ends before all batches are answered, as it does on a drain."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import embedding_server
import grpc
import pytest
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

from accelerd import AccelerdError, Client, UnavailableError, _aio_call, _blocking_call
from accelerd._proto import (
    embed_pb2,
    embed_pb2_grpc,
    kernel_pb2,
    kernel_pb2_grpc,
    similarity_pb2,
    similarity_pb2_grpc,
    tensor_pb2,
    verify_pb2,
    verify_pb2_grpc,
)
from accelerd._resume import SentMessages
from accelerd.aio import AsyncClient


class Draining(embed_pb2_grpc.EmbedServiceServicer, similarity_pb2_grpc.SimilarityServiceServicer):
    """Ends each stream but the last after some requests, of which it answers some."""

    def __init__(self) -> None:
        #: Of each stream that ends early, the number of requests that it reads, and the sequences that it answers.
        self.ends: list[tuple[int, set[int]]] = []
        self.received: list[list[int]] = []

    def _answered(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[int]:
        count, answered = self.ends.pop(0) if self.ends else (None, None)
        received: list[int] = []
        self.received.append(received)
        for request in requests:
            received.append(request.sequence)
            if answered is None or request.sequence in answered:
                yield request.sequence
            if len(received) == count:
                drain(context)

    def EmbedStream(self, requests, context):  # noqa: N802
        vectors = tensor_pb2.Tensor(dtype=tensor_pb2.DTYPE_F32, shape=[1, 1], data=b"\0\0\0\0")
        for sequence in self._answered(requests, context):
            yield embed_pb2.EmbedStreamResponse(
                sequence=sequence, embed=embed_pb2.EmbedResponse(embeddings=vectors, token_counts=[1])
            )

    def UpsertStream(self, requests, context):  # noqa: N802
        for sequence in self._answered(requests, context):
            yield similarity_pb2.UpsertStreamResponse(
                sequence=sequence, upsert=similarity_pb2.UpsertResponse(inserted_count=1)
            )


class DrainingPairs(kernel_pb2_grpc.KernelServiceServicer, verify_pb2_grpc.VerifyServiceServicer):
    """Makes pairs of kernels, of which every third is equal to the first, and verifies one chunk of cases."""

    def __init__(self) -> None:
        #: Numbers of pairs after which calls end early.
        self.ends: list[int] = []
        self.received: list[kernel_pb2.GenerateDatasetRequest] = []
        self.verifications = 0

    def GenerateDataset(self, request, context):  # noqa: N802
        self.received.append(request)
        end = self.ends.pop(0) if self.ends else None
        ids: set[str] = set()
        index = request.first_index
        while len(ids) < request.pair_count:
            made = f"{0 if index % 3 == 0 else index:064x}"
            if made not in ids:
                if len(ids) == end:
                    drain(context)
                ids.add(made)
                yield kernel_pb2.GenerateDatasetResponse(pair=kernel_pb2.DatasetPair(index=index, id=made))
            index += 1
        if end is not None:
            drain(context)

    def Verify(self, requests, context):  # noqa: N802
        self.verifications += 1
        for _ in requests:
            yield verify_pb2.VerifyResponse(cases=verify_pb2.CaseVerdicts(case_count=1))
            drain(context)


def drain(context: grpc.ServicerContext) -> None:
    detail = any_pb2.Any()
    detail.Pack(error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(nanos=100_000_000)))
    code = grpc.StatusCode.UNAVAILABLE
    status = status_pb2.Status(code=code.value[0], message="draining", details=[detail])
    context.set_trailing_metadata([("grpc-status-details-bin", status.SerializeToString())])
    context.abort(code, "draining")


@pytest.fixture
def draining() -> Iterator[tuple[Draining, str]]:
    servicer = Draining()
    with embedding_server.serve(servicer) as address:
        yield servicer, address


@pytest.fixture
def pairs() -> Iterator[tuple[DrainingPairs, str]]:
    servicer = DrainingPairs()
    server = grpc.server(ThreadPoolExecutor(2))
    kernel_pb2_grpc.add_KernelServiceServicer_to_server(servicer, server)
    verify_pb2_grpc.add_VerifyServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield servicer, f"127.0.0.1:{port}"
    server.stop(None)


Streamed = Callable[..., list[Any]]


@pytest.fixture(params=["blocking", "asyncio"])
def streamed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Streamed:
    """A function that returns all that a stream yields: `streamed(target, lambda client: client.embed_stream(...))`."""

    async def no_pause(seconds: float, unconnected: list[Any]) -> None:
        assert seconds < 60

    monkeypatch.setattr(_blocking_call, "pause", lambda seconds, unconnected: None)
    monkeypatch.setattr(_aio_call, "pause", no_pause)

    def made(target: str, stream: Callable[[Any], Any]) -> list[Any]:
        if request.param == "blocking":
            with Client(target) as client:
                return list(stream(client))

        async def collected() -> list[Any]:
            async with AsyncClient(target) as client:
                return [one async for one in stream(client)]

        return asyncio.run(collected())

    return made


def batches(count: int) -> Iterable[list[str]]:
    return ([f"text {n}"] for n in range(count))


def test_batches_without_an_outcome_are_sent_to_the_next_daemon(
    draining: tuple[Draining, str], streamed: Streamed
) -> None:
    servicer, target = draining
    servicer.ends = [(4, {0, 2}), (3, {1, 3, 4})]
    outcomes = streamed(target, lambda client: client.embed_stream(batches(8)))
    assert sorted(one.sequence for one in outcomes) == list(range(8))
    assert all(one.error is None for one in outcomes)
    assert servicer.received[0] == [0, 1, 2, 3]
    assert servicer.received[1] == [1, 3, 4]
    assert servicer.received[2] == [5, 6, 7]


def test_points_are_written_again_from_the_first_message_without_a_response_on(
    draining: tuple[Draining, str], streamed: Streamed
) -> None:
    servicer, target = draining
    servicer.ends = [(4, {0, 2, 3})]
    steps = [{"ids": [n], "texts": ["a"]} for n in range(6)]
    written = streamed(target, lambda client: client.collection("code").upsert_many(steps))
    assert written == [1] * 6
    assert servicer.received == [[0, 1, 2, 3], [1, 2, 3, 4, 5]]


def test_a_stream_that_never_progresses_fails_with_the_daemons_error(
    draining: tuple[Draining, str], streamed: Streamed
) -> None:
    servicer, target = draining
    servicer.ends = [(1, set())] * 1000
    # gRPC may replace the text by its own.
    with pytest.raises(UnavailableError, match=r"draining|the connection broke"):
        streamed(target, lambda client: client.embed_stream(batches(3), timeout=30))
    assert 1 < len(servicer.received) < 100 and all(one == [0] for one in servicer.received)


def test_an_exception_of_the_input_is_raised_and_not_taken_for_one_of_the_stream(
    draining: tuple[Draining, str], streamed: Streamed
) -> None:
    servicer, target = draining
    servicer.ends = [(2, {0, 1})]

    def failing() -> Iterator[list[str]]:
        yield from batches(3)
        raise UnavailableError(grpc.StatusCode.UNAVAILABLE, "the source of the texts is away")

    with pytest.raises(AccelerdError, match="the source of the texts is away"):
        streamed(target, lambda client: client.embed_stream(failing()))


def test_what_an_interrupted_call_was_waiting_for_goes_to_the_next_one(
    draining: tuple[Draining, str], streamed: Streamed
) -> None:
    servicer, target = draining
    servicer.ends = [(1, {0})]
    is_resumed = threading.Event()

    class Noticing(list):  # type: ignore[type-arg]
        def append(self, received: list[int]) -> None:
            super().append(received)
            if len(self) == 2:
                is_resumed.set()

    servicer.received = Noticing()

    def waiting() -> Iterator[list[str]]:
        yield ["first"]
        assert is_resumed.wait(20)
        yield ["second"]

    async def waiting_async() -> AsyncIterator[list[str]]:
        yield ["first"]
        while not is_resumed.is_set():
            await asyncio.sleep(0)
        yield ["second"]

    outcomes = streamed(
        target,
        lambda client: client.embed_stream(waiting() if isinstance(client, Client) else waiting_async()),
    )
    assert [one.sequence for one in outcomes] == [0, 1]
    assert servicer.received == [[0], [1]]


@pytest.mark.parametrize("ends", [[], [2], [0, 1, 1], [3, 2, 4], [9]])
def test_pairs_continue_after_the_last_one_without_repetition(
    pairs: tuple[DrainingPairs, str], streamed: Streamed, ends: list[int]
) -> None:
    servicer, target = pairs
    servicer.ends = [*ends]
    made = streamed(target, lambda client: client.generate_dataset(9, seed=4))
    assert [pair.index for pair in made] == [0, 1, 2, 4, 5, 7, 8, 10, 11]
    assert {request.seed for request in servicer.received} == {4}
    first = [request.first_index for request in servicer.received]
    assert first == sorted(first) and not servicer.ends
    # Only a call without pairs is made again from the same index on.
    assert len(set(first)) == len(first) - ends.count(0)


def test_a_stream_that_ends_without_its_pairs_is_an_error(pairs: tuple[DrainingPairs, str], streamed: Streamed) -> None:
    servicer, target = pairs
    with pytest.raises(AccelerdError, match="the stream ended before its last response"):
        streamed(target, lambda client: client.generate_dataset(0))
    assert [request.pair_count for request in servicer.received] == [0]


def test_a_verification_that_broke_off_is_not_continued(pairs: tuple[DrainingPairs, str]) -> None:
    servicer, target = pairs
    with Client(target) as client, pytest.raises(UnavailableError, match=r"draining|the connection broke"):
        client.verify([1.0], [1.0])
    assert servicer.verifications == 1


def test_messages_are_kept_until_they_are_answered() -> None:
    sent = SentMessages(is_ordered=True)
    attempt = sent.begin()
    for n in range(4):
        sent.keep(n, bytes([n]))
    assert [sent.take(attempt) for _ in range(5)] == [b"\0", b"\1", b"\2", b"\3", None]
    assert sent.answered(0) and sent.answered(2) and sent.answered(3)
    again = sent.begin()
    assert sent.take(attempt) is None and not sent.is_current(attempt)
    assert [sent.take(again) for _ in range(4)] == [b"\1", b"\2", b"\3", None]
    assert [sent.answered(n) for n in (1, 2, 3)] == [True, False, False] and not sent.is_complete
    sent.end()
    assert sent.is_complete
    with pytest.raises(AccelerdError, match="unexpected sequence 9"):
        sent.answered(9)
