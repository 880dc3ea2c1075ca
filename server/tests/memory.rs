//! The daemon in a cgroup with little memory: writes that do not fit are refused, and the kernel does not kill it. Without
//! permission to create a cgroup, the daemon's limit is set directly and its resident memory is checked.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, Stdio},
};

use accelerd::config::{Budgets, ByteSize, Config};
use accelerd_proto::v1::{
    self, Dtype, Metric, Tensor, device_service_client::DeviceServiceClient, embed_request::Input,
    embed_service_client::EmbedServiceClient, parse_service_client::ParseServiceClient,
    similarity_service_client::SimilarityServiceClient, tensor_service_client::TensorServiceClient, value::Kind,
};
use serde_json::{Value, json};
use tonic::{Code, Status, transport::Channel};
use tonic_types::StatusExt;

const LIMIT: u64 = 512 << 20;
const DIM: i64 = 256;

/// The budgets below the limit.
fn budgets() -> Budgets {
    Budgets::of(LIMIT, Config::default().server.max_message_bytes.as_u64())
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
            ("HTTP__LISTEN", "127.0.0.1:0"),
            ("BACKEND__KIND", "cpu"),
            ("TELEMETRY__LOG_FORMAT", "json"),
        ] {
            command.env(format!("ACCELERD__{key}"), value);
        }
        if group.is_none() {
            command.env("ACCELERD__MEMORY__HOST_LIMIT", ByteSize::b(budgets().host_limit).to_string());
        }
        command.envs(settings.iter().map(|(key, value)| (format!("ACCELERD__{key}"), *value)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let (grpc, budgets) = until_serving(child.stderr.take().expect("its log"));
        Self { child, grpc, budgets, group }
    }

    async fn channel(&self) -> Channel {
        let endpoint = Channel::from_shared(format!("http://{}", self.grpc)).expect("an address is a URI");
        endpoint.connect().await.expect("it accepts connections")
    }

    async fn client(&self) -> SimilarityServiceClient<Channel> {
        SimilarityServiceClient::new(self.channel().await).max_encoding_message_size(64 << 20)
    }

    /// The ledger's figures for the host.
    async fn host_memory(&self) -> v1::MemoryPlace {
        let mut client = DeviceServiceClient::new(self.channel().await);
        let stats = client.get_stats(v1::GetStatsRequest {}).await.expect("it answers").into_inner();
        stats.memory.into_iter().find(|place| place.name == "host").expect("the host has a ledger")
    }

    /// Peak resident memory in bytes.
    fn peak(&self) -> u64 {
        self.resident("VmHWM:")
    }

    fn resident(&self, line: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|found| found.strip_prefix(line)).expect("a line");
        line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).expect("a number") * 1024
    }
}

/// The daemon's address and the log line with its budgets.
fn until_serving(log: ChildStderr) -> (String, Value) {
    let mut log = BufReader::new(log);
    let mut budgets = Value::Null;
    let mut line = String::new();
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

/// Points of a call. Two of their messages fit into what messages are guaranteed, so that collections are what is refused
/// even while the ledger still counts the previous message.
const STEP: u64 = 2048;

/// Writes until a write is refused. Returns the number of points and the refusal.
async fn fill(
    client: &mut SimilarityServiceClient<Channel>,
    dim: i64,
    payload: impl Fn(u64) -> Option<v1::Payload>,
) -> (u64, tonic::Status) {
    fill_from(0, client, dim, payload).await
}

/// As [`fill`], with the points from `first` on.
async fn fill_from(
    mut first: u64,
    client: &mut SimilarityServiceClient<Channel>,
    dim: i64,
    payload: impl Fn(u64) -> Option<v1::Payload>,
) -> (u64, tonic::Status) {
    loop {
        let payloads: Vec<_> = (first..first + STEP).filter_map(&payload).collect();
        match client.upsert(points(first, STEP, dim, payloads)).await {
            Ok(_) => first += STEP,
            Err(status) => return (first, status),
        }
        assert!(first < 100_000_000, "it is never refused");
    }
}

/// The kind of memory that a refusal names.
fn refused_kind(refused: &tonic::Status) -> String {
    refused.get_details_error_info().and_then(|figures| figures.metadata.get("kind").cloned()).unwrap_or_default()
}

/// The refusal names the sizes, the daemon still serves, and its peak memory is within the limit.
async fn assert_bounded(daemon: &mut Daemon, count: u64, refused: &tonic::Status, least: u64) {
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    let figures = refused.get_details_error_info().expect("figures");
    assert_eq!((figures.reason.as_str(), &*figures.metadata["kind"]), ("MEMORY_LIMIT", "collections"), "{refused:?}");
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
        let store = ByteSize::b(budgets().data).to_string();
        assert_eq!(daemon.budgets["store.memory_limit"], store, "{}", daemon.budgets);
    }
    let mut client = daemon.client().await;
    create(&mut client, DIM, "").await;
    let (count, refused) = fill(&mut client, DIM, |_| None).await;
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
    let (count, refused) = fill(&mut client, 1, payload).await;
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
    let (count, refused) = fill(&mut client, 1, payload).await;
    assert_bounded(&mut daemon, count, &refused, 1_000).await;
}

