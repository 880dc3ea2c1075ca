//! Evaluations of untrusted CUDA C++. Without a GPU sources are compiled, and those that compile are refused for want of one. On a GPU
//! kernels that cheat get their verdicts.

use accelerd::config::{ByteSize, Config, SandboxGpu};
use accelerd_proto::v1::{
    self, CudaParamKind, Dtype, EvaluationVerdict as Verdict, evaluate_request::Expectation, tensor_input::Source,
};
use tonic::{Code, Request, Status};

use super::{
    harness::{TestServer, assert_refused, tensor},
    kernel_cuda::with_compiler,
    kernel_launch::{argument, array, assert_reason, program},
};

const COUNT: u32 = 4096;

/// The reference of the kernels below.
const REFERENCE: &str = "
import warp as wp

@wp.kernel
def scale(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
    i = wp.tid()
    y[i] = a * x[i] + 1.0
";

const HONEST: &str = "y[i] = a * x[i] + 1.0f;";

/// A kernel with this body, after these definitions.
fn kernel_with(definitions: &str, body: &str) -> String {
    format!(
        "{definitions}\nextern \"C\" __global__ void scale(const float* x, float* y, float a, int n) {{\n    \
         int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) {{ {body} }}\n}}\n"
    )
}

fn kernel(body: &str) -> String {
    kernel_with("", body)
}

fn param(name: &str, dtype: Dtype, kind: CudaParamKind) -> v1::CudaParam {
    v1::CudaParam { name: name.to_owned(), dtype: dtype.into(), kind: kind.into(), shape: vec![] }
}

fn numbers() -> Vec<f32> {
    (0..COUNT).map(|i| (i * 7919 % 4099) as f32 / 8.0 - 200.0).collect()
}

/// The evaluation of a kernel with the parameters of `kernel`.
fn request(source: &str) -> v1::EvaluateRequest {
    let y = v1::CudaParam { shape: vec![COUNT.into()], ..param("y", Dtype::F32, CudaParamKind::Output) };
    let params = vec![
        param("x", Dtype::F32, CudaParamKind::Input),
        y,
        param("a", Dtype::F32, CudaParamKind::Value),
        param("n", Dtype::I32, CudaParamKind::Value),
    ];
    let count = i32::try_from(COUNT).expect("small");
    v1::EvaluateRequest {
        subject: Some(v1::CudaSubject {
            source: source.to_owned(),
            entry: "scale".to_owned(),
            params,
            grid: vec![COUNT / 256],
            block: vec![256],
            dynamic_shared_memory_bytes: 0,
        }),
        arguments: vec![
            argument("x", tensor(&[COUNT.into()], &numbers())),
            argument("a", tensor(&[], &[2.5])),
            argument("n", array(Dtype::I32, &[], &[count])),
        ],
        expectation: Some(Expectation::Reference(v1::EvaluationReference {
            program: Some(program(REFERENCE)),
            grid: vec![COUNT.into()],
        })),
        run_count: Some(6),
        warm_up_count: Some(1),
        ..Default::default()
    }
}

fn enabled(config: &mut Config) {
    with_compiler(config);
    config.sandbox.cuda_source = true;
}

async fn evaluate(server: &TestServer, request: v1::EvaluateRequest) -> Result<v1::EvaluateResponse, Status> {
    let mut request = Request::new(request);
    request.set_timeout(std::time::Duration::from_secs(120));
    server.kernels().evaluate(request).await.map(tonic::Response::into_inner)
}

/// A daemon that evaluates CUDA C++ on a GPU.
async fn gpu_server() -> TestServer {
    let server = TestServer::start_with(enabled).await;
    assert!(server.has_gpu(), "there is no GPU");
    server
}

/// The response for a source, which must have this verdict.
async fn assert_verdict(
    server: &TestServer,
    name: &str,
    request: v1::EvaluateRequest,
    verdict: Verdict,
) -> v1::EvaluateResponse {
    let response = evaluate(server, request).await.unwrap_or_else(|status| panic!("{name}: {status:?}"));
    assert_eq!(response.verdict(), verdict, "{name}: {response:?}");
    response
}

#[tokio::test]
async fn evaluate_is_off_by_default() {
    let server = TestServer::start().await;
    assert_reason(evaluate(&server, request(&kernel(HONEST))).await, Code::FailedPrecondition, "CUDA_SOURCE_DISABLED");
    let server = TestServer::start_with(|config| {
        config.sandbox.cuda_source = true;
        config.sandbox.processes = 0;
    })
    .await;
    assert_reason(evaluate(&server, request(&kernel(HONEST))).await, Code::FailedPrecondition, "SANDBOX_DISABLED");
}

#[tokio::test(flavor = "multi_thread")]
async fn evaluate_needs_a_gpu_for_a_source_that_compiles() {
    let server = TestServer::start_with(|config| {
        enabled(config);
        config.sandbox.gpu = SandboxGpu::Off;
    })
    .await;
    for _ in 0..2 {
        assert_reason(evaluate(&server, request(&kernel(HONEST))).await, Code::FailedPrecondition, "NO_GPU");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn evaluate_reports_what_the_compiler_says() {
    let server = TestServer::start_with(enabled).await;
    let response = assert_verdict(&server, "unknown name", request(&kernel("y[i] = z;")), Verdict::CompileError).await;
    assert!(response.compiler_log.contains("kernel.cu(4)") && response.compiler_log.contains("\"z\""), "{response:?}");
    assert!(response.run_times.is_empty() && response.resources.is_none());
    let many = (0..10_000).map(|i| format!("y[i] = unknown{i};")).collect::<Vec<_>>().join("\n");
    let response = assert_verdict(&server, "many errors", request(&kernel(&many)), Verdict::CompileError).await;
    assert!((100..=(16 << 10) + 3).contains(&response.compiler_log.len()), "{}", response.compiler_log.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn evaluate_lets_a_source_read_no_file() {
    let server = TestServer::start_with(enabled).await;
    for file in ["\"/etc/passwd\"", "</etc/passwd>", "\"/proc/self/environ\"", "\"../../../../../../etc/hostname\""] {
        let source = kernel_with(&format!("#include {file}"), HONEST);
        let response = assert_verdict(&server, file, request(&source), Verdict::CompileError).await;
        assert!(response.compiler_log.contains("open source file"), "{file}: {}", response.compiler_log);
        assert!(!response.compiler_log.contains("root:"), "{}", response.compiler_log);
    }
    let hidden = "#define FILE \"/etc/pass\\\nwd\"\n#include FILE";
    let hidden = assert_verdict(&server, "macro", request(&kernel_with(hidden, HONEST)), Verdict::CompileError).await;
    assert!(!hidden.compiler_log.contains("root:"), "{}", hidden.compiler_log);
    let exists = "#if __has_include(\"/etc/passwd\")\n#error it is there\n#endif";
    let compiled = evaluate(&server, request(&kernel_with(exists, HONEST))).await;
    assert!(compiled.map_or(true, |response| response.verdict() == Verdict::Passed), "a source sees which files exist");
}

#[tokio::test(flavor = "multi_thread")]
async fn evaluate_ends_a_compilation_that_takes_too_much() {
    let server = TestServer::start_with(|config| {
        enabled(config);
        config.sandbox.load_timeout = std::time::Duration::from_secs(2);
    })
    .await;
    let bomb = "template<int N, unsigned M> struct bomb { static constexpr unsigned value = bomb<N - 1, 2 * M>::value + bomb<N - 1, 2 * M + 1>::value; };\n\
                template<unsigned M> struct bomb<0, M> { static constexpr unsigned value = M; };\n";
    let source = kernel_with(bomb, "y[i] = bomb<24, 1>::value;");
    let response = assert_verdict(&server, "template bomb", request(&source), Verdict::CompileError).await;
    // A fast machine reaches the limit of memory before that of time.
    let ends = ["the compiler", "out of memory"].iter().any(|reason| response.compiler_log.contains(reason));
    assert!(ends, "{response:?}");
    let after = assert_verdict(&server, "after", request(&kernel("y[i] = z;")), Verdict::CompileError).await;
    assert!(after.compiler_log.contains("\"z\""), "{after:?}");
    server.assert_serving().await;
}

/// Work that a kernel starts could go on after its launch, in the time of none. The compiler takes no code of the host, and the device runtime,
/// which starts kernels and makes streams, is neither declared nor linked.
#[tokio::test(flavor = "multi_thread")]
async fn evaluate_compiles_no_source_that_starts_work_of_its_own() {
    const WORK: &str = "__global__ void work(float* y, float a) { y[threadIdx.x] = a; }";
    let server = TestServer::start_with(enabled).await;
    let with_work = |more: &str| format!("{WORK}\n{more}");
    let runtime = "extern \"C\" __device__ void* cudaGetParameterBufferV2(void*, dim3, dim3, unsigned);\n\
                   extern \"C\" __device__ int cudaLaunchDeviceV2(void*, void*);";
    let streams = "extern \"C\" __device__ int cudaStreamCreateWithFlags(void**, unsigned);";
    for (name, definitions, body, reason) in [
        ("a kernel", WORK.to_owned(), "work<<<1, 256>>>(y, a);", "device-side kernel launch"),
        ("a stream", String::new(), "cudaStream_t own; cudaStreamCreateWithFlags(&own, 1);", "is undefined"),
        (
            "a kernel in a stream",
            WORK.to_owned(),
            "cudaStream_t own; cudaStreamCreateWithFlags(&own, 1); work<<<1, 256, 0, own>>>(y, a);",
            "is undefined",
        ),
        (
            "a kernel that is not awaited",
            WORK.to_owned(),
            "work<<<1, 256, 0, cudaStreamFireAndForget>>>(y, a);",
            "is undefined",
        ),
        (
            "a declared launch",
            with_work(runtime),
            "cudaLaunchDeviceV2(cudaGetParameterBufferV2((void*)work, dim3(1), dim3(256), 0), 0);",
            "Unresolved extern function",
        ),
        (
            "a declared stream",
            streams.to_owned(),
            "void* own; cudaStreamCreateWithFlags(&own, 1);",
            "Unresolved extern function",
        ),
        (
            "a function of the host",
            with_work("void start(float* y) { work<<<1, 256>>>(y, 1.0f); }"),
            "",
            "host function",
        ),
        (
            "a stream of the host",
            "__host__ int cudaStreamCreate(void**);\n__host__ int start(void** own) { return cudaStreamCreate(own); }"
                .to_owned(),
            "",
            "not allowed in JIT mode",
        ),
        (
            "a variable of the host",
            "int start();\nstatic int started = start();".to_owned(),
            "",
            "not allowed in JIT mode",
        ),
    ] {
        let source = kernel_with(&definitions, &format!("{body} {HONEST}"));
        let response = assert_verdict(&server, name, request(&source), Verdict::CompileError).await;
        assert!(response.compiler_log.contains(reason), "{name}: {}", response.compiler_log);
        assert!(response.run_times.is_empty() && response.resources.is_none(), "{name}: {response:?}");
    }
    // It is not the second kernel that is refused.
    match evaluate(&server, request(&kernel_with(WORK, HONEST))).await {
        Ok(response) => assert_eq!(response.verdict(), Verdict::Passed, "{response:?}"),
        without_gpu @ Err(_) => assert_reason(without_gpu, Code::FailedPrecondition, "NO_GPU"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn evaluate_refuses_requests_with_their_field() {
    let server = TestServer::start_with(|config| {
        enabled(config);
        config.sandbox.gpu_memory = ByteSize::mib(4);
    })
    .await;
    let with = |change: &dyn Fn(&mut v1::EvaluateRequest)| {
        let mut request = request(&kernel(HONEST));
        change(&mut request);
        request
    };
    let subject =
        |change: &dyn Fn(&mut v1::CudaSubject)| with(&|request| change(request.subject.as_mut().expect("it is set")));
    let output = |name: &str, tensor| v1::NamedTensor { name: name.to_owned(), value: Some(tensor) };
    let expected = |outputs| {
        with(&|request| {
            request.expectation = Some(Expectation::Expected(v1::ExpectedOutputs { outputs: Vec::clone(&outputs) }));
        })
    };
    let reference = |source: &str, extent: i64| {
        let program = Some(program(source));
        let grid = vec![extent];
        let reference = v1::EvaluationReference { program, grid };
        with(&|request| request.expectation = Some(Expectation::Reference(reference.clone())))
    };
    for (request, field) in [
        (with(&|request| request.subject = None), "subject.source"),
        (subject(&|subject| subject.source = "/".repeat(10 << 20)), "subject.source"),
        (subject(&|subject| subject.entry.clear()), "subject.entry"),
        (subject(&|subject| subject.entry = "a b".to_owned()), "subject.entry"),
        (subject(&|subject| subject.grid = vec![]), "subject.grid"),
        (subject(&|subject| subject.grid = vec![1, 70_000]), "subject.grid"),
        (subject(&|subject| subject.block = vec![0]), "subject.block"),
        (subject(&|subject| subject.block = vec![64, 64]), "subject.block"),
        (subject(&|subject| subject.params[1].kind = 0), "subject.params[1].kind"),
        (subject(&|subject| subject.params[1].dtype = 0), "subject.params[1].dtype"),
        (subject(&|subject| subject.params[1].shape = vec![-1]), "subject.params[1].shape"),
        (subject(&|subject| subject.params[1].name = "x".to_owned()), "subject.params[1].name"),
        (subject(&|subject| subject.params[0].dtype = Dtype::F64.into()), "arguments[0]"),
        (subject(&|subject| subject.params[1].kind = CudaParamKind::Input.into()), "arguments"),
        (with(&|request| request.arguments[0].source = None), "arguments[0].value"),
        (with(&|request| request.arguments[0].name = "z".to_owned()), "arguments"),
        (with(&|request| request.arguments[1].name = "x".to_owned()), "arguments[1].name"),
        (with(&|request| request.arguments.push(argument("y", tensor(&[], &[1.0])))), "arguments[3]"),
        (with(&|request| request.expectation = None), "reference"),
        (reference("def f(", 1), "reference.program.source"),
        (reference("def f(x: float) -> float:\n    return x\n", 1), "reference.program"),
        (
            with(&|request| request.expectation = Some(Expectation::Reference(v1::EvaluationReference::default()))),
            "reference.program",
        ),
        (expected(vec![]), "expected.outputs"),
        (expected(vec![output("x", tensor(&[], &[1.0]))]), "expected.outputs[0].name"),
        (expected(vec![output("y", tensor(&[1], &[1.0]))]), "expected.outputs[0].value"),
        (with(&|request| request.fixed_arguments = vec!["y".to_owned()]), "fixed_arguments[0]"),
        (with(&|request| request.run_count = Some(0)), "run_count"),
        (with(&|request| request.warm_up_count = Some(1001)), "warm_up_count"),
        (with(&|request| request.atol = Some(-1.0)), "atol"),
        (with(&|request| request.rtol = Some(f64::INFINITY)), "rtol"),
        (
            with(&|request| request.launch_timeout = Some(prost_types::Duration { seconds: 61, nanos: 0 })),
            "launch_timeout",
        ),
    ] {
        assert_refused(evaluate(&server, request).await, Code::InvalidArgument, field);
    }
    let large = subject(&|subject| subject.params[1].shape = vec![1 << 20]);
    assert_reason(evaluate(&server, large).await, Code::ResourceExhausted, "SANDBOX_OUT_OF_MEMORY");
    server.assert_serving().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a GPU"]
async fn evaluate_passes_honest_kernels_fast_or_slow() {
    let server = gpu_server().await;
    let fast = assert_verdict(&server, "fast", request(&kernel(HONEST)), Verdict::Passed).await;
    assert!(fast.bit_exact_repeat && fast.run_times.len() == 6 && fast.compiler_log.is_empty(), "{fast:?}");
    assert!(fast.resources.is_some_and(|needs| needs.registers > 0) && fast.arch.starts_with("sm_"), "{fast:?}");
    let slow = "float sum = 0.0f; for (int k = 0; k < 20000; k++) sum = sum * 0.5f + k; y[i] = a * x[i] + 1.0f; if (sum == -1.0f) y[i] = sum;";
    let slow = assert_verdict(&server, "slow", request(&kernel(slow)), Verdict::Passed).await;
    let median = |response: &v1::EvaluateResponse| response.median_time.expect("it is set").nanos;
    assert!(median(&slow) > median(&fast), "{slow:?} {fast:?}");
    // Parameters that are read and written, several dimensions, dynamic shared memory, and results as they are.
    let expected: Vec<f32> = numbers().iter().map(|x| x * 2.0).collect();
    let source = "extern \"C\" __global__ void twice(float* x) {\n    extern __shared__ float tile[];\n    \
                  int i = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x * blockDim.y + threadIdx.y * blockDim.x + threadIdx.x;\n    \
                  int t = threadIdx.y * blockDim.x + threadIdx.x;\n    tile[t] = x[i];\n    __syncthreads();\n    x[i] = 2.0f * tile[t];\n}\n";
    let value = v1::NamedTensor { name: "x".to_owned(), value: Some(tensor(&[COUNT.into()], &expected)) };
    let in_place = v1::EvaluateRequest {
        subject: Some(v1::CudaSubject {
            source: source.to_owned(),
            entry: "twice".to_owned(),
            params: vec![param("x", Dtype::F32, CudaParamKind::InputOutput)],
            grid: vec![4, COUNT / 1024],
            block: vec![16, 16],
            dynamic_shared_memory_bytes: 60_000,
        }),
        arguments: vec![argument("x", tensor(&[COUNT.into()], &numbers()))],
        expectation: Some(Expectation::Expected(v1::ExpectedOutputs { outputs: vec![value] })),
        ..Default::default()
    };
    assert_verdict(&server, "in place", in_place, Verdict::Passed).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a GPU"]
async fn evaluate_finds_kernels_that_do_not_compute_what_they_should() {
    let server = gpu_server().await;
    let counter = "__device__ int launches;\n__device__ float kept[4096];";
    for (name, source) in [
        ("returns the input", kernel("y[i] = x[i];")),
        ("writes nothing", kernel("")),
        ("writes zeros", kernel("y[i] = 0.0f;")),
        ("skips the last element", kernel("if (i != n - 1) y[i] = a * x[i] + 1.0f;")),
        ("is wrong by a little", kernel("y[i] = a * x[i] + 1.01f;")),
        // Variables of the module have their initial values in each run, so this kernel finds nothing that it kept.
        (
            "computes in the first run only",
            kernel_with(
                counter,
                "if (launches == 0) kept[i] = x[i]; else y[i] = a * kept[i] + 1.0f; __threadfence(); if (i == 0) launches = 1;",
            ),
        ),
    ] {
        let response = assert_verdict(&server, name, request(&source), Verdict::Mismatch).await;
        assert!(
            response.param == "y" && !response.mismatches.is_empty() && response.run.is_some(),
            "{name}: {response:?}"
        );
    }
    let changes = kernel("y[i] = a * x[i] + 1.0f; if (i == 7) const_cast<float*>(x)[i] = 0.125f;");
    let changed = assert_verdict(&server, "changes its input", request(&changes), Verdict::InputChanged).await;
    assert_eq!(changed.param, "x");
    let clock = kernel("y[i] = a * x[i] + 1.0f + (float)(clock64() & 1023);");
    let response = evaluate(&server, request(&clock)).await.expect("it is valid");
    assert!(matches!(response.verdict(), Verdict::Mismatch | Verdict::Nondeterministic), "{response:?}");
}

/// A kernel that computes the first two results, searches for them in all memory around its output, and copies the bytes that follow them.
///
/// It finds nothing: the reference runs after the last run of the subject, when the process that ran it has ended, and in another process.
/// Expected outputs that are sent stay in the daemon. The memory of a launch has inputs, bytes that stand for outputs, and random bytes.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a GPU"]
async fn evaluate_has_no_expected_result_in_reach_of_a_kernel() {
    /// A GPU maps 2 MiB at once, and the memory of a small launch is one such page.
    const SEARCH: &str = "
        __shared__ const float* found;
        if (threadIdx.x == 0) found = nullptr;
        __syncthreads();
        const float* page = (const float*)((unsigned long long)y & ~((2ull << 20) - 1));
        const float first = a * x[0] + 1.0f, second = a * x[1] + 1.0f;
        for (unsigned k = threadIdx.x; k < (2u << 20) / 4 - n; k += blockDim.x)
            if (page + k != y && page[k] == first && page[k + 1] == second) found = page + k;
        __syncthreads();
        y[i] = found ? found[i] : x[i];";
    let server = gpu_server().await;
    let search = kernel(SEARCH);
    let results: Vec<f32> = numbers().iter().map(|x| 2.5 * x + 1.0).collect();
    let sent = v1::NamedTensor { name: "y".to_owned(), value: Some(tensor(&[COUNT.into()], &results)) };
    let against_sent = v1::EvaluateRequest {
        expectation: Some(Expectation::Expected(v1::ExpectedOutputs { outputs: vec![sent] })),
        ..request(&search)
    };
    for (name, request) in [("of a reference", request(&search)), ("that was sent", against_sent)] {
        let response = assert_verdict(&server, name, request, Verdict::Mismatch).await;
        assert_eq!(response.param, "y", "{name}: {response:?}");
    }
    // It does find results that are there, in an input that the reference does not have.
    let mut helped = request(&search.replace("int n)", "int n, const float* answers)"));
    helped.subject.as_mut().expect("it is set").params.push(param("answers", Dtype::F32, CudaParamKind::Input));
    helped.arguments.push(argument("answers", tensor(&[COUNT.into()], &results)));
    assert_verdict(&server, "that it is given", helped, Verdict::Passed).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a GPU"]
async fn evaluate_keeps_nothing_from_one_run_to_the_next() {
    let server = gpu_server().await;
    let skips = kernel_with(
        "__device__ int launches;",
        "if (launches == 0) y[i] = a * x[i] + 1.0f; __threadfence(); if (i == 0) atomicAdd(&launches, 1);",
    );
    // Every launch is the first one of its module, so there is no later run in which it could skip its work.
    let request_of = |source: &str| v1::EvaluateRequest { ..request(source) };
    let response = evaluate(&server, request_of(&skips)).await.expect("it is valid");
    // Threads of one launch may see the counter of another block: then their elements are missing.
    assert!(matches!(response.verdict(), Verdict::Passed | Verdict::Mismatch), "{response:?}");
    let heap = kernel("void* block = malloc(64 << 20); y[i] = a * x[i] + 1.0f + (block ? 1.0f : 0.0f);");
    assert_verdict(&server, "the heap of the device is too small", request(&heap), Verdict::Passed).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a GPU"]
async fn evaluate_finds_writes_outside_of_arrays() {
    let server = gpu_server().await;
    for (name, body, param) in [
        ("a few elements after the end", "y[i] = a * x[i] + 1.0f; if (i < 4) y[n + i] = 1.0f;", "y"),
        ("an element before the start", "y[i] = a * x[i] + 1.0f; if (i == 0) y[-1] = 1.0f;", "y"),
        ("after the end of the input", "y[i] = a * x[i] + 1.0f; if (i == 0) const_cast<float*>(x)[n] = 1.0f;", "x"),
        ("far after the end", "y[i] = a * x[i] + 1.0f; if (i == 0) y[n + 100000] = 1.0f;", "y"),
    ] {
        let response = assert_verdict(&server, name, request(&kernel(body)), Verdict::OutOfBoundsWrite).await;
        assert_eq!((response.param.as_str(), response.run), (param, Some(0)), "{name}: {response:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a GPU"]
async fn evaluate_survives_kernels_that_fail() {
    let server = gpu_server().await;
    let timeout = |source: &str| v1::EvaluateRequest {
        launch_timeout: Some(prost_types::Duration { seconds: 0, nanos: 300_000_000 }),
        ..request(source)
    };
    let big = "volatile char stack[400 << 10]; for (int k = 0; k < (400 << 10); k += 64) stack[k] = k; y[i] = a * x[i] + stack[i & 63];";
    for (name, source, verdict) in [
        ("infinite loop", kernel("while (((volatile float*)y)[i] != 0.5f) {}"), Verdict::Timeout),
        ("illegal address", kernel("*(float*)(16) = 1.0f; y[i] = x[i];"), Verdict::Fault),
        ("trap", kernel("__trap();"), Verdict::Fault),
        ("assertion in assembly", kernel("asm(\"trap;\");"), Verdict::Fault),
        ("misaligned address", kernel("*(float*)((char*)y + 1) = 1.0f;"), Verdict::Fault),
        ("large stack", kernel(big), Verdict::NotLaunched),
        ("no such kernel", kernel(HONEST).replace("scale", "other"), Verdict::NotLaunched),
        ("other parameters", kernel(HONEST).replace(", int n", "").replace("i < n", "i < 4096"), Verdict::NotLaunched),
    ] {
        assert_verdict(&server, name, timeout(&source), verdict).await;
        assert_verdict(&server, &format!("after {name}"), request(&kernel(HONEST)), Verdict::Passed).await;
    }
    let shared = kernel(
        "__shared__ float tile[100000]; tile[threadIdx.x] = x[i]; __syncthreads(); y[i] = tile[threadIdx.x ^ 1];",
    );
    let response = evaluate(&server, request(&shared)).await.expect("it is valid");
    assert!(matches!(response.verdict(), Verdict::CompileError | Verdict::NotLaunched), "{response:?}");
    let dynamic = |bytes| {
        let mut request = request(&kernel(HONEST));
        request.subject.as_mut().expect("it is set").dynamic_shared_memory_bytes = bytes;
        request
    };
    assert_verdict(&server, "too much shared memory", dynamic(1 << 30), Verdict::NotLaunched).await;
    let bomb = kernel(
        "for (int k = 0; k < 10; k++) { char* block = (char*)malloc(1 << 20); if (block) block[0] = 1; } y[i] = a * x[i] + 1.0f;",
    );
    assert_verdict(&server, "memory bomb", request(&bomb), Verdict::Passed).await;
    let print = kernel("for (int k = 0; k < 100; k++) printf(\"%d\\n\", k); y[i] = a * x[i] + 1.0f;");
    assert_verdict(&server, "prints", request(&print), Verdict::Passed).await;
    server.assert_serving().await;
}

/// The elements of a resident array are passed by a handle.
#[tokio::test(flavor = "multi_thread")]
async fn evaluate_takes_an_unknown_handle_for_none() {
    let server = TestServer::start_with(enabled).await;
    let mut request = request(&kernel(HONEST));
    request.arguments[0].source = Some(Source::Handle("unknown".to_owned()));
    assert_eq!(evaluate(&server, request).await.expect_err("it is unknown").code(), Code::NotFound);
}
