//! The gRPC services. Each file decodes requests, submits them and encodes responses; none computes.

mod call;
pub mod compression;
pub mod context;
pub mod convert;
mod cost;
mod data_parallel;
mod decoded_size;
mod delivery;
pub mod device;
mod dtype;
pub mod embed;
mod encode;
mod graph_executor;
mod handlers;
mod kernel;
pub mod parse;
mod placement;
mod receive;
mod resident_tensors;
pub(crate) mod services;
mod shown;
pub mod similarity;
mod tensor;
mod tensor_benchmark;
mod tensor_graph;
mod verify;
