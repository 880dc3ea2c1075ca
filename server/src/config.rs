//! The settings: typed, with every mistake reported at once by its key's name. `config/default.toml` documents them.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use accelerd_engine::{EngineConfig, LaneConfig};
use accelerd_kernels as kernels;
use serde::{Deserialize, Serialize};

mod bounds;
mod load;
mod memory;
mod models;
mod size;

pub use load::{DEFAULT_FILE, DEFAULTS, Mistake, Mistakes, environment, load};
pub use memory::{Memory, Origin, Shares};
pub use models::{Allow, Hub, Models, Precision, Preload};
pub use size::ByteSize;

/// Everything that can be set.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Listeners and connections.
    pub server: Server,
    /// Which devices.
    pub backend: Backend,
    /// How GPUs are used.
    pub cuda: Cuda,
    /// The global budget.
    pub admission: Admission,
    /// Queues and batches.
    pub lanes: Lanes,
    /// Bounds of single requests.
    pub limits: Limits,
    /// Models that embed.
    pub models: Models,
    /// Collections on disk.
    pub store: Store,
    /// The end.
    pub drain: Drain,
    /// Logs, traces, metrics.
    pub telemetry: Telemetry,
    /// What the process may use; not a setting.
    #[serde(skip, default = "Memory::detect")]
    pub memory: Memory,
    /// Settings that were `"auto"` and are now a share of it.
    #[serde(skip)]
    pub derived: Vec<&'static str>,
}

/// Listeners and connections.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Where gRPC is served.
    pub listen: SocketAddr,
    /// A Unix socket that serves gRPC as well; empty for none.
    pub uds_path: PathBuf,
    /// Where metrics, health and settings are served over HTTP.
    pub admin_listen: SocketAddr,
    /// Where health alone is served.
    pub health_listen: SocketAddr,
    /// Threads that serve connections; 0 takes one for each core.
    pub reactor_threads: usize,
    /// Whether reflection is served.
    pub reflection: bool,
    /// Largest message, in and out, after decompression.
    pub max_message_bytes: ByteSize,
    /// Connections at once.
    pub max_connections: usize,
    /// Calls at once on one connection.
    pub max_streams: u32,
    /// Largest HTTP/2 frame taken.
    pub frame_bytes: ByteSize,
    /// Bytes a caller of large messages may send ahead on one call.
    pub stream_window_bytes: ByteSize,
    /// Bytes a caller of large messages may send ahead on one connection.
    pub connection_window_bytes: ByteSize,
    /// Largest sum of header lines of one call.
    pub max_header_bytes: ByteSize,
    /// Age at which a connection is asked to reconnect; zero never.
    #[serde(with = "humantime_serde")]
    pub max_connection_age: Duration,
    /// How long calls may go on after that.
    #[serde(with = "humantime_serde")]
    pub max_connection_age_grace: Duration,
    /// An idle connection is pinged this often; zero never.
    #[serde(with = "humantime_serde")]
    pub keepalive_interval: Duration,
    /// When a ping counts as lost.
    #[serde(with = "humantime_serde")]
    pub keepalive_timeout: Duration,
    /// When a new connection must have begun to speak HTTP/2.
    #[serde(with = "humantime_serde")]
    pub handshake_timeout: Duration,
    /// Calls that a peer may reset before they were taken up.
    pub max_pending_resets: usize,
    /// When a call ends whose caller neither sends the rest of a message nor takes its answer.
    #[serde(with = "humantime_serde")]
    pub stall_timeout: Duration,
    /// The same while the memory of messages is scarce.
    #[serde(with = "humantime_serde")]
    pub stall_timeout_when_scarce: Duration,
}

/// Which devices.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Backend {
    /// Which backend.
    pub kind: BackendKind,
    /// Threads of the CPU pool; 0 takes what the container may use.
    pub cpu_threads: usize,
    /// Threads that pack and feed batches to the CPU pool.
    pub cpu_workers: usize,
    /// CUDA ordinals to use; empty takes all.
    #[serde(deserialize_with = "load::list")]
    pub ordinals: Vec<u32>,
}

/// Which backend to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendKind {
    /// CUDA where it works, else the CPU.
    Auto,
    /// The CPU only.
    Cpu,
    /// CUDA, or the daemon does not start.
    Cuda,
}

