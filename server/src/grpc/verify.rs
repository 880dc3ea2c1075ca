//! `VerifyService`: compares outputs with expected ones, at once or in a stream of chunks, and functions with functions.

use std::{sync::Arc, time::Duration};

use accelerd_engine::{Context, Lane, SubmitError};
use accelerd_kernels::{
    Op as _,
    ledger::Allowance,
    ops::compare::{Compare, CompareRequest, Comparison, Pair},
};
use accelerd_proto::v1 as pb;
use accelerd_sandbox::CaseLimits;
use accelerd_tensor::TensorType;
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status};

use self::{
    function::Limits,
    outputs::{Decoder, Output},
    policy::Policies,
};
use crate::{
    app::App,
    auth::caller::Caller,
    error::ApiError,
    grpc::{
        call::{Requests, Responses},
        context::context,
        dtype::dtype_to_proto,
        handlers::VerifyService,
        resident_tensors::{ResidentTensors, is_on_gpu},
    },
    kernels::KernelCache,
    layers::timing,
    ledger::RequestMemory,
    sandbox::Sandboxes,
    status::response_too_large,
};

mod cases;
mod chunks;
mod column;
mod counterexamples;
mod evaluate;
mod function;
mod gather;
mod generated;
mod header;
mod outcome;
mod outputs;
mod pipeline;
mod policy;
mod report;
mod screen_queue;
mod screening;
mod sides;
mod totals;
mod unordered;
mod wasm;

/// Mismatches that are listed if a request does not say how many.
const DEFAULT_MISMATCHES: u32 = 10;

/// Failing cases that are returned if a request does not say how many.
const DEFAULT_COUNTEREXAMPLES: u32 = 5;

/// The most iterations of all loops of a case if a request does not say how many.
const DEFAULT_LOOP_BUDGET: u64 = 1 << 32;

/// KiB of inputs that are made before the turn of their chunk comes, of all calls. Further ones are made when their turn has come.
const GENERATED_AHEAD: usize = 128 << 10;

/// The service.
#[derive(Clone)]
pub(super) struct Verifier(Arc<State>);

struct State {
    app: Arc<App>,
    lane: Lane<Compare>,
    resident: ResidentTensors,
    kernels: KernelCache,
    sandboxes: Sandboxes,
    generated_ahead: Arc<Semaphore>,
    /// Host memory of what requests are copied to.
    memory: Arc<Allowance>,
    max_outputs: usize,
    max_mismatches: u32,
    max_counterexamples: u32,
    max_generated_cases: u64,
    max_message: usize,
}

impl Verifier {
    pub(super) fn new(app: &Arc<App>) -> Self {
        let config = &app.config;
        Self(Arc::new(State {
            app: Arc::clone(app),
            lane: app.engine.lane(config.lanes.lane(&config.lanes.compare)),
            resident: ResidentTensors::new(app),
            kernels: app.kernels.clone(),
            sandboxes: app.sandboxes.clone(),
            memory: Arc::clone(&app.requests),
            generated_ahead: Arc::new(Semaphore::new(GENERATED_AHEAD)),
            max_outputs: config.limits.max_compared_outputs,
            max_mismatches: config.limits.max_mismatches,
            max_counterexamples: config.limits.max_counterexamples,
            max_generated_cases: config.limits.max_generated_cases,
            max_message: config.server.max_message(),
        }))
    }
}

impl VerifyService for Verifier {
    async fn compare_outputs(
        &self,
        request: Request<pb::CompareOutputsRequest>,
    ) -> Result<Response<pb::CompareOutputsResponse>, Status> {
        let (caller, context) = (Caller::of(request.extensions()), context(&request));
        Ok(Response::new(self.0.compare_outputs(&caller, context, request.into_inner()).await?))
    }

    fn verify(
        &self,
        caller: Caller,
        context: Context,
        requests: Requests<pb::VerifyRequest>,
    ) -> Responses<pb::VerifyResponse> {
        pipeline::responses(Arc::clone(&self.0), caller, context, requests)
    }
}

