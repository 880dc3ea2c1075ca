//! Appending to the log by group commit: a shared thread writes the queued records of one log and syncs it once.

use std::{
    collections::{BTreeMap, VecDeque},
    future::Future,
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
    disk::Disk,
    durable_offsets::DurableOffset,
    frame::{FILE_HEADER, FrameHeader},
    log_files::{create_log, log_path},
    open_files::{LogFile, OpenFiles},
    record::Body,
    thread_pool::{ThreadPool, Work},
};

/// Maximum bytes of a group, which bounds the latency of its first record.
const GROUP_BYTES: u64 = 16 << 20;
/// Parts up to this size are coalesced into one write.
const BUFFER_BYTES: usize = 256 << 10;

/// ActorState shared by all logs of a store.
#[derive(Clone, Debug)]
pub(crate) struct Logs {
    pub(crate) threads: Arc<ThreadPool>,
    pub(crate) files: Arc<OpenFiles>,
    /// The durable offset of each log, by collection, where it is known.
    pub(crate) durable_offsets: Arc<Mutex<BTreeMap<String, DurableOffset>>>,
}

impl Logs {
    pub(crate) fn new(
        writer_threads: usize,
        open_logs: usize,
        durable_offsets: BTreeMap<String, DurableOffset>,
    ) -> Self {
        Self {
            threads: ThreadPool::new(writer_threads),
            files: OpenFiles::new(open_logs),
            durable_offsets: Arc::new(Mutex::new(durable_offsets)),
        }
    }
}

/// The log of one collection, open for appending. Dropping it waits until all queued records are written.
#[derive(Debug)]
pub struct Journal {
    log: Arc<dyn Log>,
    threads: Arc<ThreadPool>,
    bytes: Arc<AtomicU64>,
    durable_offsets: Arc<Mutex<BTreeMap<String, DurableOffset>>>,
    /// The collection's name.
    name: String,
}

/// A durable record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Sequence number.
    pub sequence: u64,
}

/// The log continues in a new file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotated {
    /// Sequence number of the last record in older files; 0 for none.
    pub last: u64,
}

/// When an append is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fsync {
    /// After `fdatasync`: the record survives a power loss.
    #[default]
    Always,
    /// After the write: the record survives a crash of the process, but not a power loss.
    Never,
}

#[derive(Debug)]
enum Command {
    Append { kind: u8, body: Body, done: oneshot::Sender<Result<Appended, StoreError>> },
    Rotate { done: oneshot::Sender<Result<Rotated, StoreError>> },
}

/// Position at which a log continues.
#[derive(Debug)]
pub(crate) struct LogPosition {
    /// The collection's folder.
    pub(crate) dir: PathBuf,
    /// First sequence number of the current file.
    pub(crate) first: u64,
    /// Sequence number of the next record.
    pub(crate) next: u64,
    /// Valid bytes in the current file.
    pub(crate) len: u64,
    /// The current file's salt.
    pub(crate) salt: u32,
    /// Bytes in older files that no checkpoint covers.
    pub(crate) older: u64,
    /// When an append is answered.
    pub(crate) fsync: Fsync,
}

impl Journal {
    /// Opens a log that continues at `position`.
    pub(crate) fn start(position: LogPosition, logs: &Logs) -> Self {
        let files = Arc::clone(&logs.files);
        let disk = LogFile::new(log_path(&position.dir, position.first), position.len, &files);
        let open = move |dir: &Path, first| {
            let salt = create_log(dir, first)?;
            Ok((LogFile::new(log_path(dir, first), FILE_HEADER as u64, &files), salt))
        };
        Self::start_on(disk, position, logs, open)
    }

    fn start_on<D: Disk>(
        disk: D,
        position: LogPosition,
        logs: &Logs,
        open: impl Fn(&Path, u64) -> Result<(D, u32), StoreError> + Send + 'static,
    ) -> Self {
        let bytes = Arc::new(AtomicU64::new(position.older + position.len));
        let name = position.dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let writer = Writer {
            disk,
            position,
            written: 0,
            buffer: vec![],
            bytes: Arc::clone(&bytes),
            needs_rollback: false,
            open,
        };
        let queue = Queue { commands: VecDeque::new(), state: ActorState::Idle(writer) };
        let log = Arc::new(LogActor { queue: Mutex::new(queue), idle: Condvar::new() });
        Self {
            log,
            threads: Arc::clone(&logs.threads),
            bytes,
            durable_offsets: Arc::clone(&logs.durable_offsets),
            name,
        }
    }

