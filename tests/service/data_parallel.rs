//! Graphs on several devices, from a caller's view: parts of the inputs, combined outputs, resident tensors, refusals. Where a test needs
//! one device only, the CPU is named twice. Tests of two GPUs are ignored: run them with `--ignored`.

use std::collections::BTreeMap;

use accelerd::{
    auth::token::Token,
    config::{BackendKind, Config},
};
use accelerd_client::{Client, DataParallel, Graph, Matrix};
use accelerd_kernels::ledger::{Kind, Place, PlaceMemory};
use accelerd_proto::v1::{self, ShardCombination, tensor_attribute::Value, tensor_input::Source};
use tonic::{Code, Request, Status};
use tonic_types::StatusExt;

use super::{
    flow_control::until,
    harness::{TestServer, assert_refused, config, f32s, tensor},
};

fn on_cpu(config: &mut Config) {
    config.backend.kind = BackendKind::Cpu;
}

async fn cpu_server() -> TestServer {
    TestServer::start_with(on_cpu).await
}

/// Numbers without a pattern that rounding would hide.
fn values(shape: &[i64], seed: u32) -> v1::Tensor {
    let count = u32::try_from(shape.iter().product::<i64>()).expect("a few");
    let number = |index: u32| {
        let bits = (index ^ seed).wrapping_add(1).wrapping_mul(2_654_435_761) >> 8;
        bits as f32 / 8_388_608.0 - 1.0
    };
    tensor(shape, &(0..count).map(number).collect::<Vec<_>>())
}

fn sent(name: &str, value: v1::Tensor) -> v1::TensorInput {
    v1::TensorInput { name: name.to_owned(), source: Some(Source::Value(value)) }
}

fn resident(name: &str, tensor: &v1::ResidentTensor) -> v1::TensorInput {
    v1::TensorInput { name: name.to_owned(), source: Some(Source::Handle(tensor.handle.clone())) }
}

fn node(name: &str, op: &str, inputs: &[&str], attributes: &[(&str, Value)]) -> v1::TensorNode {
    let attribute =
        |(name, value): &(&str, Value)| ((*name).to_owned(), v1::TensorAttribute { value: Some(value.clone()) });
    let attributes: BTreeMap<_, _> = attributes.iter().map(attribute).collect();
    let inputs = inputs.iter().map(|name| (*name).to_owned()).collect();
    v1::TensorNode { name: name.to_owned(), op: op.to_owned(), inputs, attributes }
}

fn output(name: &str, keep: bool) -> v1::TensorOutput {
    v1::TensorOutput { name: name.to_owned(), keep }
}

/// `y = softmax(layer_norm(x @ w) + b)`, of which each row is computed from one row of x, and `h` before the softmax.
fn rows(x: v1::TensorInput, w: v1::TensorInput) -> v1::ExecuteRequest {
    let columns = Value::Integers(v1::TensorIntegers { values: vec![24] });
    v1::ExecuteRequest {
        inputs: vec![x, w, sent("b", values(&[24], 3))],
        nodes: vec![
            node("product", "matmul", &["x", "w"], &[]),
            node("normal", "layer_norm", &["product"], &[("normalized_shape", columns)]),
            node("h", "add", &["normal", "b"], &[]),
            node("y", "softmax", &["h"], &[("dim", Value::Integer(1))]),
        ],
        outputs: vec![output("y", false), output("h", false)],
        ..Default::default()
    }
}

/// Splits inputs along dimension 0.
fn split(devices: &[&str], inputs: &[&str]) -> v1::DataParallel {
    let input = |name: &&str| v1::SplitInput { name: (*name).to_owned(), dim: 0 };
    v1::DataParallel {
        devices: devices.iter().map(|&device| device.to_owned()).collect(),
        inputs: inputs.iter().map(input).collect(),
        outputs: vec![],
    }
}

fn combined(name: &str, combination: ShardCombination) -> v1::CombinedOutput {
    v1::CombinedOutput { name: name.to_owned(), combination: combination.into(), dim: 0 }
}

