//! Copies between host and device on a worker's stream, and on the device.

use std::{
    mem::MaybeUninit,
    ops::{Bound, RangeBounds},
};

use bytemuck::Pod;
use cudarc::driver::sys;

use super::Worker;
use crate::{
    OpError,
    cuda::memory::{Buffer, DevicePtr},
};

impl Worker {
    /// Copies `from` into the buffer, starting at element `offset`. `from` may be modified after the call.
    pub fn upload<T: Pod>(&self, from: &[T], to: &Buffer<T>, offset: usize) -> Result<(), OpError> {
        self.upload_parts(std::iter::once(from), to, offset).map(drop)
    }

    /// Copies `from` into a new buffer.
    pub fn upload_new<T: Pod>(&self, from: &[T]) -> Result<Buffer<T>, OpError> {
        let buffer = self.alloc(from.len())?;
        self.upload(from, &buffer, 0)?;
        Ok(buffer)
    }

    /// Concatenates slices into the buffer, starting at element `offset`: they are packed in pinned memory, to take as few
    /// copies as possible. Returns the number of elements.
    pub fn upload_parts<'a, T: Pod>(
        &self,
        parts: impl Iterator<Item = &'a [T]>,
        to: &Buffer<T>,
        offset: usize,
    ) -> Result<usize, OpError> {
        self.device().enter()?;
        let Some(capacity) = to.len().checked_sub(offset) else {
            let reason = format!("element {offset} of a buffer of {}", to.len());
            return Err(self.device().failed("upload", &reason));
        };
        let parts = parts.map(bytemuck::cast_slice);
        let capacity = capacity * size_of::<T>();
        let mut staging = self.staging.borrow_mut();
        let sent = staging.upload(self.device(), self.stream.raw(), parts, to.ptr_at(offset).raw, capacity)?;
        Ok(sent / size_of::<T>().max(1))
    }

    /// Copies elements to the host, and waits for them.
    pub fn download<T: Pod>(&self, from: &Buffer<T>, range: impl RangeBounds<usize>) -> Result<Vec<T>, OpError> {
        let (start, end) = self.bounds(from.len(), &range)?;
        let mut out = Vec::with_capacity(end - start);
        self.fetch(from.ptr_at(start), &mut out.spare_capacity_mut()[..end - start])?;
        // SAFETY: `fetch` wrote all of them, and any bytes are a valid `Pod`.
        unsafe { out.set_len(end - start) };
        Ok(out)
    }

    /// Copies elements starting at `offset` into a slice, and waits for them.
    pub fn download_into<T: Pod>(&self, from: &Buffer<T>, offset: usize, out: &mut [T]) -> Result<(), OpError> {
        self.bounds(from.len(), &(offset..offset.saturating_add(out.len())))?;
        // SAFETY: `MaybeUninit<T>` has the layout of `T`, and `fetch` writes only whole, copied elements.
        let out = unsafe { std::slice::from_raw_parts_mut(out.as_mut_ptr().cast::<MaybeUninit<T>>(), out.len()) };
        self.fetch(from.ptr_at(offset), out)
    }

    fn fetch<T: Pod>(&self, from: DevicePtr<T>, out: &mut [MaybeUninit<T>]) -> Result<(), OpError> {
        self.device().enter()?;
        let bytes = size_of_val(out);
        // SAFETY: any bytes are valid as `MaybeUninit<u8>`; only copied bytes are written there.
        let out = unsafe { std::slice::from_raw_parts_mut(out.as_mut_ptr().cast::<MaybeUninit<u8>>(), bytes) };
        self.staging.borrow_mut().download(self.device(), self.stream.raw(), from.raw, out)
    }

    fn bounds(&self, len: usize, range: &impl RangeBounds<usize>) -> Result<(usize, usize), OpError> {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => len,
        };
        let reason = || format!("elements {start}..{end} of a buffer of {len}");
        if start <= end && end <= len { Ok((start, end)) } else { Err(self.device().failed("download", &reason())) }
    }

    /// Copies the first `n` elements of one buffer to the start of another.
    pub fn copy<T: Pod>(&self, from: &Buffer<T>, to: &Buffer<T>, n: usize) -> Result<(), OpError> {
        self.copy_at(from, 0, to, 0, n)
    }

    /// Copies `n` elements on the device.
    pub fn copy_at<T: Pod>(
        &self,
        from: &Buffer<T>,
        from_at: usize,
        to: &Buffer<T>,
        to_at: usize,
        n: usize,
    ) -> Result<(), OpError> {
        self.device().enter()?;
        self.bounds(from.len(), &(from_at..from_at.saturating_add(n)))?;
        self.bounds(to.len(), &(to_at..to_at.saturating_add(n)))?;
        if n == 0 {
            return Ok(());
        }
        let to = to.ptr_at(to_at).raw;
        let from = from.ptr_at(from_at).raw;
        // SAFETY: both buffers own this many bytes there.
        let result = unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, n * size_of::<T>(), self.stream.raw()) };
        self.device().check("copy", result)
    }
}
