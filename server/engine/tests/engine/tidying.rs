//! Memory that is given back when the engine is told: by workers that sleep, by workers at work, and by none that are gone.

use std::time::Duration;

use accelerd_engine::EngineConfig;
use tokio::time::timeout;

use crate::fake::*;

/// Far more than it takes; what never happens fails by it.
const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn workers_that_sleep_are_woken_to_give_back_what_they_hold() {
    let engine = engine_with(2, EngineConfig { cpu_workers: 3, ..engine_config() });
    let (lane, other) = (engine.lane::<Fake>(lane_config()), engine.lane::<Fake<1>>(lane_config()));
    for _ in 0..50 {
        timeout(LONG, lane.tidy()).await.expect("every worker is woken");
    }
    // Told twice before anybody waits.
    let (one, two) = (lane.tidy(), other.tidy());
    timeout(LONG, two).await.expect("every worker is woken");
    timeout(Duration::ZERO, one).await.expect("what was asked for before is done as well");
}

#[tokio::test]
async fn a_worker_at_work_gives_back_when_its_batch_is_done_and_before_the_next() {
    let (engine, script) = (engine(), Script::gated());
    let lane = engine.lane::<Fake>(lane_config());
    let blocker = block(&lane, &script).await;
    let next = spawn(&lane, script.request(1));
    queued(&lane, 1).await;
    let mut tidied = Box::pin(lane.tidy());
    assert!(timeout(Duration::ZERO, &mut tidied).await.is_err(), "its only worker stands at the gate");
    script.let_one_through();
    response(blocker).await;
    timeout(LONG, tidied).await.expect("the worker is free");
    script.entered(2).await;
    assert!(!next.is_finished(), "the next one stands at the gate");
    script.open_gate();
    response(next).await;
}

#[tokio::test]
async fn nobody_waits_for_the_workers_of_a_lost_device_or_an_ended_engine() {
    let (engine, script) = (engine_with(2, engine_config()), Script::new());
    let lane = engine.lane::<Fake>(lane_config());
    script.losses.store(1, std::sync::atomic::Ordering::SeqCst);
    let request = Request { fault: Fault::Lose, ..script.request(1) };
    assert_eq!(response(spawn(&lane, request)).await, 2, "by the other device");
    timeout(LONG, lane.tidy()).await.expect("the other device's worker is woken");
    let waiting = lane.tidy();
    drop(engine);
    timeout(LONG, waiting).await.expect("there is nobody left");
    timeout(LONG, lane.tidy()).await.expect("there was nobody");
}
