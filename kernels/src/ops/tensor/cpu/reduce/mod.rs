//! Reductions.
//!
//! The values of a row are cut into chunks, and chunks into blocks, by shape and layout alone. Blocks are combined pairwise to the state of
//! a chunk, and chunks to that of a row, so results do not depend on the distribution over threads. Chunks are combined while later ones are
//! computed: few states exist at a time, however many values a row has. A broadcast view has more of them than memory.

use std::ops::Range;

use accelerd_tensor::{ArgReduction, Dtype, ReduceStep, scalar::Function};

use super::{
    map::{check_types, chunks, of_shape},
    memory::{Memory, Operand},
    program::{Program, Registers, Source},
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

mod reducer;

use reducer::{Reducer, arg_reducer, reducer};

/// Distance of the values of a row in memory, in bytes, from which several rows are read at a time.
const FAR: usize = 64;
/// Values of a row that are read at a time if they are far apart.
const FAR_BLOCK: usize = 64;
/// Rows that are added value by value are at most this long, or far apart.
const MAX_SHORT_ROW: usize = 32;
/// Values that are added one after the other, before the sums are combined pairwise.
const RUN: usize = 128;
/// Blocks or runs of a chunk.
const CHUNK: usize = 64;
/// Values that are read at a time where nothing is computed first: by reductions that select one of them, and of columns.
const SELECTED: usize = 8192;
const SUMMED_COLUMNS: usize = 4096;
/// Bytes of the states of chunks that are computed before they are combined, unless each thread has but a few chunks.
const PENDING_BYTES: usize = 4 << 20;
/// The bytes that a small state takes with its allocation.
const MIN_STATE_BYTES: usize = 64;

pub(super) fn run(step: &ReduceStep, memory: &Memory<'_>, worker: &Worker) -> Result<(), OpError> {
    let shape = [step.outer.as_slice(), &step.inner].concat();
    let operands = memory.operands(&of_shape(&step.inputs, &shape), &[(&step.output, &step.outer)], false)?;
    let reducer = reducer(step.reduction, step.accumulate).ok_or_else(|| {
        OpError::Invalid(format!("{:?} does not reduce values of type {}", step.reduction, step.accumulate))
    })?;
    let pass = ReductionPass {
        prologue: Program::new(&step.prologue),
        epilogue: Program::new(&step.epilogue),
        reducer: &*reducer,
        inputs: &operands.inputs,
        output: &operands.outputs[0],
        inner_rank: step.inner.len(),
        shape: &shape,
    };
    if pass.prologue.result_count() != 1 || pass.prologue.result_type(0) != step.accumulate {
        return Err(OpError::Invalid(format!("a prologue has one result of type {}", step.accumulate)));
    }
    pass.run(worker)
}

pub(super) fn run_arg(step: &ArgReduction, memory: &Memory<'_>, worker: &Worker) -> Result<(), OpError> {
    let shape = [step.outer.as_slice(), &step.inner].concat();
    let operands = memory.operands(&[(&step.input, &shape)], &[(&step.output, &step.outer)], false)?;
    if step.inner.contains(&0) && !step.outer.contains(&0) {
        return Err(OpError::Invalid("no value is the extreme of none".to_owned()));
    }
    let dtype = step.input.dtype;
    let reducer = arg_reducer(step.is_max, dtype.compute()).expect("a type that functions compute in");
    let pass = ReductionPass {
        prologue: Program::new(&Function::conversion(dtype, dtype.compute())),
        epilogue: Program::new(&Function::conversion(Dtype::I64, Dtype::I64)),
        reducer: &*reducer,
        inputs: &operands.inputs,
        output: &operands.outputs[0],
        inner_rank: step.inner.len(),
        shape: &shape,
    };
    pass.run(worker)
}

struct ReductionPass<'a> {
    prologue: Program,
    epilogue: Program,
    reducer: &'a dyn Reducer,
    inputs: &'a [Operand],
    output: &'a Operand,
    /// The last dimensions of `shape` are reduced.
    inner_rank: usize,
    shape: &'a [usize],
}

/// The order in which the iteration space is visited.
struct Schedule {
    region: Region,
    /// True if the reduced dimensions are the slow ones of the region.
    is_columns: bool,
    rows: usize,
    /// Values of a row.
    len: usize,
    /// Rows that are reduced at a time.
    width: usize,
    /// Values of a row that are evaluated at a time.
    block: usize,
    /// Values of a row whose state may be computed by itself.
    chunk: usize,
}

/// States of some rows, aligned.
type States = Vec<u64>;

