//! f- and t-strings: their literal text, and where their replacement fields open and close.

use super::brackets::{MOST_BRACKETS, Opening};
use super::names::place;
use super::tables::{STOPS_FIELDS, STRING_STOPS};
use super::{Lexer, Result};
use crate::tokens::{Terminal, string};

/// CPython nests at most so many f- and t-strings, and fields in the format specifications of one.
const MOST_FRAMES: usize = 149;
const MOST_FIELDS: usize = 3;

/// An f- or t-string that is open.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    pub(super) quote: u8,
    pub(super) triple: bool,
    pub(super) flags: u32,
    pub(super) kind: Terminal,
    pub(super) start: u32,
    /// How many brackets were open when it started.
    pub(super) height: usize,
}

impl Frame {
    /// What CPython's messages call it by.
    pub(super) fn letter(&self) -> char {
        if self.kind == Terminal::TStringStart { 't' } else { 'f' }
    }
}

/// Which part of the string literal text belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Outside of all fields.
    Outside,
    /// A format specification, up to its first field.
    Spec,
    /// The rest of it. CPython forgets there that it is in one: `{{` is a brace again, and no newline ends it.
    SpecBehindField,
}

/// What literal text ends with.
enum End {
    Quote,
    Open,
    Close,
    Newline,
}

impl Lexer<'_> {
    pub(super) fn open_frame(&mut self, frame: Frame, body: usize) -> Result<()> {
        if self.frames.len() >= MOST_FRAMES {
            let what = if self.options.feature_version < 14 { "f-strings" } else { "f-strings or t-strings" };
            return Err(self.raise(format!("too many nested {what}"), body - 1));
        }
        self.frames.push(frame);
        Ok(())
    }

    /// Lexes the literal text of the innermost f- or t-string until a field opens or the string ends.
    pub(super) fn literal(&mut self, mut start: usize, mut part: Part) -> Result<usize> {
        loop {
            let Some(frame) = self.frames.last().copied() else { return Ok(start) };
            let (at, end, changed) = self.literal_end(start, part, &frame)?;
            if at > start {
                let spec = if part == Part::Spec { string::SPEC } else { 0 };
                let changed = if changed { string::CHANGED } else { 0 };
                self.push(Terminal::FStringMiddle, start, at, frame.flags & string::RAW | spec | changed);
            }
            match end {
                End::Quote => {
                    let behind = at + if frame.triple { 3 } else { 1 };
                    self.push(Terminal::FStringEnd, at, behind, 0);
                    self.frames.pop();
                    self.brackets.forget_fields(frame.height);
                    return Ok(behind);
                }
                End::Open => return self.open_field(at, part, &frame),
                End::Newline => return Ok(at),
                End::Close => {
                    self.push(Terminal::FieldClose, at, at + 1, 0);
                    let outer = self.brackets.pop();
                    let in_spec = matches!(outer, Some((Opening::Field { in_spec: true }, _)));
                    part = if in_spec { Part::SpecBehindField } else { Part::Outside };
                    start = at + 1;
                }
            }
        }
    }

    fn open_field(&mut self, at: usize, part: Part, frame: &Frame) -> Result<usize> {
        if self.brackets.fields_above(frame.height) >= MOST_FIELDS {
            let message = format!("{}-string: expressions nested too deeply", frame.letter());
            return Err(self.raise(message, self.before(at)));
        }
        if self.brackets.len() >= MOST_BRACKETS {
            return Err(self.raise("too many nested parentheses", at));
        }
        self.brackets.push(Opening::Field { in_spec: part != Part::Outside }, place(at));
        self.push(Terminal::FieldOpen, at, at + 1, 0);
        Ok(at + 1)
    }

    /// Where literal text ends, what with, and whether it means something else than is written.
    fn literal_end(&self, start: usize, part: Part, frame: &Frame) -> Result<(usize, End, bool)> {
        let raw = frame.flags & string::RAW != 0;
        // Inside `\N{`, whose brace opens no field.
        let mut in_name = false;
        let (mut at, mut changed) = (start, false);
        loop {
            while STRING_STOPS[usize::from(self.byte(at))] & STOPS_FIELDS == 0 {
                at += 1;
            }
            match self.byte(at) {
                byte if byte == frame.quote => {
                    if !frame.triple || (self.byte(at + 1) == byte && self.byte(at + 2) == byte) {
                        return Ok((at, End::Quote, changed));
                    }
                    at += 1;
                }
                b'{' if part != Part::Spec && self.byte(at + 1) == b'{' => {
                    changed = true;
                    at += 2;
                }
                b'{' => return Ok((at, End::Open, changed)),
                b'}' if in_name => {
                    in_name = false;
                    at += 1;
                }
                b'}' if part != Part::Outside => return Ok((at, End::Close, changed)),
                b'}' if self.byte(at + 1) == b'}' => {
                    changed = true;
                    at += 2;
                }
                b'}' => return Err(self.raise(format!("{}-string: single '}}' is not allowed", frame.letter()), at)),
                b'\\' => {
                    changed |= !raw;
                    at = match (self.byte(at + 1), self.byte(at + 2)) {
                        // A brace is a brace all the same.
                        (b'{' | b'}', _) => at + 1,
                        (b'N', b'{') if !raw => {
                            in_name = true;
                            at + 3
                        }
                        (b'\r', _) => {
                            changed = true;
                            self.behind_escape(at)
                        }
                        _ => at + 2,
                    };
                }
                b'\n' | b'\r' if !frame.triple => return self.literal_newline(at, part, frame, changed),
                b'\r' => {
                    changed = true;
                    at += 1;
                }
                0 if at >= self.bytes.len() => return self.literal_newline(at, part, frame, changed),
                _ => at += 1,
            }
        }
    }

    /// Before 3.14 a newline ends a format specification in single quotes, not the field; elsewhere it is an error. CPython
    /// puts one behind the text.
    #[cold]
    fn literal_newline(&self, at: usize, part: Part, frame: &Frame, changed: bool) -> Result<(usize, End, bool)> {
        let at = at.min(self.bytes.len());
        if part == Part::Spec && !frame.triple {
            if self.options.feature_version < 14 {
                return Ok((at, End::Newline, changed));
            }
            let letter = frame.letter();
            let message = format!(
                "{letter}-string: newlines are not allowed in format specifiers for single quoted {letter}-strings"
            );
            return Err(self.raise(message, at));
        }
        Err(self.unterminated_frame(frame, at))
    }
}
