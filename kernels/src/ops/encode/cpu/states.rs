//! States of tokens, in memory that a thread uses again: fresh pages would cost as much as a small product.

use std::cell::RefCell;

use crate::{OpError, cpu::halves::Rows};

/// Freed buffers a thread keeps.
const KEPT: usize = 6;
/// Larger ones are given back.
const LARGEST: usize = 4 << 20;

thread_local! {
    static FREE: RefCell<Vec<Vec<f32>>> = const { RefCell::new(vec![]) };
}

/// States of a batch, as the next step reads them.
pub(in crate::ops::encode) enum Held {
    /// As f32.
    Numbers(States),
    /// Rounded for products: what nothing but a product reads.
    Rounded(Rows),
}

impl Held {
    pub(super) fn numbers(&self) -> Result<&States, OpError> {
        match self {
            Self::Numbers(states) => Ok(states),
            Self::Rounded(_) => super::misplaced("what only products read"),
        }
    }

    pub(super) fn into_numbers(self) -> Result<States, OpError> {
        match self {
            Self::Numbers(states) => Ok(states),
            Self::Rounded(_) => super::misplaced("what only products read"),
        }
    }

    pub(super) fn numbers_mut(&mut self) -> Result<&mut States, OpError> {
        match self {
            Self::Numbers(states) => Ok(states),
            Self::Rounded(_) => super::misplaced("what only products read"),
        }
    }
}

/// Numbers in rows of one width.
pub(in crate::ops::encode) struct States {
    /// At least as many as there are.
    numbers: Vec<f32>,
    count: usize,
    width: usize,
}

impl States {
    /// Rows with whatever was there before: write all of it before anything is read.
    pub(super) fn new(rows: usize, width: usize) -> Self {
        let mut numbers = FREE.with_borrow_mut(Vec::pop).unwrap_or_default();
        if numbers.len() < rows * width {
            numbers.resize(rows * width, 0.0);
        }
        Self { numbers, count: rows * width, width }
    }

    /// Numbers in a row.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// All numbers.
    pub(super) fn numbers(&self) -> &[f32] {
        &self.numbers[..self.count]
    }

    /// All numbers.
    pub(super) fn numbers_mut(&mut self) -> &mut [f32] {
        &mut self.numbers[..self.count]
    }
}

impl Drop for States {
    fn drop(&mut self) {
        let numbers = std::mem::take(&mut self.numbers);
        if numbers.capacity() <= LARGEST {
            FREE.with_borrow_mut(|free| {
                if free.len() < KEPT {
                    free.push(numbers);
                }
            });
        }
    }
}
