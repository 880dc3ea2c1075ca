//! Recovery of collections with damaged files, and of points whose vectors are not finite.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use accelerd_store::{Fsync, Record, Store, Upsert};
use prost::Message as _;

use super::*;

/// The bytes of all files below a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("it is there") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            files.insert(path.clone(), std::fs::read(&path).expect("it is there"));
        }
    }
    files
}

fn log(data: &TempDir, name: &str) -> PathBuf {
    data.path().join("collections").join(name).join("wal-00000000000000000001.log")
}

/// Changes a byte of the record that starts at an offset.
fn damage(path: &Path, offset: u64) {
    let mut bytes = std::fs::read(path).expect("it is there");
    bytes[usize::try_from(offset).expect("small") + 50] ^= 0x10;
    std::fs::write(path, bytes).expect("it can be written");
}

/// A closed collection of three records, of which the second is damaged.
async fn damaged(fixture: &Fixture, data: &TempDir, name: &str) {
    let collection = fixture.collections.create(durable(name)).await.expect("the name is free");
    upsert(&collection, &[1, 2], 1.0).await;
    let second = std::fs::metadata(log(data, name)).expect("it is there").len();
    upsert(&collection, &[2, 3], 2.0).await;
    upsert(&collection, &[4], 3.0).await;
    fixture.collections.close().await;
    damage(&log(data, name), second);
}

#[tokio::test]
async fn a_damaged_collection_serves_what_is_whole_and_takes_no_changes() {
    let data = TempDir::new().expect("it can be made");
    let snapshots = TempDir::new().expect("it can be made");
    let settings =
        || Settings { snapshot_url: format!("file://{}", snapshots.path().display()), wal_limit: 1, ..on_disk(&data) };
    let fixture = fixture(on_disk(&data));
    damaged(&fixture, &data, "bad").await;
    let before = files(&data.path().join("collections"));

    let reopened = open(&fixture.engine, settings());
    let collection = reopened.get("bad").expect("most of it is whole");
    assert_eq!(contents(&collection), BTreeMap::from([(1, 1.0), (2, 1.0), (4, 3.0)]));
    assert_eq!(ids(&collection, near([4.0, 3.0, 0.0, 0.0], 1)).await, [4]);
    let described = collection.describe();
    assert_eq!((described.points, described.damage.len()), (3, 1));
    assert!(described.damage[0].starts_with("bad/wal-00000000000000000001.log is corrupt at offset "), "{described:?}");
    assert_eq!((reopened.totals().read_only, reopened.totals().collections), (1, 1));

    let refused = collection.upsert(points(&[9], 9.0), Context::default()).await;
    assert!(matches!(&refused, Err(CollectionError::Refused(CollectionRefusal::ReadOnly { .. }))), "{refused:?}");
    let refused = collection.delete(even()).await;
    assert!(matches!(&refused, Err(CollectionError::Refused(CollectionRefusal::ReadOnly { .. }))), "{refused:?}");
    assert!(message(refused).contains("\"bad\" is read-only"));

    // A snapshot has the points that are whole.
    reopened.snapshot("bad", "").await.expect("it can be read");
    let url = format!("file://{}/bad", snapshots.path().display());
    let copy = reopened.restore(&url, "copy").await.expect("the snapshot is whole");
    assert_eq!(contents(&copy), contents(&collection));
    upsert(&copy, &[9], 9.0).await;
    assert!(reopened.create(durable("bad")).await.is_err(), "the name is taken");
    drop((collection, copy));
    reopened.delete("copy").await.expect("it can be deleted");
    reopened.close().await;
    assert_eq!(files(&data.path().join("collections")), before, "the files stay as they were");

    let again = open(&fixture.engine, settings());
    assert_eq!(again.get("bad").expect("it is there").describe().damage.len(), 1, "each start reports it");
    again.delete("bad").await.expect("it can be deleted");
    again.create(durable("bad")).await.expect("the name is free");
}

/// A store record of points whose first number is `first`.
fn record(ids: &[u64], first: &[f32]) -> Record {
    let number = |(id, first): (&u64, &f32)| [*first, *id as f32, 0.0, 0.0].map(f32::to_le_bytes).concat();
    let payloads = |id: &u64| payload(&[("id", Kind::IntValue(id.cast_signed()))]).encode_to_vec().into();
    Record::Upsert(Upsert {
        ids: Ids::Numbers(ids.to_vec()),
        dim: 4,
        vectors: ids.iter().zip(first).flat_map(number).collect::<Vec<_>>().into(),
        payloads: ids.iter().map(payloads).collect(),
    })
}

/// Writes a log as an earlier version did, which did not check vectors.
async fn write_unchecked(engine: &Engine, data: &TempDir, records: &[Record]) {
    let collections = open(engine, on_disk(data));
    let meta = collections.create(durable("c")).await.expect("the name is free").describe().meta;
    collections.delete("c").await.expect("it can be deleted");
    collections.close().await;
    drop(collections);
    let (store, _) = Store::open(data.path(), Fsync::Always).expect("it opens");
    let journal = store.create(&meta).expect("the name is free");
    for record in records {
        journal.append(record).await.expect("there is room");
    }
    drop(journal);
    store.release();
}

