//! Compiled kernels and launches, from a caller's view: results, faults, and refusals.

use std::fmt::Debug;

use accelerd::config::ByteSize;
use accelerd_proto::v1::{self, KernelFaultKind, launch_request::Kernel, tensor_input::Source};
use bytes::Bytes;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::harness::{TestServer, assert_refused, f32s, i32s, tensor};

pub(crate) const SAXPY: &str = "
import warp as wp

@wp.kernel
def saxpy(a: float, x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = a * x[i] + y[i]
";

/// An array of a numeric type.
pub(crate) fn array<T: bytemuck::NoUninit>(dtype: v1::Dtype, shape: &[i64], values: &[T]) -> v1::Tensor {
    let data = Bytes::copy_from_slice(bytemuck::cast_slice(values));
    v1::Tensor { dtype: dtype.into(), shape: shape.to_vec(), data }
}

pub(crate) fn argument(name: &str, tensor: v1::Tensor) -> v1::TensorInput {
    v1::TensorInput { name: name.to_owned(), source: Some(Source::Value(tensor)) }
}

pub(crate) fn program(source: &str) -> v1::KernelProgram {
    v1::KernelProgram { source: source.to_owned(), ..Default::default() }
}

pub(crate) fn request(source: &str, grid: &[i64], arguments: Vec<v1::TensorInput>) -> v1::LaunchRequest {
    let kernel = Some(Kernel::Program(program(source)));
    v1::LaunchRequest { kernel, grid: grid.to_vec(), arguments, ..Default::default() }
}

pub(crate) fn output(name: &str, shape: &[i64]) -> v1::KernelOutput {
    v1::KernelOutput { name: name.to_owned(), shape: shape.to_vec() }
}

pub(crate) async fn launch(server: &TestServer, request: v1::LaunchRequest) -> Result<v1::LaunchResponse, Status> {
    server.kernels().launch(request).await.map(tonic::Response::into_inner)
}

/// The only output of a launch that succeeds.
async fn only_output(server: &TestServer, request: v1::LaunchRequest) -> v1::Tensor {
    let response = launch(server, request).await.expect("it is valid");
    assert_eq!(response.fault, None);
    let [output] = <[_; 1]>::try_from(response.outputs).expect("one output");
    output.value.expect("a tensor")
}

async fn compile(server: &TestServer, program: v1::KernelProgram) -> Result<v1::Kernel, Status> {
    let response =
        server.kernels().compile(v1::CompileRequest { program: Some(program), ..Default::default() }).await?;
    Ok(response.into_inner().kernel.expect("a kernel"))
}

pub(crate) fn assert_reason<T: Debug>(result: Result<T, Status>, code: Code, reason: &str) {
    let status = result.expect_err("the call is refused");
    let found = status.get_details_error_info().map(|info| info.reason);
    assert_eq!((status.code(), found.as_deref()), (code, Some(reason)), "{status:?}");
}

fn saxpy_arguments(count: u8) -> (Vec<v1::TensorInput>, Vec<f32>) {
    let x: Vec<_> = (0..count).map(|i| f32::from(i) / 8.0).collect();
    let y: Vec<_> = (0..count).map(|i| 100.0 - f32::from(i)).collect();
    let expected = x.iter().zip(&y).map(|(x, y)| 2.5 * x + y).collect();
    let shape = [i64::from(count)];
    let arguments = [("a", tensor(&[], &[2.5])), ("x", tensor(&shape, &x)), ("y", tensor(&shape, &y))];
    (arguments.map(|(name, tensor)| argument(name, tensor)).into(), expected)
}

#[tokio::test]
async fn a_kernel_is_compiled_once_and_launched_by_its_id() {
    let server = TestServer::start().await;
    let kernel = compile(&server, program(SAXPY)).await.expect("it is valid");
    assert_eq!((kernel.id.len(), kernel.name.as_str(), kernel.grid_dims), (64, "saxpy", 1));
    assert_eq!((kernel.dialect(), kernel.bit_exact), (v1::KernelDialect::Warp, true));
    assert_eq!((kernel.params.len(), &kernel.written_arrays[..]), (3, &["y".to_owned()][..]));
    assert!(kernel.size_bytes > 0);
    let named = v1::KernelProgram { name: "saxpy".into(), ..program(SAXPY) };
    assert_eq!(compile(&server, program(SAXPY)).await.expect("it is kept").id, kernel.id);
    assert_ne!(compile(&server, named).await.expect("it is valid").id, kernel.id, "another program");
    let (arguments, expected) = saxpy_arguments(200);
    let by_id = v1::LaunchRequest { kernel: Some(Kernel::KernelId(kernel.id)), ..request("", &[200], arguments) };
    let y = only_output(&server, by_id).await;
    assert_eq!((y.shape.as_slice(), y.dtype()), (&[200][..], v1::Dtype::F32));
    assert_eq!(f32s(&y), expected);
}

#[tokio::test]
async fn a_program_is_launched_at_once_and_kept() {
    let server = TestServer::start().await;
    let (arguments, expected) = saxpy_arguments(5);
    let response = launch(&server, request(SAXPY, &[5], arguments)).await.expect("it is valid");
    assert_eq!(f32s(response.outputs[0].value.as_ref().expect("a tensor")), expected);
    assert!(response.execution_time.is_some());
    let listed = server.kernels().list_kernels(v1::ListKernelsRequest {}).await.expect("a list").into_inner();
    assert_eq!(listed.kernels, [compile(&server, program(SAXPY)).await.expect("it is kept")]);
}

#[tokio::test]
async fn threads_beyond_a_smaller_grid_do_not_run() {
    let server = TestServer::start().await;
    let (arguments, expected) = saxpy_arguments(5);
    let y = f32s(&only_output(&server, request(SAXPY, &[2], arguments)).await);
    assert_eq!((&y[..2], &y[2..]), (&expected[..2], &[98.0, 97.0, 96.0][..]));
    let (arguments, _) = saxpy_arguments(5);
    let y = f32s(&only_output(&server, request(SAXPY, &[0], arguments)).await);
    assert_eq!(y, [100.0, 99.0, 98.0, 97.0, 96.0], "no thread runs");
}

#[tokio::test]
async fn vectors_and_matrices_are_further_dimensions() {
    let server = TestServer::start().await;
    let source = "
import warp as wp

@wp.kernel
def turned(m: wp.mat22, points: wp.array2d(dtype=wp.vec2), out: wp.array2d(dtype=wp.vec2), squares: wp.array(dtype=wp.mat22)):
    i, j = wp.tid()
    out[i, j] = m * points[i, j]
    if j == 0:
        squares[i] = m * m
";
    let m = tensor(&[2, 2], &[0.0, -1.0, 1.0, 0.0]);
    let points = tensor(&[1, 3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let arguments = vec![argument("m", m), argument("points", points)];
    let outputs = vec![output("squares", &[1]), output("out", &[1, 3])];
    let response = launch(&server, v1::LaunchRequest { outputs, ..request(source, &[1, 3], arguments) }).await;
    let outputs = response.expect("it is valid").outputs;
    let [squares, out] = &outputs[..] else { panic!("two outputs, got {outputs:?}") };
    let squares = squares.value.as_ref().expect("a tensor");
    let out = out.value.as_ref().expect("a tensor");
    assert_eq!((&squares.shape[..], f32s(squares)), (&[1, 2, 2][..], vec![-1.0, 0.0, 0.0, -1.0]));
    assert_eq!((&out.shape[..], f32s(out)), (&[1, 3, 2][..], vec![-2.0, 1.0, -4.0, 3.0, -6.0, 5.0]));
}

#[tokio::test]
async fn structs_are_bytes() {
    let server = TestServer::start().await;
    let source = "
import warp as wp

@wp.struct
class Particle:
    mass: float
    hits: int

@wp.kernel
def hit(particles: wp.array(dtype=Particle)):
    i = wp.tid()
    particles[i].hits = particles[i].hits + int(particles[i].mass)
";
    let bytes: Vec<u8> = [(3.5_f32, 1_i32), (7.0, 10)]
        .iter()
        .flat_map(|(mass, hits)| [mass.to_le_bytes(), hits.to_le_bytes()].concat())
        .collect();
    let particles = argument("particles", array(v1::Dtype::U8, &[2, 8], &bytes));
    let after = only_output(&server, request(source, &[2], vec![particles])).await;
    assert_eq!((&after.shape[..], after.dtype()), (&[2, 8][..], v1::Dtype::U8));
    assert_eq!([i32s(&after)[1], i32s(&after)[3]], [4, 17]);
}

#[tokio::test]
async fn an_output_that_is_no_argument_starts_as_zeros() {
    let server = TestServer::start().await;
    let source = "
import warp as wp

@wp.kernel
def histogram(values: wp.array(dtype=int), counts: wp.array(dtype=int)):
    i = wp.tid()
    wp.atomic_add(counts, values[i] % 3, 1)
";
    let values: Vec<i32> = (0..1000).collect();
    let values = argument("values", array(v1::Dtype::I32, &[1000], &values));
    let outputs = vec![output("counts", &[3])];
    let counts = only_output(&server, v1::LaunchRequest { outputs, ..request(source, &[1000], vec![values]) }).await;
    assert_eq!(i32s(&counts), [334, 333, 333]);
}

#[tokio::test]
async fn a_function_of_python_runs_for_each_row() {
    let server = TestServer::start().await;
    let source = "
def scaled(x: float, factor: int) -> float:
    return x * factor

def f(x: float, weights: list[float], factor: int) -> tuple[float, bool]:
    total = 0.0
    for w in range(len(weights)):
        total += weights[w]
    return scaled(x, factor) + total, x > 1.0
";
    let f64s = |shape: &[i64], values: &[f64]| array(v1::Dtype::F64, shape, values);
    let arguments = vec![
        argument("x", f64s(&[3], &[0.5, 1.5, 2.5])),
        argument("weights", f64s(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])),
        argument("factor", array(v1::Dtype::I64, &[], &[10_i64])),
    ];
    let named = v1::KernelProgram { name: "f".into(), ..program(source) };
    let by_name = v1::LaunchRequest { kernel: Some(Kernel::Program(named)), ..request("", &[], arguments) };
    let response = launch(&server, by_name.clone()).await.expect("it is valid");
    let [sums, flags] = &response.outputs[..] else { panic!("two outputs, got {response:?}") };
    assert_eq!((sums.name.as_str(), flags.name.as_str()), ("result0", "result1"));
    let sums = sums.value.as_ref().expect("a tensor");
    assert_eq!(bytemuck::pod_collect_to_vec::<_, f64>(&sums.data), [8.0, 22.0, 36.0]);
    assert_eq!(&flags.value.as_ref().expect("a tensor").data[..], [0, 1, 1]);
    let two_rows = v1::LaunchRequest { grid: vec![2], ..by_name.clone() };
    let response = launch(&server, two_rows).await.expect("it is valid");
    assert_eq!(response.outputs[0].value.as_ref().expect("a tensor").shape, [2]);
    let mut other = by_name;
    other.arguments[1] = argument("weights", f64s(&[2, 1], &[1.0, 2.0]));
    assert_refused(launch(&server, other.clone()).await, Code::InvalidArgument, "arguments[1]");
    other.arguments[1] = argument("weights", f64s(&[1], &[4.0]));
    let response = launch(&server, other).await.expect("one row of weights for all rows");
    let sums = response.outputs[0].value.as_ref().expect("a tensor");
    assert_eq!(bytemuck::pod_collect_to_vec::<_, f64>(&sums.data), [9.0, 19.0, 29.0]);
}

#[tokio::test]
async fn values_for_all_rows_alone_are_one_row() {
    let server = TestServer::start().await;
    let source = "def double(n: int) -> int:\n    return 2 * n\n";
    let arguments = vec![argument("n", array(v1::Dtype::I64, &[], &[21_i64]))];
    let result = only_output(&server, request(source, &[], arguments)).await;
    assert_eq!((&result.shape[..], bytemuck::pod_collect_to_vec::<_, i64>(&result.data)), (&[1][..], vec![42]));
}

#[tokio::test]
async fn a_fault_has_its_thread_and_place() {
    let server = TestServer::start().await;
    let (mut arguments, _) = saxpy_arguments(10);
    arguments[1] = argument("x", tensor(&[7], &[0.0; 7]));
    let response = launch(&server, request(SAXPY, &[10], arguments)).await.expect("it runs");
    assert_eq!(response.outputs, []);
    let fault = response.fault.expect("a fault");
    assert_eq!((fault.kind(), fault.thread), (KernelFaultKind::OutOfBounds, 7));
    assert_eq!((fault.array.as_str(), fault.dimension, fault.index, fault.extent), ("x", 0, 7, 7));
    assert_eq!((fault.line, fault.column), (7, 15));
    let divide = "def f(x: int, y: int) -> int:\n    return x // y\n";
    let column = |values: &[i64]| array(v1::Dtype::I64, &[3], values);
    let arguments = vec![argument("x", column(&[1, 2, 3])), argument("y", column(&[1, 0, 1]))];
    let response = launch(&server, request(divide, &[], arguments)).await.expect("it runs");
    let fault = response.fault.expect("a fault");
    assert_eq!((fault.kind(), fault.thread, fault.line), (KernelFaultKind::DivisionByZero, 1, 2));
    assert_eq!((fault.array.as_str(), fault.index), ("", 0));
    let unassigned = "def f(x: int) -> int:\n    if x > 0:\n        y = x\n    return y\n";
    let arguments = vec![argument("x", column(&[1, 2, 0]))];
    let response = launch(&server, request(unassigned, &[], arguments)).await.expect("it runs");
    let fault = response.fault.expect("a fault");
    assert_eq!((fault.kind(), fault.thread, fault.line), (KernelFaultKind::InvalidValue, 2, 4));
    assert_eq!(fault.variable, "y");
}

#[tokio::test]
async fn resident_tensors_are_arguments() {
    let server = TestServer::start().await;
    let header = v1::UploadTensorHeader { dtype: v1::Dtype::F32.into(), shape: vec![3], ..Default::default() };
    let data = tensor(&[3], &[1.0, 2.0, 3.0]).data;
    let parts = [v1::UploadTensorRequest { header: Some(header), data }];
    let uploaded = server.tensor().upload_tensor(tokio_stream::iter(parts)).await.expect("it fits").into_inner();
    let handle = uploaded.tensor.expect("a tensor").handle;
    let x = |handle: &str| v1::TensorInput { name: "x".into(), source: Some(Source::Handle(handle.to_owned())) };
    let (mut arguments, _) = saxpy_arguments(3);
    arguments[1] = x(&handle);
    let y = only_output(&server, request(SAXPY, &[3], arguments.clone())).await;
    assert_eq!(f32s(&y), [102.5, 104.0, 105.5]);
    arguments[1] = x(&"0".repeat(32));
    assert_refused(launch(&server, request(SAXPY, &[3], arguments)).await, Code::NotFound, "does not exist");
}

#[tokio::test]
async fn programs_that_are_no_kernel_are_refused_with_their_place() {
    let server = TestServer::start().await;
    let compiled = |program| compile(&server, program);
    let refused = compiled(program("def f(x: float) -> float:\n    import os\n    return x\n")).await;
    assert_refused(refused, Code::InvalidArgument, "line 2, column 4: ");
    let two = "def f(x: float) -> float:\n    return x\ndef g(x: float) -> float:\n    return x\n";
    assert_refused(compiled(program(two)).await, Code::InvalidArgument, "expected one of \"f\", \"g\", got none");
    let named = |name: &str| v1::KernelProgram { name: name.to_owned(), ..program(two) };
    assert_eq!(compiled(named("g")).await.expect("it is valid").name, "g");
    assert_refused(compiled(named("h")).await, Code::InvalidArgument, "program.name");
    assert_refused(compiled(program("")).await, Code::InvalidArgument, "program.source");
    assert_refused(compiled(program("def (")).await, Code::InvalidArgument, "(syntax)");
    let dialect = v1::KernelProgram { dialect: 9, ..program(two) };
    assert_refused(compiled(dialect).await, Code::InvalidArgument, "program.dialect");
    let none = server.kernels().compile(v1::CompileRequest { program: None, ..Default::default() }).await;
    assert_refused(none, Code::InvalidArgument, "program");
    let faults_always = "def f(x: float) -> float:\n    assert x != x\n    return x\n";
    compiled(program(faults_always)).await.expect("it needs no example");
}

#[tokio::test]
async fn launches_that_do_not_fit_their_kernel_are_refused_with_their_field() {
    let server = TestServer::start().await;
    let (valid, _) = saxpy_arguments(4);
    let with = |nth: usize, tensor: v1::Tensor| {
        let mut arguments = valid.clone();
        let name = arguments[nth].name.clone();
        arguments[nth] = argument(&name, tensor);
        request(SAXPY, &[4], arguments)
    };
    let and = |extra: v1::TensorInput| request(SAXPY, &[4], [valid.clone(), vec![extra]].concat());
    let valid_request = request(SAXPY, &[4], valid.clone());
    let outputs = |outputs| v1::LaunchRequest { outputs, ..valid_request.clone() };
    let doubles = array(v1::Dtype::F64, &[4], &[0.0_f64; 4]);
    let without_source = v1::TensorInput { name: "a".into(), source: None };
    let cases = [
        (request(SAXPY, &[4], valid[1..].to_vec()), "expected an argument \"a\", f32 of shape [], got none"),
        (request(SAXPY, &[4], valid[..2].to_vec()), "or its shape in `outputs`, got none"),
        (and(argument("z", tensor(&[], &[1.0]))), "arguments[3].name"),
        (and(valid[0].clone()), "arguments[3].name"),
        (and(without_source), "arguments[3].value"),
        (with(1, doubles), "arguments[1]: \"x\": expected f32 of shape [_], got f64 of shape [4]"),
        (with(1, tensor(&[2, 2], &[0.0; 4])), "arguments[1]: \"x\": expected f32 of shape [_]"),
        (with(0, tensor(&[1], &[0.0])), "arguments[0]: \"a\": expected f32 of shape [], got f32 of shape [1]"),
        (with(1, v1::Tensor { shape: vec![-4], ..tensor(&[4], &[0.0; 4]) }), "arguments[1].value.shape"),
        (with(1, v1::Tensor { shape: vec![5], ..tensor(&[4], &[0.0; 4]) }), "arguments[1].value.data"),
        (with(1, v1::Tensor { shape: vec![0, 1 << 40], ..tensor(&[0], &[]) }), "arguments[1]"),
        (v1::LaunchRequest { grid: vec![], ..valid_request.clone() }, "grid: expected 1 extents, got 0"),
        (v1::LaunchRequest { grid: vec![4, 1], ..valid_request.clone() }, "grid: expected 1 extents, got 2"),
        (v1::LaunchRequest { grid: vec![-1], ..valid_request.clone() }, "grid"),
        (v1::LaunchRequest { grid: vec![1 << 40], ..valid_request.clone() }, "grid"),
        (v1::LaunchRequest { kernel: None, ..valid_request.clone() }, "kernel_id"),
        (outputs(vec![output("z", &[])]), "outputs[0].name"),
        (outputs(vec![output("y", &[]), output("a", &[])]), "outputs[1].name"),
        (outputs(vec![output("y", &[]), output("y", &[])]), "outputs[1].name"),
        (outputs(vec![output("y", &[4])]), "outputs[0].shape: expected no shape"),
        (outputs(vec![output("y", &[-4])]), "outputs[0].shape"),
    ];
    for (request, expected) in cases {
        assert_refused(launch(&server, request).await, Code::InvalidArgument, expected);
    }
    let zeros = |shape: &[i64]| v1::LaunchRequest {
        arguments: valid[..2].to_vec(),
        outputs: vec![output("y", shape)],
        ..valid_request.clone()
    };
    assert_refused(launch(&server, zeros(&[2, 2])).await, Code::InvalidArgument, "outputs[0].shape");
    assert_refused(launch(&server, zeros(&[1 << 40])).await, Code::InvalidArgument, "outputs[0].shape");
    assert_reason(launch(&server, zeros(&[1 << 30])).await, Code::ResourceExhausted, "SANDBOX_OUT_OF_MEMORY");
    let unknown = v1::LaunchRequest { kernel: Some(Kernel::KernelId("ab".into())), ..valid_request.clone() };
    assert_refused(launch(&server, unknown).await, Code::NotFound, "kernel \"ab\" does not exist");
    launch(&server, valid_request).await.expect("it is valid");
}

#[tokio::test]
async fn outputs_beyond_the_message_limit_are_refused_before_the_kernel_runs() {
    let server = TestServer::start_with(|config| config.server.max_message_bytes = ByteSize::kib(64)).await;
    // If it ran, it would have a fault.
    let source = "
import warp as wp

@wp.kernel
def k(y: wp.array(dtype=float)):
    y[wp.tid() + 1000000] = 1.0
";
    let launch_of = |extent| {
        let outputs = vec![output("y", &[extent])];
        launch(&server, v1::LaunchRequest { outputs, ..request(source, &[1], vec![]) })
    };
    assert_reason(launch_of(20_000).await, Code::ResourceExhausted, "MESSAGE_TOO_LARGE");
    assert!(launch_of(10_000).await.expect("it runs").fault.is_some());
}

#[tokio::test]
async fn arguments_beyond_the_memory_of_an_instance_are_refused() {
    let server = TestServer::start_with(|config| config.sandbox.case_memory = ByteSize::kib(64)).await;
    let of = |extent: usize| {
        let shape = [i64::try_from(extent).expect("an extent")];
        let (mut arguments, _) = saxpy_arguments(1);
        arguments[1] = argument("x", tensor(&shape, &vec![1.0; extent]));
        request(SAXPY, &[1], arguments)
    };
    launch(&server, of(15_000)).await.expect("60,000 bytes fit");
    assert_reason(launch(&server, of(17_000)).await, Code::ResourceExhausted, "SANDBOX_OUT_OF_MEMORY");
    let source = "def f(x: float, y: float) -> float:\n    return x + y\n";
    let rows = array(v1::Dtype::F64, &[3000], &vec![1.0_f64; 3000]);
    let arguments = vec![argument("x", rows), argument("y", array(v1::Dtype::F64, &[], &[1.0_f64]))];
    let repeated = launch(&server, v1::LaunchRequest { grid: vec![1 << 30], ..request(source, &[], arguments) }).await;
    assert_reason(repeated, Code::ResourceExhausted, "SANDBOX_OUT_OF_MEMORY");
}

#[tokio::test]
async fn kernels_are_listed_by_their_last_use_and_evicted() {
    let server = TestServer::start_with(|config| config.limits.max_kept_kernels = 2).await;
    let source = |name: &str| program(&format!("def {name}(x: float) -> float:\n    return x\n"));
    let mut ids = vec![];
    for name in ["f", "g"] {
        ids.push(compile(&server, source(name)).await.expect("it is valid").id);
    }
    let names = async || -> Vec<String> {
        let listed = server.kernels().list_kernels(v1::ListKernelsRequest {}).await.expect("a list");
        listed.into_inner().kernels.into_iter().map(|kernel| kernel.name).collect()
    };
    assert_eq!(names().await, ["g", "f"]);
    compile(&server, source("f")).await.expect("it is kept");
    assert_eq!(names().await, ["f", "g"]);
    compile(&server, source("h")).await.expect("it is valid");
    assert_eq!(names().await, ["h", "f"], "two are kept");
    let evict = |id: &str| {
        let mut kernels = server.kernels();
        let kernel_id = id.to_owned();
        async move { kernels.evict_kernel(v1::EvictKernelRequest { kernel_id }).await }
    };
    evict(&ids[0]).await.expect("it is kept");
    assert_refused(evict(&ids[0]).await, Code::NotFound, "kernel");
    assert_refused(evict(&ids[1]).await, Code::NotFound, "kernel");
    assert_eq!(names().await, ["h"]);
}
