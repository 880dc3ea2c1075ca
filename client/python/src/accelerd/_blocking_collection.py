# Generated from _aio_collection.py by generate.py; do not edit.
"""Collections of the blocking client: upsert, search, read, snapshot, delete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike, NDArray

from . import _points, _upsert
from ._blocking_call import Caller
from ._blocking_runtime import numbered
from ._errors import AccelerdError, MessageTooLargeError, malformed, seconds_needed
from ._methods import SimilarityService
from ._payload import Id, Payloads
from ._points import Hit, Hits, Point, Points, SearchOptions
from ._results import CollectionInfo, Snapshot
from ._timeout import left
from ._upsert import UpsertStep

if TYPE_CHECKING:
    from typing_extensions import Unpack  # In typing since Python 3.11.


class Collection:
    """Handle to a collection. Calls raise a `NotFoundError` if the collection does not exist.

    Filters, `where` and `where_not`, are dicts of payload field to condition: a value, a list of values of which one is
    equal, or `slice(low, high)` for the range `low <= x < high`, where None leaves a side open. A tuple is refused,
    because it could be either.

    The `timeout` of a call is in seconds, retries included; None means the client's default, infinity no deadline.
    """

    def __init__(self, caller: Caller, name: str) -> None:
        self._caller = caller
        self.name = name

    def __repr__(self) -> str:
        return f"Collection({self.name!r})"

    def describe(self, *, timeout: float | None = None) -> CollectionInfo:
        """Return the collection's configuration and size."""
        return self._caller.run(_points.describe(self.name), timeout)

    def delete(self, *, timeout: float | None = None) -> None:
        """Delete the collection, its log and its local snapshots."""
        self._caller.run(_points.delete(self.name), timeout)

    def upsert(
        self,
        ids: Iterable[Id] | NDArray[Any],
        *,
        texts: Sequence[str] | None = None,
        vectors: ArrayLike | None = None,
        payloads: Payloads | None = None,
        prompt_name: str = "",
        prompt: str | None = None,
        timeout: float | None = None,
    ) -> int:
        """Insert points, and replace those whose ids exist.

        The write is atomic if it fits into one message (`max_message_bytes`) and into the timeout, as far as the daemon
        can tell in advance. Otherwise it is split into parts, written in order, of which each is atomic; after a
        failure the earlier parts stay, and the error says how many points they have (`AccelerdError.done`).

        Args:
            ids: One id per point: ints, or UUIDs.
            texts: Texts to embed with the collection's model.
            vectors: float32 [points, dimensions].
            payloads: A list of dicts, one per point; or a dict of columns, which is faster: for each field a list or an
                array with a value per point, None where a point has none.
            prompt_name: Name of the model's prompt for these texts, instead of the collection's document prompt.
            prompt: The prompt itself, instead of its name; "" means none.
            timeout: Seconds for the whole call, retries included.

        Returns:
            The number of new points.
        """
        settings = self._caller.settings
        upsert = _upsert.Upsert(self.name, ids, texts, vectors, payloads, settings, prompt_name, prompt)
        deadline = self._caller.settings.deadline(timeout)
        if not upsert.whole:
            return 0
        whole, needed = upsert.one(), None
        if whole is not None:
            try:
                return self._caller.until(whole, deadline)
            except AccelerdError as problem:
                needed = seconds_needed(problem)
                may_split = needed is not None or isinstance(problem, MessageTooLargeError)
                if not may_split or upsert.whole.halves() is None:
                    raise
        attempts = self._caller.attempts(SimilarityService.UPSERT_STREAM, deadline)
        return self._upsert_in_parts(_upsert.SplitUpsert(upsert, attempts, needed), deadline)

    def _upsert_in_parts(self, split: _upsert.SplitUpsert, deadline: float) -> int:
        while not split.is_done:
            try:
                timeout = left(deadline)
                for response in self._caller.stream(SimilarityService.UPSERT_STREAM, split.requests(), timeout):
                    split.on_response(response)
                if not split.is_done:
                    raise malformed("the stream ended before its last step")
            except AccelerdError as problem:
                self._caller.pause(split.on_error(problem))
        return split.inserted

    def upsert_many(self, steps: Iterable[UpsertStep], *, timeout: float | None = None) -> Iterator[int]:
        """Upsert in bulk over one stream.

        Steps are consumed as they are sent and may have any size: each is split into messages of a few MiB, of which
        each is atomic. After a lost connection, or the drain of a daemon, messages are sent again from the first
        without a response on; points that were written before do not count as new then. Without a timeout there is no
        deadline.

        Args:
            steps: Dicts with the arguments of `upsert`.
            timeout: Seconds for the whole stream.

        Yields:
            The number of new points of each step.
        """
        bulk = _upsert.BulkUpsert(self.name, self._caller.settings)
        requests = (message for _, step in numbered(steps) for message in bulk.messages(step))
        responses = self._caller.resumed_stream(SimilarityService.UPSERT_STREAM, requests, timeout, is_ordered=True)
        for response in responses:
            for inserted in bulk.on_response(response):
                yield inserted
        for inserted in bulk.completed():
            yield inserted

    def search(self, *, timeout: float | None = None, **options: Unpack[SearchOptions]) -> list[list[Hit]]:
        """Find the nearest points of each query, exactly.

        Args:
            timeout: Seconds for the whole call, retries included.
            **options: The queries and `SearchOptions`:

                texts, vectors or ids: The queries. Results of stored points, given by id, include those points.
                k: Hits per query, after the first `offset`. Default 10.
                threshold: Omit hits that score worse.
                where, where_not: Conditions that points must and must not meet: by payload field a value, a list of
                    values, or `slice(low, high)` for `low <= x < high`.
                payload: Whether to return payloads. Default True.
                hybrid: Whether to combine full-text search with vector search. Requires `texts` and a `text_field`.
                fusion: "relative_score" (default) or "reciprocal_rank".
                text_weight: Weight of the text ranking in a hybrid search, from 0 to 1. Default 0.5.
                prompt_name: Name of the model's prompt for `texts`, instead of the collection's query prompt.
                prompt: The prompt itself, instead of its name; "" means none.

        Returns:
            The hits of each query, best first.
        """
        return self._caller.run_split(_points.split_search(self.name, options), timeout)

    def search_columns(self, *, timeout: float | None = None, **options: Unpack[SearchOptions]) -> Hits:
        """Search like `search` and return columns, which are cheaper for many hits."""
        return self._caller.run_split(_points.split_search_columns(self.name, options), timeout)

    def get(
        self, ids: Iterable[Id] | NDArray[Any], *, vectors: bool = False, timeout: float | None = None
    ) -> list[Point]:
        """Return points by id. Unknown ids are omitted."""
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
        """Iterate over all points that match, in ascending order of id.

        Args:
            where: Conditions that points must meet: by payload field a value, a list of values, or `slice(low, high)`
                for `low <= x < high`.
            where_not: Conditions that points must not meet.
            page_size: Points per call; 0 means the daemon's default.
            payload: Whether to return payloads.
            vectors: Whether to return vectors.
            timeout: Seconds for each page, retries included.

        Yields:
            The points.
        """
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
        """Iterate like `scroll`, over pages of columns.

        Args:
            where: As in `scroll`: by payload field a value, a list of values, or `slice(low, high)` for a range.
            where_not: Conditions that points must not meet.
            page_size: Points per page; 0 means the daemon's default.
            payload: Whether to return payloads.
            vectors: Whether to return vectors.
            timeout: Seconds for each page, retries included.

        Yields:
            The pages.
        """
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
        """Return the exact number of points that match.

        Args:
            where: Conditions that points must meet: by payload field a value, a list of values, or `slice(low, high)`
                for `low <= x < high`. None counts all points.
            where_not: Conditions that points must not meet.
            timeout: Seconds for the whole call, retries included.
        """
        return self._caller.run(_points.count(self.name, where, where_not), timeout)

    def delete_points(
        self,
        ids: Iterable[Id] | NDArray[Any] | None = None,
        *,
        where: Mapping[str, Any] | None = None,
        where_not: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> int:
        """Delete the points that match all conditions.

        Args:
            ids: The points' ids; unknown ones are no error. None means all that match the conditions.
            where: Conditions that points must meet: by payload field a value, a list of values, or `slice(low, high)`
                for `low <= x < high`.
            where_not: Conditions that points must not meet.
            timeout: Seconds for the whole call, retries included.

        Returns:
            How many were deleted.
        """
        return self._caller.run(_points.delete_points(self.name, ids, where, where_not), timeout)

    def snapshot(self, url: str = "", *, timeout: float | None = None) -> Snapshot:
        """Write a versioned snapshot to the object store of a URL, by default the one in the daemon's settings."""
        return self._caller.run(_points.create_snapshot(self.name, url), timeout)
