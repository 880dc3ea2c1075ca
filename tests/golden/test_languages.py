"""The golden suites of the clients in other languages, each by its own test runner. `client/LANGUAGE/test` builds and runs one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What a script ends with where it cannot install its language.
NOT_INSTALLABLE = 77
LANGUAGES = sorted(script.parent.name for script in ROOT.glob("client/*/test") if script.is_file())


def test_every_client_has_a_suite() -> None:
    assert LANGUAGES == ["cpp", "go", "java", "typescript"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_suite(language: str, golden: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    done = subprocess.run(["bash", ROOT / "client" / language / "test"], env={**os.environ, **golden})
    output = capfd.readouterr()
    if done.returncode == NOT_INSTALLABLE:
        pytest.skip(output.err.strip())
    assert done.returncode == 0, output.out + output.err
