//! Append-only memory: writers fill the end while readers read the published part.

use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    ptr::NonNull,
};

/// Rows and their squared norms. Written rows do not change until the chunk is dropped.
pub(super) struct Chunk {
    rows: Block<f32>,
    norms: Block<f64>,
    dim: usize,
}

impl Chunk {
    /// Allocates `rows` rows of `dim` numbers. Memory is not touched before it is written.
    pub(super) fn new(rows: usize, dim: usize) -> Self {
        Self { rows: Block::new(rows * dim), norms: Block::new(rows), dim }
    }

    /// The number of rows allocated.
    pub(super) fn capacity(&self) -> usize {
        self.norms.len
    }

    /// A larger chunk with a copy of the first `count` rows, which were written.
    pub(super) fn grown(&self, rows: usize, count: usize) -> Self {
        let grown = Self::new(rows, self.dim);
        // SAFETY: the new blocks are not shared yet.
        unsafe { grown.rows.write(0, self.rows(count).iter().copied()) };
        // SAFETY: as above.
        unsafe { grown.norms.write(0, self.norms(count).iter().copied()) };
        grown
    }

    /// Bytes that a chunk of `rows` rows allocates.
    pub(super) fn bytes_of(rows: usize, dim: usize) -> usize {
        Block::<f32>::layout(rows * dim).size() + Block::<f64>::layout(rows).size()
    }

    /// Bytes allocated.
    pub(super) fn bytes(&self) -> usize {
        self.rows.layout.size() + self.norms.layout.size()
    }

    /// The first `count` rows. The only caller, `corpus::View`, passes the number of published rows.
    pub(super) fn rows(&self, count: usize) -> &[f32] {
        // SAFETY: rows are written before they are published, and the lock they are published under orders the two.
        unsafe { self.rows.first(count * self.dim) }
    }

    /// The squared norms of the first `count` rows, likewise.
    pub(super) fn norms(&self, count: usize) -> &[f64] {
        // SAFETY: as above.
        unsafe { self.norms.first(count) }
    }

    /// Writes rows and their norms from row `index` on.
    /// # Safety
    /// These rows were not written before, and no other thread reads or writes them during the call.
    pub(super) unsafe fn write(&self, index: usize, rows: &[f32], squared_norm: impl Fn(&[f32]) -> f64) {
        // SAFETY: the caller promises it; rows and norms have the same indices.
        unsafe { self.rows.write(index * self.dim, rows.iter().copied()) };
        let norms = rows.chunks_exact(self.dim).map(squared_norm);
        // SAFETY: as above.
        unsafe { self.norms.write(index, norms) };
    }
}

/// Uninitialised memory for `len` numbers, aligned to a cache line.
struct Block<T> {
    at: NonNull<T>,
    len: usize,
    layout: Layout,
}

// SAFETY: shared numbers are only read; the part being written is not shared. See `Chunk::write`.
unsafe impl<T: Send + Sync> Send for Block<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Block<T> {}

impl<T: Copy> Block<T> {
    fn layout(len: usize) -> Layout {
        let layout = Layout::array::<T>(len.max(1)).and_then(|layout| layout.align_to(64));
        layout.expect("a chunk is far smaller than the address space")
    }

    fn new(len: usize) -> Self {
        let layout = Self::layout(len);
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc(layout) };
        let Some(index) = NonNull::new(memory.cast()) else { handle_alloc_error(layout) };
        Self { at: index, len, layout }
    }

    /// # Safety
    /// The first `count` numbers were written, and are not written again.
    unsafe fn first(&self, count: usize) -> &[T] {
        assert!(count <= self.len);
        // SAFETY: inside the block by the assertion, initialised and immutable by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), count) }
    }

    /// # Safety
    /// No other thread accesses these numbers during the call, and no slice of [`Self::first`] covers them.
    unsafe fn write(&self, index: usize, values: impl ExactSizeIterator<Item = T>) {
        assert!(index + values.len() <= self.len);
        for (place, value) in (index..self.len).zip(values) {
            // SAFETY: inside the block by the zip, exclusive by the caller's promise.
            unsafe { self.at.add(place).write(value) };
        }
    }
}

impl<T> Drop for Block<T> {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; numbers need no drop.
        unsafe { dealloc(self.at.as_ptr().cast(), self.layout) };
    }
}
