//! Convolutions: on tensor cores, on the general-purpose cores, or directly where groups have few channels.

mod mma;
mod packed;
mod simt;
mod sm90;
#[cfg(test)]
mod tests;

use accelerd_ir::scalar::Function;
use accelerd_tensor::{ConvStep, View};

use super::{
    buffers::{Address, BufferSizes},
    launches::{Argument, Launch, Launches, blocks_x},
    operands::operands,
    pingpong::{PINGPONG, PINGPONG_LAUNCH},
    prelude::{NO_FMA, PRELUDE},
};
use crate::{
    OpError,
    cuda::{
        COMMON, Grid, JitSource, MAINLOOP_MMA, MAINLOOP_SM90, MMA, Source, TENSOR_MAP_LAUNCH, TMA, WGMMA, cu,
        launch_structs,
    },
};

launch_structs! {
    header LAUNCH = "tensor/conv_launch.cuh";

    /// Threads of a block, but for Hopper's.
    const CONV_THREADS: u32 = 256;

    /// Terms between two barriers on the general-purpose cores, of one channel each.
    const SIMT_DEPTH: usize = 8;
    /// The edge of a tile is as many times the sums of a thread along it.
    const SIMT_SIDE: usize = 16;

    /// Channels and positions that a block packs.
    const PACK_TILE: usize = 64;

    /// On tensor cores: positions of a block's tile, bytes of a step's rows, and steps in shared memory.
    const MMA_POSITIONS: usize = 128;
    const MMA_ROW_BYTES: usize = 128;
    const MMA_STAGES: usize = 3;
    /// The alignment of the stages, of which the start of the shared memory may lack some.
    const MMA_ALIGNMENT: usize = 1024;
    /// Dynamic shared memory.
    const fn conv_mma_shared_bytes(channels: usize) -> usize {
        MMA_STAGES * (channels + MMA_POSITIONS) * MMA_ROW_BYTES + MMA_ALIGNMENT
    }

    /// The pipeline of the kernel for Hopper: stages of k tiles, and staging buffers of each consumer warp.
    const SM90_STAGES: usize = 5;
    const SM90_BUFFERS: usize = 1;

    /// A convolution. Pairs are of height and width.
    struct Conv {
        input: u64,
        weight: u64,
        bias: u64,
        output: u64,
        /// Bytes from the start of the workspace to the packed images.
        images_offset: i64,
        /// Channels of a group in the workspace.
        padded_channels: i64,
        batch: i64,
        channels: i64,
        out_channels: i64,
        groups: i64,
        /// The extents of the input.
        height: i64,
        width: i64,
        /// The extents of the output.
        rows: i64,
        columns: i64,
        kernel: [i64; 2],
        stride: [i64; 2],
        padding: [i64; 2],
        dilation: [i64; 2],
    }
}

const HEADERS: &[Source] = &[
    COMMON,
    MMA,
    WGMMA,
    PRELUDE,
    LAUNCH,
    cu!("tensor/pack.cuh"),
    cu!("tensor/conv.cuh"),
    cu!("tensor/conv_direct.cuh"),
    cu!("tensor/conv_simt.cuh"),
    cu!("tensor/conv_pack.cuh"),
    cu!("tensor/conv_mma.cuh"),
    TENSOR_MAP_LAUNCH,
    TMA,
    PINGPONG_LAUNCH,
    MAINLOOP_MMA,
    MAINLOOP_SM90,
    PINGPONG,
    cu!("tensor/conv_sm90.cuh"),
];
/// With fewer blocks of large tiles, smaller ones use more of a device.
const MIN_BLOCKS: usize = 128;
/// Exclusive bound of the extents of tiled kernels, which step through images and kernels in 32 bits.
const MAX_TILED_EXTENT: usize = 1 << 30;

/// The launches of a step on a device of a compute capability.
pub(super) fn prepare(step: &ConvStep, sizes: &BufferSizes, capability: (u32, u32)) -> Result<Launches, OpError> {
    let checked = Checked::new(step, sizes)?;
    if step.output.layout.elements() == 0 {
        return Ok(Launches::default());
    }
    if checked.is_direct() {
        return direct(&checked);
    }
    if let Some(launches) = sm90::prepare(&checked, capability)? {
        return Ok(launches);
    }
    match mma::Multiplied::of(step).filter(|_| capability >= (8, 0) && checked.fits_mma()) {
        Some(multiplied) => mma::prepare(&checked, multiplied),
        None => simt::prepare(&checked),
    }
}

