"""Adds the C extension to a wheel if it compiles; otherwise the wheel is pure Python with the same functions."""

from __future__ import annotations

import os
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parent))
from build_extension import STABLE_ABI, CompileError, compile_extension, has_stable_abi


class Extension(BuildHookInterface[Any]):
    """Build hook. `ACCELERD_PURE=1` in the environment builds a pure wheel, which installs on any machine.

    `ACCELERD_PLATFORM` is the tag of the platforms that the compiler builds for, if they are not only this machine's.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or os.environ.get("ACCELERD_PURE") == "1":
            return
        folder = Path(tempfile.mkdtemp(prefix="accelerd-"))
        try:
            built = compile_extension(folder)
        except CompileError as failed:
            self.app.display_warning(f"accelerd is built without its C extension: {failed}")
            return
        build_data["force_include"][str(built)] = f"accelerd/{built.name}"
        build_data["pure_python"] = False
        if not has_stable_abi():
            build_data["infer_tag"] = True
            return
        platform = os.environ.get("ACCELERD_PLATFORM") or sysconfig.get_platform()
        platform = platform.replace("-", "_").replace(".", "_")
        build_data["tag"] = f"cp{STABLE_ABI[0]}{STABLE_ABI[1]}-abi3-{platform}"
