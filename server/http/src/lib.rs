//! HTTP for clients that do not speak gRPC: JSON of every method, gRPC-Web, and the APIs of other inference servers.
//!
//! A route decodes its request, calls the gRPC services of the daemon in this process, and encodes their response. So
//! principals, roles, quotas, deadlines, priorities, admission, memory, traces and metrics hold as they do over gRPC.

mod access;
mod api;
mod body;
mod caller;
mod console;
mod decompress;
mod endpoints;
mod exchange;
mod failure;
#[doc(hidden)]
pub mod fuzz;
mod graphs;
mod openapi;
mod protect;
mod replies;
mod routes;
mod shared;
mod unread;

pub use self::{
    access::Access,
    api::oip::{Inference, server_metadata},
    caller::{Account, Held},
    decompress::{Decompressed, read_within, zstd_decoder},
    exchange::Refused,
    failure::{code_name, status_reason},
    graphs::Graphs,
    routes::router,
    shared::{GrpcService, Settings, TokenArrays},
};