impl State {
    async fn compare_outputs(
        &self,
        caller: &Caller,
        context: Context,
        request: pb::CompareOutputsRequest,
    ) -> Result<pb::CompareOutputsResponse, Status> {
        let pb::CompareOutputsRequest { actual, expected, policy, output_policies, max_mismatches, row_verdicts } =
            request;
        let policies = Policies::new(policy, output_policies)?;
        let max_mismatches = self.max_mismatches("max_mismatches", max_mismatches)?;
        let decoded = self.decoder(caller, &policies, "").outputs(actual, expected)?;
        policies.check_outputs(|name| decoded.outputs.iter().any(|output| output.name == name))?;
        let rows = |output: &Output| if row_verdicts && !output.any_order { output.rows() } else { 0 };
        self.check_response(&decoded.outputs, max_mismatches, rows)?;
        let pairs = decoded.outputs.iter().map(|output| output.pair(max_mismatches, rows(output))).collect();
        let compared = self.compare_by_order(&decoded.outputs, pairs, 1, &context).await?;
        let outputs = decoded.outputs.iter().zip(compared);
        let outputs: Vec<_> = outputs
            .map(|(output, compared)| {
                let elements = output.expected.elements() as u64;
                let verdict = verdict(output.incomparable, compared.as_ref());
                comparison(output, &output.actual, &output.expected, verdict, compared.map(|all| (elements, all)))
            })
            .collect();
        let passed = outputs.iter().all(|output| output.verdict() == pb::OutputVerdict::Passed);
        Ok(pb::CompareOutputsResponse { passed, outputs })
    }

    fn decoder<'a>(&'a self, caller: &'a Caller, policies: &'a Policies, prefix: &'static str) -> Decoder<'a> {
        Decoder { resident: &self.resident, caller, policies, max_outputs: self.max_outputs, prefix }
    }

    /// Compares the pairs that there are, in their places.
    async fn compare(&self, pairs: Vec<Option<Pair>>, context: Context) -> Result<Vec<Option<Comparison>>, ApiError> {
        let places: Vec<_> = pairs.iter().map(Option::is_some).collect();
        let mut pairs: Vec<_> = pairs.into_iter().flatten().collect();
        if pairs.is_empty() {
            return Ok(places.into_iter().map(|_| None).collect());
        }
        let mut memory = RequestMemory::new(&self.memory);
        self.gather(&mut pairs, &mut memory, &context).await?;
        let mut compared = self.compare_gathered(pairs, &mut memory, context).await?.into_iter();
        Ok(places.into_iter().map(|is_compared| if is_compared { compared.next() } else { None }).collect())
    }

    /// Compares pairs on the device that holds them. If it has no memory to compare in, the CPU compares copies.
    async fn compare_gathered(
        &self,
        pairs: Vec<Pair>,
        memory: &mut RequestMemory,
        context: Context,
    ) -> Result<Vec<Comparison>, ApiError> {
        let reads_gpu = pairs.iter().any(|pair| is_on_gpu(&pair.actual) || is_on_gpu(&pair.expected));
        let again = reads_gpu.then(|| pairs.clone());
        let request = CompareRequest::new(pairs);
        let size = Compare::size(&request);
        let done = match (self.lane.submit(request, context.clone()).await, again) {
            (Err(error), Some(mut pairs)) if self.lane.falls_back(&error, size, &context) => {
                for side in pairs.iter_mut().flat_map(|pair| [&mut pair.actual, &mut pair.expected]) {
                    self.resident.move_to_host(side, memory, &context).await?;
                }
                self.lane.submit(CompareRequest::new(pairs), context).await?
            }
            (done, _) => done?,
        };
        timing::record(&done);
        Ok(done.response)
    }

    fn max_counterexamples(&self, requested: Option<u32>) -> Result<usize, ApiError> {
        let limit = self.max_counterexamples;
        let most = requested.unwrap_or(DEFAULT_COUNTEREXAMPLES.min(limit));
        if most > limit {
            let reason = format!("expected at most {limit} counterexamples, got {most}");
            return Err(ApiError::invalid("header.max_counterexamples", reason));
        }
        Ok(most as usize)
    }

