//! One HTTP/1.1 connection: its requests, which come one after the other, its maximum age and shutdown.

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    marker::PhantomData,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use accelerd_http::{Account, Held, Refused, status_reason};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::{Either, Empty};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use opentelemetry::{
    KeyValue,
    metrics::{Counter, Meter},
};
use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::{Status, codegen::StdError};
use tower::Service;

use super::{
    call::Call,
    connection::{
        EVICTED_CALL_TIMEOUT, Protocol, ShutdownTokens, WriteMonitor, header_bytes, max_age_elapsed, maybe_wait,
        quiet_within, until_quiet,
    },
    memory::MemoryKind,
    registry::{Connection, OpenCall},
};
use crate::{
    config::{Config, to_usize},
    peer::Peer,
};

/// Maximum size of a connection's buffer of requests in bytes. It limits the headers of a request too.
const BUFFER: usize = 64 << 10;

/// Its size until a large body arrives, and that of the buffer of responses.
const SMALL_BUFFER: u64 = 8 << 10;

/// Serves a service over HTTP/1.1.
pub(crate) struct Http1<S, B> {
    builder: http1::Builder,
    service: S,
    max_headers: usize,
    max_age: Duration,
    max_age_grace: Duration,
    refused: Counter<u64>,
    body: PhantomData<fn() -> B>,
}

impl<S, B> Http1<S, B> {
    pub(crate) fn new(config: &Config, meter: &Meter, service: S) -> Self {
        let mut builder = http1::Builder::new();
        // The time includes that between two requests.
        builder.timer(TokioTimer::new()).header_read_timeout(config.http.idle_timeout).max_buf_size(BUFFER);
        Self {
            builder,
            service,
            max_headers: to_usize(config.server.max_header_bytes),
            max_age: config.server.max_connection_age,
            max_age_grace: config.server.max_connection_age_grace,
            refused: meter
                .u64_counter("accelerd_http_requests_refused")
                .with_description(
                    "Requests over HTTP that were refused before they called a method, by status and reason.",
                )
                .build(),
            body: PhantomData,
        }
    }
}

impl<S, B> Protocol for Http1<S, B>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static,
    B: HttpBody<Data = Bytes, Error: Into<StdError>> + Send + 'static,
{
    fn base_bytes(&self) -> u64 {
        2 * SMALL_BUFFER
    }

    async fn serve<Io>(&self, io: Io, connection: &Arc<Connection>, peer: &Arc<Peer>, shutdown: &ShutdownTokens) -> bool
    where
        Io: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let requests = Requests { connection, peer, max_headers: self.max_headers, next: AtomicU32::new(0) };
        let service = service_fn(|request| async {
            let response = requests.serve(self.service.clone(), request).await;
            if let Some(Refused(reason)) = response.extensions().get() {
                let status = KeyValue::new("status", i64::from(response.status().as_u16()));
                self.refused.add(1, &[status, KeyValue::new("reason", reason.clone())]);
            }
            Ok::<_, Infallible>(response)
        });
        let io = TokioIo::new(WriteMonitor::new(io, connection));
        let mut served = pin!(self.builder.serve_connection(io, service));
        let mut max_age = pin!(max_age_elapsed(self.max_age));
        let mut closing = pin!(shutdown.closing.cancelled());
        let mut evicted = pin!(connection.evicted());
        // Set once the connection is closing: resolves when it ends even if its peer keeps it open.
        let mut grace: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = None;
        loop {
            let quiet = || Arc::clone(connection);
            grace = Some(tokio::select! {
                ended = &mut served => {
                    if let Err(error) = &ended {
                        tracing::debug!(%error, "connection failed");
                    }
                    return ended.is_ok();
                }
                () = &mut evicted, if grace.is_none() => Box::pin(quiet_within(EVICTED_CALL_TIMEOUT, quiet())),
                () = &mut max_age, if grace.is_none() => Box::pin(quiet_within(self.max_age_grace, quiet())),
                () = &mut closing, if grace.is_none() => Box::pin(until_quiet(quiet())),
                () = maybe_wait(grace.as_mut()) => return connection.is_idle(),
                () = connection.abort.cancelled() => return false,
                () = shutdown.abort.cancelled() => return false,
            });
            // Ends an idle connection at once.
            served.as_mut().graceful_shutdown();
        }
    }
}

/// The requests of a connection.
struct Requests<'a> {
    connection: &'a Arc<Connection>,
    peer: &'a Arc<Peer>,
    max_headers: usize,
    next: AtomicU32,
}

/// The body of a response, or none where the transport itself refuses a request.
type ResponseBody<B> = Either<CallBody<B>, Empty<Bytes>>;

impl Requests<'_> {
    async fn serve<S, B>(&self, mut service: S, mut request: Request<Incoming>) -> Response<ResponseBody<B>>
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    {
        let bytes = header_bytes(request.headers());
        if bytes > self.max_headers {
            return refused(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        }
        let number = self.next.fetch_add(1, Relaxed);
        let is_small = request.body().size_hint().upper().is_some_and(|body| body <= SMALL_BUFFER);
        let buffer = if is_small { 0 } else { BUFFER };
        let Ok(open) = self.connection.open_call(number, (bytes + buffer) as u64) else {
            return refused(StatusCode::TOO_MANY_REQUESTS);
        };
        let call = Arc::clone(&open.call);
        let account: Arc<dyn Account> = Arc::new(CallAccount(Arc::clone(&call)));
        request.extensions_mut().insert(account);
        request.extensions_mut().insert(Arc::clone(&call));
        request.extensions_mut().insert(Arc::clone(self.peer));
        let mut response = pin!(service.call(request));
        let response = poll_fn(|cx| match response.as_mut().poll(cx) {
            Poll::Ready(Ok(response)) => Poll::Ready(Some(response)),
            Poll::Pending => call.poll_aborted(cx).map(|()| None),
        });
        let Some(response) = response.await else { return refused(StatusCode::REQUEST_TIMEOUT) };
        response.map(|inner| Either::Left(CallBody { inner, open }))
    }
}

/// A response of the transport itself.
fn refused<B>(status: StatusCode) -> Response<ResponseBody<B>> {
    let mut response = Response::new(Either::Right(Empty::new()));
    *response.status_mut() = status;
    response.extensions_mut().insert(Refused(status_reason(status)));
    response
}

/// The memory and the progress of a call.
pub(crate) struct CallAccount(pub(crate) Arc<Call>);

impl Account for CallAccount {
    fn charge(&self, bytes: u64) -> Result<Held, Status> {
        charge(&self.0, MemoryKind::Request, bytes)
    }

    fn charge_response(&self, bytes: u64) -> Result<Held, Status> {
        charge(&self.0, MemoryKind::Response, bytes)
    }

    fn waits_for_request(&self) -> Held {
        Box::new(self.0.wait_for_request())
    }

    fn received(&self, bytes: usize) {
        self.0.record_received(bytes);
    }
}

fn charge(call: &Arc<Call>, kind: MemoryKind, bytes: u64) -> Result<Held, Status> {
    let mut charge = call.charge(kind);
    charge.grow(bytes)?;
    Ok(Box::new(charge))
}

pin_project! {
    /// The body of a response, with which its call ends.
    struct CallBody<B> {
        #[pin]
        inner: B,
        open: OpenCall,
    }
}

impl<B: HttpBody<Data = Bytes, Error: Into<StdError>>> HttpBody for CallBody<B> {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let frame = self.project().inner.poll_frame(cx);
        frame.map(|frame| frame.map(|frame| frame.map_err(Into::into)))
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }
}
