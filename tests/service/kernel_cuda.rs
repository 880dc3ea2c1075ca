//! Kernels compiled for GPUs, on machines without one, and launches that ask for a GPU.

use std::path::PathBuf;

use accelerd::config::{Config, SandboxGpu};
use accelerd_client::{Client, KernelProgram, TranslateOptions};
use accelerd_dataset::{Category, Dialect, Plan, Ratios};
use accelerd_proto::v1::{self, KernelDevice, KernelDialect};
use tonic::{Code, Status};

use super::{
    flow_control::metric,
    harness::{TestServer, assert_refused, f32s, tensor},
    kernel_launch::{SAXPY, argument, assert_reason, launch, program, request},
};

/// The folder of the compiler that the tests of the built-in kernels use, unless the daemon's settings have one.
pub(crate) fn with_compiler(config: &mut Config) {
    if config.cuda.library_path.is_empty() {
        let folder =
            std::env::var_os("ACCELERD_NVRTC_PATH").expect("ACCELERD_NVRTC_PATH must name the folder of libnvrtc");
        config.cuda.library_path = vec![PathBuf::from(folder)];
    }
}

pub(crate) fn for_cuda(source: &str, arch: &str) -> v1::CompileRequest {
    let cuda = Some(v1::CudaCompileOptions { arch: arch.to_owned() });
    v1::CompileRequest { program: Some(program(source)), cuda }
}

pub(crate) async fn compile(server: &TestServer, request: v1::CompileRequest) -> Result<v1::CompileResponse, Status> {
    server.kernels().compile(request).await.map(tonic::Response::into_inner)
}

