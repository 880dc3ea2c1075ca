//! The open connections of a listener and their calls: admission, eviction of idle connections, aborting stalled calls.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{
            AtomicBool, AtomicU64, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tokio::{sync::Notify, time::sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    call::{Call, Charge, ConnectionAccount, SMALL_CALL_BYTES},
    memory::{MemoryKind, TransportMemory},
};
use crate::error::ApiError;

/// Longest interval between two searches for stalled calls.
const SWEEP_INTERVAL: Duration = Duration::from_millis(250);

/// Fixed cost of an open call besides its messages: task, stream state, buffers.
const CALL_BYTES: u64 = 8 << 10;

/// When a call counts as stalled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StallTimeouts {
    pub(crate) normal: Duration,
    pub(crate) under_pressure: Duration,
}

/// The connections of a listener.
#[derive(Debug)]
pub(crate) struct Connections {
    open: Mutex<HashMap<u64, Arc<Connection>>>,
    next_id: AtomicU64,
    refused: AtomicU64,
    evicted: AtomicU64,
    stalled_calls: AtomicU64,
    pub(crate) tasks: TaskTracker,
    memory: Arc<TransportMemory>,
    /// Told when a connection has something that may stall.
    activity: Arc<Notify>,
}

impl Drop for Connections {
    fn drop(&mut self) {
        // The search for stalled calls ends.
        self.activity.notify_one();
    }
}

impl Connections {
    pub(crate) fn new(memory: Arc<TransportMemory>) -> Arc<Self> {
        Arc::new(Self {
            open: Mutex::default(),
            next_id: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            stalled_calls: AtomicU64::new(0),
            tasks: TaskTracker::new(),
            memory,
            activity: Arc::default(),
        })
    }

    /// Open connections, without evicted ones whose tasks are still ending.
    pub(crate) fn count(&self) -> usize {
        self.open().len()
    }

    /// Open connections with calls, or with responses that are not sent.
    pub(crate) fn busy(&self) -> usize {
        self.open().values().filter(|one| !one.is_quiet()).count()
    }

