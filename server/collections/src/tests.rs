//! Tests of collections on a real engine on the CPU: visibility of changes, recovery, snapshots.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use accelerd_engine::{Context, Engine, EngineConfig, LaneConfig, SubmitError};
use accelerd_kernels::{
    Choice, Device, DeviceId, LossScope, Matrix, OpError, Settings as Devices, cpu::Pool, discover, ledger,
    ops::cluster::ClusterRequest,
};
use accelerd_models::words;
use accelerd_proto::v1::{self, Payload, value::Kind};
use accelerd_store::{Ids, Metric, Storage};
use futures::future::{BoxFuture, FutureExt as _};
use proptest::prelude::*;
use tempfile::TempDir;

use super::{payload::tests::payload, *};

mod damage;
mod formats;

const DIM: usize = 4;

/// An engine, and collections on it.
struct Fixture {
    engine: Engine,
    collections: Arc<Collections>,
}

fn lane() -> LaneConfig {
    let second = Duration::from_secs(1);
    LaneConfig {
        max_batch_items: 1024,
        max_batch_bytes: 64 << 20,
        gpu_max_batch_bytes: 64 << 20,
        max_wait: Duration::ZERO,
        concurrency: 1,
        max_age: second,
        cpu_max_bytes: 0,
        large_request_bytes: 0,
        max_batch_time: second,
    }
}

fn fixture(settings: Settings) -> Fixture {
    let devices = Devices { choice: Choice::Cpu, cpu_threads: 1, ..Devices::default() };
    let found = discover(&devices).expect("there is a CPU");
    let engine = engine(found.devices);
    let collections = open(&engine, settings);
    Fixture { engine, collections }
}

fn engine(devices: Vec<Device>) -> Engine {
    let config = EngineConfig {
        cuda_workers: 1,
        cpu_workers: 1,
        cpu_paused_batches: 0,
        max_items: 1 << 20,
        max_bytes: 1 << 30,
        cpu_slice: Duration::from_millis(10),
        cuda_slice: Duration::from_millis(5),
        hang_timeout: Duration::ZERO,
        memory_retry: Duration::ZERO,
    };
    Engine::start(devices, config).expect("the engine starts")
}

fn open(engine: &Engine, settings: Settings) -> Arc<Collections> {
    Collections::open(settings, services(engine, vec![DeviceId::Cpu])).expect("the folder opens")
}

fn services(engine: &Engine, devices: Vec<DeviceId>) -> Services {
    services_with(engine, devices, bag_of_words("digest one"))
}

fn services_with(engine: &Engine, devices: Vec<DeviceId>, embedder: TestEmbedder) -> Services {
    Services { devices, search: engine.lane(lane()), embedder: Arc::new(embedder), record_timing: |_, _| {} }
}

/// An embedder of the same vectors under every model name.
struct TestEmbedder {
    digest: &'static str,
    dimensions: u32,
    /// The vector of a text, of this many dimensions.
    vector: fn(&str, usize) -> Vec<f32>,
}

impl TextEmbedder for TestEmbedder {
    fn dimensions(&self, _: &str, asked: u32) -> Result<u32, BoxError> {
        let offered = self.dimensions;
        match asked {
            0 => Ok(offered),
            asked if asked == offered => Ok(asked),
            _ => Err(CollectionError::invalid("dimensions", format!("expected {offered}, got {asked}")).into()),
        }
    }

    fn digest(&self, _: &str) -> Result<String, BoxError> {
        Ok(self.digest.to_owned())
    }

    fn embed<'a>(
        &'a self,
        _: &'a str,
        texts: Vec<String>,
        dimensions: u32,
        _: bool,
        _: Context,
    ) -> BoxFuture<'a, Result<(Matrix, String), BoxError>> {
        let dim = dimensions as usize;
        let numbers = texts.iter().flat_map(|text| (self.vector)(text, dim)).collect();
        async move { Ok((Matrix::from_vec(texts.len(), dim, numbers)?, self.digest.to_owned())) }.boxed()
    }
}

/// An embedder that counts words by their hash.
fn bag_of_words(digest: &'static str) -> TestEmbedder {
    let vector = |text: &str, dim: usize| {
        let mut row = vec![0.0; dim];
        for word in words(text) {
            // FNV-1a, modulo a prime.
            let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            let hash = word.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
            row[usize::try_from(hash % 61).expect("below 61")] += 1.0;
        }
        let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt().max(1.0);
        row.into_iter().map(|number| number / norm).collect()
    };
    TestEmbedder { digest, dimensions: 64, vector }
}

fn spec(name: &str) -> NewCollection {
    NewCollection {
        name: name.into(),
        dimensions: 4,
        metric: Metric::SquaredL2,
        storage: Storage::F32,
        model: String::new(),
        owner: String::new(),
        durable: Some(false),
        text_field: String::new(),
    }
}

fn durable(name: &str) -> NewCollection {
    NewCollection { durable: Some(true), ..spec(name) }
}

fn on_disk(dir: &TempDir) -> Settings {
    Settings { data_dir: Some(dir.path().into()), ..Settings::default() }
}

