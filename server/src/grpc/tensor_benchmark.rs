//! `BenchmarkOp`: measures an operation on generated operands.

use std::{sync::Arc, time::Duration};

use accelerd_engine::{Context, Lane, Priority};
use accelerd_kernels::{
    DeviceId,
    ops::tensor::{Benchmark, BenchmarkBound, BenchmarkRequest, Benchmarked},
};
use accelerd_proto::v1 as pb;
use accelerd_tensor::{Graph, GraphSpec, Plan};

use super::{
    resident_tensors::{ResidentTensors, tensor_type},
    tensor_graph::{check_steps, invalid, node},
};
use crate::{app::App, error::ApiError};

/// The most repetitions, and those of a request that sets none.
const MAX_REPETITIONS: u32 = 10_000;
const DEFAULT_REPETITIONS: u32 = 100;

/// The most results of an operation.
const MAX_RESULTS: u32 = 64;

/// Integers are below this if a request does not say below what.
const DEFAULT_INTEGERS_BELOW: i64 = 100;

/// The lane of benchmarks.
#[derive(Debug)]
pub(super) struct Benchmarks {
    app: Arc<App>,
    lane: Lane<Benchmark>,
}

impl Benchmarks {
    pub(super) fn new(app: &Arc<App>) -> Self {
        let config = app.config.lanes.lane(&app.config.lanes.tensor);
        Self { app: Arc::clone(app), lane: app.engine.lane(config) }
    }

    /// Measures an operation at the lowest priority.
    pub(super) async fn run(
        &self,
        tensors: &ResidentTensors,
        context: Context,
        request: pb::BenchmarkOpRequest,
    ) -> Result<pb::BenchmarkOpResponse, ApiError> {
        let first = tensors.devices().next().filter(|_| request.device.is_empty());
        let device = first.map_or_else(|| tensors.device("device", &request.device), Ok)?;
        let repetitions = repetitions(request.repetition_count)?;
        let max_time = self.max_time(request.max_time)?;
        let (plan, integers_below) = plan(request, self.app.config.limits.max_graph_nodes)?;
        let benchmark = BenchmarkRequest::new(Arc::clone(&plan), &integers_below, device).map_err(|error| {
            ApiError::invalid("operands", format!("expected {}, got {}", error.expected, error.got))
        })?;
        let benchmark = benchmark.repeated(repetitions as usize, max_time, context.deadline);
        let done = self.lane.submit(benchmark, Context { priority: Priority::Low, ..context }).await?;
        Ok(self.response(device, &plan, &done.response))
    }

    fn max_time(&self, requested: Option<prost_types::Duration>) -> Result<Duration, ApiError> {
        let most = self.app.config.limits.max_benchmark_time;
        let Some(requested) = requested else { return Ok(most) };
        let time = Duration::try_from(requested).ok().filter(|time| *time <= most);
        time.ok_or_else(|| {
            let got = format!("{}s and {}ns", requested.seconds, requested.nanos);
            ApiError::invalid("max_time", format!("expected at least 0s and at most {most:?}, got {got}"))
        })
    }

    fn response(&self, device: DeviceId, plan: &Plan, measured: &Benchmarked) -> pb::BenchmarkOpResponse {
        let devices = self.app.engine.devices();
        let product = devices.iter().map(|(device, _)| device.info()).find(|info| info.id == device);
        let time = |share: f64| prost_types::Duration::try_from(measured.quantile(share)).ok();
        let workload = plan.workload();
        let (bound, bound_share) = measured.bound(plan);
        let bound = match bound {
            BenchmarkBound::Memory => pb::BenchmarkBound::Memory,
            BenchmarkBound::Product => pb::BenchmarkBound::Product,
        };
        pb::BenchmarkOpResponse {
            device: device.to_string(),
            product: product.map(|info| info.product.clone()).unwrap_or_default(),
            repetition_count: u32::try_from(measured.times.len()).unwrap_or(u32::MAX),
            min: time(0.0),
            p10: time(0.1),
            median: time(0.5),
            p90: time(0.9),
            max: time(1.0),
            launch_count: u32::try_from(measured.launches).unwrap_or(u32::MAX),
            moved_bytes: workload.moved(),
            operation_count: workload.operations,
            bytes_per_second: measured.rate(workload.moved()),
            operations_per_second: measured.rate(workload.operations),
            copy_bytes_per_second: measured.copy_rate,
            product_operations_per_second: measured.product_rate.unwrap_or_default(),
            bound: bound.into(),
            bound_share,
        }
    }
}

fn repetitions(requested: u32) -> Result<u32, ApiError> {
    match requested {
        0 => Ok(DEFAULT_REPETITIONS),
        1..=MAX_REPETITIONS => Ok(requested),
        _ => {
            let reason = format!("expected at most {MAX_REPETITIONS}, got {requested}");
            Err(ApiError::invalid("repetition_count", reason))
        }
    }
}

/// The plan of the operation, and below what the integers of each operand are.
fn plan(request: pb::BenchmarkOpRequest, max_nodes: usize) -> Result<(Arc<Plan>, Vec<i64>), ApiError> {
    let pb::BenchmarkOpRequest { op, operands, attributes, result_count, .. } = request;
    let results = result_count.max(1);
    if results > MAX_RESULTS {
        let reason = format!("expected at most {MAX_RESULTS}, got {results}");
        return Err(ApiError::invalid("result_count", reason));
    }
    if operands.len() >= max_nodes {
        let reason = format!("expected fewer than {max_nodes}, got {}", operands.len());
        return Err(ApiError::invalid("operands", reason));
    }
    let (mut spec, mut integers_below) = (GraphSpec::default(), vec![]);
    for (nth, operand) in operands.into_iter().enumerate() {
        let field = format!("operands[{nth}]");
        let of = tensor_type(&field, operand.dtype, &operand.shape)?;
        integers_below.push(below(&field, operand.integers_below)?);
        spec.inputs.push((field, of));
    }
    let inputs = spec.inputs.iter().map(|(name, _)| name.clone()).collect();
    spec.nodes = vec![node(pb::TensorNode { name: op.clone(), op: op.clone(), inputs, attributes })?];
    spec.outputs = (0..results).map(|nth| if nth == 0 { op.clone() } else { format!("{op}:{nth}") }).collect();
    let plan = Plan::new(&Graph::new(&spec).map_err(invalid)?);
    check_steps(&plan)?;
    Ok((Arc::new(plan), integers_below))
}

fn below(operand: &str, requested: i64) -> Result<i64, ApiError> {
    match requested {
        0 => Ok(DEFAULT_INTEGERS_BELOW),
        1.. => Ok(requested),
        _ => {
            Err(ApiError::invalid(format!("{operand}.integers_below"), format!("expected at least 0, got {requested}")))
        }
    }
}
