//! Graphs of tensor operations against the oracle: every operation for every element type, layouts, and random graphs.

use std::{collections::BTreeMap, sync::Arc};

use accelerd_kernels::{
    Backend,
    ops::tensor::{Execute, ExecuteRequest, oracle},
};
use accelerd_parity::{random, run_batch};
use accelerd_tensor::{
    Attribute, Dtype, Graph, GraphSpec, NodeSpec, Plan, TensorType, elementwise_names, scalar::Literal,
};
use bytes::Bytes;
use rand::{Rng, rngs::StdRng, seq::IndexedRandom};

use super::Case;

/// A size that is no multiple of a warp, a block or a vector.
const ROWS: usize = 33;
const COLUMNS: usize = 129;
/// Rounding errors of a graph's operations add up, and divisions by small deviations enlarge them.
const GRAPH_FACTOR: f64 = 100.0;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("tensor::batch_of_n_equals_n_batches_of_one", batch_invariance),
        Case::new("tensor::large_map", |backend| check(backend, &large_map(), 1)),
        Case::new("tensor::chain_of_fifty", |backend| check(backend, &chain(50), 2)),
        Case::new("tensor::repeated_plans_run_as_graphs", repeated_plans),
    ];
    for dtype in Dtype::ALL {
        cases.push(Case::new(format!("tensor::elementwise_{dtype}"), move |backend| elementwise(backend, dtype)));
        cases.push(Case::new(format!("tensor::attributes_{dtype}"), move |backend| set_attributes(backend, dtype)));
        cases.push(Case::new(format!("tensor::generators_{dtype}"), move |backend| generators(backend, dtype)));
        cases.push(Case::new(format!("tensor::reductions_{dtype}"), move |backend| reductions(backend, dtype)));
        cases.push(Case::new(format!("tensor::views_{dtype}"), move |backend| views(backend, dtype)));
        cases.push(Case::new(format!("tensor::casts_{dtype}"), move |backend| casts(backend, dtype)));
        if dtype != Dtype::Bool {
            cases.push(Case::new(format!("tensor::products_{dtype}"), move |backend| products(backend, dtype)));
            if dtype.is_float() && dtype.size() == 2 {
                cases.push(Case::new(format!("tensor::large_layers_{dtype}"), move |backend| {
                    large_layers(backend, dtype)
                }));
            }
        }
        if dtype.is_float() {
            cases.push(Case::new(format!("tensor::rows_{dtype}"), move |backend| rows(backend, dtype)));
        }
    }
    for block in 0..8 {
        cases.push(Case::new(format!("tensor::random_graphs_{block}"), move |backend| random_graphs(backend, block)));
    }
    cases
}

pub(crate) fn tensor(dtype: Dtype, shape: &[usize]) -> TensorType {
    TensorType { dtype, shape: shape.to_vec() }
}

pub(crate) fn node(name: &str, op: &str, inputs: &[&str], attributes: &[(&str, Attribute)]) -> NodeSpec {
    let attributes: BTreeMap<_, _> =
        attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let inputs = inputs.iter().map(|name| (*name).to_owned()).collect();
    NodeSpec { name: name.to_owned(), op: op.to_owned(), inputs, attributes }
}

/// A graph whose outputs are all of its nodes.
pub(crate) fn graph(inputs: &[(&str, TensorType)], nodes: Vec<NodeSpec>) -> GraphSpec {
    let outputs = nodes.iter().map(|node| node.name.clone()).collect();
    GraphSpec { inputs: inputs.iter().map(|(name, of)| ((*name).to_owned(), of.clone())).collect(), nodes, outputs }
}

/// Elements of a type: small numbers, and now and then a special value.
pub(crate) fn elements(of: &TensorType, random: &mut StdRng) -> Bytes {
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1.0, -1.0, 1e15, -1e-30, 65504.0];
    let one = |random: &mut StdRng| {
        let number = if of.dtype.is_float() && random.random_ratio(1, 40) {
            *special.choose(random).expect("there are special values")
        } else if of.dtype.is_float() {
            random.random_range(-4.0..4.0)
        } else {
            f64::from(random.random_range(-9_i32..9))
        };
        let literal = if of.dtype.is_float() {
            Literal::from_f64(of.dtype, number)
        } else {
            #[expect(clippy::cast_possible_truncation, reason = "a small integer")]
            Literal::from_i64(of.dtype, number as i64)
        };
        literal.bits().to_le_bytes()
    };
    let bytes = (0..of.elements()).flat_map(|_| one(random).into_iter().take(of.dtype.size()));
    Bytes::from(bytes.collect::<Vec<_>>())
}

