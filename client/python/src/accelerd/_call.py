"""Calls as both transports make them: methods, operations, parts, settings with the retry policy, and connections."""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from . import _timing
from ._argument_names import with_arguments
from ._credentials import ADDRESS_LISTS, PLAINTEXT, Credentials, Tls, is_local, is_unix_socket
from ._errors import AccelerdError, from_call, late
from ._hints import hint
from ._timeout import now, seconds

T = TypeVar("T")

#: The daemon's default limit.
DEFAULT_MESSAGE_BYTES = 64 << 20
DEFAULT_TIMEOUT = 60.0
DEFAULT_TARGET = "localhost:7433"
#: Seconds for which a daemon that cannot be reached gets no calls, if there are others.
_REST = 2.0


@dataclass(frozen=True)
class Method:
    """A gRPC method."""

    #: HTTP/2 path.
    path: str
    response: type[Message]
    #: Whether a call may be retried although the daemon may have executed it.
    is_idempotent: bool

    @property
    def name(self) -> str:
        """Name within its service."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class Operation(Generic[T]):
    """A call: its request, as a message or serialized, and the decoder of its response."""

    method: Method
    request: Message | bytes
    decode: Callable[[Any], T]
    #: Names of the conditions of a filter by their fields, for errors.
    conditions: Mapping[str, str] = field(default_factory=dict)


class Part:
    """Rows `start` to `stop` of an argument."""

    def __init__(self, start: int, stop: int) -> None:
        self.start, self.stop = start, stop

    def halves(self) -> tuple[Part, Part] | None:
        """Split in halves; None for a single row."""
        middle = (self.start + self.stop) // 2
        return None if middle == self.start else (Part(self.start, middle), Part(middle, self.stop))

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class SplitOperation(Generic[T]):
    """A call that is made in parts. A part that the daemon rejects as too large is halved."""

    parts: list[Any]
    operation: Callable[[Any], Operation[Any]]
    #: Combines the parts and their results, in order.
    join: Callable[[list[tuple[Any, Any]]], T]
    #: What the rows of the parts are, for the error of a call that fails halfway.
    unit: str = ""
    #: The argument whose rows the parts are, for the error of a row that exceeds a message.
    argument: str = ""

    def of_row(self, problem: AccelerdError, part: Any) -> AccelerdError:
        """Return the error of a part that cannot be halved, with the row."""
        if not self.argument:
            return problem
        return type(problem)(problem.code, f"{self.argument}[{part.start}]: {problem.message}", problem.details)


def parts_by_bytes(sizes: Iterable[int], limit: int, max_rows: int) -> list[Part]:
    """Split rows of these sizes into consecutive parts within limits of bytes and rows; a part has at least one row."""
    parts, start, held, at = [], 0, 0, -1
    for at, size in enumerate(sizes):
        if at > start and (held + size > limit or at - start == max_rows):
            parts.append(Part(start, at))
            start, held = at, 0
        held += size
    return [*parts, Part(start, at + 1)]


@dataclass(frozen=True)
class Settings:
    """Settings of a client."""

    #: Addresses of daemons, between which calls take turns.
    targets: tuple[str, ...]
    #: Seconds; infinity means no deadline.
    timeout: float = DEFAULT_TIMEOUT
    #: None means that only the deadline bounds them.
    attempts: int | None = None
    max_message_bytes: int = DEFAULT_MESSAGE_BYTES
    connections: int = 1
    credentials: Credentials = PLAINTEXT

    @classmethod
    def of(
        cls,
        target: str | Sequence[str] | None,
        timeout: float | None,
        attempts: int | None,
        max_message_bytes: int,
        connections: int,
        tls: Tls | bool | None = None,
        token: str | None = None,
        allow_plaintext_token: bool = False,
    ) -> Settings:
        """Validate settings. The target defaults to the environment variable ACCELERD_SERVER, then DEFAULT_TARGET."""
        named = target if target is not None else os.environ.get("ACCELERD_SERVER") or DEFAULT_TARGET
        targets = _targets(named)
        for name, value, minimum in (
            ("attempts", 1 if attempts is None else attempts, 1),
            ("connections", connections, 1),
            ("max_message_bytes", max_message_bytes, 1),
        ):
            if value < minimum:
                raise ValueError(f"{name}: expected at least {minimum}, got {value}")
        default = seconds(DEFAULT_TIMEOUT if timeout is None else timeout)
        if default == 0:
            raise ValueError(f"timeout: expected a positive number of seconds, got {timeout}")
        plain, credentials = Credentials.of(targets, tls, token, allow_plaintext_token)
        return cls(plain, default, attempts, max_message_bytes, connections, credentials)

    @property
    def target(self) -> str:
        """The addresses as text."""
        return ",".join(self.targets)

    def channel_options(self, target: str) -> list[tuple[str, Any]]:
        """Options of a gRPC channel."""
        tls = self.credentials.tls
        name = tls.server_name if tls is not None else None
        return [
            *([] if name is None else [("grpc.ssl_target_name_override", name)]),
            *_authority(target),
            ("grpc.max_send_message_length", self.max_message_bytes),
            # The daemon limits its responses.
            ("grpc.max_receive_message_length", -1),
            # Do not accept compressed responses: bulk numbers compress slowly and hardly at all.
            ("grpc.compression_enabled_algorithms_bitset", 1),
            ("grpc.keepalive_time_ms", 20_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.lb_policy_name", "round_robin"),
            ("grpc.enable_retries", 0),
            # By default a daemon that is back is found only after up to two minutes.
            ("grpc.initial_reconnect_backoff_ms", 200),
            ("grpc.max_reconnect_backoff_ms", 2_000),
            # Bounds an attempt to connect, too.
            ("grpc.min_reconnect_backoff_ms", 5_000),
            # Otherwise channels to the same target share a connection.
            ("grpc.use_local_subchannel_pool", 1),
            # The proxy of the environment (grpc_proxy, https_proxy, http_proxy) cannot reach this machine.
            *([("grpc.enable_http_proxy", 0)] if is_local(target) else []),
        ]

    def open_channels(self, transport: Any) -> list[Any]:
        """Open the channels of `grpc` or `grpc.aio`."""
        return [self._open(target, transport) for _ in range(self.connections) for target in self.targets]

    def _open(self, target: str, transport: Any) -> Any:
        options, tls = self.channel_options(target), self.credentials.tls
        if tls is None:
            return transport.insecure_channel(target, options=options)
        return transport.secure_channel(target, tls.channel_credentials(), options=options)

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the metadata of a call: the token, and whether timings are recorded."""
        return self.credentials.metadata() + _timing.metadata()

    def problem(self, failed: Any, method: Method, conditions: Mapping[str, str] | None = None) -> AccelerdError:
        """Return the error of a failed call, which names arguments and remedies."""
        found = with_arguments(from_call(failed), method.name, conditions)
        remedy = hint(found.code, found.message, self.target, self.credentials)
        return type(found)(found.code, f"{found.message}; {remedy}", found.details) if remedy else found

    def seconds(self, timeout: float | None) -> float:
        """Return the seconds of a timeout, of which None means the client's; infinity means no deadline."""
        return self.timeout if timeout is None else seconds(timeout)

    def deadline(self, timeout: float | None) -> float:
        """Return the deadline of a call with this timeout, by the monotonic clock."""
        return now() + self.seconds(timeout)


