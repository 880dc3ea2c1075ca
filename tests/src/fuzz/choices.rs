//! Choices that bytes make: equal bytes make equal choices, and a change of a byte changes few of them.

/// Reads choices from bytes; after the last byte, each is the first alternative.
#[derive(Debug)]
pub struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    /// Choices of a case.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Any byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number of two bytes modulo `bound`, or 0 if that is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let number = usize::from(u16::from_le_bytes([self.byte(), self.byte()]));
        number.checked_rem(bound).unwrap_or(0)
    }

    /// One of several.
    pub fn one_of<'b>(&mut self, words: &[&'b str]) -> &'b str {
        words.get(self.below(words.len())).copied().unwrap_or_default()
    }

    /// True for one byte in `count`, but not after the last byte.
    pub fn is_one_in(&mut self, count: u8) -> bool {
        self.byte() % count == count - 1
    }

    /// Any number.
    pub fn bits(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// A small number, one at a limit of a type, or any.
    pub fn integer(&mut self) -> i64 {
        match self.byte() % 5 {
            0 => i64::from(self.byte() % 9),
            1 => -i64::from(self.byte() % 5),
            2 => 1_i64.wrapping_shl(u32::from(self.byte())).wrapping_sub(i64::from(self.byte() % 3)),
            3 => [i64::MIN, i64::MAX, i64::from(i32::MIN), i64::from(u32::MAX), 1 << 42, 1 << 53][self.below(6)],
            _ => self.bits().cast_signed(),
        }
    }

    /// A number of any kind.
    pub fn float(&mut self) -> f64 {
        const SPECIAL: [f64; 8] = [0.0, -0.0, 1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e308, 5e-324];
        let nth = self.below(10);
        SPECIAL.get(nth).copied().unwrap_or_else(|| f64::from_bits(self.bits()))
    }
}
