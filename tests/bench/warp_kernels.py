"""Kernels of Warp's test modules: those that the modules and their tests make, compiled apart from each other."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import signal
import time
import unittest
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

if TYPE_CHECKING:
    from warp_execution import Work

# Seconds of a test, and of all tests of a module, that run for the kernels that they make.
TEST_SECONDS, TESTS_SECONDS = 5.0, 60.0


def captured() -> tuple[list[wp.Kernel], Callable[[], None]]:
    """Return a list that gets all kernels that are made from now on."""
    kernels: list[wp.Kernel] = []
    original = wp.Kernel.__init__

    def recording(self: wp.Kernel, *arguments: Any, **keywords: Any) -> None:
        original(self, *arguments, **keywords)
        kernels.append(self)

    def restore() -> None:
        wp.Kernel.__init__ = original

    wp.Kernel.__init__ = recording
    return kernels, restore


def import_tests(work: Work, import_only: bool) -> dict[tuple[str, int], list[wp.Kernel]]:
    """Return the module's kernels by name and line. A function may make several of one text."""
    import warp.tests

    warp.tests.__path__ = [str(work.folder)]
    kernels, restore = captured()
    wanted = {(case.name, case.line) for case in work.cases} | {(name, line) for name, line, _ in work.others}
    try:
        module = importlib.import_module(f"warp.tests.{work.module}")
        made = {(one.func.__code__.co_name, one.func.__code__.co_firstlineno) for one in kernels}
        # Launches determine the types of generic kernels.
        is_open = any(one.is_generic and not one.overloads for one in kernels)
        if not import_only and (wanted - made or is_open):
            run_tests(module)
    finally:
        restore()
    path = os.path.realpath(module.__file__ or "")
    found: dict[tuple[str, int], list[wp.Kernel]] = {}
    for kernel in kernels:
        code = kernel.func.__code__
        if os.path.realpath(code.co_filename) == path:
            # Of a generic kernel, those that the tests make of it.
            instances = list(kernel.overloads.values()) or [kernel]
            found.setdefault((code.co_name, code.co_firstlineno), []).extend(instances)
    return found


def instantiate(kernel: Any, *arguments: Any, **keywords: Any) -> None:
    """In place of a launch, make the overload of a generic kernel that it would run."""
    if not getattr(kernel, "is_generic", False):
        return
    names = ("dim", "inputs", "outputs")
    given = {**dict(zip(names, arguments, strict=False)), **keywords}
    values = [*(given.get("inputs") or ()), *(given.get("outputs") or ())]
    kernel.add_overload(kernel.infer_argument_types(values))


def run_tests(module: Any) -> None:
    """Run the module's tests, in which launches and checks do nothing, for the kernels that their functions make."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    launch, wp.launch = wp.launch, instantiate
    launch_tiled, wp.launch_tiled = wp.launch_tiled, instantiate
    for check in [name for name in dir(unittest.TestCase) if re.match("assert[A-Z]", name)]:
        if check not in ("assertRaises", "assertRaisesRegex", "assertWarns", "assertLogs"):
            setattr(unittest.TestCase, check, lambda *_, **__: None)
    for check in ("assert_np_equal", "assert_array_equal"):
        if hasattr(module, check):
            setattr(module, check, lambda *_, **__: None)
    for check in ("assert_equal", "assert_allclose", "assert_array_equal", "assert_almost_equal", "assert_array_less"):
        setattr(np.testing, check, lambda *_, **__: None)
    signal.signal(signal.SIGALRM, stop)
    tests = list(cases_of(unittest.defaultTestLoader.loadTestsFromModule(module)))
    until = time.monotonic() + TESTS_SECONDS
    for test in tests:
        if (left := until - time.monotonic()) <= 0:
            break
        signal.setitimer(signal.ITIMER_REAL, min(left, TEST_SECONDS))
        with contextlib.suppress(BaseException):
            test.run(unittest.TestResult())
        signal.setitimer(signal.ITIMER_REAL, 0)
    wp.launch, wp.launch_tiled = launch, launch_tiled


def cases_of(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from cases_of(one)
        else:
            yield one


def compiled_apart(kernels: list[wp.Kernel], name: str) -> list[wp.Kernel]:
    """Return equal kernels in a module of their own, without gradients and without contraction to fused multiply-adds."""
    module = wp._src.context.Module(name)
    module.options |= {"enable_backward": False, "fuse_fp": False, "block_dim": 1}
    return [apart(kernel, f"{kernel.func.__name__}_{nth}", module) for nth, kernel in enumerate(kernels)]


def apart(kernel: wp.Kernel, key: str, module: Any) -> wp.Kernel:
    """Return an equal kernel in a module."""
    made = wp.Kernel(kernel.func, key=key, module=module, source=kernel.adj.source)
    if kernel.is_generic or not made.is_generic:
        return made
    return made.add_overload([argument.type for argument in kernel.adj.args])


def load(kernels: list[wp.Kernel], module: str) -> list[wp.Kernel | str]:
    """Return kernels that Warp has compiled, or Warp's message."""

    def compiled(some: list[wp.Kernel], name: str) -> list[wp.Kernel]:
        apart = compiled_apart(some, name)
        if not apart[0].module.load("cpu", 1):
            raise RuntimeError("Warp cannot compile it")
        return apart

    def each(nth: int) -> wp.Kernel | str:
        try:
            return compiled([kernels[nth]], f"{module}_{nth}")[0]
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    try:
        return list(compiled(kernels, module)) if kernels else []
    except Exception:
        return [each(nth) for nth in range(len(kernels))]


def is_refused(kernel: wp.Kernel, name: str) -> bool:
    """Return whether Warp itself cannot translate a kernel, as tests of its errors expect."""
    if kernel.is_generic:
        return False
    try:
        module = compiled_apart([kernel], name)[0].module
        wp._src.context.ModuleBuilder(module, module.options, target="cpu")
    except Exception:
        return True
    return False
