//! The source of the values of rows: elements of the inputs, and a function of them.

use std::ops::Range;

use accelerd_tensor::{Dtype, View, scalar::Function};

use super::{
    cast::cast,
    map::{check_types, chunks},
    memory::Operand,
    number::Number,
    program::{Program, Registers},
    region::{Region, Tile},
    rows::Rows,
};
use crate::{
    OpError,
    cpu::{Worker, slices::READ_COST},
    op::product,
};

/// The rows of one input, or a function of the elements of inputs.
pub(super) enum RowSource {
    /// The elements as they are.
    Input(Rows),
    /// A function of the elements, rounded to `dtype`, the type of its result, before it is converted to that of the numbers.
    Computed { program: Program, region: Region, inputs: usize, dtype: Dtype },
}

/// Memory that one thread needs to read and write rows.
#[derive(Default)]
pub(super) struct RowScratch {
    /// Elements before or after a conversion.
    pub(super) native: Vec<u64>,
    registers: Option<Registers>,
}

/// Bytes of the rows that are computed at a time.
pub(super) fn scratch_bytes(output: &View, threads: usize) -> u64 {
    let &[rows, columns] = &output.layout.shape[..] else { return 0 };
    product([threads.min(rows), columns, output.dtype.compute().size() + output.dtype.size()])
}

impl RowSource {
    /// The rows of which those of `output` are made, and whose type they have.
    pub(super) fn new(inputs: &[Operand], prologue: &Function, output: &Operand) -> Result<Self, OpError> {
        if output.shape.len() != 2 {
            return Err(OpError::Invalid(format!("expected rows and columns, got {:?}", output.shape)));
        }
        let program = Program::new(prologue);
        let params: Vec<_> = inputs.iter().map(|operand| operand.dtype).collect();
        check_types(&program, &params, std::slice::from_ref(output))?;
        if let ([input], true) = (inputs, program.is_identity()) {
            return Ok(Self::Input(Rows::new(input, output.dtype.compute())));
        }
        let region = Region::new(&inputs.iter().collect::<Vec<_>>(), &output.shape, 1, false);
        Ok(Self::Computed { program, region, inputs: inputs.len(), dtype: output.dtype })
    }

    /// The number of rows of this many columns that one block reads and evaluates.
    pub(super) fn rows_at_once(&self, columns: usize) -> usize {
        match self {
            Self::Input(_) => 1,
            Self::Computed { program, .. } => (program.block() / columns).max(1),
        }
    }

    /// An estimate of the work of an element, in multiply-adds.
    pub(super) fn cost(&self) -> u64 {
        match self {
            Self::Input(_) => READ_COST / 4,
            Self::Computed { program, inputs, .. } => program.cost() + READ_COST / 4 * *inputs as u64,
        }
    }

    /// Reads whole rows, at most [`Self::rows_at_once`], as numbers of the type that computes with them.
    ///
    /// # Safety
    /// No one writes these elements meanwhile.
    pub(super) unsafe fn read<T: Number>(
        &self,
        rows: Range<usize>,
        columns: usize,
        to: &mut [T],
        scratch: &mut RowScratch,
    ) {
        match self {
            // SAFETY: the caller promises it.
            Self::Input(input) => unsafe { input.read(rows, 0..columns, to, &mut scratch.native) },
            Self::Computed { program, region, dtype, .. } => {
                let registers = scratch.registers.get_or_insert_with(|| program.registers(program.block()));
                for start in (0..columns).step_by(program.block()) {
                    let tile = Tile { slow: rows.clone(), fast: start..columns.min(start + program.block()) };
                    // SAFETY: the caller promises it.
                    let source = unsafe { region.source(&tile, &[]) };
                    program.run(registers, tile.len(), &source);
                    let values = program.result(0, registers, tile.len(), &source);
                    let to = bytemuck::cast_slice_mut(&mut to[start..][..tile.len()]);
                    cast(*dtype, dtype.compute(), values, to);
                }
            }
        }
    }

    /// Writes what `compute` makes of each row. `cost` is that of an element, in multiply-adds.
    pub(super) fn map_rows<T: Number>(
        &self,
        output: &Operand,
        cost: u64,
        worker: &Worker,
        compute: impl Fn(&mut [T]) + Sync + Send,
    ) -> Result<(), OpError> {
        let [rows, columns] = output.shape[..] else {
            return Err(OpError::Invalid(format!("expected rows and columns, got {:?}", output.shape)));
        };
        if rows == 0 || columns == 0 {
            return Ok(());
        }
        let writer = Rows::new(output, output.dtype.compute());
        let at_once = self.rows_at_once(columns);
        let row_cost = product([columns]).saturating_mul(cost + self.cost() + READ_COST / 4);
        let work = |(values, scratch): &mut (Vec<T>, RowScratch), rows: Range<usize>| {
            for start in rows.clone().step_by(at_once) {
                let rows = start..rows.end.min(start + at_once);
                values.resize(rows.len() * columns, T::ZERO);
                // SAFETY: outputs overlap no input.
                unsafe { self.read(rows.clone(), columns, values, scratch) };
                values.chunks_exact_mut(columns).for_each(&compute);
                // SAFETY: as above, and each row is of one task.
                unsafe { writer.write(rows, 0..columns, values, &mut scratch.native) };
            }
        };
        let ranges = chunks(rows, at_once, row_cost);
        worker.for_each_joining(
            ranges,
            |rows: &Range<usize>| product([rows.len()]).saturating_mul(row_cost),
            Default::default,
            work,
        )
    }
}
