//! Small test collections, modelled as plain maps.

#![allow(dead_code, reason = "each test binary uses some of these")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use accelerd_store::{
    CollectionMeta, Fsync, Ids, Metric, Record, ReplayHooks, Replayed, Storage, Store, StoreError, Upsert,
};
use bytes::Bytes;

pub(crate) const DIM: u32 = 3;

/// Id to vector and payload.
pub(crate) type State = BTreeMap<u64, (Bytes, Bytes)>;

pub(crate) fn meta(name: &str) -> CollectionMeta {
    CollectionMeta {
        format: CollectionMeta::FORMAT,
        name: name.into(),
        dim: DIM,
        metric: Metric::SquaredL2,
        storage: Storage::Bf16,
        model: "builtin".into(),
        model_digest: String::new(),
        prompts: None,
        text_field: String::new(),
        owner: String::new(),
        durable: true,
        create_time_ms: 1_700_000_000_000,
    }
}

/// Points whose vectors and payloads repeat one nonzero byte derived from `fill`.
pub(crate) fn upsert(ids: &[u64], fill: u8) -> Upsert {
    let fill = fill | 1;
    Upsert {
        ids: Ids::Numbers(ids.to_vec()),
        dim: DIM,
        vectors: vec![fill; ids.len() * DIM as usize * 4].into(),
        payloads: ids.iter().map(|id| Bytes::from(vec![fill; 1 + (*id % 7) as usize])).collect(),
    }
}

pub(crate) fn apply(state: &mut State, record: &Record) {
    match record {
        Record::Upsert(points) => {
            let Ids::Numbers(ids) = &points.ids else { panic!("tests here use numbers") };
            for (i, id) in ids.iter().enumerate() {
                let width = DIM as usize * 4;
                let payload = points.payloads.get(i).cloned().unwrap_or_default();
                state.insert(*id, (points.vectors.slice(i * width..(i + 1) * width), payload));
            }
        }
        Record::Delete(Ids::Numbers(ids)) => ids.iter().for_each(|id| _ = state.remove(id)),
        Record::Delete(Ids::Uuids(_)) => panic!("tests here use numbers"),
    }
}

/// Recovers the only collection in a folder, of which nothing is damaged: else the first damage is the error.
pub(crate) fn recover(dir: &Path) -> Result<(Store, State, Replayed), StoreError> {
    let (store, state, replayed) = recover_whole_parts(dir)?;
    match replayed.damage.listed().first() {
        Some(error) => Err(error.clone()),
        None => Ok((store, state, replayed)),
    }
}

/// Recovers what is whole of the only collection in a folder. If anything is damaged, the collection takes no writes and
/// its files stay as they are.
pub(crate) fn recover_whole_parts(dir: &Path) -> Result<(Store, State, Replayed), StoreError> {
    let (store, mut found) = Store::open(dir, Fsync::Always)?;
    assert_eq!(found.len(), 1, "there is one collection");
    let before = contents(&dir.join("collections"));
    let mut state = State::new();
    let apply = |record| {
        apply(&mut state, &record);
        Ok::<_, StoreError>(())
    };
    let replayed = found.remove(0).replay(ReplayHooks::default(), Ok, apply);
    if replayed.as_ref().map_or(true, |replayed| !replayed.damage.is_empty()) {
        assert_eq!(contents(&dir.join("collections")), before, "files of a damaged collection changed");
    }
    let replayed = replayed?;
    assert_eq!(replayed.journal.is_some(), replayed.damage.is_empty());
    Ok((store, state, replayed))
}

/// The bytes of all files below a folder.
pub(crate) fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let read = |path: PathBuf| (path.clone(), fs::read(path).expect("it is there"));
    files(folder).into_iter().map(read).collect()
}

/// All files below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("it is there").map(|entry| entry.expect("it can be read").path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Splits a state into chunks of at most `points` points.
pub(crate) fn chunks(state: &State, points: usize) -> Vec<Upsert> {
    let all: Vec<_> = state.iter().collect();
    all.chunks(points)
        .map(|part| Upsert {
            ids: Ids::Numbers(part.iter().map(|(id, _)| **id).collect()),
            dim: DIM,
            vectors: part.iter().flat_map(|(_, (vector, _))| vector.iter().copied()).collect::<Vec<_>>().into(),
            payloads: part.iter().map(|(_, (_, payload))| payload.clone()).collect(),
        })
        .collect()
}

/// Copies a folder as a crash at this moment would leave it.
pub(crate) fn image(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().expect("a temporary folder can be created");
    copy(from, to.path());
    to
}

pub(crate) fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("it is there") {
        let entry = entry.expect("it can be read");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            fs::create_dir_all(&target).expect("it can be created");
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("it can be copied");
        }
    }
}

/// The log files of the collection, oldest first.
pub(crate) fn logs(dir: &Path, name: &str) -> Vec<std::path::PathBuf> {
    let dir = dir.join("collections").join(name);
    let files = fs::read_dir(dir).expect("it is there").map(|entry| entry.expect("it can be read").path());
    let mut logs: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "log")).collect();
    logs.sort();
    logs
}
