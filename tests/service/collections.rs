//! Collections: points are inserted, searched, filtered, replaced, deleted, and survive a restart.

use accelerd::config::ByteSize;
use accelerd_proto::v1::{self, Dtype, Metric};
use futures::TryStreamExt;
use tonic::Code;

use super::{
    filters::condition,
    harness::{TestServer, assert_refused, f32s, int, numbers, payload, tensor, text},
    models::source,
};

fn upsert(collection: &str, ids: v1::PointIds, vectors: v1::Tensor, payloads: Vec<v1::Payload>) -> v1::UpsertRequest {
    let points = Some(v1::upsert_request::Points::Vectors(vectors));
    v1::UpsertRequest { collection: collection.into(), ids: Some(ids), points, payloads, ..Default::default() }
}

fn search(collection: &str, query: &[f32], limit: u32) -> v1::SearchRequest {
    let dim = i64::try_from(query.len()).expect("short");
    v1::SearchRequest {
        collection: collection.into(),
        query: Some(v1::search_request::Query::Vectors(tensor(&[1, dim], query))),
        limit,
        include_payload: true,
        ..v1::SearchRequest::default()
    }
}

fn found(response: &v1::SearchResponse) -> Vec<u64> {
    assert!(response.exact);
    let hits = response.results.iter().flat_map(|result| &result.hits);
    hits.map(|hit| match hit.id.as_ref().expect("a hit has an id") {
        v1::hit::Id::Number(number) => *number,
        v1::hit::Id::Uuid(uuid) => panic!("{uuid} was never stored"),
    })
    .collect()
}

/// Points 0 to 9 on a line; even ones are red; each payload holds the position.
async fn line(server: &TestServer) {
    server.collection("line", 2, Metric::SquaredL2).await;
    let vectors: Vec<f32> = (0..10_u8).flat_map(|i| [f32::from(i), 0.0]).collect();
    let payloads = (0..10)
        .map(|i| payload([("color", text(if i % 2 == 0 { "red" } else { "blue" })), ("place", int(i))]))
        .collect();
    let answer = server
        .similarity()
        .upsert(upsert("line", numbers(0..10), tensor(&[10, 2], &vectors), payloads))
        .await
        .expect("upserts")
        .into_inner();
    assert_eq!((answer.inserted_count, answer.updated_count), (10, 0));
}

async fn ids(server: &TestServer, request: v1::SearchRequest) -> Vec<u64> {
    found(&server.similarity().search(request).await.expect("searches").into_inner())
}

#[tokio::test]
async fn points_are_found_nearest_first_with_their_payload() {
    let server = TestServer::start().await;
    line(&server).await;
    let answer = server.similarity().search(search("line", &[3.1, 0.0], 3)).await.expect("searches").into_inner();
    assert_eq!(found(&answer), [3, 4, 2]);
    let hit = &answer.results[0].hits[0];
    assert!((hit.score - 0.01).abs() < 1e-6, "{}", hit.score);
    assert_eq!(hit.payload.as_ref().expect("asked for").fields["color"], text("blue"));
}

#[tokio::test]
async fn offset_and_threshold_limit_the_hits() {
    let server = TestServer::start().await;
    line(&server).await;
    assert_eq!(ids(&server, v1::SearchRequest { offset: 2, ..search("line", &[3.1, 0.0], 2) }).await, [2, 5]);
    let near = v1::SearchRequest { score_threshold: Some(1.0), ..search("line", &[3.0, 0.0], 10) };
    assert_eq!(ids(&server, near).await, [3, 2, 4]);
}

