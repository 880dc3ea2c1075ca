//! Kernels that are kept, within limits of their number and size.

use std::sync::Arc;

use accelerd_kernels::ledger::{Account, Reservation};
use lru::LruCache;

use super::CompiledKernel;

/// An LRU cache of kernels by id.
pub(super) struct KeptKernels {
    kernels: LruCache<String, (Arc<CompiledKernel>, Reservation)>,
    max_count: usize,
    max_bytes: u64,
    bytes: u64,
}

impl KeptKernels {
    pub(super) fn new(max_count: usize, max_bytes: u64) -> Self {
        Self { kernels: LruCache::unbounded(), max_count, max_bytes, bytes: 0 }
    }

    pub(super) fn get(&mut self, id: &str) -> Option<Arc<CompiledKernel>> {
        self.kernels.get(id).map(|(kernel, _)| Arc::clone(kernel))
    }

    /// Keeps a kernel, in place of the least recently used ones. One that is too large, or for which no memory is free, is not kept.
    pub(super) fn insert(&mut self, kernel: Arc<CompiledKernel>, account: &Account) {
        let size = kernel.size_bytes();
        self.evict(&kernel.id);
        if size > self.max_bytes {
            return;
        }
        while self.kernels.len() >= self.max_count || self.bytes + size > self.max_bytes {
            let Some((_, (_, oldest))) = self.kernels.pop_lru() else { break };
            self.bytes -= oldest.bytes();
        }
        if let Some(reservation) = account.reserve_unused(size) {
            self.bytes += size;
            self.kernels.put(kernel.id.clone(), (kernel, reservation));
        }
    }

    /// Drops a kernel; returns whether it was there.
    pub(super) fn evict(&mut self, id: &str) -> bool {
        let dropped = self.kernels.pop(id);
        self.bytes -= dropped.as_ref().map_or(0, |(_, reservation)| reservation.bytes());
        dropped.is_some()
    }

    /// The kernels, the most recently used first.
    pub(super) fn list(&self) -> Vec<Arc<CompiledKernel>> {
        self.kernels.iter().map(|(_, (kernel, _))| Arc::clone(kernel)).collect()
    }
}
