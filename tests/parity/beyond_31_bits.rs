//! Tensors of more than 2^31 elements. They need gigabytes of memory, so they run on request only: `--ignored beyond_31_bits`.

use std::sync::Arc;

use accelerd_kernels::{
    Backend,
    ops::tensor::{Execute, ExecuteRequest},
};
use accelerd_parity::run_batch;
use accelerd_tensor::{Attribute, Dtype, Graph, NodeSpec, Plan, TensorType};
use bytes::Bytes;
use half::bf16;

use super::{
    Case,
    tensor::{graph, node, tensor},
};

/// Columns and rows of a matrix of bytes.
const COLUMNS: usize = 4099;
const ROWS: usize = (1 << 31) / COLUMNS + 3;
/// A place beyond 2^31 that no other element equals.
const SPECIAL: usize = (1 << 31) + 4000;
const SPECIAL_VALUE: u8 = 255;

/// Columns and rows of a matrix of bf16.
const WIDTH: usize = 64;
const HEIGHT: usize = (1 << 31) / WIDTH + 33;

pub(crate) fn cases() -> Vec<Case> {
    let case = |name, check: fn(&mut Backend) -> Result<(), String>| {
        Case::new(format!("tensor::beyond_31_bits_{name}"), check)
    };
    vec![
        case("map", map),
        case("reductions", reductions),
        case("views", views),
        case("indexing", indexing),
        case("rows", rows),
        case("products", products),
    ]
}

/// The element at a place.
fn byte(index: usize) -> u8 {
    if index == SPECIAL { SPECIAL_VALUE } else { u8::try_from(index * 31 % 251).expect("a small number") }
}

fn bytes() -> Bytes {
    let period: Vec<u8> = (0..251).map(byte).collect();
    let mut bytes: Vec<u8> = period.iter().copied().cycle().take(ROWS * COLUMNS).collect();
    bytes[SPECIAL] = SPECIAL_VALUE;
    bytes.into()
}

/// A number from -1 to 1 that bf16 holds.
fn number(row: usize, column: usize) -> f32 {
    ((row * 7 + column * 3) % 17) as f32 / 8.0 - 1.0
}

fn numbers() -> Bytes {
    let period: Vec<u8> = (0..17)
        .flat_map(|row| (0..WIDTH).flat_map(move |column| bf16::from_f32(number(row, column)).to_le_bytes()))
        .collect();
    period.iter().copied().cycle().take(HEIGHT * WIDTH * 2).collect::<Vec<_>>().into()
}

fn run(
    backend: &mut Backend,
    inputs: &[(&str, TensorType, Bytes)],
    nodes: Vec<NodeSpec>,
    outputs: &[&str],
) -> Result<Vec<Bytes>, String> {
    let types: Vec<_> = inputs.iter().map(|(name, of, _)| (*name, of.clone())).collect();
    let mut spec = graph(&types, nodes);
    spec.outputs = outputs.iter().map(|name| (*name).to_owned()).collect();
    let plan = Arc::new(Plan::new(&Graph::new(&spec).map_err(|error| error.to_string())?));
    let given = inputs.iter().map(|(.., bytes)| bytes.clone()).collect();
    let result = run_batch::<Execute>(&[ExecuteRequest::new(plan, given)], backend);
    Ok(result.map_err(|error| error.to_string())?.remove(0).returned)
}

fn matrix() -> (&'static str, TensorType, Bytes) {
    ("x", tensor(Dtype::U8, &[ROWS, COLUMNS]), bytes())
}

fn int(name: &'static str, value: usize) -> (&'static str, Attribute) {
    (name, Attribute::Int(integer(value)))
}

fn integer(value: usize) -> i64 {
    i64::try_from(value).expect("a place")
}

/// Compares every element.
fn expect_bytes(what: &str, got: &[u8], expected: impl Fn(usize) -> u8) -> Result<(), String> {
    let differs = got.iter().enumerate().find(|(index, byte)| **byte != expected(*index));
    differs
        .map_or(Ok(()), |(index, byte)| Err(format!("{what}: element {index} is {byte}, expected {}", expected(index))))
}

