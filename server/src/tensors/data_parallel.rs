//! Execution of a graph on inputs that are not all where it runs. A data-parallel one runs on several devices, on a part of the inputs
//! each, and its outputs are combined.

mod combine;
mod operands;
mod split;

use std::sync::Arc;

use accelerd_engine::Context;
use accelerd_kernels::{
    DeviceId,
    ops::tensor::{Executed, TensorInput},
};
use accelerd_tensor::{Plan, TensorType};
use bytes::Bytes;
use futures::{
    TryFutureExt,
    future::{try_join, try_join_all},
};

pub(crate) use self::{
    combine::{Combination, CombinedOutput},
    split::SplitInput,
};
use self::{
    combine::{Combined, combinations, graph, weights},
    operands::Operands,
    split::{Shard, Split},
};
use super::{
    graph_executor::{Execution, GraphExecutor, GraphOutputs, GraphRequest},
    plan_checks::in_graph,
    resident_tensors::ResidentTensors,
};
use crate::{auth::caller::Caller, error::ApiError};

/// The options of a graph that runs on several devices.
#[derive(Debug)]
pub(crate) struct DataParallel {
    /// Names of devices, one for each shard; all GPUs if there are none.
    pub(crate) devices: Vec<String>,
    pub(crate) inputs: Vec<SplitInput>,
    pub(crate) outputs: Vec<CombinedOutput>,
}

/// The most devices of a request: each has a plan of its own.
const MAX_SHARDS: usize = 64;

/// The most characters of a name that errors show.
const SHOWN_CHARACTERS: usize = 64;

/// A name of a request, for an error.
fn shown(name: &str) -> String {
    format!("{:?}", name.chars().take(SHOWN_CHARACTERS).collect::<String>())
}

/// Executes a graph on several devices.
pub(super) async fn execute(
    executor: &GraphExecutor,
    caller: &Caller,
    context: Context,
    request: GraphRequest,
    options: &DataParallel,
) -> Result<GraphOutputs, ApiError> {
    let devices = devices(executor.resident(), &options.devices)?;
    let split = Split::new(&devices, &options.inputs, &request.spec.inputs)?;
    let combinations = combinations(&options.outputs, &request.spec.outputs)?;
    // The graph that combines outputs has as many inputs.
    let values = split.shards.len().saturating_mul(combinations.len());
    let max_values = executor.max_nodes;
    if values > max_values {
        let reason = format!("expected at most {max_values} outputs of all shards together, got {values}");
        return Err(ApiError::invalid("outputs", reason));
    }
    execute_shards(executor, caller, context, request, split, &combinations).await
}

/// Executes a graph on a device that does not hold all of its resident inputs.
pub(super) async fn execute_on(
    device: DeviceId,
    executor: &GraphExecutor,
    caller: &Caller,
    context: Context,
    request: GraphRequest,
) -> Result<GraphOutputs, ApiError> {
    let split = Split::whole(device, request.inputs.len());
    execute_shards(executor, caller, context, request, split, &[]).await
}

async fn execute_shards(
    executor: &GraphExecutor,
    caller: &Caller,
    context: Context,
    request: GraphRequest,
    split: Split,
    combinations: &[Combination],
) -> Result<GraphOutputs, ApiError> {
    let resident = request.resident.iter().map(|(_, listed)| listed);
    let copies = executor.resident().copies(caller, resident, &split.devices());
    let operands = Operands::new(&request, &split, &copies);
    let plans = plan(executor, &request, &split, &operands).await?;
    let combiners = Combiners::new(executor, combinations, &plans, &request.keep)?;
    let quotas = executor.admit(caller, &request, &combiners.outputs, operands.copied_bytes())?;
    let fetched = operands.fetch(executor, &context).await?;
    let all = &split;
    let spec = &request.spec;
    let run = |(nth, plan): (usize, &Arc<Plan>)| {
        let keep = if plans.len() > 1 { vec![false; request.keep.len()] } else { request.keep.clone() };
        let device = Some(all.shards[nth].device);
        let execution = Execution { plan: Arc::clone(plan), inputs: operands.inputs(nth, &fetched), keep, device };
        let done = executor.execute(execution, context.clone());
        done.map_err(move |error| in_shard(all, nth, in_graph(spec, error)))
    };
    // The first error drops the other futures, which cancels their requests.
    let mut done = try_join_all(plans.iter().enumerate().map(run)).await?;
    let done = if let [_] = &plans[..] {
        done.remove(0)
    } else {
        let values = done.into_iter().map(|shard| shard.returned).collect();
        combiners.run(executor, &context, values, &split).await?
    };
    let outputs = executor.outputs(caller, &combiners.outputs, &request.keep, done, quotas, request.ttl);
    // Until now they count towards their owner's quota.
    drop((copies, request));
    Ok(outputs)
}