/// Plans a graph, runs it on inputs of a seed, and compares its outputs with the oracle's.
pub(crate) fn check(backend: &mut Backend, spec: &GraphSpec, seed: u64) -> Result<(), String> {
    check_within(backend, spec, seed, 1.0)
}

/// As [`check`], with a multiple of the tolerance of one operation, for sums of many terms and graphs of many operations.
pub(crate) fn check_within(backend: &mut Backend, spec: &GraphSpec, seed: u64, factor: f64) -> Result<(), String> {
    check_runs(backend, spec, inputs(spec, seed), inputs(spec, seed + 1), factor)
}

/// As [`check_within`], on these inputs.
pub(crate) fn check_inputs(
    backend: &mut Backend,
    spec: &GraphSpec,
    inputs: Vec<Bytes>,
    factor: f64,
) -> Result<(), String> {
    check_runs(backend, spec, inputs.clone(), inputs, factor)
}

/// Runs a graph on inputs, on others, and on the first again, and compares the outputs of the first with the oracle's.
fn check_runs(
    backend: &mut Backend,
    spec: &GraphSpec,
    inputs: Vec<Bytes>,
    others: Vec<Bytes>,
    factor: f64,
) -> Result<(), String> {
    let plan = Arc::new(Plan::new(&Graph::new(spec).map_err(|error| error.to_string())?));
    let slices: Vec<_> = inputs.iter().map(|input| &input[..]).collect();
    let expected = oracle::execute(&plan, &slices);
    let [got, _, again] = [inputs.clone(), others, inputs].map(|inputs| execute(backend, &plan, inputs));
    let got = got?;
    // A GPU captures a small plan as a graph when it executes it again.
    if again? != got {
        return Err("results of the third execution differ from those of the first".to_owned());
    }
    for (nth, of) in plan.outputs.iter().enumerate() {
        let name = &spec.outputs[nth];
        compare(of, &expected[nth], &got[nth], factor)
            .map_err(|error| format!("{name} ({}): {error}", op_of(spec, name)))?;
    }
    Ok(())
}

/// The inputs of a graph for a seed.
pub(crate) fn inputs(spec: &GraphSpec, seed: u64) -> Vec<Bytes> {
    let mut random = random(seed);
    spec.inputs.iter().map(|(_, of)| elements(of, &mut random)).collect()
}

/// The outputs of a plan.
pub(crate) fn execute(backend: &mut Backend, plan: &Arc<Plan>, inputs: Vec<Bytes>) -> Result<Vec<Bytes>, String> {
    let request = ExecuteRequest::new(Arc::clone(plan), inputs);
    Ok(run_batch::<Execute>(&[request], backend).map_err(|error| error.to_string())?.remove(0).returned)
}

fn op_of<'a>(spec: &'a GraphSpec, name: &str) -> &'a str {
    spec.nodes.iter().find(|node| node.name == name).map_or("input", |node| &node.op)
}

/// Relative and absolute tolerance of a type, those of `torch.testing.assert_close`.
pub(crate) fn tolerance(dtype: Dtype) -> (f64, f64) {
    match dtype {
        Dtype::F16 => (1e-3, 1e-5),
        Dtype::Bf16 => (1.6e-2, 1e-5),
        Dtype::F32 => (1.3e-6, 1e-5),
        Dtype::F64 => (1e-7, 1e-7),
        Dtype::Bool
        | Dtype::U8
        | Dtype::I8
        | Dtype::U16
        | Dtype::I16
        | Dtype::U32
        | Dtype::I32
        | Dtype::U64
        | Dtype::I64 => (0.0, 0.0),
    }
}

fn compare(of: &TensorType, expected: &[u8], got: &[u8], factor: f64) -> Result<(), String> {
    if expected.len() != got.len() {
        return Err(format!("{} bytes expected, got {}", expected.len(), got.len()));
    }
    let (relative, absolute) = tolerance(of.dtype);
    let size = of.dtype.size();
    for (index, (want, is)) in expected.chunks_exact(size).zip(got.chunks_exact(size)).enumerate() {
        let [want, is] = [want, is].map(|bytes| {
            let mut word = [0; 8];
            word[..size].copy_from_slice(bytes);
            Literal::from_bits(of.dtype, u64::from_le_bytes(word))
        });
        let a = want.as_f64();
        let b = is.as_f64();
        let close = (a - b).abs() <= factor * (absolute + relative * a.abs());
        if want != is && !close && !(a.is_nan() && b.is_nan()) {
            return Err(format!("element {index} of {:?}: expected {want:?}, got {is:?}", of.shape));
        }
    }
    Ok(())
}

