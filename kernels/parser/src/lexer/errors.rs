//! The lexer's errors, in CPython's words and places.
//!
//! CPython names the place behind the last character that it has read: that character's start is the error's place here,
//! and its end too, for CPython gives no range.

use unicode_ident::{is_xid_continue, is_xid_start};
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

use super::brackets::Opening;
use super::fields::Frame;
use super::names::place;
use super::numbers::BadNumber;
use super::{Lexer, Result};
use crate::diagnostic::{Diagnostic, Span};

/// Why there are no more tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LexError {
    /// The error, as CPython reports it if the grammar has nothing against what stands before it.
    pub diagnostic: Diagnostic,
    /// Whether CPython prefers it to an earlier `SyntaxError` of the grammar.
    pub eager: bool,
    /// The innermost bracket that is open there, outside of f- and t-strings.
    pub open: Option<(char, u32)>,
}

impl LexError {
    /// Whether it is a token that no grammar has, behind which CPython reads on.
    pub(crate) fn is_stray(&self) -> bool {
        self.diagnostic.message == "invalid syntax"
    }

    /// What CPython reports instead of a `SyntaxError` of the grammar at a place in front of this error.
    pub fn better_than(&self, text: &str, at: u32) -> Option<Diagnostic> {
        if self.eager {
            return Some(self.diagnostic.clone());
        }
        let (bracket, opened) = self.open?;
        let between = text.as_bytes().get(opened as usize..at as usize)?;
        memchr::memchr2(b'\n', b'\r', between).map(|_| never_closed(bracket, opened))
    }
}

fn never_closed(bracket: char, at: u32) -> Diagnostic {
    Diagnostic::syntax(at, at, format!("'{bracket}' was never closed")).with_span(Span::Start(0))
}

/// A token that no grammar has.
pub(super) fn stray(start: usize, end: usize) -> LexError {
    LexError { diagnostic: Diagnostic::syntax(place(start), place(end), "invalid syntax"), eager: false, open: None }
}