fn parallel(request: &v1::ExecuteRequest, options: v1::DataParallel) -> v1::ExecuteRequest {
    v1::ExecuteRequest { data_parallel: Some(options), ..request.clone() }
}

async fn execute(server: &TestServer, request: v1::ExecuteRequest) -> Result<v1::ExecuteResponse, Status> {
    Ok(server.tensor().execute(request).await?.into_inner())
}

async fn outputs(server: &TestServer, request: v1::ExecuteRequest) -> Vec<v1::Tensor> {
    execute(server, request).await.expect("it runs").outputs
}

async fn upload(server: &TestServer, tensor: v1::Tensor, device: &str) -> v1::ResidentTensor {
    let v1::Tensor { dtype, shape, data } = tensor;
    let header = v1::UploadTensorHeader { dtype, shape, device: device.to_owned(), ttl: None };
    let message = v1::UploadTensorRequest { header: Some(header), data };
    let response = server.tensor().upload_tensor(tokio_stream::iter([message])).await.expect("it is small");
    response.into_inner().tensor.expect("a tensor")
}

async fn copy(server: &TestServer, tensor: &v1::ResidentTensor, device: &str) -> v1::ResidentTensor {
    let request = v1::CopyTensorRequest { handle: tensor.handle.clone(), device: device.to_owned(), ttl: None };
    server.tensor().copy_tensor(request).await.expect("it fits").into_inner().tensor.expect("a tensor")
}

async fn downloaded(server: &TestServer, tensor: &v1::ResidentTensor) -> v1::Tensor {
    let request = v1::ExecuteRequest {
        inputs: vec![resident("x", tensor)],
        outputs: vec![output("x", false)],
        ..Default::default()
    };
    outputs(server, request).await.remove(0)
}

async fn free(server: &TestServer, tensors: &[&v1::ResidentTensor]) {
    let handles = tensors.iter().map(|tensor| tensor.handle.clone()).collect();
    server.tensor().free_tensors(v1::FreeTensorsRequest { handles }).await.expect("all are there");
}

/// Bytes that the ledger counts as tensors, in all places.
fn held(server: &TestServer) -> u64 {
    let memory = server.daemon.app().ledger.snapshot();
    let kinds = memory.iter().flat_map(|place| &place.kinds);
    kinds.filter(|found| found.kind.name() == "tensors").map(|found| found.held).sum()
}

/// Returns true if no request is admitted, and none of the bytes that requests hold.
fn is_idle(server: &TestServer) -> bool {
    let admission = server.daemon.app().engine.stats().admission;
    (admission.items, admission.bytes) == (0, 0)
}

#[tokio::test]
async fn rows_that_are_split_over_devices_get_the_bits_of_one_device() {
    let server = cpu_server().await;
    // More rows than devices and not a multiple of them; as many; fewer; one; none.
    for count in [37, 36, 3, 2, 1, 0] {
        let request = rows(sent("x", values(&[count, 16], 1)), sent("w", values(&[16, 24], 2)));
        let expected = outputs(&server, request.clone()).await;
        assert_eq!(expected[0].shape, [count, 24]);
        for devices in [&["cpu"][..], &["cpu"; 2], &["cpu"; 3], &[]] {
            let got = outputs(&server, parallel(&request, split(devices, &["x"]))).await;
            assert_eq!(got, expected, "{count} rows on {devices:?}");
        }
    }
    until("all is given back", || is_idle(&server) && held(&server) == 0).await;
}

