//! Which kernel reduces a space, and how its threads are laid out. Only shape, strides and alignment decide, so that the order of a sum
//! does not depend on the device.

use super::{
    super::{buffers::Address, dims::Dim},
    space::{Space, elements},
    state::State,
};

/// Threads of a block.
pub(super) const THREADS: usize = 256;
const WARP: usize = 32;
/// Bytes of the widest access to memory.
const PACK_BYTES: usize = 16;
/// Elements of a vector along kept dimensions, each of which has a state of its own.
const MAX_COLUMN_VEC: usize = 4;
/// Blocks that fill a device. Fewer are split along the reduced dimensions.
pub(super) const TARGET_BLOCKS: usize = 1024;
/// The same for columns, whose blocks take more registers: several waves of them, so that the last one is a small part.
const TARGET_COLUMN_BLOCKS: usize = 4096;
/// Rows from which on one warp reduces a row of medium length.
const MANY_ROWS: usize = 4096;
/// The most rounds of one thread that such a row takes.
const MAX_WARP_ROUNDS: usize = 128;
/// The same where merging the states of a block's threads takes longer than reading.
const MAX_WARP_ROUNDS_OF_SLOW_MERGES: usize = 512;
/// Instructions of all copies of the prologue that a thread executes for the reads in flight.
const MAX_INSTRUCTIONS: usize = 512;

/// Along which dimensions neighbouring threads lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Orientation {
    /// The reduced ones.
    Rows,
    /// The kept ones.
    Columns,
}

/// An input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input {
    pub(super) address: Address,
    /// Bytes of an element.
    pub(super) size: usize,
}

/// Constants of a kernel, and its grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variant {
    pub(super) orientation: Orientation,
    /// Elements that a thread reads at once.
    pub(super) vec: usize,
    /// Such reads in flight.
    pub(super) unroll: usize,
    /// Neighbouring threads along the contiguous dimensions.
    pub(super) lanes: usize,
    /// True if positions need 64 bits.
    pub(super) is_wide: bool,
    /// Blocks along the kept dimensions.
    pub(super) blocks: usize,
    /// Blocks that share a result.
    pub(super) parts: usize,
    /// Reduced elements of each of these.
    pub(super) part: usize,
}

impl Variant {
    pub(super) fn choose(space: &Space, inputs: &[Input], instructions: usize, state: State) -> Self {
        let outer = elements(&space.outer);
        let inner = elements(&space.inner);
        let orientation =
            if space.is_inner_contiguous(inputs.len()) { Orientation::Rows } else { Orientation::Columns };
        let vec = vector(space, inputs, orientation);
        let in_flight = match (vec, orientation) {
            (1, _) => 8,
            (2 | 4, _) | (_, Orientation::Columns) => 4,
            _ => 2,
        };
        let in_flight = if inputs.len() > 2 { in_flight / 2 } else { in_flight };
        let unroll = in_flight.min(floor_power_of_two(MAX_INSTRUCTIONS / (vec * instructions.max(1))));
        let lanes = match orientation {
            Orientation::Rows => row_lanes(outer, inner.div_ceil(vec * unroll), state),
            Orientation::Columns => column_lanes(outer.div_ceil(vec), inner.div_ceil(unroll)),
        };
        let (blocks, round) = match orientation {
            Orientation::Rows => (outer.div_ceil(THREADS / lanes), lanes * vec * unroll),
            Orientation::Columns => (outer.div_ceil(lanes * vec), THREADS / lanes * unroll),
        };
        let can_split = orientation == Orientation::Columns || lanes == THREADS;
        let parts = if can_split { parts(orientation, blocks, inner, round) } else { 1 };
        let part = inner.div_ceil(parts).next_multiple_of(round).max(round);
        let parts = inner.div_ceil(part).max(1);
        let is_wide = outer.max(inner) > i32::MAX.unsigned_abs() as usize;
        Self { orientation, vec, unroll, lanes, is_wide, blocks, parts, part }
    }
}

