"""The line that a `SyntaxError` quotes, as recorded from CPython 3.11 and 3.13."""

from __future__ import annotations

from typing import Any

import pytest

from accelerd._error_text import quoted

# Source, message, line, end line and end offset, first byte, minor version (None for any), and CPython's text.
RECORDED: list[tuple[str, str, int, int, int, int, int | None, str]] = [
    ("x = 1 2", "invalid syntax", 1, 1, 8, 6, None, "x = 1 2\n"),
    ("x = '''a\nb''' c", "invalid syntax", 2, 2, 7, 15, None, "x = '''a\nb''' c\n"),
    ('if x:\n  """a\nb""" c\n', "invalid syntax", 3, 3, 7, 19, None, '  """a\nb""" c\n'),
    ('x = """a\nb"""; y = """c\nd""" e', "invalid syntax", 3, 3, 7, 29, None, 'x = """a\nb"""; y = """c\nd""" e\n'),
    ('x = """a\nb"""\ny = 1 2', "invalid syntax", 3, 3, 8, 21, None, "y = 1 2\n"),
    ("x = 'a\\\nb' c", "invalid syntax", 2, 2, 5, 11, None, "x = 'a\\\nb' c\n"),
    ("x = 1 + \\\n 2 + \\\n c d", "invalid syntax", 3, 3, 5, 20, None, "x = 1 + \\\n 2 + \\\n c d\n"),
    ("  \\\n  try: pass\n", "unexpected indent", 2, 2, -1, 5, None, "  try: pass\n"),
    ("x = [\n1,\n2 3\n]", "invalid syntax. Perhaps you forgot a comma?", 3, 3, 4, 9, None, "2 3"),
    ("x = [2 3, 4]\n", "invalid syntax. Perhaps you forgot a comma?", 1, 1, 9, 5, None, "x = [2 3, 4]\n"),
    ("(\n1", "'(' was never closed", 1, 1, 0, 0, None, "("),
    ("x = 'a", "unterminated string literal (detected at line 1)", 1, 1, 5, 4, None, "x = 'a"),
    ("f'{a'", "f-string: expecting '}'", 1, 1, 6, 4, 11, "f'{a'\n"),
    ("f'{a'", "f-string: expecting '}'", 1, 1, 5, 4, 13, "f'{a'"),
    ("f'{a}}'", "f-string: single '}' is not allowed", 1, 1, 8, 5, 11, "f'{a}}'\n"),
    ("f'{a}}'", "f-string: single '}' is not allowed", 1, 1, 6, 5, 13, "f'{a}}'"),
    ("f'{a $}'", "f-string: expecting '=', or '!', or ':', or '}'", 1, 1, 7, 5, 13, "f'{a $}'\n"),
    ("f'{a b}'+1", "f-string: invalid syntax. Perhaps you forgot a comma?", 1, 1, 5, 3, 11, "(a b)\n"),
    ("x+f'{  a b  !r:>{w}}'", "f-string: invalid syntax. Perhaps you forgot a comma?", 1, 1, 7, 7, 11, "(  a b  )\n"),
    ("f'{lambda x:1}'", "f-string: invalid syntax", 1, 1, 11, 11, 11, "(lambda x)\n"),
    ('f"""{\na b\n}"""', "f-string: invalid syntax. Perhaps you forgot a comma?", 2, 2, 4, 6, 11, "a b"),
]


@pytest.mark.parametrize(("source", "message", "line", "end_line", "end", "start", "version", "text"), RECORDED)
def test_the_text_of_an_error_is_what_cpython_quotes(
    source: str, message: str, line: int, end_line: int, end: int, start: int, version: int | None, text: str
) -> None:
    versions: tuple[Any, ...] = (version,) if version else (8, 11, 12, 14, None)
    for one in versions:
        assert quoted(source.encode(), message, (line, end_line, end), start, one) == text


@pytest.mark.parametrize("line", [None, 0, 9])
def test_an_error_without_a_line_of_the_source_quotes_nothing(line: int | None) -> None:
    assert quoted(b"x = 1 2", "invalid syntax", (line, line, 0), 0, None) is None


def test_hostile_sources_are_quoted_in_linear_time() -> None:
    for source in ("'''" * 50_000 + "\n", "{" * 200_000, "\\\n" * 100_000, "f'" + "{(" * 100_000):
        last = source.count("\n") + 1
        quoted(source.encode(), "f-string: invalid syntax", (last, last, 1), len(source), 11)
        quoted(source.encode(), "invalid syntax", (last, last, 1), len(source), None)
