//! `punycode` and `idna`. Few sources decode: a module ends with a line feed, which is no Punycode digit.

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

/// An error at a digit, or at the end.
enum DigitError {
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

/// Decodes the digits and inserts their characters: RFC 3492.
fn insert(points: &mut Vec<u32>, digits: &[u8]) -> Result<(), DigitError> {
    let mut point = 0x80_u32;
    let mut place = 0_u32;
    let mut bias = 72_u32;
    let mut offset = 0;
    let mut first = true;
    while offset < digits.len() {
        let mut delta = 0_u32;
        let mut weight = 1_u32;
        let mut number = 36_u32;
        loop {
            let byte = *digits.get(offset).ok_or(DigitError::End)?;
            let value = digit(byte).ok_or(DigitError::Digit(offset))?;
            offset += 1;
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
            return Err(DigitError::TooLarge(point));
        }
        place %= count;
        points.insert(place as usize, point);
        place += 1;
        bias = adapted(delta, first, count);
        first = false;
    }
    Ok(())
}

/// Decodes Punycode; an error is CPython's message.
pub(super) fn decode(bytes: &[u8], options: Options) -> Result<Vec<u32>, String> {
    let hyphen = bytes.iter().rposition(|&byte| byte == b'-');
    let (base, digits) = hyphen.map_or((&bytes[..0], bytes), |position| (&bytes[..position], &bytes[position + 1..]));
    let offset = bytes.len() - digits.len();
    let modern = options.feature_version >= 13;
    // From 3.13 the digits are not decoded as ASCII first.
    for part in [base, if modern { &digits[..0] } else { digits }] {
        ascii(part, "ascii").map_err(|bad| bad.message(part, 0))?;
    }
    let mut points = base.iter().map(|&byte| u32::from(byte)).collect();
    insert(&mut points, digits).map_err(|wrong| {
        let position = match wrong {
            DigitError::Digit(position) => position,
            DigitError::End | DigitError::TooLarge(_) => digits.len().saturating_sub(1),
        };
        let byte = digits.get(position).copied().unwrap_or_default();
        let upper = char::from(byte.to_ascii_uppercase());
        match wrong {
            DigitError::Digit(_) if modern => {
                Undecodable::byte("punycode", offset + position, format!("Invalid extended code point '{byte}'"))
                    .message(bytes, 0)
            }
            DigitError::Digit(_) => before_3_13("punycode", &format!("Invalid extended code point '{upper}'"), options),
            DigitError::End if modern => {
                Undecodable::byte("punycode", offset + position, "incomplete punycode string").message(bytes, 0)
            }
            DigitError::End => before_3_13("punycode", "incomplete punicode string", options),
            DigitError::TooLarge(point) if modern => {
                Undecodable::byte("punycode", offset + position, format!("Invalid character U+{point:x}"))
                    .message(bytes, 0)
            }
            DigitError::TooLarge(point) => before_3_13("punycode", &format!("Invalid character U+{point:x}"), options),
        }
    })?;
    Ok(points)
}

/// A plain `UnicodeError`, which names the codec up to 3.11.
fn before_3_13(codec: &str, message: &str, options: Options) -> String {
    if options.feature_version >= 12 {
        return message.to_owned();
    }
    format!("decoding with '{codec}' codec failed (UnicodeError: {message})")
}

/// Decodes IDNA: labels are ASCII, or Punycode after `xn--`.
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
