//! Truncates every file of a collection to every length: all acknowledged records are recovered, or an error or a log
//! line says where records were lost.

mod common;

use std::{
    fs,
    io::{self, Write},
    path::Path,
    sync::{Arc, Mutex},
};

use accelerd_store::{Fsync, Journal, Record, ReplayHooks, Store, StoreError};
use common::{State, apply, chunks, files, image, meta, recover, upsert};
use proptest::prelude::*;
use tempfile::TempDir;
use tracing_subscriber::fmt::MakeWriter;

/// Captures the formatted log.
#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no test panics while it holds the lock").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for LogBuffer {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime can be made").block_on(future)
}

/// A live collection, and the map that models it.
struct Fixture {
    dir: TempDir,
    store: Store,
    journal: Journal,
    state: State,
    sequence: u64,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder can be created");
        let (store, _) = Store::open(dir.path(), Fsync::Always).expect("a fresh folder opens");
        let journal = store.create(&meta("c")).expect("a collection can be created");
        Self { dir, store, journal, state: State::new(), sequence: 0 }
    }

    fn write(&mut self, ids: &[u64], fill: u8) {
        let record = Record::Upsert(upsert(ids, fill));
        self.sequence = wait(self.journal.append(&record)).expect("the disk has room").sequence;
        apply(&mut self.state, &record);
    }

    fn checkpoint(&mut self) {
        wait(self.journal.rotate()).expect("the disk has room");
        let mut writer = self.store.checkpoint(&meta("c"), self.sequence).expect("the disk has room");
        for chunk in chunks(&self.state, 3) {
            writer.push(&chunk).expect("the disk has room");
        }
        self.store.retire(&writer.finish().expect("the disk has room")).expect("it can be removed");
    }

    /// Closes the store as an orderly shutdown does, or leaves it as a kill does.
    fn end(self, cleanly: bool) -> (TempDir, State) {
        let Self { dir, store, journal, state, .. } = self;
        drop(journal);
        if cleanly {
            store.release();
        }
        drop(store);
        (dir, state)
    }
}

fn truncate(path: &Path, len: u64) {
    fs::File::options().write(true).open(path).expect("it is there").set_len(len).expect("it can be truncated");
}

/// Recovers a folder. Returns the outcome and what was logged.
fn recover_logged(dir: &Path) -> (Result<State, StoreError>, String) {
    let lines = LogBuffer::default();
    let subscriber = tracing_subscriber::fmt().with_writer(lines.clone()).with_ansi(false).finish();
    let recovered = tracing::subscriber::with_default(subscriber, || recover(dir).map(|(_, state, _)| state));
    let logged = lines.0.lock().expect("no test panics while it holds the lock").clone();
    (recovered, String::from_utf8(logged).expect("text"))
}

