//! Executions on a GPU against the interpreter of scalar functions and sums in f64.
//!
//! Without a GPU they do nothing, unless `ACCELERD_REQUIRE_CUDA=1` makes that a failure. `ACCELERD_CUDA_LIBRARY_PATH` names folders of
//! CUDA's libraries.

use std::env;

use accelerd_ir::scalar::{BinaryOp, Builder, Function, Literal, UnaryOp, interpret};
use accelerd_tensor::{Accumulate, Dtype, Layout, Location, MapStep, MatMulStep, Plan, Step, TensorType, View};
use half::{bf16, f16};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::executor::execute;
use crate::{Backend, Choice, Device, Settings, cuda::Worker, discover};

/// A GPU's worker, if there is one.
fn backend() -> Option<Backend> {
    let is_required = env::var("ACCELERD_REQUIRE_CUDA").is_ok_and(|value| value == "1");
    let folders = env::var_os("ACCELERD_CUDA_LIBRARY_PATH").unwrap_or_default();
    let settings = Settings {
        choice: if is_required { Choice::Cuda } else { Choice::Auto },
        cuda_library_paths: env::split_paths(&folders).filter(|path| !path.as_os_str().is_empty()).collect(),
        staging_bytes: 32 << 20,
        pinned_bytes: 64 << 20,
        ..Settings::default()
    };
    let found = discover(&settings).unwrap_or_else(|error| panic!("{error}"));
    let gpu = found.devices.into_iter().find(|device| matches!(device, Device::Cuda(_)))?;
    Some(gpu.open().expect("a worker"))
}

fn with_worker(test: impl FnOnce(&Worker)) {
    if let Some(Backend::Cuda(worker)) = backend() {
        test(&worker);
    }
}

fn view(location: Location, dtype: Dtype, layout: Layout) -> View {
    View { location, dtype, layout }
}

fn tensor_type(dtype: Dtype, elements: usize) -> TensorType {
    TensorType { dtype, shape: vec![elements] }
}

/// Elements of a type that are small numbers, exact in every type.
fn random(dtype: Dtype, elements: usize, rng: &mut StdRng) -> Vec<u8> {
    let least = if dtype.is_signed() { -8 } else { 0 };
    let mut element = || Literal::from_f64(dtype, f64::from(rng.random_range(least..=8)));
    (0..elements).flat_map(|_| bytes_of(element())).collect()
}

fn bytes_of(literal: Literal) -> Vec<u8> {
    literal.bits().to_le_bytes()[..literal.dtype().size()].to_vec()
}

fn literal_at(dtype: Dtype, bytes: &[u8], at: usize) -> Literal {
    let mut bits = [0; 8];
    bits[..dtype.size()].copy_from_slice(&bytes[at * dtype.size()..(at + 1) * dtype.size()]);
    Literal::from_bits(dtype, u64::from_le_bytes(bits))
}

/// Positions of all elements in row-major order.
fn positions(layout: &Layout) -> Vec<usize> {
    let mut positions = vec![layout.offset.cast_signed()];
    for (&extent, &stride) in layout.shape.iter().zip(&layout.strides) {
        let along = |start: &isize| (0..extent.cast_signed()).map(|nth| start + nth * stride).collect::<Vec<_>>();
        positions = positions.iter().flat_map(along).collect();
    }
    positions.into_iter().map(|position| usize::try_from(position).expect("within the buffer")).collect()
}

/// Applies a step to host memory.
fn interpret_map(step: &MapStep, inputs: &[Vec<u8>], outputs: &mut [Vec<u8>], arena: &mut [u8]) {
    let places: Vec<_> = step.inputs.iter().chain(&step.outputs).map(|view| positions(&view.layout)).collect();
    let place = |view: usize, nth: usize| places[view][nth];
    let elements: usize = step.shape.iter().product();
    for nth in 0..elements {
        let read = |(at, view): (usize, &View)| {
            let bytes = match view.location {
                Location::Input(input) => &inputs[input][..],
                Location::Output(output) => &outputs[output][..],
                Location::Arena(start) => &arena[start..],
            };
            literal_at(view.dtype, bytes, place(at, nth))
        };
        let arguments: Vec<_> = step.inputs.iter().enumerate().map(read).collect();
        let results = interpret(&step.function, &arguments, nth.try_into().expect("a small tensor"));
        for (at, (view, result)) in step.outputs.iter().zip(results).enumerate() {
            let bytes = match view.location {
                Location::Input(_) => panic!("inputs are never written"),
                Location::Output(output) => &mut outputs[output][..],
                Location::Arena(start) => &mut arena[start..],
            };
            let (size, place) = (view.dtype.size(), place(step.inputs.len() + at, nth));
            bytes[place * size..(place + 1) * size].copy_from_slice(&bytes_of(result));
        }
    }
}

