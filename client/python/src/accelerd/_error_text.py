"""The line of a source that CPython quotes in the attribute `text` of a `SyntaxError`.

It depends on how far CPython's tokenizer has read. An error at the tokenizer's current line quotes its buffer, with a
newline at its end even if the source lacks one. The buffer begins with the line where a string or a joined line begins.
A line that the tokenizer has passed, and the line of an error of the tokenizer itself, are quoted alone and without the
newline.
"""

from __future__ import annotations

import re

# The first version whose tokenizer reads replacement fields of f-strings; earlier ones parse fields as sources.
_TOKENIZED_FIELDS = 12

_TOKENIZER = re.compile(
    r"unterminated|unmatched|closing parenthesis|leading zeros|too many nested"
    r"|invalid (?:digit|character|non-printable|\w+ literal)"
)
# Errors of the tokenizer in f- and t-strings, and those that older versions find between fields.
_FIELD_TOKENIZER = re.compile(
    r"[ft]-string: (?:expecting '}'$|single '}'|unmatched|closing parenthesis|expressions nested|unterminated)"
)
_OUTSIDE_FIELDS = re.compile(
    r"f-string: (?:expecting '}'|single '}'|unmatched|closing parenthesis|expressions nested|empty expression"
    r"|invalid conversion|unterminated|expression part)"
)
_FORGOTTEN_COMMA = "invalid syntax. Perhaps you forgot a comma"
# What may hold newlines that do not end a statement, and what hides them.
_PIECE = re.compile(
    r"""\#[^\n]*
    | (?P<quote>\"\"\"|''') (?:\\.|(?!(?P=quote)).)* (?:(?P=quote)|\Z)
    | "(?:\\.|[^"\\\n])*"?
    | '(?:\\.|[^'\\\n])*'?
    | \\\n""",
    re.DOTALL | re.VERBOSE,
)
_STRING = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'")
_NEWLINE = re.compile(r"\r\n?|\n")


def quoted(
    source: bytes, message: str, places: tuple[int | None, int | None, int | None], start: int, version: int | None
) -> str | None:
    """Return what CPython quotes for an error.

    Args:
        source: The source, in UTF-8.
        message: The message of the error.
        places: Its line, and its end as line and offset, as `SyntaxError` has them.
        start: The byte where it starts.
        version: Minor version of the grammar; None is the newest.
    """
    lineno, end_lineno, end_offset = places
    if lineno is None:
        return None
    mark = 3 if source.startswith(b"\xef\xbb\xbf") else 0
    text = _NEWLINE.sub("\n", source[mark:].decode("utf-8", "replace"))
    lines = text.split("\n")
    if not 0 < lineno <= len(lines):
        return None
    line = lines[lineno - 1]
    is_old = version is not None and 0 < version < _TOKENIZED_FIELDS
    if is_old and message.startswith("f-string: ") and not _OUTSIDE_FIELDS.match(message):
        place = len(_NEWLINE.sub("\n", source[mark:start].decode("utf-8", "replace")))
        return _field(text, place) or line + "\n"
    tokenizer = _TOKENIZER.match(message) or (not is_old and _FIELD_TOKENIZER.match(message))
    is_last = lineno == len(lines) or (lineno == len(lines) - 1 and not lines[-1])
    is_passed = (end_lineno or 0) > lineno or (not is_last and "was never closed" in message)
    if message.startswith(_FORGOTTEN_COMMA) and end_lineno == lineno and not is_last:
        # CPython has looked at the token after the error.
        is_passed = re.match(r"\s*(?:#.*)?$", line[max((end_offset or 1) - 1, 0) :]) is not None
    if tokenizer or is_passed or (lineno == len(lines) and not line):
        return line
    return "\n".join(lines[_first_line(text, lineno) - 1 : lineno]) + "\n"


def _first_line(text: str, lineno: int) -> int:
    """Return the line where the strings and joined lines begin that reach a line."""
    first = last = 0
    line = 1
    place = 0
    for piece in _PIECE.finditer(text):
        begin = line + text.count("\n", place, piece.start())
        line = begin + piece[0].count("\n")
        place = piece.end()
        if begin >= lineno:
            break
        # A backslash that stands alone in an indentation joins nothing.
        is_blank = (
            piece[0] == "\\\n"
            and begin != last
            and not text[text.rfind("\n", 0, piece.start()) + 1 : piece.start()].strip()
        )
        if line > begin and not is_blank:
            first = first if begin == last else begin
            last = line
    return first if first < lineno <= last else lineno


def _field(text: str, place: int) -> str | None:
    """Return a line of the replacement field with an error at a place, as older versions parse it: in parentheses."""
    depth = 0
    for opening in range(min(place, len(text)) - 1, -1, -1):
        depth += (text[opening] == "}") - (text[opening] == "{")
        if depth < 0:
            expression = _expression(text[opening + 1 :])
            lines = f"({expression})".split("\n")
            nth = text.count("\n", opening, place)
            last = len(lines) - 1
            return None if nth > last else lines[nth] + ("\n" if nth == last else "")
    return None


def _expression(text: str) -> str:
    """Return the expression at the start of a replacement field."""
    depth = 0
    place = 0
    while place < len(text):
        sign = text[place]
        if string := _STRING.match(text, place):
            place = string.end()
            continue
        if depth == 0 and (sign in "}:" or (sign == "!" and text[place + 1 : place + 2] != "=")):
            return text[:place]
        depth += (sign in "([{") - (sign in ")]}")
        place += 1
    return text
