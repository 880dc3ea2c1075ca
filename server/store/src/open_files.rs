//! An LRU cache of open log files. A rarely written log holds no descriptor, so that the number of descriptors does not
//! grow with the number of collections.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::disk::Disk;

/// Open files that are not in use.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    capacity: usize,
    idle: Mutex<Idle>,
    next_id: AtomicU64,
}

#[derive(Debug, Default)]
struct Idle {
    by_id: HashMap<u64, (u64, File)>,
    /// Ids by time of last use; the first is closed next.
    by_use: BTreeMap<u64, u64>,
    uses: u64,
}

impl OpenFiles {
    /// Keeps at most this many unused files open.
    pub(crate) fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self { capacity, idle: Mutex::default(), next_id: AtomicU64::new(0) })
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, id: u64) -> Option<File> {
        let mut idle = self.idle();
        let (used, file) = idle.by_id.remove(&id)?;
        idle.by_use.remove(&used);
        Some(file)
    }

    fn put(&self, id: u64, file: File) {
        let mut closed = vec![];
        {
            let mut idle = self.idle();
            idle.uses += 1;
            let now = idle.uses;
            idle.by_use.insert(now, id);
            idle.by_id.insert(id, (now, file));
            while idle.by_id.len() > self.capacity {
                let Some((_, oldest)) = idle.by_use.pop_first() else { break };
                closed.extend(idle.by_id.remove(&oldest));
            }
        }
        // Close without holding the lock: the file system may be slow.
        drop(closed);
    }

    /// Number of open files that are not in use.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.idle().by_id.len()
    }
}

/// A log file, open while in use and afterwards until the cache evicts it.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    /// Offset of the next write.
    len: u64,
    id: u64,
    files: Arc<OpenFiles>,
}

impl LogFile {
    /// An existing file with this many valid bytes.
    pub(crate) fn new(path: PathBuf, len: u64, files: &Arc<OpenFiles>) -> Self {
        let id = files.next_id.fetch_add(1, Ordering::Relaxed);
        Self { path, len, id, files: Arc::clone(files) }
    }

    fn with<T>(&self, work: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        let file = match self.files.take(self.id) {
            Some(file) => file,
            None => File::options().write(true).open(&self.path)?,
        };
        let done = work(&file);
        self.files.put(self.id, file);
        done
    }
}

impl Disk for LogFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.with(|file| file.write_all_at(bytes, self.len))?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.with(File::sync_data)
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.with(|file| {
            file.set_len(len)?;
            file.sync_all()
        })?;
        self.len = len;
        Ok(())
    }
}

impl Drop for LogFile {
    /// Closes the descriptor, which no other log uses.
    fn drop(&mut self) {
        drop(self.files.take(self.id));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn logs_beyond_the_cache_capacity_are_reopened_and_lose_no_byte() {
        let dir = tempfile::tempdir().expect("a folder");
        let files = OpenFiles::new(3);
        let path = |i: usize| dir.path().join(i.to_string());
        let mut logs: Vec<_> =
            (0..20).map(|i| fs::write(path(i), b"head").map(|()| LogFile::new(path(i), 4, &files))).collect();
        for round in 0..5u8 {
            for log in &mut logs {
                let log = log.as_mut().expect("it was created");
                log.append(&[b'a' + round; 3]).expect("there is room");
                log.sync().expect("it can be synced");
                assert!(files.count() <= 3);
            }
        }
        for (i, log) in logs.iter_mut().enumerate() {
            log.as_mut().expect("it was created").truncate(7).expect("it can be truncated");
            log.as_mut().expect("it was created").append(b"z").expect("there is room");
            assert_eq!(fs::read(path(i)).expect("it is there"), b"headaaaz");
        }
        logs.truncate(1);
        assert!(files.count() <= 1, "a dropped log closes its descriptor");
    }

    #[test]
    fn a_failed_reopen_is_an_error_and_keeps_the_write_offset() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("log");
        let moved = dir.path().join("moved");
        fs::write(&path, b"").expect("written");
        let files = OpenFiles::new(0);
        let mut log = LogFile::new(path.clone(), 0, &files);
        log.append(b"one").expect("there is room");
        fs::rename(&path, &moved).expect("moved");
        assert!(log.append(b"two").is_err());
        fs::rename(&moved, &path).expect("moved");
        log.append(b"two").expect("it is back");
        assert_eq!(fs::read(&path).expect("it is there"), b"onetwo");
    }
}
