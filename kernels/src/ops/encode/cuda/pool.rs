//! Pooling: the kernel of `cu/pool/pool.cu`, and the device buffer that holds its output.

use super::{
    hidden_states::{HiddenStates, TILED, TILED_LAUNCH},
    launch::{fit, kernel},
    norm::width_class,
};
use crate::{
    OpError,
    cuda::{Args, Buffer, COMMON, Grid, Kernel, Module, Worker, cu, launch_structs},
    ops::encode::{DType, OutputRow, OutputType, PooledOutput, Reduction},
};

launch_structs! {
    header POOL_LAUNCH = "launch/pool.cuh";

    /// Warps of a block, each with partial results.
    const POOL_WARPS: usize = 4;
    const POOL_THREADS: u32 = 128;
    /// Dynamic shared memory of the partial results of rows with `columns` columns, in bytes.
    const fn pool_shared_bytes(columns: usize) -> usize { POOL_WARPS * columns * 4 }

    /// Reductions.
    const MEAN_POOL: u32 = 0;
    const WEIGHTED_MEAN_POOL: u32 = 1;
    const MAX_POOL: u32 = 2;

    /// Output types.
    const OUTPUT_F32: u32 = 0;
    const OUTPUT_F16: u32 = 1;
    const OUTPUT_BF16: u32 = 2;
    const OUTPUT_INT8: u32 = 3;
    const OUTPUT_BINARY: u32 = 4;

    /// A row of the output: tokens `from..to`, its leading dimensions, its byte offset, and its index among the scales.
    pub(super) struct PooledRow {
        pub(super) from: u32,
        pub(super) to: u32,
        pub(super) dimensions: u32,
        pub(super) scale_index: u32,
        pub(super) offset: u64,
        pub(super) reduction: u32,
        pub(super) output: u32,
        pub(super) normalize: u32,
        pub(super) unused: u32,
    }

    /// Parameters of `pool`.
    pub(super) struct PoolParams {
        pub(super) hidden_states: "const u8*",
        pub(super) rows: "const PooledRow*",
        pub(super) out: "u8*",
        pub(super) scales: "float*",
        pub(super) tiles_per_row: u32,
        pub(super) unused: u32,
    }
}

/// By dtype, then by [`ROW_WIDTHS`].
pub(super) const POOL: [[Kernel; 3]; 3] = [
    [
        kernel::<PoolParams>("pool_f32_1024"),
        kernel::<PoolParams>("pool_f32_1024"),
        kernel::<PoolParams>("pool_f32_4096"),
    ],
    [
        kernel::<PoolParams>("pool_f16_1024"),
        kernel::<PoolParams>("pool_f16_1024"),
        kernel::<PoolParams>("pool_f16_4096"),
    ],
    [
        kernel::<PoolParams>("pool_bf16_1024"),
        kernel::<PoolParams>("pool_bf16_1024"),
        kernel::<PoolParams>("pool_bf16_4096"),
    ],
];

/// The pooled output on the device: the row descriptors, then one buffer with the scales and the rows.
pub(super) struct OutputBuffer {
    rows: Buffer<PooledRow>,
    out: Buffer<u8>,
    scale_bytes: usize,
}

impl OutputBuffer {
    /// Uploads the row descriptors and allocates the output.
    pub(super) fn new(worker: &Worker, rows: &[OutputRow]) -> Result<Self, OpError> {
        let Layout { rows, scale_bytes, bytes } = Layout::new(rows)?;
        Ok(Self { rows: worker.upload_new(&rows)?, out: worker.alloc(scale_bytes + bytes)?, scale_bytes })
    }

    /// Pools the hidden states and waits for the download.
    pub(super) fn pooled(
        &self,
        worker: &Worker,
        dtype: DType,
        hidden_states: &HiddenStates,
    ) -> Result<PooledOutput, OpError> {
        if !self.rows.is_empty() {
            let kernel = &POOL[dtype as usize][width_class(dtype, hidden_states.tiles_per_row)?];
            let columns = hidden_states.tiles_per_row as usize * dtype.tile_columns();
            let shared_bytes = fit(pool_shared_bytes(columns))?;
            let grid = Grid::x(fit(self.rows.len())?);
            let mut args = Args::new().value(self.params(hidden_states));
            worker.launch_pdl(kernel, grid, POOL_THREADS, shared_bytes, &mut args)?;
        }
        self.download(worker)
    }

    fn params(&self, hidden_states: &HiddenStates) -> PoolParams {
        PoolParams {
            hidden_states: hidden_states.address(),
            rows: self.rows.ptr().address(),
            out: self.out.ptr_at(self.scale_bytes).address(),
            scales: self.out.ptr().address(),
            tiles_per_row: hidden_states.tiles_per_row,
            unused: 0,
        }
    }

    fn download(&self, worker: &Worker) -> Result<PooledOutput, OpError> {
        let bytes = worker.download(&self.out, self.scale_bytes..)?;
        let scales = worker.download(&self.out, ..self.scale_bytes)?;
        Ok(PooledOutput { bytes, scales: bytemuck::pod_collect_to_vec(&scales) })
    }
}

/// The layout of the output: int8 scales first, then the rows without gaps.
struct Layout {
    rows: Vec<PooledRow>,
    scale_bytes: usize,
    bytes: usize,
}

impl Layout {
    fn new(rows: &[OutputRow]) -> Result<Self, OpError> {
        let mut layout = Self { rows: Vec::with_capacity(rows.len()), scale_bytes: 0, bytes: 0 };
        for row in rows {
            layout.rows.push(PooledRow {
                from: row.from,
                to: row.to,
                dimensions: row.dimensions,
                scale_index: fit(layout.scale_bytes / 4)?,
                offset: layout.bytes as u64,
                reduction: match row.reduce {
                    Reduction::Mean => MEAN_POOL,
                    Reduction::WeightedMean => WEIGHTED_MEAN_POOL,
                    Reduction::Max => MAX_POOL,
                },
                output: match row.output {
                    OutputType::F32 => OUTPUT_F32,
                    OutputType::F16 => OUTPUT_F16,
                    OutputType::Bf16 => OUTPUT_BF16,
                    OutputType::Int8 => OUTPUT_INT8,
                    OutputType::Binary => OUTPUT_BINARY,
                },
                normalize: row.normalize.into(),
                unused: 0,
            });
            layout.bytes += row.bytes();
            layout.scale_bytes += if row.output == OutputType::Int8 { 4 } else { 0 };
        }
        Ok(layout)
    }
}

pub(super) static POOL_MODULE: Module = Module {
    name: "pool",
    source: cu!("pool/pool.cu"),
    headers: &[COMMON, TILED_LAUNCH, TILED, POOL_LAUNCH],
    defines: &[],
    kernels: &[POOL[0][0], POOL[0][2], POOL[1][0], POOL[1][2], POOL[2][0], POOL[2][2]],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_follow_their_scales_without_gaps() {
        let row = |output, dimensions| OutputRow {
            from: 1,
            to: 2,
            reduce: Reduction::Max,
            dimensions,
            normalize: true,
            output,
        };
        let rows =
            [row(OutputType::Binary, 9), row(OutputType::Int8, 3), row(OutputType::F32, 2), row(OutputType::Int8, 1)];
        let layout = Layout::new(&rows).expect("few");
        assert_eq!((layout.scale_bytes, layout.bytes), (8, 2 + 3 + 8 + 1));
        let places: Vec<_> = layout.rows.iter().map(|row| (row.offset, row.scale_index)).collect();
        assert_eq!(places, [(0, 0), (2, 0), (5, 1), (13, 1)]);
    }
}
