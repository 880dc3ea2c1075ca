//! The folder of all collections: making, dropping, and recovery.

use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    sync::{
        PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    CheckpointWriter, CollectionMeta, Fsync, Journal, Manifest, Record, StoreError, Upsert, check_name,
    checkpoint::{self, read_file},
    disk::{list, remove, sync_dir, write_atomic},
    ends::{self, LogEnd},
    frame::FILE_HEADER,
    journal::{Logs, Place, create_log, log_path},
    manifest::{MAX_JSON_BYTES, seal, unseal},
    replay::{Item, LogReader, truncate},
};

const META: &str = "meta.json";
const NEW: &str = ".new-";
const DROP: &str = ".drop-";

/// How a store works.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// When an append is answered.
    pub fsync: Fsync,
    /// Threads that write all logs.
    pub writer_threads: usize,
    /// Log files that are kept open.
    pub open_logs: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { fsync: Fsync::Always, writer_threads: 8, open_logs: 256 }
    }
}

/// The folder of all collections. One process at a time may have it open.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    root: PathBuf,
    fsync: Fsync,
    logs: Logs,
    /// Makes the names of dropped folders unique.
    drops: AtomicU64,
    /// Locked while this lives, or until it is released.
    lock: File,
}

/// A collection found at the start.
#[derive(Debug)]
pub struct Recovered {
    /// The name of its folder.
    pub name: String,
    /// What is written down about it, unless that is damaged.
    pub meta: Result<CollectionMeta, StoreError>,
    dir: PathBuf,
    fsync: Fsync,
    logs: Logs,
}

/// A collection read back.
#[derive(Debug)]
pub struct Replayed {
    /// Open for appending.
    pub journal: Journal,
    /// The last record; 0 for none.
    pub sequence: u64,
    /// Size of the checkpoint it was read from; 0 for none.
    pub checkpoint_bytes: u64,
}

impl Store {
    /// Opens a folder, making it where it is not there, and finds the collections in it.
    pub fn open(dir: &Path, options: impl Into<Options>) -> Result<(Self, Vec<Recovered>), StoreError> {
        let Options { fsync, writer_threads, open_logs } = options.into();
        let root = dir.join("collections");
        fs::create_dir_all(&root).map_err(|e| StoreError::io(&root, e))?;
        let lock = lock(dir)?;
        sync_dir(dir)?;
        let logs = Logs::new(writer_threads, open_logs, ends::read(dir));
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
        Ok((Self { dir: dir.into(), root, fsync, logs, drops: AtomicU64::new(0), lock }, found))
    }

    /// Makes an empty collection. Once this returns, it survives a crash. Blocking.
    pub fn create(&self, meta: &CollectionMeta) -> Result<Journal, StoreError> {
        self.stage(meta)?.commit()
    }

    /// Starts a collection that has points from the beginning: it is there whole after the commit, or not at all.
    /// Blocking.
    pub fn stage(&self, meta: &CollectionMeta) -> Result<Staged, StoreError> {
        check_name(&meta.name)?;
        let dir = self.root.join(&meta.name);
        if dir.exists() {
            return Err(StoreError::Exists(meta.name.clone()));
        }
        let staged = self.root.join(format!("{NEW}{}", meta.name));
        remove(&staged)?;
        fs::create_dir(&staged).map_err(|e| StoreError::io(&staged, e))?;
        write_atomic(&staged.join(META), &seal(meta))?;
        let (root, logs) = (self.root.clone(), self.logs.clone());
        Ok(Staged { root, from: staged, dir, meta: meta.clone(), points: None, fsync: self.fsync, logs })
    }

    /// Drops a collection: it is gone for good once this returns. Blocking. Drop its journal first.
    pub fn delete(&self, name: &str) -> Result<(), StoreError> {
        check_name(name)?;
        let dir = self.root.join(name);
        let dropped = self.root.join(format!("{DROP}{}", self.drops.fetch_add(1, Ordering::Relaxed)));
        remove(&dropped)?;
        fs::rename(&dir, &dropped).map_err(|e| StoreError::io(&dir, e))?;
        sync_dir(&self.root)?;
        self.logs.ends.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        // The name is free and the drop durable; what cannot be removed now is removed at the next start.
        if let Err(error) = remove(&dropped) {
            tracing::warn!(%error, "a dropped collection could not be removed from disk");
        }
        Ok(())
    }

