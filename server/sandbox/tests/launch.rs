//! Launches of kernels compute what their source says, report faults thread by thread, and end by their limits.

mod common;

use std::{
    ops::{ControlFlow, Range},
    process::Command,
    time::{Duration, Instant},
};

use accelerd_ir::kernel::{
    FaultKind, FaultRecord, Kernel,
    wasm::{self, ImageArgument, MemoryImage},
};
use accelerd_lower::{Dialect, Options, lower};
use accelerd_sandbox::{
    FaultCause, Launch, LaunchFault, LaunchProgress, LaunchResult, Module, ModuleCode, OnFault, Outcome, Pool, Refusal,
    Sandbox, SandboxError, Settings,
};
use bytes::Bytes;
use common::*;

const REPEATABLE: OnFault = OnFault::Continue { repeatable: true };
const ONE_BY_ONE: OnFault = OnFault::Continue { repeatable: false };

fn kernel(source: &str, dialect: Dialect) -> Kernel {
    let module = lower(source, &Options { dialect, ..Options::default() }).expect("a source of the dialect");
    module.kernels.into_iter().next().expect("a kernel").kernel
}

fn array(data: Bytes, size: usize) -> ImageArgument<Bytes> {
    ImageArgument::Array { extents: vec![(data.len() / size) as u64], data }
}

fn zeros(extent: usize) -> ImageArgument<Bytes> {
    ImageArgument::Zeros { extents: vec![extent as u64] }
}

/// A launch whose outputs are the arrays that the kernel writes.
fn launch_of(kernel: &Kernel, threads: usize, arguments: Vec<ImageArgument<Bytes>>, on_fault: OnFault) -> Launch {
    let image = MemoryImage::new(kernel, &[threads as u64], arguments, 1 << 28).expect("a launch that fits");
    let written = kernel.written();
    let outputs = image.arrays.iter().zip(written).filter(|(_, is_written)| *is_written);
    let outputs = outputs.map(|(range, _)| range.clone().expect("an array")).collect();
    let mut segments = vec![(wasm::RESERVED, Bytes::from(image.head))];
    segments.extend(image.data);
    Launch {
        module: Module::new(wasm::emit(kernel).expect("the kernel is well formed")),
        segments,
        memory_bytes: image.memory_bytes,
        arguments: image.arguments,
        grid: image.grid,
        first_thread: 0,
        thread_count: image.thread_count,
        loop_budget: 1 << 32,
        on_fault,
        timeout: Duration::from_secs(60),
        outputs,
        cuda: None,
    }
}

fn launch(sandbox: &mut Sandbox, launch: &Launch) -> Result<LaunchResult, SandboxError> {
    sandbox.launch(launch, soon(), |_| ControlFlow::Continue(()))
}

