//! Emitted WebAssembly computes the results of the interpreter, bit for bit.

mod common {
    pub(crate) mod random;
    pub(crate) mod wasm;

    mod builder;
    pub(crate) use builder::*;
}

use accelerd_ir::{
    Dtype,
    kernel::{
        Argument, ArrayArgument, AtomicOp, Expr, FaultKind, Kernel, KernelError, LabelId, LocalId, SiteId, Stmt,
        wasm::{ArgumentLayout, emit, math_ops},
    },
    scalar::{BinaryOp, Literal, UnaryOp, math::MathOp},
};
use common::{
    Builder, add, assign, at, binary, cast, component, element, equal, int, integer, less, load, local, mul, number,
    random, range, select, store, tid, unary, wasm::assert_agree, when,
};

const BUDGET: u64 = 1000;

/// Values of a type at its edges, and others.
fn samples(dtype: Dtype) -> Vec<Literal> {
    let mut bits: Vec<u64> = vec![];
    if dtype.is_float() {
        let values = [
            0.0,
            1.0,
            0.1,
            0.5,
            1.5,
            2.5,
            3.0,
            7.75,
            100.25,
            127.5,
            255.5,
            300.0,
            32767.5,
            65519.0,
            65520.0,
            1e-40,
            5e-324,
            1e-7,
            6e-8,
            3e-8,
            2e-39,
            1e10,
            2_147_483_647.0,
            2_147_483_648.0,
            4_294_967_295.0,
            9.3e18,
            1.9e19,
            3.4e38,
            1e300,
            f64::INFINITY,
            1.0 + 1.0 / 2048.0,
            1.0 + 3.0 / 2048.0,
            1.0 + 1.0 / 256.0,
        ];
        bits.extend(values.iter().flat_map(|value| [*value, -*value]).map(|x| Literal::from_f64(dtype, x).bits()));
        bits.push(Literal::from_f64(dtype, f64::NAN).bits());
    } else {
        let powers = (0..64).map(|power| 1_u64 << power);
        bits.extend(powers.flat_map(|power| [power, power - 1, power.wrapping_neg(), power + 1]));
        bits.extend([
            3,
            7,
            10,
            100,
            0x1234_5678_9abc_def1,
            (1 << 53) + 1,
            (1 << 62) + (1 << 40),
            (1 << 62) + (1 << 50) + 1,
        ]);
    }
    let mut random = random::Random::new(7);
    bits.extend((0..12).map(|_| random.bits()));
    let mut samples: Vec<_> = bits.into_iter().map(|bits| Literal::from_bits(dtype, bits)).collect();
    samples.sort_by_key(|literal| literal.bits());
    samples.dedup();
    samples
}

fn array_of(literals: &[Literal], dtype: Dtype) -> Argument {
    let bytes = literals.iter().flat_map(|literal| literal.bits().to_le_bytes()[..dtype.size()].to_vec()).collect();
    let extent = i32::try_from(literals.len()).expect("few samples");
    Argument::contiguous(bytes, &[extent], dtype.size())
}

fn zeros(dtype: Dtype, count: usize) -> Argument {
    array_of(&vec![Literal::from_bits(dtype, 0); count], dtype)
}

fn len(count: usize) -> u32 {
    u32::try_from(count).expect("few threads")
}

/// A kernel that stores expressions of `a` and `b`, which thread t loads from pair t of the samples, and its arguments.
fn pairs(dtype: Dtype, build: impl Fn(Expr, Expr) -> Vec<(Dtype, Expr)>) -> (Kernel, Vec<Argument>, u32) {
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
    let mut arguments = vec![array_of(&samples, dtype)];
    for (result, expr) in build(local(a), local(b)) {
        let output = builder.array(result, 1);
        body.push(store(output, tid(), expr));
        arguments.push(zeros(result, threads));
    }
    (builder.finish(body), arguments, len(threads))
}

