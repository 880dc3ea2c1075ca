//! Attention against the oracle: types, extents, masks, groups of heads, lengths and layouts.

use accelerd_kernels::Backend;
use accelerd_tensor::{Attribute, Dtype, GraphSpec, NodeSpec};

use super::{
    Case,
    tensor::{check_within, node, tensor},
};

const FLOATS: [Dtype; 4] = [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64];

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![];
    for dtype in FLOATS {
        let mut case = |name: &str, check: fn(&mut Backend, Dtype) -> Result<(), String>| {
            cases.push(Case::new(format!("tensor::attention_{name}_{dtype}"), move |backend| check(backend, dtype)));
        };
        case("extents", extents);
        case("masks", masks);
        case("groups", groups);
        case("few_queries", few_queries);
        case("many_heads", many_heads);
        case("empty", empty);
        if dtype.size() == 2 {
            case("large_tiles", large_tiles);
        }
        case("large_scores", large_scores);
    }
    cases
}

/// Operands and attributes.
type Call = (Vec<&'static str>, Vec<(&'static str, Attribute)>);

/// An attention problem: the operands of a node.
struct Problem {
    dtype: Dtype,
    /// Batch, heads, heads of keys, queries, keys, columns of keys, columns of values.
    shape: [usize; 7],
    /// True if operands are `[batch, rows, heads, columns]`.
    is_permuted: bool,
    /// Nodes that are read in addition to query, key and value, and attributes.
    calls: Vec<Call>,
}

const CAUSAL: (&str, Attribute) = ("is_causal", Attribute::Bool(true));

impl Problem {
    fn new(dtype: Dtype, shape: [usize; 7]) -> Self {
        Self { dtype, shape, is_permuted: false, calls: vec![(vec![], vec![]), (vec![], vec![CAUSAL])] }
    }

    fn graph(&self) -> GraphSpec {
        let [batch, heads, kv_heads, queries, keys, dim, value_dim] = self.shape;
        let mut spec = GraphSpec::default();
        self.operand(&mut spec, "q", [batch, heads, queries, dim]);
        self.operand(&mut spec, "k", [batch, kv_heads, keys, dim]);
        self.operand(&mut spec, "v", [batch, kv_heads, keys, value_dim]);
        self.masks(&mut spec);
        for (nth, (operands, attributes)) in self.calls.iter().enumerate() {
            let name = format!("attention{nth}");
            let inputs = [&["q", "k", "v"][..], operands].concat();
            spec.nodes.push(node(&name, "scaled_dot_product_attention", &inputs, attributes));
            spec.outputs.push(name);
        }
        spec
    }

    /// Finite numbers: of a value positive ones, so that the relative error of a result is that of its terms.
    fn operand(&self, spec: &mut GraphSpec, name: &str, shape: [usize; 4]) {
        let [batch, heads, rows, columns] = shape;
        let input = if self.is_permuted { [batch, rows, heads, columns] } else { shape };
        let [given, finite, bounded] = ["in", "finite", "bounded"].map(|part| format!("{name}_{part}"));
        let number = |name, value| (name, Attribute::Float(value));
        let (min, max) = if name == "v" { (0.5, 4.0) } else { (-1.0, 1.0) };
        let zeros = [number("nan", 0.0), number("posinf", 0.0), number("neginf", 0.0)];
        spec.nodes.push(node(&finite, "nan_to_num", &[&given], &zeros));
        spec.nodes.push(node(&bounded, "clamp", &[&finite], &[number("min", min), number("max", max)]));
        let dims = if self.is_permuted { vec![0, 2, 1, 3] } else { vec![0, 1, 2, 3] };
        spec.nodes.push(node(name, "permute", &[&bounded], &[("dims", Attribute::Ints(dims))]));
        spec.inputs.push((given, tensor(self.dtype, &input)));
    }

