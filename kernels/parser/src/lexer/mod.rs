//! Text to tokens and logical lines.
//!
//! An error does not undo what stands before it: [`Lexed`] has the tokens and lines up to the error, for an error of the
//! grammar among them comes first.

mod brackets;
mod errors;
mod fields;
mod indentation;
mod names;
mod numbers;
mod outcome;
mod raw;
mod strings;
pub mod tables;
#[cfg(test)]
mod tests;
mod words;

use memchr::{memchr, memchr2};

use self::brackets::{Brackets, MOST_BRACKETS, Opening};
pub use self::errors::LexError;
use self::fields::Frame;
use self::names::{Names, place};
use self::outcome::Stray;
pub(crate) use self::raw::{Levels, Raw, lex_raw};
use self::tables::{CLASSES, Class, DIAMOND, NAME_PARTS, PAIRS, PART, SYMBOL_CLASSES, SYMBOLS, WIDE, WITH_EQUAL};
use self::words::{eight_at, lowest, name_bytes};
use crate::rules::SoftKeywords;
use crate::tokens::{Line, Terminal, Tokens};
use crate::{Diagnostic, Options};

/// A longer text cannot be told in `u32`s, together with what `extra` may add to it.
pub const MOST_BYTES: usize = 1 << 30;

/// What a text is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lexed {
    /// The tokens.
    pub tokens: Tokens,
    /// The logical lines. All tokens are part of one.
    pub lines: Vec<Line>,
    /// Where each comment starts and ends.
    pub comments: Vec<(u32, u32)>,
    /// Where each name starts: in the text, or behind it in `extra`. Names stand in the order of their first tokens.
    pub name_starts: Vec<u32>,
    /// Where each name ends.
    pub name_ends: Vec<u32>,
    /// The names that are written otherwise in the text.
    pub extra: Vec<u8>,
    /// Which names may be keywords.
    pub soft: SoftKeywords,
    /// Why there are no more tokens.
    pub error: Option<LexError>,
    /// How many columns deep the line is whose first token is the error.
    pub begun: Option<u32>,
    /// The error stands inside the last line, whose tokens up to it are there.
    pub cut: bool,
}

impl Lexed {
    /// A name, by its number; `extra` starts with the names that are written otherwise in the text.
    pub(crate) fn name<'a>(&self, text: &'a str, extra: &'a [u8], number: u32) -> &'a [u8] {
        let (start, end) = (self.name_starts[number as usize] as usize, self.name_ends[number as usize] as usize);
        match start.checked_sub(text.len()) {
            Some(start) => &extra[start..end - text.len()],
            None => &text.as_bytes()[start..end],
        }
    }

    /// The error that CPython reports instead of one of the grammar: having met a `SyntaxError` of the grammar at a place, it
    /// reads the rest of the source for a better reason.
    pub fn better_reason(&self, text: &str, at: u32) -> Option<Diagnostic> {
        self.error.as_ref().and_then(|error| error.better_than(text, at))
    }
}

/// Takes a text apart, as the newest version does.
///
/// # Panics
/// If the text is longer than [`MOST_BYTES`].
pub fn lex(text: &str) -> Lexed {
    lex_as(text, &Options::default())
}

/// Takes a text apart, as a version does.
///
/// # Panics
/// If the text is longer than [`MOST_BYTES`].
pub fn lex_as(text: &str, options: &Options) -> Lexed {
    assert!(text.len() <= MOST_BYTES, "text has {} bytes, at most {MOST_BYTES} are expected", text.len());
    let mut lexer = Lexer::new(text, *options);
    let error = lexer.run().err().map(|error| *error);
    lexer.finish(error)
}

