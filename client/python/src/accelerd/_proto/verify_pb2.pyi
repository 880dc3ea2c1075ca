import datetime

from accelerd._proto import kernel_pb2 as _kernel_pb2
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

class ToleranceCombination(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TOLERANCE_COMBINATION_UNSPECIFIED: _ClassVar[ToleranceCombination]
    TOLERANCE_COMBINATION_ANY: _ClassVar[ToleranceCombination]
    TOLERANCE_COMBINATION_ALL: _ClassVar[ToleranceCombination]

class NanPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NAN_POLICY_UNSPECIFIED: _ClassVar[NanPolicy]
    NAN_POLICY_FORBIDDEN: _ClassVar[NanPolicy]
    NAN_POLICY_EQUAL: _ClassVar[NanPolicy]
    NAN_POLICY_SAME_BITS: _ClassVar[NanPolicy]

class InfinityPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INFINITY_POLICY_UNSPECIFIED: _ClassVar[InfinityPolicy]
    INFINITY_POLICY_EQUAL: _ClassVar[InfinityPolicy]
    INFINITY_POLICY_FORBIDDEN: _ClassVar[InfinityPolicy]

class ShapePolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SHAPE_POLICY_UNSPECIFIED: _ClassVar[ShapePolicy]
    SHAPE_POLICY_EQUAL: _ClassVar[ShapePolicy]
    SHAPE_POLICY_SAME_ELEMENT_COUNT: _ClassVar[ShapePolicy]

class ElementOrder(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ELEMENT_ORDER_UNSPECIFIED: _ClassVar[ElementOrder]
    ELEMENT_ORDER_FIXED: _ClassVar[ElementOrder]
    ELEMENT_ORDER_ANY: _ClassVar[ElementOrder]

class OutputVerdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTPUT_VERDICT_UNSPECIFIED: _ClassVar[OutputVerdict]
    OUTPUT_VERDICT_PASSED: _ClassVar[OutputVerdict]
    OUTPUT_VERDICT_MISMATCH: _ClassVar[OutputVerdict]
    OUTPUT_VERDICT_SHAPE_MISMATCH: _ClassVar[OutputVerdict]
    OUTPUT_VERDICT_DTYPE_MISMATCH: _ClassVar[OutputVerdict]

class MismatchKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MISMATCH_KIND_UNSPECIFIED: _ClassVar[MismatchKind]
    MISMATCH_KIND_TOLERANCE: _ClassVar[MismatchKind]
    MISMATCH_KIND_NAN: _ClassVar[MismatchKind]
    MISMATCH_KIND_INFINITY: _ClassVar[MismatchKind]
    MISMATCH_KIND_ZERO_SIGN: _ClassVar[MismatchKind]

class WasmParamKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WASM_PARAM_KIND_UNSPECIFIED: _ClassVar[WasmParamKind]
    WASM_PARAM_KIND_VALUE: _ClassVar[WasmParamKind]
    WASM_PARAM_KIND_INPUT: _ClassVar[WasmParamKind]
    WASM_PARAM_KIND_OUTPUT: _ClassVar[WasmParamKind]
    WASM_PARAM_KIND_IN_OUT: _ClassVar[WasmParamKind]

class OutcomePolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_POLICY_UNSPECIFIED: _ClassVar[OutcomePolicy]
    OUTCOME_POLICY_BOTH_OR_NEITHER: _ClassVar[OutcomePolicy]
    OUTCOME_POLICY_REFERENCE_DEFINES: _ClassVar[OutcomePolicy]
    OUTCOME_POLICY_RESULT_REQUIRED: _ClassVar[OutcomePolicy]
TOLERANCE_COMBINATION_UNSPECIFIED: ToleranceCombination
TOLERANCE_COMBINATION_ANY: ToleranceCombination
TOLERANCE_COMBINATION_ALL: ToleranceCombination
NAN_POLICY_UNSPECIFIED: NanPolicy
NAN_POLICY_FORBIDDEN: NanPolicy
NAN_POLICY_EQUAL: NanPolicy
NAN_POLICY_SAME_BITS: NanPolicy
INFINITY_POLICY_UNSPECIFIED: InfinityPolicy
INFINITY_POLICY_EQUAL: InfinityPolicy
INFINITY_POLICY_FORBIDDEN: InfinityPolicy
SHAPE_POLICY_UNSPECIFIED: ShapePolicy
SHAPE_POLICY_EQUAL: ShapePolicy
SHAPE_POLICY_SAME_ELEMENT_COUNT: ShapePolicy
ELEMENT_ORDER_UNSPECIFIED: ElementOrder
ELEMENT_ORDER_FIXED: ElementOrder
ELEMENT_ORDER_ANY: ElementOrder
OUTPUT_VERDICT_UNSPECIFIED: OutputVerdict
OUTPUT_VERDICT_PASSED: OutputVerdict
OUTPUT_VERDICT_MISMATCH: OutputVerdict
OUTPUT_VERDICT_SHAPE_MISMATCH: OutputVerdict
OUTPUT_VERDICT_DTYPE_MISMATCH: OutputVerdict
MISMATCH_KIND_UNSPECIFIED: MismatchKind
MISMATCH_KIND_TOLERANCE: MismatchKind
MISMATCH_KIND_NAN: MismatchKind
MISMATCH_KIND_INFINITY: MismatchKind
MISMATCH_KIND_ZERO_SIGN: MismatchKind
WASM_PARAM_KIND_UNSPECIFIED: WasmParamKind
WASM_PARAM_KIND_VALUE: WasmParamKind
WASM_PARAM_KIND_INPUT: WasmParamKind
WASM_PARAM_KIND_OUTPUT: WasmParamKind
WASM_PARAM_KIND_IN_OUT: WasmParamKind
OUTCOME_POLICY_UNSPECIFIED: OutcomePolicy
OUTCOME_POLICY_BOTH_OR_NEITHER: OutcomePolicy
OUTCOME_POLICY_REFERENCE_DEFINES: OutcomePolicy
OUTCOME_POLICY_RESULT_REQUIRED: OutcomePolicy

class CompareOutputsRequest(_message.Message):
    __slots__ = ("actual", "expected", "policy", "output_policies", "max_mismatches", "row_verdicts")
    class OutputPoliciesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: ComparisonPolicy
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[ComparisonPolicy, _Mapping]] = ...) -> None: ...
    ACTUAL_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_POLICIES_FIELD_NUMBER: _ClassVar[int]
    MAX_MISMATCHES_FIELD_NUMBER: _ClassVar[int]
    ROW_VERDICTS_FIELD_NUMBER: _ClassVar[int]
    actual: _containers.RepeatedCompositeFieldContainer[_tensor_pb2.TensorInput]
    expected: _containers.RepeatedCompositeFieldContainer[_tensor_pb2.TensorInput]
    policy: ComparisonPolicy
    output_policies: _containers.MessageMap[str, ComparisonPolicy]
    max_mismatches: int
    row_verdicts: bool
    def __init__(self, actual: _Optional[_Iterable[_Union[_tensor_pb2.TensorInput, _Mapping]]] = ..., expected: _Optional[_Iterable[_Union[_tensor_pb2.TensorInput, _Mapping]]] = ..., policy: _Optional[_Union[ComparisonPolicy, _Mapping]] = ..., output_policies: _Optional[_Mapping[str, ComparisonPolicy]] = ..., max_mismatches: _Optional[int] = ..., row_verdicts: bool = ...) -> None: ...

