//! Tests of plans: their steps, and properties of their [`memory`].

use std::collections::BTreeMap;

use crate::{Attribute, Dtype, Graph, GraphSpec, Location, NodeSpec, Plan, Step, TensorType, View, scalar::Function};

mod memory;

fn tensor(dtype: Dtype, shape: &[usize]) -> TensorType {
    TensorType { dtype, shape: shape.to_vec() }
}

fn node(name: &str, op: &str, inputs: &[&str], attributes: &[(&str, Attribute)]) -> NodeSpec {
    let attributes: BTreeMap<_, _> =
        attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let inputs = inputs.iter().map(|name| (*name).to_owned()).collect();
    NodeSpec { name: name.to_owned(), op: op.to_owned(), inputs, attributes }
}

fn spec(inputs: &[(&str, TensorType)], nodes: Vec<NodeSpec>, outputs: &[&str]) -> GraphSpec {
    let inputs = inputs.iter().map(|(name, of)| ((*name).to_owned(), of.clone())).collect();
    GraphSpec { inputs, nodes, outputs: outputs.iter().map(|name| (*name).to_owned()).collect() }
}

fn plan(spec: &GraphSpec) -> Plan {
    Plan::new(&Graph::new(spec).expect("a valid graph"))
}

fn ints(values: &[i64]) -> Attribute {
    Attribute::Ints(values.to_vec())
}

#[test]
fn a_chain_of_elementwise_operations_is_one_step_without_memory() {
    let of = tensor(Dtype::F32, &[1000, 3]);
    let mut nodes = vec![node("n0", "exp", &["x"], &[])];
    for nth in 1..10 {
        nodes.push(node(&format!("n{nth}"), "add", &[&format!("n{}", nth - 1), "x"], &[]));
    }
    let plan = plan(&spec(&[("x", of)], nodes, &["n9"]));
    assert_eq!((plan.steps.len(), plan.arena_bytes), (1, 0));
    let Step::Map(step) = &plan.steps[0] else { panic!("a map, not {:?}", plan.steps[0]) };
    assert_eq!((step.inputs.len(), step.outputs.len()), (1, 1));
    assert_eq!(step.outputs[0].location, Location::Output(0));
}

#[test]
fn a_value_that_is_also_an_output_is_written_by_the_same_step() {
    let of = tensor(Dtype::F32, &[8]);
    let nodes = vec![node("a", "exp", &["x"], &[]), node("b", "exp", &["a"], &[])];
    let plan = plan(&spec(&[("x", of)], nodes, &["b", "a", "a"]));
    let Step::Map(first) = &plan.steps[0] else { panic!("a map") };
    assert_eq!(first.outputs.len(), 2);
    assert_eq!(plan.steps.len(), 2, "the second copy of an output is a step of its own");
}

#[test]
fn operations_that_a_third_one_separates_do_not_share_a_step() {
    let of = tensor(Dtype::F32, &[4, 4]);
    let nodes = vec![
        node("a", "exp", &["x"], &[]),
        node("t", "transpose", &["a"], &[("dim0", Attribute::Int(0)), ("dim1", Attribute::Int(1))]),
        node("b", "add", &["a", "t"], &[]),
    ];
    let plan = plan(&spec(&[("x", of)], nodes, &["b"]));
    assert_eq!(plan.steps.len(), 2);
    let Step::Map(second) = &plan.steps[1] else { panic!("a map") };
    assert_eq!(second.inputs[1].layout.strides, [1, 4], "a transposition is a view");
}

#[test]
fn a_reduction_computes_the_operations_before_it() {
    let of = tensor(Dtype::F32, &[5, 7]);
    let nodes = vec![node("a", "mul", &["x", "x"], &[]), node("b", "sum", &["a"], &[("dim", Attribute::Int(0))])];
    let plan = plan(&spec(&[("x", of)], nodes, &["b"]));
    let [Step::Reduce(step)] = &plan.steps[..] else { panic!("one reduction, not {:?}", plan.steps) };
    assert_eq!((&step.outer[..], &step.inner[..]), (&[7][..], &[5][..]));
    assert_eq!(step.inputs[0].layout.strides, [1, 7]);
}

/// Operations on the rows of their operand.
const ROW_OPS: [&str; 4] = ["softmax", "log_softmax", "layer_norm", "rms_norm"];

/// A node `y` of an operation on the rows of `operand`.
fn row_op(op: &str, operand: &str) -> NodeSpec {
    let dim = [("dim", Attribute::Int(-1))];
    node("y", op, &[operand], if op.ends_with("softmax") { &dim } else { &[] })
}

