//! The generated types of `accelerd.v1` and of the Open Inference Protocol, with their descriptor set and the table of their methods. No other logic lives here.

pub mod methods;

/// Version 1 of the API: messages, clients and servers.
#[allow(clippy::all, clippy::pedantic, missing_docs)]
pub mod v1 {
    tonic::include_proto!("accelerd.v1");
}

/// The Open Inference Protocol, version 2.
#[allow(clippy::all, clippy::pedantic, missing_docs)]
pub mod inference {
    tonic::include_proto!("inference");
}

/// Encoded `FileDescriptorSet` of every file, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
