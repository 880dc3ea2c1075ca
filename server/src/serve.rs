//! A running daemon: binds listeners, serves calls, shuts down gracefully.

use std::{
    io,
    net::SocketAddr,
    path::Path,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use accelerd_kernels::{DeviceId, Discovered};
use tokio::{
    net::{TcpListener, UnixListener},
    sync::Notify,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tower::{Layer as _, ServiceBuilder};

use crate::{
    admin::{self, AdminState},
    app::{App, StartError},
    config::{BackendKind, Config, HttpListen, Server},
    device_liveness,
    grpc::services::{Services, other_label},
    http_port,
    layers::{
        auth::{AuthLayer, AuthService},
        deadline::{DeadlineLayer, DeadlineService},
        panic::{PanicLayer, PanicService},
        timing::{TimingLayer, TimingService},
        trace::{TraceLayer, TraceService},
    },
    listen::{self, Acceptor, HttpListener, Reactors, SocketFile},
    metric_callbacks,
    reload::{self, Watched},
    restart,
    start::Starting,
    tls::{self, Port, TlsConfig, TlsListener},
    transport::{
        connection::{Http2, Protocol, ShutdownTokens},
        http1::Http1,
        memory::TransportMemory,
        registry::Connections,
    },
};

/// Memory budget of the health port in bytes. It is separate from the main port's, so that probes are always answered.
const HEALTH_MEMORY: u64 = 32 << 20;

/// The part of a drain's timeout that is kept for closing collections and exporting telemetry: a tenth, and at most this.
const MAX_RELEASE_SHARE: Duration = Duration::from_secs(3);

/// Their minimum time, however short the timeout is.
const MIN_RELEASE_TIME: Duration = Duration::from_secs(1);

/// A running daemon. [`Daemon::shutdown`] ends it gracefully; dropping it aborts its connections.
#[derive(Debug)]
pub struct Daemon {
    grpc_addr: SocketAddr,
    http_addr: Option<SocketAddr>,
    admin_addr: SocketAddr,
    health_addr: SocketAddr,
    app: Arc<App>,
    /// The gRPC port, the HTTP port and the Unix socket.
    main: Listeners,
    /// The admin and health ports, which are served until the main listeners have ended.
    probes: Listeners,
    reactors: Arc<Reactors>,
    reload_now: Arc<Notify>,
    _socket_file: Option<SocketFile>,
}

/// Listeners that shut down together.
#[derive(Debug)]
struct Listeners {
    shutdown: ShutdownTokens,
    connections: Arc<Connections>,
}

impl Listeners {
    /// Accepts connections of one more listener.
    fn acceptor<P: Protocol>(&self, protocol: P, settings: &Server, reactors: &Arc<Reactors>) -> Arc<Acceptor<P>> {
        let connections = Arc::clone(&self.connections);
        Acceptor::new(protocol, settings, Arc::clone(reactors), self.shutdown.clone(), connections)
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        self.shutdown.closing.cancel();
        self.shutdown.abort.cancel();
    }
}

/// The part of the time of the calls in which streams are told that it is over: a tenth, and at most this.
const MAX_STREAM_END_SHARE: Duration = Duration::from_millis(500);

/// Outcome of a drain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drained {
    /// True if every accepted call completed, and everything was released, in time.
    pub complete: bool,
    /// Connections with calls that were aborted.
    pub aborted_connections: usize,
    /// Calls that were aborted.
    pub aborted_calls: u64,
    /// Parts that still ran when the time to stop was over.
    pub hung: Vec<String>,
}

impl Daemon {
    /// Starts a daemon and returns once it serves. Port 0 binds a free port.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        Self::start_with_cancel(CancellationToken::new(), config).await
    }

    /// As [`Self::start`]; cancelling the token before the daemon serves fails the start with [`StartError::Cancelled`].
    pub async fn start_with_cancel(cancel: CancellationToken, config: Config) -> Result<Self, StartError> {
        // The state of a start is large, and callers keep it in futures of their own.
        Box::pin(Self::start_on(None, cancel, config)).await
    }

    /// As [`Self::start_with_cancel`], on given devices instead of those of this machine.
    #[doc(hidden)]
    pub async fn start_on(
        devices: Option<Discovered>,
        cancel: CancellationToken,
        config: Config,
    ) -> Result<Self, StartError> {
        let grpc = bind_tcp("server.listen", config.server.listen)?;
        let admin = bind_tcp("server.admin_listen", config.server.admin_listen)?;
        let health = bind_tcp("server.health_listen", config.server.health_listen)?;
        let unix = config.server.uds().map(bind_unix).transpose()?;
        let http = bind_http(config.http.listen)?;
        let grpc_addr = local_addr(&grpc);
        let admin_addr = local_addr(&admin);
        let health_addr = local_addr(&health);
        let http_addr = http.as_ref().map(local_addr);

        let shutdown = ShutdownTokens::default();
        let probes_shutdown = ShutdownTokens::default();
        let closing = shutdown.closing.clone();
        let starting = Starting::new(&config.telemetry, closing.clone())?;
        let (probes, admin_app) = serve_probes(&starting, &config.server, probes_shutdown.clone(), health, admin);

        let started = starting.clone();
        let progress = starting.progress.clone();
        let starting = tokio::task::spawn_blocking(move || App::start(config, devices, started, closing, &cancel));
        let app = starting.await.map_err(|error| StartError::Threads(error.into()))??;
        let tls = tls::open(&app.config.tls).map_err(StartError::Tls)?.map(Arc::new);
        let settings = &app.config.server;
        let reactors = Arc::new(Reactors::start(settings.reactor_threads).map_err(StartError::Threads)?);

        let connections = listen::connections(settings, Arc::clone(&app.transport_memory));
        let main = Listeners { shutdown, connections };
        metric_callbacks::register(&app, &main.connections, reactors.all(), tls.as_ref());
        let stack = stack(&app);
        if let Some(tcp) = http {
            let protocol = Http1::new(&app.config, app.metrics.meter(), http_port::service(&app, stack.clone()));
            let acceptor = main.acceptor(protocol, settings, &reactors);
            match tls.clone() {
                Some(config) => tokio::spawn(acceptor.accept(TlsListener { tcp, config, port: Port::Http })),
                None => tokio::spawn(acceptor.accept(HttpListener(tcp))),
            };
        }
        let acceptor = main.acceptor(Http2::new(settings, stack), settings, &reactors);
        match tls.clone() {
            Some(config) => {
                let listener = TlsListener { tcp: grpc, config, port: Port::Grpc };
                tokio::spawn(Arc::clone(&acceptor).accept(listener))
            }
            None => tokio::spawn(Arc::clone(&acceptor).accept(grpc)),
        };
        let (unix, socket_file) = unix.unzip();
        if let Some(unix) = unix {
            tokio::spawn(acceptor.accept(unix));
        }

        // Fails only if it is set, and nothing else sets it.
        let _set = admin_app.set(Arc::clone(&app));
        watch_devices(&app, probes_shutdown.closing.clone());
        sweep_tensors(&app, probes_shutdown.closing.clone());
        let reload_now = watch_credentials(&app, tls, probes_shutdown.closing);
        progress.finish();
        app.health.set_ready(true);
        Ok(Self {
            grpc_addr,
            http_addr,
            admin_addr,
            health_addr,
            app,
            main,
            probes,
            reactors,
            reload_now,
            _socket_file: socket_file,
        })
    }

    /// Address of the gRPC port.
    pub fn grpc_addr(&self) -> SocketAddr {
        self.grpc_addr
    }

    /// Address of the HTTP port, if there is one.
    pub fn http_addr(&self) -> Option<SocketAddr> {
        self.http_addr
    }

    /// Address of the admin port, which serves metrics, health and settings over HTTP.
    pub fn admin_addr(&self) -> SocketAddr {
        self.admin_addr
    }

    /// Address of the port that serves only `grpc.health.v1`.
    pub fn health_addr(&self) -> SocketAddr {
        self.health_addr
    }

    /// State shared by the services.
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// Reads changed certificates and principals now, and not at the next interval.
    pub fn reload_credentials(&self) {
        self.reload_now.notify_one();
    }

    /// Reports `NOT_SERVING` while still serving: the first step of a drain, in which load balancers remove the endpoint.
    pub fn set_not_ready(&self) {
        self.app.health.set_ready(false);
    }

    /// Returns once the daemon is to be shut down and started again, because all GPUs are lost.
    pub async fn restart_requested(&self) {
        self.app.restart.cancelled().await;
    }

    /// Stops accepting connections, waits for accepted calls up to `drain.timeout`, and ends.
    pub async fn shutdown(self) -> Drained {
        let timeout = self.app.config.drain.timeout;
        self.shutdown_within(timeout).await
    }

    /// As [`Self::shutdown`], with a given timeout. Ends in time whatever hangs: calls get all of it but a share for what
    /// follows, and what does not end is left behind.
    pub async fn shutdown_within(self, limit: Duration) -> Drained {
        let begin = Instant::now();
        let for_calls = limit.saturating_sub(release_share(limit));
        self.set_not_ready();
        self.main.shutdown.closing.cancel();
        let for_stream_ends = (for_calls / 10).min(MAX_STREAM_END_SHARE);
        let closed = timeout(for_calls.saturating_sub(for_stream_ends), self.main.connections.closed()).await.is_ok();
        let aborted_connections = if closed { 0 } else { self.main.connections.busy() };
        let complete = aborted_connections == 0;
        let aborted_calls = if complete { 0 } else { u64::try_from(self.app.metrics.in_flight()).unwrap_or(0) };
        if !complete {
            self.app.stream_ends.timeout.cancel();
            let _late = timeout(for_stream_ends, self.main.connections.closed()).await;
        }
        let engine = self.app.engine.drain(for_calls.saturating_sub(begin.elapsed())).await;
        self.main.shutdown.abort.cancel();
        let release = Release::within(limit.saturating_sub(begin.elapsed()));
        let hung = release.run(self).await;
        for one in &hung {
            tracing::error!(hung = one, "left behind at the end of the drain");
        }
        Drained { complete: complete && engine.complete && hung.is_empty(), aborted_connections, aborted_calls, hung }
    }
}

