//! Elementwise steps.

use std::ops::Range;

use accelerd_tensor::{Dtype, MapStep, View};

use super::{
    buffer::HUGE_PAGE,
    memory::{Memory, Operand},
    program::Program,
    region::{Region, Tile},
};
use crate::{
    OpError,
    cpu::{
        Worker,
        slices::{READ_COST, SLICE},
    },
    op::product,
};

pub(super) fn run(step: &MapStep, memory: &Memory<'_>, worker: &Worker) -> Result<(), OpError> {
    let shape = step.shape.as_slice();
    let operands = memory.operands(&of_shape(&step.inputs, shape), &of_shape(&step.outputs, shape), true)?;
    let program = Program::new(&step.function);
    let params: Vec<_> = operands.inputs.iter().map(|operand| operand.dtype).collect();
    check_types(&program, &params, &operands.outputs)?;
    if operands.outputs.is_empty() || shape.contains(&0) {
        return Ok(());
    }
    let all: Vec<&Operand> = operands.inputs.iter().chain(&operands.outputs).collect();
    let regions = Region::elementwise(&all, operands.inputs.len());
    let cost = program.cost() + READ_COST / 4 * all.len() as u64;
    let chunk = chunk_len(&operands.outputs, shape.iter().product(), worker.pool().threads(), cost)
        .next_multiple_of(program.block());
    let chunks_of = |len: usize| (0..len).step_by(chunk).map(move |start| start..(start + chunk).min(len));
    let chunks = regions.iter().flat_map(|region| chunks_of(region.extents().1).map(move |chunk| (region, chunk)));
    let longest = regions.iter().map(|region| region.extents().1).max().unwrap_or(0);
    let work = |registers: &mut _, (region, chunk): (&Region, Range<usize>)| {
        for start in chunk.clone().step_by(program.block()) {
            let tile = Tile { slow: 0..1, fast: start..(start + program.block()).min(chunk.end) };
            // SAFETY: outputs do not overlap inputs but in place, and each tile is of one task.
            let source = unsafe { region.source(&tile, &operands.is_in_place) };
            program.run(registers, tile.len(), &source);
            for nth in 0..operands.outputs.len() {
                let result = program.result(nth, registers, tile.len(), &source);
                // SAFETY: as above, and inputs that are written in place have been copied.
                unsafe { region.store(operands.inputs.len() + nth, &tile, result) };
            }
        }
    };
    worker.for_each_joining(
        chunks,
        |(_, chunk)| product([chunk.len()]).saturating_mul(cost),
        || program.registers(longest.min(program.block())),
        work,
    )
}

/// The elements of a chunk: those of a huge page of the output, which would be zeroed twice if two threads touched it first at a time,
/// but no more than a sixteenth of a slice, nor than leaves each thread a few.
fn chunk_len(outputs: &[Operand], elements: usize, threads: usize, cost: u64) -> usize {
    let size = outputs.iter().map(|output| output.dtype.size()).max().unwrap_or(1);
    let of_slice = usize::try_from(SLICE / 16 / cost.max(1)).unwrap_or(usize::MAX);
    (HUGE_PAGE / size.max(2)).min(of_slice).min(elements / (4 * threads)).max(1)
}

/// Views and the shape that is expected of them.
pub(super) fn of_shape<'a>(views: &'a [View], shape: &'a [usize]) -> Vec<(&'a View, &'a [usize])> {
    views.iter().map(|view| (view, shape)).collect()
}

/// Checks that a function has parameters of these types, and results of those of the outputs.
pub(super) fn check_types(program: &Program, params: &[Dtype], outputs: &[Operand]) -> Result<(), OpError> {
    let results = (0..program.result_count()).map(|nth| program.result_type(nth));
    if params == program.params() && results.eq(outputs.iter().map(|operand| operand.dtype)) {
        return Ok(());
    }
    Err(OpError::Invalid("the views of a step have other types than its function".to_owned()))
}

/// Cuts a number of elements into ranges of whole blocks that cost about a 64th of a slice, or less, so that threads finish together.
pub(super) fn chunks(len: usize, block: usize, cost: u64) -> impl Iterator<Item = Range<usize>> {
    let maximum = usize::try_from(SLICE / 64 / cost.max(1)).unwrap_or(usize::MAX);
    let chunk = (maximum / block).max(1) * block;
    (0..len).step_by(chunk).map(move |start| start..(start + chunk).min(len))
}
