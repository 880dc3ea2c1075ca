//! What a caller gets back: a response, or why there is none.

use std::time::Duration;

use accelerd_kernels::{DeviceId, OpError};

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
