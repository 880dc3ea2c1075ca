//! The iteration of an elementwise step: the parameters of its generated text in addition to the function.

use accelerd_ir::scalar::{Function, Inst};

use super::{
    super::buffers::Address,
    collapse::Collapsed,
    space::{Space, TILE_THREADS, padded},
};

/// The widest access of a thread.
const VECTOR_BYTES: usize = 16;
/// The bytes that a thread reads before it writes, to have enough loads in flight for the bandwidth of the memory.
const BYTES_IN_FLIGHT: usize = 32;
/// Bound of the instructions that are unrolled, beyond which compilation takes longer than unrolling saves.
const MAX_UNROLLED: usize = 1024;
/// Shared memory of a block that every device has.
const SHARED_BYTES: usize = 48 << 10;
/// Extents below this waste most of a tile.
const MIN_TILED: usize = 16;
/// Exclusive bound of 32-bit indices.
const MAX_NARROW: usize = 1 << 31;

/// A view of a step, as far as the kernel depends on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    /// The address of the first element.
    pub(super) address: Address,
    /// Bytes of an element.
    pub(super) size: usize,
    pub(super) is_output: bool,
}

/// The step of a view along the inner dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Access {
    /// To the next element.
    Contiguous,
    /// Not at all.
    Broadcast,
    /// By a stride.
    Strided,
    /// By a stride, but along the rows of a tile to the next element: through shared memory.
    Staged,
}

/// The schedule of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Schedule {
    /// A thread computes vectors of `lanes` elements, `unroll` at once, with 64-bit indices if `is_wide`.
    Vectors { lanes: usize, unroll: usize, is_wide: bool },
    /// A block computes tiles of `edge` rows and columns.
    Tiles { edge: usize },
}

impl Schedule {
    /// Threads of a block. Small blocks of vectors end at different times, which keeps the memory busy.
    pub(super) fn threads(self) -> u32 {
        match self {
            Self::Vectors { .. } => 128,
            Self::Tiles { .. } => TILE_THREADS,
        }
    }
}

/// The parameters of the text in addition to the function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Variant {
    pub(super) rank: usize,
    /// The accesses of the inputs, then of the outputs.
    pub(super) accesses: Vec<Access>,
    pub(super) schedule: Schedule,
}

impl Variant {
    /// Chooses the schedule of a step, none of whose extents is 0; returns the parameters and the strides of the views too.
    pub(super) fn choose(
        collapsed: Collapsed,
        operands: &[Operand],
        function: &Function,
    ) -> (Self, Space, Vec<[i64; 8]>) {
        match Tiling::find(&collapsed, operands) {
            Some(tiling) => tiling.apply(collapsed, operands),
            None => vectors(&collapsed, operands, function),
        }
    }
}

fn access(stride: isize, extent: usize) -> Access {
    match stride {
        _ if extent == 1 => Access::Contiguous,
        1 => Access::Contiguous,
        0 => Access::Broadcast,
        _ => Access::Strided,
    }
}

fn accesses(collapsed: &Collapsed, operands: &[Operand]) -> Vec<Access> {
    let inner = collapsed.extents[collapsed.rank() - 1];
    let access = |(nth, operand): (usize, &Operand)| match access(collapsed.inner_stride(nth), inner) {
        // Only loads are broadcast.
        Access::Broadcast if operand.is_output => Access::Strided,
        access @ (Access::Contiguous | Access::Broadcast | Access::Strided | Access::Staged) => access,
    };
    operands.iter().enumerate().map(access).collect()
}

fn vectors(collapsed: &Collapsed, operands: &[Operand], function: &Function) -> (Variant, Space, Vec<[i64; 8]>) {
    let accesses = accesses(collapsed, operands);
    let weight = weight(function);
    let lanes = lanes(collapsed, operands, &accesses, weight);
    let rank = collapsed.rank();
    let mut extents = collapsed.extents.clone();
    extents[rank - 1] /= lanes;
    let is_wide = rank == 1 || !is_narrow(collapsed);
    let read =
        operands.iter().zip(&accesses).filter(|(operand, access)| !operand.is_output && **access != Access::Broadcast);
    let bytes = lanes * read.map(|(operand, _)| operand.size).sum::<usize>().max(1);
    let limit = (MAX_UNROLLED / (lanes * weight)).clamp(1, if rank == 1 { 8 } else { 4 });
    let unroll = (BYTES_IN_FLIGHT / bytes).clamp(1, limit).next_power_of_two().min(limit);
    let strides = collapsed.strides.iter().map(|strides| padded(strides)).collect();
    let space = Space::new(&extents, collapsed.elements(), !is_wide);
    (Variant { rank, accesses, schedule: Schedule::Vectors { lanes, unroll, is_wide } }, space, strides)
}

