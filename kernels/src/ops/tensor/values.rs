//! What goes into an execution, and what comes out of it.

use std::sync::Arc;

use bytes::Bytes;

use super::ResidentTensor;

/// An input of a graph.
#[derive(Clone, Debug)]
pub enum TensorInput {
    /// Little-endian elements in row-major order.
    Inline(Bytes),
    /// A tensor on the device that the request runs on.
    Resident(Arc<ResidentTensor>),
}

impl From<Bytes> for TensorInput {
    fn from(bytes: Bytes) -> Self {
        Self::Inline(bytes)
    }
}

impl TensorInput {
    /// Bytes of its elements.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Inline(bytes) => bytes.len(),
            Self::Resident(tensor) => tensor.of().bytes(),
        }
    }

    /// Its elements, if they come with the request.
    pub(super) fn inline(&self) -> Option<&[u8]> {
        match self {
            Self::Inline(bytes) => Some(bytes),
            Self::Resident(_) => None,
        }
    }

    /// Bytes that an execution holds for it.
    pub(super) fn inline_bytes(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Resident(_) => 0,
        }
    }
}

/// The outputs of a graph.
#[derive(Debug)]
pub struct Executed {
    /// Those that are not kept, in the plan's order.
    pub returned: Vec<Bytes>,
    /// Those that are kept, in the plan's order.
    pub kept: Vec<ResidentTensor>,
}
