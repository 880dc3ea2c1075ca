"""All messages of CPython's parser, each with a source that triggers it, per version.

    python3 tests/conformance/messages.py    records the errors of this machine's Pythons for messages.txt, writes MESSAGES.md

`messages.json` has the recorded errors, and the messages of each version's parser and tokenizer.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import tools
from judge import judge_all

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "messages.txt"
RECORDED = HERE / "messages.json"
TABLE = HERE / "MESSAGES.md"
VERSIONS = ("3.11", "3.13", "3.14")
# Sources too long for messages.txt.
_LONG = {
    "201 open parentheses": "(" * 201,
    "102 nested blocks": "".join(" " * at + "if x:\n" for at in range(102)) + " " * 102 + "y\n",
    "an integer of 4301 digits": "9" * 4301,
    "151 nested f-strings": "f'{" * 151,
}
_ESCAPE = re.compile(r"\\(?:([nrt\\])|x([0-9a-f]{2})|u([0-9a-f]{4}))")
_PLAIN = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}

# Class, message, line, column, end line and end column.
Error = list[Any]

OPENING = """# Messages of CPython's parser

Written by `python3 tests/conformance/messages.py`: all messages of CPython's parser and tokenizer, with `*` for variable parts
and the smallest source that triggers each. `=`: accelerd reports the same exception, message, line and column; `==`: the same
end too; `-`: the version lacks the message. The recorded errors of all {count} sources are in `messages.json`; tests compare
accelerd and the running Python with them.
"""


def sources() -> dict[str, str]:
    """The sources, by their spelling in messages.txt."""
    lines = SOURCES.read_text(encoding="utf-8").splitlines()
    return {line: _unescaped(line) for line in lines if line and not line.startswith("#")} | _LONG


def _unescaped(line: str) -> str:
    def character(found: re.Match[str]) -> str:
        return _PLAIN[found[1]] if found[1] else chr(int(found[2] or found[3], 16))

    return _ESCAPE.sub(character, line)


def recorded() -> dict[str, Any]:
    """The contents of messages.json."""
    found: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return found


def ours(parser: tools.Parser, version: str, texts: list[str]) -> Iterator[Error | None]:
    """The parser's errors for sources."""
    from frames import read_answers

    answers = parser.bytes_of(version, [text.encode() for text in texts])
    for answer in read_answers(answers):
        error = answer.error
        yield None if error is None else [error.kind, error.message, *error.position]


def theirs(oracle: tools.Oracle, texts: list[str]) -> list[Error | None]:
    """A Python's errors for sources."""
    outcomes = judge_all(tools.Parser(None), oracle, [text.encode() for text in texts])
    return [outcome.get("error") for outcome in outcomes]


def shows(pattern: str, error: Error | None) -> bool:
    """Whether an error's message matches a pattern."""
    return error is not None and fnmatchcase(error[1], pattern)


def record() -> dict[str, Any]:
    """Records the errors of this machine's Pythons; missing versions keep their recorded errors."""
    found = recorded()
    texts = sources()
    for oracle in tools.oracles((*VERSIONS, "3.10", "3.12")):
        if oracle.version not in VERSIONS:
            continue
        for written, error in zip(texts, theirs(oracle, list(texts.values())), strict=True):
            found["errors"].setdefault(written, {})[oracle.version] = error
    found["errors"] = {written: found["errors"][written] for written in texts if written in found["errors"]}
    RECORDED.write_text(_readable(found), encoding="utf-8")
    return found


def _readable(found: dict[str, Any]) -> str:
    """JSON with one line per message and per source."""
    parts = []
    for name, entries in found.items():
        lines = [
            f"    {json.dumps(key, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}"
            for key, value in entries.items()
        ]
        parts.append(f"  {json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n  }")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def write_table(found: dict[str, Any], parser: tools.Parser) -> None:
    """Writes MESSAGES.md."""
    texts = sources()
    said = {version: dict(zip(texts, ours(parser, version, list(texts.values())), strict=True)) for version in VERSIONS}
    lines = [OPENING.format(count=len(texts)), f"| message | source | {' | '.join(VERSIONS)} |"]
    lines.append("| --- | --- |" + " --- |" * len(VERSIONS))
    for pattern, entry in found["messages"].items():
        if "unreachable" in entry:
            lines.append(f"| {_code(pattern)} | {entry['unreachable']} | " + " | ".join("-" for _ in VERSIONS) + " |")
            continue
        shown = [one for one in texts if any(shows(pattern, error) for error in found["errors"].get(one, {}).values())]
        smallest = min(shown, key=len, default="")
        cells = [_cell(found, said, pattern, version, shown) for version in VERSIONS]
        lines.append(f"| {_code(pattern)} | {_code(smallest)} | {' | '.join(cells)} |")
    lines += ["", "Known differences of the verdict:", ""]
    for version, known in found["known"].items():
        lines += [f"- {version}, {_code(one)}: {why}" for one, why in known.items()]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _cell(found: dict[str, Any], said: dict[str, Any], pattern: str, version: str, shown: list[str]) -> str:
    known = found["known"].get(version, {})
    pairs = [(found["errors"][one].get(version), said[version][one]) for one in shown if one not in known]
    pairs = [(their, our) for their, our in pairs if shows(pattern, their)]
    if not pairs:
        return "known" if any(one in known for one in shown) else "-"
    if any(our is None or our[:4] != their[:4] for their, our in pairs):
        return "differs"
    return "==" if all(our == their for their, our in pairs) else "="


def _code(text: str) -> str:
    text = text.replace("|", "\\|")
    fence = "``" if "`" in text else "`"
    return f"{fence} {text} {fence}" if "`" in text else f"`{text}`"


def main() -> None:
    program = tools.built_parser()
    if program is None:
        sys.exit("no parser: cargo build --package accelerd-parser --example columns")
    write_table(record(), tools.Parser(program))


if __name__ == "__main__":
    main()
