//! Cumulative sums, products and extremes: a warp or a block for each row, or a thread for each column. Few long scans are cut into parts, of which
//! one launch finds the totals, and another scans each part from the totals before it. Only the shape decides.

use accelerd_ir::{
    Dtype,
    scalar::{
        Function,
        cuda::{ctype, emit},
    },
};
use accelerd_tensor::{ScanKind, ScanStep};

use super::{
    buffers::{Address, BufferSizes},
    headers::SCAN_ROUNDS,
    launches::{Argument, Launch, Launches},
    words::{THREADS, launch, word},
};
use crate::OpError;

/// Bytes of the widest access to memory.
const MAX_VECTOR_BYTES: usize = 16;
/// The longest row that a warp scans, if there are more than `MANY_ROWS`.
const SHORT_ROW: usize = 2048;
const WARP: usize = 32;
/// Rows from which on one block for each fills a device.
const MANY_ROWS: usize = 256;
/// Blocks that fewer rows are split into.
const TARGET_BLOCKS: usize = 1024;
/// Columns from which on a thread for each fills a device.
const MANY_COLUMNS: usize = 1 << 16;
/// Each part of a column adds up the totals of all before it.
const MAX_COLUMN_PARTS: usize = 128;
/// The fewest elements of a part of a column.
const MIN_COLUMN_PART: usize = 64;
const COLUMN_UNROLL: usize = 8;

/// The launches of a step; none if there is no element.
pub(super) fn prepare(step: &ScanStep, sizes: &BufferSizes) -> Result<Launches, OpError> {
    let [outer, extent, inner] = check(step)?;
    let input = sizes.address(&step.input)?;
    let output = sizes.address_mut(&step.output)?;
    if outer * extent * inner == 0 {
        return Ok(Launches::default());
    }
    let scan = Scan { step, input, output, outer, extent, inner };
    if inner > 1 { scan.columns() } else { scan.rows() }
}

struct Scan<'a> {
    step: &'a ScanStep,
    input: Address,
    output: Address,
    outer: usize,
    extent: usize,
    inner: usize,
}

/// The partition of scans: the elements of a part, and the number of parts.
#[derive(Clone, Copy)]
struct Parts {
    part: usize,
    count: usize,
}

impl Parts {
    /// At most `limit` parts of multiples of `tile` elements.
    fn new(extent: usize, limit: usize, tile: usize) -> Self {
        let part = extent.div_ceil(limit.max(1)).next_multiple_of(tile);
        Self { part, count: extent.div_ceil(part) }
    }
}

