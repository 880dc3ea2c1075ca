//! The daemon as a child process that the test kills.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
};

use accelerd::{config, lifecycle};
use tonic::transport::{Channel, Endpoint};

/// The argument that makes this program run the daemon.
pub(crate) const AS_DAEMON: &str = "--as-daemon";

/// Serves with the settings of the environment and the file that it names.
pub(crate) fn run() -> ExitCode {
    let file = std::env::var_os("ACCELERD_CONFIG").map(PathBuf::from);
    let config = || config::load(file.as_deref(), config::environment(), &[]);
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

/// The command of a daemon on the CPU and on free ports.
pub(crate) fn command() -> Command {
    let settings = [
        ("ACCELERD__SERVER__LISTEN", "127.0.0.1:0"),
        ("ACCELERD__SERVER__ADMIN_LISTEN", "127.0.0.1:0"),
        ("ACCELERD__SERVER__HEALTH_LISTEN", "127.0.0.1:0"),
        ("ACCELERD__HTTP__LISTEN", "127.0.0.1:0"),
        ("ACCELERD__BACKEND__KIND", "cpu"),
        ("ACCELERD__BACKEND__CPU_THREADS", "1"),
    ];
    let (program, argument) = match std::env::var_os("ACCELERD_BIN") {
        Some(program) => (PathBuf::from(program), "serve"),
        None => (std::env::current_exe().expect("this program has a path"), AS_DAEMON),
    };
    let mut command = Command::new(program);
    command.arg(argument).envs(settings).stderr(Stdio::piped());
    command
}

/// A running daemon; dropping it kills it.
pub(crate) struct Daemon {
    child: Child,
    pub(crate) channel: Channel,
}

impl Daemon {
    /// Starts a daemon on a data folder and a snapshot folder, with a small log so that checkpoints are frequent.
    pub(crate) async fn start(data: &Path, snapshots: &Path) -> Self {
        let data_dir = data.display().to_string();
        let snapshot_url = format!("file://{}", snapshots.display());
        let settings = [
            ("ACCELERD__STORE__WAL_LIMIT", "64KiB"),
            ("ACCELERD__STORE__DATA_DIR", &data_dir),
            ("ACCELERD__STORE__SNAPSHOT_URL", &snapshot_url),
            ("ACCELERD__TELEMETRY__LOG_FORMAT", "json"),
        ];
        let mut child = command().envs(settings).spawn().expect("this program can be started again");
        let address = serving(&mut child).unwrap_or_else(|said| panic!("the daemon does not serve; it said:\n{said}"));
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address makes a URL");
        let channel = endpoint.connect().await.expect("the daemon said that it serves");
        Self { child, channel }
    }

    /// Sends SIGKILL.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end();
    }
}

/// Reads the log up to the line with the gRPC address, and keeps draining the pipe.
fn serving(child: &mut Child) -> Result<String, String> {
    let mut log = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut said = String::new();
    loop {
        let start = said.len();
        if log.read_line(&mut said).map_err(|e| e.to_string())? == 0 {
            return Err(said);
        }
        let Some(address) = address(&said[start..]) else { continue };
        std::thread::spawn(move || {
            let mut rest = String::new();
            let _ = log.read_to_string(&mut rest);
            if rest.contains("\"ERROR\"") || rest.contains("panicked") {
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
