//! Benchmarks of single operations, from a caller's view.

use std::time::Duration;

use accelerd_proto::v1::{self, tensor_attribute::Value};
use tonic::{Code, Request};

use super::harness::{TestServer, assert_refused};

fn operand(dtype: v1::Dtype, shape: &[i64]) -> v1::BenchmarkOperand {
    v1::BenchmarkOperand { dtype: dtype.into(), shape: shape.to_vec(), integers_below: 0 }
}

/// Three repetitions on the CPU.
fn request(op: &str, shapes: &[&[i64]]) -> v1::BenchmarkOpRequest {
    v1::BenchmarkOpRequest {
        op: op.to_owned(),
        operands: shapes.iter().map(|shape| operand(v1::Dtype::F32, shape)).collect(),
        device: "cpu".to_owned(),
        repetition_count: 3,
        ..Default::default()
    }
}

fn with(request: v1::BenchmarkOpRequest, name: &str, value: Value) -> v1::BenchmarkOpRequest {
    let attributes = [(name.to_owned(), v1::TensorAttribute { value: Some(value) })].into();
    v1::BenchmarkOpRequest { attributes, ..request }
}

fn seconds(time: Option<prost_types::Duration>) -> f64 {
    Duration::try_from(time.expect("a time")).expect("not negative").as_secs_f64()
}

async fn run(server: &TestServer, request: v1::BenchmarkOpRequest) -> v1::BenchmarkOpResponse {
    server.tensor().benchmark_op(request).await.expect("runs").into_inner()
}

#[tokio::test]
async fn figures_follow_from_the_times_and_the_shapes() {
    let server = TestServer::start().await;
    let sum = run(&server, request("add", &[&[64, 32], &[32]])).await;
    assert_eq!((sum.moved_bytes, sum.operation_count), (4 * (2 * 64 * 32 + 32), 64 * 32));
    assert_eq!((sum.repetition_count, sum.launch_count, sum.device.as_str()), (3, 1, "cpu"));
    assert!(!sum.product.is_empty() && sum.product_operations_per_second == 0.0);
    assert_eq!(sum.bound(), v1::BenchmarkBound::Memory);
    let times = [sum.min, sum.p10, sum.median, sum.p90, sum.max].map(seconds);
    assert!(times.is_sorted() && times[0] > 0.0, "{times:?}");
    let close = |got: f64, expected: f64| (got / expected - 1.0).abs() < 1e-6;
    assert!(close(sum.bytes_per_second, sum.moved_bytes as f64 / times[2]), "{sum:?}");
    assert!(close(sum.operations_per_second, sum.operation_count as f64 / times[2]), "{sum:?}");
    assert!(close(sum.bound_share, sum.bytes_per_second / sum.copy_bytes_per_second), "{sum:?}");

    let product = run(&server, request("matmul", &[&[32, 128], &[128, 16]])).await;
    assert_eq!(product.moved_bytes, 4 * (32 * 128 + 128 * 16 + 32 * 16));
    assert_eq!(product.operation_count, 2 * 32 * 128 * 16);
    assert!(product.product_operations_per_second > 0.0 && product.bound_share > 0.0, "{product:?}");
    let moving = product.moved_bytes as f64 / product.copy_bytes_per_second;
    let multiplying = product.operation_count as f64 / product.product_operations_per_second;
    assert!(close(product.bound_share, moving.max(multiplying) / seconds(product.median)), "{product:?}");
}

#[tokio::test]
async fn attributes_results_and_integers_are_those_of_the_request() {
    let server = TestServer::start().await;
    let softmax = run(&server, with(request("softmax", &[&[8, 16]]), "dim", Value::Integer(1))).await;
    assert_eq!((softmax.moved_bytes, softmax.operation_count), (2 * 512, 5 * 128));
    let both = v1::BenchmarkOpRequest { result_count: 2, ..with(request("topk", &[&[8]]), "k", Value::Integer(2)) };
    run(&server, both).await;
    let operands = [operand(v1::Dtype::F32, &[5, 2]), operand(v1::Dtype::I64, &[50])];
    let lookup = |integers_below| {
        let mut operands = operands.clone();
        operands[1].integers_below = integers_below;
        v1::BenchmarkOpRequest { operands: operands.into(), ..request("embedding", &[]) }
    };
    assert_eq!(run(&server, lookup(5)).await.moved_bytes, 50 * (8 + 2 * 8));
    let refused = server.tensor().benchmark_op(lookup(500)).await.expect_err("the table has five rows");
    assert!(refused.code() == Code::InvalidArgument && refused.message().contains("less than 5"), "{refused:?}");
}

#[tokio::test]
async fn mistakes_are_refused_by_name() {
    let server = TestServer::start_with(|config| config.limits.max_benchmark_time = Duration::from_secs(5)).await;
    let valid = || request("add", &[&[2], &[2]]);
    let time = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
    let negative = v1::BenchmarkOperand { integers_below: -1, ..operand(v1::Dtype::I32, &[2]) };
    let small = v1::BenchmarkOperand { integers_below: 1000, ..operand(v1::Dtype::I8, &[2]) };
    let cases = [
        (request("addition", &[&[2]]), "nodes[addition].op"),
        (request("add", &[&[2], &[3]]), "nodes[add].inputs"),
        (with(request("neg", &[&[2]]), "dim", Value::Integer(1)), "nodes[neg].attributes"),
        (request("neg", &[&[-1]]), "operands[0].shape"),
        (v1::BenchmarkOpRequest { operands: vec![v1::BenchmarkOperand::default()], ..valid() }, "operands[0].dtype"),
        (v1::BenchmarkOpRequest { operands: vec![negative], ..valid() }, "operands[0].integers_below"),
        (v1::BenchmarkOpRequest { operands: vec![small], ..request("neg", &[]) }, "operands"),
        (v1::BenchmarkOpRequest { device: "cuda:99".to_owned(), ..valid() }, "device"),
        (v1::BenchmarkOpRequest { repetition_count: 10_001, ..valid() }, "repetition_count"),
        (v1::BenchmarkOpRequest { result_count: 65, ..valid() }, "result_count"),
        (v1::BenchmarkOpRequest { max_time: time(6), ..valid() }, "max_time"),
        (v1::BenchmarkOpRequest { max_time: time(-1), ..valid() }, "got -1s"),
    ];
    for (request, field) in cases {
        assert_refused(server.tensor().benchmark_op(request).await, Code::InvalidArgument, field);
    }
}

#[tokio::test]
async fn a_benchmark_that_needs_too_much_memory_is_refused() {
    let server = TestServer::start().await;
    let refused = server.tensor().benchmark_op(request("neg", &[&[1 << 40]])).await.expect_err("8 TiB");
    assert!(matches!(refused.code(), Code::InvalidArgument | Code::ResourceExhausted), "{refused:?}");
}

#[tokio::test]
async fn the_deadline_ends_a_benchmark() {
    let server = TestServer::start().await;
    // Four trillion multiplications.
    let endless = request("scaled_dot_product_attention", &[&[1, 1, 1 << 17, 128][..]; 3]);
    let mut call = Request::new(endless);
    call.set_timeout(Duration::from_millis(200));
    let late = server.tensor().benchmark_op(call).await.expect_err("it takes longer");
    assert!(matches!(late.code(), Code::DeadlineExceeded | Code::Cancelled), "{late:?}");
    run(&server, request("add", &[&[2], &[2]])).await;
}
