//! Memory accounting and stall detection of one call.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::task::AtomicWaker;

use super::memory::{MemoryKind, TransportMemory};
use crate::error::ApiError;

/// A call that holds at most this many bytes may use the reserve.
pub(crate) const SMALL_CALL_BYTES: u64 = 64 << 10;

/// Bytes that must move before a body counts as making progress: a peer that sends single bytes stalls.
const PROGRESS_BYTES: u64 = 64 << 10;

/// Time that a stream waits for memory.
const CHARGE_TIMEOUT: Duration = Duration::from_secs(5);
const CHARGE_RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// Milliseconds on a monotonic clock that all calls share.
fn now_ms() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Progress of one direction of a call while it waits for the peer.
#[derive(Debug, Default)]
struct Progress {
    /// Start of the wait without progress, in milliseconds plus one; 0 while the call does not wait.
    waiting_since: AtomicU64,
    /// Bytes moved since then.
    moved_bytes: AtomicU64,
}

impl Progress {
    fn start_wait(&self) {
        self.moved_bytes.store(0, Relaxed);
        self.waiting_since.store(now_ms() + 1, Relaxed);
    }

    fn end_wait(&self) {
        self.waiting_since.store(0, Relaxed);
    }

    fn record(&self, bytes: usize) {
        let bytes = bytes as u64;
        if self.waiting_since.load(Relaxed) != 0 && self.moved_bytes.fetch_add(bytes, Relaxed) + bytes >= PROGRESS_BYTES
        {
            self.start_wait();
        }
    }

    fn stalled_for(&self) -> Option<Duration> {
        let since = self.waiting_since.load(Relaxed);
        (since != 0).then(|| Duration::from_millis((now_ms() + 1).saturating_sub(since)))
    }
}

/// State that a connection shares with its calls.
#[derive(Debug, Default)]
pub(super) struct ConnectionAccount {
    /// Bytes that its calls hold, unsent responses of calls that have ended included.
    held_bytes: AtomicU64,
    /// Bytes that its calls hold of the reserve.
    reserve_bytes: AtomicU64,
    window_requested: AtomicBool,
    /// True if a request was refused by the length of its message.
    refused_by_length: AtomicBool,
    /// Wakes the connection's task.
    pub(super) waker: AtomicWaker,
}

impl ConnectionAccount {
    pub(super) fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Relaxed)
    }

    fn request_window(&self) {
        if !self.window_requested.swap(true, Relaxed) {
            self.waker.wake();
        }
    }

    fn record_refusal(&self) {
        if !self.refused_by_length.swap(true, Relaxed) {
            self.waker.wake();
        }
    }

    /// Returns true if a request was refused by the length of its message since the last time.
    pub(super) fn take_refusal(&self) -> bool {
        self.refused_by_length.swap(false, Relaxed)
    }

    /// Returns true if a call asked for a larger window since the last time.
    pub(super) fn take_window_request(&self) -> bool {
        self.window_requested.swap(false, Relaxed)
    }
}

/// One call: its memory, its waits, and the time since its last progress.
#[derive(Debug)]
pub struct Call {
    memory: Arc<TransportMemory>,
    connection: Option<Arc<ConnectionAccount>>,
    held_bytes: AtomicU64,
    /// Progress of the request message.
    request: Progress,
    /// Progress of the response against the peer's flow-control window.
    response: Progress,
    aborted: AtomicBool,
    waker: AtomicWaker,
}

impl Call {
    pub(crate) fn new(memory: Arc<TransportMemory>) -> Arc<Self> {
        Self::on_connection(memory, None)
    }

    pub(super) fn on_connection(memory: Arc<TransportMemory>, connection: Option<Arc<ConnectionAccount>>) -> Arc<Self> {
        Arc::new(Self {
            memory,
            connection,
            held_bytes: AtomicU64::new(0),
            request: Progress::default(),
            response: Progress::default(),
            aborted: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        })
    }

    /// An empty charge, to be grown by [`Charge::grow`].
    pub(crate) fn charge(self: &Arc<Self>, kind: MemoryKind) -> Charge {
        Charge { call: Arc::clone(self), kind, bytes: 0, reserve_bytes: 0 }
    }

