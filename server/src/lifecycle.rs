//! The life of the process: start, serve until a signal, report `NOT_SERVING`, drain, exit; or start again, where the GPUs
//! are lost.

use std::{
    io::{self, IsTerminal},
    time::{Duration, Instant},
};

use accelerd_kernels::{exit_at_once, use_short_slice};
use opentelemetry::global;
use tokio::{
    runtime::Builder,
    signal::unix::{Signal, SignalKind, signal},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    app::StartError,
    auth::Auth,
    config::{Config, ConfigErrors},
    restart,
    serve::{Daemon, Drained},
    service_manager,
    telemetry::{Logs, TelemetryError},
    tls,
};

/// Why the daemon failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The start failed.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Logs could not be set up.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// The runtime or a signal handler could not be set up.
    #[error("the runtime did not start: {0}")]
    Runtime(#[from] io::Error),
    /// Calls were still running when the drain timed out.
    #[error(
        "drain timed out after {timeout:?}: aborted {calls} calls on {connections} connections{}",
        left_behind(hung)
    )]
    DrainTimeout {
        /// The setting `drain.timeout`.
        timeout: Duration,
        /// Calls that were aborted.
        calls: u64,
        /// Connections that were still open.
        connections: usize,
        /// Parts that did not end.
        hung: Vec<String>,
    },
    /// A signal came during the start, and the start did not stop within `drain.timeout`.
    #[error("the start did not stop within {0:?}")]
    CancelTimeout(Duration),
    /// A second signal came before the drain, or the cancelled start, had ended.
    #[error("interrupted by a second signal")]
    Forced,
    /// The daemon was to start again, and the new image could not be executed.
    #[error("the daemon could not be started again: {0}")]
    Restart(io::Error),
}

/// Why the daemon stops serving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shutdown {
    Signal(ShutdownSignal),
    /// All GPUs are lost, and the daemon starts again.
    Restart,
}

/// End of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// The process is to exit.
    Stopped,
    /// The process is to start again.
    Restart,
}

impl RunError {
    /// Returns true if threads still run that may be stuck in the CUDA driver, whose exit handlers would wait for them.
    pub fn leaves_threads(&self) -> bool {
        match self {
            Self::DrainTimeout { hung, .. } => !hung.is_empty(),
            Self::Start(_)
            | Self::Telemetry(_)
            | Self::Runtime(_)
            | Self::CancelTimeout(_)
            | Self::Forced
            | Self::Restart(_) => false,
        }
    }
}

/// Linux's number of SIGXFSZ on x86-64 and ARM: a write would exceed the file size limit of the process.
const SIGXFSZ: i32 = 25;

/// Minimum time of the export of the last spans.
const MIN_FLUSH_TIME: Duration = Duration::from_millis(500);

/// Time after the end of a drain until the process is ended, if it is still there.
const STUCK_GRACE: Duration = Duration::from_secs(5);

/// Interval at which a daemon looks whether the process that started it has ended.
const PARENT_INTERVAL: Duration = Duration::from_millis(500);

/// The signals that end the daemon.
struct ShutdownSignals {
    terminate: Signal,
    interrupt: Signal,
    /// The process whose end counts as a signal, until it has ended.
    parent: Option<u32>,
}

impl ShutdownSignals {
    fn new(parent: Option<u32>) -> io::Result<Self> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { terminate, interrupt, parent })
    }

    async fn recv(&mut self) -> ShutdownSignal {
        tokio::select! {
            _ = self.terminate.recv() => ShutdownSignal::Terminate,
            _ = self.interrupt.recv() => ShutdownSignal::Interrupt,
            () = parent_ended(self.parent) => {
                self.parent = None;
                ShutdownSignal::ParentEnded
            }
        }
    }
}

