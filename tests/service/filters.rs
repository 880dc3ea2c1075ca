//! Filtered searches over enough rows for field indexes equal a brute-force ranking.

use accelerd_proto::v1::{self, Metric, condition::Test};

use super::harness::{TestServer, int, numbers, payload, tensor, text};

const ROWS: u64 = 9000;

/// A position on a line: a permutation, so that passing rows are scattered.
fn place(id: u64) -> f32 {
    (id * 7919 % 9001) as f32
}

fn fields(id: u64) -> v1::Payload {
    let double = |value| v1::Value { kind: Some(v1::value::Kind::DoubleValue(value)) };
    let number = if id.is_multiple_of(2) { int((id % 1000).cast_signed()) } else { double((id % 1000) as f64) };
    let mut payload =
        payload([("half", int((id % 2).cast_signed())), ("number", number), ("own", text(&format!("v{id}")))]);
    if id.is_multiple_of(10) {
        // A few adjacent rows.
        payload.fields.insert("tenth".into(), text(if id < 4500 { "low" } else { "high" }));
    }
    payload
}

async fn write(server: &TestServer, ids: impl IntoIterator<Item = u64>) {
    let ids: Vec<_> = ids.into_iter().collect();
    let places: Vec<f32> = ids.iter().map(|id| place(*id)).collect();
    let count = i64::try_from(ids.len()).expect("few");
    let upsert = v1::UpsertRequest {
        collection: "c".into(),
        points: Some(v1::upsert_request::Points::Vectors(tensor(&[count, 1], &places))),
        payloads: ids.iter().map(|id| fields(*id)).collect(),
        ids: Some(numbers(ids)),
        ..Default::default()
    };
    server.similarity().upsert(upsert).await.expect("upserts");
}

pub(crate) fn condition(field: &str, test: Test) -> v1::Condition {
    v1::Condition { field: field.into(), test: Some(test) }
}

fn equals(field: &str, value: v1::Value) -> v1::Condition {
    condition(field, Test::Equals(value))
}

fn must(must: Vec<v1::Condition>) -> v1::Filter {
    v1::Filter { must, ..Default::default() }
}

/// A filter and its predicate over ids.
type Case = (v1::Filter, Box<dyn Fn(u64) -> bool + Send>);

fn cases() -> Vec<Case> {
    let below = |lt| condition("number", Test::Range(v1::Range { lt: Some(lt), ..Default::default() }));
    let own = |ids: Vec<u64>| {
        let values = ids.into_iter().map(|id| text(&format!("v{id}"))).collect();
        condition("own", Test::AnyOf(v1::ValueSet { values }))
    };
    let not = |must_not: Vec<v1::Condition>| v1::Filter { must_not, ..Default::default() };
    vec![
        (must(vec![equals("half", int(1))]), Box::new(|id| id % 2 == 1)),
        (must(vec![below(100.0)]), Box::new(|id| id % 1000 < 100)),
        (must(vec![below(10.0), equals("half", int(0))]), Box::new(|id| id % 1000 < 10 && id % 2 == 0)),
        (must(vec![equals("number", int(7))]), Box::new(|id| id % 1000 == 7)),
        (must(vec![equals("tenth", text("low"))]), Box::new(|id| id % 10 == 0 && id < 4500)),
        (must(vec![own((0..20_000).step_by(3).collect())]), Box::new(|id| id % 3 == 0)),
        (must(vec![equals("own", text("v17"))]), Box::new(|id| id == 17)),
        (must(vec![equals("own", text("none"))]), Box::new(|_| false)),
        (must(vec![equals("missing", int(1))]), Box::new(|_| false)),
        (not(vec![equals("missing", int(1))]), Box::new(|_| true)),
        (
            not(vec![equals("tenth", text("high")), below(500.0)]),
            Box::new(|id| !(id % 10 == 0 && id >= 4500) && id % 1000 >= 500),
        ),
        (
            v1::Filter { ids: Some(numbers((0..9000).step_by(4))), ..must(vec![below(500.0)]) },
            Box::new(|id| id % 4 == 0 && id % 1000 < 500),
        ),
    ]
}

