"""Calls of DeviceService."""

from __future__ import annotations

from ._call import Method, Operation
from ._proto import device_pb2 as pb
from ._results import Device, Stats, device, stats

LIST_DEVICES = Method("DeviceService", "ListDevices", pb.ListDevicesResponse)
GET_STATS = Method("DeviceService", "GetStats", pb.GetStatsResponse)


def list_devices() -> Operation[list[Device]]:
    """List the devices."""
    return Operation(LIST_DEVICES, pb.ListDevicesRequest(), lambda response: [device(one) for one in response.devices])


def get_stats() -> Operation[Stats]:
    """Get the statistics."""
    return Operation(GET_STATS, pb.GetStatsRequest(), stats)
