//! The lexer's tables, for the CPU and the GPU: byte classes, operators, keywords.

use crate::Operator;
use crate::tokens::Terminal;

/// The class of a byte that a token starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ByteClass {
    /// Starts no token.
    Bad = 0,
    /// NUL: the end of the text, or a bad byte inside it.
    Zero = 1,
    /// Space, tab, form feed.
    Space = 2,
    /// Line feed or carriage return.
    Newline = 3,
    /// A letter or an underscore.
    Name = 4,
    /// A byte of a non-ASCII character.
    NonAscii = 5,
    /// A decimal digit.
    Digit = 6,
    /// `.`.
    Dot = 7,
    /// Either quote.
    Quote = 8,
    /// `#`.
    Hash = 9,
    /// `\`.
    Backslash = 10,
    /// `(`, `[`, `{`.
    Open = 11,
    /// `)`, `]`, `}`.
    Close = 12,
    /// `:` and `!`, which are special in a replacement field.
    Field = 13,
    /// All other operators.
    Operator = 14,
}

/// The class of each byte.
pub static CLASSES: [ByteClass; 256] = classes();

const fn classes() -> [ByteClass; 256] {
    let mut table = [ByteClass::Bad; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match narrow(byte) {
            0 => ByteClass::Zero,
            b' ' | b'\t' | 0x0c => ByteClass::Space,
            b'\n' | b'\r' => ByteClass::Newline,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => ByteClass::Name,
            128..=255 => ByteClass::NonAscii,
            b'0'..=b'9' => ByteClass::Digit,
            b'.' => ByteClass::Dot,
            b'"' | b'\'' => ByteClass::Quote,
            b'#' => ByteClass::Hash,
            b'\\' => ByteClass::Backslash,
            b'(' | b'[' | b'{' => ByteClass::Open,
            b')' | b']' | b'}' => ByteClass::Close,
            b':' | b'!' => ByteClass::Field,
            b'+' | b'-' | b'*' | b'/' | b'%' | b'@' | b'&' | b'|' | b'^' | b'~' | b'<' | b'>' | b'=' | b';' | b',' => {
                ByteClass::Operator
            }
            _ => ByteClass::Bad,
        };
        byte += 1;
    }
    table
}

#[expect(clippy::cast_possible_truncation, reason = "checked")]
const fn narrow(number: usize) -> u8 {
    assert!(number < 256);
    number as u8
}

/// The bytes that continue a name: [`NAME_CHAR`], [`NON_ASCII`] or 0.
pub static NAME_BYTES: [u8; 256] = name_table();

/// In [`NAME_BYTES`]: an ASCII letter, digit or underscore.
pub const NAME_CHAR: u8 = 1;
/// In [`NAME_BYTES`]: part of a non-ASCII character.
pub const NON_ASCII: u8 = 2;

const fn name_table() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        if byte >= 128 {
            table[byte] = NON_ASCII;
        } else if matches!(CLASSES[byte], ByteClass::Name | ByteClass::Digit) {
            table[byte] = NAME_CHAR;
        }
        byte += 1;
    }
    table
}

/// The bytes that interrupt the text of a string: a bit for plain strings and one for f- and t-strings.
pub static STRING_STOPS: [u8; 256] = string_stops();

/// In [`STRING_STOPS`]: quotes, backslashes, newlines, and NUL, which stands for the end of the text.
pub const STOPS_PLAIN: u8 = 1;
/// In [`STRING_STOPS`]: these, and braces.
pub const STOPS_FIELDS: u8 = 2;

const fn string_stops() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match narrow(byte) {
            b'"' | b'\'' | b'\\' | b'\n' | b'\r' | 0 => STOPS_PLAIN | STOPS_FIELDS,
            b'{' | b'}' => STOPS_FIELDS,
            _ => 0,
        };
        byte += 1;
    }
    table
}

/// An operator or a delimiter, except brackets and dots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its spelling.
    pub text: &'static str,
    /// Its terminal.
    pub kind: Terminal,
    /// The payload of its tokens.
    pub payload: u8,
}

