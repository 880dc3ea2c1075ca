//! Tests on the CPU.

use std::time::{Duration, Instant};

use accelerd_tensor::{Attribute, Dtype, Graph, GraphSpec, NodeSpec, Plan, TensorType};

use bytes::Bytes;

use super::{
    super::{BenchmarkBound, Execute, ExecuteRequest},
    *,
};
use crate::cpu;

fn plan(op: &str, inputs: &[(Dtype, &[usize])], attributes: &[(&str, Attribute)]) -> Arc<Plan> {
    let inputs: Vec<_> = inputs
        .iter()
        .enumerate()
        .map(|(nth, (dtype, shape))| (format!("x{nth}"), TensorType { dtype: *dtype, shape: shape.to_vec() }))
        .collect();
    let node = NodeSpec {
        name: "y".to_owned(),
        op: op.to_owned(),
        inputs: inputs.iter().map(|(name, _)| name.clone()).collect(),
        attributes: attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
    };
    let spec = GraphSpec { inputs, nodes: vec![node], outputs: vec!["y".to_owned()] };
    Arc::new(Plan::new(&Graph::new(&spec).unwrap_or_else(|error| panic!("{op}: {error}"))))
}

fn backend() -> Backend {
    Backend::Cpu(cpu::Worker::new(cpu::Pool::start(2).expect("two threads")))
}

fn request(plan: &Arc<Plan>, integers_below: &[i64]) -> BenchmarkRequest {
    let request = BenchmarkRequest::new(Arc::clone(plan), integers_below, DeviceId::Cpu).expect("valid integers");
    request.repeated(3, Duration::from_secs(3600), None)
}

fn run(request: &BenchmarkRequest) -> Result<Benchmarked, OpError> {
    Benchmark::run(&[request], &mut backend()).map(|mut measured| measured.remove(0))
}

#[test]
fn every_repetition_is_timed_and_the_rates_of_the_device_are_measured() {
    let sum = plan("add", &[(Dtype::F32, &[1000, 3]), (Dtype::F32, &[3])], &[]);
    let measured = run(&request(&sum, &[1, 1])).expect("runs");
    assert_eq!((measured.times.len(), measured.launches, measured.product_rate), (3, 1, None));
    assert!(measured.times.is_sorted() && measured.copy_rate > 0.0, "{measured:?}");
    let (bound, share) = measured.bound(&sum);
    assert!(bound == BenchmarkBound::Memory && share > 0.0, "{bound:?} {share}");

    let product = plan("matmul", &[(Dtype::Bf16, &[8, 8]), (Dtype::Bf16, &[8, 8])], &[]);
    let measured = run(&request(&product, &[1, 1])).expect("runs");
    assert!(measured.product_rate > Some(0.0), "{measured:?}");
}

#[test]
fn inputs_of_all_types_are_generated() {
    for dtype in Dtype::ALL {
        let cast = plan("to", &[(dtype, &[2, 0, 3])], &[("dtype", Attribute::Text("f64".to_owned()))]);
        run(&request(&cast, &[7])).unwrap_or_else(|error| panic!("{dtype}: {error}"));
    }
    let too_large = BenchmarkRequest::new(plan("neg", &[(Dtype::I8, &[4])], &[]), &[1000], DeviceId::Cpu);
    assert!(too_large.is_err_and(|error| error.to_string().contains("i8")));
}

#[test]
fn indices_are_below_the_given_number() {
    let lookup = plan("embedding", &[(Dtype::F32, &[5, 2]), (Dtype::I64, &[1000])], &[]);
    run(&request(&lookup, &[1, 5])).expect("all indices are valid");
    let refused = run(&request(&lookup, &[1, 50])).expect_err("some are too large").to_string();
    assert!(refused.contains("less than 5"), "{refused}");
}

#[test]
fn time_and_deadline_end_the_repetitions_after_the_first() {
    let copy = plan("neg", &[(Dtype::F32, &[4])], &[]);
    let now = Instant::now();
    for (max_time, deadline) in [(Duration::ZERO, None), (Duration::from_secs(3600), Some(now))] {
        let measured = run(&request(&copy, &[1]).repeated(1000, max_time, deadline)).expect("runs");
        assert_eq!(measured.times.len(), 1);
    }
}

#[test]
fn a_benchmark_that_nobody_awaits_ends() {
    let mut backend = backend();
    backend.set_preemption(Arc::new(|| std::ops::ControlFlow::Break(())));
    let request = request(&plan("neg", &[(Dtype::F32, &[4])], &[]), &[1]);
    assert_eq!(Benchmark::run(&[&request], &mut backend), Err(OpError::Cancelled));
}

#[test]
fn the_size_covers_operands_results_and_the_buffers_of_copies() {
    let sum = plan("add", &[(Dtype::F32, &[1 << 20]), (Dtype::F32, &[1 << 20])], &[]);
    let buffers = 2 * copy_bytes(DeviceId::Cpu) as u64;
    assert_eq!(Benchmark::size(&request(&sum, &[1, 1])).bytes, (3 << 22) + buffers);
}

#[test]
fn quantiles_are_times_of_repetitions() {
    let times = (1..=10).map(Duration::from_secs).collect();
    let measured = Benchmarked { times, launches: 1, copy_rate: 1.0, product_rate: None };
    let seconds = [0.0, 0.1, 0.5, 0.9, 1.0].map(|share| measured.quantile(share).as_secs());
    assert_eq!(seconds, [1, 1, 5, 9, 10]);
    assert!((measured.rate(10) - 2.0).abs() < 1e-12);
}

#[test]
fn steps_count_the_bytes_that_they_move() {
    let pool = cpu::Pool::start(1).expect("a thread");
    let mut backend = Backend::Cpu(cpu::Worker::new(Arc::clone(&pool)));
    let sum = plan("sum", &[(Dtype::F32, &[8, 4])], &[("dim", Attribute::Int(1))]);
    for _ in 0..3 {
        let request = ExecuteRequest::new(Arc::clone(&sum), vec![Bytes::from(vec![0; 128])]);
        Execute::run(&[&request], &mut backend).expect("runs");
    }
    let counted: Vec<_> = pool.kernel_stats().iter().map(|kernel| (kernel.name, kernel.moved_bytes)).collect();
    assert_eq!(counted, [("tensor_reduce", 3 * (128 + 32))]);
}
