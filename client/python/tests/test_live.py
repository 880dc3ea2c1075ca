"""Against a real daemon."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest

from accelerd import (
    AccelerdError,
    AlreadyExistsError,
    Client,
    Collection,
    InvalidArgumentError,
    NotFoundError,
    Quantized,
    record_timings,
)
from accelerd._proto import embed_pb2, embed_pb2_grpc

ENCODERS = Path(__file__).resolve().parents[3] / "kernels" / "models" / "tests" / "encoders"

SNIPPETS = {
    "dates.py": "def parse_date(text): return datetime.strptime(text, '%Y-%m-%d')",
    "net.py": "def serve(port): sock = socket.socket(); sock.bind(('', port)); sock.listen()",
    "pack.py": "def compress(path): return gzip.compress(path.read_bytes())",
}


@pytest.fixture
def code(client: Client) -> Iterator[Collection]:
    collection = client.create_collection(f"python-{uuid.uuid4().hex}", model="builtin")
    yield collection
    collection.delete()


def filled(code: Collection) -> Collection:
    payloads = [{"path": path, "line": line, "test": False} for line, path in enumerate(SNIPPETS, 1)]
    assert code.upsert([1, 2, 3], texts=list(SNIPPETS.values()), payloads=payloads) == 3
    return code


def test_embeddings_are_unit_rows_and_the_same_through_tokens(client: Client) -> None:
    texts = list(SNIPPETS.values())
    vectors = client.embed(texts)
    assert vectors.dtype == np.float32 and vectors.shape == (3, client.models()[0].dimensions)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(client.embed_tokens(client.tokenize(texts)), vectors)


def test_vectors_come_in_smaller_numbers_and_bad_choices_are_named(client: Client) -> None:
    texts = list(SNIPPETS.values())
    vectors = client.embed(texts)
    quantized = client.embed(texts, output="int8")
    assert isinstance(quantized, Quantized) and quantized.values.dtype == np.int8
    np.testing.assert_allclose(
        quantized.values * quantized.scales[:, None], vectors, atol=float(quantized.scales.max())
    )
    np.testing.assert_array_equal(client.embed(texts, output="binary"), np.packbits(vectors > 0, axis=1))
    with pytest.raises(ValueError, match="expected one of"):
        client.embed(texts, pooling="median")
    with pytest.raises(InvalidArgumentError):
        client.embed(texts, pooling="cls")
    with pytest.raises(AccelerdError, match=r"models\.hub\.allow"):
        client.load_model("hub", "hf://someone/something")
    with pytest.raises(NotFoundError):
        client.unload_model("hub")
    for call in (client.embed, client.tokenize):
        with pytest.raises(ValueError, match=r"texts\[1\]: lone surrogate at index 6"):
            call(["whole", "half: \ud83d"])
    assert client.embed([""]).shape == (1, 256)


def test_tokens_have_spans_of_bytes_and_say_which_are_special(client: Client) -> None:
    client.load_model("spans", str(ENCODERS / "bert"))
    texts = ["é defs", "", "漢 a"]
    tokens, starts, ends, special = client.token_spans(texts, model="spans")
    for one, other in zip(tokens, client.tokenize(texts, model="spans"), strict=True):
        np.testing.assert_array_equal(one, other)
    assert tokens.offsets.tolist() == [0, 5, 7, 11]
    encoded = [text.encode() for text, count in zip(texts, np.diff(tokens.offsets), strict=True) for _ in range(count)]
    spans = [text[start:end].decode() for text, start, end in zip(encoded, starts, ends, strict=True)]
    assert spans == ["", "é", "def", "s", "", "", "", "", "漢", "a", ""]
    assert np.flatnonzero(special).tolist() == [0, 4, 5, 6, 7, 10]
    client.unload_model("spans")
    assert client.token_spans([]).special.dtype == np.bool_
    # The built-in model has no special tokens.
    code = "x = naïveStraße2(HTTPServer)"
    words = client.token_spans([code])
    assert not words.special.any() and words.ends[-1] == len(code.encode()) - 1 and (words.ends > words.starts).all()


def test_a_stream_answers_every_batch_by_number_and_a_bad_one_fails_alone(client: Client) -> None:
    batches = [[f"def f{n}(): return {n}", "pass"] for n in range(30)]
    batches[4] = []
    outcomes = {outcome.sequence: outcome for outcome in client.embed_stream(iter(batches), dimensions=64)}
    assert sorted(outcomes) == list(range(30))
    assert isinstance(outcomes[4].error, InvalidArgumentError) and outcomes[4].vectors is None
    np.testing.assert_array_equal(outcomes[29].vectors, client.embed(batches[29], dimensions=64))
    with pytest.raises(ValueError, match="expected one of"):
        list(client.embed_stream([["a"]], pooling="median"))
    with pytest.raises(ValueError, match=r"texts\[0\]: lone surrogate"):
        list(client.embed_stream([["a"], ["half a character: \ud83d"]]))


@pytest.mark.skipif("ACCELERD_SERVER" in os.environ, reason="a daemon that may load no model from here")
def test_an_empty_text_has_the_vector_of_the_tokens_that_the_model_adds(client: Client) -> None:
    assert not client.embed([""]).any() and not client.tokenize([""]).ids.size
    client.load_model("empties", str(ENCODERS / "bert"))
    added = client.tokenize([""], model="empties")
    assert added.ids.size == 2
    vector = client.embed([""], model="empties")
    assert vector.any()
    np.testing.assert_array_equal(vector, client.embed_tokens(added, model="empties"))
    client.unload_model("empties")


@pytest.mark.skipif("ACCELERD_SERVER" in os.environ, reason="a daemon that may load no model from here")
def test_documents_come_best_first_by_a_cross_encoder(client: Client) -> None:
    client.load_model("ranks", str(ENCODERS / "reranker-bert"))
    expected = json.loads((ENCODERS / "reranker-bert" / "expected.json").read_text())
    documents, logits = expected["documents"], expected["logits"]
    ranked = client.rerank(expected["query"], documents, model="ranks")
    assert [result.index for result in ranked] == sorted(
        range(len(documents)), key=lambda at: (-round(logits[at], 4), at)
    )
    np.testing.assert_allclose(
        [result.score for result in ranked], [logits[result.index] for result in ranked], atol=2e-4
    )
    assert client.rerank(expected["query"], documents, model="ranks", top_n=2) == ranked[:2]
    with pytest.raises(InvalidArgumentError, match="query"):
        client.rerank("", documents, model="ranks")
    with pytest.raises(InvalidArgumentError, match="Rerank"):
        client.embed(documents, model="ranks")
    with pytest.raises(TypeError):
        client.rerank("a", "one text", model="ranks")
    client.unload_model("ranks")


def test_words_count_as_well_as_vectors_where_a_field_has_them(client: Client) -> None:
    collection = client.create_collection("words", model="builtin", text_field="text")
    texts = {1: "open a socket", 2: "the frobnicate of a stream", 3: "listen for tcp connections"}
    collection.upsert(texts, texts=list(texts.values()), payloads=[{"text": text} for text in texts.values()])
    (hits,) = collection.search(texts=["frobnicate tcp"], k=2, hybrid=True, fusion="reciprocal_rank")
    assert {hit.id for hit in hits} == {2, 3} and hits[0].score < 1 / 61
    (hits,) = collection.search(texts=["frobnicate"], k=3, hybrid=True, text_weight=1)
    assert [(hit.id, hit.score) for hit in hits] == [(2, 1)]
    with pytest.raises(InvalidArgumentError, match="text_weight"):
        collection.search(texts=["frobnicate"], hybrid=True, text_weight=2)
    with pytest.raises(ValueError, match="relative_score"):
        collection.search(texts=["frobnicate"], hybrid=True, fusion="sum")
    with pytest.raises(ValueError, match="hybrid"):
        collection.search(texts=["frobnicate"], text_weight=0.5)
    with pytest.raises(InvalidArgumentError, match="hybrid"):
        collection.search(ids=[1], hybrid=True)
    collection.delete()


def test_texts_of_a_collection_have_its_prompts_or_those_of_a_call(client: Client) -> None:
    collection = client.create_collection(
        f"python-{uuid.uuid4().hex}", model="builtin", document_prompt="read ", query_prompt="write "
    )
    info = collection.describe()
    assert (info.document_prompt, info.document_prompt_name) == ("read ", "")
    assert (info.query_prompt, info.query_prompt_name) == ("write ", "")
    collection.upsert([1], texts=["a file"])
    collection.upsert([2], texts=["a file"], prompt="write ")
    assert [*collection.upsert_many([{"ids": [3], "texts": ["a file"], "prompt": ""}])] == [1]
    prompts = {1: "read ", 2: "write ", 3: ""}
    for point in collection.get([1, 2, 3], vectors=True):
        np.testing.assert_array_equal(point.vector, client.embed(["a file"], prompt=prompts[int(point.id)])[0])
    assert collection.search(texts=["a file"], k=1)[0][0].id == 2
    assert collection.search(texts=["a file"], k=1, prompt="read ")[0][0].id == 1
    assert collection.search_columns(texts=["a file"], k=1, prompt="").ids == [3]
    with pytest.raises(InvalidArgumentError, match=r'prompt_name: "builtin" has no prompts, got "query"'):
        collection.search(texts=["a file"], prompt_name="query")
    with pytest.raises(InvalidArgumentError, match="document_prompt_name"):
        client.create_collection("prompted", model="builtin", document_prompt_name="passage")
    with pytest.raises(InvalidArgumentError, match="prompt: expected none with vectors"):
        collection.search(vectors=[[0.5] * 256], prompt="read ")
    with pytest.raises(InvalidArgumentError, match="prompt: expected none with prompt_name, got both"):
        client.embed(["a file"], prompt="read ", prompt_name="query")
    collection.delete()
    plain = client.create_collection(f"python-{uuid.uuid4().hex}", model="builtin")
    assert plain.describe().document_prompt is None and plain.describe().query_prompt is None
    plain.delete()


def test_similar_rows_are_those_numpy_finds(client: Client) -> None:
    random = np.random.default_rng(7)
    queries, corpus = random.standard_normal((5, 33)), random.standard_normal((200, 33))
    similar = client.find_similar(queries, corpus, 4, metric="dot")
    exact = queries.astype(np.float32).astype(np.float64) @ corpus.astype(np.float32).astype(np.float64).T
    expected = np.argsort(-exact, axis=1, kind="stable")[:, :4]
    np.testing.assert_array_equal(similar.indices, expected)
    np.testing.assert_allclose(similar.scores, np.take_along_axis(exact, expected, 1), rtol=1e-5)


def test_a_threshold_leaves_rows_out(client: Client) -> None:
    similar = client.find_similar([1.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], 2, threshold=0.5)
    assert similar.indices.tolist() == [[0, -1]] and np.isnan(similar.scores[0, 1])


def test_search_finds_by_meaning_and_filters(code: Collection) -> None:
    filled(code)
    found = code.search(texts=["wait for connections on a socket", "make a file smaller"], k=1)
    assert [hits[0].payload["path"] for hits in found] == ["net.py", "pack.py"]
    only = code.search(texts=["socket"], where={"path": ["dates.py", "pack.py"], "line": slice(1, 3), "test": False})
    assert [hit.payload["path"] for hit in only[0]] == ["dates.py"]
    assert code.search(ids=[2], k=1)[0][0].id == 2
    assert code.search(vectors=code.get([3], vectors=True)[0].vector, k=1)[0][0].id == 3


def test_points_are_read_and_deleted(code: Collection) -> None:
    filled(code)
    points = code.get([3, 99, 1])
    assert [point.id for point in points] == [3, 1]
    assert points[0].payload == {"path": "pack.py", "line": 3, "test": False}
    assert code.delete_points([1, 99]) == 1
    assert code.delete_points(where={"path": "net.py"}) == 1
    assert code.describe().point_count == 1


def test_steps_of_a_stream_are_answered_one_by_one(client: Client) -> None:
    collection = client.create_collection(f"python-{uuid.uuid4().hex}", dimensions=2)
    try:
        steps = [{"ids": [str(uuid.uuid4())], "vectors": [[float(n), 1.0]]} for n in range(3)]
        assert list(collection.upsert_many(steps)) == [1, 1, 1]
        with pytest.raises(InvalidArgumentError):
            list(collection.upsert_many([{"ids": [str(uuid.uuid4())], "vectors": [[1.0, 2.0, 3.0]]}]))
        clusters = client.cluster(collection, 3)
        assert sorted(clusters.assignments.tolist()) == [0, 1, 2] and len(clusters.ids) == 3
    finally:
        collection.delete()


def test_clusters_separate_what_is_apart(client: Client) -> None:
    random = np.random.default_rng(3)
    rows = np.concatenate([random.normal(center, 0.1, (50, 8)) for center in (-5, 0, 5)])
    clusters = client.cluster(rows, 3, seed=1)
    assert [len(set(part.tolist())) for part in np.split(clusters.assignments, 3)] == [1, 1, 1]
    assert clusters.converged and clusters.centers.shape == (3, 8)


def test_a_snapshot_can_be_restored(code: Collection, client: Client) -> None:
    filled(code)
    snapshot = code.snapshot()
    restored = client.restore_collection(snapshot.url, f"{code.name}-again")
    try:
        assert restored.describe().point_count == 3
    finally:
        restored.delete()


def test_refusals_have_their_classes_and_name_the_field(client: Client, code: Collection) -> None:
    with pytest.raises(NotFoundError):
        client.collection("nowhere").describe()
    with pytest.raises(AlreadyExistsError):
        client.create_collection(code.name, dimensions=2)
    with pytest.raises(InvalidArgumentError) as refused:
        client.find_similar([[1.0, 2.0]], [[1.0, 2.0, 3.0]], 1)
    assert refused.value.violations


def test_the_daemon_says_what_it_runs_on(client: Client) -> None:
    assert client.devices()[-1].name == "cpu"
    assert client.stats().version


MIXED = [
    {"s": "a", "n": 1, "f": 0.5, "b": True, "same": "x"},
    {"s": "é\u2028\U0001f600", "n": -(1 << 63), "f": -1e300, "b": False, "same": "x"},
    {},
    {"s": "", "n": (1 << 63) - 1, "f": 2, "same": "y"},
    {"s": 5, "n": "text", "f": False, "same": "x", "only here": 1.25},
]


def test_payloads_come_back_as_they_were_written(client: Client) -> None:
    collection = client.create_collection(f"python-{uuid.uuid4().hex}", dimensions=2)
    try:
        rows = np.eye(5, 2, dtype=np.float32)
        collection.upsert(range(5), vectors=rows, payloads=MIXED)
        points = collection.get(range(5))
        assert [point.payload for point in points] == MIXED
        assert [{name: type(value) for name, value in one.payload.items()} for one in points] == [
            {name: type(value) for name, value in one.items()} for one in MIXED
        ]
        columns = {
            "n": np.arange(5, dtype=np.int16),
            "u": np.arange(5, dtype=np.uint8),
            "f": np.arange(5, dtype=np.float32) / 2,
            "b": np.arange(5) % 2 == 0,
            "s": np.array(["a", "b", "a", "a", "é"]),
            "some": [None, "x", 3, None, np.float64(0.5)],
        }
        collection.upsert(range(5), vectors=rows, payloads=columns)
        read = [point.payload for point in collection.get(range(5))]
        assert read[1] == {"n": 1, "u": 1, "f": 0.5, "b": False, "s": "b", "some": "x"}
        assert read[3] == {"n": 3, "u": 3, "f": 1.5, "b": False, "s": "a"} and read[4]["some"] == 0.5
        (page,) = collection.scroll_columns()
        assert page.payloads["some"] == [None, "x", 3, None, 0.5] and page.vectors is None
        hits = collection.search_columns(vectors=rows[:2], k=2)
        assert hits.offsets.tolist() == [0, 2, 4] and len(hits.ids) == len(hits.scores) == len(hits.payloads["s"]) == 4
        assert [one.id for query in collection.search(vectors=rows[:2], k=2) for one in query] == hits.ids
    finally:
        collection.delete()


@pytest.mark.parametrize("kind", ["int", "numpy", "range", "uuid", "text"])
def test_ids_of_every_kind_are_written_found_and_deleted(client: Client, kind: str) -> None:
    uuids = [uuid.UUID(int=n << 100 | n) for n in range(6)]
    given = {
        "int": [0, 1, 2, 3, 4, (1 << 64) - 1],
        "numpy": np.arange(6, dtype=np.int32),
        "range": range(10, 70, 10),
        "uuid": uuids,
        "text": [str(one).upper() for one in uuids],
    }[kind]
    expected = [str(one).lower() if isinstance(one, (uuid.UUID, str)) else int(one) for one in given]
    collection = client.create_collection(f"python-{uuid.uuid4().hex}", dimensions=2)
    try:
        assert collection.upsert(given, vectors=np.eye(6, 2)) == 6
        assert [point.id for point in collection.scroll(page_size=4)] == expected
        assert [point.id for point in collection.get(given[:2])] == expected[:2]
        assert collection.search(ids=given[1:2], k=1)[0][0].id == expected[1]
        assert collection.delete_points(given[:2]) == 2
        assert collection.count() == 4
        assert sorted(map(str, client.cluster(collection, 2).ids)) == sorted(map(str, expected[2:]))
    finally:
        collection.delete()


def test_points_are_counted_and_scrolled_by_a_filter(client: Client, code: Collection) -> None:
    filled(code)
    assert (code.count(), code.count(where={"line": slice(2, None)}), code.count(where_not={"path": "net.py"})) == (
        3,
        2,
        2,
    )
    assert [point.payload["path"] for point in code.scroll(where={"line": [1, 3]})] == ["dates.py", "pack.py"]
    assert [point.payload for point in code.scroll(payload=False, page_size=2)] == [{}, {}, {}]
    assert list(code.scroll(where={"path": "nowhere"})) == []
    with pytest.raises(NotFoundError):
        list(client.collection("nowhere").scroll())


def test_answers_are_plain_types(client: Client, code: Collection) -> None:
    filled(code)
    described = code.describe()
    assert (described.metric, described.model, described.point_count, described.durable) == (
        "cosine",
        "builtin",
        3,
        True,
    )
    assert described.create_time.tzinfo is not None and described in client.collections()
    assert (described.read_only, described.damage) == (False, ())
    assert (described.set_aside_count, described.set_aside_ids) == (0, ())
    builtin = next(model for model in client.models() if model.name == "builtin")
    assert builtin.accepts_text and builtin.dimensions in builtin.supported_dimensions and builtin.pooling == "mean"
    (cpu,) = [device for device in client.devices() if device.name == "cpu"]
    assert (cpu.kind, cpu.state) == ("cpu", "ready")
    stats = client.stats()
    assert stats.uptime.total_seconds() > 0 and {lane.name for lane in stats.lanes} >= {"embed", "parse"}
    assert stats.admission.limit_bytes > 0
    assert stats.cpu_fallbacks == ()
    (host,) = [place for place in stats.memory if place.name == "host"]
    held = {account.kind: account.held_bytes for account in host.accounts}
    assert held["collections"] > 0 and held["messages"] > 0
    assert sum(held.values()) == host.held_bytes <= host.limit_bytes
    used = {account.kind: account.used_bytes for account in host.accounts}
    assert sum(used.values()) == host.used_bytes and used["collections"] == held["collections"]
    assert 0 < used["messages"] < held["messages"], "most of what is reserved for calls is not in use"
    assert host.resident_bytes > 0


def test_texts_may_come_from_any_iterable(client: Client) -> None:
    texts = ["a", "b"]
    for given in (iter(texts), tuple(texts), np.array(texts), dict.fromkeys(texts)):
        np.testing.assert_array_equal(client.embed(given), client.embed(texts))


def test_the_daemon_says_where_time_went(client: Client) -> None:
    with record_timings() as timings:
        client.embed(["a", "b"])
        list(client.embed_stream([["a"], ["b"]]))
    assert [timing.method for timing in timings] == ["Embed", "EmbedStream"]
    assert timings[0].stages["total"] > 0 and timings[0].seconds >= timings[0].stages["total"]


def test_plain_stubs_with_the_documented_options_get_no_compressed_answers(server: str) -> None:
    options = [("grpc.compression_enabled_algorithms_bitset", 1), ("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(server, options=options) as channel:
        stub = embed_pb2_grpc.EmbedServiceStub(channel)
        answer, call = stub.Embed.with_call(embed_pb2.EmbedRequest(texts={"values": ["a"] * 9000}))
        assert len(answer.embeddings.data) == 9000 * 1024
        assert "grpc-encoding" not in dict(call.initial_metadata())


def test_lists_of_addresses_work(server: str) -> None:
    for target in (f"ipv4:{server},{server}", [server, server], f"{server},{server}"):
        with Client(target, timeout=30) as client:
            assert client.devices()[-1].name == "cpu"


def test_queries_that_exceed_a_message_are_searched_in_parts(server: str, client: Client) -> None:
    rows = np.random.default_rng(5).standard_normal((600, 16), dtype=np.float32)
    name = f"split-{uuid.uuid4().hex}"
    collection = client.create_collection(name, dimensions=16)
    try:
        collection.upsert(range(600), vectors=rows, payloads={"n": np.arange(600)})
        with Client(server, timeout=30, max_message_bytes=20_000) as small:
            found = small.collection(name).search(vectors=rows, k=2)
            assert [hits[0].id for hits in found] == list(range(600)) and found == collection.search(vectors=rows, k=2)
            by_id = small.collection(name).search(ids=iter(range(600)), k=1, payload=False)
            assert [hits[0].id for hits in by_id] == list(range(600))
            assert small.collection(name).search(vectors=rows[:0]) == [] == small.collection(name).search(ids=[])
    finally:
        collection.delete()
