//! The parent's side: starts child processes, sends modules, calls and launches, and replaces children that fail.

mod call;
mod compile;
mod error;
mod launch;
mod pool;
mod process;
mod sandbox;
mod scheduler;
mod settings;
mod stats;
mod subject;

pub use call::{Call, CallResult, Module, Outcomes, SliceResult};
pub use error::SandboxError;
pub use launch::{FaultCause, Launch, LaunchFault, LaunchProgress, LaunchResult};
pub use pool::{Pool, Taken};
pub use sandbox::Sandbox;
pub use scheduler::{Process, Scheduler};
pub use settings::{Program, Settings};
pub use stats::Stats;
pub use subject::{SubjectLaunch, SubjectResult};
