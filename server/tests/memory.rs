//! The daemon in a cgroup with little memory: writes that do not fit are refused, and the kernel does not kill it. Without
//! permission to create a cgroup, the daemon's limit is set directly and its resident memory is checked.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, Stdio},
};

use accelerd::config::{ByteSize, Config, Shares};
use accelerd_proto::v1::{
    self, Dtype, Metric, Tensor, similarity_service_client::SimilarityServiceClient, value::Kind,
};
use serde_json::Value;
use tonic::{Code, transport::Channel};

const LIMIT: u64 = 512 << 20;
const DIM: i64 = 256;

/// The share of the limit for collections.
fn share() -> ByteSize {
    ByteSize::b(Shares::of(LIMIT, Config::default().server.max_message_bytes.as_u64()).store)
}

/// A cgroup (v1 or v2) with a memory limit, removed on drop.
struct Group(PathBuf);

impl Group {
    fn new(name: &str) -> Option<Self> {
        let name = format!("accelerd-test-{name}-{}", std::process::id());
        for (top, file) in [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")] {
            let group = Self(Path::new(top).join(&name));
            // Missing if no cgroup file system is mounted.
            let made = fs::create_dir(&group.0).is_ok() && group.0.join(file).exists();
            if made && fs::write(group.0.join(file), LIMIT.to_string()).is_ok() {
                return Some(group);
            }
        }
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _left = fs::remove_dir(&self.0);
    }
}

struct Daemon {
    child: Child,
    grpc: String,
    /// The log line with the budgets.
    budgets: Value,
    group: Option<Group>,
}

impl Daemon {
    fn start(name: &str, settings: &[(&str, &str)]) -> Self {
        let group = Group::new(name);
        let mut command = match &group {
            // The shell enters the cgroup before it executes the daemon, which reads its cgroup at the start.
            Some(Group(path)) => {
                let mut command = Command::new("sh");
                command.args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""]).arg(path);
                command.arg(env!("CARGO_BIN_EXE_accelerd"));
                command
            }
            None => Command::new(env!("CARGO_BIN_EXE_accelerd")),
        };
        for (key, value) in [
            ("SERVER__LISTEN", "127.0.0.1:0"),
            ("SERVER__ADMIN_LISTEN", "127.0.0.1:0"),
            ("SERVER__HEALTH_LISTEN", "127.0.0.1:0"),
            ("BACKEND__KIND", "cpu"),
            ("TELEMETRY__LOG_FORMAT", "json"),
        ] {
            command.env(format!("ACCELERD__{key}"), value);
        }
        if group.is_none() {
            command.env("ACCELERD__STORE__MEMORY_LIMIT", share().to_string());
        }
        command.envs(settings.iter().map(|(key, value)| (format!("ACCELERD__{key}"), *value)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let (grpc, budgets) = until_serving(child.stderr.take().expect("its log"));
        Self { child, grpc, budgets, group }
    }

    async fn client(&self) -> SimilarityServiceClient<Channel> {
        let client = SimilarityServiceClient::connect(format!("http://{}", self.grpc)).await;
        client.expect("it accepts connections").max_encoding_message_size(64 << 20)
    }

    /// Peak resident memory in bytes.
    fn peak(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
        line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).expect("a number") * 1024
    }
}