/// Points whose vectors hold their id and the stamp of the write.
fn points(ids: &[u64], stamp: f32) -> NewPoints {
    let numbers = ids.iter().flat_map(|id| [*id as f32, stamp, 0.0, 0.0]).collect();
    let rows = Matrix::from_vec(ids.len(), DIM, numbers).expect("four numbers an id");
    let of = |id: &u64| {
        payload(&[("even", Kind::BoolValue(id.is_multiple_of(2))), ("id", Kind::IntValue(id.cast_signed()))])
    };
    NewPoints {
        ids: Ids::Numbers(ids.to_vec()),
        vectors: Vectors::Rows(rows),
        payloads: NewPayloads::Messages(ids.iter().map(of).collect()),
    }
}

fn near(vector: [f32; DIM], limit: usize) -> SearchSpec {
    let rows = Matrix::from_vec(1, DIM, vector.to_vec()).expect("one row");
    SearchSpec {
        query: Query::Vectors(Vectors::Rows(rows)),
        offset: 0,
        limit,
        threshold: None,
        filter: None,
        with_payload: false,
        hybrid: None,
    }
}

fn even() -> Filter {
    let must = even_condition();
    Filter::parse("filter", &v1::Filter { must, ..v1::Filter::default() }).expect("it is well-formed")
}

fn even_condition() -> Vec<v1::Condition> {
    let value = v1::Value { kind: Some(Kind::BoolValue(true)) };
    let test = Some(v1::condition::Test::Equals(value));
    vec![v1::Condition { field: "even".into(), test }]
}

fn ids_of(found: &[Found]) -> Vec<u64> {
    let number = |found: &Found| match found.id {
        PointId::Number(number) => number,
        PointId::Uuid(_) => panic!("tests here use numbers"),
    };
    found.iter().map(number).collect()
}

async fn ids(collection: &Collection, spec: SearchSpec) -> Vec<u64> {
    let found = collection.search(spec, Context::default()).await.expect("it can be searched");
    ids_of(&found[0])
}

async fn upsert(collection: &Collection, ids: &[u64], stamp: f32) -> Upserted {
    collection.upsert(points(ids, stamp), Context::default()).await.expect("there is room")
}

/// The stamp of each point by id.
fn contents(collection: &Collection) -> BTreeMap<u64, f32> {
    let fetched = collection.fetch(&Ids::Numbers((0..100).collect()), true);
    let Ids::Numbers(ids) = fetched.ids else { panic!("tests here use numbers") };
    let vectors = fetched.vectors.expect("they were asked for");
    let stamps = vectors.as_f32().chunks(DIM).map(|row| row[1]).collect::<Vec<_>>();
    for (id, payload) in ids.iter().zip(&fetched.payloads) {
        assert_eq!(payload.fields["id"].kind, Some(Kind::IntValue(id.cast_signed())));
    }
    ids.into_iter().zip(stamps).collect()
}

fn message<T>(result: Result<T, CollectionError>) -> String {
    result.map(|_| ()).expect_err("it must be refused").to_string()
}

#[tokio::test]
async fn points_are_found_replaced_and_deleted() {
    let fixture = fixture(Settings::default());
    let collection = fixture.collections.create(spec("c")).await.expect("the name is free");
    assert_eq!(ids(&collection, near([0.0; 4], 5)).await, [0u64; 0]);
    assert_eq!(upsert(&collection, &[1, 2, 3, 4], 0.0).await, Upserted { inserted: 4, updated: 0 });
    assert_eq!(ids(&collection, near([3.1, 0.0, 0.0, 0.0], 2)).await, [3, 4]);
    assert_eq!(upsert(&collection, &[3, 5], 9.0).await, Upserted { inserted: 1, updated: 1 });
    assert_eq!(ids(&collection, near([3.1, 0.0, 0.0, 0.0], 2)).await, [4, 2]);
    assert_eq!(ids(&collection, SearchSpec { offset: 1, ..near([3.1, 0.0, 0.0, 0.0], 2) }).await, [2, 1]);
    let filtered = SearchSpec { filter: Some(even()), with_payload: true, ..near([3.1, 0.0, 0.0, 0.0], 9) };
    assert_eq!(ids(&collection, filtered).await, [4, 2]);
    assert_eq!(collection.delete(even()).await.expect("it can"), 2);
    assert_eq!(contents(&collection), BTreeMap::from([(1, 0.0), (3, 9.0), (5, 9.0)]));
    let described = collection.describe();
    assert_eq!((described.points, described.tombstones), (3, 3));
}

#[tokio::test]
async fn a_stored_point_finds_itself_and_an_unknown_one_is_named() {
    let fixture = fixture(Settings::default());
    let collection = fixture.collections.create(spec("c")).await.expect("the name is free");
    upsert(&collection, &[1, 2, 3], 0.0).await;
    let by_ids = |ids: &[u64]| SearchSpec { query: Query::Ids(Ids::Numbers(ids.to_vec())), ..near([0.0; 4], 1) };
    let found = collection.search(by_ids(&[3, 1]), Context::default()).await.expect("both are there");
    assert_eq!(found.iter().map(|found| ids_of(found)).collect::<Vec<_>>(), [[3], [1]]);
    let missing = collection.search(by_ids(&[3, 77]), Context::default()).await.expect_err("77 is not there");
    assert!(matches!(&missing, CollectionError::NotFound { kind: "point", name } if name == "77"), "{missing}");
}