#[tokio::test]
async fn filters_by_equality_range_set_negation_and_id() {
    let server = TestServer::start().await;
    line(&server).await;
    let condition = |field: &str, test| v1::Condition { field: field.into(), test: Some(test) };
    let red = || condition("color", v1::condition::Test::Equals(text("red")));
    let from_four = || {
        let range = v1::Range { gte: Some(4.0), lt: Some(7.0), ..v1::Range::default() };
        condition("place", v1::condition::Test::Range(range))
    };
    let some = condition("place", v1::condition::Test::AnyOf(v1::ValueSet { values: vec![int(1), int(8), int(77)] }));
    let missing = condition("size", v1::condition::Test::Equals(int(1)));
    let filter = |must: Vec<v1::Condition>, must_not: Vec<v1::Condition>, ids: Option<v1::PointIds>| v1::Filter {
        ids,
        must,
        must_not,
    };
    let cases = [
        (filter(vec![red()], vec![], None), vec![0, 2, 4, 6, 8]),
        (filter(vec![from_four()], vec![], None), vec![4, 5, 6]),
        (filter(vec![from_four(), red()], vec![], None), vec![4, 6]),
        (filter(vec![from_four()], vec![red()], None), vec![5]),
        (filter(vec![some], vec![], None), vec![1, 8]),
        (filter(vec![missing], vec![], None), vec![]),
        (filter(vec![red()], vec![], Some(numbers([2, 3, 99]))), vec![2]),
    ];
    for (filter, expected) in cases {
        let request = v1::SearchRequest { filter: Some(filter.clone()), ..search("line", &[-1.0, 0.0], 10) };
        assert_eq!(ids(&server, request).await, expected, "{filter:?}");
    }
}

#[tokio::test]
async fn an_upsert_replaces_a_point_and_a_delete_removes_it() {
    let server = TestServer::start().await;
    line(&server).await;
    let replace = upsert("line", numbers([3, 50]), tensor(&[2, 2], &[100.0, 0.0, 101.0, 0.0]), vec![]);
    let answer = server.similarity().upsert(replace).await.expect("upserts").into_inner();
    assert_eq!((answer.inserted_count, answer.updated_count), (1, 1));
    assert_eq!(ids(&server, search("line", &[3.0, 0.0], 2)).await, [2, 4]);
    assert_eq!(ids(&server, search("line", &[100.0, 0.0], 2)).await, [3, 50]);

    let filter = Some(v1::Filter { ids: Some(numbers([2, 4, 999])), ..v1::Filter::default() });
    let delete = v1::DeletePointsRequest { collection: "line".into(), filter };
    let answer = server.similarity().delete_points(delete).await.expect("deletes").into_inner();
    assert_eq!(answer.deleted_count, 2);
    assert_eq!(ids(&server, search("line", &[3.0, 0.0], 2)).await, [1, 5]);

    let empty = v1::DeletePointsRequest { collection: "line".into(), filter: None };
    assert_refused(server.similarity().delete_points(empty).await, Code::InvalidArgument, "filter");
}

#[tokio::test]
async fn points_are_fetched_and_searched_by_id() {
    let server = TestServer::start().await;
    line(&server).await;
    let get = v1::GetPointsRequest {
        collection: "line".into(),
        ids: Some(numbers([7, 99, 1])),
        include_vectors: true,
        ..Default::default()
    };
    let answer = server.similarity().get_points(get).await.expect("reads").into_inner();
    assert_eq!(answer.ids.expect("ids").numbers, [7, 1]);
    assert_eq!(f32s(&answer.vectors.expect("asked for")), [7.0, 0.0, 1.0, 0.0]);
    assert_eq!(answer.payloads[0].fields["place"], int(7));

    let by_id = |id| v1::SearchRequest {
        query: Some(v1::search_request::Query::Ids(numbers([id]))),
        ..search("line", &[0.0, 0.0], 2)
    };
    assert_eq!(ids(&server, by_id(9)).await, [9, 8]);
    assert_refused(server.similarity().search(by_id(99)).await, Code::NotFound, "99");
}

