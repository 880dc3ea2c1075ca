//! Graphs of tensor operations, from a caller's view.

use std::collections::BTreeMap;

use accelerd_client::{Client, Graph, Matrix};
use accelerd_proto::v1::{self, tensor_attribute::Value, tensor_input::Source};
use bytes::Bytes;
use tonic::Code;

use super::harness::{TestServer, assert_refused};

fn floats(shape: &[i64], numbers: &[f32]) -> v1::Tensor {
    v1::Tensor {
        dtype: v1::Dtype::F32.into(),
        shape: shape.to_vec(),
        data: numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>().into(),
    }
}

fn numbers(tensor: &v1::Tensor) -> Vec<f32> {
    let numbers = tensor.data.chunks_exact(4);
    numbers.map(|bytes| f32::from_le_bytes(bytes.try_into().expect("four bytes"))).collect()
}

fn input(name: &str, value: v1::Tensor) -> v1::TensorInput {
    v1::TensorInput { name: name.to_owned(), source: Some(Source::Value(value)) }
}

fn node(name: &str, op: &str, inputs: &[&str], attributes: &[(&str, Value)]) -> v1::TensorNode {
    let attributes: BTreeMap<_, _> = attributes
        .iter()
        .map(|(name, value)| ((*name).to_owned(), v1::TensorAttribute { value: Some(value.clone()) }))
        .collect();
    let inputs = inputs.iter().map(|name| (*name).to_owned()).collect();
    v1::TensorNode { name: name.to_owned(), op: op.to_owned(), inputs, attributes }
}

fn request(inputs: Vec<v1::TensorInput>, nodes: Vec<v1::TensorNode>, outputs: &[&str]) -> v1::ExecuteRequest {
    let outputs = outputs.iter().map(|name| v1::TensorOutput { name: (*name).to_owned(), keep: false }).collect();
    v1::ExecuteRequest { inputs, nodes, outputs, ..Default::default() }
}

