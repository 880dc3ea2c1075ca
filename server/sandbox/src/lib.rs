//! Runs WebAssembly modules of clients in child processes.
//!
//! A module of a client never runs in the process that serves clients: a compiler that crashes, does not end or takes all memory would take
//! the daemon along. A [`Sandbox`] is a child process that compiles and runs modules, with limits on memory and time of its own, and the
//! parent's side of it, which kills and replaces the child where it has to. [`child::main`] is the child.
//!
//! A [`Call`] runs a function for many cases, with arguments in columns; [`Signature`] says how. Each case has an [`Outcome`]: a trap, a
//! time limit or a memory limit ends one case and not the call.
//!
//! A [`Launch`] runs threads of a kernel, by the module that `accelerd-ir` emits for it, on memory that the caller lays out.
//!
//! Children for CUDA compile kernels and run them on a GPU: see [`Role`] and [`child::CudaRuntime`]. A [`SubjectLaunch`] runs CUDA C++ of a
//! client.
//!
//! # Limits
//!
//! | limit | by | ends |
//! |---|---|---|
//! | time of a case | epochs: code checks a counter that a thread increments every millisecond | the case |
//! | time of a thread or launch | the same | the thread or launch: see [`Launch::timeout`] |
//! | fuel of a case | code counts its instructions | the case |
//! | memory and tables of an instance | the child's resource limiter | the case |
//! | stack | the engine | the case |
//! | size and parts of a module | a scan before it is compiled | the load |
//! | time of a compilation | the parent kills the child | the child |
//! | memory of the process | `RLIMIT_DATA`, and a check of resident memory | the child |
//! | time of a call | the parent requests no further slice; it kills a child that does not answer | the call |
//!
#![doc = include_str!("abi.md")]

mod abi;
pub mod child;
mod cuda;
mod limits;
mod math;
mod outcome;
mod parent;
mod protocol;
mod refusal;
mod statm;

pub use abi::{BufferUse, MAX_VALUES, Param, ScalarType, Signature, WasmSignature, WasmType};
pub use cuda::{CudaCode, CudaResources};
pub use limits::{CaseLimits, Isolation, ModuleLimits, OnFault, Slice, TICK};
pub use outcome::Outcome;
pub use parent::{
    Call, CallResult, FaultCause, Launch, LaunchFault, LaunchProgress, LaunchResult, Module, Outcomes, Pool, Process,
    Program, Sandbox, SandboxError, Scheduler, Settings, SliceResult, Stats, SubjectLaunch, SubjectResult, Taken,
};
pub use protocol::{
    CudaTarget, ExportedFunction, FunctionConstants, ModuleCode, ModuleHash, ModuleInfo, Role, SubjectConfig,
    SubjectOutcome, SubjectParam,
};
pub use refusal::Refusal;
