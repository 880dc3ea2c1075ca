//! Snapshots in a `file://` object store, and the golden files of every format.

mod common;

use std::{fs, path::Path};

use accelerd_store::{Access, Fsync, Record, SnapshotReader, SnapshotWriter, Store, StoreError, Written};
use common::{State, apply, chunks, meta, recover, upsert};
use tempfile::TempDir;

fn url(dir: &Path) -> String {
    format!("file://{}", dir.display())
}

fn state(points: u64) -> State {
    let mut state = State::new();
    apply(&mut state, &Record::Upsert(upsert(&(0..points).collect::<Vec<_>>(), 0x21)));
    state
}

async fn write(url: &str, name: &str, state: &State) -> Result<Written, StoreError> {
    let mut writer = SnapshotWriter::create(url, &Access::default(), meta(name), 7, "t").await?;
    for chunk in chunks(state, 4) {
        writer.push(chunk).await?;
    }
    writer.finish().await
}

async fn read(url: &str) -> Result<(u64, State), StoreError> {
    let mut reader = SnapshotReader::open(url, &Access::default()).await?;
    let mut state = State::new();
    while let Some(points) = reader.next().await? {
        apply(&mut state, &Record::Upsert(points));
    }
    Ok((reader.manifest().version, state))
}

#[tokio::test]
async fn a_folder_url_opens_its_newest_snapshot_and_a_version_url_that_version() {
    let dir = TempDir::new().expect("a temporary folder can be created");
    let folder = url(&dir.path().join("deep/er"));
    let first = write(&folder, "c", &state(9)).await.expect("it can be written");
    let second = write(&folder, "c", &state(5)).await.expect("it can be written");
    assert_eq!((first.manifest.version, second.manifest.version), (1, 2));
    assert_eq!(first.url, format!("{folder}/v0000000001"));
    assert_eq!(read(&folder).await.expect("it is whole"), (2, state(5)));
    assert_eq!(read(&first.url).await.expect("it is whole"), (1, state(9)));
}

#[tokio::test]
async fn a_snapshot_without_its_manifest_is_ignored() {
    let dir = TempDir::new().expect("a temporary folder can be created");
    let folder = url(dir.path());
    assert!(matches!(read(&folder).await, Err(StoreError::NoSnapshot(_))));
    write(&folder, "c", &state(5)).await.expect("it can be written");
    let mut unfinished =
        SnapshotWriter::create(&folder, &Access::default(), meta("c"), 8, "u").await.expect("it can be written");
    unfinished.push(chunks(&state(3), 4).remove(0)).await.expect("it can be written");
    assert_eq!(read(&folder).await.expect("version 1 is whole"), (1, state(5)));
    let third = write(&folder, "c", &state(2)).await.expect("it can be written");
    assert_eq!(third.manifest.version, 3);
    unfinished.abort().await;
}

#[tokio::test]
async fn of_two_writers_of_one_version_the_first_to_commit_wins() {
    let dir = TempDir::new().expect("a temporary folder can be created");
    let folder = url(dir.path());
    let mut one =
        SnapshotWriter::create(&folder, &Access::default(), meta("c"), 1, "one").await.expect("it can be written");
    let mut two =
        SnapshotWriter::create(&folder, &Access::default(), meta("c"), 2, "two").await.expect("it can be written");
    one.push(chunks(&state(3), 4).remove(0)).await.expect("it can be written");
    two.push(chunks(&state(2), 4).remove(0)).await.expect("it can be written");
    one.finish().await.expect("it is the first");
    assert!(matches!(two.finish().await, Err(StoreError::Object { .. })));
    assert_eq!(read(&folder).await.expect("it is whole"), (1, state(3)));
}

