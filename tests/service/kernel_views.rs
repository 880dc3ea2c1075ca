//! Launches that pass one array twice, or views of it.

use accelerd_proto::v1::{self, Dtype, KernelDevice};
use tonic::Code;

use super::{
    harness::{TestServer, assert_refused, f32s, tensor},
    kernel_gpu::{assert_same, server},
    kernel_launch::{SAXPY, argument, array, launch, output, request},
};

/// `y[i] = x[i] + 1`.
const SUCCESSOR: &str = "
import warp as wp

@wp.kernel
def successor(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] + 1.0
";

/// Moves two points apart; no two threads have a point in common.
const APART: &str = "
import warp as wp

@wp.kernel
def apart(p: wp.array(dtype=wp.vec2), q: wp.array(dtype=wp.vec2), x: wp.array(dtype=float)):
    i = wp.tid()
    q[2 * i] = p[2 * i + 1] - p[2 * i]
    p[2 * i + 1] = 2.0 * p[2 * i + 1] - q[2 * i]
    x[4 * i] += q[2 * i][0]
";

fn view(name: &str, of: &str) -> v1::KernelView {
    v1::KernelView { name: name.into(), argument: of.into(), ..Default::default() }
}

fn launch_on(source: &str, threads: i64, arrays: Vec<v1::TensorInput>, views: &[v1::KernelView]) -> v1::LaunchRequest {
    v1::LaunchRequest { views: views.to_vec(), ..request(source, &[threads], arrays) }
}

/// The outputs of a launch that succeeds.
fn outputs(response: &v1::LaunchResponse) -> Vec<(&str, Vec<f32>)> {
    assert_eq!(response.fault, None);
    let outputs = response.outputs.iter();
    outputs.map(|output| (output.name.as_str(), f32s(output.value.as_ref().expect("a tensor")))).collect()
}

#[tokio::test]
async fn one_array_that_is_passed_twice_is_one() {
    let server = server(|_| {}).await;
    let zeros = vec![argument("x", tensor(&[100], &[0.0; 100]))];
    let twice = launch_on(SUCCESSOR, 100, zeros.clone(), &[view("y", "x")]);
    let response = assert_same(&server, "twice", &twice).await;
    assert_eq!(outputs(&response), [("x", vec![1.0; 100])]);
    let halves = v1::KernelView { offset_bytes: 200, shape: vec![50], ..view("y", "x") };
    let response = assert_same(&server, "halves", &launch_on(SUCCESSOR, 50, zeros.clone(), &[halves])).await;
    assert_eq!(outputs(&response), [("x", [vec![0.0; 50], vec![1.0; 50]].concat())]);
    // A thread reads what the one before it has written, so the order of the threads counts.
    let next = v1::KernelView { offset_bytes: 4, shape: vec![99], ..view("y", "x") };
    let response = launch(&server, launch_on(SUCCESSOR, 99, zeros, &[next])).await.expect("it is valid");
    assert_eq!(outputs(&response), [("x", (0_u8..100).map(f32::from).collect())]);
    let of_output =
        v1::LaunchRequest { outputs: vec![output("y", &[3])], ..launch_on(SUCCESSOR, 3, vec![], &[view("x", "y")]) };
    let response = launch(&server, of_output).await.expect("it is valid");
    assert_eq!(outputs(&response), [("y", vec![1.0; 3])]);
}

#[tokio::test]
async fn views_have_other_elements_of_the_same_memory() {
    let server = server(|_| {}).await;
    let points: Vec<f32> = (0_u8..40).map(|x| f32::from(x * x % 23) / 4.0).collect();
    let flat = v1::KernelView { shape: vec![40], strides_bytes: vec![4], ..view("x", "p") };
    let arrays = vec![argument("p", tensor(&[20, 2], &points))];
    let request = launch_on(APART, 10, arrays, &[view("q", "p"), flat]);
    let response = assert_same(&server, "points", &request).await;
    let mut expected = points;
    for point in expected.chunks_exact_mut(4) {
        let [x, y] = [point[2] - point[0], point[3] - point[1]];
        point.copy_from_slice(&[x + x, y, 2.0 * point[2] - x, 2.0 * point[3] - y]);
    }
    assert_eq!(outputs(&response), [("p", expected)]);
}

