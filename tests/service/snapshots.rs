//! Locations of snapshots: those that are allowed, and the paths that errors reveal.

use std::{fs, os::unix::fs::symlink, path::Path};

use accelerd_proto::v1::{self, Metric};
use tempfile::TempDir;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::harness::{TestServer, assert_refused, numbers, tensor};

fn url(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// A daemon with a collection and a snapshot folder, and a folder that is not allowed.
async fn start_server(default: bool) -> (TestServer, TempDir, TempDir) {
    let inside = tempfile::tempdir().expect("a folder");
    let outside = tempfile::tempdir().expect("a folder");
    let offered = url(inside.path());
    let server = TestServer::start_with(|config| {
        if default {
            config.store.snapshot_url = offered;
        } else {
            config.store.snapshot_folders = vec![offered];
        }
    })
    .await;
    server.collection("c", 2, Metric::Dot).await;
    let points = Some(v1::upsert_request::Points::Vectors(tensor(&[2, 2], &[1.0, 2.0, 3.0, 4.0])));
    let ids = Some(numbers(0..2));
    let request = v1::UpsertRequest { collection: "c".into(), ids, points, ..v1::UpsertRequest::default() };
    server.similarity().upsert(request).await.expect("upserts");
    (server, inside, outside)
}

async fn snapshot(server: &TestServer, url: &str) -> Result<String, Status> {
    let request = v1::CreateSnapshotRequest { collection: "c".into(), url: url.into() };
    let written = server.similarity().create_snapshot(request).await?;
    Ok(written.into_inner().snapshot.expect("described").url)
}

async fn restore(server: &TestServer, url: &str, name: &str) -> Result<(), Status> {
    let request = v1::RestoreCollectionRequest { url: url.into(), name: name.into() };
    server.similarity().restore_collection(request).await.map(drop)
}

/// Entries of a folder.
fn count(folder: &Path) -> usize {
    fs::read_dir(folder).expect("it is there").count()
}

#[tokio::test]
async fn a_snapshot_is_not_written_through_a_symbolic_link_out_of_its_folder() {
    let (server, inside, outside) = start_server(false).await;
    symlink(outside.path(), inside.path().join("folder")).expect("a link");
    symlink(outside.path().join("new"), inside.path().join("dangling")).expect("a link");
    fs::create_dir(inside.path().join("version")).expect("a folder");
    symlink(outside.path(), inside.path().join("version/v0000000001")).expect("a link");
    for name in ["folder", "folder/below", "folder/../folder/x", "dangling", "dangling/x", "version/v0000000001"] {
        let refused = snapshot(&server, &url(&inside.path().join(name))).await;
        assert_refused(refused, Code::PermissionDenied, "symbolic link");
    }
    assert_eq!(count(outside.path()), 0, "nothing was written there");
    fs::create_dir(inside.path().join("real")).expect("a folder");
    symlink(inside.path().join("real"), inside.path().join("within")).expect("a link");
    snapshot(&server, &url(&inside.path().join("within"))).await.expect("a link that stays inside is fine");
    assert_eq!(count(&inside.path().join("real")), 1);
}

#[tokio::test]
async fn a_snapshot_is_not_read_through_a_symbolic_link_out_of_its_folder() {
    let (server, inside, outside) = start_server(false).await;
    let written = snapshot(&server, &url(&inside.path().join("good"))).await.expect("written");
    restore(&server, &written, "copy").await.expect("restored");
    let version = inside.path().join("good/v0000000001");
    let moved = outside.path().join("v0000000001");
    fs::create_dir(&moved).expect("a folder");
    for file in fs::read_dir(&version).expect("it is there") {
        let file = file.expect("a file");
        fs::copy(file.path(), moved.join(file.file_name())).expect("copied");
    }
    // The whole folder, a version, the manifest alone, a chunk alone.
    symlink(outside.path(), inside.path().join("folder")).expect("a link");
    fs::create_dir(inside.path().join("versions")).expect("a folder");
    symlink(&moved, inside.path().join("versions/v0000000001")).expect("a link");
    for kind in ["manifest", "chunk"] {
        let folder = inside.path().join(kind);
        fs::create_dir(&folder).expect("a folder");
        for file in fs::read_dir(&moved).expect("it is there") {
            let name = file.expect("a file").file_name();
            if name.to_string_lossy().starts_with(kind) {
                symlink(moved.join(&name), folder.join(&name)).expect("a link");
            } else {
                fs::copy(moved.join(&name), folder.join(&name)).expect("copied");
            }
        }
    }
    for name in ["folder", "folder/v0000000001", "versions", "versions/v0000000001", "manifest", "chunk"] {
        let refused = restore(&server, &url(&inside.path().join(name)), "stolen").await;
        assert_refused(refused, Code::PermissionDenied, "symbolic link");
    }
    server.assert_serving().await;
}

#[tokio::test]
async fn errors_reveal_no_path_that_the_caller_did_not_send() {
    let (server, inside, _outside) = start_server(true).await;
    let written = snapshot(&server, "").await.expect("written");
    let hidden = inside.path().display().to_string();
    let manifest = inside.path().join("c/v0000000001/manifest.json");
    fs::write(&manifest, "{").expect("written");
    let damaged = snapshot(&server, "").await.expect_err("the newest manifest is damaged");
    assert_eq!(damaged.code(), Code::DataLoss, "{damaged:?}");
    assert!(!damaged.message().contains(&hidden) && damaged.message().contains("store.snapshot_url"), "{damaged:?}");
    // An error repeats the location that the caller sent.
    let named = restore(&server, &written, "copy").await.expect_err("the manifest is damaged");
    assert!(named.message().contains(&written), "{named:?}");
}

#[tokio::test]
async fn a_damaged_collection_is_read_only_and_its_damage_is_named_without_its_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let start = || TestServer::start_with(|config| config.store.data_dir.clone_from(&data));
    let first = start().await;
    let request = v1::CreateCollectionRequest {
        name: "c".into(),
        dimensions: 2,
        metric: Metric::Dot.into(),
        durable: true,
        ..v1::CreateCollectionRequest::default()
    };
    first.similarity().create_collection(request).await.expect("made");
    first.daemon.shutdown().await;
    let log = data.join("collections/c/wal-00000000000000000001.log");
    fs::write(&log, b"ACCLWAL").expect("written");
    let second = start().await;
    let got = second
        .similarity()
        .get_collection(v1::GetCollectionRequest { name: "c".into() })
        .await
        .expect("it is there")
        .into_inner()
        .collection
        .expect("described");
    assert!(got.read_only, "{got:?}");
    assert!(got.damage[0].starts_with("c/wal-00000000000000000001.log is corrupt at offset 7"), "{got:?}");
    let listed = second.similarity().list_collections(v1::ListCollectionsRequest {}).await.expect("listed");
    assert_eq!(listed.into_inner().collections, std::slice::from_ref(&got));
    let points = Some(v1::upsert_request::Points::Vectors(tensor(&[2, 2], &[1.0, 2.0, 3.0, 4.0])));
    let ids = Some(numbers(0..2));
    let request = v1::UpsertRequest { collection: "c".into(), ids, points, ..v1::UpsertRequest::default() };
    let refused = second.similarity().upsert(request).await.expect_err("it is read-only");
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
    assert_eq!(refused.get_details_error_info().map(|info| info.reason), Some("COLLECTION_READ_ONLY".to_owned()));
    for text in [format!("{refused:?}"), format!("{got:?}")] {
        assert!(!text.contains(&folder.path().display().to_string()), "{text}");
    }
    assert_eq!(fs::read(&log).expect("it is there"), b"ACCLWAL", "the file stays as it was");
    second.similarity().delete_collection(v1::DeleteCollectionRequest { name: "c".into() }).await.expect("deleted");
}

