//! The types of all settings. `config/default.toml` documents them.

use std::{
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use accelerd_engine::{EngineConfig, LaneConfig};
use accelerd_kernels as kernels;
use accelerd_sandbox::Program;
use serde::{Deserialize, Serialize};

use super::{
    deserialize,
    memory::ProcessMemory,
    reflection::Reflection,
    size::{self, ByteSize},
};

/// All settings.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Listeners and connections.
    pub server: Server,
    /// TLS of the gRPC port.
    pub tls: Tls,
    /// Who may call what.
    pub auth: Auth,
    /// Device selection.
    pub backend: Backend,
    /// GPUs.
    pub cuda: Cuda,
    /// Host memory of the process.
    pub memory: Memory,
    /// Limits over all lanes.
    pub admission: Admission,
    /// Queueing and batching.
    pub lanes: Lanes,
    /// Limits of single requests.
    pub limits: Limits,
    /// Child processes for code of clients.
    pub sandbox: SandboxSettings,
    /// Resident tensors.
    pub tensors: TensorSettings,
    /// Embedding models.
    pub models: ModelSettings,
    /// Collections and snapshots.
    pub store: Store,
    /// Graceful shutdown.
    pub drain: Drain,
    /// Logs, traces, metrics.
    pub telemetry: Telemetry,
    /// Memory available to the process; not a setting.
    #[serde(skip, default = "ProcessMemory::detect")]
    pub process_memory: ProcessMemory,
    /// Settings that were `"auto"` and are now shares of it.
    #[serde(skip)]
    pub derived: Vec<&'static str>,
}

/// Listeners and connections.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Address of the gRPC port.
    pub listen: SocketAddr,
    /// Unix socket that serves gRPC too; empty for none.
    pub uds_path: PathBuf,
    /// Address of the admin port.
    pub admin_listen: SocketAddr,
    /// Address of the health port.
    pub health_listen: SocketAddr,
    /// Threads that serve connections; 0 means one per core.
    pub reactor_threads: usize,
    /// When to serve reflection.
    pub reflection: Reflection,
    /// Maximum size of a message after decompression.
    pub max_message_bytes: ByteSize,
    /// Maximum number of open connections.
    pub max_connections: usize,
    /// Maximum number of concurrent calls per connection.
    pub max_streams: u32,
    /// Maximum size of a received HTTP/2 frame.
    pub frame_bytes: ByteSize,
    /// Flow-control window of a stream with large messages.
    pub stream_window_bytes: ByteSize,
    /// Flow-control window of a connection with large messages.
    pub connection_window_bytes: ByteSize,
    /// Maximum total size of a call's headers.
    pub max_header_bytes: ByteSize,
    /// Age at which a connection gets GOAWAY; zero disables it.
    #[serde(with = "humantime_serde")]
    pub max_connection_age: Duration,
    /// Time for open calls to finish after that.
    #[serde(with = "humantime_serde")]
    pub max_connection_age_grace: Duration,
    /// Interval of keepalive pings; zero disables them.
    #[serde(with = "humantime_serde")]
    pub keepalive_interval: Duration,
    /// Timeout of a ping.
    #[serde(with = "humantime_serde")]
    pub keepalive_timeout: Duration,
    /// Timeout of the HTTP/2 handshake.
    #[serde(with = "humantime_serde")]
    pub handshake_timeout: Duration,
    /// Streams that a peer may reset before they are accepted.
    pub max_pending_resets: usize,
    /// Timeout of a call without progress in either direction.
    #[serde(with = "humantime_serde")]
    pub stall_timeout: Duration,
    /// The same under memory pressure.
    #[serde(with = "humantime_serde")]
    pub stall_timeout_under_pressure: Duration,
}

/// TLS of the gRPC port.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// PEM file with the certificate chain; empty for plaintext.
    pub certificate: PathBuf,
    /// PEM file with its private key.
    pub private_key: PathBuf,
    /// PEM file with the authorities of client certificates; empty asks for none.
    pub client_ca: PathBuf,
    /// Whether clients without a certificate may connect.
    pub client_certificates: ClientCertificates,
    /// Interval at which these files and `auth.principals` are checked for changes.
    #[serde(with = "humantime_serde")]
    pub reload_interval: Duration,
}

