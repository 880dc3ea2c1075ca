//! Long batches share a device by turns, and end once nobody awaits them.

use std::time::Duration;

use accelerd_engine::{Context, Engine, EngineConfig, LaneConfig, SubmitError};

use crate::fake::*;

/// An engine with one turn on its only device, in which every batch of a large request is long.
fn sharing_engine() -> Engine {
    engine_with(
        1,
        EngineConfig { cpu_workers: 2, cpu_paused_batches: 4, cpu_slice: Duration::from_nanos(1), ..engine_config() },
    )
}

/// Every request is large, and has a batch of its own.
fn large_requests() -> LaneConfig {
    LaneConfig { max_batch_items: 1, concurrency: 4, large_request_bytes: 1, ..lane_config() }
}

#[tokio::test]
async fn a_long_batch_lets_others_have_their_turn() {
    let engine = sharing_engine();
    let script = Script::new();
    let lane = engine.lane::<Fake>(large_requests());
    let spinning: Vec<_> =
        (0..2).map(|number| spawn(&lane, Request { fault: Fault::Spin, ..script.request(number) })).collect();
    until(|| script.launches().len() == 2).await;
    // The others end only once it has run, and there is one turn.
    let release = spawn(&lane, Request { fault: Fault::Release, ..script.request(2) });
    assert_eq!(response(release).await, 4);
    for (number, task) in (0..).zip(spinning) {
        assert_eq!(response(task).await, 2 * number);
    }
}

#[tokio::test]
async fn a_short_request_is_answered_while_long_batches_use_all_turns() {
    let engine = sharing_engine();
    let script = Script::new();
    let lane = engine.lane::<Fake>(LaneConfig { large_request_bytes: 100, ..large_requests() });
    let spin = |number| Request { fault: Fault::Spin, bytes: 101, ..script.request(number) };
    let spinning: Vec<_> = (0..4).map(|number| spawn(&lane, spin(number))).collect();
    until(|| script.launches().len() == 4).await;
    let short = Request { fault: Fault::Release, ..script.request(9) };
    let done = lane.submit(short, Context::default()).await.expect("a worker is kept for it");
    assert_eq!(done.response, 18);
    for task in spinning {
        response(task).await;
    }
}

#[tokio::test]
async fn a_batch_that_nobody_awaits_is_abandoned() {
    let engine = sharing_engine();
    let script = Script::new();
    let lane = engine.lane::<Fake>(large_requests());
    let spinning = spawn(&lane, Request { fault: Fault::Spin, ..script.request(1) });
    script.entered(1).await;
    spinning.abort();
    until(|| engine.is_idle()).await;
    assert_eq!(engine.stats().lanes[0].counts.cancelled_running, 1);
}

#[tokio::test]
async fn a_batch_is_abandoned_at_the_last_deadline_of_its_callers() {
    let engine = sharing_engine();
    let script = Script::new();
    let lane = engine.lane::<Fake>(large_requests());
    let deadline = Some(in_future(Duration::from_millis(50)));
    let request = Request { fault: Fault::Spin, ..script.request(1) };
    let late = lane.submit(request, Context { deadline, ..Context::default() }).await.expect_err("it never ends");
    assert!(matches!(late, SubmitError::DeadlineExceeded { .. }), "{late}");
    until(|| engine.is_idle()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_the_engine_ends_batches_that_wait_for_a_turn() {
    let engine = sharing_engine();
    let script = Script::new();
    let lane = engine.lane::<Fake>(large_requests());
    let spinning: Vec<_> =
        (0..3).map(|number| spawn(&lane, Request { fault: Fault::Spin, ..script.request(number) })).collect();
    until(|| engine.stats().lanes[0].running_batches == 3).await;
    spinning.iter().for_each(tokio::task::JoinHandle::abort);
    tokio::task::spawn_blocking(move || drop(engine)).await.expect("no panic");
}