    /// Masks by name, all of which exclude every key of some queries but for `by_key`; and lengths.
    fn masks(&self, spec: &mut GraphSpec) {
        let [batch, heads, _, queries, keys, ..] = self.shape;
        let signed = |extent: usize| Attribute::Int(i64::try_from(extent).expect("small extents"));
        let ints = |extents: &[usize]| {
            Attribute::Ints(extents.iter().map(|extent| i64::try_from(*extent).expect("small extents")).collect())
        };
        let full = |name: &str, dtype: Dtype| {
            let attributes = [
                ("shape", ints(&[1])),
                ("value", Attribute::Float(f64::NEG_INFINITY)),
                ("dtype", Attribute::Text(dtype.name().to_owned())),
            ];
            node(name, "full", &[], &attributes)
        };
        let noise = |name: &str, shape: &[usize]| (name.to_owned(), tensor(Dtype::I32, shape));
        spec.inputs.extend([
            noise("noise", &[batch, heads, queries, keys]),
            noise("key_noise", &[batch, 1, 1, keys]),
            noise("length_noise", &[batch]),
        ]);
        let other = |value: i64| [("other", Attribute::Int(value))];
        let all: Vec<NodeSpec> = vec![
            node("index", "arange", &[], &[("end", signed(queries))]),
            node("row", "reshape", &["index"], &[("shape", ints(&[queries, 1]))]),
            node("fifth", "remainder", &["row"], &other(5)),
            node("live", "ne", &["fifth"], &other(3)),
            node("dense", "gt", &["noise"], &other(-5)),
            node("bool", "logical_and", &["dense", "live"], &[]),
            node("by_key", "gt", &["key_noise"], &other(-3)),
            full("excluded_same", self.dtype),
            full("excluded_f32", Dtype::F32),
            node("small", "div", &["noise"], &other(4)),
            node("small_same", "to", &["small"], &[("dtype", Attribute::Text(self.dtype.name().to_owned()))]),
            node("same", "where", &["bool", "small_same", "excluded_same"], &[]),
            node("f32", "where", &["bool", "small", "excluded_f32"], &[]),
            node("lengths", "mul", &["length_noise"], &other(9)),
        ];
        spec.nodes.extend(all);
    }
}

/// The square root of the number of terms of a score; 16-bit results have larger errors of their own.
fn check(backend: &mut Backend, problem: &Problem, factor: f64) -> Result<(), String> {
    let factor = if problem.dtype == Dtype::F32 { factor } else { 1.0 };
    let checked = check_within(backend, &problem.graph(), 9, factor);
    checked.map_err(|error| format!("{:?}: {error}", problem.shape))
}

/// Extents about those of tiles, vectors and padded rows, with as many keys as queries and not, causal and not.
fn extents(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    for shape in [
        [2, 3, 3, 65, 67, 64, 64],
        [1, 2, 2, 1, 1, 5, 3],
        [1, 2, 2, 130, 31, 128, 128],
        [1, 1, 1, 33, 200, 40, 97],
        [1, 1, 1, 63, 64, 32, 16],
        [1, 1, 1, 9, 70, 256, 255],
        [1, 1, 1, 70, 40, 96, 160],
        [1, 1, 1, 3, 5, 300, 270],
    ] {
        check(backend, &Problem::new(dtype, shape), 8.0)?;
    }
    let mut scaled = Problem::new(dtype, [1, 2, 2, 20, 90, 24, 24]);
    scaled.calls = [0.5, 0.0, -0.3].map(|scale| (vec![], vec![("scale", Attribute::Float(scale))])).to_vec();
    check(backend, &scaled, 8.0)
}

fn masks(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    for shape in [[2, 2, 2, 33, 70, 64, 64], [1, 3, 3, 70, 129, 20, 7], [1, 1, 1, 6, 9, 300, 30]] {
        let mut problem = Problem::new(dtype, shape);
        let masks = ["bool", "by_key", "same", "f32", "live"];
        problem.calls = masks.map(|mask| (vec![mask], vec![])).to_vec();
        problem.calls.push((vec!["bool", "lengths"], vec![]));
        check(backend, &problem, 8.0)?;
    }
    Ok(())
}

