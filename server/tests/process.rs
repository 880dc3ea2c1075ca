//! The `accelerd` binary as an operator meets it: settings, signals, exit codes.

use std::{
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio},
};

use accelerd_proto::v1::{self, embed_request::Input, embed_service_client::EmbedServiceClient};
use serde_json::Value;
use tonic::{Code, Status, transport::Channel};

/// The binary with a command, on free ports and the CPU.
fn accelerd(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_accelerd"));
    for (key, value) in [
        ("SERVER__LISTEN", "127.0.0.1:0"),
        ("SERVER__ADMIN_LISTEN", "127.0.0.1:0"),
        ("SERVER__HEALTH_LISTEN", "127.0.0.1:0"),
        ("BACKEND__KIND", "cpu"),
        ("TELEMETRY__LOG_FORMAT", "json"),
    ] {
        command.env(format!("ACCELERD__{key}"), value);
    }
    command.args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(arguments: &[&str]) -> Output {
    accelerd(arguments).output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

/// A daemon in a process of its own.
struct Running {
    child: Child,
    log: BufReader<ChildStderr>,
    grpc: SocketAddr,
    health: SocketAddr,
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let mut child = accelerd(arguments).spawn().expect("the binary starts");
        let mut log = BufReader::new(child.stderr.take().expect("its log"));
        let serving = read_until(&mut log, "serving");
        let address = |name: &str| serving[name].as_str().and_then(|text| text.parse().ok()).expect("an address");
        Self { child, grpc: address("grpc"), health: address("health"), log }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().expect("kill runs");
        assert!(sent.success());
    }

    /// The log line with this message, once it comes.
    fn line(&mut self, message: &str) -> Value {
        read_until(&mut self.log, message)
    }

    fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("it ends")
    }

    async fn embed(&self) -> EmbedServiceClient<Channel> {
        EmbedServiceClient::connect(format!("http://{}", self.grpc)).await.expect("it accepts connections")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Nothing to do where it ended by itself.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn read_until(log: &mut impl BufRead, message: &str) -> Value {
    let lines = log.lines().map_while(Result::ok).filter_map(|line| serde_json::from_str::<Value>(&line).ok());
    lines.into_iter().find(|line| line["message"] == message).expect("the line comes")
}

fn one_text() -> v1::EmbedRequest {
    let values = vec!["def parse(text): ...".to_owned()];
    v1::EmbedRequest { input: Some(Input::Texts(v1::TextInput { values })), ..v1::EmbedRequest::default() }
}

#[test]
fn wrong_settings_are_all_reported_before_anything_starts() {
    let output = run(&["serve", "--set", "server.max_streams=0", "--set", "drain.timeout=soon", "--set", "a.b=c"]);
    assert_eq!(output.status.code(), Some(2));
    for key in ["server.max_streams", "drain.timeout", "a.b"] {
        assert!(text(&output.stderr).contains(&format!("\n  {key} (")), "{key} in {}", text(&output.stderr));
    }
}

#[test]
fn the_settings_shown_are_settings_that_can_be_read() {
    let shown = run(&["config", "show", "--set", "server.max_streams=77", "--set", "store.wal_limit=70001B"]);
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().expect("a temporary file");
    file.write_all(&shown.stdout).expect("written");
    let again = run(&["config", "show", "--config", file.path().to_str().expect("a path")]);
    assert_eq!(text(&shown.stdout), text(&again.stdout));
    assert!(text(&shown.stdout).contains("max_streams = 77") && text(&shown.stdout).contains("\"70001B\""));
    assert_eq!(run(&["config", "check", "--config", file.path().to_str().expect("a path")]).status.code(), Some(0));
}

#[test]
fn a_taken_port_is_named_by_its_setting() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let output = run(&["--set", &format!("server.admin_listen={address}")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("server.admin_listen"), "{}", text(&output.stderr));
}

#[test]
fn health_is_asked_by_the_command_line() {
    let running = Running::start(&[]);
    let address = running.health.to_string();
    assert_eq!(run(&["health", "--address", &address]).status.code(), Some(0));
    assert_eq!(run(&["health", "--address", &address, "--service", "nobody"]).status.code(), Some(1));
    drop(running);
    assert_eq!(run(&["health", "--address", &address]).status.code(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_under_load_loses_no_accepted_call() {
    let mut running = Running::start(&["--set", "drain.endpoint_delay=0s"]);
    let (answered, mut answers) = tokio::sync::mpsc::unbounded_channel();
    let mut callers = vec![];
    for _ in 0..8 {
        let (mut embed, answered) = (running.embed().await, answered.clone());
        callers.push(tokio::spawn(async move {
            loop {
                match embed.embed(one_text()).await {
                    Ok(_) => _ = answered.send(()),
                    Err(status) => return status,
                }
            }
        }));
    }
    for _ in 0..200 {
        answers.recv().await.expect("answers come");
    }
    running.signal("-TERM");
    for caller in callers {
        let status: Status = caller.await.expect("the caller ends");
        // Refused or unconnected, and so not begun: no half-finished call was cut. A call that finds its connection
        // closed before it was sent is cancelled by the caller's own side, and of one that crossed the daemon's last
        // GOAWAY the caller's side says that it stands behind the last call that was taken up.
        let said = format!("{status:?}");
        let closed = status.code() == Code::Cancelled && said.contains("connection closed");
        let unsent = closed || said.contains("GoAway(b\"\", NO_ERROR, Remote)");
        assert!(status.code() == Code::Unavailable || unsent, "{status:?}");
    }
    let drained = running.line("drained");
    assert_eq!((drained["complete"].as_bool(), drained["cut_connections"].as_u64()), (Some(true), Some(0)));
    assert_eq!(running.wait().code(), Some(0));
}

#[tokio::test]
async fn a_drain_goes_on_serving_until_balancers_have_noticed() {
    let mut running = Running::start(&["--set", "drain.endpoint_delay=1h"]);
    let mut embed = running.embed().await;
    running.signal("-TERM");
    running.line("draining");
    assert_eq!(run(&["health", "--address", &running.health.to_string()]).status.code(), Some(1));
    embed.embed(one_text()).await.expect("calls are still answered");
    running.signal("-INT");
    assert_eq!(running.wait().code(), Some(1), "a second signal ends it at once");
}

#[test]
fn sighup_takes_over_the_log_level_and_keeps_it_where_the_file_is_wrong() {
    let file = tempfile::Builder::new().suffix(".toml").tempfile().expect("a temporary file");
    let write = |text: &str| std::fs::write(file.path(), text).expect("written");
    let mut running = Running::start(&["--config", file.path().to_str().expect("a path")]);
    write("[telemetry]\nlog_level = \"debug\"\n");
    running.signal("-HUP");
    assert_eq!(running.line("settings reloaded")["log_level"], "debug");
    write("[telemetry]\nlog_level = \"a=b=c\"\nfoo = 2\n");
    running.signal("-HUP");
    let refused = running.line("settings not reloaded, the old ones stay");
    assert!(refused["error"].as_str().is_some_and(|error| error.contains("telemetry.foo")), "{refused}");
}

#[test]
fn a_model_that_cannot_be_loaded_is_a_wrong_setting() {
    let output = run(&["serve", "--model", "/no/such/model"]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("--model") && said.contains("/no/such/model"), "{said}");
}