/// Every elementwise operation that takes one, two or three operands of the type.
fn elementwise(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    let of = tensor(dtype, &[ROWS, COLUMNS]);
    let inputs = [("a", of.clone()), ("b", of.clone()), ("c", of), ("m", tensor(Dtype::Bool, &[ROWS, COLUMNS]))];
    let mut checked = 0;
    for name in elementwise_names() {
        for operands in [&["a"][..], &["a", "b"], &["a", "b", "c"], &["m", "a", "b"], &["a", "m"]] {
            let spec = graph(&inputs, vec![node("y", name, operands, &attributes(name))]);
            if Graph::new(&spec).is_ok() {
                checked += 1;
                check(backend, &spec, checked).map_err(|error| format!("{name}: {error}"))?;
            }
        }
    }
    if checked < 20 { Err(format!("only {checked} operations take {dtype}")) } else { Ok(()) }
}

/// Attributes that an operation requires.
fn attributes(op: &str) -> Vec<(&'static str, Attribute)> {
    match op {
        "to" | "cast" => vec![("dtype", Attribute::Text("f32".to_owned()))],
        "threshold" => vec![("threshold", Attribute::Float(0.5)), ("value", Attribute::Float(2.0))],
        "hardtanh" => vec![("min_val", Attribute::Float(-0.5)), ("max_val", Attribute::Float(2.0))],
        "masked_fill" => vec![("value", Attribute::Int(1))],
        "clamp" => vec![("min", Attribute::Int(0)), ("max", Attribute::Int(3))],
        _ => vec![],
    }
}

/// Attributes that are optional, with values other than their defaults.
fn set_attributes(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    let of = tensor(dtype, &[ROWS, COLUMNS]);
    let inputs = [("a", of.clone()), ("b", of.clone()), ("c", of.clone())];
    let number = |name, value| (name, Attribute::Float(value));
    let text = |name, value: &str| (name, Attribute::Text(value.to_owned()));
    // A scalar of integers is one.
    let scalar =
        |name, float, int| (name, if dtype.is_float() { Attribute::Float(float) } else { Attribute::Int(int) });
    let all = vec![
        node("gelu", "gelu", &["a"], &[text("approximate", "tanh")]),
        node("elu", "elu", &["a"], &[number("alpha", 0.375)]),
        node("leaky_relu", "leaky_relu", &["a"], &[number("negative_slope", 0.25)]),
        node("softplus", "softplus", &["a"], &[number("beta", 2.0), number("threshold", 3.0)]),
        node("logit", "logit", &["a"], &[number("eps", 0.0625)]),
        node("nan_to_num", "nan_to_num", &["a"], &[scalar("nan", 2.5, 1), scalar("posinf", 7.0, 1)]),
        node("add", "add", &["a", "b"], &[scalar("alpha", -1.5, 3)]),
        node("add_scalar", "add", &["a"], &[scalar("other", 0.5, 1), scalar("alpha", 3.0, 2)]),
        node("sub", "sub", &["a", "b"], &[scalar("alpha", 0.25, 2)]),
        node("sub_from", "sub", &["b"], &[scalar("input", 1.5, 7), scalar("alpha", 2.0, 2)]),
        node("div_trunc", "div", &["a", "b"], &[text("rounding_mode", "trunc")]),
        node("div_floor", "div", &["a", "b"], &[text("rounding_mode", "floor")]),
        node("div_of", "div", &["b"], &[scalar("input", -7.5, 7), text("rounding_mode", "floor")]),
        node("clamp_min", "clamp", &["a"], &[scalar("min", -0.75, 2)]),
        node("clamp_max", "clamp", &["a"], &[scalar("max", 1.25, 3)]),
        node("lerp", "lerp", &["a", "b"], &[number("weight", 0.75)]),
        node("addcmul", "addcmul", &["a", "b", "c"], &[scalar("value", -0.5, 2)]),
        node("addcdiv", "addcdiv", &["a", "b", "c"], &[number("value", 0.5)]),
    ];
    let is_valid =
        |inputs: &[(&str, TensorType)], one: &NodeSpec| Graph::new(&graph(inputs, vec![one.clone()])).is_ok();
    let count = all.len();
    let nodes: Vec<_> = all.into_iter().filter(|one| is_valid(&inputs, one)).collect();
    if nodes.len() < if dtype.is_float() { count } else { 8 } {
        return Err(format!("only {} of {count} operations take {dtype}", nodes.len()));
    }
    check(backend, &graph(&inputs, nodes), 21)?;
    let reduced =
        |name: &str, op: &str, dim: i64, attribute| node(name, op, &["x"], &[("dim", Attribute::Int(dim)), attribute]);
    let mut nodes = vec![
        reduced("sums", "sum", 1, text("dtype", "f64")),
        reduced("narrow_sums", "sum", 0, text("dtype", if dtype.is_float() { "f32" } else { "i16" })),
        reduced("prefixes", "cumsum", 0, text("dtype", "f64")),
    ];
    if dtype.is_float() {
        nodes.push(reduced("means", "mean", 0, text("dtype", "f64")));
        nodes.push(reduced("biased", "var", 1, number("correction", 0.0)));
        nodes.push(reduced("corrected", "std", 0, number("correction", 2.5)));
    }
    if let Some(refused) = nodes.iter().find(|one| !is_valid(&[("x", of.clone())], one)) {
        return Err(format!("{} is refused", refused.name));
    }
    let spec = if dtype == Dtype::Bool { graph(&[("x", of)], nodes) } else { finite(&[("x", of)], nodes) };
    check_within(backend, &spec, 22, 8.0)
}

