//! When and where accelerd computes: lanes, batches, admission, workers, drain.
//!
//! The engine knows no operation by name, no protocol and no CUDA: it queues requests of any [`accelerd_kernels::Op`],
//! closes batches and runs them on the workers of the devices it was given.
//!
//! # A request in the engine
//!
//! 1. **Admit** (`admission`). [`Lane::submit`] takes a permit from a budget of items and bytes that all lanes share, or
//!    is refused with the time after which a retry may succeed. The permit travels with the request and is given back
//!    when the request is answered, or was computed in vain.
//! 2. **Route** (`device`). A request with a home goes there. Others go to the GPU with the least outstanding bytes; small
//!    ones, and everything once no GPU is left, to the CPU.
//! 3. **Queue** (`queue`, `batcher`). Each lane has one queue a device. The caller waits for a channel; its deadline is a
//!    timer. When the timer fires, or the caller drops its future, the entry leaves the queue at once.
//! 4. **Close** (`batcher`). A free worker gives each lane a turn. Only now a batch is formed, of entries with equal keys:
//!    what came while all workers were busy has joined it. Nothing waits while a worker is free, unless the traffic of
//!    its key says that filling the batch pays.
//! 5. **Launch** (`launch`). Entries whose caller is gone are dropped, the others run. A launch that fails is split in two
//!    until the guilty request stands alone with its error; a panic counts as a failure, and the worker's backend is
//!    opened anew.
//! 6. **Reply**. Each request is answered through its own channel.
//!
//! A device that reports itself lost takes no work any more. What was queued for it or ran on it is given back to its
//! callers, which submit it to another device; what has its home there fails. A request that ran on two devices as they
//! were lost is tried on the CPU only.
//!
//! Memory that nobody needs any more comes back when a worker next allocates. [`Lane::tidy`] has all workers of all devices
//! give it back at once (`tidy`): those that sleep are woken, those at work do it when their batch is done.
//!
//! # Invariants
//!
//! - An admitted request is answered once, or its caller is gone and it is counted as cancelled.
//! - A batch never exceeds its bounds, unless it is one request that exceeds them alone.
//! - Within a key, priority and principal, requests are launched in the order they came, retries after failures aside.
//! - An entry that waited `max_age` is in the next batch but for those that wait even longer: nothing starves.
//! - No more than `concurrency` batches of a lane run on a device, and none is formed before it can run.
//! - A backend never leaves the thread that opened it.
//! - No lock is held while an operation runs, or while a caller's future is woken.
//!
//! The queue's wake-ups are explored by loom: `RUSTFLAGS="--cfg loom" cargo test -p accelerd-engine --lib loom`. In that
//! configuration only the queue and what is below it are compiled.

#![cfg_attr(loom, allow(dead_code))]

mod batcher;
mod config;
mod queue;
mod signal;
mod sync;

#[cfg(not(loom))]
mod admission;
#[cfg(not(loom))]
mod device;
#[cfg(not(loom))]
mod engine;
#[cfg(not(loom))]
mod lane;
#[cfg(not(loom))]
mod launch;
#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(not(loom))]
mod metrics;
#[cfg(not(loom))]
mod outcome;
#[cfg(not(loom))]
mod stats;
#[cfg(not(loom))]
mod tidy;
#[cfg(not(loom))]
mod worker;

pub use config::{Context, Drained, EngineConfig, LaneConfig, Priority};
#[cfg(not(loom))]
pub use engine::Engine;
#[cfg(not(loom))]
pub use lane::Lane;
#[cfg(not(loom))]
pub use outcome::{Done, SubmitError};
#[cfg(not(loom))]
pub use stats::{AdmissionStats, Distribution, EngineStats, LaneCounts, LaneStats};
