//! The daemon as a child process, whose GPUs fail when a test says so.

use std::{
    error::Error,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::PathBuf,
    process::{Child, ChildStderr, Command, ExitCode, ExitStatus, Stdio},
};

use accelerd::{Daemon, StartError, config, lifecycle};
use accelerd_kernels::exit_at_once;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::faulty::{self, Fault, Gpus, Memory};

/// The argument that makes this program run the daemon.
pub(crate) const AS_DAEMON: &str = "--as-daemon";

/// Logged once the faulty request is answered.
pub(crate) const ANSWERED: &str = "the faulty request is answered";

/// Logged once the memory of the GPUs is held, and once it is free again.
pub(crate) const MEMORY_HELD: &str = "the memory of the GPUs is held";
pub(crate) const MEMORY_FREE: &str = "the memory of the GPUs is free";

/// Names the fault that SIGUSR1 causes.
const FAULT: &str = "FAULTS_FAULT";

/// The number of stand-ins in the place of GPUs, or of GPUs.
const STAND_INS: &str = "FAULTS_STAND_INS";
const REAL_GPUS: &str = "FAULTS_REAL_GPUS";

/// Serves with the settings of the environment.
pub(crate) fn run() -> ExitCode {
    let file = std::env::var_os("ACCELERD_CONFIG").map(PathBuf::from);
    let config = || config::load(file.as_deref(), config::environment(), &[]);
    let served = lifecycle::run_with(start, config().expect("the settings are valid"), None, config);
    let Err(error) = served else { return ExitCode::SUCCESS };
    eprintln!("{error}");
    if error.leaves_threads() {
        exit_at_once(1);
    }
    ExitCode::FAILURE
}

/// Starts on the GPUs that the environment names. Submits the faulty request at SIGUSR1; holds the memory of the GPUs from one
/// SIGUSR2 to the next.
async fn start(cancel: CancellationToken, config: accelerd::Config) -> Result<Daemon, StartError> {
    let count = |variable| std::env::var(variable).ok()?.parse().ok();
    let gpus = count(STAND_INS).map(Gpus::StandIns).or_else(|| count(REAL_GPUS).map(Gpus::Real));
    let fault = std::env::var(FAULT).ok().and_then(|name| Fault::parse(&name)).expect("the fault is named");
    let mut requested = signal(SignalKind::user_defined1()).expect("the signal can be handled");
    let devices = gpus.expect("the GPUs are named").open(&config).expect("the devices can be opened");
    let mut toggled = signal(SignalKind::user_defined2()).expect("the signal can be handled");
    let memory = Memory::of(&devices.devices);
    tokio::spawn(async move {
        for is_held in [true, false].into_iter().cycle() {
            toggled.recv().await;
            memory.set_held(is_held);
            let message = if is_held { MEMORY_HELD } else { MEMORY_FREE };
            eprintln!("{}", serde_json::json!({ "message": message }));
        }
    });
    let daemon = Daemon::start_on(Some(devices), cancel, config).await?;
    // Held weakly: the request must not keep the daemon alive.
    let app = std::sync::Arc::downgrade(daemon.app());
    tokio::spawn(async move {
        requested.recv().await;
        let submitted = app.upgrade().map(|app| faulty::submit(&app.engine, fault));
        let Some(submitted) = submitted else { return };
        let error = submitted.await.err();
        eprintln!("{}", serde_json::json!({ "message": ANSWERED, "error": error }));
    });
    Ok(daemon)
}

/// A running daemon; dropping it kills it.
pub(crate) struct Running {
    child: Child,
    log: BufReader<ChildStderr>,
    /// Lines that no test has asked for yet.
    unread: Vec<Value>,
}

