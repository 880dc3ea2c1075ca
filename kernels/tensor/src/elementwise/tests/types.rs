//! Types that operations take and give.

use accelerd_ir::scalar::Inst;

use super::{super::operands::Slot, *};
use crate::Dtype::{Bf16, Bool, F16, F32, F64, I8, I16, I64, U8};

/// Operations that keep the type of numbers and refuse bool.
const NUMBERS: &str = "abs add-alpha addcmul ceil clamp floor floor_divide fmod hardtanh neg positive pow relu relu6 remainder \
                       round square sub threshold trunc";
/// Operations that keep every type.
const ANY: &str = "add fmax fmin heaviside masked_fill maximum minimum mul nan_to_num sign where";
/// Operations that keep the type of integers and bool.
const BITS: &str = "bitwise_and bitwise_not bitwise_or bitwise_xor";
/// Operations that keep the type of integers.
const INTEGERS: &str = "bitwise_left_shift bitwise_right_shift";
/// Operations whose result is bool.
const TRUTHS: &str = "eq ge gt isfinite isinf isnan le lt ne signbit";
/// Operations whose result is bool, and which need no common type.
const LOGIC: &str = "logical_and logical_not logical_or logical_xor";

fn has(list: &str, op: &str) -> bool {
    list.split_whitespace().any(|one| one == op)
}

/// The type of the result for operands of this common type; `None` if it is refused.
fn expected(op: &str, common: Dtype) -> Option<Dtype> {
    match op {
        "to" => Some(F16),
        _ if has(ANY, op) => Some(common),
        _ if has(NUMBERS, op) => (common != Bool).then_some(common),
        _ if has(BITS, op) => (!common.is_float()).then_some(common),
        _ if has(INTEGERS, op) => common.is_integer().then_some(common),
        _ if has(TRUTHS, op) || has(LOGIC, op) => Some(Bool),
        _ => Some(if common.is_float() { common } else { F32 }),
    }
}

/// All choices of types for some operands.
fn choices(operands: usize) -> Vec<Vec<Dtype>> {
    (0..operands).fold(vec![vec![]], |shorter, _| {
        shorter.iter().flat_map(|types| Dtype::ALL.map(|dtype| [&types[..], &[dtype]].concat())).collect()
    })
}

/// The common type by pairs, those of higher kinds first, for the order matters to `promote` only where kinds differ.
fn common(types: &[Dtype]) -> Option<Dtype> {
    let mut sorted = types.to_vec();
    sorted.sort_by_key(|dtype| std::cmp::Reverse(dtype.kind()));
    sorted[1..].iter().try_fold(sorted[0], |common, dtype| common.promote(*dtype).ok())
}

#[test]
fn every_operation_gives_the_type_of_its_rule_or_an_error_for_all_types() {
    for operation in operations() {
        let op = operation.name;
        let condition = operation.slots.iter().position(|slot| *slot == Slot::Condition);
        for types in choices(operation.slots.len()) {
            let mut promoted = types.clone();
            let is_refused = condition.is_some_and(|at| promoted.remove(at) != Bool);
            let common = if has(LOGIC, op) { Some(Bool) } else { common(&promoted) };
            let expected = common.filter(|_| !is_refused).and_then(|common| expected(op, common));
            let got = result_type(op, &needed_attributes(op), &types);
            assert_eq!(got.as_ref().ok(), expected.as_ref(), "{op} of {types:?}: {got:?}");
            if let Err(error) = got {
                assert!(error.field.starts_with("inputs"), "{error}");
            }
        }
    }
}

#[test]
fn storage_types_are_only_loaded_stored_and_cast() {
    for operation in operations() {
        for dtype in [F16, Bf16] {
            let op = operation.name;
            let mut types = vec![dtype; operation.slots.len()];
            if let Some(condition) = operation.slots.iter().position(|slot| *slot == Slot::Condition) {
                types[condition] = Bool;
            }
            let Ok(function) = function(&node(op, types.len(), &needed_attributes(op)), &types).expect("in the table")
            else {
                continue;
            };
            for value in function.values().iter().filter(|value| value.dtype.compute() != value.dtype) {
                assert!(matches!(value.inst, Inst::Param(_) | Inst::Cast(_)), "{op}: {value:?}");
            }
        }
    }
}

#[test]
fn scalars_are_weakly_typed() {
    use Attribute::{Bool as OfBool, Float, Int};
    let cases = [
        (U8, Int(2), U8),
        (U8, Float(2.0), F32),
        (U8, OfBool(true), U8),
        (Bool, OfBool(true), Bool),
        (Bool, Int(2), I64),
        (Bool, Float(2.0), F32),
        (Bf16, Int(2), Bf16),
        (F16, Float(1e6), F16),
        (F64, Float(0.1), F64),
    ];
    for (tensor, scalar, expected) in cases {
        for name in ["input", "other"] {
            assert_eq!(result_type("mul", &[(name, scalar.clone())], &[tensor]), Ok(expected), "{tensor} * {scalar:?}");
        }
    }
}

#[test]
fn branches_of_where_may_be_scalars() {
    let branches = |input, other| [("input", input), ("other", other)];
    let of = |input, other| result_type("where", &branches(input, other), &[Bool]);
    assert_eq!(of(Attribute::Bool(true), Attribute::Bool(false)), Ok(Bool));
    assert_eq!(of(Attribute::Int(1), Attribute::Bool(false)), Ok(I64));
    assert_eq!(of(Attribute::Int(1), Attribute::Float(0.5)), Ok(F32));
    assert_eq!(result_type("where", &[("input", Attribute::Int(1))], &[Bool, F16]), Ok(F16));
}

#[test]
fn the_rounding_mode_decides_the_type_of_a_quotient() {
    let of = |mode: &str| result_type("div", &[("rounding_mode", Attribute::Text(mode.to_owned()))], &[I16, I8]);
    assert_eq!(result_type("div", &[], &[I16, I8]), Ok(F32));
    assert_eq!(of("none"), Ok(F32));
    assert_eq!(of("trunc"), Ok(I16));
    assert_eq!(of("floor"), Ok(I16));
}

#[test]
fn a_cast_gives_any_type_from_any_type() {
    for from in Dtype::ALL {
        for to in Dtype::ALL {
            let attributes = [("dtype", Attribute::Text(to.name().to_owned()))];
            assert_eq!(result_type("to", &attributes, &[from]), Ok(to));
            let one = evaluate("cast", &attributes, &[Literal::from_i64(from, 1)]);
            assert_eq!(one, Literal::from_i64(to, 1), "{from} to {to}");
        }
    }
}
