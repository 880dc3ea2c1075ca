//! Operations by index, scans and sorts of tensors, against the oracle.

use std::sync::Arc;

use accelerd_kernels::{
    Backend, OpError,
    ops::tensor::{Execute, ExecuteRequest},
};
use accelerd_parity::{random, run_batch};
use accelerd_tensor::{Attribute, Dtype, Graph, GraphSpec, NodeSpec, Plan, TensorType};
use bytes::Bytes;
use rand::Rng;

use super::{
    Case,
    tensor::{check_inputs, elements, graph, node, tensor},
};

/// A prefix of thousands of numbers exceeds them, and its error the tolerance of one of them.
const SCAN_FACTOR: f64 = 20.0;
const LONG_SCAN_FACTOR: f64 = 200.0;
const LONG: usize = 1_000_003;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("tensor::index_out_of_range", out_of_range),
        Case::new("tensor::one_hot", one_hot),
        Case::new("tensor::long_scans", long_scans),
        Case::new("tensor::negative_zeros", negative_zeros),
        Case::new("tensor::many_rows", many_rows),
    ];
    for dtype in [Dtype::Bool, Dtype::F16, Dtype::F32, Dtype::I64, Dtype::F64] {
        cases.push(Case::new(format!("tensor::long_sorts_{dtype}"), move |backend| long_sorts(backend, dtype)));
    }
    for dtype in Dtype::ALL {
        cases.push(Case::new(format!("tensor::index_{dtype}"), move |backend| by_index(backend, dtype)));
        cases.push(Case::new(format!("tensor::scans_{dtype}"), move |backend| scans(backend, dtype)));
        cases.push(Case::new(format!("tensor::sorts_{dtype}"), move |backend| sorts(backend, dtype)));
    }
    cases
}

fn int(name: &str, value: i64) -> (&str, Attribute) {
    (name, Attribute::Int(value))
}

fn dim(dim: i64) -> (&'static str, Attribute) {
    int("dim", dim)
}

/// Random indices of a type, from `least` to less than `end`.
fn indices(of: &TensorType, seed: u64, least: i64, end: i64) -> Bytes {
    let mut random = random(seed);
    let bytes = (0..of.elements()).flat_map(|_| {
        let index: i64 = random.random_range(least..end);
        index.to_le_bytes().into_iter().take(of.dtype.size()).collect::<Vec<_>>()
    });
    Bytes::from(bytes.collect::<Vec<_>>())
}

/// Checks operations that read `x` by the indices `i`, which lie within `least..end`.
fn check_indexed(
    backend: &mut Backend,
    [x, i]: [TensorType; 2],
    nodes: Vec<NodeSpec>,
    [least, end]: [i64; 2],
) -> Result<(), String> {
    let inputs = vec![elements(&x, &mut random(1)), indices(&i, 2, least, end)];
    check_inputs(backend, &graph(&[("x", x), ("i", i)], nodes), inputs, 1.0)
}

