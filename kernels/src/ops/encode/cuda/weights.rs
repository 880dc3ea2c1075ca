//! The encoder's weights on a device: in the compute type, tiled, and permuted as the kernels expect.

use super::{
    gemm_tiles::MAX_COLUMNS,
    head_dim::{mma_head_dim_index, padded_head_dim},
    hidden_states::{TILED, TILED_LAUNCH, element_type},
    launch::{fit, kernel},
};
use crate::{
    OpError,
    cuda::{Args, Buffer, COMMON, Grid, Kernel, Module, Worker, cu, launch_structs},
    ops::encode::{DType, Embeddings, Encoder, EncoderConfig, Layer, Linear, Norm, Precision, Tensor, Weights},
};

launch_structs! {
    header PACK_WEIGHTS_LAUNCH = "launch/pack_weights.cuh";

    /// Threads of a block of `pack_weights`.
    const PACK_WEIGHTS_THREADS: u32 = 256;

    /// Parameters of `pack_weights`.
    pub(super) struct PackWeightsParams {
        pub(super) from: "const u8*",
        pub(super) to: "u8*",
        pub(super) from_rows: u32,
        pub(super) from_columns: u32,
        pub(super) from_type: u32,
        pub(super) to_type: u32,
        pub(super) to_rows: u32,
        pub(super) tiles_per_row: u32,
        pub(super) head_dim: u32,
        pub(super) padded_head_dim: u32,
        pub(super) gate_rows: u32,
        pub(super) column_head_dim: u32,
        pub(super) column_padded_head_dim: u32,
        pub(super) row_major: u32,
    }
}

pub(super) const PACK_WEIGHTS: Kernel = kernel::<PackWeightsParams>("pack_weights");

#[derive(Debug)]
pub(crate) struct Weight {
    buffer: Buffer<u8>,
    /// Rows of a matrix, zero-padded to whole tiles; the length of a vector.
    pub(super) rows: u32,
    pub(super) tiles_per_row: u32,
    /// Columns before padding.
    pub(super) width: usize,
    pub(super) dtype: DType,
    /// The type in which a GEMM with this weight writes its output.
    pub(super) out_dtype: DType,
}

impl Weight {
    pub(super) fn address(&self) -> u64 {
        self.buffer.ptr().address()
    }
}

#[derive(Debug)]
pub(super) struct DeviceWeights {
    pub(super) weights: Weights<Weight>,
    pub(super) dtype: DType,
}

impl DeviceWeights {
    /// Uploads and packs all weights, and waits for completion.
    pub(super) fn new(encoder: &Encoder, precision: Precision, worker: &Worker) -> Result<Self, OpError> {
        let dtype = match precision {
            Precision::F32 => DType::F32,
            Precision::F16 => DType::F16,
            Precision::Bf16 | Precision::Auto => DType::Bf16,
        };
        let loader = Loader { worker, dtype, config: encoder.config() };
        worker.reclaim()?;
        let free = worker.free_bytes();
        let weights = loader.weights(encoder.weights()).map_err(|error| total_requested(error, free))?;
        worker.synchronize()?;
        Ok(Self { weights, dtype })
    }
}

/// Extends an out-of-memory error to the bytes of all weights up to the one that did not fit; `before` bytes were free at first.
fn total_requested(error: OpError, before: u64) -> OpError {
    match error {
        OpError::OutOfMemory { device, requested, free } => {
            let requested = requested.saturating_add(before.saturating_sub(free));
            OpError::OutOfMemory { device, requested, free: before }
        }
        OpError::MemoryLimit(_)
        | OpError::Invalid(_)
        | OpError::IndexOutOfRange { .. }
        | OpError::Failed { .. }
        | OpError::DeviceLost { .. }
        | OpError::Cancelled => error,
    }
}

/// The permutation and padding of rows or columns.
#[derive(Clone, Copy)]
enum Layout {
    /// In order.
    Plain,
    /// Each head of `head` columns is zero-padded to `padded`.
    Heads { head: usize, padded: usize },
    /// Gate and up projection interleaved in groups of 8.
    Gated { half: usize },
}

impl Layout {
    /// The padded length of `count`, with tiles of `columns`.
    fn count(self, count: usize, columns: usize) -> usize {
        match self {
            Self::Plain => count.next_multiple_of(columns),
            Self::Heads { head, padded } => (count / head * padded).next_multiple_of(columns),
            Self::Gated { half } => 2 * half.next_multiple_of(columns),
        }
    }

    /// Head size and padded head size.
    fn heads(self) -> (usize, usize) {
        match self {
            Self::Heads { head, padded } => (head, padded),
            Self::Plain | Self::Gated { .. } => (1, 1),
        }
    }