/// A thread for each result.
fn direct(checked: &Checked<'_>) -> Result<Launches, OpError> {
    let results = checked.step.output.layout.elements();
    let index = if u32::try_from(results).is_ok() { "u32" } else { "u64" };
    let call = format!("conv_direct<{index}, {}, Operands>(conv)", checked.has_bias());
    let kernel = ConvKernel {
        template: "tensor_conv_direct",
        header: "conv_direct",
        members: "",
        blocks_per_sm: 1,
        call: &call,
    };
    let conv = checked.conv(0, 0);
    Ok(Launches::one(checked.launch(&kernel, conv, results.div_ceil(CONV_THREADS as usize), 0)?))
}

/// A step whose views fit each other.
struct Checked<'a> {
    step: &'a ConvStep,
    /// The addresses of input, weight, bias and output.
    addresses: [Address; 4],
}

/// The text of a kernel but for its operands.
struct ConvKernel<'a> {
    template: &'static str,
    /// In `tensor/`, without its extension.
    header: &'static str,
    /// Members of `Operands`.
    members: &'a str,
    blocks_per_sm: u32,
    call: &'a str,
}

impl<'a> Checked<'a> {
    fn new(step: &'a ConvStep, sizes: &BufferSizes) -> Result<Self, OpError> {
        let (&[batch, channels, ..], &[out_channels, group_channels, height, width]) =
            (&step.input.layout.shape[..], &step.weight.layout.shape[..])
        else {
            return Err(invalid("images and filters of four dimensions"));
        };
        let windows = &step.windows;
        let is_divided = step.groups > 0
            && out_channels.is_multiple_of(step.groups)
            && group_channels.checked_mul(step.groups) == Some(channels);
        if !is_divided || windows.kernel != [height, width] || windows.kernel.contains(&0) {
            return Err(invalid("filters of the channels and the kernel of the windows"));
        }
        if !matches!(step.output.layout.shape[..], [images, outs, _, _] if images == batch && outs == out_channels) {
            return Err(invalid("a result of four dimensions for each image and filter"));
        }
        let dtype = step.output.dtype;
        let is_fitting = |view: &View| view.dtype == dtype && view.layout.is_contiguous();
        let of_outputs = |bias: &View| bias.layout.shape == [out_channels] && is_fitting(bias);
        let fits = [&step.input, &step.weight, &step.output].into_iter().all(is_fitting);
        if !fits || !dtype.is_float() || !step.bias.as_ref().is_none_or(of_outputs) {
            return Err(invalid("contiguous views of one type of floating-point numbers"));
        }
        let is_unary = |f: &Function| f.params() == [dtype] && matches!(f.results(), [only] if f.dtype(*only) == dtype);
        if !step.epilogue.as_ref().is_none_or(is_unary) {
            return Err(invalid("an epilogue of one parameter and one result of the result's type"));
        }
        let bias = step.bias.as_ref().map_or(Ok(Address::Null), |bias| sizes.address(bias))?;
        let input = sizes.address(&step.input)?;
        let weight = sizes.address(&step.weight)?;
        Ok(Self { step, addresses: [input, weight, bias, sizes.address_mut(&step.output)?] })
    }

    fn has_bias(&self) -> bool {
        self.step.bias.is_some()
    }

    fn group_channels(&self) -> usize {
        self.step.weight.layout.shape[1]
    }

    /// Output channels of a group.
    fn outputs(&self) -> usize {
        self.step.weight.layout.shape[0] / self.step.groups
    }

    /// Positions of an image of the output.
    fn area(&self) -> usize {
        self.step.output.layout.shape[2..].iter().product()
    }

    /// Positions of all images of the output.
    fn positions(&self) -> usize {
        self.step.output.layout.shape[0] * self.area()
    }

    /// Terms of a sum with the channels of a group padded.
    fn terms(&self, padded_channels: usize) -> usize {
        self.step.windows.kernel.iter().product::<usize>() * padded_channels
    }

    /// Returns true if tiles would be mostly empty, or the channels too many for them.
    fn is_direct(&self) -> bool {
        self.step.is_narrow() || self.group_channels() >= MAX_TILED_EXTENT
    }

