//! Comparisons, and logic of truth values.

use super::{
    operation::{Operation, binary},
    typing::Typing::{Comparison, Logic},
};

pub(super) const OPERATIONS: &[Operation] = &[
    binary("eq", Comparison, |a, b| a.eq(b)),
    binary("ge", Comparison, |a, b| a.ge(b)),
    binary("gt", Comparison, |a, b| a.gt(b)),
    binary("le", Comparison, |a, b| a.le(b)),
    binary("logical_and", Logic, |a, b| a & b),
    binary("logical_or", Logic, |a, b| a | b),
    binary("logical_xor", Logic, |a, b| a ^ b),
    binary("lt", Comparison, |a, b| a.lt(b)),
    binary("ne", Comparison, |a, b| a.ne(b)),
];
