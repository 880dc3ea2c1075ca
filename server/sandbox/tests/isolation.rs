//! Cases observe new instances, whatever earlier ones did to theirs.

mod common;

use std::time::Duration;

use accelerd_sandbox::{Isolation, Outcome, Param, ScalarType, Settings, Signature, Slice};
use common::*;
use proptest::prelude::*;

/// Parts of a module besides its function: one of each kind that can change.
const PARTS: &str = r#"(memory (export "memory") 2 9) (table $t 4 9 funcref) (func $other) (elem $e func $other)
    (elem (table $t) (i32.const 1) func $other) (data (i32.const 8) "initial contents of memory") (data $d "passive")
    (global $a (mut i32) (i32.const 7)) (global $b (mut i64) (i64.const -1)) (global $c (mut f32) (f32.const 0.5))
    (global $x (mut f64) (f64.const -0.0)) (global $v (mut v128) (v128.const i64x2 1 2))"#;

/// A function `f(x: i32) -> i64` that returns a hash of its instance, and then does something to it.
fn hash_then(effect: &str) -> String {
    format!(
        r#"(module {PARTS}
            (func $mix (param $hash i64) (param $word i64) (result i64)
                (i64.mul (i64.xor (i64.rotl (local.get $hash) (i64.const 5)) (local.get $word)) (i64.const 0x517cc1b727220a95)))
            (func $hash (result i64) (local $hash i64) (local $at i32)
                (local.set $hash (i64.extend_i32_u (i32.add (memory.size) (i32.shl (table.size $t) (i32.const 16)))))
                (loop $next
                    (local.set $hash (call $mix (local.get $hash) (i64.load (local.get $at))))
                    (local.set $at (i32.add (local.get $at) (i32.const 8)))
                    (br_if $next (i32.lt_u (local.get $at) (i32.const 131072))))
                (local.set $at (i32.const 0))
                (loop $next
                    (local.set $hash (call $mix (local.get $hash) (i64.extend_i32_u (ref.is_null (table.get $t (local.get $at))))))
                    (local.set $at (i32.add (local.get $at) (i32.const 1)))
                    (br_if $next (i32.lt_u (local.get $at) (table.size $t))))
                (local.set $hash (call $mix (local.get $hash) (i64.extend_i32_u (global.get $a))))
                (local.set $hash (call $mix (local.get $hash) (global.get $b)))
                (local.set $hash (call $mix (local.get $hash) (i64.extend_i32_u (i32.reinterpret_f32 (global.get $c)))))
                (local.set $hash (call $mix (local.get $hash) (i64.reinterpret_f64 (global.get $x))))
                (call $mix (local.get $hash) (i64x2.extract_lane 1 (global.get $v))))
            (func (export "f") (param $x i32) (result i64) (local $hash i64) (local $i i32)
                (local.set $hash (call $hash))
                {effect}
                (local.get $hash)))"#
    )
}

/// Asserts that all cases return the same hash, or fail if `fails`.
fn assert_isolated(effect: &str, values: &[i32], fails: impl Fn(i32) -> bool) {
    let count = values.len() as u64;
    let mut call = call(&hash_then(effect), &[ScalarType::I32], &[ScalarType::I64], &[i32s(values)], count);
    call.limits.timeout = Duration::from_millis(100);
    let result = run(&mut sandbox(), &call).expect("the call runs");
    let hashes: Vec<_> = result.columns[0].chunks_exact(8).collect();
    let expected = hashes.iter().zip(values).find(|(_, value)| !fails(**value)).map(|(hash, _)| *hash);
    for ((value, outcome), hash) in values.iter().zip(result.outcomes.iter()).zip(&hashes) {
        assert_eq!(outcome != Outcome::Ok, fails(*value), "{effect}: {value} is {outcome:?}");
        if !fails(*value) {
            assert_eq!(Some(*hash), expected, "{effect}: {value} observes what another did");
        }
    }
}

