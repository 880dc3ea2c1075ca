"""Verifications: what is sent and decoded, against a daemon that runs functions as Python does."""

from __future__ import annotations

import asyncio
import inspect
import math
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_daemon import FakeDaemon, serving, tensor

import accelerd
from accelerd import (
    CaseResult,
    CaseValue,
    Client,
    Counterexample,
    InvalidArgumentError,
    KernelProgram,
    MessageTooLargeError,
    TranslationError,
    VerifyReport,
    Wasm,
    WasmBuffer,
)
from accelerd._proto import kernel_pb2, tensor_pb2
from accelerd._proto import verify_pb2 as pb
from accelerd._verify_report import _value
from accelerd.aio import AsyncClient
from accelerd.testing import booleans, floats, integers, lists

MODULE = b"\0asm double"
LIMIT = 500.0


def double(x: float) -> float:
    return 2.0 * x


def wrong_above(x: float) -> float:
    return 2.0 * x if x < LIMIT else x


def quotient(x: float, n: int) -> float:
    return x / n


def careful_quotient(x: float, n: int) -> float:
    return x / n if n != 0 else 0.0


@pytest.fixture(scope="module")
def shared() -> Iterator[FakeDaemon]:
    with serving() as daemon:
        yield daemon


@pytest.fixture
def daemon(shared: FakeDaemon) -> FakeDaemon:
    shared.verify.__init__()  # type: ignore[misc]
    shared.verify.modules[MODULE] = lambda x: 2.0 * x
    return shared


@pytest.fixture
def local(daemon: FakeDaemon) -> Iterator[Client]:
    with Client(daemon.target, timeout=10) as client:
        yield client


def header(daemon: FakeDaemon) -> pb.VerifyHeader:
    return daemon.verify.headers[-1]


def test_cases_are_generated_unless_they_are_given(daemon: FakeDaemon, local: Client) -> None:
    report = local.verify(double, double, count=50, seed=7, domains={"x": floats(-1, 1)})
    assert report and report.passed and report.cases == 50 and report.failed == 0 and report.seed == 7
    assert header(daemon).kernel == header(daemon).reference_kernel
    assert header(daemon).kernel.source.splitlines()[1:] == inspect.getsource(double).splitlines()
    generator = header(daemon).generator
    assert (generator.case_count, generator.seed, dict(generator.domains)) == (
        50,
        7,
        {"x": pb.InputDomain(min=-1.0, max=1.0)},
    )
    assert daemon.verify.chunks == [] and repr(report) == "double: all 50 cases pass (seed=7)"
    report.check()


def test_a_hundred_thousand_cases_are_the_default(daemon: FakeDaemon, local: Client) -> None:
    daemon.verify.refusal = ("header", "stop here")
    with pytest.raises(InvalidArgumentError, match="stop here"):
        local.verify(double, double)
    assert (header(daemon).generator.case_count, header(daemon).generator.seed) == (100_000, 0)


def test_the_text_of_a_report_has_the_falsifying_case(local: Client) -> None:
    report = local.verify(wrong_above, double, count=20, seed=3, domains={"x": floats(0, 1000)}, max_counterexamples=1)
    assert not report
    [counterexample] = report.counterexamples
    assert counterexample.simplest is counterexample.shrunk
    assert counterexample.simplest.arguments == {"x": 1000.0}
    found = counterexample.found.inputs["x"].value
    assert repr(report).splitlines() == [
        f"double: {report.failed} of 20 cases fail (seed=3)",
        "",
        "Falsifying case: double(x=1000.0)",
        "    subject:   1000.0 (0x1.f400000000000p+9, bits 0x408f400000000000)",
        "    reference: 2000.0 (0x1.f400000000000p+10, bits 0x409f400000000000)",
        f"    found as case {counterexample.index}: double(x={found!r})",
        "",
        f"result: {report.failed} of 20 elements differ",
        f"    greatest absolute difference: 0.5 of case {counterexample.index}",
        f"    greatest distance in ULP: 12 of case {counterexample.index}",
        "    minimal passing tolerance: atol=0.5, or rtol=0.25, or max_ulps=12",
    ]
    with pytest.raises(AssertionError, match=r"Falsifying case: double\(x=1000\.0\)"):
        report.check()
    assert wrong_above(found) != double(found)
    assert report["result"].failed == report.failed and (report.subject_hash, report.reference_hash) == ("0102", "")