/// Whether clients without a certificate may connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificates {
    /// The handshake fails without a certificate.
    Required,
    /// A client without a certificate may present a token, or is anonymous.
    Optional,
}

/// Who may call what.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    /// File with the principals; empty allows everything to everybody.
    pub principals: PathBuf,
    /// Whether the daemon may start although callers from other machines need no credentials, or send them in plaintext.
    pub insecure: bool,
    /// What callers without credentials may do if there is a principals file.
    pub anonymous: Anonymous,
}

/// What callers without credentials may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Anonymous {
    /// Nothing but health checks, and reflection if it is served.
    None,
    /// What the role `read` may.
    Read,
    /// What the role `write` may.
    Write,
    /// Everything.
    Admin,
}

/// Device selection.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Backend {
    /// The backend.
    pub kind: BackendKind,
    /// Threads of the CPU pool; 0 means all CPUs available to the container.
    pub cpu_threads: usize,
    /// Long batches that run at once on the CPU pool.
    pub cpu_workers: usize,
    /// Long batches that may be paused on the CPU while others have their turn.
    pub cpu_paused_batches: usize,
    /// How long a batch runs on the CPU before others get their turn.
    #[serde(with = "humantime_serde")]
    pub cpu_slice: Duration,
    /// Ordinals of the CUDA devices to use; empty means all.
    #[serde(deserialize_with = "deserialize::list")]
    pub ordinals: Vec<u32>,
}

/// The compute backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendKind {
    /// CUDA if available, else the CPU.
    Auto,
    /// The CPU only.
    Cpu,
    /// CUDA; without it the start fails.
    Cuda,
}

/// GPUs.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Cuda {
    /// Directories with libnvrtc and libcublasLt.
    #[serde(deserialize_with = "deserialize::list")]
    pub library_path: Vec<PathBuf>,
    /// Directory of the compiled-kernel cache; empty for none.
    pub kernel_cache: PathBuf,
    /// Maximum size of the kernel cache.
    pub kernel_cache_limit: ByteSize,
    /// Maximum size of its part with kernels generated at run time.
    pub jit_cache_limit: ByteSize,
    /// Maximum size of a GPU's memory pool; 0 means no limit.
    pub pool_limit: ByteSize,
    /// Workers per GPU.
    pub streams: usize,
    /// How long a batch runs on a GPU before others get their turn.
    #[serde(with = "humantime_serde")]
    pub slice: Duration,
    /// Pinned host memory per worker.
    pub staging: ByteSize,
    /// Maximum pinned host memory that the workers of a GPU share for results.
    pub pinned: ByteSize,
    /// Time after the loss of the last GPU until liveness turns false.
    #[serde(with = "humantime_serde")]
    pub lost_grace: Duration,
    /// Time after which a launch or slice on a GPU counts as hung; zero for never.
    #[serde(with = "humantime_serde")]
    pub hang_timeout: Duration,
    /// How long requests of a kind run on the CPU after a GPU had no memory for one; zero tries the GPU for each.
    #[serde(with = "humantime_serde")]
    pub memory_retry: Duration,
    /// Whether the daemon starts again after the loss of all GPUs.
    pub restart: Restart,
}

/// Whether the daemon starts again after the loss of all GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Restart {
    /// Outside of Kubernetes, unless a collection would be lost.
    Auto,
    /// In any case.
    Always,
    /// It serves on the CPU, and reports not live.
    Never,
}

/// Host memory of the process.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Maximum of all memory in the ledger.
    #[serde(deserialize_with = "size::size_or_auto")]
    pub host_limit: ByteSize,
    /// Memory left out of `host_limit` if that is `"auto"`, for what the ledger does not count.
    #[serde(deserialize_with = "size::size_or_auto")]
    pub reserve: ByteSize,
}

/// Limits over all lanes.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Admission {
    /// Maximum number of items in flight.
    pub max_items: u64,
    /// Maximum memory of requests in flight and their results.
    #[serde(deserialize_with = "size::size_or_auto")]
    pub max_bytes: ByteSize,
    /// Maximum memory of connections, request messages and responses.
    #[serde(deserialize_with = "size::size_or_auto")]
    pub max_message_memory: ByteSize,
}

