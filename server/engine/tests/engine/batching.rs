//! Which requests share a launch, and in which order.

use std::{sync::Arc, time::Duration};

use accelerd_engine::{Context, EngineConfig, LaneConfig, Priority};

use crate::fake::*;

#[tokio::test]
async fn requests_that_arrive_during_a_batch_share_the_next_launch() {
    let engine = engine();
    let script = Script::gated();
    let lane = engine.lane::<Fake>(lane_config());
    let blocker = block(&lane, &script).await;
    let tasks: Vec<_> = (0..64).map(|number| spawn(&lane, script.request(number))).collect();
    queued(&lane, 64).await;
    script.open_gate();
    for (number, task) in (0..).zip(tasks) {
        let done = task.await.expect("no panic").expect("it is answered");
        assert_eq!((done.response, done.batch_requests), (2 * number, 64));
    }
    response(blocker).await;
    assert_eq!(script.launches().len(), 2);
}

#[tokio::test]
async fn two_alternating_keys_still_fill_their_batches() {
    let engine = engine();
    let script = Script::gated();
    let lane = engine.lane::<Fake>(lane_config());
    let blocker = block(&lane, &script).await;
    let request = |number: u64| Request { key: u32::from(number.is_multiple_of(2)), ..script.request(number) };
    let tasks: Vec<_> = (0..512).map(|number| spawn(&lane, request(number))).collect();
    queued(&lane, 512).await;
    script.open_gate();
    for (number, task) in (0..).zip(tasks) {
        assert_eq!(response(task).await, 2 * number);
    }
    response(blocker).await;
    assert_eq!(script.launches().len(), 1 + 512 / 64);
}

#[tokio::test]
async fn a_lone_request_is_launched_at_once_whatever_max_wait_is() {
    let engine = engine();
    let script = Script::new();
    let lane = engine.lane::<Fake>(LaneConfig { max_wait: Duration::from_secs(3600), ..lane_config() });
    for number in 0..100 {
        let done = lane.submit(script.request(number), Context::default()).await.expect("it is answered");
        assert_eq!((done.response, done.batch_requests), (2 * number, 1));
    }
}

#[tokio::test]
async fn what_others_count_is_let_go_before_the_answer_and_the_rest_of_a_request_is_freed_after_it() {
    let engine = engine();
    let script = Script::gated();
    let lane = engine.lane::<Fake>(lane_config());
    let counted = Arc::new(());
    let late = Some(Arc::new(Late(Arc::clone(&script))));
    let request = Request { _late: late, _counted: Some(Arc::clone(&counted)), ..script.request(1) };
    script.let_one_through();
    lane.submit(request, Context::default()).await.expect("it is answered before it is freed");
    let references = Arc::strong_count(&counted);
    script.open_gate();
    assert_eq!(references, 1);
}

#[tokio::test]
async fn batches_keep_their_limits_and_larger_requests_run_alone() {
    let engine = engine();
    let script = Script::gated();
    let lane = engine.lane::<Fake>(LaneConfig { max_batch_items: 10, max_batch_bytes: 100, ..lane_config() });
    let blocker = block(&lane, &script).await;
    let sizes = [(4, 10), (4, 10), (4, 10), (1, 500), (99, 1), (1, 60), (1, 60)];
    let request = |(number, (items, bytes))| Request { items, bytes, ..script.request(number) };
    let tasks: Vec<_> = (0..).zip(sizes).map(|sized| spawn(&lane, request(sized))).collect();
    queued(&lane, sizes.len()).await;
    script.open_gate();
    for task in tasks {
        response(task).await;
    }
    response(blocker).await;
    assert_eq!(script.launches()[1..], [vec![0, 1], vec![2], vec![3], vec![4], vec![5], vec![6]]);
}

#[tokio::test]
async fn at_most_concurrency_batches_run_at_once() {
    let engine = engine_with(1, EngineConfig { cpu_workers: 4, ..engine_config() });
    let script = Script::gated();
    let lane = engine.lane::<Fake>(LaneConfig { concurrency: 2, ..lane_config() });
    let request = |number: u32| Request { key: number, ..script.request(number.into()) };
    let tasks: Vec<_> = (0..8).map(|number| spawn(&lane, request(number))).collect();
    script.entered(2).await;
    queued(&lane, 6).await;
    script.open_gate();
    for task in tasks {
        response(task).await;
    }
    assert_eq!(script.most_running(), 2);
}

