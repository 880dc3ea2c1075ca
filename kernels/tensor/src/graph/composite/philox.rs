//! Philox 4x32-10: four random words for each counter, of J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).

use accelerd_ir::scalar::BinaryOp;

use crate::{
    Dtype,
    elementwise::{Expr, Scope},
};

const ROUNDS: i64 = 10;
const MULTIPLIERS: [i64; 2] = [0xd251_1f53, 0xcd9e_8d57];
/// The increments of the key from round to round: the golden ratio, and the square root of 3 less 1.
const WEYL: [i64; 2] = [0x9e37_79b9, 0xbb67_ae85];

/// The u32 words of a counter, low word first.
pub(super) fn block<'a>(mut counter: [Expr<'a>; 4], key: [Expr<'a>; 2]) -> [Expr<'a>; 4] {
    for round in 0..ROUNDS {
        let [a, b, c, d] = counter;
        let [k0, k1] = [0, 1].map(|nth| key[nth] + key[nth].integer(round * WEYL[nth]));
        let [m0, m1] = MULTIPLIERS.map(|multiplier| a.integer(multiplier));
        counter = [c.with(BinaryOp::MulHigh, m1) ^ b ^ k0, c * m1, a.with(BinaryOp::MulHigh, m0) ^ d ^ k1, a * m0];
    }
    counter
}

/// The bits of an element: numbers of 32 bits are word `index % 4` of block `index / 4`, numbers of 64 bits are words
/// `2 * (index % 2)` and its successor of block `index / 2`. Neighbours share a block, which a kernel computes once for all of them.
///
/// The counter of a block is its number in the lower 64 bits and `offset` in the upper 64; the key is `seed`.
pub(super) struct Stream<'a> {
    index: Expr<'a>,
    seed: Expr<'a>,
    offset: Expr<'a>,
}

impl<'a> Stream<'a> {
    /// The stream of the element; `seed` and `offset` are i64.
    pub(super) fn new(scope: &'a Scope, seed: Expr<'a>, offset: Expr<'a>) -> Self {
        Self { index: scope.index(), seed, offset }
    }

    /// 32 bits: u32.
    pub(super) fn bits_32(&self) -> Expr<'a> {
        let [a, b, c, d] = self.words(2);
        let is_odd = self.bit(0);
        self.bit(1).select(is_odd.select(d, c), is_odd.select(b, a))
    }

    /// 64 bits: u64.
    pub(super) fn bits_64(&self) -> Expr<'a> {
        let [a, b, c, d] = self.words(1);
        let is_odd = self.bit(0);
        joined(is_odd.select(c, a), is_odd.select(d, b))
    }

    /// Two words for two neighbours, u32, and whether the element is the second one.
    pub(super) fn pair_32(&self) -> ([Expr<'a>; 2], Expr<'a>) {
        let [a, b, c, d] = self.words(2);
        let is_upper = self.bit(1);
        ([is_upper.select(c, a), is_upper.select(d, b)], self.bit(0))
    }

    /// Likewise 64 bits each: u64.
    pub(super) fn pair_64(&self) -> ([Expr<'a>; 2], Expr<'a>) {
        let [a, b, c, d] = self.words(1);
        ([joined(a, b), joined(c, d)], self.bit(0))
    }

    /// The block of the element, one for `2^shift` elements.
    fn words(&self, shift: i64) -> [Expr<'a>; 4] {
        let number = self.index.with(BinaryOp::Shr, self.index.integer(shift));
        let ([c0, c1], [c2, c3]) = (halves(number), halves(self.offset));
        block([c0, c1, c2, c3], halves(self.seed))
    }

    /// Returns true if a bit of the index is set.
    fn bit(&self, nth: u32) -> Expr<'a> {
        (self.index & self.index.integer(1 << nth)).ne(0.0)
    }
}

/// The lower and the upper word of an i64.
fn halves(value: Expr<'_>) -> [Expr<'_>; 2] {
    [value, value.with(BinaryOp::Shr, value.integer(32))].map(|half| half.cast(Dtype::U32))
}

fn joined<'a>(low: Expr<'a>, high: Expr<'a>) -> Expr<'a> {
    let [low, high] = [low, high].map(|word| word.cast(Dtype::U64));
    low | high.with(BinaryOp::Shl, high.integer(32))
}

#[cfg(test)]
mod tests {
    use accelerd_ir::scalar::{Literal, interpret};

    use super::*;

    /// Counter, key and words of the known-answer tests of Random123.
    const KNOWN: [([u32; 4], [u32; 2], [u32; 4]); 3] = [
        ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
        ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
        (
            [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
            [0xa409_3822, 0x299f_31d0],
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
        ),
    ];

    fn word(value: u32) -> Literal {
        Literal::from_bits(Dtype::U32, value.into())
    }

    #[test]
    fn blocks_are_those_of_the_known_answer_tests() {
        for (counter, key, expected) in KNOWN {
            for (nth, expected) in expected.into_iter().enumerate() {
                let scope = Scope::new(&[Dtype::U32; 6]);
                let params: [_; 6] = std::array::from_fn(|nth| scope.param(nth));
                let [a, b, c, d, k0, k1] = params;
                let function = scope.finish(block([a, b, c, d], [k0, k1])[nth]).expect("u32 throughout");
                // Functions drop parameters that they do not use only from their instructions.
                let arguments: Vec<_> = counter.into_iter().chain(key).map(word).collect();
                assert_eq!(interpret(&function, &arguments, 0), [word(expected)], "word {nth} of {counter:x?}");
            }
        }
    }

    #[test]
    fn neighbours_share_a_block() {
        let seed = i64::from_le_bytes([0x22, 0x38, 0x09, 0xa4, 0xd0, 0x31, 0x9f, 0x29]);
        let scope = Scope::new(&[Dtype::I64; 2]);
        let stream = Stream::new(&scope, scope.param(0), scope.param(1));
        let narrow = scope.finish(stream.bits_32()).expect("u32");
        let scope = Scope::new(&[Dtype::I64; 2]);
        let stream = Stream::new(&scope, scope.param(0), scope.param(1));
        let wide = scope.finish(stream.bits_64()).expect("u64");
        let [seed, offset] = [seed, -5].map(|value| Literal::from_i64(Dtype::I64, value));
        let at = |function, index| interpret(function, &[seed, offset], index)[0].bits();
        for block in [0, 1, 1_i64 << 40] {
            let words: Vec<_> = (0..4).map(|lane| at(&narrow, 4 * block + lane)).collect();
            assert_eq!(at(&wide, 2 * block), words[0] | words[1] << 32);
            assert_eq!(at(&wide, 2 * block + 1), words[2] | words[3] << 32);
        }
        let all = |seed: i64, offset: i64| {
            let arguments = [seed, offset].map(|value| Literal::from_i64(Dtype::I64, value));
            (0..4).map(|index| interpret(&narrow, &arguments, index)[0].bits()).collect::<Vec<_>>()
        };
        assert_eq!(all(0, 0), KNOWN[0].2.map(u64::from), "the first elements are those of the published block");
        assert_ne!(all(1, 0), all(0, 0));
        assert_ne!(all(0, 1), all(0, 0));
        assert_ne!(all(1 << 40, 0), all(0, 0), "all bits of the seed count");
    }
}
