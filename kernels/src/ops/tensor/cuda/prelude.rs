//! Sources that all generated kernels share.

use accelerd_ir::scalar::cuda;

use crate::cuda::Source;

/// Functions that emitted functions call.
pub(super) const PRELUDE: Source = Source { path: "ir/prelude.cuh", text: cuda::PRELUDE };

/// Fused multiply-adds round once where the interpreter of scalar functions rounds twice. Elementwise kernels are bound by the memory,
/// which hides the additional instructions; where a template wants a fused one, it calls it by name.
pub(super) const NO_FMA: &str = "--fmad=false";
