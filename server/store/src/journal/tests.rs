//! Tests of group commit, syncs, rotation and failing disks.

use std::sync::Mutex;

use super::*;
use crate::Ids;

/// An in-memory disk that counts syncs and fails on demand.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<DiskContents>>);

#[derive(Default)]
struct DiskContents {
    bytes: Vec<u8>,
    capacity: Option<usize>,
    truncate_fails: bool,
    sync_fails: bool,
    syncs: usize,
    /// Syncs wait for this lock: a test that holds it lets commands queue up.
    gate: Option<Arc<Mutex<()>>>,
}

impl Disk for Memory {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock().expect("tests do not panic in here");
        let free = |capacity: usize| capacity.saturating_sub(state.bytes.len());
        let room = state.capacity.map_or(bytes.len(), free).min(bytes.len());
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

fn position() -> LogPosition {
    LogPosition { dir: "/nowhere".into(), first: 1, next: 1, len: 0, salt: 9, older: 0, fsync: Fsync::Always }
}

fn journal(disk: &Memory) -> Journal {
    let logs = Logs::new(2, 2, BTreeMap::new());
    Journal::start_on(disk.clone(), position(), &logs, |_, _| Err(StoreError::Closed))
}

fn delete(id: u64) -> Record {
    Record::Delete(Ids::Numbers(vec![id]))
}

#[tokio::test]
async fn records_that_queue_up_during_a_sync_share_the_next_one() {
    let disk = Memory::default();
    let gate = Arc::new(Mutex::new(()));
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
async fn a_thread_pool_writes_many_logs_and_keeps_the_order_of_each() {
    let logs = Logs::new(3, 2, BTreeMap::new());
    let disks: Vec<_> = (0..100).map(|_| Memory::default()).collect();
    let start = |disk: &Memory| Journal::start_on(disk.clone(), position(), &logs, |_, _| Err(StoreError::Closed));
    let journals: Vec<_> = disks.iter().map(start).collect();
    let mut answers = vec![];
    for round in 0..20u64 {
        for journal in &journals {
            answers.push((round + 1, journal.append(&delete(round))));
        }
    }
    for (expected, answer) in answers {
        assert_eq!(answer.await.map(|appended| appended.sequence).ok(), Some(expected));
    }
    assert!((1..=3).contains(&logs.threads.count()), "{} threads", logs.threads.count());
    let bytes = |disk: &Memory| disk.0.lock().expect("idle").bytes.len();
    assert!(disks.iter().all(|disk| bytes(disk) == bytes(&disks[0])), "every log has the same records");
    drop(journals);
    assert!(
        logs.durable_offsets.lock().expect("idle").contains_key("nowhere"),
        "closing a log records its durable offset"
    );
}

#[tokio::test]
async fn a_panicking_writer_closes_only_its_own_log() {
    let (disk, other) = (Memory::default(), Memory::default());
    let logs = Logs::new(1, 2, BTreeMap::new());
    let journal = Journal::start_on(disk.clone(), position(), &logs, |_, _| Err(StoreError::Closed));
    let healthy = Journal::start_on(other.clone(), position(), &logs, |_, _| Err(StoreError::Closed));
    let poison = Arc::clone(&disk.0);
    let poisoned = std::thread::spawn(move || {
        let _held = poison.lock().expect("fresh");
        panic!("the disk's lock is poisoned, so that its next user panics");
    });
    assert!(poisoned.join().is_err());
    for _ in 0..2 {
        assert!(matches!(journal.append(&delete(1)).await, Err(StoreError::Closed)));
    }
    assert_eq!(healthy.append(&delete(1)).await.map(|appended| appended.sequence).ok(), Some(1));
    drop(journal);
    assert!(logs.durable_offsets.lock().expect("idle").is_empty(), "a poisoned log has no known durable offset");
}

#[tokio::test]
async fn a_full_disk_fails_the_group_and_rolls_the_log_back() {
    let disk = Memory::default();
    let journal = journal(&disk);
    journal.append(&delete(1)).await.expect("there is room");
    let good = disk.0.lock().expect("idle").bytes.clone();
    disk.0.lock().expect("idle").capacity = Some(good.len() + 10);
    let refused = journal.append(&delete(2)).await.expect_err("there is no room");
    assert!(refused.is_full(), "{refused}");
    assert_eq!(disk.0.lock().expect("idle").bytes, good);
    disk.0.lock().expect("idle").capacity = None;
    assert_eq!(journal.append(&delete(3)).await.map(|a| a.sequence).ok(), Some(2));
}

#[tokio::test]
async fn a_failed_sync_is_rolled_back() {
    let disk = Memory::default();
    let journal = journal(&disk);
    disk.0.lock().expect("idle").sync_fails = true;
    assert!(journal.append(&delete(1)).await.is_err());
    assert!(disk.0.lock().expect("idle").bytes.is_empty());
}

#[tokio::test]
async fn appends_fail_until_a_failed_rollback_succeeds() {
    let disk = Memory::default();
    let journal = journal(&disk);
    disk.0.lock().expect("idle").truncate_fails = true;
    disk.0.lock().expect("idle").capacity = Some(10);
    assert!(journal.append(&delete(1)).await.is_err());
    disk.0.lock().expect("idle").capacity = None;
    assert!(journal.append(&delete(2)).await.is_err());
    assert_eq!(disk.0.lock().expect("idle").bytes.len(), 10);
    disk.0.lock().expect("idle").truncate_fails = false;
    assert_eq!(journal.append(&delete(3)).await.map(|a| a.sequence).ok(), Some(1));
    let bytes = disk.0.lock().expect("idle").bytes.clone();
    assert!(bytes.starts_with(crate::frame::FRAME_MAGIC));
}
