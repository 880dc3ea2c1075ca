"""An embedding, a vector store and a reranker for LlamaIndex.

from accelerd.llama_index import AccelerdEmbedding, AccelerdVectorStore

store = AccelerdVectorStore("docs", client="localhost:7433")
index = VectorStoreIndex.from_vector_store(store, embed_model=AccelerdEmbedding("localhost:7433"))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ._optional import MissingPackageError

try:
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.postprocessor.types import BaseNodePostprocessor
    from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle, TextNode
    from llama_index.core.vector_stores.types import (
        BasePydanticVectorStore,
        FilterCondition,
        FilterOperator,
        MetadataFilter,
        MetadataFilters,
        VectorStoreQuery,
        VectorStoreQueryMode,
        VectorStoreQueryResult,
    )
    from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict
    from pydantic import PrivateAttr
except ModuleNotFoundError as missing:
    raise MissingPackageError("accelerd.llama_index", "llama-index-core", "llama-index") from missing

from . import _metadata_filters as filters
from ._adapter import Clients, Embedder, ranked, relevance
from ._blocking_client import Client
from ._choices import Metric
from ._documents_settings import DocumentSettings
from ._metadata_filters import Field, Filter
from ._records import RESERVED, Record, nested

__all__ = ["AccelerdEmbedding", "AccelerdRerank", "AccelerdVectorStore"]

# Where a node without a source keeps its id, as in the other vector stores of LlamaIndex.
_SOURCE = "ref_doc_id"


class AccelerdEmbedding(BaseEmbedding):
    """Embeddings of a model of the daemon."""

    _embedder: Embedder = PrivateAttr()

    def __init__(
        self,
        client: Client | str | None = None,
        *,
        model: str = "builtin",
        text_prompt: str | None = None,
        query_prompt: str | None = None,
        text_prompt_name: str | None = None,
        query_prompt_name: str | None = None,
        options: dict[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        """Create embeddings.

        Args:
            client: A client, or the address of a daemon.
            model: Name or alias of a loaded model.
            text_prompt: Text that is prepended to texts of nodes.
            query_prompt: Text that is prepended to queries.
            text_prompt_name: Name of the model's prompt for texts of nodes, instead of the text.
            query_prompt_name: Name of the model's prompt for queries, instead of the text.
            options: `accelerd.EmbedOptions`, such as `{"dimensions": 128}`.
            **fields: Fields of `BaseEmbedding`, such as `embed_batch_size`.
        """
        super().__init__(model_name=model, **{"embed_batch_size": 512, **fields})
        self._embedder = Embedder(
            Clients(client),
            {"model": model, **(options or {})},
            {"prompt": text_prompt, "prompt_name": text_prompt_name},
            {"prompt": query_prompt, "prompt_name": query_prompt_name},
        )

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the class in serialized components."""
        return "AccelerdEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._embedder.query(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._embedder.documents([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._embedder.documents(texts)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await self._embedder.query_async(query)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return (await self._embedder.documents_async([text]))[0]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await self._embedder.documents_async(texts)


