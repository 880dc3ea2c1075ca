//! Why the store could not do what was asked.

use std::{io, path::PathBuf, sync::Arc};

/// Why the store could not do what was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What it said.
        source: Arc<io::Error>,
    },
    /// A log is damaged where it had been synced.
    #[error("{} is corrupt at offset {offset}: {reason}", file.display())]
    Corrupt {
        /// The log file.
        file: PathBuf,
        /// Where in it.
        offset: u64,
        /// What does not check.
        reason: String,
    },
    /// A manifest, a chunk or the description of a collection is damaged.
    #[error("{file} is damaged: {reason}")]
    Damaged {
        /// The file or object.
        file: String,
        /// What does not check.
        reason: String,
    },
    /// The file was written by a newer version.
    #[error("{file} has format {got}, at most {known} is known")]
    Format {
        /// The file or object.
        file: String,
        /// Its format.
        got: u32,
        /// The newest known.
        known: u32,
    },
    /// Another process uses the folder.
    #[error("{} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// The name is taken.
    #[error("collection {0:?} exists already")]
    Exists(String),
    /// The name cannot be a collection's.
    #[error("a name is 1 to 128 of [a-zA-Z0-9._-] and starts with a letter or digit, got {0:?}")]
    Name(String),
    /// A record is too large for a frame.
    #[error("a record may have {limit} bytes, got {got}")]
    TooLarge {
        /// Bytes it has.
        got: u64,
        /// Bytes it may have.
        limit: u64,
    },
    /// Not a URL, or one that cannot be a folder.
    #[error("{url:?} is not the URL of a folder: {reason}")]
    Url {
        /// As given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The URL's scheme is not built in.
    #[error("the scheme {scheme:?} is not built in, these are: {known}")]
    Scheme {
        /// As given.
        scheme: String,
        /// The schemes that are, with commas between.
        known: String,
    },
    /// No snapshot lies there.
    #[error("there is no snapshot at {0}")]
    NoSnapshot(String),
    /// The folder holds snapshots of another collection.
    #[error("{url} holds snapshots of collection {found:?}, not of {expected:?}")]
    OtherCollection {
        /// The folder.
        url: String,
        /// Whose snapshots it holds.
        found: String,
        /// Whose was to be written.
        expected: String,
    },
    /// The object store refused or cannot be reached.
    #[error("{url}: {source}")]
    Object {
        /// Folder or object.
        url: String,
        /// What it said.
        source: Arc<object_store::Error>,
    },
    /// The journal was closed, or its thread is gone.
    #[error("the journal is closed")]
    Closed,
}

impl StoreError {
    /// An I/O error with its path.
    pub(crate) fn io(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io { path: path.into(), source: Arc::new(source) }
    }

    /// A damaged file or object.
    pub(crate) fn damaged(file: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Damaged { file: file.into(), reason: reason.into() }
    }

    /// Whether the disk is full.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io { source, .. }
            if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }
}
