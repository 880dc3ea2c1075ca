//! Callers that upload, execute random graphs, download, copy, free and leave: at the end, all memory is given back.
//!
//! `ACCELERD_SOAK_CALLS=10000 cargo test --release -p accelerd-tests --test service tensor_soak` makes as many calls.

use accelerd::transport::memory::MemoryKind;
use accelerd_kernels::ledger::{Kind, Place};
use accelerd_proto::v1::{self, tensor_attribute::Value, tensor_input::Source};
use futures::StreamExt;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use tonic::{Code, Status};

use super::{
    flow_control::{held, until},
    harness::TestServer,
};

type Client = v1::tensor_service_client::TensorServiceClient<tonic::transport::Channel>;

/// Rows and columns of every tensor.
const SIDE: i64 = 16;
const CALLERS: usize = 4;
const CALLS: usize = 400;

fn numbers(rng: &mut StdRng) -> v1::Tensor {
    let data: Vec<u8> = (0..SIDE * SIDE).flat_map(|_| rng.random_range(-1_f32..1.0).to_le_bytes()).collect();
    v1::Tensor { dtype: v1::Dtype::F32.into(), shape: vec![SIDE; 2], data: data.into() }
}

/// A graph of random operations over resident tensors and one that is sent. About a half of its outputs are kept.
fn graph(rng: &mut StdRng, handles: &[String]) -> v1::ExecuteRequest {
    let input = |(name, source)| v1::TensorInput { name, source: Some(source) };
    let chosen = handles.choose_multiple(rng, 3).cloned().map(Source::Handle).collect::<Vec<_>>();
    let sources = chosen.into_iter().chain([Source::Value(numbers(rng))]);
    let inputs: Vec<_> = sources.enumerate().map(|(nth, source)| input((format!("x{nth}"), source))).collect();
    let mut names: Vec<_> = inputs.iter().map(|input| input.name.clone()).collect();
    let mut nodes = vec![];
    for nth in 0..rng.random_range(1..20) {
        let op =
            *["add", "mul", "matmul", "tanh", "softmax", "maximum", "transpose", "sort"].choose(rng).expect("some");
        let count = if ["add", "mul", "matmul", "maximum"].contains(&op) { 2 } else { 1 };
        let attributes: &[(&str, i64)] = match op {
            "softmax" => &[("dim", 1)],
            "transpose" => &[("dim0", 0), ("dim1", 1)],
            _ => &[],
        };
        let attribute =
            |&(key, value): &(&str, i64)| (key.to_owned(), v1::TensorAttribute { value: Some(Value::Integer(value)) });
        let inputs = (0..count).map(|_| names.choose(rng).expect("an input").clone()).collect();
        let attributes = attributes.iter().map(attribute).collect();
        nodes.push(v1::TensorNode { name: format!("n{nth}"), op: op.to_owned(), inputs, attributes });
        names.push(format!("n{nth}"));
    }
    let outputs = (0..rng.random_range(1..4))
        .map(|_| v1::TensorOutput { name: names.choose(rng).expect("an input").clone(), keep: rng.random_bool(0.5) });
    v1::ExecuteRequest { inputs, nodes, outputs: outputs.collect(), ..Default::default() }
}

async fn upload(client: &mut Client, tensor: v1::Tensor) -> Result<String, Status> {
    let header = v1::UploadTensorHeader { dtype: tensor.dtype, shape: tensor.shape, ..Default::default() };
    let part = v1::UploadTensorRequest { header: Some(header), data: tensor.data };
    let response = client.upload_tensor(tokio_stream::iter([part])).await?;
    Ok(response.into_inner().tensor.expect("a tensor").handle)
}

/// One call of any kind, on the caller's tensors or on one that is gone. About one in ten is abandoned.
async fn call(client: &mut Client, rng: &mut StdRng, handles: &mut Vec<String>) -> Result<(), Status> {
    let handle = handles.choose(rng).cloned().unwrap_or_default();
    match rng.random_range(0..10) {
        0 => handles.push(upload(client, numbers(rng)).await?),
        1 => {
            let parts = client.download_tensor(v1::DownloadTensorRequest { handle }).await?.into_inner();
            for part in parts.collect::<Vec<_>>().await {
                part?;
            }
        }
        2 => {
            let copied = client.copy_tensor(v1::CopyTensorRequest { handle, ..Default::default() }).await?;
            handles.push(copied.into_inner().tensor.expect("a tensor").handle);
        }
        3 if !handles.is_empty() => {
            let handle = handles.swap_remove(rng.random_range(0..handles.len()));
            client.free_tensors(v1::FreeTensorsRequest { handles: vec![handle] }).await?;
        }
        4 => {
            // Its caller leaves after a while, or before it is sent.
            let request = graph(rng, handles);
            let mut client = client.clone();
            let abandoned = tokio::spawn(async move { client.execute(request).await.map(drop) });
            for _ in 0..rng.random_range(0..50) {
                tokio::task::yield_now().await;
            }
            abandoned.abort();
        }
        _ => {
            let kept = client.execute(graph(rng, handles)).await?.into_inner().kept;
            handles.extend(kept.into_iter().map(|tensor| tensor.handle));
        }
    }
    Ok(())
}

/// Calls `calls` times. Nothing but a handle that does not exist is refused.
async fn caller(mut client: Client, seed: usize, calls: usize) {
    let mut rng = StdRng::seed_from_u64(seed as u64);
    let mut handles = vec![];
    let mut refused = 0;
    for _ in 0..calls {
        if let Err(status) = call(&mut client, &mut rng, &mut handles).await {
            assert_eq!((status.code(), handles.len()), (Code::NotFound, 0), "{status:?}");
            refused += 1;
        }
        while handles.len() > 30 {
            let handle = handles.swap_remove(0);
            client.free_tensors(v1::FreeTensorsRequest { handles: vec![handle] }).await.expect("it is there");
        }
    }
    assert!(refused * 2 < calls, "{refused} of {calls} calls had no tensor");
    client.free_tensors(v1::FreeTensorsRequest { handles }).await.expect("all are there");
}

#[tokio::test(flavor = "multi_thread")]
async fn random_calls_give_all_memory_back() {
    let server = TestServer::start().await;
    let calls = std::env::var("ACCELERD_SOAK_CALLS").map_or(CALLS, |calls| calls.parse().expect("a number"));
    let callers = (0..CALLERS).map(|seed| tokio::spawn(caller(server.tensor(), seed, calls.div_ceil(CALLERS))));
    for outcome in futures::future::join_all(callers).await {
        outcome.expect("no refusal");
    }
    let app = server.daemon.app();
    let tensors = || -> u64 {
        let devices = app.engine.devices().iter().map(|(device, _)| device.id().place()).collect::<Vec<_>>();
        let places = devices.into_iter().chain([Place::Host]).collect::<std::collections::HashSet<_>>();
        places.into_iter().map(|place| app.ledger.account(place, Kind::Tensors).usage().0).sum()
    };
    until("no call is admitted", || app.engine.stats().admission.bytes == 0).await;
    // Callers may have left after their response was sent, too late for the daemon to free the tensors that it names.
    let mut client = server.tensor();
    let left = client.list_tensors(v1::ListTensorsRequest {}).await.expect("a list").into_inner().tensors;
    let handles = left.into_iter().map(|tensor| tensor.handle).collect();
    client.free_tensors(v1::FreeTensorsRequest { handles }).await.expect("all are there");
    until("no tensor stays", || tensors() == 0).await;
    until("no message stays", || held(&server, MemoryKind::Request) + held(&server, MemoryKind::Response) == 0).await;
}
