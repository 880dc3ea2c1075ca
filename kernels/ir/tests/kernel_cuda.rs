//! Emitted device code computes the results of the interpreter, bit for bit. It is compiled for the host.

mod common {
    pub(crate) mod cuda;
    mod exact;
    pub(crate) mod host;
    pub(crate) mod random;

    mod builder;
    pub(crate) use builder::*;
    pub(crate) use exact::exact;

    /// Iterations of a thread.
    pub(crate) const LOOP_BUDGET: u64 = 300;
}

use accelerd_ir::{
    Dtype,
    kernel::{
        Argument, ArrayArgument, AtomicOp, Expr, FaultKind, Kernel, LabelId, SiteId, Stmt,
        cuda::{Launch, Options, device, prelude},
    },
    scalar::{BinaryOp, Literal, UnaryOp},
};
use common::{
    Builder, add, assign, at, binary, cast, component,
    cuda::{Case, assert_agree, assert_same, expected, literals, run},
    element, equal, exact, host, int, integer, less, load, local, mul, number, random, range, store, tid, unary, when,
};

#[test]
fn random_kernels_compute_what_the_interpreter_does() {
    let subjects = (0..150).map(random::kernel).chain((0..50).map(random::vector_kernel));
    let cases: Vec<_> = subjects.map(|one| Case::new(exact(one.kernel), &one.grid, &one.arguments)).collect();
    assert_agree("random", &cases);
}

fn bytes(values: &[Literal]) -> Vec<u8> {
    values.iter().flat_map(|value| value.bits().to_le_bytes()[..value.dtype().size()].to_vec()).collect()
}

fn array(values: &[Literal]) -> Argument {
    let extent = i32::try_from(values.len()).expect("few values");
    Argument::contiguous(bytes(values), &[extent], values[0].dtype().size())
}

fn zeros(dtype: Dtype, count: usize) -> Argument {
    array(&vec![Literal::from_bits(dtype, 0); count])
}

/// Values at the edges of a type.
fn samples(dtype: Dtype) -> Vec<Literal> {
    let numbers =
        [0.0, 1.0, 0.5, 1.5, 2.5, 7.0, 100.25, 255.5, 65519.0, 2_147_483_647.5, 4_294_967_296.0, 9.3e18, 1e-40, 1e300];
    let mut all: Vec<_> = numbers.iter().flat_map(|x| [*x, -*x]).map(|x| Literal::from_f64(dtype, x)).collect();
    if dtype.is_float() {
        all.extend([f64::INFINITY, f64::NEG_INFINITY, f64::NAN].map(|x| Literal::from_f64(dtype, x)));
    } else {
        let bits = 8 * dtype.size();
        all.extend([0, 1, 3, bits - 1, bits].map(|x| Literal::from_i64(dtype, i64::try_from(x).expect("small"))));
        all.extend([1_u64 << (bits - 1), (1 << (bits - 1)) - 1, u64::MAX].map(|x| Literal::from_bits(dtype, x)));
    }
    all.sort_by_key(|value| value.bits());
    all.dedup();
    all
}

/// A kernel that stores expressions of `a` and `b`, which thread t loads from pair t of the samples, and its launch.
fn pairs(dtype: Dtype, build: impl Fn(Expr, Expr) -> Vec<(Dtype, Expr)>) -> Case {
    let samples = samples(dtype);
    let mut builder = Builder::new(1);
    let input = builder.array(dtype, 1);
    let a = builder.local(dtype);
    let b = builder.local(dtype);
    let count = int(i32::try_from(samples.len()).expect("few samples"));
    let mut body = vec![
        load(a, input, binary(BinaryOp::Div, tid(), count.clone())),
        load(b, input, binary(BinaryOp::Rem, tid(), count)),
    ];
    let threads = samples.len() * samples.len();
    let mut arguments = vec![array(&samples)];
    for (result, expr) in build(local(a), local(b)) {
        let output = builder.array(result, 1);
        body.push(store(output, tid(), expr));
        arguments.push(zeros(result, threads));
    }
    Case::reversed(builder.finish(body), &[u32::try_from(threads).expect("few threads")], &arguments)
}

