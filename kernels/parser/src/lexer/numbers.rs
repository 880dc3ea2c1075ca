//! Numbers: where they end, and what must not stand right behind them.

use super::tables::{NAME_PARTS, PART};

/// Why there is no number: the message, and the byte behind the last one that CPython has read.
pub(super) struct BadNumber {
    pub(super) message: &'static str,
    pub(super) behind: usize,
    /// The end of the range that is marked; else a place only.
    pub(super) end: Option<usize>,
}

type Result<T> = std::result::Result<T, BadNumber>;

fn bad<T>(message: &'static str, behind: usize) -> Result<T> {
    Err(BadNumber { message, behind, end: None })
}

/// The byte behind a number that starts with a digit, or with a dot and a digit.
#[inline]
pub(super) fn end_of_number(text: &[u8], start: usize) -> Result<usize> {
    // Most numbers are one or two digits and nothing behind them that could belong to them.
    let mut at = start;
    if text[start] == b'0' {
        at += 1;
    } else {
        while byte(text, at).is_ascii_digit() {
            at += 1;
        }
    }
    let next = byte(text, at);
    if at > start && next != b'.' && NAME_PARTS[usize::from(next)] & PART == 0 {
        Ok(at)
    } else {
        any_number(text, start)
    }
}

#[cold]
fn any_number(text: &[u8], start: usize) -> Result<usize> {
    if text[start] == b'0' {
        match byte(text, start + 1) | 0x20 {
            b'x' => return based(text, start + 2, &HEXADECIMAL),
            b'o' => return based(text, start + 2, &OCTAL),
            b'b' => return based(text, start + 2, &BINARY),
            _ => return zero(text, start),
        }
    }
    let at = if text[start] == b'.' { start } else { digits(text, start)? };
    fraction(text, at)
}

struct Base {
    name: &'static str,
    invalid: &'static str,
    /// Behind a digit that the base lacks: one message a digit.
    digits: [&'static str; 10],
    has: fn(u8) -> bool,
}

static HEXADECIMAL: Base = Base {
    name: "hexadecimal",
    invalid: "invalid hexadecimal literal",
    digits: [""; 10],
    has: |b| b.is_ascii_hexdigit(),
};

static OCTAL: Base = Base {
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

static BINARY: Base = Base {
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

fn based(text: &[u8], mut at: usize, base: &Base) -> Result<usize> {
    loop {
        if byte(text, at) == b'_' {
            at += 1;
        }
        let next = byte(text, at);
        if !(base.has)(next) {
            return if next.is_ascii_digit() {
                bad(base.digits[usize::from(next - b'0')], at + 1)
            } else {
                bad(base.invalid, at)
            };
        }
        while (base.has)(byte(text, at)) {
            at += 1;
        }
        if byte(text, at) != b'_' {
            break;
        }
    }
    let next = byte(text, at);
    if next.is_ascii_digit() {
        return bad(base.digits[usize::from(next - b'0')], at + 1);
    }
    checked_end(text, at, base.name)
}

/// A decimal number that starts with a zero: other digits may follow only if it turns out not to be an integer.
fn zero(text: &[u8], start: usize) -> Result<usize> {
    let mut at = start + 1;
    loop {
        if byte(text, at) == b'_' {
            at += 1;
            if !byte(text, at).is_ascii_digit() {
                return bad(DECIMAL, at);
            }
        }
        if byte(text, at) != b'0' {
            break;
        }
        at += 1;
    }
    let zeros_end = at;
    let nonzero = byte(text, at).is_ascii_digit();
    if nonzero {
        at = digits(text, at)?;
    }
    match byte(text, at) {
        b'.' => fraction(text, at),
        b'e' | b'E' | b'j' | b'J' => exponent(text, at),
        _ if nonzero => Err(BadNumber {
            message: "leading zeros in decimal integer literals are not permitted; use an 0o prefix for octal integers",
            behind: start + 1,
            end: Some(zeros_end),
        }),
        _ => checked_end(text, at, "decimal"),
    }
}

const DECIMAL: &str = "invalid decimal literal";

/// Behind the digits, of which there is at least one, and the single underscores between them.
fn digits(text: &[u8], mut at: usize) -> Result<usize> {
    loop {
        while byte(text, at).is_ascii_digit() {
            at += 1;
        }
        if byte(text, at) != b'_' {
            return Ok(at);
        }
        at += 1;
        if !byte(text, at).is_ascii_digit() {
            return bad(DECIMAL, at);
        }
    }
}

fn fraction(text: &[u8], mut at: usize) -> Result<usize> {
    if byte(text, at) == b'.' {
        at += 1;
        if byte(text, at).is_ascii_digit() {
            at = digits(text, at)?;
        }
    }
    exponent(text, at)
}

fn exponent(text: &[u8], mut at: usize) -> Result<usize> {
    if byte(text, at) | 0x20 == b'e' {
        let sign = matches!(byte(text, at + 1), b'+' | b'-');
        let first = at + 1 + usize::from(sign);
        if byte(text, first).is_ascii_digit() {
            at = digits(text, first)?;
        } else if sign {
            return bad(DECIMAL, first);
        } else {
            // No exponent, then: the `e` may begin a keyword.
            return checked_end(text, at, "decimal");
        }
    }
    if byte(text, at) | 0x20 == b'j' {
        checked_end(text, at + 1, "imaginary")
    } else {
        checked_end(text, at, "decimal")
    }
}

/// Refuses a number with a name right behind it. CPython still lets those keywords pass that can follow a number.
fn checked_end(text: &[u8], at: usize, kind: &'static str) -> Result<usize> {
    let next = byte(text, at);
    if NAME_PARTS[usize::from(next)] & PART == 0 || keyword_follows(&text[at..]) {
        return Ok(at);
    }
    let message = match kind {
        "hexadecimal" => HEXADECIMAL.invalid,
        "octal" => OCTAL.invalid,
        "binary" => BINARY.invalid,
        "imaginary" => "invalid imaginary literal",
        _ => DECIMAL,
    };
    bad(message, at)
}

fn keyword_follows(rest: &[u8]) -> bool {
    let whole = |word: &[u8]| rest.starts_with(word) && NAME_PARTS[usize::from(byte(rest, word.len()))] == 0;
    // Of `if`, `in` and `is` only the two letters are looked at.
    [b"if", b"in", b"is"].iter().any(|word| rest.starts_with(*word))
        || [&b"and"[..], b"else", b"for", b"or", b"not"].iter().any(|word| whole(word))
}

#[inline]
fn byte(text: &[u8], at: usize) -> u8 {
    text.get(at).copied().unwrap_or(0)
}
