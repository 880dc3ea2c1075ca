//! One HTTP/2 connection: calls, flow-control window, keep-alive, maximum age and shutdown.
//!
//! `h2` is used directly rather than through hyper for three reasons: windows that grow while the connection is open,
//! responses handed to `h2` only as far as the peer's window allows, and resets with a chosen error code.

use std::{
    convert::Infallible,
    future::{Future, pending, poll_fn},
    hash::{BuildHasher, RandomState},
    io,
    marker::PhantomData,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use h2::{Ping, PingPong, Reason, SendStream, server, server::SendResponse};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body::Body as HttpBody;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic::{Status, codegen::StdError};
use tower::Service;

use super::{
    call::Call,
    registry::{Connection, OpenCall, Signal},
    request::RequestBody,
    stream_window::StreamWindow,
};
use crate::{
    config::{Server, to_usize},
    peer::Peer,
    status,
};

/// Initial window of a connection: HTTP/2's default.
const BASE_WINDOW: u32 = 65_535;

/// Initial window of a stream: one that is not read leaves half of the connection's window to the others.
const BASE_STREAM_WINDOW: u32 = BASE_WINDOW / 2;

/// `h2` counts 256 bytes of overhead for each buffered small DATA frame and closes a connection that exceeds its budget, by
/// default half a window: some 128 calls started at once. The budget here is two small frames per stream.
const FRAME_OVERHEAD: usize = 2 * 256;

/// Bytes of one response buffered for the socket.
const SEND_BUFFER: usize = 512 << 10;

/// Header lists up to this many times the configured maximum are accepted by HTTP/2, so that they can be refused with a
/// gRPC status: gRPC clients report HTTP/2's own refusal as UNKNOWN.
const HEADER_SLACK: u32 = 4;

/// Bytes that HTTP/2 counts per header field besides its name and value.
const HEADER_OVERHEAD: usize = 32;

/// Time without calls after which a closing connection ends, whether or not its peer answers GOAWAY: enough for a call that is on its
/// way. gRPC for Python answers nothing while it makes no calls.
const QUIET_GRACE: Duration = Duration::from_secs(1);

/// Maximum time of calls that reached an evicted connection in time.
pub(super) const EVICTED_CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// A service that connections can serve; implemented for every matching tower service.
pub(crate) trait HttpService<B>:
    Service<Request<RequestBody>, Response = Response<B>, Error = Infallible, Future: Send + 'static>
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S, B> HttpService<B> for S where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible, Future: Send + 'static>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// Cancelled to end connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShutdownTokens {
    /// Accept no connections; open ones get GOAWAY and finish their calls.
    pub(crate) closing: CancellationToken,
    /// Close connections that are still open.
    pub(crate) abort: CancellationToken,
}

/// How connections are served.
pub(crate) trait Protocol: Send + Sync + 'static {
    /// Bytes that a new connection can make the daemon hold.
    fn base_bytes(&self) -> u64;

    /// Serves a connection to its end. Returns whether this side ended it, after answering all calls.
    fn serve<Io>(
        &self,
        io: Io,
        connection: &Arc<Connection>,
        peer: &Arc<Peer>,
        shutdown: &ShutdownTokens,
    ) -> impl Future<Output = bool> + Send
    where
        Io: AsyncRead + AsyncWrite + Unpin + Send;
}

/// Serves a service over HTTP/2.
pub(crate) struct Http2<S, B> {
    server: Http2Server,
    service: S,
    body: PhantomData<fn() -> B>,
}

impl<S, B> Http2<S, B> {
    pub(crate) fn new(settings: &Server, service: S) -> Self {
        Self { server: Http2Server::new(settings), service, body: PhantomData }
    }
}

impl<S, B> Protocol for Http2<S, B>
where
    S: HttpService<B>,
    B: HttpBody<Data = Bytes, Error: Into<StdError>> + Send + 'static,
{
    fn base_bytes(&self) -> u64 {
        self.server.base_bytes
    }

    async fn serve<Io>(&self, io: Io, connection: &Arc<Connection>, peer: &Arc<Peer>, shutdown: &ShutdownTokens) -> bool
    where
        Io: AsyncRead + AsyncWrite + Unpin + Send,
    {
        self.server.serve(io, self.service.clone(), connection, peer, shutdown).await
    }
}

