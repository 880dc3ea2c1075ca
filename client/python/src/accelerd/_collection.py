"""Resident collections: fill, search, read, snapshot, drop."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import grpc
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._call import malformed
from ._embed import text_input
from ._errors import from_call, from_item
from ._proto import similarity_pb2 as pb
from ._tensor import to_array, to_tensor

if TYPE_CHECKING:
    from ._client import Client

Id: TypeAlias = "int | uuid.UUID | str"
Value: TypeAlias = "str | int | float | bool"
Payload: TypeAlias = "Mapping[str, Value]"

METRICS: dict[str, pb.Metric] = {
    "cosine": pb.METRIC_COSINE,
    "dot": pb.METRIC_DOT,
    "squared_l2": pb.METRIC_SQUARED_L2,
}
FUSIONS: dict[str, pb.Fusion] = {
    "relative_score": pb.FUSION_RELATIVE_SCORE,
    "reciprocal_rank": pb.FUSION_RECIPROCAL_RANK,
}


@dataclass(frozen=True)
class Hit:
    """A point found."""

    id: int | str
    score: float
    payload: dict[str, Value]


@dataclass(frozen=True)
class Point:
    """A point read back."""

    id: int | str
    payload: dict[str, Value]
    vector: NDArray[np.float32] | None


def metric_number(metric: str) -> pb.Metric:
    """The protocol's number of a metric."""
    if metric not in METRICS:
        raise ValueError(f"expected one of {', '.join(METRICS)}, got {metric!r}")
    return METRICS[metric]


def point_ids(ids: Iterable[Id]) -> pb.PointIds:
    """Ids of one kind: numbers, or UUIDs."""
    listed = list(ids)
    if all(isinstance(one, (int, np.integer)) for one in listed):
        return pb.PointIds(numbers=[int(one) for one in listed])
    if any(isinstance(one, (int, np.integer)) for one in listed):
        raise ValueError("ids are numbers or UUIDs, not both")
    return pb.PointIds(uuids=[str(one) for one in listed])


def _value(value: Value) -> pb.Value:
    # A bool is an int to Python, so it is asked for first.
    if isinstance(value, bool):
        return pb.Value(bool_value=value)
    if isinstance(value, str):
        return pb.Value(string_value=value)
    if isinstance(value, (int, np.integer)):
        return pb.Value(int_value=int(value))
    return pb.Value(double_value=float(value))


def _payload(payload: Payload) -> pb.Payload:
    return pb.Payload(fields={name: _value(value) for name, value in payload.items()})


def _fields(payload: pb.Payload) -> dict[str, Value]:
    fields = payload.fields.items()
    return {name: getattr(value, kind) for name, value in fields if (kind := value.WhichOneof("kind"))}


def _condition(field: str, test: Any) -> pb.Condition:
    if isinstance(test, range):
        raise ValueError("a range filter is a slice: slice(low, high)")
    if isinstance(test, slice):
        return pb.Condition(field=field, range=pb.Range(gte=test.start, lt=test.stop))
    if isinstance(test, (list, tuple, set, frozenset)):
        return pb.Condition(field=field, any_of=pb.ValueSet(values=[_value(value) for value in test]))
    return pb.Condition(field=field, equals=_value(test))


def _filter(
    where: Mapping[str, Any] | None, where_not: Mapping[str, Any] | None, ids: Iterable[Id] | None
) -> pb.Filter | None:
    if not where and not where_not and ids is None:
        return None
    return pb.Filter(
        ids=None if ids is None else point_ids(ids),
        must=[_condition(field, test) for field, test in (where or {}).items()],
        must_not=[_condition(field, test) for field, test in (where_not or {}).items()],
    )


