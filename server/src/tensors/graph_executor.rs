//! Plans graphs, and executes them on one device.

use std::{sync::Arc, time::Duration};

use accelerd_engine::{Context, Lane, SubmitError};
use accelerd_kernels::{
    DeviceId, Size,
    ops::tensor::{Execute, ExecuteRequest, Executed, PlanCache, TensorInput},
};
use accelerd_tensor::{GraphSpec, Plan, TensorType};
use bytes::Bytes;

use super::{
    Tensors,
    plan_checks::{check_steps, invalid},
    resident_tensors::{ResidentTensors, is_on_gpu},
    table::{Listed, Quota},
};
use crate::{auth::caller::Caller, error::ApiError, layers::timing};

/// The most inputs of all nodes of a graph, for each node that it may have. Most operations read one to three values; concatenations may
/// read thousands.
const INPUTS_PER_NODE: usize = 16;

/// The lane of graphs, and the plans that were executed lately.
pub(crate) struct GraphExecutor {
    lane: Lane<Execute>,
    plans: PlanCache,
    resident: ResidentTensors,
    /// The most nodes, inputs and outputs of a graph.
    pub(crate) max_nodes: usize,
    max_message: usize,
}

/// A graph with its inputs. It need not be valid.
#[derive(Debug)]
pub(crate) struct GraphRequest {
    pub(crate) spec: GraphSpec,
    /// One for each input of the graph.
    pub(crate) inputs: Vec<TensorInput>,
    /// The resident inputs by position, so that they count towards their owner's quota until the end.
    pub(crate) resident: Vec<(usize, Listed)>,
    /// For each output, whether it is kept.
    pub(crate) keep: Vec<bool>,
    pub(crate) ttl: Duration,
    /// The bytes of a response with outputs of these types, of which some are kept.
    pub(crate) response_bytes: fn(&[TensorType], &[bool]) -> usize,
}

/// The outputs of a graph.
#[derive(Debug)]
pub(crate) struct GraphOutputs {
    /// The outputs that are not kept, in their order.
    pub(crate) returned: Vec<(TensorType, Bytes)>,
    /// Those that are kept, in their order.
    pub(crate) kept: Vec<Listed>,
}

/// A plan, its inputs and its device.
#[derive(Clone, Debug)]
pub(crate) struct Execution {
    pub(crate) plan: Arc<Plan>,
    pub(crate) inputs: Vec<TensorInput>,
    /// For each output, whether it is kept.
    pub(crate) keep: Vec<bool>,
    /// `None` for any.
    pub(crate) device: Option<DeviceId>,
}

impl Execution {
    /// Returns true if it reads memory of a GPU.
    fn reads_gpu(&self) -> bool {
        self.inputs.iter().any(is_on_gpu)
    }

    fn size(&self) -> Size {
        Size { items: 1, bytes: self.plan.allocated_bytes() as u64 }
    }
}

impl GraphExecutor {
    /// Graphs have at most `max_nodes` nodes, inputs and outputs, and responses `max_message` bytes.
    pub(crate) fn new(tensors: &Tensors, resident: &ResidentTensors, max_nodes: usize, max_message: usize) -> Self {
        let plans = PlanCache::default();
        Self { lane: tensors.lane(), plans, resident: resident.clone(), max_nodes, max_message }
    }

    pub(crate) fn resident(&self) -> &ResidentTensors {
        &self.resident
    }

    /// Refuses a graph with too many nodes, inputs and outputs, or with too many inputs of all nodes.
    pub(crate) fn check_counts(&self, count: usize, operands: usize) -> Result<(), ApiError> {
        let max_nodes = self.max_nodes;
        if count > max_nodes {
            let reason = format!("expected at most {max_nodes} nodes, inputs and outputs, got {count}");
            return Err(ApiError::invalid("nodes", reason));
        }
        let max_inputs = max_nodes.saturating_mul(INPUTS_PER_NODE);
        if operands > max_inputs {
            let reason = format!("expected at most {max_inputs} inputs of all nodes, got {operands}");
            return Err(ApiError::invalid("nodes", reason));
        }
        Ok(())
    }

    /// The plan of a graph, of which no kernel runs for too long.
    pub(crate) fn plan(&self, spec: &GraphSpec) -> Result<Arc<Plan>, ApiError> {
        let plan = self.plans.plan(spec).map_err(invalid)?;
        check_steps(&plan)?;
        Ok(plan)
    }

    /// Executes a plan. What it keeps is reserved in the account of its caller.
    ///
    /// If the GPU that holds its inputs has no memory to compute in, the CPU computes from copies of them.
    pub(crate) async fn execute(&self, execution: Execution, context: Context) -> Result<Executed, ApiError> {
        let again = execution.reads_gpu().then(|| execution.clone());
        match (self.submit(execution, context.clone()).await, again) {
            (Err(error), Some(again)) if self.lane.falls_back(&error, again.size(), &context) => {
                self.execute_on_cpu(again, context).await
            }
            (done, _) => Ok(done?),
        }
    }

    async fn execute_on_cpu(&self, mut execution: Execution, context: Context) -> Result<Executed, ApiError> {
        let mut memory = self.resident.request_memory();
        for input in &mut execution.inputs {
            self.resident.move_to_host(input, &mut memory, &context).await?;
        }
        execution.device = Some(DeviceId::Cpu);
        Ok(self.submit(execution, context).await?)
    }

    async fn submit(&self, execution: Execution, context: Context) -> Result<Executed, SubmitError> {
        let Execution { plan, inputs, keep, device } = execution;
        let mut request = ExecuteRequest::new(plan, inputs).on(device);
        if keep.contains(&true) {
            request = request.keeping(keep, self.resident.account(&context));
        }
        let done = self.lane.submit(request, context).await?;
        timing::record(&done);
        Ok(done.response)
    }

    /// The quota of the outputs that a caller keeps, and of `more` tensors of these sizes. A response that no message holds is refused.
    pub(crate) fn admit(
        &self,
        caller: &Caller,
        request: &GraphRequest,
        outputs: &[TensorType],
        more: impl IntoIterator<Item = u64>,
    ) -> Result<Vec<Quota>, ApiError> {
        let keep = &request.keep;
        let limit = self.max_message;
        let bytes = (request.response_bytes)(outputs, keep);
        if bytes > limit {
            return Err(ApiError::OutputsTooLarge { bytes, limit });
        }
        let kept = outputs.iter().zip(keep).filter(|(_, keep)| **keep).map(|(of, _)| of.bytes() as u64);
        let sizes: Vec<_> = kept.chain(more).collect();
        if sizes.is_empty() { Ok(vec![]) } else { self.resident.reserve(caller, &sizes) }
    }

    /// Returns the outputs of an execution. Those that are kept get their handles.
    pub(crate) fn outputs(
        &self,
        caller: &Caller,
        outputs: &[TensorType],
        keep: &[bool],
        done: Executed,
        quotas: Vec<Quota>,
        ttl: Duration,
    ) -> GraphOutputs {
        let returned = outputs.iter().zip(keep).filter(|(_, keep)| !**keep).map(|(of, _)| of.clone());
        let kept = done.kept.into_iter().zip(quotas);
        let kept = kept.map(|(tensor, quota)| self.resident.keep(caller, Arc::new(tensor), quota, ttl));
        GraphOutputs { returned: returned.zip(done.returned).collect(), kept: kept.collect() }
    }
}
