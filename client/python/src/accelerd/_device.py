"""Calls of DeviceService."""

from __future__ import annotations

from ._call import Operation
from ._html import ResultList
from ._methods import DeviceService
from ._proto import device_pb2 as pb
from ._results import Device, Stats, device, stats


def list_devices() -> Operation[list[Device]]:
    """List the devices."""
    return Operation(
        DeviceService.LIST_DEVICES,
        pb.ListDevicesRequest(),
        lambda response: ResultList(device(one) for one in response.devices),
    )


def get_stats() -> Operation[Stats]:
    """Get the statistics."""
    return Operation(DeviceService.GET_STATS, pb.GetStatsRequest(), stats)
