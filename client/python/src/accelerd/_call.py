"""What a call is, when it is sent again, and connections to send it over."""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import grpc
from google.protobuf.message import Message

from . import _timing
from ._errors import AccelerdError, MessageTooLargeError, from_call

T = TypeVar("T")

FIRST_WAIT = 0.05
MAX_WAIT = 2.0
PACKAGE = "accelerd.v1"
#: What the daemon accepts by default.
DEFAULT_MESSAGE_BYTES = 64 << 20
DEFAULT_TIMEOUT = 60.0
DEFAULT_ATTEMPTS = 5
DEFAULT_TARGET = "localhost:7433"


@dataclass(frozen=True)
class Method:
    """A method of the protocol."""

    service: str
    name: str
    answer: type[Message]
    #: Whether a call that perhaps was carried out may be sent again.
    is_idempotent: bool = True

    @property
    def path(self) -> str:
        """Its path in HTTP/2."""
        return f"/{PACKAGE}.{self.service}/{self.name}"


@dataclass(frozen=True)
class Operation(Generic[T]):
    """A call: its message, or the message's bytes, and what its answer means."""

    method: Method
    request: Message | bytes
    decode: Callable[[Any], T]


class Part:
    """Rows `start` to `stop` of an argument."""

    def __init__(self, start: int, stop: int) -> None:
        self.start, self.stop = start, stop

    def halves(self) -> tuple[Part, Part] | None:
        """Two parts of half the size, where there is more than one row."""
        middle = (self.start + self.stop) // 2
        return None if middle == self.start else (Part(self.start, middle), Part(middle, self.stop))

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class SplitOperation(Generic[T]):
    """A call that is made in parts. A part that is too large all the same is halved."""

    parts: list[Any]
    operation: Callable[[Any], Operation[Any]]
    #: The whole result, of parts and their results in order.
    join: Callable[[list[tuple[Any, Any]]], T]


def parts_by_bytes(sizes: Iterable[int], limit: int, max_rows: int) -> list[Part]:
    """Consecutive parts of rows of these sizes, each within a limit of bytes and of rows where one row is."""
    parts, start, held, at = [], 0, 0, -1
    for at, size in enumerate(sizes):
        if at > start and (held + size > limit or at - start == max_rows):
            parts.append(Part(start, at))
            start, held = at, 0
        held += size
    return [*parts, Part(start, at + 1)]