impl Scan<'_> {
    fn rows(&self) -> Result<Launches, OpError> {
        let vec = self.vector();
        if self.outer >= MANY_ROWS && self.extent <= SHORT_ROW {
            let blocks = self.outer.div_ceil(THREADS / WARP);
            let parts = Parts { part: self.extent, count: 1 };
            let short = self.launch("tensor_scan_short_rows", "scan_short_rows", vec, [blocks, 1], parts)?;
            return Ok(Launches::one(short));
        }
        let limit = if self.outer >= MANY_ROWS { 1 } else { TARGET_BLOCKS / self.outer };
        let parts = Parts::new(self.extent, limit, THREADS * SCAN_ROUNDS * vec);
        let grid = [self.outer, parts.count];
        let scan = self.launch("tensor_scan_rows", "scan_rows", vec, grid, parts)?;
        if parts.count == 1 {
            return Ok(Launches::one(scan));
        }
        let totals = self.launch("tensor_scan_row_totals", "scan_row_totals", vec, grid, parts)?;
        Ok(self.with_totals(totals, scan, self.outer * parts.count))
    }

    fn columns(&self) -> Result<Launches, OpError> {
        let columns = self.outer * self.inner;
        let limit = if columns >= MANY_COLUMNS { 1 } else { (MANY_COLUMNS / columns).min(MAX_COLUMN_PARTS) };
        let parts = Parts::new(self.extent, limit, MIN_COLUMN_PART);
        let grid = [columns.div_ceil(THREADS), parts.count];
        let scan = self.launch("tensor_scan_columns", "scan_columns", 1, grid, parts)?;
        if parts.count == 1 {
            return Ok(Launches::one(scan));
        }
        let totals = self.launch("tensor_scan_column_totals", "scan_column_totals", 1, grid, parts)?;
        Ok(self.with_totals(totals, scan, columns * parts.count))
    }

    fn with_totals(&self, totals: Launch, scan: Launch, count: usize) -> Launches {
        let workspace_bytes = count * self.step.accumulate.size();
        Launches { launches: vec![totals, scan], workspace_bytes, ..Launches::default() }
    }

    /// The most elements that can be read and written at once at every multiple of a row.
    fn vector(&self) -> usize {
        let [input, output] = [&self.step.input, &self.step.output].map(|view| view.dtype.size());
        let fits = |vec: &usize| {
            vec * input.max(output) <= MAX_VECTOR_BYTES
                && self.extent.is_multiple_of(*vec)
                && self.input.is_aligned(vec * input)
                && self.output.is_aligned(vec * output)
        };
        [8, 4, 2].into_iter().find(fits).unwrap_or(1)
    }

    fn launch(
        &self,
        template: &'static str,
        function: &str,
        vec: usize,
        grid: [usize; 2],
        parts: Parts,
    ) -> Result<Launch, OpError> {
        let mut arguments = [self.input, self.output].map(Argument::Address).to_vec();
        arguments.push(if parts.count > 1 { Argument::Workspace(0) } else { word(0) });
        arguments.extend([self.outer, self.extent, self.inner, parts.part, parts.count].map(word));
        let ScanStep { input, kind, accumulate, output } = self.step;
        let text = format!(
            "#include \"ir/prelude.cuh\"\n#include \"tensor/states.cuh\"\n\ntypedef {} Element;\ntypedef {} Value;\ntypedef {} \
             Output;\ntypedef {}<Value> Operator;\nconstexpr int VEC = {vec}, COLUMN_UNROLL = {COLUMN_UNROLL};\n{}{}#include \
             \"tensor/scan.cuh\"\n",
            ctype(input.dtype),
            ctype(*accumulate),
            ctype(output.dtype),
            operator(*kind),
            emit(&Function::conversion(input.dtype, *accumulate), "prologue"),
            emit(&Function::conversion(*accumulate, output.dtype), "epilogue"),
        );
        launch(template, function, &text, grid, arguments)
    }
}

/// The operator of `tensor/states.cuh`.
fn operator(kind: ScanKind) -> &'static str {
    match kind {
        ScanKind::Sum => "Accumulate",
        ScanKind::Prod => "Multiply",
        ScanKind::Min => "Least",
        ScanKind::Max => "Greatest",
    }
}

fn check(step: &ScanStep) -> Result<[usize; 3], OpError> {
    let invalid = |expected: &str| Err(OpError::Invalid(format!("a scan: expected {expected}")));
    let &[outer, extent, inner] = &step.input.layout.shape[..] else { return invalid("three dimensions") };
    let accumulates = step.accumulate == step.accumulate.compute() && step.accumulate != Dtype::Bool;
    if step.output.layout.shape != step.input.layout.shape || !accumulates {
        return invalid("results of the input's shape, and numbers of a type that is computed in");
    }
    let is_dense =
        [&step.input, &step.output].iter().all(|view| view.layout.strides.len() == 3 && view.layout.is_contiguous());
    if is_dense { Ok([outer, extent, inner]) } else { invalid("contiguous tensors") }
}

#[cfg(test)]
mod tests {
    use accelerd_tensor::{Layout, Location, View};

    use super::{super::compile::compiles, *};

    fn step(from: Dtype, to: Dtype, shape: [usize; 3]) -> ScanStep {
        let view = |location, dtype| View { location, dtype, layout: Layout::contiguous(&shape) };
        let input = view(Location::Input(0), from);
        let output = view(Location::Output(0), to);
        ScanStep { input, kind: ScanKind::Sum, accumulate: to.compute(), output }
    }

