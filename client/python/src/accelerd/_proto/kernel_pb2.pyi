import datetime

from accelerd._proto import options_pb2 as _options_pb2
from accelerd._proto import tensor_pb2 as _tensor_pb2
from google.protobuf import duration_pb2 as _duration_pb2
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
    KERNEL_TARGET_PTX: _ClassVar[KernelTarget]

class KernelDevice(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KERNEL_DEVICE_UNSPECIFIED: _ClassVar[KernelDevice]
    KERNEL_DEVICE_CPU: _ClassVar[KernelDevice]
    KERNEL_DEVICE_CUDA: _ClassVar[KernelDevice]

class KernelFaultKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KERNEL_FAULT_KIND_UNSPECIFIED: _ClassVar[KernelFaultKind]
    KERNEL_FAULT_KIND_OUT_OF_BOUNDS: _ClassVar[KernelFaultKind]
    KERNEL_FAULT_KIND_DIVISION_BY_ZERO: _ClassVar[KernelFaultKind]
    KERNEL_FAULT_KIND_ASSERTION: _ClassVar[KernelFaultKind]
    KERNEL_FAULT_KIND_INVALID_VALUE: _ClassVar[KernelFaultKind]
    KERNEL_FAULT_KIND_LOOP_BUDGET: _ClassVar[KernelFaultKind]

class BenchmarkVerdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BENCHMARK_VERDICT_UNSPECIFIED: _ClassVar[BenchmarkVerdict]
    BENCHMARK_VERDICT_PASSED: _ClassVar[BenchmarkVerdict]
    BENCHMARK_VERDICT_FAULT: _ClassVar[BenchmarkVerdict]
    BENCHMARK_VERDICT_MISMATCH: _ClassVar[BenchmarkVerdict]
    BENCHMARK_VERDICT_IMPLAUSIBLE_TIME: _ClassVar[BenchmarkVerdict]

class CudaParamKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CUDA_PARAM_KIND_UNSPECIFIED: _ClassVar[CudaParamKind]
    CUDA_PARAM_KIND_VALUE: _ClassVar[CudaParamKind]
    CUDA_PARAM_KIND_INPUT: _ClassVar[CudaParamKind]
    CUDA_PARAM_KIND_OUTPUT: _ClassVar[CudaParamKind]
    CUDA_PARAM_KIND_INPUT_OUTPUT: _ClassVar[CudaParamKind]

class EvaluationVerdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVALUATION_VERDICT_UNSPECIFIED: _ClassVar[EvaluationVerdict]
    EVALUATION_VERDICT_PASSED: _ClassVar[EvaluationVerdict]
    EVALUATION_VERDICT_COMPILE_ERROR: _ClassVar[EvaluationVerdict]
    EVALUATION_VERDICT_NOT_LAUNCHED: _ClassVar[EvaluationVerdict]
    EVALUATION_VERDICT_FAULT: _ClassVar[EvaluationVerdict]
    EVALUATION_VERDICT_TIMEOUT: _ClassVar[EvaluationVerdict]
    EVALUATION_VERDICT_MISMATCH: _ClassVar[EvaluationVerdict]
    EVALUATION_VERDICT_OUT_OF_BOUNDS_WRITE: _ClassVar[EvaluationVerdict]
    EVALUATION_VERDICT_INPUT_CHANGED: _ClassVar[EvaluationVerdict]
    EVALUATION_VERDICT_NONDETERMINISTIC: _ClassVar[EvaluationVerdict]
    EVALUATION_VERDICT_IMPLAUSIBLE_TIME: _ClassVar[EvaluationVerdict]

class DatasetCategory(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DATASET_CATEGORY_UNSPECIFIED: _ClassVar[DatasetCategory]
    DATASET_CATEGORY_ARITHMETIC: _ClassVar[DatasetCategory]
    DATASET_CATEGORY_VECTOR: _ClassVar[DatasetCategory]
    DATASET_CATEGORY_MATRIX: _ClassVar[DatasetCategory]
    DATASET_CATEGORY_CONTROL_FLOW: _ClassVar[DatasetCategory]
    DATASET_CATEGORY_MATH: _ClassVar[DatasetCategory]
    DATASET_CATEGORY_ATOMIC: _ClassVar[DatasetCategory]
    DATASET_CATEGORY_NESTED_LOOP: _ClassVar[DatasetCategory]
    DATASET_CATEGORY_MULTI_CONDITIONAL: _ClassVar[DatasetCategory]
    DATASET_CATEGORY_COMBINED: _ClassVar[DatasetCategory]
    DATASET_CATEGORY_SCALAR_PARAM: _ClassVar[DatasetCategory]
    DATASET_CATEGORY_STENCIL: _ClassVar[DatasetCategory]
    DATASET_CATEGORY_BITWISE: _ClassVar[DatasetCategory]

class DatasetSplit(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DATASET_SPLIT_UNSPECIFIED: _ClassVar[DatasetSplit]
    DATASET_SPLIT_TRAIN: _ClassVar[DatasetSplit]
    DATASET_SPLIT_VALIDATION: _ClassVar[DatasetSplit]
    DATASET_SPLIT_TEST: _ClassVar[DatasetSplit]

class DatasetAgreement(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DATASET_AGREEMENT_UNSPECIFIED: _ClassVar[DatasetAgreement]
    DATASET_AGREEMENT_EQUAL: _ClassVar[DatasetAgreement]
    DATASET_AGREEMENT_CLOSE: _ClassVar[DatasetAgreement]
    DATASET_AGREEMENT_DIFFERENT: _ClassVar[DatasetAgreement]
    DATASET_AGREEMENT_FAULT: _ClassVar[DatasetAgreement]
    DATASET_AGREEMENT_FAILED: _ClassVar[DatasetAgreement]
KERNEL_DIALECT_UNSPECIFIED: KernelDialect
KERNEL_DIALECT_WARP: KernelDialect
KERNEL_DIALECT_PYTHON: KernelDialect
KERNEL_TARGET_UNSPECIFIED: KernelTarget
KERNEL_TARGET_CUDA: KernelTarget
KERNEL_TARGET_WASM: KernelTarget
KERNEL_TARGET_PTX: KernelTarget
KERNEL_DEVICE_UNSPECIFIED: KernelDevice
KERNEL_DEVICE_CPU: KernelDevice
KERNEL_DEVICE_CUDA: KernelDevice
KERNEL_FAULT_KIND_UNSPECIFIED: KernelFaultKind
KERNEL_FAULT_KIND_OUT_OF_BOUNDS: KernelFaultKind
KERNEL_FAULT_KIND_DIVISION_BY_ZERO: KernelFaultKind
KERNEL_FAULT_KIND_ASSERTION: KernelFaultKind
KERNEL_FAULT_KIND_INVALID_VALUE: KernelFaultKind
KERNEL_FAULT_KIND_LOOP_BUDGET: KernelFaultKind
BENCHMARK_VERDICT_UNSPECIFIED: BenchmarkVerdict
BENCHMARK_VERDICT_PASSED: BenchmarkVerdict
BENCHMARK_VERDICT_FAULT: BenchmarkVerdict
BENCHMARK_VERDICT_MISMATCH: BenchmarkVerdict
BENCHMARK_VERDICT_IMPLAUSIBLE_TIME: BenchmarkVerdict
CUDA_PARAM_KIND_UNSPECIFIED: CudaParamKind
CUDA_PARAM_KIND_VALUE: CudaParamKind
CUDA_PARAM_KIND_INPUT: CudaParamKind
CUDA_PARAM_KIND_OUTPUT: CudaParamKind
CUDA_PARAM_KIND_INPUT_OUTPUT: CudaParamKind
EVALUATION_VERDICT_UNSPECIFIED: EvaluationVerdict
EVALUATION_VERDICT_PASSED: EvaluationVerdict
EVALUATION_VERDICT_COMPILE_ERROR: EvaluationVerdict
EVALUATION_VERDICT_NOT_LAUNCHED: EvaluationVerdict
EVALUATION_VERDICT_FAULT: EvaluationVerdict
EVALUATION_VERDICT_TIMEOUT: EvaluationVerdict
EVALUATION_VERDICT_MISMATCH: EvaluationVerdict
EVALUATION_VERDICT_OUT_OF_BOUNDS_WRITE: EvaluationVerdict
EVALUATION_VERDICT_INPUT_CHANGED: EvaluationVerdict
EVALUATION_VERDICT_NONDETERMINISTIC: EvaluationVerdict
EVALUATION_VERDICT_IMPLAUSIBLE_TIME: EvaluationVerdict
DATASET_CATEGORY_UNSPECIFIED: DatasetCategory
DATASET_CATEGORY_ARITHMETIC: DatasetCategory
DATASET_CATEGORY_VECTOR: DatasetCategory
DATASET_CATEGORY_MATRIX: DatasetCategory
DATASET_CATEGORY_CONTROL_FLOW: DatasetCategory
DATASET_CATEGORY_MATH: DatasetCategory
DATASET_CATEGORY_ATOMIC: DatasetCategory
DATASET_CATEGORY_NESTED_LOOP: DatasetCategory
DATASET_CATEGORY_MULTI_CONDITIONAL: DatasetCategory
DATASET_CATEGORY_COMBINED: DatasetCategory
DATASET_CATEGORY_SCALAR_PARAM: DatasetCategory
DATASET_CATEGORY_STENCIL: DatasetCategory
DATASET_CATEGORY_BITWISE: DatasetCategory
DATASET_SPLIT_UNSPECIFIED: DatasetSplit
DATASET_SPLIT_TRAIN: DatasetSplit
DATASET_SPLIT_VALIDATION: DatasetSplit
DATASET_SPLIT_TEST: DatasetSplit
DATASET_AGREEMENT_UNSPECIFIED: DatasetAgreement
DATASET_AGREEMENT_EQUAL: DatasetAgreement
DATASET_AGREEMENT_CLOSE: DatasetAgreement
DATASET_AGREEMENT_DIFFERENT: DatasetAgreement
DATASET_AGREEMENT_FAULT: DatasetAgreement
DATASET_AGREEMENT_FAILED: DatasetAgreement

class TranslateRequest(_message.Message):
    __slots__ = ("source", "dialect", "constants", "names", "targets", "cuda_arch")
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
    CUDA_ARCH_FIELD_NUMBER: _ClassVar[int]
    source: str
    dialect: KernelDialect
    constants: _containers.MessageMap[str, KernelConstant]
    names: _containers.RepeatedScalarFieldContainer[str]
    targets: _containers.RepeatedScalarFieldContainer[KernelTarget]
    cuda_arch: str
    def __init__(self, source: _Optional[str] = ..., dialect: _Optional[_Union[KernelDialect, str]] = ..., constants: _Optional[_Mapping[str, KernelConstant]] = ..., names: _Optional[_Iterable[str]] = ..., targets: _Optional[_Iterable[_Union[KernelTarget, str]]] = ..., cuda_arch: _Optional[str] = ...) -> None: ...

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

class KernelProgram(_message.Message):
    __slots__ = ("source", "dialect", "constants", "name")
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
    NAME_FIELD_NUMBER: _ClassVar[int]
    source: str
    dialect: KernelDialect
    constants: _containers.MessageMap[str, KernelConstant]
    name: str
    def __init__(self, source: _Optional[str] = ..., dialect: _Optional[_Union[KernelDialect, str]] = ..., constants: _Optional[_Mapping[str, KernelConstant]] = ..., name: _Optional[str] = ...) -> None: ...

class CompileRequest(_message.Message):
    __slots__ = ("program", "cuda")
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    CUDA_FIELD_NUMBER: _ClassVar[int]
    program: KernelProgram
    cuda: CudaCompileOptions
    def __init__(self, program: _Optional[_Union[KernelProgram, _Mapping]] = ..., cuda: _Optional[_Union[CudaCompileOptions, _Mapping]] = ...) -> None: ...

class CudaCompileOptions(_message.Message):
    __slots__ = ("arch",)
    ARCH_FIELD_NUMBER: _ClassVar[int]
    arch: str
    def __init__(self, arch: _Optional[str] = ...) -> None: ...

class CompileResponse(_message.Message):
    __slots__ = ("kernel", "cuda")
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    CUDA_FIELD_NUMBER: _ClassVar[int]
    kernel: Kernel
    cuda: CudaCode
    def __init__(self, kernel: _Optional[_Union[Kernel, _Mapping]] = ..., cuda: _Optional[_Union[CudaCode, _Mapping]] = ...) -> None: ...

class CudaCode(_message.Message):
    __slots__ = ("arch", "ptx", "cubin", "resources")
    ARCH_FIELD_NUMBER: _ClassVar[int]
    PTX_FIELD_NUMBER: _ClassVar[int]
    CUBIN_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    arch: str
    ptx: str
    cubin: bytes
    resources: CudaResources
    def __init__(self, arch: _Optional[str] = ..., ptx: _Optional[str] = ..., cubin: _Optional[bytes] = ..., resources: _Optional[_Union[CudaResources, _Mapping]] = ...) -> None: ...

class CudaResources(_message.Message):
    __slots__ = ("registers", "shared_memory_bytes", "stack_bytes", "spill_store_bytes", "spill_load_bytes", "max_block_threads")
    REGISTERS_FIELD_NUMBER: _ClassVar[int]
    SHARED_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    STACK_BYTES_FIELD_NUMBER: _ClassVar[int]
    SPILL_STORE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SPILL_LOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_BLOCK_THREADS_FIELD_NUMBER: _ClassVar[int]
    registers: int
    shared_memory_bytes: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    max_block_threads: int
    def __init__(self, registers: _Optional[int] = ..., shared_memory_bytes: _Optional[int] = ..., stack_bytes: _Optional[int] = ..., spill_store_bytes: _Optional[int] = ..., spill_load_bytes: _Optional[int] = ..., max_block_threads: _Optional[int] = ...) -> None: ...

class Kernel(_message.Message):
    __slots__ = ("id", "name", "dialect", "grid_dims", "params", "written_arrays", "bit_exact", "size_bytes")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIALECT_FIELD_NUMBER: _ClassVar[int]
    GRID_DIMS_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_ARRAYS_FIELD_NUMBER: _ClassVar[int]
    BIT_EXACT_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    dialect: KernelDialect
    grid_dims: int
    params: _containers.RepeatedCompositeFieldContainer[KernelParam]
    written_arrays: _containers.RepeatedScalarFieldContainer[str]
    bit_exact: bool
    size_bytes: int
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., dialect: _Optional[_Union[KernelDialect, str]] = ..., grid_dims: _Optional[int] = ..., params: _Optional[_Iterable[_Union[KernelParam, _Mapping]]] = ..., written_arrays: _Optional[_Iterable[str]] = ..., bit_exact: bool = ..., size_bytes: _Optional[int] = ...) -> None: ...

class LaunchRequest(_message.Message):
    __slots__ = ("kernel_id", "program", "grid", "arguments", "outputs", "loop_budget", "device", "views")
    KERNEL_ID_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    GRID_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    LOOP_BUDGET_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    VIEWS_FIELD_NUMBER: _ClassVar[int]
    kernel_id: str
    program: KernelProgram
    grid: _containers.RepeatedScalarFieldContainer[int]
    arguments: _containers.RepeatedCompositeFieldContainer[_tensor_pb2.TensorInput]
    outputs: _containers.RepeatedCompositeFieldContainer[KernelOutput]
    loop_budget: int
    device: KernelDevice
    views: _containers.RepeatedCompositeFieldContainer[KernelView]
    def __init__(self, kernel_id: _Optional[str] = ..., program: _Optional[_Union[KernelProgram, _Mapping]] = ..., grid: _Optional[_Iterable[int]] = ..., arguments: _Optional[_Iterable[_Union[_tensor_pb2.TensorInput, _Mapping]]] = ..., outputs: _Optional[_Iterable[_Union[KernelOutput, _Mapping]]] = ..., loop_budget: _Optional[int] = ..., device: _Optional[_Union[KernelDevice, str]] = ..., views: _Optional[_Iterable[_Union[KernelView, _Mapping]]] = ...) -> None: ...

class KernelView(_message.Message):
    __slots__ = ("name", "argument", "offset_bytes", "shape", "strides_bytes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_BYTES_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    STRIDES_BYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    argument: str
    offset_bytes: int
    shape: _containers.RepeatedScalarFieldContainer[int]
    strides_bytes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., argument: _Optional[str] = ..., offset_bytes: _Optional[int] = ..., shape: _Optional[_Iterable[int]] = ..., strides_bytes: _Optional[_Iterable[int]] = ...) -> None: ...

class KernelOutput(_message.Message):
    __slots__ = ("name", "shape")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ...) -> None: ...

class LaunchResponse(_message.Message):
    __slots__ = ("outputs", "fault", "execution_time", "device")
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_TIME_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    outputs: _containers.RepeatedCompositeFieldContainer[NamedTensor]
    fault: KernelFault
    execution_time: _duration_pb2.Duration
    device: KernelDevice
    def __init__(self, outputs: _Optional[_Iterable[_Union[NamedTensor, _Mapping]]] = ..., fault: _Optional[_Union[KernelFault, _Mapping]] = ..., execution_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., device: _Optional[_Union[KernelDevice, str]] = ...) -> None: ...

class NamedTensor(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: _tensor_pb2.Tensor
    def __init__(self, name: _Optional[str] = ..., value: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ...) -> None: ...

class KernelFault(_message.Message):
    __slots__ = ("kind", "thread", "line", "column", "array", "dimension", "index", "extent", "variable")
    KIND_FIELD_NUMBER: _ClassVar[int]
    THREAD_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    DIMENSION_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    EXTENT_FIELD_NUMBER: _ClassVar[int]
    VARIABLE_FIELD_NUMBER: _ClassVar[int]
    kind: KernelFaultKind
    thread: int
    line: int
    column: int
    array: str
    dimension: int
    index: int
    extent: int
    variable: str
    def __init__(self, kind: _Optional[_Union[KernelFaultKind, str]] = ..., thread: _Optional[int] = ..., line: _Optional[int] = ..., column: _Optional[int] = ..., array: _Optional[str] = ..., dimension: _Optional[int] = ..., index: _Optional[int] = ..., extent: _Optional[int] = ..., variable: _Optional[str] = ...) -> None: ...

class BenchmarkRequest(_message.Message):
    __slots__ = ("launch", "reference", "fixed_arguments", "run_count", "warm_up_count", "atol", "rtol")
    LAUNCH_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    FIXED_ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    RUN_COUNT_FIELD_NUMBER: _ClassVar[int]
    WARM_UP_COUNT_FIELD_NUMBER: _ClassVar[int]
    ATOL_FIELD_NUMBER: _ClassVar[int]
    RTOL_FIELD_NUMBER: _ClassVar[int]
    launch: LaunchRequest
    reference: KernelProgram
    fixed_arguments: _containers.RepeatedScalarFieldContainer[str]
    run_count: int
    warm_up_count: int
    atol: float
    rtol: float
    def __init__(self, launch: _Optional[_Union[LaunchRequest, _Mapping]] = ..., reference: _Optional[_Union[KernelProgram, _Mapping]] = ..., fixed_arguments: _Optional[_Iterable[str]] = ..., run_count: _Optional[int] = ..., warm_up_count: _Optional[int] = ..., atol: _Optional[float] = ..., rtol: _Optional[float] = ...) -> None: ...

class BenchmarkResponse(_message.Message):
    __slots__ = ("verdict", "run_times", "median_time", "p10_time", "p90_time", "thread_count", "array_bytes", "threads_per_second", "bytes_per_second", "min_time", "mismatches", "fault", "device", "small_outputs")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    RUN_TIMES_FIELD_NUMBER: _ClassVar[int]
    MEDIAN_TIME_FIELD_NUMBER: _ClassVar[int]
    P10_TIME_FIELD_NUMBER: _ClassVar[int]
    P90_TIME_FIELD_NUMBER: _ClassVar[int]
    THREAD_COUNT_FIELD_NUMBER: _ClassVar[int]
    ARRAY_BYTES_FIELD_NUMBER: _ClassVar[int]
    THREADS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    MIN_TIME_FIELD_NUMBER: _ClassVar[int]
    MISMATCHES_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    SMALL_OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    verdict: BenchmarkVerdict
    run_times: _containers.RepeatedCompositeFieldContainer[_duration_pb2.Duration]
    median_time: _duration_pb2.Duration
    p10_time: _duration_pb2.Duration
    p90_time: _duration_pb2.Duration
    thread_count: int
    array_bytes: int
    threads_per_second: float
    bytes_per_second: float
    min_time: _duration_pb2.Duration
    mismatches: _containers.RepeatedCompositeFieldContainer[BenchmarkMismatch]
    fault: KernelFault
    device: KernelDevice
    small_outputs: _containers.RepeatedCompositeFieldContainer[SmallOutput]
    def __init__(self, verdict: _Optional[_Union[BenchmarkVerdict, str]] = ..., run_times: _Optional[_Iterable[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]]] = ..., median_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., p10_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., p90_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., thread_count: _Optional[int] = ..., array_bytes: _Optional[int] = ..., threads_per_second: _Optional[float] = ..., bytes_per_second: _Optional[float] = ..., min_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., mismatches: _Optional[_Iterable[_Union[BenchmarkMismatch, _Mapping]]] = ..., fault: _Optional[_Union[KernelFault, _Mapping]] = ..., device: _Optional[_Union[KernelDevice, str]] = ..., small_outputs: _Optional[_Iterable[_Union[SmallOutput, _Mapping]]] = ...) -> None: ...

class BenchmarkMismatch(_message.Message):
    __slots__ = ("output", "run", "failed_count", "index", "actual", "expected")
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    FAILED_COUNT_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ACTUAL_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    output: str
    run: int
    failed_count: int
    index: int
    actual: float
    expected: float
    def __init__(self, output: _Optional[str] = ..., run: _Optional[int] = ..., failed_count: _Optional[int] = ..., index: _Optional[int] = ..., actual: _Optional[float] = ..., expected: _Optional[float] = ...) -> None: ...

class SmallOutput(_message.Message):
    __slots__ = ("output", "atol", "max_norm", "max_norm_rtol")
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ATOL_FIELD_NUMBER: _ClassVar[int]
    MAX_NORM_FIELD_NUMBER: _ClassVar[int]
    MAX_NORM_RTOL_FIELD_NUMBER: _ClassVar[int]
    output: str
    atol: float
    max_norm: float
    max_norm_rtol: float
    def __init__(self, output: _Optional[str] = ..., atol: _Optional[float] = ..., max_norm: _Optional[float] = ..., max_norm_rtol: _Optional[float] = ...) -> None: ...

class ListKernelsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListKernelsResponse(_message.Message):
    __slots__ = ("kernels",)
    KERNELS_FIELD_NUMBER: _ClassVar[int]
    kernels: _containers.RepeatedCompositeFieldContainer[Kernel]
    def __init__(self, kernels: _Optional[_Iterable[_Union[Kernel, _Mapping]]] = ...) -> None: ...

class EvictKernelRequest(_message.Message):
    __slots__ = ("kernel_id",)
    KERNEL_ID_FIELD_NUMBER: _ClassVar[int]
    kernel_id: str
    def __init__(self, kernel_id: _Optional[str] = ...) -> None: ...

class EvictKernelResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class EvaluateRequest(_message.Message):
    __slots__ = ("subject", "arguments", "reference", "expected", "fixed_arguments", "run_count", "warm_up_count", "atol", "rtol", "launch_timeout")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    FIXED_ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    RUN_COUNT_FIELD_NUMBER: _ClassVar[int]
    WARM_UP_COUNT_FIELD_NUMBER: _ClassVar[int]
    ATOL_FIELD_NUMBER: _ClassVar[int]
    RTOL_FIELD_NUMBER: _ClassVar[int]
    LAUNCH_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    subject: CudaSubject
    arguments: _containers.RepeatedCompositeFieldContainer[_tensor_pb2.TensorInput]
    reference: EvaluationReference
    expected: ExpectedOutputs
    fixed_arguments: _containers.RepeatedScalarFieldContainer[str]
    run_count: int
    warm_up_count: int
    atol: float
    rtol: float
    launch_timeout: _duration_pb2.Duration
    def __init__(self, subject: _Optional[_Union[CudaSubject, _Mapping]] = ..., arguments: _Optional[_Iterable[_Union[_tensor_pb2.TensorInput, _Mapping]]] = ..., reference: _Optional[_Union[EvaluationReference, _Mapping]] = ..., expected: _Optional[_Union[ExpectedOutputs, _Mapping]] = ..., fixed_arguments: _Optional[_Iterable[str]] = ..., run_count: _Optional[int] = ..., warm_up_count: _Optional[int] = ..., atol: _Optional[float] = ..., rtol: _Optional[float] = ..., launch_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class CudaSubject(_message.Message):
    __slots__ = ("source", "entry", "params", "grid", "block", "dynamic_shared_memory_bytes")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    GRID_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    DYNAMIC_SHARED_MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    source: str
    entry: str
    params: _containers.RepeatedCompositeFieldContainer[CudaParam]
    grid: _containers.RepeatedScalarFieldContainer[int]
    block: _containers.RepeatedScalarFieldContainer[int]
    dynamic_shared_memory_bytes: int
    def __init__(self, source: _Optional[str] = ..., entry: _Optional[str] = ..., params: _Optional[_Iterable[_Union[CudaParam, _Mapping]]] = ..., grid: _Optional[_Iterable[int]] = ..., block: _Optional[_Iterable[int]] = ..., dynamic_shared_memory_bytes: _Optional[int] = ...) -> None: ...

class CudaParam(_message.Message):
    __slots__ = ("name", "dtype", "kind", "shape")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    dtype: _tensor_pb2.Dtype
    kind: CudaParamKind
    shape: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., dtype: _Optional[_Union[_tensor_pb2.Dtype, str]] = ..., kind: _Optional[_Union[CudaParamKind, str]] = ..., shape: _Optional[_Iterable[int]] = ...) -> None: ...

class EvaluationReference(_message.Message):
    __slots__ = ("program", "grid")
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    GRID_FIELD_NUMBER: _ClassVar[int]
    program: KernelProgram
    grid: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, program: _Optional[_Union[KernelProgram, _Mapping]] = ..., grid: _Optional[_Iterable[int]] = ...) -> None: ...

class ExpectedOutputs(_message.Message):
    __slots__ = ("outputs",)
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    outputs: _containers.RepeatedCompositeFieldContainer[NamedTensor]
    def __init__(self, outputs: _Optional[_Iterable[_Union[NamedTensor, _Mapping]]] = ...) -> None: ...

class EvaluateResponse(_message.Message):
    __slots__ = ("verdict", "message", "compiler_log", "run", "param", "resources", "run_times", "median_time", "p10_time", "p90_time", "min_time", "mismatches", "bit_exact_repeat", "array_bytes", "arch", "small_outputs")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    COMPILER_LOG_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    PARAM_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    RUN_TIMES_FIELD_NUMBER: _ClassVar[int]
    MEDIAN_TIME_FIELD_NUMBER: _ClassVar[int]
    P10_TIME_FIELD_NUMBER: _ClassVar[int]
    P90_TIME_FIELD_NUMBER: _ClassVar[int]
    MIN_TIME_FIELD_NUMBER: _ClassVar[int]
    MISMATCHES_FIELD_NUMBER: _ClassVar[int]
    BIT_EXACT_REPEAT_FIELD_NUMBER: _ClassVar[int]
    ARRAY_BYTES_FIELD_NUMBER: _ClassVar[int]
    ARCH_FIELD_NUMBER: _ClassVar[int]
    SMALL_OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    verdict: EvaluationVerdict
    message: str
    compiler_log: str
    run: int
    param: str
    resources: CudaResources
    run_times: _containers.RepeatedCompositeFieldContainer[_duration_pb2.Duration]
    median_time: _duration_pb2.Duration
    p10_time: _duration_pb2.Duration
    p90_time: _duration_pb2.Duration
    min_time: _duration_pb2.Duration
    mismatches: _containers.RepeatedCompositeFieldContainer[BenchmarkMismatch]
    bit_exact_repeat: bool
    array_bytes: int
    arch: str
    small_outputs: _containers.RepeatedCompositeFieldContainer[SmallOutput]
    def __init__(self, verdict: _Optional[_Union[EvaluationVerdict, str]] = ..., message: _Optional[str] = ..., compiler_log: _Optional[str] = ..., run: _Optional[int] = ..., param: _Optional[str] = ..., resources: _Optional[_Union[CudaResources, _Mapping]] = ..., run_times: _Optional[_Iterable[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]]] = ..., median_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., p10_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., p90_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., min_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., mismatches: _Optional[_Iterable[_Union[BenchmarkMismatch, _Mapping]]] = ..., bit_exact_repeat: bool = ..., array_bytes: _Optional[int] = ..., arch: _Optional[str] = ..., small_outputs: _Optional[_Iterable[_Union[SmallOutput, _Mapping]]] = ...) -> None: ...

