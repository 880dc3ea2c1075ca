"""The suite of the client for Go, and the Go program of SECURITY.md."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute() / "go"
GO = {
    "GOPATH": str(TARGET / "path"),
    "GOCACHE": str(TARGET / "cache"),
    "GOFLAGS": "-modcacherw",
    "GOTOOLCHAIN": "local",
}


def run(*command: str | Path, variables: dict[str, str]) -> str:
    """Run a command with variables, and return its output."""
    environment = GO | dict(os.environ) | variables
    done = subprocess.run(command, cwd=ROOT / "client/go", env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_go(golden: dict[str, str]) -> None:
    last = run(ROOT / "client/go/test", variables=golden).splitlines()[-1]
    print(last)
    assert last.endswith(" 0 failed, 0 skipped")


def test_the_program_of_the_documentation_runs(golden: dict[str, str], tmp_path: Path) -> None:
    (program,) = re.findall(r"^```go\n(.*?)^```$", (ROOT / "SECURITY.md").read_text(), re.MULTILINE | re.DOTALL)
    program = program.replace("https://accelerd.example.com:7433", golden["ACCELERD_GOLDEN_TLS_TARGET"])
    program = program.replace("ca.pem", golden["ACCELERD_GOLDEN_CA"])
    (tmp_path / "main.go").write_text(program)
    token = {"ACCELERD_TOKEN": golden["ACCELERD_GOLDEN_TOKEN"]}
    assert run("go", "run", tmp_path / "main.go", variables=token) == "[1 256]\n"