/// Executes a plan of elementwise steps on both, and compares all bits.
fn agrees(plan: &Plan, inputs: &[Vec<u8>], worker: &Worker) {
    let slices: Vec<_> = inputs.iter().map(|input| &input[..]).collect();
    let found = execute(plan, &slices, worker).unwrap_or_else(|error| panic!("{error}"));
    let mut outputs: Vec<_> = plan.outputs.iter().map(|output| vec![0; output.bytes()]).collect();
    let mut arena = vec![0; plan.arena_bytes];
    for step in &plan.steps {
        let Step::Map(step) = step else { panic!("elementwise steps only") };
        interpret_map(step, inputs, &mut outputs, &mut arena);
    }
    for (nth, (found, expected)) in found.iter().zip(&outputs).enumerate() {
        let dtype = plan.outputs[nth].dtype;
        let differs = (0..expected.len() / dtype.size())
            .find(|at| literal_at(dtype, found, *at) != literal_at(dtype, expected, *at));
        assert_eq!(found.len(), expected.len());
        let Some(at) = differs else { continue };
        let (found, expected) = (literal_at(dtype, found, at), literal_at(dtype, expected, at));
        panic!("output {nth}, element {at}: {found:?}, expected {expected:?}, of {:?}", plan.steps);
    }
}

/// `3 * sum of the parameters + index`, in f32, as each type.
fn combine(params: &[Dtype], results: &[Dtype]) -> Function {
    let mut builder = Builder::new(params);
    let index = builder.index();
    let mut sum = builder.cast(index, Dtype::F32);
    let three = builder.number(Dtype::F32, 3.0);
    for nth in 0..params.len() {
        let value = builder.param(nth);
        let value = builder.cast(value, Dtype::F32);
        let value = builder.binary(BinaryOp::Mul, value, three).expect("both are f32");
        sum = builder.binary(BinaryOp::Add, sum, value).expect("both are f32");
    }
    let results: Vec<_> = results.iter().map(|dtype| builder.cast(sum, *dtype)).collect();
    builder.finish(&results)
}

fn elements_of(layout: &Layout) -> usize {
    positions(layout).into_iter().max().map_or(0, |last| last + 1)
}

/// One step on inputs of these layouts, with contiguous outputs.
fn one_step(layouts: &[Layout], params: &[Dtype], results: &[Dtype]) -> Plan {
    let shape = layouts[0].shape.clone();
    let inputs = layouts.iter().zip(params).enumerate();
    let inputs: Vec<_> =
        inputs.map(|(nth, (layout, dtype))| view(Location::Input(nth), *dtype, layout.clone())).collect();
    let output = |(nth, dtype): (usize, &Dtype)| view(Location::Output(nth), *dtype, Layout::contiguous(&shape));
    let outputs: Vec<_> = results.iter().enumerate().map(output).collect();
    let of = |view: &View| tensor_type(view.dtype, elements_of(&view.layout));
    Plan {
        inputs: inputs.iter().map(of).collect(),
        outputs: outputs.iter().map(of).collect(),
        arena_bytes: 0,
        steps: vec![Step::Map(MapStep { function: combine(params, results), shape, inputs, outputs })],
    }
}

