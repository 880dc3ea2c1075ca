//! Addresses, connections and settings of a client.

use std::{error::Error as StdError, net::IpAddr, num::NonZero, time::Duration};

use futures::future::try_join_all;
use tonic::transport::{Channel, Endpoint};

use crate::{
    Client, Error, Priority, Result, RetryPolicy,
    call::{Channels, Settings},
};

/// Address on which a daemon listens by default.
pub const DEFAULT_URL: &str = "http://127.0.0.1:7433";

/// Maximum HTTP/2 frame size: large responses arrive in few frames.
const FRAME_BYTES: u32 = 1 << 20;
/// Flow-control window of a stream.
const STREAM_WINDOW_BYTES: u32 = 64 << 20;
/// Flow-control window of a connection.
const CONNECTION_WINDOW_BYTES: u32 = 128 << 20;
/// Interval of pings on a connection with calls in flight.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
/// Timeout of a ping.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Builder of a [`Client`].
#[derive(Clone, Debug)]
pub struct Builder {
    urls: Vec<String>,
    connections: NonZero<usize>,
    connect_timeout: Duration,
    local_address: Option<IpAddr>,
    settings: Settings,
}

impl Builder {
    /// A client of the daemon at `http://host:port` (the scheme is optional) or `unix:///path`.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            urls: vec![url.into()],
            connections: NonZero::<usize>::MIN,
            connect_timeout: Duration::from_secs(5),
            local_address: None,
            settings: Settings {
                deadline: Duration::from_secs(60),
                retry: RetryPolicy::default(),
                max_message_bytes: 256 << 20,
                timings: false,
                priority: Priority::Normal,
            },
        }
    }

    /// Adds a daemon. Calls are balanced over all daemons.
    #[must_use]
    pub fn and(mut self, url: impl Into<String>) -> Self {
        self.urls.push(url.into());
        self
    }

    /// Number of connections, used round-robin; default 1. A daemon serves each connection on one thread: for a high rate of
    /// small concurrent calls, open several connections.
    #[must_use]
    pub fn connections(mut self, count: NonZero<usize>) -> Self {
        self.connections = count;
        self
    }

    /// Deadline of a call, retries included; default one minute. Streams have no deadline.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.settings.deadline = deadline;
        self
    }

    /// Retry policy.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.settings.retry = policy;
        self
    }

    /// Maximum message size in both directions; default 256 MiB. The daemon has its own limits.
    #[must_use]
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_message_bytes = bytes;
        self
    }

    /// Whether to request server-side timings of each call.
    #[must_use]
    pub fn timings(mut self, enabled: bool) -> Self {
        self.settings.timings = enabled;
        self
    }

    /// Priority of the calls in the daemon's queues; default normal.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.settings.priority = priority;
        self
    }

    /// Local address of the connections, such as that of one of several network interfaces. Unix sockets ignore it.
    #[must_use]
    pub fn local_address(mut self, address: IpAddr) -> Self {
        self.local_address = Some(address);
        self
    }

    /// Timeout of a connection attempt; default five seconds.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Connects, so that a wrong address fails at once. With several daemons it connects on the first call.
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

    /// Connects on the first call. Must be called on a Tokio runtime.
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
        let endpoints = self.urls.iter().map(|url| endpoint(url, self.connect_timeout));
        endpoints.map(|one| Ok(one?.local_address(self.local_address))).collect()
    }
}

impl Client {
    /// Connects to a daemon at `http://host:port` or `unix:///path` with default settings.
    pub async fn connect(url: impl Into<String>) -> Result<Self> {
        Builder::new(url).connect().await
    }

    /// Returns a builder of a client with other settings.
    pub fn builder(url: impl Into<String>) -> Builder {
        Builder::new(url)
    }
}

fn endpoint(url: &str, connect_timeout: Duration) -> Result<Endpoint> {
    let bad = |reason: &str| Error::Address { url: url.to_owned(), reason: reason.to_owned() };
    let full = match url.split_once("://") {
        Some(("http" | "unix", rest)) if !rest.is_empty() => url.to_owned(),
        Some(("http" | "unix", _)) => return Err(bad("nothing after the scheme")),
        Some(("https", _)) => return Err(bad("TLS is not supported; use a proxy that terminates it")),
        Some(_) => return Err(bad("expected http://host:port or unix:///path")),
        None if url.is_empty() => return Err(bad("empty address")),
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

/// The innermost source of an error, which is the most specific.
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
