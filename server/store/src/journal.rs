//! Appending to the log: a thread that all logs share writes what has queued up in one of them, and syncs it once.

use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    future::Future,
    hash::{BuildHasher as _, RandomState},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::oneshot;

use crate::{
    Record, StoreError,
    disk::{Disk, sync_dir, write_file},
    ends::LogEnd,
    files::{LogFile, OpenFiles},
    frame::{FILE_HEADER, FileHeader, FrameHeader},
    record::Body,
    threads::{Threads, Work},
};

/// A group is closed at this many bytes, so that the first in it does not wait for ever.
const GROUP_BYTES: u64 = 16 << 20;
/// Smaller pieces are gathered before they are written.
const GATHER_BYTES: usize = 256 << 10;

/// What all logs of a store share.
#[derive(Clone, Debug)]
pub(crate) struct Logs {
    pub(crate) threads: Arc<Threads>,
    pub(crate) files: Arc<OpenFiles>,
    /// How far each log is known to be durable, by collection.
    pub(crate) ends: Arc<Mutex<BTreeMap<String, LogEnd>>>,
}

impl Logs {
    pub(crate) fn new(writer_threads: usize, open_logs: usize, ends: BTreeMap<String, LogEnd>) -> Self {
        Self {
            threads: Threads::new(writer_threads),
            files: OpenFiles::new(open_logs),
            ends: Arc::new(Mutex::new(ends)),
        }
    }
}

/// The log of one collection, open for appending. Dropping it waits until what was queued is written.
#[derive(Debug)]
pub struct Journal {
    log: Arc<dyn Log>,
    threads: Arc<Threads>,
    bytes: Arc<AtomicU64>,
    ends: Arc<Mutex<BTreeMap<String, LogEnd>>>,
    /// The collection's name.
    name: String,
}

/// A record that is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Its place in the order of all records.
    pub sequence: u64,
}

/// The log goes on in a new file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotated {
    /// The last record in the older files; 0 for none.
    pub last: u64,
}

/// When an append is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fsync {
    /// Once it is on disk: it survives a loss of power.
    #[default]
    Always,
    /// Once the operating system has it: it survives the end of the process, not a loss of power.
    Never,
}

#[derive(Debug)]
enum Command {
    Append { kind: u8, body: Body, done: oneshot::Sender<Result<Appended, StoreError>> },
    Rotate { done: oneshot::Sender<Result<Rotated, StoreError>> },
}

/// Where a log goes on.
#[derive(Debug)]
pub(crate) struct Place {
    /// The collection's folder.
    pub(crate) dir: PathBuf,
    /// First sequence number of the current file.
    pub(crate) first: u64,
    /// Sequence number of the next record.
    pub(crate) next: u64,
    /// Good bytes in the current file.
    pub(crate) len: u64,
    /// The current file's salt.
    pub(crate) salt: u32,
    /// Bytes in older files that no checkpoint covers.
    pub(crate) older: u64,
    /// When an append is answered.
    pub(crate) fsync: Fsync,
}

/// The path of a log file.
pub(crate) fn log_path(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("wal-{first:020}.log"))
}

/// Makes a log file with nothing but its header, durably. It gets its name when it is whole: a log file without a header is
/// never what a crash leaves.
pub(crate) fn create_log(dir: &Path, first: u64) -> Result<u32, StoreError> {
    let path = log_path(dir, first);
    let staged = path.with_extension("new");
    #[allow(clippy::cast_possible_truncation, reason = "any 32 of the random bits will do")]
    let salt = RandomState::new().hash_one(first) as u32;
    let create = || {
        write_file(&staged, &[FileHeader { first, salt }.encode()])?;
        fs::rename(&staged, &path).map_err(|e| StoreError::io(&path, e))?;
        sync_dir(dir)
    };
    // The older file goes on being written, so a half-made one must not stand behind it.
    create().map(|()| salt).inspect_err(|_: &StoreError| {
        let _ = fs::remove_file(&staged);
        let _ = fs::remove_file(&path);
    })
}

impl From<Fsync> for crate::Options {
    fn from(fsync: Fsync) -> Self {
        Self { fsync, ..Self::default() }
    }
}

impl Journal {
    /// Opens a log that goes on at `place`.
    pub(crate) fn start(place: Place, logs: &Logs) -> Self {
        let files = Arc::clone(&logs.files);
        let disk = LogFile::new(log_path(&place.dir, place.first), place.len, &files);
        let open = move |dir: &Path, first| {
            let salt = create_log(dir, first)?;
            Ok((LogFile::new(log_path(dir, first), FILE_HEADER as u64, &files), salt))
        };
        Self::start_on(disk, place, logs, open)
    }

