//! The connections of a listener and their calls: who is idle longest, who stalls.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use futures::task::AtomicWaker;
use tokio::time::interval;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    call::{Call, Charge},
    memory::{Kind, Memory},
};

/// How often stalled calls are looked for.
const SWEEP: Duration = Duration::from_millis(250);

/// What an open call needs besides its messages: task, stream state, buffers.
const CALL_BYTES: u64 = 8 << 10;

/// When a body counts as stalled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stalls {
    /// Usually.
    pub(crate) after: Duration,
    /// While memory is scarce.
    pub(crate) after_when_scarce: Duration,
}

/// The connections of a listener.
#[derive(Debug)]
pub(crate) struct Connections {
    open: Mutex<HashMap<u64, Arc<Connection>>>,
    next_id: AtomicU64,
    refused: AtomicU64,
    shed: AtomicU64,
    stalled: AtomicU64,
    pub(crate) tasks: TaskTracker,
    pub(crate) memory: Arc<Memory>,
}

impl Connections {
    pub(crate) fn new(memory: Arc<Memory>) -> Arc<Self> {
        Arc::new(Self {
            open: Mutex::default(),
            next_id: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            shed: AtomicU64::new(0),
            stalled: AtomicU64::new(0),
            tasks: TaskTracker::new(),
            memory,
        })
    }

    /// How many there are, less those that were shed and are about to end.
    pub(crate) fn now(&self) -> usize {
        self.open().len()
    }

    /// How many were refused since the start.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// How many idle ones were closed since the start to let others in.
    pub(crate) fn shed(&self) -> u64 {
        self.shed.load(Relaxed)
    }

    /// How many calls were ended since the start because they stalled.
    pub(crate) fn stalled(&self) -> u64 {
        self.stalled.load(Relaxed)
    }

    /// Waits until every one has ended.
    pub(crate) async fn ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Lets a connection in that holds `bytes`, if need be in place of the one that is idle longest.
    pub(crate) fn enter(self: &Arc<Self>, most: usize, bytes: u64) -> Option<Arc<Connection>> {
        let mut open = self.open();
        while open.len() >= most || !self.memory.take(Kind::Connection, bytes, false) {
            let idle = open.values().filter(|one| one.is_idle()).min_by_key(|one| one.idle_since()).map(|one| one.id);
            let Some(connection) = idle.and_then(|id| open.remove(&id)) else {
                drop(open);
                self.refuse(most);
                return None;
            };
            // It has no call and so holds nothing: its place and its window are free before its task has ended.
            connection.give_window(&self.memory);
            connection.shed.store(true, Relaxed);
            connection.waker.wake();
            self.shed.fetch_add(1, Relaxed);
        }
        let id = self.next_id.fetch_add(1, Relaxed);
        let connection = Arc::new(Connection::new(id, bytes, Arc::downgrade(self)));
        open.insert(id, Arc::clone(&connection));
        Some(connection)
    }

    fn leave(&self, connection: &Connection) {
        self.open().remove(&connection.id);
        connection.give_window(&self.memory);
    }

