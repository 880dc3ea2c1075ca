//! Limits of memory, of requests and of resident tensors.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::size::{self, ByteSize};

/// Host memory of the process.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Maximum of all memory in the ledger.
    #[serde(deserialize_with = "size::size_or_auto")]
    pub host_limit: ByteSize,
    /// Memory left out of `host_limit` if that is `"auto"`, for what the ledger does not count.
    #[serde(deserialize_with = "size::size_or_auto")]
    pub reserve: ByteSize,
}

/// Limits over all lanes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Admission {
    /// Maximum number of items in flight.
    pub max_items: u64,
    /// Maximum memory of requests in flight and their results.
    #[serde(deserialize_with = "size::size_or_auto")]
    pub max_bytes: ByteSize,
    /// Maximum memory of connections, request messages and responses.
    #[serde(deserialize_with = "size::size_or_auto")]
    pub max_message_memory: ByteSize,
}

/// Limits of single requests.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Maximum number of texts in a request.
    pub max_texts: usize,
    /// Maximum size of a text.
    pub max_text_bytes: ByteSize,
    /// Maximum total size of a request's texts.
    pub max_texts_bytes: ByteSize,
    /// Maximum number of sources in a parse request.
    pub max_sources: usize,
    /// Maximum size of a source.
    pub max_source_bytes: ByteSize,
    /// Maximum number of nodes, inputs and outputs of a graph of tensor operations; its nodes have at most 16 times as many inputs in
    /// total.
    pub max_graph_nodes: usize,
    /// Maximum number of outputs of a comparison.
    pub max_compared_outputs: usize,
    /// Maximum number of mismatches that a comparison lists for an output.
    pub max_mismatches: u32,
    /// Maximum size of a source of kernels.
    pub max_kernel_source_bytes: ByteSize,
    /// Maximum number of compiled kernels that are kept.
    pub max_kept_kernels: usize,
    /// Maximum size of the compiled kernels that are kept.
    pub max_kept_kernel_bytes: ByteSize,
    /// Maximum number of generated cases of a verification.
    pub max_generated_cases: u64,
    /// Maximum number of counterexamples that a verification returns.
    pub max_counterexamples: u32,
    /// Maximum time of the repetitions of a benchmark.
    #[serde(with = "humantime_serde")]
    pub max_benchmark_time: Duration,
    /// Maximum number of dimensions of a vector.
    pub max_dimensions: u32,
    /// Maximum encoded size of a point's payload.
    pub max_payload_bytes: ByteSize,
    /// Maximum number of collections.
    pub max_collections: usize,
}

/// Resident tensors.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TensorSettings {
    /// Maximum host memory of all.
    #[serde(deserialize_with = "size::size_or_auto")]
    pub memory_limit: ByteSize,
    /// Maximum memory of all those on a GPU, as a share of the GPU's.
    pub gpu_share: f64,
    /// Maximum number of a principal's.
    pub max_count: usize,
    /// Time to live after the last use, if the caller sets none.
    #[serde(with = "humantime_serde")]
    pub default_ttl: Duration,
    /// Maximum time to live.
    #[serde(with = "humantime_serde")]
    pub max_ttl: Duration,
}
