//! Requests of concurrent callers share launches.

use accelerd_proto::v1::{self, Metric};
use futures::future::join_all;

use super::harness::{TestServer, numbers, tensor};

const DIM: usize = 64;

async fn filled(server: &TestServer, rows: usize) {
    server.collection("c", 64, Metric::Cosine).await;
    let vectors: Vec<f32> = (0..rows * DIM).map(|i| ((i * 7919) % 2003) as f32 / 2003.0 - 0.5).collect();
    let shape = [i64::try_from(rows).expect("a count"), 64];
    let upsert = v1::UpsertRequest {
        collection: "c".into(),
        ids: Some(numbers(0..rows as u64)),
        points: Some(v1::upsert_request::Points::Vectors(tensor(&shape, &vectors))),
        payloads: vec![],
        ..Default::default()
    };
    server.similarity().upsert(upsert).await.expect("upserts");
}

fn search(seed: usize) -> v1::SearchRequest {
    let query: Vec<f32> = (0..DIM).map(|i| ((seed * 31 + i * 17) % 101) as f32 / 101.0 - 0.5).collect();
    v1::SearchRequest {
        collection: "c".into(),
        query: Some(v1::search_request::Query::Vectors(tensor(&[1, 64], &query))),
        limit: 5,
        ..v1::SearchRequest::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_searches_share_launches_and_get_the_answers_of_single_searches() {
    let server = TestServer::start().await;
    filled(&server, 60_000).await;
    let mut alone = vec![];
    for seed in 0..100 {
        alone.push(server.similarity().search(search(seed)).await.expect("searches").into_inner());
    }
    let before = lane(&server).await;
    let together = join_all((0..100).map(|seed| {
        let mut client = server.similarity();
        async move { client.search(search(seed)).await.expect("searches").into_inner() }
    }));
    assert_eq!(together.await, alone);
    let after = lane(&server).await;
    let requests = after.request_count - before.request_count;
    let batches = after.batch_count - before.batch_count;
    assert_eq!(requests, 100);
    assert!(batches <= 50, "100 concurrent searches took {batches} launches");
}

async fn lane(server: &TestServer) -> v1::LaneStats {
    let stats = server.device().get_stats(v1::GetStatsRequest {}).await.expect("stats").into_inner();
    stats.lanes.into_iter().find(|lane| lane.name == "search").expect("the search lane is listed")
}
