//! Listeners, and the HTTP/2 connections they take: spread over reactor threads, bounded, aged, and ended gracefully.

use std::{
    future::Future,
    hash::{BuildHasher, RandomState},
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use bytes::Bytes;
use http_body::Body as HttpBody;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream},
    runtime::{Builder, Handle},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic::codegen::StdError;

use crate::{
    config::Server,
    transport::{
        connection::{Protocol, Served},
        memory::Memory,
        registry::{self, Connection, Connections, Stalls},
    },
};

/// Bytes that a connection opens with, by which HTTP/2 with prior knowledge is told from anything else.
const PREFACE_LEN: usize = 24;

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

/// The place of a connection, on its reactor and among all.
struct Place {
    reactor: Arc<AtomicUsize>,
    connection: Arc<Connection>,
}

impl Place {
    fn new(reactor: &Arc<AtomicUsize>, connection: Arc<Connection>) -> Self {
        reactor.fetch_add(1, Relaxed);
        Self { reactor: Arc::clone(reactor), connection }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.reactor.fetch_sub(1, Relaxed);
        self.connection.leave();
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
    protocol: Protocol,
    settings: Server,
    reactors: Arc<Reactors>,
    ends: Ends,
    connections: Arc<Connections>,
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

impl<S> Front<S> {
    /// Serves connections under a budget, and ends their calls when they stall.
    pub(crate) fn new(
        service: S,
        settings: &Server,
        reactors: Arc<Reactors>,
        ends: Ends,
        memory: Arc<Memory>,
    ) -> Arc<Self> {
        let connections = Connections::new(memory);
        let stalls = Stalls { after: settings.stall_timeout, after_when_scarce: settings.stall_timeout_when_scarce };
        tokio::spawn(registry::sweep(Arc::downgrade(&connections), stalls));
        let protocol = Protocol::new(settings);
        Arc::new(Self { service, protocol, settings: settings.clone(), reactors, ends, connections })
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
                Ok(raw) => self.enter::<L, B>(raw),
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Gives a connection a place, if there is one, and serves it.
    fn enter<L, B>(self: &Arc<Self>, raw: L::Raw)
    where
        L: Listener,
        S: Served<B>,
        B: HttpBody<Data = Bytes, Error: Into<StdError>> + Send + 'static,
    {
        let bytes = Protocol::base_bytes(&self.settings);
        let Some(connection) = self.connections.enter(self.settings.max_connections, bytes) else { return };
        let reactor = self.reactors.least();
        let place = Place::new(&reactor.connections, connection);
        let front = Arc::clone(self);
        let serve = async move {
            let opened = tokio::select! {
                opened = L::open(raw, &front.settings) => opened,
                _shed = place.connection.shed() => return,
            };
            match opened {
                Ok(io) => front.serve(io, &place.connection).await,
                Err(error) => tracing::debug!(%error, "a connection was not opened"),
            }
        };
        self.connections.tasks.spawn_on(serve, &reactor.handle);
    }

    /// Serves one connection to its end.
    async fn serve<Io, B>(&self, mut io: Io, connection: &Arc<Connection>)
    where
        Io: AsyncRead + AsyncWrite + Unpin + Send,
        S: Served<B>,
        B: HttpBody<Data = Bytes, Error: Into<StdError>> + Send + 'static,
    {
        let ended = self.protocol.serve(&mut io, self.service.clone(), connection, &self.ends).await;
        if ended {
            tokio::select! {
                () = linger(&mut io) => {}
                () = self.ends.abort.cancelled() => {}
            }
        }
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

/// Waits for a connection's age, a tenth more or less, so that connections made at once do not end at once.
pub(crate) async fn aged(age: Duration) {
    if age.is_zero() {
        return std::future::pending().await;
    }
    let random = RandomState::new().hash_one(0) % 1024;
    sleep(age.mul_f64(0.9 + 0.2 * random as f64 / 1024.0)).await;
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
