//! Measures cases per second of one child process, through the pipe and back, for what functions do to their instance, and threads per
//! second of launches.
//!
//! ```text
//! cargo bench -p accelerd-sandbox --bench calls
//! ```

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use accelerd_ir::kernel::wasm::{self, ImageArgument, MemoryImage};
use accelerd_lower::{Dialect, Options, lower};
use accelerd_sandbox::{
    Call, Isolation, Launch, Module, OnFault, Outcome, Param, Program, Sandbox, SandboxError, ScalarType, Settings,
    Signature,
};
use bytes::Bytes;

/// `f(x, n)`: some arithmetic, and what the placeholder does to the instance.
fn scalar_module(parts: &str, effect: &str) -> Module {
    let text = format!(
        r#"(module {parts} (func (export "f") (param $x f64) (param $n i32) (result f64)
            {effect}
            (f64.add (f64.mul (local.get $x) (f64.const 1.5)) (f64.convert_i32_s (local.get $n)))))"#
    );
    Module::new(wat::parse_str(text).expect("the text is a module"))
}

/// The parts of a module by rustc: 17 pages of memory, constant data after the stack, a stack pointer.
const RUST_LIKE: &str = r#"(memory (export "memory") 17) (table 2 funcref) (global $sp (mut i32) (i32.const 1048576))
    (func $other) (elem (i32.const 1) func $other)
    (data (i32.const 1048576) "constants of the program, which lie behind its stack")"#;

/// Puts a number into memory of its own, as functions with a vector do.
const ALLOCATION: &str = "(f64.store (i32.shl (memory.grow (i32.const 1)) (i32.const 16)) (local.get $x))";

/// Spills to the stack in memory, as functions with local arrays do.
const SPILL: &str = r"(global.set $sp (i32.sub (global.get $sp) (i32.const 64)))
    (f64.store (global.get $sp) (local.get $x))
    (global.set $sp (i32.add (global.get $sp) (i32.const 64)))";

fn scalar_call(module: Module, cases: u64, isolation: Isolation) -> Call {
    let signature = Signature::scalar(&[ScalarType::F64, ScalarType::I32], &[ScalarType::F64]);
    let mut call = Call::new(module, "f", signature, cases);
    let x: Vec<u8> = (0..cases).flat_map(|case| (case as f64).to_le_bytes()).collect();
    let n: Vec<u8> = (0..cases).flat_map(|case| i32::try_from(case).unwrap_or(0).to_le_bytes()).collect();
    (call.columns, call.isolation) = (vec![x.into(), n.into()], isolation);
    call
}

fn buffer_call(cases: u64, isolation: Isolation) -> Call {
    let text = r#"(module (memory (export "memory") 1)
        (func (export "f") (param $x i32) (param $n i32) (param $y i32) (param i32)
            (loop $next
                (f64.store (local.get $y) (f64.mul (f64.const 2) (f64.load (local.get $x))))
                (local.set $x (i32.add (local.get $x) (i32.const 8)))
                (local.set $y (i32.add (local.get $y) (i32.const 8)))
                (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))))"#;
    let params = vec![Param::Input(ScalarType::F64, 8), Param::Output(ScalarType::F64, 8)];
    let module = Module::new(wat::parse_str(text).expect("the text is a module"));
    let mut call = Call::new(module, "f", Signature { params, results: vec![] }, cases);
    let column = usize::try_from(cases * 64).expect("a small column");
    (call.columns, call.isolation) = (vec![Bytes::from(vec![1; column])], isolation);
    call
}

const SAXPY: &str = "import warp as wp
@wp.kernel
def saxpy(x: wp.array(dtype=float), y: wp.array(dtype=float), z: wp.array(dtype=float), a: float):
    i = wp.tid()
    z[i] = a * x[i] + y[i]
";

/// A quotient for each row.
const SCALAR: &str = "def f(x: float, y: float) -> float:
    if x > y:
        return (x - y) / x
    return 1.5 * x + y / x
