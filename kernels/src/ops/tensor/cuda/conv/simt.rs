//! Convolutions on the general-purpose cores: of f32 and f64, and of every type where the tensor cores do not multiply it.

use accelerd_tensor::Dtype;

use super::{super::launches::Launches, Checked, ConvKernel, MIN_BLOCKS, SIMT_DEPTH, SIMT_SIDE, pack_blocks};
use crate::OpError;

/// The launches that pack the filters and multiply.
pub(super) fn prepare(checked: &Checked<'_>) -> Result<Launches, OpError> {
    let dtype = checked.step.output.dtype;
    let padded_channels = checked.group_channels().next_multiple_of(SIMT_DEPTH);
    let filters = checked.step.weight.layout.shape[0] * checked.terms(padded_channels);
    let conv = checked.conv(padded_channels, 0);
    let is_large = dtype != Dtype::F64
        && checked.outputs() > 4 * SIMT_SIDE
        && checked.blocks(8 * SIMT_SIDE, 8 * SIMT_SIDE) >= MIN_BLOCKS;
    let per_side = if is_large { 8 } else { 4 };
    let pack = ConvKernel {
        template: "tensor_conv_pack_filters",
        header: "conv_simt",
        members: "",
        blocks_per_sm: 1,
        call: "pack_filters_simt<Operands>(conv, workspace)",
    };
    let call =
        format!("conv_simt<{per_side}, {}, {}, Operands>(conv, workspace)", checked.vector(4), checked.has_bias());
    let multiply =
        ConvKernel { template: "tensor_conv_simt", header: "conv_simt", members: "", blocks_per_sm: 2, call: &call };
    let blocks = checked.blocks(SIMT_SIDE * per_side, SIMT_SIDE * per_side);
    Ok(Launches {
        launches: vec![checked.pack(&pack, conv, pack_blocks(filters))?, checked.launch(&multiply, conv, blocks, 0)?],
        workspace_bytes: filters * dtype.compute().size(),
        ..Launches::default()
    })
}
