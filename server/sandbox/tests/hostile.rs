//! Modules that try to take time, memory or the process, and children that fail: errors are named, and the next call works.

mod common;

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use accelerd_sandbox::{
    CaseLimits, Isolation, Module, ModuleCode, ModuleLimits, Outcome, Pool, Process, Refusal, Sandbox, SandboxError,
    ScalarType, Scheduler, Settings,
};
use common::*;

/// The text of `count` parts.
fn each(count: u32, part: impl Fn(u32) -> String) -> String {
    (0..count).map(part).collect()
}

/// `f(x)` loops forever for 1, and returns for 0.
const LOOP: &str = r#"(module (global $g (mut i32) (i32.const 0))
    (func (export "f") (param i32)
        (global.set $g (i32.const 1))
        (if (local.get 0) (then (loop (br 0))))))"#;

fn short(timeout_ms: u64) -> CaseLimits {
    CaseLimits { timeout: Duration::from_millis(timeout_ms), ..CaseLimits::default() }
}

#[test]
fn an_infinite_loop_times_out_and_the_child_lives_on() {
    let mut sandbox = sandbox();
    for isolation in [Isolation::Fresh, Isolation::Reused] {
        let mut call = call(LOOP, &[ScalarType::I32], &[], &[i32s(&[0, 1, 0, 1, 0])], 5);
        (call.limits, call.isolation) = (short(20), isolation);
        let begin = Instant::now();
        let outcomes = outcomes(&mut sandbox, &call);
        assert!(begin.elapsed() >= Duration::from_millis(40), "no case is cut short");
        let [ok, timeout] = [Outcome::Ok, Outcome::Timeout];
        assert_eq!(outcomes, [ok, timeout, ok, timeout, ok], "{isolation:?}");
    }
    assert_eq!(sandbox.stats().starts, 1);
}

#[test]
fn an_infinite_loop_in_a_pure_function_times_out() {
    let text = r#"(module (func (export "f") (param i32) (if (local.get 0) (then (loop (br 0))))))"#;
    let mut call = call(text, &[ScalarType::I32], &[], &[i32s(&[1, 0, 0, 1, 0])], 5);
    call.limits = short(10);
    let [ok, timeout] = [Outcome::Ok, Outcome::Timeout];
    assert_eq!(outcomes(&mut sandbox(), &call), [timeout, ok, ok, timeout, ok]);
}

#[test]
fn an_infinite_loop_in_a_start_function_or_an_allocator_times_out() {
    let mut sandbox = sandbox();
    let start = r#"(module (func $s (loop (br 0))) (start $s) (func (export "f")))"#;
    for isolation in [Isolation::Fresh, Isolation::Reused] {
        let mut call = call_plain(start, 2);
        (call.limits, call.isolation) = (short(5), isolation);
        assert_eq!(outcomes(&mut sandbox, &call), [Outcome::Timeout; 2]);
    }
}

#[test]
fn an_infinite_loop_runs_out_of_fuel_at_the_same_place() {
    let text = r#"(module (global $n (mut i32) (i32.const 0)) (func (export "f") (param i32) (result i32)
        (loop $next
            (global.set $n (i32.add (global.get $n) (i32.const 1)))
            (br_if $next (i32.lt_u (global.get $n) (local.get 0))))
        (global.get $n)))"#;
    let mut sandbox = sandbox();
    let mut used = vec![];
    for isolation in [Isolation::Fresh, Isolation::Reused, Isolation::Fresh] {
        let mut call = call(text, &[ScalarType::I32], &[ScalarType::I32], &[i32s(&[100, -1, 100])], 3);
        (call.limits.fuel, call.isolation) = (Some(10_000), isolation);
        let result = run(&mut sandbox, &call).expect("the call runs");
        assert_eq!(result.outcomes.iter().collect::<Vec<_>>(), [Outcome::Ok, Outcome::OutOfFuel, Outcome::Ok]);
        assert_eq!(read_i32s(&result.columns[0]), [100, 0, 100]);
        used.push(result.fuel_used);
    }
    assert!(used[0] > 10_000 && used.iter().all(|fuel| *fuel == used[0]), "{used:?}");
}

#[test]
fn fuel_does_not_lift_the_time_limit() {
    let mut call = call(LOOP, &[ScalarType::I32], &[], &[i32s(&[1])], 1);
    call.limits = CaseLimits { fuel: Some(u64::MAX), ..short(10) };
    assert_eq!(outcomes(&mut sandbox(), &call), [Outcome::Timeout]);
}

