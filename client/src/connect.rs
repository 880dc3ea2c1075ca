//! Where the daemon is, and how connections to it behave.

use std::{
    error::Error as StdError,
    num::NonZero,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::try_join_all;
use tonic::transport::{Channel, Endpoint};

use crate::{Client, Error, Result, RetryPolicy};

/// Where a daemon listens unless it is told otherwise.
pub const DEFAULT_URL: &str = "http://127.0.0.1:7433";

/// Largest HTTP/2 frame taken from the daemon: large replies arrive in few pieces.
const FRAME_BYTES: u32 = 1 << 20;
/// What one stream may have in flight before it waits for the reader.
const STREAM_WINDOW_BYTES: u32 = 64 << 20;
/// The same for all streams of a connection.
const CONNECTION_WINDOW_BYTES: u32 = 128 << 20;
/// How often a connection with calls in flight is pinged.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
/// How long the answer to a ping may take.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// What a [`Client`] is made from.
#[derive(Clone, Debug)]
pub struct Builder {
    urls: Vec<String>,
    connections: NonZero<usize>,
    connect_timeout: Duration,
    pub(crate) settings: Settings,
}

/// What every call of a client goes by.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) deadline: Duration,
    pub(crate) retry: RetryPolicy,
    pub(crate) max_message_bytes: usize,
    pub(crate) timings: bool,
}

impl Builder {
    /// A daemon at `http://host:port` (the scheme may be left out) or `unix:///path`.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            urls: vec![url.into()],
            connections: NonZero::<usize>::MIN,
            connect_timeout: Duration::from_secs(5),
            settings: Settings {
                deadline: Duration::from_secs(60),
                retry: RetryPolicy::default(),
                max_message_bytes: 256 << 20,
                timings: false,
            },
        }
    }

    /// One more daemon, with which the others share the calls.
    #[must_use]
    pub fn and(mut self, url: impl Into<String>) -> Self {
        self.urls.push(url.into());
        self
    }

    /// How many connections there are, one unless this says more; each call goes over the next of them. A daemon serves each
    /// connection on one of its threads, so that many small calls at once take more than one.
    #[must_use]
    pub fn connections(mut self, count: NonZero<usize>) -> Self {
        self.connections = count;
        self
    }

    /// How long a call may take, retries included. Default one minute. Streams have no deadline.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.settings.deadline = deadline;
        self
    }

    /// What is retried.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.settings.retry = policy;
        self
    }

    /// Largest message sent or taken. Default 256 MiB; the daemon has limits of its own.
    #[must_use]
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_message_bytes = bytes;
        self
    }

    /// Whether to ask the daemon where each call spent its time.
    #[must_use]
    pub fn timings(mut self, wanted: bool) -> Self {
        self.settings.timings = wanted;
        self
    }

    /// How long connecting may take. Default five seconds.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Connects, so that a wrong address shows at once. Several daemons are connected to when first used.
    pub async fn connect(self) -> Result<Client> {
        let channels = match self.endpoints()?.as_slice() {
            [one] => {
                let connected = try_join_all((0..self.connections.get()).map(|_| one.connect())).await;
                connected.map_err(|error| Error::Connect { url: self.urls[0].clone(), reason: root_cause(&error) })?
            }
            many => self.each(|| Channel::balance_list(many.iter().cloned())),
        };
        Ok(Client::new(Channels::new(channels), self.settings))
    }

    /// Connects when first used. Must be called on a tokio runtime.
    pub fn connect_lazy(self) -> Result<Client> {
        let channels = match self.endpoints()?.as_slice() {
            [one] => self.each(|| one.connect_lazy()),
            many => self.each(|| Channel::balance_list(many.iter().cloned())),
        };
        Ok(Client::new(Channels::new(channels), self.settings))
    }

    fn each(&self, make: impl Fn() -> Channel) -> Vec<Channel> {
        (0..self.connections.get()).map(|_| make()).collect()
    }

    fn endpoints(&self) -> Result<Vec<Endpoint>> {
        self.urls.iter().map(|url| endpoint(url, self.connect_timeout)).collect()
    }
}

/// The connections of a client, which its clones share.
#[derive(Clone, Debug)]
pub(crate) struct Channels {
    all: Arc<[Channel]>,
    turn: Arc<AtomicUsize>,
}

impl Channels {
    /// At least one.
    fn new(all: Vec<Channel>) -> Self {
        Self { all: all.into(), turn: Arc::default() }
    }

    /// The one whose turn it is.
    pub(crate) fn next(&self) -> Channel {
        self.all[self.turn.fetch_add(1, Ordering::Relaxed) % self.all.len()].clone()
    }
}

fn endpoint(url: &str, connect_timeout: Duration) -> Result<Endpoint> {
    let bad = |reason: &str| Error::Address { url: url.to_owned(), reason: reason.to_owned() };
    let full = match url.split_once("://") {
        Some(("http" | "unix", rest)) if !rest.is_empty() => url.to_owned(),
        Some(("http" | "unix", _)) => return Err(bad("nothing after the scheme")),
        Some(("https", _)) => return Err(bad("TLS is not supported; put a proxy that ends it in front")),
        Some(_) => return Err(bad("expected http://host:port or unix:///path")),
        None if url.is_empty() => return Err(bad("it is empty")),
        None => format!("http://{url}"),
    };
    let endpoint = Endpoint::from_shared(full).map_err(|error| bad(&root_cause(&error)))?;
    Ok(endpoint
        .connect_timeout(connect_timeout)
        .tcp_nodelay(true)
        .tcp_keepalive(Some(KEEPALIVE_INTERVAL))
        .max_frame_size(FRAME_BYTES)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT))
}

/// The innermost reason, which is the one that tells something.
fn root_cause(error: &dyn StdError) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_or_refused_with_a_reason() {
        for good in
            ["http://localhost:7433", "127.0.0.1:7433", "localhost:1", "unix:///run/accelerd.sock", "[::1]:7433"]
        {
            assert!(endpoint(good, Duration::ZERO).is_ok(), "{good}");
        }
        for bad in ["", "https://a:1", "ftp://a", "http://", "unix://", "a b:1"] {
            assert!(matches!(endpoint(bad, Duration::ZERO), Err(Error::Address { .. })), "{bad}");
        }
    }
}
