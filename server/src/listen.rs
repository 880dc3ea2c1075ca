//! Listeners, and the HTTP/2 connections they take: spread over reactor threads, bounded, aged, and ended gracefully.

use std::{
    convert::Infallible,
    future::Future,
    hash::{BuildHasher, RandomState},
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as HttpBody;
use hyper::{body::Incoming, server::conn::http2};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream},
    runtime::{Builder, Handle},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::codegen::StdError;
use tower::Service;

use crate::config::{Server, to_usize};

/// Bytes that a connection opens with, by which HTTP/2 with prior knowledge is told from anything else.
const PREFACE_LEN: usize = 24;

/// Replies waiting to be sent, for each call, before the handler is held back.
const SEND_BUFFER: usize = 4 << 20;

/// How long an ended connection is still read from: what its caller sent before it knew would otherwise reset it, and take
/// along answers that are still on their way.
const LINGER: Duration = Duration::from_millis(500);

/// How long a failing accept waits; the usual reason is that descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Threads that each serve the connections given to them, without sharing: cheaper than one runtime that moves calls
/// between threads, since a connection's calls share its state anyway.
#[derive(Debug)]
pub(crate) struct Reactors {
    all: Arc<[Reactor]>,
    stop: CancellationToken,
    threads: Vec<thread::JoinHandle<()>>,
}

/// One of these threads.
#[derive(Debug)]
pub(crate) struct Reactor {
    handle: Handle,
    connections: Arc<AtomicUsize>,
}

impl Reactor {
    fn new(handle: Handle) -> Self {
        Self { handle, connections: Arc::default() }
    }

    /// How many connections it serves.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }

    /// How long it was at work and not waiting, since its start.
    pub(crate) fn busy(&self) -> Duration {
        self.handle.metrics().worker_total_busy_duration(0)
    }
}

impl Reactors {
    /// Starts this many threads; 0 takes one for each core.
    pub(crate) fn start(count: usize) -> io::Result<Self> {
        let count = if count == 0 { thread::available_parallelism().map_or(1, usize::from) } else { count };
        let stop = CancellationToken::new();
        let (mut all, mut threads) = (vec![], vec![]);
        for i in 0..count {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            all.push(Reactor::new(runtime.handle().clone()));
            let stopped = stop.clone();
            let name = format!("reactor-{i}");
            let run = move || {
                runtime.block_on(stopped.cancelled());
                // Blocking work that is still under way has no caller any more.
                runtime.shutdown_background();
            };
            threads.push(thread::Builder::new().name(name).spawn(run)?);
        }
        Ok(Self { all: all.into(), stop, threads })
    }

    /// The runtime of the caller, for listeners with little to do.
    pub(crate) fn here() -> Self {
        let all = Arc::new([Reactor::new(Handle::current())]);
        Self { all, stop: CancellationToken::new(), threads: vec![] }
    }

    /// Each of them.
    pub(crate) fn all(&self) -> &Arc<[Reactor]> {
        &self.all
    }

    /// The one with the fewest connections.
    fn least(&self) -> &Reactor {
        let least = self.all.iter().min_by_key(|reactor| reactor.connections());
        least.expect("there is at least one reactor")
    }

    /// Ends the threads, and waits for them. Connections still served are cut.
    pub(crate) fn stop(mut self) {
        self.stop.cancel();
        for thread in self.threads.drain(..) {
            let _panicked = thread.join();
        }
    }
}

impl Drop for Reactors {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Counts a connection of a reactor, and of all.
struct Counted(Arc<AtomicUsize>, Arc<AtomicUsize>);

impl Counted {
    fn new(one: &Arc<AtomicUsize>, all: &Arc<AtomicUsize>) -> Self {
        one.fetch_add(1, Relaxed);
        all.fetch_add(1, Relaxed);
        Self(Arc::clone(one), Arc::clone(all))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
        self.1.fetch_sub(1, Relaxed);
    }
}

/// How connections end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ends {
    /// No new connection; those that are there get GOAWAY and finish their calls.
    pub(crate) closing: CancellationToken,
    /// Those that are still there are cut.
    pub(crate) abort: CancellationToken,
}

/// What connections are served with, and how many there are.
pub(crate) struct Front<S> {
    service: S,
    http2: http2::Builder<TokioExecutor>,
    settings: Server,
    reactors: Arc<Reactors>,
    ends: Ends,
    connections: Arc<Connections>,
}