def _targets(named: Any) -> list[str]:
    """Return the addresses of a target: a list, or a text with commas. gRPC's own lists are one."""
    if isinstance(named, str):
        return [named] if named.startswith(ADDRESS_LISTS) else [one.strip() for one in named.split(",")]
    expected = f"expected an address such as {DEFAULT_TARGET!r}, or several"
    if not isinstance(named, Sequence) or not all(isinstance(one, str) for one in named):
        raise TypeError(f"target: {expected}, got {type(named).__name__}")
    if not named:
        raise ValueError(f"target: {expected}, got none")
    return list(named)


def _authority(target: str) -> list[tuple[str, str]]:
    """Return the option of the authority, where that of gRPC is invalid: the whole list of addresses, or a path."""
    if is_unix_socket(target):
        return [("grpc.default_authority", "localhost")]
    addresses = target.partition(":")[2].split(",")
    is_list = target.startswith(ADDRESS_LISTS) and len(addresses) > 1
    return [("grpc.default_authority", addresses[0])] if is_list else []


def in_time(timeout: float) -> float | None:
    """Return a timeout as gRPC takes it, where None means no deadline. Raises if none is left."""
    if timeout <= 0:
        raise late()
    return None if math.isinf(timeout) else timeout


def serialize(request: Message | bytes) -> bytes:
    """Serialize a message; bytes are a serialized message already."""
    return request if isinstance(request, bytes) else request.SerializeToString()


class Connections:
    """The channels of a client, opened by the first call and used round-robin.

    `transport` is `grpc` or `grpc.aio`.
    """

    def __init__(self, settings: Settings, transport: Any) -> None:
        self._settings = settings
        self._transport = transport
        self._lock = threading.Lock()
        self._channels: list[Any] = []
        self._methods: dict[tuple[int, str], Any] = {}
        #: By the ids of callables, the turns of their channels.
        self._turn_of: dict[int, int] = {}
        #: Channels that rest, as no connection could be made, until a time.
        self._rests_until: dict[int, float] = {}
        self._turns = itertools.count()
        self._process = 0
        self._is_closed = False

    def unary(self, method: Method) -> Any:
        """Return the callable of a unary method on the next channel."""
        return self._callable("unary_unary", method)

    def stream(self, method: Method) -> Any:
        """Return the callable of a streaming method on the next channel."""
        return self._callable("stream_stream", method)

    def _callable(self, kind: str, method: Method) -> Any:
        channels = self._opened()
        turn = 0
        for _ in channels:
            turn = next(self._turns) % len(channels)
            if self._rests_until.get(turn, 0.0) <= now():
                break
        key = turn, method.path
        found = self._methods.get(key)
        if found is None:
            make = getattr(channels[turn], kind)
            found = make(method.path, request_serializer=serialize, response_deserializer=method.response.FromString)
            self._methods[key] = found
            self._turn_of[id(found)] = turn
        return found

    def could_not_connect(self, called: Any) -> None:
        """Let the channel of a callable rest, unless all do."""
        turn = self._turn_of.get(id(called))
        if turn is not None:
            self._rests_until[turn] = now() + _REST

    def unconnected(self) -> list[Any]:
        """Return the channels that rest."""
        return [channel for turn, channel in enumerate(self._channels) if self._rests_until.get(turn, 0.0) > now()]

    def _opened(self) -> list[Any]:
        if self._is_closed:
            raise ValueError("the client is closed")
        if not self._channels:
            with self._lock:
                if not self._channels:
                    settings = self._settings
                    self._process = os.getpid()
                    self._channels = settings.open_channels(self._transport)
        if self._process != os.getpid():
            raise RuntimeError(
                "this client made a call before the process was forked, and gRPC does not survive a fork: "
                "create a client in the child, or start processes with spawn or forkserver"
            )
        return self._channels

    def take(self) -> list[Any]:
        """Return the channels to close; later calls raise."""
        self._is_closed = True
        channels, self._channels = self._channels, []
        return channels