/// Operations without operands. The numbers of `linspace` are also those of its definition.
fn generators(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    let of = ("dtype", Attribute::Text(dtype.name().to_owned()));
    let int = |name, value| (name, Attribute::Int(value));
    let float = |name, value| (name, Attribute::Float(value));
    let [start, end] = [-2.5, 60.25];
    let numbers = |steps| {
        let attributes = [float("start", start), float("end", end), int("steps", steps), of.clone()];
        node(&format!("linspace_{steps}"), "linspace", &[], &attributes)
    };
    let steps = [0, 1, 2, 31, 32, 33, 1025];
    let mut nodes: Vec<_> = steps.into_iter().map(numbers).collect();
    nodes.extend([
        node("down", "linspace", &[], &[int("start", 9), int("end", -9), int("steps", 4), of.clone()]),
        node("integers", "arange", &[], &[int("start", -3), int("end", 300), int("step", 7), of.clone()]),
        node("fractions", "arange", &[], &[float("start", 9.5), float("end", -9.0), float("step", -0.25), of.clone()]),
        node("full", "full", &[], &[("shape", Attribute::Ints(vec![3, 0, 2])), int("value", 1), of.clone()]),
        node("ones", "full", &[], &[("shape", Attribute::Ints(vec![7, 5])), int("value", 1), of]),
    ]);
    let spec = graph(&[], nodes);
    check(backend, &spec, 23)?;
    let plan = Arc::new(Plan::new(&Graph::new(&spec).map_err(|error| error.to_string())?));
    let got = execute(backend, &plan, vec![])?;
    for ((steps, of), got) in steps.into_iter().zip(&plan.outputs).zip(&got) {
        let by = (end - start) / (steps - 1).max(1) as f64;
        let numbers = (0..steps).map(|nth| if nth > 0 && nth == steps - 1 { end } else { start + nth as f64 * by });
        let literals = numbers.map(|number| Literal::from_f64(dtype, number).bits().to_le_bytes());
        let expected: Vec<u8> = literals.flat_map(|bytes| bytes.into_iter().take(dtype.size())).collect();
        compare(of, &expected, got, 1.0).map_err(|error| format!("{steps} numbers: {error}"))?;
    }
    Ok(())
}

fn casts(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    let of = tensor(dtype, &[ROWS, COLUMNS]);
    let casts = Dtype::ALL.map(|to| node(to.name(), "to", &["x"], &[("dtype", Attribute::Text(to.name().to_owned()))]));
    check(backend, &graph(&[("x", of)], casts.to_vec()), 3)
}

