"""Compiles the optional C extension `accelerd._node_builder`, which builds `ast` trees several times as fast as Python.

    python build_extension.py [FOLDER]

writes it into FOLDER, by default next to the package's sources. `hatch_build.py` calls it for wheels. From Python 3.11
on it has the stable ABI, so that one build serves all later versions. The environment variable CC names another
compiler.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent / "src" / "accelerd"
SOURCE = PACKAGE / "_node_builder.c"


class CompileError(Exception):
    """The compiler or Python.h is missing, or the compiler failed."""


#: The first version of CPython whose stable ABI has buffers, and the macro that asks for it.
STABLE_ABI = (3, 11)
STABLE_ABI_MACRO = "-DPy_LIMITED_API=0x030B0000"


def has_stable_abi() -> bool:
    """Return whether the extension has the stable ABI when the running Python builds it."""
    return sys.implementation.name == "cpython" and sys.version_info >= STABLE_ABI


def file_name() -> str:
    """Return the extension's file name for the running Python."""
    return SOURCE.stem + (".abi3.so" if has_stable_abi() else str(sysconfig.get_config_var("EXT_SUFFIX")))


def compile_extension(folder: Path) -> Path:
    """Compile into a folder, with the C compiler of the running Python's build or `cc`."""
    include = sysconfig.get_path("include")
    if not Path(include, "Python.h").exists():
        raise CompileError(f"there is no {include}/Python.h")
    target = folder / file_name()
    flags = ["-O2", "-shared", "-fPIC", f"-I{include}", str(SOURCE), "-o", str(target)]
    if has_stable_abi():
        flags.append(STABLE_ABI_MACRO)
    if sys.platform == "darwin":
        flags += ["-undefined", "dynamic_lookup"]
    failures = []
    for compiler in dict.fromkeys([os.environ.get("CC") or str(sysconfig.get_config_var("CC") or "cc"), "cc"]):
        try:
            done = subprocess.run([*shlex.split(compiler), *flags], capture_output=True, text=True)
        except OSError as missing:
            failures.append(f"{compiler}: {missing.strerror}")
            continue
        if done.returncode == 0:
            return target
        failures.append(f"{compiler}: {done.stderr.strip()}")
    raise CompileError("; ".join(failures))


if __name__ == "__main__":
    try:
        print(compile_extension(Path(sys.argv[1]) if len(sys.argv) > 1 else PACKAGE))
    except CompileError as failed:
        sys.exit(f"not compiled: {failed}")
