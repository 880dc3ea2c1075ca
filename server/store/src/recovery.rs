//! Recovery of a collection from its newest checkpoint and its logs.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::PoisonError,
};

use crate::{
    CHUNK_BYTES, CollectionMeta, Damage, Fsync, Journal, Record, StoreError,
    checkpoint::{self, Checkpoint},
    disk::remove,
    durable_offsets::DurableOffset,
    frame::FILE_HEADER,
    journal::{LogPosition, Logs},
    log_files::{create_log, list_logs, log_path},
    ordered_map::{Weighed, ordered_map},
    replay::{Item, LogReader, truncate},
};

pub use crate::ordered_map::Helper;

/// Bytes of records that are passed to another thread at a time.
const BATCH_BYTES: usize = 1 << 20;

/// A collection found by [`Store::open`](crate::Store::open), before its records are replayed.
#[derive(Debug)]
pub struct Recovered {
    /// The name of its folder.
    pub name: String,
    /// Its description, or why that cannot be read.
    pub meta: Result<CollectionMeta, StoreError>,
    pub(crate) dir: PathBuf,
    pub(crate) fsync: Fsync,
    pub(crate) logs: Logs,
}

/// A replayed collection.
#[derive(Debug)]
pub struct Replayed {
    /// Open for appending; `None` if something is damaged, because then nothing may be changed.
    pub journal: Option<Journal>,
    /// Damage that was found.
    pub damage: Damage,
    /// Sequence number of the last record; 0 for none.
    pub sequence: u64,
    /// Size of the checkpoint it was replayed from; 0 for none.
    pub checkpoint_bytes: u64,
}

/// Progress of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of chunks and logs that were replayed.
    pub done_bytes: u64,
    /// Bytes of all chunks and logs.
    pub total_bytes: u64,
}

/// Callbacks of a replay.
#[derive(Clone, Copy)]
pub struct ReplayHooks<'a> {
    /// Allows one more thread, with memory for a few chunks, which ends when the value is dropped.
    pub helper: &'a dyn Fn() -> Option<Helper>,
    /// Called after each chunk and after some records.
    pub progress: &'a dyn Fn(Progress),
}

impl std::fmt::Debug for ReplayHooks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplayHooks").finish_non_exhaustive()
    }
}

impl Default for ReplayHooks<'_> {
    /// No further threads, and nothing to be called.
    fn default() -> Self {
        Self { helper: &|| None, progress: &|_| {} }
    }
}

impl Recovered {
    /// Bytes of its checkpoints and logs.
    pub fn size_bytes(&self) -> u64 {
        let sizes = checkpoint::size_bytes(&self.dir).and_then(|checkpoints| Ok(checkpoints + log_bytes(&self.dir)?));
        sizes.unwrap_or_default()
    }

    /// Decodes and applies the checkpoint's points and then every later record in order, and opens the log for
    /// appending. Damaged chunks and records, and those that `decode` refuses with a reason, are skipped and reported;
    /// then no file is changed. Blocking.
    pub fn replay<T: Send, E: From<StoreError>>(
        self,
        hooks: ReplayHooks<'_>,
        decode: impl Fn(Record) -> Result<T, String> + Sync,
        apply: impl FnMut(T) -> Result<(), E>,
    ) -> Result<Replayed, E> {
        let meta = self.meta?;
        let mut damage = Damage::default();
        let checkpoint = Checkpoint::newest(&self.dir, &mut damage)?;
        checkpoint.check_same(&meta)?;
        let durable = self.logs.durable_offsets.lock().unwrap_or_else(PoisonError::into_inner).get(&self.name).copied();
        let total_bytes = checkpoint.size_bytes() + log_bytes(&self.dir)?;
        let progress = Progress { done_bytes: 0, total_bytes };
        let dir = &self.dir;
        let mut replay = Replay { dir, hooks, decode, apply, damage, progress };
        replay.checkpoint(&checkpoint, meta.dim)?;
        let position = replay.logs(checkpoint.covered, durable)?;
        let damage = replay.damage;
        let checkpoint_bytes = checkpoint.size_bytes();
        let last = position.as_ref().map_or(0, |position| position.next - 1);
        let sequence = last.max(checkpoint.covered.unwrap_or(0));
        let Some(position) = position.filter(|_| damage.is_empty()) else {
            return Ok(Replayed { journal: None, damage, sequence, checkpoint_bytes });
        };
        let position = LogPosition { fsync: self.fsync, ..position };
        // A crash may have interrupted writing one checkpoint or removing another. They stay until the log proves that nothing
        // but them is superfluous: without its manifest, a committed checkpoint looks like an unfinished one.
        checkpoint::remove_others(&self.dir, checkpoint.version)?;
        // The replay has synced whatever was not known to be durable.
        let replayed = DurableOffset { first: position.first, salt: position.salt, len: position.len };
        self.logs.durable_offsets.lock().unwrap_or_else(PoisonError::into_inner).insert(self.name, replayed);
        Ok(Replayed { journal: Some(Journal::start(position, &self.logs)), damage, sequence, checkpoint_bytes })
    }
}

