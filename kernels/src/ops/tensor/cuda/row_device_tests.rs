//! Reductions, softmax and norms on a GPU against f64.
//!
//! Without a GPU they do nothing, unless `ACCELERD_REQUIRE_CUDA=1` makes that a failure. `ACCELERD_CUDA_LIBRARY_PATH` names folders of
//! CUDA's libraries.

use std::env;

use accelerd_ir::scalar::{Builder, Function};
use accelerd_tensor::{
    ArgReduction, Dtype, Layout, Location, NormKind, NormStep, ReduceStep, Reduction, SoftmaxStep, View,
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{arg_reduce, buffers::Buffers, norm, reduce, softmax};
use crate::{Backend, Choice, Device, OpError, Settings, cuda::Buffer, cuda::Worker, discover};

/// Lengths about the bounds of the variants.
const LENGTHS: [usize; 12] = [1, 3, 32, 100, 1000, 1024, 1025, 4096, 20_011, 32_768, 40_002, 300_000];

/// Larger tensors take the oracle long.
const MAX_ELEMENTS: usize = 7_000_000;

fn with_worker(test: impl FnOnce(&Worker)) {
    let is_required = env::var("ACCELERD_REQUIRE_CUDA").is_ok_and(|value| value == "1");
    let folders = env::var_os("ACCELERD_CUDA_LIBRARY_PATH").unwrap_or_default();
    let settings = Settings {
        choice: if is_required { Choice::Cuda } else { Choice::Auto },
        cuda_library_paths: env::split_paths(&folders).filter(|path| !path.as_os_str().is_empty()).collect(),
        staging_bytes: 32 << 20,
        ..Settings::default()
    };
    let found = discover(&settings).unwrap_or_else(|error| panic!("{error}"));
    let gpu = found.devices.into_iter().find(|device| matches!(device, Device::Cuda(_)));
    if let Some(Backend::Cuda(worker)) = gpu.map(|gpu| gpu.open().expect("a worker")) {
        test(&worker);
    }
}

/// Runs `launch` on f32 inputs; returns the output's bytes. What it does not write is 0xff.
fn run(
    worker: &Worker,
    inputs: &[&[f32]],
    output_bytes: usize,
    launch: impl FnOnce(&Buffers<'_>) -> Result<(), OpError>,
) -> Vec<u8> {
    let upload = |input: &&[f32]| worker.upload_new::<u8>(bytemuck::cast_slice(input)).expect("uploaded");
    let inputs: Vec<_> = inputs.iter().map(upload).collect();
    let outputs = [worker.upload_new(&vec![0xff_u8; output_bytes]).expect("uploaded")];
    let arena = Buffer::empty();
    launch(&Buffers::new(&inputs, &outputs, &arena)).unwrap_or_else(|error| panic!("{error}"));
    worker.download(&outputs[0], ..).expect("downloaded")
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().expect("4 bytes"))).collect()
}

fn random(elements: usize) -> Vec<f32> {
    let mut rng = StdRng::seed_from_u64(7);
    (0..elements).map(|_| rng.random_range(-2.0..3.0)).collect()
}

fn identity(dtype: Dtype) -> Function {
    let mut builder = Builder::new(&[dtype]);
    let element = builder.param(0);
    builder.finish(&[element])
}

fn view(location: Location, dtype: Dtype, layout: Layout) -> View {
    View { location, dtype, layout }
}

/// Relative to the size of the numbers that were added; NaN and infinities only equal themselves.
fn assert_close(got: f32, expected: f64, scale: f64, what: &str) {
    let got = f64::from(got);
    let is_same = (got.is_nan() && expected.is_nan()) || got.total_cmp(&expected).is_eq();
    assert!(is_same || (got - expected).abs() <= 1e-5 * scale.max(expected.abs()), "{what}: {got} for {expected}");
}

/// The layout `[outer, inner]` of a row-major matrix, reduced along its columns or along its rows.
fn matrix(outer: usize, inner: usize, is_rows: bool) -> Layout {
    if is_rows { Layout::contiguous(&[outer, inner]) } else { Layout::contiguous(&[inner, outer]).permuted(&[1, 0]) }
}

