"""Verifications of functions by a daemon."""

from __future__ import annotations

import asyncio
import inspect
import math
from pathlib import Path

import numpy as np
import pytest
from wasm_module import (
    BRANCH,
    END,
    F64_ADD,
    F64_GT,
    F64_LOAD,
    F64_MUL,
    F64_STORE,
    GLOBAL_GET,
    GLOBAL_SET,
    IF_VOID,
    LOOP_VOID,
    UNREACHABLE,
    f64,
    get,
    leb,
    module,
)

import accelerd
from accelerd import Client, InvalidArgumentError, KernelProgram, TranslationError, Wasm, WasmBuffer
from accelerd.aio import AsyncClient
from accelerd.testing import booleans, floats, integers, lists

LIMIT = 500.0

DOUBLE = module("double", ["f64"], ["f64"], get(0) + f64(2.0) + F64_MUL)
#: Twice a number; a trap above a limit.
TRAPPING = module(
    "double", ["f64"], ["f64"], get(0) + f64(LIMIT) + F64_GT + IF_VOID + UNREACHABLE + END + get(0) + f64(2.0) + F64_MUL
)
ENDLESS = module("double", ["f64"], ["f64"], LOOP_VOID + BRANCH + leb(0) + END + get(0))
#: The sum of all numbers that the instance got.
SUMMING = module(
    "add", ["f64"], ["f64"], GLOBAL_GET + leb(0) + get(0) + F64_ADD + GLOBAL_SET + leb(0) + GLOBAL_GET + leb(0)
)
#: Writes twice the first element of a buffer to another one.
COPYING = module("first", ["i32"] * 4, [], get(2) + get(0) + F64_LOAD + f64(2.0) + F64_MUL + F64_STORE, has_memory=True)


def double(x: float) -> float:
    return 2.0 * x


def wrong_above(x: float) -> float:
    return 2.0 * x if x < LIMIT else 2.0 * x + 1.0


def quotient(x: float, n: int) -> float:
    return x / n


