//! Operations that are made of others: their types, their errors, and how many kernels they become.

use std::collections::BTreeMap;

use accelerd_tensor::{Attribute, Dtype, Graph, GraphError, GraphSpec, NodeSpec, Plan, Step, TensorType};
use proptest::prelude::*;

/// Operation, operands and attributes.
type Call<'a> = (&'a str, &'a [&'a str], Vec<(&'a str, Attribute)>);

fn tensor(dtype: Dtype, shape: &[usize]) -> TensorType {
    TensorType { dtype, shape: shape.to_vec() }
}

/// A graph of one node `n` over some tensors, with all of its results as outputs.
fn spec((op, inputs, attributes): &Call<'_>, results: usize) -> GraphSpec {
    use Dtype::{Bf16, F32, F64, I64};
    let tensors = [
        ("x", tensor(F32, &[4, 6, 5])),
        ("y", tensor(F32, &[4, 6, 5])),
        ("h", tensor(Bf16, &[4, 6, 5])),
        ("d", tensor(F64, &[4, 6, 5])),
        ("c", tensor(F32, &[6])),
        ("hc", tensor(Bf16, &[6])),
        ("row", tensor(F32, &[5])),
        ("i", tensor(I64, &[4, 5])),
        ("u", tensor(Dtype::U8, &[4, 5])),
        ("step", tensor(I64, &[])),
        ("lr", tensor(F32, &[1])),
        ("e", tensor(F32, &[0, 6, 5])),
    ];
    let attributes: BTreeMap<_, _> =
        attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let inputs = inputs.iter().map(|name| (*name).to_owned()).collect();
    let mut outputs = vec!["n".to_owned()];
    outputs.extend((1..results).map(|nth| format!("n:{nth}")));
    GraphSpec {
        inputs: tensors.map(|(name, of)| (name.to_owned(), of)).to_vec(),
        nodes: vec![NodeSpec { name: "n".to_owned(), op: (*op).to_owned(), inputs, attributes }],
        outputs,
    }
}

fn types(call: &Call<'_>, results: usize) -> Result<Vec<TensorType>, GraphError> {
    Graph::new(&spec(call, results)).map(|graph| graph.output_types())
}

/// The kinds of the steps of a plan.
fn steps(call: &Call<'_>, results: usize) -> Vec<&'static str> {
    let plan = Plan::new(&Graph::new(&spec(call, results)).expect(call.0));
    let kind = |step: &Step| match step {
        Step::Map(_) => "map",
        Step::Reduce(_) => "reduce",
        Step::ArgReduce(_)
        | Step::Softmax(_)
        | Step::Norm(_)
        | Step::MatMul(_)
        | Step::Index(_)
        | Step::Scan(_)
        | Step::Sort(_)
        | Step::Conv(_)
        | Step::Pool(_)
        | Step::Attention(_) => "other",
    };
    plan.steps.iter().map(kind).collect()
}

fn text(word: &str) -> Attribute {
    Attribute::Text(word.to_owned())
}

fn ints(values: &[i64]) -> Attribute {
    Attribute::Ints(values.to_vec())
}

const TRAINING: (&str, Attribute) = ("training", Attribute::Bool(true));
const UNTRACKED: (&str, Attribute) = ("track_running_stats", Attribute::Bool(false));
const AMSGRAD: (&str, Attribute) = ("amsgrad", Attribute::Bool(true));
const STEP: (&str, Attribute) = ("step", Attribute::Int(3));
const SEED: (&str, Attribute) = ("seed", Attribute::Int(7));
const MOMENTUM: (&str, Attribute) = ("momentum", Attribute::Float(0.9));
const GROUPS: (&str, Attribute) = ("num_groups", Attribute::Int(3));

#[test]
fn results_have_the_types_of_pytorch() {
    use Dtype::{Bf16, F16, F32, F64, I32, I64};
    let whole = |dtype| tensor(dtype, &[4, 6, 5]);
    let vector = |dtype| tensor(dtype, &[6]);
    let scalar = |dtype| tensor(dtype, &[]);
    let none = vec![("reduction", text("none"))];
    let shape = ("shape", ints(&[2, 3]));
    let typed = |dtype: &str| ("dtype", text(dtype));
    let cases: Vec<(Call<'_>, Vec<TensorType>)> = vec![
        (("var_mean", &["h"], vec![("dim", Attribute::Int(1))]), vec![tensor(Bf16, &[4, 5]); 2]),
        (("std_mean", &["d"], vec![("keepdim", Attribute::Bool(true))]), vec![tensor(F64, &[1, 1, 1]); 2]),
        (("batch_norm", &["h", "c", "c"], vec![]), vec![whole(Bf16)]),
        (("batch_norm", &["h", "c", "hc", "hc", "c"], vec![TRAINING]), vec![whole(Bf16), vector(F32), vector(Bf16)]),
        (("batch_norm", &["x", "c"], vec![TRAINING, UNTRACKED]), vec![whole(F32)]),
        (("batch_norm", &["e", "c", "c"], vec![]), vec![tensor(F32, &[0, 6, 5])]),
        (("group_norm", &["h", "hc", "c"], vec![GROUPS]), vec![whole(Bf16)]),
        (("instance_norm", &["d"], vec![]), vec![whole(F64)]),
        (("mse_loss", &["x", "h"], vec![]), vec![scalar(F32)]),
        (("l1_loss", &["h", "h"], vec![]), vec![scalar(Bf16)]),
        (("smooth_l1_loss", &["x", "row"], none.clone()), vec![whole(F32)]),
        (("huber_loss", &["e", "e"], vec![]), vec![scalar(F32)]),
        (("binary_cross_entropy_with_logits", &["x", "d"], none.clone()), vec![whole(F64)]),
        (("kl_div", &["x", "y"], vec![("reduction", text("batchmean"))]), vec![scalar(F32)]),
        (("cross_entropy", &["h", "i"], vec![]), vec![scalar(Bf16)]),
        (("cross_entropy", &["x", "y"], none.clone()), vec![tensor(F32, &[4, 5])]),
        (("nll_loss", &["x", "u", "c"], none.clone()), vec![tensor(F32, &[4, 5])]),
        (("nll_loss", &["c", "step"], none.clone()), vec![scalar(F32)]),
        (("normalize", &["h"], vec![("p", Attribute::Int(1))]), vec![whole(Bf16)]),
        (("cosine_similarity", &["x", "row"], vec![("dim", Attribute::Int(-1))]), vec![tensor(F32, &[4, 6])]),
        (("sgd", &["h", "x"], vec![]), vec![whole(Bf16)]),
        (("sgd", &["h", "h", "x"], vec![MOMENTUM]), vec![whole(Bf16), whole(F32)]),
        (("adam", &["x", "x", "h", "d"], vec![STEP]), vec![whole(F32), whole(Bf16), whole(F64)]),
        (
            ("adamw", &["x", "x", "x", "x", "h", "step"], vec![AMSGRAD]),
            vec![whole(F32), whole(F32), whole(F32), whole(Bf16)],
        ),
        (("rand", &[], vec![shape.clone(), SEED]), vec![tensor(F32, &[2, 3])]),
        (("randn", &["step", "step"], vec![shape.clone(), typed("f16")]), vec![tensor(F16, &[2, 3])]),
        (
            ("randint", &["step"], vec![shape.clone(), ("high", Attribute::Int(9)), typed("i32")]),
            vec![tensor(I32, &[2, 3])],
        ),
        (("randint", &[], vec![shape, ("high", Attribute::Int(9)), SEED]), vec![tensor(I64, &[2, 3])]),
        (("bernoulli", &["h"], vec![SEED]), vec![whole(Bf16)]),
        (("dropout", &["h", "step"], vec![]), vec![whole(Bf16)]),
        (("dropout", &["h"], vec![("training", Attribute::Bool(false))]), vec![whole(Bf16)]),
    ];
    for (call, expected) in cases {
        assert_eq!(types(&call, expected.len()), Ok(expected.clone()), "{call:?}");
        let error = types(&call, expected.len() + 1).expect_err("one more result than there are");
        let field = format!("outputs[{}].name", expected.len());
        assert_eq!(error.field, field, "{call:?} has {} results", expected.len());
    }
}

#[test]
fn errors_name_node_and_field_and_what_was_expected() {
    use Attribute::{Bool, Float, Int};
    let shape = ("shape", ints(&[2, 3]));
    let cases: Vec<(Call<'_>, &str, &str, &str)> = vec![
        (("batch_norm", &["x"], vec![]), "inputs", "3 to 5", "1"),
        (("batch_norm", &["i", "c", "c"], vec![]), "inputs[0]", "floating-point elements", "i64"),
        (("batch_norm", &["c", "c", "c"], vec![]), "inputs[0]", "at least 2 dimensions", "1"),
        (("batch_norm", &["x", "c", "row"], vec![]), "inputs[2]", "shape [6]", "[5]"),
        (
            ("batch_norm", &["x", "c"], vec![UNTRACKED]),
            "attributes.training",
            "true without running statistics",
            "false",
        ),
        (
            ("batch_norm", &["e", "c", "c"], vec![TRAINING]),
            "inputs[0]",
            "more than 1 value of each channel to train",
            "0",
        ),
        (("group_norm", &["x"], vec![]), "attributes.num_groups", "a value", "none"),
        (("group_norm", &["x"], vec![("num_groups", Int(4))]), "attributes.num_groups", "a divisor of 6 channels", "4"),
        (("group_norm", &["x"], vec![("num_groups", Int(0))]), "attributes.num_groups", "a divisor of 6 channels", "0"),
        (("instance_norm", &["i"], vec![]), "inputs[0]", "floating-point elements", "i64"),
        (("mse_loss", &["x"], vec![]), "inputs", "2", "1"),
        (("mse_loss", &["x", "i"], vec![]), "inputs[1]", "floating-point elements", "i64"),
        (("mse_loss", &["x", "c"], vec![]), "inputs[1]", "a shape that broadcasts with [4, 6, 5]", "[6]"),
        (
            ("mse_loss", &["x", "y"], vec![("reduction", text("all"))]),
            "attributes.reduction",
            "none, mean or sum",
            "all",
        ),
        (("mse_loss", &["x", "y"], vec![("beta", Int(1))]), "attributes", "one of reduction", "beta"),
        (("smooth_l1_loss", &["x", "y"], vec![("beta", Int(-1))]), "attributes.beta", "a number not below 0", "-1"),
        (
            ("huber_loss", &["x", "y"], vec![("delta", Float(f64::NAN))]),
            "attributes.delta",
            "a number not below 0",
            "NaN",
        ),
        (("huber_loss", &["x", "y"], vec![("delta", Int(0))]), "attributes.delta", "a number above 0", "0"),
        (("binary_cross_entropy", &["x", "row"], vec![]), "inputs[1]", "shape [4, 6, 5]", "[5]"),
        (
            ("binary_cross_entropy", &["row", "row", "x"], vec![]),
            "inputs[2]",
            "a shape that broadcasts to [5]",
            "[4, 6, 5]",
        ),
        (("cross_entropy", &["x", "step"], vec![]), "inputs[1]", "shape [4, 5]", "[]"),
        (("cross_entropy", &["x", "row"], vec![]), "inputs[1]", "shape [4, 6, 5]", "[5]"),
        (("nll_loss", &["x", "y"], vec![]), "inputs[1]", "integers, the indices of classes", "f32"),
        (("nll_loss", &["x", "i", "row"], vec![]), "inputs[2]", "shape [6]", "[5]"),
        (("nll_loss", &["step", "step"], vec![]), "inputs[0]", "floating-point elements", "i64"),
        (
            ("cross_entropy", &["x", "i"], vec![("label_smoothing", Float(1.5))]),
            "attributes.label_smoothing",
            "a number from 0 to 1",
            "1.5",
        ),
        (("normalize", &["c"], vec![]), "op", "-1 to 0 for attributes.dim of norm, which is a part of it", "1"),
        (("normalize", &["x"], vec![("dim", Int(3))]), "attributes.dim", "-3 to 2", "3"),
        (("cosine_similarity", &["x", "i"], vec![]), "inputs[1]", "floating-point elements", "i64"),
        (("sgd", &["x", "c"], vec![]), "inputs[1]", "shape [4, 6, 5]", "[6]"),
        (("sgd", &["x", "y", "lr", "lr"], vec![]), "inputs", "2 to 3", "4"),
        (("sgd", &["x", "y", "c"], vec![]), "inputs[2]", "one element", "[6]"),
        (("sgd", &["x", "y"], vec![("nesterov", Bool(true))]), "attributes.nesterov", "a momentum", "true"),
        (("adam", &["x", "x", "x", "x"], vec![]), "inputs", "5 to 6", "4"),
        (("adam", &["x", "x", "x", "c"], vec![STEP]), "inputs[3]", "shape [4, 6, 5]", "[6]"),
        (
            ("adam", &["x", "x", "x", "x"], vec![STEP, ("beta1", Int(1))]),
            "attributes.beta1",
            "a number from 0, below 1",
            "1",
        ),
        (
            ("adamw", &["x", "x", "x", "x"], vec![STEP, ("lr", Bool(true))]),
            "attributes.lr",
            "a number",
            "the bool true",
        ),
        (("rand", &[], vec![SEED]), "attributes.shape", "a value", "none"),
        (("rand", &[], vec![shape.clone()]), "inputs", "a seed", "0"),
        (("rand", &["lr"], vec![shape.clone()]), "inputs[0]", "an integer", "f32"),
        (("rand", &["i"], vec![shape.clone()]), "inputs[0]", "one element", "[4, 5]"),
        (
            ("rand", &[], vec![shape.clone(), SEED, ("dtype", text("i32"))]),
            "attributes.dtype",
            "a floating-point type",
            "i32",
        ),
        (("rand", &[], vec![("shape", ints(&[1 << 50])), SEED]), "op", "a tensor of at most", "i64 of shape"),
        (("randint", &[], vec![shape.clone(), SEED, ("high", Int(0))]), "attributes.high", "a number above 0", "0"),
        (
            ("randint", &[], vec![shape, SEED, ("high", Int(257)), ("dtype", text("u8"))]),
            "attributes.high",
            "integers that u8 holds",
            "256",
        ),
        (("bernoulli", &["i"], vec![SEED]), "inputs[0]", "floating-point elements", "i64"),
        (("dropout", &["x"], vec![SEED, ("p", Float(1.5))]), "attributes.p", "a probability from 0 to 1", "1.5"),
        (("dropout", &["x"], vec![]), "inputs", "a seed", "1"),
    ];
    for (call, field, expected, got) in cases {
        let error = types(&call, 1).expect_err(call.0);
        assert_eq!((error.node.as_str(), error.field.as_str()), ("n", field), "{call:?}: {error}");
        assert!(error.expected.starts_with(expected) && error.got.starts_with(got), "{call:?}: {error}");
    }
}

#[test]
fn an_update_of_a_parameter_is_one_kernel() {
    let calls: [(Call<'_>, usize); 8] = [
        (("sgd", &["x", "y"], vec![("weight_decay", Attribute::Float(0.1))]), 1),
        (("sgd", &["h", "h", "lr"], vec![]), 1),
        (("sgd", &["x", "y"], vec![MOMENTUM]), 2),
        (("sgd", &["h", "h", "x", "lr"], vec![MOMENTUM, ("nesterov", Attribute::Bool(true))]), 2),
        (("adam", &["x", "y", "x", "y"], vec![STEP]), 3),
        (("adam", &["h", "h", "x", "y", "x", "step", "lr"], vec![AMSGRAD, ("weight_decay", Attribute::Float(0.1))]), 4),
        (("adamw", &["h", "h", "h", "h", "step"], vec![]), 3),
        (("adamw", &["d", "d", "d", "d", "step", "lr"], vec![("maximize", Attribute::Bool(true))]), 3),
    ];
    for (call, results) in calls {
        assert_eq!(steps(&call, results), ["map"], "{call:?}");
    }
}

#[test]
fn operations_read_their_tensors_no_more_often_than_they_must() {
    let shape = ("shape", ints(&[64, 33]));
    let calls: Vec<(Call<'_>, usize, &[&str])> = vec![
        // The loss of an element is part of the reduction; so is the comparison of classes and targets.
        (("mse_loss", &["h", "h"], vec![]), 1, &["reduce"]),
        (
            ("binary_cross_entropy_with_logits", &["x", "y", "row", "row"], vec![("reduction", text("none"))]),
            1,
            &["map"],
        ),
        (("nll_loss", &["x", "i"], vec![("reduction", text("sum"))]), 1, &["map", "reduce", "reduce"]),
        // The score of the target is read by index: the reduction over the classes is the only step that reads all scores.
        (
            ("cross_entropy", &["h", "i"], vec![("reduction", text("none"))]),
            1,
            &["map", "other", "map", "reduce", "map"],
        ),
        (("cross_entropy", &["h", "y"], vec![]), 1, &["other", "other", "map", "reduce", "map", "reduce", "reduce"]),
        // The deviations of the channels, then the elements.
        (("batch_norm", &["h", "c", "c", "c", "c"], vec![]), 1, &["map", "map"]),
        (("group_norm", &["h", "c", "c"], vec![GROUPS]), 1, &["reduce", "reduce", "map"]),
        (("var_mean", &["h"], vec![]), 2, &["reduce", "reduce"]),
        (("normalize", &["h"], vec![]), 1, &["reduce", "map"]),
        // Elements of random numbers, and no seed in memory.
        (("rand", &["step", "step"], vec![shape.clone(), ("dtype", text("bf16"))]), 1, &["map"]),
        (("randn", &[], vec![shape, SEED]), 1, &["map"]),
        (("dropout", &["h", "step"], vec![]), 1, &["map"]),
    ];
    for (call, results, expected) in calls {
        assert_eq!(steps(&call, results), expected, "{call:?}");
    }
}

#[test]
fn results_that_nothing_needs_cost_nothing() {
    let training: Call<'_> = ("batch_norm", &["x", "c", "c"], vec![TRAINING]);
    assert!(steps(&training, 1).len() < steps(&training, 3).len());
    let mut only_running = spec(&training, 3);
    only_running.outputs = vec!["n:1".to_owned()];
    let plan = Plan::new(&Graph::new(&only_running).expect("a valid graph"));
    assert_eq!((plan.outputs.as_slice(), plan.steps.len()), (&[tensor(Dtype::F32, &[6])][..], 2));
}

#[test]
fn dropout_that_drops_nothing_is_no_operation() {
    let mut graph = spec(&("dropout", &["x"], vec![("p", Attribute::Int(0))]), 1);
    graph.nodes.push(NodeSpec {
        name: "s".to_owned(),
        op: "exp".to_owned(),
        inputs: vec!["n".to_owned()],
        ..NodeSpec::default()
    });
    graph.outputs = vec!["s".to_owned()];
    let plan = Plan::new(&Graph::new(&graph).expect("a valid graph"));
    let [Step::Map(step)] = &plan.steps[..] else { panic!("one map, not {:?}", plan.steps) };
    assert_eq!(step.function.values().len(), 2);
}

const OPERATIONS: [&str; 24] = [
    "adam",
    "adamw",
    "batch_norm",
    "bernoulli",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_similarity",
    "cross_entropy",
    "dropout",
    "group_norm",
    "huber_loss",
    "instance_norm",
    "kl_div",
    "l1_loss",
    "mse_loss",
    "nll_loss",
    "normalize",
    "rand",
    "randint",
    "randn",
    "sgd",
    "smooth_l1_loss",
    "std_mean",
    "var_mean",
];

const TENSORS: [(Dtype, &[usize]); 12] = [
    (Dtype::F32, &[]),
    (Dtype::I64, &[]),
    (Dtype::U64, &[1]),
    (Dtype::F32, &[0]),
    (Dtype::Bf16, &[6]),
    (Dtype::F32, &[4, 6]),
    (Dtype::Bool, &[4]),
    (Dtype::I8, &[4]),
    (Dtype::F64, &[4, 6, 2]),
    (Dtype::F32, &[0, 0, 0]),
    (Dtype::F32, &[2, 1, 2, 1, 2, 1, 2, 1]),
    (Dtype::F32, &[1 << 22, 1 << 22]),
];

const ATTRIBUTES: [&str; 22] = [
    "amsgrad",
    "beta",
    "beta1",
    "correction",
    "dampening",
    "dim",
    "dtype",
    "eps",
    "high",
    "ignore_index",
    "keepdim",
    "label_smoothing",
    "low",
    "lr",
    "momentum",
    "num_groups",
    "p",
    "reduction",
    "seed",
    "shape",
    "step",
    "training",
];

fn hostile() -> impl Strategy<Value = Attribute> {
    let floats = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.5, 1e300];
    let integers = [i64::MIN, -1, 0, 1, 2, 6, i64::MAX];
    let words = ["sum", "none", "f16", "u8", ""];
    prop_oneof![
        any::<bool>().prop_map(Attribute::Bool),
        prop::sample::select(integers.to_vec()).prop_map(Attribute::Int),
        prop::sample::select(floats.to_vec()).prop_map(Attribute::Float),
        prop::sample::select(words.to_vec()).prop_map(text),
        prop::collection::vec(prop::sample::select(integers.to_vec()), 0..4).prop_map(Attribute::Ints),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn hostile_operands_and_attributes_are_errors_or_plans_but_never_panic(
        op in prop::sample::select(&OPERATIONS[..]),
        inputs in prop::collection::vec(0..TENSORS.len(), 0..6),
        attributes in prop::collection::btree_map(prop::sample::select(&ATTRIBUTES[..]), hostile(), 0..4),
    ) {
        let named = |(nth, tensor_of): (usize, &usize)| {
            let (dtype, shape) = TENSORS[*tensor_of];
            (format!("x{nth}"), tensor(dtype, shape))
        };
        let inputs: Vec<_> = inputs.iter().enumerate().map(named).collect();
        let names = inputs.iter().map(|(name, _)| name.clone()).collect();
        let attributes = attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let node = NodeSpec { name: "n".to_owned(), op: op.to_owned(), inputs: names, attributes };
        let spec = GraphSpec { inputs, nodes: vec![node], outputs: vec!["n".to_owned()] };
        if let Ok(graph) = Graph::new(&spec) {
            Plan::new(&graph);
        }
    }
}
