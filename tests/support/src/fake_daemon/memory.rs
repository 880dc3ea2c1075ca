//! Connections in memory, for tests with paused time: time advances only while nothing else can be done, which sockets hide.

use std::io;

use hyper_util::rt::TokioIo;
use tokio::{
    io::{DuplexStream, duplex},
    sync::mpsc,
    time::Instant,
};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{
    codegen::http::Uri,
    transport::{Channel, Endpoint},
};
use tower::service_fn;

use super::FakeDaemon;

/// Buffer of a connection in bytes.
const BUFFER_BYTES: usize = 64 << 10;

impl FakeDaemon {
    /// Serves in memory until the runtime ends. Connections are refused until a time.
    pub fn connect_in_memory(&self, refused_until: Instant) -> Channel {
        let (connections, incoming) = mpsc::unbounded_channel::<io::Result<DuplexStream>>();
        tokio::spawn(self.router().serve_with_incoming(UnboundedReceiverStream::new(incoming)));
        let connect = move |_: Uri| {
            let connections = connections.clone();
            async move {
                if Instant::now() < refused_until {
                    return Err(io::Error::from(io::ErrorKind::ConnectionRefused));
                }
                let (client, server) = duplex(BUFFER_BYTES);
                connections.send(Ok(server)).map_err(|_| io::Error::from(io::ErrorKind::ConnectionReset))?;
                Ok(TokioIo::new(client))
            }
        };
        Endpoint::from_static("http://memory").connect_with_connector_lazy(service_fn(connect))
    }
}