fn results(dtype: Dtype, is_wanted: impl Fn(u32) -> bool) -> impl Fn(Expr, Expr) -> Vec<(Dtype, Expr)> {
    move |a, b| {
        let mut all = vec![];
        for op in UnaryOp::ALL.into_iter().filter(|op| is_wanted(op.max_ulp())) {
            // The sign of a NaN is undefined.
            let is_defined = op != UnaryOp::SignBit;
            all.extend(op.result(dtype).filter(|_| is_defined).map(|result| (result, unary(op, a.clone()))));
        }
        for op in BinaryOp::ALL.into_iter().filter(|op| is_wanted(op.max_ulp())) {
            let is_defined = op != BinaryOp::CopySign;
            let expr = binary(op, a.clone(), b.clone());
            all.extend(op.result(dtype).filter(|_| is_defined).map(|result| (result, expr)));
        }
        all
    }
}

#[test]
fn exact_operations_and_casts_have_the_bits_of_the_interpreter() {
    let mut cases = vec![];
    for dtype in Dtype::ALL {
        cases.push(pairs(dtype, results(dtype, |ulp| ulp == 0 || dtype == Dtype::F32)));
        cases.push(pairs(dtype, |a, _| Dtype::ALL.map(|to| (to, cast(to, a.clone()))).to_vec()));
    }
    assert_agree("operations", &cases);
}

#[test]
fn approximated_operations_are_those_of_the_same_name() {
    let case = pairs(Dtype::F64, results(Dtype::F64, |ulp| ulp > 0));
    let got = run("approximated", std::slice::from_ref(&case), Options::default()).remove(0);
    let expected = expected(&case);
    for (got, expected) in got.arguments.iter().zip(&expected.arguments) {
        for (got, expected) in literals(Dtype::F64, got).zip(literals(Dtype::F64, expected)) {
            let x = got.as_f64();
            let y = expected.as_f64();
            let is_close = (x - y).abs() <= y.abs() * 1e-14 || x.to_bits() == y.to_bits();
            // Numbers too small for the type lose digits.
            let is_small = x.abs().max(y.abs()) < 1e-300;
            assert!(is_close || is_small || (x.is_nan() && y.is_nan()), "{x} instead of {y}");
        }
    }
}

/// Threads whose number is at least `first` fail in different ways.
fn faulty(first: i32) -> Case {
    let mut builder = Builder::new(2);
    let x = builder.array(Dtype::F32, 2);
    let linear = add(mul(tid(), int(7)), Expr::ThreadId(1));
    let fails = |nth: i32| binary(BinaryOp::Le, int(first + nth), linear.clone());
    let label = builder.label();
    let even = equal(binary(BinaryOp::Rem, linear.clone(), int(2)), int(0));
    let kernel = builder.finish(vec![
        when(
            fails(0),
            vec![Stmt::If(
                even,
                vec![Stmt::Store(at(x, &[tid(), integer(Dtype::I64, 1 << 40)]), number(Dtype::F32, 1.0))],
                vec![Stmt::Loop(label, vec![])],
            )],
        ),
        Stmt::Store(at(x, &[int(0), int(0)]), number(Dtype::F32, 2.0)),
    ]);
    Case::reversed(kernel, &[5, 7], &[Argument::contiguous(vec![0; 5 * 7 * 4], &[5, 7], 4)])
}

#[test]
fn the_fault_of_the_lowest_thread_is_kept_in_any_order() {
    let cases: Vec<_> = (0..36).map(faulty).collect();
    for (case, got) in cases.iter().zip(run("faults", &cases, Options::default())) {
        assert_same(case, &got, &expected(case));
    }
    let last = expected(&cases[34]).fault.expect("the last thread fails");
    assert_eq!(last.thread, [4, 6]);
    assert_eq!(last.kind, FaultKind::OutOfBounds);
}

#[test]
fn a_statement_raises_its_kind_of_fault_at_its_place() {
    let kinds = [FaultKind::DivisionByZero, FaultKind::Assertion, FaultKind::InvalidValue, FaultKind::OutOfBounds];
    let case = |kind| {
        let kernel = Builder::new(1).finish(vec![when(less(int(1), tid()), vec![Stmt::Fault(kind, SiteId(5))])]);
        Case::reversed(kernel, &[9], &[])
    };
    assert_agree("raised", &kinds.map(case));
}

