//! Files of earlier builds: each folder under `tests/golden` was written by the build that introduced its format.
//!
//! To add the folder of a new format, run
//! `ACCELERD_WRITE_GOLDEN=format-N cargo test -p accelerd-collections --lib writes_a_golden_folder -- --ignored`
//! with the build that introduces it, and commit the folder. Folders of earlier formats are never written again.

use std::path::{Path, PathBuf};

use super::*;

/// Name of the environment variable with the folder to write.
const WRITE: &str = "ACCELERD_WRITE_GOLDEN";

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Embeds texts that parse as numbers as vectors of that number, which may be NaN.
fn literal() -> TestEmbedder {
    let vector = |text: &str, dim: usize| vec![text.parse().unwrap_or(0.0); dim];
    TestEmbedder { digest: "literal", dimensions: 4, vector }
}

fn collections(engine: &Engine, dir: &Path, settings: Settings) -> Arc<Collections> {
    let settings = Settings { data_dir: Some(dir.join("data")), ..settings };
    Collections::open(settings, services_with(engine, vec![DeviceId::Cpu], literal())).expect("the folder opens")
}

fn texts(ids: &[u64], texts: &[&str]) -> NewPoints {
    let texts = texts.iter().map(|text| (*text).to_owned()).collect();
    NewPoints { vectors: Vectors::Texts(texts, PromptChoice::Default), ..points(ids, 0.0) }
}

/// Writes a collection with a checkpoint and a log, one of UUIDs with a text index, one with points that are not finite,
/// and a snapshot.
#[tokio::test]
#[ignore = "writes the folder of a new format"]
async fn writes_a_golden_folder() {
    let name = std::env::var_os(WRITE).expect("the name of the folder");
    let dir = golden().join(name);
    let url = format!("file://{}/snapshots", dir.display());
    let fixture = fixture(Settings::default());
    let settings = || Settings { wal_limit: 2000, snapshot_url: url.clone(), ..Settings::default() };
    let collections = collections(&fixture.engine, &dir, settings());
    let numbers = collections.create(durable("numbers")).await.expect("the name is free");
    upsert(&numbers, &(0..40).collect::<Vec<_>>(), 1.0).await;
    upsert(&numbers, &[3, 50], 2.0).await;
    collections.snapshot("numbers", "").await.expect("there is room");
    numbers.delete(even()).await.expect("it can");
    let spec =
        NewCollection { text_field: "text".into(), metric: Metric::Cosine, storage: Storage::I8, ..durable("uuids") };
    let uuids = collections.create(spec).await.expect("the name is free");
    let text = |text: &str| payload(&[("text", Kind::StringValue(text.into())), ("weight", Kind::DoubleValue(0.5))]);
    let words = NewPoints {
        ids: Ids::Uuids(vec![[1; 16], [2; 16]]),
        vectors: Vectors::Rows(Matrix::from_vec(2, 4, vec![1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]).expect("two rows")),
        payloads: NewPayloads::Messages(vec![text("read the manual"), text("write a test")]),
    };
    uuids.upsert(words, Context::default()).await.expect("there is room");
    let document_prompt = PromptChoice::Text("-".into());
    let embedded = NewCollection { model: "literal".into(), document_prompt, ..durable("embedded") };
    let embedded = collections.create(embedded).await.expect("the name is free");
    for points in [texts(&[1, 2, 3], &["1", "NaN", "3"]), texts(&[4, 5], &["inf", "5"])] {
        // Collections leave it to the embedder to refuse such vectors, and this one does not.
        let _ = embedded.upsert(points, Context::default()).await;
    }
    collections.snapshot("embedded", "").await.expect("there is room");
    collections.close().await;
    std::fs::remove_file(dir.join("data/LOCK")).expect("it is there");
}

/// Copies a folder, so that the copy can be written.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("it can be made");
    for entry in std::fs::read_dir(from).expect("it is there") {
        let entry = entry.expect("it can be read");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("there is room");
        }
    }
}

#[tokio::test]
async fn folders_of_each_format_open_with_all_their_points() {
    for format in ["format-1", "format-2", "format-3"] {
        opens_with_all_its_points(format).await;
    }
}

async fn opens_with_all_its_points(format: &str) {
    let snapshots = golden().join(format).join("snapshots");
    let snapshots = format!("file://{}", snapshots.display());
    let dir = TempDir::new().expect("it can be made");
    copy(&golden().join(format).join("data"), &dir.path().join("data"));
    let settings = || Settings { snapshot_folders: vec![snapshots.clone()], ..Settings::default() };
    let fixture = fixture(Settings::default());
    let written = collections(&fixture.engine, dir.path(), settings());

    let numbers = written.get("numbers").expect("it is whole");
    let stamp = |id: u64| (id, if id == 3 { 2.0 } else { 1.0 });
    let odd: BTreeMap<_, _> = (0..40).filter(|id| id % 2 == 1).map(stamp).collect();
    assert_eq!(contents(&numbers), odd);
    assert_eq!(ids(&numbers, near([7.0, 1.0, 0.0, 0.0], 1)).await, [7]);

    let uuids = written.get("uuids").expect("it is whole");
    let found = uuids.search(by_words("manual", 5), Context::default()).await.expect("it has a text index");
    assert_eq!(found[0].iter().map(|found| found.id).collect::<Vec<_>>(), [PointId::Uuid([1; 16])]);

    let embedded = written.get("embedded").expect("points that are not finite are set aside");
    let described = embedded.describe();
    assert_eq!((described.points, described.set_aside_ids), (3, Ids::Numbers(vec![2, 4])));
    assert_eq!(embedded.fetch(&Ids::Numbers((0..9).collect()), false).ids, Ids::Numbers(vec![1, 3, 5]));
    // Format 1 has no digests: the collection takes that of its first use.
    let digest = if format == "format-1" { "" } else { "literal" };
    assert_eq!(described.meta.model_digest, digest);
    embedded.upsert(texts(&[6], &["6"]), Context::default()).await.expect("it takes texts");
    // Earlier formats have no prompts.
    let sign = if format == "format-3" { -1.0 } else { 1.0 };
    let vectors = embedded.fetch(&Ids::Numbers(vec![5, 6]), true).vectors.expect("they were asked for");
    let expected = [[5.0_f32 * sign; DIM], [6.0 * sign; DIM]].concat();
    assert_eq!(*vectors.as_f32(), expected[..]);
    assert_eq!(embedded.describe().meta.model_digest, "literal");
    if format != "format-1" {
        let copy = written.restore(&format!("{snapshots}/embedded"), "embedded-copy").await.expect("it is whole");
        let copy = copy.describe();
        assert_eq!((copy.points, copy.set_aside, copy.meta.model_digest.as_str()), (3, 2, "literal"));
    }

    // The snapshot is older than the deletion.
    let copy = written.restore(&format!("{snapshots}/numbers"), "copy").await.expect("it is whole");
    let all: BTreeMap<_, _> = (0..40).map(stamp).chain([(50, 2.0)]).collect();
    assert_eq!(contents(&copy), all);

    // This build opens again the files that it writes to the folder.
    upsert(&numbers, &[90], 3.0).await;
    written.close().await;
    let reopened = collections(&fixture.engine, dir.path(), settings());
    let expected = odd.into_iter().chain([(90, 3.0)]).collect();
    assert_eq!(contents(&reopened.get("numbers").expect("it is whole")), expected);
}
