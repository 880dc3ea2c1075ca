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
}
