//! The steps that treat each row by itself: words to states, products with what follows them, norms.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use rayon::prelude::*;

use super::{
    Cpu, Weight,
    matrix::Matrix,
    rounded::Product,
    states::{Held, States},
};
use crate::{
    OpError,
    cpu::{
        math,
        products::{Far, Packed},
        simd::{Isa, Kernel, Lanes},
    },
    ops::encode::{
        Activation, Embeddings, Linear, Norm, NormKind,
        primitives::{Attention, Batch, Pooled, Primitives, Row, Then},
    },
};

/// Rows that are multiplied and finished before the next: as many as meet a weight before it has to come again, and few
/// enough that they are still in the second cache when they are finished.
const BLOCK: usize = 256;
/// Rows spread over threads are whole multiples of this.
const SPREAD: usize = 8;

impl Cpu {
    /// Calls `work` with blocks of rows of `out` and the number of the first.
    pub(super) fn by_rows(&self, out: &mut [f32], width: usize, work: impl Fn(usize, &mut [f32]) + Sync) {
        if self.spread {
            // As few blocks as there are threads: each reads all of a weight.
            let share = (out.len() / width).div_ceil(rayon::current_num_threads());
            let rows = share.next_multiple_of(SPREAD).clamp(SPREAD, BLOCK);
            let blocks = out.par_chunks_mut(rows * width).enumerate();
            blocks.for_each(|(block, out)| work(block * rows, out));
        } else {
            let blocks = out.chunks_mut(BLOCK * width).enumerate();
            blocks.for_each(|(block, out)| work(block * BLOCK, out));
        }
    }

    fn multiply(&self, x: &States, packed: &Packed, finish: Finish<'_>) -> States {
        let (inputs, width) = (x.width(), finish.width());
        let mut out = States::new(x.numbers().len() / inputs, width);
        self.by_rows(out.numbers_mut(), width, |first, out| {
            let rows = out.len() / width;
            let x = &x.numbers()[first * inputs..][..rows * inputs];
            if packed.columns() == width {
                packed.multiply(x, out, Far::Columns);
                finish.in_place(self.isa, out, width);
            } else {
                let mut tile = States::new(rows, packed.columns());
                packed.multiply(x, tile.numbers_mut(), Far::Columns);
                finish.in_place(self.isa, tile.numbers_mut(), packed.columns());
                finish.write(self.isa, tile.numbers(), packed.columns(), out);
            }
        });
        out
    }
}

impl Primitives for Cpu {
    type Weight = Weight;
    type Tensor = Held;

    fn embed(
        &mut self,
        batch: &Batch,
        embeddings: &Embeddings<Weight>,
        position_offset: usize,
    ) -> Result<Held, OpError> {
        let width = embeddings.width()?;
        let mut states = States::new(batch.ids.len(), width);
        states.numbers_mut().fill(0.0);
        for pair in batch.starts.windows(2) {
            for (position, token) in (pair[0] as usize..pair[1] as usize).enumerate() {
                let row = &mut states.numbers_mut()[token * width..][..width];
                embeddings.words.add_row(batch.ids[token] as usize, row)?;
                if let Some(positions) = &embeddings.positions {
                    positions.add_row(position_offset + position, row)?;
                }
                if let Some(types) = &embeddings.types {
                    types.add_row(batch.types.get(token).map_or(0, |kind| *kind as usize), row)?;
                }
            }
        }
        if let Some(norm) = &embeddings.norm {
            let norm = Rule::new(norm)?;
            self.by_rows(states.numbers_mut(), width, |_, rows| norm.apply(self.isa, rows));
        }
        Ok(Held::Numbers(states))
    }

    fn linear(&mut self, x: &Held, linear: &Linear<Weight>, then: Then) -> Result<Held, OpError> {
        let bias = linear.bias.as_ref().map(Weight::numbers).transpose()?;
        let outputs = linear.outputs;
        match linear.weight.matrix()? {
            Matrix::Single(packed) => {
                let states = self.multiply(x.numbers()?, packed, Finish { bias, outputs, then });
                Ok(Held::Numbers(states))
            }
            Matrix::Halves(unit, matrix) => {
                Ok(self.product(x, linear.inputs, &Product { unit: *unit, matrix, bias, outputs, then }))
            }
        }
    }

    fn attention(&mut self, batch: &Batch, qkv: Held, how: &Attention<'_, Weight>) -> Result<Held, OpError> {
        Ok(Held::Numbers(self.attend(batch, qkv.into_numbers()?, how)?))
    }

