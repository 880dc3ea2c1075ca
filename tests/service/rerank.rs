//! Reranking by cross-encoders: scores equal PyTorch's, invalid requests are refused.

use std::fs;

use accelerd::config::ByteSize;
use accelerd_parity::encoders;
use accelerd_proto::v1::{self, EmbedRequest, RerankRequest, RerankResponse, TextInput};
use tonic::{Code, Status};

use super::{
    harness::{TestServer, assert_refused, texts},
    models::source,
};

const QUERY: &str = "the def of a date";

async fn load(server: &TestServer, name: &str, folder: &str) {
    server.embed().load_model(source(name, folder)).await.expect("it is loaded");
}

/// A daemon with a cross-encoder for each kind of head, and an embedding model.
async fn start_server() -> TestServer {
    let server = TestServer::start_with(|config| config.models.folders = vec![encoders()]).await;
    load(&server, "ranks", "reranker-bert").await;
    load(&server, "bert", "bert").await;
    server
}

fn input(values: &[impl ToString]) -> TextInput {
    TextInput { values: values.iter().map(ToString::to_string).collect() }
}

fn of(model: &str, documents: &[impl ToString]) -> RerankRequest {
    let model = model.to_owned();
    let query = QUERY.to_owned();
    RerankRequest { model, query, documents: Some(input(documents)), ..RerankRequest::default() }
}

async fn rerank(server: &TestServer, request: RerankRequest) -> Result<RerankResponse, Status> {
    server.embed().rerank(request).await.map(tonic::Response::into_inner)
}

async fn ranked(server: &TestServer, request: RerankRequest) -> RerankResponse {
    rerank(server, request).await.expect("they are put in order")
}

/// The documents of a model's recorded run, the tokens of their pairs, and the logits.
fn expected(folder: &str) -> (Vec<String>, Vec<u32>, Vec<f32>) {
    let bytes = fs::read(encoders().join(folder).join("expected.json")).expect("it is there");
    let json: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    assert_eq!(json["query"], QUERY);
    let ids: Vec<Vec<u32>> = serde_json::from_value(json["ids"].clone()).expect("ids");
    let lengths = ids.iter().map(|ids| u32::try_from(ids.len()).expect("few ids")).collect();
    let of = |name: &str| json[name].clone();
    (
        serde_json::from_value(of("documents")).expect("documents"),
        lengths,
        serde_json::from_value(of("logits")).expect("logits"),
    )
}

#[tokio::test]
async fn documents_are_ranked_by_the_scores_that_pytorch_computed() {
    let server = start_server().await;
    for (name, folder) in [("roberta", "reranker-roberta"), ("modern", "reranker-modernbert-mean")] {
        load(&server, name, folder).await;
    }
    let models = [
        ("ranks", "reranker-bert", false),
        ("roberta", "reranker-roberta", true),
        ("modern", "reranker-modernbert-mean", true),
    ];
    for (name, folder, sigmoid) in models {
        let (documents, lengths, logits) = expected(folder);
        let raw = ranked(&server, RerankRequest { raw_scores: true, ..of(name, &documents) }).await;
        assert_eq!((raw.model.as_str(), &raw.token_counts), (name, &lengths));
        let mut indices: Vec<_> = raw.results.iter().map(|ranked| ranked.index).collect();
        for pair in raw.results.windows(2) {
            let in_order = pair[0].score > pair[1].score
                || (pair[0].score.to_bits() == pair[1].score.to_bits() && pair[0].index < pair[1].index);
            assert!(in_order, "{name}: {pair:?}");
        }
        for result in &raw.results {
            let logit = logits[result.index as usize];
            assert!((result.score - logit).abs() < 2e-4, "{name}: {result:?}, expected {logit}");
        }
        let plain = ranked(&server, of(name, &documents)).await;
        assert!(plain.results.iter().map(|ranked| ranked.index).eq(indices.iter().copied()), "the same order");
        for (plain, raw) in plain.results.iter().zip(&raw.results) {
            let expected = if sigmoid { 1.0 / (1.0 + (-raw.score).exp()) } else { raw.score };
            assert!((plain.score - expected).abs() < 1e-6, "{name}: {plain:?}, expected {expected}");
        }
        let best = ranked(&server, RerankRequest { top_n: 2, ..of(name, &documents) }).await;
        assert_eq!(best.results, plain.results[..2]);
        assert_eq!(best.token_counts, lengths);
        indices.sort_unstable();
        assert!(indices.into_iter().eq(0..9), "{name}: each document once");
    }
}

#[tokio::test]
async fn a_score_has_the_same_bits_alone_and_in_a_batch_of_five_hundred() {
    let server = start_server().await;
    let many: Vec<String> =
        (0..500).map(|i: usize| "a date of the file ".repeat(i % 5) + &"z ".repeat(i % 7)).collect();
    let crowd = ranked(&server, of("ranks", &many)).await;
    let score = |index: u32| crowd.results.iter().find(|result| result.index == index).expect("it is among them").score;
    for index in [0, 13, 250, 499] {
        let alone = ranked(&server, of("ranks", &many[index as usize..=index as usize])).await;
        assert_eq!(alone.results[0].score.to_bits(), score(index).to_bits(), "document {index}");
    }
    let equal: Vec<_> = crowd.results.iter().filter(|result| result.index % 35 == 3).collect();
    assert!(equal.len() > 10 && equal.windows(2).all(|pair| pair[0].index < pair[1].index), "ties by index");
}

