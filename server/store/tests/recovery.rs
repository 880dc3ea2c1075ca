//! Crashes at any byte and corruption: every acknowledged record is recovered, or an error names file and offset.

mod common;

use std::{
    fs,
    io::{Seek as _, SeekFrom, Write as _},
    path::Path,
};

use accelerd_store::{CollectionMeta, Fsync, Journal, Prompt, Prompts, Record, Store, StoreError};
use common::{DIM, State, apply, chunks, image, logs, meta, recover, upsert};
use proptest::{prelude::*, sample::Index};
use tempfile::TempDir;

#[derive(Clone, Debug)]
enum Action {
    /// Upserts; the simulated crash comes after `cut` / 65,536 of the record's bytes.
    Write {
        ids: Vec<u64>,
        fill: u8,
        cut: u16,
    },
    Delete {
        ids: Vec<u64>,
        cut: u16,
    },
    Rotate,
    Checkpoint {
        chunk: usize,
    },
    Reopen,
}

fn any_action() -> impl Strategy<Value = Action> {
    let ids = proptest::collection::btree_set(0..20u64, 1..5).prop_map(|ids| ids.into_iter().collect::<Vec<_>>());
    prop_oneof![
        5 => (ids.clone(), any::<u8>(), any::<u16>()).prop_map(|(ids, fill, cut)| Action::Write { ids, fill, cut }),
        2 => (ids, any::<u16>()).prop_map(|(ids, cut)| Action::Delete { ids, cut }),
        1 => Just(Action::Rotate),
        1 => (1..4usize).prop_map(|chunk| Action::Checkpoint { chunk }),
        1 => Just(Action::Reopen),
    ]
}

/// A live collection, and the map that models it.
struct Fixture {
    dir: TempDir,
    open: Option<(Store, Journal)>,
    state: State,
    sequence: u64,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder can be created");
        let (store, found) = Store::open(dir.path(), Fsync::Always).expect("a fresh folder opens");
        assert!(found.is_empty());
        let journal = store.create(&meta("c")).expect("a collection can be created");
        Self { dir, open: Some((store, journal)), state: State::new(), sequence: 0 }
    }

    fn store(&self) -> &Store {
        &self.open.as_ref().expect("it is open").0
    }

    fn journal(&self) -> &Journal {
        &self.open.as_ref().expect("it is open").1
    }

    fn run(&mut self, action: Action) {
        match action {
            Action::Write { ids, fill, cut } => self.write(&Record::Upsert(upsert(&ids, fill)), cut),
            Action::Delete { ids, cut } => self.write(&Record::Delete(accelerd_store::Ids::Numbers(ids)), cut),
            Action::Rotate => {
                let last = wait(self.journal().rotate()).expect("the disk has room").last;
                assert_eq!(last, self.sequence);
            }
            Action::Checkpoint { chunk } => self.checkpoint(chunk),
            Action::Reopen => {
                self.open = None;
                let (store, state, replayed) = recover(self.dir.path()).expect("nothing is damaged");
                assert_eq!((&state, replayed.sequence), (&self.state, self.sequence));
                self.open = Some((store, replayed.journal.expect("nothing is damaged")));
            }
        }
        expect(&image(self.dir.path()), &self.state, self.sequence);
    }

    /// Appends a record, and recovers from a crash in the middle of it.
    fn write(&mut self, record: &Record, cut: u16) {
        let log = logs(self.dir.path(), "c").pop().expect("there is a log");
        let before = fs::metadata(&log).expect("it is there").len();
        let appended = wait(self.journal().append(record)).expect("the disk has room");
        let after = fs::metadata(&log).expect("it is there").len();
        let crashed = image(self.dir.path());
        let len = before + (after - before) * u64::from(cut) / (u64::from(u16::MAX) + 1);
        set_len(&logs(crashed.path(), "c").pop().expect("there is a log"), len);
        expect(&crashed, &self.state, self.sequence);
        self.sequence += 1;
        assert_eq!(appended.sequence, self.sequence);
        apply(&mut self.state, record);
    }

    /// Writes a checkpoint, and recovers from a crash between any two of its steps.
    fn checkpoint(&mut self, points: usize) {
        wait(self.journal().rotate()).expect("the disk has room");
        self.expect_unchanged();
        let mut writer = self.store().checkpoint(&meta("c"), self.sequence).expect("the disk has room");
        self.expect_unchanged();
        for chunk in chunks(&self.state, points) {
            writer.push(&chunk).expect("the disk has room");
            self.expect_unchanged();
        }
        let manifest = writer.finish().expect("the disk has room");
        self.expect_unchanged();
        // Retiring removes the oldest log first, so that a crash leaves any number of the newer ones.
        let covered = logs(self.dir.path(), "c").len() - 1;
        for removed in 0..=covered {
            let crashed = image(self.dir.path());
            logs(crashed.path(), "c").iter().take(removed).for_each(|log| fs::remove_file(log).expect("it is there"));
            expect(&crashed, &self.state, self.sequence);
        }
        self.store().retire(&manifest).expect("it can be removed");
        assert_eq!(logs(self.dir.path(), "c").len(), 1);
    }

    fn expect_unchanged(&self) {
        expect(&image(self.dir.path()), &self.state, self.sequence);
    }
}