/// Bytes of weights of [`write_model`], and of the CPU's copy of them.
const MODEL_BYTES: u64 = 2 * 64 * INTERMEDIATE * 2;
const INTERMEDIATE: u64 = 80_000;

/// Writes an encoder of one layer, whose weights are zeros in 16 bits; the CPU computes with a copy in 32 bits.
fn write_model(folder: &Path) {
    const HIDDEN: u64 = 64;
    let config = json!({
        "model_type": "bert", "architectures": ["BertModel"], "hidden_act": "gelu", "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE, "layer_norm_eps": 1e-12, "max_position_embeddings": 16,
        "num_attention_heads": 2, "num_hidden_layers": 1, "type_vocab_size": 2, "vocab_size": 8,
    });
    let layer = |name: &str| format!("encoder.layer.0.{name}");
    let mut tensors: Vec<(String, Vec<u64>)> = vec![];
    for name in ["attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"] {
        tensors.push((layer(name) + ".weight", vec![HIDDEN, HIDDEN]));
        tensors.push((layer(name) + ".bias", vec![HIDDEN]));
    }
    for name in ["embeddings.LayerNorm".to_owned(), layer("attention.output.LayerNorm"), layer("output.LayerNorm")] {
        tensors.push((format!("{name}.weight"), vec![HIDDEN]));
        tensors.push((format!("{name}.bias"), vec![HIDDEN]));
    }
    for (name, rows) in [("word", 8), ("position", 16), ("token_type", 2)] {
        tensors.push((format!("embeddings.{name}_embeddings.weight"), vec![rows, HIDDEN]));
    }
    tensors.push((layer("intermediate.dense.weight"), vec![INTERMEDIATE, HIDDEN]));
    tensors.push((layer("intermediate.dense.bias"), vec![INTERMEDIATE]));
    tensors.push((layer("output.dense.weight"), vec![HIDDEN, INTERMEDIATE]));
    tensors.push((layer("output.dense.bias"), vec![HIDDEN]));
    let mut header = serde_json::Map::new();
    let mut end = 0;
    for (name, shape) in tensors {
        let start = end;
        end += 2 * shape.iter().product::<u64>();
        header.insert(name, json!({ "dtype": "F16", "shape": shape, "data_offsets": [start, end] }));
    }
    let header = Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.resize(file.len() + usize::try_from(end).expect("it fits"), 0);
    fs::write(folder.join("config.json"), config.to_string()).expect("written");
    fs::write(folder.join("model.safetensors"), file).expect("written");
}

/// Answers and refusals of one side of the load.
#[derive(Debug, Default)]
struct Outcome {
    answered: usize,
    refused: Vec<Status>,
}

impl Outcome {
    /// Counts a result. Returns what was answered.
    fn count<T>(&mut self, result: Result<tonic::Response<T>, Status>) -> Option<T> {
        match result {
            Ok(response) => {
                self.answered += 1;
                Some(response.into_inner())
            }
            Err(status) => {
                assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
                self.refused.push(status);
                None
            }
        }
    }

