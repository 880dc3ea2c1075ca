# Generated from _aio_documents.py by generate.py; do not edit.
"""Documents of other libraries in a collection, by the blocking client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ._blocking_client import Client
from ._documents_settings import DocumentSettings
from ._errors import AlreadyExistsError, NotFoundError
from ._metadata_filters import EVERYTHING, Clause, Filter
from ._payload import Id
from ._records import NO_VECTOR, Record, from_point, point_id, to_payload

# The daemon's maximum for the hits of a query.
_MAX_HITS = 16_384


class Documents:
    """Documents in a collection. Reads of one that does not exist find nothing."""

    def __init__(self, client: Client, settings: DocumentSettings) -> None:
        self._client = client
        self._settings = settings
        self._points = client.collection(settings.name)

    def write(self, records: Sequence[Record]) -> None:
        """Insert documents, and replace those whose ids exist; of equal ids the last is written."""
        # The daemon refuses a call with an id twice.
        latest = [*{record.id: record for record in records}.values()]
        if not latest:
            return
        ids: list[Id] = [point_id(record.id) for record in latest]
        payloads = [to_payload(record, self._settings.text_field) for record in latest]
        texts, vectors = None, None
        if self._settings.model:
            texts = [record.text or "" for record in latest]
        else:
            vectors = self._vectors(latest, payloads)
        try:
            self._points.upsert(ids, texts=texts, vectors=vectors, payloads=payloads)
        except NotFoundError:
            self._create(self._settings.dimensions if vectors is None else len(vectors[0]))
            self._points.upsert(ids, texts=texts, vectors=vectors, payloads=payloads)

    def _vectors(self, records: Sequence[Record], payloads: Sequence[dict[str, Any]]) -> list[Any]:
        """Return the vectors of documents. One without has a placeholder."""
        given = [record.vector for record in records]
        dimensions = next((len(vector) for vector in given if vector is not None), self._settings.dimensions)
        if not dimensions or (not self._settings.may_lack_vectors and any(vector is None for vector in given)):
            raise ValueError("vectors: expected a vector for each document, got one without")
        placeholder = np.zeros(dimensions, np.float32)
        for payload, vector in zip(payloads, given, strict=True):
            if vector is None:
                payload[NO_VECTOR] = True
        return [placeholder if vector is None else vector for vector in given]

    def _create(self, dimensions: int) -> None:
        settings = self._settings
        # Another program may have been faster.
        with suppress(AlreadyExistsError):
            self._client.create_collection(
                settings.name,
                dimensions=dimensions,
                metric=settings.metric,
                model=settings.model,
                text_field=settings.text_field if settings.hybrid else "",
            )

    def exists(self) -> bool:
        """Whether there is a collection."""
        try:
            self._points.describe()
        except NotFoundError:
            return False
        return True

    def query_vector(self, text: str) -> list[float] | None:
        """Embed a query with the collection's model and prompt; None if there is no collection."""
        try:
            info = self._points.describe()
        except NotFoundError:
            return None
        vector: list[float] = (self._client.embed([text], model=info.model, prompt=info.query_prompt))[0].tolist()
        return vector

    def metric(self) -> str:
        """Return the collection's metric."""
        with suppress(NotFoundError):
            return (self._points.describe()).metric
        return self._settings.metric

    def search(self, k: int, where: Filter = EVERYTHING, **query: Any) -> list[Record]:
        """Find the nearest documents, best first. The query is in the options of `Collection.search`."""
        if k < 0:
            raise ValueError(f"k: expected at least 0, got {k}")
        if k == 0:
            return []
        if query.get("hybrid") and len(where) > 1:
            raise ValueError("filter: a hybrid search ranks within a filter, and cannot merge alternatives (or)")
        found: dict[str, Record] = {}
        try:
            for clause in where:
                for record in self._search_clause(k, clause, query):
                    found.setdefault(record.id, record)
        except NotFoundError:
            # It may be the collection's model that does not exist.
            if self.exists():
                raise
        if len(where) < 2:
            return [*found.values()]
        sign = 1 if self.metric() == "squared_l2" else -1
        return sorted(found.values(), key=lambda record: sign * record.score)[:k]

    def _search_clause(self, k: int, clause: Clause, query: dict[str, Any]) -> list[Record]:
        # Hits that the client's checks refuse make place for others.
        limit = min(4 * k, _MAX_HITS) if clause.checks else k
        options: Any = {**query, "where": clause.must, "where_not": self._where_not(clause)}
        while True:
            (hits,) = self._points.search(**{**options, "k": limit})
            records = [from_point(hit, self._settings.text_field) for hit in hits]
            accepted = [record for record in records if clause.accepts(record)]
            if len(accepted) >= k or len(hits) < limit:
                return accepted[:k]
            if limit == _MAX_HITS:
                raise ValueError(
                    f"filter: expected {k} of the nearest {_MAX_HITS} documents to match what the client tests, got "
                    f"{len(accepted)}; the daemon itself tests equality, and ranges of numbers"
                )
            limit = min(4 * limit, _MAX_HITS)

    def _where_not(self, clause: Clause) -> tuple[tuple[str, Any], ...]:
        return (*clause.must_not, (NO_VECTOR, True)) if self._settings.may_lack_vectors else clause.must_not

    def get(self, ids: Sequence[str], *, vectors: bool = False) -> list[Record]:
        """Return documents by id, in the order of the ids. Unknown ids are omitted."""
        found: dict[str, Record] = {}
        with suppress(NotFoundError):
            for part in _id_parts(ids):
                for point in self._points.get(part, vectors=vectors):
                    record = from_point(point, self._settings.text_field)
                    found[record.id] = record
        return [found[id] for id in dict.fromkeys(ids) if id in found]

    def list(self, where: Filter = EVERYTHING, *, vectors: bool = False) -> list[Record]:
        """Return all documents that match, in ascending order of the ids of their points."""
        found: dict[str, Record] = {}
        with suppress(NotFoundError):
            for clause in where:
                for point in self._points.scroll(where=clause.must, where_not=clause.must_not, vectors=vectors):
                    record = from_point(point, self._settings.text_field)
                    if clause.accepts(record):
                        found.setdefault(record.id, record)
        return [*found.values()]

    def count(self, where: Filter = EVERYTHING) -> int:
        """Return the number of documents that match."""
        if not where:
            return 0
        if len(where) == 1 and not where[0].checks:
            with suppress(NotFoundError):
                return self._points.count(where=where[0].must, where_not=where[0].must_not)
            return 0
        return len(self.list(where))

    def delete(self, ids: Sequence[str]) -> int:
        """Delete documents by id. Returns how many there were."""
        deleted = 0
        with suppress(NotFoundError):
            for part in _id_parts(ids):
                deleted += self._points.delete_points(part)
        return deleted

    def delete_where(self, where: Filter) -> int:
        """Delete the documents that match. Returns how many there were."""
        if any(clause.checks for clause in where):
            return self.delete([record.id for record in self.list(where)])
        deleted = 0
        with suppress(NotFoundError):
            for clause in where:
                # The daemon refuses to delete without a condition; this one no point meets.
                where_not = clause.must_not if clause.must or clause.must_not else ((NO_VECTOR, []),)
                deleted += self._points.delete_points(where=clause.must, where_not=where_not)
        return deleted

    def clear(self) -> None:
        """Delete the collection. The next document creates it again."""
        with suppress(NotFoundError):
            self._points.delete()


def _id_parts(ids: Sequence[str]) -> Iterator[list[Id]]:
    """Iterate over the ids that points may have: the UUIDs, and the numbers of points of other programs."""
    distinct = [*dict.fromkeys(ids)]
    if distinct:
        yield [point_id(id) for id in distinct]
    numbers: list[Id] = [int(id) for id in distinct if _is_number(id)]
    if numbers:
        yield numbers


def _is_number(id: str) -> bool:
    """Whether an id is the text of a number that a point may have."""
    return id.isascii() and id.isdigit() and str(int(id[:20])) == id and int(id) < 1 << 64