class ComparisonPolicy(_message.Message):
    __slots__ = ("tolerances", "combination", "nan", "infinity", "distinguish_zero_sign", "shape", "order")
    TOLERANCES_FIELD_NUMBER: _ClassVar[int]
    COMBINATION_FIELD_NUMBER: _ClassVar[int]
    NAN_FIELD_NUMBER: _ClassVar[int]
    INFINITY_FIELD_NUMBER: _ClassVar[int]
    DISTINGUISH_ZERO_SIGN_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    tolerances: _containers.RepeatedCompositeFieldContainer[Tolerance]
    combination: ToleranceCombination
    nan: NanPolicy
    infinity: InfinityPolicy
    distinguish_zero_sign: bool
    shape: ShapePolicy
    order: ElementOrder
    def __init__(self, tolerances: _Optional[_Iterable[_Union[Tolerance, _Mapping]]] = ..., combination: _Optional[_Union[ToleranceCombination, str]] = ..., nan: _Optional[_Union[NanPolicy, str]] = ..., infinity: _Optional[_Union[InfinityPolicy, str]] = ..., distinguish_zero_sign: bool = ..., shape: _Optional[_Union[ShapePolicy, str]] = ..., order: _Optional[_Union[ElementOrder, str]] = ...) -> None: ...