/// A launch of saxpy on a GPU.
pub(crate) fn saxpy_on_gpu() -> v1::LaunchRequest {
    let arguments = [("a", tensor(&[], &[2.0])), ("x", tensor(&[3], &[1.0, 2.0, 3.0])), ("y", tensor(&[3], &[1.0; 3]))];
    let arguments = arguments.map(|(name, tensor)| argument(name, tensor)).into();
    v1::LaunchRequest { device: KernelDevice::Cuda.into(), ..request(SAXPY, &[3], arguments) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_is_compiled_for_every_architecture_with_its_resources() {
    let server = TestServer::start_with(with_compiler).await;
    for arch in ["sm_75", "sm_80", "sm_90", "sm_120"] {
        let response = compile(&server, for_cuda(SAXPY, arch)).await.expect("it compiles");
        let cuda = response.cuda.expect("code");
        assert_eq!((cuda.arch.as_str(), response.kernel.expect("a kernel").name.as_str()), (arch, "saxpy"));
        assert!(cuda.ptx.contains(".visible .entry saxpy_kernel(") && cuda.ptx.contains(&format!(".target {arch}")));
        assert!(!cuda.ptx.contains("fma."), "products are not contracted");
        assert!(cuda.cubin.starts_with(b"\x7fELF"));
        let needs = cuda.resources.expect("machine code");
        assert!((8..=64).contains(&needs.registers), "{needs:?}");
        assert_eq!((needs.shared_memory_bytes, needs.spill_store_bytes, needs.spill_load_bytes), (0, 0, 0));
        assert!(needs.max_block_threads == 1024, "{needs:?}");
    }
    let unknown = compile(&server, for_cuda(SAXPY, "sm_50")).await;
    assert_refused(unknown, Code::InvalidArgument, "cuda.arch");
    assert_refused(compile(&server, for_cuda(SAXPY, "90")).await, Code::InvalidArgument, "cuda.arch");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_is_compiled_once_for_an_architecture() {
    let server = TestServer::start_with(|config| {
        with_compiler(config);
        config.sandbox.gpu = SandboxGpu::Off;
    })
    .await;
    let first = compile(&server, for_cuda(SAXPY, "")).await.expect("it compiles").cuda.expect("code");
    assert_eq!(first.arch, "sm_75");
    assert_eq!(metric(&server, "accelerd_sandbox_compilations"), 1);
    assert_eq!(compile(&server, for_cuda(SAXPY, "sm_75")).await.expect("it is kept").cuda, Some(first));
    assert_eq!(metric(&server, "accelerd_sandbox_compilations"), 1);
    compile(&server, for_cuda(SAXPY, "sm_90")).await.expect("it compiles");
    assert_eq!(metric(&server, "accelerd_sandbox_compilations"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_translation_to_ptx_has_a_report() {
    let server = TestServer::start_with(with_compiler).await;
    let client = Client::connect(format!("http://{}", server.daemon.grpc_addr())).await.expect("the daemon listens");
    let source = "def f(x: float) -> float:\n    return x + 1.0\ndef g(x: int) -> int:\n    return x // 2\n";
    let options = TranslateOptions::default().target(v1::KernelTarget::Ptx).cuda_arch("sm_80");
    let translation = client.translate(source, &options).await.expect("it is valid");
    let names: Vec<Vec<_>> =
        translation.kernels.iter().map(|kernel| kernel.files.iter().map(|file| file.name.as_str()).collect()).collect();
    assert_eq!(names, [["f.ptx", "resources.json"], ["g.ptx", "resources.json"]]);
    let report: serde_json::Value = serde_json::from_slice(&translation.kernels[1].files[1].content).expect("JSON");
    assert_eq!(
        (&report["kernel"], &report["entry"], &report["arch"]),
        (&"g".into(), &"g_kernel".into(), &"sm_80".into())
    );
    assert!(report["resources"]["registers"].as_u64().is_some_and(|registers| registers > 0), "{report}");
    let (kernel, cuda) = client.compile_cuda(KernelProgram::new(SAXPY), "sm_90").await.expect("it compiles");
    assert_eq!((kernel.name.as_str(), cuda.arch.as_str()), ("saxpy", "sm_90"));
}

/// A generated kernel of each category in each dialect that has it: dialect, name and module.
fn sample() -> Vec<(KernelDialect, String, String)> {
    let of = |(named, dialect): (KernelDialect, Dialect)| {
        let categories: Vec<_> = Category::ALL.into_iter().filter(|category| category.has(dialect)).collect();
        let plan = Plan::new(3, &categories, &[dialect], Ratios { validation: 0, test: 0 })
            .expect("the dialect has these categories");
        let sources: Vec<_> = (0..categories.len() as u64).filter_map(|index| plan.source(index)).collect();
        sources.into_iter().map(move |source| (named, source.name, source.text))
    };
    [(KernelDialect::Warp, Dialect::Warp), (KernelDialect::Python, Dialect::Python)].into_iter().flat_map(of).collect()
}

/// Kernels of every category for every architecture, by the compiler that needs no GPU.
#[tokio::test(flavor = "multi_thread")]
async fn a_sample_of_all_kinds_of_kernels_has_ptx_for_every_architecture() {
    let server = TestServer::start_with(with_compiler).await;
    let sample = sample();
    assert_eq!(sample.len(), 22, "twelve categories in one dialect, ten in the other");
    for arch in ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"] {
        for (dialect, name, source) in &sample {
            let request = v1::TranslateRequest {
                source: source.clone(),
                names: vec![name.clone()],
                dialect: (*dialect).into(),
                targets: vec![v1::KernelTarget::Ptx.into()],
                cuda_arch: arch.to_owned(),
                ..Default::default()
            };
            let translated = server
                .kernels()
                .translate(request)
                .await
                .unwrap_or_else(|status| panic!("{name} for {arch}: {status:?} of\n{source}"))
                .into_inner();
            assert_eq!(translated.diagnostics, [], "{name} for {arch}, of\n{source}");
            let [kernel] = &translated.kernels[..] else { panic!("{name} for {arch}: {translated:?}") };
            let [ptx, report] = &kernel.files[..] else { panic!("{name} for {arch}: {:?}", kernel.files) };
            assert_eq!((ptx.name.as_str(), report.name.as_str()), (format!("{name}.ptx").as_str(), "resources.json"));
            let text = std::str::from_utf8(&ptx.content).expect("PTX is text");
            let target = text.lines().find_map(|line| line.strip_prefix(".target ")).map(str::trim);
            assert_eq!(target, Some(arch), "{name}");
            assert!(text.contains(&format!(".visible .entry {name}_kernel(")), "{name} for {arch}");
            let report: serde_json::Value = serde_json::from_slice(&report.content).expect("JSON");
            assert_eq!(report["arch"], arch, "{name}");
            assert!(
                report["resources"]["registers"].as_u64().is_some_and(|count| count > 0),
                "{name} for {arch}: {report}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_for_which_the_compiler_takes_too_long_is_refused() {
    let server = TestServer::start_with(|config| {
        with_compiler(config);
        config.sandbox.load_timeout = std::time::Duration::from_millis(1);
    })
    .await;
    let refused = compile(&server, for_cuda(SAXPY, "sm_80")).await;
    assert_refused(refused, Code::InvalidArgument, "program.source: it cannot be compiled: the compiler takes longer");
    server.assert_serving().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_without_a_gpu_says_so() {
    let server = TestServer::start_with(|config| config.sandbox.gpu = SandboxGpu::Off).await;
    assert_reason(launch(&server, saxpy_on_gpu()).await, Code::FailedPrecondition, "NO_GPU");
    let on_cpu = |device: KernelDevice| v1::LaunchRequest { device: device.into(), ..saxpy_on_gpu() };
    for device in [KernelDevice::Unspecified, KernelDevice::Cpu] {
        let response = launch(&server, on_cpu(device)).await.expect("it runs");
        assert_eq!(response.device(), KernelDevice::Cpu);
        assert_eq!(f32s(response.outputs[0].value.as_ref().expect("a tensor")), [3.0, 5.0, 7.0]);
    }
    let unknown = launch(&server, v1::LaunchRequest { device: 9, ..saxpy_on_gpu() }).await;
    assert_refused(unknown, Code::InvalidArgument, "device");
}

#[tokio::test]
async fn a_daemon_that_runs_no_code_of_clients_compiles_none_for_gpus() {
    let server = TestServer::start_with(|config| config.sandbox.processes = 0).await;
    assert_reason(launch(&server, saxpy_on_gpu()).await, Code::FailedPrecondition, "SANDBOX_DISABLED");
    assert_reason(compile(&server, for_cuda(SAXPY, "")).await, Code::FailedPrecondition, "SANDBOX_DISABLED");
    let targets = vec![v1::KernelTarget::Ptx.into()];
    let request = v1::TranslateRequest { source: SAXPY.to_owned(), targets, ..Default::default() };
    assert_reason(server.kernels().translate(request).await, Code::FailedPrecondition, "SANDBOX_DISABLED");
}
