//! A GPU without memory: what the CPU can compute, it computes.

use std::{
    sync::{Arc, atomic::Ordering::SeqCst},
    time::Duration,
};

use accelerd_engine::{Completion, Context, CpuFallback, Engine, EngineConfig, Lane, SubmitError};
use accelerd_kernels::{Device, DeviceId, OpError, Size, cpu::Pool};

use super::fake::{
    Fake, Outcome, Request, Script, block, engine_config, error, lane_config, queued, response, spawn, stand_ins,
};

const GPU: DeviceId = DeviceId::Cuda(0);
const HOUR: Duration = Duration::from_secs(3600);

/// A GPU whose memory suffices for launches of at most this many items, and the CPU.
fn full(items: u64, memory_retry: Duration) -> (Engine, Lane<Fake>, Arc<Script>) {
    let config = EngineConfig { memory_retry, ..engine_config() };
    let engine = Engine::start(stand_ins(1), config).expect("the pools open");
    let lane = engine.lane::<Fake>(lane_config());
    let script = Script::new();
    script.gpu_oom_above.store(items, SeqCst);
    (engine, lane, script)
}

async fn submit(lane: &Lane<Fake>, request: Request) -> Outcome {
    lane.submit(request, Context::default()).await
}

async fn device(lane: &Lane<Fake>, request: Request) -> DeviceId {
    let expected = 2 * request.number;
    let Completion { response, device, .. } = submit(lane, request).await.expect("it is answered");
    assert_eq!(response, expected);
    device
}

/// The requests that fell back.
fn fallbacks(engine: &Engine) -> u64 {
    engine.cpu_fallbacks().iter().map(|fallback| fallback.requests).sum()
}

#[tokio::test]
async fn a_request_that_a_gpu_has_no_memory_for_runs_on_the_cpu_and_is_counted() {
    let (engine, lane, script) = full(10, Duration::ZERO);
    let large = |number| Request { items: 11, bytes: 100, ..script.request(number) };
    assert_eq!(device(&lane, script.request(1)).await, GPU);
    assert_eq!(device(&lane, large(2)).await, DeviceId::Cpu);
    assert_eq!(device(&lane, Request { affinity: Some(GPU), ..large(3) }).await, DeviceId::Cpu);
    assert_eq!(device(&lane, script.request(4)).await, GPU, "a smaller request fits");
    let counted = CpuFallback { lane: "fake", device: GPU, requests: 2, items: 22, bytes: 200 };
    assert_eq!(engine.cpu_fallbacks(), [counted]);
    let counts = engine.stats().lanes[0].counts;
    assert_eq!((counts.failures, counts.rerouted), (0, 0));
    assert!(engine.is_idle());
}

#[tokio::test]
async fn a_gpu_that_has_memory_again_is_used_again() {
    let (engine, lane, script) = full(0, Duration::ZERO);
    assert_eq!(device(&lane, script.request(1)).await, DeviceId::Cpu);
    script.gpu_oom_above.store(u64::MAX, SeqCst);
    assert_eq!(device(&lane, script.request(2)).await, GPU);
    assert_eq!(fallbacks(&engine), 1);
}

#[tokio::test]
async fn a_batch_is_split_before_any_of_it_leaves_the_gpu() {
    let (engine, lane, script) = full(10, Duration::ZERO);
    script.close_gate();
    let blocker = block(&lane, &script).await;
    let tasks: Vec<_> = (0..16).map(|number| spawn(&lane, script.request(number))).collect();
    let large = spawn(&lane, Request { items: 11, ..script.request(16) });
    queued(&lane, 17).await;
    script.open_gate();
    response(blocker).await;
    for (number, task) in (0..).zip(tasks) {
        let completion = task.await.expect("no panic").expect("it is answered");
        assert_eq!((completion.response, completion.device), (2 * number, GPU));
    }
    let completion = large.await.expect("no panic").expect("it is answered");
    assert_eq!((completion.response, completion.device), (32, DeviceId::Cpu));
    assert_eq!(fallbacks(&engine), 1);
}

#[tokio::test]
async fn a_request_that_left_the_gpu_does_not_return_to_it() {
    let (engine, lane, script) = full(0, Duration::ZERO);
    script.oom_above.store(0, SeqCst);
    let failed = submit(&lane, script.request(1)).await.expect_err("the CPU has no memory either");
    let SubmitError::Op(OpError::OutOfMemory { device, .. }) = failed else { panic!("{failed}") };
    assert_eq!(device, DeviceId::Cpu);
    assert_eq!(script.launches(), [[1], [1]], "one on each device");
    assert_eq!((fallbacks(&engine), engine.stats().lanes[0].counts.failures), (1, 1));
}

#[tokio::test]
async fn requests_of_a_kind_go_to_the_cpu_at_once_while_the_gpu_is_known_to_be_full() {
    let (engine, lane, script) = full(10, HOUR);
    let of_size = |number, bytes| Request { items: 11, bytes, ..script.request(number) };
    assert_eq!(device(&lane, of_size(1, 100)).await, DeviceId::Cpu);
    assert_eq!(script.launches().len(), 2);
    for number in 2..10 {
        assert_eq!(device(&lane, of_size(number, 100)).await, DeviceId::Cpu);
    }
    assert_eq!(script.launches().len(), 10, "the GPU was not tried again");
    assert_eq!(device(&lane, Request { key: 1, ..script.request(10) }).await, GPU, "another kind");
    assert_eq!(device(&lane, Request { items: 1, ..of_size(11, 99) }).await, GPU, "a smaller one");
    assert_eq!(fallbacks(&engine), 9, "each call is counted");
}

