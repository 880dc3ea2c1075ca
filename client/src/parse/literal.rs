//! Values of constants.

use std::{borrow::Cow, fmt};

use super::repr;
use crate::proto::ValueTag;

/// Values that are encoded in `aux` instead of a row of `values`.
const SINGLETONS: [(u32, Literal<'static>); 4] = [
    (u32::MAX, Literal::None),
    (u32::MAX - 1, Literal::False),
    (u32::MAX - 2, Literal::True),
    (u32::MAX - 3, Literal::Ellipsis),
];

/// The value of a constant. `Display` formats it as Python's `repr`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Literal<'a> {
    /// `None`.
    None,
    /// `False`.
    False,
    /// `True`.
    True,
    /// `...`.
    Ellipsis,
    /// An integer of any size.
    Int(Int<'a>),
    /// A float.
    Float(f64),
    /// An imaginary number.
    Imaginary(f64),
    /// A string in UTF-8, with lone surrogates as three bytes.
    Str(&'a [u8]),
    /// A string with `kind='u'`.
    UnicodeStr(&'a [u8]),
    /// Bytes.
    Bytes(&'a [u8]),
}

/// An integer literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Int<'a> {
    written: &'a str,
}

/// The singleton value that `aux` encodes, if it does.
pub(super) fn singleton(value: u32) -> Option<Literal<'static>> {
    SINGLETONS.iter().find(|(number, _)| *number == value).map(|(_, literal)| *literal)
}

/// Parses the text of a value; `None` if it does not match its tag.
pub(super) fn parse(tag: u8, bytes: &[u8]) -> Option<Literal<'_>> {
    let text = || std::str::from_utf8(bytes).ok();
    Some(match ValueTag::try_from(i32::from(tag)).ok()? {
        ValueTag::Unspecified => return None,
        ValueTag::Int => Literal::Int(Int { written: text()? }),
        ValueTag::Float => Literal::Float(float(text()?)?),
        ValueTag::Imaginary => Literal::Imaginary(float(text()?.strip_suffix(['j', 'J'])?)?),
        ValueTag::Str => Literal::Str(bytes),
        ValueTag::UnicodeStr => Literal::UnicodeStr(bytes),
        ValueTag::Bytes => Literal::Bytes(bytes),
    })
}

fn float(written: &str) -> Option<f64> {
    without_underscores(written).parse().ok()
}

fn without_underscores(written: &str) -> Cow<'_, str> {
    if written.contains('_') { written.replace('_', "").into() } else { written.into() }
}

impl<'a> Literal<'a> {
    /// Text of a string; `None` for other values and for a string with a lone surrogate.
    pub fn as_str(&self) -> Option<&'a str> {
        let (Self::Str(text) | Self::UnicodeStr(text)) = self else { return None };
        std::str::from_utf8(text).ok()
    }
}

impl fmt::Display for Literal<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => out.write_str("None"),
            Self::False => out.write_str("False"),
            Self::True => out.write_str("True"),
            Self::Ellipsis => out.write_str("Ellipsis"),
            Self::Int(int) => int.fmt(out),
            Self::Float(number) => out.write_str(&repr::float(*number)),
            Self::Imaginary(number) => out.write_str(&repr::imaginary(*number)),
            Self::Str(text) | Self::UnicodeStr(text) => out.write_str(&repr::string(text)),
            Self::Bytes(bytes) => out.write_str(&repr::bytes(bytes)),
        }
    }
}

impl<'a> Int<'a> {
    /// The literal as in the source, such as `0xFF` or `1_000`.
    pub fn written(&self) -> &'a str {
        self.written
    }

    /// Digits without underscores, and their base.
    fn digits(&self) -> (Cow<'a, str>, u32) {
        let prefixes = [("0x", 16), ("0X", 16), ("0o", 8), ("0O", 8), ("0b", 2), ("0B", 2)];
        let based = prefixes.iter().find_map(|(prefix, base)| Some((self.written.strip_prefix(prefix)?, *base)));
        let (digits, base) = based.unwrap_or((self.written, 10));
        (without_underscores(digits), base)
    }

    /// The number; `None` above 128 bits.
    pub fn to_u128(&self) -> Option<u128> {
        let (digits, base) = self.digits();
        u128::from_str_radix(&digits, base).ok()
    }
}

/// Formats in decimal; above 4,300 digits, which CPython refuses to print, as in the source.
impl fmt::Display for Int<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(number) = self.to_u128() {
            return write!(out, "{number}");
        }
        let (digits, base) = self.digits();
        out.write_str(&repr::decimal(&digits, base).unwrap_or_else(|| self.written.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(tag: ValueTag, source: &str) -> String {
        parse(u8::try_from(i32::from(tag)).unwrap(), source.as_bytes()).unwrap().to_string()
    }

    #[test]
    fn integers_show_in_decimal_whatever_their_base_and_size() {
        for (source, decimal) in [
            ("0", "0"),
            ("0_0", "0"),
            ("1_000", "1000"),
            ("0xFF", "255"),
            ("0b1_01", "5"),
            ("0O17", "15"),
            ("0x1_0000_0000_0000_0000_0000_0000_0000_0000", "340282366920938463463374607431768211456"),
            ("1_000000000000000000000000000000000000000000", "1000000000000000000000000000000000000000000"),
        ] {
            assert_eq!(shown(ValueTag::Int, source), decimal);
        }
        let endless = format!("0x{}", "f".repeat(4_000));
        assert_eq!(shown(ValueTag::Int, &endless), endless);
    }

    #[test]
    fn floats_and_imaginary_numbers_are_read_and_shown_as_python_does() {
        for (source, number) in
            [("1.", "1.0"), (".5", "0.5"), ("1_0e1_5", "1e+16"), ("1e999", "inf"), ("01.5E-7", "1.5e-07")]
        {
            assert_eq!(shown(ValueTag::Float, source), number);
        }
        for (source, number) in [("1j", "1j"), ("0_7J", "7j"), ("1.5e300j", "1.5e+300j"), ("1e999j", "infj")] {
            assert_eq!(shown(ValueTag::Imaginary, source), number);
        }
    }

    #[test]
    fn what_is_not_what_its_tag_says_is_nothing() {
        assert_eq!(parse(2, b"x"), None);
        assert_eq!(parse(3, b"1"), None);
        assert_eq!(parse(1, b"\xff"), None);
        assert_eq!((parse(0, b""), parse(77, b"")), (None, None));
        assert_eq!(singleton(u32::MAX), Some(Literal::None));
        assert_eq!(singleton(0), None);
    }

    #[test]
    fn strings_are_text_unless_they_hold_a_lone_surrogate() {
        assert_eq!(Literal::Str("é".as_bytes()).as_str(), Some("é"));
        assert_eq!(Literal::Str(b"\xed\xa0\x80").as_str(), None);
        assert_eq!(Literal::Bytes(b"a").as_str(), None);
    }
}
