//! Owned memory of an execution.

use crate::{DeviceId, OpError};

/// Pages of larger buffers are huge, where the system has them: the first touch of a page, which zeroes it, costs more than the
/// arithmetic of an elementwise operation on its 4 KiB.
pub(super) const HUGE_PAGE: usize = 2 << 20;

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
        let mut zeros = Self { lines, len };
        prefer_huge_pages(zeros.bytes_mut());
        Ok(zeros)
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

/// Asks for huge pages where whole ones lie within `bytes`, so that no more memory is used than without.
#[cfg(target_os = "linux")]
fn prefer_huge_pages(bytes: &mut [u8]) {
    let start = bytes.as_mut_ptr();
    let before = start.align_offset(HUGE_PAGE);
    let len = bytes.len().saturating_sub(before) / HUGE_PAGE * HUGE_PAGE;
    if len > 0 {
        // SAFETY: the range lies within `bytes`. The advice changes which pages hold it, and not what they hold. A system that does
        // not know it refuses it, which does no harm.
        unsafe { libc::madvise(start.wrapping_add(before).cast(), len, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn prefer_huge_pages(_: &mut [u8]) {}