fn at(layout: &Layout, outer: usize, inner: usize) -> usize {
    outer * layout.strides[0].unsigned_abs() + inner * layout.strides[1].unsigned_abs()
}

/// A reduction of values in f64, and the scale of its error.
fn reduced(reduction: Reduction, values: &[f64]) -> (f64, f64) {
    let size: f64 = values.iter().map(|value| value.abs()).sum();
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count.max(1.0);
    match reduction {
        Reduction::Sum => (values.iter().sum(), size),
        Reduction::Prod => (values.iter().product(), 1e-3),
        Reduction::Min => (values.iter().copied().fold(f64::INFINITY, f64::min), 0.0),
        Reduction::Max => (values.iter().copied().fold(f64::NEG_INFINITY, f64::max), 0.0),
        Reduction::LogSumExp => (values.iter().map(|value| value.exp()).sum::<f64>().ln(), 1.0),
        Reduction::SquaredDeviations => (values.iter().map(|value| (value - mean).powi(2)).sum(), 1e-3),
    }
}

#[test]
fn reductions_agree_with_f64_in_every_variant() {
    with_worker(|worker| {
        let reductions = [
            Reduction::Sum,
            Reduction::Prod,
            Reduction::Min,
            Reduction::Max,
            Reduction::LogSumExp,
            Reduction::SquaredDeviations,
        ];
        for inner in LENGTHS {
            let shapes = [(1, true), (5, true), (5, false), (260, false), (260, true)];
            for (outer, is_rows) in shapes.into_iter().filter(|shape| shape.0 * inner <= MAX_ELEMENTS) {
                let (layout, x) = (matrix(outer, inner, is_rows), random(outer * inner));
                // Long products leave the range of f32.
                let suits = |reduction: &Reduction| *reduction != Reduction::Prod || inner <= 32;
                for reduction in reductions.into_iter().filter(suits) {
                    let step = ReduceStep {
                        outer: vec![outer],
                        inner: vec![inner],
                        inputs: vec![view(Location::Input(0), Dtype::F32, layout.clone())],
                        prologue: identity(Dtype::F32),
                        reduction,
                        accumulate: Dtype::F32,
                        epilogue: identity(Dtype::F32),
                        output: view(Location::Output(0), Dtype::F32, Layout::contiguous(&[outer])),
                    };
                    let y = floats(&run(worker, &[&x], 4 * outer, |buffers| reduce::launch(&step, buffers, worker)));
                    for (row, got) in y.into_iter().enumerate() {
                        let values: Vec<_> = (0..inner).map(|column| f64::from(x[at(&layout, row, column)])).collect();
                        let (expected, scale) = reduced(reduction, &values);
                        assert_close(got, expected, scale, &format!("{reduction:?} of {outer} x {inner} at {row}"));
                    }
                }
            }
        }
    });
}

#[test]
fn the_first_nan_is_the_extreme_value_and_else_the_first_of_equals() {
    with_worker(|worker| {
        for inner in LENGTHS {
            for (outer, is_rows) in [(1, true), (3, true), (70, false)] {
                let layout = matrix(outer, inner, is_rows);
                let mut x: Vec<_> = random(outer * inner).into_iter().map(f32::round).collect();
                for column in [inner / 2, inner - 1] {
                    x[at(&layout, outer - 1, column)] = f32::NAN;
                }
                for is_max in [false, true] {
                    let step = ArgReduction {
                        outer: vec![outer],
                        inner: vec![inner],
                        input: view(Location::Input(0), Dtype::F32, layout.clone()),
                        is_max,
                        output: view(Location::Output(0), Dtype::I64, Layout::contiguous(&[outer])),
                    };
                    let y = run(worker, &[&x], 8 * outer, |buffers| arg_reduce::launch(&step, buffers, worker));
                    for (row, index) in y.chunks_exact(8).enumerate() {
                        let got = u64::from_le_bytes(index.try_into().expect("8 bytes"));
                        let key = |column: usize| {
                            let value = x[at(&layout, row, column)];
                            match is_max {
                                _ if value.is_nan() => 9.0,
                                true => value,
                                false => -value,
                            }
                        };
                        let first =
                            (0..inner).fold(0, |best, column| if key(column) > key(best) { column } else { best });
                        assert_eq!(got, first as u64, "{outer} x {inner}, row {row}, greatest: {is_max}");
                    }
                }
            }
        }
    });
}