const fn plain(text: &'static str, kind: Terminal) -> Symbol {
    Symbol { text, kind, payload: 0 }
}

const fn operator(text: &'static str, kind: Terminal, operator: Operator) -> Symbol {
    Symbol { text, kind, payload: operator as u8 }
}

/// All symbols of one to three characters. Number 0 is no symbol.
pub static SYMBOLS: [Symbol; 42] = [
    plain("", Terminal::Name),
    plain("+", Terminal::Plus),
    plain("-", Terminal::Minus),
    plain("*", Terminal::Star),
    plain("/", Terminal::Slash),
    operator("%", Terminal::Multiplicative, Operator::Mod),
    plain("@", Terminal::At),
    plain("&", Terminal::Ampersand),
    plain("|", Terminal::Bar),
    plain("^", Terminal::Caret),
    plain("~", Terminal::Tilde),
    operator("<", Terminal::Comparison, Operator::Lt),
    operator(">", Terminal::Comparison, Operator::Gt),
    plain("=", Terminal::Equal),
    plain(";", Terminal::Semicolon),
    plain(",", Terminal::Comma),
    plain(":", Terminal::Colon),
    operator("==", Terminal::Comparison, Operator::Eq),
    operator("!=", Terminal::Comparison, Operator::NotEq),
    operator("<=", Terminal::Comparison, Operator::LtE),
    operator(">=", Terminal::Comparison, Operator::GtE),
    operator("<<", Terminal::Shift, Operator::LShift),
    operator(">>", Terminal::Shift, Operator::RShift),
    operator("//", Terminal::Multiplicative, Operator::FloorDiv),
    plain("**", Terminal::DoubleStar),
    plain("->", Terminal::Arrow),
    plain(":=", Terminal::Walrus),
    operator("+=", Terminal::Augmented, Operator::Add),
    operator("-=", Terminal::Augmented, Operator::Sub),
    operator("*=", Terminal::Augmented, Operator::Mult),
    operator("/=", Terminal::Augmented, Operator::Div),
    operator("%=", Terminal::Augmented, Operator::Mod),
    operator("@=", Terminal::Augmented, Operator::MatMult),
    operator("&=", Terminal::Augmented, Operator::BitAnd),
    operator("|=", Terminal::Augmented, Operator::BitOr),
    operator("^=", Terminal::Augmented, Operator::BitXor),
    operator("//=", Terminal::Augmented, Operator::FloorDiv),
    operator("**=", Terminal::Augmented, Operator::Pow),
    operator("<<=", Terminal::Augmented, Operator::LShift),
    operator(">>=", Terminal::Augmented, Operator::RShift),
    // Error tokens: CPython's tokenizer emits them, and no rule has them.
    plain("<>", Terminal::Name),
    plain("!", Terminal::Name),
];

/// The index in [`SYMBOLS`] of `<>`, which is in no grammar.
pub const DIAMOND: u8 = 40;
/// The index in [`SYMBOLS`] of a lone `!`, which only replacement fields have.
pub const BANG: u8 = 41;

/// The row and column of each byte in [`PAIRS`]; 0 for a byte in no symbol.
pub static SYMBOL_CLASSES: [u8; 256] = symbol_classes();

const SYMBOL_BYTES: &[u8; 17] = b"+-*/%@&|^~<>=;,:!";

const fn symbol_classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut class = 0;
    while class < SYMBOL_BYTES.len() {
        table[SYMBOL_BYTES[class] as usize] = narrow(class) + 1;
        class += 1;
    }
    table
}

/// By the classes of two bytes: the index of the symbol that they form, or of the first byte's.
pub static PAIRS: [[u8; 32]; 32] = pairs();

