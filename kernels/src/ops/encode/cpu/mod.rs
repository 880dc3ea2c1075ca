//! Encoders on the CPU: in f32, or with products in bfloat16 where the machine has tile registers. States, norms, softmax
//! and activations are in f32 in both.
//!
//! A batch is cut into groups of whole texts, small enough that a group's states stay in a core's second cache; each
//! group goes through all layers on one thread, so that threads meet only at the end. Where there are fewer groups than
//! threads, the rows of each step are spread over them instead. No cut changes a bit of a result: every row of every
//! step is computed from its own text in an order that the model alone sets.

use std::ops::Range;

use rayon::prelude::*;

use super::{
    Element, EncodeRequest, Encoded, Encoder, Packed, Precision, Role, Tensor, Weights,
    encoder::{Model, forward},
    primitives::Batch,
};
use crate::{
    OpError,
    cpu::{self, halves, simd::Isa},
};

mod attention;
mod head;
mod matrix;
mod pool;
mod rounded;
mod rows;
mod states;
#[cfg(test)]
mod tests;

pub use head::{Head, HeadActivation, HeadParts};
use matrix::Matrix;
pub(super) use pool::pooled;
use states::States;

/// Tokens of a group, about: with 1,536 numbers each, a megabyte and a half.
const GROUP_TOKENS: usize = 256;

/// A weight as the CPU keeps it.
pub(super) enum Weight {
    /// Packed for products.
    Matrix(Matrix),
    /// As f32.
    Numbers(Vec<f32>),
    /// As it came.
    Table(Tensor),
}

impl std::fmt::Debug for Weight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Matrix(_) => "Matrix",
            Self::Numbers(_) => "Numbers",
            Self::Table(_) => "Table",
        })
    }
}

impl Weight {
    fn new(tensor: &Tensor, role: Role, arithmetic: Arithmetic) -> Result<Self, OpError> {
        match (role, tensor.shape()) {
            (Role::Matrix | Role::Gated, &[outputs, inputs]) => {
                let gated = role == Role::Gated;
                Ok(Self::Matrix(Matrix::of_weight(arithmetic, inputs, outputs, gated, &tensor.to_f32())))
            }
            (Role::Table, [_, _]) => Ok(Self::Table(tensor.clone())),
            (Role::Bias | Role::Exact, _) => Ok(Self::Numbers(tensor.to_f32())),
            (Role::Matrix | Role::Gated | Role::Table, shape) => misplaced(&format!("a tensor of shape {shape:?}")),
        }
    }

    fn matrix(&self) -> Result<&Matrix, OpError> {
        match self {
            Self::Matrix(packed) => Ok(packed),
            Self::Numbers(_) | Self::Table(_) => misplaced("a matrix"),
        }
    }

    fn numbers(&self) -> Result<&[f32], OpError> {
        match self {
            Self::Numbers(numbers) => Ok(numbers),
            Self::Matrix(_) | Self::Table(_) => misplaced("numbers"),
        }
    }

    /// Adds a row of a table to `to`.
    fn add_row(&self, row: usize, to: &mut [f32]) -> Result<(), OpError> {
        let Self::Table(table) = self else { return misplaced("a table") };
        let bytes = table.element().bytes();
        let Some(row) = table.bytes().get(row * to.len() * bytes..(row + 1) * to.len() * bytes) else {
            return misplaced("a row of a table");
        };
        let halves = row.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        match table.element() {
            Element::F32 => {
                row.chunks_exact(4).zip(to).for_each(|(x, to)| *to += f32::from_le_bytes([x[0], x[1], x[2], x[3]]));
            }
            Element::F16 => halves.zip(to).for_each(|(x, to)| *to += half::f16::from_bits(x).to_f32()),
            Element::Bf16 => halves.zip(to).for_each(|(x, to)| *to += half::bf16::from_bits(x).to_f32()),
        }
        Ok(())
    }
}

/// A checked encoder has every weight in its place.
fn misplaced<T>(what: &str) -> Result<T, OpError> {
    Err(OpError::Invalid(format!("{what} is not where an encoder has it")))
}

/// What products are computed in.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arithmetic {
    /// f32.
    Single(Isa),
    /// bfloat16.
    Halves(halves::Unit),
}

