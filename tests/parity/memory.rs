//! A GPU with little memory: a model that does not fit is refused, a batch is split, and other requests are served.

use std::{fs, path::Path, sync::Arc, time::Duration};

use accelerd::{
    embedder::{Embedder, Input, ModelSource, Options},
    error::ApiError,
};
use accelerd_engine::{Context, Engine, EngineConfig, Lane, LaneConfig, SubmitError};
use accelerd_kernels::{
    Backend, Choice, Device, DeviceId, Op, OpError, PoolStats, Settings, discover,
    ops::{
        encode::{
            Encode, EncodeRequest, Encoded, Encoder, EncoderConfig, Pooling, Precision,
            samples::{self, encoder},
        },
        tensor::{Execute, ExecuteRequest},
    },
};
use accelerd_models::Model;
use accelerd_parity::{device, encoders, open, random, run_batch, settings};
use accelerd_tensor::{Attribute, Dtype, Graph, GraphSpec, Plan};
use futures::future::join_all;
use libtest_mimic::Trial;

use super::{
    encode::request,
    tensor::{elements, graph, node, tensor},
};

/// The limit of the memory pool.
const LIMIT: u64 = 96 << 20;

/// The granularity of the pool's accounting.
const STEP: u64 = 512;

/// Tokens per text.
const LENGTH: u32 = 256;

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &str, check: fn(&Device) -> Result<(), String>| {
        let run = move || {
            let settings = Settings { choice: Choice::Cuda, pool_limit_bytes: LIMIT, ..settings() };
            let found = discover(&settings).map_err(|error| error.to_string())?;
            let is_gpu = |device: &&Device| matches!(device.id(), DeviceId::Cuda(_));
            let device = found.devices.iter().find(is_gpu).ok_or("there is no such device")?;
            Ok(check(device)?)
        };
        Trial::test(format!("memory::{name}::cuda"), run).with_ignored_flag(device(true).is_none())
    };
    vec![trial("requests_that_do_not_fit_leave_others_serving", check)]
}

/// The tests run one after the other, since they share the device's memory limit.
fn check(device: &Device) -> Result<(), String> {
    a_model_that_does_not_fit_frees_its_weights(device)?;
    a_graph_that_does_not_fit_frees_what_it_has_allocated(device)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(async {
        an_unloaded_model_gives_its_memory_back_at_once(device).await?;
        a_batch_that_does_not_fit_is_split(device).await?;
        a_graph_that_does_not_fit_is_refused_with_its_plan(device).await?;
        a_model_that_does_not_fit_is_refused_by_the_daemon(device).await
    })
}

