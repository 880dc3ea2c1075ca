//! Launches on a GPU, compared with those on the CPU. Without a GPU the kernels are compiled for one and launched on the CPU alone; with
//! `ACCELERD_REQUIRE_CUDA=1` they fail.

use std::time::{Duration, Instant};

use accelerd::config::{ByteSize, Config};
use accelerd_proto::{
    methods::kernel_service,
    v1::{self, Dtype, KernelDevice, KernelFaultKind, launch_request::Kernel, tensor_input::Source},
};
use tonic::{Code, Request};

use super::{
    flow_control::{metric, until},
    harness::{TestServer, code_within, f32s, i32s, tensor},
    kernel_cuda::{compile, for_cuda, saxpy_on_gpu, with_compiler},
    kernel_launch::{SAXPY, argument, array, assert_reason, launch, output, request},
};

const LAUNCH: &str = kernel_service::LAUNCH.path();

/// A daemon that compiles for GPUs, and has one if one is required.
pub(crate) async fn server(change: impl FnOnce(&mut Config)) -> TestServer {
    let server = TestServer::start_with(|config| {
        with_compiler(config);
        change(config);
    })
    .await;
    let is_required = std::env::var("ACCELERD_REQUIRE_CUDA").is_ok_and(|value| value == "1");
    assert!(server.has_gpu() || !is_required, "there is no GPU");
    server
}

/// A daemon with a GPU.
pub(crate) async fn gpu_server(change: impl FnOnce(&mut Config)) -> TestServer {
    let server = server(change).await;
    assert!(server.has_gpu(), "there is no GPU");
    server
}

fn on(device: KernelDevice, request: &v1::LaunchRequest) -> v1::LaunchRequest {
    v1::LaunchRequest { device: device.into(), ..request.clone() }
}

/// The result of a launch on the CPU, and on a GPU if there is one. The kernel compiles for GPUs in any case.
async fn both(server: &TestServer, request: &v1::LaunchRequest) -> (v1::LaunchResponse, Option<v1::LaunchResponse>) {
    let cpu = launch(server, on(KernelDevice::Cpu, request)).await.expect("it runs on the CPU");
    if server.has_gpu() {
        let gpu = launch(server, on(KernelDevice::Cuda, request)).await.expect("it runs on the GPU");
        assert_eq!(gpu.device(), KernelDevice::Cuda);
        return (cpu, Some(gpu));
    }
    let Some(Kernel::Program(program)) = &request.kernel else { panic!("a program") };
    let code = compile(server, for_cuda(&program.source, "sm_80")).await.expect("it compiles").cuda.expect("code");
    assert_eq!(code.resources.expect("machine code").spill_store_bytes, 0);
    (cpu, None)
}

/// Compares outputs and fault, bit by bit. Returns those of the CPU.
pub(crate) async fn assert_same(server: &TestServer, name: &str, request: &v1::LaunchRequest) -> v1::LaunchResponse {
    let (cpu, gpu) = both(server, request).await;
    let Some(gpu) = gpu else { return cpu };
    assert_eq!(gpu.fault, cpu.fault, "{name}");
    assert_eq!(gpu.outputs.len(), cpu.outputs.len(), "{name}");
    for (gpu, cpu) in gpu.outputs.iter().zip(&cpu.outputs) {
        let [got, expected] = [gpu, cpu].map(|one| one.value.as_ref().expect("a tensor"));
        let of = &cpu.name;
        assert_eq!((got.dtype, &got.shape), (expected.dtype, &expected.shape), "{name}, {of}");
        let first = got.data.iter().zip(&expected.data).position(|(got, expected)| got != expected);
        assert_eq!(first, None, "{name}, {of}: the first byte that differs");
    }
    cpu
}

fn warp(body: &str) -> String {
    format!("import warp as wp\n\n{body}")
}

/// Numbers between -4 and 4 that are no round ones.
fn floats(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919) % 65_537) as f32 / 8192.3 - 4.0).collect()
}

