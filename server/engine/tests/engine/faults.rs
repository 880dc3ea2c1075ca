//! Failing launches: a fault affects only its own request, and a lost device is not used again.

use std::{collections::HashMap, sync::atomic::Ordering::SeqCst};

use accelerd_engine::{Context, Engine, EngineConfig, Lane, LaneConfig, LossCause, SubmitError};
use accelerd_kernels::{DeviceId, LossScope, OpError};

use crate::fake::*;

/// Runs requests in one launch: queues them while the gate is closed, then opens it. Returns their outcomes.
async fn run_together(lane: &Lane<Fake>, script: &std::sync::Arc<Script>, requests: Vec<Request>) -> Vec<Outcome> {
    script.close_gate();
    let blocker = block(lane, script).await;
    let count = requests.len();
    let tasks: Vec<_> = requests.into_iter().map(|request| spawn(lane, request)).collect();
    queued(lane, count).await;
    script.open_gate();
    response(blocker).await;
    let mut outcomes = vec![];
    for task in tasks {
        outcomes.push(task.await.expect("no panic"));
    }
    outcomes
}

/// Runs 16 requests, of which one has a fault; the others must succeed. Returns its error and the number of launches.
async fn run_with_fault(fault: Fault) -> (OpError, usize) {
    let engine = engine();
    let script = Script::new();
    let lane = engine.lane::<Fake>(lane_config());
    let request = |number: u64| script.request(number);
    let requests =
        (0..16).map(|number| Request { fault: if number == 5 { fault } else { Fault::None }, ..request(number) });
    let outcomes = run_together(&lane, &script, requests.collect()).await;
    let mut faulty = None;
    for (number, outcome) in (0..).zip(outcomes) {
        match outcome {
            Ok(completion) => assert_eq!(completion.response, 2 * number),
            Err(SubmitError::Op(error)) if number == 5 => faulty = Some(error),
            Err(error) => panic!("{number}: {error}"),
        }
    }
    let again = lane.submit(script.request(7), Context::default()).await.expect("the worker goes on");
    assert_eq!(again.response, 14);
    assert_eq!(engine.stats().lanes[0].counts.failures, 1);
    assert_eq!(engine.stats().lanes[0].counts.splits, 4);
    (faulty.expect("the faulty one fails"), script.launches().len())
}

/// The blocker, then 16, 8 + 8, 4 + 4, 2 + 2, 1 + 1, then one more.
const LAUNCHES: usize = 1 + 9 + 1;

#[tokio::test]
async fn a_poisoned_request_fails_alone() {
    let (error, launches) = run_with_fault(Fault::Invalid).await;
    assert_eq!((error, launches), (OpError::Invalid("poison".to_owned()), LAUNCHES));
}

#[tokio::test]
async fn a_failing_kernel_fails_its_request_alone() {
    let (error, launches) = run_with_fault(Fault::Failed).await;
    assert!(matches!(error, OpError::Failed { kernel: "fake", .. }), "{error}");
    assert_eq!(launches, LAUNCHES);
}

#[tokio::test]
async fn a_panic_fails_its_request_alone_and_the_worker_goes_on() {
    let (error, launches) = run_with_fault(Fault::Panic).await;
    assert!(matches!(&error, OpError::Failed { reason, .. } if reason.contains("the script says so")), "{error}");
    assert_eq!(launches, LAUNCHES);
}

#[tokio::test]
async fn a_missing_response_fails_its_request_alone() {
    let (error, launches) = run_with_fault(Fault::MissingResponse).await;
    assert!(matches!(&error, OpError::Failed { reason, .. } if reason == "0 responses to 1 requests"), "{error}");
    assert_eq!(launches, LAUNCHES);
}

#[tokio::test]
async fn a_batch_that_exceeds_memory_is_split() {
    let engine = engine();
    let script = Script::new();
    let lane = engine.lane::<Fake>(lane_config());
    script.oom_above.store(10, SeqCst);
    let requests = (0..64).map(|number| script.request(number)).collect();
    for (number, outcome) in (0..).zip(run_together(&lane, &script, requests).await) {
        let completion = outcome.expect("a smaller batch fits");
        assert_eq!((completion.response, completion.batch_requests), (2 * number, 8));
    }
    let served: Vec<_> = script.launches().into_iter().filter(|launch| launch.len() == 8).flatten().collect();
    assert_eq!(served, (0..64).collect::<Vec<_>>(), "in their order");
    let error = lane.submit(Request { items: 11, ..script.request(0) }, Context::default()).await;
    assert!(matches!(error, Err(SubmitError::Op(OpError::OutOfMemory { requested: 11, .. }))), "{error:?}");
    assert_eq!(engine.stats().lanes[0].counts.splits, 7);
}

