//! HTTP/2 connections and the memory that they may hold.
//!
//! Everything that a peer can make the daemon keep is charged to one [`memory::Memory`]: the flow-control windows of connections,
//! request messages as their bytes arrive, answers until their last byte is sent, and open calls. Whoever makes no
//! progress loses what it holds: after a configured time, or sooner while memory is scarce.

pub mod call;
pub(crate) mod connection;
pub mod memory;
pub(crate) mod offload;
pub(crate) mod registry;
pub(crate) mod request;
