//! Convolutions of 16-bit types on Hopper, whose windows are loaded by TMA's im2col mode.

use accelerd_tensor::Dtype;

use super::{
    super::{
        launches::{Argument, Launch, Launches, MapArgument, Pointer, blocks_x},
        operands::operands,
        pingpong::{self, wgmma},
        prelude::NO_FMA,
    },
    Checked, Conv, HEADERS, SM90_BUFFERS, SM90_STAGES,
    packed::Packed,
};
use crate::{
    OpError,
    cuda::{Grid, JitSource, TENSOR_MAP_BYTES, TensorMap, TmaBox},
};

/// With fewer channels, most of a k tile is padding; with fewer filters, most of a tile's rows.
const MIN_CHANNELS: usize = 32;
const MIN_FILTERS: usize = 96;
/// Limits of tensor maps: corners from an image, offsets of taps, and strides of positions.
const MAX_CORNER: usize = 127;
const MAX_OFFSET: usize = 255;
const MAX_STRIDE: usize = 8;

/// The launches of a step that the kernel computes.
pub(super) fn prepare(checked: &Checked<'_>, capability: (u32, u32)) -> Result<Option<Launches>, OpError> {
    if capability != pingpong::HOPPER || !fits(checked) {
        return Ok(None);
    }
    let packed = Packed::new(checked)?;
    let cluster = pingpong::CLUSTER as usize;
    let blocks = checked.outputs().div_ceil(pingpong::ROWS) * position_tiles(checked).next_multiple_of(cluster);
    let launch = Launch {
        waves: Some(1),
        pdl: true,
        cluster: pingpong::CLUSTER,
        shared_bytes: pingpong::shared_bytes(SM90_STAGES, SM90_BUFFERS),
        maps: vec![filters(checked, &packed), images(checked, &packed)],
        ..Launch::new(
            source(checked),
            Grid::x(blocks_x(blocks)?),
            pingpong::THREADS,
            Argument::structure(packed.conv, &checked.addresses),
        )
    };
    Ok(Some(packed.followed_by(launch)))
}

fn position_tiles(checked: &Checked<'_>) -> usize {
    checked.positions().div_ceil(pingpong::COLUMNS)
}

/// Returns true if tensor maps describe the operands, and large tiles are full and as many as a device has use for.
fn fits(checked: &Checked<'_>) -> bool {
    let step = checked.step;
    let windows = &checked.step.windows;
    let is_16_bit = [Dtype::F16, Dtype::Bf16].contains(&step.output.dtype);
    let within = |axis: usize| {
        let offset = windows.reach(axis) - 1;
        windows.padding[axis] <= MAX_CORNER
            && offset <= MAX_CORNER.min(MAX_OFFSET)
            && windows.stride[axis] <= MAX_STRIDE
    };
    let tiles = checked.outputs().div_ceil(pingpong::ROWS) * position_tiles(checked);
    is_16_bit
        && step.groups == 1
        && checked.group_channels() >= MIN_CHANNELS
        && checked.outputs() >= MIN_FILTERS
        && tiles >= pingpong::MIN_TILES
        && checked.fits_mma()
        && within(0)
        && within(1)
}

/// Filters of `[out_channels, taps, channels]`, of which a copy loads one tap.
fn filters(checked: &Checked<'_>, packed: &Packed) -> MapArgument {
    let taps = checked.step.windows.kernel.iter().product::<usize>();
    let pixel = 2 * packed.padded_channels as u64;
    let map = TensorMap {
        extents: [packed.padded_channels, taps, checked.outputs()].map(|extent| extent as u64).to_vec(),
        strides: vec![pixel, pixel * taps as u64],
        boxes: TmaBox::Tile([pingpong::TERMS, 1, pingpong::ROWS / 2].map(narrow).to_vec()),
    };
    MapArgument { map, at: Pointer::Workspace(0) }
}

/// Images of `[batch, height, width, channels]`.
fn images(checked: &Checked<'_>, packed: &Packed) -> MapArgument {
    let shape = &checked.step.input.layout.shape;
    let windows = &checked.step.windows;
    let signed = |extent: usize| i32::try_from(extent).unwrap_or(i32::MAX);
    // Tensor maps have the columns first.
    let lower_corner = [1, 0].map(|axis| -signed(windows.padding[axis]));
    let upper_corner = [1, 0].map(|axis| signed(windows.padding[axis]) - signed(windows.reach(axis) - 1));
    let pixel = 2 * packed.padded_channels as u64;
    let map = TensorMap {
        extents: [packed.padded_channels, shape[3], shape[2], shape[0]].map(|extent| extent as u64).to_vec(),
        strides: vec![pixel, pixel * shape[3] as u64, pixel * shape[3] as u64 * shape[2] as u64],
        boxes: TmaBox::Im2col {
            lower_corner,
            upper_corner,
            position_strides: [1, 0].map(|axis| narrow(windows.stride[axis])),
            channels: narrow(pingpong::TERMS),
            positions: narrow(pingpong::COLUMNS),
        },
    };
    MapArgument { map, at: Pointer::Workspace(packed.images_offset) }
}

fn narrow(extent: usize) -> u32 {
    u32::try_from(extent).unwrap_or(u32::MAX)
}

/// The kernel of a step.
fn source(checked: &Checked<'_>) -> JitSource {
    let step = checked.step;
    let dtype = checked.step.output.dtype;
    let operands = operands(dtype, step.epilogue.as_ref(), &wgmma(dtype));
    let vector = checked.vector(8);
    let has_bias = checked.has_bias();
    let threads = pingpong::THREADS;
    let cluster = pingpong::CLUSTER;
    let text = format!(
        "#include \"ir/prelude.cuh\"\n#include \"tensor/conv_sm90.cuh\"\n\n{operands}\n\
         extern \"C\" __global__ void CLUSTER_OF({cluster}) __launch_bounds__({threads}, 1) tensor_conv_sm90(const __grid_constant__ Conv conv,\n    \
         const __grid_constant__ TensorMap filters, const __grid_constant__ TensorMap images) {{\n\
         #ifdef __CUDA_ARCH_FEAT_SM90_ALL\n    conv_sm90<{vector}, {has_bias}, Operands>(conv, filters, images);\n#endif\n}}\n"
    );
    let params = vec![size_of::<Conv>(), TENSOR_MAP_BYTES, TENSOR_MAP_BYTES];
    JitSource { template: "tensor_conv_sm90", text, headers: HEADERS, options: vec![NO_FMA.to_owned()], params }
}
