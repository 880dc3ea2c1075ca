//! Admission, draining and shutdown.

use std::{sync::Arc, time::Duration};

use accelerd_engine::{Context, Drained, Engine, EngineConfig, SubmitError};
use accelerd_kernels::Size;

use crate::fake::*;

#[tokio::test]
async fn a_full_engine_refuses_with_retry_after() {
    let engine = engine_with(1, EngineConfig { max_items: 10, max_bytes: 1000, ..engine_config() });
    let script = Script::gated();
    let lane = engine.lane::<Fake>(lane_config());
    let holder = spawn(&lane, Request { items: 8, bytes: 900, ..script.request(1) });
    script.entered(1).await;
    let submit = |items, bytes| lane.submit(Request { items, bytes, ..script.request(2) }, Context::default());
    let refused = submit(3, 1).await.expect_err("11 items");
    let SubmitError::Full { measure: "items", held: 8, limit: 10, asked: 3, retry_after } = refused else {
        panic!("{refused}")
    };
    assert!((Duration::from_millis(5)..=Duration::from_secs(5)).contains(&retry_after), "{retry_after:?}");
    let refused = submit(1, 101).await.expect_err("1001 bytes");
    assert!(matches!(refused, SubmitError::Full { measure: "bytes", held: 900, .. }), "{refused}");
    let refused = submit(11, 1).await.expect_err("more than the whole budget");
    assert!(matches!(refused, SubmitError::TooLarge { measure: "items", asked: 11, limit: 10 }), "{refused}");
    let refused = submit(1, 1001).await.expect_err("more than the whole budget");
    assert!(matches!(refused, SubmitError::TooLarge { measure: "bytes", asked: 1001, limit: 1000 }), "{refused}");
    script.open_gate();
    response(holder).await;
    assert_eq!(submit(10, 1000).await.expect("the whole budget is free").response, 4);
    let admission = engine.stats().admission;
    assert_eq!((admission.items, admission.refused_items, admission.refused_bytes), (0, 1, 1));
}

#[tokio::test]
async fn a_request_that_is_being_received_holds_its_part_of_the_budget() {
    let engine = engine_with(1, EngineConfig { max_items: 10, max_bytes: 1000, ..engine_config() });
    let lane = engine.lane::<Fake>(lane_config());
    let screen = || lane.screen(Size { items: 1, bytes: 600 }, 1, &Context::default());
    let arrival = screen().expect("all of it is free");
    let refused = screen().expect_err("1200 bytes");
    assert!(matches!(refused, SubmitError::Full { measure: "bytes", held: 600, asked: 600, .. }), "{refused}");
    let request = Request { bytes: 600, ..Script::new().request(1) };
    let answer = lane.submit_arrived(request, Context::default(), Some(Arc::new(arrival))).await;
    assert_eq!(answer.expect("it has its place").response, 2);
    drop(screen().expect("it is answered"));
    assert_eq!(engine.stats().admission.bytes, 0);
}

#[tokio::test]
async fn a_request_larger_than_device_memory_is_refused_with_the_limit() {
    let engine = engine_with(1, EngineConfig { max_bytes: u64::MAX, ..engine_config() });
    let memory = engine.devices()[0].0.info().memory_bytes;
    let lane = engine.lane::<Fake>(lane_config());
    let request = Request { bytes: memory + 1, ..Script::new().request(1) };
    let refused = lane.submit(request, Context::default()).await.expect_err("it exceeds the memory");
    assert!(matches!(refused, SubmitError::TooLarge { measure: "bytes", limit, .. } if limit == memory), "{refused}");
}

