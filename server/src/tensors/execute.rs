//! Executes graphs: on the device that the caller names, on the one that holds the inputs, or on several.

use std::sync::Arc;

use accelerd_engine::Context;
use accelerd_kernels::DeviceId;
use accelerd_tensor::{GraphSpec, NodeSpec, TensorType};

use super::{
    data_parallel::{self, DataParallel},
    graph_executor::{Execution, GraphExecutor, GraphOutputs, GraphRequest},
    placement::device_of_most,
    plan_checks::in_graph,
    resident_tensors::named,
    source::TensorSource,
    table::Listed,
};
use crate::{
    auth::{caller::Caller, role::Role},
    error::{ApiError, RequestedTime},
};

/// A graph to execute.
#[derive(Debug)]
pub(crate) struct GraphCall {
    pub(crate) inputs: Vec<(String, TensorSource)>,
    pub(crate) nodes: Vec<NodeSpec>,
    pub(crate) outputs: Vec<GraphOutput>,
    /// Of the outputs that are kept.
    pub(crate) ttl: RequestedTime,
    pub(crate) placement: Placement,
    /// The bytes of a response with outputs of these types, of which some are kept.
    pub(crate) response_bytes: fn(&[TensorType], &[bool]) -> usize,
}

/// A value to return, or to keep on the device.
#[derive(Debug)]
pub(crate) struct GraphOutput {
    pub(crate) name: String,
    pub(crate) keep: bool,
}

/// Where a graph runs.
#[derive(Debug)]
pub(crate) enum Placement {
    /// On the device of this name. If that is empty, the inputs and outputs decide.
    Device(String),
    /// On several devices.
    DataParallel(DataParallel),
}

/// Executes a graph. The handles of outputs that are kept are recorded as a change of their caller.
pub(crate) async fn execute(
    executor: &GraphExecutor,
    caller: &Caller,
    mut context: Context,
    call: GraphCall,
) -> Result<GraphOutputs, ApiError> {
    let (request, placement) = request(executor, caller, call)?;
    let outputs = match placement {
        Placement::Device(name) => {
            context.no_cpu_fallback = !name.is_empty();
            execute_on_one(executor, caller, context, request, &name).await?
        }
        Placement::DataParallel(options) => {
            context.no_cpu_fallback = true;
            data_parallel::execute(executor, caller, context, request, &options).await?
        }
    };
    if !outputs.kept.is_empty() {
        let handles: Vec<_> = outputs.kept.iter().map(|listed| listed.handle.as_str()).collect();
        caller.record_change(&named(&handles));
    }
    Ok(outputs)
}

/// Finds the inputs of a graph, and where it runs.
fn request(executor: &GraphExecutor, caller: &Caller, call: GraphCall) -> Result<(GraphRequest, Placement), ApiError> {
    let GraphCall { inputs, nodes, outputs, ttl, placement, response_bytes } = call;
    let keep: Vec<_> = outputs.iter().map(|output| output.keep).collect();
    if keep.contains(&true) {
        caller.check_role(Role::Write)?;
    }
    let ttl = executor.resident().ttl("keep_ttl", ttl)?;
    let outputs = outputs.into_iter().map(|output| output.name).collect();
    let mut spec = GraphSpec { inputs: vec![], nodes, outputs };
    let (mut data, mut resident) = (vec![], vec![]);
    for (nth, (name, source)) in inputs.into_iter().enumerate() {
        let (of, tensor, listed) = executor.resident().input(caller, source)?;
        resident.extend(listed.map(|listed| (nth, listed)));
        spec.inputs.push((name, of));
        data.push(tensor);
    }
    Ok((GraphRequest { spec, inputs: data, resident, keep, ttl, response_bytes }, placement))
}

/// Executes a graph on one device.
async fn execute_on_one(
    executor: &GraphExecutor,
    caller: &Caller,
    context: Context,
    request: GraphRequest,
    device: &str,
) -> Result<GraphOutputs, ApiError> {
    let device = device_of(executor, device, &request.resident, request.keep.contains(&true))?;
    if let Some(device) = device
        && request.resident.iter().any(|(_, listed)| listed.kept.tensor.device() != device)
    {
        return data_parallel::execute_on(device, executor, caller, context, request).await;
    }
    let plan = executor.plan(&request.spec)?;
    let quotas = executor.admit(caller, &request, &plan.outputs, [])?;
    let GraphRequest { spec, inputs, resident, keep, ttl, .. } = request;
    let execution = Execution { plan: Arc::clone(&plan), inputs, keep: keep.clone(), device };
    let done = executor.execute(execution, context).await.map_err(|error| in_graph(&spec, error))?;
    drop(resident);
    Ok(executor.outputs(caller, &plan.outputs, &keep, done, quotas, ttl))
}

/// The device that a request runs on; `None` for any.
fn device_of(
    executor: &GraphExecutor,
    name: &str,
    resident: &[(usize, Listed)],
    keeps: bool,
) -> Result<Option<DeviceId>, ApiError> {
    if !name.is_empty() || (keeps && resident.is_empty()) {
        return executor.resident().device("device", name).map(Some);
    }
    let tensors = resident.iter().map(|(_, listed)| &listed.kept.tensor);
    Ok(device_of_most(tensors.map(|tensor| (tensor.device(), tensor.of().bytes() as u64))))
}