def test_the_text_of_a_report_has_the_ends_of_long_lists(local: Client) -> None:
    report = local.verify(wrong_above, double, cases={"x": [600.0]}, shrink=False)
    for count, shown in (
        (16, f"[{', '.join(f'{one}.0' for one in range(16))}]"),
        (100_000, "[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, ..., 99998.0, 99999.0] (100000 elements)"),
    ):
        values = {"result": CaseValue([float(one) for one in range(count)], [0] * count, "f64")}
        counterexample = Counterexample(3, CaseResult({"values": values["result"]}, values, values, "ok", "ok"), None)
        text = str(replace(report, counterexamples=(counterexample,)))
        assert f"Falsifying case: double(values={shown})\n    subject:   {shown}\n    reference: {shown}\n" in text
        assert len(text) < 1000 and len(counterexample.found.arguments["values"]) == count
    value = CaseValue([0.5] * 17, [0] * 17, "f64")
    assert value.shown == value.shown_exact == f"[{'0.5, ' * 8}..., 0.5, 0.5] (17 elements)"
    assert repr(value) == value.exact == repr([0.5] * 17)


def test_cases_that_were_shrunk_to_the_same_are_shown_once(local: Client) -> None:
    text = repr(local.verify(wrong_above, double, cases={"x": [600.0, 700.0, 1.0, 800.0]}))
    assert text.count("Falsifying case") == 1
    assert "found as case 0: double(x=600.0), and 2 more cases that were shrunk to the same\n" in text


def test_a_side_without_a_result_says_how_it_ended(local: Client) -> None:
    report = local.verify(careful_quotient, quotient, cases={"x": [1.0, -0.0], "n": [2, 0]})
    text = repr(report)
    assert "Falsifying case: quotient(x=0.0, n=0)" in text
    assert "    subject:   0.0 (0x0.0p+0, bits 0x0000000000000000)" in text
    assert "    reference: no result: division_by_zero" in text
    assert "    found as case 1: quotient(x=-0.0, n=0)" in text
    assert text.splitlines()[-1] == "Outcomes of the reference: division_by_zero 1, ok 1"
    assert report.reference_outcomes == {"ok": 1, "division_by_zero": 1} and report.subject_outcomes == {"ok": 2}
    assert report.seed is None and text.startswith("quotient: 1 of 2 cases fail\n")


def test_assert_equivalent_raises_the_report(local: Client) -> None:
    local.assert_equivalent(double, double, count=5)
    with pytest.raises(AssertionError, match="Falsifying case: double"):
        local.assert_equivalent(wrong_above, double, count=50, domains={"x": floats(0, 1000)})


def test_cases_are_sent_in_chunks_that_fit_a_message(daemon: FakeDaemon) -> None:
    x = np.arange(1000.0)
    seen: list[tuple[int, int]] = []
    with Client(daemon.target, timeout=10, max_message_bytes=1000) as narrow:
        report = narrow.verify(
            wrong_above,
            double,
            cases={"x": x},
            case_verdicts=True,
            progress=lambda done, failed: seen.append((done, failed)),
        )
        chunks = [np.frombuffer(chunk.inputs[0].value.data, "<f8") for chunk in daemon.verify.chunks]
        assert all(chunk.ByteSize() <= 1000 for chunk in daemon.verify.chunks) and len(chunks) > 8
        np.testing.assert_array_equal(np.concatenate(chunks), x)
        assert (report.cases, report.failed) == (1000, 500)
        assert report.failed_cases is not None
        np.testing.assert_array_equal(report.failed_cases, x >= LIMIT)
        assert seen[-1] == (1000, 500) and [done for done, _ in seen] == list(np.cumsum([len(one) for one in chunks]))
        with pytest.raises(MessageTooLargeError, match="a case cannot be split"):
            narrow.verify(double, double, cases={"x": np.zeros((2, 200))})
        with pytest.raises(MessageTooLargeError, match="the functions of a verification"):
            narrow.verify(b"\0asm" * 300, double)


