//! Values read from files that are replaced when the files change; a file that becomes invalid keeps the previous value.

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use opentelemetry::{KeyValue, metrics::Counter};
use sha2::{Digest, Sha256};
use tokio::{sync::Notify, time::sleep};

type Load<T> = dyn Fn(&[Vec<u8>], Option<&T>) -> Result<T, String> + Send + Sync;

/// A value read from files.
pub(crate) struct Reloadable<T> {
    files: Vec<PathBuf>,
    load: Box<Load<T>>,
    current: RwLock<Arc<T>>,
    /// Digest of the contents at the last attempt, so that an invalid file is reported once.
    attempted: Mutex<[u8; 32]>,
}

impl<T> fmt::Debug for Reloadable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloadable").field("files", &self.files).finish_non_exhaustive()
    }
}

impl<T> Reloadable<T> {
    /// Reads the files and makes the value of their contents. `load` also gets the previous value.
    pub(crate) fn open(
        files: Vec<PathBuf>,
        load: impl Fn(&[Vec<u8>], Option<&T>) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let contents = read(&files);
        let attempted = Mutex::new(digest(&contents));
        let current = RwLock::new(Arc::new(load(&contents?, None)?));
        Ok(Self { files, load: Box::new(load), current, attempted })
    }

    /// The current value.
    pub(crate) fn get(&self) -> Arc<T> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Something that is read from files again.
pub(crate) trait Refresh: Send + Sync {
    /// Replaces the value if the files have changed since the last attempt; `None` if they have not. Blocks.
    fn refresh(&self) -> Option<Result<(), String>>;
}

impl<T: Send + Sync> Refresh for Reloadable<T> {
    fn refresh(&self) -> Option<Result<(), String>> {
        let mut attempted = self.attempted.lock().unwrap_or_else(PoisonError::into_inner);
        let contents = read(&self.files);
        let digest = digest(&contents);
        if digest == std::mem::replace(&mut *attempted, digest) {
            return None;
        }
        let loaded = contents.and_then(|contents| (self.load)(&contents, Some(&self.get())));
        Some(loaded.map(|new| *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new)))
    }
}

fn read(files: &[PathBuf]) -> Result<Vec<Vec<u8>>, String> {
    let read = |path: &PathBuf| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    files.iter().map(read).collect()
}

fn digest(contents: &Result<Vec<Vec<u8>>, String>) -> [u8; 32] {
    let mut digest = Sha256::new();
    match contents {
        Ok(contents) => contents.iter().for_each(|content| {
            digest.update((content.len() as u64).to_le_bytes());
            digest.update(content);
        }),
        Err(error) => digest.update(error),
    }
    digest.finalize().into()
}

/// A value to refresh, with its name in the log and the counter of its reloads.
pub(crate) struct Watched {
    pub(crate) name: &'static str,
    pub(crate) value: Arc<dyn Refresh>,
    pub(crate) reloads: Counter<u64>,
}

impl Watched {
    fn refresh(&self) {
        let Some(refreshed) = self.value.refresh() else { return };
        let outcome = if refreshed.is_ok() { "ok" } else { "failed" };
        self.reloads.add(1, &[KeyValue::new("outcome", outcome)]);
        match refreshed {
            Ok(()) => tracing::info!(name = self.name, "reloaded"),
            Err(error) => tracing::warn!(name = self.name, error, "not reloaded, the previous version stays in use"),
        }
    }
}

/// Refreshes values at an interval, and at once when notified. Never returns.
pub(crate) async fn watch(watched: Vec<Watched>, interval: Duration, now: Arc<Notify>) {
    let watched = Arc::new(watched);
    loop {
        tokio::select! {
            () = sleep(interval) => {}
            () = now.notified() => {}
        }
        let watched = Arc::clone(&watched);
        let refreshing = tokio::task::spawn_blocking(move || watched.iter().for_each(Watched::refresh));
        if refreshing.await.is_err() {
            tracing::error!("panic while reloading");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_changed_file_replaces_the_value_and_an_invalid_one_keeps_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("number");
        fs::write(&path, "1").expect("written");
        let load = |contents: &[Vec<u8>], previous: Option<&u32>| {
            let text = String::from_utf8_lossy(&contents[0]);
            let number: u32 = text.parse().map_err(|_| format!("{text:?} is no number"))?;
            Ok(number + previous.map_or(0, |previous| previous * 10))
        };
        let number = Reloadable::open(vec![path.clone()], load).expect("a number");
        assert_eq!((*number.get(), number.refresh()), (1, None));
        fs::write(&path, "2").expect("written");
        assert_eq!(number.refresh(), Some(Ok(())));
        assert_eq!(*number.get(), 12);
        fs::write(&path, "two").expect("written");
        assert_eq!(number.refresh(), Some(Err("\"two\" is no number".to_owned())));
        assert_eq!((*number.get(), number.refresh()), (12, None), "an invalid file is reported once");
        fs::remove_file(&path).expect("removed");
        assert!(number.refresh().is_some_and(|refreshed| refreshed.is_err()));
        fs::write(&path, "3").expect("written");
        assert_eq!((number.refresh(), *number.get()), (Some(Ok(())), 123));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let error = Reloadable::<()>::open(vec!["/nonexistent/file".into()], |_, _| Ok(())).expect_err("no file");
        assert!(error.starts_with("/nonexistent/file: "), "{error}");
    }
}
