//! The accelerd daemon as a library: configuration, services, layers, telemetry, lifecycle.

pub mod collections;
pub mod embedder;
pub mod error;
pub mod grpc;
