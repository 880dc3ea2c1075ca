//! Operations that read by index, scans and sorts: their types, and the errors of refused ones.

use std::collections::BTreeMap;

use accelerd_tensor::{Attribute, Dtype, Graph, GraphError, GraphSpec, IndexOp, NodeSpec, Plan, Step, TensorType};

/// Operation, operands and attributes.
type Call<'a> = (&'a str, &'a [&'a str], Vec<(&'a str, Attribute)>);

fn tensor(dtype: Dtype, shape: &[usize]) -> TensorType {
    TensorType { dtype, shape: shape.to_vec() }
}

/// A graph of one operation, of which `outputs` are read.
fn spec((op, inputs, attributes): &Call<'_>, outputs: &[&str]) -> GraphSpec {
    let attributes: BTreeMap<_, _> =
        attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let node = NodeSpec {
        name: "n".to_owned(),
        op: (*op).to_owned(),
        inputs: inputs.iter().map(|name| (*name).to_owned()).collect(),
        attributes,
    };
    let inputs = [
        ("x", tensor(Dtype::F32, &[2, 3])),
        ("h", tensor(Dtype::F16, &[4, 1, 3])),
        ("u", tensor(Dtype::U8, &[2, 3])),
        ("m", tensor(Dtype::Bool, &[2, 3])),
        ("s", tensor(Dtype::F32, &[])),
        ("none", tensor(Dtype::F32, &[2, 0])),
        ("i", tensor(Dtype::I64, &[2, 3])),
        ("tall", tensor(Dtype::I32, &[5, 3])),
        ("one", tensor(Dtype::I64, &[4, 5, 1])),
        ("v", tensor(Dtype::I32, &[7])),
        ("k", tensor(Dtype::I64, &[])),
    ];
    GraphSpec {
        inputs: inputs.map(|(name, of)| (name.to_owned(), of)).to_vec(),
        nodes: vec![node],
        outputs: outputs.iter().map(|name| (*name).to_owned()).collect(),
    }
}

fn results(call: &Call<'_>, outputs: &[&str]) -> Result<Vec<TensorType>, GraphError> {
    Graph::new(&spec(call, outputs)).map(|graph| graph.output_types())
}

fn dim(dim: i64) -> (&'static str, Attribute) {
    ("dim", Attribute::Int(dim))
}

#[test]
fn results_have_the_types_of_pytorch() {
    use Attribute::{Bool, Float, Int, Text};
    use Dtype::{F16, F32, F64, I64, U8};
    let cases: Vec<(Call<'_>, Dtype, &[usize])> = vec![
        (("gather", &["x", "i"], vec![dim(1)]), F32, &[2, 3]),
        (("gather", &["x", "tall"], vec![dim(0)]), F32, &[5, 3]),
        (("gather", &["s", "k"], vec![dim(-1)]), F32, &[]),
        (("index_select", &["x", "v"], vec![dim(-2)]), F32, &[7, 3]),
        (("index_select", &["x", "k"], vec![dim(1)]), F32, &[2, 1]),
        (("index_select", &["s", "k"], vec![dim(0)]), F32, &[]),
        (("take_along_dim", &["h", "one"], vec![dim(2)]), F16, &[4, 5, 1]),
        (("take_along_dim", &["x", "v"], vec![]), F32, &[7]),
        (("embedding", &["x", "one"], vec![("padding_idx", Int(-2))]), F32, &[4, 5, 1, 3]),
        (("one_hot", &["i"], vec![("num_classes", Int(9))]), I64, &[2, 3, 9]),
        (("masked_fill", &["u", "m"], vec![("value", Int(7))]), U8, &[2, 3]),
        (("masked_fill", &["x", "m"], vec![("value", Float(f64::NEG_INFINITY))]), F32, &[2, 3]),
        (("cumsum", &["h"], vec![dim(0)]), F16, &[4, 1, 3]),
        (("cumsum", &["m"], vec![dim(0)]), I64, &[2, 3]),
        (("cumprod", &["u"], vec![dim(0), ("dtype", Text("f64".to_owned()))]), F64, &[2, 3]),
        (("argsort", &["x"], vec![("descending", Bool(true)), ("stable", Bool(true))]), I64, &[2, 3]),
        (("argsort", &["s"], vec![]), I64, &[]),
        (("msort", &["h"], vec![]), F16, &[4, 1, 3]),
        (("median", &["h"], vec![]), F16, &[]),
    ];
    for (call, dtype, shape) in cases {
        assert_eq!(results(&call, &["n"]), Ok(vec![tensor(dtype, shape)]), "{call:?}");
    }
}

#[test]
fn values_come_with_their_indices() {
    use Attribute::{Bool, Int};
    let k = |k| ("k", Int(k));
    let cases: Vec<(Call<'_>, Dtype, &[usize])> = vec![
        (("sort", &["h"], vec![dim(0)]), Dtype::F16, &[4, 1, 3]),
        (("sort", &["none"], vec![]), Dtype::F32, &[2, 0]),
        (("topk", &["x"], vec![k(2), ("largest", Bool(false)), ("sorted", Bool(false))]), Dtype::F32, &[2, 2]),
        (("topk", &["x"], vec![k(0), dim(0)]), Dtype::F32, &[0, 3]),
        (("cummax", &["h"], vec![dim(0)]), Dtype::F16, &[4, 1, 3]),
        (("cummin", &["m"], vec![dim(-1)]), Dtype::Bool, &[2, 3]),
        (("cummin", &["s"], vec![dim(0)]), Dtype::F32, &[]),
        (("cummax", &["none"], vec![dim(1)]), Dtype::F32, &[2, 0]),
        (("topk", &["s"], vec![k(1)]), Dtype::F32, &[]),
        (("kthvalue", &["u"], vec![k(3)]), Dtype::U8, &[2]),
        (("kthvalue", &["u"], vec![k(3), ("keepdim", Bool(true))]), Dtype::U8, &[2, 1]),
        (("median", &["h"], vec![dim(0)]), Dtype::F16, &[1, 3]),
        (("median", &["i"], vec![dim(1), ("keepdim", Bool(true))]), Dtype::I64, &[2, 1]),
    ];
    for (call, dtype, shape) in cases {
        let expected = vec![tensor(dtype, shape), tensor(Dtype::I64, shape)];
        assert_eq!(results(&call, &["n", "n:1"]), Ok(expected), "{call:?}");
    }
}

#[test]
fn errors_name_the_field_and_what_was_expected() {
    use Attribute::{Int, Text};
    let k = |k| ("k", Int(k));
    let cases: Vec<(Call<'_>, &str, &str, &str)> = vec![
        (("gather", &["x", "i"], vec![]), "attributes.dim", "a value", "none"),
        (("gather", &["x"], vec![dim(0)]), "inputs", "2", "1"),
        (("gather", &["x", "u"], vec![dim(0)]), "inputs[1]", "indices of type i32 or i64", "u8"),
        (("gather", &["x", "tall"], vec![dim(1)]), "inputs[1]", "a shape within [2, 3] but for dimension 1", "[5, 3]"),
        (("gather", &["x", "v"], vec![dim(0)]), "inputs[1]", "a shape within [2, 3]", "[7]"),
        (("index_select", &["x", "i"], vec![dim(0)]), "inputs[1]", "a vector or a scalar", "[2, 3]"),
        (("index_select", &["s", "v"], vec![dim(0)]), "inputs[1]", "one index into a scalar", "[7]"),
        (("take_along_dim", &["h", "i"], vec![dim(0)]), "inputs[1]", "3 dimensions", "2"),
        (("take_along_dim", &["x", "tall"], vec![dim(1)]), "inputs[1]", "a shape that broadcasts", "[5, 1]"),
        (("take_along_dim", &["x"], vec![]), "inputs", "2", "1"),
        (("embedding", &["h", "i"], vec![]), "inputs[0]", "a matrix", "[4, 1, 3]"),
        (("embedding", &["x", "i"], vec![("padding_idx", Int(2))]), "attributes.padding_idx", "-2 to 1", "2"),
        (("one_hot", &["i"], vec![]), "attributes.num_classes", "a value", "none"),
        (("one_hot", &["i"], vec![("num_classes", Int(0))]), "attributes.num_classes", "1 to", "0"),
        (("one_hot", &["x"], vec![("num_classes", Int(3))]), "inputs[0]", "indices of type", "f32"),
        (("masked_fill", &["x", "u"], vec![("value", Int(0))]), "inputs[1]", "bool", "u8"),
        (("masked_fill", &["x", "m"], vec![]), "attributes.value", "a value", "none"),
        (("cumsum", &["x"], vec![]), "attributes.dim", "a value", "none"),
        (("cumsum", &["x"], vec![dim(2)]), "attributes.dim", "-2 to 1", "2"),
        (("cummax", &["x"], vec![]), "attributes.dim", "a value", "none"),
        (("cummin", &["x"], vec![dim(2)]), "attributes.dim", "-2 to 1", "2"),
        (("cummax", &["x", "x"], vec![dim(0)]), "inputs", "1", "2"),
        (("cumsum", &["x"], vec![dim(0), ("dtype", Text("bool".to_owned()))]), "attributes.dtype", "a type of", "bool"),
        (("argsort", &["s"], vec![dim(1)]), "attributes.dim", "-1 to 0", "1"),
        (("sort", &["x"], vec![("reverse", Int(1))]), "attributes", "one of dim", "reverse"),
        (("topk", &["x"], vec![k(4)]), "attributes.k", "0 to 3", "4"),
        (("topk", &["s"], vec![k(0)]), "attributes.k", "1 to 1", "0"),
        (("kthvalue", &["x"], vec![k(0)]), "attributes.k", "1 to 3", "0"),
        (("median", &["none"], vec![]), "inputs[0]", "at least one element", "none"),
        (("median", &["none"], vec![dim(1)]), "inputs[0]", "at least one element", "none"),
        (("msort", &["x"], vec![dim(0)]), "attributes", "no attribute", "dim"),
    ];
    for (call, field, expected, got) in cases {
        let error = results(&call, &["n"]).expect_err(call.0);
        assert_eq!((error.node.as_str(), error.field.as_str()), ("n", field), "{call:?}: {error}");
        assert!(error.expected.starts_with(expected) && error.got.contains(got), "{call:?}: {error}");
    }
}

#[test]
fn rows_too_long_for_indices_of_32_bits_are_refused() {
    let mut long = spec(&("argsort", &["x"], vec![]), &["n"]);
    long.inputs[0].1.shape = vec![1 << 31];
    let error = Graph::new(&long).expect_err("more than 2^31 - 1 elements");
    assert_eq!((error.field.as_str(), error.got.as_str()), ("inputs[0]", "2147483648"));
}

fn steps(call: &Call<'_>, outputs: &[&str]) -> Vec<Step> {
    Plan::new(&Graph::new(&spec(call, outputs)).expect("a graph")).steps
}

#[test]
fn an_operation_by_index_is_one_step_that_chooses_along_the_last_dimension_of_a_view() {
    for (call, op, shape, strides) in [
        (("gather", &["x", "tall"][..], vec![dim(0)]), IndexOp::Gather, vec![5, 3, 2], vec![0, 1, 3]),
        (("index_select", &["x", "v"], vec![dim(1)]), IndexOp::IndexSelect, vec![2, 7, 3], vec![3, 0, 1]),
        (("take_along_dim", &["h", "one"], vec![dim(2)]), IndexOp::TakeAlongDim, vec![4, 5, 1, 3], vec![3, 0, 0, 1]),
        (("embedding", &["x", "v"], vec![]), IndexOp::Embedding, vec![7, 3, 2], vec![0, 1, 3]),
    ] {
        let steps = steps(&call, &["n"]);
        let [Step::Index(step)] = &steps[..] else { panic!("{steps:?}") };
        assert_eq!((step.op, &step.input.layout.shape, &step.input.layout.strides), (op, &shape, &strides));
        assert_eq!(step.index.layout.shape, shape[..shape.len() - 1]);
    }
}

#[test]
fn a_scan_is_in_place_where_enough_elements_follow_its_dimension() {
    let of = |shape: &[usize]| {
        let mut spec = spec(&("cumsum", &["x"], vec![dim(1)]), &["n"]);
        spec.inputs[0].1.shape = shape.to_vec();
        Plan::new(&Graph::new(&spec).expect("a graph")).steps
    };
    let steps = of(&[2, 9, 8, 4]);
    let [Step::Scan(scan)] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!(scan.input.layout.shape, [2, 9, 32]);
    let steps = of(&[2, 9, 3]);
    let [Step::Map(_), Step::Scan(scan), Step::Map(_)] = &steps[..] else { panic!("{steps:?}") };
    assert_eq!(scan.input.layout.shape, [6, 9, 1]);
}

#[test]
fn the_order_is_found_once_for_values_and_indices() {
    let count = |call: &Call<'_>| {
        let steps = steps(call, &["n", "n:1"]);
        let sorts = steps.iter().filter(|step| matches!(step, Step::Sort(_))).count();
        let gathers = steps.iter().filter(|step| matches!(step, Step::Index(_))).count();
        (sorts, gathers, steps.len())
    };
    assert_eq!(count(&("sort", &["x"], vec![])), (1, 1, 2));
    assert_eq!(count(&("topk", &["x"], vec![("k", Attribute::Int(2))])), (1, 1, 2));
}
