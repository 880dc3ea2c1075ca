"""Calls of collections: their messages, and what their answers mean."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._call import Method, Operation, Part, Settings, parts_by_bytes
from ._embed import MAX_TEXTS, text_input
from ._errors import AccelerdError, MessageTooLargeError, from_item, malformed, too_large
from ._message import message
from ._payload import (
    Id,
    Ids,
    Payloads,
    PayloadTable,
    Value,
    read_columns,
    read_ids,
    read_payloads,
    value_message,
)
from ._proto import similarity_pb2 as pb
from ._proto import tensor_pb2
from ._results import CollectionInfo, Snapshot, collection, snapshot
from ._similar import metric_number
from ._tensor import encode, to_array, to_rows
from ._wire import Chunk, field, varint

_SERVICE = "SimilarityService"
CREATE = Method(_SERVICE, "CreateCollection", pb.CreateCollectionResponse, is_idempotent=False)
GET = Method(_SERVICE, "GetCollection", pb.GetCollectionResponse)
LIST = Method(_SERVICE, "ListCollections", pb.ListCollectionsResponse)
DELETE = Method(_SERVICE, "DeleteCollection", pb.DeleteCollectionResponse, is_idempotent=False)
UPSERT = Method(_SERVICE, "Upsert", pb.UpsertResponse)
UPSERT_STREAM = Method(_SERVICE, "UpsertStream", pb.UpsertStreamResponse)
DELETE_POINTS = Method(_SERVICE, "DeletePoints", pb.DeletePointsResponse)
SEARCH = Method(_SERVICE, "Search", pb.SearchResponse)
GET_POINTS = Method(_SERVICE, "GetPoints", pb.GetPointsResponse)
SCROLL = Method(_SERVICE, "ScrollPoints", pb.ScrollPointsResponse)
COUNT = Method(_SERVICE, "CountPoints", pb.CountPointsResponse)
CREATE_SNAPSHOT = Method(_SERVICE, "CreateSnapshot", pb.CreateSnapshotResponse, is_idempotent=False)
RESTORE = Method(_SERVICE, "RestoreCollection", pb.RestoreCollectionResponse, is_idempotent=False)

FUSIONS: dict[str, pb.Fusion] = {
    "relative_score": pb.FUSION_RELATIVE_SCORE,
    "reciprocal_rank": pb.FUSION_RECIPROCAL_RANK,
}
STORAGES: dict[str, tensor_pb2.Dtype] = {
    "": tensor_pb2.DTYPE_UNSPECIFIED,
    "f32": tensor_pb2.DTYPE_F32,
    "f16": tensor_pb2.DTYPE_F16,
    "bf16": tensor_pb2.DTYPE_BF16,
    "i8": tensor_pb2.DTYPE_I8,
}
# A bulk write sends messages of about this size. Larger ones are slower: a message is copied before it is sent, and the
# daemon works on none before it has come whole.
_BULK_BYTES = 2 << 20
_ID_BYTES = 38


class Hit(NamedTuple):
    """A point found."""

    id: int | str
    score: float
    payload: dict[str, Value]


class Hits(NamedTuple):
    """The hits of all queries as columns: query after query, the best first."""

    #: uint32 [queries + 1]: where the hits of each query start, then the number of all.
    offsets: NDArray[np.uint32]
    ids: list[int | str]
    #: float32 [hits].
    scores: NDArray[np.float32]
    #: For each field the value of each hit, None where it has none.
    payloads: dict[str, list[Value | None]]


class Point(NamedTuple):
    """A point read back."""

    id: int | str
    payload: dict[str, Value]
    vector: NDArray[np.float32] | None


class Points(NamedTuple):
    """Points as columns."""

    ids: list[int | str]
    #: For each field the value of each point, None where it has none.
    payloads: dict[str, list[Value | None]]
    #: float32 [points, dimensions], where they were asked for.
    vectors: NDArray[np.float32] | None


class UpsertStep(TypedDict, total=False):
    """One step of `upsert_many`: the arguments of `upsert`."""

    ids: Iterable[Id] | NDArray[Any]
    texts: Sequence[str] | None
    vectors: ArrayLike | None
    payloads: Payloads | None


def create(
    name: str, dimensions: int, metric: str, storage: str, model: str, text_field: str, durable: bool
) -> Operation[None]:
    """Makes a collection."""
    if storage not in STORAGES:
        raise ValueError(f"storage: expected one of f32, f16, bf16, i8, got {storage!r}")
    request = message(
        pb.CreateCollectionRequest,
        name=name,
        dimensions=dimensions,
        metric=metric_number(metric),
        storage=STORAGES[storage],
        model=model,
        text_field=text_field,
        durable=durable,
    )
    return Operation(CREATE, request, lambda _: None)


def list_collections() -> Operation[list[CollectionInfo]]:
    """Every collection."""
    return Operation(LIST, pb.ListCollectionsRequest(), lambda answer: [collection(one) for one in answer.collections])


def restore(url: str, name: str) -> Operation[str]:
    """Makes a collection of a snapshot; its name."""
    request = message(pb.RestoreCollectionRequest, url=url, name=name)
    return Operation(RESTORE, request, lambda answer: str(answer.collection.name))


def describe(name: str) -> Operation[CollectionInfo]:
    """What is known of a collection."""
    return Operation(GET, message(pb.GetCollectionRequest, name=name), lambda answer: collection(answer.collection))


def delete(name: str) -> Operation[None]:
    """Drops a collection."""
    return Operation(DELETE, message(pb.DeleteCollectionRequest, name=name), lambda _: None)


def create_snapshot(name: str, url: str) -> Operation[Snapshot]:
    """Writes a snapshot."""
    request = message(pb.CreateSnapshotRequest, collection=name, url=url)
    return Operation(CREATE_SNAPSHOT, request, lambda answer: snapshot(answer.snapshot))


class Upsert:
    """Points to write, checked, and their messages."""

    def __init__(
        self,
        name: str,
        ids: Iterable[Id] | NDArray[Any],
        texts: Sequence[str] | None,
        vectors: ArrayLike | None,
        payloads: Payloads | None,
        settings: Settings,
    ) -> None:
        if (texts is None) == (vectors is None):
            got = "neither" if texts is None else "both"
            raise ValueError(f"expected either texts or vectors, got {got}")
        self._name = name
        self._limit = settings.max_message_bytes
        self._ids = Ids(ids)
        self._rows = None if vectors is None else to_rows(vectors)
        self._texts = None if texts is None else [*text_input(texts).values]
        count = len(self._texts or ()) if self._rows is None else len(self._rows)
        if count != len(self._ids):
            what = "texts" if self._rows is None else "vectors"
            raise ValueError(f"{what}: expected {len(self._ids)}, as many as ids, got {count}")
        self._payloads = None if payloads is None else PayloadTable(payloads, count)
        self.whole = Part(0, count)

    def encode(self, part: Part) -> bytes:
        """The message of some of the points."""
        # Vectors come first, where the daemon reads them without a copy.
        chunks: list[Chunk] = []
        if self._rows is not None:
            chunks += field(pb.UpsertRequest.VECTORS_FIELD_NUMBER, encode(self._rows[part.start : part.stop]))
        request = pb.UpsertRequest(collection=self._name)
        if self._texts is not None:
            request.texts.values.extend(self._texts[part.start : part.stop])
        if self._payloads is not None:
            request.payload_columns.CopyFrom(self._payloads.message(part.start, part.stop))
        chunks += field(pb.UpsertRequest.IDS_FIELD_NUMBER, self._ids.encode(part.start, part.stop))
        return b"".join([*chunks, request.SerializeToString()])

    def one(self) -> Operation[int] | None:
        """All points in one call, all or none; None where a message holds fewer."""
        if self._least_bytes() > self._limit:
            return None
        encoded = self.encode(self.whole)
        if len(encoded) > self._limit:
            return None
        return Operation(UPSERT, encoded, lambda answer: int(answer.inserted_count))

    def _least_bytes(self) -> int:
        return sum(map(len, self._texts or ())) if self._rows is None else self._rows.nbytes

    def parts(self) -> list[Part]:
        """Parts for a bulk write."""
        if self._rows is not None:
            sizes: Iterable[int] = [4 * self._rows.shape[1] + _ID_BYTES] * len(self._rows)
        else:
            sizes = [len(text.encode()) + _ID_BYTES for text in self._texts or ()]
        return parts_by_bytes(sizes, min(_BULK_BYTES, self._limit), MAX_TEXTS)

    def encoded(self, part: Part) -> Iterator[tuple[Part, bytes]]:
        """The messages of a part: several where one would be too large."""
        encoded = self.encode(part)
        if len(encoded) <= self._limit:
            yield part, encoded
            return
        halves = part.halves()
        if halves is None:
            raise too_large(f"the point at {part.start}", len(encoded), self._limit)
        for half in halves:
            yield from self.encoded(half)

    def check_ids(self) -> None:
        """Raises for an id that is there twice: in one call the daemon would."""
        again = self._ids.repeated()
        if again is not None:
            raise ValueError(f"ids: expected each once, got {again!r} twice")


class SplitUpsert:
    """A write in parts over a stream that is opened again after a failure, from the first part without an answer."""

    def __init__(self, upsert: Upsert, settings: Settings) -> None:
        upsert.check_ids()
        self._upsert = upsert
        self._settings = settings
        self._left = deque(upsert.parts())
        self._sent: dict[int, Part] = {}
        self._next = 0
        self._stream = 0
        self._lock = threading.Lock()
        self._attempt = 1
        #: Points that are new.
        self.inserted = 0

    @property
    def is_done(self) -> bool:
        """Whether every part is written."""
        return not self._left and not self._sent

    def requests(self) -> Iterator[bytes]:
        """The messages of a stream, of all parts that have no answer. Ends those of an earlier stream."""
        with self._lock:
            self._stream += 1
            stream = self._stream
            self._left.extendleft(part for _, part in sorted(self._sent.items(), reverse=True))
            self._sent.clear()
        while messages := self._next_messages(stream):
            yield from messages

    def _next_messages(self, stream: int) -> list[bytes]:
        # gRPC takes messages on a thread of its own, which may outlive the stream by a moment.
        with self._lock:
            if stream != self._stream or not self._left:
                return []
            messages = []
            for part, encoded in self._upsert.encoded(self._left.popleft()):
                self._sent[self._next] = part
                messages.append(_stream_message(self._next, encoded))
                self._next += 1
            return messages

    def answered(self, answer: pb.UpsertStreamResponse) -> None:
        """Takes an answer; raises where its part was refused."""
        if answer.WhichOneof("result") == "error":
            raise from_item(answer.error)
        if self._sent.pop(answer.sequence, None) is None:
            raise malformed(f"an answer to step {answer.sequence}")
        self.inserted += answer.upsert.inserted_count
        self._attempt = 1

    def failed(self, problem: AccelerdError) -> float:
        """Seconds until the next attempt; raises what is final."""
        if isinstance(problem, MessageTooLargeError) and self._halve():
            return 0.0
        wait = self._settings.wait(problem, self._attempt, is_idempotent=True)
        if wait is None:
            raise problem
        self._attempt += 1
        return wait

    def _halve(self) -> bool:
        """Halves all parts without an answer; False where none can be."""
        with self._lock:
            self._stream += 1
            left = [part for _, part in sorted(self._sent.items())] + [*self._left]
            halved = [half for part in left for half in part.halves() or (part,)]
            self._sent.clear()
            self._left = deque(halved)
        return len(halved) > len(left)


class BulkUpsert:
    """A stream of writes: steps of any size."""

    def __init__(self, name: str, settings: Settings) -> None:
        self._name = name
        self._settings = settings
        #: For each message whether it is the last of its step; kept until it is answered.
        self._is_last: dict[int, bool] = {}
        self._next = 0
        self._inserted = 0

    def messages(self, step: UpsertStep) -> Iterator[bytes]:
        """The messages of a step."""
        upsert = self._checked(step)
        for encoded, is_last in _with_last(m for part in upsert.parts() for _, m in upsert.encoded(part)):
            sequence = self._next
            self._next += 1
            self._is_last[sequence] = is_last
            yield _stream_message(sequence, encoded)

    def _checked(self, step: UpsertStep) -> Upsert:
        if not isinstance(step, Mapping) or "ids" not in step or step.keys() - UpsertStep.__annotations__.keys():
            got = sorted(step) if isinstance(step, Mapping) else type(step).__name__
            raise TypeError(f"a step: expected a dict of ids and texts, vectors, payloads, got {got}")
        upsert = Upsert(
            self._name, step["ids"], step.get("texts"), step.get("vectors"), step.get("payloads"), self._settings
        )
        upsert.check_ids()
        return upsert

    def answered(self, answer: pb.UpsertStreamResponse) -> int | None:
        """Takes an answer: how many points of its step are new, where it was the step's last."""
        if answer.WhichOneof("result") == "error":
            raise from_item(answer.error)
        is_last = self._is_last.pop(answer.sequence, None)
        if is_last is None:
            raise malformed(f"an answer to step {answer.sequence}")
        self._inserted += answer.upsert.inserted_count
        if not is_last:
            return None
        inserted, self._inserted = self._inserted, 0
        return inserted