fn expect(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

fn made(config: EncoderConfig) -> Result<Arc<Encoder>, String> {
    encoder(config).map(Arc::new).map_err(|error| error.to_string())
}

/// A request of texts of maximum length, mean-pooled.
fn texts(encoder: &Arc<Encoder>, count: usize, seed: u64) -> EncodeRequest {
    let lengths = vec![LENGTH; count];
    EncodeRequest { pooling: Pooling::Mean, ..request(encoder, &lengths, Precision::F32, seed) }
}

fn run(request: &EncodeRequest, backend: &mut Backend) -> Result<Encoded, OpError> {
    run_batch::<Encode>(std::slice::from_ref(request), backend).map(|mut answers| answers.remove(0))
}

/// Bytes in use once the worker is idle.
fn used(device: &Device, backend: &Backend) -> Result<u64, String> {
    if let Backend::Cuda(worker) = backend {
        worker.synchronize().map_err(|error| error.to_string())?;
    }
    device.pool_stats().map(|pool| pool.used_bytes).ok_or_else(|| "a GPU has a pool".to_owned())
}

fn small() -> EncoderConfig {
    EncoderConfig { hidden: 128, head_dim: 64, intermediate: 512, max_tokens: LENGTH as usize, ..samples::bert() }
}

/// Weights are uploaded until one does not fit; then all of them are freed.
fn a_model_that_does_not_fit_frees_its_weights(device: &Device) -> Result<(), String> {
    let mut backend = open(device)?;
    let small = made(small())?;
    let text = texts(&small, 1, 1);
    let expected = run(&text, &mut backend).map_err(|error| error.to_string())?;
    let before = used(device, &backend)?;
    let large =
        EncoderConfig { hidden: 512, heads: 8, kv_heads: 8, intermediate: 2048, layers: 10, ..small.config().clone() };
    let large = made(large)?;
    match run(&texts(&large, 1, 1), &mut backend) {
        Err(OpError::OutOfMemory { requested, free, .. }) => {
            expect(free <= LIMIT - before, || format!("{free} bytes are reported free, {before} were in use"))?;
            expect(requested + STEP > free, || format!("{requested} bytes did not fit into {free}"))?;
        }
        other => return Err(format!("100 MB of weights in a pool of {LIMIT}: {other:?}")),
    }
    drop(large);
    let after = used(device, &backend)?;
    // It may be less, since graphs are evicted when memory is short.
    expect(after <= before, || format!("{after} bytes are in use after the error, {before} before"))?;
    let again = run(&text, &mut backend).map_err(|error| error.to_string())?;
    expect(again == expected, || "another result after the error".to_owned())
}

/// A graph with an input, an intermediate value and an output of 8 MiB each.
fn graph_request() -> Result<ExecuteRequest, String> {
    let of = tensor(Dtype::F32, &[2 << 20]);
    let dims = [("dims", Attribute::Ints(vec![0]))];
    let nodes = vec![
        node("e", "erf", &["x"], &[]),
        node("turned", "flip", &["e"], &dims),
        node("y", "add", &["e", "turned"], &[]),
    ];
    let spec = GraphSpec { outputs: vec!["y".to_owned()], ..graph(&[("x", of.clone())], nodes) };
    let plan = Plan::new(&Graph::new(&spec).map_err(|error| error.to_string())?);
    Ok(ExecuteRequest::new(Arc::new(plan), vec![elements(&of, &mut random(1))]))
}

/// Bytes that others hold: a part of the graph's memory fits next to them, and not all of it.
fn held_next_to(request: &ExecuteRequest, used: u64) -> Result<usize, String> {
    let planned = Execute::size(request).bytes;
    expect(planned == 3 * (8 << 20), || format!("{planned} bytes are planned"))?;
    expect(planned <= LIMIT, || "admission refuses what never fits".to_owned())?;
    usize::try_from(LIMIT - used - planned + (4 << 20)).map_err(|error| error.to_string())
}

/// Others hold the memory of the last buffer of a graph. Those before it are freed, and the error has the memory of the whole plan.
fn a_graph_that_does_not_fit_frees_what_it_has_allocated(device: &Device) -> Result<(), String> {
    let mut backend = open(device)?;
    let other = open(device)?;
    let request = graph_request()?;
    let run = |backend: &mut Backend| {
        run_batch::<Execute>(std::slice::from_ref(&request), backend).map(|mut done| done.remove(0).returned)
    };
    let expected = run(&mut backend).map_err(|error| error.to_string())?;
    let before = used(device, &backend)?;
    let held = held_next_to(&request, before)?;
    let Backend::Cuda(holder) = &other else { return Err("a GPU's backend".to_owned()) };
    let held = holder.alloc::<u8>(held).map_err(|error| error.to_string())?;
    let with_held = used(device, &other)?;
    // The second execution would also capture a graph, whose memory does not fit either.
    for nth in 2..4 {
        match run(&mut backend) {
            Err(OpError::OutOfMemory { requested, free, .. }) => {
                let planned = Execute::size(&request).bytes;
                expect(requested == planned, || format!("execution {nth}: {requested} bytes of {planned} planned"))?;
                expect(free < planned && free <= LIMIT - with_held, || format!("{free} bytes are reported free"))?;
            }
            other => return Err(format!("execution {nth} next to {with_held} bytes: {other:?}")),
        }
        let after = used(device, &backend)?;
        expect(after == with_held, || format!("execution {nth}: {after} bytes are in use, {with_held} before"))?;
    }
    drop(held);
    let after = used(device, &other)?;
    expect(after == before, || format!("{after} bytes are in use after the errors, {before} before"))?;
    let again = run(&mut backend).map_err(|error| error.to_string())?;
    expect(again == expected, || "another result after the errors".to_owned())
}

/// The same in the engine, whose admission lets the graph pass: alone it fits.
async fn a_graph_that_does_not_fit_is_refused_with_its_plan(device: &Device) -> Result<(), String> {
    let engine = engine(device)?;
    let lane = lane::<Execute>(&engine);
    let request = graph_request()?;
    let submitted = async || lane.submit(request.clone(), Context::default()).await.map(|done| done.response.returned);
    let expected = submitted().await.map_err(|error| error.to_string())?;
    let other = open(device)?;
    let held = held_next_to(&request, used(device, &other)?)?;
    let Backend::Cuda(holder) = &other else { return Err("a GPU's backend".to_owned()) };
    let held = holder.alloc::<u8>(held).map_err(|error| error.to_string())?;
    let refused = submitted().await;
    drop(held);
    holder.synchronize().map_err(|error| error.to_string())?;
    let planned = Execute::size(&request).bytes;
    match refused {
        Err(SubmitError::Op(OpError::OutOfMemory { requested, .. })) if requested == planned => {}
        other => return Err(format!("a graph that needs {planned} bytes: {other:?}")),
    }
    let again = submitted().await.map_err(|error| error.to_string())?;
    expect(again == expected, || "another result after the error".to_owned())
}

fn engine(device: &Device) -> Result<Engine, String> {
    let config = EngineConfig {
        cuda_workers: 1,
        cpu_workers: 1,
        cpu_paused_batches: 0,
        max_items: 1 << 20,
        max_bytes: 16 << 30,
        cpu_slice: Duration::from_millis(10),
        cuda_slice: Duration::from_millis(5),
        hang_timeout: Duration::ZERO,
        memory_retry: Duration::ZERO,
    };
    Engine::start(vec![device.clone()], config).map_err(|error| error.to_string())
}

fn lane<O: Op>(engine: &Engine) -> Lane<O> {
    engine.lane(LaneConfig {
        max_batch_items: 1 << 20,
        max_batch_bytes: 8 << 30,
        gpu_max_batch_bytes: 8 << 30,
        max_wait: Duration::ZERO,
        concurrency: 1,
        max_age: Duration::from_secs(3600),
        cpu_max_bytes: 0,
        large_request_bytes: 0,
        max_batch_time: Duration::from_secs(3600),
    })
}

async fn submitted(lane: &Lane<Encode>, request: &EncodeRequest) -> Result<Encoded, SubmitError> {
    lane.submit(request.clone(), Context::default()).await.map(|done| done.response)
}

/// The engine splits the batch in half until the parts fit; a request that can never fit is rejected with the limit.
async fn a_batch_that_does_not_fit_is_split(device: &Device) -> Result<(), String> {
    let engine = engine(device)?;
    let lane = lane::<Encode>(&engine);
    let encoder = made(small())?;
    let some: Vec<_> = (0..4).map(|seed| texts(&encoder, 16, seed)).collect();
    let mut alone = vec![];
    for request in &some {
        alone.push(submitted(&lane, request).await.map_err(|error| error.to_string())?);
    }
    // About 20 MB of hidden states each.
    let crowd = join_all((0..64).map(|index| submitted(&lane, &some[index % 4]))).await;
    for (index, answer) in crowd.into_iter().enumerate() {
        let answer = answer.map_err(|error| format!("request {index} of 64: {error}"))?;
        expect(answer == alone[index % 4], || format!("request {index} has another result after the split"))?;
    }
    let counts = &engine.stats().lanes[0].counts;
    expect(counts.splits > 0 && counts.failures == 0, || format!("no batch was split, or one failed: {counts:?}"))?;
    match submitted(&lane, &texts(&encoder, 96, 1)).await {
        Err(SubmitError::TooLarge { measure: "bytes", limit: LIMIT, .. }) => {}
        other => return Err(format!("a request that never fits: {other:?}")),
    }
    // Larger than all of the worker's graphs, which could be evicted.
    memory_held_by_others_is_reported(device, &lane, &texts(&encoder, 48, 5)).await
}

/// A request that fails only because others hold the memory is rejected as such, and succeeds once they have freed it.
async fn memory_held_by_others_is_reported(
    device: &Device,
    lane: &Lane<Encode>,
    request: &EncodeRequest,
) -> Result<(), String> {
    let expected = submitted(lane, request).await.map_err(|error| error.to_string())?;
    {
        let backend = open(device)?;
        let hold = LIMIT - used(device, &backend)? - (4 << 20);
        let Backend::Cuda(worker) = &backend else { return Err("a GPU's backend".to_owned()) };
        let held =
            worker.alloc::<u8>(usize::try_from(hold).unwrap_or(usize::MAX)).map_err(|error| error.to_string())?;
        let refused = submitted(lane, request).await;
        drop(held);
        worker.synchronize().map_err(|error| error.to_string())?;
        match refused {
            Err(SubmitError::Op(OpError::OutOfMemory { requested, free, .. })) if requested + STEP > free => {}
            other => return Err(format!("a request next to {hold} bytes of others: {other:?}")),
        }
    }
    let again = submitted(lane, request).await.map_err(|error| error.to_string())?;
    expect(again == expected, || "another result after the error".to_owned())
}

/// A table of word vectors in numpy's format, all zeros.
fn table(folder: &Path, name: &str, rows: usize) -> Result<ModelSource, String> {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, 256), }}\n");
    let length = u16::try_from(header.len()).map_err(|error| error.to_string())?.to_le_bytes();
    let numbers = vec![0; rows * 1024];
    let path = folder.join(format!("{name}.npy"));
    let bytes = [b"\x93NUMPY\x01\x00".as_slice(), &length, header.as_bytes(), &numbers].concat();
    fs::write(&path, bytes).map_err(|error| error.to_string())?;
    Ok(ModelSource { name: name.to_owned(), path: path.to_string_lossy().into_owned(), ..ModelSource::default() })
}

