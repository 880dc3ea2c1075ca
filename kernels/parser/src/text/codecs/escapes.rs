//! `unicode_escape` and `raw_unicode_escape`: Latin-1 with Python's escapes.

use super::{Decoded, Undecodable};
use crate::unicode_names;

const TRUNCATED: [(u8, usize, &str); 3] = [
    (b'x', 2, "truncated \\xXX escape"),
    (b'u', 4, "truncated \\uXXXX escape"),
    (b'U', 8, "truncated \\UXXXXXXXX escape"),
];

pub(super) fn unicode_escape(bytes: &[u8]) -> Decoded {
    let mut points = Vec::with_capacity(bytes.len());
    let mut offset = 0;
    while let Some(&byte) = bytes.get(offset) {
        if byte != b'\\' {
            points.push(u32::from(byte));
            offset += 1;
            continue;
        }
        let wrong = |end, reason: &'static str| Undecodable::new("unicodeescape", offset, end, reason);
        let Some(&escaped) = bytes.get(offset + 1) else {
            return Err(wrong(bytes.len(), "\\ at end of string"));
        };
        let simple = match escaped {
            b'\n' => None,
            b'\\' | b'\'' | b'"' => Some(escaped),
            b'n' => Some(b'\n'),
            b't' => Some(b'\t'),
            b'r' => Some(b'\r'),
            b'a' => Some(0x07),
            b'b' => Some(0x08),
            b'f' => Some(0x0c),
            b'v' => Some(0x0b),
            b'0'..=b'7' => {
                let digits = bytes[offset + 1..].iter().take(3).take_while(|digit| matches!(digit, b'0'..=b'7'));
                points.push(digits.clone().fold(0, |code, digit| code * 8 + u32::from(digit - b'0')));
                offset += 1 + digits.count();
                continue;
            }
            b'x' | b'u' | b'U' => {
                let (point, end) = hexadecimal(bytes, offset).map_err(|(end, reason)| wrong(end, reason))?;
                if point > u32::from(char::MAX) {
                    return Err(wrong(end, "illegal Unicode character"));
                }
                points.push(point);
                offset = end;
                continue;
            }
            b'N' => {
                let (point, end) = named(bytes, offset).map_err(|(end, reason)| wrong(end, reason))?;
                points.push(point);
                offset = end;
                continue;
            }
            other => {
                points.push(u32::from(b'\\'));
                Some(other)
            }
        };
        points.extend(simple.map(u32::from));
        offset += 2;
    }
    Ok(points)
}

pub(super) fn raw_unicode_escape(bytes: &[u8]) -> Decoded {
    let mut points = Vec::with_capacity(bytes.len());
    let mut offset = 0;
    while let Some(&byte) = bytes.get(offset) {
        match (byte, bytes.get(offset + 1)) {
            (b'\\', Some(b'u' | b'U')) => {
                let wrong = |end, reason: &'static str| Undecodable::new("rawunicodeescape", offset, end, reason);
                let (point, end) = hexadecimal(bytes, offset).map_err(|(end, reason)| wrong(end, reason))?;
                if point > u32::from(char::MAX) {
                    return Err(wrong(end, "\\Uxxxxxxxx out of range"));
                }
                points.push(point);
                offset = end;
            }
            (b'\\', Some(&other)) => {
                points.extend([u32::from(byte), u32::from(other)]);
                offset += 2;
            }
            _ => {
                points.push(u32::from(byte));
                offset += 1;
            }
        }
    }
    Ok(points)
}

type Escape = Result<(u32, usize), (usize, &'static str)>;

/// The code point and the end of a hexadecimal escape at a backslash.
fn hexadecimal(bytes: &[u8], offset: usize) -> Escape {
    let (_, count, reason) =
        TRUNCATED.into_iter().find(|(letter, ..)| bytes[offset + 1] == *letter).unwrap_or(TRUNCATED[0]);
    let mut point = 0_u32;
    let mut end = offset + 2;
    while end < offset + 2 + count {
        let digit = bytes.get(end).and_then(|&byte| char::from(byte).to_digit(16));
        point = point << 4 | digit.ok_or((end, reason))?;
        end += 1;
    }
    Ok((point, end))
}

/// The code point and the end of a `\N{...}` escape.
fn named(bytes: &[u8], offset: usize) -> Escape {
    const MALFORMED: &str = "malformed \\N character escape";
    if bytes.get(offset + 2) != Some(&b'{') {
        return Err((offset + 2, MALFORMED));
    }
    let name = &bytes[offset + 3..];
    let Some(length) = memchr::memchr(b'}', name) else { return Err((bytes.len(), MALFORMED)) };
    if length == 0 {
        return Err((offset + 3, MALFORMED));
    }
    let end = offset + 3 + length + 1;
    let point = unicode_names::lookup(&name[..length]).ok_or((end, "unknown Unicode character name"))?;
    Ok((u32::from(point), end))
}
