//! Appending to the log: one thread a collection writes what has queued up and syncs it once.

use std::{
    fs::File,
    future::Future,
    hash::{BuildHasher as _, RandomState},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread::JoinHandle,
};

use tokio::sync::oneshot;

use crate::{
    Record, StoreError,
    disk::{Disk, sync_dir},
    frame::{FILE_HEADER, FileHeader, FrameHeader},
    record::Body,
};

/// A group is closed at this many bytes, so that the first in it does not wait for ever.
const GROUP_BYTES: u64 = 16 << 20;
/// Smaller pieces are gathered before they are written.
const GATHER_BYTES: usize = 256 << 10;

/// The log of one collection, open for appending. Dropping it waits until what was queued is written.
#[derive(Debug)]
pub struct Journal {
    commands: Option<mpsc::Sender<Command>>,
    thread: Option<JoinHandle<()>>,
    bytes: Arc<AtomicU64>,
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

/// Makes a log file with nothing but its header, durably.
pub(crate) fn create_log(dir: &Path, first: u64) -> Result<(File, u32), StoreError> {
    let path = log_path(dir, first);
    #[allow(clippy::cast_possible_truncation, reason = "any 32 of the random bits will do")]
    let salt = RandomState::new().hash_one(first) as u32;
    let create = || -> io::Result<File> {
        let mut file = File::create(&path)?;
        file.append(&FileHeader { first, salt }.encode())?;
        file.sync()?;
        Ok(file)
    };
    let file = create().map_err(|e| StoreError::io(&path, e)).and_then(|file| sync_dir(dir).map(|()| file));
    // The older file goes on being written, so a half-made one must not stand behind it.
    file.map(|file| (file, salt)).inspect_err(|_| _ = std::fs::remove_file(&path))
}

impl Journal {
    /// Starts the writer thread of a log whose file is positioned at `place.len`.
    pub(crate) fn start(file: File, place: Place) -> Result<Self, StoreError> {
        Self::start_on(file, place, create_log)
    }