/// States of consecutive parts, combined in order by a binary tree of which the shape depends on their number alone. Each entry combines a
/// power of two of parts, less than the one before, so there are at most as many as the number has bits.
type Stack = Vec<(u32, States)>;

/// Registers of both functions.
struct ProgramRegisters {
    prologue: Registers,
    epilogue: Registers,
}

impl ReductionPass<'_> {
    fn run(&self, worker: &Worker) -> Result<(), OpError> {
        check_types(&self.epilogue, &[self.reducer.dtype()], std::slice::from_ref(self.output))?;
        let inputs: Vec<_> = self.inputs.iter().map(|operand| operand.dtype).collect();
        if inputs != self.prologue.params() {
            return Err(OpError::Invalid("the inputs of a reduction have other types than its prologue".to_owned()));
        }
        if self.output.shape.contains(&0) {
            return Ok(());
        }
        let schedule = self.schedule(worker.pool().threads());
        let output_region = Region::new(&[self.output], &self.output.shape, 0, false);
        let value_cost = self.prologue.cost() + READ_COST / 4 * (1 + self.inputs.len() as u64);
        let row_cost =
            product([schedule.len]).saturating_mul(value_cost).saturating_add(self.epilogue.cost() + READ_COST);
        let chunk_count = schedule.len.div_ceil(schedule.chunk);
        let tiles = schedule.rows.div_ceil(schedule.width);
        let tile_cost = row_cost.saturating_mul(schedule.width as u64);
        let tile_len = schedule.width * schedule.block;
        let epilogue_len = schedule.width.min(self.epilogue.block());
        let scratch = || ProgramRegisters {
            prologue: self.prologue.registers(tile_len),
            epilogue: self.epilogue.registers(epilogue_len),
        };
        if chunk_count <= 1 || (tiles >= 4 * worker.pool().threads() && tile_cost <= SLICE) {
            let ranges = chunks(schedule.rows, schedule.width, row_cost);
            let work = |scratch: &mut ProgramRegisters, rows: Range<usize>| {
                for start in rows.clone().step_by(schedule.width) {
                    let rows = start..(start + schedule.width).min(rows.end);
                    let chunks = (0..chunk_count).map(|chunk| self.chunk(&schedule, scratch, &rows, chunk));
                    let states = self.pairwise(chunks, rows.len());
                    self.finish(&output_region, scratch, &rows, &states);
                }
            };
            return worker.for_each_joining(
                ranges,
                |rows| product([rows.len()]).saturating_mul(row_cost),
                scratch,
                work,
            );
        }
        let chunk_cost = product([schedule.width, schedule.chunk]).saturating_mul(value_cost);
        self.run_in_groups(&schedule, &output_region, chunk_cost, &scratch, worker)
    }

    /// Computes chunks on all threads, a group at a time, and combines them in order.
    fn run_in_groups(
        &self,
        schedule: &Schedule,
        output: &Region,
        chunk_cost: u64,
        scratch: &(impl Fn() -> ProgramRegisters + Sync + Send),
        worker: &Worker,
    ) -> Result<(), OpError> {
        let chunk_count = schedule.len.div_ceil(schedule.chunk);
        let rows_of = |tile: usize| tile * schedule.width..((tile + 1) * schedule.width).min(schedule.rows);
        let tiles = schedule.rows.div_ceil(schedule.width);
        let mut chunks = (0..tiles).flat_map(|tile| (0..chunk_count).map(move |chunk| (tile, chunk)));
        let group_len = group_len(schedule.width * self.reducer.state_size(), worker.pool().threads());
        let mut stack = Stack::new();
        let mut epilogue_scratch = scratch();
        loop {
            let group: Vec<_> = chunks.by_ref().take(group_len).collect();
            if group.is_empty() {
                return Ok(());
            }
            let compute = |(tile, chunk)| self.chunk(schedule, &mut scratch(), &rows_of(tile), chunk);
            let parts = worker.map_joining(group.clone(), |_| chunk_cost, compute)?;
            for ((tile, chunk), part) in group.into_iter().zip(parts) {
                let rows = rows_of(tile);
                self.push(&mut stack, part, rows.len());
                if chunk + 1 == chunk_count {
                    let states = self.total(std::mem::take(&mut stack), rows.len());
                    self.finish(output, &mut epilogue_scratch, &rows, &states);
                }
            }
        }
    }

    fn schedule(&self, threads: usize) -> Schedule {
        let outer_rank = self.shape.len() - self.inner_rank;
        let elements = |shape: &[usize]| if shape.contains(&0) { 0 } else { shape.iter().product() };
        let (rows, len): (usize, usize) = (elements(&self.shape[..outer_rank]), elements(&self.shape[outer_rank..]));
        let operands: Vec<&Operand> = self.inputs.iter().collect();
        let region = Region::new(&operands, self.shape, outer_rank, false);
        let (within, between) = region.inner_distances();
        let is_far = within >= FAR && between < within;
        let is_identity = self.prologue.is_identity();
        if self.reducer.has_columns() && rows > 1 && (is_far || len <= MAX_SHORT_ROW) {
            let chunk = RUN * CHUNK / 16;
            let is_wide = is_identity && rows.div_ceil(SUMMED_COLUMNS) * len.div_ceil(chunk) >= 4 * threads;
            let limit = if is_wide { SUMMED_COLUMNS } else { self.prologue.block() };
            let width = limit.min(rows).max(1);
            let block = (limit / width).min(len).max(1);
            let region = Region::new(&operands, self.shape, self.inner_rank, true);
            return Schedule { region, is_columns: true, rows, len, width, block, chunk };
        }
        let limit = if is_identity && self.reducer.is_exact() { SELECTED } else { self.prologue.block() };
        let block = if is_far { FAR_BLOCK } else { limit }.min(len).max(1);
        let width = (limit / block).min(rows).max(1);
        Schedule { region, is_columns: false, rows, len, width, block, chunk: block * CHUNK }
    }

    fn states(&self, rows: usize) -> States {
        let mut states = vec![0; (rows * self.reducer.state_size()).div_ceil(8)];
        self.reducer.empty(self.bytes_mut(&mut states, rows));
        states
    }

    fn bytes_mut<'s>(&self, states: &'s mut States, rows: usize) -> &'s mut [u8] {
        &mut bytemuck::cast_slice_mut(states)[..rows * self.reducer.state_size()]
    }

    fn bytes<'s>(&self, states: &'s States, rows: usize) -> &'s [u8] {
        &bytemuck::cast_slice(states)[..rows * self.reducer.state_size()]
    }

    /// Combines states in order; see [`Stack`].
    fn pairwise(&self, parts: impl IntoIterator<Item = States>, rows: usize) -> States {
        let mut stack = Stack::new();
        for part in parts {
            self.push(&mut stack, part, rows);
        }
        self.total(stack, rows)
    }

    fn combine(&self, earlier: &mut States, later: &States, rows: usize) {
        self.reducer.combine(self.bytes_mut(earlier, rows), self.bytes(later, rows));
    }

    /// Adds the states that follow those of the stack.
    fn push(&self, stack: &mut Stack, part: States, rows: usize) {
        let mut level = 0;
        let mut states = part;
        while let Some((_, mut earlier)) = stack.pop_if(|(other, _)| *other == level) {
            self.combine(&mut earlier, &states, rows);
            (level, states) = (level + 1, earlier);
        }
        stack.push((level, states));
    }

    /// The states of all parts.
    fn total(&self, mut stack: Stack, rows: usize) -> States {
        let last = stack.pop().map(|(_, states)| states);
        let all = stack.into_iter().rev().fold(last, |later, (_, mut earlier)| {
            if let Some(later) = &later {
                self.combine(&mut earlier, later, rows);
            }
            Some(earlier)
        });
        all.unwrap_or_else(|| self.states(rows))
    }

    /// The states of a chunk of some rows.
    fn chunk(&self, schedule: &Schedule, scratch: &mut ProgramRegisters, rows: &Range<usize>, chunk: usize) -> States {
        let start = chunk * schedule.chunk;
        let values = start..(start + schedule.chunk).min(schedule.len);
        let step = if schedule.is_columns { RUN } else { schedule.block };
        let parts = values.clone().step_by(step).map(|start| {
            let values = start..(start + step).min(values.end);
            let mut states = self.states(rows.len());
            if schedule.is_columns {
                self.accumulate(schedule, scratch, rows, values, &mut states);
            } else {
                let first = values.start;
                let tile = Tile { slow: rows.clone(), fast: values };
                self.evaluate(&schedule.region, scratch, &tile, |values| {
                    self.reducer.reduce(values, first, self.bytes_mut(&mut states, rows.len()));
                });
            }
            states
        });
        self.pairwise(parts, rows.len())
    }

    /// Adds values to the states of rows, one of each row at a time.
    fn accumulate(
        &self,
        schedule: &Schedule,
        scratch: &mut ProgramRegisters,
        rows: &Range<usize>,
        values: Range<usize>,
        states: &mut States,
    ) {
        for start in values.clone().step_by(schedule.block) {
            let tile = Tile { slow: start..(start + schedule.block).min(values.end), fast: rows.clone() };
            self.evaluate(&schedule.region, scratch, &tile, |values| {
                for values in values.chunks_exact(values.len() / tile.slow.len()) {
                    self.reducer.accumulate(self.bytes_mut(states, rows.len()), values);
                }
            });
        }
    }

    /// Calls `then` with the values of a tile.
    fn evaluate(&self, region: &Region, scratch: &mut ProgramRegisters, tile: &Tile, then: impl FnOnce(&[u8])) {
        // SAFETY: a reduction does not write what it reads.
        let source = unsafe { region.source(tile, &[]) };
        self.prologue.run(&mut scratch.prologue, tile.len(), &source);
        then(self.prologue.result(0, &scratch.prologue, tile.len(), &source));
    }

    /// Writes the results of some rows.
    fn finish(&self, output: &Region, scratch: &mut ProgramRegisters, rows: &Range<usize>, states: &States) {
        let size = self.reducer.dtype().size();
        let mut results = vec![0_u64; (rows.len() * size).div_ceil(8)];
        let results: &mut [u8] = &mut bytemuck::cast_slice_mut(&mut results)[..rows.len() * size];
        self.reducer.finish(self.bytes(states, rows.len()), results);
        for start in (0..rows.len()).step_by(self.epilogue.block()) {
            let len = self.epilogue.block().min(rows.len() - start);
            let source = Results { bytes: &results[start * size..][..len * size], first: rows.start + start };
            self.epilogue.run(&mut scratch.epilogue, len, &source);
            let result = self.epilogue.result(0, &scratch.epilogue, len, &source);
            let tile = Tile { slow: 0..1, fast: source.first..source.first + len };
            // SAFETY: each row is of one task, and the output overlaps no input.
            unsafe { output.store(0, &tile, result) };
        }
    }
}

