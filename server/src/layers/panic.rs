//! Turns a panic of a handler into status `INTERNAL` of its call.

use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll},
};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tonic::body::Body;
use tower::{Layer, Service};

use crate::status;

/// Catches panics of handlers.
#[derive(Clone, Copy, Debug, Default)]
pub struct PanicLayer;

/// See [`PanicLayer`].
#[derive(Clone, Debug)]
pub struct PanicService<S>(S);

impl<S> Layer<S> for PanicLayer {
    type Service = PanicService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        PanicService(inner)
    }
}

impl<S, B> Service<Request<B>> for PanicService<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = PanicFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        PanicFuture { inner: self.0.call(request) }
    }
}

pin_project! {
    /// A call that may panic.
    #[derive(Debug)]
    pub struct PanicFuture<F> {
        #[pin]
        inner: F,
    }
}

impl<F, E> Future for PanicFuture<F>
where
    F: Future<Output = Result<Response<Body>, E>>,
{
    type Output = Result<Response<Body>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let inner = self.project().inner;
        // Unwind-safe: a future that panicked is not polled again.
        catch_unwind(AssertUnwindSafe(|| inner.poll(cx))).unwrap_or_else(|panic| {
            tracing::error!(panic = message(panic.as_ref()), "handler panicked");
            Poll::Ready(Ok(status::panicked().into_http()))
        })
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown payload")
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tonic::{Code, Status};
    use tower::{ServiceExt, service_fn};

    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_internal_error_without_its_message() {
        let broken = service_fn(|_: Request<()>| async {
            assert_eq!(1, 2, "the secret");
            Ok::<_, Infallible>(Response::new(Body::empty()))
        });
        let Ok(response) = PanicLayer.layer(broken).oneshot(Request::new(())).await;
        let status = Status::from_header_map(response.headers()).expect("a status");
        assert_eq!(status.code(), Code::Internal);
        assert!(!status.message().contains("secret"));
    }
}
