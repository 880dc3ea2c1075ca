//! The daemon's ledger of memory: its limits from the settings, the allowances of calls, and what is evicted and observed.

use std::sync::Arc;

use accelerd_collections::Collections;
use accelerd_kernels::{
    Device, DeviceId,
    ledger::{Allowance, Exceeded, Kind, Ledger, Limit, Place},
};

use crate::{
    config::{Config, guarantee},
    embedder::Embedder,
    resident_memory::WorkSignal,
    transport::memory::{LedgerPart, reserved_for_small_calls},
};

/// The smallest block by which an allowance grows.
const MIN_BLOCK: u64 = 1 << 20;

/// An allowance grows by this fraction of what it may hold.
const BLOCKS: u64 = 64;

/// The ledger, with the limit of host memory.
pub(crate) fn open(config: &Config) -> Arc<Ledger> {
    let ledger = Ledger::new();
    ledger.limit(Place::Host, Limit { bytes: config.memory.host_limit.as_u64(), setting: "memory.host_limit" });
    ledger
}

/// Returns the memory of connections, request messages and responses: an allowance, and a reserve for connections and small calls.
/// The signal is told of their charges.
pub(crate) fn messages(ledger: &Ledger, config: &Config, work: Arc<WorkSignal>) -> Result<LedgerPart, Exceeded> {
    let cap = Limit { bytes: config.admission.max_message_memory.as_u64(), setting: "admission.max_message_memory" };
    let reserve = (guarantee(config.memory.host_limit.as_u64()) / 2).min(reserved_for_small_calls(cap.bytes));
    let allowance = allowance(ledger, config, Kind::Messages, cap, reserve)?;
    Ok(LedgerPart::new(allowance, ledger.account(Place::Host, Kind::Messages).reserve(reserve)?, work))
}

/// The allowance of admitted requests.
pub(crate) fn requests(ledger: &Ledger, config: &Config) -> Result<Arc<Allowance>, Exceeded> {
    let cap = Limit { bytes: config.admission.max_bytes.as_u64(), setting: "admission.max_bytes" };
    allowance(ledger, config, Kind::Requests, cap, 0)
}

/// Memory of admitted requests that a call holds beyond what they were admitted with.
#[derive(Debug)]
pub(crate) struct RequestMemory {
    allowance: Arc<Allowance>,
    bytes: u64,
}

impl RequestMemory {
    /// Holds nothing yet.
    pub(crate) fn new(allowance: &Arc<Allowance>) -> Self {
        Self { allowance: Arc::clone(allowance), bytes: 0 }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Holds `bytes` from now on; as many as before if that is refused.
    pub(crate) fn try_resize(&mut self, bytes: u64) -> Result<(), Exceeded> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.allowance.take(more)?,
            None => self.allowance.release(self.bytes - bytes),
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for RequestMemory {
    fn drop(&mut self) {
        self.allowance.release(self.bytes);
    }
}

/// An allowance whose floor is the guaranteed part of its kind, less `reserve`.
fn allowance(
    ledger: &Ledger,
    config: &Config,
    kind: Kind,
    cap: Limit,
    reserve: u64,
) -> Result<Arc<Allowance>, Exceeded> {
    ledger.cap(Place::Host, kind, cap);
    let floor = guarantee(config.memory.host_limit.as_u64()).min(cap.bytes) - reserve;
    let block = (cap.bytes / BLOCKS).max(MIN_BLOCK);
    let allowance = Arc::new(Allowance::new(&ledger.account(Place::Host, kind), floor, block)?);
    let weak = Arc::downgrade(&allowance);
    ledger.on_eviction(Place::Host, kind, move |_| weak.upgrade().map_or(0, |allowance| allowance.trim()));
    Ok(allowance)
}

/// Caps resident tensors on the host and on each GPU.
pub(crate) fn cap_tensors(ledger: &Ledger, config: &Config, devices: &[Device]) {
    let host = Limit { bytes: config.tensors.memory_limit.as_u64(), setting: "tensors.memory_limit" };
    ledger.cap(Place::Host, Kind::Tensors, host);
    for device in devices.iter().filter(|device| device.id() != DeviceId::Cpu) {
        let pool = device.pool_stats().map(|pool| pool.limit_bytes).filter(|limit| *limit > 0);
        let memory = pool.unwrap_or(device.info().memory_bytes);
        let limit = Limit { bytes: share(memory, config.tensors.gpu_share), setting: "tensors.gpu_share" };
        ledger.cap(device.id().place(), Kind::Tensors, limit);
    }
}

/// A share from 0 to 1 of a number of bytes, in thousandths.
fn share(bytes: u64, share: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1000")]
    let thousandths = (share.clamp(0.0, 1.0) * 1000.0) as u64;
    bytes / 1000 * thousandths
}

/// Connects the caches of models, collections and devices. Their callbacks hold nothing of the daemon.
pub(crate) fn connect(ledger: &Ledger, embedder: &Embedder, collections: &Arc<Collections>, devices: &[Device]) {
    let weak = Arc::downgrade(collections);
    ledger.on_eviction(Place::Host, Kind::Indexes, move |bytes| {
        weak.upgrade().map_or(0, |collections| collections.evict_indexes(bytes))
    });
    let weak = Arc::downgrade(collections);
    let embeds_for_a_collection = move |name: &str| {
        let all = weak.upgrade().map(|collections| collections.list()).unwrap_or_default();
        all.iter().any(|collection| collection.meta().model == name)
    };
    // The memory of the CPU is that of the host.
    let places = devices.iter().map(|device| device.id().place()).filter(|place| *place != Place::Host);
    embedder.evict_from(ledger, std::iter::once(Place::Host).chain(places), embeds_for_a_collection);
    for device in devices {
        if device.id() != DeviceId::Cpu {
            connect_device(ledger, collections, device);
        }
    }
}

/// Connects the copies of collections on a GPU.
fn connect_device(ledger: &Ledger, collections: &Arc<Collections>, device: &Device) {
    let id = device.id();
    let place = device.id().place();
    let weak = Arc::downgrade(collections);
    ledger.on_eviction(place, Kind::Copies, move |bytes| {
        weak.upgrade().map_or(0, |collections| collections.evict_device_copies(id, bytes))
    });
    let weak = Arc::downgrade(collections);
    ledger.observe(place, Kind::Copies, move || weak.upgrade().map_or(0, |collections| collections.device_bytes(id)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_memory_is_part_of_the_allowance_even_if_that_has_reserved_all() {
        let mut config = Config::default();
        config.admission.max_bytes = crate::config::ByteSize::mib(1);
        config.memory.host_limit = crate::config::ByteSize::mib(1 << 20);
        let ledger = open(&config);
        let allowance = requests(&ledger, &config).expect("it fits");
        let mut memory = RequestMemory::new(&allowance);
        memory.try_resize(600 << 10).expect("it fits");
        let mut other = RequestMemory::new(&allowance);
        let refusal = other.try_resize(500 << 10).expect_err("both do not fit");
        assert_eq!((refusal.setting, other.bytes()), ("admission.max_bytes", 0));
        memory.try_resize(100 << 10).expect("it shrinks");
        other.try_resize(500 << 10).expect("it fits");
        drop((memory, other));
        assert_eq!(allowance.taken(), 0);
    }
}
