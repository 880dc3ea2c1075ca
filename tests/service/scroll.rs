//! Scrolling and counting: each point is returned once, under concurrent writes.

use std::collections::BTreeSet;

use accelerd_proto::v1::{self, Metric};
use tonic::Code;

use super::harness::{TestServer, assert_refused, f32s, int, numbers, payload, tensor};

async fn write(server: &TestServer, ids: impl IntoIterator<Item = u64>, stamp: i64) {
    let ids: Vec<_> = ids.into_iter().collect();
    let count = i64::try_from(ids.len()).expect("few");
    let vectors: Vec<f32> = ids.iter().map(|id| *id as f32).collect();
    let upsert = v1::UpsertRequest {
        collection: "c".into(),
        points: Some(v1::upsert_request::Points::Vectors(tensor(&[count, 1], &vectors))),
        payloads: ids
            .iter()
            .map(|id| payload([("stamp", int(stamp)), ("even", int(i64::from(id % 2 == 0)))]))
            .collect(),
        ids: Some(numbers(ids)),
        ..Default::default()
    };
    server.similarity().upsert(upsert).await.expect("upserts");
}

async fn delete(server: &TestServer, ids: impl IntoIterator<Item = u64>) {
    let filter = Some(v1::Filter { ids: Some(numbers(ids)), ..Default::default() });
    let request = v1::DeletePointsRequest { collection: "c".into(), filter };
    server.similarity().delete_points(request).await.expect("deletes");
}

fn request(limit: u32) -> v1::ScrollPointsRequest {
    v1::ScrollPointsRequest { collection: "c".into(), limit, ..Default::default() }
}

fn even() -> v1::Filter {
    let test = Some(v1::condition::Test::Equals(int(1)));
    v1::Filter { must: vec![v1::Condition { field: "even".into(), test }], ..Default::default() }
}

/// A page and the request for the next one.
async fn page(server: &TestServer, request: v1::ScrollPointsRequest) -> (Vec<u64>, Option<v1::ScrollPointsRequest>) {
    let answer = server.similarity().scroll_points(request.clone()).await.expect("scrolls").into_inner();
    let next =
        (!answer.next_cursor.is_empty()).then(|| v1::ScrollPointsRequest { cursor: answer.next_cursor, ..request });
    (answer.ids.expect("ids").numbers, next)
}

/// All pages; `between` runs after each.
async fn scroll(
    server: &TestServer,
    first: v1::ScrollPointsRequest,
    mut between: impl AsyncFnMut(usize),
) -> Vec<Vec<u64>> {
    let mut pages = vec![];
    let mut next = Some(first);
    while let Some(request) = next {
        let (ids, follows) = page(server, request).await;
        pages.push(ids);
        next = follows;
        between(pages.len()).await;
    }
    pages
}

#[tokio::test]
async fn pages_are_in_the_order_of_ids_and_the_last_one_has_no_cursor() {
    let server = TestServer::start().await;
    server.collection("c", 1, Metric::Dot).await;
    assert_eq!(scroll(&server, request(0), async |_| {}).await, [[0_u64; 0]]);
    write(&server, [70, 3, u64::MAX, 0, 12, 9], 1).await;
    assert_eq!(scroll(&server, request(4), async |_| {}).await, [vec![0, 3, 9, 12], vec![70, u64::MAX]]);
    assert_eq!(scroll(&server, request(3), async |_| {}).await, [[0, 3, 9], [12, 70, u64::MAX]]);
    assert_eq!(scroll(&server, request(0), async |_| {}).await, [[0, 3, 9, 12, 70, u64::MAX]]);
    let even = v1::ScrollPointsRequest { filter: Some(even()), ..request(2) };
    assert_eq!(scroll(&server, even, async |_| {}).await, [vec![0, 12], vec![70]]);
}

#[tokio::test]
async fn payloads_and_vectors_are_returned_on_request() {
    let server = TestServer::start().await;
    server.collection("c", 1, Metric::Dot).await;
    write(&server, [5, 4, 6], 7).await;
    let ask = |include_payload, include_vectors, columns| v1::ScrollPointsRequest {
        include_payload,
        include_vectors,
        columns,
        ..request(2)
    };
    let mut similarity = server.similarity();
    let plain = similarity.scroll_points(ask(false, false, false)).await.expect("scrolls").into_inner();
    assert_eq!((plain.payloads.len(), plain.vectors, plain.payload_columns), (0, None, None));
    let full = similarity.scroll_points(ask(true, true, false)).await.expect("scrolls").into_inner();
    assert_eq!(f32s(&full.vectors.expect("asked for")), [4.0, 5.0]);
    assert_eq!(full.payloads[1], payload([("stamp", int(7)), ("even", int(0))]));
    let packed = similarity.scroll_points(ask(true, true, true)).await.expect("scrolls").into_inner();
    let ids = packed.ids.expect("ids");
    assert_eq!((ids.numbers.len(), ids.packed_numbers.len()), (0, 16));
    let names: Vec<_> = packed.payload_columns.expect("asked for").columns.into_iter().map(|c| c.name).collect();
    assert_eq!((names, packed.payloads.len()), (vec!["even".to_owned(), "stamp".to_owned()], 0));
    let packed = similarity.scroll_points(ask(false, false, true)).await.expect("scrolls").into_inner();
    assert_eq!(packed.payload_columns, None);
}

