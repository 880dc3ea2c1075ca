//! Escape sequences of string literals, with the errors of CPython's codecs.

use super::push_with_newlines;
use crate::unicode_names;

/// The body of a string with escapes.
pub(super) struct Escapes<'a> {
    pub(super) body: &'a [u8],
    /// A bytes literal: an escape is a byte, and `\u`, `\U` and `\N` are not escapes.
    pub(super) bytes: bool,
    /// Braces are escaped by doubling.
    pub(super) braces: bool,
}

/// An invalid escape: its end, and CPython's reason.
struct BadEscape {
    end: usize,
    reason: &'static str,
}

impl Escapes<'_> {
    /// Appends the decoded body. An error is CPython's message.
    pub(super) fn decode(&self, extra: &mut Vec<u8>) -> Result<(), String> {
        let mut offset = 0;
        let mut origin = 0;
        loop {
            let rest = &self.body[offset..];
            let plain =
                if self.braces { memchr::memchr3(b'\\', b'{', b'}', rest) } else { memchr::memchr(b'\\', rest) };
            push_with_newlines(extra, &rest[..plain.unwrap_or(rest.len())]);
            let Some(plain) = plain else { return Ok(()) };
            offset += plain;
            if self.body[offset] == b'\\' {
                let named = self.body[offset + 1..].starts_with(b"N{");
                offset = self.escape(offset, extra).map_err(|bad| self.message(origin, offset, &bad))?;
                // CPython decodes separately up to a doubled brace and up to the end of a name.
                if self.braces && named {
                    origin = offset;
                }
            } else {
                extra.push(self.body[offset]);
                offset += 2;
                origin = offset;
            }
        }
    }

    fn message(&self, origin: usize, start: usize, bad: &BadEscape) -> String {
        let from = widened(&self.body[origin..start]);
        if self.bytes {
            return format!("(value error) invalid \\x escape at position {}", start - origin);
        }
        let to = from + (bad.end - start) - 1;
        let reason = bad.reason;
        format!("(unicode error) 'unicodeescape' codec can't decode bytes in position {from}-{to}: {reason}")
    }

    /// Decodes the escape at a backslash; returns the offset after it.
    fn escape(&self, offset: usize, extra: &mut Vec<u8>) -> Result<usize, BadEscape> {
        let simple = match self.body.get(offset + 1).copied() {
            Some(b'\n') => return Ok(offset + 2),
            Some(b'\r') => return Ok(offset + if self.body.get(offset + 2) == Some(&b'\n') { 3 } else { 2 }),
            Some(quoted @ (b'\\' | b'\'' | b'"')) => quoted,
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(b'a') => 0x07,
            Some(b'b') => 0x08,
            Some(b'f') => 0x0c,
            Some(b'v') => 0x0b,
            Some(b'0'..=b'7') => return Ok(self.octal(offset, extra)),
            Some(b'x') => return self.hexadecimal(offset, 2, "truncated \\xXX escape", extra),
            Some(b'u') if !self.bytes => return self.hexadecimal(offset, 4, "truncated \\uXXXX escape", extra),
            Some(b'U') if !self.bytes => return self.hexadecimal(offset, 8, "truncated \\UXXXXXXXX escape", extra),
            Some(b'N') if !self.bytes => return self.named(offset, extra),
            // Not an escape, or at the end of the text, before a field.
            _ => {
                extra.push(b'\\');
                return Ok(offset + 1);
            }
        };
        extra.push(simple);
        Ok(offset + 2)
    }

    fn octal(&self, offset: usize, extra: &mut Vec<u8>) -> usize {
        let digits = self.body[offset + 1..].iter().take(3).take_while(|byte| matches!(byte, b'0'..=b'7'));
        let mut code = 0;
        let mut end = offset + 1;
        for digit in digits {
            code = code * 8 + u32::from(digit - b'0');
            end += 1;
        }
        self.push(code, extra);
        end
    }

    fn hexadecimal(
        &self,
        offset: usize,
        count: usize,
        reason: &'static str,
        extra: &mut Vec<u8>,
    ) -> Result<usize, BadEscape> {
        let mut code = 0;
        let mut end = offset + 2;
        while end < offset + 2 + count {
            let digit = self.body.get(end).and_then(|&byte| char::from(byte).to_digit(16));
            code = code * 16 + digit.ok_or(BadEscape { end, reason })?;
            end += 1;
        }
        if code > u32::from(char::MAX) {
            return Err(BadEscape { end, reason: "illegal Unicode character" });
        }
        self.push(code, extra);
        Ok(end)
    }

    fn named(&self, offset: usize, extra: &mut Vec<u8>) -> Result<usize, BadEscape> {
        let malformed = |end: usize| BadEscape { end, reason: "malformed \\N character escape" };
        if self.body.get(offset + 2) != Some(&b'{') {
            return Err(malformed(offset + 2));
        }
        let name = &self.body[offset + 3..];
        let Some(length) = memchr::memchr(b'}', name) else {
            let end = offset + 3 + widened(name);
            return Err(malformed(end));
        };
        if length == 0 {
            return Err(malformed(offset + 3));
        }
        let end = offset + 3 + length + 1;
        let widened_end = offset + 3 + widened(&name[..length]) + 1;
        let code = unicode_names::lookup(&name[..length])
            .ok_or(BadEscape { end: widened_end, reason: "unknown Unicode character name" })?;
        self.push(u32::from(code), extra);
        Ok(end)
    }

    /// Appends a byte, or a code point in UTF-8, generalised for surrogates.
    fn push(&self, code: u32, extra: &mut Vec<u8>) {
        let low = |bits: u32| u8::try_from(0x80 | (bits & 0x3f)).expect("eight bits");
        if self.bytes {
            extra.push(u8::try_from(code & 0xff).expect("eight bits"));
        } else if let Some(character) = char::from_u32(code) {
            extra.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        } else {
            extra.extend_from_slice(&[0xed, low(code >> 6), low(code)]);
        }
    }
}

/// The length of bytes as CPython passes them to the codec: a non-ASCII character as `\U` and eight digits, and a
/// backslash before one as `\u005c`.
fn widened(bytes: &[u8]) -> usize {
    let mut length = 0;
    let mut before = 0;
    for &byte in bytes {
        length += match byte {
            0..128 => 1,
            192.. => 10 + if before == b'\\' { 5 } else { 0 },
            128..192 => 0,
        };
        before = byte;
    }
    length
}
