"""One call: sent until it is answered, refused for good, or late."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import grpc

from ._errors import AccelerdError, error, from_call

FIRST_WAIT = 0.05
MAX_WAIT = 2.0


class Method(Protocol):
    """A method of a generated stub."""

    def __call__(self, request: Any, *, timeout: float | None = None) -> Any: ...


class Caller:
    """Calls with a deadline that spans retries.

    UNAVAILABLE is retried, and RESOURCE_EXHAUSTED where the daemon said when to come back. A call that must not run
    twice is retried only where the daemon said when to come back: then it did nothing. Waits are exponential with full
    jitter.
    """

    def __init__(self, timeout: float, attempts: int) -> None:
        self.timeout = timeout
        self.attempts = attempts

    def __call__(self, method: Method, request: Any, *, repeatable: bool = True, timeout: float | None = None) -> Any:
        """Makes a call."""
        until = time.monotonic() + (self.timeout if timeout is None else timeout)
        attempt = 1
        while True:
            left = until - time.monotonic()
            try:
                return method(request, timeout=max(left, 0.0))
            except grpc.RpcError as failed:
                problem = from_call(failed)
                wait = self._wait(problem, attempt, repeatable)
                if wait is None or time.monotonic() + wait >= until:
                    raise problem from None
            time.sleep(wait)
            attempt += 1

    def _wait(self, problem: AccelerdError, attempt: int, repeatable: bool) -> float | None:
        """Seconds until the next attempt; None when the failure is final."""
        hinted = problem.retry_after is not None
        unavailable = problem.code is grpc.StatusCode.UNAVAILABLE and (repeatable or hinted)
        busy = problem.code is grpc.StatusCode.RESOURCE_EXHAUSTED and hinted
        if attempt >= self.attempts or not (unavailable or busy):
            return None
        return (problem.retry_after or 0.0) + random.random() * min(FIRST_WAIT * 2.0 ** (attempt - 1), MAX_WAIT)


class Connections:
    """Connections to one target, in the place of a channel: each call goes over the next."""

    def __init__(self, target: str, options: Iterable[tuple[str, Any]], count: int) -> None:
        # Channels to the same target share a connection unless they are told not to.
        options = [*options, ("grpc.use_local_subchannel_pool", 1)]
        self._channels = [grpc.insecure_channel(target, options=options) for _ in range(count)]
        self._turns = itertools.count()

    def unary_unary(self, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        """A method of each channel in turn, as are the others."""
        return self._in_turn(channel.unary_unary(*args, **kwargs) for channel in self._channels)

    def unary_stream(self, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        return self._in_turn(channel.unary_stream(*args, **kwargs) for channel in self._channels)

    def stream_unary(self, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        return self._in_turn(channel.stream_unary(*args, **kwargs) for channel in self._channels)

    def stream_stream(self, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        return self._in_turn(channel.stream_stream(*args, **kwargs) for channel in self._channels)

    def _in_turn(self, methods: Iterator[Callable[..., Any]]) -> Callable[..., Any]:
        each = list(methods)
        return lambda *args, **kwargs: each[next(self._turns) % len(each)](*args, **kwargs)

    def close(self) -> None:
        """Closes all of them."""
        for channel in self._channels:
            channel.close()


def malformed(what: str) -> AccelerdError:
    """The answer breaks the protocol."""
    return error(grpc.StatusCode.INTERNAL, f"malformed answer: {what}")