#[tokio::test]
async fn a_point_that_is_replaced_during_a_scroll_is_returned_once() {
    let server = TestServer::start().await;
    server.collection("c", 1, Metric::Dot).await;
    write(&server, 0..100, 0).await;
    let pages = scroll(&server, request(9), async |page| {
        let stamp = i64::try_from(page).expect("few");
        write(&server, (0..100).filter(|id| id % 3 != 1), stamp).await;
        write(&server, [1000 + page as u64, 50_000 - page as u64], stamp).await;
        delete(&server, (0..100).filter(|id| id % 3 == 1 && id / 9 < page as u64)).await;
    })
    .await;
    let all: Vec<_> = pages.concat();
    assert!(all.is_sorted_by(|a, b| a < b), "ascending, none twice: {all:?}");
    let found: BTreeSet<_> = all.into_iter().collect();
    assert!((0..100).filter(|id| id % 3 != 1).all(|id| found.contains(&id)));
}

#[tokio::test]
async fn a_cursor_survives_compaction_and_a_restart() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path().to_path_buf();
    let durable = move |config: &mut accelerd::config::Config| config.store.data_dir = folder.clone();
    let server = TestServer::start_with(durable.clone()).await;
    let create = v1::CreateCollectionRequest { name: "c".into(), dimensions: 1, durable: true, ..Default::default() };
    server.similarity().create_collection(create).await.expect("is made");
    // Enough rows for a compaction once a third of them is deleted.
    write(&server, 0..6000, 0).await;
    let (first, next) = page(&server, request(1000)).await;
    assert_eq!(first, (0..1000).collect::<Vec<_>>());
    write(&server, (0..6000).step_by(2), 1).await;
    delete(&server, 999..1001).await;
    server.daemon.shutdown().await;
    let server = TestServer::start_with(durable).await;
    let (second, _) = page(&server, next.expect("more points follow")).await;
    assert_eq!(second, (1001..2001).collect::<Vec<_>>());
}

#[tokio::test]
async fn uuids_are_ordered_by_their_bytes() {
    let server = TestServer::start().await;
    server.collection("c", 1, Metric::Dot).await;
    let uuid = |first: u8| format!("{first:02x}000000-0000-4000-8000-000000000000");
    let uuids: Vec<_> = [0xff, 0x00, 0x80, 0x7f].map(uuid).to_vec();
    let upsert = v1::UpsertRequest {
        collection: "c".into(),
        ids: Some(v1::PointIds { uuids, ..Default::default() }),
        points: Some(v1::upsert_request::Points::Vectors(tensor(&[4, 1], &[1.0; 4]))),
        ..Default::default()
    };
    server.similarity().upsert(upsert).await.expect("upserts");
    let first = server.similarity().scroll_points(request(3)).await.expect("scrolls").into_inner();
    assert_eq!(first.ids.expect("ids").uuids, [0x00, 0x7f, 0x80].map(uuid));
    let rest = v1::ScrollPointsRequest { cursor: first.next_cursor, ..request(3) };
    let rest = server.similarity().scroll_points(rest).await.expect("scrolls").into_inner();
    assert_eq!((rest.ids.expect("ids").uuids, rest.next_cursor.len()), (vec![uuid(0xff)], 0));
}

#[tokio::test]
async fn invalid_scrolls_and_counts_are_refused_by_field() {
    let server = TestServer::start().await;
    server.collection("c", 1, Metric::Dot).await;
    write(&server, [1, 2], 0).await;
    let mut similarity = server.similarity();
    let missing = v1::ScrollPointsRequest { collection: "missing".into(), ..request(1) };
    assert_refused(similarity.scroll_points(missing).await, Code::NotFound, "missing");
    assert_refused(similarity.scroll_points(request(16_385)).await, Code::InvalidArgument, "limit");
    let uuid = [&[2_u8][..], &[0; 16]].concat();
    for cursor in [&b"x"[..], &[1], &[1, 0, 0], &[3; 9], &[2; 18], &uuid] {
        let bad = v1::ScrollPointsRequest { cursor: cursor.to_vec().into(), ..request(1) };
        assert_refused(similarity.scroll_points(bad).await, Code::InvalidArgument, "cursor");
    }
    let nameless = || Some(v1::Filter { must: vec![v1::Condition::default()], ..Default::default() });
    let bad = v1::ScrollPointsRequest { filter: nameless(), ..request(1) };
    assert_refused(similarity.scroll_points(bad).await, Code::InvalidArgument, "filter.must[0]");
    let bad = v1::CountPointsRequest { collection: "c".into(), filter: nameless() };
    assert_refused(similarity.count_points(bad).await, Code::InvalidArgument, "filter.must[0]");
    let missing = v1::CountPointsRequest { collection: "missing".into(), filter: None };
    assert_refused(similarity.count_points(missing).await, Code::NotFound, "missing");
}

#[tokio::test]
async fn counts_follow_writes_and_filters() {
    let server = TestServer::start().await;
    server.collection("c", 1, Metric::Dot).await;
    let count = async |filter: Option<v1::Filter>| {
        let request = v1::CountPointsRequest { collection: "c".into(), filter };
        server.similarity().count_points(request).await.expect("counts").into_inner().point_count
    };
    assert_eq!(count(None).await, 0);
    write(&server, 0..11, 0).await;
    assert_eq!((count(None).await, count(Some(even())).await), (11, 6));
    write(&server, 0..5, 1).await;
    delete(&server, [0, 1, 77]).await;
    assert_eq!((count(None).await, count(Some(even())).await), (9, 5));
    let some = v1::Filter { ids: Some(numbers([2, 3, 3, 99])), ..even() };
    assert_eq!(count(Some(some)).await, 1);
}
