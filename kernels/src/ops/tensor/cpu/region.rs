//! Iteration spaces: which elements of the operands belong together, and in which order they are visited.
//!
//! A [`Region`] is a product of two groups of dimensions, `slow` and `fast`, each a row-major sequence of positions. A [`Tile`] is a
//! range of both.

use std::{borrow::Cow, ops::Range};

use super::{memory::Operand, program::Source};
use accelerd_tensor::Dtype;

/// Edge of the tiles in which dimensions are visited that are innermost for one operand and not for another.
const EDGE: usize = 32;
/// With fewer elements, everything is in the L1 cache in any order.
const MIN_TILED: usize = 4096;

/// Some of the dimensions of an iteration space, and how the operands lie in them.
#[derive(Clone)]
struct Dim {
    extent: usize,
    /// The stride of each operand, in elements.
    strides: Vec<isize>,
}

/// A part of an iteration space.
pub(super) struct Region {
    slow: Vec<usize>,
    fast: Vec<usize>,
    accesses: Vec<Access>,
    index: Access,
}

/// Where an operand lies in a region. That of the index counts positions and has no memory.
#[derive(Clone)]
struct Access {
    base: *mut u8,
    /// Added to the positions of the index.
    first: isize,
    dtype: Dtype,
    slow: Cow<'static, [isize]>,
    fast: Cow<'static, [isize]>,
    /// True if a range of `fast` is adjacent in memory.
    is_dense: bool,
}

// SAFETY: as for `Operand`, of which it is a copy.
unsafe impl Send for Access {}
// SAFETY: as above.
unsafe impl Sync for Access {}

/// Ranges of positions in the two groups of a region; `fast` varies first.
#[derive(Clone, Debug)]
pub(super) struct Tile {
    pub(super) slow: Range<usize>,
    pub(super) fast: Range<usize>,
}

impl Tile {
    pub(super) fn len(&self) -> usize {
        self.slow.len() * self.fast.len()
    }
}

impl Region {
    /// The space `shape`, of which `slow` dimensions are slow: the first, or the last if `is_swapped`. The index counts in the order of
    /// the shape.
    pub(super) fn new(operands: &[&Operand], shape: &[usize], slow: usize, is_swapped: bool) -> Self {
        let all = dims(operands, shape);
        let (first, second) = all.split_at(if is_swapped { shape.len() - slow } else { slow });
        let (slow, fast) = if is_swapped { (second, first) } else { (first, second) };
        Self::of_dims(operands, &merged(slow), &merged(fast), &vec![0; operands.len() + 1])
    }

    /// The regions that make up an elementwise space, each with all dimensions in `fast`. The order suits the memory of the operand
    /// `leading`; where another's innermost dimension differs, tiles of both are visited.
    pub(super) fn elementwise(operands: &[&Operand], leading: usize) -> Vec<Self> {
        if operands.iter().all(|operand| operand.is_dense()) {
            return vec![Self::line(operands)];
        }
        let mut order = dims(operands, &operands[0].shape);
        order.sort_by_key(|dim| std::cmp::Reverse(dim.strides[leading].unsigned_abs()));
        let order = merged(&order);
        let offsets = vec![0; operands.len() + 1];
        let elements: usize = order.iter().map(|dim| dim.extent).product();
        let Some(crossing) = crossing(&order, operands.len()).filter(|_| elements >= MIN_TILED) else {
            return vec![Self::of_dims(operands, &[], &order, &offsets)];
        };
        let mut regions = vec![];
        for rows in parts(order[crossing].extent) {
            for columns in parts(order[order.len() - 1].extent) {
                let [row, column] = [&order[crossing], &order[order.len() - 1]];
                let mut all: Vec<Dim> = order[..order.len() - 1].to_vec();
                all.remove(crossing);
                let (row_tiles, rows_of_tile) = split(row, &rows);
                let (column_tiles, columns_of_tile) = split(column, &columns);
                all.extend([row_tiles, column_tiles, rows_of_tile, columns_of_tile]);
                let start = |nth: usize| {
                    row.strides[nth] * rows.start.cast_signed() + column.strides[nth] * columns.start.cast_signed()
                };
                let offsets: Vec<isize> = (0..=operands.len()).map(start).collect();
                regions.push(Self::of_dims(operands, &[], &merged(&all), &offsets));
            }
        }
        regions
    }

