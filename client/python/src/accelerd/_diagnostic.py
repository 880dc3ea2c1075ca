"""Diagnostics: the first error of a source, as the exception that CPython raises."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ._error_text import quoted
from ._proto import parse_pb2 as pb

_CLASSES: dict[int, type[Exception]] = {
    pb.DIAGNOSTIC_CLASS_SYNTAX_ERROR: SyntaxError,
    pb.DIAGNOSTIC_CLASS_INDENTATION_ERROR: IndentationError,
    pb.DIAGNOSTIC_CLASS_TAB_ERROR: TabError,
    pb.DIAGNOSTIC_CLASS_VALUE_ERROR: ValueError,
    pb.DIAGNOSTIC_CLASS_UNICODE_DECODE_ERROR: UnicodeDecodeError,
    pb.DIAGNOSTIC_CLASS_UNICODE_ENCODE_ERROR: UnicodeEncodeError,
}
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
    #: Minor version of the grammar; None is the newest. It decides which line the exception quotes.
    feature_version: int | None = None

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
            places = self.lineno, self.end_lineno, self.end_offset
            line = quoted(source, self.message, places, self.start, self.feature_version)
            return self.cls(self.message, (filename, self.lineno, self.offset, line, self.end_lineno, self.end_offset))
        if self.cls is UnicodeDecodeError:
            return _decode_error(self.message, source[self.start : self.end])
        if self.cls is UnicodeEncodeError:
            return _encode_error(self.message, source)
        return self.cls(self.message)


def received_diagnostic(message: pb.Diagnostic, feature_version: int | None = None) -> Diagnostic:
    """Return the diagnostic of a message, for a version of the grammar."""
    return Diagnostic(
        cls=_CLASSES.get(getattr(message, "class"), SyntaxError),
        message=message.message,
        lineno=message.lineno if message.HasField("lineno") else None,
        offset=message.offset if message.HasField("offset") else None,
        end_lineno=message.end_lineno if message.HasField("end_lineno") else None,
        end_offset=message.end_offset if message.HasField("end_offset") else None,
        start=message.start,
        end=message.end,
        feature_version=feature_version,
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