class Tolerance(_message.Message):
    __slots__ = ("exact", "close", "ulp", "max_norm")
    EXACT_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    ULP_FIELD_NUMBER: _ClassVar[int]
    MAX_NORM_FIELD_NUMBER: _ClassVar[int]
    exact: ExactTolerance
    close: CloseTolerance
    ulp: UlpTolerance
    max_norm: MaxNormTolerance
    def __init__(self, exact: _Optional[_Union[ExactTolerance, _Mapping]] = ..., close: _Optional[_Union[CloseTolerance, _Mapping]] = ..., ulp: _Optional[_Union[UlpTolerance, _Mapping]] = ..., max_norm: _Optional[_Union[MaxNormTolerance, _Mapping]] = ...) -> None: ...

class ExactTolerance(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CloseTolerance(_message.Message):
    __slots__ = ("atol", "rtol")
    ATOL_FIELD_NUMBER: _ClassVar[int]
    RTOL_FIELD_NUMBER: _ClassVar[int]
    atol: float
    rtol: float
    def __init__(self, atol: _Optional[float] = ..., rtol: _Optional[float] = ...) -> None: ...

class UlpTolerance(_message.Message):
    __slots__ = ("max_distance",)
    MAX_DISTANCE_FIELD_NUMBER: _ClassVar[int]
    max_distance: int
    def __init__(self, max_distance: _Optional[int] = ...) -> None: ...

class MaxNormTolerance(_message.Message):
    __slots__ = ("rtol",)
    RTOL_FIELD_NUMBER: _ClassVar[int]
    rtol: float
    def __init__(self, rtol: _Optional[float] = ...) -> None: ...

class CompareOutputsResponse(_message.Message):
    __slots__ = ("passed", "outputs")
    PASSED_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    passed: bool
    outputs: _containers.RepeatedCompositeFieldContainer[OutputComparison]
    def __init__(self, passed: bool = ..., outputs: _Optional[_Iterable[_Union[OutputComparison, _Mapping]]] = ...) -> None: ...

class OutputComparison(_message.Message):
    __slots__ = ("name", "verdict", "actual_dtype", "expected_dtype", "actual_shape", "expected_shape", "tolerances", "differences", "small_output")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    ACTUAL_DTYPE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_DTYPE_FIELD_NUMBER: _ClassVar[int]
    ACTUAL_SHAPE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_SHAPE_FIELD_NUMBER: _ClassVar[int]
    TOLERANCES_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    SMALL_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    name: str
    verdict: OutputVerdict
    actual_dtype: _tensor_pb2.Dtype
    expected_dtype: _tensor_pb2.Dtype
    actual_shape: _containers.RepeatedScalarFieldContainer[int]
    expected_shape: _containers.RepeatedScalarFieldContainer[int]
    tolerances: _containers.RepeatedCompositeFieldContainer[Tolerance]
    differences: Differences
    small_output: _kernel_pb2.SmallOutput
    def __init__(self, name: _Optional[str] = ..., verdict: _Optional[_Union[OutputVerdict, str]] = ..., actual_dtype: _Optional[_Union[_tensor_pb2.Dtype, str]] = ..., expected_dtype: _Optional[_Union[_tensor_pb2.Dtype, str]] = ..., actual_shape: _Optional[_Iterable[int]] = ..., expected_shape: _Optional[_Iterable[int]] = ..., tolerances: _Optional[_Iterable[_Union[Tolerance, _Mapping]]] = ..., differences: _Optional[_Union[Differences, _Mapping]] = ..., small_output: _Optional[_Union[_kernel_pb2.SmallOutput, _Mapping]] = ...) -> None: ...

class Differences(_message.Message):
    __slots__ = ("element_count", "failed_count", "counts", "max_absolute", "max_relative", "max_ulps", "ulp_histogram", "max_norm", "sufficient", "mismatches", "failed_rows")
    ELEMENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    FAILED_COUNT_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    MAX_ABSOLUTE_FIELD_NUMBER: _ClassVar[int]
    MAX_RELATIVE_FIELD_NUMBER: _ClassVar[int]
    MAX_ULPS_FIELD_NUMBER: _ClassVar[int]
    ULP_HISTOGRAM_FIELD_NUMBER: _ClassVar[int]
    MAX_NORM_FIELD_NUMBER: _ClassVar[int]
    SUFFICIENT_FIELD_NUMBER: _ClassVar[int]
    MISMATCHES_FIELD_NUMBER: _ClassVar[int]
    FAILED_ROWS_FIELD_NUMBER: _ClassVar[int]
    element_count: int
    failed_count: int
    counts: PairCounts
    max_absolute: LargestError
    max_relative: LargestError
    max_ulps: LargestDistance
    ulp_histogram: _containers.RepeatedScalarFieldContainer[int]
    max_norm: float
    sufficient: SufficientTolerances
    mismatches: _containers.RepeatedCompositeFieldContainer[Mismatch]
    failed_rows: bytes
    def __init__(self, element_count: _Optional[int] = ..., failed_count: _Optional[int] = ..., counts: _Optional[_Union[PairCounts, _Mapping]] = ..., max_absolute: _Optional[_Union[LargestError, _Mapping]] = ..., max_relative: _Optional[_Union[LargestError, _Mapping]] = ..., max_ulps: _Optional[_Union[LargestDistance, _Mapping]] = ..., ulp_histogram: _Optional[_Iterable[int]] = ..., max_norm: _Optional[float] = ..., sufficient: _Optional[_Union[SufficientTolerances, _Mapping]] = ..., mismatches: _Optional[_Iterable[_Union[Mismatch, _Mapping]]] = ..., failed_rows: _Optional[bytes] = ...) -> None: ...

class PairCounts(_message.Message):
    __slots__ = ("equal_count", "zero_sign_count", "within_tolerance_count", "mismatch_count", "nan_equal_count", "nan_mismatch_count", "infinity_mismatch_count")
    EQUAL_COUNT_FIELD_NUMBER: _ClassVar[int]
    ZERO_SIGN_COUNT_FIELD_NUMBER: _ClassVar[int]
    WITHIN_TOLERANCE_COUNT_FIELD_NUMBER: _ClassVar[int]
    MISMATCH_COUNT_FIELD_NUMBER: _ClassVar[int]
    NAN_EQUAL_COUNT_FIELD_NUMBER: _ClassVar[int]
    NAN_MISMATCH_COUNT_FIELD_NUMBER: _ClassVar[int]
    INFINITY_MISMATCH_COUNT_FIELD_NUMBER: _ClassVar[int]
    equal_count: int
    zero_sign_count: int
    within_tolerance_count: int
    mismatch_count: int
    nan_equal_count: int
    nan_mismatch_count: int
    infinity_mismatch_count: int
    def __init__(self, equal_count: _Optional[int] = ..., zero_sign_count: _Optional[int] = ..., within_tolerance_count: _Optional[int] = ..., mismatch_count: _Optional[int] = ..., nan_equal_count: _Optional[int] = ..., nan_mismatch_count: _Optional[int] = ..., infinity_mismatch_count: _Optional[int] = ...) -> None: ...

class LargestError(_message.Message):
    __slots__ = ("value", "index")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    value: float
    index: int
    def __init__(self, value: _Optional[float] = ..., index: _Optional[int] = ...) -> None: ...

class LargestDistance(_message.Message):
    __slots__ = ("value", "index")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    value: int
    index: int
    def __init__(self, value: _Optional[int] = ..., index: _Optional[int] = ...) -> None: ...

class SufficientTolerances(_message.Message):
    __slots__ = ("atol", "rtol", "max_ulps", "max_norm_rtol")
    ATOL_FIELD_NUMBER: _ClassVar[int]
    RTOL_FIELD_NUMBER: _ClassVar[int]
    MAX_ULPS_FIELD_NUMBER: _ClassVar[int]
    MAX_NORM_RTOL_FIELD_NUMBER: _ClassVar[int]
    atol: float
    rtol: float
    max_ulps: int
    max_norm_rtol: float
    def __init__(self, atol: _Optional[float] = ..., rtol: _Optional[float] = ..., max_ulps: _Optional[int] = ..., max_norm_rtol: _Optional[float] = ...) -> None: ...

class Mismatch(_message.Message):
    __slots__ = ("index", "kind", "actual", "expected", "actual_bits", "expected_bits", "errors")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ACTUAL_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    ACTUAL_BITS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_BITS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    index: int
    kind: MismatchKind
    actual: float
    expected: float
    actual_bits: int
    expected_bits: int
    errors: PairErrors
    def __init__(self, index: _Optional[int] = ..., kind: _Optional[_Union[MismatchKind, str]] = ..., actual: _Optional[float] = ..., expected: _Optional[float] = ..., actual_bits: _Optional[int] = ..., expected_bits: _Optional[int] = ..., errors: _Optional[_Union[PairErrors, _Mapping]] = ...) -> None: ...

class PairErrors(_message.Message):
    __slots__ = ("absolute", "relative", "ulps")
    ABSOLUTE_FIELD_NUMBER: _ClassVar[int]
    RELATIVE_FIELD_NUMBER: _ClassVar[int]
    ULPS_FIELD_NUMBER: _ClassVar[int]
    absolute: float
    relative: float
    ulps: int
    def __init__(self, absolute: _Optional[float] = ..., relative: _Optional[float] = ..., ulps: _Optional[int] = ...) -> None: ...

class VerifyRequest(_message.Message):
    __slots__ = ("header", "cases")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CASES_FIELD_NUMBER: _ClassVar[int]
    header: VerifyHeader
    cases: VerifyCases
    def __init__(self, header: _Optional[_Union[VerifyHeader, _Mapping]] = ..., cases: _Optional[_Union[VerifyCases, _Mapping]] = ...) -> None: ...

class VerifyHeader(_message.Message):
    __slots__ = ("given_outputs", "kernel", "wasm", "expected_outputs", "reference_kernel", "reference_wasm", "policy", "output_policies", "max_mismatches", "case_verdicts", "generator", "limits", "outcome_policy", "max_counterexamples", "skip_shrinking", "check_determinism", "expected_outcome", "device")
    class OutputPoliciesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: ComparisonPolicy
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[ComparisonPolicy, _Mapping]] = ...) -> None: ...
    GIVEN_OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    WASM_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_KERNEL_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_WASM_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_POLICIES_FIELD_NUMBER: _ClassVar[int]
    MAX_MISMATCHES_FIELD_NUMBER: _ClassVar[int]
    CASE_VERDICTS_FIELD_NUMBER: _ClassVar[int]
    GENERATOR_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_POLICY_FIELD_NUMBER: _ClassVar[int]
    MAX_COUNTEREXAMPLES_FIELD_NUMBER: _ClassVar[int]
    SKIP_SHRINKING_FIELD_NUMBER: _ClassVar[int]
    CHECK_DETERMINISM_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_OUTCOME_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    given_outputs: GivenOutputs
    kernel: _kernel_pb2.KernelProgram
    wasm: WasmFunction
    expected_outputs: GivenOutputs
    reference_kernel: _kernel_pb2.KernelProgram
    reference_wasm: WasmFunction
    policy: ComparisonPolicy
    output_policies: _containers.MessageMap[str, ComparisonPolicy]
    max_mismatches: int
    case_verdicts: bool
    generator: CaseGenerator
    limits: CaseLimits
    outcome_policy: OutcomePolicy
    max_counterexamples: int
    skip_shrinking: bool
    check_determinism: bool
    expected_outcome: str
    device: _kernel_pb2.KernelDevice
    def __init__(self, given_outputs: _Optional[_Union[GivenOutputs, _Mapping]] = ..., kernel: _Optional[_Union[_kernel_pb2.KernelProgram, _Mapping]] = ..., wasm: _Optional[_Union[WasmFunction, _Mapping]] = ..., expected_outputs: _Optional[_Union[GivenOutputs, _Mapping]] = ..., reference_kernel: _Optional[_Union[_kernel_pb2.KernelProgram, _Mapping]] = ..., reference_wasm: _Optional[_Union[WasmFunction, _Mapping]] = ..., policy: _Optional[_Union[ComparisonPolicy, _Mapping]] = ..., output_policies: _Optional[_Mapping[str, ComparisonPolicy]] = ..., max_mismatches: _Optional[int] = ..., case_verdicts: bool = ..., generator: _Optional[_Union[CaseGenerator, _Mapping]] = ..., limits: _Optional[_Union[CaseLimits, _Mapping]] = ..., outcome_policy: _Optional[_Union[OutcomePolicy, str]] = ..., max_counterexamples: _Optional[int] = ..., skip_shrinking: bool = ..., check_determinism: bool = ..., expected_outcome: _Optional[str] = ..., device: _Optional[_Union[_kernel_pb2.KernelDevice, str]] = ...) -> None: ...