fn by_index(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    let of = |shape: &[usize]| tensor(dtype, shape);
    let gather = |along| vec![node("y", "gather", &["x", "i"], &[dim(along)])];
    let select = |along| vec![node("y", "index_select", &["x", "i"], &[dim(along)])];
    let take = |along| vec![node("y", "take_along_dim", &["x", "i"], &[dim(along)])];
    for number in [Dtype::I64, Dtype::I32] {
        let index = |shape: &[usize]| tensor(number, shape);
        let mut check =
            |x: &[usize], i: &[usize], nodes, range| check_indexed(backend, [of(x), index(i)], nodes, range);
        check(&[5, 33, 18], &[4, 33, 70], gather(2), [0, 18])?;
        check(&[5, 33, 18], &[9, 20, 7], gather(0), [0, 5])?;
        check(&[], &[], gather(0), [0, 1])?;
        check(&[4, 0], &[3, 0], gather(0), [0, 4])?;
        for (along, extent) in [(0, 5), (1, 33), (2, 64)] {
            check(&[5, 33, 64], &[77], select(along), [0, extent])?;
        }
        check(&[9, 15], &[], select(1), [0, 15])?;
        check(&[6, 1, 40], &[1, 3, 9], take(2), [-40, 40])?;
        check(&[6, 7], &[50], vec![node("y", "take_along_dim", &["x", "i"], &[])], [-42, 42])?;
        for columns in [1, 6, 33, 128, 770] {
            check(&[50, columns], &[3, 41], vec![node("y", "embedding", &["x", "i"], &[])], [0, 50])?;
        }
        // A view that is not contiguous.
        let nodes = vec![
            node("t", "transpose", &["x"], &[int("dim0", 0), int("dim1", 1)]),
            node("f", "flip", &["t"], &[("dims", Attribute::Ints(vec![0]))]),
            node("y", "index_select", &["f", "i"], &[dim(0)]),
            node("z", "gather", &["f", "g"], &[dim(1)]),
            node("g", "broadcast_to", &["c"], &[("shape", Attribute::Ints(vec![12, 18]))]),
            node("c", "unsqueeze", &["i"], &[dim(1)]),
        ];
        let mut spec = graph(&[("x", of(&[31, 20])), ("i", index(&[12]))], nodes);
        spec.outputs = vec!["y".to_owned(), "z".to_owned()];
        let inputs = vec![elements(&of(&[31, 20]), &mut random(3)), indices(&index(&[12]), 4, 0, 20)];
        check_inputs(backend, &spec, inputs, 1.0)?;
    }
    let fill = [("value", if dtype.is_float() { Attribute::Float(-2.5) } else { Attribute::Int(1) })];
    let of_mask = [("x", of(&[33, 65])), ("m", tensor(Dtype::Bool, &[65]))];
    let spec = graph(&of_mask, vec![node("y", "masked_fill", &["x", "m"], &fill)]);
    let inputs = of_mask.iter().map(|(_, of)| elements(of, &mut random(5))).collect();
    check_inputs(backend, &spec, inputs, 1.0)
}

fn one_hot(backend: &mut Backend) -> Result<(), String> {
    for number in [Dtype::I32, Dtype::I64] {
        for (shape, classes) in [(&[3, 41][..], 10), (&[], 1), (&[700], 1000), (&[0], 5)] {
            let of = tensor(number, shape);
            let spec = graph(&[("i", of.clone())], vec![node("y", "one_hot", &["i"], &[int("num_classes", classes)])]);
            check_inputs(backend, &spec, vec![indices(&of, 6, 0, classes)], 1.0)?;
        }
    }
    Ok(())
}

/// An execution with an index out of range fails, whatever else it computes; the next one does not.
fn out_of_range(backend: &mut Backend) -> Result<(), String> {
    /// Operation, attributes, indices, and a part of the error.
    type Refused<'a> = (&'a str, &'a [(&'a str, Attribute)], &'a [i64], &'a str);
    let cases: [Refused<'_>; 7] = [
        ("gather", &[dim(0)], &[-1, 9], "at least 0 and less than 9"),
        ("index_select", &[dim(0)], &[-9, 9, i64::MAX], "at least 0 and less than 9"),
        ("take_along_dim", &[dim(0)], &[-10, 9], "at least -9 and less than 9"),
        ("take_along_dim", &[], &[-10, i64::MIN], "at least -9 and less than 9"),
        ("embedding", &[], &[-1, 9], "at least 0 and less than 9"),
        ("one_hot", &[int("num_classes", 9)], &[-1, 9], "at least 0 and less than 9"),
        ("gather", &[dim(0)], &[1 << 40], "at least 0 and less than 9"),
    ];
    for (op, attributes, wrong, expected) in cases {
        let shape: &[usize] = if op == "embedding" { &[9, 6] } else { &[9] };
        let inputs = [("x", tensor(Dtype::F32, shape)), ("i", tensor(Dtype::I64, &[5000]))];
        let operands: &[&str] = if op == "one_hot" { &["i"] } else { &["x", "i"] };
        let spec = graph(&inputs, vec![node("z", "exp", &["y"], &[]), node("y", op, operands, attributes)]);
        let plan = Arc::new(Plan::new(&Graph::new(&spec).map_err(|error| error.to_string())?));
        for bad in wrong.iter().copied().chain([3]) {
            let chosen: Vec<u8> =
                (0..5000).flat_map(|nth| i64::to_le_bytes(if nth == 4097 { bad } else { nth % 9 })).collect();
            let request = ExecuteRequest::new(
                Arc::clone(&plan),
                vec![elements(&inputs[0].1, &mut random(7)), Bytes::from(chosen)],
            );
            let got = run_batch::<Execute>(&[request], backend).err();
            let expected = (bad != 3).then(|| OpError::IndexOutOfRange {
                node: 1,
                input: operands.len() - 1,
                reason: format!("{op}: expected indices of {expected}, got {bad}"),
            });
            if got != expected {
                return Err(format!("{op} with the index {bad}: expected {expected:?}, got {got:?}"));
            }
        }
    }
    Ok(())
}

