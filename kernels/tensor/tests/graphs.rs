//! Accepted graphs and their types, and the errors of refused graphs.

use std::collections::BTreeMap;

use accelerd_tensor::{Attribute, Dtype, Graph, GraphError, GraphSpec, NodeSpec, TensorType};

/// Operation, operands and attributes.
type Call<'a> = (&'a str, &'a [&'a str], Vec<(&'a str, Attribute)>);

fn tensor(dtype: Dtype, shape: &[usize]) -> TensorType {
    TensorType { dtype, shape: shape.to_vec() }
}

fn node(name: &str, op: &str, inputs: &[&str], attributes: &[(&str, Attribute)]) -> NodeSpec {
    let attributes: BTreeMap<_, _> =
        attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let inputs = inputs.iter().map(|name| (*name).to_owned()).collect();
    NodeSpec { name: name.to_owned(), op: op.to_owned(), inputs, attributes }
}

/// A graph over `x` f32 [2, 3], `v` f32 [3], `i` i64 [2, 3] and `m` bool [2, 3], whose output is the last node.
fn spec(nodes: &[NodeSpec]) -> GraphSpec {
    let inputs = [
        ("x", tensor(Dtype::F32, &[2, 3])),
        ("v", tensor(Dtype::F32, &[3])),
        ("i", tensor(Dtype::I64, &[2, 3])),
        ("m", tensor(Dtype::Bool, &[2, 3])),
    ];
    GraphSpec {
        inputs: inputs.map(|(name, of)| (name.to_owned(), of)).to_vec(),
        nodes: nodes.to_vec(),
        outputs: nodes.last().map(|node| node.name.clone()).into_iter().collect(),
    }
}

fn result(op: &str, inputs: &[&str], attributes: &[(&str, Attribute)]) -> Result<TensorType, GraphError> {
    Graph::new(&spec(&[node("n", op, inputs, attributes)])).map(|graph| graph.output_types()[0].clone())
}

fn ints(values: &[i64]) -> Attribute {
    Attribute::Ints(values.to_vec())
}

fn text(word: &str) -> Attribute {
    Attribute::Text(word.to_owned())
}

#[test]
fn results_have_the_types_of_pytorch() {
    use Attribute::{Bool, Float, Int};
    use Dtype::{F16, F32, F64, I32, I64};
    let dim = |dim| ("dim", Int(dim));
    let shape = |extents: &[i64]| ("shape", ints(extents));
    let cases: Vec<(Call<'_>, Dtype, &[usize])> = vec![
        (("add", &["x", "v"], vec![]), F32, &[2, 3]),
        (("add", &["x", "i"], vec![]), F32, &[2, 3]),
        (("add", &["i"], vec![("other", Float(0.5))]), F32, &[2, 3]),
        (("div", &["i", "i"], vec![]), F32, &[2, 3]),
        (("lt", &["x", "v"], vec![]), Dtype::Bool, &[2, 3]),
        (("where", &["m", "x", "v"], vec![]), F32, &[2, 3]),
        (("to", &["x"], vec![("dtype", text("f16"))]), F16, &[2, 3]),
        (("reshape", &["x"], vec![shape(&[3, -1])]), F32, &[3, 2]),
        (("flatten", &["x"], vec![]), F32, &[6]),
        (("unsqueeze", &["x"], vec![dim(-1)]), F32, &[2, 3, 1]),
        (("permute", &["x"], vec![("dims", ints(&[1, 0]))]), F32, &[3, 2]),
        (("expand", &["v"], vec![shape(&[4, -1])]), F32, &[4, 3]),
        (("slice", &["x"], vec![dim(1), ("start", Int(-2))]), F32, &[2, 2]),
        (("slice", &["x"], vec![dim(1), ("step", Int(-2))]), F32, &[2, 2]),
        (("slice", &["x"], vec![dim(1), ("start", Int(5)), ("end", Int(9))]), F32, &[2, 0]),
        (("select", &["x"], vec![dim(0), ("index", Int(-1))]), F32, &[3]),
        (("concat", &["x", "i"], vec![dim(0)]), F32, &[4, 3]),
        (("sum", &["x"], vec![dim(0)]), F32, &[3]),
        (("sum", &["m"], vec![]), I64, &[]),
        (("sum", &["x"], vec![dim(1), ("keepdim", Bool(true)), ("dtype", text("f64"))]), F64, &[2, 1]),
        (("mean", &["x"], vec![("dim", ints(&[0, -1]))]), F32, &[]),
        (("argmax", &["x"], vec![dim(1)]), I64, &[2]),
        (("any", &["x"], vec![]), Dtype::Bool, &[]),
        (("softmax", &["x"], vec![dim(0)]), F32, &[2, 3]),
        (("layer_norm", &["x", "v", "v"], vec![]), F32, &[2, 3]),
        (("matmul", &["x", "v"], vec![]), F32, &[2]),
        (("matmul", &["x", "x"], vec![("transpose_b", Bool(true))]), F32, &[2, 2]),
        (("linear", &["v", "x"], vec![]), F32, &[2]),
        (("arange", &[], vec![("end", Int(7)), ("step", Int(3))]), I64, &[3]),
        (("linspace", &[], vec![("start", Int(0)), ("end", Int(1)), ("steps", Int(5))]), F32, &[5]),
        (("full", &[], vec![shape(&[2, 0]), ("value", Int(7)), ("dtype", text("i32"))]), I32, &[2, 0]),
    ];
    for ((op, inputs, attributes), dtype, extents) in cases {
        assert_eq!(result(op, inputs, &attributes), Ok(tensor(dtype, extents)), "{op} {attributes:?}");
    }
}

#[test]
fn errors_name_node_and_field_and_what_was_expected() {
    use Attribute::{Bool, Float, Int};
    let cases: Vec<(Call<'_>, &str, &str, &str)> = vec![
        (("relux", &["x"], vec![]), "op", "the name of an operation", "relux"),
        (("exp", &["x", "x"], vec![]), "inputs", "1", "2"),
        (("exp", &["y"], vec![]), "inputs[0]", "the name of an input or a node", "y"),
        (("exp", &["x"], vec![("base", Int(2))]), "attributes", "no attribute", "base"),
        (("softmax", &["x"], vec![]), "attributes.dim", "a value", "none"),
        (("softmax", &["x"], vec![("dim", Bool(true))]), "attributes.dim", "an integer", "the bool true"),
        (("softmax", &["x"], vec![("dim", Int(2))]), "attributes.dim", "-2 to 1", "2"),
        (("softmax", &["i"], vec![("dim", Int(0))]), "inputs[0]", "floating-point elements", "i64"),
        (("reshape", &["x"], vec![("shape", ints(&[4, -1]))]), "attributes.shape", "extents of 6 elements", "[4, -1]"),
        (
            ("reshape", &["x"], vec![("shape", ints(&[i64::MAX, i64::MAX]))]),
            "attributes.shape",
            "extents of 6 elements",
            "",
        ),
        (("matmul", &["x", "x"], vec![]), "inputs[1]", "3 rows", "2 in [2, 3]"),
        (("matmul", &["x", "i"], vec![("transpose_b", Bool(true))]), "inputs[1]", "elements of type f32", "i64"),
        (
            ("linear", &["x", "x"], vec![("activation", text("isnan"))]),
            "attributes.activation",
            "an operation",
            "isnan",
        ),
        (("concat", &["x", "v"], vec![]), "inputs[1]", "the shape [2, 3] but for dimension 0", "[3]"),
        (("layer_norm", &["x", "x"], vec![]), "inputs[1]", "f32 of shape [3]", "f32 of shape [2, 3]"),
        (("sum", &["x"], vec![("dim", ints(&[0, -2]))]), "attributes.dim", "each dimension once", "-2 twice"),
        (("arange", &[], vec![("end", Int(1)), ("step", Int(0))]), "attributes.step", "a number other than 0", "0"),
        (("arange", &[], vec![("end", Float(f64::NAN))]), "attributes.end", "a finite number", "NaN"),
        (("arange", &[], vec![("end", Float(f64::INFINITY))]), "attributes.end", "a finite number", "inf"),
        (
            ("arange", &[], vec![("start", Float(f64::NAN)), ("end", Int(1))]),
            "attributes.start",
            "a finite number",
            "NaN",
        ),
        (
            ("arange", &[], vec![("end", Int(1)), ("step", Float(f64::NEG_INFINITY))]),
            "attributes.step",
            "a finite number",
            "-inf",
        ),
        (("arange", &[], vec![("end", Int(i64::MAX))]), "op", "a tensor of at most", ""),
        (("full", &[], vec![("shape", ints(&[1; 9])), ("value", Int(0))]), "op", "at most 8 dimensions", "9"),
        (
            ("full", &[], vec![("shape", ints(&[-1])), ("value", Int(0))]),
            "attributes.shape",
            "extents of at least 0",
            "-1",
        ),
        (("select", &["x"], vec![("dim", Int(1)), ("index", Int(3))]), "attributes.index", "-3 to 2", "3"),
        (("slice", &["x"], vec![("step", Int(0))]), "attributes.step", "a number other than 0", "0"),
    ];
    for ((op, inputs, attributes), field, expected, got) in cases {
        let error = result(op, inputs, &attributes).expect_err(op);
        assert_eq!((error.node.as_str(), error.field.as_str()), ("n", field), "{op}: {error}");
        assert!(error.expected.starts_with(expected) && error.got.contains(got), "{op}: {error}");
    }
}

#[test]
fn an_attribute_of_another_name_is_refused_before_the_one_that_is_missing() {
    use Attribute::{Bool, Int};
    // The call, an unknown attribute, and the attribute that is missing without it.
    let calls: [(Call<'_>, &str, &str); 17] = [
        (("softmax", &["x"], vec![]), "axis", "dim"),
        (("topk", &["x"], vec![("largest", Bool(false))]), "kk", "k"),
        (("kthvalue", &["x"], vec![("keepdim", Bool(true))]), "largest", "k"),
        (("max_pool1d", &["x"], vec![("dilation", Int(1))]), "count_include_pad", "kernel_size"),
        (("cumsum", &["x"], vec![("dtype", text("f32"))]), "axis", "dim"),
        (("cummax", &["x"], vec![]), "axis", "dim"),
        (("unsqueeze", &["x"], vec![]), "axis", "dim"),
        (("permute", &["x"], vec![]), "axes", "dims"),
        (("transpose", &["x"], vec![("dim1", Int(1))]), "dim2", "dim0"),
        (("select", &["x"], vec![("index", Int(1))]), "axis", "dim"),
        (("reshape", &["x"], vec![]), "size", "shape"),
        (("full", &[], vec![("value", Int(1)), ("dtype", text("f32"))]), "size", "shape"),
        (("arange", &[], vec![("step", Int(1))]), "stop", "end"),
        (("linspace", &[], vec![("steps", Int(1))]), "stop", "start"),
        (("one_hot", &["i"], vec![]), "classes", "num_classes"),
        (("gather", &["x", "i"], vec![]), "axis", "dim"),
        (("cast", &["x"], vec![]), "type", "dtype"),
    ];
    for ((op, inputs, attributes), unknown, missing) in calls {
        let error = result(op, inputs, &attributes).expect_err(op);
        assert_eq!((error.field, error.got.as_str()), (format!("attributes.{missing}"), "none"), "{op}");
        let error = result(op, inputs, &[&attributes[..], &[(unknown, Int(0))]].concat()).expect_err(op);
        assert_eq!((error.field.as_str(), error.got.as_str()), ("attributes", unknown), "{op}");
        let names: Vec<_> = error.expected.trim_start_matches("one of ").split(", ").collect();
        assert!(names.contains(&missing), "{op}: {names:?}");
    }
}

#[test]
fn shapes_that_do_not_broadcast_are_refused() {
    let nodes = [
        node("t", "transpose", &["x"], &[("dim0", Attribute::Int(0)), ("dim1", Attribute::Int(1))]),
        node("n", "add", &["x", "t"], &[]),
    ];
    let error = Graph::new(&spec(&nodes)).expect_err("[2, 3] and [3, 2]");
    assert_eq!(error.to_string(), "node \"n\": inputs[1]: expected a shape that broadcasts with [2, 3], got [3, 2]");
}

#[test]
fn nodes_come_in_any_order_and_cycles_are_named() {
    let ordered =
        spec(&[node("b", "exp", &["a"], &[]), node("a", "exp", &["x"], &[]), node("c", "add", &["a", "b"], &[])]);
    assert!(Graph::new(&ordered).is_ok());
    let cycle = spec(&[node("a", "exp", &["c"], &[]), node("b", "exp", &["a"], &[]), node("c", "exp", &["b"], &[])]);
    let error = Graph::new(&cycle).expect_err("a cycle");
    assert_eq!((error.field.as_str(), error.got.as_str()), ("inputs", "a cycle through a, c, b"));
    let itself = Graph::new(&spec(&[node("a", "exp", &["a"], &[])])).expect_err("a cycle");
    assert_eq!(itself.got, "a cycle through a");
}

#[test]
fn long_chains_need_no_stack() {
    let mut nodes = vec![node("n0", "exp", &["x"], &[])];
    nodes.extend((1..20_000).map(|nth| node(&format!("n{nth}"), "flatten", &[&format!("n{}", nth - 1)], &[])));
    nodes.reverse();
    let mut spec = spec(&nodes);
    spec.outputs = vec!["n19999".to_owned()];
    let types = Graph::new(&spec).expect("a chain").output_types();
    assert_eq!(types, [tensor(Dtype::F32, &[6])]);
}

#[test]
fn nodes_that_no_output_needs_are_checked_too() {
    let error = Graph::new(&spec(&[node("unused", "softmax", &["x"], &[]), node("n", "exp", &["x"], &[])]));
    assert_eq!(error.expect_err("dim is missing").node, "unused");
}

#[test]
fn further_results_have_the_name_of_their_node_and_a_number() {
    let dim = [("dim", Attribute::Int(1))];
    let mut graph = spec(&[node("b", "exp", &["t:1"], &[]), node("t", "var_mean", &["x"], &dim)]);
    graph.outputs = ["t", "t:1", "b"].map(ToOwned::to_owned).to_vec();
    let types = Graph::new(&graph).expect("two results").output_types();
    assert_eq!(types, vec![tensor(Dtype::F32, &[2]); 3]);
    // A node with one result and an input have none; numbers are plain.
    let cases = [
        (("t:7", "var_mean"), "one of the 2 results of var_mean, t to t:1"),
        (("t:1", "exp"), "t, the only result of exp"),
        (("t:01", "var_mean"), "the name of an input or a node"),
        (("t:0", "var_mean"), "the name of an input or a node"),
        (("t:+1", "var_mean"), "the name of an input or a node"),
        (("x:1", "exp"), "the name of an input or a node"),
        (("u:1", "exp"), "the name of an input or a node"),
    ];
    for ((name, op), expected) in cases {
        let mut graph = spec(&[node("b", "exp", &[name], &[]), node("t", op, &["x"], &[])]);
        let error = Graph::new(&graph).expect_err(name);
        assert_eq!((error.node.as_str(), error.field.as_str()), ("b", "inputs[0]"));
        assert_eq!((error.expected.as_str(), error.got.as_str()), (expected, name));
        graph.nodes.remove(0);
        graph.outputs = vec![name.to_owned()];
        let error = Graph::new(&graph).expect_err(name);
        assert_eq!((error.field.as_str(), error.expected.as_str()), ("outputs[0].name", expected));
    }
}

#[test]
fn names_of_further_results_are_taken() {
    let twice = [node("t:1", "exp", &["x"], &[]), node("t", "var_mean", &["x"], &[])];
    let error = Graph::new(&spec(&twice)).expect_err("two values named t:1");
    assert_eq!((error.node.as_str(), error.field.as_str()), ("t:1", "name"));
    assert_eq!(error.expected, "a name other than those of the 2 results of t");
    let of_one_result =
        [node("t", "exp", &["x"], &[]), node("t:1", "sum", &["x"], &[]), node("b", "exp", &["t:1"], &[])];
    let types = Graph::new(&spec(&of_one_result)).expect("t has one result").output_types();
    assert_eq!(types, [tensor(Dtype::F32, &[])], "t:1 is the node of that name");
}

#[test]
fn errors_of_the_graph_name_its_field() {
    let huge = TensorType { dtype: Dtype::F32, shape: vec![1 << 62] };
    let input = |name: &str, of: &TensorType| (name.to_owned(), of.clone());
    let x = tensor(Dtype::F32, &[2]);
    let graph = |inputs: &[(String, TensorType)], node: Option<NodeSpec>, output: &[&str]| GraphSpec {
        inputs: inputs.to_vec(),
        nodes: node.into_iter().collect(),
        outputs: output.iter().map(|name| (*name).to_owned()).collect(),
    };
    let cases = [
        (graph(&[input("x", &x)], None, &[]), "outputs: expected at least one name, got none"),
        (
            graph(&[input("x", &x)], None, &["x", "y"]),
            "outputs[1].name: expected the name of an input or a node, got y",
        ),
        (
            graph(&[input("x", &x), input("h", &huge)], None, &["x"]),
            "inputs[1].value.shape: expected a tensor of at most",
        ),
        (graph(&[input("x", &x), input("", &x)], None, &["x"]), "inputs[1].name: expected a name, got an empty string"),
        (
            graph(&[input("x", &x), input("x", &x)], None, &["x"]),
            "inputs[1].name: expected a unique name, got x, which is used twice",
        ),
        (
            graph(&[input("x", &x)], Some(node("", "exp", &["x"], &[])), &["x"]),
            "nodes[0].name: expected a name, got an empty string",
        ),
        (
            graph(&[input("x", &x)], Some(node("x", "exp", &["x"], &[])), &["x"]),
            "node \"x\": name: expected a unique name, got x, which is used twice",
        ),
    ];
    for (spec, expected) in cases {
        let error = Graph::new(&spec).expect_err(expected).to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn cycles_lead_through_further_results() {
    let cycle = spec(&[node("t", "var_mean", &["b"], &[]), node("b", "exp", &["t:1"], &[])]);
    assert_eq!(Graph::new(&cycle).expect_err("a cycle").got, "a cycle through t, b");
}

#[test]
fn errors_within_composites_are_those_of_their_node() {
    let cases: Vec<(Call<'_>, &str, &str, &str)> = vec![
        (("var_mean", &["i"], vec![]), "inputs[0]", "floating-point elements", "i64"),
        (("var_mean", &["x"], vec![("dim", Attribute::Int(2))]), "attributes.dim", "-2 to 1", "2"),
        (
            ("var_mean", &["x"], vec![("dims", Attribute::Int(2))]),
            "attributes",
            "one of dim, keepdim, correction",
            "dims",
        ),
        (("var_mean", &["x", "x"], vec![]), "inputs", "1", "2"),
    ];
    for ((op, inputs, attributes), field, expected, got) in cases {
        let error = result(op, inputs, &attributes).expect_err(op);
        assert_eq!((error.node.as_str(), error.field.as_str()), ("n", field), "{op}: {error}");
        assert_eq!((error.expected.as_str(), error.got.as_str()), (expected, got), "{op}");
    }
}
