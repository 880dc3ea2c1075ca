//! Tests of the client against a fake daemon that fails on demand.

use std::{collections::BTreeSet, num::NonZero, time::Duration};

use accelerd_client::{
    Builder, Client, ClusterOptions, Code, CollectionOptions, EmbedOptions, Error, Filter, Ids, Matrix, MatrixRef,
    Payload, Points, Prompt, RerankOptions, RetryPolicy, SearchOptions, SimilarOptions, Upsert, proto,
};
use accelerd_test_support::{DIM, FakeDaemon, REPORT, busy, tensor};
use futures::{StreamExt, TryStreamExt, stream};
use tonic::Status;
use tonic_types::{ErrorDetails, StatusExt};

const QUICK: RetryPolicy =
    RetryPolicy { max_attempts: 4, first_wait: Duration::from_millis(1), max_wait: Duration::from_millis(2) };

async fn connected(fake: &FakeDaemon) -> Client {
    let url = format!("http://{}", fake.listen().await);
    Builder::new(url).retry(QUICK).timings(true).connect().await.expect("the fake listens")
}

fn text_collection() -> CollectionOptions {
    CollectionOptions { model: "toy".into(), ..Default::default() }
}

#[tokio::test]
async fn unavailable_is_retried_until_it_succeeds() {
    let fake = FakeDaemon::default();
    let client = connected(&fake).await;
    fake.fail_next([Status::unavailable("draining"), busy(Some(Duration::from_millis(1)))]);
    let embeddings = client.embed(["open a socket"]).await.expect("the third attempt succeeds");
    assert_eq!(embeddings.vectors.rows(), 1);
    assert_eq!(fake.state().calls, ["Embed", "Embed", "Embed"]);
}

#[tokio::test]
async fn calls_are_spread_round_robin_over_connections_that_clones_share() {
    let fake = FakeDaemon::default();
    let url = format!("http://{}", fake.listen().await);
    let three = Builder::new(&url).connections(NonZero::new(3).expect("three"));
    for client in [three.clone().connect().await, three.connect_lazy()] {
        let client = client.expect("the fake listens");
        for client in [client.clone(), client.clone(), client].iter().cycle().take(9) {
            client.models().await.expect("it answers");
        }
        let peers = std::mem::take(&mut fake.state().peers);
        let each: BTreeSet<_> = peers[..3].iter().flatten().collect();
        assert_eq!(each.len(), 3, "{peers:?}");
        assert!(peers.chunks(3).all(|turn| turn == &peers[..3]), "{peers:?}");
    }
}

#[tokio::test]
async fn attempts_are_bounded_and_counted() {
    let fake = FakeDaemon::default();
    let client = connected(&fake).await;
    fake.fail_next((0..9).map(|_| Status::unavailable("draining")));
    let error = client.models().await.expect_err("every attempt fails");
    let failure = error.failure().expect("the daemon said why");
    assert_eq!((failure.code, failure.attempts), (Code::Unavailable, QUICK.max_attempts));
    assert_eq!(fake.state().calls.len(), 4);
}

#[tokio::test]
async fn exhaustion_without_retry_info_and_invalid_arguments_are_final() {
    let fake = FakeDaemon::default();
    let client = connected(&fake).await;
    for status in [busy(None), Status::invalid_argument("k: expected 1 or more, got 0"), Status::internal("kernel")] {
        let code = status.code();
        fake.fail_next([status]);
        assert_eq!(client.models().await.expect_err("it was refused").code(), code);
    }
    assert_eq!(fake.state().calls.len(), 3);
}

#[tokio::test]
async fn creating_a_collection_is_retried_only_with_retry_info() {
    let fake = FakeDaemon::default();
    let collection = connected(&fake).await.collection("code");
    fake.fail_next([Status::unavailable("connection lost")]);
    assert!(collection.create(&text_collection()).await.is_err());
    assert_eq!(fake.state().calls.len(), 1);
    fake.fail_next([busy(Some(Duration::from_millis(1)))]);
    assert!(collection.create(&text_collection()).await.is_ok());
    assert_eq!(fake.state().calls.len(), 3);
}

#[tokio::test]
async fn a_retry_after_the_deadline_is_not_made() {
    let fake = FakeDaemon::default();
    let client = connected(&fake).await.with_deadline(Duration::from_secs(5));
    fake.fail_next([busy(Some(Duration::from_secs(3600)))]);
    let error = client.models().await.expect_err("it cannot succeed in time");
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3600)));
}

#[tokio::test]
async fn a_hanging_daemon_fails_at_the_deadline() {
    let fake = FakeDaemon::default();
    let deadline = Duration::from_millis(30);
    let client = connected(&fake).await.with_deadline(deadline);
    fake.state().hang = true;
    let error = client.models().await.expect_err("nothing answers");
    assert!(matches!(error, Error::Deadline { deadline: told, .. } if told == deadline), "{error:?}");
}

