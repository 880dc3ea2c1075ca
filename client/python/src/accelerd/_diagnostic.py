"""Diagnostics: the first error of a source, as the exception that CPython raises."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ._proto import parse_pb2 as pb

_CLASSES: dict[int, type[Exception]] = {
    pb.DIAGNOSTIC_CLASS_SYNTAX_ERROR: SyntaxError,
    pb.DIAGNOSTIC_CLASS_INDENTATION_ERROR: IndentationError,
    pb.DIAGNOSTIC_CLASS_TAB_ERROR: TabError,
    pb.DIAGNOSTIC_CLASS_VALUE_ERROR: ValueError,
    pb.DIAGNOSTIC_CLASS_UNICODE_DECODE_ERROR: UnicodeDecodeError,
    pb.DIAGNOSTIC_CLASS_UNICODE_ENCODE_ERROR: UnicodeEncodeError,
}
_TOKENIZER_MESSAGE = re.compile(
    r"unterminated|unmatched|closing parenthesis|leading zeros|too many nested|f-string: expecting"
    r"|invalid (?:digit|character|non-printable|\w+ literal)"
)
_DECODE_MESSAGE = re.compile(r"'([^']+)' codec can't decode bytes? (?:0x\w+ )?in position (\d+)(?:-(\d+))?: (.*)", re.S)


@dataclass(frozen=True)
class Diagnostic:
    """The first error of a source, as CPython reports it.

    Lines and offsets are those of `SyntaxError`: numbered from 1, offsets in characters, None where CPython has None.
    """

    #: The exception that CPython raises: SyntaxError, ValueError or a subclass of one of them.
    cls: type[Exception]
    message: str
    lineno: int | None
    offset: int | None
    end_lineno: int | None
    end_offset: int | None
    #: Range of bytes in the text.
    start: int
    end: int

    @property
    def line(self) -> int:
        """Line from 1; 0 if CPython reports none."""
        return max(self.lineno or 0, 0)

    @property
    def column(self) -> int:
        """Offset in characters from 1; 0 if CPython reports none."""
        return max(self.offset or 0, 0)

    def error(self, filename: str = "<unknown>", text: bytes | str = b"") -> Exception:
        """Return the exception that `ast.parse` raises. Its attribute `text` is a line of `text`, the source."""
        source = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else bytes(text)
        if issubclass(self.cls, SyntaxError):
            place = filename, self.lineno, self.offset, self._line(source), self.end_lineno, self.end_offset
            return self.cls(self.message, place)
        if self.cls is UnicodeDecodeError:
            return _decode_error(self.message, source[self.start : self.end])
        if self.cls is UnicodeEncodeError:
            return _encode_error(self.message, source)
        return self.cls(self.message)

    def _line(self, source: bytes) -> str | None:
        """Return the line as CPython quotes it.

        CPython quotes the tokenizer's current line with a newline at its end, even if the source lacks it. It quotes
        without a newline a line that the tokenizer had passed, and the line of an error of the tokenizer itself.
        """
        if self.lineno is None:
            return None
        lines = re.split(rb"\r\n?|\n", source.removeprefix(b"\xef\xbb\xbf"))
        if not 0 < self.lineno <= len(lines):
            return None
        line = lines[self.lineno - 1].decode("utf-8", "replace")
        is_last = self.lineno == len(lines) or (self.lineno == len(lines) - 1 and not lines[-1])
        is_passed = (self.end_lineno or 0) > self.lineno or (not is_last and "was never closed" in self.message)
        is_past_the_end = self.lineno == len(lines) and not line
        return line if is_passed or is_past_the_end or _TOKENIZER_MESSAGE.match(self.message) else line + "\n"


def received_diagnostic(message: pb.Diagnostic) -> Diagnostic:
    """Return the diagnostic of a message."""
    return Diagnostic(
        cls=_CLASSES.get(getattr(message, "class"), SyntaxError),
        message=message.message,
        lineno=message.lineno if message.HasField("lineno") else None,
        offset=message.offset if message.HasField("offset") else None,
        end_lineno=message.end_lineno if message.HasField("end_lineno") else None,
        end_offset=message.end_offset if message.HasField("end_offset") else None,
        start=message.start,
        end=message.end,
    )


def _decode_error(message: str, written: bytes) -> Exception:
    """Return the UnicodeDecodeError with this message."""
    found = _DECODE_MESSAGE.fullmatch(message)
    if found is None:
        return ValueError(message)
    codec, start, last, reason = found.groups()
    end = int(last or start) + 1
    return UnicodeDecodeError(codec, written.ljust(end, b"?"), int(start), end, reason)


def _encode_error(message: str, source: bytes) -> Exception:
    """Return the UnicodeEncodeError of a text with lone surrogates."""
    try:
        source.decode("utf-8", "surrogatepass").encode()
    except UnicodeError as error:
        return error
    return ValueError(message)