#[tokio::test]
async fn a_graph_runs_in_one_call() {
    let server = TestServer::start().await;
    let x = floats(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let nodes = vec![
        node("mean", "mean", &["x"], &[("dim", Value::Integer(1)), ("keepdim", Value::Boolean(true))]),
        node("centred", "sub", &["x", "mean"], &[]),
        node("product", "matmul", &["centred", "x"], &[("transpose_b", Value::Boolean(true))]),
        node("scaled", "mul", &["product"], &[("other", Value::Number(0.5))]),
        node("words", "to", &["scaled"], &[("dtype", Value::Text("i16".to_owned()))]),
    ];
    let request = request(vec![input("x", x.clone())], nodes, &["scaled", "words", "x"]);
    let [scaled, words, same] =
        server.tensor().execute(request).await.expect("runs").into_inner().outputs.try_into().expect("three outputs");
    assert_eq!((scaled.dtype(), &scaled.shape[..], numbers(&scaled)), (v1::Dtype::F32, &[2, 2][..], vec![1.0; 4]));
    assert_eq!((words.dtype(), &words.data[..]), (v1::Dtype::I16, &[1, 0, 1, 0, 1, 0, 1, 0][..]));
    assert_eq!(same, x, "an input may be an output");
}

#[tokio::test]
async fn the_rust_client_executes_a_graph() {
    let server = TestServer::start().await;
    let client = Client::connect(format!("http://{}", server.daemon.grpc_addr())).await.expect("the daemon listens");
    let mut graph = Graph::default();
    let x = graph.input(Matrix::new(vec![1.0_f32, 2.0, 3.0, 4.0], 2).expect("two rows"));
    let twice = graph.op("mul", [&x], [("other", 2_i64.into())]);
    let sums = graph.op("sum", [&twice], [("dim", (&[1_i64][..]).into()), ("keepdim", true.into())]);
    let done = client.execute(&graph, [&sums, &twice]).await.expect("runs");
    assert_eq!(done.matrix::<f32>(0).expect("a matrix").as_slice(), [6.0, 14.0]);
    assert_eq!(done.matrix::<f32>(1).expect("a matrix").as_slice(), [2.0, 4.0, 6.0, 8.0]);
    let wrong = graph.op("softmax", [&x], [("dim", 2_i64.into())]);
    let error = client.execute(&graph, [&wrong]).await.expect_err("there is no such dimension");
    let failure = error.failure().expect("the daemon said why");
    assert_eq!(failure.violations[0].field, "nodes[softmax_2].attributes.dim");
}

#[tokio::test]
async fn errors_name_node_and_field() {
    let server = TestServer::start().await;
    let x = || vec![input("x", floats(&[2], &[1.0, 2.0]))];
    let cases = [
        (node("n", "relux", &["x"], &[]), "nodes[n].op"),
        (node("n", "exp", &["y"], &[]), "nodes[n].inputs[0]"),
        (node("n", "exp", &["n"], &[]), "nodes[n].inputs"),
        (node("n", "softmax", &["x"], &[("dim", Value::Integer(1))]), "nodes[n].attributes.dim"),
        (node("x", "exp", &["x"], &[]), "nodes[x].name"),
    ];
    for (node, field) in cases {
        let refused = server.tensor().execute(request(x(), vec![node], &["n"])).await;
        assert_refused(refused, Code::InvalidArgument, field);
    }
    let nothing = server.tensor().execute(request(x(), vec![], &[])).await;
    assert_refused(nothing, Code::InvalidArgument, "outputs");
}

#[tokio::test]
async fn an_index_out_of_range_fails_the_call() {
    let server = TestServer::start().await;
    let gather = |indices: &[f32]| {
        let inputs = vec![input("x", floats(&[2], &[5.0, 6.0])), input("f", floats(&[2], indices))];
        let as_integers = node("i", "to", &["f"], &[("dtype", Value::Text("i64".to_owned()))]);
        request(inputs, vec![as_integers, node("y", "gather", &["x", "i"], &[("dim", Value::Integer(0))])], &["y"])
    };
    let status = server.tensor().execute(gather(&[1.0, 2.0])).await.expect_err("there is no element 2");
    assert_eq!(status.code(), Code::InvalidArgument);
    let expected = "gather: expected indices of at least 0 and less than 2, got 2";
    assert!(status.message().contains(expected), "{}", status.message());
    let found = server.tensor().execute(gather(&[1.0, 0.0])).await.expect("valid").into_inner().outputs;
    assert_eq!(numbers(&found[0]), [6.0, 5.0]);
}

#[tokio::test]
async fn malformed_inputs_are_refused_by_their_field() {
    let server = TestServer::start().await;
    let good = floats(&[2], &[1.0, 2.0]);
    let cases = [
        (v1::Tensor { dtype: 0, ..good.clone() }, "inputs[0].value.dtype"),
        (v1::Tensor { dtype: 99, ..good.clone() }, "inputs[0].value.dtype"),
        (v1::Tensor { shape: vec![-1], ..good.clone() }, "inputs[0].value.shape"),
        (v1::Tensor { shape: vec![3], ..good.clone() }, "inputs[0].value.data"),
        (v1::Tensor { shape: vec![i64::MAX, i64::MAX, 4], ..good.clone() }, "inputs[0].value.data"),
        (v1::Tensor { shape: vec![0, i64::MAX], data: Bytes::new(), ..good.clone() }, "nodes[x].shape"),
    ];
    for (tensor, field) in cases {
        let refused = server.tensor().execute(request(vec![input("x", tensor)], vec![], &["x"])).await;
        assert_refused(refused, Code::InvalidArgument, field);
    }
    let none = v1::TensorInput { name: "x".to_owned(), source: None };
    let refused = server.tensor().execute(request(vec![none], vec![], &["x"])).await;
    assert_refused(refused, Code::InvalidArgument, "inputs[0].value");
}

#[tokio::test]
async fn graphs_beyond_the_limits_are_refused_before_they_run() {
    let server = TestServer::start_with(|config| config.limits.max_graph_nodes = 4).await;
    let x = || vec![input("x", floats(&[1], &[1.0]))];
    let chain: Vec<_> = ["a", "b", "c", "d"].map(|name| node(name, "exp", &["x"], &[])).into();
    assert_refused(server.tensor().execute(request(x(), chain, &["c"])).await, Code::InvalidArgument, "nodes");
    // 4 EiB of results, and 4 TiB in between.
    let shape = |extent| ("shape", Value::Integers(v1::TensorIntegers { values: vec![extent] }));
    let huge = node("huge", "expand", &["x"], &[shape(1 << 60)]);
    assert_refused(
        server.tensor().execute(request(x(), vec![huge], &["huge"])).await,
        Code::InvalidArgument,
        "nodes[huge].op",
    );
    let large = node("large", "expand", &["x"], &[shape(1 << 40)]);
    let too_large =
        server.tensor().execute(request(x(), vec![large], &["large"])).await.expect_err("no message holds it");
    assert_eq!(too_large.code(), Code::ResourceExhausted);
    let endless = [node("many", "expand", &["x"], &[shape(1 << 44)]), node("sum", "sum", &["many"], &[])];
    assert_refused(
        server.tensor().execute(request(x(), endless.into(), &["sum"])).await,
        Code::InvalidArgument,
        "nodes",
    );
    // A sum of so many elements reads one of them again and again, and needs no memory.
    let many = [node("many", "expand", &["x"], &[shape(1 << 24)]), node("sum", "sum", &["many"], &[])];
    let outputs =
        server.tensor().execute(request(x(), many.into(), &["sum"])).await.expect("runs").into_inner().outputs;
    assert_eq!(numbers(&outputs[0]), [16_777_216.0]);
}

#[tokio::test]
async fn intermediate_values_that_exceed_the_admitted_memory_are_refused_with_the_figure() {
    let server = TestServer::start_with(|config| config.limits.max_graph_nodes = 8).await;
    let shape = Value::Integers(v1::TensorIntegers { values: vec![1 << 36, 1] });
    let nodes = vec![
        node("large", "expand", &["x"], &[("shape", shape)]),
        node("exp", "exp", &["large"], &[]),
        node("flipped", "flip", &["exp"], &[("dims", Value::Integer(0))]),
        node("both", "add", &["exp", "flipped"], &[]),
        node("sum", "sum", &["both"], &[]),
    ];
    let request = request(vec![input("x", floats(&[1, 1], &[1.0]))], nodes, &["sum"]);
    let refused = server.tensor().execute(request).await.expect_err("256 GiB");
    assert!(matches!(refused.code(), Code::InvalidArgument | Code::ResourceExhausted), "{refused:?}");
    assert!(refused.message().contains("274877"), "the figure: {}", refused.message());
}
