//! The search for a simpler case that fails.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
};

use crate::{
    edits::{Edit, Elements, edits},
    input::Input,
    simplicity::Complexity,
};

/// A case that does not go with its inputs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaseError {
    /// There is not one column for each input.
    #[error("expected {expected} columns, got {got}")]
    Columns {
        /// Number of inputs.
        expected: usize,
        /// Number of columns.
        got: usize,
    },
    /// A column does not have the size of one case.
    #[error("expected {expected} bytes for `{input}`, got {got}")]
    Bytes {
        /// Name of the input.
        input: String,
        /// Bytes of a case.
        expected: usize,
        /// Bytes of the column.
        got: usize,
    },
}

/// Makes a failing case simpler.
///
/// It proposes candidates, the caller says which of them fail, and the simplest of those is the next case, until no candidate fails. The result
/// depends on inputs, case, sizes of batches and verdicts only.
///
/// ```
/// use accelerd_ir::Dtype;
/// use accelerd_verify::{Domain, Input, Shrinker};
///
/// let input = Input::new("x", Dtype::I32, None, Domain::default())?;
/// let mut shrinker = Shrinker::new(&[input], &[123_456_789i32.to_le_bytes().to_vec()])?;
/// loop {
///     let columns = shrinker.candidates(256);
///     let Some(column) = columns.first() else { break };
///     let (values, _) = column.as_chunks();
///     let fails: Vec<bool> = values.iter().map(|&bytes| i32::from_le_bytes(bytes) > 1000).collect();
///     shrinker.record(&fails);
/// }
/// assert_eq!(shrinker.case(), [1001i32.to_le_bytes()]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Shrinker {
    elements: Elements,
    case: Vec<u64>,
    /// Changes of the case that are not proposed yet, the next one last.
    planned: Vec<Edit>,
    /// Cases that wait for their verdicts.
    pending: Vec<Vec<u64>>,
    /// Hashes of cases that were proposed.
    proposed: HashSet<u64>,
    steps: usize,
    rounds: usize,
}

impl Shrinker {
    /// The most batches of candidates.
    pub const MAX_ROUNDS: usize = 64;

    /// A search from a case that fails: a column for each input, with the values of one case.
    ///
    /// The values may be outside of their domains. Those of candidates are inside, or as they were.
    pub fn new(inputs: &[Input], case: &[Vec<u8>]) -> Result<Self, CaseError> {
        if inputs.len() != case.len() {
            return Err(CaseError::Columns { expected: inputs.len(), got: case.len() });
        }
        for (input, column) in inputs.iter().zip(case) {
            let expected = input.case_bytes();
            let got = column.len();
            if expected != got {
                return Err(CaseError::Bytes { input: input.name().to_owned(), expected, got });
            }
        }
        let values = inputs.iter().zip(case).flat_map(|(input, column)| input.values().decode(column)).collect();
        let mut shrinker = Self {
            elements: Elements::new(inputs),
            case: values,
            planned: Vec::new(),
            pending: Vec::new(),
            proposed: HashSet::new(),
            steps: 0,
            rounds: 0,
        };
        shrinker.plan();
        Ok(shrinker)
    }

    /// At most `limit` candidates, which are simpler than the case: a column for each input. No columns if the search has ended.
    ///
    /// Candidates whose verdicts were not recorded count as passing. Large batches find simpler cases; 1,024 is a good size. Memory is in
    /// proportion to `limit` and the elements of a case, which the caller bounds.
    pub fn candidates(&mut self, limit: usize) -> Vec<Vec<u8>> {
        self.pending.clear();
        if self.rounds < Self::MAX_ROUNDS {
            self.propose(limit);
        }
        if self.pending.is_empty() {
            return Vec::new();
        }
        self.rounds += 1;
        self.columns(&self.pending)
    }

    /// Number of candidates that wait for their verdicts.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Records which of the last candidates fail, in order. Candidates without a verdict count as passing.
    pub fn record(&mut self, fails: &[bool]) {
        let pending = std::mem::take(&mut self.pending);
        let failing: Vec<Vec<u64>> =
            pending.into_iter().zip(fails).filter_map(|(case, fails)| fails.then_some(case)).collect();
        if let Some(simplest) = self.simplest_case(&failing) {
            self.case.clone_from(simplest);
            self.steps += 1;
            self.plan();
            self.plan_combinations(&failing);
        }
    }

