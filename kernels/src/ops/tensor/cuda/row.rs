//! Kernels of rows that are read as a whole: who reads a row, and the text before their templates. Only shape, types and alignment decide,
//! so that the order of a sum does not depend on the device.

use accelerd_ir::{Dtype, scalar::cuda::ctype};
use accelerd_tensor::{RowAccess, View};

use super::{
    headers::HEADERS,
    launches::{Argument, Launch, Launches, blocks_x},
    prelude::NO_FMA,
    row_source::{RowOperand, RowSource},
};
use crate::{
    OpError,
    cuda::{Grid, JitSource},
};

const WARP: usize = 32;
/// Threads of a block whose warps, or parts of warps, read rows of their own.
const SHARED_BLOCK_THREADS: usize = 128;
const MAX_BLOCK_THREADS: usize = 1024;
/// Threads of a block that reads a long row in several rounds.
const LONG_ROW_THREADS: usize = 512;
/// Bytes of the widest access to memory.
const PACK_BYTES: usize = 16;
/// Values of a row in a thread's registers.
const BLOCK_VALUES: usize = 16;
const MAX_VALUES: usize = 32;
/// Long rows from which on one block for each row fills a device.
const MANY_ROWS: usize = 128;
/// Blocks that fewer long rows are split into.
const TARGET_BLOCKS: usize = 512;

/// Constants of a kernel, and its grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowVariant {
    /// Elements that a thread reads at once.
    pub(super) vec: usize,
    /// Such vectors in a thread's registers.
    pub(super) items: usize,
    /// Threads of a row.
    pub(super) lanes: usize,
    pub(super) threads: usize,
    pub(super) extent: RowExtent,
}

/// The part of a row that one block reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowExtent {
    /// All of it, once.
    Registers,
    /// All of it, twice.
    Row,
    /// One of `parts` parts, of `part` columns each, twice.
    Parts { parts: usize, part: usize },
}

impl RowVariant {
    /// For rows of type `dtype` and at least one column.
    pub(super) fn choose(rows: usize, columns: usize, dtype: Dtype, operands: &[RowOperand]) -> Self {
        let vec = vector(columns, operands);
        let vectors = columns / vec;
        // An f64 takes two registers.
        let limit = if dtype == Dtype::F64 { MAX_VALUES / 2 } else { MAX_VALUES };
        if columns <= WARP * limit {
            return Self::in_a_warp(vec, vectors);
        }
        let values = if columns <= MAX_BLOCK_THREADS * BLOCK_VALUES { BLOCK_VALUES } else { limit };
        let items = values / vec;
        let threads = vectors.div_ceil(items).next_multiple_of(WARP);
        if threads <= MAX_BLOCK_THREADS {
            return Self { vec, items, lanes: MAX_BLOCK_THREADS, threads, extent: RowExtent::Registers };
        }
        let items = BLOCK_VALUES / vec;
        let threads = LONG_ROW_THREADS;
        let extent = long_extent(rows, columns, threads * items * vec);
        Self { vec, items, lanes: MAX_BLOCK_THREADS, threads, extent }
    }

    fn in_a_warp(vec: usize, vectors: usize) -> Self {
        let wanted = (MAX_VALUES / 4).div_ceil(vec);
        let lanes = vectors.div_ceil(wanted).next_power_of_two().min(WARP);
        let items = vectors.div_ceil(lanes).next_power_of_two();
        Self { vec, items, lanes, threads: SHARED_BLOCK_THREADS, extent: RowExtent::Registers }
    }

    /// The columns that one block reads.
    pub(super) fn block_columns(&self, columns: usize) -> usize {
        match self.extent {
            RowExtent::Registers | RowExtent::Row => columns,
            RowExtent::Parts { part, .. } => part,
        }
    }

    fn grid(&self, rows: usize) -> Result<Grid, OpError> {
        let parts = match self.extent {
            RowExtent::Registers | RowExtent::Row => 1,
            RowExtent::Parts { parts, .. } => parts,
        };
        let rows = if self.lanes <= WARP { rows.div_ceil(self.threads / self.lanes) } else { rows };
        let parts = u32::try_from(parts).map_err(|e| OpError::Invalid(e.to_string()))?;
        Ok(Grid::xy(blocks_x(rows)?, parts))
    }
}

/// The most elements that can be accessed at once at every multiple of a row of all operands.
fn vector(columns: usize, operands: &[RowOperand]) -> usize {
    let fits = |vec: &usize| {
        let is_pack = |operand: &RowOperand| {
            let bytes = vec * operand.dtype.size();
            bytes <= PACK_BYTES && operand.address.is_aligned(bytes)
        };
        columns.is_multiple_of(*vec) && operands.iter().all(is_pack)
    };
    [8, 4, 2].into_iter().find(fits).unwrap_or(1)
}