    /// Returns true if 32 bits hold positions, and rows and columns of the padded images.
    fn fits_mma(&self) -> bool {
        let windows = &self.step.windows;
        let output = &self.step.output.layout.shape;
        let reach =
            |axis: usize| (output[axis + 2] - 1) * windows.stride[axis] + windows.reach(axis) + windows.padding[axis];
        let extents = [0, 1].map(|axis| reach(axis).max(self.step.input.layout.shape[axis + 2]));
        extents.iter().all(|extent| *extent < MAX_TILED_EXTENT) && self.positions() < 2 * MAX_TILED_EXTENT
    }

    /// The blocks of tiles with these edges along the output channels of a group and along positions.
    fn blocks(&self, channels: usize, positions: usize) -> usize {
        self.outputs().div_ceil(channels) * self.step.groups * self.positions().div_ceil(positions)
    }

    /// The most neighbouring results, a power of two up to `limit`, that are written by one instruction of at most 16 bytes.
    fn vector(&self, limit: usize) -> usize {
        let size = self.step.output.dtype.size();
        let fits = |vector: &usize| {
            let bytes = vector * size;
            bytes <= 16 && self.area().is_multiple_of(*vector) && self.addresses[3].is_aligned(bytes)
        };
        [8, 4, 2].into_iter().filter(|vector| *vector <= limit).find(fits).unwrap_or(1)
    }

    fn conv(&self, padded_channels: usize, images_offset: usize) -> Conv {
        let input = &self.step.input.layout.shape;
        let output = &self.step.output.layout.shape;
        let signed = |extent: usize| extent.cast_signed() as i64;
        let pair = |pair: [usize; 2]| pair.map(signed);
        let windows = &self.step.windows;
        Conv {
            input: 0,
            weight: 0,
            bias: 0,
            output: 0,
            images_offset: signed(images_offset),
            padded_channels: signed(padded_channels),
            batch: signed(input[0]),
            channels: signed(input[1]),
            out_channels: signed(output[1]),
            groups: signed(self.step.groups),
            height: signed(input[2]),
            width: signed(input[3]),
            rows: signed(output[2]),
            columns: signed(output[3]),
            kernel: pair(windows.kernel),
            stride: pair(windows.stride),
            padding: pair(windows.padding),
            dilation: pair(windows.dilation),
        }
    }

    /// A launch of a kernel that writes the output.
    fn launch(&self, kernel: &ConvKernel<'_>, conv: Conv, blocks: usize, shared_bytes: u32) -> Result<Launch, OpError> {
        let operands = operands(self.step.output.dtype, self.step.epilogue.as_ref(), kernel.members);
        self.launch_with(kernel, &operands, conv, blocks, shared_bytes)
    }

    /// A launch of a kernel that packs, and applies no epilogue.
    fn pack(&self, kernel: &ConvKernel<'_>, conv: Conv, blocks: usize) -> Result<Launch, OpError> {
        self.launch_with(kernel, &operands(self.step.output.dtype, None, ""), conv, blocks, 0)
    }

    fn launch_with(
        &self,
        kernel: &ConvKernel<'_>,
        operands: &str,
        conv: Conv,
        blocks: usize,
        shared_bytes: u32,
    ) -> Result<Launch, OpError> {
        let &ConvKernel { template, header, blocks_per_sm, call, .. } = kernel;
        let text = format!(
            "#include \"ir/prelude.cuh\"\n#include \"tensor/{header}.cuh\"\n\n{operands}\nextern \"C\" __global__ void \
             __launch_bounds__({CONV_THREADS}, {blocks_per_sm}) {template}(const Conv conv, const u64 workspace) {{\n    {call};\n}}\n"
        );
        let options = vec![NO_FMA.to_owned()];
        let params = vec![size_of::<Conv>(), size_of::<u64>()];
        let mut arguments = Argument::structure(conv, &self.addresses);
        arguments.push(Argument::Workspace(0));
        Ok(Launch {
            shared_bytes,
            ..Launch::new(
                JitSource { template, text, headers: HEADERS, options, params },
                Grid::x(blocks_x(blocks)?),
                CONV_THREADS,
                arguments,
            )
        })
    }
}

/// Blocks that pack elements, which take turns if there are many.
fn pack_blocks(elements: usize) -> usize {
    elements.div_ceil(CONV_THREADS as usize).min(1 << 16)
}

fn invalid(expected: &str) -> OpError {
    OpError::Invalid(format!("a convolution: expected {expected}"))
}