/// Serves the health and admin ports from the first moment: a start can take minutes. The admin port gets the rest of the daemon
/// through the cell.
fn serve_probes(
    starting: &Starting,
    settings: &Server,
    shutdown: ShutdownTokens,
    health: TcpListener,
    admin: TcpListener,
) -> (Listeners, Arc<OnceLock<Arc<App>>>) {
    let reactor = Arc::new(Reactors::current());
    let connections = listen::connections(settings, TransportMemory::new(HEALTH_MEMORY));
    let listeners = Listeners { shutdown, connections };
    let service = DeadlineLayer.layer(starting.health.service());
    tokio::spawn(listeners.acceptor(Http2::new(settings, service), settings, &reactor).accept(health));
    let app = Arc::new(OnceLock::new());
    let state = AdminState { starting: starting.clone(), app: Arc::clone(&app) };
    tokio::spawn(admin::serve(admin, state, listeners.shutdown.closing.clone()));
    (listeners, app)
}

/// The part of a drain's timeout that is kept for the steps after the calls.
fn release_share(limit: Duration) -> Duration {
    (limit / 10).min(MAX_RELEASE_SHARE)
}

/// The end of a drain, after the calls: each step gets half of the time that is left, so that a step which hangs leaves time
/// for the next. What does not end is left behind.
struct Release {
    end: Instant,
    hung: Vec<String>,
}

