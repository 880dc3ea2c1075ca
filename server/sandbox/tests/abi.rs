//! Arguments and results of functions: scalars of every type, buffers, isolation, `math`.

mod common;

use accelerd_ir::scalar::math::{self, MathOp};
use accelerd_sandbox::{
    BufferUse, Call, CaseLimits, Isolation, ModuleCode, Outcome, Param, Refusal, Sandbox, SandboxError, ScalarType,
    Settings, Signature, Slice, WasmType,
};
use bytes::Bytes;
use common::*;

/// Writes no state, a global, and memory: the ways to run a case differ.
const STATES: [&str; 2] = ["", "(global.set $g (i32.add (global.get $g) (i32.const 1)))"];

fn identity(ty: ScalarType, state: &str) -> String {
    let ty = ty.wasm_type();
    format!(
        r#"(module (global $g (mut i32) (i32.const 0))
            (func (export "f") (param {ty}) (result {ty}) {state} (local.get 0)))"#
    )
}

/// Values of every type whose bits an implementation might change.
fn odd_values(ty: ScalarType) -> Vec<Vec<u8>> {
    let words: Vec<u64> = match ty.wasm_type() {
        WasmType::F32 => [0x7fa0_0001, 0xffc1_2345, 0x8000_0000, 0x0000_0001, 0xff80_0000, 0x7f7f_ffff].to_vec(),
        WasmType::F64 => {
            [0x7ff4_0000_0000_0001, 0xfff8_1234_5678_9abc, 1 << 63, 1, 0xfff0_0000_0000_0000, u64::MAX].to_vec()
        }
        WasmType::I32 | WasmType::I64 | WasmType::Other => {
            [0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x8000_0000, 0x7fff_ffff, 1 << 63, u64::MAX].to_vec()
        }
    };
    words.into_iter().map(|word| word.to_le_bytes()[..ty.size()].to_vec()).collect()
}

#[test]
fn values_of_every_type_arrive_and_return_with_their_bits() {
    let mut sandbox = sandbox();
    for ty in ScalarType::ALL {
        for state in STATES {
            for isolation in [Isolation::Fresh, Isolation::Reused] {
                for fuel in [None, Some(1000)] {
                    let values = odd_values(ty);
                    let cases = values.len() as u64;
                    let column: Bytes = values.concat().into();
                    let mut call = call(&identity(ty, state), &[ty], &[ty], std::slice::from_ref(&column), cases);
                    (call.isolation, call.limits.fuel) = (isolation, fuel);
                    let result = run(&mut sandbox, &call).expect("the call runs");
                    let is_bool = ty == ScalarType::Bool;
                    let returned = |byte: &u8| if is_bool { u8::from(*byte != 0) } else { *byte };
                    let expected: Vec<u8> = column.iter().map(returned).collect();
                    assert_eq!(result.columns, [expected], "{ty:?} {state} {isolation:?} {fuel:?}");
                    assert_eq!(result.outcomes.count(Outcome::Ok), values.len());
                }
            }
        }
    }
}

#[test]
fn narrow_types_are_extended_and_truncated() {
    // The function sees the argument as i64 and returns an i32 with all bits set above.
    let widen = r#"(module (func (export "f") (param i32) (result i64 i32)
        (i64.extend_i32_s (local.get 0)) (i32.or (i32.const -65536) (local.get 0))))"#;
    let mut sandbox = sandbox();
    for (ty, byte, expected) in [(ScalarType::I8, 0x80, -128), (ScalarType::U8, 0x80, 128), (ScalarType::Bool, 0x80, 1)]
    {
        for fuel in [None, Some(100)] {
            let mut call = call(widen, &[ty], &[ScalarType::I64, ScalarType::U16], &[vec![byte].into()], 1);
            call.limits.fuel = fuel;
            let result = run(&mut sandbox, &call).expect("the call runs");
            assert_eq!(result.columns[0], i64::from(expected).to_le_bytes(), "{ty:?}");
            assert_eq!(result.columns[1], i16::try_from(expected).expect("a byte").to_le_bytes(), "{ty:?}");
        }
    }
}