#[tokio::test]
async fn the_rest_of_a_batch_follows_its_first_request_to_the_cpu() {
    let (engine, lane, script) = full(0, HOUR);
    script.close_gate();
    let blocker = block(&lane, &script).await;
    let tasks: Vec<_> = (0..64).map(|number| spawn(&lane, script.request(number))).collect();
    queued(&lane, 64).await;
    script.open_gate();
    response(blocker).await;
    for (number, task) in (0..).zip(tasks) {
        let completion = task.await.expect("no panic").expect("it is answered");
        assert_eq!((completion.response, completion.device), (2 * number, DeviceId::Cpu));
    }
    assert_eq!(fallbacks(&engine), 65);
    let counts = engine.stats().lanes[0].counts;
    assert_eq!((counts.splits, counts.failures), (6, 0), "down to the first request, and no further");
}

#[tokio::test]
async fn what_the_cpu_cannot_read_or_the_caller_wants_on_the_gpu_fails_with_the_figures() {
    let (engine, lane, script) = full(0, HOUR);
    let resident = Request { affinity: Some(GPU), is_on_host: false, ..script.request(1) };
    let size = Size { items: 1, bytes: 16 };
    let wanted = Context { no_cpu_fallback: true, ..Context::default() };
    for (request, context) in [(resident, Context::default()), (script.request(2), wanted.clone())] {
        let failed = lane.submit(request, context).await.expect_err("the GPU is full");
        assert!(matches!(failed, SubmitError::Op(OpError::OutOfMemory { device: GPU, .. })), "{failed}");
        assert!(!lane.falls_back(&failed, size, &wanted));
    }
    assert_eq!(fallbacks(&engine), 0);
    assert_eq!(engine.stats().lanes[0].counts.failures, 2);
}

#[tokio::test]
async fn a_caller_that_moves_the_input_of_a_failed_request_itself_is_counted() {
    let (engine, lane, script) = full(0, HOUR);
    let resident = Request { affinity: Some(GPU), is_on_host: false, ..script.request(1) };
    let failed = submit(&lane, resident.clone()).await.expect_err("the GPU is full");
    let context = Context::default();
    assert!(lane.falls_back(&failed, Size { items: 5, bytes: 7 }, &context));
    let moved = Request { affinity: Some(DeviceId::Cpu), is_on_host: true, ..resident };
    assert_eq!(device(&lane, moved).await, DeviceId::Cpu);
    let counted = CpuFallback { lane: "fake", device: GPU, requests: 1, items: 5, bytes: 7 };
    assert_eq!(engine.cpu_fallbacks(), [counted]);
    let other = SubmitError::Op(OpError::Invalid("poison".to_owned()));
    assert!(!lane.falls_back(&other, Size::default(), &context));
}

#[tokio::test]
async fn without_a_cpu_the_error_of_the_gpu_is_the_answer() {
    let gpu = Device::Cpu(Pool::stand_in(GPU, 1).expect("a thread"));
    let engine = Engine::start(vec![gpu], engine_config()).expect("the pool opens");
    let lane = engine.lane::<Fake>(lane_config());
    let script = Script::new();
    script.gpu_oom_above.store(0, SeqCst);
    let error = error(spawn(&lane, script.request(1))).await;
    assert!(matches!(error, SubmitError::Op(OpError::OutOfMemory { device: GPU, .. })), "{error}");
    assert_eq!(engine.cpu_fallbacks(), []);
}

#[tokio::test]
async fn a_stand_in_whose_memory_is_full_launches_nothing() {
    let devices = stand_ins(1);
    let Device::Cpu(pool) = devices[0].clone() else { panic!("a pool stands in") };
    let engine = Engine::start(devices, engine_config()).expect("the pools open");
    let lane = engine.lane::<Fake>(lane_config());
    let script = Script::new();
    pool.set_full(true);
    assert_eq!(device(&lane, script.request(1)).await, DeviceId::Cpu);
    pool.set_full(false);
    assert_eq!(device(&lane, script.request(2)).await, GPU);
    assert_eq!(script.launches(), [[1], [2]]);
}

#[tokio::test]
async fn another_gpu_with_memory_is_preferred_to_the_cpu() {
    for memory_retry in [Duration::ZERO, HOUR] {
        let devices = stand_ins(2);
        let pool = |device: &Device| match device {
            Device::Cpu(pool) => Arc::clone(pool),
            Device::Cuda(_) => panic!("a pool stands in"),
        };
        let pools: Vec<_> = devices.iter().map(pool).collect();
        let config = EngineConfig { memory_retry, ..engine_config() };
        let engine = Engine::start(devices, config).expect("the pools open");
        let lane = engine.lane::<Fake>(lane_config());
        let script = Script::new();
        pools[0].set_full(true);
        for number in 0..10 {
            assert_eq!(device(&lane, script.request(number)).await, DeviceId::Cuda(1));
        }
        let pinned = Request { affinity: Some(GPU), ..script.request(10) };
        assert_eq!(device(&lane, pinned).await, DeviceId::Cpu, "the data is on the other GPU, and on the host");
        assert_eq!(fallbacks(&engine), 1);
        pools[1].set_full(true);
        for number in 11..20 {
            assert_eq!(device(&lane, script.request(number)).await, DeviceId::Cpu);
        }
        assert_eq!(fallbacks(&engine), 10, "each once, although both GPUs are full");
    }
}