    /// Announces a message of `length` bytes; a large one asks for a larger flow-control window.
    pub(crate) fn expect_message(&self, length: u64) {
        if let Some(connection) = self.connection.as_ref().filter(|_| length > SMALL_CALL_BYTES) {
            connection.request_window();
        }
    }

    /// Records that the request is refused by the length of its message, which is not received.
    pub(crate) fn refuse_message(&self) {
        if let Some(connection) = &self.connection {
            connection.record_refusal();
        }
    }

    /// Waits for the rest of a request message until the guard is dropped. One guard spans a whole message: with one per
    /// read, each byte would restart the stall timeout.
    pub(crate) fn wait_for_request(self: &Arc<Self>) -> WaitGuard {
        self.request.start_wait();
        WaitGuard(Arc::clone(self), |call| &call.request)
    }

    /// Waits for flow-control window to send the response, until the guard is dropped.
    pub(crate) fn wait_for_window(self: &Arc<Self>) -> WaitGuard {
        self.response.start_wait();
        WaitGuard(Arc::clone(self), |call| &call.response)
    }

    /// Records request bytes that arrived.
    pub(crate) fn record_received(&self, bytes: usize) {
        self.request.record(bytes);
    }

    /// Records response bytes that were handed to the connection.
    pub(crate) fn record_sent(&self, bytes: usize) {
        self.response.record(bytes);
    }

    /// Returns the time that the call has waited for its peer without progress; `None` while it does not wait.
    pub(crate) fn stalled_for(&self) -> Option<Duration> {
        self.request.stalled_for().max(self.response.stalled_for())
    }

    /// Aborts the call. Returns whether this is the first time.
    pub(crate) fn abort(&self) -> bool {
        let first = !self.aborted.swap(true, Relaxed);
        self.waker.wake();
        first
    }

    /// Ready once the call is aborted.
    pub(crate) fn poll_aborted(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.waker.register(cx.waker());
        if self.aborted.load(Relaxed) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Returns true if a charge may use the reserve: neither the call nor its connection holds much.
    fn may_use_reserve(&self, bytes: u64) -> bool {
        let fits_reserve = |connection: &Arc<ConnectionAccount>| {
            connection.reserve_bytes.load(Relaxed) + bytes <= self.memory.reserve_per_connection()
        };
        self.held_bytes.load(Relaxed) + bytes <= SMALL_CALL_BYTES && self.connection.as_ref().is_none_or(fits_reserve)
    }
}

/// Marks a call as waiting for its peer while it lives.
pub(crate) struct WaitGuard(Arc<Call>, fn(&Call) -> &Progress);

impl Drop for WaitGuard {
    fn drop(&mut self) {
        (self.1)(&self.0).end_wait();
    }
}

/// Memory charged to a call; released on drop.
#[derive(Debug)]
pub(crate) struct Charge {
    call: Arc<Call>,
    kind: MemoryKind,
    bytes: u64,
    /// The part taken from the reserve.
    reserve_bytes: u64,
}

impl Charge {
    /// Charges `bytes` more, or fails without charging any.
    pub(crate) fn grow(&mut self, bytes: u64) -> Result<(), ApiError> {
        let Call { memory, connection, held_bytes, .. } = &*self.call;
        let from_reserve = self.call.may_use_reserve(bytes);
        memory.reserve_bytes(self.kind, bytes, from_reserve)?;
        held_bytes.fetch_add(bytes, Relaxed);
        self.bytes += bytes;
        if let Some(connection) = connection {
            connection.held_bytes.fetch_add(bytes, Relaxed);
            if from_reserve {
                connection.reserve_bytes.fetch_add(bytes, Relaxed);
                self.reserve_bytes += bytes;
            }
        }
        Ok(())
    }

    /// Grows or shrinks the charge to `bytes`.
    pub(crate) fn resize(&mut self, bytes: u64) -> Result<(), ApiError> {
        if let Some(more) = bytes.checked_sub(self.bytes) {
            return self.grow(more);
        }
        self.shrink(self.bytes - bytes);
        Ok(())
    }