#[tokio::test]
async fn inputs_are_split_and_outputs_concatenated_along_any_dimension() {
    let server = cpu_server().await;
    let request = v1::ExecuteRequest {
        inputs: vec![sent("x", values(&[3, 7, 2], 1)), sent("y", values(&[7], 2))],
        nodes: vec![
            node("column", "unsqueeze", &["y"], &[("dim", Value::Integer(1))]),
            node("z", "mul", &["x", "column"], &[]),
            node("t", "permute", &["z"], &[("dims", Value::Integers(v1::TensorIntegers { values: vec![2, 0, 1] }))]),
        ],
        outputs: vec![output("z", false), output("t", false), output("y", false), output("x", false)],
        ..Default::default()
    };
    let expected = outputs(&server, request.clone()).await;
    let mut options = split(&["cpu"; 3], &["x", "y"]);
    options.inputs[0].dim = -2;
    let along = |name: &str, dim| v1::CombinedOutput { dim, ..combined(name, ShardCombination::Concat) };
    options.outputs = vec![along("z", 1), along("t", -1), along("x", -2)];
    assert_eq!(outputs(&server, parallel(&request, options.clone())).await, expected);
    // Resident ones are read in place.
    let x = upload(&server, values(&[3, 7, 2], 1), "cpu").await;
    let y = upload(&server, values(&[7], 2), "cpu").await;
    let request = v1::ExecuteRequest { inputs: vec![resident("x", &x), resident("y", &y)], ..request };
    assert_eq!(outputs(&server, parallel(&request, options)).await, expected);
    free(&server, &[&x, &y]).await;
    until("all is given back", || is_idle(&server) && held(&server) == 0).await;
}

/// The mean of squares of `x @ w - y`, and its gradient by w.
fn gradient(inputs: Vec<v1::TensorInput>) -> v1::ExecuteRequest {
    let transposed = [("transpose_a", Value::Boolean(true))];
    v1::ExecuteRequest {
        inputs,
        nodes: vec![
            node("product", "matmul", &["x", "w"], &[]),
            node("error", "sub", &["product", "y"], &[]),
            node("squares", "mul", &["error", "error"], &[]),
            node("loss", "mean", &["squares"], &[]),
            node("sum", "matmul", &["x", "error"], &transposed),
            node("rows", "sum", &["ones"], &[]),
            node("gradient", "div", &["sum", "rows"], &[]),
        ],
        outputs: vec![output("loss", false), output("gradient", false)],
        ..Default::default()
    }
}

fn assert_close(got: &v1::Tensor, expected: &v1::Tensor) {
    assert_eq!(got.shape, expected.shape);
    for (got, expected) in f32s(got).into_iter().zip(f32s(expected)) {
        assert!((got - expected).abs() <= 1e-5 * expected.abs().max(1.0), "{got} {expected}");
    }
}

#[tokio::test]
async fn losses_and_gradients_are_averaged_over_shards_of_uneven_sizes() {
    let server = cpu_server().await;
    let inputs = vec![
        sent("x", values(&[7, 4], 1)),
        sent("w", values(&[4, 3], 2)),
        sent("y", values(&[7, 3], 3)),
        sent("ones", tensor(&[7], &[1.0; 7])),
    ];
    let request = gradient(inputs);
    let expected = outputs(&server, request.clone()).await;
    let mut options = split(&["cpu"; 3], &["x", "y", "ones"]);
    options.outputs = vec![combined("loss", ShardCombination::Mean), combined("gradient", ShardCombination::Mean)];
    let got = outputs(&server, parallel(&request, options.clone())).await;
    for (got, expected) in got.iter().zip(&expected) {
        assert_close(got, expected);
    }
    assert_eq!(got, outputs(&server, parallel(&request, options.clone())).await, "its bits repeat");
    let mut sums = request.clone();
    sums.outputs = vec![output("sum", false)];
    let expected = outputs(&server, sums.clone()).await;
    options.outputs = vec![combined("sum", ShardCombination::Sum)];
    assert_close(&outputs(&server, parallel(&sums, options)).await[0], &expected[0]);
}

