//! States of a batch in device memory, and the shelf that their memory goes back to.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use super::kernels::Format;
use crate::{
    OpError,
    cuda::{Buffer, Worker},
};

/// Rows of a tile.
pub(super) const TILE_ROWS: usize = 128;
const TILE_BYTES: usize = 128 * TILE_ROWS;

/// Memory of states that were dropped, for the next ones of the same batch: all of them are used in the order of one
/// stream.
#[derive(Debug)]
pub(super) struct Shelf {
    buffers: RefCell<Vec<Buffer<u8>>>,
    /// Of all buffers, those in use too.
    bytes: Cell<usize>,
    /// Bytes that it may come to.
    most: usize,
}

impl Shelf {
    /// An empty one, which may come to so many bytes.
    pub(super) fn new(most: usize) -> Rc<Self> {
        Rc::new(Self { buffers: RefCell::default(), bytes: Cell::default(), most })
    }

    /// States of `rows` rows of `width` numbers, with anything in them.
    pub(super) fn take(
        self: &Rc<Self>,
        worker: &Worker,
        format: Format,
        rows: usize,
        width: usize,
    ) -> Result<States, OpError> {
        let steps = width.div_ceil(format.columns());
        let bytes = rows.div_ceil(TILE_ROWS) * steps * TILE_BYTES;
        let fitting = self.smallest(bytes);
        let buffer =
            if let Some(at) = fitting { self.buffers.borrow_mut().swap_remove(at) } else { self.alloc(worker, bytes)? };
        let steps = u32::try_from(steps).map_err(|_| OpError::Invalid(format!("rows of {width} numbers")))?;
        Ok(States { buffer: Some(buffer), shelf: Rc::clone(self), format, steps, width })
    }

    fn alloc(&self, worker: &Worker, bytes: usize) -> Result<Buffer<u8>, OpError> {
        let total = self.bytes.get().saturating_add(bytes);
        if total > self.most {
            return Err(OpError::Invalid(format!("states of {total} bytes where {} are allowed", self.most)));
        }
        self.bytes.set(total);
        worker.alloc(bytes)
    }

    /// The smallest buffer that is large enough, and not far too large.
    fn smallest(&self, bytes: usize) -> Option<usize> {
        let shelf = self.buffers.borrow();
        let fits = |(_, buffer): &(usize, &Buffer<u8>)| buffer.len() >= bytes && buffer.len() / 4 <= bytes;
        shelf.iter().enumerate().filter(fits).min_by_key(|(_, buffer)| buffer.len()).map(|(at, _)| at)
    }
}

/// Rows of states in tiles of 128 rows by 128 bytes; `cu/encode.cuh` says how.
#[derive(Debug)]
pub(crate) struct States {
    buffer: Option<Buffer<u8>>,
    shelf: Rc<Shelf>,
    pub(super) format: Format,
    /// Tiles in a row.
    pub(super) steps: u32,
    /// Numbers in a row, without the zeros that fill its last tile.
    pub(super) width: usize,
}

impl States {
    /// Where they lie.
    pub(super) fn address(&self) -> u64 {
        self.buffer().map_or(0, |buffer| buffer.ptr().address())
    }

    /// Bytes of them and of all that came from the same shelf.
    pub(super) fn shelf_bytes(&self) -> usize {
        self.shelf.bytes.get()
    }

    /// Their memory; always there until they are dropped.
    pub(super) fn buffer(&self) -> Option<&Buffer<u8>> {
        self.buffer.as_ref()
    }
}

impl Drop for States {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.shelf.buffers.borrow_mut().push(buffer);
        }
    }
}
