//! The interpreter runs statements as they document it.

mod common {
    mod builder;
    pub(crate) use builder::*;
}

use accelerd_ir::{
    Dtype,
    kernel::{
        Argument, ArgumentError, ArrayArgument, AtomicOp, Expr, Fault, FaultAccess, FaultKind, Kernel, ParamId, Scalar,
        Site, SiteId, Stmt,
        interpret::{LaunchError, Limits, launch},
    },
    scalar::BinaryOp,
};
use common::{
    Builder, add, assign, at, binary, cast, component, element, equal, int, integer, less, load, local, mul, number,
    range, select, store, tid, when,
};

fn run(kernel: &Kernel, grid: &[u32], arguments: &mut [Argument]) {
    launch(kernel, grid, arguments, Limits::default()).expect("the launch succeeds");
}

fn fault(kernel: &Kernel, grid: &[u32], arguments: &mut [Argument], limits: Limits) -> Fault {
    match launch(kernel, grid, arguments, limits) {
        Err(LaunchError::Fault(fault)) => *fault,
        other => panic!("expected a fault, got {other:?}"),
    }
}

/// The content that one thread writes to an array of `T` that it gets with `len` zeros; the builder's first parameter.
fn written<T: Scalar>(len: usize, build: impl FnOnce(&mut Builder) -> Vec<Stmt>) -> Vec<T> {
    let mut builder = Builder::new(1);
    builder.array(T::DTYPE, 1);
    let body = build(&mut builder);
    let kernel = builder.finish(body);
    let zeros = vec![T::read(&vec![0; T::DTYPE.size()]); len];
    let mut arguments = [Argument::array(&zeros)];
    run(&kernel, &[1], &mut arguments);
    arguments[0].to_vec()
}

const OUT: ParamId = ParamId(0);

#[test]
fn every_thread_computes_its_element() {
    let mut builder = Builder::new(1);
    let y = builder.array(Dtype::F32, 1);
    let x = builder.array(Dtype::F32, 1);
    let a = builder.value(Dtype::F32);
    let vx = builder.local(Dtype::F32);
    let vy = builder.local(Dtype::F32);
    let value = add(mul(Expr::Param(a, 0), local(vx)), local(vy));
    let kernel = builder.finish(vec![load(vx, x, tid()), load(vy, y, tid()), store(y, tid(), value)]);
    let mut arguments =
        [Argument::array(&[1.0_f32, 2.0, 3.0]), Argument::array(&[10.0_f32, 20.0, 30.0]), Argument::value(2.0_f32)];
    run(&kernel, &[3], &mut arguments);
    assert_eq!(arguments[0].to_vec::<f32>(), [21.0, 42.0, 63.0]);
}

#[test]
fn threads_run_in_row_major_order_of_the_grid() {
    let mut builder = Builder::new(3);
    let out = builder.array(Dtype::I32, 1);
    let count = builder.array(Dtype::I32, 1);
    let ticket = builder.local(Dtype::I32);
    let position = (0..3).fold(int(0), |sum, axis| add(mul(sum, int(10)), Expr::ThreadId(axis)));
    let draw = Stmt::Atomic {
        op: AtomicOp::Add,
        place: at(count, &[int(0)]),
        operand: int(1),
        expected: None,
        previous: Some(ticket),
    };
    let kernel = builder.finish(vec![draw, store(out, local(ticket), position)]);
    let mut arguments = [Argument::array(&[0_i32; 12]), Argument::array(&[0_i32])];
    run(&kernel, &[2, 3, 2], &mut arguments);
    assert_eq!(arguments[0].to_vec::<i32>(), [0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121]);
}

#[test]
fn ranges_are_those_of_python() {
    let numbers = |bounds: [i64; 3]| -> Vec<i64> {
        let all = written::<i64>(16, |builder| {
            let counter = builder.local(Dtype::I8);
            let element = builder.local(Dtype::I32);
            let label = builder.label();
            let body = vec![
                store(OUT, local(element), cast(Dtype::I64, local(counter))),
                assign(element, add(local(element), int(1))),
                // The iteration does not depend on it.
                assign(counter, integer(Dtype::I8, 99)),
            ];
            let bounds = bounds.map(|bound| integer(Dtype::I8, bound));
            vec![range(label, counter, bounds, body), store(OUT, int(15), cast(Dtype::I64, local(element)))]
        });
        all[..usize::try_from(all[15]).expect("a count")].to_vec()
    };
    assert_eq!(numbers([0, 4, 1]), [0, 1, 2, 3]);
    assert_eq!(numbers([0, 5, 2]), [0, 2, 4]);
    assert_eq!(numbers([3, -4, -3]), [3, 0, -3]);
    assert_eq!(numbers([0, 4, 0]), [0; 0]);
    assert_eq!(numbers([4, 0, 1]), [0; 0]);
    assert_eq!(numbers([0, 4, -1]), [0; 0]);
    assert_eq!(numbers([100, 127, 20]), [100, 120], "120 + 20 overflows");
    assert_eq!(numbers([-128, 127, 127]), [-128, -1, 126]);
    assert_eq!(numbers([127, -128, -128]), [127, -1]);
}

