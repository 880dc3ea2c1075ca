//! Shows devices, queues, batches and kernels of a daemon, once or repeatedly.

use std::{collections::BTreeMap, time::Duration};

use accelerd_client::{
    Client,
    proto::{self, DeviceKind, DeviceState},
};
use clap::Args;
use futures::TryStreamExt;
use serde::Serialize;

use crate::{
    args::duration,
    error::Result,
    format,
    output::{self, Output, Report},
    renderer::{Renderer, Style, Table},
};

/// Show devices, queues, batches and kernel times.
#[derive(Debug, Args)]
pub struct StatsArgs {
    /// Refresh repeatedly, with rates, until interrupted.
    #[arg(long, short)]
    watch: bool,
    /// Refresh interval.
    #[arg(long, default_value = "1s", value_parser = duration, value_name = "TIME", requires = "watch")]
    interval: Duration,
}

#[derive(Serialize)]
struct Stats {
    version: String,
    uptime_seconds: f64,
    draining: bool,
    devices: Vec<Device>,
    lanes: Vec<Lane>,
    kernels: Vec<Kernel>,
    admission: Admission,
    memory: Vec<MemoryPlace>,
    cpu_fallbacks: Vec<CpuFallback>,
}

/// Requests that the CPU computed because a GPU could not.
#[derive(Serialize)]
struct CpuFallback {
    lane: String,
    device: String,
    reason: String,
    requests: u64,
    items: u64,
    bytes: u64,
}

/// Memory of the host or of a GPU.
#[derive(Serialize)]
struct MemoryPlace {
    place: String,
    /// Includes what is reserved in advance.
    held_bytes: u64,
    used_bytes: u64,
    /// Of the process; 0 for a GPU.
    resident_bytes: u64,
    limit_bytes: u64,
    accounts: Vec<MemoryAccount>,
}

#[derive(Serialize)]
struct MemoryAccount {
    kind: String,
    held_bytes: u64,
    used_bytes: u64,
    /// 0 means that only the place has a limit.
    limit_bytes: u64,
    refused: u64,
    evicted_bytes: u64,
}

#[derive(Serialize)]
struct Device {
    name: String,
    kind: &'static str,
    product: String,
    state: &'static str,
    compute_units: u32,
    memory_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<Pool>,
}

#[derive(Serialize)]
struct Pool {
    used_bytes: u64,
    reserved_bytes: u64,
    peak_bytes: u64,
    limit_bytes: u64,
    allocations: u64,
}

#[derive(Serialize)]
struct Lane {
    name: String,
    queued: u64,
    queued_bytes: u64,
    requests: u64,
    items: u64,
    batches: u64,
    requests_per_batch: f64,
    failed: u64,
    cancelled: u64,
    wait_ms: Latency,
    execute_ms: Latency,
    /// Rates since the previous sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    requests_per_second: Option<f64>,
}

/// Latencies in milliseconds.
#[derive(Serialize)]
struct Latency {
    mean: f64,
    p50: f64,
    p99: f64,
    max: f64,
}

#[derive(Serialize)]
struct Kernel {
    name: String,
    device: String,
    calls: u64,
    total_ms: f64,
    /// 0 if the kernel does not count what it reads and writes.
    moved_bytes: u64,
}

#[derive(Serialize)]
struct Admission {
    items: u64,
    item_limit: u64,
    bytes: u64,
    byte_limit: u64,
    refused: u64,
}

/// Converts a duration to seconds; 0 if it is absent or negative.
pub fn seconds(duration: Option<&prost_types::Duration>) -> f64 {
    let seconds = duration.map(|d| d.seconds as f64 + f64::from(d.nanos) * 1e-9);
    seconds.unwrap_or(0.0).max(0.0)
}

fn latency(stats: Option<&proto::LatencyStats>) -> Latency {
    let ms = |pick: fn(&proto::LatencyStats) -> Option<&prost_types::Duration>| seconds(stats.and_then(pick)) * 1e3;
    Latency {
        mean: ms(|s| s.mean.as_ref()),
        p50: ms(|s| s.p50.as_ref()),
        p99: ms(|s| s.p99.as_ref()),
        max: ms(|s| s.max.as_ref()),
    }
}

