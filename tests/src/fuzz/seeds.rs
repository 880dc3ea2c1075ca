//! Valid requests of each method.

use std::collections::BTreeMap;

use accelerd_proto::v1::{
    self, evaluate_request::Expectation, launch_request::Kernel, tensor_attribute::Value, tensor_input::Source,
    verify_header, verify_request,
};
use prost::Message;

/// The messages of a call.
#[derive(Clone, Debug)]
pub(super) struct Seed {
    /// The name of its method.
    pub(super) method: &'static str,
    /// The messages that are sent.
    pub(super) messages: Vec<Vec<u8>>,
}

/// Objects that a daemon has when a seed is sent.
#[derive(Clone, Debug)]
pub(super) struct Residents {
    /// A tensor of three f32.
    pub(super) handle: String,
    /// [`KERNEL`].
    pub(super) kernel_id: String,
}

pub(super) const KERNEL: &str = "
import warp as wp

@wp.func
def scaled(a: float, x: float):
    return a * x

@wp.kernel
def saxpy(a: float, x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if i < 3:
        for k in range(2):
            y[i] = scaled(a, x[i]) + y[i]
";
const VECTORS: &str = "
import warp as wp

@wp.struct
class Pair:
    a: wp.vec3
    n: int

@wp.kernel
def turn(m: wp.mat33, p: wp.array(dtype=wp.vec3), total: wp.array(dtype=float)):
    i = wp.tid()
    s = Pair()
    s.a = m * p[i]
    s.n = wp.static(2 + 3)
    while s.n > 0 and s.a[0] < 9.0:
        s.n -= 1
    wp.atomic_add(total, 0, wp.dot(s.a, p[i]) + wp.sin(float(s.n)))
    p[i] = wp.normalize(s.a)
";
const LINE: &str =
    "def line(x: float, n: int) -> float:\n    if n > 3 and x < 2.0:\n        return x * 2.0\n    return x + n\n";
const LISTS: &str = "def total(xs: list[float], k: int) -> float:\n    s = 0.0\n    for i in range(len(xs)):\n        s += xs[i] * k\n    return s\n";
const CUDA: &str =
    "extern \"C\" __global__ void twice(const float* x, float* y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }";
const WASM: &str = r#"(module (memory (export "memory") 1)
    (func (export "sum") (param f64 f64) (result f64)
        (if (f64.gt (local.get 0) (f64.const 1e9)) (then unreachable))
        (f64.add (local.get 0) (f64.load (i32.const 8)))))"#;

fn seed(method: &'static str, message: &impl Message) -> Seed {
    Seed { method, messages: vec![message.encode_to_vec()] }
}

/// At least one for each method.
pub(super) fn seeds(residents: &Residents) -> Vec<Seed> {
    let handle = || residents.handle.clone();
    let copy = v1::CopyTensorRequest { handle: handle(), device: "cpu".into(), ..Default::default() };
    let mut seeds = vec![
        seed("DownloadTensor", &v1::DownloadTensorRequest { handle: handle() }),
        seed("FreeTensors", &v1::FreeTensorsRequest { handles: vec![handle()] }),
        seed("ListTensors", &v1::ListTensorsRequest {}),
        seed("CopyTensor", &copy),
        seed("ListKernels", &v1::ListKernelsRequest {}),
        seed("EvictKernel", &v1::EvictKernelRequest { kernel_id: residents.kernel_id.clone() }),
    ];
    seeds.extend(resident_graphs(residents));
    seeds.extend(tensor_seeds());
    seeds.extend(kernel_seeds(residents));
    seeds.extend(verify_seeds());
    seeds
}

fn tensor(shape: &[i64], numbers: &[f32]) -> v1::Tensor {
    let data = numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>().into();
    v1::Tensor { dtype: v1::Dtype::F32.into(), shape: shape.to_vec(), data }
}

fn integers64(shape: &[i64], numbers: &[i64]) -> v1::Tensor {
    let data = numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>().into();
    v1::Tensor { dtype: v1::Dtype::I64.into(), shape: shape.to_vec(), data }
}

fn input(name: &str, value: v1::Tensor) -> v1::TensorInput {
    v1::TensorInput { name: name.into(), source: Some(Source::Value(value)) }
}

fn attributes(of: &[(&str, Value)]) -> BTreeMap<String, v1::TensorAttribute> {
    let attribute = |value: &Value| v1::TensorAttribute { value: Some(value.clone()) };
    of.iter().map(|(name, value)| ((*name).to_owned(), attribute(value))).collect()
}