const EFFECTS: [&str; 34] = [
    "(i32.store8 (local.get $x) (i32.const 9))",
    "(i32.store8 offset=131071 (i32.const 0) (local.get $x))",
    "(i32.store16 offset=3 (local.get $x) (i32.const 70000))",
    "(i32.store offset=65533 (local.get $x) (local.get $x))",
    "(i64.store8 (local.get $x) (i64.const 300))",
    "(i64.store16 (local.get $x) (i64.const 300))",
    "(i64.store32 (local.get $x) (i64.const -2))",
    "(i64.store offset=1 (local.get $x) (i64.const -2))",
    "(f32.store (local.get $x) (f32.const nan))",
    "(f64.store (i32.const 8) (f64.const 1e300))",
    "(v128.store offset=5 (local.get $x) (v128.const i64x2 -3 -4))",
    "(v128.store8_lane 0 (local.get $x) (v128.const i64x2 -3 -4))",
    "(v128.store16_lane 1 (local.get $x) (v128.const i64x2 -3 -4))",
    "(v128.store32_lane 2 (local.get $x) (v128.const i64x2 -3 -4))",
    "(v128.store64_lane 1 (local.get $x) (v128.const i64x2 -3 -4))",
    "(memory.fill (local.get $x) (i32.const 77) (i32.const 1003))",
    "(memory.fill (local.get $x) (i32.const 77) (i32.const 131000))",
    "(memory.copy (i32.const 60) (i32.const 8) (i32.const 29))",
    "(memory.init $d (local.get $x) (i32.const 1) (i32.const 6))",
    "(drop (memory.grow (i32.const 1)))",
    "(data.drop $d) (i32.store (i32.const 0) (i32.const 1))",
    "(elem.drop $e)",
    "(table.set $t (local.get $x) (ref.func $other))",
    "(drop (table.grow $t (ref.null func) (i32.const 1)))",
    "(table.fill $t (i32.const 0) (ref.func $other) (i32.const 4))",
    "(table.copy $t $t (i32.const 0) (i32.const 1) (i32.const 1))",
    "(table.init $t $e (i32.const 0) (i32.const 0) (i32.const 1))",
    "(global.set $a (local.get $x))",
    "(global.set $b (i64.const 3)) (global.set $b (i64.const 4))",
    "(global.set $c (f32.const nan:0x200001))",
    "(global.set $x (f64.const 0))",
    "(global.set $v (v128.const i64x2 5 6))",
    // The same place several times, and places that overlap.
    "(i32.store (i32.const 8) (i32.const 1)) (i32.store (i32.const 8) (i32.const 2)) (i64.store (i32.const 5) (i64.const 3))",
    // More stores than a log has entries.
    "(loop $next (i32.store (i32.mul (local.get $i) (i32.const 4)) (local.get $i))
        (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if $next (i32.lt_u (local.get $i) (i32.const 9000))))",
];

#[test]
fn no_effect_of_a_case_is_seen_by_the_next_one() {
    for effect in EFFECTS {
        assert_isolated(effect, &[0, 1, 2, 3, 0, 1], |_| false);
    }
}

#[test]
fn many_cases_that_no_log_holds_are_isolated_as_well() {
    let text = r#"(module (memory 1 9) (func (export "f") (param $x i32) (result i32)
        (if (i32.rem_u (local.get $x) (i32.const 7)) (then (drop (memory.grow (i32.const 1)))))
        (i32.store8 (local.get $x) (i32.const 1))
        (i32.add (memory.size) (i32.load8_u (i32.const 5)))))"#;
    let slice = Slice { cases: 50, ..Slice::default() };
    let mut sandbox = sandbox_with(&Settings { slice, ..Settings::default() });
    let values: Vec<i32> = (0..700).collect();
    let call = call(text, &[ScalarType::I32], &[ScalarType::I32], &[i32s(&values)], 700);
    let result = run(&mut sandbox, &call).expect("the call runs");
    let expected: Vec<_> = values.iter().map(|x| 1 + i32::from(x % 7 != 0) + i32::from(*x == 5)).collect();
    assert_eq!(read_i32s(&result.columns[0]), expected);
}

#[test]
fn effects_of_cases_that_fail_are_not_seen() {
    let is_odd = |value| value % 2 == 1;
    for effect in EFFECTS {
        for failure in [
            "(unreachable)",
            "(i32.store (i32.const -1) (i32.const 1))",
            "(memory.fill (i32.const -8) (i32.const 1) (i32.const 7))",
        ] {
            let failing = format!("{effect} (if (i32.and (local.get $x) (i32.const 1)) (then {failure}))");
            assert_isolated(&failing, &[1, 0, 3, 1, 2], is_odd);
        }
    }
    let endless =
        "(loop $next (i32.store (i32.const 64) (local.get $x)) (br_if $next (i32.and (local.get $x) (i32.const 1))))";
    assert_isolated(endless, &[1, 0, 3, 2], is_odd);
}