    /// Connections refused since the start.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Idle connections closed since the start to admit new ones.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted.load(Relaxed)
    }

    /// Calls aborted since the start because they stalled.
    pub(crate) fn stalled_calls(&self) -> u64 {
        self.stalled_calls.load(Relaxed)
    }

    /// Waits until every connection has ended.
    pub(crate) async fn closed(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Admits a connection that is charged `bytes`, evicting the connection that has been idle for longest if the limit on
    /// connections or memory requires it.
    pub(crate) fn admit(self: &Arc<Self>, max_connections: usize, bytes: u64) -> Option<Arc<Connection>> {
        let mut open = self.open();
        while open.len() >= max_connections || !self.memory.try_reserve(MemoryKind::Connection, bytes, false) {
            let idle = open.values().filter(|one| one.is_idle()).min_by_key(|one| one.idle_since()).map(|one| one.id);
            let Some(connection) = idle.and_then(|id| open.remove(&id)) else {
                drop(open);
                self.record_refusal(max_connections);
                return None;
            };
            // Without calls it holds only its window, which is released before its task ends.
            connection.release_window(&self.memory);
            connection.evicted.store(true, Relaxed);
            connection.account.waker.wake();
            self.evicted.fetch_add(1, Relaxed);
        }
        let id = self.next_id.fetch_add(1, Relaxed);
        let connection = Arc::new(Connection::new(id, bytes, self));
        open.insert(id, Arc::clone(&connection));
        Some(connection)
    }

    fn remove(&self, connection: &Connection) {
        self.open().remove(&connection.id);
        connection.release_window(&self.memory);
    }

    fn record_refusal(&self, limit: usize) {
        let refused = self.refused.fetch_add(1, Relaxed) + 1;
        // A flood of connections must not flood the log.
        if refused.is_power_of_two() {
            tracing::warn!(refused, limit, "connection refused: limit reached and none is idle");
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a call is open or a write is pending.
    fn may_stall(&self) -> bool {
        self.open().values().any(|connection| !connection.is_idle() || connection.blocked_since.load(SeqCst) != 0)
    }

    /// Aborts stalled calls, and connections whose peer does not read.
    fn sweep(&self, timeouts: StallTimeouts) {
        let timeout = if self.memory.is_under_pressure() { timeouts.under_pressure } else { timeouts.normal };
        let connections: Vec<_> = self.open().values().cloned().collect();
        for connection in connections {
            // Closing a connection that holds little would free little, and end calls whose client is only slow.
            let holds_much = connection.account.held_bytes() > SMALL_CALL_BYTES;
            if connection.write_blocked_for() > if holds_much { timeout } else { timeouts.normal } {
                tracing::debug!("aborting a connection whose peer does not read");
                connection.abort.cancel();
            }
            for call in connection.calls().values().filter_map(Weak::upgrade) {
                if call.stalled_for().is_some_and(|stalled| stalled > timeout) && call.abort() {
                    self.stalled_calls.fetch_add(1, Relaxed);
                }
            }
        }
    }
}

/// Searches for stalled calls until the connections are dropped. Sleeps while nothing can stall.
pub(crate) async fn sweep(connections: Weak<Connections>, timeouts: StallTimeouts) {
    let shortest = (timeouts.normal / 2).min(timeouts.under_pressure / 2);
    let interval = SWEEP_INTERVAL.min(shortest).max(Duration::from_millis(10));
    loop {
        sleep(interval).await;
        let Some(connections) = connections.upgrade() else { return };
        connections.sweep(timeouts);
        let activity = (!connections.may_stall()).then(|| Arc::clone(&connections.activity));
        drop(connections);
        if let Some(activity) = activity {
            activity.notified().await;
        }
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    id: u64,
    start: Instant,
    connections: Weak<Connections>,
    /// That of its listener.
    activity: Arc<Notify>,
    /// Bytes charged for its window and one partial frame.
    window_bytes: AtomicU64,
    account: Arc<ConnectionAccount>,
    calls: Mutex<HashMap<u32, Weak<Call>>>,
    open_calls: AtomicUsize,
    /// Milliseconds after `start` at which the last call ended.
    idle_since: AtomicU64,
    /// Milliseconds after `start` since when a write is pending, plus one; 0 while none is.
    blocked_since: AtomicU64,
    evicted: AtomicBool,
    /// Closes the connection at once.
    pub(crate) abort: CancellationToken,
}

/// A request to a connection's task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Close: another connection takes the place of this idle one.
    Evict,
    /// Grow the flow-control window: a large message is arriving.
    GrowWindow,
    /// A request was refused by the length of its message.
    RefusedByLength,
}

impl Connection {
    fn new(id: u64, window_bytes: u64, connections: &Arc<Connections>) -> Self {
        Self {
            id,
            start: Instant::now(),
            connections: Arc::downgrade(connections),
            activity: Arc::clone(&connections.activity),
            window_bytes: AtomicU64::new(window_bytes),
            account: Arc::default(),
            calls: Mutex::default(),
            open_calls: AtomicUsize::new(0),
            idle_since: AtomicU64::new(0),
            blocked_since: AtomicU64::new(0),
            evicted: AtomicBool::new(false),
            abort: CancellationToken::new(),
        }
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns true if no call is open.
    pub(crate) fn is_idle(&self) -> bool {
        self.open_calls.load(SeqCst) == 0
    }

    /// Returns true if no call is open and no write is pending.
    fn is_quiet(&self) -> bool {
        self.is_idle() && self.blocked_since.load(Relaxed) == 0
    }

    /// Time since the last call ended; zero unless the connection is quiet.
    pub(crate) fn quiet_for(&self) -> Duration {
        if self.is_quiet() { self.idle_since().elapsed() } else { Duration::ZERO }
    }

    fn idle_since(&self) -> Instant {
        self.start + Duration::from_millis(self.idle_since.load(Relaxed))
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<u32, Weak<Call>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release_window(&self, memory: &TransportMemory) {
        memory.release(MemoryKind::Connection, self.window_bytes.swap(0, Relaxed));
    }

    /// Opens a call, charging its fixed cost and `header_bytes`.
    pub(crate) fn open_call(self: &Arc<Self>, stream_id: u32, header_bytes: u64) -> Result<OpenCall, ApiError> {
        let memory = self.connections.upgrade().map(|connections| Arc::clone(&connections.memory));
        let memory = memory.ok_or(ApiError::ShuttingDown)?;
        let call = Call::on_connection(memory, Some(Arc::clone(&self.account)));
        let mut charge = call.charge(MemoryKind::Request);
        charge.grow(CALL_BYTES + header_bytes)?;
        if self.open_calls.fetch_add(1, SeqCst) == 0 {
            self.activity.notify_one();
        }
        self.calls().insert(stream_id, Arc::downgrade(&call));
        Ok(OpenCall { connection: Arc::clone(self), stream_id, call, _charge: charge })
    }

    /// Charges `bytes` more for the window. Returns whether memory was available.
    pub(crate) fn try_grow_window(&self, bytes: u64) -> bool {
        let Some(connections) = self.connections.upgrade() else { return false };
        let granted = connections.memory.try_reserve(MemoryKind::Connection, bytes, false);
        if granted {
            self.window_bytes.fetch_add(bytes, Relaxed);
        }
        granted
    }

    /// Ready with the next signal.
    pub(crate) fn poll_signal(&self, window_granted: bool, cx: &mut Context<'_>) -> Poll<Signal> {
        self.account.waker.register(cx.waker());
        if self.evicted.swap(false, Relaxed) {
            Poll::Ready(Signal::Evict)
        } else if !window_granted && self.account.take_window_request() {
            Poll::Ready(Signal::GrowWindow)
        } else if self.account.take_refusal() {
            Poll::Ready(Signal::RefusedByLength)
        } else {
            Poll::Pending
        }
    }

    /// Waits until the connection is evicted.
    pub(crate) async fn evicted(&self) {
        while std::future::poll_fn(|cx| self.poll_signal(true, cx)).await != Signal::Evict {}
    }

    /// Records whether the last write is pending.
    pub(crate) fn record_write(&self, pending: bool) {
        if !pending {
            self.blocked_since.store(0, Relaxed);
        } else if self.blocked_since.load(Relaxed) == 0 {
            self.blocked_since.store(self.elapsed_ms() + 1, SeqCst);
            self.activity.notify_one();
        }
    }

    /// Returns the time that writes have been pending.
    fn write_blocked_for(&self) -> Duration {
        match self.blocked_since.load(Relaxed) {
            0 => Duration::ZERO,
            since => Duration::from_millis((self.elapsed_ms() + 1).saturating_sub(since)),
        }
    }

    /// Removes the connection from its listener.
    pub(crate) fn remove(&self) {
        if let Some(connections) = self.connections.upgrade() {
            connections.remove(self);
        }
    }
}

/// A call registered with its connection.
#[derive(Debug)]
pub(crate) struct OpenCall {
    connection: Arc<Connection>,
    stream_id: u32,
    pub(crate) call: Arc<Call>,
    _charge: Charge,
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.connection.calls().remove(&self.stream_id);
        self.connection.idle_since.store(self.connection.elapsed_ms(), Relaxed);
        self.connection.open_calls.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection whose writes have been pending for a second, with a call that holds `bytes`.
    fn blocked(connections: &Arc<Connections>, id: u64, bytes: u64) -> (Arc<Connection>, OpenCall, Charge) {
        let start = Instant::now().checked_sub(Duration::from_secs(1)).expect("the machine has run for a second");
        let connection = Arc::new(Connection { start, ..Connection::new(id, 0, connections) });
        connection.blocked_since.store(1, Relaxed);
        connections.open().insert(id, Arc::clone(&connection));
        let open = connection.open_call(1, 0).expect("there is memory");
        let mut charge = open.call.charge(MemoryKind::Response);
        charge.grow(bytes).expect("there is memory");
        (connection, open, charge)
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_calls_are_searched_for_only_while_something_may_stall() {
        let connections = Connections::new(TransportMemory::new(8 << 20));
        let (normal, under_pressure) = (Duration::from_millis(400), Duration::from_millis(400));
        let sweeping = tokio::spawn(sweep(Arc::downgrade(&connections), StallTimeouts { normal, under_pressure }));
        // The clock jumps to the next timer, of which the search has none once it sleeps.
        sleep(Duration::from_secs(60)).await;
        let (connection, ..) = blocked(&connections, 1, 1 << 20);
        tokio::time::timeout(Duration::from_secs(60), connection.abort.cancelled()).await.expect("the search goes on");
        drop((connection, connections));
        tokio::time::timeout(Duration::from_secs(60), sweeping).await.expect("the search ends").expect("no panic");
    }

    #[test]
    fn a_connection_is_quiet_once_its_calls_have_ended_and_its_responses_are_sent() {
        let connections = Connections::new(TransportMemory::new(8 << 20));
        let (connection, open, charge) = blocked(&connections, 1, 1 << 10);
        assert_eq!((connection.quiet_for(), connections.busy()), (Duration::ZERO, 1));
        drop((open, charge));
        assert_eq!((connection.quiet_for(), connections.busy()), (Duration::ZERO, 1), "its last write is pending");
        connection.record_write(false);
        assert_eq!(connections.busy(), 0);
        connection.idle_since.store(0, Relaxed);
        assert!(connection.quiet_for() >= Duration::from_secs(1), "{:?}", connection.quiet_for());
    }

    #[test]
    fn under_pressure_a_connection_that_is_not_read_is_closed_early_only_if_it_holds_much() {
        let memory = TransportMemory::new(8 << 20);
        let connections = Connections::new(Arc::clone(&memory));
        let small = blocked(&connections, 1, 1 << 10);
        let large = blocked(&connections, 2, 1 << 20);
        assert!(memory.try_reserve(MemoryKind::Request, 7 << 19, false));
        let timeouts = StallTimeouts { normal: Duration::from_secs(3600), under_pressure: Duration::from_millis(500) };
        assert!(!memory.is_under_pressure());
        connections.sweep(timeouts);
        assert!(!large.0.abort.is_cancelled(), "there is no pressure");
        assert!(memory.try_reserve(MemoryKind::Request, 1 << 19, false));
        assert!(memory.is_under_pressure());
        connections.sweep(timeouts);
        assert_eq!([&small, &large].map(|(connection, ..)| connection.abort.is_cancelled()), [false, true]);
        let normal = StallTimeouts { normal: Duration::from_millis(500), ..timeouts };
        connections.sweep(normal);
        assert!(small.0.abort.is_cancelled());
        drop((small, large));
        assert_eq!(memory.used(), 4 << 20);
    }
}