fn expect(crashed: &TempDir, state: &State, sequence: u64) {
    let (_store, recovered, replayed) = recover(crashed.path()).expect("a crash damages nothing");
    assert_eq!((&recovered, replayed.sequence), (state, sequence));
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime can be made").block_on(future)
}

fn set_len(path: &Path, len: u64) {
    fs::File::options().write(true).open(path).expect("it is there").set_len(len).expect("it can be truncated");
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    let mut file = fs::File::options().write(true).open(path).expect("it is there");
    file.seek(SeekFrom::Start(at)).expect("it can be sought");
    file.write_all(bytes).expect("it can be written");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_acknowledged_record_survives_a_crash_at_any_byte(actions in proptest::collection::vec(any_action(), 1..14)) {
        let mut fixture = Fixture::new();
        for action in actions {
            fixture.run(action);
        }
    }

    #[test]
    fn a_flipped_bit_is_reported_as_corruption(at in any::<Index>(), bit in 0..8u32) {
        let mut fixture = Fixture::new();
        for i in 0..6 {
            fixture.run(Action::Write { ids: vec![i, i + 1], fill: 0x5b, cut: 0 });
        }
        fixture.open = None;
        let log = logs(fixture.dir.path(), "c").pop().expect("there is a log");
        let bytes = fs::read(&log).expect("it is there");
        let at = at.index(bytes.len());
        overwrite(&log, at as u64, &[bytes[at] ^ (1 << bit)]);
        match recover(fixture.dir.path()) {
            Err(StoreError::Corrupt { file, offset, .. }) => {
                prop_assert_eq!(file, log);
                prop_assert!(offset <= at as u64, "offset {} is after the flipped byte {}", offset, at);
            }
            Err(other) => prop_assert!(false, "{}", other),
            Ok(_) => prop_assert!(false, "the flip of byte {} of {} was not detected", at, bytes.len()),
        }
    }
}

/// A closed collection with its records in two log files.
fn closed(records: u64) -> (TempDir, Vec<std::path::PathBuf>) {
    let mut fixture = Fixture::new();
    for i in 0..records {
        if i == records / 2 {
            fixture.run(Action::Rotate);
        }
        fixture.run(Action::Write { ids: vec![i], fill: 0x33, cut: 0 });
    }
    fixture.open = None;
    let logs = logs(fixture.dir.path(), "c");
    (fixture.dir, logs)
}

fn corrupt_offset(dir: &Path) -> u64 {
    match recover(dir).map(|(_, state, _)| state) {
        Err(StoreError::Corrupt { offset, .. }) => offset,
        other => panic!("expected corruption, got {other:?}"),
    }
}

#[test]
fn a_truncated_older_log_is_corrupt() {
    let (dir, logs) = closed(6);
    let len = fs::metadata(&logs[0]).expect("it is there").len();
    set_len(&logs[0], len - 1);
    assert!(corrupt_offset(dir.path()) > 0);
}

#[test]
fn a_missing_log_is_corrupt() {
    let (dir, logs) = closed(6);
    fs::remove_file(&logs[0]).expect("it is there");
    assert_eq!(corrupt_offset(dir.path()), 0);
}

#[test]
fn a_tail_of_zeros_is_torn_and_all_records_before_it_are_kept() {
    let (dir, logs) = closed(6);
    let len = fs::metadata(&logs[1]).expect("it is there").len();
    set_len(&logs[1], len + 5000);
    let (_, state, replayed) = recover(dir.path()).expect("zeros are a torn tail");
    assert_eq!((state.len(), replayed.sequence), (6, 6));
    assert_eq!(fs::metadata(&logs[1]).expect("it is there").len(), len);
}

