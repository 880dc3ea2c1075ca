import datetime

from accelerd._proto import options_pb2 as _options_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DeviceKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEVICE_KIND_UNSPECIFIED: _ClassVar[DeviceKind]
    DEVICE_KIND_CPU: _ClassVar[DeviceKind]
    DEVICE_KIND_CUDA: _ClassVar[DeviceKind]

class DeviceState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEVICE_STATE_UNSPECIFIED: _ClassVar[DeviceState]
    DEVICE_STATE_READY: _ClassVar[DeviceState]
    DEVICE_STATE_LOST: _ClassVar[DeviceState]
DEVICE_KIND_UNSPECIFIED: DeviceKind
DEVICE_KIND_CPU: DeviceKind
DEVICE_KIND_CUDA: DeviceKind
DEVICE_STATE_UNSPECIFIED: DeviceState
DEVICE_STATE_READY: DeviceState
DEVICE_STATE_LOST: DeviceState

class ListDevicesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListDevicesResponse(_message.Message):
    __slots__ = ("devices", "fallback_reason")
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_REASON_FIELD_NUMBER: _ClassVar[int]
    devices: _containers.RepeatedCompositeFieldContainer[Device]
    fallback_reason: str
    def __init__(self, devices: _Optional[_Iterable[_Union[Device, _Mapping]]] = ..., fallback_reason: _Optional[str] = ...) -> None: ...

class Device(_message.Message):
    __slots__ = ("name", "kind", "product", "compute_capability", "state", "compute_unit_count", "memory_bytes", "pool")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PRODUCT_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_CAPABILITY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_UNIT_COUNT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: DeviceKind
    product: str
    compute_capability: str
    state: DeviceState
    compute_unit_count: int
    memory_bytes: int
    pool: MemoryPool
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[DeviceKind, str]] = ..., product: _Optional[str] = ..., compute_capability: _Optional[str] = ..., state: _Optional[_Union[DeviceState, str]] = ..., compute_unit_count: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., pool: _Optional[_Union[MemoryPool, _Mapping]] = ...) -> None: ...

class MemoryPool(_message.Message):
    __slots__ = ("used_bytes", "reserved_bytes", "peak_bytes", "limit_bytes", "allocation_count")
    USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    RESERVED_BYTES_FIELD_NUMBER: _ClassVar[int]
    PEAK_BYTES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_COUNT_FIELD_NUMBER: _ClassVar[int]
    used_bytes: int
    reserved_bytes: int
    peak_bytes: int
    limit_bytes: int
    allocation_count: int
    def __init__(self, used_bytes: _Optional[int] = ..., reserved_bytes: _Optional[int] = ..., peak_bytes: _Optional[int] = ..., limit_bytes: _Optional[int] = ..., allocation_count: _Optional[int] = ...) -> None: ...

class GetStatsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatsResponse(_message.Message):
    __slots__ = ("version", "uptime", "lanes", "devices", "kernels", "admission", "draining", "sample_time", "memory", "cpu_fallbacks")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    UPTIME_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    KERNELS_FIELD_NUMBER: _ClassVar[int]
    ADMISSION_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_TIME_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    CPU_FALLBACKS_FIELD_NUMBER: _ClassVar[int]
    version: str
    uptime: _duration_pb2.Duration
    lanes: _containers.RepeatedCompositeFieldContainer[LaneStats]
    devices: _containers.RepeatedCompositeFieldContainer[Device]
    kernels: _containers.RepeatedCompositeFieldContainer[KernelStats]
    admission: AdmissionStats
    draining: bool
    sample_time: _timestamp_pb2.Timestamp
    memory: _containers.RepeatedCompositeFieldContainer[MemoryPlace]
    cpu_fallbacks: _containers.RepeatedCompositeFieldContainer[CpuFallback]
    def __init__(self, version: _Optional[str] = ..., uptime: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., lanes: _Optional[_Iterable[_Union[LaneStats, _Mapping]]] = ..., devices: _Optional[_Iterable[_Union[Device, _Mapping]]] = ..., kernels: _Optional[_Iterable[_Union[KernelStats, _Mapping]]] = ..., admission: _Optional[_Union[AdmissionStats, _Mapping]] = ..., draining: bool = ..., sample_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., memory: _Optional[_Iterable[_Union[MemoryPlace, _Mapping]]] = ..., cpu_fallbacks: _Optional[_Iterable[_Union[CpuFallback, _Mapping]]] = ...) -> None: ...