/// The ids that pass, nearest first.
fn expected(ids: impl Iterator<Item = u64>, query: f32, limit: usize) -> Vec<u64> {
    let mut ids: Vec<_> = ids.collect();
    ids.sort_by(|a, b| (place(*a) - query).abs().total_cmp(&(place(*b) - query).abs()));
    ids.truncate(limit);
    ids
}

async fn search(server: &TestServer, filter: v1::Filter, queries: &[f32], limit: u32) -> Vec<Vec<u64>> {
    let count = i64::try_from(queries.len()).expect("few");
    let request = v1::SearchRequest {
        collection: "c".into(),
        query: Some(v1::search_request::Query::Vectors(tensor(&[count, 1], queries))),
        limit,
        filter: Some(filter),
        ..Default::default()
    };
    let answer = server.similarity().search(request).await.expect("searches").into_inner();
    let number = |hit: &v1::Hit| match hit.id {
        Some(v1::hit::Id::Number(number)) => number,
        _ => panic!("{hit:?} has no number"),
    };
    answer.results.iter().map(|result| result.hits.iter().map(number).collect()).collect()
}

/// Between positions, so that distances do not tie.
const QUERIES: [f32; 3] = [-5.25, 4000.3, 8999.9];

async fn check(server: &TestServer, lives: impl Fn(u64) -> bool + Copy) {
    for (filter, passes) in cases() {
        for limit in [1, 10, 16_384] {
            let found = search(server, filter.clone(), &QUERIES, limit).await;
            for (query, found) in QUERIES.iter().zip(found) {
                let passing = (0..ROWS).filter(|id| passes(*id) && lives(*id));
                assert_eq!(found, expected(passing, *query, limit as usize), "{filter:?}");
            }
        }
        let count = v1::CountPointsRequest { collection: "c".into(), filter: Some(filter.clone()) };
        let counted = server.similarity().count_points(count).await.expect("counts").into_inner().point_count;
        assert_eq!(counted, (0..ROWS).filter(|id| passes(*id) && lives(*id)).count() as u64, "{filter:?}");
    }
}

#[tokio::test]
async fn filtered_searches_equal_brute_force_through_writes_and_deletions() {
    let server = TestServer::start().await;
    server.collection("c", 1, Metric::SquaredL2).await;
    write(&server, 0..7000).await;
    check(&server, |id| id < 7000).await;
    write(&server, 7000..ROWS).await;
    check(&server, |_| true).await;
    // A replaced point has a new row, which an index may not cover yet.
    write(&server, (0..ROWS).step_by(7)).await;
    check(&server, |_| true).await;
    let third = condition("number", Test::Range(v1::Range { gte: Some(300.0), lt: Some(600.0), ..Default::default() }));
    let delete = v1::DeletePointsRequest { collection: "c".into(), filter: Some(must(vec![third])) };
    let deleted = server.similarity().delete_points(delete).await.expect("deletes").into_inner().deleted_count;
    assert_eq!(deleted, 2700);
    check(&server, |id| !(300..600).contains(&(id % 1000))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filtered_searches_of_several_callers_share_a_batch_and_keep_their_answers() {
    let server = TestServer::start().await;
    server.collection("c", 1, Metric::SquaredL2).await;
    write(&server, 0..ROWS).await;
    let calls = (0..4).flat_map(|_| cases()).map(|(filter, passes)| {
        let server = &server;
        async move {
            let found = search(server, filter.clone(), &QUERIES, 20).await;
            for (query, found) in QUERIES.iter().zip(found) {
                assert_eq!(found, expected((0..ROWS).filter(|id| passes(*id)), *query, 20), "{filter:?}");
            }
        }
    });
    futures::future::join_all(calls).await;
}

#[tokio::test]
async fn indexes_of_fields_count_as_memory_of_the_collection() {
    let server = TestServer::start().await;
    server.collection("c", 1, Metric::SquaredL2).await;
    write(&server, 0..ROWS).await;
    let bytes = async || {
        let request = v1::GetCollectionRequest { name: "c".into() };
        let collection = server.similarity().get_collection(request).await.expect("described").into_inner().collection;
        collection.expect("described").host_memory_bytes
    };
    let before = bytes().await;
    search(&server, must(vec![equals("own", text("v1"))]), &[0.0], 1).await;
    assert!(bytes().await >= before + 8 * ROWS, "a value of its own and a row for each point");
}
