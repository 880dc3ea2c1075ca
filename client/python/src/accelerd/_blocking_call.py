# Generated from _aio_call.py by generate.py; do not edit.
"""Calls and streams over `grpc`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from . import _timing
from ._blocking_runtime import STREAM_ERRORS, call_unary, numbered, sleep
from ._call import Connections, Method, Operation, Settings, SplitOperation
from ._errors import MessageTooLargeError
from ._retry import Attempts, RetryBudget
from ._timeout import finite, left, now, seconds

T = TypeVar("T")


class Caller:
    """Makes calls over `grpc`."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._connections = Connections(settings, grpc)
        self._budget = RetryBudget()

    def __reduce__(self) -> tuple[type[Caller], tuple[Settings]]:
        return Caller, (self.settings,)

    def run(self, operation: Operation[T], timeout: float | None) -> T:
        """Make a call, with retries until the timeout."""
        return self.until(operation, self.settings.deadline(timeout))

    def until(self, operation: Operation[T], deadline: float) -> T:
        """Make a call, with retries until a deadline of the monotonic clock."""
        method, start = operation.method, now()
        attempts = self.attempts(method, deadline)
        while True:
            timeout = finite(left(deadline))
            send = self._connections.unary(method)
            try:
                response, call = call_unary(send, operation.request, timeout, self.settings.metadata())
            except grpc.RpcError as failed:
                problem = self.settings.problem(failed, method, operation.conditions)
            else:
                _timing.record(method.name, now() - start, call.initial_metadata())
                return operation.decode(response)
            sleep(attempts.wait(problem))

    def attempts(self, method: Method, deadline: float) -> Attempts:
        """Return the attempts of a call."""
        return Attempts(self._budget, deadline, self.settings.attempts, method.is_idempotent)

    def run_split(self, split: SplitOperation[T], timeout: float | None) -> T:
        """Make a call in parts, one after another."""
        deadline = self.settings.deadline(timeout)
        done: list[tuple[Any, Any]] = []
        for part in split.parts:
            done += self._run_part(split, part, deadline)
        return split.join(done)

    def _run_part(self, split: SplitOperation[Any], part: Any, deadline: float) -> list[tuple[Any, Any]]:
        try:
            return [(part, self.until(split.operation(part), deadline))]
        except MessageTooLargeError:
            halves = part.halves()
            if halves is None:
                raise
        return [done for half in halves for done in self._run_part(split, half, deadline)]

    def stream(self, method: Method, requests: Iterable[Message | bytes], timeout: float | None) -> Iterator[Any]:
        """Iterate over the responses of a stream, without retries. Closing the iterator cancels the call.

        A timeout of None means no deadline.
        """
        timeout = None if timeout is None else finite(seconds(timeout))
        start = now()
        outgoing = _Outgoing(requests)
        call = self._connections.stream(method)(outgoing.messages(), timeout=timeout, metadata=self.settings.metadata())
        try:
            is_first = True
            for response in call:
                if is_first:
                    _timing.record(method.name, now() - start, call.initial_metadata())
                    is_first = False
                yield response
            # gRPC cancels a call whose request iterator raised; the responses may then end without an error.
            if outgoing.problem is not None:
                raise outgoing.problem
        except STREAM_ERRORS as failed:
            if outgoing.problem is None and not isinstance(failed, grpc.RpcError):
                raise
            raise outgoing.problem or self.settings.problem(failed, method) from None
        finally:
            call.cancel()

    def close(self) -> None:
        """Close the connections."""
        for channel in self._connections.take():
            channel.close()


class _Outgoing:
    """The requests of a stream. gRPC consumes them on its own thread and would swallow an exception raised there."""

    def __init__(self, requests: Iterable[Message | bytes]) -> None:
        self._requests = requests
        #: The exception that the requests raised.
        self.problem: Exception | None = None

    def messages(self) -> Iterator[Message | bytes]:
        """Iterate over the requests; keep an exception in `problem`."""
        try:
            for _, message in numbered(self._requests):
                yield message
        except Exception as problem:
            self.problem = problem
            raise