#[test]
fn budgets_count_iterations_of_all_loops() {
    let mut cases = vec![];
    for budget in [0, 1, 2, 11, 12, 13, 5000] {
        let mut builder = Builder::new(1);
        let x = builder.array(Dtype::I32, 1);
        let i = builder.local(Dtype::I32);
        let j = builder.local(Dtype::I32);
        let n = builder.local(Dtype::I32);
        let [outer, inner, last] = [(); 3].map(|()| builder.label());
        let count = assign(n, add(local(n), int(1)));
        let nested = range(inner, j, [int(0), int(3), int(1)], vec![count.clone()]);
        let kernel = builder.finish(vec![
            range(outer, i, [int(0), int(3), int(1)], vec![nested]),
            store(x, tid(), local(n)),
            Stmt::Loop(last, vec![when(less(int(4999), local(n)), vec![Stmt::Break(last)]), count]),
        ]);
        let case = Case::new(kernel, &[3], &[zeros(Dtype::I32, 3)]);
        cases.push(Case { loop_budget: budget, ..case });
    }
    assert_agree("budgets", &cases);
}

#[test]
fn a_host_stops_loops_and_grids() {
    let mut builder = Builder::new(1);
    let label = builder.label();
    let endless = builder.finish(vec![Stmt::Loop(label, vec![])]);
    let mut builder = Builder::new(1);
    let x = builder.array(Dtype::I32, 1);
    let long = builder.finish(vec![store(x, tid(), int(1))]);
    let [endless, long] = [Case::new(endless, &[4], &[]), Case::new(long, &[1000], &[zeros(Dtype::I32, 1000)])];
    let cases = [endless, long].map(|case| Case { is_stopped: true, loop_budget: u64::MAX, ..case });
    let got = run("stopped", &cases, Options::default());
    assert!(got.iter().all(|one| one.is_stopped && one.fault.is_none()));
    let written = got[1].arguments[0].to_vec::<i32>().iter().filter(|one| **one == 1).count();
    assert!(written < 200, "{written} threads ran");
}

#[test]
fn ranges_are_exact_at_the_ends_of_their_types() {
    let mut cases = vec![];
    for dtype in [Dtype::I8, Dtype::U16, Dtype::I32, Dtype::U32, Dtype::I64, Dtype::U64] {
        let bits = 8 * dtype.size();
        let least =
            if dtype.is_signed() { Literal::from_bits(dtype, 1 << (bits - 1)) } else { Literal::from_bits(dtype, 0) };
        let greatest = if dtype.is_signed() {
            Literal::from_bits(dtype, (1 << (bits - 1)) - 1)
        } else {
            Literal::from_bits(dtype, u64::MAX)
        };
        let near = |from: Literal, by: i64| binary(BinaryOp::Add, Expr::Literal(from), integer(dtype, by));
        let whole = [Expr::Literal(least), Expr::Literal(greatest)];
        let spans = [
            ([near(greatest, -5), Expr::Literal(greatest)], vec![1, 2, 5, 6, 100]),
            ([near(least, 5), Expr::Literal(least)], vec![-1, -2, -5, -6, -100]),
            (whole, vec![127]),
            ([integer(dtype, 3), integer(dtype, 0)], vec![0, 1, -2]),
        ];
        for (span, steps) in spans {
            for step in steps {
                cases.extend(spanned(dtype, &span, step));
            }
        }
    }
    assert_agree("ranges", &cases);
}

/// Loops over a range, with a step that is a constant, and one that is not; the counter is used within, and after it.
fn spanned(dtype: Dtype, [start, end]: &[Expr; 2], step: i64) -> [Case; 2] {
    [false, true].map(|is_constant| {
        let mut builder = Builder::new(1);
        let x = builder.array(dtype, 1);
        let i = builder.local(dtype);
        let element = builder.local(Dtype::I32);
        let by = builder.value(dtype);
        let label = builder.label();
        let step_by = if is_constant { integer(dtype, step) } else { Expr::Param(by, 0) };
        let body = vec![
            when(less(int(7), local(element)), vec![Stmt::Break(label)]),
            store(x, local(element), local(i)),
            assign(element, add(local(element), int(1))),
        ];
        let kernel = builder.finish(vec![
            range(label, i, [start.clone(), end.clone(), step_by], body),
            store(x, int(9), if step % 2 == 0 { local(i) } else { cast(dtype, local(element)) }),
        ]);
        let value = Argument::Value(bytes(&[Literal::from_i64(dtype, step)]));
        Case::new(kernel, &[1], &[zeros(dtype, 10), value])
    })
}