class WasmFunction(_message.Message):
    __slots__ = ("module", "function", "params", "results", "share_instance")
    MODULE_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    SHARE_INSTANCE_FIELD_NUMBER: _ClassVar[int]
    module: bytes
    function: str
    params: _containers.RepeatedCompositeFieldContainer[WasmParam]
    results: _containers.RepeatedCompositeFieldContainer[WasmResult]
    share_instance: bool
    def __init__(self, module: _Optional[bytes] = ..., function: _Optional[str] = ..., params: _Optional[_Iterable[_Union[WasmParam, _Mapping]]] = ..., results: _Optional[_Iterable[_Union[WasmResult, _Mapping]]] = ..., share_instance: bool = ...) -> None: ...

class WasmParam(_message.Message):
    __slots__ = ("name", "dtype", "kind", "length", "address_only")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_ONLY_FIELD_NUMBER: _ClassVar[int]
    name: str
    dtype: _tensor_pb2.Dtype
    kind: WasmParamKind
    length: int
    address_only: bool
    def __init__(self, name: _Optional[str] = ..., dtype: _Optional[_Union[_tensor_pb2.Dtype, str]] = ..., kind: _Optional[_Union[WasmParamKind, str]] = ..., length: _Optional[int] = ..., address_only: bool = ...) -> None: ...

