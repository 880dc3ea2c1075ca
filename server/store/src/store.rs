//! The data folder: creates, deletes and recovers collections.

use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    sync::{
        PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    CheckpointWriter, CollectionMeta, Fsync, Journal, Manifest, Recovered, StoreError, Upsert, check_name,
    checkpoint::{self, read_file},
    disk::{list, remove, sync_dir, write_atomic},
    durable_offsets,
    frame::FILE_HEADER,
    journal::{LogPosition, Logs},
    log_files::{create_log, list_logs, log_path},
    manifest::{MAX_JSON_BYTES, seal, unseal},
};

const META: &str = "meta.json";
const NEW: &str = ".new-";
const DROP: &str = ".drop-";

/// Options of a store.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// When an append is acknowledged.
    pub fsync: Fsync,
    /// Maximum number of threads that write logs.
    pub writer_threads: usize,
    /// Maximum number of unused log files kept open.
    pub open_logs: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { fsync: Fsync::Always, writer_threads: 8, open_logs: 256 }
    }
}

impl From<Fsync> for Options {
    fn from(fsync: Fsync) -> Self {
        Self { fsync, ..Self::default() }
    }
}

/// The data folder, open in at most one process at a time.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    root: PathBuf,
    fsync: Fsync,
    logs: Logs,
    /// Number of deleted collections, which makes the names of their folders unique.
    deleted: AtomicU64,
    /// Holds the folder's lock until it is dropped or released.
    lock: File,
}

impl Store {
    /// Opens a data folder, creating it if necessary, and lists its collections.
    pub fn open(dir: &Path, options: impl Into<Options>) -> Result<(Self, Vec<Recovered>), StoreError> {
        let Options { fsync, writer_threads, open_logs } = options.into();
        let root = dir.join("collections");
        fs::create_dir_all(&root).map_err(|e| StoreError::io(&root, e))?;
        let lock = lock(dir)?;
        sync_dir(dir)?;
        let logs = Logs::new(writer_threads, open_logs, durable_offsets::read(dir));
        let (mut found, mut leftovers) = (vec![], vec![]);
        for name in list(&root)? {
            if name.starts_with(NEW) || name.starts_with(DROP) {
                leftovers.push(root.join(name));
            } else if check_name(&name).is_ok() && root.join(&name).is_dir() {
                let dir = root.join(&name);
                found.push(Recovered { meta: read_meta(&dir, &name), name, dir, fsync, logs: logs.clone() });
            }
        }
        leftovers.iter().try_for_each(|path| remove(path))?;
        sync_dir(&root)?;
        Ok((Self { dir: dir.into(), root, fsync, logs, deleted: AtomicU64::new(0), lock }, found))
    }

    /// Creates an empty collection durably. Blocking.
    pub fn create(&self, meta: &CollectionMeta) -> Result<Journal, StoreError> {
        self.stage(meta)?.commit()
    }

    /// Starts a collection with initial points. The commit creates it atomically. Blocking.
    pub fn stage(&self, meta: &CollectionMeta) -> Result<Staged, StoreError> {
        check_name(&meta.name)?;
        let dir = self.root.join(&meta.name);
        if dir.exists() {
            return Err(StoreError::Exists(meta.name.clone()));
        }
        let staging = self.root.join(format!("{NEW}{}", meta.name));
        remove(&staging)?;
        fs::create_dir(&staging).map_err(|e| StoreError::io(&staging, e))?;
        write_atomic(&staging.join(META), &seal(&meta.with_oldest_format()))?;
        let (root, logs) = (self.root.clone(), self.logs.clone());
        Ok(Staged { root, staging, dir, meta: meta.clone(), points: None, fsync: self.fsync, logs })
    }

    /// Records the digest of a collection's model, unless the name is another collection's by now. Blocking.
    pub fn record_model_digest(&self, meta: &CollectionMeta) -> Result<(), StoreError> {
        let dir = self.root.join(&meta.name);
        let stored = read_meta(&dir, &meta.name)?;
        if !stored.is_same(meta) {
            return Err(StoreError::Closed);
        }
        write_atomic(&dir.join(META), &seal(&meta.with_oldest_format()))
    }

