//! Operands and attributes that operations refuse.

use super::*;
use crate::Dtype::{Bool, F16, F32, I8, I32, U8, U64};

/// Attributes of a node, by name.
type Named = (&'static str, Attribute);

fn error(op: &str, attributes: &[(&str, Attribute)], operands: &[Dtype]) -> String {
    result_type(op, attributes, operands).expect_err("refused").to_string()
}

#[test]
fn names_are_unique_and_other_operations_are_not_in_the_table() {
    let mut all: Vec<_> = names().collect();
    all.sort_unstable();
    let total = all.len();
    all.dedup();
    assert_eq!(all.len(), total, "names are unique");
    for name in all {
        let node = node(name, 0, &needed_attributes(name));
        let error = function(&node, &[]).expect("in the table").expect_err("no inputs");
        assert_eq!((error.field.as_str(), error.got.as_str()), ("inputs", "0"), "{name}");
    }
    assert!(function(&node("matmul", 2, &[]), &[F32, F32]).is_none());
}

#[test]
fn wrong_numbers_of_inputs_are_refused() {
    let other = ("other", Attribute::Int(1));
    let both = [other.clone(), ("input", Attribute::Int(1))];
    let cases: [(&str, &[Named], &[Dtype], &str); 7] = [
        ("exp", &[], &[F32; 2], "expected 1 input, got 2"),
        ("add", &[], &[F32], "expected 2 inputs, or attributes instead (input, other), got 1"),
        ("add", &[], &[F32; 3], "expected 2 inputs, got 3"),
        ("add", std::slice::from_ref(&other), &[F32; 2], "expected 1 input besides other, got 2"),
        ("add", &both, &[F32], "expected an input instead of one of the attributes input, other, got 1"),
        ("clamp", &[], &[F32; 4], "expected 1 to 3 inputs, got 4"),
        ("where", &[], &[Bool], "expected 3 inputs, or attributes instead (input, other), got 1"),
    ];
    for (op, attributes, operands, expected) in cases {
        assert_eq!(error(op, attributes, operands), format!("node \"n\": inputs: {expected}"));
    }
    let refused = result_type("add", &both, &[]).expect_err("no tensor");
    assert_eq!(refused.field, "inputs");
}

#[test]
fn types_are_refused_by_name() {
    assert_eq!(error("abs", &[], &[Bool]), "node \"n\": inputs: expected integers or floating-point numbers, got bool");
    assert_eq!(error("bitwise_and", &[], &[I8, F16]), "node \"n\": inputs: expected integers or bool, got f16");
    assert_eq!(
        error("add", &[], &[U64, I8]),
        "node \"n\": inputs: expected types that have a common type, got u64, i8"
    );
    assert_eq!(error("where", &[], &[U8, F32, F32]), "node \"n\": inputs[0]: expected bool, got u8");
}

#[test]
fn attributes_are_refused_by_name() {
    let text = |value: &str| Attribute::Text(value.to_owned());
    let cases: [(&str, Named, &str); 12] = [
        ("mul", ("other", Attribute::Int(256)), "attributes.other: expected a value of u8, got the integer 256"),
        ("mul", ("other", Attribute::Int(-1)), "attributes.other: expected a value of u8, got the integer -1"),
        ("mul", ("input", text("1")), "attributes.input: expected a number, got the string \"1\""),
        ("mul", ("other", Attribute::Ints(vec![1])), "attributes.other: expected a number, got 1 integers"),
        ("pow", ("other", Attribute::Int(-1)), "attributes.other: expected a value of u8, got the integer -1"),
        ("exp", ("base", Attribute::Int(2)), "attributes: expected no attribute, got base"),
        ("neg", ("other", Attribute::Int(2)), "attributes: expected no attribute, got other"),
        ("round", ("decimals", Attribute::Int(2)), "attributes.decimals: expected 0, got 2"),
        ("gelu", ("approximate", text("erf")), "attributes.approximate: expected none or tanh, got erf"),
        (
            "to",
            ("dtype", text("f31")),
            "attributes.dtype: expected one of bool, u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64, got f31",
        ),
        (
            "hardtanh",
            ("max_val", Attribute::Float(0.5)),
            "attributes.max_val: expected a value of u8, got the number 0.5",
        ),
        ("threshold", ("threshold", Attribute::Int(1)), "attributes.value: expected a value, got none"),
    ];
    for (op, attribute, expected) in cases {
        assert_eq!(error(op, &[attribute], &[U8]), format!("node \"n\": {expected}"));
    }
    let of_pair = |op, name, value| error(op, &[(name, value)], &[I32, I32]);
    assert!(of_pair("add", "alpha", Attribute::Float(0.5)).contains("attributes.alpha: expected a value of i32"));
    assert!(of_pair("mul", "alpha", Attribute::Int(1)).contains("got alpha"));
    assert!(of_pair("div", "rounding_mode", text("up")).contains("expected none, trunc or floor, got up"));
    assert!(of_pair("floor_divide", "rounding_mode", text("floor")).contains("got rounding_mode"));
    assert!(error("pow", &[("other", Attribute::Int(-1))], &[I32]).contains("expected an integer not below 0"));
    assert_eq!(error("clamp", &[], &[F32]), "node \"n\": attributes.min: expected a bound in min or max, got none");
    assert_eq!(error("to", &[], &[F32]), "node \"n\": attributes.dtype: expected a value, got none");
}

#[test]
fn hostile_attributes_are_errors_or_functions_but_never_panic() {
    let values = [
        Attribute::Bool(true),
        Attribute::Int(i64::MIN),
        Attribute::Int(i64::MAX),
        Attribute::Float(f64::NAN),
        Attribute::Float(f64::INFINITY),
        Attribute::Text(String::new()),
        Attribute::Ints(vec![]),
    ];
    let attributes = ["other", "input", "alpha", "min", "max", "weight", "value", "values", "nan", "beta", "decimals"];
    for (op, name) in names().flat_map(|op| attributes.map(|name| (op, name))) {
        for value in &values {
            for (dtype, inputs) in Dtype::ALL.into_iter().flat_map(|dtype| [0, 1, 2, 3].map(|inputs| (dtype, inputs))) {
                let node = node(op, inputs, &[(name, value.clone())]);
                if let Some(Ok(function)) = function(&node, &vec![dtype; inputs]) {
                    interpret(&function, &vec![Literal::from_i64(dtype, -1); inputs], 0);
                }
            }
        }
    }
}