#[tokio::test]
async fn any_damage_is_an_error_that_names_the_object() {
    let dir = TempDir::new().expect("a temporary folder can be created");
    let written = write(&url(dir.path()), "c", &state(9)).await.expect("it can be written");
    let folder = dir.path().join("v0000000001");
    for name in written.manifest.chunks.iter().map(|chunk| chunk.name.as_str()).chain(["manifest.json"]) {
        let path = folder.join(name);
        let good = fs::read(&path).expect("it is there");
        let mut bad = good.clone();
        // This byte is part of a digest in the manifest, and of a vector in a chunk.
        let at = if name == "manifest.json" { 20 } else { good.len() / 2 };
        bad[at] = if bad[at] == b'0' { b'1' } else { b'0' };
        fs::write(&path, &bad).expect("it can be written");
        let error = read(&written.url).await.expect_err("it is damaged");
        assert!(matches!(&error, StoreError::Damaged { file, .. } if file.ends_with(name)), "{error}");
        fs::write(&path, [good.as_slice(), b"x"].concat()).expect("it can be written");
        assert!(read(&written.url).await.is_err(), "{name} grew");
        fs::write(&path, good).expect("it can be written");
    }
    fs::remove_file(folder.join(&written.manifest.chunks[1].name)).expect("it is there");
    assert!(matches!(read(&written.url).await, Err(StoreError::Damaged { .. })));
}

#[tokio::test]
async fn invalid_urls_are_rejected_with_a_reason() {
    let dir = TempDir::new().expect("a temporary folder can be created");
    let error = read("ftp://host/x").await.expect_err("not supported").to_string();
    assert!(error.contains("\"ftp\"") && error.contains("file://"), "{error}");
    assert!(matches!(read("no url").await, Err(StoreError::Url { .. })));
    assert!(matches!(read("file://host/path").await, Err(StoreError::Url { .. })));
    write(&url(dir.path()), "c", &state(1)).await.expect("it can be written");
    let other = write(&url(dir.path()), "d", &state(1)).await.expect_err("it holds another's");
    assert!(matches!(other, StoreError::OtherCollection { .. }), "{other}");
}

/// The state in the golden folder: a checkpoint of two records, and two later records in the log.
fn golden_state() -> State {
    let mut state = State::new();
    apply(&mut state, &Record::Upsert(upsert(&[1, 2, 3], 0x41)));
    apply(&mut state, &Record::Delete(accelerd_store::Ids::Numbers(vec![2])));
    apply(&mut state, &Record::Upsert(upsert(&[3, 4], 0x43)));
    apply(&mut state, &Record::Delete(accelerd_store::Ids::Numbers(vec![1, 9])));
    state
}

#[tokio::test]
async fn files_of_format_1_stay_readable() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    if std::env::var_os("ACCELERD_REWRITE_GOLDEN").is_some() {
        rewrite_golden(&golden).await;
    }
    let copy = common::image(&golden);
    let (_store, state, replayed) = recover(&copy.path().join("data")).expect("golden files are whole");
    assert_eq!((state, replayed.sequence), (golden_state(), 4));
    assert_eq!(read(&url(&copy.path().join("snapshots"))).await.expect("golden files are whole"), (1, golden_state()));
}

async fn rewrite_golden(golden: &Path) {
    let _ = fs::remove_dir_all(golden);
    let data = golden.join("data");
    let (store, _) = Store::open(&data, Fsync::Always).expect("a fresh folder opens");
    let journal = store.create(&meta("golden")).expect("it can be created");
    let mut state = State::new();
    let delete = |ids: &[u64]| Record::Delete(accelerd_store::Ids::Numbers(ids.to_vec()));
    for record in [Record::Upsert(upsert(&[1, 2, 3], 0x41)), delete(&[2])] {
        journal.append(&record).await.expect("there is room");
        apply(&mut state, &record);
    }
    let last = journal.rotate().await.expect("there is room").last;
    let mut checkpoint = store.checkpoint(&meta("golden"), last).expect("there is room");
    for chunk in chunks(&state, 4) {
        checkpoint.push(&chunk).expect("there is room");
    }
    store.retire(&checkpoint.finish().expect("there is room")).expect("it can be removed");
    for record in [Record::Upsert(upsert(&[3, 4], 0x43)), delete(&[1, 9])] {
        journal.append(&record).await.expect("there is room");
    }
    write(&url(&golden.join("snapshots")), "golden", &golden_state()).await.expect("it can be written");
    fs::remove_file(data.join("LOCK")).expect("it is there");
}
