//! The lexer: text to tokens and logical lines.
//!
//! On an error [`Lexed`] keeps the tokens and lines before it, since a syntax error among them is reported first.

mod brackets;
mod cpython_tokens;
mod errors;
mod fstrings;
mod indentation;
mod names;
mod numbers;
mod strings;
mod swar;
pub mod tables;
#[cfg(test)]
mod tests;

use memchr::{memchr, memchr2};

use self::brackets::{Bracket, Brackets, MAX_BRACKETS};
pub(crate) use self::cpython_tokens::{CpythonTokens, IndentStack, lex_cpython};
pub use self::errors::LexError;
use self::fstrings::OpenFString;
use self::names::{NameTable, offset};
use self::swar::{load_u64, low_bytes, name_length};
use self::tables::{
    ByteClass, CLASSES, DIAMOND, NAME_BYTES, NAME_CHAR, NON_ASCII, PAIRS, SYMBOL_CLASSES, SYMBOLS, WITH_EQUAL,
};
use crate::tokens::{Line, Terminal, Tokens};
use crate::{Diagnostic, Options};

/// The longest text: offsets into it and into the `extra` that may follow it fit into a `u32`.
pub const MAX_BYTES: usize = 1 << 30;

/// The tokens, lines and names of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lexed {
    /// The tokens.
    pub tokens: Tokens,
    /// The logical lines. All tokens are part of one.
    pub lines: Vec<Line>,
    /// Start and end of each comment.
    pub comments: Vec<(u32, u32)>,
    /// Where each name starts, in the text or, from its length on, in `extra`. Names are in the order of their
    /// first tokens.
    pub name_starts: Vec<u32>,
    /// Where each name ends.
    pub name_ends: Vec<u32>,
    /// Names that NFKC normalisation changes.
    pub extra: Vec<u8>,
    /// The names that are soft keywords.
    pub soft: SoftKeywords,
    /// The error after the last token.
    pub error: Option<LexError>,
    /// The indentation of the line whose first token is the error.
    pub error_column: Option<u32>,
    /// The error is inside the last line, which has the tokens before it.
    pub error_in_line: bool,
}

/// The numbers of the names that are soft keywords; `None` where the source does not have the name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoftKeywords {
    /// The number of `match`.
    pub r#match: Option<u32>,
    /// The number of `case`.
    pub case: Option<u32>,
    /// The number of `type`.
    pub r#type: Option<u32>,
}

impl Lexed {
    /// The bytes of a name; `extra` starts with [`Lexed::extra`].
    pub(crate) fn name<'a>(&self, text: &'a str, extra: &'a [u8], number: u32) -> &'a [u8] {
        let start = self.name_starts[number as usize] as usize;
        let end = self.name_ends[number as usize] as usize;
        match start.checked_sub(text.len()) {
            Some(start) => &extra[start..end - text.len()],
            None => &text.as_bytes()[start..end],
        }
    }

    /// The error that CPython reports instead of a syntax error at `offset`: it tokenises the rest of the source and
    /// prefers certain tokenizer errors.
    pub fn preferred_error(&self, text: &str, offset: u32) -> Option<Diagnostic> {
        self.error.as_ref().and_then(|error| error.preferred_over(text, offset))
    }
}

/// Lexes a text by the rules of the newest version.
///
/// # Panics
/// If the text is longer than [`MAX_BYTES`].
pub fn lex(text: &str) -> Lexed {
    lex_with(text, &Options::default())
}

/// Lexes a text by the rules of a version.
///
/// # Panics
/// If the text is longer than [`MAX_BYTES`].
pub fn lex_with(text: &str, options: &Options) -> Lexed {
    assert!(text.len() <= MAX_BYTES, "text has {} bytes, at most {MAX_BYTES} are expected", text.len());
    let mut lexer = Lexer::new(text, *options);
    let error = lexer.run().err().map(|error| *error);
    lexer.finish(error)
}

