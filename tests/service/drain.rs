//! Streams while the daemon shuts down, and clients that go on with the next daemon.

use std::{net::SocketAddr, time::Duration};

use accelerd::serve::Drained;
use accelerd_client::{Client, EmbedOptions, KernelProgram, ParseOptions, Verification};
use accelerd_proto::v1;
use bytes::Bytes;
use futures::{StreamExt, channel::mpsc};
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt;

use super::harness::{TestServer, numbers, texts};

/// Shuts a daemon down. Returns its address.
async fn shut_down(server: TestServer) -> SocketAddr {
    let address = server.daemon.grpc_addr();
    let drained = server.daemon.shutdown().await;
    let expected = Drained { complete: true, aborted_connections: 0, aborted_calls: 0, hung: vec![] };
    assert_eq!(drained, expected);
    address
}

/// Sends two messages, which are answered, and shuts the daemon down while the stream is open.
async fn ends_well<Q, R: std::fmt::Debug>(
    server: TestServer,
    input: mpsc::UnboundedSender<Q>,
    mut responses: Streaming<R>,
    message: impl Fn(u64) -> Q,
) {
    for sequence in 0..2 {
        input.unbounded_send(message(sequence)).expect("the stream is open");
        responses.message().await.expect("it is answered").expect("it is open");
    }
    shut_down(server).await;
    assert_draining(&responses.message().await.expect_err("the daemon drains"));
    drop(input);
}

fn assert_draining(status: &Status) {
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    assert!(status.get_details_retry_info().is_some_and(|info| info.retry_delay.is_some()), "{status:?}");
}

#[tokio::test]
async fn an_open_stream_of_embeddings_ends_unavailable_when_the_daemon_shuts_down() {
    let server = TestServer::start().await;
    let (input, requests) = mpsc::unbounded();
    let responses = server.embed().embed_stream(requests).await.expect("it opens").into_inner();
    let message = |sequence| v1::EmbedStreamRequest { sequence, embed: Some(texts(&["open a socket"])) };
    ends_well(server, input, responses, message).await;
}

#[tokio::test]
async fn an_open_stream_of_parses_ends_unavailable_when_the_daemon_shuts_down() {
    let server = TestServer::start().await;
    let (input, requests) = mpsc::unbounded();
    let responses = server.parse().parse_stream(requests).await.expect("it opens").into_inner();
    let parse = || v1::ParseRequest { sources: vec![Bytes::from_static(b"x = 1")], ..Default::default() };
    ends_well(server, input, responses, |sequence| v1::ParseStreamRequest { sequence, parse: Some(parse()) }).await;
}

#[tokio::test]
async fn an_open_stream_of_upserts_ends_unavailable_when_the_daemon_shuts_down() {
    let server = TestServer::start().await;
    server.collection("code", 2, v1::Metric::Cosine).await;
    let (input, requests) = mpsc::unbounded();
    let responses = server.similarity().upsert_stream(requests).await.expect("it opens").into_inner();
    let upsert = |id| v1::UpsertRequest {
        collection: "code".into(),
        ids: Some(numbers([id])),
        points: Some(v1::upsert_request::Points::Vectors(super::harness::tensor(&[1, 2], &[1.0, 2.0]))),
        ..Default::default()
    };
    ends_well(server, input, responses, |sequence| v1::UpsertStreamRequest {
        sequence,
        upsert: Some(upsert(sequence)),
    })
    .await;
}

#[tokio::test]
async fn a_stream_of_statistics_ends_unavailable_when_the_daemon_shuts_down() {
    let server = TestServer::start().await;
    let mut samples = server.device().watch(v1::WatchRequest::default()).await.expect("it opens").into_inner();
    samples.message().await.expect("a sample").expect("it is open");
    shut_down(server).await;
    assert_draining(&samples.message().await.expect_err("the daemon drains"));
}

