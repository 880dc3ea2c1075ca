//! Children that compile kernels for GPUs and run them, with a compiler and a GPU that behave as the source says.

mod common;

use std::{
    ops::{ControlFlow, Range},
    time::{Duration, Instant},
};

use accelerd_sandbox::{
    CudaTarget, Launch, LaunchResult, Module, OnFault, Outcome, Refusal, Role, Sandbox, SandboxError, Settings,
};
use bytes::Bytes;
use common::{program, soon};

const ARRAY: u32 = 128;

fn compiler(settings: &Settings) -> Sandbox {
    compiler_with(settings, false)
}

fn compiler_with(settings: &Settings, quick: bool) -> Sandbox {
    let role = Role::CudaCompiler { library_paths: vec![], client_sources: false, quick };
    Sandbox::start(program(), Settings { role, ..settings.clone() }).expect("the child starts")
}

fn device_with(settings: &Settings, duty_cycle: f32) -> Sandbox {
    let role = Role::CudaDevice { ordinal: 0, duty_cycle };
    Sandbox::start(program(), Settings { role, ..settings.clone() }).expect("the child starts")
}

fn device() -> Sandbox {
    device_with(&Settings::default(), 1.0)
}

fn compile(sandbox: &mut Sandbox, source: &'static str) -> Result<accelerd_sandbox::CudaCode, SandboxError> {
    sandbox.compile(Bytes::from_static(source.as_bytes()), (7, 5), None, soon())
}

/// Threads of which each counts in an array, from `first` on. The number of the first one is 3 to begin with.
fn launch_of(source: &'static str, first: u64, count: u64) -> Launch {
    let memory_bytes = u64::from(ARRAY) + 8 * (first + count).max(1);
    Launch {
        module: Module::new(source.as_bytes()),
        segments: vec![(ARRAY, Bytes::from_static(&[3]))],
        memory_bytes,
        arguments: 0,
        grid: 0,
        first_thread: first,
        thread_count: count,
        loop_budget: 7,
        on_fault: OnFault::Stop,
        timeout: Duration::ZERO,
        outputs: vec![Range { start: ARRAY.into(), end: memory_bytes }],
        cuda: Some(CudaTarget {
            entry: "kernel".to_owned(),
            params: u64::from(ARRAY).to_le_bytes().to_vec(),
            addresses: vec![0],
            grid: [1, 1, 1, 1],
        }),
    }
}

fn launch(sandbox: &mut Sandbox, launch: &Launch) -> Result<LaunchResult, SandboxError> {
    sandbox.launch(launch, soon(), |_| ControlFlow::Continue(()))
}

