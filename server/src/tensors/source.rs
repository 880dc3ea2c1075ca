//! Where a tensor of a request comes from.

use accelerd_tensor::TensorType;
use bytes::Bytes;

/// A tensor that a caller passes.
#[derive(Clone, Debug)]
pub(crate) enum TensorSource {
    /// Its type and its elements, of as many bytes.
    Value(TensorType, Bytes),
    /// A resident tensor.
    Handle(String),
}