    /// All elements of operands that are adjacent in the same order.
    fn line(operands: &[&Operand]) -> Self {
        let access = |base: *mut u8, dtype: Dtype| {
            let slow = Cow::Borrowed(&[][..]);
            let fast = Cow::Borrowed(&[1][..]);
            Access { base, first: 0, dtype, slow, fast, is_dense: true }
        };
        let accesses = operands.iter().map(|operand| access(operand.base, operand.dtype)).collect();
        let index = access(std::ptr::null_mut(), Dtype::I64);
        Self { slow: vec![], fast: vec![operands[0].shape.iter().product()], accesses, index }
    }

    fn of_dims(operands: &[&Operand], slow: &[Dim], fast: &[Dim], offsets: &[isize]) -> Self {
        let extents = |dims: &[Dim]| dims.iter().map(|dim| dim.extent).collect::<Vec<_>>();
        let access = |nth: usize, base: *mut u8, dtype: Dtype| {
            let strides = |dims: &[Dim]| dims.iter().map(|dim| dim.strides[nth]).collect::<Cow<'static, [isize]>>();
            let mut dense = 1;
            let is_dense = fast.iter().rev().all(|dim| {
                let is_next = dim.strides[nth] == dense;
                dense = dense.wrapping_mul(dim.extent.cast_signed());
                is_next
            });
            let first = offsets[nth];
            Access { base, first, dtype, slow: strides(slow), fast: strides(fast), is_dense }
        };
        let accesses =
            operands.iter().enumerate().map(|(nth, operand)| access(nth, operand.base, operand.dtype)).collect();
        let index = access(operands.len(), std::ptr::null_mut(), Dtype::I64);
        Self { slow: extents(slow), fast: extents(fast), accesses, index }
    }

    /// The number of positions of `slow` and of `fast`.
    pub(super) fn extents(&self) -> (usize, usize) {
        (self.slow.iter().product(), self.fast.iter().product())
    }

    /// The distances between neighbours in `fast` and in `slow`, in bytes, for the operand whose distance in `fast` is the largest.
    pub(super) fn inner_distances(&self) -> (usize, usize) {
        let distance = |strides: &[isize], access: &Access| {
            strides.last().map_or(0, |stride| stride.unsigned_abs().saturating_mul(access.dtype.size()))
        };
        let distances =
            self.accesses.iter().map(|access| (distance(&access.fast, access), distance(&access.slow, access)));
        distances.max().unwrap_or_default()
    }

    /// The elements of an operand in a tile, if they are adjacent.
    fn adjacent(&self, operand: usize, tile: &Tile) -> Option<*mut u8> {
        let access = &self.accesses[operand];
        let is_adjacent = (access.is_dense || tile.fast.len() == 1)
            && (tile.slow.len() == 1 || access.slow.len() == 1 && access.slow[0].unsigned_abs() == tile.fast.len())
            && access.slow.iter().all(|stride| *stride >= 0 || tile.slow.len() == 1);
        let offset = || {
            position(&self.slow, &access.slow, tile.slow.start) + position(&self.fast, &access.fast, tile.fast.start)
        };
        is_adjacent.then(|| access.at(offset()))
    }

    fn check(&self, tile: &Tile) {
        let (slow, fast) = self.extents();
        assert!(tile.slow.end <= slow && tile.fast.end <= fast, "{tile:?} of {slow} by {fast}");
    }

    /// Calls `run` with position, number and distance of evenly spaced elements of an access, in the order of a tile.
    fn runs(&self, access: &Access, tile: &Tile, mut run: impl FnMut(isize, usize, isize)) {
        walk(&self.slow, &access.slow, tile.slow.clone(), |row, count, stride| {
            for nth in 0..count {
                let row = row + stride * nth.cast_signed();
                walk(&self.fast, &access.fast, tile.fast.clone(), |index, count, stride| {
                    run(row + index, count, stride);
                });
            }
        });
    }

    /// Copies the elements of a tile of an operand.
    ///
    /// # Safety
    /// No one writes them meanwhile.
    unsafe fn load(&self, operand: usize, tile: &Tile, to: &mut [u8]) {
        match self.accesses[operand].dtype.size() {
            // SAFETY: the caller promises it; and the size is that of the elements.
            1 => unsafe { self.load_sized::<u8>(operand, tile, to) },
            // SAFETY: as above.
            2 => unsafe { self.load_sized::<u16>(operand, tile, to) },
            // SAFETY: as above.
            4 => unsafe { self.load_sized::<u32>(operand, tile, to) },
            // SAFETY: as above.
            _ => unsafe { self.load_sized::<u64>(operand, tile, to) },
        }
        if self.accesses[operand].dtype == Dtype::Bool {
            for byte in to {
                *byte = u8::from(*byte != 0);
            }
        }
    }

