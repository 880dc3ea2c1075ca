//! Plans graphs, and executes them on one device.

use std::{sync::Arc, time::Duration};

use accelerd_engine::{Context, Lane, SubmitError};
use accelerd_kernels::{
    DeviceId, Size,
    ops::tensor::{Execute, ExecuteRequest, Executed, PlanCache, TensorInput},
};
use accelerd_proto::v1 as pb;
use accelerd_tensor::{GraphSpec, Plan, TensorType};
use bytes::Bytes;
use prost::Message;
use tonic::Status;

use super::{
    convert::tensor_of,
    dtype::dtype_to_proto,
    resident_tensors::{ResidentTensors, is_on_gpu},
    tensor_graph::{check_steps, invalid},
};
use crate::{
    app::App,
    auth::caller::Caller,
    error::ApiError,
    layers::timing,
    status::response_too_large,
    tensors::{Listed, Quota},
};

/// The lane of graphs, and the plans that were executed lately.
#[derive(Debug)]
pub(super) struct GraphExecutor {
    lane: Lane<Execute>,
    plans: PlanCache,
    resident: ResidentTensors,
    /// The most nodes, inputs and outputs of a graph.
    pub(super) max_nodes: usize,
    max_message: usize,
}

/// A request of Execute whose messages are valid. Its graph need not be.
#[derive(Debug)]
pub(super) struct GraphRequest {
    pub(super) spec: GraphSpec,
    /// One for each input of the graph.
    pub(super) inputs: Vec<TensorInput>,
    /// The resident inputs by position, so that they count towards their owner's quota until the end.
    pub(super) resident: Vec<(usize, Listed)>,
    /// For each output, whether it is kept.
    pub(super) keep: Vec<bool>,
    pub(super) ttl: Duration,
}

/// A plan, what it reads and where it runs.
#[derive(Clone, Debug)]
pub(super) struct Execution {
    pub(super) plan: Arc<Plan>,
    pub(super) inputs: Vec<TensorInput>,
    /// For each output, whether it is kept.
    pub(super) keep: Vec<bool>,
    /// `None` for any.
    pub(super) device: Option<DeviceId>,
}

impl Execution {
    /// Whether it reads what is in the memory of a GPU.
    fn reads_gpu(&self) -> bool {
        self.inputs.iter().any(is_on_gpu)
    }

    fn size(&self) -> Size {
        Size { items: 1, bytes: self.plan.allocated_bytes() as u64 }
    }
}

impl GraphExecutor {
    pub(super) fn new(app: &Arc<App>, resident: &ResidentTensors) -> Self {
        let config = &app.config;
        Self {
            lane: app.engine.lane(config.lanes.lane(&config.lanes.tensor)),
            plans: PlanCache::default(),
            resident: resident.clone(),
            max_nodes: config.limits.max_graph_nodes,
            max_message: config.server.max_message(),
        }
    }

    pub(super) fn resident(&self) -> &ResidentTensors {
        &self.resident
    }

    /// The plan of a graph, of which no kernel runs for too long.
    pub(super) fn plan(&self, spec: &GraphSpec) -> Result<Arc<Plan>, ApiError> {
        let plan = self.plans.plan(spec).map_err(invalid)?;
        check_steps(&plan)?;
        Ok(plan)
    }

    /// Executes a plan. What it keeps is reserved in the account of its caller.
    ///
    /// If the GPU that holds its inputs has no memory to compute in, the CPU computes from copies of them.
    pub(super) async fn execute(&self, execution: Execution, context: Context) -> Result<Executed, ApiError> {
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
    pub(super) fn admit(
        &self,
        caller: &Caller,
        outputs: &[TensorType],
        keep: &[bool],
        more: impl IntoIterator<Item = u64>,
    ) -> Result<Vec<Quota>, Status> {
        let bytes = response_bytes(outputs, keep);
        if bytes > self.max_message {
            return Err(response_too_large(bytes, self.max_message));
        }
        let kept = outputs.iter().zip(keep).filter(|(_, keep)| **keep).map(|(of, _)| of.bytes() as u64);
        let sizes: Vec<_> = kept.chain(more).collect();
        if sizes.is_empty() { Ok(vec![]) } else { Ok(self.resident.reserve(caller, &sizes)?) }
    }

    /// The response of what was executed. Outputs that are kept get their handles.
    pub(super) fn response(
        &self,
        caller: &Caller,
        outputs: &[TensorType],
        keep: &[bool],
        done: Executed,
        quotas: Vec<Quota>,
        ttl: Duration,
    ) -> pb::ExecuteResponse {
        let returned = outputs.iter().zip(keep).filter(|(_, keep)| !**keep).map(|(of, _)| of).zip(done.returned);
        let outputs = returned.map(|(of, data)| tensor_of(dtype_to_proto(of.dtype), &of.shape, data)).collect();
        let kept = done.kept.into_iter().zip(quotas);
        let kept = kept.map(|(tensor, quota)| self.resident.keep(caller, Arc::new(tensor), quota, ttl)).collect();
        pb::ExecuteResponse { outputs, kept }
    }
}

/// The most bytes of what describes a kept tensor, without its shape.
const DESCRIPTION_BYTES: usize = 256;

/// The size of a response.
fn response_bytes(outputs: &[TensorType], keep: &[bool]) -> usize {
    outputs.iter().zip(keep).fold(0_usize, |bytes, (of, keep)| {
        let headers = tensor_of(dtype_to_proto(of.dtype), &of.shape, Bytes::new()).encoded_len();
        // Two lengths, of the data and of the tensor around it, have at most ten bytes each, and a tag.
        let rest = if *keep { DESCRIPTION_BYTES } else { of.bytes().saturating_add(22) };
        bytes.saturating_add(headers).saturating_add(rest)
    })
}
