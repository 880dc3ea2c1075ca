//! Resident tensors, from a caller's view: uploads, downloads, graphs that read and keep them, limits and lives.

use std::time::Duration;

use accelerd::config::Config;
use accelerd_client::{Client, Graph, Matrix, ResidentTensor, UploadOptions};
use accelerd_proto::v1::{self, tensor_input::Source};
use bytes::Bytes;
use tokio_stream::StreamExt;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::harness::{TestServer, assert_refused};

const MIB: usize = 1 << 20;

fn header(dtype: v1::Dtype, shape: &[i64]) -> v1::UploadTensorHeader {
    v1::UploadTensorHeader { dtype: dtype.into(), shape: shape.to_vec(), ..Default::default() }
}

fn first(header: v1::UploadTensorHeader, data: &[u8]) -> v1::UploadTensorRequest {
    v1::UploadTensorRequest { header: Some(header), data: data.to_vec().into() }
}

fn rest(data: &[u8]) -> v1::UploadTensorRequest {
    v1::UploadTensorRequest { header: None, data: data.to_vec().into() }
}

async fn upload(server: &TestServer, parts: Vec<v1::UploadTensorRequest>) -> Result<ResidentTensor, Status> {
    let response = server.tensor().upload_tensor(tokio_stream::iter(parts)).await?;
    Ok(response.into_inner().tensor.expect("a tensor"))
}

/// An upload of f32.
async fn floats(server: &TestServer, numbers: &[f32]) -> ResidentTensor {
    let extent = i64::try_from(numbers.len()).expect("a few");
    let data: Vec<_> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    upload(server, vec![first(header(v1::Dtype::F32, &[extent]), &data)]).await.expect("it is small")
}

async fn download(server: &TestServer, handle: &str) -> Result<(ResidentTensor, Bytes), Status> {
    let request = v1::DownloadTensorRequest { handle: handle.to_owned() };
    let mut parts = server.tensor().download_tensor(request).await?.into_inner();
    let mut tensor = None;
    let mut data = vec![];
    while let Some(part) = parts.next().await {
        let part = part?;
        assert_eq!(part.tensor.is_some(), tensor.is_none(), "the first message alone has a header");
        tensor = tensor.or(part.tensor);
        data.extend_from_slice(&part.data);
    }
    Ok((tensor.expect("a header"), data.into()))
}

async fn free(server: &TestServer, handles: &[&str]) -> Result<(), Status> {
    let handles = handles.iter().map(|handle| (*handle).to_owned()).collect();
    server.tensor().free_tensors(v1::FreeTensorsRequest { handles }).await.map(drop)
}

async fn list(server: &TestServer) -> Vec<ResidentTensor> {
    let listed = server.tensor().list_tensors(v1::ListTensorsRequest {}).await;
    listed.expect("a list").into_inner().tensors
}

/// Bytes that the ledger counts as tensors, in all places.
async fn held(server: &TestServer) -> u64 {
    let stats = server.device().get_stats(v1::GetStatsRequest {}).await.expect("statistics").into_inner();
    let accounts = stats.memory.iter().flat_map(|place| &place.accounts);
    accounts.filter(|account| account.kind == "tensors").map(|account| account.held_bytes).sum()
}

fn resident(name: &str, tensor: &ResidentTensor) -> v1::TensorInput {
    v1::TensorInput { name: name.to_owned(), source: Some(Source::Handle(tensor.handle.clone())) }
}

fn node(name: &str, op: &str, inputs: &[&str]) -> v1::TensorNode {
    let inputs = inputs.iter().map(|&name| name.to_owned()).collect();
    v1::TensorNode { name: name.to_owned(), op: op.to_owned(), inputs, ..Default::default() }
}