#[tokio::test]
async fn errors_of_invalid_input_name_the_field() {
    let fixture = fixture(Settings::default());
    let collection = fixture.collections.create(spec("c")).await.expect("the name is free");
    upsert(&collection, &[1], 0.0).await;
    let twice = collection.upsert(points(&[2, 3, 2], 0.0), Context::default()).await;
    assert!(message(twice).starts_with("ids.numbers[2]: "));
    let uuids = NewPoints { ids: Ids::Uuids(vec![[7; 16]]), ..points(&[2], 0.0) };
    assert_eq!(
        message(collection.upsert(uuids, Context::default()).await),
        "ids: the collection's ids are numbers, got UUIDs"
    );
    let few = NewPoints { payloads: NewPayloads::Messages(vec![Payload::default()]), ..points(&[2, 3], 0.0) };
    assert!(message(collection.upsert(few, Context::default()).await).starts_with("payloads: "));
    let nan = NewPoints {
        payloads: NewPayloads::Messages(vec![payload(&[("x", Kind::DoubleValue(f64::NAN))])]),
        ..points(&[2], 0.0)
    };
    assert!(message(collection.upsert(nan, Context::default()).await).starts_with("payloads[0].fields[\"x\"]: "));
    let texts = NewPoints { vectors: Vectors::Texts(vec!["a".into()]), ..points(&[2], 0.0) };
    assert!(message(collection.upsert(texts, Context::default()).await).starts_with("texts: "));
    assert!(message(collection.delete(Filter::default()).await).starts_with("filter: "));
    let search = |spec| collection.search(spec, Context::default());
    assert!(message(search(near([0.0; 4], 0)).await).starts_with("limit: "));
    assert!(message(search(near([0.0; 4], 16_385)).await).starts_with("limit: "));
    let other_dim = Matrix::from_vec(1, 3, vec![0.0; 3]).expect("one row");
    let other_dim = SearchSpec { query: Query::Vectors(Vectors::Rows(other_dim)), ..near([0.0; 4], 1) };
    assert_eq!(message(search(other_dim).await), "vectors: expected vectors of dim 4, got 3");
    for (bad, field) in [
        (NewCollection { name: "../c".into(), ..spec("") }, "name"),
        (NewCollection { dimensions: 0, ..spec("d") }, "dimensions"),
        (NewCollection { dimensions: 8193, ..spec("d") }, "dimensions"),
        (NewCollection { dimensions: 63, model: "builtin".into(), ..spec("d") }, "dimensions"),
        (durable("d"), "durable"),
    ] {
        let refused = message(fixture.collections.create(bad).await);
        assert!(refused.starts_with(&format!("{field}: ")), "{refused}");
    }
    let taken = fixture.collections.create(spec("c")).await.expect_err("the name is taken");
    assert!(matches!(taken, CollectionError::AlreadyExists { kind: "collection", .. }));
}

#[tokio::test]
async fn texts_are_embedded_by_the_collections_model() {
    let fixture = fixture(Settings::default());
    let spec = NewCollection { dimensions: 0, model: "builtin".into(), metric: Metric::Cosine, ..spec("c") };
    let collection = fixture.collections.create(spec).await.expect("the name is free");
    let texts = ["parse a date from a string", "open a tcp socket", "sort a list of numbers"];
    let points = NewPoints {
        ids: Ids::Numbers(vec![10, 20, 30]),
        vectors: Vectors::Texts(texts.map(str::to_owned).to_vec()),
        payloads: NewPayloads::Messages(vec![]),
    };
    collection.upsert(points, Context::default()).await.expect("they can be embedded");
    let query = Query::Vectors(Vectors::Texts(vec!["open a tcp socket".into()]));
    assert_eq!(ids(&collection, SearchSpec { query, ..near([0.0; 4], 1) }).await, [20]);
}

/// A collection with a text index.
fn of_texts(name: &str, durable: bool) -> NewCollection {
    NewCollection {
        dimensions: 0,
        model: "builtin".into(),
        text_field: "body".into(),
        durable: Some(durable),
        ..spec(name)
    }
}

fn texts(ids: &[u64], texts: &[&str]) -> NewPoints {
    let body = |text: &&str| payload(&[("body", Kind::StringValue((*text).to_owned()))]);
    let vectors = Vectors::Texts(texts.iter().map(|text| (*text).to_owned()).collect());
    NewPoints {
        ids: Ids::Numbers(ids.to_vec()),
        vectors,
        payloads: NewPayloads::Messages(texts.iter().map(body).collect()),
    }
}

/// A text-only search.
fn by_words(text: &str, limit: usize) -> SearchSpec {
    let query = Query::Vectors(Vectors::Texts(vec![text.to_owned()]));
    let hybrid = Hybrid { fusion: Fusion::RelativeScore, text_weight: 1.0 };
    SearchSpec { query, hybrid: Some(hybrid), ..near([0.0; 4], limit) }
}

