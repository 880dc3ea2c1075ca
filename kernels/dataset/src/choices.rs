//! The random choices of a kernel.

use std::ops::Range;

use accelerd_verify::Random;

/// Random numbers that are drawn in order, and can be drawn again with one of them changed.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    drawn: Vec<Drawn>,
    next: usize,
    random: Random,
}

/// A random number, and what the kernel depends on: whether the number below `bound` that it makes is in `equal`.
#[derive(Clone, Debug)]
struct Drawn {
    bits: u64,
    bound: u64,
    equal: Range<u64>,
}

impl Drawn {
    /// An integer from 0 to `bound` - 1.
    fn number(&self) -> u64 {
        ((u128::from(self.bits) * u128::from(self.bound)) >> 64) as u64
    }
}

/// Choices of which one differs.
pub(crate) enum Changed {
    /// They make the same kernel.
    Same(Choices),
    /// They make another kernel, or the same.
    Other(Choices),
}

impl Choices {
    pub(crate) fn new(random: &mut Random) -> Self {
        Self { drawn: vec![], next: 0, random: Random::new(random.bits(), 0) }
    }

    /// The same choices from the first one on, of which one differs.
    pub(crate) fn changed(&self, random: &mut Random) -> Changed {
        let mut drawn = self.drawn[..self.next].to_vec();
        let nth = random.index(drawn.len());
        drawn[nth].bits = random.bits();
        let is_same = drawn[nth].equal.contains(&drawn[nth].number());
        let changed = Self { drawn, ..Self::new(random) };
        if is_same { Changed::Same(Self { next: self.next, ..changed }) } else { Changed::Other(changed) }
    }

    /// An integer from 0 to `bound` - 1. 0 if the bound is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let drawn = self.draw(bound);
        let number = drawn.number();
        drawn.equal = number..number + 1;
        number
    }

    /// Returns true with a probability of `percent` in a hundred.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        let drawn = self.draw(100);
        let is_chosen = drawn.number() < percent;
        drawn.equal = if is_chosen { 0..percent } else { percent..100 };
        is_chosen
    }

    fn draw(&mut self, bound: u64) -> &mut Drawn {
        if self.next == self.drawn.len() {
            self.drawn.push(Drawn { bits: self.random.bits(), bound, equal: 0..0 });
        }
        self.next += 1;
        let drawn = &mut self.drawn[self.next - 1];
        drawn.bound = bound;
        drawn
    }

    /// An index of a slice of this length.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).expect("less than a length")
    }

    /// An element of a slice that is not empty.
    pub(crate) fn pick<T: Copy>(&mut self, slice: &[T]) -> T {
        slice[self.index(slice.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(choices: &mut Choices) -> Vec<u64> {
        (0..20).map(|nth| if nth % 2 == 0 { choices.below(3) } else { choices.chance(40).into() }).collect()
    }

    #[test]
    fn changed_choices_differ_in_one_or_are_the_same() {
        let mut random = Random::new(1, 0);
        let mut choices = Choices::new(&mut random);
        let first = drawn(&mut choices);
        let mut same = 0;
        for _ in 0..100 {
            let (mut changed, differing) = match choices.changed(&mut random) {
                Changed::Same(changed) => (changed, 0),
                Changed::Other(changed) => (changed, 1),
            };
            same += 1 - differing;
            changed.next = 0;
            let second = drawn(&mut changed);
            assert_eq!(first.iter().zip(&second).filter(|(one, other)| one != other).count(), differing);
            assert_ne!(changed.random.bits(), choices.random.clone().bits(), "choices that were not drawn yet are new");
        }
        assert!((20..70).contains(&same), "{same}");
    }
}