impl Running {
    /// Starts a daemon with further settings.
    pub(crate) fn start(gpus: Gpus, fault: Fault, settings: &[(&str, &str)]) -> std::io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let fixed = [
            ("SERVER__LISTEN", "127.0.0.1:0"),
            ("SERVER__ADMIN_LISTEN", "127.0.0.1:0"),
            ("SERVER__HEALTH_LISTEN", "127.0.0.1:0"),
            ("HTTP__LISTEN", "127.0.0.1:0"),
            ("BACKEND__KIND", "auto"),
            ("BACKEND__CPU_THREADS", "1"),
            ("TELEMETRY__LOG_FORMAT", "json"),
            ("DRAIN__ENDPOINT_DELAY", "0s"),
        ];
        for (key, value) in fixed.iter().chain(settings) {
            command.env(format!("ACCELERD__{key}"), value);
        }
        let (variable, count) = match gpus {
            Gpus::StandIns(count) => (STAND_INS, count),
            Gpus::Real(count) => (REAL_GPUS, count),
        };
        command.arg(AS_DAEMON).env(FAULT, fault.name()).env(variable, count.to_string());
        // The tests may themselves run in a pod.
        let mut child = command.env_remove("KUBERNETES_SERVICE_HOST").stderr(Stdio::piped()).spawn()?;
        let log = BufReader::new(child.stderr.take().expect("it is piped"));
        Ok(Self { child, log, unread: vec![] })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the next log line with this message. Lines with different messages may come in any order.
    pub(crate) fn line(&mut self, message: &str) -> Value {
        loop {
            if let Some(index) = self.unread.iter().position(|line| line["message"] == message) {
                return self.unread.remove(index);
            }
            let mut line = String::new();
            let read = self.log.read_line(&mut line).expect("the log can be read");
            assert!(read > 0, "the log ends without {message:?}; unread are {:#?}", self.unread);
            self.unread.push(serde_json::from_str(&line).unwrap_or(Value::String(line)));
        }
    }

    /// Waits until the daemon serves.
    pub(crate) fn serving(&mut self) -> Addresses {
        let line = self.line("serving");
        Addresses { grpc: format!("http://{}", text(&line, "grpc")), admin: text(&line, "admin").to_owned() }
    }

    /// Submits the faulty request.
    pub(crate) fn fail(&self) -> std::io::Result<()> {
        self.signal("-USR1")
    }

    /// Holds the memory of the GPUs, or frees it.
    pub(crate) fn toggle_memory(&self) -> std::io::Result<()> {
        self.signal("-USR2")
    }

    /// The lines that no test has asked for, of a daemon that has ended.
    pub(crate) fn rest(&mut self) -> &[Value] {
        let parsed = |line: std::io::Result<String>| {
            let line = line.expect("the log can be read");
            serde_json::from_str(&line).unwrap_or(Value::String(line))
        };
        self.unread.extend(self.log.by_ref().lines().map(parsed));
        &self.unread
    }

    pub(crate) fn signal(&self, name: &str) -> std::io::Result<()> {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status()?;
        assert!(sent.success());
        Ok(())
    }

    pub(crate) fn wait(&mut self) -> std::io::Result<ExitStatus> {
        self.child.wait()
    }

    /// Ends the daemon, which must have nothing left to do.
    pub(crate) fn stop(&mut self) -> std::io::Result<()> {
        self.signal("-TERM")?;
        assert_eq!(self.wait()?.code(), Some(0));
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails if the daemon has exited.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Where a daemon serves.
pub(crate) struct Addresses {
    /// The URL of the gRPC port.
    pub(crate) grpc: String,
    admin: String,
}

impl Addresses {
    /// Status and body of a path of the admin port.
    pub(crate) fn get(&self, path: &str) -> Result<(u16, String), Box<dyn Error>> {
        let mut stream = TcpStream::connect(&self.admin)?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        let (head, body) = response.split_once("\r\n\r\n").ok_or("a response has a head")?;
        let status = head.split(' ').nth(1).ok_or("a response has a status")?;
        Ok((status.parse()?, body.to_owned()))
    }

    /// Waits until a probe of the admin port fails.
    pub(crate) fn wait_until_failing(&self, path: &str) -> Result<(), Box<dyn Error>> {
        while self.get(path)?.0 == 200 {}
        assert_eq!(self.get(path)?.0, 503);
        Ok(())
    }
}

/// A field of a log line.
pub(crate) fn text<'a>(line: &'a Value, field: &str) -> &'a str {
    line[field].as_str().unwrap_or_else(|| panic!("{field} in {line}"))
}
