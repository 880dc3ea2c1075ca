//! Snapshots of collections in folders.

use super::*;

#[tokio::test]
async fn snapshots_are_restored_under_another_name_and_on_another_daemon() {
    let dir = TempDir::new().expect("it can be made");
    let data = TempDir::new().expect("it can be made");
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
async fn old_snapshots_are_deleted_and_the_newest_are_kept() {
    let dir = TempDir::new().expect("it can be made");
    let data = TempDir::new().expect("it can be made");
    let url = format!("file://{}", dir.path().display());
    let fixture = fixture(Settings { snapshot_url: url.clone(), ..on_disk(&data) });
    let collections = &fixture.collections;
    let collection = collections.create(durable("c")).await.expect("the name is free");
    for id in 1..=4 {
        upsert(&collection, &[id], 1.0).await;
        collections.snapshot("c", "").await.expect("it can be written");
    }
    let versions = |of: &[Snapshot]| of.iter().map(|one| (one.version, one.points)).collect::<Vec<_>>();
    let listed = collections.snapshots("c", "").await.expect("it can be listed");
    assert_eq!(versions(&listed), [(1, 1), (2, 2), (3, 3), (4, 4)]);
    assert!(message(collections.prune_snapshots("c", "", 0).await).starts_with("keep_count: "));
    let deleted = collections.prune_snapshots("c", "", 2).await.expect("it can be deleted");
    assert_eq!(versions(&deleted), [(1, 1), (2, 2)]);
    assert!(collections.prune_snapshots("c", "", 2).await.expect("nothing is left to delete").is_empty());
    let mut folders: Vec<_> = std::fs::read_dir(dir.path().join("c"))
        .expect("it is there")
        .map(|entry| entry.expect("a folder").file_name())
        .collect();
    folders.sort();
    assert_eq!(folders, ["v0000000003", "v0000000004"]);
    // The collection may be gone; its snapshots are still listed, and its versions go on.
    collections.delete("c").await.expect("it is there");
    assert_eq!(versions(&collections.snapshots("c", "").await.expect("it can be listed")), [(3, 3), (4, 4)]);
    assert!(collections.snapshots("d", "").await.expect("there is no folder").is_empty());
    let foreign = message(collections.prune_snapshots("d", &format!("{url}/c"), 1).await);
    assert!(foreign.contains("holds snapshots of collection \"c\""), "{foreign}");
    assert!(message(collections.snapshots("../c", "").await).starts_with("name: "));
}

#[tokio::test]
async fn snapshots_are_limited_to_folders_of_the_settings() {
    let dir = TempDir::new().expect("it can be made");
    let data = TempDir::new().expect("it can be made");
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
    for (invalid, reason) in [
        ("", "expected the URL of a snapshot or of their folder, got none"),
        ("offered", "\"offered\" is not the URL of a folder: it has no scheme, such as file://"),
        ("ftp://host/offered", "unsupported scheme \"ftp\", expected one of file://, s3://, gs://, az://"),
        ("s3:///offered", "\"s3:///offered\" is not the URL of a folder: a bucket or container is required"),
    ] {
        let restored = fixture.collections.restore(invalid, "x").await.map(drop);
        let written = fixture.collections.snapshot("c", invalid).await.map(drop);
        // No URL of a new snapshot means the configured folder.
        for refused in [Some(restored), Some(written).filter(|_| !invalid.is_empty())].into_iter().flatten() {
            assert_eq!(refused.expect_err("invalid").to_string(), format!("url: {reason}"));
        }
    }
}