    unsafe fn load_sized<T: bytemuck::Pod>(&self, operand: usize, tile: &Tile, to: &mut [u8]) {
        let mut to: &mut [T] = bytemuck::cast_slice_mut(to);
        let access = &self.accesses[operand];
        self.check(tile);
        if let Some(from) = self.adjacent(operand, tile) {
            // SAFETY: as below.
            return unsafe { from.cast::<T>().copy_to_nonoverlapping(to[..tile.len()].as_mut_ptr(), tile.len()) };
        }
        self.runs(access, tile, |index, count, stride| {
            let (run, rest) = std::mem::take(&mut to).split_at_mut(count);
            to = rest;
            let from: *const T = access.at(index).cast();
            match stride {
                // SAFETY: positions of the tile are within the region, those within the operand's view, and that within its buffer.
                0 => run.fill(unsafe { *from }),
                // SAFETY: as above; `run` is memory of the caller alone.
                1 => unsafe { from.copy_to_nonoverlapping(run.as_mut_ptr(), count) },
                _ => {
                    for (nth, to) in run.iter_mut().enumerate() {
                        // SAFETY: as above.
                        *to = unsafe { *from.offset(stride * nth.cast_signed()) };
                    }
                }
            }
        });
    }

    /// Writes the elements of a tile of an operand.
    ///
    /// # Safety
    /// The operand is an output, and no one else reads or writes these elements meanwhile.
    pub(super) unsafe fn store(&self, operand: usize, tile: &Tile, from: &[u8]) {
        match self.accesses[operand].dtype.size() {
            // SAFETY: the caller promises it; and the size is that of the elements.
            1 => unsafe { self.store_sized::<u8>(operand, tile, from) },
            // SAFETY: as above.
            2 => unsafe { self.store_sized::<u16>(operand, tile, from) },
            // SAFETY: as above.
            4 => unsafe { self.store_sized::<u32>(operand, tile, from) },
            // SAFETY: as above.
            _ => unsafe { self.store_sized::<u64>(operand, tile, from) },
        }
    }

    unsafe fn store_sized<T: bytemuck::Pod>(&self, operand: usize, tile: &Tile, from: &[u8]) {
        let mut from: &[T] = bytemuck::cast_slice(from);
        let access = &self.accesses[operand];
        self.check(tile);
        if let Some(to) = self.adjacent(operand, tile) {
            // SAFETY: as in `load_sized`.
            return unsafe { to.cast::<T>().copy_from_nonoverlapping(from[..tile.len()].as_ptr(), tile.len()) };
        }
        self.runs(access, tile, |index, count, stride| {
            let (run, rest) = from.split_at(count);
            from = rest;
            let to: *mut T = access.at(index).cast();
            if stride == 1 {
                // SAFETY: as in `load_sized`.
                unsafe { to.copy_from_nonoverlapping(run.as_ptr(), count) };
                return;
            }
            for (nth, value) in run.iter().enumerate() {
                // SAFETY: as in `load_sized`.
                unsafe { *to.offset(stride * nth.cast_signed()) = *value };
            }
        });
    }

    /// The first operands of a tile as parameters of a function. Those that `is_in_place` names are copied.
    ///
    /// # Safety
    /// No one writes the elements of the tile while the source is used, but for those that are in place, which are not written before
    /// the function is evaluated.
    pub(super) unsafe fn source<'a>(&'a self, tile: &'a Tile, is_in_place: &'a [bool]) -> TileSource<'a> {
        TileSource { region: self, tile, is_in_place }
    }

    /// The elements of a tile where they are, if they are adjacent, in order and of a type that is computed as it is stored.
    ///
    /// # Safety
    /// As [`Self::source`].
    pub(super) unsafe fn borrow(&self, param: usize, tile: &Tile) -> Option<&[u8]> {
        let dtype = self.accesses[param].dtype;
        if dtype == Dtype::Bool || tile.len() == 0 {
            return None;
        }
        let start = self.adjacent(param, tile)?;
        self.check(tile);
        // SAFETY: the elements of a tile are within the operand's view, and no one writes them, as the caller promises.
        Some(unsafe { std::slice::from_raw_parts(start, tile.len() * dtype.size()) })
    }
}

impl Access {
    fn at(&self, position: isize) -> *mut u8 {
        self.base.wrapping_offset((self.first + position) * self.dtype.size().cast_signed())
    }
}

/// See [`Region::source`].
pub(super) struct TileSource<'a> {
    region: &'a Region,
    tile: &'a Tile,
    is_in_place: &'a [bool],
}

