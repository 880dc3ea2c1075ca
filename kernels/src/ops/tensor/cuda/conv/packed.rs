//! Packed operands of convolutions on tensor cores: filters and images in the workspace, with the channels innermost.

use accelerd_tensor::Plan;

use super::{
    super::launches::{Launch, Launches},
    Checked, Conv, ConvKernel, PACK_TILE, pack_blocks,
};
use crate::OpError;

/// Bytes that are copied at once.
const CHUNK_BYTES: usize = 16;

/// Packed operands, and the launches that pack them.
pub(super) struct Packed {
    /// The convolution, with the place of the images, which follow the filters, and the padded channels.
    pub(super) conv: Conv,
    /// Channels of a group, padded to whole copies.
    pub(super) padded_channels: usize,
    /// Bytes from the start of the workspace to the images.
    pub(super) images_offset: usize,
    launches: Vec<Launch>,
    workspace_bytes: usize,
}

impl Packed {
    pub(super) fn new(checked: &Checked<'_>) -> Result<Self, OpError> {
        let step = checked.step;
        let size = checked.step.output.dtype.size();
        let padded_channels = checked.group_channels().next_multiple_of(CHUNK_BYTES / size);
        let packed_channels = step.groups * padded_channels;
        let filters = step.weight.layout.shape[0] * checked.terms(padded_channels);
        let images_offset = (filters * size).next_multiple_of(Plan::ALIGNMENT);
        let batch = step.input.layout.shape[0];
        let area = step.input.layout.shape[2..].iter().product::<usize>();
        let conv = checked.conv(padded_channels, images_offset);
        let pack_filters = ConvKernel {
            template: "tensor_conv_pack_filters",
            header: "conv_pack",
            members: "",
            blocks_per_sm: 1,
            call: "pack_filters<Operands::Element>(conv, workspace)",
        };
        let input_vector = if area.is_multiple_of(4) && checked.addresses[0].is_aligned(4 * size) { 4 } else { 1 };
        let pack_images = ConvKernel {
            template: "tensor_conv_pack_images",
            call: &format!("pack_images<Operands::Element, {input_vector}>(conv, workspace)"),
            ..pack_filters
        };
        let image_blocks = batch * packed_channels.div_ceil(PACK_TILE) * area.div_ceil(PACK_TILE);
        let launches = vec![
            checked.pack(&pack_filters, conv, pack_blocks(filters))?,
            checked.pack(&pack_images, conv, image_blocks)?,
        ];
        let workspace_bytes = images_offset + batch * area * packed_channels * size;
        Ok(Self { conv, padded_channels, images_offset, launches, workspace_bytes })
    }

    /// All launches of a convolution, of which this one multiplies.
    pub(super) fn followed_by(mut self, launch: Launch) -> Launches {
        self.launches.push(launch);
        Launches { launches: self.launches, workspace_bytes: self.workspace_bytes, ..Launches::default() }
    }
}