fn node(name: &str, op: &str, inputs: &[&str], of: &[(&str, Value)]) -> v1::TensorNode {
    let inputs = inputs.iter().map(|name| (*name).to_owned()).collect();
    v1::TensorNode { name: name.into(), op: op.into(), inputs, attributes: attributes(of) }
}

fn integers(values: &[i64]) -> Value {
    Value::Integers(v1::TensorIntegers { values: values.to_vec() })
}

/// Operands of graphs: `x` of shape `[4, 6]`, `row` of `[6]`, `image` of `[1, 2, 4, 4]`, `weights` of `[3, 2, 2, 2]`, and `at`, indices
/// below 4 of shape `[4, 6]`.
fn operands() -> Vec<v1::TensorInput> {
    let numbers: Vec<f32> = (0..32_u8).map(|n| f32::from(n % 7) - 2.5).collect();
    let indices: Vec<i64> = (0..24).map(|n| n % 4).collect();
    vec![
        input("x", tensor(&[4, 6], &numbers[..24])),
        input("row", tensor(&[6], &numbers[..6])),
        input("image", tensor(&[1, 2, 4, 4], &numbers)),
        input("weights", tensor(&[3, 2, 2, 2], &numbers[..24])),
        input("at", integers64(&[4, 6], &indices)),
    ]
}

/// A graph over [`operands`], whose last value is returned.
fn graph(nodes: Vec<v1::TensorNode>) -> Seed {
    let outputs = nodes.last().map(|node| v1::TensorOutput { name: node.name.clone(), keep: false });
    let is_used = |input: &v1::TensorInput| nodes.iter().any(|node| node.inputs.contains(&input.name));
    let inputs = operands().into_iter().filter(is_used).collect();
    seed("Execute", &v1::ExecuteRequest { inputs, nodes, outputs: outputs.into_iter().collect(), ..Default::default() })
}

/// A graph that uses a resident tensor, and one that keeps its result.
fn resident_graphs(residents: &Residents) -> Vec<Seed> {
    let source = Some(Source::Handle(residents.handle.clone()));
    let inputs = vec![v1::TensorInput { name: "x".into(), source }];
    let request = v1::ExecuteRequest {
        inputs,
        nodes: vec![node("y", "exp", &["x"], &[])],
        outputs: vec![v1::TensorOutput { name: "y".into(), keep: true }],
        keep_ttl: Some(prost_types::Duration { seconds: 60, nanos: 0 }),
        ..Default::default()
    };
    vec![seed("Execute", &request)]
}

fn tensor_seeds() -> Vec<Seed> {
    let dim = |dim: i64| [("dim", Value::Integer(dim))];
    let header = v1::UploadTensorHeader { dtype: v1::Dtype::F32.into(), shape: vec![2, 2], ..Default::default() };
    let upload = [
        v1::UploadTensorRequest { header: Some(header), ..Default::default() },
        v1::UploadTensorRequest { data: vec![1; 16].into(), ..Default::default() },
    ];
    let mut seeds = vec![
        Seed { method: "UploadTensor", messages: upload.iter().map(Message::encode_to_vec).collect() },
        benchmark("softmax", &[&[8, 8]], &dim(1)),
        benchmark("matmul", &[&[8, 8], &[8, 8]], &[]),
        benchmark("add", &[&[8, 8], &[8]], &[]),
        graph(vec![
            node("wide", "expand", &["x"], &[("shape", integers(&[3, 4, 6]))]),
            node("y", "sum", &["wide"], &[("dim", integers(&[0, 2])), ("keepdim", Value::Boolean(true))]),
        ]),
        graph(vec![
            node("twice", "mul", &["x"], &[("other", Value::Number(2.0))]),
            node("across", "transpose", &["twice"], &[("dim0", Value::Integer(0)), ("dim1", Value::Integer(1))]),
            node("product", "matmul", &["x", "across"], &[]),
            node("y", "softmax", &["product"], &dim(-1)),
        ]),
        graph(vec![
            node("flat", "reshape", &["x"], &[("shape", integers(&[24]))]),
            node("y", "cumsum", &["flat"], &dim(0)),
        ]),
        graph(vec![node("y", "layer_norm", &["x", "row", "row"], &[("eps", Value::Number(1e-5))])]),
        graph(vec![node("y", "conv2d", &["image", "weights"], &[("padding", integers(&[1, 1]))])]),
        graph(vec![node("y", "max_pool2d", &["image"], &[("kernel_size", integers(&[2, 2]))])]),
        graph(vec![node("y", "gather", &["x", "at"], &dim(0))]),
        graph(vec![node("y", "concat", &["x", "x"], &dim(0))]),
        graph(vec![node("y", "mse_loss", &["x", "x"], &[])]),
        graph(vec![node("above", "gt", &["x", "row"], &[]), node("y", "where", &["above", "x", "row"], &[])]),
        graph(vec![
            node("noise", "rand", &[], &[("shape", integers(&[4, 6])), ("seed", Value::Integer(7))]),
            node("y", "add", &["noise", "x"], &[]),
        ]),
    ];
    let of_dim = ["mean", "var", "amax", "argmax", "logsumexp", "prod", "norm", "argsort", "log_softmax", "cumprod"];
    seeds.extend(of_dim.map(|op| graph(vec![node("y", op, &["x"], &dim(1))])));
    seeds
}

