//! The state that a reduction accumulates.

use accelerd_ir::Dtype;
use accelerd_tensor::Reduction;

/// A state of `tensor/states.cuh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum State {
    Sum,
    Prod,
    Min,
    Max,
    LogSumExp,
    Deviations,
    ArgMin,
    ArgMax,
}

impl State {
    /// The sum of truths is whether any is true, their product whether all are.
    pub(super) fn of(reduction: Reduction, value: Dtype) -> Self {
        match reduction {
            Reduction::Sum if value == Dtype::Bool => Self::Max,
            Reduction::Prod if value == Dtype::Bool => Self::Min,
            Reduction::Sum => Self::Sum,
            Reduction::Prod => Self::Prod,
            Reduction::Min => Self::Min,
            Reduction::Max => Self::Max,
            Reduction::LogSumExp => Self::LogSumExp,
            Reduction::SquaredDeviations => Self::Deviations,
        }
    }

    /// Its type in CUDA C++.
    pub(super) fn ctype(self) -> &'static str {
        match self {
            Self::Sum => "SumState<Value>",
            Self::Prod => "ProdState<Value>",
            Self::Min => "MinState<Value>",
            Self::Max => "MaxState<Value>",
            Self::LogSumExp => "LogSumExpState<Value>",
            Self::Deviations => "DeviationsState<Value>",
            Self::ArgMin => "ExtremeState<Value, false>",
            Self::ArgMax => "ExtremeState<Value, true>",
        }
    }

    /// Its bytes.
    pub(super) fn bytes(self, value: Dtype) -> usize {
        match self {
            Self::Sum | Self::Prod | Self::Min | Self::Max => value.size(),
            Self::LogSumExp => 2 * value.size(),
            Self::Deviations => 3 * value.size(),
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
            Self::Sum | Self::Prod | Self::Min | Self::Max => false,
            Self::LogSumExp | Self::Deviations | Self::ArgMin | Self::ArgMax => true,
        }
    }

    /// Returns true if values of a type can be reduced.
    pub(super) fn takes(self, value: Dtype) -> bool {
        let is_computed = value.compute() == value;
        is_computed && (value.is_float() || !matches!(self, Self::LogSumExp | Self::Deviations))
    }
}
