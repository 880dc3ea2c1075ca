//! Launches that do not end: a GPU that hangs is lost alone, its callers are answered, and nobody waits for its thread.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use accelerd_engine::{Context, Drained, Engine, Lane, LossCause, SubmitError};
use accelerd_kernels::{DeviceId, OpError};

use crate::fake::*;

/// An engine with stand-ins of GPUs and the CPU, and a lane.
fn engine_of(gpus: u32) -> (Engine, Lane<Fake>) {
    let engine = Engine::start(stand_ins(gpus), engine_config()).expect("the pools open");
    let lane = engine.lane(lane_config());
    (engine, lane)
}

/// A time at which everything that runs now is overdue.
fn overdue() -> Instant {
    Instant::now() + 2 * engine_config().hang_timeout
}

#[tokio::test]
async fn a_gpu_that_hangs_is_lost_alone_and_its_callers_are_answered() {
    let (engine, lane) = engine_of(2);
    let stuck = Script::gated();
    let free = Script::new();
    let hung = spawn(&lane, Request { affinity: Some(DeviceId::Cuda(0)), ..stuck.request(1) });
    stuck.entered(1).await;
    let pinned = spawn(&lane, Request { affinity: Some(DeviceId::Cuda(0)), ..free.request(2) });
    let busy = spawn(&lane, Request { bytes: 100_000, affinity: Some(DeviceId::Cuda(1)), ..stuck.request(3) });
    stuck.entered(2).await;
    let movable = spawn(&lane, free.request(4));
    queued(&lane, 2).await;
    // The launch on the second GPU began later, but is as overdue by then: both hang.
    engine.check_running(Instant::now());
    assert!(engine.losses().borrow().is_empty(), "nothing is overdue yet");
    engine.check_running(overdue());
    for (task, device) in [(hung, DeviceId::Cuda(0)), (busy, DeviceId::Cuda(1))] {
        let error = error(task).await;
        let SubmitError::Op(OpError::DeviceLost { device: lost, reason, .. }) = error else { panic!("{error}") };
        assert_eq!(lost, device);
        assert!(reason.starts_with("a batch of lane fake with 1 requests has been running on cuda:"), "{reason}");
    }
    assert!(matches!(error(pinned).await, SubmitError::Op(OpError::DeviceLost { .. })));
    let completion = movable.await.expect("no panic").expect("the CPU answers");
    assert_eq!((completion.response, completion.device), (8, DeviceId::Cpu));
    assert_eq!(engine.drain(Duration::ZERO).await, Drained { complete: true, remaining: 0 }, "nothing is held");
    assert!(engine.losses().borrow().iter().all(|loss| loss.cause == LossCause::Hang));
    // The stuck launches return later.
    stuck.open_gate();
    until(|| engine.running().is_empty()).await;
    let counts = engine.stats().lanes[0].counts;
    assert_eq!((counts.cancelled_running, counts.failures), (0, 0), "late results are discarded");
}

#[tokio::test]
async fn other_gpus_serve_on_while_one_hangs() {
    let (engine, lane) = engine_of(2);
    let stuck = Script::gated();
    let free = Script::new();
    let hung = spawn(&lane, stuck.request(1));
    stuck.entered(1).await;
    engine.check_running(overdue());
    assert!(matches!(error(hung).await, SubmitError::Op(OpError::DeviceLost { device: DeviceId::Cuda(0), .. })));
    let later = lane.submit(free.request(2), Context::default()).await.expect("the other GPU answers");
    assert_eq!(later.device, DeviceId::Cuda(1));
    // Nobody waits for the stuck worker.
    lane.trim().await;
    stuck.open_gate();
}

#[tokio::test]
async fn callers_of_the_halves_of_a_batch_are_answered_as_well() {
    let (engine, lane) = engine_of(1);
    let block = Script::gated();
    let failing = Script::new();
    let blocker = spawn(&lane, Request { key: 9, ..block.request(0) });
    block.entered(1).await;
    let requests = (1..=4).map(|number| Request { fault: Fault::Failed, ..failing.request(number) });
    let tasks: Vec<_> = requests.map(|request| spawn(&lane, request)).collect();
    queued(&lane, 4).await;
    // The launch of all four passes and fails; the first half stops at the gate, the second waits for it.
    failing.let_one_through();
    block.open_gate();
    failing.entered(2).await;
    engine.check_running(overdue());
    for task in tasks {
        assert!(matches!(error(task).await, SubmitError::Op(OpError::DeviceLost { .. })));
    }
    assert_eq!(response(blocker).await, 0);
    failing.open_gate();
}

#[tokio::test]
async fn a_slow_cpu_is_not_lost() {
    let engine = engine();
    let script = Script::gated();
    let lane = engine.lane::<Fake>(lane_config());
    let slow = spawn(&lane, script.request(3));
    script.entered(1).await;
    engine.check_running(overdue());
    script.open_gate();
    assert_eq!(response(slow).await, 6);
    assert!(engine.losses().borrow().is_empty());
}

#[tokio::test]
async fn stopping_names_what_hangs_and_does_not_wait_for_it() {
    let (engine, lane) = engine_of(1);
    let stuck = Script::gated();
    let hung = spawn(&lane, stuck.request(1));
    stuck.entered(1).await;
    let running: Vec<_> =
        engine.running().into_iter().map(|batch| (batch.device, batch.lane, batch.requests)).collect();
    assert_eq!(running, [(DeviceId::Cuda(0), "fake", 1)]);
    engine.check_running(overdue());
    error(hung).await;
    // A given-up worker is not waited for, whatever the limit.
    let left = engine.stop_within(Duration::from_secs(3600));
    assert_eq!(left.iter().map(|batch| (batch.device, batch.lane)).collect::<Vec<_>>(), [(DeviceId::Cuda(0), "fake")]);
    drop((engine, lane));
    stuck.open_gate();
    // The thread holds its share of the script until it has ended.
    until(|| Arc::strong_count(&stuck) == 1).await;
}

#[tokio::test]
async fn stopping_waits_for_a_running_batch_within_its_limit_only() {
    let (engine, lane) = engine_of(0);
    let script = Script::gated();
    let slow = spawn(&lane, script.request(1));
    script.entered(1).await;
    let left = engine.stop_within(Duration::ZERO);
    assert_eq!(left.iter().map(|batch| (batch.device, batch.lane)).collect::<Vec<_>>(), [(DeviceId::Cpu, "fake")]);
    script.open_gate();
    assert_eq!(response(slow).await, 2, "the worker that was left behind still answers");
}