fn integers(bytes: &[u8]) -> Vec<i64> {
    bytes.chunks_exact(8).map(|word| i64::from_le_bytes(word.try_into().expect("eight bytes"))).collect()
}

fn expect<T: PartialEq + std::fmt::Debug + ?Sized>(what: &str, got: &T, expected: &T) -> Result<(), String> {
    if got == expected { Ok(()) } else { Err(format!("{what} is {got:?}, expected {expected:?}")) }
}

fn map(backend: &mut Backend) -> Result<(), String> {
    let row = Bytes::from((0..COLUMNS).map(|index| u8::try_from(index % 5).expect("small")).collect::<Vec<_>>());
    let inputs = [matrix(), ("row", tensor(Dtype::U8, &[COLUMNS]), row)];
    let nodes = vec![node("sum", "add", &["x", "row"], &[]), node("y", "bitwise_xor", &["sum", "x"], &[])];
    let got = run(backend, &inputs, nodes, &["y"])?.remove(0);
    expect("the number of bytes", &got.len(), &(ROWS * COLUMNS))?;
    expect_bytes("map", &got, |index| {
        byte(index).wrapping_add(u8::try_from(index % COLUMNS % 5).expect("small")) ^ byte(index)
    })
}

fn reductions(backend: &mut Backend) -> Result<(), String> {
    let flat = [int("dim", 0)];
    let nodes = vec![
        node("flat", "flatten", &["x"], &[]),
        node("sum", "sum", &["x"], &[]),
        node("largest", "amax", &["flat"], &flat),
        node("place", "argmax", &["flat"], &flat),
        node("rows", "sum", &["x"], &[int("dim", 1)]),
        node("columns", "amax", &["x"], &[int("dim", 0)]),
    ];
    let got = run(backend, &[matrix()], nodes, &["sum", "largest", "place", "rows", "columns"])?;
    let sum_of_row = |row: usize| (0..COLUMNS).map(|column| i64::from(byte(row * COLUMNS + column))).sum::<i64>();
    // Rows repeat after 251, but for the special element.
    let of_period: Vec<_> = (0..251)
        .map(|row| (0..COLUMNS).map(|column| integer((row * COLUMNS + column) * 31 % 251)).sum::<i64>())
        .collect();
    let sums: Vec<_> =
        (0..ROWS).map(|row| if row == SPECIAL / COLUMNS { sum_of_row(row) } else { of_period[row % 251] }).collect();
    expect("sum", &integers(&got[0]), &vec![sums.iter().sum()])?;
    expect("amax", &got[1][..], &[SPECIAL_VALUE][..])?;
    expect("argmax", &integers(&got[2]), &vec![integer(SPECIAL)])?;
    expect("sums of rows", &integers(&got[3]), &sums)?;
    expect_bytes("largest of columns", &got[4], |column| if column == SPECIAL % COLUMNS { SPECIAL_VALUE } else { 250 })
}

fn views(backend: &mut Backend) -> Result<(), String> {
    let nodes = vec![
        node("flipped", "flip", &["x"], &[("dims", Attribute::Ints(vec![0, 1]))]),
        node("transposed", "transpose", &["x"], &[int("dim0", 0), int("dim1", 1)]),
        node("end", "slice", &["x"], &[int("dim", 0), int("start", ROWS - 2)]),
        node("joined", "concat", &["end", "x"], &[int("dim", 0)]),
    ];
    let got = run(backend, &[matrix()], nodes.clone(), &["flipped"])?.remove(0);
    expect_bytes("flip", &got, |index| byte(ROWS * COLUMNS - 1 - index))?;
    drop(got);
    let got = run(backend, &[matrix()], nodes.clone(), &["transposed"])?.remove(0);
    expect_bytes("transpose", &got, |index| byte(index % ROWS * COLUMNS + index / ROWS))?;
    drop(got);
    let got = run(backend, &[matrix()], nodes, &["joined"])?.remove(0);
    expect_bytes("concat", &got, |index| {
        let row = index / COLUMNS;
        byte(if row < 2 { (ROWS - 2) * COLUMNS + index } else { index - 2 * COLUMNS })
    })
}

