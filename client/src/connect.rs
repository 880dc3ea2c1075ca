//! Addresses, connections and settings of a client.

use std::{net::IpAddr, num::NonZero, time::Duration};

use futures::future::try_join_all;
use tonic::transport::{Channel, Endpoint};

use crate::{
    Client, Error, Priority, Result, RetryPolicy, Tls,
    call::{Channels, Settings},
    error::root_cause,
    token::{self, Token},
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
    tls: Option<Tls>,
    token: Option<Token>,
    allow_plaintext_token: bool,
    settings: Settings,
}

impl Builder {
    /// A client of the daemon at `http://host:port`, `https://host:port` or `unix:///path`. Without a scheme, an address is
    /// `https` if [`Builder::tls`] is set, else `http`.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            urls: vec![url.into()],
            connections: NonZero::<usize>::MIN,
            connect_timeout: Duration::from_secs(5),
            local_address: None,
            tls: None,
            token: None,
            allow_plaintext_token: false,
            settings: Settings {
                deadline: Duration::from_secs(60),
                retry: RetryPolicy::default(),
                max_message_bytes: 256 << 20,
                timings: false,
                priority: Priority::Normal,
                authorization: None,
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

    /// Deadline of a call, retries included; default one minute. More than a year means none. Streams have no deadline.
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

    /// Requests server-side timings of each call.
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

    /// TLS settings. An `https` address without them has [`Tls::default`]; other addresses are refused with them.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Bearer token of all calls. It is sent only over TLS, to a Unix socket or to a loopback address; other addresses are
    /// refused with it.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(Token::new(token.into()));
        self
    }

    /// Sends the token over plaintext to other machines, where everyone on the network path can read it; default
    /// false. For networks that encrypt by other means, such as a service mesh.
    #[must_use]
    pub fn allow_plaintext_token(mut self, allowed: bool) -> Self {
        self.allow_plaintext_token = allowed;
        self
    }

    /// Connects, so that a wrong address fails at once. With several daemons it connects on the first call.
    pub async fn connect(self) -> Result<Client> {
        let settings = self.authorized()?;
        let channels = match self.endpoints()?.as_slice() {
            [one] => {
                let connected = try_join_all((0..self.connections.get()).map(|_| one.connect())).await;
                connected.map_err(|error| Error::Connect { url: self.urls[0].clone(), reason: root_cause(&error) })?
            }
            many => self.each(|| Channel::balance_list(many.iter().cloned())),
        };
        Ok(Client::new(Channels::new(channels), settings))
    }

    /// Connects on the first call. Must be called on a Tokio runtime.
    pub fn connect_lazy(self) -> Result<Client> {
        let settings = self.authorized()?;
        let channels = match self.endpoints()?.as_slice() {
            [one] => self.each(|| one.connect_lazy()),
            many => self.each(|| Channel::balance_list(many.iter().cloned())),
        };
        Ok(Client::new(Channels::new(channels), settings))
    }

    /// A client over a connection that is made already.
    #[cfg(test)]
    pub(crate) fn over(self, channel: Channel) -> Client {
        Client::new(Channels::new(vec![channel]), self.settings)
    }

    fn each(&self, make: impl Fn() -> Channel) -> Vec<Channel> {
        (0..self.connections.get()).map(|_| make()).collect()
    }

    fn authorized(&self) -> Result<Settings> {
        let authorization = self.token.as_ref().map(Token::metadata).transpose()?;
        Ok(Settings { authorization, ..self.settings.clone() })
    }