def test_lists_get_the_types_of_the_annotations_and_arrays_keep_theirs(daemon: FakeDaemon, local: Client) -> None:
    def dtypes(**cases: Any) -> list[str]:
        local.verify(quotient, quotient, cases=cases)
        inputs = daemon.verify.chunks[-1].inputs
        return [tensor_pb2.Dtype.Name(one.value.dtype).removeprefix("DTYPE_") for one in inputs]

    # Integers that fit have 32 bits, as the parameters of a module may have.
    assert dtypes(x=[1, 2], n=(1, 2)) == ["F64", "I32"]
    assert dtypes(x=[1.0], n=[2**31]) == ["F64", "I64"]
    assert dtypes(x=np.float32([1]), n=np.int8([1])) == ["F32", "I8"]
    with pytest.raises(TypeError, match=r"cases\['n'\]: expected i64, got float 1\.5"):
        local.verify(quotient, quotient, cases={"x": [1.0], "n": [1.5]})
    # Those of text are unknown here.
    local.verify(inspect.getsource(double), inspect.getsource(double), cases={"x": [1.0]})


def test_outputs_that_are_given_are_compared(daemon: FakeDaemon, local: Client) -> None:
    x = np.arange(5.0)
    report = local.verify(2 * x, 2 * x)
    assert report and header(daemon).HasField("given_outputs") and header(daemon).HasField("expected_outputs")
    assert not header(daemon).HasField("generator")
    assert [one.name for one in daemon.verify.chunks[0].actual] == ["output"]
    assert local.verify(2 * x, double, cases={"x": x}) and local.verify(double, 2 * x, cases={"x": x})
    report = local.verify({"result": 2 * x + (x == 3)}, double, cases={"x": x})
    assert not report and report.counterexamples[0].index == 3
    assert header(daemon).HasField("given_outputs") and header(daemon).HasField("reference_kernel")
    assert "found as case 3\n" in repr(report) and "Falsifying case: double(x=3.0)" in repr(report)


def test_modules_are_bytes_or_paths(daemon: FakeDaemon, local: Client, tmp_path: Path) -> None:
    path = tmp_path / "double.wasm"
    path.write_bytes(MODULE)
    for module in (MODULE, bytearray(MODULE), path, str(path), Wasm(path), Wasm(str(path)), Wasm(MODULE)):
        assert local.verify(module, double, count=5)
        assert header(daemon).wasm == pb.WasmFunction(module=MODULE)
    assert local.verify(double, path, count=5) and header(daemon).reference_wasm.module == MODULE
    with pytest.raises(FileNotFoundError):
        local.verify(tmp_path / "missing.wasm", double)


def test_a_function_of_a_module_has_parameters_and_results(daemon: FakeDaemon, local: Client) -> None:
    buffers = {"in": WasmBuffer("f64", 8), "out": WasmBuffer(np.float32, 4, "output")}
    buffers["both"] = WasmBuffer("u8", 2, "in_out")
    wasm = Wasm(MODULE, "f", {"x": "f64", **buffers}, {"result": "i32"}, share_instance=True)
    local.verify(wasm, double, count=1)
    params = [
        pb.WasmParam(name="x", dtype=tensor_pb2.DTYPE_F64, kind=pb.WASM_PARAM_KIND_VALUE),
        pb.WasmParam(name="in", dtype=tensor_pb2.DTYPE_F64, kind=pb.WASM_PARAM_KIND_INPUT, length=8),
        pb.WasmParam(name="out", dtype=tensor_pb2.DTYPE_F32, kind=pb.WASM_PARAM_KIND_OUTPUT, length=4),
        pb.WasmParam(name="both", dtype=tensor_pb2.DTYPE_U8, kind=pb.WASM_PARAM_KIND_IN_OUT, length=2),
    ]
    results = [pb.WasmResult(name="result", dtype=tensor_pb2.DTYPE_I32)]
    expected = pb.WasmFunction(module=MODULE, function="f", params=params, results=results, share_instance=True)
    assert header(daemon).wasm == expected
    assert repr(Wasm(MODULE, "f")).startswith("Wasm(function='f'")
    with pytest.raises(TypeError, match=r"params\['x'\]: expected one of .* got quad"):
        local.verify(Wasm(MODULE, params={"x": "quad"}), double)
    with pytest.raises(ValueError, match=r"params\['x'\]\.kind: expected one of 'input', 'output', 'in_out', got 'up'"):
        local.verify(Wasm(MODULE, params={"x": WasmBuffer("f64", 1, "up")}), double)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"length: expected an int from 0 to 2\*\*32 - 1, got -1"):
        local.verify(Wasm(MODULE, params={"x": WasmBuffer("f64", -1)}), double)