#[test]
fn a_counter_keeps_its_last_number_and_bounds_are_evaluated_once() {
    let result = written::<i32>(2, |builder| {
        let counter = builder.local(Dtype::I32);
        let end = builder.local(Dtype::I32);
        let label = builder.label();
        let body = vec![assign(end, int(100))];
        vec![
            assign(end, int(3)),
            range(label, counter, [int(0), local(end), int(1)], body),
            store(OUT, int(0), local(counter)),
            store(OUT, int(1), local(end)),
        ]
    });
    assert_eq!(result, [2, 100]);
}

#[test]
fn break_and_continue_go_to_their_label() {
    let result = written::<i32>(3, |builder| {
        let [i, j, sum] = [(); 3].map(|()| builder.local(Dtype::I32));
        let [outer, inner, block] = [(); 3].map(|()| builder.label());
        let mark = |index: i32, by: i32| [load(sum, OUT, int(index)), store(OUT, int(index), add(local(sum), int(by)))];
        let body = vec![
            when(equal(local(j), int(1)), vec![Stmt::Continue(inner)]),
            when(equal(local(j), int(3)), vec![Stmt::Continue(outer)]),
            when(equal(local(i), int(2)), vec![Stmt::Break(outer)]),
        ];
        let inner_body = body.into_iter().chain(mark(0, 1)).collect();
        let outer_body =
            [range(inner, j, [int(0), int(9), int(1)], inner_body)].into_iter().chain(mark(1, 1)).collect();
        let skipped = [Stmt::Break(block)].into_iter().chain(mark(2, 1)).collect();
        vec![range(outer, i, [int(0), int(9), int(1)], outer_body), Stmt::Block(block, skipped)]
    });
    assert_eq!(result, [4, 0, 0], "j = 0 and 2 for i = 0 and 1");
}

#[test]
fn a_loop_runs_until_it_is_left() {
    let result = written::<i32>(1, |builder| {
        let i = builder.local(Dtype::I32);
        let label = builder.label();
        let leave = when(equal(local(i), int(7)), vec![store(OUT, int(0), local(i)), Stmt::Return]);
        vec![Stmt::Loop(label, vec![leave, assign(i, add(local(i), int(1)))]), store(OUT, int(0), int(-1))]
    });
    assert_eq!(result, [7]);
}

#[test]
fn atomic_operations_replace_a_component_and_give_the_previous_value() {
    let apply = |op, operand: i32, expected: Option<i32>| -> Vec<i32> {
        written(2, |builder| {
            let previous = builder.local(Dtype::I32);
            let place = at(OUT, &[int(0)]);
            let expected = expected.map(int);
            vec![
                store(OUT, int(0), int(12)),
                Stmt::Atomic { op, place, operand: int(operand), expected, previous: Some(previous) },
                store(OUT, int(1), local(previous)),
            ]
        })
    };
    assert_eq!(apply(AtomicOp::Add, i32::MAX, None), [i32::MIN + 11, 12]);
    assert_eq!(apply(AtomicOp::Min, 5, None), [5, 12]);
    assert_eq!(apply(AtomicOp::Max, 5, None), [12, 12]);
    assert_eq!(apply(AtomicOp::And, 10, None), [8, 12]);
    assert_eq!(apply(AtomicOp::Or, 3, None), [15, 12]);
    assert_eq!(apply(AtomicOp::Xor, 10, None), [6, 12]);
    assert_eq!(apply(AtomicOp::Exchange, 1, None), [1, 12]);
    assert_eq!(apply(AtomicOp::CompareExchange, 1, Some(12)), [1, 12]);
    assert_eq!(apply(AtomicOp::CompareExchange, 1, Some(11)), [12, 12]);
}

