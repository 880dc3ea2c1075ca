//! Generated values per second on one thread, beyond the systematic cases. `cargo bench -p accelerd-verify`

#![expect(clippy::print_stdout, reason = "what it prints is its result")]

use std::time::Instant;

use accelerd_ir::Dtype;
use accelerd_verify::{Domain, Generator, Input};

const CASES: usize = 1 << 16;
const RUNS: usize = 31;

fn main() {
    let scalars = |dtypes: &[Dtype]| dtypes.iter().map(|&dtype| (dtype, None)).collect::<Vec<_>>();
    for (name, inputs) in [
        ("f64", scalars(&[Dtype::F64])),
        ("f32", scalars(&[Dtype::F32])),
        ("f16", scalars(&[Dtype::F16])),
        ("i64", scalars(&[Dtype::I64])),
        ("u8", scalars(&[Dtype::U8])),
        ("f64, f64, i32", scalars(&[Dtype::F64, Dtype::F64, Dtype::I32])),
        ("list of 8 f64", vec![(Dtype::F64, Some(8))]),
        ("list of 1,000 i64", vec![(Dtype::I64, Some(1000))]),
    ] {
        measure(name, &inputs);
    }
}

fn measure(name: &str, inputs: &[(Dtype, Option<u32>)]) {
    let elements: usize = inputs.iter().map(|(_, length)| length.unwrap_or(1) as usize).sum();
    let inputs = inputs.iter().map(|&(dtype, length)| {
        Input::new("x", dtype, length, Domain::default()).expect("the default domain has values")
    });
    let generator = Generator::new(inputs.collect(), 1);
    let cases = CASES / elements;
    let mut rates: Vec<f64> = (0..RUNS)
        .map(|run| {
            let start = Instant::now();
            let columns = generator.cases(generator.systematic_cases() + (run * cases) as u64, cases);
            assert!(columns.iter().all(|column| !column.is_empty()));
            (cases * elements) as f64 / start.elapsed().as_secs_f64() / 1e6
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    println!("{name:<18} {:>6.1} M values/s ({:.1} to {:.1})", rates[RUNS / 2], rates[0], rates[RUNS - 1]);
}
