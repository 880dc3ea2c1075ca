"""The code of documents and docstrings runs, and prints what it says that it prints."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import doctest
import inspect
import io
import json
import linecache
import os
import re
import signal
import subprocess
import sys
import tokenize
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import blocks
import pytest
import yaml
from accelerd import _default_client
from blocks import Block
from conftest import PROGRAM, Daemon
from portalis_cuda import _daemon

HERE = Path(__file__).parent
FOLLOWS = "--watch"
#: Rates and times, which differ from run to run.
VARIES = re.compile(r"[\d,.]+[kM]? cases/s|[\d.]+ ?m?s\b")
#: Seconds of a command.
TIMEOUT = 120


class Run:
    """A run of the blocks of a document, in a folder of its own."""

    def __init__(self, document: str, folder: Path, daemon: Daemon, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.daemon = folder, daemon
        self.module = ModuleType("snippets")
        self.module.__file__ = str(folder / (document.replace("/", "_") + ".py"))
        #: Texts of the document, and what stands for them here.
        self.replaced: dict[str, str] = {}
        #: Code that runs before the block with a text.
        self.before: dict[str, str] = {}
        #: Settings to check at the end, when all files that they name are written.
        self.settings: list[Path] = []
        for name, value in {
            "ACCELERD_BIN": str(PROGRAM),
            "ACCELERD__SERVER__HEALTH_LISTEN": f"127.0.0.1:{daemon.ports['7435']}",
            "ACCELERD_SERVER": f"http://127.0.0.1:{daemon.ports['7433']}",
            "NO_COLOR": "1",
            "PATH": f"{HERE / 'bin'}:{PROGRAM.parent}:{os.environ['PATH']}",
            "SNIPPETS_HTTP": f"http://127.0.0.1:{daemon.ports['7436']}",
        }.items():
            patch.setenv(name, value)
        patch.chdir(folder)
        patch.setitem(sys.modules, self.module.__name__, self.module)
        # The clients of a process are those of the daemon of the document before.
        for module in (_default_client, _daemon):
            module._client_of.cache_clear()
        self.source = [""] * len((blocks.ROOT / document).read_text().splitlines())
        vars(self.module).update(folder=folder, root=blocks.ROOT, replaced=self.replaced, before=self.before)
        given = HERE / "given" / (document.replace("/", "_").replace(".", "_") + ".py")
        if given.exists():
            exec(compile(given.read_text(), given, "exec"), vars(self.module))

    def text(self, block: Block) -> str:
        """The code with the addresses of the daemon of the test."""
        text = block.text
        for old, new in self.replaced.items():
            text = text.replace(old, new)
        address = re.compile(r"\b(?:localhost|127\.0\.0\.1):(743[3-6])\b")
        return address.sub(lambda found: f"127.0.0.1:{self.daemon.ports[found[1]]}", text)

    def prepare(self, block: Block) -> None:
        for text, code in self.before.items():
            if text in block.text:
                exec(code, vars(self.module))

    def python(self, block: Block) -> None:
        text = self.text(block)
        # Functions find their source in a file that has the lines of the document.
        self.source[block.line - 1 : block.line - 1 + text.count("\n")] = text.splitlines()
        Path(self.module.__file__ or "").write_text("\n".join(self.source))
        linecache.checkcache(self.module.__file__)
        comments = comments_of(text)
        printed = io.StringIO()
        self.printed = printed.getvalue
        for statement in ast.parse(text).body:
            last = statement.end_lineno or 0
            ast.increment_lineno(statement, block.line - 1)
            raised = [AssertionError] if "raises an AssertionError" in comments.get(last, "") else []
            value = None
            with contextlib.redirect_stdout(printed), contextlib.suppress(*raised):
                value = self.executed(statement)
            with contextlib.suppress(ValueError, SyntaxError):
                if isinstance(statement, ast.Expr) and not is_print(statement.value) and last in comments:
                    expected = ast.literal_eval(comments[last])
                    assert value == expected, f"expected {expected!r}, got {value!r}"
        prints = [node for node in ast.walk(ast.parse(text)) if is_print(node) and node.end_lineno in comments]
        lines = iter(printed.getvalue().splitlines())
        for node in sorted(prints, key=lambda node: node.lineno):
            expected = comments[node.end_lineno]
            assert expected in lines, f"expected to print {expected!r}, got {printed.getvalue()!r}"

    def executed(self, statement: ast.stmt) -> object:
        """The value of a statement that is an expression."""
        is_value = isinstance(statement, ast.Expr)
        tree = ast.Expression(statement.value) if is_value else ast.Module([statement], [])
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(tree, self.module.__file__ or "", "eval" if is_value else "exec", flags, True)
        value = eval(code, vars(self.module))
        return asyncio.run(value) if code.co_flags & inspect.CO_COROUTINE else value

    def sh(self, block: Block) -> None:
        printed = self.command(self.text(block))
        self.printed = lambda: printed

    def output(self, block: Block) -> None:
        got = self.printed()
        if block.language == "json":
            same = json.loads(VARIES.sub("*", got)) == json.loads(VARIES.sub("*", block.text))
        else:
            same = is_printed(block.text, got)
        assert same, f"expected\n{block.text}\ngot\n{got}"

    def console(self, block: Block) -> None:
        for step in re.split(r"^\$ ", self.text(block), flags=re.MULTILINE)[1:]:
            command, _, expected = step.partition("\n")
            if FOLLOWS in command.split():
                self.followed(command)
                continue
            got = self.command(command)
            assert not expected or is_printed(expected, got), f"$ {command}\n{got}"

    def command(self, command: str) -> str:
        """What a command prints."""
        shell = ["bash", "-euo", "pipefail", "-c", command]
        done = subprocess.run(shell, capture_output=True, text=True, timeout=TIMEOUT)
        expected = int(found[1]) if (found := re.search(r"# exit code (\d+)$", command.strip())) else 0
        assert done.returncode == expected, f"$ {command}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def followed(self, command: str) -> None:
        """Run a command that follows changes until it says so, and interrupt it."""
        words = ["bash", "-c", f"exec {command}"]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert process.stdout is not None
        shown = ""
        for line in process.stdout:
            shown += line
            if "watching for changes" in line:
                process.send_signal(signal.SIGINT)
                break
        process.communicate(timeout=TIMEOUT)
        assert "watching for changes" in shown, f"$ {command}\n{shown}"

    def toml(self, block: Block) -> None:
        named = re.match(r"# (\w+\.toml)\b", block.text)
        path = self.folder / (block.file or (named[1] if named else "accelerd.toml"))
        path.write_text(self.text(block))
        # Other files are read by blocks after them, or by the settings that name them.
        if not block.file and (not named or path.name == "accelerd.toml"):
            self.settings.append(path)

    def json(self, block: Block) -> None:
        text = self.text(block)
        json.loads(text)
        if block.file:
            (self.folder / block.file).write_text(text)

    def yaml(self, block: Block) -> None:
        text = self.text(block)
        list(yaml.safe_load_all(text))
        if block.file:
            (self.folder / block.file).write_text(text)

    def finish(self) -> None:
        for path in self.settings:
            self.command(f"accelerd config check --config {path}")


def is_printed(expected: str, got: str) -> bool:
    """Whether a text is printed, in which ... stands for any text."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(*(VARIES.sub("*", text) for text in (expected, got)), flags)