#[tokio::test]
async fn a_benchmark_rotates_the_array_of_a_view() {
    let server = TestServer::start().await;
    let x: Vec<f32> = (0_u16..1000).map(f32::from).collect();
    let launch = launch_on(SUCCESSOR, 1000, vec![argument("x", tensor(&[1000], &x))], &[view("y", "x")]);
    let benchmark = v1::BenchmarkRequest { launch: Some(launch), run_count: Some(3), ..Default::default() };
    let measured = server.kernels().benchmark(benchmark).await.expect("it is valid").into_inner();
    assert_eq!((measured.mismatches.len(), measured.fault), (0, None));
    assert_eq!(measured.array_bytes, 4000);
}

#[tokio::test]
async fn views_that_do_not_fit_are_refused_with_their_field() {
    let server = TestServer::start().await;
    let x = || argument("x", tensor(&[4], &[0.0; 4]));
    let with = |view| launch_on(SUCCESSOR, 4, vec![x()], &[view]);
    let of_y = |change: fn(&mut v1::KernelView)| {
        let mut changed = view("y", "x");
        change(&mut changed);
        with(changed)
    };
    let named = |name: &str| v1::LaunchRequest { outputs: vec![output(name, &[])], ..with(view("y", "x")) };
    let pair = "def f(x: float, y: float) -> float:\n    return x + y\n";
    let row = vec![argument("x", array(Dtype::F64, &[1], &[1.0_f64]))];
    let a = argument("a", tensor(&[], &[1.0]));
    let cases = [
        (with(view("z", "x")), "views[0].name: expected the name of a parameter"),
        (with(view("x", "x")), "views[0].name: expected one argument or view for \"x\", got two"),
        (launch_on(SUCCESSOR, 4, vec![x()], &[view("y", "x"), view("y", "x")]), "views[1].name"),
        (with(view("y", "z")), "views[0].argument: expected the name of an array that is no view"),
        (with(view("y", "y")), "views[0].argument"),
        (launch_on(SAXPY, 4, vec![a, x()], &[view("y", "a")]), "views[0].argument"),
        (
            of_y(|view| view.offset_bytes = 4),
            "views[0]: \"y\": expected elements in an array of 16 bytes, got an end at 20",
        ),
        (of_y(|view| view.offset_bytes = u64::MAX - 3), "got an end at 18446744073709551615"),
        (of_y(|view| view.offset_bytes = 2), "expected an offset and strides that are multiples of 4 bytes"),
        (of_y(|view| view.shape = vec![5]), "got an end at 20"),
        (of_y(|view| view.shape = vec![-1]), "views[0].shape"),
        (of_y(|view| view.shape = vec![2, 2]), "views[0]: \"y\": expected 1 dimensions, got 2"),
        (of_y(|view| view.strides_bytes = vec![4, 4]), "views[0]: \"y\": expected 1 strides, got 2"),
        (of_y(|view| view.strides_bytes = vec![1 << 31]), "views[0]: \"y\": dimension 0 has the stride 2147483648"),
        (named("y"), "outputs[0].name: expected \"x\", which has the elements of the view \"y\""),
        (launch_on(pair, 1, row, &[view("y", "x")]), "views[0]: expected no view, because functions in Python"),
    ];
    for (request, expected) in cases {
        assert_refused(launch(&server, request).await, Code::InvalidArgument, expected);
    }
    let device = KernelDevice::Cpu.into();
    launch(&server, v1::LaunchRequest { device, ..named("x") }).await.expect("it is valid");
}