/// Splits few long rows in whole rounds of a block.
fn long_extent(rows: usize, columns: usize, round: usize) -> RowExtent {
    if rows >= MANY_ROWS {
        return RowExtent::Row;
    }
    let parts = (TARGET_BLOCKS / rows.max(1)).min(columns / round).max(1);
    let part = columns.div_ceil(parts).next_multiple_of(round);
    RowExtent::Parts { parts: columns.div_ceil(part), part }
}

/// Rows of a source, of which results of the same type are contiguous rows.
pub(super) struct Rows<'a> {
    pub(super) count: usize,
    pub(super) columns: usize,
    pub(super) dtype: Dtype,
    pub(super) source: &'a RowSource<'a>,
    pub(super) variant: RowVariant,
    /// Lines of CUDA C++ that configure the template.
    pub(super) constants: String,
    pub(super) header: &'a str,
}

/// A kernel: its name, the parameters after those of the source in CUDA C++ with their arguments, and the call of the template with `x`, the
/// source.
pub(super) struct RowKernel {
    pub(super) template: &'static str,
    pub(super) params: Vec<(&'static str, Argument)>,
    pub(super) call: String,
}

impl RowKernel {
    pub(super) fn new(template: &'static str, params: &[(&'static str, Argument)], call: &str) -> Self {
        Self { template, params: params.to_vec(), call: call.to_owned() }
    }
}

/// The kernels of the three ways to read a row.
pub(super) struct RowKernels {
    pub(super) registers: RowKernel,
    pub(super) row: RowKernel,
    pub(super) parts: [RowKernel; 2],
    /// Bytes of a part's state.
    pub(super) state_bytes: usize,
}

impl Rows<'_> {
    /// The launches of the kernels that the variant needs.
    pub(super) fn launches(&self, kernels: &RowKernels) -> Result<Launches, OpError> {
        match self.variant.extent {
            RowExtent::Registers => Ok(Launches::one(self.launch(&kernels.registers)?)),
            RowExtent::Row => Ok(Launches::one(self.launch(&kernels.row)?)),
            RowExtent::Parts { parts, .. } => {
                let launches = kernels.parts.iter().map(|kernel| self.launch(kernel)).collect::<Result<_, _>>()?;
                let workspace_bytes = self.count * parts * kernels.state_bytes;
                Ok(Launches { launches, workspace_bytes, ..Launches::default() })
            }
        }
    }

    fn launch(&self, kernel: &RowKernel) -> Result<Launch, OpError> {
        let threads = u32::try_from(self.variant.threads).map_err(|e| OpError::Invalid(e.to_string()))?;
        let params = kernel.params.iter().map(|(param, argument)| ((*param).to_owned(), *argument));
        let (params, arguments): (Vec<_>, Vec<_>) = self.source.params().chain(params).unzip();
        let source = self.jit_source(kernel, &params);
        Ok(Launch::new(source, self.variant.grid(self.count)?, threads, arguments))
    }

    fn jit_source(&self, kernel: &RowKernel, params: &[String]) -> JitSource {
        let RowVariant { vec, items, lanes, .. } = self.variant;
        let element = ctype(self.dtype);
        let compute = ctype(self.dtype.compute());
        let is_stored = self.dtype.compute() != self.dtype;
        let [widen, narrow] = if is_stored {
            [format!("ir::{}_to_f32(x)", self.dtype), format!("ir::f32_to_{}(x)", self.dtype)]
        } else {
            ["x".to_owned(), "x".to_owned()]
        };
        let bounds = if lanes <= WARP { SHARED_BLOCK_THREADS } else { MAX_BLOCK_THREADS };
        let text = format!(
            "#include \"ir/prelude.cuh\"\n\ntypedef {element} Element;\ntypedef {compute} Compute;\n__device__ __forceinline__ \
             Compute widen(Element x) {{ return {widen}; }}\n__device__ __forceinline__ Element narrow(Compute x) {{ return \
             {narrow}; }}\nconstexpr int LANES = {lanes}, VEC = {vec}, ITEMS = {items};\n{}\n{}\n#include \"{}\"\n\nextern \
             \"C\" __global__ void __launch_bounds__({bounds}) {}({}) {{\n    const Source x = {{{}}};\n    {};\n}}\n",
            self.constants,
            self.source.text(vec * items),
            self.header,
            kernel.template,
            params.join(", "),
            self.source.initializer(),
            kernel.call
        );
        JitSource {
            template: kernel.template,
            text,
            headers: HEADERS,
            options: vec![NO_FMA.to_owned()],
            params: vec![8; params.len()],
        }
    }
}

