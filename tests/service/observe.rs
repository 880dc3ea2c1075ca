//! Metrics, statistics and timings, from an operator's view.

use accelerd::config::ByteSize;
use accelerd_kernels::ledger::{Kind, Limit, Place};
use accelerd_proto::v1;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use tonic::{Code, Request};

use super::harness::{TestServer, assert_refused, numbers, payload, tensor, text, texts};

async fn get(address: std::net::SocketAddr, path: &str) -> (u16, String) {
    let stream = tokio::net::TcpStream::connect(address).await.expect("the admin port accepts connections");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("speaks HTTP/1.1");
    tokio::spawn(connection);
    let request =
        http::Request::get(path).header("host", "admin").body(Empty::<bytes::Bytes>::new()).expect("a request");
    let response = sender.send_request(request).await.expect("answers");
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    (status, String::from_utf8(body.to_vec()).expect("text"))
}

#[tokio::test]
async fn metrics_report_requests_queues_and_batches() {
    let server = TestServer::start().await;
    for _ in 0..3 {
        server.embed().embed(texts(&["count me"])).await.expect("embeds");
    }
    let refused = server.embed().embed(texts(&[])).await;
    assert_refused(refused, Code::InvalidArgument, "texts");
    let (status, metrics) = get(server.daemon.admin_addr(), "/metrics").await;
    assert_eq!(status, 200);
    for name in [
        "accelerd_request_duration_seconds_count{",
        "accelerd_queue_wait_seconds_count{",
        "accelerd_queue_items{",
        "accelerd_queue_bytes{",
        "accelerd_batch_items_count{",
        "accelerd_batch_fill_ratio_count{",
        "accelerd_device_execute_seconds_count{",
        "accelerd_build_info{",
        "accelerd_reactor_busy_seconds",
    ] {
        assert!(metrics.contains(name), "{name} is missing from:\n{metrics}");
    }
    let connections = value(&metrics, "accelerd_connections", &[]);
    assert!(connections > 0 && connections == value(&metrics, "accelerd_reactor_connections", &[]), "{metrics}");
    let ok = metrics.lines().any(|line| {
        line.starts_with("accelerd_request_duration_seconds_count{")
            && line.contains("Embed")
            && line.contains("\"OK\"")
    });
    let bad = metrics.lines().any(|line| {
        line.starts_with("accelerd_request_duration_seconds_count{") && line.contains("\"INVALID_ARGUMENT\"")
    });
    assert!(ok && bad, "requests are counted by method and code:\n{metrics}");
}

#[tokio::test]
async fn metrics_report_the_process_and_the_memory_of_collections_and_models() {
    let server = TestServer::start().await;
    server.collection("one", 2, v1::Metric::Dot).await;
    server.collection("two", 3, v1::Metric::Dot).await;
    for (collection, dim) in [("one", 2), ("two", 3)] {
        let points = Some(v1::upsert_request::Points::Vectors(tensor(
            &[4, dim],
            &vec![1.0; 4 * usize::try_from(dim).expect("small")],
        )));
        let ids = Some(numbers(0..4));
        let request = v1::UpsertRequest { collection: collection.into(), ids, points, ..v1::UpsertRequest::default() };
        server.similarity().upsert(request).await.expect("upserts");
    }
    let (_, metrics) = get(server.daemon.admin_addr(), "/metrics").await;
    let mut described = 0;
    for collection in ["one", "two"] {
        let request = v1::GetCollectionRequest { name: collection.into() };
        let got = server.similarity().get_collection(request).await.expect("it is there").into_inner().collection;
        described += got.expect("described").host_memory_bytes;
    }
    assert_eq!(value(&metrics, "accelerd_collections", &[]), 2);
    assert_eq!(value(&metrics, "accelerd_collection_points", &[]), 8);
    assert_eq!(value(&metrics, "accelerd_collection_memory_bytes", &[]), described);
    assert_eq!(value(&metrics, "accelerd_collection_budget_bytes", &[]), described, "nothing is under way");
    assert!(value(&metrics, "accelerd_collection_budget_limit_bytes", &[]) > 0, "a share of the machine's memory");
    assert_eq!(value(&metrics, "accelerd_models", &[]), 1);
    assert!(value(&metrics, "accelerd_model_memory_bytes", &[]) > 1 << 20, "the built-in model");
    assert!(value(&metrics, "process_resident_memory_bytes", &[]) > 1 << 20);
    assert!(value(&metrics, "process_open_fds", &[]) > 3 && value(&metrics, "process_threads", &[]) > 1);
    for name in ["process_cpu_seconds_total ", "process_start_time_seconds ", "process_max_fds "] {
        assert!(metrics.contains(&format!("\n{name}")), "{name} is missing from:\n{metrics}");
    }
}

