//! The CPU's copies of an encoder's weights: packed at first use, and dropped when memory is short.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use accelerd_ledger::{Account, Kind, Limit, Reservation};

use super::{
    Encoder, Role, Tensor, Weights,
    cpu::{self, Arithmetic},
};
use crate::OpError;

/// A copy of the weights in the CPU's layout.
#[derive(Debug)]
pub(super) struct CpuCopy {
    pub(super) weights: Weights<cpu::Weight>,
    reservation: Reservation,
}

/// A copy with GEMMs in f32, and one in bfloat16.
#[derive(Debug, Default)]
pub(super) struct CpuCopies {
    account: OnceLock<Account>,
    slots: [Mutex<Option<Arc<CpuCopy>>>; 2],
}

impl CpuCopies {
    /// Sets the account, unless there is one.
    pub(super) fn charge_to(&self, account: Account) {
        let _was_set = self.account.set(account);
    }

    /// The copy for this arithmetic. Others wait while it is packed.
    pub(super) fn get_or_pack(&self, encoder: &Encoder, arithmetic: Arithmetic) -> Result<Arc<CpuCopy>, OpError> {
        let slot = match arithmetic {
            Arithmetic::F32(_) => &self.slots[0],
            Arithmetic::Bf16(_) => &self.slots[1],
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(copy) = &*slot {
            return Ok(Arc::clone(copy));
        }
        let account = self.account.get_or_init(|| Account::standalone(Kind::Copies, Limit::NONE));
        let full = |refusal| OpError::MemoryLimit(Box::new(refusal));
        let reservation = account.reserve(packed_bytes(encoder, arithmetic)).map_err(full)?;
        let copy = Arc::new(CpuCopy { weights: cpu::load(encoder, arithmetic)?, reservation });
        *slot = Some(Arc::clone(&copy));
        Ok(copy)
    }

    /// Drops the copies that no batch is using. Returns their bytes.
    pub(super) fn evict(&self) -> u64 {
        let mut evicted = 0;
        for slot in &self.slots {
            // Whoever holds the lock is packing or taking this copy.
            let Ok(mut slot) = slot.try_lock() else { continue };
            if let Some(copy) = slot.take_if(|copy| Arc::strong_count(copy) == 1) {
                evicted += copy.reservation.bytes();
            }
        }
        evicted
    }
}

/// Bytes of the packed weights, without the padding of rows.
fn packed_bytes(encoder: &Encoder, arithmetic: Arithmetic) -> u64 {
    let mut bytes = 0;
    let counted = encoder.weights().map::<(), ()>(&mut |tensor: &Tensor, role| {
        let number = match (role, arithmetic) {
            // Tables keep the type of the checkpoint and share its memory.
            (Role::Table, _) => 0,
            (Role::Matrix | Role::Gated, Arithmetic::Bf16(_)) => 2,
            (Role::Matrix | Role::Gated | Role::Bias | Role::Exact, _) => 4,
        };
        bytes += number * tensor.len() as u64;
        Ok(())
    });
    counted.map_or(0, |_| bytes)
}

#[cfg(test)]
mod tests {
    use accelerd_ledger::{Ledger, Place};

    use super::*;
    use crate::{cpu::simd::Isa, ops::encode::samples};

    fn held(ledger: &Ledger) -> u64 {
        ledger.snapshot()[0].held
    }

    #[test]
    fn copies_are_charged_and_dropped_when_no_batch_uses_them() {
        let encoder = samples::encoder(samples::bert()).expect("a sample");
        let ledger = Ledger::new();
        encoder.charge_cpu_copies_to(ledger.account(Place::Host, Kind::Copies));
        let copy = encoder.on_cpu(Arithmetic::F32(Isa::best())).expect("packed");
        let bytes = held(&ledger);
        assert!(bytes > 0 && bytes <= 2 * encoder.weights().bytes(), "{bytes}");
        assert_eq!(encoder.evict_cpu_copies(), 0, "in use");
        drop(copy);
        assert_eq!((encoder.evict_cpu_copies(), held(&ledger)), (bytes, 0));
        encoder.on_cpu(Arithmetic::F32(Isa::best())).expect("packed again");
        assert_eq!(held(&ledger), bytes);
    }

    #[test]
    fn a_copy_that_does_not_fit_is_refused_and_packed_once_it_fits() {
        let encoder = samples::encoder(samples::bert()).expect("a sample");
        let ledger = Ledger::new();
        ledger.limit(Place::Host, Limit { bytes: 1000, setting: "memory.host_limit" });
        encoder.charge_cpu_copies_to(ledger.account(Place::Host, Kind::Copies));
        let refused = encoder.on_cpu(Arithmetic::F32(Isa::best())).expect_err("1000 bytes are too few");
        assert!(matches!(&refused, OpError::MemoryLimit(full) if full.limit == 1000), "{refused}");
        ledger.limit(Place::Host, Limit::NONE);
        encoder.on_cpu(Arithmetic::F32(Isa::best())).expect("it fits now");
    }
}
