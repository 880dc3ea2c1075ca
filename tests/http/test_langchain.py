"""The adapters for LangChain: its standard tests, and what applications do with them."""

from __future__ import annotations

import asyncio
import pickle
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from accelerd import AccelerdError, Client, InvalidArgumentError
from accelerd.langchain import AccelerdEmbeddings, AccelerdRerank, AccelerdVectorStore
from conftest import DOCUMENTS, RERANKER, Daemon
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import EmbeddingsIntegrationTests, VectorStoreIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests

FAKE = DeterministicFakeEmbedding(size=6)
PLAIN = ["a b c", "def the", "c b a"]


class TestEmbeddingsUnit(EmbeddingsUnitTests):
    @property
    def embeddings_class(self) -> type[Embeddings]:
        return AccelerdEmbeddings


class TestEmbeddings(EmbeddingsIntegrationTests):
    @pytest.fixture(autouse=True)
    def _address(self, daemon: Daemon) -> None:
        self._client = daemon.grpc

    @property
    def embeddings_class(self) -> type[Embeddings]:
        return AccelerdEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, Any]:
        return {"client": self._client}


class TestVectorStore(VectorStoreIntegrationTests):
    """A store with embeddings of LangChain."""

    @pytest.fixture
    def vectorstore(self, daemon: Daemon) -> Iterator[VectorStore]:
        store = AccelerdVectorStore(f"t-{uuid.uuid4()}", self.get_embeddings(), client=daemon.grpc)
        yield store
        store.delete()


class TestVectorStoreOfModel(VectorStoreIntegrationTests):
    """A store for which the daemon embeds."""

    @pytest.fixture
    def vectorstore(self, daemon: Daemon) -> Iterator[VectorStore]:
        store = AccelerdVectorStore(f"t-{uuid.uuid4()}", client=daemon.grpc)
        yield store
        store.delete()


@pytest.fixture
def store(daemon: Daemon) -> Iterator[AccelerdVectorStore]:
    store = AccelerdVectorStore(f"t-{uuid.uuid4()}", FAKE, client=daemon.grpc)
    yield store
    store.delete()


METADATA: list[dict[str, Any] | None] = [
    {"n": 1, "name": "a", "on": True, "when": "2024-01-01", "tags": ["x", "y"]},
    {"n": 2.5, "name": "b", "on": False, "when": "2024-06-01T12:00:00Z", "deep": {"er": {"n": 7}}},
    {"n": -3, "name": "é 漢", "none": None, "text": "reserved", "_id": "also", "": 0},
    None,
]


@pytest.fixture
def filled(store: AccelerdVectorStore) -> AccelerdVectorStore:
    store.add_texts(["zero", "one", "two", "three"], METADATA, ids=["0", "1", "2", "3"])
    return store


def ids(found: Any) -> list[str]:
    return sorted(document.id for document in found)


FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["0", "1", "2", "3"]),
    ({"n": 1}, ["0"]),
    ({"n": True}, []),
    ({"on": True}, ["0"]),
    ({"n": np.int64(1)}, ["0"]),
    ({"name": {"$ne": "a"}}, ["1", "2", "3"]),
    ({"n": {"$gt": 1}}, ["1"]),
    ({"n": {"$gte": 1}}, ["0", "1"]),
    ({"n": {"$lt": 1}}, ["2"]),
    ({"n": {"$lte": 1}}, ["0", "2"]),
    ({"n": {"$gt": -3, "$lt": 2.5}}, ["0"]),
    ({"name": {"$in": ["a", "é 漢", "z"]}}, ["0", "2"]),
    ({"name": {"$in": []}}, []),
    ({"name": {"$in": ["a", None]}}, ["0", "3"]),
    ({"name": {"$nin": ["a"]}}, ["1", "2", "3"]),
    ({"missing": 1}, []),
    ({"missing": {"$ne": 1}}, ["0", "1", "2", "3"]),
    ({"none": None}, ["0", "1", "2", "3"]),
    ({"name": {"$exists": False}}, ["3"]),
    ({"name": {"$exists": True}, "n": {"$lt": 2}}, ["0", "2"]),
    ({"tags": {"$contains": "x"}}, ["0"]),
    ({"deep.er.n": 7}, ["1"]),
    ({"deep.er.n": {"$exists": True}}, ["1"]),
    ({"text": "reserved"}, ["2"]),
    ({"_id": {"$in": ["also"]}}, ["2"]),
    ({"when": {"$gt": "2024-01-01"}}, ["1"]),
    ({"when": {"$lte": "2024-01-01T00:00:00+00:00"}}, ["0"]),
    ({"$or": [{"n": 1}, {"name": "b"}]}, ["0", "1"]),
    ({"$or": [{"n": {"$gte": 1}}, {"name": "b"}], "on": False}, ["1"]),
    ({"$and": [{"n": {"$gte": 1}}, {"n": {"$ne": 1}}]}, ["1"]),
    ({"$not": {"$or": [{"n": 1}, {"tags": {"$exists": True}}, {"name": "b"}]}}, ["2", "3"]),
    ({"n": {"$not": {"$gte": 1}}}, ["2", "3"]),
]