#[test]
fn all_types_travel_together_in_their_columns() {
    let params: Vec<_> = ScalarType::ALL.into_iter().map(|ty| ty.wasm_type().to_string()).collect();
    let gets: Vec<_> = (0..params.len()).map(|nth| format!("(local.get {nth})")).collect();
    let text =
        format!(r#"(module (func (export "f") (param {0}) (result {0}) {1}))"#, params.join(" "), gets.join(" "));
    let cases = 1000;
    let columns: Vec<Bytes> = (0u8..)
        .zip(ScalarType::ALL)
        .map(|(nth, ty)| {
            (0..cases * ty.size()).map(|at| u8::from((at * 7 + usize::from(nth)) % 2 == 1)).collect::<Vec<_>>().into()
        })
        .collect();
    let call = call(&text, &ScalarType::ALL, &ScalarType::ALL, &columns, cases as u64);
    let result = run(&mut sandbox(), &call).expect("the call runs");
    assert_eq!(result.columns, columns);
}

/// Counts its calls in a global, in memory, and in a table.
const COUNTER: &str = r#"(module (memory 1) (global $g (mut i32) (i32.const 0))
    (func (export "f") (result i32 i32)
        (global.set $g (i32.add (global.get $g) (i32.const 1)))
        (i32.store (i32.const 65532) (i32.add (i32.load (i32.const 65532)) (i32.const 1)))
        (global.get $g) (i32.load (i32.const 65532)))
    (data (i32.const 0) "initial"))"#;

#[test]
fn a_fresh_case_sees_nothing_of_earlier_ones() {
    let call = call(COUNTER, &[], &[ScalarType::I32; 2], &[], 100);
    let result = run(&mut sandbox(), &call).expect("the call runs");
    for column in &result.columns {
        assert_eq!(read_i32s(column), [1; 100]);
    }
}