impl Source for TileSource<'_> {
    fn borrow(&self, param: usize) -> Option<&[u8]> {
        if self.is_in_place.get(param).is_some_and(|is| *is) {
            return None;
        }
        // SAFETY: the maker of the source promised it.
        unsafe { self.region.borrow(param, self.tile) }
    }

    fn load(&self, param: usize, to: &mut [u8]) {
        // SAFETY: the maker of the source promised it.
        unsafe { self.region.load(param, self.tile, to) }
    }

    fn index(&self, mut to: &mut [i64]) {
        let index = &self.region.index;
        self.region.runs(index, self.tile, |position, count, stride| {
            let (run, rest) = std::mem::take(&mut to).split_at_mut(count);
            to = rest;
            let mut next = (index.first + position) as i64;
            for to in run {
                *to = next;
                next += stride as i64;
            }
        });
    }
}

/// The dimensions of a space of operands, and of its index as the last.
fn dims(operands: &[&Operand], shape: &[usize]) -> Vec<Dim> {
    let mut dims: Vec<Dim> = vec![];
    let mut dense = 1_isize;
    for (nth, &extent) in shape.iter().enumerate().rev() {
        let strides = operands.iter().map(|operand| operand.strides[nth]).chain([dense]).collect();
        dims.push(Dim { extent, strides });
        dense = dense.saturating_mul(extent.cast_signed());
    }
    dims.reverse();
    dims
}

/// The same space in the same order, with neighbours merged that are one dimension for all operands. Products wrap only where there
/// are no elements.
fn merged(dims: &[Dim]) -> Vec<Dim> {
    let mut groups: Vec<Dim> = vec![];
    for dim in dims.iter().filter(|dim| dim.extent != 1) {
        let is_one = |outer: &Dim| {
            outer
                .strides
                .iter()
                .zip(&dim.strides)
                .all(|(outer, inner)| *outer == inner.wrapping_mul(dim.extent.cast_signed()))
        };
        match groups.last_mut() {
            Some(outer) if is_one(outer) => {
                *outer = Dim { extent: outer.extent.wrapping_mul(dim.extent), strides: dim.strides.clone() };
            }
            Some(_) | None => groups.push(dim.clone()),
        }
    }
    groups
}

/// The dimension that is more local than the innermost one for some operand.
fn crossing(order: &[Dim], operands: usize) -> Option<usize> {
    let (last, outer) = order.split_last()?;
    let closest = |of: usize| {
        let distance = |nth: &usize| outer[*nth].strides[of].unsigned_abs();
        let nearer = |nth: &usize| distance(nth) > 0 && distance(nth) < last.strides[of].unsigned_abs();
        (0..outer.len()).filter(nearer).min_by_key(distance)
    };
    let crossing = (0..operands).find_map(closest)?;
    (outer[crossing].extent >= EDGE / 4 && last.extent >= EDGE / 4).then_some(crossing)
}

/// The indices of whole tiles, and the rest.
fn parts(extent: usize) -> impl Iterator<Item = Range<usize>> {
    let whole = extent / EDGE * EDGE;
    [0..whole, whole..extent].into_iter().filter(|part| !part.is_empty())
}

/// A part of a dimension as tiles and indices within a tile.
fn split(dim: &Dim, part: &Range<usize>) -> (Dim, Dim) {
    let edge = part.len().min(EDGE);
    let strides = dim.strides.iter().map(|stride| stride * edge.cast_signed()).collect();
    (Dim { extent: part.len() / edge, strides }, Dim { extent: edge, strides: dim.strides.clone() })
}

/// The position of an operand at a row-major index.
fn position(extents: &[usize], strides: &[isize], mut index: usize) -> isize {
    let mut position = 0;
    for (extent, stride) in extents.iter().zip(strides).rev() {
        position += stride * (index % extent).cast_signed();
        index /= extent;
    }
    position
}

/// Calls `run` with position, number and distance of the elements along the last dimension, for a range of row-major indices.
fn walk(extents: &[usize], strides: &[isize], range: Range<usize>, mut run: impl FnMut(isize, usize, isize)) {
    let (Some((&extent, outer)), Some((&stride, outer_strides))) = (extents.split_last(), strides.split_last()) else {
        return range.for_each(|_| run(0, 1, 0));
    };
    if range.is_empty() {
        return;
    }
    let mut row = range.start / extent;
    let mut column = range.start % extent;
    let mut left = range.len();
    while left > 0 {
        let count = left.min(extent - column);
        let start = position(outer, outer_strides, row) + stride * column.cast_signed();
        run(start, count, stride);
        left -= count;
        (row, column) = (row + 1, 0);
    }
}
