from accelerd._proto import tensor_pb2 as _tensor_pb2
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
    __slots__ = ("tolerances", "combination", "nan", "infinity", "distinguish_zero_sign", "shape")
    TOLERANCES_FIELD_NUMBER: _ClassVar[int]
    COMBINATION_FIELD_NUMBER: _ClassVar[int]
    NAN_FIELD_NUMBER: _ClassVar[int]
    INFINITY_FIELD_NUMBER: _ClassVar[int]
    DISTINGUISH_ZERO_SIGN_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    tolerances: _containers.RepeatedCompositeFieldContainer[Tolerance]
    combination: ToleranceCombination
    nan: NanPolicy
    infinity: InfinityPolicy
    distinguish_zero_sign: bool
    shape: ShapePolicy
    def __init__(self, tolerances: _Optional[_Iterable[_Union[Tolerance, _Mapping]]] = ..., combination: _Optional[_Union[ToleranceCombination, str]] = ..., nan: _Optional[_Union[NanPolicy, str]] = ..., infinity: _Optional[_Union[InfinityPolicy, str]] = ..., distinguish_zero_sign: bool = ..., shape: _Optional[_Union[ShapePolicy, str]] = ...) -> None: ...

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
    __slots__ = ("name", "verdict", "actual_dtype", "expected_dtype", "actual_shape", "expected_shape", "tolerances", "differences")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    ACTUAL_DTYPE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_DTYPE_FIELD_NUMBER: _ClassVar[int]
    ACTUAL_SHAPE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_SHAPE_FIELD_NUMBER: _ClassVar[int]
    TOLERANCES_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    name: str
    verdict: OutputVerdict
    actual_dtype: _tensor_pb2.Dtype
    expected_dtype: _tensor_pb2.Dtype
    actual_shape: _containers.RepeatedScalarFieldContainer[int]
    expected_shape: _containers.RepeatedScalarFieldContainer[int]
    tolerances: _containers.RepeatedCompositeFieldContainer[Tolerance]
    differences: Differences
    def __init__(self, name: _Optional[str] = ..., verdict: _Optional[_Union[OutputVerdict, str]] = ..., actual_dtype: _Optional[_Union[_tensor_pb2.Dtype, str]] = ..., expected_dtype: _Optional[_Union[_tensor_pb2.Dtype, str]] = ..., actual_shape: _Optional[_Iterable[int]] = ..., expected_shape: _Optional[_Iterable[int]] = ..., tolerances: _Optional[_Iterable[_Union[Tolerance, _Mapping]]] = ..., differences: _Optional[_Union[Differences, _Mapping]] = ...) -> None: ...

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
    __slots__ = ("given_outputs", "expected_outputs", "policy", "output_policies", "max_mismatches", "case_verdicts")
    class OutputPoliciesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: ComparisonPolicy
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[ComparisonPolicy, _Mapping]] = ...) -> None: ...
    GIVEN_OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_POLICIES_FIELD_NUMBER: _ClassVar[int]
    MAX_MISMATCHES_FIELD_NUMBER: _ClassVar[int]
    CASE_VERDICTS_FIELD_NUMBER: _ClassVar[int]
    given_outputs: GivenOutputs
    expected_outputs: GivenOutputs
    policy: ComparisonPolicy
    output_policies: _containers.MessageMap[str, ComparisonPolicy]
    max_mismatches: int
    case_verdicts: bool
    def __init__(self, given_outputs: _Optional[_Union[GivenOutputs, _Mapping]] = ..., expected_outputs: _Optional[_Union[GivenOutputs, _Mapping]] = ..., policy: _Optional[_Union[ComparisonPolicy, _Mapping]] = ..., output_policies: _Optional[_Mapping[str, ComparisonPolicy]] = ..., max_mismatches: _Optional[int] = ..., case_verdicts: bool = ...) -> None: ...

class GivenOutputs(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class VerifyCases(_message.Message):
    __slots__ = ("actual", "expected")
    ACTUAL_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    actual: _containers.RepeatedCompositeFieldContainer[_tensor_pb2.TensorInput]
    expected: _containers.RepeatedCompositeFieldContainer[_tensor_pb2.TensorInput]
    def __init__(self, actual: _Optional[_Iterable[_Union[_tensor_pb2.TensorInput, _Mapping]]] = ..., expected: _Optional[_Iterable[_Union[_tensor_pb2.TensorInput, _Mapping]]] = ...) -> None: ...

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
    __slots__ = ("passed", "case_count", "failed_count", "outputs")
    PASSED_FIELD_NUMBER: _ClassVar[int]
    CASE_COUNT_FIELD_NUMBER: _ClassVar[int]
    FAILED_COUNT_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    passed: bool
    case_count: int
    failed_count: int
    outputs: _containers.RepeatedCompositeFieldContainer[OutputComparison]
    def __init__(self, passed: bool = ..., case_count: _Optional[int] = ..., failed_count: _Optional[int] = ..., outputs: _Optional[_Iterable[_Union[OutputComparison, _Mapping]]] = ...) -> None: ...
