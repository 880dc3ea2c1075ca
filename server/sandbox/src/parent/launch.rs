//! Stands in for launches until they exist.
#![allow(missing_docs)]

use std::{
    ops::{ControlFlow, Range},
    time::{Duration, Instant},
};

use bytes::Bytes;

use super::{Module, Pool, SandboxError};
use crate::outcome::Outcome;

#[derive(Clone, Debug)]
pub enum OnFault {
    Stop,
    Continue { repeatable: bool },
}

#[derive(Clone, Debug)]
pub struct Launch {
    pub module: Module,
    pub segments: Vec<(u32, Bytes)>,
    pub memory_bytes: u64,
    pub arguments: u32,
    pub grid: u32,
    pub first_thread: u64,
    pub thread_count: u64,
    pub loop_budget: u64,
    pub on_fault: OnFault,
    pub timeout: Duration,
    pub outputs: Vec<Range<u64>>,
}

#[derive(Clone, Copy, Debug)]
pub struct LaunchProgress {
    pub threads_done: u64,
}

#[derive(Clone, Debug)]
pub struct LaunchResult {
    pub outcome: Outcome,
    pub faults: Vec<LaunchFault>,
    pub outputs: Vec<Vec<u8>>,
    pub execution_time: Duration,
}

#[derive(Clone, Debug)]
pub struct LaunchFault {
    pub thread: u64,
    pub cause: FaultCause,
}

#[derive(Clone, Debug)]
pub enum FaultCause {
    Record([u8; 40]),
    Outcome(Outcome),
}

impl Pool {
    pub fn launch(
        &self,
        _: &Launch,
        _: Instant,
        _: impl FnMut(LaunchProgress) -> ControlFlow<()>,
    ) -> Result<LaunchResult, SandboxError> {
        Err(SandboxError::Busy)
    }
}
