//! A CUDA source file and the kernels it holds. The operations declare theirs; `ops::modules` lists all.

/// One CUDA translation unit with its kernels; compiled as a whole.
#[derive(Debug)]
pub struct Module {
    /// A unique name.
    pub name: &'static str,
    /// The `.cu` file.
    pub source: Source,
    /// All headers that the source includes, directly or not.
    pub headers: &'static [Source],
    /// Macros, as `NAME` or `NAME=VALUE`: instances of one source for several element types differ in these.
    pub defines: &'static [&'static str],
    /// The `extern "C"` kernels.
    pub kernels: &'static [Kernel],
}

/// A kernel: its name, unique over all modules, and the sizes of its parameters in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The `extern "C"` name.
    pub name: &'static str,
    /// Sizes of the parameters, in order.
    pub params: &'static [usize],
}

impl Module {
    /// The input of the compiler.
    pub(super) fn unit(&self) -> TranslationUnit<'_> {
        let options = self.defines.iter().map(|define| format!("-D{define}")).collect();
        let path = self.source.path.to_owned();
        TranslationUnit { name: self.name, path, text: self.source.text, headers: self.headers, options }
    }
}

/// A [`Module`] or a generated source, as the compiler and the cache on disk see it.
pub(super) struct TranslationUnit<'a> {
    /// Start of its file name in the cache.
    pub(super) name: &'static str,
    /// The file name in the compiler's messages.
    pub(super) path: String,
    pub(super) text: &'a str,
    pub(super) headers: &'a [Source],
    /// Options in addition to those of every unit.
    pub(super) options: Vec<String>,
}

/// A CUDA source or header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The path from `kernels/cu`, by which an `#include` names it.
    pub path: &'static str,
    /// The text.
    pub text: &'static str,
}

/// The [`Source`] at a path from `kernels/cu`: `cu!("common/common.cuh")`.
macro_rules! cu {
    ($path:literal) => {
        $crate::cuda::Source { path: $path, text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/cu/", $path)) }
    };
}
pub(crate) use cu;

/// Types, reductions and scans; every module includes it.
pub(crate) const COMMON: Source = cu!("common/common.cuh");
/// Matrix products by `mma.sync`.
pub(crate) const MMA: Source = cu!("common/mma.cuh");
/// Matrix products by `wgmma`, bulk copies and mbarriers, for sm_90a.
pub(crate) const WGMMA: Source = cu!("common/wgmma.cuh");
/// The products of a k tile by `mma.sync`, for a warp.
pub(crate) const MAINLOOP_MMA: Source = cu!("gemm/mainloop_mma.cuh");
/// The mainloop of products by `wgmma`, for sm_90a.
pub(crate) const MAINLOOP_SM90: Source = cu!("gemm/mainloop_sm90.cuh");
/// Copies of tiles by the tensor memory accelerator, for sm_90a.
pub(crate) const TMA: Source = cu!("common/tma.cuh");