impl From<proto::Device> for Device {
    fn from(device: proto::Device) -> Self {
        let pool = device.pool.map(|pool| Pool {
            used_bytes: pool.used_bytes,
            reserved_bytes: pool.reserved_bytes,
            peak_bytes: pool.peak_bytes,
            limit_bytes: pool.limit_bytes,
            allocations: pool.allocation_count,
        });
        Self {
            kind: match device.kind() {
                DeviceKind::Cpu => "cpu",
                DeviceKind::Cuda => "cuda",
                DeviceKind::Unspecified => "unknown",
            },
            state: match device.state() {
                DeviceState::Ready => "ready",
                DeviceState::Lost => "lost",
                DeviceState::Unspecified => "unknown",
            },
            name: device.name,
            product: device.product,
            compute_units: device.compute_unit_count,
            memory_bytes: device.memory_bytes,
            pool,
        }
    }
}

impl From<proto::LaneStats> for Lane {
    fn from(lane: proto::LaneStats) -> Self {
        Self {
            queued: lane.queued_count,
            queued_bytes: lane.queued_bytes,
            requests: lane.request_count,
            items: lane.item_count,
            batches: lane.batch_count,
            requests_per_batch: lane.mean_batch_requests,
            failed: lane.failed_count,
            cancelled: lane.cancelled_count,
            wait_ms: latency(lane.wait.as_ref()),
            execute_ms: latency(lane.execute.as_ref()),
            requests_per_second: None,
            name: lane.name,
        }
    }
}

impl From<proto::MemoryPlace> for MemoryPlace {
    fn from(memory: proto::MemoryPlace) -> Self {
        let account = |account: proto::MemoryAccount| MemoryAccount {
            kind: account.kind,
            held_bytes: account.held_bytes,
            used_bytes: account.used_bytes,
            limit_bytes: account.limit_bytes,
            refused: account.refused_count,
            evicted_bytes: account.evicted_bytes,
        };
        Self {
            place: memory.name,
            held_bytes: memory.held_bytes,
            used_bytes: memory.used_bytes,
            resident_bytes: memory.resident_bytes,
            limit_bytes: memory.limit_bytes,
            accounts: memory.accounts.into_iter().map(account).collect(),
        }
    }
}

impl From<proto::CpuFallback> for CpuFallback {
    fn from(fallback: proto::CpuFallback) -> Self {
        Self {
            lane: fallback.lane,
            device: fallback.device,
            reason: fallback.reason,
            requests: fallback.request_count,
            items: fallback.item_count,
            bytes: fallback.size_bytes,
        }
    }
}

impl From<proto::GetStatsResponse> for Stats {
    fn from(stats: proto::GetStatsResponse) -> Self {
        let admission = stats.admission.unwrap_or_default();
        let kernel = |kernel: proto::KernelStats| Kernel {
            calls: kernel.call_count,
            total_ms: seconds(kernel.total.as_ref()) * 1e3,
            moved_bytes: kernel.moved_bytes,
            name: kernel.name,
            device: kernel.device,
        };
        Self {
            uptime_seconds: seconds(stats.uptime.as_ref()),
            version: stats.version,
            draining: stats.draining,
            devices: stats.devices.into_iter().map(Into::into).collect(),
            lanes: stats.lanes.into_iter().map(Into::into).collect(),
            kernels: stats.kernels.into_iter().map(kernel).collect(),
            admission: Admission {
                items: admission.item_count,
                item_limit: admission.item_limit,
                bytes: admission.size_bytes,
                byte_limit: admission.limit_bytes,
                refused: admission.refused_count,
            },
            memory: stats.memory.into_iter().map(Into::into).collect(),
            cpu_fallbacks: stats.cpu_fallbacks.into_iter().map(Into::into).collect(),
        }
    }
}

fn ms(ms: f64) -> String {
    format::time(Duration::try_from_secs_f64(ms / 1e3).unwrap_or_default())
}