fn numbers(result: &LaunchResult) -> Vec<u64> {
    let words = result.outputs[0].as_chunks().0;
    words.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

fn assert_works(sandbox: &mut Sandbox) {
    let result = launch(sandbox, &launch_of("nanos=0", 0, 3)).expect("it runs");
    assert_eq!(numbers(&result), [4, 1, 1]);
}

#[test]
fn an_image_has_several_kernels() {
    let mut sandbox = device();
    for (entry, expected) in [("add_2", [5, 2]), ("add_7", [10, 7]), ("add_2", [5, 2])] {
        let mut request = launch_of("nanos=0", 0, 2);
        request.cuda.as_mut().expect("it is one for a GPU").entry = entry.to_owned();
        assert_eq!(numbers(&launch(&mut sandbox, &request).expect("it runs")), expected, "{entry}");
    }
    assert_eq!(sandbox.stats().loads, 1);
}

#[test]
fn code_is_compiled_with_a_report() {
    let mut sandbox = compiler(&Settings::default());
    let code = compile(&mut sandbox, "nanos=3").expect("it compiles");
    assert_eq!((code.image, code.ptx), (b"nanos=3".to_vec(), "// nanos=3".to_owned()));
    assert_eq!(code.resources.map(|resources| resources.registers), Some(7));
    let quickly = compile(&mut compiler_with(&Settings::default(), true), "nanos=3").expect("it compiles");
    assert_eq!(quickly.resources.map(|resources| resources.registers), Some(14));
    let wrong = compile(&mut sandbox, "wrong");
    let is_log = |reason: &String| reason == "line 1: wrong";
    assert!(matches!(&wrong, Err(SandboxError::Refused(Refusal::NotCompiled(log))) if is_log(log)), "{wrong:?}");
    assert_eq!(sandbox.stats().starts, 1);
}

#[test]
fn a_missing_compiler_is_a_refusal() {
    let role = Role::CudaCompiler { library_paths: vec!["/nowhere".into()], client_sources: false, quick: false };
    let mut sandbox = Sandbox::start(program(), Settings { role, ..Settings::default() }).expect("the child starts");
    let refused = compile(&mut sandbox, "");
    assert!(matches!(&refused, Err(SandboxError::Refused(Refusal::NoCompiler(_)))), "{refused:?}");
}

#[test]
fn a_compilation_that_does_not_end_is_refused_and_the_next_one_works() {
    let mut sandbox = compiler(&Settings { load_timeout: Duration::from_millis(100), ..Settings::default() });
    let refused = compile(&mut sandbox, "endless");
    assert!(matches!(&refused, Err(SandboxError::Refused(Refusal::NotCompiled(_)))), "{refused:?}");
    let cut = sandbox.compile(Bytes::from_static(b"endless"), (7, 5), None, Instant::now() + Duration::from_millis(20));
    assert!(matches!(cut, Err(SandboxError::Timeout { killed: true })), "{cut:?}");
    sandbox = compiler(&Settings::default());
    compile(&mut sandbox, "nanos=1").expect("it compiles");
}

#[test]
fn a_compilation_that_needs_too_much_memory_is_refused_and_the_next_one_works() {
    let mut sandbox = compiler(&Settings { memory_bytes: 64 << 20, ..Settings::default() });
    let refused = compile(&mut sandbox, "insatiable");
    assert!(matches!(&refused, Err(SandboxError::Refused(Refusal::NotCompiled(_)))), "{refused:?}");
    compile(&mut sandbox, "nanos=1").expect("it compiles");
    let crashed = compile(&mut sandbox, "abort");
    assert!(matches!(crashed, Err(SandboxError::Crashed { .. })), "{crashed:?}");
    compile(&mut sandbox, "nanos=1").expect("it compiles");
}

#[test]
fn each_thread_runs_once_whatever_the_chunks() {
    let mut sandbox = device();
    for (source, first, count) in [("nanos=0", 0, 3), ("nanos=20", 5, 700_000), ("nanos=100000", 0, 600)] {
        let result = launch(&mut sandbox, &launch_of(source, first, count)).expect("it runs");
        let numbers = numbers(&result);
        let (before, ran) = numbers.split_at(usize::try_from(first).expect("small"));
        assert_eq!(before.first().copied().unwrap_or(3), 3);
        assert_eq!(ran.iter().sum::<u64>(), count + if first == 0 { 3 } else { 0 });
        assert!(ran[1..].iter().all(|number| *number == 1));
        assert_eq!((result.outcome, result.faults.len()), (Outcome::Ok, 0));
    }
    assert_eq!(sandbox.stats().threads, 3 + 700_000 + 600);
    let result = launch(&mut sandbox, &launch_of("nanos=20", 0, 0)).expect("no thread runs");
    assert!(result.outcome == Outcome::Ok && result.execution_time.is_zero());
}

#[test]
fn execution_time_is_that_of_the_device() {
    let result = launch(&mut device(), &launch_of("nanos=100000", 0, 1000)).expect("it runs");
    assert_eq!(result.execution_time, Duration::from_millis(100));
}

#[test]
fn the_lowest_fault_ends_a_launch_without_outputs() {
    let source = "nanos=1 fault=650000 fault=400000 fault=300001";
    let mut sandbox = device();
    let result = launch(&mut sandbox, &launch_of(source, 0, 700_000)).expect("it runs");
    let faults: Vec<_> = result.faults.iter().map(|fault| fault.thread).collect();
    assert_eq!((faults, result.outputs.len()), (vec![300_001], 0));
    assert_works(&mut sandbox);
}

#[test]
fn a_deadline_ends_a_chunk_that_runs_and_the_child_stays() {
    let mut sandbox = device();
    let begin = Instant::now();
    let result = sandbox.launch(&launch_of("nanos=1000000000", 0, 1000), begin + Duration::from_millis(120), |_| {
        ControlFlow::Continue(())
    });
    assert!(matches!(result, Err(SandboxError::Timeout { killed: false })), "{result:?}");
    assert!(begin.elapsed() < Duration::from_secs(10));
    assert_works(&mut sandbox);
    assert_eq!(sandbox.stats().starts, 1);
}

#[test]
fn a_caller_that_leaves_ends_the_chunk() {
    let mut sandbox = device();
    let result = sandbox.launch(&launch_of("nanos=1000000000", 0, 1000), soon(), |_| ControlFlow::Break(()));
    assert!(matches!(result, Err(SandboxError::Canceled)), "{result:?}");
    assert_works(&mut sandbox);
    assert_eq!(sandbox.stats().starts, 1);
}

#[test]
fn a_chunk_that_does_not_end_costs_the_child() {
    let mut sandbox = device();
    let source = "nanos=1000000000 ignores_stop";
    let result = sandbox.launch(&launch_of(source, 0, 1000), soon(), |_| ControlFlow::Break(()));
    assert!(matches!(result, Err(SandboxError::Canceled)), "{result:?}");
    assert_works(&mut sandbox);
    assert_eq!((sandbox.stats().starts, sandbox.stats().crashes), (2, 1));
}

#[test]
fn a_lost_device_ends_the_child_and_the_next_launch_has_another() {
    let mut sandbox = device();
    let result = launch(&mut sandbox, &launch_of("nanos=1 loses_device", 0, 5));
    let names_error = |stderr: &String| stderr.contains("illegal address");
    assert!(matches!(&result, Err(SandboxError::Crashed { stderr, .. }) if names_error(stderr)), "{result:?}");
    assert_works(&mut sandbox);
    assert_eq!(sandbox.stats().restarts, 1);
}

#[test]
fn memory_has_a_limit() {
    let mut sandbox = device_with(&Settings { case_memory_bytes: 1 << 10, ..Settings::default() }, 1.0);
    let refused = launch(&mut sandbox, &launch_of("nanos=0", 0, 1000));
    assert!(matches!(&refused, Err(SandboxError::Refused(Refusal::LimitTooHigh { .. }))), "{refused:?}");
    let result = launch(&mut sandbox, &launch_of("no_memory", 0, 3)).expect("an outcome");
    assert_eq!((result.outcome, result.outputs.len()), (Outcome::OutOfMemory, 0));
    assert_works(&mut sandbox);
    assert_eq!(sandbox.stats().starts, 1);
}

#[test]
fn the_memory_of_a_launch_is_not_that_of_the_next() {
    let mut sandbox = device();
    launch(&mut sandbox, &launch_of("nanos=0", 0, 50)).expect("it runs");
    let launch_without = Launch { segments: vec![], thread_count: 0, ..launch_of("nanos=0", 0, 50) };
    assert_eq!(numbers(&launch(&mut sandbox, &launch_without).expect("it runs")), [0; 50]);
}

#[test]
fn a_duty_cycle_leaves_time_between_chunks() {
    // Chunks of 4 ms; the first one has all threads of a small launch.
    let launch_time = |duty_cycle| {
        let mut sandbox = device_with(&Settings::default(), duty_cycle);
        let begin = Instant::now();
        launch(&mut sandbox, &launch_of("nanos=100", 0, 600_000)).expect("it runs");
        begin.elapsed()
    };
    let whole = launch_time(1.0);
    let tenth = launch_time(0.1);
    assert!(tenth > whole + Duration::from_millis(100), "{whole:?} and {tenth:?}");
}

#[test]
fn a_gpu_that_cannot_be_used_says_why() {
    let role = Role::CudaDevice { ordinal: 9, duty_cycle: 1.0 };
    let failed = Sandbox::start(program(), Settings { role, ..Settings::default() }).err();
    let names_it = |reason: &String| reason.contains("no device 9");
    assert!(matches!(&failed, Some(SandboxError::Start(reason)) if names_it(reason)), "{failed:?}");
}

#[test]
fn addresses_outside_of_the_parameters_are_refused() {
    let mut sandbox = device();
    let mut wrong = launch_of("nanos=0", 0, 3);
    wrong.cuda.as_mut().expect("a target").addresses = vec![1];
    let refused = launch(&mut sandbox, &wrong);
    assert!(matches!(&refused, Err(SandboxError::Refused(Refusal::NotStarted(_)))), "{refused:?}");
    wrong.cuda = None;
    assert!(matches!(launch(&mut sandbox, &wrong), Err(SandboxError::Refused(Refusal::NotStarted(_)))));
    assert_works(&mut sandbox);
}