/// An engine with several devices, of which `losses` will be lost, and a lane.
fn losing(devices: usize, losses: usize) -> (Engine, Lane<Fake>, std::sync::Arc<Script>) {
    let engine = engine_with(devices, engine_config());
    let lane = engine.lane::<Fake>(lane_config());
    let script = Script::new();
    script.losses.store(losses, SeqCst);
    (engine, lane, script)
}

fn lost_count(engine: &Engine) -> usize {
    engine.devices().iter().filter(|(_, reason)| reason.is_some()).count()
}

#[tokio::test]
async fn requests_of_a_lost_device_run_on_another() {
    let (engine, lane, script) = losing(2, 1);
    script.close_gate();
    let faulty = spawn(&lane, Request { fault: Fault::DeviceLost, bytes: 10, ..script.request(0) });
    script.entered(1).await;
    // The second device is kept busy by a large request, so that the others queue for the first.
    let large = spawn(&lane, Request { bytes: 100_000, ..script.request(1) });
    script.entered(2).await;
    let tasks: Vec<_> = (2..10).map(|number| spawn(&lane, script.request(number))).collect();
    queued(&lane, 8).await;
    script.open_gate();
    for (number, task) in (0..).zip([faulty, large].into_iter().chain(tasks)) {
        assert_eq!(response(task).await, 2 * number);
    }
    let devices = engine.devices();
    assert_eq!(devices[0].1.as_deref(), Some("an illegal address"));
    assert_eq!(devices[1].1, None);
    assert_eq!(engine.stats().lanes[0].counts.rerouted, 9);
    let later = lane.submit(script.request(50), Context::default()).await.expect("one device is left");
    assert_eq!(later.response, 100);
}

#[tokio::test]
async fn requests_with_affinity_to_a_lost_device_fail() {
    let (engine, lane, script) = losing(2, 1);
    let pinned = |number| Request { affinity: Some(DeviceId::Cpu), ..script.request(number) };
    let request = Request { fault: Fault::DeviceLost, ..pinned(0) };
    let error =
        lane.submit(Request { affinity: Some(DeviceId::Cuda(7)), ..script.request(0) }, Context::default()).await;
    assert!(matches!(error, Err(SubmitError::Op(OpError::Invalid(_)))), "{error:?}");
    // Both devices have the id `cpu`; the first is lost, then the second.
    assert_eq!(
        lane.submit(request, Context::default()).await.expect("the other device of that id answers").response,
        0
    );
    assert_eq!(lost_count(&engine), 1);
    script.losses.store(1, SeqCst);
    let request = Request { fault: Fault::DeviceLost, ..pinned(1) };
    let error = lane.submit(request, Context::default()).await;
    assert!(matches!(error, Err(SubmitError::Op(OpError::DeviceLost { .. }))), "{error:?}");
}

#[tokio::test]
async fn a_sticky_error_takes_all_gpus_out_and_the_cpu_answers() {
    let engine = Engine::start(stand_ins(2), engine_config()).expect("the pools open");
    let lane = engine.lane::<Fake>(lane_config());
    let [sticky, busy, free] = [Script::gated(), Script::gated(), Script::new()];
    sticky.losses.store(1, SeqCst);
    *lock(&sticky.loss_scope) = LossScope::Cuda;
    let faulty = spawn(&lane, Request { fault: Fault::DeviceLost, ..sticky.request(0) });
    sticky.entered(1).await;
    let large = spawn(&lane, Request { bytes: 100_000, ..busy.request(1) });
    busy.entered(1).await;
    let movable: Vec<_> = (2..6).map(|number| spawn(&lane, free.request(number))).collect();
    let pinned = spawn(&lane, Request { affinity: Some(DeviceId::Cuda(1)), ..free.request(6) });
    queued(&lane, 5).await;
    sticky.open_gate();
    for (number, task) in (2..).zip(movable).chain([(0, faulty)]) {
        let completion = task.await.expect("no panic").expect("the CPU answers");
        assert_eq!((completion.response, completion.device), (2 * number, DeviceId::Cpu));
    }
    // A request that only the second GPU could answer fails while its worker is still busy.
    let error = error(pinned).await;
    let SubmitError::Op(OpError::DeviceLost { device, scope, reason }) = error else { panic!("{error}") };
    assert_eq!((device, scope), (DeviceId::Cuda(1), LossScope::Cuda));
    assert_eq!(reason, "an error on cuda:0 ended CUDA in this process: an illegal address");
    busy.open_gate();
    assert_eq!(response(large).await, 2);
    let losses: Vec<_> = engine.losses().borrow().iter().map(|loss| (loss.device, loss.cause, loss.lane)).collect();
    let expected =
        [(DeviceId::Cuda(0), LossCause::StickyError, "fake"), (DeviceId::Cuda(1), LossCause::PeerError, "fake")];
    assert_eq!(losses, expected);
    assert!(!lane.has_gpu());
    let later = lane.submit(free.request(7), Context::default()).await.expect("the CPU serves on");
    assert_eq!(later.device, DeviceId::Cpu);
}