    /// Queues a record, in the order of the calls. The future resolves when the record is durable; dropping the future
    /// does not withdraw the record.
    pub fn append(&self, record: &Record) -> impl Future<Output = Result<Appended, StoreError>> + Send + use<> {
        let (done, answer) = oneshot::channel();
        let queued = record.body().map(|body| self.send(Command::Append { kind: record.kind(), body, done }));
        async move {
            queued?;
            answer.await.unwrap_or(Err(StoreError::Closed))
        }
    }

    /// Continues in a new file, after all records queued before.
    pub fn rotate(&self) -> impl Future<Output = Result<Rotated, StoreError>> + Send + use<> {
        let (done, answer) = oneshot::channel();
        self.send(Command::Rotate { done });
        async move { answer.await.unwrap_or(Err(StoreError::Closed)) }
    }

    /// Bytes of log since the last checkpoint.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// A poisoned log drops the command, which answers it with `Closed`.
    fn send(&self, command: Command) {
        if self.log.push(command)
            && let Err(error) = self.threads.submit(Arc::clone(&self.log).work())
        {
            tracing::error!(%error, collection = self.name, "cannot start a thread to write the log");
            self.log.poison();
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        if let Some(end) = self.log.finish() {
            self.durable_offsets
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(std::mem::take(&mut self.name), end);
        }
    }
}

/// A log, independent of its storage.
trait Log: Work + std::fmt::Debug {
    /// Queues a command. Returns whether the log must be scheduled on a thread.
    fn push(&self, command: Command) -> bool;
    /// Waits until all commands have run, and returns the log's durable offset; `None` if unknown.
    fn finish(&self) -> Option<DurableOffset>;
    /// The log as work for the thread pool.
    fn work(self: Arc<Self>) -> Arc<dyn Work>;
}

/// A log and its queued commands, which one thread at a time runs in order.
struct LogActor<D, F> {
    queue: Mutex<Queue<D, F>>,
    idle: Condvar,
}

struct Queue<D, F> {
    commands: VecDeque<Command>,
    state: ActorState<D, F>,
}

enum ActorState<D, F> {
    Idle(Writer<D, F>),
    /// Waiting for a thread.
    Queued(Writer<D, F>),
    /// A thread is running it.
    Running,
    /// A thread panicked while running it.
    Poisoned,
}

impl<D, F> std::fmt::Debug for LogActor<D, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogActor").finish_non_exhaustive()
    }
}