/// The connections of a front.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    now: Arc<AtomicUsize>,
    refused: AtomicU64,
    tasks: TaskTracker,
}

impl Connections {
    /// How many there are.
    pub(crate) fn now(&self) -> usize {
        self.now.load(Relaxed)
    }

    /// How many were refused since the start.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Waits until every one has ended.
    pub(crate) async fn ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn refuse(&self, limit: usize) {
        let refused = self.refused.fetch_add(1, Relaxed) + 1;
        // A flood must not flood the log.
        if refused.is_power_of_two() {
            tracing::warn!(refused, limit, "too many connections");
        }
    }
}

/// Where connections come from.
pub(crate) trait Listener: Send + Sync + 'static {
    /// A connection that no runtime knows yet.
    type Raw: Send + 'static;
    /// A connection that can be read and written.
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Accepts a connection.
    fn next(&self) -> impl Future<Output = io::Result<Self::Raw>> + Send;

    /// Makes it ready, on its reactor. What comes before HTTP/2, a TLS handshake for instance, belongs here.
    fn open(raw: Self::Raw, settings: &Server) -> impl Future<Output = io::Result<Self::Io>> + Send;
}

impl Listener for TcpListener {
    type Raw = std::net::TcpStream;
    type Io = TcpStream;

    async fn next(&self) -> io::Result<Self::Raw> {
        self.accept().await?.0.into_std()
    }

    async fn open(raw: Self::Raw, settings: &Server) -> io::Result<Self::Io> {
        let stream = TcpStream::from_std(raw)?;
        stream.set_nodelay(true)?;
        preface(&stream, settings.handshake_timeout).await?;
        Ok(stream)
    }
}

impl Listener for UnixListener {
    type Raw = std::os::unix::net::UnixStream;
    type Io = UnixStream;

    async fn next(&self) -> io::Result<Self::Raw> {
        self.accept().await?.0.into_std()
    }

    async fn open(raw: Self::Raw, _: &Server) -> io::Result<Self::Io> {
        UnixStream::from_std(raw)
    }
}

/// What is asked of the service behind a front.
pub(crate) trait Served<B>:
    Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send + 'static>
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S, B> Served<B> for S where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send + 'static>
        + Clone
        + Send
        + Sync
        + 'static
{
}

impl<S> Front<S> {
    pub(crate) fn new(service: S, settings: &Server, reactors: Arc<Reactors>, ends: Ends) -> Arc<Self> {
        Arc::new(Self {
            service,
            http2: http2(settings),
            settings: settings.clone(),
            reactors,
            ends,
            connections: Arc::default(),
        })
    }

    /// Its connections.
    pub(crate) fn connections(&self) -> &Arc<Connections> {
        &self.connections
    }

