//! Times graphs of tensor operations on a GPU, with inputs that are there already: medians, bandwidth, and arithmetic rate. Prints
//! one line a case; `tests/bench/baseline_tensor.py` prints the same cases of PyTorch. Then times repeated executions of small graphs,
//! from the upload of their inputs to the download of their outputs.
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use accelerd_kernels::{
    Backend, Choice, DeviceId, Op, OpError, Settings, cuda, discover,
    ops::tensor::{Execute, ExecuteRequest},
};
use accelerd_tensor::{Attribute, Dtype, Graph, GraphSpec, NodeSpec, Plan, TensorType};
use bytes::Bytes;

const SAMPLES: usize = 9;
const RUNS: u32 = 10;

/// A graph over inputs of one type, and lower bounds of the bytes that it moves and the operations that it computes.
struct Case {
    name: &'static str,
    dtype: Dtype,
    inputs: &'static [&'static [usize]],
    nodes: Vec<NodeSpec>,
    flops: f64,
}

fn main() -> Result<(), OpError> {
    let folders = std::env::var_os("ACCELERD_CUDA_LIBRARY_PATH").unwrap_or_default();
    let settings = Settings {
        choice: Choice::Cuda,
        cuda_library_paths: std::env::split_paths(&folders).filter(|path| path != &PathBuf::new()).collect(),
        ..Settings::default()
    };
    let found = discover(&settings).unwrap_or_else(|error| panic!("{error}"));
    let device = found.devices.iter().find(|device| device.id() != DeviceId::Cpu).expect("discovery found a GPU");
    let mut backend = device.open()?;
    let Backend::Cuda(worker) = &backend else { panic!("a GPU opens as one") };
    for case in cases() {
        report(&case, worker)?;
    }
    [1, 20, 200].into_iter().try_for_each(|steps| report_repeated(steps, &mut backend))
}

/// Executions of a graph of small steps, of which no two share a kernel: the first prepares it, the second captures it.
fn report_repeated(steps: usize, backend: &mut Backend) -> Result<(), OpError> {
    const EXECUTIONS: usize = 200;
    let of = TensorType { dtype: Dtype::F32, shape: vec![1024] };
    let before = |nth: usize| if nth == 0 { "x".to_owned() } else { format!("n{}", nth - 1) };
    let step = |nth: usize| {
        let softmax = [("dim", Attribute::Int(0))];
        let (op, attributes): (_, &[_]) =
            if nth.is_multiple_of(2) { ("layer_norm", &[]) } else { ("softmax", &softmax) };
        NodeSpec { name: format!("n{nth}"), ..node(op, &[&before(nth)], attributes) }
    };
    let spec = GraphSpec {
        inputs: vec![("x".to_owned(), of.clone())],
        nodes: (0..steps).map(step).collect(),
        outputs: vec![format!("n{}", steps - 1)],
    };
    let plan = Plan::new(&Graph::new(&spec).unwrap_or_else(|error| panic!("{error}")));
    assert_eq!(plan.steps.len(), steps, "a step for each node");
    let moved = plan.workload().moved();
    let request = ExecuteRequest::new(Arc::new(plan), vec![numbers(&of)]);
    let before = moved_bytes(backend);
    let mut execution = |_| {
        let start = Instant::now();
        Execute::run(&[&request], backend).map(|_| start.elapsed())
    };
    let mut times = (0..EXECUTIONS).map(&mut execution).collect::<Result<Vec<Duration>, _>>()?;
    let counted = moved_bytes(backend) - before;
    assert_eq!(counted, moved * EXECUTIONS as u64, "replayed graphs count the bytes of their kernels");
    let [first, second] = [times[0], times[1]];
    let later = &mut times[EXECUTIONS / 2..];
    later.sort_unstable();
    let median = later[later.len() / 2];
    println!(
        "{steps:>3} steps on 1024 f32: first {first:.1?}, second {second:.1?}, median of the last {}: {median:.1?}, {:.2?} a step",
        later.len(),
        median.div_f64(steps as f64)
    );
    Ok(())
}

