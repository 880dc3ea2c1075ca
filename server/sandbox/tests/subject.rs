//! Children that run CUDA C++ of clients, with a GPU that behaves as the source says, and the compiler of such sources.

mod common;

use std::{
    fs,
    time::{Duration, Instant},
};

use accelerd_sandbox::{
    Module, Refusal, Role, Sandbox, SandboxError, Settings, SubjectConfig, SubjectLaunch, SubjectOutcome, SubjectParam,
    SubjectResult,
};
use bytes::Bytes;
use common::{program, soon};

fn sandbox() -> Sandbox {
    let settings =
        Settings { role: Role::CudaSubject { ordinal: 0 }, case_memory_bytes: 1 << 16, ..Settings::default() };
    Sandbox::start(program(), settings).expect("the child starts")
}

/// A launch that adds 5 to the third byte of a memory of 8 bytes, which is 3.
fn launch(source: &'static str) -> SubjectLaunch {
    SubjectLaunch {
        module: Module::new(source.as_bytes()),
        config: SubjectConfig {
            entry: "kernel".to_owned(),
            params: vec![SubjectParam::Address(2), SubjectParam::Value(vec![5])],
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
        },
        memory: Bytes::from_static(&[9, 9, 3, 9, 9, 9, 9, 9]),
        timeout: Duration::from_millis(20),
        outputs: vec![2..4, 7..8],
    }
}

fn run(sandbox: &mut Sandbox, launch: &SubjectLaunch) -> Result<SubjectResult, SandboxError> {
    sandbox.run_subject(launch, soon())
}

/// A launch that works, and is the `nth` one of its process.
fn assert_works(sandbox: &mut Sandbox, nth: u8) {
    assert_adds(sandbox, "works", nth);
}

fn assert_adds(sandbox: &mut Sandbox, source: &'static str, nth: u8) {
    let result = run(sandbox, &launch(source)).expect("it runs");
    let outcome = SubjectOutcome::Ended(Duration::from_micros(7));
    assert_eq!(result, SubjectResult { outcome, outputs: vec![vec![8, nth], vec![9]] });
}

#[test]
fn memory_is_written_anew_for_each_launch_and_read_after_it() {
    let mut sandbox = sandbox();
    for nth in 1..4 {
        assert_works(&mut sandbox, nth);
    }
    sandbox.end_process();
    assert_eq!(sandbox.pid(), None);
    assert_works(&mut sandbox, 1);
    let stats = sandbox.stats();
    assert_eq!((stats.starts, stats.restarts, stats.crashes), (2, 0, 0));
}

#[test]
fn what_a_kernel_prints_does_not_reach_the_answers() {
    let mut sandbox = sandbox();
    for nth in 1..3 {
        assert_adds(&mut sandbox, "prints", nth);
    }
}

#[test]
fn a_kernel_that_is_not_launched_leaves_the_process_as_it_is() {
    let mut sandbox = sandbox();
    let result = run(&mut sandbox, &launch("too large")).expect("it answers");
    assert_eq!(result.outcome, SubjectOutcome::NotLaunched("too many threads".to_owned()));
    assert_works(&mut sandbox, 2);
}

#[test]
fn after_a_fault_or_a_timeout_there_is_another_process() {
    let mut sandbox = sandbox();
    let fault = run(&mut sandbox, &launch("traps")).expect("it answers");
    assert!(matches!(&fault.outcome, SubjectOutcome::Fault(reason) if reason.len() < 600), "{fault:?}");
    assert!(fault.outputs.is_empty() && sandbox.pid().is_none());
    assert_works(&mut sandbox, 1);
    assert_eq!(run(&mut sandbox, &launch("hangs")).expect("it answers").outcome, SubjectOutcome::Timeout);
    assert_works(&mut sandbox, 1);
    let crashed = run(&mut sandbox, &launch("aborts"));
    assert!(matches!(crashed, Err(SandboxError::Crashed { .. })), "{crashed:?}");
    assert_works(&mut sandbox, 1);
}

#[test]
fn a_process_that_does_not_answer_is_killed_at_the_deadline() {
    let mut sandbox = sandbox();
    let deadline = Instant::now() + Duration::from_millis(100);
    let blocked = sandbox.run_subject(&launch("blocks"), deadline);
    assert!(matches!(blocked, Err(SandboxError::Timeout { killed: true })), "{blocked:?}");
    assert_works(&mut sandbox, 1);
}

#[test]
fn launches_that_do_not_fit_are_refused() {
    let mut sandbox = sandbox();
    let large = SubjectLaunch { memory: vec![0; (1 << 16) + 1].into(), ..launch("works") };
    let refused = run(&mut sandbox, &large);
    assert!(matches!(refused, Err(SandboxError::Refused(Refusal::LimitTooHigh { .. }))), "{refused:?}");
    let mut outside = launch("works");
    outside.config.params[0] = SubjectParam::Address(9);
    let refused = run(&mut sandbox, &outside);
    assert!(matches!(refused, Err(SandboxError::Refused(Refusal::OutOfRange { .. }))), "{refused:?}");
    assert_works(&mut sandbox, 1);
}

#[test]
fn a_compiler_opens_no_file_and_that_of_sources_of_clients_has_a_long_log() {
    let role = |client_sources| Role::CudaCompiler { library_paths: vec![], client_sources, quick: false };
    let compiler = |client_sources| {
        Sandbox::start(program(), Settings { role: role(client_sources), ..Settings::default() }).expect("it starts")
    };
    let log = |sandbox: &mut Sandbox, source: &'static str| {
        let failed = sandbox.compile(Bytes::from_static(source.as_bytes()), (9, 0), Some("kernel"), soon());
        match failed {
            Err(SandboxError::Refused(Refusal::NotCompiled(log))) => log,
            other => panic!("{other:?}"),
        }
    };
    let mut of_clients = compiler(true);
    let refused = log(&mut of_clients, "passwd");
    assert!(refused.starts_with("cannot open: "), "{refused}");
    assert_eq!(log(&mut of_clients, "verbose").len(), (16 << 10) + "...".len());
    let refused = log(&mut compiler(false), "passwd");
    assert!(refused.starts_with("cannot open: "), "{refused}");
    fs::read("/etc/passwd").expect("others can read it");
    let code = of_clients.compile(Bytes::from_static(b"works"), (9, 0), Some("kernel"), soon()).expect("it compiles");
    assert_eq!(code.image, b"works");
}
