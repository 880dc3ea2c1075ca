//! Linear layers in bfloat16 on AMX. The epilogue runs on each block of sums while it is in the L1 cache.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use rayon::prelude::*;

use super::{Cpu, RowBuffer, hidden_states::HiddenStates, row_kernels::Activate};
use crate::{
    cpu::{
        gemm_bf16::{AmxToken, BLOCK_SIDE, Bf16Rows, Bf16RowsMut, Bf16RowsView, PackedBf16, TILE_SIDE},
        simd::{Kernel, Lanes},
    },
    ops::encode::{Activation, primitives::Epilogue},
};

pub(super) struct LinearBf16<'a> {
    pub(super) amx: AmxToken,
    pub(super) matrix: &'a PackedBf16,
    pub(super) bias: Option<&'a [f32]>,
    pub(super) outputs: usize,
    pub(super) epilogue: Epilogue,
}

impl Cpu {
    /// An activation is followed by a GEMM only, so its output is rounded to bfloat16.
    pub(super) fn linear_bf16(&self, x: &HiddenStates, inputs: usize, linear: &LinearBf16<'_>) -> HiddenStates {
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
        let threads = if self.parallel { rayon::current_num_threads() } else { 1 };
        let share = rows.count().div_ceil(threads).next_multiple_of(TILE_SIDE).max(TILE_SIDE);
        match linear.epilogue {
            Epilogue::Bias => {
                let mut out = RowBuffer::new(rows.count(), linear.outputs);
                let parts = out.numbers_mut().chunks_mut(share * linear.outputs);
                self.each(parts.enumerate().collect(), |(at, out)| {
                    let rows = rows.part(at * share, share);
                    linear.matrix.multiply_into(linear.amx, rows, &bias, out, linear.outputs);
                });
                HiddenStates::F32(out)
            }
            Epilogue::Activation(_) | Epilogue::GatedActivation(_) => {
                let halved = matches!(linear.epilogue, Epilogue::GatedActivation(_));
                let mut out = Bf16Rows::new(rows.count(), linear.outputs / if halved { 2 } else { 1 });
                let parts = out.parts_mut(share);
                self.each(parts.enumerate().collect(), |(at, out)| {
                    self.activated(linear, &bias, rows.part(at * share, share), out);
                });
                HiddenStates::Bf16(out)
            }
        }
    }

    fn each<T: Send>(&self, parts: Vec<T>, work: impl Fn(T) + Sync + Send) {
        if self.parallel { parts.into_par_iter().for_each(work) } else { parts.into_iter().for_each(work) }
    }

    fn activated(&self, linear: &LinearBf16<'_>, bias: &[f32], rows: Bf16RowsView<'_>, mut out: Bf16RowsMut<'_>) {
        let gated = matches!(linear.epilogue, Epilogue::GatedActivation(_));
        linear.matrix.multiply(linear.amx, rows, bias, |block| {
            self.isa.run(EpilogueBf16 {
                sums: &mut block.sums[..block.rows.len() * BLOCK_SIDE],
                epilogue: linear.epilogue,
            });
            if !gated && block.columns.len() == BLOCK_SIDE {
                return out.write_block(linear.amx, &block);
            }
            let (first, width) = if gated {
                let first = block.columns.start / 2;
                (first, TILE_SIDE.min(linear.outputs / 2 - first))
            } else {
                (block.columns.start, block.columns.len())
            };
            for (row, sums) in block.rows.zip(block.sums.chunks_exact(BLOCK_SIDE)) {
                out.write(linear.amx, row, first, &sums[..width]);
            }
        });
    }
}

/// Applies the activation to the rows of a block, and the gate.
struct EpilogueBf16<'a> {
    sums: &'a mut [f32],
    epilogue: Epilogue,
}

impl Kernel for EpilogueBf16<'_> {
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