class WasmResult(_message.Message):
    __slots__ = ("name", "dtype")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    dtype: _tensor_pb2.Dtype
    def __init__(self, name: _Optional[str] = ..., dtype: _Optional[_Union[_tensor_pb2.Dtype, str]] = ...) -> None: ...

class CaseGenerator(_message.Message):
    __slots__ = ("case_count", "seed", "domains")
    class DomainsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: InputDomain
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[InputDomain, _Mapping]] = ...) -> None: ...
    CASE_COUNT_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    case_count: int
    seed: int
    domains: _containers.MessageMap[str, InputDomain]
    def __init__(self, case_count: _Optional[int] = ..., seed: _Optional[int] = ..., domains: _Optional[_Mapping[str, InputDomain]] = ...) -> None: ...

class InputDomain(_message.Message):
    __slots__ = ("min", "min_integer", "max", "max_integer", "allow_nan", "allow_infinity", "length")
    MIN_FIELD_NUMBER: _ClassVar[int]
    MIN_INTEGER_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    MAX_INTEGER_FIELD_NUMBER: _ClassVar[int]
    ALLOW_NAN_FIELD_NUMBER: _ClassVar[int]
    ALLOW_INFINITY_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    min: float
    min_integer: int
    max: float
    max_integer: int
    allow_nan: bool
    allow_infinity: bool
    length: int
    def __init__(self, min: _Optional[float] = ..., min_integer: _Optional[int] = ..., max: _Optional[float] = ..., max_integer: _Optional[int] = ..., allow_nan: bool = ..., allow_infinity: bool = ..., length: _Optional[int] = ...) -> None: ...

