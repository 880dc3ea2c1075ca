//! Puts the daemon together: devices, engine, lanes, models, services, listeners.

use std::{
    io,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use accelerd_engine::Engine;
use accelerd_kernels::{self as kernels, Device, DiscoverError, OpError};
use accelerd_models::Model;
use accelerd_store::{Access, StoreError};
use tokio::{
    net::{TcpListener, UnixListener},
    runtime::Handle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tower::ServiceBuilder;

use crate::{
    admin,
    config::{ByteSize, Config, environment},
    embedder::Embedder,
    error::ApiError,
    grpc::{Services, similarity},
    health::Reporter,
    layers::{
        deadline::{DeadlineBody, DeadlineLayer},
        panic::PanicLayer,
        timing::TimingLayer,
        trace::{TraceBody, TraceLayer},
    },
    listen::{self, Ends, Front, Reactors, SocketFile},
    loss,
    observe::observe,
    telemetry::{Metrics, TelemetryError},
    transport::{connection::Served, memory::Memory, offload::Offload, registry::Connections},
};

/// Memory of the health port. It is apart, so that probes are answered whatever happens on the main port.
const HEALTH_MEMORY: u64 = 32 << 20;
/// How long an object store may take to list a folder before the daemon does not start.
const SNAPSHOT_CHECK: Duration = Duration::from_secs(30);

/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener could not be opened.
    #[error("cannot listen on {what} ({key}): {error}")]
    Listen {
        /// The setting.
        key: &'static str,
        /// Address or path.
        what: String,
        /// The operating system's words.
        error: io::Error,
    },
    /// No device could be had.
    #[error(transparent)]
    Devices(#[from] DiscoverError),
    /// The engine did not start.
    #[error("the engine did not start: {0}")]
    Engine(OpError),
    /// A thread could not be started.
    #[error("a thread could not be started: {0}")]
    Threads(io::Error),
    /// The folder of collections could not be opened.
    #[error("cannot use store.data_dir: {0}")]
    Store(#[from] StoreError),
    /// A folder for snapshots cannot be used.
    #[error("cannot use {key}: {error}")]
    Snapshots {
        /// The setting.
        key: &'static str,
        /// Why.
        error: StoreError,
    },
    /// A folder for snapshots did not answer.
    #[error("cannot use {0}: the object store does not answer")]
    SnapshotsSilent(&'static str),
    /// A model of `models.preload` could not be loaded.
    #[error("cannot load the model {name:?} of models.preload: {error}")]
    Model {
        /// Its name.
        name: String,
        /// Why.
        error: ApiError,
    },
    /// Telemetry could not be set up.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// It was told to end before it served.
    #[error("told to end before it served")]
    Stopped,
}

/// What the services share.
#[derive(Debug)]
pub struct App {
    /// The settings.
    pub config: Config,
    /// Where everything is computed.
    pub engine: Engine,
    /// Why no GPU is used, when none is.
    pub fallback: Option<String>,
    /// Texts to vectors.
    pub embedder: Embedder,
    /// Collections, and the lanes of searches and clusterings.
    pub similarity: similarity::State,
    /// How the daemon fares.
    pub health: Reporter,
    /// What it measures.
    pub metrics: Arc<Metrics>,
    /// Memory of connections, request messages and unsent answers.
    pub messages: Arc<Memory>,
    /// When it started.
    pub started: Instant,
    /// Where work is done that would hold up a reactor's other calls.
    pub(crate) offload: Offload,
    /// Ends streams that would go on for ever.
    pub(crate) closing: CancellationToken,
}

impl App {
    /// Finds the devices, starts the engine, opens the lanes and loads the models, unless it is stopped.
    fn start(config: Config, closing: CancellationToken, stop: &CancellationToken) -> Result<Arc<Self>, StartError> {
        log_memory(&config);
        let found = kernels::backend::discover(&config.devices())?;
        let fallback = found.fallback;
        log_devices(&found.devices, fallback.as_deref());
        let metrics = Arc::new(Metrics::new(Some(&config.telemetry))?);
        let engine = start_engine(found.devices, &config, &metrics)?;
        let tables = engine.lane(config.lanes.lane(&config.lanes.embed));
        let encoders = engine.lane(config.lanes.lane(&config.lanes.encode));
        let embedder = Embedder::new(vec![], tables, encoders)
            .with_registry(vec![Model::builtin()], &config.models)
            .with_hub(&config.models.hub, hub_token())
            .with_limits(config.limits.clone());
        let embedder = embedder.with_threads(config.backend.cpu_threads).map_err(StartError::Threads)?;
        check_snapshots(&config, stop)?;
        preload(&embedder, &config, stop)?;
        let similarity = similarity::State::start(&config, &engine, embedder.clone())?;
        let messages = Memory::new(config.admission.max_message_memory.as_u64());
        let offload = Offload::start().map_err(StartError::Threads)?;
        let health = Reporter::new(closing.clone());
        Ok(Arc::new(Self {
            config,
            engine,
            fallback,
            embedder,
            similarity,
            health,
            metrics,
            messages,
            started: Instant::now(),
            offload,
            closing,
        }))
    }
}

/// Asks for a listing of each folder for snapshots, so that a daemon that cannot write one is not found out when one is due.
fn check_snapshots(config: &Config, stop: &CancellationToken) -> Result<(), StartError> {
    if !config.store.snapshot_check {
        return Ok(());
    }
    let default = Some(("store.snapshot_url", &config.store.snapshot_url)).filter(|(_, url)| !url.is_empty());
    let folders = config.store.snapshot_folders.iter().map(|url| ("store.snapshot_folders", url));
    let access = Access { options: similarity::object_options(environment()), within: None };
    for (key, url) in default.into_iter().chain(folders) {
        let asked = async { timeout(SNAPSHOT_CHECK, accelerd_store::probe(url, &access)).await };
        let answered = Handle::current().block_on(stop.run_until_cancelled(asked)).ok_or(StartError::Stopped)?;
        let probed = answered.map_err(|_| StartError::SnapshotsSilent(key))?;
        probed.map_err(|error| StartError::Snapshots { key, error })?;
    }
    Ok(())
}

/// The token by which a hub shows models that are not public, from where its other clients take it.
fn hub_token() -> Option<String> {
    environment().find(|(name, _)| name == "HF_TOKEN").map(|(_, token)| token.trim().to_owned())
}

/// Loads the models that the settings name, one after the other, until it is stopped. What is fetched from a hub is given up
/// then, and what has come of it is kept for the next start.
fn preload(embedder: &Embedder, config: &Config, stop: &CancellationToken) -> Result<(), StartError> {
    for preload in &config.models.preload {
        let loading = stop.run_until_cancelled(embedder.preload(preload.into()));
        let loaded = Handle::current().block_on(loading).ok_or(StartError::Stopped)?;
        let served = loaded.map_err(|error| StartError::Model { name: preload.name.clone(), error })?;
        tracing::info!(model = served.name(), bytes = served.bytes(), "a model is loaded");
    }
    if stop.is_cancelled() { Err(StartError::Stopped) } else { Ok(()) }
}

/// Says in one line what is computed on, and why not on a GPU.
fn log_devices(devices: &[Device], fallback: Option<&str>) {
    let names: Vec<_> = devices.iter().map(|device| format!("{} ({})", device.id(), device.info().product)).collect();
    let devices = names.join(", ");
    if let Some(reason) = fallback {
        tracing::info!(devices, reason, "no GPU is used");
    } else {
        tracing::info!(devices, "GPUs are used");
    }
}

/// Says what memory there is, and what the budgets are.
fn log_memory(config: &Config) {
    let (memory, derived) = (config.memory.to_string(), config.derived.join(", "));
    let (store, models) = (config.store.memory_limit, config.models.memory_limit);
    let (work, messages) = (config.admission.max_bytes, config.admission.max_message_memory);
    let cap = |size: ByteSize| if size.as_u64() == 0 { "none".to_owned() } else { size.to_string() };
    tracing::info!(
        memory,
        "store.memory_limit" = cap(store),
        "models.memory_limit" = cap(models),
        "admission.max_bytes" = %work,
        "admission.max_message_memory" = %messages,
        derived,
        "budgets of host memory"
    );
    let promised = config.promised_memory();
    if promised.is_none_or(|promised| promised > config.memory.bytes) {
        let promised = promised.map_or_else(|| "without a cap".to_owned(), |bytes| ByteSize::b(bytes).to_string());
        tracing::warn!(
            memory,
            promised,
            "the budgets of host memory are larger than the memory: full ones end the process"
        );
    }
}

/// Starts the engine on this daemon's metrics. It asks for the global meter, so that only one may start at a time.
fn start_engine(devices: Vec<Device>, config: &Config, metrics: &Metrics) -> Result<Engine, StartError> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    metrics.make_global();
    Engine::start(devices, config.engine()).map_err(StartError::Engine)
}

/// A running daemon. [`Daemon::shutdown`] ends it gracefully; dropping it cuts its connections.
#[derive(Debug)]
pub struct Daemon {
    grpc_addr: SocketAddr,
    admin_addr: SocketAddr,
    health_addr: SocketAddr,
    app: Arc<App>,
    main: Listeners,
    side: Listeners,
    reactors: Arc<Reactors>,
    _socket_file: Option<SocketFile>,
}

/// Listeners that end together.
#[derive(Debug)]
struct Listeners {
    ends: Ends,
    connections: Arc<Connections>,
}

impl Drop for Listeners {
    fn drop(&mut self) {
        self.ends.closing.cancel();
        self.ends.abort.cancel();
    }
}

/// How a drain went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Whether every accepted call was answered in time.
    pub complete: bool,
    /// Connections that were cut.
    pub cut_connections: usize,
    /// Calls that were cut.
    pub cut_calls: u64,
}

impl Daemon {
    /// Starts a daemon and returns once it serves. Port 0 takes a free one.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        Self::start_until(CancellationToken::new(), config).await
    }

    /// The same, with a token that stops it before it serves: then it ends with [`StartError::Stopped`] as soon as it can.
    pub async fn start_until(stop: CancellationToken, config: Config) -> Result<Self, StartError> {
        let grpc = bind("server.listen", config.server.listen)?;
        let admin = bind("server.admin_listen", config.server.admin_listen)?;
        let health = bind("server.health_listen", config.server.health_listen)?;
        let unix = config.server.uds().map(unix).transpose()?;
        let (grpc_addr, admin_addr, health_addr) = (address(&grpc), address(&admin), address(&health));

        let ends = Ends::default();
        let closing = ends.closing.clone();
        let starting = tokio::task::spawn_blocking(move || App::start(config, closing, &stop));
        let app = starting.await.map_err(|error| StartError::Threads(error.into()))??;
        let settings = &app.config.server;
        let reactors = Arc::new(Reactors::start(settings.reactor_threads).map_err(StartError::Threads)?);

        let memory = Arc::clone(&app.messages);
        let front = Front::new(stack(&app), settings, Arc::clone(&reactors), ends.clone(), memory);
        let main = Listeners { ends, connections: Arc::clone(front.connections()) };
        observe(&app, &main.connections, reactors.all());
        tokio::spawn(Arc::clone(&front).accept(grpc));
        let (unix, socket_file) = unix.unzip();
        if let Some(unix) = unix {
            tokio::spawn(front.accept(unix));
        }

        let ends = Ends::default();
        let here = Arc::new(Reactors::here());
        let front = Front::new(app.health.service(), settings, here, ends.clone(), Memory::new(HEALTH_MEMORY));
        let side = Listeners { ends: ends.clone(), connections: Arc::clone(front.connections()) };
        tokio::spawn(front.accept(health));
        tokio::spawn(admin::serve(admin, Arc::clone(&app), side.ends.closing.clone()));

        watch_devices(&app, ends.closing);
        app.health.set_ready(true);
        Ok(Self { grpc_addr, admin_addr, health_addr, app, main, side, reactors, _socket_file: socket_file })
    }

    /// Where gRPC is served.
    pub fn grpc_addr(&self) -> SocketAddr {
        self.grpc_addr
    }

    /// Where metrics, health and settings are served over HTTP.
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin_addr
    }

    /// Where health alone is served.
    pub fn health_addr(&self) -> SocketAddr {
        self.health_addr
    }

    /// What the services share.
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// Reports `NOT_SERVING` and goes on serving: the first step of a drain, while balancers look elsewhere.
    pub fn stop_being_ready(&self) {
        self.app.health.set_ready(false);
    }

    /// Takes no more connections, lets accepted calls finish within the configured bound, and ends.
    pub async fn shutdown(self) -> Drained {
        let bound = self.app.config.drain.timeout;
        self.shutdown_within(bound).await
    }

    /// As [`Self::shutdown`], within a bound of its own.
    pub async fn shutdown_within(self, bound: Duration) -> Drained {
        self.stop_being_ready();
        self.main.ends.closing.cancel();
        let begin = Instant::now();
        let complete = timeout(bound, self.main.connections.ended()).await.is_ok();
        let cut_connections = if complete { 0 } else { self.main.connections.now() };
        let cut_calls = if complete { 0 } else { u64::try_from(self.app.metrics.in_flight()).unwrap_or(0) };
        let engine = self.app.engine.drain(bound.saturating_sub(begin.elapsed())).await;
        self.main.ends.abort.cancel();
        self.main.connections.ended().await;
        let Self { app, main, side, reactors, .. } = self;
        drop((main, side));
        app.similarity.collections.close().await;
        let last = move || {
            app.metrics.flush();
            if let Some(reactors) = Arc::into_inner(reactors) {
                reactors.stop();
            }
            // The last of the engine joins its workers.
            drop(app);
        };
        if tokio::task::spawn_blocking(last).await.is_err() {
            tracing::error!("the last step of the shutdown panicked");
        }
        Drained { complete: complete && engine.complete, cut_connections, cut_calls }
    }
}