#[tokio::test]
async fn a_collection_above_the_memory_limit_stays_on_disk_with_a_reason() {
    use accelerd::config::ByteSize;
    let folder = tempfile::tempdir().expect("a folder");
    let start = |limit| {
        let data = folder.path().to_owned();
        TestServer::start_with(move |config| (config.store.data_dir, config.store.memory_limit) = (data, limit))
    };
    let first = start(ByteSize::mib(64)).await;
    let request = v1::CreateCollectionRequest {
        name: "c".into(),
        dimensions: 256,
        metric: Metric::Dot.into(),
        durable: true,
        ..v1::CreateCollectionRequest::default()
    };
    first.similarity().create_collection(request).await.expect("made");
    let points = Some(v1::upsert_request::Points::Vectors(tensor(&[8192, 256], &vec![0.5; 8192 * 256])));
    let ids = Some(numbers(0..8192));
    let request = v1::UpsertRequest { collection: "c".into(), ids, points, ..v1::UpsertRequest::default() };
    first.similarity().upsert(request).await.expect("8 MiB fit");
    first.daemon.shutdown().await;
    let second = start(ByteSize::mib(4)).await;
    let get = || v1::GetCollectionRequest { name: "c".into() };
    assert_refused(second.similarity().get_collection(get()).await, Code::ResourceExhausted, "store.memory_limit");
    second.daemon.shutdown().await;
    let third = start(ByteSize::mib(64)).await;
    let got = third.similarity().get_collection(get()).await.expect("it is back").into_inner().collection;
    assert_eq!(got.expect("described").point_count, 8192);
}
