//! The daemon over real sockets, as a caller sees it.

mod bad_models;
mod batching;
mod collections;
mod columns;
mod embed;
mod harness;
mod hub;
mod input;
mod lifecycle;
mod long_texts;
mod models;
mod observe;
mod parse;
mod parse_client;
mod rerank;
mod scroll;
mod similarity;
mod stalls;
