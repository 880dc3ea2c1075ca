//! Reports of threads that ended with a fault.

use std::fmt;

use super::{FaultKind, FaultSite, Kernel, Site};

/// The fault of the first thread that had one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The position of the thread in the grid.
    pub thread: Vec<u32>,
    /// The kind of fault.
    pub kind: FaultKind,
    /// Where in the source; an exhausted budget has no place.
    pub site: Option<Site>,
    /// The access of [`FaultKind::OutOfBounds`], unless a statement raised it.
    pub access: Option<FaultAccess>,
    /// The variable of [`FaultKind::InvalidValue`], if it was read before it was assigned.
    pub unassigned: Option<String>,
}

/// An access outside its array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultAccess {
    /// The array's name.
    pub array: String,
    /// The first dimension whose index is outside.
    pub axis: u8,
    /// The index as the source states it.
    pub index: i64,
    /// The extent of the dimension.
    pub extent: i32,
}

/// A fault as executions record it: 40 bytes, little-endian, in the order of the fields, the last 4 bytes unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultRecord {
    /// Position of the thread among all of the grid, row-major.
    pub thread: u64,
    /// The index that is outside of its array, after the extent was added to one that counts from the end; else 0.
    pub index: i64,
    /// [`FaultKind::code`].
    pub kind: u32,
    /// Position of the site in [`Kernel::sites`], or [`Self::NONE`].
    pub site: u32,
    /// Position of the array in [`Kernel::params`], or [`Self::NONE`].
    pub array: u32,
    /// The dimension of the index; else 0.
    pub axis: u32,
    /// The extent of the dimension; else 0.
    pub extent: i32,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [Self; 5] =
        [Self::OutOfBounds, Self::DivisionByZero, Self::Assertion, Self::InvalidValue, Self::BudgetExhausted];

    /// Its number in a record, from 1.
    pub fn code(self) -> u32 {
        match self {
            Self::OutOfBounds => 1,
            Self::DivisionByZero => 2,
            Self::Assertion => 3,
            Self::InvalidValue => 4,
            Self::BudgetExhausted => 5,
        }
    }

    /// The kind of this number.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

impl FaultRecord {
    /// The position that marks the absence of a field in the record of a fault.
    pub const NONE: u32 = u32::MAX;
    /// Bytes of a record.
    pub const SIZE: usize = 40;

    /// A fault that is no access.
    pub fn new(thread: u64, kind: FaultKind, site: u32) -> Self {
        Self { thread, index: 0, kind: kind.code(), site, array: Self::NONE, axis: 0, extent: 0 }
    }

    /// The record in memory.
    pub fn from_bytes(bytes: &[u8; Self::SIZE]) -> Self {
        let word = |offset: usize| {
            u32::from_le_bytes([bytes[offset], bytes[offset + 1], bytes[offset + 2], bytes[offset + 3]])
        };
        let long = |offset: usize| u64::from(word(offset)) | u64::from(word(offset + 4)) << 32;
        Self {
            thread: long(0),
            index: long(8).cast_signed(),
            kind: word(16),
            site: word(20),
            array: word(24),
            axis: word(28),
            extent: word(32).cast_signed(),
        }
    }

    /// The fault that a record states for a launch of this kernel; `None` if it is no record of one.
    pub fn resolve(&self, kernel: &Kernel, grid: &[u32]) -> Option<Fault> {
        let kind = FaultKind::from_code(self.kind)?;
        let site = match self.site {
            Self::NONE => None,
            at => Some(kernel.sites.get(at as usize)?),
        };
        let access = match self.array {
            Self::NONE => None,
            at => Some(FaultAccess {
                array: kernel.params.get(at as usize)?.name.clone(),
                axis: u8::try_from(self.axis).ok()?,
                index: self.source_index(site),
                extent: self.extent,
            }),
        };
        let unassigned = site.and_then(|site| site.unassigned.clone());
        Some(Fault { thread: position(self.thread, grid)?, kind, site: site.map(|site| site.site), access, unassigned })
    }

    /// The index before the extent was added.
    fn source_index(&self, site: Option<&FaultSite>) -> i64 {
        let bits = site.and_then(|site| site.from_end.checked_shr(self.axis)).unwrap_or_default();
        let is_from_end = self.index < 0 && bits & 1 == 1;
        if is_from_end { self.index.saturating_sub(self.extent.into()) } else { self.index }
    }
}

/// The position of the `nth` thread.
fn position(nth: u64, grid: &[u32]) -> Option<Vec<u32>> {
    let mut rest = nth;
    let mut position = vec![0; grid.len()];
    for (coordinate, extent) in position.iter_mut().zip(grid).rev() {
        let extent = u64::from(*extent);
        *coordinate = u32::try_from(rest.checked_rem(extent)?).ok()?;
        rest /= extent;
    }
    (rest == 0).then_some(position)
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thread: Vec<_> = self.thread.iter().map(ToString::to_string).collect();
        write!(f, "thread ({})", thread.join(", "))?;
        if let Some(Site { line, column }) = self.site {
            write!(f, " at line {line}, column {column}")?;
        }
        let reason = match (self.kind, &self.access) {
            (FaultKind::OutOfBounds, Some(FaultAccess { array, axis, index, extent })) => {
                return write!(
                    f,
                    ": index {index} is outside of dimension {axis} of array {array:?}, whose extent is {extent}"
                );
            }
            (FaultKind::OutOfBounds, None) => "an index is out of bounds",
            (FaultKind::DivisionByZero, _) => "division by zero",
            (FaultKind::Assertion, _) => "an assertion failed",
            (FaultKind::InvalidValue, _) => match &self.unassigned {
                Some(variable) => return write!(f, ": variable {variable:?} is read before it is assigned"),
                None => "a value is invalid",
            },
            (FaultKind::BudgetExhausted, _) => "the loops ran more iterations than the budget",
        };
        write!(f, ": {reason}")
    }
}