/// Unloading a model returns its weights and its workspace to the driver, without a further operation.
async fn an_unloaded_model_gives_its_memory_back_at_once(device: &Device) -> Result<(), String> {
    const ROWS: usize = 40_000;
    let weights = ROWS as u64 * 1024;
    let engine = engine(device)?;
    let embedder = Embedder::new(vec![Model::builtin()], lane(&engine), lane(&engine));
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    // The first unload also frees what earlier tests left.
    let (_, before) = loaded_and_unloaded(device, &embedder, folder.path(), ROWS).await?;
    for _ in 0..3 {
        let (loaded, after) = loaded_and_unloaded(device, &embedder, folder.path(), ROWS).await?;
        expect(loaded.used_bytes >= before.used_bytes + weights, || format!("a table of {weights} bytes: {loaded:?}"))?;
        expect(after.used_bytes <= before.used_bytes, || format!("{after:?} when it is unloaded, {before:?} before"))?;
        let given_back = loaded.reserved_bytes.saturating_sub(after.reserved_bytes);
        expect(given_back >= weights / 2, || format!("{after:?} when it is unloaded, {loaded:?} before that"))?;
    }
    Ok(())
}

/// The pool's statistics after a table of `rows` rows has served a request, and after it is unloaded.
async fn loaded_and_unloaded(
    device: &Device,
    embedder: &Embedder,
    folder: &Path,
    rows: usize,
) -> Result<(PoolStats, PoolStats), String> {
    let pool = || device.pool_stats().ok_or_else(|| "a GPU has a pool".to_owned());
    let words = embedder.preload(table(folder, "words", rows)?).await.map_err(|error| error.to_string())?;
    let tokens = Input::Tokens { ids: vec![0], offsets: vec![0, 1] };
    let answer = embedder.embed(&words, tokens, &Options::default(), Context::default()).await;
    answer.map_err(|error| error.to_string())?;
    let loaded = pool()?;
    drop(words);
    embedder.unload("words").await.map_err(|error| error.to_string())?;
    Ok((loaded, pool()?))
}

