//! Search and k-means over inline vectors.

use accelerd_proto::v1::{self, Metric};

use super::harness::{TestServer, f32s, i32s, tensor};

fn request(metric: Metric, k: u32) -> v1::FindSimilarRequest {
    v1::FindSimilarRequest {
        queries: Some(tensor(&[2, 2], &[1.0, 0.0, 0.0, 2.0])),
        corpus: Some(tensor(&[4, 2], &[0.0, 1.0, 3.0, 0.0, 1.0, 1.0, -1.0, 0.0])),
        metric: metric.into(),
        k,
        score_threshold: None,
    }
}

#[tokio::test]
async fn each_metric_ranks_by_its_definition() {
    let server = TestServer::start().await;
    let half = 0.5_f32.sqrt();
    let cases = [
        (Metric::Unspecified, [1, 2, 0, 2], [1.0, half, 1.0, half]),
        (Metric::Cosine, [1, 2, 0, 2], [1.0, half, 1.0, half]),
        (Metric::Dot, [1, 2, 0, 2], [3.0, 1.0, 2.0, 2.0]),
        (Metric::SquaredL2, [2, 0, 0, 2], [1.0, 2.0, 1.0, 2.0]),
    ];
    for (metric, rows, scores) in cases {
        let answer = server.similarity().find_similar(request(metric, 2)).await.expect("finds").into_inner();
        let indices = answer.indices.expect("indices");
        let found = answer.scores.expect("scores");
        assert_eq!(indices.shape, [2, 2]);
        assert_eq!(i32s(&indices), rows, "{metric:?}");
        assert_eq!(f32s(&found), scores, "{metric:?}");
    }
}

#[tokio::test]
async fn ties_go_to_the_lower_row() {
    let server = TestServer::start().await;
    let request = v1::FindSimilarRequest {
        queries: Some(tensor(&[1, 1], &[1.0])),
        corpus: Some(tensor(&[5, 1], &[2.0; 5])),
        k: 4,
        ..v1::FindSimilarRequest::default()
    };
    let answer = server.similarity().find_similar(request).await.expect("finds").into_inner();
    assert_eq!(i32s(&answer.indices.expect("indices")), [0, 1, 2, 3]);
}

#[tokio::test]
async fn rows_beyond_the_threshold_are_padded_with_minus_one_and_nan() {
    let server = TestServer::start().await;
    let threshold = v1::FindSimilarRequest { score_threshold: Some(0.9), ..request(Metric::Cosine, 2) };
    let answer = server.similarity().find_similar(threshold).await.expect("finds").into_inner();
    assert_eq!(i32s(&answer.indices.expect("indices")), [1, -1, 0, -1]);
    let scores = f32s(&answer.scores.expect("scores"));
    assert_eq!((scores[0], scores[2]), (1.0, 1.0));
    assert!(scores[1].is_nan() && scores[3].is_nan(), "{scores:?}");
}

#[tokio::test]
async fn clusters_are_found_and_reproducible() {
    let server = TestServer::start().await;
    let rows: Vec<f32> = (0..300).flat_map(|i| [(i % 3) as f32 * 50.0 + (i as f32).sin(), (i as f32).cos()]).collect();
    let cluster = v1::ClusterRequest {
        input: Some(v1::cluster_request::Input::Vectors(tensor(&[300, 2], &rows))),
        cluster_count: 3,
        init_count: 3,
        seed: 5,
        ..v1::ClusterRequest::default()
    };
    let answer = server.similarity().cluster(cluster.clone()).await.expect("clusters").into_inner();
    let assignments = i32s(answer.assignments.as_ref().expect("assignments"));
    assert!((0..300).all(|i| assignments[i] == assignments[i % 3]), "three blobs, three clusters");
    assert!(answer.inertia > 0.0 && answer.inertia < 600.0, "{}", answer.inertia);
    assert_eq!(answer.centers.as_ref().expect("centers").shape, [3, 2]);
    let again = server.similarity().cluster(cluster).await.expect("clusters").into_inner();
    assert_eq!(again.assignments, answer.assignments);
    assert_eq!(again.centers, answer.centers);
}