/// Truncates each file of the collection to every length, one at a time.
fn truncate_everywhere(dir: &Path, state: &State, cleanly: bool) {
    for file in files(&dir.join("collections").join("c")) {
        let name = file.file_name().expect("a file").to_str().expect("text").to_owned();
        for len in 0..fs::metadata(&file).expect("it is there").len() {
            let crashed = image(dir);
            let truncated = crashed.path().join(file.strip_prefix(dir).expect("below"));
            truncate(&truncated, len);
            let (recovered, logged) = recover_logged(crashed.path());
            let at = format!("{name} truncated to {len} bytes after {}", if cleanly { "a shutdown" } else { "a kill" });
            match recovered {
                Err(error) => assert!(error.to_string().contains(&name), "{at}: {error}"),
                Ok(recovered) if recovered == *state => {}
                Ok(_) => {
                    assert!(!cleanly, "{at}: records are lost without an error");
                    let line = logged.lines().find(|line| line.contains(&name) && line.contains("offset="));
                    assert!(line.is_some(), "{at}: records are lost without a log line that says where:\n{logged}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn truncating_any_file_loses_no_acknowledged_record_silently(
        before in proptest::collection::vec((proptest::collection::btree_set(0..6u64, 1..3), any::<u8>()), 0..3),
        checkpoint in any::<bool>(),
        after in proptest::collection::vec((proptest::collection::btree_set(0..6u64, 1..3), any::<u8>()), 1..3),
        cleanly in any::<bool>(),
    ) {
        let mut fixture = Fixture::new();
        for (ids, fill) in before {
            fixture.write(&ids.into_iter().collect::<Vec<_>>(), fill);
        }
        if checkpoint {
            fixture.checkpoint();
        }
        for (ids, fill) in after {
            fixture.write(&ids.into_iter().collect::<Vec<_>>(), fill);
        }
        let (dir, state) = fixture.end(cleanly);
        let (recovered, logged) = recover_logged(dir.path());
        prop_assert_eq!(&recovered.expect("nothing is damaged"), &state);
        prop_assert_eq!(logged.contains("was not closed"), !cleanly, "{}", logged);
        truncate_everywhere(dir.path(), &state, cleanly);
    }
}

#[test]
fn a_log_without_a_complete_header_is_corrupt_after_a_shutdown_and_after_a_kill() {
    for cleanly in [true, false] {
        for len in [0, 7, 23] {
            let mut fixture = Fixture::new();
            fixture.write(&[1, 2], 7);
            let (dir, _) = fixture.end(cleanly);
            let log = common::logs(dir.path(), "c").pop().expect("there is a log");
            truncate(&log, len);
            match recover_logged(dir.path()).0 {
                Err(StoreError::Corrupt { file, offset, .. }) => assert_eq!((file, offset), (log, len)),
                other => panic!("{len} bytes, cleanly {cleanly}: {other:?}"),
            }
        }
    }
}

#[test]
fn an_interrupted_rotation_leaves_no_log_without_a_header() {
    let mut fixture = Fixture::new();
    fixture.write(&[1], 7);
    let folder = fixture.dir.path().join("collections/c");
    // A crash during the creation of the next log leaves its bytes under a temporary name.
    fs::write(folder.join("wal-00000000000000000002.new"), b"ACCL").expect("it can be written");
    let (dir, state) = fixture.end(false);
    assert_eq!(recover_logged(dir.path()).0.expect("nothing is damaged"), state);
}

#[test]
fn the_durable_offset_of_a_deleted_collection_does_not_apply_to_a_new_one_of_that_name() {
    let mut fixture = Fixture::new();
    for fill in 1..20 {
        fixture.write(&[1, 2, 3], fill);
    }
    let (dir, _) = fixture.end(true);
    let (store, mut found) = Store::open(dir.path(), Fsync::Always).expect("it opens");
    let replayed = found.remove(0).replay(ReplayHooks::default(), Ok, |_| Ok::<_, StoreError>(()));
    drop(replayed.expect("nothing is damaged"));
    store.delete("c").expect("it can be deleted");
    let journal = store.create(&meta("c")).expect("the name is free");
    let record = Record::Upsert(upsert(&[9], 3));
    wait(journal.append(&record)).expect("the disk has room");
    // A kill leaves the durable offsets of the last close.
    drop((journal, store));
    let mut state = State::new();
    apply(&mut state, &record);
    assert_eq!(recover_logged(dir.path()).0.expect("the short log is valid"), state);
}

#[test]
fn corruption_is_reported_at_every_start() {
    let mut fixture = Fixture::new();
    fixture.write(&[1], 7);
    fixture.write(&[2], 7);
    let (dir, _) = fixture.end(true);
    truncate(&common::logs(dir.path(), "c").pop().expect("there is a log"), 24);
    for _ in 0..3 {
        assert!(matches!(recover_logged(dir.path()).0, Err(StoreError::Corrupt { offset: 24, .. })));
        // The daemon serves other collections and shuts down in order.
        Store::open(dir.path(), Fsync::Always).expect("it opens").0.release();
    }
}

#[test]
fn damaged_durable_offsets_are_logged_and_lose_nothing() {
    let mut fixture = Fixture::new();
    fixture.write(&[1], 7);
    let (dir, state) = fixture.end(true);
    let offsets = dir.path().join("closed.json");
    for len in 0..fs::metadata(&offsets).expect("it is there").len() {
        let crashed = image(dir.path());
        truncate(&crashed.path().join("closed.json"), len);
        let (recovered, logged) = recover_logged(crashed.path());
        assert_eq!(recovered.expect("the collection is whole"), state);
        assert!(logged.contains("WARN") && logged.contains("closed.json"), "{len}: {logged}");
    }
}
