//! The daemon's state: settings, devices, engine, models, collections and telemetry, as its services share it.

use std::{
    fmt, io,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use accelerd_collections::{Collections, Services, Settings};
use accelerd_engine::{Engine, Lane};
use accelerd_http::Graphs;
use accelerd_kernels::{
    self as kernels, Device, DiscoverError, Discovered, LoadProgress, OpError, cuda,
    ledger::{Allowance, Exceeded, Ledger},
    ops::{cluster::Cluster, similarity::FindSimilar, translate::Translate},
};
use accelerd_models::Model;
use accelerd_store::{Access, StoreError};
use tokio::{runtime::Handle, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    auth::{Auth, AuthError},
    config::{ByteSize, Config, Fsync, environment, to_usize},
    embedder::Embedder,
    error::ApiError,
    health::Reporter,
    kernels::{CudaKernels, KernelCache, launch::Launcher},
    layers::timing,
    ledger, resident_memory,
    sandbox::Sandboxes,
    start::{Phase, Starting, log_kernels},
    telemetry::{Metrics, TelemetryError},
    tensors::{Tensors, resident_tensors::ResidentTensors, table::TensorTable},
    transport::{memory::TransportMemory, offload::Offload},
};

/// Maximum time of an object store to list a folder before the start fails.
const SNAPSHOT_CHECK_TIMEOUT: Duration = Duration::from_secs(30);

/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener could not be opened.
    #[error("cannot listen on {address} ({key}): {error}")]
    Listen {
        /// The setting.
        key: &'static str,
        /// Address or path.
        address: String,
        /// The operating system's error.
        error: io::Error,
    },
    /// No device could be opened.
    #[error(transparent)]
    Devices(#[from] DiscoverError),
    /// The engine did not start.
    #[error("the engine did not start: {0}")]
    Engine(OpError),
    /// The limit of host memory leaves no room for the guaranteed parts of calls.
    #[error("cannot reserve memory for calls: {0}")]
    Memory(#[from] Exceeded),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Threads(io::Error),
    /// The data directory could not be opened.
    #[error("cannot use store.data_dir: {0}")]
    Store(#[from] StoreError),
    /// A snapshot folder cannot be listed.
    #[error("cannot use {key}: {error}")]
    Snapshots {
        /// The setting.
        key: &'static str,
        /// Why.
        error: StoreError,
    },
    /// The object store of a snapshot folder did not answer in time.
    #[error("cannot use {0}: the object store does not answer")]
    SnapshotsTimeout(&'static str),
    /// A model of `models.preload` could not be loaded.
    #[error("cannot load model {name:?} of models.preload: {error}")]
    Model {
        /// Its name.
        name: String,
        /// Why.
        error: ApiError,
    },
    /// Callers could not be told apart, or the daemon would be unprotected.
    #[error(transparent)]
    Auth(#[from] AuthError),
    /// The certificate, its key or the authorities of client certificates cannot be used.
    #[error("cannot use the files of [tls]: {0}")]
    Tls(String),
    /// Telemetry could not be set up.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// The start was cancelled.
    #[error("shut down before the daemon was serving")]
    Cancelled,
}

/// When streams end with UNAVAILABLE, since the daemon drains.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamEnds {
    /// Cancelled when the daemon closes: streams of requests end with the answers to those that were accepted, and statistics at once.
    pub(crate) closing: CancellationToken,
    /// Cancelled when the time of the calls is over: all streams end.
    pub(crate) timeout: CancellationToken,
}

/// State shared by the services.
pub struct App {
    /// The settings.
    pub config: Config,
    /// Devices and their queues.
    pub engine: Arc<Engine>,
    /// Why no GPU is used; `None` if one is.
    pub fallback: Option<String>,
    /// Models, and the lanes they run on.
    pub embedder: Embedder,
    /// Graphs as files.
    pub(crate) graphs: Arc<Graphs>,
    /// Collections, and the lane of their searches.
    pub collections: Arc<Collections>,
    /// Resident tensors.
    pub(crate) tensors: Tensors,
    /// Lane of searches over a corpus sent with the request.
    pub find_similar: Lane<FindSimilar>,
    /// Lane of clusterings.
    pub cluster: Lane<Cluster>,
    /// Lane of translations of kernels.
    pub translate: Lane<Translate>,
    /// Compiled kernels.
    pub(crate) kernels: KernelCache,
    /// Processes that run code of clients.
    pub(crate) sandboxes: Sandboxes,
    /// Processes that compile and run kernels for GPUs, and the compiled kernels.
    pub(crate) cuda_kernels: Arc<CudaKernels>,
    /// Authentication and the rights of callers.
    pub auth: Arc<Auth>,
    /// Readiness and liveness.
    pub health: Reporter,
    /// Instruments and their exporters.
    pub metrics: Arc<Metrics>,
    /// Ledger of host and device memory.
    pub ledger: Arc<Ledger>,
    /// Memory of admitted requests.
    pub(crate) requests: Arc<Allowance>,
    /// Memory of connections, request messages and responses.
    pub transport_memory: Arc<TransportMemory>,
    /// When the daemon started.
    pub started: Instant,
    /// Threads for work that would block a reactor.
    pub(crate) offload: Offload,
    /// Cancelled when the daemon is to start again.
    pub(crate) restart: CancellationToken,
    /// When streams end.
    pub(crate) stream_ends: StreamEnds,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App").field("engine", &self.engine).field("embedder", &self.embedder).finish_non_exhaustive()
    }
}

impl App {
    /// Starts the engine on the devices of this machine, or on those given; opens the lanes, loads models and reads
    /// collections, unless cancelled. Blocks; must run within a runtime.
    pub(crate) fn start(
        config: Config,
        devices: Option<Discovered>,
        starting: Starting,
        closing: CancellationToken,
        cancel: &CancellationToken,
    ) -> Result<Arc<Self>, StartError> {
        log_memory(&config);
        let Starting { health, metrics, progress, kernels: load_progress, recovery } = starting;
        progress.begin(Phase::Devices);
        let auth = Arc::new(Auth::open(&config, metrics.meter())?);
        let ledger = ledger::open(&config);
        let work = resident_memory::watch(&config, &ledger).map_err(StartError::Threads)?;
        let messages = ledger::messages(&ledger, &config, work)?;
        let requests = ledger::requests(&ledger, &config)?;
        let discovered = devices.map_or_else(|| discover(&config, &ledger, &load_progress), Ok)?;
        let fallback = discovered.fallback;
        let devices = discovered.devices.clone();
        let engine = Arc::new(start_engine(discovered.devices, &config, &metrics)?);
        log_devices(&devices, fallback.as_deref());
        engine.charge_to(Arc::clone(&requests));
        let lanes = &config.lanes;
        let tables = engine.lane(lanes.lane(&lanes.embed));
        let encoders = engine.lane(lanes.lane(&lanes.encode));
        let embedder = Embedder::new(vec![], tables, encoders)
            .with_registry(vec![Model::builtin()], &config.models, &ledger)
            .with_hub(&config.models.hub, hub_token())
            .with_limits(config.limits.clone());
        let embedder = embedder.with_threads(config.backend.cpu_threads).map_err(StartError::Threads)?;
        progress.begin(Phase::Models);
        check_snapshot_folders(&config, cancel)?;
        preload_models(&embedder, &config, cancel)?;
        let services = Services {
            devices: engine.devices().into_iter().map(|(device, _)| device.id()).collect(),
            search: engine.lane(lanes.lane(&lanes.search)),
            embedder: Arc::new(embedder.clone()),
            record_timing: timing::add,
        };
        progress.begin(Phase::Collections);
        let settings = Settings { recovery_progress: recovery, ..collection_settings(&config, &ledger) };
        let collections = Collections::open(settings, services)?;
        progress.begin(Phase::Services);
        ledger::connect(&ledger, &embedder, &collections, &devices);
        ledger::cap_tensors(&ledger, &config, &devices);
        let find_similar = engine.lane(lanes.lane(&lanes.find_similar));
        let cluster = engine.lane(lanes.lane(&lanes.cluster));
        let translate = engine.lane(lanes.lane(&lanes.translate));
        let kernels = KernelCache::new(&config, &ledger, translate.clone());
        let tensors = Tensors {
            table: Arc::new(TensorTable::new(config.tensors.max_count)),
            engine: Arc::clone(&engine),
            auth: Arc::clone(&auth),
            collections: Arc::clone(&collections),
            ledger: Arc::clone(&ledger),
            requests: Arc::clone(&requests),
            lanes: lanes.lane(&lanes.tensor),
            default_ttl: config.tensors.default_ttl,
            max_ttl: config.tensors.max_ttl,
        };
        let transport_memory = TransportMemory::in_ledger(config.admission.max_message_memory.as_u64(), messages);
        let offload = Offload::start().map_err(StartError::Threads)?;
        let sandboxes = Sandboxes::new(&config, &ledger, offload.handle().clone());
        sandboxes.log_missing_confinement();
        let cuda_kernels = Arc::new(CudaKernels::new(&config, &ledger, &sandboxes, (&devices, fallback.as_deref())));
        let graphs = Some(config.models.graphs.clone()).filter(|folder| !folder.as_os_str().is_empty());
        Ok(Arc::new(Self {
            config,
            graphs: Arc::new(Graphs::new(graphs)),
            engine,
            fallback,
            embedder,
            collections,
            tensors,
            find_similar,
            cluster,
            translate,
            kernels,
            sandboxes,
            cuda_kernels,
            auth,
            health,
            metrics,
            ledger,
            requests,
            transport_memory,
            started: Instant::now(),
            offload,
            restart: CancellationToken::new(),
            stream_ends: StreamEnds { closing, timeout: CancellationToken::new() },
        }))
    }
}

impl App {
    /// Drains the processes that run code of clients. Returns how many calls are left.
    pub(crate) async fn drain_sandboxes(&self, limit: Duration) -> u64 {
        let all = self.all_sandboxes().map(|sandboxes| sandboxes.drain(limit));
        futures::future::join_all(all).await.into_iter().sum()
    }

    /// Returns a launcher of kernels with lanes of its own.
    pub(crate) fn launcher(&self) -> Launcher {
        Launcher {
            kernels: self.kernels.clone(),
            cuda_kernels: Arc::clone(&self.cuda_kernels),
            sandboxes: self.sandboxes.clone(),
            translate: self.translate.clone(),
            resident: ResidentTensors::new(&self.tensors),
            requests: Arc::clone(&self.requests),
            runs_cuda_source: self.config.sandbox.cuda_source,
            max_source: to_usize(self.config.limits.max_kernel_source_bytes),
            max_message: self.config.server.max_message(),
        }
    }

    /// All groups of processes that run code of clients.
    pub(crate) fn all_sandboxes(&self) -> impl Iterator<Item = &Sandboxes> {
        std::iter::once(&self.sandboxes).chain(self.cuda_kernels.processes())
    }
}

fn collection_settings(config: &Config, ledger: &Arc<Ledger>) -> Settings {
    let (store, limits) = (&config.store, &config.limits);
    Settings {
        data_dir: store.folder().map(Into::into),
        fsync: match store.fsync {
            Fsync::Always => accelerd_store::Fsync::Always,
            Fsync::Never => accelerd_store::Fsync::Never,
        },
        wal_limit: store.wal_limit.as_u64(),
        writer_threads: store.writer_threads,
        open_logs: store.open_logs,
        ledger: Arc::clone(ledger),
        memory_limit: store.memory_limit.as_u64(),
        snapshot_url: store.snapshot_url.clone(),
        snapshot_folders: store.snapshot_folders.clone(),
        object_options: object_store_options(),
        max_dimensions: limits.max_dimensions,
        max_payload_bytes: to_usize(limits.max_payload_bytes),
        max_upsert_bytes: config.server.max_message(),
        max_collections: limits.max_collections,
        ..Settings::default()
    }
}

/// The environment variables of object stores: credentials, regions, endpoints.
fn object_store_options() -> Vec<(String, String)> {
    let is_option = |name: &str| ["AWS_", "GOOGLE_", "AZURE_"].iter().any(|prefix| name.starts_with(prefix));
    let options = environment().filter(|(name, _)| is_option(name));
    options.map(|(name, value)| (name.to_ascii_lowercase(), value)).collect()
}

/// Lists each snapshot folder, so that wrong credentials fail the start and not the first snapshot.
fn check_snapshot_folders(config: &Config, cancel: &CancellationToken) -> Result<(), StartError> {
    if !config.store.snapshot_check {
        return Ok(());
    }
    let default = Some(("store.snapshot_url", &config.store.snapshot_url)).filter(|(_, url)| !url.is_empty());
    let folders = config.store.snapshot_folders.iter().map(|url| ("store.snapshot_folders", url));
    let access = Access { options: object_store_options(), within: None };
    for (key, url) in default.into_iter().chain(folders) {
        let probe = async { timeout(SNAPSHOT_CHECK_TIMEOUT, accelerd_store::probe(url, &access)).await };
        let probed = Handle::current().block_on(cancel.run_until_cancelled(probe)).ok_or(StartError::Cancelled)?;
        let listed = probed.map_err(|_elapsed| StartError::SnapshotsTimeout(key))?;
        listed.map_err(|error| StartError::Snapshots { key, error })?;
    }
    Ok(())
}

/// The hub token for gated and private models, from the variable that other hub clients read.
fn hub_token() -> Option<String> {
    environment().find(|(name, _)| name == "HF_TOKEN").map(|(_, token)| token.trim().to_owned())
}

/// Loads the models of `models.preload` in order. Cancelling aborts a download; the files fetched so far are kept for the
/// next start.
fn preload_models(embedder: &Embedder, config: &Config, cancel: &CancellationToken) -> Result<(), StartError> {
    for preload in &config.models.preload {
        let loading = cancel.run_until_cancelled(embedder.preload(preload.into()));
        let loaded = Handle::current().block_on(loading).ok_or(StartError::Cancelled)?;
        let model = loaded.map_err(|error| StartError::Model { name: preload.name.clone(), error })?;
        tracing::info!(model = model.name(), bytes = model.bytes(), "model loaded");
    }
    if cancel.is_cancelled() { Err(StartError::Cancelled) } else { Ok(()) }
}

/// Finds the devices of this machine, and loads the kernels of GPUs.
fn discover(config: &Config, ledger: &Arc<Ledger>, progress: &Arc<LoadProgress>) -> Result<Discovered, DiscoverError> {
    let ledger = Arc::clone(ledger);
    let load_progress = Arc::clone(progress);
    let settings = kernels::Settings { ledger, load_progress, ..config.devices() };
    log_kernels(progress, || kernels::discover(&settings))
}

fn log_devices(devices: &[Device], fallback: Option<&str>) {
    let names: Vec<_> = devices.iter().map(|device| format!("{} ({})", device.id(), device.info().product)).collect();
    let devices = names.join(", ");
    if let Some(reason) = fallback {
        tracing::info!(devices, reason, "using the CPU only");
    } else {
        let libraries: Vec<_> = cuda::loaded_libraries().iter().map(|path| path.display().to_string()).collect();
        let libraries = libraries.join(", ");
        tracing::info!(devices, libraries, "using GPUs");
    }
}

/// Logs the detected memory and the budgets, and warns if their limit exceeds it.
fn log_memory(config: &Config) {
    let memory = config.process_memory.to_string();
    let derived = config.derived.join(", ");
    let store = config.store.memory_limit;
    let models = config.models.memory_limit;
    let admission = config.admission.max_bytes;
    let transport = config.admission.max_message_memory;
    let cap = |size: ByteSize| if size.as_u64() == 0 { "none".to_owned() } else { size.to_string() };
    tracing::info!(
        memory,
        "memory.host_limit" = %config.memory.host_limit,
        "store.memory_limit" = cap(store),
        "models.memory_limit" = cap(models),
        "admission.max_bytes" = %admission,
        "admission.max_message_memory" = %transport,
        derived,
        "budgets of host memory"
    );
    if config.memory.host_limit.as_u64() > config.process_memory.bytes {
        tracing::warn!(memory, "memory.host_limit exceeds host memory: the kernel may kill the process");
    }
}

/// Starts the engine with this daemon's meter. The engine reads the global meter provider, so starts are serialised.
fn start_engine(devices: Vec<Device>, config: &Config, metrics: &Metrics) -> Result<Engine, StartError> {
    static STARTING: Mutex<()> = Mutex::new(());
    let _guard = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    metrics.make_global();
    Engine::start(devices, config.engine()).map_err(StartError::Engine)
}