/// The inputs and the prologue of a step on rows.
fn rows_of(step: &Step) -> (&[View], &Function) {
    if let Step::Softmax(step) = step {
        return (&step.inputs, &step.prologue);
    }
    let Step::Norm(step) = step else { panic!("softmax or a norm, not {step:?}") };
    (&step.inputs, &step.prologue)
}

#[test]
fn softmax_and_norms_compute_the_operations_before_them() {
    let chain = (0..10).map(|nth: usize| {
        let before = nth.checked_sub(1).map_or("x".to_owned(), |before| format!("n{before}"));
        let (op, other) = [("add", "row"), ("mul", "z"), ("sub", "one")][nth % 3];
        node(&format!("n{nth}"), op, &[&before, other], &[])
    });
    let of = |shape: &[usize]| tensor(Dtype::F32, shape);
    let inputs = [("x", of(&[6, 5, 8])), ("z", of(&[6, 5, 8])), ("row", of(&[8])), ("one", of(&[1]))];
    for op in ROW_OPS {
        let plan = plan(&spec(&inputs, chain.clone().chain([row_op(op, "n9")]).collect(), &["y"]));
        assert_eq!((plan.steps.len(), plan.arena_bytes), (1, 0), "{op}: {:?}", plan.steps);
        let (views, prologue) = rows_of(&plan.steps[0]);
        assert!(views.iter().all(|view| view.layout.shape == [30, 8]), "{op}");
        let strides: Vec<_> = views.iter().map(|view| &view.layout.strides[..]).collect();
        assert_eq!(strides, [[8, 1], [0, 1], [8, 1], [0, 0]], "{op}");
        assert_eq!(prologue.params(), [Dtype::F32; 4]);
    }
}

#[test]
fn a_cast_before_softmax_or_a_norm_is_a_part_of_it() {
    for op in ROW_OPS {
        let to = [("dtype", Attribute::Text("bf16".to_owned()))];
        let nodes = vec![node("a", "to", &["x"], &to), row_op(op, "a")];
        let plan = plan(&spec(&[("x", tensor(Dtype::F64, &[3, 8]))], nodes, &["y"]));
        let [step] = &plan.steps[..] else { panic!("one step, not {:?}", plan.steps) };
        assert_eq!(*rows_of(step).1, Function::conversion(Dtype::F64, Dtype::Bf16));
    }
}

#[test]
fn operations_before_softmax_or_a_norm_that_others_need_are_written() {
    for op in ROW_OPS {
        for outputs in [&["y", "a"][..], &["y", "other"], &["y", "sum"]] {
            let add = node("a", "add", &["x", "x"], &[]);
            let sum = node("sum", "sum", &["a"], &[("dim", Attribute::Int(0))]);
            let nodes = vec![add, row_op(op, "a"), node("other", "exp", &["a"], &[]), sum];
            let nodes =
                nodes.into_iter().filter(|one| ["a", "y"].contains(&&*one.name) || outputs.contains(&&*one.name));
            let plan = plan(&spec(&[("x", tensor(Dtype::F32, &[4, 8]))], nodes.collect(), outputs));
            assert!(matches!(plan.steps[0], Step::Map(_)), "{op} {outputs:?}: {:?}", plan.steps);
        }
    }
    let nodes = vec![node("a", "exp", &["w"], &[]), node("y", "rms_norm", &["x", "a"], &[])];
    let plan = plan(&spec(&[("x", tensor(Dtype::F32, &[4, 8])), ("w", tensor(Dtype::F32, &[8]))], nodes, &["y"]));
    assert_eq!(plan.steps.len(), 2, "a weight is computed once, and not for each row");
}

#[test]
fn operations_that_kernels_of_rows_cannot_compute_fast_are_steps() {
    let of = |shape: &[usize]| tensor(Dtype::F32, shape);
    let inputs = [("x", of(&[8, 8])), ("column", of(&[8, 1])), ("p", of(&[8])), ("q", of(&[8])), ("r", of(&[8]))];
    let swap = [("dim0", Attribute::Int(0)), ("dim1", Attribute::Int(1))];
    let every_other = [("dim", Attribute::Int(1)), ("step", Attribute::Int(2))];
    let random = [("p", Attribute::Float(0.5)), ("seed", Attribute::Int(1)), ("offset", Attribute::Int(0))];
    for op in ROW_OPS {
        let first_step_is_a_map = |before: Vec<NodeSpec>| {
            let nodes = before.into_iter().chain([row_op(op, "a")]).collect();
            let plan = plan(&spec(&inputs, nodes, &["y"]));
            assert!(matches!(plan.steps[..], [Step::Map(_), ..]), "{op}: {:?}", plan.steps);
        };
        first_step_is_a_map(vec![node("t", "transpose", &["x"], &swap), node("a", "add", &["x", "t"], &[])]);
        first_step_is_a_map(vec![node("a", "add", &["x", "column"], &[])]);
        first_step_is_a_map(vec![node("s", "slice", &["x"], &every_other), node("a", "exp", &["s"], &[])]);
        first_step_is_a_map(vec![node("a", "dropout", &["x"], &random)]);
        let sums = [("b", ["x", "p"]), ("c", ["b", "q"]), ("d", ["c", "r"]), ("a", ["d", "column"])];
        first_step_is_a_map(sums.map(|(name, operands)| node(name, "add", &operands, &[])).to_vec());
    }
    for op in ["softmax", "log_softmax"] {
        let nodes = vec![node("a", "exp", &["x"], &[]), node("y", op, &["a"], &[("dim", Attribute::Int(0))])];
        let steps = plan(&spec(&inputs, nodes, &["y"])).steps;
        assert!(matches!(steps[0], Step::Map(_)), "{op} of columns: {steps:?}");
    }
}