/// How GPUs are used.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Cuda {
    /// Folders with libnvrtc and libcublasLt.
    #[serde(deserialize_with = "load::list")]
    pub library_path: Vec<PathBuf>,
    /// Folder of the compiled-kernel cache; empty for none.
    pub kernel_cache: PathBuf,
    /// Most bytes the kernel cache may hold.
    pub kernel_cache_limit: ByteSize,
    /// Most bytes the memory pool of a GPU may take; 0 means no cap.
    pub pool_limit: ByteSize,
    /// Worker threads of each GPU.
    pub streams: usize,
    /// Pinned memory of each worker.
    pub staging: ByteSize,
    /// Most bytes of pinned memory that the workers of a GPU share for answers.
    pub pinned: ByteSize,
    /// How long after the last device was lost liveness turns false.
    #[serde(with = "humantime_serde")]
    pub lost_grace: Duration,
}

/// The global budget.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Admission {
    /// Most items admitted and not answered.
    pub max_items: u64,
    /// Most bytes admitted and not answered.
    #[serde(deserialize_with = "size::size_or_auto")]
    pub max_bytes: ByteSize,
    /// Most bytes that connections, request messages and unsent answers hold.
    #[serde(deserialize_with = "size::size_or_auto")]
    pub max_message_memory: ByteSize,
}

/// Queues and batches, by operation.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Lanes {
    /// What the others do not say.
    pub default: Lane,
    /// Overrides for Embed with tables.
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
}

/// The queue and batches of one operation.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Lane {
    /// Most items in a batch.
    pub max_batch_items: u64,
    /// Most bytes in a batch on the CPU.
    pub max_batch_bytes: ByteSize,
    /// Most bytes in a batch on a GPU.
    pub gpu_max_batch_bytes: ByteSize,
    /// Longest that an open batch waits for joiners while a worker is free.
    #[serde(with = "humantime_serde")]
    pub max_wait: Duration,
    /// Batches of the lane that one device runs at once.
    pub concurrency: usize,
    /// Requests passed over this long go before all others.
    #[serde(with = "humantime_serde")]
    pub max_age: Duration,
    /// Requests of at most this many bytes run on the CPU although there is a GPU.
    pub cpu_below: ByteSize,
    /// Requests of more bytes queue apart from the others, and leave one worker of the CPU to them.
    pub long_above: ByteSize,
}

/// What one lane says otherwise.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct LaneOverride {
    /// Most items in a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_batch_items: Option<u64>,
    /// Most bytes in a batch on the CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_batch_bytes: Option<ByteSize>,
    /// Most bytes in a batch on a GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_max_batch_bytes: Option<ByteSize>,
    /// Longest that an open batch waits for joiners while a worker is free.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub max_wait: Option<Duration>,
    /// Batches of the lane that one device runs at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<usize>,
    /// Requests passed over this long go before all others.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub max_age: Option<Duration>,
    /// Requests of at most this many bytes run on the CPU although there is a GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_below: Option<ByteSize>,
    /// Requests of more bytes queue apart from the others, and leave one worker of the CPU to them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub long_above: Option<ByteSize>,
}

/// Bounds of single requests.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Texts in one request.
    pub max_texts: usize,
    /// Bytes of one text.
    pub max_text_bytes: ByteSize,
    /// Bytes of all texts of a request.
    pub max_texts_bytes: ByteSize,
    /// Sources in one parse request.
    pub max_sources: usize,
    /// Bytes of one source.
    pub max_source_bytes: ByteSize,
    /// Dimensions of a vector.
    pub max_dimensions: u32,
    /// Bytes of one point's payload, encoded.
    pub max_payload_bytes: ByteSize,
    /// Collections at once.
    pub max_collections: usize,
}

/// Collections on disk.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// Folder of durable collections; empty keeps all in memory only.
    pub data_dir: PathBuf,
    /// When a durable write is answered.
    pub fsync: Fsync,
    /// A write-ahead log of this size is folded into a local snapshot.
    pub wal_limit: ByteSize,
    /// Threads that write logs.
    pub writer_threads: usize,
    /// Log files that are kept open.
    pub open_logs: usize,
    /// Most host memory for collections; 0 means no cap.
    #[serde(deserialize_with = "size::size_or_auto")]
    pub memory_limit: ByteSize,
    /// Folder in an object store for snapshots that name none; empty for none.
    pub snapshot_url: String,
    /// Whether the start fails where a folder for snapshots cannot be listed.
    pub snapshot_check: bool,
    /// Folders that callers may name for snapshots, with all below them, besides that one.
    #[serde(deserialize_with = "load::list")]
    pub snapshot_folders: Vec<String>,
}

/// When a durable write is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fsync {
    /// After fsync.
    Always,
    /// Once the operating system has it.
    Never,
}