/// Queueing and batching by operation.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Lanes {
    /// Defaults of all lanes.
    pub default: Lane,
    /// Overrides for Embed with static tables.
    pub embed: LaneOverride,
    /// Overrides for Embed with encoders.
    pub encode: LaneOverride,
    /// Overrides for Search.
    pub search: LaneOverride,
    /// Overrides for FindSimilar.
    pub find_similar: LaneOverride,
    /// Overrides for Cluster.
    pub cluster: LaneOverride,
    /// Overrides for Parse.
    pub parse: LaneOverride,
    /// Overrides for Execute.
    pub tensor: LaneOverride,
    /// Overrides for CompareOutputs and Verify.
    pub compare: LaneOverride,
    /// Overrides for Translate.
    pub translate: LaneOverride,
}

/// Queueing and batching of one operation.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Lane {
    /// Maximum number of items in a batch.
    pub max_batch_items: u64,
    /// Maximum size of a batch on the CPU.
    pub max_batch_bytes: ByteSize,
    /// Maximum size of a batch on a GPU.
    pub gpu_max_batch_bytes: ByteSize,
    /// Maximum time that a batch waits for more requests while a worker is idle.
    #[serde(with = "humantime_serde")]
    pub max_wait: Duration,
    /// Maximum number of the lane's batches that run concurrently on a device.
    pub concurrency: usize,
    /// Queueing time after which a priority gets a share of the time of higher ones.
    #[serde(with = "humantime_serde")]
    pub max_age: Duration,
    /// Maximum expected time of a batch of several requests.
    #[serde(with = "humantime_serde")]
    pub max_batch_time: Duration,
    /// Requests of at most this size run on the CPU even if there is a GPU.
    pub cpu_max_bytes: ByteSize,
    /// Until times are known, requests of more bytes are batched separately, and one worker never runs them.
    pub large_request_bytes: ByteSize,
}

/// Overrides of one lane.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct LaneOverride {
    /// Maximum number of items in a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_batch_items: Option<u64>,
    /// Maximum size of a batch on the CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_batch_bytes: Option<ByteSize>,
    /// Maximum size of a batch on a GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_max_batch_bytes: Option<ByteSize>,
    /// Maximum time that a batch waits for more requests while a worker is idle.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub max_wait: Option<Duration>,
    /// Maximum number of the lane's batches that run concurrently on a device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
    /// Queueing time after which a priority gets a share of the time of higher ones.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub max_age: Option<Duration>,
    /// Maximum expected time of a batch of several requests.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub max_batch_time: Option<Duration>,
    /// Requests of at most this size run on the CPU even if there is a GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_max_bytes: Option<ByteSize>,
    /// Until times are known, requests of more bytes are batched separately, and one worker never runs them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub large_request_bytes: Option<ByteSize>,
}

/// Limits of single requests.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Maximum number of texts in a request.
    pub max_texts: usize,
    /// Maximum size of a text.
    pub max_text_bytes: ByteSize,
    /// Maximum total size of a request's texts.
    pub max_texts_bytes: ByteSize,
    /// Maximum number of sources in a parse request.
    pub max_sources: usize,
    /// Maximum size of a source.
    pub max_source_bytes: ByteSize,
    /// Maximum number of nodes, inputs and outputs of a graph of tensor operations; its nodes have at most 16 times as many inputs in
    /// total.
    pub max_graph_nodes: usize,
    /// Maximum number of outputs of a comparison.
    pub max_compared_outputs: usize,
    /// Maximum number of mismatches that a comparison lists for an output.
    pub max_mismatches: u32,
    /// Maximum size of a source of kernels.
    pub max_kernel_source_bytes: ByteSize,
    /// Maximum number of compiled kernels that are kept.
    pub max_kept_kernels: usize,
    /// Maximum size of the compiled kernels that are kept.
    pub max_kept_kernel_bytes: ByteSize,
    /// Maximum number of generated cases of a verification.
    pub max_generated_cases: u64,
    /// Maximum number of counterexamples that a verification returns.
    pub max_counterexamples: u32,
    /// Maximum time of the repetitions of a benchmark.
    #[serde(with = "humantime_serde")]
    pub max_benchmark_time: Duration,
    /// Maximum number of dimensions of a vector.
    pub max_dimensions: u32,
    /// Maximum encoded size of a point's payload.
    pub max_payload_bytes: ByteSize,
    /// Maximum number of collections.
    pub max_collections: usize,
}

