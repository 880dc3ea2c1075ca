//! Toy tensor operations on f32, `neg`, `add` and `aminmax`, and resident tensors.

use std::collections::BTreeMap;

use accelerd_proto::v1::{self as proto, tensor_input::Source, tensor_service_server::TensorService};
use bytes::BytesMut;
use futures::StreamExt;
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_types::{ErrorDetails, StatusExt};

use super::{FakeDaemon, Replies, Reply};

/// Bytes of a message of a download.
const DOWNLOAD_BYTES: usize = 1 << 20;

#[tonic::async_trait]
impl TensorService for FakeDaemon {
    async fn execute(&self, request: Request<proto::ExecuteRequest>) -> Reply<proto::ExecuteResponse> {
        self.enter("Execute").await?;
        let request = request.into_inner();
        let mut values = BTreeMap::new();
        for input in request.inputs {
            let value = match input.source {
                Some(Source::Value(tensor)) => tensor,
                Some(Source::Handle(handle)) => self.resident(&handle)?.1,
                None => return Err(Status::invalid_argument("no source")),
            };
            values.insert(input.name, value);
        }
        for node in request.nodes {
            run(&node, &mut values)?;
        }
        let mut response = proto::ExecuteResponse::default();
        for output in request.outputs {
            let unknown = || invalid(&format!("outputs[{}]", output.name), "expected the name of a node");
            let value = values.get(&output.name).cloned().ok_or_else(unknown)?;
            if output.keep { response.kept.push(self.keep(value)) } else { response.outputs.push(value) }
        }
        Ok(Response::new(response))
    }

    async fn upload_tensor(
        &self,
        request: Request<Streaming<proto::UploadTensorRequest>>,
    ) -> Reply<proto::UploadTensorResponse> {
        self.enter("UploadTensor").await?;
        let mut parts = request.into_inner();
        let mut header = None;
        let mut data = BytesMut::new();
        while let Some(part) = parts.next().await.transpose()? {
            header = header.or(part.header);
            data.extend_from_slice(&part.data);
        }
        let header = header.ok_or_else(|| invalid("header", "expected one"))?;
        let tensor = proto::Tensor { dtype: header.dtype, shape: header.shape, data: data.freeze() };
        Ok(Response::new(proto::UploadTensorResponse { tensor: Some(self.keep(tensor)) }))
    }

    async fn download_tensor(
        &self,
        request: Request<proto::DownloadTensorRequest>,
    ) -> Reply<Replies<proto::DownloadTensorResponse>> {
        self.enter("DownloadTensor").await?;
        let (described, tensor) = self.resident(&request.into_inner().handle)?;
        let mut data = tensor.data;
        let first = data.split_to(data.len().min(DOWNLOAD_BYTES));
        let mut parts = vec![proto::DownloadTensorResponse { tensor: Some(described), data: first }];
        while !data.is_empty() {
            let part = data.split_to(data.len().min(DOWNLOAD_BYTES));
            parts.push(proto::DownloadTensorResponse { tensor: None, data: part });
        }
        Ok(Response::new(Box::pin(futures::stream::iter(parts.into_iter().map(Ok)))))
    }

    async fn free_tensors(&self, request: Request<proto::FreeTensorsRequest>) -> Reply<proto::FreeTensorsResponse> {
        self.enter("FreeTensors").await?;
        let handles = request.into_inner().handles;
        handles.iter().try_for_each(|handle| self.resident(handle).map(drop))?;
        self.state().tensors.retain(|(described, _)| !handles.contains(&described.handle));
        Ok(Response::new(proto::FreeTensorsResponse {}))
    }

    async fn list_tensors(&self, _request: Request<proto::ListTensorsRequest>) -> Reply<proto::ListTensorsResponse> {
        self.enter("ListTensors").await?;
        let tensors = self.state().tensors.iter().map(|(described, _)| described.clone()).collect();
        Ok(Response::new(proto::ListTensorsResponse { tensors }))
    }

    async fn copy_tensor(&self, request: Request<proto::CopyTensorRequest>) -> Reply<proto::CopyTensorResponse> {
        self.enter("CopyTensor").await?;
        let (_, tensor) = self.resident(&request.into_inner().handle)?;
        Ok(Response::new(proto::CopyTensorResponse { tensor: Some(self.keep(tensor)) }))
    }

