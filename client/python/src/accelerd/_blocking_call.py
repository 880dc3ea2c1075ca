# Generated from _aio_call.py by generate.py; do not edit.
"""Calls and streams over `grpc`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from . import _timing
from ._blocking_runtime import STREAM_ERRORS, Input, call_unary, numbered, pause
from ._call import Connections, Method, Operation, Settings, SplitOperation, in_time
from ._errors import AccelerdError, MessageTooLargeError, malformed, with_progress
from ._resume import SentMessages, StreamProgress
from ._retry import Attempts, RetryBudget, is_not_sent
from ._timeout import left, now, seconds

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
            timeout = in_time(left(deadline))
            send = self._connections.unary(method)
            try:
                response, call = call_unary(send, operation.request, timeout, self.settings.metadata())
            except grpc.RpcError as failed:
                problem = self.settings.problem(failed, method, operation.conditions)
                if is_not_sent(problem):
                    self._connections.could_not_connect(send)
            else:
                _timing.record(method.name, now() - start, call.initial_metadata())
                return operation.decode(response)
            self.pause(attempts.wait(problem))

    def pause(self, seconds: float) -> None:
        """Wait before another attempt, at most until there is a connection again."""
        pause(seconds, self._connections.unconnected())

    def attempts(self, method: Method, deadline: float) -> Attempts:
        """Return the attempts of a call."""
        return Attempts(self._budget, deadline, self.settings.attempts, method.is_idempotent)

    def run_split(self, split: SplitOperation[T], timeout: float | None) -> T:
        """Make a call in parts, one after another."""
        deadline = self.settings.deadline(timeout)
        done: list[tuple[Any, Any]] = []
        try:
            for part in split.parts:
                self._run_part(split, part, deadline, done)
        except AccelerdError as problem:
            if not split.unit or (not done and problem.code is not grpc.StatusCode.DEADLINE_EXCEEDED):
                raise
            counts = (sum(len(part) for part, _ in done), sum(map(len, split.parts)))
            raise with_progress(problem, *counts, split.unit) from None
        return split.join(done)

    def _run_part(self, split: SplitOperation[Any], part: Any, deadline: float, done: list[tuple[Any, Any]]) -> None:
        try:
            done.append((part, self.until(split.operation(part), deadline)))
            return
        except MessageTooLargeError as problem:
            halves = part.halves()
            if halves is None:
                raise split.of_row(problem, part) from None
        for half in halves:
            self._run_part(split, half, deadline, done)

    def stream(self, method: Method, requests: Iterable[Message | bytes], timeout: float | None) -> Iterator[Any]:
        """Iterate over the responses of a stream, without retries. Closing the iterator cancels the call.

        A timeout of None means no deadline.
        """
        timeout = None if timeout is None else in_time(seconds(timeout))
        start = now()
        outgoing = _Outgoing(requests)
        send = self._connections.stream(method)
        call = send(outgoing.messages(), timeout=timeout, metadata=self.settings.metadata())
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
            problem = outgoing.problem or self.settings.problem(failed, method)
            if isinstance(problem, AccelerdError) and is_not_sent(problem):
                self._connections.could_not_connect(send)
            raise problem from None
        finally:
            call.cancel()

    def retried_stream(
        self, method: Method, requests: Callable[[], Iterable[Message | bytes]], timeout: float | None
    ) -> Iterator[Any]:
        """Iterate over the responses of a stream, which is retried until the first of them.

        A timeout of None means no deadline.
        """
        deadline = math.inf if timeout is None else now() + seconds(timeout)
        attempts = self.attempts(method, deadline)
        while True:
            has_response = False
            try:
                for response in self.stream(method, requests(), left(deadline)):
                    has_response = True
                    yield response
                return
            except AccelerdError as problem:
                if has_response:
                    raise
                wait = attempts.wait(problem)
            self.pause(wait)

    def continued_stream(self, method: Method, progress: StreamProgress, timeout: float | None) -> Iterator[Any]:
        """Iterate over the responses of a stream that another call continues after a lost connection or a drain.

        A timeout of None means no deadline.
        """
        deadline = math.inf if timeout is None else now() + seconds(timeout)
        attempts = self.attempts(method, deadline)
        while True:
            has_response = False
            try:
                for response in self.stream(method, [progress.request()], left(deadline)):
                    attempts.progressed()
                    has_response = True
                    if progress.is_new(response):
                        yield response
                if progress.is_complete:
                    return
                if not has_response:
                    raise malformed("the stream ended before its last response")
            except AccelerdError as problem:
                if progress.is_complete:
                    return
                wait = attempts.wait(problem)
            else:
                # Responses that were there before took the place of some that are missing.
                continue
            self.pause(wait)

    def resumed_stream(
        self, method: Method, requests: Iterable[Message | bytes], timeout: float | None, *, is_ordered: bool = False
    ) -> Iterator[Any]:
        """Iterate over the responses of a stream whose requests are numbered from 0.

        After a lost connection, or the drain of a daemon, requests without a response are sent again; if they are
        ordered, all from the first of them on. A timeout of None means no deadline.
        """
        deadline = math.inf if timeout is None else now() + seconds(timeout)
        attempts = self.attempts(method, deadline)
        sent = SentMessages(is_ordered)
        incoming = Input(requests)
        try:
            while True:
                outgoing = _Resumed(incoming, sent)
                try:
                    for response in self.stream(method, outgoing.messages(), left(deadline)):
                        attempts.progressed()
                        if sent.answered(response.sequence):
                            yield response
                    if sent.is_complete:
                        return
                    raise malformed("the stream ended before its last request was answered")
                except AccelerdError as problem:
                    if outgoing.has_failed:
                        raise
                    wait = attempts.wait(problem)
                self.pause(wait)
        finally:
            incoming.close()

    def close(self) -> None:
        """Close the connections."""
        for channel in self._connections.take():
            channel.close()


class _Resumed:
    """The requests of one call of a stream that is resumed."""

    def __init__(self, incoming: Input[Message | bytes], sent: SentMessages) -> None:
        self._incoming = incoming
        self._sent = sent
        self._attempt = sent.begin()
        #: Whether the input raised an exception, which is the caller's.
        self.has_failed = False

    def messages(self) -> Iterator[Message | bytes]:
        """Iterate over the requests: those to send again, then those that follow. Ends when another call begins."""
        while self._sent.is_current(self._attempt):
            message = self._sent.take(self._attempt)
            if message is not None:
                yield message
                continue
            try:
                has_next = self._incoming.pull(self._sent.keep, self._sent.needs_input)
            except Exception:
                self.has_failed = True
                raise
            if not has_next:
                self._sent.end()
                return


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
