//! `TensorService`: graphs of tensor operations, and resident tensors.

use std::{sync::Arc, time::Duration};

use accelerd_engine::{Context, Lane};
use accelerd_kernels::{
    DeviceId,
    ops::tensor::{Execute, ExecuteRequest, PlanCache, TensorInput},
};
use accelerd_proto::v1::{self as pb, tensor_input::Source, tensor_service_server::TensorService};
use accelerd_tensor::{GraphSpec, Plan, TensorType};
use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use prost::Message;
use tonic::{Request, Response, Status, Streaming};

use crate::{
    app::App,
    auth::{caller::Caller, role::Role},
    error::ApiError,
    grpc::{
        call::{ChargedRequests, Requests},
        context::context,
        convert::tensor_of,
        dtype::dtype_to_proto,
        resident_tensors::{ResidentTensors, tensor_type},
        tensor_benchmark::Benchmarks,
        tensor_graph::{check_steps, invalid, node},
    },
    layers::timing,
    status::response_too_large,
    tensors::{Listed, Quota},
};

/// The most inputs of all nodes of a graph, for each node that it may have. Most operations read one to three values; concatenations may
/// read thousands.
const INPUTS_PER_NODE: usize = 16;

/// The service.
#[derive(Debug)]
pub(super) struct Tensors {
    lane: Lane<Execute>,
    plans: PlanCache,
    resident: ResidentTensors,
    benchmarks: Benchmarks,
    max_nodes: usize,
    max_message: usize,
}

/// A checked request.
struct Planned {
    plan: Arc<Plan>,
    inputs: Vec<TensorInput>,
    /// The resident inputs, so that they count towards their owner's quota until the end.
    resident: Vec<Listed>,
    /// For each output, whether it is kept.
    keep: Vec<bool>,
    ttl: Duration,
    device: Option<DeviceId>,
}

impl Tensors {
    pub(super) fn new(app: &Arc<App>) -> Self {
        let config = &app.config;
        Self {
            lane: app.engine.lane(config.lanes.lane(&config.lanes.tensor)),
            plans: PlanCache::default(),
            resident: ResidentTensors::new(app),
            benchmarks: Benchmarks::new(app),
            max_nodes: config.limits.max_graph_nodes,
            max_message: config.server.max_message(),
        }
    }

    fn plan(&self, caller: &Caller, request: pb::ExecuteRequest) -> Result<Planned, ApiError> {
        let pb::ExecuteRequest { inputs, nodes, outputs, keep_ttl, device } = request;
        let count = inputs.len().saturating_add(nodes.len()).saturating_add(outputs.len());
        if count > self.max_nodes {
            let reason = format!("expected at most {} nodes, inputs and outputs, got {count}", self.max_nodes);
            return Err(ApiError::invalid("nodes", reason));
        }
        let most = self.max_nodes.saturating_mul(INPUTS_PER_NODE);
        let operands = nodes.iter().map(|node| node.inputs.len()).fold(0, usize::saturating_add);
        if operands > most {
            let reason = format!("expected at most {most} inputs of all nodes, got {operands}");
            return Err(ApiError::invalid("nodes", reason));
        }
        let keep: Vec<_> = outputs.iter().map(|output| output.keep).collect();
        if keep.contains(&true) {
            caller.check_role(Role::Write)?;
        }
        let ttl = self.resident.ttl("keep_ttl", keep_ttl)?;
        let mut spec = GraphSpec::default();
        let (mut data, mut resident) = (vec![], vec![]);
        for (nth, input) in inputs.into_iter().enumerate() {
            let (of, source) = self.input(caller, nth, input.source, &mut resident)?;
            spec.inputs.push((input.name, of));
            data.push(source);
        }
        let device = self.device_of(&device, &resident, keep.contains(&true))?;
        spec.nodes = nodes.into_iter().map(node).collect::<Result<_, _>>()?;
        spec.outputs = outputs.into_iter().map(|output| output.name).collect();
        let plan = self.plans.plan(&spec).map_err(invalid)?;
        check_steps(&plan)?;
        let resident = resident.into_iter().map(|(_, listed)| listed).collect();
        Ok(Planned { plan, inputs: data, resident, keep, ttl, device })
    }

