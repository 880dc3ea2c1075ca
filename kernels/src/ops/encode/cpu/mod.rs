//! Encoders on the CPU: in f32, or with GEMMs in bfloat16 on AMX. Hidden states, norms, softmax and activations are f32 in
//! both.
//!
//! A batch is split into groups of whole sequences whose hidden states fit a core's L2 cache; each group passes all layers
//! in slices of one thread, which end between steps of a layer or between blocks of rows, so that threads synchronise only at
//! the end. With fewer groups than threads, the rows of each step are distributed instead. Neither split affects the bits of
//! a result: every row is computed from its own sequence, in an order that depends on the model alone.

use std::ops::Range;

use super::{
    DType, Encode, EncodeRequest, Encoded, Encoder, PackedBatch, Precision, Role, Tensor, Weights,
    encoder::{Model, forward},
    primitives::Batch,
};
use crate::{
    Op, OpError,
    cpu::{
        self, gemm_bf16,
        pace::{Pace, Sliced, complete, resume},
        simd::Isa,
    },
};

mod attention;
mod head;
mod hidden_states;
mod linear_bf16;
mod matrix;
mod pool;
mod primitives;
mod row_kernels;
#[cfg(test)]
mod tests;

pub use head::{ClassificationHead, HeadActivation, HeadWeights};
use hidden_states::RowBuffer;
use matrix::Matrix;
pub(super) use pool::pooled;

/// The target size of a group: about 1.5 MB with 1,536 numbers a token.
const GROUP_TOKENS: usize = 256;

pub(super) enum Weight {
    /// Packed for GEMM.
    Matrix(Matrix),
    Numbers(Vec<f32>),
    /// In the type of the checkpoint.
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
            (Role::Matrix | Role::Gated | Role::Table, shape) => {
                unexpected_weight(&format!("a tensor of shape {shape:?}"))
            }
        }
    }

    fn matrix(&self) -> Result<&Matrix, OpError> {
        match self {
            Self::Matrix(packed) => Ok(packed),
            Self::Numbers(_) | Self::Table(_) => unexpected_weight("a matrix"),
        }
    }

    fn numbers(&self) -> Result<&[f32], OpError> {
        match self {
            Self::Numbers(numbers) => Ok(numbers),
            Self::Matrix(_) | Self::Table(_) => unexpected_weight("numbers"),
        }
    }

    /// Adds a row of a table to `to`.
    fn add_row(&self, row: usize, to: &mut [f32]) -> Result<(), OpError> {
        let Self::Table(table) = self else { return unexpected_weight("a table") };
        let bytes = table.dtype().bytes();
        let Some(row) = table.bytes().get(row * to.len() * bytes..(row + 1) * to.len() * bytes) else {
            return unexpected_weight("a row of a table");
        };
        let halves = row.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        match table.dtype() {
            DType::F32 => {
                row.chunks_exact(4).zip(to).for_each(|(x, to)| *to += f32::from_le_bytes([x[0], x[1], x[2], x[3]]));
            }
            DType::F16 => halves.zip(to).for_each(|(x, to)| *to += half::f16::from_bits(x).to_f32()),
            DType::Bf16 => halves.zip(to).for_each(|(x, to)| *to += half::bf16::from_bits(x).to_f32()),
        }
        Ok(())
    }
}

/// Unreachable for a checked encoder.
fn unexpected_weight<T>(what: &str) -> Result<T, OpError> {
    Err(OpError::Invalid(format!("expected {what} as this weight of the encoder")))
}

/// The arithmetic of GEMMs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arithmetic {
    F32(Isa),
    Bf16(gemm_bf16::AmxToken),
}

impl Arithmetic {
    /// The arithmetic of a precision on a machine with or without AMX.
    pub(super) fn of(precision: Precision, amx: Option<gemm_bf16::AmxToken>) -> Self {
        match (precision, amx) {
            (Precision::Bf16, Some(amx)) => Self::Bf16(amx),
            (Precision::Bf16 | Precision::Auto | Precision::F16 | Precision::F32, _) => Self::F32(Isa::best()),
        }
    }
}

pub(super) fn load(encoder: &Encoder, arithmetic: Arithmetic) -> Result<Weights<Weight>, OpError> {
    encoder.weights().map(&mut |tensor, role| Weight::new(tensor, role, arithmetic))
}

/// The CPU implementation of the primitives.
struct Cpu {
    isa: Isa,
    arithmetic: Arithmetic,
    /// True if the rows of a step are distributed over the threads.
    parallel: bool,
    pace: Pace,
}

