"""Resident collections: fill, search, read, snapshot, drop."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike, NDArray

from . import _points
from ._call import Caller
from ._errors import AccelerdError, MessageTooLargeError, malformed
from ._payload import Id, Payloads
from ._points import Hit, Hits, Point, Points, SearchOptions, UpsertStep
from ._results import CollectionInfo, Snapshot

if TYPE_CHECKING:
    from typing_extensions import Unpack  # In typing since Python 3.11.

    from ._client import Client


class Collection:
    """A collection by name; it need not exist.

    Filters are dicts of field to test: a value, a list of values, or `slice(low, high)` for `low <= x < high`.

    `timeout` is seconds that a call may take, retries included; None is the client's.
    """

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self.name = name

    def __repr__(self) -> str:
        return f"Collection({self.name!r})"

    @property
    def _caller(self) -> Caller:
        return self._client._caller

    def describe(self, *, timeout: float | None = None) -> CollectionInfo:
        """What is known of it."""
        return self._caller.run(_points.describe(self.name), timeout)

    def delete(self, *, timeout: float | None = None) -> None:
        """Drops it, its log and its local snapshots."""
        self._caller.run(_points.delete(self.name), timeout)

    def upsert(
        self,
        ids: Iterable[Id] | NDArray[Any],
        *,
        texts: Sequence[str] | None = None,
        vectors: ArrayLike | None = None,
        payloads: Payloads | None = None,
        timeout: float | None = None,
    ) -> int:
        """Writes points. Returns how many are new.

        All or none are written where they fit into one message (`max_message_bytes`). More are written in parts, in
        order, each all or none; after a failure earlier parts stay.

        payloads: a list of dicts, one a point, or a dict of columns: for each field a list or an array of values, None
            where a point has none. Columns are faster.
        """
        upsert = _points.Upsert(self.name, ids, texts, vectors, payloads, self._caller.settings)
        deadline = self._caller.settings.deadline(timeout)
        whole = upsert.one()
        if whole is not None:
            try:
                return self._caller.until(whole, deadline)
            except MessageTooLargeError:
                if upsert.whole.halves() is None:
                    raise
        return self._upsert_in_parts(_points.SplitUpsert(upsert, self._caller.settings), deadline)

    def _upsert_in_parts(self, split: _points.SplitUpsert, deadline: float) -> int:
        while not split.is_done:
            try:
                left = max(deadline - time.monotonic(), 0.0)
                for answer in self._caller.stream(_points.UPSERT_STREAM, split.requests(), left):
                    split.answered(answer)
                if not split.is_done:
                    raise malformed("the stream ended before its last step")
            except AccelerdError as problem:
                wait = split.failed(problem)
                if time.monotonic() + wait >= deadline:
                    raise
                time.sleep(wait)
        return split.inserted

    def upsert_many(self, steps: Iterable[UpsertStep], *, timeout: float | None = None) -> Iterator[int]:
        """Writes in bulk: each step is a dict of the arguments of `upsert`. Yields how many points of each are new.

        Steps are read as they are sent and may have any size; each is sent in messages of some MiB, each all or none.
        Nothing is retried; without a timeout there is no deadline.
        """
        bulk = _points.BulkUpsert(self.name, self._caller.settings)
        requests = (message for step in steps for message in bulk.messages(step))
        for answer in self._caller.stream(_points.UPSERT_STREAM, requests, timeout):
            inserted = bulk.answered(answer)
            if inserted is not None:
                yield inserted

    def search(self, *, timeout: float | None = None, **options: Unpack[SearchOptions]) -> list[list[Hit]]:
        """The nearest points of each query, best first, exactly.

        texts, vectors or ids: the queries; stored points by id find themselves, too.
        k: hits of each query, 10 if left out, after the first `offset`.
        threshold: leaves out hits that score worse.
        where, where_not: tests that points must pass, and must not.
        payload: whether hits have their payload, True if left out.
        hybrid: rank by the words of texts as well as by their vectors, in a collection with a `text_field`.
        fusion: how it makes one ranking of two: "relative_score", the default, or "reciprocal_rank".
        word_weight: what words weigh in it, from 0 to 1; vectors weigh the rest. Half if left out.
        """
        return self._caller.run(_points.search(self.name, options), timeout)

    def search_columns(self, *, timeout: float | None = None, **options: Unpack[SearchOptions]) -> Hits:
        """The same as `search`, as columns: cheaper for many hits."""
        return self._caller.run(_points.search_columns(self.name, options), timeout)

    def get(
        self, ids: Iterable[Id] | NDArray[Any], *, vectors: bool = False, timeout: float | None = None
    ) -> list[Point]:
        """Reads points back; unknown ids are left out."""
        return self._caller.run(_points.get_points(self.name, ids, vectors), timeout)

    def scroll(
        self,
        *,
        where: Mapping[str, Any] | None = None,
        where_not: Mapping[str, Any] | None = None,
        page_size: int = 1000,
        payload: bool = True,
        vectors: bool = False,
        timeout: float | None = None,
    ) -> Iterator[Point]:
        """Every point that passes, in ascending order of ids, read page by page. `timeout` is a page's."""
        scroll = _points.Scroll(self.name, where, where_not, page_size, payload, vectors)
        while not scroll.is_done:
            yield from self._caller.run(scroll.next_points(), timeout)

    def scroll_columns(
        self,
        *,
        where: Mapping[str, Any] | None = None,
        where_not: Mapping[str, Any] | None = None,
        page_size: int = 1000,
        payload: bool = True,
        vectors: bool = False,
        timeout: float | None = None,
    ) -> Iterator[Points]:
        """The same as `scroll`, a page at a time, as columns."""
        scroll = _points.Scroll(self.name, where, where_not, page_size, payload, vectors)
        while not scroll.is_done:
            yield self._caller.run(scroll.next_columns(), timeout)

    def count(
        self,
        *,
        where: Mapping[str, Any] | None = None,
        where_not: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> int:
        """How many points pass, exactly."""
        return self._caller.run(_points.count(self.name, where, where_not), timeout)

    def delete_points(
        self,
        ids: Iterable[Id] | NDArray[Any] | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        where_not: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> int:
        """Deletes points that pass every test given. Returns how many there were."""
        return self._caller.run(_points.delete_points(self.name, ids, where, where_not), timeout)

    def snapshot(self, url: str = "", *, timeout: float | None = None) -> Snapshot:
        """Writes a versioned snapshot to an object store; without a URL to the configured one."""
        return self._caller.run(_points.create_snapshot(self.name, url), timeout)
