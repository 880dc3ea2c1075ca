"""The plugin of pytest and `equivalent`: tests that run in a pytest of their own, against a daemon in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_daemon import FakeDaemon, serving

from accelerd.testing import equivalent, floats

pytest_plugins = ["pytester"]

TESTS = """
import pytest
from accelerd.testing import equivalent, floats, integers


def double(x: float) -> float:
    return 2.0 * x


def wrong_above(x: float) -> float:
    return 2.0 * x if x < 500.0 else x
"""

PASSING = """
@equivalent(reference=double, wasm="double.wasm", function="f", count=30, x=floats(-1.0, 1.0), rtol=0.5)
def test_the_translation(report, tmp_path):
    assert report.cases == 30 and tmp_path.exists()


class TestMethods:
    @equivalent(reference=double, subject=double, count=5, device="cuda")
    def test_a_method(self, accelerd_client, report):
        assert accelerd_client.list_kernels() == [] and type(self) is TestMethods
        assert report.gpu_decided_count == 5


@pytest.mark.parametrize("times", [1, 2])
@equivalent(reference=double, subject=double, cases={"x": [1.0]})
def test_a_parametrized_one(times):
    assert times in (1, 2)


def test_the_fixture(accelerd_client):
    accelerd_client.assert_equivalent(double, double, count=5)
"""

FAILING = """
@equivalent(reference=double, subject=wrong_above, count=40, seed=9, x=floats(0.0, 1000.0))
def test_it(report):
    raise SystemError("the function of a test runs only if all cases pass")
"""


@pytest.fixture(scope="module")
def daemon() -> Iterator[FakeDaemon]:
    with serving() as daemon:
        daemon.verify.modules[b"\0asm double"] = lambda x: 2.0 * x
        yield daemon


@pytest.fixture(autouse=True)
def _only_this_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    # An installed package would load the plugin once more.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("ACCELERD_SERVER", raising=False)


def run(pytester: pytest.Pytester, tests: str, *arguments: str) -> pytest.RunResult:
    (pytester.path / "double.wasm").write_bytes(b"\0asm double")
    pytester.makepyfile(TESTS + tests)
    return pytester.runpytest_inprocess("-p", "accelerd.testing.plugin", "-p", "no:cacheprovider", *arguments)


def test_equivalent_functions_pass(pytester: pytest.Pytester, daemon: FakeDaemon) -> None:
    run(pytester, PASSING, "--accelerd-target", daemon.target).assert_outcomes(passed=5)
    header = daemon.verify.headers[0]
    assert (header.wasm.function, header.generator.case_count, header.generator.seed) == ("f", 30, 0)
    assert header.generator.domains["x"].max == 1.0 and header.policy.tolerances[0].close.rtol == 0.5


def test_a_path_is_relative_to_the_root(pytester: pytest.Pytester, daemon: FakeDaemon) -> None:
    (pytester.path / "folder").mkdir()
    target = f"--accelerd-target={daemon.target}"
    result = run(pytester, PASSING, target, f"--rootdir={pytester.path}", "-k", "translation")
    result.assert_outcomes(passed=1, deselected=4)


ROOTED = """
import pathlib
import accelerd

MODULE = "wasm/double.wasm"


@pytest.mark.parametrize("path", [MODULE, pathlib.Path(MODULE), accelerd.Wasm(MODULE, "f")])
def test_the_fixture(accelerd_client, path):
    accelerd_client.assert_equivalent(path, double, count=5)
    assert accelerd_client.verify(double, path, count=5)


@equivalent(reference=MODULE, subject=double, count=5)
def test_the_reference():
    pass