#[test]
fn every_operation_of_every_type_agrees() {
    for dtype in Dtype::ALL {
        let (kernel, arguments, threads) = pairs(dtype, |a, b| {
            let unaries = UnaryOp::ALL.into_iter().filter_map(|op| Some((op.result(dtype)?, unary(op, a.clone()))));
            let binaries =
                BinaryOp::ALL.into_iter().filter_map(|op| Some((op.result(dtype)?, binary(op, a.clone(), b.clone()))));
            let select = (dtype, select(cast(Dtype::Bool, a.clone()), a.clone(), b.clone()));
            let defined = |(result, expr)| (result, without_sign_of_nan(dtype, &a, &b, expr));
            unaries.chain(binaries).map(defined).chain([select]).collect()
        });
        assert_agree(&kernel, &[threads], &arguments, BUDGET);
    }
}

/// The sign of a NaN is undefined.
fn without_sign_of_nan(dtype: Dtype, a: &Expr, b: &Expr, expr: Expr) -> Expr {
    let is_nan = |x: &Expr| unary(UnaryOp::IsNan, x.clone());
    if matches!(expr, Expr::Unary(UnaryOp::SignBit, _)) {
        select(is_nan(a), Expr::Literal(Literal::from_bits(Dtype::Bool, 0)), expr)
    } else if matches!(expr, Expr::Binary(BinaryOp::CopySign, ..)) {
        select(is_nan(b), number(dtype, 0.0), expr)
    } else {
        expr
    }
}

#[test]
fn every_cast_agrees() {
    for dtype in Dtype::ALL {
        let (kernel, mut arguments, _) =
            pairs(dtype, |_, b| Dtype::ALL.into_iter().map(|to| (to, cast(to, b.clone()))).collect());
        let samples = samples(dtype);
        for (argument, to) in arguments[1..].iter_mut().zip(Dtype::ALL) {
            *argument = zeros(to, samples.len());
        }
        assert_agree(&kernel, &[len(samples.len())], &arguments, BUDGET);
    }
}

#[test]
fn every_16_bit_float_and_the_numbers_around_agree() {
    for (storage, wide) in
        [(Dtype::F16, Dtype::F32), (Dtype::F16, Dtype::F64), (Dtype::Bf16, Dtype::F32), (Dtype::Bf16, Dtype::F64)]
    {
        let mut builder = Builder::new(1);
        let widened = builder.array(wide, 1);
        let rounded = builder.array(storage, 2);
        let half = builder.local(storage);
        let x = builder.local(wide);
        let bits = if wide == Dtype::F32 { Dtype::I32 } else { Dtype::I64 };
        let mut body = vec![
            assign(half, Expr::Bitcast(storage, Box::new(cast(Dtype::U16, tid())))),
            assign(x, cast(wide, local(half))),
            store(widened, tid(), local(x)),
        ];
        // Around the number and around the middle to the next, by one unit of the wide type.
        let shift = match (storage, wide) {
            (Dtype::F16, Dtype::F32) => 12,
            (Dtype::F16, _) => 41,
            (_, Dtype::F32) => 15,
            _ => 44,
        };
        for (column, step) in [(0, -1), (1, 1), (2, (1 << shift) - 1), (3, 1 << shift), (4, (1 << shift) + 1)] {
            let moved = add(Expr::Bitcast(bits, Box::new(local(x))), integer(bits, step));
            let value = cast(storage, Expr::Bitcast(wide, Box::new(moved)));
            body.push(Stmt::Store(at(rounded, &[tid(), int(column)]), value));
        }
        let kernel = builder.finish(body);
        let outputs = Argument::contiguous(vec![0; 65536 * 5 * 2], &[65536, 5], 2);
        assert_agree(&kernel, &[65536], &[zeros(wide, 65536), outputs], BUDGET);
    }
}

#[test]
fn an_operation_by_a_constant_agrees() {
    use BinaryOp::{Div, Rem, Shl, Shr};
    for dtype in Dtype::ALL.into_iter().filter(|dtype| dtype.is_integer()) {
        let constants = [0, 1, -1, 2, 3, -3, 7, 8, 9, 31, 32, 63, 64, 127];
        let (kernel, arguments, threads) = pairs(dtype, |a, _| {
            let with = |op| constants.map(|b| (dtype, binary(op, a.clone(), integer(dtype, b))));
            [Div, Rem, Shl, Shr].into_iter().flat_map(with).collect()
        });
        assert_agree(&kernel, &[threads], &arguments, BUDGET);
    }
}

