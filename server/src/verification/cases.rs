//! Cases of a chunk.

use std::sync::Arc;

use accelerd_tensor::TensorType;
use bytes::Bytes;

use super::{column::Column, outcome::CaseOutcome};

/// A tensor of a side: its name, type and elements.
pub(crate) type Named = (String, TensorType, Bytes);

/// The inputs of cases, in the order of the verification's.
#[derive(Clone, Debug)]
pub(super) enum Inputs {
    /// Their values.
    Columns(Vec<Column>),
    /// Those of the header's generator, from this case on. They are made when it is the call's turn, so that waiting calls hold none.
    Generated(u64),
    /// As before, those of these numbers, which ascend.
    Numbered(Arc<[u64]>),
}

/// Cases to evaluate.
#[derive(Clone, Debug)]
pub(super) struct Cases {
    pub(super) count: usize,
    pub(super) inputs: Inputs,
    /// Their numbers among all cases; `None` if they follow one another.
    pub(super) numbers: Option<Arc<[u64]>>,
    /// Outputs that the client sent for each side that is no function.
    pub(super) actual: Vec<Named>,
    pub(super) expected: Vec<Named>,
    /// Expected outcome of the subject in each case, `None` if the header or the policy decides. Empty if there is none.
    pub(super) expected_outcomes: Vec<Option<CaseOutcome>>,
}

impl Cases {
    /// Cases of two functions.
    pub(super) fn of_functions(count: usize, inputs: Inputs) -> Self {
        let numbers = if let Inputs::Numbered(numbers) = &inputs { Some(Arc::clone(numbers)) } else { None };
        Self { count, inputs, numbers, actual: vec![], expected: vec![], expected_outcomes: vec![] }
    }
}
