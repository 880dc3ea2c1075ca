//! Listeners: accept connections up to a limit and spread them over reactor threads.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use accelerd_kernels::use_short_slice;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream},
    runtime::{Builder, Handle},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    accept_failures::AcceptFailures,
    config::Server,
    peer::Peer,
    transport::{
        connection::{Protocol, ShutdownTokens},
        memory::TransportMemory,
        registry::{self, Connection, Connections, StallTimeouts},
    },
};

/// The HTTP/2 client connection preface.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The response to HTTP/1.
const NOT_HTTP2: &[u8] =
    b"HTTP/1.1 505 HTTP Version Not Supported\r\ncontent-type: text/plain\r\ncontent-length: 39\r\n\
    connection: close\r\n\r\nthis port serves gRPC over HTTP/2 only\n";

/// Time that a closed connection is still read: unread data would make the kernel reset it and discard responses in flight.
const LINGER_TIMEOUT: Duration = Duration::from_millis(500);

/// Single-threaded runtimes, each serving the connections assigned to it. Cheaper than one work-stealing runtime, since the
/// calls of a connection share its state.
#[derive(Debug)]
pub(crate) struct Reactors {
    all: Arc<[Reactor]>,
    stop: CancellationToken,
    threads: Vec<thread::JoinHandle<()>>,
}

/// One reactor thread.
#[derive(Debug)]
pub(crate) struct Reactor {
    handle: Handle,
    connections: Arc<AtomicUsize>,
}

impl Reactor {
    fn new(handle: Handle) -> Self {
        Self { handle, connections: Arc::default() }
    }

    /// Connections it serves.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }

    /// Time it has spent running tasks since its start.
    pub(crate) fn busy_duration(&self) -> Duration {
        self.handle.metrics().worker_total_busy_duration(0)
    }
}

impl Reactors {
    /// Starts `count` threads; 0 means one per core.
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
                use_short_slice();
                runtime.block_on(stopped.cancelled());
                // The calls of blocking tasks that still run have ended.
                runtime.shutdown_background();
            };
            threads.push(thread::Builder::new().name(name).spawn(run)?);
        }
        Ok(Self { all: all.into(), stop, threads })
    }

    /// The current runtime as the only reactor, for listeners with little load.
    pub(crate) fn current() -> Self {
        let all = Arc::new([Reactor::new(Handle::current())]);
        Self { all, stop: CancellationToken::new(), threads: vec![] }
    }

    pub(crate) fn all(&self) -> &Arc<[Reactor]> {
        &self.all
    }

    /// The reactor with the fewest connections.
    fn least_loaded(&self) -> &Reactor {
        let least = self.all.iter().min_by_key(|reactor| reactor.connections());
        least.expect("there is at least one reactor")
    }

    /// Stops the threads and joins them. Open connections are aborted.
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

/// Counts a connection on its reactor and removes it from the listener on drop.
struct ConnectionGuard {
    reactor: Arc<AtomicUsize>,
    connection: Arc<Connection>,
}

impl ConnectionGuard {
    fn new(reactor: &Arc<AtomicUsize>, connection: Arc<Connection>) -> Self {
        reactor.fetch_add(1, Relaxed);
        Self { reactor: Arc::clone(reactor), connection }
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.reactor.fetch_sub(1, Relaxed);
        self.connection.remove();
    }
}

/// Accepts connections and serves them.
pub(crate) struct Acceptor<P> {
    protocol: P,
    settings: Server,
    reactors: Arc<Reactors>,
    shutdown: ShutdownTokens,
    connections: Arc<Connections>,
}

/// An open connection and its other end.
pub(crate) struct Opened<Io> {
    pub(crate) io: Io,
    pub(crate) peer: Peer,
}

/// A source of connections.
pub(crate) trait Listener: Send + Sync + 'static {
    /// An accepted connection that is not registered with a runtime.
    type Raw: Send + 'static;
    /// An open connection.
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// Bytes that a connection holds below HTTP.
    const BUFFER_BYTES: u64 = 0;

    /// Accepts a connection.
    fn next(&self) -> impl Future<Output = io::Result<Self::Raw>> + Send;

    /// Opens the connection on its reactor. Everything before HTTP, such as a TLS handshake, belongs here.
    fn open(raw: Self::Raw, settings: &Server) -> impl Future<Output = io::Result<Opened<Self::Io>>> + Send;
}

impl Listener for TcpListener {
    type Raw = (std::net::TcpStream, SocketAddr);
    type Io = TcpStream;

    async fn next(&self) -> io::Result<Self::Raw> {
        let (stream, address) = self.accept().await?;
        Ok((stream.into_std()?, address))
    }

