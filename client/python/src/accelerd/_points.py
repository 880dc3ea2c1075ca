"""Collections: requests that manage them, and that search, read and delete their points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, TypedDict, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._call import Operation, Part, SplitOperation
from ._choices import Fusion, Metric, Storage, number
from ._embed import text_input
from ._errors import malformed
from ._html import ResultList
from ._message import check_encodable, message
from ._methods import SimilarityService
from ._payload import (
    Id,
    Ids,
    Value,
    read_columns,
    read_ids,
    read_payloads,
    value_message,
)
from ._point_results import Hit, HitList, Hits, Point, PointList, Points, SearchResult
from ._proto import similarity_pb2 as pb
from ._proto import tensor_pb2
from ._results import CollectionInfo, Snapshot, collection, snapshot
from ._tensor import encode, to_array, to_rows

T = TypeVar("T")
#: A filter: conditions by payload field, or a list of pairs of both, which may have a field several times.
Where: TypeAlias = "Mapping[str, Any] | Sequence[tuple[str, Any]]"

_DURABILITIES: dict[bool | None, pb.Durability] = {
    None: pb.DURABILITY_UNSPECIFIED,
    True: pb.DURABILITY_LOG,
    False: pb.DURABILITY_MEMORY,
}


class Prompts(NamedTuple):
    """The prompts of a new collection; each has a name or a text."""

    document_prompt_name: str
    document_prompt: str | None
    query_prompt_name: str
    query_prompt: str | None


def create(
    name: str,
    dimensions: int,
    metric: Metric,
    storage: Storage,
    model: str,
    prompts: Prompts,
    text_field: str,
    durable: bool | None,
) -> Operation[None]:
    """Create a collection."""
    if durable is not None and not isinstance(durable, (bool, np.bool_)):
        raise TypeError(f"durable: expected a bool or None, got {type(durable).__name__}")
    request = message(
        pb.CreateCollectionRequest,
        name=name,
        dimensions=dimensions,
        metric=number("metric", pb.Metric, "METRIC", Metric, metric),
        storage=number("storage", tensor_pb2.Dtype, "DTYPE", Storage, storage),
        model=model,
        **prompts._asdict(),
        text_field=text_field,
        # Daemons of earlier versions know only this field.
        durable=bool(durable),
        durability=_DURABILITIES[None if durable is None else bool(durable)],
    )
    return Operation(SimilarityService.CREATE_COLLECTION, request, lambda _: None)


def list_collections() -> Operation[list[CollectionInfo]]:
    """List all collections."""
    return Operation(
        SimilarityService.LIST_COLLECTIONS,
        pb.ListCollectionsRequest(),
        lambda response: ResultList(collection(one) for one in response.collections),
    )


def restore(url: str, name: str) -> Operation[str]:
    """Restore a collection from a snapshot. The result is its name."""
    request = message(pb.RestoreCollectionRequest, url=url, name=name)
    return Operation(SimilarityService.RESTORE_COLLECTION, request, lambda response: str(response.collection.name))


def describe(name: str) -> Operation[CollectionInfo]:
    """Describe a collection."""
    return Operation(
        SimilarityService.GET_COLLECTION,
        message(pb.GetCollectionRequest, name=name),
        lambda response: collection(response.collection),
    )


def delete(name: str) -> Operation[None]:
    """Delete a collection."""
    return Operation(
        SimilarityService.DELETE_COLLECTION, message(pb.DeleteCollectionRequest, name=name), lambda _: None
    )


def create_snapshot(name: str, url: str) -> Operation[Snapshot]:
    """Create a snapshot."""
    request = message(pb.CreateSnapshotRequest, collection=name, url=url)
    return Operation(SimilarityService.CREATE_SNAPSHOT, request, lambda response: snapshot(response.snapshot))


def _condition(what: str, name: str, test: Any) -> pb.Condition:
    if not isinstance(name, str):
        raise TypeError(f"{what}: expected names of fields of type str, got {type(name).__name__} {name!r}")
    check_encodable(f"{what}: name", name)
    if isinstance(test, (range, tuple)):
        raise ValueError(
            f"{what}: expected slice(low, high) for a range, or a list for values of which one is equal, got {test!r}"
        )
    try:
        if isinstance(test, slice):
            if test.step is not None:
                raise ValueError(f"{what}: expected slice(low, high), got a step of {test.step}")
            return _range(what, name, test)
        if isinstance(test, (list, set, frozenset, np.ndarray)):
            values = [_value(what, value) for value in test]
            return pb.Condition(field=name, any_of=pb.ValueSet(values=values))
        return pb.Condition(field=name, equals=_value(what, test))
    except TypeError as wrong:
        raise TypeError(
            f"{what}: expected a value, a list of values or slice(low, high) of numbers, got {test!r}"
        ) from wrong


def _range(what: str, name: str, bounds: slice) -> pb.Condition:
    given = {"gte": bounds.start, "lt": bounds.stop}
    given = {bound: value for bound, value in given.items() if value is not None}
    if all(map(_is_double, given.values())):
        # The form that daemons of earlier versions know as well.
        return pb.Condition(field=name, range=pb.Range(**given))
    values = {bound: _value(what, value) for bound, value in given.items()}
    return pb.Condition(field=name, number_range=pb.NumberRange(**values))


def _value(what: str, value: Any) -> pb.Value:
    try:
        return value_message(value)
    except ValueError as wrong:
        raise ValueError(f"{what}: {wrong}") from None


def _is_double(value: Any) -> bool:
    """Return whether a bound is the same number as a double."""
    if not isinstance(value, (int, np.integer)):
        return True
    try:
        return int(float(value)) == int(value)
    except OverflowError:
        return False


def make_filter(
    where: Where | None, where_not: Where | None, ids: Iterable[Id] | NDArray[Any] | None = None
) -> pb.Filter | None:
    """Return the filter of conditions and ids; None if there are none. A list of no ids matches no point."""
    must, must_not = _pairs("where", where), _pairs("where_not", where_not)
    if not must and not must_not and ids is None:
        return None
    return pb.Filter(
        ids=None if ids is None else Ids(ids).unpacked(),
        must=[_condition(f"where[{name!r}]", name, test) for name, test in must],
        must_not=[_condition(f"where_not[{name!r}]", name, test) for name, test in must_not],
    )


def conditions(where: Where | None, where_not: Where | None) -> dict[str, str]:
    """Return the names of the conditions of a filter by their fields, for errors of the daemon."""
    return {
        f"filter.{part}[{at}]": f"{what}[{name!r}]"
        for part, what, tests in (("must", "where", where), ("must_not", "where_not", where_not))
        for at, (name, _) in enumerate(_pairs(what, tests))
    }


def _pairs(what: str, tests: Any) -> Sequence[tuple[str, Any]]:
    """Return the fields and conditions of an argument."""
    if isinstance(tests, Mapping):
        return [*tests.items()]
    if tests is None or (
        isinstance(tests, (list, tuple)) and all(isinstance(one, tuple) and len(one) == 2 for one in tests)
    ):
        return tests or ()
    raise TypeError(
        f"{what}: expected a dict of field to condition, or a list of pairs of these, got {type(tests).__name__}"
    )


class SearchOptions(TypedDict, total=False):
    """Arguments of `Collection.search`, which documents them."""

    texts: Sequence[str] | None
    vectors: ArrayLike | None
    ids: Iterable[Id] | NDArray[Any] | None
    k: int
    offset: int
    threshold: float | None
    where: Where | None
    where_not: Where | None
    payload: bool
    hybrid: bool
    fusion: Fusion | None
    text_weight: float | None
    prompt_name: str
    prompt: str | None


def _search_request(name: str, options: SearchOptions) -> pb.SearchRequest:
    if unknown := options.keys() - SearchOptions.__annotations__.keys():
        raise TypeError(f"unknown options: {', '.join(sorted(unknown))}")
    texts, vectors, ids = options.get("texts"), options.get("vectors"), options.get("ids")
    fusion, text_weight, hybrid = options.get("fusion"), options.get("text_weight"), options.get("hybrid", False)
    if not hybrid and (fusion is not None or text_weight is not None):
        raise ValueError("fusion and text_weight require hybrid=True")
    given = [what for what, one in (("texts", texts), ("vectors", vectors), ("ids", ids)) if one is not None]
    if len(given) != 1:
        raise ValueError(f"expected one of texts, vectors and ids, got {' and '.join(given) or 'none'}")
    request = message(
        pb.SearchRequest,
        {"limit": "k", "score_threshold": "threshold", "include_payload": "payload"},
        collection=name,
        texts=None if texts is None else text_input(texts),
        ids=None if ids is None else Ids(ids).message(),
        limit=options.get("k", 10),
        offset=options.get("offset", 0),
        score_threshold=options.get("threshold"),
        filter=make_filter(options.get("where"), options.get("where_not")),
        include_payload=options.get("payload", True),
        hybrid=hybrid,
        fusion=None if fusion is None else number("fusion", pb.Fusion, "FUSION", Fusion, fusion),
        text_weight=text_weight,
        prompt_name=options.get("prompt_name", ""),
        prompt=options.get("prompt"),
        columns=True,
    )
    if vectors is not None:
        request.vectors.ParseFromString(b"".join(encode(to_rows(vectors))))
    return request


def search(name: str, options: SearchOptions) -> Operation[SearchResult]:
    """Search; the result is a list of hits per query."""
    return _search(name, options, _read_hits)


def split_search(name: str, options: SearchOptions) -> SplitOperation[SearchResult]:
    """Search as `search` does, in several calls if the queries or their hits exceed a message."""
    return _split(name, options, search, lambda done: SearchResult(hits for _, found in done for hits in found))


def split_search_columns(name: str, options: SearchOptions) -> SplitOperation[Hits]:
    """Search as `search_columns` does, in several calls if the queries or their hits exceed a message."""
    return _split(name, options, search_columns, lambda done: _joined([hits for _, hits in done]))


def _split(
    name: str,
    options: SearchOptions,
    search: Callable[[str, SearchOptions], Operation[T]],
    join: Callable[[list[tuple[Any, T]]], T],
) -> SplitOperation[T]:
    if (ids := options.get("ids")) is not None and not isinstance(ids, (str, bytes, np.ndarray)):
        options = {**options, "ids": [*ids] if isinstance(ids, Iterable) else ids}
    whole = search(name, options)
    queries: Any = [*whole.request.texts.values]  # type: ignore[union-attr]
    argument = "texts"
    if options.get("vectors") is not None:
        argument, queries = "vectors", to_rows(options["vectors"])  # type: ignore[arg-type]
    elif ids is not None:
        argument, queries = "ids", options["ids"]
    count = len(queries)

    def operation(part: Part) -> Operation[T]:
        if len(part) == count:
            return whole
        some: Any = {**options, argument: queries[part.start : part.stop]}
        return search(name, some)

    parts = [Part(0, count)] if count else []
    return SplitOperation(parts, operation, join, argument=argument)


def search_columns(name: str, options: SearchOptions) -> Operation[Hits]:
    """Search; the result is columns of hits."""
    return _search(name, options, _read_hit_columns)


def _search(name: str, options: SearchOptions, decode: Callable[[Any], T]) -> Operation[T]:
    named = conditions(options.get("where"), options.get("where_not"))
    return Operation(SimilarityService.SEARCH, _search_request(name, options), decode, named)


def _joined(found: list[Hits]) -> Hits:
    if len(found) == 1:
        return found[0]
    counts = np.concatenate([np.zeros(1, np.uint32), *(np.diff(hits.offsets) for hits in found)])
    names = dict.fromkeys(name for hits in found for name in hits.payloads)
    return Hits(
        np.cumsum(counts, dtype=np.uint32),
        [one for hits in found for one in hits.ids],
        np.concatenate([np.zeros(0, np.float32), *(hits.scores for hits in found)]),
        {name: [one for hits in found for one in _column(hits, name)] for name in names},
    )


def _column(hits: Hits, name: str) -> list[Value | None]:
    return hits.payloads.get(name) or [None] * len(hits.ids)


def _hit_columns(response: pb.SearchResponse) -> tuple[NDArray[np.uint32], list[int | str], NDArray[np.float32]]:
    if not response.HasField("columns"):
        raise malformed("hits without columns")
    columns = response.columns
    offsets, scores = np.frombuffer(columns.offsets, "<u4"), np.frombuffer(columns.scores, "<f4")
    ids = read_ids(columns.ids)
    if not len(offsets) or not int(offsets[-1]) == len(ids) == len(scores):
        raise malformed(f"{len(ids)} ids and {len(scores)} scores")
    return offsets, ids, scores


def _read_hits(response: pb.SearchResponse) -> SearchResult:
    offsets, ids, scores = _hit_columns(response)
    payloads = read_payloads(response.columns.payloads, len(ids))
    hits = list(map(Hit._make, zip(ids, scores.tolist(), payloads, strict=True)))
    bounds = offsets.tolist()
    return SearchResult(HitList(hits[start:stop]) for start, stop in pairwise(bounds))


def _read_hit_columns(response: pb.SearchResponse) -> Hits:
    offsets, ids, scores = _hit_columns(response)
    return Hits(offsets, ids, scores, read_columns(response.columns.payloads, len(ids)))


def get_points(name: str, ids: Iterable[Id] | NDArray[Any], vectors: bool) -> Operation[PointList]:
    """Get points by id."""
    request = message(
        pb.GetPointsRequest,
        {"include_vectors": "vectors"},
        collection=name,
        ids=Ids(ids).message(),
        include_vectors=vectors,
        columns=True,
    )
    return Operation(SimilarityService.GET_POINTS, request, lambda response: _read_points(response, vectors))


class Scroll:
    """An iteration over pages of points, one call per page."""

    def __init__(
        self,
        name: str,
        where: Where | None,
        where_not: Where | None,
        page_size: int,
        payload: bool,
        vectors: bool,
    ) -> None:
        self._request = message(
            pb.ScrollPointsRequest,
            {"limit": "page_size", "include_payload": "payload", "include_vectors": "vectors"},
            collection=name,
            filter=make_filter(where, where_not),
            limit=page_size,
            include_payload=payload,
            include_vectors=vectors,
            columns=True,
        )
        self._has_vectors = vectors
        self._conditions = conditions(where, where_not)
        self.is_done = False

    def next_points(self) -> Operation[PointList]:
        """Return the call for the next page."""
        return self._page(lambda response: _read_points(response, self._has_vectors))

    def next_columns(self) -> Operation[Points]:
        """Return the call for the next page, as columns."""
        return self._page(lambda response: _read_point_columns(response, self._has_vectors))

    def _page(self, read: Callable[[Any], Any]) -> Operation[Any]:
        request = pb.ScrollPointsRequest()
        request.CopyFrom(self._request)

        def decode(response: pb.ScrollPointsResponse) -> Any:
            self._request.cursor = response.next_cursor
            self.is_done = not response.next_cursor
            return read(response)

        return Operation(SimilarityService.SCROLL_POINTS, request, decode, self._conditions)


def _read_vectors(response: Any, has_vectors: bool, count: int) -> NDArray[np.float32] | None:
    if not has_vectors:
        return None
    rows: NDArray[np.float32] = to_array(response.vectors) if count else np.zeros((0, 0), np.float32)
    if len(rows) != count:
        raise malformed(f"{len(rows)} vectors for {count} points")
    return rows


def _read_points(response: Any, has_vectors: bool) -> PointList:
    ids = read_ids(response.ids)
    rows = _read_vectors(response, has_vectors, len(ids))
    payloads = read_payloads(response.payload_columns, len(ids))
    vectors: Iterable[Any] = [None] * len(ids) if rows is None else rows
    return PointList(map(Point._make, zip(ids, payloads, vectors, strict=True)))


def _read_point_columns(response: Any, has_vectors: bool) -> Points:
    ids = read_ids(response.ids)
    payloads = read_columns(response.payload_columns, len(ids))
    return Points(ids, payloads, _read_vectors(response, has_vectors, len(ids)))


def count(name: str, where: Where | None, where_not: Where | None) -> Operation[int]:
    """Count points."""
    request = message(pb.CountPointsRequest, collection=name, filter=make_filter(where, where_not))
    named = conditions(where, where_not)
    return Operation(SimilarityService.COUNT_POINTS, request, lambda response: int(response.point_count), named)


def delete_points(
    name: str,
    ids: Iterable[Id] | NDArray[Any] | None,
    where: Where | None,
    where_not: Where | None,
) -> Operation[int]:
    """Delete points."""
    request = message(pb.DeletePointsRequest, collection=name, filter=make_filter(where, where_not, ids))
    named = conditions(where, where_not)
    return Operation(SimilarityService.DELETE_POINTS, request, lambda response: int(response.deleted_count), named)
