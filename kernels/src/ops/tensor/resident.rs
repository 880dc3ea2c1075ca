//! Resident tensors: memory of a device that outlives a request.

use std::{fmt, ops::Range, sync::Arc};

use accelerd_tensor::TensorType;
use bytes::Bytes;

use super::cpu::AlignedBuffer;
use crate::{
    DeviceId, OpError, cuda,
    ledger::{Kind, Ledger, Reservation},
};

/// A tensor that stays in the memory of a device until the last reference to it is dropped. Only the [`Upload`](super::Upload)
/// operation writes to it, before it is complete.
pub struct ResidentTensor {
    of: TensorType,
    device: DeviceId,
    memory: Memory,
    _reserved: Reservation,
}

enum Memory {
    Host(Bytes),
    Cuda(cuda::Buffer<u8>),
}

impl fmt::Debug for ResidentTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResidentTensor").field("of", &self.of).field("device", &self.device).finish_non_exhaustive()
    }
}

impl ResidentTensor {
    pub(super) fn on_host(ty: TensorType, elements: Bytes, reserved: Reservation) -> Self {
        Self { of: ty, device: DeviceId::Cpu, memory: Memory::Host(elements), _reserved: reserved }
    }

    /// `buffer` is of the worker's device.
    pub(super) fn on_gpu(
        of: TensorType,
        buffer: cuda::Buffer<u8>,
        worker: &cuda::Worker,
        reserved: Reservation,
    ) -> Self {
        Self { of, device: worker.device().info().id, memory: Memory::Cuda(buffer), _reserved: reserved }
    }

    /// Element type and shape.
    pub fn of(&self) -> &TensorType {
        &self.of
    }

    /// Where it is.
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// Its elements, if they are in host memory.
    pub fn host_bytes(&self) -> Option<&Bytes> {
        match &self.memory {
            Memory::Host(bytes) => Some(bytes),
            Memory::Cuda(_) => None,
        }
    }

    /// Its elements, for a worker of the CPU.
    pub(super) fn on_cpu(&self) -> Result<&Bytes, OpError> {
        self.host_bytes().ok_or_else(|| self.elsewhere(DeviceId::Cpu))
    }

    /// Its elements, for a worker of its GPU.
    pub(in crate::ops) fn on(&self, worker: &cuda::Worker) -> Result<&cuda::Buffer<u8>, OpError> {
        let device = worker.device().info().id;
        match &self.memory {
            Memory::Cuda(buffer) if self.device == device => Ok(buffer),
            Memory::Cuda(_) | Memory::Host(_) => Err(self.elsewhere(device)),
        }
    }

    fn elsewhere(&self, device: DeviceId) -> OpError {
        OpError::Invalid(format!("expected a tensor on {device}, got one on {}", self.device))
    }

    /// Refuses a range that exceeds the tensor.
    pub(super) fn check(&self, range: &Range<usize>) -> Result<(), OpError> {
        let bytes = self.of.bytes();
        if range.start <= range.end && range.end <= bytes {
            Ok(())
        } else {
            Err(OpError::Invalid(format!("expected a range of {bytes} bytes, got {range:?}")))
        }
    }
}

/// Where the memory of new resident tensors is reserved.
#[derive(Clone, Debug)]
pub struct TensorAccount {
    ledger: Arc<Ledger>,
    principal: u64,
}

impl TensorAccount {
    /// The account of a principal.
    pub fn new(ledger: &Arc<Ledger>, principal: u64) -> Self {
        Self { ledger: Arc::clone(ledger), principal }
    }

    /// Reserves memory of a device.
    pub(super) fn reserve(&self, device: DeviceId, bytes: usize) -> Result<Reservation, OpError> {
        let account = self.ledger.account(device.place(), Kind::Tensors).of(self.principal);
        account.reserve(bytes as u64).map_err(|refusal| OpError::MemoryLimit(Box::new(refusal)))
    }
}

/// A tensor that is written to host memory.
pub struct HostUpload {
    of: TensorType,
    buffer: AlignedBuffer,
    written: usize,
    reserved: Reservation,
}

