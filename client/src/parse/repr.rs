//! Formats values as Python's `repr` does.

use std::fmt::Write;

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// Limit of CPython on the decimal digits of an integer (`sys.get_int_max_str_digits()`).
const MAX_DIGITS: usize = 4_300;
/// Base of the limbs of a long number.
const LIMB: u64 = 1_000_000_000;

/// Formats a float: the shortest digits that round-trip, with an exponent below 1e-4 and from 1e16 on.
pub(super) fn float(number: f64) -> String {
    let text = number_text(number);
    let whole = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    if whole { text + ".0" } else { text }
}

/// Formats an imaginary number.
pub(super) fn imaginary(number: f64) -> String {
    number_text(number) + "j"
}

fn number_text(number: f64) -> String {
    if !number.is_finite() {
        return number.to_string().to_lowercase();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if number == 0.0 || (-4..16).contains(&exponent) {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// Converts digits in a base to decimal; `None` above `MAX_DIGITS`.
pub(super) fn decimal(digits: &str, base: u32) -> Option<String> {
    let digits = digits.trim_start_matches('0');
    if base == 10 {
        return (digits.len() <= MAX_DIGITS).then(|| digits.to_owned());
    }
    // A digit has at most four bits.
    if digits.len() > MAX_DIGITS * 4 {
        return None;
    }
    let mut limbs = vec![0_u64];
    for digit in digits.chars() {
        let mut carry = u64::from(digit.to_digit(base)?);
        for limb in &mut limbs {
            let sum = *limb * u64::from(base) + carry;
            (*limb, carry) = (sum % LIMB, sum / LIMB);
        }
        if carry > 0 {
            limbs.push(carry);
        }
    }
    let mut text = limbs.pop()?.to_string();
    for limb in limbs.iter().rev() {
        write!(text, "{limb:09}").ok()?;
    }
    (text.len() <= MAX_DIGITS).then_some(text)
}

/// Formats bytes.
pub(super) fn bytes(bytes: &[u8]) -> String {
    let quote = quote(bytes);
    let mut text = format!("b{quote}");
    for byte in bytes {
        match byte {
            b' '..=b'~' => push_plain(&mut text, char::from(*byte), quote),
            byte => push_escaped(&mut text, u32::from(*byte)),
        }
    }
    text.push(quote);
    text
}

/// Formats a string in UTF-8 with lone surrogates as three bytes.
pub(super) fn string(bytes: &[u8]) -> String {
    let quote = quote(bytes);
    let mut text = String::with_capacity(bytes.len() + 2);
    text.push(quote);
    let mut rest = bytes;
    while let Some(chunk) = rest.utf8_chunks().next() {
        for c in chunk.valid().chars() {
            if is_printable(c) { push_plain(&mut text, c, quote) } else { push_escaped(&mut text, u32::from(c)) }
        }
        rest = &rest[chunk.valid().len()..];
        rest = match rest {
            [0xed, high @ 0xa0..=0xbf, low @ 0x80..=0xbf, after @ ..] => {
                push_escaped(&mut text, 0xd000 | u32::from(high & 0x3f) << 6 | u32::from(low & 0x3f));
                after
            }
            [byte, after @ ..] => {
                push_escaped(&mut text, u32::from(*byte));
                after
            }
            [] => rest,
        };
    }
    text.push(quote);
    text
}

/// Double quotes if they save escapes.
fn quote(bytes: &[u8]) -> char {
    if bytes.contains(&b'\'') && !bytes.contains(&b'"') { '"' } else { '\'' }
}

fn push_plain(text: &mut String, c: char, quote: char) {
    if c == quote || c == '\\' {
        text.push('\\');
    }
    text.push(c);
}

fn push_escaped(text: &mut String, c: u32) {
    let done = match c {
        0x09 => write!(text, "\\t"),
        0x0a => write!(text, "\\n"),
        0x0d => write!(text, "\\r"),
        0..=0xff => write!(text, "\\x{c:02x}"),
        0x100..=0xffff => write!(text, "\\u{c:04x}"),
        _ => write!(text, "\\U{c:08x}"),
    };
    done.expect("writing to a string cannot fail");
}

/// `str.isprintable` with the newest Unicode version.
fn is_printable(c: char) -> bool {
    use GeneralCategory as C;
    c == ' '
        || !matches!(
            c.general_category(),
            C::Control
                | C::Format
                | C::Surrogate
                | C::PrivateUse
                | C::Unassigned
                | C::LineSeparator
                | C::ParagraphSeparator
                | C::SpaceSeparator
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_have_the_shortest_digits_and_pythons_exponents() {
        for (number, text) in [
            (0.0, "0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e-5, "1.5e-05"),
            (0.0001, "0.0001"),
            (5e-324, "5e-324"),
            (1.797_693_134_862_315_7e308, "1.7976931348623157e+308"),
            (123_456_789.125, "123456789.125"),
        ] {
            assert_eq!(float(number), text);
        }
        assert_eq!(imaginary(100.0), "100j");
    }

    #[test]
    fn strings_are_quoted_and_escaped() {
        for (given, text) in [
            ("a", "'a'"),
            ("it's", "\"it's\""),
            ("'\"", "'\\'\"'"),
            ("\\\t\n\r\0\x7f", r"'\\\t\n\r\x00\x7f'"),
            ("é\u{a0}\u{ad}\u{200b}", r"'é\xa0\xad\u200b'"),
            ("𝒳\u{e0001}", r"'𝒳\U000e0001'"),
        ] {
            assert_eq!(string(given.as_bytes()), text);
        }
        assert_eq!(string(b"a\xed\xa0\x80\xed\xbf\xbfb"), r"'a\ud800\udfffb'");
        assert_eq!(bytes(b"'\x00\xff\n\\ "), r#"b"'\x00\xff\n\\ ""#);
    }

    #[test]
    fn long_numbers_are_written_in_decimal_up_to_a_limit() {
        assert_eq!(
            decimal("ffffffffffffffffffffffffffffffffff", 16).unwrap(),
            "87112285931760246646623899502532662132735"
        );
        assert_eq!(decimal(&"9".repeat(4_300), 10).map(|text| text.len()), Some(4_300));
        assert_eq!(decimal(&"9".repeat(4_301), 10), None);
        assert_eq!(decimal(&"f".repeat(100_000), 16), None);
    }
}
