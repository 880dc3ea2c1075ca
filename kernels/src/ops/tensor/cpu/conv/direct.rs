//! Convolutions of groups with few output channels: rows of the image, scaled and added.
#![expect(clippy::inline_always, reason = "a kernel is compiled for an instruction set only where it is inlined")]

use std::ops::Range;

use super::{
    super::{
        map::chunks,
        matmul::{FinishScratch, TileOf},
        number::Number,
    },
    Conv,
};
use crate::{
    OpError,
    cpu::{
        Worker,
        simd::{Isa, Lanes, WithSimd},
        slices::READ_COST,
    },
    op::product,
};

/// Columns that are summed at a time, in the L1 cache.
const COLUMNS: usize = 2048;

struct DirectBuffers<T> {
    finish: FinishScratch,
    native: Vec<u64>,
    row: Vec<T>,
    sums: Vec<T>,
}

pub(super) fn run<T: Number>(conv: &Conv<T>, worker: &Worker) -> Result<(), OpError> {
    let extents = &conv.extents;
    let filters = conv.filters(0..extents.out_channels);
    let scratch = || DirectBuffers { finish: conv.finish.scratch(), native: vec![], row: vec![], sums: vec![] };
    let [rows, columns] = extents.output;
    // The rows of all output channels of all images, cut into parts.
    let parts = columns.div_ceil(COLUMNS);
    let count = extents.batch * extents.out_channels * rows * parts;
    let part_cost = product([COLUMNS.min(columns), extents.terms() + 4]).saturating_mul(READ_COST / 4);
    let ranges = chunks(count, 1, part_cost);
    let cost = |range: &Range<usize>| product([range.len()]).saturating_mul(part_cost);
    worker.for_each_joining(ranges, cost, scratch, |scratch, range| {
        for nth in range {
            let line = nth / parts;
            let start = nth % parts * COLUMNS;
            let plane = line / rows;
            let row = line % rows;
            let image = plane / extents.out_channels;
            let channel = plane % extents.out_channels;
            let filter = &filters[channel * extents.terms()..][..extents.terms()];
            let part = start..(start + COLUMNS).min(columns);
            sum(conv, scratch, filter, [image, channel, row], &part);
            let start = row * columns + part.start;
            let rows = channel..channel + 1;
            let columns = start..start + part.len();
            let pitch = part.len();
            let tile = &mut TileOf { sums: &mut scratch.sums, pitch, batch: image, rows, columns };
            conv.finish.write(tile, &mut scratch.finish);
        }
    })
}

/// The sums of some columns of a row of an output channel.
fn sum<T: Number>(
    conv: &Conv<T>,
    scratch: &mut DirectBuffers<T>,
    filter: &[T],
    [image, channel, row]: [usize; 3],
    columns: &Range<usize>,
) {
    let extents = &conv.extents;
    let [height, width] = extents.windows.kernel;
    let DirectBuffers { native, row: read, sums, .. } = scratch;
    sums.clear();
    sums.resize(columns.len(), T::ZERO);
    let span = extents.span(columns);
    read.resize(read.len().max(span.len()), T::ZERO);
    let group = channel / extents.group_outputs();
    let first_channel = image * extents.channels + group * extents.group_channels();
    for (line, weights) in filter.chunks_exact(width).enumerate().filter(|_| !span.is_empty()) {
        let Some(source) = extents.source(0, row, line % height) else { continue };
        conv.read_row(first_channel + line / height, source, span.clone(), &mut read[..span.len()], native);
        for (tap, weight) in weights.iter().enumerate() {
            let inside = extents.inside(columns, tap);
            let Some(source) = extents.source(1, inside.start, tap).filter(|_| !inside.is_empty()) else { continue };
            Isa::best().run(AddScaled {
                sums: &mut sums[inside.start - columns.start..inside.end - columns.start],
                row: &read[source - span.start..span.len()],
                stride: extents.windows.stride[1],
                weight: *weight,
            });
        }
    }
    if let Some(bias) = &conv.bias {
        for sum in sums {
            *sum = sum.add(bias[channel]);
        }
    }
}

/// `sums[i] += weight * row[i * stride]`.
struct AddScaled<'a, T> {
    sums: &'a mut [T],
    row: &'a [T],
    stride: usize,
    weight: T,
}

impl<T: Number> WithSimd for AddScaled<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) {
        let Self { sums, row, stride, weight } = self;
        let add = |(sum, x): (&mut T, &T)| {
            *sum = if L::HAS_FMA { x.mul_add::<true>(weight, *sum) } else { x.mul_add::<false>(weight, *sum) };
        };
        if stride == 1 {
            sums.iter_mut().zip(row).for_each(add);
        } else {
            sums.iter_mut().zip(row.iter().step_by(stride)).for_each(add);
        }
    }
}
