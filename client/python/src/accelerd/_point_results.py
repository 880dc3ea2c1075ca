"""Hits of searches and points of collections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _html, _tables
from ._payload import Value

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


class Hit(NamedTuple):
    """A point that a search found."""

    id: int | str
    score: float
    payload: dict[str, Value]


class HitList(list[Hit]):
    """The hits of a query, best first."""

    def to_arrow(self) -> pa.Table:
        """Return a `pyarrow.Table` with the columns `id`, `score` and one for each payload field."""
        return _tables.to_arrow(*_hit_columns(self))

    def to_pandas(self) -> pd.DataFrame:
        """Return a `pandas.DataFrame` with the columns `id`, `score` and one for each payload field."""
        return _tables.to_pandas(*_hit_columns(self))

    def _repr_html_(self) -> str:
        names = _first_names(hit.payload for hit in self[: _html.MAX_ROWS])
        rows = ([hit.id, hit.score, *(hit.payload.get(name) for name in names)] for hit in self)
        return _html.table(f"{len(self):,} hits", ["id", "score", *names], rows, len(self))


class SearchResult(list[HitList]):
    """The hits of each query of a search."""

    def to_arrow(self) -> pa.Table:
        """Return a `pyarrow.Table` of all hits: `query`, `id`, `score` and a column for each payload field."""
        return _tables.to_arrow(*self._columns())

    def to_pandas(self) -> pd.DataFrame:
        """Return a `pandas.DataFrame` of all hits: `query`, `id`, `score` and a column for each payload field."""
        return _tables.to_pandas(*self._columns())

    def _columns(self) -> tuple[dict[str, Any], dict[str, list[Value | None]]]:
        columns, payloads = _hit_columns([hit for hits in self for hit in hits])
        return {"query": np.repeat(np.arange(len(self)), [len(hits) for hits in self]), **columns}, payloads

    def _repr_html_(self) -> str:
        count = sum(map(len, self))
        hits = ((at, hit) for at, found in enumerate(self) for hit in found)
        shown = [pair for pair, _ in zip(hits, range(_html.MAX_ROWS), strict=False)]
        names = _first_names(hit.payload for _, hit in shown)
        rows = ([at, hit.id, hit.score, *(hit.payload.get(name) for name in names)] for at, hit in shown)
        caption = f"{count:,} hits of {len(self):,} queries"
        return _html.table(caption, ["query", "id", "score", *names], rows, count)


class Hits(NamedTuple):
    """The hits of all queries as columns. The hits of a query are best first."""

    #: uint32 [queries + 1], the index of each query's first hit, followed by the number of hits.
    offsets: NDArray[np.uint32]
    ids: list[int | str]
    #: float32 [hits].
    scores: NDArray[np.float32]
    #: The values of the hits by field, None where a hit has none.
    payloads: dict[str, list[Value | None]]

    def to_arrow(self) -> pa.Table:
        """Return a `pyarrow.Table` with the columns `query`, `id`, `score` and one for each payload field."""
        return _tables.to_arrow(self._columns(), self.payloads)

    def to_pandas(self) -> pd.DataFrame:
        """Return a `pandas.DataFrame` with the columns `query`, `id`, `score` and one for each payload field."""
        return _tables.to_pandas(self._columns(), self.payloads)

    def _columns(self) -> dict[str, Any]:
        queries = np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))
        return {"query": queries, "id": self.ids, "score": self.scores}

    def _repr_html_(self) -> str:
        first = slice(_html.MAX_ROWS)
        queries = np.searchsorted(self.offsets, np.arange(len(self.ids))[first], side="right") - 1
        columns = [queries.tolist(), self.ids[first], self.scores[first].tolist(), *self.payloads.values()]
        caption = f"{len(self.ids):,} hits of {len(self.offsets) - 1:,} queries"
        rows = [*zip(*(column[: _html.MAX_ROWS] for column in columns), strict=True)]
        return _html.table(caption, ["query", "id", "score", *self.payloads], rows, len(self.ids))


class Point(NamedTuple):
    """A stored point."""

    id: int | str
    payload: dict[str, Value]
    vector: NDArray[np.float32] | None


class PointList(list[Point]):
    """Points in the order of a call."""

    def to_arrow(self) -> pa.Table:
        """Return a `pyarrow.Table`: `id`, a column for each payload field, and `vector` if vectors were asked for."""
        return _tables.to_arrow(*self._columns())

    def to_pandas(self) -> pd.DataFrame:
        """Return a `pandas.DataFrame`: `id`, a column for each payload field, and `vector`, if asked for."""
        return _tables.to_pandas(*self._columns())

    def _columns(self) -> tuple[dict[str, Any], dict[str, list[Value | None]]]:
        columns: dict[str, Any] = {"id": [point.id for point in self]}
        vectors = [point.vector for point in self]
        if self and vectors[0] is not None:
            columns["vector"] = _matrix(vectors)
        return columns, _by_field([point.payload for point in self])

    def _repr_html_(self) -> str:
        names = _first_names(point.payload for point in self[: _html.MAX_ROWS])
        rows = ([point.id, point.vector, *(point.payload.get(name) for name in names)] for point in self)
        return _html.table(f"{len(self):,} points", ["id", "vector", *names], rows, len(self))


class Points(NamedTuple):
    """Stored points as columns."""

    ids: list[int | str]
    #: The values of the points by field, None where a point has none.
    payloads: dict[str, list[Value | None]]
    #: float32 [points, dimensions], if requested.
    vectors: NDArray[np.float32] | None

    def to_arrow(self) -> pa.Table:
        """Return a `pyarrow.Table`: `id`, a column for each payload field, and `vector`, whose elements are shared."""
        return _tables.to_arrow(self._columns(), self.payloads)

    def to_pandas(self) -> pd.DataFrame:
        """Return a `pandas.DataFrame`: `id`, a column for each payload field, and `vector`, a view in each row."""
        return _tables.to_pandas(self._columns(), self.payloads)

    def _columns(self) -> dict[str, Any]:
        return {"id": self.ids} if self.vectors is None else {"id": self.ids, "vector": self.vectors}

    def _repr_html_(self) -> str:
        vectors = [None] * len(self.ids) if self.vectors is None else self.vectors
        columns = [self.ids, vectors, *self.payloads.values()]
        rows = [*zip(*(column[: _html.MAX_ROWS] for column in columns), strict=True)]
        return _html.table(f"{len(self.ids):,} points", ["id", "vector", *self.payloads], rows, len(self.ids))


def joined(pages: list[Points]) -> Points:
    """Return the points of pages as one."""
    if len(pages) == 1:
        return pages[0]
    names = dict.fromkeys(name for page in pages for name in page.payloads)
    vectors = [page.vectors for page in pages if page.vectors is not None and len(page.ids)]
    return Points(
        [id for page in pages for id in page.ids],
        {name: [v for page in pages for v in page.payloads.get(name) or [None] * len(page.ids)] for name in names},
        np.concatenate(vectors) if vectors else None,
    )


def _hit_columns(hits: list[Hit]) -> tuple[dict[str, Any], dict[str, list[Value | None]]]:
    scores = np.array([hit.score for hit in hits], np.float32)
    return {"id": [hit.id for hit in hits], "score": scores}, _by_field([hit.payload for hit in hits])


def _by_field(payloads: list[dict[str, Value]]) -> dict[str, list[Value | None]]:
    return {name: [payload.get(name) for payload in payloads] for name in _first_names(payloads)}


def _first_names(payloads: Any) -> list[str]:
    return [*dict.fromkeys(name for payload in payloads for name in payload)]


def _matrix(vectors: list[Any]) -> NDArray[np.float32]:
    """Return rows as a matrix: the one whose rows they are, or a copy."""
    whole = vectors[0].base
    first = vectors[0].__array_interface__["data"][0]
    is_whole = isinstance(whole, np.ndarray) and whole.size == len(vectors) * vectors[0].size
    if is_whole and all(
        row.base is whole and row.__array_interface__["data"][0] == first + at * row.nbytes
        for at, row in enumerate(vectors)
    ):
        matrix: NDArray[np.float32] = whole.reshape(len(vectors), -1)
        return matrix
    return np.stack(vectors)
