//! String literals: prefix, quotes and end.

use memchr::memchr2;

use super::fstrings::OpenFString;
use super::names::offset;
use super::tables::{STOPS_PLAIN, STRING_STOPS};
use super::{Lexer, Result};
use crate::tokens::{Terminal, string};

/// A string prefix.
#[derive(Clone, Copy)]
pub(super) struct Prefix {
    pub(super) flags: u32,
    /// The start token of an f- or t-string.
    pub(super) fields: Option<Terminal>,
}

impl Prefix {
    fn of(prefix: &[u8]) -> Option<Self> {
        let flags = offset(prefix.len()) << string::PREFIX_SHIFT;
        let lower = |position: usize| prefix.get(position).map_or(0, |byte| byte | 0x20);
        let (flags, fields) = match (lower(0), lower(1)) {
            (0, 0) => (flags, None),
            (b'r', 0) => (flags | string::RAW, None),
            (b'b', 0) => (flags | string::BYTES, None),
            (b'b', b'r') | (b'r', b'b') => (flags | string::BYTES | string::RAW, None),
            (b'u', 0) => (flags | if prefix[0] == b'u' { string::UNICODE } else { 0 }, None),
            (b'f', 0) => (flags, Some(Terminal::FStringStart)),
            (b'f', b'r') | (b'r', b'f') => (flags | string::RAW, Some(Terminal::FStringStart)),
            (b't', 0) => (flags, Some(Terminal::TStringStart)),
            (b't', b'r') | (b'r', b't') => (flags | string::RAW, Some(Terminal::TStringStart)),
            _ => return None,
        };
        Some(Self { flags, fields })
    }
}

impl Lexer<'_> {
    /// A string with its prefix at `start..quote_at`; letters that are no prefix are a name.
    pub(super) fn string(&mut self, start: usize, quote_at: usize) -> Result<usize> {
        let Some(prefix) = Prefix::of(&self.bytes[start..quote_at]) else {
            return Ok(self.prefix_as_name(start, quote_at));
        };
        if self.versioned_strings && self.options.feature_version < 14 && prefix.fields == Some(Terminal::TStringStart)
        {
            return Ok(self.prefix_as_name(start, quote_at));
        }
        let quote = self.bytes[quote_at];
        let triple = self.byte(quote_at + 1) == quote && self.byte(quote_at + 2) == quote;
        let flags = prefix.flags | if triple { string::TRIPLE } else { 0 };
        let body = quote_at + if triple { 3 } else { 1 };
        let whole = self.versioned_strings && self.options.feature_version < 12;
        if let Some(kind) = prefix.fields.filter(|_| !whole) {
            self.push_fstring(
                OpenFString { quote, triple, flags, kind, start: offset(start), height: self.brackets.len() },
                body,
            )?;
            self.push(kind, start, body, flags);
            return self.literal(body, super::fstrings::LiteralPart::Outside);
        }
        let (end, changed) =
            if triple { self.triple_end(start, body, quote) } else { self.single_end(start, body, quote) }?;
        // Raw strings have no escapes.
        let changed = if flags & string::RAW == 0 { changed } else { self.has_returns };
        self.push(Terminal::String, start, end, flags | if changed { string::CHANGED } else { 0 });
        Ok(end)
    }

    /// Letters before a quote that are no prefix.
    #[cold]
    fn prefix_as_name(&mut self, start: usize, quote_at: usize) -> usize {
        let (kind, payload) = self.names.intern(self.bytes, start, quote_at);
        self.push(kind, start, quote_at, payload);
        quote_at
    }

    /// The end of a single-quoted string, and whether it has a backslash.
    fn single_end(&self, start: usize, body: usize, quote: u8) -> Result<(usize, bool)> {
        let mut offset = body;
        let mut changed = false;
        let mut escaped_quote = false;
        loop {
            while STRING_STOPS[usize::from(self.byte(offset))] & STOPS_PLAIN == 0 {
                offset += 1;
            }
            let byte = self.byte(offset);
            if byte == quote {
                return Ok((offset + 1, changed));
            }
            match byte {
                b'\\' => {
                    changed = true;
                    escaped_quote |= self.byte(offset + 1) == quote;
                    offset = self.after_escape(offset);
                }
                b'\n' | b'\r' => return Err(self.unterminated(start, quote, false, escaped_quote, offset)),
                0 if offset >= self.bytes.len() => {
                    return Err(self.unterminated(start, quote, false, escaped_quote, offset));
                }
                _ => offset += 1,
            }
        }
    }

    /// The end of a triple-quoted string, and whether it has a backslash or may have a carriage return.
    fn triple_end(&self, start: usize, body: usize, quote: u8) -> Result<(usize, bool)> {
        let mut offset = body;
        let mut changed = self.has_returns;
        loop {
            let rest = self.bytes.get(offset..).unwrap_or_default();
            let Some(end) = memchr2(quote, b'\\', rest) else {
                return Err(self.unterminated(start, quote, true, false, self.bytes.len()));
            };
            offset += end;
            if self.bytes[offset] == b'\\' {
                changed = true;
                offset = self.after_escape(offset);
            } else if self.byte(offset + 1) == quote && self.byte(offset + 2) == quote {
                return Ok((offset + 3, changed));
            } else {
                offset += 1;
            }
        }
    }

    /// The offset after a backslash and the first byte of the character that it escapes.
    #[inline]
    pub(super) fn after_escape(&self, backslash: usize) -> usize {
        let pair = self.byte(backslash + 1) == b'\r' && self.byte(backslash + 2) == b'\n';
        backslash + if pair { 3 } else { 2 }
    }
}
