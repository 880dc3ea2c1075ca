//! What one call holds, and whether it makes progress.

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
use tonic::Status;

use super::{
    memory::{Kind, Memory},
    registry::Connection,
};

/// A call that holds no more than this may take the reserve.
pub(crate) const SMALL: u64 = 64 << 10;

/// Bytes that must move for a stalled body to count as moving again. A caller who sends a byte now and then stalls.
const PROGRESS: u64 = 64 << 10;

/// How long a stream waits for memory, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(5);

/// Milliseconds since the first use, on a clock that calls share.
fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// How far one direction of a call has come while it waits for its caller.
#[derive(Debug, Default)]
struct Progress {
    /// Since when it waits without progress, in milliseconds plus one; 0 while it does not wait.
    since: AtomicU64,
    /// Bytes moved since then.
    moved: AtomicU64,
}

impl Progress {
    fn begin(&self) {
        self.moved.store(0, Relaxed);
        self.since.store(now() + 1, Relaxed);
    }

    fn end(&self) {
        self.since.store(0, Relaxed);
    }

    fn moved(&self, bytes: usize) {
        let bytes = bytes as u64;
        if self.since.load(Relaxed) != 0 && self.moved.fetch_add(bytes, Relaxed) + bytes >= PROGRESS {
            self.begin();
        }
    }

    fn stalled(&self) -> Option<Duration> {
        let since = self.since.load(Relaxed);
        (since != 0).then(|| Duration::from_millis((now() + 1).saturating_sub(since)))
    }
}

/// One call: what it holds, what it waits for, and since when it made no progress.
#[derive(Debug)]
pub struct Call {
    memory: Arc<Memory>,
    connection: Option<Arc<Connection>>,
    held: AtomicU64,
    /// The rest of a request message.
    request: Progress,
    /// Flow control for an answer.
    answer: Progress,
    evicted: AtomicBool,
    waker: AtomicWaker,
}

impl Call {
    pub(crate) fn new(memory: Arc<Memory>, connection: Option<Arc<Connection>>) -> Arc<Self> {
        Arc::new(Self {
            memory,
            connection,
            held: AtomicU64::new(0),
            request: Progress::default(),
            answer: Progress::default(),
            evicted: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        })
    }

    /// Charges nothing yet; [`Charge::grow`] does.
    pub(crate) fn charge(self: &Arc<Self>, kind: Kind) -> Charge {
        Charge { call: Arc::clone(self), kind, bytes: 0, small: 0 }
    }

    /// Asks for a larger flow-control window, since a message of this length comes.
    pub(crate) fn expect_message(&self, length: u64) {
        if let Some(connection) = self.connection.as_ref().filter(|_| length > SMALL) {
            connection.ask_for_window();
        }
    }

    /// Waits for the rest of a request message, until the guard is dropped. One guard spans a whole message, since a
    /// caller who sends a byte now and then would otherwise begin anew each time.
    pub(crate) fn await_request(self: &Arc<Self>) -> Waiting {
        self.request.begin();
        Waiting(Arc::clone(self), |call| &call.request)
    }

    /// Waits for flow control to send an answer, until the guard is dropped.
    pub(crate) fn await_window(self: &Arc<Self>) -> Waiting {
        self.answer.begin();
        Waiting(Arc::clone(self), |call| &call.answer)
    }

    /// Bytes of a request have come.
    pub(crate) fn received(&self, bytes: usize) {
        self.request.moved(bytes);
    }

    /// Bytes of an answer went to the connection.
    pub(crate) fn sent(&self, bytes: usize) {
        self.answer.moved(bytes);
    }

    /// How long it has waited for its caller without progress.
    pub(crate) fn stalled(&self) -> Option<Duration> {
        self.request.stalled().max(self.answer.stalled())
    }

    /// Ends it, wherever it is; whether it was not ended before.
    pub(crate) fn evict(&self) -> bool {
        let first = !self.evicted.swap(true, Relaxed);
        self.waker.wake();
        first
    }

    /// Ready once it is to end.
    pub(crate) fn poll_evicted(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.waker.register(cx.waker());
        if self.evicted.load(Relaxed) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Whether a charge may take the reserve: neither its call nor its connection holds much.
    fn is_small(&self, bytes: u64) -> bool {
        let fits_reserve = |connection: &Arc<Connection>| {
            connection.small.load(Relaxed) + bytes <= self.memory.reserve_per_connection()
        };
        self.held.load(Relaxed) + bytes <= SMALL && self.connection.as_ref().is_none_or(fits_reserve)
    }
}

/// A call waits for its caller as long as this lives.
pub(crate) struct Waiting(Arc<Call>, fn(&Call) -> &Progress);

impl Drop for Waiting {
    fn drop(&mut self) {
        (self.1)(&self.0).end();
    }
}

/// Memory charged to a call, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    call: Arc<Call>,
    kind: Kind,
    bytes: u64,
    small: u64,
}