#[tokio::test]
async fn a_gpu_that_is_gone_leaves_the_others_in_service() {
    let engine = Engine::start(stand_ins(2), engine_config()).expect("the pools open");
    let lane = engine.lane::<Fake>(lane_config());
    let script = Script::new();
    script.losses.store(1, SeqCst);
    let request = Request { fault: Fault::DeviceLost, ..script.request(1) };
    let completion = lane.submit(request, Context::default()).await.expect("the other GPU answers");
    assert_eq!(completion.device, DeviceId::Cuda(1));
    let losses: Vec<_> = engine.losses().borrow().iter().map(|loss| (loss.device, loss.cause)).collect();
    assert_eq!(losses, [(DeviceId::Cuda(0), LossCause::DeviceError)]);
    assert!(lane.has_gpu());
}

#[tokio::test]
async fn without_a_device_every_request_fails_with_the_reason() {
    let (engine, lane, script) = losing(1, 1);
    script.close_gate();
    let faulty = spawn(&lane, Request { fault: Fault::DeviceLost, ..script.request(0) });
    script.entered(1).await;
    let waiting = spawn(&lane, script.request(1));
    queued(&lane, 1).await;
    script.open_gate();
    for task in [faulty, waiting] {
        let error = error(task).await;
        let SubmitError::Op(OpError::DeviceLost { reason, .. }) = error else { panic!("{error}") };
        assert_eq!(reason, "an illegal address");
    }
    let error = lane.submit(script.request(2), Context::default()).await.expect_err("nothing is left");
    assert!(matches!(error, SubmitError::Op(OpError::DeviceLost { .. })), "{error}");
    let late = engine.lane::<Fake>(lane_config());
    let error = late.submit(script.request(3), Context::default()).await.expect_err("nothing is left");
    assert!(matches!(error, SubmitError::Op(OpError::DeviceLost { .. })), "{error}");
    assert!(engine.is_idle());
}

/// A deterministic generator: xorshift64* (Marsaglia, 2003; Vigna, 2016).
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }

    fn fault(&mut self) -> Fault {
        match self.below(40) {
            0 => Fault::Invalid,
            1 => Fault::Failed,
            2 => Fault::Panic,
            3 => Fault::MissingResponse,
            4 => Fault::DeviceLost,
            _ => Fault::None,
        }
    }
}

fn is_error_of(error: &OpError, fault: Fault) -> bool {
    match error {
        OpError::Invalid(_) => fault == Fault::Invalid,
        OpError::Failed { .. } => matches!(fault, Fault::Failed | Fault::Panic | Fault::MissingResponse),
        OpError::IndexOutOfRange { .. }
        | OpError::OutOfMemory { .. }
        | OpError::MemoryLimit(_)
        | OpError::DeviceLost { .. }
        | OpError::Cancelled => false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_gets_exactly_its_own_answer_whatever_fails() {
    for seed in 1..=10 {
        let mut rng = Rng(seed);
        let engine = engine_with(3, EngineConfig { cpu_workers: 2, ..engine_config() });
        let lane = engine.lane::<Fake>(LaneConfig { concurrency: 2, max_batch_items: 16, ..lane_config() });
        let script = Script::new();
        script.losses.store(2, SeqCst);
        script.oom_above.store(12, SeqCst);
        let mut tasks = HashMap::new();
        for number in 0..400 {
            let fault = rng.fault();
            let items = 1 + rng.below(3);
            let key = u32::from(rng.below(3) == 0);
            let task = spawn(&lane, Request { key, items, fault, ..script.request(number) });
            if rng.below(10) == 0 {
                task.abort();
            }
            tasks.insert(number, (fault, task));
        }
        for (number, (fault, task)) in tasks {
            match (task.await, fault) {
                (Err(join), _) => assert!(join.is_cancelled(), "seed {seed}: {join}"),
                (Ok(Ok(completion)), Fault::None | Fault::DeviceLost) => {
                    assert_eq!(completion.response, 2 * number, "seed {seed}");
                }
                (Ok(Err(SubmitError::Op(error))), fault) => assert!(is_error_of(&error, fault), "seed {seed}: {error}"),
                (Ok(outcome), fault) => panic!("seed {seed}, {number}, {fault:?}: {outcome:?}"),
            }
        }
        until(|| engine.is_idle()).await;
        assert_eq!(lost_count(&engine), 2, "seed {seed}");
        let stats = engine.stats();
        assert_eq!((stats.admission.items, stats.admission.bytes, stats.lanes[0].queued_requests), (0, 0, 0));
    }
}
