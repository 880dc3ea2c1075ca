"""Tests of times that Python cannot express."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from accelerd._proto import device_pb2 as pb
from accelerd._results import stats
from accelerd._times import to_datetime, to_timedelta


def test_times_are_those_of_the_messages() -> None:
    assert to_datetime(Timestamp(seconds=86_400, nanos=1_500)) == datetime(1970, 1, 2, 0, 0, 0, 1, tzinfo=timezone.utc)
    assert to_datetime(Timestamp(seconds=-1)) == datetime(1969, 12, 31, 23, 59, 59, tzinfo=timezone.utc)
    assert to_timedelta(Duration(seconds=2, nanos=500_000_000)) == timedelta(seconds=2.5)


@pytest.mark.parametrize("seconds", [2**63 - 1, 10**15, -(10**15), -(2**63)])
@pytest.mark.parametrize("nanos", [0, 2**31 - 1, -(2**31)])
def test_impossible_times_are_the_nearest_possible_ones(seconds: int, nanos: int) -> None:
    time = to_datetime(Timestamp(seconds=seconds, nanos=nanos))
    duration = to_timedelta(Duration(seconds=seconds, nanos=nanos))
    assert (time.year, duration) == ((9999, timedelta.max) if seconds > 0 else (1, timedelta.min))
    assert time.tzinfo == timezone.utc


def test_statistics_with_impossible_times_are_returned() -> None:
    endless = Duration(seconds=2**63 - 1)
    wait = pb.LatencyStats(mean=endless, max=endless)
    message = pb.GetStatsResponse(
        uptime=endless,
        lanes=[pb.LaneStats(wait=wait, execute=wait)],
        kernels=[pb.KernelStats(total=endless)],
    )
    received = stats(message)
    assert received.uptime == received.kernels[0].total == received.lanes[0].wait.max == timedelta.max
