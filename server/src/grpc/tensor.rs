//! `TensorService`: graphs of tensor operations.

use std::sync::Arc;

use accelerd_engine::Lane;
use accelerd_kernels::ops::tensor::{Execute, ExecuteRequest};
use accelerd_proto::v1::{
    self as pb, tensor_attribute::Value, tensor_input::Source, tensor_service_server::TensorService,
};
use accelerd_tensor::{Attribute, Dtype, Graph, GraphError, GraphSpec, NodeSpec, Plan, Step, TensorType};
use bytes::Bytes;
use prost::Message;
use tonic::{Request, Response, Status};

use crate::{
    app::App,
    error::ApiError,
    grpc::{context::context, convert::tensor_of},
    layers::timing,
    status::response_too_large,
};

/// The most operations on elements of one step, about ten seconds of the slowest kernels on a GPU, which cannot be interrupted. Views
/// make it easy to ask for more: a scalar can be expanded to any shape.
const MAX_STEP_COST: u64 = 1 << 44;

/// The service.
#[derive(Debug)]
pub(super) struct Tensors {
    lane: Lane<Execute>,
    max_nodes: usize,
    max_message: usize,
}

impl Tensors {
    pub(super) fn new(app: &Arc<App>) -> Self {
        let config = &app.config;
        Self {
            lane: app.engine.lane(config.lanes.lane(&config.lanes.tensor)),
            max_nodes: config.limits.max_graph_nodes,
            max_message: config.server.max_message(),
        }
    }

    /// The plan of a graph, and the data of its inputs.
    fn plan(&self, request: pb::ExecuteRequest) -> Result<(Plan, Vec<Bytes>), ApiError> {
        let pb::ExecuteRequest { inputs, nodes, outputs } = request;
        let count = inputs.len().saturating_add(nodes.len()).saturating_add(outputs.len());
        if count > self.max_nodes {
            let reason = format!("expected at most {} nodes, inputs and outputs, got {count}", self.max_nodes);
            return Err(ApiError::invalid("nodes", reason));
        }
        let mut spec = GraphSpec::default();
        let mut data = vec![];
        for (nth, input) in inputs.into_iter().enumerate() {
            let (of, bytes) = tensor(nth, input.source)?;
            spec.inputs.push((input.name, of));
            data.push(bytes);
        }
        spec.nodes = nodes.into_iter().map(node).collect::<Result<_, _>>()?;
        spec.outputs = outputs.into_iter().map(|output| output.name).collect();
        let plan = Plan::new(&Graph::new(&spec).map_err(invalid)?);
        let most = plan.steps.iter().map(Step::cost).max().unwrap_or_default();
        if most > MAX_STEP_COST {
            let reason = format!("expected at most {MAX_STEP_COST} operations on elements in one kernel, got {most}");
            return Err(ApiError::invalid("nodes", reason));
        }
        Ok((plan, data))
    }
}

#[tonic::async_trait]
impl TensorService for Tensors {
    async fn execute(&self, request: Request<pb::ExecuteRequest>) -> Result<Response<pb::ExecuteResponse>, Status> {
        let context = context(&request);
        let (plan, inputs) = self.plan(request.into_inner())?;
        let plan = Arc::new(plan);
        let bytes = response_bytes(&plan);
        if bytes > self.max_message {
            return Err(response_too_large(bytes, self.max_message));
        }
        let request = ExecuteRequest::new(Arc::clone(&plan), inputs);
        let done = self.lane.submit(request, context).await.map_err(ApiError::from)?;
        timing::record(&done);
        let outputs = plan.outputs.iter().zip(done.response);
        let outputs = outputs.map(|(of, data)| tensor_of(dtype_to_proto(of.dtype), &of.shape, data)).collect();
        Ok(Response::new(pb::ExecuteResponse { outputs }))
    }
}

/// The size of the response.
fn response_bytes(plan: &Plan) -> usize {
    let empty = plan.outputs.iter().map(|of| tensor_of(dtype_to_proto(of.dtype), &of.shape, Bytes::new()));
    let headers = pb::ExecuteResponse { outputs: empty.collect() }.encoded_len();
    // Two lengths, of the data and of the tensor around it, grow to at most ten bytes each.
    plan.outputs.iter().fold(headers, |bytes, of| bytes.saturating_add(of.bytes()).saturating_add(20))
}

