"""The adapters for Haystack: its tests of document stores, and pipelines."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from accelerd import Client
from accelerd.haystack import (
    AccelerdDocumentEmbedder,
    AccelerdDocumentStore,
    AccelerdEmbeddingRetriever,
    AccelerdRanker,
    AccelerdTextEmbedder,
)
from conftest import DOCUMENTS, RERANKER, Daemon
from haystack import Document, Pipeline
from haystack.dataclasses import ByteStream, SparseEmbedding
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy, FilterPolicy
from haystack.errors import FilterError
from haystack.testing import document_store as blocking_tests
from haystack.testing import document_store_async as async_tests


@pytest.fixture
def document_store(daemon: Daemon) -> Iterator[AccelerdDocumentStore]:
    store = AccelerdDocumentStore(f"t-{uuid.uuid4()}", target=daemon.grpc)
    yield store
    store.delete_all_documents(recreate_collection=True)


class _Equal:
    @staticmethod
    def assert_documents_are_equal(received: list[Document], expected: list[Document]) -> None:
        """Compare in any order, with embeddings as float32, which is what is stored."""

        def plain(documents: list[Document]) -> dict[str, Document]:
            return {one.id: replace(one, embedding=None) for one in documents}

        def embeddings(documents: list[Document]) -> list[Any]:
            ordered = sorted(documents, key=lambda one: one.id)
            return [one.embedding and np.float32(one.embedding).tolist() for one in ordered]

        assert len(received) == len(expected)
        assert plain(received) == plain(expected)
        assert embeddings(received) == embeddings(expected)


class TestStore(
    _Equal,
    blocking_tests.CountDocumentsTest,
    blocking_tests.CountDocumentsByFilterTest,
    blocking_tests.DeleteAllTest,
    blocking_tests.DeleteByFilterTest,
    blocking_tests.DeleteDocumentsTest,
    blocking_tests.FilterDocumentsTest,
    blocking_tests.UpdateByFilterTest,
    blocking_tests.WriteDocumentsTest,
):
    def test_write_documents(self, document_store: Any) -> None:
        document = Document(content="test doc")
        assert document_store.write_documents([document]) == 1
        with pytest.raises(DuplicateDocumentError, match="expected new ids"):
            document_store.write_documents([document])


class TestAsyncStore(
    _Equal,
    async_tests.CountDocumentsAsyncTest,
    async_tests.CountDocumentsByFilterAsyncTest,
    async_tests.DeleteAllAsyncTest,
    async_tests.DeleteByFilterAsyncTest,
    async_tests.DeleteDocumentsAsyncTest,
    async_tests.FilterDocumentsAsyncTest,
    async_tests.UpdateByFilterAsyncTest,
    async_tests.WriteDocumentsAsyncTest,
):
    @staticmethod
    async def test_write_documents_async(document_store: Any) -> None:
        document = Document(content="test doc")
        assert await document_store.write_documents_async([document]) == 1
        with pytest.raises(DuplicateDocumentError):
            await document_store.write_documents_async([document])


def test_policies_of_duplicates_within_a_batch(document_store: AccelerdDocumentStore) -> None:
    twice = [Document(id="a", content="1"), Document(id="a", content="2"), Document(id="b", content="3")]
    with pytest.raises(DuplicateDocumentError, match="'a'"):
        document_store.write_documents(twice, DuplicatePolicy.FAIL)
    assert document_store.count_documents() == 0
    assert document_store.write_documents(twice, DuplicatePolicy.SKIP) == 2
    assert {one.id: one.content for one in document_store.filter_documents()} == {"a": "1", "b": "3"}
    assert document_store.write_documents(twice, DuplicatePolicy.OVERWRITE) == 2
    assert {one.id: one.content for one in document_store.filter_documents()} == {"a": "2", "b": "3"}
    assert document_store.write_documents([]) == 0
    document_store.delete_documents([])


def test_a_document_comes_back_whole(document_store: AccelerdDocumentStore) -> None:
    document = Document(
        id="é 漢 🎉",
        content=None,
        blob=ByteStream(b"\x00\xff", meta={"k": 1}, mime_type="a/b"),
        meta={"nested": {"list": [1, None, {"a": "b"}]}, "none": None, "content": "c", "embedding": "e", "x.y": 1},
        sparse_embedding=SparseEmbedding([1, 5], [0.5, 0.25]),
        embedding=[0.5] * 768,
    )
    document_store.write_documents([document, Document(content="", id="empty")])
    (found,) = document_store.filter_documents({"field": "id", "operator": "==", "value": document.id})
    assert found == document
    (empty,) = document_store.filter_documents({"field": "content", "operator": "==", "value": ""})
    assert (empty.id, empty.content, empty.embedding) == ("empty", "", None)
    for where in (
        {"field": "meta.content", "operator": "==", "value": "c"},
        {"field": "x.y", "operator": ">", "value": 0.5},
        {"field": "meta.none", "operator": "==", "value": None},
        {"field": "content", "operator": "!=", "value": ""},
        {"field": "id", "operator": "not in", "value": ["empty"]},
    ):
        assert document.id in {one.id for one in document_store.filter_documents(where)}, where


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ({"field": "embedding", "operator": "==", "value": [1.0]}, "expected id, content or metadata, got 'embedding'"),
        ({"field": "meta.a", "operator": "like", "value": "x"}, "operator: expected one of ==, !=, .*, got 'like'"),
        ({"operator": "XOR", "conditions": []}, "operator: expected AND, OR or NOT, got 'XOR'"),
        ({"field": "meta.a", "operator": "==", "value": {"a": 1}}, "meta.a: expected a str, int"),
        ({"field": "meta.a", "operator": "in", "value": [[1]]}, r"expected a list of str, int, float or bool, got \[1\]"),
        ([], None),
        ("a", "filters: expected a dict, got str"),
    ],
)
def test_a_filter_that_cannot_be_translated_is_an_error(
    document_store: AccelerdDocumentStore, where: Any, text: str | None
) -> None:
    if text is None:
        assert document_store.filter_documents(where) == []
        return
    with pytest.raises(FilterError, match=text):
        document_store.filter_documents(where)


def unit(*hot: int) -> list[float]:
    vector = np.zeros(768)
    vector[list(hot)] = 1 / np.sqrt(len(hot))
    return np.float32(vector).tolist()  # type: ignore[no-any-return]


def test_the_retriever_finds_documents_with_embeddings(document_store: AccelerdDocumentStore) -> None:
    retriever = AccelerdEmbeddingRetriever(document_store, top_k=3)
    assert retriever.run(unit(0)) == {"documents": []}
    near, far = Document(id="near", meta={"n": 1}, embedding=unit(0)), Document(id="far", meta={"n": 2}, embedding=unit(0, 1))
    document_store.write_documents([near, far, Document(id="none", meta={"n": 1})])
    found = retriever.run(unit(0))["documents"]
    assert [(one.id, one.score, one.embedding) for one in found] == [
        ("near", pytest.approx(1), None),
        ("far", pytest.approx(0.5**0.5), None),
    ]
    assert asyncio.run(retriever.run_async(unit(0)))["documents"] == found
    where = {"field": "meta.n", "operator": ">", "value": 1}
    assert [one.id for one in retriever.run(unit(0), filters=where)["documents"]] == ["far"]
    assert [one.id for one in retriever.run(unit(0), top_k=1)["documents"]] == ["near"]
    merging = AccelerdEmbeddingRetriever(
        document_store, filters=where, return_embedding=True, filter_policy=FilterPolicy.MERGE
    )
    other = {"field": "meta.m", "operator": "==", "value": 2}
    assert merging.run(unit(0), filters=other)["documents"] == []
    assert merging.run(unit(0))["documents"][0].embedding == far.embedding
    assert asyncio.run(merging.run_async(unit(0)))["documents"][0].embedding == far.embedding
    with pytest.raises(ValueError, match="top_k: expected at least 1, got 0"):
        AccelerdEmbeddingRetriever(document_store, top_k=0)
    with pytest.raises(TypeError, match="document_store: expected an AccelerdDocumentStore, got str"):
        AccelerdEmbeddingRetriever("store")  # type: ignore[arg-type]


def test_pipelines_embed_write_retrieve_and_rank(
    daemon: Daemon, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCELERD_TOKEN", "")
    store = AccelerdDocumentStore(f"t-{uuid.uuid4()}", target=daemon.grpc)
    embedder = AccelerdDocumentEmbedder("bert", target=daemon.grpc, prefix="d: ", meta_fields_to_embed=["title"])
    documents = [Document(content=text, meta={"title": str(at)}) for at, text in enumerate(DOCUMENTS)]
    embedded = embedder.run(documents)["documents"]
    expected = client.embed([f"{at}\n{text}" for at, text in enumerate(DOCUMENTS)], model="bert", prompt="d: ")
    assert [one.embedding for one in embedded] == expected.tolist()
    assert asyncio.run(embedder.run_async(documents))["documents"] == embedded
    assert documents[0].embedding is None and embedder.run([])["documents"] == []
    assert store.write_documents(embedded) == len(DOCUMENTS)

    pipeline = Pipeline()
    pipeline.add_component("embedder", AccelerdTextEmbedder("bert", target=daemon.grpc))
    pipeline.add_component("retriever", AccelerdEmbeddingRetriever(store, top_k=4))
    pipeline.add_component("ranker", AccelerdRanker(RERANKER, target=daemon.grpc, top_k=2))
    pipeline.connect("embedder.embedding", "retriever.query_embedding")
    pipeline.connect("retriever.documents", "ranker.documents")
    query: dict[str, Any] = {"embedder": {"text": "a b c"}, "ranker": {"query": "a b c"}}
    found = pipeline.run(query)["ranker"]["documents"]
    scores = {one.index: one.score for one in client.rerank("a b c", DOCUMENTS, model=RERANKER)}
    assert len(found) == 2 and all(one.score == scores[int(one.meta["title"])] for one in found)
    restored = Pipeline.loads(pipeline.dumps(), allowed_modules=["accelerd.haystack"])
    assert restored.run(query)["ranker"]["documents"] == found

    concurrent = Pipeline.loads(pipeline.dumps(), allowed_modules=["accelerd.haystack"])
    assert asyncio.run(concurrent.run_async(query))["ranker"]["documents"] == found
    store.delete_all_documents(recreate_collection=True)


def test_components_refuse_what_others_take(daemon: Daemon) -> None:
    with pytest.raises(TypeError, match="AccelerdDocumentEmbedder embeds documents"):
        AccelerdTextEmbedder(target=daemon.grpc).run([Document(content="a")])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="AccelerdTextEmbedder embeds a text"):
        AccelerdDocumentEmbedder(target=daemon.grpc).run("a")  # type: ignore[arg-type]
    assert AccelerdRanker(RERANKER, target=daemon.grpc).run("a", []) == {"documents": []}