/// The number of chunks that are computed before they are combined.
fn group_len(state_bytes: usize, threads: usize) -> usize {
    (PENDING_BYTES / state_bytes.max(MIN_STATE_BYTES)).max(4 * threads)
}

/// Computed values as the only parameter of a function; the first is at position `first` of the iteration space.
pub(super) struct Results<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) first: usize,
}

impl Source for Results<'_> {
    fn borrow(&self, _param: usize) -> Option<&[u8]> {
        Some(self.bytes)
    }

    fn load(&self, _param: usize, to: &mut [u8]) {
        to.copy_from_slice(self.bytes);
    }

    #[expect(clippy::cast_possible_wrap, reason = "positions of elements fit i64")]
    fn index(&self, to: &mut [i64]) {
        (self.first..).zip(to).for_each(|(position, to)| *to = position as i64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_pass(run: impl FnOnce(&ReductionPass<'_>)) {
        let reducer = reducer(accelerd_tensor::Reduction::Sum, Dtype::F64).expect("sums of f64");
        let identity = || Program::new(&Function::conversion(Dtype::F64, Dtype::F64));
        let shape = vec![];
        let strides = vec![];
        let output = Operand { base: std::ptr::null_mut(), dtype: Dtype::F64, shape, strides };
        let prologue = identity();
        let epilogue = identity();
        run(&ReductionPass {
            prologue,
            epilogue,
            reducer: &*reducer,
            inputs: &[],
            output: &output,
            inner_rank: 0,
            shape: &[],
        });
    }

    #[test]
    fn few_states_exist_however_many_parts_are_combined() {
        with_pass(|pass| {
            let mut stack = Stack::new();
            for nth in 1..=100_000_u32 {
                pass.push(&mut stack, vec![1.0_f64.to_bits()], 1);
                assert_eq!(stack.len(), nth.count_ones() as usize);
            }
            assert_eq!(pass.total(stack, 1), [100_000.0_f64.to_bits()]);
            assert_eq!(pass.total(Stack::new(), 1), [0.0_f64.to_bits()], "of no part");
        });
    }

    #[test]
    fn pending_states_have_a_bounded_size() {
        for threads in [1, 16, 128] {
            for state_bytes in [8, 24, 16 << 10, 96 << 10] {
                let bytes = group_len(state_bytes, threads) * state_bytes;
                assert!(
                    bytes <= PENDING_BYTES.max(4 * threads * state_bytes),
                    "{threads} threads, {state_bytes} bytes"
                );
            }
        }
        assert_eq!(group_len(8, 16), PENDING_BYTES / MIN_STATE_BYTES);
    }
}
