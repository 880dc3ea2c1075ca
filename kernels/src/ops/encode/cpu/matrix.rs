//! A matrix packed for products, in the numbers they are computed in.

use super::{Arithmetic, States};
use crate::cpu::{
    halves::{self, BLOCK, Rows},
    products::{self, Far},
};

/// Packed columns of a product.
pub(in crate::ops::encode) enum Matrix {
    Single(products::Packed),
    Halves(halves::Unit, halves::Packed),
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
            Arithmetic::Single(isa) => {
                let mut vectors = States::new(count, dim);
                vectors.numbers_mut().chunks_exact_mut(dim.max(1)).enumerate().for_each(|(at, to)| {
                    to.copy_from_slice(vector(at));
                });
                Self::Single(products::Packed::new(isa, dim, count, vectors.numbers()))
            }
            Arithmetic::Halves(unit) => Self::Halves(unit, halves::Packed::new(unit, dim, count, vector)),
        }
    }

    /// Packs a weight `[outputs, inputs]`; where it is gated, the first half of the outputs gates the second.
    pub(super) fn of_weight(arithmetic: Arithmetic, inputs: usize, outputs: usize, gated: bool, all: &[f32]) -> Self {
        let vector = |at: usize| &all[at * inputs..][..inputs];
        match arithmetic {
            Arithmetic::Single(isa) => Self::Single(products::Packed::new(isa, inputs, outputs, all)),
            Arithmetic::Halves(unit) if gated => {
                Self::Halves(unit, halves::Packed::of_halves(unit, inputs, outputs, vector))
            }
            Arithmetic::Halves(unit) => Self::Halves(unit, halves::Packed::new(unit, inputs, outputs, vector)),
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
            Arithmetic::Single(isa) => Self::Single(products::Packed::of_columns(isa, dim, count, row)),
            Arithmetic::Halves(unit) => Self::Halves(unit, halves::Packed::of_columns(unit, dim, count, row)),
        }
    }

    /// Numbers in a row of a product, with those of padding.
    pub(super) fn columns(&self) -> usize {
        match self {
            Self::Single(packed) => packed.columns(),
            Self::Halves(_, packed) => packed.columns().next_multiple_of(BLOCK),
        }
    }

    /// `tile[r][v] = rows[r] . vectors[v]`, for as many rows as there are. Columns of padding are 0 or left alone.
    pub(super) fn multiply(&self, dim: usize, rows: &[f32], tile: &mut [f32]) {
        match self {
            Self::Single(packed) => packed.multiply(rows, tile, Far::Nothing),
            Self::Halves(unit, packed) => {
                let rows = Rows::rounded(*unit, dim, rows);
                packed.multiply_into(*unit, rows.part(0, rows.count()), &[], tile, self.columns());
            }
        }
    }
}
