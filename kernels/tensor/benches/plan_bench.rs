//! Measures how long graphs take to be checked and planned, by their number of nodes.
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

use std::time::{Duration, Instant};

use accelerd_tensor::{Attribute, Dtype, Graph, GraphSpec, NodeSpec, Plan, TensorType};

const RUNS: usize = 9;

fn main() {
    for (name, graph) in GRAPHS {
        for nodes in [20, 500, 4000] {
            let spec = graph(nodes);
            let checked = Graph::new(&spec).unwrap_or_else(|error| panic!("{name}: {error}"));
            let check = median(|| Graph::new(&spec).map(drop));
            let plan = median(|| Plan::new(&checked));
            let steps = Plan::new(&checked).steps.len();
            println!("{name:<24} {nodes:>5} nodes  check {check:>9.1?}  plan {plan:>9.1?}  {steps:>5} steps");
        }
    }
}

type MakeGraph = fn(usize) -> GraphSpec;

const GRAPHS: [(&str, MakeGraph); 13] = [
    ("chain", chain),
    ("small steps", small_steps),
    ("random", random),
    ("layers", layers),
    ("live until the end", live_until_the_end),
    ("optimisers in a chain", |nodes| chain_of(nodes, "adamw")),
    ("optimisers", |nodes| side_by_side(nodes, "adamw")),
    ("random numbers", |nodes| side_by_side(nodes, "randn")),
    ("losses", |nodes| side_by_side(nodes, "cross_entropy")),
    ("normalisations", |nodes| chain_of(nodes, "batch_norm")),
    ("sorts", |nodes| chain_of(nodes, "sort")),
    ("training", training),
    ("paths around", paths_around),
];

fn median<T>(mut run: impl FnMut() -> T) -> Duration {
    let time = |_| {
        let start = Instant::now();
        let result = run();
        let took = start.elapsed();
        drop(result);
        took
    };
    let mut times: Vec<_> = (0..RUNS).map(time).collect();
    times.sort_unstable();
    times[RUNS / 2]
}

/// Elementwise operations one after the other.
fn chain(nodes: usize) -> GraphSpec {
    let before = |nth: usize| if nth == 0 { "x".to_owned() } else { name(nth - 1) };
    spec((0..nodes).map(|nth| node(nth, "add", &[&before(nth), "y"])).collect())
}

/// Operations that share no kernel.
fn small_steps(nodes: usize) -> GraphSpec {
    let before = |nth: usize| if nth == 0 { "x".to_owned() } else { name(nth - 1) };
    let op = |nth: usize| {
        if nth.is_multiple_of(2) { node(nth, "softmax", &[&before(nth)]) } else { node(nth, "exp", &[&before(nth)]) }
    };
    spec((0..nodes).map(op).collect())
}

/// Elementwise operations, transpositions and products, each of which reads any of the 50 values before it.
fn random(nodes: usize) -> GraphSpec {
    let mut state = 1_u32;
    let mut next = |below: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % below
    };
    let mut list: Vec<NodeSpec> = vec![];
    for nth in 0..nodes {
        let mut any = || if nth == 0 { "x".to_owned() } else { name(nth - 1 - next(nth.min(50))) };
        let (a, b) = (any(), any());
        list.push(match next(8) {
            0 => node(nth, "transpose", &[&a]),
            1 => node(nth, "matmul", &[&a, &b]),
            _ => node(nth, "add", &[&a, &b]),
        });
    }
    spec(list)
}

/// Layers of ten operations with residual connections, each of which reads a mask that is computed first.
fn layers(nodes: usize) -> GraphSpec {
    let mut list = vec![node(0, "exp", &["y"])];
    while list.len() + 10 <= nodes {
        let first = list.len();
        let at = |nth: usize| name(first + nth);
        let input = if first == 1 { "x".to_owned() } else { name(first - 1) };
        let ops: [(&str, Vec<String>); 10] = [
            ("matmul", vec![input.clone(), "y".to_owned()]),
            ("add", vec![at(0), name(0)]),
            ("softmax", vec![at(1)]),
            ("matmul", vec![at(2), "x".to_owned()]),
            ("add", vec![at(3), input]),
            ("mul", vec![at(4), at(4)]),
            ("matmul", vec![at(5), "y".to_owned()]),
            ("tanh", vec![at(6)]),
            ("mul", vec![at(7), name(0)]),
            ("add", vec![at(8), at(4)]),
        ];
        for (nth, (op, inputs)) in ops.iter().enumerate() {
            let inputs: Vec<_> = inputs.iter().map(String::as_str).collect();
            list.push(node(first + nth, op, &inputs));
        }
    }
    spec(list)
}

