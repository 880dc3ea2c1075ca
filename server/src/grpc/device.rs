//! `DeviceService`: devices, statistics, drain.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use accelerd_engine::{CpuFallback, Distribution, LaneStats, SubmitError};
use accelerd_kernels::{
    Device, DeviceId, KernelStats,
    ledger::{KindMemory, PlaceMemory},
};
use accelerd_proto::v1 as pb;
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};
use tonic::{Request, Response, Status};

use crate::{
    app::App,
    auth::{caller::Caller, role::Role},
    error::ApiError,
    grpc::{call::Responses, handlers::DeviceService},
    sandbox::Sandboxes,
};

/// Permitted intervals of Watch.
const INTERVALS: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

/// Interval of Watch if the request does not set one.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum timeout of Drain, as of the setting.
const MAX_DRAIN_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// The service.
#[derive(Debug)]
pub struct Devices(Arc<App>);

impl Devices {
    pub(super) fn new(app: &Arc<App>) -> Self {
        Self(Arc::clone(app))
    }
}

impl DeviceService for Devices {
    async fn list_devices(
        &self,
        _: Request<pb::ListDevicesRequest>,
    ) -> Result<Response<pb::ListDevicesResponse>, Status> {
        let fallback_reason = self.0.fallback.clone().unwrap_or_default();
        Ok(Response::new(pb::ListDevicesResponse { devices: devices(&self.0), fallback_reason }))
    }

    async fn get_stats(&self, _: Request<pb::GetStatsRequest>) -> Result<Response<pb::GetStatsResponse>, Status> {
        Ok(Response::new(stats(&self.0)))
    }

    async fn watch(
        &self,
        request: Request<pb::WatchRequest>,
    ) -> Result<Response<Responses<pb::WatchResponse>>, Status> {
        let requested = duration("interval", request.into_inner().interval)?.unwrap_or(DEFAULT_INTERVAL);
        if !INTERVALS.contains(&requested) {
            let reason = format!("expected {:?} to {:?}, got {requested:?}", INTERVALS.start(), INTERVALS.end());
            return Err(ApiError::invalid("interval", reason).into());
        }
        let mut ticks = interval(requested);
        // A slow reader gets the newest sample, not the missed ones.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let app = Arc::clone(&self.0);
        let samples = stream::unfold((ticks, app), |(mut ticks, app)| async move {
            ticks.tick().await;
            let sample = pb::WatchResponse { stats: Some(stats(&app)) };
            Some((Ok(sample), (ticks, app)))
        });
        Ok(Response::new(samples.take_until(self.0.closing.clone().cancelled_owned()).boxed()))
    }

    async fn export_report(
        &self,
        request: Request<pb::ExportReportRequest>,
    ) -> Result<Response<pb::ExportReportResponse>, Status> {
        let caller = Caller::of(request.extensions());
        Ok(Response::new(pb::ExportReportResponse { json: report(&self.0, &caller).to_string() }))
    }

    async fn drain(&self, request: Request<pb::DrainRequest>) -> Result<Response<pb::DrainResponse>, Status> {
        let drain = &self.0.config.drain;
        check_drain_allowed(drain.allow_rpc)?;
        let caller = Caller::of(request.extensions());
        let timeout = duration("timeout", request.into_inner().timeout)?.unwrap_or(drain.timeout);
        if timeout > MAX_DRAIN_TIMEOUT {
            return Err(ApiError::invalid(
                "timeout",
                format!("expected at most {MAX_DRAIN_TIMEOUT:?}, got {timeout:?}"),
            )
            .into());
        }
        tracing::warn!(?timeout, "draining at a client's request");
        caller.record_change("");
        let ticket = self.0.health.begin_drain();
        let app = Arc::clone(&self.0);
        // Continues if the client cancels the call.
        let draining = self.0.offload.handle().spawn(async move {
            let (drained, in_sandbox) = tokio::join!(app.engine.drain(timeout), app.drain_sandboxes(timeout));
            let grace = app.config.drain.liveness_grace;
            if grace.is_zero() {
                app.health.end_drain(ticket);
            } else {
                let (health, closing) = (app.health.clone(), app.closing.clone());
                tokio::spawn(async move {
                    if closing.run_until_cancelled(tokio::time::sleep(grace)).await.is_some() {
                        health.end_drain(ticket);
                    }
                });
            }
            pb::DrainResponse {
                complete: drained.complete && in_sandbox == 0,
                remaining_count: drained.remaining + in_sandbox,
            }
        });
        Ok(Response::new(draining.await.map_err(|error| ApiError::Unavailable(error.to_string()))?))
    }

    async fn resume(&self, request: Request<pb::ResumeRequest>) -> Result<Response<pb::ResumeResponse>, Status> {
        check_drain_allowed(self.0.config.drain.allow_rpc)?;
        let resumed = self.0.health.resume().ok_or(ApiError::Submit(SubmitError::Draining))?;
        if resumed {
            self.0.engine.resume();
            self.0.all_sandboxes().for_each(Sandboxes::resume);
            tracing::warn!("resumed at a client's request");
            Caller::of(request.extensions()).record_change("");
        }
        Ok(Response::new(pb::ResumeResponse { resumed }))
    }
}

