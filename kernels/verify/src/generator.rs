//! Cases from a seed.

use crate::{
    earlier::{Earlier, Relation},
    input::Input,
    layout::Layout,
    lists,
    random::Random,
    scalars::Mix,
    specials::Specials,
};

/// Of this many cases, those below [`REPEATED`] have inputs that repeat each other, and those from there to [`PAIRED`] pairs of inputs.
pub(crate) const RELATIONS: u64 = 16;
pub(crate) const REPEATED: u64 = 2;
pub(crate) const PAIRED: u64 = 3;

/// Makes the inputs of cases.
///
/// The first cases have special values; the others draw from a mix. A case depends on inputs, constants, seed and number of the case only.
#[derive(Clone, Debug)]
pub struct Generator {
    inputs: Vec<Input>,
    seed: u64,
    mixes: Vec<Mix>,
    layout: Layout,
}

impl Generator {
    /// A generator of cases with these inputs.
    pub fn new(inputs: Vec<Input>, seed: u64) -> Self {
        let (mixes, layout) = plan(&inputs, &[], &[]);
        Self { inputs, seed, mixes, layout }
    }

    /// Takes constants of the functions, their negatives and their neighbours as special values, in place of those of an earlier call. The
    /// first 256 of each kind are used.
    #[must_use]
    pub fn with_constants(mut self, floats: &[f64], integers: &[i64]) -> Self {
        (self.mixes, self.layout) = plan(&self.inputs, floats, integers);
        self
    }

    /// The inputs.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// Number of the first cases up to the last one that consists of special values. With several inputs, some of these cases are of the mix.
    pub fn systematic_cases(&self) -> u64 {
        self.layout.cases()
    }

    /// A column for each input, little-endian, with the values of the cases from `first` on. The elements of a list lie one after the other.
    ///
    /// A column has `count` times [`Input::case_bytes`] bytes, so the caller bounds both. Numbers of cases wrap at 2^64.
    pub fn cases(&self, first: u64, count: usize) -> Vec<Vec<u8>> {
        self.numbered_cases(&(0..count).map(|row| first.wrapping_add(row as u64)))
    }

    /// As [`Self::cases`], for the cases of these numbers.
    pub fn numbered_cases(&self, numbers: &(impl ExactSizeIterator<Item = u64> + Clone)) -> Vec<Vec<u8>> {
        let mut columns = Vec::with_capacity(self.inputs.len());
        for position in 0..self.inputs.len() {
            let column = self.column(position, numbers.clone(), &columns);
            columns.push(column);
        }
        columns
    }

    /// The mix that each input is drawn from.
    pub(crate) fn mixes(&self) -> &[Mix] {
        &self.mixes
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// The key of the random numbers of each input.
    pub(crate) fn keys(&self) -> Vec<u64> {
        (0..self.inputs.len() as u64).map(|position| Random::key(self.seed, position)).collect()
    }

    fn column(&self, position: usize, numbers: impl ExactSizeIterator<Item = u64>, columns: &[Vec<u8>]) -> Vec<u8> {
        let input = &self.inputs[position];
        let mix = &self.mixes[position];
        let key = Random::key(self.seed, position as u64);
        let mut column = Vec::with_capacity(numbers.len() * input.case_bytes());
        let mut list = Vec::with_capacity(input.elements());
        for (row, case) in numbers.enumerate() {
            let mut random = Random::new(key, case);
            let special = self.layout.special(position, case, mix.specials());
            let earlier = Earlier { inputs: &self.inputs[..position], columns, row, relation: self.relation(case) };
            if input.length().is_none() {
                let value = match special {
                    Some(index) => mix.specials().all()[index],
                    None => mix.scalar(&earlier, self.inputs.len(), &mut random),
                };
                mix.values().encode(value, &mut column);
                continue;
            }
            list.clear();
            match special {
                Some(index) => lists::special(mix, index, input.elements(), &earlier, &mut random, &mut list),
                None => lists::draw(mix, input.elements(), &earlier, &mut random, &mut list),
            }
            for &value in &list {
                mix.values().encode(value, &mut column);
            }
        }
        column
    }

    fn relation(&self, case: u64) -> Relation {
        match Random::new(self.seed, case).below(RELATIONS) {
            _ if self.inputs.len() < 2 => Relation::Any,
            ..REPEATED => Relation::Repeated,
            REPEATED..PAIRED => Relation::Paired,
            PAIRED.. => Relation::Any,
        }
    }
}

fn plan(inputs: &[Input], floats: &[f64], integers: &[i64]) -> (Vec<Mix>, Layout) {
    let mix = |input: &Input| Mix::new(input.values().clone(), Specials::new(input.values(), floats, integers));
    let mixes: Vec<Mix> = inputs.iter().map(mix).collect();
    let layout = Layout::new(mixes.iter().map(Mix::specials));
    (mixes, layout)
}