fn benchmark(op: &str, shapes: &[&[i64]], of: &[(&str, Value)]) -> Seed {
    let operand = |shape: &&[i64]| v1::BenchmarkOperand {
        dtype: v1::Dtype::F32.into(),
        shape: shape.to_vec(),
        integers_below: 0,
    };
    let request = v1::BenchmarkOpRequest {
        op: op.into(),
        operands: shapes.iter().map(operand).collect(),
        attributes: attributes(of),
        repetition_count: 2,
        ..Default::default()
    };
    seed("BenchmarkOp", &request)
}

/// A module of one kernel.
pub(super) fn program(source: &str) -> v1::KernelProgram {
    v1::KernelProgram { source: source.into(), ..Default::default() }
}

fn kernel_seeds(residents: &Residents) -> Vec<Seed> {
    let target = |target: v1::KernelTarget| target.into();
    let translate = |source: &str| v1::TranslateRequest {
        source: source.into(),
        targets: vec![target(v1::KernelTarget::Cuda), target(v1::KernelTarget::Wasm)],
        ..Default::default()
    };
    let compile = |source: &str| v1::CompileRequest { program: Some(program(source)), ..Default::default() };
    let dataset = v1::GenerateDatasetRequest {
        pair_count: 1,
        seed: 7,
        validation_percent: Some(10),
        categories: vec![v1::DatasetCategory::Arithmetic.into()],
        ..Default::default()
    };
    let mut seeds = vec![seed("GenerateDataset", &dataset)];
    seeds.extend(evaluations());
    for source in [KERNEL, VECTORS, LINE] {
        seeds.push(seed("Translate", &translate(source)));
        seeds.push(seed("Compile", &compile(source)));
    }
    for launch in launches(residents) {
        let benchmark = v1::BenchmarkRequest {
            launch: Some(launch.clone()),
            run_count: Some(2),
            warm_up_count: Some(1),
            ..Default::default()
        };
        seeds.extend([seed("Launch", &launch), seed("Benchmark", &benchmark)]);
    }
    seeds
}

fn launches(residents: &Residents) -> [v1::LaunchRequest; 3] {
    let numbers = [1.0, 2.0, 3.0];
    let arguments =
        vec![input("a", tensor(&[], &[2.5])), input("x", tensor(&[3], &numbers)), input("y", tensor(&[3], &numbers))];
    let launch = |kernel| v1::LaunchRequest {
        kernel: Some(kernel),
        grid: vec![3],
        arguments: arguments.clone(),
        loop_budget: Some(1000),
        ..Default::default()
    };
    let unit = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
    let vectors = vec![
        input("m", tensor(&[3, 3], &unit)),
        input("p", tensor(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])),
        input("total", tensor(&[1], &[0.0])),
    ];
    let turn = Kernel::Program(program(VECTORS));
    [
        launch(Kernel::Program(program(KERNEL))),
        launch(Kernel::KernelId(residents.kernel_id.clone())),
        v1::LaunchRequest { grid: vec![2], arguments: vectors, ..launch(turn) },
    ]
}