impl Release {
    fn within(limit: Duration) -> Self {
        Self { end: Instant::now() + limit.max(MIN_RELEASE_TIME), hung: vec![] }
    }

    /// Closes connections and collections, exports the last metrics, and stops all threads. Returns the names of those that hang.
    async fn run(mut self, daemon: Daemon) -> Vec<String> {
        let Daemon { app, main, probes, reactors, .. } = daemon;
        self.wait("the connections", main.connections.closed()).await;
        drop((main, probes));
        self.wait("the collections", app.collections.close()).await;
        // Half of the step's time, so that the names of threads that hang come back in time.
        let engine = Arc::clone(&app);
        let limit = self.left() / 4;
        let stop = tokio::task::spawn_blocking(move || engine.engine.stop_within(limit));
        let stopped = self.wait("the engine", stop).await;
        if let Some(Ok(left)) = &stopped {
            self.hung.extend(left.iter().map(ToString::to_string));
        }
        // A collector that does not answer fails no drain.
        app.metrics.flush(self.left() / 2).await;
        let release = move || {
            if let Some(reactors) = Arc::into_inner(reactors) {
                reactors.stop();
            }
            drop(app);
        };
        let released = self.wait("the threads that serve connections", tokio::task::spawn_blocking(release)).await;
        if let (Some(Err(_)), _) | (_, Some(Err(_))) = (stopped, released) {
            tracing::error!("panic while releasing the engine");
        }
        self.hung
    }

    /// Waits for a step; `None` if it hangs.
    async fn wait<T>(&mut self, what: &str, step: impl Future<Output = T>) -> Option<T> {
        let done = timeout(self.left() / 2, step).await.ok();
        if done.is_none() {
            self.hung.push(format!("{what} did not close in time"));
        }
        done
    }

    fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }
}

/// The services with their layers.
type Stack = TraceService<DeadlineService<PanicService<AuthService<TimingService<Services>>>>>;