/// Checks `drain.allow_rpc`: a drain affects all clients.
fn check_drain_allowed(allowed: bool) -> Result<(), ApiError> {
    let reason = "clients may not drain or resume this daemon: the setting drain.allow_rpc is false";
    if allowed { Ok(()) } else { Err(ApiError::Denied(reason.to_owned())) }
}

/// A duration in a request; negative ones are invalid.
fn duration(field: &str, requested: Option<prost_types::Duration>) -> Result<Option<Duration>, ApiError> {
    let Some(requested) = requested else { return Ok(None) };
    let converted = Duration::try_from(requested);
    converted.map(Some).map_err(|error| ApiError::invalid(field, error.to_string()))
}

fn stats(app: &App) -> pb::GetStatsResponse {
    let engine = app.engine.stats();
    let admission = engine.admission;
    pb::GetStatsResponse {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime: proto_duration(app.started.elapsed()),
        lanes: engine.lanes.iter().map(lane).collect(),
        devices: devices(app),
        kernels: kernels(app),
        admission: Some(pb::AdmissionStats {
            item_count: admission.items,
            item_limit: admission.max_items,
            size_bytes: admission.bytes,
            limit_bytes: admission.max_bytes,
            refused_count: admission.refused_items + admission.refused_bytes + admission.refused_time,
        }),
        draining: engine.draining || !app.health.now().ready,
        sample_time: Some(SystemTime::now().into()),
        memory: app.ledger.snapshot().iter().map(memory_place).collect(),
        cpu_fallbacks: app.engine.cpu_fallbacks().iter().map(cpu_fallback).collect(),
    }
}

fn cpu_fallback(fallback: &CpuFallback) -> pb::CpuFallback {
    let &CpuFallback { lane, device, requests, items, bytes } = fallback;
    pb::CpuFallback {
        lane: lane.to_owned(),
        device: device.to_string(),
        reason: CpuFallback::REASON.to_owned(),
        request_count: requests,
        item_count: items,
        size_bytes: bytes,
    }
}

fn memory_place(memory: &PlaceMemory) -> pb::MemoryPlace {
    let account = |kind: &KindMemory| pb::MemoryAccount {
        kind: kind.kind.name().to_owned(),
        held_bytes: kind.held,
        limit_bytes: if kind.cap == u64::MAX { 0 } else { kind.cap },
        refused_count: kind.refused,
        evicted_bytes: kind.evicted,
    };
    pb::MemoryPlace {
        name: memory.place.to_string(),
        held_bytes: memory.held,
        limit_bytes: memory.limit,
        accounts: memory.kinds.iter().map(account).collect(),
    }
}

fn lane(lane: &LaneStats) -> pb::LaneStats {
    let counts = lane.counts;
    let cancelled = [counts.cancelled_queued, counts.cancelled_running, counts.expired_queued, counts.expired_running];
    pb::LaneStats {
        name: lane.name.to_owned(),
        queued_count: lane.queued_requests,
        queued_bytes: lane.queued_bytes,
        batch_count: counts.batches,
        request_count: counts.requests,
        item_count: counts.items,
        failed_count: counts.failures,
        cancelled_count: cancelled.into_iter().sum(),
        wait: Some(latency(lane.wait)),
        execute: Some(latency(lane.execute)),
        mean_batch_requests: lane.mean_batch_requests,
    }
}

fn latency(times: Distribution) -> pb::LatencyStats {
    let Distribution { mean, p50, p99, max, .. } = times;
    pb::LatencyStats {
        mean: proto_duration(mean),
        p50: proto_duration(p50),
        p99: proto_duration(p99),
        max: proto_duration(max),
    }
}

/// A protobuf duration; `None` on overflow.
fn proto_duration(time: Duration) -> Option<prost_types::Duration> {
    time.try_into().ok()
}

fn devices(app: &App) -> Vec<pb::Device> {
    app.engine.devices().iter().map(|(device, lost)| describe(device, lost.is_some())).collect()
}

fn describe(device: &Device, lost: bool) -> pb::Device {
    let info = device.info();
    let kind = match info.id {
        DeviceId::Cpu => pb::DeviceKind::Cpu,
        DeviceId::Cuda(_) => pb::DeviceKind::Cuda,
    };
    let state = if lost { pb::DeviceState::Lost } else { pb::DeviceState::Ready };
    let capability = info.compute_capability.map(|(major, minor)| format!("{major}.{minor}"));
    let pool = device.pool_stats().map(|pool| pb::MemoryPool {
        used_bytes: pool.used_bytes,
        reserved_bytes: pool.reserved_bytes,
        peak_bytes: pool.peak_bytes,
        limit_bytes: pool.limit_bytes,
        allocation_count: pool.allocations,
    });
    pb::Device {
        name: info.id.to_string(),
        kind: kind.into(),
        product: info.product.clone(),
        compute_capability: capability.unwrap_or_default(),
        state: state.into(),
        compute_unit_count: info.compute_units,
        memory_bytes: info.memory_bytes,
        pool,
    }
}

