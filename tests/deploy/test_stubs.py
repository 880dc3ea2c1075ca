"""The generated code of the clients in Go, Java and TypeScript is current. Their suites compile it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def generate(*arguments):
    command = [sys.executable, ROOT / "client/generate.py", *arguments]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_committed_code_is_current():
    done = generate("--check")
    assert done.returncode == 0, done.stdout


def test_code_that_is_out_of_date_is_named(tmp_path):
    done = generate("--output", tmp_path, "go")
    assert done.returncode == 0, done.stdout
    (tmp_path / "go/accelerd/v1/error.pb.go").write_text("package accelerdv1\n")
    (tmp_path / "go/accelerd/v1/retired.pb.go").write_text("package accelerdv1\n")
    done = generate("--check", "--output", tmp_path, "go")
    assert done.returncode == 1, done.stdout
    assert "out of date: go/accelerd/v1/error.pb.go, go/accelerd/v1/retired.pb.go;" in done.stdout