def test_programs_have_a_name_and_constants(daemon: FakeDaemon, local: Client) -> None:
    text = "def f(x: float) -> float:\n    return N * x\n\n\ndef g(x: float) -> float:\n    return x\n"
    report = local.verify(KernelProgram(text, "f", "python", {"N": 2.0}), double, count=5)
    program = header(daemon).kernel
    assert report and (program.name, program.dialect, program.constants["N"].number) == ("f", 2, 2.0)
    assert local.verify([double], double, count=5).name == "double"
    single = "def only(x: float) -> float:\n    return x\n"
    assert local.verify(double, single, count=1).name == "only"
    kernel = local.compile(double)
    assert local.verify(kernel, double, count=5).passed
    with pytest.raises(ValueError, match=r"subject: expected a kernel of compile\(\), got one of list_kernels\(\)"):
        local.verify(local.list_kernels()[0], double)


def test_options_are_sent(daemon: FakeDaemon, local: Client) -> None:
    local.verify(
        double,
        double,
        count=1,
        rtol=1e-3,
        max_ulps=4,
        require="all",
        equal_nan=True,
        policies={"result": {"exact": True}},
        any_order=True,
        outcome_policy="reference_defines",
        expect="unreachable",
        max_mismatches=3,
        max_counterexamples=2,
        shrink=False,
        check_determinism=True,
        case_timeout=0.25,
        fuel=10**6,
        memory_bytes=1 << 20,
        loop_budget=1000,
    )
    sent = header(daemon)
    assert [one.WhichOneof("rule") for one in sent.policy.tolerances] == ["close", "ulp"]
    assert (sent.policy.combination, sent.policy.nan) == (pb.TOLERANCE_COMBINATION_ALL, pb.NAN_POLICY_EQUAL)
    assert sent.output_policies["result"].tolerances[0].WhichOneof("rule") == "exact"
    assert (sent.policy.order, sent.expected_outcome) == (pb.ELEMENT_ORDER_ANY, "unreachable")
    assert sent.outcome_policy == pb.OUTCOME_POLICY_REFERENCE_DEFINES
    assert (sent.max_mismatches, sent.max_counterexamples) == (3, 2)
    assert (sent.skip_shrinking, sent.check_determinism, sent.case_verdicts) == (True, True, False)
    limits = sent.limits
    assert limits.timeout.ToNanoseconds() == 250_000_000
    assert (limits.fuel, limits.memory_bytes, limits.loop_budget) == (10**6, 1 << 20, 1000)
    local.verify(double, double, count=1)
    sent = header(daemon)
    assert not any(map(sent.HasField, ("max_mismatches", "max_counterexamples")))
    assert (sent.skip_shrinking, sent.outcome_policy) == (False, pb.OUTCOME_POLICY_BOTH_OR_NEITHER)
    assert sent.limits == pb.CaseLimits()


@pytest.mark.parametrize(
    ("device", "sent"),
    [
        (None, kernel_pb2.KERNEL_DEVICE_UNSPECIFIED),
        ("cpu", kernel_pb2.KERNEL_DEVICE_CPU),
        ("cuda", kernel_pb2.KERNEL_DEVICE_CUDA),
    ],
)
def test_the_device_is_sent(
    daemon: FakeDaemon, local: Client, monkeypatch: pytest.MonkeyPatch, device: Any, sent: int
) -> None:
    monkeypatch.setattr(accelerd._default_client, "default_client", lambda: local)
    local.verify(double, double, count=1, device=device)
    local.assert_equivalent(double, double, count=1, device=device)
    accelerd.verify(double, double, count=1, device=device)

    async def run() -> None:
        async with AsyncClient(daemon.target, timeout=10) as client:
            await client.verify(double, double, count=1, device=device)
            await client.assert_equivalent(double, double, count=1, device=device)

    asyncio.run(run())
    assert [one.device for one in daemon.verify.headers] == [sent] * 5