/// Groups of heads, lengths of keys, and heads that lie between rows, aligned and not.
fn groups(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    for shape in [[5, 4, 2, 40, 70, 64, 64], [3, 6, 1, 66, 30, 20, 12], [2, 2, 2, 9, 9, 7, 5]] {
        let group = || ("enable_gqa", Attribute::Bool(true));
        for is_permuted in [false, true] {
            let mut problem = Problem::new(dtype, shape);
            problem.is_permuted = is_permuted;
            problem.calls = vec![
                (vec![], vec![group()]),
                (vec!["lengths"], vec![group()]),
                (vec!["lengths"], vec![group(), CAUSAL]),
                (vec!["same", "lengths"], vec![group()]),
            ];
            check(backend, &problem, 8.0)?;
        }
    }
    Ok(())
}

/// So few queries that the keys are split.
fn few_queries(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    for shape in [[1, 2, 1, 1, 1500, 64, 64], [1, 1, 1, 3, 900, 128, 72], [3, 2, 2, 2, 700, 16, 33]] {
        let group = || ("enable_gqa", Attribute::Bool(true));
        let mut problem = Problem::new(dtype, shape);
        problem.calls = vec![
            (vec![], vec![group()]),
            (vec!["bool"], vec![group()]),
            (vec!["lengths"], vec![group()]),
            (vec![], vec![group(), CAUSAL]),
        ];
        check(backend, &problem, 8.0)?;
    }
    let mut wide = Problem::new(dtype, [1, 1, 1, 700, 700, 8, 8]);
    wide.calls = vec![(vec![], vec![CAUSAL])];
    check(backend, &wide, 8.0)
}

/// Enough heads for two tiles of queries in a warp.
fn many_heads(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    let mut problem = Problem::new(dtype, [64, 4, 4, 100, 20, 8, 8]);
    check(backend, &problem, 8.0)?;
    problem.shape = [128, 2, 2, 40, 70, 8, 4];
    problem.calls = vec![(vec!["bool"], vec![])];
    check(backend, &problem, 8.0)
}

/// Enough queries and keys for full and partial tiles of 128: with groups of heads, masks, and heads between rows.
fn large_tiles(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    let group = || ("enable_gqa", Attribute::Bool(true));
    let mut problem = Problem::new(dtype, [1, 10, 5, 140, 300, 64, 64]);
    problem.calls = vec![(vec![], vec![group()]), (vec![], vec![group(), CAUSAL]), (vec!["bool"], vec![group()])];
    check(backend, &problem, 8.0)?;
    problem.shape = [2, 3, 3, 129, 130, 72, 128];
    problem.is_permuted = true;
    problem.calls =
        vec![(vec![], vec![CAUSAL]), (vec!["f32"], vec![]), (vec![], vec![("scale", Attribute::Float(-0.2))])];
    check(backend, &problem, 8.0)
}

fn empty(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    for shape in [
        [2, 3, 3, 5, 0, 64, 64],
        [2, 3, 3, 0, 5, 64, 64],
        [2, 3, 3, 5, 4, 8, 0],
        [0, 3, 3, 5, 4, 8, 8],
        [2, 0, 0, 5, 4, 8, 8],
    ] {
        check(backend, &Problem::new(dtype, shape), 1.0)?;
    }
    Ok(())
}

/// Scores whose exponentials overflow, of which the largest decides. Their rounding errors are those of large numbers.
fn large_scores(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    let mut problem = Problem::new(dtype, [1, 2, 2, 40, 90, 32, 32]);
    problem.calls = vec![(vec![], vec![("scale", Attribute::Float(30.0))])];
    check(backend, &problem, 200.0)
}
