//! Products in bfloat16, and what follows them: each block of sums is finished while it is in the first cache.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use rayon::prelude::*;

use super::{Cpu, States, rows::Activate, states::Held};
use crate::{
    cpu::{
        halves::{BLOCK, Packed, Part, PartMut, Rows, SIDE, Unit},
        simd::{Kernel, Lanes},
    },
    ops::encode::{Activation, primitives::Then},
};

/// A product to be computed.
pub(super) struct Product<'a> {
    pub(super) unit: Unit,
    pub(super) matrix: &'a Packed,
    pub(super) bias: Option<&'a [f32]>,
    pub(super) outputs: usize,
    pub(super) then: Then,
}

impl Cpu {
    /// What only the next product reads comes rounded.
    pub(super) fn product(&self, x: &Held, inputs: usize, product: &Product<'_>) -> Held {
        let bias = product.bias.map(|bias| product.matrix.arrange(bias)).unwrap_or_default();
        let rounded;
        let rows = match x {
            Held::Rounded(rows) => rows,
            Held::Numbers(states) => {
                rounded = Rows::rounded(product.unit, inputs, states.numbers());
                &rounded
            }
        };
        // All rows of a thread meet a column of tiles while it is near.
        let threads = if self.spread { rayon::current_num_threads() } else { 1 };
        let share = rows.count().div_ceil(threads).next_multiple_of(SIDE).max(SIDE);
        match product.then {
            Then::Nothing => {
                let mut out = States::new(rows.count(), product.outputs);
                let parts = out.numbers_mut().chunks_mut(share * product.outputs);
                self.each(parts.enumerate().collect(), |(at, out)| {
                    let rows = rows.part(at * share, share);
                    product.matrix.multiply_into(product.unit, rows, &bias, out, product.outputs);
                });
                Held::Numbers(out)
            }
            Then::Activate(_) | Then::Gate(_) => {
                let halved = matches!(product.then, Then::Gate(_));
                let mut out = Rows::new(rows.count(), product.outputs / if halved { 2 } else { 1 });
                let parts = out.parts_mut(share);
                self.each(parts.enumerate().collect(), |(at, out)| {
                    self.activated(product, &bias, rows.part(at * share, share), out);
                });
                Held::Rounded(out)
            }
        }
    }

    fn each<T: Send>(&self, parts: Vec<T>, work: impl Fn(T) + Sync + Send) {
        if self.spread { parts.into_par_iter().for_each(work) } else { parts.into_iter().for_each(work) }
    }

    fn activated(&self, product: &Product<'_>, bias: &[f32], rows: Part<'_>, mut out: PartMut<'_>) {
        let gated = matches!(product.then, Then::Gate(_));
        product.matrix.multiply(product.unit, rows, bias, |block| {
            self.isa.run(Finish { sums: &mut block.sums[..block.rows.len() * BLOCK], then: product.then });
            if !gated && block.columns.len() == BLOCK {
                return out.write_block(product.unit, &block);
            }
            let (first, width) = if gated {
                let first = block.columns.start / 2;
                (first, SIDE.min(product.outputs / 2 - first))
            } else {
                (block.columns.start, block.columns.len())
            };
            for (row, sums) in block.rows.zip(block.sums.chunks_exact(BLOCK)) {
                out.write(product.unit, row, first, &sums[..width]);
            }
        });
    }
}

/// Activates rows of a block, and multiplies halves where they are gated.
struct Finish<'a> {
    sums: &'a mut [f32],
    then: Then,
}

impl Kernel for Finish<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        match self.then {
            Then::Nothing => {}
            Then::Activate(activation) => Activate { row: self.sums, activation }.run(lanes),
            Then::Gate(activation) => {
                for sums in self.sums.chunks_exact_mut(BLOCK) {
                    gate(lanes, sums, activation);
                }
            }
        }
    }
}

#[inline(always)]
fn gate<L: Lanes>(lanes: L, sums: &mut [f32], activation: Activation) {
    let (first, second) = sums.split_at_mut(SIDE);
    Activate { row: first, activation }.run(lanes);
    first.iter_mut().zip(second).for_each(|(x, y)| *x *= *y);
}
