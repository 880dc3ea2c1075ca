//! The interface by which calls share the time of processors.

use std::time::{Duration, Instant};

use super::{error::SandboxError, process::ChildProcess};

/// Shares time between the calls of a pool, of which one has this while it uses a sandbox.
pub trait Scheduler: Send + Sync {
    /// The time that the process of the call may run before [`Self::slice_ended`] is called.
    fn slice_left(&self) -> Duration;

    /// A process has been started for the call, whose slice begins now.
    fn process_started(&self);

    /// The process has run for a slice. If others are to run now, this returns when it is the call's turn again.
    ///
    /// # Errors
    /// The call has ended meanwhile.
    fn slice_ended(&self, process: &Process<'_>) -> Result<(), SandboxError>;

    /// When the call must have ended.
    fn deadline(&self) -> Instant;
}

/// The process of a call whose slice is over.
pub struct Process<'a> {
    pub(super) child: Option<&'a ChildProcess>,
    /// True if it waits for its next request. Otherwise it still runs.
    pub(super) is_waiting: bool,
}

impl Process<'_> {
    /// Memory that it keeps while it pauses; `None` if that is unknown.
    pub fn memory_bytes(&self) -> Option<u64> {
        self.child.map_or(Some(0), ChildProcess::memory_bytes)
    }

    /// Runs nothing while `others` run.
    pub fn pause<T>(&self, others: impl FnOnce() -> T) -> T {
        let running = self.child.filter(|_| !self.is_waiting);
        running.inspect(|child| child.suspend());
        let result = others();
        running.inspect(|child| child.resume());
        result
    }
}