#[tokio::test]
async fn metrics_report_the_file_systems_of_the_folders_that_the_daemon_writes_to() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("jit")).expect("a folder");
    let server = TestServer::start_with(|config| {
        config.store.data_dir = folder.path().join("data");
        config.cuda.kernel_cache = folder.path().to_owned();
    })
    .await;
    let metrics = server.daemon.app().metrics.text();
    for setting in ["store.data_dir", "cuda.kernel_cache"] {
        let bytes = |name| value(&metrics, name, &[&format!("setting=\"{setting}\"")]);
        let free = bytes("accelerd_filesystem_free_bytes");
        assert!(0 < free && free <= bytes("accelerd_filesystem_size_bytes"), "{setting} in {metrics}");
    }
}

#[tokio::test]
async fn a_text_index_without_memory_for_a_commit_is_reported_until_it_has_some() {
    let server = TestServer::start().await;
    let request = v1::CreateCollectionRequest {
        name: "texts".into(),
        dimensions: 1,
        metric: v1::Metric::Dot.into(),
        text_field: "body".into(),
        ..v1::CreateCollectionRequest::default()
    };
    server.similarity().create_collection(request).await.expect("the collection is made");
    let postponed = || value(&server.daemon.app().metrics.text(), "accelerd_collections_text_index_postponed", &[]);
    let ledger = &server.daemon.app().ledger;
    // A commit takes 16,384 rows and 24 MiB; the next one after a failure takes twice as many rows.
    for (first, bytes, expected) in [(0, 20 << 20, 1), (16_384, 1 << 30, 0)] {
        assert_eq!(postponed(), 1 - expected);
        ledger.cap(Place::Host, Kind::Writers, Limit { bytes, setting: "memory.host_limit" });
        let points = Some(v1::upsert_request::Points::Vectors(tensor(&[16_384, 1], &vec![1.0; 16_384])));
        let request = v1::UpsertRequest {
            collection: "texts".into(),
            ids: Some(numbers(first..first + 16_384)),
            points,
            payloads: vec![payload([("body", text("a"))]); 16_384],
            ..v1::UpsertRequest::default()
        };
        server.similarity().upsert(request).await.expect("it takes the points");
        assert_eq!(postponed(), expected);
    }
}

/// The sum of a metric over the series that have these labels.
fn value(metrics: &str, name: &str, labels: &[&str]) -> u64 {
    let is_it = |line: &&str| {
        let rest = line.strip_prefix(name).map(|rest| rest.strip_prefix("_total").unwrap_or(rest));
        rest.is_some_and(|rest| rest.starts_with(['{', ' '])) && labels.iter().all(|label| line.contains(label))
    };
    let values = metrics.lines().filter(is_it).filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    values.sum()
}

#[tokio::test]
async fn metrics_count_parsed_sources_and_the_fallback_to_the_cpu() {
    let server = TestServer::start_with(|config| config.lanes.parse.cpu_max_bytes = Some(ByteSize::b(0))).await;
    let parse = async |sources: &[&'static str]| {
        let sources = sources.iter().map(|source| bytes::Bytes::from_static(source.as_bytes())).collect();
        server.parse().parse(v1::ParseRequest { sources, ..v1::ParseRequest::default() }).await.expect("parses");
    };
    parse(&["x = 1\n", "x =\n", "if x:\ny\n"]).await;
    parse(&["\u{e9} = 1\n", "y\n"]).await;
    let (_, metrics) = get(server.daemon.admin_addr(), "/metrics").await;
    let whole = |name: &str, labels: &[&str]| value(&metrics, &format!("accelerd_{name}"), labels);
    assert_eq!((whole("parse_sources_count", &[]), whole("parse_sources_sum", &[])), (2, 5), "{metrics}");
    assert_eq!((whole("parse_bytes_count", &[]), whole("parse_bytes_sum", &[])), (2, 27), "{metrics}");
    assert_eq!((whole("parse_nodes_count", &[]), whole("parse_nodes_sum", &[])), (2, 8), "{metrics}");
    let results = ["ok", "SyntaxError", "IndentationError"].map(|name| format!("result=\"{name}\""));
    let counts = results.each_ref().map(|result| whole("parse_results", &[result]));
    assert_eq!(counts, [3, 1, 1], "{metrics}");
    let left = [vec![], vec!["reason=\"non_ascii_name\""], vec!["reason=\"syntax\""], vec!["reason=\"block\""]];
    let left = left.map(|labels| (whole("cpu_fallback_items", &labels), whole("cpu_fallback_bytes", &labels)));
    let expected = [(3, 19), (1, 7), (1, 4), (1, 8)];
    assert_eq!(left, if server.has_gpu() { expected } else { [(0, 0); 4] }, "{metrics}");
}

