"""Functions in Python and their translations to Rust: equal ones pass, and planted errors are found and shrunk.

The cases come from the daemon's generator. What it computes for a function in Python is compared with CPython on other
cases, and with the function of the standard library that the function is translated from, if there is one.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import struct
import subprocess
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from accelerd import Client, KernelProgram, VerifyReport, Wasm, testing

import dates
import floats
import integers
from cases import FOLDER, Sampler, checked, evaluate, exceeds_64_bits, original, read_suite
from library import LIBRARY

SUITE = read_suite("suite.toml")
BUGS = read_suite("bugs.toml")
#: Cases of each function that the daemon makes.
CASES = int(os.environ.get("TRANSLATION_CASES", "10000"))
#: Cases of each function that CPython computes, and cases that the standard library computes.
SAMPLES = 1000

#: The simplest inputs that show each planted error.
SHRUNK: dict[str, dict[str, Any]] = {
    "range_sum": {"start": 0, "stop": 1, "step": 1},
    "bmi_class": {"kilograms": 25.0, "metres": 1.0},
    "bisect_left": {"xs": [0.0] * 16, "x": 0.0},
    "cents": {"amount": 0.005},
    "ordinal": {"year": 0, "month": 1, "day": 1},
    "wrapped_degrees": {"angle": -181.0},
    "index_of_max": {"xs": [math.nan] + [0.0] * 15},
    "clamp": {"x": 0.0, "low": math.nan, "high": 0.0},
    "bearing": {"east": 0.0, "north": -0.0},
    "digital_root": {"n": 2**31},
    "fibonacci": {"n": 93},
    "wind_chill": {"celsius": 1.0, "speed": 5.0},
    "income_tax": {"income": 10_001.0},
    "mean": {"xs": [0.0] * 15 + [1.0]},
    "integer_sqrt": {"n": 0},
    "is_leap_year": {"year": 100},
    "gcd": {"a": 0, "b": -1},
    "align": {"n": 1, "step": -2},
    "triangle_area": {"a": -0.0, "b": -0.0, "c": -0.0},
}


def accelctl() -> Path:
    if named := os.environ.get("ACCELCTL_BIN"):
        return Path(named)
    if named := os.environ.get("ACCELERD_BIN"):
        return Path(named).with_name("accelctl")
    target = Path(os.environ.get("CARGO_TARGET_DIR", FOLDER.parents[1] / "target"))
    return target / "debug" / "accelctl"


def run_suite(server: str, name: str, *options: str) -> dict[str, dict[str, Any]]:
    """Runs a suite from the command line; returns the reports of its checks by name."""
    command = [accelctl(), "--server", f"http://{server}", "--json", "--timeout", "10m", "verify", "run", FOLDER / name]
    done = subprocess.run([*command, *options], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return {check["name"]: check for check in json.loads(done.stdout)["checks"]}


@pytest.fixture(scope="module")
def suite(server: str) -> dict[str, dict[str, Any]]:
    return run_suite(server, "suite.toml", "--count", str(CASES))


@pytest.fixture(scope="module")
def bugs(server: str) -> dict[str, dict[str, Any]]:
    return run_suite(server, "bugs.toml")


def test_every_function_is_verified() -> None:
    functions = {
        name
        for module in (integers, dates, floats)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if all(param.annotation is not param.empty for param in inspect.signature(function).parameters.values())
    }
    assert functions == set(SUITE)


@pytest.mark.parametrize("name", SUITE)
def test_a_translation_computes_what_the_function_computes(name: str, suite: dict[str, dict[str, Any]]) -> None:
    check = suite[name]
    assert check["status"] == "passed", json.dumps(check, indent=1)
    assert check["cases"] == CASES
    assert check["reference"]["outcomes"]["ok"] > 0, "the function has results"


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_error_is_found(name: str, bugs: dict[str, dict[str, Any]]) -> None:
    check = bugs[name]
    assert check["status"] == "failed", json.dumps(check, indent=1)
    assert check["failed"] > 0


@pytest.mark.parametrize("name", SHRUNK)
def test_a_counterexample_is_shrunk_to_the_simplest_one(name: str, bugs: dict[str, dict[str, Any]]) -> None:
    shown = [one.get("shrunk") or one["found"] for one in bugs[name]["counterexamples"]]
    inputs = [{value["name"]: value["bits"] for value in case["inputs"]} for case in shown]
    assert {name: bits(value) for name, value in SHRUNK[name].items()} in inputs


def bits(value: Any) -> list[str]:
    """The bits of a number, or of the numbers of a list, as accelctl prints them."""
    numbers = value if isinstance(value, list) else [value]
    packed = [struct.pack("<d" if isinstance(number, float) else "<q", number) for number in numbers]
    return [f"{int.from_bytes(one, 'little'):#018x}" for one in packed]


def test_isolated_cases_do_not_see_what_earlier_ones_wrote(client: Client) -> None:
    check = BUGS["longest_run"]
    shared, isolated = (Wasm(FOLDER / "bugs.wasm", "longest_run", share_instance=shares) for shares in (True, False))
    assert client.verify(isolated, program(check), count=10_000)
    assert not client.verify(shared, program(check), count=10_000)


def domain(annotation: str, limits: dict[str, Any]) -> Any:
    """The domain of an input in the Python client."""
    low, high, length = limits.get("min"), limits.get("max"), limits.get("length", 8)
    if "float" in annotation:
        nan, infinity = limits.get("allow_nan", False), limits.get("allow_infinity", False)
        elements = testing.floats(low, high, allow_nan=nan, allow_infinity=infinity)
    else:
        elements = testing.integers(low, high) if "int" in annotation else testing.booleans()
    return testing.lists(elements, length=length) if "list" in annotation else elements


def policy(check: dict[str, Any]) -> dict[str, Any]:
    """The policy of a check in the Python client."""
    tolerance: dict[str, Any] = {key: check[key] for key in ("max_ulps", "rtol", "atol") if key in check}
    return {**(tolerance or {"exact": True}), "equal_nan": True, "signed_zero": True}


def program(check: dict[str, Any]) -> KernelProgram:
    """The original of a check for the Python client."""
    return KernelProgram((FOLDER / check["reference"]["python"]).read_text(), check["reference"]["function"])


def module(check: dict[str, Any]) -> Wasm:
    """The translation of a check for the Python client."""
    return Wasm(FOLDER / check["subject"]["wasm"], check["subject"]["function"])


@pytest.mark.parametrize("name", SUITE)
def test_the_python_client_agrees(name: str, client: Client) -> None:
    check, params = SUITE[name], inspect.signature(original(SUITE[name])).parameters
    domains = {of: domain(str(param.annotation), check.get("inputs", {}).get(of, {})) for of, param in params.items()}
    client.assert_equivalent(
        module(check), program(check), count=CASES, seed=1, domains=domains, timeout=600, **policy(check)
    )


#: Arguments by name, and what is computed for them: results or None, and an outcome.
Case = dict[str, Any]
Computed = tuple[tuple[Any, ...] | None, str]


def columns(cases: list[Case]) -> dict[str, Any]:
    """The inputs of cases by name."""
    return {name: np.array([case[name] for case in cases]) for name in cases[0]}


def verify_outputs(client: Client, check: dict[str, Any], cases: list[Case], computed: list[Computed]) -> VerifyReport:
    """Has the daemon compute the original; it must have the results of all cases that have some."""
    example = next(results for results, _ in computed if results is not None)
    outputs = [np.array([(results or example)[nth] for results, _ in computed]) for nth in range(len(example))]
    names = ["result"] if len(outputs) == 1 else [f"result{nth}" for nth in range(len(outputs))]
    report = client.verify(
        program(check),
        dict(zip(names, outputs, strict=True)),
        cases=columns(cases),
        case_verdicts=True,
        shrink=False,
        **policy(check),
    )
    failed = np.asarray(report.failed_cases) & [results is not None for results, _ in computed]
    assert not failed.any(), f"expected {[(cases[nth], *computed[nth]) for nth in np.flatnonzero(failed)[:5]]}"
    return report


@pytest.mark.parametrize("name", SUITE)
def test_a_function_computes_what_cpython_computes(name: str, client: Client) -> None:
    check, function = SUITE[name], original(SUITE[name])
    sampler = Sampler(check)
    cases = [sampler.case() for _ in range(SAMPLES)]
    computed = [evaluate(function, checked(case)) for case in cases]
    report = verify_outputs(client, check, cases, computed)
    assert report.subject_outcomes == Counter(outcome for _, outcome in computed)


@pytest.mark.parametrize("name", LIBRARY)
def test_a_function_and_its_translation_compute_what_the_library_computes(name: str, client: Client) -> None:
    check, function, library = SUITE[name], original(SUITE[name]), LIBRARY[name]
    drawn = iter(Sampler(check).case, None)
    covered = (case for case in drawn if library.covers(*case.values()) and not exceeds_64_bits(function, case))
    cases = list(islice(covered, SAMPLES))
    computed = [evaluate(library.function, case.values()) for case in cases]
    report = verify_outputs(client, check, cases, computed)
    # The library raises an exception where the function does; the kind may be another.
    assert report.subject_outcomes["ok"] == sum(results is not None for results, _ in computed)
    client.assert_equivalent(module(check), program(check), cases=columns(cases), **policy(check))
