//! Tests of the daemon over real sockets, from a caller's view.

mod bad_models;
mod batching;
mod collections;
mod columns;
mod embed;
mod filters;
mod flow_control;
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
mod resident_tensors;
mod scroll;
mod similarity;
mod snapshots;
mod stalls;
mod tensor;
mod tensor_callers;
mod tensor_graphs;
mod tensor_soak;
