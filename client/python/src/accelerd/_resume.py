"""The messages of a stream, which are kept until they are answered, so that another call can send them again."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Protocol

from google.protobuf.message import Message

from ._errors import malformed


class StreamProgress(Protocol):
    """The responses of a stream that are there, so that another call continues after the last of them."""

    def request(self) -> Message:
        """Return the request for the missing responses."""

    def is_new(self, response: Any) -> bool:
        """Process a response. Returns whether it was not there before."""

    @property
    def is_complete(self) -> bool:
        """Whether all responses are there."""


class SentMessages:
    """Numbered messages of a stream, for one call after another.

    gRPC consumes the messages of a call elsewhere, and may still do so when the next call has begun.
    """

    def __init__(self, is_ordered: bool) -> None:
        self._is_ordered = is_ordered
        self._lock = threading.Lock()
        self._kept: dict[int, Message | bytes] = {}
        #: Of ordered messages, those that follow one without a response.
        self._answered: set[int] = set()
        self._unsent: deque[Message | bytes] = deque()
        self._attempt = 0
        self._count = 0
        self._has_ended = False

    def begin(self) -> int:
        """Begin a call. Returns its number."""
        with self._lock:
            self._attempt += 1
            self._unsent = deque(self._kept.values())
            return self._attempt

    def is_current(self, attempt: int) -> bool:
        """Return whether no other call has begun."""
        return attempt == self._attempt

    def take(self, attempt: int) -> Message | bytes | None:
        """Return the next message of a call; None if there is none yet, or another call has begun."""
        with self._lock:
            return self._unsent.popleft() if self._unsent and attempt == self._attempt else None

    def needs_input(self) -> bool:
        """Return whether all messages are sent."""
        return not self._unsent

    def keep(self, sequence: int, message: Message | bytes) -> None:
        """Add the next message."""
        with self._lock:
            self._kept[sequence] = message
            self._count = sequence + 1
            self._unsent.append(message)

    def end(self) -> None:
        """Note that there are no further messages."""
        self._has_ended = True

    def answered(self, sequence: int) -> bool:
        """Process a response. Returns whether it is the first to its message."""
        with self._lock:
            if sequence not in self._kept:
                # It was answered in an earlier call, and what preceded it in this one.
                if self._is_ordered and sequence < self._count:
                    return False
                raise malformed(f"unexpected sequence {sequence}")
            is_new = sequence not in self._answered
            if not self._is_ordered:
                del self._kept[sequence]
                return True
            self._answered.add(sequence)
            for first in [*self._kept]:
                if first not in self._answered:
                    break
                del self._kept[first]
                self._answered.remove(first)
            return is_new

    @property
    def is_complete(self) -> bool:
        """Whether all messages are answered."""
        with self._lock:
            return self._has_ended and not self._kept
