//! Operations that are made of others, against plain loops of f64: the oracle of plans runs what such an operation expands into, and so
//! cannot tell whether that is the right thing.

use std::sync::Arc;

use accelerd_kernels::{
    Backend,
    ops::tensor::{Execute, ExecuteRequest},
};
use accelerd_parity::run_batch;
use accelerd_tensor::{Attribute, Dtype, Graph, GraphSpec, Plan, TensorType, scalar::Literal};
use bytes::Bytes;
use rand::{Rng, rngs::StdRng};

use super::{
    Case,
    tensor::{node, tolerance},
};

mod losses;
mod magnitudes;
mod normalization;
mod optimizers;
mod random_numbers;

pub(crate) fn cases() -> Vec<Case> {
    let families: [(&str, Family); 5] = [
        ("magnitudes", magnitudes::check),
        ("normalization", normalization::check),
        ("losses", losses::check),
        ("optimizers", optimizers::check),
        ("random_numbers", random_numbers::check),
    ];
    let floats = || Dtype::ALL.into_iter().filter(|dtype| dtype.is_float());
    let case = |(name, family): (&str, Family), dtype: Dtype| {
        Case::new(format!("tensor::{name}_{dtype}"), move |backend| family(backend, dtype))
    };
    families.into_iter().flat_map(|family| floats().map(move |dtype| case(family, dtype))).collect()
}

type Family = fn(&mut Backend, Dtype) -> Result<(), String>;

/// A tensor with elements that its type has exactly.
#[derive(Clone)]
struct Values {
    of: TensorType,
    elements: Vec<f64>,
}

impl Values {
    fn new(dtype: Dtype, shape: &[usize], elements: impl IntoIterator<Item = f64>) -> Self {
        let elements: Vec<_> = elements.into_iter().map(|x| Literal::from_f64(dtype, x).as_f64()).collect();
        let of = TensorType { dtype, shape: shape.to_vec() };
        assert_eq!(of.elements(), elements.len(), "as many elements as the shape has");
        Self { of, elements }
    }

    /// Numbers between two bounds.
    fn between(dtype: Dtype, shape: &[usize], random: &mut StdRng, bounds: [f64; 2]) -> Self {
        let count = shape.iter().product();
        Self::new(dtype, shape, (0..count).map(|_| random.random_range(bounds[0]..bounds[1])))
    }

    fn bytes(&self) -> Bytes {
        let literal = |x: &f64| Literal::from_f64(self.of.dtype, *x).bits().to_le_bytes();
        self.elements.iter().flat_map(|x| literal(x).into_iter().take(self.of.dtype.size())).collect()
    }

    fn of_bytes(of: &TensorType, bytes: &[u8]) -> Vec<f64> {
        let one = |chunk: &[u8]| {
            let mut bits = [0; 8];
            bits[..chunk.len()].copy_from_slice(chunk);
            Literal::from_bits(of.dtype, u64::from_le_bytes(bits)).as_f64()
        };
        bytes.chunks_exact(of.dtype.size()).map(one).collect()
    }
}

type Attributes<'a> = &'a [(&'a str, Attribute)];

/// Runs one operation, and compares each of its results with the expected one.
fn expect(
    backend: &mut Backend,
    op: &str,
    inputs: &[&Values],
    attributes: Attributes<'_>,
    expected: &[Vec<f64>],
) -> Result<(), String> {
    let (plan, results) = run(backend, op, inputs, attributes, expected.len())?;
    for (nth, (of, got)) in plan.outputs.iter().zip(&results).enumerate() {
        compare(of, got, &expected[nth], 1.0).map_err(|error| format!("{op} {attributes:?}, result {nth}: {error}"))?;
    }
    Ok(())
}

/// The results of one operation.
fn run(
    backend: &mut Backend,
    op: &str,
    inputs: &[&Values],
    attributes: Attributes<'_>,
    results: usize,
) -> Result<(Plan, Vec<Vec<f64>>), String> {
    let names: Vec<_> = (0..inputs.len()).map(|nth| format!("x{nth}")).collect();
    let operands: Vec<_> = names.iter().map(String::as_str).collect();
    let mut outputs = vec!["y".to_owned()];
    outputs.extend((1..results).map(|nth| format!("y:{nth}")));
    let spec = GraphSpec {
        inputs: names.iter().cloned().zip(inputs.iter().map(|input| input.of.clone())).collect(),
        nodes: vec![node("y", op, &operands, attributes)],
        outputs,
    };
    let plan = Plan::new(&Graph::new(&spec).map_err(|error| format!("{op}: {error}"))?);
    let request = ExecuteRequest::new(Arc::new(plan.clone()), inputs.iter().map(|input| input.bytes()).collect());
    let got = run_batch::<Execute>(&[request], backend).map_err(|error| format!("{op}: {error}"))?.remove(0);
    let results = plan.outputs.iter().zip(&got.returned).map(|(of, bytes)| Values::of_bytes(of, bytes)).collect();
    Ok((plan, results))
}

/// Compares elements within a multiple of the tolerance of their type.
fn compare(of: &TensorType, got: &[f64], expected: &[f64], factor: f64) -> Result<(), String> {
    if got.len() != expected.len() {
        return Err(format!("{} elements, expected {}", got.len(), expected.len()));
    }
    let (relative, absolute) = tolerance(of.dtype);
    for (nth, (is, want)) in got.iter().zip(expected).enumerate() {
        let close = (is - want).abs() <= factor * (absolute + relative * want.abs());
        if !close && is.total_cmp(want).is_ne() && !(is.is_nan() && want.is_nan()) {
            return Err(format!("element {nth} of {of:?}: expected {want}, got {is}"));
        }
    }
    Ok(())
}

fn float(value: f64) -> Attribute {
    Attribute::Float(value)
}

fn text(value: &str) -> Attribute {
    Attribute::Text(value.to_owned())
}

/// A loss by its reduction; NaN of no element.
fn reduced(losses: Vec<f64>, reduction: &str) -> Vec<f64> {
    let sum: f64 = losses.iter().sum();
    match reduction {
        "none" => losses,
        "sum" => vec![sum],
        _ => vec![sum / losses.len() as f64],
    }
}
