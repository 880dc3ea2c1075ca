//! `TensorService`: graphs of tensor operations, and resident tensors.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use accelerd_engine::Context;
use accelerd_kernels::ops::tensor::BenchmarkBound;
use accelerd_proto::v1 as pb;
use futures::{Stream, StreamExt, TryFutureExt, TryStreamExt};
use tokio::time::timeout_at;
use tonic::{Request, Response, Status};

use crate::{
    app::App,
    auth::caller::Caller,
    error::ApiError,
    grpc::{
        call::{ChargedRequests, Requests, Responses},
        context::context,
        convert,
        delivery::Delivery,
        handlers::TensorService,
        tensor_graph::{attributes, data_parallel, node, response_bytes},
        tensor_value::{self, sources, tensor_type},
    },
    status,
    tensors::{
        execute::{GraphCall, GraphOutput, Placement, execute},
        graph_executor::{GraphExecutor, GraphOutputs},
        op_benchmark::{BenchmarkOperand, Benchmarks, MeasuredOp, OpBenchmark},
        resident_tensors::{CopyRequest, ResidentTensors, TensorUpload, UploadHeader},
        table::Listed,
    },
};

/// An upload that sends less within `server.stall_timeout` is ended: the memory of its tensor is reserved.
const STALL_BYTES: usize = 64 << 10;

/// The service.
pub(super) struct Tensors {
    graphs: GraphExecutor,
    resident: ResidentTensors,
    benchmarks: Benchmarks,
    stall_timeout: Duration,
}

impl Tensors {
    pub(super) fn new(app: &Arc<App>) -> Self {
        let tensors = &app.tensors;
        let limits = &app.config.limits;
        let resident = ResidentTensors::new(tensors);
        Self {
            graphs: GraphExecutor::new(tensors, &resident, limits.max_graph_nodes, app.config.server.max_message()),
            benchmarks: Benchmarks::new(tensors, limits.max_graph_nodes, limits.max_benchmark_time),
            resident,
            stall_timeout: app.config.server.stall_timeout,
        }
    }

    /// The graph of a request.
    fn graph_call(&self, request: pb::ExecuteRequest) -> Result<GraphCall, ApiError> {
        let pb::ExecuteRequest { inputs, nodes, outputs, keep_ttl, device, data_parallel: parallel } = request;
        let count = inputs.len().saturating_add(nodes.len()).saturating_add(outputs.len());
        let operands = nodes.iter().map(|node| node.inputs.len()).fold(0, usize::saturating_add);
        self.graphs.check_counts(count, operands)?;
        let output = |pb::TensorOutput { name, keep }| GraphOutput { name, keep };
        Ok(GraphCall {
            inputs: sources("inputs", inputs)?,
            nodes: nodes.into_iter().map(node).collect::<Result<_, _>>()?,
            outputs: outputs.into_iter().map(output).collect(),
            ttl: keep_ttl.map(convert::time),
            placement: match parallel {
                None => Placement::Device(device),
                Some(_) if !device.is_empty() => {
                    let shown: String = device.chars().take(64).collect();
                    let reason = format!("expected none with data_parallel, which has its own, got {shown:?}");
                    return Err(ApiError::invalid("device", reason));
                }
                Some(options) => Placement::DataParallel(data_parallel(options)?),
            },
            response_bytes,
        })
    }

    /// A response with the handles of new tensors, which are freed unless it is sent: nobody else knows them.
    fn respond<R>(&self, caller: &Caller, response: R, kept: &[Listed]) -> Response<R> {
        let handles: Vec<_> = kept.iter().map(|listed| listed.handle.clone()).collect();
        let resident = self.resident.clone();
        let owner = caller.owner().to_owned();
        Delivery::attach(response, move || resident.take_back(&owner, &handles))
    }
}

/// The header of an upload.
fn upload_header(header: pb::UploadTensorHeader) -> Result<UploadHeader, ApiError> {
    let of = tensor_type("header", header.dtype, &header.shape)?;
    Ok(UploadHeader { of, device: header.device, ttl: header.ttl.map(convert::time) })
}

/// The messages of a download, of which the first describes the tensor.
fn messages(
    resident: ResidentTensors,
    listed: Listed,
    context: Context,
) -> impl Stream<Item = Result<pb::DownloadTensorResponse, Status>> + Send {
    let mut header = Some(tensor_value::resident(&listed));
    let chunks = resident.chunks(listed, context).map_err(Status::from);
    chunks.map_ok(move |data| pb::DownloadTensorResponse { tensor: header.take(), data })
}

/// The response of a graph.
fn execute_response(outputs: GraphOutputs) -> pb::ExecuteResponse {
    pb::ExecuteResponse {
        kept: outputs.kept.iter().map(tensor_value::resident).collect(),
        outputs: outputs.returned.into_iter().map(|(of, data)| tensor_value::value(&of, data)).collect(),
    }
}

fn op_benchmark(request: pb::BenchmarkOpRequest) -> Result<OpBenchmark, ApiError> {
    let pb::BenchmarkOpRequest { op, operands, attributes: named, result_count, device, .. } = request;
    let max_time = request.max_time.map(convert::time);
    let operand = |(nth, operand): (usize, pb::BenchmarkOperand)| {
        let of = tensor_type(&format!("operands[{nth}]"), operand.dtype, &operand.shape)?;
        Ok(BenchmarkOperand { of, integers_below: operand.integers_below })
    };
    Ok(OpBenchmark {
        operands: operands.into_iter().enumerate().map(operand).collect::<Result<_, ApiError>>()?,
        attributes: attributes(&op, named)?,
        op,
        result_count,
        device,
        repetition_count: request.repetition_count,
        max_time,
    })
}