#[test]
fn a_loop_counts_what_its_body_does_not_change() {
    let mut builder = Builder::new(1);
    let x = builder.array(Dtype::I32, 1);
    let [i, n, end] = [(); 3].map(|()| builder.local(Dtype::I32));
    let [first, second, third] = [(); 3].map(|()| builder.label());
    let more = assign(n, add(local(n), local(i)));
    let kernel = builder.finish(vec![
        assign(end, int(5)),
        // The body changes the end, and the counter.
        range(first, i, [int(0), local(end), int(1)], vec![assign(end, int(2)), more.clone(), assign(i, int(100))]),
        store(x, int(0), local(n)),
        // The end is the counter of the loop before.
        range(second, i, [int(97), local(i), int(2)], vec![more.clone()]),
        store(x, int(1), local(n)),
        // Nested loops of one counter.
        range(
            third,
            i,
            [int(0), int(3), int(1)],
            vec![range(LabelId(90), i, [int(10), int(12), int(1)], vec![more.clone()]), more],
        ),
        store(x, int(2), local(n)),
        store(x, int(3), local(i)),
    ]);
    assert_agree("counters", &[Case::new(kernel, &[1], &[zeros(Dtype::I32, 4)])]);
}

#[test]
fn labels_leave_and_continue_outer_loops_and_blocks() {
    let mut builder = Builder::new(1);
    let x = builder.array(Dtype::I32, 1);
    let [i, j, n] = [(); 3].map(|()| builder.local(Dtype::I32));
    let [outer, inner, block] = [(); 3].map(|()| builder.label());
    let declared = builder.local(Dtype::I32);
    let add_to = |value| assign(n, add(local(n), value));
    let kernel = builder.finish(vec![
        range(
            outer,
            i,
            [int(0), int(10), int(1)],
            vec![
                range(
                    inner,
                    j,
                    [int(0), int(10), int(1)],
                    vec![
                        when(equal(local(j), int(3)), vec![Stmt::Continue(outer)]),
                        when(equal(local(i), int(6)), vec![Stmt::Break(outer)]),
                        when(equal(local(i), int(4)), vec![Stmt::Break(inner)]),
                        add_to(int(1)),
                    ],
                ),
                assign(declared, local(n)),
                add_to(mul(local(declared), int(3))),
            ],
        ),
        Stmt::Block(
            block,
            vec![when(less(int(0), local(n)), vec![add_to(tid()), Stmt::Break(block)]), assign(n, int(-1))],
        ),
        store(x, tid(), local(n)),
    ]);
    assert_agree("labels", &[Case::reversed(kernel, &[5], &[zeros(Dtype::I32, 5)])]);
}

#[test]
fn strided_arrays_of_structs_are_accessed_in_four_dimensions() {
    let mut builder = Builder::new(4);
    let layout = element(&[("a", Dtype::U8, 1), ("b.c", Dtype::I32, 4), ("b.d", Dtype::Bool, 8)], 12);
    let points = builder.array_of(layout, 4);
    let by = builder.value_of(element(&[("x", Dtype::Bool, 0), ("y", Dtype::I64, 8)], 16));
    let [a, b, d] = [Dtype::U8, Dtype::I32, Dtype::Bool].map(|dtype| builder.local(dtype));
    let position = [0, 1, 2, 3].map(Expr::ThreadId);
    let place = |which| component(points, &position, which);
    let kernel = builder.finish(vec![
        Stmt::Load(a, place(0)),
        Stmt::Load(b, place(1)),
        Stmt::Load(d, place(2)),
        Stmt::Store(place(0), cast(Dtype::U8, local(b))),
        Stmt::Store(place(1), add(cast(Dtype::I32, local(a)), cast(Dtype::I32, Expr::Param(by, 1)))),
        Stmt::Store(place(2), binary(BinaryOp::Xor, local(d), Expr::Param(by, 0))),
    ]);
    let shape = vec![2, 3, 2, 2];
    let strides = vec![12 * 12, -48, 24, 12];
    let data: Vec<u8> =
        (0..24 * 12 + 96).map(|index: usize| u8::try_from(index * 7 % 251).expect("below 251")).collect();
    let points = Argument::Array(ArrayArgument { data, shape, strides, offset: 96 + 24 });
    let mut value = vec![0; 16];
    value[0] = 1;
    value[8..].copy_from_slice(&(-5_i64).to_le_bytes());
    assert_agree("structs", &[Case::reversed(kernel, &[2, 3, 2, 2], &[points, Argument::Value(value)])]);
}

