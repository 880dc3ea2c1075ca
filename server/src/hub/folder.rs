//! Where fetched models lie: `owner/name/commit` below the cache. A folder of that name is whole, since it has another name
//! while its files come; `owner/name/refs` says which commit a revision was when it was last asked for.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::{
    State,
    repo::{Repo, is_commit},
};
use crate::error::ApiError;

/// How often it is seen whether another fetch of the same model has ended.
const LOOK: Duration = Duration::from_millis(50);

/// The folder of a model's commits.
#[derive(Debug)]
pub(super) struct Shelf {
    folder: PathBuf,
    /// Held while this may change the folder; another daemon may have the same cache.
    _lock: Option<File>,
    /// Deleted with this, where nothing is to be kept.
    _passing: Option<TempDir>,
}

/// A commit's files, whole, as long as this lives.
#[derive(Debug)]
pub struct Fetched {
    /// The folder.
    pub path: PathBuf,
    _shelf: Shelf,
}

impl Shelf {
    /// The model's own folder in the cache, once no other fetch is at it; or one that passes, where there is no cache.
    pub(super) fn open(cache: &Path, repo: &Repo, gone: &CancellationToken) -> Result<Self, ApiError> {
        if cache.as_os_str().is_empty() {
            let passing = tempfile::tempdir().map_err(|error| disk(&std::env::temp_dir(), &error))?;
            return Ok(Self { folder: passing.path().to_owned(), _lock: None, _passing: Some(passing) });
        }
        let folder = cache.join(&repo.owner).join(&repo.name);
        let refs = folder.join("refs");
        fs::create_dir_all(&refs).map_err(|error| disk(&refs, &error))?;
        let lock = locked(&folder.join("lock"), repo, gone)?;
        Ok(Self { folder, _lock: Some(lock), _passing: None })
    }

    /// Whether a commit is here, whole.
    pub(super) fn holds(&self, commit: &str) -> bool {
        is_commit(commit) && self.folder.join(commit).is_dir()
    }

    /// A commit that is here.
    pub(super) fn take(self, commit: &str) -> State {
        State::Here(Fetched { path: self.folder.join(commit), _shelf: self })
    }

    /// The commit that a revision was when it was last asked for.
    pub(super) fn last(&self, repo: &Repo) -> Option<String> {
        fs::read_to_string(self.reference(repo)).ok()
    }

    /// Keeps in mind which commit a revision is.
    pub(super) fn remember(&self, repo: &Repo, commit: &str) -> Result<(), ApiError> {
        let path = self.reference(repo);
        let Some(folder) = path.parent().filter(|folder| folder.is_dir()) else { return Ok(()) };
        let written = tempfile::NamedTempFile::new_in(folder).and_then(|file| {
            fs::write(file.path(), commit)?;
            file.persist(&path).map_err(|error| error.error)
        });
        written.map(drop).map_err(|error| disk(&path, &error))
    }

    fn reference(&self, repo: &Repo) -> PathBuf {
        self.folder.join("refs").join(repo.revision_name())
    }

    /// Where a commit's files come to before all of them are there. Those of an earlier attempt are kept.
    pub(super) fn coming(&self, commit: &str) -> Result<PathBuf, ApiError> {
        let path = self.folder.join(format!("{commit}.coming"));
        fs::create_dir_all(&path).map_err(|error| disk(&path, &error))?;
        Ok(path)
    }

    /// Lets the files of a commit be found, all of them being there.
    pub(super) fn finish(self, repo: &Repo, commit: &str) -> Result<Fetched, ApiError> {
        let (from, path) = (self.coming(commit)?, self.folder.join(commit));
        fs::rename(&from, &path).map_err(|error| disk(&path, &error))?;
        // Without this, a power cut may leave the name behind and the files not.
        let kept = File::open(&self.folder).and_then(|folder| folder.sync_all());
        kept.map_err(|error| disk(&self.folder, &error))?;
        self.remember(repo, commit)?;
        Ok(Fetched { path, _shelf: self })
    }
}

/// The lock of a model's folder, waited for as long as somebody wants it.
fn locked(path: &Path, repo: &Repo, gone: &CancellationToken) -> Result<File, ApiError> {
    let file = File::create(path).map_err(|error| disk(path, &error))?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if gone.is_cancelled() => {
                return Err(ApiError::Unavailable(format!("{repo} is fetched by another call")));
            }
            Err(TryLockError::WouldBlock) => thread::sleep(LOOK),
            Err(TryLockError::Error(error)) => return Err(disk(path, &error)),
        }
    }
}

/// Bytes of all files of a folder and of those below it.
pub(super) fn bytes_below(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let data = entry.metadata()?;
        bytes += if data.is_dir() { bytes_below(&entry.path())? } else { data.len() };
    }
    Ok(bytes)
}

/// What the file system refused. Where the cache lies is for the log, not for callers.
pub(super) fn disk(path: &Path, error: &io::Error) -> ApiError {
    tracing::warn!(path = %path.display(), %error, "the cache of models cannot be written");
    let reason = format!("cannot write to models.hub.cache: {error}");
    let is_full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    if is_full { ApiError::Exhausted(reason) } else { ApiError::Unavailable(reason) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_a_resource_used_up() {
        let full = disk(Path::new("/cache"), &io::Error::from(io::ErrorKind::StorageFull));
        assert!(matches!(&full, ApiError::Exhausted(reason) if !reason.contains("/cache")), "{full}");
        let denied = disk(Path::new("/cache"), &io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(matches!(denied, ApiError::Unavailable(_)), "{denied}");
    }

    #[test]
    fn who_waits_for_a_fetch_may_go() {
        let cache = tempfile::tempdir().expect("a folder");
        let repo = Repo::parse("hf://a/b").expect("of a hub").expect("a name");
        let gone = CancellationToken::new();
        let first = Shelf::open(cache.path(), &repo, &gone).expect("free");
        gone.cancel();
        let second = Shelf::open(cache.path(), &repo, &gone).expect_err("taken");
        assert!(second.to_string().contains("hf://a/b is fetched by another call"), "{second}");
        drop(first);
        Shelf::open(cache.path(), &repo, &gone).expect("free again");
    }
}
