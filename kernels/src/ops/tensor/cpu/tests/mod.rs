//! Plans of one step, compared with the oracle.

use std::{
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use accelerd_tensor::{
    Dtype, Layout, Location, MapStep, Plan, Step, TensorType, View,
    scalar::{BinaryOp, Builder, Function, Literal, UnaryOp},
};

use super::{super::oracle, execute, scratch_bytes};
use crate::{
    DeviceId, OpError,
    cpu::{Pool, Worker},
    preemption::Preemption,
};

fn worker(threads: usize) -> Worker {
    Worker::new(Pool::start(threads).expect("a few threads"))
}

/// A worker whose batch is abandoned at its preemption point number `last`.
fn abandoned(last: usize) -> Worker {
    let passed = AtomicUsize::new(0);
    let hook = move || {
        if passed.fetch_add(1, SeqCst) + 1 == last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let mut worker = worker(2);
    worker.preemption = Preemption::new(Arc::new(hook));
    worker
}

/// Numbers of a type that repeat after thousands: small ones, large ones, and a few special ones unless `is_tame`.
fn numbers(dtype: Dtype, count: usize, seed: u64, is_tame: bool) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    };
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1e30, -1e-30];
    let number = |bits: u64| {
        if dtype.is_float() {
            let unit = (bits >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
            let special = special[usize::try_from(bits % 7).expect("below 7")];
            let is_special = !is_tame && (bits >> 3).is_multiple_of(37);
            return Literal::from_f64(dtype, if is_special { special } else { unit * 5.0 });
        }
        Literal::from_bits(dtype, if bits & 4 == 0 { bits >> 20 } else { (bits >> 20) % 7 })
    };
    let all = (0..count).map(|_| {
        let bits = next();
        let literal = if dtype == Dtype::Bool { Literal::from_bits(dtype, bits >> 40 & 1) } else { number(bits) };
        literal.bits().to_le_bytes()
    });
    all.flat_map(|bytes| bytes.into_iter().take(dtype.size()).collect::<Vec<_>>()).collect()
}

fn literals(dtype: Dtype, bytes: &[u8]) -> Vec<Literal> {
    let literal = |bytes: &[u8]| {
        let mut bits = [0; 8];
        bits[..bytes.len()].copy_from_slice(bytes);
        Literal::from_bits(dtype, u64::from_le_bytes(bits))
    };
    bytes.chunks(dtype.size()).map(literal).collect()
}

/// Units of the last place of a type, relative to 1.
fn epsilon(dtype: Dtype) -> f64 {
    match dtype.size() {
        2 if dtype == Dtype::F16 => f64::from(half::f16::EPSILON),
        2 => f64::from(half::bf16::EPSILON),
        4 => f64::from(f32::EPSILON),
        _ => f64::EPSILON,
    }
}

/// Asserts that outputs are equal, floating-point numbers to within `units` of the last place or `absolute`.
fn assert_close(plan: &Plan, got: &[impl AsRef<[u8]>], expected: &[Vec<u8>], units: f64, absolute: f64) {
    for ((of, got), expected) in plan.outputs.iter().zip(got).zip(expected) {
        let dtype = of.dtype;
        assert_eq!(got.as_ref().len(), expected.len());
        let pairs = literals(dtype, got.as_ref()).into_iter().zip(literals(dtype, expected));
        for (nth, (got, expected)) in pairs.enumerate() {
            let x = got.as_f64();
            let y = expected.as_f64();
            let is_close = if dtype.is_float() {
                let bound = units * epsilon(dtype) * y.abs() + absolute;
                got == expected || (x - y).abs() <= bound || (x.is_nan() && y.is_nan()) || x.total_cmp(&y).is_eq()
            } else {
                got == expected
            };
            assert!(is_close, "element {nth} of {of:?}: expected {expected:?}, got {got:?}, steps {:?}", plan.steps);
        }
    }
}

/// Executes a plan with 1 and 3 threads, asserts that their bits are equal, and compares with the oracle.
fn check(plan: &Plan, inputs: &[Vec<u8>], units: f64, absolute: f64) {
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let got = [1, 3].map(|threads| execute(plan, &inputs, &worker(threads)).expect("a consistent plan"));
    for (one, three) in got[0].iter().zip(&got[1]) {
        assert!(one.as_ref() == three.as_ref(), "the number of threads changes the result of {:?}", plan.steps);
    }
    assert_close(plan, &got[0], &oracle::execute(plan, &inputs), units, absolute);
}

fn tensor(dtype: Dtype, shape: &[usize]) -> TensorType {
    TensorType { dtype, shape: shape.to_vec() }
}

fn view(location: Location, dtype: Dtype, layout: Layout) -> View {
    View { location, dtype, layout }
}

fn whole(location: Location, dtype: Dtype, shape: &[usize]) -> View {
    view(location, dtype, Layout::contiguous(shape))
}

fn one_step(inputs: Vec<TensorType>, outputs: Vec<TensorType>, step: Step) -> Plan {
    Plan { inputs, outputs, arena_bytes: 0, steps: vec![step] }
}

/// Views of `shape` by permutation, reversal, steps and broadcasting of a tensor, and the tensor's shape.
fn odd_views(shape: &[usize]) -> Vec<(Vec<usize>, Layout)> {
    let rank = shape.len();
    let mut views = vec![(shape.to_vec(), Layout::contiguous(shape))];
    let reversed: Vec<usize> = (0..rank).rev().collect();
    let turned: Vec<usize> = shape.iter().rev().copied().collect();
    views.push((turned.clone(), Layout::contiguous(&turned).permuted(&reversed)));
    let doubled: Vec<usize> = shape.iter().map(|extent| 2 * extent + 1).collect();
    let mut stepped = Layout::contiguous(&doubled);
    for (dim, &extent) in shape.iter().enumerate() {
        let (start, step) = if dim % 2 == 0 { (2 * extent, -2) } else { (1, 2) };
        stepped = stepped.sliced(dim, start, extent, step);
    }
    views.push((doubled, stepped));
    for dim in 0..rank {
        let mut small = shape.to_vec();
        small[dim] = 1;
        let layout = Layout::contiguous(&small).broadcast(shape).expect("extents of 1 repeat");
        views.push((small, layout));
    }
    views.push((vec![], Layout::contiguous(&[]).broadcast(shape).expect("a scalar repeats")));
    views
}

mod along_dim;
mod attention;
mod elementwise;
mod products;
mod reductions;
mod row_steps;
mod windows;
