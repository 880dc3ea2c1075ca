//! Stage timing of searches, for benchmarks: while tracing, each stage is synchronised.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{OpError, cuda::Worker};

static STAGES: Mutex<Option<Vec<(&'static str, Duration)>>> = Mutex::new(None);

fn stages() -> MutexGuard<'static, Option<Vec<(&'static str, Duration)>>> {
    STAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `work` and returns the time of each stage of its searches on a GPU, in order. Synchronisation adds some
/// microseconds to a stage. Only one thread may trace at a time.
pub fn trace_stages(work: impl FnOnce()) -> Vec<(&'static str, Duration)> {
    *stages() = Some(vec![]);
    work();
    stages().take().unwrap_or_default()
}

/// Runs one stage, timed while tracing.
pub(super) fn stage<T>(
    name: &'static str,
    on: &Worker,
    work: impl FnOnce() -> Result<T, OpError>,
) -> Result<T, OpError> {
    if stages().is_none() {
        return work();
    }
    on.synchronize()?;
    let start = Instant::now();
    let result = work()?;
    on.synchronize()?;
    let took = start.elapsed();
    if let Some(stages) = stages().as_mut() {
        stages.push((name, took));
    }
    Ok(result)
}
