//! UTF-7, UTF-16 and UTF-32.

use super::{Decoded, Undecodable};

/// A digit of UTF-7's base64.
fn sextet(byte: u8) -> Option<u32> {
    Some(match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

/// A base64 section of UTF-7.
#[derive(Default)]
struct Section {
    start: usize,
    bits: u32,
    buffer: u32,
    surrogate: Option<u32>,
}

impl Section {
    /// Appends six bits.
    fn take(&mut self, sextet: u32, points: &mut Vec<u32>) {
        (self.buffer, self.bits) = (self.buffer << 6 | sextet, self.bits + 6);
        let Some(rest) = self.bits.checked_sub(16) else { return };
        let unit = self.buffer >> rest & 0xffff;
        (self.bits, self.buffer) = (rest, self.buffer & ((1 << rest) - 1));
        if let Some(high) = self.surrogate.take() {
            if (0xdc00..0xe000).contains(&unit) {
                points.push(joined(high, unit));
                return;
            }
            points.push(high);
        }
        if (0xd800..0xdc00).contains(&unit) {
            self.surrogate = Some(unit);
        } else {
            points.push(unit);
        }
    }

    /// The error of the bits left at its end, if any.
    fn rest(&self) -> Option<&'static str> {
        match self.bits {
            6.. => Some("partial character in shift sequence"),
            1.. if self.buffer != 0 => Some("non-zero padding bits in shift sequence"),
            _ => None,
        }
    }
}

fn joined(high: u32, low: u32) -> u32 {
    0x1_0000 + ((high & 0x3ff) << 10) + (low & 0x3ff)
}

pub(super) fn utf7(bytes: &[u8]) -> Decoded {
    let wrong = |offset, end, reason: &'static str| Undecodable::new("utf7", offset, end, reason);
    let mut points = Vec::with_capacity(bytes.len());
    let mut open: Option<Section> = None;
    let mut offset = 0;
    while let Some(&byte) = bytes.get(offset) {
        let start = offset;
        offset += 1;
        if let Some(section) = &mut open {
            if let Some(sextet) = sextet(byte) {
                section.take(sextet, &mut points);
                continue;
            }
            if let Some(reason) = section.rest() {
                return Err(wrong(section.start, offset, reason));
            }
            points.extend(section.surrogate.filter(|_| byte.is_ascii() && byte != b'+'));
            open = None;
            // A hyphen ends the section; any other byte is a character.
            offset -= usize::from(byte != b'-');
        } else if byte == b'+' {
            match bytes.get(offset) {
                Some(b'-') => {
                    points.push(u32::from(b'+'));
                    offset += 1;
                }
                Some(&next) if sextet(next).is_none() => return Err(wrong(start, offset + 1, "ill-formed sequence")),
                _ => open = Some(Section { start, ..Section::default() }),
            }
        } else if byte.is_ascii() {
            points.push(u32::from(byte));
        } else {
            return Err(wrong(start, offset, "unexpected special character"));
        }
    }
    match open {
        Some(section) if section.surrogate.is_some() || section.rest().is_some() => {
            Err(wrong(section.start, bytes.len(), "unterminated shift sequence"))
        }
        _ => Ok(points),
    }
}

/// Returns true for big-endian text, and the offset after a byte order mark.
fn order(kind: &str, bytes: &[u8], little: &[u8], big: &[u8]) -> (bool, usize) {
    if kind.ends_with("_be") {
        (true, 0)
    } else if kind.ends_with("_le") {
        (false, 0)
    } else if bytes.starts_with(big) {
        (true, big.len())
    } else {
        (false, if bytes.starts_with(little) { little.len() } else { 0 })
    }
}

pub(super) fn utf16(kind: &str, bytes: &[u8]) -> Decoded {
    let (big, mut offset) = order(kind, bytes, b"\xff\xfe", b"\xfe\xff");
    let codec = if big { "utf-16-be" } else { "utf-16-le" };
    let unit = |offset: usize| {
        let pair = [*bytes.get(offset)?, *bytes.get(offset + 1)?];
        Some(u32::from(if big { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }))
    };
    let mut points = Vec::with_capacity(bytes.len() / 2);
    while offset < bytes.len() {
        let Some(first) = unit(offset) else {
            return Err(Undecodable::new(codec, offset, bytes.len(), "truncated data"));
        };
        match (first, unit(offset + 2)) {
            (0xd800..0xdc00, Some(low @ 0xdc00..0xe000)) => {
                points.push(joined(first, low));
                offset += 2;
            }
            (0xd800..0xdc00, Some(_)) => {
                return Err(Undecodable::new(codec, offset, offset + 2, "illegal UTF-16 surrogate"));
            }
            (0xd800..0xdc00, None) => {
                return Err(Undecodable::new(codec, offset, bytes.len(), "unexpected end of data"));
            }
            (0xdc00..0xe000, _) => return Err(Undecodable::new(codec, offset, offset + 2, "illegal encoding")),
            _ => points.push(first),
        }
        offset += 2;
    }
    Ok(points)
}

pub(super) fn utf32(kind: &str, bytes: &[u8]) -> Decoded {
    let (big, start) = order(kind, bytes, b"\xff\xfe\0\0", b"\0\0\xfe\xff");
    let codec = if big { "utf-32-be" } else { "utf-32-le" };
    let mut points = Vec::with_capacity(bytes.len() / 4);
    for (number, four) in bytes[start..].chunks(4).enumerate() {
        let offset = start + number * 4;
        let Ok(four) = <[u8; 4]>::try_from(four) else {
            return Err(Undecodable::new(codec, offset, bytes.len(), "truncated data"));
        };
        let point = if big { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) };
        match point {
            0xd800..0xe000 => {
                let reason = "code point in surrogate code point range(0xd800, 0xe000)";
                return Err(Undecodable::new(codec, offset, offset + 4, reason));
            }
            0x11_0000.. => {
                return Err(Undecodable::new(codec, offset, offset + 4, "code point not in range(0x110000)"));
            }
            _ => points.push(point),
        }
    }
    Ok(points)
}