    /// Takes connections until closing.
    pub(crate) async fn accept<L, B>(self: Arc<Self>, listener: L)
    where
        L: Listener,
        S: Served<B>,
        B: HttpBody<Data = Bytes, Error: Into<StdError>> + Send + 'static,
    {
        while let Some(accepted) = self.ends.closing.run_until_cancelled(listener.next()).await {
            match accepted {
                Ok(_) if self.connections.now() >= self.settings.max_connections => {
                    self.connections.refuse(self.settings.max_connections);
                }
                Ok(raw) => {
                    let reactor = self.reactors.least();
                    let counted = Counted::new(&reactor.connections, &self.connections.now);
                    let front = Arc::clone(&self);
                    let connection = async move {
                        let _counted = counted;
                        match L::open(raw, &front.settings).await {
                            Ok(io) => front.serve(io).await,
                            Err(error) => tracing::debug!(%error, "a connection was not opened"),
                        }
                    };
                    self.connections.tasks.spawn_on(connection, &reactor.handle);
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Serves one connection to its end.
    async fn serve<Io, B>(&self, mut io: Io)
    where
        Io: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        S: Served<B>,
        B: HttpBody<Data = Bytes, Error: Into<StdError>> + Send + 'static,
    {
        let service = TowerToHyperService::new(self.service.clone());
        let ended = self.serve_calls(self.http2.serve_connection(TokioIo::new(&mut io), service)).await;
        if ended {
            tokio::select! {
                () = linger(&mut io) => {}
                () = self.ends.abort.cancelled() => {}
            }
        }
    }

    /// Serves a connection's calls; whether it ended because this side wanted it to, with all of them answered.
    async fn serve_calls<Io, B>(
        &self,
        connection: http2::Connection<TokioIo<Io>, TowerToHyperService<S>, TokioExecutor>,
    ) -> bool
    where
        Io: AsyncRead + AsyncWrite + Unpin + Send,
        S: Served<B>,
        B: HttpBody<Data = Bytes, Error: Into<StdError>> + Send + 'static,
    {
        let mut connection = pin!(connection);
        let grace = tokio::select! {
            ended = connection.as_mut() => {
                log(ended);
                return false;
            }
            () = aged(self.settings.max_connection_age) => Some(self.settings.max_connection_age_grace),
            () = self.ends.closing.cancelled() => None,
        };
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            ended = connection => {
                log(ended);
                return true;
            }
            () = for_long(grace) => tracing::debug!("a connection was cut at its age"),
            () = self.ends.abort.cancelled() => tracing::debug!("a connection was cut at the end of the drain"),
        }
        false
    }
}

/// Tells the caller that nothing more comes, and reads what he still sends until he closes, too, or the time is up.
async fn linger<Io: AsyncRead + AsyncWrite + Unpin>(io: &mut Io) {
    let mut ignored = [0; 4096];
    let read = async {
        let mut open = io.shutdown().await.is_ok();
        while open {
            open = matches!(io.read(&mut ignored).await, Ok(1..));
        }
    };
    let _late = timeout(LINGER, read).await;
}

fn http2(settings: &Server) -> http2::Builder<TokioExecutor> {
    let window = |size| u32::try_from(to_usize(size)).unwrap_or(u32::MAX);
    let mut http2 = http2::Builder::new(TokioExecutor::new());
    http2
        .timer(TokioTimer::new())
        .max_frame_size(window(settings.frame_bytes))
        .initial_stream_window_size(window(settings.stream_window_bytes))
        .initial_connection_window_size(window(settings.connection_window_bytes))
        .max_concurrent_streams(settings.max_streams)
        .max_header_list_size(window(settings.max_header_bytes))
        .max_pending_accept_reset_streams(settings.max_pending_resets)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(Some(settings.keepalive_interval).filter(|interval| !interval.is_zero()))
        .keep_alive_timeout(settings.keepalive_timeout);
    http2
}

/// Waits for a connection's age, a tenth more or less, so that connections made at once do not end at once.
async fn aged(age: Duration) {
    if age.is_zero() {
        return std::future::pending().await;
    }
    let random = RandomState::new().hash_one(0) % 1024;
    sleep(age.mul_f64(0.9 + 0.2 * random as f64 / 1024.0)).await;
}

/// Waits that long; without a bound, for ever.
async fn for_long(bound: Option<Duration>) {
    match bound {
        Some(bound) => sleep(bound).await,
        None => std::future::pending().await,
    }
}

/// Waits for the preface without taking it, so that a peer that sends nothing, or half of it, holds nothing for long.
async fn preface(stream: &TcpStream, within: Duration) -> io::Result<()> {
    let mut seen = [0; PREFACE_LEN];
    let come = async {
        loop {
            match stream.peek(&mut seen).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                PREFACE_LEN.. => return Ok(()),
                // A part of it is there, so that `peek` does not wait; it is rare enough to look again later.
                _ => sleep(Duration::from_millis(10)).await,
            }
        }
    };
    timeout(within, come).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
}

fn log(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}

/// Listens on a TCP address.
pub(crate) fn tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restart must not wait for the last daemon's connections to leave TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(4096)
}

/// A Unix socket's file, removed when the daemon ends.
#[derive(Debug)]
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _gone_already = std::fs::remove_file(&self.0);
    }
}

/// Listens on a Unix socket. A file left over from a dead daemon is replaced, a live one's is not.
pub(crate) fn unix(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => return Err(io::ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path)?,
        Err(_) => {}
    }
    Ok((UnixListener::bind(path)?, SocketFile(path.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_ended_connection_is_read_until_its_caller_closes_or_the_time_is_up() {
        let begin = tokio::time::Instant::now();
        let (mut here, mut caller) = tokio::io::duplex(16);
        let reading = tokio::spawn(async move { linger(&mut here).await });
        caller.write_all(&[0; 1000]).await.expect("it is read, or it would not fit");
        assert_eq!(caller.read(&mut [0]).await.expect("an end"), 0, "nothing more comes");
        drop(caller);
        reading.await.expect("it ends with the caller");
        assert_eq!(begin.elapsed(), Duration::ZERO);
        let (mut here, _silent) = tokio::io::duplex(16);
        linger(&mut here).await;
        assert!((LINGER..LINGER * 2).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    }
}