#[tokio::test]
async fn uuids_are_returned_hyphenated_and_in_lower_case() {
    let server = TestServer::start().await;
    server.collection("u", 1, Metric::Dot).await;
    let uuids = vec!["0F8FAD5BD9CB469FA16570867728950E".to_owned(), "7c9e6679-7425-40de-944b-e07fc1f90ae7".to_owned()];
    let ids = v1::PointIds { uuids, ..Default::default() };
    server.similarity().upsert(upsert("u", ids, tensor(&[2, 1], &[2.0, 1.0]), vec![])).await.expect("upserts");
    let answer = server.similarity().search(search("u", &[1.0], 1)).await.expect("searches").into_inner();
    let id = answer.results[0].hits[0].id.clone();
    assert_eq!(id, Some(v1::hit::Id::Uuid("0f8fad5b-d9cb-469f-a165-70867728950e".into())));
}

#[tokio::test]
async fn texts_are_embedded_by_the_collections_model() {
    let server = TestServer::start().await;
    let create = v1::CreateCollectionRequest { name: "code".into(), model: "builtin".into(), ..Default::default() };
    let made = server.similarity().create_collection(create).await.expect("is made").into_inner();
    assert_eq!(made.collection.expect("described").dimensions, 256);
    let input = |values: &[&str]| v1::TextInput { values: values.iter().map(|&s| s.into()).collect() };
    let code = [
        "def gzip_compress(data): return gzip.compress(data)",
        "class SmtpClient: sends email messages",
        "def parse_date(s): ...",
    ];
    let upsert = v1::UpsertRequest {
        collection: "code".into(),
        ids: Some(numbers([10, 20, 30])),
        points: Some(v1::upsert_request::Points::Texts(input(&code))),
        payloads: vec![],
        ..Default::default()
    };
    server.similarity().upsert(upsert).await.expect("upserts");
    let queries = Some(v1::search_request::Query::Texts(input(&["compress data with gzip", "send an email"])));
    let request = v1::SearchRequest { query: queries, ..search("code", &[0.0], 1) };
    assert_eq!(ids(&server, request).await, [10, 20]);
}

#[tokio::test]
async fn a_bulk_stream_answers_each_item_and_continues_after_a_bad_one() {
    let server = TestServer::start().await;
    server.collection("bulk", 2, Metric::Dot).await;
    let step = |sequence: u64, vectors| v1::UpsertStreamRequest {
        sequence,
        upsert: Some(upsert("bulk", numbers([sequence]), vectors, vec![])),
    };
    let steps = (0..50).map(move |i| {
        let vectors = if i == 20 { tensor(&[1, 3], &[0.0; 3]) } else { tensor(&[1, 2], &[1.0, 2.0]) };
        step(i, vectors)
    });
    let mut answers = server
        .similarity()
        .upsert_stream(tokio_stream::iter(steps.collect::<Vec<_>>()))
        .await
        .expect("the stream opens")
        .into_inner();
    let mut seen = vec![];
    while let Some(answer) = answers.message().await.expect("the stream goes on") {
        match answer.result.expect("a result") {
            v1::upsert_stream_response::Result::Upsert(done) => assert_eq!(done.inserted_count, 1),
            v1::upsert_stream_response::Result::Error(error) => {
                assert_eq!((answer.sequence, error.code), (20, Code::InvalidArgument as i32), "{error:?}");
            }
        }
        seen.push(answer.sequence);
    }
    // Responses arrive in the order of completion.
    seen.sort_unstable();
    assert_eq!(seen, (0..50).collect::<Vec<_>>());
}

#[tokio::test]
async fn every_storage_type_gives_the_same_answer() {
    let server = TestServer::start().await;
    let vectors: Vec<f32> = (0..3000 * 8).map(|i: i32| ((i * 7919) % 1009) as f32 / 1009.0 - 0.5).collect();
    let mut answers = vec![];
    for storage in [Dtype::Unspecified, Dtype::F32, Dtype::F16, Dtype::Bf16, Dtype::I8] {
        let name = format!("s{}", storage as i32);
        let create = v1::CreateCollectionRequest {
            name: name.clone(),
            dimensions: 8,
            storage: storage.into(),
            ..v1::CreateCollectionRequest::default()
        };
        server.similarity().create_collection(create).await.expect("is made");
        server
            .similarity()
            .upsert(upsert(&name, numbers(0..3000), tensor(&[3000, 8], &vectors), vec![]))
            .await
            .expect("upserts");
        answers
            .push(server.similarity().search(search(&name, &vectors[..8], 20)).await.expect("searches").into_inner());
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]));
}