    fn norm(&mut self, x: &Held, norm: &Norm<Weight>) -> Result<Held, OpError> {
        let x = x.numbers()?;
        let width = x.width();
        let norm = Rule::new(norm)?;
        let mut out = States::new(x.numbers().len() / width, width);
        self.by_rows(out.numbers_mut(), width, |first, out| {
            out.copy_from_slice(&x.numbers()[first * width..][..out.len()]);
            norm.apply(self.isa, out);
        });
        Ok(Held::Numbers(out))
    }

    fn add_norm(&mut self, mut residual: Held, delta: Held, norm: &Norm<Weight>) -> Result<Held, OpError> {
        let norm = Rule::new(norm)?;
        let delta = delta.numbers()?;
        self.by_rows(residual.numbers_mut()?.numbers_mut(), delta.width(), |first, rows| {
            norm.add_and_apply(self.isa, rows, &delta.numbers()[first * delta.width()..]);
        });
        Ok(residual)
    }

    fn add_then_norm(&mut self, residual: &mut Held, delta: Held, norm: &Norm<Weight>) -> Result<Held, OpError> {
        let delta = delta.numbers()?;
        let width = delta.width();
        let sums = residual.numbers_mut()?.numbers_mut();
        self.by_rows(sums, width, |first, rows| add(rows, &delta.numbers()[first * width..]));
        self.norm(residual, norm)
    }

    fn pool(&mut self, states: &Held, rows: &[Row]) -> Result<Pooled, OpError> {
        let states = states.numbers()?;
        Ok(super::pool::pool(states.numbers(), states.width(), rows))
    }
}

impl Embeddings<Weight> {
    fn width(&self) -> Result<usize, OpError> {
        match &self.words {
            Weight::Table(table) => Ok(table.shape()[1]),
            Weight::Matrix(_) | Weight::Numbers(_) => super::misplaced("a table"),
        }
    }
}

#[inline(always)]
pub(super) fn add(to: &mut [f32], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, x)| *to += x);
}

/// What is done to the rows of a product.
#[derive(Clone, Copy)]
struct Finish<'a> {
    bias: Option<&'a [f32]>,
    outputs: usize,
    then: Then,
}

impl Finish<'_> {
    /// Numbers in a finished row.
    fn width(&self) -> usize {
        match self.then {
            Then::Nothing | Then::Activate(_) => self.outputs,
            Then::Gate(_) => self.outputs / 2,
        }
    }

    /// Adds the bias and applies the activation to rows that lie `columns` apart.
    fn in_place(&self, isa: Isa, rows: &mut [f32], columns: usize) {
        let activated = match self.then {
            Then::Nothing => None,
            Then::Activate(activation) => Some((activation, self.outputs)),
            Then::Gate(activation) => Some((activation, self.outputs / 2)),
        };
        isa.run(BiasAndActivate { rows, columns, bias: self.bias, activated });
    }

    /// Writes finished rows of a tile, without its padding, and with the halves multiplied.
    fn write(&self, _isa: Isa, tile: &[f32], columns: usize, out: &mut [f32]) {
        let width = self.width();
        for (row, out) in tile.chunks_exact(columns).zip(out.chunks_exact_mut(width)) {
            out.copy_from_slice(&row[..width]);
            if matches!(self.then, Then::Gate(_)) {
                out.iter_mut().zip(&row[width..]).for_each(|(out, x)| *out *= x);
            }
        }
    }
}

struct BiasAndActivate<'a> {
    rows: &'a mut [f32],
    columns: usize,
    bias: Option<&'a [f32]>,
    /// How many numbers of a row.
    activated: Option<(Activation, usize)>,
}

impl Kernel for BiasAndActivate<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        for row in self.rows.chunks_exact_mut(self.columns) {
            if let Some(bias) = self.bias {
                add(row, bias);
            }
            if let Some((activation, width)) = self.activated {
                Activate { row: &mut row[..width], activation }.run(lanes);
            }
        }
    }
}

pub(super) struct Activate<'a> {
    pub(super) row: &'a mut [f32],
    pub(super) activation: Activation,
}

impl Kernel for Activate<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        match self.activation {
            Activation::Gelu => each(lanes, self.row, Gelu),
            Activation::GeluTanh => each(lanes, self.row, GeluTanh),
            Activation::Silu => each(lanes, self.row, Silu),
            Activation::Relu => each(lanes, self.row, Relu),
        }
    }
}