/// The offset of each physical line. LF, CR and CRLF end a line.
pub fn line_starts(text: &str) -> Vec<u32> {
    let bytes = text.as_bytes();
    let mut starts = Vec::with_capacity(bytes.len() / 32 + 1);
    starts.push(0);
    if memchr(b'\r', bytes).is_none() {
        starts.extend(memchr::memchr_iter(b'\n', bytes).map(|position| offset(position + 1)));
        return starts;
    }
    for position in memchr::memchr2_iter(b'\n', b'\r', bytes) {
        if bytes[position] == b'\n' || bytes.get(position + 1) != Some(&b'\n') {
            starts.push(offset(position + 1));
        }
    }
    starts
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    options: Options,
    tokens: Tokens,
    lines: Vec<Line>,
    comments: Vec<(u32, u32)>,
    names: NameTable,
    brackets: Brackets,
    /// Open f- and t-strings, innermost last.
    open_fstrings: Vec<OpenFString>,
    first_error_token: Option<ErrorToken>,
    /// The text has a carriage return.
    has_returns: bool,
    /// Before 3.12 f-strings are `String` tokens, and before 3.14 `t` is no prefix.
    versioned_strings: bool,
    first: u32,
    column: u32,
    alternate: u32,
}

/// CPython's ERRORTOKEN: a token that occurs in no grammar. CPython tokenises on for an error that it prefers, and so
/// does the lexer.
struct ErrorToken {
    start: usize,
    end: usize,
    tokens: usize,
    lines: usize,
}

type Result<T> = std::result::Result<T, Box<LexError>>;

impl<'a> Lexer<'a> {
    fn new(text: &'a str, options: Options) -> Self {
        let expected = text.len() / 4;
        Self {
            text,
            bytes: text.as_bytes(),
            options,
            tokens: Tokens {
                kinds: Vec::with_capacity(expected),
                starts: Vec::with_capacity(expected),
                ends: Vec::with_capacity(expected),
                payloads: Vec::with_capacity(expected),
            },
            lines: Vec::with_capacity(text.len() / 32),
            comments: Vec::new(),
            names: NameTable::new(text.len()),
            brackets: Brackets::default(),
            open_fstrings: Vec::new(),
            first_error_token: None,
            has_returns: memchr(b'\r', text.as_bytes()).is_some(),
            versioned_strings: false,
            first: 0,
            column: 0,
            alternate: 0,
        }
    }

    fn run(&mut self) -> Result<()> {
        let mut offset = if self.bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        while offset < self.bytes.len() {
            offset = self.indentation(offset)?;
            offset = self.line(offset)?;
        }
        Ok(())
    }

    #[inline]
    fn byte(&self, offset: usize) -> u8 {
        self.bytes.get(offset).copied().unwrap_or(0)
    }

    #[inline]
    fn push(&mut self, kind: Terminal, start: usize, end: usize, payload: u32) {
        self.tokens.kinds.push(kind);
        self.tokens.starts.push(offset(start));
        self.tokens.ends.push(offset(end));
        self.tokens.payloads.push(payload);
    }

    /// Measures the indentation of a physical line; returns the offset after it.
    #[inline]
    fn indentation(&mut self, mut position: usize) -> Result<usize> {
        let start = position;
        while self.byte(position) == b' ' {
            position += 1;
        }
        let next = self.byte(position);
        if matches!(next, b'\t' | 0x0c | b'\\') {
            return self.unusual_indentation(start);
        }
        self.column = offset(position - start);
        self.alternate = self.column;
        Ok(position)
    }

    /// Indentation with tabs, form feeds or line continuations. CPython uses the first non-zero column before a
    /// backslash for both of the line's columns.
    #[cold]
    fn unusual_indentation(&mut self, mut offset: usize) -> Result<usize> {
        let mut column = 0;
        let mut alternate = 0;
        let mut continued = 0;
        loop {
            match self.byte(offset) {
                b' ' => (column, alternate) = (column + 1, alternate + 1),
                b'\t' => (column, alternate) = ((column / 8 + 1) * 8, alternate + 1),
                0x0c => (column, alternate) = (0, 0),
                b'\\' => {
                    continued = if continued == 0 { column } else { continued };
                    offset = self.continuation(offset)? - 1;
                }
                _ => break,
            }
            offset += 1;
        }
        (self.column, self.alternate) = if continued == 0 { (column, alternate) } else { (continued, continued) };
        Ok(offset)
    }