/// The error names the model, its size and the free memory; the loaded model keeps serving, and a smaller one can be
/// loaded.
async fn a_model_that_does_not_fit_is_refused_by_the_daemon(device: &Device) -> Result<(), String> {
    let engine = engine(device)?;
    let embedder = Embedder::new(vec![Model::builtin()], lane(&engine), lane(&engine));
    let path = encoders().join("bert").to_string_lossy().into_owned();
    let bert = embedder
        .preload(ModelSource { name: "bert".to_owned(), path, ..ModelSource::default() })
        .await
        .map_err(|error| error.to_string())?;
    let options = Options::default();
    let text = || Input::Texts(vec!["the def".to_owned()]);
    let expected =
        embedder.embed(&bert, text(), &options, Context::default()).await.map_err(|error| error.to_string())?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    match embedder.preload(table(folder.path(), "words", 110_000)?).await {
        Err(ApiError::ModelTooLarge { message, requested, free, .. }) => {
            let names = ["model \"words\" with 112640000 bytes", "does not fit", "cuda:", "bytes requested", " free"];
            expect(names.iter().all(|name| message.contains(name)) && requested > free, || message.clone())?;
        }
        other => return Err(format!("a table of 112 MB in a pool of {LIMIT}: {other:?}")),
    }
    let again = embedder.embed(&bert, text(), &options, Context::default()).await.map_err(|error| error.to_string())?;
    expect(again.bytes == expected.bytes, || "another result after the error".to_owned())?;
    let smaller = embedder.preload(table(folder.path(), "words", 10_000)?).await.map_err(|error| error.to_string())?;
    let tokens = Input::Tokens { ids: vec![9_999], offsets: vec![0, 1] };
    embedder.embed(&smaller, tokens, &options, Context::default()).await.map(drop).map_err(|error| error.to_string())
}