impl Report for Stats {
    fn render(&self, renderer: &mut Renderer) {
        let up = format::time(Duration::try_from_secs_f64(self.uptime_seconds).unwrap_or_default());
        let draining = if self.draining { renderer.style(Style::Warn, "  draining") } else { String::new() };
        renderer.line(format!("{} {}  up {up}{draining}", renderer.style(Style::Title, "accelerd"), self.version));
        renderer.gap();
        renderer.table(&self.device_table(renderer));
        renderer.gap();
        renderer.table(&self.lane_table(renderer));
        if !self.kernels.is_empty() {
            renderer.gap();
            renderer.table(&self.kernel_table(renderer));
        }
        if !self.cpu_fallbacks.is_empty() {
            renderer.gap();
            renderer.table(&self.fallback_table(renderer));
        }
        if !self.memory.is_empty() {
            renderer.gap();
            renderer.table(&self.memory_table(renderer));
        }
        renderer.gap();
        let Admission { items, item_limit, bytes, byte_limit, refused } = self.admission;
        let budget = format!("{} of {} items", format::count(items), format::count(item_limit));
        let memory = format!("{} of {}", format::bytes(bytes), format::bytes(byte_limit));
        let refused = format::count(refused);
        renderer.line(format!("  {} {budget}, {memory}; {refused} refused", renderer.style(Style::Dim, "admitted")));
    }
}

impl Stats {
    fn device_table(&self, renderer: &Renderer) -> Table {
        let mut table = Table::new(["<device", "<product", "<state", "units", "memory", "?pool used", "?peak"]);
        for device in &self.devices {
            let state = if device.state == "ready" { Style::Good } else { Style::Bad };
            let pool =
                |pick: fn(&Pool) -> u64| device.pool.as_ref().map_or("-".into(), |pool| format::bytes(pick(pool)));
            table.row([
                renderer.style(Style::Name, &device.name),
                device.product.clone(),
                renderer.style(state, device.state),
                device.compute_units.to_string(),
                format::bytes(device.memory_bytes),
                pool(|p| p.used_bytes),
                pool(|p| p.peak_bytes),
            ]);
        }
        table
    }

    fn lane_table(&self, renderer: &Renderer) -> Table {
        let mut table = Table::new([
            "<lane",
            "queued",
            "requests",
            "?req/s",
            "batches",
            "per batch",
            "wait p50",
            "p99",
            "exec p50",
            "p99",
            "?failed",
            "?cancelled",
        ]);
        for lane in &self.lanes {
            let failed = if lane.failed > 0 { Style::Bad } else { Style::Dim };
            table.row([
                renderer.style(Style::Name, &lane.name),
                format::count(lane.queued),
                format::count(lane.requests),
                lane.requests_per_second.map_or("-".into(), format::rate),
                format::count(lane.batches),
                renderer.style(Style::Figure, format!("{:.1}", lane.requests_per_batch)),
                ms(lane.wait_ms.p50),
                ms(lane.wait_ms.p99),
                ms(lane.execute_ms.p50),
                ms(lane.execute_ms.p99),
                renderer.style(failed, format::count(lane.failed)),
                renderer.style(Style::Dim, format::count(lane.cancelled)),
            ]);
        }
        table
    }

    fn kernel_table(&self, renderer: &Renderer) -> Table {
        let mut table = Table::new(["<kernel", "<device", "calls", "total", "mean", "?bandwidth"]);
        let bandwidth = |kernel: &Kernel| match kernel.moved_bytes {
            0 => "-".to_owned(),
            bytes => format!("{:.1} GB/s", bytes as f64 / kernel.total_ms.max(f64::MIN_POSITIVE) / 1e6),
        };
        for kernel in &self.kernels {
            table.row([
                renderer.style(Style::Name, &kernel.name),
                kernel.device.clone(),
                format::count(kernel.calls),
                ms(kernel.total_ms),
                ms(kernel.total_ms / (kernel.calls.max(1) as f64)),
                bandwidth(kernel),
            ]);
        }
        table
    }

    fn fallback_table(&self, renderer: &Renderer) -> Table {
        let mut table = Table::new(["<on the CPU", "<instead of", "<reason", "requests", "?items", "?bytes"]);
        for fallback in &self.cpu_fallbacks {
            table.row([
                renderer.style(Style::Name, &fallback.lane),
                fallback.device.clone(),
                renderer.style(Style::Warn, &fallback.reason),
                format::count(fallback.requests),
                format::count(fallback.items),
                format::bytes(fallback.bytes),
            ]);
        }
        table
    }