/// Child processes for code of clients.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxSettings {
    /// Number of processes; 0 runs no code of clients.
    #[serde(deserialize_with = "deserialize::count_or_auto")]
    pub processes: usize,
    /// Maximum memory of a process.
    #[serde(deserialize_with = "size::size_or_auto")]
    pub memory: ByteSize,
    /// Maximum memory of an instance.
    #[serde(deserialize_with = "size::size_or_auto")]
    pub case_memory: ByteSize,
    /// Maximum time that a caller can allow a case to take.
    #[serde(with = "humantime_serde")]
    pub case_timeout: Duration,
    /// Maximum time of the compilation of a module.
    #[serde(with = "humantime_serde")]
    pub load_timeout: Duration,
    /// Time that calls without a deadline have.
    #[serde(with = "humantime_serde")]
    pub default_deadline: Duration,
    /// What is added to the nice value of the processes.
    pub nice: u8,
    /// Maximum number of calls that wait for a process.
    pub max_queue: usize,
    /// Maximum share of the processes that one caller has at once.
    pub caller_share: f64,
    /// Maximum number of further processes, whose calls pause while others have their turn.
    pub max_paused: usize,
    /// Time that a call has run before it can be ended for others, if no further call can pause.
    #[serde(with = "humantime_serde")]
    pub guaranteed_time: Duration,
    /// Which GPUs run kernels of clients.
    pub gpu: SandboxGpu,
    /// Maximum memory of a launch on a GPU.
    pub gpu_memory: ByteSize,
    /// The share of time in which launches of several chunks use a GPU.
    pub gpu_duty_cycle: f32,
    /// Whether clients may have CUDA C++ of theirs evaluated on GPUs.
    pub cuda_source: bool,
    /// What a process runs; not a setting.
    #[serde(skip, default = "this_program")]
    pub program: Program,
}

/// Which GPUs run kernels of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub enum SandboxGpu {
    /// None.
    Off,
    /// Those of the daemon.
    Auto,
    /// The one with this number, whether or not the daemon uses it.
    Ordinal(u32),
}

impl From<SandboxGpu> for String {
    fn from(gpu: SandboxGpu) -> Self {
        match gpu {
            SandboxGpu::Off => "off".to_owned(),
            SandboxGpu::Auto => "auto".to_owned(),
            SandboxGpu::Ordinal(ordinal) => ordinal.to_string(),
        }
    }
}

impl<'de> Deserialize<'de> for SandboxGpu {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum NumberOrText {
            Number(u32),
            Text(String),
        }
        let text = match NumberOrText::deserialize(from) {
            Ok(NumberOrText::Number(ordinal)) => return Ok(Self::Ordinal(ordinal)),
            Ok(NumberOrText::Text(text)) => text,
            Err(_) => String::new(),
        };
        match text.as_str() {
            "off" => Ok(Self::Off),
            "auto" => Ok(Self::Auto),
            number => number
                .parse()
                .map(Self::Ordinal)
                .map_err(|_| serde::de::Error::custom("expected \"auto\", \"off\" or the number of a GPU")),
        }
    }
}

/// This program, as a child process for code of clients.
fn this_program() -> Program {
    Program::current(["sandbox"])
}

/// Resident tensors.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TensorSettings {
    /// Maximum host memory of all.
    #[serde(deserialize_with = "size::size_or_auto")]
    pub memory_limit: ByteSize,
    /// Maximum memory of all those on a GPU, as a share of the GPU's.
    pub gpu_share: f64,
    /// Maximum number of a principal's.
    pub max_count: usize,
    /// Time to live after the last use, if the caller sets none.
    #[serde(with = "humantime_serde")]
    pub default_ttl: Duration,
    /// Maximum time to live.
    #[serde(with = "humantime_serde")]
    pub max_ttl: Duration,
}

/// Embedding models.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSettings {
    /// Directories from which clients may load models, including subdirectories.
    #[serde(deserialize_with = "deserialize::list")]
    pub folders: Vec<PathBuf>,
    /// Maximum total size of the models' weights; 0 means no limit.
    #[serde(deserialize_with = "size::size_or_auto")]
    pub memory_limit: ByteSize,
    /// Models to load at the start.
    #[serde(deserialize_with = "deserialize::tables")]
    pub preload: Vec<Preload>,
    /// The source of models named `hf://`.
    pub hub: HubSettings,
}