#[expect(clippy::unnecessary_box_returns, reason = "so that a place or an error fits in two registers")]
impl Lexer<'_> {
    /// An error at a byte that CPython raises at once.
    pub(super) fn raise(&self, message: impl Into<std::borrow::Cow<'static, str>>, at: usize) -> Box<LexError> {
        self.error(Diagnostic::syntax(place(at), place(at), message).with_span(Span::Point), true)
    }

    fn error(&self, diagnostic: Diagnostic, eager: bool) -> Box<LexError> {
        // CPython does not look for better reasons inside of f-strings.
        let outside = self.frames.is_empty();
        let open = self.brackets.last().filter(|_| outside).map(|(opening, at)| (opening.written(), at));
        Box::new(LexError { diagnostic, eager: eager && outside, open })
    }

    /// Where the character in front of a byte starts.
    pub(super) fn before(&self, behind: usize) -> usize {
        let last = behind.saturating_sub(1);
        (0..=last).rev().find(|&at| self.text.is_char_boundary(at)).unwrap_or(0)
    }

    #[cold]
    pub(super) fn bad_number(&self, bad: &BadNumber) -> Box<LexError> {
        let mut error = self.raise(bad.message, bad.behind - 1);
        if let Some(end) = bad.end {
            (error.diagnostic.end, error.diagnostic.span) = (place(end), Span::Bytes);
        }
        error
    }

    #[cold]
    pub(super) fn bad_continuation(&self, backslash: usize) -> Box<LexError> {
        let at = place(backslash + 1);
        let message = "unexpected character after line continuation character";
        self.error(Diagnostic::syntax(at, at, message).with_span(Span::Start(0)), false)
    }

    #[cold]
    pub(super) fn unexpected_end(&self, backslash: usize) -> Box<LexError> {
        if let Err(unclosed) = self.end_of_text() {
            return unclosed;
        }
        let at = place(backslash + 1);
        self.error(Diagnostic::syntax(at, at, "unexpected EOF while parsing").with_span(Span::Start(-1)), false)
    }

    /// Refuses a text that ends inside brackets.
    pub(super) fn end_of_text(&self) -> Result<()> {
        match self.brackets.last() {
            None => Ok(()),
            Some((opening, at)) => Err(self.error(never_closed(opening.written(), at), false)),
        }
    }

    /// A closing bracket that does not close the innermost open one, which has been taken off the stack.
    #[cold]
    pub(super) fn unmatched(&mut self, at: usize, open: Option<(Opening, u32)>) -> Box<LexError> {
        let close = char::from(self.bytes[at]);
        let Some((opening, opened)) = open else { return self.raise(format!("unmatched '{close}'"), at) };
        if let (Opening::Field { .. }, Some(frame)) = (opening, self.frames.last()) {
            return self.raise(format!("{}-string: unmatched '{close}'", frame.letter()), at);
        }
        let mut message =
            format!("closing parenthesis '{close}' does not match opening parenthesis '{}'", opening.written());
        let line = self.line_number(opened as usize);
        if line != self.line_number(at) {
            message = format!("{message} on line {line}");
        }
        self.raise(message, at)
    }

    /// A plain string whose end is missed at a byte.
    #[cold]
    pub(super) fn unterminated(
        &self,
        start: usize,
        quote: u8,
        triple: bool,
        escaped_quote: bool,
        at: usize,
    ) -> Box<LexError> {
        if let Some(frame) = self.frames.last()
            && (frame.quote, frame.triple) == (quote, triple)
        {
            return self.raise(format!("{}-string: expecting '}}'", frame.letter()), start);
        }
        let line = self.line_number(at);
        self.raise(
            if triple {
                format!("unterminated triple-quoted string literal (detected at line {line})")
            } else if escaped_quote {
                format!("unterminated string literal (detected at line {line}); perhaps you escaped the end quote?")
            } else {
                format!("unterminated string literal (detected at line {line})")
            },
            start,
        )
    }

    #[cold]
    pub(super) fn unterminated_frame(&self, frame: &Frame, at: usize) -> Box<LexError> {
        let (letter, line) = (frame.letter(), self.line_number(at));
        let kind = if frame.triple { "triple-quoted " } else { "" };
        self.raise(
            format!("unterminated {kind}{letter}-string literal (detected at line {line})"),
            frame.start as usize,
        )
    }

    /// The number of the physical line that a byte is in; the end of the text belongs to the last line with characters.
    fn line_number(&self, at: usize) -> usize {
        let at = at.min(self.bytes.len().saturating_sub(1));
        let before = &self.bytes[..at];
        let pairs = before.windows(2).filter(|pair| pair == b"\r\n").count();
        // A line feed that ends the text belongs with its carriage return.
        let torn = usize::from(self.bytes.get(at) == Some(&b'\n') && before.last() == Some(&b'\r'));
        memchr::memchr2_iter(b'\n', b'\r', before).count() - pairs - torn + 1
    }

    /// Refuses a name with characters that no name has.
    pub(super) fn check_name(&self, start: usize, end: usize) -> Result<()> {
        let mut characters = self.text[start..end].char_indices();
        let wrong = match characters.next() {
            Some((_, first)) if first != '_' && !is_xid_start(first) => Some((0, first)),
            _ => characters.find(|&(_, other)| !is_xid_continue(other)),
        };
        wrong.map_or(Ok(()), |(at, character)| Err(self.bad_character(start + at, character)))
    }

    #[cold]
    fn bad_character(&self, at: usize, character: char) -> Box<LexError> {
        let code = u32::from(character);
        if is_printable(character) {
            self.raise(format!("invalid character '{character}' (U+{code:04X})"), at)
        } else {
            self.raise(format!("invalid non-printable character U+{code:04X}"), at)
        }
    }

    /// A byte of ASCII that begins no token. CPython hands printable ones to the grammar, which has none of them.
    #[cold]
    pub(super) fn bad_byte(&mut self, at: usize) -> Result<usize> {
        match self.bytes[at] {
            0 => Err(self.raise("source code cannot contain null bytes", at)),
            byte if byte.is_ascii_graphic() => {
                self.stray(at, at + 1);
                Ok(at + 1)
            }
            byte => Err(self.bad_character(at, char::from(byte))),
        }
    }
}

/// What `str.isprintable` says of a character.
fn is_printable(character: char) -> bool {
    !matches!(
        character.general_category(),
        GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::Surrogate
            | GeneralCategory::PrivateUse
            | GeneralCategory::Unassigned
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
            | GeneralCategory::SpaceSeparator
    )
}