def _with_last(messages: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    held = next(messages)
    for following in messages:
        yield held, False
        held = following
    yield held, True


def _stream_message(sequence: int, upsert: bytes) -> bytes:
    # Field 1 is the sequence, a varint.
    return b"".join([b"\x08" + varint(sequence), *field(pb.UpsertStreamRequest.UPSERT_FIELD_NUMBER, [upsert])])


def _condition(name: str, test: Any) -> pb.Condition:
    if isinstance(test, range):
        raise ValueError(f"where[{name!r}]: expected slice(low, high) for a range, got {test}")
    try:
        if isinstance(test, slice):
            if test.step is not None:
                raise ValueError(f"where[{name!r}]: expected slice(low, high), got a step of {test.step}")
            return pb.Condition(field=name, range=pb.Range(gte=test.start, lt=test.stop))
        if isinstance(test, (list, tuple, set, frozenset, np.ndarray)):
            values = [value_message(value) for value in test]
            return pb.Condition(field=name, any_of=pb.ValueSet(values=values))
        return pb.Condition(field=name, equals=value_message(test))
    except TypeError as wrong:
        raise TypeError(
            f"where[{name!r}]: expected a value, a list of values or slice(low, high) of numbers, got {test!r}"
        ) from wrong


def make_filter(
    where: Mapping[str, Any] | None, where_not: Mapping[str, Any] | None, ids: Iterable[Id] | NDArray[Any] | None = None
) -> pb.Filter | None:
    """A filter of the tests given; None without any."""
    for what, tests in (("where", where), ("where_not", where_not)):
        if tests is not None and not isinstance(tests, Mapping):
            raise TypeError(f"{what}: expected a dict of field to test, got {type(tests).__name__}")
    if not where and not where_not and ids is None:
        return None
    return pb.Filter(
        ids=None if ids is None else Ids(ids).unpacked(),
        must=[_condition(name, test) for name, test in (where or {}).items()],
        must_not=[_condition(name, test) for name, test in (where_not or {}).items()],
    )


class SearchOptions(TypedDict, total=False):
    """What a search looks for, and how; `Collection.search` explains them."""

    texts: Sequence[str] | None
    vectors: ArrayLike | None
    ids: Iterable[Id] | NDArray[Any] | None
    k: int
    offset: int
    threshold: float | None
    where: Mapping[str, Any] | None
    where_not: Mapping[str, Any] | None
    payload: bool
    hybrid: bool
    fusion: str | None
    word_weight: float | None


def _search_request(name: str, options: SearchOptions) -> pb.SearchRequest:
    if unknown := options.keys() - SearchOptions.__annotations__.keys():
        raise TypeError(f"expected options of SearchOptions, got {', '.join(sorted(unknown))}")
    texts, vectors, ids = options.get("texts"), options.get("vectors"), options.get("ids")
    fusion, word_weight, hybrid = options.get("fusion"), options.get("word_weight"), options.get("hybrid", False)
    if not hybrid and (fusion is not None or word_weight is not None):
        raise ValueError("fusion and word_weight are for hybrid=True")
    if fusion is not None and fusion not in FUSIONS:
        raise ValueError(f"fusion: expected one of {', '.join(FUSIONS)}, got {fusion!r}")
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
        fusion=None if fusion is None else FUSIONS[fusion],
        word_weight=word_weight,
        columns=True,
    )
    if vectors is not None:
        request.vectors.ParseFromString(b"".join(encode(to_rows(vectors))))
    return request