#[tokio::test]
async fn batches_have_sequences_and_fail_independently() {
    let client = connected(&FakeDaemon::default()).await;
    let batches = vec![vec!["open a socket".to_owned()], vec![], vec!["a".to_owned(), "b c".to_owned()]];
    let outcomes = client.embed_stream(stream::iter(batches), &EmbedOptions::default()).await.expect("it opens");
    let outcomes: Vec<_> = outcomes.try_collect().await.expect("each batch is answered");
    assert_eq!(outcomes.iter().map(|outcome| outcome.sequence).collect::<Vec<_>>(), [1, 0, 2]);
    assert_eq!(outcomes[0].result.as_ref().expect_err("there were no texts").code(), Code::InvalidArgument);
    let [first, last] = [1, 2].map(|at: usize| outcomes[at].result.as_ref().expect("vectors"));
    assert_eq!((first.token_counts.as_slice(), last.token_counts.as_slice()), ([3].as_slice(), [1, 2].as_slice()));
    assert_eq!((last.vectors.rows(), last.vectors.dim()), (2, DIM));
}

#[tokio::test]
async fn field_violations_and_resources_reach_the_caller() {
    let fake = FakeDaemon::default();
    let client = connected(&fake).await;
    let details = ErrorDetails::with_bad_request_violation("queries.shape", "expected 2 extents, got 3");
    fake.fail_next([Status::with_error_details(tonic::Code::InvalidArgument, "bad request", details)]);
    let error = client.models().await.expect_err("it was refused");
    let violations = &error.failure().expect("the daemon said why").violations;
    assert_eq!(violations[0].field, "queries.shape");
    assert_eq!(error.to_string(), "bad request; queries.shape: expected 2 extents, got 3");

    let error = client.collection("nowhere").get().await.expect_err("it does not exist");
    let resource = error.failure().and_then(|f| f.resource.clone());
    assert_eq!(resource, Some(("collection".to_owned(), "it".to_owned())));
    assert!(error.is_not_found());
}

#[tokio::test]
async fn a_refused_connection_is_a_connect_error_that_names_the_address() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("a bound address"));
    drop(listener);
    let error = Client::connect(url.clone()).await.expect_err("nobody listens");
    assert!(matches!(&error, Error::Connect { url: named, .. } if *named == url), "{error:?}");
}

#[tokio::test]
async fn a_unix_socket_and_several_daemons_work_like_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("daemon.sock");
    FakeDaemon::default().listen_unix(&path);
    let client = Client::connect(format!("unix://{}", path.display())).await.expect("the socket is there");
    assert_eq!(client.embed(["a"]).await.expect("it answers").vectors.dim(), DIM);

    let (one, two) = (FakeDaemon::default(), FakeDaemon::default());
    let builder = Client::builder(one.listen().await.to_string()).and(two.listen().await.to_string());
    let client = builder.connect().await.expect("nothing is connected yet");
    assert!(client.health("").await.expect("one of them answers"));
}

#[tokio::test]
async fn similar_rows_come_back_best_first() {
    let client = connected(&FakeDaemon::default()).await;
    let corpus = Matrix::new(vec![1.0, 0.0, 0.0, 1.0, 0.6, 0.8], 2).expect("three rows");
    let query = [0.0, 1.0];
    let query = MatrixRef::new(&query, 2).expect("one row");
    let similar = client.find_similar(query, &corpus, &SimilarOptions::cosine(2)).await.expect("it answers");
    assert_eq!(similar.indices.as_slice(), [1, 2]);
    assert_eq!(similar.scores.row(0), Some(&[1.0, 0.8][..]));
}

#[tokio::test]
async fn a_collection_lives_from_create_to_delete() {
    let client = connected(&FakeDaemon::default()).await;
    let code = client.collection("code");
    code.create(&text_collection()).await.expect("made");
    let payload = |path: &str| Payload::from([("path".to_owned(), path.into())]);
    let ids = Ids::from(vec!["u1".to_owned(), "u2".to_owned()]);
    let done = code
        .upsert_texts(ids.clone(), ["open a socket", "parse a date"], vec![payload("net.py"), payload("date.py")])
        .await
        .expect("written");
    assert_eq!((done.inserted, done.updated), (2, 0));

    let found = code.search_text(["socket"], &SearchOptions::limit(5)).await.expect("found");
    assert_eq!(found.results[0][0].payload["path"], "net.py".into());
    assert_eq!(found.timings.get("execute"), Some(Duration::from_micros(1500)));
    let only_dates = SearchOptions::limit(5).filter(Filter::new().equals("path", "date.py"));
    let found = code.search_text(["socket"], &only_dates).await.expect("found");
    assert_eq!(found.results[0].len(), 1);

    let points = code.get_points(ids, true).await.expect("read");
    assert_eq!(points.payloads.len(), 2);
    assert_eq!(points.vectors.expect("asked for").rows(), 2);

    let clusters = client.cluster_collection("code", &ClusterOptions::clusters(2)).await.expect("clustered");
    assert_eq!(clusters.assignments.as_slice(), [0, 1]);
    assert_eq!(clusters.ids.map(|ids| ids.len()), Some(2));

    assert_eq!(code.delete_points(Filter::new().equals("path", "net.py")).await.expect("deleted"), 1);
    assert_eq!(client.collections().await.expect("listed")[0].point_count, 1);
    code.delete().await.expect("dropped");
    assert!(code.get().await.expect_err("it is gone").is_not_found());
}

