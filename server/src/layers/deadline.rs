//! `grpc-timeout`: passes the deadline on to the engine and ends calls with `DEADLINE_EXCEEDED`. A malformed one is refused.

use std::{
    future::{Future, Ready, ready},
    pin::Pin,
    task::{self, Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::future::Either;
use http::{HeaderMap, Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::time::Sleep;
use tonic::{Status, body::Body};
use tower::{Layer, Service};

use crate::{error::ApiError, status};

/// The deadline of a call, in the extensions of a request with `grpc-timeout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline(pub Instant);

/// Longer timeouts count as none: they would overflow `Instant`.
const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 3600);

/// The request header with the timeout.
const TIMEOUT: &str = "grpc-timeout";

/// The timeout of a call, if it has one.
fn timeout(headers: &HeaderMap) -> Result<Option<Duration>, ApiError> {
    let Some(value) = headers.get(TIMEOUT) else { return Ok(None) };
    let timeout = parse(value.as_bytes()).ok_or_else(|| {
        let got = String::from_utf8_lossy(value.as_bytes());
        ApiError::invalid(TIMEOUT, format!("expected 1 to 8 digits and a unit of H, M, S, m, u or n, got {got:?}"))
    })?;
    Ok(Some(timeout).filter(|timeout| *timeout < MAX_TIMEOUT))
}

/// Parses a value of `grpc-timeout`.
fn parse(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let amount = digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    match unit {
        b'H' => Some(Duration::from_secs(amount * 3600)),
        b'M' => Some(Duration::from_secs(amount * 60)),
        b'S' => Some(Duration::from_secs(amount)),
        b'm' => Some(Duration::from_millis(amount)),
        b'u' => Some(Duration::from_micros(amount)),
        b'n' => Some(Duration::from_nanos(amount)),
        _ => None,
    }
}

/// Ends calls at their deadline.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeadlineLayer;

/// See [`DeadlineLayer`].
#[derive(Clone, Debug)]
pub struct DeadlineService<S>(S);

impl<S> Layer<S> for DeadlineLayer {
    type Service = DeadlineService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        DeadlineService(inner)
    }
}

impl<S, B> Service<Request<B>> for DeadlineService<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
{
    type Response = Response<DeadlineBody>;
    type Error = S::Error;
    type Future = Either<Ready<Result<Response<DeadlineBody>, S::Error>>, DeadlineFuture<S::Future>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let timeout = match timeout(request.headers()) {
            Ok(Some(Duration::ZERO)) => return refused(status::deadline_exceeded()),
            Ok(timeout) => timeout,
            Err(error) => return refused(error.into()),
        };
        let timer = timeout.map(|timeout| {
            let deadline = tokio::time::Instant::now() + timeout;
            request.extensions_mut().insert(Deadline(deadline.into_std()));
            Box::pin(tokio::time::sleep_until(deadline))
        });
        Either::Right(DeadlineFuture { inner: self.0.call(request), timer })
    }
}

/// The response to a call that does not reach its service.
fn refused<E, F>(status: Status) -> Either<Ready<Result<Response<DeadlineBody>, E>>, F> {
    Either::Left(ready(Ok(status.into_http::<Body>().map(|inner| DeadlineBody { inner, timer: None }))))
}

pin_project! {
    /// A call with a deadline.
    #[derive(Debug)]
    pub struct DeadlineFuture<F> {
        #[pin]
        inner: F,
        timer: Option<Pin<Box<Sleep>>>,
    }
}

impl<F, E> Future for DeadlineFuture<F>
where
    F: Future<Output = Result<Response<Body>, E>>,
{
    type Output = Result<Response<DeadlineBody>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        // Poll the call first: a response that is ready at the deadline is sent.
        if let Poll::Ready(result) = this.inner.poll(cx) {
            let timer = this.timer.take();
            return Poll::Ready(result.map(|response| response.map(|body| DeadlineBody { inner: body, timer })));
        }
        let Some(timer) = this.timer else { return Poll::Pending };
        task::ready!(timer.as_mut().poll(cx));
        let response = status::deadline_exceeded().into_http::<Body>();
        Poll::Ready(Ok(response.map(|body| DeadlineBody { inner: body, timer: None })))
    }
}

