//! Random numbers that depend on seed, input and case alone.
//!
//! The generator is SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014. Its state is a
//! counter, so each case starts at a place of its own.

/// The odd number nearest to 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The streams of an input: a key for [`Random::new`].
    pub fn key(seed: u64, input: u64) -> u64 {
        mix(mix(seed ^ GOLDEN).wrapping_add(input.wrapping_mul(GOLDEN)))
    }

    /// The stream of a case.
    pub fn new(key: u64, case: u64) -> Self {
        Self(mix(key.wrapping_add(case.wrapping_mul(GOLDEN))))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// An integer from 0 to `bound` - 1, with a bias of at most `bound` / 2^64. 0 if the bound is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// An index of a slice of this length.
    pub fn index(&mut self, length: usize) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "less than a usize")]
        let index = self.below(length as u64) as usize;
        index
    }

    /// An element of a slice that is not empty.
    pub fn pick<T: Copy>(&mut self, slice: &[T]) -> T {
        slice[self.index(slice.len())]
    }

    /// A number from 0, included, to 1, excluded.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (f64::EPSILON / 2.0)
    }

    /// An integer from -`limit` to `limit`.
    pub fn within(&mut self, limit: u32) -> i128 {
        i128::from(self.below(2 * u64::from(limit) + 1)) - i128::from(limit)
    }

    /// The number or its negative.
    pub fn signed(&mut self, value: f64) -> f64 {
        if self.bits() & 1 == 0 { value } else { -value }
    }
}

/// The finaliser of SplitMix64, a bijection (variant 13 of David Stafford).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_that_of_splitmix64() {
        let mut random = Random(1_234_567);
        // The first outputs of the reference implementation (Sebastiano Vigna, splitmix64.c) for this state.
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([random.bits(), random.bits(), random.bits()], expected);
    }

    #[test]
    fn bounded_numbers_reach_their_ends_and_no_further() {
        let mut random = Random::new(Random::key(7, 0), 0);
        let drawn: Vec<u64> = (0..1000).map(|_| random.below(3)).collect();
        assert!((0..3).all(|value| drawn.contains(&value)) && drawn.iter().all(|&value| value < 3));
        let drawn: Vec<i128> = (0..1000).map(|_| random.within(1)).collect();
        assert!((-1..=1).all(|value| drawn.contains(&value)) && drawn.iter().all(|value| value.abs() <= 1));
    }
}
