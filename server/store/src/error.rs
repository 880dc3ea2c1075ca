//! Errors of the store.

use std::{
    io,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

/// Why an operation of the store failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// A file operation failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// A log is damaged in its synced part.
    #[error("{} is corrupt at offset {offset}: {reason}", file.display())]
    Corrupt {
        /// The log file.
        file: PathBuf,
        /// Byte offset of the damage.
        offset: u64,
        /// Which check failed.
        reason: String,
    },
    /// A manifest, a chunk or the description of a collection is damaged.
    #[error("{file} is damaged: {reason}")]
    Damaged {
        /// The file or object.
        file: String,
        /// Which check failed.
        reason: String,
    },
    /// A newer version wrote the file.
    #[error("{file} has format {got}, at most {known} is supported")]
    Format {
        /// The file or object.
        file: String,
        /// Format of the file.
        got: u32,
        /// Newest supported format.
        known: u32,
    },
    /// Another process uses the folder.
    #[error("{} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// A collection of this name exists.
    #[error("collection {0:?} exists already")]
    Exists(String),
    /// The name is not a valid collection name.
    #[error("a name is 1 to 128 of [a-zA-Z0-9._-] and starts with a letter or digit, got {0:?}")]
    Name(String),
    /// A record is too large for a frame.
    #[error("a record has at most {limit} bytes, got {got}")]
    TooLarge {
        /// Size of the record.
        got: u64,
        /// Maximum size.
        limit: u64,
    },
    /// Not a URL, or one that cannot be a folder.
    #[error("{url:?} is not the URL of a folder: {reason}")]
    Url {
        /// As given.
        url: String,
        /// The mistake.
        reason: String,
    },
    /// The URL's scheme is not supported.
    #[error("unsupported scheme {scheme:?}, expected one of {known}")]
    Scheme {
        /// As given.
        scheme: String,
        /// The supported schemes, separated by commas.
        known: String,
    },
    /// The folder has no snapshot.
    #[error("there is no snapshot at {0}")]
    NoSnapshot(String),
    /// The path is outside the folder that callers may use.
    #[error("{0} leads outside the allowed folder through a symbolic link")]
    Outside(String),
    /// The folder holds snapshots of another collection.
    #[error("{url} holds snapshots of collection {found:?}, not of {expected:?}")]
    OtherCollection {
        /// The folder.
        url: String,
        /// The collection whose snapshots it holds.
        found: String,
        /// The collection of the snapshot to be written.
        expected: String,
    },
    /// The object store returned an error or is unreachable.
    #[error("{url}: {source}")]
    Object {
        /// Folder or object.
        url: String,
        /// The error of its client.
        source: Arc<object_store::Error>,
    },
    /// The journal was closed, or its thread panicked.
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

    /// The error as a caller may see it: file names are relative to the data folder, and an object store's error is
    /// reduced to its meaning. The full path and the server's response belong in the log.
    pub fn public(&self) -> String {
        match self {
            Self::Io { path, source } => format!("{}: {source}", within_data(path)),
            Self::Corrupt { file, offset, reason } => {
                format!("{} is corrupt at offset {offset}: {reason}", within_data(file))
            }
            Self::Damaged { file, reason } => format!("{} is damaged: {reason}", within_data(Path::new(file))),
            Self::Format { file, got, known } => {
                format!("{} has format {got}, at most {known} is supported", within_data(Path::new(file)))
            }
            Self::InUse(_) => "the data folder is in use by another process".to_owned(),
            Self::Object { url, source } => format!("{url}: {}", meaning(source)),
            Self::Exists(_)
            | Self::Name(_)
            | Self::TooLarge { .. }
            | Self::Url { .. }
            | Self::Scheme { .. }
            | Self::NoSnapshot(_)
            | Self::Outside(_)
            | Self::OtherCollection { .. }
            | Self::Closed => self.to_string(),
        }
    }

    /// Returns true if [`Self::public`] omits details that belong in the log.
    pub fn is_internal(&self) -> bool {
        matches!(
            self,
            Self::Io { .. }
                | Self::Corrupt { .. }
                | Self::Damaged { .. }
                | Self::Format { .. }
                | Self::InUse(_)
                | Self::Object { .. }
        )
    }

    /// Returns true if a part of a file is missing, or cannot be read from its device: what else is there can still be used.
    pub(crate) fn is_unreadable(&self) -> bool {
        /// The number of `EIO` on Linux.
        const IO_ERROR: i32 = 5;
        matches!(self, Self::Io { source, .. }
            if source.kind() == io::ErrorKind::NotFound || source.raw_os_error() == Some(IO_ERROR))
    }

    /// Returns true if the disk is full, or a limit of the file size is reached.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io { source, .. }
        if matches!(
            source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        ))
    }
}

/// An absolute path relative to the folder of collections, or else its last component; other names unchanged.
fn within_data(path: &Path) -> String {
    if !path.is_absolute() {
        return path.display().to_string();
    }
    let parts: Vec<_> = path.components().collect();
    let root = parts.iter().rposition(|part| *part == Component::Normal("collections".as_ref()));
    let start = root.filter(|at| at + 1 < parts.len()).map_or(parts.len() - 1, |at| at + 1);
    parts[start..].iter().collect::<PathBuf>().display().to_string()
}

/// The meaning of an object store's error for the caller.
fn meaning(error: &object_store::Error) -> &'static str {
    use object_store::Error;
    // A listing has no error variant for its server's response.
    let text = error.to_string();
    let has_status = |statuses: [&str; 2]| statuses.iter().any(|status| text.contains(status));
    if matches!(error, Error::NotFound { .. }) || has_status(["404 Not Found", "NoSuchBucket"]) {
        "the bucket or object does not exist"
    } else if matches!(error, Error::Unauthenticated { .. } | Error::PermissionDenied { .. })
        || has_status(["403 Forbidden", "401 Unauthorized"])
    {
        "the object store rejects the daemon's credentials or denies them access"
    } else if matches!(error, Error::AlreadyExists { .. } | Error::Precondition { .. }) {
        "another writer has committed a snapshot of this version"
    } else {
        "the object store is unreachable or returned an error; the daemon's log has the details"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_messages_contain_no_absolute_path() {
        let io = |path: &str| StoreError::io(path, io::ErrorKind::PermissionDenied.into());
        let log = "/srv/data/collections/c/wal-00000000000000000001.log";
        let corrupt = StoreError::Corrupt { file: log.into(), offset: 7, reason: "torn".into() };
        for (error, expected) in [
            (io(log), "c/wal-00000000000000000001.log: permission denied"),
            (io("/srv/collections/data/LOCK"), "data/LOCK: permission denied"),
            (io("/srv/data/collections"), "collections: permission denied"),
            (corrupt, "c/wal-00000000000000000001.log is corrupt at offset 7: torn"),
            (StoreError::damaged("/srv/data/collections/c/meta.json", "x"), "c/meta.json is damaged: x"),
            (StoreError::damaged("the log of \"c\"", "x"), "the log of \"c\" is damaged: x"),
            (StoreError::InUse("/srv/data".into()), "the data folder is in use by another process"),
        ] {
            assert_eq!(error.public(), expected);
            assert!(error.is_internal());
        }
    }
}
