//! One HTTP/2 connection: its calls, its flow-control window, its keep-alive and its end.
//!
//! `h2` is used directly and not through hyper, for three things: windows that grow while the connection lives, answers
//! that are handed to `h2` only as far as the peer's window goes, and resets with a code of ours.

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    io,
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
use http::{HeaderMap, Request, Response};
use http_body::Body as HttpBody;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep, sleep_until, timeout},
};
use tonic::{Status, codegen::StdError};
use tower::Service;

use super::{
    call::Call,
    registry::{Connection, OpenCall, Signal},
    request::RequestBody,
};
use crate::{
    config::{Server, to_usize},
    grpc::status,
    listen::{Ends, aged},
};

/// The window of a connection without large messages: what HTTP/2 lets a peer send before it hears of another.
const BASE_WINDOW: u32 = 65_535;

/// The window of one of its streams, so that one that is not read leaves half to the others.
const BASE_STREAM_WINDOW: u32 = BASE_WINDOW / 2;

/// What `h2` counts for a small DATA frame that is buffered. It ends a connection whose small frames exceed its budget of these,
/// by default after half a window: some 128 calls begun at once. The budget here has two small frames for each stream.
const FRAME_OVERHEAD: usize = 2 * 256;

/// Bytes of one answer that wait for the socket.
const SEND_BUFFER: usize = 512 << 10;

/// Header lists up to this many times the configured maximum are read, to be refused in gRPC's terms. HTTP/2 itself would
/// answer with a status that gRPC callers report as UNKNOWN.
const HEADER_SLACK: u32 = 4;

/// Bytes that an HTTP/2 header line counts beyond its name and value.
const HEADER_OVERHEAD: usize = 32;

/// How long a peer is given to acknowledge settings before others are sent.
const SETTINGS_RETRY: Duration = Duration::from_millis(2);

/// What is asked of the service of a connection.
pub(crate) trait Served<B>:
    Service<Request<RequestBody>, Response = Response<B>, Error = Infallible, Future: Send + 'static>
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S, B> Served<B> for S where
    S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible, Future: Send + 'static>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// How connections are served.
#[derive(Clone, Debug)]
pub(crate) struct Protocol {
    builder: server::Builder,
    window: u32,
    stream_window: u32,
    max_headers: usize,
    handshake_timeout: Duration,
    keepalive_interval: Option<Duration>,
    keepalive_timeout: Duration,
    max_age: Duration,
    max_age_grace: Duration,
}

