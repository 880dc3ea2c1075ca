"""Comparisons of outputs with expected ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _html
from ._call import Operation, Settings
from ._choices import MismatchKind, OutputVerdict
from ._errors import malformed, too_large
from ._lazy import LazyTensor
from ._message import by_name, choice, message
from ._methods import VerifyService
from ._proto import tensor_pb2
from ._proto import verify_pb2 as pb
from ._resident import ResidentTensor, tensor_input
from ._small_output import SmallOutput, received_small_outputs
from ._tensor import NUMPY_DTYPES, Value, dtype_name
from ._visible import visible
from ._wire import Chunk, field, size

#: The name of an output that is given without one.
SINGLE = "output"

#: What is compared: an array, a lazy or resident tensor, or a mapping of names to them.
Compared: TypeAlias = "ArrayLike | LazyTensor | ResidentTensor | Mapping[str, ArrayLike | LazyTensor | ResidentTensor]"
#: A decoded argument: elements, or a handle.
Input: TypeAlias = "Value | ResidentTensor"


class PolicyOptions(TypedDict, total=False):
    """Which elements count as equal. Without a tolerance, those of torch.testing for the element type apply."""

    #: Absolute tolerance of |actual - expected| <= atol + rtol * |expected|. 0 if only rtol is set.
    atol: float | None
    #: Relative tolerance. 0 if only atol is set.
    rtol: float | None
    #: Largest distance in units in the last place.
    max_ulps: int | None
    #: Largest absolute error relative to the largest finite expected number.
    max_norm: float | None
    #: Accept equal numbers only.
    exact: bool
    #: Whether all tolerances must accept a pair, or any.
    require: Literal["any", "all"]
    #: Whether two NaN are equal: never, always, or if their bits are.
    equal_nan: Literal["bits"] | bool
    #: Whether infinities fail, also equal ones.
    forbid_infinity: bool
    #: Whether -0 and +0 differ.
    signed_zero: bool
    #: Whether shapes may differ if the numbers of elements are equal.
    ignore_shape: bool
    #: Whether the order of elements does not matter; in a verification, that of the elements of a case.
    any_order: bool


def policy_message(options: PolicyOptions) -> pb.ComparisonPolicy:
    """Return the message of a policy."""
    unknown = set(options) - set(PolicyOptions.__annotations__)
    if unknown:
        raise TypeError(f"policy: expected options of {', '.join(PolicyOptions.__annotations__)}, got {min(unknown)!r}")
    atol, rtol = options.get("atol"), options.get("rtol")
    tolerances = []
    if options.get("exact"):
        tolerances.append(pb.Tolerance(exact=pb.ExactTolerance()))
    if atol is not None or rtol is not None:
        close = message(pb.CloseTolerance, atol=0.0 if atol is None else atol, rtol=0.0 if rtol is None else rtol)
        tolerances.append(pb.Tolerance(close=close))
    if (max_ulps := options.get("max_ulps")) is not None:
        ulp = message(pb.UlpTolerance, {"max_distance": "max_ulps"}, max_distance=max_ulps)
        tolerances.append(pb.Tolerance(ulp=ulp))
    if (max_norm := options.get("max_norm")) is not None:
        norm = message(pb.MaxNormTolerance, {"rtol": "max_norm"}, rtol=max_norm)
        tolerances.append(pb.Tolerance(max_norm=norm))
    return pb.ComparisonPolicy(
        tolerances=tolerances,
        combination=choice("require", options.get("require", "any"), _COMBINATIONS),
        nan=choice("equal_nan", options.get("equal_nan", False), _NAN),
        infinity=pb.INFINITY_POLICY_FORBIDDEN if options.get("forbid_infinity") else pb.INFINITY_POLICY_EQUAL,
        distinguish_zero_sign=bool(options.get("signed_zero")),
        shape=pb.SHAPE_POLICY_SAME_ELEMENT_COUNT if options.get("ignore_shape") else pb.SHAPE_POLICY_EQUAL,
        order=pb.ELEMENT_ORDER_ANY if options.get("any_order") else pb.ELEMENT_ORDER_FIXED,
    )


def policy_messages(policies: Mapping[str, PolicyOptions]) -> dict[str, pb.ComparisonPolicy]:
    """Return the messages of policies by the names of outputs."""
    found: dict[str, pb.ComparisonPolicy] = {}
    for name, options in by_name("policies", policies, "policies").items():
        known: Any = by_name(f"policies[{name!r}]", options, "options")
        found[name] = policy_message(known)
    return found


_COMBINATIONS: dict[Any, Any] = {"any": pb.TOLERANCE_COMBINATION_ANY, "all": pb.TOLERANCE_COMBINATION_ALL}
_NAN: dict[Any, Any] = {False: pb.NAN_POLICY_FORBIDDEN, True: pb.NAN_POLICY_EQUAL, "bits": pb.NAN_POLICY_SAME_BITS}


@dataclass(frozen=True)
class Largest:
    """The largest error, and the first place where it is."""

    value: float
    index: tuple[int, ...]


@dataclass(frozen=True)
class ElementMismatch:
    """A pair of elements that fails."""

    index: tuple[int, ...]
    kind: MismatchKind
    #: The elements; an integer of 64 bits is rounded, but not its bits.
    actual: float
    expected: float
    #: The bits of the elements.
    actual_bits: int
    expected_bits: int
    #: Units in the last place between them, if both are finite.
    ulps: int | None


@dataclass(frozen=True, repr=False)
class OutputReport:
    """How an output compares with the expected one. Errors are those of all finite numbers that differ."""

    name: str
    verdict: OutputVerdict
    actual_shape: tuple[int, ...]
    expected_shape: tuple[int, ...]
    #: Names of the element types, such as "f32".
    actual_dtype: str
    expected_dtype: str
    #: The tolerances that were applied.
    atol: float | None
    rtol: float | None
    max_ulps: int | None
    max_norm: float | None
    #: Numbers of pairs: all, those that fail, and by class. All are 0 if the elements were not compared.
    elements: int
    failed: int
    equal: int
    zero_sign: int
    within_tolerance: int
    nan_equal: int
    nan_mismatch: int
    infinity_mismatch: int
    #: The largest errors; None if no finite numbers differ.
    largest_absolute: Largest | None
    largest_relative: Largest | None
    largest_ulps: Largest | None
    #: Numbers of pairs by distance in units in the last place: equal ones, 1, 2 to 3, 4 to 7, and so on.
    ulp_histogram: tuple[int, ...]
    #: The smallest tolerances with which all finite numbers pass: `atol` with the `rtol` that was applied, and so on.
    sufficient_atol: float
    sufficient_rtol: float
    sufficient_max_norm: float
    #: The first pairs that fail.
    mismatches: tuple[ElementMismatch, ...]
    #: For each row along the first dimension whether an element fails, if that was asked for.
    failed_rows: NDArray[np.bool_] | None
    #: Set if most expected numbers are smaller than `atol`, and errors that it accepts are large relative to them.
    small_output: SmallOutput | None = None

    @property
    def passed(self) -> bool:
        """Whether all elements pass."""
        return self.verdict == "passed"

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        if self.verdict == "shape_mismatch":
            return [f"The values for attribute 'shape' do not match: {self.actual_shape} != {self.expected_shape}."]
        if self.verdict == "dtype_mismatch":
            return [f"The values for attribute 'dtype' do not match: {self.actual_dtype} != {self.expected_dtype}."]
        what = "Tensor-likes" if self.expected_shape else "Scalars"
        is_exact = not self.atol and not self.rtol and self.max_ulps is None and self.max_norm is None
        how = "equal" if is_exact else "close"
        lines = [f"{what} are {how}{'.' if self.passed else '!'}" if self.passed else f"{what} are not {how}!", ""]
        percent = 100 * self.failed / max(self.elements, 1)
        lines.append(f"Mismatched elements: {self.failed} / {self.elements} ({percent:.1f}%)")
        for kind, largest, allowed in (
            ("absolute difference", self.largest_absolute, self.atol),
            ("relative difference", self.largest_relative, self.rtol),
            ("distance in ULP", self.largest_ulps, self.max_ulps),
        ):
            if largest is not None:
                bound = "" if allowed is None else f" (up to {allowed} allowed)"
                lines.append(f"Greatest {kind}: {largest.value} at index {largest.index}{bound}")
        if self.nan_mismatch or self.infinity_mismatch:
            lines.append(f"Mismatches with NaN: {self.nan_mismatch}, with infinity: {self.infinity_mismatch}")
        if self.failed and self.largest_absolute is not None:
            atol, rtol = self.sufficient_atol, self.sufficient_rtol
            # With the default atol, small numbers are judged relative to the largest one, whatever rtol is.
            by_rtol = "" if self.small_output is not None else f" or with rtol={rtol}"
            lines.append(f"Finite elements would pass with atol={atol}{by_rtol}")
        if self.small_output is not None:
            lines.append(f"{self.small_output}.")
        lines += [
            f"  {one.index}: {one.actual} != {one.expected} ({one.actual_bits:#x}, {one.expected_bits:#x})"
            for one in self.mismatches
        ]
        return lines


def output_table(outputs: Sequence[OutputReport]) -> str:
    """Return a table of HTML with a row for each output."""
    names = ("output", "verdict", "failed", "elements", "largest absolute", "relative", "ULP")
    rows = (
        [
            *(one.name, one.verdict, one.failed, one.elements),
            *(
                None if largest is None else largest.value
                for largest in (one.largest_absolute, one.largest_relative, one.largest_ulps)
            ),
        ]
        for one in outputs
    )
    return _html.table(f"{len(outputs):,} outputs", names, rows, len(outputs))


@dataclass(frozen=True, repr=False)
class ComparisonReport:
    """Comparisons of outputs. It is true if all pass."""

    passed: bool
    outputs: tuple[OutputReport, ...]

    def __bool__(self) -> bool:
        return self.passed

    def __getitem__(self, name: str) -> OutputReport:
        """Return the report of an output."""
        found = next((output for output in self.outputs if output.name == name), None)
        if found is None:
            raise KeyError(name)
        return found

    def _repr_html_(self) -> str:
        failed = [output for output in self.outputs if not output.passed]
        verdict = "✓ all" if self.passed else f"✗ {len(failed):,} of"
        heading = _html.heading(f"{verdict} {len(self.outputs):,} outputs {'pass' if self.passed else 'fail'}")
        # The text of the first output that fails; the table has the others.
        shown = "".join(_html.text(repr(output)) for output in failed[:1])
        return heading + output_table(failed or self.outputs) + shown

    def __repr__(self) -> str:
        shown = [output for output in self.outputs if not output.passed] or list(self.outputs)
        if len(self.outputs) == 1:
            return repr(shown[0])
        return "\n\n".join(f"{visible(output.name)}: {output!r}" for output in shown)

    def check(self) -> None:
        """Raise an AssertionError with the report unless all outputs pass."""
        if not self.passed:
            raise AssertionError(repr(self))


def inputs(argument: str, given: Any, convert: Callable[[str, Any], Input]) -> dict[str, Input]:
    """Return the tensors of an argument, which is one tensor or a mapping of them by name."""
    if isinstance(given, Mapping):
        named = by_name(argument, {str(name): value for name, value in given.items()}, "outputs")
        return {name: convert(name, value) for name, value in named.items()}
    return {SINGLE: convert(SINGLE, given)}


def compare(
    actual: Mapping[str, Input],
    expected: Mapping[str, Input],
    policy: PolicyOptions,
    policies: Mapping[str, PolicyOptions],
    max_mismatches: int,
    row_verdicts: bool,
    settings: Settings,
) -> Operation[ComparisonReport]:
    """Return the call that compares tensors."""
    request = message(
        pb.CompareOutputsRequest,
        policy=policy_message(policy),
        output_policies=policy_messages(policies),
        max_mismatches=max_mismatches,
        row_verdicts=row_verdicts,
    )
    chunks: list[Chunk] = [request.SerializeToString()]
    for number, tensors in (
        (pb.CompareOutputsRequest.ACTUAL_FIELD_NUMBER, actual),
        (pb.CompareOutputsRequest.EXPECTED_FIELD_NUMBER, expected),
    ):
        for name, value in tensors.items():
            chunks += field(number, tensor_input(name, value))
    if size(chunks) > settings.max_message_bytes:
        what, hint = f"a comparison of {', '.join(actual)}", "; upload() sends a tensor in chunks"
        raise too_large(what, size(chunks), settings.max_message_bytes, hint)
    return Operation(VerifyService.COMPARE_OUTPUTS, b"".join(chunks), lambda response: _report(response, row_verdicts))


def _report(response: pb.CompareOutputsResponse, row_verdicts: bool) -> ComparisonReport:
    return ComparisonReport(response.passed, tuple(received_output(one, row_verdicts) for one in response.outputs))


def received_output(output: pb.OutputComparison, row_verdicts: bool) -> OutputReport:
    """Return the report of a message, which is validated."""
    if output.actual_dtype not in NUMPY_DTYPES or output.expected_dtype not in NUMPY_DTYPES:
        raise malformed(f"dtypes {output.actual_dtype} and {output.expected_dtype}")
    found, shape = output.differences, tuple(output.expected_shape)
    rules = {one.WhichOneof("rule"): one for one in output.tolerances}
    is_compared = output.HasField("differences")

    def largest(name: str) -> Largest | None:
        most = getattr(found, name)
        return Largest(most.value, _place(most.index, shape)) if found.HasField(name) else None

    close, ulp, norm = rules.get("close"), rules.get("ulp"), rules.get("max_norm")
    return OutputReport(
        name=output.name,
        verdict=_name(pb.OutputVerdict, output.verdict, "OUTPUT_VERDICT_"),
        actual_shape=tuple(output.actual_shape),
        expected_shape=shape,
        actual_dtype=_dtype(output.actual_dtype),
        expected_dtype=_dtype(output.expected_dtype),
        atol=None if close is None else close.close.atol,
        rtol=None if close is None else close.close.rtol,
        max_ulps=None if ulp is None else ulp.ulp.max_distance,
        max_norm=None if norm is None else norm.max_norm.rtol,
        elements=found.element_count,
        failed=found.failed_count,
        equal=found.counts.equal_count,
        zero_sign=found.counts.zero_sign_count,
        within_tolerance=found.counts.within_tolerance_count,
        nan_equal=found.counts.nan_equal_count,
        nan_mismatch=found.counts.nan_mismatch_count,
        infinity_mismatch=found.counts.infinity_mismatch_count,
        largest_absolute=largest("max_absolute"),
        largest_relative=largest("max_relative"),
        largest_ulps=largest("max_ulps"),
        ulp_histogram=tuple(found.ulp_histogram),
        sufficient_atol=found.sufficient.atol,
        sufficient_rtol=found.sufficient.rtol,
        sufficient_max_norm=found.sufficient.max_norm_rtol,
        mismatches=tuple(_mismatch(one, shape) for one in found.mismatches),
        failed_rows=_rows(found.failed_rows, output) if row_verdicts and is_compared else None,
        small_output=received_small_outputs([output.small_output])[0] if output.HasField("small_output") else None,
    )


def _mismatch(one: pb.Mismatch, shape: tuple[int, ...]) -> ElementMismatch:
    return ElementMismatch(
        index=_place(one.index, shape),
        kind=_name(pb.MismatchKind, one.kind, "MISMATCH_KIND_"),
        actual=one.actual,
        expected=one.expected,
        actual_bits=one.actual_bits,
        expected_bits=one.expected_bits,
        ulps=one.errors.ulps if one.HasField("errors") else None,
    )


def _name(enum: Any, number: int, prefix: str) -> Any:
    name: str = enum.Name(number) if number in enum.values() else f"{prefix}UNKNOWN"
    return name.removeprefix(prefix).lower()


def _dtype(number: tensor_pb2.Dtype) -> str:
    return "bf16" if number == tensor_pb2.DTYPE_BF16 else dtype_name(NUMPY_DTYPES[number])


def _place(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    place = []
    for extent in reversed(shape):
        index, at = divmod(index, max(extent, 1))
        place.append(at)
    return tuple(reversed(place))


def _rows(bits: bytes, output: pb.OutputComparison) -> NDArray[np.bool_]:
    return bits_of_rows(bits, output.actual_shape[0] if output.actual_shape else 1)


def bits_of_rows(bits: bytes, rows: int) -> NDArray[np.bool_]:
    """Return the bit of each row."""
    if len(bits) != -(-rows // 8):
        raise malformed(f"verdicts of {8 * len(bits)} rows, expected {rows}")
    return np.unpackbits(np.frombuffer(bits, np.uint8), count=rows, bitorder="little").astype(np.bool_)
