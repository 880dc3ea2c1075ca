//! The sources of the encoder's kernels, compiled one by one.

use super::kernels::{
    ATTEND, ATTEND_EXACT, ATTEND_GROUP, BROAD, EMBED, EMBED_EARLY, EVEN, LINEAR_EXACT, MIDDLE, NORM, NORM_EARLY, PACK,
    POOL, RELAY, SMALL, TURN, WIDE,
};
use crate::cuda::{Module, modules::COMMON};

pub(super) const ENCODE: (&str, &str) = ("encode.cuh", include_str!("../../../../cu/encode.cuh"));
const ATTENTION: (&str, &str) = ("encode_attention.cuh", include_str!("../../../../cu/encode_attention.cuh"));
const ATTEND_HEADER: (&str, &str) = ("encode_attend.cuh", include_str!("../../../../cu/encode_attend.cuh"));
const GROUP_HEADER: (&str, &str) = ("encode_attend_group.cuh", include_str!("../../../../cu/encode_attend_group.cuh"));
const WIDE_HEADER: (&str, &str) = ("encode_attend_wide.cuh", include_str!("../../../../cu/encode_attend_wide.cuh"));
pub(super) const RELAY_HEADER: (&str, &str) = ("encode_relay.cuh", include_str!("../../../../cu/encode_relay.cuh"));
pub(super) const LINEAR: (&str, &str) = ("encode_linear.cuh", include_str!("../../../../cu/encode_linear.cuh"));
pub(super) const MMA: (&str, &str) = ("mma.cuh", include_str!("../../../../cu/mma.cuh"));
pub(super) const WGMMA: (&str, &str) = ("wgmma.cuh", include_str!("../../../../cu/wgmma.cuh"));

/// Weights.
pub(crate) static WEIGHTS: Module = Module {
    name: "encode_weights",
    source: include_str!("../../../../cu/encode_weights.cu"),
    headers: &[COMMON, ENCODE],
    kernels: &[PACK],
};

/// Embedding sums and norms.
pub(crate) static ROWS: Module = Module {
    name: "encode_rows",
    source: include_str!("../../../../cu/encode_rows.cu"),
    headers: &[COMMON, ENCODE],
    kernels: &[
        EMBED[0][0],
        EMBED[0][2],
        EMBED[1][0],
        EMBED[1][2],
        EMBED[2][0],
        EMBED[2][2],
        EMBED_EARLY[1][0],
        EMBED_EARLY[2][0],
        NORM[0][0],
        NORM[0][2],
        NORM[1][0],
        NORM[1][1],
        NORM[1][2],
        NORM[2][0],
        NORM[2][1],
        NORM[2][2],
        NORM_EARLY[1][0],
        NORM_EARLY[1][1],
        NORM_EARLY[2][0],
        NORM_EARLY[2][1],
    ],
};

/// Queries and keys before they meet.
pub(crate) static TURNS: Module = Module {
    name: "encode_heads",
    source: include_str!("../../../../cu/encode_heads.cu"),
    headers: &[COMMON, ENCODE],
    kernels: &[TURN[0], TURN[1], TURN[2]],
};

/// The rows of an answer.
pub(crate) static ANSWERS: Module = Module {
    name: "encode_pool",
    source: include_str!("../../../../cu/encode_pool.cu"),
    headers: &[COMMON, ENCODE],
    kernels: &[POOL[0][0], POOL[0][2], POOL[1][0], POOL[1][2], POOL[2][0], POOL[2][2]],
};

/// f32 arithmetic.
pub(crate) static EXACT: Module = Module {
    name: "encode_exact",
    source: include_str!("../../../../cu/encode_exact.cu"),
    headers: &[COMMON, ENCODE, ATTENTION],
    kernels: &[LINEAR_EXACT[0], LINEAR_EXACT[1], LINEAR_EXACT[2], ATTEND_EXACT[0], ATTEND_EXACT[1], ATTEND_EXACT[2]],
};

/// Linear layers on Hopper, f16.
pub(crate) static LINEARS_F16: Module = Module {
    name: "encode_linear_f16",
    source: include_str!("../../../../cu/encode_linear_f16.cu"),
    headers: &[COMMON, ENCODE, MMA, WGMMA, LINEAR],
    kernels: &[WIDE.f16, BROAD.f16, EVEN.f16, MIDDLE.f16, SMALL.f16],
};

/// Linear layers on Hopper, bf16.
pub(crate) static LINEARS_BF16: Module = Module {
    name: "encode_linear_bf16",
    source: include_str!("../../../../cu/encode_linear_bf16.cu"),
    headers: &[COMMON, ENCODE, MMA, WGMMA, LINEAR],
    kernels: &[WIDE.bf16, BROAD.bf16, EVEN.bf16, MIDDLE.bf16, SMALL.bf16],
};

/// Linear layers by warpgroups that relieve one another, f16.
pub(crate) static RELAYS_F16: Module = Module {
    name: "encode_relay_f16",
    source: include_str!("../../../../cu/encode_relay_f16.cu"),
    headers: &[COMMON, ENCODE, MMA, WGMMA, LINEAR, RELAY_HEADER],
    kernels: &[RELAY.f16],
};

/// Linear layers by warpgroups that relieve one another, bf16.
pub(crate) static RELAYS_BF16: Module = Module {
    name: "encode_relay_bf16",
    source: include_str!("../../../../cu/encode_relay_bf16.cu"),
    headers: &[COMMON, ENCODE, MMA, WGMMA, LINEAR, RELAY_HEADER],
    kernels: &[RELAY.bf16],
};

/// Attention on Hopper.
pub(crate) static ATTEND_GROUPS: Module = Module {
    name: "encode_attend_group",
    source: include_str!("../../../../cu/encode_attend_group.cu"),
    headers: &[COMMON, ENCODE, MMA, WGMMA, ATTENTION, ATTEND_HEADER, GROUP_HEADER],
    kernels: &[ATTEND_GROUP[0].kernel, ATTEND_GROUP[1].kernel],
};

/// Attention with wide heads on Hopper.
pub(crate) static ATTEND_WIDE: Module = Module {
    name: "encode_attend_wide",
    source: include_str!("../../../../cu/encode_attend_wide.cu"),
    headers: &[COMMON, ENCODE, MMA, WGMMA, ATTENTION, ATTEND_HEADER, GROUP_HEADER, WIDE_HEADER],
    kernels: &[ATTEND_GROUP[2].kernel],
};

/// Attention on tensor cores.
pub(crate) static ATTENDS: Module = Module {
    name: "encode_attend",
    source: include_str!("../../../../cu/encode_attend.cu"),
    headers: &[COMMON, ENCODE, MMA, ATTENTION, ATTEND_HEADER],
    kernels: &[ATTEND[0][0], ATTEND[0][1], ATTEND[1][0], ATTEND[1][1], ATTEND[2][0], ATTEND[2][1]],
};
