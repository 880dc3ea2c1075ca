//! Runs a batch: drops what nobody waits for, launches, answers, and splits what failed.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use accelerd_kernels::{Op, OpError};
use tracing::Span;

use crate::{
    admission::Permit,
    device::Bench,
    lane::{Answer, Pending, Station},
    metrics::{Stage, kind_of},
    outcome::Done,
    stats::Launch,
};

/// Runs a batch to its end: each of its requests is answered, or given back to its caller to try another device. Returns
/// how long it ran, if it ran whole.
pub(crate) fn run<O: Op>(station: &Station<O>, bench: &mut Bench, batch: Vec<Pending<O>>) -> Option<Duration> {
    let span = span_of(&batch, bench);
    let _entered = span.enter();
    let whole = batch.len();
    let mut took = None;
    let mut parts = vec![batch];
    while let Some(part) = parts.pop() {
        let part = station.still_wanted(part);
        if bench.desk.lost().is_some() {
            station.give_back(part, false);
        } else if !part.is_empty() {
            let requests = part.len();
            let (outcome, execute) = launch(station, bench, &part);
            if requests == whole {
                took = outcome.is_ok().then_some(execute.took);
            }
            settle(station, bench, part, outcome, &execute, &mut parts);
        }
    }
    took
}

/// When a launch began, and how long it took.
struct Execution {
    began: Instant,
    took: Duration,
}

/// A span of each kernel that runs on the CPU, within its batch's.
pub(crate) fn observe_kernels() {
    accelerd_kernels::observe_kernels(|name| {
        let span = tracing::info_span!("kernel", otel.name = name, kernel = name, device = "cpu");
        if span.is_disabled() { None } else { Some(Box::new(span.entered())) }
    });
}

/// A span that links to the spans of the requests: a batch serves many traces.
fn span_of<O: Op>(batch: &[Pending<O>], bench: &Bench) -> Span {
    let span =
        tracing::info_span!(parent: None, "batch", lane = O::NAME, device = %bench.desk.id(), requests = batch.len());
    if !span.is_disabled() {
        for pending in batch {
            span.follows_from(&pending.job.span);
        }
    }
    span
}

/// Launches once and records it.
fn launch<O: Op>(
    station: &Station<O>,
    bench: &mut Bench,
    part: &[Pending<O>],
) -> (Result<Vec<O::Response>, OpError>, Execution) {
    let began = Instant::now();
    let outcome = execute::<O>(bench, part);
    let took = began.elapsed();
    let launch = Launch {
        requests: part.len() as u64,
        items: part.iter().map(|pending| pending.job.size.items).sum(),
        fill_ratio: station.fill_ratio(part),
        execute: took,
    };
    station.core.record.launched(&launch, part.iter().map(|pending| pending.job.waited(began)));
    let waits = part.iter().map(|pending| pending.job.waited(began).as_secs_f64());
    station.shared.metrics.launched(&station.core.labels, bench.desk.index, &launch, waits);
    (outcome, Execution { began, took })
}

/// Calls the operation, which may panic and may return the wrong number of responses.
fn execute<O: Op>(bench: &mut Bench, part: &[Pending<O>]) -> Result<Vec<O::Response>, OpError> {
    let requests: Vec<_> = part.iter().map(|pending| &pending.job.request).collect();
    let failed = |reason| OpError::Failed { device: bench.desk.id(), kernel: O::NAME, reason };
    match catch_unwind(AssertUnwindSafe(|| O::run(&requests, &mut bench.backend))) {
        Ok(Ok(responses)) if responses.len() != part.len() => {
            Err(failed(format!("{} responses to {} requests", responses.len(), part.len())))
        }
        Ok(outcome) => outcome,
        Err(panic) => {
            let error = failed(format!("it panicked: {}", message_of(panic.as_ref())));
            tracing::error!(lane = O::NAME, %error, "an operation panicked; its backend is opened anew");
            // What the panic left half done in the backend is thrown away with it.
            let reopened = bench.desk.device().open();
            bench.backend = reopened.map_err(|open| OpError::DeviceLost {
                device: bench.desk.id(),
                reason: format!("{error}, and the backend could not be opened again: {open}"),
            })?;
            Err(error)
        }
    }
}

fn message_of(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Answers the requests of a launch, or says what becomes of them.
fn settle<O: Op>(
    station: &Station<O>,
    bench: &Bench,
    mut part: Vec<Pending<O>>,
    outcome: Result<Vec<O::Response>, OpError>,
    execution: &Execution,
    parts: &mut Vec<Vec<Pending<O>>>,
) {
    let error = match outcome {
        Ok(responses) => return answer(station, bench, part, responses, execution),
        Err(error) => error,
    };
    station.shared.metrics.failed(kind_of(&error));
    if let OpError::DeviceLost { reason, .. } = error {
        bench.desk.lose(reason);
        station.give_back(part, true);
    } else if part.len() == 1 {
        station.core.record.count(|counts| counts.failures += 1);
        for pending in part {
            reply(station, pending, |_, _| Answer::Failed(error.clone().into()));
        }
    } else {
        tracing::debug!(lane = O::NAME, requests = part.len(), %error, "a batch failed and is split");
        station.core.record.count(|counts| counts.splits += 1);
        let right = part.split_off(part.len() / 2);
        parts.extend([right, part]);
    }
}

fn answer<O: Op>(
    station: &Station<O>,
    bench: &Bench,
    part: Vec<Pending<O>>,
    responses: Vec<O::Response>,
    execution: &Execution,
) {
    let batch_requests = part.len();
    let device = bench.desk.id();
    // Freed behind the last reply: to free a large input takes longer than to answer.
    let mut spent = Vec::with_capacity(batch_requests);
    for (pending, response) in part.into_iter().zip(responses) {
        let queue = pending.job.waited(execution.began);
        let done = Done { response, device, batch_requests, queue, execute: execution.took };
        reply(station, pending, |request, permit| {
            spent.push(request);
            Answer::Done(done, permit)
        });
    }
}

/// Answers one request; its part of the budget is free once the caller has taken the answer.
fn reply<O: Op>(station: &Station<O>, pending: Pending<O>, answer: impl FnOnce(O::Request, Permit) -> Answer<O>) {
    let Pending { job, reply } = pending;
    let deadline = job.context.deadline;
    if reply.send(answer(job.request, job.permit)).is_err() {
        station.count_gone(Stage::Running, deadline);
    }
}
