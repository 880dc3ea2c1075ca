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

class Dtype(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DTYPE_UNSPECIFIED: _ClassVar[Dtype]
    DTYPE_F16: _ClassVar[Dtype]
    DTYPE_BF16: _ClassVar[Dtype]
    DTYPE_F32: _ClassVar[Dtype]
    DTYPE_F64: _ClassVar[Dtype]
    DTYPE_I8: _ClassVar[Dtype]
    DTYPE_I32: _ClassVar[Dtype]
    DTYPE_I64: _ClassVar[Dtype]
    DTYPE_U8: _ClassVar[Dtype]
    DTYPE_I16: _ClassVar[Dtype]
    DTYPE_U16: _ClassVar[Dtype]
    DTYPE_U32: _ClassVar[Dtype]
    DTYPE_U64: _ClassVar[Dtype]
    DTYPE_BOOL: _ClassVar[Dtype]

class ShardCombination(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SHARD_COMBINATION_UNSPECIFIED: _ClassVar[ShardCombination]
    SHARD_COMBINATION_CONCAT: _ClassVar[ShardCombination]
    SHARD_COMBINATION_SUM: _ClassVar[ShardCombination]
    SHARD_COMBINATION_MEAN: _ClassVar[ShardCombination]

class BenchmarkBound(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BENCHMARK_BOUND_UNSPECIFIED: _ClassVar[BenchmarkBound]
    BENCHMARK_BOUND_MEMORY: _ClassVar[BenchmarkBound]
    BENCHMARK_BOUND_PRODUCT: _ClassVar[BenchmarkBound]
DTYPE_UNSPECIFIED: Dtype
DTYPE_F16: Dtype
DTYPE_BF16: Dtype
DTYPE_F32: Dtype
DTYPE_F64: Dtype
DTYPE_I8: Dtype
DTYPE_I32: Dtype
DTYPE_I64: Dtype
DTYPE_U8: Dtype
DTYPE_I16: Dtype
DTYPE_U16: Dtype
DTYPE_U32: Dtype
DTYPE_U64: Dtype
DTYPE_BOOL: Dtype
SHARD_COMBINATION_UNSPECIFIED: ShardCombination
SHARD_COMBINATION_CONCAT: ShardCombination
SHARD_COMBINATION_SUM: ShardCombination
SHARD_COMBINATION_MEAN: ShardCombination
BENCHMARK_BOUND_UNSPECIFIED: BenchmarkBound
BENCHMARK_BOUND_MEMORY: BenchmarkBound
BENCHMARK_BOUND_PRODUCT: BenchmarkBound

class Tensor(_message.Message):
    __slots__ = ("dtype", "shape", "data")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    dtype: Dtype
    shape: _containers.RepeatedScalarFieldContainer[int]
    data: bytes
    def __init__(self, dtype: _Optional[_Union[Dtype, str]] = ..., shape: _Optional[_Iterable[int]] = ..., data: _Optional[bytes] = ...) -> None: ...

class ExecuteRequest(_message.Message):
    __slots__ = ("inputs", "nodes", "outputs", "keep_ttl", "device", "data_parallel")
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    KEEP_TTL_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    DATA_PARALLEL_FIELD_NUMBER: _ClassVar[int]
    inputs: _containers.RepeatedCompositeFieldContainer[TensorInput]
    nodes: _containers.RepeatedCompositeFieldContainer[TensorNode]
    outputs: _containers.RepeatedCompositeFieldContainer[TensorOutput]
    keep_ttl: _duration_pb2.Duration
    device: str
    data_parallel: DataParallel
    def __init__(self, inputs: _Optional[_Iterable[_Union[TensorInput, _Mapping]]] = ..., nodes: _Optional[_Iterable[_Union[TensorNode, _Mapping]]] = ..., outputs: _Optional[_Iterable[_Union[TensorOutput, _Mapping]]] = ..., keep_ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., device: _Optional[str] = ..., data_parallel: _Optional[_Union[DataParallel, _Mapping]] = ...) -> None: ...

class DataParallel(_message.Message):
    __slots__ = ("devices", "inputs", "outputs")
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    devices: _containers.RepeatedScalarFieldContainer[str]
    inputs: _containers.RepeatedCompositeFieldContainer[SplitInput]
    outputs: _containers.RepeatedCompositeFieldContainer[CombinedOutput]
    def __init__(self, devices: _Optional[_Iterable[str]] = ..., inputs: _Optional[_Iterable[_Union[SplitInput, _Mapping]]] = ..., outputs: _Optional[_Iterable[_Union[CombinedOutput, _Mapping]]] = ...) -> None: ...

class SplitInput(_message.Message):
    __slots__ = ("name", "dim")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIM_FIELD_NUMBER: _ClassVar[int]
    name: str
    dim: int
    def __init__(self, name: _Optional[str] = ..., dim: _Optional[int] = ...) -> None: ...

class CombinedOutput(_message.Message):
    __slots__ = ("name", "combination", "dim")
    NAME_FIELD_NUMBER: _ClassVar[int]
    COMBINATION_FIELD_NUMBER: _ClassVar[int]
    DIM_FIELD_NUMBER: _ClassVar[int]
    name: str
    combination: ShardCombination
    dim: int
    def __init__(self, name: _Optional[str] = ..., combination: _Optional[_Union[ShardCombination, str]] = ..., dim: _Optional[int] = ...) -> None: ...

class TensorInput(_message.Message):
    __slots__ = ("name", "value", "handle")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: Tensor
    handle: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[_Union[Tensor, _Mapping]] = ..., handle: _Optional[str] = ...) -> None: ...

class TensorNode(_message.Message):
    __slots__ = ("name", "op", "inputs", "attributes")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: TensorAttribute
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[TensorAttribute, _Mapping]] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    op: str
    inputs: _containers.RepeatedScalarFieldContainer[str]
    attributes: _containers.MessageMap[str, TensorAttribute]
    def __init__(self, name: _Optional[str] = ..., op: _Optional[str] = ..., inputs: _Optional[_Iterable[str]] = ..., attributes: _Optional[_Mapping[str, TensorAttribute]] = ...) -> None: ...

class TensorAttribute(_message.Message):
    __slots__ = ("boolean", "integer", "number", "text", "integers")
    BOOLEAN_FIELD_NUMBER: _ClassVar[int]
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    INTEGERS_FIELD_NUMBER: _ClassVar[int]
    boolean: bool
    integer: int
    number: float
    text: str
    integers: TensorIntegers
    def __init__(self, boolean: bool = ..., integer: _Optional[int] = ..., number: _Optional[float] = ..., text: _Optional[str] = ..., integers: _Optional[_Union[TensorIntegers, _Mapping]] = ...) -> None: ...

class TensorIntegers(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, values: _Optional[_Iterable[int]] = ...) -> None: ...

class TensorOutput(_message.Message):
    __slots__ = ("name", "keep")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    name: str
    keep: bool
    def __init__(self, name: _Optional[str] = ..., keep: bool = ...) -> None: ...

class ExecuteResponse(_message.Message):
    __slots__ = ("outputs", "kept")
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    outputs: _containers.RepeatedCompositeFieldContainer[Tensor]
    kept: _containers.RepeatedCompositeFieldContainer[ResidentTensor]
    def __init__(self, outputs: _Optional[_Iterable[_Union[Tensor, _Mapping]]] = ..., kept: _Optional[_Iterable[_Union[ResidentTensor, _Mapping]]] = ...) -> None: ...

class ResidentTensor(_message.Message):
    __slots__ = ("handle", "dtype", "shape", "size_bytes", "device", "create_time", "last_use_time", "expire_time")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_USE_TIME_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    handle: str
    dtype: Dtype
    shape: _containers.RepeatedScalarFieldContainer[int]
    size_bytes: int
    device: str
    create_time: _timestamp_pb2.Timestamp
    last_use_time: _timestamp_pb2.Timestamp
    expire_time: _timestamp_pb2.Timestamp
    def __init__(self, handle: _Optional[str] = ..., dtype: _Optional[_Union[Dtype, str]] = ..., shape: _Optional[_Iterable[int]] = ..., size_bytes: _Optional[int] = ..., device: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., last_use_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class UploadTensorRequest(_message.Message):
    __slots__ = ("header", "data")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    header: UploadTensorHeader
    data: bytes
    def __init__(self, header: _Optional[_Union[UploadTensorHeader, _Mapping]] = ..., data: _Optional[bytes] = ...) -> None: ...

class UploadTensorHeader(_message.Message):
    __slots__ = ("dtype", "shape", "device", "ttl")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    dtype: Dtype
    shape: _containers.RepeatedScalarFieldContainer[int]
    device: str
    ttl: _duration_pb2.Duration
    def __init__(self, dtype: _Optional[_Union[Dtype, str]] = ..., shape: _Optional[_Iterable[int]] = ..., device: _Optional[str] = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class UploadTensorResponse(_message.Message):
    __slots__ = ("tensor",)
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    tensor: ResidentTensor
    def __init__(self, tensor: _Optional[_Union[ResidentTensor, _Mapping]] = ...) -> None: ...

class DownloadTensorRequest(_message.Message):
    __slots__ = ("handle",)
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    handle: str
    def __init__(self, handle: _Optional[str] = ...) -> None: ...

class DownloadTensorResponse(_message.Message):
    __slots__ = ("tensor", "data")
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    tensor: ResidentTensor
    data: bytes
    def __init__(self, tensor: _Optional[_Union[ResidentTensor, _Mapping]] = ..., data: _Optional[bytes] = ...) -> None: ...

class FreeTensorsRequest(_message.Message):
    __slots__ = ("handles",)
    HANDLES_FIELD_NUMBER: _ClassVar[int]
    handles: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, handles: _Optional[_Iterable[str]] = ...) -> None: ...

class FreeTensorsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListTensorsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListTensorsResponse(_message.Message):
    __slots__ = ("tensors",)
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    tensors: _containers.RepeatedCompositeFieldContainer[ResidentTensor]
    def __init__(self, tensors: _Optional[_Iterable[_Union[ResidentTensor, _Mapping]]] = ...) -> None: ...

class CopyTensorRequest(_message.Message):
    __slots__ = ("handle", "device", "ttl")
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    handle: str
    device: str
    ttl: _duration_pb2.Duration
    def __init__(self, handle: _Optional[str] = ..., device: _Optional[str] = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class CopyTensorResponse(_message.Message):
    __slots__ = ("tensor",)
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    tensor: ResidentTensor
    def __init__(self, tensor: _Optional[_Union[ResidentTensor, _Mapping]] = ...) -> None: ...

class BenchmarkOpRequest(_message.Message):
    __slots__ = ("op", "operands", "attributes", "result_count", "device", "repetition_count", "max_time")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: TensorAttribute
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[TensorAttribute, _Mapping]] = ...) -> None: ...
    OP_FIELD_NUMBER: _ClassVar[int]
    OPERANDS_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    RESULT_COUNT_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    REPETITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    MAX_TIME_FIELD_NUMBER: _ClassVar[int]
    op: str
    operands: _containers.RepeatedCompositeFieldContainer[BenchmarkOperand]
    attributes: _containers.MessageMap[str, TensorAttribute]
    result_count: int
    device: str
    repetition_count: int
    max_time: _duration_pb2.Duration
    def __init__(self, op: _Optional[str] = ..., operands: _Optional[_Iterable[_Union[BenchmarkOperand, _Mapping]]] = ..., attributes: _Optional[_Mapping[str, TensorAttribute]] = ..., result_count: _Optional[int] = ..., device: _Optional[str] = ..., repetition_count: _Optional[int] = ..., max_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class BenchmarkOperand(_message.Message):
    __slots__ = ("dtype", "shape", "integers_below")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    INTEGERS_BELOW_FIELD_NUMBER: _ClassVar[int]
    dtype: Dtype
    shape: _containers.RepeatedScalarFieldContainer[int]
    integers_below: int
    def __init__(self, dtype: _Optional[_Union[Dtype, str]] = ..., shape: _Optional[_Iterable[int]] = ..., integers_below: _Optional[int] = ...) -> None: ...

class BenchmarkOpResponse(_message.Message):
    __slots__ = ("device", "product", "repetition_count", "min", "p10", "median", "p90", "max", "launch_count", "moved_bytes", "operation_count", "bytes_per_second", "operations_per_second", "copy_bytes_per_second", "product_operations_per_second", "bound", "bound_share")
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    PRODUCT_FIELD_NUMBER: _ClassVar[int]
    REPETITION_COUNT_FIELD_NUMBER: _ClassVar[int]
    MIN_FIELD_NUMBER: _ClassVar[int]
    P10_FIELD_NUMBER: _ClassVar[int]
    MEDIAN_FIELD_NUMBER: _ClassVar[int]
    P90_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_COUNT_FIELD_NUMBER: _ClassVar[int]
    MOVED_BYTES_FIELD_NUMBER: _ClassVar[int]
    OPERATION_COUNT_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    COPY_BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    PRODUCT_OPERATIONS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    BOUND_SHARE_FIELD_NUMBER: _ClassVar[int]
    device: str
    product: str
    repetition_count: int
    min: _duration_pb2.Duration
    p10: _duration_pb2.Duration
    median: _duration_pb2.Duration
    p90: _duration_pb2.Duration
    max: _duration_pb2.Duration
    launch_count: int
    moved_bytes: int
    operation_count: int
    bytes_per_second: float
    operations_per_second: float
    copy_bytes_per_second: float
    product_operations_per_second: float
    bound: BenchmarkBound
    bound_share: float
    def __init__(self, device: _Optional[str] = ..., product: _Optional[str] = ..., repetition_count: _Optional[int] = ..., min: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., p10: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., median: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., p90: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., launch_count: _Optional[int] = ..., moved_bytes: _Optional[int] = ..., operation_count: _Optional[int] = ..., bytes_per_second: _Optional[float] = ..., operations_per_second: _Optional[float] = ..., copy_bytes_per_second: _Optional[float] = ..., product_operations_per_second: _Optional[float] = ..., bound: _Optional[_Union[BenchmarkBound, str]] = ..., bound_share: _Optional[float] = ...) -> None: ...

class SavedGraph(_message.Message):
    __slots__ = ("inputs", "constants", "nodes", "outputs")
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    CONSTANTS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    inputs: _containers.RepeatedCompositeFieldContainer[SavedGraphInput]
    constants: _containers.RepeatedCompositeFieldContainer[TensorInput]
    nodes: _containers.RepeatedCompositeFieldContainer[TensorNode]
    outputs: _containers.RepeatedCompositeFieldContainer[SavedGraphOutput]
    def __init__(self, inputs: _Optional[_Iterable[_Union[SavedGraphInput, _Mapping]]] = ..., constants: _Optional[_Iterable[_Union[TensorInput, _Mapping]]] = ..., nodes: _Optional[_Iterable[_Union[TensorNode, _Mapping]]] = ..., outputs: _Optional[_Iterable[_Union[SavedGraphOutput, _Mapping]]] = ...) -> None: ...

class SavedGraphInput(_message.Message):
    __slots__ = ("name", "value", "dtype", "shape")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    dtype: Dtype
    shape: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ..., dtype: _Optional[_Union[Dtype, str]] = ..., shape: _Optional[_Iterable[int]] = ...) -> None: ...

class SavedGraphOutput(_message.Message):
    __slots__ = ("name", "value", "dtype", "shape")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    dtype: Dtype
    shape: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ..., dtype: _Optional[_Union[Dtype, str]] = ..., shape: _Optional[_Iterable[int]] = ...) -> None: ...