class CpuFallback(_message.Message):
    __slots__ = ("lane", "device", "reason", "request_count", "item_count", "size_bytes")
    LANE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_COUNT_FIELD_NUMBER: _ClassVar[int]
    ITEM_COUNT_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    lane: str
    device: str
    reason: str
    request_count: int
    item_count: int
    size_bytes: int
    def __init__(self, lane: _Optional[str] = ..., device: _Optional[str] = ..., reason: _Optional[str] = ..., request_count: _Optional[int] = ..., item_count: _Optional[int] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class MemoryPlace(_message.Message):
    __slots__ = ("name", "held_bytes", "limit_bytes", "accounts", "used_bytes", "resident_bytes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HELD_BYTES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    RESIDENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    held_bytes: int
    limit_bytes: int
    accounts: _containers.RepeatedCompositeFieldContainer[MemoryAccount]
    used_bytes: int
    resident_bytes: int
    def __init__(self, name: _Optional[str] = ..., held_bytes: _Optional[int] = ..., limit_bytes: _Optional[int] = ..., accounts: _Optional[_Iterable[_Union[MemoryAccount, _Mapping]]] = ..., used_bytes: _Optional[int] = ..., resident_bytes: _Optional[int] = ...) -> None: ...

class MemoryAccount(_message.Message):
    __slots__ = ("kind", "held_bytes", "limit_bytes", "refused_count", "evicted_bytes", "used_bytes")
    KIND_FIELD_NUMBER: _ClassVar[int]
    HELD_BYTES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    REFUSED_COUNT_FIELD_NUMBER: _ClassVar[int]
    EVICTED_BYTES_FIELD_NUMBER: _ClassVar[int]
    USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    kind: str
    held_bytes: int
    limit_bytes: int
    refused_count: int
    evicted_bytes: int
    used_bytes: int
    def __init__(self, kind: _Optional[str] = ..., held_bytes: _Optional[int] = ..., limit_bytes: _Optional[int] = ..., refused_count: _Optional[int] = ..., evicted_bytes: _Optional[int] = ..., used_bytes: _Optional[int] = ...) -> None: ...

class AdmissionStats(_message.Message):
    __slots__ = ("item_count", "item_limit", "size_bytes", "limit_bytes", "refused_count")
    ITEM_COUNT_FIELD_NUMBER: _ClassVar[int]
    ITEM_LIMIT_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    REFUSED_COUNT_FIELD_NUMBER: _ClassVar[int]
    item_count: int
    item_limit: int
    size_bytes: int
    limit_bytes: int
    refused_count: int
    def __init__(self, item_count: _Optional[int] = ..., item_limit: _Optional[int] = ..., size_bytes: _Optional[int] = ..., limit_bytes: _Optional[int] = ..., refused_count: _Optional[int] = ...) -> None: ...

class LaneStats(_message.Message):
    __slots__ = ("name", "queued_count", "queued_bytes", "batch_count", "request_count", "item_count", "failed_count", "cancelled_count", "wait", "execute", "mean_batch_requests")
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUED_COUNT_FIELD_NUMBER: _ClassVar[int]
    QUEUED_BYTES_FIELD_NUMBER: _ClassVar[int]
    BATCH_COUNT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_COUNT_FIELD_NUMBER: _ClassVar[int]
    ITEM_COUNT_FIELD_NUMBER: _ClassVar[int]
    FAILED_COUNT_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_COUNT_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    EXECUTE_FIELD_NUMBER: _ClassVar[int]
    MEAN_BATCH_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    queued_count: int
    queued_bytes: int
    batch_count: int
    request_count: int
    item_count: int
    failed_count: int
    cancelled_count: int
    wait: LatencyStats
    execute: LatencyStats
    mean_batch_requests: float
    def __init__(self, name: _Optional[str] = ..., queued_count: _Optional[int] = ..., queued_bytes: _Optional[int] = ..., batch_count: _Optional[int] = ..., request_count: _Optional[int] = ..., item_count: _Optional[int] = ..., failed_count: _Optional[int] = ..., cancelled_count: _Optional[int] = ..., wait: _Optional[_Union[LatencyStats, _Mapping]] = ..., execute: _Optional[_Union[LatencyStats, _Mapping]] = ..., mean_batch_requests: _Optional[float] = ...) -> None: ...

class LatencyStats(_message.Message):
    __slots__ = ("mean", "p50", "p99", "max")
    MEAN_FIELD_NUMBER: _ClassVar[int]
    P50_FIELD_NUMBER: _ClassVar[int]
    P99_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    mean: _duration_pb2.Duration
    p50: _duration_pb2.Duration
    p99: _duration_pb2.Duration
    max: _duration_pb2.Duration
    def __init__(self, mean: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., p50: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., p99: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class KernelStats(_message.Message):
    __slots__ = ("name", "call_count", "total", "device", "moved_bytes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CALL_COUNT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    MOVED_BYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    call_count: int
    total: _duration_pb2.Duration
    device: str
    moved_bytes: int
    def __init__(self, name: _Optional[str] = ..., call_count: _Optional[int] = ..., total: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., device: _Optional[str] = ..., moved_bytes: _Optional[int] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("interval",)
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    interval: _duration_pb2.Duration
    def __init__(self, interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class WatchResponse(_message.Message):
    __slots__ = ("stats",)
    STATS_FIELD_NUMBER: _ClassVar[int]
    stats: GetStatsResponse
    def __init__(self, stats: _Optional[_Union[GetStatsResponse, _Mapping]] = ...) -> None: ...

class ExportReportRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ExportReportResponse(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: str
    def __init__(self, json: _Optional[str] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("timeout",)
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    timeout: _duration_pb2.Duration
    def __init__(self, timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ResumeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResumeResponse(_message.Message):
    __slots__ = ("resumed",)
    RESUMED_FIELD_NUMBER: _ClassVar[int]
    resumed: bool
    def __init__(self, resumed: bool = ...) -> None: ...

class DrainResponse(_message.Message):
    __slots__ = ("complete", "remaining_count")
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    REMAINING_COUNT_FIELD_NUMBER: _ClassVar[int]
    complete: bool
    remaining_count: int
    def __init__(self, complete: bool = ..., remaining_count: _Optional[int] = ...) -> None: ...
