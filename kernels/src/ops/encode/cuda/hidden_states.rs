//! Hidden states in device memory, and the pool that recycles their buffers within a forward pass.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use crate::{
    OpError,
    cuda::{Buffer, Source, Worker, cu, launch_structs},
    ops::encode::{DType, NormPlacement},
};

impl DType {
    /// The type of the residual. Pre-norm layers add to it throughout the model, and 16 bits would round away what they add.
    pub(super) fn residual(self, norm_placement: NormPlacement) -> Self {
        match norm_placement {
            NormPlacement::PostNorm => self,
            NormPlacement::PreNorm => Self::F32,
        }
    }

    /// Columns of a tile, which is 128 bytes wide.
    pub(super) fn tile_columns(self) -> usize {
        128 / self.bytes()
    }
}

launch_structs! {
    pub(super) header TILED_LAUNCH = "launch/tiled.cuh";

    /// Element types.
    const F32: u32 = 0;
    const F16: u32 = 1;
    const BF16: u32 = 2;

    /// Rows of a tile.
    pub(super) const TILE_ROWS: usize = 128;
    const TILE_BYTES: usize = TILE_ROWS * 128;
}

/// The layout of hidden states and weights; it includes [`TILED_LAUNCH`].
pub(super) const TILED: Source = cu!("common/tiled.cuh");

/// The kernels' code of an element type.
pub(super) fn element_type(dtype: DType) -> u32 {
    match dtype {
        DType::F32 => F32,
        DType::F16 => F16,
        DType::Bf16 => BF16,
    }
}

/// Buffers of dropped tensors, reused by later ones of the same pass. Reuse is safe because one stream orders all uses.
#[derive(Debug)]
pub(super) struct TensorPool {
    buffers: RefCell<Vec<Buffer<u8>>>,
    /// Total size of all buffers, in use or free.
    bytes: Cell<usize>,
    max_bytes: usize,
}

impl TensorPool {
    pub(super) fn new(max_bytes: usize) -> Rc<Self> {
        Rc::new(Self { buffers: RefCell::default(), bytes: Cell::default(), max_bytes })
    }

    /// An uninitialised tensor of `rows` by `width`.
    pub(super) fn take(
        self: &Rc<Self>,
        worker: &Worker,
        dtype: DType,
        rows: usize,
        width: usize,
    ) -> Result<HiddenStates, OpError> {
        let tiles_per_row = width.div_ceil(dtype.tile_columns());
        let bytes = rows.div_ceil(TILE_ROWS) * tiles_per_row * TILE_BYTES;
        let fitting = self.smallest(bytes);
        let buffer = if let Some(index) = fitting {
            self.buffers.borrow_mut().swap_remove(index)
        } else {
            self.alloc(worker, bytes)?
        };
        let tiles_per_row =
            u32::try_from(tiles_per_row).map_err(|_| OpError::Invalid(format!("rows of {width} numbers")))?;
        Ok(HiddenStates { buffer: Some(buffer), pool: Rc::clone(self), dtype, tiles_per_row, width })
    }

    fn alloc(&self, worker: &Worker, bytes: usize) -> Result<Buffer<u8>, OpError> {
        let total = self.bytes.get().saturating_add(bytes);
        if total > self.max_bytes {
            return Err(OpError::Invalid(format!("hidden states need {total} bytes, the limit is {}", self.max_bytes)));
        }
        self.bytes.set(total);
        worker.alloc(bytes)
    }

    /// Best fit: the smallest free buffer of at least `bytes` and at most four times as much.
    fn smallest(&self, bytes: usize) -> Option<usize> {
        let buffers = self.buffers.borrow();
        let fits = |(_, buffer): &(usize, &Buffer<u8>)| buffer.len() >= bytes && buffer.len() / 4 <= bytes;
        buffers.iter().enumerate().filter(fits).min_by_key(|(_, buffer)| buffer.len()).map(|(index, _)| index)
    }
}

/// A tensor in tiles of 128 rows by 128 bytes, as `cu/common/tiled.cuh` lays them out.
#[derive(Debug)]
pub(crate) struct HiddenStates {
    buffer: Option<Buffer<u8>>,
    pool: Rc<TensorPool>,
    pub(super) dtype: DType,
    pub(super) tiles_per_row: u32,
    /// Columns before padding to whole tiles.
    pub(super) width: usize,
}

impl HiddenStates {
    pub(super) fn address(&self) -> u64 {
        self.buffer().map_or(0, |buffer| buffer.ptr().address())
    }

    /// Total bytes of the pool this tensor belongs to.
    pub(super) fn pool_bytes(&self) -> usize {
        self.pool.bytes.get()
    }

    pub(super) fn buffer(&self) -> Option<&Buffer<u8>> {
        self.buffer.as_ref()
    }
}

impl Drop for HiddenStates {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.pool.buffers.borrow_mut().push(buffer);
        }
    }
}