#[test]
fn a_store_out_of_bounds_traps_as_without_a_log() {
    // The last byte, one beyond, a wrapped address, and bytes of which only the first is inside.
    for (store, offset, is_inside) in [
        ("i32.store8", 131_071, true),
        ("i32.store8", 131_072, false),
        ("i32.store", 131_068, true),
        ("i32.store", 131_069, false),
        ("i64.store", 131_064, true),
        ("i64.store", 131_065, false),
    ] {
        let value = if store.starts_with("i64") { "(i64.const 5)" } else { "(i32.const 5)" };
        assert_isolated(&format!("({store} offset={offset} (local.get $x) {value})"), &[0, 0], |_| !is_inside);
    }
    assert_isolated("(i32.store offset=16 (i32.const -8) (i32.const 5))", &[0, 0], |_| true);
    assert_isolated("(v128.store offset=131056 (local.get $x) (v128.const i64x2 1 2))", &[0, 1, 0], |value| value == 1);
}

#[test]
fn memory_that_a_case_has_grown_is_new_to_the_next_one() {
    // Results: that of `memory.grow`, the size after it, and a word of the new page before it is written.
    let text = r#"(module (memory 1 9) (func (export "f") (param $pages i32) (result i32) (local $before i32) (local $word i32)
        (local.set $before (memory.grow (local.get $pages)))
        (if (i32.ge_s (local.get $before) (i32.const 0))
            (then
                (local.set $word (i32.load (i32.sub (i32.shl (memory.size) (i32.const 16)) (i32.const 8))))
                (i32.store (i32.sub (i32.shl (memory.size) (i32.const 16)) (i32.const 8)) (i32.const 77))))
        (i32.add (i32.add (i32.mul (local.get $before) (i32.const 100)) (memory.size)) (i32.mul (local.get $word) (i32.const 1000)))))"#;
    let pages = [2, 1, 0, 8, 9, -1, 65536, 3, 8, 1];
    let call = call(text, &[ScalarType::I32], &[ScalarType::I32], &[i32s(&pages)], pages.len() as u64);
    let mut sandbox = sandbox();
    let result = run(&mut sandbox, &call).expect("the call runs");
    let expected = pages.map(|pages| if (0..9).contains(&pages) { 100 + 1 + pages } else { -100 + 1 });
    assert_eq!(read_i32s(&result.columns[0]), expected);
}

#[test]
fn accesses_beyond_the_memory_that_a_case_has_grown_trap() {
    let grown = |access: &str| {
        format!(
            "(if (i32.eqz (local.get $x)) (then (drop (memory.grow (i32.const 1))))) {}",
            access.replace("AT", "(i32.const 131072)")
        )
    };
    for access in [
        "(drop (i32.load8_u AT))",
        "(drop (i32.load offset=131072 (i32.const 0)))",
        "(drop (i64.load offset=131065 (i32.const 0)))",
        "(drop (f64.load AT))",
        "(drop (i64.load32_s offset=131069 (i32.const 0)))",
        "(drop (v128.load offset=131057 (i32.const 0)))",
        "(drop (v128.load8x8_s AT))",
        "(drop (v128.load64_zero AT))",
        "(drop (v128.load16_splat AT))",
        "(drop (v128.load32_lane 1 AT (v128.const i64x2 1 2)))",
        "(i32.store8 AT (i32.const 1))",
        "(i64.store offset=131065 (i32.const 0) (i64.const 1))",
        "(v128.store16_lane 1 AT (v128.const i64x2 1 2))",
        "(memory.fill AT (i32.const 1) (i32.const 1))",
        "(memory.fill (i32.const 131073) (i32.const 1) (i32.const 0))",
        "(memory.copy (i32.const 0) AT (i32.const 1))",
        "(memory.copy AT (i32.const 0) (i32.const 1))",
        "(memory.init $d AT (i32.const 0) (i32.const 1))",
    ] {
        // The first case has the page; the others must not.
        assert_isolated(&grown(access), &[0, 1, 0, 2, 3, 0], |value| value != 0);
    }
    for access in ["(drop (i32.load8_u (i32.const 131071)))", "(memory.fill AT (i32.const 1) (i32.const 0))"] {
        assert_isolated(&grown(access), &[0, 1, 0, 2], |_| false);
    }
}

