//! The flow-control window of a connection's streams.
//!
//! It is small until a large message is announced. It is small again while requests are refused by the length of their message: what
//! a client sends until it learns of the refusal is received for nothing, and a window bounds it.

use std::time::Duration;

use bytes::Bytes;
use h2::server;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::Instant,
};

/// Retry interval while the peer has not acknowledged the previous SETTINGS frame.
const SETTINGS_RETRY: Duration = Duration::from_millis(2);

/// Time that the window stays small after a refusal.
const REFUSAL_MEMORY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct StreamWindow {
    small: u32,
    large: u32,
    /// True if a large message was announced, and the connection has memory for it.
    is_granted: bool,
    announced: u32,
    /// When a request was last refused by its length.
    refused: Option<Instant>,
    /// When to announce the window again, which the peer's acknowledgement delays.
    retry: Option<Instant>,
}

impl StreamWindow {
    /// The peer knows of the small window.
    pub(super) fn new(small: u32, large: u32) -> Self {
        Self { small, large, is_granted: false, announced: small, refused: None, retry: None }
    }

    pub(super) fn is_granted(&self) -> bool {
        self.is_granted
    }

    pub(super) fn grant(&mut self) {
        self.is_granted = true;
    }

    pub(super) fn refused(&mut self, now: Instant) {
        self.refused = Some(now);
    }

    /// When [`Self::announce`] has something to do.
    pub(super) fn next(&self) -> Option<Instant> {
        self.retry.or_else(|| self.refused.filter(|_| self.is_granted).map(|at| at + REFUSAL_MEMORY))
    }

    /// Tells the peer, if the window changes.
    pub(super) fn announce<Io>(&mut self, now: Instant, h2: &mut server::Connection<Io, Bytes>)
    where
        Io: AsyncRead + AsyncWrite + Unpin,
    {
        self.refused = self.refused.filter(|at| now < *at + REFUSAL_MEMORY);
        let target = self.target();
        self.retry = None;
        if target != self.announced {
            match h2.set_initial_window_size(target) {
                Ok(()) => self.announced = target,
                Err(_pending) => self.retry = Some(now + SETTINGS_RETRY),
            }
        }
    }

    fn target(&self) -> u32 {
        if self.is_granted && self.refused.is_none() { self.large } else { self.small }
    }
}

#[cfg(test)]
mod tests {
    use h2::client;
    use tokio::{io::duplex, task::yield_now};

    use super::*;

    /// Both sides of a connection; the client's runs by itself.
    async fn connection() -> (server::Connection<tokio::io::DuplexStream, Bytes>, client::SendRequest<Bytes>) {
        let (near, far) = duplex(1 << 16);
        let (server, client) = tokio::join!(server::Builder::new().handshake(near), client::handshake(far));
        let (sender, connection) = client.expect("a client");
        tokio::spawn(connection);
        (server.expect("a server"), sender)
    }

    /// Exchanges settings and their acknowledgements.
    async fn settle(h2: &mut server::Connection<tokio::io::DuplexStream, Bytes>) {
        for _ in 0..10 {
            assert!(futures::poll!(std::pin::pin!(h2.accept())).is_pending(), "nobody calls");
            yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_window_is_large_except_while_requests_are_refused() {
        let (mut h2, _sender) = connection().await;
        settle(&mut h2).await;
        let mut window = StreamWindow::new(100, 1_000_000);
        let start = Instant::now();
        window.announce(start, &mut h2);
        assert_eq!((window.announced, window.next()), (100, None));
        window.grant();
        window.refused(start);
        window.announce(start, &mut h2);
        assert_eq!((window.announced, window.next()), (100, Some(start + REFUSAL_MEMORY)));
        let later = start + REFUSAL_MEMORY;
        window.announce(later, &mut h2);
        assert_eq!((window.announced, window.next()), (1_000_000, None));
        window.refused(later);
        window.announce(later, &mut h2);
        assert_eq!(window.announced, 1_000_000, "the peer has not acknowledged the last one");
        assert_eq!(window.next(), Some(later + SETTINGS_RETRY));
        settle(&mut h2).await;
        window.announce(later + SETTINGS_RETRY, &mut h2);
        assert_eq!((window.announced, window.next()), (100, Some(later + REFUSAL_MEMORY)));
    }
}
