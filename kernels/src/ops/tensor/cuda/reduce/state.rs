//! The state that a reduction accumulates.

use accelerd_ir::Dtype;
use accelerd_tensor::Reduction;

/// A state of `tensor/states.cuh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum State {
    /// Combined values.
    Of(Reduction),
    ArgMin,
    ArgMax,
}

impl State {
    pub(super) fn of(reduction: Reduction, value: Dtype) -> Self {
        Self::Of(if value == Dtype::Bool { reduction.combination().of_bool } else { reduction })
    }

    /// Its type in CUDA C++.
    pub(super) fn ctype(self) -> String {
        match self {
            Self::Of(reduction) => format!("{}<Value>", reduction.combination().state),
            Self::ArgMin => "ExtremeState<Value, false>".to_owned(),
            Self::ArgMax => "ExtremeState<Value, true>".to_owned(),
        }
    }

    /// Its bytes.
    pub(super) fn bytes(self, value: Dtype) -> usize {
        match self {
            Self::Of(reduction) => reduction.combination().state_values * value.size(),
            // The value is padded to the alignment of the index.
            Self::ArgMin | Self::ArgMax => 2 * size_of::<i64>(),
        }
    }

    /// The type of the final value.
    pub(super) fn finished(self, value: Dtype) -> Dtype {
        if self.finds_index() { Dtype::I64 } else { value }
    }

    /// Returns true if the position of a value matters.
    pub(super) fn finds_index(self) -> bool {
        matches!(self, Self::ArgMin | Self::ArgMax)
    }

    /// Returns true if merging two states takes many instructions.
    pub(super) fn merges_slowly(self) -> bool {
        match self {
            Self::Of(reduction) => reduction.combination().state_values > 1,
            Self::ArgMin | Self::ArgMax => true,
        }
    }

    /// Returns true if values of a type can be reduced.
    pub(super) fn takes(self, value: Dtype) -> bool {
        let is_of_floats = matches!(self, Self::Of(reduction) if reduction.combination().is_of_floats);
        value.compute() == value && (value.is_float() || !is_of_floats)
    }
}
