//! State that the launches of one forward pass share, and the declaration and narrowing of kernel parameters.

use std::cell::Cell;

use crate::{
    OpError,
    cuda::{Kernel, Worker},
    ops::encode::DType,
};

/// The worker, the compute type and the rows of the launches of a forward pass.
#[derive(Debug)]
pub(super) struct LaunchContext<'a> {
    pub(super) worker: &'a Worker,
    pub(super) dtype: DType,
    /// Rows of the hidden states.
    pub(super) rows: usize,
    /// True if the previous launch traversed the rows in reverse.
    reverse: Cell<bool>,
}

impl<'a> LaunchContext<'a> {
    pub(super) fn new(worker: &'a Worker, dtype: DType, rows: usize) -> Self {
        Self { worker, dtype, rows, reverse: Cell::new(false) }
    }

    /// Alternates the traversal order of rows, so that each launch first reads what the previous one wrote last and the L2
    /// cache still holds.
    pub(super) fn direction(&self) -> u32 {
        self.reverse.set(!self.reverse.get());
        self.reverse.get().into()
    }
}

/// A kernel whose only parameter is a `T`.
pub(super) const fn kernel<T>(name: &'static str) -> Kernel {
    Kernel { name, params: const { &[size_of::<T>()] } }
}

/// The kernel for a 16-bit type, of those for f16 and bf16.
pub(super) fn kernel_of([f16, bf16]: &[Kernel; 2], dtype: DType) -> Kernel {
    if dtype == DType::F16 { *f16 } else { *bf16 }
}

/// Narrows a size to a 32-bit kernel parameter.
pub(super) fn fit(size: usize) -> Result<u32, OpError> {
    u32::try_from(size).map_err(|_| OpError::Invalid(format!("{size} exceeds the 32 bits of a kernel parameter")))
}
