//! When and where accelerd computes: lanes, batches, admission, workers, drain.
//!
//! The engine is generic over [`accelerd_kernels::Op`]: it queues requests, forms batches and runs them on the workers of its
//! devices. It depends on no particular operation, protocol or CUDA API.
//!
//! # The path of a request
//!
//! 1. **Admit** (`admission`). [`Lane::submit`] takes a permit from a budget of items and bytes that all lanes share, or is
//!    refused with the time after which a retry may succeed. The permit is released when the caller takes the response, or
//!    when the request is dropped.
//! 2. **Route** (`device`). A request with a device affinity goes to that device. Others go to the GPU with the fewest
//!    outstanding bytes; small ones, and all once no GPU is left, to the CPU.
//! 3. **Queue** (`queue`, `batcher`). Each lane has two queues a device: large requests have their own. A request whose
//!    estimated wait and time exceed its deadline is refused at once. The caller waits on a channel, with a timer for its
//!    deadline. When the timer fires, or the caller drops its future, the entry is removed from the queue at once.
//! 4. **Batch** (`batcher`). A free worker polls the lanes round robin. Only then is a batch formed, of entries with equal
//!    keys, so that entries which arrived while all workers were busy join it. A batch is held open while a worker is free
//!    only where the traffic of its key makes filling it pay. How long batches take is learned (`estimate`): it bounds them,
//!    and principals share the device by time.
//! 5. **Launch** (`device_lane`). Requests whose caller is gone are dropped, the others run. A launch that fails is split in
//!    two until the faulty request is alone with its error. A panic counts as a failure, and the worker's backend is
//!    reopened. Long batches share the device by turns (`turn`, `preemption`): at a preemption point a batch whose slice is
//!    over pauses while another runs, or ends if nobody awaits it. One worker of each device runs short batches only.
//! 6. **Reply**. Each request is answered through its own channel.
//!
//! A device that reports itself lost is taken out of service (`loss`), and all GPUs if the error ends CUDA in this process.
//! Requests that were queued for it or ran on it return to their
//! callers, which submit them to another device; those with an affinity to it fail. A request that ran on two devices as they
//! were lost is retried on the CPU only.
//!
//! A request that a GPU has no memory for, even alone, is submitted to another GPU, and at last to the CPU, if the CPU can read
//! its input (`cpu_fallback`). For a while, requests of its kind and at least its size avoid that GPU.
//!
//! The watchdog (`watchdog`) declares a GPU lost whose launch or slice does not end in time. Each worker publishes what it runs
//! (`running`), with the reply channels of the batch, so that callers are answered although the worker is stuck. A stuck
//! thread is never joined; should it return, its results are discarded.
//!
//! [`Lane::trim`] has the workers of all devices free their idle memory: sleeping workers are woken, busy ones finish their
//! batch first.
//!
//! # Invariants
//!
//! - Every admitted request is answered once, or its caller is gone and it is counted as cancelled.
//! - A batch never exceeds its limits, unless it is a single request that exceeds them alone.
//! - Within a key, priority and principal, requests are launched in order of arrival, except for retries after failures.
//! - A priority whose oldest entry waited `max_age` gets a tenth of the time of higher ones: no request starves.
//! - At most `concurrency` batches of each queue run at once, and none is formed before it can run. A paused batch counts.
//! - A backend never leaves the thread that opened it.
//! - No lock is held while an operation runs, or while a caller's future is woken.
//!
//! loom explores the wake-ups of the queue: `RUSTFLAGS="--cfg loom" cargo test -p accelerd-engine --lib loom`. That
//! configuration compiles only the queue and the modules below it.

#![cfg_attr(loom, allow(dead_code))]

mod batcher;
mod config;
mod estimate;
mod queue;
mod signal;
mod sync;
mod turn;

#[cfg(not(loom))]
mod admission;
#[cfg(not(loom))]
mod arrival;
#[cfg(not(loom))]
mod cpu_fallback;
#[cfg(not(loom))]
mod device;
#[cfg(not(loom))]
mod device_lane;
#[cfg(not(loom))]
mod engine;
#[cfg(not(loom))]
mod lane;
#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(not(loom))]
mod loss;
#[cfg(not(loom))]
mod metrics;
#[cfg(not(loom))]
mod outcome;
#[cfg(all(test, not(loom)))]
mod overload_tests;
#[cfg(not(loom))]
mod preemption;
#[cfg(not(loom))]
mod running;
#[cfg(not(loom))]
mod shared;
#[cfg(not(loom))]
mod stats;
#[cfg(not(loom))]
mod trace;
#[cfg(not(loom))]
mod trim;
#[cfg(not(loom))]
mod watchdog;
#[cfg(not(loom))]
mod worker;

#[cfg(not(loom))]
pub use arrival::Arrival;
pub use config::{Context, Drained, EngineConfig, LaneConfig, Priority};
#[cfg(not(loom))]
pub use cpu_fallback::CpuFallback;
#[cfg(not(loom))]
pub use engine::Engine;
#[cfg(not(loom))]
pub use lane::Lane;
#[cfg(not(loom))]
pub use loss::{DeviceLoss, LossCause};
#[cfg(not(loom))]
pub use outcome::{Completion, SubmitError};
#[cfg(not(loom))]
pub use running::RunningBatch;
#[cfg(not(loom))]
pub use stats::{AdmissionStats, Distribution, EngineStats, LaneCounts, LaneStats};