    async fn open((stream, address): Self::Raw, settings: &Server) -> io::Result<Opened<TcpStream>> {
        let mut io = TcpStream::from_std(stream)?;
        io.set_nodelay(true)?;
        if !wait_for_preface(&io, settings.handshake_timeout).await? {
            timeout(settings.handshake_timeout, io.write_all(NOT_HTTP2)).await??;
            linger(&mut io).await;
            return Err(io::Error::new(io::ErrorKind::InvalidData, "HTTP/1"));
        }
        Ok(Opened { io, peer: Peer::at(address) })
    }
}

/// Accepts connections of HTTP/1.
pub(crate) struct HttpListener(pub(crate) TcpListener);

impl Listener for HttpListener {
    type Raw = (std::net::TcpStream, SocketAddr);
    type Io = TcpStream;

    async fn next(&self) -> io::Result<Self::Raw> {
        self.0.next().await
    }

    async fn open((stream, address): Self::Raw, _: &Server) -> io::Result<Opened<TcpStream>> {
        let io = TcpStream::from_std(stream)?;
        io.set_nodelay(true)?;
        Ok(Opened { io, peer: Peer::at(address) })
    }
}

impl Listener for UnixListener {
    type Raw = std::os::unix::net::UnixStream;
    type Io = UnixStream;

    async fn next(&self) -> io::Result<Self::Raw> {
        self.accept().await?.0.into_std()
    }

    async fn open(raw: Self::Raw, _: &Server) -> io::Result<Opened<UnixStream>> {
        Ok(Opened { io: UnixStream::from_std(raw)?, peer: Peer::default() })
    }
}

/// A registry of connections that are charged to `memory`. Spawns the task that aborts stalled calls.
pub(crate) fn connections(settings: &Server, memory: Arc<TransportMemory>) -> Arc<Connections> {
    let connections = Connections::new(memory);
    let timeouts =
        StallTimeouts { normal: settings.stall_timeout, under_pressure: settings.stall_timeout_under_pressure };
    tokio::spawn(registry::sweep(Arc::downgrade(&connections), timeouts));
    connections
}

impl<P: Protocol> Acceptor<P> {
    /// Serves connections on the reactors.
    pub(crate) fn new(
        protocol: P,
        settings: &Server,
        reactors: Arc<Reactors>,
        shutdown: ShutdownTokens,
        connections: Arc<Connections>,
    ) -> Arc<Self> {
        Arc::new(Self { protocol, settings: settings.clone(), reactors, shutdown, connections })
    }

    /// Accepts connections until the daemon is closing.
    pub(crate) async fn accept<L: Listener>(self: Arc<Self>, listener: L) {
        let mut failures = AcceptFailures::default();
        while let Some(accepted) = self.shutdown.closing.run_until_cancelled(listener.next()).await {
            match accepted {
                Ok(raw) => self.admit::<L>(raw),
                Err(error) => failures.record(&error).await,
            }
        }
    }

    /// Admits a connection within the limits and serves it.
    fn admit<L: Listener>(self: &Arc<Self>, raw: L::Raw) {
        let bytes = self.protocol.base_bytes() + L::BUFFER_BYTES;
        let Some(connection) = self.connections.admit(self.settings.max_connections, bytes) else { return };
        let reactor = self.reactors.least_loaded();
        let guard = ConnectionGuard::new(&reactor.connections, connection);
        let acceptor = Arc::clone(self);
        let serve = async move {
            let opened = tokio::select! {
                opened = L::open(raw, &acceptor.settings) => opened,
                () = guard.connection.evicted() => return,
                () = acceptor.shutdown.closing.cancelled() => return,
            };
            match opened {
                Ok(opened) => acceptor.serve(opened, &guard.connection).await,
                Err(error) => tracing::debug!(%error, "connection not opened"),
            }
        };
        self.connections.tasks.spawn_on(serve, &reactor.handle);
    }

    async fn serve<Io>(&self, Opened { mut io, peer }: Opened<Io>, connection: &Arc<Connection>)
    where
        Io: AsyncRead + AsyncWrite + Unpin + Send,
    {
        static CONNECTIONS: AtomicU64 = AtomicU64::new(1);
        let number = CONNECTIONS.fetch_add(1, Relaxed);
        let peer = Arc::new(Peer { connection: number, ..peer });
        let graceful = self.protocol.serve(&mut io, connection, &peer, &self.shutdown).await;
        if graceful {
            tokio::select! {
                () = linger(&mut io) => {}
                () = self.shutdown.abort.cancelled() => {}
            }
        }
    }
}

/// Closes the write side and reads until the peer closes its own, or the timeout passes.
async fn linger<Io: AsyncRead + AsyncWrite + Unpin>(io: &mut Io) {
    let mut discarded = [0; 4096];
    let read = async {
        let mut open = io.shutdown().await.is_ok();
        while open {
            open = matches!(io.read(&mut discarded).await, Ok(1..));
        }
    };
    let _elapsed = timeout(LINGER_TIMEOUT, read).await;
}