#[test]
fn functions_that_allocate_are_isolated() {
    let text = r#"(module (memory 1) (func (export "f") (param $x i32) (result i32) (local $at i32)
        (local.set $at (i32.shl (memory.grow (i32.const 1)) (i32.const 16)))
        (i32.store (local.get $at) (i32.add (local.get $x) (i32.load (local.get $at))))
        (i32.load (local.get $at))))"#;
    let values: Vec<i32> = (0..1000).collect();
    let call = call(text, &[ScalarType::I32], &[ScalarType::I32], &[i32s(&values)], 1000);
    let mut sandbox = sandbox();
    let result = run(&mut sandbox, &call).expect("the call runs");
    assert_eq!(read_i32s(&result.columns[0]), values);
}

#[test]
fn buffers_are_within_the_memory_of_a_module_that_grows_it() {
    // The second function changes nothing.
    let text = r#"(module (memory (export "memory") 1) (func (export "f") (param $x i32) (param i32) (result i32)
        (drop (memory.grow (i32.const 1)))
        (i32.add (i32.load (local.get $x)) (memory.size)))
        (func (export "g") (param $x i32) (param i32) (result i32) (i32.add (i32.load (local.get $x)) (memory.size))))"#;
    for (function, expected) in [("f", [13, 23, 33]), ("g", [12, 22, 32])] {
        let signature = Signature { params: vec![Param::Input(ScalarType::I32, 1)], results: vec![ScalarType::I32] };
        let mut call = accelerd_sandbox::Call::new(module(text), function, signature, 3);
        call.columns = vec![i32s(&[10, 20, 30])];
        let result = run(&mut sandbox(), &call).expect("the call runs");
        assert!(result.outcomes.iter().all(|outcome| outcome == Outcome::Ok), "{:?}", result.outcomes);
        assert_eq!(read_i32s(&result.columns[0]), expected);
    }
}

#[test]
fn a_start_function_and_an_allocator_belong_to_each_instance() {
    let text = r#"(module (memory (export "memory") 1) (global $top (mut i32) (i32.const 1024)) (global $cases (mut i32) (i32.const 0))
        (func $start (i32.store (i32.const 0) (i32.const 40)) (global.set $cases (i32.const 2)) (drop (memory.grow (i32.const 1))))
        (start $start)
        (func (export "alloc") (param $size i32) (result i32) (global.get $top)
            (global.set $top (i32.add (global.get $top) (local.get $size))))
        (func (export "f") (param $x i32) (param i32) (param $y i32) (param i32) (result i32)
            (i32.store (local.get $y) (i32.add (i32.load (local.get $x)) (i32.load offset=4 (local.get $y))))
            (i32.store offset=4 (local.get $y) (i32.const 9))
            (global.set $cases (i32.add (global.get $cases) (i32.const 1)))
            (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1)))
            (i32.add (i32.add (i32.load (i32.const 0)) (global.get $cases)) (i32.add (memory.size) (global.get $top)))))"#;
    let params = vec![Param::Input(ScalarType::I32, 1), Param::Output(ScalarType::I32, 2)];
    let signature = Signature { params, results: vec![ScalarType::I32] };
    let mut call = accelerd_sandbox::Call::new(module(text), "f", signature, 3);
    call.columns = vec![i32s(&[1, 2, 3])];
    let result = run(&mut sandbox(), &call).expect("the call runs");
    assert_eq!(read_i32s(&result.columns[0]), [1, 9, 2, 9, 3, 9], "buffers of results are zero before each case");
    assert_eq!(read_i32s(&result.columns[1]), [41 + 3 + 2 + 1036; 3]);
}