    /// Starts a checkpoint of a collection with all records up to `sequence`. Blocking.
    pub fn checkpoint(&self, meta: &CollectionMeta, sequence: u64) -> Result<CheckpointWriter, StoreError> {
        CheckpointWriter::create(&self.root.join(&meta.name), meta.clone(), sequence)
    }

    /// Writes down how far the logs go, as far as that is known: where they were read back, and where they were closed. They
    /// only grow from there. Blocking.
    pub fn record_ends(&self) {
        let ends = self.logs.ends.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = ends::write(&self.dir, &ends) {
            tracing::warn!(%error, "how far the logs go could not be written down");
        }
    }

    /// Writes down how far the logs go, and lets another process open the folder, while this one still holds what it will
    /// not use again. Only when every journal is closed. Blocking.
    pub fn release(&self) {
        self.record_ends();
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(%error, "the data folder stays locked until the process ends");
        }
    }

    /// Removes what a finished checkpoint made superfluous: older checkpoints, and log files whose records are all in
    /// it. Blocking. A crash in the middle of it loses nothing.
    pub fn retire(&self, checkpoint: &Manifest) -> Result<(), StoreError> {
        let dir = self.root.join(&checkpoint.collection.name);
        checkpoint::remove_others(&dir, Some(checkpoint.version))?;
        let logs = logs(&dir)?;
        // Oldest first, so that a crash leaves a log without gaps.
        for (first, next) in logs.iter().zip(logs.iter().skip(1)) {
            if *next <= checkpoint.sequence + 1 {
                remove(&log_path(&dir, *first))?;
            }
        }
        sync_dir(&dir)
    }
}

/// A collection that is being made, with points in it. Dropped before the commit, it leaves nothing.
#[derive(Debug)]
pub struct Staged {
    root: PathBuf,
    /// Where it is made.
    from: PathBuf,
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
            None => self.points.insert(CheckpointWriter::create(&self.from, self.meta.clone(), 0)?),
        };
        writer.push(points)
    }

    /// Makes it count. Once this returns, it survives a crash. Blocking.
    pub fn commit(mut self) -> Result<Journal, StoreError> {
        if let Some(points) = self.points.take() {
            points.finish()?;
        }
        let salt = create_log(&self.from, 1)?;
        fs::rename(&self.from, &self.dir).map_err(|e| StoreError::io(&self.dir, e))?;
        sync_dir(&self.root)?;
        let (dir, fsync) = (self.dir.clone(), self.fsync);
        let place = Place { dir, first: 1, next: 1, len: FILE_HEADER as u64, salt, older: 0, fsync };
        Ok(Journal::start(place, &self.logs))
    }
}

impl Drop for Staged {
    /// After a commit the folder has its real name, and nothing is removed.
    fn drop(&mut self) {
        if let Err(error) = remove(&self.from) {
            tracing::warn!(%error, "a half-made collection could not be removed from disk");
        }
    }
}

impl Recovered {
    /// Gives back every record in order, a checkpoint's points first, and opens the log for appending. Blocking.
    pub fn replay<E: From<StoreError>>(self, mut apply: impl FnMut(Record) -> Result<(), E>) -> Result<Replayed, E> {
        let meta = self.meta?;
        let checkpoint = checkpoint::newest(&self.dir)?;
        check_same(&meta, checkpoint.as_ref())?;
        // A checkpoint that a crash cut short, or one whose removal was.
        checkpoint::remove_others(&self.dir, checkpoint.as_ref().map(|manifest| manifest.version))?;
        for points in checkpoint.iter().flat_map(|manifest| checkpoint::chunks(&self.dir, manifest)) {
            apply(Record::Upsert(points?))?;
        }
        let covered = checkpoint.as_ref().map_or(0, |manifest| manifest.sequence);
        let end = self.logs.ends.lock().unwrap_or_else(PoisonError::into_inner).get(&self.name).copied();
        let place = Place { fsync: self.fsync, ..replay_logs(&self.dir, covered, end, &mut apply)? };
        // What was read back was made durable where it was not known to be.
        let read = LogEnd { first: place.first, salt: place.salt, len: place.len };
        self.logs.ends.lock().unwrap_or_else(PoisonError::into_inner).insert(self.name, read);
        let sequence = place.next - 1;
        let checkpoint_bytes = checkpoint.map_or(0, |manifest| manifest.size_bytes);
        Ok(Replayed { journal: Journal::start(place, &self.logs), sequence, checkpoint_bytes })
    }
}

