//! Callers that go away: by deadline or by dropping their future, at every stage.

use std::time::Duration;

use accelerd_engine::{Context, SubmitError};

use crate::fake::*;

fn within(after: Duration) -> Context {
    Context { deadline: Some(in_future(after)), ..Context::default() }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_in_the_queue_answers_at_once_and_launches_nothing() {
    let (engine, script) = (engine(), Script::gated());
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
async fn a_deadline_that_has_passed_is_not_queued() {
    let (engine, script) = (engine(), Script::new());
    let lane = engine.lane::<Fake>(lane_config());
    let late = lane.submit(script.request(1), within(Duration::ZERO)).await.expect_err("it is too late");
    assert!(matches!(late, SubmitError::DeadlineExceeded { waited: Duration::ZERO }), "{late}");
    assert!(script.launches().is_empty() && engine.is_idle());
    assert_eq!(engine.stats().lanes[0].counts.expired_queued, 1);
}

#[tokio::test]
async fn a_deadline_while_it_runs_frees_the_caller_but_not_the_budget() {
    let (engine, script) = (engine(), Script::gated());
    let lane = engine.lane::<Fake>(lane_config());
    let running = spawn_with(&lane, script.request(1), within(Duration::from_secs(3600)));
    script.entered(1).await;
    // From here on, time jumps to the deadline as soon as there is nothing else to do.
    tokio::time::pause();
    assert!(matches!(error(running).await, SubmitError::DeadlineExceeded { .. }));
    assert!(!engine.is_idle(), "the device still works on it");
    script.open_gate();
    let gone = || engine.stats().lanes[0].counts;
    until(|| gone().cancelled_running + gone().expired_running == 1).await;
    assert!(engine.is_idle());
}

#[tokio::test]
async fn a_dropped_future_leaves_the_queue() {
    let (engine, script) = (engine(), Script::gated());
    let lane = engine.lane::<Fake>(lane_config());
    let blocker = block(&lane, &script).await;
    let (kept, dropped) = (spawn(&lane, script.request(1)), spawn(&lane, script.request(2)));
    queued(&lane, 2).await;
    dropped.abort();
    queued(&lane, 1).await;
    assert_eq!(engine.stats().admission.requests, 2, "its budget is free");
    script.open_gate();
    assert_eq!((response(blocker).await, response(kept).await), (2_000_000, 2));
    assert_eq!(script.launches()[1..], [vec![1]]);
    assert_eq!(engine.stats().lanes[0].counts.cancelled_queued, 1);
}

#[tokio::test]
async fn a_future_dropped_while_it_runs_does_not_hurt_its_neighbours() {
    let (engine, script) = (engine(), Script::gated());
    let lane = engine.lane::<Fake>(lane_config());
    let blocker = block(&lane, &script).await;
    let (kept, dropped) = (spawn(&lane, script.request(1)), spawn(&lane, script.request(2)));
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
async fn a_caller_that_leaves_a_running_batch_is_counted() {
    let (engine, script) = (engine(), Script::gated());
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
async fn a_failed_batch_is_not_tried_again_for_callers_that_left() {
    let (engine, script) = (engine(), Script::gated());
    let lane = engine.lane::<Fake>(lane_config());
    let blocker = block(&lane, &script).await;
    let request = |number| Request { fault: Fault::Failed, ..script.request(number) };
    let tasks: Vec<_> = (0..2).map(|number| spawn(&lane, request(number))).collect();
    queued(&lane, 2).await;
    // The blocker passes alone; both leave while their launch stands at the gate.
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
