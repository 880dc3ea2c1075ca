"""Why a call failed, with everything the daemon said about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2


@dataclass(frozen=True)
class FieldViolation:
    """A field of the request that is wrong."""

    field: str
    description: str


class AccelerdError(Exception):
    """A call failed."""

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        violations: tuple[FieldViolation, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message
        self.violations = violations
        #: Seconds after which the daemon wants to be asked again, where it said so.
        self.retry_after = retry_after


class InvalidArgumentError(AccelerdError, ValueError):
    """The daemon refused what it was given; `violations` names the fields."""


class NotFoundError(AccelerdError, LookupError):
    """The collection, model, point or snapshot does not exist."""


class AlreadyExistsError(AccelerdError):
    """The name is taken."""


class BusyError(AccelerdError):
    """The daemon is busy or out of room."""


class DeadlineError(AccelerdError, TimeoutError):
    """There was no answer in time."""


class UnavailableError(AccelerdError, ConnectionError):
    """The daemon cannot be reached, or takes no work."""


_CLASSES: dict[grpc.StatusCode, type[AccelerdError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgumentError,
    grpc.StatusCode.NOT_FOUND: NotFoundError,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExistsError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: BusyError,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineError,
    grpc.StatusCode.UNAVAILABLE: UnavailableError,
}

_BY_NUMBER: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}


def error(
    code: grpc.StatusCode,
    message: str,
    violations: tuple[FieldViolation, ...] = (),
    retry_after: float | None = None,
) -> AccelerdError:
    """The error of the class that fits the code."""
    return _CLASSES.get(code, AccelerdError)(code, message, violations, retry_after)


def from_item(item: Any) -> AccelerdError:
    """The error of one step of a stream."""
    return error(_BY_NUMBER.get(item.code, grpc.StatusCode.UNKNOWN), item.message)


def from_call(failed: grpc.RpcError) -> AccelerdError:
    """The error of a call, with its rich details."""
    violations: list[FieldViolation] = []
    retry_after = None
    for detail in _details(failed):
        bad, retry = error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
        if detail.Unpack(bad):
            violations += [FieldViolation(v.field, v.description) for v in bad.field_violations]
        elif detail.Unpack(retry):
            retry_after = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
    return error(failed.code(), failed.details() or "", tuple(violations), retry_after)


def _details(failed: grpc.RpcError) -> list[Any]:
    for key, value in failed.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            return list(status_pb2.Status.FromString(value).details)
    return []
