//! The `accelerd` binary: settings, signals, exit codes.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::SocketAddr,
    os::unix::net::UnixDatagram,
    process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio},
    time::Duration,
};

use accelerd_proto::v1::{
    self, embed_request::Input, embed_service_client::EmbedServiceClient, kernel_service_client::KernelServiceClient,
    launch_request::Kernel, similarity_service_client::SimilarityServiceClient, tensor_input::Source,
};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use serde_json::Value;
use tonic::{Code, Status, transport::Channel};

/// The binary with arguments, on free ports and the CPU.
fn accelerd(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_accelerd"));
    for (key, value) in [
        ("SERVER__LISTEN", "127.0.0.1:0"),
        ("SERVER__ADMIN_LISTEN", "127.0.0.1:0"),
        ("SERVER__HEALTH_LISTEN", "127.0.0.1:0"),
        ("HTTP__LISTEN", "127.0.0.1:0"),
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

/// A daemon in a separate process.
struct Running {
    child: Child,
    log: BufReader<ChildStderr>,
    grpc: SocketAddr,
    health: SocketAddr,
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        Self::spawn(accelerd(arguments))
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the binary starts");
        let mut log = BufReader::new(child.stderr.take().expect("its log"));
        let serving = read_until(&mut log, "serving");
        let address = |name: &str| serving[name].as_str().and_then(|text| text.parse().ok()).expect("an address");
        Self { child, grpc: address("grpc"), health: address("health"), log }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status().expect("kill runs");
        assert!(sent.success());
    }

    /// Waits for the log line with this message.
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
        // Fails if the daemon has exited.
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

/// The next message to a service manager that has this field.
fn message(socket: &UnixDatagram, field: &str) -> String {
    let mut bytes = [0; 1024];
    loop {
        let length = socket.recv(&mut bytes).expect("a message in time");
        let message = text(&bytes[..length]).to_owned();
        if message.lines().any(|line| line.split('=').next() == Some(field)) {
            return message;
        }
    }
}

#[test]
fn a_service_manager_is_told_of_readiness_reloads_the_watchdog_and_the_end() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let mut command = accelerd(&["serve", "--set", "drain.endpoint_delay=0s"]);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000");
    let mut daemon = Running::spawn(command);
    let ready = message(&socket, "READY");
    assert!(ready.contains(&format!("STATUS=serving gRPC on {}", daemon.grpc)), "{ready}");
    for _ in 0..3 {
        message(&socket, "WATCHDOG");
    }
    daemon.signal("-HUP");
    assert!(message(&socket, "RELOADING").contains("MONOTONIC_USEC="));
    message(&socket, "READY");
    daemon.signal("-TERM");
    message(&socket, "STOPPING");
    assert!(daemon.wait().success());
}

#[test]
fn a_daemon_ends_with_the_process_that_started_it() {
    let mut shell = Command::new("sh");
    let daemon = accelerd(&["serve", "--parent"]);
    shell.envs(daemon.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.args(["-c", r#""$0" "$@" $$ & wait"#]).arg(daemon.get_program()).args(daemon.get_args());
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut shell = Running::spawn(shell);
    shell.signal("-KILL");
    shell.line("drained");
    let mut rest = String::new();
    shell.log.read_to_string(&mut rest).expect("the daemon closes its log");
}

#[test]
fn all_invalid_settings_are_reported_before_the_start() {
    let output = run(&["serve", "--set", "server.max_streams=0", "--set", "drain.timeout=soon", "--set", "a.b=c"]);
    assert_eq!(output.status.code(), Some(2));
    for key in ["server.max_streams", "drain.timeout", "a.b"] {
        assert!(text(&output.stderr).contains(&format!("\n  {key} (")), "{key} in {}", text(&output.stderr));
    }
}

#[test]
fn shown_settings_can_be_loaded() {
    let shown = run(&["config", "show", "--set", "server.max_streams=77", "--set", "store.wal_limit=70001B"]);
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().expect("a temporary file");
    file.write_all(&shown.stdout).expect("written");
    let again = run(&["config", "show", "--config", file.path().to_str().expect("a path")]);
    let settings = |output: &Output| -> Vec<String> {
        text(&output.stdout).lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    };
    assert_eq!(settings(&shown), settings(&again));
    assert!(text(&shown.stdout).contains("max_streams = 77") && text(&shown.stdout).contains("\"70001B\""));
    assert_eq!(run(&["config", "check", "--config", file.path().to_str().expect("a path")]).status.code(), Some(0));
}

#[test]
fn a_check_reads_certificates_and_principals() {
    let check = |setting: &str| run(&["config", "check", "--set", setting]);
    let unreadable = check("auth.principals=/nowhere/principals.toml");
    assert_eq!(unreadable.status.code(), Some(2));
    assert!(text(&unreadable.stderr).contains("/nowhere/principals.toml"), "{}", text(&unreadable.stderr));
    let unprotected = check("server.listen=0.0.0.0:50051");
    assert!(text(&unprotected.stderr).contains("set auth.principals"), "{}", text(&unprotected.stderr));
    assert_eq!(check("server.listen=127.0.0.1:50051").status.code(), Some(0));
}

#[test]
fn a_check_warns_of_an_expired_certificate_and_refuses_the_key_of_another() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [key, other] = [(); 2].map(|()| KeyPair::generate().expect("ring has entropy"));
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a valid name");
    (params.not_before, params.not_after) = (date_time_ymd(2000, 1, 1), date_time_ymd(2001, 1, 1));
    let certificate = params.self_signed(&key).expect("valid parameters").pem();
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let certificate = write("tls.crt", certificate);
    let check = |key: &str| {
        let [certificate, key] = [format!("tls.certificate={certificate}"), format!("tls.private_key={key}")];
        run(&["config", "check", "--set", &certificate, "--set", &key])
    };
    let expired = check(&write("tls.key", key.serialize_pem()));
    assert_eq!(expired.status.code(), Some(0));
    let warning = text(&expired.stderr);
    assert!(warning.contains("the certificate has expired") && warning.contains("2001-01-01T00:00:00Z"), "{warning}");
    let foreign = check(&write("other.key", other.serialize_pem()));
    assert_eq!(foreign.status.code(), Some(2));
    assert!(text(&foreign.stderr).contains("does not belong to the certificate"), "{}", text(&foreign.stderr));
}

#[test]
fn shown_settings_explain_values_derived_from_auto() {
    let shown = run(&["config", "show", "--set", "admission.max_bytes=1GiB"]);
    let shown = text(&shown.stdout);
    let comments: Vec<_> = shown.lines().take_while(|line| line.starts_with('#')).collect();
    assert!(comments[0].starts_with("# Memory: "), "{shown}");
    let derived = "store.memory_limit, models.memory_limit, tensors.memory_limit, admission.max_message_memory, \
                   sandbox.processes, sandbox.memory, sandbox.case_memory.";
    assert!(comments[1].ends_with(derived), "{shown}");
    let settings: toml::Table = shown.parse().expect("TOML");
    let budget = |section: &str, key: &str| settings[section][key].as_str().expect("a size").to_owned();
    assert_eq!(budget("admission", "max_bytes"), "1GiB");
    let limits = [
        ("store", "memory_limit"),
        ("models", "memory_limit"),
        ("tensors", "memory_limit"),
        ("admission", "max_message_memory"),
    ];
    for (section, key) in limits {
        assert!(budget(section, key).parse::<accelerd::config::ByteSize>().expect("a size").as_u64() > 1 << 20);
    }
}

#[test]
fn unusable_snapshot_folders_fail_the_start_by_setting() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "").expect("written");
    for (url, code) in [("s4://bucket/a", 2), ("s3:///a", 2), (&*format!("file://{}", file.display()), 1)] {
        for setting in ["store.snapshot_url", "store.snapshot_folders"] {
            let output = run(&["--set", &format!("{setting}={url}")]);
            assert_eq!(output.status.code(), Some(code), "{url}: {}", text(&output.stderr));
            assert!(text(&output.stderr).contains(setting), "{}", text(&output.stderr));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_ends_a_stream_that_the_client_does_not_close() {
    let mut running = Running::start(&["--set", "drain.endpoint_delay=0s", "--set", "drain.timeout=100ms"]);
    let mut embed = running.embed().await;
    // A stream that the client does not close.
    let (batches, requests) = tokio::sync::mpsc::channel(1);
    let first = v1::EmbedStreamRequest { sequence: 1, embed: Some(one_text()) };
    batches.send(first).await.expect("taken");
    let requests = tokio_stream::wrappers::ReceiverStream::new(requests);
    let mut answers = embed.embed_stream(requests).await.expect("a stream").into_inner();
    answers.message().await.expect("an answer").expect("an answer");
    running.signal("-TERM");
    let drained = running.line("drained");
    let ended = answers.message().await.expect_err("it draws to a close");
    assert_eq!(ended.code(), tonic::Code::Unavailable, "{ended:?}");
    assert_eq!((drained["complete"].as_bool(), drained["level"].as_str()), (Some(true), Some("INFO")), "{drained}");
    assert_eq!(running.wait().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_does_not_wait_for_connections_without_calls_that_ignore_it() {
    let mut running = Running::start(&["--set", "drain.endpoint_delay=0s", "--set", "drain.timeout=20s"]);
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    // Peers that send nothing more, and do not answer the ping by which GOAWAY is acknowledged.
    let silent = [&b""[..], &preface[..10], preface].map(|sent| {
        let mut stream = std::net::TcpStream::connect(running.grpc).expect("it accepts connections");
        stream.write_all(sent).expect("sent");
        stream
    });
    running.embed().await.embed(one_text()).await.expect("it serves, so it has accepted the connections before");
    running.signal("-TERM");
    let drained = running.line("drained");
    assert_eq!((drained["complete"].as_bool(), drained["level"].as_str()), (Some(true), Some("INFO")), "{drained}");
    assert_eq!(running.wait().code(), Some(0));
    drop(silent);
}

#[tokio::test(flavor = "multi_thread")]
async fn kernels_run_in_a_process_of_the_same_binary_that_ends_with_the_daemon() {
    let mut running = Running::start(&["--set", "drain.endpoint_delay=0s"]);
    let address = format!("http://{}", running.grpc);
    let mut kernels = KernelServiceClient::connect(address).await.expect("it accepts connections");
    let source = "def double(x: int) -> int:\n    return 2 * x\n".to_owned();
    let data = 21_i64.to_le_bytes().to_vec().into();
    let value = v1::Tensor { dtype: v1::Dtype::I64.into(), shape: vec![1], data };
    let request = v1::LaunchRequest {
        kernel: Some(Kernel::Program(v1::KernelProgram { source, ..v1::KernelProgram::default() })),
        arguments: vec![v1::TensorInput { name: "x".to_owned(), source: Some(Source::Value(value)) }],
        ..v1::LaunchRequest::default()
    };
    let response = kernels.launch(request).await.expect("it runs").into_inner();
    assert_eq!(response.outputs[0].value.as_ref().expect("a tensor").data[..], 42_i64.to_le_bytes());
    let child = child_of(running.child.id());
    let command = fs::read(format!("/proc/{child}/cmdline")).expect("it runs");
    assert!(command.ends_with(b"\0sandbox\0"), "{}", String::from_utf8_lossy(&command));
    drop(kernels);
    running.signal("-TERM");
    assert_eq!(running.wait().code(), Some(0));
    // Whoever adopts it collects it.
    let has_ended = || status(child, "State:").is_none_or(|state| state.starts_with('Z'));
    while !has_ended() {
        std::thread::yield_now();
    }
}

/// A line of the status of a process.
fn status(process: u32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    Some(status.lines().find_map(|line| line.strip_prefix(name))?.trim().to_owned())
}

/// The only child of a process.
fn child_of(process: u32) -> u32 {
    let all = fs::read_dir("/proc").expect("Linux").flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let children: Vec<_> = all.filter(|id| status(*id, "PPid:") == Some(process.to_string())).collect();
    let [child] = children[..] else { panic!("one child, got {children:?}") };
    child
}

#[test]
fn a_port_in_use_is_named_by_its_setting() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let output = run(&["--set", &format!("server.admin_listen={address}")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("server.admin_listen"), "{}", text(&output.stderr));
}

#[test]
fn the_command_line_checks_health() {
    let running = Running::start(&[]);
    let address = running.health.to_string();
    assert_eq!(run(&["health", "--address", &address]).status.code(), Some(0));
    assert_eq!(run(&["health", "--address", &address, "--service", "nobody"]).status.code(), Some(1));
    let named = format!("localhost:{}", running.health.port());
    assert_eq!(run(&["health", "--address", &named]).status.code(), Some(0));
    for address in ["localhost", "localhost:port", "a@localhost:1", ""] {
        let output = run(&["health", "--address", address]);
        assert!(text(&output.stderr).contains("expected a host and a port"), "{address}: {}", text(&output.stderr));
    }
    drop(running);
    assert_eq!(run(&["health", "--address", &address]).status.code(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_under_load_loses_no_accepted_call() {
    let mut running = Running::start(&["--set", "drain.endpoint_delay=0s"]);
    let (answered, mut answers) = tokio::sync::mpsc::unbounded_channel();
    let mut callers = vec![];
    for _ in 0..8 {
        let mut embed = running.embed().await;
        let answered = answered.clone();
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
        // Refused or not connected, so not started: no accepted call was aborted. The client library cancels a call whose
        // connection closes before it is sent, and fails a call with a stream id above the last one in GOAWAY.
        let said = format!("{status:?}");
        let closed = status.code() == Code::Cancelled && said.contains("connection closed");
        let unsent = closed || said.contains("GoAway(b\"\", NO_ERROR, Remote)");
        assert!(status.code() == Code::Unavailable || unsent, "{status:?}");
    }
    let drained = running.line("drained");
    assert_eq!((drained["complete"].as_bool(), drained["aborted_connections"].as_u64()), (Some(true), Some(0)));
    assert_eq!(running.wait().code(), Some(0));
}

/// Number of log writer threads and of open log files.
fn writers_and_logs(process: u32) -> (usize, usize) {
    let entries = |folder: &str| fs::read_dir(format!("/proc/{process}/{folder}")).expect("it runs").flatten();
    let names = entries("task").filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    let files = entries("fd").filter_map(|file| fs::read_link(file.path()).ok());
    (
        names.filter(|name| name.trim_end() == "wal").count(),
        files.filter(|path| path.extension().is_some_and(|extension| extension == "log")).count(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn many_durable_collections_share_few_threads_and_descriptors() {
    const COLLECTIONS: u64 = 300;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().to_str().expect("a path");
    let arguments = [
        "--data-dir",
        data,
        "--set",
        "store.writer_threads=2",
        "--set",
        "store.open_logs=8",
        "--set",
        "drain.endpoint_delay=0s",
        // Nobody reads the log while an event for each of the collections would fill the pipe.
        "--set",
        "telemetry.log_level=info,accelerd::audit=off",
    ];
    let mut running = Running::start(&arguments);
    let client = || SimilarityServiceClient::connect(format!("http://{}", running.grpc));
    let similarity = client().await.expect("it accepts connections");
    let write = |number: u64| {
        let mut similarity = similarity.clone();
        async move {
            let name = format!("c{number}");
            let metric = v1::Metric::Dot.into();
            let create =
                v1::CreateCollectionRequest { name, dimensions: 1, metric, durable: true, ..Default::default() };
            let collection = create.name.clone();
            similarity.create_collection(create).await.expect("made");
            let data = (number as f32).to_le_bytes().to_vec().into();
            let vectors = v1::Tensor { dtype: v1::Dtype::F32.into(), shape: vec![1, 1], data };
            let points = Some(v1::upsert_request::Points::Vectors(vectors));
            let ids = Some(v1::PointIds { numbers: vec![number], ..v1::PointIds::default() });
            similarity
                .upsert(v1::UpsertRequest { collection, ids, points, ..Default::default() })
                .await
                .expect("written");
        }
    };
    futures::future::join_all((0..COLLECTIONS).map(write)).await;
    let (writers, logs) = writers_and_logs(running.child.id());
    assert!((1..=2).contains(&writers), "{writers} threads");
    assert!(logs <= 8, "{logs} logs are open");
    running.signal("-TERM");
    assert_eq!(running.wait().code(), Some(0));

    let running = Running::start(&arguments);
    let (writers, logs) = writers_and_logs(running.child.id());
    assert_eq!((writers, logs), (0, 0), "nothing was written yet");
    let mut similarity =
        SimilarityServiceClient::connect(format!("http://{}", running.grpc)).await.expect("it is back");
    for number in 0..COLLECTIONS {
        let ids = Some(v1::PointIds { numbers: vec![number], ..v1::PointIds::default() });
        let request =
            v1::GetPointsRequest { collection: format!("c{number}"), ids, include_vectors: true, ..Default::default() };
        let got = similarity.get_points(request).await.expect("it is there").into_inner();
        assert_eq!(got.vectors.expect("asked for").data, (number as f32).to_le_bytes().to_vec());
    }
}

#[test]
fn a_collector_that_never_answers_does_not_fail_the_drain() {
    // The kernel accepts its connections, and nobody reads them.
    let collector = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("telemetry.otlp_endpoint=http://{}", collector.local_addr().expect("an address"));
    let settings = [&*endpoint, "drain.endpoint_delay=0s", "drain.timeout=2s"];
    let mut running = Running::start(&settings.map(|setting| ["--set", setting]).concat());
    running.signal("-TERM");
    let warning = running.line("the last metrics were not exported");
    assert!(warning["error"].as_str().is_some_and(|error| error.contains("did not answer within")), "{warning}");
    assert_eq!(running.line("drained")["complete"], true);
    assert_eq!(running.wait().code(), Some(0));
}

#[tokio::test]
async fn a_drain_keeps_serving_during_the_endpoint_delay() {
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
fn sighup_reloads_the_log_level_and_keeps_it_on_errors() {
    let file = tempfile::Builder::new().suffix(".toml").tempfile().expect("a temporary file");
    let write = |text: &str| fs::write(file.path(), text).expect("written");
    let mut running = Running::start(&["--config", file.path().to_str().expect("a path")]);
    write("[telemetry]\nlog_level = \"debug\"\n");
    running.signal("-HUP");
    assert_eq!(running.line("settings reloaded")["log_level"], "debug");
    write("[telemetry]\nlog_level = \"a=b=c\"\nfoo = 2\n");
    running.signal("-HUP");
    let refused = running.line("settings not reloaded");
    assert!(refused["error"].as_str().is_some_and(|error| error.contains("telemetry.foo")), "{refused}");
}

#[test]
fn a_model_that_cannot_be_loaded_is_an_invalid_setting() {
    let output = run(&["serve", "--model", "/no/such/model"]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("--model") && said.contains("/no/such/model"), "{said}");
}

/// A free port, for a daemon whose log does not say its address yet.
fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port")
}

#[test]
fn a_starting_daemon_is_live_and_not_ready_and_shows_its_progress() {
    // An object store that never answers holds up the start.
    let store = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let (health, admin) = (free_address(), free_address());
    let settings = [
        format!("server.health_listen={health}"),
        format!("server.admin_listen={admin}"),
        "store.snapshot_url=s3://bucket/snapshots".to_owned(),
    ];
    let mut command = accelerd(&settings.iter().flat_map(|setting| ["--set", setting]).collect::<Vec<_>>());
    command.env("AWS_ENDPOINT", format!("http://{}", store.local_addr().expect("its address")));
    for (key, value) in [("AWS_ALLOW_HTTP", "true"), ("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")] {
        command.env(key, value);
    }
    let mut child = command.spawn().expect("the binary starts");
    let log = BufReader::new(child.stderr.take().expect("its log"));
    let mut starting = Running { child, log, grpc: health, health };
    while starting.line("starting")["phase"] != "models" {}
    let address = health.to_string();
    let check = |service: &str| run(&["health", "--address", &address, "--service", service]);
    assert_eq!(check("liveness").status.code(), Some(0));
    for service in ["", "readiness"] {
        let output = check(service);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("NOT_SERVING"), "{}", text(&output.stderr));
    }
    for (path, expected) in [
        ("/healthz", "200 OK"),
        ("/readyz", "503 Service Unavailable"),
        ("/metrics", "accelerd_start_in_progress{phase=\"models\"} 1"),
        ("/version", "503 Service Unavailable"),
    ] {
        let response = get(admin, path);
        assert!(response.contains(expected), "{path}: {response}");
    }
}

/// The response to a request of HTTP/1.1, as text.
fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).expect("it accepts connections");
    let request = format!("GET {path} HTTP/1.1\r\nhost: daemon\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut response = String::new();
    std::io::Read::read_to_string(&mut stream, &mut response).expect("it answers and closes");
    response
}

#[test]
fn a_request_of_http1_to_the_grpc_port_is_told_what_the_port_serves() {
    let running = Running::start(&[]);
    for address in [running.grpc, running.health] {
        let response = get(address, "/");
        assert!(response.starts_with("HTTP/1.1 505 ") && response.ends_with("gRPC over HTTP/2 only\n"), "{response}");
    }
    assert_eq!(run(&["health", "--address", &running.health.to_string()]).status.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_the_file_size_fails_the_write_and_not_the_daemon() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = format!("--data-dir={}", folder.path().display());
    // 4,096 blocks of 512 bytes or of 1 KiB, by the shell.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 4096; exec \"$0\" \"$@\""]);
    let daemon = accelerd(&[&data]);
    command.arg(daemon.get_program()).args(daemon.get_args());
    command.envs(daemon.get_envs().filter_map(|(key, value)| Some((key, value?))));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the shell starts");
    let mut log = BufReader::new(child.stderr.take().expect("its log"));
    let serving = read_until(&mut log, "serving");
    let address = |name: &str| serving[name].as_str().and_then(|text| text.parse().ok()).expect("an address");
    let running = Running { child, grpc: address("grpc"), health: address("health"), log };
    let url = format!("http://{}", running.grpc);
    let mut client = SimilarityServiceClient::connect(url).await.expect("it accepts connections");
    let create = v1::CreateCollectionRequest {
        name: "large".to_owned(),
        dimensions: 1024,
        metric: v1::Metric::Cosine.into(),
        durable: true,
        ..Default::default()
    };
    client.create_collection(create).await.expect("it is created");
    let rows = 2048_u32;
    let vectors = v1::Tensor {
        dtype: v1::Dtype::F32.into(),
        shape: vec![rows.into(), 1024],
        data: 1.0_f32.to_le_bytes().repeat(rows as usize * 1024).into(),
    };
    let upsert = v1::UpsertRequest {
        collection: "large".to_owned(),
        ids: Some(v1::PointIds { numbers: (0..rows.into()).collect(), ..Default::default() }),
        points: Some(v1::upsert_request::Points::Vectors(vectors)),
        ..Default::default()
    };
    let status = client.upsert(upsert).await.expect_err("8 MiB exceed the limit");
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    running.embed().await.embed(one_text()).await.expect("the daemon still serves");
}
