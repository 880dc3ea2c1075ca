"""Errors that programmers make: generated cases find each in a function in Python, and shrinking leads to the simplest.

No case is simpler than the ones below: fewer of their values differ from 0, and these are the simplest that fail.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from accelerd import Client
from accelerd.testing import floats, integers

LOWEST, HIGHEST = -(2**31), 2**31 - 1


def total(values: list[float]) -> float:
    result = 0.0
    for i in range(len(values)):
        result += values[i]
    return result


def total_without_the_last(values: list[float]) -> float:
    result = 0.0
    for i in range(len(values) - 1):
        result += values[i]
    return result


def ones_of_byte(n: int) -> int:
    ones = 0
    for bit in range(8):
        ones += n >> bit & 1
    return ones


def ones_of_seven_bits(n: int) -> int:
    ones = 0
    for bit in range(7):
        ones += n >> bit & 1
    return ones


def is_of_age(age: int) -> bool:
    return age >= 18


def is_above_age(age: int) -> bool:
    return age > 18


def price(amount: float) -> float:
    return 0.9 * amount if amount >= 250.0 else amount


def price_above(amount: float) -> float:
    return 0.9 * amount if amount > 250.0 else amount


def rounded_down(x: float) -> int:
    return math.floor(x)


def truncated(x: float) -> int:
    return int(x)


def rounded_to_even(x: float) -> int:
    return round(x)


def rounded_half_up(x: float) -> int:
    floor = math.floor(x)
    return floor + 1 if x - floor >= 0.5 else floor


def quotient(a: int, b: int) -> int:
    return a // b


def truncated_quotient(a: int, b: int) -> int:
    floor = a // b
    return floor + 1 if floor < 0 and floor * b != a else floor


def remainder(a: int, b: int) -> int:
    return a % b


def remainder_with_the_sign_of_a(a: int, b: int) -> int:
    rest = a % b
    return rest - b if rest != 0 and (a < 0) != (b < 0) else rest


def positive_part(x: float) -> float:
    return x if x > 0.0 or math.isnan(x) else 0.0


def positive_part_without_nan(x: float) -> float:
    return x if x > 0.0 else 0.0


def larger(x: float, y: float) -> float:
    if math.isnan(x):
        return y
    return x if x > y or math.isnan(y) else y


def larger_without_nan(x: float, y: float) -> float:
    return x if x > y else y


def saturating_sum(a: int, b: int) -> int:
    return max(LOWEST, min(a + b, HIGHEST))


def wrapping_sum(a: int, b: int) -> int:
    return (a + b - LOWEST & 0xFFFFFFFF) + LOWEST


def saturating_negative(n: int) -> int:
    return HIGHEST if n == LOWEST else -n


def wrapping_negative(n: int) -> int:
    return n if n == LOWEST else -n


INT32 = integers(LOWEST, HIGHEST)
ANY = floats(allow_nan=True, allow_infinity=True)

#: Function with the error, function without it, domains of inputs, and the simplest case.
ERRORS: list[tuple[Callable[..., Any], Callable[..., Any], dict[str, Any], dict[str, Any]]] = [
    # A loop or a comparison is off by one.
    (total_without_the_last, total, {}, {"values": [0.0] * 7 + [1.0]}),
    # All bits of -1 are set, and of the numbers with a smaller magnitude none is.
    (ones_of_seven_bits, ones_of_byte, {}, {"n": -1}),
    (is_above_age, is_of_age, {}, {"age": 18}),
    (price_above, price, {}, {"amount": 250.0}),
    # Rounding goes the wrong way. A fraction of one decimal is simpler than others, such as -0.01.
    (truncated, rounded_down, {}, {"x": -0.1}),
    (rounded_half_up, rounded_to_even, {}, {"x": 0.5}),
    (truncated_quotient, quotient, {}, {"a": 1, "b": -2}),
    (remainder_with_the_sign_of_a, remainder, {}, {"a": 1, "b": -2}),
    # NaN is not handled. It is generated only in domains that have it.
    (positive_part_without_nan, positive_part, {"x": ANY}, {"x": math.nan}),
    (larger_without_nan, larger, {"x": ANY, "y": ANY}, {"x": 0.0, "y": math.nan}),
    # Integers wrap where they should saturate.
    (wrapping_sum, saturating_sum, {}, {"a": 0, "b": HIGHEST + 1}),
    (wrapping_sum, saturating_sum, {"a": INT32, "b": INT32}, {"a": 1, "b": HIGHEST}),
    (wrapping_negative, saturating_negative, {"n": INT32}, {"n": LOWEST}),
]


@pytest.mark.parametrize(
    ("subject", "reference", "domains", "simplest"),
    ERRORS,
    ids=[f"{subject.__name__}-{len(domains)}" for subject, _, domains, _ in ERRORS],
)
def test_a_planted_error_is_found_and_shrunk_to_the_simplest_case(
    subject: Callable[..., Any],
    reference: Callable[..., Any],
    domains: dict[str, Any],
    simplest: dict[str, Any],
    client: Client,
) -> None:
    # The seed decides which cases fail, and not where shrinking ends.
    for seed in range(3):
        report = client.verify(subject, reference, seed=seed, domains=domains, equal_nan=True)
        assert 0 < report.failed < report.cases == 100_000
        shown = [one.simplest.arguments for one in report.counterexamples]
        # As text, NaN equals NaN, and 0.0 differs from -0.0.
        assert repr(simplest) in map(repr, shown), shown


@pytest.mark.parametrize(("subject", "reference", "domains", "simplest"), ERRORS)
def test_the_simplest_case_fails_in_cpython(
    subject: Callable[..., Any], reference: Callable[..., Any], domains: dict[str, Any], simplest: dict[str, Any]
) -> None:
    assert subject(**simplest) != reference(**simplest)