/// Products that are all read by one concatenation.
fn live_until_the_end(nodes: usize) -> GraphSpec {
    let mut list: Vec<_> = (0..nodes - 1).map(|nth| node(nth, "matmul", &["x", "y"])).collect();
    let names: Vec<_> = (0..nodes - 1).map(name).collect();
    list.push(node(nodes - 1, "concat", &names.iter().map(String::as_str).collect::<Vec<_>>()));
    spec(list)
}

/// Composites, each of which reads the first result of the one before.
fn chain_of(nodes: usize, op: &str) -> GraphSpec {
    let before = |nth: usize| if nth == 0 { "x".to_owned() } else { name(nth - 1) };
    spec((0..nodes).map(|nth| composite(nth, op, &before(nth))).collect())
}

/// Composites of the same operands, whose first results are added up.
fn side_by_side(nodes: usize, op: &str) -> GraphSpec {
    let mut list: Vec<_> = (0..nodes / 2).map(|nth| composite(nth, op, "x")).collect();
    for nth in nodes / 2..nodes {
        let before = if nth == nodes / 2 { "x".to_owned() } else { name(nth - 1) };
        list.push(node(nth, "add", &[&before, &name(nth - nodes / 2)]));
    }
    spec(list)
}

/// Steps of an optimiser, each of which reads all results of the one before.
fn training(nodes: usize) -> GraphSpec {
    let mut list: Vec<_> = (0..nodes).map(|nth| composite(nth, "adamw", "x")).collect();
    for (nth, node) in list.iter_mut().enumerate().skip(1) {
        let before = name(nth - 1);
        node.inputs = vec![before.clone(), "y".to_owned(), format!("{before}:1"), format!("{before}:2")];
    }
    spec(list)
}

/// Normalisations one after the other, and sums of the last one's output and the first one's input: they must not be merged.
fn paths_around(nodes: usize) -> GraphSpec {
    let mut list = vec![node(0, "exp", &["x"])];
    list.extend((1..nodes / 2).map(|nth| composite(nth, "batch_norm", &name(nth - 1))));
    let last = name(nodes / 2 - 1);
    list[nodes / 2 - 1] = node(nodes / 2 - 1, "matmul", &[&name(nodes / 2 - 2), "y"]);
    list.extend((nodes / 2..nodes - 1).map(|nth| node(nth, "add", &[&name(0), &last])));
    let sums: Vec<_> = (nodes / 2..nodes - 1).map(name).collect();
    list.push(node(nodes - 1, "concat", &sums.iter().map(String::as_str).collect::<Vec<_>>()));
    spec(list)
}

fn composite(nth: usize, op: &str, x: &str) -> NodeSpec {
    let (inputs, attributes): (&[&str], Vec<(&str, Attribute)>) = match op {
        "adamw" => (&[x, "y", "y", "y"], vec![("step", Attribute::Int(1))]),
        "randn" => (&[], vec![("shape", Attribute::Ints(vec![32, 32])), ("seed", Attribute::Int(0))]),
        "cross_entropy" => (&[x, "y"], vec![]),
        "batch_norm" => {
            (&[x], vec![("training", Attribute::Bool(true)), ("track_running_stats", Attribute::Bool(false))])
        }
        _ => (&[x], vec![]),
    };
    let mut node = node(nth, op, inputs);
    node.attributes = attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    node
}

fn name(nth: usize) -> String {
    format!("n{nth}")
}

fn node(nth: usize, op: &str, inputs: &[&str]) -> NodeSpec {
    let attributes: &[(&str, i64)] = match op {
        "softmax" => &[("dim", 0)],
        "transpose" => &[("dim0", 0), ("dim1", 1)],
        _ => &[],
    };
    NodeSpec {
        name: name(nth),
        op: op.to_owned(),
        inputs: inputs.iter().map(|name| (*name).to_owned()).collect(),
        attributes: attributes.iter().map(|(name, value)| ((*name).to_owned(), Attribute::Int(*value))).collect(),
    }
}

/// A graph of square matrices that returns the last node.
fn spec(nodes: Vec<NodeSpec>) -> GraphSpec {
    let of = TensorType { dtype: Dtype::F32, shape: vec![32, 32] };
    let outputs = nodes.last().map(|node| node.name.clone()).into_iter().collect();
    GraphSpec { inputs: vec![("x".to_owned(), of.clone()), ("y".to_owned(), of)], nodes, outputs }
}
