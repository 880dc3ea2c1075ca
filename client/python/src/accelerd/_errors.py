"""Errors of calls, with their details."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

from ._visible import visible

#: Messages of the daemon, and of gRPC's own limits on either side.
_TOO_LARGE = re.compile(
    r"message larger than max \((\d+) vs\. (\d+)\)"
    r"|message length too large: found (\d+) bytes, the limit is: (\d+)"
    r"|(?:message|response) has (\d+) bytes, (?:expected|a message) at most (\d+)"
)
#: What gRPC says of a connection or a stream that broke, without a code for it. It says the last of a stream that the
#: daemon ended while a request was sent, and hides the daemon's status.
_BROKEN = ("Stream removed", "Socket closed", "Transport closed", "Internal error from Core")


@dataclass(frozen=True)
class FieldViolation:
    """An invalid field of a request."""

    #: Path in the request of the protocol, such as "limit" or "texts.values[3]".
    field: str
    description: str
    #: Name of the argument in this client, such as "k" or "texts[3]", which the text of the error has.
    argument: str = ""


@dataclass(frozen=True)
class ErrorDetails:
    """Details of a gRPC status."""

    violations: tuple[FieldViolation, ...] = ()
    #: Seconds to wait before a retry, from RetryInfo.
    retry_after: float | None = None
    #: Reason of the error, such as MESSAGE_TOO_LARGE, from ErrorInfo.
    reason: str = ""
    metadata: Mapping[str, str] | None = None
    #: How many texts, sources or points were done before the failure of a call that is made in parts.
    done: int | None = None


class AccelerdError(Exception):
    """A failed call. Base class of all errors of the client."""

    def __init__(self, code: grpc.StatusCode, message: str, details: ErrorDetails | None = None) -> None:
        super().__init__(visible(f"{code.name}: {message}"))
        self.code = code
        self.message = message
        self.details = details or ErrorDetails()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.message, self.details)

    @property
    def violations(self) -> tuple[FieldViolation, ...]:
        """The invalid fields of the request."""
        return self.details.violations

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait before a retry; None if the daemon named none."""
        return self.details.retry_after

    @property
    def reason(self) -> str:
        """Reason of the error, such as MESSAGE_TOO_LARGE; empty if the daemon gave none."""
        return self.details.reason

    @property
    def done(self) -> int | None:
        """How many texts, sources or points were done before a call in parts failed; None for other calls."""
        return self.details.done


class InvalidArgumentError(AccelerdError, ValueError):
    """The daemon rejected an argument; `violations` names the fields and arguments."""


class MessageTooLargeError(AccelerdError, ValueError):
    """A request or a response exceeds the maximum message size and cannot be split further."""

    @property
    def size(self) -> int | None:
        """Size of the message in bytes, if known."""
        return _sizes(self.message, self.details)[0]

    @property
    def limit(self) -> int | None:
        """Maximum size of a message in bytes, if known."""
        return _sizes(self.message, self.details)[1]


class NotFoundError(AccelerdError, LookupError):
    """The collection, model, point, snapshot or resident tensor does not exist."""


class AlreadyExistsError(AccelerdError):
    """The name is taken."""


class BusyError(AccelerdError):
    """A queue, the memory or the disk of the daemon is full."""


class DeadlineError(AccelerdError, TimeoutError):
    """The deadline passed before a response arrived."""


class UnavailableError(AccelerdError, ConnectionError):
    """The daemon cannot be reached or accepts no work."""


class UnauthenticatedError(AccelerdError):
    """The daemon does not know the caller: the token is missing or wrong."""


class PermissionDeniedError(AccelerdError, PermissionError):
    """The daemon does not permit the call to this caller."""


_CLASSES: dict[grpc.StatusCode, type[AccelerdError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgumentError,
    grpc.StatusCode.NOT_FOUND: NotFoundError,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExistsError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: BusyError,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineError,
    grpc.StatusCode.UNAVAILABLE: UnavailableError,
    grpc.StatusCode.UNAUTHENTICATED: UnauthenticatedError,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDeniedError,
}
_MAY_BE_TOO_LARGE = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.OUT_OF_RANGE)

_BY_NUMBER: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}


def error(code: grpc.StatusCode, message: str, details: ErrorDetails | None = None) -> AccelerdError:
    """Return an error of the class for a status code."""
    details = details or ErrorDetails()
    is_too_large = details.reason == "MESSAGE_TOO_LARGE" or _TOO_LARGE.search(message)
    cls = MessageTooLargeError if code in _MAY_BE_TOO_LARGE and is_too_large else _CLASSES.get(code, AccelerdError)
    return cls(code, message, details)


def too_large(what: str, size: int, limit: int, hint: str = "") -> AccelerdError:
    """Return the error of a request that the client does not send."""
    message = f"{what} cannot be split: the request message has {size} bytes, expected at most {limit}{hint}"
    return error(grpc.StatusCode.RESOURCE_EXHAUSTED, message)


def late() -> AccelerdError:
    """Return the error of a call whose timeout is over before it is sent."""
    return error(grpc.StatusCode.DEADLINE_EXCEEDED, "the timeout was over before the call was sent")


def from_item(item: Any) -> AccelerdError:
    """Return the error of one item of a stream."""
    return error(_BY_NUMBER.get(item.code, grpc.StatusCode.UNKNOWN), item.message)


def from_call(failed: Any) -> AccelerdError:
    """Return the error of a failed call of `grpc` or `grpc.aio`, with its details."""
    violations: list[FieldViolation] = []
    retry_after, reason, metadata = None, "", None
    for detail in _details(failed):
        bad, retry, info = error_details_pb2.BadRequest(), error_details_pb2.RetryInfo(), error_details_pb2.ErrorInfo()
        if detail.Unpack(bad):
            violations += [FieldViolation(v.field, v.description) for v in bad.field_violations]
        elif detail.Unpack(retry):
            retry_after = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
        elif detail.Unpack(info):
            reason, metadata = info.reason, dict(info.metadata)
    details = ErrorDetails(tuple(violations), retry_after, reason, metadata)
    code, message = failed.code(), failed.details() or ""
    if code in (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL) and message in _BROKEN:
        return error(grpc.StatusCode.UNAVAILABLE, f"the connection broke: {message}", details)
    return error(code, message, details)


def seconds_needed(problem: AccelerdError) -> float | None:
    """Return the seconds that a call needs, if the daemon refused it because its timeout is too short for it alone."""
    metadata = problem.details.metadata or {}
    if problem.reason != "WOULD_MISS_DEADLINE" or problem.retry_after is not None or "estimated_ms" not in metadata:
        return None
    return int(metadata["estimated_ms"]) / 1000


def with_progress(problem: AccelerdError, done: int, total: int, what: str) -> AccelerdError:
    """Return the error of a call in parts with what was done before, such as "points were written"."""
    message = f"{problem.message}; {done} of {total} {what}"
    return type(problem)(problem.code, message, replace(problem.details, done=done))


def malformed(what: str) -> AccelerdError:
    """Return the error of a response that violates the protocol."""
    return error(grpc.StatusCode.INTERNAL, f"malformed response: {what}")


def _details(failed: Any) -> list[Any]:
    for key, value in failed.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            return list(status_pb2.Status.FromString(value).details)
    return []


def _sizes(message: str, details: ErrorDetails) -> tuple[int | None, int | None]:
    if details.metadata and {"asked", "limit"} <= details.metadata.keys():
        return int(details.metadata["asked"]), int(details.metadata["limit"])
    if found := _TOO_LARGE.search(message):
        size, limit = (int(number) for number in found.groups() if number is not None)
        return size, limit
    return None, None
