"""Tests of verifications."""

from __future__ import annotations

import accelerd
import numpy as np
import pytest

from portalis_cuda import CUDAVerifier, VerificationCase


def test_a_report_says_which_cases_differ(client: accelerd.Client) -> None:
    def halves(x: float, count: int = 1) -> list[float]:
        if x < 0:
            raise ValueError("negative")
        return [x / 2] * count

    cases = [
        VerificationCase([1.0], [0.5]),
        VerificationCase({"x": 3.0, "count": 4}, [1.5, 1.5, 1.6, 1.5], test_id="three"),
        VerificationCase([-1.0], [0.5]),
        VerificationCase([4.0], [2.01], tolerance=0.1),
        VerificationCase([4.0], [2.0, 2.0]),
        VerificationCase([4], [2]),
    ]
    report = CUDAVerifier(client=client).verify(halves, cases)
    assert not report.success
    assert [result.passed for result in report.results] == [True, False, False, True, False, True]
    assert [result.test_id for result in report.failures] == ["three", 2, 4]
    three, negative, longer = report.failures
    assert three.diff_percentage == 25.0 and "(2,): 1.5 != 1.6" in three.error_message
    assert (negative.actual_output, negative.error_message) == (None, "ValueError: negative")
    assert longer.diff_percentage == 100.0 and "(1,) != (2,)" in longer.error_message
    assert str(report).startswith("3 of 6 cases pass\ncase three: ")
    assert (report.metrics["tests_executed"], report.metrics["tests_failed"]) == (6, 3)
    assert report.metrics["total_execution_time_ms"] == pytest.approx(6 * report.metrics["average_test_time_ms"])


def test_outputs_are_compared_within_the_tolerance(client: accelerd.Client) -> None:
    verifier = CUDAVerifier(default_tolerance=1e-3, client=client)
    cases = [VerificationCase((), np.full((2, 3), float(at))) for at in range(50)]
    outputs = [np.full((2, 3), at + 0.9e-3) for at in range(50)]
    assert verifier.verify_outputs(outputs, cases).success
    outputs[7][1, 1] += 1e-3
    report = verifier.verify_outputs(outputs, cases)
    assert [(result.test_id, round(result.diff_percentage)) for result in report.failures] == [(7, 17)]
    assert "(1, 1): " in str(report)
    with pytest.raises(ValueError, match="expected one for each of the 50 cases, got 49"):
        verifier.verify_outputs(outputs[:-1], cases)
    assert verifier.verify_outputs([], []).success