def search(name: str, options: SearchOptions) -> Operation[list[list[Hit]]]:
    """Hits of each query."""
    return Operation(SEARCH, _search_request(name, options), _read_hits)


def search_columns(name: str, options: SearchOptions) -> Operation[Hits]:
    """Hits as columns."""
    return Operation(SEARCH, _search_request(name, options), _read_hit_columns)


def _hit_columns(answer: pb.SearchResponse) -> tuple[NDArray[np.uint32], list[int | str], NDArray[np.float32]]:
    if not answer.HasField("columns"):
        raise malformed("hits without columns")
    columns = answer.columns
    offsets, scores = np.frombuffer(columns.offsets, "<u4"), np.frombuffer(columns.scores, "<f4")
    ids = read_ids(columns.ids)
    if not len(offsets) or not int(offsets[-1]) == len(ids) == len(scores):
        raise malformed(f"{len(ids)} ids and {len(scores)} scores of hits")
    return offsets, ids, scores


def _read_hits(answer: pb.SearchResponse) -> list[list[Hit]]:
    offsets, ids, scores = _hit_columns(answer)
    payloads = read_payloads(answer.columns.payloads, len(ids))
    hits = list(map(Hit._make, zip(ids, scores.tolist(), payloads, strict=True)))
    bounds = offsets.tolist()
    return [hits[start:stop] for start, stop in pairwise(bounds)]