    fn refuse(&self, limit: usize) {
        let refused = self.refused.fetch_add(1, Relaxed) + 1;
        // A flood must not flood the log.
        if refused.is_power_of_two() {
            tracing::warn!(refused, limit, "too many connections, none of them idle");
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the calls that have stalled, and the connections that do not take what is written to them.
    fn sweep(&self, stalls: Stalls) {
        let after = if self.memory.is_scarce() { stalls.after_when_scarce } else { stalls.after };
        let connections: Vec<_> = self.open().values().cloned().collect();
        for connection in connections {
            if connection.write_blocked() > after {
                tracing::debug!("a connection does not read what is sent to it");
                connection.cut.cancel();
            }
            for call in connection.calls().values().filter_map(Weak::upgrade) {
                if call.stalled().is_some_and(|stalled| stalled > after) && call.evict() {
                    self.stalled.fetch_add(1, Relaxed);
                }
            }
        }
    }
}

/// Looks for stalled calls until the connections are gone.
pub(crate) async fn sweep(connections: Weak<Connections>, stalls: Stalls) {
    let period = SWEEP.min(stalls.after / 2).min(stalls.after_when_scarce / 2).max(Duration::from_millis(10));
    let mut ticks = interval(period);
    loop {
        ticks.tick().await;
        let Some(connections) = connections.upgrade() else { return };
        connections.sweep(stalls);
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    id: u64,
    start: Instant,
    connections: Weak<Connections>,
    /// Bytes charged for its window and one partial frame.
    window: AtomicU64,
    /// Bytes of its calls that are charged to the reserve.
    pub(super) small: AtomicU64,
    calls: Mutex<HashMap<u32, Weak<Call>>>,
    open_calls: AtomicUsize,
    /// Milliseconds after `start` when its last call ended.
    idle_since: AtomicU64,
    /// Milliseconds after `start` since when a write waits, plus one; 0 when none does.
    blocked_since: AtomicU64,
    shed: AtomicBool,
    wants_window: AtomicBool,
    waker: AtomicWaker,
    /// Ends it at once.
    pub(crate) cut: CancellationToken,
}

/// What a connection is asked for from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Another connection takes its place.
    Shed,
    /// A large message comes.
    Window,
}

impl Connection {
    fn new(id: u64, window: u64, connections: Weak<Connections>) -> Self {
        Self {
            id,
            start: Instant::now(),
            connections,
            window: AtomicU64::new(window),
            small: AtomicU64::new(0),
            calls: Mutex::default(),
            open_calls: AtomicUsize::new(0),
            idle_since: AtomicU64::new(0),
            blocked_since: AtomicU64::new(0),
            shed: AtomicBool::new(false),
            wants_window: AtomicBool::new(false),
            waker: AtomicWaker::new(),
            cut: CancellationToken::new(),
        }
    }

    fn clock(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether no call is open.
    fn is_idle(&self) -> bool {
        self.open_calls.load(Relaxed) == 0
    }

    fn idle_since(&self) -> Instant {
        self.start + Duration::from_millis(self.idle_since.load(Relaxed))
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<u32, Weak<Call>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_window(&self, memory: &Memory) {
        memory.give(Kind::Connection, self.window.swap(0, Relaxed));
    }

    /// Opens a call whose headers have so many bytes.
    pub(crate) fn open_call(self: &Arc<Self>, stream: u32, headers: u64) -> Result<OpenCall, tonic::Status> {
        let memory = self.connections.upgrade().map(|connections| Arc::clone(&connections.memory));
        let memory = memory.ok_or_else(|| tonic::Status::unavailable("the daemon ends"))?;
        let call = Call::new(memory, Some(Arc::clone(self)));
        let mut charge = call.charge(Kind::Request);
        charge.grow(CALL_BYTES + headers)?;
        self.open_calls.fetch_add(1, Relaxed);
        self.calls().insert(stream, Arc::downgrade(&call));
        Ok(OpenCall { connection: Arc::clone(self), stream, call, _charge: charge })
    }

    /// Asks its task for a larger window.
    pub(super) fn ask_for_window(&self) {
        if !self.wants_window.swap(true, Relaxed) {
            self.waker.wake();
        }
    }

    /// Charges a larger window; whether there is memory for it.
    pub(crate) fn grow_window(&self, more: u64) -> bool {
        let Some(connections) = self.connections.upgrade() else { return false };
        let granted = connections.memory.take(Kind::Connection, more, false);
        if granted {
            self.window.fetch_add(more, Relaxed);
        }
        granted
    }

    /// Ready once something is asked of it.
    pub(crate) fn poll_signal(&self, window_granted: bool, cx: &mut Context<'_>) -> Poll<Signal> {
        self.waker.register(cx.waker());
        if self.shed.swap(false, Relaxed) {
            Poll::Ready(Signal::Shed)
        } else if !window_granted && self.wants_window.swap(false, Relaxed) {
            Poll::Ready(Signal::Window)
        } else {
            Poll::Pending
        }
    }

    /// Waits until another connection takes its place.
    pub(crate) async fn shed(&self) {
        while std::future::poll_fn(|cx| self.poll_signal(true, cx)).await != Signal::Shed {}
    }

    /// Notes whether its peer takes what is written.
    pub(crate) fn note_write(&self, blocked: bool) {
        if !blocked {
            self.blocked_since.store(0, Relaxed);
        } else if self.blocked_since.load(Relaxed) == 0 {
            self.blocked_since.store(self.clock() + 1, Relaxed);
        }
    }

    /// How long its peer has taken nothing of what is to be written.
    fn write_blocked(&self) -> Duration {
        match self.blocked_since.load(Relaxed) {
            0 => Duration::ZERO,
            since => Duration::from_millis((self.clock() + 1).saturating_sub(since)),
        }
    }

    /// Gives its place up.
    pub(crate) fn leave(&self) {
        if let Some(connections) = self.connections.upgrade() {
            connections.leave(self);
        }
    }
}

/// A call that is open, and known to its connection.
#[derive(Debug)]
pub(crate) struct OpenCall {
    connection: Arc<Connection>,
    stream: u32,
    pub(crate) call: Arc<Call>,
    _charge: Charge,
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.connection.calls().remove(&self.stream);
        self.connection.idle_since.store(self.connection.clock(), Relaxed);
        self.connection.open_calls.fetch_sub(1, Relaxed);
    }
}