    /// Refusals by the ledger: each has its figures.
    fn refused_by_ledger(&self) -> usize {
        let infos = self.refused.iter().filter_map(StatusExt::get_details_error_info);
        let by_ledger = infos.filter(|info| info.reason == "MEMORY_LIMIT");
        let figures = |info: &tonic_types::ErrorInfo, key: &str| info.metadata[key].parse::<u64>().expect("a number");
        by_ledger
            .filter(|info| figures(info, "held_bytes") + figures(info, "asked_bytes") > figures(info, "limit_bytes"))
            .count()
    }
}

/// Loads models from `folder` under several names, and embeds with each.
async fn load_models(channel: Channel, folder: &Path) -> Outcome {
    let mut client = EmbedServiceClient::new(channel);
    let mut outcome = Outcome::default();
    for at in 0..8 {
        let path = folder.to_str().expect("text").to_owned();
        let request = v1::LoadModelRequest { name: format!("m{at}"), path, ..v1::LoadModelRequest::default() };
        if outcome.count(client.load_model(request).await).is_none() {
            continue;
        }
        let tokens = v1::TokenInput { ids: vec![1, 2, 3], offsets: vec![0, 3] };
        let input = Some(Input::Tokens(tokens));
        let request = v1::EmbedRequest { model: format!("m{at}"), input, ..v1::EmbedRequest::default() };
        match client.embed(request).await {
            // Another caller needed its memory.
            Err(evicted) if evicted.code() == Code::NotFound => {}
            embedded => {
                if let Some(embedded) = outcome.count(embedded) {
                    assert_eq!(embedded.embeddings.expect("a tensor").shape, [1, 64]);
                }
            }
        }
    }
    outcome
}

async fn embed_texts(channel: Channel) -> Outcome {
    let mut client = EmbedServiceClient::new(channel);
    let mut outcome = Outcome::default();
    for _ in 0..24 {
        let values = (0..2048).map(|at| format!("text {at} ").repeat(100)).collect();
        let input = Some(Input::Texts(v1::TextInput { values }));
        if let Some(embedded) = outcome.count(client.embed(v1::EmbedRequest { input, ..Default::default() }).await) {
            assert_eq!(embedded.token_counts.len(), 2048);
        }
    }
    outcome
}

async fn parse_sources(channel: Channel) -> Outcome {
    let mut client = ParseServiceClient::new(channel).max_decoding_message_size(64 << 20);
    let mut outcome = Outcome::default();
    for _ in 0..24 {
        let sources = vec!["value = function(argument, 1 + 2)\n".repeat(2000).into_bytes().into(); 2];
        if let Some(parsed) = outcome.count(client.parse(v1::ParseRequest { sources, ..Default::default() }).await) {
            assert_eq!(parsed.results.len(), 2);
        }
    }
    outcome
}

