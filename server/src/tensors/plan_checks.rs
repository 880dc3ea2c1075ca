//! Checks of plans, and the errors of graphs by the names of their nodes.

use accelerd_engine::SubmitError;
use accelerd_kernels::OpError;
use accelerd_tensor::{GraphError, GraphSpec, Plan, Step};

use crate::error::ApiError;

/// The most operations on elements of one step, about ten seconds of the slowest kernels on a GPU, which cannot be interrupted. Views
/// make it easy to ask for more: a scalar can be expanded to any shape.
const MAX_STEP_COST: u64 = 1 << 44;

/// Refuses a plan of which one kernel would run for too long.
pub(crate) fn check_steps(plan: &Plan) -> Result<(), ApiError> {
    let max_cost = plan.steps.iter().map(Step::cost).max().unwrap_or_default();
    if max_cost > MAX_STEP_COST {
        let reason = format!("expected at most {MAX_STEP_COST} operations on elements in one kernel, got {max_cost}");
        return Err(ApiError::invalid("nodes", reason));
    }
    Ok(())
}

/// The field of a node's error is named by the node.
pub(crate) fn invalid(error: GraphError) -> ApiError {
    let GraphError { node, field, expected, got } = error;
    let field = if node.is_empty() { field } else { format!("nodes[{node}].{field}") };
    ApiError::invalid(field, format!("expected {expected}, got {got}"))
}

/// An error of an execution, with the names of its graph, which its plan does not have.
pub(crate) fn in_graph(spec: &GraphSpec, error: ApiError) -> ApiError {
    let ApiError::Submit(SubmitError::Op(OpError::IndexOutOfRange { node, input, reason })) = &error else {
        return error;
    };
    let Some(node) = spec.nodes.get(*node) else { return error };
    ApiError::invalid(format!("nodes[{}].inputs[{input}]", node.name), reason)
}
