//! Linear layers in bfloat16 on AMX. The epilogue runs on each block of sums while it is in the L1 cache.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use rayon::prelude::*;

use super::{Cpu, RowBuffer, hidden_states::HiddenStates, row_kernels::Activate};
use crate::{
    cpu::{
        gemm_bf16::{AmxToken, BLOCK_SIDE, Bf16Rows, Bf16RowsMut, Bf16RowsView, PackedBf16, TILE_SIDE},
        simd::{Isa, Lanes, WithSimd},
        slices::SLICE,
    },
    op::product,
    ops::encode::{Activation, primitives::Epilogue},
};

/// The number of bfloat16 products that take as long as one of f32.
const SPEEDUP: u64 = 8;
/// Rows per part of a weight so large that even they exceed a slice.
const MIN_ROWS: usize = 64;

pub(super) struct LinearBf16<'a> {
    pub(super) amx: AmxToken,
    pub(super) matrix: &'a PackedBf16,
    pub(super) bias: Option<&'a [f32]>,
    pub(super) outputs: usize,
    pub(super) epilogue: Epilogue,
}

impl Cpu {
    /// An activation is followed by a GEMM only, so its output is rounded to bfloat16.
    pub(super) async fn linear_bf16(
        &mut self,
        x: &HiddenStates,
        inputs: usize,
        linear: &LinearBf16<'_>,
    ) -> HiddenStates {
        let bias = linear.bias.map(|bias| linear.matrix.permute(bias)).unwrap_or_default();
        let rounded;
        let rows = match x {
            HiddenStates::Bf16(rows) => rows,
            HiddenStates::F32(rows_f32) => {
                rounded = Bf16Rows::from_f32(linear.amx, inputs, rows_f32.numbers());
                &rounded
            }
        };
        // A thread multiplies all of its rows by a column of tiles while the column is cached.
        let row_cost = (product([inputs, linear.outputs]) / SPEEDUP).max(1);
        let fit = usize::try_from(SLICE / row_cost).unwrap_or(usize::MAX).max(MIN_ROWS) / TILE_SIDE * TILE_SIDE;
        let share = rows.count().div_ceil(self.threads()).next_multiple_of(TILE_SIDE).clamp(TILE_SIDE, fit);
        let cost = row_cost.saturating_mul(share as u64);
        let isa = self.isa;
        match linear.epilogue {
            Epilogue::Bias => {
                let mut out = RowBuffer::new(rows.count(), linear.outputs);
                let parts = out.numbers_mut().chunks_mut(share * linear.outputs);
                let part = |(index, out): (usize, &mut [f32])| {
                    let rows = rows.part(index * share, share);
                    linear.matrix.multiply_into(linear.amx, rows, &bias, out, linear.outputs);
                };
                self.each(parts.enumerate().collect(), cost, part).await;
                HiddenStates::F32(out)
            }
            Epilogue::Activation(_) | Epilogue::GatedActivation(_) => {
                let halved = matches!(linear.epilogue, Epilogue::GatedActivation(_));
                let mut out = Bf16Rows::new(rows.count(), linear.outputs / if halved { 2 } else { 1 });
                let parts = out.parts_mut(share);
                let part = |(index, out): (usize, Bf16RowsMut<'_>)| {
                    linear.activated(isa, &bias, rows.part(index * share, share), out);
                };
                self.each(parts.enumerate().collect(), cost, part).await;
                HiddenStates::Bf16(out)
            }
        }
    }

    /// Calls `work` with each part, of which each costs at most `cost`.
    async fn each<T: Send>(&mut self, parts: Vec<T>, cost: u64, work: impl Fn(T) + Sync + Send) {
        let mut parts = parts.into_iter();
        while parts.len() > 0 {
            self.pace.spend(cost).await;
            let round: Vec<T> = parts.by_ref().take(self.threads()).collect();
            if self.parallel { round.into_par_iter().for_each(&work) } else { round.into_iter().for_each(&work) }
        }
    }
}

impl LinearBf16<'_> {
    fn activated(&self, isa: Isa, bias: &[f32], rows: Bf16RowsView<'_>, mut out: Bf16RowsMut<'_>) {
        let gated = matches!(self.epilogue, Epilogue::GatedActivation(_));
        self.matrix.multiply(self.amx, rows, bias, |block| {
            isa.run(EpilogueBf16 { sums: &mut block.sums[..block.rows.len() * BLOCK_SIDE], epilogue: self.epilogue });
            if !gated && block.columns.len() == BLOCK_SIDE {
                return out.write_block(self.amx, &block);
            }
            let (first, width) = if gated {
                let first = block.columns.start / 2;
                (first, TILE_SIDE.min(self.outputs / 2 - first))
            } else {
                (block.columns.start, block.columns.len())
            };
            for (row, sums) in block.rows.zip(block.sums.chunks_exact(BLOCK_SIDE)) {
                out.write(self.amx, row, first, &sums[..width]);
            }
        });
    }
}

/// Applies the activation to the rows of a block, and the gate.
struct EpilogueBf16<'a> {
    sums: &'a mut [f32],
    epilogue: Epilogue,
}

impl WithSimd for EpilogueBf16<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        match self.epilogue {
            Epilogue::Bias => {}
            Epilogue::Activation(activation) => Activate { row: self.sums, activation }.run(lanes),
            Epilogue::GatedActivation(activation) => {
                for sums in self.sums.chunks_exact_mut(BLOCK_SIDE) {
                    gate(lanes, sums, activation);
                }
            }
        }
    }
}

#[inline(always)]
fn gate<L: Lanes>(lanes: L, sums: &mut [f32], activation: Activation) {
    let (first, second) = sums.split_at_mut(TILE_SIDE);
    Activate { row: first, activation }.run(lanes);
    first.iter_mut().zip(second).for_each(|(x, y)| *x *= *y);
}