    /// Deletes a collection durably; drop its journal first. Blocking.
    pub fn delete(&self, name: &str) -> Result<(), StoreError> {
        check_name(name)?;
        let dir = self.root.join(name);
        let dropped = self.root.join(format!("{DROP}{}", self.deleted.fetch_add(1, Ordering::Relaxed)));
        remove(&dropped)?;
        fs::rename(&dir, &dropped).map_err(|e| StoreError::io(&dir, e))?;
        sync_dir(&self.root)?;
        self.logs.durable_offsets.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        // The rename is durable: the next start removes whatever this leaves.
        if let Err(error) = remove(&dropped) {
            tracing::warn!(%error, "cannot remove a deleted collection from disk; the next start retries");
        }
        Ok(())
    }

    /// Starts a checkpoint of a collection that covers all records up to `sequence`. Blocking.
    pub fn checkpoint(&self, meta: &CollectionMeta, sequence: u64) -> Result<CheckpointWriter, StoreError> {
        CheckpointWriter::create(&self.root.join(&meta.name), meta, sequence)
    }

    /// Records the known durable offset of each log, as of its replay or its last close; logs only grow from there. A
    /// failure is logged. Blocking.
    pub fn record_durable_offsets(&self) {
        let offsets = self.logs.durable_offsets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = durable_offsets::write(&self.dir, &offsets) {
            tracing::warn!(%error, "cannot record the durable offsets of the logs");
        }
    }

    /// Records the durable offsets and unlocks the folder, so that another process can open it before this one exits.
    /// Close every journal first. Blocking.
    pub fn release(&self) {
        self.record_durable_offsets();
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(%error, "the data folder stays locked until the process ends");
        }
    }

    /// Removes older checkpoints and the log files that the checkpoint covers. A crash midway loses nothing. Blocking.
    pub fn retire(&self, checkpoint: &Manifest) -> Result<(), StoreError> {
        let dir = self.root.join(&checkpoint.collection.name);
        checkpoint::remove_others(&dir, Some(checkpoint.version))?;
        let logs = list_logs(&dir)?;
        // Oldest first, so that a crash leaves no gap in the log.
        for (first, next) in logs.iter().zip(logs.iter().skip(1)) {
            if *next <= checkpoint.sequence + 1 {
                remove(&log_path(&dir, *first))?;
            }
        }
        sync_dir(&dir)
    }
}

/// A collection under construction. Dropping it before the commit removes its files.
#[derive(Debug)]
pub struct Staged {
    root: PathBuf,
    /// Temporary folder, which the commit renames to `dir`.
    staging: PathBuf,
    dir: PathBuf,
    meta: CollectionMeta,
    points: Option<CheckpointWriter>,
    fsync: Fsync,
    logs: Logs,
}

impl Staged {
    /// Adds a chunk of points. Blocking.
    pub fn push(&mut self, points: &Upsert) -> Result<(), StoreError> {
        let writer = match &mut self.points {
            Some(writer) => writer,
            None => self.points.insert(CheckpointWriter::create(&self.staging, &self.meta, 0)?),
        };
        writer.push(points)
    }

    /// Creates the collection durably. Blocking.
    pub fn commit(mut self) -> Result<Journal, StoreError> {
        if let Some(points) = self.points.take() {
            points.finish()?;
        }
        let salt = create_log(&self.staging, 1)?;
        fs::rename(&self.staging, &self.dir).map_err(|e| StoreError::io(&self.dir, e))?;
        sync_dir(&self.root)?;
        let dir = self.dir.clone();
        let fsync = self.fsync;
        let position = LogPosition { dir, first: 1, next: 1, len: FILE_HEADER as u64, salt, older: 0, fsync };
        Ok(Journal::start(position, &self.logs))
    }
}

impl Drop for Staged {
    /// Removes the temporary folder, which does not exist after a commit.
    fn drop(&mut self) {
        if let Err(error) = remove(&self.staging) {
            tracing::warn!(%error, "cannot remove an uncommitted collection from disk; the next start retries");
        }
    }
}

fn lock(dir: &Path) -> Result<File, StoreError> {
    let path = dir.join("LOCK");
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(|e| StoreError::io(&path, e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::InUse(dir.into())),
        Err(TryLockError::Error(e)) => Err(StoreError::io(path, e)),
    }
}

fn read_meta(dir: &Path, name: &str) -> Result<CollectionMeta, StoreError> {
    let path = dir.join(META);
    let file = path.display().to_string();
    let bytes = read_file(&path, MAX_JSON_BYTES)?;
    let meta: CollectionMeta =
        unseal(&file, &bytes, |content| crate::meta::check_format(&file, content, CollectionMeta::FORMAT))?;
    if meta.name != name {
        return Err(StoreError::damaged(
            file,
            format!("it describes collection {:?}, but its folder is {name:?}", meta.name),
        ));
    }
    Ok(meta)
}
