//! The only trait of the compute path: many requests in, one launch out.

use std::{fmt::Debug, hash::Hash};

use crate::{Backend, DeviceId, OpError};

/// Size of a request, in the two measures that bound a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Rows, texts or other items, as the operation counts them. At least 1.
    pub items: u64,
    /// Device bytes the request needs.
    pub bytes: u64,
}

/// One operation: many requests in, one launch out.
pub trait Op: 'static {
    /// Names the lane, its configuration section and its metric label.
    const NAME: &'static str;
    /// One caller's input, validated, owning its data.
    type Request: Send + Sync + 'static;
    /// One caller's output.
    type Response: Send + 'static;
    /// Requests with equal keys may share a launch.
    type Key: Clone + Eq + Hash + Debug + Send + 'static;

    /// The key of a request.
    fn key(request: &Self::Request) -> Self::Key;

    /// The size of a request.
    fn size(request: &Self::Request) -> Size;

    /// Bytes that a request holds from arrival to response, which admission bounds. They are fewer than its size if a launch
    /// needs far more than input and output, as the layers of an encoder do.
    fn held_bytes(request: &Self::Request) -> u64 {
        Self::size(request).bytes
    }

    /// The device that holds the request's data, on which it must run; `None` for any.
    fn device_affinity(_request: &Self::Request) -> Option<DeviceId> {
        None
    }

    /// Returns true if the CPU may compute a request for which its GPU has no memory. The request's operands must be in host
    /// memory. By default a request qualifies if it may run on any device.
    fn cpu_fallback(request: &Self::Request) -> bool {
        Self::device_affinity(request).is_none()
    }

    /// Estimated work of a request, proportional to the time it takes, and at least 1. The unit is the operation's own, such
    /// as multiply-adds or bytes scanned; the engine learns how long a unit takes on each device.
    fn cost(request: &Self::Request) -> u64 {
        Self::size(request).bytes.max(1)
    }

    /// Computes a batch of requests with equal keys; returns one response per request, in the same order.
    ///
    /// A response depends on its own request alone, never on others in the batch. An error fails the whole batch: the
    /// engine splits it and retries until the error belongs to a single request.
    ///
    /// A long operation passes a preemption point of its worker between slices of its work.
    fn run(batch: &[&Self::Request], on: &mut Backend) -> Result<Vec<Self::Response>, OpError>;

    /// Lets go of what other calls count or free, such as a resident tensor, before the caller is answered. Returns what may be freed
    /// after the answer.
    fn release(request: Self::Request) -> Option<Self::Request> {
        Some(request)
    }
}

/// The product of the factors of a cost, at most `u64::MAX`.
pub(crate) fn product<const N: usize>(factors: [usize; N]) -> u64 {
    factors.into_iter().fold(1, |product: u64, factor| product.saturating_mul(factor as u64))
}