/// The elements of a vector: as many as fit the widest access, if every view has them together and aligned.
fn lanes(collapsed: &Collapsed, operands: &[Operand], accesses: &[Access], weight: usize) -> usize {
    if accesses.contains(&Access::Strided) {
        return 1;
    }
    let rank = collapsed.rank();
    let contiguous = || (0..operands.len()).filter(|nth| accesses[*nth] == Access::Contiguous);
    let widest = contiguous().map(|nth| operands[nth].size).max().unwrap_or(VECTOR_BYTES);
    let mut lanes = VECTOR_BYTES / widest;
    let fits = |lanes: usize| {
        let is_aligned = |nth: usize| {
            let bytes = lanes * operands[nth].size;
            let outer = &collapsed.strides[nth][..rank - 1];
            let is_aligned = |stride: &isize| stride.unsigned_abs().is_multiple_of(lanes);
            operands[nth].address.is_aligned(bytes) && outer.iter().all(is_aligned)
        };
        // The kernel computes the rest of a flat space one by one.
        (rank == 1 || collapsed.extents[rank - 1].is_multiple_of(lanes)) && contiguous().all(is_aligned)
    };
    while lanes > 1 && (!fits(lanes) || lanes * weight > MAX_UNROLLED) {
        lanes /= 2;
    }
    lanes
}

/// Returns true if all numbers of vectors, and all offsets from the first elements, are below 2^31.
fn is_narrow(collapsed: &Collapsed) -> bool {
    let reach = |strides: &Vec<isize>| {
        let reaches = strides.iter().zip(&collapsed.extents).map(|(s, e)| s.unsigned_abs().saturating_mul(e - 1));
        reaches.fold(0, usize::saturating_add)
    };
    collapsed.elements() < MAX_NARROW && collapsed.strides.iter().all(|strides| reach(strides) < MAX_NARROW)
}

/// Estimated length of the code of one element.
pub(in super::super) fn weight(function: &Function) -> usize {
    let weight = |inst| match inst {
        Inst::Unary(op, _) => op.code_length(),
        Inst::Binary(op, ..) => op.code_length(),
        Inst::Param(_) | Inst::Index | Inst::Literal(_) | Inst::Select(..) | Inst::Cast(_) => 1,
    };
    function.values().iter().map(|value| weight(value.inst)).sum::<usize>().max(1)
}

/// Square tiles, for inputs that are contiguous along another dimension than the outputs.
struct Tiling {
    /// The dimension along which they are contiguous.
    rows: usize,
    edge: usize,
}

impl Tiling {
    fn find(collapsed: &Collapsed, operands: &[Operand]) -> Option<Self> {
        let last = collapsed.rank().checked_sub(1).filter(|last| *last > 0)?;
        let accesses = accesses(collapsed, operands);
        let outputs = || (0..operands.len()).filter(|nth| operands[*nth].is_output);
        if outputs().any(|nth| accesses[nth] != Access::Contiguous) {
            return None;
        }
        let is_staged = |nth: usize, rows: usize| is_staged(collapsed, operands, &accesses, nth, rows);
        let rows = (0..last).find(|rows| (0..operands.len()).any(|nth| is_staged(nth, *rows)))?;
        let height = collapsed.extents[rows];
        let width = collapsed.extents[last];
        let bytes: usize = (0..operands.len()).filter(|nth| is_staged(*nth, rows)).map(|n| operands[n].size).sum();
        // A row of a tile is padded by an element or 4 bytes.
        let fits = |edge: &usize| bytes * edge * (edge + 4) <= SHARED_BYTES;
        let preferred: &[usize] = if height.min(width) <= 32 { &[32] } else { &[64, 32] };
        let edge = preferred.iter().copied().find(fits)?;
        let batch = collapsed.elements() / (height * width);
        let tiles = batch.checked_mul(height.div_ceil(edge))?.checked_mul(width.div_ceil(edge))?;
        (height >= MIN_TILED && width >= MIN_TILED && tiles < MAX_NARROW).then_some(Self { rows, edge })
    }

    fn apply(self, collapsed: Collapsed, operands: &[Operand]) -> (Variant, Space, Vec<[i64; 8]>) {
        let rank = collapsed.rank();
        let elements = collapsed.elements();
        let mut accesses = accesses(&collapsed, operands);
        for nth in 0..operands.len() {
            if is_staged(&collapsed, operands, &accesses, nth, self.rows) {
                accesses[nth] = Access::Staged;
            }
        }
        let mut with_index = collapsed;
        with_index.strides.push(accelerd_tensor::Layout::contiguous(&with_index.extents).strides);
        let mut moved = with_index.with_rows(self.rows);
        let index_strides = moved.strides.pop().expect("it was pushed above");
        let rows = moved.extents[rank - 2];
        let columns = moved.extents[rank - 1];
        for extent in &mut moved.extents[rank - 2..] {
            *extent = extent.div_ceil(self.edge);
        }
        let mut space = Space::new(&moved.extents, elements, true);
        (space.rows, space.columns) = (rows as u64, columns as u64);
        space.index_strides = padded(&index_strides);
        let strides = moved.strides.iter().map(|strides| padded(strides)).collect();
        (Variant { rank, accesses, schedule: Schedule::Tiles { edge: self.edge } }, space, strides)
    }
}

