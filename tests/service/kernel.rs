//! Translations of kernels, from a caller's view: files, diagnostics, and malformed requests.

use accelerd::config::ByteSize;
use accelerd_client::{Client, TranslateOptions};
use accelerd_proto::v1::{self, kernel_constant::Value, kernel_service_client::KernelServiceClient};
use tonic::{Code, Response};

use super::{
    harness::{TestServer, assert_refused, connect},
    kernel_launch::{self, program},
};

const SAXPY: &str = "
import warp as wp

@wp.kernel
def saxpy(a: float, x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = a * x[i] + y[i]
";

fn request(source: &str) -> v1::TranslateRequest {
    v1::TranslateRequest { source: source.to_owned(), ..Default::default() }
}

#[tokio::test]
async fn a_kernel_is_described_and_translated() {
    let server = TestServer::start().await;
    let response = server.kernels().translate(request(SAXPY)).await.expect("it is valid").into_inner();
    let [kernel] = &response.kernels[..] else { panic!("one kernel, got {response:?}") };
    assert_eq!((kernel.name.as_str(), kernel.grid_dims, kernel.bit_exact), ("saxpy", 1, true));
    let params: Vec<_> = kernel
        .params
        .iter()
        .map(|param| (param.name.as_str(), param.dims, param.element_size_bytes, param.components[0].dtype()))
        .collect();
    let f32 = v1::Dtype::F32;
    assert_eq!(params, [("a", 0, 4, f32), ("x", 1, 4, f32), ("y", 1, 4, f32)]);
    let names: Vec<_> = kernel.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["saxpy.cu", "Makefile", "metadata.json", "saxpy.wasm"]);
    assert!(kernel.files[3].content.starts_with(b"\0asm"));
}

#[tokio::test]
async fn what_is_outside_the_language_has_a_diagnostic_and_does_not_fail_the_call() {
    let server = TestServer::start().await;
    let source = format!("{SAXPY}\n@wp.kernel\ndef other(x: wp.array(dtype=float)):\n    import os\n");
    let response = server.kernels().translate(request(&source)).await.expect("it is valid").into_inner();
    assert_eq!(response.kernels.len(), 1);
    let found = &response.diagnostics[0];
    assert_eq!((found.kernel.as_str(), found.code.as_str()), ("other", "unsupported_statement"));
    assert_eq!((found.line, found.column), (11, 4));
    let invalid = server.kernels().translate(request("def (")).await.expect("it is valid").into_inner();
    assert_eq!((invalid.kernels.len(), invalid.diagnostics[0].code.as_str()), (0, "syntax"));
}

#[tokio::test]
async fn the_client_chooses_kernels_targets_and_constants() {
    let server = TestServer::start().await;
    let client = Client::connect(format!("http://{}", server.daemon.grpc_addr())).await.expect("the daemon listens");
    let source = "def f(x: float) -> float:\n    return x * SCALE\ndef g(x: float) -> float:\n    return x\n";
    let options = TranslateOptions::default()
        .kernel("f")
        .constant("SCALE", 2.5)
        .target(v1::KernelTarget::Wasm)
        .dialect(v1::KernelDialect::Python);
    let translation = client.translate(source, &options).await.expect("it is valid");
    assert_eq!((translation.kernels.len(), translation.diagnostics.len()), (1, 0));
    let names: Vec<_> = translation.kernels[0].files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["f.wasm"]);
}

#[tokio::test]
async fn malformed_requests_are_refused_with_their_field() {
    let server = TestServer::start_with(|config| config.limits.max_kernel_source_bytes = ByteSize::kib(1)).await;
    let constant = |value| [("N".to_owned(), v1::KernelConstant { value })].into();
    let cases = [
        (v1::TranslateRequest::default(), "source"),
        (request(&" ".repeat(1025)), "source"),
        (v1::TranslateRequest { dialect: 9, ..request(SAXPY) }, "dialect"),
        (v1::TranslateRequest { targets: vec![1, 9], ..request(SAXPY) }, "targets[1]"),
        (v1::TranslateRequest { targets: vec![0], ..request(SAXPY) }, "targets[0]"),
        (v1::TranslateRequest { names: vec!["saxpy".into(), "no".into()], ..request(SAXPY) }, "names[1]"),
        (v1::TranslateRequest { constants: constant(None), ..request(SAXPY) }, "constants[\"N\"]"),
    ];
    for (request, field) in cases {
        assert_refused(server.kernels().translate(request).await, Code::InvalidArgument, field);
    }
    let known = v1::TranslateRequest { constants: constant(Some(Value::Integer(3))), ..request(SAXPY) };
    server.kernels().translate(known).await.expect("it is valid");
}

/// Requests of the lane that reads and translates sources.
fn read_count(server: &TestServer) -> u64 {
    let lanes = server.daemon.app().engine.stats().lanes;
    lanes.iter().find(|lane| lane.name == "translate").expect("the lane of sources").counts.requests
}

/// With the default limit, ten times as much is refused by its length, and nothing reads it.
#[tokio::test]
async fn a_source_of_ten_megabytes_is_refused_unread_in_every_call() {
    let server = TestServer::start().await;
    let large = format!("{SAXPY}# {}\n", "x".repeat(10_000_000));
    let compile = v1::CompileRequest { program: Some(program(&large)), ..Default::default() };
    let launch = |source: &str| kernel_launch::request(source, &[1], vec![]);
    let benchmark = |source: &str, reference: Option<&str>| v1::BenchmarkRequest {
        launch: Some(launch(source)),
        reference: reference.map(program),
        ..Default::default()
    };
    let mut kernels = server.kernels();
    for (refused, field) in [
        (kernels.translate(request(&large)).await.map(drop), "source"),
        (kernels.compile(compile).await.map(drop), "program.source"),
        (kernels.launch(launch(&large)).await.map(drop), "program.source"),
        (kernels.benchmark(benchmark(&large, None)).await.map(drop), "launch.program.source"),
    ] {
        let expected = format!("{field}: expected at most {} bytes, got {}", 1 << 20, large.len());
        assert_eq!(refused.as_ref().expect_err("it is too long").message(), expected);
        assert_refused(refused, Code::InvalidArgument, field);
    }
    assert_eq!(read_count(&server), 0, "no source was read");
    let refused = kernels.benchmark(benchmark(SAXPY, Some(&large))).await;
    assert_refused(refused, Code::InvalidArgument, "reference.source");
    assert_eq!(read_count(&server), 1, "that of the kernel");
    let mut other = KernelServiceClient::new(connect(server.daemon.grpc_addr()).await);
    let translated = other.translate(request(SAXPY)).await.map(Response::into_inner);
    assert_eq!(translated.expect("another caller is served").kernels.len(), 1);
}
