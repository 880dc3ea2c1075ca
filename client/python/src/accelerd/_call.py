"""One call: sent until it is answered, refused for good, or late."""

from __future__ import annotations

import random
import time
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


def malformed(what: str) -> AccelerdError:
    """The answer breaks the protocol."""
    return error(grpc.StatusCode.INTERNAL, f"malformed answer: {what}")