    fn prepared(step: &ScanStep) -> Launches {
        let sizes = BufferSizes::new(&[1 << 42], &[1 << 42], 0);
        prepare(step, &sizes).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn long_scans_use_the_whole_device_and_short_ones_share_blocks() {
        let geometry = |shape| {
            let launches = prepared(&step(Dtype::F32, Dtype::F32, shape)).launches;
            launches.iter().map(|launch| (launch.source.template, [launch.grid.x, launch.grid.y])).collect::<Vec<_>>()
        };
        assert_eq!(geometry([10_000, 100, 1]), [("tensor_scan_short_rows", [1250, 1])]);
        assert_eq!(geometry([10_000, 4096, 1]), [("tensor_scan_rows", [10_000, 1])]);
        assert_eq!(geometry([1, 4096, 1]), [("tensor_scan_rows", [1, 1])]);
        let alone = geometry([1, 100_000_000, 1]);
        assert_eq!(alone, [("tensor_scan_row_totals", [1, 1018]), ("tensor_scan_rows", [1, 1018])]);
        assert_eq!(geometry([100, 50, 1000]), [("tensor_scan_columns", [391, 1])]);
        let columns = geometry([1, 1_000_000, 64]);
        assert_eq!(columns, [("tensor_scan_column_totals", [1, 128]), ("tensor_scan_columns", [1, 128])]);
        assert!(geometry([0, 3, 1]).is_empty() && geometry([3, 0, 5]).is_empty());
    }

    #[test]
    fn parts_cover_the_extent_in_whole_tiles() {
        for (extent, limit, tile) in [(1, 1024, 4096), (4097, 1024, 4096), (100_000_000, 1024, 1024), (777, 3, 64)] {
            let parts = Parts::new(extent, limit, tile);
            assert!(parts.count <= limit && parts.part.is_multiple_of(tile), "{extent}");
            assert!(parts.part * parts.count >= extent && parts.part * (parts.count - 1) < extent, "{extent}");
        }
    }

    #[test]
    fn a_step_that_is_no_scan_is_refused() {
        let sizes = BufferSizes::new(&[1 << 39], &[1 << 39], 0);
        let good = step(Dtype::F16, Dtype::F16, [2, 3, 4]);
        let refused = |step: ScanStep| matches!(prepare(&step, &sizes), Err(OpError::Invalid(_)));
        assert!(!refused(good.clone()));
        assert!(refused(ScanStep { accumulate: Dtype::F16, ..good.clone() }), "no type that is computed in");
        assert!(refused(ScanStep { output: step(Dtype::F16, Dtype::F16, [2, 4, 3]).output, ..good.clone() }));
        let layout = Layout::contiguous(&[4, 3, 2]).permuted(&[2, 1, 0]);
        assert!(refused(ScanStep { input: View { layout, ..good.input.clone() }, ..good }));
    }

    #[test]
    fn every_type_and_shape_compiles() {
        let mut sources = vec![];
        let shapes = [[1000, 100, 1], [1, 99_998, 1], [2, 50_000, 33]];
        for (nth, dtype) in Dtype::ALL.into_iter().enumerate() {
            let to = if dtype.is_float() { dtype } else { Dtype::I64 };
            for (index, shape) in
                shapes.into_iter().enumerate().filter(|(index, _)| dtype.is_float() || nth % 3 == *index)
            {
                let kind = if (nth + index) % 2 == 0 { ScanKind::Sum } else { ScanKind::Prod };
                let extreme = if (nth + index) % 2 == 0 { ScanKind::Min } else { ScanKind::Max };
                let accumulate = if dtype == Dtype::Bool { Dtype::U8 } else { dtype.compute() };
                let of_extremes = ScanStep { kind: extreme, accumulate, ..step(dtype, dtype, shape) };
                for scan in [ScanStep { kind, ..step(dtype, to, shape) }, of_extremes] {
                    sources.extend(prepared(&scan).launches.into_iter().map(|launch| launch.source));
                }
            }
        }
        sources
            .extend(prepared(&step(Dtype::F64, Dtype::I8, [1, 99_998, 1])).launches.into_iter().map(|one| one.source));
        compiles(&sources);
    }
}
