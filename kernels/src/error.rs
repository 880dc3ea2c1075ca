//! Errors of operations and of device discovery.

use accelerd_ledger::Exceeded;

use crate::DeviceId;

/// The scope of a device's loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossScope {
    /// The device alone.
    Device,
    /// CUDA in this process, with all of its GPUs: only a new process can use them again.
    Cuda,
}

/// Why an operation failed. The engine chooses its reaction by the variant alone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpError {
    /// The device currently lacks memory. A smaller batch may succeed.
    #[error("out of memory on {device}: {requested} bytes requested, {free} free")]
    OutOfMemory {
        /// Device of the allocation.
        device: DeviceId,
        /// Size of the failed allocation; for a load in pieces, of all pieces up to the failed one. 0 if the driver allocates
        /// for itself, such as for a module, and does not say how much.
        requested: u64,
        /// Bytes available at that time; for a load in pieces, before the first.
        free: u64,
    },
    /// A limit of the ledger is reached.
    #[error("{0}")]
    MemoryLimit(Box<Exceeded>),
    /// This request can never be computed; the others of its batch can.
    #[error("{0}")]
    Invalid(String),
    /// An index that a graph reads is out of range; otherwise as [`Self::Invalid`].
    #[error("{reason}")]
    IndexOutOfRange {
        /// Position of the node that reads it, among those of the graph.
        node: usize,
        /// Which input of the node has the indices.
        input: usize,
        /// The operation, the valid indices and the one that is there.
        reason: String,
    },
    /// A kernel or library call failed, and the device is still usable.
    #[error("{kernel} failed on {device}: {reason}")]
    Failed {
        /// Device of the call.
        device: DeviceId,
        /// Kernel or library function that failed.
        kernel: &'static str,
        /// Error of the driver or library.
        reason: String,
    },
    /// Nothing more can run on the device.
    #[error("{device} is lost: {reason}")]
    DeviceLost {
        /// The lost device.
        device: DeviceId,
        /// The scope of the loss.
        scope: LossScope,
        /// The driver's error, after the call that returned it.
        reason: String,
    },
    /// The batch was abandoned at a preemption point, because no caller awaits it any more.
    #[error("no caller awaits the result any more")]
    Cancelled,
}

/// Why device discovery failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoverError {
    /// CUDA is required and unusable.
    #[error("backend is \"cuda\", but no CUDA device is usable: {0}")]
    NoCuda(String),
    /// The CPU pool could not be started.
    #[error("the CPU pool could not be started: {0}")]
    Cpu(String),
}
