//! Measures the classification head of a cross-encoder per pair, on one thread: medians over random hidden states.
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

use std::time::Instant;

use accelerd_kernels::ops::encode::{ClassificationHead, HeadActivation, HeadWeights, Linear, Pooling, Tensor};
use rand::{Rng, SeedableRng, rngs::SmallRng};

fn main() {
    for hidden in [384, 768, 1024] {
        let head = head(hidden);
        for pairs in [1, 16, 64, 1024] {
            let hidden_states = numbers(pairs * hidden);
            let seconds = median(31, || drop(head.scores(&hidden_states).expect("whole rows")));
            println!("{hidden:4} numbers, {pairs:4} pairs: {:6.2} us a pair", 1e6 * seconds / pairs as f64);
        }
    }
}

fn head(hidden: usize) -> ClassificationHead {
    let linear = |outputs: usize| Linear {
        weight: Tensor::from_f32(&[outputs, hidden], &numbers(outputs * hidden)).expect("a matrix"),
        bias: Some(Tensor::from_f32(&[outputs], &numbers(outputs)).expect("a vector")),
        inputs: hidden,
        outputs,
    };
    let dense = linear(hidden);
    let out = linear(1);
    let parts = HeadWeights { pooling: Pooling::Cls, dense, activation: HeadActivation::Tanh, norm: None, out };
    ClassificationHead::new(&parts).expect("it fits")
}

fn numbers(count: usize) -> Vec<f32> {
    let mut random = SmallRng::seed_from_u64(1);
    (0..count).map(|_| random.random_range(-0.1_f32..0.1)).collect()
}

/// The median seconds of a call, after a warm-up.
fn median(times: usize, mut work: impl FnMut()) -> f64 {
    let mut seconds: Vec<_> = (0..times + 5)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        })
        .skip(5)
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds[times / 2]
}
