//! Why a call failed, before it becomes a gRPC status in `grpc/status.rs`.

use accelerd_engine::SubmitError;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// A field of the request is wrong.
    #[error("{field}: {reason}")]
    Invalid {
        /// Path of the field, as in `queries.shape`.
        field: String,
        /// What was expected and what was got.
        reason: String,
    },
    /// A named thing is not there.
    #[error("{kind} {name:?} does not exist")]
    NotFound {
        /// `collection`, `model`, `point` or `snapshot`.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// A name is taken.
    #[error("{kind} {name:?} exists already")]
    AlreadyExists {
        /// `collection`.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// A caller may not do this; the daemon's settings say who may.
    #[error("{0}")]
    Denied(String),
    /// Stored bytes are damaged.
    #[error("{0}")]
    DataLoss(String),
    /// What was asked for does not fit into a response.
    #[error("the response has {bytes} bytes, a message at most {most}: ask for fewer vectors or smaller ones")]
    AnswerTooLarge {
        /// What it would have.
        bytes: usize,
        /// What a message may have.
        most: usize,
    },
    /// A resource that is not the queue is used up: memory for collections, disk.
    #[error("{0}")]
    Exhausted(String),
    /// Something this daemon depends on does not answer: an object store, a device.
    #[error("{0}")]
    Unavailable(String),
    /// A collection's index of words cannot be read; vectors alone still can be searched.
    #[error("{0}; without `hybrid` the collection can be searched")]
    Words(String),
    /// The engine refused or failed it.
    #[error(transparent)]
    Submit(#[from] SubmitError),
}

impl ApiError {
    /// A wrong field.
    pub fn invalid(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), reason: reason.into() }
    }
}
