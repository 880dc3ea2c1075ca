//! Benchmarks of kernels, from a caller's view: times, checks of results, and refusals.

use accelerd_proto::v1::{self, BenchmarkVerdict, KernelDevice, KernelFaultKind};
use tonic::{Code, Status};

use super::{
    harness::{TestServer, assert_refused, tensor},
    kernel_launch::{SAXPY, argument, array, program, request},
};

fn benchmark(launch: v1::LaunchRequest) -> v1::BenchmarkRequest {
    v1::BenchmarkRequest { launch: Some(launch), run_count: Some(5), warm_up_count: Some(1), ..Default::default() }
}

async fn measure(server: &TestServer, request: v1::BenchmarkRequest) -> Result<v1::BenchmarkResponse, Status> {
    server.kernels().benchmark(request).await.map(tonic::Response::into_inner)
}

fn saxpy() -> v1::LaunchRequest {
    let numbers: Vec<_> = (0..100_u8).map(f32::from).collect();
    let arrays = [("a", tensor(&[], &[2.0])), ("x", tensor(&[100], &numbers)), ("y", tensor(&[100], &numbers))];
    request(SAXPY, &[100], arrays.map(|(name, tensor)| argument(name, tensor)).into())
}

/// `y = x`, and what stands for it where `x` is 5.
fn copy(of_five: &str) -> String {
    format!(
        "import warp as wp\n@wp.kernel\ndef copy(x: wp.array(dtype=float), y: wp.array(dtype=float)):\n    \
         i = wp.tid()\n    if x[i] == 5.0:\n        {of_five}\n    else:\n        y[i] = x[i]\n"
    )
}

fn copying(of_five: &str) -> v1::LaunchRequest {
    let numbers: Vec<_> = (0..10_u8).map(f32::from).collect();
    let launch = request(&copy(of_five), &[10], vec![argument("x", tensor(&[10], &numbers))]);
    v1::LaunchRequest { outputs: vec![v1::KernelOutput { name: "y".to_owned(), shape: vec![10] }], ..launch }
}

#[tokio::test]
async fn a_kernel_is_timed_and_its_rates_are_those_of_the_median() {
    let server = TestServer::start().await;
    let measured = measure(&server, benchmark(saxpy())).await.expect("it is valid");
    assert_eq!((measured.verdict(), measured.device()), (BenchmarkVerdict::Passed, KernelDevice::Cpu), "{measured:?}");
    assert_eq!((measured.run_times.len(), measured.thread_count, measured.array_bytes), (5, 100, 800));
    let seconds = |time: Option<prost_types::Duration>| {
        std::time::Duration::try_from(time.expect("it is set")).expect("not negative").as_secs_f64()
    };
    let [p10, median, p90] = [measured.p10_time, measured.median_time, measured.p90_time].map(seconds);
    assert!(p10 <= median && median <= p90 && seconds(measured.min_time) <= median);
    assert!((measured.threads_per_second * median - 100.0).abs() < 1e-6);
    assert!((measured.bytes_per_second * median - 800.0).abs() < 1e-6);
    let by_another = v1::BenchmarkRequest { reference: Some(program(SAXPY)), ..benchmark(saxpy()) };
    assert_eq!(measure(&server, by_another).await.expect("it is valid").verdict(), BenchmarkVerdict::Passed);
}

#[tokio::test]
async fn the_first_and_the_last_run_are_checked_on_elements_of_their_own() {
    let server = TestServer::start().await;
    let reference = Some(program(&copy("y[i] = 6.0")));
    let wrong = || v1::BenchmarkRequest { reference: reference.clone(), ..benchmark(copying("y[i] = 5.0")) };
    let measured = measure(&server, wrong()).await.expect("it is valid");
    assert_eq!(measured.verdict(), BenchmarkVerdict::Mismatch);
    let [first, last] = &measured.mismatches[..] else { panic!("{measured:?}") };
    assert_eq!((first.run, last.run, first.failed_count, first.actual, first.expected), (0, 4, 1, 5.0, 6.0));
    assert_ne!(first.index, last.index, "the elements are rotated");
    let fixed = v1::BenchmarkRequest { fixed_arguments: vec!["x".to_owned()], ..wrong() };
    let fixed = measure(&server, fixed).await.expect("it is valid");
    assert_eq!(fixed.mismatches.iter().map(|one| one.index).collect::<Vec<_>>(), [5, 5]);
    let close = v1::BenchmarkRequest { atol: Some(1.0), ..wrong() };
    assert_eq!(measure(&server, close).await.expect("it is valid").verdict(), BenchmarkVerdict::Passed);
}