#[tokio::test]
async fn acknowledged_points_are_found_by_their_text_at_once_and_after_a_restart() {
    let dir = TempDir::new().expect("a folder");
    let fixture = fixture(on_disk(&dir));
    let collection = fixture.collections.create(of_texts("c", true)).await.expect("the name is free");
    for id in 0..20 {
        let point = texts(&[id], &[&format!("number word{id}")]);
        collection.upsert(point, Context::default()).await.expect("it can be embedded");
        assert_eq!(ids(&collection, by_words(&id.to_string(), 1)).await, [id]);
    }
    drop(collection);
    fixture.collections.close().await;
    let again = open(&fixture.engine, on_disk(&dir)).get("c").expect("it is on disk");
    for id in 0..20 {
        assert_eq!(ids(&again, by_words(&id.to_string(), 1)).await, [id]);
    }
}

#[tokio::test]
async fn a_corrupt_text_index_fails_text_only_searches() {
    let fixture = fixture(Settings::default());
    let collection = fixture.collections.create(of_texts("c", false)).await.expect("the name is free");
    collection.upsert(texts(&[1, 2], &["open a file", "sort"]), Context::default()).await.expect("it can be embedded");
    collection.shared().generation().text_index().expect("it has a text field").corrupt();
    let failed = collection.search(by_words("open", 1), Context::default()).await;
    assert!(matches!(&failed, Err(CollectionError::TextIndex(_))), "{failed:?}");
    assert!(message(failed).contains("without `hybrid` the collection can be searched"));
    collection.upsert(texts(&[3], &["close a file"]), Context::default()).await.expect("it still takes points");
    let nearest = SearchSpec { hybrid: None, ..by_words("close a file", 1) };
    assert_eq!(ids(&collection, nearest).await, [3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_during_replacements_finds_each_point_exactly_once() {
    let settings = Settings { compact_rows: 64, ..Settings::default() };
    let fixture = fixture(settings);
    let collection = fixture.collections.create(spec("c")).await.expect("the name is free");
    let all: Vec<u64> = (0..40).collect();
    upsert(&collection, &all, 0.0).await;
    let writer = {
        let (collection, all) = (Arc::clone(&collection), all.clone());
        tokio::spawn(async move {
            for stamp in 1..400_u16 {
                let part: Vec<_> = all.iter().copied().filter(|id| (id + u64::from(stamp)).is_multiple_of(3)).collect();
                upsert(&collection, &part, f32::from(stamp)).await;
            }
        })
    };
    let mut searches = 0;
    while !writer.is_finished() {
        let mut found = ids(&collection, near([0.0; 4], 40)).await;
        found.sort_unstable();
        assert_eq!(found, all, "search {searches}");
        let mut found = ids(&collection, SearchSpec { filter: Some(even()), ..near([0.0; 4], 40) }).await;
        found.sort_unstable();
        assert_eq!(found, all.iter().copied().filter(|id| id % 2 == 0).collect::<Vec<_>>(), "search {searches}");
        searches += 1;
    }
    writer.await.expect("it does not panic");
    assert!(searches > 0);
    assert!(collection.describe().tombstones < 400 * 13, "nothing was compacted");
}

#[tokio::test]
async fn memory_is_limited_and_released() {
    let fixture = fixture(Settings { memory_limit: 64 << 20, ..Settings::default() });
    let wide = NewCollection { dimensions: 8192, ..spec("c") };
    let collection = fixture.collections.create(wide).await.expect("the name is free");
    let points = |rows: usize| NewPoints {
        ids: Ids::Numbers((0..rows as u64).collect()),
        vectors: Vectors::Rows(Matrix::from_vec(rows, 8192, vec![1.0; rows * 8192]).expect("whole rows")),
        payloads: NewPayloads::Messages(vec![]),
    };
    let refused = collection.upsert(points(2049), Context::default()).await.expect_err("64 MiB are not enough");
    assert!(matches!(&refused, CollectionError::MemoryLimit(full) if full.limit == 64 << 20), "{refused}");
    collection.upsert(points(1024), Context::default()).await.expect("32 MiB are enough");
    assert!(collection.upsert(points(1024), Context::default()).await.is_err());
    drop(collection);
    fixture.collections.delete("c").await.expect("it is there");
    let again = NewCollection { dimensions: 8192, ..spec("d") };
    let collection = fixture.collections.create(again).await.expect("the name is free");
    collection.upsert(points(1024), Context::default()).await.expect("the memory was given back");
}

/// The first points.
fn first_page(limit: usize) -> PageSpec {
    PageSpec { filter: None, after: None, limit, with_payload: false, with_vectors: false }
}

#[tokio::test]
async fn indexes_are_evicted_largest_first_and_built_again() {
    let ledger = Ledger::new();
    let fixture = fixture(Settings { ledger: Arc::clone(&ledger), ..Settings::default() });
    for (name, count) in [("small", 3000), ("large", 9000)] {
        let collection = fixture.collections.create(spec(name)).await.expect("the name is free");
        upsert(&collection, &(0..count).collect::<Vec<_>>(), 1.0).await;
        collection.scroll(first_page(10)).await.expect("a page");
    }
    let held = || {
        let kinds = ledger.snapshot().remove(0).kinds;
        kinds.iter().find(|kind| kind.kind == ledger::Kind::Indexes).map_or(0, |kind| kind.held)
    };
    let all = held();
    assert!(all >= 12_000 * 4, "{all}");
    let evicted = fixture.collections.evict_indexes(1);
    assert!(evicted >= 9000 * 4 && held() == all - evicted, "the order of the large collection");
    assert_eq!(fixture.collections.evict_indexes(u64::MAX) + evicted, all);
    assert_eq!(held(), 0);
    let large = fixture.collections.get("large").expect("it is there");
    let page = large.scroll(first_page(3)).await.expect("a page");
    assert_eq!((page.ids, held() > 0), (Ids::Numbers(vec![0, 1, 2]), true));
}

#[tokio::test]
async fn device_copies_are_evicted_least_recently_used_first() {
    let fixture = fixture(Settings::default());
    let mut corpora = vec![];
    for name in ["a", "b"] {
        let collection = fixture.collections.create(spec(name)).await.expect("the name is free");
        let corpus = Arc::clone(&collection.shared().generation().corpus);
        corpus.set_device(DeviceId::Cuda(3));
        *corpus.device_slot() = Some(Arc::new(name));
        corpus.set_device_bytes(100);
        corpora.push(corpus);
    }
    assert_eq!(fixture.collections.device_bytes(DeviceId::Cuda(3)), 200);
    assert_eq!(fixture.collections.evict_device_copies(DeviceId::Cpu, u64::MAX), 0, "of that device only");
    let in_use = corpora[0].device_slot().clone();
    assert_eq!(fixture.collections.evict_device_copies(DeviceId::Cuda(3), u64::MAX), 100);
    assert_eq!([0, 1].map(|at: usize| corpora[at].device_bytes()), [100, 0], "a search is using the first");
    drop(in_use);
    assert_eq!(fixture.collections.evict_device_copies(DeviceId::Cuda(3), 1), 100);
}

#[tokio::test]
async fn snapshots_are_restored_under_another_name_and_on_another_daemon() {
    let (dir, data) = (TempDir::new().expect("it can be made"), TempDir::new().expect("it can be made"));
    let url = format!("file://{}", dir.path().display());
    let offers = |settings| Settings { snapshot_folders: vec![url.clone(), "ftp://host".to_owned()], ..settings };
    let fixture = fixture(offers(on_disk(&data)));
    let collection = fixture.collections.create(durable("c")).await.expect("the name is free");
    upsert(&collection, &[1, 2, 3], 1.0).await;
    upsert(&collection, &[2], 2.0).await;
    let snapshot = fixture.collections.snapshot("c", &url).await.expect("it can be written");
    assert_eq!((snapshot.version, snapshot.points), (1, 3));
    upsert(&collection, &[9], 3.0).await;
    let expected = BTreeMap::from([(1, 1.0), (2, 2.0), (3, 1.0)]);

    let copy = fixture.collections.restore(&url, "copy").await.expect("it is whole");
    assert_eq!(contents(&copy), expected);
    assert!(copy.meta().durable);
    upsert(&copy, &[4], 4.0).await;
    let taken = fixture.collections.restore(&snapshot.url, "").await.expect_err("c is there");
    assert!(matches!(taken, CollectionError::AlreadyExists { .. }), "{taken}");

    let other = open(&fixture.engine, offers(Settings::default()));
    let copy = other.restore(&snapshot.url, "").await.expect("it is whole");
    assert_eq!((contents(&copy), copy.meta().name.as_str()), (expected.clone(), "c"));
    assert!(!copy.meta().durable, "there is no folder");

    fixture.collections.close().await;
    let reopened = open(&fixture.engine, offers(on_disk(&data)));
    let copy = reopened.get("copy").expect("it is durable");
    assert_eq!(contents(&copy), expected.into_iter().chain([(4, 4.0)]).collect());
    assert_eq!(contents(&reopened.get("c").expect("it is durable")).len(), 4);
    let nothing = message(reopened.restore(&format!("{url}/nowhere"), "x").await);
    assert!(nothing.contains("/nowhere"), "{nothing}");
    assert!(message(reopened.snapshot("c", "ftp://host/x").await).starts_with("url: "));
    assert!(message(reopened.snapshot("c", "").await).starts_with("url: "));
}

#[tokio::test]
async fn snapshots_are_limited_to_folders_of_the_settings() {
    let (dir, data) = (TempDir::new().expect("it can be made"), TempDir::new().expect("it can be made"));
    let url = |name: &str| format!("file://{}/{name}", dir.path().display());
    let fixture = fixture(Settings { snapshot_url: url("offered"), ..on_disk(&data) });
    let collection = fixture.collections.create(durable("c")).await.expect("the name is free");
    upsert(&collection, &[1], 1.0).await;
    let denied = fixture.collections.snapshot("c", &url("other")).await.expect_err("it is not offered");
    assert!(matches!(denied, CollectionError::Denied(_)), "{denied}");
    let written = fixture.collections.snapshot("c", "").await.expect("the configured folder is");
    std::fs::rename(dir.path().join("offered"), dir.path().join("elsewhere")).expect("it can be moved");
    let moved = written.url.replace("offered", "elsewhere");
    let denied = fixture.collections.restore(&moved, "x").await.expect_err("it is not offered");
    assert!(matches!(denied, CollectionError::Denied(_)), "{denied}");
}

#[tokio::test]
async fn a_collection_without_a_description_reports_it_and_the_others_serve() {
    let data = TempDir::new().expect("it can be made");
    let fixture = fixture(on_disk(&data));
    for name in ["good", "bad"] {
        let collection = fixture.collections.create(durable(name)).await.expect("the name is free");
        upsert(&collection, &[1, 2, 3], 1.0).await;
    }
    fixture.collections.close().await;
    std::fs::write(data.path().join("collections/bad/meta.json"), "{").expect("it can be written");
    let reopened = open(&fixture.engine, on_disk(&data));
    let damaged = reopened.get("bad").expect_err("it is damaged");
    assert!(matches!(&damaged, CollectionError::DataLoss(why) if why.contains("bad/meta.json")), "{damaged}");
    assert_eq!(reopened.list().len(), 1);
    assert!(reopened.create(durable("bad")).await.is_err());
    assert_eq!(contents(&reopened.get("good").expect("it is whole")).len(), 3);
    reopened.delete("bad").await.expect("it can be dropped");
    reopened.create(durable("bad")).await.expect("the name is free");
}

#[tokio::test]
async fn a_collection_is_clustered_with_its_ids() {
    let fixture = fixture(Settings::default());
    let collection = fixture.collections.create(spec("c")).await.expect("the name is free");
    upsert(&collection, &[1, 50, 2, 51, 3, 52], 0.0).await;
    collection
        .delete(
            Filter::parse(
                "filter",
                &v1::Filter {
                    ids: Some(v1::PointIds { numbers: vec![2], ..Default::default() }),
                    ..v1::Filter::default()
                },
            )
            .expect("it is well-formed"),
        )
        .await
        .expect("it can");
    let request = |rows| ClusterRequest {
        rows,
        clusters: 2,
        max_iterations: 10,
        tolerance: 0.0,
        init_count: 1,
        spherical: false,
        seed: 7,
    };
    let lane = fixture.engine.lane(lane());
    let (clusters, ids) = collection.cluster(&lane, request, Context::default()).await.expect("there are rows");
    assert_eq!(ids, Ids::Numbers(vec![1, 50, 51, 3, 52]));
    let of = &clusters.assignments;
    assert!(of[0] == of[3] && of[1] == of[2] && of[2] == of[4] && of[0] != of[1], "{of:?}");
    let too_many = |rows| ClusterRequest { clusters: 6, ..request(rows) };
    assert!(message(collection.cluster(&lane, too_many, Context::default()).await).starts_with("cluster_count: "));
}

#[tokio::test]
async fn collections_of_a_lost_gpu_move_to_the_cpu_and_new_ones_avoid_it() {
    let fixture = fixture(Settings::default());
    let gpus = vec![DeviceId::Cuda(0), DeviceId::Cuda(1), DeviceId::Cpu];
    let collections = Collections::open(Settings::default(), services(&fixture.engine, gpus));
    let collections = collections.expect("there is no folder to open");
    let on = async |name: &str| collections.create(spec(name)).await.expect("the name is free").describe().device;
    assert_eq!(on("a").await, DeviceId::Cuda(0));
    let corpus = Arc::clone(&collections.get("a").expect("it is there").shared().generation().corpus);
    let (device, reason) = (DeviceId::Cuda(0), "illegal address".to_owned());
    let lost = SubmitError::Op(OpError::DeviceLost { device, scope: LossScope::Device, reason });
    assert!(collections.env.fall_back_if_lost(&corpus, device, &lost));
    assert_eq!(corpus.device(), DeviceId::Cpu);
    assert!(!collections.env.fall_back_if_lost(&corpus, DeviceId::Cpu, &lost), "there is nowhere else to go");
    assert!(!collections.env.fall_back_if_lost(&corpus, device, &SubmitError::Draining));
    let collection = collections.get("a").expect("it is there");
    upsert(&collection, &[1], 0.0).await;
    assert_eq!(ids(&collection, near([0.0; 4], 1)).await, [1]);
    assert_eq!(on("b").await, DeviceId::Cuda(1));
    let (device, reason) = (DeviceId::Cuda(1), "trap".to_owned());
    let sticky = SubmitError::Op(OpError::DeviceLost { device, scope: LossScope::Cuda, reason });
    let corpus = Arc::clone(&collections.get("b").expect("it is there").shared().generation().corpus);
    assert!(collections.env.fall_back_if_lost(&corpus, device, &sticky));
    assert_eq!(on("c").await, DeviceId::Cpu, "all GPUs are lost");
}

#[tokio::test]
async fn collections_of_a_gpu_without_memory_are_searched_and_clustered_by_the_cpu_until_there_is_some() {
    let gpu = Pool::stand_in(DeviceId::Cuda(0), 1).expect("a thread");
    let devices = vec![Device::Cpu(Arc::clone(&gpu)), Device::Cpu(Pool::start(1).expect("a thread"))];
    let engine = engine(devices.clone());
    let services = services(&engine, devices.iter().map(Device::id).collect());
    let ledger = ledger::Ledger::new();
    let settings = Settings { ledger: Arc::clone(&ledger), ..Settings::default() };
    let collections = Collections::open(settings, services).expect("there is no folder to open");
    let collection = collections.create(spec("c")).await.expect("the name is free");
    upsert(&collection, &[1, 50, 2, 51], 0.0).await;
    assert_eq!(collection.describe().device, DeviceId::Cuda(0));
    let lane = engine.lane(lane());
    let clusters = async || {
        let request = |rows| ClusterRequest {
            rows,
            clusters: 2,
            max_iterations: 10,
            tolerance: 0.0,
            init_count: 1,
            spherical: false,
            seed: 7,
        };
        collection.cluster(&lane, request, Context::default()).await.map(|(clusters, _)| clusters.assignments)
    };
    let expected = (ids(&collection, near([1.0; 4], 3)).await, clusters().await.expect("there are rows"));
    let counts = || engine.cpu_fallbacks().iter().map(|one| (one.lane, one.requests)).collect::<Vec<_>>();
    assert_eq!(counts(), []);

    gpu.set_full(true);
    let found = (ids(&collection, near([1.0; 4], 3)).await, clusters().await.expect("the CPU computes"));
    assert_eq!(found, expected);
    assert_eq!(counts(), [("cluster", 1), ("search", 1)]);
    upsert(&collection, &[3], 0.0).await;
    assert_eq!(ids(&collection, near([3.0, 0.0, 0.0, 0.0], 1)).await, [3], "changes are seen at once");
    assert_eq!(collection.describe().device, DeviceId::Cuda(0), "it stays where it is");

    // The CPU clusters a copy of the rows, for which the host must have memory.
    ledger.limit(ledger::Place::Host, ledger::Limit { bytes: 1, setting: "memory.host_limit" });
    assert!(message(clusters().await).contains("memory.host_limit"));

    gpu.set_full(false);
    let before = counts();
    assert_eq!(ids(&collection, near([1.0; 4], 3)).await.len(), 3);
    assert_eq!(clusters().await.expect("the GPU computes").len(), 5);
    assert_eq!(counts(), before);
}

#[derive(Clone, Debug)]
enum Op {
    Upsert(Vec<u64>),
    Delete(Vec<u64>),
    DeleteEven,
    Reopen,
}

fn any_op() -> impl Strategy<Value = Op> {
    let ids = || proptest::collection::btree_set(0..30u64, 1..8).prop_map(|ids| ids.into_iter().collect::<Vec<_>>());
    prop_oneof![
        6 => ids().prop_map(Op::Upsert),
        2 => ids().prop_map(Op::Delete),
        1 => Just(Op::DeleteEven),
        1 => Just(Op::Reopen),
    ]
}

fn only(ids: Vec<u64>) -> Filter {
    let ids = Some(v1::PointIds { numbers: ids, ..Default::default() });
    Filter::parse("filter", &v1::Filter { ids, ..v1::Filter::default() }).expect("it is well-formed")
}

/// Runs operations on a collection and a map, and compares them at each reopening and at the end.
async fn follow(ops: Vec<Op>) {
    let data = TempDir::new().expect("it can be made");
    let settings = || Settings { wal_limit: 1500, compact_rows: 16, ..on_disk(&data) };
    let fixture = fixture(settings());
    let mut collections = Arc::clone(&fixture.collections);
    let mut collection = collections.create(durable("c")).await.expect("the name is free");
    let mut expected = BTreeMap::new();
    for (stamp, op) in (1u16..).zip(ops.into_iter().chain([Op::Reopen])) {
        match op {
            Op::Upsert(ids) => {
                upsert(&collection, &ids, f32::from(stamp)).await;
                expected.extend(ids.into_iter().map(|id| (id, f32::from(stamp))));
            }
            Op::Delete(ids) => {
                collection.delete(only(ids.clone())).await.expect("it can");
                expected.retain(|id, _| !ids.contains(id));
            }
            Op::DeleteEven => {
                collection.delete(even()).await.expect("it can");
                expected.retain(|id, _| id % 2 == 1);
            }
            Op::Reopen => {
                collections.close().await;
                collections = open(&fixture.engine, settings());
                collection = collections.get("c").expect("it is durable");
            }
        }
        assert_eq!(contents(&collection), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_durable_collection_is_the_same_after_each_restart(ops in proptest::collection::vec(any_op(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        runtime.expect("a runtime can be made").block_on(follow(ops));
    }
}

/// Opens a folder with another model under the name of every model.
fn open_with_another_model(engine: &Engine, settings: Settings) -> Arc<Collections> {
    let services = services_with(engine, vec![DeviceId::Cpu], bag_of_words("digest two"));
    Collections::open(settings, services).expect("the folder opens")
}

#[tokio::test]
async fn vectors_of_two_models_with_one_name_are_not_mixed() {
    let dir = TempDir::new().expect("a folder");
    let fixture = fixture(on_disk(&dir));
    let collection = fixture.collections.create(of_texts("c", true)).await.expect("the name is free");
    assert_eq!(collection.describe().meta.model_digest, "digest one");
    collection.upsert(texts(&[1], &["open a file"]), Context::default()).await.expect("it can be embedded");
    drop(collection);
    fixture.collections.close().await;

    let changed = open_with_another_model(&fixture.engine, on_disk(&dir));
    let collection = changed.get("c").expect("it is on disk");
    let refused = collection.upsert(texts(&[2], &["sort"]), Context::default()).await;
    assert!(matches!(&refused, Err(CollectionError::Refused(CollectionRefusal::ModelChanged { .. }))), "{refused:?}");
    let text = message(refused);
    for part in ["\"c\"", "\"builtin\"", "digest one", "digest two", "reembed"] {
        assert!(text.contains(part), "{text}");
    }
    let query = Query::Vectors(Vectors::Texts(vec!["open".into()]));
    let refused = collection.search(SearchSpec { query, ..near([0.0; 4], 1) }, Context::default()).await;
    assert!(matches!(&refused, Err(CollectionError::Refused(CollectionRefusal::ModelChanged { .. }))), "{refused:?}");
    assert_eq!(collection.fetch(&Ids::Numbers(vec![1, 2]), false).ids, Ids::Numbers(vec![1]), "it can be read");
    assert_eq!(ids(&collection, by_words("open", 1)).await, [1], "a search by words needs no model");
}

#[tokio::test]
async fn a_collection_without_a_digest_takes_that_of_its_first_use_and_keeps_it() {
    let dir = TempDir::new().expect("a folder");
    let fixture = fixture(on_disk(&dir));
    let collection = fixture.collections.create(of_texts("c", true)).await.expect("the name is free");
    collection.upsert(texts(&[1], &["open a file"]), Context::default()).await.expect("it can be embedded");
    let meta = CollectionMeta { model_digest: String::new(), ..collection.meta().clone() };
    drop(collection);
    let store = fixture.collections.env.store.as_ref().expect("there is a folder");
    store.record_model_digest(&meta).expect("as an earlier version wrote it");
    fixture.collections.close().await;

    let first = open_with_another_model(&fixture.engine, on_disk(&dir));
    let collection = first.get("c").expect("it is on disk");
    assert_eq!(collection.describe().meta.model_digest, "");
    collection.upsert(texts(&[2], &["sort a list"]), Context::default()).await.expect("it has no digest yet");
    assert_eq!(collection.describe().meta.model_digest, "digest two");
    drop(collection);
    first.close().await;

    let again = open(&fixture.engine, on_disk(&dir)).get("c").expect("it is on disk");
    assert_eq!(again.describe().meta.model_digest, "digest two");
    let refused = again.upsert(texts(&[3], &["sort"]), Context::default()).await;
    assert!(matches!(&refused, Err(CollectionError::Refused(CollectionRefusal::ModelChanged { .. }))), "{refused:?}");
}

#[tokio::test]
async fn a_digest_is_not_recorded_for_another_collection_of_the_name() {
    let dir = TempDir::new().expect("a folder");
    let fixture = fixture(on_disk(&dir));
    let collection = fixture.collections.create(of_texts("c", true)).await.expect("the name is free");
    let earlier = CollectionMeta { create_time_ms: 1, model_digest: "other".into(), ..collection.meta().clone() };
    let store = fixture.collections.env.store.as_ref().expect("there is a folder");
    assert!(store.record_model_digest(&earlier).is_err());
    drop(collection);
    fixture.collections.close().await;
    let again = open(&fixture.engine, on_disk(&dir)).get("c").expect("it is on disk");
    assert_eq!(again.meta().model_digest, "digest one");
}

#[tokio::test]
async fn collections_are_durable_by_default_where_there_is_a_data_folder() {
    let dir = TempDir::new().expect("a folder");
    let with_folder = fixture(on_disk(&dir));
    let by_default = |name: &str| NewCollection { durable: None, ..spec(name) };
    let create = async |fixture: &Fixture, new| fixture.collections.create(new).await.expect("the name is free");
    let kept = create(&with_folder, by_default("kept")).await;
    let in_memory = create(&with_folder, spec("in-memory")).await;
    assert!(kept.meta().durable && !in_memory.meta().durable);
    for collection in [&kept, &in_memory] {
        collection.upsert(points(&[1, 2], 0.0), Context::default()).await.expect("it takes points");
    }
    drop((kept, in_memory));
    with_folder.collections.close().await;
    let again = open(&with_folder.engine, on_disk(&dir));
    let names: Vec<_> = again.list().iter().map(|collection| collection.meta().name.clone()).collect();
    assert_eq!(names, ["kept"]);

    let without_folder = fixture(Settings::default());
    let collection = create(&without_folder, by_default("c")).await;
    assert!(!collection.meta().durable);
}

#[tokio::test]
async fn a_list_without_ids_deletes_and_counts_nothing() {
    let fixture = fixture(Settings::default());
    let collection = fixture.collections.create(spec("c")).await.expect("the name is free");
    collection.upsert(points(&[1, 2, 3, 4], 0.0), Context::default()).await.expect("it takes points");
    let filter = |must: bool| {
        let must = if must { even_condition() } else { vec![] };
        let filter = v1::Filter { ids: Some(v1::PointIds::default()), must, ..v1::Filter::default() };
        Filter::parse("filter", &filter).expect("it is well-formed")
    };
    for must in [true, false] {
        assert_eq!(collection.delete(filter(must)).await.expect("the filter is given"), 0);
        assert_eq!(collection.count(Some(filter(must))).await.expect("it can be counted"), 0);
    }
    let all = Filter::default();
    assert!(collection.delete(all).await.is_err(), "a filter without lists and conditions");
    assert_eq!(collection.count(None).await.expect("it can be counted"), 4);
}