/// Waits for the end of the parent of this process: another process has then become its parent. Never returns without a parent to wait for.
async fn parent_ended(parent: Option<u32>) {
    let Some(parent) = parent else { return std::future::pending().await };
    while std::os::unix::process::parent_id() == parent {
        sleep(PARENT_INTERVAL).await;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShutdownSignal {
    /// SIGTERM.
    Terminate,
    /// SIGINT.
    Interrupt,
    /// The process that started the daemon has ended.
    ParentEnded,
}

/// Returns the time to keep serving after a signal. Ctrl-C at a terminal and the end of the parent skip the delay: no load balancer is
/// involved.
fn endpoint_delay(signal: ShutdownSignal, at_terminal: bool, configured: Duration) -> Duration {
    match signal {
        ShutdownSignal::Interrupt if at_terminal => Duration::ZERO,
        ShutdownSignal::ParentEnded => Duration::ZERO,
        ShutdownSignal::Terminate | ShutdownSignal::Interrupt => configured,
    }
}

fn at_terminal() -> bool {
    io::stdin().is_terminal() || io::stderr().is_terminal()
}

/// Reads and checks the files that a start reads in addition to the settings: certificates, private key and principals.
pub fn check_credentials(config: &Config) -> Result<(), StartError> {
    tls::open(&config.tls).map_err(StartError::Tls)?;
    Auth::open(config, &global::meter("accelerd"))?;
    Ok(())
}

/// Serves until SIGTERM or SIGINT, then drains; a second signal ends the drain. SIGHUP calls `reload`, applies the
/// settings that can change at run time, and reads changed certificates and principals. After the loss of all GPUs the
/// daemon drains and executes itself again, where `cuda.restart` permits it; a signal during that drain ends the process
/// instead. The end of `parent`, the process that started this one, counts as a signal.
pub fn run(
    config: Config,
    parent: Option<u32>,
    reload: impl Fn() -> Result<Config, ConfigErrors>,
) -> Result<(), RunError> {
    run_with(Daemon::start_with_cancel, config, parent, reload)
}

/// As [`run`], with another way to start the daemon.
#[doc(hidden)]
pub fn run_with<F: Future<Output = Result<Daemon, StartError>>>(
    start: impl FnOnce(CancellationToken, Config) -> F,
    config: Config,
    parent: Option<u32>,
    reload: impl Fn() -> Result<Config, ConfigErrors>,
) -> Result<(), RunError> {
    // For signals, health, metrics and maintenance of collections; calls run on other threads.
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).thread_name("control").on_thread_start(use_short_slice);
    let runtime = builder.enable_all().build()?;
    let ended = runtime.block_on(serve(start, config, parent, reload));
    runtime.shutdown_background();
    match ended? {
        Ended::Stopped => Ok(()),
        Ended::Restart => Err(RunError::Restart(restart::execute_again())),
    }
}

async fn serve<F: Future<Output = Result<Daemon, StartError>>>(
    start: impl FnOnce(CancellationToken, Config) -> F,
    config: Config,
    parent: Option<u32>,
    reload: impl Fn() -> Result<Config, ConfigErrors>,
) -> Result<Ended, RunError> {
    let begin = Instant::now();
    // With a handler, which stays installed, the write fails with EFBIG, as on a full disk. By default the process ends.
    drop(signal(SignalKind::from_raw(SIGXFSZ))?);
    let mut signals = ShutdownSignals::new(parent)?;
    let mut hangup = signal(SignalKind::hangup())?;
    let logs = Logs::install(&config.telemetry)?;
    let drain = config.drain.clone();
    let cancel = CancellationToken::new();
    let starting = start(cancel.clone(), config);
    let Some(daemon) = wait_for_start(starting, &cancel, drain.timeout, &mut signals).await? else {
        return Ok(Ended::Stopped);
    };
    let grpc = daemon.grpc_addr();
    let admin = daemon.admin_addr();
    let health = daemon.health_addr();
    let http = daemon.http_addr().map(tracing::field::display);
    tracing::info!(%grpc, http, %admin, %health, version = env!("CARGO_PKG_VERSION"), took = ?begin.elapsed(), "serving");
    let status = format!("serving gRPC on {grpc}");
    service_manager::ready(&status);
    tokio::spawn(service_manager::keep_alive(daemon.app().health.clone()));
    let shutdown = loop {
        tokio::select! {
            signal = signals.recv() => break Shutdown::Signal(signal),
            () = daemon.restart_requested() => break Shutdown::Restart,
            _ = hangup.recv() => {
                service_manager::reloading();
                apply_settings(&logs, reload());
                daemon.reload_credentials();
                service_manager::ready(&status);
            }
        }
    };
    let endpoint_delay = match shutdown {
        Shutdown::Signal(signal) => endpoint_delay(signal, at_terminal(), drain.endpoint_delay),
        // The endpoint stays: the daemon is back sooner than load balancers would notice.
        Shutdown::Restart => Duration::ZERO,
    };
    let restart = shutdown == Shutdown::Restart;
    tracing::info!(?endpoint_delay, timeout = ?drain.timeout, restart, "draining");
    if !restart {
        service_manager::stopping("draining");
    }
    let end = Instant::now() + endpoint_delay + drain.timeout;
    exit_if_stuck(end)?;
    let limit = drain.timeout.saturating_sub((drain.timeout / 50).min(MIN_FLUSH_TIME));
    daemon.set_not_ready();
    let draining = async {
        sleep(endpoint_delay).await;
        daemon.shutdown_within(limit).await
    };
    let result = wait_for_drain(draining, shutdown, drain.timeout, async || _ = signals.recv().await).await;
    logs.flush(end.saturating_duration_since(Instant::now()).max(MIN_FLUSH_TIME)).await;
    result
}

/// Waits for the drain. A signal ends it; during a drain before a restart, the first one only ends the restart.
async fn wait_for_drain(
    draining: impl Future<Output = Drained>,
    shutdown: Shutdown,
    timeout: Duration,
    mut signal: impl AsyncFnMut(),
) -> Result<Ended, RunError> {
    let mut draining = std::pin::pin!(draining);
    let mut restarts = shutdown == Shutdown::Restart;
    loop {
        tokio::select! {
            drained = &mut draining => return match drain_result(drained, timeout) {
                _ if restarts => Ok(Ended::Restart),
                drained => drained.map(|()| Ended::Stopped),
            },
            () = signal() => if !std::mem::take(&mut restarts) {
                return Err(RunError::Forced);
            },
        }
    }
}

/// Success if every call completed.
fn drain_result(drained: Drained, timeout: Duration) -> Result<(), RunError> {
    let Drained { complete, aborted_connections, aborted_calls, hung } = drained;
    if complete {
        tracing::info!(complete, aborted_connections, "drained");
        return Ok(());
    }
    tracing::warn!(complete, aborted_connections, aborted_calls, hung = hung.join(", "), ?timeout, "drained");
    Err(RunError::DrainTimeout { timeout, calls: aborted_calls, connections: aborted_connections, hung })
}

/// The end of an error message that names what was left behind.
fn left_behind(hung: &[String]) -> String {
    if hung.is_empty() { String::new() } else { format!("; left behind: {}", hung.join(", ")) }
}

/// The last resort: ends the process if the drain has not done so shortly after its end, as when the threads that measure
/// its time are stuck.
fn exit_if_stuck(end: Instant) -> io::Result<()> {
    let limit = end.saturating_duration_since(Instant::now()) + STUCK_GRACE;
    let exit = move || {
        std::thread::sleep(limit);
        tracing::error!("the drain did not end: exiting");
        exit_at_once(1);
    };
    std::thread::Builder::new().name("last-resort".to_owned()).spawn(exit).map(drop)
}

/// Waits for the daemon's start; `None` if a signal cancelled it. Work that cannot be cancelled gets `limit` to finish.
async fn wait_for_start(
    starting: impl Future<Output = Result<Daemon, StartError>>,
    cancel: &CancellationToken,
    limit: Duration,
    signals: &mut ShutdownSignals,
) -> Result<Option<Daemon>, RunError> {
    let mut starting = std::pin::pin!(starting);
    tokio::select! {
        started = &mut starting => return Ok(Some(started?)),
        _ = signals.recv() => tracing::info!(timeout = ?limit, "shutting down before serving"),
    }
    cancel.cancel();
    tokio::select! {
        started = timeout(limit, starting) => match started {
            Ok(Ok(daemon)) => drain_result(daemon.shutdown().await, limit)?,
            Ok(Err(StartError::Cancelled)) => {}
            Ok(Err(error)) => return Err(error.into()),
            Err(_elapsed) => {
                tracing::warn!(timeout = ?limit, "the start did not stop in time");
                return Err(RunError::CancelTimeout(limit));
            }
        },
        _ = signals.recv() => return Err(RunError::Forced),
    }
    Ok(None)
}

/// Applies the only setting that can change at run time, the log level.
fn apply_settings(logs: &Logs, settings: Result<Config, ConfigErrors>) {
    let applied = settings.map_err(|errors| errors.to_string()).and_then(|config| {
        let level = config.telemetry.log_level;
        logs.set_level(&level).map(|()| level).map_err(|error| error.to_string())
    });
    match applied {
        Ok(log_level) => tracing::info!(log_level, "settings reloaded"),
        Err(error) => tracing::error!(error, "settings not reloaded"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drained(complete: bool) -> Drained {
        let hung = if complete { vec![] } else { vec!["a batch of lane search".to_owned()] };
        Drained { complete, aborted_connections: 0, aborted_calls: 0, hung }
    }

    /// Runs a drain that takes an hour, with signals after these numbers of minutes. Returns its end.
    async fn drain(shutdown: Shutdown, complete: bool, signals: &[u64]) -> Result<Ended, RunError> {
        let minutes = |count: u64| Duration::from_secs(60 * count);
        let start = tokio::time::Instant::now();
        let draining = async {
            sleep(minutes(60)).await;
            drained(complete)
        };
        let mut signals = signals.iter();
        wait_for_drain(draining, shutdown, minutes(60), async || match signals.next() {
            Some(at) => tokio::time::sleep_until(start + minutes(*at)).await,
            None => std::future::pending().await,
        })
        .await
    }

    #[tokio::test(start_paused = true)]
    async fn a_drain_ends_with_the_calls_or_a_second_signal() {
        let after_signal = Shutdown::Signal(ShutdownSignal::Terminate);
        assert!(matches!(drain(after_signal, true, &[]).await, Ok(Ended::Stopped)));
        assert!(matches!(drain(after_signal, true, &[5]).await, Err(RunError::Forced)));
        let error = drain(after_signal, false, &[]).await.expect_err("a worker hangs");
        assert!(
            error.leaves_threads() && error.to_string().ends_with("; left behind: a batch of lane search"),
            "{error}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_signal_ends_a_restart_and_a_second_one_the_drain() {
        assert!(matches!(drain(Shutdown::Restart, true, &[]).await, Ok(Ended::Restart)));
        assert!(matches!(drain(Shutdown::Restart, false, &[]).await, Ok(Ended::Restart)), "whatever hangs");
        assert!(matches!(drain(Shutdown::Restart, true, &[5]).await, Ok(Ended::Stopped)));
        assert!(matches!(drain(Shutdown::Restart, true, &[5, 6]).await, Err(RunError::Forced)));
    }

    #[test]
    fn ctrl_c_at_a_terminal_and_the_end_of_the_parent_skip_the_endpoint_delay() {
        let configured = Duration::from_secs(5);
        assert_eq!(endpoint_delay(ShutdownSignal::Interrupt, true, configured), Duration::ZERO);
        assert_eq!(endpoint_delay(ShutdownSignal::Interrupt, false, configured), configured);
        assert_eq!(endpoint_delay(ShutdownSignal::Terminate, true, configured), configured);
        assert_eq!(endpoint_delay(ShutdownSignal::ParentEnded, false, configured), Duration::ZERO);
    }
}
