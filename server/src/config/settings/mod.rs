//! The types of all settings. `config/default.toml` documents them.

mod auth;
mod devices;
mod http;
mod lanes;
mod limits;
mod models;
mod sandbox;
mod server;
mod store;
mod telemetry;

use std::{net::SocketAddr, path::Path, time::Duration};

use accelerd_engine::EngineConfig;
use accelerd_kernels as kernels;
use serde::{Deserialize, Serialize};

pub use self::{
    auth::{Anonymous, Auth},
    devices::{Backend, BackendKind, Cuda, Restart},
    http::{Http, HttpListen},
    lanes::{Lane, LaneOverride, Lanes},
    limits::{Admission, Limits, Memory, TensorSettings},
    models::{Allow, HubSettings, ModelSettings, Precision, Preload},
    sandbox::{SandboxGpu, SandboxSettings},
    server::{ClientCertificates, Drain, Server, Tls},
    store::{Fsync, Store},
    telemetry::{LogFormat, Telemetry},
};
use super::{memory::ProcessMemory, reflection::Reflection, size::ByteSize};
use crate::installation;

/// All settings.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Listeners and connections.
    pub server: Server,
    /// The HTTP port.
    pub http: Http,
    /// TLS of the gRPC and HTTP ports.
    pub tls: Tls,
    /// Authentication and the rights of callers.
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

impl Config {
    /// The defaults with free loopback ports and the CPU backend, for tests and benchmarks.
    pub fn loopback() -> Self {
        let mut config = Self::default();
        let free_port = SocketAddr::from(([127, 0, 0, 1], 0));
        config.server.listen = free_port;
        config.server.admin_listen = free_port;
        config.server.health_listen = free_port;
        config.http.listen = HttpListen::At(free_port);
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
            installed_kernels: installation::kernels(),
            kernel_cache: some_path(&self.cuda.kernel_cache).map(Path::to_owned),
            kernel_cache_bytes: self.cuda.kernel_cache_limit.as_u64(),
            jit_cache_bytes: self.cuda.jit_cache_limit.as_u64(),
            pool_limit_bytes: self.cuda.pool_limit.as_u64(),
            staging_bytes: to_usize(self.cuda.staging),
            pinned_bytes: to_usize(self.cuda.pinned),
            ..kernels::Settings::default()
        }
    }

    /// Returns true if reflection is served.
    pub fn serves_reflection(&self) -> bool {
        match self.server.reflection {
            Reflection::Auto => self.auth.file().is_none(),
            Reflection::Always => true,
            Reflection::Never => false,
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