/// Views of tensors, materialised, and operations that read them in place.
fn views(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    let int = Attribute::Int;
    let ints = |values: &[i64]| Attribute::Ints(values.to_vec());
    let inputs = [("x", tensor(dtype, &[5, 33, 18])), ("row", tensor(dtype, &[18]))];
    let maximum = "maximum";
    let nodes = vec![
        node("permuted", "permute", &["x"], &[("dims", ints(&[2, 0, 1]))]),
        node("matrix_transpose", "transpose", &["x"], &[("dim0", int(1)), ("dim1", int(2))]),
        node("flipped", "flip", &["x"], &[("dims", ints(&[0, 2]))]),
        node("every_third", "slice", &["x"], &[("dim", int(1)), ("start", int(-2)), ("step", int(-3))]),
        node("odd", "slice", &["x"], &[("dim", int(2)), ("start", int(1)), ("end", int(8))]),
        node("selected", "select", &["permuted"], &[("dim", int(0)), ("index", int(-1))]),
        node("expanded", "expand", &["row"], &[("shape", ints(&[5, 33, -1]))]),
        node("flat", "flatten", &["permuted"], &[]),
        node("thin", "slice", &["permuted"], &[("dim", int(2)), ("start", int(7)), ("end", int(8))]),
        node("squeezed", "squeeze", &["thin"], &[]),
        node("squeezed_last", "squeeze", &["thin"], &[("dim", int(-1))]),
        node("squeezed_in_vain", "squeeze", &["thin"], &[("dim", ints(&[0, 1]))]),
        node("scalar_of_ones", "squeeze", &["corner"], &[]),
        node("corner", "slice", &["row"], &[("dim", int(0)), ("start", int(-1))]),
        node("joined", "concat", &["x", "flipped", "x"], &[("dim", int(1))]),
        node("empty", "slice", &["x"], &[("dim", int(0)), ("start", int(5))]),
        node("over_flipped", maximum, &["x", "flipped"], &[]),
        node("over_row", maximum, &["x", "row"], &[]),
        node("over_expanded", maximum, &["flipped", "expanded"], &[]),
        node("over_transposed", maximum, &["matrix_transpose", "matrix_transpose"], &[]),
        node("over_empty", maximum, &["empty", "row"], &[]),
        node("over_squeezed", maximum, &["squeezed_last", "scalar_of_ones"], &[]),
        node("scalar", "amax", &["x"], &[]),
        node("over_scalar", maximum, &["odd", "scalar"], &[]),
    ];
    check(backend, &graph(&inputs, nodes), 4)
}

/// Every reduction over rows, columns, the middle, everything and nothing.
fn reductions(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    let names = ["sum", "mean", "amin", "amax", "all", "any", "norm", "logsumexp", "var", "std", "argmin", "argmax"];
    let dims: [&[i64]; 5] = [&[0], &[1], &[2], &[0, 2], &[0, 1, 2]];
    for shape in [[3, 65, 40], [1, 1, 1], [2, 3, 5000], [700, 9, 2]] {
        let of = tensor(dtype, &shape);
        let mut nodes = vec![];
        for name in names {
            for dims in dims {
                let label = format!("{name}_{dims:?}");
                let dim = ("dim", Attribute::Ints(dims.to_vec()));
                nodes.push(node(&label, name, &["x"], &[dim, ("keepdim", Attribute::Bool(dims.len() == 2))]));
            }
            nodes.push(node(name, name, &["x"], &[]));
        }
        nodes.retain(|node| Graph::new(&graph(&[("x", of.clone())], vec![node.clone()])).is_ok());
        check(backend, &graph(&[("x", of.clone())], nodes), 5)?;
        check(backend, &products_of_elements(&of), 5)?;
    }
    let empty = tensor(dtype, &[4, 0]);
    let nodes: Vec<_> =
        ["sum", "prod", "all", "any"].map(|name| node(name, name, &["x"], &[("dim", Attribute::Int(1))])).into();
    check(backend, &graph(&[("x", empty)], nodes), 6)
}

/// Products of elements: of numbers around 1, since the order decides which products overflow on the way.
fn products_of_elements(of: &TensorType) -> GraphSpec {
    let mut nodes = vec![];
    let operand = if of.dtype.is_float() {
        let number = |name, value| (name, Attribute::Float(value));
        nodes.push(node(
            "finite",
            "nan_to_num",
            &["x"],
            &[number("nan", 1.0), number("posinf", 1.0), number("neginf", -1.0)],
        ));
        nodes.push(node("near_1", "clamp", &["finite"], &[number("min", 0.9), number("max", 1.1)]));
        "near_1"
    } else {
        "x"
    };
    for dim in 0..3 {
        nodes.push(node(&format!("prod_{dim}"), "prod", &[operand], &[("dim", Attribute::Int(dim))]));
    }
    let mut spec = graph(&[("x", of.clone())], nodes);
    spec.outputs.retain(|name| name.starts_with("prod"));
    spec
}

/// Softmax and norms of short, long and very long rows.
fn rows(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    for shape in [[7, 1], [33, 31], [9, 4096], [2, 70_001], [0, 5]] {
        let last = tensor(dtype, &shape[1..]);
        let inputs = [("x", tensor(dtype, &shape)), ("w", last.clone()), ("b", last)];
        let nodes = vec![
            node("softmax", "softmax", &["x"], &[("dim", Attribute::Int(-1))]),
            node("softmax_of_columns", "softmax", &["x"], &[("dim", Attribute::Int(0))]),
            node("log_softmax", "log_softmax", &["x"], &[("dim", Attribute::Int(1))]),
            node("layer_norm", "layer_norm", &["x"], &[]),
            node("layer_norm_affine", "layer_norm", &["x", "w", "b"], &[("eps", Attribute::Float(0.1))]),
            node("rms_norm", "rms_norm", &["x", "w"], &[("eps", Attribute::Float(1e-3))]),
        ];
        check(backend, &graph(&inputs, nodes), 7)?;
    }
    Ok(())
}

