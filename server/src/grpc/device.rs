//! `DeviceService`: devices, statistics, drain.

use std::{sync::Arc, time::Duration};

use accelerd_engine::{CpuFallback, Distribution, Drained, LaneStats};
use accelerd_kernels::{DeviceId, PoolStats, ledger::KindMemory};
use accelerd_proto::v1 as pb;
use futures::{StreamExt, future::ready, stream};
use tonic::{Request, Response, Status};

use crate::{
    app::App,
    auth::caller::Caller,
    devices::{
        DaemonService,
        memory::PlaceUse,
        stats::{DaemonStats, DeviceStatus, KernelTotals, VERSION, cancelled_count, limit_bytes},
    },
    grpc::{call::Responses, convert, handlers::DeviceService},
    status,
};

/// The service.
#[derive(Debug)]
pub struct Devices(DaemonService);

impl Devices {
    pub(super) fn new(app: &Arc<App>) -> Self {
        Self(DaemonService::new(app))
    }
}

impl DeviceService for Devices {
    async fn list_devices(
        &self,
        _: Request<pb::ListDevicesRequest>,
    ) -> Result<Response<pb::ListDevicesResponse>, Status> {
        let fallback_reason = self.0.fallback_reason().unwrap_or_default().to_owned();
        let devices = self.0.devices().into_iter().map(device).collect();
        Ok(Response::new(pb::ListDevicesResponse { devices, fallback_reason }))
    }

    async fn get_stats(&self, _: Request<pb::GetStatsRequest>) -> Result<Response<pb::GetStatsResponse>, Status> {
        Ok(Response::new(stats(self.0.stats())))
    }

    async fn watch(
        &self,
        request: Request<pb::WatchRequest>,
    ) -> Result<Response<Responses<pb::WatchResponse>>, Status> {
        let samples = self.0.watch(request.into_inner().interval.map(convert::time))?;
        let response = |sample| Ok(pb::WatchResponse { stats: Some(stats(sample)) });
        let draining = stream::once(ready(Err(status::draining())));
        Ok(Response::new(samples.map(response).chain(draining).boxed()))
    }

    async fn export_report(
        &self,
        request: Request<pb::ExportReportRequest>,
    ) -> Result<Response<pb::ExportReportResponse>, Status> {
        let caller = Caller::of(request.extensions());
        Ok(Response::new(pb::ExportReportResponse { json: self.0.report(&caller).to_string() }))
    }

    async fn drain(&self, request: Request<pb::DrainRequest>) -> Result<Response<pb::DrainResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let timeout = request.into_inner().timeout.map(convert::time);
        let Drained { complete, remaining } = self.0.drain(&caller, timeout).await?;
        Ok(Response::new(pb::DrainResponse { complete, remaining_count: remaining }))
    }

    async fn resume(&self, request: Request<pb::ResumeRequest>) -> Result<Response<pb::ResumeResponse>, Status> {
        let resumed = self.0.resume(&Caller::of(request.extensions()))?;
        Ok(Response::new(pb::ResumeResponse { resumed }))
    }
}

fn stats(stats: DaemonStats) -> pb::GetStatsResponse {
    let admission = stats.admission;
    let refused_count = stats.refused_count();
    pb::GetStatsResponse {
        version: VERSION.to_owned(),
        uptime: proto_duration(stats.uptime),
        lanes: stats.lanes.iter().map(lane).collect(),
        devices: stats.devices.into_iter().map(device).collect(),
        kernels: stats.kernels.iter().map(kernel).collect(),
        admission: Some(pb::AdmissionStats {
            item_count: admission.items,
            item_limit: admission.max_items,
            size_bytes: admission.bytes,
            limit_bytes: admission.max_bytes,
            refused_count,
        }),
        draining: stats.draining,
        sample_time: Some(stats.sample_time.into()),
        memory: stats.memory.iter().map(memory_place).collect(),
        cpu_fallbacks: stats.cpu_fallbacks.iter().map(cpu_fallback).collect(),
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

fn memory_place(memory: &PlaceUse) -> pb::MemoryPlace {
    let account = |kind: &KindMemory| pb::MemoryAccount {
        kind: kind.kind.name().to_owned(),
        held_bytes: kind.held,
        limit_bytes: limit_bytes(kind),
        refused_count: kind.refused,
        evicted_bytes: kind.evicted,
        used_bytes: memory.used_of(kind),
    };
    let reserved = &memory.reserved;
    pb::MemoryPlace {
        name: reserved.place.to_string(),
        held_bytes: reserved.held,
        limit_bytes: reserved.limit,
        accounts: reserved.kinds.iter().map(account).collect(),
        used_bytes: memory.used(),
        resident_bytes: memory.resident,
    }
}

fn lane(lane: &LaneStats) -> pb::LaneStats {
    let counts = lane.counts;
    pb::LaneStats {
        name: lane.name.to_owned(),
        queued_count: lane.queued_requests,
        queued_bytes: lane.queued_bytes,
        batch_count: counts.batches,
        request_count: counts.requests,
        item_count: counts.items,
        failed_count: counts.failures,
        cancelled_count: cancelled_count(&counts),
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

fn device(device: DeviceStatus) -> pb::Device {
    let compute_capability = device.compute_capability().unwrap_or_default();
    let DeviceStatus { info, pool, lost } = device;
    let kind = match info.id {
        DeviceId::Cpu => pb::DeviceKind::Cpu,
        DeviceId::Cuda(_) => pb::DeviceKind::Cuda,
    };
    let state = if lost.is_some() { pb::DeviceState::Lost } else { pb::DeviceState::Ready };
    pb::Device {
        name: info.id.to_string(),
        kind: kind.into(),
        product: info.product,
        compute_capability,
        state: state.into(),
        compute_unit_count: info.compute_units,
        memory_bytes: info.memory_bytes,
        pool: pool.map(memory_pool),
    }
}

fn memory_pool(pool: PoolStats) -> pb::MemoryPool {
    pb::MemoryPool {
        used_bytes: pool.used_bytes,
        reserved_bytes: pool.reserved_bytes,
        peak_bytes: pool.peak_bytes,
        limit_bytes: pool.limit_bytes,
        allocation_count: pool.allocations,
    }
}

fn kernel(kernel: &KernelTotals) -> pb::KernelStats {
    pb::KernelStats {
        name: kernel.name.to_owned(),
        call_count: kernel.calls,
        total: proto_duration(kernel.total),
        device: kernel.device.to_string(),
        moved_bytes: kernel.moved_bytes,
    }
}