#[tokio::test]
async fn a_restored_snapshot_equals_its_collection() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let url = format!("file://{}", folder.path().display());
    let offered = vec![url.clone(), "gopher://x".to_owned()];
    let server = TestServer::start_with(|config| {
        config.store.snapshot_folders = offered;
        // An unknown scheme would be refused.
        config.store.snapshot_check = false;
    })
    .await;
    line(&server).await;
    let create = v1::CreateSnapshotRequest { collection: "line".into(), url: url.clone() };
    let snapshot = server
        .similarity()
        .create_snapshot(create.clone())
        .await
        .expect("is written")
        .into_inner()
        .snapshot
        .expect("described");
    assert_eq!((snapshot.version, snapshot.point_count), (1, 10));
    assert!(snapshot.size_bytes > 0);

    let restore = v1::RestoreCollectionRequest { url: snapshot.url, name: "copy".into() };
    let copy = server.similarity().restore_collection(restore.clone()).await.expect("is restored").into_inner();
    assert_eq!(copy.collection.expect("described").point_count, 10);
    let original = server.similarity().search(search("line", &[3.1, 0.0], 5)).await.expect("searches").into_inner();
    let copied = server.similarity().search(search("copy", &[3.1, 0.0], 5)).await.expect("searches").into_inner();
    assert_eq!(original, copied);

    assert_refused(server.similarity().restore_collection(restore).await, Code::AlreadyExists, "copy");
    let nowhere = v1::RestoreCollectionRequest { url: format!("{url}/nowhere"), name: "x".into() };
    assert_refused(server.similarity().restore_collection(nowhere).await, Code::NotFound, "nowhere");
    let odd = v1::CreateSnapshotRequest { url: "gopher://x/y".into(), ..create };
    assert_refused(server.similarity().create_snapshot(odd).await, Code::InvalidArgument, "url");
    let elsewhere = v1::CreateSnapshotRequest { collection: "line".into(), url: "file:///elsewhere".into() };
    assert_refused(server.similarity().create_snapshot(elsewhere).await, Code::PermissionDenied, "snapshot_folders");
}

#[tokio::test]
async fn a_durable_collection_survives_a_restart() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().to_owned();
    let server = TestServer::start_with(|config| config.store.data_dir = path.clone()).await;
    let create =
        v1::CreateCollectionRequest { name: "kept".into(), dimensions: 2, durable: true, ..Default::default() };
    server.similarity().create_collection(create).await.expect("is made");
    let payloads = vec![payload([("n", int(1))]), payload([("n", int(2))])];
    let points = upsert("kept", numbers([1, 2]), tensor(&[2, 2], &[1.0, 0.0, 0.0, 1.0]), payloads);
    server.similarity().upsert(points).await.expect("upserts");
    let before = server.similarity().search(search("kept", &[1.0, 0.1], 2)).await.expect("searches").into_inner();
    server.daemon.shutdown().await;

    let server = TestServer::start_with(|config| config.store.data_dir = path).await;
    let after = server.similarity().search(search("kept", &[1.0, 0.1], 2)).await.expect("searches").into_inner();
    assert_eq!(before, after);
    assert_eq!(found(&after), [1, 2]);
}

/// Three texts in a collection with a text index.
async fn with_text_index(server: &TestServer) {
    let create = v1::CreateCollectionRequest {
        name: "words".into(),
        model: "builtin".into(),
        text_field: "body".into(),
        durable: true,
        ..Default::default()
    };
    let made = server.similarity().create_collection(create).await.expect("is made").into_inner();
    assert_eq!(made.collection.expect("described").text_field, "body");
    let texts = ["open a socket", "the frobnicateStream of a file", "listen for tcp connections"];
    server.similarity().upsert(of_texts([1, 2, 3], &texts)).await.expect("upserts");
}

