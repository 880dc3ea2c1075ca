//! Attention: its types, its errors, and the views that its step reads.

use std::collections::BTreeMap;

use Attribute::{Bool, Float, Ints};
use Dtype::{Bf16, F16, F32, F64, I32};
use accelerd_tensor::{
    AttentionStep, Attribute, Dtype, Graph, GraphError, GraphSpec, Location, NodeSpec, Plan, Step, TensorType,
};

type Attributes<'a> = &'a [(&'a str, Attribute)];

fn of(dtype: Dtype, shape: &[usize]) -> TensorType {
    TensorType { dtype, shape: shape.to_vec() }
}

fn node(name: &str, op: &str, inputs: &[&str], attributes: Attributes<'_>) -> NodeSpec {
    let attributes: BTreeMap<_, _> =
        attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let inputs = inputs.iter().map(|name| (*name).to_owned()).collect();
    NodeSpec { name: name.to_owned(), op: op.to_owned(), inputs, attributes }
}

/// Attention of inputs of these types.
fn graph(operands: &[TensorType], attributes: Attributes<'_>) -> Result<Graph, GraphError> {
    let names = ["a", "b", "c", "d", "e", "f"].map(str::to_owned);
    let inputs: Vec<_> = names.iter().cloned().zip(operands.iter().cloned()).collect();
    let read: Vec<_> = inputs.iter().map(|(name, _)| name.as_str()).collect();
    let nodes = vec![node("y", "scaled_dot_product_attention", &read, attributes)];
    Graph::new(&GraphSpec { nodes, outputs: vec!["y".to_owned()], inputs })
}

fn step(plan: &Plan) -> &AttentionStep {
    match plan.steps.last() {
        Some(Step::Attention(step)) => step,
        other => panic!("attention, not {other:?}"),
    }
}

#[test]
fn results_have_the_queries_of_one_operand_and_the_columns_of_another() {
    let grouped = [("enable_gqa", Bool(true))];
    let lengths = of(I32, &[2]);
    let cases: [(&[TensorType], Attributes<'_>, &[usize]); 9] = [
        (&[of(F32, &[5, 8]), of(F32, &[7, 8]), of(F32, &[7, 3])], &[], &[5, 3]),
        (&[of(F64, &[3, 5, 8]), of(F64, &[3, 7, 8]), of(F64, &[3, 7, 3])], &[], &[3, 5, 3]),
        (&[of(F16, &[2, 3, 5, 8]), of(F16, &[1, 7, 8]), of(F16, &[2, 1, 7, 3])], &[], &[2, 3, 5, 3]),
        (&[of(Bf16, &[2, 6, 5, 8]), of(Bf16, &[2, 3, 7, 8]), of(Bf16, &[2, 3, 7, 8])], &grouped, &[2, 6, 5, 8]),
        (&[of(F32, &[2, 3, 5, 8]), of(F32, &[2, 3, 0, 8]), of(F32, &[2, 3, 0, 4])], &[], &[2, 3, 5, 4]),
        (
            &[of(F16, &[2, 3, 5, 8]), of(F16, &[2, 3, 7, 8]), of(F16, &[2, 3, 7, 8]), of(F32, &[3, 1, 7])],
            &[("scale", Float(-0.5))],
            &[2, 3, 5, 8],
        ),
        (
            &[of(F16, &[2, 3, 5, 8]), of(F16, &[2, 3, 7, 8]), of(F16, &[2, 3, 7, 8]), lengths.clone()],
            &[("is_causal", Bool(true)), ("dropout_p", Float(0.0))],
            &[2, 3, 5, 8],
        ),
        (
            &[of(F32, &[2, 3, 5, 8]), of(F32, &[2, 3, 7, 8]), of(F32, &[2, 3, 7, 8]), of(Dtype::Bool, &[7]), lengths],
            &[("precision", Attribute::Text("high".to_owned()))],
            &[2, 3, 5, 8],
        ),
        (&[of(F32, &[5, 8]), of(F32, &[7, 8]), of(F32, &[7, 3]), of(I32, &[])], &[], &[5, 3]),
    ];
    for (operands, attributes, expected) in cases {
        let graph = graph(operands, attributes).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(graph.output_types(), [of(operands[0].dtype, expected)], "{operands:?}");
    }
}

#[test]
fn errors_name_the_operand_or_attribute_and_what_was_expected() {
    let (q, k) = (of(F32, &[2, 6, 5, 8]), of(F32, &[2, 6, 7, 8]));
    let qkv = |more: &[TensorType]| [&[q.clone(), k.clone(), k.clone()], more].concat();
    let grouped: Attributes<'_> = &[("enable_gqa", Bool(true))];
    let causal: Attributes<'_> = &[("is_causal", Bool(true))];
    let mask = || of(Dtype::Bool, &[5, 7]);
    let lengths = || of(I32, &[2]);
    let cases: Vec<(Vec<TensorType>, Attributes<'_>, &str, &str, &str)> = vec![
        (vec![q.clone(), k.clone()], &[], "inputs", "3 to 5", "2"),
        (qkv(&[mask(), lengths(), mask()]), &[], "inputs", "3 to 5", "6"),
        (vec![of(I32, &[5, 8]), k.clone(), k.clone()], &[], "inputs[0]", "floating-point elements", "i32"),
        (vec![q.clone(), of(F16, &[2, 6, 7, 8]), k.clone()], &[], "inputs[1]", "a key of type f32", "f16"),
        (vec![q.clone(), k.clone(), of(F32, &[8])], &[], "inputs[2]", "a value of at least 2 dimensions", "1"),
        (vec![of(F32, &[5, 0]), of(F32, &[7, 0]), k.clone()], &[], "inputs[0]", "a last extent of at least 1", "0"),
        (
            vec![q.clone(), of(F32, &[1 << 31, 8]), of(F32, &[1 << 31, 8])],
            &[],
            "inputs[1]",
            "at most 1073741824 rows",
            "2147483648",
        ),
        (
            vec![of(F32, &[1, 65_537]), of(F32, &[1, 65_537]), of(F32, &[1, 8])],
            &[],
            "inputs[0]",
            "a last extent of at most 65536",
            "65537",
        ),
        (
            vec![of(F32, &[1, 8]), of(F32, &[1, 8]), of(F32, &[1, 655_370])],
            &[],
            "inputs[2]",
            "a last extent of at most 65536",
            "655370",
        ),
        (vec![q.clone(), of(F32, &[2, 6, 7, 9]), k.clone()], &[], "inputs[1]", "a last extent of 8", "9 in "),
        (vec![q.clone(), k.clone(), of(F32, &[2, 6, 6, 8])], &[], "inputs[2]", "7 rows", "6 in "),
        (
            vec![q.clone(), of(F32, &[2, 3, 7, 8]), of(F32, &[2, 3, 7, 8])],
            &[],
            "inputs[1]",
            "a shape that broadcasts with [2, 6]",
            "[2, 3]",
        ),
        (vec![q.clone(), of(F32, &[7, 8]), k.clone()], grouped, "inputs[1]", "a key of at least 3 dimensions", "2"),
        (
            vec![q.clone(), of(F32, &[2, 4, 7, 8]), of(F32, &[2, 4, 7, 8])],
            grouped,
            "inputs[1]",
            "a number of heads that divides 6",
            "4",
        ),
        (vec![q.clone(), of(F32, &[2, 3, 7, 8]), of(F32, &[2, 2, 7, 8])], grouped, "inputs[2]", "3 heads", "2"),
        (qkv(&[of(F16, &[5, 7])]), &[], "inputs[3]", "a mask of type bool or f32, or lengths of type i32", "f16"),
        (qkv(&[of(F32, &[5, 6])]), &[], "inputs[3]", "a mask that broadcasts to [2, 6, 5, 7]", "[5, 6]"),
        (qkv(&[of(I32, &[6])]), &[], "inputs[3]", "a mask, or lengths of type i32 and shape [2]", "i32 of shape [6]"),
        (qkv(&[mask(), mask()]), &[], "inputs[4]", "lengths of type i32 and shape [2]", "bool of shape [5, 7]"),
        (qkv(&[lengths(), lengths()]), &[], "inputs[4]", "lengths of type i32", "i32 of shape [2]"),
        (qkv(&[mask()]), causal, "attributes.is_causal", "false with a mask", "true"),
        (qkv(&[]), &[("scale", Float(f64::INFINITY))], "attributes.scale", "a finite number", "inf"),
        (qkv(&[]), &[("dropout_p", Float(0.1))], "attributes.dropout_p", "0: dropout is not supported", "0.1"),
        (qkv(&[]), &[("causal", Bool(true))], "attributes", "one of enable_gqa, is_causal, scale, dropout_p", "causal"),
    ];
    for (operands, attributes, field, expected, got) in cases {
        let error = graph(&operands, attributes).expect_err(field);
        assert_eq!((error.node.as_str(), error.field.as_str()), ("y", field), "{error}");
        assert!(error.expected.starts_with(expected) && error.got.starts_with(got), "{error}");
    }
}

/// A graph of attention of `x` to itself, permuted from `[batch, rows, heads, dim]`.
fn permuted(dtype: Dtype, shape: &[usize; 4], slice_from: i64) -> Plan {
    let nodes = vec![
        node("s", "slice", &["x"], &[("dim", Attribute::Int(3)), ("start", Attribute::Int(slice_from))]),
        node("p", "permute", &["s"], &[("dims", Ints(vec![0, 2, 1, 3]))]),
        node("y", "scaled_dot_product_attention", &["p", "p", "p"], &[]),
    ];
    let inputs = vec![("x".to_owned(), of(dtype, shape))];
    Plan::new(&Graph::new(&GraphSpec { inputs, nodes, outputs: vec!["y".to_owned()] }).expect("a valid graph"))
}

#[test]
fn rows_of_permuted_heads_are_read_in_place_if_they_are_aligned() {
    let in_place = permuted(Bf16, &[2, 5, 3, 16], 0);
    assert_eq!(in_place.steps.len(), 1);
    assert_eq!(step(&in_place).query.layout.strides, [240, 16, 48, 1]);
    assert_eq!(step(&permuted(F32, &[2, 5, 3, 17], 1)).query.location, Location::Input(0), "f32 needs no alignment");
    for (shape, slice_from) in [([2, 5, 3, 16], 1), ([2, 5, 3, 20], 0)] {
        let copied = permuted(F16, &shape, slice_from);
        let query = &step(&copied).query;
        assert!(matches!(query.location, Location::Arena(_)), "{query:?}");
        assert!(query.layout.strides[..3].iter().all(|stride| stride % 8 == 0), "{query:?}");
        assert_eq!(query.layout.shape[3], shape[3] - usize::try_from(slice_from).expect("positive"));
    }
}

#[test]
fn heads_and_masks_broadcast_without_copies() {
    let operands = [of(F32, &[2, 3, 5, 8]), of(F32, &[7, 8]), of(F32, &[2, 1, 7, 4]), of(Dtype::Bool, &[2, 1, 1, 7])];
    let plan = Plan::new(&graph(&operands, &[]).expect("a valid graph"));
    assert_eq!(plan.steps.len(), 1);
    let step = step(&plan);
    assert_eq!(step.key.layout.shape, [2, 3, 7, 8]);
    assert_eq!(step.key.layout.strides, [0, 0, 8, 1]);
    assert_eq!(step.value.layout.strides, [28, 0, 4, 1]);
    let mask = step.mask.as_ref().expect("a mask");
    assert_eq!((&mask.layout.shape[..], &mask.layout.strides[..]), (&[2, 3, 5, 7][..], &[7, 0, 0, 1][..]));
    assert_eq!(step.output.layout.shape, [2, 3, 5, 4]);
    assert_eq!(plan.cost(), 1 + 2 * 3 * 5 * 7 * (8 + 4));
}

#[test]
fn groups_of_heads_read_one_head_and_leading_dimensions_become_one() {
    let operands = [of(F32, &[2, 2, 6, 5, 8]), of(F32, &[2, 2, 3, 7, 8]), of(F32, &[2, 2, 3, 7, 8]), of(I32, &[2, 2])];
    let plan = Plan::new(&graph(&operands, &[("enable_gqa", Bool(true))]).expect("a valid graph"));
    let step = step(&plan);
    assert_eq!(step.query.layout.shape, [4, 6, 5, 8]);
    assert_eq!(step.key.layout.shape, [4, 3, 7, 8]);
    assert_eq!(step.lengths.as_ref().expect("lengths").layout.shape, [4]);
    assert_eq!(plan.outputs[0].shape, [2, 2, 6, 5, 8]);
}

#[test]
fn heads_of_one_query_that_share_a_key_are_one_head() {
    let grouped = [("enable_gqa", Bool(true))];
    let operands = [of(F16, &[3, 6, 1, 8]), of(F16, &[3, 2, 7, 8]), of(F16, &[3, 2, 7, 16]), of(F16, &[6, 1, 7])];
    let plan = Plan::new(&graph(&operands, &grouped).expect("a valid graph"));
    let step = step(&plan);
    assert_eq!((&step.query.layout.shape[..], step.query.layout.strides[2]), (&[3, 2, 3, 8][..], 8));
    assert_eq!(step.mask.as_ref().map(|mask| mask.layout.strides.clone()), Some(vec![0, 21, 7, 1]));
    assert_eq!(step.output.layout.shape, [3, 2, 3, 16]);
    let causal = [("enable_gqa", Bool(true)), ("is_causal", Bool(true))];
    let plan = Plan::new(&graph(&operands[..3], &causal).expect("a valid graph"));
    assert_eq!(self::step(&plan).query.layout.shape, [3, 6, 1, 8], "each query has the first key only");
}