/// A replay in progress.
struct Replay<'a, D, A> {
    dir: &'a Path,
    hooks: ReplayHooks<'a>,
    decode: D,
    apply: A,
    damage: Damage,
    progress: Progress,
}

/// A decoded chunk or record, or why there is none.
type Decoded<T> = Result<T, StoreError>;

impl<T: Send, E: From<StoreError>, D, A> Replay<'_, D, A>
where
    D: Fn(Record) -> Result<T, String> + Sync,
    A: FnMut(T) -> Result<(), E>,
{
    fn checkpoint(&mut self, checkpoint: &Checkpoint, dim: u32) -> Result<(), E> {
        let Self { hooks, decode, apply, damage, progress, .. } = self;
        let weigh = |chunk| Weighed { item: chunk, bytes: checkpoint.bytes_of(chunk) };
        let map = |at| -> Result<(u64, Decoded<T>), StoreError> {
            let points = match checkpoint.read(at, dim) {
                Err(error) if error.is_unreadable() || matches!(error, StoreError::Damaged { .. }) => Err(error),
                points => Ok(points?),
            };
            let decode = |points| decode(Record::Upsert(points));
            let decoded = points.and_then(|points| decode(points).map_err(|reason| checkpoint.damaged(at, reason)));
            Ok((checkpoint.bytes_of(at) as u64, decoded))
        };
        ordered_map((0..checkpoint.chunk_count()).map(weigh), CHUNK_BYTES, hooks.helper, map, |read| {
            let (bytes, decoded) = read?;
            apply_or_report(decoded, apply, damage)?;
            progress.done_bytes += bytes;
            (hooks.progress)(*progress);
            Ok(())
        })
    }

    /// Replays the records after those that the checkpoint covers, or all of them if that is not known. Returns the
    /// position at which the log continues; `None` if there is no log.
    fn logs(&mut self, covered: Option<u64>, durable: Option<DurableOffset>) -> Result<Option<LogPosition>, E> {
        let logs = list_logs(self.dir)?;
        let Some(newest) = logs.last().copied() else {
            self.damage.add(StoreError::damaged(self.dir.display().to_string(), "it has no log file"));
            return Ok(None);
        };
        let (durable_len, short) = durable.map_or(Ok((0, None)), |durable| durable.check(self.dir, newest))?;
        if let Some(short) = short {
            self.damage.add(short);
        }
        let salt = durable.filter(|durable| durable.first == newest).map(|durable| durable.salt);
        let mut position: Option<LogPosition> = None;
        for first in logs {
            let path = log_path(self.dir, first);
            if let Some(gap) = gap(first, covered, position.as_ref()) {
                self.damage.add(StoreError::Corrupt { file: path.clone(), offset: 0, reason: gap });
            }
            let is_last = first == newest;
            let (durable_len, salt) = if is_last { (durable_len, salt) } else { (0, None) };
            let mut log = LogReader::open(&path, first, is_last, durable_len, salt)?;
            self.log(&path, &mut log, covered.unwrap_or(0))?;
            if is_last && self.damage.is_empty() && (log.offset != durable_len || log.offset != log.len()) {
                if log.offset == log.len() {
                    // All acknowledged records are present, as far as can be known: the durable offset recorded
                    // before a kill is out of date.
                    tracing::info!(file = %path.display(), offset = log.offset, "a log was not closed; it is replayed up to its last record");
                } else {
                    let offset = log.offset;
                    let bytes = log.len() - log.offset;
                    tracing::warn!(file = %path.display(), offset, bytes, "truncating a torn tail");
                }
                truncate(&path, log.offset)?;
            }
            let older = position.map_or(0, |position| position.older + position.len);
            position = Some(LogPosition {
                dir: self.dir.into(),
                first,
                next: log.next,
                len: log.offset,
                salt: log.salt,
                older,
                fsync: Fsync::Always,
            });
        }
        match (position, covered) {
            (Some(position), Some(covered)) if position.next <= covered && self.damage.is_empty() => {
                let file = log_path(self.dir, position.first);
                tracing::warn!(file = %file.display(), offset = position.len, covered, "the log ends before the checkpoint; a new log continues after it");
                Ok(Some(replace_logs(self.dir, covered + 1)?))
            }
            (position, _) => Ok(position),
        }
    }

    /// Replays a log file.
    fn log(&mut self, path: &Path, log: &mut LogReader, covered: u64) -> Result<(), E> {
        let Self { hooks, decode, apply, damage, progress, .. } = self;
        let start = progress.done_bytes;
        let batches = Batches { log, covered, has_ended: false };
        let corrupt = |offset, reason| StoreError::Corrupt { file: path.into(), offset, reason };
        let decode = |record: Read| match record {
            Read::Record { offset, record } => decode(record).map_err(|reason| corrupt(offset, reason)),
            Read::Damaged(error) => Err(error),
        };
        let map = |batch: Result<Batch, StoreError>| {
            batch.map(|Batch { records, end }| (records.into_iter().map(decode).collect::<Vec<_>>(), end))
        };
        ordered_map(batches, CHUNK_BYTES, hooks.helper, map, |batch| {
            let (records, end) = batch?;
            for decoded in records {
                apply_or_report(decoded, apply, damage)?;
            }
            progress.done_bytes = start + end;
            (hooks.progress)(*progress);
            Ok(())
        })
    }
}