impl fmt::Debug for HostUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostUpload").field("of", &self.of).field("written", &self.written).finish_non_exhaustive()
    }
}

impl HostUpload {
    /// Reserves and allocates the memory of a tensor.
    ///
    /// # Errors
    /// If the ledger or the allocator has no memory.
    pub fn new(ty: TensorType, account: &TensorAccount) -> Result<Self, OpError> {
        let reserved = account.reserve(DeviceId::Cpu, ty.bytes())?;
        let buffer = AlignedBuffer::zeros(ty.bytes())?;
        Ok(Self { of: ty, buffer, written: 0, reserved })
    }

    /// Writes the next bytes.
    ///
    /// # Errors
    /// If they exceed the tensor; nothing is written then.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), OpError> {
        let rest = &mut self.buffer.bytes_mut()[self.written..];
        let expected = rest.len();
        let Some(to) = rest.get_mut(..bytes.len()) else {
            return Err(OpError::Invalid(format!("expected at most {expected} bytes, got {}", bytes.len())));
        };
        to.copy_from_slice(bytes);
        self.written += bytes.len();
        Ok(())
    }

    /// The tensor. Elements that were not written are zero.
    pub fn finish(self) -> ResidentTensor {
        ResidentTensor::on_host(self.of, Bytes::from_owner(self.buffer), self.reserved)
    }
}

#[cfg(test)]
mod tests {
    use accelerd_tensor::Dtype;

    use super::*;
    use crate::ledger::{Limit, Place};

    fn account(limit: u64) -> (Arc<Ledger>, TensorAccount) {
        let ledger = Ledger::new();
        ledger.cap(Place::Host, Kind::Tensors, Limit { bytes: limit, setting: "tensors.memory_limit" });
        let account = TensorAccount::new(&ledger, 7);
        (ledger, account)
    }

    fn held(ledger: &Ledger) -> u64 {
        ledger.account(Place::Host, Kind::Tensors).usage().0
    }

    #[test]
    fn memory_is_reserved_from_the_start_of_an_upload_to_the_last_reference() {
        let (ledger, account) = account(100);
        let ty = TensorType { dtype: Dtype::I16, shape: vec![3] };
        let mut upload = HostUpload::new(ty, &account).expect("it fits");
        assert_eq!(held(&ledger), 6);
        upload.write(&[1, 2, 3]).expect("three of six bytes");
        assert!(matches!(upload.write(&[0; 4]), Err(OpError::Invalid(_))));
        upload.write(&[4, 5, 6]).expect("the rest");
        let tensor = Arc::new(upload.finish());
        assert_eq!(tensor.host_bytes().expect("on the host")[..], [1, 2, 3, 4, 5, 6]);
        let reader = Arc::clone(&tensor);
        drop(tensor);
        assert_eq!(held(&ledger), 6);
        drop(reader);
        assert_eq!(held(&ledger), 0);
    }

    #[test]
    fn a_tensor_above_the_limit_is_refused_with_the_figures() {
        let (ledger, account) = account(100);
        let ty = TensorType { dtype: Dtype::F64, shape: vec![13] };
        let Err(OpError::MemoryLimit(refusal)) = HostUpload::new(ty, &account) else { panic!("104 bytes of 100") };
        assert_eq!((refusal.asked, refusal.limit, refusal.setting), (104, 100, "tensors.memory_limit"));
        assert_eq!(held(&ledger), 0);
    }

    #[test]
    fn ranges_outside_of_a_tensor_are_refused() {
        let (_ledger, account) = account(100);
        let of = TensorType { dtype: Dtype::U8, shape: vec![4] };
        let tensor = HostUpload::new(of, &account).expect("it fits").finish();
        assert_eq!((tensor.check(&(0..4)), tensor.check(&(4..4))), (Ok(()), Ok(())));
        #[expect(clippy::reversed_empty_ranges, reason = "what is refused")]
        for range in [0..5, 3..2, 5..5] {
            assert!(tensor.check(&range).is_err(), "{range:?}");
        }
    }
}