/// Serves HTTP/2 connections with the configured limits.
#[derive(Clone, Debug)]
struct Http2Server {
    builder: server::Builder,
    /// Bytes that a new connection can make the daemon hold: its window and one partial frame.
    base_bytes: u64,
    window: u32,
    stream_window: u32,
    max_headers: usize,
    handshake_timeout: Duration,
    keepalive_interval: Option<Duration>,
    keepalive_timeout: Duration,
    max_age: Duration,
    max_age_grace: Duration,
}

impl Http2Server {
    fn new(settings: &Server) -> Self {
        let size = |size| u32::try_from(to_usize(size)).unwrap_or(u32::MAX).min(i32::MAX.unsigned_abs());
        let max_headers = size(settings.max_header_bytes);
        let mut builder = server::Builder::new();
        builder
            .initial_connection_window_size(BASE_WINDOW)
            .initial_window_size(BASE_STREAM_WINDOW)
            .max_frame_size(size(settings.frame_bytes))
            .max_concurrent_streams(settings.max_streams)
            .data_frame_budget(frame_overhead(settings))
            .max_header_list_size(max_headers.saturating_mul(HEADER_SLACK))
            .max_pending_accept_reset_streams(settings.max_pending_resets)
            .max_send_buffer_size(SEND_BUFFER);
        Self {
            builder,
            base_bytes: u64::from(BASE_WINDOW) + settings.frame_bytes.as_u64(),
            window: size(settings.connection_window_bytes).max(BASE_WINDOW),
            stream_window: size(settings.stream_window_bytes).max(BASE_STREAM_WINDOW),
            max_headers: max_headers as usize,
            handshake_timeout: settings.handshake_timeout,
            keepalive_interval: Some(settings.keepalive_interval).filter(|interval| !interval.is_zero()),
            keepalive_timeout: settings.keepalive_timeout,
            max_age: settings.max_connection_age,
            max_age_grace: settings.max_connection_age_grace,
        }
    }

    async fn serve<Io, S, B>(
        &self,
        io: Io,
        mut service: S,
        connection: &Arc<Connection>,
        peer: &Arc<Peer>,
        shutdown: &ShutdownTokens,
    ) -> bool
    where
        Io: AsyncRead + AsyncWrite + Unpin + Send,
        S: HttpService<B>,
        B: HttpBody<Data = Bytes, Error: Into<StdError>> + Send + 'static,
    {
        let io = WriteMonitor::new(io, connection);
        let handshake = timeout(self.handshake_timeout, self.builder.handshake::<_, Bytes>(io));
        let mut h2 = tokio::select! {
            handshake = handshake => match handshake {
                Ok(Ok(h2)) => h2,
                Ok(Err(error)) => return log_error(&error),
                Err(_elapsed) => return false,
            },
            () = connection.abort.cancelled() => return false,
            () = shutdown.abort.cancelled() => return false,
            // A peer in the handshake has no calls.
            () = connection.evicted() => return false,
            () = shutdown.closing.cancelled() => return false,
        };
        let mut keepalive = KeepAlive::new(self, h2.ping_pong());
        let mut max_age = pin!(max_age_elapsed(self.max_age));
        let mut closing = pin!(shutdown.closing.cancelled());
        let mut abort = pin!(shutdown.abort.cancelled());
        let mut connection_abort = pin!(connection.abort.cancelled());
        // Set once the connection is closing: resolves when it ends even if its peer keeps it open.
        let mut grace: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = None;
        let mut stream_window = StreamWindow::new(BASE_STREAM_WINDOW, self.stream_window);
        loop {
            tokio::select! {
                accepted = h2.accept() => match accepted {
                    Some(Ok((request, respond))) => self.start_call(request, respond, &mut service, connection, peer),
                    Some(Err(error)) => return log_error(&error),
                    None => return grace.is_some(),
                },
                signal = poll_fn(|cx| connection.poll_signal(stream_window.is_granted(), cx)) => match signal {
                    Signal::Evict => {
                        // A call that is on its way is still served.
                        h2.graceful_shutdown();
                        grace = Some(Box::pin(quiet_within(EVICTED_CALL_TIMEOUT, Arc::clone(connection))));
                    }
                    Signal::GrowWindow if self.grow_connection_window(&mut h2, connection) => {
                        stream_window.grant();
                        stream_window.announce(Instant::now(), &mut h2);
                    }
                    Signal::GrowWindow => {}
                    Signal::RefusedByLength => {
                        stream_window.refused(Instant::now());
                        stream_window.announce(Instant::now(), &mut h2);
                    }
                },
                () = maybe_sleep_until(stream_window.next()) => stream_window.announce(Instant::now(), &mut h2),
                alive = keepalive.run() => if !alive {
                    tracing::debug!("closing a connection that does not answer pings");
                    return false;
                },
                () = &mut max_age, if grace.is_none() => {
                    h2.graceful_shutdown();
                    grace = Some(Box::pin(quiet_within(self.max_age_grace, Arc::clone(connection))));
                }
                () = &mut closing, if grace.is_none() => {
                    h2.graceful_shutdown();
                    grace = Some(Box::pin(until_quiet(Arc::clone(connection))));
                }
                () = maybe_wait(grace.as_mut()) => {
                    let answered = connection.is_idle();
                    tracing::debug!(answered, "closing a connection after its grace period");
                    return answered;
                }
                () = &mut connection_abort => return false,
                () = &mut abort => {
                    tracing::debug!("aborting a connection at the end of the drain");
                    return false;
                }
            }
        }
    }

