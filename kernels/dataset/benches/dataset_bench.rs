//! Measures how long the kernels of each category take to be written, on one thread.
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

use std::time::{Duration, Instant};

use accelerd_dataset::{Category, Dialect, Plan, Ratios};

const RUNS: usize = 9;
const KERNELS: u32 = 1000;

fn main() {
    measure("all", &Category::ALL);
    for category in Category::ALL {
        measure(category.name(), &[category]);
    }
}

fn measure(name: &str, categories: &[Category]) {
    let ratios = Ratios { validation: 10, test: 10 };
    let plan = Plan::new(1, categories, &[Dialect::Warp, Dialect::Python], ratios);
    let plan = plan.unwrap_or_else(|error| panic!("{name}: {error:?}"));
    let mut times: Vec<_> = (0..RUNS as u64).map(|run| time(&plan, run * u64::from(KERNELS))).collect();
    times.sort_unstable();
    let [least, median, most] = [0, RUNS / 2, RUNS - 1].map(|nth| times[nth] / KERNELS);
    let rate = 1.0 / median.as_secs_f64();
    println!("{name:<12} {median:>9.1?} a kernel ({least:.1?} to {most:.1?})  {rate:>7.0} kernels/s");
}

/// The time of a range of kernels. Each run has others, so that the spread includes theirs.
fn time(plan: &Plan, first: u64) -> Duration {
    let start = Instant::now();
    let written = (first..first + u64::from(KERNELS)).filter(|index| plan.source(*index).is_some()).count();
    let took = start.elapsed();
    assert_eq!(written as u64, u64::from(KERNELS), "every index has a kernel");
    took
}