/// Rows and columns of a step's result and inputs. The result is contiguous and of a floating-point type. `name` is the step's in errors.
pub(super) fn check(name: &str, inputs: &[View], output: &View) -> Result<(usize, usize), OpError> {
    let invalid = |expected: &str| OpError::Invalid(format!("{name}: expected {expected}"));
    let [rows, columns] = output.layout.shape[..] else { return Err(invalid("a matrix")) };
    if !output.dtype.is_float() {
        return Err(invalid("an output of a floating-point type"));
    }
    if RowAccess::of(&output.layout) != Some(RowAccess::Rows) {
        return Err(invalid("contiguous rows"));
    }
    if inputs.iter().any(|input| input.layout.shape != output.layout.shape) {
        return Err(invalid(&format!("inputs of shape {:?}", output.layout.shape)));
    }
    Ok((rows, columns))
}

#[cfg(test)]
mod tests {
    use accelerd_tensor::Location;

    use super::{super::buffers::Address, *};

    fn operand(dtype: Dtype, offset: usize) -> RowOperand {
        RowOperand { address: Address::In(Location::Input(0), offset), dtype }
    }

    fn choose(rows: usize, columns: usize, dtype: Dtype) -> RowVariant {
        RowVariant::choose(rows, columns, dtype, &[operand(dtype, 0), operand(dtype, 256)])
    }

    #[test]
    fn registers_hold_the_rows_that_fit() {
        for dtype in [Dtype::F16, Dtype::F32, Dtype::F64] {
            for columns in [1, 2, 3, 31, 32, 33, 64, 100, 512, 513, 1000, 1024, 1025, 4096, 5000, 8191, 16384] {
                let variant = choose(1000, columns, dtype);
                let RowVariant { vec, items, lanes, threads, extent } = variant;
                let threads_of_row = lanes.min(threads);
                assert_eq!(extent, RowExtent::Registers, "{columns} {variant:?}");
                assert!(
                    columns.is_multiple_of(vec) && vec * items * threads_of_row >= columns,
                    "{columns} {variant:?}"
                );
                assert!(vec * items <= MAX_VALUES && threads.is_multiple_of(WARP) && threads <= MAX_BLOCK_THREADS);
                assert!(lanes > WARP || lanes.is_power_of_two());
            }
        }
    }

    #[test]
    fn short_rows_share_a_warp() {
        let f32 = |columns| choose(16384, columns, Dtype::F32);
        assert_eq!((f32(4).lanes, f32(4).vec, f32(4).items), (1, 4, 1));
        assert_eq!((f32(64).lanes, f32(64).items), (8, 2));
        assert_eq!((f32(1024).lanes, f32(1024).items), (32, 8));
        assert_eq!(f32(64).grid(1000).map(|grid| (grid.x, grid.y)), Ok((63, 1)));
    }

    #[test]
    fn a_block_reads_a_row_of_medium_length() {
        let variant = choose(16384, 4096, Dtype::F32);
        assert_eq!((variant.threads, variant.items, variant.vec), (256, 4, 4));
        assert_eq!(variant.grid(16384).map(|grid| grid.x), Ok(16384));
        let half = choose(16384, 4096, Dtype::Bf16);
        assert_eq!((half.threads, half.items, half.vec), (256, 2, 8));
        assert_eq!(choose(10, 32768, Dtype::F32).threads, 1024);
    }

    #[test]
    fn long_rows_are_read_twice_and_split_if_they_are_few() {
        assert_eq!(choose(1000, 100_000, Dtype::F32).extent, RowExtent::Row);
        for (rows, columns) in [(1, 40_000), (1, 10_000_000), (127, 131_072), (3, 99_999)] {
            let variant = choose(rows, columns, Dtype::F32);
            let RowExtent::Parts { parts, part } = variant.extent else { panic!("{variant:?}") };
            assert!(part * parts >= columns && part * (parts - 1) < columns && rows * parts <= TARGET_BLOCKS);
            assert!(part.is_multiple_of(variant.threads * variant.items * variant.vec), "{variant:?}");
        }
    }

    #[test]
    fn vectors_need_alignment_of_every_row_and_operand() {
        let vec = |columns, other| RowVariant::choose(9, columns, Dtype::F16, &[operand(Dtype::F16, 0), other]).vec;
        let half = |offset| operand(Dtype::F16, offset);
        assert_eq!(vec(4096, half(512)), 8);
        assert_eq!(vec(4100, half(512)), 4);
        assert_eq!(vec(4096, half(4)), 2);
        assert_eq!(vec(4095, half(0)), 1);
        assert_eq!(vec(4096, operand(Dtype::F64, 512)), 2, "two elements of the widest type fill an access");
        assert_eq!(vec(4096, operand(Dtype::Bool, 8)), 8);
        assert_eq!(vec(4096, operand(Dtype::Bool, 2)), 2);
    }
}
