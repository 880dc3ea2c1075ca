//! Spans of a request's stages: its wait in the queue, its batch, and the kernels of the batch.
//!
//! A batch serves many traces, so that its span is the root of its own trace and links to those of its requests. The trace of
//! each request has a span of the batch too, which links to that one.

use std::{any::Any, cell::RefCell};

use accelerd_kernels::DeviceId;
use tracing::Span;

/// Most requests of a batch whose traces show its kernels. Those of the others link to the batch, which shows them.
const MAX_KERNEL_TRACES: usize = 16;

thread_local! {
    /// The spans of the launch that this thread runs, in the traces of its requests.
    static LAUNCH_SPANS: RefCell<Vec<Span>> = const { RefCell::new(vec![]) };
}

/// The trace of a request. It costs nothing if the caller's span is disabled.
pub(crate) struct RequestTrace {
    request: Span,
    /// The span of the current stage, a child of the request's. A stage ends when it is replaced.
    stage: Span,
}

impl RequestTrace {
    /// The trace of the caller's current span.
    pub(crate) fn current() -> Self {
        Self { request: Span::current(), stage: Span::none() }
    }

    /// The request is queued.
    pub(crate) fn enqueued(&mut self, lane: &'static str) {
        self.end_stage();
        if !self.request.is_disabled() {
            self.stage = tracing::debug_span!(parent: &self.request, "queue", lane);
        }
    }

    /// The request left the queue as one of the `requests` of a batch.
    fn batched(&mut self, lane: &'static str, device: DeviceId, requests: usize, batch: &Span) {
        self.end_stage();
        if !self.request.is_disabled() {
            let stage = tracing::debug_span!(parent: &self.request, "batch", lane, %device, requests);
            stage.follows_from(batch);
            self.stage = stage;
        }
    }

    pub(crate) fn end_stage(&mut self) {
        self.stage = Span::none();
    }
}

/// Opens the span of a batch, and its spans in the traces of the requests.
pub(crate) fn batch<'a>(
    lane: &'static str,
    device: DeviceId,
    requests: impl ExactSizeIterator<Item = &'a mut RequestTrace>,
) -> Span {
    let count = requests.len();
    let span = tracing::info_span!(parent: None, "batch", lane, %device, requests = count);
    for trace in requests {
        span.follows_from(&trace.request);
        trace.batched(lane, device, count, &span);
    }
    span
}

/// Shows the kernels that this thread runs in the traces of these requests, until it is dropped.
pub(crate) struct KernelTraces;

impl KernelTraces {
    pub(crate) fn of<'a>(requests: impl Iterator<Item = &'a RequestTrace>) -> Self {
        let stages = requests.map(|trace| &trace.stage).filter(|stage| !stage.is_disabled());
        let stages = stages.take(MAX_KERNEL_TRACES).cloned();
        LAUNCH_SPANS.with_borrow_mut(|spans| spans.extend(stages));
        Self
    }
}

impl Drop for KernelTraces {
    fn drop(&mut self) {
        // Closed outside of the borrow: subscribers run code of their own.
        drop(LAUNCH_SPANS.take());
    }
}

/// Opens the spans of a kernel, which end when the result is dropped: of its batch, and in the traces of the requests.
pub(crate) fn kernel(name: &'static str, device: DeviceId) -> Option<Box<dyn Any>> {
    let span = tracing::info_span!("kernel", otel.name = name, kernel = name, %device);
    if span.is_disabled() {
        return None;
    }
    let stages = LAUNCH_SPANS.with_borrow(Clone::clone);
    let in_requests =
        |stage: &Span| tracing::debug_span!(parent: stage, "kernel", otel.name = name, kernel = name, %device);
    let in_requests: Vec<_> = stages.iter().map(in_requests).collect();
    Some(Box::new((span.entered(), in_requests)))
}
