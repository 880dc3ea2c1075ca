//! The primitives on the CPU: embedding lookup, linear layers in f32, and the row kernels over blocks of rows.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use rayon::prelude::*;

use super::{
    Arithmetic, Cpu, Weight,
    hidden_states::{HiddenStates, RowBuffer},
    linear_bf16::LinearBf16,
    matrix::Matrix,
    row_kernels::{Activate, RowNorm, add},
};
use crate::{
    OpError,
    cpu::{
        gemm::{PackedMatrix, Prefetch},
        pace::Pace,
        simd::{Isa, Lanes, WithSimd},
        slices::{READ_COST, SLICE},
    },
    op::product,
    ops::encode::{
        Activation, Embeddings, Linear, Norm,
        primitives::{Attention, Batch, Epilogue, OutputRow, PooledOutput, Primitives},
    },
};

/// Rows per GEMM and epilogue: enough to amortise loading a weight, and few enough that the epilogue finds them in the L2
/// cache.
const BLOCK: usize = 256;
/// Rows per block of a weight so large that [`BLOCK`] rows exceed a slice: still enough to amortise loading it.
const MIN_BLOCK: usize = 64;
/// Threads get multiples of this many rows.
const ROW_MULTIPLE: usize = 8;

impl Cpu {
    /// A computation of a thread alone, or distributed over all of them.
    pub(super) fn new(isa: Isa, arithmetic: Arithmetic, parallel: bool) -> Self {
        Self { isa, arithmetic, parallel, pace: Pace::new() }
    }

    /// The threads that work on this pass.
    pub(super) fn threads(&self) -> usize {
        if self.parallel { rayon::current_num_threads() } else { 1 }
    }

    /// Calls `work` with blocks of rows of `out` and the index of their first row. A row costs `row_cost` multiply-adds.
    pub(super) async fn by_rows(
        &mut self,
        out: &mut [f32],
        width: usize,
        row_cost: u64,
        work: impl Fn(usize, &mut [f32]) + Sync,
    ) {
        let threads = self.threads();
        // One block per thread where that is possible, because each block reads the whole weight.
        let share = (out.len() / width).div_ceil(threads);
        let limit = block_rows(row_cost);
        // Otherwise rounds are equal: a short last one would read the weight again for a few rows.
        let rounds = share.div_ceil(limit).max(1);
        let rows = share.div_ceil(rounds).next_multiple_of(ROW_MULTIPLE).clamp(ROW_MULTIPLE, limit);
        for (round, out) in out.chunks_mut(threads * rows * width).enumerate() {
            let first = round * threads * rows;
            self.pace.spend(row_cost.saturating_mul(rows.min(out.len() / width) as u64)).await;
            if self.parallel {
                let blocks = out.par_chunks_mut(rows * width).enumerate();
                blocks.for_each(|(block, out)| work(first + block * rows, out));
            } else {
                work(first, out);
            }
        }
    }

    async fn multiply(&mut self, x: &RowBuffer, packed: &PackedMatrix, epilogue_rows: EpilogueRows<'_>) -> RowBuffer {
        let isa = self.isa;
        let inputs = x.width();
        let width = epilogue_rows.width();
        let row_cost = product([inputs, packed.columns()]);
        let mut out = RowBuffer::new(x.numbers().len() / inputs, width);
        let block = |first: usize, out: &mut [f32]| {
            let rows = out.len() / width;
            let x = &x.numbers()[first * inputs..][..rows * inputs];
            if packed.columns() == width {
                packed.multiply(x, out, Prefetch::Columns);
                epilogue_rows.in_place(isa, out, width);
            } else {
                let mut tile = RowBuffer::new(rows, packed.columns());
                packed.multiply(x, tile.numbers_mut(), Prefetch::Columns);
                epilogue_rows.in_place(isa, tile.numbers_mut(), packed.columns());
                epilogue_rows.write(isa, tile.numbers(), packed.columns(), out);
            }
        };
        self.by_rows(out.numbers_mut(), width, row_cost, block).await;
        out
    }
}

/// The most rows of a block: as many as fit a slice, within bounds.
fn block_rows(row_cost: u64) -> usize {
    let fit = usize::try_from(SLICE / row_cost.max(1)).unwrap_or(usize::MAX);
    fit.clamp(MIN_BLOCK, BLOCK) / ROW_MULTIPLE * ROW_MULTIPLE
}

impl Primitives for Cpu {
    type Weight = Weight;
    type Tensor = HiddenStates;

    async fn embed(
        &mut self,
        batch: &Batch,
        embeddings: &Embeddings<Weight>,
        position_offset: usize,
    ) -> Result<HiddenStates, OpError> {
        let width = embeddings.width()?;
        let mut hidden_states = RowBuffer::new(batch.ids.len(), width);
        hidden_states.numbers_mut().fill(0.0);
        for pair in batch.cu_seqlens.windows(2) {
            for (position, token) in (pair[0] as usize..pair[1] as usize).enumerate() {
                let row = &mut hidden_states.numbers_mut()[token * width..][..width];
                embeddings.word_embeddings.add_row(batch.ids[token] as usize, row)?;
                if let Some(positions) = &embeddings.position_embeddings {
                    let own = batch.position_rows.get(token).map(|row| *row as usize);
                    positions.add_row(own.unwrap_or(position_offset + position), row)?;
                }
                if let Some(table) = &embeddings.token_type_embeddings {
                    table.add_row(batch.token_type_ids.get(token).map_or(0, |kind| *kind as usize), row)?;
                }
            }
        }
        if let Some(norm) = &embeddings.norm {
            let norm = RowNorm::new(norm)?;
            let isa = self.isa;
            self.by_rows(hidden_states.numbers_mut(), width, norm_cost(width), |_, rows| norm.apply(isa, rows)).await;
        }
        Ok(HiddenStates::F32(hidden_states))
    }