@pytest.mark.parametrize(("where", "expected"), FILTERS)
def test_a_filter_selects(filled: AccelerdVectorStore, where: dict[str, Any], expected: list[str]) -> None:
    assert ids(filled.similarity_search("one", 10, filter=where)) == expected
    assert ids(asyncio.run(filled.asimilarity_search("one", 10, filter=where))) == expected


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ({"n": {"$near": 1}}, r"filter\['n'\]: expected one of \$eq, .*, got '\$near'"),
        ({"$nor": [{"n": 1}]}, r"expected \$and, \$or, \$not or a key of the metadata, got '\$nor'"),
        ({"n": {}}, r"filter\['n'\]: expected a value, or a dict of operators"),
        ({"$or": []}, r"filter\['\$or'\]: expected at least one filter"),
        ({"n": [1, 2]}, r"filter\['n'\]: expected a str, int, float, bool or None to compare with"),
        ({"n": {"$in": "abc"}}, r"filter\['n'\]: expected a list of values"),
        ({"n": {"$gt": "b"}}, r"filter\['n'\] >: expected a number or a date as of ISO 8601, got 'b'"),
        ({"n": {"$gt": float("nan")}}, "got NaN"),
        ({"n": float("nan")}, r"filter\['n'\]: expected a str, int"),
        ("n = 1", "filter: expected a dict of metadata to conditions, got str"),
        ({"$and": [{"$or": [{str(a): b} for b in range(9)]} for a in range(2)]}, "expected at most 64 alternatives, got 81"),
    ],
)
def test_a_filter_that_cannot_be_translated_is_an_error(store: AccelerdVectorStore, where: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        store.similarity_search("one", filter=where)


def test_metadata_of_any_kind_comes_back(filled: AccelerdVectorStore) -> None:
    for document, expected in zip(filled.get_by_ids(["0", "1", "2", "3"]), METADATA, strict=True):
        assert document.metadata == (expected or {})
    given = {"i": np.int32(3), "f": np.float32(0.5), "b": np.bool_(True), "a": np.arange(2), "t": (1, "x"), "big": 1 << 70}
    filled.add_texts(["numbers"], [given], ids=["numpy"])
    (found,) = filled.get_by_ids(["numpy"])
    assert found.metadata == {"i": 3, "f": 0.5, "b": True, "a": [0, 1], "t": [1, "x"], "big": 1 << 70}
    assert ids(filled.similarity_search("x", 9, filter={"i": 3, "b": True})) == ["numpy"]
    with pytest.raises(TypeError, match=r"metadata\['when'\]: expected a value of JSON.*got object"):
        filled.add_texts(["a"], [{"when": object()}])
    with pytest.raises(TypeError, match="metadata: expected keys of type str, got int 1"):
        filled.add_texts(["a"], [{1: "a"}])  # type: ignore[dict-item]
    assert "reserved" not in filled.get_by_ids(["2"])[0].page_content


def test_ids_are_any_text_and_stable(store: AccelerdVectorStore) -> None:
    given = ["42", "042", "é/漢 🎉", "A" * 500, str(uuid.uuid4()), str(uuid.uuid4()).upper()]
    assert store.add_texts(given, ids=given) == given
    assert [(one.id, one.page_content) for one in store.get_by_ids(given)] == [(id, id) for id in given]
    other = AccelerdVectorStore(store._settings.name, FAKE, client=store._clients.blocking)
    other.add_texts(["again"], ids=["042"])
    assert len(store.similarity_search("x", 100)) == len(given)
    assert store.get_by_ids(["042"])[0].page_content == "again"
    store.delete(["42", "unknown"])
    assert ids(store.similarity_search("x", 100)) == sorted(given[1:])
    store.delete([])
    assert ids(store.similarity_search("x", 100)) == sorted(given[1:])


def test_empty_lists_and_duplicates(store: AccelerdVectorStore) -> None:
    assert store.add_texts([]) == store.add_documents([]) == store.get_by_ids([]) == []
    assert store.get_by_ids(["a"]) == [] and store.delete(["a"])
    # Of equal ids in a batch the last stays, as if they were added one after another.
    assert store.add_texts(["first", "second"], ids=["a", "a"]) == ["a", "a"]
    assert [one.page_content for one in store.get_by_ids(["a", "a", "b"])] == ["second"]
    assert store.similarity_search("x", k=0) == []
    with pytest.raises(ValueError, match="k: expected at least 0, got -1"):
        store.similarity_search("x", k=-1)
    with pytest.raises(ValueError, match="metadatas: expected 1, one per text, got 2"):
        store.add_texts(["a"], [{}, {}])
    with pytest.raises(ValueError, match="ids: expected 2, one per text, got 1"):
        store.add_texts(["a", "b"], ids=["a"])


def test_a_very_long_text_is_stored_or_refused_by_name(store: AccelerdVectorStore) -> None:
    store.add_texts(["x" * 60_000], ids=["long"])
    assert len(store.get_by_ids(["long"])[0].page_content) == 60_000
    with pytest.raises(InvalidArgumentError, match="payloads"):
        store.add_texts(["x" * 70_000])


def test_an_unknown_model_is_an_error(daemon: Daemon) -> None:
    store = AccelerdVectorStore(f"t-{uuid.uuid4()}", client=daemon.grpc, model="nobody")
    assert store.similarity_search("a") == []
    with pytest.raises(AccelerdError, match="nobody"):
        store.add_texts(["a"])


def test_points_of_other_programs_are_documents(client: Client) -> None:
    numbers, uuids = (client.create_collection(f"t-{uuid.uuid4()}", dimensions=6) for _ in range(2))
    vectors = FAKE.embed_documents(["a", "b"])
    numbers.upsert([7, 1 << 63], vectors=vectors, payloads=[{"text": "seven", "n": 1}, {"n": 2}])
    store = AccelerdVectorStore(numbers.name, FAKE, client=client)
    assert [(one.id, one.page_content, one.metadata) for one in store.similarity_search("a", 1)] == [("7", "seven", {"n": 1})]
    assert ids(store.get_by_ids(["7", str(1 << 63), "9", "x", "９", "1" * 5000])) == ["7", str(1 << 63)]
    store.delete(["7"])
    assert numbers.count() == 1
    with pytest.raises(InvalidArgumentError, match="the collection's ids are numbers"):
        store.add_texts(["c"])
    point = str(uuid.uuid4())
    uuids.upsert([point], vectors=vectors[:1], payloads=[{"title": "t"}])
    assert AccelerdVectorStore(uuids.name, FAKE, client=client).get_by_ids([point])[0].metadata == {"title": "t"}
    numbers.delete()
    uuids.delete()


@pytest.mark.parametrize("metric", ["cosine", "dot", "squared_l2"])
def test_scores_and_relevance(daemon: Daemon, metric: Any) -> None:
    store = AccelerdVectorStore(f"t-{uuid.uuid4()}", FAKE, client=daemon.grpc, metric=metric)
    store.add_texts(["a", "b", "c"], ids=["a", "b", "c"])
    found = store.similarity_search_with_score("b", 3)
    a, b = (np.array(FAKE.embed_query(text)) for text in ("a", "b"))
    cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    expected = {"cosine": cosine, "dot": a @ b, "squared_l2": ((a - b) ** 2).sum()}[metric]
    scores = {document.id: score for document, score in found}
    assert found[0][0].id == ("b" if metric != "dot" else found[0][0].id)
    assert scores["a"] == pytest.approx(expected, rel=1e-4)
    relevant = store._similarity_search_with_relevance_scores("b", 3)
    assert [score for _, score in relevant] == sorted((score for _, score in relevant), reverse=True)
    assert asyncio.run(store._asimilarity_search_with_relevance_scores("b", 3)) == relevant
    # Alternatives are searches of their own, which are merged by score.
    either = {"$or": [{"n": {"$exists": False}}, {"n": 1}]}
    assert [document.id for document in store.similarity_search("b", 2, filter=either)] == [
        document.id for document, _ in found[:2]
    ]
    store.delete()


def test_checks_of_the_client_find_what_is_far(store: AccelerdVectorStore) -> None:
    texts = [f"text {at}" for at in range(300)]
    order = [one.id for one in (store.add_texts(texts, ids=texts), store.similarity_search("text 0", 300))[1]]
    store.add_texts([order[-1]], [{"tags": ["rare"]}], ids=[order[-1]])
    assert ids(store.similarity_search("text 0", 2, filter={"tags": {"$contains": "rare"}})) == [order[-1]]


def test_max_marginal_relevance(store: AccelerdVectorStore, daemon: Daemon) -> None:
    assert store.max_marginal_relevance_search("a") == []
    store.add_texts(["a", "a", "b", "c"], ids=["1", "2", "3", "4"])
    chosen = store.max_marginal_relevance_search("a", k=2, lambda_mult=0.1)
    assert [one.page_content for one in chosen][0] == "a" and chosen[1].page_content != "a"
    assert asyncio.run(store.amax_marginal_relevance_search("a", k=2, lambda_mult=0.1)) == chosen
    model = AccelerdVectorStore(f"t-{uuid.uuid4()}", client=daemon.grpc, model="bert")
    assert model.max_marginal_relevance_search("a") == []
    model.add_texts(PLAIN)
    # With the collection's prompt for queries, as a search by text.
    nearest = model.similarity_search(PLAIN[0], 1)
    assert model.max_marginal_relevance_search(PLAIN[0], k=1) == nearest
    assert asyncio.run(model.amax_marginal_relevance_search(PLAIN[0], k=1)) == nearest
    model.delete()


def test_hybrid_search(daemon: Daemon) -> None:
    store = AccelerdVectorStore(f"t-{uuid.uuid4()}", client=daemon.grpc, hybrid=True)
    store.add_texts(["open a socket", "compress a file"], [{"n": 1}, {"n": 2}])
    found = store.similarity_search("socket", 1, hybrid=True, text_weight=1.0, filter={"n": {"$lt": 5}})
    assert [one.page_content for one in found] == ["open a socket"]
    with pytest.raises(ValueError, match="a hybrid search ranks within a filter"):
        store.similarity_search("socket", 1, hybrid=True, filter={"$or": [{"n": 1}, {"n": 2}]})
    store.delete()


def test_a_store_survives_event_loops_and_pickling(store: AccelerdVectorStore, recwarn: pytest.WarningsRecorder) -> None:
    for at in range(3):
        asyncio.run(store.aadd_documents([Document(page_content=str(at), id=str(at))]))

    async def many() -> list[Any]:
        return await asyncio.gather(*(store.asimilarity_search(str(at % 3), 1) for at in range(20)))

    assert [found[0].id for found in asyncio.run(many())] == [str(at % 3) for at in range(20)]
    copy = pickle.loads(pickle.dumps(store))
    assert ids(copy.similarity_search("x", 9)) == ids(asyncio.run(copy.asimilarity_search("x", 9))) == ["0", "1", "2"]
    assert [str(one.message) for one in recwarn if issubclass(one.category, ResourceWarning)] == []


def test_retrievers_and_from_texts(daemon: Daemon) -> None:
    name = f"t-{uuid.uuid4()}"
    store = AccelerdVectorStore.from_texts(
        ["a", "b"], FAKE, [{"n": 1}, {"n": 2}], ids=["a", "b"], collection_name=name, client=daemon.grpc
    )
    retriever = store.as_retriever(search_kwargs={"k": 5, "filter": {"n": 2}})
    assert ids(retriever.invoke("a")) == ids(asyncio.run(retriever.ainvoke("a"))) == ["b"]
    by_score = store.as_retriever(search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.99})
    assert ids(by_score.invoke("a")) == ["a"]
    again = asyncio.run(AccelerdVectorStore.afrom_texts(["c"], FAKE, ids=["c"], collection_name=name, client=daemon.grpc))
    assert ids(again.similarity_search("a", 9)) == ["a", "b", "c"]
    store.delete()


