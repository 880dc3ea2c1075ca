//! Invalid input: the documented code, a message that names the field, and a daemon that keeps serving.

use std::time::Duration;

use accelerd_proto::{
    methods::METHODS,
    v1::{self, Metric, embed_service_client::EmbedServiceClient},
};
use bytes::Bytes;
use h2::client::ResponseFuture;
use tonic::{Code, Request, Status};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_types::StatusExt;

use super::{
    flow_control::{open, raw},
    harness::{TestServer, assert_refused, bare, connect, numbers, status_within, tensor, texts},
};

fn find_similar(queries: v1::Tensor, corpus: v1::Tensor, k: u32) -> v1::FindSimilarRequest {
    v1::FindSimilarRequest { queries: Some(queries), corpus: Some(corpus), k, ..v1::FindSimilarRequest::default() }
}

fn good() -> v1::Tensor {
    tensor(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
}

#[tokio::test]
async fn find_similar_refuses_malformed_tensors_by_field() {
    let server = TestServer::start().await;
    let with = |change: fn(&mut v1::Tensor)| {
        let mut tensor = good();
        change(&mut tensor);
        tensor
    };
    let cases = [
        (find_similar(with(|t| t.shape = vec![2, 4]), good(), 1), "queries"),
        (find_similar(with(|t| t.shape = vec![6]), good(), 1), "queries.shape"),
        (find_similar(with(|t| t.shape = vec![-2, -3]), good(), 1), "queries.shape"),
        (find_similar(with(|t| t.shape = vec![i64::MAX, i64::MAX]), good(), 1), "queries"),
        (find_similar(with(|t| t.shape = vec![0, 3]), good(), 1), "queries"),
        (find_similar(with(|t| t.dtype = v1::Dtype::F64.into()), good(), 1), "queries.dtype"),
        (find_similar(with(|t| t.dtype = 77), good(), 1), "queries.dtype"),
        (find_similar(good(), with(|t| t.data.truncate(23)), 1), "corpus"),
        (find_similar(tensor(&[1, 2], &[1.0, 2.0]), good(), 1), "corpus"),
        (find_similar(tensor(&[1, 3], &[1.0, f32::NAN, 2.0]), good(), 1), "queries"),
        (find_similar(good(), tensor(&[1, 3], &[1.0, f32::INFINITY, 2.0]), 1), "corpus"),
        (find_similar(good(), good(), 0), "k"),
        (find_similar(good(), good(), 3), "k"),
        (find_similar(good(), good(), u32::MAX), "k"),
        (v1::FindSimilarRequest { metric: 99, ..find_similar(good(), good(), 1) }, "metric"),
        (
            v1::FindSimilarRequest { score_threshold: Some(f32::NAN), ..find_similar(good(), good(), 1) },
            "score_threshold",
        ),
        (v1::FindSimilarRequest { queries: None, ..find_similar(good(), good(), 1) }, "queries"),
        (v1::FindSimilarRequest::default(), "queries"),
    ];
    for (request, field) in cases {
        let result = server.similarity().find_similar(request).await;
        assert_refused(result, Code::InvalidArgument, field);
    }
    server.assert_serving().await;
}

#[tokio::test]
async fn a_nan_is_named_by_row_and_column() {
    let server = TestServer::start().await;
    let corpus = tensor(&[2, 3], &[1.0, 2.0, 3.0, 4.0, f32::NAN, 6.0]);
    let status = server.similarity().find_similar(find_similar(good(), corpus, 1)).await.expect_err("NaN is refused");
    assert!(status.message().contains("row 1") && status.message().contains("column 1"), "{status:?}");
}

#[tokio::test]
async fn embed_refuses_invalid_batches_by_field() {
    let server = TestServer::start().await;
    let tokens = |ids: &[u32], offsets: &[u32]| v1::EmbedRequest {
        input: Some(v1::embed_request::Input::Tokens(v1::TokenInput { ids: ids.to_vec(), offsets: offsets.to_vec() })),
        ..v1::EmbedRequest::default()
    };
    let cases = [
        (v1::EmbedRequest::default(), "input"),
        (texts(&[]), "texts"),
        (tokens(&[1], &[]), "tokens.offsets"),
        (tokens(&[1], &[0]), "tokens.offsets"),
        (tokens(&[1], &[0, 2]), "tokens.offsets"),
        (tokens(&[1, 2], &[0, 2, 1]), "tokens.offsets"),
        (tokens(&[1, 2], &[1, 2]), "tokens.offsets"),
        (tokens(&[u32::MAX], &[0, 1]), "tokens.ids"),
        (v1::EmbedRequest { dimensions: 3, ..texts(&["a"]) }, "dimensions"),
        (v1::EmbedRequest { dimensions: u32::MAX, ..texts(&["a"]) }, "dimensions"),
    ];
    for (request, field) in cases {
        assert_refused(server.embed().embed(request).await, Code::InvalidArgument, field);
    }
    server.assert_serving().await;
}

#[tokio::test]
async fn unknown_names_are_not_found() {
    let server = TestServer::start().await;
    let model = v1::EmbedRequest { model: "nobody".into(), ..texts(&["a"]) };
    assert_refused(server.embed().embed(model).await, Code::NotFound, "nobody");
    let mut similarity = server.similarity();
    let name = || "missing".to_owned();
    assert_refused(
        similarity.get_collection(v1::GetCollectionRequest { name: name() }).await,
        Code::NotFound,
        "missing",
    );
    assert_refused(
        similarity.delete_collection(v1::DeleteCollectionRequest { name: name() }).await,
        Code::NotFound,
        "missing",
    );
    let search = v1::SearchRequest {
        collection: name(),
        query: Some(v1::search_request::Query::Vectors(good())),
        limit: 1,
        ..v1::SearchRequest::default()
    };
    assert_refused(similarity.search(search).await, Code::NotFound, "missing");
}

#[tokio::test]
async fn collections_refuse_invalid_names_dimensions_and_duplicates() {
    let server = TestServer::start().await;
    let create = |name: &str, dimensions| v1::CreateCollectionRequest {
        name: name.into(),
        dimensions,
        ..v1::CreateCollectionRequest::default()
    };
    for name in ["", "../up", "a/b", ".hidden", "white space", &"x".repeat(129)] {
        assert_refused(server.similarity().create_collection(create(name, 3)).await, Code::InvalidArgument, "name");
    }
    for dimensions in [0, u32::MAX] {
        let result = server.similarity().create_collection(create("ok", dimensions)).await;
        assert_refused(result, Code::InvalidArgument, "dimensions");
    }
    server.collection("ok", 3, Metric::Cosine).await;
    assert_refused(server.similarity().create_collection(create("ok", 3)).await, Code::AlreadyExists, "ok");
}

#[tokio::test]
async fn upserts_and_searches_refuse_mismatched_shapes() {
    let server = TestServer::start().await;
    server.collection("c", 3, Metric::Cosine).await;
    let upsert = |ids, vectors| v1::UpsertRequest {
        collection: "c".into(),
        ids: Some(ids),
        points: Some(v1::upsert_request::Points::Vectors(vectors)),
        payloads: vec![],
        ..Default::default()
    };
    let mut similarity = server.similarity();
    let uuid = |uuids: &[&str]| v1::PointIds { uuids: uuids.iter().map(|&s| s.into()).collect(), ..Default::default() };
    let cases = [
        (upsert(numbers([1]), good()), "ids"),
        (upsert(numbers([1, 1]), good()), "ids"),
        (upsert(numbers([]), tensor(&[0, 3], &[])), "ids"),
        (upsert(uuid(&["not-a-uuid", "x"]), good()), "ids.uuids"),
        (upsert(numbers([1, 2]), tensor(&[2, 2], &[0.0; 4])), "vectors"),
        (upsert(numbers([1, 2]), tensor(&[2, 3], &[f32::NAN; 6])), "vectors"),
        (v1::UpsertRequest { payloads: vec![v1::Payload::default()], ..upsert(numbers([1, 2]), good()) }, "payloads"),
        (v1::UpsertRequest { points: None, ..upsert(numbers([1, 2]), good()) }, "points"),
    ];
    for (request, field) in cases {
        assert_refused(similarity.upsert(request).await, Code::InvalidArgument, field);
    }
    let search = |query, limit, offset| v1::SearchRequest {
        collection: "c".into(),
        query,
        limit,
        offset,
        ..v1::SearchRequest::default()
    };
    let vectors = |tensor| Some(v1::search_request::Query::Vectors(tensor));
    let words = v1::TextInput { values: vec!["words".into()] };
    let cases = [
        (search(vectors(good()), 0, 0), "limit"),
        (search(vectors(good()), 16_384, 1), "limit"),
        (search(vectors(good()), u32::MAX, u32::MAX), "limit"),
        (search(vectors(tensor(&[1, 2], &[0.0; 2])), 1, 0), "vectors"),
        (search(vectors(tensor(&[0, 3], &[])), 1, 0), "query"),
        (search(Some(v1::search_request::Query::Texts(words)), 1, 0), "texts"),
        (search(None, 1, 0), "query"),
    ];
    for (request, field) in cases {
        assert_refused(similarity.search(request).await, Code::InvalidArgument, field);
    }
    let stored = similarity.get_collection(v1::GetCollectionRequest { name: "c".into() }).await.expect("it is there");
    let collection = stored.into_inner().collection.expect("an answer describes it");
    assert_eq!(collection.point_count, 0, "a refused upsert writes nothing");
}

#[tokio::test]
async fn k_means_refuses_impossible_counts() {
    let server = TestServer::start().await;
    let cluster = |count, tolerance| v1::ClusterRequest {
        input: Some(v1::cluster_request::Input::Vectors(good())),
        cluster_count: count,
        tolerance,
        ..v1::ClusterRequest::default()
    };
    let cases = [
        (cluster(0, None), "cluster_count"),
        (cluster(3, None), "cluster_count"),
        (cluster(1, Some(f64::NAN)), "tolerance"),
        (cluster(1, Some(-1.0)), "tolerance"),
        (v1::ClusterRequest { input: None, ..cluster(1, None) }, "input"),
    ];
    for (request, field) in cases {
        assert_refused(server.similarity().cluster(request).await, Code::InvalidArgument, field);
    }
}

#[tokio::test]
async fn a_300_mb_message_is_refused_and_the_daemon_keeps_serving() {
    let server = TestServer::start().await;
    let rows = 300_000_000 / 4 / 768;
    let corpus = tensor(&[rows, 768], &vec![0.5; 768 * usize::try_from(rows).expect("a count")]);
    let result = server.similarity().find_similar(find_similar(tensor(&[1, 768], &[0.5; 768]), corpus, 1)).await;
    let status = result.expect_err("a message above the limit is refused");
    assert!(matches!(status.code(), Code::OutOfRange | Code::ResourceExhausted), "{status:?}");
    server.assert_serving().await;
}

#[tokio::test]
async fn an_expired_deadline_is_deadline_exceeded() {
    let server = TestServer::start().await;
    // A bare connection: tonic's channel would enforce the deadline itself, with another code.
    let mut embed = EmbedServiceClient::with_origin(bare(&server).await, "http://daemon".parse().expect("a URI"));
    let mut request = Request::new(texts(&["late"]));
    request.set_timeout(Duration::from_nanos(1));
    let status = embed.embed(request).await.expect_err("the deadline has passed");
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
    server.assert_serving().await;
}

/// The status of a call, in the headers or after the messages of its response.
async fn status_of(response: ResponseFuture) -> Status {
    let response = response.await.expect("an answer");
    if let Some(status) = Status::from_header_map(response.headers()) {
        return status;
    }
    let mut body = response.into_body();
    while let Some(message) = body.data().await {
        message.expect("the call is not reset");
    }
    let trailers = body.trailers().await.expect("the call is not reset").expect("trailers");
    Status::from_header_map(&trailers).expect("a status")
}

#[tokio::test]
async fn bytes_that_are_no_message_are_an_invalid_argument_of_every_method() {
    let server = TestServer::start().await;
    let sender = raw(&server, 1 << 20).await;
    // A field of length 5 that ends after a byte; a length that the body falls short of; an unknown compression flag.
    let bodies: [&[u8]; 3] = [&[0, 0, 0, 0, 3, 0x0a, 5, b'a'], &[0, 0, 0, 0, 9, 0x0a], &[7, 0, 0, 0, 0]];
    for method in &METHODS {
        for body in bodies {
            let (response, mut request) = open(&mut sender.clone(), method.path).await;
            request.send_data(Bytes::from_static(body), true).expect("the call takes the body");
            let status = status_of(response).await;
            assert_eq!(status.code(), Code::InvalidArgument, "{}, {body:?}: {status:?}", method.path);
            let reason = status.get_details_error_info().expect("a reason").reason;
            assert_eq!(reason, "MALFORMED_MESSAGE", "{}, {body:?}: {status:?}", method.path);
        }
    }
    server.assert_serving().await;
}

#[tokio::test]
async fn a_malformed_timeout_is_an_invalid_argument_of_every_method_and_one_of_zero_is_over_at_once() {
    let server = TestServer::start().await;
    let health = ["Check", "Watch"].map(|method| format!("/grpc.health.v1.Health/{method}"));
    for path in METHODS.iter().map(|method| method.path).chain(health.iter().map(String::as_str)) {
        for timeout in ["", "S", "1x", "-1S", "123456789S"] {
            let status = status_within(&server, path, timeout, &()).await;
            assert_eq!(status.code(), Code::InvalidArgument, "{path}, {timeout:?}: {status:?}");
            let violations = status.get_details_bad_request().expect("a field").field_violations;
            assert_eq!(violations[0].field, "grpc-timeout", "{path}, {timeout:?}");
        }
        assert_eq!(status_within(&server, path, "0n", &()).await.code(), Code::DeadlineExceeded, "{path}");
    }
    let mut health = HealthClient::new(connect(server.daemon.health_addr()).await);
    let mut request = Request::new(HealthCheckRequest::default());
    request.metadata_mut().insert("grpc-timeout", "soon".parse().expect("metadata"));
    assert_refused(health.check(request).await, Code::InvalidArgument, "grpc-timeout");
    server.assert_serving().await;
}

#[tokio::test]
async fn cancelled_calls_release_admission() {
    let server = TestServer::start().await;
    let corpus = tensor(&[20_000, 64], &vec![0.25; 20_000 * 64]);
    for _ in 0..8 {
        let request = find_similar(tensor(&[200, 64], &vec![0.5; 200 * 64]), corpus.clone(), 10);
        let mut similarity = server.similarity();
        let call = tokio::spawn(async move { similarity.find_similar(request).await });
        tokio::task::yield_now().await;
        call.abort();
    }
    server.assert_serving().await;
    // Running work completes and queued work is removed: admission returns to zero.
    loop {
        let stats = server.device().get_stats(v1::GetStatsRequest {}).await.expect("stats").into_inner();
        let admission = stats.admission.expect("stats say what is admitted");
        if admission.item_count == 0 && admission.size_bytes == 0 {
            break;
        }
        tokio::task::yield_now().await;
    }
}