"""


def test_paths_are_relative_to_the_root_in_another_folder(
    pytester: pytest.Pytester, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("wasm", "elsewhere"):
        (pytester.path / folder).mkdir()
    (pytester.path / "wasm" / "double.wasm").write_bytes(b"\0asm double")
    test = pytester.makepyfile(TESTS + ROOTED)
    monkeypatch.chdir(pytester.path / "elsewhere")
    arguments = ("-p", "accelerd.testing.plugin", "-p", "no:cacheprovider", f"--rootdir={pytester.path}", test)
    pytester.runpytest_inprocess(*arguments, f"--accelerd-target={daemon.target}").assert_outcomes(passed=4)


def test_a_failure_shows_the_falsifying_case_and_how_to_reproduce_it(
    pytester: pytest.Pytester, daemon: FakeDaemon
) -> None:
    result = run(pytester, FAILING, "--accelerd-target", daemon.target)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "double: * of 40 cases fail (seed=9)",
            "*Falsifying case: double(x=1000.0)",
            "*subject:   1000.0 (0x1.f400000000000p+9, bits 0x408f400000000000)",
            "*reference: 2000.0 (*",
            "*minimal passing tolerance: atol=*",
            "*Reproduce with seed=9",
        ]
    )
    assert "SystemError" not in result.stdout.str() and "_equivalent.py" not in result.stdout.str()


def test_the_seed_can_be_replaced(pytester: pytest.Pytester, daemon: FakeDaemon) -> None:
    result = run(pytester, FAILING, "--accelerd-target", daemon.target, "--accelerd-seed=12")
    result.stdout.fnmatch_lines(["*Reproduce with seed=12"])
    assert daemon.verify.headers[-1].generator.seed == 12


def test_an_assertion_is_shown_at_the_line_of_the_test(pytester: pytest.Pytester, daemon: FakeDaemon) -> None:
    tests = "\ndef test_it(accelerd_client):\n    accelerd_client.assert_equivalent(wrong_above, double, count=50)\n"
    result = run(pytester, tests, "--accelerd-target", daemon.target)
    result.stdout.fnmatch_lines(
        [">*accelerd_client.assert_equivalent(*", "E*AssertionError: double: * of 50 cases fail*"]
    )
    assert "_verify_report.py" not in result.stdout.str()


def test_given_cases_have_no_seed(pytester: pytest.Pytester, daemon: FakeDaemon) -> None:
    tests = (
        '\n@equivalent(reference=double, subject=wrong_above, cases={"x": [1.0, 500.0]})\ndef test_it():\n    pass\n'
    )
    result = run(pytester, tests, "--accelerd-target", daemon.target)
    result.stdout.fnmatch_lines(["double: 1 of 2 cases fail"])
    assert "Reproduce" not in result.stdout.str()


def test_the_target_is_that_of_the_settings_or_the_environment(
    pytester: pytest.Pytester, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCELERD_SERVER", daemon.target)
    run(pytester, PASSING).assert_outcomes(passed=5)
    monkeypatch.setenv("ACCELERD_SERVER", "127.0.0.1:1")
    pytester.makeini(f"[pytest]\naccelerd_target = {daemon.target}\n")
    run(pytester, PASSING).assert_outcomes(passed=5)


def test_a_missing_daemon_is_an_error_unless_it_may_be_skipped(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accelerd.testing.plugin._TIMEOUT", 0.5)
    target = "--accelerd-target=127.0.0.1:1"
    result = run(pytester, FAILING, target)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["no daemon at 127.0.0.1:1: *; start one with `accelerd serve`, or name it by *"])
    run(pytester, FAILING, target, "--accelerd-skip").assert_outcomes(skipped=1)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(TypeError, match="expected either subject or wasm, got neither"):
        equivalent(reference="f")
    with pytest.raises(TypeError, match="expected either subject or wasm, got both"):
        equivalent(reference="f", subject="f", wasm=b"")
    with pytest.raises(TypeError, match=r"y: expected domains such as floats\(\), or options of verify\(\), got tuple"):
        equivalent(reference="f", subject="f", x=floats(), y=(0, 1))


def test_functions_whose_bodies_do_not_run_are_refused() -> None:
    async def test() -> None:
        raise AssertionError

    async def generator() -> Any:
        yield

    def yields() -> Any:
        yield

    for given, kind in ((test, "async def"), (generator, "async def"), (yields, "a generator")):
        message = rf"test: expected a function whose body runs .*, got {kind} .*{given.__name__}$"
        with pytest.raises(TypeError, match=message):
            equivalent(reference="f", subject="f")(given)


def test_the_package_names_the_plugin() -> None:
    project = (Path(__file__).resolve().parents[1] / "pyproject.toml").read_text()
    assert '[project.entry-points.pytest11]\naccelerd = "accelerd.testing.plugin"\n' in project
