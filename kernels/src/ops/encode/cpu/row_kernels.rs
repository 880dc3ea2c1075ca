//! SIMD kernels over rows: element-wise functions, activations, sums and norms.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use super::Weight;
use crate::{
    OpError,
    cpu::{
        math,
        simd::{Isa, Lanes, WithSimd},
    },
    ops::encode::{Activation, Norm, NormKind},
};

#[inline(always)]
pub(super) fn add(to: &mut [f32], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, x)| *to += x);
}

pub(super) struct Activate<'a> {
    pub(super) row: &'a mut [f32],
    pub(super) activation: Activation,
}

impl WithSimd for Activate<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        match self.activation {
            Activation::Gelu => map_in_place(lanes, self.row, Gelu),
            Activation::GeluTanh => map_in_place(lanes, self.row, GeluTanh),
            Activation::Silu => map_in_place(lanes, self.row, Silu),
            Activation::Relu => map_in_place(lanes, self.row, Relu),
        }
    }
}

/// An element-wise function. Not a closure: closures do not inherit the target features, so every intrinsic would be a call.
pub(super) trait Map: Copy {
    /// Must be `#[inline(always)]`.
    fn of<L: Lanes>(self, lanes: L, x: L::Vector) -> L::Vector;
}

#[derive(Clone, Copy)]
struct Gelu;
#[derive(Clone, Copy)]
struct GeluTanh;
#[derive(Clone, Copy)]
struct Silu;
#[derive(Clone, Copy)]
struct Relu;
#[derive(Clone, Copy)]
pub(super) struct Identity;
#[derive(Clone, Copy)]
struct Square;
#[derive(Clone, Copy)]
struct Subtract(f32);
/// `e^(x - row_max)`.
#[derive(Clone, Copy)]
pub(super) struct Exponential {
    pub(super) row_max: f32,
}

impl Map for Gelu {
    #[inline(always)]
    fn of<L: Lanes>(self, lanes: L, x: L::Vector) -> L::Vector {
        math::gelu(lanes, x)
    }
}

impl Map for GeluTanh {
    #[inline(always)]
    fn of<L: Lanes>(self, lanes: L, x: L::Vector) -> L::Vector {
        math::gelu_tanh(lanes, x)
    }
}

impl Map for Silu {
    #[inline(always)]
    fn of<L: Lanes>(self, lanes: L, x: L::Vector) -> L::Vector {
        math::silu(lanes, x)
    }
}

impl Map for Relu {
    #[inline(always)]
    fn of<L: Lanes>(self, lanes: L, x: L::Vector) -> L::Vector {
        lanes.max(x, lanes.zero())
    }
}

impl Map for Identity {
    #[inline(always)]
    fn of<L: Lanes>(self, _lanes: L, x: L::Vector) -> L::Vector {
        x
    }
}

impl Map for Square {
    #[inline(always)]
    fn of<L: Lanes>(self, lanes: L, x: L::Vector) -> L::Vector {
        lanes.mul(x, x)
    }
}

impl Map for Subtract {
    #[inline(always)]
    fn of<L: Lanes>(self, lanes: L, x: L::Vector) -> L::Vector {
        lanes.sub(x, lanes.splat(self.0))
    }
}

impl Map for Exponential {
    #[inline(always)]
    fn of<L: Lanes>(self, lanes: L, x: L::Vector) -> L::Vector {
        math::exp(lanes, lanes.sub(x, lanes.splat(self.row_max)))
    }
}

/// Replaces every number of a row.
#[inline(always)]
pub(super) fn map_in_place<L: Lanes>(lanes: L, row: &mut [f32], f: impl Map) {
    let mut chunks = row.chunks_exact_mut(L::WIDTH);
    for chunk in &mut chunks {
        // SAFETY: a chunk is as long as a vector.
        unsafe { lanes.store(chunk.as_mut_ptr(), f.of(lanes, lanes.load(chunk.as_ptr()))) };
    }
    let rest = chunks.into_remainder();
    if !rest.is_empty() {
        let mut whole = [0.0; 16];
        // SAFETY: the rest is shorter than a vector, and no vector is longer than 16 numbers.
        unsafe { lanes.store(whole.as_mut_ptr(), f.of(lanes, lanes.load_first(rest.as_ptr(), rest.len()))) };
        rest.copy_from_slice(&whole[..rest.len()]);
    }
}