#[test]
fn every_bitcast_agrees() {
    for from in Dtype::ALL.into_iter().filter(|dtype| *dtype != Dtype::Bool) {
        let (kernel, mut arguments, _) = pairs(from, |_, b| {
            let fits = |to: &Dtype| to.size() == from.size() && *to != Dtype::Bool;
            Dtype::ALL.into_iter().filter(fits).map(|to| (to, Expr::Bitcast(to, Box::new(b.clone())))).collect()
        });
        let samples = samples(from);
        for argument in &mut arguments[1..] {
            *argument = Argument::contiguous(
                vec![0; samples.len() * from.size()],
                &[i32::try_from(samples.len()).expect("few")],
                from.size(),
            );
        }
        assert_agree(&kernel, &[len(samples.len())], &arguments, BUDGET);
    }
}

#[test]
fn every_atomic_operation_agrees() {
    for dtype in Dtype::ALL {
        for op in AtomicOp::ALL.into_iter().filter(|op| op.takes(dtype)) {
            let is_extremum = matches!(op, AtomicOp::Min | AtomicOp::Max);
            let samples: Vec<_> = samples(dtype).into_iter().filter(|x| is_extremum || !x.as_f64().is_nan()).collect();
            let mut builder = Builder::new(1);
            let input = builder.array(dtype, 1);
            let cells = builder.array(dtype, 1);
            let seen = builder.array(dtype, 1);
            let [x, previous] = [(); 2].map(|()| builder.local(dtype));
            let expected = (op == AtomicOp::CompareExchange).then(|| number(dtype, 0.0));
            let place = at(cells, &[binary(BinaryOp::Rem, tid(), int(5))]);
            let kernel = builder.finish(vec![
                load(x, input, tid()),
                Stmt::Atomic { op, place, operand: local(x), expected, previous: Some(previous) },
                store(seen, tid(), local(previous)),
            ]);
            let arguments = [array_of(&samples, dtype), zeros(dtype, 5), zeros(dtype, samples.len())];
            assert_agree(&kernel, &[len(samples.len())], &arguments, BUDGET);
        }
    }
}

#[test]
fn ranges_of_every_integer_type_agree() {
    for dtype in Dtype::ALL.into_iter().filter(|dtype| dtype.is_integer()) {
        let bounds: Vec<_> = [0, 1, 2, 3, 5, 100, 127, -1, -2, -5, -128, i64::MAX, i64::MIN, 1 << 40]
            .map(|value| Literal::from_i64(dtype, value))
            .into_iter()
            .chain([Literal::from_bits(dtype, u64::MAX >> 1), Literal::from_bits(dtype, 1 << (8 * dtype.size() - 1))])
            .collect();
        let mut builder = Builder::new(3);
        let input = builder.array(dtype, 1);
        let counts = builder.array(Dtype::I32, 3);
        let last = builder.array(dtype, 3);
        let [start, end, step, counter] = [(); 4].map(|()| builder.local(dtype));
        let count = builder.local(Dtype::I32);
        let label = builder.label();
        let position = [0, 1, 2].map(Expr::ThreadId);
        let body =
            vec![assign(count, add(local(count), int(1))), when(less(int(6), local(count)), vec![Stmt::Break(label)])];
        let kernel = builder.finish(vec![
            load(start, input, Expr::ThreadId(0)),
            load(end, input, Expr::ThreadId(1)),
            load(step, input, Expr::ThreadId(2)),
            range(label, counter, [start, end, step].map(local), body),
            Stmt::Store(at(counts, &position), local(count)),
            Stmt::Store(at(last, &position), local(counter)),
        ]);
        let extent = i32::try_from(bounds.len()).expect("few");
        let all = bounds.len().pow(3);
        let grid = [len(bounds.len()); 3];
        let cube = |dtype: Dtype| Argument::contiguous(vec![0; all * dtype.size()], &[extent; 3], dtype.size());
        assert_agree(&kernel, &grid, &[array_of(&bounds, dtype), cube(Dtype::I32), cube(dtype)], BUDGET);
    }
}

