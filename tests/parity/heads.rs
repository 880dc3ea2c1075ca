//! Attention with heads of more than 64 columns: random shapes against the f64 oracle, and batch invariance.

use std::sync::Arc;

use accelerd_kernels::{
    Backend,
    ops::encode::{EncoderConfig, Positions, Precision, SlidingWindow, samples::encoder},
};
use accelerd_parity::random;
use rand::Rng;

use super::{
    Case,
    encode::{base, compare, request, run},
};

/// The longest sequence: several key tiles of the attention kernel.
const LIMIT: u32 = 640;
const SHAPES: u64 = 8;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![Case::new("encode::heads_of_128_are_batch_invariant", batch_invariance)];
    for precision in [Precision::Bf16, Precision::F16, Precision::F32] {
        for seed in 0..SHAPES {
            let name = format!("encode::heads_of_128_{seed}_{precision:?}").to_lowercase();
            cases.push(Case::new(name, move |backend: &mut Backend| any_shape(seed, precision, backend)));
        }
        let name = format!("encode::heads_of_128_alibi_{precision:?}").to_lowercase();
        cases.push(Case::new(name, move |backend: &mut Backend| biased(precision, backend)));
    }
    cases
}

/// One layer with `share` query heads per key head.
fn shape(kv_heads: usize, share: usize, head_dim: usize) -> EncoderConfig {
    EncoderConfig {
        layers: 1,
        heads: kv_heads * share,
        kv_heads,
        head_dim,
        intermediate: 64,
        max_tokens: LIMIT as usize,
        ..base()
    }
}

/// All combinations of causal mask and window; other sizes random, with ragged sequences of 1 token to the limit.
fn any_shape(seed: u64, precision: Precision, backend: &mut Backend) -> Result<(), String> {
    let mut random = random(seed);
    let heads = shape(random.random_range(1..=2), random.random_range(1..=4), random.random_range(65..=128));
    let window = SlidingWindow { distance: random.random_range(1..=300), layers: vec![true] };
    let config = EncoderConfig { causal: seed % 2 == 1, window: (seed % 4 > 1).then_some(window), ..heads };
    let mut lengths = vec![1, 65, 0, 128, LIMIT, 129];
    lengths.extend((0..4).map(|_| random.random_range(1..=LIMIT)));
    let encoder = Arc::new(encoder(config).map_err(|e| e.to_string())?);
    compare(&request(&encoder, &lengths, precision, seed), backend)
}

/// ALiBi.
fn biased(precision: Precision, backend: &mut Backend) -> Result<(), String> {
    let config = EncoderConfig { positions: Positions::Alibi, ..shape(2, 1, 128) };
    let encoder = Arc::new(encoder(config).map_err(|e| e.to_string())?);
    compare(&request(&encoder, &[1, 64, 65, 200, 300], precision, 2), backend)
}

/// A sequence alone, and among longer and shorter ones.
fn batch_invariance(backend: &mut Backend) -> Result<(), String> {
    let mut random = random(3);
    for causal in [false, true] {
        let config = EncoderConfig { causal, ..shape(2, 2, 128) };
        let encoder = Arc::new(encoder(config).map_err(|e| e.to_string())?);
        for (precision, length) in [Precision::Bf16, Precision::F16]
            .into_iter()
            .flat_map(|precision| [65, 100, 128, 129, 193, 256, LIMIT].map(|length| (precision, length)))
        {
            let text = request(&encoder, &[length], precision, u64::from(length));
            let alone = run(std::slice::from_ref(&text), backend)?.remove(0);
            let lengths: Vec<_> = (0..50).map(|_| random.random_range(1..=300)).collect();
            let neighbours = request(&encoder, &lengths, precision, 99);
            if run(&[neighbours.clone(), text, neighbours], backend)?[1] != alone {
                return Err(format!(
                    "{precision:?}, causal {causal}: a sequence of {length} tokens differs in a batch"
                ));
            }
        }
    }
    Ok(())
}
