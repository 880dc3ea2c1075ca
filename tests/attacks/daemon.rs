//! A daemon as a child process, with the memory that it and its own children have used.

use std::{
    error::Error,
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::PathBuf,
    process::{Child, Command, ExitCode, Stdio},
};

use accelerd::{config, lifecycle};
use tonic::transport::{Channel, Endpoint};

/// The argument that makes this program run the daemon.
pub(crate) const AS_DAEMON: &str = "--as-daemon";

/// The value of `memory.host_limit`.
pub(crate) const HOST_LIMIT: u64 = 1 << 30;

/// Serves with the settings of the environment.
pub(crate) fn run() -> ExitCode {
    let config = || config::load(None, config::environment(), &[]);
    let served =
        config().map_err(|e| e.to_string()).and_then(|c| lifecycle::run(c, None, config).map_err(|e| e.to_string()));
    served.map_or_else(
        |error| {
            eprintln!("{error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

/// A running daemon; dropping it kills it.
pub(crate) struct Daemon {
    child: Child,
    endpoint: Endpoint,
}

impl Daemon {
    pub(crate) fn start() -> Result<Self, Box<dyn Error>> {
        let host_limit = format!("{}MiB", HOST_LIMIT >> 20);
        let settings = [
            ("ACCELERD__SERVER__LISTEN", "127.0.0.1:0"),
            ("ACCELERD__SERVER__ADMIN_LISTEN", "127.0.0.1:0"),
            ("ACCELERD__SERVER__HEALTH_LISTEN", "127.0.0.1:0"),
            ("ACCELERD__HTTP__LISTEN", "127.0.0.1:0"),
            ("ACCELERD__BACKEND__KIND", "cpu"),
            ("ACCELERD__MEMORY__HOST_LIMIT", &host_limit),
            ("ACCELERD__SANDBOX__PROCESSES", "1"),
            ("ACCELERD__TELEMETRY__LOG_FORMAT", "json"),
        ];
        let (program, argument) = match std::env::var_os("ACCELERD_BIN") {
            Some(program) => (PathBuf::from(program), "serve"),
            None => (std::env::current_exe()?, AS_DAEMON),
        };
        let mut child = Command::new(program).arg(argument).envs(settings).stderr(Stdio::piped()).spawn()?;
        let address = serving(&mut child).map_err(|log| format!("the daemon does not serve; its log:\n{log}"))?;
        Ok(Self { child, endpoint: Endpoint::from_shared(format!("http://{address}"))? })
    }

    /// A connection of its own.
    pub(crate) async fn connect(&self) -> Result<Channel, tonic::transport::Error> {
        self.endpoint.connect().await
    }

    /// Returns true if the process has not ended.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The largest resident memory so far of the daemon, and of each of its children that still runs.
    pub(crate) fn peak_bytes(&self) -> u64 {
        let daemon = self.child.id();
        let processes = fs::read_dir("/proc").expect("Linux").flatten();
        let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let status = ids.filter_map(|id| Some((id, fs::read_to_string(format!("/proc/{id}/status")).ok()?)));
        let field = |status: &str, name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        let family = status.filter(|(id, status)| *id == daemon || field(status, "PPid:") == Some(u64::from(daemon)));
        family.filter_map(|(_, status)| field(&status, "VmHWM:")).sum::<u64>() * 1024
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) fn terminate(mut self) -> Result<ExitCode, Box<dyn Error>> {
        let sent = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status()?;
        assert!(sent.success());
        let code = self.child.wait()?.code().ok_or("a signal ended the daemon")?;
        Ok(ExitCode::from(u8::try_from(code)?))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the log up to the line with the gRPC address, and keeps draining the pipe.
fn serving(child: &mut Child) -> Result<String, String> {
    let mut log = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut read = String::new();
    loop {
        let start = read.len();
        if log.read_line(&mut read).map_err(|e| e.to_string())? == 0 {
            return Err(read);
        }
        let Some(address) = address(&read[start..]) else { continue };
        std::thread::spawn(move || {
            let mut rest = String::new();
            let _ = log.read_to_string(&mut rest);
            if rest.contains("panicked") {
                eprintln!("{rest}");
            }
        });
        return Ok(address);
    }
}

fn address(line: &str) -> Option<String> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    let fields = line.get("fields").unwrap_or(&line);
    (fields.get("message")? == "serving").then(|| fields.get("grpc")?.as_str().map(str::to_owned))?
}
