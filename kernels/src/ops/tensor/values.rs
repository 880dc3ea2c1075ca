//! Inputs and outputs of an execution.

use std::sync::Arc;

use bytes::Bytes;

use super::ResidentTensor;
use crate::{DeviceId, OpError};

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
    pub(in crate::ops) fn len(&self) -> usize {
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

    /// Its elements, for a worker of the CPU.
    pub(in crate::ops) fn on_host(&self) -> Result<&[u8], OpError> {
        match self {
            Self::Inline(bytes) => Ok(bytes),
            Self::Resident(tensor) => tensor.on_cpu().map(|bytes| &bytes[..]),
        }
    }

    /// Where it is, if it is resident.
    pub(in crate::ops) fn device(&self) -> Option<DeviceId> {
        match self {
            Self::Inline(_) => None,
            Self::Resident(tensor) => Some(tensor.device()),
        }
    }

    /// Returns true if the tensor is in host memory.
    pub(in crate::ops) fn is_on_host(&self) -> bool {
        self.device().is_none_or(|device| device == DeviceId::Cpu)
    }

    /// Bytes that an execution holds for it.
    pub(in crate::ops) fn inline_bytes(&self) -> u64 {
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
