//! Collections of texts: their model, and the full-text index.

use super::*;

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
