//! An entry of the tables of operations that are neither elementwise nor reductions.

use crate::{GraphError, NodeSpec, TensorType, attributes::Attributes, op::Op, signature::Results};

/// The operation of a node and the type of its result.
pub(crate) type Checked = Result<(Op, TensorType), GraphError>;

/// An operation of one result.
pub(crate) struct Operation {
    /// Its names, the preferred one first.
    pub(crate) names: &'static [&'static str],
    pub(crate) results: Results,
    check: Check,
}

/// Checks the operands and attributes of a node.
enum Check {
    Generator(fn(&Attributes<'_>) -> Checked),
    Unary(fn(&Attributes<'_>, &TensorType) -> Checked),
    Any(fn(&NodeSpec, &Attributes<'_>, &[&TensorType]) -> Checked),
}

/// An operation without operands.
pub(crate) const fn generator(
    names: &'static [&'static str],
    results: Results,
    check: fn(&Attributes<'_>) -> Checked,
) -> Operation {
    Operation { names, results, check: Check::Generator(check) }
}

/// An operation of one operand.
pub(crate) const fn unary(
    names: &'static [&'static str],
    results: Results,
    check: fn(&Attributes<'_>, &TensorType) -> Checked,
) -> Operation {
    Operation { names, results, check: Check::Unary(check) }
}

/// An operation of any operands.
pub(crate) const fn any(
    names: &'static [&'static str],
    results: Results,
    check: fn(&NodeSpec, &Attributes<'_>, &[&TensorType]) -> Checked,
) -> Operation {
    Operation { names, results, check: Check::Any(check) }
}

impl Operation {
    pub(crate) fn infer(&self, node: &NodeSpec, operands: &[&TensorType]) -> Checked {
        let attributes = &Attributes::new(node);
        let checked = match self.check {
            Check::Generator(check) => none(node, operands).and_then(|()| check(attributes)),
            Check::Unary(check) => one(node, operands).and_then(|x| check(attributes, x)),
            Check::Any(check) => check(node, attributes, operands),
        }?;
        attributes.finish()?;
        Ok(checked)
    }
}

/// The only operand.
pub(crate) fn one<'a>(node: &NodeSpec, operands: &[&'a TensorType]) -> Result<&'a TensorType, GraphError> {
    match operands {
        [x] => Ok(x),
        _ => Err(GraphError::new(&node.name, "inputs", "1", operands.len())),
    }
}

/// Refuses operands.
fn none(node: &NodeSpec, operands: &[&TensorType]) -> Result<(), GraphError> {
    if operands.is_empty() { Ok(()) } else { Err(GraphError::new(&node.name, "inputs", "0", operands.len())) }
}
