//! Numbers in whole cache lines.

use std::ops::{Deref, DerefMut};

/// A cache line.
#[derive(Clone, Copy, bytemuck::Zeroable, bytemuck::Pod)]
#[repr(C, align(64))]
struct Line([f32; 16]);

/// Numbers that begin on a cache line, and fill whole ones.
pub(crate) struct Floats(Vec<Line>);

impl Floats {
    /// At least `len` zeros.
    pub(crate) fn zeros(len: usize) -> Self {
        Self(vec![Line([0.0; 16]); len.div_ceil(16)])
    }

    /// A copy, with zeros behind it up to a length.
    pub(crate) fn copy(from: &[f32], len: usize) -> Self {
        let mut floats = Self::zeros(len.max(from.len()));
        floats[..from.len()].copy_from_slice(from);
        floats
    }
}

impl Deref for Floats {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        bytemuck::cast_slice(&self.0)
    }
}

impl DerefMut for Floats {
    fn deref_mut(&mut self) -> &mut [f32] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}