    /// Grants the configured connection window if memory is available. Returns whether it did.
    fn grow_connection_window<Io: AsyncRead + AsyncWrite + Unpin>(
        &self,
        h2: &mut server::Connection<Io, Bytes>,
        connection: &Connection,
    ) -> bool {
        if !connection.try_grow_window(u64::from(self.window - BASE_WINDOW)) {
            return false;
        }
        h2.set_target_window_size(self.window);
        true
    }

    fn start_call<S, B>(
        &self,
        request: Request<h2::RecvStream>,
        respond: SendResponse<Bytes>,
        service: &mut S,
        connection: &Arc<Connection>,
        peer: &Arc<Peer>,
    ) where
        S: HttpService<B>,
        B: HttpBody<Data = Bytes, Error: Into<StdError>> + Send + 'static,
    {
        if !is_grpc(request.headers()) {
            return refuse_content_type(respond);
        }
        let bytes = header_bytes(request.headers());
        if bytes > self.max_headers {
            return reject(respond, status::metadata_too_large(bytes, self.max_headers));
        }
        let call = match connection.open_call(request.body().stream_id().as_u32(), bytes as u64) {
            Ok(call) => call,
            Err(refusal) => return reject(respond, refusal.into()),
        };
        let mut request = request.map(RequestBody::new);
        request.extensions_mut().insert(Arc::clone(&call.call));
        request.extensions_mut().insert(Arc::clone(peer));
        tokio::spawn(run_call(service.call(request), respond, call));
    }
}

/// Returns true if the content type is gRPC's, with or without a message format. A web page can send others without a preflight request.
fn is_grpc(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    content_type.strip_prefix(b"application/grpc").is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

/// Answers a request that is not gRPC.
fn refuse_content_type(mut respond: SendResponse<Bytes>) {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    // Fails only if the stream is closed.
    let _closed = respond.send_response(response, true);
}

/// Overhead of small DATA frames that a connection may have buffered, in bytes.
fn frame_overhead(settings: &Server) -> usize {
    (settings.max_streams as usize).saturating_mul(FRAME_OVERHEAD)
}

/// Size of the headers as HTTP/2 counts it.
pub(super) fn header_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + HEADER_OVERHEAD).sum()
}

/// Logs why a connection failed, and returns false. Floods are logged as warnings, at every power of two.
fn log_error(error: &h2::Error) -> bool {
    static FLOODS: AtomicU64 = AtomicU64::new(0);
    if error.is_library() && error.reason() == Some(Reason::ENHANCE_YOUR_CALM) {
        let floods = FLOODS.fetch_add(1, Relaxed) + 1;
        if floods.is_power_of_two() {
            tracing::warn!(floods, %error, "closed connections of flooding peers");
        }
    }
    tracing::debug!(%error, "connection failed");
    false
}