/// CUDA C++ of a client, which a daemon without a GPU checks and does not run.
fn evaluations() -> [Seed; 2] {
    let param = |name: &str, kind: v1::CudaParamKind| v1::CudaParam {
        name: name.into(),
        dtype: v1::Dtype::F32.into(),
        kind: kind.into(),
        shape: if kind == v1::CudaParamKind::Output { vec![3] } else { vec![] },
    };
    let subject = v1::CudaSubject {
        source: CUDA.into(),
        entry: "twice".into(),
        params: vec![param("x", v1::CudaParamKind::Input), param("y", v1::CudaParamKind::Output)],
        grid: vec![1],
        block: vec![3],
        ..Default::default()
    };
    let expected = v1::ExpectedOutputs {
        outputs: vec![v1::NamedTensor { name: "y".into(), value: Some(tensor(&[3], &[2.0, 4.0, 6.0])) }],
    };
    let twice = "import warp as wp\n\n@wp.kernel\ndef twice(x: wp.array(dtype=float), y: wp.array(dtype=float)):\n    \
                 i = wp.tid()\n    y[i] = 2.0 * x[i]\n";
    let reference = v1::EvaluationReference { program: Some(program(twice)), grid: vec![3] };
    [Expectation::Expected(expected), Expectation::Reference(reference)].map(|expectation| {
        let request = v1::EvaluateRequest {
            subject: Some(subject.clone()),
            arguments: vec![input("x", tensor(&[3], &[1.0, 2.0, 3.0]))],
            expectation: Some(expectation),
            ..Default::default()
        };
        seed("Evaluate", &request)
    })
}

fn verify_seeds() -> Vec<Seed> {
    let outputs = |numbers: &[f32]| vec![input("y", tensor(&[3], numbers))];
    let compare = v1::CompareOutputsRequest {
        actual: outputs(&[1.0, 2.0, f32::NAN]),
        expected: outputs(&[1.0, 2.5, 3.0]),
        row_verdicts: true,
        policy: Some(policy()),
        ..Default::default()
    };
    let given = v1::VerifyHeader {
        subject: Some(verify_header::Subject::GivenOutputs(v1::GivenOutputs {})),
        reference: Some(verify_header::Reference::ExpectedOutputs(v1::GivenOutputs {})),
        policy: Some(policy()),
        ..Default::default()
    };
    let cases = v1::VerifyCases {
        actual: outputs(&[1.0, 2.0, 3.0]),
        expected: outputs(&[1.0, 2.0, 4.0]),
        ..Default::default()
    };
    let part = |part| v1::VerifyRequest { part: Some(part) }.encode_to_vec();
    let given = vec![part(verify_request::Part::Header(given)), part(verify_request::Part::Cases(cases))];
    let functions = function_headers().map(|header| vec![part(verify_request::Part::Header(header))]);
    let mut seeds = vec![seed("CompareOutputs", &compare), Seed { method: "Verify", messages: given }];
    seeds.extend(functions.map(|messages| Seed { method: "Verify", messages }));
    seeds
}

fn policy() -> v1::ComparisonPolicy {
    let close = v1::CloseTolerance { atol: Some(0.25), rtol: None };
    let tolerance = v1::Tolerance { rule: Some(v1::tolerance::Rule::Close(close)) };
    v1::ComparisonPolicy { tolerances: vec![tolerance], nan: v1::NanPolicy::Equal.into(), ..Default::default() }
}

/// Verifications of functions on generated cases.
fn function_headers() -> [v1::VerifyHeader; 3] {
    let timeout = Some(prost_types::Duration { seconds: 0, nanos: 20_000_000 });
    let generator = |input: &str| {
        let domain = v1::InputDomain {
            lower: Some(v1::input_domain::Lower::Min(-8.0)),
            upper: Some(v1::input_domain::Upper::Max(8.0)),
            allow_nan: true,
            length: None,
            ..Default::default()
        };
        let domains = [(input.to_owned(), domain)].into();
        Some(v1::CaseGenerator { case_count: 50, seed: 1, domains })
    };
    let of_kernels = |source: &str, input: &str| v1::VerifyHeader {
        subject: Some(verify_header::Subject::Kernel(program(source))),
        reference: Some(verify_header::Reference::ReferenceKernel(program(source))),
        generator: generator(input),
        limits: Some(v1::CaseLimits { timeout, loop_budget: Some(1000), ..Default::default() }),
        case_verdicts: true,
        ..Default::default()
    };
    let module = wat::parse_str(WASM).expect("a module");
    let wasm = || v1::WasmFunction { module: module.clone().into(), function: "sum".into(), ..Default::default() };
    [
        of_kernels(LINE, "x"),
        of_kernels(LISTS, "xs"),
        v1::VerifyHeader {
            subject: Some(verify_header::Subject::Wasm(wasm())),
            reference: Some(verify_header::Reference::ReferenceWasm(wasm())),
            check_determinism: true,
            ..of_kernels("", "arg0")
        },
    ]
}
