"""Comparisons of outputs by a daemon."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from accelerd import Client, InvalidArgumentError, PolicyOptions
from accelerd.aio import AsyncClient

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def test_equal_arrays_pass_and_the_report_says_what_differs(client: Client) -> None:
    assert client.compare(X, X)
    changed = X.copy()
    changed[1, 2, 0] += 0.5
    report = client.compare(changed, X, row_verdicts=True)
    assert not report and not report.passed
    output = report["output"]
    assert (output.verdict, output.elements, output.failed, output.equal) == ("mismatch", 24, 1, 23)
    assert output.largest_absolute is not None and output.largest_absolute.index == (1, 2, 0)
    assert output.failed_rows is not None and output.failed_rows.tolist() == [False, True]
    [mismatch] = output.mismatches
    assert (mismatch.index, mismatch.actual, mismatch.expected, mismatch.kind) == ((1, 2, 0), 20.5, 20.0, "tolerance")
    assert mismatch.actual_bits == int(np.float32(20.5).view(np.uint32))
    text = repr(report)
    assert text.startswith("Tensor-likes are not close!\n\nMismatched elements: 1 / 24 (4.2%)\n")
    assert "Greatest absolute difference: 0.5 at index (1, 2, 0) (up to 1e-05 allowed)" in text
    with pytest.raises(AssertionError, match="Mismatched elements: 1 / 24"):
        client.assert_close(changed, X)
    client.assert_close(changed, X, atol=output.sufficient_atol, rtol=output.rtol)


def test_zeros_in_place_of_small_numbers_differ_unless_a_tolerance_is_given(client: Client) -> None:
    expected = np.exp(np.linspace(-2, 2, 100)).astype(np.float32) / np.float32(1e7)
    report = client.compare(np.zeros_like(expected), expected)
    output = report["output"]
    assert not report.passed and output.failed == 100 and output.small_output is not None
    assert output.small_output.atol == 1e-5 and output.max_norm == output.small_output.max_norm_rtol
    assert "Most expected numbers of 'output' are smaller than atol=1e-05" in repr(report)
    assert client.compare(expected * np.float32(1 + 2**-22), expected).passed
    given = client.compare(np.zeros_like(expected), expected, atol=1e-5, rtol=0.0)
    small = given["output"].small_output
    assert given.passed and small is not None and small.max_norm_rtol is None
    assert client.compare(expected, expected)["output"].small_output is None


def test_the_verdict_is_that_of_numpy_for_random_arrays(client: Client) -> None:
    random = np.random.default_rng(5)
    for dtype in (np.float16, np.float32, np.float64, np.int16):
        expected = (random.standard_normal(5000) * 50).astype(dtype)
        actual = (expected + random.standard_normal(5000) * 0.01).astype(dtype)
        for atol, rtol in ((0.0, 0.0), (0.01, 0.0), (0.005, 0.001)):
            wide = np.abs(actual.astype(np.float64) - expected) <= atol + rtol * np.abs(expected.astype(np.float64))
            report = client.compare(actual, expected, atol=atol, rtol=rtol, max_mismatches=3)
            assert report.outputs[0].failed == np.count_nonzero(~wide), (dtype, atol, rtol)
            failed = [one.index[0] for one in report.outputs[0].mismatches]
            assert failed == np.flatnonzero(~wide)[:3].tolist()


def test_outputs_have_policies_of_their_own(client: Client) -> None:
    actual = {"a": np.float64([1, np.nan]), "b": np.int32([1, 2]), "c": np.float32([1, -0.0])}
    expected = {"c": np.float32([1 + 2**-23, 0]), "b": np.int32([1, 3]), "a": np.float64([1, np.nan])}
    policies: dict[str, PolicyOptions] = {"a": {"equal_nan": True}, "b": {"max_norm": 0.5}, "c": {"max_ulps": 1}}
    report = client.compare(actual, expected, policies=policies)
    assert report.passed and [output.name for output in report.outputs] == ["a", "b", "c"]
    assert report["a"].nan_equal == 1 and report["c"].zero_sign == 1
    report = client.compare(actual, expected, exact=True, signed_zero=True)
    assert [output.verdict for output in report.outputs] == ["mismatch"] * 3
    assert report["c"].failed == 2 and repr(report).startswith("a: Tensor-likes are not equal!")
    assert client.compare(np.float32([1, 2]), np.float32([[1], [2]]), ignore_shape=True).passed
    assert client.compare(np.float32([2, np.nan, 1]), np.float32([1, 2, np.nan]), any_order=True, equal_nan=True).passed
    shapes = client.compare(np.float32([1, 2]), np.float32([[1], [2]]))
    assert repr(shapes) == "The values for attribute 'shape' do not match: (2,) != (2, 1)."
    assert client.compare(np.float32(1), np.float64(1))["output"].verdict == "dtype_mismatch"


def test_resident_tensors_are_compared_where_they_are(client: Client) -> None:
    with client.upload(X) as kept:
        assert client.compare(kept, X).passed
        assert kept.resident is not None and client.compare({"x": X}, {"x": kept.resident}).passed
        with pytest.raises(ValueError, match="got an operation"):
            client.compare(kept + 1, X)


def test_wrong_arguments_are_named(client: Client) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        client.compare(X, X, atol=-1)
    assert refused.value.violations[0].field == "policy.tolerances[0].close.atol"
    assert refused.value.violations[0].argument == "atol" and str(refused.value).startswith("INVALID_ARGUMENT: atol: ")
    with pytest.raises(ValueError, match="equal_nan"):
        client.compare(X, X, equal_nan="perhaps")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="tolerance"):
        client.compare(X, X, policies={"output": {"tolerance": 1}})  # type: ignore[typeddict-unknown-key]
    with pytest.raises(TypeError, match="max_ulps"):
        client.compare(X, X, max_ulps="few")  # type: ignore[arg-type]


def test_the_asyncio_client_compares_as_well(server: str) -> None:
    async def run() -> None:
        async with AsyncClient(server, timeout=30) as client:
            assert (await client.compare(X, X)).passed
            with pytest.raises(AssertionError, match="not close"):
                await client.assert_close(X + 1, X)

    asyncio.run(run())