def test_embeddings_have_the_bits_of_the_client(daemon: Daemon, client: Client) -> None:
    embeddings = AccelerdEmbeddings(daemon.grpc, model="bert", document_prompt="d: ", query_prompt="q: ", dimensions=8)
    expected = client.embed(PLAIN, model="bert", prompt="d: ", dimensions=8).tolist()
    assert embeddings.embed_documents(PLAIN) == asyncio.run(embeddings.aembed_documents(PLAIN)) == expected
    (query,) = client.embed(["a b"], model="bert", prompt="q: ", dimensions=8).tolist()
    assert embeddings.embed_query("a b") == asyncio.run(embeddings.aembed_query("a b")) == query
    assert pickle.loads(pickle.dumps(embeddings)).embed_documents([]) == []


def test_the_reranker_orders_documents(daemon: Daemon, client: Client) -> None:
    reranker = AccelerdRerank(daemon.grpc, model=RERANKER, top_n=2)
    documents = [Document(page_content=text, metadata={"at": at}) for at, text in enumerate(DOCUMENTS)]
    expected = [(one.index, one.score) for one in client.rerank("a b c", DOCUMENTS, model=RERANKER, top_n=2)]
    found = reranker.compress_documents(documents, "a b c")
    assert [(one.metadata["at"], one.metadata["relevance_score"]) for one in found] == expected
    assert asyncio.run(reranker.acompress_documents(documents, "a b c")) == found
    assert reranker.compress_documents([], "a b c") == []
    assert "relevance_score" not in documents[expected[0][0]].metadata
    with pytest.raises(ValueError, match="top_k"):
        AccelerdRerank(daemon.grpc, model=RERANKER, top_k=2)