impl Charge {
    /// Charges more.
    pub(crate) fn grow(&mut self, bytes: u64) -> Result<(), Status> {
        let Call { memory, connection, held, .. } = &*self.call;
        let small = self.call.is_small(bytes);
        if !memory.take(self.kind, bytes, small) {
            return Err(memory.full(self.kind, bytes));
        }
        held.fetch_add(bytes, Relaxed);
        self.bytes += bytes;
        if let Some(connection) = connection.as_ref().filter(|_| small) {
            connection.small.fetch_add(bytes, Relaxed);
            self.small += bytes;
        }
        Ok(())
    }

    /// Charges more or less, so that it holds this many bytes.
    pub(crate) fn resize(&mut self, bytes: u64) -> Result<(), Status> {
        if let Some(more) = bytes.checked_sub(self.bytes) {
            return self.grow(more);
        }
        self.shrink(self.bytes - bytes);
        Ok(())
    }

    fn shrink(&mut self, bytes: u64) {
        let Call { memory, connection, held, .. } = &*self.call;
        let small = bytes.min(self.small);
        memory.give(self.kind, bytes);
        held.fetch_sub(bytes, Relaxed);
        if let Some(connection) = connection {
            connection.small.fetch_sub(small, Relaxed);
        }
        self.bytes -= bytes;
        self.small -= small;
    }

    /// Charges more, and waits for memory where there is none: a stream holds back its caller. Gives up after a while, since
    /// what it holds itself may be what others wait for.
    pub(crate) async fn grow_patiently(&mut self, bytes: u64) -> Result<(), Status> {
        let give_up = tokio::time::Instant::now() + PATIENCE;
        loop {
            match self.grow(bytes) {
                Err(_) if tokio::time::Instant::now() < give_up => tokio::time::sleep(RETRY).await,
                grown => return grown,
            }
        }
    }

    /// Bytes that own this charge: it is given back with the last of them.
    pub(crate) fn own(self, data: Vec<u8>) -> Bytes {
        Bytes::from_owner(Owned { data, _charge: self })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

struct Owned {
    data: Vec<u8>,
    _charge: Charge,
}

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_slice_of_an_answer_gives_its_memory_back() {
        let memory = Memory::new(8 << 20);
        let call = Call::new(Arc::clone(&memory), None);
        let mut charge = call.charge(Kind::Answer);
        charge.grow(1 << 20).expect("within the limit");
        let mut data = charge.own(vec![7; 1 << 20]);
        let tail = data.split_off(1000);
        drop(data);
        assert_eq!(memory.held_by(Kind::Answer), 1 << 20);
        drop(tail);
        assert_eq!(memory.held(), 0);
    }

    #[test]
    fn a_call_is_small_until_it_holds_more_than_the_bound() {
        let memory = Memory::new(8 << 20);
        assert!(memory.take(Kind::Request, 5 << 20, false) && memory.take(Kind::Answer, 2 << 20, false));
        let call = Call::new(Arc::clone(&memory), None);
        let mut charge = call.charge(Kind::Request);
        charge.grow(SMALL).expect("the first bytes take the reserve");
        let refused = charge.grow(1).expect_err("more does not");
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        assert_eq!(memory.held(), (7 << 20) + SMALL, "a refusal charges nothing");
    }

    #[test]
    fn only_a_call_that_waits_for_its_caller_stalls() {
        let call = Call::new(Memory::new(1 << 20), None);
        assert_eq!(call.stalled(), None, "its handler is at work");
        let request = call.await_request();
        let window = call.await_window();
        assert!(call.stalled().is_some());
        drop(request);
        assert!(call.stalled().is_some(), "it still waits for flow control");
        drop(window);
        assert_eq!(call.stalled(), None);
    }

    #[test]
    fn a_byte_now_and_then_is_no_progress() {
        let call = Call::new(Memory::new(1 << 20), None);
        let _waiting = call.await_request();
        call.request.since.store(1, Relaxed);
        (0..1000).for_each(|_| call.received(1));
        assert_eq!(call.request.since.load(Relaxed), 1);
        call.sent(1 << 20);
        assert_eq!(call.request.since.load(Relaxed), 1, "the other direction does not count");
        call.request.since.store(u64::MAX, Relaxed);
        call.received(64 << 10);
        assert_ne!(call.request.since.load(Relaxed), u64::MAX, "64 KiB are progress");
    }
}