def test_reports_are_equal_on_all_devices(local: Client) -> None:
    arguments: dict[str, Any] = {"count": 20, "seed": 3, "domains": {"x": floats(0, 1000)}}
    cpu = local.verify(wrong_above, double, device="cpu", **arguments)
    gpu = local.verify(wrong_above, double, device="cuda", **arguments)
    assert (cpu.gpu_decided_count, gpu.gpu_decided_count) == (0, 20 - gpu.failed)
    assert 0 < gpu.failed < 20 and gpu == cpu and repr(gpu) == repr(cpu)


WRONG = [
    ({"cases": {"x": [1.0]}, "count": 5}, ValueError, "count: expected None with cases that are given, got 5"),
    ({"cases": {"x": [1.0]}, "domains": {"x": floats()}}, ValueError, "domains: expected None with cases"),
    ({"cases": {"x": 1.0}}, ValueError, r"cases: expected arrays whose first dimension is the cases, .* got x \(\)"),
    ({"cases": {"x": [1.0], "y": [1, 2]}}, ValueError, r"the same for all, got x \(1,\), y \(2,\)"),
    ({"cases": []}, TypeError, r"cases: expected a dict of arrays, at least one, got \[\]"),
    ({"cases": {}}, TypeError, "cases: expected a dict of arrays"),
    ({"subject": np.zeros(1)}, ValueError, "cases: expected the inputs of the outputs that are given, got None"),
    ({"count": -1}, ValueError, "count: expected an integer of at least 1, got -1"),
    ({"count": 0}, ValueError, "count: expected an integer of at least 1, got 0"),
    ({"count": 1.5}, TypeError, r"count: expected an int from 0 to 2\*\*64 - 1, got float"),
    ({"cases": {"x": np.empty(0)}}, ValueError, "cases: expected at least one case, got none"),
    ({"cases": {"x": []}}, ValueError, "cases: expected at least one case, got none"),
    (
        {"subject": np.empty((0, 2)), "reference": np.empty((0, 2))},
        ValueError,
        "cases: expected at least one case, got none",
    ),
    ({"seed": "a"}, TypeError, "seed: expected an int from 0 to .*, got str"),
    ({"domains": {"x": (0, 1)}}, TypeError, r"domains\['x'\]: expected floats\(\), .* got tuple"),
    ({"domains": {"x": integers(0, 2**63)}}, ValueError, r"domains\['x'\]\.max_value: expected an int from -2\*\*63"),
    ({"outcome_policy": "any"}, ValueError, "outcome_policy: expected one of 'both_or_neither', .* got 'any'"),
    ({"case_timeout": 0}, ValueError, r"case_timeout: expected a positive number of seconds below 1e\+10, got 0"),
    (
        {"case_timeout": 1e30},
        ValueError,
        r"case_timeout: expected a positive number of seconds below 1e\+10, got 1e\+30",
    ),
    ({"case_timeout": "1s"}, TypeError, "case_timeout: expected a number of seconds, got str"),
    ({"domains": 3}, TypeError, "domains: expected a dict of domains, got int"),
    ({"domains": {1: floats()}}, TypeError, "domains: expected names of type str, got int 1"),
    ({"expect": 3}, TypeError, "expect: expected a str or a sequence of str, got int"),
    ({"cases": {"x": [1.0]}, "expect": [3]}, TypeError, r"expect\[0\]: expected a str, got int"),
    ({"cases": {1: [1.0]}}, TypeError, "cases: expected names of type str, got int 1"),
    ({"cases": {"z": [[1.0], []]}}, ValueError, r"cases\['z'\]: expected .* in rows of equal length, got list"),
    ({"policies": 3}, TypeError, "policies: expected a dict of policies, got int"),
    ({"policies": {"result": 3}}, TypeError, r"policies\['result'\]: expected a dict of options, got int"),
    ({"subject": Wasm(None, "f")}, TypeError, "module: expected bytes or a path, got NoneType"),  # type: ignore[arg-type]
    ({"subject": Wasm(5, "f")}, TypeError, "module: expected bytes or a path, got int"),  # type: ignore[arg-type]
    ({"subject": None}, TypeError, "subject: expected a function, .* or outputs, got None"),
    ({"reference": None}, TypeError, "reference: expected a function, .* or outputs, got None"),
    ({"subject": __file__}, ValueError, f"subject: expected the text of a function, .*, got the path '{__file__}'"),
    ({"case_timeout": math.nan}, ValueError, "case_timeout: expected a positive number"),
    ({"max_counterexamples": -1}, ValueError, r"max_counterexamples: expected an int from 0 to 2\*\*32 - 1, got -1"),
    ({"fuel": "much"}, TypeError, "fuel: expected an int from 0 to .*, got str"),
    ({"expect": ["ok"]}, ValueError, "expect: expected one name with generated cases"),
    ({"cases": {"x": [1.0]}, "expect": []}, ValueError, "expect: expected a name for each of 1 cases, got 0"),
    ({"tolerance": 1}, TypeError, "unknown options: tolerance"),
    ({"device": "gpu"}, ValueError, "device: expected one of None, 'cpu', 'cuda', got 'gpu'"),
    ({"equal_nan": "maybe"}, ValueError, "equal_nan: expected one of False, True, 'bits', got 'maybe'"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), WRONG)
