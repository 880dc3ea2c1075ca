"""Embeddings, a vector store and a reranker for LangChain.

from accelerd.langchain import AccelerdVectorStore

store = AccelerdVectorStore("docs", client="localhost:7433")  # the daemon embeds
store.add_texts(["open a socket", "compress a file"], [{"path": "net.py"}, {"path": "pack.py"}])
store.similarity_search("tcp", k=1, filter={"path": {"$in": ["net.py"]}})
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ._optional import MissingPackageError

try:
    from langchain_core.callbacks import Callbacks
    from langchain_core.documents import BaseDocumentCompressor, Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import VectorStore
    from langchain_core.vectorstores.utils import maximal_marginal_relevance
    from pydantic import ConfigDict, PrivateAttr
except ModuleNotFoundError as missing:
    raise MissingPackageError("accelerd.langchain", "langchain-core", "langchain") from missing

import numpy as np

from . import _metadata_filters as filters
from ._adapter import Clients, Embedder, ranked, relevance
from ._aio_documents import AsyncDocuments
from ._blocking_client import Client
from ._blocking_documents import Documents
from ._choices import Metric
from ._documents_settings import DocumentSettings
from ._metadata_filters import Field, Filter
from ._records import RESERVED, Record, nested

__all__ = ["AccelerdEmbeddings", "AccelerdRerank", "AccelerdVectorStore"]


class AccelerdEmbeddings(Embeddings):
    """Embeddings of a model of the daemon."""

    def __init__(
        self,
        client: Client | str | None = None,
        *,
        model: str = "",
        document_prompt: str | None = None,
        query_prompt: str | None = None,
        document_prompt_name: str | None = None,
        query_prompt_name: str | None = None,
        **options: Any,
    ) -> None:
        """Create embeddings.

        Args:
            client: A client, or the address of a daemon.
            model: Name or alias of a loaded model; empty means `builtin`.
            document_prompt: Text that is prepended to documents.
            query_prompt: Text that is prepended to queries.
            document_prompt_name: Name of the model's prompt for documents, instead of the text.
            query_prompt_name: Name of the model's prompt for queries, instead of the text.
            **options: `accelerd.EmbedOptions`, such as `dimensions` and `normalize`.
        """
        self._embedder = Embedder(
            Clients(client),
            {"model": model, **options},
            {"prompt": document_prompt, "prompt_name": document_prompt_name},
            {"prompt": query_prompt, "prompt_name": query_prompt_name},
        )

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed documents."""
        return self._embedder.documents(texts)

    def embed_query(self, text: str) -> list[float]:
        """Embed a query."""
        return self._embedder.query(text)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed documents."""
        return await self._embedder.documents_async(texts)

    async def aembed_query(self, text: str) -> list[float]:
        """Embed a query."""
        return await self._embedder.query_async(text)


class AccelerdRerank(BaseDocumentCompressor):
    """Ranks documents by a cross-encoder of the daemon. The score is the metadata `relevance_score`."""

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    #: Name or alias of a loaded cross-encoder.
    model: str
    #: How many documents to return; 0 means all.
    top_n: int = 3
    #: Maximum tokens of the query and a document together; 0 means the model's limit.
    max_tokens: int = 0
    _clients: Clients = PrivateAttr()

    def __init__(self, client: Client | str | None = None, **fields: Any) -> None:
        """Create a reranker. `client` is a client, or the address of a daemon; the others are the fields."""
        super().__init__(**fields)
        self._clients = Clients(client)

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """Return the best documents, best first."""
        texts = [document.page_content for document in documents]
        ranks = self._clients.blocking.rerank(query, texts, **self._options()) if texts else []
        return [_with_relevance(document, score) for document, score in ranked(documents, ranks)]

    async def acompress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Callbacks | None = None
    ) -> Sequence[Document]:
        """Return the best documents, best first."""
        texts = [document.page_content for document in documents]
        ranks = await self._clients.asyncio.rerank(query, texts, **self._options()) if texts else []
        return [_with_relevance(document, score) for document, score in ranked(documents, ranks)]

    def _options(self) -> dict[str, Any]:
        return {"model": self.model, "top_n": self.top_n, "max_tokens": self.max_tokens}


def _with_relevance(document: Document, score: float) -> Document:
    # The given document stays as it is.
    return document.model_copy(update={"metadata": {**document.metadata, "relevance_score": score}})


class AccelerdVectorStore(VectorStore):
    """Documents in a collection of the daemon, which is created with the first document.

    The daemon embeds the texts with a model of its own, unless the store has an `embedding`. An `id` may be any text;
    adding a document with the id of another replaces it. A filter is a dict of metadata to a value or to operators
    such as `{"year": {"$gte": 2020, "$lt": 2025}}`, of which all must match: $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin,
    $exists and $contains (an element of a list, a part of a text), combined by $and, $or and $not. Bounds are numbers,
    or dates as of ISO 8601.
    """

    def __init__(
        self,
        collection_name: str,
        embedding: Embeddings | None = None,
        *,
        client: Client | str | None = None,
        model: str = "builtin",
        metric: Metric = "cosine",
        text_field: str = "text",
        hybrid: bool = False,
    ) -> None:
        """Create a store, without a call to the daemon.

        Args:
            collection_name: Name of the collection, which may exist.
            embedding: What embeds texts here; None means that the daemon embeds them.
            client: A client, or the address of a daemon.
            model: The daemon's model, if there is no `embedding`.
            metric: Metric of a new collection.
            text_field: The payload field of the texts.
            hybrid: Whether a new collection has a full-text index, which `similarity_search(..., hybrid=True)` uses.
        """
        self._clients = Clients(client)
        self._embedding = embedding
        self._settings = DocumentSettings(
            collection_name, "" if embedding else model, metric=metric, text_field=text_field, hybrid=hybrid
        )

    @property
    def embeddings(self) -> Embeddings | None:
        """What embeds texts here; None if the daemon does."""
        return self._embedding

    @property
    def _documents(self) -> Documents:
        return self._clients.documents(self._settings)

    @property
    def _async_documents(self) -> AsyncDocuments:
        return self._clients.async_documents(self._settings)

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        collection_name: str = "langchain",
        **options: Any,
    ) -> AccelerdVectorStore:
        """Create a store with texts. The options are those of the constructor."""
        store = cls(collection_name, embedding, **options)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    @classmethod
    async def afrom_texts(
        cls,
        texts: list[str],
        embedding: Embeddings | None,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        collection_name: str = "langchain",
        **options: Any,
    ) -> AccelerdVectorStore:
        """Create a store with texts. The options are those of the constructor."""
        store = cls(collection_name, embedding, **options)
        await store.aadd_texts(texts, metadatas, ids=ids)
        return store

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: Sequence[dict[str, Any] | None] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **_: Any,
    ) -> list[str]:
        """Add texts, and replace those whose ids exist. Returns the ids, which are new UUIDs where none is given."""
        records = _records([*texts], metadatas, ids)
        if self._embedding is not None and records:
            records = _with_vectors(records, self._embedding.embed_documents(_texts(records)))
        self._documents.write(records)
        return [record.id for record in records]

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: Sequence[dict[str, Any] | None] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **_: Any,
    ) -> list[str]:
        """Add texts, and replace those whose ids exist. Returns the ids, which are new UUIDs where none is given."""
        records = _records([*texts], metadatas, ids)
        if self._embedding is not None and records:
            records = _with_vectors(records, await self._embedding.aembed_documents(_texts(records)))
        await self._async_documents.write(records)
        return [record.id for record in records]

    def delete(self, ids: list[str] | None = None, **_: Any) -> bool:
        """Delete documents by id; unknown ones are no error. None deletes all documents, and the collection."""
        if ids is None:
            self._documents.clear()
        else:
            self._documents.delete(ids)
        return True

    async def adelete(self, ids: list[str] | None = None, **_: Any) -> bool:
        """Delete documents by id; unknown ones are no error. None deletes all documents, and the collection."""
        if ids is None:
            await self._async_documents.clear()
        else:
            await self._async_documents.delete(ids)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return documents by id. Unknown ids are omitted."""
        return [_document(record) for record in self._documents.get(ids)]

    async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return documents by id. Unknown ids are omitted."""
        return [_document(record) for record in await self._async_documents.get(ids)]

    def similarity_search(self, query: str, k: int = 4, **options: Any) -> list[Document]:
        """Return the documents nearest to a query, as `similarity_search_with_score` does."""
        return [document for document, _ in self.similarity_search_with_score(query, k, **options)]

    async def asimilarity_search(self, query: str, k: int = 4, **options: Any) -> list[Document]:
        """Return the documents nearest to a query, as `similarity_search_with_score` does."""
        return [document for document, _ in await self.asimilarity_search_with_score(query, k, **options)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: Mapping[str, Any] | None = None, **options: Any
    ) -> list[tuple[Document, float]]:
        """Return the documents nearest to a query with their scores, best first.

        Args:
            query: The query.
            k: How many documents to return.
            filter: Conditions on the metadata.
            **options: `hybrid`, `fusion`, `text_weight`, `threshold` and others of `Collection.search`.
        """
        if self._embedding is None:
            return _scored(self._documents.search(k, self._filter(filter), texts=[query], **options))
        return self.similarity_search_by_vector_with_score(self._embedding.embed_query(query), k, filter, **options)

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, filter: Mapping[str, Any] | None = None, **options: Any
    ) -> list[tuple[Document, float]]:
        """Return the documents nearest to a query with their scores, as the method without `a` does."""
        if self._embedding is None:
            return _scored(await self._async_documents.search(k, self._filter(filter), texts=[query], **options))
        vector = await self._embedding.aembed_query(query)
        return await self.asimilarity_search_by_vector_with_score(vector, k, filter, **options)

    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **options: Any) -> list[Document]:
        """Return the documents nearest to a vector."""
        return [document for document, _ in self.similarity_search_by_vector_with_score(embedding, k, **options)]

    async def asimilarity_search_by_vector(self, embedding: list[float], k: int = 4, **options: Any) -> list[Document]:
        """Return the documents nearest to a vector."""
        found = await self.asimilarity_search_by_vector_with_score(embedding, k, **options)
        return [document for document, _ in found]

    def similarity_search_by_vector_with_score(
        self, embedding: list[float], k: int = 4, filter: Mapping[str, Any] | None = None, **options: Any
    ) -> list[tuple[Document, float]]:
        """Return the documents nearest to a vector with their scores, best first."""
        return _scored(self._documents.search(k, self._filter(filter), vectors=[embedding], **options))

    async def asimilarity_search_by_vector_with_score(
        self, embedding: list[float], k: int = 4, filter: Mapping[str, Any] | None = None, **options: Any
    ) -> list[tuple[Document, float]]:
        """Return the documents nearest to a vector with their scores, best first."""
        return _scored(await self._async_documents.search(k, self._filter(filter), vectors=[embedding], **options))

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **options: Any
    ) -> list[Document]:
        """Return documents that are near to a query and not to each other.

        Args:
            query: The query.
            k: How many documents to return.
            fetch_k: Of how many nearest documents they are chosen.
            lambda_mult: From 0 for the most diverse documents to 1 for the nearest ones.
            **options: `filter`.
        """
        vector = self._documents.query_vector(query) if self._embedding is None else self._embedding.embed_query(query)
        if vector is None:
            return []
        return self.max_marginal_relevance_search_by_vector(vector, k, fetch_k, lambda_mult, **options)

    async def amax_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **options: Any
    ) -> list[Document]:
        """Return documents that are near to a query and not to each other."""
        if self._embedding is None:
            vector = await self._async_documents.query_vector(query)
        else:
            vector = await self._embedding.aembed_query(query)
        if vector is None:
            return []
        return await self.amax_marginal_relevance_search_by_vector(vector, k, fetch_k, lambda_mult, **options)

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> list[Document]:
        """Return documents that are near to a vector and not to each other."""
        found = self._documents.search(max(k, fetch_k), self._filter(filter), vectors=[embedding], **options)
        records = self._documents.get([record.id for record in found], vectors=True)
        return _diverse(embedding, records, k, lambda_mult)

    async def amax_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> list[Document]:
        """Return documents that are near to a vector and not to each other."""
        where, documents = self._filter(filter), self._async_documents
        found = await documents.search(max(k, fetch_k), where, vectors=[embedding], **options)
        records = await documents.get([record.id for record in found], vectors=True)
        return _diverse(embedding, records, k, lambda_mult)

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        metric = self._documents.metric()
        return lambda score: relevance(score, metric)

    async def _asimilarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **options: Any
    ) -> list[tuple[Document, float]]:
        metric = await self._async_documents.metric()
        found = await self.asimilarity_search_with_score(query, k, **options)
        return [(document, relevance(score, metric)) for document, score in found]

    def _filter(self, given: Mapping[str, Any] | None) -> Filter:
        return metadata_filter(given or {}, self._settings.text_field)


def _records(
    texts: Sequence[str], metadatas: Sequence[dict[str, Any] | None] | None, ids: Sequence[str | None] | None
) -> list[Record]:
    for what, given in (("metadatas", metadatas), ("ids", ids)):
        if given is not None and len(given) != len(texts):
            raise ValueError(f"{what}: expected {len(texts)}, one per text, got {len(given)}")
    return [
        Record(id or str(uuid.uuid4()), text, metadata or {})
        for text, metadata, id in zip(texts, metadatas or [None] * len(texts), ids or [None] * len(texts), strict=True)
    ]


def _texts(records: Sequence[Record]) -> list[str]:
    return [record.text or "" for record in records]


def _with_vectors(records: Sequence[Record], vectors: Sequence[Any]) -> list[Record]:
    return [record._replace(vector=vector) for record, vector in zip(records, vectors, strict=True)]


def _document(record: Record) -> Document:
    return Document(id=record.id, page_content=record.text or "", metadata=record.metadata)


def _scored(records: Sequence[Record]) -> list[tuple[Document, float]]:
    return [(_document(record), record.score) for record in records]


def _diverse(query: list[float], records: Sequence[Record], k: int, lambda_mult: float) -> list[Document]:
    if not records:
        return []
    vectors: Any = [record.vector for record in records]
    chosen = maximal_marginal_relevance(np.array(query, np.float32), vectors, lambda_mult, k)
    return [_document(records[at]) for at in chosen]


def _contains(own: Any, value: Any) -> bool:
    return isinstance(own, (str, list)) and (not isinstance(own, str) or isinstance(value, str)) and value in own


_OPERATORS: dict[str, Callable[[Field, Any], Filter]] = {
    "$eq": filters.equal,
    "$ne": lambda field, value: filters.negated(filters.equal(field, value)),
    "$gt": lambda field, value: filters.compared(field, ">", value),
    "$gte": lambda field, value: filters.compared(field, ">=", value),
    "$lt": lambda field, value: filters.compared(field, "<", value),
    "$lte": lambda field, value: filters.compared(field, "<=", value),
    "$in": filters.among,
    "$nin": lambda field, value: filters.negated(filters.among(field, value)),
    "$exists": lambda field, value: filters.negated(filters.is_missing(field)) if value else filters.is_missing(field),
    "$contains": lambda field, value: filters.checked(field, lambda own: _contains(own, value)),
}


def metadata_filter(given: Mapping[str, Any], text_field: str) -> Filter:
    """Return a filter on metadata.

    Raises:
        ValueError: An operator is unknown, or its operand is of another type.
    """
    if not isinstance(given, Mapping):
        raise ValueError(f"filter: expected a dict of metadata to conditions, got {type(given).__name__}")
    return filters.all_of(_part(key, condition, text_field) for key, condition in given.items())


def _part(key: str, condition: Any, text_field: str) -> Filter:
    if key in ("$and", "$or"):
        if isinstance(condition, (str, Mapping)) or not isinstance(condition, Sequence):
            raise ValueError(f"filter[{key!r}]: expected a list of filters, got {type(condition).__name__}")
        if not condition:
            raise ValueError(f"filter[{key!r}]: expected at least one filter, got none")
        parts = [metadata_filter(one, text_field) for one in condition]
        return filters.all_of(parts) if key == "$and" else filters.any_of(parts)
    if key == "$not":
        return filters.negated(metadata_filter(condition, text_field))
    if key.startswith("$"):
        raise ValueError(f"filter: expected $and, $or, $not or a key of the metadata, got {key!r}")
    is_reserved = key in RESERVED or key == text_field
    field = Field(f"filter[{key!r}]", None if is_reserved else key, lambda record: nested(record.metadata, key))
    if not isinstance(condition, Mapping):
        return filters.equal(field, condition)
    return _operations(field, condition)


def _operations(field: Field, given: Any) -> Filter:
    if not isinstance(given, Mapping) or not given:
        raise ValueError(f"{field.label}: expected a value, or a dict of operators to values, got {given!r}")
    return filters.all_of(_operation(field, name, operand) for name, operand in given.items())


def _operation(field: Field, name: str, operand: Any) -> Filter:
    if name == "$not":
        return filters.negated(_operations(field, operand))
    if name not in _OPERATORS:
        raise ValueError(f"{field.label}: expected one of {', '.join(_OPERATORS)}, got {name!r}")
    return _OPERATORS[name](field, operand)