#[test]
fn atomic_operations_do_not_depend_on_the_order_of_threads() {
    let mut cases = vec![];
    for dtype in Dtype::ALL {
        let ops = [AtomicOp::Add, AtomicOp::Min, AtomicOp::Max, AtomicOp::And, AtomicOp::Or, AtomicOp::Xor];
        for op in ops.into_iter().filter(|op| op.takes(dtype)) {
            let mut builder = Builder::new(1);
            let x = builder.array(dtype, 1);
            let y = builder.array(dtype, 1);
            let a = builder.local(dtype);
            let place = at(y, &[int(0)]);
            let atomic = Stmt::Atomic { op, place, operand: local(a), expected: None, previous: None };
            let kernel = builder.finish(vec![load(a, x, tid()), atomic]);
            let values: Vec<_> = (0..40).map(|index| Literal::from_i64(dtype, index * 5 % 17 - 3)).collect();
            cases.push(Case::reversed(kernel, &[40], &[array(&values), array(&[Literal::from_i64(dtype, 6)])]));
        }
    }
    assert_agree("atomics", &cases);
}

/// `y[i, j] += x[i]` where `x[i]` is not 3, and a variable that only some threads assign.
fn reads_before_it_writes() -> Kernel {
    let mut builder = Builder::new(2);
    let x = builder.array(Dtype::I32, 1);
    let y = builder.array(Dtype::I32, 2);
    let [a, b, bonus] = [Dtype::I32; 3].map(|dtype| builder.local(dtype));
    let place = || at(y, &[tid(), Expr::ThreadId(1)]);
    let mut kernel = builder.finish(vec![
        load(a, x, tid()),
        when(equal(local(a), int(3)), vec![Stmt::Return]),
        when(less(local(a), int(3)), vec![assign(bonus, int(100))]),
        Stmt::Load(b, place()),
        Stmt::Store(place(), add(add(local(a), local(b)), local(bonus))),
    ]);
    "add".clone_into(&mut kernel.name);
    for (named, name) in kernel.params.iter_mut().map(|param| &mut param.name).zip(["x", "y"]) {
        name.clone_into(named);
    }
    for (named, name) in kernel.locals.iter_mut().map(|local| &mut local.name).zip(["a", "b", "bonus"]) {
        name.clone_into(named);
    }
    kernel
}