fn set_aside(collection: &Collection) -> (u64, Ids) {
    let described = collection.describe();
    assert!(described.damage.is_empty(), "{described:?}");
    (described.set_aside, described.set_aside_ids)
}

#[tokio::test]
async fn points_with_nan_are_set_aside_until_they_are_written_again() {
    let data = TempDir::new().expect("it can be made");
    let fixture = fixture(Settings::default());
    let nan = f32::NAN;
    let records = [
        record(&[1, 2, 3], &[1.0, nan, 3.0]),
        // It replaces a finite point.
        record(&[3, 4, 5, 6], &[f32::INFINITY, 4.0, nan, nan]),
        Record::Delete(Ids::Numbers(vec![6])),
        record(&[2], &[2.0]),
    ];
    write_unchecked(&fixture.engine, &data, &records).await;
    // Each start writes a checkpoint, from which the next one recovers.
    let settings = || Settings { wal_limit: 1, ..on_disk(&data) };
    for _ in 0..3 {
        let collections = open(&fixture.engine, settings());
        let collection = collections.get("c").expect("it serves what is finite");
        assert_eq!(set_aside(&collection), (2, Ids::Numbers(vec![3, 5])));
        assert_eq!(contents(&collection).into_keys().collect::<Vec<_>>(), [1, 2, 4]);
        assert_eq!(ids(&collection, near([0.0; 4], 9)).await.len(), 3);
        assert_eq!(collection.count(None).await.expect("it can be counted"), 3);
        assert_eq!(collections.totals().set_aside, 2);
        // The payloads and vectors of the points can be read, to write them again.
        let fetched = collection.fetch_set_aside(&Ids::Numbers(vec![5, 1, 3]), true);
        assert_eq!(fetched.ids, Ids::Numbers(vec![5, 3]));
        assert_eq!(fetched.payloads[0].fields["id"].kind, Some(Kind::IntValue(5)));
        let vectors = fetched.vectors.expect("they were asked for");
        assert!(vectors.as_f32()[0].is_nan() && vectors.as_f32()[4] == f32::INFINITY);
        drop(collection);
        collections.close().await;
    }
    assert!(data.path().join("collections/c/checkpoint-0000000001").exists());
    let collections = open(&fixture.engine, settings());
    let collection = collections.get("c").expect("it serves what is finite");
    assert_eq!(upsert(&collection, &[3], 7.0).await, Upserted { inserted: 1, updated: 0 });
    assert_eq!(set_aside(&collection), (1, Ids::Numbers(vec![5])));
    let uuid = NewPoints { ids: Ids::Uuids(vec![[1; 16]]), ..points(&[1], 1.0) };
    assert!(message(collection.upsert(uuid, Context::default()).await).starts_with("ids: "));
    assert_eq!(collection.delete(only(vec![5])).await.expect("it can"), 1);
    drop(collection);
    collections.close().await;
    let again = open(&fixture.engine, settings()).get("c").expect("it is there");
    assert_eq!(set_aside(&again), (0, Ids::Numbers(vec![])));
    assert_eq!(contents(&again).into_keys().collect::<Vec<_>>(), [1, 2, 3, 4]);
}

#[tokio::test]
async fn set_aside_points_survive_a_compaction_and_are_not_in_snapshots() {
    let data = TempDir::new().expect("it can be made");
    let snapshots = TempDir::new().expect("it can be made");
    let fixture = fixture(Settings::default());
    let all: Vec<_> = (0..40).collect();
    let records =
        [record(&all, &[1.0; 40]), record(&[7], &[f32::NAN]), Record::Delete(Ids::Numbers(all[20..].to_vec()))];
    write_unchecked(&fixture.engine, &data, &records).await;
    let url = format!("file://{}", snapshots.path().display());
    let settings = Settings { compact_rows: 8, snapshot_url: url, ..on_disk(&data) };
    let collections = open(&fixture.engine, settings);
    let collection = collections.get("c").expect("it serves what is finite");
    while collection.describe().tombstones > 0 {
        upsert(&collection, &[90], 1.0).await;
        collection.delete(only(vec![90])).await.expect("it can");
        tokio::task::yield_now().await;
        if collection.describe().tombstones < 4 {
            break;
        }
    }
    assert_eq!(set_aside(&collection), (1, Ids::Numbers(vec![7])));
    assert_eq!(contents(&collection).len(), 19);
    let written = collections.snapshot("c", "").await.expect("there is room");
    let copy = collections.restore(&written.url, "copy").await.expect("it is whole");
    assert_eq!((contents(&copy).len(), set_aside(&copy).0), (19, 0));
}