#[tokio::test]
async fn prompts_are_sent_by_name_or_by_text() {
    let fake = FakeDaemon::default();
    let code = connected(&fake).await.collection("code");
    let document_prompt = Prompt::Named("passage".into());
    let options = CollectionOptions { document_prompt, query_prompt: Prompt::none(), ..text_collection() };
    let made = code.create(&options).await.expect("made");
    assert_eq!((made.document_prompt_name.as_str(), made.document_prompt.as_deref()), ("passage", Some("passage: ")));
    assert_eq!((made.query_prompt_name.as_str(), made.query_prompt.as_deref()), ("", Some("")));
    code.upsert_texts(vec![1_u64], ["open a socket"], vec![]).await.expect("written");
    let points = Points::Texts(vec!["open a socket".into()]);
    let prompt = Prompt::Text("title: ".into());
    code.upsert(Upsert { ids: vec![2_u64].into(), points, payloads: vec![], prompt }).await.expect("written");
    let named = SearchOptions::limit(1).prompt(Prompt::Named("query".into()));
    for options in [SearchOptions::limit(1), named, SearchOptions::limit(1).prompt(Prompt::none())] {
        code.search_text(["open"], &options).await.expect("found");
    }
    let expected = [("", None), ("", Some("title: ")), ("", None), ("query", None), ("", Some(""))];
    let expected = expected.map(|(name, text)| (name.to_owned(), text.map(str::to_owned)));
    assert_eq!(fake.state().prompts, expected);
}

#[tokio::test]
async fn a_failed_batch_does_not_end_the_stream() {
    let fake = FakeDaemon::default();
    let code = connected(&fake).await.collection("code");
    code.create(&text_collection()).await.expect("made");
    fake.state().failing_step = Some(1);
    let step = |n: u64| {
        let points = Points::Vectors(tensor(&[vec![1.0; DIM]]));
        Upsert { ids: vec![n].into(), points, payloads: vec![], prompt: Prompt::Default }
    };
    let outcomes = code.upsert_stream(stream::iter(0..3).map(step)).await.expect("the stream opens");
    let outcomes: Vec<_> = outcomes.try_collect().await.expect("every step is answered");
    let failed: Vec<_> = outcomes.iter().filter(|o| o.result.is_err()).map(|o| o.sequence).collect();
    assert_eq!((outcomes.len(), failed), (3, vec![1]));
    assert_eq!(code.get().await.expect("it is there").point_count, 2);
}

#[tokio::test]
async fn device_calls_succeed() {
    let client = connected(&FakeDaemon::default()).await;
    assert!(client.devices().await.expect("listed").fallback_reason.contains("libcuda"));
    assert_eq!(client.stats().await.expect("counted").lanes[0].name, "embed");
    let samples = client.watch(Duration::from_secs(1)).await.expect("the stream opens");
    assert_eq!(samples.try_collect::<Vec<_>>().await.expect("it ends well").len(), 2);
    assert!(client.drain(Some(Duration::from_secs(1))).await.expect("drained").complete);
    assert!(client.resume().await.expect("serving again"));
    assert_eq!(client.export_report().await.expect("written"), REPORT);
    let tokens = client.tokenize("", ["ab", "", "c"]).await.expect("split");
    assert_eq!(tokens.iter().map(<[u32]>::len).collect::<Vec<_>>(), [2, 0, 1]);
}

/// A client of the same daemon whose messages have few bytes, and one whose messages have many.
async fn small_and_large(fake: &FakeDaemon) -> [Client; 2] {
    let url = format!("http://{}", fake.listen().await);
    let of = |bytes| Builder::new(&url).max_message_bytes(bytes).connect_lazy().expect("an address");
    [of(16 << 10), of(64 << 20)]
}

/// Texts of up to 2,000 bytes, some of which share a word with others.
fn long_texts() -> Vec<String> {
    (0..40_usize).map(|nth| format!("{} {}", ["open", "socket", "file"][nth % 3], "x ".repeat(nth * 25))).collect()
}