#[test]
fn views_cost_nothing_until_an_output_needs_them_in_order() {
    let of = tensor(Dtype::I32, &[2, 3, 4]);
    let nodes = vec![
        node("p", "permute", &["x"], &[("dims", ints(&[2, 0, 1]))]),
        node(
            "s",
            "slice",
            &["p"],
            &[("dim", Attribute::Int(0)), ("start", Attribute::Int(-1)), ("step", Attribute::Int(-2))],
        ),
        node("r", "reshape", &["s"], &[("shape", ints(&[-1]))]),
    ];
    let plan = plan(&spec(&[("x", of)], nodes, &["r"]));
    assert_eq!(plan.outputs[0], tensor(Dtype::I32, &[12]));
    assert_eq!(plan.steps.len(), 1, "one copy");
}

#[test]
fn products_fold_the_batch_of_the_left_factor() {
    let nodes = vec![node("y", "linear", &["x", "w", "b"], &[])];
    let inputs =
        [("x", tensor(Dtype::F32, &[2, 3, 5])), ("w", tensor(Dtype::F32, &[7, 5])), ("b", tensor(Dtype::F32, &[7]))];
    let plan = plan(&spec(&inputs, nodes, &["y"]));
    let [Step::MatMul(step)] = &plan.steps[..] else { panic!("one product, not {:?}", plan.steps) };
    assert_eq!((&step.a.layout.shape[..], &step.a.layout.strides[1..]), (&[1, 6, 5][..], &[5, 1][..]));
    assert_eq!((&step.b.layout.shape[..], &step.b.layout.strides[1..]), (&[1, 5, 7][..], &[1, 5][..]));
    assert_eq!(step.output.layout.shape, [1, 6, 7]);
}

#[test]
fn a_bias_is_copied_where_products_could_not_read_it() {
    let bias_of = |start: i64| {
        let from = [("start", Attribute::Int(start)), ("end", Attribute::Int(start + 7))];
        let nodes = vec![node("s", "slice", &["b"], &from), node("y", "linear", &["x", "w", "s"], &[])];
        let of = |shape: &[usize]| tensor(Dtype::F32, shape);
        let steps = plan(&spec(&[("x", of(&[3, 5])), ("w", of(&[7, 5])), ("b", of(&[20]))], nodes, &["y"])).steps;
        let Some(Step::MatMul(step)) = steps.last() else { panic!("a product, not {steps:?}") };
        (steps.len(), step.bias.as_ref().map(|bias| bias.location))
    };
    assert_eq!(bias_of(8), (1, Some(Location::Input(2))));
    assert_eq!(bias_of(9), (2, Some(Location::Arena(0))));
}

#[test]
fn products_broadcast_batches_without_copies() {
    let inputs = [("a", tensor(Dtype::F64, &[4, 1, 2, 3])), ("b", tensor(Dtype::F64, &[5, 3, 6]))];
    let plan = plan(&spec(&inputs, vec![node("y", "matmul", &["a", "b"], &[])], &["y"]));
    assert_eq!(plan.outputs[0].shape, [4, 5, 2, 6]);
    let last = plan.steps.last();
    let Some(Step::MatMul(step)) = last else { panic!("a product, not {last:?}") };
    assert_eq!(step.output.layout.shape, [20, 2, 6]);
}

#[test]
fn a_graph_without_elements_runs_no_step_that_reads_what_nobody_wrote() {
    let of = tensor(Dtype::F32, &[0, 3]);
    let nodes = vec![
        node("c", "concat", &["x", "x"], &[]),
        node("e", "exp", &["c"], &[]),
        node("m", "matmul", &["e", "w"], &[]),
    ];
    let plan = plan(&spec(&[("x", of), ("w", tensor(Dtype::F32, &[3, 2]))], nodes, &["m", "c"]));
    assert_eq!(plan.outputs[0].shape, [0, 2]);
}