fn of_texts<const N: usize>(ids: [u64; N], texts: &[&str; N]) -> v1::UpsertRequest {
    let values = texts.map(str::to_owned).to_vec();
    v1::UpsertRequest {
        collection: "words".into(),
        ids: Some(numbers(ids)),
        points: Some(v1::upsert_request::Points::Texts(v1::TextInput { values })),
        payloads: texts.iter().map(|body| payload([("body", text(body))])).collect(),
        ..Default::default()
    }
}

fn hybrid(words: &str, limit: u32) -> v1::SearchRequest {
    let query = v1::search_request::Query::Texts(v1::TextInput { values: vec![words.to_owned()] });
    let collection = "words".to_owned();
    v1::SearchRequest { collection, query: Some(query), limit, hybrid: true, ..Default::default() }
}

async fn hybrid_ids(server: &TestServer, request: v1::SearchRequest) -> Vec<u64> {
    found(&server.similarity().search(request).await.expect("searches").into_inner())
}

#[tokio::test]
async fn hybrid_search_ranks_by_text_and_vector_and_deletions_leave_the_text_index() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().to_owned();
    let server = TestServer::start_with(|config| config.store.data_dir = path.clone()).await;
    with_text_index(&server).await;
    assert_eq!(hybrid_ids(&server, hybrid("frobnicate", 1)).await, [2], "by a word that the model does not know");
    let both = server.similarity().search(hybrid("open a socket", 3)).await.expect("searches").into_inner();
    let best = &both.results[0].hits[0];
    assert!((best.score - 1.0).abs() < 1e-6, "first of both rankings: {best:?}");

    let replaced = of_texts([2], &["send a mail"]);
    server.similarity().upsert(replaced).await.expect("upserts");
    server.similarity().upsert(of_texts([4], &["frobnicate it"])).await.expect("upserts");
    assert_eq!(hybrid_ids(&server, hybrid("frobnicate", 1)).await, [4], "the old text of point 2 is gone");
    let only = v1::Filter { ids: Some(numbers([1, 2, 3])), ..Default::default() };
    let filtered = v1::SearchRequest { filter: Some(only), ..hybrid("mail frobnicate", 9) };
    let filtered = hybrid_ids(&server, filtered).await;
    assert!(filtered[0] == 2 && !filtered.contains(&4), "{filtered:?}");
    server.daemon.shutdown().await;

    let server = TestServer::start_with(|config| config.store.data_dir = path).await;
    assert_eq!(hybrid_ids(&server, hybrid("frobnicate", 1)).await, [4], "words are read back with their points");
}

#[tokio::test]
async fn hybrid_search_takes_a_text_weight_and_can_fuse_ranks_instead_of_scores() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = TestServer::start_with(|config| config.store.data_dir = folder.path().to_owned()).await;
    with_text_index(&server).await;
    let hits = async |fusion: v1::Fusion, text_weight| {
        let asked =
            v1::SearchRequest { fusion: fusion.into(), text_weight, ..hybrid("open tcp frobnicate frobnicate", 3) };
        let answer = server.similarity().search(asked).await.expect("searches").into_inner();
        found(&answer).into_iter().zip(answer.results[0].hits.iter().map(|hit| hit.score)).collect::<Vec<_>>()
    };
    let near = v1::SearchRequest { hybrid: false, ..hybrid("open tcp frobnicate frobnicate", 3) };
    let near = hybrid_ids(&server, near).await;
    for fusion in [v1::Fusion::Unspecified, v1::Fusion::RelativeScore, v1::Fusion::ReciprocalRank] {
        let ids = |hits: &[(u64, f32)]| hits.iter().map(|hit| hit.0).collect::<Vec<_>>();
        assert_eq!(ids(&hits(fusion, Some(0.0)).await), near, "{fusion:?}: vectors alone");
        assert_eq!(ids(&hits(fusion, Some(1.0)).await)[0], 2, "{fusion:?}: two of the word that is in no other");
        assert_eq!(hits(fusion, None).await, hits(fusion, Some(0.5)).await, "{fusion:?}: both alike");
    }
    let scores = hits(v1::Fusion::Unspecified, Some(1.0)).await;
    assert!((scores[0].1 - 1.0).abs() < 1e-6 && scores[2].1 > 0.0, "shares of the best: {scores:?}");
    let ranks = hits(v1::Fusion::ReciprocalRank, Some(1.0)).await;
    assert!((ranks[0].1 - 1.0 / 61.0).abs() < 1e-6 && (ranks[2].1 - 1.0 / 63.0).abs() < 1e-6, "{ranks:?}");
}

