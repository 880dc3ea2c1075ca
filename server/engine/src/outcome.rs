//! Results of [`Lane::submit`](crate::Lane::submit).

use std::time::Duration;

use accelerd_kernels::{DeviceId, OpError, ledger::Exceeded};

/// A response, and how it was computed.
#[derive(Debug)]
pub struct Completion<R> {
    /// The response.
    pub response: R,
    /// The device that computed it.
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
    /// An admission limit is reached now.
    #[error("admission limit reached: {held} of {limit} {measure} in use, the request needs {asked}")]
    Full {
        /// `items` or `bytes`.
        measure: &'static str,
        /// Admitted now.
        held: u64,
        /// The limit of admission.
        limit: u64,
        /// Needed by this request.
        asked: u64,
        /// When a retry may succeed.
        retry_after: Duration,
    },
    /// The ledger has no memory for the request now.
    #[error("{0}")]
    MemoryLimit(Box<Exceeded>),
    /// The request would be answered only after its deadline.
    #[error(
        "the request would be answered after {estimated:.1?}, and its deadline is in {left:.1?}{}",
        if retry_after.is_some() { "" } else { ": it needs a longer deadline, whatever else runs" }
    )]
    WouldMissDeadline {
        /// Expected time until the response.
        estimated: Duration,
        /// Time until the deadline.
        left: Duration,
        /// When a retry may succeed; `None` if the request takes longer than its deadline by itself.
        retry_after: Option<Duration>,
    },
    /// The request can never run.
    #[error("the request needs {asked} {measure}, which exceeds the maximum of {limit}")]
    TooLarge {
        /// `items` or `bytes`.
        measure: &'static str,
        /// Needed by this request.
        asked: u64,
        /// Most that a request can use.
        limit: u64,
    },
    /// The engine admits no requests.
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
