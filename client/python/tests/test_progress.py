"""Calls that take longer than their timeout: what was done by then, and what to change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import embedding_server
import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from accelerd import AccelerdError, BusyError, Client, DeadlineError
from accelerd._proto import embed_pb2, embed_pb2_grpc, similarity_pb2, similarity_pb2_grpc, tensor_pb2
from accelerd.aio import AsyncClient

TOO_LONG = (
    "the request would be answered after 600.0s, and its deadline is in 60.0s: it needs a longer deadline, whatever "
    "else runs"
)


def refuse(context: grpc.ServicerContext) -> None:
    """Refuse a call as the daemon does that takes ten minutes by itself."""
    info = error_details_pb2.ErrorInfo(
        reason="WOULD_MISS_DEADLINE", domain="accelerd", metadata={"estimated_ms": "600000", "left_ms": "60000"}
    )
    detail = any_pb2.Any()
    detail.Pack(info)
    code = grpc.StatusCode.RESOURCE_EXHAUSTED
    status = status_pb2.Status(code=code.value[0], message=TOO_LONG, details=[detail])
    context.set_trailing_metadata([("grpc-status-details-bin", status.SerializeToString())])
    context.abort(code, TOO_LONG)


class Slow(embed_pb2_grpc.EmbedServiceServicer, similarity_pb2_grpc.SimilarityServiceServicer):
    """Has time for some texts, and for some parts of a stream of upserts."""

    def __init__(self) -> None:
        self.texts = 0
        self.parts = 0
        self.written: list[int] = []
        self.calls: list[str] = []

    def Embed(self, request, context):  # noqa: N802
        self.calls.append("Embed")
        self.texts -= len(request.texts.values)
        if self.texts < 0:
            refuse(context)
        rows = len(request.texts.values)
        vectors = tensor_pb2.Tensor(dtype=tensor_pb2.DTYPE_F32, shape=[rows, 1], data=bytes(4 * rows))
        return embed_pb2.EmbedResponse(embeddings=vectors, token_counts=[1] * rows)

    def Upsert(self, request, context):  # noqa: N802
        self.calls.append("Upsert")
        refuse(context)

    def UpsertStream(self, requests, context):  # noqa: N802
        self.calls.append("UpsertStream")
        for request in requests:
            if len(self.written) == self.parts:
                error = {"code": grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], "message": TOO_LONG}
                yield similarity_pb2.UpsertStreamResponse(sequence=request.sequence, error=error)
                continue
            count = len(request.upsert.texts.values)
            self.written.append(count)
            yield similarity_pb2.UpsertStreamResponse(
                sequence=request.sequence, upsert=similarity_pb2.UpsertResponse(inserted_count=count)
            )

    def ListModels(self, request, context):  # noqa: N802
        context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the deadline passed after 3.2s in the queue")


@pytest.fixture
def slow() -> Iterator[tuple[Slow, str]]:
    servicer = Slow()
    with embedding_server.serve(servicer) as address:
        yield servicer, address


Called = Callable[..., Any]


@pytest.fixture(params=["blocking", "asyncio"])
def called(request: pytest.FixtureRequest) -> Called:
    """A function that makes a call: `called(target, lambda client: client.models())`."""

    def made(target: str, call: Callable[[Any], Any], **settings: Any) -> Any:
        if request.param == "blocking":
            with Client(target, **settings) as client:
                return call(client)

        async def awaited() -> Any:
            async with AsyncClient(target, **settings) as client:
                return await call(client)

        return asyncio.run(awaited())

    return made


def test_an_upsert_that_takes_too_long_writes_what_fits_and_says_how_much(slow, called: Called) -> None:
    servicer, target = slow
    servicer.parts = 7
    texts = [f"def f{n}(): pass" for n in range(9294)]
    with pytest.raises(BusyError) as failed:
        called(target, lambda client: client.collection("code").upsert(range(9294), texts=texts, timeout=60))
    error = failed.value
    # Two of the six hundred seconds.
    assert servicer.written == [30] * 7
    assert error.done == 210 and "210 of 9294 points were written, and stay" in str(error)
    assert error.retry_after is None and servicer.calls == ["Upsert", "UpsertStream"]


def test_an_upsert_whose_parts_all_fit_succeeds(slow, called: Called) -> None:
    servicer, target = slow
    servicer.parts = 1000
    texts = [f"def f{n}(): pass" for n in range(600)]
    assert called(target, lambda client: client.collection("code").upsert(range(600), texts=texts)) == 600
    assert servicer.written == [2] * 300


def test_texts_that_take_too_long_are_refused_once_with_the_timeout_to_raise(slow, called: Called) -> None:
    servicer, target = slow
    with pytest.raises(BusyError, match="set a larger timeout, of the call or of the client"):
        called(target, lambda client: client.embed(["a"] * 669, timeout=60))
    assert servicer.calls == ["Embed"]


def test_the_error_of_texts_in_parts_says_how_many_were_embedded(slow, called: Called) -> None:
    servicer, target = slow
    servicer.texts = 20_000
    with pytest.raises(BusyError) as failed:
        called(target, lambda client: client.embed(["a"] * 40_000))
    assert failed.value.done == 16_384 and "16384 of 40000 texts were embedded" in str(failed.value)


def test_a_deadline_in_the_daemons_queue_has_the_remedy_too(slow, called: Called) -> None:
    _, target = slow
    with pytest.raises(DeadlineError, match="a larger timeout, of the call or of the client, waits longer") as failed:
        called(target, lambda client: client.models())
    assert failed.value.done is None and isinstance(failed.value, AccelerdError)
