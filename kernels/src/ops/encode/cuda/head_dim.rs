//! Head sizes that the attention kernels support; weights and hidden states pad heads to them.

use crate::ops::encode::DType;

/// Padded head sizes of the tensor core kernels.
pub(super) const MMA_HEAD_DIMS: [usize; 3] = [32, 64, 128];

/// The padded head size: one of [`MMA_HEAD_DIMS`] for the tensor core kernels, else whole chunks of 16 bytes.
pub(super) fn padded_head_dim(dtype: DType, head: usize) -> usize {
    match dtype {
        DType::F32 => head.next_multiple_of(4),
        DType::F16 | DType::Bf16 if head > 128 => head.next_multiple_of(8),
        DType::F16 | DType::Bf16 => head.next_power_of_two().max(32),
    }
}

/// The index in [`MMA_HEAD_DIMS`] of a head size for which there are `mma.sync` kernels. They read binary16.
pub(super) fn mma_head_dim_index(dtype: DType, head: usize, capability: (u32, u32)) -> Option<usize> {
    let padded = padded_head_dim(dtype, head);
    MMA_HEAD_DIMS.iter().position(|dim| *dim == padded).filter(|_| dtype != DType::F32 && capability.0 >= 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_padded_to_what_the_kernels_take() {
        let padded = |dtype| [8, 32, 33, 64, 96, 128, 130].map(|head| padded_head_dim(dtype, head));
        assert_eq!(padded(DType::Bf16), [32, 32, 64, 64, 128, 128, 136]);
        assert_eq!(padded(DType::F32), [8, 32, 36, 64, 96, 128, 132]);
    }
}
