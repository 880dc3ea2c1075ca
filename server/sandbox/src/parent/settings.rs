//! How child processes are started, and what they may use.

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

/// What a child process may use, and how long the parent waits for it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What the processes are for.
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
    /// What is added to the nice value of a child.
    pub nice: i32,
    /// What a module may consist of.
    pub module_limits: ModuleLimits,
    /// How long a child may take to start.
    pub start_timeout: Duration,
    /// How long the compilation of a module may take. A child that takes longer is killed, for a compilation cannot be stopped.
    pub load_timeout: Duration,
    /// How long after its deadline a call may end by itself before its child is killed.
    pub stall_timeout: Duration,
    /// How much a child runs before it answers.
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
    /// What the child has to know.
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