#[tokio::test]
async fn invalid_hybrid_searches_are_refused_by_field() {
    let server = TestServer::start().await;
    line(&server).await;
    let no_words = v1::SearchRequest { hybrid: true, ..search("line", &[0.0, 0.0], 1) };
    assert_refused(server.similarity().search(no_words).await, Code::InvalidArgument, "hybrid");
    let create = v1::CreateCollectionRequest {
        name: "words".into(),
        model: "builtin".into(),
        text_field: "body".into(),
        ..Default::default()
    };
    server.similarity().create_collection(create).await.expect("is made");
    server.similarity().upsert(of_texts([1], &["a"])).await.expect("upserts");
    let threshold = v1::SearchRequest { score_threshold: Some(0.1), ..hybrid("a", 1) };
    assert_refused(server.similarity().search(threshold).await, Code::InvalidArgument, "score_threshold");
    let by_id = v1::SearchRequest { query: Some(v1::search_request::Query::Ids(numbers([1]))), ..hybrid("a", 1) };
    assert_refused(server.similarity().search(by_id).await, Code::InvalidArgument, "hybrid");
    for weight in [-0.1, 1.1, f32::NAN] {
        let weighty = v1::SearchRequest { text_weight: Some(weight), ..hybrid("a", 1) };
        assert_refused(server.similarity().search(weighty).await, Code::InvalidArgument, "text_weight");
    }
    let unknown = v1::SearchRequest { fusion: 99, ..hybrid("a", 1) };
    assert_refused(server.similarity().search(unknown).await, Code::InvalidArgument, "fusion");
    let alone = v1::SearchRequest { hybrid: false, text_weight: Some(0.5), ..hybrid("a", 1) };
    assert_refused(server.similarity().search(alone).await, Code::InvalidArgument, "text_weight");
    let alone = v1::SearchRequest { hybrid: false, fusion: 2, ..hybrid("a", 1) };
    assert_refused(server.similarity().search(alone).await, Code::InvalidArgument, "fusion");
}

#[tokio::test]
async fn a_deleted_collection_is_not_found() {
    let server = TestServer::start().await;
    line(&server).await;
    let delete = v1::DeleteCollectionRequest { name: "line".into() };
    server.similarity().delete_collection(delete).await.expect("is dropped");
    assert_refused(server.similarity().search(search("line", &[0.0, 0.0], 1)).await, Code::NotFound, "line");
    let list = server.similarity().list_collections(v1::ListCollectionsRequest {}).await.expect("lists").into_inner();
    assert!(list.collections.is_empty());
}

#[tokio::test]
async fn texts_of_a_bulk_upsert_wait_for_admission() {
    let server = TestServer::start_with(|config| {
        config.models.folders = vec![accelerd_parity::encoders()];
        config.admission.max_bytes = ByteSize::mib(12);
    })
    .await;
    server.embed().load_model(source("bert", "bert")).await.expect("it is loaded");
    let request = v1::CreateCollectionRequest {
        name: "code".to_owned(),
        model: "bert".to_owned(),
        metric: Metric::Cosine.into(),
        ..v1::CreateCollectionRequest::default()
    };
    server.similarity().create_collection(request).await.expect("it is made");
    // Each makes two encoder requests; the budget admits one.
    let texts = vec!["a b c d e f g h i j k l m n"; 600];
    let steps: Vec<_> = (0..12)
        .map(|sequence| {
            let values = texts.iter().map(|&text| text.to_owned()).collect();
            let upsert = v1::UpsertRequest {
                collection: "code".to_owned(),
                ids: Some(numbers(sequence * 600..(sequence + 1) * 600)),
                points: Some(v1::upsert_request::Points::Texts(v1::TextInput { values })),
                payloads: vec![],
                ..Default::default()
            };
            v1::UpsertStreamRequest { sequence, upsert: Some(upsert) }
        })
        .collect();
    let stream = server.similarity().upsert_stream(tokio_stream::iter(steps)).await.expect("streams").into_inner();
    let answers: Vec<v1::UpsertStreamResponse> = stream.try_collect().await.expect("no failure ends it");
    assert_eq!(answers.len(), 12);
    for answer in answers {
        let Some(v1::upsert_stream_response::Result::Upsert(done)) = answer.result else {
            panic!("a step of a stream waits: {answer:?}")
        };
        assert_eq!(done.inserted_count, 600);
    }
}