/// Runs checked requests of one encoder and precision.
pub(super) fn run(requests: &[&EncodeRequest], worker: &cpu::Worker) -> Result<Vec<Encoded>, OpError> {
    run_with(requests, worker, gemm_bf16::AmxToken::detect())
}

/// The same on a machine with or without AMX.
fn run_with(
    requests: &[&EncodeRequest],
    worker: &cpu::Worker,
    amx: Option<gemm_bf16::AmxToken>,
) -> Result<Vec<Encoded>, OpError> {
    let Some(first) = requests.first() else { return Ok(vec![]) };
    let encoder = &first.encoder;
    let arithmetic = Arithmetic::of(first.precision, amx);
    let packed = PackedBatch::new(requests)?;
    let pooled = worker.pool().time_inline("encode", || {
        let copy = encoder.on_cpu(arithmetic)?;
        let model = Model { config: encoder.config(), weights: &copy.weights };
        let cost = requests.iter().map(|request| Encode::cost(request)).fold(0, u64::saturating_add);
        let hidden_states = hidden_states(&model, &packed.batch, arithmetic, worker, worker.avoids_pool(cost))?;
        Ok(pool::pool(&hidden_states, model.config.hidden, &packed.rows))
    })?;
    packed.split(pooled)
}

/// The last hidden states, `[T, hidden]`, computed on the worker's own thread (`inline`) or on the pool.
fn hidden_states(
    model: &Model<'_, Weight>,
    batch: &Batch,
    arithmetic: Arithmetic,
    worker: &cpu::Worker,
    inline: bool,
) -> Result<Vec<f32>, OpError> {
    let threads = if inline { 1 } else { worker.pool().threads() };
    let hidden = model.config.hidden;
    let mut hidden_states = vec![0.0; batch.ids.len() * hidden];
    let groups = groups(&batch.cu_seqlens, GROUP_TOKENS.min(batch.ids.len().div_ceil(threads)));
    let parallel = groups.len() < threads;
    let mut rest = hidden_states.as_mut_slice();
    let mut passes: Vec<Sliced<'_, Result<(), OpError>>> = Vec::with_capacity(groups.len());
    for sequences in groups {
        let group = slice_batch(batch, sequences);
        let (own, after) = std::mem::take(&mut rest).split_at_mut(group.ids.len() * hidden);
        rest = after;
        passes.push(Box::pin(async move {
            let mut on = Cpu::new(Isa::best(), arithmetic, parallel);
            let group = forward(&mut on, model, &group).await?;
            own.copy_from_slice(group.numbers()?.numbers());
            Ok(())
        }));
    }
    if inline {
        passes.into_iter().try_for_each(complete)?;
        return worker.preemption_point().map(|()| hidden_states);
    }
    worker.run_in_slices(passes, |mut pass| match resume(pass.as_mut()) {
        Some(result) => result.map(|()| None),
        None => Ok(Some(pass)),
    })?;
    Ok(hidden_states)
}

/// Ranges of sequences of at most `max_tokens` tokens, or a single longer one. Ranges without tokens are omitted.
fn groups(cu_seqlens: &[u32], max_tokens: usize) -> Vec<Range<usize>> {
    let mut groups = vec![];
    let mut first = 0;
    for end in 1..cu_seqlens.len() {
        let tokens = |to: usize| (cu_seqlens[to] - cu_seqlens[first]) as usize;
        let is_last = end + 1 == cu_seqlens.len();
        if tokens(end) > 0 && (is_last || tokens(end + 1) > max_tokens) {
            groups.push(first..end);
            first = end;
        }
    }
    groups
}

fn slice_batch(batch: &Batch, sequences: Range<usize>) -> Batch {
    let cu_seqlens = &batch.cu_seqlens[sequences.start..=sequences.end];
    let first = cu_seqlens[0];
    let tokens = first as usize..cu_seqlens[cu_seqlens.len() - 1] as usize;
    Batch {
        ids: batch.ids[tokens.clone()].to_vec(),
        token_type_ids: batch.token_type_ids.get(tokens.clone()).unwrap_or_default().to_vec(),
        position_rows: batch.position_rows.get(tokens).unwrap_or_default().to_vec(),
        cu_seqlens: cu_seqlens.iter().map(|start| start - first).collect(),
        max_seqlen: batch.max_seqlen,
    }
}
