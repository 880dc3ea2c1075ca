//! The generated types of `accelerd.v1`, with their descriptor set and the table of their methods. No other logic lives here.

pub mod methods;

/// Version 1 of the API: messages, clients and servers.
#[allow(clippy::all, clippy::pedantic, missing_docs)]
pub mod v1 {
    tonic::include_proto!("accelerd.v1");
}

/// Encoded `FileDescriptorSet` of every file, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
