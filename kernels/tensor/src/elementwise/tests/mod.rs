//! Tests of the elementwise operations, by the interpreter of scalar functions.

mod errors;
mod types;
mod values;

use accelerd_ir::{
    Dtype,
    scalar::{Literal, interpret},
};

use super::{function, names, operations};
use crate::{Attribute, GraphError, NodeSpec};

/// A node of this operation with as many inputs.
fn node(op: &str, inputs: usize, attributes: &[(&str, Attribute)]) -> NodeSpec {
    NodeSpec {
        name: "n".to_owned(),
        op: op.to_owned(),
        inputs: (0..inputs).map(|nth| format!("x{nth}")).collect(),
        attributes: attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
    }
}

/// The type of the result for tensors of these types.
fn result_type(op: &str, attributes: &[(&str, Attribute)], operands: &[Dtype]) -> Result<Dtype, GraphError> {
    let function = function(&node(op, operands.len(), attributes), operands).expect("an elementwise operation")?;
    assert_eq!(function.params(), operands, "{op}");
    assert_eq!(function.results().len(), 1, "{op}");
    Ok(function.dtype(function.results()[0]))
}

/// The result for these elements.
fn evaluate(op: &str, attributes: &[(&str, Attribute)], arguments: &[Literal]) -> Literal {
    let types: Vec<_> = arguments.iter().map(|argument| argument.dtype()).collect();
    let node = node(op, arguments.len(), attributes);
    let function = function(&node, &types).expect("an elementwise operation").expect("a valid node");
    interpret(&function, arguments, 0)[0]
}

/// Attributes that an operation needs besides its operands.
fn needed_attributes(op: &str) -> Vec<(&'static str, Attribute)> {
    match op {
        "to" | "cast" => vec![("dtype", Attribute::Text("f16".to_owned()))],
        "masked_fill" => vec![("value", Attribute::Int(1))],
        "threshold" => vec![("threshold", Attribute::Int(1)), ("value", Attribute::Int(2))],
        _ => vec![],
    }
}