def _read_hit_columns(answer: pb.SearchResponse) -> Hits:
    offsets, ids, scores = _hit_columns(answer)
    return Hits(offsets, ids, scores, read_columns(answer.columns.payloads, len(ids)))


def get_points(name: str, ids: Iterable[Id] | NDArray[Any], vectors: bool) -> Operation[list[Point]]:
    """Reads points back."""
    request = pb.GetPointsRequest(collection=name, ids=Ids(ids).message(), include_vectors=vectors, columns=True)
    return Operation(GET_POINTS, request, lambda answer: _read_points(answer, vectors))


class Scroll:
    """Pages of points, one call each."""

    def __init__(
        self,
        name: str,
        where: Mapping[str, Any] | None,
        where_not: Mapping[str, Any] | None,
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
        self.is_done = False

    def next_points(self) -> Operation[list[Point]]:
        """The next page."""
        return self._page(lambda answer: _read_points(answer, self._has_vectors))

    def next_columns(self) -> Operation[Points]:
        """The next page as columns."""
        return self._page(lambda answer: _read_point_columns(answer, self._has_vectors))

    def _page(self, read: Callable[[Any], Any]) -> Operation[Any]:
        request = pb.ScrollPointsRequest()
        request.CopyFrom(self._request)

        def decode(answer: pb.ScrollPointsResponse) -> Any:
            self._request.cursor = answer.next_cursor
            self.is_done = not answer.next_cursor
            return read(answer)

        return Operation(SCROLL, request, decode)


def _read_vectors(answer: Any, has_vectors: bool, count: int) -> NDArray[np.float32] | None:
    if not has_vectors:
        return None
    rows: NDArray[np.float32] = to_array(answer.vectors) if count else np.zeros((0, 0), np.float32)
    if len(rows) != count:
        raise malformed(f"{len(rows)} vectors of {count} points")
    return rows


def _read_points(answer: Any, has_vectors: bool) -> list[Point]:
    ids = read_ids(answer.ids)
    rows = _read_vectors(answer, has_vectors, len(ids))
    payloads = read_payloads(answer.payload_columns, len(ids))
    vectors: Iterable[Any] = [None] * len(ids) if rows is None else rows
    return list(map(Point._make, zip(ids, payloads, vectors, strict=True)))


def _read_point_columns(answer: Any, has_vectors: bool) -> Points:
    ids = read_ids(answer.ids)
    payloads = read_columns(answer.payload_columns, len(ids))
    return Points(ids, payloads, _read_vectors(answer, has_vectors, len(ids)))


def count(name: str, where: Mapping[str, Any] | None, where_not: Mapping[str, Any] | None) -> Operation[int]:
    """How many points pass."""
    request = pb.CountPointsRequest(collection=name, filter=make_filter(where, where_not))
    return Operation(COUNT, request, lambda answer: int(answer.point_count))


def delete_points(
    name: str,
    ids: Iterable[Id] | NDArray[Any] | None,
    where: Mapping[str, Any] | None,
    where_not: Mapping[str, Any] | None,
) -> Operation[int]:
    """Deletes points."""
    request = pb.DeletePointsRequest(collection=name, filter=make_filter(where, where_not, ids))
    return Operation(DELETE_POINTS, request, lambda answer: int(answer.deleted_count))
