//! SWAR: eight bytes at a time in a `u64`, the first byte lowest.

const HIGH: u64 = 0x8080_8080_8080_8080;

/// The eight bytes at an offset, unless the text ends before.
#[inline]
pub(super) fn load_u64(text: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*text.get(offset..)?.first_chunk()?))
}

/// The lowest `count` bytes of a word; `count` is at least 1.
#[inline]
pub(super) fn low_bytes(word: u64, count: u32) -> u64 {
    word & (u64::MAX >> (64 - 8 * count))
}

/// The length of the run of ASCII letters, digits and underscores that starts at the lowest byte.
#[inline]
pub(super) fn name_length(word: u64) -> u32 {
    let low = word & !HIGH;
    // Bytes are below 0x80, so the sums do not carry: the high bit of each byte is the comparison's result.
    let at_least = |bytes: u64, least: u8| bytes + broadcast(0x80 - least);
    let letters = low | broadcast(0x20);
    let letter = at_least(letters, b'a') & !at_least(letters, b'z' + 1);
    let digit = at_least(low, b'0') & !at_least(low, b'9' + 1);
    let underscore = !at_least(low ^ broadcast(b'_'), 1);
    (!((letter | digit | underscore) & !word) & HIGH).trailing_zeros() / 8
}

const fn broadcast(byte: u8) -> u64 {
    byte as u64 * 0x0101_0101_0101_0101
}

#[cfg(test)]
mod tests {
    use super::{load_u64, low_bytes, name_length};
    use crate::lexer::tables::{NAME_BYTES, NAME_CHAR};

    #[test]
    fn name_bytes_are_counted() {
        for byte in 0..=255_u8 {
            for offset in 0..8_u32 {
                let mut bytes = *b"aZ_09bzA";
                bytes[offset as usize] = byte;
                let expected = if NAME_BYTES[usize::from(byte)] == NAME_CHAR { 8 } else { offset };
                assert_eq!(name_length(u64::from_le_bytes(bytes)), expected, "{bytes:?}");
            }
        }
    }

    #[test]
    fn words_end_where_the_text_does() {
        let word = load_u64(b"xabcdefgh", 1).expect("eight bytes");
        assert_eq!(low_bytes(word, 2), u64::from(u16::from_le_bytes(*b"ab")));
        assert_eq!((load_u64(b"abcdefgh", 1), load_u64(b"", 5)), (None, None));
    }
}
