//! The cache of downloaded models: `owner/name/commit` holds a complete snapshot, which is downloaded under another name and
//! then renamed; `owner/name/refs/revision` holds the commit to which a revision last resolved.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::repo::{Repo, is_commit};
use crate::error::ApiError;

/// Interval at which a lock held by another download is retried.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// The directory of a model's snapshots.
#[derive(Debug)]
pub(super) struct ModelCache {
    folder: PathBuf,
    /// Excludes concurrent downloads of the model, also by other daemons that share the cache.
    _lock: Option<File>,
    /// The directory, if it is temporary.
    _temporary: Option<TempDir>,
}

/// A complete snapshot. A temporary one is deleted on drop.
#[derive(Debug)]
pub struct Snapshot {
    /// Its directory.
    pub path: PathBuf,
    _cache: ModelCache,
}

impl ModelCache {
    /// Opens the model's directory in the cache at `root` and waits for its lock; a temporary directory if `root` is empty.
    pub(super) fn open(root: &Path, repo: &Repo, cancel: &CancellationToken) -> Result<Self, ApiError> {
        if root.as_os_str().is_empty() {
            let temporary = tempfile::tempdir().map_err(|error| cache_error(&std::env::temp_dir(), &error))?;
            return Ok(Self { folder: temporary.path().to_owned(), _lock: None, _temporary: Some(temporary) });
        }
        let folder = root.join(&repo.owner).join(&repo.name);
        let refs = folder.join("refs");
        fs::create_dir_all(&refs).map_err(|error| cache_error(&refs, &error))?;
        let file = lock(&folder.join("lock"), repo, cancel)?;
        Ok(Self { folder, _lock: Some(file), _temporary: None })
    }

    /// Returns true if the snapshot of a commit is complete.
    pub(super) fn contains(&self, commit: &str) -> bool {
        is_commit(commit) && self.folder.join(commit).is_dir()
    }

    /// The snapshot of a commit that the cache contains.
    pub(super) fn snapshot(self, commit: &str) -> Snapshot {
        Snapshot { path: self.folder.join(commit), _cache: self }
    }

    /// The commit to which the revision last resolved.
    pub(super) fn resolved(&self, repo: &Repo) -> Option<String> {
        fs::read_to_string(self.ref_path(repo)).ok()
    }

    /// Records the commit to which the revision resolves.
    pub(super) fn record_resolved(&self, repo: &Repo, commit: &str) -> Result<(), ApiError> {
        let path = self.ref_path(repo);
        let Some(folder) = path.parent().filter(|folder| folder.is_dir()) else { return Ok(()) };
        let written = tempfile::NamedTempFile::new_in(folder).and_then(|file| {
            fs::write(file.path(), commit)?;
            file.persist(&path).map_err(|error| error.error)
        });
        written.map(drop).map_err(|error| cache_error(&path, &error))
    }

    fn ref_path(&self, repo: &Repo) -> PathBuf {
        self.folder.join("refs").join(repo.escaped_revision())
    }

    /// The directory of an incomplete snapshot. Files of an earlier attempt are kept.
    pub(super) fn incomplete(&self, commit: &str) -> Result<PathBuf, ApiError> {
        let path = self.folder.join(format!("{commit}.incomplete"));
        fs::create_dir_all(&path).map_err(|error| cache_error(&path, &error))?;
        Ok(path)
    }

    /// Publishes a snapshot whose files are all downloaded.
    pub(super) fn publish(self, repo: &Repo, commit: &str) -> Result<Snapshot, ApiError> {
        let from = self.incomplete(commit)?;
        let path = self.folder.join(commit);
        fs::rename(&from, &path).map_err(|error| cache_error(&path, &error))?;
        // Makes the rename durable.
        let synced = File::open(&self.folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| cache_error(&self.folder, &error))?;
        self.record_resolved(repo, commit)?;
        Ok(Snapshot { path, _cache: self })
    }
}

/// Waits for the lock of a model's directory until cancelled.
fn lock(path: &Path, repo: &Repo, cancel: &CancellationToken) -> Result<File, ApiError> {
    let file = File::create(path).map_err(|error| cache_error(path, &error))?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if cancel.is_cancelled() => {
                return Err(ApiError::Unavailable(format!("{repo} is being downloaded by another call")));
            }
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_RETRY_INTERVAL),
            Err(TryLockError::Error(error)) => return Err(cache_error(path, &error)),
        }
    }
}

/// Total size of the files in a directory and its subdirectories.
pub(super) fn directory_bytes(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let data = entry.metadata()?;
        bytes += if data.is_dir() { directory_bytes(&entry.path())? } else { data.len() };
    }
    Ok(bytes)
}

/// An error of the file system. The path is logged but not shown to clients.
pub(super) fn cache_error(path: &Path, error: &io::Error) -> ApiError {
    tracing::warn!(path = %path.display(), %error, "cannot write to the model cache");
    let reason = format!("cannot write to models.hub.cache: {error}");
    let is_full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    if is_full { ApiError::Exhausted(reason) } else { ApiError::Unavailable(reason) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_resource_exhausted() {
        let full = cache_error(Path::new("/cache"), &io::Error::from(io::ErrorKind::StorageFull));
        assert!(matches!(&full, ApiError::Exhausted(reason) if !reason.contains("/cache")), "{full}");
        let denied = cache_error(Path::new("/cache"), &io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(matches!(denied, ApiError::Unavailable(_)), "{denied}");
    }

    #[test]
    fn waiting_for_a_lock_can_be_cancelled() {
        let cache = tempfile::tempdir().expect("a folder");
        let repo = Repo::parse("hf://a/b").expect("of a hub").expect("a name");
        let cancel = CancellationToken::new();
        let first = ModelCache::open(cache.path(), &repo, &cancel).expect("free");
        cancel.cancel();
        let second = ModelCache::open(cache.path(), &repo, &cancel).expect_err("taken");
        assert!(second.to_string().contains("hf://a/b is being downloaded by another call"), "{second}");
        drop(first);
        ModelCache::open(cache.path(), &repo, &cancel).expect("free again");
    }
}
