//! Softmax and norms of computed rows: the elementwise operations before them are a part of the same step where inputs and readers permit,
//! and the results have the bits of separate steps.

use std::sync::Arc;

use accelerd_kernels::Backend;
use accelerd_tensor::{Attribute, Dtype, Graph, GraphSpec, NodeSpec, Plan, TensorType};

use super::{
    Case,
    tensor::{check_within, execute, finite, graph, inputs, node, tensor},
};

/// Rows of a thread, of a part of a warp, of a warp, of a block, without a vector, and of many blocks.
const SHAPES: [[usize; 2]; 7] = [[7, 1], [65, 8], [33, 31], [9, 1000], [9, 4096], [3, 5001], [2, 70_001]];
/// Divisions by small deviations enlarge rounding errors.
const FACTOR: f64 = 10.0;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![Case::new("fused_rows::rows_longer_than_registers", rows_longer_than_registers)];
    for dtype in Dtype::ALL.into_iter().filter(|dtype| dtype.is_float()) {
        cases.push(Case::new(format!("fused_rows::agree_with_the_oracle_{dtype}"), move |backend| {
            SHAPES.into_iter().try_for_each(|shape| agree_with_the_oracle(backend, dtype, shape))
        }));
        cases.push(Case::new(format!("fused_rows::have_the_bits_of_separate_steps_{dtype}"), move |backend| {
            SHAPES.into_iter().try_for_each(|shape| have_the_bits_of_separate_steps(backend, dtype, shape))
        }));
    }
    cases
}

/// Operations that compute `a`, and one that reads its rows.
struct FusedRows {
    nodes: Vec<NodeSpec>,
    /// True if all of it is one step.
    is_one_step: bool,
}

fn other_type(dtype: Dtype) -> Dtype {
    if dtype == Dtype::F32 { Dtype::Bf16 } else { Dtype::F32 }
}

