//! Prompts of texts: of collections, and of calls.

use super::*;

fn named(name: &str) -> PromptChoice {
    PromptChoice::Named(name.into())
}

fn literal(text: &str) -> PromptChoice {
    PromptChoice::Text(text.into())
}

/// A collection whose documents and queries have different prompts.
fn prompted(name: &str) -> NewCollection {
    NewCollection { document_prompt: named("passage"), query_prompt: literal("query: "), ..of_texts(name, true) }
}

fn text(id: u64, text: &str, prompt: PromptChoice) -> NewPoints {
    NewPoints { vectors: Vectors::Texts(vec![text.to_owned()], prompt), ..texts(&[id], &[text]) }
}

async fn write(collection: &Collection, points: NewPoints) {
    collection.upsert(points, Context::default()).await.expect("it can be embedded");
}

fn vector(collection: &Collection, id: u64) -> Vec<f32> {
    let fetched = collection.fetch(&Ids::Numbers(vec![id]), true);
    fetched.vectors.expect("they were asked for").as_f32().to_vec()
}

/// The vector of a text with nothing before it.
fn embedded(text: &str) -> Vec<f32> {
    (bag_of_words("digest one").vector)(text, 64)
}

fn by_vector(text: &str, prompt: PromptChoice) -> SearchSpec {
    let query = Query::Vectors(Vectors::Texts(vec![text.to_owned()], prompt));
    SearchSpec { query, ..near([0.0; 4], 9) }
}

#[tokio::test]
async fn texts_of_points_have_the_document_prompt_and_texts_of_queries_the_query_prompt() {
    let dir = TempDir::new().expect("a folder");
    let fixture = fixture(on_disk(&dir));
    let collection = fixture.collections.create(prompted("c")).await.expect("the name is free");
    write(&collection, text(1, "open a file", PromptChoice::Default)).await;
    assert_eq!(vector(&collection, 1), embedded("passage open a file"));
    // The nearest to a query is what was embedded as the query is.
    write(&collection, text(2, "open a file", literal("query: "))).await;
    assert_eq!(ids(&collection, by_vector("open a file", PromptChoice::Default)).await, [2, 1]);
    assert_eq!(ids(&collection, by_vector("open a file", named("passage"))).await, [1, 2]);
}

#[tokio::test]
async fn a_call_may_have_another_prompt_or_none() {
    let dir = TempDir::new().expect("a folder");
    let fixture = fixture(on_disk(&dir));
    let collection = fixture.collections.create(prompted("c")).await.expect("the name is free");
    write(&collection, text(1, "sort", named("title"))).await;
    write(&collection, text(2, "sort", literal("text: "))).await;
    write(&collection, text(3, "sort", literal(""))).await;
    for (id, whole) in [(1, "title sort"), (2, "text: sort"), (3, "sort")] {
        assert_eq!(vector(&collection, id), embedded(whole), "{whole}");
    }
    assert_eq!(ids(&collection, by_vector("sort", literal(""))).await[0], 3);
    let by_words = SearchSpec { query: by_vector("sort", named("passage")).query, ..by_words("", 9) };
    assert_eq!(ids(&collection, by_words).await, [1, 2, 3], "a prompt is no part of a search by words");
}

#[tokio::test]
async fn prompts_survive_restarts_checkpoints_and_snapshots() {
    let dir = TempDir::new().expect("a folder");
    let url = format!("file://{}/snapshots", dir.path().display());
    let settings = || Settings { wal_limit: 1, snapshot_url: url.clone(), ..on_disk(&dir) };
    let fixture = fixture(settings());
    let collection = fixture.collections.create(prompted("c")).await.expect("the name is free");
    let prompts = collection.describe().meta.prompts.expect("it has prompts");
    let passage = Prompt { name: "passage".into(), text: "passage ".into() };
    assert_eq!(prompts, Prompts { document: passage, query: Prompt { name: String::new(), text: "query: ".into() } });
    write(&collection, text(1, "sort", PromptChoice::Default)).await;
    let snapshot = fixture.collections.snapshot("c", "").await.expect("there is room");
    drop(collection);
    fixture.collections.close().await;

    let again = open(&fixture.engine, settings());
    again.restore(&snapshot.url, "copy").await.expect("it is whole");
    for name in ["c", "copy"] {
        let collection = again.get(name).expect("it is there");
        assert_eq!(collection.describe().meta.prompts.as_ref(), Some(&prompts), "{name}");
        write(&collection, text(2, "sort", PromptChoice::Default)).await;
        assert_eq!(vector(&collection, 2), embedded("passage sort"), "{name}");
    }
}

#[tokio::test]
async fn a_collection_without_prompts_leaves_the_prompt_to_the_model() {
    let fixture = fixture(Settings::default());
    let collection = fixture.collections.create(of_texts("c", false)).await.expect("the name is free");
    assert_eq!(collection.describe().meta.prompts, None);
    for role in [prompt::TextRole::Document, prompt::TextRole::Query] {
        assert_eq!(PromptChoice::Default.or_of(collection.meta(), role), PromptChoice::Default);
        assert_eq!(literal("").or_of(collection.meta(), role), literal(""));
    }
}

#[tokio::test]
async fn prompts_without_a_model_and_long_ones_are_refused_by_the_name_of_the_field() {
    let fixture = fixture(Settings::default());
    let refused = async |spec| message(fixture.collections.create(spec).await);
    let document = refused(NewCollection { document_prompt: named("passage"), ..spec("c") }).await;
    assert_eq!(document, "document_prompt_name: expected none in a collection without a model");
    let query = refused(NewCollection { query_prompt: literal(""), ..spec("c") }).await;
    assert_eq!(query, "query_prompt: expected none in a collection without a model");
    let long = NewCollection { query_prompt: literal(&"x".repeat(16_385)), ..of_texts("c", false) };
    assert_eq!(refused(long).await, "query_prompt: expected at most 16384 bytes, got 16385");
}
