//! Tests of compiled kernels and launches against a fake daemon.

use std::time::Duration;

use accelerd_client::{Builder, Client, Code, KernelProgram, Launch, Matrix, RetryPolicy, proto::KernelView};
use accelerd_test_support::FakeDaemon;
use tonic::Status;

const SOURCE: &str = "def scale(x: array, a: float, n: int, y: array):\n    ...\n";

async fn connected(fake: &FakeDaemon) -> Client {
    let retry = RetryPolicy { first_wait: Duration::from_millis(1), ..RetryPolicy::default() };
    Builder::new(format!("http://{}", fake.listen().await)).retry(retry).connect().await.expect("the fake listens")
}

#[tokio::test]
async fn a_launch_sends_arguments_and_returns_outputs_by_name() {
    let fake = FakeDaemon::default();
    let client = connected(&fake).await;
    fake.fail_next([Status::unavailable("draining")]);
    let x = Matrix::new(vec![1.0_f32, 2.0, 3.0, 4.0], 2).expect("two rows");
    let launch = Launch::program(KernelProgram::new(SOURCE).constant("N", 3).name("scale"))
        .grid([2, 2])
        .argument("x", x)
        .argument("a", 2.0_f32)
        .view(KernelView { name: "z".into(), argument: "x".into(), ..Default::default() })
        .output_of_shape("y", [2, 2])
        .loop_budget(9);
    let outcome = client.launch(launch).await.expect("an answer");
    assert_eq!(outcome.matrix::<f32>("y").expect("a matrix").as_slice(), [2.0, 4.0, 6.0, 8.0]);
    assert!(outcome.matrix::<f32>("z").expect_err("there is none").to_string().contains("outputs[z]: missing"));
    assert_eq!((outcome.execution_time, outcome.fault), (Duration::from_millis(2), None));
    let state = fake.state();
    assert_eq!(state.calls, ["Launch", "Launch"], "a launch has no effect but its response");
    assert_eq!((state.launches[0].grid.as_slice(), state.launches[0].loop_budget), ([2, 2].as_slice(), Some(9)));
    assert_eq!((state.launches[0].views[0].name.as_str(), state.launches[0].views[0].argument.as_str()), ("z", "x"));
}

#[tokio::test]
async fn a_fault_is_an_outcome() {
    let client = connected(&FakeDaemon::default()).await;
    let launch = Launch::program(KernelProgram::new(format!("# fault\n{SOURCE}")));
    let outcome = client.launch(launch).await.expect("an answer");
    let fault = outcome.fault.expect("a fault");
    assert_eq!((fault.thread, fault.line, fault.array.as_str()), (7, 3, "x"));
    assert!(outcome.outputs.is_empty());
}

#[tokio::test]
async fn a_compiled_kernel_is_listed_launched_by_its_id_and_evicted() {
    let fake = FakeDaemon::default();
    let client = connected(&fake).await;
    let kernel = client.compile(KernelProgram::new(SOURCE)).await.expect("compiled");
    let again = client.compile(KernelProgram::new(SOURCE)).await.expect("compiled");
    assert_eq!((kernel.name.as_str(), &kernel.id), ("scale", &again.id));
    assert_eq!(client.list_kernels().await.expect("listed"), std::slice::from_ref(&kernel));
    let launch = Launch::kernel(&kernel.id).argument("x", Matrix::new(vec![1.0_f32], 1).expect("a number")).output("y");
    assert_eq!(client.launch(launch.clone()).await.expect("an answer").outputs["y"].shape, [1, 1]);
    client.evict_kernel(&kernel.id).await.expect("evicted");
    assert!(client.launch(launch).await.expect_err("it is gone").is_not_found());
    fake.fail_next([Status::unavailable("the connection broke")]);
    let error = client.evict_kernel(&kernel.id).await.expect_err("an eviction is not repeated");
    assert_eq!(error.code(), Code::Unavailable);
}
