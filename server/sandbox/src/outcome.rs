//! Outcomes of cases.

use std::fmt;

/// Outcome of a case: one byte in a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Outcome {
    /// The function returned.
    #[default]
    Ok = 0,
    /// The fuel of the case was used up.
    OutOfFuel = 1,
    /// The module asked for more memory or a larger table than the limits allow, or than the child process can get.
    OutOfMemory = 2,
    /// The case ran longer than its time limit.
    Timeout = 3,
    /// Calls were nested too deeply.
    StackOverflow = 4,
    /// The exported `alloc` returned an address outside the memory.
    BadAllocation = 5,
    /// The module could not be instantiated, for a reason other than those of its own code.
    InstantiationFailed = 6,
    /// A load, store or bulk operation outside the memory.
    MemoryOutOfBounds = 16,
    /// An access outside a table.
    TableOutOfBounds = 17,
    /// An indirect call to an empty entry of a table.
    IndirectCallToNull = 18,
    /// An indirect call to a function of another type.
    BadSignature = 19,
    /// A result of integer division that its type cannot hold.
    IntegerOverflow = 20,
    /// An integer division or remainder by zero.
    IntegerDivisionByZero = 21,
    /// A conversion to an integer of NaN, or of a number out of range.
    BadConversionToInteger = 22,
    /// The instruction `unreachable`: a panic, an abort or a failed assertion.
    Unreachable = 23,
    /// An atomic access at an unaligned address.
    Unaligned = 24,
    /// A call of a null reference.
    NullReference = 25,
    /// Any other trap.
    OtherTrap = 26,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Self; 18] = [
        Self::Ok,
        Self::OutOfFuel,
        Self::OutOfMemory,
        Self::Timeout,
        Self::StackOverflow,
        Self::BadAllocation,
        Self::InstantiationFailed,
        Self::MemoryOutOfBounds,
        Self::TableOutOfBounds,
        Self::IndirectCallToNull,
        Self::BadSignature,
        Self::IntegerOverflow,
        Self::IntegerDivisionByZero,
        Self::BadConversionToInteger,
        Self::Unreachable,
        Self::Unaligned,
        Self::NullReference,
        Self::OtherTrap,
    ];

    /// Its byte in a response.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The outcome of a byte.
    pub fn from_code(code: u8) -> Option<Self> {
        const BY_CODE: [Option<Outcome>; 256] = {
            let mut by_code = [None; 256];
            let mut nth = 0;
            while nth < Outcome::ALL.len() {
                by_code[Outcome::ALL[nth] as usize] = Some(Outcome::ALL[nth]);
                nth += 1;
            }
            by_code
        };
        BY_CODE[usize::from(code)]
    }

    /// Returns true if the function trapped by an instruction of its own.
    pub fn is_trap(self) -> bool {
        self.code() >= Self::MemoryOutOfBounds.code()
    }

    /// Its name, such as `integer_division_by_zero`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::OutOfFuel => "out_of_fuel",
            Self::OutOfMemory => "out_of_memory",
            Self::Timeout => "timeout",
            Self::StackOverflow => "stack_overflow",
            Self::BadAllocation => "bad_allocation",
            Self::InstantiationFailed => "instantiation_failed",
            Self::MemoryOutOfBounds => "memory_out_of_bounds",
            Self::TableOutOfBounds => "table_out_of_bounds",
            Self::IndirectCallToNull => "indirect_call_to_null",
            Self::BadSignature => "bad_signature",
            Self::IntegerOverflow => "integer_overflow",
            Self::IntegerDivisionByZero => "integer_division_by_zero",
            Self::BadConversionToInteger => "bad_conversion_to_integer",
            Self::Unreachable => "unreachable",
            Self::Unaligned => "unaligned",
            Self::NullReference => "null_reference",
            Self::OtherTrap => "other_trap",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_is_found_by_its_code() {
        for code in 0..=u8::MAX {
            let known = Outcome::ALL.iter().find(|outcome| outcome.code() == code);
            assert_eq!(Outcome::from_code(code), known.copied());
        }
    }
}
