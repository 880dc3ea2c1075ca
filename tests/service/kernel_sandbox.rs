//! Kernels that do not end, processes that end, and callers that leave: each affects its own call.

use std::{fs, process::Command, time::Duration};

use accelerd::{auth::token::Token, config::Config};
use accelerd_proto::{
    methods::kernel_service,
    v1::{
        self, KernelFaultKind, kernel_service_client::KernelServiceClient, verify_header::Subject,
        verify_service_client::VerifyServiceClient,
    },
};
use tokio::task::JoinHandle;
use tonic::{Code, Request, Response, Status};

use super::{
    flow_control::{metric, until},
    harness::{TestServer, code_within, config, connect},
    kernel_launch::{argument, array, assert_reason, launch, request},
    verify_functions::{python, start},
};

const LAUNCH: &str = kernel_service::LAUNCH.path();

const ENDLESS: &str = "def f(x: int) -> int:\n    while x == x:\n        x = x + 0\n    return x\n";

const DOUBLE: &str = "def f(x: int) -> int:\n    return 2 * x\n";

fn of(source: &str) -> v1::LaunchRequest {
    request(source, &[], vec![argument("x", array(v1::Dtype::I64, &[2], &[1_i64, 2]))])
}

/// A launch that only its deadline or its caller ends.
fn endless() -> v1::LaunchRequest {
    v1::LaunchRequest { loop_budget: Some(u64::MAX), ..of(ENDLESS) }
}

/// The deadline of a short launch while endless launches run. It is far above the time of a few slices.
const POLITE: Duration = Duration::from_secs(10);

/// The deadline of calls that do not end.
const HOUR: Duration = Duration::from_secs(3600);

fn one_process(config: &mut Config) {
    config.sandbox.processes = 1;
}

/// A call that runs until it is aborted.
fn spawn(server: &TestServer, request: Request<v1::LaunchRequest>) -> JoinHandle<Result<v1::LaunchResponse, Status>> {
    let mut kernels = server.kernels();
    tokio::spawn(async move { kernels.launch(request).await.map(Response::into_inner) })
}

/// A launch without an end, from a connection of its own.
async fn spawn_endless(server: &TestServer) -> JoinHandle<Result<v1::LaunchResponse, Status>> {
    let mut kernels = KernelServiceClient::new(connect(server.daemon.grpc_addr()).await);
    let mut request = Request::new(endless());
    request.set_timeout(HOUR);
    tokio::spawn(async move { kernels.launch(request).await.map(Response::into_inner) })
}

/// Launches from other connections are answered within their deadlines.
async fn assert_polite_launches_run(server: &TestServer) {
    let launches = (0..4).map(|_| async {
        let mut kernels = KernelServiceClient::new(connect(server.daemon.grpc_addr()).await);
        for _ in 0..3 {
            let mut request = Request::new(of(DOUBLE));
            request.set_timeout(POLITE);
            let response = kernels.launch(request).await.expect("it has a turn").into_inner();
            let result = response.outputs[0].value.as_ref().expect("a tensor");
            assert_eq!(bytemuck::pod_collect_to_vec::<_, i64>(&result.data), [2, 4]);
        }
    });
    futures::future::join_all(launches).await;
}

async fn until_launched(server: &TestServer, count: u64) {
    until("launches start", || metric(server, "accelerd_sandbox_launches_total") == count).await;
}

async fn until_queued(server: &TestServer, count: u64) {
    until("calls are queued", || metric(server, "accelerd_sandbox_queued_calls") == count).await;
}

async fn assert_runs(server: &TestServer) {
    let response = launch(server, of(DOUBLE)).await.expect("it runs");
    let result = response.outputs[0].value.as_ref().expect("a tensor");
    assert_eq!(bytemuck::pod_collect_to_vec::<_, i64>(&result.data), [2, 4]);
}