#[tokio::test]
async fn combined_outputs_are_kept_and_the_next_call_reads_them() {
    let server = cpu_server().await;
    let x = upload(&server, values(&[7, 4], 1), "cpu").await;
    let y = upload(&server, values(&[7, 3], 3), "cpu").await;
    let mut weights = upload(&server, values(&[4, 3], 2), "cpu").await;
    let mut losses = vec![];
    let mut step = node("scaled", "mul", &["g"], &[("other", Value::Number(0.5))]);
    for _ in 0..3 {
        let inputs =
            vec![resident("x", &x), resident("w", &weights), resident("y", &y), sent("ones", tensor(&[7], &[1.0; 7]))];
        let mut request = gradient(inputs);
        request.outputs[1].keep = true;
        let mut options = split(&["cpu"; 2], &["x", "y", "ones"]);
        options.outputs = vec![combined("loss", ShardCombination::Mean), combined("gradient", ShardCombination::Mean)];
        let done = execute(&server, parallel(&request, options)).await.expect("it runs");
        losses.push(f32s(&done.outputs[0])[0]);
        let [kept] = &done.kept[..] else { panic!("one is kept") };
        assert_eq!((&*kept.device, &kept.shape[..], kept.size_bytes), ("cpu", &[4, 3][..], 48));
        step.inputs = vec!["g".to_owned()];
        let update = v1::ExecuteRequest {
            inputs: vec![resident("w", &weights), resident("g", kept)],
            nodes: vec![step.clone(), node("next", "sub", &["w", "scaled"], &[])],
            outputs: vec![output("next", true)],
            ..Default::default()
        };
        let next = execute(&server, update).await.expect("it runs").kept.remove(0);
        free(&server, &[kept, &weights]).await;
        weights = next;
    }
    assert!(losses.is_sorted_by(|a, b| a > b), "the loss falls: {losses:?}");
    assert_eq!(held(&server), 4 * (28 + 21 + 12), "only what has a handle");
    free(&server, &[&x, &y, &weights]).await;
    until("all is given back", || is_idle(&server) && held(&server) == 0).await;
}

#[tokio::test]
async fn outputs_to_keep_and_to_return_are_combined_alike() {
    let server = cpu_server().await;
    let mut request = rows(sent("x", values(&[5, 16], 1)), sent("w", values(&[16, 24], 2)));
    let expected = outputs(&server, request.clone()).await;
    request.outputs = vec![output("y", true), output("h", false), output("y", false), output("h", true)];
    for devices in [&["cpu"; 3][..], &["cpu"]] {
        let done = execute(&server, parallel(&request, split(devices, &["x"]))).await.expect("it runs");
        assert_eq!(done.outputs, [expected[1].clone(), expected[0].clone()]);
        for (kept, expected) in done.kept.iter().zip(&expected) {
            assert_eq!(&downloaded(&server, kept).await, expected);
        }
        free(&server, &done.kept.iter().collect::<Vec<_>>()).await;
        until("a download that has ended lets go of its tensor", || held(&server) == 0).await;
    }
}

