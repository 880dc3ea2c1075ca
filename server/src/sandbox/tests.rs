//! Calls that wait for a process, which no test here starts.

use futures::poll;

use std::time::Instant;

use super::*;
use accelerd_engine::SubmitError;
use tokio::sync::oneshot;

/// One process, for which at most two calls wait.
fn sandboxes() -> Sandboxes {
    let mut config = Config::loopback();
    (config.sandbox.processes, config.sandbox.max_queue) = (1, 2);
    Sandboxes::new(&config, &Ledger::new(), Handle::current())
}

fn in_seconds(seconds: u64) -> Instant {
    (tokio::time::Instant::now() + Duration::from_secs(seconds)).into_std()
}

fn context(seconds: u64) -> Context {
    Context { deadline: Some(in_seconds(seconds)), ..Context::default() }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_deadline_passes_in_the_queue_has_no_turn() {
    let sandboxes = sandboxes();
    let running = sandboxes.turns().permit(1, in_seconds(1)).await.expect("it is free");
    let waited = sandboxes.run(&context(10), |_| -> Result<(), _> { panic!("it has no turn") }).await;
    assert!(matches!(waited, Err(ApiError::Sandbox(SandboxError::Busy))), "{waited:?}");
    assert_eq!(sandboxes.queued(), 0);
    drop(running);
    assert_eq!(sandboxes.run(&context(10), |_| Ok(7)).await.expect("it is free"), 7);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_deadline_has_the_default_one() {
    let sandboxes = sandboxes();
    let _running = sandboxes.turns().permit(1, in_seconds(1)).await.expect("it is free");
    let begin = tokio::time::Instant::now();
    let waited = sandboxes.run(&Context::default(), |_| Ok(())).await;
    assert!(matches!(waited, Err(ApiError::Sandbox(SandboxError::Busy))), "{waited:?}");
    // The clock of the test stands still but for the wait.
    assert!(begin.elapsed().abs_diff(sandboxes.limits().default_deadline) < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn more_calls_than_may_wait_are_refused_at_once() {
    let sandboxes = sandboxes();
    let calls: Vec<_> = (0..4).map(|_| sandboxes.turns()).collect();
    let running = calls[0].permit(1, in_seconds(9)).await.expect("it is free");
    let mut waiting: Vec<_> = calls[1..3].iter().map(|call| Box::pin(call.permit(1, in_seconds(9)))).collect();
    for call in &mut waiting {
        assert!(poll!(call).is_pending());
    }
    let refused = calls[3].permit(2, in_seconds(9)).await.err();
    assert!(matches!(refused, Some(ApiError::SandboxQueueFull(2))), "{refused:?}");
    waiting.pop();
    assert_eq!(sandboxes.queued(), 1, "a dropped call leaves the queue");
    drop(running);
    waiting.pop().expect("one is left").await.expect("it is its turn");
}

#[tokio::test(start_paused = true)]
async fn a_turn_whose_call_is_dropped_passes_to_the_next_call() {
    let sandboxes = sandboxes();
    let calls = [sandboxes.turns(), sandboxes.turns()];
    let running = sandboxes.turns().permit(1, in_seconds(9)).await.expect("it is free");
    let [mut first, mut second] = calls.each_ref().map(|call| Box::pin(call.permit(1, in_seconds(9))));
    assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
    drop(running);
    // It has been told, and never looks.
    drop(first);
    drop(second.await.expect("it is its turn"));
    assert_eq!(sandboxes.shared.queue().running(), 0);
}

#[tokio::test]
async fn a_job_whose_caller_is_gone_uses_no_process() {
    let sandboxes = sandboxes();
    let (started, start) = oneshot::channel();
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let (outcome, job_outcome) = oneshot::channel();
    let context = Context::default();
    let mut call = Box::pin(sandboxes.run(&context, move |turn| {
        let _ = started.send(());
        let _ = gone.recv();
        let _ = outcome.send(turn.check());
        Ok(())
    }));
    tokio::select! {
        _ = &mut call => panic!("the job waits"),
        started = start => started.expect("the job starts"),
    }
    drop(call);
    drop(go);
    assert!(matches!(job_outcome.await.expect("the job ends"), Err(SandboxError::Canceled)));
}

#[tokio::test]
async fn the_panic_of_a_job_reaches_its_caller_and_frees_the_process() {
    let sandboxes = sandboxes();
    let caller = sandboxes.clone();
    let call = async move { caller.run(&Context::default(), |_| -> Result<(), _> { panic!("no") }).await };
    assert!(tokio::spawn(call).await.expect_err("it panics").is_panic());
    sandboxes.run(&Context::default(), |_| Ok(())).await.expect("the process is free");
}

#[tokio::test(start_paused = true)]
async fn a_drain_refuses_new_calls_and_waits_for_the_others() {
    let sandboxes = sandboxes();
    let running = sandboxes.turns().permit(1, in_seconds(9)).await.expect("it is free");
    assert_eq!(sandboxes.drain(Duration::from_secs(1)).await, 1, "one still runs");
    let refused = sandboxes.run(&context(9), |_| Ok(())).await;
    assert!(matches!(refused, Err(ApiError::Submit(SubmitError::Draining))), "{refused:?}");
    let mut draining = Box::pin(sandboxes.drain(Duration::from_secs(1)));
    assert!(poll!(&mut draining).is_pending());
    drop(running);
    assert_eq!(draining.await, 0);
    sandboxes.resume();
    sandboxes.run(&context(9), |_| Ok(())).await.expect("calls are accepted again");
}

#[tokio::test]
async fn the_memory_of_a_process_is_reserved_once() {
    let mut config = Config::loopback();
    config.sandbox.processes = 1;
    let ledger = Ledger::new();
    let sandboxes = Sandboxes::new(&config, &ledger, Handle::current());
    let held = || ledger.account(Place::Host, Kind::Sandbox).usage().0;
    assert_eq!(held(), 0, "no process has been used");
    for _ in 0..2 {
        sandboxes.run(&Context::default(), |_| Ok(())).await.expect("it is free");
        assert_eq!(held(), config.sandbox.memory.as_u64());
    }
    let small = Ledger::new();
    small.limit(Place::Host, accelerd_kernels::ledger::Limit { bytes: 1 << 20, setting: "memory.host_limit" });
    let refused = Sandboxes::new(&config, &small, Handle::current()).run(&Context::default(), |_| Ok(())).await;
    assert!(matches!(refused, Err(ApiError::MemoryLimit { .. })), "{refused:?}");
}

#[tokio::test]
async fn idle_processes_make_room_for_others() {
    let config = Config::loopback();
    let ledger = Ledger::new();
    let compiler_bytes = config.sandbox.memory.as_u64().max(MIN_COMPILER_MEMORY);
    ledger.limit(Place::Host, Limit { bytes: compiler_bytes, setting: "memory.host_limit" });
    let modules = Sandboxes::new(&config, &ledger, Handle::current());
    let compilers = modules.for_cuda_compiler(&config, &ledger, true);
    compilers.run(&Context::default(), |_| Ok(())).await.expect("its memory is free");
    let running = modules.turns().permit(1, in_seconds(9)).await.expect("the compiler is idle");
    let refused = compilers.run(&Context::default(), |_| Ok(())).await;
    assert!(matches!(refused, Err(ApiError::MemoryLimit { .. })), "a process that is used stays: {refused:?}");
    drop(running);
    compilers.run(&Context::default(), |_| Ok(())).await.expect("the process for modules is idle");
}

#[tokio::test]
async fn further_idle_processes_make_room_for_others_while_calls_use_the_rest() {
    const RESIDENT: u64 = 3 << 20;
    let config = Config::loopback();
    let ledger = Ledger::new();
    let bytes = config.sandbox.memory.as_u64() + 2 * RESIDENT;
    ledger.limit(Place::Host, Limit { bytes, setting: "memory.host_limit" });
    let sandboxes = Sandboxes::new(&config, &ledger, Handle::current());
    let _running = sandboxes.turns().permit(1, in_seconds(9)).await.expect("it is free");
    let further = [(); 2].map(|()| sandboxes.shared.reserve_paused(Some(RESIDENT)).expect("its memory is free"));
    sandboxes.shared.idle_memory.lock().expect("no test panics").extend(further);
    let collections = ledger.account(Place::Host, Kind::Collections);
    let reserved = collections.reserve(RESIDENT).expect("no call uses the further processes");
    assert_eq!(ledger.account(Place::Host, Kind::Sandbox).usage().0, config.sandbox.memory.as_u64());
    drop(reserved);
    collections.reserve(2 * RESIDENT + 1).expect_err("a process that is used stays");
}

#[tokio::test]
async fn a_call_without_memory_for_a_further_process_waits_for_its_own() {
    let mut config = Config::loopback();
    config.sandbox.processes = 2;
    let ledger = Ledger::new();
    let bytes = config.sandbox.memory.as_u64();
    ledger.limit(Place::Host, accelerd_kernels::ledger::Limit { bytes, setting: "memory.host_limit" });
    let sandboxes = Sandboxes::new(&config, &ledger, Handle::current());
    let call = sandboxes.turns();
    let first = call.permit(1, in_seconds(9)).await.expect("there is memory for one");
    let mut further = Box::pin(call.permit(1, in_seconds(9)));
    assert!(poll!(&mut further).is_pending());
    let other = sandboxes.turns().permit(2, in_seconds(9)).await.err();
    assert!(matches!(other, Some(ApiError::MemoryLimit { .. })), "{other:?}");
    drop(first);
    further.await.expect("the memory of its process");
}

#[tokio::test]
async fn without_processes_nothing_runs() {
    let mut config = Config::loopback();
    config.sandbox.processes = 0;
    let sandboxes = Sandboxes::new(&config, &Ledger::new(), Handle::current());
    let refused = sandboxes.run(&Context::default(), |_| Ok(())).await;
    assert!(matches!(refused, Err(ApiError::SandboxDisabled)), "{refused:?}");
}