/// Scans of numbers that are small, and for products close to 1; extremes are of all, also of NaN.
fn scan_graph(of: &TensorType, along: i64) -> GraphSpec {
    let mut nodes = vec![];
    let number = |name, value| (name, Attribute::Float(value));
    let mut summed = "x";
    let mut multiplied = "x";
    if of.dtype.is_float() {
        let finite = [number("nan", 1.0), number("posinf", 1.0), number("neginf", -1.0)];
        nodes.push(node("finite", "nan_to_num", &["x"], &finite));
        nodes.push(node("small", "clamp", &["finite"], &[number("min", -4.0), number("max", 4.0)]));
        nodes.push(node("near_1", "clamp", &["finite"], &[number("min", 0.9), number("max", 1.1)]));
        (summed, multiplied) = ("small", "near_1");
    }
    nodes.push(node("sums", "cumsum", &[summed], &[dim(along)]));
    nodes.push(node("products", "cumprod", &[multiplied], &[dim(along)]));
    let narrow = Attribute::Text("i16".to_owned());
    nodes.push(node("narrow", "cumsum", &[summed], &[dim(along), ("dtype", narrow)]));
    nodes.push(node("greatest", "cummax", &["x"], &[dim(along)]));
    nodes.push(node("least", "cummin", &["x"], &[dim(along)]));
    let mut spec = graph(&[("x", of.clone())], nodes);
    spec.outputs =
        ["sums", "products", "narrow", "greatest", "greatest:1", "least", "least:1"].map(str::to_owned).to_vec();
    spec
}

fn scans(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    for (shape, dims) in [
        (&[3, 65, 40][..], 0..3),
        (&[], 0..1),
        (&[1], 0..1),
        (&[4, 0, 3], 0..3),
        (&[2, 3, 4999], 1..3),
        (&[300, 100], 0..2),
        (&[5000, 20], 0..1),
        (&[7, 33, 5], 1..2),
    ] {
        let of = tensor(dtype, shape);
        for along in dims {
            let inputs = vec![elements(&of, &mut random(8))];
            check_inputs(backend, &scan_graph(&of, along), inputs, SCAN_FACTOR)
                .map_err(|error| format!("dimension {along} of {shape:?}: {error}"))?;
        }
    }
    Ok(())
}

/// Scans that are cut into parts.
fn long_scans(backend: &mut Backend) -> Result<(), String> {
    for (dtype, shape, along) in [
        (Dtype::F32, &[LONG][..], 0),
        (Dtype::F16, &[3, 200_000], 1),
        (Dtype::I8, &[2, 300_008], 1),
        (Dtype::F64, &[100_001, 17], 0),
        (Dtype::F32, &[2, 30_000, 40], 1),
    ] {
        let of = tensor(dtype, shape);
        let mut spec = scan_graph(&of, along);
        spec.outputs.truncate(1);
        check_inputs(backend, &spec, vec![elements(&of, &mut random(9))], LONG_SCAN_FACTOR)
            .map_err(|error| format!("{dtype} {shape:?}: {error}"))?;
    }
    Ok(())
}

/// Sums of -0 are -0, until a 0 comes.
fn negative_zeros(backend: &mut Backend) -> Result<(), String> {
    for (shape, along) in [(&[40][..], 0), (&[300, 100], 1), (&[50, 20], 0), (&[100_001], 0), (&[5000, 40], 0)] {
        let of = tensor(Dtype::F32, shape);
        let nodes = vec![node("sums", "cumsum", &["x"], &[dim(along)]), node("signs", "signbit", &["sums"], &[])];
        let zeros = (0..of.elements()).map(|nth| if nth % 97 == 96 { 0.0_f32 } else { -0.0 });
        let input = zeros.flat_map(f32::to_le_bytes).collect::<Vec<_>>();
        check_inputs(backend, &graph(&[("x", of)], nodes), vec![Bytes::from(input)], 0.0)
            .map_err(|error| format!("dimension {along} of {shape:?}: {error}"))?;
    }
    Ok(())
}