/// Replays the log files, leaves out what the checkpoint covers, and says where the log goes on.
fn replay_logs<E: From<StoreError>>(
    dir: &Path,
    covered: u64,
    end: Option<LogEnd>,
    apply: &mut impl FnMut(Record) -> Result<(), E>,
) -> Result<Place, E> {
    let logs = logs(dir)?;
    let Some(newest) = logs.last().copied() else {
        return Err(StoreError::damaged(dir.display().to_string(), "it has no log file").into());
    };
    let durable = end.map_or(Ok(0), |end| end.check(dir, newest))?;
    let mut place: Option<Place> = None;
    for (i, first) in logs.iter().enumerate() {
        let path = log_path(dir, *first);
        if let Some(place) = place.as_ref().filter(|place| place.next != *first) {
            let reason = format!("it starts at record {first}, the file before it ends with {}", place.next - 1);
            return Err(StoreError::Corrupt { file: path, offset: 0, reason }.into());
        }
        if i == 0 && *first > covered + 1 {
            let reason = format!("records {} to {} are missing", covered + 1, first - 1);
            return Err(StoreError::Corrupt { file: path, offset: 0, reason }.into());
        }
        let is_last = *first == newest;
        let mut log = LogReader::open(&path, *first, is_last, if is_last { durable } else { 0 })?;
        while let Item::Record(sequence, record) = log.next()? {
            if sequence > covered {
                apply(record)?;
            }
        }
        if is_last && (log.offset != durable || log.offset != log.len()) {
            if log.offset == log.len() {
                // What was answered is there. Whether the log had been longer cannot be known after a kill.
                tracing::info!(file = %path.display(), offset = log.offset, "a log was not closed; it is read back up to its last record");
            }
            truncate(&path, log.offset)?;
        }
        let older = place.map_or(0, |place| place.older + place.len);
        place = Some(Place {
            dir: dir.into(),
            first: *first,
            next: log.next,
            len: log.offset,
            salt: log.salt,
            older,
            fsync: Fsync::Always,
        });
    }
    let place = place.ok_or_else(|| StoreError::damaged(dir.display().to_string(), "it has no log file"))?;
    if place.next > covered {
        return Ok(place);
    }
    let file = log_path(dir, place.first);
    tracing::warn!(file = %file.display(), offset = place.len, covered, "a log ends before the checkpoint; it goes on after it");
    Ok(fresh_log(dir, covered + 1)?)
}

/// A log of its own where there is none that goes as far as the checkpoint does.
fn fresh_log(dir: &Path, first: u64) -> Result<Place, StoreError> {
    let salt = create_log(dir, first)?;
    for older in logs(dir)?.into_iter().filter(|log| *log != first) {
        remove(&log_path(dir, older))?;
    }
    Ok(Place { dir: dir.into(), first, next: first, len: FILE_HEADER as u64, salt, older: 0, fsync: Fsync::Always })
}

/// First sequence numbers of the log files in a folder, ascending.
fn logs(dir: &Path) -> Result<Vec<u64>, StoreError> {
    let parse = |name: &String| name.strip_prefix("wal-")?.strip_suffix(".log")?.parse().ok();
    Ok(list(dir)?.iter().filter_map(parse).collect())
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
    let meta: CollectionMeta = unseal(&file, &bytes, |content| {
        let format = content.get("format").and_then(serde_json::Value::as_u64);
        crate::meta::check_format(
            &file,
            format.and_then(|f| f.try_into().ok()).unwrap_or(u32::MAX),
            CollectionMeta::FORMAT,
        )
    })?;
    if meta.name != name {
        return Err(StoreError::damaged(file, format!("it describes {:?}, its folder is {name:?}", meta.name)));
    }
    Ok(meta)
}

fn check_same(meta: &CollectionMeta, checkpoint: Option<&Manifest>) -> Result<(), StoreError> {
    match checkpoint {
        Some(manifest) if manifest.collection != *meta => {
            let name = format!("checkpoint {} of {}", manifest.version, meta.name);
            Err(StoreError::damaged(name, "it describes another collection"))
        }
        Some(_) | None => Ok(()),
    }
}