    fn start_on<D: Disk>(
        disk: D,
        place: Place,
        logs: &Logs,
        open: impl Fn(&Path, u64) -> Result<(D, u32), StoreError> + Send + 'static,
    ) -> Self {
        let bytes = Arc::new(AtomicU64::new(place.older + place.len));
        let name = place.dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let writer =
            Writer { disk, place, written: 0, gathered: vec![], bytes: Arc::clone(&bytes), broken: false, open };
        let queue = Queue { commands: VecDeque::new(), state: State::Idle(writer) };
        let log = Arc::new(Serial { queue: Mutex::new(queue), idle: Condvar::new() });
        Self { log, threads: Arc::clone(&logs.threads), bytes, ends: Arc::clone(&logs.ends), name }
    }

    /// Queues a record now, in the order of the calls. The future is ready when the record is durable; dropping the
    /// future does not take the record back.
    pub fn append(&self, record: &Record) -> impl Future<Output = Result<Appended, StoreError>> + Send + use<> {
        let (done, answer) = oneshot::channel();
        let queued = record.body().map(|body| self.send(Command::Append { kind: record.kind(), body, done }));
        async move {
            queued?;
            answer.await.unwrap_or(Err(StoreError::Closed))
        }
    }

    /// Goes on in a new file, after everything queued before.
    pub fn rotate(&self) -> impl Future<Output = Result<Rotated, StoreError>> + Send + use<> {
        let (done, answer) = oneshot::channel();
        self.send(Command::Rotate { done });
        async move { answer.await.unwrap_or(Err(StoreError::Closed)) }
    }

    /// Bytes of log since the last checkpoint.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// A dead log drops the command, which answers it `Closed`.
    fn send(&self, command: Command) {
        if self.log.push(command)
            && let Err(error) = self.threads.submit(Arc::clone(&self.log).work())
        {
            tracing::error!(%error, collection = self.name, "no thread can be started to write the log");
            self.log.abandon();
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if let Some(end) = self.log.finish() {
            self.ends.lock().unwrap_or_else(PoisonError::into_inner).insert(std::mem::take(&mut self.name), end);
        }
    }
}

/// A log, whatever it is written to.
trait Log: Work + std::fmt::Debug {
    /// Queues a command. Returns whether a thread has to be asked for.
    fn push(&self, command: Command) -> bool;
    /// Waits until all is written, and says how far the log is durable; `None` where that is not known.
    fn finish(&self) -> Option<LogEnd>;
    /// The same log as the threads see it.
    fn work(self: Arc<Self>) -> Arc<dyn Work>;
}

/// Commands of one log, run in order by one thread at a time.
struct Serial<D, F> {
    queue: Mutex<Queue<D, F>>,
    idle: Condvar,
}

struct Queue<D, F> {
    commands: VecDeque<Command>,
    state: State<D, F>,
}

enum State<D, F> {
    /// Nobody works on it.
    Idle(Writer<D, F>),
    /// It waits for a thread.
    Queued(Writer<D, F>),
    /// A thread works on it.
    Running,
    /// A thread panicked while it worked on it.
    Dead,
}

impl<D, F> std::fmt::Debug for Serial<D, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Serial").finish_non_exhaustive()
    }
}

