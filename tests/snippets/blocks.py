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
    for pattern in ("README.md", "SECURITY.md", "docs/*.md", "docs/tutorials/*.md", "client/**/README.md")
    for path in ROOT.glob(pattern)
    if "node_modules" not in path.parts
)
#: Modules with examples in docstrings.
MODULES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("client/python/src", "client/portalis/python/src")
    for path in (ROOT / folder).rglob("*.py")
    if "```" in path.read_text() and not path.name.startswith("_aio_")
)
#: Why blocks of a document, or of a language, do not run here.
ELSEWHERE = {
    "cmake": "needs the toolchain of client/cpp",
    "cpp": "needs the toolchain of client/cpp",
    "go": "run by tests/deploy/test_stubs.py, which compiles it",
    "java": "needs the toolchain of client/java",
    "js": "run by tests/http/test_documents.py",
    "ts": "needs the toolchain of client/typescript",
    "typescript": "needs the toolchain of client/typescript",
    "client/cpp/README.md": "needs the toolchain of client/cpp, whose tests make such calls",
    "client/go/README.md": "needs the toolchain of client/go, whose tests make such calls",
    "client/java/README.md": "needs the toolchain of client/java, whose tests make such calls",
    "client/typescript/README.md": "needs the toolchain of client/typescript, whose tests make such calls",
    "docs/http.md": "run by tests/http/test_documents.py",
    "docs/python.md": "run by tests/http/test_documents.py",
    "rust,no_run": "compiled by the documentation tests of its crate",
}
#: Blocks of README.md that are not as others, by their first words; the page itself has no such comments.
README = {
    "cargo install": "skip builds and installs this repository, as the recipes `quickstart` and `ci` do",
    "python3 tests/minilm": "skip downloads a model of 80 MB; the recipe `minilm` runs these commands",
}
_MARK = r"(?:<!-- snippet: (?P<mark>[^>]*) -->\s*)?"
_BLOCK = re.compile(_MARK + r"^ *```(?P<language>[^\s`]*)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)


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
        # Settings are checked wherever they are.
        elsewhere = language != "toml" and ELSEWHERE.get(document) or ELSEWHERE.get(language)
        skip = elsewhere or (rest if kind == "skip" else "")
        line = text.count("\n", 0, match.start("text")) + 1
        found.append(Block(document, line, language, code, skip, rest if kind == "file" else "", kind == "output"))
    return found
