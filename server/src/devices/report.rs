//! A full report as JSON: the models that the caller may use, and the settings if it is an administrator.

use std::time::Duration;

use accelerd_engine::{CpuFallback, Distribution, LaneStats};
use accelerd_kernels::ledger::KindMemory;
use serde_json::{Value, json};

use super::{
    memory::PlaceUse,
    stats::{DaemonStats, DeviceStatus, KernelTotals, VERSION, limit_bytes},
};
use crate::{
    app::App,
    auth::{caller::Caller, role::Role},
};

pub(super) fn report(app: &App, caller: &Caller) -> Value {
    let stats = DaemonStats::now(app);
    let models = app.embedder.models();
    let models = models.iter().filter(|model| caller.sees_model(model.names()));
    let is_admin = caller.role() == Some(Role::Admin);
    let settings = is_admin.then(|| serde_json::to_value(app.config.redacted()).unwrap_or_default());
    let admission = stats.admission;
    json!({
        "version": VERSION,
        "uptime_seconds": stats.uptime.as_secs_f64(),
        "draining": stats.draining,
        "fallback_reason": app.fallback,
        "devices": stats.devices.iter().map(device).collect::<Vec<_>>(),
        "lanes": stats.lanes.iter().map(lane).collect::<Vec<_>>(),
        "kernels": stats.kernels.iter().map(kernel).collect::<Vec<_>>(),
        "admission": {
            "items": admission.items,
            "max_items": admission.max_items,
            "bytes": admission.bytes,
            "max_bytes": admission.max_bytes,
            "refused": stats.refused_count(),
            "message_bytes": app.transport_memory.used(),
            "refused_messages": app.transport_memory.refused(),
        },
        "memory": stats.memory.iter().map(memory).collect::<Vec<_>>(),
        "cpu_fallbacks": stats.cpu_fallbacks.iter().map(cpu_fallback).collect::<Vec<_>>(),
        "requests_in_flight": app.metrics.in_flight(),
        "models": models.map(|model| model.name().to_owned()).collect::<Vec<_>>(),
        "settings": settings,
    })
}

fn memory(memory: &PlaceUse) -> Value {
    let account = |account: &KindMemory| {
        json!({
            "kind": account.kind.name(),
            "held_bytes": account.held,
            "used_bytes": memory.used_of(account),
            "limit_bytes": limit_bytes(account),
            "refused": account.refused,
            "evicted_bytes": account.evicted,
        })
    };
    let reserved = &memory.reserved;
    json!({
        "place": reserved.place.to_string(),
        "held_bytes": reserved.held,
        "used_bytes": memory.used(),
        "resident_bytes": memory.resident,
        "limit_bytes": reserved.limit,
        "accounts": reserved.kinds.iter().map(account).collect::<Vec<_>>(),
    })
}

fn cpu_fallback(fallback: &CpuFallback) -> Value {
    json!({
        "lane": fallback.lane,
        "device": fallback.device.to_string(),
        "reason": CpuFallback::REASON,
        "requests": fallback.requests,
        "items": fallback.items,
        "bytes": fallback.bytes,
    })
}

fn device(device: &DeviceStatus) -> Value {
    let info = &device.info;
    let pool = device.pool.map(|pool| {
        json!({
            "used_bytes": pool.used_bytes,
            "reserved_bytes": pool.reserved_bytes,
            "peak_bytes": pool.peak_bytes,
            "limit_bytes": pool.limit_bytes,
            "allocations": pool.allocations,
        })
    });
    json!({
        "name": info.id.to_string(),
        "product": info.product,
        "compute_capability": device.compute_capability(),
        "compute_units": info.compute_units,
        "memory_bytes": info.memory_bytes,
        "lost": device.lost,
        "pool": pool,
    })
}

fn lane(lane: &LaneStats) -> Value {
    let counts = lane.counts;
    let times = |times: Distribution| {
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        json!({ "mean": micros(times.mean), "p50": micros(times.p50), "p99": micros(times.p99), "max": micros(times.max) })
    };
    json!({
        "name": lane.name,
        "queued_requests": lane.queued_requests,
        "queued_items": lane.queued_items,
        "queued_bytes": lane.queued_bytes,
        "running_batches": lane.running_batches,
        "batches": counts.batches,
        "requests": counts.requests,
        "items": counts.items,
        "failures": counts.failures,
        "splits": counts.splits,
        "rerouted": counts.rerouted,
        "cancelled_queued": counts.cancelled_queued,
        "cancelled_running": counts.cancelled_running,
        "expired_queued": counts.expired_queued,
        "expired_running": counts.expired_running,
        "wait_micros": times(lane.wait),
        "execute_micros": times(lane.execute),
        "mean_batch_requests": lane.mean_batch_requests,
        "mean_fill_ratio": lane.mean_fill_ratio,
    })
}

fn kernel(kernel: &KernelTotals) -> Value {
    json!({
        "name": kernel.name,
        "device": kernel.device.to_string(),
        "calls": kernel.calls,
        "total_seconds": kernel.total.as_secs_f64(),
        "moved_bytes": kernel.moved_bytes,
    })
}