class CaseLimits(_message.Message):
    __slots__ = ("timeout", "fuel", "memory_bytes", "loop_budget")
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    FUEL_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    LOOP_BUDGET_FIELD_NUMBER: _ClassVar[int]
    timeout: _duration_pb2.Duration
    fuel: int
    memory_bytes: int
    loop_budget: int
    def __init__(self, timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., fuel: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., loop_budget: _Optional[int] = ...) -> None: ...

class GivenOutputs(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class VerifyCases(_message.Message):
    __slots__ = ("actual", "expected", "inputs", "expected_outcomes")
    ACTUAL_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    actual: _containers.RepeatedCompositeFieldContainer[_tensor_pb2.TensorInput]
    expected: _containers.RepeatedCompositeFieldContainer[_tensor_pb2.TensorInput]
    inputs: _containers.RepeatedCompositeFieldContainer[_tensor_pb2.TensorInput]
    expected_outcomes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, actual: _Optional[_Iterable[_Union[_tensor_pb2.TensorInput, _Mapping]]] = ..., expected: _Optional[_Iterable[_Union[_tensor_pb2.TensorInput, _Mapping]]] = ..., inputs: _Optional[_Iterable[_Union[_tensor_pb2.TensorInput, _Mapping]]] = ..., expected_outcomes: _Optional[_Iterable[str]] = ...) -> None: ...