    /// Returns the offset after a backslash and its newline; a line must follow.
    #[cold]
    fn continuation(&mut self, offset: usize) -> Result<usize> {
        let next = match (self.byte(offset + 1), self.byte(offset + 2)) {
            (b'\r', b'\n') => offset + 3,
            (b'\n' | b'\r', _) => offset + 2,
            _ if offset + 1 == self.bytes.len() => offset + 1,
            _ => return Err(self.bad_continuation(offset)),
        };
        if next == self.bytes.len() { Err(self.unexpected_end(offset)) } else { Ok(next) }
    }

    /// Lexes to the end of a logical line; returns the offset after it.
    fn line(&mut self, mut offset: usize) -> Result<usize> {
        loop {
            // Branch-free: a space before a token is too irregular to predict.
            offset += usize::from(self.byte(offset) == b' ');
            let byte = self.byte(offset);
            match CLASSES[usize::from(byte)] {
                ByteClass::Space => offset += 1,
                ByteClass::Name | ByteClass::NonAscii => offset = self.name(offset)?,
                ByteClass::Operator => offset = self.operator(offset),
                ByteClass::Open => offset = self.open(offset)?,
                ByteClass::Close => offset = self.close(offset)?,
                ByteClass::Dot => offset = self.dot(offset)?,
                ByteClass::Field => offset = self.field_operator(offset)?,
                ByteClass::Digit => offset = self.number(offset)?,
                ByteClass::Quote => offset = self.string(offset, offset)?,
                ByteClass::Hash => offset = self.comment(offset),
                ByteClass::Newline => {
                    offset += 1;
                    if self.brackets.is_empty() {
                        self.end_line();
                        return Ok(offset);
                    }
                }
                ByteClass::Backslash => offset = self.continuation(offset)?,
                ByteClass::Zero if offset >= self.bytes.len() => {
                    self.end_of_text()?;
                    self.end_line();
                    return Ok(offset);
                }
                ByteClass::Zero | ByteClass::Bad => offset = self.bad_byte(offset)?,
            }
        }
    }

    #[inline]
    fn end_line(&mut self) {
        let end = offset(self.tokens.kinds.len());
        if end != self.first {
            self.lines.push(Line { first: self.first, end, column: self.column, alternate: self.alternate });
            self.first = end;
        }
    }

    #[inline]
    fn name(&mut self, start: usize) -> Result<usize> {
        // Most names have fewer than eight bytes, which are also their key.
        let Some(word) = load_u64(self.bytes, start) else { return self.long_name(start, start) };
        let length = name_length(word);
        if length == 8 {
            return self.long_name(start, start + 8);
        }
        let end = start + length as usize;
        let next = self.byte(end);
        if next >= 128 {
            return self.unicode_name(start);
        }
        if length <= 2 && (next == b'"' || next == b'\'') {
            return self.string(start, end);
        }
        let (kind, payload) = self.names.intern_short(low_bytes(word, length), start, end);
        self.push(kind, start, end, payload);
        Ok(end)
    }

    /// A name of eight bytes or more that continues at `end`, or one near the end of the text.
    fn long_name(&mut self, start: usize, mut end: usize) -> Result<usize> {
        while let Some(word) = load_u64(self.bytes, end) {
            let length = name_length(word);
            end += length as usize;
            if length < 8 {
                break;
            }
        }
        while NAME_BYTES[usize::from(self.byte(end))] == NAME_CHAR {
            end += 1;
        }
        let next = self.byte(end);
        if next >= 128 {
            return self.unicode_name(start);
        }
        if end - start <= 2 && (next == b'"' || next == b'\'') {
            return self.string(start, end);
        }
        let (kind, payload) = self.names.intern(self.bytes, start, end);
        self.push(kind, start, end, payload);
        Ok(end)
    }

