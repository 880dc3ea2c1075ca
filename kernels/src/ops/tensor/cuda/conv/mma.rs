//! Convolutions on tensor cores.

use accelerd_tensor::{Accumulate, ConvStep, Dtype, Plan};

use super::{super::launches::Launches, Checked, Kernel, MIN_BLOCKS, pack_blocks};
use crate::OpError;

/// Positions of a block's tile, bytes of a step's rows, and steps in shared memory.
const POSITIONS: usize = 128;
const ROW_BYTES: usize = 128;
const STAGES: usize = 3;
/// The alignment of the stages, of which the start of the shared memory may lack some.
const STAGE_ALIGNMENT: usize = 1024;
/// Bytes that are copied at once.
const CHUNK_BYTES: usize = 16;
/// Channels and positions that a block packs.
const PACKED_TILE: usize = 64;

/// What the tensor cores multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Multiplied {
    F16,
    Bf16,
    Tf32,
}

impl Multiplied {
    /// What a step permits; `None` if its products are exact.
    pub(super) fn of(step: &ConvStep) -> Option<Self> {
        if step.output.dtype == Dtype::F16 {
            Some(Self::F16)
        } else if step.output.dtype == Dtype::Bf16 {
            Some(Self::Bf16)
        } else if step.output.dtype == Dtype::F32 && step.accumulate == Accumulate::Tf32 {
            Some(Self::Tf32)
        } else {
            None
        }
    }

    /// C++ of the type that multiplies.
    fn members(self) -> String {
        let name = match self {
            Self::F16 => "F16",
            Self::Bf16 => "Bf16",
            Self::Tf32 => "Tf32",
        };
        format!(
            "#ifdef __CUDA_ARCH_FEAT_SM90_ALL\n    typedef Wgmma{name} Mma;\n#elif __CUDA_ARCH__ >= 800\n    typedef Mma{name} \
             Mma;\n#endif\n"
        )
    }
}

/// The launches that pack filters and images, and multiply.
pub(super) fn prepare(checked: &Checked<'_>, multiplied: Multiplied) -> Result<Launches, OpError> {
    let (step, size) = (checked.step, checked.step.output.dtype.size());
    let padded_channels = checked.group_channels().next_multiple_of(CHUNK_BYTES / size);
    let packed_channels = step.groups * padded_channels;
    let filters = step.weight.layout.shape[0] * checked.terms(padded_channels);
    let images_offset = (filters * size).next_multiple_of(Plan::ALIGNMENT);
    let (batch, area) = (step.input.layout.shape[0], step.input.layout.shape[2..].iter().product::<usize>());
    let conv = checked.conv(padded_channels, images_offset);

    let is_large = checked.outputs() > 64 && checked.blocks(128, POSITIONS) >= MIN_BLOCKS;
    let channels = if is_large { 128 } else { 64 };
    let pack_filters = Kernel {
        template: "tensor_conv_pack_filters",
        header: "conv_pack",
        members: "",
        blocks_per_sm: 1,
        call: "pack_filters<Operands::Element>(conv, workspace)",
    };
    let input_vector = if area.is_multiple_of(4) && checked.addresses[0].is_aligned(4 * size) { 4 } else { 1 };
    let pack_images = Kernel {
        template: "tensor_conv_pack_images",
        call: &format!("pack_images<Operands::Element, {input_vector}>(conv, workspace)"),
        ..pack_filters
    };
    let multiply = Kernel {
        template: "tensor_conv_mma",
        header: "conv_mma",
        members: &multiplied.members(),
        blocks_per_sm: 2,
        call: &format!(
            "\n#if __CUDA_ARCH__ >= 800\n    conv_mma<{channels}, {}, {}, Operands, {size}>(conv, workspace);\n#endif\n    ",
            checked.vector(8),
            checked.has_bias()
        ),
    };
    let image_blocks = batch * packed_channels.div_ceil(PACKED_TILE) * area.div_ceil(PACKED_TILE);
    let shared_bytes = STAGES * (channels + POSITIONS) * ROW_BYTES + STAGE_ALIGNMENT;
    let shared_bytes = u32::try_from(shared_bytes).map_err(|error| OpError::Invalid(error.to_string()))?;
    Ok(Launches {
        launches: vec![
            checked.pack(&pack_filters, conv, pack_blocks(filters))?,
            checked.pack(&pack_images, conv, image_blocks)?,
            checked.launch(&multiply, conv, checked.blocks(channels, POSITIONS), shared_bytes)?,
        ],
        workspace_bytes: images_offset + batch * area * packed_channels * size,
        ..Launches::default()
    })
}