#[test]
fn a_call_of_many_slow_cases_ends_at_its_deadline_and_the_child_lives_on() {
    let mut sandbox = sandbox();
    for isolation in [Isolation::Fresh, Isolation::Reused] {
        let mut call = call(LOOP, &[ScalarType::I32], &[], &[i32s(&vec![1; 100_000])], 100_000);
        (call.limits, call.isolation) = (short(5), isolation);
        // Its module is loaded before.
        sandbox.load(&call.module, call.code(), soon()).expect("a valid module");
        let error = sandbox.call(&call, Instant::now() + Duration::from_millis(200)).expect_err("500 seconds of cases");
        assert!(matches!(error, SandboxError::Timeout { killed: false }), "{error}");
        assert_works(&mut sandbox);
    }
    assert_eq!(sandbox.stats().starts, 1);
}

#[test]
fn growing_memory_without_end_is_out_of_memory() {
    let text = r#"(module (memory 1) (func (export "f") (loop (drop (memory.grow (i32.const 16))) (br 0))))"#;
    let mut sandbox = sandbox();
    for isolation in [Isolation::Fresh, Isolation::Reused] {
        let mut call = call_plain(text, 20);
        call.isolation = isolation;
        assert_eq!(outcomes(&mut sandbox, &call), [Outcome::OutOfMemory; 20]);
    }
    assert_eq!(sandbox.stats().starts, 1);
}

#[test]
fn writing_all_memory_that_is_allowed_works_case_after_case() {
    let text = r#"(module (memory 1) (func (export "f")
        (drop (memory.grow (i32.const 1023)))
        (memory.fill (i32.const 0) (i32.const 1) (i32.const 67108864))))"#;
    let mut sandbox = sandbox_with(&Settings { memory_bytes: 256 << 20, ..Settings::default() });
    assert_eq!(outcomes(&mut sandbox, &call_plain(text, 40)), [Outcome::Ok; 40]);
    assert_eq!(sandbox.stats().starts, 1);
}

#[test]
fn growing_beyond_the_declared_maximum_returns_minus_one() {
    let text = r#"(module (memory 1 2) (func (export "f") (result i32 i32)
        (memory.grow (i32.const 2)) (memory.grow (i32.const 1))))"#;
    let result = run(&mut sandbox(), &call(text, &[], &[ScalarType::I32; 2], &[], 1)).expect("the call runs");
    assert_eq!((read_i32s(&result.columns[0])[0], read_i32s(&result.columns[1])[0]), (-1, 1));
}

#[test]
fn a_module_whose_memory_exceeds_the_limit_of_the_call_is_out_of_memory() {
    let mut call = call_plain(r#"(module (memory 17) (func (export "f")))"#, 2);
    call.limits.memory_bytes = 16 << 16;
    assert_eq!(outcomes(&mut sandbox(), &call), [Outcome::OutOfMemory; 2]);
}

#[test]
fn growing_a_table_without_end_is_out_of_memory() {
    let text = r#"(module (table 1 funcref) (func (export "f")
        (loop (drop (table.grow (ref.null func) (i32.const 1000))) (br 0))))"#;
    assert_eq!(outcomes(&mut sandbox(), &call_plain(text, 3)), [Outcome::OutOfMemory; 3]);
}

#[test]
fn infinite_recursion_overflows_the_stack() {
    let mut sandbox = sandbox();
    for state in ["", "(global.set $g (i32.const 1))"] {
        let text = format!(
            r#"(module (global $g (mut i32) (i32.const 0))
                (func $f (export "f") (param i32) (result i32) {state}
                    (i32.add (i32.const 1) (call $f (local.get 0)))))"#
        );
        let call = call(&text, &[ScalarType::I32], &[ScalarType::I32], &[i32s(&[0; 3])], 3);
        assert_eq!(outcomes(&mut sandbox, &call), [Outcome::StackOverflow; 3]);
    }
    assert_eq!(sandbox.stats().starts, 1);
}

