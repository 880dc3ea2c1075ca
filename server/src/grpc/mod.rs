//! The wire of gRPC: each file decodes requests, calls a service and encodes what it returns; none decides or computes.

mod call;
pub mod compression;
pub mod context;
pub mod convert;
mod cost;
mod decoded_size;
mod delivery;
pub mod device;
mod dtype;
pub mod embed;
mod encode;
mod handlers;
mod inference;
mod kernel;
pub mod parse;
mod receive;
pub(crate) mod services;
pub mod similarity;
mod small_output;
mod tensor;
mod tensor_graph;
mod tensor_value;
mod verify;