/// A graph of numbers in [-4, 4]: NaN and infinities become 0, so that most elements of products tell something.
pub(crate) fn finite(inputs: &[(&str, TensorType)], nodes: Vec<NodeSpec>) -> GraphSpec {
    let mut spec = graph(&[], nodes);
    let number = |name, value| (name, Attribute::Float(value));
    for (name, of) in inputs {
        if of.dtype == Dtype::Bool {
            spec.inputs.push(((*name).to_owned(), of.clone()));
            continue;
        }
        let given = format!("{name}_in");
        if of.dtype.is_float() {
            let zeros = [number("nan", 0.0), number("posinf", 0.0), number("neginf", 0.0)];
            let bounds = [number("min", -4.0), number("max", 4.0)];
            spec.nodes.push(node(&format!("{name}_finite"), "nan_to_num", &[&given], &zeros));
            spec.nodes.push(node(name, "clamp", &[&format!("{name}_finite")], &bounds));
        } else {
            spec.nodes.push(node(name, "positive", &[&given], &[]));
        }
        spec.inputs.push((given, of.clone()));
    }
    spec
}

/// Layers with epilogues that fill a device with tiles of 128 rows and 192 columns, and do not divide into them; of a batch, too.
fn large_layers(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    let of = |shape: &[usize]| tensor(dtype, shape);
    let inputs = [
        ("x", of(&[1100, 72])),
        ("w", of(&[2696, 72])),
        ("bias", of(&[2696])),
        ("batch", of(&[6, 300, 8])),
        ("factors", of(&[6, 1400, 8])),
    ];
    let activation = |name: &str| [("activation", Attribute::Text(name.to_owned()))];
    let nodes = vec![
        node("gelu", "linear", &["x", "w", "bias"], &activation("gelu")),
        node("products", "matmul", &["batch", "factors"], &[("transpose_b", Attribute::Bool(true))]),
        node("halved", "mul", &["products"], &[("other", Attribute::Float(0.5))]),
    ];
    let mut spec = finite(&inputs, nodes);
    spec.outputs = ["gelu", "halved"].map(str::to_owned).to_vec();
    check_within(backend, &spec, 8, 8.0)
}

/// Products of finite matrices: dense, transposed, batched, broadcast, of vectors, without an inner dimension.
fn products(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    let of = |shape: &[usize]| tensor(dtype, shape);
    let inputs = [
        ("a", of(&[33, 65])),
        ("b", of(&[65, 40])),
        ("at", of(&[65, 33])),
        ("bt", of(&[40, 65])),
        ("batch", of(&[3, 1, 17, 65])),
        ("v", of(&[65])),
        ("bias", of(&[40])),
        ("thin", of(&[33, 0])),
        ("flat", of(&[0, 40])),
    ];
    let transposed = [("transpose_a", Attribute::Bool(true)), ("transpose_b", Attribute::Bool(true))];
    let mut nodes = vec![
        node("dense", "matmul", &["a", "b"], &[]),
        node("transposed", "matmul", &["at", "bt"], &transposed),
        node("batched", "matmul", &["batch", "b"], &[]),
        node("of_vector", "matmul", &["a", "v"], &[]),
        node("of_vectors", "matmul", &["v", "v"], &[]),
        node("row", "matmul", &["v", "b"], &[]),
        node("linear", "linear", &["batch", "bt", "bias"], &[]),
        node("empty", "matmul", &["thin", "flat"], &[]),
        node(
            "sliced",
            "slice",
            &["a"],
            &[("dim", Attribute::Int(1)), ("start", Attribute::Int(1)), ("step", Attribute::Int(2))],
        ),
        node("gram", "matmul", &["sliced", "sliced"], &[("transpose_b", Attribute::Bool(true))]),
    ];
    if dtype.is_float() {
        nodes.push(node(
            "gelu",
            "linear",
            &["batch", "bt", "bias"],
            &[("activation", Attribute::Text("gelu".to_owned()))],
        ));
    }
    let spec = finite(&inputs, nodes);
    // The square root of the number of terms.
    check_within(backend, &spec, 8, 8.0)
}

/// Long enough for all threads and multiprocessors.
fn large_map() -> GraphSpec {
    let of = tensor(Dtype::F32, &[1 << 20]);
    let nodes = vec![node("y", "mul", &["x", "z"], &[]), node("s", "sum", &["y"], &[])];
    graph(&[("x", of.clone()), ("z", of)], nodes)
}