/// A model hub.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HubSettings {
    /// Base URL.
    pub endpoint: String,
    /// Who may name its models.
    pub allow: Allow,
    /// Owners whose models may be downloaded; empty allows all.
    #[serde(deserialize_with = "deserialize::list")]
    pub owners: Vec<String>,
    /// Directory of downloaded models; empty keeps none.
    pub cache: PathBuf,
    /// Maximum size of that directory; 0 means no limit.
    pub cache_limit: ByteSize,
    /// Whether to use only the cache.
    pub offline: bool,
    /// Timeout for connecting, for the response, and for each read.
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
}

/// Who may name models of the hub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Allow {
    /// Nobody.
    #[default]
    Off,
    /// Only `models.preload`.
    Preload,
    /// Also clients, through LoadModel.
    Callers,
}

impl fmt::Display for Allow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Preload => "preload",
            Self::Callers => "callers",
        })
    }
}

/// A model to load at the start.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Preload {
    /// Name in requests.
    pub name: String,
    /// Directory or file, or `hf://owner/name`.
    pub path: String,
    /// Other names.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Number type of the computation.
    #[serde(default)]
    pub precision: Precision,
}

/// Number type of an encoder's computation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// bfloat16 on a GPU, f32 on the CPU.
    #[default]
    Auto,
    /// bfloat16; f32 on a CPU without AMX.
    Bf16,
    /// binary16; f32 on the CPU.
    F16,
    /// binary32.
    F32,
}

/// Collections and snapshots.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// Directory of durable collections; empty keeps all in memory.
    pub data_dir: PathBuf,
    /// When a durable write is acknowledged.
    pub fsync: Fsync,
    /// Size at which a write-ahead log is compacted into a local snapshot.
    pub wal_limit: ByteSize,
    /// Threads that write logs.
    pub writer_threads: usize,
    /// Maximum number of open log files.
    pub open_logs: usize,
    /// Maximum host memory of collections; 0 means no limit.
    #[serde(deserialize_with = "size::size_or_auto")]
    pub memory_limit: ByteSize,
    /// Default folder of snapshots; empty for none.
    pub snapshot_url: String,
    /// Whether the start fails if a snapshot folder cannot be listed.
    pub snapshot_check: bool,
    /// Further folders that clients may name for snapshots, including subfolders.
    #[serde(deserialize_with = "deserialize::list")]
    pub snapshot_folders: Vec<String>,
}

/// When a durable write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fsync {
    /// After fsync.
    Always,
    /// Once the operating system has it.
    Never,
}

/// Graceful shutdown.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Drain {
    /// Time to keep serving while reporting `NOT_SERVING`.
    #[serde(with = "humantime_serde")]
    pub endpoint_delay: Duration,
    /// Time for accepted calls to finish after that.
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    /// Whether clients may drain and resume the daemon.
    pub allow_rpc: bool,
    /// Time after such a drain until liveness turns false unless resumed.
    #[serde(with = "humantime_serde")]
    pub liveness_grace: Duration,
}

/// Logs, traces, metrics.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Telemetry {
    /// Log level or filter.
    pub log_level: String,
    /// Format of log lines.
    pub log_format: LogFormat,
    /// OTLP endpoint; empty for none.
    pub otlp_endpoint: String,
    /// Fraction of traces started here that are sampled.
    pub sample_ratio: f64,
    /// Interval of the export of metrics.
    #[serde(with = "humantime_serde")]
    pub metrics_interval: Duration,
    /// Maximum number of series of a metric that Prometheus scrapes.
    pub max_series: usize,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Human-readable on a terminal, else JSON.
    Auto,
    /// One JSON object per line.
    Json,
    /// Human-readable.
    Human,
}

impl Config {
    /// The defaults with free loopback ports and the CPU backend, for tests and benchmarks.
    pub fn loopback() -> Self {
        let mut config = Self::default();
        let free_port = SocketAddr::from(([127, 0, 0, 1], 0));
        config.server.listen = free_port;
        config.server.admin_listen = free_port;
        config.server.health_listen = free_port;
        config.backend.kind = BackendKind::Cpu;
        config.drain.endpoint_delay = Duration::ZERO;
        config
    }