/// Waits for a connection's maximum age, jittered by a tenth so that connections opened together do not close together.
/// Never resolves for zero.
pub(super) async fn max_age_elapsed(age: Duration) {
    if age.is_zero() {
        return pending().await;
    }
    let random = RandomState::new().hash_one(0) % 1024;
    sleep(age.mul_f64(0.9 + 0.2 * random as f64 / 1024.0)).await;
}

/// Waits until a closing connection is quiet, or for `limit`.
pub(super) async fn quiet_within(limit: Duration, connection: Arc<Connection>) {
    let _elapsed = timeout(limit, until_quiet(connection)).await;
}

/// Waits until a closing connection has had no call for the grace, and everything is sent.
pub(super) async fn until_quiet(connection: Arc<Connection>) {
    let mut left = QUIET_GRACE;
    while !left.is_zero() {
        sleep(left).await;
        left = QUIET_GRACE.saturating_sub(connection.quiet_for());
    }
}

async fn maybe_sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}

pub(super) async fn maybe_wait(future: Option<&mut Pin<Box<dyn Future<Output = ()> + Send>>>) {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}

/// Answers a call with a status before it is started.
fn reject(mut respond: SendResponse<Bytes>, status: Status) {
    let response = status.into_http::<()>();
    // Fails only if the stream is closed.
    let _closed = respond.send_response(response, true);
}

/// Why a call ended before its response was sent.
enum CallEnd {
    /// The client reset the stream, or the connection is closed.
    Reset,
    Stalled,
    /// The response body failed.
    Failed,
}

/// Runs a call and sends its response.
async fn run_call<F, B>(handler: F, mut respond: SendResponse<Bytes>, open: OpenCall)
where
    F: Future<Output = Result<Response<B>, Infallible>>,
    B: HttpBody<Data = Bytes, Error: Into<StdError>>,
{
    let (mut head, body) = match wait_for_response(handler, &mut respond, &open.call).await {
        Ok(response) => response.into_parts(),
        Err(CallEnd::Stalled) => return reject(respond, status::stalled()),
        Err(CallEnd::Reset | CallEnd::Failed) => return,
    };
    status::bound_trailers(&mut head.headers);
    // A trailers-only response ends the stream with its headers: gRPC's C core loses the status if an empty frame follows.
    let end = body.is_end_stream() || head.headers.contains_key("grpc-status");
    let Ok(mut stream) = respond.send_response(Response::from_parts(head, ()), end) else { return };
    if end {
        return;
    }
    match send_body(body, &mut stream, &open.call).await {
        Ok(()) | Err(CallEnd::Reset) => {}
        // gRPC maps this code to RESOURCE_EXHAUSTED.
        Err(CallEnd::Stalled) => stream.send_reset(Reason::ENHANCE_YOUR_CALM),
        Err(CallEnd::Failed) => stream.send_reset(Reason::INTERNAL_ERROR),
    }
}

/// Waits for the response unless the call ends first; then the handler is dropped.
async fn wait_for_response<F, B>(
    handler: F,
    respond: &mut SendResponse<Bytes>,
    call: &Call,
) -> Result<Response<B>, CallEnd>
where
    F: Future<Output = Result<Response<B>, Infallible>>,
{
    let mut handler = pin!(handler);
    poll_fn(|cx| {
        if let Poll::Ready(Ok(response)) = handler.as_mut().poll(cx) {
            return Poll::Ready(Ok(response));
        }
        if call.poll_aborted(cx).is_ready() {
            return Poll::Ready(Err(CallEnd::Stalled));
        }
        respond.poll_reset(cx).map(|_| Err(CallEnd::Reset))
    })
    .await
}

/// Sends a body, buffering no more of it than the peer's window admits.
async fn send_body<B>(body: B, stream: &mut SendStream<Bytes>, call: &Arc<Call>) -> Result<(), CallEnd>
where
    B: HttpBody<Data = Bytes, Error: Into<StdError>>,
{
    let mut body = pin!(body);
    loop {
        let frame = poll_fn(|cx| match body.as_mut().poll_frame(cx) {
            Poll::Ready(frame) => Poll::Ready(Ok(frame)),
            Poll::Pending => poll_call_end(stream, call, cx).map(Err),
        });
        let Some(frame) = frame.await? else {
            return stream.send_data(Bytes::new(), true).map_err(|_| CallEnd::Reset);
        };
        match frame.map_err(|_| CallEnd::Failed)?.into_data() {
            Ok(data) => send_data(data, stream, call).await?,
            Err(frame) => {
                let mut trailers = frame.into_trailers().unwrap_or_default();
                status::bound_trailers(&mut trailers);
                stream.reserve_capacity(0);
                return stream.send_trailers(trailers).map_err(|_| CallEnd::Reset);
            }
        }
    }
}