    #[cold]
    fn unicode_name(&mut self, start: usize) -> Result<usize> {
        let mut end = start;
        while NAME_BYTES[usize::from(self.byte(end))] & (NAME_CHAR | NON_ASCII) != 0 {
            end += 1;
        }
        self.check_name(start, end)?;
        let number = self.names.intern_unicode(self.text, start, end);
        self.push(Terminal::Name, start, end, number);
        Ok(end)
    }

    #[inline]
    fn operator(&mut self, offset: usize) -> usize {
        let row = SYMBOL_CLASSES[usize::from(self.byte(offset))] & 31;
        let column = SYMBOL_CLASSES[usize::from(self.byte(offset + 1))] & 31;
        let number = PAIRS[usize::from(row)][usize::from(column)];
        // After most symbols comes a byte that is part of none, so their length is 1 without the tables.
        if column == 0 { self.symbol(number, offset, offset + 1) } else { self.long_operator(number, offset) }
    }

    fn long_operator(&mut self, mut number: u8, offset: usize) -> usize {
        let longer = WITH_EQUAL[usize::from(number & 63)];
        if longer != 0 && self.byte(offset + 2) == b'=' {
            number = longer;
        }
        self.symbol(number, offset, offset + SYMBOLS[usize::from(number)].text.len())
    }

    #[inline]
    fn symbol(&mut self, number: u8, offset: usize, end: usize) -> usize {
        if number >= DIAMOND {
            self.error_token(offset, end);
        } else {
            let symbol = &SYMBOLS[usize::from(number)];
            self.push(symbol.kind, offset, end, u32::from(symbol.payload));
        }
        end
    }

    /// Records an error token, which stays in its line as a name.
    #[cold]
    fn error_token(&mut self, start: usize, end: usize) {
        let tokens = self.tokens.kinds.len();
        let lines = self.lines.len();
        self.first_error_token.get_or_insert(ErrorToken { start, end, tokens, lines });
        self.push(Terminal::Name, start, end, 0);
    }

    #[inline]
    fn open(&mut self, position: usize) -> Result<usize> {
        if self.brackets.len() >= MAX_BRACKETS {
            return Err(self.raise("too many nested parentheses", position));
        }
        let byte = self.bytes[position];
        let kind = match byte {
            b'(' => Terminal::LeftParen,
            b'[' => Terminal::LeftBracket,
            _ => Terminal::LeftBrace,
        };
        self.brackets.push(Bracket::of(byte), offset(position));
        self.push(kind, position, position + 1, 0);
        Ok(position + 1)
    }

    #[inline]
    fn close(&mut self, offset: usize) -> Result<usize> {
        let byte = self.bytes[offset];
        match self.brackets.pop() {
            Some((Bracket::Field { in_spec }, _)) if byte == b'}' => {
                self.push(Terminal::FieldClose, offset, offset + 1, 0);
                self.literal(
                    offset + 1,
                    if in_spec { fstrings::LiteralPart::SpecAfterField } else { fstrings::LiteralPart::Outside },
                )
            }
            Some((bracket, _)) if bracket.closes() == byte => {
                let kind = match byte {
                    b')' => Terminal::RightParen,
                    b']' => Terminal::RightBracket,
                    _ => Terminal::RightBrace,
                };
                self.push(kind, offset, offset + 1, 0);
                Ok(offset + 1)
            }
            open => Err(self.unmatched(offset, open)),
        }
    }

    #[inline]
    fn dot(&mut self, offset: usize) -> Result<usize> {
        let next = self.byte(offset + 1);
        if next.is_ascii_digit() {
            return self.number(offset);
        }
        if next == b'.' && self.byte(offset + 2) == b'.' {
            self.push(Terminal::Ellipsis, offset, offset + 3, 0);
            return Ok(offset + 3);
        }
        self.push(Terminal::Dot, offset, offset + 1, 0);
        Ok(offset + 1)
    }

