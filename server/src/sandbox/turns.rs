//! The turns of a call: it may have several at once, each with a process, while no other call waits for its first.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Instant,
};

use accelerd_engine::{Context, SubmitError};
use accelerd_sandbox::SandboxError;
use tokio::{sync::oneshot, time::timeout_at};
use tracing::Instrument;

use super::{
    Sandboxes, Shared,
    turn::{Permit, Turn, Waiter},
    turn_queue::{Caller, Entered, Ticket},
};
use crate::{error::ApiError, layers::timing};

/// The turns of a call.
pub(crate) struct Turns {
    sandboxes: Sandboxes,
    call: u64,
    /// True if the call had a process. It is not refused then because many calls wait.
    had_turn: AtomicBool,
}

impl Turns {
    pub(super) fn new(sandboxes: Sandboxes, call: u64) -> Self {
        Self { sandboxes, call, had_turn: AtomicBool::new(false) }
    }

    /// Waits for a turn, in which `job` uses a process until it drops the turn; `job` runs on a thread that may block. Principals take
    /// turns, also in the middle of a job.
    ///
    /// If the future is dropped, the call leaves the queue, or the job's next use of the process ends with
    /// [`SandboxError::Canceled`].
    ///
    /// # Errors
    /// The sandbox is disabled or draining, too many calls wait, the deadline passes, or the job fails.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        context: &Context,
        job: impl FnOnce(Turn) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.sandboxes.check_enabled()?;
        let begin = Instant::now();
        let deadline = context.deadline.unwrap_or(begin + self.shared().settings.default_deadline);
        let permit = self.permit(context.sharer, deadline).instrument(tracing::debug_span!("queue", lane = "sandbox"));
        let permit = permit.await?;
        let started = Instant::now();
        let (turn, cancel_on_drop) = Turn::new(permit, deadline);
        let span = tracing::debug_span!("sandbox");
        let running = self.sandboxes.threads.spawn_blocking(move || span.in_scope(|| job(turn)));
        let done = running.await;
        let paused = cancel_on_drop.paused();
        drop(cancel_on_drop);
        timing::add(started - begin + paused, started.elapsed().saturating_sub(paused));
        match done {
            Ok(result) => result.inspect_err(log),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_aborted) => Err(SubmitError::Draining.into()),
            },
        }
    }

    /// A free process whose memory is reserved. If there is no memory for a further process, the call goes on with those that it has.
    pub(super) async fn permit(&self, principal: u64, deadline: Instant) -> Result<Permit, ApiError> {
        loop {
            let permit = self.free_process(principal, deadline).await?;
            self.had_turn.store(true, Relaxed);
            let Err(exceeded) = self.shared().reserve_memory() else { return Ok(permit) };
            if self.shared().queue().processes_of(self.call) == 1 {
                return Err(exceeded.into());
            }
            drop(permit);
            let mut released = pin!(self.shared().released.notified());
            released.as_mut().enable();
            if self.shared().queue().processes_of(self.call) == 0 {
                continue;
            }
            released.await;
        }
    }

    async fn free_process(&self, principal: u64, deadline: Instant) -> Result<Permit, ApiError> {
        let (waiter, told) = oneshot::channel();
        let caller = Caller { principal, call: self.call };
        let entered = self.shared().queue().enter(caller, self.had_turn.load(Relaxed), Waiter::Entering(waiter));
        let ticket = match entered {
            Entered::Running => return Ok(Permit::new(Arc::clone(self.shared()), caller)),
            Entered::Queued(ticket) => ticket,
            Entered::Full => return Err(ApiError::SandboxQueueFull(self.shared().settings.max_queue)),
            Entered::Draining => return Err(SubmitError::Draining.into()),
        };
        let _leave_on_drop = Waiting { shared: self.shared(), ticket };
        match timeout_at(deadline.into(), told).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(SandboxError::Busy.into()),
        }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.sandboxes.shared
    }
}

/// A turn in the queue, which leaves it when it is dropped.
struct Waiting<'a> {
    shared: &'a Shared,
    ticket: Ticket,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.queue().leave(self.ticket);
    }
}

/// Logs the failure of a process for operators. The other errors are the caller's.
fn log(error: &ApiError) {
    if let ApiError::Sandbox(failure) = error
        && matches!(
            failure,
            SandboxError::Crashed { .. }
                | SandboxError::OutOfMemory(_)
                | SandboxError::Protocol(_)
                | SandboxError::Start(_)
                | SandboxError::Timeout { killed: true }
                | SandboxError::Preempted(_)
        )
    {
        tracing::warn!(%failure, "a process of the sandbox failed");
    }
}