#[tokio::test]
async fn zeros_do_not_pass_for_results_that_are_smaller_than_the_tolerance() {
    let server = TestServer::start().await;
    let of = |value: &str| {
        format!(
            "import warp as wp\n@wp.kernel\ndef small(x: wp.array(dtype=float), y: wp.array(dtype=float)):\n    \
             i = wp.tid()\n    y[i] = {value}\n"
        )
    };
    let launch = |value: &str| {
        let numbers: Vec<_> = (0..50_u8).map(|nth| f32::from(nth) / 25.0).collect();
        let launch = request(&of(value), &[50], vec![argument("x", tensor(&[50], &numbers))]);
        v1::LaunchRequest { outputs: vec![v1::KernelOutput { name: "y".to_owned(), shape: vec![50] }], ..launch }
    };
    let reference = Some(program(&of("wp.exp(x[i]) / 1.0e7")));
    let against = |value: &str| v1::BenchmarkRequest { reference: reference.clone(), ..benchmark(launch(value)) };
    let zeros = measure(&server, against("0.0")).await.expect("it is valid");
    assert_eq!((zeros.verdict(), zeros.mismatches.len()), (BenchmarkVerdict::Mismatch, 2), "{zeros:?}");
    assert_eq!(zeros.mismatches[0].failed_count, 50);
    let [small] = &zeros.small_outputs[..] else { panic!("{zeros:?}") };
    assert_eq!((small.output.as_str(), small.atol), ("y", 1e-5));
    assert!(small.max_norm > 7e-7 && small.max_norm_rtol.is_some(), "{small:?}");
    let right = measure(&server, against("wp.exp(x[i]) * 1.0e-7")).await.expect("it is valid");
    assert_ne!(right.verdict(), BenchmarkVerdict::Mismatch, "{right:?}");
    assert_eq!(right.small_outputs.len(), 1, "the answer says how results were judged");
    let given = v1::BenchmarkRequest { atol: Some(1e-5), ..against("0.0") };
    let given = measure(&server, given).await.expect("it is valid");
    assert!(given.mismatches.is_empty(), "a tolerance of the caller decides alone: {given:?}");
    assert_eq!(given.small_outputs[0].max_norm_rtol, None);
}

#[tokio::test]
async fn an_element_that_is_not_written_is_not_taken_for_zero() {
    let server = TestServer::start().await;
    let request = v1::BenchmarkRequest { reference: Some(program(&copy("y[i] = 0.0"))), ..benchmark(copying("pass")) };
    let measured = measure(&server, request).await.expect("it is valid");
    assert_eq!((measured.verdict(), measured.mismatches.len()), (BenchmarkVerdict::Mismatch, 2), "{measured:?}");
}

#[tokio::test]
async fn a_fault_ends_the_runs() {
    let server = TestServer::start().await;
    let measured = measure(&server, benchmark(copying("y[i] = x[100]"))).await.expect("it is valid");
    assert_eq!((measured.verdict(), measured.run_times.len()), (BenchmarkVerdict::Fault, 0));
    assert_eq!(measured.fault.expect("it is told").kind(), KernelFaultKind::OutOfBounds);
}

#[tokio::test]
async fn benchmarks_that_cannot_be_run_are_refused_with_their_field() {
    let server = TestServer::start().await;
    let with = |change: &dyn Fn(&mut v1::BenchmarkRequest)| {
        let mut request = benchmark(saxpy());
        change(&mut request);
        request
    };
    let launch = |request: &mut v1::BenchmarkRequest| request.launch.take().expect("it is set");
    for (request, field) in [
        (with(&|request| request.launch = None), "launch.kernel_id"),
        (with(&|request| request.launch = Some(v1::LaunchRequest { device: 3, ..launch(request) })), "launch.device"),
        (with(&|request| request.run_count = Some(0)), "run_count"),
        (with(&|request| request.warm_up_count = Some(10_001)), "warm_up_count"),
        (with(&|request| request.atol = Some(-1.0)), "atol"),
        (with(&|request| request.rtol = Some(f64::NAN)), "rtol"),
        (with(&|request| request.fixed_arguments = vec!["a".to_owned()]), "fixed_arguments[0]"),
        (with(&|request| request.reference = Some(program("def f("))), "reference.source"),
        (with(&|request| request.reference = Some(program(&copy("pass")))), "reference"),
        (
            with(&|request| {
                let arguments = vec![argument("a", array(v1::Dtype::I32, &[], &[1_i32]))];
                request.launch = Some(v1::LaunchRequest { arguments, ..launch(request) });
            }),
            "launch.arguments[0]",
        ),
        (
            with(&|request| {
                let outputs = vec![v1::KernelOutput { name: "x".to_owned(), shape: vec![] }];
                request.launch = Some(v1::LaunchRequest { outputs, ..launch(request) });
            }),
            "launch.outputs",
        ),
    ] {
        assert_refused(measure(&server, request).await, Code::InvalidArgument, field);
    }
    server.assert_serving().await;
}
