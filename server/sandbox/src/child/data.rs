//! Data of a store about the case that it runs: its memory limit, and the reason of its end.

use wasmtime::{ResourceLimiter, Trap};

use super::{pace::Pace, progress::Progress};
use crate::outcome::Outcome;

/// The host's data of a store.
pub(super) struct StoreData {
    memory_bytes: usize,
    table_elements: usize,
    /// Linear memory of all instances of the store.
    live_bytes: usize,
    is_out_of_memory: bool,
    /// True if allocations are not part of a client's instance.
    pub(super) is_exempt: bool,
    /// Where the driver is, if one runs in the store.
    pub(super) progress: Option<Progress>,
    /// Progress of the launch, if one runs in the store.
    pub(super) pace: Option<Pace>,
}

/// A request for more memory than is allowed; ends the case.
#[derive(Debug, thiserror::Error)]
#[error("out of memory")]
struct OutOfMemory;

impl StoreData {
    pub(super) fn new(memory_bytes: u64, table_elements: u32) -> Self {
        Self {
            memory_bytes: usize::try_from(memory_bytes).unwrap_or(usize::MAX),
            table_elements: table_elements as usize,
            live_bytes: 0,
            is_out_of_memory: false,
            is_exempt: false,
            progress: None,
            pace: None,
        }
    }

    pub(super) fn live_bytes(&self) -> usize {
        self.live_bytes
    }

    /// Returns the outcome of a case whose instantiation or call failed. The next case starts without the reason.
    pub(super) fn outcome(&mut self, error: &wasmtime::Error) -> Outcome {
        if std::mem::take(&mut self.is_out_of_memory) {
            return Outcome::OutOfMemory;
        }
        error.downcast_ref().map_or(Outcome::InstantiationFailed, |trap| outcome_of(*trap))
    }

    /// The host itself was denied memory, and has reported it.
    pub(super) fn forget_denial(&mut self) {
        self.is_out_of_memory = false;
    }

    fn deny(&mut self) -> wasmtime::Error {
        self.is_out_of_memory = true;
        OutOfMemory.into()
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "other traps belong to proposals that are not enabled")]
fn outcome_of(trap: Trap) -> Outcome {
    match trap {
        Trap::StackOverflow => Outcome::StackOverflow,
        Trap::MemoryOutOfBounds => Outcome::MemoryOutOfBounds,
        Trap::HeapMisaligned => Outcome::Unaligned,
        Trap::TableOutOfBounds => Outcome::TableOutOfBounds,
        Trap::IndirectCallToNull => Outcome::IndirectCallToNull,
        Trap::BadSignature => Outcome::BadSignature,
        Trap::IntegerOverflow => Outcome::IntegerOverflow,
        Trap::IntegerDivisionByZero => Outcome::IntegerDivisionByZero,
        Trap::BadConversionToInteger => Outcome::BadConversionToInteger,
        Trap::UnreachableCodeReached => Outcome::Unreachable,
        Trap::Interrupt => Outcome::Timeout,
        Trap::OutOfFuel => Outcome::OutOfFuel,
        Trap::NullReference => Outcome::NullReference,
        Trap::AllocationTooLarge => Outcome::OutOfMemory,
        _ => Outcome::OtherTrap,
    }
}

/// Growth beyond the maximum that the module itself declares fails as the specification says: the instruction returns -1. Growth beyond the
/// limits ends the case.
impl ResourceLimiter for StoreData {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if self.is_exempt {
            return Ok(true);
        }
        if maximum.is_some_and(|maximum| desired > maximum && maximum < self.memory_bytes) {
            return Ok(false);
        }
        if desired > self.memory_bytes {
            return Err(self.deny());
        }
        self.live_bytes += desired - current;
        Ok(true)
    }

    /// The operating system has no more memory for this process.
    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        Err(self.deny())
    }

    fn table_growing(&mut self, _current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum && maximum < self.table_elements) {
            return Ok(false);
        }
        if desired > self.table_elements { Err(self.deny()) } else { Ok(true) }
    }
}