    fn endpoints(&self) -> Result<Vec<Endpoint>> {
        let config = match &self.tls {
            Some(tls) => Some(tls.config()?),
            None => None,
        };
        let scheme = if config.is_some() { "https" } else { "http" };
        let endpoint = |url: &String| {
            let endpoint = endpoint(url, scheme, self.connect_timeout)?.local_address(self.local_address);
            // The URI of a Unix socket's endpoint is a placeholder.
            let is_private = url.starts_with("unix://") || token::is_private(endpoint.uri());
            if self.token.is_some() && !self.allow_plaintext_token && !is_private {
                return Err(Error::Credentials(format!(
                    "refusing to send a token to {url} in plaintext, where others can read it: use an https:// address"
                )));
            }
            let bad = |reason: String| Error::Address { url: url.clone(), reason };
            let config = match (&config, endpoint.uri().scheme_str()) {
                (Some(config), Some("https")) => config.clone(),
                (None, Some("https")) => Tls::default().config()?,
                (Some(_), _) => return Err(bad("TLS settings need an https:// address".to_owned())),
                (None, _) => return Ok(endpoint),
            };
            let config = config.timeout(self.connect_timeout);
            endpoint.tls_config(config).map_err(|error| Error::Credentials(format!("TLS: {}", root_cause(&error))))
        };
        self.urls.iter().map(endpoint).collect()
    }
}

impl Client {
    /// Connects to a daemon at `http://host:port`, `https://host:port` or `unix:///path` with default settings.
    pub async fn connect(url: impl Into<String>) -> Result<Self> {
        Builder::new(url).connect().await
    }

    /// Returns a builder of a client with other settings.
    pub fn builder(url: impl Into<String>) -> Builder {
        Builder::new(url)
    }
}

fn endpoint(url: &str, scheme: &str, connect_timeout: Duration) -> Result<Endpoint> {
    let bad = |reason: &str| Error::Address { url: url.to_owned(), reason: reason.to_owned() };
    let full = match url.split_once("://") {
        Some(("http" | "https" | "unix", rest)) if !rest.is_empty() => url.to_owned(),
        Some(("http" | "https" | "unix", _)) => return Err(bad("nothing after the scheme")),
        Some(_) => return Err(bad("expected http://host:port, https://host:port or unix:///path")),
        None if url.is_empty() => return Err(bad("empty address")),
        None => format!("{scheme}://{url}"),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(builder: &Builder) -> String {
        builder.endpoints().expect_err("it is refused").to_string()
    }

    #[test]
    fn addresses_are_read_or_refused_with_a_reason() {
        for good in
            ["http://localhost:7433", "127.0.0.1:7433", "localhost:1", "unix:///run/accelerd.sock", "[::1]:7433"]
        {
            assert!(endpoint(good, "http", Duration::ZERO).is_ok(), "{good}");
        }
        for bad in ["", "ftp://a", "http://", "https://", "unix://", "a b:1"] {
            assert!(matches!(endpoint(bad, "http", Duration::ZERO), Err(Error::Address { .. })), "{bad}");
        }
    }

    #[test]
    fn tls_settings_apply_only_to_addresses_with_tls() {
        let tls = |url: &str| Builder::new(url).tls(Tls::default());
        let endpoints = tls("a:1").endpoints().expect("the default scheme has TLS");
        assert_eq!(endpoints[0].uri().scheme_str(), Some("https"));
        for url in ["http://a:1", "unix:///run/accelerd.sock"] {
            assert!(reason(&tls(url)).contains("TLS settings need an https:// address"), "{url}");
        }
    }

    #[test]
    fn a_token_is_not_sent_in_plaintext_to_another_machine_unless_allowed() {
        let with_token = |url: &str| Builder::new(url).token("s3cret");
        let refused = reason(&with_token("10.0.0.1:7433"));
        assert!(refused.contains("10.0.0.1:7433 in plaintext") && !refused.contains("s3cret"), "{refused}");
        assert!(with_token("localhost:1").and("db.example.com:1").endpoints().is_err());
        for url in ["localhost:1", "unix:///run/accelerd.sock", "https://10.0.0.1:7433"] {
            assert!(with_token(url).endpoints().is_ok(), "{url}");
        }
        assert!(with_token("10.0.0.1:7433").allow_plaintext_token(true).endpoints().is_ok());
    }
}
