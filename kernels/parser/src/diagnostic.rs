//! Errors of sources: the exception, message and position that CPython reports.

use std::borrow::Cow;

use crate::Options;
use crate::encoding_cookie;
use crate::options::SourceType;

/// The exception CPython would raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// `SyntaxError`.
    Syntax = 1,
    /// `IndentationError`.
    Indentation = 2,
    /// `TabError`.
    Tab = 3,
    /// `ValueError`, which has no position.
    Value = 4,
    /// `UnicodeDecodeError`, a `ValueError`.
    UnicodeDecode = 5,
    /// `UnicodeEncodeError`, a `ValueError`.
    UnicodeEncode = 6,
}

impl Class {
    /// All of them, by number.
    pub const ALL: [Self; 6] =
        [Self::Syntax, Self::Indentation, Self::Tab, Self::Value, Self::UnicodeDecode, Self::UnicodeEncode];

    /// The name of the exception.
    pub fn name(self) -> &'static str {
        match self {
            Self::Syntax => "SyntaxError",
            Self::Indentation => "IndentationError",
            Self::Tab => "TabError",
            Self::Value => "ValueError",
            Self::UnicodeDecode => "UnicodeDecodeError",
            Self::UnicodeEncode => "UnicodeEncodeError",
        }
    }

    /// Returns true if the exception has a position: `ValueError` and its subclasses have none.
    pub fn has_position(self) -> bool {
        matches!(self, Self::Syntax | Self::Indentation | Self::Tab)
    }
}

/// The position attributes of a `SyntaxError`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The line, from 1.
    pub lineno: Option<i32>,
    /// The column in characters, from 1.
    pub offset: Option<i32>,
    /// The line where the error ends.
    pub end_lineno: Option<i32>,
    /// The column of the character after the error; -1 or 0 where CPython knows only the start.
    pub end_offset: Option<i32>,
}

impl Position {
    /// A position with all four numbers.
    pub const fn new(lineno: i32, offset: i32, end_lineno: i32, end_offset: i32) -> Self {
        Self { lineno: Some(lineno), offset: Some(offset), end_lineno: Some(end_lineno), end_offset: Some(end_offset) }
    }
}

/// The rule by which CPython derives a [`Position`] from the offsets of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// From `start` to `end`: the parser's errors.
    Range,
    /// As `Range`, with the newline after `end`: from 3.12 on, a newline's token contains it.
    Newline,
    /// As `Range`, up to the tokenizer's current position: CPython counts one column less.
    Current,
    /// The end equals the start: the tokenizer's errors.
    Point,
    /// As `Range`, always in bytes: the tokenizer's errors with a range.
    Bytes,
    /// The start, with a fixed `end_offset`.
    Start(i32),
    /// Independent of the offsets.
    Fixed(Position),
}

impl Span {
    /// No position.
    pub const NONE: Self = Self::Fixed(Position { lineno: None, offset: None, end_lineno: None, end_offset: None });
    /// An unusable encoding: CPython fails before it has read a line.
    pub const ENCODING: Self =
        Self::Fixed(Position { lineno: Some(0), offset: Some(-1), end_lineno: None, end_offset: None });
}

/// The first error of a source, as CPython reports it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Diagnostic {
    /// The exception.
    pub class: Class,
    /// First byte in the text.
    pub start: u32,
    /// The byte after it.
    pub end: u32,
    /// CPython's message.
    pub message: Cow<'static, str>,
    /// The rule that derives its position from its offsets.
    pub span: Span,
    /// Its position; [`parse`](crate::parse()) sets it.
    pub position: Position,
}

impl Diagnostic {
    /// A `SyntaxError` at `start..end`.
    pub fn syntax(start: u32, end: u32, message: impl Into<Cow<'static, str>>) -> Self {
        let span = Span::Range;
        let position = Position::default();
        Self { class: Class::Syntax, start, end, message: message.into(), span, position }
    }

    /// A `ValueError`, which has no position.
    pub fn value(message: impl Into<Cow<'static, str>>) -> Self {
        Self { class: Class::Value, span: Span::NONE, ..Self::syntax(0, 0, message) }
    }