/// Kernel statistics of all devices, sorted by name and device.
fn kernels(app: &App) -> Vec<pb::KernelStats> {
    let mut by_name = BTreeMap::new();
    for (device, _) in app.engine.devices() {
        for KernelStats { name, calls, nanos, moved_bytes } in device.kernel_stats() {
            let device = device.id();
            let total = proto_duration(Duration::from_nanos(nanos));
            let stats = pb::KernelStats {
                name: name.to_owned(),
                call_count: calls,
                total,
                device: device.to_string(),
                moved_bytes,
            };
            by_name.insert((name, device), stats);
        }
    }
    by_name.into_values().collect()
}

/// A full report as JSON: the models that the caller may use, and the settings if it is an administrator.
fn report(app: &App, caller: &Caller) -> Value {
    let stats = stats(app);
    let models = app.embedder.models();
    let models = models.iter().filter(|model| caller.sees_model(model.names()));
    let is_admin = caller.role() == Some(Role::Admin);
    let settings = is_admin.then(|| serde_json::to_value(app.config.redacted()).unwrap_or_default());
    let admission = stats.admission.unwrap_or_default();
    json!({
        "version": stats.version,
        "uptime_seconds": app.started.elapsed().as_secs_f64(),
        "draining": stats.draining,
        "fallback_reason": app.fallback,
        "devices": app.engine.devices().iter().map(|(device, lost)| device_json(device, lost.as_deref())).collect::<Vec<_>>(),
        "lanes": app.engine.stats().lanes.iter().map(lane_json).collect::<Vec<_>>(),
        "kernels": stats.kernels.iter().map(kernel_json).collect::<Vec<_>>(),
        "admission": {
            "items": admission.item_count,
            "max_items": admission.item_limit,
            "bytes": admission.size_bytes,
            "max_bytes": admission.limit_bytes,
            "refused": admission.refused_count,
            "message_bytes": app.transport_memory.used(),
            "refused_messages": app.transport_memory.refused(),
        },
        "memory": stats.memory.iter().map(memory_json).collect::<Vec<_>>(),
        "cpu_fallbacks": stats.cpu_fallbacks.iter().map(fallback_json).collect::<Vec<_>>(),
        "requests_in_flight": app.metrics.in_flight(),
        "models": models.map(|model| model.name().to_owned()).collect::<Vec<_>>(),
        "settings": settings,
    })
}

fn memory_json(memory: &pb::MemoryPlace) -> Value {
    let account = |account: &pb::MemoryAccount| {
        json!({
            "kind": account.kind,
            "held_bytes": account.held_bytes,
            "limit_bytes": account.limit_bytes,
            "refused": account.refused_count,
            "evicted_bytes": account.evicted_bytes,
        })
    };
    json!({
        "place": memory.name,
        "held_bytes": memory.held_bytes,
        "limit_bytes": memory.limit_bytes,
        "accounts": memory.accounts.iter().map(account).collect::<Vec<_>>(),
    })
}

fn fallback_json(fallback: &pb::CpuFallback) -> Value {
    json!({
        "lane": fallback.lane,
        "device": fallback.device,
        "reason": fallback.reason,
        "requests": fallback.request_count,
        "items": fallback.item_count,
        "bytes": fallback.size_bytes,
    })
}

fn device_json(device: &Device, lost: Option<&str>) -> Value {
    let info = device.info();
    let pool = device.pool_stats().map(|pool| {
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
        "compute_capability": info.compute_capability.map(|(major, minor)| format!("{major}.{minor}")),
        "compute_units": info.compute_units,
        "memory_bytes": info.memory_bytes,
        "lost": lost,
        "pool": pool,
    })
}

fn lane_json(lane: &LaneStats) -> Value {
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

fn kernel_json(kernel: &pb::KernelStats) -> Value {
    let total = kernel.total.and_then(|total| Duration::try_from(total).ok()).unwrap_or_default();
    json!({
        "name": kernel.name,
        "device": kernel.device,
        "calls": kernel.call_count,
        "total_seconds": total.as_secs_f64(),
        "moved_bytes": kernel.moved_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_duration_is_rejected_by_name() {
        let negative = prost_types::Duration { seconds: -1, nanos: 0 };
        assert!(
            matches!(duration("interval", Some(negative)), Err(ApiError::Invalid { field, .. }) if field == "interval")
        );
        let positive = prost_types::Duration { seconds: 1, nanos: 500_000_000 };
        assert_eq!(duration("interval", Some(positive)).expect("valid"), Some(Duration::from_millis(1500)));
        assert_eq!(duration("interval", None).expect("valid"), None);
    }
}
