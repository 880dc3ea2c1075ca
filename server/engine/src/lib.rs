//! When and where accelerd computes: lanes, batches, admission, workers, drain.
//!
//! The engine knows no operation by name, no protocol and no CUDA: it queues requests of any [`accelerd_kernels::Op`],
//! closes batches and runs them on the workers of the devices it was given.

use std::time::{Duration, Instant};

use accelerd_kernels::{Device, DeviceId, Op, OpError};

/// Settings of the engine as a whole.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Worker threads (streams) of each GPU.
    pub cuda_workers: usize,
    /// Worker threads that feed the CPU pool.
    pub cpu_workers: usize,
    /// Most items admitted and not answered, over all lanes.
    pub max_items: u64,
    /// Most bytes admitted and not answered, over all lanes.
    pub max_bytes: u64,
}

/// Settings of one lane.
#[derive(Clone, Debug)]
pub struct LaneConfig {
    /// Most items in a batch.
    pub max_batch_items: u64,
    /// Most bytes in a batch.
    pub max_batch_bytes: u64,
    /// Longest that an open batch may wait for joiners while a worker is free; zero never waits.
    pub max_wait: Duration,
    /// Batches of this lane that one device runs at once.
    pub concurrency: usize,
    /// Requests whose key was passed over this long go before all others.
    pub max_age: Duration,
    /// Stateless requests of at most this many bytes run on the CPU pool although there is a GPU; zero never.
    pub cpu_below_bytes: u64,
}

/// How urgent a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Bulk work.
    Low,
    /// The default.
    #[default]
    Normal,
    /// Somebody waits for it.
    High,
}

/// What comes with a request.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// When the caller stops waiting.
    pub deadline: Option<Instant>,
    /// How urgent it is.
    pub priority: Priority,
    /// Whose it is: principals of equal priority share fairly. Zero is everybody without a name.
    pub principal: u64,
}

/// A response, and how it came about.
#[derive(Debug)]
pub struct Done<R> {
    /// The response.
    pub response: R,
    /// Where it ran.
    pub device: DeviceId,
    /// Requests in its batch.
    pub batch_requests: usize,
    /// From submission to launch.
    pub queue: Duration,
    /// From launch to result.
    pub execute: Duration,
}

/// Why a request was not answered.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// The budget is used up now.
    #[error("the daemon holds {held} {measure} of at most {limit}; {asked} more were asked for")]
    Full {
        /// `items` or `bytes`.
        measure: &'static str,
        /// Admitted now.
        held: u64,
        /// At most.
        limit: u64,
        /// By this request.
        asked: u64,
        /// When a retry may succeed.
        retry_after: Duration,
    },
    /// The request can never run.
    #[error("the request needs {asked} {measure}, at most {limit} can ever be had")]
    TooLarge {
        /// `items` or `bytes`.
        measure: &'static str,
        /// By this request.
        asked: u64,
        /// At most.
        limit: u64,
    },
    /// The engine takes no new work.
    #[error("the daemon is draining")]
    Draining,
    /// The deadline passed before the launch.
    #[error("the deadline passed after {waited:?} in the queue")]
    DeadlineExceeded {
        /// Time in the queue.
        waited: Duration,
    },
    /// The computation failed.
    #[error(transparent)]
    Op(#[from] OpError),
}

/// Runs the lanes on the devices.
#[derive(Debug)]
pub struct Engine {}

/// The queue of one operation. Clones share it.
pub struct Lane<O: Op>(std::marker::PhantomData<O>);

impl Engine {
    /// Starts the workers of every device and waits until each has opened its backend.
    pub fn start(_devices: Vec<Device>, _config: EngineConfig) -> Result<Self, OpError> {
        unimplemented!()
    }

    /// Opens the lane of an operation.
    pub fn lane<O: Op>(&self, _config: LaneConfig) -> Lane<O> {
        unimplemented!()
    }

    /// Whether a device still takes work, for each device; a lost one keeps its reason.
    pub fn devices(&self) -> Vec<(Device, Option<String>)> {
        unimplemented!()
    }
}

impl<O: Op> Clone for Lane<O> {
    fn clone(&self) -> Self {
        Self(std::marker::PhantomData)
    }
}

impl<O: Op> Lane<O> {
    /// Queues a request and waits for its response. Dropping the future takes the request out of the queue.
    pub async fn submit(&self, _request: O::Request, _context: Context) -> Result<Done<O::Response>, SubmitError> {
        unimplemented!()
    }
}