#[test]
fn elementwise_steps_of_every_layout_and_type_agree_with_the_interpreter() {
    with_worker(|worker| {
        let rng = &mut StdRng::seed_from_u64(1);
        let at = |offset, shape: &[usize]| Layout { offset, ..Layout::contiguous(shape) };
        let broadcast = |from: &[usize], to: &[usize]| Layout::contiguous(from).broadcast(to).expect("broadcasts");
        let classes: Vec<Vec<Layout>> = vec![
            vec![at(0, &[100_003])],
            vec![at(0, &[1027]), at(1, &[1027]), broadcast(&[1], &[1027])],
            vec![at(0, &[]), at(3, &[])],
            vec![at(0, &[37, 48]), broadcast(&[48], &[37, 48]), broadcast(&[37, 1], &[37, 48])],
            vec![at(0, &[37, 45]), broadcast(&[45], &[37, 45]), broadcast(&[37, 1], &[37, 45])],
            vec![at(0, &[9, 64]).sliced(1, 63, 64, -1), at(8, &[9, 64])],
            vec![at(0, &[9, 64]).sliced(1, 0, 32, 2).sliced(0, 8, 9, -1), at(0, &[9, 32])],
            vec![at(0, &[130, 70]).permuted(&[1, 0]), at(0, &[70, 130])],
            vec![at(0, &[3, 65, 70]).permuted(&[0, 2, 1]), broadcast(&[65], &[3, 70, 65])],
            vec![at(0, &[20, 5, 33]).permuted(&[2, 0, 1]), at(0, &[20, 33, 5]).permuted(&[1, 0, 2])],
            vec![at(0, &[20, 3, 33]).permuted(&[2, 1, 0]), at(0, &[33, 20, 3]).permuted(&[0, 2, 1])],
            vec![at(0, &[40, 5, 33]).permuted(&[1, 2, 0]); 4],
            vec![at(0, &[3, 4, 5, 6]).sliced(1, 0, 2, 2).sliced(2, 1, 3, 1), broadcast(&[3, 1, 3, 1], &[3, 2, 3, 6])],
            vec![at(0, &[2, 3, 2, 3, 2, 3, 2, 5]).permuted(&[1, 0, 3, 2, 5, 4, 6, 7])],
            vec![at(0, &[4, 0, 3])],
        ];
        for (class, layouts) in classes.iter().enumerate() {
            for first in 0..Dtype::ALL.len() {
                let dtype = |nth: usize| Dtype::ALL[(first + nth * (class + 1)) % Dtype::ALL.len()];
                let params: Vec<_> = (0..layouts.len()).map(dtype).collect();
                let plan = one_step(layouts, &params, &[dtype(layouts.len()), dtype(layouts.len() + 1)]);
                let inputs: Vec<_> =
                    plan.inputs.iter().map(|input| random(input.dtype, input.elements(), rng)).collect();
                agrees(&plan, &inputs, worker);
            }
        }
    });
}

#[test]
fn steps_read_what_earlier_ones_wrote_and_may_overwrite_it() {
    with_worker(|worker| {
        let (rng, shape, dtype) = (&mut StdRng::seed_from_u64(2), [67, 67], Dtype::I32);
        let dense = Layout::contiguous(&shape);
        let arena = |layout: &Layout| view(Location::Arena(256), dtype, layout.clone());
        let step = |inputs: Vec<View>, output: View| {
            let function = combine(&vec![dtype; inputs.len()], &[dtype]);
            Step::Map(MapStep { shape: shape.to_vec(), inputs, function, outputs: vec![output] })
        };
        let input = view(Location::Input(0), dtype, dense.clone());
        let output = view(Location::Output(0), dtype, dense.clone());
        let plan = Plan {
            inputs: vec![tensor_type(dtype, 67 * 67)],
            outputs: vec![tensor_type(dtype, 67 * 67)],
            arena_bytes: 256 + 67 * 67 * 4,
            steps: vec![
                step(vec![input.clone()], arena(&dense)),
                step(vec![arena(&dense), input], arena(&dense)),
                step(vec![arena(&dense), arena(&dense.permuted(&[1, 0]))], output),
            ],
        };
        let inputs = [random(dtype, 67 * 67, rng)];
        agrees(&plan, &inputs, worker);
    });
}

#[test]
fn inputs_of_other_sizes_are_errors() {
    with_worker(|worker| {
        let plan = one_step(&[Layout::contiguous(&[8])], &[Dtype::F32], &[Dtype::F32]);
        for wrong in [&[][..], &[&[0; 31][..]], &[&[0; 32][..], &[0; 32]]] {
            assert!(execute(&plan, wrong, worker).is_err());
        }
    });
}

/// A number of any type; integers as i64.
fn number(literal: Literal) -> f64 {
    let bits = literal.bits();
    #[expect(clippy::cast_possible_truncation, reason = "the bits of a literal are in its low bytes")]
    match literal.dtype() {
        Dtype::F16 => f16::from_bits(bits as u16).to_f64(),
        Dtype::Bf16 => bf16::from_bits(bits as u16).to_f64(),
        Dtype::F32 => f64::from(f32::from_bits(bits as u32)),
        Dtype::F64 => f64::from_bits(bits),
        dtype @ (Dtype::Bool
        | Dtype::U8
        | Dtype::I8
        | Dtype::U16
        | Dtype::I16
        | Dtype::U32
        | Dtype::I32
        | Dtype::U64
        | Dtype::I64) => {
            let shift = 64 - 8 * dtype.size();
            let signed = (bits << shift).cast_signed();
            if dtype.is_signed() { (signed >> shift) as f64 } else { (bits << shift >> shift) as f64 }
        }
    }
}