#[tokio::test]
async fn large_requests_have_their_own_batches_and_leave_a_worker_to_others() {
    let engine = engine_with(1, EngineConfig { cpu_workers: 3, ..engine_config() });
    let config = LaneConfig { max_batch_items: 1, concurrency: 3, large_request_bytes: 100, ..lane_config() };
    let first = engine.lane::<Fake<0>>(config.clone());
    let second = engine.lane::<Fake<1>>(config);
    let script = Script::new();
    let gate = Script::gated();
    let large = |number| Request { bytes: 101, ..gate.request(number) };
    let mut tasks: Vec<_> = (0..4).map(|number| spawn(&first, large(number))).collect();
    tasks.push(spawn(&second, large(4)));
    gate.entered(2).await;
    for number in 10..20 {
        let small = Request { bytes: 100, ..script.request(number) };
        let done = first.submit(small, Context::default()).await.expect("it is answered while the large ones wait");
        assert_eq!((done.response, done.batch_requests), (2 * number, 1));
    }
    assert_eq!((gate.launches().len(), gate.most_running()), (2, 2), "large requests use two of three workers");
    gate.open_gate();
    for (number, task) in (0..).zip(tasks) {
        assert_eq!(response(task).await, 2 * number);
    }
    assert_eq!((gate.launches().len(), gate.most_running()), (5, 2));
}

#[tokio::test]
async fn a_single_worker_also_runs_large_requests() {
    let engine = engine();
    let script = Script::new();
    let lane = engine.lane::<Fake>(LaneConfig { large_request_bytes: 1, ..lane_config() });
    for number in 0..10 {
        let done = lane.submit(script.request(number), Context::default()).await.expect("it is answered");
        assert_eq!(done.response, 2 * number);
    }
}

#[tokio::test]
async fn lanes_take_turns_on_a_worker() {
    let engine = engine();
    let script = Script::gated();
    let busy = engine.lane::<Fake<0>>(LaneConfig { max_batch_items: 1, ..lane_config() });
    let calm = engine.lane::<Fake<1>>(lane_config());
    let blocker = block(&busy, &script).await;
    let mut tasks: Vec<_> = (0..10).map(|number| spawn(&busy, script.request(number))).collect();
    queued(&busy, 10).await;
    tasks.push(spawn(&calm, script.request(99)));
    queued(&calm, 1).await;
    script.open_gate();
    for task in tasks {
        response(task).await;
    }
    response(blocker).await;
    assert_eq!(script.launches()[1], [99], "the other lane runs next");
}

#[tokio::test]
async fn urgent_requests_go_first_and_principals_share() {
    let engine = engine();
    let script = Script::gated();
    let lane = engine.lane::<Fake>(LaneConfig { max_batch_items: 1, ..lane_config() });
    let blocker = block(&lane, &script).await;
    let context = |priority, principal| Context { priority, principal, sharer: principal, ..Context::default() };
    let greedy = (0..4).map(|number| (number, context(Priority::Normal, 1)));
    let others =
        [(10, context(Priority::Normal, 2)), (20, context(Priority::Low, 3)), (30, context(Priority::High, 1))];
    let mut tasks = vec![];
    for (number, context) in greedy.chain(others) {
        tasks.push(spawn_with(&lane, script.request(number), context));
        queued(&lane, tasks.len()).await;
    }
    script.open_gate();
    for task in tasks {
        response(task).await;
    }
    response(blocker).await;
    let order: Vec<_> = script.launches()[1..].concat();
    assert_eq!(order, [30, 0, 10, 1, 2, 3, 20]);
}

#[tokio::test]
async fn an_overdue_request_is_served_among_urgent_ones() {
    let engine = engine();
    let script = Script::gated();
    let lane = engine.lane::<Fake>(LaneConfig { max_batch_items: 1, max_age: Duration::ZERO, ..lane_config() });
    let blocker = block(&lane, &script).await;
    let context = |priority| Context { priority, ..Context::default() };
    let mut tasks = vec![spawn_with(&lane, script.request(99), context(Priority::Low))];
    for number in 0..40 {
        tasks.push(spawn_with(&lane, script.request(number), context(Priority::High)));
    }
    queued(&lane, 41).await;
    script.open_gate();
    for task in tasks.into_iter().chain([blocker]) {
        response(task).await;
    }
    let place = script.launches().iter().position(|launch| launch == &[99]).expect("it ran");
    assert!((2..=20).contains(&place), "it ran after {place} urgent requests");
}

#[tokio::test]
async fn work_is_spread_over_devices_by_their_outstanding_bytes() {
    let engine = engine_with(2, engine_config());
    let script = Script::gated();
    let lane = engine.lane::<Fake>(lane_config());
    // The large one takes the first device, so that the small ones find the second less loaded.
    let large = spawn(&lane, Request { bytes: 1000, ..script.request(0) });
    script.entered(1).await;
    let small = spawn(&lane, script.request(1));
    script.entered(2).await;
    let tasks: Vec<_> = (2..4).map(|number| spawn(&lane, script.request(number))).collect();
    queued(&lane, 2).await;
    script.open_gate();
    for task in [large, small].into_iter().chain(tasks) {
        response(task).await;
    }
    assert_eq!(script.launches(), [vec![0], vec![1], vec![2, 3]]);
}
