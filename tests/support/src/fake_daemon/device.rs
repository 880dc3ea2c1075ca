//! One toy device, and statistics that grow with the number of calls.

use accelerd_proto::v1::{self as proto, device_service_server::DeviceService};
use tonic::{Request, Response};

use super::{FakeDaemon, Replies, Reply};

/// Response of ExportReport.
pub const REPORT: &str = r#"{"version": "0.1.0", "uptime_seconds": 3700.0,
    "devices": [{"name": "cpu", "product": "Toy CPU", "compute_units": 2, "memory_bytes": 1024, "lost": null}],
    "kernels": [{"name": "pool_rows", "device": "cpu", "calls": 7, "total_seconds": 0.021, "moved_bytes": 10500000}],
    "lanes": [{"name": "embed", "requests": 3, "wait_micros": {"p50": 250}}],
    "memory": [{"place": "host", "held_bytes": 2048, "used_bytes": 1024, "limit_bytes": 4096, "accounts": []}]}"#;

#[tonic::async_trait]
impl DeviceService for FakeDaemon {
    async fn list_devices(&self, _request: Request<proto::ListDevicesRequest>) -> Reply<proto::ListDevicesResponse> {
        self.enter("ListDevices").await?;
        let fallback_reason = "no driver: libcuda.so.1 was not found".into();
        Ok(Response::new(proto::ListDevicesResponse { devices: vec![toy_device()], fallback_reason }))
    }

    async fn get_stats(&self, _request: Request<proto::GetStatsRequest>) -> Reply<proto::GetStatsResponse> {
        self.enter("GetStats").await?;
        let calls = self.state().calls.len() as u64;
        Ok(Response::new(stats(calls)))
    }

    /// Sends two samples.
    async fn watch(&self, _request: Request<proto::WatchRequest>) -> Reply<Replies<proto::WatchResponse>> {
        self.enter("Watch").await?;
        let samples = [1, 2].map(|n| Ok(proto::WatchResponse { stats: Some(stats(n)) }));
        Ok(Response::new(Box::pin(futures::stream::iter(samples))))
    }

    async fn export_report(&self, _request: Request<proto::ExportReportRequest>) -> Reply<proto::ExportReportResponse> {
        self.enter("ExportReport").await?;
        Ok(Response::new(proto::ExportReportResponse { json: REPORT.into() }))
    }

    async fn drain(&self, _request: Request<proto::DrainRequest>) -> Reply<proto::DrainResponse> {
        self.enter("Drain").await?;
        Ok(Response::new(proto::DrainResponse { complete: true, remaining_count: 0 }))
    }

    async fn resume(&self, _request: Request<proto::ResumeRequest>) -> Reply<proto::ResumeResponse> {
        self.enter("Resume").await?;
        Ok(Response::new(proto::ResumeResponse { resumed: true }))
    }
}

fn stats(batch_count: u64) -> proto::GetStatsResponse {
    let millis = |ms| Some(prost_types::Duration { seconds: 0, nanos: ms * 1_000_000 });
    let latency = proto::LatencyStats { mean: millis(1), p50: millis(1), p99: millis(4), max: millis(9) };
    let lane = proto::LaneStats {
        name: "embed".into(),
        batch_count,
        request_count: batch_count * 3,
        item_count: batch_count * 12,
        wait: Some(latency),
        execute: Some(latency),
        mean_batch_requests: 3.0,
        ..Default::default()
    };
    let kernel = proto::KernelStats {
        name: "pool_rows".into(),
        call_count: 7,
        total: millis(21),
        device: "cpu".into(),
        moved_bytes: 42_000_000,
    };
    proto::GetStatsResponse {
        version: "0.1.0".into(),
        uptime: Some(prost_types::Duration { seconds: 3700, nanos: 0 }),
        lanes: vec![lane],
        devices: vec![toy_device()],
        kernels: vec![kernel],
        admission: Some(proto::AdmissionStats { item_limit: 100, limit_bytes: 1 << 30, ..Default::default() }),
        draining: false,
        sample_time: None,
        memory: vec![proto::MemoryPlace {
            name: "host".to_owned(),
            held_bytes: 3 << 20,
            limit_bytes: 1 << 30,
            used_bytes: 3 << 20,
            resident_bytes: 5 << 20,
            accounts: vec![proto::MemoryAccount {
                kind: "collections".to_owned(),
                held_bytes: 3 << 20,
                limit_bytes: 0,
                refused_count: 1,
                evicted_bytes: 0,
                used_bytes: 3 << 20,
            }],
        }],
        cpu_fallbacks: vec![proto::CpuFallback {
            lane: "search".to_owned(),
            device: "cuda:0".to_owned(),
            reason: "out_of_memory".to_owned(),
            request_count: 3,
            item_count: 5,
            size_bytes: 7 << 10,
        }],
    }
}

fn toy_device() -> proto::Device {
    proto::Device {
        name: "cpu".into(),
        kind: proto::DeviceKind::Cpu.into(),
        product: "Toy CPU".into(),
        state: proto::DeviceState::Ready.into(),
        compute_unit_count: 2,
        memory_bytes: 8 << 30,
        ..Default::default()
    }
}
