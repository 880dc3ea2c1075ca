//! The daemon as a child process with GPUs that fail as its environment says.

use std::{
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, ChildStderr, Command, ExitCode, ExitStatus, Stdio},
};

use accelerd::{Daemon, StartError, config, lifecycle};
use accelerd_kernels::exit_at_once;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::faulty::{self, Fault};

/// The argument that makes this program run the daemon.
pub(crate) const AS_DAEMON: &str = "--as-daemon";

/// Logged once the launch that hangs runs.
pub(crate) const RUNS: &str = "the faulty launch runs";

/// Names the fault of the first image of a process.
const FAULT: &str = "FAULTS_FAULT";

/// Set by the daemon for the images after the first.
const RESTARTS: &str = "ACCELERD_RESTARTS";

/// Serves with the settings of the environment.
pub(crate) fn run() -> ExitCode {
    let file = std::env::var_os("ACCELERD_CONFIG").map(PathBuf::from);
    let config = || config::load(file.as_deref(), config::environment(), &[]);
    let served = lifecycle::run_with(start, config().expect("the settings are valid"), config);
    let Err(error) = served else { return ExitCode::SUCCESS };
    eprintln!("{error}");
    if error.leaves_threads() {
        exit_at_once(1);
    }
    ExitCode::FAILURE
}

/// Starts on stand-ins of GPUs; the first image then gets its fault.
async fn start(cancel: CancellationToken, config: accelerd::Config) -> Result<Daemon, StartError> {
    let daemon = Daemon::start_on(Some(faulty::devices()), cancel, config).await?;
    let fault = faulty::from_environment(FAULT).filter(|_| std::env::var_os(RESTARTS).is_none());
    if let Some(fault) = fault {
        tokio::spawn(faulty::submit(&daemon.app().engine, fault));
        if fault == Fault::Hang {
            while daemon.app().engine.running().is_empty() {
                tokio::task::yield_now().await;
            }
            eprintln!("{{\"message\":\"{RUNS}\"}}");
        }
    }
    Ok(daemon)
}

/// A daemon with a fault and settings; dropping it kills it.
pub(crate) struct Running {
    child: Child,
    log: BufReader<ChildStderr>,
    /// Lines that no test has asked for yet.
    unread: Vec<Value>,
}

impl Running {
    pub(crate) fn start(fault: &str, settings: &[(&str, &str)]) -> std::io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let fixed = [
            ("SERVER__LISTEN", "127.0.0.1:0"),
            ("SERVER__ADMIN_LISTEN", "127.0.0.1:0"),
            ("SERVER__HEALTH_LISTEN", "127.0.0.1:0"),
            ("BACKEND__CPU_THREADS", "1"),
            ("TELEMETRY__LOG_FORMAT", "json"),
            ("DRAIN__ENDPOINT_DELAY", "0s"),
        ];
        for (key, value) in fixed.iter().chain(settings) {
            command.env(format!("ACCELERD__{key}"), value);
        }
        // The tests may themselves run in a pod.
        command.arg(AS_DAEMON).env(FAULT, fault).env_remove(RESTARTS).env_remove("KUBERNETES_SERVICE_HOST");
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let log = BufReader::new(child.stderr.take().expect("it is piped"));
        Ok(Self { child, log, unread: vec![] })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the next log line with this message. Lines with different messages may come in any order.
    pub(crate) fn line(&mut self, message: &str) -> Value {
        loop {
            if let Some(at) = self.unread.iter().position(|line| line["message"] == message) {
                return self.unread.remove(at);
            }
            let mut line = String::new();
            let read = self.log.read_line(&mut line).expect("the log can be read");
            assert!(read > 0, "the log ends without {message:?}; unread are {:#?}", self.unread);
            self.unread.push(serde_json::from_str(&line).unwrap_or(Value::String(line)));
        }
    }

    pub(crate) fn signal(&self, name: &str) -> std::io::Result<()> {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status()?;
        assert!(sent.success());
        Ok(())
    }

    pub(crate) fn wait(&mut self) -> std::io::Result<ExitStatus> {
        self.child.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails if the daemon has exited.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