    /// Type and source of an input. A resident one is added to `resident`, with its position.
    fn input(
        &self,
        caller: &Caller,
        nth: usize,
        source: Option<Source>,
        resident: &mut Vec<(usize, Listed)>,
    ) -> Result<(TensorType, TensorInput), ApiError> {
        match source {
            Some(Source::Value(tensor)) => {
                inline(&format!("inputs[{nth}].value"), tensor).map(|(of, data)| (of, data.into()))
            }
            Some(Source::Handle(handle)) => {
                let listed = self.resident.get(caller, &handle)?;
                let tensor = Arc::clone(&listed.kept.tensor);
                resident.push((nth, listed));
                Ok((tensor.of().clone(), TensorInput::Resident(tensor)))
            }
            None => Err(ApiError::invalid(format!("inputs[{nth}].value"), "expected a tensor or a handle, got none")),
        }
    }

    /// The device that a request runs on; `None` for any.
    fn device_of(&self, name: &str, resident: &[(usize, Listed)], keeps: bool) -> Result<Option<DeviceId>, ApiError> {
        let requested = (!name.is_empty()).then(|| self.resident.device("device", name)).transpose()?;
        let (expected, of) = match (requested, resident) {
            (Some(device), _) => (device, "device".to_owned()),
            (None, [(nth, first), ..]) => (first.kept.tensor.device(), format!("inputs[{nth}]")),
            (None, []) if keeps => return self.resident.device("device", "").map(Some),
            (None, []) => return Ok(None),
        };
        let elsewhere = resident.iter().find(|(_, listed)| listed.kept.tensor.device() != expected);
        if let Some((nth, listed)) = elsewhere {
            let got = listed.kept.tensor.device();
            let reason =
                format!("expected a tensor on {expected}, as {of} says, got one on {got}; CopyTensor copies it");
            return Err(ApiError::invalid(format!("inputs[{nth}].handle"), reason));
        }
        Ok(Some(expected))
    }

    /// Executes a request whose caller has the quota of what it keeps.
    async fn run(
        &self,
        caller: &Caller,
        context: Context,
        planned: Planned,
        quotas: Vec<Quota>,
    ) -> Result<pb::ExecuteResponse, ApiError> {
        let Planned { plan, inputs, resident, keep, ttl, device } = planned;
        let mut request = ExecuteRequest::new(Arc::clone(&plan), inputs).on(device);
        if keep.contains(&true) {
            request = request.keeping(keep.clone(), self.resident.account(&context));
        }
        let done = self.lane.submit(request, context).await?;
        timing::record(&done);
        drop(resident);
        let returned = plan.outputs.iter().zip(&keep).filter(|(_, keep)| !**keep).map(|(of, _)| of);
        let returned = returned.zip(done.response.returned);
        let outputs = returned.map(|(of, data)| tensor_of(dtype_to_proto(of.dtype), &of.shape, data)).collect();
        let kept = done.response.kept.into_iter().zip(quotas);
        let kept = kept.map(|(tensor, quota)| self.resident.keep(caller, Arc::new(tensor), quota, ttl)).collect();
        Ok(pb::ExecuteResponse { outputs, kept })
    }

    /// Makes the tensor of an upload resident.
    pub(super) async fn upload(
        &self,
        caller: Caller,
        context: Context,
        parts: ChargedRequests<pb::UploadTensorRequest>,
    ) -> Result<Response<pb::UploadTensorResponse>, Status> {
        self.resident.upload(caller, context, parts).await
    }

    /// The messages of a download.
    pub(super) fn download(
        &self,
        caller: Caller,
        context: Context,
        requests: Requests<pb::DownloadTensorRequest>,
    ) -> BoxStream<'static, Result<pb::DownloadTensorResponse, Status>> {
        self.resident.download(caller, context, requests)
    }
}

#[tonic::async_trait]
impl TensorService for Tensors {
    type DownloadTensorStream = BoxStream<'static, Result<pb::DownloadTensorResponse, Status>>;

