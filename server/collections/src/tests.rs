//! Tests of collections on a real engine on the CPU: visibility of changes, recovery, snapshots.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use accelerd_engine::{Context, Engine, EngineConfig, LaneConfig};
use accelerd_kernels::{
    Choice, Device, DeviceId, Matrix, Settings as Devices, discover, ledger, ops::cluster::ClusterRequest,
};
use accelerd_models::words;
use accelerd_proto::v1::{self, Payload, value::Kind};
use accelerd_store::{Ids, Metric, Prompt, Storage};
use futures::future::{BoxFuture, FutureExt as _};
use tempfile::TempDir;

use super::{payload::tests::payload, *};

mod damage;
mod devices;
mod digests;
mod formats;
mod memory;
mod prompts;
mod restarts;
mod snapshots;
mod texts;

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

    fn prompts(&self, _: &str, document: PromptChoice, query: PromptChoice) -> Result<Option<Prompts>, BoxError> {
        let prompts = Prompts { document: prompt(document), query: prompt(query) };
        let is_empty = prompts.document.text.is_empty() && prompts.query.text.is_empty();
        Ok((!is_empty).then_some(prompts))
    }

    fn embed<'a>(
        &'a self,
        _: &'a str,
        texts: Vec<String>,
        options: TextOptions,
        _: Context,
    ) -> BoxFuture<'a, Result<(Matrix, String), BoxError>> {
        let dim = options.dimensions as usize;
        let prompt = prompt(options.prompt).text;
        let numbers = texts.iter().flat_map(|text| (self.vector)(&[&prompt, text.as_str()].concat(), dim)).collect();
        async move { Ok((Matrix::from_vec(texts.len(), dim, numbers)?, self.digest.to_owned())) }.boxed()
    }
}

/// A prompt of a [`TestEmbedder`]: the name of each is its text.
fn prompt(choice: PromptChoice) -> Prompt {
    match choice {
        PromptChoice::Default => Prompt::default(),
        PromptChoice::Named(name) => Prompt { text: format!("{name} "), name },
        PromptChoice::Text(text) => Prompt { name: String::new(), text },
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
        document_prompt: PromptChoice::Default,
        query_prompt: PromptChoice::Default,
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

fn only(ids: Vec<u64>) -> Filter {
    let ids = Some(v1::PointIds { numbers: ids, ..Default::default() });
    Filter::parse("filter", &v1::Filter { ids, ..v1::Filter::default() }).expect("it is well-formed")
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
    let texts = NewPoints { vectors: Vectors::Texts(vec!["a".into()], PromptChoice::Default), ..points(&[2], 0.0) };
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
    let vectors = Vectors::Texts(texts.iter().map(|text| (*text).to_owned()).collect(), PromptChoice::Default);
    NewPoints {
        ids: Ids::Numbers(ids.to_vec()),
        vectors,
        payloads: NewPayloads::Messages(texts.iter().map(body).collect()),
    }
}

/// A text-only search.
fn by_words(text: &str, limit: usize) -> SearchSpec {
    let query = Query::Vectors(Vectors::Texts(vec![text.to_owned()], PromptChoice::Default));
    let hybrid = Hybrid { fusion: Fusion::RelativeScore, text_weight: 1.0 };
    SearchSpec { query, hybrid: Some(hybrid), ..near([0.0; 4], limit) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_during_replacements_finds_each_point_exactly_once() {
    let settings = Settings { compact_rows: 64, ..Settings::default() };
    let fixture = fixture(settings);
    let collection = fixture.collections.create(spec("c")).await.expect("the name is free");
    let all: Vec<u64> = (0..40).collect();
    upsert(&collection, &all, 0.0).await;
    let writer = {
        let collection = Arc::clone(&collection);
        let all = all.clone();
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

/// The first points.
fn first_page(limit: usize) -> PageSpec {
    PageSpec { filter: None, after: None, limit, with_payload: false, with_vectors: false }
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
