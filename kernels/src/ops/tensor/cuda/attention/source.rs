//! The text of attention's kernels: types and constants before a template.

use accelerd_ir::{Dtype, scalar::cuda::ctype};
use accelerd_tensor::AttentionStep;

use super::{
    super::prelude::PRELUDE,
    Attention, LAUNCH,
    variant::{Mma, TILES_LAUNCH, Variant, simt_tile},
};
use crate::cuda::{COMMON, JitSource, MMA, Source, TENSOR_MAP_BYTES, TENSOR_MAP_LAUNCH, TMA, WGMMA, cu};

const HEADERS: &[Source] = &[
    COMMON,
    PRELUDE,
    LAUNCH,
    TILES_LAUNCH,
    MMA,
    WGMMA,
    TENSOR_MAP_LAUNCH,
    TMA,
    cu!("common/activation.cuh"),
    cu!("attention/online_softmax.cuh"),
    cu!("attention/warp_scheduler.cuh"),
    cu!("tensor/pack.cuh"),
    cu!("tensor/attention.cuh"),
    cu!("tensor/attention_tile.cuh"),
    cu!("tensor/attention_mma.cuh"),
    cu!("tensor/attention_sm90.cuh"),
    cu!("tensor/attention_simt.cuh"),
    cu!("tensor/attention_rows.cuh"),
];

/// The parameters of the generated text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text {
    dtype: Dtype,
    mask: Option<Dtype>,
    is_causal: bool,
    has_lengths: bool,
    variant: Variant,
}

impl Text {
    pub(super) fn new(step: &AttentionStep, variant: Variant) -> Self {
        Self {
            dtype: step.query.dtype,
            mask: step.mask.as_ref().map(|mask| mask.dtype),
            is_causal: step.is_causal,
            has_lengths: step.lengths.is_some(),
            variant,
        }
    }

    /// The kernel that computes the rows, or parts of them.
    pub(super) fn source(&self) -> JitSource {
        match self.variant {
            Variant::Sm90 { .. } => {
                self.kernel("tensor_attention_sm90", "attention_sm90(attention, query_map, key_map, value_map)")
            }
            Variant::Mma(_) => self.kernel("tensor_attention_mma", "attention_mma(attention, workspace)"),
            Variant::Simt { .. } => self.kernel("tensor_attention_simt", "attention_simt(attention)"),
            Variant::Rows => self.kernel("tensor_attention_rows", "attention_rows(attention)"),
        }
    }

    /// The kernel that combines parts.
    pub(super) fn combine(&self) -> JitSource {
        // It reads no operand, so that one kernel serves all masks.
        let plain = Self { mask: None, is_causal: false, has_lengths: false, ..*self };
        plain.kernel("tensor_attention_combine", "attention_combine(attention, workspace)")
    }

    fn kernel(&self, template: &'static str, call: &str) -> JitSource {
        let Self { dtype, mask, is_causal, has_lengths, variant } = *self;
        let element = ctype(dtype);
        let compute = ctype(dtype.compute());
        let is_stored = dtype.compute() != dtype;
        let [widen, narrow] = if is_stored {
            [format!("ir::{dtype}_to_f32(x)"), format!("ir::f32_to_{dtype}(x)")]
        } else {
            ["x".to_owned(), "x".to_owned()]
        };
        let (kind, mask_element, widen_mask) = match mask {
            None => ("NO_MASK", "unsigned char", "x"),
            Some(Dtype::Bool) => ("BOOL_MASK", "unsigned char", "x"),
            Some(mask) if mask == dtype => ("ADDED_MASK", element, &widen[..]),
            Some(mask) => ("ADDED_MASK", ctype(mask), "x"),
        };
        let constants = self.constants();
        let header = match variant {
            Variant::Sm90 { .. } => "tensor/attention_sm90.cuh",
            Variant::Mma(_) => "tensor/attention_mma.cuh",
            Variant::Simt { .. } => "tensor/attention_simt.cuh",
            Variant::Rows => "tensor/attention_rows.cuh",
        };
        let threads = variant.threads();
        let mut params = vec![size_of::<Attention>(), size_of::<u64>()];
        let mut maps = "";
        if let Variant::Sm90 { .. } = variant {
            params.extend([TENSOR_MAP_BYTES; 3]);
            maps = ",\n    const __grid_constant__ TensorMap query_map, const __grid_constant__ TensorMap key_map, \
                    const __grid_constant__ TensorMap value_map";
        }
        let text = format!(
            "#include \"ir/prelude.cuh\"\n#include \"common/mma.cuh\"\n\ntypedef {element} Element;\ntypedef {compute} Compute;\n\
             typedef {mask_element} MaskElement;\n\
             __device__ __forceinline__ Compute widen(Element x) {{ return {widen}; }}\n\
             __device__ __forceinline__ Element narrow(Compute x) {{ return {narrow}; }}\n\
             __device__ __forceinline__ Compute widen_mask(MaskElement x) {{ return {widen_mask}; }}\n\
             enum Mask {{ NO_MASK, BOOL_MASK, ADDED_MASK }};\nconstexpr Mask MASK = {kind};\n\
             constexpr bool IS_CAUSAL = {is_causal}, HAS_LENGTHS = {has_lengths};\n{constants}\n#include \"{header}\"\n\n\
             extern \"C\" __global__ void __launch_bounds__({threads}) {template}(const Attention attention, const u64 workspace{maps}) {{\n    \
             {call};\n}}\n"
        );
        JitSource { template, text, headers: HEADERS, options: vec![], params }
    }

    fn constants(&self) -> String {
        let pack = format!("f32_to_{}x2(low, high)", self.dtype);
        let pack = format!("__device__ __forceinline__ u32 pack(float low, float high) {{ return {pack}; }}");
        match self.variant {
            Variant::Sm90 { dim } => {
                let wgmma = if self.dtype == Dtype::F16 { "WgmmaF16" } else { "WgmmaBf16" };
                format!(
                    "constexpr int DIM = {dim};\n#include \"common/wgmma.cuh\"\n#ifdef __CUDA_ARCH_FEAT_SM90_ALL\ntypedef {wgmma} Wgmma;\n\
                     #endif\n{pack}"
                )
            }
            Variant::Mma(Mma { dim, value_dim, tiles, parts, .. }) => {
                let mma = if self.dtype == Dtype::F16 { "MmaF16" } else { "MmaBf16" };
                format!(
                    "constexpr int DIM = {dim}, VALUE_DIM = {value_dim}, TILES = {tiles};\nconstexpr bool IS_PARTIAL = {};\n\
                     #if __CUDA_ARCH__ >= 800\ntypedef {mma} Mma;\n#endif\n{pack}",
                    parts > 1
                )
            }
            Variant::Simt { dim, vec } => {
                let (queries, keys) = simt_tile(dim);
                format!("constexpr int DIM = {dim}, QUERIES = {queries}, KEYS = {keys}, VEC = {vec};")
            }
            Variant::Rows => String::new(),
        }
    }
}
