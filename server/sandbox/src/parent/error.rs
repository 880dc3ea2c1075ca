//! Why a call has no result.

use std::{os::unix::process::ExitStatusExt, process::ExitStatus, time::Duration};

use crate::{child::OUT_OF_MEMORY_EXIT, refusal::Refusal};

/// Why a call has no result. After each of these the next call works again: a child that ended is replaced.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The deadline passed.
    #[error("the deadline passed{}", if *.killed { "; the child process did not answer and was killed" } else { "" })]
    Timeout {
        /// True if the child had to be killed, because it did not answer.
        killed: bool,
    },
    /// The caller ended the call between two slices.
    #[error("the call was cancelled")]
    Canceled,
    /// The child process ended.
    #[error("the child process ended ({}){}", status_text(*.signal, *.code), detail(.stderr))]
    Crashed {
        /// The signal that ended it.
        signal: Option<i32>,
        /// Its exit code.
        code: Option<i32>,
        /// The start of its error output.
        stderr: String,
    },
    /// The child process used more memory than it may, outside the memories of instances: for a compilation, say.
    #[error("the child process ran out of memory{}", detail(.0))]
    OutOfMemory(
        /// The start of its error output.
        String,
    ),
    /// The module or the call is wrong.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The child process sent an invalid response. It was killed.
    #[error("the child process sent an invalid response: {0}")]
    Protocol(String),
    /// The child process could not be started.
    #[error("the child process cannot be started: {0}")]
    Start(String),
    /// The call has run for long, others wait, and no further call can be paused for them.
    #[error("the call ran for {:.1} s, others wait for a process, and no further call can be paused for them", .0.as_secs_f64())]
    Preempted(
        /// Time that it ran.
        Duration,
    ),
    /// No child process was free, or could be replaced, before the deadline.
    #[error("no child process was free before the deadline")]
    Busy,
}

impl SandboxError {
    /// The error of a child that has ended.
    pub(super) fn exited(status: Option<ExitStatus>, stderr: String) -> Self {
        let signal = status.and_then(|status| status.signal());
        let code = status.and_then(|status| status.code());
        // Messages of allocators before they abort.
        let messages = ["memory allocation of", "std::bad_alloc", "LLVM ERROR: out of memory"];
        if code == Some(OUT_OF_MEMORY_EXIT) || messages.iter().any(|message| stderr.contains(message)) {
            return Self::OutOfMemory(stderr);
        }
        Self::Crashed { signal, code, stderr }
    }
}

fn status_text(signal: Option<i32>, code: Option<i32>) -> String {
    match (signal, code) {
        (Some(signal), _) => format!("signal {signal}"),
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) => "its status is unknown".into(),
    }
}

fn detail(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!(": {}", stderr.trim_end()) }
}