fn op_times(measured: &MeasuredOp) -> pb::BenchmarkOpResponse {
    let MeasuredOp { device, product, plan, times } = measured;
    let time = |share: f64| prost_types::Duration::try_from(times.quantile(share)).ok();
    let workload = plan.workload();
    let (bound, bound_share) = times.bound(plan);
    let bound = match bound {
        BenchmarkBound::Memory => pb::BenchmarkBound::Memory,
        BenchmarkBound::Product => pb::BenchmarkBound::Product,
    };
    pb::BenchmarkOpResponse {
        device: device.to_string(),
        product: product.clone(),
        repetition_count: u32::try_from(times.times.len()).unwrap_or(u32::MAX),
        min: time(0.0),
        p10: time(0.1),
        median: time(0.5),
        p90: time(0.9),
        max: time(1.0),
        launch_count: u32::try_from(times.launches).unwrap_or(u32::MAX),
        moved_bytes: workload.moved(),
        operation_count: workload.operations,
        bytes_per_second: times.rate(workload.moved()),
        operations_per_second: times.rate(workload.operations),
        copy_bytes_per_second: times.copy_rate,
        product_operations_per_second: times.product_rate.unwrap_or_default(),
        bound: bound.into(),
        bound_share,
    }
}

impl TensorService for Tensors {
    async fn execute(&self, request: Request<pb::ExecuteRequest>) -> Result<Response<pb::ExecuteResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let context = context(&request);
        let call = self.graph_call(request.into_inner())?;
        let outputs = execute(&self.graphs, &caller, context, call).await?;
        let kept = outputs.kept.clone();
        Ok(self.respond(&caller, execute_response(outputs), &kept))
    }

    async fn upload_tensor(
        &self,
        caller: Caller,
        context: Context,
        mut parts: ChargedRequests<pb::UploadTensorRequest>,
    ) -> Result<Response<pb::UploadTensorResponse>, Status> {
        let mut stalls_at = Instant::now() + self.stall_timeout;
        let mut counted = 0;
        let mut next = async |received: usize| {
            if received >= counted + STALL_BYTES {
                (stalls_at, counted) = (Instant::now() + self.stall_timeout, received);
            }
            match timeout_at(stalls_at.into(), parts.next()).await {
                Ok(next) => next.transpose(),
                Err(_elapsed) => Err(status::stalled()),
            }
        };
        let missing = || ApiError::invalid("header", "expected a header in the first message, got none");
        let (pb::UploadTensorRequest { header, mut data }, mut charge) = next(0).await?.ok_or_else(missing)?;
        let header = upload_header(header.ok_or_else(missing)?)?;
        let mut upload = TensorUpload::begin(&self.resident, &caller, context, header).await?;
        loop {
            upload.write(data).await?;
            drop(charge);
            let Some((part, its_charge)) = next(upload.received()).await? else { break };
            if part.header.is_some() {
                return Err(ApiError::invalid("header", "expected a header in the first message only").into());
            }
            (data, charge) = (part.data, its_charge);
        }
        let listed = upload.finish(&caller)?;
        let response = pb::UploadTensorResponse { tensor: Some(tensor_value::resident(&listed)) };
        Ok(self.respond(&caller, response, &[listed]))
    }

    fn download_tensor(
        &self,
        caller: Caller,
        context: Context,
        mut requests: Requests<pb::DownloadTensorRequest>,
    ) -> Responses<pb::DownloadTensorResponse> {
        let resident = self.resident.clone();
        let begin = async move {
            let request = requests.next().await.transpose()?;
            let request = request.ok_or_else(|| ApiError::invalid("handle", "expected a request, got none"))?;
            let listed = resident.get(&caller, &request.handle)?;
            Ok::<_, Status>(messages(resident, listed, context))
        };
        begin.try_flatten_stream().boxed()
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
        let tensors = tensors.iter().map(tensor_value::resident).collect();
        Ok(Response::new(pb::ListTensorsResponse { tensors }))
    }

    async fn copy_tensor(
        &self,
        request: Request<pb::CopyTensorRequest>,
    ) -> Result<Response<pb::CopyTensorResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let context = context(&request);
        let pb::CopyTensorRequest { handle, device, ttl } = request.into_inner();
        let request = CopyRequest { handle, device, ttl: ttl.map(convert::time) };
        let listed = self.resident.copy(&caller, context, request).await?;
        let response = pb::CopyTensorResponse { tensor: Some(tensor_value::resident(&listed)) };
        Ok(self.respond(&caller, response, &[listed]))
    }

    async fn benchmark_op(
        &self,
        request: Request<pb::BenchmarkOpRequest>,
    ) -> Result<Response<pb::BenchmarkOpResponse>, Status> {
        let context = context(&request);
        let request = op_benchmark(request.into_inner())?;
        Ok(Response::new(op_times(&self.benchmarks.run(&self.resident, context, request).await?)))
    }
}
