"""Adds the C extension to a wheel if it compiles; otherwise the wheel is pure Python with the same functions."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parent))
from build_extension import CompileError, compile_extension


class Extension(BuildHookInterface[Any]):
    """Build hook. `ACCELERD_PURE=1` in the environment builds a pure wheel, which installs on any machine."""

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
        build_data["infer_tag"] = True