impl Arithmetic {
    /// What a precision comes to on a machine that has this unit, or none.
    pub(super) fn of(precision: Precision, unit: Option<halves::Unit>) -> Self {
        match (precision, unit) {
            (Precision::Bf16, Some(unit)) => Self::Halves(unit),
            (Precision::Bf16 | Precision::Auto | Precision::F16 | Precision::F32, _) => Self::Single(Isa::best()),
        }
    }
}

/// The weights of an encoder as the CPU keeps them.
pub(super) fn load(encoder: &Encoder, arithmetic: Arithmetic) -> Result<Weights<Weight>, OpError> {
    encoder.weights().map(&mut |tensor, role| Weight::new(tensor, role, arithmetic))
}

/// What a group of texts is computed with.
struct Cpu {
    isa: Isa,
    arithmetic: Arithmetic,
    /// Whether the rows of a step are spread over the threads.
    spread: bool,
}

/// Runs checked requests, which share encoder and precision.
pub(super) fn run(requests: &[&EncodeRequest], worker: &cpu::Worker) -> Result<Vec<Encoded>, OpError> {
    run_with(requests, worker, halves::Unit::of_machine())
}

/// The same on a machine that has this unit, or none.
fn run_with(
    requests: &[&EncodeRequest],
    worker: &cpu::Worker,
    unit: Option<halves::Unit>,
) -> Result<Vec<Encoded>, OpError> {
    let Some(first) = requests.first() else { return Ok(vec![]) };
    let encoder = &first.encoder;
    let arithmetic = Arithmetic::of(first.precision, unit);
    let packed = Packed::new(requests)?;
    let pool = worker.pool();
    let pooled = pool.time("encode", || {
        let model = Model { config: encoder.config(), weights: encoder.on_cpu(arithmetic)? };
        let states = states(&model, &packed.batch, arithmetic, pool.threads())?;
        Ok(pool::pool(&states, model.config.hidden, &packed.rows))
    })?;
    packed.split(pooled)
}

/// The last states of all tokens, `[T, hidden]`.
fn states(
    model: &Model<'_, Weight>,
    batch: &Batch,
    arithmetic: Arithmetic,
    threads: usize,
) -> Result<Vec<f32>, OpError> {
    let hidden = model.config.hidden;
    let mut states = vec![0.0; batch.ids.len() * hidden];
    let groups = groups(&batch.starts, GROUP_TOKENS.min(batch.ids.len().div_ceil(threads)));
    let spread = groups.len() < threads;
    let mut rest = states.as_mut_slice();
    let mut parts = Vec::with_capacity(groups.len());
    for texts in groups {
        let group = part(batch, texts);
        let (own, after) = std::mem::take(&mut rest).split_at_mut(group.ids.len() * hidden);
        rest = after;
        parts.push((group, own));
    }
    parts.into_par_iter().try_for_each(|(group, out)| {
        let group = forward(&mut Cpu { isa: Isa::best(), arithmetic, spread }, model, &group)?;
        out.copy_from_slice(group.numbers()?.numbers());
        Ok(())
    })?;
    Ok(states)
}

/// Runs of texts with at most `most` tokens each, or one text that has more. Runs without tokens are left out.
fn groups(starts: &[u32], most: usize) -> Vec<Range<usize>> {
    let mut groups = vec![];
    let mut first = 0;
    for end in 1..starts.len() {
        let tokens = |to: usize| (starts[to] - starts[first]) as usize;
        let is_last = end + 1 == starts.len();
        if tokens(end) > 0 && (is_last || tokens(end + 1) > most) {
            groups.push(first..end);
            first = end;
        }
    }
    groups
}

fn part(batch: &Batch, texts: Range<usize>) -> Batch {
    let starts = &batch.starts[texts.start..=texts.end];
    let first = starts[0];
    let tokens = first as usize..starts[starts.len() - 1] as usize;
    Batch {
        ids: batch.ids[tokens.clone()].to_vec(),
        types: batch.types.get(tokens).unwrap_or_default().to_vec(),
        starts: starts.iter().map(|start| start - first).collect(),
        longest: batch.longest,
    }
}
