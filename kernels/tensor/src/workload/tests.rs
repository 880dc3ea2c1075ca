//! Workloads of operations, computed by hand.

use std::collections::BTreeMap;

use super::*;
use crate::{Attribute, Graph, GraphSpec, NodeSpec};

fn plan(op: &str, inputs: &[(Dtype, &[usize])], attributes: &[(&str, Attribute)]) -> Plan {
    let inputs: Vec<_> = inputs
        .iter()
        .enumerate()
        .map(|(nth, (dtype, shape))| (format!("x{nth}"), TensorType { dtype: *dtype, shape: shape.to_vec() }))
        .collect();
    let attributes: BTreeMap<_, _> =
        attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let names = inputs.iter().map(|(name, _)| name.clone()).collect();
    let node = NodeSpec { name: "y".to_owned(), op: op.to_owned(), inputs: names, attributes };
    let spec = GraphSpec { inputs, nodes: vec![node], outputs: vec!["y".to_owned()] };
    Plan::new(&Graph::new(&spec).unwrap_or_else(|error| panic!("{op}: {error}")))
}

/// Read, written, operations, operations of products.
fn figures(op: &str, inputs: &[(Dtype, &[usize])], attributes: &[(&str, Attribute)]) -> [u64; 4] {
    let Workload { read, written, operations, product_operations } = plan(op, inputs, attributes).workload();
    [read, written, operations, product_operations]
}

use Dtype::{Bf16, F32, I64};

fn int(name: &'static str, value: i64) -> (&'static str, Attribute) {
    (name, Attribute::Int(value))
}

#[test]
fn elementwise_operations_read_and_write_each_element_once() {
    assert_eq!(figures("add", &[(F32, &[8, 4]), (F32, &[8, 4])], &[]), [256, 128, 32, 0]);
    assert_eq!(
        figures("add", &[(F32, &[8, 4]), (F32, &[4])], &[]),
        [128 + 16, 128, 32, 0],
        "a broadcast row counts once"
    );
}

#[test]
fn reductions_count_what_combines_the_elements() {
    assert_eq!(figures("sum", &[(F32, &[8, 4])], &[int("dim", 1)]), [128, 32, 32, 0]);
    assert_eq!(figures("argmax", &[(F32, &[8, 4])], &[int("dim", 1)]), [128, 64, 32, 0]);
    assert_eq!(figures("softmax", &[(F32, &[8, 4])], &[int("dim", 1)]), [128, 128, 160, 0]);
    let over = [("normalized_shape", Attribute::Ints(vec![4]))];
    let norm = figures("layer_norm", &[(F32, &[8, 4]), (F32, &[4]), (F32, &[4])], &over);
    assert_eq!(norm, [128 + 32, 128, 32 * 8, 0]);
}

#[test]
fn softmax_and_norms_count_the_operations_before_them() {
    let of = |shape: &[usize]| TensorType { dtype: F32, shape: shape.to_vec() };
    let add = |name: &str, inputs: [&str; 2]| NodeSpec {
        name: name.to_owned(),
        op: "add".to_owned(),
        inputs: inputs.map(str::to_owned).to_vec(),
        attributes: BTreeMap::new(),
    };
    let norm = NodeSpec { op: "rms_norm".to_owned(), inputs: vec!["b".to_owned()], ..add("y", ["", ""]) };
    let spec = GraphSpec {
        inputs: vec![("x".to_owned(), of(&[8, 4])), ("row".to_owned(), of(&[4]))],
        nodes: vec![add("a", ["x", "row"]), add("b", ["a", "row"]), norm],
        outputs: vec!["y".to_owned()],
    };
    let plan = Plan::new(&Graph::new(&spec).expect("a valid graph"));
    let Workload { read, written, operations, .. } = plan.workload();
    assert_eq!([read, written, operations], [128 + 16, 128, 32 * (2 + 3)]);
}

#[test]
fn products_count_two_operations_for_each_pair() {
    let product = figures("matmul", &[(F32, &[2, 8, 16]), (F32, &[16, 4])], &[]);
    assert_eq!(product, [4 * (2 * 8 * 16 + 16 * 4), 4 * 2 * 8 * 4, 2 * 2 * 8 * 4 * 16, 2 * 2 * 8 * 4 * 16]);
    let conv = figures("conv2d", &[(F32, &[1, 4, 6, 6]), (F32, &[8, 2, 3, 3])], &[int("groups", 2)]);
    assert_eq!(conv, [4 * (144 + 144), 4 * 128, 2 * 128 * 18, 2 * 128 * 18]);
    assert_eq!(plan("matmul", &[(Bf16, &[8, 8]), (Bf16, &[8, 8])], &[]).product_kind(), Some((Bf16, Accumulate::F32)));
    let high = [("precision", Attribute::Text("high".to_owned()))];
    assert_eq!(plan("matmul", &[(F32, &[8, 8]), (F32, &[8, 8])], &high).product_kind(), Some((F32, Accumulate::Tf32)));
    assert_eq!(plan("exp", &[(F32, &[8])], &[]).product_kind(), None);
}

#[test]
fn causal_attention_counts_the_keys_before_each_query() {
    let operands: [(Dtype, &[usize]); 3] = [(F32, &[2, 3, 4, 8]); 3];
    let [read, written, _, all] = figures("scaled_dot_product_attention", &operands, &[]);
    assert_eq!([read, written, all], [3 * 768, 768, 2 * 6 * 16 * 16]);
    let causal = [("is_causal", Attribute::Bool(true))];
    assert_eq!(figures("scaled_dot_product_attention", &operands, &causal)[3], 2 * 6 * 10 * 16);
}

#[test]
fn pooling_sorting_and_scanning_count_their_comparisons_and_additions() {
    assert_eq!(figures("max_pool2d", &[(F32, &[1, 2, 4, 4])], &[int("kernel_size", 2)]), [128, 32, 32, 0]);
    assert_eq!(figures("cumsum", &[(F32, &[4, 8])], &[int("dim", 1)]), [128, 128, 32, 0]);
    assert_eq!(figures("argsort", &[(F32, &[4, 8])], &[]), [128, 256, 32 * 3, 0]);
}

#[test]
fn a_lookup_moves_the_rows_that_it_chooses_and_not_its_table() {
    let lookup = plan("embedding", &[(F32, &[1000, 4]), (I64, &[3])], &[]);
    let workload = lookup.workload();
    assert_eq!((workload.written, workload.moved()), (48, 48 + 48 + 24));
    assert_eq!(lookup.least_moved(), workload.moved());
    let two_steps = plan("softmax", &[(F32, &[8, 4])], &[int("dim", 0)]);
    assert!(two_steps.steps.len() > 1 && two_steps.least_moved() == 256, "inputs and outputs, once");
}
