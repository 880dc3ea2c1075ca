//! Owned memory of an execution.

use crate::{DeviceId, OpError};

#[derive(Clone, Copy, bytemuck::Zeroable, bytemuck::Pod)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Bytes that begin on a cache line. `bytes::Bytes::from_owner` takes it without a copy.
pub(in super::super) struct AlignedBuffer {
    lines: Vec<Line>,
    len: usize,
}

impl AlignedBuffer {
    /// `len` zeros. The kernel provides them when they are first touched.
    pub(in super::super) fn zeros(len: usize) -> Result<Self, OpError> {
        let lines = bytemuck::allocation::try_zeroed_vec(len.div_ceil(64)).map_err(|()| OpError::OutOfMemory {
            device: DeviceId::Cpu,
            requested: len as u64,
            free: 0,
        })?;
        Ok(Self { lines, len })
    }

    /// A copy of bytes of any alignment.
    pub(super) fn copy(bytes: &[u8]) -> Result<Self, OpError> {
        let mut copy = Self::zeros(bytes.len())?;
        copy.bytes_mut().copy_from_slice(bytes);
        Ok(copy)
    }

    pub(in super::super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.len]
    }
}

impl AsRef<[u8]> for AlignedBuffer {
    fn as_ref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.len]
    }
}