#[test]
fn a_last_frame_with_a_zero_sector_is_torn() {
    let mut fixture = Fixture::new();
    fixture.run(Action::Write { ids: vec![1], fill: 1, cut: 0 });
    let log = logs(fixture.dir.path(), "c").pop().expect("there is a log");
    let ids: Vec<_> = (0..200).collect();
    let big = upsert(&ids, 0x77);
    wait(fixture.journal().append(&Record::Upsert(big))).expect("the disk has room");
    fixture.open = None;
    assert!(fs::metadata(&log).expect("it is there").len() > 200 * u64::from(DIM) * 4);
    overwrite(&log, 2048, &[0; 512]);
    let (_, state, replayed) = recover(fixture.dir.path()).expect("it is torn");
    assert_eq!((state.len(), replayed.sequence), (1, 1));
}

#[test]
fn a_zero_sector_in_a_frame_that_was_synced_is_corrupt() {
    let mut fixture = Fixture::new();
    let ids: Vec<_> = (0..200).collect();
    wait(fixture.journal().append(&Record::Upsert(upsert(&ids, 0x77)))).expect("the disk has room");
    wait(fixture.journal().append(&Record::Upsert(upsert(&[1], 0x77)))).expect("the disk has room");
    fixture.open = None;
    let log = logs(fixture.dir.path(), "c").pop().expect("there is a log");
    overwrite(&log, 2048, &[0; 512]);
    assert_eq!(corrupt_offset(fixture.dir.path()), 24);
}

#[test]
fn a_damaged_checkpoint_is_an_error_that_names_its_chunk() {
    let mut fixture = Fixture::new();
    fixture.run(Action::Write { ids: vec![1, 2, 3], fill: 1, cut: 0 });
    fixture.run(Action::Checkpoint { chunk: 2 });
    fixture.open = None;
    let folder = fixture.dir.path().join("collections/c/checkpoint-0000000001");
    overwrite(&folder.join("chunk-00000001"), 20, b"x");
    let error = recover(fixture.dir.path()).map(|_| ()).expect_err("a chunk is damaged");
    assert!(error.to_string().contains("chunk-00000001"), "{error}");
}

#[test]
fn a_checkpoint_without_its_manifest_is_kept_while_its_points_are_missing() {
    let mut fixture = Fixture::new();
    fixture.run(Action::Write { ids: vec![1, 2, 3], fill: 1, cut: 0 });
    fixture.run(Action::Checkpoint { chunk: 2 });
    fixture.open = None;
    let folder = fixture.dir.path().join("collections/c/checkpoint-0000000001");
    fs::remove_file(folder.join("manifest.json")).expect("it is there");
    let error = recover(fixture.dir.path()).map(|_| ()).expect_err("points are missing");
    assert!(error.to_string().contains("are missing"), "{error}");
    assert!(folder.join("chunk-00000001").exists(), "its points can still be recovered by hand");
}

#[test]
fn damaged_descriptions_and_newer_formats_are_different_errors() {
    let (dir, _) = closed(2);
    let path = dir.path().join("collections/c/meta.json");
    let good = fs::read_to_string(&path).expect("it is there");
    fs::write(&path, good.replace("\"dim\": 3", "\"dim\": 4")).expect("it can be written");
    assert!(matches!(recover(dir.path()), Err(StoreError::Damaged { .. })));
    fs::write(&path, good.replace("\"format\": 1", "\"format\": 9")).expect("it can be written");
    assert!(matches!(recover(dir.path()), Err(StoreError::Format { got: 9, known: CollectionMeta::FORMAT, .. })));
}

#[test]
fn checkpoints_and_logs_of_later_formats_are_refused_with_both_formats() {
    let mut fixture = Fixture::new();
    fixture.run(Action::Write { ids: vec![1, 2, 3], fill: 1, cut: 0 });
    fixture.run(Action::Checkpoint { chunk: 2 });
    fixture.run(Action::Write { ids: vec![4], fill: 1, cut: 0 });
    fixture.open = None;
    let refused = |image: &TempDir| match recover(image.path()).map(|_| ()) {
        Err(StoreError::Format { file, got, known }) => (file, got, known),
        other => panic!("expected a later format, got {other:?}"),
    };

    let later = image(fixture.dir.path());
    let manifest = later.path().join("collections/c/checkpoint-0000000001/manifest.json");
    let good = fs::read_to_string(&manifest).expect("it is there");
    // The outer format is the manifest's, the inner one that of the collection. The seal of a later format is not known.
    for (at, known) in [(good.find("\"format\": 1"), 1), (good.rfind("\"format\": 1"), CollectionMeta::FORMAT)] {
        let mut later = good.clone();
        let at = at.expect("it has formats") + "\"format\": ".len();
        later.replace_range(at..=at, "7");
        fs::write(&manifest, later).expect("it can be written");
        let (file, got, expected) = refused(&image(manifest.ancestors().nth(4).expect("the data folder")));
        assert!(file.contains("manifest.json"), "{file}");
        assert_eq!((got, expected), (7, known));
    }

    let later = image(fixture.dir.path());
    let log = logs(later.path(), "c").pop().expect("there is a log");
    overwrite(&log, 0, b"ACCLWAL3 a header of another layout");
    let before = fs::read(&log).expect("it is there");
    let (file, got, known) = refused(&later);
    assert!(file.contains("wal-"), "{file}");
    assert_eq!((got, known), (3, 1));
    assert_eq!(fs::read(&log).expect("it is there"), before);
}

