"""How the blocking client waits, calls and iterates. `_aio_runtime` has the same names for the asyncio client."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import grpc

T = TypeVar("T")

#: What the responses of a failed stream raise.
STREAM_ERRORS = (grpc.RpcError,)

numbered = enumerate
mapped = map


def pause(seconds: float, unconnected: list[Any]) -> None:
    """Wait, at most until one of the channels is connected.

    gRPC makes progress with a connection only while a thread waits for an event of its channel. The calls of a channel
    without a connection fail before they wait.
    """
    if not unconnected:
        time.sleep(seconds)
        return
    is_connected = threading.Event()

    def changed(state: grpc.ChannelConnectivity) -> None:
        if state is grpc.ChannelConnectivity.READY:
            is_connected.set()

    for channel in unconnected:
        channel.subscribe(changed, try_to_connect=True)
    is_connected.wait(seconds)
    for channel in unconnected:
        channel.unsubscribe(changed)


class Input(Generic[T]):
    """The items of a stream's input for one sender after another, each on a thread that may outlive its call."""

    def __init__(self, items: Iterable[T]) -> None:
        self._items = enumerate(items)
        self._lock = threading.Lock()

    def pull(self, keep: Callable[[int, T], None], is_needed: Callable[[], bool]) -> bool:
        """Pass the next item and its index to `keep`, if one is needed. Returns False at the end."""
        with self._lock:
            if not is_needed():
                return True
            for at, item in self._items:
                keep(at, item)
                return True
            return False

    def close(self) -> None:
        """Do nothing, since nobody can end a wait for an item."""


def call_unary(send: Any, request: Any, timeout: float | None, metadata: Any) -> tuple[Any, Any]:
    """Make a unary call. Returns the response and the call."""
    response, call = send.with_call(request, timeout=timeout, metadata=metadata)
    return response, call