#[tokio::test]
async fn what_is_malformed_is_refused_by_its_field() {
    let server = TestServer::start_with(|config| {
        on_cpu(config);
        config.limits.max_graph_nodes = 64;
    })
    .await;
    let request = rows(sent("x", values(&[5, 16], 1)), sent("w", values(&[16, 24], 2)));
    let good = || split(&["cpu"; 2], &["x"]);
    let listed = |outputs: &[v1::CombinedOutput]| v1::DataParallel { outputs: outputs.to_vec(), ..good() };
    let mean = || combined("y", ShardCombination::Mean);
    let cases = [
        (split(&["cpu", "cuda:99"], &["x"]), "data_parallel.devices[1]"),
        (split(&["cpu", ""], &["x"]), "data_parallel.devices[1]"),
        (split(&["cpu"; 65], &["x"]), "data_parallel.devices"),
        (split(&["cpu"; 2], &[]), "data_parallel.inputs"),
        (split(&["cpu"; 2], &["x", "h"]), "data_parallel.inputs[1].name"),
        (split(&["cpu"; 2], &["x", "w"]), "data_parallel.inputs[1]"),
        (listed(&[combined("product", ShardCombination::Sum)]), "data_parallel.outputs[0].name"),
        (listed(&[mean(), mean()]), "data_parallel.outputs[1].name"),
        (listed(&[v1::CombinedOutput { combination: 4, ..mean() }]), "data_parallel.outputs[0].combination"),
        (listed(&[v1::CombinedOutput { dim: 1, ..mean() }]), "data_parallel.outputs[0].dim"),
        // Shards have three rows and two.
        (listed(&[combined("h", ShardCombination::Concat), mean()]), "outputs[0]"),
    ];
    for (options, field) in cases {
        let refused = execute(&server, parallel(&request, options)).await;
        let violations = refused.as_ref().expect_err("it is malformed").get_details_bad_request();
        assert_eq!(violations.expect("a violation").field_violations[0].field, field, "{refused:?}");
        assert_refused(refused, Code::InvalidArgument, field);
    }
    let mut many = request.clone();
    many.outputs = vec![output("h", false); 22];
    let refused = execute(&server, parallel(&many, split(&["cpu"; 3], &["x"]))).await;
    let message = refused.as_ref().expect_err("three times 22").message().to_owned();
    assert!(message.contains("at most 64 outputs of all shards together, got 66"), "{message}");
    assert_refused(refused, Code::InvalidArgument, "outputs");
    let named = v1::ExecuteRequest { device: "cpu".to_owned(), ..parallel(&request, good()) };
    assert_refused(execute(&server, named).await, Code::InvalidArgument, "device");
    let mut scalar = request.clone();
    scalar.nodes.push(node("total", "sum", &["y"], &[]));
    scalar.outputs.push(output("total", false));
    let refused = execute(&server, parallel(&scalar, good())).await;
    let message = refused.as_ref().expect_err("scalars are not concatenated").message().to_owned();
    assert!(message.contains("data_parallel.outputs says how"), "{message}");
    assert_refused(refused, Code::InvalidArgument, "outputs[2]");
    until("all is given back", || is_idle(&server) && held(&server) == 0).await;
}

#[tokio::test]
async fn an_error_of_a_shard_names_it_and_keeps_nothing() {
    let server = cpu_server().await;
    let gather = |indices: &[f32], at: &str| v1::ExecuteRequest {
        inputs: vec![sent("x", tensor(&[3], &[5.0, 6.0, 7.0])), sent("f", tensor(&[4], indices))],
        nodes: vec![
            node("i", "to", &["f"], &[("dtype", Value::Text("i64".to_owned()))]),
            node("y", at, &["x", "i"], &[("dim", Value::Integer(0))]),
        ],
        outputs: vec![output("y", true), output("f", false)],
        ..Default::default()
    };
    let options = || split(&["cpu"; 2], &["f"]);
    let good = execute(&server, parallel(&gather(&[0.0, 1.0, 2.0, 0.0], "gather"), options())).await.expect("it runs");
    assert_eq!(f32s(&downloaded(&server, &good.kept[0]).await), [5.0, 6.0, 7.0, 5.0]);
    free(&server, &[&good.kept[0]]).await;
    // Only the second shard sees the index that is out of range.
    let refused = execute(&server, parallel(&gather(&[0.0, 1.0, 2.0, 9.0], "gather"), options())).await;
    let status = refused.as_ref().expect_err("there is no element 9");
    assert!(status.message().starts_with("shard 1 of 2, on cpu: "), "{status:?}");
    assert!(status.message().contains("less than 3, got 9"), "{status:?}");
    assert_refused(refused, Code::InvalidArgument, "nodes[y].inputs[1]");
    // The graph itself is malformed.
    let refused = execute(&server, parallel(&gather(&[0.0; 4], "collect"), options())).await;
    let status = refused.as_ref().expect_err("there is no such operation");
    assert!(status.message().starts_with("shard 0 of 2, on cpu: nodes[y].op"), "{status:?}");
    assert_refused(refused, Code::InvalidArgument, "nodes[y].op");
    until("nothing is kept", || is_idle(&server) && held(&server) == 0).await;
}

