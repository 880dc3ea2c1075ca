//! The APIs: each decodes requests in the form of its clients, and encodes responses and failures in that form.

pub(crate) mod json_rpc;
mod models;
pub(crate) mod oip;
pub(crate) mod openai;
pub(crate) mod rerank;
pub(crate) mod tei;
pub(crate) mod token_arrays;
pub(crate) mod vectors;
