//! Valid requests of each method.

use std::collections::BTreeMap;

use accelerd_proto::v1::{
    self, evaluate_request::Expectation, launch_request::Kernel, tensor_attribute::Value, tensor_input::Source,
    verify_header, verify_request,
};
use prost::Message;

/// The messages of a call.
#[derive(Clone, Debug)]
pub struct Seed {
    /// The name of its method.
    pub method: &'static str,
    /// What is sent.
    pub messages: Vec<Vec<u8>>,
}

const KERNEL: &str = "
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
const LINE: &str =
    "def line(x: float, n: int) -> float:\n    if n > 3 and x < 2.0:\n        return x * 2.0\n    return x + n\n";
const CUDA: &str =
    "extern \"C\" __global__ void twice(const float* x, float* y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }";

fn seed(method: &'static str, message: &impl Message) -> Seed {
    Seed { method, messages: vec![message.encode_to_vec()] }
}

/// At least one for each method that has fields.
pub fn seeds() -> Vec<Seed> {
    let handle = || "00000000-0000-0000-0000-000000000000".to_owned();
    let copy = v1::CopyTensorRequest { handle: handle(), device: "cpu".into(), ..Default::default() };
    let mut seeds = vec![
        seed("DownloadTensor", &v1::DownloadTensorRequest { handle: handle() }),
        seed("FreeTensors", &v1::FreeTensorsRequest { handles: vec![handle()] }),
        seed("ListTensors", &v1::ListTensorsRequest {}),
        seed("CopyTensor", &copy),
        seed("ListKernels", &v1::ListKernelsRequest {}),
        seed("EvictKernel", &v1::EvictKernelRequest { kernel_id: "0".repeat(64) }),
    ];
    seeds.extend(tensor_seeds());
    seeds.extend(kernel_seeds());
    seeds.extend(verify_seeds());
    seeds
}