#[test]
fn a_client_cannot_use_what_is_added() {
    let mut sandbox = sandbox();
    let store = "(global $g (mut i32) (i32.const 0)) (memory 1)";
    for text in [
        // The memory of the log, its place, its functions: all refer to nothing.
        format!(r#"(module {store} (func (export "f") (i32.store 1 (i32.const 0) (i32.const 1))))"#),
        format!(r#"(module {store} (func (export "f") (global.set 1 (i32.const 1))))"#),
        format!(
            r#"(module {store} (func (export "f") (i32.store (i32.const 0) (i32.const 1)) (call 1 (i32.const 0))))"#
        ),
        r#"(module (memory 1) (memory 1) (func (export "f") (i32.store (i32.const 0) (i32.const 1))))"#.to_owned(),
    ] {
        let error = run(&mut sandbox, &call_plain(&text, 1)).expect_err("an invalid module");
        assert!(error.to_string().contains("invalid"), "{error}");
    }
    // Exports of these names are those of the client.
    let text = r#"(module (global $g (mut i32) (i32.const 0)) (func (export "accelerd.undo") (result i32) (i32.const 0)) (func (export "accelerd.commit"))
        (func (export "f") (result i32) (global.set $g (i32.add (global.get $g) (i32.const 1))) (global.get $g)))"#;
    let result = run(&mut sandbox, &call(text, &[], &[ScalarType::I32], &[], 3)).expect("the call runs");
    assert_eq!(read_i32s(&result.columns[0]), [1, 1, 1]);
}

#[test]
fn functions_that_write_and_others_are_called_in_turn() {
    let text = r#"(module (global $g (mut i32) (i32.const 0))
        (func (export "f") (param $x i32) (result i32)
            (global.set $g (i32.add (global.get $g) (local.get $x))) (global.get $g))
        (func (export "g") (param $x i32) (result i32) (i32.add (global.get $g) (local.get $x))))"#;
    let mut sandbox = sandbox();
    let mut call = call(text, &[ScalarType::I32], &[ScalarType::I32], &[i32s(&[1, 2, 3])], 3);
    for function in ["g", "f", "g", "f"] {
        call.function = function.to_owned();
        let result = run(&mut sandbox, &call).expect("the call runs");
        assert_eq!(read_i32s(&result.columns[0]), [1, 2, 3], "{function}");
    }
    assert_eq!(sandbox.stats().loads, 1, "one code serves both");
}

#[test]
fn a_function_with_as_many_variables_as_are_allowed_is_isolated() {
    let locals = "i32 ".repeat(49_999);
    let text = format!(
        r#"(module (memory 1) (func (export "f") (param $x i32) (result i32) (local {locals})
            (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (local.get $x))) (i32.load (i32.const 0))))"#
    );
    let call = call(&text, &[ScalarType::I32], &[ScalarType::I32], &[i32s(&[1, 2, 3])], 3);
    let result = run(&mut sandbox(), &call).expect("the call runs");
    assert_eq!(read_i32s(&result.columns[0]), [1, 2, 3]);
}

#[test]
fn a_global_of_references_belongs_to_each_instance() {
    let text = r#"(module (global $g (mut funcref) (ref.null func)) (func $other) (elem declare func $other)
        (func (export "f") (result i32) (ref.is_null (global.get $g)) (global.set $g (ref.func $other))))"#;
    let result = run(&mut sandbox(), &call(text, &[], &[ScalarType::I32], &[], 3)).expect("the call runs");
    assert_eq!(read_i32s(&result.columns[0]), [1, 1, 1]);
}

#[test]
fn cases_that_share_an_instance_see_each_other() {
    let text = r#"(module (memory 1) (func (export "f") (result i32)
        (i32.store (i32.const 0) (i32.add (i32.load (i32.const 0)) (i32.const 1))) (i32.load (i32.const 0))))"#;
    let mut sandbox = sandbox();
    let mut call = call(text, &[], &[ScalarType::I32], &[], 3);
    for (isolation, expected) in
        [(Isolation::Fresh, [1, 1, 1]), (Isolation::Reused, [1, 2, 3]), (Isolation::Fresh, [1, 1, 1])]
    {
        call.isolation = isolation;
        let result = run(&mut sandbox, &call).expect("the call runs");
        assert_eq!(read_i32s(&result.columns[0]), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]

    #[test]
    fn any_stores_are_undone(stores in prop::collection::vec((0..EFFECTS.len(), 0..3), 1..12)) {
        // Segments are used once only.
        let effects = stores.iter().map(|(nth, at)| (EFFECTS[*nth], at)).filter(|(effect, _)| !effect.contains("drop $"));
        let effect: String = effects.map(|(effect, at)| effect.replace("(local.get $x)", &format!("(i32.const {at})"))).collect();
        assert_isolated(&effect, &[0, 1, 2], |_| false);
    }
}
