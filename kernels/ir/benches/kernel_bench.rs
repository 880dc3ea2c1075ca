//! Measures emitted WebAssembly on one core, the emitter, and the interpreter, over kernels of 100,000 threads.
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

#[path = "../tests/common/builder.rs"]
mod builder;
#[path = "../tests/common/wasm.rs"]
mod wasm;

use std::time::{Duration, Instant};

use accelerd_ir::{
    Dtype,
    kernel::{
        Argument, Expr, Kernel, Stmt,
        interpret::{Limits, launch},
        wasm::emit,
    },
    scalar::{BinaryOp, UnaryOp},
};
use builder::{Builder, add, assign, int, less, load, local, mul, number, range, store, tid, unary};
use wasm::Machine;

const THREADS: u32 = 100_000;
const RUNS: usize = 101;

fn main() {
    for (name, kernel) in [
        ("saxpy", saxpy()),
        ("trig", trig()),
        ("branchy", branchy()),
        ("loop of 16", inner_loop()),
        ("saxpy, one by one", one_by_one()),
    ] {
        let arguments = arguments();
        let bytes = emit(&kernel).expect("the kernel is well formed").len();
        let emitted = median(|| drop(emit(&kernel)));
        let start = Instant::now();
        let mut machine = Machine::new(&kernel);
        let compiled = start.elapsed();
        let placed = machine.place(&kernel, &[THREADS], &arguments);
        let run = median(|| assert!(machine.run(&placed, 0, THREADS.into(), 1 << 32).is_none()));
        let interpreted = interpret(&kernel, &arguments);
        println!(
            "{name:<18} {:>7.0} M elements/s   interpreter {:>5.2} M elements/s, {:>5.1} M steps/s   {bytes} bytes, emitted in {emitted:.1?}, compiled in {compiled:.1?}",
            rate(run),
            rate(interpreted.0),
            interpreted.1,
        );
    }
}

fn rate(time: Duration) -> f64 {
    f64::from(THREADS) / time.as_secs_f64() / 1e6
}

/// The time of the interpreter, and its millions of steps per second.
fn interpret(kernel: &Kernel, arguments: &[Argument]) -> (Duration, f64) {
    let mut arguments = arguments.to_vec();
    let launch = |arguments: &mut [Argument], steps| {
        launch(kernel, &[THREADS], arguments, Limits { steps, ..Limits::default() })
    };
    let start = Instant::now();
    launch(&mut arguments, 1 << 40).expect("the launch succeeds");
    let took = start.elapsed();
    // The least limit that is enough is the number of steps.
    let mut low = 0;
    let mut high = 1 << 30;
    for _ in 0..10 {
        let middle = u64::midpoint(low, high);
        if launch(&mut arguments, middle).is_ok() {
            high = middle;
        } else {
            low = middle;
        }
    }
    (took, high as f64 / took.as_secs_f64() / 1e6)
}

fn median(mut run: impl FnMut()) -> Duration {
    let mut times: Vec<_> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[RUNS / 2]
}

/// Numbers from -1 to 1 in no order, so that branches are not predicted.
fn arguments() -> Vec<Argument> {
    let scattered = |nth: u32| f64::from(nth.wrapping_mul(2_654_435_769) >> 8) / f64::from(1 << 23) - 1.0;
    #[expect(clippy::cast_possible_truncation, reason = "rounds")]
    let x: Vec<f32> = (0..THREADS).map(|nth| scattered(nth) as f32).collect();
    vec![Argument::array(&x), Argument::array(&x), Argument::value(1.0e-3_f32)]
}

/// y = f(x, y), for arrays x and y and a value a.
fn kernel(body: impl FnOnce(&mut Builder, [Expr; 3]) -> (Vec<Stmt>, Expr)) -> Kernel {
    let mut builder = Builder::new(1);
    let x = builder.array(Dtype::F32, 1);
    let y = builder.array(Dtype::F32, 1);
    let a = builder.value(Dtype::F32);
    let [vx, vy] = [(); 2].map(|()| builder.local(Dtype::F32));
    let (stmts, result) = body(&mut builder, [local(vx), local(vy), Expr::Param(a, 0)]);
    let mut all = vec![load(vx, x, tid()), load(vy, y, tid())];
    all.extend(stmts);
    all.push(store(y, tid(), result));
    builder.finish(all)
}

fn saxpy() -> Kernel {
    kernel(|_, [x, y, a]| (vec![], add(mul(a, x), y)))
}

/// With an index that is not known to be the position, which takes the kernel from vectors.
fn one_by_one() -> Kernel {
    let mut kernel = saxpy();
    for stmt in &mut kernel.body {
        if let Stmt::Load(_, place) | Stmt::Store(place, _) = stmt {
            place.indices = vec![add(tid(), int(0))];
        }
    }
    kernel
}

fn trig() -> Kernel {
    kernel(|_, [x, _, _]| (vec![], mul(unary(UnaryOp::Sin, x.clone()), unary(UnaryOp::Cos, x))))
}

fn branchy() -> Kernel {
    kernel(|builder, [x, _, _]| {
        let result = builder.local(Dtype::F32);
        let above = |limit| less(number(Dtype::F32, limit), x.clone());
        let inner = Stmt::If(
            above(0.0),
            vec![assign(result, add(x.clone(), number(Dtype::F32, 1.0)))],
            vec![assign(result, unary(UnaryOp::Neg, x.clone()))],
        );
        let outer = Stmt::If(above(0.5), vec![assign(result, mul(x.clone(), number(Dtype::F32, 2.0)))], vec![inner]);
        (vec![outer], local(result))
    })
}

fn inner_loop() -> Kernel {
    kernel(|builder, [x, y, a]| {
        let sum = builder.local(Dtype::F32);
        let i = builder.local(Dtype::I32);
        let label = builder.label();
        let next = Expr::Binary(BinaryOp::Add, Box::new(mul(local(sum), a)), Box::new(x));
        let body = vec![assign(sum, next)];
        (vec![assign(sum, y), range(label, i, [int(0), int(16), int(1)], body)], local(sum))
    })
}
