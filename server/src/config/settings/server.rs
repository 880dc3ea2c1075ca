//! Listeners and connections: what they accept, their TLS, and how they end.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{some_path, to_usize};
use crate::config::{deserialize, reflection::Reflection, size::ByteSize};

/// Listeners and connections.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Address of the gRPC port.
    pub listen: SocketAddr,
    /// Unix socket that serves gRPC too; empty for none.
    pub uds_path: PathBuf,
    /// Address of the admin port.
    pub admin_listen: SocketAddr,
    /// Address of the health port.
    pub health_listen: SocketAddr,
    /// Threads that serve connections; 0 means one per core.
    pub reactor_threads: usize,
    /// When to serve reflection.
    pub reflection: Reflection,
    /// Maximum size of a message after decompression.
    pub max_message_bytes: ByteSize,
    /// Maximum number of open connections.
    pub max_connections: usize,
    /// Maximum number of concurrent calls per connection.
    pub max_streams: u32,
    /// Maximum size of a received HTTP/2 frame.
    pub frame_bytes: ByteSize,
    /// Flow-control window of a stream with large messages.
    pub stream_window_bytes: ByteSize,
    /// Flow-control window of a connection with large messages.
    pub connection_window_bytes: ByteSize,
    /// Maximum total size of a call's headers.
    pub max_header_bytes: ByteSize,
    /// Age at which a connection gets GOAWAY; zero disables it.
    #[serde(with = "humantime_serde")]
    pub max_connection_age: Duration,
    /// Time for open calls to finish after that.
    #[serde(with = "humantime_serde")]
    pub max_connection_age_grace: Duration,
    /// Interval of keepalive pings; zero disables them.
    #[serde(with = "humantime_serde")]
    pub keepalive_interval: Duration,
    /// Timeout of a ping.
    #[serde(with = "humantime_serde")]
    pub keepalive_timeout: Duration,
    /// Timeout of the HTTP/2 handshake.
    #[serde(with = "humantime_serde")]
    pub handshake_timeout: Duration,
    /// Streams that a peer may reset before they are accepted.
    pub max_pending_resets: usize,
    /// Timeout of a call without progress in either direction.
    #[serde(with = "humantime_serde")]
    pub stall_timeout: Duration,
    /// The same under memory pressure.
    #[serde(with = "humantime_serde")]
    pub stall_timeout_under_pressure: Duration,
}

impl Server {
    /// Path of the Unix socket, if any.
    pub fn uds(&self) -> Option<&Path> {
        some_path(&self.uds_path)
    }

    /// Maximum message size in bytes.
    pub fn max_message(&self) -> usize {
        to_usize(self.max_message_bytes)
    }
}

/// TLS of the gRPC and HTTP ports.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// PEM file with the certificate chain; empty for plaintext.
    pub certificate: PathBuf,
    /// PEM file with its private key.
    pub private_key: PathBuf,
    /// PEM file with the authorities of client certificates; empty asks for none.
    pub client_ca: PathBuf,
    /// Treatment of clients without a certificate.
    #[serde(deserialize_with = "deserialize::choice")]
    pub client_certificates: ClientCertificates,
    /// Interval at which these files and `auth.principals` are checked for changes.
    #[serde(with = "humantime_serde")]
    pub reload_interval: Duration,
}

impl Tls {
    /// Returns true if the gRPC and HTTP ports speak TLS.
    pub fn is_on(&self) -> bool {
        some_path(&self.certificate).is_some()
    }
}

/// Treatment of clients without a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificates {
    /// The handshake fails without a certificate.
    Required,
    /// A client without a certificate may present a token, or is anonymous.
    Optional,
}

/// Graceful shutdown.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Drain {
    /// Time to keep serving while reporting `NOT_SERVING`.
    #[serde(with = "humantime_serde")]
    pub endpoint_delay: Duration,
    /// Time for accepted calls to finish after that.
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    /// True if clients may drain and resume the daemon.
    pub allow_rpc: bool,
    /// Time after such a drain until liveness turns false unless resumed.
    #[serde(with = "humantime_serde")]
    pub liveness_grace: Duration,
}