def mixed(x: float, n: int, b: bool, values: list[float]) -> tuple[float, int]:
    total = 0.0
    for i in range(len(values)):
        total += values[i]
    return (x + total if b else total, n // 3)


def test_equal_functions_pass_for_generated_cases(client: Client) -> None:
    report = client.verify(DOUBLE, double, count=20_000, seed=5)
    assert report.passed and report.cases == 20_000 and report.seed == 5
    assert report.subject_outcomes == {"ok": 20_000} == report.reference_outcomes
    assert len(report.subject_hash) == 64 == len(report.reference_hash)
    assert client.verify(double, DOUBLE, count=1000)
    assert client.verify(DOUBLE, DOUBLE, count=1000)
    domains = {"x": floats(-1, 1), "n": integers(-5, 5), "b": booleans(), "values": lists(floats(0, 1), length=3)}
    assert client.verify(mixed, mixed, count=1000, domains=domains, exact=True)


def test_a_falsifying_case_is_shrunk_and_reproduced(client: Client) -> None:
    domains = {"x": floats(0, 1e4)}
    report = client.verify(wrong_above, double, count=5000, seed=1, domains=domains, exact=True)
    assert not report and 0 < report.failed < 5000
    assert 0 < len(report.counterexamples) <= 5
    for one in report.counterexamples:
        for case in (one.found, one.simplest):
            [x] = case.arguments.values()
            assert wrong_above(x) != double(x) and 0 <= x <= 1e4
            assert case.actual["result"].value == wrong_above(x) and case.expected["result"].value == double(x)
            assert (case.subject_outcome, case.reference_outcome) == ("ok", "ok")
    simplest = report.counterexamples[0].simplest.inputs["x"]
    assert f"Falsifying case: double(x={simplest!r})" in repr(report)
    again = client.verify(wrong_above, double, count=5000, seed=1, domains=domains, exact=True)
    assert again == report
    found = client.verify(wrong_above, double, count=5000, seed=1, domains=domains, exact=True, shrink=False)
    assert all(one.shrunk is None for one in found.counterexamples)
    # Cases that shrink to the same inputs are listed once.
    all_found = [one.found for one in found.counterexamples]
    assert len(all_found) == 5 and all_found[0] == report.counterexamples[0].found
    assert all(one.found in all_found for one in report.counterexamples)
    with pytest.raises(AssertionError, match="Falsifying case: double"):
        client.assert_equivalent(wrong_above, double, count=5000, domains=domains, exact=True)


def test_the_named_tolerance_is_the_smallest_that_passes(client: Client) -> None:
    cases = {"x": np.linspace(0, 1000, 777)}
    report = client.verify(wrong_above, double, cases=cases, exact=True)
    output = report["result"]
    assert output.largest_ulps is not None and output.largest_absolute is not None
    assert output.largest_absolute.value == 1.0
    assert client.verify(wrong_above, double, cases=cases, atol=output.sufficient_atol)
    assert not client.verify(wrong_above, double, cases=cases, atol=math.nextafter(output.sufficient_atol, 0))
    assert client.verify(wrong_above, double, cases=cases, max_ulps=int(output.largest_ulps.value))


def test_cases_are_sent_in_chunks(server: str, client: Client) -> None:
    x = np.linspace(0, 1000, 20_001)
    seen: list[tuple[int, int]] = []
    with Client(server, timeout=30, max_message_bytes=20_000) as narrow:
        report = narrow.verify(
            wrong_above,
            double,
            cases={"x": x},
            exact=True,
            case_verdicts=True,
            progress=lambda done, failed: seen.append((done, failed)),
        )
    assert (report.cases, report.failed) == (20_001, int(np.count_nonzero(x >= LIMIT)))
    assert report.failed_cases is not None and len(seen) > 8
    np.testing.assert_array_equal(report.failed_cases, x >= LIMIT)
    assert seen[-1] == (report.cases, report.failed)
    whole = client.verify(wrong_above, double, cases={"x": x}, exact=True)
    assert whole["result"] == report["result"]


def test_outcomes_are_counted_and_judged(client: Client) -> None:
    cases = {"x": np.array([1.0, 600.0, 700.0])}
    report = client.verify(TRAPPING, double, cases=cases)
    assert (report.failed, report.outcome_mismatches) == (2, 2)
    assert report.subject_outcomes == {"ok": 1, "unreachable": 2} and report.reference_outcomes == {"ok": 3}
    assert "subject:   no result: unreachable" in repr(report)
    assert client.verify(double, TRAPPING, cases=cases, outcome_policy="reference_defines")
    assert not client.verify(double, TRAPPING, cases=cases)
    # Parameters of modules have no names.
    cases = {"arg0": cases["x"]}
    assert client.verify(TRAPPING, TRAPPING, cases=cases)
    assert not client.verify(TRAPPING, TRAPPING, cases=cases, outcome_policy="result_required")


def test_outcomes_are_expected_by_name(client: Client) -> None:
    cases = {"x": np.array([1.0, 600.0, 700.0])}
    each = ["ok", "unreachable", "unreachable"]
    assert client.verify(TRAPPING, double, cases=cases, expect=each)
    assert client.verify(TRAPPING, double, domains={"x": floats(501.0, 1e6)}, count=100, expect="unreachable")
    report = client.verify(TRAPPING, double, cases=cases, expect=["unreachable", *each[1:]])
    assert (report.failed, report.counterexamples[0].index) == (1, 0)
    assert "expected:  no result: unreachable" in repr(report)
    with pytest.raises(InvalidArgumentError, match=r"expect\[2\].*integer_division_by_zero.*'?division"):
        client.verify(TRAPPING, double, cases=cases, expect=["", "", "division_by_zero"])


def test_what_raises_in_python_is_an_outcome(client: Client) -> None:
    report = client.verify(quotient, quotient, cases={"x": [1.0, 1.0], "n": [2, 0]})
    assert report and report.subject_outcomes == {"ok": 1, "division_by_zero": 1}


def test_cases_end_with_their_limits(client: Client) -> None:
    slow = client.verify(ENDLESS, double, cases={"x": [1.0]}, case_timeout=0.05)
    assert slow.subject_outcomes == {"timeout": 1}
    hungry = client.verify(ENDLESS, double, cases={"x": [1.0]}, fuel=10_000)
    assert hungry.subject_outcomes == {"out_of_fuel": 1}


def test_a_function_with_a_state_is_found_out(client: Client) -> None:
    def identity(x: float) -> float:
        return x

    x = {"x": np.arange(1.0, 6.0)}
    assert client.verify(SUMMING, identity, cases=x)
    shared = client.verify(Wasm(SUMMING, share_instance=True), identity, cases=x, shrink=False)
    assert shared.failed == 4
    # A second run has an instance of its own.
    again = client.verify(Wasm(SUMMING, share_instance=True), identity, cases=x, shrink=False, check_determinism=True)
    assert (again.failed, again.nondeterministic) == (4, 0)


def test_buffers_are_inputs_and_outputs(client: Client) -> None:
    params = {"values": WasmBuffer("f64", 3), "result": WasmBuffer("f64", 1, "output")}
    values = np.arange(12.0).reshape(4, 3)
    expected = 2 * values[:, :1]
    wasm = Wasm(COPYING, "first", params)
    assert client.verify(wasm, {"result": expected}, cases={"values": values})
    report = client.verify(wasm, {"result": expected + (expected == 6)}, cases={"values": values})
    assert (report.failed, report.counterexamples[0].index) == (1, 1)
    assert report.counterexamples[0].found.arguments == {"values": [3.0, 4.0, 5.0]}


def test_given_outputs_are_compared_with_a_function(client: Client) -> None:
    x = np.linspace(-5, 5, 100)
    assert client.verify({"result": 2 * x}, double, cases={"x": x})
    assert client.verify(double, 2 * x, cases={"x": x})
    report = client.verify({"result": 2 * x + (np.arange(100) == 17)}, double, cases={"x": x})
    assert (report.failed, report.counterexamples[0].index) == (1, 17)
    assert client.verify(x, x) and client.verify(x, x + 1).failed == 100
    rows = np.arange(12.0).reshape(4, 3)
    text = str(client.verify(rows + (rows == 5), rows))
    assert "greatest absolute difference: 1.0 of case 1, element 2\n" in text
    with pytest.raises(ValueError, match="cases: expected at least one case, got none"):
        client.verify(double, double, cases={"x": np.zeros(0)})


def test_modules_are_read_from_files(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "double.wasm"
    path.write_bytes(DOUBLE)
    assert client.verify(path, double, count=100) and client.verify(str(path), double, count=100)
    assert client.verify(Wasm(path, "double", {"x": "f64"}, {"result": "f64"}), double, count=100)


def test_constants_are_captured_or_given(client: Client) -> None:
    assert client.verify(KernelProgram(wrong_above, constants={"LIMIT": math.inf}), double, count=1000)
    text = "def f(x: float) -> float:\n    return N * x\n\n\ndef g(x: float) -> float:\n    return x\n"
    assert client.verify(KernelProgram(text, "f", constants={"N": 2.0}), double, count=1000)


def test_functions_that_do_not_go_together_are_refused(client: Client) -> None:
    with pytest.raises(InvalidArgumentError):
        client.verify(double, quotient, count=10)
    with pytest.raises(InvalidArgumentError):
        client.verify(Wasm(DOUBLE, "missing"), double, count=10)
    with pytest.raises(InvalidArgumentError):
        client.verify(b"not a module", double, count=10)
    with pytest.raises(InvalidArgumentError):
        client.verify(double, double, cases={"y": np.zeros(3)})

    def reads(x: float) -> float:
        return float(open("f").read())

    with pytest.raises(TranslationError) as raised:
        client.verify(double, reads, count=10)
    assert raised.value.diagnostics[0].filename == __file__
    assert raised.value.diagnostics[0].line == inspect.getsourcelines(reads)[1] + 1


def test_the_function_verify_uses_the_default_client(
    server: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCELERD_SERVER", server)
    accelerd._default_client._client_of.cache_clear()
    decorated = accelerd.kernel(double)
    try:
        assert decorated.client.target == server
        domains = {"x": floats(0, 1e4)}
        report = accelerd.verify(wrong_above, decorated, count=5000, seed=1, domains=domains, exact=True)
        assert report == client.verify(wrong_above, double, count=5000, seed=1, domains=domains, exact=True)
        assert not report and accelerd.verify(DOUBLE, decorated).cases == 100_000
    finally:
        decorated.client.close()
        accelerd._default_client._client_of.cache_clear()
    params = list(inspect.signature(Client.verify).parameters.values())
    assert list(inspect.signature(accelerd.verify).parameters.values()) == params[1:]


def test_the_asyncio_client_verifies_as_well(server: str) -> None:
    async def run() -> None:
        async with AsyncClient(server, timeout=30) as client:
            assert await client.verify(DOUBLE, double, count=1000)
            with pytest.raises(AssertionError, match="Falsifying case"):
                await client.assert_equivalent(wrong_above, double, cases={"x": [LIMIT]}, exact=True)

    asyncio.run(run())
