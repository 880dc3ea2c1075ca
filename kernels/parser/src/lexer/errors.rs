//! The lexer's errors, with CPython's messages and positions.
//!
//! CPython reports the position after the last character that it has read, and no range: here an error starts and ends
//! at the start of that character.

use unicode_ident::{is_xid_continue, is_xid_start};
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

use super::brackets::Bracket;
use super::fstrings::OpenFString;
use super::names::offset;
use super::numbers::NumberError;
use super::{Lexer, Result};
use crate::diagnostic::{Diagnostic, Span};

/// The error that ends the tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LexError {
    /// The error that CPython reports if the tokens before it parse.
    pub diagnostic: Diagnostic,
    /// True if CPython prefers it to an earlier syntax error of the parser.
    pub takes_precedence: bool,
    /// The innermost open bracket and its offset, outside of f- and t-strings.
    pub open: Option<(char, u32)>,
}

impl LexError {
    /// Returns true if it is an error token, after which CPython tokenises on.
    pub(crate) fn is_error_token(&self) -> bool {
        self.diagnostic.message == "invalid syntax"
    }

    /// The error that CPython reports instead of a syntax error of the parser at `offset`, before this one.
    pub fn preferred_over(&self, text: &str, offset: u32) -> Option<Diagnostic> {
        if self.takes_precedence {
            return Some(self.diagnostic.clone());
        }
        let (bracket, opened) = self.open?;
        let between = text.as_bytes().get(opened as usize..offset as usize)?;
        memchr::memchr2(b'\n', b'\r', between).map(|_| never_closed(bracket, opened))
    }
}

fn never_closed(bracket: char, offset: u32) -> Diagnostic {
    Diagnostic::syntax(offset, offset, format!("'{bracket}' was never closed")).with_span(Span::Start(0))
}

pub(super) fn error_token(start: usize, end: usize) -> LexError {
    LexError {
        diagnostic: Diagnostic::syntax(offset(start), offset(end), "invalid syntax"),
        takes_precedence: false,
        open: None,
    }
}