/// The device of each shard.
fn devices(resident: &ResidentTensors, names: &[String]) -> Result<Vec<DeviceId>, ApiError> {
    if names.len() > MAX_SHARDS {
        let reason = format!("expected at most {MAX_SHARDS} devices, got {}", names.len());
        return Err(ApiError::invalid("data_parallel.devices", reason));
    }
    if names.is_empty() {
        let gpus: Vec<_> = resident.devices().filter(|id| *id != DeviceId::Cpu).take(MAX_SHARDS).collect();
        return Ok(if gpus.is_empty() { vec![DeviceId::Cpu] } else { gpus });
    }
    let named = |(nth, name): (usize, &String)| {
        let field = format!("data_parallel.devices[{nth}]");
        if name.is_empty() {
            return Err(ApiError::invalid(field, "expected the name of a device, got \"\""));
        }
        resident.device(&field, name)
    };
    names.iter().enumerate().map(named).collect()
}

/// The plans of all shards.
async fn plan(
    executor: &GraphExecutor,
    request: &GraphRequest,
    split: &Split,
    operands: &Operands,
) -> Result<Vec<Arc<Plan>>, ApiError> {
    let mut plans = vec![];
    for nth in 0..split.shards.len() {
        let plan = executor.plan(&operands.spec(&request.spec, split, nth));
        plans.push(plan.map_err(|error| in_shard(split, nth, error))?);
        // Other calls of this thread get their turn: a large graph takes a tenth of a second.
        tokio::task::yield_now().await;
    }
    Ok(plans)
}

/// Names the shard of an error, unless it is the only one.
fn in_shard(split: &Split, nth: usize, error: ApiError) -> ApiError {
    let [_, _, ..] = split.shards[..] else { return error };
    let Shard { device, .. } = split.shards[nth];
    ApiError::Shard { nth, count: split.shards.len(), device, error: Box::new(error) }
}

/// The error of a graph that combines outputs, whose nodes no caller knows.
fn in_combination(error: ApiError) -> ApiError {
    let ApiError::Invalid { reason, .. } = error else { return error };
    ApiError::invalid("outputs", format!("combined outputs of shards: {reason}"))
}

/// Combination of the outputs of shards to those of the call.
#[derive(Debug)]
struct Combiners {
    /// The types of all outputs.
    outputs: Vec<TensorType>,
    /// Combines those that are returned, in host memory.
    returned: Option<Arc<Plan>>,
    /// Combines those that are kept, on the first device.
    kept: Option<Arc<Plan>>,
    /// For each output, whether it is kept.
    keep: Vec<bool>,
}

impl Combiners {
    fn new(
        executor: &GraphExecutor,
        combinations: &[Combination],
        shards: &[Arc<Plan>],
        keep: &[bool],
    ) -> Result<Self, ApiError> {
        let keep = keep.to_vec();
        if let [only] = shards {
            return Ok(Self { outputs: only.outputs.clone(), returned: None, kept: None, keep });
        }
        let values = |output: usize| shards.iter().map(|plan| &plan.outputs[output]).collect::<Vec<_>>();
        let all = combinations.iter().enumerate();
        let outputs = all.clone().map(|(nth, combination)| combination.result(nth, &values(nth)));
        let outputs = outputs.collect::<Result<_, _>>()?;
        let plan = |is_kept: bool| {
            let chosen = all.clone().filter(|(nth, _)| keep[*nth] == is_kept);
            let chosen = chosen.map(|(nth, combination)| Combined { combination: *combination, shards: values(nth) });
            let chosen: Vec<_> = chosen.collect();
            (!chosen.is_empty()).then(|| executor.plan(&graph(&chosen)).map_err(in_combination)).transpose()
        };
        let returned = plan(false)?;
        let kept = plan(true)?;
        Ok(Self { outputs, returned, kept, keep })
    }

    /// Combines the values of all outputs, shard by shard.
    async fn run(
        &self,
        executor: &GraphExecutor,
        context: &Context,
        values: Vec<Vec<Bytes>>,
        split: &Split,
    ) -> Result<Executed, ApiError> {
        let run = async |plan: &Option<Arc<Plan>>, is_kept: bool, device| {
            let Some(plan) = plan else { return Ok(Executed { returned: vec![], kept: vec![] }) };
            let chosen = self.keep.iter().enumerate().filter(|(_, keep)| **keep == is_kept).map(|(nth, _)| nth);
            let operands = chosen.flat_map(|nth| values.iter().map(move |shard| shard[nth].clone()));
            let weights = weights(split.shards.iter().map(|shard| shard.part.len()));
            let inputs = operands.chain(weights).map(TensorInput::Inline).collect();
            let keep = vec![is_kept; plan.outputs.len()];
            executor
                .execute(Execution { plan: Arc::clone(plan), inputs, keep, device: Some(device) }, context.clone())
                .await
        };
        let first = split.shards[0].device;
        let (returned, kept) =
            try_join(run(&self.returned, false, DeviceId::Cpu), run(&self.kept, true, first)).await?;
        Ok(Executed { returned: returned.returned, kept: kept.kept })
    }
}
