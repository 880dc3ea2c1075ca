"""Which failed calls are retried, and when: until their deadline and within a budget."""

from __future__ import annotations

import math
import random
import re
import threading

import grpc

from ._errors import AccelerdError, MessageTooLargeError
from ._timeout import now

#: Bounds of the first backoff and of any, in seconds.
FIRST_WAIT = 0.05
MAX_WAIT = 2.0
#: Seconds for which a call without a deadline is retried, from its first failure.
WITHOUT_DEADLINE = 60.0
#: What gRPC says if it has no connection for a call, which then was not sent.
_NOT_SENT = re.compile(
    r"failed to connect to all addresses|connections to all backends failing|DNS resolution failed|empty address list"
)


def is_not_sent(problem: AccelerdError) -> bool:
    """Return whether a call failed because there was no connection."""
    return problem.code is grpc.StatusCode.UNAVAILABLE and _NOT_SENT.match(problem.message) is not None


class RetryBudget:
    """The retries of a client, so that clients of a failing daemon do not multiply its load.

    Each call earns a fifth of a retry. Unlike in Finagle's RetryBudget, a retry without a token is not refused: it
    waits for the tokens that are earned with time, so that a call survives as long as its deadline permits.
    """

    PER_CALL = 0.2
    #: Retries that are earned with time, so that clients with few calls can retry.
    PER_SECOND = 1.0
    #: Retries of a new client, and the most that are earned with time.
    RESERVE = 10.0
    #: The most retries that are kept for later.
    MAX = 1000.0

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Negative if retries wait.
        self._balance = self.RESERVE
        self._updated = now()

    def deposit(self) -> None:
        """Earn the retries of a call."""
        with self._lock:
            self._balance = min(self._balance + self.PER_CALL, self.MAX)

    def withdraw(self) -> float:
        """Take a retry. Returns the seconds until it may be made."""
        with self._lock:
            time = now()
            passed, self._updated = time - self._updated, time
            if self._balance < self.RESERVE:
                self._balance = min(self._balance + passed * self.PER_SECOND, self.RESERVE)
            self._balance -= 1.0
            return max(-self._balance / self.PER_SECOND, 0.0)

    def put_back(self) -> None:
        """Return a retry that is not made."""
        with self._lock:
            self._balance = min(self._balance + 1.0, self.MAX)


class Attempts:
    """The attempts of a call.

    UNAVAILABLE is retried, which includes broken connections, and RESOURCE_EXHAUSTED with RetryInfo. A call that is not
    idempotent is retried only where the daemon did not execute it: with RetryInfo, or if no connection could be made.
    The backoff is exponential with full jitter, after the delay of RetryInfo. Attempts that reach no daemon do not
    count in the budget.
    """

    def __init__(self, budget: RetryBudget, deadline: float, limit: int | None, is_idempotent: bool) -> None:
        budget.deposit()
        self._budget = budget
        self._deadline = deadline
        #: None means that only the deadline bounds the attempts.
        self._limit = math.inf if limit is None else limit
        self._is_idempotent = is_idempotent
        self._failed = 0
        self._failing_since: float | None = None

    def progressed(self) -> None:
        """Count anew, after a response of a stream."""
        self._failed, self._failing_since = 0, None

    def wait(self, problem: AccelerdError) -> float:
        """Return the seconds until the next attempt. Raises the problem if it is final."""
        self._failed += 1
        time = now()
        if self._failing_since is None:
            self._failing_since = time
        end = self._failing_since + WITHOUT_DEADLINE if math.isinf(self._deadline) else self._deadline
        is_sent = not is_not_sent(problem)
        if self._failed >= self._limit or not self._may_repeat(problem, is_sent):
            raise problem
        bound = min(FIRST_WAIT * 2.0 ** min(self._failed - 1, 20), MAX_WAIT)
        wait = (problem.retry_after or 0.0) + random.random() * bound
        if time + wait >= end:
            raise problem
        if is_sent:
            wait = max(wait, self._budget.withdraw())
            if time + wait >= end:
                self._budget.put_back()
                raise problem
        return wait

    def _may_repeat(self, problem: AccelerdError, is_sent: bool) -> bool:
        if isinstance(problem, MessageTooLargeError):
            return False
        is_hinted = problem.retry_after is not None
        if problem.code is grpc.StatusCode.UNAVAILABLE:
            return self._is_idempotent or is_hinted or not is_sent
        return problem.code is grpc.StatusCode.RESOURCE_EXHAUSTED and is_hinted
