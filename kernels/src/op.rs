//! The one trait of the compute path: many requests in, one launch out.

use std::{fmt::Debug, hash::Hash};

use crate::{Backend, DeviceId, OpError};

/// How large a request is, in the two measures that bound a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Rows, texts or whatever the operation counts. At least 1.
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

    /// Bytes that a request holds from when it comes until it is answered, which admission bounds. Where a launch needs far
    /// more than comes and goes, as layers of an encoder do, they are fewer than its size.
    fn held_bytes(request: &Self::Request) -> u64 {
        Self::size(request).bytes
    }

    /// The device a request must run on, because what it reads lives there. `None`: any.
    fn home(_request: &Self::Request) -> Option<DeviceId> {
        None
    }

    /// Computes a batch of requests with equal keys: as many responses, in the same order.
    ///
    /// A response depends on its own request alone, never on its neighbours in the batch. An error fails the whole
    /// batch: the engine splits it and tries again, until a request stands alone with its error.
    fn run(batch: &[&Self::Request], on: &mut Backend) -> Result<Vec<Self::Response>, OpError>;
}