#[derive(Clone, Copy)]
pub(super) struct RowNorm<'a> {
    kind: NormKind,
    epsilon: f32,
    weight: &'a [f32],
    bias: Option<&'a [f32]>,
}

impl<'a> RowNorm<'a> {
    pub(super) fn new(norm: &'a Norm<Weight>) -> Result<Self, OpError> {
        let bias = norm.bias.as_ref().map(Weight::numbers).transpose()?;
        Ok(Self { kind: norm.kind, epsilon: norm.epsilon, weight: norm.weight.numbers()?, bias })
    }

    /// Normalises rows of the weight's length in place.
    pub(super) fn apply(&self, isa: Isa, rows: &mut [f32]) {
        isa.run(Normalize { rows, delta: None, norm: *self });
    }

    /// Adds `delta` to the rows, and normalises them.
    pub(super) fn add_and_apply(&self, isa: Isa, rows: &mut [f32], delta: &[f32]) {
        isa.run(Normalize { rows, delta: Some(delta), norm: *self });
    }
}

struct Normalize<'a> {
    rows: &'a mut [f32],
    delta: Option<&'a [f32]>,
    norm: RowNorm<'a>,
}

impl WithSimd for Normalize<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let width = self.norm.weight.len();
        if let Some(delta) = self.delta {
            add(self.rows, delta);
        }
        for row in self.rows.chunks_exact_mut(width) {
            normalize(lanes, row, self.norm);
        }
    }
}

#[inline(always)]
fn normalize<L: Lanes>(lanes: L, row: &mut [f32], norm: RowNorm<'_>) {
    let count = row.len() as f32;
    let mean = match norm.kind {
        NormKind::Layer => sum(lanes, row, Identity) / count,
        NormKind::Rms => 0.0,
    };
    if mean != 0.0 {
        map_in_place(lanes, row, Subtract(mean));
    }
    let squares = sum(lanes, row, Square);
    let factor = (squares / count + norm.epsilon).sqrt().recip();
    row.iter_mut().zip(norm.weight).for_each(|(x, weight)| *x = *x * factor * weight);
    if let Some(bias) = norm.bias {
        add(row, bias);
    }
}

/// Independent accumulators, which hide the latency of additions.
const ACCUMULATORS: usize = 4;

/// The sum of `f` over the row, in an order that depends on its length alone. `f(0)` must be 0.
#[inline(always)]
pub(super) fn sum<L: Lanes>(lanes: L, row: &[f32], f: impl Map) -> f32 {
    let mut sums = [lanes.zero(); ACCUMULATORS];
    let rounds = row.chunks_exact(ACCUMULATORS * L::WIDTH);
    let chunks = rounds.remainder().chunks_exact(L::WIDTH);
    let rest = chunks.remainder();
    for round in rounds {
        for (index, sum) in sums.iter_mut().enumerate() {
            // SAFETY: a round is `ACCUMULATORS` vectors long.
            *sum = lanes.add(*sum, f.of(lanes, unsafe { lanes.load(round.as_ptr().add(index * L::WIDTH)) }));
        }
    }
    for (chunk, sum) in chunks.zip(&mut sums) {
        // SAFETY: a chunk is as long as a vector.
        *sum = lanes.add(*sum, f.of(lanes, unsafe { lanes.load(chunk.as_ptr()) }));
    }
    if !rest.is_empty() {
        // SAFETY: the rest is shorter than a vector.
        sums[ACCUMULATORS - 1] =
            lanes.add(sums[ACCUMULATORS - 1], f.of(lanes, unsafe { lanes.load_first(rest.as_ptr(), rest.len()) }));
    }
    lanes.sum(lanes.add(lanes.add(sums[0], sums[1]), lanes.add(sums[2], sums[3])))
}
