//! Eight bytes at a time, in a `u64` whose lowest byte is the first.

const HIGH: u64 = 0x8080_8080_8080_8080;

/// Eight bytes from a place on, unless the text ends before.
#[inline]
pub(super) fn eight_at(text: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*text.get(at..)?.first_chunk()?))
}

/// The lowest bytes of a word, of which there is at least one.
#[inline]
pub(super) fn lowest(word: u64, count: u32) -> u64 {
    word & (u64::MAX >> (64 - 8 * count))
}

/// How many bytes from the lowest on are letters, digits or underscores of ASCII.
#[inline]
pub(super) fn name_bytes(word: u64) -> u32 {
    let low = word & !HIGH;
    // The high bit of each byte, which the sum of two smaller numbers cannot overflow, says whether the byte is as large.
    let at_least = |bytes: u64, least: u8| bytes + every(0x80 - least);
    let letters = low | every(0x20);
    let letter = at_least(letters, b'a') & !at_least(letters, b'z' + 1);
    let digit = at_least(low, b'0') & !at_least(low, b'9' + 1);
    let underscore = !at_least(low ^ every(b'_'), 1);
    (!((letter | digit | underscore) & !word) & HIGH).trailing_zeros() / 8
}

const fn every(byte: u8) -> u64 {
    byte as u64 * 0x0101_0101_0101_0101
}

#[cfg(test)]
mod tests {
    use super::{eight_at, lowest, name_bytes};
    use crate::lexer::tables::{NAME_PARTS, PART};

    #[test]
    fn parts_of_names_are_counted() {
        for byte in 0..=255_u8 {
            for at in 0..8_u32 {
                let mut bytes = *b"aZ_09bzA";
                bytes[at as usize] = byte;
                let expected = if NAME_PARTS[usize::from(byte)] == PART { 8 } else { at };
                assert_eq!(name_bytes(u64::from_le_bytes(bytes)), expected, "{bytes:?}");
            }
        }
    }

    #[test]
    fn words_end_where_the_text_does() {
        let word = eight_at(b"xabcdefgh", 1).expect("eight bytes");
        assert_eq!(lowest(word, 2), u64::from(u16::from_le_bytes(*b"ab")));
        assert_eq!((eight_at(b"abcdefgh", 1), eight_at(b"", 5)), (None, None));
    }
}
