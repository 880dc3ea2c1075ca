"""Writes of points: atomic in one message, or split into the messages of a stream."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypedDict

from numpy.typing import ArrayLike, NDArray

from ._argument_names import with_arguments
from ._call import Operation, Part, Settings, parts_by_bytes
from ._embed import MAX_TEXTS, text_input
from ._errors import AccelerdError, MessageTooLargeError, from_item, malformed, too_large, with_progress
from ._message import message
from ._methods import SimilarityService
from ._payload import Id, Ids, Payloads, PayloadTable
from ._proto import similarity_pb2 as pb
from ._retry import Attempts
from ._tensor import encode, to_rows
from ._wire import Chunk, field, varint

# Size of the messages of a bulk write. Larger ones are slower: a message is copied before it is sent, and the daemon
# processes it only when it is complete.
_BULK_BYTES = 2 << 20
_ID_BYTES = 38
# Intended seconds of a part of a write that takes longer than its timeout: what is written by then stays.
_PART_SECONDS = 2.0


class UpsertStep(TypedDict, total=False):
    """A step of `upsert_many`: the arguments of `upsert`."""

    ids: Iterable[Id] | NDArray[Any]
    texts: Sequence[str] | None
    vectors: ArrayLike | None
    payloads: Payloads | None
    prompt_name: str
    prompt: str | None


class Upsert:
    """Validated points to write."""

    def __init__(
        self,
        name: str,
        ids: Iterable[Id] | NDArray[Any],
        texts: Sequence[str] | None,
        vectors: ArrayLike | None,
        payloads: Payloads | None,
        settings: Settings,
        prompt_name: str = "",
        prompt: str | None = None,
    ) -> None:
        if (texts is None) == (vectors is None):
            got = "neither" if texts is None else "both"
            raise ValueError(f"expected either texts or vectors, got {got}")
        self._common = message(pb.UpsertRequest, collection=name, prompt_name=prompt_name, prompt=prompt)
        self._limit = settings.max_message_bytes
        self._ids = Ids(ids)
        self._rows = None if vectors is None else to_rows(vectors)
        self._texts = None if texts is None else [*text_input(texts).values]
        count = len(self._texts or ()) if self._rows is None else len(self._rows)
        if count != len(self._ids):
            what = "texts" if self._rows is None else "vectors"
            raise ValueError(f"{what}: expected {len(self._ids)}, one per id, got {count}")
        self._payloads = None if payloads is None else PayloadTable(payloads, count)
        self.whole = Part(0, count)

    def encode(self, part: Part) -> bytes:
        """Serialize the request of a range of the points."""
        # Vectors come first, where the daemon reads them without a copy.
        chunks: list[Chunk] = []
        if self._rows is not None:
            chunks += field(pb.UpsertRequest.VECTORS_FIELD_NUMBER, encode(self._rows[part.start : part.stop]))
        request = pb.UpsertRequest()
        request.CopyFrom(self._common)
        if self._texts is not None:
            request.texts.values.extend(self._texts[part.start : part.stop])
        if self._payloads is not None:
            request.payload_columns.CopyFrom(self._payloads.message(part.start, part.stop))
        chunks += field(pb.UpsertRequest.IDS_FIELD_NUMBER, self._ids.encode(part.start, part.stop))
        return b"".join([*chunks, request.SerializeToString()])

    def one(self) -> Operation[int] | None:
        """Return one atomic call for all points; None if they exceed a message."""
        if self._min_bytes() > self._limit:
            return None
        encoded = self.encode(self.whole)
        if len(encoded) > self._limit:
            return None
        return Operation(SimilarityService.UPSERT, encoded, lambda response: int(response.inserted_count))

    def _min_bytes(self) -> int:
        return sum(map(len, self._texts or ())) if self._rows is None else self._rows.nbytes

    def parts(self, seconds: float | None = None) -> list[Part]:
        """Split the points into parts for a bulk write, which takes these seconds if that is known."""
        if self._rows is not None:
            sizes: Iterable[int] = [4 * self._rows.shape[1] + _ID_BYTES] * len(self._rows)
        else:
            sizes = [len(text.encode()) + _ID_BYTES for text in self._texts or ()]
        rows = MAX_TEXTS
        if seconds is not None:
            rows = max(1, min(rows, int(len(self.whole) * _PART_SECONDS / max(seconds, _PART_SECONDS))))
        return parts_by_bytes(sizes, min(_BULK_BYTES, self._limit), rows)

    def encoded(self, part: Part) -> Iterator[tuple[Part, bytes]]:
        """Iterate over the messages of a part: several if one would be too large."""
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
        """Raise for a duplicate id, as the daemon does in a single call."""
        duplicate = self._ids.duplicate()
        if duplicate is not None:
            raise ValueError(f"ids: duplicate id {duplicate!r}")


class SplitUpsert:
    """A write in parts over a stream, which is reopened after a failure at the first part without a response."""

    def __init__(self, upsert: Upsert, attempts: Attempts, seconds: float | None) -> None:
        upsert.check_ids()
        self._upsert = upsert
        self._attempts = attempts
        self._left = deque(upsert.parts(seconds))
        self._sent: dict[int, Part] = {}
        self._next = 0
        self._stream = 0
        self._lock = threading.Lock()
        self._written = 0
        #: Number of new points.
        self.inserted = 0

    @property
    def is_done(self) -> bool:
        """Whether all parts are written."""
        return not self._left and not self._sent

    def requests(self) -> Iterator[bytes]:
        """Iterate over the messages of all parts without a response. Ends the iterator of an earlier stream."""
        with self._lock:
            self._stream += 1
            stream = self._stream
            self._left.extendleft(part for _, part in sorted(self._sent.items(), reverse=True))
            self._sent.clear()
        while messages := self._next_messages(stream):
            yield from messages

    def _next_messages(self, stream: int) -> list[bytes]:
        # gRPC consumes messages on its own thread, which may briefly outlive the stream.
        with self._lock:
            if stream != self._stream or not self._left:
                return []
            messages = []
            for part, encoded in self._upsert.encoded(self._left.popleft()):
                self._sent[self._next] = part
                messages.append(_stream_message(self._next, encoded))
                self._next += 1
            return messages

    def on_response(self, response: pb.UpsertStreamResponse) -> None:
        """Process a response. Raises the error of a part that failed."""
        if response.WhichOneof("result") == "error":
            raise with_arguments(from_item(response.error), SimilarityService.UPSERT_STREAM.name)
        part = self._sent.pop(response.sequence, None)
        if part is None:
            raise malformed(f"unexpected sequence {response.sequence}")
        self._written += len(part)
        self.inserted += response.upsert.inserted_count
        self._attempts.progressed()

    def on_error(self, problem: AccelerdError) -> float:
        """Return the seconds until the next attempt. Raises a final error."""
        if isinstance(problem, MessageTooLargeError) and self._halve():
            return 0.0
        try:
            return self._attempts.wait(problem)
        except AccelerdError as final:
            raise with_progress(
                final, self._written, len(self._upsert.whole), "points were written, and stay"
            ) from None

    def _halve(self) -> bool:
        """Halve all parts without a response. Returns False if none can be halved."""
        with self._lock:
            self._stream += 1
            left = [part for _, part in sorted(self._sent.items())] + [*self._left]
            halved = [half for part in left for half in part.halves() or (part,)]
            self._sent.clear()
            self._left = deque(halved)
        return len(halved) > len(left)


class _Step:
    """A step. The thread that sends writes the first two attributes, the one that receives writes the others."""

    def __init__(self) -> None:
        self.sent = 0
        self.is_sent = False
        self.answered = 0
        self.inserted = 0

    def is_done(self) -> bool:
        return self.is_sent and self.answered == self.sent


class BulkUpsert:
    """A stream of steps of any size. The daemon answers messages as they complete, in any order."""

    def __init__(self, name: str, settings: Settings) -> None:
        self._name = name
        self._settings = settings
        #: The step of each message without a response, by sequence.
        self._step_of: dict[int, _Step] = {}
        #: Steps whose result was not returned yet, in order.
        self._steps: deque[_Step] = deque()
        self._next = 0

    def messages(self, step: UpsertStep) -> Iterator[bytes]:
        """Iterate over the messages of a step."""
        upsert, state = self._checked(step), _Step()
        # The daemon expects a point.
        state.is_sent = not upsert.whole
        self._steps.append(state)
        if state.is_sent:
            return
        for encoded, is_last in _with_last(m for part in upsert.parts() for _, m in upsert.encoded(part)):
            sequence = self._next
            self._next += 1
            self._step_of[sequence] = state
            state.sent += 1
            state.is_sent = is_last
            yield _stream_message(sequence, encoded)

    def _checked(self, step: UpsertStep) -> Upsert:
        if not isinstance(step, Mapping) or "ids" not in step or step.keys() - UpsertStep.__annotations__.keys():
            got = sorted(step) if isinstance(step, Mapping) else type(step).__name__
            raise TypeError(f"step: expected a dict of ids and texts, vectors, payloads, prompt, got {got}")
        upsert = Upsert(
            self._name,
            step["ids"],
            step.get("texts"),
            step.get("vectors"),
            step.get("payloads"),
            self._settings,
            step.get("prompt_name", ""),
            step.get("prompt"),
        )
        upsert.check_ids()
        return upsert

    def on_response(self, response: pb.UpsertStreamResponse) -> Iterator[int]:
        """Process a response. Iterates over the numbers of new points of the next steps that are complete."""
        if response.WhichOneof("result") == "error":
            raise with_arguments(from_item(response.error), SimilarityService.UPSERT_STREAM.name)
        step = self._step_of.pop(response.sequence, None)
        if step is None:
            raise malformed(f"unexpected sequence {response.sequence}")
        step.answered += 1
        step.inserted += response.upsert.inserted_count
        yield from self.completed()

    def completed(self) -> Iterator[int]:
        """Iterate over the numbers of new points of the next steps that are complete."""
        while self._steps and self._steps[0].is_done():
            yield self._steps.popleft().inserted


def _with_last(messages: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    held = next(messages)
    for following in messages:
        yield held, False
        held = following
    yield held, True


def _stream_message(sequence: int, upsert: bytes) -> bytes:
    # Field 1 is `sequence`, a varint.
    return b"".join([b"\x08" + varint(sequence), *field(pb.UpsertStreamRequest.UPSERT_FIELD_NUMBER, [upsert])])