    /// The engine's settings.
    pub fn engine(&self) -> EngineConfig {
        EngineConfig {
            // One more of each, which runs short batches only.
            cuda_workers: self.cuda.streams.saturating_add(1),
            cpu_workers: self.backend.cpu_workers.saturating_add(1),
            cpu_paused_batches: self.backend.cpu_paused_batches,
            max_items: self.admission.max_items,
            max_bytes: self.admission.max_bytes.as_u64(),
            hang_timeout: self.cuda.hang_timeout,
            memory_retry: self.cuda.memory_retry,
            cpu_slice: self.backend.cpu_slice,
            cuda_slice: self.cuda.slice,
        }
    }

    /// The settings of device discovery.
    pub fn devices(&self) -> kernels::Settings {
        kernels::Settings {
            choice: match self.backend.kind {
                BackendKind::Auto => kernels::Choice::Auto,
                BackendKind::Cpu => kernels::Choice::Cpu,
                BackendKind::Cuda => kernels::Choice::Cuda,
            },
            cpu_threads: self.backend.cpu_threads,
            cuda_ordinals: self.backend.ordinals.clone(),
            cuda_library_paths: self.cuda.library_path.clone(),
            kernel_cache: some_path(&self.cuda.kernel_cache).map(Path::to_owned),
            kernel_cache_bytes: self.cuda.kernel_cache_limit.as_u64(),
            jit_cache_bytes: self.cuda.jit_cache_limit.as_u64(),
            pool_limit_bytes: self.cuda.pool_limit.as_u64(),
            staging_bytes: to_usize(self.cuda.staging),
            pinned_bytes: to_usize(self.cuda.pinned),
            ..kernels::Settings::default()
        }
    }
}

impl Server {
    /// Path of the Unix socket, if any.
    pub fn uds(&self) -> Option<&Path> {
        some_path(&self.uds_path)
    }

    /// Maximum message size in bytes.
    pub fn max_message(&self) -> usize {
        to_usize(self.max_message_bytes)
    }
}

impl Tls {
    /// Whether the gRPC port speaks TLS.
    pub fn is_on(&self) -> bool {
        some_path(&self.certificate).is_some()
    }
}

impl Auth {
    /// The principals file, if any.
    pub fn file(&self) -> Option<&Path> {
        some_path(&self.principals)
    }
}

impl Config {
    /// Whether to serve reflection.
    pub fn serves_reflection(&self) -> bool {
        match self.server.reflection {
            Reflection::Auto => self.auth.file().is_none(),
            Reflection::Always => true,
            Reflection::Never => false,
        }
    }
}

impl Store {
    /// Directory of durable collections, if any.
    pub fn folder(&self) -> Option<&Path> {
        some_path(&self.data_dir)
    }
}

impl Lanes {
    /// The settings of a lane: the defaults with its overrides.
    pub fn lane(&self, overrides: &LaneOverride) -> LaneConfig {
        let default = &self.default;
        LaneConfig {
            max_batch_items: overrides.max_batch_items.unwrap_or(default.max_batch_items),
            max_batch_bytes: overrides.max_batch_bytes.unwrap_or(default.max_batch_bytes).as_u64(),
            gpu_max_batch_bytes: overrides.gpu_max_batch_bytes.unwrap_or(default.gpu_max_batch_bytes).as_u64(),
            max_wait: overrides.max_wait.unwrap_or(default.max_wait),
            concurrency: overrides.concurrency.unwrap_or(default.concurrency),
            max_age: overrides.max_age.unwrap_or(default.max_age),
            max_batch_time: overrides.max_batch_time.unwrap_or(default.max_batch_time),
            cpu_max_bytes: overrides.cpu_max_bytes.unwrap_or(default.cpu_max_bytes).as_u64(),
            large_request_bytes: overrides.large_request_bytes.unwrap_or(default.large_request_bytes).as_u64(),
        }
    }
}

/// A size as a length, saturating.
pub(crate) fn to_usize(size: ByteSize) -> usize {
    usize::try_from(size.as_u64()).unwrap_or(usize::MAX)
}

fn some_path(path: &Path) -> Option<&Path> {
    Some(path).filter(|path| !path.as_os_str().is_empty())
}