    /// The source index of position `index`, or none for padding.
    fn source(self, index: usize, count: usize) -> Option<usize> {
        let source = match self {
            Self::Gated { half } => {
                let source = index / 16 * 8 + index % 8;
                (source < half).then_some(if index % 16 < 8 { source } else { source + half })
            }
            Self::Plain | Self::Heads { .. } => {
                let (head, padded) = self.heads();
                (index % padded < head).then_some(index / padded * head + index % padded)
            }
        };
        source.filter(|source| *source < count)
    }
}

struct Loader<'a> {
    worker: &'a Worker,
    dtype: DType,
    config: &'a EncoderConfig,
}

impl Loader<'_> {
    fn weights(&self, from: &Weights<Tensor>) -> Result<Weights<Weight>, OpError> {
        let exact = |numbers: &Option<Tensor>| numbers.as_ref().map(|numbers| self.f32_vector(numbers)).transpose();
        let Embeddings { word_embeddings, position_embeddings, token_type_embeddings, norm } = &from.embeddings;
        Ok(Weights {
            embeddings: Embeddings {
                word_embeddings: self.table(word_embeddings)?,
                position_embeddings: position_embeddings.as_ref().map(|table| self.table(table)).transpose()?,
                token_type_embeddings: token_type_embeddings.as_ref().map(|table| self.table(table)).transpose()?,
                norm: self.norm_option(norm.as_ref())?,
            },
            rotary: exact(&from.rotary)?,
            local_rotary: exact(&from.local_rotary)?,
            relative_bias: exact(&from.relative_bias)?,
            slopes: exact(&from.slopes)?,
            layers: from.layers.iter().map(|layer| self.layer(layer)).collect::<Result<_, _>>()?,
            final_norm: self.norm_option(from.final_norm.as_ref())?,
        })
    }

    fn layer(&self, from: &Layer<Tensor>) -> Result<Layer<Weight>, OpError> {
        let head = self.config.head_dim;
        let heads = Layout::Heads { head, padded: padded_head_dim(self.dtype, head) };
        let up = if self.config.gated { Layout::Gated { half: self.config.intermediate } } else { Layout::Plain };
        Ok(Layer {
            attention_norm: self.norm_option(from.attention_norm.as_ref())?,
            qkv: self.qkv(&from.qkv, heads)?,
            query_norm: self.norm_option(from.query_norm.as_ref())?,
            key_norm: self.norm_option(from.key_norm.as_ref())?,
            output: self.linear(&from.output, Layout::Plain, heads)?,
            mlp_norm: self.norm(&from.mlp_norm)?,
            up: self.linear(&from.up, up, Layout::Plain)?,
            down: self.linear(&from.down, Layout::Plain, Layout::Plain)?,
        })
    }

    /// Written in what attention takes.
    fn qkv(&self, from: &Linear<Tensor>, heads: Layout) -> Result<Linear<Weight>, OpError> {
        let mut linear = self.linear(from, heads, Layout::Plain)?;
        if mma_head_dim_index(self.dtype, self.config.head_dim, self.worker.compute_capability()).is_some() {
            linear.weight.out_dtype = DType::F16;
        }
        Ok(linear)
    }

    fn linear(&self, from: &Linear<Tensor>, rows: Layout, columns: Layout) -> Result<Linear<Weight>, OpError> {
        Ok(Linear {
            weight: self.pack(&from.weight, rows, columns, None)?,
            bias: from.bias.as_ref().map(|bias| self.numbers(bias, rows)).transpose()?,
            inputs: from.inputs,
            outputs: from.outputs,
        })
    }

    fn norm_option(&self, from: Option<&Norm<Tensor>>) -> Result<Option<Norm<Weight>>, OpError> {
        from.map(|norm| self.norm(norm)).transpose()
    }

    fn norm(&self, from: &Norm<Tensor>) -> Result<Norm<Weight>, OpError> {
        Ok(Norm {
            kind: from.kind,
            epsilon: from.epsilon,
            weight: self.f32_vector(&from.weight)?,
            bias: from.bias.as_ref().map(|bias| self.f32_vector(bias)).transpose()?,
        })
    }

    /// A table with rows of whole tiles' width: as it came, if the kernels read that, else f32. So nothing of it is
    /// rounded before it is added.
    fn table(&self, from: &Tensor) -> Result<Weight, OpError> {
        let kept = if from.dtype() == self.dtype { self.dtype } else { DType::F32 };
        self.pack(from, Layout::Plain, Layout::Plain, Some(kept))
    }

    /// f32, with zeros up to whole tiles of a row.
    fn f32_vector(&self, from: &Tensor) -> Result<Weight, OpError> {
        self.numbers(from, Layout::Plain)
    }

    /// f32, permuted and zero-padded to whole GEMM tiles.
    fn numbers(&self, from: &Tensor, layout: Layout) -> Result<Weight, OpError> {
        let numbers = from.to_f32();
        let count = layout.count(numbers.len(), self.dtype.tile_columns()).next_multiple_of(MAX_COLUMNS);
        let at = |at| layout.source(at, numbers.len()).map_or(0.0, |source| numbers[source]);
        let ordered: Vec<f32> = (0..count).map(at).collect();
        let buffer = self.worker.upload_new::<u8>(bytemuck::cast_slice(&ordered))?;
        Ok(Weight {
            buffer,
            rows: fit(count)?,
            tiles_per_row: 0,
            width: numbers.len(),
            dtype: DType::F32,
            out_dtype: self.dtype,
        })
    }

    /// A matrix `[rows, columns]` in tiles of the compute type, or row-major in the given type.
    fn pack(&self, from: &Tensor, rows: Layout, columns: Layout, row_major: Option<DType>) -> Result<Weight, OpError> {
        let &[from_rows, from_columns] = from.shape() else {
            return Err(OpError::Invalid(format!("a matrix of shape {:?}", from.shape())));
        };
        let tile = self.dtype.tile_columns();
        let to_rows = if row_major.is_some() { from_rows } else { rows.count(from_rows, tile) };
        let stored_rows = if row_major.is_some() { to_rows } else { to_rows.next_multiple_of(MAX_COLUMNS) };
        let dtype = row_major.unwrap_or(self.dtype);
        let tiles_per_row = columns.count(from_columns, tile) / dtype.tile_columns();
        let source = self.worker.upload_new::<u8>(from.bytes())?;
        let buffer = self.worker.alloc::<u8>(stored_rows * tiles_per_row * 128)?;
        let half = if let Layout::Gated { half } = rows { half } else { 0 };
        let pack = PackWeightsParams {
            from: source.ptr().address(),
            to: buffer.ptr().address(),
            from_rows: fit(from_rows)?,
            from_columns: fit(from_columns)?,
            from_type: element_type(from.dtype()),
            to_type: element_type(dtype),
            to_rows: fit(stored_rows)?,
            tiles_per_row: fit(tiles_per_row)?,
            head_dim: fit(rows.heads().0)?,
            padded_head_dim: fit(rows.heads().1)?,
            gate_rows: fit(half)?,
            column_head_dim: fit(columns.heads().0)?,
            column_padded_head_dim: fit(columns.heads().1)?,
            row_major: row_major.is_some().into(),
        };
        let blocks = fit((stored_rows * tiles_per_row * 8).div_ceil(PACK_WEIGHTS_THREADS as usize))?;
        self.worker.launch(&PACK_WEIGHTS, Grid::x(blocks), PACK_WEIGHTS_THREADS, 0, &mut Args::new().value(pack))?;
        Ok(Weight {
            buffer,
            rows: fit(to_rows)?,
            tiles_per_row: fit(tiles_per_row)?,
            width: from_columns,
            dtype,
            out_dtype: self.dtype,
        })
    }
}