#[tokio::test]
async fn a_text_search_needs_no_model_and_returns_only_points_with_a_query_term() {
    let server = TestServer::start().await;
    let create = v1::CreateCollectionRequest {
        name: "words".into(),
        dimensions: 1,
        text_field: "body".into(),
        ..Default::default()
    };
    server.similarity().create_collection(create).await.expect("is made");
    let bodies = ["open a socket", "open openFile", "close it", "a file", "socket socket"];
    let payloads = bodies.iter().map(|body| payload([("body", text(body))])).collect();
    let write = upsert("words", numbers(0..5), tensor(&[5, 1], &[1.0; 5]), payloads);
    server.similarity().upsert(write).await.expect("upserts");
    let alone = |words: &str| v1::SearchRequest { text_weight: Some(1.0), ..hybrid(words, 9) };
    assert_eq!(ids(&server, alone("SOCKET")).await, [4, 0]);
    assert_eq!(ids(&server, alone("file open")).await, [1, 3, 0]);
    assert_eq!(ids(&server, v1::SearchRequest { offset: 1, limit: 1, ..alone("file open") }).await, [3]);
    assert_eq!(ids(&server, alone("nowhere")).await, [0_u64; 0]);
    let only = v1::Filter { ids: Some(numbers([0, 2])), ..Default::default() };
    assert_eq!(ids(&server, v1::SearchRequest { filter: Some(only.clone()), ..alone("file open") }).await, [0]);
    let delete = v1::DeletePointsRequest { collection: "words".into(), filter: Some(only) };
    server.similarity().delete_points(delete).await.expect("deletes");
    assert_eq!(ids(&server, alone("open socket")).await, [4, 1]);
    let mut similarity = server.similarity();
    assert_refused(similarity.search(hybrid("open", 9)).await, Code::InvalidArgument, "texts");
    let many = v1::TextInput { values: vec!["open".into(); 1025] };
    let many = v1::SearchRequest { query: Some(v1::search_request::Query::Texts(many)), ..alone("") };
    assert_refused(similarity.search(many).await, Code::InvalidArgument, "texts");
    let none =
        v1::SearchRequest { query: Some(v1::search_request::Query::Texts(v1::TextInput::default())), ..alone("") };
    assert_refused(similarity.search(none).await, Code::InvalidArgument, "query");
}

