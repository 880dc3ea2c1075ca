"""The decorator `equivalent` of tests."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._blocking_client import Client
from .._domain import Domain
from .._function import Computed, Wasm, WasmBuffer, is_module_path
from .._launch import KernelDevice
from .._tensor import Dtype
from .._verification import Cases, VerifyOptions

if TYPE_CHECKING:
    import pytest

#: What a decorated test takes besides its own fixtures.
_FIXTURES = ("accelerd_client", "pytestconfig")
_REPORT = "report"


def equivalent(
    *,
    reference: Computed,
    subject: Computed | None = None,
    wasm: bytes | str | os.PathLike[str] | None = None,
    function: str = "",
    params: Mapping[str, Dtype | WasmBuffer] | None = None,
    results: Mapping[str, Dtype] | None = None,
    share_instance: bool = False,
    cases: Cases | None = None,
    count: int | None = None,
    seed: int = 0,
    domains: Mapping[str, Domain] | None = None,
    device: KernelDevice | None = None,
    timeout: float | None = None,
    **named: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a test that a subject computes what a reference computes.

    The test fails with the falsifying cases, and a line that says how to reproduce them. If all cases pass, the
    function runs; it may have a parameter `report`, which is the `VerifyReport`, and fixtures.

    Args:
        reference: What is right, as in `Client.verify`.
        subject: What is verified, as in `Client.verify`. Either this or `wasm` is given.
        wasm: A WebAssembly module, or its path, which is relative to pytest's root directory.
        function: The function of `wasm`, as are `params`, `results` and `share_instance`: see `Wasm`.
        cases: As in `Client.verify`.
        count: As in `Client.verify`.
        seed: As in `Client.verify`; the option `--accelerd-seed` replaces it.
        domains: Values of inputs whose names are those of other arguments.
        device: As in `Client.verify`.
        timeout: Seconds for the whole verification.
        **named: Values of inputs by name, such as `x=floats(-1.0, 1.0)`, and `VerifyOptions`.
    """
    if (subject is None) == (wasm is None):
        raise TypeError(f"expected either subject or wasm, got {'neither' if subject is None else 'both'}")
    if wasm is not None:
        subject = Wasm(wasm, function, params or {}, results or {}, share_instance)
    found = {name: value for name, value in named.items() if isinstance(value, Domain)}
    options: Any = {name: value for name, value in named.items() if name not in found}
    if unknown := sorted(set(options) - set(VerifyOptions.__annotations__)):
        expected = "domains such as floats(), or options of verify()"
        raise TypeError(f"{unknown[0]}: expected {expected}, got {type(options[unknown[0]]).__name__}")

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        _check_runs(test)
        names = [*inspect.signature(test).parameters]
        has_self = names[:1] == ["self"]
        names = names[has_self:]

        @functools.wraps(test)
        def run(*instance: Any, accelerd_client: Client, pytestconfig: pytest.Config, **fixtures: Any) -> None:
            import pytest  # The package can be used without it.

            chosen = pytestconfig.getoption("accelerd_seed", None)
            report = accelerd_client.verify(
                from_root(subject, pytestconfig.rootpath),
                from_root(reference, pytestconfig.rootpath),
                cases=cases,
                count=count,
                seed=seed if chosen is None else chosen,
                domains={**found, **(domains or {})} or None,
                device=device,
                timeout=timeout,
                **options,
            )
            if not report:
                used = "" if report.seed is None else f"\n\nReproduce with seed={report.seed}"
                pytest.fail(f"{report!r}{used}", pytrace=False)
            own = {"accelerd_client": accelerd_client, "pytestconfig": pytestconfig, _REPORT: report, **fixtures}
            test(*instance, **{name: own[name] for name in names})

        fixtures = dict.fromkeys([*_FIXTURES, *(name for name in names if name != _REPORT)])
        parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in fixtures]
        if has_self:
            parameters.insert(0, inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD))
        # pytest reads which fixtures a test needs from its signature.
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def _check_runs(test: Callable[..., Any]) -> None:
    """Refuse a test whose body does not run when it is called: it would pass."""
    is_async = inspect.iscoroutinefunction(test) or inspect.isasyncgenfunction(test)
    if is_async or inspect.isgeneratorfunction(test):
        kind = "async def" if is_async else "a generator"
        raise TypeError(f"test: expected a function whose body runs when it is called, got {kind} {test.__qualname__}")


def from_root(given: Any, root: Path) -> Any:
    """Return a side of a verification; a path of a module that is relative to a folder as its whole path."""
    if isinstance(given, Wasm) and isinstance(given.module, (str, os.PathLike)):
        return replace(given, module=root / given.module)
    return root / given if is_module_path(given) else given