impl Protocol {
    pub(crate) fn new(settings: &Server) -> Self {
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

    /// What a new connection can make the daemon hold: its window and one partial frame.
    pub(crate) fn base_bytes(settings: &Server) -> u64 {
        u64::from(BASE_WINDOW) + settings.frame_bytes.as_u64()
    }

    /// Serves a connection's calls; whether it ended because this side wanted it to, with all of them answered.
    pub(crate) async fn serve<Io, S, B>(
        &self,
        io: Io,
        mut service: S,
        connection: &Arc<Connection>,
        ends: &Ends,
    ) -> bool
    where
        Io: AsyncRead + AsyncWrite + Unpin + Send,
        S: Served<B>,
        B: HttpBody<Data = Bytes, Error: Into<StdError>> + Send + 'static,
    {
        let io = Watched { io, connection: Arc::clone(connection) };
        let handshake = timeout(self.handshake_timeout, self.builder.handshake::<_, Bytes>(io));
        let mut h2 = tokio::select! {
            handshake = handshake => match handshake {
                Ok(Ok(h2)) => h2,
                Ok(Err(error)) => return log(&error),
                Err(_elapsed) => return false,
            },
            () = connection.cut.cancelled() => return false,
            () = ends.abort.cancelled() => return false,
            // Nothing was promised to a peer that has not finished its handshake.
            () = connection.shed() => return false,
        };
        let mut keepalive = KeepAlive::new(self, h2.ping_pong());
        let mut age = pin!(aged(self.max_age));
        let mut closing = pin!(ends.closing.cancelled());
        let mut abort = pin!(ends.abort.cancelled());
        let mut cut = pin!(connection.cut.cancelled());
        // Once it is to end: when it is cut, if ever.
        let mut grace: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = None;
        let mut window_granted = false;
        // When the window of streams is set, once a larger one was granted.
        let mut stream_window_due = None;
        loop {
            tokio::select! {
                accepted = h2.accept() => match accepted {
                    Some(Ok((request, respond))) => self.open(request, respond, &mut service, connection),
                    Some(Err(error)) => return log(&error),
                    None => return grace.is_some(),
                },
                signal = poll_fn(|cx| connection.poll_signal(window_granted, cx)) => match signal {
                    Signal::Shed => {
                        // It says which calls were seen, and so which may be made again elsewhere.
                        h2.abrupt_shutdown(Reason::NO_ERROR);
                        grace = Some(Box::pin(sleep(Duration::from_secs(1))));
                    }
                    Signal::Window if self.grow(&mut h2, connection) => {
                        window_granted = true;
                        stream_window_due = self.grow_streams(&mut h2);
                    }
                    Signal::Window => {}
                },
                () = due(stream_window_due) => stream_window_due = self.grow_streams(&mut h2),
                alive = keepalive.run() => if !alive {
                    tracing::debug!("a connection does not answer pings");
                    return false;
                },
                () = &mut age, if grace.is_none() => {
                    h2.graceful_shutdown();
                    grace = Some(Box::pin(sleep(self.max_age_grace)));
                }
                () = &mut closing, if grace.is_none() => {
                    h2.graceful_shutdown();
                    grace = Some(Box::pin(std::future::pending()));
                }
                () = passed(grace.as_mut()) => {
                    tracing::debug!("a connection was cut after its grace");
                    return false;
                }
                () = &mut cut => return false,
                () = &mut abort => {
                    tracing::debug!("a connection was cut at the end of the drain");
                    return false;
                }
            }
        }
    }

    /// Grants the full window, where there is memory for it.
    fn grow<Io: AsyncRead + AsyncWrite + Unpin>(
        &self,
        h2: &mut server::Connection<Io, Bytes>,
        connection: &Connection,
    ) -> bool {
        if !connection.grow_window(u64::from(self.window - BASE_WINDOW)) {
            return false;
        }
        h2.set_target_window_size(self.window);
        true
    }

    /// Tells the peer of the full window of streams; when to try again, where it has not acknowledged the settings before.
    fn grow_streams<Io: AsyncRead + AsyncWrite + Unpin>(
        &self,
        h2: &mut server::Connection<Io, Bytes>,
    ) -> Option<Instant> {
        h2.set_initial_window_size(self.stream_window).err().map(|_pending| Instant::now() + SETTINGS_RETRY)
    }

    /// Starts a call.
    fn open<S, B>(
        &self,
        request: Request<h2::RecvStream>,
        respond: SendResponse<Bytes>,
        service: &mut S,
        connection: &Arc<Connection>,
    ) where
        S: Served<B>,
        B: HttpBody<Data = Bytes, Error: Into<StdError>> + Send + 'static,
    {
        let bytes = header_bytes(request.headers());
        if bytes > self.max_headers {
            return refuse(respond, status::metadata_too_large(bytes, self.max_headers));
        }
        let call = match connection.open_call(request.body().stream_id().as_u32(), bytes as u64) {
            Ok(call) => call,
            Err(status) => return refuse(respond, status),
        };
        let mut request = request.map(RequestBody::new);
        request.extensions_mut().insert(Arc::clone(&call.call));
        tokio::spawn(answer(service.call(request), respond, call));
    }
}

/// The overhead of small DATA frames that a connection may have buffered.
fn frame_overhead(settings: &Server) -> usize {
    (settings.max_streams as usize).saturating_mul(FRAME_OVERHEAD)
}

/// Bytes of the headers, by HTTP/2's count.
fn header_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + HEADER_OVERHEAD).sum()
}

/// Logs why a connection ended; it did not end in order. Floods of resets are worth a warning, and no flood of warnings.
fn log(error: &h2::Error) -> bool {
    static FLOODS: AtomicU64 = AtomicU64::new(0);
    if error.is_library() && error.reason() == Some(Reason::ENHANCE_YOUR_CALM) {
        let floods = FLOODS.fetch_add(1, Relaxed) + 1;
        if floods.is_power_of_two() {
            tracing::warn!(floods, %error, "connections were closed because their peers flooded them");
        }
    }
    tracing::debug!(%error, "a connection ended");
    false
}

