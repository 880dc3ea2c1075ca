//! The systematic cases.

use crate::specials::{MAX_CORE, Specials};

/// Numbers of levels of an orthogonal array.
const PRIMES: [usize; 7] = [2, 3, 5, 7, 11, 13, MAX_CORE];

/// Which special values the first cases have.
///
/// With several inputs, the runs of an orthogonal array of strength 2 are first. Its levels are the core values: any two of up to `levels` + 1
/// inputs have each pair of levels in one run (Bose, 1938: b, and a + j b modulo a prime). Then each special value of each input
/// occurs once, in every other case.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// A prime, or 0 if there are no pairs of inputs.
    levels: u64,
    singles: u64,
}

impl Layout {
    pub(crate) fn new<'a>(inputs: impl Iterator<Item = &'a Specials> + Clone) -> Self {
        let singles = inputs.clone().map(|specials| specials.all().len()).max().unwrap_or(0);
        let core = inputs.clone().map(|specials| specials.core().len()).max().unwrap_or(0);
        let prime = PRIMES.into_iter().find(|&prime| prime >= core).unwrap_or(MAX_CORE);
        Self { levels: if inputs.count() > 1 { prime as u64 } else { 0 }, singles: singles as u64 }
    }

    fn pairs(&self) -> u64 {
        self.levels * self.levels
    }

    /// Cases for each special value.
    fn stride(&self) -> u64 {
        if self.levels == 0 { 1 } else { 2 }
    }

    pub(crate) fn cases(&self) -> u64 {
        self.pairs() + self.singles * self.stride()
    }

    /// The index of the special value of an input, or `None` if the case is one of the mix.
    pub(crate) fn special(&self, position: usize, case: u64, specials: &Specials) -> Option<usize> {
        /// Keeps inputs from having the same special value.
        const SHIFT: u64 = 7;
        let position = position as u64;
        let single = case.checked_sub(self.pairs());
        let (index, length) = match single {
            None => {
                let a = case / self.levels;
                let b = case % self.levels;
                (if position == 0 { b } else { (a + (position - 1) * b) % self.levels }, specials.core().len())
            }
            Some(single) if case < self.cases() && single % self.stride() == 0 => {
                (single / self.stride() + SHIFT * position, specials.all().len())
            }
            Some(_) => return None,
        };
        #[expect(clippy::cast_possible_truncation, reason = "less than a length")]
        let index = (index % length as u64) as usize;
        Some(index)
    }
}
