//! Programs, roles and limits of child processes.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use crate::{
    limits::{ModuleLimits, Slice},
    protocol::{ChildSettings, Role},
};

/// The program of a child process: it has to call [`child::main`](crate::child::main).
#[derive(Clone, Debug)]
pub struct Program {
    /// Its file.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its environment, which has nothing else.
    pub environment: Vec<(OsString, OsString)>,
}

impl Program {
    /// The program of this process with other arguments.
    pub fn current(arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        // The link keeps working after the file is replaced.
        Self {
            path: "/proc/self/exe".into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: vec![],
        }
    }
}

/// Limits of a child process, and the times that the parent waits for it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Purpose of the processes.
    pub role: Role,
    /// Memory that a child may use: its heap, the memories of instances and compiled code.
    pub memory_bytes: u64,
    /// Stack of a function's call.
    pub stack_bytes: u64,
    /// The largest [`memory_bytes`](crate::CaseLimits::memory_bytes) of a call or launch. For a GPU, of its memory.
    pub case_memory_bytes: u64,
    /// Bytes of a module, or of the columns of a call.
    pub request_bytes: u64,
    /// Bytes of outcomes and columns that [`Sandbox::call`](crate::Sandbox::call) collects.
    pub response_bytes: u64,
    /// Compiled modules that a child keeps.
    pub cached_modules: u32,
    /// Number added to the nice value of a child.
    pub nice: i32,
    /// Limits of a module's parts.
    pub module_limits: ModuleLimits,
    /// Maximum time of a child to start.
    pub start_timeout: Duration,
    /// Maximum time of the compilation of a module. A child that takes longer is killed, for a compilation cannot be stopped.
    pub load_timeout: Duration,
    /// Time after its deadline in which a call may end by itself before its child is killed.
    pub stall_timeout: Duration,
    /// The part of a call that a child runs before it answers.
    pub slice: Slice,
    /// The longest wait before a child that failed is replaced.
    pub max_backoff: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            role: Role::Wasm,
            memory_bytes: 1 << 30,
            stack_bytes: 512 << 10,
            case_memory_bytes: 256 << 20,
            request_bytes: 256 << 20,
            response_bytes: 256 << 20,
            cached_modules: 64,
            nice: 5,
            module_limits: ModuleLimits::default(),
            start_timeout: Duration::from_secs(10),
            load_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(1),
            slice: Slice::default(),
            max_backoff: Duration::from_secs(2),
        }
    }
}

impl Settings {
    /// Returns the settings that the child needs.
    pub(super) fn of_child(&self) -> ChildSettings {
        ChildSettings {
            role: self.role.clone(),
            memory_bytes: self.memory_bytes,
            stack_bytes: self.stack_bytes,
            case_memory_bytes: self.case_memory_bytes,
            message_bytes: self.request_bytes,
            cached_modules: self.cached_modules,
            nice: self.nice,
            module_limits: self.module_limits,
        }
    }
}
