//! Prompts of collections: texts of points and of queries have their model's prompts, those of a call, or none.

use std::fs;

use accelerd_parity::encoders;
use accelerd_proto::v1;
use tempfile::TempDir;
use tonic::Code;

use super::{
    harness::{TestServer, assert_refused, f32s, numbers, tensor, texts},
    models::vectors,
};

const CONFIG: &str = "config_sentence_transformers.json";

/// A daemon with one model for each of these configurations, by name.
async fn with_models(configurations: &[(&str, &str)]) -> (TestServer, TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().to_owned();
    let server = TestServer::start_with(|config| config.models.folders = vec![path]).await;
    for (name, configuration) in configurations {
        let path = folder.path().join(name);
        fs::create_dir_all(path.join("1_Pooling")).expect("there is room");
        for file in ["config.json", "model.safetensors", "modules.json", "tokenizer.json", "1_Pooling/config.json"] {
            fs::copy(encoders().join("bert").join(file), path.join(file)).expect("there is room");
        }
        fs::write(path.join(CONFIG), configuration).expect("there is room");
        let path = path.to_string_lossy().into_owned();
        let precision = v1::Precision::F32.into();
        let request = v1::LoadModelRequest { name: (*name).to_owned(), path, precision, ..Default::default() };
        server.embed().load_model(request).await.expect("it is loaded");
    }
    (server, folder)
}

