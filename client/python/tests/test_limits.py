"""Calls larger than a message: split, halved, or refused with a clear error."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate

import embedding_server
import grpc
import numpy as np
import pytest

from accelerd import (
    AccelerdError,
    BusyError,
    Client,
    Collection,
    InvalidArgumentError,
    MessageTooLargeError,
    Quantized,
)
from accelerd._call import parts_by_bytes
from accelerd._errors import error
from accelerd._payload import PayloadTable
from accelerd._proto import embed_pb2, embed_pb2_grpc, similarity_pb2_grpc
from accelerd._proto import similarity_pb2 as pb
from accelerd._tensor import to_array
from accelerd._upsert import BulkUpsert

SMALL = 20_000


@pytest.fixture
def small(server: str) -> Iterator[Client]:
    """A client that sends messages of at most 20 kB."""
    with Client(server, timeout=60, max_message_bytes=SMALL) as client:
        yield client


@pytest.fixture
def resident(small: Client) -> Iterator[Collection]:
    collection = small.create_collection(f"limits-{uuid.uuid4().hex}", dimensions=16, metric="dot")
    yield collection
    collection.delete()


def test_parts_hold_what_fits_and_one_row_at_least() -> None:
    def bounds(sizes: list[int], limit: int, rows: int) -> list[tuple[int, int]]:
        return [(part.start, part.stop) for part in parts_by_bytes(sizes, limit, rows)]

    assert bounds([4, 4, 4, 9, 1], 8, 10) == [(0, 2), (2, 3), (3, 4), (4, 5)]
    assert bounds([1] * 5, 100, 2) == [(0, 2), (2, 4), (4, 5)]
    assert bounds([], 8, 10) == [(0, 0)]


@pytest.mark.parametrize("options", [{}, {"output": "int8"}, {"dimensions": 64, "output": "binary"}])
def test_embeddings_do_not_depend_on_how_texts_are_split(client: Client, small: Client, options: dict) -> None:
    texts = [f"def f{n}(): return {'é' * (n % 90)}" for n in range(1500)]
    whole, split = client.embed(texts, **options), small.embed(texts, **options)
    pairs = zip(whole, split, strict=True) if isinstance(whole, Quantized) else [(whole, split)]
    for one, other in pairs:
        np.testing.assert_array_equal(one, other)


def test_tokens_and_spans_are_split_with_their_texts(client: Client, small: Client) -> None:
    texts = [f"first {n} second {n}" for n in range(2000)]
    tokens = client.tokenize(texts)
    lists = [tokens.ids[a:b].tolist() for a, b in zip(tokens.offsets, tokens.offsets[1:], strict=False)]
    whole = client.embed_tokens(tokens)
    np.testing.assert_array_equal(small.embed_tokens(tokens), whole)
    np.testing.assert_array_equal(small.embed_tokens(lists), whole)


def test_one_text_that_no_message_holds_is_refused_by_size(small: Client) -> None:
    with pytest.raises(MessageTooLargeError) as refused:
        small.embed(["short", "x" * (2 * SMALL)])
    assert refused.value.limit == SMALL and refused.value.size is not None and refused.value.size > 2 * SMALL
    assert not isinstance(refused.value, BusyError) and str(SMALL) in str(refused.value)


@pytest.mark.parametrize("metric", ["cosine", "dot", "squared_l2"])
@pytest.mark.parametrize("shape", [(3, 2000), (700, 40), (900, 900), (1, 1)])
def test_neighbours_do_not_depend_on_how_rows_are_split(
    client: Client, small: Client, metric: str, shape: tuple[int, int]
) -> None:
    # Few different rows, so that many scores are equal: then the lower row comes first.
    random = np.random.default_rng(5)
    queries, corpus = (random.integers(-1, 2, (rows, 4)).astype(np.float32) for rows in shape)
    k = min(7, shape[1])
    for threshold in (None, 0.5):
        whole = client.find_similar(queries, corpus, k, metric=metric, threshold=threshold)
        split = small.find_similar(queries, corpus, k, metric=metric, threshold=threshold)
        np.testing.assert_array_equal(split.indices, whole.indices)
        np.testing.assert_array_equal(split.scores, whole.scores)
        assert split.indices.dtype == np.int32 and split.scores.dtype == np.float32


def test_rows_that_no_message_holds_are_refused(small: Client) -> None:
    with pytest.raises(MessageTooLargeError, match="a query and a row of the corpus cannot be split"):
        small.find_similar(np.zeros((1, 4000)), np.zeros((9, 4000)), 1)
    with pytest.raises(ValueError, match="k from 1 to 2000, got lengths 16 and 16 and k 2001"):
        small.find_similar(np.zeros((1, 16)), np.zeros((2000, 16)), 2001)


def test_clusters_of_many_rows_are_those_of_one_call(client: Client, small: Client) -> None:
    random = np.random.default_rng(3)
    rows = np.concatenate([random.normal(center, 0.1, (400, 8)) for center in (-5, 0, 5)]).astype(np.float32)
    before = [one.name for one in client.collections()]
    whole, split = client.cluster(rows, 3, seed=1), small.cluster(rows, 3, seed=1)
    groups = [{frozenset(np.flatnonzero(one.assignments == n).tolist()) for n in range(3)} for one in (whole, split)]
    assert groups[0] == groups[1] and split.ids == []
    np.testing.assert_allclose(split.inertia, whole.inertia, rtol=1e-5)
    assert [one.name for one in client.collections()] == before


@pytest.mark.parametrize("kind", ["numbers", "texts"])
def test_points_beyond_a_message_are_written_in_order(resident: Collection, kind: str) -> None:
    rows = np.random.default_rng(1).standard_normal((3000, 16), dtype=np.float32)
    ids = np.arange(3000) if kind == "numbers" else [str(uuid.UUID(int=n)) for n in range(3000)]
    payloads = {"n": np.arange(3000), "even": [None if n % 2 else "yes" for n in range(3000)]}
    assert resident.upsert(ids, vectors=rows, payloads=payloads) == 3000
    assert resident.upsert(ids, vectors=rows, payloads=payloads) == 0
    points = list(resident.scroll(vectors=True, page_size=700))
    assert [point.payload["n"] for point in points] == list(range(3000))
    np.testing.assert_array_equal(np.stack([point.vector for point in points]), rows)
    assert resident.count(where={"even": "yes"}) == 1500


def test_a_split_upsert_refuses_an_id_that_is_there_twice(resident: Collection) -> None:
    rows = np.zeros((3000, 16), np.float32)
    with pytest.raises(ValueError, match="ids: duplicate id 7"):
        resident.upsert([7, *range(2999)], vectors=rows)
    assert resident.count() == 0


def test_steps_of_any_size_are_written(resident: Collection) -> None:
    def step(start: int, stop: int) -> dict:
        return {"ids": range(start, stop), "vectors": np.ones((stop - start, 16), np.float32)}

    assert list(resident.upsert_many([step(0, 1), step(1, 3000), step(2990, 3010)])) == [1, 2999, 10]
    assert resident.count() == 3010
    for wrong in ({"vectors": [[1.0]]}, {"ids": [1], "vectors": [[1.0] * 16], "payload": []}, [1]):
        with pytest.raises(TypeError, match="step: expected a dict of ids"):
            list(resident.upsert_many([wrong]))  # type: ignore[list-item]


def test_steps_are_counted_whatever_the_order_of_responses(small: Client) -> None:
    bulk = BulkUpsert("c", small._caller.settings)
    steps = [{"ids": range(500), "vectors": np.ones((500, 16), np.float32)}, {"ids": [1], "vectors": [[1.0] * 16]}]
    sent = [pb.UpsertStreamRequest.FromString(message) for step in steps for message in bulk.messages(step)]
    assert len(sent) > 2
    counts: list[list[int]] = []
    for request in reversed(sent):
        done = pb.UpsertResponse(inserted_count=request.upsert.vectors.shape[0])
        counts.append(list(bulk.on_response(pb.UpsertStreamResponse(sequence=request.sequence, upsert=done))))
    assert counts == [[] for _ in sent[1:]] + [[500, 1]]


def test_a_point_that_no_message_holds_is_refused(resident: Collection) -> None:
    payloads = [{"text": "x" * 3}, {"text": "x" * (2 * SMALL)}]
    with pytest.raises(MessageTooLargeError, match="the point at 1 cannot be split"):
        resident.upsert([1, 2], vectors=np.zeros((2, 16)), payloads=payloads)


class Limited(similarity_pb2_grpc.SimilarityServiceServicer):
    """Takes a few points a message, and fails its first streams after some answers."""

    def __init__(self, failures: list[grpc.StatusCode]) -> None:
        self.failures = failures
        self.ids: list[int] = []
        self.streams = 0

    def Upsert(self, request, context):  # noqa: N802
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "the request message has 900 bytes, expected at most 800")

    def UpsertStream(self, requests, context):  # noqa: N802
        self.streams += 1
        for request in requests:
            ids = list(request.upsert.ids.numbers)
            if len(ids) > 100:
                message = "the request message has 900 bytes, expected at most 800"
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, message)
            if self.failures and len(self.ids) > 300:
                context.abort(self.failures.pop(0), "no")
            self.ids += ids
            yield pb.UpsertStreamResponse(sequence=request.sequence, upsert=pb.UpsertResponse(inserted_count=len(ids)))


class Counting(embed_pb2_grpc.EmbedServiceServicer, similarity_pb2_grpc.SimilarityServiceServicer):
    """Tokenizes texts to bytes, ranks them by a few scores, and finds for each query the points up to its number."""

    def __init__(self) -> None:
        #: The most texts or queries of a call.
        self.limit = 1 << 20
        self.counts: list[int] = []

    def _enter(self, count: int, context: grpc.ServicerContext) -> None:
        if count > self.limit:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "the request message has 9 bytes, expected at most 8")
        self.counts.append(count)

    def Tokenize(self, request, context):  # noqa: N802
        texts = [text.encode() for text in request.texts.values]
        self._enter(len(texts), context)
        offsets = [0, *accumulate(map(len, texts))]
        ids = b"".join(texts)
        spans = range(len(ids) if request.with_spans else 0)
        return embed_pb2.TokenizeResponse(
            tokens=embed_pb2.TokenInput(ids=ids, offsets=offsets),
            starts=spans,
            ends=(at + 1 for at in spans),
            special=(at % 2 == 0 for at in spans),
        )

    def Rerank(self, request, context):  # noqa: N802
        texts = request.documents.values
        self._enter(len(texts), context)
        ranked = sorted((-(len(text) % 7), index) for index, text in enumerate(texts))[: request.top_n or None]
        results = [embed_pb2.RankedDocument(index=index, score=-negative) for negative, index in ranked]
        return embed_pb2.RerankResponse(results=results)

    def Search(self, request, context):  # noqa: N802
        queries = to_array(request.vectors)[:, 0].astype(int)
        self._enter(len(queries), context)
        hits = [point for query in queries for point in range(query)]
        payloads = PayloadTable([{"even": str(point)} if point % 2 == 0 else {} for point in hits], len(hits))
        columns = pb.HitColumns(
            offsets=np.cumsum([0, *queries], dtype="<u4").tobytes(),
            ids=pb.PointIds(packed_numbers=np.array(hits, "<u8").tobytes()),
            scores=np.array(hits, "<f4").tobytes(),
            payloads=payloads.message(0, len(hits)),
        )
        return pb.SearchResponse(columns=columns)


@pytest.fixture
def counting() -> Iterator[tuple[Counting, Client, Client]]:
    """A daemon, a client, and one that sends messages of at most 20 kB."""
    servicer = Counting()
    with (
        embedding_server.serve(servicer) as target,
        Client(target, timeout=20) as client,
        Client(target, timeout=20, max_message_bytes=SMALL) as small,
    ):
        yield servicer, client, small


def test_texts_are_tokenized_in_parts(counting: tuple[Counting, Client, Client]) -> None:
    servicer, client, small = counting
    texts = ["é" * (n % 40) for n in range(1000)]
    whole, split = client.tokenize(texts), small.tokenize(texts)
    assert servicer.counts[0] == 1000 and len(servicer.counts) > 2 and sum(servicer.counts) == 2000
    for one, other in zip(whole, split, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype == np.uint32
    assert [len(one) for one in small.tokenize([])] == [0, 1]
    spans = small.token_spans(texts)
    np.testing.assert_array_equal(spans.tokens.ids, whole.ids)
    assert len(spans.starts) == len(spans.ends) == len(spans.special) == len(whole.ids)
    assert (spans.ends == spans.starts + 1).all() and (spans.special == (spans.starts % 2 == 0)).all()


@pytest.mark.parametrize("top_n", [0, 1, 30])
def test_documents_are_ranked_in_parts(counting: tuple[Counting, Client, Client], top_n: int) -> None:
    servicer, client, small = counting
    documents = ["x" * (n * n % 50) for n in range(1000)]
    whole = client.rerank("q", documents, model="m", top_n=top_n)
    assert len(whole) == (top_n or 1000)
    assert small.rerank("q", documents, model="m", top_n=top_n) == whole
    assert servicer.counts[0] == 1000 and len(servicer.counts) > 2
    servicer.limit = 100
    assert client.rerank("q", documents, model="m", top_n=top_n) == whole
    assert small.rerank("q", [], model="m") == []


def test_columns_of_many_queries_are_searched_in_parts(counting: tuple[Counting, Client, Client]) -> None:
    servicer, client, small = counting
    queries = np.zeros((2000, 4), np.float32)
    # The last parts have no hits, and others have hits without a payload.
    queries[:1000, 0] = np.arange(1000) % 4
    whole, split = (one.collection("c").search_columns(vectors=queries) for one in (client, small))
    assert servicer.counts[0] == 2000 and len(servicer.counts) > 2 and sum(servicer.counts) == 4000
    assert (split.ids, split.payloads) == (whole.ids, whole.payloads) and len(whole.ids) == 1500
    np.testing.assert_array_equal(split.offsets, whole.offsets)
    np.testing.assert_array_equal(split.scores, whole.scores)
    none = small.collection("c").search_columns(vectors=queries[:0])
    assert (none.offsets.tolist(), none.ids, none.payloads) == ([0], [], {})


def test_a_row_that_no_message_holds_is_named(counting: tuple[Counting, Client, Client]) -> None:
    small = counting[2]
    long = "x" * (2 * SMALL)
    with pytest.raises(MessageTooLargeError, match=r"texts\[1\]: .*\(\d+ vs. 20000\)"):
        small.tokenize(["short", long])
    with pytest.raises(MessageTooLargeError, match=r"documents\[2\]: .*\(\d+ vs. 20000\)"):
        small.rerank("q", ["a", "b", long], model="m")
    with pytest.raises(MessageTooLargeError, match=r"query cannot be split: .* expected at most 20000"):
        small.rerank(long, ["a"], model="m")
    with pytest.raises(MessageTooLargeError, match=r"texts\[0\]: .*\(\d+ vs. 20000\)"):
        small.collection("c").search_columns(texts=[long])


@pytest.fixture
def limited() -> Iterator[tuple[Limited, Collection]]:
    servicer = Limited([])
    server = grpc.server(ThreadPoolExecutor(4))
    similarity_pb2_grpc.add_SimilarityServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with Client(f"127.0.0.1:{port}", timeout=20) as client:
        yield servicer, client.collection("any")
    server.stop(None)


def test_a_daemon_with_a_smaller_limit_gets_smaller_parts(limited: tuple[Limited, Collection]) -> None:
    servicer, collection = limited
    assert collection.upsert(range(1000), vectors=np.zeros((1000, 4))) == 1000
    assert servicer.ids == list(range(1000))


def test_a_broken_stream_goes_on_at_the_first_part_without_an_answer(limited: tuple[Limited, Collection]) -> None:
    servicer, collection = limited
    servicer.failures = [grpc.StatusCode.UNAVAILABLE] * 2
    assert collection.upsert(range(1000), vectors=np.zeros((1000, 4))) == 1000
    # A part may have been written without its answer having come: then it is written again.
    assert sorted(set(servicer.ids)) == list(range(1000))
    servicer.failures, servicer.ids = [grpc.StatusCode.INVALID_ARGUMENT], []
    with pytest.raises(InvalidArgumentError):
        collection.upsert(range(1000), vectors=np.zeros((1000, 4)))


@pytest.mark.parametrize(
    ("code", "message", "sizes"),
    [
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "Received message larger than max (9 vs. 4)", (9, 4)),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "CLIENT: Sent message larger than max (70 vs. 64)", (70, 64)),
        (
            grpc.StatusCode.OUT_OF_RANGE,
            "Error, decoded message length too large: found 5 bytes, the limit is: 4 bytes",
            (5, 4),
        ),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "the response has 8 bytes, a message at most 7: ask for fewer", (8, 7)),
    ],
)
def test_messages_that_are_too_large_are_not_a_busy_daemon(
    code: grpc.StatusCode, message: str, sizes: tuple[int, int]
) -> None:
    refused = error(code, message)
    assert isinstance(refused, MessageTooLargeError) and not isinstance(refused, BusyError)
    assert (refused.size, refused.limit) == sizes
    assert isinstance(error(grpc.StatusCode.RESOURCE_EXHAUSTED, "the lane is full"), BusyError)
    assert type(error(grpc.StatusCode.OUT_OF_RANGE, "elsewhere")) is AccelerdError