@dataclass(frozen=True)
class Settings:
    """How a client connects and calls."""

    target: str
    timeout: float = DEFAULT_TIMEOUT
    attempts: int = DEFAULT_ATTEMPTS
    max_message_bytes: int = DEFAULT_MESSAGE_BYTES
    connections: int = 1

    @classmethod
    def of(
        cls, target: str | None, timeout: float, attempts: int, max_message_bytes: int, connections: int
    ) -> Settings:
        """Checked settings; without a target that of the environment variable ACCELERD_SERVER, or the default."""
        named = target if target is not None else os.environ.get("ACCELERD_SERVER") or DEFAULT_TARGET
        if not isinstance(named, str):
            raise TypeError(f"target: expected a str such as {DEFAULT_TARGET!r}, got {type(named).__name__}")
        if named.startswith("https://"):
            raise ValueError(f"target: expected host:port or unix:///path, got {named!r}: the daemon serves no TLS")
        for name, value, least in (
            ("attempts", attempts, 1),
            ("connections", connections, 1),
            ("max_message_bytes", max_message_bytes, 1),
        ):
            if value < least:
                raise ValueError(f"{name}: expected {least} or more, got {value}")
        if not timeout > 0:
            raise ValueError(f"timeout: expected seconds above 0, got {timeout}")
        plain = named.removeprefix("http://").removesuffix("/")
        return cls(plain, timeout, attempts, max_message_bytes, connections)

    def channel_options(self) -> list[tuple[str, Any]]:
        """Options of a channel of gRPC."""
        return [
            ("grpc.max_send_message_length", self.max_message_bytes),
            # The daemon limits its answers.
            ("grpc.max_receive_message_length", -1),
            # Offers no compression, so that answers come as they are: bulk numbers deflate slowly and hardly at all.
            ("grpc.compression_enabled_algorithms_bitset", 1),
            ("grpc.keepalive_time_ms", 20_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.lb_policy_name", "round_robin"),
            ("grpc.enable_retries", 0),
            # Channels to the same target share a connection otherwise.
            ("grpc.use_local_subchannel_pool", 1),
        ]

    def wait(self, problem: AccelerdError, attempt: int, is_idempotent: bool) -> float | None:
        """Seconds until the next attempt; None when the failure is final.

        UNAVAILABLE is retried, and RESOURCE_EXHAUSTED where the daemon said when to come back. A call that must not run
        twice is retried only where the daemon said when to come back: then it did nothing. Waits grow exponentially,
        with full jitter.
        """
        is_hinted = problem.retry_after is not None
        is_unavailable = problem.code is grpc.StatusCode.UNAVAILABLE and (is_idempotent or is_hinted)
        is_busy = problem.code is grpc.StatusCode.RESOURCE_EXHAUSTED and is_hinted
        if attempt >= self.attempts or not (is_unavailable or is_busy) or isinstance(problem, MessageTooLargeError):
            return None
        return (problem.retry_after or 0.0) + random.random() * min(FIRST_WAIT * 2.0 ** (attempt - 1), MAX_WAIT)

    def deadline(self, timeout: float | None) -> float:
        """When a call with this timeout ends, by the monotonic clock."""
        return time.monotonic() + (self.timeout if timeout is None else timeout)


def serialize(request: Message | bytes) -> bytes:
    """The bytes of a message; bytes are a message serialized before."""
    return request if isinstance(request, bytes) else request.SerializeToString()


class Connections:
    """The channels of a client, opened by the first call; each call goes over the next.

    `open_channel` makes a channel of `grpc` or of `grpc.aio`.
    """

    def __init__(self, settings: Settings, open_channel: Callable[..., Any]) -> None:
        self._settings = settings
        self._open_channel = open_channel
        self._lock = threading.Lock()
        self._channels: list[Any] = []
        self._methods: dict[tuple[int, str], Any] = {}
        self._turns = itertools.count()
        self._process = 0
        self._is_closed = False

    def unary(self, method: Method) -> Any:
        """What sends a unary call over the next channel."""
        return self._callable("unary_unary", method)

    def stream(self, method: Method) -> Any:
        """What opens a stream over the next channel."""
        return self._callable("stream_stream", method)

    def _callable(self, kind: str, method: Method) -> Any:
        channels = self._opened()
        turn = next(self._turns) % len(channels)
        key = turn, method.path
        found = self._methods.get(key)
        if found is None:
            make = getattr(channels[turn], kind)
            found = make(method.path, request_serializer=serialize, response_deserializer=method.answer.FromString)
            self._methods[key] = found
        return found

    def _opened(self) -> list[Any]:
        if self._is_closed:
            raise ValueError("the client is closed")
        if not self._channels:
            with self._lock:
                if not self._channels:
                    settings = self._settings
                    options = settings.channel_options()
                    self._process = os.getpid()
                    self._channels = [
                        self._open_channel(settings.target, options=options) for _ in range(settings.connections)
                    ]
        if self._process != os.getpid():
            raise RuntimeError(
                "this client has called before the process was forked, and gRPC's threads are not in the child: "
                "make a client in the child, or start processes by spawn or forkserver"
            )
        return self._channels

    def take(self) -> list[Any]:
        """The channels, to be closed; there are no calls after that."""
        self._is_closed = True
        channels, self._channels = self._channels, []
        return channels


class Caller:
    """Makes calls, blocking."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._connections = Connections(settings, grpc.insecure_channel)

    def run(self, operation: Operation[T], timeout: float | None) -> T:
        """Makes a call until it is answered, refused for good, or late."""
        return self.until(operation, self.settings.deadline(timeout))

    def until(self, operation: Operation[T], deadline: float) -> T:
        """The same, with a deadline by the monotonic clock."""
        method, start = operation.method, time.monotonic()
        for attempt in itertools.count(1):
            left = max(deadline - time.monotonic(), 0.0)
            try:
                send = self._connections.unary(method).with_call
                answer, call = send(operation.request, timeout=left, metadata=_timing.metadata())
            except grpc.RpcError as failed:
                problem = from_call(failed)
                wait = self.settings.wait(problem, attempt, method.is_idempotent)
                if wait is None or time.monotonic() + wait >= deadline:
                    raise problem from None
                time.sleep(wait)
            else:
                _timing.record(method.name, time.monotonic() - start, call.initial_metadata())
                return operation.decode(answer)
        raise AssertionError("unreachable")

    def run_split(self, split: SplitOperation[T], timeout: float | None) -> T:
        """Makes a call in parts, one after the other."""
        deadline = self.settings.deadline(timeout)
        return split.join([done for part in split.parts for done in self._run_part(split, part, deadline)])

    def _run_part(self, split: SplitOperation[Any], part: Any, deadline: float) -> list[tuple[Any, Any]]:
        try:
            return [(part, self.until(split.operation(part), deadline))]
        except MessageTooLargeError:
            halves = part.halves()
            if halves is None:
                raise
        return [done for half in halves for done in self._run_part(split, half, deadline)]

    def stream(self, method: Method, requests: Iterable[Message | bytes], timeout: float | None) -> Iterator[Any]:
        """The answers of a stream; nothing is retried. Ends the call when it is closed."""
        start = time.monotonic()
        outgoing = Outgoing(requests)
        call = self._connections.stream(method)(iter(outgoing), timeout=timeout, metadata=_timing.metadata())
        try:
            is_first = True
            for answer in call:
                if is_first:
                    _timing.record(method.name, time.monotonic() - start, call.initial_metadata())
                    is_first = False
                yield answer
        except grpc.RpcError as failed:
            raise outgoing.problem or from_call(failed) from None
        finally:
            call.cancel()

    def close(self) -> None:
        """Closes the connections."""
        for channel in self._connections.take():
            channel.close()


class Outgoing:
    """The messages of a stream. gRPC's own thread takes them, and would hide why one could not be made."""

    def __init__(self, requests: Iterable[Message | bytes]) -> None:
        self._requests = requests
        #: Why a message could not be made.
        self.problem: Exception | None = None

    def __iter__(self) -> Iterator[Message | bytes]:
        try:
            yield from self._requests
        except Exception as problem:
            self.problem = problem
            raise
