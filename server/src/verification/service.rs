//! The service of verifications: the lane of comparisons, the processes that run functions, and limits.

use std::sync::Arc;

use accelerd_engine::{Lane, SubmitError};
use accelerd_kernels::{ledger::Allowance, ops::compare::Compare};
use tokio::sync::Semaphore;

use crate::{
    app::App,
    error::ApiError,
    kernels::{CudaKernels, KernelCache},
    sandbox::Sandboxes,
    tensors::resident_tensors::ResidentTensors,
};

/// Mismatches that are listed if a request does not say how many.
const DEFAULT_MISMATCHES: u32 = 10;

/// Failing cases that are returned if a request does not say how many.
const DEFAULT_COUNTEREXAMPLES: u32 = 5;

/// KiB of inputs that are made before the turn of their chunk comes, of all calls. Further ones are made when their turn has come.
const GENERATED_AHEAD: usize = 128 << 10;

/// Resources and limits that all verifications share.
pub(crate) struct VerificationService {
    pub(super) lane: Lane<Compare>,
    pub(super) resident: ResidentTensors,
    pub(super) kernels: KernelCache,
    pub(super) cuda_kernels: Arc<CudaKernels>,
    pub(super) sandboxes: Sandboxes,
    pub(super) generated_ahead: Arc<Semaphore>,
    /// Host memory for the copies that requests need.
    pub(super) memory: Arc<Allowance>,
    pub(super) max_outputs: usize,
    max_mismatches: u32,
    max_counterexamples: u32,
    pub(super) max_generated_cases: u64,
    pub(super) max_message: usize,
}

impl VerificationService {
    /// That of a daemon, with lanes of its own.
    pub(crate) fn new(app: &App) -> Self {
        let config = &app.config;
        Self {
            lane: app.engine.lane(config.lanes.lane(&config.lanes.compare)),
            resident: ResidentTensors::new(&app.tensors),
            kernels: app.kernels.clone(),
            cuda_kernels: Arc::clone(&app.cuda_kernels),
            sandboxes: app.sandboxes.clone(),
            memory: Arc::clone(&app.requests),
            generated_ahead: Arc::new(Semaphore::new(GENERATED_AHEAD)),
            max_outputs: config.limits.max_compared_outputs,
            max_mismatches: config.limits.max_mismatches,
            max_counterexamples: config.limits.max_counterexamples,
            max_generated_cases: config.limits.max_generated_cases,
            max_message: config.server.max_message(),
        }
    }

    pub(super) fn max_counterexamples(&self, requested: Option<u32>) -> Result<usize, ApiError> {
        let limit = self.max_counterexamples;
        let count = requested.unwrap_or(DEFAULT_COUNTEREXAMPLES.min(limit));
        if count > limit {
            let reason = format!("expected at most {limit} counterexamples, got {count}");
            return Err(ApiError::invalid("header.max_counterexamples", reason));
        }
        Ok(count as usize)
    }

    pub(super) fn max_mismatches(&self, field: &str, requested: Option<u32>) -> Result<usize, ApiError> {
        let limit = self.max_mismatches;
        let count = requested.unwrap_or(DEFAULT_MISMATCHES.min(limit));
        if count > limit {
            return Err(ApiError::invalid(field, format!("expected at most {limit} mismatches, got {count}")));
        }
        Ok(count as usize)
    }
}

/// Runs long work on a thread of its own.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_aborted) => Err(SubmitError::Draining.into()),
        },
    }
}
