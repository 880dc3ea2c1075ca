//! Preemption points: places in long operations where a worker lets other work run, or abandons results that nobody awaits.

use std::{fmt, ops::ControlFlow, sync::Arc};

use crate::OpError;

/// Called at each preemption point, on the worker's thread. It may block while other work runs on the device. `Break` means
/// that no caller awaits the running batch any more.
pub type PreemptionHook = Arc<dyn Fn() -> ControlFlow<()> + Send + Sync>;

/// The hook of one worker; without one, its operations run to their end.
#[derive(Clone, Default)]
pub(crate) struct Preemption(Option<PreemptionHook>);

impl fmt::Debug for Preemption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Preemption").field(&self.0.is_some()).finish()
    }
}

impl Preemption {
    pub(crate) fn new(hook: PreemptionHook) -> Self {
        Self(Some(hook))
    }

    /// Fails with [`OpError::Cancelled`] if the batch is abandoned.
    pub(crate) fn point(&self) -> Result<(), OpError> {
        match self.0.as_deref().map(|hook| hook()) {
            Some(ControlFlow::Break(())) => Err(OpError::Cancelled),
            Some(ControlFlow::Continue(())) | None => Ok(()),
        }
    }
}