    /// The simplest failing case so far: a column for each input.
    pub fn case(&self) -> Vec<Vec<u8>> {
        self.columns(std::slice::from_ref(&self.case))
    }

    /// Number of simpler cases that were taken, each in place of the one before. 0 if the first case is still the simplest.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Number of batches of candidates, at most [`Self::MAX_ROUNDS`].
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    fn plan(&mut self) {
        self.planned = edits(&self.elements, &self.case);
        self.planned.reverse();
    }

    fn simplest_case<'a>(&self, cases: &'a [Vec<u64>]) -> Option<&'a Vec<u64>> {
        let rated = cases.iter().map(|case| (self.elements.complexity(case), case));
        rated.min_by(|(one, _), (other, _)| one.cmp(other)).map(|(_, case)| case)
    }

    /// Plans to try what made the failing cases simpler all at once: that of all, of the first half, and so on.
    fn plan_combinations(&mut self, failing: &[Vec<u64>]) {
        let mut count = 2;
        while count < 2 * failing.len() {
            let combined = &failing[..count.min(failing.len())];
            let edit = (0..self.case.len()).map(|element| (element, self.simplest_value(combined, element)));
            let edit: Edit = edit.filter(|&(element, value)| value != self.case[element]).collect();
            if !edit.is_empty() {
                self.planned.push(edit);
            }
            count *= 2;
        }
    }

    /// The simplest value that an element has in these cases or in the present one.
    fn simplest_value(&self, cases: &[Vec<u64>], element: usize) -> u64 {
        let dtype = self.elements.set(element).dtype();
        let present = self.case[element];
        let values = cases.iter().map(|case| case[element]);
        values.fold(present, |least, value| std::cmp::min_by_key(least, value, |&value| Complexity::new(dtype, value)))
    }

    fn propose(&mut self, limit: usize) {
        while self.pending.len() < limit {
            let Some(edit) = self.planned.pop() else { break };
            let mut candidate = self.case.clone();
            for (element, value) in edit {
                candidate[element] = value;
            }
            if self.proposed.insert(hash(&candidate)) {
                self.pending.push(candidate);
            }
        }
    }

    fn columns(&self, cases: &[Vec<u64>]) -> Vec<Vec<u8>> {
        let column = |(values, span): (&crate::values::Values, std::ops::Range<usize>)| {
            let mut column = Vec::with_capacity(cases.len() * span.len() * values.dtype().size());
            for case in cases {
                for &value in &case[span.clone()] {
                    values.encode(value, &mut column);
                }
            }
            column
        };
        self.elements.inputs().map(column).collect()
    }
}

fn hash(case: &[u64]) -> u64 {
    let mut hasher = DefaultHasher::new();
    case.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use accelerd_ir::Dtype;
    use proptest::prelude::*;

    use super::*;
    use crate::{Domain, Generator};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn every_candidate_is_simpler_than_the_case(
            dtypes in proptest::collection::vec((proptest::sample::select(Dtype::ALL.to_vec()), 0u32..4), 1..4),
            number in 0u64..5000,
            salt: u64,
        ) {
            let inputs: Vec<Input> = dtypes.into_iter().map(|(dtype, length)| {
                let domain = Domain { allow_nan: dtype.is_float(), allow_infinity: dtype.is_float(), ..Domain::default() };
                Input::new("x", dtype, Some(length), domain).expect("the domain has values")
            }).collect();
            let case = Generator::new(inputs.clone(), 0).cases(number, 1);
            let mut shrinker = Shrinker::new(&inputs, &case).expect("the case goes with the inputs");
            while !shrinker.candidates(100).is_empty() {
                let present = shrinker.elements.complexity(&shrinker.case);
                for candidate in &shrinker.pending {
                    prop_assert!(shrinker.elements.complexity(candidate) < present);
                }
                let fails: Vec<bool> = shrinker.pending.iter().map(|case| hash(case).wrapping_mul(salt) >> 62 == 0).collect();
                shrinker.record(&fails);
            }
        }
    }
}
