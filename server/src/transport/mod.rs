//! Connections of HTTP/2 and HTTP/1, and their memory accounting.
//!
//! Everything that a peer can make the daemon hold is charged to one [`memory::TransportMemory`]: flow-control windows of
//! connections, request messages as their bytes arrive, responses until their last byte is sent, and open calls. A call
//! that makes no progress is aborted after a configured timeout, which is shorter under memory pressure.

pub mod call;
pub(crate) mod connection;
pub(crate) mod http1;
pub mod memory;
pub(crate) mod offload;
pub(crate) mod registry;
pub(crate) mod request;
mod stream_window;

/// Largest request of the health and reflection services, whose generated servers receive outside of the transport's
/// memory accounting.
pub(crate) const MAX_UNACCOUNTED_REQUEST: usize = 4 << 10;