/// Bytes that all kernels of a GPU have moved.
fn moved_bytes(backend: &Backend) -> u64 {
    let Backend::Cuda(worker) = backend else { return 0 };
    worker.device().kernel_stats().iter().map(|kernel| kernel.moved_bytes).sum()
}

fn report(case: &Case, worker: &cuda::Worker) -> Result<(), OpError> {
    let input = |shape: &&[usize]| TensorType { dtype: case.dtype, shape: shape.to_vec() };
    let inputs: Vec<_> = case.inputs.iter().map(input).collect();
    let names = ["a", "b", "c"].map(str::to_owned);
    let spec = GraphSpec {
        inputs: names.into_iter().zip(inputs.iter().cloned()).collect(),
        nodes: case.nodes.clone(),
        outputs: case.nodes.last().map(|node| node.name.clone()).into_iter().collect(),
    };
    let plan = Plan::new(&Graph::new(&spec).unwrap_or_else(|error| panic!("{}: {error}", case.name)));
    let data: Vec<_> = inputs.iter().map(numbers).collect();
    let bytes: usize = plan.inputs.iter().chain(&plan.outputs).map(TensorType::bytes).sum();
    let steps = plan.steps.len();
    let request = ExecuteRequest::new(Arc::new(plan), data);
    let mut times = request.time_on_gpu(worker, SAMPLES, RUNS)?;
    times.sort_unstable();
    let seconds = times[SAMPLES / 2].as_secs_f64();
    let spread = times[SAMPLES - 1].saturating_sub(times[0]).div_duration_f64(times[SAMPLES / 2]) * 100.0;
    let rate = if case.flops > 0.0 {
        format!("{:.1} TFLOP/s", case.flops / seconds / 1e12)
    } else {
        format!("{:.2} TB/s", bytes as f64 / seconds / 1e12)
    };
    println!("{:<44} {:>9.4} ms ±{spread:>2.0}%  {rate:>14}  {steps} steps", case.name, seconds * 1e3);
    Ok(())
}

/// Numbers between -2 and 2 that look like noise.
fn numbers(of: &TensorType) -> Bytes {
    let mut state = 1_u32;
    let noise = std::iter::repeat_with(move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 8) / f64::from(1 << 22) - 2.0
    });
    let period: Vec<u8> = noise
        .take(1 << 20)
        .flat_map(|x| {
            accelerd_tensor::scalar::Literal::from_f64(of.dtype, x)
                .bits()
                .to_le_bytes()
                .into_iter()
                .take(of.dtype.size())
        })
        .collect();
    Bytes::from(period.iter().copied().cycle().take(of.bytes()).collect::<Vec<_>>())
}

fn node(op: &str, inputs: &[&str], attributes: &[(&str, Attribute)]) -> NodeSpec {
    NodeSpec {
        name: format!("{op}_of_{}", inputs.join("_")),
        op: op.to_owned(),
        inputs: inputs.iter().map(|name| (*name).to_owned()).collect(),
        attributes: attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
    }
}

