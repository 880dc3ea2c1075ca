//! Why the store could not do what was asked.

use std::{
    io,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

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
    /// It lies outside of the folder that callers may use.
    #[error("{0} leads out of the folder that may be used, by a symbolic link")]
    Outside(String),
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

    /// The same for a caller: a file is named within the data folder, and an object store's refusal by what it means. Where
    /// the data folder lies and what servers said in full is for the log.
    pub fn public(&self) -> String {
        match self {
            Self::Io { path, source } => format!("{}: {source}", within_data(path)),
            Self::Corrupt { file, offset, reason } => {
                format!("{} is corrupt at offset {offset}: {reason}", within_data(file))
            }
            Self::Damaged { file, reason } => format!("{} is damaged: {reason}", within_data(Path::new(file))),
            Self::Format { file, got, known } => {
                format!("{} has format {got}, at most {known} is known", within_data(Path::new(file)))
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

    /// Whether a caller learns less from [`Self::public`] than the log should say.
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

    /// Whether the disk is full.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io { source, .. }
            if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }
}

/// An absolute path from the folder of collections on, or its last part; other names as they are.
fn within_data(path: &Path) -> String {
    if !path.is_absolute() {
        return path.display().to_string();
    }
    let parts: Vec<_> = path.components().collect();
    let root = parts.iter().rposition(|part| *part == Component::Normal("collections".as_ref()));
    let start = root.filter(|at| at + 1 < parts.len()).map_or(parts.len() - 1, |at| at + 1);
    parts[start..].iter().collect::<PathBuf>().display().to_string()
}

/// What an object store's refusal means for the one who asked.
fn meaning(error: &object_store::Error) -> &'static str {
    use object_store::Error;
    // Listings have no kind of error of their own for what their server answered.
    let text = error.to_string();
    let answered = |statuses: [&str; 2]| statuses.iter().any(|status| text.contains(status));
    if matches!(error, Error::NotFound { .. }) || answered(["404 Not Found", "NoSuchBucket"]) {
        "the bucket or object is not there"
    } else if matches!(error, Error::Unauthenticated { .. } | Error::PermissionDenied { .. })
        || answered(["403 Forbidden", "401 Unauthorized"])
    {
        "the object store does not accept the daemon's credentials, or does not allow them this"
    } else if matches!(error, Error::AlreadyExists { .. } | Error::Precondition { .. }) {
        "another snapshot of this version was written meanwhile"
    } else {
        "the object store cannot be reached or answered with an error; the daemon's log says more"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_see_no_path_of_the_machine() {
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