fn chain(length: usize) -> GraphSpec {
    let of = tensor(Dtype::F32, &[ROWS, COLUMNS]);
    let mut nodes = vec![node("n0", "tanh", &["x"], &[])];
    for nth in 1..length {
        let before = format!("n{}", nth - 1);
        let other = [("other", Attribute::Float(1.0 / (nth as f64 + 1.0)))];
        let op = ["add", "mul", "sub"][nth % 3];
        nodes.push(node(&format!("n{nth}"), op, &[&before], &other));
    }
    let mut spec = graph(&[("x", of)], nodes);
    spec.outputs = vec![format!("n{}", length - 1)];
    spec
}

/// Random graphs, each planned as it is and with every value as an output, which shares no memory: both agree with the oracle, and their
/// values with each other. The oracle runs the same plan, and cannot tell that a value was overwritten.
fn random_graphs(backend: &mut Backend, block: u64) -> Result<(), String> {
    for nth in 0..6 {
        let seed = 100 * block + nth;
        let mut random = random(seed);
        let all = random_graph(&mut random);
        let mut some = all.clone();
        some.outputs.retain(|_| random.random_ratio(1, 6));
        some.outputs.extend(all.outputs.last().cloned());
        check_within(backend, &all, seed, GRAPH_FACTOR)
            .map_err(|error| format!("graph {seed}, all values: {error}"))?;
        check_within(backend, &some, seed, GRAPH_FACTOR).map_err(|error| format!("graph {seed}: {error}"))?;
        let separate = values(backend, &all, seed)?;
        for (name, (of, value)) in values(backend, &some, seed)? {
            compare(&of, &separate[&name].1, &value, GRAPH_FACTOR)
                .map_err(|error| format!("graph {seed}: {name} differs with fewer outputs: {error}"))?;
        }
    }
    Ok(())
}

/// The outputs of a graph by their names.
fn values(backend: &mut Backend, spec: &GraphSpec, seed: u64) -> Result<BTreeMap<String, (TensorType, Bytes)>, String> {
    let plan = Arc::new(Plan::new(&Graph::new(spec).map_err(|error| error.to_string())?));
    let outputs = execute(backend, &plan, inputs(spec, seed))?;
    Ok(spec.outputs.iter().cloned().zip(plan.outputs.iter().cloned().zip(outputs)).collect())
}

/// Square tensors, so that every operation fits every value. Their numbers stay small and finite.
fn random_graph(random: &mut StdRng) -> GraphSpec {
    let of = tensor(Dtype::F32, &[24, 24]);
    let bounded = [("min", Attribute::Float(-2.0)), ("max", Attribute::Float(2.0))];
    let zero = |name| (name, Attribute::Float(0.0));
    let mut nodes = vec![];
    for input in ["x", "y"] {
        let zeros = [zero("nan"), zero("posinf"), zero("neginf")];
        nodes.push(node(&format!("{input}f"), "nan_to_num", &[input], &zeros));
        nodes.push(node(&format!("{input}c"), "clamp", &[&format!("{input}f")], &bounded));
    }
    let mut names = vec!["xc".to_owned(), "yc".to_owned()];
    for nth in 0..random.random_range(3..30) {
        let name = format!("n{nth}");
        let a = names[random.random_range(0..names.len())].clone();
        let b = names[random.random_range(0..names.len())].clone();
        let keep = [("dim", Attribute::Int(1)), ("keepdim", Attribute::Bool(true))];
        match random.random_range(0..12) {
            0 | 1 => nodes.push(node(&name, "maximum", &[&a, &b], &[])),
            2 => nodes.push(node(&name, "tanh", &[&a], &[])),
            3 => {
                nodes.push(node(
                    &name,
                    "transpose",
                    &[&a],
                    &[("dim0", Attribute::Int(0)), ("dim1", Attribute::Int(1))],
                ));
            }
            4 => {
                nodes.push(node(&format!("{name}p"), "matmul", &[&a, &b], &[]));
                nodes.push(node(&name, "mul", &[&format!("{name}p")], &[("other", Attribute::Float(1.0 / 24.0))]));
            }
            5 => nodes.push(node(&name, "softmax", &[&a], &[("dim", Attribute::Int(0))])),
            6 => nodes.push(node(&name, "layer_norm", &[&a], &[("eps", Attribute::Float(0.5))])),
            7 => nodes.push(node(&name, "flip", &[&a], &[("dims", Attribute::Ints(vec![0]))])),
            8 => {
                nodes.push(node(&format!("{name}c"), "concat", &[&a, &b], &[("dim", Attribute::Int(0))]));
                let middle = [("start", Attribute::Int(12)), ("end", Attribute::Int(36))];
                nodes.push(node(&name, "slice", &[&format!("{name}c")], &middle));
            }
            9 => {
                nodes.push(node(&format!("{name}s"), "cumsum", &[&a], &[("dim", Attribute::Int(0))]));
                nodes.push(node(&name, "mul", &[&format!("{name}s")], &[("other", Attribute::Float(1.0 / 24.0))]));
            }
            10 => nodes.push(node(&name, "sort", &[&a], &[("dim", Attribute::Int(1))])),
            _ => {
                nodes.push(node(&format!("{name}m"), "mean", &[&a], &keep));
                nodes.push(node(&name, "sub", &[&b, &format!("{name}m")], &[]));
            }
        }
        if random.random_ratio(1, 4) {
            nodes.push(node(&format!("{name}b"), "clamp", &[&name], &bounded));
            names.push(format!("{name}b"));
        }
        names.push(name);
    }
    graph(&[("x", of.clone()), ("y", of)], nodes)
}

