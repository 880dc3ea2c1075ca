//! Per-call timings: a request with `accelerd-timing: 1` gets a `server-timing` response header.

use std::{
    cell::Cell,
    fmt::Write as _,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use accelerd_engine::Completion;
use http::{HeaderValue, Request, Response};
use pin_project_lite::pin_project;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;
use tower::{Layer, Service};
use tracing::Instrument;

/// Request header that asks for timings.
pub const TIMING_REQUEST: &str = "accelerd-timing";

/// Response header with timings, in the syntax of W3C Server Timing.
pub const TIMING_RESPONSE: &str = "server-timing";

tokio::task_local! {
    static STAGES: Cell<Stages>;
}

/// Time in the stages of a call, summed over its requests to the engine.
#[derive(Clone, Copy, Debug, Default)]
struct Stages {
    queue: Duration,
    execute: Duration,
}

/// Adds the timings of an engine response to those of the current call, if they were requested.
pub fn record<R>(done: &Completion<R>) {
    add(done.queue, done.execute);
}

/// Adds the time of one request to the engine.
pub(crate) fn add(queue: Duration, execute: Duration) {
    let _not_requested = STAGES.try_with(|stages| {
        let before = stages.get();
        stages.set(Stages { queue: before.queue + queue, execute: before.execute + execute });
    });
}

/// Runs a part of the call as a task on another runtime and adds its timings to the call's. Dropping the future aborts the
/// task; a panic of the task propagates.
pub(crate) async fn spawn_on<T: Send + 'static>(handle: &Handle, part: impl Future<Output = T> + Send + 'static) -> T {
    let timed = STAGES.scope(Cell::default(), async { (part.await, STAGES.with(Cell::get)) });
    match AbortOnDropHandle::new(handle.spawn(timed.in_current_span())).await {
        Ok((done, stages)) => {
            add(stages.queue, stages.execute);
            done
        }
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down with the daemon.
            Err(_cancelled) => std::future::pending().await,
        },
    }
}

/// Adds timings to responses.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimingLayer;

/// See [`TimingLayer`].
#[derive(Clone, Debug)]
pub struct TimingService<S>(S);

impl<S> Layer<S> for TimingLayer {
    type Service = TimingService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        TimingService(inner)
    }
}

impl<S, A, B> Service<Request<A>> for TimingService<S>
where
    S: Service<Request<A>, Response = Response<B>>,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = TimingFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let is_requested = request.headers().get(TIMING_REQUEST).is_some_and(|value| value == "1");
        let clock = is_requested.then(|| Clock { start: Instant::now(), stages: Stages::default() });
        TimingFuture { inner: self.0.call(request), clock }
    }
}

#[derive(Clone, Copy, Debug)]
struct Clock {
    start: Instant,
    stages: Stages,
}

pin_project! {
    /// A call that may be timed.
    #[derive(Debug)]
    pub struct TimingFuture<F> {
        #[pin]
        inner: F,
        clock: Option<Clock>,
    }
}

impl<F, B, E> Future for TimingFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let Some(clock) = this.clock else { return this.inner.poll(cx) };
        let (polled, stages) =
            STAGES.sync_scope(Cell::new(clock.stages), || (this.inner.poll(cx), STAGES.with(Cell::get)));
        clock.stages = stages;
        let mut result = ready!(polled);
        if let Ok(response) = &mut result
            && let Some(value) = header(stages, clock.start.elapsed())
        {
            response.headers_mut().insert(TIMING_RESPONSE, value);
        }
        Poll::Ready(result)
    }
}

fn header(stages: Stages, total: Duration) -> Option<HeaderValue> {
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let mut text = String::with_capacity(80);
    let queue = millis(stages.queue);
    let execute = millis(stages.execute);
    let total = millis(total);
    write!(text, "queue;dur={queue:.3}, execute;dur={execute:.3}, total;dur={total:.3}").ok()?;
    HeaderValue::try_from(text).ok()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use accelerd_kernels::DeviceId;
    use tower::{ServiceExt, service_fn};

    use super::*;

    async fn response(request: Request<()>) -> Response<()> {
        let handler = service_fn(|_: Request<()>| async {
            for queue in [1, 2] {
                tokio::task::yield_now().await;
                let queue = Duration::from_millis(queue);
                let execute = Duration::from_micros(250);
                record(&Completion { response: (), device: DeviceId::Cpu, batch_requests: 1, queue, execute });
            }
            Ok::<_, Infallible>(Response::new(()))
        });
        let Ok(response) = TimingLayer.layer(handler).oneshot(request).await;
        response
    }

    #[tokio::test]
    async fn stages_are_summed_when_requested() {
        let response = response(Request::builder().header(TIMING_REQUEST, "1").body(()).expect("a request")).await;
        let timing = response.headers()[TIMING_RESPONSE].to_str().expect("text");
        assert!(timing.starts_with("queue;dur=3.000, execute;dur=0.500, total;dur="), "{timing}");
    }

    #[tokio::test]
    async fn stages_of_a_spawned_part_count() {
        let handler = service_fn(|_: Request<()>| async {
            let part = async {
                let queue = Duration::from_millis(4);
                let execute = Duration::from_millis(5);
                record(&Completion { response: (), device: DeviceId::Cpu, batch_requests: 1, queue, execute });
            };
            spawn_on(&Handle::current(), part).await;
            Ok::<_, Infallible>(Response::new(()))
        });
        let request = Request::builder().header(TIMING_REQUEST, "1").body(()).expect("a request");
        let Ok(response) = TimingLayer.layer(handler).oneshot(request).await;
        let timing = response.headers()[TIMING_RESPONSE].to_str().expect("text");
        assert!(timing.starts_with("queue;dur=4.000, execute;dur=5.000"), "{timing}");
    }

    #[tokio::test]
    async fn no_timings_without_a_request() {
        assert!(response(Request::new(())).await.headers().is_empty());
    }
}
