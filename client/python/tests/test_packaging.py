"""Tests of wheels: with the C extension if it compiles, pure otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

CLIENT = Path(__file__).resolve().parents[1]


HAS_HEADERS = Path(sysconfig.get_path("include"), "Python.h").exists()
needs_headers = pytest.mark.skipif(not HAS_HEADERS, reason="no headers of this Python")


def wheel(folder: Path, **environment: str) -> tuple[str, set[str]]:
    """Builds a wheel; its name and its files."""
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(
        command, cwd=CLIENT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        return built.name, {name for name in archive.namelist() if name.startswith("accelerd/")}


@needs_headers
def test_a_wheel_has_the_extension_where_it_compiles(tmp_path: Path) -> None:
    name, files = wheel(tmp_path)
    version = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    assert ("-cp311-abi3-" if sys.version_info >= (3, 11) else f"-{version}-{version}-") in name
    assert [file for file in files if file.startswith("accelerd/_node_builder.") and not file.endswith(".c")]


@pytest.mark.parametrize("environment", [{"ACCELERD_PURE": "1"}, {"PATH": ""}], ids=["asked for", "no compiler"])
def test_a_wheel_is_pure_otherwise(tmp_path: Path, environment: dict[str, str]) -> None:
    name, files = wheel(tmp_path, **environment)
    assert name.endswith("-py3-none-any.whl")
    sources = {file.relative_to(CLIENT / "src").as_posix() for file in (CLIENT / "src" / "accelerd").rglob("*.py")}
    assert sources <= files and "accelerd/py.typed" in files
    assert not [file for file in files if file.endswith((".so", ".pyd"))]


@needs_headers
def test_an_installed_wheel_builds_trees_by_the_extension(tmp_path: Path) -> None:
    name, _ = wheel(tmp_path)
    installed = tmp_path / "installed"
    with zipfile.ZipFile(tmp_path / name) as archive:
        archive.extractall(installed)
    code = (
        "import accelerd, accelerd._tree as b; assert b.is_compiled(); print(accelerd.__file__, accelerd.__version__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )
    file, version = done.stdout.split()
    assert file.startswith(str(installed)) and version == name.split("-")[1]
