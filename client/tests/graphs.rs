//! Graphs whose inputs or outputs exceed a message.

use accelerd_client::{Builder, Client, Code, Graph, GraphOutput, GraphValue, Matrix};
use accelerd_test_support::FakeDaemon;
use tonic::Status;

/// Messages of the client have at most 2 MiB.
async fn connected(fake: &FakeDaemon) -> Client {
    let url = format!("http://{}", fake.listen().await);
    Builder::new(url).max_message_bytes(2 << 20).connect().await.expect("the fake listens")
}

/// A matrix of 3 MiB.
fn large() -> Matrix {
    Matrix::new((0_u16..768).flat_map(|row| [f32::from(row); 1024]).collect(), 1024).expect("it has 1024 columns")
}

#[tokio::test]
async fn an_input_that_exceeds_a_message_is_uploaded_for_the_call() {
    let fake = FakeDaemon::default();
    let client = connected(&fake).await;
    let mut graph = Graph::default();
    let x = graph.input(large());
    let range = graph.op("aminmax", [&x], []);
    let done = client.execute(&graph, [&range, &range.result(1)]).await.expect("it is uploaded");
    assert_eq!(done.outputs[1].data.as_ref(), 767_f32.to_le_bytes());
    assert_eq!(fake.state().calls, ["UploadTensor", "Execute", "FreeTensors"]);
    assert!(fake.state().tensors.is_empty());
}

#[tokio::test]
async fn an_output_that_exceeds_a_message_is_kept_and_downloaded() {
    let fake = FakeDaemon::default();
    let client = connected(&fake).await;
    let mut graph = Graph::default();
    let x = graph.input(large());
    let negated = graph.op("neg", [&x], []);
    let kept = graph.op("add", [&x, &negated], []);
    let outputs = [GraphOutput::from(&negated), kept.keep()];
    let done = client.execute(&graph, outputs).await.expect("it is downloaded");
    let rows: Matrix = done.matrix(0).expect("f32");
    assert_eq!((rows.rows(), rows.row(767).map(|row| row[0])), (768, Some(-767.0)));
    let calls = ["UploadTensor", "Execute", "Execute", "DownloadTensor", "FreeTensors"];
    assert_eq!(fake.state().calls, calls);
    let handles: Vec<_> = fake.state().tensors.iter().map(|(tensor, _)| tensor.handle.clone()).collect();
    assert!(handles.contains(&done.kept[0].handle), "{handles:?}");
}

#[tokio::test]
async fn what_was_uploaded_for_a_call_is_freed_if_it_fails() {
    let fake = FakeDaemon::default();
    let client = connected(&fake).await;
    fake.fail_next_of("Execute", [Status::invalid_argument("nodes[neg_0]: no")]);
    let mut graph = Graph::default();
    let x = graph.input(large());
    let negated: GraphValue = graph.op("neg", [&x], []);
    let error = client.execute(&graph, [&negated]).await.expect_err("it is refused");
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(fake.state().tensors.is_empty(), "{:?}", fake.state().calls);
}
