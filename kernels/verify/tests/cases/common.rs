//! Searches for failing cases, and decoded columns.

use accelerd_ir::Dtype;
use accelerd_verify::{Bound, Domain, Generator, Input, Shrinker};

/// Cases in which a mistake must be found.
const CASES: usize = 4096;

/// Failing cases of a seed that are shrunk.
const SHRUNK: usize = 4;

pub(crate) fn unbounded() -> Domain {
    Domain::default()
}

pub(crate) fn with_nan() -> Domain {
    Domain { allow_nan: true, ..Domain::default() }
}

pub(crate) fn between(lower: impl Into<Bound>, upper: impl Into<Bound>) -> Domain {
    Domain { lower: Some(lower.into()), upper: Some(upper.into()), ..Domain::default() }
}

pub(crate) fn input(dtype: Dtype) -> Input {
    Input::new("x", dtype, None, unbounded()).expect("the domain has values")
}

pub(crate) fn list(dtype: Dtype, length: u32, domain: Domain) -> Input {
    Input::new("x", dtype, Some(length), domain).expect("the domain has values")
}

macro_rules! decode {
    ($($name:ident: $type:ty),*) => {$(
        pub(crate) fn $name(case: &[Vec<u8>], input: usize) -> Vec<$type> {
            case[input].as_chunks().0.iter().map(|&bytes| <$type>::from_le_bytes(bytes)).collect()
        }
    )*};
}

decode!(f64s: f64, f32s: f32, i64s: i64, i32s: i32, u8s: u8);

/// The cases of columns.
pub(crate) fn split(inputs: &[Input], columns: &[Vec<u8>], count: usize) -> Vec<Vec<Vec<u8>>> {
    let part = |case: usize, (input, column): (&Input, &Vec<u8>)| {
        let size = input.case_bytes();
        column[case * size..(case + 1) * size].to_vec()
    };
    (0..count).map(|case| inputs.iter().zip(columns).map(|pair| part(case, pair)).collect()).collect()
}

/// Shrinks a failing case, and checks that each candidate is in its domains and the result fails.
pub(crate) fn shrink(
    inputs: &[Input],
    case: &[Vec<u8>],
    limit: usize,
    fails: impl Fn(&[Vec<u8>]) -> bool,
) -> Vec<Vec<u8>> {
    let mut shrinker = Shrinker::new(inputs, case).expect("the case goes with the inputs");
    loop {
        let columns = shrinker.candidates(limit);
        if columns.is_empty() {
            break;
        }
        assert!(inputs.iter().zip(&columns).all(|(input, column)| input.contains(column)), "in their domains");
        let cases = split(inputs, &columns, shrinker.pending());
        assert!(!cases.is_empty() && cases.len() <= limit);
        let verdicts: Vec<bool> = cases.iter().map(|case| fails(case)).collect();
        shrinker.record(&verdicts);
        assert!(fails(&shrinker.case()), "the case fails");
    }
    assert!(shrinker.rounds() <= Shrinker::MAX_ROUNDS);
    shrinker.case()
}

/// A search with several seeds.
pub(crate) struct Search {
    inputs: Vec<Input>,
    floats: Vec<f64>,
    integers: Vec<i64>,
}

impl Search {
    pub(crate) fn new(inputs: impl IntoIterator<Item = Input>) -> Self {
        Self { inputs: inputs.into_iter().collect(), floats: Vec::new(), integers: Vec::new() }
    }

    pub(crate) fn constants(self, floats: &[f64], integers: &[i64]) -> Self {
        Self { floats: floats.to_vec(), integers: integers.to_vec(), ..self }
    }

    /// Finds failing cases with each seed, and shrinks the first ones and the last ones to the expected case.
    pub(crate) fn shrinks_to(&self, fails: impl Fn(&[Vec<u8>]) -> bool, expected: &[Vec<u8>]) {
        for seed in 0..3 {
            let generator = Generator::new(self.inputs.clone(), seed).with_constants(&self.floats, &self.integers);
            let mut failing = split(&self.inputs, &generator.cases(0, CASES), CASES);
            failing.retain(|case| fails(case));
            assert!(!failing.is_empty(), "no case fails with the seed {seed}");
            let shrunk = failing.iter().take(SHRUNK).chain(failing.iter().rev().take(SHRUNK));
            for case in shrunk {
                assert_eq!(shrink(&self.inputs, case, 1024, &fails), expected, "from {case:?} with the seed {seed}");
            }
        }
    }
}
