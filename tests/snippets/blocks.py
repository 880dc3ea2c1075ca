"""The blocks of code in documents and docstrings, and which of them do not run.

A comment before a block says how it is treated: `<!-- snippet: skip REASON -->` does not run it, `<!-- snippet: file NAME -->` writes it to a file
of this name, which other blocks read, and `<!-- snippet: output -->` compares it with what the block before it printed.
"""

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("README.md", "SECURITY.md", "docs/*.md", "docs/tutorials/*.md", "client/README.md", "client/*/README.md", "client/portalis/*/README.md")
    for path in ROOT.glob(pattern)
)
#: Modules with examples in docstrings.
MODULES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("client/python/src", "client/portalis/python/src")
    for path in (ROOT / folder).rglob("*.py")
    if "```" in path.read_text() and not path.name.startswith("_aio_")
)
#: Blocks that other tests run: those of a language, or of a document.
ELSEWHERE = {
    "cpp": "the tests of client/cpp",
    "go": "the tests of client/go, and tests/deploy/test_stubs.py",
    "java": "the tests of client/java",
    "js": "tests/http/test_documents.py",
    "ts": "the tests of client/typescript",
    "typescript": "the tests of client/typescript",
    "docs/http.md": "tests/http/test_documents.py",
    "rust,no_run": "the documentation tests of its crate",
}
#: Blocks of the first page, by their first words, which no comments may stand between.
README = {
    "cargo install": "skip builds and installs this repository, as the recipes `quickstart` and `ci` do",
    "python3 tests/minilm": "skip downloads a model of 80 MB; the recipe `minilm` runs these commands",
}
_BLOCK = re.compile(r"(?:<!-- snippet: (?P<mark>[^>]*) -->\s*)?^(?P<indent> *)```(?P<language>[^\s`]*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A block of code."""

    document: str
    #: Line of its first line.
    line: int
    language: str
    text: str
    #: Why it does not run here; empty if it does.
    skip: str
    #: The file that it is written to; empty if it has none.
    file: str
    #: Whether it is what the block before it prints.
    is_output: bool

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}"


def blocks(document: str) -> list[Block]:
    """The blocks of a document, in order."""
    text = (ROOT / document).read_text()
    found = []
    for match in _BLOCK.finditer(text):
        language, code = match["language"], textwrap.dedent(match["text"])
        mark = match["mark"] or ""
        if not language and mark != "output":
            continue
        if document == "README.md":
            mark = next((known for first, known in README.items() if code.startswith(first)), "")
        kind, _, rest = mark.partition(" ")
        assert kind in ("", "skip", "file", "output"), f"{document}: an unknown comment, {mark!r}"
        elsewhere = ELSEWHERE.get(document) or ELSEWHERE.get(language)
        skip = f"run by {elsewhere}" if elsewhere else rest if kind == "skip" else ""
        line = text.count("\n", 0, match.start("text")) + 1
        found.append(Block(document, line, language, code, skip, rest if kind == "file" else "", kind == "output"))
    return found