def test_wrong_arguments_are_named(
    daemon: FakeDaemon, local: Client, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        local.verify(**{"subject": double, "reference": double, **arguments})
    assert daemon.verify.headers == []


def test_outputs_on_both_sides_have_as_many_cases_and_no_inputs(local: Client) -> None:
    with pytest.raises(ValueError, match=r"the same for all, got output \(3,\), output \(4,\)"):
        local.verify(np.zeros(3), np.zeros(4))
    with pytest.raises(ValueError, match="cases: expected None with outputs on both sides, got inputs"):
        local.verify(np.zeros(1), np.zeros(1), cases={"x": [1.0]})


def test_an_error_of_a_source_names_the_file_of_the_function(daemon: FakeDaemon, local: Client) -> None:
    line = inspect.getsourcelines(double)[1]
    daemon.verify.refusal = ("header.reference_kernel.source", "line 3, column 4: no (unsupported_statement)")
    with pytest.raises(TranslationError) as raised:
        local.verify(wrong_above, double, count=1)
    [one] = raised.value.diagnostics
    assert (one.kernel, one.filename, one.line, one.column) == ("double", __file__, line + 1, 4)
    daemon.verify.refusal = ("header.wasm.module", "invalid module")
    with pytest.raises(InvalidArgumentError):
        local.verify(MODULE, double, count=1)


def test_domains_are_checked_and_sent() -> None:
    def message(domain: accelerd.Domain) -> pb.InputDomain:
        return domain.message("x")

    assert message(floats()) == message(booleans()) == message(integers()) == pb.InputDomain()
    assert message(floats(1, allow_nan=True)) == pb.InputDomain(min=1.0, allow_nan=True)
    assert message(floats(max_value=2.5, allow_infinity=True)) == pb.InputDomain(max=2.5, allow_infinity=True)
    assert message(integers(-(2**63), 3)) == pb.InputDomain(min_integer=-(2**63), max_integer=3)
    assert message(lists(floats(0, 1), length=3)) == pb.InputDomain(min=0, max=1, length=3)
    assert message(lists(integers(0), length=0)).HasField("length")
    for make, error, text in (
        (lambda: floats("a"), TypeError, "min_value: expected a number, got str"),  # type: ignore[arg-type]
        (lambda: floats(2, 1), ValueError, r"max_value: expected at least min_value = 2\.0, got 1\.0"),
        (lambda: floats(math.nan, 1), ValueError, "max_value: expected at least min_value = nan"),
        (lambda: integers(1.5), TypeError, "min_value: expected an int, got float"),  # type: ignore[arg-type]
        (lambda: integers(max_value=True), TypeError, "max_value: expected an int, got bool"),
        (lambda: integers(3, 2), ValueError, "max_value: expected at least min_value = 3, got 2"),
        (lambda: lists(lists(floats(), length=2), length=2), TypeError, r"elements: expected floats\(\), integers"),
    ):
        with pytest.raises(error, match=text):
            make()
    with pytest.raises(ValueError, match="length: expected an int from 0"):
        message(lists(floats(), length=-1))


@pytest.mark.parametrize(
    ("value", "dtype", "shown", "exact"),
    [
        (0.1, "f64", "0.1", "0.1 (0x1.999999999999ap-4, bits 0x3fb999999999999a)"),
        (-0.0, "f64", "-0.0", "-0.0 (-0x0.0p+0, bits 0x8000000000000000)"),
        (5e-324, "f64", "5e-324", "5e-324 (0x0.0000000000001p-1022, bits 0x0000000000000001)"),
        (math.inf, "f64", "float('inf')", "float('inf') (bits 0x7ff0000000000000)"),
        (-math.inf, "f32", "float('-inf')", "float('-inf') (bits 0xff800000)"),
        (math.nan, "f32", "float('nan')", "float('nan') (bits 0x7fc00000)"),
        (np.float32(0.1), "f32", "0.10000000149011612", "0.10000000149011612 (0x1.99999a0000000p-4, bits 0x3dcccccd)"),
        (-7, "i32", "-7", "-7"),
        (2**64 - 1, "u64", "18446744073709551615", "18446744073709551615"),
        (True, "bool", "True", "True"),
        ([1.0, math.nan, -0.0], "f64", "[1.0, float('nan'), -0.0]", "[1.0, float('nan'), -0.0]"),
        ([], "i64", "[]", "[]"),
    ],
)
def test_values_of_cases_are_expressions_of_python(value: Any, dtype: str, shown: str, exact: str) -> None:
    found = _value(kernel_pb2.NamedTensor(name="x", value=tensor(value, dtype)))
    assert (repr(found), found.exact, found.dtype) == (shown, exact, dtype)
    again = eval(shown)
    assert repr(again) == repr(found.value)
    np.testing.assert_array_equal(tensor(again, dtype).data, tensor(value, dtype).data)


def test_nan_of_another_payload_is_told_by_its_bits() -> None:
    bits = 0x7FF0000000000ABC
    message = tensor_pb2.Tensor(dtype=tensor_pb2.DTYPE_F64, data=struct.pack("<Q", bits))
    found = _value(kernel_pb2.NamedTensor(name="x", value=message))
    assert found.bits == bits and found.exact == "float('nan') (bits 0x7ff0000000000abc)"
    assert isinstance(found, CaseValue)


def test_a_report_counts_what_differs_by_itself(local: Client) -> None:
    report = local.verify(double, double, count=1)
    changed = {**vars(report), "nondeterministic": 3, "outcome_mismatches": 2, "passed": False, "failed": 5}
    lines = repr(VerifyReport(**changed)).splitlines()
    assert lines[-2:] == [
        "Cases that fail by their outcomes: 2",
        "Cases with different results when they ran again: 3",
    ]


def test_the_asyncio_client_verifies_as_well(daemon: FakeDaemon) -> None:
    async def run() -> None:
        async with AsyncClient(daemon.target, timeout=10, max_message_bytes=1000) as client:
            assert await client.verify(double, double, count=10)
            with pytest.raises(ValueError, match="count: expected an integer of at least 1, got 0"):
                await client.verify(double, double, count=0)
            with pytest.raises(ValueError, match="cases: expected at least one case, got none"):
                await client.assert_equivalent(double, double, cases={"x": []})
            report = await client.verify(wrong_above, double, cases={"x": np.arange(1000.0)})
            assert (report.cases, report.failed, len(daemon.verify.chunks) > 8) == (1000, 500, True)
            with pytest.raises(AssertionError, match="Falsifying case"):
                await client.assert_equivalent(wrong_above, double, cases={"x": [LIMIT]})
            daemon.verify.refusal = ("header.kernel.source", "line 2, column 0: no (unsupported_type)")
            with pytest.raises(TranslationError):
                await client.verify(double, double)

    asyncio.run(run())
