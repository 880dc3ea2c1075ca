"""Reports of verifications: what passed, and the cases that failed, with their inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _html
from ._proto import kernel_pb2, tensor_pb2
from ._proto import verify_pb2 as pb
from ._tensor import NUMPY_DTYPES, Value
from ._verify import OutputReport, output_table, received_output
from ._visible import visible

_OK = "ok"
#: Elements of a list that the text of a report has: all of a list that is not longer, else the first and last ones.
_SHOWN, _SHOWN_FIRST, _SHOWN_LAST = 16, 8, 2


@dataclass(frozen=True)
class CaseValue:
    """An input or output of a case."""

    #: A Python number, or a list of numbers.
    value: Any
    #: The bits of the number, or those of each element; they tell NaN and zeros apart.
    bits: Any
    #: The element type, such as "f64".
    dtype: str

    def __repr__(self) -> str:
        """Return an expression of Python that has this value."""
        return _expression(self.value)

    @property
    def exact(self) -> str:
        """The value with its bits; of a floating-point number also in hexadecimal digits, as of `float.hex`."""
        return self._exact(repr(self))

    @property
    def shown(self) -> str:
        """The value as texts have it: a long list has its first and last elements and their number."""
        return _shown(self.value)

    @property
    def shown_exact(self) -> str:
        """As `exact`, but a long list is as in `shown`."""
        return self._exact(self.shown)

    def _exact(self, text: str) -> str:
        if not isinstance(self.value, float):
            return text
        hexadecimal = f"{self.value.hex()}, " if math.isfinite(self.value) else ""
        return f"{text} ({hexadecimal}bits {self.bits:#0{_digits(self.dtype)}x})"


def _digits(dtype: str) -> int:
    return 2 + int("".join(filter(str.isdigit, dtype)) or 8) // 4


def _expression(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_expression, value))}]"
    return repr(value) if not isinstance(value, float) or math.isfinite(value) else f"float('{value}')"


def _shown(value: Any) -> str:
    if not isinstance(value, list):
        return _expression(value)
    if len(value) <= _SHOWN:
        return f"[{', '.join(map(_shown, value))}]"
    ends = [*map(_shown, value[:_SHOWN_FIRST]), "...", *map(_shown, value[-_SHOWN_LAST:])]
    return f"[{', '.join(ends)}] ({len(value)} elements)"


@dataclass(frozen=True)
class CaseResult:
    """What both sides computed for a case."""

    #: Inputs by name.
    inputs: Mapping[str, CaseValue]
    #: What the subject computed, by name; empty if it has no result.
    actual: Mapping[str, CaseValue]
    #: What was expected, by name; empty if the reference has no result.
    expected: Mapping[str, CaseValue]
    #: How each side ended, such as "ok" or "division_by_zero".
    subject_outcome: str
    reference_outcome: str

    @property
    def arguments(self) -> dict[str, Any]:
        """The inputs as Python numbers and lists, as to call the function with them: `f(**case.arguments)`."""
        return {name: one.value for name, one in self.inputs.items()}


@dataclass(frozen=True)
class Counterexample:
    """A case that fails."""

    #: Its number among all cases.
    index: int
    #: As it was found.
    found: CaseResult
    #: The simplest inputs that were found with which the case fails; None if none are simpler.
    shrunk: CaseResult | None
    #: How the subject was expected to end; empty if the outcome policy decided.
    expected_outcome: str = ""

    @property
    def simplest(self) -> CaseResult:
        """The case after it was shrunk, or as it was found."""
        return self.found if self.shrunk is None else self.shrunk

    def lines(self, name: str) -> list[str]:
        """Return the lines of a text about it."""
        case = self.simplest
        lines = [f"Falsifying case: {_call(name, case)}"]
        lines.append(f"    subject:   {_side(case.actual, case.subject_outcome)}")
        if self.expected_outcome not in ("", _OK):
            lines.append(f"    expected:  no result: {self.expected_outcome}")
        lines.append(f"    reference: {_side(case.expected, case.reference_outcome)}")
        if self.shrunk is None:
            lines.append(f"    found as case {self.index}")
        else:
            lines.append(f"    found as case {self.index}: {_call(name, self.found)}")
        return lines


def _call(name: str, case: CaseResult) -> str:
    return f"{name}({', '.join(f'{name}={value.shown}' for name, value in case.inputs.items())})"


def _side(values: Mapping[str, CaseValue], outcome: str) -> str:
    if outcome not in ("", _OK):
        return f"no result: {outcome}"
    if list(values) == ["result"]:
        return values["result"].shown_exact
    return ", ".join(f"{name}={value.shown_exact}" for name, value in values.items())


@dataclass(frozen=True, repr=False)
class VerifyReport:
    """The result of a verification. It is true if all cases pass, and its text says which do not."""

    #: Name of the function in texts.
    name: str
    passed: bool
    #: Numbers of cases: all, and those that fail.
    cases: int
    failed: int
    #: Comparisons of the outputs. Their indices begin with the case.
    outputs: tuple[OutputReport, ...]
    #: Numbers of cases by how each side ended; empty for outputs that are given.
    subject_outcomes: Mapping[str, int] = field(hash=False)
    reference_outcomes: Mapping[str, int] = field(hash=False)
    #: Cases that fail because one side has a result and the other has none, or because of the outcome policy.
    outcome_mismatches: int
    #: Cases for which the subject had different results when it ran again, if that was asked for.
    nondeterministic: int
    #: Cases that a GPU decided; all others ran on the CPU. Reports that differ only in this are equal.
    gpu_decided_count: int = field(compare=False)
    #: The first cases that fail.
    counterexamples: tuple[Counterexample, ...]
    #: SHA-256 of each side's module or program, in hexadecimal digits; empty for outputs that are given.
    subject_hash: str
    reference_hash: str
    #: Seed of the cases; None if they were given.
    seed: int | None
    #: For each case whether it fails, if that was asked for.
    failed_cases: NDArray[np.bool_] | None = field(hash=False, compare=False)

    def __bool__(self) -> bool:
        return self.passed

    def __getitem__(self, name: str) -> OutputReport:
        """Return the comparison of an output."""
        found = next((output for output in self.outputs if output.name == name), None)
        if found is None:
            raise KeyError(name)
        return found

    def __repr__(self) -> str:
        return "\n".join(map(visible, self._lines()))

    def _repr_html_(self) -> str:
        heading = _html.heading(f"{'✓' if self.passed else '✗'} {visible(self._lines()[0])}")
        shown = "" if self.passed else _html.text("\n".join(map(visible, self._lines()[2:])))
        return heading + output_table(self.outputs) + shown

    def check(self) -> None:
        """Raise an AssertionError with the report unless all cases pass."""
        __tracebackhide__ = True  # pytest shows the line of the test.
        if not self.passed:
            raise AssertionError(repr(self))

    def _lines(self) -> list[str]:
        seed = "" if self.seed is None else f" (seed={self.seed})"
        if self.passed:
            lines = [f"{self.name}: all {self.cases} cases pass{seed}"]
        else:
            lines = [f"{self.name}: {self.failed} of {self.cases} cases fail{seed}", ""]
        for counterexample, others in _distinct(self.counterexamples):
            lines += counterexample.lines(self.name)
            if others:
                lines[-1] += f", and {others} more cases that were shrunk to the same"
            lines.append("")
        for output in self.outputs:
            lines += _differences(output)
        lines += self._outcomes()
        return lines

    def _outcomes(self) -> list[str]:
        lines = []
        for side, outcomes in (("subject", self.subject_outcomes), ("reference", self.reference_outcomes)):
            if set(outcomes) - {_OK}:
                counts = ", ".join(f"{name} {count}" for name, count in sorted(outcomes.items()))
                lines.append(f"Outcomes of the {side}: {counts}")
        if self.outcome_mismatches:
            lines.append(f"Cases that fail by their outcomes: {self.outcome_mismatches}")
        if self.nondeterministic:
            lines.append(f"Cases with different results when they ran again: {self.nondeterministic}")
        return lines


def _distinct(counterexamples: Sequence[Counterexample]) -> list[tuple[Counterexample, int]]:
    """Return the counterexamples with different inputs, and the number of others with the same."""
    counts: dict[str, list[Counterexample]] = {}
    for one in counterexamples:
        counts.setdefault(repr(one.simplest.inputs), []).append(one)
    return [(same[0], len(same) - 1) for same in counts.values()]


def _differences(output: OutputReport) -> list[str]:
    if output.verdict in ("shape_mismatch", "dtype_mismatch"):
        return [f"{output.name}: {output!r}"]
    small = [] if output.small_output is None else [f"    {output.small_output}"]
    if output.passed:
        return [f"{output.name}:", *small] if small else []
    lines = [f"{output.name}: {output.failed} of {output.elements} elements differ", *small]
    for kind, largest in (
        ("absolute difference", output.largest_absolute),
        ("relative difference", output.largest_relative),
        ("distance in ULP", output.largest_ulps),
    ):
        if largest is not None:
            lines.append(f"    greatest {kind}: {largest.value}{_place(largest.index)}")
    if output.nan_mismatch or output.infinity_mismatch:
        lines.append(f"    mismatches with NaN: {output.nan_mismatch}, with infinity: {output.infinity_mismatch}")
    if output.largest_ulps is not None:
        atol, rtol, max_ulps = output.sufficient_atol, output.sufficient_rtol, output.largest_ulps.value
        lines.append(f"    minimal passing tolerance: atol={atol}, or rtol={rtol}, or max_ulps={max_ulps}")
    return lines


def _place(index: Sequence[int]) -> str:
    """Return the text about the place of an element: the case, and the indices in it."""
    within = f", element {', '.join(map(str, index[1:]))}" if len(index) > 1 else ""
    return f" of case {index[0]}{within}" if index else ""


def received_report(
    summary: pb.VerifySummary, name: str, seed: int | None, failed_cases: NDArray[np.bool_] | None
) -> VerifyReport:
    """Return the report of a summary, which is validated."""
    functions = summary.functions
    return VerifyReport(
        name=name,
        passed=summary.passed,
        cases=summary.case_count,
        failed=summary.failed_count,
        outputs=tuple(received_output(one, False) for one in summary.outputs),
        subject_outcomes=dict(functions.subject_outcomes),
        reference_outcomes=dict(functions.reference_outcomes),
        outcome_mismatches=functions.outcome_mismatch_count,
        nondeterministic=functions.nondeterministic_count,
        gpu_decided_count=functions.gpu_decided_count,
        counterexamples=tuple(_counterexample(one) for one in functions.counterexamples),
        subject_hash=functions.subject_hash.hex(),
        reference_hash=functions.reference_hash.hex(),
        seed=seed,
        failed_cases=failed_cases,
    )


def _counterexample(one: pb.Counterexample) -> Counterexample:
    shrunk = _case(one.shrunk) if one.HasField("shrunk") else None
    return Counterexample(one.case_index, _case(one.found), shrunk, one.expected_outcome)


def _case(case: pb.CaseResult) -> CaseResult:
    return CaseResult(
        inputs={one.name: _value(one) for one in case.inputs},
        actual={one.name: _value(one) for one in case.actual},
        expected={one.name: _value(one) for one in case.expected},
        subject_outcome=case.subject_outcome,
        reference_outcome=case.reference_outcome,
    )


def _value(tensor: kernel_pb2.NamedTensor) -> CaseValue:
    received = Value.received(tensor.value)
    bits = np.frombuffer(tensor.value.data, f"<u{NUMPY_DTYPES[received.number].itemsize}").reshape(received.array.shape)
    name = tensor_pb2.Dtype.Name(received.number).removeprefix("DTYPE_").lower()
    return CaseValue(received.numpy().tolist(), bits.tolist(), name)
