"""The adapters for LlamaIndex: indexes, queries and filters, against its own store in memory where that has an answer."""

from __future__ import annotations

import asyncio
import pickle
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from accelerd import Client
from accelerd.llama_index import AccelerdEmbedding, AccelerdRerank, AccelerdVectorStore
from conftest import DOCUMENTS, RERANKER, Daemon
from llama_index.core import Document, StorageContext, VectorStoreIndex
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import ImageNode, NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,

)
from llama_index.core.vector_stores.types import VectorStoreQueryMode
from llama_index.core.vector_stores.simple import SimpleVectorStore

VECTORS = np.float32(np.eye(4) + 0.1).tolist()
METADATA: list[dict[str, Any]] = [
    {"n": 1, "name": "Alpha beta", "tags": ["x", "y"], "f": 0.5},
    {"n": 2, "name": "beta", "tags": [], "deep": {"k": [1, None]}},
    {"n": 3, "name": "", "none": None},
    {},
]


def nodes() -> list[TextNode]:
    return [
        TextNode(
            id_=f"node {at}",
            text=f"text {at} é 漢",
            metadata=metadata,
            embedding=vector,
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"doc {at % 2}")},
        )
        for at, (metadata, vector) in enumerate(zip(METADATA, VECTORS, strict=True))
    ]


@pytest.fixture
def store(daemon: Daemon) -> Iterator[AccelerdVectorStore]:
    store = AccelerdVectorStore(f"t-{uuid.uuid4()}", client=daemon.grpc)
    yield store
    store.clear()


@pytest.fixture
def filled(store: AccelerdVectorStore) -> AccelerdVectorStore:
    assert store.add(nodes()) == [node.node_id for node in nodes()]
    return store


def query(**fields: Any) -> VectorStoreQuery:
    return VectorStoreQuery(**{"query_embedding": [0.1, 1.0, 0.3, 0.2], "similarity_top_k": 10, **fields})


def test_a_query_returns_what_the_store_in_memory_does(filled: AccelerdVectorStore) -> None:
    memory = SimpleVectorStore()
    memory.add(nodes())
    for k in (1, 2, 4, 100):
        expected, found = memory.query(query(similarity_top_k=k)), filled.query(query(similarity_top_k=k))
        assert sorted(found.ids or []) == sorted(expected.ids or []) and len(found.ids or []) == min(k, 4)
        assert found.similarities == pytest.approx(expected.similarities, abs=1e-6)
        assert asyncio.run(filled.aquery(query(similarity_top_k=k))) == found
    assert found.nodes is not None
    by_id: dict[str, TextNode] = {node.node_id: node for node in nodes()}
    for node in found.nodes:
        expected_node = by_id[node.node_id]
        assert (node.get_content(), node.metadata) == (expected_node.get_content(), expected_node.metadata)
        assert node.ref_doc_id == expected_node.ref_doc_id
    (hit,) = filled.query(query(similarity_top_k=1)).nodes or []
    assert hit.node_id == "node 1"


Op = FilterOperator
TESTS: list[tuple[str, Any, Any]] = [
    ("n", Op.EQ, 1), ("n", Op.EQ, 2.0), ("n", Op.NE, 1), ("n", Op.GT, 1), ("n", Op.GTE, 2), ("n", Op.LT, 2),
    ("n", Op.LTE, 2), ("f", Op.GT, 0.25), ("n", Op.IN, [1, 3]), ("n", Op.NIN, [1, 3]), ("name", Op.IN, ["beta"]),
    ("name", Op.EQ, "beta"), ("name", Op.NE, "beta"), ("name", Op.TEXT_MATCH, "beta"), ("name", Op.TEXT_MATCH, "alpha"),
    ("name", Op.TEXT_MATCH_INSENSITIVE, "alpha"), ("tags", Op.CONTAINS, "x"), ("tags", Op.ANY, ["x", "z"]),
    ("tags", Op.ALL, ["x", "z"]), ("tags", Op.ALL, ["x", "y"]), ("tags", Op.IS_EMPTY, None), ("name", Op.IS_EMPTY, None),
    ("missing", Op.EQ, 1), ("missing", Op.NE, 1), ("missing", Op.IS_EMPTY, None), ("none", Op.IS_EMPTY, None),
    ("doc_id", Op.EQ, "doc 1"), ("ref_doc_id", Op.NE, "doc 1"),
]  # fmt: skip


