//! Convolutions on tensor cores.

use accelerd_tensor::{Accumulate, ConvStep, Dtype};

use super::{
    super::launches::Launches, Checked, ConvKernel, MIN_BLOCKS, MMA_POSITIONS, conv_mma_shared_bytes, packed::Packed,
};
use crate::OpError;

/// The type of the factors that tensor cores multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Multiplied {
    F16,
    Bf16,
    Tf32,
}

impl Multiplied {
    /// The type that a step permits; `None` if its products are exact.
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
    let size = checked.step.output.dtype.size();
    let packed = Packed::new(checked)?;
    let is_large = checked.outputs() > 64 && checked.blocks(128, MMA_POSITIONS) >= MIN_BLOCKS;
    let channels = if is_large { 128 } else { 64 };
    let multiply = ConvKernel {
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
    let shared_bytes =
        u32::try_from(conv_mma_shared_bytes(channels)).map_err(|error| OpError::Invalid(error.to_string()))?;
    let launch = checked.launch(&multiply, packed.conv, checked.blocks(channels, MMA_POSITIONS), shared_bytes)?;
    Ok(packed.followed_by(launch))
}