/// A graph of which the outputs in `keep` are kept, and the others returned.
fn graph(
    inputs: Vec<v1::TensorInput>,
    nodes: Vec<v1::TensorNode>,
    returned: &[&str],
    keep: &[&str],
) -> v1::ExecuteRequest {
    let output = |name: &&str, keep| v1::TensorOutput { name: (*name).to_owned(), keep };
    let outputs = returned.iter().map(|name| output(name, false)).chain(keep.iter().map(|name| output(name, true)));
    v1::ExecuteRequest { inputs, nodes, outputs: outputs.collect(), ..Default::default() }
}

fn numbers(data: &[u8]) -> Vec<f32> {
    data.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().expect("four bytes"))).collect()
}

fn reason(status: &Status) -> String {
    status.get_details_error_info().map(|info| info.reason).unwrap_or_default()
}

#[tokio::test]
async fn tensors_of_every_type_and_shape_come_back_as_they_were() {
    let server = TestServer::start().await;
    let types = [
        (v1::Dtype::Bool, 1),
        (v1::Dtype::U8, 1),
        (v1::Dtype::I8, 1),
        (v1::Dtype::U16, 2),
        (v1::Dtype::I16, 2),
        (v1::Dtype::F16, 2),
        (v1::Dtype::Bf16, 2),
        (v1::Dtype::U32, 4),
        (v1::Dtype::I32, 4),
        (v1::Dtype::F32, 4),
        (v1::Dtype::U64, 8),
        (v1::Dtype::I64, 8),
        (v1::Dtype::F64, 8),
    ];
    let shapes: [(&[i64], usize); 4] = [(&[], 1), (&[0], 0), (&[3, 0, 2], 0), (&[3, 5], 15)];
    let mut bytes = 0;
    for (dtype, size) in types {
        for (shape, elements) in shapes {
            let data: Vec<_> = (0..elements * size).map(|index| u8::try_from(index % 251).expect("a byte")).collect();
            // Messages may end within an element.
            let (start, end) = data.split_at(data.len() / 3);
            let parts = vec![first(header(dtype, shape), start), rest(end), rest(&[])];
            let tensor = upload(&server, parts).await.expect("it is small");
            bytes += data.len() as u64;
            assert_eq!((tensor.dtype(), &tensor.shape[..], tensor.size_bytes), (dtype, shape, data.len() as u64));
            let times = [tensor.create_time, tensor.last_use_time, tensor.expire_time];
            let [created, used, expires] = times.map(|time| time.expect("a time").seconds);
            assert!(created <= used && used + 3000 < expires, "{tensor:?}");
            let (described, got) = download(&server, &tensor.handle).await.expect("it is there");
            assert_eq!((&described.handle, &got[..]), (&tensor.handle, &data[..]), "{dtype:?} {shape:?}");
        }
    }
    let listed = list(&server).await;
    assert_eq!((listed.len(), held(&server).await), (types.len() * shapes.len(), bytes));
    let handles: Vec<_> = listed.iter().map(|tensor| tensor.handle.as_str()).collect();
    free(&server, &handles).await.expect("all are there");
    assert_eq!((list(&server).await.len(), held(&server).await), (0, 0), "the ledger is back at its start");
}

#[tokio::test]
async fn a_large_upload_passes_through_a_small_budget_of_messages() {
    let change = |config: &mut Config| {
        config.server.max_message_bytes = "2MiB".parse().expect("a size");
        config.admission.max_message_memory = "16MiB".parse().expect("a size");
        config.tensors.memory_limit = "128MiB".parse().expect("a size");
    };
    let server = TestServer::start_with(change).await;
    let chunk: Vec<u8> = (0..MIB).map(|index| u8::try_from(index % 251).expect("a byte")).collect();
    let extent = i64::try_from(100 * MIB).expect("100 MiB");
    let mut begin = header(v1::Dtype::U8, &[extent]);
    begin.device = "cpu".to_owned();
    let parts: Vec<_> = std::iter::once(first(begin, &[])).chain((0..100).map(|_| rest(&chunk))).collect();
    let tensor = upload(&server, parts).await.expect("chunks are charged one by one");
    let (_, data) = download(&server, &tensor.handle).await.expect("so are those of a download");
    assert_eq!(data.len(), 100 * MIB);
    assert!(data.chunks_exact(MIB).all(|part| part == chunk));
    free(&server, &[&tensor.handle]).await.expect("it is there");
    assert_eq!(held(&server).await, 0);
}

