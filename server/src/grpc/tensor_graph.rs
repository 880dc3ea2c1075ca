//! Graphs of tensor operations as messages: nodes, errors, and the bound on one kernel.

use accelerd_engine::SubmitError;
use accelerd_kernels::OpError;
use accelerd_proto::v1::{self as pb, tensor_attribute::Value};
use accelerd_tensor::{Attribute, GraphError, GraphSpec, NodeSpec, Plan, Step};

use crate::error::ApiError;

/// The most operations on elements of one step, about ten seconds of the slowest kernels on a GPU, which cannot be interrupted. Views
/// make it easy to ask for more: a scalar can be expanded to any shape.
const MAX_STEP_COST: u64 = 1 << 44;

/// The most integers of an attribute. They are extents or dimensions, of which a tensor has at most [`MAX_RANK`](accelerd_tensor::MAX_RANK).
const MAX_INTEGERS: usize = 64;

/// Refuses a plan of which one kernel would run for too long.
pub(super) fn check_steps(plan: &Plan) -> Result<(), ApiError> {
    let most = plan.steps.iter().map(Step::cost).max().unwrap_or_default();
    if most > MAX_STEP_COST {
        let reason = format!("expected at most {MAX_STEP_COST} operations on elements in one kernel, got {most}");
        return Err(ApiError::invalid("nodes", reason));
    }
    Ok(())
}

pub(super) fn node(node: pb::TensorNode) -> Result<NodeSpec, ApiError> {
    let pb::TensorNode { name, op, inputs, attributes } = node;
    let attributes = attributes.into_iter().map(|(key, attribute)| {
        let value = match attribute.value {
            Some(Value::Boolean(value)) => Attribute::Bool(value),
            Some(Value::Integer(value)) => Attribute::Int(value),
            Some(Value::Number(value)) => Attribute::Float(value),
            Some(Value::Text(value)) => Attribute::Text(value),
            Some(Value::Integers(values)) if values.values.len() > MAX_INTEGERS => {
                let reason = format!("expected at most {MAX_INTEGERS} integers, got {}", values.values.len());
                return Err(ApiError::invalid(format!("nodes[{name}].attributes.{key}"), reason));
            }
            Some(Value::Integers(values)) => Attribute::Ints(values.values),
            None => {
                let field = format!("nodes[{name}].attributes.{key}");
                return Err(ApiError::invalid(field, "expected a value, got none"));
            }
        };
        Ok((key, value))
    });
    let attributes = attributes.collect::<Result<_, _>>()?;
    Ok(NodeSpec { name, op, inputs, attributes })
}

/// The field of a graph's error is named by its node.
pub(super) fn invalid(error: GraphError) -> ApiError {
    let GraphError { node, field, expected, got } = error;
    ApiError::invalid(format!("nodes[{node}].{field}"), format!("expected {expected}, got {got}"))
}

/// An error of an execution, with the names of its graph, which its plan does not have.
pub(super) fn in_graph(spec: &GraphSpec, error: ApiError) -> ApiError {
    let ApiError::Submit(SubmitError::Op(OpError::IndexOutOfRange { node, input, reason })) = &error else {
        return error;
    };
    let Some(node) = spec.nodes.get(*node) else { return error };
    ApiError::invalid(format!("nodes[{}].inputs[{input}]", node.name), reason)
}
