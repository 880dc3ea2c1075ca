//! The names of portalis_cuda over accelerd: parse, embed, find similar, cluster and verify on a GPU or the CPU.
//!
//! ```no_run
//! use portalis_cuda::{CudaParser, ParserConfig};
//!
//! # fn main() -> Result<(), portalis_cuda::CudaError> {
//! let config = ParserConfig { max_nodes: 100_000, ..ParserConfig::default() };
//! let result = CudaParser::new(config)?.parse("def double(n): return 2 * n")?;
//! eprintln!("{} nodes in {:.2} ms", result.nodes.len(), result.metrics.total_time_ms);
//! # Ok(())
//! # }
//! ```
//!
//! Calls block, and must not be made on a thread of a Tokio runtime. The daemon is that of the environment variable ACCELERD_SERVER,
//! with the token of ACCELERD_TOKEN and the certificate authorities of ACCELERD_TLS_CA, else the one on port 7433 of this machine. New
//! programs use [`accelerd_client`], which has what is here and more.

mod daemon;
mod embedder;
mod error;
mod parser;
mod verifier;

pub use self::{
    daemon::Connection,
    embedder::{CudaEmbedder, EmbeddingConfig, EmbeddingMetrics, SimilarityResult},
    error::{CudaError, CudaResult},
    parser::{ASTNode, CudaParser, ParseResult, ParserConfig, ParserMetrics},
    verifier::{CudaVerifier, TestCase, TestResult, VerificationConfig, VerificationMetrics, VerificationReport},
};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