#[tokio::test]
async fn limits_hold_for_all_shards_together() {
    let server = TestServer::start_with(|config| {
        on_cpu(config);
        config.admission.max_bytes = "8MiB".parse().expect("a size");
        config.tensors.memory_limit = "1KiB".parse().expect("a size");
        config.tensors.max_count = 2;
    })
    .await;
    // 3 MiB between the steps of a shard.
    let shape = Value::Integers(v1::TensorIntegers { values: vec![3 << 18] });
    let work = v1::ExecuteRequest {
        inputs: vec![sent("x", values(&[8, 1], 1))],
        nodes: vec![
            node("s", "sum", &["x"], &[]),
            node("large", "expand", &["s"], &[("shape", shape)]),
            node("e", "exp", &["large"], &[]),
            node("f", "flip", &["e"], &[("dims", Value::Integer(0))]),
            node("g", "add", &["e", "f"], &[]),
            node("y", "sum", &["g"], &[]),
        ],
        outputs: vec![output("y", false)],
        ..Default::default()
    };
    let options = |count: usize| v1::DataParallel {
        outputs: vec![combined("y", ShardCombination::Sum)],
        ..split(&vec!["cpu"; count], &["x"])
    };
    outputs(&server, parallel(&work, options(1))).await;
    let refused = execute(&server, parallel(&work, options(8))).await.expect_err("24 MiB at once");
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    assert!(refused.message().starts_with("shard "), "{refused:?}");
    assert!(refused.get_details_retry_info().is_some(), "{refused:?}");
    until("the other shards end", || is_idle(&server)).await;
    // A tensor that is kept counts once, by its combined size.
    let mut keep = rows(sent("x", values(&[10, 16], 1)), sent("w", values(&[16, 24], 2)));
    keep.outputs = vec![output("x", true)];
    let kept = execute(&server, parallel(&keep, split(&["cpu"; 2], &["x"]))).await.expect("640 bytes").kept.remove(0);
    assert_eq!((kept.size_bytes, held(&server)), (640, 640));
    let refused =
        execute(&server, parallel(&keep, split(&["cpu"; 2], &["x"]))).await.expect_err("1,280 of 1,024 bytes");
    let reason = refused.get_details_error_info().map(|info| info.reason);
    assert_eq!((refused.code(), reason.as_deref()), (Code::ResourceExhausted, Some("MEMORY_LIMIT")));
    free(&server, &[&kept]).await;
    until("all is given back", || is_idle(&server) && held(&server) == 0).await;
}

#[tokio::test]
async fn tensors_of_another_principal_do_not_exist() {
    let folder = tempfile::tempdir().expect("a folder");
    let tokens = [(); 2].map(|()| Token::random().expect("random bytes"));
    let principals = folder.path().join("principals.toml");
    let of_token = |(name, token): (&str, &Token)| {
        format!("[[principal]]\nname = {name:?}\ntokens = [\"{}\"]\nrole = \"write\"\n", token.hash())
    };
    let text: String = ["one", "other"].into_iter().zip(&tokens).map(of_token).collect();
    std::fs::write(&principals, text).expect("written");
    let mut settings = config();
    on_cpu(&mut settings);
    settings.auth.principals = principals;
    let server = Box::pin(TestServer::start_with(|config| *config = settings)).await;
    let call = async |principal: usize, message: v1::ExecuteRequest| {
        let mut request = Request::new(message);
        let value = format!("Bearer {}", tokens[principal].reveal()).parse().expect("ascii");
        request.metadata_mut().insert("authorization", value);
        server.tensor().execute(request).await.map(tonic::Response::into_inner)
    };
    let mut make = rows(sent("x", values(&[4, 16], 1)), sent("w", values(&[16, 24], 2)));
    make.outputs = vec![output("x", true), output("w", true)];
    let kept = call(0, make).await.expect("it runs").kept;
    for (x, w) in [
        (resident("x", &kept[0]), sent("w", values(&[16, 24], 2))),
        (sent("x", values(&[4, 16], 1)), resident("w", &kept[1])),
    ] {
        let request = parallel(&rows(x, w), split(&["cpu"; 2], &["x"]));
        call(0, request.clone()).await.expect("its owner reads it");
        let refused = call(1, request).await.expect_err("it is another's");
        assert_eq!(refused.code(), Code::NotFound, "{refused:?}");
    }
}