#[test]
fn a_reused_instance_keeps_its_state_across_slices_but_not_across_calls() {
    let slice = Slice { cases: 7, ..Slice::default() };
    let mut sandbox = sandbox_with(&Settings { slice, ..Settings::default() });
    for fuel in [None, Some(1000)] {
        let mut call = call(COUNTER, &[], &[ScalarType::I32; 2], &[], 100);
        (call.isolation, call.limits.fuel) = (Isolation::Reused, fuel);
        for _ in 0..2 {
            let result = run(&mut sandbox, &call).expect("the call runs");
            for column in &result.columns {
                assert_eq!(read_i32s(column), (1..=100).collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn a_case_that_traps_ends_a_reused_instance() {
    let text = r#"(module (global $g (mut i32) (i32.const 0)) (func (export "f") (param i32) (result i32)
        (global.set $g (i32.add (global.get $g) (i32.const 1)))
        (if (local.get 0) (then (unreachable)))
        (global.get $g)))"#;
    let mut sandbox = sandbox();
    for fuel in [None, Some(1000)] {
        let mut call = call(text, &[ScalarType::I32], &[ScalarType::I32], &[i32s(&[0, 0, 1, 0, 0, 0, 1, 1])], 8);
        (call.isolation, call.limits.fuel) = (Isolation::Reused, fuel);
        let result = run(&mut sandbox, &call).expect("the call runs");
        assert_eq!(read_i32s(&result.columns[0]), [1, 2, 0, 1, 2, 3, 0, 0], "{fuel:?}");
        assert_eq!(result.outcomes.count(Outcome::Unreachable), 3);
    }
}

#[test]
fn cases_that_trap_do_not_change_their_neighbours() {
    let text = r#"(module (func (export "f") (param i32 i32) (result i32) (i32.div_s (local.get 0) (local.get 1))))"#;
    let cases = 50_000;
    let dividends: Vec<i32> = (0..cases).map(|n| if n % 11 == 0 { i32::MIN } else { n }).collect();
    let divisors: Vec<i32> = (0..cases)
        .map(|n| {
            if n % 7 == 0 {
                0
            } else if n % 11 == 0 {
                -1
            } else {
                n % 5 - 7
            }
        })
        .collect();
    let columns = [i32s(&dividends), i32s(&divisors)];
    let call = call(text, &[ScalarType::I32; 2], &[ScalarType::I32], &columns, 50_000);
    let result = run(&mut sandbox(), &call).expect("the call runs");
    let values = read_i32s(&result.columns[0]);
    for (n, outcome) in result.outcomes.iter().enumerate() {
        let expected = match (dividends[n], divisors[n]) {
            (_, 0) => (Outcome::IntegerDivisionByZero, 0),
            (i32::MIN, -1) => (Outcome::IntegerOverflow, 0),
            (x, y) => (Outcome::Ok, x / y),
        };
        assert_eq!((outcome, values[n]), expected, "case {n}");
    }
}

/// `f(x, x_len, y, y_len, factor) -> sum`: `y[i] = factor * x[i]`, and in-out `z[i] += 1`.
fn buffers(alloc: &str) -> String {
    format!(
        r#"(module (memory (export "memory") 1) {alloc}
        (func (export "f") (param $x i32) (param $n i32) (param $y i32) (param $m i32) (param $z i32) (param $k i32)
                (param $factor f64) (result f64) (local $sum f64) (local $v f64)
            (if (f64.ne (f64.load (local.get $y)) (f64.const 0)) (then (unreachable)))
            (if (i32.ne (local.get $n) (i32.const 3)) (then (unreachable)))
            (if (i32.ne (local.get $m) (i32.const 3)) (then (unreachable)))
            (if (i32.ne (local.get $k) (i32.const 1)) (then (unreachable)))
            (i64.store (local.get $z) (i64.add (i64.load (local.get $z)) (i64.const 1)))
            (loop $next
                (local.set $v (f64.mul (local.get $factor) (f64.load (local.get $x))))
                (f64.store (local.get $y) (local.get $v))
                (local.set $sum (f64.add (local.get $sum) (local.get $v)))
                (local.set $x (i32.add (local.get $x) (i32.const 8)))
                (local.set $y (i32.add (local.get $y) (i32.const 8)))
                (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
            (local.get $sum)))"#
    )
}

fn buffers_call(text: &str) -> Call {
    let signature = Signature {
        params: vec![
            Param::Input(ScalarType::F64, 3),
            Param::Output(ScalarType::F64, 3),
            Param::InOut(ScalarType::I64, 1),
            Param::Value(ScalarType::F64),
        ],
        results: vec![ScalarType::F64],
    };
    let mut call = Call::new(module(text), "f", signature, 2);
    let z = bytes_of(&[i64::MAX, 41], |value| value.to_le_bytes());
    call.columns = vec![f64s(&[1.0, 2.0, 3.0, 10.0, 20.0, 30.0]), z, f64s(&[2.0, -1.0])];
    call
}

/// Returns addresses from 1024 on.
const ALLOC: &str = r#"(global $end (mut i32) (i32.const 1024))
    (func (export "alloc") (param i32) (result i32)
        (global.get $end) (global.set $end (i32.add (global.get $end) (local.get 0))))"#;

#[test]
fn buffers_are_passed_by_address_and_length() {
    let mut sandbox = sandbox();
    for alloc in ["", ALLOC] {
        for isolation in [Isolation::Fresh, Isolation::Reused] {
            for fuel in [None, Some(10_000)] {
                let mut call = buffers_call(&buffers(alloc));
                (call.isolation, call.limits.fuel) = (isolation, fuel);
                let result = run(&mut sandbox, &call).expect("the call runs");
                assert_eq!(result.outcomes.codes(), [0, 0], "{alloc} {isolation:?}");
                assert_eq!(read_f64s(&result.columns[0]), [2.0, 4.0, 6.0, -10.0, -20.0, -30.0]);
                assert_eq!(result.columns[1], bytes_of(&[i64::MIN, 42], |value| value.to_le_bytes()));
                assert_eq!(read_f64s(&result.columns[2]), [12.0, -60.0]);
            }
        }
    }
}

#[test]
fn buffers_are_passed_by_address_alone() {
    let text = r#"(module (memory (export "memory") 1)
        (func (export "f") (param $from i32) (param $n i32) (param $to i32)
            (f64.store (local.get $to) (f64.load (local.get $from)))
            (f64.store offset=8 (local.get $to)
                (f64.load (i32.add (local.get $from) (i32.shl (i32.sub (local.get $n) (i32.const 1)) (i32.const 3)))))))"#;
    let params = vec![Param::Input(ScalarType::F64, 3), Param::Address(BufferUse::Output, ScalarType::F64, 2)];
    let mut call = Call::new(module(text), "f", Signature { params, results: vec![] }, 2);
    call.columns = vec![f64s(&[1.0, 2.0, 3.0, 10.0, 20.0, 30.0])];
    let result = run(&mut sandbox(), &call).expect("the call runs");
    assert_eq!(read_f64s(&result.columns[0]), [1.0, 3.0, 10.0, 30.0]);
}

#[test]
fn an_allocator_that_returns_addresses_outside_the_memory_fails_the_case() {
    let mut sandbox = sandbox();
    for address in [65536, -1, i32::MIN, 65530] {
        let alloc = format!(r#"(func (export "alloc") (param i32) (result i32) (i32.const {address}))"#);
        let call = buffers_call(&buffers(&alloc));
        assert_eq!(outcomes(&mut sandbox, &call), [Outcome::BadAllocation; 2], "{address}");
    }
}

#[test]
fn an_allocator_that_traps_fails_the_case() {
    let alloc = r#"(func (export "alloc") (param i32) (result i32) (unreachable))"#;
    let call = buffers_call(&buffers(alloc));
    assert_eq!(outcomes(&mut sandbox(), &call), [Outcome::Unreachable; 2]);
}

#[test]
fn buffers_beyond_the_memory_limit_are_out_of_memory() {
    let mut call = buffers_call(&buffers(""));
    call.limits.memory_bytes = 1 << 16;
    assert_eq!(outcomes(&mut sandbox(), &call), [Outcome::OutOfMemory; 2]);
}

#[test]
fn buffers_need_an_exported_memory() {
    let text = r#"(module (memory 1) (func (export "f") (param i32 i32)))"#;
    let signature = Signature { params: vec![Param::Output(ScalarType::I8, 1)], results: vec![] };
    let call = Call::new(module(text), "f", signature, 1);
    let error = run(&mut sandbox(), &call).expect_err("there is no memory");
    assert!(matches!(error, SandboxError::Refused(Refusal::NoMemory)), "{error}");
}

#[test]
fn math_functions_are_those_of_the_host() {
    let mut sandbox = sandbox();
    let functions = MathOp::all().map(|function| match function {
        MathOp::Unary(op) => (function.name(), 1, math::unary(op, 0.75), math::unary_f32(op, 0.75)),
        MathOp::Binary(op) => (function.name(), 2, math::binary(op, 0.75, 0.5), math::binary_f32(op, 0.75, 0.5)),
    });
    for (name, operands, double, single) in functions.chain([("rem", 2, 0.25, 0.25)]) {
        let operand = |x: f64| f64s(&[x]);
        let doubles: Vec<_> = [0.75, 0.5].map(operand).into_iter().take(operands).collect();
        let singles: Vec<_> = [0.75, 0.5].map(|x| f32s(&[x])).into_iter().take(operands).collect();
        assert_computes(&mut sandbox, name, WasmType::F64, &doubles, &f64s(&[double]));
        assert_computes(&mut sandbox, name, WasmType::F32, &singles, &f32s(&[single]));
    }
}

fn assert_computes(sandbox: &mut Sandbox, name: &str, ty: WasmType, columns: &[Bytes], expected: &Bytes) {
    let scalar = if ty == WasmType::F32 { ScalarType::F32 } else { ScalarType::F64 };
    let params = vec![ty.to_string(); columns.len()].join(" ");
    let second = if columns.len() == 2 { "(local.get 1)" } else { "" };
    let text = format!(
        r#"(module (import "math" "{name}_{ty}" (func $m (param {params}) (result {ty})))
            (func (export "f") (param {params}) (result {ty}) (call $m (local.get 0) {second})))"#
    );
    let mut call = call(&text, &vec![scalar; columns.len()], &[scalar], columns, 1);
    call.math = true;
    let result = run(sandbox, &call).expect("the call runs");
    let is_nan = |bytes: &[u8]| bytes.last().is_some_and(|byte| byte & 0x7f == 0x7f);
    assert!(result.columns[0] == *expected || is_nan(expected) && is_nan(&result.columns[0]), "{name}_{ty}");
}

#[test]
fn math_is_only_provided_where_it_is_enabled() {
    let text = r#"(module (import "math" "sin_f64" (func (param f64) (result f64))) (func (export "f")))"#;
    let error = run(&mut sandbox(), &call_plain(text, 1)).expect_err("math is off");
    let SandboxError::Refused(Refusal::MathNotEnabled(names)) = error else { panic!("{error}") };
    assert_eq!(names, ["sin_f64"]);
}

#[test]
fn a_function_of_another_type_is_refused_with_both_types() {
    let mut call = call(INCREMENT, &[ScalarType::F64], &[ScalarType::I32], &[f64s(&[1.0])], 1);
    let mut sandbox = sandbox();
    let error = run(&mut sandbox, &call).expect_err("the types differ");
    assert_eq!(error.to_string(), "function `f` has type (i32) -> (i32), the call expects (f64) -> (i32)");
    call.function = "g".into();
    let error = run(&mut sandbox, &call).expect_err("there is no g");
    assert_eq!(error.to_string(), "the module exports no function `g`; it exports f");
    assert_works(&mut sandbox);
}

#[test]
fn limits_above_those_of_the_sandbox_are_refused() {
    let mut call = call_plain(r#"(module (func (export "f")))"#, 1);
    call.limits = CaseLimits { memory_bytes: u64::MAX, ..CaseLimits::default() };
    let error = run(&mut sandbox(), &call).expect_err("too much memory");
    assert!(matches!(error, SandboxError::Refused(Refusal::LimitTooHigh { .. })), "{error}");
}

#[test]
fn a_call_without_cases_has_empty_columns() {
    let call = call(INCREMENT, &[ScalarType::I32], &[ScalarType::I32], &[Bytes::new()], 0);
    let result = run(&mut sandbox(), &call).expect("the call runs");
    assert!(result.outcomes.is_empty());
    assert_eq!(result.columns, [vec![]]);
}

#[test]
fn a_loaded_module_is_described() {
    let info = sandbox().load(&module(COUNTER), ModuleCode::Plain, soon()).expect("a valid module");
    let [function] = &info.functions[..] else { panic!("one function is exported") };
    assert_eq!(function.name, "f");
    assert_eq!(function.signature.to_string(), "() -> (i32, i32)");
    assert!(!function.is_pure && !info.exports_memory);
    assert_eq!(info.memory_bytes, 1 << 16);
    assert!(info.code_bytes > 0);
}

#[test]
fn slices_arrive_in_order_and_can_be_cancelled() {
    let slice = Slice { cases: 10, ..Slice::default() };
    let mut sandbox = sandbox_with(&Settings { slice, ..Settings::default() });
    let values: Vec<i32> = (0..95).collect();
    let call = call(INCREMENT, &[ScalarType::I32], &[ScalarType::I32], &[i32s(&values)], 95);
    let mut seen = vec![];
    let all = sandbox.call_in_slices(&call, soon(), |slice| {
        assert_eq!(slice.first, seen.len() as u64);
        seen.extend(read_i32s(&slice.columns[0]));
        std::ops::ControlFlow::Continue(())
    });
    all.expect("the call runs");
    assert_eq!(seen, (1..=95).collect::<Vec<_>>());
    let cut = sandbox.call_in_slices(&call, soon(), |slice| {
        if slice.first == 20 { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) }
    });
    assert!(matches!(cut, Err(SandboxError::Canceled)));
    assert_works(&mut sandbox);
    assert_eq!(sandbox.stats().starts, 1);
}
