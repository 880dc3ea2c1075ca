//! Products of 16-bit matrices with an epilogue on Hopper, in one launch.

use accelerd_tensor::{Dtype, MatMulStep, View};

use super::{
    super::{
        buffers::Address,
        launches::{Launch, Launches, MapArgument, Pointer, blocks_x},
        operands::operands,
        pingpong::{self, PINGPONG, PINGPONG_LAUNCH, wgmma},
        prelude::{NO_FMA, PRELUDE},
    },
    A_BOX_ROWS, B_BOX_ROWS, BOX_COLUMNS, Checked, LAUNCH, LINEAR_BUFFERS, LINEAR_STAGES, MatMul, OUTPUT_BOX_ROWS,
};
use crate::{
    OpError,
    cuda::{
        COMMON, Grid, JitSource, MAINLOOP_SM90, MMA, Source, TENSOR_MAP_BYTES, TENSOR_MAP_LAUNCH, TMA, TMA_ALIGNMENT,
        TensorMap, TmaBox, WGMMA, cu,
    },
};

const HEADERS: &[Source] = &[
    COMMON,
    PRELUDE,
    LAUNCH,
    MMA,
    WGMMA,
    TENSOR_MAP_LAUNCH,
    TMA,
    PINGPONG_LAUNCH,
    MAINLOOP_SM90,
    PINGPONG,
    cu!("tensor/linear_sm90.cuh"),
];
/// Extents up to which coordinates are 32 bits.
const MAX_EXTENT: usize = 1 << 30;

/// The launch of a step that the kernel computes; `None` of others, and of small ones, which the library spreads over more of a device.
pub(super) fn prepare(
    step: &MatMulStep,
    checked: &Checked,
    capability: (u32, u32),
) -> Result<Option<Launches>, OpError> {
    let [m, n] = [checked.m.div_ceil(pingpong::ROWS), checked.n.div_ceil(pingpong::COLUMNS)];
    let fills_device = m.saturating_mul(n).saturating_mul(checked.batch) >= pingpong::MIN_TILES;
    if capability != pingpong::HOPPER || step.epilogue.is_none() || !fills_device || !fits(step, checked) {
        return Ok(None);
    }
    let cluster = pingpong::CLUSTER as usize;
    let blocks = blocks_x(checked.batch * n * m.next_multiple_of(cluster))?;
    Ok(Some(Launches::one(Launch {
        waves: Some(1),
        pdl: true,
        cluster: pingpong::CLUSTER,
        shared_bytes: pingpong::shared_bytes(LINEAR_STAGES, LINEAR_BUFFERS),
        maps: maps(step, checked),
        ..Launch::new(source(step), Grid::x(blocks), pingpong::THREADS, checked.arguments(step))
    })))
}

/// Returns true if tensor maps describe the operands: rows along the terms, aligned.
fn fits(step: &MatMulStep, checked: &Checked) -> bool {
    let is_16_bit = [Dtype::F16, Dtype::Bf16].contains(&step.output.dtype);
    let rows = |view: &View, [batch, row, term]: [usize; 3]| {
        let shape = &view.layout.shape;
        let strides = &view.layout.strides;
        let is_valid = |dim: usize| TensorMap::takes_stride(strides[dim]) || shape[dim] == 1;
        // A batch may share one matrix.
        strides[term] == 1 && is_valid(row) && (is_valid(batch) || strides[batch] == 0)
    };
    let is_aligned = |address: &Address| address.is_aligned(TMA_ALIGNMENT);
    is_16_bit
        // A pair is read at once.
        && checked.bias.is_aligned(2 * step.output.dtype.size())
        && rows(&step.a, [0, 1, 2])
        && rows(&step.b, [0, 2, 1])
        && TensorMap::takes_stride(checked.n.cast_signed())
        && [checked.a, checked.b, checked.output].iter().all(is_aligned)
        && [checked.batch, checked.m, checked.n, checked.k].iter().all(|extent| *extent <= MAX_EXTENT)
}

/// The tensor maps of both factors and of the results.
fn maps(step: &MatMulStep, checked: &Checked) -> Vec<MapArgument> {
    let map = |view: &View, at, [batch, row, column]: [usize; 3], box_rows| {
        let shape = &view.layout.shape;
        let strides = &view.layout.strides;
        let is_shared = strides[batch] == 0;
        let stride = |dim: usize| TensorMap::stride_bytes(shape[dim], strides[dim]);
        let map = TensorMap {
            extents: vec![shape[column] as u64, shape[row] as u64, if is_shared { 1 } else { shape[batch] as u64 }],
            strides: vec![stride(row), stride(batch)],
            boxes: TmaBox::Tile(vec![BOX_COLUMNS, box_rows, 1]),
        };
        MapArgument { map, at: Pointer::View(at) }
    };
    vec![
        map(&step.a, checked.a, [0, 1, 2], A_BOX_ROWS),
        map(&step.b, checked.b, [0, 2, 1], B_BOX_ROWS),
        map(&step.output, checked.output, [0, 1, 2], OUTPUT_BOX_ROWS),
    ]
}

/// The kernel of a step.
pub(super) fn source(step: &MatMulStep) -> JitSource {
    let dtype = step.output.dtype;
    let operands = operands(dtype, step.epilogue.as_ref(), &wgmma(dtype));
    let has_bias = step.bias.is_some();
    let threads = pingpong::THREADS;
    let cluster = pingpong::CLUSTER;
    let text = format!(
        "#include \"ir/prelude.cuh\"\n#include \"tensor/linear_sm90.cuh\"\n\n{operands}\n\
         extern \"C\" __global__ void CLUSTER_OF({cluster}) __launch_bounds__({threads}, 1) tensor_linear_sm90(const __grid_constant__ MatMul product,\n    \
         const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const __grid_constant__ TensorMap output) {{\n\
         #ifdef __CUDA_ARCH_FEAT_SM90_ALL\n    linear_sm90<{has_bias}, Operands>(product, a, b, output);\n#endif\n}}\n"
    );
    let params = vec![size_of::<MatMul>(), TENSOR_MAP_BYTES, TENSOR_MAP_BYTES, TENSOR_MAP_BYTES];
    JitSource { template: "tensor_linear_sm90", text, headers: HEADERS, options: vec![NO_FMA.to_owned()], params }
}
