//! Products of matrices.
//!
//! The output is cut into tiles, and the common dimension into blocks. Two methods multiply blocks: the crate's GEMM for f32, with
//! the right factor packed once for all rows, and a register tile that is generic over the type, with blocks packed by each task.

use accelerd_tensor::{Accumulate, Dtype, MatMulStep};

use super::{
    memory::{Memory, Operand},
    number::{Number, NumberVisitor, visit_number},
    program::{Program, Registers},
    reduce::Results,
    region::{Region, Tile},
    rows::{Rows, vector},
};
use crate::{OpError, cpu::Worker};

mod packed;
pub(super) mod tiled;

/// Fewer rows do not pay for packing the right factor for the crate's GEMM.
const MIN_PACKED_ROWS: usize = 16;

pub(super) fn run(step: &MatMulStep, memory: &Memory<'_>, worker: &Worker) -> Result<(), OpError> {
    let shape = Shape::of(step)?;
    let Shape { batch, rows, inner, columns } = shape;
    let a_shape = [batch, rows, inner];
    let b_shape = [batch, inner, columns];
    let c_shape = [batch, rows, columns];
    let bias_shape = [columns];
    let mut inputs: Vec<(_, &[usize])> = vec![(&step.a, &a_shape), (&step.b, &b_shape)];
    inputs.extend(step.bias.as_ref().map(|bias| (bias, &bias_shape[..])));
    let operands = memory.operands(&inputs, &[(&step.output, &c_shape)], false)?;
    let output = &operands.outputs[0];
    let epilogue = step.epilogue.as_ref().map(Program::new);
    check_epilogue(epilogue.as_ref(), output.dtype)?;
    let compute = match step.accumulate {
        Accumulate::F32 | Accumulate::Tf32 => Dtype::F32,
        Accumulate::F64 => Dtype::F64,
        Accumulate::Wrapping => step.a.dtype,
    };
    let is_wrapping = step.accumulate == Accumulate::Wrapping;
    let is_fit =
        |dtype: Dtype| if is_wrapping { dtype == step.a.dtype && dtype.is_integer() } else { dtype.is_float() };
    if !operands.inputs.iter().chain([output]).all(|operand| is_fit(operand.dtype)) {
        return Err(OpError::Invalid(format!("a product of {} in {compute}", step.a.dtype)));
    }
    if batch == 0 || rows == 0 || columns == 0 {
        return Ok(());
    }
    let product = MatrixProduct { shape, operands: &operands.inputs, output, epilogue, compute, worker };
    visit_number(compute, product).ok_or_else(|| OpError::Invalid(format!("a product in {compute}")))?
}

/// Checks that an epilogue maps elements of a type to such elements.
pub(super) fn check_epilogue(epilogue: Option<&Program>, dtype: Dtype) -> Result<(), OpError> {
    let fits = |program: &Program| {
        program.params() == [dtype] && program.result_count() == 1 && program.result_type(0) == dtype
    };
    let refused = || OpError::Invalid(format!("an epilogue has a parameter and a result of type {dtype}"));
    epilogue.is_none_or(fits).then_some(()).ok_or_else(refused)
}

#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) batch: usize,
    pub(super) rows: usize,
    pub(super) inner: usize,
    pub(super) columns: usize,
}

impl Shape {
    fn of(step: &MatMulStep) -> Result<Self, OpError> {
        match (&step.a.layout.shape[..], &step.output.layout.shape[..]) {
            (&[_, _, inner], &[batch, rows, columns]) => Ok(Self { batch, rows, inner, columns }),
            other => Err(OpError::Invalid(format!("expected batches of matrices, got {other:?}"))),
        }
    }
}

struct MatrixProduct<'a> {
    shape: Shape,
    /// Left and right factors, and the bias.
    operands: &'a [Operand],
    output: &'a Operand,
    epilogue: Option<Program>,
    compute: Dtype,
    worker: &'a Worker,
}

impl NumberVisitor for MatrixProduct<'_> {
    type Out = Result<(), OpError>;

    fn visit<T: Number>(self) -> Result<(), OpError> {
        let Self { shape, operands, output, epilogue, compute, worker } = self;
        let bias: Option<Vec<T>> = operands.get(2).map(|bias| vector(bias, compute));
        let finish = Finish {
            shape,
            bias,
            epilogue,
            compute,
            dtype: output.dtype,
            output: Region::new(&[output], &output.shape, 2, false),
        };
        let factors = Factors { a: Rows::new(&operands[0], compute), b: Right::new(&operands[1], compute), shape };
        if compute == Dtype::F32 && shape.rows >= MIN_PACKED_ROWS && !packed::exceeds_factor(&operands[1]) {
            let is_shared = operands[1].strides[0] == 0;
            let write = |tile: &mut TileOf<'_, f32>, scratch: &mut _| finish.write(tile, scratch);
            let registers = || finish.scratch();
            return packed::run(&factors, is_shared, &registers, &write, worker);
        }
        tiled::run(&factors, &finish, worker)
    }
}

