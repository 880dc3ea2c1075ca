"""How the blocking client waits, calls and iterates. `_aio_runtime` has the same names for the asyncio client."""

from __future__ import annotations

import time
from typing import Any

import grpc

#: What the responses of a failed stream raise.
STREAM_ERRORS = (grpc.RpcError,)

sleep = time.sleep
numbered = enumerate
mapped = map


def call_unary(send: Any, request: Any, timeout: float | None, metadata: Any) -> tuple[Any, Any]:
    """Make a unary call. Returns the response and the call."""
    response, call = send.with_call(request, timeout=timeout, metadata=metadata)
    return response, call