class Collection:
    """A collection by name; it need not exist.

    Filters are dicts of field to test: a value, a list of values, or `slice(low, high)` for `low <= x < high`.
    """

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._call = client._call
        self._stub = client._similarity
        self.name = name

    def __repr__(self) -> str:
        return f"Collection({self.name!r})"

    def describe(self) -> pb.Collection:
        """What is known of it."""
        request = pb.GetCollectionRequest(name=self.name)
        answer: pb.GetCollectionResponse = self._call(self._stub.GetCollection, request)
        return answer.collection

    def delete(self) -> None:
        """Drops it, its log and its local snapshots."""
        self._call(self._stub.DeleteCollection, pb.DeleteCollectionRequest(name=self.name), repeatable=False)

    def upsert(
        self,
        ids: Iterable[Id],
        *,
        texts: Sequence[str] | None = None,
        vectors: ArrayLike | None = None,
        payloads: Sequence[Payload] | None = None,
    ) -> int:
        """Writes points, all or none. Returns how many are new."""
        request = self._upsert(ids, texts, vectors, payloads)
        return int(self._call(self._stub.Upsert, request).inserted_count)

    def upsert_many(self, steps: Iterable[Mapping[str, Any]]) -> Iterator[int]:
        """Writes in bulk: each step is the arguments of `upsert`. Yields how many points of each are new."""
        requests = (
            pb.UpsertStreamRequest(
                sequence=sequence,
                upsert=self._upsert(step["ids"], step.get("texts"), step.get("vectors"), step.get("payloads")),
            )
            for sequence, step in enumerate(steps)
        )
        try:
            for answer in self._stub.UpsertStream(requests):
                if answer.WhichOneof("result") == "error":
                    raise from_item(answer.error)
                yield int(answer.upsert.inserted_count)
        except grpc.RpcError as failed:
            raise from_call(failed) from None

    def _upsert(
        self,
        ids: Iterable[Id],
        texts: Sequence[str] | None,
        vectors: ArrayLike | None,
        payloads: Sequence[Payload] | None,
    ) -> pb.UpsertRequest:
        if (texts is None) == (vectors is None):
            raise ValueError("give either texts or vectors")
        return pb.UpsertRequest(
            collection=self.name,
            ids=point_ids(ids),
            texts=None if texts is None else text_input(texts),
            vectors=None if vectors is None else to_tensor(vectors),
            payloads=[_payload(payload) for payload in payloads or ()],
        )

    def search(
        self,
        *,
        texts: Sequence[str] | None = None,
        vectors: ArrayLike | None = None,
        ids: Iterable[Id] | None = None,
        k: int = 10,
        offset: int = 0,
        threshold: float | None = None,
        where: Mapping[str, Any] | None = None,
        where_not: Mapping[str, Any] | None = None,
        payload: bool = True,
        hybrid: bool = False,
        fusion: str | None = None,
        word_weight: float | None = None,
    ) -> list[list[Hit]]:
        """The nearest points of each query, best first, exactly.

        hybrid: rank by the words of texts as well as by their vectors, in a collection with a `text_field`.
        fusion: how it makes one ranking of two: "relative_score", the default, or "reciprocal_rank".
        word_weight: what words weigh in it, from 0 to 1; vectors weigh the rest. Half when left out.
        """
        if not hybrid and (fusion is not None or word_weight is not None):
            raise ValueError("fusion and word_weight are for hybrid=True")
        if fusion is not None and fusion not in FUSIONS:
            raise ValueError(f"expected one of {', '.join(FUSIONS)}, got {fusion!r}")
        if sum(query is not None for query in (texts, vectors, ids)) != 1:
            raise ValueError("give one of texts, vectors and ids")
        request = pb.SearchRequest(
            collection=self.name,
            texts=None if texts is None else text_input(texts),
            vectors=None if vectors is None else to_tensor(vectors),
            ids=None if ids is None else point_ids(ids),
            limit=k,
            offset=offset,
            score_threshold=threshold,
            filter=_filter(where, where_not, None),
            include_payload=payload,
            hybrid=hybrid,
            fusion=None if fusion is None else FUSIONS[fusion],
            word_weight=word_weight,
        )
        results = self._call(self._stub.Search, request).results
        return [[self._hit(hit) for hit in result.hits] for result in results]

    @staticmethod
    def _hit(hit: pb.Hit) -> Hit:
        kind = hit.WhichOneof("id")
        if kind is None:
            raise malformed("a hit without an id")
        return Hit(getattr(hit, kind), hit.score, _fields(hit.payload))

    def get(self, ids: Iterable[Id], *, vectors: bool = False) -> list[Point]:
        """Reads points back; unknown ids are left out."""
        request = pb.GetPointsRequest(collection=self.name, ids=point_ids(ids), include_vectors=vectors)
        found = self._call(self._stub.GetPoints, request)
        names: list[int | str] = [*found.ids.numbers, *found.ids.uuids]
        rows = to_array(found.vectors) if vectors else [None] * len(names)
        if not len(names) == len(found.payloads) == len(rows):
            raise malformed(f"{len(names)} ids, {len(found.payloads)} payloads, {len(rows)} vectors")
        return [Point(name, _fields(one), row) for name, one, row in zip(names, found.payloads, rows, strict=True)]

    def delete_points(
        self,
        ids: Iterable[Id] | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        where_not: Mapping[str, Any] | None = None,
    ) -> int:
        """Deletes points that pass every test given. Returns how many there were."""
        request = pb.DeletePointsRequest(collection=self.name, filter=_filter(where, where_not, ids))
        return int(self._call(self._stub.DeletePoints, request).deleted_count)

    def snapshot(self, url: str = "") -> pb.Snapshot:
        """Writes a versioned snapshot to an object store; without a URL to the configured one."""
        request = pb.CreateSnapshotRequest(collection=self.name, url=url)
        answer: pb.CreateSnapshotResponse = self._call(self._stub.CreateSnapshot, request, repeatable=False)
        return answer.snapshot