impl<D, F> Serial<D, F> {
    fn lock(&self) -> MutexGuard<'_, Queue<D, F>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Disk, F: Fn(&Path, u64) -> Result<(D, u32), StoreError> + Send + 'static> Log for Serial<D, F> {
    fn push(&self, command: Command) -> bool {
        let mut queue = self.lock();
        match std::mem::replace(&mut queue.state, State::Dead) {
            State::Dead => return false,
            State::Idle(writer) => {
                queue.commands.push_back(command);
                queue.state = State::Queued(writer);
                return true;
            }
            State::Queued(writer) => queue.state = State::Queued(writer),
            State::Running => queue.state = State::Running,
        }
        queue.commands.push_back(command);
        false
    }

    fn finish(&self) -> Option<LogEnd> {
        let mut queue = self.lock();
        loop {
            match &mut queue.state {
                State::Idle(writer) => return writer.end(),
                State::Dead => return None,
                State::Queued(_) | State::Running => {
                    queue = self.idle.wait(queue).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    fn work(self: Arc<Self>) -> Arc<dyn Work> {
        self
    }
}

impl<D: Disk, F: Fn(&Path, u64) -> Result<(D, u32), StoreError> + Send + 'static> Work for Serial<D, F> {
    fn turn(&self) -> bool {
        let mut writer = {
            let mut queue = self.lock();
            match std::mem::replace(&mut queue.state, State::Running) {
                State::Idle(writer) | State::Queued(writer) => writer,
                State::Running | State::Dead => {
                    queue.state = State::Dead;
                    return false;
                }
            }
        };
        writer.group(|| self.lock().commands.pop_front());
        let mut queue = self.lock();
        let more = !queue.commands.is_empty();
        queue.state = if more { State::Queued(writer) } else { State::Idle(writer) };
        if !more {
            self.idle.notify_all();
        }
        more
    }

    fn abandon(&self) {
        let mut queue = self.lock();
        queue.state = State::Dead;
        // Dropped, they are answered `Closed`.
        let commands = std::mem::take(&mut queue.commands);
        drop(queue);
        drop(commands);
        self.idle.notify_all();
    }
}

/// What the thread that works on a log owns.
struct Writer<D, F> {
    disk: D,
    /// `len` is durable and good; `next` is the next record's number.
    place: Place,
    /// Bytes of the group that is being written.
    written: u64,
    gathered: Vec<u8>,
    bytes: Arc<AtomicU64>,
    /// A write failed and could not be taken back yet.
    broken: bool,
    open: F,
}

type Waiting = Vec<(u64, oneshot::Sender<Result<Appended, StoreError>>)>;

impl<D: Disk, F: Fn(&Path, u64) -> Result<(D, u32), StoreError>> Writer<D, F> {
    /// Writes what is queued, up to a group's bytes or the next rotation, and answers it.
    fn group(&mut self, next: impl Fn() -> Option<Command>) {
        let mut waiting = Waiting::new();
        let mut rotate = None;
        let mut result = self.repair();
        while self.written < GROUP_BYTES
            && let Some(command) = next()
        {
            match command {
                Command::Append { kind, body, done } => {
                    let sequence = self.place.next + waiting.len() as u64;
                    result = result.and_then(|()| self.write(kind, &body, sequence));
                    waiting.push((sequence, done));
                }
                Command::Rotate { done } => {
                    rotate = Some(done);
                    break;
                }
            }
        }
        self.commit(result, waiting);
        if let Some(done) = rotate {
            let _ = done.send(self.rotate());
        }
    }

    /// How far the log is durable, which is made sure of here where appends did not wait for it.
    fn end(&mut self) -> Option<LogEnd> {
        if self.broken || (self.place.fsync == Fsync::Never && self.disk.sync().is_err()) {
            return None;
        }
        let Place { first, salt, len, .. } = self.place;
        Some(LogEnd { first, salt, len })
    }

    /// Takes back what a failed write left behind. Where even that fails the next group tries again, so that a log
    /// on a disk that was full works again once there is room.
    fn repair(&mut self) -> io::Result<()> {
        if self.broken {
            self.disk.truncate(self.place.len)?;
            self.broken = false;
        }
        Ok(())
    }

    fn write(&mut self, kind: u8, body: &Body, sequence: u64) -> io::Result<()> {
        let header = FrameHeader { kind, len: body.len, body_crc: body.crc, sequence, durable: self.place.len }
            .encode(self.place.salt);
        self.put(&header)?;
        body.parts.iter().try_for_each(|part| self.put(part))
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        if self.gathered.len() + bytes.len() > GATHER_BYTES {
            self.flush()?;
        }
        if bytes.len() > GATHER_BYTES {
            return self.disk.append(bytes);
        }
        self.gathered.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.disk.append(&self.gathered);
        self.gathered.clear();
        result
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.place.fsync == Fsync::Always { self.disk.sync() } else { Ok(()) }
    }

    /// Syncs the group and answers it: all of it, or nothing of it.
    fn commit(&mut self, written: io::Result<()>, waiting: Waiting) {
        if waiting.is_empty() {
            return;
        }
        let result = written.and_then(|()| self.flush()).and_then(|()| self.sync());
        let written = std::mem::take(&mut self.written);
        self.gathered.clear();
        match result {
            Ok(()) => {
                self.place.len += written;
                self.place.next += waiting.len() as u64;
                self.bytes.fetch_add(written, Ordering::Relaxed);
                for (sequence, done) in waiting {
                    let _ = done.send(Ok(Appended { sequence }));
                }
            }
            Err(error) => self.fail(error, waiting),
        }
    }

    fn fail(&mut self, error: io::Error, waiting: Waiting) {
        self.broken = true;
        let error = StoreError::io(log_path(&self.place.dir, self.place.first), error);
        tracing::error!(%error, records = waiting.len(), "records could not be logged");
        if let Err(later) = self.repair() {
            tracing::error!(error = %later, "the log could not be cut back; the next write tries again");
        }
        for (_, done) in waiting {
            let _ = done.send(Err(error.clone()));
        }
    }

    fn rotate(&mut self) -> Result<Rotated, StoreError> {
        self.repair().map_err(|e| StoreError::io(log_path(&self.place.dir, self.place.first), e))?;
        let last = self.place.next - 1;
        // A file without records is as good as a new one.
        if self.place.first < self.place.next {
            // Only the last file may have a torn tail.
            self.disk.sync().map_err(|e| StoreError::io(log_path(&self.place.dir, self.place.first), e))?;
            (self.disk, self.place.salt) = (self.open)(&self.place.dir, self.place.next)?;
            (self.place.first, self.place.len) = (self.place.next, FILE_HEADER as u64);
        }
        self.bytes.store(self.place.len, Ordering::Relaxed);
        Ok(Rotated { last })
    }
}

#[cfg(test)]
mod tests;