#[test]
fn atomic_extrema_prefer_a_number_to_nan() {
    let apply = |op, before: f64, operand: f64| -> f32 {
        let result: Vec<f32> = written(1, |_| {
            let place = at(OUT, &[int(0)]);
            let operand = number(Dtype::F32, operand);
            let stored = store(OUT, int(0), number(Dtype::F32, before));
            vec![stored, Stmt::Atomic { op, place, operand, expected: None, previous: None }]
        });
        result[0]
    };
    for op in [AtomicOp::Min, AtomicOp::Max] {
        let of_number = [apply(op, 1.0, f64::NAN), apply(op, f64::NAN, 1.0)];
        assert_eq!(of_number.map(f32::to_bits), [1.0_f32; 2].map(f32::to_bits), "{op:?}");
        assert!(apply(op, f64::NAN, f64::NAN).is_nan(), "{op:?}");
    }
    let extrema = [apply(AtomicOp::Min, 1.0, -5.0), apply(AtomicOp::Max, 1.0, -5.0)];
    assert_eq!(extrema.map(f32::to_bits), [-5.0_f32, 1.0].map(f32::to_bits));
}

#[test]
fn compare_exchange_compares_bits() {
    let exchange = |expected: f64| -> Vec<f32> {
        written(1, |_| {
            let place = at(OUT, &[int(0)]);
            let operand = number(Dtype::F32, 5.0);
            let expected = Some(number(Dtype::F32, expected));
            vec![Stmt::Atomic { op: AtomicOp::CompareExchange, place, operand, expected, previous: None }]
        })
    };
    assert_eq!(exchange(0.0), [5.0]);
    assert_eq!(exchange(-0.0), [0.0], "-0 equals 0, with other bits");
}

#[test]
fn arrays_are_strided_and_their_elements_have_components() {
    let mut builder = Builder::new(2);
    let point = element(&[("x", Dtype::F32, 0), ("tag", Dtype::U8, 4), ("y", Dtype::F32, 8)], 12);
    let array = builder.array_of(point, 2);
    let row = Expr::ThreadId(0);
    let column = Expr::ThreadId(1);
    let number = add(mul(row.clone(), int(10)), column.clone());
    let place = |nth| component(array, &[row.clone(), column.clone()], nth);
    let kernel = builder.finish(vec![
        Stmt::Store(place(1), cast(Dtype::U8, number.clone())),
        Stmt::Store(place(2), cast(Dtype::F32, number)),
    ]);
    // Columns first, rows in reverse.
    let transposed = ArrayArgument { data: vec![0xff; 72], shape: vec![2, 3], strides: vec![-12, 24], offset: 12 };
    let mut arguments = [Argument::Array(transposed)];
    run(&kernel, &[2, 3], &mut arguments);
    let bytes = arguments[0].bytes();
    for (nth, value) in [10_u8, 0, 11, 1, 12, 2].into_iter().enumerate() {
        assert_eq!(bytes[nth * 12 + 4], value);
        assert_eq!(bytes[nth * 12 + 8..][..4], f32::from(value).to_le_bytes());
        assert_eq!(bytes[nth * 12..][..4], [0xff; 4], "other components stay");
        assert_eq!(bytes[nth * 12 + 5..][..3], [0xff; 3], "padding stays");
    }
}

#[test]
fn an_index_outside_of_its_dimension_is_a_fault() {
    let mut builder = Builder::new(1);
    let array = builder.array(Dtype::I32, 2);
    let index = builder.array(Dtype::I64, 1);
    let i = builder.local(Dtype::I64);
    let mut place = at(array, &[local(i), int(1)]);
    place.site = SiteId(2);
    let kernel = builder.finish(vec![load(i, index, tid()), Stmt::Store(place, add(tid(), int(1)))]);
    let arguments = |shape: [i32; 2], indices: &[i64]| {
        let data = vec![0; 4 * 6];
        [Argument::contiguous(data, &shape, 4), Argument::array(indices)]
    };
    for (index, thread) in [(3, 1), (-1, 1), (i64::MIN, 1), (1 << 32, 1)] {
        let mut arguments = arguments([3, 2], &[0, index, 2]);
        let fault = fault(&kernel, &[3], &mut arguments, Limits::default());
        let access = FaultAccess { array: "p0".to_owned(), axis: 0, index, extent: 3 };
        let site = Some(Site { line: 3, column: 4 });
        let kind = FaultKind::OutOfBounds;
        assert_eq!(fault, Fault { thread: vec![thread], kind, site, access: Some(access), unassigned: None });
        assert_eq!(arguments[0].to_vec::<i32>(), [0, 1, 0, 0, 0, 3], "the other threads go on");
    }
    let fault = fault(&kernel, &[1], &mut arguments([6, 1], &[0]), Limits::default());
    assert_eq!(
        fault.to_string(),
        "thread (0) at line 3, column 4: index 1 is outside of dimension 1 of array \"p0\", whose extent is 1"
    );
}

