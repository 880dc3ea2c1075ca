//! The random choices of a kernel.

use accelerd_verify::Random;

/// Random numbers that are drawn in order, and can be drawn again with one of them changed.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    drawn: Vec<u64>,
    next: usize,
    random: Random,
}

impl Choices {
    pub(crate) fn new(random: &mut Random) -> Self {
        Self { drawn: vec![], next: 0, random: Random::new(random.bits(), 0) }
    }

    /// The same choices from the first one on, of which one differs.
    pub(crate) fn changed(&self, random: &mut Random) -> Self {
        let mut drawn = self.drawn[..self.next].to_vec();
        let nth = random.index(drawn.len());
        drawn[nth] = random.bits();
        Self { drawn, ..Self::new(random) }
    }

    /// An integer from 0 to `bound` - 1. 0 if the bound is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        if self.next == self.drawn.len() {
            self.drawn.push(self.random.bits());
        }
        self.next += 1;
        let bits = self.drawn[self.next - 1];
        ((u128::from(bits) * u128::from(bound)) >> 64) as u64
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
        (0..20).map(|_| choices.below(1 << 32)).collect()
    }

    #[test]
    fn changed_choices_differ_in_one() {
        let mut random = Random::new(1, 0);
        let mut choices = Choices::new(&mut random);
        let first = drawn(&mut choices);
        let mut changed = choices.changed(&mut random);
        let second = drawn(&mut changed);
        assert_eq!(first.iter().zip(&second).filter(|(one, other)| one != other).count(), 1);
        assert_ne!(drawn(&mut choices), drawn(&mut changed), "choices that were not drawn yet are new");
    }
}
