//! Number literals: where they end, and what must not follow them directly.

use super::tables::{NAME_BYTES, NAME_CHAR};

/// An invalid number: the message, and the offset after the last byte that CPython has read.
pub(super) struct NumberError {
    pub(super) message: &'static str,
    pub(super) read_end: usize,
    /// The end of the error's range, if it has one.
    pub(super) end: Option<usize>,
}

type Result<T> = std::result::Result<T, NumberError>;

fn error<T>(message: &'static str, read_end: usize) -> Result<T> {
    Err(NumberError { message, read_end, end: None })
}

/// The end of a number that starts with a digit, or with a dot and a digit.
#[inline]
pub(super) fn number_end(text: &[u8], start: usize) -> Result<usize> {
    // Most numbers are plain decimal digits.
    let mut offset = start;
    if text[start] == b'0' {
        offset += 1;
    } else {
        while byte(text, offset).is_ascii_digit() {
            offset += 1;
        }
    }
    let next = byte(text, offset);
    if offset > start && next != b'.' && NAME_BYTES[usize::from(next)] & NAME_CHAR == 0 {
        Ok(offset)
    } else {
        uncommon_number(text, start)
    }
}

#[cold]
fn uncommon_number(text: &[u8], start: usize) -> Result<usize> {
    if text[start] == b'0' {
        match byte(text, start + 1) | 0x20 {
            b'x' => return prefixed(text, start + 2, &HEXADECIMAL),
            b'o' => return prefixed(text, start + 2, &OCTAL),
            b'b' => return prefixed(text, start + 2, &BINARY),
            _ => return zero(text, start),
        }
    }
    let offset = if text[start] == b'.' { start } else { digits(text, start)? };
    fraction(text, offset)
}

struct Radix {
    name: &'static str,
    invalid: &'static str,
    /// The message for each invalid digit.
    digits: [&'static str; 10],
    has: fn(u8) -> bool,
}

static HEXADECIMAL: Radix = Radix {
    name: "hexadecimal",
    invalid: "invalid hexadecimal literal",
    digits: [""; 10],
    has: |b| b.is_ascii_hexdigit(),
};

static OCTAL: Radix = Radix {
    name: "octal",
    invalid: "invalid octal literal",
    digits: {
        let mut digits = [""; 10];
        digits[8] = "invalid digit '8' in octal literal";
        digits[9] = "invalid digit '9' in octal literal";
        digits
    },
    has: |b| matches!(b, b'0'..=b'7'),
};

static BINARY: Radix = Radix {
    name: "binary",
    invalid: "invalid binary literal",
    digits: [
        "",
        "",
        "invalid digit '2' in binary literal",
        "invalid digit '3' in binary literal",
        "invalid digit '4' in binary literal",
        "invalid digit '5' in binary literal",
        "invalid digit '6' in binary literal",
        "invalid digit '7' in binary literal",
        "invalid digit '8' in binary literal",
        "invalid digit '9' in binary literal",
    ],
    has: |b| matches!(b, b'0' | b'1'),
};

fn prefixed(text: &[u8], mut offset: usize, base: &Radix) -> Result<usize> {
    loop {
        if byte(text, offset) == b'_' {
            offset += 1;
        }
        let next = byte(text, offset);
        if !(base.has)(next) {
            return if next.is_ascii_digit() {
                error(base.digits[usize::from(next - b'0')], offset + 1)
            } else {
                error(base.invalid, offset)
            };
        }
        while (base.has)(byte(text, offset)) {
            offset += 1;
        }
        if byte(text, offset) != b'_' {
            break;
        }
    }
    let next = byte(text, offset);
    if next.is_ascii_digit() {
        return error(base.digits[usize::from(next - b'0')], offset + 1);
    }
    verify_end(text, offset, base.name)
}

/// A decimal number that starts with 0: non-zero digits may follow only if it is no integer.
fn zero(text: &[u8], start: usize) -> Result<usize> {
    let mut offset = start + 1;
    loop {
        if byte(text, offset) == b'_' {
            offset += 1;
            if !byte(text, offset).is_ascii_digit() {
                return error(DECIMAL, offset);
            }
        }
        if byte(text, offset) != b'0' {
            break;
        }
        offset += 1;
    }
    let zeros_end = offset;
    let nonzero = byte(text, offset).is_ascii_digit();
    if nonzero {
        offset = digits(text, offset)?;
    }
    match byte(text, offset) {
        b'.' => fraction(text, offset),
        b'e' | b'E' | b'j' | b'J' => exponent(text, offset),
        _ if nonzero => Err(NumberError {
            message: "leading zeros in decimal integer literals are not permitted; use an 0o prefix for octal integers",
            read_end: start + 1,
            end: Some(zeros_end),
        }),
        _ => verify_end(text, offset, "decimal"),
    }
}

const DECIMAL: &str = "invalid decimal literal";

/// The end of at least one digit and the single underscores between digits.
fn digits(text: &[u8], mut offset: usize) -> Result<usize> {
    loop {
        while byte(text, offset).is_ascii_digit() {
            offset += 1;
        }
        if byte(text, offset) != b'_' {
            return Ok(offset);
        }
        offset += 1;
        if !byte(text, offset).is_ascii_digit() {
            return error(DECIMAL, offset);
        }
    }
}

fn fraction(text: &[u8], mut offset: usize) -> Result<usize> {
    if byte(text, offset) == b'.' {
        offset += 1;
        if byte(text, offset).is_ascii_digit() {
            offset = digits(text, offset)?;
        }
    }
    exponent(text, offset)
}

fn exponent(text: &[u8], mut offset: usize) -> Result<usize> {
    if byte(text, offset) | 0x20 == b'e' {
        let sign = matches!(byte(text, offset + 1), b'+' | b'-');
        let first = offset + 1 + usize::from(sign);
        if byte(text, first).is_ascii_digit() {
            offset = digits(text, first)?;
        } else if sign {
            return error(DECIMAL, first);
        } else {
            // No exponent: the `e` may start `else`.
            return verify_end(text, offset, "decimal");
        }
    }
    if byte(text, offset) | 0x20 == b'j' {
        verify_end(text, offset + 1, "imaginary")
    } else {
        verify_end(text, offset, "decimal")
    }
}

/// Rejects a number that a name follows directly. CPython's `verify_end_of_number` allows keywords that can follow a
/// number.
fn verify_end(text: &[u8], offset: usize, kind: &'static str) -> Result<usize> {
    let next = byte(text, offset);
    if NAME_BYTES[usize::from(next)] & NAME_CHAR == 0 || keyword_follows(&text[offset..]) {
        return Ok(offset);
    }
    let message = match kind {
        "hexadecimal" => HEXADECIMAL.invalid,
        "octal" => OCTAL.invalid,
        "binary" => BINARY.invalid,
        "imaginary" => "invalid imaginary literal",
        _ => DECIMAL,
    };
    error(message, offset)
}

fn keyword_follows(rest: &[u8]) -> bool {
    let whole = |word: &[u8]| rest.starts_with(word) && NAME_BYTES[usize::from(byte(rest, word.len()))] == 0;
    // For `if`, `in` and `is` CPython checks only these two letters.
    [b"if", b"in", b"is"].iter().any(|word| rest.starts_with(*word))
        || [&b"and"[..], b"else", b"for", b"or", b"not"].iter().any(|word| whole(word))
}

#[inline]
fn byte(text: &[u8], offset: usize) -> u8 {
    text.get(offset).copied().unwrap_or(0)
}