    fn shrink(&mut self, bytes: u64) {
        let Call { memory, connection, held_bytes, .. } = &*self.call;
        let from_reserve = bytes.min(self.reserve_bytes);
        memory.release(self.kind, bytes);
        held_bytes.fetch_sub(bytes, Relaxed);
        if let Some(connection) = connection {
            connection.held_bytes.fetch_sub(bytes, Relaxed);
            connection.reserve_bytes.fetch_sub(from_reserve, Relaxed);
        }
        self.bytes -= bytes;
        self.reserve_bytes -= from_reserve;
    }

    /// As [`Self::grow`], but waits for memory: the backpressure of a stream. Gives up after a timeout, since other calls
    /// may be waiting for the memory that this one holds.
    pub(crate) async fn grow_or_wait(&mut self, bytes: u64) -> Result<(), ApiError> {
        let deadline = tokio::time::Instant::now() + CHARGE_TIMEOUT;
        loop {
            match self.grow(bytes) {
                Err(_) if tokio::time::Instant::now() < deadline => tokio::time::sleep(CHARGE_RETRY_INTERVAL).await,
                grown => return grown,
            }
        }
    }

    /// Bytes that own this charge: it is released with the last slice of them.
    pub(crate) fn into_bytes(self, data: Vec<u8>) -> Bytes {
        Bytes::from_owner(ChargedBytes { data, _charge: self })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

struct ChargedBytes {
    data: Vec<u8>,
    _charge: Charge,
}

impl AsRef<[u8]> for ChargedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_slice_of_a_response_releases_its_memory() {
        let memory = TransportMemory::new(8 << 20);
        let call = Call::new(Arc::clone(&memory));
        let mut charge = call.charge(MemoryKind::Response);
        charge.grow(1 << 20).expect("within the limit");
        let mut data = charge.into_bytes(vec![7; 1 << 20]);
        let tail = data.split_off(1000);
        drop(data);
        assert_eq!(memory.used_by(MemoryKind::Response), 1 << 20);
        drop(tail);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn a_call_uses_the_reserve_up_to_the_small_call_bound() {
        let memory = TransportMemory::new(8 << 20);
        let filled = memory.try_reserve(MemoryKind::Request, 5 << 20, false)
            && memory.try_reserve(MemoryKind::Response, 2 << 20, false);
        assert!(filled);
        let call = Call::new(Arc::clone(&memory));
        let mut charge = call.charge(MemoryKind::Request);
        charge.grow(SMALL_CALL_BYTES).expect("the first bytes come from the reserve");
        let refused = charge.grow(1).expect_err("more do not");
        assert!(matches!(refused, ApiError::TransportMemory { kind: "requests", .. }), "{refused}");
        assert_eq!(memory.used(), (7 << 20) + SMALL_CALL_BYTES, "a refusal charges nothing");
    }

    #[test]
    fn only_a_call_that_waits_for_its_peer_stalls() {
        let call = Call::new(TransportMemory::new(1 << 20));
        assert_eq!(call.stalled_for(), None, "its handler is running");
        let request = call.wait_for_request();
        let window = call.wait_for_window();
        assert!(call.stalled_for().is_some());
        drop(request);
        assert!(call.stalled_for().is_some(), "it still waits for flow control");
        drop(window);
        assert_eq!(call.stalled_for(), None);
    }

    #[test]
    fn single_bytes_are_no_progress() {
        let call = Call::new(TransportMemory::new(1 << 20));
        let _waiting = call.wait_for_request();
        call.request.waiting_since.store(1, Relaxed);
        (0..1000).for_each(|_| call.record_received(1));
        assert_eq!(call.request.waiting_since.load(Relaxed), 1);
        call.record_sent(1 << 20);
        assert_eq!(call.request.waiting_since.load(Relaxed), 1, "the other direction does not count");
        call.request.waiting_since.store(u64::MAX, Relaxed);
        call.record_received(64 << 10);
        assert_ne!(call.request.waiting_since.load(Relaxed), u64::MAX, "64 KiB are progress");
    }
}
