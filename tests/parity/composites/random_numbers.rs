//! Random numbers: those of an implementation of Philox 4x32-10 in integers of Rust. Numbers that are no function of logarithm and cosine
//! have its bits.

use std::f64::consts::TAU;

use accelerd_kernels::Backend;
use accelerd_parity::random;
use accelerd_tensor::{Attribute, Dtype};

use super::{Attributes, Values, compare, expect, float, run, text};

const SHAPE: [usize; 2] = [33, 67];
const COUNT: usize = SHAPE[0] * SHAPE[1];
/// Words in both halves, and few enough digits for f64.
const SEED: i64 = -0x0123_4567_89ab_cd00;
const OFFSET: i64 = 0x0000_0005_8000_0001;

pub(super) fn check(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    let numbers = Numbers { seed: SEED, offset: OFFSET };
    let shape = ("shape", Attribute::Ints(SHAPE.map(|extent| i64::try_from(extent).expect("a small extent")).to_vec()));
    let typed = ("dtype", text(dtype.name()));
    let state = [("seed", Attribute::Int(SEED)), ("offset", Attribute::Int(OFFSET))];
    let generator = [&[shape.clone(), typed][..], &state].concat();
    let uniform: Vec<f64> = (0..COUNT).map(|nth| numbers.uniform(nth, dtype)).collect();
    exact(backend, "rand", &[], &generator, &uniform)?;
    let scalars = [SEED, OFFSET].map(|word| Values::new(Dtype::I64, &[], [word as f64]));
    exact(backend, "rand", &[&scalars[0], &scalars[1]], &generator[..2], &uniform)?;
    expect(backend, "randn", &[], &generator, &[(0..COUNT).map(|nth| numbers.normal(nth, dtype)).collect()])?;
    integers(backend, &numbers, &shape, &state)?;

    let mut random = random(5);
    let probability = Values::between(dtype, &SHAPE, &mut random, [-0.25, 1.25]);
    let compute = if dtype == Dtype::F64 { Dtype::F64 } else { Dtype::F32 };
    let chosen = |nth: usize| f64::from(u8::from(numbers.uniform(nth, compute) < probability.elements[nth]));
    exact(backend, "bernoulli", &[&probability], &state, &(0..COUNT).map(chosen).collect::<Vec<_>>())?;
    let x = Values::between(dtype, &SHAPE, &mut random, [-1.0, 1.0]);
    let kept = |nth: usize| if numbers.uniform(nth, Dtype::F32) < 0.75 { x.elements[nth] / 0.75 } else { 0.0 };
    let p = |value| [&[("p", float(value))][..], &state].concat();
    expect(backend, "dropout", &[&x], &p(0.25), &[(0..COUNT).map(kept).collect()])?;
    exact(backend, "dropout", &[&x], &p(1.0), &vec![0.0; COUNT])?;
    exact(backend, "dropout", &[&x], &p(0.0), &x.elements)?;
    exact(backend, "dropout", &[&x], &[("training", Attribute::Bool(false))], &x.elements)
}

fn exact(
    backend: &mut Backend,
    op: &str,
    inputs: &[&Values],
    attributes: Attributes<'_>,
    expected: &[f64],
) -> Result<(), String> {
    let (plan, results) = run(backend, op, inputs, attributes, 1)?;
    compare(&plan.outputs[0], &results[0], expected, 0.0).map_err(|error| format!("{op} {attributes:?}: {error}"))
}

fn integers(
    backend: &mut Backend,
    numbers: &Numbers,
    shape: &(&str, Attribute),
    state: &[(&str, Attribute)],
) -> Result<(), String> {
    for (low, high) in [(-5, 6), (0, 1), (0, 1 << 32), (-(1 << 40), 1 << 41)] {
        let count = u64::try_from(high - low).expect("a range");
        let integer = |nth: usize| {
            let product = if count > 1 << 32 {
                (u128::from(numbers.bits_64(nth)) * u128::from(count)) >> 64
            } else {
                (u128::from(numbers.bits_32(nth)) * u128::from(count)) >> 32
            };
            (i128::from(low) + product.cast_signed()) as f64
        };
        let bounds = [("low", Attribute::Int(low)), ("high", Attribute::Int(high)), shape.clone()];
        let attributes = [&bounds[..], state].concat();
        exact(backend, "randint", &[], &attributes, &(0..COUNT).map(integer).collect::<Vec<_>>())?;
    }
    Ok(())
}

struct Numbers {
    seed: i64,
    offset: i64,
}

impl Numbers {
    fn block(&self, number: usize) -> [u32; 4] {
        let halves = |word: u64| [word & 0xffff_ffff, word >> 32].map(|half| u32::try_from(half).expect("32 bits"));
        let [mut a, mut b] = halves(number as u64);
        let [mut c, mut d] = halves(self.offset.cast_unsigned());
        let [mut k0, mut k1] = halves(self.seed.cast_unsigned());
        for _ in 0..10 {
            let [low0, high0] = halves(u64::from(a) * 0xd251_1f53);
            let [low1, high1] = halves(u64::from(c) * 0xcd9e_8d57);
            (a, b, c, d) = (high1 ^ b ^ k0, low1, high0 ^ d ^ k1, low0);
            k0 = k0.wrapping_add(0x9e37_79b9);
            k1 = k1.wrapping_add(0xbb67_ae85);
        }
        [a, b, c, d]
    }

    fn bits_32(&self, nth: usize) -> u32 {
        self.block(nth / 4)[nth % 4]
    }

    fn bits_64(&self, nth: usize) -> u64 {
        let words = self.block(nth / 2);
        let index = nth % 2 * 2;
        u64::from(words[index]) | u64::from(words[index + 1]) << 32
    }

    fn uniform(&self, nth: usize, dtype: Dtype) -> f64 {
        if dtype == Dtype::F64 {
            return (self.bits_64(nth) >> 11) as f64 / (1_u64 << 53) as f64;
        }
        let digits = if dtype == Dtype::F16 {
            11
        } else if dtype == Dtype::Bf16 {
            8
        } else {
            24
        };
        f64::from(self.bits_32(nth) >> (32 - digits)) / (1_u64 << digits) as f64
    }

    fn normal(&self, nth: usize, dtype: Dtype) -> f64 {
        let (first, second) = if dtype == Dtype::F64 {
            let pair = |index| self.bits_64(nth / 2 * 2 + index) as f64 / 2_f64.powi(64);
            (pair(0) + 2_f64.powi(-65), pair(1))
        } else {
            let pair = |index| f64::from(self.bits_32(nth / 2 * 2 + index)) / 2_f64.powi(32);
            (pair(0) + 2_f64.powi(-33), pair(1))
        };
        let radius = (-2.0 * first.ln()).sqrt();
        let angle = TAU * second;
        radius * if nth.is_multiple_of(2) { angle.cos() } else { angle.sin() }
    }
}
