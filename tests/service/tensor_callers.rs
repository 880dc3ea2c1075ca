//! Callers of tensors that do not read, pause, vanish or send far too much: the memory they hold is bounded and released, and others are
//! not delayed.

use accelerd::{config::Config, transport::memory::MemoryKind};
use accelerd_kernels::ledger::{Kind, Place};
use accelerd_proto::{
    methods::tensor_service,
    v1::{self, tensor_attribute::Value},
};
use futures::StreamExt;
use h2::Reason;
use tonic::{Code, Status};

use super::{
    flow_control::{end, framed, held, open, raw, refusal, scarce, scarce_and_strict, until},
    harness::{TestServer, assert_refused, connect},
};

const COPY: &str = tensor_service::COPY_TENSOR.path();
const DOWNLOAD: &str = tensor_service::DOWNLOAD_TENSOR.path();
const EXECUTE: &str = tensor_service::EXECUTE.path();
const UPLOAD: &str = tensor_service::UPLOAD_TENSOR.path();

const MIB: usize = 1 << 20;

/// The tests count host memory.
fn on_cpu(config: &mut Config) {
    config.backend.kind = accelerd::config::BackendKind::Cpu;
}

fn node(name: &str, op: &str, inputs: &[&str], attributes: &[(&str, Value)]) -> v1::TensorNode {
    let attribute =
        |(name, value): &(&str, Value)| ((*name).to_owned(), v1::TensorAttribute { value: Some(value.clone()) });
    v1::TensorNode {
        name: name.to_owned(),
        op: op.to_owned(),
        inputs: inputs.iter().map(|name| (*name).to_owned()).collect(),
        attributes: attributes.iter().map(attribute).collect(),
    }
}

/// A tensor of equal f32.
fn full(name: &str, extent: usize) -> v1::TensorNode {
    let extent = i64::try_from(extent).expect("an extent");
    let shape = Value::Integers(v1::TensorIntegers { values: vec![extent] });
    node(name, "full", &[], &[("shape", shape), ("value", Value::Number(0.5))])
}

/// A graph that returns `returned` bytes and keeps `kept` bytes.
fn graph(returned: usize, kept: usize) -> v1::ExecuteRequest {
    let output = |name: &str, keep| v1::TensorOutput { name: name.to_owned(), keep };
    v1::ExecuteRequest {
        nodes: vec![full("returned", returned / 4), full("kept", kept / 4)],
        outputs: vec![output("returned", false), output("kept", true)],
        ..Default::default()
    }
}

fn upload_header(bytes: usize) -> v1::UploadTensorRequest {
    let shape = vec![i64::try_from(bytes).expect("an extent")];
    let header = v1::UploadTensorHeader { dtype: v1::Dtype::U8.into(), shape, ..Default::default() };
    v1::UploadTensorRequest { header: Some(header), ..Default::default() }
}

async fn upload(server: &TestServer, bytes: usize) -> v1::ResidentTensor {
    let chunk = |_| v1::UploadTensorRequest { header: None, data: vec![7; MIB].into() };
    let parts: Vec<_> = std::iter::once(upload_header(bytes)).chain((0..bytes / MIB).map(chunk)).collect();
    let response = server.tensor().upload_tensor(tokio_stream::iter(parts)).await.expect("it fits");
    response.into_inner().tensor.expect("a tensor")
}

async fn list(server: &TestServer) -> Vec<v1::ResidentTensor> {
    let listed = server.tensor().list_tensors(v1::ListTensorsRequest {}).await;
    listed.expect("a list").into_inner().tensors
}

/// Bytes that the ledger counts as tensors of the host.
fn resident(server: &TestServer) -> u64 {
    server.daemon.app().ledger.account(Place::Host, Kind::Tensors).usage().0
}

/// Running batches of the lane of graphs, those that are complete, and requests whose callers left while they ran.
fn batches(server: &TestServer) -> (u64, u64, u64) {
    let stats = server.daemon.app().engine.stats();
    let lane = stats.lanes.into_iter().find(|lane| lane.name == "tensor").expect("the lane of graphs");
    (lane.running_batches, lane.counts.batches, lane.counts.cancelled_running)
}