    async fn execute(&self, request: Request<pb::ExecuteRequest>) -> Result<Response<pb::ExecuteResponse>, Status> {
        let (caller, context) = (Caller::of(request.extensions()), context(&request));
        let planned = self.plan(&caller, request.into_inner())?;
        let bytes = response_bytes(&planned);
        if bytes > self.max_message {
            return Err(response_too_large(bytes, self.max_message));
        }
        let kept = planned.plan.outputs.iter().zip(&planned.keep).filter(|(_, keep)| **keep);
        let sizes: Vec<_> = kept.map(|(of, _)| of.bytes() as u64).collect();
        let quotas = if sizes.is_empty() { vec![] } else { self.resident.reserve(&caller, &sizes)? };
        let response = self.run(&caller, context, planned, quotas).await?;
        let kept = response.kept.clone();
        Ok(self.resident.respond(&caller, response, &kept))
    }

    async fn upload_tensor(
        &self,
        request: Request<Streaming<pb::UploadTensorRequest>>,
    ) -> Result<Response<pb::UploadTensorResponse>, Status> {
        let (caller, context) = (Caller::of(request.extensions()), context(&request));
        let parts = request.into_inner().map(|part| part.map(|part| (part, None))).boxed();
        self.upload(caller, context, parts).await
    }

    async fn download_tensor(
        &self,
        request: Request<pb::DownloadTensorRequest>,
    ) -> Result<Response<Self::DownloadTensorStream>, Status> {
        let (caller, context) = (Caller::of(request.extensions()), context(&request));
        let requests = futures::stream::iter([Ok(request.into_inner())]).boxed();
        Ok(Response::new(self.download(caller, context, requests)))
    }

    async fn free_tensors(
        &self,
        request: Request<pb::FreeTensorsRequest>,
    ) -> Result<Response<pb::FreeTensorsResponse>, Status> {
        let caller = Caller::of(request.extensions());
        self.resident.free(&caller, &request.into_inner().handles)?;
        Ok(Response::new(pb::FreeTensorsResponse {}))
    }

    async fn list_tensors(
        &self,
        request: Request<pb::ListTensorsRequest>,
    ) -> Result<Response<pb::ListTensorsResponse>, Status> {
        let tensors = self.resident.list(&Caller::of(request.extensions()));
        Ok(Response::new(pb::ListTensorsResponse { tensors }))
    }

    async fn copy_tensor(
        &self,
        request: Request<pb::CopyTensorRequest>,
    ) -> Result<Response<pb::CopyTensorResponse>, Status> {
        let (caller, context) = (Caller::of(request.extensions()), context(&request));
        Ok(self.resident.copy(&caller, context, request.into_inner()).await?)
    }

    async fn benchmark_op(
        &self,
        request: Request<pb::BenchmarkOpRequest>,
    ) -> Result<Response<pb::BenchmarkOpResponse>, Status> {
        let context = context(&request);
        Ok(Response::new(self.benchmarks.run(&self.resident, context, request.into_inner()).await?))
    }
}

/// The most bytes of what describes a kept tensor, without its shape.
const DESCRIPTION_BYTES: usize = 256;

/// The size of the response.
fn response_bytes(planned: &Planned) -> usize {
    let outputs = planned.plan.outputs.iter().zip(&planned.keep);
    outputs.fold(0_usize, |bytes, (of, keep)| {
        let headers = tensor_of(dtype_to_proto(of.dtype), &of.shape, Bytes::new()).encoded_len();
        // Two lengths, of the data and of the tensor around it, have at most ten bytes each, and a tag.
        let rest = if *keep { DESCRIPTION_BYTES } else { of.bytes().saturating_add(22) };
        bytes.saturating_add(headers).saturating_add(rest)
    })
}

/// Type and data of an input that is sent.
pub(super) fn inline(field: &str, tensor: pb::Tensor) -> Result<(TensorType, Bytes), ApiError> {
    let of = tensor_type(field, tensor.dtype, &tensor.shape)?;
    if of.bytes() != tensor.data.len() {
        let (expected, got) = (of.bytes(), tensor.data.len());
        let reason = format!("expected {expected} bytes for {} of shape {:?}, got {got}", of.dtype, of.shape);
        return Err(ApiError::invalid(format!("{field}.data"), reason));
    }
    Ok((of, tensor.data))
}