    fn start_on<D: Disk>(
        disk: D,
        place: Place,
        open: impl Fn(&Path, u64) -> Result<(D, u32), StoreError> + Send + 'static,
    ) -> Result<Self, StoreError> {
        let (commands, queue) = mpsc::channel();
        let bytes = Arc::new(AtomicU64::new(place.older + place.len));
        let dir = place.dir.clone();
        let writer =
            Writer { disk, place, written: 0, gathered: vec![], bytes: Arc::clone(&bytes), broken: false, open };
        let thread = std::thread::Builder::new()
            .name("wal".into())
            .spawn(move || writer.run(&queue))
            .map_err(|e| StoreError::io(dir, e))?;
        Ok(Self { commands: Some(commands), thread: Some(thread), bytes })
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

    /// A dead thread drops the command, which answers it `Closed`.
    fn send(&self, command: Command) {
        if let Some(commands) = &self.commands {
            let _ = commands.send(command);
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the writer thread owns.
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
    fn run(mut self, queue: &mpsc::Receiver<Command>) {
        while let Ok(first) = queue.recv() {
            let mut next = Some(first);
            let mut waiting = Waiting::new();
            let mut rotate = None;
            let mut result = self.repair();
            while let Some(command) = next.take() {
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
                next = if self.written < GROUP_BYTES { queue.try_recv().ok() } else { None };
            }
            self.commit(result, waiting);
            if let Some(done) = rotate {
                let _ = done.send(self.rotate());
            }
        }
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
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::Ids;

    /// A disk in memory that fails when told to, and counts.
    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<State>>);

    #[derive(Default)]
    struct State {
        bytes: Vec<u8>,
        room: Option<usize>,
        truncate_fails: bool,
        sync_fails: bool,
        syncs: usize,
        /// Held shut by a test to let a queue build up.
        gate: Option<Arc<Mutex<()>>>,
    }

    impl Disk for Memory {
        fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
            let mut state = self.0.lock().expect("tests do not panic in here");
            let room = state.room.map_or(bytes.len(), |room| room.saturating_sub(state.bytes.len()).min(bytes.len()));
            state.bytes.extend_from_slice(&bytes[..room]);
            if room < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }

        fn sync(&mut self) -> io::Result<()> {
            let gate = self.0.lock().expect("tests do not panic in here").gate.clone();
            drop(gate.as_ref().map(|gate| gate.lock().expect("tests do not panic in here")));
            let mut state = self.0.lock().expect("tests do not panic in here");
            state.syncs += 1;
            if state.sync_fails { Err(io::Error::other("sync")) } else { Ok(()) }
        }

        fn truncate(&mut self, len: u64) -> io::Result<()> {
            let mut state = self.0.lock().expect("tests do not panic in here");
            if state.truncate_fails {
                return Err(io::Error::other("truncate"));
            }
            state.bytes.truncate(usize::try_from(len).expect("small"));
            Ok(())
        }
    }

    fn journal(disk: &Memory) -> Journal {
        let place =
            Place { dir: "/nowhere".into(), first: 1, next: 1, len: 0, salt: 9, older: 0, fsync: Fsync::Always };
        Journal::start_on(disk.clone(), place, |_, _| Err(StoreError::Closed)).expect("a thread can be had")
    }

    fn delete(id: u64) -> Record {
        Record::Delete(Ids::Numbers(vec![id]))
    }

    #[tokio::test]
    async fn records_that_queue_up_during_a_sync_share_the_next_one() {
        let (disk, gate) = (Memory::default(), Arc::new(Mutex::new(())));
        disk.0.lock().expect("fresh").gate = Some(Arc::clone(&gate));
        let journal = journal(&disk);
        let shut = gate.lock().expect("fresh");
        let first = journal.append(&delete(0));
        let others: Vec<_> = (1..100).map(|id| journal.append(&delete(id))).collect();
        drop(shut);
        assert_eq!(first.await.map(|a| a.sequence).ok(), Some(1));
        for (i, other) in others.into_iter().enumerate() {
            assert_eq!(other.await.map(|a| a.sequence).ok(), Some(i as u64 + 2));
        }
        let syncs = disk.0.lock().expect("done").syncs;
        assert!(syncs <= 2, "{syncs} syncs for 100 records, of which 99 waited for the first");
    }

    #[tokio::test]
    async fn a_full_disk_fails_the_group_and_leaves_the_log_as_it_was() {
        let disk = Memory::default();
        let journal = journal(&disk);
        journal.append(&delete(1)).await.expect("there is room");
        let good = disk.0.lock().expect("idle").bytes.clone();
        disk.0.lock().expect("idle").room = Some(good.len() + 10);
        let refused = journal.append(&delete(2)).await.expect_err("there is no room");
        assert!(refused.is_full(), "{refused}");
        assert_eq!(disk.0.lock().expect("idle").bytes, good);
        disk.0.lock().expect("idle").room = None;
        assert_eq!(journal.append(&delete(3)).await.map(|a| a.sequence).ok(), Some(2));
    }

    #[tokio::test]
    async fn a_failed_sync_is_taken_back_too() {
        let disk = Memory::default();
        let journal = journal(&disk);
        disk.0.lock().expect("idle").sync_fails = true;
        assert!(journal.append(&delete(1)).await.is_err());
        assert!(disk.0.lock().expect("idle").bytes.is_empty());
    }

    #[tokio::test]
    async fn a_log_that_cannot_be_cut_back_takes_nothing_until_it_can() {
        let disk = Memory::default();
        let journal = journal(&disk);
        disk.0.lock().expect("idle").truncate_fails = true;
        disk.0.lock().expect("idle").room = Some(10);
        assert!(journal.append(&delete(1)).await.is_err());
        disk.0.lock().expect("idle").room = None;
        assert!(journal.append(&delete(2)).await.is_err());
        assert_eq!(disk.0.lock().expect("idle").bytes.len(), 10);
        disk.0.lock().expect("idle").truncate_fails = false;
        assert_eq!(journal.append(&delete(3)).await.map(|a| a.sequence).ok(), Some(1));
        let bytes = disk.0.lock().expect("idle").bytes.clone();
        assert!(bytes.starts_with(crate::frame::FRAME_MAGIC));
    }
}
