//! The daemon over real sockets, as a caller sees it.

mod batching;
mod collections;
mod embed;
mod harness;
mod input;
mod lifecycle;
mod models;
mod observe;
mod parse;
mod parse_client;
mod similarity;
mod stalls;
