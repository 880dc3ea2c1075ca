"""Adds the programs and the data of a staged installation to the wheel.

`ACCELERD_PREFIX` is its folder, with `bin` and `share`, and `ACCELERD_PLATFORM` the tag of the platforms that it runs
on.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Programs(BuildHookInterface[Any]):
    """Build hook."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        prefix = Path(os.environ["ACCELERD_PREFIX"])
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{os.environ['ACCELERD_PLATFORM']}"
        build_data["shared_scripts"] = {str(program): program.name for program in (prefix / "bin").iterdir()}
        build_data["force_include"][str(prefix / "share")] = f"accelerd_server-{self.metadata.version}.data/data/share"
