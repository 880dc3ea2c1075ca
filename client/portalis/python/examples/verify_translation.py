"""Compares a translated function with the outputs of the original, and reports the cases that differ."""

import math

from portalis_cuda import CUDAVerifier, VerificationCase


def original(values: list[float]) -> list[float]:
    """Return the values divided by their Euclidean norm."""
    norm = math.sqrt(sum(value * value for value in values))
    return [value / norm if norm else 0.0 for value in values]


def translated(values: list[float]) -> list[float]:
    """Return the same, except that the translation forgot the zero vector and squares badly for large values."""
    norm = math.sqrt(sum(min(value * value, 1e6) for value in values))
    return [value / norm for value in values]


inputs = [[3.0, 4.0], [1.0, 2.0, 2.0], [0.0, 0.0], [2000.0, 0.0]]
cases = [
    VerificationCase([values], expected_output=original(values), tolerance=1e-9, test_id=str(values))
    for values in inputs
]

report = CUDAVerifier().verify(translated, cases)
print(report)
print(f"{report.metrics['tests_passed']:.0f} of {report.metrics['tests_executed']:.0f} passed")
