"""Verification: a batch of cases with expected outputs, and a report of those that differ."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from accelerd import Client, PolicyOptions
from numpy.typing import ArrayLike, NDArray

from ._daemon import GpuMeter, default_client, gpu_utilization


@dataclass(frozen=True)
class VerificationCase:
    """Inputs of a function, and the output that is expected for them."""

    #: Positional arguments, or arguments by name.
    inputs: Sequence[Any] | Mapping[str, Any]
    #: A number, or numbers as an array.
    expected_output: ArrayLike
    #: Largest difference from an expected number; None means that of the verifier.
    tolerance: float | None = None
    #: Name of the case; None means its index.
    test_id: int | str | None = None


@dataclass(frozen=True)
class VerificationResult:
    """Result of a case."""

    test_id: int | str
    passed: bool
    #: None if the function raised an exception.
    actual_output: NDArray[Any] | None
    #: Percentage of the numbers that differ by more than the tolerance.
    diff_percentage: float
    #: What differs, or the exception; empty if the case passes.
    error_message: str


@dataclass(frozen=True)
class VerificationReport:
    """Results of cases, in their order."""

    results: list[VerificationResult]
    #: `tests_executed`, `tests_passed`, `tests_failed`, `total_execution_time_ms`, `average_test_time_ms`, and
    #: `gpu_utilization` of the comparison.
    metrics: dict[str, float]

    @property
    def success(self) -> bool:
        """Whether all cases pass."""
        return not self.failures

    @property
    def failures(self) -> list[VerificationResult]:
        """The cases that fail."""
        return [result for result in self.results if not result.passed]

    def __str__(self) -> str:
        lines = [f"{len(self.results) - len(self.failures)} of {len(self.results)} cases pass"]
        lines += [f"case {result.test_id}: {result.error_message}" for result in self.failures]
        return "\n".join(lines)


class CUDAVerifier:
    """Compares outputs of cases with expected ones, all in one call of the daemon."""

    def __init__(self, default_tolerance: float = 1e-6, *, client: Client | None = None) -> None:
        """Create a verifier.

        Args:
            default_tolerance: Largest difference from an expected number, where a case has no tolerance.
            client: A client of the daemon; by default that of this process, which README.md describes.
        """
        self.default_tolerance = default_tolerance
        self._client = client or default_client()
        self._meter = GpuMeter(self._client)

    def verify(self, function: Callable[..., Any], cases: Sequence[VerificationCase]) -> VerificationReport:
        """Call a function for each case, and compare what it returns. An exception fails its case.

        Raises:
            AccelerdError: The daemon cannot compare the outputs.
        """
        start = time.perf_counter()
        outputs: list[NDArray[Any] | Exception] = [_output(function, case.inputs) for case in cases]
        return self._report(outputs, cases, start)

    def verify_outputs(self, outputs: Sequence[ArrayLike], cases: Sequence[VerificationCase]) -> VerificationReport:
        """Compare outputs that were computed elsewhere, such as by a translation.

        Raises:
            AccelerdError: The daemon cannot compare the outputs.
            ValueError: There is not one output for each case.
        """
        if len(outputs) != len(cases):
            raise ValueError(f"outputs: expected one for each of the {len(cases)} cases, got {len(outputs)}")
        return self._report([np.asarray(output) for output in outputs], cases, time.perf_counter())

    def _report(
        self, outputs: Sequence[NDArray[Any] | Exception], cases: Sequence[VerificationCase], start: float
    ) -> VerificationReport:
        before = self._meter.sample()
        actual, expected, policies = {}, {}, {}
        for at, (output, case) in enumerate(zip(outputs, cases, strict=True)):
            if isinstance(output, Exception):
                continue
            wanted = np.asarray(case.expected_output)
            common = np.result_type(output, wanted)
            actual[str(at)], expected[str(at)] = output.astype(common), wanted.astype(common)
            tolerance = self.default_tolerance if case.tolerance is None else case.tolerance
            policies[str(at)] = PolicyOptions(atol=tolerance)
        compared = self._client.compare(actual, expected, policies=policies).outputs if actual else ()
        reports = {report.name: report for report in compared}
        results = []
        for at, (output, case) in enumerate(zip(outputs, cases, strict=True)):
            test_id = at if case.test_id is None else case.test_id
            if isinstance(output, Exception):
                problem = f"{type(output).__name__}: {output}"
                results.append(VerificationResult(test_id, False, None, 100.0, problem))
                continue
            report = reports[str(at)]
            # Outputs whose shapes differ have no pairs of elements.
            percentage = 100.0 * report.failed / report.elements if report.elements else 100.0 * (not report.passed)
            problem = "" if report.passed else repr(report)
            results.append(VerificationResult(test_id, report.passed, output, percentage, problem))
        return VerificationReport(results, self._metrics(results, start, gpu_utilization(before, self._meter.sample())))

    def _metrics(self, results: list[VerificationResult], start: float, utilization: float) -> dict[str, float]:
        total = 1e3 * (time.perf_counter() - start)
        passed = sum(result.passed for result in results)
        return {
            "tests_executed": len(results),
            "tests_passed": passed,
            "tests_failed": len(results) - passed,
            "total_execution_time_ms": total,
            "average_test_time_ms": total / max(len(results), 1),
            "gpu_utilization": utilization,
        }


def _output(function: Callable[..., Any], inputs: Sequence[Any] | Mapping[str, Any]) -> NDArray[Any] | Exception:
    try:
        return np.asarray(function(**inputs) if isinstance(inputs, Mapping) else function(*inputs))
    except Exception as problem:
        return problem
