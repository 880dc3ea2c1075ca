"""How the asyncio client waits, calls and iterates. `_blocking_runtime` has the same names for the blocking client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from typing import Any, TypeAlias, TypeVar

import grpc
import grpc.aio

S = TypeVar("S")
T = TypeVar("T")
#: Input of a stream: an iterable or an asynchronous iterable.
Batches: TypeAlias = "Iterable[T] | AsyncIterable[T]"
#: What the responses of a failed stream raise. gRPC cancels a call whose request iterator raised.
STREAM_ERRORS = (grpc.RpcError, asyncio.CancelledError)

sleep = asyncio.sleep


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


async def mapped(function: Callable[[S], T], items: AsyncIterable[S]) -> AsyncIterator[T]:
    """Iterate over the results of a function."""
    async for item in items:
        yield function(item)