    fn case_limits(&self, limits: Option<pb::CaseLimits>) -> Result<Limits, ApiError> {
        let (limits, most, defaults) = (limits.unwrap_or_default(), self.sandboxes.limits(), CaseLimits::default());
        let timeout = match limits.timeout {
            Some(timeout) => Duration::try_from(timeout)
                .map_err(|_| ApiError::invalid("header.limits.timeout", "expected a duration of at least 0"))?,
            None => defaults.timeout.min(most.case_timeout),
        };
        if timeout.is_zero() || timeout > most.case_timeout {
            let reason = format!("expected more than 0 s and at most {:?}, got {timeout:?}", most.case_timeout);
            return Err(ApiError::invalid("header.limits.timeout", reason));
        }
        let memory_bytes = limits.memory_bytes.unwrap_or(defaults.memory_bytes.min(most.case_memory.as_u64()));
        if memory_bytes > most.case_memory.as_u64() {
            let reason = format!("expected at most {} bytes, got {memory_bytes}", most.case_memory.as_u64());
            return Err(ApiError::invalid("header.limits.memory_bytes", reason));
        }
        let case = CaseLimits { timeout, fuel: limits.fuel, memory_bytes };
        Ok(Limits { case, loop_budget: limits.loop_budget.unwrap_or(DEFAULT_LOOP_BUDGET) })
    }

    fn max_mismatches(&self, field: &str, requested: Option<u32>) -> Result<usize, ApiError> {
        let limit = self.max_mismatches;
        let most = requested.unwrap_or(DEFAULT_MISMATCHES.min(limit));
        if most > limit {
            return Err(ApiError::invalid(field, format!("expected at most {limit} mismatches, got {most}")));
        }
        Ok(most as usize)
    }

    /// Refuses reports of outputs that would exceed the maximum message size, whatever differs. Returns the bytes that are left.
    fn check_response(
        &self,
        outputs: &[Output],
        max_mismatches: usize,
        rows: impl Fn(&Output) -> usize,
    ) -> Result<usize, Status> {
        let bytes = outputs.iter().fold(0_usize, |bytes, output| {
            let dims = output.actual.shape.len() + output.expected.shape.len();
            let mismatches = max_mismatches.min(output.expected.elements()) * report::MISMATCH_BYTES;
            let described = report::DIFFERENCES_BYTES + output.name.len() + 10 * dims;
            bytes.saturating_add(described + mismatches + rows(output).div_ceil(8))
        });
        self.max_message.checked_sub(bytes).ok_or_else(|| response_too_large(bytes, self.max_message))
    }
}

/// Runs what takes long on a thread of its own.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_aborted) => Err(SubmitError::Draining.into()),
        },
    }
}

fn verdict(incomparable: Option<pb::OutputVerdict>, compared: Option<&Comparison>) -> pb::OutputVerdict {
    match (incomparable, compared) {
        (Some(verdict), _) => verdict,
        (None, Some(compared)) if !compared.is_equal() => pb::OutputVerdict::Mismatch,
        (None, _) => pb::OutputVerdict::Passed,
    }
}

/// The report of an output. `compared` comes with the number of elements.
fn comparison(
    output: &Output,
    actual: &TensorType,
    expected: &TensorType,
    verdict: pb::OutputVerdict,
    compared: Option<(u64, Comparison)>,
) -> pb::OutputComparison {
    let shape = |of: &TensorType| of.shape.iter().map(|extent| i64::try_from(*extent).unwrap_or(i64::MAX)).collect();
    pb::OutputComparison {
        name: output.name.clone(),
        verdict: verdict.into(),
        actual_dtype: dtype_to_proto(actual.dtype).into(),
        expected_dtype: dtype_to_proto(expected.dtype).into(),
        actual_shape: shape(actual),
        expected_shape: shape(expected),
        tolerances: policy::tolerances(&output.policy.rules),
        differences: compared.map(|(elements, compared)| report::differences(expected.dtype, elements, compared)),
    }
}
