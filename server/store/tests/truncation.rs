//! Every file of a collection, cut at every length: what was answered is there, or an error or a line of the log says where it
//! was lost. The log's lines are read as an operator reads them.

mod common;

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use accelerd_store::{Fsync, Journal, Record, Store, StoreError};
use common::{State, apply, chunks, image, meta, recover, upsert};
use proptest::prelude::*;
use tempfile::TempDir;
use tracing_subscriber::fmt::MakeWriter;

/// What is logged.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics in here").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime can be made").block_on(future)
}

/// A collection that is written to.
struct Written {
    dir: TempDir,
    store: Store,
    journal: Journal,
    state: State,
    sequence: u64,
}

impl Written {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder can be made");
        let (store, _) = Store::open(dir.path(), Fsync::Always).expect("a fresh folder opens");
        let journal = store.create(&meta("c")).expect("a collection can be made");
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

    /// Ends like a daemon that is told to, or like one that is killed.
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

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("it is there").map(|entry| entry.expect("it can be read").path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn cut(path: &Path, len: u64) {
    fs::File::options().write(true).open(path).expect("it is there").set_len(len).expect("it can be cut");
}

/// What came of a folder one of whose files was cut, and what was logged meanwhile.
fn outcome(dir: &Path) -> (Result<State, StoreError>, String) {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt().with_writer(lines.clone()).with_ansi(false).finish();
    let recovered = tracing::subscriber::with_default(subscriber, || recover(dir).map(|(_, state, _)| state));
    let logged = lines.0.lock().expect("nobody panics in here").clone();
    (recovered, String::from_utf8(logged).expect("text"))
}

/// Cuts every file of the collection at every length, one at a time.
fn cut_everywhere(dir: &Path, state: &State, cleanly: bool) {
    for file in files(&dir.join("collections").join("c")) {
        let name = file.file_name().expect("a file").to_str().expect("text").to_owned();
        for len in 0..fs::metadata(&file).expect("it is there").len() {
            let crashed = image(dir);
            let cut_file = crashed.path().join(file.strip_prefix(dir).expect("below"));
            cut(&cut_file, len);
            let (recovered, logged) = outcome(crashed.path());
            let at = format!("{name} cut to {len} bytes, ended {}", if cleanly { "cleanly" } else { "by a kill" });
            match recovered {
                Err(error) => assert!(error.to_string().contains(&name), "{at}: {error}"),
                Ok(recovered) if recovered == *state => {}
                Ok(_) => {
                    assert!(!cleanly, "{at}: records are gone without an error");
                    let line = logged.lines().find(|line| line.contains(&name) && line.contains("offset="));
                    assert!(line.is_some(), "{at}: records are gone without a line that says where; logged:\n{logged}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn no_cut_of_any_file_loses_what_was_answered_in_silence(
        before in proptest::collection::vec((proptest::collection::btree_set(0..6u64, 1..3), any::<u8>()), 0..3),
        checkpoint in any::<bool>(),
        after in proptest::collection::vec((proptest::collection::btree_set(0..6u64, 1..3), any::<u8>()), 1..3),
        cleanly in any::<bool>(),
    ) {
        let mut written = Written::new();
        for (ids, fill) in before {
            written.write(&ids.into_iter().collect::<Vec<_>>(), fill);
        }
        if checkpoint {
            written.checkpoint();
        }
        for (ids, fill) in after {
            written.write(&ids.into_iter().collect::<Vec<_>>(), fill);
        }
        let (dir, state) = written.end(cleanly);
        let (recovered, logged) = outcome(dir.path());
        prop_assert_eq!(&recovered.expect("nothing is damaged"), &state);
        prop_assert_eq!(logged.contains("was not closed"), !cleanly, "{}", logged);
        cut_everywhere(dir.path(), &state, cleanly);
    }
}

#[test]
fn a_log_without_a_whole_header_is_an_error_that_names_it_whatever_ended_the_daemon() {
    for cleanly in [true, false] {
        for len in [0, 7, 23] {
            let mut written = Written::new();
            written.write(&[1, 2], 7);
            let (dir, _) = written.end(cleanly);
            let log = common::logs(dir.path(), "c").pop().expect("there is a log");
            cut(&log, len);
            match outcome(dir.path()).0 {
                Err(StoreError::Corrupt { file, offset, .. }) => assert_eq!((file, offset), (log, len)),
                other => panic!("{len} bytes, cleanly {cleanly}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_rotation_cut_short_leaves_no_log_without_a_header() {
    let mut written = Written::new();
    written.write(&[1], 7);
    let folder = written.dir.path().join("collections/c");
    // What a crash leaves while the next log is being made: its bytes under another name.
    fs::write(folder.join("wal-00000000000000000002.new"), b"ACCL").expect("it can be written");
    let (dir, state) = written.end(false);
    assert_eq!(outcome(dir.path()).0.expect("nothing is damaged"), state);
}

#[test]
fn a_log_made_anew_under_the_name_of_a_dropped_collection_is_not_held_to_the_old_one() {
    let mut written = Written::new();
    for fill in 1..20 {
        written.write(&[1, 2, 3], fill);
    }
    let (dir, _) = written.end(true);
    let (store, mut found) = Store::open(dir.path(), Fsync::Always).expect("it opens");
    drop(found.remove(0).replay(|_| Ok::<_, StoreError>(())).expect("nothing is damaged"));
    store.delete("c").expect("it can be dropped");
    let journal = store.create(&meta("c")).expect("the name is free");
    let record = Record::Upsert(upsert(&[9], 3));
    wait(journal.append(&record)).expect("the disk has room");
    // Killed: what was written down when it was last closed stays.
    drop((journal, store));
    let mut state = State::new();
    apply(&mut state, &record);
    assert_eq!(outcome(dir.path()).0.expect("a short log, and whole"), state);
}

#[test]
fn damage_that_was_found_is_found_again_at_the_next_start() {
    let mut written = Written::new();
    written.write(&[1], 7);
    written.write(&[2], 7);
    let (dir, _) = written.end(true);
    cut(&common::logs(dir.path(), "c").pop().expect("there is a log"), 24);
    for _ in 0..3 {
        assert!(matches!(outcome(dir.path()).0, Err(StoreError::Corrupt { offset: 24, .. })));
        // A daemon that serves the others and ends well.
        Store::open(dir.path(), Fsync::Always).expect("it opens").0.release();
    }
}

#[test]
fn a_list_of_ends_that_is_damaged_is_said_so_and_loses_nothing() {
    let mut written = Written::new();
    written.write(&[1], 7);
    let (dir, state) = written.end(true);
    let ends = dir.path().join("closed.json");
    for len in 0..fs::metadata(&ends).expect("it is there").len() {
        let crashed = image(dir.path());
        cut(&crashed.path().join("closed.json"), len);
        let (recovered, logged) = outcome(crashed.path());
        assert_eq!(recovered.expect("the collection is whole"), state);
        assert!(logged.contains("WARN") && logged.contains("closed.json"), "{len}: {logged}");
    }
}
