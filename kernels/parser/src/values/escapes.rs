//! Escapes of strings, with the errors that CPython's codecs give.

use super::push_with_newlines;

/// A string's body, with escapes.
pub(super) struct Escapes<'a> {
    pub(super) body: &'a [u8],
    /// It is of bytes: an escape is a byte, and `\u`, `\U`, `\N` are none.
    pub(super) bytes: bool,
    /// Braces are doubled.
    pub(super) braces: bool,
}

/// What is wrong with an escape: its end, and CPython's words.
struct BadEscape {
    end: usize,
    reason: &'static str,
}

impl Escapes<'_> {
    /// Appends what the body stands for. An error is CPython's message.
    pub(super) fn decode(&self, extra: &mut Vec<u8>) -> Result<(), String> {
        let (mut at, mut origin) = (0, 0);
        loop {
            let rest = &self.body[at..];
            let plain =
                if self.braces { memchr::memchr3(b'\\', b'{', b'}', rest) } else { memchr::memchr(b'\\', rest) };
            push_with_newlines(extra, &rest[..plain.unwrap_or(rest.len())]);
            let Some(plain) = plain else { return Ok(()) };
            at += plain;
            if self.body[at] == b'\\' {
                let named = self.body[at + 1..].starts_with(b"N{");
                at = self.escape(at, extra).map_err(|bad| self.message(origin, at, &bad))?;
                // CPython decodes what is in front of a doubled brace, or up to a name, on its own.
                if self.braces && named {
                    origin = at;
                }
            } else {
                extra.push(self.body[at]);
                at += 2;
                origin = at;
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

    /// Appends what the escape at a backslash stands for, and gives the byte behind it.
    fn escape(&self, at: usize, extra: &mut Vec<u8>) -> Result<usize, BadEscape> {
        let simple = match self.body.get(at + 1).copied() {
            Some(b'\n') => return Ok(at + 2),
            Some(b'\r') => return Ok(at + if self.body.get(at + 2) == Some(&b'\n') { 3 } else { 2 }),
            Some(quoted @ (b'\\' | b'\'' | b'"')) => quoted,
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(b'a') => 0x07,
            Some(b'b') => 0x08,
            Some(b'f') => 0x0c,
            Some(b'v') => 0x0b,
            Some(b'0'..=b'7') => return Ok(self.octal(at, extra)),
            Some(b'x') => return self.hexadecimal(at, 2, "truncated \\xXX escape", extra),
            Some(b'u') if !self.bytes => return self.hexadecimal(at, 4, "truncated \\uXXXX escape", extra),
            Some(b'U') if !self.bytes => return self.hexadecimal(at, 8, "truncated \\UXXXXXXXX escape", extra),
            Some(b'N') if !self.bytes => return self.named(at, extra),
            // No escape, or nothing to escape, as in front of a field.
            _ => {
                extra.push(b'\\');
                return Ok(at + 1);
            }
        };
        extra.push(simple);
        Ok(at + 2)
    }

    fn octal(&self, at: usize, extra: &mut Vec<u8>) -> usize {
        let digits = self.body[at + 1..].iter().take(3).take_while(|byte| matches!(byte, b'0'..=b'7'));
        let (mut code, mut end) = (0, at + 1);
        for digit in digits {
            code = code * 8 + u32::from(digit - b'0');
            end += 1;
        }
        self.push(code, extra);
        end
    }

    fn hexadecimal(
        &self,
        at: usize,
        count: usize,
        reason: &'static str,
        extra: &mut Vec<u8>,
    ) -> Result<usize, BadEscape> {
        let (mut code, mut end) = (0, at + 2);
        while end < at + 2 + count {
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

    fn named(&self, at: usize, extra: &mut Vec<u8>) -> Result<usize, BadEscape> {
        let malformed = |end: usize| BadEscape { end, reason: "malformed \\N character escape" };
        if self.body.get(at + 2) != Some(&b'{') {
            return Err(malformed(at + 2));
        }
        let name = &self.body[at + 3..];
        let Some(length) = memchr::memchr(b'}', name) else {
            let end = at + 3 + widened(name);
            return Err(malformed(end));
        };
        if length == 0 {
            return Err(malformed(at + 3));
        }
        let end = at + 3 + length + 1;
        let widened_end = at + 3 + widened(&name[..length]) + 1;
        let code = character(&name[..length])
            .ok_or(BadEscape { end: widened_end, reason: "unknown Unicode character name" })?;
        self.push(u32::from(code), extra);
        Ok(end)
    }

    /// A code point in UTF-8, a surrogate as if it were one; or a byte.
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

/// How long bytes are to CPython's codec, which gets each character beyond ASCII as `\U` and eight digits, and a backslash
/// in front of one as `\u005c`.
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

/// The character that CPython knows by a name, or by an alias; case does not matter, but where names follow a rule.
pub(crate) fn character(name: &[u8]) -> Option<char> {
    const IDEOGRAPH: &str = "CJK UNIFIED IDEOGRAPH-";
    // The crate looks in front of a hyphen, and no name starts with one.
    let name = std::str::from_utf8(name).ok().filter(|name| name.is_ascii() && !name.starts_with('-'))?;
    if let Some(code) = name.strip_prefix(IDEOGRAPH) {
        let digits = matches!(code.len(), 4 | 5) && code.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'F'));
        let found = u32::from_str_radix(code, 16).ok().filter(|_| digits).and_then(char::from_u32)?;
        return unicode_names2::name(found)?.to_string().starts_with(IDEOGRAPH).then_some(found);
    }
    let found = unicode_names2::character(name)?;
    let Some(known) = unicode_names2::name(found).map(|known| known.to_string()) else {
        return is_strict(name).then_some(found);
    };
    if known.starts_with("HANGUL SYLLABLE ") {
        return (known == name).then_some(found);
    }
    if known.starts_with(IDEOGRAPH) || known.starts_with("TANGUT IDEOGRAPH-") {
        return None;
    }
    // What is not the name is an alias, which the crate tells only loosely.
    let alias = || is_strict(name) && squeezed(name) != squeezed(&known);
    (known.eq_ignore_ascii_case(name) || alias()).then_some(found)
}

/// A name has single spaces and no underscores.
fn is_strict(name: &str) -> bool {
    !name.contains('_') && name.split(' ').all(|word| !word.is_empty())
}

fn squeezed(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_uppercase()).collect()
}