/// Type and data of an input.
fn tensor(nth: usize, source: Option<Source>) -> Result<(TensorType, Bytes), ApiError> {
    let field = |name: &str| format!("inputs[{nth}].{name}");
    let Some(Source::Value(tensor)) = source else {
        return Err(ApiError::invalid(field("value"), "expected a tensor, got none"));
    };
    let dtype = pb::Dtype::try_from(tensor.dtype).ok().and_then(dtype_from_proto);
    let dtype = dtype.ok_or_else(|| {
        ApiError::invalid(
            field("value.dtype"),
            format!("expected a Dtype other than UNSPECIFIED, got {}", tensor.dtype),
        )
    })?;
    let extents: Result<Vec<_>, _> = tensor.shape.iter().map(|extent| usize::try_from(*extent)).collect();
    let shape = extents.map_err(|_| {
        let reason = format!("expected extents of at least 0, got {:?}", tensor.shape);
        ApiError::invalid(field("value.shape"), reason)
    })?;
    let of = TensorType { dtype, shape };
    if of.bytes() != tensor.data.len() {
        let reason =
            format!("expected {} bytes for {dtype} of shape {:?}, got {}", of.bytes(), of.shape, tensor.data.len());
        return Err(ApiError::invalid(field("value.data"), reason));
    }
    Ok((of, tensor.data))
}

fn node(node: pb::TensorNode) -> Result<NodeSpec, ApiError> {
    let pb::TensorNode { name, op, inputs, attributes } = node;
    let attributes = attributes.into_iter().map(|(key, attribute)| {
        let value = match attribute.value {
            Some(Value::Boolean(value)) => Attribute::Bool(value),
            Some(Value::Integer(value)) => Attribute::Int(value),
            Some(Value::Number(value)) => Attribute::Float(value),
            Some(Value::Text(value)) => Attribute::Text(value),
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
fn invalid(error: GraphError) -> ApiError {
    let GraphError { node, field, expected, got } = error;
    ApiError::invalid(format!("nodes[{node}].{field}"), format!("expected {expected}, got {got}"))
}

fn dtype_from_proto(dtype: pb::Dtype) -> Option<Dtype> {
    Some(match dtype {
        pb::Dtype::Unspecified => return None,
        pb::Dtype::F16 => Dtype::F16,
        pb::Dtype::Bf16 => Dtype::Bf16,
        pb::Dtype::F32 => Dtype::F32,
        pb::Dtype::F64 => Dtype::F64,
        pb::Dtype::I8 => Dtype::I8,
        pb::Dtype::I32 => Dtype::I32,
        pb::Dtype::I64 => Dtype::I64,
        pb::Dtype::U8 => Dtype::U8,
        pb::Dtype::I16 => Dtype::I16,
        pb::Dtype::U16 => Dtype::U16,
        pb::Dtype::U32 => Dtype::U32,
        pb::Dtype::U64 => Dtype::U64,
        pb::Dtype::Bool => Dtype::Bool,
    })
}

fn dtype_to_proto(dtype: Dtype) -> pb::Dtype {
    match dtype {
        Dtype::Bool => pb::Dtype::Bool,
        Dtype::U8 => pb::Dtype::U8,
        Dtype::I8 => pb::Dtype::I8,
        Dtype::U16 => pb::Dtype::U16,
        Dtype::I16 => pb::Dtype::I16,
        Dtype::U32 => pb::Dtype::U32,
        Dtype::I32 => pb::Dtype::I32,
        Dtype::U64 => pb::Dtype::U64,
        Dtype::I64 => pb::Dtype::I64,
        Dtype::F16 => pb::Dtype::F16,
        Dtype::Bf16 => pb::Dtype::Bf16,
        Dtype::F32 => pb::Dtype::F32,
        Dtype::F64 => pb::Dtype::F64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn element_types_have_equal_counterparts() {
        for dtype in Dtype::ALL {
            assert_eq!(dtype_from_proto(dtype_to_proto(dtype)), Some(dtype));
        }
        assert_eq!(dtype_from_proto(pb::Dtype::Unspecified), None);
    }
}
