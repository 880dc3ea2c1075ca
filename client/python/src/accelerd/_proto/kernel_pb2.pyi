from accelerd._proto import tensor_pb2 as _tensor_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class KernelDialect(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KERNEL_DIALECT_UNSPECIFIED: _ClassVar[KernelDialect]
    KERNEL_DIALECT_WARP: _ClassVar[KernelDialect]
    KERNEL_DIALECT_PYTHON: _ClassVar[KernelDialect]

class KernelTarget(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KERNEL_TARGET_UNSPECIFIED: _ClassVar[KernelTarget]
    KERNEL_TARGET_CUDA: _ClassVar[KernelTarget]
    KERNEL_TARGET_WASM: _ClassVar[KernelTarget]
KERNEL_DIALECT_UNSPECIFIED: KernelDialect
KERNEL_DIALECT_WARP: KernelDialect
KERNEL_DIALECT_PYTHON: KernelDialect
KERNEL_TARGET_UNSPECIFIED: KernelTarget
KERNEL_TARGET_CUDA: KernelTarget
KERNEL_TARGET_WASM: KernelTarget

class TranslateRequest(_message.Message):
    __slots__ = ("source", "dialect", "constants", "names", "targets")
    class ConstantsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: KernelConstant
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[KernelConstant, _Mapping]] = ...) -> None: ...
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DIALECT_FIELD_NUMBER: _ClassVar[int]
    CONSTANTS_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    source: str
    dialect: KernelDialect
    constants: _containers.MessageMap[str, KernelConstant]
    names: _containers.RepeatedScalarFieldContainer[str]
    targets: _containers.RepeatedScalarFieldContainer[KernelTarget]
    def __init__(self, source: _Optional[str] = ..., dialect: _Optional[_Union[KernelDialect, str]] = ..., constants: _Optional[_Mapping[str, KernelConstant]] = ..., names: _Optional[_Iterable[str]] = ..., targets: _Optional[_Iterable[_Union[KernelTarget, str]]] = ...) -> None: ...

class KernelConstant(_message.Message):
    __slots__ = ("integer", "number", "boolean")
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    BOOLEAN_FIELD_NUMBER: _ClassVar[int]
    integer: int
    number: float
    boolean: bool
    def __init__(self, integer: _Optional[int] = ..., number: _Optional[float] = ..., boolean: bool = ...) -> None: ...

class TranslateResponse(_message.Message):
    __slots__ = ("kernels", "diagnostics")
    KERNELS_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    kernels: _containers.RepeatedCompositeFieldContainer[TranslatedKernel]
    diagnostics: _containers.RepeatedCompositeFieldContainer[KernelDiagnostic]
    def __init__(self, kernels: _Optional[_Iterable[_Union[TranslatedKernel, _Mapping]]] = ..., diagnostics: _Optional[_Iterable[_Union[KernelDiagnostic, _Mapping]]] = ...) -> None: ...

class TranslatedKernel(_message.Message):
    __slots__ = ("name", "grid_dims", "params", "bit_exact", "files")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GRID_DIMS_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    BIT_EXACT_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    name: str
    grid_dims: int
    params: _containers.RepeatedCompositeFieldContainer[KernelParam]
    bit_exact: bool
    files: _containers.RepeatedCompositeFieldContainer[KernelFile]
    def __init__(self, name: _Optional[str] = ..., grid_dims: _Optional[int] = ..., params: _Optional[_Iterable[_Union[KernelParam, _Mapping]]] = ..., bit_exact: bool = ..., files: _Optional[_Iterable[_Union[KernelFile, _Mapping]]] = ...) -> None: ...

class KernelParam(_message.Message):
    __slots__ = ("name", "dims", "components", "element_size_bytes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIMS_FIELD_NUMBER: _ClassVar[int]
    COMPONENTS_FIELD_NUMBER: _ClassVar[int]
    ELEMENT_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    dims: int
    components: _containers.RepeatedCompositeFieldContainer[KernelComponent]
    element_size_bytes: int
    def __init__(self, name: _Optional[str] = ..., dims: _Optional[int] = ..., components: _Optional[_Iterable[_Union[KernelComponent, _Mapping]]] = ..., element_size_bytes: _Optional[int] = ...) -> None: ...

class KernelComponent(_message.Message):
    __slots__ = ("name", "dtype", "offset_bytes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_BYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    dtype: _tensor_pb2.Dtype
    offset_bytes: int
    def __init__(self, name: _Optional[str] = ..., dtype: _Optional[_Union[_tensor_pb2.Dtype, str]] = ..., offset_bytes: _Optional[int] = ...) -> None: ...

class KernelFile(_message.Message):
    __slots__ = ("name", "content")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    content: bytes
    def __init__(self, name: _Optional[str] = ..., content: _Optional[bytes] = ...) -> None: ...

class KernelDiagnostic(_message.Message):
    __slots__ = ("kernel", "code", "message", "line", "column")
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    kernel: str
    code: str
    message: str
    line: int
    column: int
    def __init__(self, kernel: _Optional[str] = ..., code: _Optional[str] = ..., message: _Optional[str] = ..., line: _Optional[int] = ..., column: _Optional[int] = ...) -> None: ...