async fn due(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

async fn passed(grace: Option<&mut Pin<Box<dyn Future<Output = ()> + Send>>>) {
    match grace {
        Some(grace) => grace.await,
        None => std::future::pending().await,
    }
}

/// Answers a call that is not taken up.
fn refuse(mut respond: SendResponse<Bytes>, status: Status) {
    let response = status.into_http::<()>();
    // Fails only where the stream is gone.
    let _gone = respond.send_response(response, true);
}

/// Why a call ended before its answer was sent.
enum Ended {
    /// The caller reset it, or the connection is gone.
    Gone,
    /// It stalled.
    Stalled,
    /// Its body failed.
    Failed,
}

/// Runs a call and sends its answer.
async fn answer<F, B>(answering: F, mut respond: SendResponse<Bytes>, open: OpenCall)
where
    F: Future<Output = Result<Response<B>, Infallible>>,
    B: HttpBody<Data = Bytes, Error: Into<StdError>>,
{
    let (head, body) = match answered(answering, &mut respond, &open.call).await {
        Ok(response) => response.into_parts(),
        Err(Ended::Stalled) => return refuse(respond, status::stalled()),
        Err(Ended::Gone | Ended::Failed) => return,
    };
    // A status among the headers ends the stream with them: gRPC's C core loses it if an empty frame follows.
    let end = body.is_end_stream() || head.headers.contains_key("grpc-status");
    let Ok(mut stream) = respond.send_response(Response::from_parts(head, ()), end) else { return };
    if end {
        return;
    }
    match send(body, &mut stream, &open.call).await {
        Ok(()) | Err(Ended::Gone) => {}
        // gRPC reads this code as RESOURCE_EXHAUSTED.
        Err(Ended::Stalled) => stream.send_reset(Reason::ENHANCE_YOUR_CALM),
        Err(Ended::Failed) => stream.send_reset(Reason::INTERNAL_ERROR),
    }
}

/// Waits for the answer, unless the call ends before it. The handler is dropped with its future in either case.
async fn answered<F, B>(answering: F, respond: &mut SendResponse<Bytes>, call: &Call) -> Result<Response<B>, Ended>
where
    F: Future<Output = Result<Response<B>, Infallible>>,
{
    let mut answering = pin!(answering);
    poll_fn(|cx| {
        if let Poll::Ready(Ok(response)) = answering.as_mut().poll(cx) {
            return Poll::Ready(Ok(response));
        }
        if call.poll_evicted(cx).is_ready() {
            return Poll::Ready(Err(Ended::Stalled));
        }
        respond.poll_reset(cx).map(|_| Err(Ended::Gone))
    })
    .await
}

/// Sends a body, holding no more of it than the peer's window takes.
async fn send<B>(body: B, stream: &mut SendStream<Bytes>, call: &Arc<Call>) -> Result<(), Ended>
where
    B: HttpBody<Data = Bytes, Error: Into<StdError>>,
{
    let mut body = pin!(body);
    loop {
        let frame = poll_fn(|cx| match body.as_mut().poll_frame(cx) {
            Poll::Ready(frame) => Poll::Ready(Ok(frame)),
            Poll::Pending => interrupted(stream, call, cx).map(Err),
        });
        let Some(frame) = frame.await? else {
            return stream.send_data(Bytes::new(), true).map_err(|_| Ended::Gone);
        };
        match frame.map_err(|_| Ended::Failed)?.into_data() {
            Ok(data) => send_data(data, stream, call).await?,
            Err(frame) => {
                let trailers = frame.into_trailers().unwrap_or_default();
                stream.reserve_capacity(0);
                return stream.send_trailers(trailers).map_err(|_| Ended::Gone);
            }
        }
    }
}

async fn send_data(mut data: Bytes, stream: &mut SendStream<Bytes>, call: &Arc<Call>) -> Result<(), Ended> {
    let mut waiting = None;
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        if stream.capacity() == 0 {
            waiting.get_or_insert_with(|| call.await_window());
            poll_fn(|cx| match stream.poll_capacity(cx) {
                Poll::Ready(Some(Ok(0))) | Poll::Pending => interrupted(stream, call, cx).map(Err),
                Poll::Ready(Some(Ok(_))) => Poll::Ready(Ok(())),
                Poll::Ready(Some(Err(_)) | None) => Poll::Ready(Err(Ended::Gone)),
            })
            .await?;
        }
        let part = data.split_to(stream.capacity().min(data.len()));
        call.sent(part.len());
        stream.send_data(part, false).map_err(|_| Ended::Gone)?;
    }
    Ok(())
}

/// Ready once a call that is being answered has to end.
fn interrupted(stream: &mut SendStream<Bytes>, call: &Call, cx: &mut Context<'_>) -> Poll<Ended> {
    if call.poll_evicted(cx).is_ready() {
        return Poll::Ready(Ended::Stalled);
    }
    stream.poll_reset(cx).map(|_| Ended::Gone)
}

/// Pings, and the time by which they must be answered.
struct KeepAlive {
    pings: Option<PingPong>,
    interval: Duration,
    timeout: Duration,
    timer: Pin<Box<Sleep>>,
    pinged: bool,
}

impl KeepAlive {
    fn new(protocol: &Protocol, pings: Option<PingPong>) -> Self {
        let interval = protocol.keepalive_interval.unwrap_or_default();
        let pings = pings.filter(|_| protocol.keepalive_interval.is_some());
        let timer = Box::pin(sleep(interval));
        Self { pings, interval, timeout: protocol.keepalive_timeout, timer, pinged: false }
    }

    /// Waits for the next event; whether the peer is alive.
    async fn run(&mut self) -> bool {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let Some(pings) = &mut self.pings else { return Poll::Pending };
        if self.pinged && pings.poll_pong(cx).is_ready() {
            self.pinged = false;
            self.timer.as_mut().reset(Instant::now() + self.interval);
        }
        ready!(self.timer.as_mut().poll(cx));
        if self.pinged {
            return Poll::Ready(false);
        }
        self.pinged = pings.send_ping(Ping::opaque()).is_ok();
        self.timer.as_mut().reset(Instant::now() + if self.pinged { self.timeout } else { self.interval });
        Poll::Ready(true)
    }
}

/// Tells the connection whether its peer takes what is written.
struct Watched<Io> {
    io: Io,
    connection: Arc<Connection>,
}

impl<Io> Watched<Io> {
    fn note(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.connection.note_write(written.is_pending());
        written
    }
}

impl<Io: AsyncRead + Unpin> AsyncRead for Watched<Io> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<Io: AsyncWrite + Unpin> AsyncWrite for Watched<Io> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.note(written)
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
