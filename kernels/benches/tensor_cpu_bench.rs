//! Times graphs of tensor operations on the CPU and prints a line of JSON for each case. `tests/bench/baseline_tensor_cpu.py` runs it
//! compared with NumPy.
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::{sync::Arc, time::Instant};

use accelerd_kernels::{
    Backend, Choice, Op, OpError, Settings, discover,
    ops::tensor::{Execute, ExecuteRequest},
};
use accelerd_tensor::{Attribute, Dtype, Graph, GraphSpec, NodeSpec, Plan, TensorType};
use bytes::Bytes;

/// The daemon's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SAMPLES: usize = 9;

/// A graph over f32.
struct Case {
    name: String,
    inputs: Vec<Vec<usize>>,
    nodes: Vec<NodeSpec>,
}

fn main() -> Result<(), OpError> {
    let found =
        discover(&Settings { choice: Choice::Cpu, ..Settings::default() }).unwrap_or_else(|error| panic!("{error}"));
    let mut backend = found.devices.first().expect("the CPU is always there").open()?;
    cases().iter().try_for_each(|case| report(case, &mut backend))
}

fn report(case: &Case, backend: &mut Backend) -> Result<(), OpError> {
    let inputs = case.inputs.iter().map(|shape| TensorType { dtype: Dtype::F32, shape: shape.clone() });
    let spec = GraphSpec {
        inputs: ["a", "b", "c"].map(str::to_owned).into_iter().zip(inputs).collect(),
        nodes: case.nodes.clone(),
        outputs: case.nodes.last().map(|node| node.name.clone()).into_iter().collect(),
    };
    let plan = Plan::new(&Graph::new(&spec).unwrap_or_else(|error| panic!("{}: {error}", case.name)));
    let data: Vec<_> = plan.inputs.iter().map(numbers).collect();
    let request = ExecuteRequest::new(Arc::new(plan), data);
    let mut run = |_| {
        let start = Instant::now();
        Execute::run(&[&request], backend).map(|_| start.elapsed())
    };
    run(0)?;
    let mut times = (0..SAMPLES).map(run).collect::<Result<Vec<_>, _>>()?;
    times.sort_unstable();
    let [least, median, most] = [times[0], times[SAMPLES / 2], times[SAMPLES - 1]].map(|time| time.as_secs_f64() * 1e3);
    println!("{{\"name\": {:?}, \"median_ms\": {median}, \"least_ms\": {least}, \"most_ms\": {most}}}", case.name);
    Ok(())
}

/// Numbers from 0.25 to 2 that look like noise.
fn numbers(of: &TensorType) -> Bytes {
    let mut state = 1_u32;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        0.25 + (state >> 8) as f32 * (1.75 / (1 << 24) as f32)
    });
    Bytes::from(noise.take(of.elements()).flat_map(f32::to_le_bytes).collect::<Vec<_>>())
}

fn node(name: &str, op: &str, inputs: &[&str], attributes: &[(&str, Attribute)]) -> NodeSpec {
    NodeSpec {
        name: name.to_owned(),
        op: op.to_owned(),
        inputs: inputs.iter().map(|name| (*name).to_owned()).collect(),
        attributes: attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
    }
}

/// The cases of the baseline, by the same names.
fn cases() -> Vec<Case> {
    let flat = || vec![1 << 24];
    let rows = || vec![4096, 4096];
    let case = |name: &str, inputs, nodes| Case { name: name.to_owned(), inputs, nodes };
    let one = |name: &str, op: &str, shape: Vec<usize>, attributes: &[_]| {
        case(name, vec![shape], vec![node("y", op, &["a"], attributes)])
    };
    let dim = |value| ("dim", Attribute::Int(value));
    let mut cases: Vec<_> = ["add", "mul", "div", "maximum", "pow", "lt"]
        .into_iter()
        .map(|op| case(op, vec![flat(), flat()], vec![node("y", op, &["a", "b"], &[])]))
        .collect();
    cases.extend(["abs", "sqrt", "exp", "log", "tanh", "sin", "floor"].map(|op| one(op, op, flat(), &[])));
    cases.extend([
        case("chain of ten", vec![flat()], chain()),
        one("to f64", "to", flat(), &[("dtype", Attribute::Text("f64".to_owned()))]),
        one("sum", "sum", flat(), &[]),
        one("sum of rows", "sum", rows(), &[dim(1)]),
        one("sum of columns", "sum", rows(), &[dim(0)]),
        one("var of rows", "var", rows(), &[dim(1)]),
        one("amax of rows", "amax", rows(), &[dim(1)]),
        one("argmax of rows", "argmax", rows(), &[dim(1)]),
        one("cumsum of rows", "cumsum", rows(), &[dim(1)]),
        one("softmax of rows", "softmax", rows(), &[dim(1)]),
        one("transpose", "transpose", rows(), &[("dim0", Attribute::Int(0)), ("dim1", Attribute::Int(1))]),
        one("flip", "flip", flat(), &[("dims", Attribute::Ints(vec![0]))]),
        case("concat", vec![rows(), rows()], vec![node("y", "concat", &["a", "b"], &[])]),
        one("sort of columns", "msort", vec![1024, 1024], &[]),
        one("small add", "add", vec![100], &[("other", Attribute::Float(1.0))]),
    ]);
    cases.extend([128, 512, 1024, 2048].map(|side| {
        let shape = vec![side, side];
        case(&format!("matmul {side}"), vec![shape.clone(), shape], vec![node("y", "matmul", &["a", "b"], &[])])
    }));
    let batched = vec![64, 128, 128];
    cases.push(case("matmul 64 x 128", vec![batched.clone(), batched], vec![node("y", "matmul", &["a", "b"], &[])]));
    cases.push(case("matrix times vector", vec![rows(), vec![4096]], vec![node("y", "matmul", &["a", "b"], &[])]));
    cases
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
    let chained = ops.into_iter().enumerate().map(|(nth, (op, other))| {
        let before = if nth == 0 { "a".to_owned() } else { format!("n{}", nth - 1) };
        let attributes: &[_] = if other == 0.0 { &[] } else { &[("other", Attribute::Float(other))] };
        node(&format!("n{nth}"), op, &[&before], attributes)
    });
    chained.collect()
}
