//! The Open Inference Protocol, version 2, of KServe and Triton Inference Server. HTTP and gRPC decode a request into an
//! [`infer::Request`] and encode the [`infer::Response`] to it.

mod datatype;
mod elements;
mod graph;
mod grpc;
mod http_request;
mod http_response;
pub(crate) mod http_routes;
pub(crate) mod infer;
mod metadata;
mod models;
mod parameters;
mod request;
mod tensor;
#[cfg(test)]
mod tests;

pub use self::grpc::{Inference, server_metadata};
pub(crate) use self::{grpc::from_grpc, http_request::decode};