/// A model with a prompt for documents and one for queries.
const E5: (&str, &str) = ("e5", r#"{"prompts": {"passage": "def ", "query": "the ", "title": "of "}}"#);

fn new(name: &str, model: &str) -> v1::CreateCollectionRequest {
    v1::CreateCollectionRequest { name: name.into(), model: model.into(), ..Default::default() }
}

async fn create(server: &TestServer, request: v1::CreateCollectionRequest) -> v1::Collection {
    let created = server.similarity().create_collection(request).await.expect("it is made").into_inner();
    created.collection.expect("described")
}

fn input(text: &str) -> v1::TextInput {
    v1::TextInput { values: vec![text.to_owned()] }
}

fn upsert(collection: &str, id: u64, text: &str) -> v1::UpsertRequest {
    let points = Some(v1::upsert_request::Points::Texts(input(text)));
    v1::UpsertRequest { collection: collection.into(), ids: Some(numbers([id])), points, ..Default::default() }
}

fn search(collection: &str, text: &str) -> v1::SearchRequest {
    let query = Some(v1::search_request::Query::Texts(input(text)));
    v1::SearchRequest { collection: collection.into(), query, limit: 9, ..Default::default() }
}

async fn write(server: &TestServer, request: v1::UpsertRequest) {
    server.similarity().upsert(request).await.expect("it can be embedded");
}

async fn best(server: &TestServer, request: v1::SearchRequest) -> u64 {
    let found = server.similarity().search(request).await.expect("it can be searched").into_inner();
    match found.results[0].hits[0].id {
        Some(v1::hit::Id::Number(id)) => id,
        ref other => panic!("{other:?}"),
    }
}

async fn stored(server: &TestServer, collection: &str, id: u64) -> Vec<f32> {
    let ids = Some(numbers([id]));
    let request =
        v1::GetPointsRequest { collection: collection.into(), ids, include_vectors: true, ..Default::default() };
    let points = server.similarity().get_points(request).await.expect("it is there").into_inner();
    f32s(&points.vectors.expect("they were asked for"))
}

/// The unit vector of a text with this prompt.
async fn embedded(server: &TestServer, model: &str, prompt: &str, text: &str) -> Vec<f32> {
    let prompt = Some(prompt.to_owned());
    let request = v1::EmbedRequest { model: model.into(), prompt, normalize: Some(true), ..texts(&[text]) };
    vectors(server, request).await
}

fn prompts(collection: &v1::Collection) -> [(Option<&str>, &str); 2] {
    [
        (collection.document_prompt.as_deref(), &collection.document_prompt_name),
        (collection.query_prompt.as_deref(), &collection.query_prompt_name),
    ]
}

#[tokio::test]
async fn texts_of_a_collection_have_the_prompts_of_its_models_configuration() {
    let (server, _folder) = with_models(&[E5]).await;
    let made = create(&server, new("c", "e5")).await;
    assert_eq!(prompts(&made), [(Some("def "), "passage"), (Some("the "), "query")]);
    write(&server, upsert("c", 1, "open a file")).await;
    assert_eq!(stored(&server, "c", 1).await, embedded(&server, "e5", "def ", "open a file").await);
    assert_ne!(stored(&server, "c", 1).await, embedded(&server, "e5", "", "open a file").await);

    // Point 2 has the vector of the query with its prompt, and point 3 that without one.
    write(&server, v1::UpsertRequest { prompt_name: "query".into(), ..upsert("c", 2, "open a file") }).await;
    write(&server, v1::UpsertRequest { prompt: Some(String::new()), ..upsert("c", 3, "open a file") }).await;
    assert_eq!(best(&server, search("c", "open a file")).await, 2);
    let passage = v1::SearchRequest { prompt_name: "passage".into(), ..search("c", "open a file") };
    assert_eq!(best(&server, passage).await, 1);
    let none = v1::SearchRequest { prompt: Some(String::new()), ..search("c", "open a file") };
    assert_eq!(best(&server, none).await, 3);
    let listed = server.similarity().list_collections(v1::ListCollectionsRequest {}).await.expect("listed");
    assert_eq!(prompts(&listed.into_inner().collections[0]), prompts(&made));
}

#[tokio::test]
async fn a_collection_may_have_other_prompts_of_its_model_or_of_its_creators_words() {
    let (server, _folder) = with_models(&[E5]).await;
    let request = v1::CreateCollectionRequest {
        document_prompt_name: "title".into(),
        query_prompt: Some("class ".into()),
        ..new("c", "e5")
    };
    assert_eq!(prompts(&create(&server, request).await), [(Some("of "), "title"), (Some("class "), "")]);
    write(&server, upsert("c", 1, "a file")).await;
    assert_eq!(stored(&server, "c", 1).await, embedded(&server, "e5", "of ", "a file").await);
    let none = v1::CreateCollectionRequest { document_prompt: Some(String::new()), ..new("d", "e5") };
    assert_eq!(prompts(&create(&server, none).await), [(Some(""), ""), (Some("the "), "query")]);
    write(&server, upsert("d", 1, "a file")).await;
    assert_eq!(stored(&server, "d", 1).await, embedded(&server, "e5", "", "a file").await);
}

#[tokio::test]
async fn the_default_prompt_of_a_model_is_that_of_roles_without_one_and_a_model_without_prompts_has_none() {
    let defaults = r#"{"prompts": {"find": "the ", "document": ""}, "default_prompt_name": "find"}"#;
    let (server, _folder) = with_models(&[("default", defaults), ("plain", "{}")]).await;
    let made = create(&server, new("c", "default")).await;
    assert_eq!(prompts(&made), [(Some(""), "document"), (Some("the "), "find")]);
    write(&server, upsert("c", 1, "a file")).await;
    assert_eq!(stored(&server, "c", 1).await, embedded(&server, "default", "", "a file").await);
    for (name, model) in [("plain", "plain"), ("words", "builtin")] {
        assert_eq!(prompts(&create(&server, new(name, model)).await), [(None, ""), (None, "")]);
    }
    let words = v1::UpsertRequest { prompt: Some("the ".into()), ..upsert("words", 1, "a file") };
    write(&server, words).await;
    assert_eq!(stored(&server, "words", 1).await, embedded(&server, "builtin", "the ", "a file").await);
}

#[tokio::test]
async fn prompts_that_a_model_does_not_have_and_prompts_without_texts_are_refused_by_field() {
    let (server, _folder) = with_models(&[E5, ("plain", "{}")]).await;
    create(&server, new("c", "e5")).await;
    let poem = || "poem".to_owned();
    let creations = [
        (v1::CreateCollectionRequest { document_prompt_name: poem(), ..new("d", "e5") }, "document_prompt_name"),
        (v1::CreateCollectionRequest { query_prompt_name: poem(), ..new("d", "plain") }, "query_prompt_name"),
        (v1::CreateCollectionRequest { query_prompt: Some(poem()), dimensions: 2, ..new("d", "") }, "query_prompt"),
        (
            v1::CreateCollectionRequest {
                document_prompt: Some(poem()),
                document_prompt_name: "passage".into(),
                ..new("d", "e5")
            },
            "document_prompt",
        ),
    ];
    for (request, field) in creations {
        assert_refused(server.similarity().create_collection(request).await, Code::InvalidArgument, field);
    }
    let refused = v1::UpsertRequest { prompt_name: poem(), ..upsert("c", 1, "a file") };
    let refused = server.similarity().upsert(refused).await;
    let message = refused.as_ref().expect_err("it has no such prompt").message().to_owned();
    assert!(message.contains(r#""e5" has no prompt "poem", expected one of: passage, query, title"#), "{message}");
    assert_refused(refused, Code::InvalidArgument, "prompt_name");
    let points = Some(v1::upsert_request::Points::Vectors(tensor(&[1, 32], &[0.5; 32])));
    let vectors = v1::UpsertRequest { prompt: Some(poem()), points, ..upsert("c", 1, "") };
    assert_refused(server.similarity().upsert(vectors).await, Code::InvalidArgument, "prompt");
    let query = Some(v1::search_request::Query::Ids(numbers([1])));
    let ids = v1::SearchRequest { prompt_name: "query".into(), query, ..search("c", "") };
    assert_refused(server.similarity().search(ids).await, Code::InvalidArgument, "prompt_name");
    let both = v1::UpsertRequest { prompt: Some(poem()), prompt_name: "query".into(), ..upsert("c", 1, "a file") };
    assert_refused(server.similarity().upsert(both).await, Code::InvalidArgument, "with prompt_name, got both");
    let both = v1::SearchRequest { prompt: Some(poem()), prompt_name: "query".into(), ..search("c", "a file") };
    assert_refused(server.similarity().search(both).await, Code::InvalidArgument, "with prompt_name, got both");
    let unknown = v1::SearchRequest { prompt_name: poem(), ..search("c", "a file") };
    assert_refused(server.similarity().search(unknown).await, Code::InvalidArgument, "prompt_name");
    let long = v1::SearchRequest { prompt: Some("x".repeat((1 << 20) + 1)), ..search("c", "a file") };
    assert_refused(server.similarity().search(long).await, Code::InvalidArgument, "prompt");
}

#[tokio::test]
async fn batches_of_a_stream_have_prompts_of_their_own() {
    let (server, _folder) = with_models(&[E5]).await;
    create(&server, new("c", "e5")).await;
    let named = v1::UpsertRequest { prompt_name: "title".into(), ..upsert("c", 2, "a file") };
    let unknown = v1::UpsertRequest { prompt_name: "poem".into(), ..upsert("c", 3, "a file") };
    let batches = (0..).zip([upsert("c", 1, "a file"), named, unknown]);
    let batches = batches.map(|(sequence, upsert)| v1::UpsertStreamRequest { sequence, upsert: Some(upsert) });
    let stream = tokio_stream::iter(batches.collect::<Vec<_>>());
    let mut answers = server.similarity().upsert_stream(stream).await.expect("the stream opens").into_inner();
    let mut failed = vec![];
    while let Some(answer) = answers.message().await.expect("the stream goes on") {
        if let Some(v1::upsert_stream_response::Result::Error(error)) = answer.result {
            failed.push((answer.sequence, error.message));
        }
    }
    assert!(matches!(&failed[..], [(2, message)] if message.starts_with("prompt_name: ")), "{failed:?}");
    assert_eq!(stored(&server, "c", 1).await, embedded(&server, "e5", "def ", "a file").await);
    assert_eq!(stored(&server, "c", 2).await, embedded(&server, "e5", "of ", "a file").await);
}