/// Inputs of the graphs.
fn tensors(dtype: Dtype, [rows, columns]: [usize; 2]) -> [(&'static str, TensorType); 10] {
    let of = |shape: &[usize]| tensor(dtype, shape);
    [
        ("x", of(&[rows, columns])),
        ("z", of(&[rows, columns])),
        ("w", of(&[columns])),
        ("b", of(&[columns])),
        ("row", of(&[columns])),
        ("column", of(&[rows, 1])),
        ("value", of(&[1])),
        ("other", tensor(other_type(dtype), &[rows, columns])),
        ("double", tensor(Dtype::F64, &[rows, columns])),
        ("keep", tensor(Dtype::Bool, &[columns])),
    ]
}

fn fused_rows(dtype: Dtype) -> Vec<FusedRows> {
    let last = [("dim", Attribute::Int(-1))];
    let number = |value| [("other", Attribute::Float(value))];
    let own_type = [("dtype", Attribute::Text(dtype.name().to_owned()))];
    let least = [("value", Attribute::Float(-30.0))];
    let one = |nodes| FusedRows { nodes, is_one_step: true };
    vec![
        one(vec![node("a", "add", &["x", "z"], &[]), node("y", "layer_norm", &["a", "w", "b"], &[])]),
        one(vec![
            node("scaled", "mul", &["x"], &number(0.125)),
            node("a", "add", &["scaled", "row"], &[]),
            node("y", "softmax", &["a"], &last),
        ]),
        one(vec![node("a", "mul", &["x", "value"], &[]), node("y", "log_softmax", &["a"], &last)]),
        // Unlike GELU, whose results for negative numbers are products with a small difference, SiLU has small relative errors, which the
        // large factors among the inputs do not turn into large absolute ones.
        one(vec![
            node("gate", "silu", &["x"], &[]),
            node("a", "mul", &["gate", "z"], &[]),
            node("y", "rms_norm", &["a", "w"], &[("eps", Attribute::Float(0.01))]),
        ]),
        one(vec![
            node("own", "to", &["other"], &own_type),
            node("from_double", "to", &["double"], &own_type),
            node("sum", "add", &["x", "own"], &[]),
            node("a", "add", &["sum", "from_double"], &[]),
            node("y", "layer_norm", &["a"], &[]),
        ]),
        one(vec![node("a", "masked_fill", &["x", "keep"], &least), node("y", "softmax", &["a"], &last)]),
        FusedRows {
            nodes: vec![node("a", "add", &["x", "column"], &[]), node("y", "softmax", &["a"], &last)],
            is_one_step: false,
        },
        FusedRows {
            nodes: vec![
                node("a", "mul", &["x", "z"], &[]),
                node("y", "layer_norm", &["a", "w", "b"], &[]),
                node("second", "tanh", &["a"], &[]),
            ],
            is_one_step: false,
        },
    ]
}

/// The graph of these operations and the inputs that they name; its outputs are the nodes that no other one reads.
fn spec_of(fused: &FusedRows, dtype: Dtype, shape: [usize; 2]) -> GraphSpec {
    let is_read = |name: &str| fused.nodes.iter().any(|node| node.inputs.iter().any(|input| input == name));
    let read: Vec<_> = tensors(dtype, shape).into_iter().filter(|(name, _)| is_read(name)).collect();
    let mut spec = graph(&read, fused.nodes.clone());
    spec.outputs.retain(|name| !is_read(name));
    spec
}

fn agree_with_the_oracle(backend: &mut Backend, dtype: Dtype, shape: [usize; 2]) -> Result<(), String> {
    for fused in fused_rows(dtype) {
        let spec = spec_of(&fused, dtype, shape);
        let context = |error| format!("{shape:?} {:?}: {error}", spec.nodes);
        let steps = plan(&spec)?.steps.len();
        let is_shared = shape[1] == 1;
        if fused.is_one_step && steps != 1 || !fused.is_one_step && steps == 1 && !is_shared {
            return Err(context(format!("{steps} steps")));
        }
        check_within(backend, &spec, 11, FACTOR).map_err(context)?;
        check_within(backend, &of_finite_numbers(&spec), 12, FACTOR).map_err(context)?;
    }
    Ok(())
}

/// The graph of finite inputs.
fn of_finite_numbers(spec: &GraphSpec) -> GraphSpec {
    let read: Vec<_> = spec.inputs.iter().map(|(name, of)| (name.as_str(), of.clone())).collect();
    GraphSpec { outputs: spec.outputs.clone(), ..finite(&read, spec.nodes.clone()) }
}

/// Where `a` is an output, a step of its own computes it.
fn have_the_bits_of_separate_steps(backend: &mut Backend, dtype: Dtype, shape: [usize; 2]) -> Result<(), String> {
    for fused in fused_rows(dtype).into_iter().take(4) {
        let one = of_finite_numbers(&spec_of(&fused, dtype, shape));
        let several = GraphSpec { outputs: vec!["y".to_owned(), "a".to_owned()], ..one.clone() };
        let data = inputs(&one, 13);
        let [together, apart] =
            [&one, &several].map(|spec| execute(backend, &plan(spec)?, data.clone()).map(|mut all| all.remove(0)));
        if together? != apart? {
            return Err(format!("{shape:?} {:?}: other bits than of two steps", one.nodes));
        }
    }
    Ok(())
}

fn plan(spec: &GraphSpec) -> Result<Arc<Plan>, String> {
    Ok(Arc::new(Plan::new(&Graph::new(spec).map_err(|error| error.to_string())?)))
}

/// Enough rows that none is split over blocks, and too many columns for the registers of a block.
fn rows_longer_than_registers(backend: &mut Backend) -> Result<(), String> {
    for (dtype, shape) in [(Dtype::F64, [129, 16_390]), (Dtype::F16, [128, 32_776])] {
        for fused in fused_rows(dtype).iter().take(2) {
            check_within(backend, &of_finite_numbers(&spec_of(fused, dtype, shape)), 14, FACTOR)?;
        }
    }
    Ok(())
}
