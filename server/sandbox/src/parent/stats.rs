//! Counts of events of child processes.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Child processes that were started.
    pub starts: u64,
    /// Those of them that replaced one that had ended.
    pub restarts: u64,
    /// Child processes that were killed because they did not answer in time.
    pub timeouts: u64,
    /// Child processes that ended by themselves, or that something else killed.
    pub crashes: u64,
    /// Child processes that ran out of memory.
    pub out_of_memory: u64,
    /// Child processes that sent invalid responses.
    pub protocol_errors: u64,
    /// Modules that were sent.
    pub loads: u64,
    /// Programs in CUDA C++ that were sent to be compiled.
    pub compilations: u64,
    /// Calls that were started.
    pub calls: u64,
    /// Cases that ended.
    pub cases: u64,
    /// Launches that were started.
    pub launches: u64,
    /// Threads of launches that ended.
    pub threads: u64,
}

/// The counters of [`Stats`], which several sandboxes share.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) starts: AtomicU64,
    pub(super) restarts: AtomicU64,
    pub(super) timeouts: AtomicU64,
    pub(super) crashes: AtomicU64,
    pub(super) out_of_memory: AtomicU64,
    pub(super) protocol_errors: AtomicU64,
    pub(super) loads: AtomicU64,
    pub(super) compilations: AtomicU64,
    pub(super) calls: AtomicU64,
    pub(super) cases: AtomicU64,
    pub(super) launches: AtomicU64,
    pub(super) threads: AtomicU64,
}

impl Counters {
    pub(super) fn stats(&self) -> Stats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            starts: get(&self.starts),
            restarts: get(&self.restarts),
            timeouts: get(&self.timeouts),
            crashes: get(&self.crashes),
            out_of_memory: get(&self.out_of_memory),
            protocol_errors: get(&self.protocol_errors),
            loads: get(&self.loads),
            compilations: get(&self.compilations),
            calls: get(&self.calls),
            cases: get(&self.cases),
            launches: get(&self.launches),
            threads: get(&self.threads),
        }
    }
}

pub(super) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}