#[tokio::test]
async fn a_loop_without_end_exhausts_its_budget() {
    let server = TestServer::start().await;
    let response = launch(&server, v1::LaunchRequest { loop_budget: Some(1000), ..of(ENDLESS) }).await;
    let fault = response.expect("it runs").fault.expect("a fault");
    assert_eq!((fault.kind(), fault.thread), (KernelFaultKind::LoopBudget, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_ends_a_kernel_and_other_calls_are_answered_meanwhile() {
    let server = TestServer::start_with(one_process).await;
    let message = endless();
    let running = code_within(&server, LAUNCH, "500m", &message);
    let meanwhile = async {
        until_launched(&server, 1).await;
        server.assert_serving().await;
    };
    let (code, ()) = tokio::join!(running, meanwhile);
    assert_eq!(code, Code::DeadlineExceeded);
    assert_runs(&server).await;
    assert_eq!(metric(&server, "accelerd_sandbox_restarts_total"), 0, "the process is still there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_leaves_frees_its_process() {
    let server = TestServer::start_with(one_process).await;
    let running = spawn(&server, Request::new(endless()));
    until_launched(&server, 1).await;
    let waiting = spawn(&server, Request::new(endless()));
    until_queued(&server, 1).await;
    waiting.abort();
    until_queued(&server, 0).await;
    running.abort();
    assert_runs(&server).await;
    assert_eq!(metric(&server, "accelerd_sandbox_launches_total"), 2, "the call that waited has not run");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_fails_its_call_and_is_replaced() {
    let name = "killed-by-a-test";
    let server = TestServer::start_with(|config| {
        one_process(config);
        config.sandbox.program.arguments = vec![name.into()];
    })
    .await;
    // A launch is counted before its process starts.
    assert_runs(&server).await;
    let running = spawn(&server, Request::new(endless()));
    until_launched(&server, 2).await;
    let killed = Command::new("kill").args(["-KILL", &process_of(name)]).status().expect("the command runs");
    assert!(killed.success());
    assert_reason(running.await.expect("no panic"), Code::Internal, "SANDBOX_CRASHED");
    assert_runs(&server).await;
    assert_eq!(metric(&server, "accelerd_sandbox_restarts_total"), 1);
    assert_eq!(metric(&server, "accelerd_sandbox_crashes_total"), 1);
}

/// The id of the process with an argument.
fn process_of(argument: &str) -> String {
    let processes = fs::read_dir("/proc").expect("Linux").flatten();
    let has_argument = |id: &String| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).skip(1).any(|part| part == argument.as_bytes())
    };
    let ids = processes.map(|entry| entry.file_name().to_string_lossy().into_owned());
    ids.filter(|id| id.parse::<u32>().is_ok()).find(has_argument).expect("it runs")
}

#[tokio::test]
async fn a_daemon_without_processes_compiles_and_launches_nothing() {
    let server = TestServer::start_with(|config| config.sandbox.processes = 0).await;
    assert_reason(launch(&server, of(DOUBLE)).await, Code::FailedPrecondition, "SANDBOX_DISABLED");
    let program = Some(super::kernel_launch::program(DOUBLE));
    server.kernels().compile(v1::CompileRequest { program, ..Default::default() }).await.expect("it is translated");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_beyond_the_queue_are_refused_at_once() {
    let server = TestServer::start_with(|config| {
        one_process(config);
        config.sandbox.max_queue = 1;
    })
    .await;
    let running = spawn(&server, Request::new(endless()));
    until_launched(&server, 1).await;
    let waiting = spawn(&server, Request::new(of(DOUBLE)));
    until_queued(&server, 1).await;
    assert_reason(launch(&server, of(DOUBLE)).await, Code::ResourceExhausted, "QUEUE_FULL");
    running.abort();
    waiting.await.expect("no panic").expect("it has its turn");
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_launches_of_a_principal_do_not_keep_another_one_waiting() {
    let folder = tempfile::tempdir().expect("a folder");
    let tokens = [(); 2].map(|()| Token::random().expect("random bytes"));
    let principals = folder.path().join("principals.toml");
    let of_token = |(name, token): (&str, &Token)| {
        format!("[[principal]]\nname = {name:?}\ntokens = [\"{}\"]\nrole = \"read\"\n", token.hash())
    };
    let text: String = ["many", "one"].into_iter().zip(&tokens).map(of_token).collect();
    fs::write(&principals, text).expect("written");
    let mut config = config();
    one_process(&mut config);
    config.auth.principals = principals;
    let server = Box::pin(TestServer::start_with(|settings| *settings = config)).await;
    let call = |principal: usize, message: v1::LaunchRequest| {
        let mut request = Request::new(message);
        let value = format!("Bearer {}", tokens[principal].reveal()).parse().expect("ascii");
        request.metadata_mut().insert("authorization", value);
        spawn(&server, request)
    };
    // None of these ends by itself.
    let mut many = vec![call(0, endless())];
    until_launched(&server, 1).await;
    for queued in 1..=50 {
        many.push(call(0, endless()));
        until_queued(&server, queued).await;
    }
    let one = call(1, of(DOUBLE));
    one.await.expect("no panic").expect("it has the next turn");
    assert!(many.iter().all(|call| !call.is_finished()));
    many.remove(0).abort();
    until_launched(&server, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_launch_without_an_end_takes_turns_with_those_of_other_connections() {
    let server = TestServer::start_with(one_process).await;
    let endless = [spawn_endless(&server).await, spawn_endless(&server).await];
    until_launched(&server, 2).await;
    assert_polite_launches_run(&server).await;
    assert!(endless.iter().all(|call| !call.is_finished()), "it goes on");
    endless.iter().for_each(JoinHandle::abort);
    until_queued(&server, 0).await;
    assert_runs(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verification_of_cases_without_an_end_takes_turns_with_launches() {
    let server = TestServer::start_with(one_process).await;
    let spin = r#"(module (func (export "f") (param f64) (result f64) (loop (br 0)) (local.get 0)))"#;
    let module = wat::parse_str(spin).expect("valid text").into();
    let wasm = v1::WasmFunction { module, function: "f".to_owned(), ..Default::default() };
    let timeout = Some(prost_types::Duration { seconds: 10, nanos: 0 });
    let header = v1::VerifyHeader {
        subject: Some(Subject::Wasm(wasm)),
        reference: Some(v1::verify_header::Reference::ReferenceKernel(python(
            "def f(x: float) -> float:\n    return x\n",
        ))),
        generator: Some(v1::CaseGenerator { case_count: 1_000_000, ..Default::default() }),
        limits: Some(v1::CaseLimits { timeout, ..Default::default() }),
        ..Default::default()
    };
    let mut verify = VerifyServiceClient::new(connect(server.daemon.grpc_addr()).await);
    let mut request = Request::new(tokio_stream::iter(start(header)));
    request.set_timeout(HOUR);
    let endless = tokio::spawn(async move { verify.verify(request).await?.into_inner().message().await });
    until("cases run", || metric(&server, "accelerd_sandbox_calls_total") == 1).await;
    assert_polite_launches_run(&server).await;
    assert!(!endless.is_finished(), "it goes on");
    endless.abort();
    until_queued(&server, 0).await;
    assert_runs(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_none_can_pause_a_launch_without_an_end_is_refused_for_others() {
    let server = TestServer::start_with(|config| {
        one_process(config);
        config.sandbox.max_paused = 0;
        config.sandbox.guaranteed_time = Duration::from_secs(2);
    })
    .await;
    let endless = spawn_endless(&server).await;
    until_launched(&server, 1).await;
    assert_polite_launches_run(&server).await;
    assert_reason(endless.await.expect("no panic"), Code::ResourceExhausted, "SANDBOX_PREEMPTED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_while_no_call_uses_it_is_replaced_without_an_error() {
    let name = "killed-while-idle";
    let server = TestServer::start_with(|config| {
        one_process(config);
        config.sandbox.program.arguments = vec![name.into()];
    })
    .await;
    for _ in 0..5 {
        assert_runs(&server).await;
        let killed = Command::new("kill").args(["-KILL", &process_of(name)]).status().expect("the command runs");
        assert!(killed.success());
        assert_runs(&server).await;
    }
    assert_eq!(metric(&server, "accelerd_sandbox_restarts_total"), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_ends_cuts_off_launches_without_an_end_and_leaves_nothing_behind() {
    let server = TestServer::start_with(one_process).await;
    let endless = [spawn_endless(&server).await, spawn_endless(&server).await];
    until_launched(&server, 2).await;
    let drained = server.daemon.shutdown_within(Duration::from_secs(2)).await;
    assert!(!drained.complete && drained.hung.is_empty(), "{drained:?}");
    for call in endless {
        assert!(call.await.expect("no panic").is_err());
    }
}
