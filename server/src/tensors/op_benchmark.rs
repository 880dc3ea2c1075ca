//! `BenchmarkOp`: measures an operation on generated operands.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use accelerd_engine::{Context, Lane, Priority};
use accelerd_kernels::{
    DeviceId,
    ops::tensor::{Benchmark, BenchmarkRequest, Benchmarked},
};
use accelerd_tensor::{Attribute, Graph, GraphSpec, NodeSpec, Plan, TensorType};

use super::{
    Tensors,
    plan_checks::{check_steps, invalid},
    resident_tensors::ResidentTensors,
};
use crate::error::{ApiError, RequestedTime};

/// The most repetitions, and those of a request that sets none.
const MAX_REPETITIONS: u32 = 10_000;
const DEFAULT_REPETITIONS: u32 = 100;

/// The most results of an operation.
const MAX_RESULTS: u32 = 64;

/// Bound of integers if a request sets none.
const DEFAULT_INTEGERS_BELOW: i64 = 100;

/// An operation to measure.
#[derive(Debug)]
pub(crate) struct OpBenchmark {
    pub(crate) op: String,
    pub(crate) operands: Vec<BenchmarkOperand>,
    pub(crate) attributes: BTreeMap<String, Attribute>,
    /// 0 for one.
    pub(crate) result_count: u32,
    /// Empty for the first GPU, or the CPU if there is none.
    pub(crate) device: String,
    /// 0 for the default.
    pub(crate) repetition_count: u32,
    /// Time after which no repetition begins.
    pub(crate) max_time: RequestedTime,
}

/// An operand to generate.
#[derive(Debug)]
pub(crate) struct BenchmarkOperand {
    pub(crate) of: TensorType,
    /// Bound of its integers; 0 for the default.
    pub(crate) integers_below: i64,
}

/// Times of an operation.
#[derive(Debug)]
pub(crate) struct MeasuredOp {
    pub(crate) device: DeviceId,
    /// Name of the device's product.
    pub(crate) product: String,
    pub(crate) plan: Arc<Plan>,
    pub(crate) times: Benchmarked,
}

/// The lane of benchmarks.
pub(crate) struct Benchmarks {
    tensors: Tensors,
    lane: Lane<Benchmark>,
    max_nodes: usize,
    max_time: Duration,
}

impl Benchmarks {
    /// Operations have fewer than `max_nodes` operands, and a benchmark begins no repetition after `max_time`.
    pub(crate) fn new(tensors: &Tensors, max_nodes: usize, max_time: Duration) -> Self {
        Self { tensors: tensors.clone(), lane: tensors.lane(), max_nodes, max_time }
    }

    /// Measures an operation at the lowest priority.
    pub(crate) async fn run(
        &self,
        tensors: &ResidentTensors,
        context: Context,
        request: OpBenchmark,
    ) -> Result<MeasuredOp, ApiError> {
        let first = tensors.devices().next().filter(|_| request.device.is_empty());
        let device = first.map_or_else(|| tensors.device("device", &request.device), Ok)?;
        let repetitions = repetitions(request.repetition_count)?;
        let max_time = self.max_time(request.max_time.as_ref())?;
        let (plan, integers_below) = plan(request, self.max_nodes)?;
        let benchmark = BenchmarkRequest::new(Arc::clone(&plan), &integers_below, device).map_err(|error| {
            ApiError::invalid("operands", format!("expected {}, got {}", error.expected, error.got))
        })?;
        let benchmark = benchmark.repeated(repetitions as usize, max_time, context.deadline);
        let done = self.lane.submit(benchmark, Context { priority: Priority::Low, ..context }).await?;
        let devices = self.tensors.engine.devices();
        let product = devices.iter().map(|(device, _)| device.info()).find(|info| info.id == device);
        let product = product.map(|info| info.product.clone()).unwrap_or_default();
        Ok(MeasuredOp { device, product, plan, times: done.response })
    }

    fn max_time(&self, requested: Option<&Result<Duration, String>>) -> Result<Duration, ApiError> {
        let max_time = self.max_time;
        let got = match requested {
            None => return Ok(max_time),
            Some(Ok(time)) if *time <= max_time => return Ok(*time),
            Some(Ok(time)) => format!("{time:?}"),
            Some(Err(got)) => got.clone(),
        };
        Err(ApiError::invalid("max_time", format!("expected at least 0s and at most {max_time:?}, got {got}")))
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

/// Returns the plan of the operation, and the bound of the integers of each operand.
fn plan(request: OpBenchmark, max_nodes: usize) -> Result<(Arc<Plan>, Vec<i64>), ApiError> {
    let OpBenchmark { op, operands, attributes, result_count, .. } = request;
    let results = result_count.max(1);
    if results > MAX_RESULTS {
        let reason = format!("expected at most {MAX_RESULTS}, got {results}");
        return Err(ApiError::invalid("result_count", reason));
    }
    if operands.len() >= max_nodes {
        let reason = format!("expected fewer than {max_nodes}, got {}", operands.len());
        return Err(ApiError::invalid("operands", reason));
    }
    let mut spec = GraphSpec::default();
    let mut integers_below = vec![];
    for (nth, operand) in operands.into_iter().enumerate() {
        let field = format!("operands[{nth}]");
        integers_below.push(below(&field, operand.integers_below)?);
        spec.inputs.push((field, operand.of));
    }
    let inputs = spec.inputs.iter().map(|(name, _)| name.clone()).collect();
    spec.nodes = vec![NodeSpec { name: op.clone(), op: op.clone(), inputs, attributes }];
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
