//! Errors of calls; `status.rs` maps them to gRPC statuses.

use std::time::Duration;

use accelerd_collections::CollectionRefusal;
use accelerd_engine::SubmitError;
use accelerd_kernels::{
    DeviceId,
    ledger::{Exceeded, Limit},
};
use accelerd_sandbox::{Refusal as SandboxRefusal, SandboxError};

use crate::auth::refusal::Refusal;

/// A field of a request as a wire decoded it, or why it could not. A service reports the error where it would check the field, so
/// that a request with several faults is refused for the same one over every wire.
pub type Decoded<T> = Result<T, ApiError>;

/// A time that a request may set; an error is a negative one as text.
pub type RequestedTime = Option<Result<Duration, String>>;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// A field of the request is invalid.
    #[error("{field}: {reason}")]
    Invalid {
        /// Path of the field, as in `queries.shape`.
        field: String,
        /// Expected and actual value.
        reason: String,
    },
    /// A named resource does not exist.
    #[error("{kind} {name:?} does not exist")]
    NotFound {
        /// `collection`, `model`, `point` or `snapshot`.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// The caller has no resident tensor of this handle.
    #[error(
        "tensor {0:?} does not exist: it was freed or has expired, or the daemon was started again since it was made"
    )]
    UnknownTensor(String),
    /// A resident tensor was on a device that is lost.
    #[error("tensor {handle:?} does not exist any more: it was lost with {device}")]
    TensorLost {
        /// Its handle.
        handle: String,
        /// The device.
        device: DeviceId,
    },
    /// A name is in use.
    #[error("{kind} {name:?} already exists")]
    AlreadyExists {
        /// `collection`.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// The daemon's settings do not permit this.
    #[error("{0}")]
    Denied(String),
    /// Stored data is corrupt.
    #[error("{0}")]
    DataLoss(String),
    /// The response would exceed the maximum message size.
    #[error("the response needs {bytes} bytes, the maximum is {limit}: request fewer or smaller vectors")]
    ResponseTooLarge {
        /// Size of the response in bytes.
        bytes: usize,
        /// Maximum message size in bytes.
        limit: usize,
    },
    /// The outputs of a call would exceed the maximum message size.
    #[error("the response needs {bytes} bytes, the maximum is {limit}: request fewer outputs, or send less in a call")]
    OutputsTooLarge {
        /// Size of the response in bytes.
        bytes: usize,
        /// Maximum message size in bytes.
        limit: usize,
    },
    /// The files of a translation would exceed the maximum message size.
    #[error("the files have more than {limit} bytes, the maximum: request fewer kernels or targets")]
    TranslationTooLarge {
        /// Maximum size in bytes.
        limit: usize,
    },
    /// The kernels of a data set that follow are no new ones.
    #[error(
        "the last {misses} kernels before index {index} were equal to earlier ones or had no example: expected fewer pairs, or \
         other categories and dialects"
    )]
    NoMoreKernels {
        /// Kernels that are no pair.
        misses: u64,
        /// The next kernel.
        index: u64,
    },
    /// The memory of connections, request messages and responses is used up.
    #[error("admission limit reached: {held} of {limit} bytes of transport memory in use, {kind} need {asked}")]
    TransportMemory {
        /// The use that needed the memory, as messages name it.
        kind: &'static str,
        /// Bytes that were needed.
        asked: u64,
        /// Bytes in use.
        held: u64,
        /// The budget in bytes.
        limit: u64,
    },
    /// The connections are closed, because the daemon ends.
    #[error("the daemon is shutting down")]
    ShuttingDown,
    /// A thread of the daemon panicked.
    #[error("{0}")]
    ThreadPanic(String),
    /// A limit of the ledger is reached. The text names the purpose of the memory, if it is known.
    #[error("{context}{refusal}")]
    MemoryLimit {
        /// Empty, or a clause that ends with a colon and a space.
        context: String,
        /// The figures.
        refusal: Box<Exceeded>,
    },
    /// A model does not fit the memory of a device.
    #[error("{message}")]
    ModelTooLarge {
        /// Names the model, and has the figures.
        message: String,
        /// The device.
        device: DeviceId,
        /// Bytes of the failed allocation.
        requested: u64,
        /// Bytes that were free.
        free: u64,
    },
    /// A resource other than memory or a queue is exhausted, such as the disk.
    #[error("{0}")]
    Exhausted(String),
    /// A dependency is not available: an object store, a hub, a device.
    #[error("{0}")]
    Unavailable(String),
    /// The tokenizer panicked. Another try would panic, too.
    #[error("internal error of the tokenizer; see the daemon's log")]
    TokenizerPanic,
    /// The text index of a collection cannot be read; vector search still works.
    #[error("{0}")]
    TextIndex(String),
    /// The state of a collection forbids the call.
    #[error(transparent)]
    Collection(CollectionRefusal),
    /// A model computed NaN or infinity.
    #[error("{item}: model {model:?} computes NaN or infinity for it{hint}")]
    NonFinite {
        /// Name of the model.
        model: String,
        /// Path of the item of the request, as in `texts.values[3]`.
        item: String,
        /// Empty, or a clause with a remedy.
        hint: &'static str,
    },
    /// Code of clients does not run: there are no processes for it.
    #[error("the daemon runs no code of clients: the setting sandbox.processes is 0")]
    SandboxDisabled,
    /// CUDA C++ of clients does not run.
    #[error("the daemon runs no CUDA C++ of clients: the setting sandbox.cuda_source is off")]
    CudaSourceDisabled,
    /// As many calls wait for a process that runs code of clients as may.
    #[error("{0} calls wait for a process of the sandbox, the maximum of sandbox.max_queue")]
    SandboxQueueFull(usize),
    /// No GPU runs kernels of clients.
    #[error("no GPU runs kernels: {0}")]
    NoGpu(String),
    /// The arguments of a launch do not fit the memory of an instance, or of a GPU's launches.
    #[error("the arguments need {asked} bytes, the maximum of {} is {}", limit.setting, limit.bytes)]
    CaseMemory {
        /// Bytes of all arguments, with those that are only written.
        asked: u64,
        /// The setting.
        limit: Limit,
    },
    /// Code of a client did not run, or not to its end.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The caller may not do this.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A shard of a data-parallel execution failed.
    #[error("shard {nth} of {count}, on {device}: {error}")]
    Shard {
        /// Its position.
        nth: usize,
        /// The number of shards.
        count: usize,
        /// Where it runs.
        device: DeviceId,
        /// Why it failed.
        error: Box<ApiError>,
    },
    /// The engine rejected or failed the request.
    #[error(transparent)]
    Submit(#[from] SubmitError),
}

impl From<Exceeded> for ApiError {
    fn from(refusal: Exceeded) -> Self {
        Self::MemoryLimit { context: String::new(), refusal: Box::new(refusal) }
    }
}

impl ApiError {
    /// A refusal of the sandbox as an invalid field, unless it concerns the daemon; another error as it is.
    #[must_use]
    pub fn refused_in(self, field: &str) -> Self {
        let Self::Sandbox(SandboxError::Refused(refusal)) = self else { return self };
        if matches!(refusal, SandboxRefusal::NoCompiler(_)) {
            return SandboxError::Refused(refusal).into();
        }
        Self::invalid(field, refusal.to_string())
    }

    /// An invalid field.
    pub fn invalid(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), reason: reason.into() }
    }
}