/// Steps of every kind, some with workspaces.
fn small_steps() -> GraphSpec {
    let keep = [("dim", Attribute::Int(-1)), ("keepdim", Attribute::Bool(true))];
    let nodes = vec![
        node("softmax", "softmax", &["x"], &[("dim", Attribute::Int(-1))]),
        node("exp", "exp", &["softmax"], &[]),
        node("sum", "sum", &["long"], &[]),
        node("parts", "softmax", &["long"], &[("dim", Attribute::Int(-1))]),
        node("product", "matmul", &["exp", "x"], &[("transpose_b", Attribute::Bool(true))]),
        node("integers", "argmax", &["product"], &[("dim", Attribute::Int(0))]),
        node("scaled", "mul", &["product", "sum"], &[]),
        node("mean", "mean", &["scaled"], &keep),
        node("result", "sub", &["scaled", "mean"], &[]),
    ];
    let of = |shape: &[usize]| tensor(Dtype::F32, shape);
    GraphSpec {
        outputs: ["result", "integers", "parts", "x"].map(str::to_owned).into(),
        ..graph(&[("x", of(&[ROWS, COLUMNS])), ("long", of(&[1, 300_001]))], nodes)
    }
}

/// Enough executions that a GPU launches the kernels of a graph one by one now and then, to time them.
fn repeated_plans(backend: &mut Backend) -> Result<(), String> {
    let spec = small_steps();
    let plan = Arc::new(Plan::new(&Graph::new(&spec).map_err(|error| error.to_string())?));
    let run = |backend: &mut Backend, seed| execute(backend, &plan, inputs(&spec, seed));
    let first = [run(backend, 0)?, run(backend, 1)?];
    let calls = |backend: &Backend| match backend {
        Backend::Cuda(worker) => worker.device().kernel_stats().iter().map(|kernel| kernel.calls).sum(),
        Backend::Cpu(_) => u64::MAX,
    };
    let before = calls(backend);
    for nth in 2..80 {
        if run(backend, nth % 2)? != first[usize::from(nth % 2 == 1)] {
            return Err(format!("execution {nth} differs from the first on its inputs"));
        }
    }
    // Other tests add to the counters of the device.
    let expected = before.saturating_add(78 * plan.steps.len() as u64);
    if calls(backend) < expected {
        return Err(format!("expected at least {expected} counted launches, got {}", calls(backend)));
    }
    let graphs = |backend: &Backend| match backend {
        Backend::Cuda(worker) => Some(worker.graph_count()),
        Backend::Cpu(_) => None,
    };
    if graphs(backend).is_some_and(|count| count != 1) {
        return Err(format!("expected one graph, got {:?}", graphs(backend)));
    }
    drop(plan);
    check(backend, &chain(3), 1)?;
    match graphs(backend) {
        None | Some(1) => Ok(()),
        Some(count) => Err(format!("expected the graph of the last plan alone, got {count}")),
    }
}

fn batch_invariance(backend: &mut Backend) -> Result<(), String> {
    let spec = chain(5);
    let plan = Arc::new(Plan::new(&Graph::new(&spec).map_err(|error| error.to_string())?));
    let requests: Vec<_> = (0..4)
        .map(|seed| {
            let inputs: Vec<_> = plan.inputs.iter().map(|of| elements(of, &mut random(seed))).collect();
            ExecuteRequest::new(Arc::clone(&plan), inputs)
        })
        .collect();
    let together = run_batch::<Execute>(&requests, backend).map_err(|error| error.to_string())?;
    for (nth, (request, answer)) in requests.into_iter().zip(together).enumerate() {
        let alone = run_batch::<Execute>(&[request], backend).map_err(|error| error.to_string())?;
        if alone[0].returned != answer.returned {
            return Err(format!("request {nth} depends on its neighbours"));
        }
    }
    Ok(())
}