/// The layers around the services. Authentication belongs inside the deadline and outside the services: what is not allowed
/// is not received.
fn stack(app: &Arc<App>) -> impl Served<TraceBody<DeadlineBody>> {
    ServiceBuilder::new()
        .layer(TraceLayer(Arc::clone(&app.metrics)))
        .layer(DeadlineLayer)
        .layer(PanicLayer)
        .layer(TimingLayer)
        .service(Services::new(app))
}

/// Says that the daemon is to be replaced once its GPUs are. Keeps it not alive.
fn watch_devices(app: &Arc<App>, closing: CancellationToken) {
    let weak = Arc::downgrade(app);
    let look = move || {
        let devices = weak.upgrade()?.engine.devices();
        Some(loss::all_lost(devices.iter().map(|(device, lost)| (device.id(), lost.is_some()))))
    };
    tokio::spawn(loss::watch(look, app.config.cuda.lost_grace, app.health.clone(), closing));
}

fn bind(key: &'static str, address: SocketAddr) -> Result<TcpListener, StartError> {
    listen::tcp(address).map_err(|error| StartError::Listen { key, what: address.to_string(), error })
}

fn unix(path: &Path) -> Result<(UnixListener, SocketFile), StartError> {
    let what = path.display().to_string();
    listen::unix(path).map_err(|error| StartError::Listen { key: "server.uds_path", what, error })
}

fn address(listener: &TcpListener) -> SocketAddr {
    listener.local_addr().expect("a bound listener has an address")
}