#[tokio::test]
async fn a_drain_answers_admitted_requests_and_refuses_new_ones() {
    let engine = Arc::new(engine());
    let script = Script::gated();
    let lane = engine.lane::<Fake>(lane_config());
    let blocker = block(&lane, &script).await;
    let tasks: Vec<_> = (0..20).map(|number| spawn(&lane, script.request(number))).collect();
    queued(&lane, 20).await;
    let draining = tokio::spawn({
        let engine = Arc::clone(&engine);
        async move { engine.drain(Duration::from_secs(3600)).await }
    });
    until(|| engine.stats().draining).await;
    let refused = lane.submit(script.request(99), Context::default()).await.expect_err("it drains");
    assert!(matches!(refused, SubmitError::Draining), "{refused}");
    assert!(!draining.is_finished());
    script.open_gate();
    assert_eq!(draining.await.expect("no panic"), Drained { complete: true, remaining: 0 });
    for task in tasks {
        response(task).await;
    }
    response(blocker).await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_times_out_returns_the_remaining_requests() {
    let engine = engine();
    let script = Script::gated();
    let lane = engine.lane::<Fake>(lane_config());
    let blocker = block(&lane, &script).await;
    let waiting = spawn(&lane, script.request(1));
    queued(&lane, 1).await;
    assert_eq!(engine.drain(Duration::from_secs(5)).await, Drained { complete: false, remaining: 2 });
    script.open_gate();
    assert_eq!((response(blocker).await, response(waiting).await), (2_000_000, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_the_engine_finishes_running_requests_and_refuses_queued_ones() {
    let engine = engine();
    let script = Script::gated();
    let lane = engine.lane::<Fake>(lane_config());
    let blocker = block(&lane, &script).await;
    let waiting = spawn(&lane, script.request(1));
    queued(&lane, 1).await;
    let dropped = tokio::task::spawn_blocking(move || drop(engine));
    assert!(matches!(error(waiting).await, SubmitError::Draining));
    script.open_gate();
    response(blocker).await;
    dropped.await.expect("no panic");
    let refused = lane.submit(script.request(2), Context::default()).await.expect_err("the engine is dropped");
    assert!(matches!(refused, SubmitError::Draining), "{refused}");
}

#[tokio::test]
async fn statistics_count_requests_and_launches() {
    let engine = engine();
    let script = Script::gated();
    let lane = engine.lane::<Fake>(lane_config());
    let blocker = block(&lane, &script).await;
    let tasks: Vec<_> = (0..31).map(|number| spawn(&lane, Request { items: 2, ..script.request(number) })).collect();
    queued(&lane, 31).await;
    let before = engine.stats().lanes.remove(0);
    assert_eq!((before.queued_requests, before.queued_items, before.queued_bytes), (31, 62, 31 * 16));
    assert_eq!(before.running_batches, 1);
    script.open_gate();
    for task in tasks {
        response(task).await;
    }
    response(blocker).await;
    let after = engine.stats().lanes.remove(0);
    assert_eq!((after.name, after.counts.batches, after.counts.requests, after.counts.items), ("fake", 2, 32, 63));
    assert_eq!((after.wait.count, after.execute.count), (32, 2));
    assert!(after.wait.p50 <= after.wait.p99 && after.wait.p99 <= after.wait.max);
    assert!((after.mean_batch_requests - 16.0).abs() < 1e-9);
    assert!((after.mean_fill_ratio - f64::midpoint(1.0, 62.0) / 64.0).abs() < 1e-9);
}

#[tokio::test]
async fn dropping_the_last_handle_closes_a_lane() {
    let engine = engine();
    let lane = engine.lane::<Fake>(lane_config());
    let clone = lane.clone();
    drop(lane);
    assert_eq!(engine.stats().lanes.len(), 1);
    drop(clone);
    assert!(engine.stats().lanes.is_empty());
}

#[test]
fn an_engine_needs_a_device() {
    assert!(Engine::start(vec![], engine_config()).is_err());
}

#[tokio::test]
async fn a_call_of_many_requests_is_refused_if_they_clearly_take_too_long_together() {
    let engine = engine();
    let script = Script::new();
    let lane = engine.lane::<Fake>(lane_config());
    let within = Context { deadline: Some(in_future(Duration::from_secs(60))), ..Context::default() };
    let check = |cost, cost_of_one| lane.check_time(cost, cost_of_one, &within);
    check(u64::MAX, 1).expect("times are unknown");
    for number in 0..4 {
        lane.submit(script.request(number), Context::default()).await.expect("it runs");
    }
    check(1, 1).expect("it takes no time");
    check(u64::MAX, u64::MAX).expect("the time of such requests is unknown");
    let refused = check(u64::MAX, 1).expect_err("it takes ages");
    assert!(matches!(refused, SubmitError::WouldMissDeadline { retry_after: None, .. }), "{refused}");
    assert!(refused.to_string().contains("longer deadline"), "{refused}");
    lane.check_time(u64::MAX, 1, &Context::default()).expect("it has no deadline");
}