#[tokio::test]
async fn malformed_uploads_are_refused_by_their_field_and_hold_nothing() {
    let server = TestServer::start().await;
    let good = || header(v1::Dtype::F32, &[2]);
    let ttl = |seconds, nanos| Some(prost_types::Duration { seconds, nanos });
    let cases = [
        (vec![], "header"),
        (vec![rest(&[0; 8])], "header"),
        (vec![first(header(v1::Dtype::Unspecified, &[2]), &[])], "header.dtype"),
        (vec![first(header(v1::Dtype::F32, &[-1]), &[])], "header.shape"),
        (vec![first(header(v1::Dtype::F32, &[1; 9]), &[0; 4])], "header.shape"),
        (vec![first(header(v1::Dtype::F32, &[0, i64::MAX]), &[])], "header.shape"),
        (vec![first(v1::UploadTensorHeader { device: "cuda:99".to_owned(), ..good() }, &[0; 8])], "header.device"),
        (vec![first(v1::UploadTensorHeader { ttl: ttl(0, 0), ..good() }, &[0; 8])], "header.ttl"),
        (vec![first(v1::UploadTensorHeader { ttl: ttl(-1, 0), ..good() }, &[0; 8])], "got -1s"),
        (vec![first(v1::UploadTensorHeader { ttl: ttl(1 << 40, 0), ..good() }, &[0; 8])], "header.ttl"),
        (vec![first(good(), &[0; 7])], "data"),
        (vec![first(good(), &[0; 9])], "data"),
        (vec![first(good(), &[0; 4]), rest(&[0; 5])], "data"),
        (vec![first(good(), &[0; 4]), first(good(), &[0; 4])], "header"),
    ];
    for (parts, field) in cases {
        assert_refused(upload(&server, parts).await, Code::InvalidArgument, field);
    }
    assert_eq!((list(&server).await.len(), held(&server).await), (0, 0));
}

#[tokio::test]
async fn graphs_read_resident_tensors_and_keep_their_outputs() {
    let server = TestServer::start().await;
    let x = floats(&server, &[1.0, 2.0, 3.0]).await;
    // Two steps of gradient descent that never leave the device: w = w - g, with a gradient of w / 2.
    let mut weights = x.clone();
    for _ in 0..2 {
        let mut halve = node("g", "mul", &["w"]);
        let half = v1::TensorAttribute { value: Some(v1::tensor_attribute::Value::Number(0.5)) };
        halve.attributes.insert("other".to_owned(), half);
        let step = graph(vec![resident("w", &weights)], vec![halve, node("next", "sub", &["w", "g"])], &[], &["next"]);
        let done = server.tensor().execute(step).await.expect("runs").into_inner();
        assert!(done.outputs.is_empty(), "what is kept is not returned");
        weights = done.kept.into_iter().next().expect("one is kept");
        assert_eq!((weights.size_bytes, &weights.device), (12, &x.device));
    }
    let (_, data) = download(&server, &weights.handle).await.expect("it is there");
    assert_eq!(numbers(&data), [0.25, 0.5, 0.75]);
    assert_eq!((list(&server).await.len(), held(&server).await), (3, 36));
    // Outputs that are returned and kept mix; an input may be kept.
    let inputs = vec![resident("a", &x), resident("b", &weights)];
    let both = graph(inputs, vec![node("sum", "add", &["a", "b"])], &["sum", "b"], &["sum", "a"]);
    let done = server.tensor().execute(both).await.expect("runs").into_inner();
    let returned: Vec<_> = done.outputs.iter().map(|output| numbers(&output.data)).collect();
    assert_eq!(returned, [[1.25, 2.5, 3.75], [0.25, 0.5, 0.75]]);
    for (kept, expected) in done.kept.iter().zip([[1.25, 2.5, 3.75], [1.0, 2.0, 3.0]]) {
        assert_eq!(numbers(&download(&server, &kept.handle).await.expect("it is there").1), expected);
    }
}