/// A response body that ends with `DEADLINE_EXCEEDED` at the deadline.
#[derive(Debug)]
pub struct DeadlineBody {
    inner: Body,
    timer: Option<Pin<Box<Sleep>>>,
}

impl HttpBody for DeadlineBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        let Some(timer) = &mut self.timer else { return Poll::Pending };
        task::ready!(timer.as_mut().poll(cx));
        self.timer = None;
        self.inner = Body::empty();
        let mut trailers = HeaderMap::new();
        status::deadline_exceeded().add_header(&mut trailers)?;
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, future::pending};

    use http_body_util::BodyExt;
    use tonic::Code;
    use tower::{ServiceExt, service_fn};

    use super::*;

    fn request(timeout: &str) -> Request<()> {
        Request::builder().header("grpc-timeout", timeout).body(()).expect("a request")
    }

    #[test]
    fn every_unit_is_parsed() {
        assert_eq!(parse(b"2H"), Some(Duration::from_secs(7200)));
        assert_eq!(parse(b"3M"), Some(Duration::from_secs(180)));
        assert_eq!(parse(b"4S"), Some(Duration::from_secs(4)));
        assert_eq!(parse(b"5m"), Some(Duration::from_millis(5)));
        assert_eq!(parse(b"6u"), Some(Duration::from_micros(6)));
        assert_eq!(parse(b"7n"), Some(Duration::from_nanos(7)));
    }

    #[test]
    fn an_excessive_timeout_counts_as_none() {
        assert_eq!(timeout(request("99999999H").headers()).expect("well-formed"), None);
    }

    #[tokio::test]
    async fn a_malformed_timeout_and_one_of_zero_end_the_call_before_its_service() {
        let refused = async |value: &str| {
            let reached = service_fn(|_: Request<()>| async { Err::<Response<Body>, _>(()) });
            let response = DeadlineLayer.layer(reached).oneshot(request(value)).await.expect("it is not reached");
            Status::from_header_map(response.headers()).expect("a status")
        };
        for value in ["", "S", "1", "1s", "1x", "-1S", "+1S", "1.5S", "123456789S", "1 S"] {
            let status = refused(value).await;
            let expected =
                format!("grpc-timeout: expected 1 to 8 digits and a unit of H, M, S, m, u or n, got {value:?}");
            assert_eq!((status.code(), status.message()), (Code::InvalidArgument, &*expected));
        }
        for value in ["0n", "0H", "00000000S"] {
            assert_eq!(refused(value).await.code(), Code::DeadlineExceeded, "{value}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_without_response_ends_with_deadline_exceeded() {
        let never = service_fn(|_: Request<()>| pending::<Result<Response<Body>, Infallible>>());
        let Ok(response) = DeadlineLayer.layer(never).oneshot(request("50m")).await;
        assert_eq!(Status::from_header_map(response.headers()).expect("a status").code(), Code::DeadlineExceeded);
    }

    #[tokio::test(start_paused = true)]
    async fn an_endless_stream_ends_with_deadline_exceeded() {
        let endless = service_fn(|_: Request<()>| async {
            let frames = futures::stream::pending::<Result<Frame<Bytes>, Status>>();
            Ok::<_, Infallible>(Response::new(Body::new(http_body_util::StreamBody::new(frames))))
        });
        let Ok(response) = DeadlineLayer.layer(endless).oneshot(request("50m")).await;
        let end = response.into_body().collect().await.expect("a body");
        let trailers = end.trailers().expect("trailers");
        assert_eq!(Status::from_header_map(trailers).expect("a status").code(), Code::DeadlineExceeded);
    }

    #[tokio::test]
    async fn the_deadline_is_in_the_extensions_of_the_request() {
        let shows = service_fn(|request: Request<()>| async move {
            assert!(request.extensions().get::<Deadline>().is_some_and(|deadline| deadline.0 > Instant::now()));
            Ok::<_, Infallible>(Response::new(Body::empty()))
        });
        DeadlineLayer.layer(shows).oneshot(request("1H")).await.expect("a response");
    }
}