#[test]
fn threads_that_run_at_once_have_variables_of_their_own() {
    // Grids around multiples of the threads that the device runs at once; in the last case threads read beyond the end of `x`.
    let cases: Vec<_> = [(1, 1), (6, 1), (5, 5), (9, 8), (12, 12), (7, 8)]
        .map(|(extent, grid)| {
            let x: Vec<_> = (0..extent).map(|index| Literal::from_i64(Dtype::I32, index)).collect();
            let y: Vec<_> = (0..grid * 3).map(|index| Literal::from_i64(Dtype::I32, 7 * index)).collect();
            let rows = i32::try_from(grid).expect("a few");
            let arguments = [array(&x), Argument::contiguous(bytes(&y), &[rows, 3], 4)];
            Case::new(reads_before_it_writes(), &[rows.unsigned_abs(), 3], &arguments)
        })
        .into();
    assert_agree("ahead", &cases);
    let text = "\
struct add_thread {
    int tid_0;
    int tid_1;
    int a;
    int b;
    int bonus = 0;
    bool has_read = false;
    __device__ __forceinline__ void read_inputs(const add_params& params, ir::Thread& thread) {
        ir::u64 rest = thread.id;
        tid_1 = ir::split(rest, thread.launch.grid[1]);
        tid_0 = (int)rest;
        if (ir::is_outside(thread, 0, 0, params.x, tid_0)) return;
        a = ir::at<int>(params.x, tid_0);
        if (a == 3) return;
        if (a < 3) {
            bonus = 100;
        }
        if (ir::is_outside(thread, 0, 1, params.y, tid_0, tid_1)) return;
        b = ir::at<int>(params.y, tid_0, tid_1);
        has_read = true;
    }
    __device__ __forceinline__ void write_outputs(const add_params& params, ir::Thread& thread) {
        if (ir::is_outside(thread, 0, 1, params.y, tid_0, tid_1)) return;
        ir::at<int>(params.y, tid_0, tid_1) = ";
    let source = device(&reads_before_it_writes(), Options::default()).source;
    assert!(source.contains(text), "{source}");
    assert!(source.contains("    ir::read_ahead<add_thread>(launch, params);\n"), "{source}");
}

/// A kernel of a few lines, with names.
fn saxpy() -> Kernel {
    let mut builder = Builder::new(2);
    let alpha = builder.value(Dtype::F32);
    let x = builder.array(Dtype::F32, 1);
    let y = builder.array(Dtype::F32, 2);
    let [row, i, sum, a] = [Dtype::I32, Dtype::I32, Dtype::F32, Dtype::F32].map(|dtype| builder.local(dtype));
    let label = builder.label();
    let scaled = mul(Expr::Param(alpha, 0), local(a));
    let mut kernel = builder.finish(vec![
        assign(row, tid()),
        when(less(int(10), local(row)), vec![Stmt::Return]),
        range(
            label,
            i,
            [int(0), Expr::Extent(x, 0), int(1)],
            vec![load(a, x, local(i)), assign(sum, add(local(sum), scaled))],
        ),
        Stmt::Store(at(y, &[local(row), Expr::ThreadId(1)]), local(sum)),
    ]);
    "saxpy".clone_into(&mut kernel.name);
    for (param, name) in kernel.params.iter_mut().zip(["alpha", "x", "y"]) {
        name.clone_into(&mut param.name);
    }
    for (one, name) in kernel.locals.iter_mut().zip(["row", "i", "sum", "sum"]) {
        name.clone_into(&mut one.name);
    }
    kernel
}

#[test]
fn device_code_reads_like_the_source() {
    let checked = device(&saxpy(), Options::default());
    assert_eq!(checked.entry, "saxpy_kernel");
    let text = "\
// saxpy(alpha: f32, x: f32[:], y: f32[:, :]), over a grid of 2 dimensions.
struct saxpy_params {
    float alpha;
    ir::Array<1> x;
    ir::Array<2> y;
};

static __device__ __forceinline__ void saxpy_thread(const saxpy_params& params, ir::Thread& thread) {
    ir::u64 rest = thread.id;
    const int tid_1 = ir::split(rest, thread.launch.grid[1]);
    const int row = (int)rest;
    if (row > 10) return;
    float sum = 0.0f;
    if (ir::take_iterations(thread, ir::Range<int>(0, params.x.shape[0], 1).count)) {
        for (int i = 0; i < params.x.shape[0]; i++) {
            if (ir::is_outside(thread, 0, 1, params.x, i)) return;
            const float sum_2 = ir::at<float>(params.x, i);
            sum += params.alpha * sum_2;
        }
    } else {
        #pragma unroll 1
        for (int i = 0; i < params.x.shape[0]; i++) {
            if (!ir::iterate(thread)) return;
            if (ir::is_outside(thread, 0, 1, params.x, i)) return;
            const float sum_2 = ir::at<float>(params.x, i);
            sum += params.alpha * sum_2;
        }
    }
    if (ir::is_outside(thread, 0, 2, params.y, row, tid_1)) return;
    ir::at<float>(params.y, row, tid_1) = sum;
}

extern \"C\" __global__ void saxpy_kernel(
    const __grid_constant__ ir::Launch launch, const __grid_constant__ saxpy_params params) {
    for (ir::Thread thread(launch); thread.is_running(); thread.advance()) saxpy_thread(params, thread);
}
";
    assert_eq!(checked.source, text);
    let unchecked = device(&saxpy(), Options { checks: false }).source;
    let body = "\
    for (int i = 0; i < params.x.shape[0]; i++) {
        sum += params.alpha * ir::at<float>(params.x, i);
    }
    ir::at<float>(params.y, row, tid_1) = sum;
}
";
    assert!(unchecked.contains(body), "{unchecked}");
}