#[tokio::test]
async fn every_batch_that_was_accepted_is_answered_before_the_stream_ends() {
    let server = TestServer::start().await;
    let (input, requests) = mpsc::unbounded();
    let mut responses = server.embed().embed_stream(requests).await.expect("it opens").into_inner();
    let long = "a long text ".repeat(20_000);
    for sequence in 0..6 {
        let message = v1::EmbedStreamRequest { sequence, embed: Some(texts(&[&long])) };
        input.unbounded_send(message).expect("the stream is open");
    }
    let first = responses.message().await.expect("it is answered").expect("it is open");
    let shutting_down = tokio::spawn(shut_down(server));
    let mut answered = vec![first.sequence];
    let end = loop {
        match responses.message().await {
            Ok(Some(response)) => answered.push(response.sequence),
            Ok(None) => panic!("the stream ended well after {answered:?}"),
            Err(status) => break status,
        }
    };
    assert_draining(&end);
    answered.sort_unstable();
    let expected: Vec<_> = (0..answered.len() as u64).collect();
    assert_eq!(answered, expected, "batches are accepted in order");
    shutting_down.await.expect("the drain is complete");
}

#[tokio::test]
async fn a_verification_that_outlasts_the_drain_ends_unavailable() {
    let server = TestServer::start().await;
    let client = Client::connect(format!("http://{}", server.daemon.grpc_addr())).await.expect("it listens");
    let client = client.with_deadline(Duration::from_secs(3600));
    let source = "def f(x: float) -> float:\n    return x * x + 1.0\n";
    let verification = Verification::of(KernelProgram::new(source)).against(KernelProgram::new(source));
    let verification = verification.generate(1_000_000_000, 7);
    let mut verdicts = client.verify(&verification, futures::stream::empty()).await.expect("it begins");
    assert!(verdicts.next().await.expect("a chunk is verified").is_some());
    let shutting_down = tokio::spawn(server.daemon.shutdown_within(Duration::from_secs(2)));
    let error = loop {
        match verdicts.next().await {
            Ok(verdicts) => assert!(verdicts.is_some(), "a billion cases are not verified in two seconds"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), Code::Unavailable, "{error}");
    assert!(error.retry_after().is_some(), "{error:?}");
    let drained = shutting_down.await.expect("it ends");
    assert!(!drained.complete && drained.aborted_calls == 1, "{drained:?}");
}

#[tokio::test]
async fn streams_of_a_client_go_on_with_the_next_daemon() {
    let server = TestServer::start().await;
    let client = Client::connect(format!("http://{}", server.daemon.grpc_addr())).await.expect("it listens");
    let (texts, batches) = mpsc::unbounded();
    let mut embedded = client.embed_stream(batches, &EmbedOptions::default()).await.expect("it opens");
    let (sources, batches) = mpsc::unbounded();
    let mut parsed = client.parse_stream(batches, &ParseOptions::default()).await.expect("it opens");
    let send = |count: usize| {
        for nth in 0..count {
            texts.unbounded_send(vec![format!("text {nth}")]).expect("the stream is open");
            sources.unbounded_send(vec![Bytes::from(format!("x{nth} = {nth}"))]).expect("the stream is open");
        }
    };
    send(2);
    let mut sequences = vec![];
    for _ in 0..2 {
        let outcome = embedded.next().await.expect("it is open").expect("it goes on");
        assert_eq!(outcome.result.expect("vectors").vectors.rows(), 1);
        sequences.push(outcome.sequence);
        parsed.next().await.expect("it is open").expect("it goes on").result.expect("a tree");
    }
    let address = shut_down(server).await;
    let _next = TestServer::start_with(|config| config.server.listen = address).await;
    send(3);
    drop((texts, sources));
    while let Some(outcome) = embedded.next().await {
        let outcome = outcome.expect("it goes on");
        assert_eq!(outcome.result.expect("vectors").vectors.rows(), 1);
        sequences.push(outcome.sequence);
    }
    sequences.sort_unstable();
    assert_eq!(sequences, [0, 1, 2, 3, 4]);
    let rest: Vec<_> = parsed.map(|outcome| outcome.expect("it goes on").sequence).collect().await;
    assert_eq!(rest.len(), 3, "{rest:?}");
}
