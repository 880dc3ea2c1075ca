//! The primitives on the CPU: embedding lookup, linear layers in f32, and the row kernels over blocks of rows.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use rayon::prelude::*;

use super::{
    Cpu, Weight,
    hidden_states::{HiddenStates, RowBuffer},
    linear_bf16::LinearBf16,
    matrix::Matrix,
    row_kernels::{Activate, RowNorm, add},
};
use crate::{
    OpError,
    cpu::{
        gemm::{PackedMatrix, Prefetch},
        simd::{Isa, Kernel, Lanes},
    },
    ops::encode::{
        Activation, Embeddings, Linear, Norm,
        primitives::{Attention, Batch, Epilogue, OutputRow, PooledOutput, Primitives},
    },
};

/// Rows per GEMM and epilogue: enough to amortise loading a weight, and few enough that the epilogue finds them in the L2
/// cache.
const BLOCK: usize = 256;
/// Threads get multiples of this many rows.
const ROW_MULTIPLE: usize = 8;

impl Cpu {
    /// Calls `work` with blocks of rows of `out` and the index of their first row.
    pub(super) fn by_rows(&self, out: &mut [f32], width: usize, work: impl Fn(usize, &mut [f32]) + Sync) {
        if self.parallel {
            // One block per thread, because each block reads the whole weight.
            let share = (out.len() / width).div_ceil(rayon::current_num_threads());
            let rows = share.next_multiple_of(ROW_MULTIPLE).clamp(ROW_MULTIPLE, BLOCK);
            let blocks = out.par_chunks_mut(rows * width).enumerate();
            blocks.for_each(|(block, out)| work(block * rows, out));
        } else {
            let blocks = out.chunks_mut(BLOCK * width).enumerate();
            blocks.for_each(|(block, out)| work(block * BLOCK, out));
        }
    }

    fn multiply(&self, x: &RowBuffer, packed: &PackedMatrix, epilogue_rows: EpilogueRows<'_>) -> RowBuffer {
        let (inputs, width) = (x.width(), epilogue_rows.width());
        let mut out = RowBuffer::new(x.numbers().len() / inputs, width);
        self.by_rows(out.numbers_mut(), width, |first, out| {
            let rows = out.len() / width;
            let x = &x.numbers()[first * inputs..][..rows * inputs];
            if packed.columns() == width {
                packed.multiply(x, out, Prefetch::Columns);
                epilogue_rows.in_place(self.isa, out, width);
            } else {
                let mut tile = RowBuffer::new(rows, packed.columns());
                packed.multiply(x, tile.numbers_mut(), Prefetch::Columns);
                epilogue_rows.in_place(self.isa, tile.numbers_mut(), packed.columns());
                epilogue_rows.write(self.isa, tile.numbers(), packed.columns(), out);
            }
        });
        out
    }
}

impl Primitives for Cpu {
    type Weight = Weight;
    type Tensor = HiddenStates;

    fn embed(
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
                    positions.add_row(position_offset + position, row)?;
                }
                if let Some(table) = &embeddings.token_type_embeddings {
                    table.add_row(batch.token_type_ids.get(token).map_or(0, |kind| *kind as usize), row)?;
                }
            }
        }
        if let Some(norm) = &embeddings.norm {
            let norm = RowNorm::new(norm)?;
            self.by_rows(hidden_states.numbers_mut(), width, |_, rows| norm.apply(self.isa, rows));
        }
        Ok(HiddenStates::F32(hidden_states))
    }

    fn linear(
        &mut self,
        x: &HiddenStates,
        linear: &Linear<Weight>,
        epilogue: Epilogue,
    ) -> Result<HiddenStates, OpError> {
        let bias = linear.bias.as_ref().map(Weight::numbers).transpose()?;
        let outputs = linear.outputs;
        match linear.weight.matrix()? {
            Matrix::F32(packed) => {
                let hidden_states = self.multiply(x.numbers()?, packed, EpilogueRows { bias, outputs, epilogue });
                Ok(HiddenStates::F32(hidden_states))
            }
            Matrix::Bf16(amx, matrix) => {
                Ok(self.linear_bf16(x, linear.inputs, &LinearBf16 { amx: *amx, matrix, bias, outputs, epilogue }))
            }
        }
    }

    fn attention(
        &mut self,
        batch: &Batch,
        qkv: HiddenStates,
        params: &Attention<'_, Weight>,
    ) -> Result<HiddenStates, OpError> {
        Ok(HiddenStates::F32(self.attend(batch, qkv.into_numbers()?, params)?))
    }

    fn norm(&mut self, x: &HiddenStates, norm: &Norm<Weight>) -> Result<HiddenStates, OpError> {
        let x = x.numbers()?;
        let width = x.width();
        let norm = RowNorm::new(norm)?;
        let mut out = RowBuffer::new(x.numbers().len() / width, width);
        self.by_rows(out.numbers_mut(), width, |first, out| {
            out.copy_from_slice(&x.numbers()[first * width..][..out.len()]);
            norm.apply(self.isa, out);
        });
        Ok(HiddenStates::F32(out))
    }

    fn add_norm(
        &mut self,
        mut residual: HiddenStates,
        delta: HiddenStates,
        norm: &Norm<Weight>,
    ) -> Result<HiddenStates, OpError> {
        let norm = RowNorm::new(norm)?;
        let delta = delta.numbers()?;
        self.by_rows(residual.numbers_mut()?.numbers_mut(), delta.width(), |first, rows| {
            norm.add_and_apply(self.isa, rows, &delta.numbers()[first * delta.width()..]);
        });
        Ok(residual)
    }

    fn fused_add_norm(
        &mut self,
        residual: &mut HiddenStates,
        delta: HiddenStates,
        norm: &Norm<Weight>,
    ) -> Result<HiddenStates, OpError> {
        let delta = delta.numbers()?;
        let width = delta.width();
        let sums = residual.numbers_mut()?.numbers_mut();
        self.by_rows(sums, width, |first, rows| add(rows, &delta.numbers()[first * width..]));
        self.norm(residual, norm)
    }

    fn pool(&mut self, hidden_states: &HiddenStates, rows: &[OutputRow]) -> Result<PooledOutput, OpError> {
        let hidden_states = hidden_states.numbers()?;
        Ok(super::pool::pool(hidden_states.numbers(), hidden_states.width(), rows))
    }
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