";

/// A launch whose only output is the array at position `output`.
fn launch(source: &str, dialect: Dialect, arguments: Vec<ImageArgument<Bytes>>, output: usize) -> Launch {
    let options = Options { dialect, ..Options::default() };
    let kernel = lower(source, &options).expect("a source of the dialect").kernels.remove(0).kernel;
    let image = MemoryImage::new(&kernel, &[THREADS], arguments, 1 << 28).expect("a launch that fits");
    let mut segments = vec![(wasm::RESERVED, Bytes::from(image.head))];
    segments.extend(image.data);
    Launch {
        module: Module::new(wasm::emit(&kernel).expect("the kernel is well formed")),
        segments,
        memory_bytes: image.memory_bytes,
        arguments: image.arguments,
        grid: image.grid,
        first_thread: 0,
        thread_count: THREADS,
        loop_budget: 1 << 32,
        on_fault: OnFault::Stop,
        timeout: Duration::from_secs(60),
        outputs: vec![image.arrays[output].clone().expect("an array")],
        cuda: None,
    }
}

const THREADS: u64 = 1 << 20;

fn array<const N: usize>(element: impl Fn(u64) -> [u8; N]) -> ImageArgument<Bytes> {
    let data: Vec<u8> = (0..THREADS).flat_map(element).collect();
    ImageArgument::Array { extents: vec![THREADS], data: data.into() }
}

fn saxpy() -> Launch {
    let number = |i: u64| (i as f32).to_le_bytes();
    let zeros = ImageArgument::Zeros { extents: vec![THREADS] };
    let a = ImageArgument::Value(Bytes::from_static(&[0, 0, 0, 0x40]));
    launch(SAXPY, Dialect::Warp, vec![array(number), array(number), zeros, a], 2)
}

/// Every row for which `is_faulty` holds divides by zero.
fn scalar_launch(on_fault: OnFault, is_faulty: impl Fn(u64) -> bool) -> Launch {
    let x = |i| if is_faulty(i) { 0.0 } else { i as f64 + 1.0 };
    let zeros = ImageArgument::Zeros { extents: vec![THREADS] };
    let columns = vec![array(|i| f64::to_le_bytes(x(i))), array(|i| ((i ^ 5) as f64).to_le_bytes()), zeros];
    Launch { on_fault, ..launch(SCALAR, Dialect::Python, columns, 2) }
}