class VerifyResponse(_message.Message):
    __slots__ = ("cases", "summary")
    CASES_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    cases: CaseVerdicts
    summary: VerifySummary
    def __init__(self, cases: _Optional[_Union[CaseVerdicts, _Mapping]] = ..., summary: _Optional[_Union[VerifySummary, _Mapping]] = ...) -> None: ...

class CaseVerdicts(_message.Message):
    __slots__ = ("first_case", "case_count", "failed_count", "failed_cases")
    FIRST_CASE_FIELD_NUMBER: _ClassVar[int]
    CASE_COUNT_FIELD_NUMBER: _ClassVar[int]
    FAILED_COUNT_FIELD_NUMBER: _ClassVar[int]
    FAILED_CASES_FIELD_NUMBER: _ClassVar[int]
    first_case: int
    case_count: int
    failed_count: int
    failed_cases: bytes
    def __init__(self, first_case: _Optional[int] = ..., case_count: _Optional[int] = ..., failed_count: _Optional[int] = ..., failed_cases: _Optional[bytes] = ...) -> None: ...

class VerifySummary(_message.Message):
    __slots__ = ("passed", "case_count", "failed_count", "outputs", "functions")
    PASSED_FIELD_NUMBER: _ClassVar[int]
    CASE_COUNT_FIELD_NUMBER: _ClassVar[int]
    FAILED_COUNT_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    FUNCTIONS_FIELD_NUMBER: _ClassVar[int]
    passed: bool
    case_count: int
    failed_count: int
    outputs: _containers.RepeatedCompositeFieldContainer[OutputComparison]
    functions: FunctionSummary
    def __init__(self, passed: bool = ..., case_count: _Optional[int] = ..., failed_count: _Optional[int] = ..., outputs: _Optional[_Iterable[_Union[OutputComparison, _Mapping]]] = ..., functions: _Optional[_Union[FunctionSummary, _Mapping]] = ...) -> None: ...