    /// `:` or `!`, which end the expression of a replacement field.
    #[inline]
    fn field_operator(&mut self, offset: usize) -> Result<usize> {
        if self.brackets.in_field() {
            if self.bytes[offset] == b':' {
                self.push(Terminal::FieldColon, offset, offset + 1, 0);
                return self.literal(offset + 1, fstrings::LiteralPart::Spec);
            }
            if self.byte(offset + 1) != b'=' {
                self.push(Terminal::FieldBang, offset, offset + 1, 0);
                return Ok(offset + 1);
            }
        }
        Ok(self.operator(offset))
    }

    #[inline]
    fn number(&mut self, offset: usize) -> Result<usize> {
        match numbers::number_end(self.bytes, offset) {
            Ok(end) => {
                self.push(Terminal::Number, offset, end, 0);
                Ok(end)
            }
            Err(bad) => Err(self.bad_number(&bad)),
        }
    }

    #[inline]
    fn comment(&mut self, position: usize) -> usize {
        let rest = &self.bytes[position..];
        let end = position + memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        self.comments.push((offset(position), offset(end)));
        end
    }

    /// Builds the result; of several errors the first one is kept.
    fn finish(mut self, error: Option<LexError>) -> Lexed {
        let column = self.column;
        let ended = error.as_ref().is_some_and(|_| self.first == offset(self.tokens.kinds.len()));
        let met = error.as_ref().map(|error| error.diagnostic.clone());
        let (error, error_in_line) = self.resolve_errors(error);
        let error_column = (ended && met == error.as_ref().map(|error| error.diagnostic.clone())).then_some(column);
        let soft = SoftKeywords {
            r#match: self.names.find(b"match"),
            case: self.names.find(b"case"),
            r#type: self.names.find(b"type"),
        };
        Lexed {
            soft,
            tokens: self.tokens,
            lines: self.lines,
            comments: self.comments,
            name_starts: self.names.starts,
            name_ends: self.names.ends,
            extra: self.names.extra,
            error,
            error_column,
            error_in_line,
        }
    }

    /// Chooses between an indentation error, an error token and the error that ended lexing; returns it and whether it
    /// is inside the last line. Drops the tokens after it.
    fn resolve_errors(&mut self, error: Option<LexError>) -> (Option<LexError>, bool) {
        let before = self.lines.len();
        let column = (self.first, self.column, self.alternate);
        self.end_line();
        let mut error_in_line = self.lines.len() > before;
        let error_line = error.as_ref().filter(|_| !error_in_line).map(|error| {
            let (first, column, alternate) = column;
            (Line { first, end: first, column, alternate }, error.diagnostic.start)
        });
        let mut first = error;
        if let Some((line, found)) = indentation::check(self.text, &self.lines, &self.tokens, error_line) {
            let tokens = self.lines.get(line).map_or(self.tokens.kinds.len(), |line| line.first as usize);
            error_in_line = self.truncate(tokens, line);
            first = Some(found);
        }
        if let Some(token) = self.first_error_token.take()
            && token.lines < self.lines.len()
        {
            error_in_line = self.truncate(token.tokens, token.lines);
            first = first.and_then(|error| {
                let diagnostic = error.preferred_over(self.text, offset(token.start))?;
                Some(LexError { diagnostic, ..error })
            });
            first = first.or_else(|| Some(errors::error_token(token.start, token.end)));
        }
        (first, error_in_line)
    }

    /// Keeps `tokens` tokens and their lines; returns whether line `lines` was cut short.
    fn truncate(&mut self, tokens: usize, lines: usize) -> bool {
        let end = offset(tokens);
        self.tokens.kinds.truncate(tokens);
        self.tokens.starts.truncate(tokens);
        self.tokens.ends.truncate(tokens);
        self.tokens.payloads.truncate(tokens);
        self.lines.truncate(lines + 1);
        let is_cut = self.lines.get(lines).is_some_and(|line| line.first < end);
        self.lines.truncate(lines + usize::from(is_cut));
        if let Some(line) = self.lines.last_mut() {
            line.end = line.end.min(end);
        }
        is_cut
    }
}