/// The end.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Drain {
    /// How long to go on serving while reporting `NOT_SERVING`.
    #[serde(with = "humantime_serde")]
    pub endpoint_delay: Duration,
    /// How long accepted calls may take to finish after that.
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    /// Whether callers may drain the daemon, and resume it.
    pub allow_rpc: bool,
    /// How long after such a drain liveness turns false, unless it is resumed.
    #[serde(with = "humantime_serde")]
    pub liveness_grace: Duration,
}

/// Logs, traces, metrics.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Telemetry {
    /// A level, or a filter.
    pub log_level: String,
    /// How a log line looks.
    pub log_format: LogFormat,
    /// OTLP endpoint; empty for none.
    pub otlp_endpoint: String,
    /// Share of traces that start here to keep.
    pub sample_ratio: f64,
    /// How often metrics go to the OTLP endpoint.
    #[serde(with = "humantime_serde")]
    pub metrics_interval: Duration,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Human on a terminal, else JSON.
    Auto,
    /// One JSON object a line.
    Json,
    /// For eyes.
    Human,
}

impl Default for Config {
    /// The embedded defaults.
    fn default() -> Self {
        load(None, [], &[]).expect("the embedded defaults are valid, and a test says so")
    }
}

impl Config {
    /// The defaults on free loopback ports and the CPU, for tests and benchmarks.
    pub fn loopback() -> Self {
        let mut config = Self::default();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        config.server.listen = any;
        config.server.admin_listen = any;
        config.server.health_listen = any;
        config.backend.kind = BackendKind::Cpu;
        config.drain.endpoint_delay = Duration::ZERO;
        config
    }

    /// The settings with secrets blotted out, for reports.
    #[must_use]
    pub fn redacted(&self) -> Self {
        let mut shown = self.clone();
        shown.store.snapshot_url = load::without_credentials(&self.store.snapshot_url);
        shown.store.snapshot_folders.iter_mut().for_each(|url| *url = load::without_credentials(url));
        shown.models.hub.endpoint = load::without_credentials(&self.models.hub.endpoint);
        shown.telemetry.otlp_endpoint = load::without_credentials(&self.telemetry.otlp_endpoint);
        shown
    }

    /// The settings of the engine as a whole.
    pub fn engine(&self) -> EngineConfig {
        EngineConfig {
            cuda_workers: self.cuda.streams,
            // One is kept from long batches.
            cpu_workers: self.backend.cpu_workers.saturating_add(1),
            max_items: self.admission.max_items,
            max_bytes: self.admission.max_bytes.as_u64(),
        }
    }

    /// What the budgets of host memory add up to, where each has a cap.
    pub fn promised_memory(&self) -> Option<u64> {
        memory::promised(self)
    }

    /// What device discovery needs to know.
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
            pool_limit_bytes: self.cuda.pool_limit.as_u64(),
            staging_bytes: to_usize(self.cuda.staging),
            pinned_bytes: to_usize(self.cuda.pinned),
        }
    }
}

impl Server {
    /// The Unix socket, if there is to be one.
    pub fn uds(&self) -> Option<&Path> {
        some_path(&self.uds_path)
    }

    /// Largest message, in and out.
    pub fn max_message(&self) -> usize {
        to_usize(self.max_message_bytes)
    }
}

impl Store {
    /// The folder of durable collections, if there is one.
    pub fn folder(&self) -> Option<&Path> {
        some_path(&self.data_dir)
    }
}

impl Lanes {
    /// The settings of a lane: the defaults, overridden.
    pub fn lane(&self, said: &LaneOverride) -> LaneConfig {
        let default = &self.default;
        LaneConfig {
            max_batch_items: said.max_batch_items.unwrap_or(default.max_batch_items),
            max_batch_bytes: said.max_batch_bytes.unwrap_or(default.max_batch_bytes).as_u64(),
            gpu_max_batch_bytes: said.gpu_max_batch_bytes.unwrap_or(default.gpu_max_batch_bytes).as_u64(),
            max_wait: said.max_wait.unwrap_or(default.max_wait),
            concurrency: said.concurrency.unwrap_or(default.concurrency),
            max_age: said.max_age.unwrap_or(default.max_age),
            cpu_below_bytes: said.cpu_below.unwrap_or(default.cpu_below).as_u64(),
            long_above_bytes: said.long_above.unwrap_or(default.long_above).as_u64(),
        }
    }
}

/// A size as a length in memory; more than the address space is as good as all of it.
pub(crate) fn to_usize(size: ByteSize) -> usize {
    usize::try_from(size.as_u64()).unwrap_or(usize::MAX)
}

fn some_path(path: &Path) -> Option<&Path> {
    Some(path).filter(|path| !path.as_os_str().is_empty())
}