#[tokio::test]
async fn the_admin_port_serves_health_version_and_settings() {
    let server = TestServer::start_with(|config| config.drain.allow_rpc = true).await;
    let address = server.daemon.admin_addr();
    for path in ["/healthz", "/readyz", "/version", "/config"] {
        assert_eq!(get(address, path).await.0, 200, "{path}");
    }
    assert_eq!(get(address, "/nothing").await.0, 404);
    server.device().drain(v1::DrainRequest { timeout: None }).await.expect("drains");
    assert_eq!(get(address, "/readyz").await.0, 503);
    assert_eq!(get(address, "/healthz").await.0, 503);
    server.device().resume(v1::ResumeRequest {}).await.expect("resumes");
    for path in ["/healthz", "/readyz"] {
        assert_eq!(get(address, path).await.0, 200, "{path}");
    }
}

#[tokio::test]
async fn statistics_count_lanes_and_devices() {
    let server = TestServer::start().await;
    server.embed().embed(texts(&["one", "two"])).await.expect("embeds");
    let stats = server.device().get_stats(v1::GetStatsRequest {}).await.expect("stats").into_inner();
    let lane = stats.lanes.iter().find(|lane| lane.name == "embed").expect("the embed lane");
    assert_eq!((lane.request_count, lane.item_count, lane.batch_count), (1, 2, 1));
    assert!(lane.execute.as_ref().expect("times").max.is_some());
    assert!(stats.devices.iter().any(|device| device.kind() == v1::DeviceKind::Cpu && device.compute_unit_count > 0));
    let report = server.device().export_report(v1::ExportReportRequest {}).await.expect("reports").into_inner();
    let report: serde_json::Value = serde_json::from_str(&report.json).expect("the report is JSON");
    for key in ["version", "devices", "lanes", "kernels", "admission", "settings"] {
        assert!(report.get(key).is_some(), "{key} is missing from {report}");
    }
}

#[tokio::test]
async fn watch_sends_samples_and_refuses_invalid_intervals() {
    let server = TestServer::start().await;
    let interval = |nanos| v1::WatchRequest { interval: Some(prost_duration(0, nanos)) };
    let mut samples = server.device().watch(interval(100_000_000)).await.expect("watches").into_inner();
    for _ in 0..2 {
        let sample = samples.message().await.expect("a sample").expect("a sample");
        assert!(!sample.stats.expect("numbers").version.is_empty());
    }
    for (seconds, nanos, got) in [(0, 0, "0ns"), (0, 1, "1ns"), (0, -5, "-5ns"), (-1, 0, "-1s"), (3601, 0, "3601s")] {
        let request = v1::WatchRequest { interval: Some(prost_duration(seconds, nanos)) };
        let reason = format!("interval: expected 100ms to 3600s, got {got}");
        assert_refused(server.device().watch(request).await, Code::InvalidArgument, &reason);
    }
}

#[tokio::test]
async fn stage_timings_are_returned_on_request() {
    let server = TestServer::start().await;
    let mut request = Request::new(texts(&["timed"]));
    request.metadata_mut().insert("accelerd-timing", "1".parse().expect("metadata"));
    let answer = server.embed().embed(request).await.expect("embeds");
    let timing = answer.metadata().get("server-timing").expect("asked for").to_str().expect("text").to_owned();
    assert!(timing.contains("queue;dur=") && timing.contains("execute;dur="), "{timing}");
    let plain = server.embed().embed(texts(&["untimed"])).await.expect("embeds");
    assert!(plain.metadata().get("server-timing").is_none());
}

fn prost_duration(seconds: i64, nanos: i32) -> prost_types::Duration {
    prost_types::Duration { seconds, nanos }
}