/// Both factors.
struct Factors {
    a: Rows,
    b: Right,
    shape: Shape,
}

/// The right factor, read along the dimension that is adjacent in memory.
struct Right {
    rows: Rows,
    is_transposed: bool,
}

impl Right {
    fn new(operand: &Operand, compute: Dtype) -> Self {
        let is_transposed = operand.strides[1] == 1 && operand.strides[2] != 1;
        let mut operand = operand.clone();
        if is_transposed {
            operand.shape.swap(1, 2);
            operand.strides.swap(1, 2);
        }
        Self { rows: Rows::new(&operand, compute), is_transposed }
    }
}

/// Sums of a part of the output.
pub(super) struct TileOf<'a, T> {
    /// `[rows, pitch]`.
    pub(super) sums: &'a mut [T],
    pub(super) pitch: usize,
    pub(super) batch: usize,
    pub(super) rows: std::ops::Range<usize>,
    pub(super) columns: std::ops::Range<usize>,
}

/// The operations on the sums before they are written.
pub(super) struct Finish<T> {
    pub(super) shape: Shape,
    /// The bias of each column.
    pub(super) bias: Option<Vec<T>>,
    pub(super) epilogue: Option<Program>,
    pub(super) compute: Dtype,
    pub(super) dtype: Dtype,
    /// A row of results for each of the slow positions.
    pub(super) output: Region,
}

/// Memory for a row of results.
pub(super) struct FinishScratch {
    registers: Option<Registers>,
    results: Vec<u64>,
}

impl<T: Number> Finish<T> {
    pub(super) fn scratch(&self) -> FinishScratch {
        let registers = self.epilogue.as_ref().map(|program| program.registers(program.block()));
        FinishScratch { registers, results: vec![] }
    }

    /// Adds the bias, rounds, applies the epilogue, and writes.
    pub(super) fn write<S: Number>(&self, tile: &mut TileOf<'_, S>, scratch: &mut FinishScratch) {
        let size = self.dtype.size();
        let is_as_is = self.compute == self.dtype;
        if is_as_is && self.bias.is_none() && self.epilogue.is_none() {
            let width = tile.columns.len();
            if tile.pitch > width {
                let rows = 1..tile.rows.len();
                rows.for_each(|row| tile.sums.copy_within(row * tile.pitch..row * tile.pitch + width, row * width));
            }
            let first = tile.batch * self.shape.rows;
            let to = Tile { slow: first + tile.rows.start..first + tile.rows.end, fast: tile.columns.clone() };
            let sums = &tile.sums[..to.len()];
            // SAFETY: each tile of the output is of one task, and it overlaps no input.
            return unsafe { self.output.store(0, &to, bytemuck::cast_slice(sums)) };
        }
        for (row, sums) in tile.rows.clone().zip(tile.sums.chunks_exact_mut(tile.pitch)) {
            let sums: &mut [T] = bytemuck::cast_slice_mut(&mut sums[..tile.columns.len()]);
            if let Some(bias) = &self.bias {
                sums.iter_mut().zip(&bias[tile.columns.clone()]).for_each(|(sum, bias)| *sum = sum.add(*bias));
            }
            let row = tile.batch * self.shape.rows + row;
            if is_as_is {
                self.write_row(row, tile.columns.start, bytemuck::cast_slice(sums), scratch.registers.as_mut());
                continue;
            }
            let bytes = sums.len() * size;
            scratch.results.resize(bytes.div_ceil(8), 0);
            let results: &mut [u8] = &mut bytemuck::cast_slice_mut(&mut scratch.results)[..bytes];
            super::cast::cast(self.compute, self.dtype, bytemuck::cast_slice(sums), results);
            self.write_row(row, tile.columns.start, results, scratch.registers.as_mut());
        }
    }

    fn write_row(&self, row: usize, first: usize, results: &[u8], registers: Option<&mut Registers>) {
        let size = self.dtype.size();
        let tile = |start: usize, bytes: &[u8]| {
            let start = first + start;
            Tile { slow: row..row + 1, fast: start..start + bytes.len() / size }
        };
        let (Some(program), Some(registers)) = (&self.epilogue, registers) else {
            // SAFETY: each tile of the output is of one task, and it overlaps no input.
            return unsafe { self.output.store(0, &tile(0, results), results) };
        };
        for (nth, bytes) in results.chunks(program.block() * size).enumerate() {
            let start = nth * program.block();
            let source = Results { bytes, first: row * self.shape.columns + first + start };
            let len = bytes.len() / size;
            program.run(registers, len, &source);
            let result = program.result(0, registers, len, &source);
            // SAFETY: as above.
            unsafe { self.output.store(0, &tile(start, bytes), result) };
        }
    }
}