#[tokio::test]
async fn a_list_without_ids_matches_no_point_in_any_call() {
    let server = TestServer::start().await;
    line(&server).await;
    let red = condition("color", v1::condition::Test::Equals(text("red")));
    for must in [vec![], vec![red]] {
        let none = Some(v1::Filter { ids: Some(v1::PointIds::default()), must, ..v1::Filter::default() });
        let collection = || "line".to_owned();
        let delete = v1::DeletePointsRequest { collection: collection(), filter: none.clone() };
        let deleted = server.similarity().delete_points(delete).await.expect("deletes nothing").into_inner();
        assert_eq!(deleted.deleted_count, 0);
        let count = v1::CountPointsRequest { collection: collection(), filter: none.clone() };
        let counted = server.similarity().count_points(count).await.expect("counts").into_inner();
        assert_eq!(counted.point_count, 0);
        let scroll = v1::ScrollPointsRequest { collection: collection(), filter: none.clone(), ..Default::default() };
        let page = server.similarity().scroll_points(scroll).await.expect("reads").into_inner();
        assert_eq!(page.ids.expect("ids"), v1::PointIds::default());
        let search = v1::SearchRequest { filter: none, ..search("line", &[0.0, 0.0], 10) };
        assert_eq!(ids(&server, search).await, [0_u64; 0]);
    }
    let no_values = condition("color", v1::condition::Test::AnyOf(v1::ValueSet::default()));
    let filter = Some(v1::Filter { must: vec![no_values], ..v1::Filter::default() });
    let delete = v1::DeletePointsRequest { collection: "line".into(), filter };
    let deleted = server.similarity().delete_points(delete).await.expect("deletes nothing").into_inner();
    assert_eq!(deleted.deleted_count, 0);
}

#[tokio::test]
async fn times_in_nanoseconds_are_filtered_without_rounding() {
    const TIME: i64 = 1_764_000_000_000_000_000;
    let server = TestServer::start().await;
    let create = v1::CreateCollectionRequest { name: "times".into(), dimensions: 2, ..Default::default() };
    server.similarity().create_collection(create).await.expect("is made");
    let payloads = [0, 50, 100].map(|after| payload([("t", int(TIME + after))])).to_vec();
    let vectors = tensor(&[3, 2], &[1.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
    server.similarity().upsert(upsert("times", numbers([1, 2, 3]), vectors, payloads)).await.expect("upserts");
    let range = v1::NumberRange { gte: Some(int(TIME + 100)), ..v1::NumberRange::default() };
    let must = vec![condition("t", v1::condition::Test::NumberRange(range))];
    let filter = Some(v1::Filter { must, ..v1::Filter::default() });
    let request = v1::SearchRequest { filter, ..search("times", &[1.0, 0.0], 10) };
    assert_eq!(ids(&server, request).await, [3]);
}

#[tokio::test]
async fn a_data_directory_makes_collections_durable_by_default() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().to_owned();
    let server = TestServer::start_with(|config| config.store.data_dir = path.clone()).await;
    let create = async |server: &TestServer, name: &str, durability: v1::Durability| {
        let durability = durability.into();
        let new = v1::CreateCollectionRequest { name: name.into(), dimensions: 2, durability, ..Default::default() };
        let made = server.similarity().create_collection(new).await.expect("is made").into_inner();
        made.collection.expect("described").durable
    };
    assert!(create(&server, "by-default", v1::Durability::Unspecified).await);
    assert!(create(&server, "asked", v1::Durability::Log).await);
    assert!(!create(&server, "in-memory", v1::Durability::Memory).await);
    server.daemon.shutdown().await;

    let server = TestServer::start_with(|config| config.store.data_dir = path).await;
    let listed = server.similarity().list_collections(v1::ListCollectionsRequest {}).await.expect("lists").into_inner();
    let names: Vec<_> = listed.collections.iter().map(|collection| collection.name.as_str()).collect();
    assert_eq!(names, ["asked", "by-default"]);
    server.daemon.shutdown().await;

    let server = TestServer::start().await;
    assert!(!create(&server, "c", v1::Durability::Unspecified).await);
}

#[tokio::test]
async fn a_collection_has_the_digest_of_its_model() {
    let server = TestServer::start().await;
    let create = v1::CreateCollectionRequest { name: "modelled".into(), model: "builtin".into(), ..Default::default() };
    server.similarity().create_collection(create).await.expect("is made");
    let models = server.embed().list_models(v1::ListModelsRequest {}).await.expect("lists").into_inner().models;
    let builtin = models.iter().find(|model| model.name == "builtin").expect("it is loaded");
    let get = v1::GetCollectionRequest { name: "modelled".into() };
    let collection = server.similarity().get_collection(get).await.expect("is there").into_inner();
    assert_eq!(collection.collection.expect("described").model_digest, builtin.digest);
    assert_eq!(builtin.digest.len(), 64);
}
