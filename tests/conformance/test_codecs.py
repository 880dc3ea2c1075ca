"""Compares some of the parser's codecs with the running Python's; `just conformance` compares all."""

from __future__ import annotations

import subprocess
import sys

import encodings_check
import pytest
import tools

GENERATE = tools.ROOT / "kernels" / "parser" / "codecs" / "generate.py"


def test_the_committed_tables_are_those_of_this_python() -> None:
    done = subprocess.run([sys.executable, GENERATE, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_names_and_short_sequences_decode_as_this_python_decodes_them(capsys: pytest.CaptureFixture[str]) -> None:
    program = tools.built_parser()
    if program is None:
        pytest.skip("no parser: cargo build --package accelerd-parser --example columns")
    differs = encodings_check.main(str(program), "cp1255", "euc_jp", "iso2022_jp_2", "koi8_t", "utf_7")
    assert not differs, capsys.readouterr().out