#[test]
fn strided_arrays_of_structs_agree() {
    let mut builder = Builder::new(2);
    let point = element(&[("x", Dtype::F32, 0), ("tag", Dtype::I8, 4), ("y", Dtype::F64, 8)], 16);
    let pair = element(&[("flag", Dtype::Bool, 0), ("scale", Dtype::F64, 8)], 16);
    let byte = builder.value(Dtype::U8);
    let array = builder.array_of(point, 2);
    let scale = builder.value_of(pair);
    let y = builder.local(Dtype::F64);
    let position = [Expr::ThreadId(0), Expr::ThreadId(1)];
    let kernel = builder.finish(vec![
        Stmt::Load(y, component(array, &position, 2)),
        assign(y, mul(local(y), Expr::Param(scale, 1))),
        Stmt::Store(
            component(array, &position, 0),
            select(Expr::Param(scale, 0), cast(Dtype::F32, local(y)), number(Dtype::F32, -1.0)),
        ),
        Stmt::Store(component(array, &position, 1), cast(Dtype::I8, Expr::Param(byte, 0))),
    ]);
    let data: Vec<u8> = (0..=255).cycle().take(6 * 16).collect();
    let array = ArrayArgument { data, shape: vec![2, 3], strides: vec![-16, 32], offset: 16 };
    let mut value = vec![1, 0, 0, 0, 0, 0, 0, 0];
    value.extend(2.5_f64.to_le_bytes());
    let arguments = [Argument::value(200_u8), Argument::Array(array), Argument::Value(value)];
    assert_agree(&kernel, &[2, 3], &arguments, BUDGET);
    let layout = ArgumentLayout::new(&kernel);
    assert_eq!((layout.offsets, layout.size), (vec![0, 4, 40], 56));
}

#[test]
fn faults_of_every_kind_agree() {
    let mut builder = Builder::new(2);
    let array = builder.array(Dtype::F32, 3);
    let index = builder.array(Dtype::I64, 1);
    let i = builder.local(Dtype::I64);
    let forever = builder.label();
    let mut place = at(array, &[int(0), local(i), Expr::ThreadId(1)]);
    place.site = SiteId(3);
    let raise = |kind, position| Stmt::Fault(kind, SiteId(position));
    let nth = |value| equal(Expr::ThreadId(0), int(value));
    let kernel = builder.finish(vec![
        load(i, index, Expr::ThreadId(0)),
        when(nth(0), vec![raise(FaultKind::DivisionByZero, 1)]),
        when(nth(1), vec![raise(FaultKind::Assertion, 2)]),
        when(nth(2), vec![raise(FaultKind::InvalidValue, 4)]),
        when(nth(3), vec![Stmt::Loop(forever, vec![])]),
        when(nth(4), vec![raise(FaultKind::OutOfBounds, 5)]),
        Stmt::Store(place, number(Dtype::F32, 1.0)),
    ]);
    let arguments =
        |indices: [i64; 8]| [Argument::contiguous(vec![0; 4 * 8], &[1, 4, 2], 4), Argument::array(&indices)];
    // Without the first statements that raise faults, later threads have the first.
    let kinds = [
        FaultKind::DivisionByZero,
        FaultKind::Assertion,
        FaultKind::InvalidValue,
        FaultKind::BudgetExhausted,
        FaultKind::OutOfBounds,
    ];
    let mut calm = kernel;
    for kind in kinds {
        let (_, fault) = assert_agree(&calm, &[8, 2], &arguments([2; 8]), BUDGET);
        assert_eq!(fault.map(|fault| fault.kind), Some(kind));
        calm.body.remove(1);
    }
    let (_, fault) = assert_agree(&calm, &[8, 2], &arguments([2; 8]), BUDGET);
    assert_eq!(fault, None);
    for index in [-1, 4, i64::MIN, i64::MAX, (1 << 32) + 1] {
        let (_, fault) = assert_agree(&calm, &[8, 2], &arguments([0, 1, 2, 3, index, 3, 9, 1]), BUDGET);
        let access = fault.and_then(|fault| fault.access).expect("an access outside of the array");
        assert_eq!((access.axis, access.index, access.extent), (1, index, 4));
    }
    let (_, fault) = assert_agree(&calm, &[8, 3], &arguments([2; 8]), BUDGET);
    let fault = fault.expect("the last dimension is too small");
    assert_eq!(fault.thread, [0, 2]);
}

