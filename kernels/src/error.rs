//! Why a computation, or the search for devices, failed.

use crate::DeviceId;

/// Why an operation failed. The engine decides what follows from the variant alone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpError {
    /// The device has not enough memory now. A smaller batch may succeed.
    #[error("out of memory on {device}: {requested} bytes asked for, {free} free")]
    OutOfMemory {
        /// Where.
        device: DeviceId,
        /// Size of the allocation that failed; of what is loaded piece by piece, all up to that one.
        requested: u64,
        /// Bytes that could be had then; before the first piece.
        free: u64,
    },
    /// This request can never be computed; the others of its batch can.
    #[error("{0}")]
    Invalid(String),
    /// A kernel or library call failed, and the device is still usable.
    #[error("{kernel} failed on {device}: {reason}")]
    Failed {
        /// Where.
        device: DeviceId,
        /// What was running.
        kernel: &'static str,
        /// The driver's or library's words.
        reason: String,
    },
    /// The device's context is poisoned; nothing more can run there.
    #[error("{device} is lost: {reason}")]
    DeviceLost {
        /// Which.
        device: DeviceId,
        /// The driver's words.
        reason: String,
    },
}

/// Why no device could be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoverError {
    /// CUDA was asked for and cannot be used.
    #[error("backend is \"cuda\", and no CUDA device can be used: {0}")]
    NoCuda(String),
    /// The CPU pool could not be started.
    #[error("the CPU pool could not be started: {0}")]
    Cpu(String),
}