#[tokio::test]
async fn graphs_that_fail_keep_nothing() {
    let server = TestServer::start_with(|config| config.tensors.memory_limit = "1KiB".parse().expect("a size")).await;
    let x = floats(&server, &[1.0, 2.0]).await;
    let shape = v1::tensor_attribute::Value::Integers(v1::TensorIntegers { values: vec![200, 2] });
    let mut expand = node("large", "expand", &["x"]);
    expand.attributes.insert("shape".to_owned(), v1::TensorAttribute { value: Some(shape) });
    // The first output fits, the second does not.
    let request = graph(vec![resident("x", &x)], vec![node("e", "exp", &["x"]), expand], &[], &["e", "large"]);
    let request = v1::ExecuteRequest { device: x.device.clone(), ..request };
    if x.device == "cpu" {
        let refused = server.tensor().execute(request).await.expect_err("1,600 bytes of 1,024");
        assert_eq!((refused.code(), reason(&refused).as_str()), (Code::ResourceExhausted, "MEMORY_LIMIT"));
        let figures = refused.get_details_error_info().expect("error info").metadata;
        assert_eq!((&*figures["setting"], &*figures["asked_bytes"]), ("tensors.memory_limit", "1600"));
    }
    let wrong = graph(vec![resident("x", &x)], vec![node("n", "relux", &["x"])], &[], &["n"]);
    assert_refused(server.tensor().execute(wrong).await, Code::InvalidArgument, "nodes[n].op");
    let long = graph(vec![resident("x", &x)], vec![], &[], &["x"]);
    let long = v1::ExecuteRequest { keep_ttl: Some(prost_types::Duration { seconds: 1 << 40, nanos: 0 }), ..long };
    assert_refused(server.tensor().execute(long).await, Code::InvalidArgument, "keep_ttl");
    assert_eq!((list(&server).await.len(), held(&server).await), (1, 8));
}