async fn cluster_rows(mut client: SimilarityServiceClient<Channel>) -> Outcome {
    let mut outcome = Outcome::default();
    for seed in 0..6 {
        let rows: Vec<u8> = (0..20_000_u32 * 64).flat_map(|at| ((at % 977) as f32).to_le_bytes()).collect();
        let vectors = Tensor { dtype: Dtype::F32.into(), shape: vec![20_000, 64], data: rows.into() };
        let input = Some(v1::cluster_request::Input::Vectors(vectors));
        let request = v1::ClusterRequest { input, cluster_count: 8, max_iterations: 2, seed, ..Default::default() };
        if let Some(clustered) = outcome.count(client.cluster(request).await) {
            assert_eq!(clustered.assignments.expect("a tensor").shape, [20_000]);
        }
    }
    outcome
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_that_is_filled_from_all_sides_stays_within_the_limit_and_returns_to_rest() {
    let folder = tempfile::tempdir().expect("a folder");
    write_model(folder.path());
    let path = folder.path().to_str().expect("text");
    let mut daemon = Daemon::start("sides", &[("MODELS__FOLDERS", path)]);
    let at_rest = daemon.host_memory().await;
    assert_eq!(at_rest.limit_bytes, budgets().host_limit);
    let mut client = daemon.client().await;
    create(&mut client, DIM, "").await;
    let channel = daemon.channel().await;
    let others = daemon.client().await;
    let ((count, refused), models, embedded, parsed, clustered) = tokio::join!(
        fill(&mut client, DIM, |_| None),
        load_models(channel.clone(), folder.path()),
        embed_texts(channel.clone()),
        parse_sources(channel.clone()),
        cluster_rows(others),
    );
    // Messages of the others may have been what left no room for one more.
    let (count, refused) = match refused_kind(&refused).as_str() {
        "messages" => fill_from(count, &mut client, DIM, |_| None).await,
        _ => (count, refused),
    };
    let full = daemon.host_memory().await;
    assert!(full.held_bytes <= full.limit_bytes, "{full:?}");
    // Collections may not have left room for more than one copy of a model, but calls have their guaranteed part.
    assert!(models.answered > 0 && embedded.answered > 0 && parsed.answered > 0 && clustered.answered > 0);
    let sides = [&models, &embedded, &parsed, &clustered];
    for side in sides {
        eprintln!(
            "{} answered, {} refused, {} of them by the ledger",
            side.answered,
            side.refused.len(),
            side.refused_by_ledger()
        );
    }
    assert_bounded(&mut daemon, count, &refused, 1_000).await;
    // Where what cannot be evicted fills the rest, no model fits.
    let is_kept = |account: &&v1::MemoryAccount| !["models", "copies", "indexes"].contains(&&*account.kind);
    let kept: u64 = full.accounts.iter().filter(is_kept).map(|account| account.held_bytes).sum();
    let later = load_models(channel, folder.path()).await;
    assert!(later.refused_by_ledger() > 0 || full.limit_bytes - kept > 3 * MODEL_BYTES, "{later:?}, {full:?}");
    release(&mut daemon, &mut client, &at_rest).await;
    eprintln!("{} bytes resident at rest", daemon.resident("VmRSS:"));
}

/// Deletes everything. The ledger then holds what it held at rest, but for the blocks that calls keep set aside.
async fn release(daemon: &mut Daemon, client: &mut SimilarityServiceClient<Channel>, at_rest: &v1::MemoryPlace) {
    client.delete_collection(v1::DeleteCollectionRequest { name: "c".into() }).await.expect("deleted");
    let mut models = EmbedServiceClient::new(daemon.channel().await);
    for model in models.list_models(v1::ListModelsRequest {}).await.expect("listed").into_inner().models {
        if model.name != "builtin" {
            models.unload_model(v1::UnloadModelRequest { name: model.name }).await.expect("unloaded");
        }
    }
    let held = |memory: &v1::MemoryPlace, kind: &str| {
        memory.accounts.iter().find(|account| account.kind == kind).map_or(0, |account| account.held_bytes)
    };
    let data = |memory: &v1::MemoryPlace| ["collections", "indexes", "models", "copies"].map(|kind| held(memory, kind));
    let mut now = daemon.host_memory().await;
    // A call that ended may still be dropping what it held.
    for _ in 0..1000 {
        if data(&now) == [0; 4] {
            break;
        }
        now = daemon.host_memory().await;
    }
    assert_eq!(data(&now), data(at_rest), "{now:?}");
    // Connections that are open keep their windows: those of the callers, of the models and of the statistics.
    let windows = 4 * Config::default().server.connection_window_bytes.as_u64();
    for (kind, more) in [("messages", windows), ("requests", 0)] {
        let block = (budgets().messages.max(budgets().admission) / 64).max(1 << 20);
        assert!(held(&now, kind) <= held(at_rest, kind) + 2 * block + more, "{kind}: {now:?}");
    }
}

/// Uploads a tensor of zeros, of whole MiB.
async fn upload(client: &mut TensorServiceClient<Channel>, bytes: usize) -> Result<String, Status> {
    let shape = vec![i64::try_from(bytes).expect("small") / 4];
    let header = v1::UploadTensorHeader { dtype: Dtype::F32.into(), shape, ..Default::default() };
    let header = v1::UploadTensorRequest { header: Some(header), ..Default::default() };
    let chunk = |_| v1::UploadTensorRequest { header: None, data: vec![0; 1 << 20].into() };
    let parts: Vec<_> = std::iter::once(header).chain((0..bytes >> 20).map(chunk)).collect();
    let uploaded = client.upload_tensor(futures::stream::iter(parts)).await?;
    Ok(uploaded.into_inner().tensor.expect("a tensor").handle)
}

/// Copies a tensor until a copy is refused. Returns their handles and the refusal.
async fn fill_tensors(client: &mut TensorServiceClient<Channel>, original: &str) -> (Vec<String>, Status) {
    let mut handles = vec![];
    loop {
        let copy = v1::CopyTensorRequest { handle: original.to_owned(), ..Default::default() };
        match client.copy_tensor(copy).await {
            Ok(response) => handles.push(response.into_inner().tensor.expect("a tensor").handle),
            Err(status) => return (handles, status),
        }
        assert!(handles.len() < 1000, "it is never refused");
    }
}

/// The sum of a resident tensor's exponentials and their reverse, for which they are stored.
fn sum_of_exponentials(handle: &str) -> v1::ExecuteRequest {
    let node = |name: &str, op: &str, inputs: &[&str]| v1::TensorNode {
        name: name.to_owned(),
        op: op.to_owned(),
        inputs: inputs.iter().map(|name| (*name).to_owned()).collect(),
        ..Default::default()
    };
    let mut flip = node("f", "flip", &["e"]);
    let dims = v1::tensor_attribute::Value::Integer(0);
    flip.attributes.insert("dims".to_owned(), v1::TensorAttribute { value: Some(dims) });
    let source = Some(v1::tensor_input::Source::Handle(handle.to_owned()));
    v1::ExecuteRequest {
        inputs: vec![v1::TensorInput { name: "x".to_owned(), source }],
        nodes: vec![node("e", "exp", &["x"]), flip, node("s", "add", &["e", "f"]), node("y", "sum", &["s"])],
        outputs: vec![v1::TensorOutput { name: "y".to_owned(), keep: false }],
        ..Default::default()
    }
}

#[tokio::test]
async fn resident_tensors_fill_the_limit_and_give_it_back() {
    const BYTES: usize = 4 << 20;
    let mut daemon = Daemon::start("tensors", &[]);
    let mut client = TensorServiceClient::new(daemon.channel().await);
    let held = |memory: &v1::MemoryPlace| {
        memory.accounts.iter().find(|account| account.kind == "tensors").map_or(0, |account| account.held_bytes)
    };
    let original = upload(&mut client, BYTES).await.expect("there is memory");
    let at_rest = daemon.host_memory().await;
    assert_eq!(held(&at_rest), BYTES as u64);
    for round in 0..3 {
        let (mut handles, refused) = fill_tensors(&mut client, &original).await;
        let figures = refused.get_details_error_info().expect("figures");
        assert_eq!((refused.code(), figures.reason.as_str()), (Code::ResourceExhausted, "MEMORY_LIMIT"), "{refused:?}");
        assert!(handles.len() > 4, "only {} tensors in round {round}", handles.len());
        let full = daemon.host_memory().await;
        assert_eq!(held(&full), ((1 + handles.len()) * BYTES) as u64);
        assert!(full.held_bytes <= full.limit_bytes, "{full:?}");
        // A graph has room for its intermediate values, or is refused; what was there stays.
        match client.execute(sum_of_exponentials(&original)).await {
            Ok(done) => {
                let sum = f32::from_le_bytes(done.into_inner().outputs[0].data[..].try_into().expect("a number"));
                assert!((sum - (BYTES / 4) as f32 * 2.0).abs() < 1.0, "{sum}");
            }
            Err(status) => assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}"),
        }
        assert_eq!(held(&daemon.host_memory().await), held(&full));
        // Freeing one makes room for one.
        let handle = handles.swap_remove(0);
        client.free_tensors(v1::FreeTensorsRequest { handles: vec![handle] }).await.expect("it is there");
        let (more, _) = fill_tensors(&mut client, &original).await;
        assert_eq!(more.len(), 1);
        handles.extend(more);
        client.free_tensors(v1::FreeTensorsRequest { handles }).await.expect("all are there");
        assert_eq!(held(&daemon.host_memory().await), held(&at_rest));
    }
    assert_eq!(daemon.child.try_wait().expect("it can be asked"), None, "it runs");
    let peak = daemon.peak();
    assert!(peak <= LIMIT, "{peak} bytes were resident");
}