class FunctionSummary(_message.Message):
    __slots__ = ("subject_outcomes", "reference_outcomes", "outcome_mismatch_count", "nondeterministic_count", "counterexamples", "subject_hash", "reference_hash", "gpu_decided_count")
    class SubjectOutcomesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class ReferenceOutcomesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    SUBJECT_OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_MISMATCH_COUNT_FIELD_NUMBER: _ClassVar[int]
    NONDETERMINISTIC_COUNT_FIELD_NUMBER: _ClassVar[int]
    COUNTEREXAMPLES_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_HASH_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_HASH_FIELD_NUMBER: _ClassVar[int]
    GPU_DECIDED_COUNT_FIELD_NUMBER: _ClassVar[int]
    subject_outcomes: _containers.ScalarMap[str, int]
    reference_outcomes: _containers.ScalarMap[str, int]
    outcome_mismatch_count: int
    nondeterministic_count: int
    counterexamples: _containers.RepeatedCompositeFieldContainer[Counterexample]
    subject_hash: bytes
    reference_hash: bytes
    gpu_decided_count: int
    def __init__(self, subject_outcomes: _Optional[_Mapping[str, int]] = ..., reference_outcomes: _Optional[_Mapping[str, int]] = ..., outcome_mismatch_count: _Optional[int] = ..., nondeterministic_count: _Optional[int] = ..., counterexamples: _Optional[_Iterable[_Union[Counterexample, _Mapping]]] = ..., subject_hash: _Optional[bytes] = ..., reference_hash: _Optional[bytes] = ..., gpu_decided_count: _Optional[int] = ...) -> None: ...

class Counterexample(_message.Message):
    __slots__ = ("case_index", "found", "shrunk", "expected_outcome")
    CASE_INDEX_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    SHRUNK_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_OUTCOME_FIELD_NUMBER: _ClassVar[int]
    case_index: int
    found: CaseResult
    shrunk: CaseResult
    expected_outcome: str
    def __init__(self, case_index: _Optional[int] = ..., found: _Optional[_Union[CaseResult, _Mapping]] = ..., shrunk: _Optional[_Union[CaseResult, _Mapping]] = ..., expected_outcome: _Optional[str] = ...) -> None: ...

class CaseResult(_message.Message):
    __slots__ = ("inputs", "actual", "expected", "subject_outcome", "reference_outcome")
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    ACTUAL_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_OUTCOME_FIELD_NUMBER: _ClassVar[int]
    inputs: _containers.RepeatedCompositeFieldContainer[_kernel_pb2.NamedTensor]
    actual: _containers.RepeatedCompositeFieldContainer[_kernel_pb2.NamedTensor]
    expected: _containers.RepeatedCompositeFieldContainer[_kernel_pb2.NamedTensor]
    subject_outcome: str
    reference_outcome: str
    def __init__(self, inputs: _Optional[_Iterable[_Union[_kernel_pb2.NamedTensor, _Mapping]]] = ..., actual: _Optional[_Iterable[_Union[_kernel_pb2.NamedTensor, _Mapping]]] = ..., expected: _Optional[_Iterable[_Union[_kernel_pb2.NamedTensor, _Mapping]]] = ..., subject_outcome: _Optional[str] = ..., reference_outcome: _Optional[str] = ...) -> None: ...