fn main() -> Result<(), SandboxError> {
    let settings = Settings { nice: 0, request_bytes: 1 << 30, response_bytes: 1 << 30, ..Settings::default() };
    let program = Program { path: env!("CARGO_BIN_EXE_sandbox-child").into(), arguments: vec![], environment: vec![] };
    let begin = Instant::now();
    let mut sandbox = Sandbox::start(program, settings)?;
    eprintln!("{:>42}: {:?}", "start of a child process", begin.elapsed());
    let counter = "(global $g (mut i32) (i32.const 0))";
    let count = "(global.set $g (i32.add (global.get $g) (i32.const 1)))";
    let memory = r#"(memory 1) (data (i32.const 8) "data")"#;
    let store = "(f64.store (i32.const 64) (local.get $x))";
    let calls = [
        ("fresh, pure", scalar_call(scalar_module("", ""), 8 << 20, Isolation::Fresh)),
        ("fresh, pure, like rustc's", scalar_call(scalar_module(RUST_LIKE, ""), 8 << 20, Isolation::Fresh)),
        ("fresh, writes a global", scalar_call(scalar_module(counter, count), 1 << 20, Isolation::Fresh)),
        ("fresh, writes one page of memory", scalar_call(scalar_module(memory, store), 1 << 19, Isolation::Fresh)),
        ("fresh, spills, like rustc's", scalar_call(scalar_module(RUST_LIKE, SPILL), 1 << 19, Isolation::Fresh)),
        ("fresh, allocates a page", scalar_call(scalar_module(RUST_LIKE, ALLOCATION), 1 << 19, Isolation::Fresh)),
        ("fresh, buffers of 8 + 8 f64", buffer_call(1 << 18, Isolation::Fresh)),
        ("reused, writes a global", scalar_call(scalar_module(counter, count), 8 << 20, Isolation::Reused)),
        ("reused, spills, like rustc's", scalar_call(scalar_module(RUST_LIKE, SPILL), 8 << 20, Isolation::Reused)),
        ("reused, buffers of 8 + 8 f64", buffer_call(1 << 20, Isolation::Reused)),
    ];
    for (name, call) in calls {
        measure(&mut sandbox, name, &call)?;
        let mut with_fuel = call;
        with_fuel.limits.fuel = Some(1_000_000);
        measure(&mut sandbox, &format!("{name}, fuel"), &with_fuel)?;
    }
    let repeatable = OnFault::Continue { repeatable: true };
    let one_by_one = OnFault::Continue { repeatable: false };
    let launches = [
        ("saxpy", saxpy()),
        ("function, stop", scalar_launch(OnFault::Stop, |_| false)),
        ("function, continue", scalar_launch(repeatable, |_| false)),
        ("function, continue, 1 of 1000 faulty", scalar_launch(repeatable, |i| i % 1000 == 7)),
        ("function, continue, all faulty", scalar_launch(repeatable, |_| true)),
        ("function, one by one", scalar_launch(one_by_one, |_| false)),
        ("function, one by one, all faulty", scalar_launch(one_by_one, |_| true)),
    ];
    for (name, launch) in launches {
        measure_launch(&mut sandbox, name, &launch)?;
    }
    Ok(())
}

/// The fastest of several launches by the clock, and by the time that they ran in the child, after one that loads the module.
fn measure_launch(sandbox: &mut Sandbox, name: &str, launch: &Launch) -> Result<(), SandboxError> {
    let (mut fastest, mut fastest_run) = (Duration::MAX, Duration::MAX);
    for run in 0..=20 {
        let begin = Instant::now();
        let result = sandbox.launch(launch, deadline(), |_| ControlFlow::Continue(()))?;
        if run > 0 {
            (fastest, fastest_run) = (fastest.min(begin.elapsed()), fastest_run.min(result.execution_time));
        }
        assert_eq!((result.outcome, result.outputs.len()), (Outcome::Ok, 1));
    }
    let rate = |time: Duration| launch.thread_count as f64 / time.as_secs_f64();
    eprintln!("{name:>42}: {:>12.0} threads/s, {:>12.0} without transfers", rate(fastest), rate(fastest_run));
    Ok(())
}

/// The fastest of several calls by the clock, and all of them by the processor time of the child, after one that loads the module.
fn measure(sandbox: &mut Sandbox, name: &str, call: &Call) -> Result<(), SandboxError> {
    const RUNS: u32 = 3;
    let mut fastest = Duration::MAX;
    sandbox.call(call, deadline())?;
    let cpu_before = cpu_time(sandbox);
    for _ in 0..RUNS {
        let begin = Instant::now();
        let result = sandbox.call(call, deadline())?;
        fastest = fastest.min(begin.elapsed());
        assert_eq!(result.outcomes.count(Outcome::Ok) as u64, call.case_count);
    }
    let cpu = cpu_time(sandbox).saturating_sub(cpu_before) / RUNS;
    let rate = |time: Duration| call.case_count as f64 / time.as_secs_f64();
    eprintln!("{name:>42}: {:>12.0} cases/s, {:>12.0} per CPU second of the child", rate(fastest), rate(cpu));
    Ok(())
}

fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(120)
}

/// Processor time that the child has used, in user mode and in the kernel; the resolution is 10 ms.
fn cpu_time(sandbox: &Sandbox) -> Duration {
    let pid = sandbox.pid().expect("a child runs");
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split(' ').skip(12).take(2);
    Duration::from_millis(10 * fields.filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>())
}
