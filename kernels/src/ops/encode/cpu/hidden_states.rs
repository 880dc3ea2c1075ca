//! Hidden states, in buffers that a thread reuses: fresh pages would cost as much as a small GEMM.

use std::cell::RefCell;

use crate::{OpError, cpu::gemm_bf16::Bf16Rows};

/// Free buffers kept per thread.
const MAX_FREE_BUFFERS: usize = 6;
/// Larger buffers are freed.
const MAX_FREE_CAPACITY: usize = 4 << 20;

thread_local! {
    static FREE: RefCell<Vec<Vec<f32>>> = const { RefCell::new(vec![]) };
}

/// The output of a step in the type that the next step reads.
pub(in crate::ops::encode) enum HiddenStates {
    F32(RowBuffer),
    /// Rounded: only a GEMM reads it.
    Bf16(Bf16Rows),
}

impl HiddenStates {
    pub(super) fn numbers(&self) -> Result<&RowBuffer, OpError> {
        match self {
            Self::F32(rows) => Ok(rows),
            Self::Bf16(_) => super::unexpected_weight("f32 hidden states"),
        }
    }

    pub(super) fn into_numbers(self) -> Result<RowBuffer, OpError> {
        match self {
            Self::F32(rows) => Ok(rows),
            Self::Bf16(_) => super::unexpected_weight("f32 hidden states"),
        }
    }

    pub(super) fn numbers_mut(&mut self) -> Result<&mut RowBuffer, OpError> {
        match self {
            Self::F32(rows) => Ok(rows),
            Self::Bf16(_) => super::unexpected_weight("f32 hidden states"),
        }
    }
}

/// An f32 matrix in a recycled buffer.
pub(in crate::ops::encode) struct RowBuffer {
    /// At least `count` long.
    numbers: Vec<f32>,
    count: usize,
    width: usize,
}

impl RowBuffer {
    /// Uninitialised rows: the caller writes all of them before it reads any.
    pub(super) fn new(rows: usize, width: usize) -> Self {
        let mut numbers = FREE.with_borrow_mut(Vec::pop).unwrap_or_default();
        if numbers.len() < rows * width {
            numbers.resize(rows * width, 0.0);
        }
        Self { numbers, count: rows * width, width }
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn numbers(&self) -> &[f32] {
        &self.numbers[..self.count]
    }

    pub(super) fn numbers_mut(&mut self) -> &mut [f32] {
        &mut self.numbers[..self.count]
    }
}

impl Drop for RowBuffer {
    fn drop(&mut self) {
        let numbers = std::mem::take(&mut self.numbers);
        if numbers.capacity() <= MAX_FREE_CAPACITY {
            FREE.with_borrow_mut(|free| {
                if free.len() < MAX_FREE_BUFFERS {
                    free.push(numbers);
                }
            });
        }
    }
}
