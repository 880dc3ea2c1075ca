//! Every walk of a kernel ends on the stack of a worker for the deepest kernels that are well formed, and deeper ones are refused before it.

mod common {
    mod builder;
    pub(crate) use builder::*;
}

use accelerd_ir::{
    Dtype,
    kernel::{
        Argument, Expr, Kernel, MAX_EXPR_DEPTH, MAX_STMT_DEPTH, Stmt, cuda,
        interpret::{Limits, launch},
        wasm,
    },
    scalar::{BinaryOp, UnaryOp},
};
use common::{Builder, binary, cast, int, less, select, store, tid, unary, when};

/// The stack of a thread that runs operations on a CPU: the default of Rust.
const STACK: usize = 2 << 20;

fn on_a_workers_stack<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(run).expect("a thread");
    thread.join().expect("no panic")
}

/// Expressions of a depth, one of each form that has operands.
fn expressions(depth: usize) -> Vec<Expr> {
    let forms: [fn(Expr) -> Expr; 6] = [
        |a| unary(UnaryOp::Neg, a),
        |a| cast(Dtype::I32, a),
        |a| Expr::Bitcast(Dtype::I32, Box::new(a)),
        |a| binary(BinaryOp::Add, a, int(1)),
        |a| binary(BinaryOp::Mul, int(3), a),
        |a| select(Expr::Literal(accelerd_ir::scalar::Literal::from_bits(Dtype::Bool, 1)), a, int(2)),
    ];
    forms.iter().map(|form| (1..depth).fold(int(1), |a, _| form(a))).collect()
}

/// Bodies with a statement under this many others, one of each form that has a body.
fn bodies(depth: usize, innermost: &Stmt, builder: &mut Builder) -> Vec<Vec<Stmt>> {
    let variable = builder.local(Dtype::I32);
    let mut form = |nth: u8, body: Vec<Stmt>| match nth {
        0 => when(less(tid(), int(9)), body),
        1 => Stmt::If(less(int(9), tid()), vec![], body),
        2 => Stmt::Block(builder.label(), body),
        3 => {
            let label = builder.label();
            Stmt::Loop(label, [body, vec![Stmt::Break(label)]].concat())
        }
        _ => Stmt::For { label: builder.label(), counter: variable, start: int(0), end: int(1), step: int(1), body },
    };
    (0..5).map(|nth| (0..depth).fold(vec![innermost.clone()], |body, _| vec![form(nth, body)])).collect()
}

/// Kernels that nest to these depths.
fn kernels(statements: usize, operands: usize) -> Vec<Kernel> {
    let mut kernels = vec![];
    for value in expressions(operands) {
        let mut builder = Builder::new(1);
        let out = builder.array(Dtype::I32, 1);
        let innermost = store(out, tid(), value);
        let bodies = bodies(statements, &innermost, &mut builder);
        kernels.extend(bodies.into_iter().map(|body| Kernel { body, ..builder.kernel().clone() }));
    }
    kernels
}

#[test]
fn the_deepest_kernels_are_walked_on_the_stack_of_a_worker() {
    let walked = on_a_workers_stack(|| {
        let kernels = kernels(MAX_STMT_DEPTH, MAX_EXPR_DEPTH);
        for kernel in &kernels {
            kernel.check().expect("well formed");
            assert!(kernel.is_bit_exact() && kernel.written() == [true]);
            let mut arguments = [Argument::array(&[0_i32; 2])];
            launch(kernel, &[2], &mut arguments, Limits::default()).expect("no fault");
            assert!(!wasm::emit(kernel).expect("well formed").is_empty() && wasm::math_ops(kernel).is_empty());
            for checks in [false, true] {
                assert!(!cuda::device(kernel, cuda::Options { checks }).source.is_empty());
            }
            let example = cuda::Example::new(kernel, &[2], &arguments, Limits::default()).expect("no fault");
            assert!(!cuda::standalone(kernel, &example).expect("well formed").source.is_empty());
        }
        kernels.len()
    });
    assert_eq!(walked, 30);
}

#[test]
fn kernels_of_ten_times_the_bounds_are_refused_before_they_are_walked() {
    let refused = on_a_workers_stack(|| {
        let deep = [kernels(10 * MAX_STMT_DEPTH, 1), kernels(1, 10 * MAX_EXPR_DEPTH)].concat();
        for kernel in &deep {
            let reason = kernel.check().expect_err("too deep").to_string();
            assert!(reason.contains("levels of nested"), "{reason}");
            let mut arguments = [Argument::array(&[0_i32; 2])];
            assert!(launch(kernel, &[2], &mut arguments, Limits::default()).is_err());
            assert!(wasm::emit(kernel).is_err());
            assert!(cuda::Example::new(kernel, &[2], &arguments, Limits::default()).is_err());
        }
        deep.len()
    });
    assert_eq!(refused, 60);
}