@pytest.fixture(scope="module")
def both(daemon: Daemon) -> Iterator[tuple[AccelerdVectorStore, SimpleVectorStore]]:
    store, memory = AccelerdVectorStore(f"t-{uuid.uuid4()}", client=daemon.grpc), SimpleVectorStore()
    for one in (store, memory):
        one.add(nodes())
    yield store, memory
    store.clear()


@pytest.mark.parametrize("condition", [*FilterCondition])
@pytest.mark.parametrize("test", TESTS)
def test_a_filter_selects_what_it_does_in_memory(both: Any, test: Any, condition: FilterCondition) -> None:
    key, operator, value = test
    second = MetadataFilter(key="n", value=2, operator=Op.LTE)
    for tests in ([], [second]):
        given = [MetadataFilter(key=key, value=value, operator=operator), *tests]
        where = MetadataFilters(filters=given, condition=condition)
        found, expected = (store.query(query(filters=where)).ids for store in both)
        assert sorted(found) == sorted(expected), where
        assert sorted(node.node_id for node in both[0].get_nodes(filters=where)) == sorted(found)


def test_filters_nest_and_bound_dates(filled: AccelerdVectorStore) -> None:
    inner = MetadataFilters(
        filters=[MetadataFilter(key="n", value=1), MetadataFilter(key="name", value="beta")], condition=FilterCondition.OR
    )
    where = MetadataFilters(filters=[inner, MetadataFilter(key="n", value=1, operator=Op.NE)])
    assert filled.query(query(filters=where)).ids == ["node 1"]
    dated = TextNode(id_="dated", text="", metadata={"when": "2024-05-01"}, embedding=VECTORS[0])
    asyncio.run(filled.async_add([dated]))
    where = MetadataFilters(filters=[MetadataFilter(key="when", value="2024-04-30T12:00:00", operator=Op.GT)])
    assert filled.query(query(filters=where)).ids == ["dated"]