#[test]
fn a_description_has_a_later_format_only_with_a_digest_or_prompts() {
    let dir = tempfile::tempdir().expect("a temporary folder can be created");
    let (store, _) = Store::open(dir.path(), Fsync::Always).expect("a fresh folder opens");
    let stored = |name: &str| {
        let file = dir.path().join("collections").join(name).join("meta.json");
        fs::read_to_string(file).expect("it is there")
    };
    drop(store.create(&meta("c")).expect("it can be created"));
    assert!(stored("c").contains("\"format\": 1"), "{}", stored("c"));
    let with_digest = CollectionMeta { model_digest: "ab".into(), ..meta("c") };
    store.record_model_digest(&with_digest).expect("there is room");
    assert!(stored("c").contains("\"format\": 2"), "{}", stored("c"));
    let prompt = |text: &str| Prompt { name: "query".into(), text: text.into() };
    let prompts = Some(Prompts { document: prompt(""), query: prompt("query: ") });
    let prompted = CollectionMeta { prompts, ..meta("d") };
    drop(store.create(&prompted).expect("it can be created"));
    assert!(stored("d").contains("\"format\": 3"), "{}", stored("d"));
    drop(store);
    let (_, found) = Store::open(dir.path(), Fsync::Always).expect("it is whole");
    let again = found.into_iter().find(|found| found.name == "d").expect("it is there");
    assert_eq!(again.meta.expect("it can be read").prompts, prompted.prompts);
}

#[test]
fn a_folder_is_open_in_at_most_one_process() {
    let dir = tempfile::tempdir().expect("a temporary folder can be created");
    let first = Store::open(dir.path(), Fsync::Always).expect("it is free");
    assert!(matches!(Store::open(dir.path(), Fsync::Always), Err(StoreError::InUse(_))));
    drop(first);
    assert!(Store::open(dir.path(), Fsync::Always).is_ok());
}

#[test]
fn deleting_frees_the_name_and_the_next_start_removes_leftovers() {
    let fixture = Fixture::new();
    let (store, journal) = fixture.open.expect("it is open");
    assert!(matches!(store.create(&meta("c")), Err(StoreError::Exists(_))));
    drop(journal);
    store.delete("c").expect("it can be removed");
    drop(store.create(&meta("c")).expect("the name is free"));
    drop(store);
    for leftover in [".new-x", ".drop-7"] {
        fs::create_dir(fixture.dir.path().join("collections").join(leftover)).expect("it can be created");
    }
    let (_store, found) = Store::open(fixture.dir.path(), Fsync::Always).expect("it opens");
    assert_eq!(found.iter().map(|found| found.name.as_str()).collect::<Vec<_>>(), ["c"]);
    assert_eq!(fs::read_dir(fixture.dir.path().join("collections")).expect("it is there").count(), 1);
}

#[test]
fn committing_a_staged_collection_is_atomic() {
    let dir = tempfile::tempdir().expect("a temporary folder can be created");
    let (store, _) = Store::open(dir.path(), Fsync::Always).expect("a fresh folder opens");
    let mut state = State::new();
    apply(&mut state, &Record::Upsert(upsert(&[1, 2, 3, 4, 5], 0x21)));
    let mut staged = store.stage(&meta("c")).expect("the name is free");
    for chunk in chunks(&state, 2) {
        staged.push(&chunk).expect("the disk has room");
    }
    let crashed = image(dir.path());
    assert!(Store::open(crashed.path(), Fsync::Always).expect("it opens").1.is_empty());
    drop(staged.commit().expect("the disk has room"));
    expect(&image(dir.path()), &state, 0);
    drop(store.stage(&meta("d")).expect("the name is free"));
    assert_eq!(fs::read_dir(dir.path().join("collections")).expect("it is there").count(), 1);
}

#[test]
fn dropping_an_unfinished_checkpoint_removes_its_files() {
    let fixture = Fixture::new();
    let mut writer = fixture.store().checkpoint(&meta("c"), 0).expect("the disk has room");
    writer.push(&upsert(&[1], 1)).expect("the disk has room");
    let folder = fixture.dir.path().join("collections/c/checkpoint-0000000001");
    assert!(folder.exists());
    drop(writer);
    assert!(!folder.exists());
}
