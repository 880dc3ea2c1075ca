//! Cases of a chunk.

use accelerd_tensor::TensorType;
use bytes::Bytes;

use super::column::Column;

/// A tensor of a side: its name, type and elements.
pub(super) type Named = (String, TensorType, Bytes);

/// Cases to evaluate.
#[derive(Clone, Debug, Default)]
pub(super) struct Cases {
    pub(super) count: usize,
    /// In the order of the verification's inputs.
    pub(super) inputs: Vec<Column>,
    /// What the client sent for each side that is no function.
    pub(super) actual: Vec<Named>,
    pub(super) expected: Vec<Named>,
}
