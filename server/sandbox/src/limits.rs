//! Limits of modules and cases.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Limits of a module's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModuleLimits {
    /// Bytes of the binary.
    pub bytes: u64,
    /// Defined and imported functions.
    pub functions: u32,
    /// Bytes of the body of one function: compile time grows faster than linearly with it.
    pub function_bytes: u32,
    /// Types, globals, exports, data and element segments: each.
    pub items: u32,
    /// Tables.
    pub tables: u32,
    /// Initial elements of all tables.
    pub table_elements: u32,
}

impl Default for ModuleLimits {
    fn default() -> Self {
        Self {
            bytes: 16 << 20,
            functions: 20_000,
            function_bytes: 1 << 20,
            items: 20_000,
            tables: 4,
            table_elements: 20_000,
        }
    }
}

/// Limits of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseLimits {
    /// Maximum time of a case. The clock has a resolution of [`TICK`], and the limit is never cut short.
    pub timeout: Duration,
    /// Maximum units of fuel of a case, about one for each instruction. A case runs out of fuel independently of the
    /// machine, but counting makes it slower. Without it, only time is limited.
    pub fuel: Option<u64>,
    /// Bytes of linear memory of an instance.
    pub memory_bytes: u64,
}

impl Default for CaseLimits {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(1), fuel: None, memory_bytes: 64 << 20 }
    }
}

/// Resolution of time limits in the child process.
pub const TICK: Duration = Duration::from_millis(1);

/// The part of a call that the child process runs before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// The most cases.
    pub cases: u64,
    /// The time after which no other case starts.
    pub time: Duration,
}

impl Default for Slice {
    fn default() -> Self {
        Self { cases: 1 << 20, time: Duration::from_millis(50) }
    }
}

/// Reaction to a fault of a thread of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnFault {
    /// The launch ends: threads that started together with it still run, others do not.
    Stop,
    /// The next thread runs.
    Continue {
        /// True if threads may run again, if all threads after them do so too: a kernel that does not read what it writes has the same
        /// effect. Otherwise threads are started one by one, which is slower.
        repeatable: bool,
    },
}

/// State that cases of a call share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Isolation {
    /// Nothing: each case observes a new instance. Where the module's code proves that an instance cannot change, cases share one.
    #[default]
    Fresh,
    /// One instance, whose memory and globals keep what earlier cases wrote. A case whose outcome is not [`Ok`](crate::Outcome::Ok) ends
    /// its instance, and the next case gets a new one.
    Reused,
}
