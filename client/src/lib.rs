//! Typed client of accelerd, with deadlines, bounded retries, streams and zero-copy tensors.
//!
//! ```no_run
//! use accelerd_client::{Client, SearchOptions};
//!
//! # async fn run() -> Result<(), accelerd_client::Error> {
//! let client = Client::connect("http://127.0.0.1:7433").await?;
//! let embeddings = client.embed(["parse a date", "open a socket"]).await?;
//! assert_eq!(embeddings.vectors.rows(), 2);
//!
//! let code = client.collection("code");
//! let found = code.search_text(["open a socket"], &SearchOptions::limit(3)).await?;
//! for hit in &found.results[0] {
//!     eprintln!("{:.3} {}", hit.score, hit.id);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A daemon that is protected needs TLS and a token:
//!
//! ```no_run
//! use accelerd_client::{Client, Pem, Tls};
//!
//! # async fn run(token: String) -> Result<(), accelerd_client::Error> {
//! let tls = Tls::default().ca(Pem::File("ca.pem".into()));
//! let client = Client::builder("https://accelerd.example.com:7433").tls(tls).token(token).connect().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A [`Client`] is cheap to clone; clones share its connections (see [`Builder::connections`]). Every call has a deadline,
//! which includes its retries (see [`RetryPolicy`]).

mod call;
mod cluster;
mod codec;
mod collection;
mod connect;
mod data_parallel;
mod device;
mod embed;
mod error;
mod execute;
mod graph;
mod kernel;
pub mod load;
mod matrix;
mod parse;
mod parts;
mod payload;
mod priority;
mod rerank;
mod resident;
mod resume;
mod retry;
mod retry_budget;
mod saved_graph;
mod similar;
mod tensor_source;
mod timing;
mod tls;
mod token;
mod verify;

/// The messages of `accelerd.v1`.
pub use accelerd_proto::v1 as proto;

pub use self::{
    call::Client,
    cluster::{ClusterOptions, Clusters},
    collection::{
        Collection, CollectionOptions, Cursor, Hit, Points, PointsPage, Prompt, ScrollOptions, SearchOptions,
        SearchResults, StoredPoints, Upsert, UpsertOutcome, Upserted,
    },
    connect::{Builder, DEFAULT_URL},
    data_parallel::DataParallel,
    device::Devices,
    embed::{EmbedOptions, EmbedOutcome, Embeddings, ModelSource, Tokens},
    error::{Code, Error, Failure, FieldViolation, ShapeError},
    graph::{Attribute, Executed, Graph, GraphOutput, GraphValue},
    kernel::{
        Benchmark, DatasetOptions, Evaluation, KernelConstant, KernelProgram, Launch, LaunchOutcome, TranslateOptions,
        Translation,
    },
    matrix::{Element, Matrix, MatrixRef},
    parse::{
        Comment, Context, Diagnostic, DumpOptions, Int, Lines, Literal, Node, OutlineItem, ParseOptions, ParseOutcome,
        Parsed, ParsedBatch, Position, Token, Tree,
    },
    payload::{Filter, Id, Ids, Payload, Value},
    priority::Priority,
    proto::{
        CudaCode, CudaResources, DatasetAgreement, DatasetCategory, DatasetPair, DatasetRun, DatasetSplit, Fusion,
        Kernel, KernelDevice, KernelFault, Metric, NanPolicy, OutcomePolicy, OutputComparison, RankedDocument,
        ResidentTensor, VerifySummary,
    },
    rerank::{RerankOptions, Reranked},
    resident::UploadOptions,
    retry::RetryPolicy,
    similar::{Similar, SimilarOptions},
    tensor_source::TensorSource,
    timing::{Stage, Timings},
    tls::{Pem, Tls},
    verify::{
        Cases, CompareOptions, Compared, Domain, DomainBound, Policy, Verdicts, Verification, VerifySide, WasmFunction,
    },
};

/// Result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;
