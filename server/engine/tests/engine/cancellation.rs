//! Cancellation at every stage, by a deadline or by dropping the future.

use std::time::Duration;

use accelerd_engine::{Context, SubmitError};

use crate::fake::*;

fn within(after: Duration) -> Context {
    Context { deadline: Some(in_future(after)), ..Context::default() }
}

#[tokio::test(start_paused = true)]
async fn a_queued_request_fails_at_its_deadline_and_is_not_launched() {
    let engine = engine();
    let script = Script::gated();
    let lane = engine.lane::<Fake>(lane_config());
    let blocker = block(&lane, &script).await;
    let late = lane.submit(script.request(1), within(Duration::from_secs(5))).await.expect_err("the gate is closed");
    let SubmitError::DeadlineExceeded { waited } = late else { panic!("{late}") };
    assert!(waited >= Duration::from_secs(5), "{waited:?}");
    assert_eq!(lane.queue_len(), 0);
    assert_eq!(engine.stats().admission.requests, 1, "only the one at the gate");
    script.open_gate();
    response(blocker).await;
    assert_eq!(script.launches().len(), 1);
    let counts = engine.stats().lanes[0].counts;
    assert_eq!((counts.expired_queued, counts.cancelled_queued), (1, 0));
}

#[tokio::test]
async fn a_request_past_its_deadline_is_not_queued() {
    let engine = engine();
    let script = Script::new();
    let lane = engine.lane::<Fake>(lane_config());
    let late = lane.submit(script.request(1), within(Duration::ZERO)).await.expect_err("it is too late");
    assert!(matches!(late, SubmitError::DeadlineExceeded { waited: Duration::ZERO }), "{late}");
    assert!(script.launches().is_empty() && engine.is_idle());
    assert_eq!(engine.stats().lanes[0].counts.expired_queued, 1);
}

#[tokio::test]
async fn a_deadline_during_a_launch_answers_the_caller_and_keeps_the_budget_reserved() {
    let engine = engine();
    let script = Script::gated();
    let lane = engine.lane::<Fake>(lane_config());
    let running = spawn_with(&lane, script.request(1), within(Duration::from_secs(3600)));
    script.entered(1).await;
    // From here on, the clock advances to the deadline as soon as the runtime is idle.
    tokio::time::pause();
    assert!(matches!(error(running).await, SubmitError::DeadlineExceeded { .. }));
    assert!(!engine.is_idle(), "the device still works on it");
    script.open_gate();
    let counts = || engine.stats().lanes[0].counts;
    until(|| counts().cancelled_running + counts().expired_running == 1).await;
    assert!(engine.is_idle());
}

#[tokio::test]
async fn dropping_the_future_removes_the_request_from_the_queue() {
    let engine = engine();
    let script = Script::gated();
    let lane = engine.lane::<Fake>(lane_config());
    let blocker = block(&lane, &script).await;
    let kept = spawn(&lane, script.request(1));
    let dropped = spawn(&lane, script.request(2));
    queued(&lane, 2).await;
    dropped.abort();
    queued(&lane, 1).await;
    assert_eq!(engine.stats().admission.requests, 2, "its budget is released");
    script.open_gate();
    assert_eq!((response(blocker).await, response(kept).await), (2_000_000, 2));
    assert_eq!(script.launches()[1..], [vec![1]]);
    assert_eq!(engine.stats().lanes[0].counts.cancelled_queued, 1);
}

#[tokio::test]
async fn dropping_the_future_of_a_running_request_does_not_affect_its_batch() {
    let engine = engine();
    let script = Script::gated();
    let lane = engine.lane::<Fake>(lane_config());
    let blocker = block(&lane, &script).await;
    let kept = spawn(&lane, script.request(1));
    let dropped = spawn(&lane, script.request(2));
    queued(&lane, 2).await;
    script.let_one_through();
    script.entered(2).await;
    dropped.abort();
    assert!(dropped.await.expect_err("it was aborted").is_cancelled());
    script.open_gate();
    assert_eq!((response(blocker).await, response(kept).await), (2_000_000, 2));
    until(|| engine.is_idle()).await;
    assert_eq!(script.launches()[1..], [vec![1, 2]]);
    until(|| engine.stats().lanes[0].counts.cancelled_running == 1).await;
}

#[tokio::test]
async fn cancelling_a_running_request_is_counted() {
    let engine = engine();
    let script = Script::gated();
    let lane = engine.lane::<Fake>(lane_config());
    let dropped = block(&lane, &script).await;
    dropped.abort();
    assert!(dropped.await.expect_err("it was aborted").is_cancelled());
    assert!(!engine.is_idle(), "the device still works on it");
    script.open_gate();
    until(|| engine.stats().lanes[0].counts.cancelled_running == 1).await;
    assert!(engine.is_idle());
}

#[tokio::test]
async fn a_failed_batch_is_not_retried_for_cancelled_requests() {
    let engine = engine();
    let script = Script::gated();
    let lane = engine.lane::<Fake>(lane_config());
    let blocker = block(&lane, &script).await;
    let request = |number| Request { fault: Fault::Failed, ..script.request(number) };
    let tasks: Vec<_> = (0..2).map(|number| spawn(&lane, request(number))).collect();
    queued(&lane, 2).await;
    // The blocker passes the gate alone; both requests are cancelled while their launch waits at it.
    script.let_one_through();
    script.entered(2).await;
    for task in tasks {
        task.abort();
        assert!(task.await.expect_err("it was aborted").is_cancelled());
    }
    script.open_gate();
    response(blocker).await;
    until(|| engine.is_idle()).await;
    assert_eq!(script.launches().len(), 2, "the halves are not launched");
}
