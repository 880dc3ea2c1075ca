//! Convolutions by products of gathered blocks of windows.

use std::ops::Range;

use accelerd_tensor::Dtype;

use super::{
    super::{
        matmul::{
            FinishScratch, TileOf,
            tiled::{INNER, Multiply, TILE_COLUMNS, TILE_ROWS},
        },
        number::Number,
    },
    Conv, Extents,
};
use crate::{
    OpError,
    cpu::{
        Worker,
        gemm::{PackedMatrix, Prefetch},
        simd::Isa,
        slices::SLICE,
    },
    op::product,
};

/// Positions of a block; with [`INNER`] terms it fits the L2 cache.
const POSITIONS: usize = 192;
/// With fewer tasks, or tasks that take long, a task has fewer output channels, and gathers windows that others gather, too: at least
/// [`FEW_CHANNELS`], whole register tiles.
const FEW_TASKS: u64 = 64;
const FEW_CHANNELS: usize = 64;

/// A part of the output: some channels of a group at some positions of an image, which are adjacent in memory.
struct Task {
    image: usize,
    group: usize,
    /// Output channels of the group.
    channels: Range<usize>,
    rows: Range<usize>,
    columns: Range<usize>,
}

impl Task {
    fn positions(&self) -> usize {
        self.rows.len() * self.columns.len()
    }
}

struct GemmBuffers<T> {
    finish: FinishScratch,
    native: Vec<u64>,
    /// Columns of a row of an image.
    row: Vec<T>,
    /// `[terms, positions]`.
    windows: Vec<T>,
    /// The factor of the panels: `[terms]` panels, or the product of a block.
    block: Vec<T>,
    /// `[channels, pitch]`.
    sums: Vec<T>,
}

pub(super) fn run<T: Number>(conv: &Conv<T>, worker: &Worker) -> Result<(), OpError> {
    let extents = &conv.extents;
    let filters = Filters::new(conv);
    let scratch = || GemmBuffers {
        finish: conv.finish.scratch(),
        native: vec![],
        row: vec![],
        windows: vec![],
        block: vec![],
        sums: vec![],
    };
    // Gathering and packing a window's element takes as long as several multiply-adds.
    let cost = |task: &Task| product([task.channels.len() + 16, task.positions(), extents.terms() + 16]);
    worker.for_each_joining(tasks(extents), cost, scratch, |scratch, task| {
        multiply(conv, &filters, &task, scratch);
        finish(conv, &task, scratch);
    })
}

/// Cuts the output into tasks, by its shape alone.
fn tasks(extents: &Extents) -> Vec<Task> {
    let [rows, columns] = extents.output;
    let parts =
        |len: usize, part: usize| (0..len).step_by(part).map(move |index| index..index.saturating_add(part).min(len));
    let rows_of_task = (POSITIONS / columns).max(1);
    let columns_of_task = if rows_of_task > 1 { columns } else { POSITIONS.min(columns) };
    let blocks = rows.div_ceil(rows_of_task) * columns.div_ceil(columns_of_task);
    let is_few = product([extents.batch, extents.groups, blocks]) < FEW_TASKS;
    let maximum = usize::try_from(SLICE / 4 / product([POSITIONS, extents.terms()]).max(1)).unwrap_or(usize::MAX);
    let channels_of_task =
        if is_few { FEW_CHANNELS } else { (maximum / FEW_CHANNELS).max(1).saturating_mul(FEW_CHANNELS) };
    let mut tasks = vec![];
    for image in 0..extents.batch {
        for group in 0..extents.groups {
            for rows in parts(rows, rows_of_task) {
                for columns in parts(columns, columns_of_task) {
                    for channels in parts(extents.group_outputs(), channels_of_task) {
                        tasks.push(Task { image, group, channels, rows: rows.clone(), columns: columns.clone() });
                    }
                }
            }
        }
    }
    tasks
}

/// The filters in blocks of [`INNER`] terms, `[group, block, channels, terms of the block]`.
struct Filters<T> {
    blocks: Vec<T>,
    /// Output channels of a group, in whole register tiles.
    channels: usize,
    terms: usize,
}

impl<T: Number> Filters<T> {
    fn new(conv: &Conv<T>) -> Self {
        let terms = conv.extents.terms();
        let outputs = conv.extents.group_outputs();
        let channels = outputs.next_multiple_of(TILE_ROWS);
        let mut blocks = Vec::with_capacity(conv.extents.groups * channels * terms);
        for group in 0..conv.extents.groups {
            let filters = conv.filters(group * outputs..(group + 1) * outputs);
            for block in inner_blocks(terms) {
                let of_channel = |channel: usize| &filters[channel * terms..][block.clone()];
                (0..outputs).for_each(|channel| blocks.extend_from_slice(of_channel(channel)));
                blocks.resize(blocks.len() + (channels - outputs) * block.len(), T::ZERO);
            }
        }
        Self { blocks, channels, terms }
    }

    /// Rows of a block for some output channels of a group, filled up to whole register tiles.
    fn block(&self, group: usize, block: &Range<usize>, channels: &Range<usize>) -> &[T] {
        let start = self.channels * (group * self.terms + block.start);
        let rows = channels.start..channels.end.next_multiple_of(TILE_ROWS);
        &self.blocks[start + rows.start * block.len()..start + rows.end * block.len()]
    }
}

fn inner_blocks(terms: usize) -> impl Iterator<Item = Range<usize>> {
    (0..terms).step_by(INNER).map(move |index| index..(index + INNER).min(terms))
}

