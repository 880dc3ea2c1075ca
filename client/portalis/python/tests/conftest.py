"""Fixtures: a client of a daemon on the CPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import accelerd
import pytest

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(scope="session")
def client() -> Iterator[accelerd.Client]:
    """A client of the daemon at ACCELERD_SERVER, or of one that is started for the tests."""
    if os.environ.get("ACCELERD_SERVER"):
        yield accelerd.Client()
        return
    built = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "accelerd"
    if "ACCELERD_BIN" not in os.environ:
        if not built.exists():
            pytest.skip("no daemon: set ACCELERD_SERVER or ACCELERD_BIN, or cargo build -p accelerd")
        os.environ["ACCELERD_BIN"] = str(built)
    with accelerd.serve(backend="cpu") as client:
        yield client