fn k(k: i64) -> (&'static str, Attribute) {
    int("k", k)
}

/// Values and indices in order along a dimension of `extent` elements.
fn sort_graph(of: &TensorType, along: i64, extent: i64) -> GraphSpec {
    let descending = ("descending", Attribute::Bool(true));
    let least = ("largest", Attribute::Bool(false));
    let mut nodes = vec![
        node("sort", "sort", &["x"], &[dim(along)]),
        node("descending", "sort", &["x"], &[dim(along), descending.clone()]),
        node("argsort", "argsort", &["x"], &[dim(along), descending]),
        node("top", "topk", &["x"], &[dim(along), k(extent.min(5))]),
        node("least", "topk", &["x"], &[dim(along), k(extent), least]),
    ];
    if extent > 0 {
        nodes.push(node("kth", "kthvalue", &["x"], &[dim(along), k(extent / 2 + 1)]));
        nodes.push(node("median", "median", &["x"], &[dim(along), ("keepdim", Attribute::Bool(true))]));
    }
    let mut spec = graph(&[("x", of.clone())], nodes);
    let with_indices: Vec<_> = spec.nodes.iter().filter(|node| node.op != "argsort").map(|node| &node.name).collect();
    spec.outputs.extend(with_indices.into_iter().map(|name| format!("{name}:1")).collect::<Vec<_>>());
    spec
}

fn sorts(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    for shape in [&[3, 65, 40][..], &[], &[1], &[0, 5], &[5, 0], &[2, 2048], &[3, 2049], &[2, 5000], &[300, 3]] {
        let of = tensor(dtype, shape);
        for along in 0..shape.len().max(1) {
            let extent = shape.get(along).copied().unwrap_or(1);
            let least = usize::from(shape.is_empty());
            let signed = |value: usize| i64::try_from(value).expect("small");
            let spec = sort_graph(&of, signed(along), signed(extent.max(least)));
            check_inputs(backend, &spec, vec![elements(&of, &mut random(10))], 1.0)
                .map_err(|error| format!("dimension {along} of {shape:?}: {error}"))?;
        }
    }
    let of = tensor(dtype, &[33, 17]);
    let nodes = vec![
        node("rows", "msort", &["x"], &[]),
        node("middle", "median", &["x"], &[]),
        node("none", "topk", &["x"], &[k(0)]),
    ];
    check_inputs(backend, &graph(&[("x", of.clone())], nodes), vec![elements(&of, &mut random(11))], 1.0)
}

/// One row that the whole device sorts, and few of its elements.
fn long_sorts(backend: &mut Backend, dtype: Dtype) -> Result<(), String> {
    let of = tensor(dtype, &[LONG]);
    let mut nodes = vec![node("argsort", "argsort", &["x"], &[("descending", Attribute::Bool(dtype.is_float()))])];
    for count in [1, 10, 256, 257, 3000] {
        nodes.push(node(
            &format!("top_{count}"),
            "topk",
            &["x"],
            &[k(count), ("largest", Attribute::Bool(count != 10))],
        ));
    }
    let mut spec = graph(&[("x", of.clone())], nodes);
    spec.outputs.extend(["top_10:1", "top_257:1"].map(str::to_owned));
    check_inputs(backend, &spec, vec![elements(&of, &mut random(12))], 1.0)
}

/// Rows that are sorted by digits, more than a device has multiprocessors, and rows of few elements, more than the blocks have.
fn many_rows(backend: &mut Backend) -> Result<(), String> {
    for shape in [&[1100, 2100][..], &[20_011, 3], &[7, 3, 9001]] {
        let of = tensor(Dtype::F32, shape);
        let nodes = vec![node("argsort", "argsort", &["x"], &[]), node("sums", "cumsum", &["one"], &[dim(-1)])];
        let mut spec = graph(&[("x", of.clone())], nodes);
        spec.nodes.push(node("one", "isnan", &["x"], &[]));
        check_inputs(backend, &spec, vec![elements(&of, &mut random(13))], 1.0)
            .map_err(|error| format!("{shape:?}: {error}"))?;
    }
    Ok(())
}
