//! HTTP for clients that do not speak gRPC: JSON of every method, gRPC-Web, and the APIs of other inference servers.
//!
//! A route decodes its request, calls the gRPC services of the daemon in this process, and encodes their response. So
//! principals, roles, quotas, deadlines, priorities, admission, memory, traces and metrics hold as they do over gRPC.

mod access;
mod body;
mod caller;
mod exchange;
mod failure;
#[doc(hidden)]
pub mod fuzz;
mod graphs;
mod json_rpc;
mod oip;
mod openai;
mod openapi;
mod protect;
mod replies;
mod rerank;
mod routes;
mod shared;
mod tei;
mod token_arrays;
mod unread;
mod vectors;

pub use self::{
    access::Access,
    caller::{Account, Held},
    failure::code_name,
    graphs::Graphs,
    oip::{Inference, server_metadata},
    routes::router,
    shared::{GrpcService, Settings, TokenArrays},
};
