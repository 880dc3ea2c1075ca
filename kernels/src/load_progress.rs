//! The progress of loading the built-in kernels of GPUs.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Modules of kernels that the start compiles, or reads from the kernel cache.
#[derive(Debug, Default)]
pub struct LoadProgress {
    total: AtomicU64,
    loaded: AtomicU64,
    compiled: AtomicU64,
}

impl LoadProgress {
    /// Number of modules, of all architectures seen so far.
    pub fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// Number of modules that have been compiled or read.
    pub fn loaded(&self) -> u64 {
        self.loaded.load(Relaxed)
    }

    /// Number of modules that have been compiled, because the cache does not have them.
    pub fn compiled(&self) -> u64 {
        self.compiled.load(Relaxed)
    }

    pub(crate) fn expect(&self, modules: usize) {
        self.total.fetch_add(modules as u64, Relaxed);
    }

    pub(crate) fn add(&self, is_cached: bool) {
        self.loaded.fetch_add(1, Relaxed);
        self.compiled.fetch_add(u64::from(!is_cached), Relaxed);
    }
}
