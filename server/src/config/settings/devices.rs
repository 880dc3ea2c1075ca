//! CPU threads and GPUs.

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use crate::config::{deserialize, size::ByteSize};

/// Device selection.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Backend {
    /// The backend.
    #[serde(deserialize_with = "deserialize::choice")]
    pub kind: BackendKind,
    /// Threads of the CPU pool; 0 means all CPUs available to the container.
    pub cpu_threads: usize,
    /// Long batches that run at once on the CPU pool.
    pub cpu_workers: usize,
    /// Long batches that may be paused on the CPU while others have their turn.
    pub cpu_paused_batches: usize,
    /// Time that a batch runs on the CPU before others get their turn.
    #[serde(with = "humantime_serde")]
    pub cpu_slice: Duration,
    /// Ordinals of the CUDA devices to use; empty means all.
    #[serde(deserialize_with = "deserialize::list")]
    pub ordinals: Vec<u32>,
}

/// The compute backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendKind {
    /// CUDA if available, else the CPU.
    Auto,
    /// The CPU only.
    Cpu,
    /// CUDA; without it the start fails.
    Cuda,
}

/// GPUs.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Cuda {
    /// Directories with libnvrtc and libcublasLt.
    #[serde(deserialize_with = "deserialize::list")]
    pub library_path: Vec<PathBuf>,
    /// Directory of the compiled-kernel cache; empty for none.
    pub kernel_cache: PathBuf,
    /// Maximum size of the kernel cache.
    pub kernel_cache_limit: ByteSize,
    /// Maximum size of its part with kernels generated at run time.
    pub jit_cache_limit: ByteSize,
    /// Maximum size of a GPU's memory pool; 0 means no limit.
    pub pool_limit: ByteSize,
    /// Workers per GPU.
    pub streams: usize,
    /// Time that a batch runs on a GPU before others get their turn.
    #[serde(with = "humantime_serde")]
    pub slice: Duration,
    /// Pinned host memory per worker.
    pub staging: ByteSize,
    /// Maximum pinned host memory that the workers of a GPU share for results.
    pub pinned: ByteSize,
    /// Time after the loss of the last GPU until liveness turns false.
    #[serde(with = "humantime_serde")]
    pub lost_grace: Duration,
    /// Time after which a launch or slice on a GPU counts as hung; zero for never.
    #[serde(with = "humantime_serde")]
    pub hang_timeout: Duration,
    /// Time that requests of a kind run on the CPU after a GPU had no memory for one; zero tries the GPU for each.
    #[serde(with = "humantime_serde")]
    pub memory_retry: Duration,
    /// Restarts of the daemon after the loss of all GPUs.
    #[serde(deserialize_with = "deserialize::choice")]
    pub restart: Restart,
}

/// Restarts of the daemon after the loss of all GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Restart {
    /// Outside of Kubernetes, unless a collection would be lost.
    Auto,
    /// In any case.
    Always,
    /// It serves on the CPU, and reports not live.
    Never,
}