#[test]
fn a_fault_names_the_index_and_the_variable_of_the_source() {
    let mut builder = Builder::new(1);
    let array = builder.array(Dtype::I32, 2);
    let mut place = at(array, &[int(-1), int(-1)]);
    place.site = SiteId(2);
    let mut kernel = builder.finish(vec![Stmt::Store(place, int(1))]);
    let index_of = |kernel: &Kernel| {
        let mut arguments = [Argument::contiguous(vec![0; 24], &[3, 2], 4)];
        fault(kernel, &[1], &mut arguments, Limits::default()).access.expect("an access").index
    };
    assert_eq!(index_of(&kernel), -1);
    kernel.sites[2].from_end = 0b10;
    assert_eq!(index_of(&kernel), -1, "the first index does not count from the end");
    kernel.sites[2].from_end = 0b01;
    assert_eq!(index_of(&kernel), -4);
    kernel.body = vec![Stmt::Fault(FaultKind::InvalidValue, SiteId(2))];
    kernel.sites[2].unassigned = Some("y".to_owned());
    let mut arguments = [Argument::contiguous(vec![0; 24], &[3, 2], 4)];
    let fault = fault(&kernel, &[1], &mut arguments, Limits::default());
    assert_eq!(fault.to_string(), "thread (0) at line 3, column 4: variable \"y\" is read before it is assigned");
}

#[test]
fn the_first_fault_is_reported_by_position() {
    let builder = Builder::new(2);
    let is_late = less(int(0), Expr::ThreadId(0));
    let body = Stmt::If(
        is_late,
        vec![Stmt::Fault(FaultKind::DivisionByZero, SiteId(1))],
        vec![when(equal(Expr::ThreadId(1), int(2)), vec![Stmt::Fault(FaultKind::Assertion, SiteId(4))])],
    );
    let kernel = builder.finish(vec![body]);
    let fault = fault(&kernel, &[3, 4], &mut [], Limits::default());
    assert_eq!(fault.to_string(), "thread (0, 2) at line 5, column 4: an assertion failed");
}

#[test]
fn the_loops_of_a_thread_share_a_budget() {
    let mut builder = Builder::new(1);
    let i = builder.local(Dtype::I32);
    let j = builder.local(Dtype::U64);
    let first = builder.label();
    let second = builder.label();
    let inner = range(second, j, [0, 2, 1].map(|bound| integer(Dtype::U64, bound)), vec![]);
    let kernel = builder.finish(vec![range(first, i, [int(0), int(3), int(1)], vec![inner])]);
    let with_budget = |loop_budget| launch(&kernel, &[2], &mut [], Limits { loop_budget, ..Limits::default() });
    assert_eq!(with_budget(9), Ok(()), "3 iterations, each with 2 inside");
    let error = with_budget(8).expect_err("one iteration is too many");
    assert_eq!(error.to_string(), "thread (0): the loops ran more iterations than the budget");
}

#[test]
fn a_launch_is_bounded_by_its_steps() {
    let mut builder = Builder::new(1);
    let label = builder.label();
    let kernel = builder.finish(vec![Stmt::Loop(label, vec![])]);
    let limits = Limits { loop_budget: u64::MAX, steps: 1000 };
    assert_eq!(launch(&kernel, &[1], &mut [], limits), Err(LaunchError::StepLimit(1000)));
    let idle = Builder::new(1).finish(vec![Stmt::Return]);
    assert_eq!(launch(&idle, &[1 << 30], &mut [], limits), Err(LaunchError::StepLimit(1000)));
}

#[test]
fn storage_types_keep_their_bits_and_bools_are_bytes() {
    let halves = written::<half::f16>(2, |builder| {
        let half = builder.local(Dtype::F16);
        vec![
            store(OUT, int(0), number(Dtype::F16, 0.1)),
            load(half, OUT, int(0)),
            store(OUT, int(1), cast(Dtype::F16, mul(cast(Dtype::F32, local(half)), number(Dtype::F32, 2.0)))),
        ]
    });
    assert_eq!(halves, [half::f16::from_f32(0.1), half::f16::from_f32(0.2)]);
    let mut builder = Builder::new(1);
    let out = builder.array(Dtype::I32, 1);
    let flags = builder.array(Dtype::Bool, 1);
    let flag = builder.local(Dtype::Bool);
    let kernel = builder.finish(vec![
        load(flag, flags, tid()),
        store(out, tid(), select(local(flag), int(1), int(-1))),
        store(flags, tid(), local(flag)),
    ]);
    let mut arguments = [Argument::array(&[0_i32; 3]), Argument::contiguous(vec![0, 1, 7], &[3], 1)];
    run(&kernel, &[3], &mut arguments);
    assert_eq!(arguments[0].to_vec::<i32>(), [-1, 1, 1]);
    assert_eq!(arguments[1].bytes(), [0, 1, 1]);
}