#[tokio::test(flavor = "multi_thread")]
async fn kept_outputs_are_freed_if_the_response_cannot_be_encoded_or_is_not_read() {
    let server = TestServer::start_with(|config| {
        scarce(config);
        on_cpu(config);
    })
    .await;
    let mut sender = raw(&server, 0).await;
    let mut calls = vec![];
    for _ in 0..40 {
        let (response, mut body) = open(&mut sender, EXECUTE).await;
        body.send_data(framed(&graph(4 * MIB, MIB)), true).expect("the request is sent");
        calls.push(response);
    }
    let mut unread = vec![];
    let mut refused = 0;
    for call in calls {
        let response = call.await.expect("an answer");
        match Status::from_header_map(response.headers()) {
            Some(status) => {
                assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
                refused += 1;
            }
            None => unread.push(response),
        }
    }
    // Responses of 40 MiB are charged.
    assert!(unread.len() >= 8 && refused >= 24, "{} answered, {refused} refused", unread.len());
    assert_eq!(list(&server).await.len(), unread.len(), "what a refused call kept is freed");
    assert_eq!(resident(&server), (unread.len() * MIB) as u64);
    drop((unread, sender));
    until("what no caller can name is freed", || resident(&server) == 0).await;
    assert!(list(&server).await.is_empty());
    let kept = server.tensor().execute(graph(4, 4)).await.expect("it is small").into_inner().kept;
    assert_eq!(list(&server).await.len(), kept.len(), "a response that is read keeps its tensors");
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_and_copies_are_freed_if_their_callers_are_gone() {
    let server = TestServer::start_with(on_cpu).await;
    let kept = upload(&server, MIB).await;
    let copy = v1::CopyTensorRequest { handle: kept.handle, ..Default::default() };
    let uploaded = v1::UploadTensorRequest { data: vec![7; MIB].into(), ..upload_header(MIB) };
    for (path, message) in [(COPY, framed(&copy)), (UPLOAD, framed(&uploaded))] {
        let mut sender = raw(&server, 0).await;
        let (response, mut body) = open(&mut sender, path).await;
        body.send_data(message, true).expect("the request is sent");
        let response = response.await.expect("headers need no window");
        assert!(Status::from_header_map(response.headers()).is_none(), "{path} succeeded");
        assert_eq!(resident(&server), 2 * MIB as u64, "{path}");
        drop((response, body, sender));
        until(path, || resident(&server) == MIB as u64).await;
        assert_eq!(list(&server).await.len(), 1, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_that_are_not_read_hold_little_and_are_reset() {
    let server = TestServer::start_with(|config| {
        scarce_and_strict(config);
        on_cpu(config);
    })
    .await;
    let tensor = upload(&server, 64 * MIB).await;
    let download = v1::DownloadTensorRequest { handle: tensor.handle.clone() };
    let execute = v1::ExecuteRequest { outputs: graph(0, 0).outputs[..1].to_vec(), ..graph(8 * MIB, 0) };
    for (path, message, limit) in [(DOWNLOAD, framed(&download), 4 * MIB), (EXECUTE, framed(&execute), 9 * MIB)] {
        let mut sender = raw(&server, 0).await;
        let (response, mut body) = open(&mut sender, path).await;
        body.send_data(message, true).expect("the request is sent");
        let ended = end(response.await.expect("headers need no window").into_body());
        tokio::pin!(ended);
        let reason = loop {
            let bytes = held(&server, MemoryKind::Response);
            assert!(bytes <= limit as u64, "{path}: {bytes} bytes are held");
            if let std::task::Poll::Ready(reason) = futures::poll!(&mut ended) {
                break reason;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(reason, Some(Reason::ENHANCE_YOUR_CALM), "{path}");
        until(path, || held(&server, MemoryKind::Response) == 0).await;
    }
    let free = v1::FreeTensorsRequest { handles: vec![tensor.handle] };
    server.tensor().free_tensors(free).await.expect("it is there");
    until("no call holds the tensor", || resident(&server) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_that_stop_give_their_memory_back() {
    let server = TestServer::start_with(|config| {
        scarce_and_strict(config);
        on_cpu(config);
    })
    .await;
    let mut sender = raw(&server, 65_535).await;
    let begin = framed(&upload_header(32 * MIB));
    let chunk = framed(&v1::UploadTensorRequest { header: None, data: vec![7; 1000].into() });
    // Nothing, part of a header, a header, and a header with part of the bytes that it announces, up to the middle of a message.
    let whole = [&begin[..], &chunk[..]].concat();
    for sent in [0, 3, 6, begin.len(), begin.len() + 7, whole.len()] {
        let (response, mut body) = open(&mut sender, UPLOAD).await;
        body.send_data(whole[..sent].to_vec().into(), false).expect("a part of it is sent");
        let status = refusal(response).await;
        assert_eq!(status.code(), Code::ResourceExhausted, "{sent} bytes: {status:?}");
        assert!(status.message().contains("the call stalled"), "{status:?}");
        until("the reservation is given back", || resident(&server) == 0).await;
        until("so are messages", || held(&server, MemoryKind::Request) == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_whose_caller_vanishes_gives_its_memory_back() {
    let server = TestServer::start_with(on_cpu).await;
    let mut sender = raw(&server, 65_535).await;
    let (response, mut body) = open(&mut sender, UPLOAD).await;
    body.send_data(framed(&upload_header(32 * MIB)), false).expect("the header is sent");
    until("its memory is reserved", || resident(&server) == 32 * MIB as u64).await;
    body.send_reset(Reason::CANCEL);
    drop(response);
    until("its memory is given back", || resident(&server) == 0).await;
    assert!(list(&server).await.is_empty());
}

/// The smallest CPU backend: one thread and one worker.
fn smallest(config: &mut Config) {
    on_cpu(config);
    config.backend.cpu_threads = 1;
    config.backend.cpu_workers = 1;
}

/// A graph of `steps` kernels over 64 MiB each, which take minutes together, and are few bytes to send and to return.
fn long_graph(steps: usize) -> v1::ExecuteRequest {
    let dims = [("dims", Value::Integers(v1::TensorIntegers { values: vec![0] }))];
    let mut nodes = vec![full("n0", 16 * MIB)];
    for nth in 1..=steps {
        let before = nodes[nodes.len() - 1].name.clone();
        nodes.push(node(&format!("e{nth}"), "erf", &[&before], &[]));
        // An element is read where another is written: no kernel does both.
        nodes.push(node(&format!("f{nth}"), "flip", &[&format!("e{nth}")], &dims));
        nodes.push(node(&format!("n{nth}"), "add", &[&format!("e{nth}"), &format!("f{nth}")], &[]));
    }
    let last = nodes[nodes.len() - 1].name.clone();
    nodes.push(node("sum", "sum", &[&last], &[]));
    let outputs = vec![v1::TensorOutput { name: "sum".to_owned(), keep: false }];
    v1::ExecuteRequest { nodes, outputs, ..Default::default() }
}

/// Executions of elementwise kernels that have ended, or were abandoned.
fn steps_done(server: &TestServer) -> u64 {
    let kernels = server.daemon.app().engine.devices().into_iter().flat_map(|(device, _)| device.kernel_stats());
    kernels.filter(|kernel| kernel.name == "tensor_map").map(|kernel| kernel.calls).sum()
}

/// A small request that waited for a long graph would see that graph's batch counted before its own.
///
/// The worker looks for the caller when a slice is over, which is several times within a step. So the step that runs when the call ends is
/// abandoned, or ends; then at most one more begins.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_graph_delays_no_small_ones_and_ends_when_its_caller_leaves() {
    const STEPS: usize = 1000;
    const SMALL: u64 = 20;
    let server = TestServer::start_with(smallest).await;
    let long = tokio::spawn({
        let mut client = server.tensor();
        async move { client.execute(long_graph(STEPS)).await.map(drop) }
    });
    until("it runs", || batches(&server).0 == 1).await;
    let small = v1::tensor_service_client::TensorServiceClient::new(connect(server.daemon.grpc_addr()).await);
    for nth in 1..=SMALL {
        let request = v1::ExecuteRequest { outputs: graph(0, 0).outputs[..1].to_vec(), ..graph(4, 0) };
        let done = small.clone().execute(request).await.expect("it is small").into_inner();
        assert_eq!(done.outputs[0].data[..], 0.5_f32.to_le_bytes());
        let (_, ended, cancelled) = batches(&server);
        assert_eq!((ended, cancelled), (nth, 0), "the long one goes on, and only small ones have ended");
    }
    assert!(!long.is_finished());
    let calls = || server.daemon.app().metrics.in_flight();
    until("the long call is the only one", || calls() == 1).await;
    assert_eq!((batches(&server).1, batches(&server).2), (SMALL, 0), "it goes on when all small ones are answered");
    long.abort();
    until("the daemon has seen that its caller is gone", || calls() == 0).await;
    let seen = steps_done(&server);
    until("it ends", || batches(&server).0 == 0).await;
    assert_eq!(
        (batches(&server).1, batches(&server).2),
        (SMALL + 1, 1),
        "cancelled while it ran, after the small ones"
    );
    let done = steps_done(&server);
    assert!(done - seen <= 2, "{} steps ended after the call", done - seen);
    assert!(done < SMALL + STEPS as u64, "{done} of {STEPS} steps and {SMALL} small ones were executed");
    until("its memory is given back", || held(&server, MemoryKind::Request) == 0).await;
}

#[tokio::test]
async fn a_graph_whose_nodes_read_too_many_values_is_refused() {
    let server = TestServer::start_with(|config| config.limits.max_graph_nodes = 10).await;
    let concat = |count: usize| {
        let nodes = vec![full("x", 1), node("c", "concat", &vec!["x"; count], &[])];
        let outputs = vec![v1::TensorOutput { name: "c".to_owned(), keep: false }];
        v1::ExecuteRequest { nodes, outputs, ..Default::default() }
    };
    let done = server.tensor().execute(concat(160)).await.expect("exactly the limit").into_inner();
    assert_eq!(done.outputs[0].shape, [160]);
    let refused = server.tensor().execute(concat(161)).await;
    let message = refused.as_ref().expect_err("one too many").message().to_owned();
    assert!(message.contains("at most 160") && message.contains("got 161"), "{message}");
    assert_refused(refused, Code::InvalidArgument, "nodes");
}

/// More graphs than are admitted: each is executed or refused with the time after which to retry, and nothing stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_large_graphs_is_refused_with_the_time_to_retry_and_leaves_nothing() {
    use tonic_types::StatusExt;
    let server = TestServer::start_with(|config| {
        smallest(config);
        config.admission.max_bytes = "64MiB".parse().expect("a size");
    })
    .await;
    let calls = (0..64).map(|_| {
        let mut client = server.tensor();
        // 16 MiB between its steps.
        let mut request = long_graph(1);
        request.nodes[0] = full("n0", MIB);
        async move { client.execute(request).await }
    });
    let outcomes = futures::stream::iter(calls).buffer_unordered(64).collect::<Vec<_>>().await;
    let (done, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    assert!(!done.is_empty() && !refused.is_empty(), "{} executed, {} refused", done.len(), refused.len());
    for status in refused.into_iter().filter_map(Result::err) {
        assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
        let retry = status.get_details_retry_info().and_then(|info| info.retry_delay);
        assert!(retry.is_some_and(|delay| !delay.is_zero()), "{status:?}");
    }
    let admission = server.daemon.app().engine.stats().admission;
    assert_eq!((admission.bytes, admission.items), (0, 0), "all is given back");
}