@pytest.mark.parametrize(
    ("test", "text"),
    [
        (MetadataFilter(key="n", value="a", operator=Op.GT), r"filters\['n'\] >: expected a number or a date"),
        (MetadataFilter(key="n", value="a", operator=Op.IN), r"filters\['n'\]: expected a list, got 'a'"),
        (MetadataFilter(key="n", value=["a"], operator=Op.EQ), r"filters\['n'\]: expected a str, int"),
        (MetadataFilter(key="n", value=1, operator=Op.TEXT_MATCH), r"filters\['n'\]: expected a text to match, got 1"),
        (MetadataFilter(key="n", value=1, operator=Op.ANY), r"filters\['n'\]: expected a list, got 1"),
    ],
)
def test_a_filter_that_cannot_be_translated_is_an_error(store: AccelerdVectorStore, test: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        store.query(query(filters=MetadataFilters(filters=[test])))


def test_queries_are_restricted_to_nodes_and_documents(filled: AccelerdVectorStore) -> None:
    assert filled.query(query(node_ids=["node 0", "unknown"])).ids == ["node 0"]
    assert sorted(filled.query(query(doc_ids=["doc 1"])).ids or []) == ["node 1", "node 3"]
    assert len(filled.query(query(node_ids=[], doc_ids=[])).ids or []) == 4
    with pytest.raises(ValueError, match="mode: expected 'default', got .*SPARSE"):
        filled.query(query(mode=VectorStoreQueryMode.SPARSE))
    with pytest.raises(ValueError, match="query_embedding: expected a vector, got None"):
        filled.query(query(query_embedding=None))


def test_nodes_are_read_replaced_and_deleted(filled: AccelerdVectorStore) -> None:
    (node,) = filled.get_nodes(["node 2", "unknown"])
    assert (node.get_content(), node.embedding) == ("text 2 é 漢", VECTORS[2])
    assert asyncio.run(filled.aget_nodes(["node 2"])) == [node]
    filled.add([TextNode(id_="node 2", text="new", embedding=VECTORS[0])])
    assert filled.get_nodes(["node 2"])[0].get_content() == "new"
    twice = [TextNode(id_="twice", text=text, embedding=VECTORS[0]) for text in ("first", "last")]
    assert filled.add(twice) == ["twice", "twice"] and filled.get_nodes(["twice"])[0].get_content() == "last"
    filled.delete("doc 1")
    assert filled.query(query()).ids is not None and "node 1" not in filled.query(query()).ids
    where = MetadataFilters(filters=[MetadataFilter(key="n", value=1)])
    filled.delete_nodes(["node 2"], where)
    assert filled.get_nodes(["node 2"])
    asyncio.run(filled.adelete_nodes(filters=where))
    assert filled.get_nodes(["node 0"]) == []
    filled.delete_nodes(["node 2", "unknown"])
    asyncio.run(filled.adelete("unknown"))
    assert [node.node_id for node in filled.get_nodes()] == ["twice"]
    asyncio.run(filled.aclear())
    assert filled.get_nodes() == [] and filled.query(query()).ids == [] and filled.add([]) == []


def test_other_kinds_of_nodes_and_points_of_other_programs(filled: AccelerdVectorStore, client: Client) -> None:
    image = ImageNode(id_="image", image="aGk=", text="a picture", embedding=VECTORS[0])
    filled.add([image])
    (found,) = filled.get_nodes(["image"])
    assert isinstance(found, ImageNode) and (found.image, found.get_content()) == ("aGk=", "a picture")
    client.collection(filled.collection_name).upsert(
        [str(uuid.UUID(int=1))], vectors=[VECTORS[0]], payloads=[{"text": "foreign", "n": 9}]
    )
    (found,) = filled.get_nodes([str(uuid.UUID(int=1))])
    assert (found.get_content(), found.metadata) == ("foreign", {"n": 9})


def test_an_index_over_documents(store: AccelerdVectorStore, daemon: Daemon) -> None:
    embedding = AccelerdEmbedding(daemon.grpc)
    documents = [Document(id_=f"d{at}", text=text, metadata={"at": at}) for at, text in enumerate(
        ["open a socket and listen", "compress a file with gzip", "parse a date from text"]
    )]  # fmt: skip
    storage = StorageContext.from_defaults(vector_store=store)
    index = VectorStoreIndex.from_documents(documents, storage, embed_model=embedding)
    retriever = index.as_retriever(similarity_top_k=1)
    assert [one.node.ref_doc_id for one in retriever.retrieve("gzip a file")] == ["d1"]
    assert [one.node.ref_doc_id for one in asyncio.run(retriever.aretrieve("gzip a file"))] == ["d1"]
    index.delete_ref_doc("d1", delete_from_docstore=True)
    assert {node.ref_doc_id for node in store.get_nodes()} == {"d0", "d2"}
    again = VectorStoreIndex.from_vector_store(store, embed_model=embedding)
    where = MetadataFilters(filters=[MetadataFilter(key="at", value=2)])
    (found,) = again.as_retriever(filters=where).retrieve("gzip a file")
    assert found.node.get_content() == "parse a date from text"
    pipeline = IngestionPipeline(transformations=[SentenceSplitter(), embedding], vector_store=store)
    assert len(pipeline.run(documents=documents)) == 3 and len(store.get_nodes()) == 5


def test_the_embedding_has_the_bits_of_the_client(daemon: Daemon, client: Client) -> None:
    texts = ["a b c", "def the", "c b a"]
    embedding = AccelerdEmbedding(
        daemon.grpc, model="bert", text_prompt="t: ", query_prompt="q: ", options={"normalize": False}, embed_batch_size=2
    )
    expected = client.embed(texts, model="bert", prompt="t: ", normalize=False).tolist()
    assert embedding.get_text_embedding_batch(texts) == expected
    assert asyncio.run(embedding.aget_text_embedding_batch(texts)) == expected
    assert embedding.get_text_embedding(texts[0]) == asyncio.run(embedding.aget_text_embedding(texts[0])) == expected[0]
    (query,) = client.embed(["a"], model="bert", prompt="q: ", normalize=False).tolist()
    assert embedding.get_query_embedding("a") == asyncio.run(embedding.aget_query_embedding("a")) == query
    assert embedding.get_text_embedding_batch([]) == []
    assert pickle.loads(pickle.dumps(embedding)).get_query_embedding("a") == query


def test_the_reranker_orders_nodes(daemon: Daemon, client: Client) -> None:
    reranker = AccelerdRerank(daemon.grpc, model=RERANKER, top_n=2)
    given = [NodeWithScore(node=TextNode(text=text, id_=str(at)), score=0.0) for at, text in enumerate(DOCUMENTS)]
    expected = [(str(one.index), one.score) for one in client.rerank("a b c", DOCUMENTS, model=RERANKER, top_n=2)]
    found = reranker.postprocess_nodes(given, QueryBundle("a b c"))
    assert [(one.node.node_id, one.score) for one in found] == expected
    awaited = asyncio.run(reranker.apostprocess_nodes(given, QueryBundle("a b c")))
    assert [(one.node.node_id, one.score) for one in awaited] == expected
    assert reranker.postprocess_nodes([], query_str="a") == []
    with pytest.raises(ValueError, match="query_bundle: expected a query, got None"):
        reranker.postprocess_nodes(given)