fn cases() -> Vec<Case> {
    const FLAT: &[usize] = &[128 << 20];
    const ROWS: &[usize] = &[16_384, 4096];
    const COLUMNS: &[usize] = &[4096];
    let last = ("dim", Attribute::Int(-1));
    let case = |name, dtype, inputs, nodes| Case { name, dtype, inputs, nodes, flops: 0.0 };
    let mut cases = vec![
        case("add, 128M f32", Dtype::F32, &[FLAT, FLAT], vec![node("add", &["a", "b"], &[])]),
        case("add, 128M bf16", Dtype::Bf16, &[FLAT, FLAT], vec![node("add", &["a", "b"], &[])]),
        case("chain of ten, 128M f32", Dtype::F32, &[FLAT], chain()),
        case("add, 10M f32", Dtype::F32, &[&[10_000_000], &[10_000_000]], vec![node("add", &["a", "b"], &[])]),
        case("relu, 1M f32", Dtype::F32, &[&[1_000_000]], vec![node("relu", &["a"], &[])]),
        case("gelu, 16384 x 4096 f32", Dtype::F32, &[ROWS], vec![node("gelu", &["a"], &[])]),
        case(
            "softmax, 16384 x 4096 f32",
            Dtype::F32,
            &[ROWS],
            vec![node("softmax", &["a"], std::slice::from_ref(&last))],
        ),
        case(
            "layer_norm, 16384 x 4096 f32",
            Dtype::F32,
            &[ROWS, COLUMNS, COLUMNS],
            vec![node("layer_norm", &["a", "b", "c"], &[])],
        ),
        case("layer_norm of a sum, 16384 x 4096 f32", Dtype::F32, &[ROWS, ROWS, COLUMNS], {
            let sum = node("add", &["a", "b"], &[]);
            let norm = node("layer_norm", &[&sum.name, "c"], &[]);
            vec![sum, norm]
        }),
        case(
            "sum of rows, 16384 x 4096 f32",
            Dtype::F32,
            &[ROWS],
            vec![node("sum", &["a"], std::slice::from_ref(&last))],
        ),
        case(
            "sum of columns, 16384 x 4096 f32",
            Dtype::F32,
            &[ROWS],
            vec![node("sum", &["a"], &[("dim", Attribute::Int(0))])],
        ),
        case("sum, 128M f32", Dtype::F32, &[FLAT], vec![node("sum", &["a"], &[])]),
        case("argmax of rows, 16384 x 4096 f32", Dtype::F32, &[ROWS], vec![node("argmax", &["a"], &[last])]),
        case(
            "transpose, 16384 x 4096 f32",
            Dtype::F32,
            &[ROWS],
            vec![node("transpose", &["a"], &[("dim0", Attribute::Int(0)), ("dim1", Attribute::Int(1))])],
        ),
    ];
    for (name, dtype, shapes) in [
        ("matmul 128, f32", Dtype::F32, [&[128, 128][..]; 2]),
        ("matmul 512, f32", Dtype::F32, [&[512, 512]; 2]),
        ("matmul 1024, f32", Dtype::F32, [&[1024, 1024]; 2]),
        ("matmul 2048, f32", Dtype::F32, [&[2048, 2048]; 2]),
        ("matmul 8192, f32", Dtype::F32, [&[8192, 8192]; 2]),
        ("matmul 8192, bf16", Dtype::Bf16, [&[8192, 8192]; 2]),
    ] {
        let (shapes, extent): (&[&[usize]], _) = (Box::leak(Box::new(shapes)), shapes[0][0] as f64);
        let flops = 2.0 * extent.powi(3);
        cases.push(Case { name, dtype, inputs: shapes, nodes: vec![node("matmul", &["a", "b"], &[])], flops });
    }
    let gelu = [("activation", Attribute::Text("gelu".to_owned()))];
    cases.push(Case {
        name: "linear 768 -> 3072 + gelu, 8192 rows bf16",
        dtype: Dtype::Bf16,
        inputs: &[&[8192, 768], &[3072, 768], &[3072]],
        nodes: vec![node("linear", &["a", "b", "c"], &gelu)],
        flops: 2.0 * 8192.0 * 768.0 * 3072.0,
    });
    cases.extend(windows());
    cases.extend(attentions());
    cases
}