const fn pairs() -> [[u8; 32]; 32] {
    let mut table = [[0; 32]; 32];
    let mut number = 1;
    while number < SYMBOLS.len() {
        let text = SYMBOLS[number].text.as_bytes();
        let row = SYMBOL_CLASSES[text[0] as usize] as usize;
        if text.len() == 1 {
            // A pair overrides the single byte, in either order.
            let mut column = 0;
            while column < 32 {
                if table[row][column] == 0 {
                    table[row][column] = narrow(number);
                }
                column += 1;
            }
        } else if text.len() == 2 {
            table[row][SYMBOL_CLASSES[text[1] as usize] as usize] = narrow(number);
        }
        number += 1;
    }
    table
}

/// The index of the three-byte symbol that a symbol forms with a following `=`, or 0.
pub static WITH_EQUAL: [u8; 64] = with_equal();

const fn with_equal() -> [u8; 64] {
    let mut table = [0; 64];
    let mut long = 1;
    while long < SYMBOLS.len() {
        let text = SYMBOLS[long].text.as_bytes();
        if text.len() == 3 {
            let pair = PAIRS[SYMBOL_CLASSES[text[0] as usize] as usize][SYMBOL_CLASSES[text[1] as usize] as usize];
            table[pair as usize] = narrow(long);
        }
        long += 1;
    }
    table
}

/// The hard keywords.
pub static KEYWORDS: [(&str, Terminal); 35] = [
    ("None", Terminal::None),
    ("True", Terminal::True),
    ("False", Terminal::False),
    ("and", Terminal::And),
    ("as", Terminal::As),
    ("assert", Terminal::Assert),
    ("async", Terminal::Async),
    ("await", Terminal::Await),
    ("break", Terminal::Break),
    ("class", Terminal::Class),
    ("continue", Terminal::Continue),
    ("def", Terminal::Def),
    ("del", Terminal::Del),
    ("elif", Terminal::Elif),
    ("else", Terminal::Else),
    ("except", Terminal::Except),
    ("finally", Terminal::Finally),
    ("for", Terminal::For),
    ("from", Terminal::From),
    ("global", Terminal::Global),
    ("if", Terminal::If),
    ("import", Terminal::Import),
    ("in", Terminal::In),
    ("is", Terminal::Is),
    ("lambda", Terminal::Lambda),
    ("nonlocal", Terminal::Nonlocal),
    ("not", Terminal::Not),
    ("or", Terminal::Or),
    ("pass", Terminal::Pass),
    ("raise", Terminal::Raise),
    ("return", Terminal::Return),
    ("try", Terminal::Try),
    ("while", Terminal::While),
    ("with", Terminal::With),
    ("yield", Terminal::Yield),
];

/// Packs a word of at most eight bytes into a `u64`, the first byte lowest; no keyword is longer.
pub const fn word(text: &[u8]) -> u64 {
    let mut word = 0;
    let mut offset = 0;
    while offset < text.len() && offset < 8 {
        word |= (text[offset] as u64) << (8 * offset);
        offset += 1;
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_symbol_is_found_from_its_bytes() {
        for (number, symbol) in SYMBOLS.iter().enumerate().skip(1) {
            let class = |offset: usize| {
                usize::from(symbol.text.as_bytes().get(offset).map_or(0, |&b| SYMBOL_CLASSES[b as usize]))
            };
            let pair = PAIRS[class(0)][class(1)];
            let found = if symbol.text.len() == 3 { WITH_EQUAL[usize::from(pair)] } else { pair };
            assert_eq!(usize::from(found), number, "{}", symbol.text);
        }
        assert_eq!((SYMBOLS[usize::from(DIAMOND)].text, SYMBOLS[usize::from(BANG)].text), ("<>", "!"));
    }

    #[test]
    fn a_pair_that_is_no_symbol_gives_the_first_byte_alone() {
        let number =
            PAIRS[usize::from(SYMBOL_CLASSES[usize::from(b'+')])][usize::from(SYMBOL_CLASSES[usize::from(b'-')])];
        assert_eq!(SYMBOLS[usize::from(number)].text, "+");
    }

    #[test]
    fn keywords_are_no_longer_than_a_word() {
        assert!(KEYWORDS.iter().all(|(text, _)| text.len() <= 8 && word(text.as_bytes()) != 0));
    }
}
