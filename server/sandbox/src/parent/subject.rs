//! Launches of CUDA C++ of clients.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use bytes::Bytes;

use super::{call::Module, error::SandboxError, sandbox::Sandbox, stats::add};
use crate::protocol::{ModuleCode, Request, Response, SubjectConfig, SubjectOutcome, SubjectRequest};

/// Maximum time of a child around a launch: it copies memory and loads code.
const OVERHEAD: Duration = Duration::from_secs(30);

/// A launch of CUDA C++ of a client.
#[derive(Clone, Debug)]
pub struct SubjectLaunch {
    /// The compiled code.
    pub module: Module,
    /// Grid, blocks and parameters.
    pub config: SubjectConfig,
    /// Contents of its memory.
    pub memory: Bytes,
    /// Maximum time of its threads.
    pub timeout: Duration,
    /// Ranges of the memory that are read after the launch.
    pub outputs: Vec<Range<u64>>,
}

/// Result of a launch of CUDA C++ of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectResult {
    /// Its outcome.
    pub outcome: SubjectOutcome,
    /// The memory of [`SubjectLaunch::outputs`], if it ended.
    pub outputs: Vec<Vec<u8>>,
}

impl Sandbox {
    /// Launches a kernel. After an outcome that is neither `Ended` nor `NotLaunched` the child ends, and the next launch has another one.
    ///
    /// A child that does not answer is killed: the outcome is [`SubjectOutcome::Timeout`], unless the deadline has passed.
    pub fn run_subject(&mut self, launch: &SubjectLaunch, deadline: Instant) -> Result<SubjectResult, SandboxError> {
        add(&self.counters.launches, 1);
        let until = deadline.min(Instant::now() + launch.timeout + OVERHEAD);
        let request = SubjectRequest {
            hash: launch.module.hash(),
            config: launch.config.clone(),
            timeout: launch.timeout.min(deadline.saturating_duration_since(Instant::now())),
        };
        if self.last_module() != Some(launch.module.hash()) {
            self.load(&launch.module, ModuleCode::Plain, until)?;
        }
        let outcome = self.first_slice((&launch.module, ModuleCode::Plain), until, |sandbox, _| {
            let until = until + sandbox.settings.stall_timeout;
            match sandbox.exchange(Request::RunSubject(request.clone()), vec![launch.memory.clone()], until)? {
                (Response::SubjectRan(outcome), _) => Ok(Some(outcome)),
                (Response::NotLoaded, _) => Ok(None),
                (response, _) => Err(sandbox.unexpected(&response)),
            }
        });
        let outcome = match outcome {
            Err(SandboxError::Timeout { killed: true }) if until < deadline => SubjectOutcome::Timeout,
            outcome => outcome?,
        };
        match outcome {
            SubjectOutcome::Ended(_) => {
                let outputs = self.read(&launch.outputs, deadline)?;
                Ok(SubjectResult { outcome, outputs })
            }
            SubjectOutcome::NotLaunched(_) => Ok(SubjectResult { outcome, outputs: vec![] }),
            SubjectOutcome::Timeout if Instant::now() >= deadline => {
                self.end_process();
                Err(SandboxError::Timeout { killed: true })
            }
            SubjectOutcome::Fault(_) | SubjectOutcome::Timeout => {
                self.end_process();
                Ok(SubjectResult { outcome, outputs: vec![] })
            }
        }
    }
}
