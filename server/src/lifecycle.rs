//! The life of the process: start, serve until a signal, report `NOT_SERVING`, drain, exit.

use std::{
    io::{self, IsTerminal},
    time::{Duration, Instant},
};

use tokio::{
    runtime::Builder,
    signal::unix::{Signal, SignalKind, signal},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    app::StartError,
    config::{Config, ConfigErrors},
    serve::{Daemon, Drained},
    telemetry::{Logs, TelemetryError},
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
    #[error("drain timed out after {timeout:?}: aborted {calls} calls on {connections} connections")]
    DrainTimeout {
        /// The setting `drain.timeout`.
        timeout: Duration,
        /// Calls that were aborted.
        calls: u64,
        /// Connections that were still open.
        connections: usize,
    },
    /// A signal came during the start, and the start did not stop within `drain.timeout`.
    #[error("the start did not stop within {0:?}")]
    CancelTimeout(Duration),
    /// A second signal came before the drain, or the cancelled start, had ended.
    #[error("interrupted by a second signal")]
    Forced,
}

/// The signals that end the daemon.
struct ShutdownSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl ShutdownSignals {
    fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn recv(&mut self) -> ShutdownSignal {
        tokio::select! {
            _ = self.terminate.recv() => ShutdownSignal::Terminate,
            _ = self.interrupt.recv() => ShutdownSignal::Interrupt,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShutdownSignal {
    /// SIGTERM.
    Terminate,
    /// SIGINT.
    Interrupt,
}

/// How long to keep serving after a signal. Ctrl-C at a terminal skips the delay: no load balancer is involved.
fn endpoint_delay(signal: ShutdownSignal, at_terminal: bool, configured: Duration) -> Duration {
    if signal == ShutdownSignal::Interrupt && at_terminal { Duration::ZERO } else { configured }
}

fn at_terminal() -> bool {
    io::stdin().is_terminal() || io::stderr().is_terminal()
}

/// Serves until SIGTERM or SIGINT, then drains; a second signal ends the drain. SIGHUP calls `reload`, applies the
/// settings that can change at run time, and reads changed certificates and principals.
pub fn run(config: Config, reload: impl Fn() -> Result<Config, ConfigErrors>) -> Result<(), RunError> {
    // For signals, health, metrics and maintenance of collections; calls run on other threads.
    let runtime = Builder::new_multi_thread().worker_threads(2).thread_name("control").enable_all().build()?;
    let result = runtime.block_on(serve(config, reload));
    runtime.shutdown_background();
    result
}

async fn serve(config: Config, reload: impl Fn() -> Result<Config, ConfigErrors>) -> Result<(), RunError> {
    let begin = Instant::now();
    let (mut signals, mut hangup) = (ShutdownSignals::new()?, signal(SignalKind::hangup())?);
    let logs = Logs::install(&config.telemetry)?;
    let drain = config.drain.clone();
    let Some(daemon) = start(config, &mut signals).await? else { return Ok(()) };
    let (grpc, admin, health) = (daemon.grpc_addr(), daemon.admin_addr(), daemon.health_addr());
    tracing::info!(%grpc, %admin, %health, version = env!("CARGO_PKG_VERSION"), took = ?begin.elapsed(), "serving");
    let signal = loop {
        tokio::select! {
            signal = signals.recv() => break signal,
            _ = hangup.recv() => {
                apply_settings(&logs, reload());
                daemon.reload_credentials();
            }
        }
    };
    let endpoint_delay = endpoint_delay(signal, at_terminal(), drain.endpoint_delay);
    tracing::info!(?endpoint_delay, timeout = ?drain.timeout, "draining");
    daemon.set_not_ready();
    let draining = async {
        sleep(endpoint_delay).await;
        daemon.shutdown().await
    };
    let result = tokio::select! {
        drained = draining => drain_result(drained, drain.timeout),
        _ = signals.recv() => Err(RunError::Forced),
    };
    // Exporting the last spans blocks.
    let _panicked = tokio::task::spawn_blocking(move || logs.flush()).await;
    result
}

/// Success if every call completed.
fn drain_result(drained: Drained, timeout: Duration) -> Result<(), RunError> {
    let Drained { complete, aborted_connections, aborted_calls } = drained;
    if complete {
        tracing::info!(complete, aborted_connections, "drained");
        return Ok(());
    }
    tracing::warn!(complete, aborted_connections, aborted_calls, ?timeout, "drained");
    Err(RunError::DrainTimeout { timeout, calls: aborted_calls, connections: aborted_connections })
}

/// Starts the daemon; `None` if a signal cancelled the start. Work that cannot be cancelled gets `drain.timeout` to finish.
async fn start(config: Config, signals: &mut ShutdownSignals) -> Result<Option<Daemon>, RunError> {
    let (limit, cancel) = (config.drain.timeout, CancellationToken::new());
    let mut starting = std::pin::pin!(Daemon::start_with_cancel(cancel.clone(), config));
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

    #[test]
    fn only_ctrl_c_at_a_terminal_skips_the_endpoint_delay() {
        let configured = Duration::from_secs(5);
        assert_eq!(endpoint_delay(ShutdownSignal::Interrupt, true, configured), Duration::ZERO);
        assert_eq!(endpoint_delay(ShutdownSignal::Interrupt, false, configured), configured);
        assert_eq!(endpoint_delay(ShutdownSignal::Terminate, true, configured), configured);
    }
}
