"""Embedders, a document store with its retriever, and a ranker for Haystack.

from accelerd.haystack import AccelerdDocumentStore, AccelerdEmbeddingRetriever

store = AccelerdDocumentStore("docs", target="localhost:7433", dimensions=256)
retriever = AccelerdEmbeddingRetriever(store)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ._optional import MissingPackageError

try:
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.document_stores.errors import DuplicateDocumentError
    from haystack.document_stores.types import DuplicatePolicy, FilterPolicy, apply_filter_policy
    from haystack.errors import FilterError
    from haystack.utils import Secret
except ModuleNotFoundError as missing:
    raise MissingPackageError("accelerd.haystack", "haystack-ai", "haystack") from missing

import numpy as np

from . import _metadata_filters as filters
from ._adapter import Clients, Embedder, ranked, relevance
from ._aio_documents import AsyncDocuments
from ._blocking_client import Client
from ._blocking_documents import Documents
from ._choices import Metric
from ._documents_settings import DocumentSettings
from ._metadata_filters import EVERYTHING, Field, Filter
from ._records import RESERVED, Record, nested

__all__ = [
    "AccelerdDocumentEmbedder",
    "AccelerdDocumentStore",
    "AccelerdEmbeddingRetriever",
    "AccelerdRanker",
    "AccelerdTextEmbedder",
]

_TEXT_FIELD = "content"
# The token that a client has by default; a component may have none.
_TOKEN = Secret.from_env_var("ACCELERD_TOKEN", strict=False)


def _clients(target: str | None, token: Secret | None) -> Clients:
    return Clients(Client(target, token=None if token is None else token.resolve_value()))


@component
class AccelerdTextEmbedder:
    """Embeds a text, such as a query, with a model of the daemon."""

    def __init__(
        self,
        model: str = "builtin",
        *,
        target: str | None = None,
        token: Secret | None = _TOKEN,
        prefix: str | None = None,
        prompt_name: str | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        """Create the component.

        Args:
            model: Name or alias of a loaded model.
            target: Address of the daemon, by default that of the environment variable ACCELERD_SERVER.
            token: Token of the caller.
            prefix: Text that is prepended.
            prompt_name: Name of the model's prompt to prepend, instead of the text.
            options: `accelerd.EmbedOptions`, such as `{"dimensions": 128}`.
        """
        self.model, self.target, self.token = model, target, token
        self.prefix, self.prompt_name, self.options = prefix, prompt_name, options
        prompt = {"prompt": prefix, "prompt_name": prompt_name}
        self._embedder = Embedder(_clients(target, token), {"model": model, **(options or {})}, {}, prompt)

    def to_dict(self) -> dict[str, Any]:
        """Serialize the component."""
        return _embedder_to_dict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> AccelerdTextEmbedder:
        """Deserialize a component."""
        found: AccelerdTextEmbedder = default_from_dict(cls, data)
        return found

    @component.output_types(embedding=list[float], meta=dict[str, Any])
    def run(self, text: str) -> dict[str, Any]:
        """Embed a text."""
        return {"embedding": self._embedder.query(_checked_text(text)), "meta": {"model": self.model}}

    @component.output_types(embedding=list[float], meta=dict[str, Any])
    async def run_async(self, text: str) -> dict[str, Any]:
        """Embed a text."""
        return {"embedding": await self._embedder.query_async(_checked_text(text)), "meta": {"model": self.model}}


def _checked_text(text: Any) -> str:
    if not isinstance(text, str):
        raise TypeError(f"text: expected str, got {type(text).__name__}; AccelerdDocumentEmbedder embeds documents")
    return text


@component
class AccelerdDocumentEmbedder:
    """Embeds documents with a model of the daemon."""

    def __init__(
        self,
        model: str = "builtin",
        *,
        target: str | None = None,
        token: Secret | None = _TOKEN,
        prefix: str | None = None,
        prompt_name: str | None = None,
        meta_fields_to_embed: list[str] | None = None,
        embedding_separator: str = "\n",
        options: dict[str, Any] | None = None,
    ) -> None:
        """Create the component.

        Args:
            model: Name or alias of a loaded model.
            target: Address of the daemon, by default that of the environment variable ACCELERD_SERVER.
            token: Token of the caller.
            prefix: Text that is prepended to each.
            prompt_name: Name of the model's prompt to prepend, instead of the text.
            meta_fields_to_embed: Metadata that is embedded before the content.
            embedding_separator: What separates them.
            options: `accelerd.EmbedOptions`, such as `{"dimensions": 128}`.
        """
        self.model, self.target, self.token = model, target, token
        self.prefix, self.prompt_name, self.options = prefix, prompt_name, options
        self.meta_fields_to_embed, self.embedding_separator = meta_fields_to_embed or [], embedding_separator
        prompt = {"prompt": prefix, "prompt_name": prompt_name}
        self._embedder = Embedder(_clients(target, token), {"model": model, **(options or {})}, prompt, {})

    def to_dict(self) -> dict[str, Any]:
        """Serialize the component."""
        return _embedder_to_dict(
            self, meta_fields_to_embed=self.meta_fields_to_embed, embedding_separator=self.embedding_separator
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> AccelerdDocumentEmbedder:
        """Deserialize a component."""
        found: AccelerdDocumentEmbedder = default_from_dict(cls, data)
        return found

    @component.output_types(documents=list[Document], meta=dict[str, Any])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """Embed documents. Those that are given stay as they are."""
        texts = self._texts(documents)
        return self._embedded(documents, self._embedder.documents(texts) if texts else [])

    @component.output_types(documents=list[Document], meta=dict[str, Any])
    async def run_async(self, documents: list[Document]) -> dict[str, Any]:
        """Embed documents. Those that are given stay as they are."""
        texts = self._texts(documents)
        return self._embedded(documents, await self._embedder.documents_async(texts) if texts else [])

    def _texts(self, documents: list[Document]) -> list[str]:
        if not isinstance(documents, list) or not all(isinstance(one, Document) for one in documents):
            raise TypeError("documents: expected a list of Document; AccelerdTextEmbedder embeds a text")
        return [self.embedding_separator.join([*self._meta_texts(one), one.content or ""]) for one in documents]

    def _meta_texts(self, document: Document) -> list[str]:
        values = [document.meta.get(name) for name in self.meta_fields_to_embed]
        return [str(value) for value in values if value is not None]

    def _embedded(self, documents: list[Document], vectors: list[list[float]]) -> dict[str, Any]:
        embedded = [replace(one, embedding=vector) for one, vector in zip(documents, vectors, strict=True)]
        return {"documents": embedded, "meta": {"model": self.model}}


def _embedder_to_dict(embedder: Any, **more: Any) -> dict[str, Any]:
    names = ("model", "target", "token", "prefix", "prompt_name", "options")
    found: dict[str, Any] = default_to_dict(embedder, **{name: getattr(embedder, name) for name in names}, **more)
    return found


@component
class AccelerdRanker:
    """Ranks documents by a cross-encoder of the daemon."""

    def __init__(
        self,
        model: str,
        *,
        target: str | None = None,
        token: Secret | None = _TOKEN,
        top_k: int = 10,
        max_tokens: int = 0,
    ) -> None:
        """Create the component.

        Args:
            model: Name or alias of a loaded cross-encoder.
            target: Address of the daemon, by default that of the environment variable ACCELERD_SERVER.
            token: Token of the caller.
            top_k: How many documents to return.
            max_tokens: Maximum tokens of the query and a document together; 0 means the model's limit.
        """
        self.model, self.target, self.token, self.max_tokens = model, target, token, max_tokens
        self.top_k = _checked_top_k(top_k)
        self._clients = _clients(target, token)

    def to_dict(self) -> dict[str, Any]:
        """Serialize the component."""
        names = ("model", "target", "token", "top_k", "max_tokens")
        found: dict[str, Any] = default_to_dict(self, **{name: getattr(self, name) for name in names})
        return found

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> AccelerdRanker:
        """Deserialize a component."""
        found: AccelerdRanker = default_from_dict(cls, data)
        return found

    @component.output_types(documents=list[Document])
    def run(self, query: str, documents: list[Document], top_k: int | None = None) -> dict[str, Any]:
        """Return the best documents with their scores, best first."""
        options, texts = self._options(top_k), [one.content or "" for one in documents]
        return self._ranked(documents, self._clients.blocking.rerank(query, texts, **options) if texts else [])

    @component.output_types(documents=list[Document])
    async def run_async(self, query: str, documents: list[Document], top_k: int | None = None) -> dict[str, Any]:
        """Return the best documents with their scores, best first."""
        options, texts = self._options(top_k), [one.content or "" for one in documents]
        return self._ranked(documents, await self._clients.asyncio.rerank(query, texts, **options) if texts else [])

    def _options(self, top_k: int | None) -> dict[str, Any]:
        top_n = self.top_k if top_k is None else _checked_top_k(top_k)
        return {"model": self.model, "top_n": top_n, "max_tokens": self.max_tokens}

    def _ranked(self, documents: list[Document], ranks: Any) -> dict[str, Any]:
        return {"documents": [replace(one, score=score) for one, score in ranked(documents, ranks)]}


def _checked_top_k(top_k: int) -> int:
    if top_k <= 0:
        raise ValueError(f"top_k: expected at least 1, got {top_k}")
    return top_k


class AccelerdDocumentStore:
    """Documents in a collection of the daemon, which is created with the first document.

    Ids may be any text. A document without an embedding is stored, counted and filtered, and is in no search.
    """

    def __init__(
        self,
        collection: str = "documents",
        *,
        target: str | None = None,
        token: Secret | None = _TOKEN,
        dimensions: int = 768,
        metric: Metric = "cosine",
    ) -> None:
        """Create a store, without a call to the daemon.

        Args:
            collection: Name of the collection, which may exist.
            target: Address of the daemon, by default that of the environment variable ACCELERD_SERVER.
            token: Token of the caller.
            dimensions: Dimensions of a new collection, where the first documents have no embeddings.
            metric: Metric of a new collection.
        """
        self.collection, self.target, self.token = collection, target, token
        self.dimensions, self.metric = dimensions, metric
        self._clients = _clients(target, token)
        self._settings = DocumentSettings(
            collection, dimensions=dimensions, metric=metric, text_field=_TEXT_FIELD, may_lack_vectors=True
        )

    def to_dict(self) -> dict[str, Any]:
        """Serialize the store."""
        names = ("collection", "target", "token", "dimensions", "metric")
        found: dict[str, Any] = default_to_dict(self, **{name: getattr(self, name) for name in names})
        return found

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> AccelerdDocumentStore:
        """Deserialize a store."""
        found: AccelerdDocumentStore = default_from_dict(cls, data)
        return found

    @property
    def _documents(self) -> Documents:
        return self._clients.documents(self._settings)

    @property
    def _async_documents(self) -> AsyncDocuments:
        return self._clients.async_documents(self._settings)

    def count_documents(self) -> int:
        """Return the number of documents."""
        return self._documents.count()

    async def count_documents_async(self) -> int:
        """Return the number of documents."""
        return await self._async_documents.count()

    def count_documents_by_filter(self, filters: dict[str, Any]) -> int:
        """Return the number of documents that match."""
        return self._documents.count(metadata_filter(filters))

    async def count_documents_by_filter_async(self, filters: dict[str, Any]) -> int:
        """Return the number of documents that match."""
        return await self._async_documents.count(metadata_filter(filters))

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """Return the documents that match, with embeddings, in the order of the ids of their points."""
        return [_document(one) for one in self._documents.list(metadata_filter(filters), vectors=True)]

    async def filter_documents_async(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """Return the documents that match, with embeddings, in the order of the ids of their points."""
        return [_document(one) for one in await self._async_documents.list(metadata_filter(filters), vectors=True)]

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        """Write documents, and return how many were written.

        Args:
            documents: The documents.
            policy: What happens to a document whose id exists, or is there twice: FAIL, which NONE means, writes no
                document and raises a `DuplicateDocumentError`, SKIP keeps the first and OVERWRITE the last.
        """
        records = _records(documents)
        if policy != DuplicatePolicy.OVERWRITE:
            there = {one.id for one in self._documents.get([record.id for record in records])}
            records = _new_records(records, there, policy)
        self._documents.write(records)
        return len({record.id for record in records})

    async def write_documents_async(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        """Write documents, and return how many were written, as `write_documents` does."""
        records = _records(documents)
        if policy != DuplicatePolicy.OVERWRITE:
            there = {one.id for one in await self._async_documents.get([record.id for record in records])}
            records = _new_records(records, there, policy)
        await self._async_documents.write(records)
        return len({record.id for record in records})

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete documents by id; unknown ones are no error."""
        self._documents.delete(document_ids)

    async def delete_documents_async(self, document_ids: list[str]) -> None:
        """Delete documents by id; unknown ones are no error."""
        await self._async_documents.delete(document_ids)

    def delete_all_documents(self, recreate_collection: bool = False) -> None:
        """Delete all documents; with `recreate_collection` the collection, too, which the next document creates."""
        if recreate_collection:
            self._documents.clear()
        else:
            self._documents.delete_where(EVERYTHING)

    async def delete_all_documents_async(self, recreate_collection: bool = False) -> None:
        """Delete all documents; with `recreate_collection` the collection, too, which the next document creates."""
        if recreate_collection:
            await self._async_documents.clear()
        else:
            await self._async_documents.delete_where(EVERYTHING)

    def delete_by_filter(self, filters: dict[str, Any]) -> int:
        """Delete the documents that match, and return how many there were."""
        return self._documents.delete_where(metadata_filter(filters))

    async def delete_by_filter_async(self, filters: dict[str, Any]) -> int:
        """Delete the documents that match, and return how many there were."""
        return await self._async_documents.delete_where(metadata_filter(filters))

    def update_by_filter(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """Set metadata of the documents that match, and return how many there were."""
        found = self._documents.list(metadata_filter(filters), vectors=True)
        self._documents.write(_updated(found, meta))
        return len(found)

    async def update_by_filter_async(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """Set metadata of the documents that match, and return how many there were."""
        found = await self._async_documents.list(metadata_filter(filters), vectors=True)
        await self._async_documents.write(_updated(found, meta))
        return len(found)

    def _search(
        self, embedding: list[float], filters: dict[str, Any] | None, top_k: int, return_embedding: bool
    ) -> list[Document]:
        documents = self._documents
        found = documents.search(top_k, metadata_filter(filters), vectors=[embedding])
        stored = documents.get([record.id for record in found], vectors=True) if return_embedding else ()
        return _scored(found, documents.metric(), stored)

    async def _search_async(
        self, embedding: list[float], filters: dict[str, Any] | None, top_k: int, return_embedding: bool
    ) -> list[Document]:
        documents = self._async_documents
        found = await documents.search(top_k, metadata_filter(filters), vectors=[embedding])
        stored = await documents.get([record.id for record in found], vectors=True) if return_embedding else ()
        return _scored(found, await documents.metric(), stored)


@component
class AccelerdEmbeddingRetriever:
    """Finds the documents whose embeddings are nearest to that of a query, exactly."""

    def __init__(
        self,
        document_store: AccelerdDocumentStore,
        *,
        filters: dict[str, Any] | None = None,
        top_k: int = 10,
        return_embedding: bool = False,
        filter_policy: str | FilterPolicy = FilterPolicy.REPLACE,
    ) -> None:
        """Create the component.

        Args:
            document_store: The store.
            filters: Conditions of every search.
            top_k: How many documents to return.
            return_embedding: Whether documents have their embeddings.
            filter_policy: Whether the filters of a run replace these, or are merged with them.
        """
        if not isinstance(document_store, AccelerdDocumentStore):
            got = type(document_store).__name__
            raise TypeError(f"document_store: expected an AccelerdDocumentStore, got {got}")
        self.document_store, self.filters, self.return_embedding = document_store, filters, return_embedding
        self.top_k = _checked_top_k(top_k)
        self.filter_policy = FilterPolicy(filter_policy)

    def to_dict(self) -> dict[str, Any]:
        """Serialize the component."""
        found: dict[str, Any] = default_to_dict(
            self,
            document_store=self.document_store,
            filters=self.filters,
            top_k=self.top_k,
            return_embedding=self.return_embedding,
            filter_policy=self.filter_policy.value,
        )
        return found

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> AccelerdEmbeddingRetriever:
        """Deserialize a component."""
        found: AccelerdEmbeddingRetriever = default_from_dict(cls, data)
        return found

    @component.output_types(documents=list[Document])
    def run(
        self, query_embedding: list[float], filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, Any]:
        """Return the nearest documents, best first."""
        return {"documents": self.document_store._search(query_embedding, *self._options(filters, top_k))}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query_embedding: list[float], filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, Any]:
        """Return the nearest documents, best first."""
        options = self._options(filters, top_k)
        return {"documents": await self.document_store._search_async(query_embedding, *options)}

    def _options(self, given: dict[str, Any] | None, top_k: int | None) -> tuple[dict[str, Any] | None, int, bool]:
        where = apply_filter_policy(self.filter_policy, self.filters, given)
        return where, self.top_k if top_k is None else _checked_top_k(top_k), self.return_embedding


def _records(documents: Any) -> list[Record]:
    if not isinstance(documents, list) or not all(isinstance(one, Document) for one in documents):
        raise ValueError(f"documents: expected a list of Document, got {type(documents).__name__} {documents!r:.100}")
    return [_record(one) for one in documents]


def _record(document: Document) -> Record:
    rest = document.to_dict(flatten=False)
    extra = {name: rest[name] for name in ("blob", "sparse_embedding", "score") if rest.get(name) is not None}
    vector = None if document.embedding is None else np.asarray(document.embedding, np.float32)
    return Record(document.id, document.content, document.meta, extra or None, vector)


def _document(record: Record) -> Document:
    found: Document = Document.from_dict({"id": record.id, "content": record.text, **(record.extra or {})})
    vector = None if record.vector is None else record.vector.tolist()
    return replace(found, meta=record.metadata, embedding=vector)


def _scored(found: Sequence[Record], metric: str, stored: Sequence[Record]) -> list[Document]:
    vectors = {record.id: record.vector for record in stored}
    return [
        replace(
            _document(record._replace(vector=vectors.get(record.id))),
            # As in other stores, the score of a metric for which higher is better is that of the metric.
            score=relevance(record.score, metric) if metric == "squared_l2" else record.score,
        )
        for record in found
    ]


def _new_records(records: list[Record], there: set[str], policy: DuplicatePolicy) -> list[Record]:
    """Return the records whose ids are new, the first of each."""
    found = {}
    for record in records:
        if record.id in there or record.id in found:
            if policy != DuplicatePolicy.SKIP:
                raise DuplicateDocumentError(f"documents: expected new ids, got {record.id!r}, which exists")
            continue
        found[record.id] = record
    return [*found.values()]


def _updated(records: Sequence[Record], meta: dict[str, Any]) -> list[Record]:
    return [record._replace(metadata={**record.metadata, **meta}) for record in records]


def metadata_filter(given: dict[str, Any] | None) -> Filter:
    """Return a filter of Haystack.

    Raises:
        FilterError: The filter is malformed, or an operand is of another type than its operator takes.
    """
    if not given:
        return EVERYTHING
    try:
        return _filter(given)
    except ValueError as wrong:
        raise FilterError(str(wrong)) from None


def _filter(given: Any) -> Filter:
    if not isinstance(given, dict):
        raise FilterError(f"filters: expected a dict, got {type(given).__name__}")
    if "field" in given:
        return _comparison(given)
    for key in ("operator", "conditions"):
        if key not in given:
            raise FilterError(f"filters: expected the key {key!r}, got {sorted(given)}")
    parts = [_filter(one) for one in given["conditions"]]
    if given["operator"] == "AND":
        return filters.all_of(parts)
    if given["operator"] == "OR":
        return filters.any_of(parts)
    if given["operator"] == "NOT":
        return filters.negated(filters.all_of(parts))
    raise FilterError(f"operator: expected AND, OR or NOT, got {given['operator']!r}")


def _comparison(given: dict[str, Any]) -> Filter:
    for key in ("operator", "value"):
        if key not in given:
            raise FilterError(f"filters: expected the key {key!r}, got {sorted(given)}")
    operator, value = given["operator"], given["value"]
    if operator not in _OPERATORS:
        raise FilterError(f"operator: expected one of {', '.join(_OPERATORS)}, got {operator!r}")
    if operator in ("in", "not in") and not isinstance(value, list):
        raise FilterError(f"{given['field']} {operator}: expected a list, got {type(value).__name__}")
    return _OPERATORS[operator](_field(given["field"]), value)


def _field(name: Any) -> Field:
    if not isinstance(name, str):
        raise FilterError(f"field: expected str, got {type(name).__name__} {name!r}")
    if name == "id":
        return Field(name, None, lambda record: record.id)
    if name == "content":
        return Field(name, _TEXT_FIELD, lambda record: record.text)
    if name in ("embedding", "blob", "score", "sparse_embedding"):
        raise FilterError(f"field: expected id, content or metadata, got {name!r}")
    key = name.removeprefix("meta.")
    is_reserved = key in RESERVED or key == _TEXT_FIELD
    return Field(name, None if is_reserved else key, lambda record: nested(record.metadata, key))


_OPERATORS: dict[str, Callable[[Field, Any], Filter]] = {
    "==": filters.equal,
    "!=": lambda field, value: filters.negated(filters.equal(field, value)),
    ">": lambda field, value: filters.compared(field, ">", value),
    ">=": lambda field, value: filters.compared(field, ">=", value),
    "<": lambda field, value: filters.compared(field, "<", value),
    "<=": lambda field, value: filters.compared(field, "<=", value),
    "in": filters.among,
    "not in": lambda field, value: filters.negated(filters.among(field, value)),
}
