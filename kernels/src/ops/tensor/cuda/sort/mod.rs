//! Indices of rows in sorted order.
//!
//! Tiles of a row are sorted in shared memory. A row that is one tile is done then; of a longer one of which few elements are sought,
//! each tile keeps as many, and the kept elements are sorted in tiles again until one tile is left. Other rows are sorted by digits of
//! their keys.

use accelerd_ir::Dtype;
use accelerd_tensor::SortStep;

use super::{
    buffers::{Address, BufferSizes},
    launches::{Argument, Launch, Launches},
    words::{THREADS, launch, word},
};
use crate::OpError;

mod radix;
#[cfg(test)]
mod tests;

/// The most elements of a tile in shared memory.
const MAX_TILE: usize = 2048;
/// The fewest elements of a block, so that each thread has a pair to order.
const MIN_BLOCK: usize = 2 * THREADS;
/// The most elements that tiles keep: each level of tiles leaves at most an eighth.
const MAX_KEPT: usize = MAX_TILE / 8;

/// The launches of a step; none if there is no result.
pub(super) fn prepare(step: &SortStep, sizes: &BufferSizes) -> Result<Launches, OpError> {
    let sort = Sort::new(step, sizes)?;
    match sort {
        Sort { rows: 0, .. } | Sort { count: 0, .. } => Ok(Launches::default()),
        Sort { columns: ..=MAX_TILE, .. } | Sort { count: ..=MAX_KEPT, .. } => sort.by_tiles(),
        _ => sort.by_digits(),
    }
}

/// A checked step.
struct Sort<'a> {
    step: &'a SortStep,
    input: Address,
    output: Address,
    rows: usize,
    columns: usize,
    count: usize,
}

/// One level of tiles: the elements of a row that they read, and those that they keep.
#[derive(Clone, Copy)]
struct Level {
    columns: usize,
    tiles: usize,
    kept: usize,
}

impl Level {
    fn new(columns: usize, count: usize) -> Self {
        let tiles = columns.div_ceil(MAX_TILE);
        Self { columns, tiles, kept: if tiles == 1 { count } else { count.min(MAX_TILE) } }
    }
}

impl<'a> Sort<'a> {
    fn new(step: &'a SortStep, sizes: &BufferSizes) -> Result<Self, OpError> {
        let invalid = |expected: &str| Err(OpError::Invalid(format!("a sort: expected {expected}")));
        let &[rows, columns] = &step.input.layout.shape[..] else { return invalid("rows") };
        let &[result_rows, count] = &step.output.layout.shape[..] else { return invalid("rows of results") };
        if result_rows != rows || count > columns || columns > SortStep::MAX_COLUMNS || step.output.dtype != Dtype::I64
        {
            return invalid(&format!("i64 for at most all of {:?}", step.input.layout.shape));
        }
        if [&step.input, &step.output].iter().any(|view| view.layout.strides.len() != 2 || !view.layout.is_contiguous())
        {
            return invalid("contiguous rows");
        }
        let input = sizes.address(&step.input)?;
        let output = sizes.address_mut(&step.output)?;
        Ok(Self { step, input, output, rows, columns, count })
    }

    fn by_tiles(&self) -> Result<Launches, OpError> {
        let mut level = Level::new(self.columns, self.count);
        let entry_bytes = 2 * self.key_bytes();
        // Two buffers, which the levels write in turns; the second level has at most as many entries as the first.
        let buffer_bytes = self.rows * level.tiles * level.kept * entry_bytes;
        let [first, second] = [0, buffer_bytes].map(Argument::Workspace);
        let mut launches = vec![];
        let mut from = Argument::Address(self.input);
        let mut to = first;
        while level.tiles > 1 {
            launches.push(self.tiles(level, [from, to])?);
            level = Level::new(level.tiles * level.kept, self.count);
            (from, to) = if launches.len() % 2 == 1 { (first, second) } else { (second, first) };
        }
        let workspace_bytes = match launches.len() {
            0 => 0,
            1 => buffer_bytes,
            _ => 2 * buffer_bytes,
        };
        launches.push(self.tiles(level, [from, Argument::Address(self.output)])?);
        Ok(Launches { launches, workspace_bytes, ..Launches::default() })
    }

    fn tiles(&self, level: Level, [from, to]: [Argument; 2]) -> Result<Launch, OpError> {
        let size = level.columns.next_power_of_two().clamp(2, MAX_TILE);
        let tiles = (MIN_BLOCK / size).max(1);
        let reads_elements = from == Argument::Address(self.input);
        let writes_indices = level.tiles == 1;
        let text = format!(
            "{}constexpr u32 SIZE = {size}, TILES = {tiles};\nconstexpr bool READS_ELEMENTS = {reads_elements}, WRITES_INDICES = \
             {writes_indices};\n#include \"tensor/sort_block.cuh\"\n",
            self.keys(reads_elements)
        );
        let words = [self.rows, level.columns, level.tiles, level.kept].map(word);
        let arguments = [from, to].into_iter().chain(words).collect();
        let blocks = (self.rows * level.tiles).div_ceil(tiles);
        launch("tensor_sort_tiles", "sort_tiles", &text, [blocks, 1], arguments)
    }

    fn key_bytes(&self) -> usize {
        self.step.input.dtype.size().max(4)
    }

    /// The definitions that `tensor/sort_key.cuh` needs. Kernels that read keys are the same for all elements of a size.
    fn keys(&self, reads_elements: bool) -> String {
        let by_key = if self.key_bytes() == 8 { Dtype::U64 } else { Dtype::U32 };
        let dtype = if reads_elements { self.step.input.dtype } else { by_key };
        let element = match dtype.size() {
            1 => "u8",
            2 => "u16",
            4 => "u32",
            _ => "u64",
        };
        let infinite = match dtype {
            Dtype::F16 => 0x7c00,
            Dtype::Bf16 => 0x7f80,
            Dtype::F32 => 0x7f80_0000,
            Dtype::F64 => 0x7ff0_0000_0000_0000_u64,
            Dtype::Bool
            | Dtype::U8
            | Dtype::I8
            | Dtype::U16
            | Dtype::I16
            | Dtype::U32
            | Dtype::I32
            | Dtype::U64
            | Dtype::I64 => 0,
        };
        let key = if self.key_bytes() == 8 { "u64" } else { "u32" };
        format!(
            "#include \"common/common.cuh\"\n\ntypedef {element} Element;\ntypedef {key} Key;\nconstexpr int KEY_BITS = \
             {};\nconstexpr u64 INFINITE = {infinite}ull;\nconstexpr bool IS_BOOL = {}, IS_FLOAT = {}, IS_SIGNED = {}, \
             IS_DESCENDING = {};\n",
            8 * dtype.size(),
            dtype == Dtype::Bool,
            dtype.is_float(),
            dtype.is_signed(),
            reads_elements && self.step.is_descending
        )
    }
}