/// Threads that share a row, which takes one thread `rounds` rounds.
fn row_lanes(rows: usize, rounds: usize, state: State) -> usize {
    let limit = if state.merges_slowly() { MAX_WARP_ROUNDS_OF_SLOW_MERGES } else { MAX_WARP_ROUNDS };
    match rounds.max(1) {
        rounds @ 1..=WARP => rounds.next_power_of_two(),
        rounds if rows >= MANY_ROWS && rounds <= limit => WARP,
        _ => THREADS,
    }
}

/// Neighbouring threads along `vectors` vectors of columns, whose rows take one thread `rounds` rounds.
fn column_lanes(vectors: usize, rounds: usize) -> usize {
    let sharing = rounds.clamp(1, THREADS / WARP).next_power_of_two();
    (THREADS / sharing).min(vectors.max(1).next_power_of_two())
}

/// Into how many blocks the reduced elements are split, of at least two rounds each.
fn parts(orientation: Orientation, blocks: usize, inner: usize, round: usize) -> usize {
    let target = match orientation {
        Orientation::Rows => TARGET_BLOCKS,
        Orientation::Columns => TARGET_COLUMN_BLOCKS,
    };
    if blocks > target / 2 { 1 } else { (target / blocks.max(1)).min(inner / (2 * round)).max(1) }
}

/// The most elements along the contiguous dimension that all inputs can read at once.
fn vector(space: &Space, inputs: &[Input], orientation: Orientation) -> usize {
    let dims = match orientation {
        Orientation::Rows => &space.inner,
        Orientation::Columns => &space.outer,
    };
    let widest = inputs.iter().map(|input| input.size).max();
    let (Some(last), Some(widest)) = (dims.last(), widest) else { return 1 };
    let strides = &last.strides[..inputs.len()];
    if !strides.contains(&1) || strides.iter().any(|stride| !matches!(stride, 0 | 1)) {
        return 1;
    }
    let others: Vec<_> = space.outer.iter().chain(&space.inner).filter(|dim| !std::ptr::eq(*dim, last)).collect();
    // Rows in one piece may end with less than a vector.
    let may_end_early = orientation == Orientation::Rows && dims.len() == 1;
    let fits = |vec: &usize| {
        let is_aligned = |(nth, input): (usize, &Input)| {
            let steps = |dim: &&Dim| dim.strides[nth].unsigned_abs().is_multiple_of(*vec);
            strides[nth] == 0 || (input.address.is_aligned(vec * input.size) && others.iter().all(steps))
        };
        (may_end_early || last.extent.is_multiple_of(*vec)) && inputs.iter().enumerate().all(is_aligned)
    };
    let limit = match orientation {
        Orientation::Rows => PACK_BYTES / widest,
        Orientation::Columns => (PACK_BYTES / widest).min(MAX_COLUMN_VEC),
    };
    [16, 8, 4, 2].into_iter().filter(|vec| *vec <= limit.min(last.extent)).find(fits).unwrap_or(1)
}

fn floor_power_of_two(x: usize) -> usize {
    1 << x.max(1).ilog2()
}

#[cfg(test)]
mod tests {
    use accelerd_tensor::{Location, Reduction};

    use super::{super::space::Order, Orientation::*, *};

    /// An input of elements of `size` bytes that begins at this byte.
    fn input(offset: usize, size: usize) -> Input {
        Input { address: Address::In(Location::Input(0), offset), size }
    }

    /// The variant for a contiguous matrix of elements of `size` bytes, reduced along one of its dimensions.
    fn matrix(outer: usize, inner: usize, orientation: Orientation, size: usize) -> Variant {
        matrix_of(outer, inner, orientation, size, State::Of(Reduction::Sum))
    }

    fn matrix_of(outer: usize, inner: usize, orientation: Orientation, size: usize, state: State) -> Variant {
        let strides = match orientation {
            Rows => [inner.cast_signed(), 1],
            Columns => [1, outer.cast_signed()],
        };
        let space = Space::new(&[outer], &[inner], &[&strides], &[1], Order::Free);
        Variant::choose(&space, &[input(0, size)], 1, state)
    }