#[test]
fn the_budget_is_that_of_the_interpreter() {
    let mut builder = Builder::new(1);
    let out = builder.array(Dtype::I32, 1);
    let i = builder.local(Dtype::I32);
    let j = builder.local(Dtype::U64);
    let n = builder.local(Dtype::I32);
    let outer = builder.label();
    let inner = builder.label();
    let bounds = [0, 2, 1].map(|bound| integer(Dtype::U64, bound));
    let count = vec![assign(n, add(local(n), int(1))), store(out, tid(), local(n))];
    let inner = range(inner, j, bounds, count);
    let kernel = builder.finish(vec![range(outer, i, [int(0), tid(), int(1)], vec![inner])]);
    for budget in [0, 1, 5, 8, 9, 12, u64::MAX] {
        assert_agree(&kernel, &[5], &[zeros(Dtype::I32, 5)], budget);
    }
}

#[test]
fn locals_start_as_zero_in_every_thread() {
    let mut builder = Builder::new(1);
    let out = builder.array(Dtype::F64, 1);
    let sum = builder.local(Dtype::F64);
    let kernel = builder.finish(vec![
        assign(sum, add(local(sum), cast(Dtype::F64, add(tid(), int(1))))),
        store(out, tid(), local(sum)),
    ]);
    let (arguments, _) = assert_agree(&kernel, &[4], &[zeros(Dtype::F64, 4)], BUDGET);
    assert_eq!(arguments[0].to_vec::<f64>(), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn only_used_functions_are_part_of_a_module() {
    let build = |expr: fn(Expr) -> Expr| {
        let mut builder = Builder::new(1);
        let out = builder.array(Dtype::F64, 1);
        let x = builder.local(Dtype::F64);
        builder.finish(vec![load(x, out, tid()), store(out, tid(), expr(local(x)))])
    };
    let plain = build(|x| x);
    assert!(math_ops(&plain).is_empty());
    let names = |kernel: &Kernel| math_ops(kernel).into_iter().map(MathOp::name).collect::<Vec<_>>();
    let sine = build(|x| unary(UnaryOp::Sin, binary(BinaryOp::Pow, unary(UnaryOp::Sin, x.clone()), x)));
    assert_eq!(names(&sine), ["sin", "pow"]);
    let remainder = build(|x| binary(BinaryOp::Rem, x, number(Dtype::F64, 3.0)));
    let size = |kernel| emit(kernel).expect("well formed").len();
    assert!(size(&remainder) > size(&plain) + 100, "the helper is long");
    assert_eq!(emit(&sine), emit(&sine), "equal kernels have equal modules");
}

#[test]
fn a_kernel_that_is_not_well_formed_is_not_emitted() {
    let mut kernel = Builder::new(1).finish(vec![]);
    kernel.body.push(Stmt::Break(LabelId(1)));
    assert!(matches!(emit(&kernel), Err(KernelError::Label { .. })));
}

/// Stores expressions of components of two arrays at the position of the thread.
fn elementwise(dtype: Dtype, build: impl Fn(Expr, Expr) -> Vec<(Dtype, Expr)>) -> (Kernel, Vec<Argument>, u32) {
    let samples: Vec<_> = samples(dtype).into_iter().step_by(2).collect();
    let mut builder = Builder::new(1);
    let inputs = [(); 2].map(|()| builder.array(dtype, 1));
    let [a, b] = [(); 2].map(|()| builder.local(dtype));
    let mut body = vec![load(a, inputs[0], tid()), load(b, inputs[1], tid())];
    let (left, right): (Vec<_>, Vec<_>) = samples.iter().flat_map(|a| samples.iter().map(|b| (*a, *b))).unzip();
    let mut arguments = vec![array_of(&left, dtype), array_of(&right, dtype)];
    for (result, expr) in build(local(a), local(b)) {
        let output = builder.array(result, 1);
        body.push(store(output, tid(), expr));
        arguments.push(zeros(result, left.len()));
    }
    (builder.finish(body), arguments, len(left.len()))
}

/// Makes an expression of two, and tells its type.
type Build = Box<dyn Fn(Expr, Expr) -> (Dtype, Expr)>;

#[test]
fn every_operation_of_vectors_agrees() {
    let mut with_vectors = 0;
    for dtype in [Dtype::I32, Dtype::U32, Dtype::F32] {
        let as_word =
            |(result, expr)| if result == Dtype::Bool { (Dtype::I32, cast(Dtype::I32, expr)) } else { (result, expr) };
        let unaries = UnaryOp::ALL.into_iter().filter(|op| op.result(dtype).is_some());
        let binaries = BinaryOp::ALL.into_iter().filter(|op| op.result(dtype).is_some());
        let result = |result: Option<Dtype>| result.expect("the operation takes the type");
        let unaries = unaries.map(|op| -> Build { Box::new(move |a, _| (result(op.result(dtype)), unary(op, a))) });
        let binaries =
            binaries.map(|op| -> Build { Box::new(move |a, b| (result(op.result(dtype)), binary(op, a, b))) });
        let casts = [Dtype::Bool, Dtype::I32, Dtype::U32, Dtype::F32]
            .map(|to| -> Build { Box::new(move |a, _| (to, cast(to, a))) });
        let builds = unaries.chain(binaries).chain(casts);
        // One kernel an operation: one that vectors do not have would take them from all.
        for build in builds {
            let (kernel, arguments, threads) = elementwise(dtype, |a, b| {
                let (result, expr) = build(a.clone(), b.clone());
                vec![as_word((result, without_sign_of_nan(dtype, &a, &b, expr)))]
            });
            with_vectors += u32::from(common::wasm::has_vectors(&kernel));
            assert_agree(&kernel, &[threads], &arguments, BUDGET);
        }
    }
    assert!(with_vectors > 50, "{with_vectors} kernels have vectors");
}

#[test]
fn shifts_of_vectors_by_a_constant_agree() {
    for dtype in [Dtype::I32, Dtype::U32] {
        let (kernel, arguments, threads) = elementwise(dtype, |a, _| {
            let shifts = [BinaryOp::Shl, BinaryOp::Shr].into_iter().flat_map(|op| [0, 1, 31].map(|by| (op, by)));
            shifts.map(|(op, by)| (dtype, binary(op, a.clone(), integer(dtype, by)))).collect()
        });
        assert!(common::wasm::has_vectors(&kernel));
        assert_agree(&kernel, &[threads], &arguments, BUDGET);
    }
}

#[test]
fn a_variable_that_holds_the_position_is_an_index_of_vectors() {
    // y[i] = x[i] after statements, with an index that is the position only in the first case.
    let has_vectors = |build: fn(LocalId) -> Vec<Stmt>| {
        let mut builder = Builder::new(1);
        let i = builder.local(Dtype::I32);
        let value = builder.local(Dtype::F32);
        let x = builder.array(Dtype::F32, 1);
        let y = builder.array(Dtype::F32, 1);
        let mut body = build(i);
        body.extend([load(value, x, local(i)), store(y, tid(), local(value))]);
        let kernel = builder.finish(body);
        let numbers: Vec<f32> = (0_u8..50).map(f32::from).collect();
        assert_agree(&kernel, &[50], &[Argument::array(&numbers), Argument::array(&[0.0_f32; 50])], BUDGET);
        common::wasm::has_vectors(&kernel)
    };
    assert!(has_vectors(|i| vec![assign(i, tid())]));
    assert!(has_vectors(|i| vec![assign(i, tid()), when(less(int(40), local(i)), vec![Stmt::Return])]));
    assert!(!has_vectors(|_| vec![]), "it is 0");
    assert!(!has_vectors(|i| vec![assign(i, tid()), assign(i, int(1))]), "it is 1");
    assert!(!has_vectors(|i| vec![when(less(int(40), tid()), vec![assign(i, tid())])]), "it is 0 in some threads");
}

#[test]
fn threads_of_vectors_return_on_their_own() {
    let mut builder = Builder::new(1);
    let out = builder.array(Dtype::I32, 1);
    let is = |op, value| binary(op, tid(), int(value));
    let nested = vec![
        when(is(BinaryOp::Eq, 1), vec![Stmt::Return]),
        store(out, tid(), int(1)),
        when(is(BinaryOp::Eq, 2), vec![Stmt::Return]),
        store(out, tid(), int(2)),
    ];
    let otherwise =
        vec![when(is(BinaryOp::Eq, 5), vec![store(out, tid(), int(3)), Stmt::Return, store(out, tid(), int(9))])];
    let kernel = builder.finish(vec![
        Stmt::If(is(BinaryOp::Lt, 4), nested, otherwise),
        when(is(BinaryOp::Eq, 6), vec![store(out, tid(), int(4)), Stmt::Return]),
        store(out, tid(), int(5)),
    ]);
    assert!(common::wasm::has_vectors(&kernel));
    let (arguments, _) = assert_agree(&kernel, &[8], &[zeros(Dtype::I32, 8)], BUDGET);
    assert_eq!(arguments[0].to_vec::<i32>(), [5, 0, 1, 5, 5, 3, 4, 5]);
}

#[test]
fn loops_that_all_threads_run_alike_run_in_vectors() {
    let mut builder = Builder::new(1);
    let out = builder.array(Dtype::I32, 1);
    let n = builder.value(Dtype::I32);
    let i = builder.local(Dtype::I32);
    let sum = builder.local(Dtype::I32);
    let label = builder.label();
    let body = vec![
        when(equal(add(tid(), local(i)), int(9)), vec![Stmt::Return]),
        assign(sum, add(local(sum), mul(local(i), tid()))),
        store(out, tid(), local(sum)),
    ];
    let kernel = builder.finish(vec![
        when(less(tid(), int(2)), vec![Stmt::Return]),
        range(label, i, [int(0), Expr::Param(n, 0), int(1)], body),
        store(out, tid(), add(local(sum), int(100))),
    ]);
    assert!(common::wasm::has_vectors(&kernel));
    // A part of a vector, several vectors, and several groups of them with a rest.
    for (threads, count, budget) in [11, 23, 75].into_iter().flat_map(|threads| {
        [-1, 0, 1, 5, 7, 20]
            .into_iter()
            .flat_map(move |count| [0, 1, 4, 5, 6, 7, 8, 100].map(|budget| (threads, count, budget)))
    }) {
        let arguments = [zeros(Dtype::I32, threads), Argument::value(count)];
        let (_, fault) = assert_agree(&kernel, &[len(threads)], &arguments, budget);
        if count == 5 && budget == 4 {
            assert_eq!(fault.map(|fault| fault.thread), Some(vec![2]), "the first two return before");
        }
    }
}

#[test]
fn a_loop_beyond_its_budget_is_a_fault_of_the_first_thread_that_is_left() {
    let mut builder = Builder::new(1);
    let out = builder.array(Dtype::I32, 1);
    let first = builder.value(Dtype::I32);
    let i = builder.local(Dtype::I32);
    let label = builder.label();
    let kernel = builder.finish(vec![
        when(less(tid(), Expr::Param(first, 0)), vec![Stmt::Return]),
        range(label, i, [int(0), int(9), int(1)], vec![store(out, tid(), local(i))]),
    ]);
    assert!(common::wasm::has_vectors(&kernel));
    for first in [0, 3, 4, 11, 15, 16, 37_i32] {
        let arguments = [zeros(Dtype::I32, 40), Argument::value(first)];
        let (_, fault) = assert_agree(&kernel, &[40], &arguments, 3);
        assert_eq!(fault.map(|fault| fault.thread), Some(vec![first.unsigned_abs()]));
    }
}

fn assert_random_vector_kernels_agree(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let subject = random::vector_kernel(seed);
        assert!(common::wasm::has_vectors(&subject.kernel), "seed {seed}");
        assert_agree(&subject.kernel, &subject.grid, &subject.arguments, 12);
    }
}

#[test]
fn random_kernels_of_vectors_agree() {
    assert_random_vector_kernels_agree(0..100);
}

fn assert_random_kernels_agree(seeds: std::ops::Range<u64>) {
    let mut faults = 0;
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let subject = random::kernel(seed);
        let (_, fault) = assert_agree(&subject.kernel, &subject.grid, &subject.arguments, 40);
        faults += u64::from(fault.is_some());
    }
    assert!(faults > count / 20 && faults < count - count / 20, "{faults} of {count} kernels fault");
}

#[test]
fn random_kernels_agree() {
    assert_random_kernels_agree(0..100);
}

#[test]
#[ignore = "takes minutes: for changes of interpreter or emitter"]
fn many_random_kernels_agree() {
    assert_random_kernels_agree(1_000..11_000);
}

#[test]
#[ignore = "takes minutes: for changes of interpreter or emitter"]
fn many_random_kernels_of_vectors_agree() {
    assert_random_vector_kernels_agree(1_000..11_000);
}