/// The layers around the services. Authentication comes before the services, so that messages of refused calls are not
/// received.
fn stack(app: &Arc<App>) -> Stack {
    ServiceBuilder::new()
        .layer(TraceLayer::new(Arc::clone(&app.metrics), other_label))
        .layer(DeadlineLayer)
        .layer(PanicLayer)
        .layer(AuthLayer(Arc::clone(&app.auth)))
        .layer(TimingLayer)
        .service(Services::new(app, http_port::settings(app)))
}

/// Once all GPUs are lost, reports it to probes, and requests a restart when it is permitted. Holds the app weakly.
fn watch_devices(app: &Arc<App>, closing: CancellationToken) {
    let devices = app.engine.devices();
    let gpus: Vec<_> = devices.iter().map(|(device, _)| device.id()).filter(|id| *id != DeviceId::Cpu).collect();
    let losses = app.engine.losses();
    let health = app.health.clone();
    let requested = app.restart.clone();
    let cpu_may_serve = app.config.backend.kind != BackendKind::Cuda;
    let grace = app.config.cuda.lost_grace;
    let policy = restart::Policy::detect(app.config.cuda.restart);
    let weak = Arc::downgrade(app);
    let has_in_memory_collections = move || {
        let collections = weak.upgrade().map(|app| app.collections.list()).unwrap_or_default();
        collections.iter().any(|collection| !collection.meta().durable)
    };
    tokio::spawn(async move {
        if device_liveness::all_lost(&gpus, losses, &closing).await {
            let reported = device_liveness::report_all_lost(cpu_may_serve, grace, health, closing.clone());
            let restarting = async {
                let permitted = restart::permitted(policy, has_in_memory_collections);
                if closing.run_until_cancelled(permitted).await.is_some() {
                    requested.cancel();
                }
            };
            tokio::join!(reported, restarting);
        }
    });
}

/// Interval at which the memory of expired and lost tensors is freed. Their handles are refused at once.
const TENSOR_SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Frees expired and lost tensors until the daemon closes. Sleeps while there is none. Holds the app weakly.
fn sweep_tensors(app: &Arc<App>, closing: CancellationToken) {
    let weak = Arc::downgrade(app);
    let table = Arc::clone(&app.tensors.table);
    let sweeping = async move {
        loop {
            table.filled().await;
            sleep(TENSOR_SWEEP_INTERVAL).await;
            let Some(app) = weak.upgrade() else { return };
            app.tensors.sweep();
        }
    };
    tokio::spawn(async move { closing.run_until_cancelled(sweeping).await });
}

/// Reloads certificates and principals when their files change, until the daemon closes. Notifying reloads at once.
fn watch_credentials(app: &App, tls: Option<Arc<TlsConfig>>, closing: CancellationToken) -> Arc<Notify> {
    let counter = |name: &'static str, description: &'static str| {
        app.metrics.meter().u64_counter(name).with_description(description).build()
    };
    let certificates = tls.map(|value| Watched {
        name: "certificates",
        value,
        reloads: counter("accelerd_tls_reloads", "Changes of the files of [tls], by outcome: ok, failed."),
    });
    let principals = app.auth.principals().map(|value| Watched {
        name: "principals",
        value,
        reloads: counter("accelerd_principals_reloads", "Changes of the file of principals, by outcome: ok, failed."),
    });
    let now = Arc::new(Notify::new());
    let interval = app.config.tls.reload_interval;
    let watching = reload::watch(certificates.into_iter().chain(principals).collect(), interval, Arc::clone(&now));
    tokio::spawn(async move { closing.run_until_cancelled(watching).await });
    now
}

fn bind_tcp(key: &'static str, address: SocketAddr) -> Result<TcpListener, StartError> {
    listen::tcp(address).map_err(|error| StartError::Listen { key, address: address.to_string(), error })
}

/// Listens on the HTTP port, if there is one. The usual address is left to another process that has it, such as another daemon.
fn bind_http(listen: HttpListen) -> Result<Option<TcpListener>, StartError> {
    let Some(address) = listen.address() else { return Ok(None) };
    match bind_tcp("http.listen", address) {
        Err(StartError::Listen { error, .. })
            if listen == HttpListen::Auto && error.kind() == io::ErrorKind::AddrInUse =>
        {
            tracing::warn!(%address, "another process listens there: HTTP is not served; set http.listen");
            Ok(None)
        }
        bound => bound.map(Some),
    }
}

fn bind_unix(path: &Path) -> Result<(UnixListener, SocketFile), StartError> {
    let address = path.display().to_string();
    listen::unix(path).map_err(|error| StartError::Listen { key: "server.uds_path", address, error })
}

fn local_addr(listener: &TcpListener) -> SocketAddr {
    listener.local_addr().expect("a bound listener has an address")
}
