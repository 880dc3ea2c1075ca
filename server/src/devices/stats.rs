//! Statistics of the daemon at one moment, as all wires send them.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use accelerd_engine::{AdmissionStats, CpuFallback, LaneCounts, LaneStats};
use accelerd_kernels::{Device, DeviceId, DeviceInfo, KernelStats, PoolStats, ledger::KindMemory};

use super::memory::{PlaceUse, memory};
use crate::app::App;

/// Version of the daemon.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Statistics of the daemon. Counts are since the start.
pub(crate) struct DaemonStats {
    pub(crate) uptime: Duration,
    pub(crate) lanes: Vec<LaneStats>,
    pub(crate) devices: Vec<DeviceStatus>,
    /// Sorted by name and device.
    pub(crate) kernels: Vec<KernelTotals>,
    pub(crate) admission: AdmissionStats,
    /// True while no new work is accepted.
    pub(crate) draining: bool,
    pub(crate) sample_time: SystemTime,
    pub(crate) memory: Vec<PlaceUse>,
    pub(crate) cpu_fallbacks: Vec<CpuFallback>,
}

/// A device, and the reason if it is lost.
pub(crate) struct DeviceStatus {
    pub(crate) info: DeviceInfo,
    /// `None` for the CPU.
    pub(crate) pool: Option<PoolStats>,
    pub(crate) lost: Option<String>,
}

/// Launches of a kernel on a device.
pub(crate) struct KernelTotals {
    pub(crate) name: &'static str,
    pub(crate) device: DeviceId,
    pub(crate) calls: u64,
    pub(crate) total: Duration,
    pub(crate) moved_bytes: u64,
}

impl DaemonStats {
    pub(super) fn now(app: &App) -> Self {
        let engine = app.engine.stats();
        Self {
            uptime: app.started.elapsed(),
            lanes: engine.lanes,
            devices: devices(app),
            kernels: kernels(app),
            admission: engine.admission,
            draining: engine.draining || !app.health.now().ready,
            sample_time: SystemTime::now(),
            memory: memory(app),
            cpu_fallbacks: app.engine.cpu_fallbacks(),
        }
    }

    /// Number of requests that admission refused.
    pub(crate) fn refused_count(&self) -> u64 {
        let AdmissionStats { refused_items, refused_bytes, refused_time, .. } = self.admission;
        refused_items + refused_bytes + refused_time
    }
}

impl DeviceStatus {
    fn new(device: &Device, lost: Option<String>) -> Self {
        Self { info: device.info().clone(), pool: device.pool_stats(), lost }
    }

    /// The CUDA compute capability, as in `9.0`.
    pub(crate) fn compute_capability(&self) -> Option<String> {
        self.info.compute_capability.map(|(major, minor)| format!("{major}.{minor}"))
    }
}

pub(super) fn devices(app: &App) -> Vec<DeviceStatus> {
    app.engine.devices().into_iter().map(|(device, lost)| DeviceStatus::new(&device, lost)).collect()
}

/// The launches of each kernel on each device, sorted by name and device.
pub(crate) fn kernels(app: &App) -> Vec<KernelTotals> {
    let devices = app.engine.devices();
    let stats =
        devices.iter().flat_map(|(device, _)| device.kernel_stats().into_iter().map(|stats| (device.id(), stats)));
    total(stats)
}

/// Adds up the kernels of one name and device: several modules may have one.
fn total(stats: impl Iterator<Item = (DeviceId, KernelStats)>) -> Vec<KernelTotals> {
    let mut by_name = BTreeMap::new();
    for (device, KernelStats { name, calls, nanos, moved_bytes }) in stats {
        let none = KernelTotals { name, device, calls: 0, total: Duration::ZERO, moved_bytes: 0 };
        let totals = by_name.entry((name, device)).or_insert(none);
        totals.calls += calls;
        totals.total += Duration::from_nanos(nanos);
        totals.moved_bytes = totals.moved_bytes.saturating_add(moved_bytes);
    }
    by_name.into_values().collect()
}

/// Number of requests of a lane that were cancelled, or expired.
pub(crate) fn cancelled_count(counts: &LaneCounts) -> u64 {
    let &LaneCounts { cancelled_queued, cancelled_running, expired_queued, expired_running, .. } = counts;
    cancelled_queued + cancelled_running + expired_queued + expired_running
}

/// The limit of a kind of memory; 0 if it has none of its own.
pub(crate) fn limit_bytes(memory: &KindMemory) -> u64 {
    if memory.cap == u64::MAX { 0 } else { memory.cap }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_one_name_and_device_are_listed_once_and_sorted() {
        let stats = |name, calls| KernelStats { name, calls, nanos: 1000 * calls, moved_bytes: calls };
        let each = [
            (DeviceId::Cuda(0), stats("scan", 1)),
            (DeviceId::Cpu, stats("scan", 2)),
            (DeviceId::Cuda(0), stats("pool", 4)),
            (DeviceId::Cuda(0), stats("scan", 8)),
        ];
        let totals = total(each.into_iter());
        let found: Vec<_> = totals.iter().map(|kernel| (kernel.name, kernel.device, kernel.calls)).collect();
        assert_eq!(found, [("pool", DeviceId::Cuda(0), 4), ("scan", DeviceId::Cuda(0), 9), ("scan", DeviceId::Cpu, 2)]);
        assert_eq!((totals[1].total, totals[1].moved_bytes), (Duration::from_micros(9), 9));
    }
}