pub(super) static PACK_MODULE: Module = Module {
    name: "pack_weights",
    source: cu!("gemm/pack_weights.cu"),
    headers: &[COMMON, TILED_LAUNCH, TILED, PACK_WEIGHTS_LAUNCH],
    defines: &[],
    kernels: &[PACK_WEIGHTS],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn out_of_memory_reports_the_bytes_of_all_weights_so_far() {
        let device = crate::DeviceId::Cuda(0);
        let last = OpError::OutOfMemory { device, requested: 300, free: 200 };
        assert_eq!(total_requested(last, 1_000), OpError::OutOfMemory { device, requested: 1_100, free: 1_000 });
        assert_eq!(total_requested(OpError::Invalid("no".to_owned()), 1_000), OpError::Invalid("no".to_owned()));
    }

    #[test]
    fn heads_are_padded_and_gates_interleaved() {
        let heads = Layout::Heads { head: 3, padded: 4 };
        assert_eq!(heads.count(6, 8), 8);
        let sources: Vec<_> = (0..8).map(|index| heads.source(index, 6)).collect();
        assert_eq!(sources, [Some(0), Some(1), Some(2), None, Some(3), Some(4), Some(5), None]);
        let halves = Layout::Gated { half: 12 };
        assert_eq!(halves.count(24, 64), 128);
        assert_eq!(
            [0, 7, 8, 15, 16, 19, 20, 24].map(|index| halves.source(index, 24)),
            [Some(0), Some(7), Some(12), Some(19), Some(8), Some(11), None, Some(20)]
        );
        assert_eq!(
            (Layout::Plain.count(65, 64), Layout::Plain.source(64, 65), Layout::Plain.source(65, 65)),
            (128, Some(64), None)
        );
    }
}
