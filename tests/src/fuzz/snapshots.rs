//! Snapshots: a changed one is refused by name, or its points can be searched.

use std::{
    fs,
    path::{Path, PathBuf},
};

use accelerd_proto::{methods::similarity_service, v1};
use accelerd_store::Manifest;
use prost::Message;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tonic::Code;

use super::{
    changed_bytes, changed_json,
    choices::Choices,
    judge,
    models::entries,
    target::{Target, url},
};

/// Name of the table of contents in a snapshot.
const MANIFEST: &str = "manifest.json";
const DIMENSIONS: i64 = 2;

/// Writes a snapshot of a few points with payloads, and returns its folder.
pub async fn write(target: &Target) -> PathBuf {
    let name = "seed".to_owned();
    let dimensions = u32::try_from(DIMENSIONS).expect("a small number");
    let create = v1::CreateCollectionRequest {
        name: name.clone(),
        dimensions,
        metric: v1::Metric::Dot.into(),
        ..Default::default()
    };
    target.ask(similarity_service::CREATE_COLLECTION, &create).await.expect("created");
    let data = [1.0_f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat().into();
    let vectors = v1::Tensor { dtype: v1::Dtype::F32.into(), shape: vec![2, DIMENSIONS], data };
    let value = |kind| v1::Value { kind: Some(kind) };
    let fields = [
        ("text".to_owned(), value(v1::value::Kind::StringValue("words".into()))),
        ("n".to_owned(), value(v1::value::Kind::IntValue(7))),
        ("x".to_owned(), value(v1::value::Kind::DoubleValue(0.5))),
    ];
    let payload = v1::Payload { fields: fields.into() };
    let upsert = v1::UpsertRequest {
        collection: name.clone(),
        ids: Some(v1::PointIds { numbers: vec![7, 9], ..Default::default() }),
        points: Some(v1::upsert_request::Points::Vectors(vectors)),
        payloads: vec![payload.clone(), payload],
        ..Default::default()
    };
    target.ask(similarity_service::UPSERT, &upsert).await.expect("stored");
    let folder = target.folder().join("seed");
    let create = v1::CreateSnapshotRequest { collection: name, url: url(&folder) };
    let written = target.ask(similarity_service::CREATE_SNAPSHOT, &create).await.expect("written");
    let index = written.snapshot.map(|snapshot| snapshot.url).unwrap_or_default();
    PathBuf::from(index.strip_prefix("file://").expect("a URL of a folder"))
}

/// Restores a changed copy of a snapshot and searches it.
pub async fn run(target: &Target, seed: &Path, data: &[u8]) {
    let choices = &mut Choices::new(data);
    let temporary = tempfile::tempdir_in(target.folder()).expect("a folder");
    let folder = temporary.path();
    for (name, bytes) in changed(seed, choices) {
        fs::write(folder.join(name), bytes).expect("written");
    }
    let request = v1::RestoreCollectionRequest { url: url(folder), name: "fuzzed".into() };
    // The case before failed if there still is one.
    let delete = v1::DeleteCollectionRequest { name: "fuzzed".into() };
    let _left = target.ask(similarity_service::DELETE_COLLECTION, &delete).await;
    let (_, status) = target.call(similarity_service::RESTORE_COLLECTION.path(), vec![request.encode_to_vec()]).await;
    // A damaged snapshot has a code of its own.
    let judged = if status.code() == Code::DataLoss { tonic::Status::ok("") } else { status.clone() };
    let what = describe(folder);
    assert!(status.message().len() < judge::MAX_STATUS_BYTES, "{status:?} after {what}");
    target.assert_whole(&judged, &what).await;
    if status.code() == Code::Ok {
        search(target, &what).await;
        let deleted = target.ask(similarity_service::DELETE_COLLECTION, &delete).await;
        deleted.unwrap_or_else(|status| panic!("it was restored: {status:?} after {what}"));
    }
}

async fn search(target: &Target, what: &str) {
    let data = [1.0_f32, 2.0].map(f32::to_le_bytes).concat().into();
    let query = v1::Tensor { dtype: v1::Dtype::F32.into(), shape: vec![1, DIMENSIONS], data };
    let search = v1::SearchRequest {
        collection: "fuzzed".into(),
        query: Some(v1::search_request::Query::Vectors(query)),
        limit: 3,
        include_payload: true,
        ..Default::default()
    };
    let scroll = v1::ScrollPointsRequest { collection: "fuzzed".into(), include_payload: true, ..Default::default() };
    for (path, request) in [
        (similarity_service::SEARCH.path(), search.encode_to_vec()),
        (similarity_service::SCROLL_POINTS.path(), scroll.encode_to_vec()),
    ] {
        let (_, status) = target.call(path, vec![request]).await;
        target.assert_whole(&status, &format!("{path} of {what}")).await;
    }
}

/// The files of a snapshot with changes. Mostly its digests are those of the changed contents, so that the contents are read.
fn changed(seed: &Path, choices: &mut Choices<'_>) -> Vec<(String, Vec<u8>)> {
    let name = |path: &Path| path.file_name().expect("a file has a name").to_string_lossy().into_owned();
    let read = |path: &PathBuf| (name(path), fs::read(path).expect("a file"));
    let mut files: Vec<_> = entries(seed).iter().map(read).collect();
    if choices.is_one_in(8) {
        let nth = choices.below(files.len());
        let bytes = std::mem::take(&mut files[nth].1);
        files[nth].1 = changed_bytes(bytes, choices);
        return files;
    }
    let manifest = files.iter().position(|(name, _)| name == MANIFEST).expect("a snapshot has a manifest");
    let mut sealed: Value = serde_json::from_slice(&files[manifest].1).expect("it is JSON");
    if choices.is_one_in(2) {
        change_chunk(&mut files, &mut sealed["content"], choices);
    } else {
        let content = changed_json(sealed["content"].to_string().as_bytes(), choices).expect("it is JSON");
        sealed["content"] = serde_json::from_slice(&content).unwrap_or(Value::Null);
    }
    files[manifest].1 = resealed(&sealed["content"]);
    files
}

/// Changes the chunk of a snapshot together with its digest and size.
fn change_chunk(files: &mut [(String, Vec<u8>)], content: &mut Value, choices: &mut Choices<'_>) {
    let chunk = files.iter_mut().find(|(name, _)| name != MANIFEST).expect("a snapshot has a chunk");
    chunk.1 = changed_bytes(std::mem::take(&mut chunk.1), choices);
    content["chunks"][0]["sha256"] = json!(hex::encode(Sha256::digest(&chunk.1)));
    content["chunks"][0]["size_bytes"] = json!(chunk.1.len());
}

/// A manifest with the digest of its content, if the content is that of a manifest.
fn resealed(content: &Value) -> Vec<u8> {
    let plain = match serde_json::from_value::<Manifest>(content.clone()) {
        Ok(manifest) => serde_json::to_vec(&manifest).expect("a manifest is JSON"),
        Err(_) => content.to_string().into_bytes(),
    };
    json!({ "sha256": hex::encode(Sha256::digest(&plain)), "content": content }).to_string().into_bytes()
}

fn describe(folder: &Path) -> String {
    let texts = entries(folder).into_iter().map(|path| {
        let bytes = fs::read(&path).expect("a file");
        format!("{}: {}", path.display(), String::from_utf8_lossy(&bytes[..bytes.len().min(2000)]))
    });
    texts.collect::<Vec<_>>().join("\n")
}
