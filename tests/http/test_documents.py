"""The examples of docs/http.md and docs/python.md run."""

from __future__ import annotations

import re
import subprocess

import pytest
from accelerd import Client
from conftest import ROOT, Daemon, Node

EXAMPLES = re.findall(r"^```(python|js|sh)\n(.*?)^```$", (ROOT / "docs/http.md").read_text(), re.MULTILINE | re.DOTALL)

PYTHON = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/python.md").read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("language", "text"), EXAMPLES, ids=[text.splitlines()[0] for _, text in EXAMPLES])
def test_an_example_runs(daemon: Daemon, node: Node, language: str, text: str) -> None:
    text = text.replace("http://localhost:7436", daemon.url)
    if language == "python":
        exec(text, {})
    elif language == "js":
        node(text)
    else:
        done = subprocess.run(["bash", "-ec", text.replace("curl ", "curl --silent --show-error --fail ")], capture_output=True)
        assert done.returncode == 0 and b'"embeddings"' in done.stdout, done


def test_each_language_has_examples() -> None:
    assert {language for language, _ in EXAMPLES} == {"python", "js", "sh"} and len(EXAMPLES) > 8


@pytest.mark.parametrize("text", PYTHON)
def test_an_example_of_the_python_client_runs(
    daemon: Daemon, client: Client, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("ACCELERD_SERVER", daemon.grpc)
    exec(text, {})
    # What an example makes is gone at its end, so that it runs again.
    assert client.collections() == []


def test_each_library_has_an_example() -> None:
    assert len(PYTHON) == 7
