//! Buffers of f32 aligned to cache lines.

use std::ops::{Deref, DerefMut};

#[derive(Clone, Copy, bytemuck::Zeroable, bytemuck::Pod)]
#[repr(C, align(64))]
struct Line([f32; 16]);

/// A buffer that begins on a cache line and fills whole ones.
pub(crate) struct AlignedF32(Vec<Line>);

impl AlignedF32 {
    /// `len` zeros, rounded up to whole cache lines.
    pub(crate) fn zeros(len: usize) -> Self {
        Self(vec![Line([0.0; 16]); len.div_ceil(16)])
    }

    /// A copy, padded with zeros to at least `len` numbers.
    pub(crate) fn copy(from: &[f32], len: usize) -> Self {
        let mut floats = Self::zeros(len.max(from.len()));
        floats[..from.len()].copy_from_slice(from);
        floats
    }
}

impl Deref for AlignedF32 {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        bytemuck::cast_slice(&self.0)
    }
}

impl DerefMut for AlignedF32 {
    fn deref_mut(&mut self) -> &mut [f32] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}