/// Returns true if an input is contiguous along `rows` alone.
fn is_staged(collapsed: &Collapsed, operands: &[Operand], accesses: &[Access], nth: usize, rows: usize) -> bool {
    !operands[nth].is_output && accesses[nth] == Access::Strided && collapsed.strides[nth][rows] == 1
}

#[cfg(test)]
mod tests {
    use accelerd_ir::{Dtype, scalar::Builder};
    use accelerd_tensor::{Layout, Location};

    use super::*;

    fn copy() -> Function {
        let mut builder = Builder::new(&[Dtype::F32]);
        let value = builder.param(0);
        builder.finish(&[value])
    }

    /// The choice for inputs of these layouts and a contiguous output, of elements of `size` bytes.
    fn choose(inputs: &[Layout], size: usize, output_offset: usize) -> (Variant, Space) {
        let shape = inputs[0].shape.clone();
        let output = Layout::contiguous(&shape);
        let layouts: Vec<_> = inputs.iter().chain([&output]).collect();
        let strides: Vec<_> = layouts.iter().map(|layout| &layout.strides[..]).collect();
        let operands: Vec<_> = (0..layouts.len())
            .map(|nth| {
                let is_output = nth == inputs.len();
                let offset = if is_output { output_offset } else { layouts[nth].offset * size };
                Operand { address: Address::In(Location::Arena(0), offset), size, is_output }
            })
            .collect();
        let (variant, space, _) = Variant::choose(Collapsed::new(&shape, &strides), &operands, &copy());
        (variant, space)
    }

    fn lanes(variant: &Variant) -> usize {
        match variant.schedule {
            Schedule::Vectors { lanes, .. } => lanes,
            Schedule::Tiles { .. } => 0,
        }
    }

    #[test]
    fn contiguous_views_and_scalars_are_accessed_by_vectors() {
        let tensor = Layout::contiguous(&[3, 5, 7]);
        let scalar = Layout::contiguous(&[1]).broadcast(&[3, 5, 7]).expect("broadcasts");
        let (variant, space) = choose(&[tensor, scalar], 4, 256);
        assert_eq!((variant.rank, lanes(&variant)), (1, 4));
        assert_eq!(variant.accesses, [Access::Contiguous, Access::Broadcast, Access::Contiguous]);
        assert_eq!((space.vectors, space.elements), (26, 105), "one element is left");
    }

    #[test]
    fn vectors_shrink_to_the_alignment() {
        let tensor = Layout::contiguous(&[64]);
        for (address, expected) in [(0, 8), (8, 4), (4, 2), (2, 1)] {
            assert_eq!(lanes(&choose(std::slice::from_ref(&tensor), 2, address).0), expected);
        }
        let sliced = Layout::contiguous(&[8, 12]).sliced(1, 2, 8, 1);
        assert_eq!(lanes(&choose(&[sliced], 4, 0).0), 2, "the first element is at 8 bytes");
        let rows = Layout::contiguous(&[6]).broadcast(&[8, 6]).expect("broadcasts");
        assert_eq!(lanes(&choose(&[rows], 4, 0).0), 2, "a row has 3 vectors of 2");
    }

    #[test]
    fn strides_along_the_inner_dimension_are_accessed_by_elements() {
        let every_other = Layout::contiguous(&[64]).sliced(0, 0, 32, 2);
        let (variant, _) = choose(&[every_other], 4, 0);
        assert_eq!((lanes(&variant), &variant.accesses[..]), (1, &[Access::Strided, Access::Contiguous][..]));
    }

    #[test]
    fn transposed_inputs_are_staged_in_tiles() {
        let transposed = Layout::contiguous(&[3, 100, 50]).permuted(&[2, 0, 1]);
        let (variant, space) = choose(std::slice::from_ref(&transposed), 4, 0);
        assert_eq!(variant.schedule, Schedule::Tiles { edge: 64 });
        assert_eq!(variant.accesses, [Access::Staged, Access::Contiguous]);
        assert_eq!((variant.rank, space.rows, space.columns), (2, 50, 300), "the outer dimensions merge");
        let swapped = Layout::contiguous(&[7, 100, 50]).permuted(&[1, 0, 2]);
        assert_eq!(lanes(&choose(&[swapped], 4, 0).0), 2, "the inner dimension stays contiguous");
        let many = vec![transposed; 12];
        assert!(matches!(choose(&many, 8, 0).0.schedule, Schedule::Vectors { .. }), "too much shared memory");
    }

    #[test]
    fn narrow_dimensions_are_not_tiled() {
        let transposed = Layout::contiguous(&[1000, 3]).permuted(&[1, 0]);
        assert_eq!(lanes(&choose(&[transposed], 4, 0).0), 1);
    }

    #[test]
    fn large_offsets_take_64_bit_indices() {
        let is_wide = |rows: usize| {
            let sliced = Layout::contiguous(&[rows, 1 << 20]).sliced(1, 0, 1 << 10, 1);
            matches!(choose(&[sliced], 4, 0).0.schedule, Schedule::Vectors { is_wide: true, .. })
        };
        assert!(!is_wide(1 << 10));
        assert!(is_wide(1 << 12));
    }
}