/// A function of every lane. Not a closure: those are compiled apart from the vectors, and would call every instruction.
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
/// The number itself.
#[derive(Clone, Copy)]
pub(super) struct Same;
#[derive(Clone, Copy)]
struct Square;
#[derive(Clone, Copy)]
struct Less(f32);
/// `e^(x - most)`.
#[derive(Clone, Copy)]
pub(super) struct Exponential {
    pub(super) most: f32,
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

impl Map for Same {
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

impl Map for Less {
    #[inline(always)]
    fn of<L: Lanes>(self, lanes: L, x: L::Vector) -> L::Vector {
        lanes.sub(x, lanes.splat(self.0))
    }
}

impl Map for Exponential {
    #[inline(always)]
    fn of<L: Lanes>(self, lanes: L, x: L::Vector) -> L::Vector {
        math::exp(lanes, lanes.sub(x, lanes.splat(self.most)))
    }
}

/// Replaces every number of a row.
#[inline(always)]
pub(super) fn each<L: Lanes>(lanes: L, row: &mut [f32], f: impl Map) {
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

/// A norm and its numbers.
#[derive(Clone, Copy)]
pub(super) struct Rule<'a> {
    kind: NormKind,
    epsilon: f32,
    weight: &'a [f32],
    bias: Option<&'a [f32]>,
}

impl<'a> Rule<'a> {
    pub(super) fn new(norm: &'a Norm<Weight>) -> Result<Self, OpError> {
        let bias = norm.bias.as_ref().map(Weight::numbers).transpose()?;
        Ok(Self { kind: norm.kind, epsilon: norm.epsilon, weight: norm.weight.numbers()?, bias })
    }

    /// Normalises rows of the weight's length in place.
    pub(super) fn apply(&self, isa: Isa, rows: &mut [f32]) {
        isa.run(Normalize { rows, delta: None, rule: *self });
    }

    /// Adds `delta` to the rows, and normalises them.
    fn add_and_apply(&self, isa: Isa, rows: &mut [f32], delta: &[f32]) {
        isa.run(Normalize { rows, delta: Some(delta), rule: *self });
    }
}

struct Normalize<'a> {
    rows: &'a mut [f32],
    /// Added to the rows first.
    delta: Option<&'a [f32]>,
    rule: Rule<'a>,
}

impl Kernel for Normalize<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let width = self.rule.weight.len();
        if let Some(delta) = self.delta {
            add(self.rows, delta);
        }
        for row in self.rows.chunks_exact_mut(width) {
            normalize(lanes, row, self.rule);
        }
    }
}

#[inline(always)]
fn normalize<L: Lanes>(lanes: L, row: &mut [f32], rule: Rule<'_>) {
    let count = row.len() as f32;
    let mean = match rule.kind {
        NormKind::Layer => sum(lanes, row, Same) / count,
        NormKind::Rms => 0.0,
    };
    if mean != 0.0 {
        each(lanes, row, Less(mean));
    }
    let squares = sum(lanes, row, Square);
    let factor = (squares / count + rule.epsilon).sqrt().recip();
    row.iter_mut().zip(rule.weight).for_each(|(x, weight)| *x = *x * factor * weight);
    if let Some(bias) = rule.bias {
        add(row, bias);
    }
}

/// Vectors of sums that are added to in turn, so that none waits for the one before.
const SUMS: usize = 4;

/// The sum of a function of every number, in an order that the length alone sets. `f(0)` is 0.
#[inline(always)]
pub(super) fn sum<L: Lanes>(lanes: L, row: &[f32], f: impl Map) -> f32 {
    let mut sums = [lanes.zero(); SUMS];
    let turns = row.chunks_exact(SUMS * L::WIDTH);
    let chunks = turns.remainder().chunks_exact(L::WIDTH);
    let rest = chunks.remainder();
    for turn in turns {
        for (at, sum) in sums.iter_mut().enumerate() {
            // SAFETY: a turn is as long as so many vectors.
            *sum = lanes.add(*sum, f.of(lanes, unsafe { lanes.load(turn.as_ptr().add(at * L::WIDTH)) }));
        }
    }
    for (chunk, sum) in chunks.zip(&mut sums) {
        // SAFETY: a chunk is as long as a vector.
        *sum = lanes.add(*sum, f.of(lanes, unsafe { lanes.load(chunk.as_ptr()) }));
    }
    if !rest.is_empty() {
        // SAFETY: the rest is shorter than a vector.
        sums[SUMS - 1] = lanes.add(sums[SUMS - 1], f.of(lanes, unsafe { lanes.load_first(rest.as_ptr(), rest.len()) }));
    }
    lanes.sum(lanes.add(lanes.add(sums[0], sums[1]), lanes.add(sums[2], sums[3])))
}
