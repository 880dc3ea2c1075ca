"""Times of messages. A daemon whose clock is wrong, or that is not one, can send times that Python cannot express."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_FIRST = datetime.min.replace(tzinfo=timezone.utc)
_LAST = datetime.max.replace(tzinfo=timezone.utc)


def to_timedelta(message: Duration) -> timedelta:
    """Return a duration, or the nearest one that Python can express."""
    try:
        return timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)
    except OverflowError:
        return timedelta.max if message.seconds > 0 else timedelta.min


def to_datetime(message: Timestamp) -> datetime:
    """Return a time, or the nearest one that Python can express."""
    try:
        return _EPOCH + timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)
    except OverflowError:
        return _LAST if message.seconds > 0 else _FIRST
