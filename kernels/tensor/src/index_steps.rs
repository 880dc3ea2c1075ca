//! Steps that choose, accumulate or order the elements along a dimension.

use accelerd_ir::Dtype;

use crate::View;

/// Copies elements of which one index is a value of another tensor: `output[i] = input[i, index[i]]`.
///
/// An index is valid from 0 to the extent, and from minus the extent if [`IndexOp::wraps`]. Any other fails the execution.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IndexStep {
    /// The operation, which decides whether negative indices are valid, and is named in errors.
    pub op: IndexOp,
    /// The position of its node among those of the graph, for errors.
    pub node: usize,
    /// The elements, of layout shape `[shape of the output, extent]`; strides of dimensions that do not choose the element are 0.
    pub input: View,
    /// The indices, i32 or i64, of the layout shape of the output.
    pub index: View,
    /// The results, of the input's type.
    pub output: View,
}

/// An operation that reads by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexOp {
    /// `gather`.
    Gather,
    /// `index_select`.
    IndexSelect,
    /// `take_along_dim`.
    TakeAlongDim,
    /// `embedding`.
    Embedding,
    /// `one_hot`, whose input is a diagonal of ones.
    OneHot,
}

/// Accumulates the elements along a dimension.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScanStep {
    /// The elements: contiguous, of layout shape `[outer, extent, inner]`.
    pub input: View,
    /// The combination of the elements.
    pub kind: ScanKind,
    /// Type of the elements as they are combined. Floating-point numbers are combined in an order that depends on the shape alone.
    pub accumulate: Dtype,
    /// The combination of each element with all before it, of the input's layout shape: contiguous.
    pub output: View,
}

/// The combination of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScanKind {
    /// Sum. Integers wrap.
    Sum,
    /// Product. Integers wrap.
    Prod,
    /// The least; NaN once there is one.
    Min,
    /// The greatest; NaN once there is one.
    Max,
}

/// Finds the indices of the first elements of each row in sorted order. NaN is greater than any number, -0 equals 0, and the lower
/// index comes first among equal elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SortStep {
    /// The rows: contiguous, of layout shape `[rows, columns]`, with at most [`SortStep::MAX_COLUMNS`] columns.
    pub input: View,
    /// True if the greatest comes first.
    pub is_descending: bool,
    /// The indices, i64: contiguous, of layout shape `[rows, count]`, `count` at most `columns`.
    pub output: View,
}

impl IndexOp {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Gather, Self::IndexSelect, Self::TakeAlongDim, Self::Embedding, Self::OneHot];

    /// Its name in a graph.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gather => "gather",
            Self::IndexSelect => "index_select",
            Self::TakeAlongDim => "take_along_dim",
            Self::Embedding => "embedding",
            Self::OneHot => "one_hot",
        }
    }

    /// Which input of its node has the indices.
    pub fn index_input(self) -> usize {
        match self {
            Self::Gather | Self::IndexSelect | Self::TakeAlongDim | Self::Embedding => 1,
            Self::OneHot => 0,
        }
    }

    /// Returns true if negative indices count from the end.
    pub fn wraps(self) -> bool {
        self == Self::TakeAlongDim
    }

    /// The error of an index that is not valid.
    pub fn out_of_range(self, index: i64, extent: usize) -> String {
        let least = if self.wraps() { format!("-{extent}") } else { "0".to_owned() };
        format!("{}: expected indices of at least {least} and less than {extent}, got {index}", self.name())
    }
}

impl SortStep {
    /// The most elements of a row.
    pub const MAX_COLUMNS: usize = i32::MAX as usize;
}
