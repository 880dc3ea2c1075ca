//! Graphs of tensor operations, from a caller's view.

use std::collections::BTreeMap;

use accelerd_client::{Client, Graph, Matrix};
use accelerd_proto::v1::{self, Tensor, tensor_attribute::Value, tensor_input::Source};
use bytes::Bytes;
use tonic::Code;
use tonic_types::StatusExt;

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
async fn the_rust_client_executes_one_operation() {
    let server = TestServer::start().await;
    let client = Client::connect(format!("http://{}", server.daemon.grpc_addr())).await.expect("the daemon listens");
    let x = || Matrix::new(vec![1.0_f32, 2.0, 3.0, 4.0], 2).expect("two rows");
    let doubled = client.op("mul", [x()], [("other", 2_i64.into())]).await.expect("runs");
    assert_eq!(numbers(&doubled), [2.0, 4.0, 6.0, 8.0]);
    // The result is an operand of the next call, next to tensors of other types.
    let index = Tensor::from(Matrix::new(vec![1_i32, 1, 0, 1], 2).expect("two rows"));
    let chosen = client.op("gather", [doubled, index], [("dim", 1_i64.into())]).await.expect("runs");
    assert_eq!((&chosen.shape[..], numbers(&chosen)), (&[2, 2][..], vec![4.0, 4.0, 6.0, 8.0]));
    let ones = client.op::<Tensor, 2>("full", [], [("shape", (&[3_i64][..]).into()), ("value", 1.0.into())]).await;
    assert_eq!(numbers(&ones.expect("it needs no operand")), [1.0; 3]);
    let error = client.op("softmax", [x()], [("dim", 2_i64.into())]).await.expect_err("there is no such dimension");
    let failure = error.failure().expect("the daemon said why");
    assert_eq!(failure.violations[0].field, "nodes[softmax_0].attributes.dim");
}

/// Executions of the kernels of graphs so far by the daemon's statistics: of all, and of those that are elementwise.
async fn executed(server: &TestServer) -> [u64; 2] {
    let stats = server.device().get_stats(v1::GetStatsRequest {}).await.expect("statistics").into_inner();
    let calls = |prefix: &str| {
        let kernels = stats.kernels.iter().filter(|kernel| kernel.name.starts_with(prefix));
        kernels.map(|kernel| kernel.call_count).sum()
    };
    ["tensor_", "tensor_map"].map(calls)
}

#[tokio::test]
async fn a_chain_of_ten_elementwise_operations_is_one_kernel() {
    let server = TestServer::start().await;
    let other = |value| [("other", Value::Number(value))];
    let chain = || {
        vec![
            node("a", "abs", &["x"], &[]),
            node("b", "add", &["a"], &other(1.0)),
            node("c", "mul", &["b", "x"], &[]),
            node("d", "sub", &["c", "row"], &[]),
            node("e", "maximum", &["d"], &other(-0.5)),
            node("f", "tanh", &["e"], &[]),
            node("g", "square", &["f"], &[]),
            node("h", "add", &["g", "a"], &[("alpha", Value::Number(0.5))]),
            node("i", "sqrt", &["h"], &[]),
            node("j", "neg", &["i"], &[]),
        ]
    };
    let x = [0.5, -1.0, 2.0, -3.0];
    let row = [0.25, 1.5];
    let inputs = || vec![input("x", floats(&[2, 2], &x)), input("row", floats(&[2], &row))];
    let expected: Vec<f32> = x
        .iter()
        .zip(row.iter().cycle())
        .map(|(x, row)| -(((x.abs() + 1.0) * x - row).max(-0.5).tanh().powi(2) + 0.5 * x.abs()).sqrt())
        .collect();
    let is_close = |got: &[f32], expected: &[f32]| {
        got.len() == expected.len() && got.iter().zip(expected).all(|(got, expected)| (got - expected).abs() < 1e-5)
    };
    assert_eq!(executed(&server).await, [0, 0]);
    // A value of the middle may be returned, too.
    let done = server.tensor().execute(request(inputs(), chain(), &["j", "e"])).await.expect("runs").into_inner();
    assert!(is_close(&numbers(&done.outputs[0]), &expected), "{:?}, expected {expected:?}", numbers(&done.outputs[0]));
    assert_eq!(executed(&server).await, [1, 1]);
    // A reduction that reads its result computes it.
    let nodes = [chain(), vec![node("sum", "sum", &["j"], &[])]].concat();
    let done = server.tensor().execute(request(inputs(), nodes, &["sum"])).await.expect("runs").into_inner();
    assert!(is_close(&numbers(&done.outputs[0]), &[expected.iter().sum()]), "{:?}", numbers(&done.outputs[0]));
    assert_eq!(executed(&server).await, [2, 1]);
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
    assert_refused(nothing, Code::InvalidArgument, "outputs: expected at least one name");
    let unknown = server.tensor().execute(request(x(), vec![], &["x", "y"])).await.expect_err("there is no y");
    let violations = unknown.get_details_bad_request().expect("bad request").field_violations;
    assert_eq!(violations[0].field, "outputs[1].name");
}

