//! The contract of all GEMM kernels: parameters of a linear layer, and the headers that they share.

use crate::cuda::{Source, cu, launch_structs};

launch_structs! {
    pub(super) header LINEAR_LAUNCH = "launch/linear.cuh";

    /// The epilogue of a linear layer, after the bias.
    pub(super) const PLAIN: u32 = 0;
    pub(super) const GELU: u32 = 1;
    pub(super) const GELU_TANH: u32 = 2;
    pub(super) const RELU: u32 = 3;
    pub(super) const SILU: u32 = 4;
    /// No activation; the output is binary16 whatever the compute type is, saturated to its range.
    pub(super) const CLAMP_F16: u32 = 5;

    /// Parameters of a linear layer, for all GEMM kernels.
    pub(super) struct LinearParams {
        pub(super) x: "const u8*",
        pub(super) weight: "const u8*",
        pub(super) bias: "const float*",
        pub(super) out: "u8*",
        pub(super) rows: u32,
        pub(super) columns: u32,
        pub(super) k_tiles: u32,
        pub(super) out_tiles_per_row: u32,
        pub(super) activation: u32,
        pub(super) gated: u32,
        pub(super) reverse: u32,
        pub(super) unused: u32,
    }
}

pub(super) const ACTIVATION: Source = cu!("common/activation.cuh");
pub(super) const LINEAR: Source = cu!("gemm/linear.cuh");
pub(super) const EPILOGUE: Source = cu!("gemm/epilogue.cuh");
pub(super) const TILE_SCHEDULER: Source = cu!("gemm/tile_scheduler.cuh");