class GenerateDatasetRequest(_message.Message):
    __slots__ = ("pair_count", "seed", "categories", "dialects", "first_index", "validation_percent", "test_percent", "targets", "device")
    PAIR_COUNT_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    CATEGORIES_FIELD_NUMBER: _ClassVar[int]
    DIALECTS_FIELD_NUMBER: _ClassVar[int]
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_PERCENT_FIELD_NUMBER: _ClassVar[int]
    TEST_PERCENT_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    pair_count: int
    seed: int
    categories: _containers.RepeatedScalarFieldContainer[DatasetCategory]
    dialects: _containers.RepeatedScalarFieldContainer[KernelDialect]
    first_index: int
    validation_percent: int
    test_percent: int
    targets: _containers.RepeatedScalarFieldContainer[KernelTarget]
    device: KernelDevice
    def __init__(self, pair_count: _Optional[int] = ..., seed: _Optional[int] = ..., categories: _Optional[_Iterable[_Union[DatasetCategory, str]]] = ..., dialects: _Optional[_Iterable[_Union[KernelDialect, str]]] = ..., first_index: _Optional[int] = ..., validation_percent: _Optional[int] = ..., test_percent: _Optional[int] = ..., targets: _Optional[_Iterable[_Union[KernelTarget, str]]] = ..., device: _Optional[_Union[KernelDevice, str]] = ...) -> None: ...