fn refusal(sandbox: &mut Sandbox, of: &Launch) -> Refusal {
    match launch(sandbox, of) {
        Err(SandboxError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

/// Threads and kinds of faults that have a record.
fn kinds(result: &LaunchResult) -> Vec<(u64, Option<FaultKind>)> {
    let kind = |fault: &LaunchFault| match fault.cause {
        FaultCause::Record(record) => FaultKind::from_code(FaultRecord::from_bytes(&record).kind),
        FaultCause::Outcome(_) => None,
    };
    result.faults.iter().map(|fault| (fault.thread, kind(fault))).collect()
}

/// `y += a * x`, of f32.
fn saxpy(x: &[f32], y: &[f32], a: f32) -> Launch {
    let source = "import warp as wp\n\
        @wp.kernel\n\
        def saxpy(x: wp.array(dtype=float), y: wp.array(dtype=float), z: wp.array(dtype=float), a: float):\n\
        \x20   i = wp.tid()\n\
        \x20   z[i] = a * x[i] + y[i]\n";
    let f32s = |values: &[f32]| array(bytes_of(values, |value| value.to_le_bytes()), 4);
    let a = ImageArgument::Value(Bytes::from(a.to_le_bytes().to_vec()));
    let arguments = vec![f32s(x), f32s(y), zeros(x.len()), a];
    launch_of(&kernel(source, Dialect::Warp), x.len(), arguments, OnFault::Stop)
}

fn python(source: &str, columns: Vec<Bytes>, on_fault: OnFault) -> Launch {
    let kernel = kernel(source, Dialect::Python);
    let rows = columns[0].len() / 8;
    let arguments = columns.into_iter().map(|column| array(column, 8)).chain([zeros(rows)]).collect();
    launch_of(&kernel, rows, arguments, on_fault)
}

fn i64s(values: &[i64]) -> Bytes {
    bytes_of(values, |value| value.to_le_bytes())
}

fn read_i64s(bytes: &[u8]) -> Vec<i64> {
    bytes.chunks_exact(8).map(|bytes| i64::from_le_bytes(bytes.try_into().expect("eight bytes"))).collect()
}

/// Divides, with more work where `n` is greater.
const QUOTIENT: &str = "def f(x: int, n: int) -> int:\n\
    \x20   total = 0\n\
    \x20   for i in range(n):\n\
    \x20       total += i % 7\n\
    \x20   return 1000 // x + total\n";

fn quotient(x: i64, n: i64) -> i64 {
    1000_i64.div_euclid(x) + (0..n).map(|i| i % 7).sum::<i64>()
}

/// `f(n)` runs n iterations.
const COUNT: &str = "def f(n: int) -> int:\n\
    \x20   i = 0\n\
    \x20   while i < n:\n\
    \x20       i += 1\n\
    \x20   return i\n";

const FOREVER: i64 = i64::MAX;

#[test]
fn a_million_threads_compute_what_a_plain_loop_does() {
    let x: Vec<f32> = (0..1_000_000).map(|i: u32| i as f32 * 0.25 - 7.0).collect();
    let y: Vec<f32> = (0..1_000_000).map(|i: u32| (i % 977) as f32).collect();
    let mut sandbox = sandbox();
    let result = launch(&mut sandbox, &saxpy(&x, &y, 1.7)).expect("the launch runs");
    assert_eq!((result.outcome, result.faults.len(), result.outputs.len()), (Outcome::Ok, 0, 1));
    let expected: Vec<u8> = x.iter().zip(&y).flat_map(|(x, y)| (1.7 * x + y).to_le_bytes()).collect();
    assert!(result.outputs[0] == expected, "the bits of a plain loop");
    assert!(result.execution_time > Duration::ZERO);
    let stats = sandbox.stats();
    assert_eq!((stats.launches, stats.threads, stats.starts), (1, 1_000_000, 1));
}

#[test]
fn a_part_of_the_threads_runs_alone() {
    let mut launch_of_all = saxpy(&[1.0; 10], &[1.0; 10], 2.0);
    (launch_of_all.first_thread, launch_of_all.thread_count) = (3, 4);
    let result = launch(&mut sandbox(), &launch_of_all).expect("the launch runs");
    let z: Vec<_> = result.outputs[0].chunks_exact(4).map(|bytes| bytes != [0; 4]).collect();
    assert_eq!(z, [false, false, false, true, true, true, true, false, false, false]);
}

#[test]
fn elementary_functions_are_those_of_the_interpreter() {
    let source = "import math\ndef f(x: float, y: float) -> float:\n    return math.sin(x) * math.pow(y, 0.5)\n";
    let (x, y): (Vec<_>, Vec<_>) = (0..500).map(|i| (f64::from(i) * 0.37, f64::from(i) * 1.5)).unzip();
    let result = launch(&mut sandbox(), &python(source, vec![f64s(&x), f64s(&y)], OnFault::Stop));
    let expected: Vec<_> = x.iter().zip(&y).map(|(x, y)| x.sin() * y.powf(0.5)).collect();
    assert_eq!(read_f64s(&result.expect("the launch runs").outputs[0]), expected);
}

/// Adds 1 to a cell, and divides by x.
const ATOMIC: &str = "import warp as wp\n\
    @wp.kernel\n\
    def count(x: wp.array(dtype=int), y: wp.array(dtype=int), cells: wp.array(dtype=int)):\n\
    \x20   i = wp.tid()\n\
    \x20   wp.atomic_add(cells, i % 8, 1)\n\
    \x20   assert x[i] != 0\n\
    \x20   y[i] = x[i]\n";

#[test]
fn atomic_operations_count_every_thread_once_even_those_with_a_fault() {
    let kernel = kernel(ATOMIC, Dialect::Warp);
    assert!(!kernel.is_repeatable());
    let x: Vec<i32> = (0..10_000).map(|i| i % 1000).collect();
    let arguments = vec![array(i32s(&x), 4), zeros(x.len()), zeros(8)];
    let result = launch(&mut sandbox(), &launch_of(&kernel, x.len(), arguments, ONE_BY_ONE)).expect("it runs");
    let expected: Vec<_> = (0..10).map(|i| (i * 1000, Some(FaultKind::Assertion))).collect();
    assert_eq!(kinds(&result), expected);
    assert_eq!(read_i32s(&result.outputs[0]), x);
    assert_eq!(read_i32s(&result.outputs[1]), [1250; 8]);
}

#[test]
fn only_the_row_that_divides_by_zero_has_a_fault() {
    let x = [5, 3, 2, 0, 7, -4, 1, 9];
    let mut sandbox = sandbox();
    for on_fault in [REPEATABLE, ONE_BY_ONE] {
        let launch_of = python(QUOTIENT, vec![i64s(&x), i64s(&[3; 8])], on_fault);
        let result = launch(&mut sandbox, &launch_of).expect("the launch runs");
        assert_eq!(result.outcome, Outcome::Ok);
        assert_eq!(kinds(&result), [(3, Some(FaultKind::DivisionByZero))], "{on_fault:?}");
        let expected: Vec<_> = x.iter().map(|x| if *x == 0 { 0 } else { quotient(*x, 3) }).collect();
        assert_eq!(read_i64s(&result.outputs[0]), expected, "{on_fault:?}");
    }
}

#[test]
fn every_one_of_many_faults_is_found_whatever_threads_cost() {
    let x: Vec<i64> = (0..30_000).map(|i| if i % 97 < 3 || i < 200 { 0 } else { i % 50 + 1 }).collect();
    let n: Vec<i64> = (0..30_000).map(|i| if i % 7001 == 0 { 100_000 } else { i % 13 }).collect();
    let mut sandbox = sandbox();
    for on_fault in [REPEATABLE, ONE_BY_ONE] {
        let launch_of = python(QUOTIENT, vec![i64s(&x), i64s(&n)], on_fault);
        let result = launch(&mut sandbox, &launch_of).expect("the launch runs");
        let faulty = (0..).zip(&x).filter(|(_, x)| **x == 0).map(|(row, _)| (row, Some(FaultKind::DivisionByZero)));
        assert_eq!(kinds(&result), faulty.collect::<Vec<_>>());
        let rows = x.iter().zip(&n).map(|(x, n)| if *x == 0 { 0 } else { quotient(*x, *n) });
        assert_eq!(read_i64s(&result.outputs[0]), rows.collect::<Vec<_>>());
    }
}

#[test]
fn a_launch_stops_at_its_first_fault() {
    let launch_of = python(QUOTIENT, vec![i64s(&[1, 2, 0, 4, 0]), i64s(&[3; 5])], OnFault::Stop);
    let mut sandbox = sandbox();
    let result = launch(&mut sandbox, &launch_of).expect("the launch runs");
    assert_eq!(kinds(&result), [(2, Some(FaultKind::DivisionByZero))]);
    assert_eq!((result.outcome, result.outputs.len()), (Outcome::Ok, 0));
    assert_eq!(sandbox.stats().threads, 3);
}

#[test]
fn an_infinite_loop_ends_by_the_loop_budget() {
    let mut launch_of = python(COUNT, vec![i64s(&[1, FOREVER, 50, 200])], REPEATABLE);
    launch_of.loop_budget = 100;
    let result = launch(&mut sandbox(), &launch_of).expect("the launch runs");
    let exhausted = Some(FaultKind::BudgetExhausted);
    assert_eq!(kinds(&result), [(1, exhausted), (3, exhausted)]);
    assert_eq!(read_i64s(&result.outputs[0]), [1, 0, 50, 0]);
}

#[test]
fn an_infinite_loop_without_a_budget_ends_by_the_time_limit() {
    let mut sandbox = sandbox();
    let mut launch_of = python(COUNT, vec![i64s(&[1, FOREVER, 100])], OnFault::Stop);
    (launch_of.loop_budget, launch_of.timeout) = (u64::MAX, Duration::from_millis(80));
    let begin = Instant::now();
    let result = launch(&mut sandbox, &launch_of).expect("the launch runs");
    assert!(begin.elapsed() >= launch_of.timeout, "it is not cut short");
    assert_eq!((result.outcome, result.outputs.len(), result.faults.len()), (Outcome::Timeout, 0, 0));
    assert_works(&mut sandbox);
    assert_eq!(sandbox.stats().starts, 1);
}

#[test]
fn only_the_threads_that_run_too_long_time_out() {
    let mut n: Vec<i64> = (0..2000).collect();
    (n[700], n[1999]) = (FOREVER, FOREVER);
    let mut sandbox = sandbox();
    for on_fault in [REPEATABLE, ONE_BY_ONE] {
        let mut launch_of = python(COUNT, vec![i64s(&n)], on_fault);
        (launch_of.loop_budget, launch_of.timeout) = (u64::MAX, Duration::from_millis(100));
        let result = launch(&mut sandbox, &launch_of).expect("the launch runs");
        let timeout = |thread| LaunchFault { thread, cause: FaultCause::Outcome(Outcome::Timeout) };
        assert_eq!((result.outcome, result.faults), (Outcome::Ok, vec![timeout(700), timeout(1999)]));
        let expected: Vec<_> = n.iter().map(|n| if *n == FOREVER { 0 } else { *n }).collect();
        assert_eq!(read_i64s(&result.outputs[0]), expected);
    }
}

#[test]
fn slices_end_also_where_each_of_many_threads_times_out() {
    let mut launch_of = python(COUNT, vec![i64s(&vec![FOREVER; 100_000])], REPEATABLE);
    (launch_of.loop_budget, launch_of.timeout) = (u64::MAX, Duration::ZERO);
    let mut slices = 0;
    let on_slice = |_| {
        slices += 1;
        if slices < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let error = sandbox().launch(&launch_of, soon(), on_slice).expect_err("it is cancelled");
    assert!(matches!(error, SandboxError::Canceled), "{error}");
}

#[test]
fn an_infinite_loop_ends_at_the_deadline_of_the_call_and_the_child_lives_on() {
    let mut sandbox = sandbox();
    let mut launch_of = python(COUNT, vec![i64s(&[FOREVER])], OnFault::Stop);
    launch_of.loop_budget = u64::MAX;
    sandbox.load(&launch_of.module, ModuleCode::Plain, soon()).expect("a valid module");
    let deadline = Instant::now() + Duration::from_millis(200);
    let error = sandbox.launch(&launch_of, deadline, |_| ControlFlow::Continue(())).expect_err("it never ends");
    assert!(matches!(error, SandboxError::Timeout { killed: false }), "{error}");
    assert_works(&mut sandbox);
    assert_eq!(sandbox.stats().starts, 1);
}

#[test]
fn a_launch_is_cancelled_between_two_slices_also_within_a_thread() {
    let mut sandbox = sandbox();
    let mut launch_of = python(COUNT, vec![i64s(&[1, 1, FOREVER])], OnFault::Stop);
    launch_of.loop_budget = u64::MAX;
    let mut slices = vec![];
    let on_slice = |LaunchProgress { threads_done }: LaunchProgress| {
        slices.push(threads_done);
        if slices.len() < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let error = sandbox.launch(&launch_of, soon(), on_slice).expect_err("it is cancelled");
    assert!(matches!(error, SandboxError::Canceled), "{error}");
    assert!(slices.len() == 3 && slices.iter().all(|threads| *threads < 3), "{slices:?}");
    assert!(launch(&mut sandbox, &saxpy(&[2.0], &[1.0], 3.0)).is_ok(), "the next launch runs");
    assert_eq!(sandbox.stats().starts, 1);
}

#[test]
fn a_child_that_is_killed_in_the_middle_is_replaced() {
    let mut sandbox = sandbox();
    let mut launch_of = python(COUNT, vec![i64s(&[FOREVER])], OnFault::Stop);
    launch_of.loop_budget = u64::MAX;
    let pid = sandbox.pid().expect("a child runs").to_string();
    let on_slice = |_| {
        Command::new("kill").args(["-9", &pid]).status().expect("kill runs");
        ControlFlow::Continue(())
    };
    let error = sandbox.launch(&launch_of, soon(), on_slice).expect_err("the child is killed");
    assert!(matches!(error, SandboxError::Crashed { signal: Some(9), .. }), "{error}");
    let result = launch(&mut sandbox, &saxpy(&[2.0], &[1.0], 3.0)).expect("the next launch runs");
    assert_eq!(result.outputs, [7.0_f32.to_le_bytes()]);
    assert_eq!(sandbox.stats().restarts, 1);
}

#[test]
fn outputs_larger_than_a_message_are_read_in_pieces() {
    let n = 5 << 20;
    let mut launch_of = saxpy(&vec![1.0; n], &vec![2.0; n], 3.0);
    launch_of.outputs.push(0..3);
    let result = launch(&mut sandbox(), &launch_of).expect("the launch runs");
    assert_eq!((result.outputs[0].len(), result.outputs[1].len()), (4 * n, 3));
    assert!(result.outputs[0].chunks_exact(4).all(|bytes| bytes == 5.0_f32.to_le_bytes()));
}

#[test]
fn a_launch_that_needs_too_much_memory_is_refused_with_the_figure() {
    let mut sandbox = sandbox_with(&Settings { case_memory_bytes: 1 << 20, ..Settings::default() });
    let mut launch_of = saxpy(&[1.0; 8], &[1.0; 8], 1.0);
    launch_of.memory_bytes = 1 << 20;
    assert!(launch(&mut sandbox, &launch_of).is_ok());
    launch_of.memory_bytes += 1;
    let refused = refusal(&mut sandbox, &launch_of);
    let got = (1 << 20) + (1 << 16);
    let limit = 1 << 20;
    assert_eq!(refused, Refusal::LimitTooHigh { what: "memory of a launch".into(), got, limit });
    launch_of.memory_bytes = u64::MAX;
    assert!(matches!(refusal(&mut sandbox, &launch_of), Refusal::LimitTooHigh { .. }));
}

#[test]
fn addresses_and_threads_outside_of_the_launch_are_refused() {
    let mut sandbox = sandbox();
    let valid = saxpy(&[1.0; 8], &[1.0; 8], 1.0);
    let end = valid.memory_bytes;
    let outside = |launch_of: Launch, sandbox: &mut Sandbox| {
        let refused = refusal(sandbox, &launch_of);
        assert!(matches!(refused, Refusal::OutOfRange { .. }), "{refused}");
    };
    let segment = (u32::try_from(end).expect("small") - 1, Bytes::from_static(&[0; 2]));
    outside(Launch { segments: vec![segment], ..valid.clone() }, &mut sandbox);
    for (start, end) in [(0, end + 1), (2, 1)] {
        outside(Launch { outputs: vec![Range { start, end }], ..valid.clone() }, &mut sandbox);
    }
    outside(Launch { first_thread: i64::MAX.cast_unsigned(), ..valid.clone() }, &mut sandbox);
    outside(Launch { thread_count: u64::MAX, ..valid.clone() }, &mut sandbox);
    let result = launch(&mut sandbox, &Launch { thread_count: 0, ..valid }).expect("a launch without threads");
    assert_eq!((result.outcome, result.outputs), (Outcome::Ok, vec![vec![0; 32]]));
}

/// A launch of a module in the text format, with a page of memory.
fn launch_text(text: &str, threads: u64, on_fault: OnFault) -> Launch {
    Launch {
        module: module(text),
        segments: vec![],
        memory_bytes: 64,
        arguments: 0,
        grid: 0,
        first_thread: 10,
        thread_count: threads,
        loop_budget: 0,
        on_fault,
        timeout: Duration::from_millis(50),
        outputs: vec![Range { start: 0, end: 8 }],
        cuda: None,
    }
}

/// A module whose `run` has this body.
fn run_module(body: &str) -> String {
    format!(
        r#"(module (memory (export "memory") 1)
            (func (export "run") (param $a i32) (param $g i32) (param $first i64) (param $count i64) (param i64) (result i32)
                {body}))"#
    )
}

#[test]
fn modules_without_the_exports_of_a_kernel_are_refused() {
    let mut sandbox = sandbox();
    let mut refused = |text: &str| refusal(&mut sandbox, &launch_text(text, 1, OnFault::Stop));
    assert!(matches!(refused("(module)"), Refusal::NoSuchFunction { .. }));
    let other = r#"(module (memory (export "memory") 1) (func (export "run") (param i32 i32 i64 i64 i64)))"#;
    assert!(matches!(refused(other), Refusal::SignatureMismatch { .. }));
    let no_memory = run_module("(i32.const 0)").replace(r#"(export "memory")"#, "");
    assert_eq!(refused(&no_memory), Refusal::NoMemory);
    let imports = r#"(module (import "env" "f" (func)))"#;
    assert!(matches!(refused(imports), Refusal::UnknownImports { .. }));
}

#[test]
fn a_module_whose_status_or_record_is_garbage_is_refused_and_the_child_lives_on() {
    let mut sandbox = sandbox();
    let thread = |thread: &str| run_module(&format!("(i64.store (i32.const 0) {thread}) (i32.const 1)"));
    for on_fault in [OnFault::Stop, REPEATABLE, ONE_BY_ONE] {
        for text in [
            run_module("(i32.const 2)"),
            run_module("(i32.const -1)"),
            thread("(i64.const -1)"),
            thread("(i64.const 9)"),
            thread("(i64.add (local.get $first) (local.get $count))"),
        ] {
            let refused = refusal(&mut sandbox, &launch_text(&text, 5, on_fault));
            assert!(matches!(refused, Refusal::NotAKernel(_)), "{refused}");
        }
    }
    // The caller checks the bytes after the number of the thread.
    let text = run_module(
        "(memory.fill (i32.const 0) (i32.const 255) (i32.const 40)) (i64.store (i32.const 0) (local.get $first)) (i32.const 1)",
    );
    let result = launch(&mut sandbox, &launch_text(&text, 2, REPEATABLE)).expect("the launch runs");
    assert_eq!(kinds(&result), [(10, None), (11, None)]);
    assert_eq!(sandbox.stats().starts, 1);
}

#[test]
fn a_trap_ends_the_launch_or_the_thread() {
    let mut sandbox = sandbox();
    let recursion = run_module(
        "(call 0 (local.get 0) (local.get 1) (local.get 2) (i64.add (local.get 3) (i64.const 1)) (local.get 4))
        (local.set 0) (i32.add (local.get 0) (i32.const 1))",
    );
    let result = launch(&mut sandbox, &launch_text(&recursion, 9, OnFault::Stop)).expect("the launch runs");
    assert_eq!(result.outcome, Outcome::StackOverflow);
    // Thread 12 traps, in whatever chunk it is.
    let text = run_module(
        "(if (i32.and (i64.le_s (local.get $first) (i64.const 12))
                      (i64.gt_s (i64.add (local.get $first) (local.get $count)) (i64.const 12)))
            (then unreachable))
        (i32.const 0)",
    );
    let result = launch(&mut sandbox, &launch_text(&text, 9, OnFault::Stop)).expect("the launch runs");
    assert_eq!((result.outcome, result.outputs), (Outcome::Unreachable, vec![]));
    for on_fault in [REPEATABLE, ONE_BY_ONE] {
        let result = launch(&mut sandbox, &launch_text(&text, 9, on_fault)).expect("the launch runs");
        let fault = LaunchFault { thread: 12, cause: FaultCause::Outcome(Outcome::Unreachable) };
        assert_eq!((result.outcome, result.faults, result.outputs.len()), (Outcome::Ok, vec![fault], 1));
    }
}

#[test]
fn hostile_start_functions_and_memories_end_the_launch() {
    let mut sandbox = sandbox();
    let with = |part: &str| run_module("(i32.const 0)").replace("(module", &format!("(module {part}"));
    for (text, expected) in [
        (with("(func $s (loop (br 0))) (start $s)"), Outcome::Timeout),
        (with("(func $s unreachable) (start $s)"), Outcome::Unreachable),
        (run_module("(i32.const 0)").replace(r#""memory") 1"#, r#""memory") 2"#), Outcome::OutOfMemory),
        (run_module("(drop (memory.grow (i32.const 1))) (i32.const 0)"), Outcome::OutOfMemory),
        (run_module("(i32.const 0)").replace(r#""memory") 1"#, r#""memory") 0 0"#), Outcome::OutOfMemory),
    ] {
        let result = launch(&mut sandbox, &launch_text(&text, 3, OnFault::Stop)).expect("the launch runs");
        assert_eq!((result.outcome, result.outputs.len()), (expected, 0), "{text}");
    }
    assert_works(&mut sandbox);
    assert_eq!(sandbox.stats().starts, 1);
}

#[test]
fn more_faults_than_a_response_may_have_are_refused() {
    let text = run_module("(i64.store (i32.const 0) (local.get $first)) (i32.const 1)");
    let mut sandbox = sandbox_with(&Settings { response_bytes: 1 << 20, ..Settings::default() });
    let refused = refusal(&mut sandbox, &launch_text(&text, u64::from(u32::MAX), REPEATABLE));
    assert!(matches!(refused, Refusal::LimitTooHigh { limit: 0x10_0000, .. }), "{refused}");
}

#[test]
fn a_pool_starts_its_first_child_with_the_first_launch() {
    let pool = Pool::new(&program(), &Settings { load_timeout: Duration::from_secs(60), ..Settings::default() }, 2);
    assert_eq!(pool.stats().starts, 0);
    for _ in 0..2 {
        let launch_of = saxpy(&[2.0], &[1.0], 3.0);
        let result = pool.launch(&launch_of, soon(), |_| ControlFlow::Continue(())).expect("the launch runs");
        assert_eq!(result.outputs, [7.0_f32.to_le_bytes()]);
    }
    assert_eq!(pool.stats().starts, 1);
}