#[tokio::test]
async fn unknown_freed_and_expired_handles_are_not_found() {
    let server = TestServer::start().await;
    let freed = floats(&server, &[1.0]).await;
    free(&server, &[&freed.handle]).await.expect("it is there");
    let ttl = Some(prost_types::Duration { seconds: 0, nanos: 1 });
    let brief = v1::UploadTensorHeader { ttl, ..header(v1::Dtype::U8, &[1]) };
    let expired = upload(&server, vec![first(brief, &[7])]).await.expect("it is kept for a nanosecond");
    assert!(list(&server).await.is_empty());
    let unknown = "00000000000000000000000000000000".to_owned();
    for handle in [freed.handle, expired.handle, unknown, String::new(), "x".repeat(1000)] {
        let mut refused = vec![
            download(&server, &handle).await.map(drop),
            free(&server, &[&handle]).await,
            server
                .tensor()
                .copy_tensor(v1::CopyTensorRequest { handle: handle.clone(), ..Default::default() })
                .await
                .map(drop),
        ];
        let input = v1::TensorInput { name: "x".to_owned(), source: Some(Source::Handle(handle.clone())) };
        refused.push(server.tensor().execute(graph(vec![input], vec![], &["x"], &[])).await.map(drop));
        for refused in refused {
            let status = refused.expect_err("no such tensor");
            assert_eq!((status.code(), reason(&status).as_str()), (Code::NotFound, ""), "{status:?}");
            let info = status.get_details_resource_info().expect("resource info");
            assert_eq!(info.resource_type, "tensor");
            assert!(
                handle.starts_with(&info.resource_name) && status.message().contains("started again"),
                "{status:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_download_continues_after_its_tensor_is_freed() {
    let server = TestServer::start().await;
    let bytes = 16 * MIB;
    let chunk = vec![7; MIB];
    let begin = header(v1::Dtype::U8, &[i64::try_from(bytes).expect("16 MiB")]);
    let parts = std::iter::once(first(begin, &[])).chain((0..16).map(|_| rest(&chunk))).collect();
    let tensor = upload(&server, parts).await.expect("it fits");
    let request = v1::DownloadTensorRequest { handle: tensor.handle.clone() };
    let mut parts = server.tensor().download_tensor(request).await.expect("it is there").into_inner();
    let mut received = parts.next().await.expect("a part").expect("the first").data.len();
    free(&server, &[&tensor.handle]).await.expect("it is there");
    assert!(list(&server).await.is_empty());
    assert_eq!(held(&server).await, bytes as u64, "its memory is in use");
    while let Some(part) = parts.next().await {
        let data = part.expect("the next").data;
        assert!(data.iter().all(|byte| *byte == 7));
        received += data.len();
    }
    assert_eq!(received, bytes);
}

#[tokio::test]
async fn tensors_above_the_limits_are_refused_with_the_figures() {
    let change = |config: &mut Config| {
        config.tensors.memory_limit = "100B".parse().expect("a size");
        config.tensors.max_count = 2;
    };
    let server = TestServer::start_with(change).await;
    let on_cpu = |extent| v1::UploadTensorHeader { device: "cpu".to_owned(), ..header(v1::Dtype::U8, &[extent]) };
    let kept = upload(&server, vec![first(on_cpu(60), &[0; 60])]).await.expect("60 of 100 bytes");
    let refused = upload(&server, vec![first(on_cpu(41), &[])]).await.expect_err("101 of 100 bytes");
    assert_eq!((refused.code(), reason(&refused).as_str()), (Code::ResourceExhausted, "MEMORY_LIMIT"));
    let figures = refused.get_details_error_info().expect("error info").metadata;
    let [asked, held_bytes, limit] = ["asked_bytes", "held_bytes", "limit_bytes"].map(|key| figures[key].as_str());
    assert_eq!((asked, held_bytes, limit), ("41", "60", "100"));
    upload(&server, vec![first(on_cpu(40), &[0; 40])]).await.expect("exactly 100 bytes");
    let refused = upload(&server, vec![first(on_cpu(0), &[])]).await.expect_err("three tensors");
    assert_eq!((refused.code(), reason(&refused).as_str()), (Code::ResourceExhausted, "TENSOR_COUNT_EXCEEDED"));
    assert!(refused.message().contains("2 of 2"), "{refused:?}");
    free(&server, &[&kept.handle]).await.expect("it is there");
    upload(&server, vec![first(on_cpu(60), &[0; 60])]).await.expect("there is room again");
}

#[tokio::test]
async fn an_upload_whose_client_pauses_is_ended() {
    let server = TestServer::start_with(|config| config.server.stall_timeout = Duration::from_millis(50)).await;
    let begin = first(header(v1::Dtype::U8, &[2]), &[1]);
    let parts = tokio_stream::once(begin).chain(tokio_stream::pending());
    let refused = server.tensor().upload_tensor(parts).await.expect_err("the second byte does not come");
    assert_eq!((refused.code(), reason(&refused).as_str()), (Code::ResourceExhausted, "STALLED"));
    assert_eq!(held(&server).await, 0);
}

#[tokio::test]
async fn a_copy_outlives_its_original_on_every_device() {
    let server = TestServer::start().await;
    let x = floats(&server, &[1.0, 2.0, 3.0]).await;
    let devices = server.device().list_devices(v1::ListDevicesRequest {}).await.expect("a list").into_inner().devices;
    let mut copies = vec![];
    for device in &devices {
        let request = v1::CopyTensorRequest { handle: x.handle.clone(), device: device.name.clone(), ttl: None };
        let copy = server.tensor().copy_tensor(request).await.expect("it fits").into_inner().tensor.expect("a tensor");
        assert_eq!((&copy.device, copy.size_bytes, copy.handle == x.handle), (&device.name, 12, false));
        copies.push(copy);
    }
    free(&server, &[&x.handle]).await.expect("it is there");
    for copy in &copies {
        let (_, data) = download(&server, &copy.handle).await.expect("it is there");
        assert_eq!(numbers(&data), [1.0, 2.0, 3.0], "{}", copy.device);
    }
    if let [on_gpu, .., on_cpu] = &copies[..] {
        let nodes = vec![node("sum", "add", &["a", "b"])];
        let apart = graph(vec![resident("a", on_gpu), resident("b", on_cpu)], nodes, &["sum"], &["sum"]);
        for device in ["", "cpu"] {
            let apart = v1::ExecuteRequest { device: device.to_owned(), ..apart.clone() };
            let start = held(&server).await;
            let done = server.tensor().execute(apart).await.expect("it runs").into_inner();
            assert_eq!(numbers(&done.outputs[0].data), [2.0, 4.0, 6.0]);
            assert_eq!(done.kept[0].device, if device.is_empty() { &on_gpu.device } else { device });
            assert_eq!(held(&server).await, start + 12, "only the output stays");
        }
    }
    let nowhere = v1::CopyTensorRequest { handle: copies[0].handle.clone(), device: "tpu".to_owned(), ttl: None };
    assert_refused(server.tensor().copy_tensor(nowhere).await, Code::InvalidArgument, "device");
}

#[tokio::test]
async fn a_restart_loses_all_handles() {
    let server = TestServer::start().await;
    let x = floats(&server, &[1.0]).await;
    server.daemon.shutdown().await;
    let server = TestServer::start().await;
    let lost = download(&server, &x.handle).await.expect_err("tensors are in memory only");
    assert_eq!(lost.code(), Code::NotFound);
    assert!(lost.message().contains("the daemon was started again"), "{lost:?}");
}

#[tokio::test]
async fn the_rust_client_keeps_tensors_between_calls() {
    let server = TestServer::start().await;
    let client = Client::connect(format!("http://{}", server.daemon.grpc_addr())).await.expect("the daemon listens");
    let matrix = || Matrix::new(vec![1.0_f32, 2.0, 3.0, 4.0], 2).expect("two rows");
    let options = UploadOptions::default().ttl(Duration::from_secs(60));
    let x = client.upload(matrix(), &options).await.expect("it fits");
    let mut graph = Graph::default();
    let resident = graph.resident(&x);
    let sent = graph.input(matrix());
    let sum = graph.op("add", [&resident, &sent], []);
    graph.keep_ttl(Duration::from_secs(60));
    let done = client.execute(&graph, [(&sum).into(), sum.keep()]).await.expect("runs");
    assert_eq!(done.matrix::<f32>(0).expect("a matrix").as_slice(), [2.0, 4.0, 6.0, 8.0]);
    let kept = &done.kept[0];
    assert_eq!(client.download(kept).await.expect("it is there"), done.outputs[0]);
    let copy = client.copy_tensor(kept, &UploadOptions::default().device("cpu")).await.expect("it fits");
    let handles = |tensors: &[ResidentTensor]| tensors.iter().map(|one| one.handle.clone()).collect::<Vec<_>>();
    let listed = client.list_tensors().await.expect("a list");
    assert_eq!(handles(&listed), handles(&[x.clone(), kept.clone(), copy.clone()]), "oldest first");
    client.free([&x, kept, &copy]).await.expect("all are there");
    let gone = client.download(&x).await.expect_err("it was freed");
    assert_eq!(gone.failure().expect("the daemon said why").code, Code::NotFound);
    // More than one message.
    let large = Matrix::new(vec![1.5_f32; 3 << 20], 1 << 10).expect("rows");
    let large = client.upload(large, &UploadOptions::default()).await.expect("it fits");
    let back = client.download(&large).await.expect("it is there");
    assert_eq!((back.data.len(), &back.shape[..]), (12 << 20, &[3 << 10, 1 << 10][..]));
}