    /// The same error with another kind of span.
    #[must_use]
    pub fn with_span(self, span: Span) -> Self {
        Self { span, ..self }
    }

    /// The same error with the position that its span fixes.
    #[must_use]
    pub(crate) fn with_known_position(self) -> Self {
        match self.span {
            Span::Fixed(position) => Self { position, ..self },
            _ => self,
        }
    }

    /// Computes the position in a text.
    pub(crate) fn locate(&mut self, text: &str, options: Options) {
        let lines = Lines { text: text.as_bytes(), in_bytes: counts_bytes(text, options) };
        self.position = if self.class.has_position() { lines.position(self) } else { Position::default() };
    }
}

/// Returns true if CPython counts columns in bytes: it did before 3.13, in the bytes of a file that does not declare its
/// encoding.
fn counts_bytes(text: &str, options: Options) -> bool {
    options.feature_version < 13
        && options.source_type == SourceType::File
        && !text.starts_with('\u{feff}')
        && encoding_cookie::declared(text.as_bytes()).is_none()
}

/// The physical lines of a text.
struct Lines<'a> {
    text: &'a [u8],
    in_bytes: bool,
}

impl Lines<'_> {
    fn position(&self, error: &Diagnostic) -> Position {
        let start = error.start as usize;
        let end = error.end.max(error.start) as usize;
        let (lineno, line) = self.line(start);
        let offset = if error.span == Span::Point { self.characters(line, start) } else { self.column(line, start) };
        let (end_lineno, end_offset) = match error.span {
            Span::Fixed(position) => return position,
            Span::Point => (lineno, offset),
            Span::Start(end_offset) => (lineno, end_offset),
            Span::Bytes => return Position::new(lineno, number(start - line + 1), lineno, number(end - line + 1)),
            Span::Current => {
                let (end_lineno, end_line) = self.line(end);
                let end_offset = if end_lineno == lineno || self.in_bytes {
                    self.column(end_line, end) - 1
                } else {
                    self.clamped(line, (end - end_line).saturating_sub(1))
                };
                (end_lineno, end_offset)
            }
            Span::Range | Span::Newline => {
                let newline = i32::from(error.span == Span::Newline);
                let (end_lineno, end_line) = self.line(end);
                let end_offset = if end_lineno == lineno || self.in_bytes {
                    self.column(end_line, end)
                } else {
                    self.clamped(line, end - end_line)
                };
                (end_lineno, end_offset + newline)
            }
        };
        Position::new(lineno, offset, end_lineno, end_offset)
    }

    /// The number and the start of a byte's line.
    fn line(&self, offset: usize) -> (i32, usize) {
        let offset = offset.min(self.text.len());
        let mut lines = 1;
        let mut start = if self.text.starts_with(b"\xef\xbb\xbf") { 3.min(offset) } else { 0 };
        for newline in memchr::memchr2_iter(b'\n', b'\r', self.text) {
            if newline + 1 > offset {
                break;
            }
            if self.text[newline] == b'\r' && self.text.get(newline + 1) == Some(&b'\n') {
                continue;
            }
            (lines, start) = (lines + 1, newline + 1);
        }
        (lines, start)
    }

    /// The column of a byte, as the parser counts.
    fn column(&self, line: usize, offset: usize) -> i32 {
        if self.in_bytes { number(offset - line + 1) } else { self.characters(line, offset) }
    }

    fn characters(&self, line: usize, offset: usize) -> i32 {
        let before = &self.text[line..offset.min(self.text.len())];
        number(characters(before) + offset.saturating_sub(self.text.len()) + 1)
    }

    /// The end of a range over several lines, `width` bytes into the last one: CPython measures these bytes, and one
    /// more, in the first line.
    fn clamped(&self, line: usize, width: usize) -> i32 {
        let rest = &self.text[line..];
        let first = &rest[..memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len())];
        let read = characters(&first[..(width + 1).min(first.len())]);
        // The byte after the line counts as a character.
        number(read + usize::from(width >= first.len()))
    }
}

/// The number of characters that start in some bytes.
fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte & 0xc0 != 0x80).count()
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
