//! `punycode` and `idna`, which hardly any source can be written in: a module ends with a line feed, and to Punycode that is
//! no digit.

use super::{Undecodable, ascii, encoded};
use crate::Options;

/// A digit of Punycode.
fn digit(byte: u8) -> Option<u32> {
    match byte.to_ascii_uppercase() {
        letter @ b'A'..=b'Z' => Some(u32::from(letter - b'A')),
        number @ b'0'..=b'9' => Some(u32::from(number - b'0') + 26),
        _ => None,
    }
}

/// What is wrong with the digits: at a place among them, or behind the last one.
enum Wrong {
    Digit(usize),
    End,
    TooLarge(u32),
}

fn adapted(delta: u32, first: bool, count: u32) -> u32 {
    let mut delta = if first { delta / 700 } else { delta / 2 };
    delta += delta / count;
    let mut divisions = 0;
    while delta > 455 {
        delta /= 35;
        divisions += 36;
    }
    divisions + 36 * delta / (delta + 38)
}

/// Inserts what the digits say into some characters.
fn insert(points: &mut Vec<u32>, digits: &[u8]) -> Result<(), Wrong> {
    let (mut point, mut place, mut bias, mut at) = (0x80_u32, 0_u32, 72_u32, 0);
    let mut first = true;
    while at < digits.len() {
        let (mut delta, mut weight, mut number) = (0_u32, 1_u32, 36_u32);
        loop {
            let byte = *digits.get(at).ok_or(Wrong::End)?;
            let value = digit(byte).ok_or(Wrong::Digit(at))?;
            at += 1;
            delta = delta.saturating_add(value.saturating_mul(weight));
            let threshold = number.saturating_sub(bias).clamp(1, 26);
            if value < threshold {
                break;
            }
            weight = weight.saturating_mul(36 - threshold);
            number += 36;
        }
        let count = u32::try_from(points.len()).unwrap_or(u32::MAX) + 1;
        place = place.saturating_add(delta);
        point = point.saturating_add(place / count);
        if point > u32::from(char::MAX) {
            return Err(Wrong::TooLarge(point));
        }
        place %= count;
        points.insert(place as usize, point);
        place += 1;
        bias = adapted(delta, first, count);
        first = false;
    }
    Ok(())
}

/// The code points of a text in Punycode, or CPython's message.
pub(super) fn decode(bytes: &[u8], options: Options) -> Result<Vec<u32>, String> {
    let hyphen = bytes.iter().rposition(|&byte| byte == b'-');
    let (base, digits) = hyphen.map_or((&bytes[..0], bytes), |at| (&bytes[..at], &bytes[at + 1..]));
    let offset = bytes.len() - digits.len();
    let modern = options.feature_version >= 13;
    // From 3.13 on the digits need not be ASCII to be read.
    for part in [base, if modern { &digits[..0] } else { digits }] {
        ascii(part, "ascii").map_err(|bad| bad.message(part, 0))?;
    }
    let mut points = base.iter().map(|&byte| u32::from(byte)).collect();
    insert(&mut points, digits).map_err(|wrong| {
        let at = match wrong {
            Wrong::Digit(at) => at,
            Wrong::End | Wrong::TooLarge(_) => digits.len().saturating_sub(1),
        };
        let byte = digits.get(at).copied().unwrap_or_default();
        let upper = char::from(byte.to_ascii_uppercase());
        match wrong {
            Wrong::Digit(_) if modern => {
                Undecodable::byte("punycode", offset + at, format!("Invalid extended code point '{byte}'"))
                    .message(bytes, 0)
            }
            Wrong::Digit(_) => before_3_13("punycode", &format!("Invalid extended code point '{upper}'"), options),
            Wrong::End if modern => {
                Undecodable::byte("punycode", offset + at, "incomplete punycode string").message(bytes, 0)
            }
            Wrong::End => before_3_13("punycode", "incomplete punicode string", options),
            Wrong::TooLarge(point) if modern => {
                Undecodable::byte("punycode", offset + at, format!("Invalid character U+{point:x}")).message(bytes, 0)
            }
            Wrong::TooLarge(point) => before_3_13("punycode", &format!("Invalid character U+{point:x}"), options),
        }
    })?;
    Ok(points)
}

/// A `UnicodeError` of no bytes: up to 3.11 the codec is named around it.
fn before_3_13(codec: &str, message: &str, options: Options) -> String {
    if options.feature_version >= 12 {
        return message.to_owned();
    }
    format!("decoding with '{codec}' codec failed (UnicodeError: {message})")
}

/// The text of a source in IDNA: ASCII, unless what stands between two dots starts with `xn--`.
pub(super) fn idna(bytes: &[u8], options: Options) -> Result<String, String> {
    let modern = options.feature_version >= 13;
    let mut text = String::with_capacity(bytes.len());
    let mut start = 0;
    for (number, label) in bytes.split(|&byte| byte == b'.').enumerate() {
        if number > 0 {
            text.push('.');
        }
        let is_ace = |prefix: &[u8]| if modern { prefix.eq_ignore_ascii_case(b"xn--") } else { prefix == b"xn--" };
        if label.get(..4).is_some_and(is_ace) && label.is_ascii() {
            text.push_str(&decode(&label[4..], options).and_then(|points| encoded(&points))?);
        } else {
            let codec = if modern { "idna" } else { "ascii" };
            text.push_str(&ascii(label, codec).map_err(|bad| {
                let from = if modern { start } else { 0 };
                let bad = Undecodable { at: bad.at + from, end: bad.end + from, ..bad };
                bad.message(if modern { bytes } else { label }, 0)
            })?);
        }
        start += label.len() + 1;
    }
    Ok(text)
}