    #[test]
    fn rows_take_as_many_threads_as_they_have_rounds() {
        let cases =
            [(3, 4, 1, 4), (64, 4, 4, 4), (1024, 4, 32, 4), (2048, 4, 32, 4), (4096, 4, 256, 4), (4096, 2, 256, 8)];
        for (inner, size, lanes, vec) in cases {
            let variant = matrix(16384, inner, Rows, size);
            assert_eq!((variant.orientation, variant.lanes, variant.parts), (Rows, lanes, 1), "{inner} {variant:?}");
            assert_eq!(variant.vec, if inner.is_multiple_of(vec) { vec } else { 1 }, "{inner} of {size} bytes");
            assert_eq!(variant.blocks, 16384 / (THREADS / lanes));
        }
        assert_eq!(matrix(100, 1024, Rows, 4).lanes, THREADS, "few rows leave the threads of a block to each");
        let of_slow_merges = |columns| matrix_of(16384, columns, Rows, 4, State::ArgMax).lanes;
        assert_eq!(
            (of_slow_merges(4096), of_slow_merges(16384)),
            (32, THREADS),
            "a block has eight times as many merges"
        );
    }

    #[test]
    fn few_long_rows_are_split_in_whole_rounds() {
        for (outer, inner) in [(1, 128 << 20), (1, 1_000_003), (3, 5_000_001), (7, 99_999), (511, 40_000)] {
            let variant = matrix(outer, inner, Rows, 4);
            let Variant { part, parts, lanes, vec, unroll, .. } = variant;
            assert!(parts > 1 && variant.blocks * parts <= TARGET_BLOCKS, "{outer} x {inner}: {variant:?}");
            assert!(part.is_multiple_of(lanes * vec * unroll) && part * parts >= inner && part * (parts - 1) < inner);
        }
        assert_eq!(matrix(1, 128 << 20, Rows, 4).parts, TARGET_BLOCKS);
        assert_eq!(matrix(1, 4096, Rows, 4).parts, 1);
    }

    #[test]
    fn columns_are_split_until_they_fill_a_device() {
        let variant = matrix(4096, 16384, Columns, 4);
        assert_eq!((variant.orientation, variant.vec, variant.lanes), (Columns, 4, 32));
        assert_eq!((variant.blocks, variant.parts, variant.part), (32, 128, 128));
        assert_eq!(matrix(1 << 20, 512, Columns, 4).parts, 1);
        let narrow = matrix(3, 1 << 20, Columns, 4);
        assert_eq!((narrow.vec, narrow.lanes, narrow.blocks), (1, 4, 1));
        let flat = matrix(1 << 20, 2, Columns, 4);
        assert_eq!((flat.lanes, flat.parts), (256, 1));
    }

    #[test]
    fn vectors_need_alignment_of_every_row() {
        let variant = |outer: [isize; 2], offset, inner: usize| {
            let space = Space::new(&[64], &[inner], &[&outer], &[1], Order::Free);
            Variant::choose(&space, &[input(offset, 4)], 1, State::Of(Reduction::Sum)).vec
        };
        assert_eq!(variant([1024, 1], 0, 1000), 4);
        assert_eq!(variant([1026, 1], 0, 1000), 2);
        assert_eq!(variant([1001, 1], 0, 1001), 1);
        assert_eq!(variant([1024, 1], 4, 1000), 1);
        assert_eq!(variant([1024, 1], 0, 1001), 4, "the row ends with less than a vector");
        assert_eq!(variant([2000, 2], 0, 1000), 1);
        assert_eq!(variant([1024, -1], 0, 1000), 1);
    }

    #[test]
    fn long_prologues_are_not_copied_often() {
        let space = Space::new(&[16384], &[4096], &[&[4096, 1]], &[1], Order::Free);
        let input = input(0, 4);
        assert_eq!(Variant::choose(&space, &[input], 256, State::Of(Reduction::Sum)).unroll, 1);
        assert_eq!(Variant::choose(&space, &[input], 30, State::Of(Reduction::Sum)).unroll, 4);
    }

    #[test]
    fn an_empty_reduction_still_has_threads_for_its_results() {
        for orientation in [Rows, Columns] {
            let Variant { orientation, blocks, lanes, vec, parts, .. } = matrix(100, 0, orientation, 4);
            let results = if orientation == Rows { THREADS / lanes } else { lanes * vec };
            assert!(parts == 1 && blocks * results >= 100, "{blocks} blocks of {results}");
        }
        assert!(matrix(1, 1 << 31, Rows, 1).is_wide);
    }
}