fn indexing(backend: &mut Backend) -> Result<(), String> {
    let places = [SPECIAL, 0, ROWS * COLUMNS - 1, (1 << 31) - 1, 1 << 31];
    let words = |values: &[usize]| {
        Bytes::from(values.iter().flat_map(|index| integer(*index).to_le_bytes()).collect::<Vec<_>>())
    };
    let rows = [ROWS - 1, SPECIAL / COLUMNS, 1];
    let inputs = [
        matrix(),
        ("places", tensor(Dtype::I64, &[places.len()]), words(&places)),
        ("rows", tensor(Dtype::I64, &[rows.len()]), words(&rows)),
    ];
    let nodes = vec![
        node("flat", "flatten", &["x"], &[]),
        node("gathered", "gather", &["flat", "places"], &[int("dim", 0)]),
        node("selected", "index_select", &["x", "rows"], &[int("dim", 0)]),
    ];
    let got = run(backend, &inputs, nodes, &["gathered", "selected"])?;
    expect_bytes("gather", &got[0], |index| byte(places[index]))?;
    expect_bytes("index_select", &got[1], |index| byte(rows[index / COLUMNS] * COLUMNS + index % COLUMNS))
}

/// The rows that are compared: the first, and those around and beyond element 2^31.
fn compared() -> impl Iterator<Item = usize> {
    [0, 1, 16, (1 << 31) / WIDTH - 1, (1 << 31) / WIDTH, HEIGHT - 2, HEIGHT - 1].into_iter()
}

fn expect_row(what: &str, got: &[u8], width: usize, row: usize, expected: impl Fn(usize) -> f64) -> Result<(), String> {
    for column in 0..width {
        let offset = 2 * (row * width + column);
        let is = f64::from(bf16::from_le_bytes([got[offset], got[offset + 1]]));
        let want = expected(column);
        if (is - want).abs() > 1e-5 + 1.6e-2 * want.abs() {
            return Err(format!("{what}: row {row}, column {column} is {is}, expected {want}"));
        }
    }
    Ok(())
}

fn rows(backend: &mut Backend) -> Result<(), String> {
    let inputs = [("x", tensor(Dtype::Bf16, &[HEIGHT, WIDTH]), numbers())];
    let nodes = vec![node("y", "softmax", &["x"], &[int("dim", 1)])];
    let got = run(backend, &inputs, nodes, &["y"])?.remove(0);
    let exp = |row, column| f64::from(number(row, column)).exp();
    compared().try_for_each(|row| {
        let sum: f64 = (0..WIDTH).map(|column| exp(row, column)).sum();
        expect_row("softmax", &got, WIDTH, row, |column| exp(row, column) / sum)
    })
}

fn products(backend: &mut Backend) -> Result<(), String> {
    const OUT: usize = 8;
    let weight = |of: usize, column: usize| ((of * 5 + column) % 13) as f32 / 16.0;
    let weights =
        (0..OUT).flat_map(|of| (0..WIDTH).flat_map(move |column| bf16::from_f32(weight(of, column)).to_le_bytes()));
    let inputs = [
        ("x", tensor(Dtype::Bf16, &[HEIGHT, WIDTH]), numbers()),
        ("w", tensor(Dtype::Bf16, &[OUT, WIDTH]), weights.collect::<Vec<_>>().into()),
    ];
    let got = run(backend, &inputs, vec![node("y", "linear", &["x", "w"], &[])], &["y"])?.remove(0);
    compared().try_for_each(|row| {
        expect_row("linear", &got, OUT, row, |of| {
            (0..WIDTH).map(|column| f64::from(number(row, column)) * f64::from(weight(of, column))).sum()
        })
    })
}
