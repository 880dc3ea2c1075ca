//! Cases from a seed.

use accelerd_ir::scalar::Literal;

use crate::{
    input::Input,
    lists,
    random::Random,
    scalars::{Mix, Strategy},
    specials::{MAX_CORE, Specials},
};

/// Numbers of core values of an orthogonal array.
const PRIMES: [usize; 9] = [2, 3, 5, 7, 11, 13, 17, 19, MAX_CORE];

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

    /// Number of the first cases that consist of special values.
    pub fn systematic_cases(&self) -> u64 {
        self.layout.singles + self.layout.pairs()
    }

    /// A column for each input, little-endian, with the values of the cases from `first` on. The elements of a list lie one after the other.
    ///
    /// A column has `count` times [`Input::case_bytes`] bytes, so the caller bounds both. Numbers of cases wrap at 2^64.
    pub fn cases(&self, first: u64, count: usize) -> Vec<Vec<u8>> {
        let mut columns = Vec::with_capacity(self.inputs.len());
        for position in 0..self.inputs.len() {
            let column = self.column(position, first, count, &columns);
            columns.push(column);
        }
        columns
    }

    fn column(&self, position: usize, first: u64, count: usize, columns: &[Vec<u8>]) -> Vec<u8> {
        let (input, mix) = (&self.inputs[position], &self.mixes[position]);
        let key = Random::key(self.seed, position as u64);
        let mut column = Vec::with_capacity(count * input.case_bytes());
        let mut list = Vec::with_capacity(input.elements());
        for row in 0..count {
            let case = first.wrapping_add(row as u64);
            let mut random = Random::new(key, case);
            let special = self.layout.special(position, case, mix.specials());
            let earlier = Earlier { inputs: &self.inputs[..position], columns, row };
            if input.length().is_none() {
                mix.values().encode(scalar(mix, special, &earlier, &mut random), &mut column);
                continue;
            }
            list.clear();
            match special {
                Some(special) => lists::special(mix, special, input.elements(), &mut random, &mut list),
                None => lists::draw(mix, input.elements(), &earlier, &mut random, &mut list),
            }
            list.iter().for_each(|&value| mix.values().encode(value, &mut column));
        }
        column
    }
}

fn scalar(mix: &Mix, special: Option<usize>, earlier: &Earlier, random: &mut Random) -> u64 {
    if let Some(special) = special {
        return mix.specials().all()[special];
    }
    let strategy = Strategy::draw(random, !earlier.is_empty());
    let repeated = if strategy == Strategy::Repeat { earlier.pick(random) } else { None };
    mix.draw(strategy, repeated, random)
}

fn plan(inputs: &[Input], floats: &[f64], integers: &[i64]) -> (Vec<Mix>, Layout) {
    let mixes: Vec<Mix> = inputs
        .iter()
        .map(|input| Mix::new(input.values().clone(), Specials::new(input.values(), floats, integers)))
        .collect();
    let singles = mixes.iter().map(|mix| mix.specials().all().len()).max().unwrap_or(0);
    let core = mixes.iter().map(|mix| mix.specials().core().len()).max().unwrap_or(0);
    let levels = PRIMES.into_iter().find(|&prime| prime >= core).unwrap_or(MAX_CORE);
    (mixes, Layout { singles: singles as u64, levels: if inputs.len() > 1 { levels as u64 } else { 0 } })
}

/// Which special values the first cases have.
///
/// Each special value of each input occurs once. Then follow the runs of an orthogonal array of strength 2, whose levels are the core
/// values: any two of up to `levels` + 1 inputs have each pair of levels in one run (Bose, 1938: level b, and a + j b modulo a prime).
#[derive(Clone, Debug)]
struct Layout {
    singles: u64,
    /// A prime, or 0 if there are no pairs of inputs.
    levels: u64,
}

impl Layout {
    fn pairs(&self) -> u64 {
        self.levels * self.levels
    }

    /// The index of the special value of an input, or `None` beyond the systematic cases.
    fn special(&self, position: usize, case: u64, specials: &Specials) -> Option<usize> {
        /// Keeps inputs from having the same special value.
        const SHIFT: u64 = 7;
        let position = position as u64;
        let (index, length) = if case < self.singles {
            (case + SHIFT * position, specials.all().len())
        } else {
            let run = case - self.singles;
            if run >= self.pairs() {
                return None;
            }
            let (a, b) = (run / self.levels, run % self.levels);
            (if position == 0 { b } else { (a + (position - 1) * b) % self.levels }, specials.core().len())
        };
        #[expect(clippy::cast_possible_truncation, reason = "less than a length")]
        let index = (index % length as u64) as usize;
        Some(index)
    }
}

/// The inputs of a case that are already drawn.
pub(crate) struct Earlier<'a> {
    inputs: &'a [Input],
    columns: &'a [Vec<u8>],
    row: usize,
}

impl Earlier<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// An input at random, by position.
    pub(crate) fn choose(&self, random: &mut Random) -> Option<usize> {
        (!self.is_empty()).then(|| random.index(self.inputs.len()))
    }

    /// A value of an input at random. `None` if that has no elements.
    pub(crate) fn pick(&self, random: &mut Random) -> Option<Literal> {
        let position = self.choose(random)?;
        self.element(position, random.index(self.inputs[position].elements()))
    }

    /// An element of an input, if there is one.
    pub(crate) fn element(&self, position: usize, element: usize) -> Option<Literal> {
        let input = &self.inputs[position];
        if element >= input.elements() {
            return None;
        }
        let size = input.dtype().size();
        let start = self.row * input.case_bytes() + element * size;
        let value = input.values().decode(&self.columns[position][start..start + size]).next()?;
        Some(Literal::from_bits(input.dtype(), value))
    }
}