/// A graph of many steps over 4 MiB.
fn long(steps: usize) -> v1::ExecuteRequest {
    let shape = Value::Integers(v1::TensorIntegers { values: vec![1 << 20] });
    let dims = [("dims", Value::Integers(v1::TensorIntegers { values: vec![0] }))];
    let mut nodes = vec![node("s", "sum", &["x"], &[]), node("n0", "expand", &["s"], &[("shape", shape)])];
    for nth in 1..=steps {
        let before = nodes[nodes.len() - 1].name.clone();
        nodes.push(node(&format!("e{nth}"), "erf", &[&before], &[]));
        nodes.push(node(&format!("f{nth}"), "flip", &[&format!("e{nth}")], &dims));
        nodes.push(node(&format!("n{nth}"), "add", &[&format!("e{nth}"), &format!("f{nth}")], &[]));
    }
    let last = nodes[nodes.len() - 1].name.clone();
    nodes.push(node("y", "sum", &[&last], &[]));
    // One of two shards has two rows: requests with equal plans would share a batch.
    let inputs = vec![sent("x", values(&[3, 1], 1))];
    v1::ExecuteRequest { inputs, nodes, outputs: vec![output("y", true)], ..Default::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_caller_leaves_ends_all_shards_and_frees_all() {
    let server = TestServer::start_with(|config| {
        on_cpu(config);
        config.backend.cpu_workers = 3;
    })
    .await;
    let lane = || {
        let stats = server.daemon.app().engine.stats();
        stats.lanes.into_iter().find(|lane| lane.name == "tensor").expect("the lane of graphs")
    };
    let options =
        v1::DataParallel { outputs: vec![combined("y", ShardCombination::Sum)], ..split(&["cpu"; 2], &["x"]) };
    let call = tokio::spawn({
        let mut client = server.tensor();
        let request = parallel(&long(1000), options);
        async move { client.execute(request).await }
    });
    until("both shards are there", || lane().running_batches + lane().queued_requests == 2).await;
    call.abort();
    until("both end", || lane().running_batches + lane().queued_requests == 0).await;
    let cancelled = || {
        let counts = lane().counts;
        (counts.cancelled_running + counts.cancelled_queued, counts.failures) == (2, 0)
    };
    until("both are counted as cancelled", cancelled).await;
    until("all is given back", || is_idle(&server) && held(&server) == 0).await;
    server.assert_serving().await;
}

#[tokio::test]
async fn the_rust_client_splits_a_graph() {
    let server = cpu_server().await;
    let client = Client::connect(format!("http://{}", server.daemon.grpc_addr())).await.expect("the daemon listens");
    let mut graph = Graph::default();
    let x = graph.input(Matrix::new(vec![1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0], 2).expect("three rows"));
    let twice = graph.op("mul", [&x], [("other", 2_i64.into())]);
    let mean = graph.op("mean", [&x], []);
    graph.data_parallel(DataParallel::default().devices(["cpu"; 2]).split(&x, 0).mean(&mean));
    let done = client.execute(&graph, [&twice, &mean]).await.expect("it runs");
    assert_eq!(done.matrix::<f32>(0).expect("a matrix").as_slice(), [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
    assert_eq!(f32s(&done.outputs[1]), [3.5]);
}

/// A daemon with two GPUs or more.
async fn two_gpus(change: impl FnOnce(&mut Config)) -> TestServer {
    let server = TestServer::start_with(change).await;
    let gpus = server.daemon.app().engine.devices().len() - 1;
    assert!(gpus >= 2, "{gpus} GPUs");
    server
}

#[tokio::test]
#[ignore = "needs two GPUs"]
async fn two_gpus_compute_what_one_does() {
    let server = two_gpus(|config| config.tensors.max_count = 5).await;
    let both = &["cuda:0", "cuda:1"];
    let x = values(&[1001, 16], 1);
    let w = values(&[16, 24], 2);
    let on_first =
        v1::ExecuteRequest { device: "cuda:0".to_owned(), ..rows(sent("x", x.clone()), sent("w", w.clone())) };
    let expected = outputs(&server, on_first).await;
    let x0 = upload(&server, x.clone(), "cuda:0").await;
    let w0 = upload(&server, w.clone(), "cuda:0").await;
    let inline = (sent("x", x), sent("w", w));
    let on_gpu = (resident("x", &x0), resident("w", &w0));
    let start = held(&server);
    let mixed = &["cuda:1", "cpu", "cuda:0"];
    let cases = [(&both[..], &inline), (mixed, &inline), (&[], &inline), (both, &on_gpu), (mixed, &on_gpu)];
    for (devices, (x, w)) in cases {
        let got = outputs(&server, parallel(&rows(x.clone(), w.clone()), split(devices, &["x"]))).await;
        for (got, expected) in got.iter().zip(&expected) {
            assert_close(got, expected);
        }
        until("copies for the call are freed", || held(&server) == start).await;
    }
    let copies = [copy(&server, &x0, "cuda:1").await, copy(&server, &w0, "cuda:1").await];
    let mut request = rows(resident("x", &x0), resident("w", &copies[1]));
    request.outputs[1].keep = true;
    let done = execute(&server, parallel(&request, split(both, &["x"])))
        .await
        .expect("the fifth tensor is the output: nothing is copied for the call");
    assert_close(&done.outputs[0], &expected[0]);
    assert_eq!(done.kept[0].device, "cuda:0");
    assert_close(&downloaded(&server, &done.kept[0]).await, &expected[1]);
    let refused = execute(&server, parallel(&request, split(both, &["x"]))).await.expect_err("a sixth tensor");
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    free(&server, &[&x0, &w0, &copies[0], &copies[1], &done.kept[0]]).await;
    assert_eq!(held(&server), 0);
}

#[tokio::test]
#[ignore = "needs two GPUs"]
async fn tensors_of_two_gpus_are_compared() {
    let server = two_gpus(|_| {}).await;
    let x = upload(&server, values(&[1001, 16], 1), "cuda:0").await;
    let same = copy(&server, &x, "cuda:1").await;
    let other = upload(&server, values(&[1001, 16], 2), "cuda:1").await;
    for (expected, passes) in [(&same, true), (&other, false)] {
        let request = v1::CompareOutputsRequest {
            actual: vec![resident("y", &x)],
            expected: vec![resident("y", expected)],
            ..Default::default()
        };
        let compared = server.verify().compare_outputs(request).await.expect("it fits").into_inner();
        assert_eq!(compared.passed, passes);
    }
    free(&server, &[&x, &same, &other]).await;
    assert_eq!(held(&server), 0);
}

/// The GPU with the most free memory for tensors.
fn roomiest(server: &TestServer) -> String {
    let mut memory = server.daemon.app().ledger.snapshot();
    memory.retain(|place| place.place != Place::Host);
    let room = |place: &PlaceMemory| {
        let tensors = place.kinds.iter().find(|found| found.kind == Kind::Tensors).expect("tensors are capped");
        (tensors.cap - tensors.held).min(place.limit - place.held)
    };
    let maximum = memory.iter().map(room).max();
    memory.iter().find(|place| Some(room(place)) == maximum).expect("a GPU").place.to_string()
}

#[tokio::test]
#[ignore = "needs two GPUs"]
async fn tensors_without_a_device_go_to_the_gpu_with_the_most_room() {
    let server = two_gpus(|_| {}).await;
    let mut tensors = vec![];
    for _ in 0..4 {
        let expected = roomiest(&server);
        tensors.push(upload(&server, values(&[1 << 18], 1), "").await);
        assert_eq!(tensors[tensors.len() - 1].device, expected);
        let expected = roomiest(&server);
        let mut request = rows(sent("x", values(&[8, 16], 1)), sent("w", values(&[16, 24], 2)));
        request.outputs = vec![output("y", true)];
        tensors.push(execute(&server, request).await.expect("it runs").kept.remove(0));
        assert_eq!(tensors[tensors.len() - 1].device, expected);
    }
    free(&server, &tensors.iter().collect::<Vec<_>>()).await;
    assert_eq!(held(&server), 0);
}