fn negate(dtype: Dtype) -> Function {
    let mut builder = Builder::new(&[dtype]);
    let value = builder.param(0);
    let value = builder.cast(value, dtype.compute());
    let value = builder.unary(UnaryOp::Neg, value).expect("numbers have a negative");
    let value = builder.cast(value, dtype);
    builder.finish(&[value])
}

/// The product of views, with a bias and a negation as epilogue if `biased`, against sums in f64, which are exact for small numbers.
fn multiplies(dtype: Dtype, a: &Layout, b: &Layout, biased: bool, worker: &Worker) {
    let rng = &mut StdRng::seed_from_u64(3);
    let [batch, m, k] = [0, 1, 2].map(|dim| a.shape[dim]);
    let n = b.shape[2];
    let accumulate = if dtype == Dtype::F64 {
        Accumulate::F64
    } else if dtype.is_float() {
        Accumulate::F32
    } else {
        Accumulate::Wrapping
    };
    let bias = Layout { offset: 1, ..Layout::contiguous(&[n]) };
    let step = MatMulStep {
        a: view(Location::Input(0), dtype, a.clone()),
        b: view(Location::Input(1), dtype, b.clone()),
        bias: biased.then(|| view(Location::Input(2), dtype, bias)),
        accumulate,
        epilogue: biased.then(|| negate(dtype)),
        output: view(Location::Output(0), dtype, Layout::contiguous(&[batch, m, n])),
    };
    let plan = Plan {
        inputs: [elements_of(a), elements_of(b), n + 1].map(|elements| tensor_type(dtype, elements)).to_vec(),
        outputs: vec![tensor_type(dtype, batch * m * n)],
        arena_bytes: 0,
        steps: vec![Step::MatMul(step)],
    };
    let inputs: Vec<_> = plan.inputs.iter().map(|input| random(dtype, input.elements(), rng)).collect();
    let slices: Vec<_> = inputs.iter().map(|input| &input[..]).collect();
    let found = execute(&plan, &slices, worker).unwrap_or_else(|error| panic!("{error}"));
    let (places_a, places_b) = (positions(a), positions(b));
    let at = |input: usize, place: usize| number(literal_at(dtype, &inputs[input], place));
    for nth in 0..batch * m * n {
        let (matrix, row, column) = (nth / (m * n), nth / n % m, nth % n);
        let term = |inner| {
            at(0, places_a[(matrix * m + row) * k + inner]) * at(1, places_b[(matrix * k + inner) * n + column])
        };
        let sum = (0..k).map(term).sum::<f64>();
        let exact = if biased { -(sum + at(2, 1 + column)) } else { sum };
        let expected = if dtype.is_float() { Literal::from_f64(dtype, exact) } else { wrapped(dtype, exact) };
        let found = literal_at(dtype, &found[0], nth);
        let difference = number(found) - number(expected);
        assert!(
            difference.abs() <= 0.0,
            "{found:?}, expected {expected:?}: {dtype} {a:?} {b:?} {biased}, element {nth}"
        );
    }
}

fn wrapped(dtype: Dtype, exact: f64) -> Literal {
    #[expect(clippy::cast_possible_truncation, reason = "sums of a few small products")]
    Literal::from_i64(dtype, exact as i64)
}

#[test]
fn products_of_every_type_and_layout_agree_with_sums_in_f64() {
    with_worker(|worker| {
        let dense = Layout::contiguous;
        let shared = dense(&[1, 24, 40]).broadcast(&[3, 24, 40]).expect("broadcasts");
        let cases = [
            (dense(&[1, 70, 65]), dense(&[1, 65, 90])),
            (dense(&[3, 16, 24]), shared),
            (dense(&[2, 33, 70]).permuted(&[0, 2, 1]), dense(&[2, 19, 33]).permuted(&[0, 2, 1])),
            (dense(&[1, 64, 64]).sliced(2, 8, 32, 1), dense(&[1, 32, 8])),
            (dense(&[1, 1, 7]), dense(&[1, 7, 1])),
            (dense(&[2, 5, 0]), dense(&[2, 0, 6])),
            (dense(&[1, 0, 4]), dense(&[1, 4, 6])),
            (dense(&[2, 9, 20]).sliced(2, 0, 10, 2), dense(&[2, 10, 9]).sliced(1, 9, 10, -1)),
        ];
        for dtype in Dtype::ALL.into_iter().filter(|dtype| *dtype != Dtype::Bool) {
            for (a, b) in &cases {
                multiplies(dtype, a, b, false, worker);
                multiplies(dtype, a, b, true, worker);
            }
        }
    });
}
