//! Random damage of logs and checkpoints: what is whole is recovered, nothing is invented, and no file is changed.

mod common;

use std::{
    collections::BTreeMap,
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

use accelerd_store::{Fsync, Ids, Record, Store, StoreError};
use bytes::Bytes;
use common::{State, apply, chunks, logs, meta, recover_whole_parts, upsert};
use proptest::{prelude::*, sample::Index};
use tempfile::TempDir;

/// A part of a file that is lost as a whole.
#[derive(Clone, Debug)]
struct Part {
    bytes: Range<usize>,
    record: Record,
}

/// A closed collection, and what each of its files holds.
struct Written {
    dir: TempDir,
    /// Chunks of the checkpoint, then the log files, in the order of their records.
    files: Vec<(PathBuf, Vec<Part>)>,
    manifest: PathBuf,
    /// Every version of each point that was ever written.
    versions: BTreeMap<u64, Vec<(Bytes, Bytes)>>,
}

#[derive(Clone, Debug)]
enum Write {
    Upsert(Vec<u64>, u8),
    Delete(Vec<u64>),
    Rotate,
}

fn any_write() -> impl Strategy<Value = Write> {
    let ids = proptest::collection::btree_set(0..12u64, 1..5).prop_map(|ids| ids.into_iter().collect::<Vec<_>>());
    prop_oneof![
        5 => (ids.clone(), any::<u8>()).prop_map(|(ids, fill)| Write::Upsert(ids, fill)),
        2 => ids.prop_map(Write::Delete),
        1 => Just(Write::Rotate),
    ]
}

/// Damage of a file.
#[derive(Clone, Debug)]
enum Blow {
    Flip(Index, u8),
    Zero(Index, usize),
    Remove(Index, usize),
    Truncate(Index),
}

fn any_blow() -> impl Strategy<Value = Blow> {
    prop_oneof![
        (any::<Index>(), 0..8u8).prop_map(|(at, bit)| Blow::Flip(at, bit)),
        (any::<Index>(), 1..200usize).prop_map(|(at, len)| Blow::Zero(at, len)),
        (any::<Index>(), 1..200usize).prop_map(|(at, len)| Blow::Remove(at, len)),
        any::<Index>().prop_map(Blow::Truncate),
    ]
}

impl Blow {
    /// Damages a file. Returns the ranges of its former bytes that are whole.
    fn strike(&self, path: &Path) -> Vec<Range<usize>> {
        let old = fs::read(path).expect("it is there");
        let mut new = old.clone();
        let end = |at: usize, len: usize| (at + len).min(old.len());
        let whole = match self {
            Self::Flip(at, bit) => {
                let at = at.index(old.len());
                new[at] ^= 1 << bit;
                vec![0..at, at + 1..old.len()]
            }
            Self::Zero(at, len) => {
                let at = at.index(old.len());
                new[at..end(at, *len)].fill(0);
                let differs = |i: &usize| old[*i] != new[*i];
                let first = (0..old.len()).find(differs).unwrap_or(old.len());
                let last = (0..old.len()).rev().find(differs).map_or(old.len(), |last| last + 1);
                vec![0..first, last..old.len()]
            }
            Self::Remove(at, len) => {
                let at = at.index(old.len());
                new.drain(at..end(at, *len));
                // Equal bytes around it do not show which of them are gone.
                let same = |(one, other): &(&u8, &u8)| one == other;
                let head = old.iter().zip(&new).take_while(same).count();
                let tail = old.iter().rev().zip(new.iter().rev()).take_while(same).count();
                vec![0..head, old.len() - tail..old.len()]
            }
            Self::Truncate(at) => {
                new.truncate(at.index(old.len()));
                std::iter::once(0..new.len()).collect()
            }
        };
        fs::write(path, new).expect("it can be written");
        whole
    }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime can be made").block_on(future)
}

/// Writes records, with a checkpoint after the first ones, and closes the collection.
fn write(before: Vec<Write>, after: Vec<Write>) -> Written {
    let dir = tempfile::tempdir().expect("a temporary folder can be created");
    let (store, _) = Store::open(dir.path(), Fsync::Always).expect("a fresh folder opens");
    let journal = store.create(&meta("c")).expect("a collection can be created");
    let mut state = State::new();
    let mut versions = BTreeMap::<u64, Vec<_>>::new();
    let mut sequence = 0;
    let mut files: BTreeMap<PathBuf, Vec<Part>> = BTreeMap::new();
    let mut run = |write: Write, state: &mut State, files: &mut BTreeMap<PathBuf, Vec<Part>>| {
        let record = match write {
            Write::Upsert(ids, fill) => Record::Upsert(upsert(&ids, fill)),
            Write::Delete(ids) => Record::Delete(Ids::Numbers(ids)),
            Write::Rotate => {
                wait(journal.rotate()).expect("the disk has room");
                return;
            }
        };
        let log = logs(dir.path(), "c").pop().expect("there is a log");
        let len = || usize::try_from(fs::metadata(&log).expect("it is there").len()).expect("it is small");
        let start = len();
        sequence = wait(journal.append(&record)).expect("the disk has room").sequence;
        apply(state, &record);
        for (id, version) in state.iter() {
            versions.entry(*id).or_default().push(version.clone());
        }
        files.entry(log.clone()).or_default().push(Part { bytes: start..len(), record });
    };
    for write in before {
        run(write, &mut state, &mut files);
    }
    run(Write::Rotate, &mut state, &mut files);
    let checkpointed = chunks(&state, 3);
    let last = wait(journal.rotate()).expect("the disk has room").last;
    let mut checkpoint = store.checkpoint(&meta("c"), last).expect("the disk has room");
    for chunk in &checkpointed {
        checkpoint.push(chunk).expect("the disk has room");
    }
    store.retire(&checkpoint.finish().expect("the disk has room")).expect("it can be removed");
    files.clear();
    for write in after {
        run(write, &mut state, &mut files);
    }
    drop(journal);
    store.release();
    let folder = dir.path().join("collections/c/checkpoint-0000000001");
    let chunk = |(at, chunk): (usize, &accelerd_store::Upsert)| {
        let path = folder.join(format!("chunk-{at:08}"));
        let len = usize::try_from(fs::metadata(&path).expect("it is there").len()).expect("it is small");
        (path, vec![Part { bytes: 0..len, record: Record::Upsert(chunk.clone()) }])
    };
    let files = checkpointed.iter().enumerate().map(chunk).chain(files).collect();
    Written { manifest: folder.join("manifest.json"), dir, files, versions }
}

impl Written {
    /// The state without the parts that are not whole; `whole` has the ranges of each damaged file.
    fn state_of_whole_parts(&self, whole: &BTreeMap<PathBuf, Vec<Range<usize>>>) -> State {
        let mut state = State::new();
        for (path, parts) in &self.files {
            for part in parts {
                let covers = |range: &Range<usize>| range.start <= part.bytes.start && part.bytes.end <= range.end;
                if whole.get(path).is_none_or(|ranges| ranges.iter().any(covers)) {
                    apply(&mut state, &part.record);
                }
            }
        }
        state
    }

    /// Each point is a version of it that was written.
    fn assert_nothing_is_invented(&self, state: &State) {
        for (id, point) in state {
            let versions = self.versions.get(id).unwrap_or_else(|| panic!("point {id} was never written"));
            assert!(versions.contains(point), "point {id} never was {point:?}");
        }
    }
}

/// Returns true if a blow leaves neither the header of a log file nor that of its first frame, of which one must be whole.
fn hides_the_salt(whole: &[Range<usize>]) -> bool {
    const FILE_HEADER: usize = 24;
    let first_frame = FILE_HEADER..FILE_HEADER + 36;
    let has = |range: Range<usize>| whole.iter().any(|whole| whole.start <= range.start && range.end <= whole.end);
    !has(0..FILE_HEADER) && !has(first_frame)
}

#[test]
fn a_log_file_whose_header_lost_bytes_keeps_all_frames() {
    for lost in [1, 7, 23] {
        let written =
            write(vec![Write::Upsert(vec![0], 0)], vec![Write::Upsert(vec![0], 2), Write::Upsert(vec![1], 3)]);
        let (log, _) = written.files.iter().find(|(path, _)| path.extension().is_some()).expect("a log");
        let whole = fs::read(log).expect("it is there");
        fs::write(log, &whole[lost..]).expect("it can be written");
        let (_store, state, replayed) = recover_whole_parts(written.dir.path()).expect("what is whole opens");
        assert!(!replayed.damage.is_empty(), "{lost} bytes");
        assert_eq!(state, written.state_of_whole_parts(&BTreeMap::new()), "{lost} bytes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn damage_loses_only_the_frames_and_chunks_that_it_hits(
        before in proptest::collection::vec(any_write(), 1..8),
        after in proptest::collection::vec(any_write(), 1..10),
        file in any::<Index>(),
        blow in any_blow(),
    ) {
        let written = write(before, after);
        if written.files.is_empty() {
            return Ok(());
        }
        let (path, _) = &written.files[file.index(written.files.len())];
        let original = &fs::read(path).expect("it is there");
        let whole = blow.strike(path);
        let is_log = path.extension().is_some();
        let (_store, state, replayed) = recover_whole_parts(written.dir.path()).expect("what is whole opens");
        written.assert_nothing_is_invented(&state);
        if fs::read(path).expect("it is there") == *original {
            return Ok(());
        }
        prop_assert!(!replayed.damage.is_empty(), "{blow:?} of {path:?} is not reported");
        let named = replayed.damage.listed()[0].to_string();
        let name = path.file_name().expect("a file").to_str().expect("text");
        prop_assert!(named.contains(name) || named.contains("wal-"), "{}", named);
        if is_log && hides_the_salt(&whole) {
            return Ok(());
        }
        let hit = BTreeMap::from([(path.clone(), whole)]);
        prop_assert_eq!(state, written.state_of_whole_parts(&hit), "{:?} of {:?}", blow, path);
    }

    #[test]
    fn damage_of_a_manifest_loses_only_the_chunks_that_it_names_no_more(
        before in proptest::collection::vec(any_write(), 1..8),
        after in proptest::collection::vec(any_write(), 1..4),
        blow in any_blow(),
    ) {
        let written = write(before, after);
        let old = fs::read_to_string(&written.manifest).expect("it is there");
        blow.strike(&written.manifest);
        let new = String::from_utf8_lossy(&fs::read(&written.manifest).expect("it is there")).into_owned();
        let (state, replayed) = match recover_whole_parts(written.dir.path()) {
            Ok((_store, state, replayed)) => (state, replayed),
            // A damaged number of the format is that of a later one.
            Err(error) => {
                prop_assert!(matches!(error, StoreError::Format { .. }), "{}", error);
                return Ok(());
            }
        };
        written.assert_nothing_is_invented(&state);
        let words = |text: &str| text.split_whitespace().collect::<String>();
        prop_assert!(!replayed.damage.is_empty() || words(&old) == words(&new), "{}", new);
        let digests: Vec<_> = old.lines().skip(2).filter_map(|line| line.trim().strip_prefix("\"sha256\": ")).collect();
        let is_lost = |(i, digest): (usize, &&str)| (!new.contains(digest.trim_matches('"'))).then_some(i);
        let hit = digests.iter().enumerate().filter_map(is_lost).map(|i| (written.files[i].0.clone(), vec![])).collect();
        prop_assert_eq!(state, written.state_of_whole_parts(&hit));
    }
}

/// A collection with a record for each id.
fn of_records(ids: Range<u64>) -> Written {
    write(vec![], ids.map(|id| Write::Upsert(vec![id], 7)).collect())
}

#[test]
fn a_log_with_a_damaged_header_is_read_with_the_salt_of_its_first_frame() {
    let written = of_records(0..5);
    let log = logs(written.dir.path(), "c").pop().expect("there is a log");
    let mut bytes = fs::read(&log).expect("it is there");
    bytes[..24].fill(0xee);
    fs::write(&log, bytes).expect("it can be written");
    fs::remove_file(written.dir.path().join("closed.json")).expect("it is there");
    let (_store, state, replayed) = recover_whole_parts(written.dir.path()).expect("the frames are whole");
    assert_eq!((state.len(), replayed.damage.count()), (5, 1));
}

#[test]
fn a_collection_without_logs_has_the_points_of_its_checkpoint() {
    let written = write((0..5).map(|id| Write::Upsert(vec![id], 7)).collect(), vec![]);
    for log in logs(written.dir.path(), "c") {
        fs::remove_file(log).expect("it is there");
    }
    let (_store, state, replayed) = recover_whole_parts(written.dir.path()).expect("the checkpoint is whole");
    assert_eq!(state.len(), 5);
    assert!(replayed.damage.listed()[0].to_string().contains("no log file"), "{:?}", replayed.damage);
}

#[test]
fn an_older_checkpoint_serves_while_the_newest_manifest_is_damaged() {
    let written = of_records(0..5);
    let (store, state, replayed) = recover_whole_parts(written.dir.path()).expect("nothing is damaged");
    let mut checkpoint = store.checkpoint(&meta("c"), replayed.sequence).expect("the disk has room");
    for chunk in chunks(&state, 2) {
        checkpoint.push(&chunk).expect("the disk has room");
    }
    // A crash before the older one is retired.
    checkpoint.finish().expect("the disk has room");
    drop((store, replayed));
    let manifest = written.dir.path().join("collections/c/checkpoint-0000000002/manifest.json");
    fs::write(manifest, "{").expect("it can be written");
    let (_store, recovered, replayed) = recover_whole_parts(written.dir.path()).expect("the older one is whole");
    assert_eq!((recovered, replayed.damage.count()), (state, 1));
}

#[test]
fn a_list_of_damage_is_bounded() {
    let written = of_records(0..300);
    let log = logs(written.dir.path(), "c").pop().expect("there is a log");
    let mut bytes = fs::read(&log).expect("it is there");
    for part in written.files[0].1.iter().step_by(2) {
        bytes[part.bytes.end - 1] ^= 1;
    }
    fs::write(&log, bytes).expect("it can be written");
    let (_store, state, replayed) = recover_whole_parts(written.dir.path()).expect("half of it is whole");
    assert_eq!((state.len(), replayed.damage.count(), replayed.damage.listed().len()), (150, 150, 100));
}

#[test]
fn a_damaged_collection_can_be_deleted() {
    let written = of_records(0..5);
    let log = logs(written.dir.path(), "c").pop().expect("there is a log");
    fs::write(log, b"ACCLWAL").expect("it can be written");
    let (store, _, replayed) = recover_whole_parts(written.dir.path()).expect("it opens");
    drop(replayed);
    store.delete("c").expect("it can be removed");
    store.create(&meta("c")).expect("the name is free");
}