def comments_of(text: str) -> dict[int, str]:
    """The comment after the code of each line."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    found = [token for token in tokens if token.type == tokenize.COMMENT and token.line[: token.start[1]].strip()]
    return {token.start[0]: token.string.removeprefix("#").strip() for token in found}


def is_print(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"


RUNNERS: dict[str, Callable[[Run, Block], None]] = {
    "python": Run.python,
    "sh": Run.sh,
    "console": Run.console,
    "toml": Run.toml,
    "json": Run.json,
    "yaml": Run.yaml,
    # The test of the generated program has them.
    "rust": lambda run, block: None,
}


def with_blocks(documents: list[str]) -> list[str]:
    return [document for document in documents if blocks.blocks(document)]


@pytest.mark.parametrize("document", with_blocks([*blocks.DOCUMENTS, *blocks.MODULES]))
def test_a_document_runs(document: str, tmp_path: Path, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(document, tmp_path, daemon, monkeypatch)
    problems = []
    # A document shows some files after the commands that read them.
    for block in sorted(blocks.blocks(document), key=lambda block: not block.file):
        try:
            if block.is_output:
                run.output(block)
            elif not block.skip:
                assert block.language in RUNNERS, f"no test runs blocks of {block.language}"
                run.prepare(block)
                RUNNERS[block.language](run, block)
            elif block.language == "python":
                compile(block.text, block.place, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except Exception as problem:
            problems.append(f"{block.place}: {type(problem).__name__}: {problem}")
    if not problems:
        run.finish()
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("text", ["1 + 1  # 3\n", "print(4)  # 5\n", "if True:\n    print('a')  # b\n", "undefined\n"])
def test_a_wrong_snippet_fails(text: str, tmp_path: Path, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run("CONTRIBUTING.md", tmp_path, daemon, monkeypatch)
    with pytest.raises((AssertionError, NameError)):
        run.python(Block("CONTRIBUTING.md", 1, "python", text, "", "", False))
    run.python(Block("CONTRIBUTING.md", 1, "python", "1 + 1  # 2\nprint(4)  # 4\n[2]  # a list\n", "", "", False))


def test_a_command_that_fails_or_prints_something_else_fails(tmp_path: Path, daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run("CONTRIBUTING.md", tmp_path, daemon, monkeypatch)
    for text in ("$ false\n", "$ echo a\nb\n", "$ true    # exit code 1\n"):
        with pytest.raises(AssertionError):
            run.console(Block("CONTRIBUTING.md", 1, "console", text, "", "", False))
    run.console(Block("CONTRIBUTING.md", 1, "console", "$ echo a b; echo c\na ...\nc\n$ false    # exit code 1\n", "", "", False))
    with pytest.raises(AssertionError, match="unknown field"):
        run.toml(Block("CONTRIBUTING.md", 1, "toml", "[servers]\n", "", "", False))
        run.finish()


def rust_program() -> str:
    """A program with all blocks of Rust, each in a function."""
    parts = [
        "//! The Rust of the documents, so that it compiles: written by `python3 tests/snippets/test_snippets.py`.",
        "#![allow(unused, reason = \"nothing calls it\")]",
        "#![allow(clippy::pedantic, clippy::unused_async, reason = \"it stands as in the documents\")]",
        "",
        "use accelerd_client::{Client, Error, Pem};",
        "",
        "fn main() {}",
    ]
    for document in blocks.DOCUMENTS:
        for at, block in enumerate(one for one in blocks.blocks(document) if one.language == "rust" and not one.skip):
            name = re.sub(r"\W+", "_", document.removesuffix(".md")).lower()
            body = "".join(f"    {line}\n" if line else "\n" for line in block.text.splitlines())
            parts += ["", f"/// Of {document}.", f"async fn {name}_{at}(token: String) -> Result<(), Error> {{\n{body}    Ok(())\n}}"]
    return "\n".join(parts) + "\n"


RUST = blocks.ROOT / "client/examples/snippets.rs"


def test_the_rust_of_documents_is_compiled() -> None:
    assert RUST.read_text() == rust_program()


if __name__ == "__main__":
    RUST.write_text(rust_program())
