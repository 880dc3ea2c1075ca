//! A matrix packed for products, in the numbers they are computed in.

use super::{Arithmetic, RowBuffer};
use crate::cpu::{
    gemm::{self, Prefetch},
    gemm_bf16::{self, BLOCK_SIDE, Bf16Rows},
};

/// A matrix packed for GEMM.
pub(in crate::ops::encode) enum Matrix {
    F32(gemm::PackedMatrix),
    Bf16(gemm_bf16::AmxToken, gemm_bf16::PackedBf16),
}

impl Matrix {
    /// Packs `count` vectors of `dim` numbers each.
    pub(super) fn new<'a>(
        arithmetic: Arithmetic,
        dim: usize,
        count: usize,
        vector: impl Fn(usize) -> &'a [f32],
    ) -> Self {
        match arithmetic {
            Arithmetic::F32(isa) => {
                let mut vectors = RowBuffer::new(count, dim);
                vectors.numbers_mut().chunks_exact_mut(dim.max(1)).enumerate().for_each(|(index, to)| {
                    to.copy_from_slice(vector(index));
                });
                Self::F32(gemm::PackedMatrix::new(isa, dim, count, vectors.numbers()))
            }
            Arithmetic::Bf16(amx) => Self::Bf16(amx, gemm_bf16::PackedBf16::new(amx, dim, count, vector)),
        }
    }

    /// Packs a weight `[outputs, inputs]`; where it is gated, the first half of the outputs gates the second.
    pub(super) fn of_weight(arithmetic: Arithmetic, inputs: usize, outputs: usize, gated: bool, all: &[f32]) -> Self {
        let vector = |index: usize| &all[index * inputs..][..inputs];
        match arithmetic {
            Arithmetic::F32(isa) => Self::F32(gemm::PackedMatrix::new(isa, inputs, outputs, all)),
            Arithmetic::Bf16(amx) if gated => {
                Self::Bf16(amx, gemm_bf16::PackedBf16::interleaved(amx, inputs, outputs, vector))
            }
            Arithmetic::Bf16(amx) => Self::Bf16(amx, gemm_bf16::PackedBf16::new(amx, inputs, outputs, vector)),
        }
    }

    /// Packs the columns of a matrix `[dim, count]`: `row` gives `count` numbers of each row, or none for a row of zeros.
    pub(super) fn of_columns<'a>(
        arithmetic: Arithmetic,
        dim: usize,
        count: usize,
        row: impl Fn(usize) -> &'a [f32],
    ) -> Self {
        match arithmetic {
            Arithmetic::F32(isa) => Self::F32(gemm::PackedMatrix::of_columns(isa, dim, count, row)),
            Arithmetic::Bf16(amx) => Self::Bf16(amx, gemm_bf16::PackedBf16::of_columns(amx, dim, count, row)),
        }
    }

    /// Numbers in a row of a product, with those of padding.
    pub(super) fn columns(&self) -> usize {
        match self {
            Self::F32(packed) => packed.columns(),
            Self::Bf16(_, packed) => packed.columns().next_multiple_of(BLOCK_SIDE),
        }
    }

    /// `tile[r][v] = rows[r] . vectors[v]`, for as many rows as there are. Columns of padding are 0 or left alone.
    pub(super) fn multiply(&self, dim: usize, rows: &[f32], tile: &mut [f32]) {
        match self {
            Self::F32(packed) => packed.multiply(rows, tile, Prefetch::None),
            Self::Bf16(amx, packed) => {
                let rows = Bf16Rows::from_f32(*amx, dim, rows);
                packed.multiply_into(*amx, rows.part(0, rows.count()), &[], tile, self.columns());
            }
        }
    }
}