/// Convolutions and pooling.
fn windows() -> Vec<Case> {
    const IMAGES: &[usize] = &[32, 64, 128, 128];
    const FILTERS: &[usize] = &[128, 64, 3, 3];
    const CHANNELS: &[usize] = &[64];
    let high = [("precision", Attribute::Text("high".to_owned()))];
    let int = |name, value| (name, Attribute::Int(value));
    let conv = |name, dtype, attributes: &[_]| Case {
        name,
        dtype,
        inputs: &[IMAGES, FILTERS],
        nodes: vec![node("conv2d", &["a", "b"], attributes)],
        flops: 2.0 * 32.0 * 126.0 * 126.0 * 128.0 * 64.0 * 9.0,
    };
    let pool = |name, op, attributes: &[_]| Case {
        name,
        dtype: Dtype::F32,
        inputs: &[IMAGES],
        nodes: vec![node(op, &["a"], attributes)],
        flops: 0.0,
    };
    let overlapping = [int("kernel_size", 3), int("stride", 1), int("padding", 1)];
    let batch_norm = Case {
        name: "batch_norm, 32 x 64 x 128 x 128 f32",
        dtype: Dtype::F32,
        inputs: &[IMAGES, CHANNELS, CHANNELS],
        nodes: vec![node("square", &["c"], &[]), node("batch_norm", &["a", "b", "square_of_c"], &[])],
        flops: 0.0,
    };
    vec![
        batch_norm,
        conv("conv2d 64 -> 128, 32 x 128 x 128, f32", Dtype::F32, &[]),
        conv("conv2d 64 -> 128, 32 x 128 x 128, tf32", Dtype::F32, &high),
        conv("conv2d 64 -> 128, 32 x 128 x 128, bf16", Dtype::Bf16, &[]),
        pool("max_pool2d 2 x 2, 32 x 64 x 128 x 128 f32", "max_pool2d", &[int("kernel_size", 2)]),
        pool("avg_pool2d 3 x 3, 32 x 64 x 128 x 128 f32", "avg_pool2d", &overlapping),
    ]
}

/// Attention.
fn attentions() -> Vec<Case> {
    let mut cases = vec![];
    for (name, shape) in [
        ("attention 4 x 8 x 512 x 64, bf16", &[4, 8, 512, 64]),
        ("attention 4 x 16 x 4096 x 128, bf16", &[4, 16, 4096, 128]),
        ("attention 64 x 12 x 512 x 64, bf16", &[64, 12, 512, 64]),
        ("attention 4 x 16 x 4096 x 128, causal bf16", &[4, 16, 4096, 128]),
    ] {
        let [batch, heads, rows, dim] = *shape;
        let shapes: &[&[usize]] = Box::leak(Box::new([&shape[..]; 3]));
        let is_causal = name.contains("causal");
        let share = if is_causal { 0.5 } else { 1.0 };
        cases.push(Case {
            name,
            dtype: Dtype::Bf16,
            inputs: shapes,
            nodes: vec![attention(&[("is_causal", Attribute::Bool(is_causal))])],
            flops: share * 4.0 * (batch * heads * rows * rows * dim) as f64,
        });
    }
    cases.push(Case {
        name: "attention of 1 query to 32768 keys, 8 x 8 x 128, bf16",
        dtype: Dtype::Bf16,
        inputs: &[&[8, 8, 1, 128], &[8, 8, 32_768, 128], &[8, 8, 32_768, 128]],
        nodes: vec![attention(&[])],
        flops: 0.0,
    });
    cases.push(Case {
        name: "attention 4 x 8 x 2048 x 64, f32",
        dtype: Dtype::F32,
        inputs: &[&[4, 8, 2048, 64], &[4, 8, 2048, 64], &[4, 8, 2048, 64]],
        nodes: vec![attention(&[])],
        flops: 4.0 * 4.0 * 8.0 * 2048.0 * 2048.0 * 64.0,
    });
    cases
}

fn attention(attributes: &[(&str, Attribute)]) -> NodeSpec {
    node("scaled_dot_product_attention", &["a", "b", "c"], attributes)
}

/// Ten elementwise operations one after the other.
fn chain() -> Vec<NodeSpec> {
    let ops = [
        ("mul", 1.5),
        ("add", 0.25),
        ("abs", 0.0),
        ("sqrt", 0.0),
        ("mul", 0.75),
        ("sub", 0.5),
        ("tanh", 0.0),
        ("mul", 2.0),
        ("add", 1.0),
        ("relu", 0.0),
    ];
    let mut nodes: Vec<NodeSpec> = vec![];
    for (nth, (op, other)) in ops.into_iter().enumerate() {
        let before = nodes.last().map_or_else(|| "a".to_owned(), |node: &NodeSpec| node.name.clone());
        let attributes: &[_] = if other == 0.0 { &[] } else { &[("other", Attribute::Float(other))] };
        nodes.push(NodeSpec { name: format!("n{nth}"), ..node(op, &[&before], attributes) });
    }
    nodes
}