impl<D, F> LogActor<D, F> {
    fn lock(&self) -> MutexGuard<'_, Queue<D, F>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Disk, F: Fn(&Path, u64) -> Result<(D, u32), StoreError> + Send + 'static> Log for LogActor<D, F> {
    fn push(&self, command: Command) -> bool {
        let mut queue = self.lock();
        match std::mem::replace(&mut queue.state, ActorState::Poisoned) {
            ActorState::Poisoned => return false,
            ActorState::Idle(writer) => {
                queue.commands.push_back(command);
                queue.state = ActorState::Queued(writer);
                return true;
            }
            ActorState::Queued(writer) => queue.state = ActorState::Queued(writer),
            ActorState::Running => queue.state = ActorState::Running,
        }
        queue.commands.push_back(command);
        false
    }

    fn finish(&self) -> Option<DurableOffset> {
        let mut queue = self.lock();
        loop {
            match &mut queue.state {
                ActorState::Idle(writer) => return writer.durable_offset(),
                ActorState::Poisoned => return None,
                ActorState::Queued(_) | ActorState::Running => {
                    queue = self.idle.wait(queue).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    fn work(self: Arc<Self>) -> Arc<dyn Work> {
        self
    }
}

impl<D: Disk, F: Fn(&Path, u64) -> Result<(D, u32), StoreError> + Send + 'static> Work for LogActor<D, F> {
    fn run_once(&self) -> bool {
        let mut writer = {
            let mut queue = self.lock();
            match std::mem::replace(&mut queue.state, ActorState::Running) {
                ActorState::Idle(writer) | ActorState::Queued(writer) => writer,
                ActorState::Running | ActorState::Poisoned => {
                    queue.state = ActorState::Poisoned;
                    return false;
                }
            }
        };
        writer.write_group(|| self.lock().commands.pop_front());
        let mut queue = self.lock();
        let more = !queue.commands.is_empty();
        queue.state = if more { ActorState::Queued(writer) } else { ActorState::Idle(writer) };
        if !more {
            self.idle.notify_all();
        }
        more
    }

    fn poison(&self) {
        let mut queue = self.lock();
        queue.state = ActorState::Poisoned;
        // Dropping the commands answers them with `Closed`.
        let commands = std::mem::take(&mut queue.commands);
        drop(queue);
        drop(commands);
        self.idle.notify_all();
    }
}

/// ActorState owned by the thread that runs a log.
struct Writer<D, F> {
    disk: D,
    /// `len` bytes are durable and valid; `next` is the next sequence number.
    position: LogPosition,
    /// Bytes of the current group.
    written: u64,
    buffer: Vec<u8>,
    bytes: Arc<AtomicU64>,
    /// A write failed and has not been rolled back yet.
    needs_rollback: bool,
    open: F,
}

type Waiting = Vec<(u64, oneshot::Sender<Result<Appended, StoreError>>)>;

impl<D: Disk, F: Fn(&Path, u64) -> Result<(D, u32), StoreError>> Writer<D, F> {
    /// Writes and answers queued commands, up to a group's size or the next rotation.
    fn write_group(&mut self, next: impl Fn() -> Option<Command>) {
        let mut waiting = Waiting::new();
        let mut rotate = None;
        let mut result = self.roll_back();
        while self.written < GROUP_BYTES
            && let Some(command) = next()
        {
            match command {
                Command::Append { kind, body, done } => {
                    let sequence = self.position.next + waiting.len() as u64;
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

    /// The log's durable offset; syncs first if appends did not.
    fn durable_offset(&mut self) -> Option<DurableOffset> {
        if self.needs_rollback || (self.position.fsync == Fsync::Never && self.disk.sync().is_err()) {
            return None;
        }
        let LogPosition { first, salt, len, .. } = self.position;
        Some(DurableOffset { first, salt, len })
    }

    /// Rolls back a failed write. If that fails too, the next group retries it, so that a log recovers once a full disk
    /// has free space again.
    fn roll_back(&mut self) -> io::Result<()> {
        if self.needs_rollback {
            self.disk.truncate(self.position.len)?;
            self.needs_rollback = false;
        }
        Ok(())
    }

    fn write(&mut self, kind: u8, body: &Body, sequence: u64) -> io::Result<()> {
        let header = FrameHeader { kind, len: body.len, body_crc: body.crc, sequence, durable: self.position.len }
            .encode(self.position.salt);
        self.put(&header)?;
        body.parts.iter().try_for_each(|part| self.put(part))
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.flush()?;
        }
        if bytes.len() > BUFFER_BYTES {
            return self.disk.append(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.disk.append(&self.buffer);
        self.buffer.clear();
        result
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.position.fsync == Fsync::Always { self.disk.sync() } else { Ok(()) }
    }

    /// Syncs the group and answers all of it, or fails all of it.
    fn commit(&mut self, written: io::Result<()>, waiting: Waiting) {
        if waiting.is_empty() {
            return;
        }
        let result = written.and_then(|()| self.flush()).and_then(|()| self.sync());
        let written = std::mem::take(&mut self.written);
        self.buffer.clear();
        match result {
            Ok(()) => {
                self.position.len += written;
                self.position.next += waiting.len() as u64;
                self.bytes.fetch_add(written, Ordering::Relaxed);
                for (sequence, done) in waiting {
                    let _ = done.send(Ok(Appended { sequence }));
                }
            }
            Err(error) => self.fail(error, waiting),
        }
    }

    fn fail(&mut self, error: io::Error, waiting: Waiting) {
        self.needs_rollback = true;
        let error = StoreError::io(log_path(&self.position.dir, self.position.first), error);
        tracing::error!(%error, records = waiting.len(), "cannot append records to the log");
        if let Err(later) = self.roll_back() {
            tracing::error!(error = %later, "cannot truncate the log to its last valid record; the next write retries");
        }
        for (_, done) in waiting {
            let _ = done.send(Err(error.clone()));
        }
    }

    fn rotate(&mut self) -> Result<Rotated, StoreError> {
        self.roll_back().map_err(|e| StoreError::io(log_path(&self.position.dir, self.position.first), e))?;
        let last = self.position.next - 1;
        // A file without records serves as the new one.
        if self.position.first < self.position.next {
            // Only the last file may have a torn tail.
            self.disk.sync().map_err(|e| StoreError::io(log_path(&self.position.dir, self.position.first), e))?;
            (self.disk, self.position.salt) = (self.open)(&self.position.dir, self.position.next)?;
            (self.position.first, self.position.len) = (self.position.next, FILE_HEADER as u64);
        }
        self.bytes.store(self.position.len, Ordering::Relaxed);
        Ok(Rotated { last })
    }
}

#[cfg(test)]
mod tests;