#[test]
fn softmax_agrees_with_f64_and_a_row_of_negative_infinities_is_nan() {
    with_worker(|worker| {
        for columns in LENGTHS {
            let cases = [(3, false), (3, true), (150, false)];
            for (rows, is_log) in cases.into_iter().filter(|case| case.0 * columns <= MAX_ELEMENTS) {
                let shape = [rows, columns];
                let mut x = random(rows * columns);
                x[columns..2 * columns].fill(f32::NEG_INFINITY);
                let step = SoftmaxStep {
                    input: view(Location::Input(0), Dtype::F32, Layout::contiguous(&shape)),
                    is_log,
                    output: view(Location::Output(0), Dtype::F32, Layout::contiguous(&shape)),
                };
                let y = floats(&run(worker, &[&x], 4 * x.len(), |buffers| softmax::launch(&step, buffers, worker)));
                for (row, (x, y)) in x.chunks(columns).zip(y.chunks(columns)).enumerate() {
                    let sum: f64 = x.iter().map(|value| f64::from(*value).exp()).sum();
                    for (value, got) in x.iter().zip(y) {
                        let value = f64::from(*value);
                        let expected = match sum {
                            0.0 => f64::NAN,
                            _ if is_log => value - sum.ln(),
                            _ => value.exp() / sum,
                        };
                        assert_close(*got, expected, 1e-6, &format!("{rows} x {columns}, row {row}"));
                    }
                }
            }
        }
    });
}

#[test]
fn norms_agree_with_f64() {
    with_worker(|worker| {
        for columns in LENGTHS {
            let cases = [(3, NormKind::Layer), (3, NormKind::Rms), (150, NormKind::Layer)];
            for (rows, kind) in cases.into_iter().filter(|case| case.0 * columns <= MAX_ELEMENTS) {
                let (x, weight) = (random(rows * columns), random(columns));
                let bias: Vec<_> = weight.iter().map(|value| 1.0 - value).collect();
                let matrix = |location| view(location, Dtype::F32, Layout::contiguous(&[rows, columns]));
                let vector = |nth| Some(view(Location::Input(nth), Dtype::F32, Layout::contiguous(&[columns])));
                let step = NormStep {
                    input: matrix(Location::Input(0)),
                    kind,
                    eps_bits: 1e-5_f64.to_bits(),
                    weight: vector(1),
                    bias: vector(2).filter(|_| kind == NormKind::Layer),
                    output: matrix(Location::Output(0)),
                };
                let inputs = [&x[..], &weight, &bias];
                let y = floats(&run(worker, &inputs, 4 * x.len(), |buffers| norm::launch(&step, buffers, worker)));
                for (row, (x, y)) in x.chunks(columns).zip(y.chunks(columns)).enumerate() {
                    let x: Vec<_> = x.iter().map(|value| f64::from(*value)).collect();
                    let mean = if kind == NormKind::Layer { x.iter().sum::<f64>() / columns as f64 } else { 0.0 };
                    let squares: f64 = x.iter().map(|value| (value - mean).powi(2)).sum();
                    let scale = 1.0 / (squares / columns as f64 + 1e-5).sqrt();
                    for (column, got) in y.iter().enumerate() {
                        let bias = if kind == NormKind::Layer { f64::from(bias[column]) } else { 0.0 };
                        let expected = (x[column] - mean) * scale * f64::from(weight[column]) + bias;
                        assert_close(*got, expected, 10.0, &format!("{rows} x {columns} at {row}, {column}"));
                    }
                }
            }
        }
    });
}