#[test]
fn traps_are_named() {
    let mut sandbox = sandbox();
    for (body, outcome) in [
        ("(unreachable)", Outcome::Unreachable),
        ("(drop (i32.div_u (i32.const 1) (i32.const 0)))", Outcome::IntegerDivisionByZero),
        ("(drop (i32.div_s (i32.const 0x80000000) (i32.const -1)))", Outcome::IntegerOverflow),
        ("(drop (i32.trunc_f64_s (f64.const nan)))", Outcome::BadConversionToInteger),
        ("(drop (i32.load (i32.const 65536)))", Outcome::MemoryOutOfBounds),
        ("(drop (i32.load (i32.const -1)))", Outcome::MemoryOutOfBounds),
        ("(memory.fill (i32.const 65530) (i32.const 0) (i32.const 7))", Outcome::MemoryOutOfBounds),
        ("(call_indirect (i32.const 9))", Outcome::TableOutOfBounds),
        ("(call_indirect (i32.const 0))", Outcome::IndirectCallToNull),
        ("(call_indirect (param i32) (i32.const 0) (i32.const 1))", Outcome::BadSignature),
    ] {
        let text = format!(
            r#"(module (memory 1) (table 2 funcref) (elem (i32.const 1) func $f)
                (func $f (export "f") {body}))"#
        );
        assert_eq!(outcomes(&mut sandbox, &call_plain(&text, 1)), [outcome], "{body}");
    }
}

