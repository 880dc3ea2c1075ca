//! Trimming memory with sleeping, busy and stopped workers.

use std::time::Duration;

use accelerd_engine::EngineConfig;
use tokio::time::timeout;

use crate::fake::*;

/// Longer than any of these waits takes: it turns a hang into a failure.
const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn sleeping_workers_are_woken_to_trim() {
    let engine = engine_with(2, EngineConfig { cpu_workers: 3, ..engine_config() });
    let lane = engine.lane::<Fake>(lane_config());
    let other = engine.lane::<Fake<1>>(lane_config());
    for _ in 0..50 {
        timeout(LONG, lane.trim()).await.expect("every worker is woken");
    }
    // Two requests before either is awaited.
    let one = lane.trim();
    let two = other.trim();
    timeout(LONG, two).await.expect("every worker is woken");
    timeout(Duration::ZERO, one).await.expect("the later trim completes the earlier one");
}

#[tokio::test]
async fn a_busy_worker_trims_after_its_batch_and_before_the_next() {
    let engine = engine();
    let script = Script::gated();
    let lane = engine.lane::<Fake>(lane_config());
    let blocker = block(&lane, &script).await;
    let next = spawn(&lane, script.request(1));
    queued(&lane, 1).await;
    let mut trimmed = Box::pin(lane.trim());
    assert!(timeout(Duration::ZERO, &mut trimmed).await.is_err(), "its only worker waits at the gate");
    script.let_one_through();
    response(blocker).await;
    timeout(LONG, trimmed).await.expect("the worker is free");
    script.entered(2).await;
    assert!(!next.is_finished(), "the next request waits at the gate");
    script.open_gate();
    response(next).await;
}

#[tokio::test]
async fn trim_does_not_wait_for_a_lost_device_or_a_stopped_engine() {
    let engine = engine_with(2, engine_config());
    let script = Script::new();
    let lane = engine.lane::<Fake>(lane_config());
    script.losses.store(1, std::sync::atomic::Ordering::SeqCst);
    let request = Request { fault: Fault::DeviceLost, ..script.request(1) };
    assert_eq!(response(spawn(&lane, request)).await, 2, "the other device answers");
    timeout(LONG, lane.trim()).await.expect("the other device's worker is woken");
    let waiting = lane.trim();
    drop(engine);
    timeout(LONG, waiting).await.expect("all workers have stopped");
    timeout(LONG, lane.trim()).await.expect("no worker is running");
}
