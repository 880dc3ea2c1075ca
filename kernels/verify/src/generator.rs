//! Cases from a seed.

use accelerd_ir::scalar::Literal;

use crate::{
    input::Input,
    lists,
    random::Random,
    scalars::Mix,
    specials::{MAX_CORE, Specials},
};

/// Numbers of core values of an orthogonal array.
const PRIMES: [usize; 7] = [2, 3, 5, 7, 11, 13, MAX_CORE];

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
            let earlier = Earlier { inputs: &self.inputs[..position], columns, row, related: self.is_related(case) };
            if input.length().is_none() {
                let value = special.map_or_else(|| mix.any(&earlier, &mut random), |index| mix.specials().all()[index]);
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

    /// Whether the inputs of a case tend to repeat each other.
    fn is_related(&self, case: u64) -> bool {
        self.inputs.len() > 1 && Random::new(self.seed, case).below(8) == 0
    }
}

fn plan(inputs: &[Input], floats: &[f64], integers: &[i64]) -> (Vec<Mix>, Layout) {
    let mixes: Vec<Mix> = inputs
        .iter()
        .map(|input| Mix::new(input.values().clone(), Specials::new(input.values(), floats, integers)))
        .collect();
    let singles = mixes.iter().map(|mix| mix.specials().all().len()).max().unwrap_or(0);
    let core = mixes.iter().map(|mix| mix.specials().core().len()).max().unwrap_or(0);
    let levels = PRIMES.into_iter().find(|&prime| prime >= core).unwrap_or(MAX_CORE);
    (mixes, Layout { levels: if inputs.len() > 1 { levels as u64 } else { 0 }, singles: singles as u64 })
}

/// Which special values the first cases have.
///
/// With several inputs, the runs of an orthogonal array of strength 2 are first. Its levels are the core values: any two of up to `levels` + 1
/// inputs have each pair of levels in one run (Bose, 1938: b, and a + j b modulo a prime). Then each special value of each input
/// occurs once, in every other case.
#[derive(Clone, Debug)]
struct Layout {
    /// A prime, or 0 if there are no pairs of inputs.
    levels: u64,
    singles: u64,
}

impl Layout {
    fn pairs(&self) -> u64 {
        self.levels * self.levels
    }

    /// Cases for each special value.
    fn stride(&self) -> u64 {
        if self.levels == 0 { 1 } else { 2 }
    }

    fn cases(&self) -> u64 {
        self.pairs() + self.singles * self.stride()
    }

    /// The index of the special value of an input, or `None` if the case is one of the mix.
    fn special(&self, position: usize, case: u64, specials: &Specials) -> Option<usize> {
        /// Keeps inputs from having the same special value.
        const SHIFT: u64 = 7;
        let position = position as u64;
        let single = case.checked_sub(self.pairs());
        let (index, length) = match single {
            None => {
                let (a, b) = (case / self.levels, case % self.levels);
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

/// The inputs of a case that are already drawn.
pub(crate) struct Earlier<'a> {
    inputs: &'a [Input],
    columns: &'a [Vec<u8>],
    row: usize,
    related: bool,
}

impl Earlier<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// Whether inputs should repeat each other more often.
    pub(crate) fn is_related(&self) -> bool {
        self.related && !self.is_empty()
    }

    /// An input at random, by position.
    pub(crate) fn choose(&self, random: &mut Random) -> Option<usize> {
        (!self.is_empty()).then(|| random.index(self.inputs.len()))
    }

    /// A value of an input at random. `None` if that has no elements.
    fn pick(&self, random: &mut Random) -> Option<Literal> {
        let position = self.choose(random)?;
        self.element(position, random.index(self.inputs[position].elements()))
    }

    pub(crate) fn pick_two(&self, random: &mut Random) -> Option<[Literal; 2]> {
        Some([self.pick(random)?, self.pick(random)?])
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