#[test]
fn unknown_imports_are_listed() {
    let text = r#"(module
        (import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))
        (import "math" "sin_f64" (func (param f64) (result f64)))
        (import "math" "sin_f64" (func (param f32) (result f32)))
        (import "env" "memory" (memory 1))
        (func (export "f")))"#;
    let mut call = call_plain(text, 1);
    call.math = true;
    let error = run(&mut sandbox(), &call).expect_err("they are not provided");
    let expected = "3 of the module's imports are not provided: wasi_snapshot_preview1.fd_write (i32, i32, i32, i32) -> (i32), \
                    math.sin_f64 (f32) -> (f32), env.memory memory";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn modules_that_are_too_large_are_refused_before_they_are_compiled() {
    let module_limits =
        ModuleLimits { bytes: 10_000, functions: 10, function_bytes: 1000, items: 5, tables: 1, table_elements: 100 };
    let mut sandbox = sandbox_with(&Settings { module_limits, ..Settings::default() });
    for (what, text) in [
        ("bytes", format!(r#"(module (memory 1) (data (i32.const 0) "{}"))"#, "x".repeat(10_000))),
        ("functions", format!("(module {})", "(func)".repeat(11))),
        ("bytes in one function", format!("(module (func {}))", "(drop (i64.const 1))".repeat(1000))),
        ("types", format!("(module {})", "(type (func (param i32)))".repeat(6))),
        ("globals", format!("(module {})", "(global i32 (i32.const 1))".repeat(6))),
        ("exports", format!("(module (func) {})", each(6, |n| format!(r#"(export "{n}" (func 0))"#)))),
        ("data segments", format!("(module {})", r#"(data "x")"#.repeat(6))),
        ("tables", "(module (table 1 funcref) (table 1 funcref))".into()),
        ("elements of tables", "(module (table 101 funcref))".into()),
    ] {
        let error = sandbox.load(&module(&text), ModuleCode::Plain, soon()).expect_err("a limit");
        let SandboxError::Refused(Refusal::ModuleTooLarge { what: got, .. }) = error else { panic!("{what}: {error}") };
        assert_eq!(got, what);
    }
    assert_works(&mut sandbox);
}

#[test]
fn garbage_is_an_invalid_module() {
    let mut sandbox = sandbox();
    let magic = b"\0asm\x01\0\0\0".to_vec();
    let garbage: Vec<u8> = (0..10_000_000u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    for binary in [vec![], vec![0; 100], magic[..6].to_vec(), garbage.clone(), [magic, garbage].concat()] {
        let error = sandbox.load(&Module::new(binary), ModuleCode::Plain, soon()).expect_err("garbage");
        assert!(matches!(error, SandboxError::Refused(Refusal::InvalidModule(_))), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
    assert_works(&mut sandbox);
    assert_eq!(sandbox.stats().starts, 1);
}

#[test]
fn proposals_that_are_not_enabled_are_refused() {
    let mut sandbox = sandbox();
    for text in [
        "(module (memory i64 1))",
        "(module (memory 1) (memory 1))",
        "(module (memory 1 1 shared))",
        "(module (func (drop (i8x16.relaxed_swizzle (v128.const i64x2 0 0) (v128.const i64x2 0 0)))))",
        "(module (type (struct)))",
        "(module (tag))",
    ] {
        let error = sandbox.load(&module(text), ModuleCode::Plain, soon()).expect_err("not enabled");
        assert!(matches!(error, SandboxError::Refused(_)), "{text}: {error}");
    }
    assert_works(&mut sandbox);
}

/// A small generator of random numbers: the mutations are the same in every run.
struct Random(u64);

impl Random {
    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).expect("a byte")
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % end
    }
}

#[test]
fn mutated_modules_never_take_the_child_down() {
    let seed = wat::parse_str(
        r#"(module (memory (export "memory") 1 4) (table 4 funcref) (global $g (mut i64) (i64.const 7))
            (type $t (func (param i32) (result i32)))
            (func $a (param i32) (result i32) (i32.load8_u (local.get 0)))
            (func (export "f") (param i32) (result i32) (local f64 i64)
                (block $out (loop $again
                    (br_if $out (i32.eqz (local.get 0)))
                    (local.set 0 (i32.sub (local.get 0) (i32.const 1)))
                    (global.set $g (i64.mul (global.get $g) (i64.const 31)))
                    (br $again)))
                (call_indirect (type $t) (i32.const 3) (i32.const 1)))
            (elem (i32.const 1) func $a) (data (i32.const 0) "abcdef"))"#,
    )
    .expect("the text is a module");
    let mut sandbox = sandbox();
    let mut random = Random(1);
    let mut valid = 0;
    for _ in 0..1500 {
        let mut binary = seed.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(binary.len());
            match random.below(4) {
                0 => binary[at] = random.byte(),
                1 => binary[at] ^= 1 << random.below(8),
                2 => drop(binary.remove(at)),
                _ => binary.insert(at, random.byte()),
            }
        }
        let mut call = call("(module)", &[ScalarType::I32], &[ScalarType::I32], &[i32s(&[5, -1, 0])], 3);
        (call.module, call.limits) = (Module::new(binary), short(2));
        match sandbox.call(&call, soon()) {
            Ok(_) => valid += 1,
            Err(SandboxError::Refused(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(valid > 50, "{valid} mutations were valid modules");
    assert_eq!(sandbox.stats().starts, 1);
}

/// Functions whose compilation takes long: straight code with many values that live to its end.
fn compile_bomb() -> Module {
    let local = |n: u32| format!("(local.get {})", n % 1000);
    let lines = each(40_000, |n| {
        let a = local(n * 7);
        let b = local(n * 13);
        let c = local(n * 31 + 1);
        format!("(local.set {} (i64.mul {a} (i64.add {b} {c})))", n % 1000)
    });
    let sum = each(1000, |n| format!("(i64.xor {})", local(n)));
    let locals = "i64 ".repeat(999);
    let functions = each(4, |n| {
        format!(r#"(func (export "f{n}") (param i64) (result i64) (local {locals}) {lines} (i64.const 1) {sum})"#)
    });
    module(&format!("(module {functions})"))
}

#[test]
fn a_compilation_that_takes_too_long_is_killed() {
    let settings = Settings { load_timeout: Duration::from_millis(50), ..Settings::default() };
    let mut sandbox = Sandbox::start(program(), settings).expect("the child process starts");
    let begin = Instant::now();
    let error = sandbox.load(&compile_bomb(), ModuleCode::Plain, soon()).expect_err("it takes longer");
    assert!(matches!(error, SandboxError::Timeout { killed: true }), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(10), "it is not waited for: {:?}", begin.elapsed());
    assert_eq!(sandbox.stats().timeouts, 1);
    let info = sandbox.load(&module("(module)"), ModuleCode::Plain, soon());
    info.expect("a new child compiles a small module");
    assert_eq!(sandbox.stats().restarts, 1);
}

#[test]
fn a_compilation_that_takes_too_much_memory_ends_the_child_and_nothing_else() {
    let settings = Settings { memory_bytes: 24 << 20, ..Settings::default() };
    let mut sandbox = sandbox_with(&settings);
    let functions = each(200, |n| format!("(func (result i64) (i64.const {n}))"));
    sandbox.load(&module(&format!("(module {functions})")), ModuleCode::Plain, soon()).expect("a small module fits");
    let error = sandbox.load(&compile_bomb(), ModuleCode::Plain, soon()).expect_err("it takes more");
    let is_expected = matches!(&error, SandboxError::OutOfMemory(_) | SandboxError::Refused(Refusal::NotCompiled(_)));
    assert!(is_expected, "{error}");
    assert_works(&mut sandbox);
}

#[test]
fn a_child_that_is_killed_within_a_call_is_an_error_and_is_replaced() {
    let mut sandbox = sandbox();
    let pid = sandbox.pid().expect("a child runs");
    let mut call = call(LOOP, &[ScalarType::I32], &[], &[i32s(&[1])], 1);
    call.limits = short(30_000);
    sandbox.load(&call.module, call.code(), soon()).expect("a valid module");
    let error = thread::scope(|scope| {
        scope.spawn(|| {
            wait_until_running(pid);
            kill(pid);
        });
        sandbox.call(&call, soon()).expect_err("the child is killed")
    });
    assert!(matches!(error, SandboxError::Crashed { signal: Some(9), .. }), "{error}");
    assert_works(&mut sandbox);
    let stats = sandbox.stats();
    assert_eq!((stats.starts, stats.restarts, stats.crashes), (2, 1, 1));
}

#[test]
fn a_child_that_ended_between_calls_is_replaced_without_an_error() {
    let mut sandbox = sandbox();
    let pid = sandbox.pid().expect("a child runs");
    kill(pid);
    wait_until(|| has_ended(pid));
    assert_works(&mut sandbox);
    assert_eq!(sandbox.stats().restarts, 1);
}

#[test]
fn a_child_that_is_killed_just_before_a_call_is_replaced_without_an_error() {
    let mut sandbox = sandbox();
    for restarts in 1..=10 {
        kill(sandbox.pid().expect("a child runs"));
        assert_works(&mut sandbox);
        assert_eq!(sandbox.stats().restarts, restarts);
    }
}

/// Pauses whatever runs, as often as it can.
struct Pauses {
    pid: u32,
    count: AtomicU32,
}

impl Scheduler for Pauses {
    fn slice_left(&self) -> Duration {
        Duration::ZERO
    }

    fn process_started(&self) {}

    fn slice_ended(&self, process: &Process<'_>) -> Result<(), SandboxError> {
        assert!(process.memory_bytes().is_some_and(|bytes| bytes > 0));
        process.pause(|| {
            wait_until(|| is_stopped_or_waits(self.pid));
            self.count.fetch_add(1, Ordering::Relaxed);
        });
        Ok(())
    }

    fn deadline(&self) -> Instant {
        soon()
    }
}

#[test]
fn a_case_that_pauses_has_the_time_that_it_has_alone() {
    let mut sandbox = sandbox();
    let mut call = call(LOOP, &[ScalarType::I32], &[], &[i32s(&[1, 0])], 2);
    call.limits = short(100);
    sandbox.load(&call.module, call.code(), soon()).expect("a valid module");
    let pauses = Arc::new(Pauses { pid: sandbox.pid().expect("a child runs"), count: AtomicU32::new(0) });
    sandbox.set_scheduler(Some(Arc::clone(&pauses) as Arc<dyn Scheduler>));
    assert_eq!(outcomes(&mut sandbox, &call), [Outcome::Timeout, Outcome::Ok]);
    let count = pauses.count.load(Ordering::Relaxed);
    assert!(count >= 4, "{count} pauses");
    assert_eq!(sandbox.stats().starts, 1);
}

/// Returns true if no thread of the process can run.
fn is_stopped_or_waits(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    matches!(state, Some('T' | 'S'))
}

#[test]
fn the_child_ends_with_the_sandbox() {
    let sandbox = sandbox();
    let pid = sandbox.pid().expect("a child runs");
    drop(sandbox);
    wait_until(|| !fs::exists(format!("/proc/{pid}")).unwrap_or(true));
}

#[test]
fn a_child_that_writes_garbage_is_a_protocol_error() {
    for script in [
        "echo this is no frame, but it is longer than the prefix of one; cat >/dev/null",
        "printf 'ACS\\001\\377\\377\\377\\377\\000\\000\\000\\000\\000\\000\\000\\000'; cat >/dev/null",
        "printf 'ACS\\001\\001\\000\\000\\000\\000\\000\\000\\000\\000\\000\\000\\100x'; cat >/dev/null",
        "printf 'ACS\\001\\001\\000\\000\\000\\000\\000\\000\\000\\000\\000\\000\\000\\011'; cat >/dev/null",
        "cat /dev/urandom",
    ] {
        let Err(error) = Sandbox::start(shell(script), Settings::default()) else { panic!("{script} is no sandbox") };
        assert!(matches!(error, SandboxError::Protocol(_)), "{script}: {error}");
    }
}

#[test]
fn a_child_that_does_not_start_is_an_error() {
    let start_timeout = Duration::from_millis(100);
    let settings = Settings { start_timeout, ..Settings::default() };
    let Err(error) = Sandbox::start(shell("exec sleep 60"), settings.clone()) else { panic!("it is silent") };
    assert!(matches!(error, SandboxError::Timeout { killed: true }), "{error}");
    let Err(error) = Sandbox::start(shell("echo reason >&2; exit 3"), Settings::default()) else { panic!("it ends") };
    let SandboxError::Start(reason) = error else { panic!("{error}") };
    assert!(reason.contains("exit code 3") && reason.contains("reason"), "{reason}");
    let missing = accelerd_sandbox::Program { path: "/no/such/program".into(), arguments: vec![], environment: vec![] };
    let Err(error) = Sandbox::start(missing, settings) else { panic!("there is no program") };
    assert!(error.to_string().contains("/no/such/program"), "{error}");
}

#[test]
fn the_child_has_an_empty_environment_and_lowered_limits() {
    let sandbox = sandbox();
    let pid = sandbox.pid().expect("a child runs");
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).expect("the child runs");
    let soft = |name: &str| {
        let line = limits.lines().find(|line| line.starts_with(name)).expect("a limit");
        line[name.len()..].split_whitespace().next().expect("a value").to_owned()
    };
    assert_eq!(soft("Max core file size"), "0");
    assert_eq!(soft("Max open files"), "512");
    assert!(soft("Max data size").parse::<u64>().expect("a number") < 4 << 30);
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the child runs");
    assert!(status.contains("NoNewPrivs:\t1"), "{status}");
    if let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) {
        assert_eq!(environment, b"");
    }
}

#[test]
fn calls_to_a_pool_run_at_the_same_time() {
    let settings = Settings { load_timeout: Duration::from_secs(60), ..Settings::default() };
    let pool = Pool::start(&program(), &settings, 2).expect("the child processes start");
    let mut slow = call(LOOP, &[ScalarType::I32], &[], &[i32s(&[1])], 1);
    slow.limits = short(300);
    pool.load(&slow.module, slow.code(), soon()).expect("a valid module");
    thread::scope(|scope| {
        let calls = [(); 2].map(|()| scope.spawn(|| pool.call(&slow, soon())));
        for call in calls {
            let result = call.join().expect("no panic").expect("the call runs");
            assert_eq!(result.outcomes.get(0), Some(Outcome::Timeout));
        }
    });
    let stats = pool.stats();
    assert!(stats.starts <= 2 && stats.cases == 2, "{stats:?}");
}

#[test]
fn a_call_waits_for_a_free_child_no_longer_than_its_deadline() {
    let settings = Settings { load_timeout: Duration::from_secs(60), ..Settings::default() };
    let pool = Pool::start(&program(), &settings, 1).expect("the child process starts");
    let mut slow = call(LOOP, &[ScalarType::I32], &[], &[i32s(&[0, 1])], 2);
    slow.limits = short(500);
    let refused = pool.call_in_slices(&slow, soon(), |_| {
        let error = pool.call(&slow, Instant::now() + Duration::from_millis(5)).expect_err("the only child is taken");
        assert!(matches!(error, SandboxError::Busy), "{error}");
        std::ops::ControlFlow::Break(())
    });
    assert!(matches!(refused, Err(SandboxError::Canceled)));
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a process id");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("the child runs");
}

/// Waits for what another process is about to do.
fn wait_until(condition: impl Fn() -> bool) {
    let until = soon();
    while !condition() {
        assert!(Instant::now() < until, "it does not happen");
        thread::yield_now();
    }
}

/// Returns true if the process has ended with all its threads.
fn has_ended(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    threads <= 1 && stat.map_or(true, |stat| stat.contains(") Z "))
}

/// Waits until a thread of the child computes: nothing but a case takes this long.
fn wait_until_running(pid: u32) {
    let ticks = || -> u64 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit(')').next().unwrap_or_default();
        fields.split(' ').nth(12).and_then(|ticks| ticks.parse().ok()).unwrap_or(u64::MAX)
    };
    let begin = ticks();
    wait_until(|| ticks() > begin.saturating_add(3));
}