class GenerateDatasetResponse(_message.Message):
    __slots__ = ("pair",)
    PAIR_FIELD_NUMBER: _ClassVar[int]
    pair: DatasetPair
    def __init__(self, pair: _Optional[_Union[DatasetPair, _Mapping]] = ...) -> None: ...

class DatasetPair(_message.Message):
    __slots__ = ("index", "id", "structure_id", "split", "category", "dialect", "name", "source", "files", "bit_exact", "runs")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    STRUCTURE_ID_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    CATEGORY_FIELD_NUMBER: _ClassVar[int]
    DIALECT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    BIT_EXACT_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    index: int
    id: str
    structure_id: str
    split: DatasetSplit
    category: DatasetCategory
    dialect: KernelDialect
    name: str
    source: str
    files: _containers.RepeatedCompositeFieldContainer[KernelFile]
    bit_exact: bool
    runs: _containers.RepeatedCompositeFieldContainer[DatasetRun]
    def __init__(self, index: _Optional[int] = ..., id: _Optional[str] = ..., structure_id: _Optional[str] = ..., split: _Optional[_Union[DatasetSplit, str]] = ..., category: _Optional[_Union[DatasetCategory, str]] = ..., dialect: _Optional[_Union[KernelDialect, str]] = ..., name: _Optional[str] = ..., source: _Optional[str] = ..., files: _Optional[_Iterable[_Union[KernelFile, _Mapping]]] = ..., bit_exact: bool = ..., runs: _Optional[_Iterable[_Union[DatasetRun, _Mapping]]] = ...) -> None: ...

class DatasetRun(_message.Message):
    __slots__ = ("device", "agreement", "element_count", "different_count", "max_ulp_error", "execution_time", "message")
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    AGREEMENT_FIELD_NUMBER: _ClassVar[int]
    ELEMENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    DIFFERENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    MAX_ULP_ERROR_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_TIME_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    device: KernelDevice
    agreement: DatasetAgreement
    element_count: int
    different_count: int
    max_ulp_error: int
    execution_time: _duration_pb2.Duration
    message: str
    def __init__(self, device: _Optional[_Union[KernelDevice, str]] = ..., agreement: _Optional[_Union[DatasetAgreement, str]] = ..., element_count: _Optional[int] = ..., different_count: _Optional[int] = ..., max_ulp_error: _Optional[int] = ..., execution_time: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., message: _Optional[str] = ...) -> None: ...
