"""How the asyncio client waits, calls and iterates. `_blocking_runtime` has the same names for the blocking client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from typing import Any, Generic, TypeAlias, TypeVar

import grpc
import grpc.aio

S = TypeVar("S")
T = TypeVar("T")
#: Input of a stream: an iterable or an asynchronous iterable.
Batches: TypeAlias = "Iterable[T] | AsyncIterable[T]"
#: What the responses of a failed stream raise. gRPC cancels a call whose request iterator raised.
STREAM_ERRORS = (grpc.RpcError, asyncio.CancelledError)


async def pause(seconds: float, unconnected: list[Any]) -> None:
    """Wait. gRPC connects meanwhile, on a thread of its own."""
    await asyncio.sleep(seconds)


async def call_unary(send: Any, request: Any, timeout: float | None, metadata: Any) -> tuple[Any, Any]:
    """Make a unary call. Returns the response and the call."""
    call = send(request, timeout=timeout, metadata=metadata)
    return await call, call


async def numbered(batches: Batches[T]) -> AsyncIterator[tuple[int, T]]:
    """Enumerate batches from 0."""
    if isinstance(batches, AsyncIterable):
        at = 0
        async for batch in batches:
            yield at, batch
            at += 1
        return
    for at, batch in enumerate(batches):
        yield at, batch


class Input(Generic[T]):
    """The items of a stream's input for one sender after another, of which gRPC cancels the earlier."""

    def __init__(self, items: Batches[T]) -> None:
        self._items = numbered(items)
        #: A task of its own: cancelling it would end the input.
        self._pulling: asyncio.Task[bool] | None = None

    async def pull(self, keep: Callable[[int, T], None], is_needed: Callable[[], bool]) -> bool:
        """Pass the next item and its index to `keep`, if one is needed. Returns False at the end."""
        if not is_needed():
            return True
        if self._pulling is None:
            self._pulling = asyncio.ensure_future(self._next(keep))
        pulling = self._pulling
        try:
            return await asyncio.shield(pulling)
        finally:
            if pulling.done() and self._pulling is pulling:
                self._pulling = None

    async def _next(self, keep: Callable[[int, T], None]) -> bool:
        async for at, item in self._items:
            keep(at, item)
            return True
        return False

    async def close(self) -> None:
        """Stop waiting for items."""
        if self._pulling is not None:
            self._pulling.cancel()


async def mapped(function: Callable[[S], T], items: AsyncIterable[S]) -> AsyncIterator[T]:
    """Iterate over the results of a function."""
    async for item in items:
        yield function(item)