    fn memory_table(&self, renderer: &Renderer) -> Table {
        let mut table = Table::new(["<memory", "<use", "in use", "reserved", "limit", "?refused", "?evicted"]);
        let limit = |bytes: u64| if matches!(bytes, 0 | u64::MAX) { "-".into() } else { format::bytes(bytes) };
        for place in &self.memory {
            table.row([
                renderer.style(Style::Name, &place.place),
                "all".into(),
                renderer.style(Style::Figure, format::bytes(place.used_bytes)),
                format::bytes(place.held_bytes),
                limit(place.limit_bytes),
                "-".into(),
                "-".into(),
            ]);
            for account in &place.accounts {
                let refused = if account.refused > 0 { Style::Bad } else { Style::Dim };
                table.row([
                    String::new(),
                    account.kind.clone(),
                    format::bytes(account.used_bytes),
                    format::bytes(account.held_bytes),
                    limit(account.limit_bytes),
                    renderer.style(refused, format::count(account.refused)),
                    renderer.style(Style::Dim, format::bytes(account.evicted_bytes)),
                ]);
            }
            if place.resident_bytes > 0 {
                let resident = format::bytes(place.resident_bytes);
                table.row(["", "process, resident", resident.as_str(), "-", "-", "-", "-"].map(str::to_owned));
            }
        }
        table
    }

    /// Computes the rates since the previous sample, unless the daemon restarted.
    fn since(&mut self, before: &BTreeMap<String, u64>, elapsed: f64) {
        for lane in &mut self.lanes {
            let more = before.get(&lane.name).and_then(|before| lane.requests.checked_sub(*before));
            lane.requests_per_second = more.filter(|_| elapsed > 0.0).map(|more| more as f64 / elapsed);
        }
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        self.lanes.iter().map(|lane| (lane.name.clone(), lane.requests)).collect()
    }
}

pub async fn run(args: &StatsArgs, client: &Client, output: &Output) -> Result {
    if !args.watch {
        return output.show(&Stats::from(client.stats().await?));
    }
    let mut samples = client.watch(args.interval).await?;
    let mut before: Option<(BTreeMap<String, u64>, f64)> = None;
    while let Some(sample) = samples.try_next().await? {
        let mut stats = Stats::from(sample);
        if let Some((counts, uptime)) = &before {
            stats.since(counts, stats.uptime_seconds - uptime);
        }
        before = Some((stats.counts(), stats.uptime_seconds));
        if output.json() {
            output::write_json_lines([&stats])?;
            continue;
        }
        if output.terminal() {
            output::clear()?;
        }
        output.show(&stats)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(requests: u64) -> Stats {
        let lane = proto::LaneStats { name: "embed".into(), request_count: requests, ..Default::default() };
        proto::GetStatsResponse { lanes: vec![lane], ..Default::default() }.into()
    }

    #[test]
    fn rates_are_of_the_time_since_the_last_sample() {
        let mut stats = lane(300);
        stats.since(&lane(100).counts(), 2.0);
        assert_eq!(stats.lanes[0].requests_per_second, Some(100.0));
        let mut restarted = lane(5);
        restarted.since(&lane(100).counts(), 2.0);
        assert_eq!(restarted.lanes[0].requests_per_second, None);
    }

    #[test]
    fn requests_that_the_cpu_computed_instead_of_a_gpu_are_reported_with_the_reason() {
        let fallback = proto::CpuFallback {
            lane: "search".into(),
            device: "cuda:0".into(),
            reason: "out_of_memory".into(),
            request_count: 3,
            item_count: 5,
            size_bytes: 7,
        };
        let stats = Stats::from(proto::GetStatsResponse { cpu_fallbacks: vec![fallback], ..Default::default() });
        let expected = serde_json::json!([{
            "lane": "search", "device": "cuda:0", "reason": "out_of_memory", "requests": 3, "items": 5, "bytes": 7,
        }]);
        assert_eq!(serde_json::to_value(&stats.cpu_fallbacks).expect("it is JSON"), expected);
    }

    #[test]
    fn times_that_are_absent_or_negative_are_zero() {
        assert!(seconds(None).abs() < 1e-12);
        assert!(seconds(Some(&prost_types::Duration { seconds: -5, nanos: 0 })).abs() < 1e-12);
        assert!((seconds(Some(&prost_types::Duration { seconds: 1, nanos: 500_000_000 })) - 1.5).abs() < 1e-9);
    }
}
