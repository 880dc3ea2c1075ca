//! `accelerd-timing: 1` in a request brings `server-timing` back: where the call's time went.

use std::{
    cell::Cell,
    fmt::Write as _,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use accelerd_engine::Done;
use http::{HeaderValue, Request, Response};
use pin_project_lite::pin_project;
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;
use tower::{Layer, Service};
use tracing::Instrument;

/// The request header that asks for timings.
pub const ASK: &str = "accelerd-timing";

/// The response header that has them, in the syntax of W3C Server Timing.
pub const ANSWER: &str = "server-timing";

tokio::task_local! {
    static STAGES: Cell<Stages>;
}

/// Time in the stages of a call, summed over the engine's answers it needed.
#[derive(Clone, Copy, Debug, Default)]
struct Stages {
    queue: Duration,
    execute: Duration,
}

/// Adds an engine's answer to the timings of the call that runs now, if they were asked for.
pub fn record<R>(done: &Done<R>) {
    add(Stages { queue: done.queue, execute: done.execute });
}

fn add(more: Stages) {
    let _not_asked_for = STAGES.try_with(|stages| {
        let Stages { queue, execute } = stages.get();
        stages.set(Stages { queue: queue + more.queue, execute: execute + more.execute });
    });
}

/// Runs a part of the call as a task of its own, on another runtime, and takes its timings over. Dropping it ends the
/// task; its panic becomes the caller's.
pub(crate) async fn apart<T: Send + 'static>(on: &Handle, part: impl Future<Output = T> + Send + 'static) -> T {
    let timed = STAGES.scope(Cell::default(), async { (part.await, STAGES.with(Cell::get)) });
    match AbortOnDropHandle::new(on.spawn(timed.in_current_span())).await {
        Ok((done, stages)) => {
            add(stages);
            done
        }
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Its runtime ends, and with it the daemon: nobody waits for what comes.
            Err(_ended) => std::future::pending().await,
        },
    }
}

/// Answers calls for timings.
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
        let asked = request.headers().get(ASK).is_some_and(|value| value == "1");
        let clock = asked.then(|| Clock { start: Instant::now(), stages: Stages::default() });
        TimingFuture { inner: self.0.call(request), clock }
    }
}

#[derive(Clone, Copy, Debug)]
struct Clock {
    start: Instant,
    stages: Stages,
}

pin_project! {
    /// A call whose time may be taken.
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
        let mut answered = ready!(polled);
        if let Ok(response) = &mut answered
            && let Some(value) = header(stages, clock.start.elapsed())
        {
            response.headers_mut().insert(ANSWER, value);
        }
        Poll::Ready(answered)
    }
}

fn header(stages: Stages, total: Duration) -> Option<HeaderValue> {
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let mut text = String::with_capacity(80);
    let (queue, execute, total) = (millis(stages.queue), millis(stages.execute), millis(total));
    write!(text, "queue;dur={queue:.3}, execute;dur={execute:.3}, total;dur={total:.3}").ok()?;
    HeaderValue::try_from(text).ok()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use accelerd_kernels::DeviceId;
    use tower::{ServiceExt, service_fn};

    use super::*;

    async fn answer(request: Request<()>) -> Response<()> {
        let handler = service_fn(|_: Request<()>| async {
            for queue in [1, 2] {
                tokio::task::yield_now().await;
                let (queue, execute) = (Duration::from_millis(queue), Duration::from_micros(250));
                record(&Done { response: (), device: DeviceId::Cpu, batch_requests: 1, queue, execute });
            }
            Ok::<_, Infallible>(Response::new(()))
        });
        let Ok(response) = TimingLayer.layer(handler).oneshot(request).await;
        response
    }

    #[tokio::test]
    async fn stages_come_back_summed_when_asked_for() {
        let response = answer(Request::builder().header(ASK, "1").body(()).expect("a request")).await;
        let timing = response.headers()[ANSWER].to_str().expect("text");
        assert!(timing.starts_with("queue;dur=3.000, execute;dur=0.500, total;dur="), "{timing}");
    }

    #[tokio::test]
    async fn stages_of_a_part_run_apart_count_too() {
        let handler = service_fn(|_: Request<()>| async {
            let part = async {
                let (queue, execute) = (Duration::from_millis(4), Duration::from_millis(5));
                record(&Done { response: (), device: DeviceId::Cpu, batch_requests: 1, queue, execute });
            };
            apart(&Handle::current(), part).await;
            Ok::<_, Infallible>(Response::new(()))
        });
        let request = Request::builder().header(ASK, "1").body(()).expect("a request");
        let Ok(response) = TimingLayer.layer(handler).oneshot(request).await;
        let timing = response.headers()[ANSWER].to_str().expect("text");
        assert!(timing.starts_with("queue;dur=4.000, execute;dur=5.000"), "{timing}");
    }

    #[tokio::test]
    async fn nothing_comes_back_unasked() {
        assert!(answer(Request::new(())).await.headers().is_empty());
    }
}
