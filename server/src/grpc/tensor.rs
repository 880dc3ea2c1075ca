//! `TensorService`: graphs of tensor operations, and resident tensors.

use std::sync::Arc;

use accelerd_engine::Context;
use accelerd_kernels::{DeviceId, ops::tensor::TensorInput};
use accelerd_proto::v1::{self as pb, tensor_input::Source};
use accelerd_tensor::{GraphSpec, TensorType};
use bytes::Bytes;
use tonic::{Request, Response, Status};

use crate::{
    app::App,
    auth::{caller::Caller, role::Role},
    error::ApiError,
    grpc::{
        call::{ChargedRequests, Requests, Responses},
        context::context,
        data_parallel,
        graph_executor::{Execution, GraphExecutor, GraphRequest},
        handlers::TensorService,
        placement::device_of_most,
        resident_tensors::{ResidentTensors, named, tensor_type},
        shown::List,
        tensor_benchmark::Benchmarks,
        tensor_graph::{in_graph, node},
    },
    tensors::Listed,
};

/// The most inputs of all nodes of a graph, for each node that it may have. Most operations read one to three values; concatenations may
/// read thousands.
const INPUTS_PER_NODE: usize = 16;

/// The service.
#[derive(Debug)]
pub(super) struct Tensors {
    graphs: GraphExecutor,
    resident: ResidentTensors,
    benchmarks: Benchmarks,
}

impl Tensors {
    pub(super) fn new(app: &Arc<App>) -> Self {
        let resident = ResidentTensors::new(app);
        Self { graphs: GraphExecutor::new(app, &resident), resident, benchmarks: Benchmarks::new(app) }
    }

    fn receive(&self, caller: &Caller, request: pb::ExecuteRequest) -> Result<GraphRequest, ApiError> {
        let pb::ExecuteRequest { inputs, nodes, outputs, keep_ttl, .. } = request;
        let max_nodes = self.graphs.max_nodes;
        let count = inputs.len().saturating_add(nodes.len()).saturating_add(outputs.len());
        if count > max_nodes {
            let reason = format!("expected at most {max_nodes} nodes, inputs and outputs, got {count}");
            return Err(ApiError::invalid("nodes", reason));
        }
        let most = max_nodes.saturating_mul(INPUTS_PER_NODE);
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
        spec.nodes = nodes.into_iter().map(node).collect::<Result<_, _>>()?;
        spec.outputs = outputs.into_iter().map(|output| output.name).collect();
        Ok(GraphRequest { spec, inputs: data, resident, keep, ttl })
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
        if !name.is_empty() || (keeps && resident.is_empty()) {
            return self.resident.device("device", name).map(Some);
        }
        let tensors = resident.iter().map(|(_, listed)| &listed.kept.tensor);
        Ok(device_of_most(tensors.map(|tensor| (tensor.device(), tensor.of().bytes() as u64))))
    }

    /// Executes a request on one device.
    async fn run(
        &self,
        caller: &Caller,
        context: Context,
        request: GraphRequest,
        device: &str,
    ) -> Result<pb::ExecuteResponse, Status> {
        let device = self.device_of(device, &request.resident, request.keep.contains(&true))?;
        if let Some(device) = device
            && request.resident.iter().any(|(_, listed)| listed.kept.tensor.device() != device)
        {
            return data_parallel::execute_on(device, &self.graphs, caller, context, request).await;
        }
        let GraphRequest { spec, inputs, resident, keep, ttl } = request;
        let plan = self.graphs.plan(&spec)?;
        let quotas = self.graphs.admit(caller, &plan.outputs, &keep, [])?;
        let execution = Execution { plan: Arc::clone(&plan), inputs, keep: keep.clone(), device };
        let done = self.graphs.execute(execution, context).await.map_err(|error| in_graph(&spec, error))?;
        drop(resident);
        Ok(self.graphs.response(caller, &plan.outputs, &keep, done, quotas, ttl))
    }
}

impl TensorService for Tensors {
    async fn execute(&self, request: Request<pb::ExecuteRequest>) -> Result<Response<pb::ExecuteResponse>, Status> {
        let (caller, mut context) = (Caller::of(request.extensions()), context(&request));
        let mut request = request.into_inner();
        let (device, parallel) = (std::mem::take(&mut request.device), request.data_parallel.take());
        context.no_cpu_fallback = !device.is_empty() || parallel.is_some();
        let request = self.receive(&caller, request)?;
        let response = match parallel {
            None => self.run(&caller, context, request, &device).await?,
            Some(_) if !device.is_empty() => {
                let shown: String = device.chars().take(64).collect();
                let reason = format!("expected none with data_parallel, which has its own, got {shown:?}");
                return Err(ApiError::invalid("device", reason).into());
            }
            Some(options) => data_parallel::execute(&self.graphs, &caller, context, request, options).await?,
        };
        let kept = response.kept.clone();
        if !kept.is_empty() {
            let handles: Vec<_> = kept.iter().map(|tensor| tensor.handle.as_str()).collect();
            caller.record_change(&named(&handles));
        }
        Ok(self.resident.respond(&caller, response, &kept))
    }

    async fn upload_tensor(
        &self,
        caller: Caller,
        context: Context,
        parts: ChargedRequests<pb::UploadTensorRequest>,
    ) -> Result<Response<pb::UploadTensorResponse>, Status> {
        self.resident.upload(caller, context, parts).await
    }

    fn download_tensor(
        &self,
        caller: Caller,
        context: Context,
        requests: Requests<pb::DownloadTensorRequest>,
    ) -> Responses<pb::DownloadTensorResponse> {
        self.resident.download(caller, context, requests)
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

/// Type and data of an input that is sent.
pub(super) fn inline(field: &str, tensor: pb::Tensor) -> Result<(TensorType, Bytes), ApiError> {
    let of = tensor_type(field, tensor.dtype, &tensor.shape)?;
    if of.bytes() != tensor.data.len() {
        let (expected, got) = (of.bytes(), tensor.data.len());
        let reason = format!("expected {expected} bytes for {} of shape {:?}, got {got}", of.dtype, List(&of.shape));
        return Err(ApiError::invalid(format!("{field}.data"), reason));
    }
    Ok((of, tensor.data))
}