#[test]
fn arguments_that_do_not_fit_are_named() {
    let mut builder = Builder::new(1);
    let array = builder.array(Dtype::F64, 2);
    builder.value(Dtype::I32);
    let kernel = builder.finish(vec![Stmt::Store(at(array, &[int(0), int(0)]), number(Dtype::F64, 1.0))]);
    let error = |arguments: &[Argument]| {
        let mut arguments = arguments.to_vec();
        launch(&kernel, &[1], &mut arguments, Limits::default()).expect_err("an argument does not fit").to_string()
    };
    let value = Argument::value(1_i32);
    let good = ArrayArgument { data: vec![0; 48], shape: vec![2, 3], strides: vec![24, 8], offset: 0 };
    let array = |change: fn(&mut ArrayArgument)| {
        let mut array = good.clone();
        change(&mut array);
        error(&[Argument::Array(array), value.clone()])
    };
    assert_eq!(error(&[]), "expected 2 arguments, got 0");
    assert_eq!(error(&[value.clone(), value.clone()]), "argument \"p0\": expected an array, got a value");
    let good_array = Argument::Array(good.clone());
    assert_eq!(error(&[good_array.clone(), good_array.clone()]), "argument \"p1\": expected a value, got an array");
    assert_eq!(error(&[good_array, Argument::value(1_i64)]), "argument \"p1\": expected 4 bytes, got 8");
    let flat = array(|array| array.shape = vec![6]);
    assert_eq!(flat, "argument \"p0\": expected 2 dimensions, got 1 extents and 2 strides");
    assert_eq!(array(|array| array.shape[1] = -1), "argument \"p0\": dimension 1 has the extent -1");
    let aligned = "argument \"p0\": offset and strides must be multiples of 8 bytes";
    assert_eq!(array(|array| array.offset = 4), aligned);
    assert_eq!(array(|array| array.strides[1] = 4), aligned);
    let reach =
        |start, end| format!("argument \"p0\": elements reach from byte {start} to byte {end}, the data has 48 bytes");
    assert_eq!(array(|array| array.shape[1] = 4), reach(0, 56));
    assert_eq!(array(|array| array.strides[0] = -24), reach(-24, 24));
    assert_eq!(array(|array| array.strides[0] = i64::MAX & !7), reach(0, (i64::MAX & !7) as i128 + 24));
    assert!(matches!(Argument::value(1_i8).check(&kernel.params[0]), Err(ArgumentError::Kind(_))));
}

#[test]
fn a_grid_that_does_not_fit_is_named() {
    let kernel = Builder::new(2).finish(vec![]);
    let launch = |grid: &[u32]| launch(&kernel, grid, &mut [], Limits::default()).map_err(|error| error.to_string());
    assert_eq!(launch(&[5]), Err("the grid has 1 dimensions, expected 2".to_owned()));
    assert_eq!(launch(&[1 << 31, 1]), Err("the grid is too large: [2147483648, 1]".to_owned()));
    assert_eq!(launch(&[0, 7]), Ok(()));
}

#[test]
fn the_remainder_of_a_launch_after_a_fault_is_interpreted() {
    let mut builder = Builder::new(1);
    let out = builder.array(Dtype::I32, 1);
    let is_odd = equal(binary(BinaryOp::Rem, tid(), int(2)), int(1));
    let body = vec![when(is_odd, vec![Stmt::Fault(FaultKind::InvalidValue, SiteId(0))]), store(out, tid(), int(1))];
    let kernel = builder.finish(body);
    let mut arguments = [Argument::array(&[0_i32; 4])];
    let fault = fault(&kernel, &[4], &mut arguments, Limits::default());
    assert_eq!((fault.thread, fault.kind), (vec![1], FaultKind::InvalidValue));
    assert_eq!(arguments[0].to_vec::<i32>(), [1, 0, 1, 0]);
}