/// Sums the products of a task.
fn multiply<T: Number>(conv: &Conv<T>, filters: &Filters<T>, task: &Task, scratch: &mut GemmBuffers<T>) {
    let positions = task.positions();
    let pitch = positions.next_multiple_of(TILE_COLUMNS);
    let rows = task.channels.len().next_multiple_of(TILE_ROWS);
    scratch.sums.clear();
    scratch.sums.resize(rows * pitch, T::ZERO);
    for block in inner_blocks(conv.extents.terms()) {
        gather(conv, task, &block, scratch);
        let left = filters.block(task.group, &block, &task.channels);
        let GemmBuffers { windows, block: right, sums, .. } = scratch;
        let windows = &windows[..block.len() * positions];
        if conv.finish.compute == Dtype::F32 {
            multiply_f32(left, windows, block.len(), positions, right, sums);
        } else {
            pack(windows, block.len(), positions, right);
            Isa::best().run(Multiply { left, right, sums, inner: block.len(), pitch });
        }
    }
}

/// `sums += left * windows` by the crate's GEMM for f32, whose tiles have the pitch of the sums.
fn multiply_f32<T: Number>(
    left: &[T],
    windows: &[T],
    inner: usize,
    positions: usize,
    products: &mut Vec<T>,
    sums: &mut [T],
) {
    let windows: &[f32] = bytemuck::cast_slice(windows);
    let packed =
        PackedMatrix::of_columns(Isa::best(), inner, positions, |term| &windows[term * positions..][..positions]);
    products.resize(products.len().max(sums.len()), T::ZERO);
    packed.multiply(bytemuck::cast_slice(left), bytemuck::cast_slice_mut(products), Prefetch::None);
    sums.iter_mut().zip(&*products).for_each(|(sum, product)| *sum = sum.add(*product));
}

/// Packs windows to panels of `[INNER, TILE_COLUMNS]`.
fn pack<T: Number>(windows: &[T], inner: usize, positions: usize, panels: &mut Vec<T>) {
    panels.clear();
    panels.resize(positions.div_ceil(TILE_COLUMNS) * INNER * TILE_COLUMNS, T::ZERO);
    for (term, row) in windows.chunks_exact(positions).enumerate().take(inner) {
        for (nth, part) in row.chunks(TILE_COLUMNS).enumerate() {
            panels[(nth * INNER + term) * TILE_COLUMNS..][..part.len()].copy_from_slice(part);
        }
    }
}

/// Gathers the windows of a task for a block of terms, `[terms, positions]`. Terms are ordered by channel, row and column of the filter.
fn gather<T: Number>(conv: &Conv<T>, task: &Task, block: &Range<usize>, scratch: &mut GemmBuffers<T>) {
    let extents = &conv.extents;
    let GemmBuffers { native, row, windows, .. } = scratch;
    let width = extents.windows.kernel[1];
    let positions = task.positions();
    windows.resize(windows.len().max(block.len() * positions), T::ZERO);
    let span = extents.span(&task.columns);
    row.resize(row.len().max(span.len()), T::ZERO);
    let first_channel = task.image * extents.channels + task.group * extents.group_channels();
    // The terms of a row of a filter read the same row of the image.
    let mut term = block.start;
    while term < block.end {
        let line = term / width;
        let end = ((line + 1) * width).min(block.end);
        let channel = line / extents.windows.kernel[0];
        let tap = line % extents.windows.kernel[0];
        for (nth, index) in task.rows.clone().enumerate() {
            let source = extents.source(0, index, tap).filter(|_| !span.is_empty());
            if let Some(source) = source {
                conv.read_row(first_channel + channel, source, span.clone(), &mut row[..span.len()], native);
            }
            for term in term..end {
                let to = (term - block.start) * positions + nth * task.columns.len();
                let to = &mut windows[to..][..task.columns.len()];
                match source {
                    Some(_) => gather_row(extents, &task.columns, term % width, row, span.start, to),
                    None => to.fill(T::ZERO),
                }
            }
        }
        term = end;
    }
}

/// The elements that the windows of some columns have at a position of the kernel. `row` begins at column `first` of the image.
fn gather_row<T: Number>(extents: &Extents, columns: &Range<usize>, tap: usize, row: &[T], first: usize, to: &mut [T]) {
    let inside = extents.inside(columns, tap);
    let (before, rest) = to.split_at_mut(inside.start - columns.start);
    let (within, after) = rest.split_at_mut(inside.len());
    before.fill(T::ZERO);
    after.fill(T::ZERO);
    let Some(source) = extents.source(1, inside.start, tap).filter(|_| !within.is_empty()) else { return };
    let from = &row[source - first..];
    match extents.windows.stride[1] {
        1 => within.copy_from_slice(&from[..within.len()]),
        stride => within.iter_mut().zip(from.iter().step_by(stride)).for_each(|(to, x)| *to = *x),
    }
}

/// Adds the bias, and writes the results.
fn finish<T: Number>(conv: &Conv<T>, task: &Task, scratch: &mut GemmBuffers<T>) {
    let pitch = task.positions().next_multiple_of(TILE_COLUMNS);
    let first = task.group * conv.extents.group_outputs();
    let rows = first + task.channels.start..first + task.channels.end;
    if let Some(bias) = &conv.bias {
        for (sums, bias) in scratch.sums.chunks_exact_mut(pitch).zip(&bias[rows.clone()]) {
            for sum in sums {
                *sum = sum.add(*bias);
            }
        }
    }
    let start = task.rows.start * conv.extents.output[1] + task.columns.start;
    let columns = start..start + task.positions();
    let tile = &mut TileOf { sums: &mut scratch.sums, pitch, batch: task.image, rows, columns };
    conv.finish.write(tile, &mut scratch.finish);
}