class AccelerdRerank(BaseNodePostprocessor):
    """Ranks nodes by a cross-encoder of the daemon."""

    #: Name or alias of a loaded cross-encoder.
    model: str
    #: How many nodes to return; 0 means all.
    top_n: int = 2
    #: Maximum tokens of the query and a node together; 0 means the model's limit.
    max_tokens: int = 0
    _clients: Clients = PrivateAttr()

    def __init__(self, client: Client | str | None = None, **fields: Any) -> None:
        """Create a reranker. `client` is a client, or the address of a daemon; the others are the fields."""
        super().__init__(**fields)
        self._clients = Clients(client)

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the class in serialized components."""
        return "AccelerdRerank"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        query, texts = self._texts(nodes, query_bundle)
        return _reranked(nodes, self._clients.blocking.rerank(query, texts, **self._options()) if texts else [])

    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        query, texts = self._texts(nodes, query_bundle)
        return _reranked(nodes, await self._clients.asyncio.rerank(query, texts, **self._options()) if texts else [])

    def _texts(self, nodes: list[NodeWithScore], query: QueryBundle | None) -> tuple[str, list[str]]:
        if query is None:
            raise ValueError("query_bundle: expected a query, got None")
        return query.query_str, [node.node.get_content(metadata_mode=MetadataMode.EMBED) for node in nodes]

    def _options(self) -> dict[str, Any]:
        return {"model": self.model, "top_n": self.top_n, "max_tokens": self.max_tokens}


def _reranked(nodes: list[NodeWithScore], ranks: Any) -> list[NodeWithScore]:
    return [NodeWithScore(node=node.node, score=score) for node, score in ranked(nodes, ranks)]


class AccelerdVectorStore(BasePydanticVectorStore):
    """Nodes in a collection of the daemon, which is created with the first node.

    Filters may have every operator of LlamaIndex, and be nested. Similarities are higher for nearer nodes.
    """

    stores_text: bool = True
    flat_metadata: bool = False

    collection_name: str
    _clients: Clients = PrivateAttr()
    _settings: DocumentSettings = PrivateAttr()

    def __init__(
        self,
        collection_name: str,
        *,
        client: Client | str | None = None,
        metric: Metric = "cosine",
        text_field: str = "text",
        **fields: Any,
    ) -> None:
        """Create a store, without a call to the daemon.

        Args:
            collection_name: Name of the collection, which may exist.
            client: A client, or the address of a daemon.
            metric: Metric of a new collection.
            text_field: The payload field of the texts.
            **fields: Fields of `BasePydanticVectorStore`.
        """
        super().__init__(collection_name=collection_name, **fields)
        self._clients = Clients(client)
        self._settings = DocumentSettings(collection_name, metric=metric, text_field=text_field)

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the class in serialized components."""
        return "AccelerdVectorStore"

    @property
    def client(self) -> Client:
        """The client."""
        return self._clients.blocking

    def add(self, nodes: Sequence[BaseNode], **_: Any) -> list[str]:
        """Add nodes, which have embeddings, and replace those whose ids exist."""
        self._clients.documents(self._settings).write([_record(node) for node in nodes])
        return [node.node_id for node in nodes]

    async def async_add(self, nodes: Sequence[BaseNode], **_: Any) -> list[str]:
        """Add nodes, which have embeddings, and replace those whose ids exist."""
        await self._clients.async_documents(self._settings).write([_record(node) for node in nodes])
        return [node.node_id for node in nodes]

    def delete(self, ref_doc_id: str, **_: Any) -> None:
        """Delete the nodes of a document."""
        self._clients.documents(self._settings).delete_where(_of_document(ref_doc_id))

    async def adelete(self, ref_doc_id: str, **_: Any) -> None:
        """Delete the nodes of a document."""
        await self._clients.async_documents(self._settings).delete_where(_of_document(ref_doc_id))

    def delete_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **_: Any) -> None:
        """Delete the nodes that have one of the ids, and match the filters."""
        documents = self._clients.documents(self._settings)
        if node_ids is not None and filters is None:
            documents.delete(node_ids)
        else:
            documents.delete_where(self._selected(node_ids, filters))

    async def adelete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **_: Any
    ) -> None:
        """Delete the nodes that have one of the ids, and match the filters."""
        documents = self._clients.async_documents(self._settings)
        if node_ids is not None and filters is None:
            await documents.delete(node_ids)
        else:
            await documents.delete_where(self._selected(node_ids, filters))

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """Return the nodes that have one of the ids, and match the filters, with embeddings."""
        documents = self._clients.documents(self._settings)
        if node_ids is not None and filters is None:
            return [_node(record) for record in documents.get(node_ids, vectors=True)]
        return [_node(record) for record in documents.list(self._selected(node_ids, filters), vectors=True)]

    async def aget_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Return the nodes that have one of the ids, and match the filters, with embeddings."""
        documents = self._clients.async_documents(self._settings)
        if node_ids is not None and filters is None:
            return [_node(record) for record in await documents.get(node_ids, vectors=True)]
        return [_node(record) for record in await documents.list(self._selected(node_ids, filters), vectors=True)]

    def clear(self) -> None:
        """Delete all nodes, and the collection."""
        self._clients.documents(self._settings).clear()

    async def aclear(self) -> None:
        """Delete all nodes, and the collection."""
        await self._clients.async_documents(self._settings).clear()

    def query(self, query: VectorStoreQuery, **_: Any) -> VectorStoreQueryResult:
        """Return the nodes nearest to the embedding of a query."""
        vector, where = self._checked(query)
        documents = self._clients.documents(self._settings)
        found = documents.search(query.similarity_top_k, where, vectors=[vector])
        return _result(found, documents.metric())

    async def aquery(self, query: VectorStoreQuery, **_: Any) -> VectorStoreQueryResult:
        """Return the nodes nearest to the embedding of a query."""
        vector, where = self._checked(query)
        documents = self._clients.async_documents(self._settings)
        found = await documents.search(query.similarity_top_k, where, vectors=[vector])
        return _result(found, await documents.metric())

    def _checked(self, query: VectorStoreQuery) -> tuple[list[float], Filter]:
        if query.mode != VectorStoreQueryMode.DEFAULT:
            raise ValueError(f"mode: expected {VectorStoreQueryMode.DEFAULT.value!r}, got {query.mode!r}")
        if query.query_embedding is None:
            raise ValueError("query_embedding: expected a vector, got None")
        # An index that keeps no list of its nodes has an empty one, which restricts nothing.
        where = self._selected(query.node_ids or None, query.filters)
        if query.doc_ids:
            where = filters.all_of([where, filters.among(_field(_SOURCE, self._settings.text_field), query.doc_ids)])
        return query.query_embedding, where

    def _selected(self, node_ids: list[str] | None, given: MetadataFilters | None) -> Filter:
        where = metadata_filter(given, self._settings.text_field)
        if node_ids is None:
            return where
        id_field = Field("node_ids", None, lambda record: record.id)
        return filters.all_of([where, filters.among(id_field, node_ids)])


def _of_document(ref_doc_id: str) -> Filter:
    return filters.equal(_field(_SOURCE, ""), ref_doc_id)


def _record(node: BaseNode) -> Record:
    metadata = node_to_metadata_dict(node, remove_text=True, flat_metadata=False)
    return Record(
        node.node_id, node.get_content(metadata_mode=MetadataMode.NONE), metadata, vector=node.get_embedding()
    )


def _node(record: Record) -> BaseNode:
    if "_node_content" in record.metadata:
        node = metadata_dict_to_node(record.metadata, record.text)
    else:
        # A point of another program.
        node = TextNode(id_=record.id, text=record.text or "", metadata=record.metadata)
    if record.vector is not None:
        node.embedding = record.vector.tolist()
    return node


def _result(records: Sequence[Record], metric: str) -> VectorStoreQueryResult:
    # A similarity by cosine or product is the score itself, as in other vector stores.
    similarities = [relevance(one.score, metric) if metric == "squared_l2" else one.score for one in records]
    return VectorStoreQueryResult(
        nodes=[_node(record) for record in records], similarities=similarities, ids=[record.id for record in records]
    )


def _field(key: str, text_field: str) -> Field:
    is_reserved = key in RESERVED or key == text_field
    return Field(f"filters[{key!r}]", None if is_reserved else key, lambda record: nested(record.metadata, key))


def metadata_filter(given: MetadataFilters | None, text_field: str) -> Filter:
    """Return a filter on metadata.

    Raises:
        ValueError: The operand of an operator is of another type.
    """
    if given is None:
        return filters.EVERYTHING
    parts = [
        metadata_filter(one, text_field) if isinstance(one, MetadataFilters) else _test(one, text_field)
        for one in given.filters
    ]
    if given.condition == FilterCondition.OR:
        # LlamaIndex takes no filters for any.
        return filters.any_of(parts) if parts else filters.EVERYTHING
    if given.condition == FilterCondition.NOT:
        return filters.negated(filters.any_of(parts))
    return filters.all_of(parts)


def _test(given: MetadataFilter, text_field: str) -> Filter:
    return _OPERATORS[given.operator](_field(given.key, text_field), given.value)


def _listed(field: Field, values: Any) -> list[Any]:
    if not isinstance(values, list):
        raise ValueError(f"{field.label}: expected a list, got {values!r}")
    return values


def _text(field: Field, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{field.label}: expected a text to match, got {value!r}")
    return value


def _contains(own: Any, value: Any) -> bool:
    return value in own if isinstance(own, list) else isinstance(own, str) and isinstance(value, str) and value in own


def _all_contained(field: Field, values: Any) -> Filter:
    given = _listed(field, values)
    return filters.checked(field, lambda own: own is not None and all(_contains(own, value) for value in given))


def _any_contained(field: Field, values: Any) -> Filter:
    given = _listed(field, values)
    return filters.checked(field, lambda own: any(_contains(own, value) for value in given))


def _matched(field: Field, value: Any) -> Filter:
    text = _text(field, value)
    return filters.checked(field, lambda own: isinstance(own, str) and text in own)


def _matched_insensitively(field: Field, value: Any) -> Filter:
    text = _text(field, value).casefold()
    return filters.checked(field, lambda own: isinstance(own, str) and text in own.casefold())


_OPERATORS: dict[FilterOperator, Callable[[Field, Any], Filter]] = {
    FilterOperator.EQ: filters.equal,
    FilterOperator.NE: lambda field, value: filters.negated(filters.equal(field, value)),
    FilterOperator.GT: lambda field, value: filters.compared(field, ">", value),
    FilterOperator.GTE: lambda field, value: filters.compared(field, ">=", value),
    FilterOperator.LT: lambda field, value: filters.compared(field, "<", value),
    FilterOperator.LTE: lambda field, value: filters.compared(field, "<=", value),
    FilterOperator.IN: lambda field, value: filters.among(field, _listed(field, value)),
    FilterOperator.NIN: lambda field, value: filters.negated(filters.among(field, _listed(field, value))),
    FilterOperator.ANY: _any_contained,
    FilterOperator.ALL: _all_contained,
    FilterOperator.CONTAINS: lambda field, value: filters.checked(field, lambda own: _contains(own, value)),
    FilterOperator.TEXT_MATCH: _matched,
    FilterOperator.TEXT_MATCH_INSENSITIVE: _matched_insensitively,
    FilterOperator.IS_EMPTY: lambda field, _: filters.checked(field, lambda own: own in (None, "", [])),
}