fn apply_or_report<T, E>(
    decoded: Decoded<T>,
    apply: &mut impl FnMut(T) -> Result<(), E>,
    damage: &mut Damage,
) -> Result<(), E> {
    match decoded {
        Ok(decoded) => apply(decoded),
        Err(error) => {
            damage.add(error);
            Ok(())
        }
    }
}

/// Why the records before a log file are not complete; `None` if they are, or if that is not known.
fn gap(first: u64, covered: Option<u64>, before: Option<&LogPosition>) -> Option<String> {
    match before {
        Some(before) => {
            let last = before.next - 1;
            (before.next != first)
                .then(|| format!("it starts at record {first}, but the previous file ends with record {last}"))
        }
        None => covered
            .filter(|covered| first > covered + 1)
            .map(|covered| format!("records {} to {} are missing", covered + 1, first - 1)),
    }
}

/// Records that are decoded together.
struct Batch {
    records: Vec<Read>,
    /// Where the records after them start.
    end: u64,
}

/// A part of a log file, as it was read.
enum Read {
    Record { offset: u64, record: Record },
    Damaged(StoreError),
}

/// The records after the covered ones.
struct Batches<'a> {
    log: &'a mut LogReader,
    covered: u64,
    has_ended: bool,
}

impl Batches<'_> {
    fn read(&mut self, bytes: &mut usize) -> Result<Batch, StoreError> {
        let mut records = vec![];
        let mut read = 0;
        while read < BATCH_BYTES && !self.has_ended {
            let start = self.log.offset;
            match self.log.next()? {
                Item::Record { offset, sequence, record } if sequence > self.covered => {
                    records.push(Read::Record { offset, record });
                    *bytes += usize::try_from(self.log.offset - start).unwrap_or(usize::MAX);
                }
                Item::Record { .. } => {}
                Item::Damaged(error) => records.push(Read::Damaged(error)),
                Item::End => self.has_ended = true,
            }
            read += usize::try_from(self.log.offset - start).unwrap_or(usize::MAX);
        }
        Ok(Batch { records, end: self.log.offset })
    }
}

impl Iterator for Batches<'_> {
    type Item = Weighed<Result<Batch, StoreError>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let mut bytes = 0;
        let item = self.read(&mut bytes).inspect_err(|_| self.has_ended = true);
        Some(Weighed { item, bytes })
    }
}

/// Bytes of the logs in a collection's folder.
fn log_bytes(dir: &Path) -> Result<u64, StoreError> {
    let len = |first: &u64| {
        let path = log_path(dir, *first);
        fs::metadata(&path).map(|data| data.len()).map_err(|e| StoreError::io(path, e))
    };
    list_logs(dir)?.iter().map(len).sum()
}

/// Replaces all log files by an empty one that starts at `first`.
fn replace_logs(dir: &Path, first: u64) -> Result<LogPosition, StoreError> {
    let salt = create_log(dir, first)?;
    for older in list_logs(dir)?.into_iter().filter(|log| *log != first) {
        remove(&log_path(dir, older))?;
    }
    Ok(LogPosition {
        dir: dir.into(),
        first,
        next: first,
        len: FILE_HEADER as u64,
        salt,
        older: 0,
        fsync: Fsync::Always,
    })
}