fn ints(count: usize) -> Vec<i32> {
    (0..count).map(|i| i32::try_from((i * 2_654_435_761) % 2_000_003).expect("small") - 1_000_001).collect()
}

fn f32_array(name: &str, shape: &[i64]) -> v1::TensorInput {
    let count = usize::try_from(shape.iter().product::<i64>()).expect("a shape");
    argument(name, tensor(shape, &floats(count)))
}

fn i32_array(name: &str, count: usize) -> v1::TensorInput {
    argument(name, array(Dtype::I32, &[i64::try_from(count).expect("small")], &ints(count)))
}

fn with_outputs(outputs: Vec<v1::KernelOutput>, request: v1::LaunchRequest) -> v1::LaunchRequest {
    v1::LaunchRequest { outputs, ..request }
}

/// Kernels whose bits are the same everywhere.
fn exact_kernels() -> Vec<(&'static str, v1::LaunchRequest)> {
    let count = 70_001_usize;
    let extent = i64::try_from(count).expect("small");
    let out = |name: &str| vec![output(name, &[extent])];
    let saxpy = vec![argument("a", tensor(&[], &[2.5])), f32_array("x", &[extent]), f32_array("y", &[extent])];
    let f64s: Vec<f64> = floats(count).into_iter().map(|x| f64::from(x) * 1.000_000_1).collect();
    let i64s: Vec<i64> = ints(count).into_iter().map(i64::from).collect();
    let nonzero: Vec<i64> = i64s.iter().map(|x| if *x == 0 { 7 } else { *x % 1000 + 1001 }).collect();
    let column = |name: &str, values: &[f64]| argument(name, array(Dtype::F64, &[extent], values));
    let integers = |name: &str, values: &[i64]| argument(name, array(Dtype::I64, &[extent], values));
    let particles: Vec<u8> =
        (0..70_001_u32).flat_map(|i| [(i as f32 / 3.0).to_le_bytes(), i.to_le_bytes()].concat()).collect();
    vec![
        ("saxpy", request(SAXPY, &[extent], saxpy)),
        (
            "branches",
            with_outputs(out("y"), request(&warp("
@wp.kernel
def branches(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    v = x[i]
    if v > 2.0:
        y[i] = v * 3.0 - 1.0
    elif v > 0.0 and i % 3 != 0:
        y[i] = v / 7.0 if v > 1.0 else -v
    else:
        y[i] = wp.abs(v) - wp.floor(v)
"), &[extent], vec![f32_array("x", &[extent])])),
        ),
        (
            "loops",
            with_outputs(out("steps"), request(&warp("
@wp.kernel
def collatz(n: wp.array(dtype=int), steps: wp.array(dtype=int)):
    i = wp.tid()
    v = wp.abs(n[i]) % 100000 + 1
    count = int(0)
    while v != 1:
        if v % 2 == 0:
            v = v // 2
        else:
            v = 3 * v + 1
        count = count + 1
        if count > 300:
            break
    for k in range(i % 17):
        if k == 3:
            continue
        count = count + k
    steps[i] = count
"), &[extent], vec![i32_array("n", count)])),
        ),
        (
            "integer atomics",
            with_outputs(vec![output("counts", &[16]), output("lowest", &[1]), output("highest", &[1])], request(&warp("
@wp.kernel
def histogram(v: wp.array(dtype=int), counts: wp.array(dtype=int), lowest: wp.array(dtype=int), highest: wp.array(dtype=int)):
    i = wp.tid()
    wp.atomic_add(counts, wp.abs(v[i]) % 16, 1)
    wp.atomic_min(lowest, 0, v[i])
    wp.atomic_max(highest, 0, v[i])
"), &[extent], vec![i32_array("v", count)])),
        ),
        (
            "vectors and matrices",
            with_outputs(vec![output("out", &[extent]), output("lengths", &[extent])], request(&warp("
@wp.func
def turned(m: wp.mat33, v: wp.vec3):
    return m * v + wp.cross(v, wp.vec3(1.0, 2.0, 3.0))

@wp.kernel
def vectors(m: wp.mat33, v: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3), lengths: wp.array(dtype=float)):
    i = wp.tid()
    p = turned(m, v[i])
    out[i] = p
    lengths[i] = wp.length(p) + wp.dot(p, v[i]) + wp.determinant(wp.outer(p, v[i]))
"), &[extent], vec![argument("m", tensor(&[3, 3], &floats(9))), f32_array("v", &[extent, 3])])),
        ),
        (
            "structs",
            request(&warp("
@wp.struct
class Particle:
    mass: float
    hits: int

@wp.kernel
def hit(particles: wp.array(dtype=Particle)):
    i = wp.tid()
    p = particles[i]
    p.hits = p.hits * 3 + int(p.mass)
    p.mass = p.mass * 0.5
    particles[i] = p
"), &[extent], vec![argument("particles", array(Dtype::U8, &[extent, 8], &particles))]),
        ),
        (
            "two dimensions",
            with_outputs(vec![output("out", &[129, 257])], request(&warp("
@wp.kernel
def transpose(a: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    row = a[j]
    out[i, j] = row[i] + float(i * 1000 + j)
"), &[129, 257], vec![f32_array("a", &[257, 129])])),
        ),
        (
            "four dimensions",
            with_outputs(vec![output("out", &[5, 7, 11, 13])], request(&warp("
@wp.kernel
def places(out: wp.array4d(dtype=wp.int64)):
    i, j, k, l = wp.tid()
    out[i, j, k, l] = wp.int64(((i * 7 + j) * 11 + k) * 13 + l) * wp.int64(1000000007)
"), &[5, 7, 11, 13], vec![])),
        ),
        (
            "integers",
            with_outputs(vec![output("out", &[extent])], request(&warp("
@wp.kernel
def integers(v: wp.array(dtype=int), out: wp.array(dtype=wp.uint64)):
    i = wp.tid()
    a = v[i]
    b = (a << 3) ^ (a >> 5)
    c = a // (i % 7) + a % (i % 5)
    u = wp.uint64(b) * wp.uint64(11400714819323198485)
    out[i] = (u >> wp.uint64(i % 64)) + wp.uint64(c) + wp.uint64(wp.int8(a)) + wp.uint64(wp.uint16(b))
"), &[extent], vec![i32_array("v", count)])),
        ),
        (
            "small floats",
            with_outputs(vec![output("out", &[extent]), output("wide", &[extent])], request(&warp("
@wp.kernel
def small(x: wp.array(dtype=float), out: wp.array(dtype=wp.float16), wide: wp.array(dtype=wp.float64)):
    i = wp.tid()
    h = wp.float16(x[i])
    out[i] = h * h + h
    wide[i] = wp.float64(x[i]) / wp.float64(3.0) + wp.sqrt(wp.float64(wp.abs(x[i])))
"), &[extent], vec![f32_array("x", &[extent])])),
        ),
        (
            "random numbers",
            with_outputs(out("out"), request(&warp("
@wp.kernel
def noise(seed: int, out: wp.array(dtype=float)):
    i = wp.tid()
    state = wp.rand_init(seed, i)
    out[i] = wp.randf(state) + wp.randf(state, -2.0, 2.0)
"), &[extent], vec![argument("seed", array(Dtype::I32, &[], &[42]))])),
        ),
        (
            "reads of neighbours",
            with_outputs(out("out"), request(&warp("
@wp.kernel
def stencil(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    left = x[wp.max(i - 1, 0)]
    right = x[wp.min(i + 1, x.shape[0] - 1)]
    out[i] = 0.25 * left + 0.5 * x[i] + 0.25 * right
"), &[extent], vec![f32_array("x", &[extent])])),
        ),
        (
            "python floats",
            request("
def f(x: float, y: float) -> tuple[float, bool]:
    total = 0.0
    for k in range(5):
        total += x * k - y
    return total // 1.5 + x % 2.25, total > y
", &[], vec![column("x", &f64s), column("y", &f64s.iter().rev().copied().collect::<Vec<_>>())]),
        ),
        (
            "python integers",
            request("
def f(x: int, y: int) -> int:
    q = x // y
    r = x % y
    while r > 100:
        r = r // 3
    return q * 31 + r - round(x / y)
", &[], vec![integers("x", &i64s), integers("y", &nonzero)]),
        ),
        (
            "python lists",
            request("
def f(weights: list[float], x: float) -> float:
    total = 0.0
    for k in range(len(weights)):
        total = total * x + weights[k]
    return total
", &[], vec![
                argument("weights", array(Dtype::F64, &[1000, 7], &f64s[..7000])),
                argument("x", array(Dtype::F64, &[1000], &f64s[..1000])),
            ]),
        ),
        (
            "elementary functions",
            with_outputs(vec![output("y", &[20_000, 8]), output("z", &[20_000, 8])], request(&warp("
@wp.kernel
def functions(x: wp.array(dtype=float), y: wp.array2d(dtype=float), z: wp.array2d(dtype=float)):
    i = wp.tid()
    # Of every size from 1e-25 to 1e34.
    v = x[i] * wp.pow(10.0, float(i % 60) - 25.0)
    u = x[i] / 4.0
    y[i, 0] = wp.sin(v)
    y[i, 1] = wp.cos(v)
    y[i, 2] = wp.tan(v)
    y[i, 3] = wp.exp(v)
    y[i, 4] = wp.log(wp.abs(v))
    y[i, 5] = wp.log2(wp.abs(v))
    y[i, 6] = wp.log10(wp.abs(v))
    y[i, 7] = wp.erf(v)
    z[i, 0] = wp.asin(u)
    z[i, 1] = wp.acos(u)
    z[i, 2] = wp.atan(v)
    z[i, 3] = wp.atan2(v, x[i])
    z[i, 4] = wp.sinh(v)
    z[i, 5] = wp.cosh(v)
    z[i, 6] = wp.tanh(v)
    z[i, 7] = wp.pow(wp.abs(v), u)
"), &[20_000], vec![f32_array("x", &[20_000])])),
        ),
        ("one thread", saxpy_on_gpu()),
        ("no thread", v1::LaunchRequest { grid: vec![0], ..saxpy_on_gpu() }),
        (
            "many chunks",
            with_outputs(vec![output("count", &[4])], request(&warp("
@wp.kernel
def count_all(count: wp.array(dtype=wp.int64)):
    i, j = wp.tid()
    wp.atomic_add(count, j % 4, wp.int64(i))
"), &[3000, 2001], vec![])),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn kernels_have_the_bits_of_the_cpu() {
    let server = server(|_| {}).await;
    for (name, request) in exact_kernels() {
        let response = assert_same(&server, name, &request).await;
        assert_eq!(response.fault, None, "{name}");
        assert!(!response.outputs.is_empty(), "{name}");
    }
    server.assert_serving().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kernels_with_elementary_functions_and_sums_are_close() {
    let server = server(|_| {}).await;
    let functions = warp(
        "
@wp.kernel
def functions(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    v = wp.float64(x[i])
    y[i] = float(wp.sin(v) * wp.exp(v) + wp.log(wp.abs(v) + wp.float64(1.0)) + wp.atan2(v, wp.float64(2.0)))
",
    );
    let sums = warp(
        "
@wp.kernel
def sums(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(y, i % 8, wp.abs(x[i]))
",
    );
    let x = || vec![f32_array("x", &[50_000])];
    for request in [
        with_outputs(vec![output("y", &[50_000])], request(&functions, &[50_000], x())),
        with_outputs(vec![output("y", &[8])], request(&sums, &[50_000], x())),
    ] {
        let (cpu, gpu) = both(&server, &request).await;
        let Some(gpu) = gpu else { continue };
        let [gpu, cpu] = [gpu, cpu].map(|response| f32s(response.outputs[0].value.as_ref().expect("a tensor")));
        for (nth, (got, expected)) in gpu.iter().zip(&cpu).enumerate() {
            assert!((got - expected).abs() <= 2e-4 * expected.abs().max(1.0), "{nth}: {got} and {expected}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_are_those_of_the_cpu() {
    let server = server(|_| {}).await;
    let count = 1_000_000_usize;
    let extent = i64::try_from(count).expect("small");
    let mut divisors = vec![1_i64; count];
    for zero in [999_999, 700_001, 400_003] {
        divisors[zero] = 0;
    }
    let column = |values: &[i64]| argument("y", array(Dtype::I64, &[extent], values));
    let python = |body: &str| format!("def f(y: int) -> int:\n{body}");
    let out_of_bounds = warp(
        "
@wp.kernel
def shifted(x: wp.array(dtype=float), y: wp.array2d(dtype=float)):
    i = wp.tid()
    y[i % 3, i] = x[i]
    y[i // 400000, i] = x[i + 1]
",
    );
    let unassigned = warp(
        "
@wp.kernel
def unassigned(x: wp.array(dtype=float)):
    i = wp.tid()
    if i < 123457:
        v = x[i]
    x[i] = v
",
    );
    let shape = [extent];
    let cases = [
        (
            "division",
            request(&python("    return 7 // y\n"), &[], vec![column(&divisors)]),
            KernelFaultKind::DivisionByZero,
            400_003,
        ),
        (
            "assertion",
            request(&python("    assert y != 0\n    return y\n"), &[], vec![column(&divisors)]),
            KernelFaultKind::Assertion,
            400_003,
        ),
        (
            "value",
            request(&python("    if y == 0:\n        raise ValueError\n    return y\n"), &[], vec![column(&divisors)]),
            KernelFaultKind::InvalidValue,
            400_003,
        ),
        (
            "bounds",
            request(&out_of_bounds, &shape, vec![f32_array("x", &shape), f32_array("y", &[2, extent])]),
            KernelFaultKind::OutOfBounds,
            2,
        ),
        (
            "unassigned",
            request(&unassigned, &shape, vec![f32_array("x", &shape)]),
            KernelFaultKind::InvalidValue,
            123_457,
        ),
        (
            "budget",
            v1::LaunchRequest {
                loop_budget: Some(10_000),
                ..request(&python("    while y == 0:\n        y = y * 2\n    return y\n"), &[], vec![column(&divisors)])
            },
            KernelFaultKind::LoopBudget,
            400_003,
        ),
    ];
    for (name, request, kind, thread) in cases {
        let fault = assert_same(&server, name, &request).await.fault.unwrap_or_else(|| panic!("{name} has a fault"));
        assert_eq!((fault.kind(), fault.thread), (kind, thread), "{name}");
    }
    server.assert_serving().await;
    assert_eq!(metric(&server, "accelerd_sandbox_crashes_total"), 0);
}

fn endless() -> v1::LaunchRequest {
    let source = "def f(x: int) -> int:\n    while x == x:\n        x = x + 0\n    return x\n";
    let x = argument("x", array(Dtype::I64, &[1000], &[1_i64; 1000]));
    on(KernelDevice::Cuda, &v1::LaunchRequest { loop_budget: Some(u64::MAX), ..request(source, &[], vec![x]) })
}

async fn assert_runs(server: &TestServer) {
    let response = launch(server, saxpy_on_gpu()).await.expect("it runs");
    assert_eq!(f32s(response.outputs[0].value.as_ref().expect("a tensor")), [3.0, 5.0, 7.0]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a GPU"]
async fn a_deadline_ends_a_kernel_and_its_process_stays() {
    let server = gpu_server(|_| {}).await;
    assert_runs(&server).await;
    let begin = Instant::now();
    assert_eq!(code_within(&server, LAUNCH, "700m", &endless()).await, Code::DeadlineExceeded);
    assert_runs(&server).await;
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    assert_eq!(metric(&server, "accelerd_sandbox_restarts_total"), 0);
    assert_eq!(metric(&server, "accelerd_sandbox_crashes_total"), 0);
    server.assert_serving().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a GPU"]
async fn a_caller_that_leaves_frees_the_gpu() {
    let server = gpu_server(|_| {}).await;
    assert_runs(&server).await;
    let mut kernels = server.kernels();
    let running = tokio::spawn(async move { kernels.launch(Request::new(endless())).await });
    until("it runs", || metric(&server, "accelerd_sandbox_launches_total") == 2).await;
    running.abort();
    let begin = Instant::now();
    assert_runs(&server).await;
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert_eq!(metric(&server, "accelerd_sandbox_restarts_total"), 0);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a GPU"]
async fn launches_share_the_memory_limit() {
    let server = gpu_server(|config| config.sandbox.gpu_memory = ByteSize::mib(1)).await;
    let extent = 1 << 18;
    let arguments = vec![argument("a", tensor(&[], &[2.5])), f32_array("x", &[extent]), f32_array("y", &[extent])];
    let refused = launch(&server, on(KernelDevice::Cuda, &request(SAXPY, &[extent], arguments))).await;
    assert_reason(refused, Code::ResourceExhausted, "SANDBOX_OUT_OF_MEMORY");
    assert_runs(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a GPU"]
async fn many_callers_have_their_own_results_and_the_daemon_serves_meanwhile() {
    let server = gpu_server(|_| {}).await;
    let scaled = |factor: i32| {
        let source = warp(&format!(
            "
@wp.kernel
def scaled(x: wp.array(dtype=int), y: wp.array(dtype=int)):
    i = wp.tid()
    y[i] = x[i] * {}
",
            factor % 7
        ));
        let x = argument("x", array(Dtype::I32, &[1000], &vec![factor; 1000]));
        on(KernelDevice::Cuda, &with_outputs(vec![output("y", &[1000])], request(&source, &[1000], vec![x])))
    };
    let calls = (0..64).map(|factor| {
        let mut kernels = server.kernels();
        let request = scaled(factor);
        tokio::spawn(async move { (factor, kernels.launch(request).await) })
    });
    let calls: Vec<_> = calls.collect();
    for _ in 0..10 {
        server.assert_serving().await;
    }
    for call in calls {
        let (factor, response) = call.await.expect("no panic");
        let response = response.expect("it runs").into_inner();
        let values = i32s(response.outputs[0].value.as_ref().expect("a tensor"));
        assert_eq!(values, vec![factor * (factor % 7); 1000]);
    }
    server.assert_serving().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a GPU"]
async fn resident_tensors_are_arguments_on_the_gpu() {
    let server = gpu_server(|_| {}).await;
    let shape = vec![3];
    let header = v1::UploadTensorHeader { dtype: Dtype::F32.into(), shape, ..Default::default() };
    let part = v1::UploadTensorRequest { header: Some(header), data: tensor(&[], &[1.0; 3]).data };
    let uploaded = server.tensor().upload_tensor(tokio_stream::iter([part])).await.expect("it fits").into_inner();
    let handle = uploaded.tensor.expect("a tensor").handle;
    let mut request = saxpy_on_gpu();
    request.arguments[1] = v1::TensorInput { name: "x".into(), source: Some(Source::Handle(handle)) };
    let response = launch(&server, request).await.expect("it runs");
    assert_eq!(f32s(response.outputs[0].value.as_ref().expect("a tensor")), [3.0, 3.0, 3.0]);
}
