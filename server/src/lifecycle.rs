//! From start to end: serve until a signal, report `NOT_SERVING`, let balancers notice, drain, leave.

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
    config::{Config, Mistakes},
    serve::{Daemon, Drained, StartError},
    telemetry::{Logs, TelemetryError},
};

/// Why the daemon ended otherwise than asked to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Logs could not be set up.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// No runtime or signal handler could be had.
    #[error("the runtime did not start: {0}")]
    Runtime(#[from] io::Error),
    /// Calls were still running when the time for a drain was over.
    #[error("the drain ran out of time after {timeout:?}: {calls} calls on {connections} connections were cut")]
    Cut {
        /// The bound.
        timeout: Duration,
        /// Calls that were not answered.
        calls: u64,
        /// Their connections.
        connections: usize,
    },
    /// A start that was to be stopped could not be within the time for a drain.
    #[error("the start could not be stopped within {0:?}")]
    StartNotStopped(Duration),
    /// A second signal came before the drain, or the start, had ended.
    #[error("cut short by a second signal")]
    Forced,
}

/// The signals that end the daemon.
struct End {
    terminate: Signal,
    interrupt: Signal,
}

impl End {
    fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next.
    async fn told(&mut self) -> Told {
        tokio::select! {
            _ = self.terminate.recv() => Told::Terminate,
            _ = self.interrupt.recv() => Told::Interrupt,
        }
    }
}

/// Which signal came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// SIGTERM.
    Terminate,
    /// SIGINT.
    Interrupt,
}

/// How long to go on serving after a signal. Who presses Ctrl-C at a terminal waits for the daemon; no balancer does.
fn endpoint_delay(told: Told, at_terminal: bool, configured: Duration) -> Duration {
    if told == Told::Interrupt && at_terminal { Duration::ZERO } else { configured }
}

fn at_terminal() -> bool {
    io::stdin().is_terminal() || io::stderr().is_terminal()
}

/// Serves until SIGTERM or SIGINT, then drains; a second signal cuts the drain short. SIGHUP reads the settings anew
/// by `reload` and takes over what can change in a running daemon.
pub fn run(config: Config, reload: impl Fn() -> Result<Config, Mistakes>) -> Result<(), RunError> {
    // Signals, health, metrics and collections' upkeep; calls have threads of their own.
    let runtime = Builder::new_multi_thread().worker_threads(2).thread_name("control").enable_all().build()?;
    let ended = runtime.block_on(serve(config, reload));
    runtime.shutdown_background();
    ended
}

async fn serve(config: Config, reload: impl Fn() -> Result<Config, Mistakes>) -> Result<(), RunError> {
    let begin = Instant::now();
    let (mut end, mut hangup) = (End::new()?, signal(SignalKind::hangup())?);
    let logs = Logs::install(&config.telemetry)?;
    let drain = config.drain.clone();
    let Some(daemon) = start(config, &mut end).await? else { return Ok(()) };
    let (grpc, admin, health) = (daemon.grpc_addr(), daemon.admin_addr(), daemon.health_addr());
    tracing::info!(%grpc, %admin, %health, version = env!("CARGO_PKG_VERSION"), took = ?begin.elapsed(), "serving");
    let told = loop {
        tokio::select! {
            told = end.told() => break told,
            _ = hangup.recv() => take_over(&logs, reload()),
        }
    };
    let endpoint_delay = endpoint_delay(told, at_terminal(), drain.endpoint_delay);
    tracing::info!(?endpoint_delay, timeout = ?drain.timeout, "draining");
    daemon.stop_being_ready();
    let draining = async {
        sleep(endpoint_delay).await;
        daemon.shutdown().await
    };
    let ended = tokio::select! {
        drained = draining => ended_by(drained, drain.timeout),
        _ = end.told() => Err(RunError::Forced),
    };
    // The last spans, from a thread that may block.
    let _panicked = tokio::task::spawn_blocking(move || logs.flush()).await;
    ended
}

/// A drain that answered every call is a good end, another one is not.
fn ended_by(drained: Drained, timeout: Duration) -> Result<(), RunError> {
    let Drained { complete, cut_connections, cut_calls } = drained;
    if complete {
        tracing::info!(complete, cut_connections, "drained");
        return Ok(());
    }
    tracing::warn!(complete, cut_connections, cut_calls, ?timeout, "drained");
    Err(RunError::Cut { timeout, calls: cut_calls, connections: cut_connections })
}

/// Starts the daemon; `None` where it was told to end before it served. A start that cannot be stopped where it is gets as
/// long as a drain.
async fn start(config: Config, end: &mut End) -> Result<Option<Daemon>, RunError> {
    let (bound, stop) = (config.drain.timeout, CancellationToken::new());
    let mut starting = std::pin::pin!(Daemon::start_until(stop.clone(), config));
    tokio::select! {
        started = &mut starting => return Ok(Some(started?)),
        _ = end.told() => tracing::info!(timeout = ?bound, "told to end before it serves"),
    }
    stop.cancel();
    tokio::select! {
        started = timeout(bound, starting) => match started {
            Ok(Ok(daemon)) => ended_by(daemon.shutdown().await, bound)?,
            Ok(Err(StartError::Stopped)) => {}
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => {
                tracing::warn!(timeout = ?bound, "the start could not be stopped in time");
                return Err(RunError::StartNotStopped(bound));
            }
        },
        _ = end.told() => return Err(RunError::Forced),
    }
    Ok(None)
}

/// Takes over what can change in a running daemon: the log level.
fn take_over(logs: &Logs, settings: Result<Config, Mistakes>) {
    let taken = settings.map_err(|mistakes| mistakes.to_string()).and_then(|config| {
        let level = config.telemetry.log_level;
        logs.set_level(&level).map(|()| level).map_err(|error| error.to_string())
    });
    match taken {
        Ok(log_level) => tracing::info!(log_level, "settings reloaded"),
        Err(error) => tracing::error!(error, "settings not reloaded, the old ones stay"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ctrl_c_at_a_terminal_skips_the_endpoint_delay() {
        let configured = Duration::from_secs(5);
        assert_eq!(endpoint_delay(Told::Interrupt, true, configured), Duration::ZERO);
        assert_eq!(endpoint_delay(Told::Interrupt, false, configured), configured);
        assert_eq!(endpoint_delay(Told::Terminate, true, configured), configured);
    }
}