    async fn linear(
        &mut self,
        x: &HiddenStates,
        linear: &Linear<Weight>,
        epilogue: Epilogue,
    ) -> Result<HiddenStates, OpError> {
        let bias = linear.bias.as_ref().map(Weight::numbers).transpose()?;
        let outputs = linear.outputs;
        match linear.weight.matrix()? {
            Matrix::F32(packed) => {
                let epilogue_rows = EpilogueRows { bias, outputs, epilogue };
                Ok(HiddenStates::F32(self.multiply(x.numbers()?, packed, epilogue_rows).await))
            }
            Matrix::Bf16(amx, matrix) => {
                let of_layer = LinearBf16 { amx: *amx, matrix, bias, outputs, epilogue };
                Ok(self.linear_bf16(x, linear.inputs, &of_layer).await)
            }
        }
    }

    async fn attention(
        &mut self,
        batch: &Batch,
        qkv: HiddenStates,
        params: &Attention<'_, Weight>,
    ) -> Result<HiddenStates, OpError> {
        Ok(HiddenStates::F32(self.attend(batch, qkv.into_numbers()?, params).await?))
    }

    async fn norm(&mut self, x: &HiddenStates, norm: &Norm<Weight>) -> Result<HiddenStates, OpError> {
        let x = x.numbers()?;
        let width = x.width();
        let isa = self.isa;
        let norm = RowNorm::new(norm)?;
        let mut out = RowBuffer::new(x.numbers().len() / width, width);
        let block = |first: usize, out: &mut [f32]| {
            out.copy_from_slice(&x.numbers()[first * width..][..out.len()]);
            norm.apply(isa, out);
        };
        self.by_rows(out.numbers_mut(), width, norm_cost(width), block).await;
        Ok(HiddenStates::F32(out))
    }

    async fn add_norm(
        &mut self,
        mut residual: HiddenStates,
        delta: HiddenStates,
        norm: &Norm<Weight>,
    ) -> Result<HiddenStates, OpError> {
        let isa = self.isa;
        let norm = RowNorm::new(norm)?;
        let delta = delta.numbers()?;
        let width = delta.width();
        let block = |first: usize, rows: &mut [f32]| {
            norm.add_and_apply(isa, rows, &delta.numbers()[first * width..]);
        };
        self.by_rows(residual.numbers_mut()?.numbers_mut(), width, norm_cost(width), block).await;
        Ok(residual)
    }

    async fn fused_add_norm(
        &mut self,
        residual: &mut HiddenStates,
        delta: HiddenStates,
        norm: &Norm<Weight>,
    ) -> Result<HiddenStates, OpError> {
        let delta = delta.numbers()?;
        let width = delta.width();
        let sums = residual.numbers_mut()?.numbers_mut();
        let block = |first: usize, rows: &mut [f32]| add(rows, &delta.numbers()[first * width..]);
        self.by_rows(sums, width, norm_cost(width), block).await;
        self.norm(residual, norm).await
    }

    fn pool(&mut self, hidden_states: &HiddenStates, rows: &[OutputRow]) -> Result<PooledOutput, OpError> {
        let hidden_states = hidden_states.numbers()?;
        Ok(super::pool::pool(hidden_states.numbers(), hidden_states.width(), rows))
    }
}

/// The cost of normalising a row.
fn norm_cost(width: usize) -> u64 {
    READ_COST.saturating_mul(width as u64)
}

impl Embeddings<Weight> {
    fn width(&self) -> Result<usize, OpError> {
        match &self.word_embeddings {
            Weight::Table(table) => Ok(table.shape()[1]),
            Weight::Matrix(_) | Weight::Numbers(_) => super::unexpected_weight("a table"),
        }
    }
}

/// The epilogue of an f32 linear layer.
#[derive(Clone, Copy)]
struct EpilogueRows<'a> {
    bias: Option<&'a [f32]>,
    outputs: usize,
    epilogue: Epilogue,
}

impl EpilogueRows<'_> {
    fn width(&self) -> usize {
        match self.epilogue {
            Epilogue::Bias | Epilogue::Activation(_) => self.outputs,
            Epilogue::GatedActivation(_) => self.outputs / 2,
        }
    }

    /// Adds the bias and applies the activation, in rows with a stride of `columns`.
    fn in_place(&self, isa: Isa, rows: &mut [f32], columns: usize) {
        let activated = match self.epilogue {
            Epilogue::Bias => None,
            Epilogue::Activation(activation) => Some((activation, self.outputs)),
            Epilogue::GatedActivation(activation) => Some((activation, self.outputs / 2)),
        };
        isa.run(BiasAndActivate { rows, columns, bias: self.bias, activated });
    }

    /// Writes the rows of a tile without padding, with the gate applied.
    fn write(&self, _isa: Isa, tile: &[f32], columns: usize, out: &mut [f32]) {
        let width = self.width();
        for (row, out) in tile.chunks_exact(columns).zip(out.chunks_exact_mut(width)) {
            out.copy_from_slice(&row[..width]);
            if matches!(self.epilogue, Epilogue::GatedActivation(_)) {
                out.iter_mut().zip(&row[width..]).for_each(|(out, x)| *out *= x);
            }
        }
    }
}

struct BiasAndActivate<'a> {
    rows: &'a mut [f32],
    columns: usize,
    bias: Option<&'a [f32]>,
    /// The activation, and how many leading columns it applies to.
    activated: Option<(Activation, usize)>,
}

impl WithSimd for BiasAndActivate<'_> {
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