/// Waits for the connection preface without consuming it, so that a silent peer is closed after `limit`. Returns false if the peer
/// speaks HTTP/1. HTTP/2 refuses anything else.
async fn wait_for_preface(stream: &TcpStream, limit: Duration) -> io::Result<bool> {
    let mut seen = [0; PREFACE.len()];
    let preface = async {
        loop {
            match stream.peek(&mut seen).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                len if is_http1(&seen[..len]) => return Ok(false),
                len if len == PREFACE.len() => return Ok(true),
                // With part of the preface buffered, `peek` returns at once: poll, which is rare.
                _ => sleep(Duration::from_millis(10)).await,
            }
        }
    };
    timeout(limit, preface).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
}

/// Returns true if bytes begin a request of HTTP/1: a method, and not the preface.
fn is_http1(seen: &[u8]) -> bool {
    let method = seen.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    method > 0 && seen.get(method) == Some(&b' ') && !PREFACE.starts_with(seen)
}

/// Listens on a TCP address.
pub(crate) fn tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restart must not wait for connections in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(4096)
}

/// The file of a Unix socket; removed on drop, unless another file has replaced it.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    id: FileId,
}

/// The device and the inode of a file.
type FileId = (u64, u64);

impl Drop for SocketFile {
    fn drop(&mut self) {
        if socket_id(&self.path).is_ok_and(|id| id == self.id) {
            let _already_removed = std::fs::remove_file(&self.path);
        }
    }
}

/// Listens on a Unix socket. Replaces a stale socket, but neither one that a live process serves nor another kind of file.
pub(crate) fn unix(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    match socket_id(path) {
        Ok(_) => remove_stale(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = UnixListener::bind(path)?;
    let file = SocketFile { path: path.to_owned(), id: socket_id(path)? };
    Ok((listener, file))
}

/// Removes a socket that no process serves.
fn remove_stale(path: &Path) -> io::Result<()> {
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) => Err(error),
    }
}

/// Identifies the socket at a path. A file of another kind, such as a symbolic link, is an error.
fn socket_id(path: &Path) -> io::Result<FileId> {
    let file = std::fs::symlink_metadata(path)?;
    if !file.file_type().is_socket() {
        let reason = "expected a socket or no file, got a file of another kind, which is not replaced";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, reason));
    }
    Ok((file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_http1_are_told_from_the_preface() {
        for request in ["GET / HTTP/1.1\r\n", "POST /a", "PUT ", "P "] {
            assert!(is_http1(request.as_bytes()), "{request}");
        }
        for other in ["", "P", "PRI ", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x16\x03\x01 ", " GET", "get / "] {
            assert!(!is_http1(other.as_bytes()), "{other:?}");
        }
        let (head, body) = std::str::from_utf8(NOT_HTTP2).expect("text").split_once("\r\n\r\n").expect("a head");
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{head}");
        assert_eq!(body.lines().count(), 1);
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_another_file_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let refused = |path: &Path| unix(path).expect_err("the path is in use");
        std::fs::write(&path, "notes").expect("written");
        assert!(refused(&path).to_string().contains("expected a socket"), "{}", refused(&path));
        assert_eq!(std::fs::read(&path).expect("it is kept"), b"notes");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        assert!(refused(&link).to_string().contains("expected a socket"), "{}", refused(&link));
        std::fs::remove_file(&path).expect("removed");

        drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket that nobody serves"));
        let served = unix(&path).expect("a stale socket is replaced");
        assert_eq!(refused(&path).kind(), io::ErrorKind::AddrInUse);
        drop(served);
        assert!(!path.exists(), "a socket is removed with its listener");

        let (_listener, file) = unix(&path).expect("the path is free");
        std::fs::remove_file(&path).expect("removed");
        std::fs::write(&path, "notes").expect("written");
        drop(file);
        assert_eq!(std::fs::read(&path).expect("it is kept"), b"notes");
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_connection_is_read_until_the_peer_closes_or_the_timeout_passes() {
        let begin = tokio::time::Instant::now();
        let (mut server, mut client) = tokio::io::duplex(16);
        let reading = tokio::spawn(async move { linger(&mut server).await });
        client.write_all(&[0; 1000]).await.expect("it is read, or it would not fit");
        assert_eq!(client.read(&mut [0]).await.expect("end of stream"), 0, "the write side is closed");
        drop(client);
        reading.await.expect("it ends when the client closes");
        assert_eq!(begin.elapsed(), Duration::ZERO);
        let (mut server, _silent_client) = tokio::io::duplex(16);
        linger(&mut server).await;
        assert!((LINGER_TIMEOUT..LINGER_TIMEOUT * 2).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    }
}