async fn send_data(mut data: Bytes, stream: &mut SendStream<Bytes>, call: &Arc<Call>) -> Result<(), CallEnd> {
    let mut waiting = None;
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        if stream.capacity() == 0 {
            waiting.get_or_insert_with(|| call.wait_for_window());
            poll_fn(|cx| match stream.poll_capacity(cx) {
                Poll::Ready(Some(Ok(0))) | Poll::Pending => poll_call_end(stream, call, cx).map(Err),
                Poll::Ready(Some(Ok(_))) => Poll::Ready(Ok(())),
                Poll::Ready(Some(Err(_)) | None) => Poll::Ready(Err(CallEnd::Reset)),
            })
            .await?;
        }
        let part = data.split_to(stream.capacity().min(data.len()));
        call.record_sent(part.len());
        stream.send_data(part, false).map_err(|_| CallEnd::Reset)?;
    }
    Ok(())
}

/// Ready once a call must end although its response is not sent.
fn poll_call_end(stream: &mut SendStream<Bytes>, call: &Call, cx: &mut Context<'_>) -> Poll<CallEnd> {
    if call.poll_aborted(cx).is_ready() {
        return Poll::Ready(CallEnd::Stalled);
    }
    stream.poll_reset(cx).map(|_| CallEnd::Reset)
}

/// Sends pings and checks that they are acknowledged in time.
struct KeepAlive {
    pings: Option<PingPong>,
    interval: Duration,
    timeout: Duration,
    timer: Pin<Box<Sleep>>,
    ping_pending: bool,
}

impl KeepAlive {
    fn new(server: &Http2Server, pings: Option<PingPong>) -> Self {
        let interval = server.keepalive_interval.unwrap_or_default();
        let pings = pings.filter(|_| server.keepalive_interval.is_some());
        let timer = Box::pin(sleep(interval));
        Self { pings, interval, timeout: server.keepalive_timeout, timer, ping_pending: false }
    }

    /// Waits for the next event. Returns whether the peer is alive.
    async fn run(&mut self) -> bool {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let Some(pings) = &mut self.pings else { return Poll::Pending };
        if self.ping_pending && pings.poll_pong(cx).is_ready() {
            self.ping_pending = false;
            self.timer.as_mut().reset(Instant::now() + self.interval);
        }
        ready!(self.timer.as_mut().poll(cx));
        if self.ping_pending {
            return Poll::Ready(false);
        }
        self.ping_pending = pings.send_ping(Ping::opaque()).is_ok();
        self.timer.as_mut().reset(Instant::now() + if self.ping_pending { self.timeout } else { self.interval });
        Poll::Ready(true)
    }
}

/// Records on the connection whether writes are pending.
pub(super) struct WriteMonitor<Io> {
    io: Io,
    connection: Arc<Connection>,
}

impl<Io> WriteMonitor<Io> {
    pub(super) fn new(io: Io, connection: &Arc<Connection>) -> Self {
        Self { io, connection: Arc::clone(connection) }
    }

    fn record(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.connection.record_write(written.is_pending());
        written
    }
}

impl<Io: AsyncRead + Unpin> AsyncRead for WriteMonitor<Io> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<Io: AsyncWrite + Unpin> AsyncWrite for WriteMonitor<Io> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.record(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.record(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_content_types_of_grpc_are_served() {
        let with = |content_type: &'static str| {
            let headers = [(CONTENT_TYPE, HeaderValue::from_static(content_type))];
            is_grpc(&headers.into_iter().collect())
        };
        for served in ["application/grpc", "application/grpc+proto", "application/grpc+json", "application/grpc;a=b"] {
            assert!(with(served), "{served}");
        }
        for refused in ["", "text/plain", "application/grpc-web", "application/grpc-web+proto", "application/grpcx"] {
            assert!(!with(refused), "{refused}");
        }
        assert!(!is_grpc(&HeaderMap::new()));
    }
}