#[tokio::test]
async fn an_index_out_of_range_fails_the_call_and_names_node_and_input() {
    let server = TestServer::start().await;
    // The graph has the node `y` for all of them, between others, and the second of two equal graphs has other names.
    let indexing = |prefix: &str, op: &str, index: f32| {
        let name = |name: &str| format!("{prefix}{name}");
        let inputs = vec![input("x", floats(&[2, 1], &[5.0, 6.0])), input("f", floats(&[2, 1], &[1.0, index]))];
        let dim = ("dim", Value::Integer(0));
        let classes = ("num_classes", Value::Integer(2));
        let (operands, attributes) = match op {
            "one_hot" => (vec![name("i")], vec![classes]),
            "embedding" => (vec!["x".to_owned(), name("i")], vec![]),
            _ => (vec!["x".to_owned(), name("i")], vec![dim]),
        };
        let operands: Vec<_> = operands.iter().map(String::as_str).collect();
        let nodes = vec![
            node(&name("z"), "exp", &[&name("y")], &[]),
            node(&name("y"), op, &operands, &attributes),
            node(
                &name("i"),
                "to",
                &[if op == "index_select" { "v" } else { "f" }],
                &[("dtype", Value::Text("i64".to_owned()))],
            ),
            node("v", "flatten", &["f"], &[]),
        ];
        request(inputs, nodes, &[&name("z"), &name("y")])
    };
    for (op, input, least) in [
        ("gather", 1, "0"),
        ("index_select", 1, "0"),
        ("embedding", 1, "0"),
        ("one_hot", 0, "0"),
        ("take_along_dim", 1, "-2"),
    ] {
        for prefix in ["", "other_"] {
            let status = server.tensor().execute(indexing(prefix, op, 2.0)).await.expect_err("there is no element 2");
            let violations = status.get_details_bad_request().expect("bad request").field_violations;
            assert_eq!(
                (status.code(), violations[0].field.as_str()),
                (Code::InvalidArgument, format!("nodes[{prefix}y].inputs[{input}]").as_str()),
                "{op}"
            );
            let expected = format!("{op}: expected indices of at least {least} and less than 2, got 2");
            assert_eq!(violations[0].description, expected);
            assert!(status.message().contains(&expected), "{}", status.message());
        }
        let found = server.tensor().execute(indexing("", op, 0.0)).await.expect("valid").into_inner().outputs;
        if op != "one_hot" {
            assert_eq!(numbers(&found[1]), [6.0, 5.0], "{op}");
        }
    }
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
        (v1::Tensor { shape: vec![0, i64::MAX], data: Bytes::new(), ..good.clone() }, "inputs[0].value.shape"),
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

#[tokio::test]
async fn reductions_of_more_elements_than_memory_end_at_their_deadline() {
    let server = TestServer::start_with(|config| config.backend.kind = accelerd::config::BackendKind::Cpu).await;
    for op in ["sum", "mean", "var", "prod", "logsumexp", "norm", "amax", "argmax"] {
        let shape = v1::TensorIntegers { values: vec![1 << 42] };
        let nodes = vec![
            node("wide", "expand", &["x"], &[("shape", Value::Integers(shape))]),
            node("y", op, &["wide"], &[("dim", Value::Integer(0))]),
        ];
        let mut request = tonic::Request::new(request(vec![input("x", floats(&[], &[1.0]))], nodes, &["y"]));
        request.set_timeout(std::time::Duration::from_millis(300));
        let status = server.tensor().execute(request).await.expect_err("it takes longer");
        let is_named = matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled | Code::ResourceExhausted);
        assert!(is_named, "{op}: {status:?}");
    }
    server.assert_serving().await;
}