#[tokio::test]
async fn long_documents_are_truncated_and_long_queries_refused_by_field() {
    let server = start_server().await;
    let long = ["a date ".repeat(100_000)];
    let cut = ranked(&server, of("ranks", &long)).await;
    assert_eq!(cut.token_counts, [40]);
    let start = ranked(&server, of("ranks", &["a date ".repeat(20)])).await;
    assert_eq!(start.results, cut.results, "the end is left out");
    let shorter = ranked(&server, RerankRequest { max_tokens: 12, ..of("ranks", &long) }).await;
    assert_eq!(shorter.token_counts, [12]);
    let query = RerankRequest { query: "a ".repeat(37), ..of("ranks", &["a"]) };
    assert_refused(rerank(&server, query.clone()).await, Code::InvalidArgument, "query");
    let status = rerank(&server, query).await.expect_err("refused");
    assert!(status.message().contains("at most 36 tokens"), "{status:?}");
    let fits = RerankRequest { query: "a ".repeat(36), ..of("ranks", &["a b"]) };
    assert_eq!(ranked(&server, fits).await.token_counts, [40]);
    let handed_over = RerankRequest { query: "a ".repeat(30_000), ..of("ranks", &["a"]) };
    assert_refused(rerank(&server, handed_over).await, Code::InvalidArgument, "query");
}

#[tokio::test]
async fn invalid_requests_are_refused_by_field() {
    let server = TestServer::start_with(|config| {
        config.models.folders = vec![encoders()];
        config.limits.max_texts = 10;
        config.limits.max_text_bytes = ByteSize::kib(1);
        config.limits.max_texts_bytes = ByteSize::kib(4);
    })
    .await;
    load(&server, "ranks", "reranker-bert").await;
    let fit = of("ranks", &["a", "b"]);
    let refused = [
        (RerankRequest { query: String::new(), ..fit.clone() }, "query"),
        (RerankRequest { documents: None, ..fit.clone() }, "documents.values"),
        (of("ranks", &[""; 0]), "documents.values"),
        (of("ranks", &["a"; 11]), "documents.values"),
        (of("ranks", &["a".to_owned(), "b".repeat(1025)]), "documents.values[1]"),
        (of("ranks", &vec!["b".repeat(1000); 5]), "documents.values"),
        (RerankRequest { query: "a".repeat(1025), ..fit.clone() }, "query"),
        (RerankRequest { query: "a".repeat(500), ..of("ranks", &["a"; 10]) }, "query"),
        (RerankRequest { max_tokens: 41, ..fit.clone() }, "max_tokens"),
        (RerankRequest { model: String::new(), ..fit.clone() }, "model"),
        (RerankRequest { model: "builtin".to_owned(), ..fit.clone() }, "model"),
    ];
    for (request, field) in refused {
        assert_refused(rerank(&server, request).await, Code::InvalidArgument, field);
    }
    let missing = RerankRequest { model: "nobody".to_owned(), ..fit.clone() };
    assert_refused(rerank(&server, missing).await, Code::NotFound, "nobody");
    let odd = ["", " ", "\u{0}\u{200b}", "[SEP] [CLS]", "数据 🙂"];
    let odd = ranked(&server, RerankRequest { top_n: u32::MAX, ..of("ranks", &odd) }).await;
    assert!(odd.results.len() == 5 && odd.results.iter().all(|result| result.score.is_finite()));
    server.assert_serving().await;
}

#[tokio::test]
async fn a_request_for_the_wrong_kind_of_model_names_the_right_call() {
    let server = start_server().await;
    let models = server.embed().list_models(v1::ListModelsRequest {}).await.expect("a list").into_inner().models;
    let reranks: Vec<_> = models.iter().map(|model| (model.name.as_str(), model.cross_encoder)).collect();
    assert_eq!(reranks, [("bert", false), ("builtin", false), ("ranks", true)]);
    assert!(models[2].supported_dimensions.is_empty() && models[2].max_tokens == 40);
    let status = rerank(&server, of("bert", &["a"])).await.expect_err("it embeds");
    let reason = "expected a cross-encoder, \"bert\" is an embedding model; loaded cross-encoders: ranks";
    assert!(status.code() == Code::InvalidArgument && status.message().contains(reason), "{status:?}");
    let embed = EmbedRequest { model: "ranks".to_owned(), ..texts(&["a"]) };
    let status = server.embed().embed(embed).await.expect_err("it scores");
    assert!(status.code() == Code::InvalidArgument, "{status:?}");
    assert!(status.message().contains("use Rerank"), "{status:?}");
    let collection = v1::CreateCollectionRequest {
        name: "code".to_owned(),
        model: "ranks".to_owned(),
        metric: v1::Metric::Cosine.into(),
        ..v1::CreateCollectionRequest::default()
    };
    assert_refused(server.similarity().create_collection(collection).await, Code::InvalidArgument, "model");
    let words = v1::TokenizeRequest { model: "ranks".to_owned(), texts: Some(input(&["a b"])), ..Default::default() };
    let words = server.embed().tokenize(words).await.expect("tokens").into_inner().tokens.expect("tokens");
    assert_eq!(words.ids, [2, 5, 6, 3]);
}

#[tokio::test]
async fn concurrent_calls_get_the_responses_of_single_calls() {
    let server = start_server().await;
    let request = |index: usize| {
        let documents: Vec<_> = (0..20 + index).map(|i| "a date of ".repeat((i + index) % 6)).collect();
        RerankRequest { query: "a ".repeat(1 + index % 9), ..of("ranks", &documents) }
    };
    let calls: Vec<_> = (0..24)
        .map(|index| {
            let mut embed = server.embed();
            let request = request(index);
            tokio::spawn(async move { embed.rerank(request).await })
        })
        .collect();
    for (index, call) in calls.into_iter().enumerate() {
        let together = call.await.expect("no panic").expect("an answer").into_inner();
        assert_eq!(together, ranked(&server, request(index)).await, "call {index}");
    }
}
