//! The digest of the model that a collection's vectors are of.

use super::*;

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
    let query = Query::Vectors(Vectors::Texts(vec!["open".into()], PromptChoice::Default));
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