#[expect(clippy::unnecessary_box_returns, reason = "an offset or an error fits in two registers")]
impl Lexer<'_> {
    /// An error at a byte that takes precedence over syntax errors.
    pub(super) fn raise(&self, message: impl Into<std::borrow::Cow<'static, str>>, position: usize) -> Box<LexError> {
        self.error(Diagnostic::syntax(offset(position), offset(position), message).with_span(Span::Point), true)
    }

    fn error(&self, diagnostic: Diagnostic, takes_precedence: bool) -> Box<LexError> {
        // Inside f-strings CPython prefers no tokenizer error.
        let outside = self.open_fstrings.is_empty();
        let open = self.brackets.last().filter(|_| outside).map(|(bracket, offset)| (bracket.as_char(), offset));
        Box::new(LexError { diagnostic, takes_precedence: takes_precedence && outside, open })
    }

    /// The start of the character before a byte.
    pub(super) fn char_before(&self, offset: usize) -> usize {
        let last = offset.saturating_sub(1);
        (0..=last).rev().find(|&offset| self.text.is_char_boundary(offset)).unwrap_or(0)
    }

    #[cold]
    pub(super) fn bad_number(&self, bad: &NumberError) -> Box<LexError> {
        let mut error = self.raise(bad.message, bad.read_end - 1);
        if let Some(end) = bad.end {
            (error.diagnostic.end, error.diagnostic.span) = (offset(end), Span::Bytes);
        }
        error
    }

    #[cold]
    pub(super) fn bad_continuation(&self, backslash: usize) -> Box<LexError> {
        let position = offset(backslash + 1);
        let message = "unexpected character after line continuation character";
        self.error(Diagnostic::syntax(position, position, message).with_span(Span::Start(0)), false)
    }

    #[cold]
    pub(super) fn unexpected_end(&self, backslash: usize) -> Box<LexError> {
        if let Err(unclosed) = self.end_of_text() {
            return unclosed;
        }
        let position = offset(backslash + 1);
        self.error(
            Diagnostic::syntax(position, position, "unexpected EOF while parsing").with_span(Span::Start(-1)),
            false,
        )
    }

    /// Rejects a text that ends inside brackets.
    pub(super) fn end_of_text(&self) -> Result<()> {
        match self.brackets.last() {
            None => Ok(()),
            Some((bracket, offset)) => Err(self.error(never_closed(bracket.as_char(), offset), false)),
        }
    }

    /// A closing bracket that does not match `open`, which was popped from the stack.
    #[cold]
    pub(super) fn unmatched(&mut self, offset: usize, open: Option<(Bracket, u32)>) -> Box<LexError> {
        let close = char::from(self.bytes[offset]);
        let Some((bracket, opened)) = open else { return self.raise(format!("unmatched '{close}'"), offset) };
        if let (Bracket::Field { .. }, Some(fstring)) = (bracket, self.open_fstrings.last()) {
            return self.raise(format!("{}-string: unmatched '{close}'", fstring.letter()), offset);
        }
        let mut message =
            format!("closing parenthesis '{close}' does not match opening parenthesis '{}'", bracket.as_char());
        let line = self.line_number(opened as usize);
        if line != self.line_number(offset) {
            message = format!("{message} on line {line}");
        }
        self.raise(message, offset)
    }

    /// A plain string that is still open at a byte.
    #[cold]
    pub(super) fn unterminated(
        &self,
        start: usize,
        quote: u8,
        triple: bool,
        escaped_quote: bool,
        offset: usize,
    ) -> Box<LexError> {
        if let Some(fstring) = self.open_fstrings.last()
            && (fstring.quote, fstring.triple) == (quote, triple)
        {
            return self.raise(format!("{}-string: expecting '}}'", fstring.letter()), start);
        }
        let line = self.line_number(offset);
        self.raise(
            if triple {
                format!("unterminated triple-quoted string literal (detected at line {line})")
            } else if escaped_quote && self.options.feature_version >= 13 {
                format!("unterminated string literal (detected at line {line}); perhaps you escaped the end quote?")
            } else {
                format!("unterminated string literal (detected at line {line})")
            },
            start,
        )
    }

    #[cold]
    pub(super) fn unterminated_fstring(&self, fstring: &OpenFString, offset: usize) -> Box<LexError> {
        let letter = fstring.letter();
        let line = self.line_number(offset);
        let kind = if fstring.triple { "triple-quoted " } else { "" };
        self.raise(
            format!("unterminated {kind}{letter}-string literal (detected at line {line})"),
            fstring.start as usize,
        )
    }

    /// The number of a byte's physical line; the end of the text belongs to the last line with characters.
    fn line_number(&self, offset: usize) -> usize {
        let offset = offset.min(self.bytes.len().saturating_sub(1));
        let before = &self.bytes[..offset];
        let pairs = before.windows(2).filter(|pair| pair == b"\r\n").count();
        // The LF of a final CRLF belongs to its CR.
        let split_crlf = usize::from(self.bytes.get(offset) == Some(&b'\n') && before.last() == Some(&b'\r'));
        memchr::memchr2_iter(b'\n', b'\r', before).count() - pairs - split_crlf + 1
    }

    /// Rejects a name with characters outside XID.
    pub(super) fn check_name(&self, start: usize, end: usize) -> Result<()> {
        let mut characters = self.text[start..end].char_indices();
        let wrong = match characters.next() {
            Some((_, first)) if first != '_' && !is_xid_start(first) => Some((0, first)),
            _ => characters.find(|&(_, other)| !is_xid_continue(other)),
        };
        wrong.map_or(Ok(()), |(offset, character)| Err(self.bad_character(start + offset, character)))
    }

    #[cold]
    fn bad_character(&self, offset: usize, character: char) -> Box<LexError> {
        let code = u32::from(character);
        if is_printable(character) {
            self.raise(format!("invalid character '{character}' (U+{code:04X})"), offset)
        } else {
            self.raise(format!("invalid non-printable character U+{code:04X}"), offset)
        }
    }

    /// An ASCII byte that starts no token. CPython emits an ERRORTOKEN for a printable one.
    #[cold]
    pub(super) fn bad_byte(&mut self, offset: usize) -> Result<usize> {
        match self.bytes[offset] {
            0 => Err(self.raise("source code cannot contain null bytes", offset)),
            byte if byte.is_ascii_graphic() => {
                self.error_token(offset, offset + 1);
                Ok(offset + 1)
            }
            byte => Err(self.bad_character(offset, char::from(byte))),
        }
    }
}

/// `str.isprintable`.
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
