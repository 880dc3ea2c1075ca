//! Errors of collections.

use accelerd_engine::SubmitError;
use accelerd_kernels::ledger::Exceeded;
use accelerd_store::StoreError;

/// Any error of [`TextEmbedder`](crate::TextEmbedder).
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a collection refuses a call until somebody changes it.
#[derive(Debug, thiserror::Error)]
pub enum CollectionRefusal {
    /// Another model is loaded under the name of a collection's model.
    #[error(
        "collection {collection:?} has vectors of model {model:?} with the digest {stored}, but the model loaded under this \
         name has the digest {loaded}: load the former, or embed the collection's texts again with `accelctl collections \
         reembed`"
    )]
    ModelChanged {
        /// Name of the collection.
        collection: String,
        /// Name of the model.
        model: String,
        /// Digest of the model that embedded the collection's texts.
        stored: String,
        /// Digest of the model that is loaded.
        loaded: String,
    },
    /// The files of a collection are damaged, so that it takes no changes.
    #[error(
        "collection {collection:?} is read-only, because its files are damaged: {damage}; what is whole can be read and \
         written to a snapshot"
    )]
    ReadOnly {
        /// Name of the collection.
        collection: String,
        /// The first damaged place.
        damage: String,
    },
}

/// An error of a collection.
#[derive(Debug, thiserror::Error)]
pub enum CollectionError {
    /// A field of the request is invalid.
    #[error("{field}: {reason}")]
    Invalid {
        /// Path of the field, as in `queries.shape`.
        field: String,
        /// The expected and the actual value.
        reason: String,
    },
    /// A named resource does not exist.
    #[error("{kind} {name:?} does not exist")]
    NotFound {
        /// `collection`, `point` or `snapshot`.
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
    /// The settings forbid the call.
    #[error("{0}")]
    Denied(String),
    /// Stored bytes are damaged.
    #[error("{0}")]
    DataLoss(String),
    /// A limit of the ledger is reached.
    #[error("{0}")]
    MemoryLimit(Box<Exceeded>),
    /// Disk space or the number of rows is exhausted.
    #[error("{0}")]
    Exhausted(String),
    /// A dependency does not respond: an object store, a device.
    #[error("{0}")]
    Unavailable(String),
    /// The text index of a collection cannot be read; vector search still works.
    #[error("{0}; without `hybrid` the collection can be searched")]
    TextIndex(String),
    /// The state of a collection forbids the call.
    #[error(transparent)]
    Refused(#[from] CollectionRefusal),
    /// The embedder failed.
    #[error(transparent)]
    Embedder(BoxError),
    /// The engine rejected or failed a request.
    #[error(transparent)]
    Submit(#[from] SubmitError),
}

impl CollectionError {
    /// The error of an invalid field.
    pub fn invalid(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), reason: reason.into() }
    }
}

impl From<Exceeded> for CollectionError {
    fn from(refusal: Exceeded) -> Self {
        Self::MemoryLimit(Box::new(refusal))
    }
}

impl From<StoreError> for CollectionError {
    fn from(error: StoreError) -> Self {
        let message = error.public();
        if error.is_internal() {
            tracing::warn!(%error, "store call failed");
        }
        match error {
            StoreError::Io { .. } if error.is_full() => Self::Exhausted(message),
            StoreError::Io { .. } | StoreError::Object { .. } | StoreError::InUse(_) | StoreError::Closed => {
                Self::Unavailable(message)
            }
            StoreError::Corrupt { .. } | StoreError::Damaged { .. } | StoreError::Format { .. } => {
                Self::DataLoss(message)
            }
            StoreError::Exists(name) => Self::AlreadyExists { kind: "collection", name },
            StoreError::Name(_) => Self::invalid("name", message),
            StoreError::TooLarge { .. } => Self::invalid("points", message),
            StoreError::Url { .. } | StoreError::Scheme { .. } | StoreError::OtherCollection { .. } => {
                Self::invalid("url", message)
            }
            StoreError::Outside(_) => Self::Denied(format!("url: {message}")),
            StoreError::NoSnapshot(name) => Self::NotFound { kind: "snapshot", name },
        }
    }
}