#[test]
fn the_text_is_a_function_of_the_kernel() {
    for seed in 0..20 {
        let emit = || device(&random::kernel(seed).kernel, Options::default());
        assert_eq!(emit(), emit());
    }
}

fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

#[test]
fn the_prelude_defines_what_device_code_calls() {
    let prelude = prelude();
    let words: std::collections::HashSet<_> = words_of(&prelude).collect();
    let mut elementary = 0;
    for seed in 0..100 {
        let text = device(&random::kernel(seed).kernel, Options::default()).source;
        // Functions that only some kernels call are part of their text.
        let own: Vec<_> =
            text.split("static __device__ float ").skip(1).filter_map(|rest| words_of(rest).next()).collect();
        for rest in text.split("ir::").skip(1) {
            let name = words_of(rest).next().expect("a name");
            assert!(words.contains(name) || own.contains(&name), "{name}");
        }
        elementary += own.len();
    }
    assert!(elementary > 20, "{elementary} elementary functions");
}

#[test]
fn a_launch_lies_in_memory_as_device_code_reads_it() {
    let launch = Launch { stop: 1, fault: 2, first: 3, count: 4, loop_budget: 5, grid: [6, 7, 8, 9] };
    let bytes = launch.to_bytes();
    let long = |offset: usize| u64::from_le_bytes(bytes[offset..offset + 8].try_into().expect("8 bytes"));
    assert_eq!([0, 8, 16, 24, 32].map(long), [1, 2, 3, 4, 5]);
    assert_eq!([long(40), long(48)], [6 | 7 << 32, 8 | 9 << 32]);
    assert_eq!(Launch::fault(&Launch::no_fault()), None);
    assert!(!Launch::is_stopped(&Launch::no_fault()));
}

#[test]
fn deep_kernels_are_emitted() {
    let mut builder = Builder::new(1);
    let x = builder.array(Dtype::I32, 1);
    let a = builder.local(Dtype::I32);
    let mut expr = local(a);
    for _ in 0..120 {
        expr = add(binary(BinaryOp::Xor, expr, int(3)), int(1));
    }
    let mut body = vec![assign(a, expr), store(x, tid(), local(a))];
    for _ in 0..100 {
        body = vec![when(less(local(a), int(1000)), body)];
    }
    assert_agree("deep", &[Case::new(builder.finish(body), &[2], &[zeros(Dtype::I32, 2)])]);
}

#[test]
fn elementary_functions_for_16_bits_are_within_their_bounds() {
    let main = "
static bool is_near(float got, double expected, double bound) { return std::fabs(got - expected) <= bound; }
int main() {
    for (float x = -11.0f; x < 11.0f; x += 1.0f / 4096) {
        const double exact = std::exp((double)x);
        if (!is_near(ir::exp_for_16_bits(x), exact, 1e-5 * exact)) return 1;
        if (!is_near(ir::tanh_for_16_bits(x), std::tanh((double)x), 1e-6)) return 2;
        if (!is_near(ir::erf_for_16_bits(x), std::erf((double)x), 1e-6)) return 3;
    }
    const float infinity = __int_as_float(0x7f800000), nan = __int_as_float(0x7fc00000);
    if (ir::exp_for_16_bits(-infinity) != 0 || ir::exp_for_16_bits(infinity) != infinity) return 4;
    if (ir::tanh_for_16_bits(-infinity) != -1 || ir::erf_for_16_bits(infinity) != 1) return 5;
    if (!std::signbit(ir::tanh_for_16_bits(-0.0f)) || !std::signbit(ir::erf_for_16_bits(-0.0f))) return 6;
    return ir::exp_for_16_bits(nan) != nan && ir::tanh_for_16_bits(nan) != nan && ir::erf_for_16_bits(nan) != nan ? 0 : 7;
}
";
    let text = format!("#include \"cuda_device.h\"\n{}\n{main}", host::without_ptx(accelerd_ir::scalar::cuda::PRELUDE));
    let program = host::compile(&host::folder("elementary_for_16_bits"), &text);
    let ended = std::process::Command::new(program).status().expect("the program was compiled");
    assert_eq!(ended.code(), Some(0), "the check that failed");
}