fn tensor(shape: &[i64], numbers: &[f32]) -> v1::Tensor {
    let data = numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>().into();
    v1::Tensor { dtype: v1::Dtype::F32.into(), shape: shape.to_vec(), data }
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

/// A graph of `nodes` over `x` of shape `[4, 6]`, whose last value is returned.
fn graph(nodes: Vec<v1::TensorNode>) -> Seed {
    let numbers: Vec<f32> = (0..24_u8).map(f32::from).collect();
    let outputs = nodes.last().map(|node| v1::TensorOutput { name: node.name.clone(), keep: false });
    let inputs = vec![input("x", tensor(&[4, 6], &numbers))];
    seed("Execute", &v1::ExecuteRequest { inputs, nodes, outputs: outputs.into_iter().collect(), ..Default::default() })
}

fn tensor_seeds() -> Vec<Seed> {
    let dim = |dim: i64| [("dim", Value::Integer(dim))];
    let header = v1::UploadTensorHeader { dtype: v1::Dtype::F32.into(), shape: vec![2, 2], ..Default::default() };
    let upload = [
        v1::UploadTensorRequest { header: Some(header), ..Default::default() },
        v1::UploadTensorRequest { data: vec![1; 16].into(), ..Default::default() },
    ];
    let operand = v1::BenchmarkOperand { dtype: v1::Dtype::F32.into(), shape: vec![8, 8], ..Default::default() };
    let benchmark = v1::BenchmarkOpRequest {
        op: "softmax".into(),
        operands: vec![operand],
        attributes: attributes(&dim(1)),
        repetition_count: 2,
        ..Default::default()
    };
    let mut seeds = vec![
        Seed { method: "UploadTensor", messages: upload.iter().map(Message::encode_to_vec).collect() },
        seed("BenchmarkOp", &benchmark),
        graph(vec![
            node("wide", "expand", &["x"], &[("shape", integers(&[3, 4, 6]))]),
            node("sum", "sum", &["wide"], &[("dim", integers(&[0, 2])), ("keepdim", Value::Boolean(true))]),
        ]),
        graph(vec![
            node("twice", "mul", &["x"], &[("other", Value::Number(2.0))]),
            node("product", "matmul", &["x", "twice"], &[("transpose_b", Value::Boolean(true))]),
            node("rows", "softmax", &["product"], &dim(-1)),
        ]),
        graph(vec![
            node("flat", "reshape", &["x"], &[("shape", integers(&[24]))]),
            node("y", "cumsum", &["flat"], &dim(0)),
        ]),
        graph(vec![node("words", "to", &["x"], &[("dtype", Value::Text("i16".into()))])]),
    ];
    let of_dim = ["mean", "var", "amax", "argmax", "logsumexp", "prod", "argsort", "log_softmax", "cumprod"];
    seeds.extend(of_dim.map(|op| graph(vec![node("y", op, &["x"], &dim(1))])));
    seeds
}

fn program(source: &str) -> v1::KernelProgram {
    v1::KernelProgram { source: source.into(), ..Default::default() }
}

fn kernel_seeds() -> Vec<Seed> {
    let numbers = [1.0, 2.0, 3.0];
    let arguments =
        vec![input("a", tensor(&[], &[2.5])), input("x", tensor(&[3], &numbers)), input("y", tensor(&[3], &numbers))];
    let kernel = Some(Kernel::Program(program(KERNEL)));
    let launch = v1::LaunchRequest { kernel, grid: vec![3], arguments, loop_budget: Some(1000), ..Default::default() };
    let benchmark = v1::BenchmarkRequest {
        launch: Some(launch.clone()),
        run_count: Some(2),
        warm_up_count: Some(1),
        ..Default::default()
    };
    let target = v1::KernelTarget::Cuda.into();
    let wasm = v1::KernelTarget::Wasm.into();
    let param = |name: &str, kind: v1::CudaParamKind| v1::CudaParam {
        name: name.into(),
        dtype: v1::Dtype::F32.into(),
        kind: kind.into(),
        shape: vec![3],
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
    let evaluate = v1::EvaluateRequest {
        subject: Some(subject),
        arguments: vec![input("x", tensor(&[3], &numbers))],
        expectation: Some(Expectation::Expected(expected)),
        ..Default::default()
    };
    let translate = v1::TranslateRequest { source: KERNEL.into(), targets: vec![target, wasm], ..Default::default() };
    vec![
        seed("Translate", &translate),
        seed("Compile", &v1::CompileRequest { program: Some(program(KERNEL)), ..Default::default() }),
        seed("Launch", &launch),
        seed("Benchmark", &benchmark),
        seed("Evaluate", &evaluate),
        seed("GenerateDataset", &v1::GenerateDatasetRequest { pair_count: 2, ..Default::default() }),
    ]
}

fn verify_seeds() -> Vec<Seed> {
    let outputs = |numbers: &[f32]| vec![input("y", tensor(&[3], numbers))];
    let compare = v1::CompareOutputsRequest {
        actual: outputs(&[1.0, 2.0, f32::NAN]),
        expected: outputs(&[1.0, 2.5, 3.0]),
        row_verdicts: true,
        ..Default::default()
    };
    let header = v1::VerifyHeader {
        subject: Some(verify_header::Subject::Kernel(program(LINE))),
        reference: Some(verify_header::Reference::ReferenceKernel(program(LINE))),
        generator: Some(v1::CaseGenerator { case_count: 50, seed: 1, ..Default::default() }),
        ..Default::default()
    };
    let given = v1::VerifyHeader {
        subject: Some(verify_header::Subject::GivenOutputs(v1::GivenOutputs {})),
        reference: Some(verify_header::Reference::ExpectedOutputs(v1::GivenOutputs {})),
        ..Default::default()
    };
    let cases = v1::VerifyCases {
        actual: outputs(&[1.0, 2.0, 3.0]),
        expected: outputs(&[1.0, 2.0, 4.0]),
        ..Default::default()
    };
    let part = |part| v1::VerifyRequest { part: Some(part) }.encode_to_vec();
    let given = vec![part(verify_request::Part::Header(given)), part(verify_request::Part::Cases(cases))];
    vec![
        seed("CompareOutputs", &compare),
        Seed { method: "Verify", messages: vec![part(verify_request::Part::Header(header))] },
        Seed { method: "Verify", messages: given },
    ]
}
