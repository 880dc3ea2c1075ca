//! Memory that grows at its end while its beginning is read.

use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    ptr::NonNull,
};

/// Room for rows and their squared norms. What was written stays as it is until the chunk is dropped.
pub(super) struct Chunk {
    rows: Block<f32>,
    norms: Block<f64>,
    dim: usize,
}

impl Chunk {
    /// Room for `rows` rows of `dim` numbers. The memory is not touched before it is written.
    pub(super) fn new(rows: usize, dim: usize) -> Self {
        Self { rows: Block::new(rows * dim), norms: Block::new(rows), dim }
    }

    /// Rows it has room for.
    pub(super) fn capacity(&self) -> usize {
        self.norms.len
    }

    /// A larger one with the same first `count` rows, which were written.
    pub(super) fn grown(&self, rows: usize, count: usize) -> Self {
        let grown = Self::new(rows, self.dim);
        // SAFETY: nobody else knows the new blocks yet.
        unsafe { grown.rows.write(0, self.rows(count).iter().copied()) };
        // SAFETY: as above.
        unsafe { grown.norms.write(0, self.norms(count).iter().copied()) };
        grown
    }

    /// Bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        self.rows.layout.size() + self.norms.layout.size()
    }

    /// The first `count` rows. [`super::corpus::View`], the only caller, asks for rows that were written and published.
    pub(super) fn rows(&self, count: usize) -> &[f32] {
        // SAFETY: published rows were written before, and the lock they were published under orders the two.
        unsafe { self.rows.first(count * self.dim) }
    }

    /// The squared norms of the first `count` rows, likewise.
    pub(super) fn norms(&self, count: usize) -> &[f64] {
        // SAFETY: as above.
        unsafe { self.norms.first(count) }
    }

    /// Writes whole rows from row `at` on, and their norms.
    /// # Safety
    /// Nobody reads these rows before this returned, nobody else writes them, and they were not written before.
    pub(super) unsafe fn write(&self, at: usize, rows: &[f32], squared_norm: impl Fn(&[f32]) -> f64) {
        // SAFETY: the caller's; rows and norms have the same row numbers.
        unsafe { self.rows.write(at * self.dim, rows.iter().copied()) };
        let norms = rows.chunks_exact(self.dim).map(squared_norm);
        // SAFETY: likewise.
        unsafe { self.norms.write(at, norms) };
    }
}

/// Memory for `len` numbers, from a cache line on, not yet set.
struct Block<T> {
    at: NonNull<T>,
    len: usize,
    layout: Layout,
}

// SAFETY: numbers that are shared are only read; the one writer's part is not shared. See `Chunk::write`.
unsafe impl<T: Send + Sync> Send for Block<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Block<T> {}

impl<T: Copy> Block<T> {
    fn new(len: usize) -> Self {
        let layout = Layout::array::<T>(len.max(1)).and_then(|layout| layout.align_to(64));
        let layout = layout.expect("a chunk is far smaller than the address space");
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc(layout) };
        let Some(at) = NonNull::new(memory.cast()) else { handle_alloc_error(layout) };
        Self { at, len, layout }
    }

    /// # Safety
    /// The first `count` were written, and will not be written again.
    unsafe fn first(&self, count: usize) -> &[T] {
        assert!(count <= self.len);
        // SAFETY: inside the block by the assertion, set and unchanging by the caller.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), count) }
    }

    /// # Safety
    /// Nobody reads or writes the places meanwhile, and no slice of [`Self::first`] covers them.
    unsafe fn write(&self, at: usize, values: impl ExactSizeIterator<Item = T>) {
        assert!(at + values.len() <= self.len);
        for (place, value) in (at..self.len).zip(values) {
            // SAFETY: inside the block by the zip; to ourselves by the caller.
            unsafe { self.at.add(place).write(value) };
        }
    }
}

impl<T> Drop for Block<T> {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and numbers need no drop of their own.
        unsafe { dealloc(self.at.as_ptr().cast(), self.layout) };
    }
}