    /// Every operation takes 2 ms, and moves 1 MiB at half of the rate of copies.
    async fn benchmark_op(&self, request: Request<proto::BenchmarkOpRequest>) -> Reply<proto::BenchmarkOpResponse> {
        self.enter("BenchmarkOp").await?;
        let request = request.into_inner();
        let time = Some(prost_types::Duration { seconds: 0, nanos: 2_000_000 });
        let is_product = request.op == "matmul";
        let response = proto::BenchmarkOpResponse {
            device: "cpu".into(),
            product: "Toy CPU".into(),
            repetition_count: request.repetition_count,
            min: time,
            p10: time,
            median: time,
            p90: time,
            max: time,
            launch_count: 1,
            moved_bytes: 1 << 20,
            operation_count: 1 << 22,
            bytes_per_second: 5e8,
            operations_per_second: 2e9,
            copy_bytes_per_second: 1e9,
            product_operations_per_second: if is_product { 4e9 } else { 0.0 },
            bound: if is_product { proto::BenchmarkBound::Product } else { proto::BenchmarkBound::Memory }.into(),
            bound_share: 0.5,
        };
        self.state().benchmarks.push(request);
        Ok(Response::new(response))
    }
}

impl FakeDaemon {
    fn keep(&self, tensor: proto::Tensor) -> proto::ResidentTensor {
        let mut state = self.state();
        state.made_tensors += 1;
        let described = proto::ResidentTensor {
            handle: format!("t{}", state.made_tensors),
            dtype: tensor.dtype,
            shape: tensor.shape.clone(),
            size_bytes: tensor.data.len() as u64,
            device: "cpu".into(),
            ..Default::default()
        };
        state.tensors.push((described.clone(), tensor));
        described
    }

    fn resident(&self, handle: &str) -> Result<(proto::ResidentTensor, proto::Tensor), Status> {
        let found = self.state().tensors.iter().find(|(described, _)| described.handle == handle).cloned();
        found.ok_or_else(|| {
            let details = ErrorDetails::with_resource_info("tensor", handle, "", "does not exist");
            Status::with_error_details(Code::NotFound, format!("tensor {handle:?} does not exist"), details)
        })
    }
}

fn invalid(field: &str, reason: &str) -> Status {
    let details = ErrorDetails::with_bad_request_violation(field, reason);
    Status::with_error_details(Code::InvalidArgument, format!("{field}: {reason}"), details)
}

/// Adds the results of a node to the values.
fn run(node: &proto::TensorNode, values: &mut BTreeMap<String, proto::Tensor>) -> Result<(), Status> {
    let field = |field: &str| format!("nodes[{}].{field}", node.name);
    if let Some(name) = node.attributes.keys().find(|name| *name != "alpha") {
        return Err(invalid(&field("attributes"), &format!("expected no attribute, got {name}")));
    }
    let operand = |nth: usize| {
        let found = node.inputs.get(nth).and_then(|name| values.get(name));
        let tensor = found.ok_or_else(|| invalid(&field("inputs"), "expected another operand"))?;
        let numbers = tensor.data.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]]));
        Ok::<_, Status>((tensor.shape.clone(), numbers.collect::<Vec<_>>()))
    };
    let (shape, x) = operand(0)?;
    let results: Vec<(Vec<i64>, Vec<f32>)> = match node.op.as_str() {
        "neg" => vec![(shape, x.iter().map(|x| -x).collect())],
        "add" => vec![(shape, x.iter().zip(operand(1)?.1).map(|(x, y)| x + y).collect())],
        "aminmax" => {
            [f32::min, f32::max].map(|pick| (vec![], x.iter().copied().reduce(pick).into_iter().collect())).into()
        }
        _ => return Err(invalid(&field("op"), "expected a known operation")),
    };
    for (nth, (shape, numbers)) in results.into_iter().enumerate() {
        let name = if nth == 0 { node.name.clone() } else { format!("{}:{nth}", node.name) };
        let data = numbers.into_iter().flat_map(f32::to_le_bytes).collect::<Vec<u8>>().into();
        values.insert(name, proto::Tensor { dtype: proto::Dtype::F32.into(), shape, data });
    }
    Ok(())
}
