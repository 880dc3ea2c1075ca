"""The committed stubs are what the .proto files say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def test_the_stubs_are_up_to_date() -> None:
    pytest.importorskip("grpc_tools")
    script = Path(__file__).resolve().parents[1] / "generate.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