/// The daemon's address and the log line with its budgets.
fn until_serving(log: ChildStderr) -> (String, Value) {
    let mut log = BufReader::new(log);
    let (mut budgets, mut line) = (Value::Null, String::new());
    loop {
        line.clear();
        assert!(log.read_line(&mut line).expect("readable") > 0, "it ended before it served");
        let Ok(line) = serde_json::from_str::<Value>(&line) else { continue };
        if line["message"] == "budgets of host memory" {
            budgets = line;
        } else if line["message"] == "serving" {
            let grpc = line["grpc"].as_str().expect("an address").to_owned();
            // Drain the pipe, so that the daemon does not block.
            std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
            return (grpc, budgets);
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

async fn create(client: &mut SimilarityServiceClient<Channel>, dimensions: i64, text_field: &str) {
    let request = v1::CreateCollectionRequest {
        name: "c".into(),
        dimensions: u32::try_from(dimensions).expect("small"),
        metric: Metric::Dot.into(),
        text_field: text_field.into(),
        ..v1::CreateCollectionRequest::default()
    };
    client.create_collection(request).await.expect("the name is free");
}

fn points(first: u64, count: u64, dim: i64, payloads: Vec<v1::Payload>) -> v1::UpsertRequest {
    let rows = i64::try_from(count).expect("small");
    let data = vec![0x3d; usize::try_from(rows * dim * 4).expect("small")].into();
    let vectors = Tensor { dtype: Dtype::F32.into(), shape: vec![rows, dim], data };
    v1::UpsertRequest {
        collection: "c".into(),
        ids: Some(v1::PointIds { numbers: (first..first + count).collect(), ..v1::PointIds::default() }),
        points: Some(v1::upsert_request::Points::Vectors(vectors)),
        payloads,
        ..v1::UpsertRequest::default()
    }
}

/// Writes until a write is refused. Returns the number of points and the refusal.
async fn fill(
    client: &mut SimilarityServiceClient<Channel>,
    step: u64,
    dim: i64,
    payload: impl Fn(u64) -> Option<v1::Payload>,
) -> (u64, tonic::Status) {
    let mut first = 0;
    loop {
        let payloads: Vec<_> = (first..first + step).filter_map(&payload).collect();
        match client.upsert(points(first, step, dim, payloads)).await {
            Ok(_) => first += step,
            Err(status) => return (first, status),
        }
        assert!(first < 100_000_000, "it is never refused");
    }
}

/// The refusal names the sizes, the daemon still serves, and its peak memory is within the limit.
async fn assert_bounded(daemon: &mut Daemon, count: u64, refused: &tonic::Status, least: u64) {
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    assert!(refused.message().contains("store.memory_limit"), "{refused:?}");
    assert!(count >= least, "only {count} points were taken");
    let got = daemon.client().await.get_collection(v1::GetCollectionRequest { name: "c".into() }).await;
    let collection = got.expect("it still answers").into_inner().collection.expect("described");
    assert_eq!(collection.point_count, count, "what was answered is there");
    assert_eq!(daemon.child.try_wait().expect("it can be asked"), None, "it runs");
    let peak = daemon.peak();
    eprintln!("{count} points, {} bytes accounted, {peak} bytes resident at most", collection.host_memory_bytes);
    assert!(peak <= LIMIT, "{peak} bytes were resident");
}

#[tokio::test]
async fn upserts_are_refused_before_the_kernel_kills_the_process() {
    let mut daemon = Daemon::start("vectors", &[]);
    if daemon.group.is_some() {
        assert!(daemon.budgets["memory"].as_str().is_some_and(|memory| memory.starts_with("512MiB, the limit in ")));
        assert_eq!(daemon.budgets["store.memory_limit"], share().to_string(), "{}", daemon.budgets);
    }
    let mut client = daemon.client().await;
    create(&mut client, DIM, "").await;
    let (count, refused) = fill(&mut client, 4096, DIM, |_| None).await;
    assert_bounded(&mut daemon, count, &refused, 80_000).await;
    let delete = v1::DeletePointsRequest {
        collection: "c".into(),
        filter: Some(v1::Filter {
            ids: Some(v1::PointIds { numbers: (0..count / 2).collect(), ..v1::PointIds::default() }),
            ..v1::Filter::default()
        }),
    };
    client.delete_points(delete).await.expect("points can be deleted where memory is used up");
}

#[tokio::test]
async fn growth_of_payloads_and_id_tables_is_accounted_for() {
    let mut daemon = Daemon::start("payloads", &[]);
    let mut client = daemon.client().await;
    create(&mut client, 1, "").await;
    let payload = |id: u64| {
        let value = |kind| v1::Value { kind: Some(kind) };
        let fields = [("path", Kind::StringValue(format!("src/{id}.rs"))), ("line", Kind::IntValue(id.cast_signed()))];
        Some(v1::Payload { fields: fields.map(|(name, kind)| (name.to_owned(), value(kind))).into() })
    };
    let (count, refused) = fill(&mut client, 4096, 1, payload).await;
    assert_bounded(&mut daemon, count, &refused, 100_000).await;
}

#[tokio::test]
async fn growth_of_a_text_index_is_accounted_for() {
    // Indexing is slow, so the test uses less memory.
    let mut daemon = Daemon::start("texts", &[("STORE__MEMORY_LIMIT", "4MiB")]);
    let mut client = daemon.client().await;
    create(&mut client, 1, "text").await;
    let payload = |id: u64| {
        let words: Vec<_> =
            (0..30).map(|at| format!("word{}", id.wrapping_mul(31).wrapping_add(at * at) % 50_000)).collect();
        let kind = Some(Kind::StringValue(words.join(" ")));
        Some(v1::Payload { fields: [("text".to_owned(), v1::Value { kind })].into() })
    };
    let (count, refused) = fill(&mut client, 4096, 1, payload).await;
    assert_bounded(&mut daemon, count, &refused, 1_000).await;
}
