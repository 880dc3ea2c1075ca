//! f- and t-strings: literal text and replacement fields.

use super::brackets::{Bracket, MAX_BRACKETS};
use super::names::offset;
use super::tables::{STOPS_FIELDS, STRING_STOPS};
use super::{Lexer, Result};
use crate::tokens::{Terminal, string};

/// CPython's limits on nested f- and t-strings, and on fields nested in the format specifications of one.
const MAX_FSTRINGS: usize = 149;
const MAX_NESTED_FIELDS: usize = 3;

/// An open f- or t-string.
#[derive(Clone, Copy)]
pub(super) struct OpenFString {
    pub(super) quote: u8,
    pub(super) triple: bool,
    pub(super) flags: u32,
    pub(super) kind: Terminal,
    pub(super) start: u32,
    /// The height of the bracket stack at its start.
    pub(super) height: usize,
}

impl OpenFString {
    /// `f` or `t`, for messages.
    pub(super) fn letter(&self) -> char {
        if self.kind == Terminal::TStringStart { 't' } else { 'f' }
    }
}

/// The part of the string that literal text belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LiteralPart {
    /// Outside all fields.
    Outside,
    /// A format specification, up to its first field.
    Spec,
    /// The rest of it, where CPython no longer treats it as one: `{{` is a literal brace, and a newline does not end
    /// it.
    SpecAfterField,
}

/// The end of literal text.
enum LiteralEnd {
    Quote,
    Open,
    Close,
    Newline,
}

impl Lexer<'_> {
    pub(super) fn push_fstring(&mut self, fstring: OpenFString, body: usize) -> Result<()> {
        if self.open_fstrings.len() >= MAX_FSTRINGS {
            let what = if self.options.feature_version < 14 { "f-strings" } else { "f-strings or t-strings" };
            return Err(self.raise(format!("too many nested {what}"), body - 1));
        }
        self.open_fstrings.push(fstring);
        Ok(())
    }

    /// Lexes the literal text of the innermost f- or t-string until a field opens or the string ends.
    pub(super) fn literal(&mut self, mut start: usize, mut part: LiteralPart) -> Result<usize> {
        loop {
            let Some(fstring) = self.open_fstrings.last().copied() else { return Ok(start) };
            let (offset, end, changed) = self.literal_end(start, part, &fstring)?;
            if offset > start {
                let spec = if part == LiteralPart::Spec { string::SPEC } else { 0 };
                let changed = if changed { string::CHANGED } else { 0 };
                self.push(Terminal::FStringMiddle, start, offset, fstring.flags & string::RAW | spec | changed);
            }
            match end {
                LiteralEnd::Quote => {
                    let after = offset + if fstring.triple { 3 } else { 1 };
                    self.push(Terminal::FStringEnd, offset, after, 0);
                    self.open_fstrings.pop();
                    self.brackets.demote_fields(fstring.height);
                    return Ok(after);
                }
                LiteralEnd::Open => return self.open_field(offset, part, &fstring),
                LiteralEnd::Newline => return Ok(offset),
                LiteralEnd::Close => {
                    self.push(Terminal::FieldClose, offset, offset + 1, 0);
                    let outer = self.brackets.pop();
                    let in_spec = matches!(outer, Some((Bracket::Field { in_spec: true }, _)));
                    part = if in_spec { LiteralPart::SpecAfterField } else { LiteralPart::Outside };
                    start = offset + 1;
                }
            }
        }
    }

    fn open_field(&mut self, position: usize, part: LiteralPart, fstring: &OpenFString) -> Result<usize> {
        if self.brackets.fields_above(fstring.height) >= MAX_NESTED_FIELDS {
            let message = format!("{}-string: expressions nested too deeply", fstring.letter());
            return Err(self.raise(message, self.char_before(position)));
        }
        if self.brackets.len() >= MAX_BRACKETS {
            return Err(self.raise("too many nested parentheses", position));
        }
        self.brackets.push(Bracket::Field { in_spec: part != LiteralPart::Outside }, offset(position));
        self.push(Terminal::FieldOpen, position, position + 1, 0);
        Ok(position + 1)
    }

    /// The end of literal text, what ends it, and whether its value differs from its source.
    fn literal_end(&self, start: usize, part: LiteralPart, fstring: &OpenFString) -> Result<(usize, LiteralEnd, bool)> {
        let raw = fstring.flags & string::RAW != 0;
        // Inside `\N{...}`, whose brace opens no field.
        let mut in_name = false;
        let mut offset = start;
        let mut changed = false;
        loop {
            while STRING_STOPS[usize::from(self.byte(offset))] & STOPS_FIELDS == 0 {
                offset += 1;
            }
            match self.byte(offset) {
                byte if byte == fstring.quote => {
                    if !fstring.triple || (self.byte(offset + 1) == byte && self.byte(offset + 2) == byte) {
                        return Ok((offset, LiteralEnd::Quote, changed));
                    }
                    offset += 1;
                }
                b'{' if part != LiteralPart::Spec && self.byte(offset + 1) == b'{' => {
                    changed = true;
                    offset += 2;
                }
                b'{' => return Ok((offset, LiteralEnd::Open, changed)),
                b'}' if in_name => {
                    in_name = false;
                    offset += 1;
                }
                b'}' if part != LiteralPart::Outside => return Ok((offset, LiteralEnd::Close, changed)),
                b'}' if self.byte(offset + 1) == b'}' => {
                    changed = true;
                    offset += 2;
                }
                b'}' => {
                    return Err(self.raise(format!("{}-string: single '}}' is not allowed", fstring.letter()), offset));
                }
                b'\\' => {
                    changed |= !raw;
                    offset = match (self.byte(offset + 1), self.byte(offset + 2)) {
                        // A backslash does not escape a brace.
                        (b'{' | b'}', _) => offset + 1,
                        (b'N', b'{') if !raw => {
                            in_name = true;
                            offset + 3
                        }
                        (b'\r', _) => {
                            changed = true;
                            self.after_escape(offset)
                        }
                        _ => offset + 2,
                    };
                }
                b'\n' | b'\r' if !fstring.triple => return self.literal_newline(offset, part, fstring, changed),
                b'\r' => {
                    changed = true;
                    offset += 1;
                }
                0 if offset >= self.bytes.len() => return self.literal_newline(offset, part, fstring, changed),
                _ => offset += 1,
            }
        }
    }

    /// A newline in literal text. Before 3.14 it ends a single-quoted format specification, but not the field;
    /// elsewhere it is an error. CPython appends a newline to the text.
    #[cold]
    fn literal_newline(
        &self,
        offset: usize,
        part: LiteralPart,
        fstring: &OpenFString,
        changed: bool,
    ) -> Result<(usize, LiteralEnd, bool)> {
        let offset = offset.min(self.bytes.len());
        if part == LiteralPart::Spec && !fstring.triple {
            if self.options.feature_version < 14 {
                return Ok((offset, LiteralEnd::Newline, changed));
            }
            let letter = fstring.letter();
            let message = format!(
                "{letter}-string: newlines are not allowed in format specifiers for single quoted {letter}-strings"
            );
            return Err(self.raise(message, offset));
        }
        Err(self.unterminated_fstring(fstring, offset))
    }
}