#[tokio::test]
async fn results_do_not_depend_on_how_a_call_is_split() {
    let fake = FakeDaemon::default();
    let [small, large] = small_and_large(&fake).await;
    let texts = long_texts();
    let count = |call| std::mem::take(&mut fake.state().calls).iter().filter(|made| **made == call).count();

    for top_n in [0, 5] {
        let options = RerankOptions { top_n, ..RerankOptions::default() };
        let whole = large.rerank("toy", "open a socket", &texts, &options).await.expect("an answer");
        assert_eq!(count("Rerank"), 1);
        let parts = small.rerank("toy", "open a socket", &texts, &options).await.expect("answers");
        assert!(count("Rerank") > 3);
        assert_eq!(parts, whole);
        assert_eq!(parts.results.len(), if top_n == 0 { 40 } else { 5 });
    }

    let whole = large.tokenize("toy", &texts).await.expect("tokens");
    assert_eq!(count("Tokenize"), 1);
    assert_eq!(small.tokenize("toy", &texts).await.expect("tokens"), whole);
    assert!(count("Tokenize") > 3);

    let options = EmbedOptions::default();
    let of_texts = large.embed_with(&texts, &options).await.expect("vectors");
    let of_tokens = large.embed_tokens(whole.clone(), &options).await.expect("vectors");
    assert_eq!(count("Embed"), 2);
    assert_eq!(small.embed_with(&texts, &options).await.expect("vectors"), of_texts);
    assert!(count("Embed") > 3);
    assert_eq!(small.embed_tokens(whole, &options).await.expect("vectors"), of_tokens);
    assert!(count("Embed") > 3);
}

#[tokio::test]
async fn spans_are_sent_with_the_part_that_has_their_text() {
    let fake = FakeDaemon::default();
    let [small, large] = small_and_large(&fake).await;
    let texts = long_texts();
    let span = |text| proto::Span { text, start: 0, end: 4 };
    let options = EmbedOptions { spans: [3, 3, 36, 39].map(span).into(), ..EmbedOptions::default() };
    let whole = large.embed_with(&texts, &options).await.expect("vectors");
    assert_eq!(whole.vectors.rows(), 4);
    assert_eq!(small.embed_with(&texts, &options).await.expect("vectors"), whole);
    let outside = EmbedOptions { spans: vec![span(40)], ..EmbedOptions::default() };
    for client in [small, large] {
        let refused = client.embed_with(&texts, &outside).await.expect_err("there is no such text");
        assert_eq!(refused.code(), Code::InvalidArgument);
    }
}

#[tokio::test]
async fn a_part_that_the_daemon_finds_too_large_is_halved() {
    let fake = FakeDaemon::default();
    let client = connected(&fake).await;
    let too_large = || {
        let details = ErrorDetails::with_error_info("MESSAGE_TOO_LARGE", "accelerd", []);
        Status::with_error_details(Code::ResourceExhausted, "the message exceeds 8 bytes", details)
    };
    fake.fail_next([too_large(), too_large()]);
    let tokens = client.tokenize("toy", ["ab", "", "c", "def"]).await.expect("tokens");
    assert_eq!(tokens.offsets, [0, 2, 2, 3, 6]);
    assert_eq!(fake.state().calls.len(), 5, "four texts, two and two, one and one and two");
    fake.fail_next([too_large()]);
    let error = client.tokenize("toy", ["abc"]).await.expect_err("it cannot be halved");
    assert_eq!(error.to_string(), "texts[0]: the message exceeds 8 bytes");
    let none: [&str; 0] = [];
    assert_eq!(client.tokenize("toy", none).await.expect("tokens").offsets, [0]);
}

#[tokio::test]
async fn documents_are_ranked_with_the_requested_options() {
    let fake = FakeDaemon::default();
    let client = connected(&fake).await;
    fake.fail_next([Status::unavailable("draining")]);
    let documents = ["close a file", "open a socket", "open"];
    let ranked = client.rerank("toy", "open a socket", documents, &RerankOptions::default()).await.expect("an answer");
    let order: Vec<_> = ranked.results.iter().map(|ranked| (ranked.index, ranked.score)).collect();
    assert_eq!(order, [(1, 3.0), (0, 1.0), (2, 1.0)]);
    assert_eq!((ranked.model.as_str(), ranked.token_counts.as_slice()), ("toy", [12, 13, 4].as_slice()));
    assert_eq!(fake.state().calls, ["Rerank", "Rerank"], "asked again after a refusal");
    let options = RerankOptions { top_n: 1, raw_scores: true, max_tokens: 9 };
    let best = client.rerank("toy", "open a socket", documents, &options).await.expect("an answer");
    assert_eq!(best.results.iter().map(|ranked| ranked.score).collect::<Vec<_>>(), [30.0]);
    let refused = client.rerank("toy", "", documents, &options).await.expect_err("no query");
    assert_eq!(refused.code(), Code::InvalidArgument);
}