/// Where each physical line of a text starts. Line feeds, carriage returns and the two together end one.
pub fn line_starts(text: &str) -> Vec<u32> {
    let bytes = text.as_bytes();
    let mut starts = Vec::with_capacity(bytes.len() / 32 + 1);
    starts.push(0);
    if memchr(b'\r', bytes).is_none() {
        starts.extend(memchr::memchr_iter(b'\n', bytes).map(|at| place(at + 1)));
        return starts;
    }
    for at in memchr::memchr2_iter(b'\n', b'\r', bytes) {
        if bytes[at] == b'\n' || bytes.get(at + 1) != Some(&b'\n') {
            starts.push(place(at + 1));
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
    names: Names,
    brackets: Brackets,
    /// The f- and t-strings that are open, innermost last.
    frames: Vec<Frame>,
    /// The first token that CPython's lexer knows, but no grammar.
    stray: Option<Stray>,
    /// There is a carriage return somewhere.
    has_returns: bool,
    /// Strings are those of the version's own tokenizer.
    as_versioned: bool,
    first: u32,
    column: u32,
    alternate: u32,
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
            names: Names::new(text.len()),
            brackets: Brackets::default(),
            frames: Vec::new(),
            stray: None,
            has_returns: memchr(b'\r', text.as_bytes()).is_some(),
            as_versioned: false,
            first: 0,
            column: 0,
            alternate: 0,
        }
    }

    fn run(&mut self) -> Result<()> {
        let mut at = if self.bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        while at < self.bytes.len() {
            at = self.indentation(at)?;
            at = self.line(at)?;
        }
        Ok(())
    }

    #[inline]
    fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    #[inline]
    fn push(&mut self, kind: Terminal, start: usize, end: usize, payload: u32) {
        self.tokens.kinds.push(kind);
        self.tokens.starts.push(place(start));
        self.tokens.ends.push(place(end));
        self.tokens.payloads.push(payload);
    }

    /// Measures the indentation of a physical line, from its first byte; gives the first byte that is none of it.
    #[inline]
    fn indentation(&mut self, mut at: usize) -> Result<usize> {
        let start = at;
        while self.byte(at) == b' ' {
            at += 1;
        }
        let next = self.byte(at);
        if matches!(next, b'\t' | 0x0c | b'\\') {
            return self.odd_indentation(start);
        }
        self.column = place(at - start);
        self.alternate = self.column;
        Ok(at)
    }

    /// An indentation with tabs, form feeds or backslashes. CPython takes the columns in front of the first backslash that
    /// are not 0 for the line's, tabs or not.
    #[cold]
    fn odd_indentation(&mut self, mut at: usize) -> Result<usize> {
        let (mut column, mut alternate, mut continued) = (0, 0, 0);
        loop {
            match self.byte(at) {
                b' ' => (column, alternate) = (column + 1, alternate + 1),
                b'\t' => (column, alternate) = ((column / 8 + 1) * 8, alternate + 1),
                0x0c => (column, alternate) = (0, 0),
                b'\\' => {
                    continued = if continued == 0 { column } else { continued };
                    at = self.continuation(at)? - 1;
                }
                _ => break,
            }
            at += 1;
        }
        (self.column, self.alternate) = if continued == 0 { (column, alternate) } else { (continued, continued) };
        Ok(at)
    }

    /// Behind a backslash and the newline that must follow it, and a line that must follow that.
    #[cold]
    fn continuation(&mut self, at: usize) -> Result<usize> {
        let next = match (self.byte(at + 1), self.byte(at + 2)) {
            (b'\r', b'\n') => at + 3,
            (b'\n' | b'\r', _) => at + 2,
            _ if at + 1 == self.bytes.len() => at + 1,
            _ => return Err(self.bad_continuation(at)),
        };
        if next == self.bytes.len() { Err(self.unexpected_end(at)) } else { Ok(next) }
    }

    /// Lexes up to the end of a line that no bracket, string or backslash takes over, and gives the byte behind it.
    fn line(&mut self, mut at: usize) -> Result<usize> {
        loop {
            // A token with a space in front is as common as one without: no branch can tell them apart.
            at += usize::from(self.byte(at) == b' ');
            let byte = self.byte(at);
            match CLASSES[usize::from(byte)] {
                Class::Space => at += 1,
                Class::Name | Class::Wide => at = self.name(at)?,
                Class::Operator => at = self.operator(at),
                Class::Open => at = self.open(at)?,
                Class::Close => at = self.close(at)?,
                Class::Dot => at = self.dot(at)?,
                Class::Field => at = self.field_operator(at)?,
                Class::Digit => at = self.number(at)?,
                Class::Quote => at = self.string(at, at)?,
                Class::Hash => at = self.comment(at),
                Class::Newline => {
                    at += 1;
                    if self.brackets.is_empty() {
                        self.end_line();
                        return Ok(at);
                    }
                }
                Class::Backslash => at = self.continuation(at)?,
                Class::Zero if at >= self.bytes.len() => {
                    self.end_of_text()?;
                    self.end_line();
                    return Ok(at);
                }
                Class::Zero | Class::Bad => at = self.bad_byte(at)?,
            }
        }
    }

    #[inline]
    fn end_line(&mut self) {
        let end = place(self.tokens.kinds.len());
        if end != self.first {
            self.lines.push(Line { first: self.first, end, column: self.column, alternate: self.alternate });
            self.first = end;
        }
    }

    #[inline]
    fn name(&mut self, start: usize) -> Result<usize> {
        // Most names end within eight bytes, which are their key, too.
        let Some(word) = eight_at(self.bytes, start) else { return self.long_name(start, start) };
        let length = name_bytes(word);
        if length == 8 {
            return self.long_name(start, start + 8);
        }
        let end = start + length as usize;
        let next = self.byte(end);
        if next >= 128 {
            return self.wide_name(start);
        }
        if length <= 2 && (next == b'"' || next == b'\'') {
            return self.string(start, end);
        }
        let (kind, payload) = self.names.short(lowest(word, length), start, end);
        self.push(kind, start, end, payload);
        Ok(end)
    }

    /// A name of eight bytes or more, which goes on at a place; or one at the end of the text.
    fn long_name(&mut self, start: usize, mut end: usize) -> Result<usize> {
        while let Some(word) = eight_at(self.bytes, end) {
            let length = name_bytes(word);
            end += length as usize;
            if length < 8 {
                break;
            }
        }
        while NAME_PARTS[usize::from(self.byte(end))] == PART {
            end += 1;
        }
        let next = self.byte(end);
        if next >= 128 {
            return self.wide_name(start);
        }
        if end - start <= 2 && (next == b'"' || next == b'\'') {
            return self.string(start, end);
        }
        let (kind, payload) = self.names.look_up(self.bytes, start, end);
        self.push(kind, start, end, payload);
        Ok(end)
    }

    #[cold]
    fn wide_name(&mut self, start: usize) -> Result<usize> {
        let mut end = start;
        while NAME_PARTS[usize::from(self.byte(end))] & (PART | WIDE) != 0 {
            end += 1;
        }
        self.check_name(start, end)?;
        let number = self.names.look_up_wide(self.text, start, end);
        self.push(Terminal::Name, start, end, number);
        Ok(end)
    }

    #[inline]
    fn operator(&mut self, at: usize) -> usize {
        let row = SYMBOL_CLASSES[usize::from(self.byte(at))] & 31;
        let column = SYMBOL_CLASSES[usize::from(self.byte(at + 1))] & 31;
        let number = PAIRS[usize::from(row)][usize::from(column)];
        // What follows most symbols cannot be part of one, so that their end is known without the tables.
        if column == 0 { self.symbol(number, at, at + 1) } else { self.long_operator(number, at) }
    }

    fn long_operator(&mut self, mut number: u8, at: usize) -> usize {
        let longer = WITH_EQUAL[usize::from(number & 63)];
        if longer != 0 && self.byte(at + 2) == b'=' {
            number = longer;
        }
        self.symbol(number, at, at + SYMBOLS[usize::from(number)].text.len())
    }

    #[inline]
    fn symbol(&mut self, number: u8, at: usize, end: usize) -> usize {
        if number >= DIAMOND {
            self.stray(at, end);
        } else {
            let symbol = &SYMBOLS[usize::from(number)];
            self.push(symbol.kind, at, end, u32::from(symbol.payload));
        }
        end
    }

    /// Notes a token that no grammar has.
    #[cold]
    fn stray(&mut self, start: usize, end: usize) {
        let (tokens, lines) = (self.tokens.kinds.len(), self.lines.len());
        self.stray.get_or_insert(Stray { start, end, tokens, lines });
        // It is part of its line all the same.
        self.push(Terminal::Name, start, end, 0);
    }

    #[inline]
    fn open(&mut self, at: usize) -> Result<usize> {
        if self.brackets.len() >= MOST_BRACKETS {
            return Err(self.raise("too many nested parentheses", at));
        }
        let byte = self.bytes[at];
        let kind = match byte {
            b'(' => Terminal::LeftParen,
            b'[' => Terminal::LeftBracket,
            _ => Terminal::LeftBrace,
        };
        self.brackets.push(Opening::of(byte), place(at));
        self.push(kind, at, at + 1, 0);
        Ok(at + 1)
    }

    #[inline]
    fn close(&mut self, at: usize) -> Result<usize> {
        let byte = self.bytes[at];
        match self.brackets.pop() {
            Some((Opening::Field { in_spec }, _)) if byte == b'}' => {
                self.push(Terminal::FieldClose, at, at + 1, 0);
                self.literal(at + 1, if in_spec { fields::Part::SpecBehindField } else { fields::Part::Outside })
            }
            Some((opening, _)) if opening.closes() == byte => {
                let kind = match byte {
                    b')' => Terminal::RightParen,
                    b']' => Terminal::RightBracket,
                    _ => Terminal::RightBrace,
                };
                self.push(kind, at, at + 1, 0);
                Ok(at + 1)
            }
            open => Err(self.unmatched(at, open)),
        }
    }

    #[inline]
    fn dot(&mut self, at: usize) -> Result<usize> {
        let next = self.byte(at + 1);
        if next.is_ascii_digit() {
            return self.number(at);
        }
        if next == b'.' && self.byte(at + 2) == b'.' {
            self.push(Terminal::Ellipsis, at, at + 3, 0);
            return Ok(at + 3);
        }
        self.push(Terminal::Dot, at, at + 1, 0);
        Ok(at + 1)
    }

    /// `:` and `!`, which end the expression of a replacement field.
    #[inline]
    fn field_operator(&mut self, at: usize) -> Result<usize> {
        if self.brackets.in_field() {
            if self.bytes[at] == b':' {
                self.push(Terminal::FieldColon, at, at + 1, 0);
                return self.literal(at + 1, fields::Part::Spec);
            }
            if self.byte(at + 1) != b'=' {
                self.push(Terminal::FieldBang, at, at + 1, 0);
                return Ok(at + 1);
            }
        }
        Ok(self.operator(at))
    }

    #[inline]
    fn number(&mut self, at: usize) -> Result<usize> {
        match numbers::end_of_number(self.bytes, at) {
            Ok(end) => {
                self.push(Terminal::Number, at, end, 0);
                Ok(end)
            }
            Err(bad) => Err(self.bad_number(&bad)),
        }
    }

    #[inline]
    fn comment(&mut self, at: usize) -> usize {
        let rest = &self.bytes[at..];
        let end = at + memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        self.comments.push((place(at), place(end)));
        end
    }
}
