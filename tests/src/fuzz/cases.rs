//! The case generator: for any inputs, generated values are in their domains, and equal for equal numbers.

use accelerd_ir::Dtype;
use accelerd_verify::{Bound, Domain, Generator, Input};

use super::choices::Choices;

const DTYPES: [Dtype; 9] =
    [Dtype::Bool, Dtype::U8, Dtype::I8, Dtype::U16, Dtype::I32, Dtype::U64, Dtype::I64, Dtype::F32, Dtype::F64];
const MAX_CASES: usize = 64;
const MAX_ELEMENTS: u32 = 40;

/// Generates cases of inputs that the bytes choose.
pub fn run(data: &[u8]) {
    let choices = &mut Choices::new(data);
    let inputs: Vec<Input> = (0..=choices.below(4)).filter_map(|nth| input(nth, choices)).collect();
    let seed = choices.bits();
    let first = choices.integer().cast_unsigned();
    let count = choices.below(MAX_CASES);
    let floats: Vec<f64> = (0..choices.below(4)).map(|_| choices.float()).collect();
    let integers: Vec<i64> = (0..choices.below(4)).map(|_| choices.integer()).collect();
    let generator = Generator::new(inputs, seed).with_constants(&floats, &integers);
    let columns = generator.cases(first, count);
    assert_eq!(columns.len(), generator.inputs().len());
    for (input, column) in generator.inputs().iter().zip(&columns) {
        assert_eq!(column.len(), count * input.case_bytes(), "{input:?}");
        assert!(input.contains(column), "{input:?} {first} {count}");
    }
    assert_eq!(columns, generator.cases(first, count));
}

/// An input; `None` if its domain is refused.
fn input(nth: usize, choices: &mut Choices<'_>) -> Option<Input> {
    let dtype = DTYPES[choices.below(DTYPES.len())];
    let length = choices.is_one_in(2).then(|| u32::from(choices.byte()) % MAX_ELEMENTS);
    let domain = Domain {
        lower: bound(choices),
        upper: bound(choices),
        allow_nan: choices.is_one_in(2),
        allow_infinity: choices.is_one_in(2),
    };
    Input::new(format!("input{nth}"), dtype, length, domain).ok()
}

fn bound(choices: &mut Choices<'_>) -> Option<Bound> {
    match choices.byte() % 3 {
        0 => None,
        1 => Some(Bound::Integer(choices.integer())),
        _ => Some(Bound::Float(choices.float())),
    }
}
